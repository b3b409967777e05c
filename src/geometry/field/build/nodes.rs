//! Distance and sign of every node, a block of 8^3 at a time.

use super::grid::{BLOCK, Blocks, EDGE, within};
use super::{FieldError, Meter, Solid};
use crate::geometry::bvh::{Few, NO_SLOT};
use crate::geometry::simd::{self, Simd, dispatch};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Winding numbers nearer than this to one half are never flooded from: several times the error of the tree.
const SLACK: f32 = 0.02;
/// Two neighbours are not separated by a triangle when their distances add up to more than this, in cells: the balls of
/// these radii then cover the edge between them. The excess over 1 covers the rounding of the distances.
const FREE: f32 = 1.001;

/// Nodes along each side of the parts whose candidate triangles are found together: in half as long a ball there are a fourth
/// as many.
const PART: usize = EDGE / 2;

/// Work done.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) distance: u64,
    pub(super) winding: u64,
}

/// Fills `depth` with signed distances in cells, positive inside. The sign of zero counts.
pub(super) fn fill(solid: &Solid, depth: &mut Blocks, meter: &Meter) -> Result<Counts, FieldError> {
    let (distance, winding) = (AtomicU64::new(0), AtomicU64::new(0));
    depth.data.par_chunks_mut(BLOCK).enumerate().try_for_each(|(index, out)| {
        let counts = block(solid, index, out);
        distance.fetch_add(counts.distance, Ordering::Relaxed);
        winding.fetch_add(counts.winding, Ordering::Relaxed);
        meter.step(Meter::NODES)
    })?;
    Ok(Counts { distance: distance.into_inner(), winding: winding.into_inner() })
}

fn block(solid: &Solid, index: usize, out: &mut [f32]) -> Counts {
    dispatch!(simd::level(), block_body(solid: &Solid, index: usize, out: &mut [f32]) -> Counts)
}

#[inline(always)]
fn block_body(simd: impl Simd, solid: &Solid, index: usize, out: &mut [f32]) -> Counts {
    let mut counts = Counts::default();
    let (first, len) = solid.grid.block(index);
    let origin = solid.bvh.to_local(&solid.grid.node(first));
    let step = solid.grid.cell / solid.bvh.unit();
    let to_cells = (1.0 / step) as f32;
    let place = |at: [usize; 3]| [0, 1, 2].map(|a| (origin[a] + at[a] as f64 * step) as f32);
    let (mut near, mut few) = (NO_SLOT, Few::new());
    for part in parts(len) {
        // From the middle to the corners, with some room for rounding.
        let middle =
            [0, 1, 2].map(|a| (origin[a] + 0.5 * (part[a].start + part[a].end - 1) as f64 * step) as f32);
        let half: f64 = part.iter().map(|p| (0.5 * (p.len() - 1) as f64 * step).powi(2)).sum();
        let radius = half.sqrt() as f32 * (1.0 + 1e-5);
        near = few.find(simd, solid.bvh, (middle, radius), near, &mut counts.distance);
        let [x, y, z] = part;
        // Back and forth, so that each node starts from the nearest triangle of a neighbour.
        for k in z.clone() {
            for j in 0..y.len() {
                let j = if k % 2 == 0 { y.start + j } else { y.end - 1 - j };
                for i in 0..x.len() {
                    let i = if (j + k) % 2 == 0 { x.start + i } else { x.end - 1 - i };
                    let at = [i, j, k];
                    let (d2, slot) = few.nearest(simd, solid.bvh, place(at), near, &mut counts.distance);
                    near = slot;
                    out[within(at)] = d2.sqrt() * to_cells;
                }
            }
        }
    }
    sign(simd, solid, first, len, out, &mut counts.winding);
    counts
}

/// A block of so many nodes along each axis in parts of up to [`PART`]^3.
fn parts(len: [usize; 3]) -> impl Iterator<Item = [Range<usize>; 3]> {
    let counts = len.map(|n| n.div_ceil(PART));
    (0..counts.iter().product()).map(move |index: usize| {
        let at = [index % counts[0], index / counts[0] % counts[1], index / (counts[0] * counts[1])];
        [0, 1, 2].map(|a| at[a] * PART..(at[a] * PART + PART).min(len[a]))
    })
}

/// Gives the unsigned distances of a block their signs. The grid's outermost nodes are outside by decree: a soup may
/// surround points beyond its own box, and what reaches out of the grid is cut off (and capped) there.
#[inline(always)]
fn sign(
    simd: impl Simd,
    solid: &Solid,
    first: [usize; 3],
    len: [usize; 3],
    out: &mut [f32],
    evaluations: &mut u64,
) {
    let grid = solid.grid;
    let (center, radius) = grid.block_ball(first, len);
    // Largest change of the winding number along one grid edge of this block.
    let change = (solid.rim.steepest(&center, radius) * grid.cell).min(1.0) as f32;
    let mut state = [Mark::Open; BLOCK];
    let mut queue = [0u16; BLOCK];
    let mut drift = [0.0f32; BLOCK];
    for k in 0..len[2] {
        for j in 0..len[1] {
            for i in 0..len[0] {
                let seed = within([i, j, k]);
                if state[seed] != Mark::Open {
                    continue;
                }
                let p = grid.node([first[0] + i, first[1] + j, first[2] + k]);
                let w = solid.winding.number_local(simd, solid.winding.to_local(&p).map(|x| x as f32));
                *evaluations += 1;
                let mark = if w > 0.5 { Mark::Inside } else { Mark::Outside };
                state[seed] = mark;
                let sure = (w - 0.5).abs() as f32 - SLACK;
                if sure <= change {
                    continue;
                }
                // Flood over free edges while the bound on the change keeps the sign certain.
                (queue[0], drift[seed]) = (seed as u16, change);
                let (mut head, mut tail) = (0, 1);
                while head < tail {
                    let from = queue[head] as usize;
                    head += 1;
                    if drift[from] >= sure {
                        continue;
                    }
                    let c = [from % EDGE, from / EDGE % EDGE, from / (EDGE * EDGE)];
                    for (axis, stride) in [(0, 1), (1, EDGE), (2, EDGE * EDGE)] {
                        for (there, to) in [
                            (c[axis] > 0, from.wrapping_sub(stride)),
                            (c[axis] + 1 < len[axis], from + stride),
                        ] {
                            if there && state[to] == Mark::Open && out[from] + out[to] > FREE {
                                state[to] = mark;
                                drift[to] = drift[from] + change;
                                queue[tail] = to as u16;
                                tail += 1;
                            }
                        }
                    }
                }
            }
        }
    }
    for k in 0..len[2] {
        for j in 0..len[1] {
            for i in 0..len[0] {
                let at = within([i, j, k]);
                if state[at] == Mark::Outside || grid.on_border([first[0] + i, first[1] + j, first[2] + k]) {
                    out[at] = -out[at];
                }
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Mark {
    Open,
    Inside,
    Outside,
}
