//! The inner loop: sixteen shell points at a time against the field, summed to wrench and stiffness.

mod cubic;
mod few;
mod sums;

use super::LEAST_PUSH;
use super::ball::{AHEAD, Place, SPOTS, Spots, combine};
use super::source::{Graded, Source};
use super::sparse::Enough;
use crate::contact::patch::{Gather, TOGETHER};
use crate::contact::vps::PATCHES;
use crate::contact::vps::sorted::Sorted;
use crate::geometry::field::Field;
use crate::geometry::field::block::{Cells, Spot};
use crate::geometry::simd::{LANES, Simd, SimdLevel, apart, dispatch};
use few::First;

/// Blocks that press whose sums stay in f32 lanes before they are added in f64.
const CHUNK: usize = TOGETHER;

/// Sums: total force (3), total torque (3), elastic force (3), area (1), twice the symmetric part of the stiffness (21);
/// force (3) and torque (3) of the parts along the depth gradient, the sum of their sizes (1); the area once more, where points that
/// have only just entered count little (1); of the gradients, each times what its point presses with (3), and of what they press with (1).
const SUMS: usize = 43;
/// Where the elastic force stands, the area, the stiffness, the parts along the depth gradient, the area that changes
/// continuously, and the gradients.
pub(super) const STILL: usize = 6;
pub(super) const AREA: usize = 9;
pub(super) const STIFFNESS: usize = 10;
pub(super) const ALONG: usize = 31;
pub(super) const SOFT_AREA: usize = 38;
pub(super) const GRADIENTS: usize = 39;
/// Force (3), torque (3) and size (1) of what the parts along the gradient lack where a few points are all there is, and what the sum of
/// the gradients does (3).
pub(super) type Lack = [f64; LACKS];
const LACKS: usize = 10;

/// Everything that a block needs, in the tool's frame.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) place: Place<'a>,
    /// Pressure per depth, N/m^3, and per speed, N s/m^3.
    pub(super) pressure: f32,
    pub(super) damping: f32,
    /// Velocity of the tool relative to the object: of the tool's origin (m/s) and angular (rad/s), tool axes.
    pub(super) linear: [f32; 3],
    pub(super) angular: [f32; 3],
    /// A point's whole area counts from so much elastic pressure on, the inverse of it, m^2/N; 0 where nothing presses.
    pub(super) whole: f32,
    /// Friction asks where it presses.
    pub(super) rubs: bool,
    /// Where the depth gradient is read tricubically; from the cells without.
    pub(super) cubic: Option<&'a Field>,
}

/// The deepest point of each patch: depth (m), shell index.
#[derive(Clone, Copy)]
pub(super) struct Deep {
    pub(super) patch: [(f32, u32); PATCHES],
    /// Bit i: patch i has one.
    pub(super) some: u64,
}

impl Deep {
    #[inline(always)]
    pub(super) fn offer(&mut self, patch: usize, depth: f32, id: u32) {
        let best = &mut self.patch[patch % PATCHES];
        if depth > best.0 {
            *best = (depth, id);
            self.some |= 1 << (patch % PATCHES);
        }
    }
}

/// What the blocks visited so far add up to.
#[derive(Clone, Copy)]
pub(super) struct Sums {
    /// What presses, as soon as something does: most queries of a tick need none of this memory.
    force: Option<Force>,
    /// Largest depth in each lane; second: over the points inside the grid only.
    pub(super) deepest: [f32; LANES],
    pub(super) deepest_inside: [f32; LANES],
    /// Block of the largest depth in each lane.
    pub(super) deepest_block: [f32; LANES],
    pub(super) deep: Deep,
    pub(super) touched: bool,
    /// Places of the sixteens under way: scratch memory.
    pub(super) spots: Spots,
    /// From here on the parts along the gradient are not asked for.
    enough: Enough,
}

/// Sums of a kind in each lane.
type Total = [[f64; LANES]; SUMS];

/// Sums as they were, for [`Sums::set`].
#[derive(Clone, Copy)]
pub(super) struct Totals {
    total: Total,
    patches: Option<Gather>,
    lack: Lack,
    /// As in [`Force`], and how many of the first were kept.
    count: usize,
    kept: usize,
}

/// The sums of what presses.
#[derive(Clone, Copy)]
struct Force {
    total: Total,
    /// Where it presses, if that is asked.
    patches: Option<Gather>,
    /// Blocks that press and, the first `waiting` of them, are not in `total` yet.
    pressed: [Pressed; CHUNK],
    waiting: usize,
    /// Points that press, counted until they are many, and the first of them.
    count: usize,
    first: First,
    /// Up to date after the last visit.
    lack: Lack,
}

impl Force {
    #[inline(always)]
    fn none(rubs: bool) -> Self {
        let patches = rubs.then_some(Gather::NONE);
        Self {
            total: [[0.0; LANES]; SUMS],
            patches,
            pressed: [Pressed::NONE; CHUNK],
            waiting: 0,
            count: 0,
            first: First::NONE,
            lack: [0.0; LACKS],
        }
    }
}

/// Sixteen points of which some touch.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Pressed {
    block: u32,
    /// Area, m^2, 0 where nothing touches; force and its elastic part, N.
    area: [f32; LANES],
    force: [f32; LANES],
    still: [f32; LANES],
    /// Depth gradient in the tool's frame, m/m.
    gradient: [[f32; LANES]; 3],
}

impl Pressed {
    const NONE: Self = Self {
        block: 0,
        area: [0.0; LANES],
        force: [0.0; LANES],
        still: [0.0; LANES],
        gradient: [[0.0; LANES]; 3],
    };
}

impl Sums {
    #[inline(always)]
    pub(super) fn new(enough: Enough) -> Self {
        Self {
            force: None,
            deepest: [f32::NEG_INFINITY; LANES],
            deepest_inside: [f32::NEG_INFINITY; LANES],
            deepest_block: [0.0; LANES],
            deep: Deep { patch: [(0.0, 0); PATCHES], some: 0 },
            touched: false,
            spots: [Spot::EMPTY; SPOTS],
            enough,
        }
    }

    /// The sum of a kind over all lanes, up to date after the last visit.
    pub(super) fn total(&self, kind: usize) -> f64 {
        self.force.as_ref().map_or(0.0, |f| f.total[kind].iter().sum())
    }

    /// Where it presses, likewise.
    pub(super) fn patches(&self) -> Option<&Gather> {
        self.force.as_ref()?.patches.as_ref()
    }

    /// What the parts along the gradient lack, likewise, and how many points press, counted until they are many.
    pub(super) fn lack(&self) -> (Lack, usize) {
        self.force.as_ref().map_or(([0.0; LACKS], 0), |f| (f.lack, f.count))
    }

    /// The sums as they are, for [`Sums::set`].
    pub(super) fn totals(&self) -> Option<Totals> {
        self.force.as_ref().map(|f| Totals {
            total: f.total,
            patches: f.patches,
            lack: f.lack,
            count: f.count,
            kept: f.first.len(),
        })
    }

    /// Goes back to earlier sums.
    pub(super) fn set(&mut self, totals: Option<Totals>) {
        if let Some(force) = &mut self.force {
            let patches = force.patches.map(|_| Gather::NONE);
            let none = Totals { total: [[0.0; LANES]; SUMS], patches, lack: [0.0; LACKS], count: 0, kept: 0 };
            let to = totals.unwrap_or(none);
            (force.total, force.patches, force.lack, force.count) = (to.total, to.patches, to.lack, to.count);
            force.first.cut(to.kept);
        }
    }

    /// As long as nothing touches, balls whose depth at the centre plus the radius exceeds this matter too, m: they may
    /// hold the nearest point. It is wanted as well as the field knows it only: with d the true depth, which changes by at
    /// most the distance, D that of the field and e its error, d(x) <= d(c) + r <= D(c) + r + e, so balls up to the best D
    /// seen leave the bound best + e as it is. Infinite once something touches.
    pub(super) fn nearest(&self) -> f32 {
        if self.touched {
            return f32::INFINITY;
        }
        self.deepest.iter().fold(f32::NEG_INFINITY, |m, &v| if v > m { v } else { m })
    }

    /// The deepest point: its block, and which of the sixteen it is.
    pub(super) fn deepest_point(&self) -> (u32, usize) {
        let mut best = (f32::NEG_INFINITY, 0.0, 0);
        for (lane, (&depth, &block)) in self.deepest.iter().zip(&self.deepest_block).enumerate() {
            if depth > best.0 {
                best = (depth, block, lane);
            }
        }
        (best.1 as u32, best.2)
    }
}

/// Adds blocks of the levels.
pub(super) fn visit_graded(
    level: SimdLevel,
    job: &Job<'_>,
    from: &Graded<'_>,
    blocks: &[u32],
    sums: &mut Sums,
) {
    dispatch!(level, run_graded(job: &Job<'_>, from: &Graded<'_>, blocks: &[u32], sums: &mut Sums));
}

/// Adds blocks of the sorted points.
/// Where `most` has a place for a block, it gets the largest depth there, m; infinite where something touches.
pub(super) fn visit_sorted(
    level: SimdLevel,
    job: &Job<'_>,
    from: &Sorted,
    blocks: &[u32],
    sums: &mut Sums,
    most: &mut [f32],
) {
    dispatch!(level, run_sorted(job: &Job<'_>, from: &Sorted, blocks: &[u32], sums: &mut Sums, most: &mut [f32]));
}

/// How deep the points of one block lie: adds no force.
pub(super) fn probe(level: SimdLevel, job: &Job<'_>, from: &Sorted, block: u32, sums: &mut Sums) {
    dispatch!(level, look(job: &Job<'_>, from: &Sorted, block: u32, sums: &mut Sums));
}

/// Brings `total` up to date: once, after the last visit.
pub(super) fn finish_graded(level: SimdLevel, job: &Job<'_>, from: &Graded<'_>, sums: &mut Sums) {
    dispatch!(level, rest(job: &Job<'_>, from: &Graded<'_>, sums: &mut Sums));
}

/// Brings `total` up to date: once, after the last visit.
pub(super) fn finish_sorted(level: SimdLevel, job: &Job<'_>, from: &Sorted, sums: &mut Sums) {
    dispatch!(level, rest(job: &Job<'_>, from: &Sorted, sums: &mut Sums));
}

#[inline(always)]
fn rest<S: Simd, P: Source>(s: S, job: &Job<'_>, from: &P, sums: &mut Sums) {
    if let Some(force) = &mut sums.force {
        sum(s, job, from, force, &sums.enough, &sums.deepest);
        force.lack = [0.0; LACKS];
        if force.count <= sums.enough.few && sums::along_matters(force, &sums.enough, &sums.deepest) {
            force.lack = force.first.lack(s, job);
        }
    }
}

#[inline(always)]
fn run_graded<S: Simd>(s: S, job: &Job<'_>, from: &Graded<'_>, blocks: &[u32], sums: &mut Sums) {
    run(s, job, from, blocks, sums, &mut []);
}

#[inline(always)]
fn run_sorted<S: Simd>(
    s: S,
    job: &Job<'_>,
    from: &Sorted,
    blocks: &[u32],
    sums: &mut Sums,
    most: &mut [f32],
) {
    run(s, job, from, blocks, sums, most);
}

#[inline(always)]
fn look<S: Simd>(s: S, job: &Job<'_>, from: &Sorted, block: u32, sums: &mut Sums) {
    let Some([x, y, z]) = from.at(block as usize) else { return };
    let u = job.place.coordinates(s, [s.load(x), s.load(y), s.load(z)]);
    let cells = Cells::look_up(s, &job.place.grid, u);
    let depth = cells.depth(s);
    s.store(depth, &mut sums.deepest);
    s.store(cells.if_inside(s, depth, s.splat(f32::NEG_INFINITY)), &mut sums.deepest_inside);
    s.store(s.splat(block as f32), &mut sums.deepest_block);
}

#[inline(always)]
fn run<S: Simd, P: Source>(s: S, job: &Job<'_>, from: &P, blocks: &[u32], sums: &mut Sums, most: &mut [f32]) {
    let grid = &job.place.grid;
    let zero = s.splat(0.0);
    let mut deepest = s.load(&sums.deepest);
    let mut inside = s.load(&sums.deepest_inside);
    let mut which = s.load(&sums.deepest_block);
    for step in 0..blocks.len() + AHEAD {
        if let Some(&block) = blocks.get(step) {
            let Some([x, y, z]) = from.at(block as usize) else { break };
            let u = job.place.coordinates(s, [s.load(x), s.load(y), s.load(z)]);
            grid.place(s, u, &mut sums.spots[step % SPOTS]);
        }
        // One step later the stores of `place` have reached the cache.
        if step >= 1 && step <= blocks.len() {
            grid.find(&mut sums.spots[(step - 1) % SPOTS]);
        }
        if step < AHEAD {
            continue;
        }
        let Some(&id) = blocks.get(step - AHEAD) else { break };
        let block = id as usize;
        let cells = Cells::read(s, grid, &sums.spots[(step - AHEAD) % SPOTS]);
        let depth = cells.depth(s);
        which = s.select_le(depth, deepest, which, s.splat(id as f32));
        deepest = s.max(depth, deepest);
        inside = s.max(cells.if_inside(s, depth, s.splat(f32::NEG_INFINITY)), inside);
        let bits = s.gt_bits(depth, zero);
        if let Some(most) = most.get_mut(step - AHEAD) {
            *most = if bits == 0 { s.reduce_max(depth) } else { f32::INFINITY };
        }
        if bits == 0 {
            continue;
        }
        let Some(area) = from.area(s, block) else { break };
        // Lanes that do not touch weigh nothing.
        let area = s.select_le(s.splat(f32::MIN_POSITIVE), depth, area, zero);
        // In two steps, so that it is made where it stays.
        if sums.force.is_none() {
            sums.force = Some(Force::none(job.rubs));
        }
        let Some(force) = &mut sums.force else { break };
        if force.waiting == CHUNK {
            sum(s, job, from, force, &sums.enough, &sums.deepest);
        }
        sums.touched = true;
        let (Some((r, n)), Some(out)) = (block_of(s, from, block), force.pressed.get_mut(force.waiting))
        else {
            break;
        };
        out.block = id;
        press(s, job, &cells, depth, area, r, n, out);
        force.waiting += 1;
        // Of faces that meet at a corner or edge, those across the object's surface do not push, and are not listed.
        let g = &out.gradient;
        let faces = dot(s, n, [s.load(&g[0]), s.load(&g[1]), s.load(&g[2])]);
        let faces = s.max(faces, s.sub(zero, faces));
        let listed = s.select_le(s.splat(LEAST_PUSH as f32), faces, depth, zero);
        from.note(s, block, listed, s.gt_bits(listed, zero), &mut sums.deep);
    }
    s.store(deepest, &mut sums.deepest);
    s.store(inside, &mut sums.deepest_inside);
    s.store(which, &mut sums.deepest_block);
}

apart! {
    /// Adds the blocks that wait: always the same sixteens, whatever blocks without a touch lie between. Where so much presses,
    /// and so deep, that [`super::sparse::settled`] does not look at the parts along the gradient, they are left out: both only
    /// grow, so it stays so.
    fn sum['a; P: Source](
        job: &'a Job<'a>,
        from: &'a P,
        force: &'a mut Force,
        enough: &'a Enough,
        deepest: &'a [f32; LANES],
    ) -> () = sums::sum_here
}

/// Pressure times area of one block, and what its stiffness is made of.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn press<S: Simd>(
    s: S,
    job: &Job<'_>,
    cells: &Cells<S>,
    depth: S::F,
    area: S::F,
    r: [S::F; 3],
    n: [S::F; 3],
    out: &mut Pressed,
) {
    let zero = s.splat(0.0);
    let gradient = match job.cubic {
        Some(field) => cubic::gradient(s, &job.place, field, r, depth),
        None => job.place.gradient(s, cells.gradient(s)),
    };
    for axis in 0..3 {
        s.store(gradient[axis], &mut out.gradient[axis]);
    }
    let d = s.max(depth, zero);
    let m = cross(s, r, n);
    let elastic = s.mul(s.splat(job.pressure), d);
    // Speed of the surface against its inward normal; the damping never exceeds the spring, so it starts from 0.
    let along = s.add(combine(s, job.linear, n), combine(s, job.angular, m));
    let approach = s.max(s.mul(s.splat(-job.damping), along), zero);
    let pressure = s.add(elastic, s.min(approach, elastic));
    s.store(area, &mut out.area);
    s.store(s.mul(area, pressure), &mut out.force);
    s.store(s.mul(area, elastic), &mut out.still);
}

/// Positions and normals of a block.
#[inline(always)]
fn block_of<S: Simd, P: Source>(s: S, from: &P, block: usize) -> Option<([S::F; 3], [S::F; 3])> {
    let ([x, y, z], [nx, ny, nz]) = (from.at(block)?, from.normal(block)?);
    Some(([s.load(x), s.load(y), s.load(z)], [s.load(nx), s.load(ny), s.load(nz)]))
}

#[inline(always)]
fn dot<S: Simd>(s: S, a: [S::F; 3], b: [S::F; 3]) -> S::F {
    s.add(s.add(s.mul(a[0], b[0]), s.mul(a[1], b[1])), s.mul(a[2], b[2]))
}

#[inline(always)]
fn cross<S: Simd>(s: S, a: [S::F; 3], b: [S::F; 3]) -> [S::F; 3] {
    [
        s.sub(s.mul(a[1], b[2]), s.mul(a[2], b[1])),
        s.sub(s.mul(a[2], b[0]), s.mul(a[0], b[2])),
        s.sub(s.mul(a[0], b[1]), s.mul(a[1], b[0])),
    ]
}
