//! The segmented traverse: a shell in clusters, each with its own answer (Sagardia, Stouraitis and Lopes e Silva 2014,
//! section 2.4).
//!
//! A physics engine takes few contacts a body and solves them together. Of a tool that touches in several places the
//! deepest points may all lie in one of them; a contact from each cluster keeps the others. The clusters are those of one
//! level of a tree over the points, split in two from level to level (the paper's are split in K, of which it usually takes
//! about 15 clusters).

use super::ball::Place;
use super::kernel::{ALONG, AREA, GRADIENTS, SOFT_AREA, Sums, finish_sorted, visit_sorted};
use super::near::{each_pushing, near};
use super::sparse::{Enough, Sampling, few, settled, spread};
use super::{cell, contact_point, job, parts_of};
use crate::contact::vps::PointShell;
use crate::contact::vps::sorted::Sorted;
use crate::contact::{ContactPoint, Query, ToolShape};
use crate::geometry::pose::pose_is_finite;
use crate::geometry::simd::{LANES, level};
use crate::geometry::{Vec3, Wrench};
use std::ops::Range;

/// What one cluster of the shell answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// Force and torque of the cluster's points on the tool about the tool's origin, scene axes; N, N·m. By the
    /// pressure law, whatever the shell's own is: those of all segments add up to the wrench that an unlimited
    /// [`crate::contact::query`] gives for the points by that law, to the rounding of f32.
    pub wrench: Wrench,
    /// Its deepest point that pushes; `None` when it does not touch.
    pub deepest: Option<ContactPoint>,
    /// Surface of the cluster inside the object, m^2.
    pub pressed: f64,
}

impl Segment {
    const NOTHING: Self = Self { wrench: Wrench::ZERO, deepest: None, pressed: 0.0 };
}

/// A shell cut into clusters, and what each of them answered last.
///
/// ```
/// use hapticd::contact::vps::{PointShell, Segments, ShellParams};
/// use hapticd::contact::{Friction, Material, Texture, ObjectShape, Query, ToolShape};
/// use hapticd::geometry::{Point, Pose, Twist, Vec3, field::Field, shapes};
/// use std::sync::Arc;
///
/// // A cube of 40 mm, a millimetre deep in the floor z < 0.
/// let shell = PointShell::build(&shapes::cuboid(Vec3::repeat(0.04)), ShellParams::points(4000))?;
/// let mut segments = Segments::about(&shell, 15);
/// let floor = Field::from_fn(Point::new(-0.05, -0.05, -0.02), 0.002, [51, 51, 21], |p| -p.z);
/// let pose = Pose::translation(0.0, 0.0, 0.019);
/// let answers = segments.update(&Query {
///     tool: &ToolShape::Shell(Arc::new(shell)),
///     tool_pose: &pose,
///     tool_twist: &Twist::ZERO,
///     object: &ObjectShape::Field(Arc::new(floor)),
///     object_pose: &Pose::identity(),
///     object_twist: &Twist::ZERO,
///     material: &Material { stiffness: 1000.0, reference_area: 1e-4, damping: 0.0, friction: Friction::NONE, texture: Texture::NONE },
/// });
/// let deepest = answers.iter().filter_map(|s| s.deepest);
/// assert!(deepest.clone().count() >= 4);
/// assert!(deepest.clone().all(|p| (p.depth - 0.001).abs() < 1e-5));
/// # Ok::<(), hapticd::contact::vps::ShellError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Segments {
    /// Stamp of the shell.
    shell: u64,
    level: u32,
    blocks: Box<[Range<usize>]>,
    answers: Box<[Segment]>,
    /// What each summed before it was settled.
    sums: Box<[Kept]>,
}

/// Of one cluster: what is pushed along the normals and along the depth gradient, what the latter lacks where a few points are all
/// there is, and the deepest point that pushes, if its depth is positive.
#[derive(Clone, Copy, Debug)]
struct Kept {
    normals: Wrench,
    along: Wrench,
    lack: Wrench,
    deepest: (f32, u32),
}

impl Kept {
    const NOTHING: Self =
        Self { normals: Wrench::ZERO, along: Wrench::ZERO, lack: Wrench::ZERO, deepest: (0.0, 0) };
}

impl Segments {
    /// The clusters of `shell` at `level`: 1 is the whole, and from one level to the next each is split in two where it
    /// is longest, down to sixteen points. Allocates; not for the servo.
    #[allow(clippy::disallowed_methods, reason = "made beforehand, not in the servo")]
    pub fn new(shell: &PointShell, level: u32) -> Self {
        let blocks: Box<[_]> = Sorted::clusters(shell.len, level).into();
        Self {
            shell: shell.stamp.number(),
            level: level.max(1),
            answers: blocks.iter().map(|_| Segment::NOTHING).collect(),
            sums: blocks.iter().map(|_| Kept::NOTHING).collect(),
            blocks,
        }
    }

    /// Of the level with about `count` clusters. Allocates; not for the servo.
    pub fn about(shell: &PointShell, count: usize) -> Self {
        Self::new(shell, 1 + (count.max(1) as f64).log2().round() as u32)
    }

    /// The level.
    pub fn level(&self) -> u32 {
        self.level
    }

    /// The answers of the last [`Segments::update`], one for each cluster. Real-time safe.
    pub fn answers(&self) -> &[Segment] {
        &self.answers
    }

    /// Indices of the points of cluster `i` in the shell.
    pub fn points<'a>(&self, shell: &'a PointShell, i: usize) -> impl Iterator<Item = u32> + use<'a> {
        let blocks = self.blocks.get(i).cloned().unwrap_or(0..0);
        let first = blocks.start * LANES;
        let end = (blocks.end * LANES).min(shell.len);
        let sorted = shell.sorted.blocks.get(blocks).unwrap_or(&[]);
        sorted.iter().flat_map(|b| b.id).take(end.saturating_sub(first))
    }

    /// Answers for each cluster by itself, all points that may touch. Where the tool is no shell, or another one than the
    /// segments were made of, and for a pose that is not finite, nothing touches. Real-time safe.
    pub fn update(&mut self, q: &Query<'_>) -> &[Segment] {
        self.answers.fill(Segment::NOTHING);
        let (ToolShape::Shell(shell) | ToolShape::Both(shell, _)) = q.tool else { return &self.answers };
        let field = q.object.field();
        let relative = q.object_pose.inv_mul(q.tool_pose);
        let place = Place::new(field, &relative, shell.bound_radius, field.sample_error());
        let sound = pose_is_finite(&relative) && q.tool_twist.is_finite() && q.object_twist.is_finite();
        let Some(place) = place.filter(|_| sound && shell.stamp.number() == self.shell) else {
            return &self.answers;
        };
        let (simd, job) = (level(), job(q, shell, field, place));
        let cell = cell(shell, shell.len as f64);
        // The parts along the gradient are wanted from each: whether they count is known at the end.
        let (mut normals, mut along, mut lack) = (Wrench::ZERO, Wrench::ZERO, Wrench::ZERO);
        // Sizes of the parts, and what they lack; m^2; m.
        let (mut size, mut size_lack, mut soft, mut depth) = (0.0, 0.0, 0.0, 0.0f64);
        // The gradients' sum, what it lacks, and what it is of.
        let (mut gradients, mut gradients_lack, mut presses) = (Vec3::zeros(), Vec3::zeros(), 0.0);
        let mut points = 0;
        let never = Enough::never(&shell.law);
        let mut sums = Sums::new(never);
        let mut fresh = true;
        for ((blocks, answer), kept) in self.blocks.iter().zip(&mut self.answers).zip(&mut self.sums) {
            *kept = Kept::NOTHING;
            if !fresh {
                sums = Sums::new(Enough { few: never.few.saturating_sub(points), ..never });
            }
            near(simd, &place, &shell.sorted.tree, blocks, |found| {
                visit_sorted(simd, &job, &shell.sorted, found, &mut sums, &mut []);
                each_pushing(simd, &place, &shell.sorted, found, |block, depth| {
                    for (&depth, &id) in depth.iter().zip(&block.id) {
                        if depth > kept.deepest.0 {
                            kept.deepest = (depth, id);
                        }
                    }
                });
            });
            fresh = !sums.touched;
            if fresh {
                continue;
            }
            finish_sorted(simd, &job, &shell.sorted, &mut sums);
            let total = |i: usize| sums.total(i);
            let triple = |i: usize| Vec3::new(total(i), total(i + 1), total(i + 2));
            let wrench = |i: usize| Wrench { force: triple(i), torque: triple(i + 3) };
            let (missing, count) = sums.lack();
            let (missing, missing_size, missing_gradients) = parts_of(&missing);
            (kept.normals, kept.along, kept.lack) = (wrench(0), wrench(ALONG), missing);
            normals += kept.normals;
            along += kept.along;
            lack += kept.lack;
            size += total(ALONG + 6);
            gradients += triple(GRADIENTS);
            presses += total(GRADIENTS + 3);
            size_lack += missing_size;
            gradients_lack += missing_gradients;
            points += count;
            soft += total(SOFT_AREA);
            answer.pressed = total(AREA);
            depth = depth.max(sums.deepest.iter().fold(0.0, |m, &d| m.max(f64::from(d))));
        }
        let sampling = Sampling { points: soft / cell, depth: depth / cell.sqrt() };
        let few = few(points);
        let part = if shell.law.along_gradient() {
            1.0
        } else {
            let size = size + few * size_lack;
            let spread = spread(&(gradients + few * gradients_lack), presses);
            settled(&normals, &(along + lack.scaled(few)), size, spread, &sampling).1
        };
        let turn = &q.tool_pose.rotation;
        for (answer, kept) in self.answers.iter_mut().zip(&self.sums) {
            let Kept { normals, along, lack, deepest: (depth, id) } = kept;
            let along = *along + lack.scaled(few);
            let force = normals.force + (along.force - normals.force) * part;
            let torque = normals.torque + (along.torque - normals.torque) * part;
            answer.wrench = Wrench { force: turn * force, torque: turn * torque };
            if *depth > 0.0 {
                answer.deepest = contact_point(q, shell, field, *id, f64::from(*depth), part);
            }
        }
        &self.answers
    }
}
