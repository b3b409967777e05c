//! Sixteen cells against the object's field.

use super::bound::bound;
use super::frame::Frame;
use super::kernel::{Seen, bare, place, read, store, turn_back};
use super::sums::{DAMPING, Deepest, FORCE, STIFFNESS, Sums, TORQUE, VOLUME};
use super::tree::{CellStore, FULL};
use crate::contact::patch::Pressing;
use crate::geometry::lanes::{Constants, F, Lanes, Vector, cross, dot, load, splat};
use crate::geometry::simd::{LANES, Simd, apart};

/// Up to sixteen cells.
pub(super) struct Block {
    /// Stored positions.
    pub(super) at: [F; 3],
    /// Offset of the solid part's centroid from the cube's centre, in cells.
    pub(super) offset: [F; 3],
    /// Solid fraction; 0 past the last cell.
    pub(super) fraction: F,
    /// Half the step of the fraction: 0 for cells that are wholly solid.
    pub(super) doubt: F,
}

/// Unpacks the first `count` cells (at most sixteen) of a block.
#[inline(always)]
pub(super) fn unpack<S: Simd>(simd: S, cells: &CellStore, index: usize, count: usize) -> Option<Block> {
    let from = cells.blocks.get(index)?;
    let k = Constants(simd);
    let (zero, half) = (k.of(0.0), k.of(0.5));
    let (steps, per_step) = (k.of(cells.steps()), k.of(1.0 / cells.steps()));
    let none = [0.0; LANES];
    let mut block = Block { at: [none; 3], offset: [none; 3], fraction: none, doubt: none };
    for axis in 0..3 {
        let q = Lanes::of(simd, simd.words(&from.at[axis]));
        // Exact: words, and powers of two. No word is negative, so what is cut off is the fraction.
        let nearest = Lanes::of(simd, simd.to_f32(simd.trunc((q * per_step + half).bare())));
        block.at[axis] = q.store();
        block.offset[axis] = ((q - nearest * steps) * per_step).store();
    }
    let q = Lanes::of(simd, simd.words(&from.fraction));
    let used = k.at(&PLACE).at_most(k.of(count as f32 - 0.5), k.of(1.0), zero);
    let part = q.at_most(k.of(f32::from(FULL) - 0.5), (q + half) * k.of(1.0 / 65_535.0), k.of(1.0));
    let doubt = q.at_most(k.of(f32::from(FULL) - 0.5), k.of(0.6 / 65_535.0), zero);
    block.fraction = (part * used).store();
    block.doubt = (doubt * used).store();
    Some(block)
}

/// Which of the sixteen each one is.
const PLACE: F = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0];

/// What is known of sixteen cells.
pub(super) struct SeenCells<S: Simd> {
    pub(super) seen: Seen<S>,
    /// Half the width of the cell's solid part across the object's surface, m.
    pub(super) half: Lanes<S>,
    /// How much deeper its deepest corner lies than its middle, m.
    pub(super) reach: Lanes<S>,
}

/// Looks sixteen cells up.
#[inline(always)]
pub(super) fn see_cells<S: Simd>(simd: S, frame: &Frame<'_>, block: &Block) -> SeenCells<S> {
    let k = Constants(simd);
    let p = load(simd, &block.at);
    let seen = read(simd, frame, place(simd, &frame.step_to_grid, &frame.first, p));
    // Along each axis of the grid the part is as thick as its centroid lies off the middle: that of a box cut off by
    // the surface. A ramp of the same variance along the gradient.
    let o = load(simd, &block.offset);
    let g = turn_back(simd, frame, seen.gradient);
    let two = k.of(2.0);
    let t = [k.of(1.0) - two * o[0].abs(), k.of(1.0) - two * o[1].abs(), k.of(1.0) - two * o[2].abs()];
    let gt: Vector<S> = [g[0] * t[0], g[1] * t[1], g[2] * t[2]];
    let variance = dot(gt, gt) / dot(g, g).max(k.of(1e-12));
    let half = (variance.max(k.of(1e-6))).sqrt() * k.of(0.5 * frame.cell);
    let reach = (gt[0].abs() + gt[1].abs() + gt[2].abs()) * k.of(0.5 * frame.cell);
    SeenCells { seen, half, reach }
}

apart! {
    /// Adds up to sixteen cells with their weights in the estimate and in the bounds (1, or 0 where those have them already);
    /// the field is read for each.
    pub(super) fn add_cells['a, 'f](
        frame: &'a Frame<'f>, block: &'a Block, weights: (Lanes<S>, Lanes<S>), sums: &'a mut Sums,
    ) -> () = add_cells_body
}

#[inline(always)]
fn add_cells_body<S: Simd>(
    simd: S,
    frame: &Frame<'_>,
    block: &Block,
    (weight, fresh): (Lanes<S>, Lanes<S>),
    sums: &mut Sums,
) {
    let k = Constants(simd);
    let (zero, one) = (k.of(0.0), k.of(1.0));
    let SeenCells { seen, half, reach } = see_cells(simd, frame, block);
    let fraction = Lanes::load(simd, &block.fraction);
    let whole = frame.cell * frame.cell * frame.cell;
    if simd.gt_bits(fresh.bare(), zero.bare()) != 0 {
        bound(simd, frame, block, fresh, &seen, sums);
    }
    // A ramp, and its slope where it is neither 0 nor 1.
    let ramp = k.of(0.5) + k.of(0.5) * seen.depth / half;
    let inside = ramp.max(zero).min(one);
    let slope = (ramp - inside).abs().at_most(zero, k.of(0.5) / half, zero);
    let used = fraction * weight;
    if simd.gt_bits((inside * used).bare(), zero.bare()) == 0 {
        sums.block(simd);
        return;
    }
    deepest(simd, frame, &seen, reach, inside * used, sums);
    contribute(simd, frame, &seen, used * k.of(whole), (inside, slope), sums);
}

apart! {
    /// Adds what sixteen volumes (m^3) contribute of which the first of `inside` is inside; the second is
    /// d(inside)/d(depth), 1/m.
    pub(super) fn contribute['a, 'f](
        frame: &'a Frame<'f>, seen: &'a Seen<S>, volume: Lanes<S>, inside: (Lanes<S>, Lanes<S>), sums: &'a mut Sums,
    ) -> () = contribute_body
}

#[inline(always)]
fn contribute_body<S: Simd>(
    simd: S,
    frame: &Frame<'_>,
    seen: &Seen<S>,
    volume: Lanes<S>,
    (inside, slope): (Lanes<S>, Lanes<S>),
    sums: &mut Sums,
) {
    let zero = Lanes::splat(simd, 0.0);
    let g = seen.gradient;
    let v = volume * inside;
    let cell = Lanes::splat(simd, frame.grid_cell);
    let arm: Vector<S> = [
        (seen.at[0] - Lanes::splat(simd, frame.origin[0])) * cell,
        (seen.at[1] - Lanes::splat(simd, frame.origin[1])) * cell,
        (seen.at[2] - Lanes::splat(simd, frame.origin[2])) * cell,
    ];
    let m = cross(arm, g);
    sums.add(simd, VOLUME, v);
    for i in 0..3 {
        sums.add(simd, FORCE + i, zero - v * g[i]);
        sums.add(simd, TORQUE + i, zero - v * m[i]);
    }
    let area = volume * slope;
    if let Some(rub) = &mut sums.rub {
        rub.add(
            simd,
            Pressing::new(simd, bare(arm), bare([-g[0], -g[1], -g[2]]), bare(g), (v.bare(), area.bare())),
        );
    }
    if simd.gt_bits(area.bare(), zero.bare()) != 0 {
        let s = [g[0], g[1], g[2], m[0], m[1], m[2]];
        let mut at = STIFFNESS;
        for i in 0..6 {
            let scaled = area * s[i];
            for j in i..6 {
                sums.add(simd, at, scaled * s[j]);
                at += 1;
            }
        }
        if frame.moving {
            let speed = dot(g, splat(simd, frame.linear)) + dot(m, splat(simd, frame.angular));
            let press = area * speed.max(zero);
            for i in 0..6 {
                sums.add(simd, DAMPING + i, zero - press * s[i]);
            }
        }
    }
    sums.block(simd);
}

/// From the middle of a cube to its faces, in radii of the ball around it: so much deeper than its middle is what a wholly solid
/// node holds taken to be.
pub(super) const FACE: f32 = 0.577;

/// Remembers the deepest place of each octant; what is seen reaches so much (m) deeper than its middle.
#[inline(always)]
pub(super) fn deepest<S: Simd>(
    simd: S,
    frame: &Frame<'_>,
    seen: &Seen<S>,
    reach: Lanes<S>,
    used: Lanes<S>,
    sums: &mut Sums,
) {
    let zero = Lanes::splat(simd, 0.0);
    let depth = used.at_most(zero, zero, seen.depth + reach);
    let mut least = sums.deepest[0].depth;
    for d in &sums.deepest {
        least = if d.depth < least { d.depth } else { least };
    }
    let bits = simd.gt_bits(depth.bare(), Lanes::splat(simd, least).bare());
    if bits != 0 {
        let (g, way) = (seen.gradient, reach / Lanes::splat(simd, frame.grid_cell));
        let at = [seen.at[0] + g[0] * way, seen.at[1] + g[1] * way, seen.at[2] + g[2] * way];
        let depths = (&depth.store(), &seen.depth.store());
        remember(&frame.origin, bits, depths, &(store(at), store(g)), sums);
    }
}

/// Keeps those of the places (with gradients) whose bit is set that are the deepest of their octant.
#[inline(never)]
fn remember(
    o: &[f32; 3],
    mut bits: u16,
    (depth, middle): (&F, &F),
    (at, g): &([F; 3], [F; 3]),
    sums: &mut Sums,
) {
    while bits != 0 {
        let i = bits.trailing_zeros() as usize & (LANES - 1);
        bits &= bits - 1;
        let p = [at[0][i], at[1][i], at[2][i]];
        let octant = usize::from(p[0] > o[0]) | usize::from(p[1] > o[1]) << 1 | usize::from(p[2] > o[2]) << 2;
        if depth[i] > sums.deepest[octant].depth {
            let inward = [g[0][i], g[1][i], g[2][i]];
            sums.deepest[octant] = Deepest { depth: depth[i], middle: middle[i], at: p, inward };
        }
    }
}
