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

use super::{PATCHES, PointShell, UNSORTED};
use crate::geometry::field::block::{Cells, Grid};
use crate::geometry::simd::{LANES, Simd, SimdLevel, dispatch};
use std::ops::Range;

/// Blocks whose sums stay in f32 lanes before they are added in f64; also how often a deadline is looked at.
pub(super) const CHUNK: usize = 16;

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
}

impl Sums {
    pub(super) fn new() -> Self {
        Self {
            total: [[0.0; LANES]; SUMS],
            deepest: [f32::NEG_INFINITY; LANES],
            deepest_inside: [f32::NEG_INFINITY; LANES],
            patch: [(0.0, 0); PATCHES],
            touched: false,
        }
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

/// Visits the blocks of `range` (at most [`CHUNK`]).
pub(super) fn visit(level: SimdLevel, job: &Job<'_>, range: Range<usize>, sums: &mut Sums) {
    dispatch!(level, run(job: &Job<'_>, range: Range<usize>, sums: &mut Sums));
}

#[inline(always)]
fn run<S: Simd>(s: S, job: &Job<'_>, range: Range<usize>, sums: &mut Sums) {
    let shell = job.shell;
    let [xs, ys, zs] = [&shell.x, &shell.y, &shell.z].map(|c| c.as_chunks::<LANES>().0);
    let [nxs, nys, nzs] = [&shell.nx, &shell.ny, &shell.nz].map(|c| c.as_chunks::<LANES>().0);
    let zero = s.splat(0.0);
    let mut deepest = s.load(&sums.deepest);
    let mut inside = s.load(&sums.deepest_inside);
    let mut lanes = [zero; SUMS];
    let mut touched = false;
    for block in range {
        let weight = job.partial.weight(shell, block);
        if weight == 0.0 {
            continue;
        }
        let (Some(x), Some(y), Some(z)) = (xs.get(block), ys.get(block), zs.get(block)) else { break };
        let r = [s.load(x), s.load(y), s.load(z)];
        let m = &job.to_grid;
        let u = [
            affine(s, [m[0], m[1], m[2]], r, job.offset[0]),
            affine(s, [m[3], m[4], m[5]], r, job.offset[1]),
            affine(s, [m[6], m[7], m[8]], r, job.offset[2]),
        ];
        let cells = Cells::look_up(s, &job.grid, u);
        let depth = cells.depth(s);
        deepest = s.max(depth, deepest);
        inside = s.max(cells.if_inside(s, depth, s.splat(f32::NEG_INFINITY)), inside);
        let bits = s.gt_bits(depth, zero);
        if bits == 0 {
            continue;
        }
        let (Some(nx), Some(ny), Some(nz)) = (nxs.get(block), nys.get(block), nzs.get(block)) else { break };
        let Some(fine) = job.fine.get(block) else { break };
        touched = true;
        let n = [s.load(nx), s.load(ny), s.load(nz)];
        let mut area = s.load(fine);
        if block < job.blend_until
            && let Some(coarse) = job.coarse.get(block)
        {
            let c = s.load(coarse);
            area = s.add(c, s.mul(s.sub(area, c), s.splat(job.t)));
        }
        area = s.mul(area, s.splat(weight));
        // Lanes that do not touch weigh nothing.
        let area = s.select_le(s.splat(f32::MIN_POSITIVE), depth, area, zero);
        accumulate(s, job, &cells, depth, area, r, n, &mut lanes);

        sums.note_deepest(s, shell, block, depth, bits);
    }
    s.store(deepest, &mut sums.deepest);
    s.store(inside, &mut sums.deepest_inside);
    if touched {
        sums.touched = true;
        for i in 0..SUMS {
            s.accumulate(lanes[i], &mut sums.total[i]);
        }
    }
}

/// Adds one block: pressure times area along the shell normal, and the moments that make the stiffness.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn accumulate<S: Simd>(
    s: S,
    job: &Job<'_>,
    cells: &Cells<S>,
    depth: S::F,
    area: S::F,
    r: [S::F; 3],
    n: [S::F; 3],
    lanes: &mut [S::F; SUMS],
) {
    let zero = s.splat(0.0);
    let d = s.max(depth, zero);
    let m = cross(s, r, n);
    // Depth gradient in the tool's frame: transpose of the map to the grid.
    let q = cells.gradient(s);
    let t = &job.to_grid;
    let g = [
        combine(s, [t[0], t[3], t[6]], q),
        combine(s, [t[1], t[4], t[7]], q),
        combine(s, [t[2], t[5], t[8]], q),
    ];
    let h = cross(s, r, g);
    let elastic = s.mul(s.splat(job.pressure), d);
    // Speed of the surface against its inward normal; the damping never exceeds the spring, so it starts from 0.
    let along = s.add(combine(s, job.linear, n), combine(s, job.angular, m));
    let approach = s.max(s.mul(s.splat(-job.damping), along), zero);
    let pressure = s.add(elastic, s.min(approach, elastic));
    let force = s.mul(area, pressure);
    let still = s.mul(area, elastic);
    for i in 0..3 {
        lanes[i] = s.add(lanes[i], s.mul(force, n[i]));
        lanes[3 + i] = s.add(lanes[3 + i], s.mul(force, m[i]));
        lanes[6 + i] = s.add(lanes[6 + i], s.mul(still, n[i]));
    }
    let columns = [g[0], g[1], g[2], h[0], h[1], h[2]];
    let mut rows = [n[0], n[1], n[2], m[0], m[1], m[2]];
    for i in 0..6 {
        rows[i] = s.mul(area, rows[i]);
    }
    let mut at = 9;
    for i in 0..6 {
        for j in i..6 {
            let both = s.add(s.mul(rows[i], columns[j]), s.mul(rows[j], columns[i]));
            lanes[at] = s.add(lanes[at], both);
            at += 1;
        }
    }
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
