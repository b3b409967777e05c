//! The inner loop: sixteen shell points at a time against the field, summed to wrench and stiffness.

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

use super::tree::Tier;
use super::{PATCHES, PointShell, UNSORTED};
use crate::geometry::field::block::{Cells, Grid, Spot};
use crate::geometry::simd::{LANES, Simd, SimdLevel, dispatch};

/// Blocks whose sums stay in f32 lanes before they are added in f64; also how often a deadline is looked at.
pub(super) const CHUNK: usize = 32;

/// Sums: total force (3), total torque (3), elastic force (3), twice the symmetric part of the stiffness (21).
pub(super) const SUMS: usize = 30;

/// Everything that a block needs, in the tool's frame.
pub(super) struct Job<'a> {
    pub(super) shell: &'a PointShell,
    pub(super) grid: Grid<'a>,
    /// Tool frame (m) to grid coordinates: 3 x 3 by rows, then the offset.
    pub(super) to_grid: [f32; 9],
    pub(super) offset: [f32; 3],
    /// Pressure per depth, N/m^3, and per speed, N s/m^3.
    pub(super) pressure: f32,
    pub(super) damping: f32,
    /// Velocity of the tool relative to the object: of the tool's origin (m/s) and angular (rad/s), tool axes.
    pub(super) linear: [f32; 3],
    pub(super) angular: [f32; 3],
    /// Weights of the blocks before `blend_until`: `(1 - t) coarse + t fine`; of the others: `fine`.
    pub(super) coarse: &'a [[f32; LANES]],
    pub(super) fine: &'a [[f32; LANES]],
    pub(super) blend_until: usize,
    pub(super) t: f32,
    /// The level granted in part, if any.
    pub(super) partial: Partial,
    /// The depth at a point exceeds that at another by at most their distance plus this, m.
    pub(super) margin: f32,
    /// And by at most their distance times `steep` plus `rounding` (m).
    pub(super) steep: f32,
    pub(super) rounding: f32,
}

/// A level of which only some blocks are granted: those of the lowest ranks, the last of them with fading weight, so
/// that a budget that grows by a block does not add the whole block at once.
#[derive(Clone, Copy)]
pub(super) struct Partial {
    /// First block of the level.
    pub(super) first: usize,
    /// Blocks granted.
    pub(super) granted: u32,
    /// Blocks over which the weight fades, plus one.
    pub(super) fade: f32,
}

impl Partial {
    pub(super) const NONE: Self = Self { first: usize::MAX, granted: 0, fade: 1.0 };

    /// Fades over at most this many blocks.
    const FADE: u32 = 12;

    pub(super) fn new(first: usize, granted: u32, blocks: u32) -> Self {
        let fade = Self::FADE.min(granted / 2).min(blocks.saturating_sub(granted));
        Self { first, granted, fade: fade as f32 + 1.0 }
    }

    /// Weight of a block, 0 = not visited.
    #[inline(always)]
    pub(super) fn weight(&self, shell: &PointShell, block: usize) -> f32 {
        if block < self.first {
            return 1.0;
        }
        match shell.rank.get(block) {
            Some(&rank) if rank < self.granted => {
                let w = (self.granted - rank) as f32 / self.fade;
                if w < 1.0 { w } else { 1.0 }
            }
            _ => 0.0,
        }
    }
}

/// What the blocks visited so far add up to.
#[derive(Clone, Copy)]
pub(super) struct Sums {
    pub(super) total: [[f64; LANES]; SUMS],
    /// Largest depth in each lane; second: over the points inside the grid only.
    pub(super) deepest: [f32; LANES],
    pub(super) deepest_inside: [f32; LANES],
    /// Deepest point of each patch: depth (m), shell index.
    pub(super) patch: [(f32, u32); PATCHES],
    pub(super) touched: bool,
    /// Places of the blocks under way, and what presses: scratch memory of [`visit`].
    spots: [Spot; SPOTS],
    pressed: [Pressed; CHUNK],
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

/// Blocks whose places are known before the first of them is read: by then the CPU has fetched its cells.
const AHEAD: usize = 4;
/// Power of two above [`AHEAD`].
const SPOTS: usize = 8;

impl Sums {
    pub(super) fn new() -> Self {
        Self {
            total: [[0.0; LANES]; SUMS],
            deepest: [f32::NEG_INFINITY; LANES],
            deepest_inside: [f32::NEG_INFINITY; LANES],
            patch: [(0.0, 0); PATCHES],
            touched: false,
            spots: [Spot::EMPTY; SPOTS],
            pressed: [Pressed::NONE; CHUNK],
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

    /// Keeps the deepest point of each patch. Behind the unsorted start a block lies together, in one patch.
    #[inline(always)]
    fn note_deepest<S: Simd>(&mut self, s: S, shell: &PointShell, block: usize, depth: S::F, bits: u16) {
        let first = block * LANES;
        if first < UNSORTED {
            let mut each = [0.0; LANES];
            s.store(depth, &mut each);
            let mut rest = bits;
            while rest != 0 {
                let lane = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                self.offer(shell, first + lane, each[lane]);
            }
        } else {
            let d = s.max(depth, s.splat(0.0));
            let most = s.reduce_max(d);
            // The first lane that is not less than the largest.
            let less = s.gt_bits(s.splat(most), d);
            self.offer(shell, first + (!less).trailing_zeros() as usize % LANES, most);
        }
    }

    #[inline(always)]
    fn offer(&mut self, shell: &PointShell, id: usize, depth: f32) {
        let patch = shell.patch.get(id).copied().unwrap_or(0);
        let best = &mut self.patch[usize::from(patch) % PATCHES];
        if depth > best.0 {
            *best = (depth, id as u32);
        }
    }
}

/// Which of the balls `first..first + n` (at most 16) may touch, or have a depth at the centre plus the radius above
/// `nearest`: bit i for ball `first + i`.
///
/// With the names of [`Sums::nearest`], D(x) <= d(x) + e <= D(c) + r + 2e; and as neighbouring nodes differ by at most a
/// cell (and what quantisation and bricks add), D changes by at most the square root of 3 times the distance. Outside the grid both hold as well: there D bounds d
/// from above, and the nearest point of the box moves no farther than x.
pub(super) fn over(
    level: SimdLevel,
    job: &Job<'_>,
    tier: &Tier,
    first: usize,
    n: usize,
    nearest: f32,
) -> u16 {
    dispatch!(level, ball_bits(job: &Job<'_>, tier: &Tier, first: usize, n: usize, nearest: f32) -> u16)
}

/// [`over`], with nothing nearest wanted and balls twice as large: all below which [`soft_count`] may count something.
pub(super) fn about(level: SimdLevel, job: &Job<'_>, tier: &Tier, first: usize, n: usize) -> u16 {
    dispatch!(level, wide_bits(job: &Job<'_>, tier: &Tier, first: usize, n: usize) -> u16)
}

#[inline(always)]
fn wide_bits<S: Simd>(s: S, job: &Job<'_>, tier: &Tier, first: usize, n: usize) -> u16 {
    let Some((depth, radius)) = ball_depths(s, job, tier, first) else { return 0 };
    let bits = s.gt_bits(touch_reach(s, job, depth, s.add(radius, radius)), s.splat(0.0));
    if n < LANES { bits & ((1 << n) - 1) } else { bits }
}

#[inline(always)]
fn ball_bits<S: Simd>(s: S, job: &Job<'_>, tier: &Tier, first: usize, n: usize, nearest: f32) -> u16 {
    let Some((depth, radius)) = ball_depths(s, job, tier, first) else { return 0 };
    let mut bits = s.gt_bits(touch_reach(s, job, depth, radius), s.splat(0.0));
    if nearest < f32::INFINITY {
        bits |= s.gt_bits(s.add(depth, radius), s.splat(nearest));
    }
    if n < LANES { bits & ((1 << n) - 1) } else { bits }
}

/// How many of the balls `first..first + n` (at most 16) may touch, or nearly: one that just may not counts little less
/// than one, one that is its radius away from that nothing. So the number is continuous in the pose, and never too small.
pub(super) fn soft_count(level: SimdLevel, job: &Job<'_>, tier: &Tier, first: usize, n: usize) -> f32 {
    let mut part = [0.0; LANES];
    let out = &mut part;
    dispatch!(level, ball_parts(job: &Job<'_>, tier: &Tier, first: usize, out: &mut [f32; LANES]));
    part.iter().take(n).sum()
}

#[inline(always)]
fn ball_parts<S: Simd>(s: S, job: &Job<'_>, tier: &Tier, first: usize, out: &mut [f32; LANES]) {
    let Some((depth, radius)) = ball_depths(s, job, tier, first) else { return };
    let reach = s.add(touch_reach(s, job, depth, radius), radius);
    let part = s.div(reach, s.max(radius, s.splat(f32::MIN_POSITIVE)));
    s.store(s.min(s.max(part, s.splat(0.0)), s.splat(1.0)), out);
}

/// The largest depth that the balls may reach, m.
#[inline(always)]
fn touch_reach<S: Simd>(s: S, job: &Job<'_>, depth: S::F, radius: S::F) -> S::F {
    let steep = s.add(s.mul(radius, s.splat(job.steep)), s.splat(job.rounding));
    s.add(depth, s.min(s.add(radius, s.splat(job.margin)), steep))
}

/// Depth at the centres of sixteen balls, and their radii, m.
#[inline(always)]
fn ball_depths<S: Simd>(s: S, job: &Job<'_>, tier: &Tier, first: usize) -> Option<(S::F, S::F)> {
    let (x, y) = (sixteen(&tier.x, first)?, sixteen(&tier.y, first)?);
    let (z, radius) = (sixteen(&tier.z, first)?, s.load(sixteen(&tier.radius, first)?));
    let u = to_grid(s, job, [s.load(x), s.load(y), s.load(z)]);
    Some((Cells::look_up(s, &job.grid, u).depth(s), radius))
}

#[inline(always)]
fn sixteen(column: &[f32], first: usize) -> Option<&[f32; LANES]> {
    column.get(first..)?.first_chunk()
}

/// Grid coordinates of points of the tool.
#[inline(always)]
fn to_grid<S: Simd>(s: S, job: &Job<'_>, r: [S::F; 3]) -> [S::F; 3] {
    let m = &job.to_grid;
    [
        affine(s, [m[0], m[1], m[2]], r, job.offset[0]),
        affine(s, [m[3], m[4], m[5]], r, job.offset[1]),
        affine(s, [m[6], m[7], m[8]], r, job.offset[2]),
    ]
}

/// Visits `blocks` (at most [`CHUNK`]).
pub(super) fn visit(level: SimdLevel, job: &Job<'_>, blocks: &[u32], sums: &mut Sums) {
    dispatch!(level, run(job: &Job<'_>, blocks: &[u32], sums: &mut Sums));
}

#[inline(always)]
fn run<S: Simd>(s: S, job: &Job<'_>, blocks: &[u32], sums: &mut Sums) {
    let shell = job.shell;
    let (xs, ys) = (shell.x.as_chunks::<LANES>().0, shell.y.as_chunks::<LANES>().0);
    let zs = shell.z.as_chunks::<LANES>().0;
    let zero = s.splat(0.0);
    let mut deepest = s.load(&sums.deepest);
    let mut inside = s.load(&sums.deepest_inside);
    let mut pressed = 0;
    for step in 0..blocks.len() + AHEAD {
        if let Some(&block) = blocks.get(step) {
            let block = block as usize;
            let (Some(x), Some(y), Some(z)) = (xs.get(block), ys.get(block), zs.get(block)) else { break };
            let r = [s.load(x), s.load(y), s.load(z)];
            let u = to_grid(s, job, r);
            job.grid.place(s, u, &mut sums.spots[step % SPOTS]);
        }
        // One step later the stores of `place` have reached the cache.
        if step >= 1 && step <= blocks.len() {
            job.grid.find(&mut sums.spots[(step - 1) % SPOTS]);
        }
        if step < AHEAD {
            continue;
        }
        let Some(&block) = blocks.get(step - AHEAD) else { break };
        let block = block as usize;
        let cells = Cells::read(s, &job.grid, &sums.spots[(step - AHEAD) % SPOTS]);
        let depth = cells.depth(s);
        deepest = s.max(depth, deepest);
        inside = s.max(cells.if_inside(s, depth, s.splat(f32::NEG_INFINITY)), inside);
        let bits = s.gt_bits(depth, zero);
        if bits == 0 {
            continue;
        }
        let (Some((r, n)), Some(fine)) = (block_of(s, shell, block), job.fine.get(block)) else { break };
        let mut area = s.load(fine);
        if block < job.blend_until
            && let Some(coarse) = job.coarse.get(block)
        {
            let c = s.load(coarse);
            area = s.add(c, s.mul(s.sub(area, c), s.splat(job.t)));
        }
        area = s.mul(area, s.splat(job.partial.weight(shell, block)));
        // Lanes that do not touch weigh nothing.
        let area = s.select_le(s.splat(f32::MIN_POSITIVE), depth, area, zero);
        if let Some(out) = sums.pressed.get_mut(pressed) {
            out.block = block as u32;
            press(s, job, &cells, depth, area, r, n, out);
            pressed += 1;
        }
        sums.note_deepest(s, shell, block, depth, bits);
    }
    s.store(deepest, &mut sums.deepest);
    s.store(inside, &mut sums.deepest_inside);
    if pressed > 0 {
        sums.touched = true;
        sum_forces(s, shell, pressed, sums);
        sum_moments(s, shell, pressed, sums);
    }
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
    // Depth gradient in the tool's frame: transpose of the map to the grid.
    let q = cells.gradient(s);
    let t = &job.to_grid;
    s.store(combine(s, [t[0], t[3], t[6]], q), &mut out.gradient[0]);
    s.store(combine(s, [t[1], t[4], t[7]], q), &mut out.gradient[1]);
    s.store(combine(s, [t[2], t[5], t[8]], q), &mut out.gradient[2]);
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

/// Adds force, torque and elastic force of the blocks that press. This and [`sum_moments`] go over them one after the
/// other because all thirty sums at once do not fit into the registers.
#[inline(always)]
fn sum_forces<S: Simd>(s: S, shell: &PointShell, pressed: usize, sums: &mut Sums) {
    let zero = s.splat(0.0);
    let mut lanes = [zero; 9];
    for p in sums.pressed.iter().take(pressed) {
        let Some((r, n)) = block_of(s, shell, p.block as usize) else { break };
        let m = cross(s, r, n);
        let (force, still) = (s.load(&p.force), s.load(&p.still));
        for i in 0..3 {
            lanes[i] = s.add(lanes[i], s.mul(force, n[i]));
            lanes[3 + i] = s.add(lanes[3 + i], s.mul(force, m[i]));
            lanes[6 + i] = s.add(lanes[6 + i], s.mul(still, n[i]));
        }
    }
    for i in 0..9 {
        s.accumulate(lanes[i], &mut sums.total[i]);
    }
}

/// Adds twice the symmetric part of area (n, r x n) (g, r x g)^T, upper triangle by rows.
#[inline(always)]
fn sum_moments<S: Simd>(s: S, shell: &PointShell, pressed: usize, sums: &mut Sums) {
    let zero = s.splat(0.0);
    let mut lanes = [zero; 21];
    for p in sums.pressed.iter().take(pressed) {
        let Some((r, n)) = block_of(s, shell, p.block as usize) else { break };
        let area = s.load(&p.area);
        let g = [s.load(&p.gradient[0]), s.load(&p.gradient[1]), s.load(&p.gradient[2])];
        // With s = n g^T + g n^T the blocks are s, t = s [r]^T, whose rows are r x (the rows of s), and [r] t, whose
        // columns are r x (the columns of t).
        let a = [s.mul(area, n[0]), s.mul(area, n[1]), s.mul(area, n[2])];
        let xx = s.mul(s.add(a[0], a[0]), g[0]);
        let yy = s.mul(s.add(a[1], a[1]), g[1]);
        let zz = s.mul(s.add(a[2], a[2]), g[2]);
        let xy = s.add(s.mul(a[0], g[1]), s.mul(a[1], g[0]));
        let xz = s.add(s.mul(a[0], g[2]), s.mul(a[2], g[0]));
        let yz = s.add(s.mul(a[1], g[2]), s.mul(a[2], g[1]));
        let x = cross(s, r, [xx, xy, xz]);
        let y = cross(s, r, [xy, yy, yz]);
        let z = cross(s, r, [xz, yz, zz]);
        let upper = [
            xx,
            xy,
            xz,
            x[0],
            x[1],
            x[2],
            yy,
            yz,
            y[0],
            y[1],
            y[2],
            zz,
            z[0],
            z[1],
            z[2],
            s.sub(s.mul(r[1], z[0]), s.mul(r[2], y[0])),
            s.sub(s.mul(r[1], z[1]), s.mul(r[2], y[1])),
            s.sub(s.mul(r[1], z[2]), s.mul(r[2], y[2])),
            s.sub(s.mul(r[2], x[1]), s.mul(r[0], z[1])),
            s.sub(s.mul(r[2], x[2]), s.mul(r[0], z[2])),
            s.sub(s.mul(r[0], y[2]), s.mul(r[1], x[2])),
        ];
        for i in 0..21 {
            lanes[i] = s.add(lanes[i], upper[i]);
        }
    }
    for i in 0..21 {
        s.accumulate(lanes[i], &mut sums.total[9 + i]);
    }
}

/// Positions and normals of a block.
#[inline(always)]
fn block_of<S: Simd>(s: S, shell: &PointShell, block: usize) -> Option<([S::F; 3], [S::F; 3])> {
    let x = shell.x.as_chunks::<LANES>().0.get(block)?;
    let y = shell.y.as_chunks::<LANES>().0.get(block)?;
    let z = shell.z.as_chunks::<LANES>().0.get(block)?;
    let nx = shell.nx.as_chunks::<LANES>().0.get(block)?;
    let ny = shell.ny.as_chunks::<LANES>().0.get(block)?;
    let nz = shell.nz.as_chunks::<LANES>().0.get(block)?;
    Some(([s.load(x), s.load(y), s.load(z)], [s.load(nx), s.load(ny), s.load(nz)]))
}

/// k[0] v[0] + k[1] v[1] + k[2] v[2].
#[inline(always)]
fn combine<S: Simd>(s: S, k: [f32; 3], v: [S::F; 3]) -> S::F {
    let xy = s.add(s.mul(s.splat(k[0]), v[0]), s.mul(s.splat(k[1]), v[1]));
    s.add(xy, s.mul(s.splat(k[2]), v[2]))
}

#[inline(always)]
fn affine<S: Simd>(s: S, k: [f32; 3], v: [S::F; 3], offset: f32) -> S::F {
    s.add(combine(s, k, v), s.splat(offset))
}

#[inline(always)]
fn cross<S: Simd>(s: S, a: [S::F; 3], b: [S::F; 3]) -> [S::F; 3] {
    [
        s.sub(s.mul(a[1], b[2]), s.mul(a[2], b[1])),
        s.sub(s.mul(a[2], b[0]), s.mul(a[0], b[2])),
        s.sub(s.mul(a[0], b[1]), s.mul(a[1], b[0])),
    ]
}
