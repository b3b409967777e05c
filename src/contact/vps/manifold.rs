//! Contact manifolds: the few contacts that stand for all penetrating points (Sagardia, Stouraitis and Lopes e Silva 2014,
//! section 3.2: the deepest point, then points that make the area largest).
//!
//! All points that push are looked at. What is kept of them is the farthest in each of 98 directions, which
//! hold the corners of any area up to the gap between the directions, so that the reduction needs no list of all points. (Of
//! a long, thin area only the ends are surely among them.)

#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types,
        clippy::expect_used,
        clippy::panic,
        clippy::unwrap_used
    )
)]

mod support;

use super::query::{contact_point, place_of, pushed};
use super::{Normals, PointShell};
use crate::contact::{Contact, ContactPoint, MAX_POINTS, Query, ToolShape};
use crate::geometry::field::Field;
use crate::geometry::pose::pose_is_finite;
use crate::geometry::simd::level;
use crate::geometry::{Point, Pose, Vec3};
use support::{DIRECTIONS, Support};

/// How a manifold is reduced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ManifoldParams {
    /// Most contacts: 1 to [`MAX_POINTS`]. Four is what physics engines take.
    pub contacts: u8,
    /// A contact of the last tick keeps its place unless another one is deeper, or adds more area, by this part.
    pub keep: f64,
    /// Whose normals; the object's are always read tricubically.
    pub normals: Normals,
}

impl Default for ManifoldParams {
    /// Four contacts with the object's normals, kept unless beaten by a fifth.
    fn default() -> Self {
        Self { contacts: 4, keep: 0.2, normals: Normals::Field }
    }
}

/// The contacts of a tool with an object, from tick to tick. Fixed size, no heap.
///
/// ```
/// use hapticd::contact::vps::{Manifold, ManifoldParams, PointShell, ShellParams};
/// use hapticd::contact::{Friction, Material, Texture, ObjectShape, Query, ToolShape};
/// use hapticd::geometry::{Point, Pose, Twist, Vec3, field::Field, shapes};
/// use std::sync::Arc;
///
/// // A cube of 40 mm, a millimetre deep in the floor z < 0: it stands on its four corners.
/// let shell = PointShell::build(&shapes::cuboid(Vec3::repeat(0.04)), ShellParams::points(4000))?;
/// let floor = Field::from_fn(Point::new(-0.05, -0.05, -0.02), 0.002, [51, 51, 21], |p| -p.z);
/// let pose = Pose::translation(0.0, 0.0, 0.019);
/// let mut manifold = Manifold::default();
/// let contacts = manifold.update(
///     &Query {
///         tool: &ToolShape::Shell(Arc::new(shell)),
///         tool_pose: &pose,
///         tool_twist: &Twist::ZERO,
///         object: &ObjectShape::Field(Arc::new(floor)),
///         object_pose: &Pose::identity(),
///         object_twist: &Twist::ZERO,
///         material: &Material { stiffness: 1000.0, reference_area: 1e-4, damping: 0.0, friction: Friction::NONE, texture: Texture::NONE },
///     },
///     &ManifoldParams::default(),
/// );
/// assert_eq!(contacts.len(), 4);
/// assert!(contacts.iter().all(|c| c.position.x.abs() > 0.0199 && c.position.y.abs() > 0.0199));
/// assert!(contacts.iter().all(|c| (c.normal - Vec3::z()).norm() < 1e-3));
/// # Ok::<(), hapticd::contact::vps::ShellError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Manifold {
    points: [ContactPoint; MAX_POINTS],
    n: u8,
    /// Stamp of the shell that the points are of; 0 = none.
    shell: u64,
}

impl Default for Manifold {
    fn default() -> Self {
        Self { points: Contact::none(None).points, n: 0, shell: 0 }
    }
}

impl Manifold {
    /// The contacts of the last [`Manifold::update`]. Real-time safe.
    pub fn contacts(&self) -> &[ContactPoint] {
        self.points.get(..usize::from(self.n)).unwrap_or(&[])
    }

    /// Reduces the points that push at this pose: the first contact is the deepest, the others make the area largest,
    /// seen along the mean push. `id` is the point's index in the shell, so that an engine finds its warm start; `depth` is the object's depth
    /// there. A contact whose point still pushes keeps its id and its place unless clearly beaten
    /// ([`ManifoldParams::keep`]); so the first one may be less deep than the deepest by that part. No contact is
    /// listed that widens the area by less than the sampling knows.
    ///
    /// All points in reach are visited: the time is that of an unlimited query, and some 3 ns more for each point that
    /// pushes. Empty where the tool is no shell, and for a pose that is not finite. Real-time safe.
    pub fn update(&mut self, q: &Query<'_>, params: &ManifoldParams) -> &[ContactPoint] {
        let before = *self;
        self.n = 0;
        let relative = q.object_pose.inv_mul(q.tool_pose);
        let (ToolShape::Shell(shell) | ToolShape::Both(shell, _)) = q.tool else { return &[] };
        if !pose_is_finite(&relative) {
            return &[];
        }
        self.shell = shell.stamp.number();
        let field = q.object.field();
        let mut kept = [u32::MAX; MAX_POINTS];
        if before.shell == self.shell {
            for (kept, point) in kept.iter_mut().zip(before.contacts()) {
                *kept = point.id;
            }
        }
        let mut choice = Choice::new(shell, params, kept);
        let mut support = Support::new();
        let sound = pushed(level(), shell, field, &relative, |p| {
            support.offer(p);
            choice.offer_kept(p);
        });
        if !sound {
            return &[];
        }
        for candidate in support.found() {
            choice.offer(candidate.0, candidate.1);
        }
        choice.flatten(field, &relative);
        for chosen in choice.reduce().iter().flatten() {
            let point = contact_point(q, shell, field, chosen.id, f64::from(chosen.depth), 0.0);
            if let (Some(mut point), Some(slot)) = (point, self.points.get_mut(usize::from(self.n))) {
                if params.normals != Normals::Shell
                    && let Some(at) = place_of(shell, chosen.id)
                {
                    // The smooth gradient, so that the normal does not jump from cell to cell.
                    let (_, gradient) = field.cubic(&(relative * at));
                    let out = q.object_pose.rotation * -gradient;
                    point.normal = out.try_normalize(LEAST_GRADIENT).unwrap_or(point.normal);
                }
                *slot = point;
                self.n += 1;
            }
        }
        self.contacts()
    }
}

/// A point that may become a contact.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    id: u32,
    depth: f32,
    /// Tool frame, m.
    at: Point,
}

/// Most candidates: one for each direction, the deepest, and what was kept.
const CANDIDATES: usize = DIRECTIONS + 1 + MAX_POINTS;
/// The object's normal is that of the field from so long a gradient on: it is 1 but near the middle of the solid.
const LEAST_GRADIENT: f64 = 0.1;
/// Depths within this part count as equal.
const EQUAL: f64 = 1e-3;
/// A second contact is at least so many point spacings away, a third lies so far from their line.
const APART: f64 = 0.25;
/// A fourth or later contact widens the area by at least this part.
const WIDENS: f64 = 0.01;
/// Pushes that add up to this part of their sizes have a common direction.
const TOGETHER: f64 = 0.5;
/// Contacts within this part of the first two's distance lie in one plane.
const OUT: f64 = 0.25;

/// Choosing among candidates.
struct Choice<'a> {
    shell: &'a PointShell,
    most: usize,
    keep: f64,
    kept: [u32; MAX_POINTS],
    candidates: [Option<Candidate>; CANDIDATES],
    n: usize,
    /// Square root of what a point stands for, m.
    spacing: f64,
}

impl<'a> Choice<'a> {
    fn new(shell: &'a PointShell, params: &ManifoldParams, kept: [u32; MAX_POINTS]) -> Self {
        Self {
            shell,
            most: usize::from(params.contacts).clamp(1, MAX_POINTS),
            keep: if params.keep > 0.0 { params.keep } else { 0.0 },
            kept,
            candidates: [None; CANDIDATES],
            n: 0,
            spacing: shell.spacing(),
        }
    }

    fn offer(&mut self, id: u32, depth: f32) {
        let known = self.candidates.iter().take(self.n).flatten().any(|c| c.id == id);
        if let (false, Some(at), Some(slot)) =
            (known, place_of(self.shell, id), self.candidates.get_mut(self.n))
        {
            *slot = Some(Candidate { id, depth, at });
            self.n += 1;
        }
    }

    /// Those of sixteen that were contacts before.
    fn offer_kept(&mut self, p: &super::query::Pushed<'_>) {
        if self.kept.first() == Some(&u32::MAX) {
            return;
        }
        for (&id, &depth) in p.block.id.iter().zip(p.depth) {
            if depth > 0.0 && self.kept.contains(&id) {
                self.offer(id, depth);
            }
        }
    }

    /// Areas are those seen along the mean push, where the pushes have a common direction; a body that is held from all sides
    /// keeps its depth.
    fn flatten(&mut self, field: &Field, relative: &Pose) {
        let (mut push, mut size) = (Vec3::zeros(), 0.0);
        for c in self.candidates.iter().take(self.n).flatten() {
            let (_, gradient) = field.depth_gradient(&(relative * c.at));
            push -= gradient * f64::from(c.depth);
            size += gradient.norm() * f64::from(c.depth);
        }
        let push = relative.rotation.inverse() * push;
        if push.norm() > TOGETHER * size
            && let Some(along) = push.try_normalize(0.0)
        {
            for c in self.candidates.iter_mut().take(self.n).flatten() {
                c.at -= along * along.dot(&c.at.coords);
            }
        }
    }

    /// How much more a candidate counts at a place for having been a contact: most for having had that place.
    fn favour(&self, place: usize, id: u32) -> f64 {
        if self.kept.get(place) == Some(&id) {
            1.0 + self.keep
        } else if self.kept.contains(&id) {
            1.0 + 0.5 * self.keep
        } else {
            1.0
        }
    }

    /// The candidate with the largest merit at a place, if that is above `least`; none that has one of the places before.
    fn best(
        &self,
        before: &[Option<Candidate>],
        least: f64,
        merit: impl Fn(&Candidate) -> f64,
    ) -> Option<Candidate> {
        let place = before.len();
        let mut best: Option<(f64, Candidate)> = None;
        for c in self.candidates.iter().take(self.n).flatten() {
            if before.iter().flatten().any(|b| b.id == c.id) {
                continue;
            }
            let merit = merit(c) * self.favour(place, c.id);
            if merit > best.map_or(least, |b| b.0) {
                best = Some((merit, *c));
            }
        }
        best.map(|b| b.1)
    }

    /// The contacts, deepest first.
    fn reduce(&self) -> [Option<Candidate>; MAX_POINTS] {
        let mut chosen = [None; MAX_POINTS];
        let Some(first) = self.deepest() else { return chosen };
        chosen[0] = Some(first);
        let apart = APART * self.spacing;
        let second = self.best(&chosen[..1], apart * apart, |c| (c.at - first.at).norm_squared());
        let Some(second) = second.filter(|_| self.most > 1) else { return chosen };
        chosen[1] = Some(second);
        let side = second.at - first.at;
        let area = |c: &Candidate| 0.5 * side.cross(&(c.at - first.at)).norm();
        let third = self.best(&chosen[..2], 0.5 * side.norm() * apart, area).filter(|_| self.most > 2);
        let Some(third) = third else { return chosen };
        chosen[2] = Some(third);
        let mut outline = Outline::new(&first.at, &second.at, &third.at);
        for place in 3..self.most {
            let least = WIDENS * outline.area();
            let before = chosen.get(..place).unwrap_or(&[]);
            let Some(next) = self.best(before, least, |c| outline.gain(&c.at)) else { break };
            outline.add(&next.at);
            if let Some(slot) = chosen.get_mut(place) {
                *slot = Some(next);
            }
        }
        chosen
    }

    /// The deepest; of several as deep (a flat face) the one farthest from their middle.
    fn deepest(&self) -> Option<Candidate> {
        let deepest = self.best(&[], 0.0, |c| f64::from(c.depth))?;
        let favour = |c: &Candidate| self.favour(0, c.id);
        if favour(&deepest) > 1.0 {
            return Some(deepest);
        }
        let equal = |c: &&Candidate| f64::from(c.depth) >= f64::from(deepest.depth) * (1.0 - EQUAL);
        let among = || self.candidates.iter().take(self.n).flatten().filter(equal);
        let (sum, n) = among().fold((Vec3::zeros(), 0.0), |(s, n), c| (s + c.at.coords, n + 1.0));
        let middle = Point::from(sum / n);
        let mut best = (0.0, deepest);
        for c in among() {
            let d = (c.at - middle).norm_squared();
            if d > best.0 {
                best = (d, *c);
            }
        }
        Some(best.1)
    }
}

/// The convex outline of contacts in the plane of the first three, counter-clockwise.
struct Outline {
    origin: Point,
    axes: [Vec3; 3],
    /// Length of the first side, m.
    length: f64,
    corners: [[f64; 2]; MAX_POINTS],
    n: usize,
}

impl Outline {
    fn new(a: &Point, b: &Point, c: &Point) -> Self {
        let side = b - a;
        let length = side.norm().max(f64::MIN_POSITIVE);
        let x = side / length;
        let up = side.cross(&(c - a));
        let z = up / up.norm().max(f64::MIN_POSITIVE);
        let mut outline =
            Self { origin: *a, axes: [x, z.cross(&x), z], length, corners: [[0.0; 2]; MAX_POINTS], n: 3 };
        let flat = [a, b, c].map(|p| outline.flat(p));
        for (corner, at) in outline.corners.iter_mut().zip(flat) {
            *corner = at;
        }
        outline
    }

    fn flat(&self, p: &Point) -> [f64; 2] {
        let v = p - self.origin;
        [v.dot(&self.axes[0]), v.dot(&self.axes[1])]
    }

    fn corner(&self, i: usize) -> [f64; 2] {
        self.corners.get(i % self.n.max(1)).copied().unwrap_or_default()
    }

    /// Twice the area by which a point extends the outline beyond its i-th side, m^2; negative on the inner side.
    fn beyond(&self, i: usize, p: [f64; 2]) -> f64 {
        let (a, b) = (self.corner(i), self.corner(i + 1));
        -((b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0]))
    }

    fn area(&self) -> f64 {
        0.5 * (0..self.n).map(|i| -self.beyond(i, [0.0; 2])).sum::<f64>()
    }

    /// Area that a point adds, m^2; far out of the plane (a pin held all around) that of the triangle up to it too.
    fn gain(&self, p: &Point) -> f64 {
        let flat = self.flat(p);
        let added: f64 = (0..self.n).map(|i| self.beyond(i, flat).max(0.0)).sum();
        let height = (p - self.origin).dot(&self.axes[2]).abs() - OUT * self.length;
        0.5 * (added + height.max(0.0) * self.length)
    }

    /// Takes a point in: the corners between the sides that it sees go.
    fn add(&mut self, p: &Point) {
        let flat = self.flat(p);
        let mut out = [[0.0; 2]; MAX_POINTS];
        let mut n = 0;
        let mut push = |corner| {
            if let Some(slot) = out.get_mut(n) {
                *slot = corner;
                n += 1;
            }
        };
        for i in 0..self.n {
            let (before, after) = (self.beyond(i + self.n - 1, flat) > 0.0, self.beyond(i, flat) > 0.0);
            if !(before && after) {
                push(self.corner(i));
            }
            if after && !before {
                push(flat);
            }
        }
        (self.corners, self.n) = (out, n);
    }
}
