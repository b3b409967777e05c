//! The searches: 16 boxes or 16 triangles at a time.

use super::sweep::SIXTEEN;
use super::{Bvh, Closest, NO_SLOT, nearer};
use crate::geometry::Point;
use crate::geometry::lanes::{F, LANES, Lanes, dot, load, minus, splat};
use crate::geometry::simd::{self, Simd, dispatch};
use crate::geometry::wide::{LEAF, NONE, STACK};

/// Error bound of the `f32` distances in local units, per 1 + |p| (coordinates of the mesh within [-1, 1]): some ten
/// roundings of 2^-24 relative to |p - a| <= |p| + sqrt(3).
pub(crate) const MARGIN: f64 = 2e-6;

/// Up to 16 children and their oriented boxes.
#[repr(C, align(64))]
pub(super) struct Node {
    pub(super) center: [F; 3],
    pub(super) axes: [[F; 3]; 3],
    pub(super) half: [F; 3],
    pub(super) child: [u32; LANES],
    pub(super) used: u32,
}

impl Node {
    pub(super) const EMPTY: Self = Self {
        center: [[0.0; LANES]; 3],
        axes: [[[0.0; LANES]; 3]; 3],
        half: [[0.0; LANES]; 3],
        child: [NONE; LANES],
        used: 0,
    };
}

/// Up to 16 triangles: corner a, orthonormal frame (u along the longest edge ab, v towards c, n the normal), and in
/// that frame b = (length, 0), c = (cx, cy).
#[repr(C, align(64))]
pub(super) struct Leaf {
    pub(super) a: [F; 3],
    pub(super) u: [F; 3],
    pub(super) v: [F; 3],
    pub(super) n: [F; 3],
    pub(super) length: F,
    pub(super) cx: F,
    pub(super) cy: F,
    /// 1 / |ac|^2 and 1 / |bc|^2, 0 for an edge without length.
    pub(super) inv_ac: F,
    pub(super) inv_bc: F,
    pub(super) used: u32,
}

impl Leaf {
    pub(super) const EMPTY: Self = Self {
        a: [[0.0; LANES]; 3],
        u: [[0.0; LANES]; 3],
        v: [[0.0; LANES]; 3],
        n: [[0.0; LANES]; 3],
        length: [0.0; LANES],
        cx: [0.0; LANES],
        cy: [0.0; LANES],
        inv_ac: [0.0; LANES],
        inv_bc: [0.0; LANES],
        used: 0,
    };
}

/// Squared distance from p to each box; never more than to what is in it.
#[inline(always)]
pub(super) fn box_distances<S: Simd>(simd: S, node: &Node, p: [f32; 3]) -> Lanes<S> {
    let zero = Lanes::splat(simd, 0.0);
    let d = minus(splat(simd, p), load(simd, &node.center));
    let x = (dot(d, load(simd, &node.axes[0])).abs() - Lanes::load(simd, &node.half[0])).max(zero);
    let y = (dot(d, load(simd, &node.axes[1])).abs() - Lanes::load(simd, &node.half[1])).max(zero);
    let z = (dot(d, load(simd, &node.axes[2])).abs() - Lanes::load(simd, &node.half[2])).max(zero);
    x * x + y * y + z * z
}

/// Squared distance from p to each triangle.
#[inline(always)]
pub(super) fn triangle_distances<S: Simd>(simd: S, leaf: &Leaf, p: [f32; 3]) -> Lanes<S> {
    let (zero, one) = (Lanes::splat(simd, 0.0), Lanes::splat(simd, 1.0));
    let d = minus(splat(simd, p), load(simd, &leaf.a));
    let (x, y) = (dot(d, load(simd, &leaf.u)), dot(d, load(simd, &leaf.v)));
    let z = dot(d, load(simd, &leaf.n));
    let l = Lanes::load(simd, &leaf.length);
    let (cx, cy) = (Lanes::load(simd, &leaf.cx), Lanes::load(simd, &leaf.cy));
    let ab = x - x.min(l).max(zero);
    let ab2 = ab * ab + y * y;
    let t = ((x * cx + y * cy) * Lanes::load(simd, &leaf.inv_ac)).min(one).max(zero);
    let (ex, ey) = (x - t * cx, y - t * cy);
    let ac2 = ex * ex + ey * ey;
    let (bx, fx) = (x - l, cx - l);
    let s = ((bx * fx + y * cy) * Lanes::load(simd, &leaf.inv_bc)).min(one).max(zero);
    let (gx, gy) = (bx - s * fx, y - s * cy);
    let bc2 = gx * gx + gy * gy;
    // Inside when all three are positive; strict, so that a triangle without area (cy = 0) has no inside.
    let inner = y.min((cy * x - cx * y).min(fx * y - cy * bx));
    let edges = ab2.min(ac2.min(bc2));
    inner.at_most(zero, edges, zero) + z * z
}

/// Children still to be opened, nearest on top. Its size bounds the depth of any tree of [`crate::geometry::wide`].
pub(super) struct Stack {
    items: [(f32, u32); STACK],
    len: usize,
}

impl Stack {
    #[inline(always)]
    pub(super) fn new() -> Self {
        let mut items = [(0.0, NONE); STACK];
        items[0] = (0.0, 0);
        Self { items, len: 1 }
    }

    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<(f32, u32)> {
        self.len = self.len.checked_sub(1)?;
        Some(self.items[self.len])
    }

    /// The smallest key of what is still to be opened; infinite when that is nothing.
    pub(super) fn least(&self) -> f32 {
        self.items.iter().take(self.len).fold(f32::INFINITY, |least, (key, _)| least.min(*key))
    }

    /// Pushes the children whose key is below `bound`, ordered so that the smallest is popped first.
    #[inline(always)]
    pub(super) fn push<S: Simd>(&mut self, keys: Lanes<S>, bound: f32, node: &Node) {
        let mut mask = keys.below(bound) & node.used;
        if mask == 0 {
            return;
        }
        let keys = keys.store();
        let base = self.len;
        while mask != 0 {
            let lane = (mask.trailing_zeros() as usize) & (LANES - 1);
            mask &= mask - 1;
            let key = keys[lane];
            let mut at = self.len;
            while at > base && self.items[at - 1].0 < key {
                self.items[at] = self.items[at - 1];
                at -= 1;
            }
            self.items[at] = (key, node.child[lane]);
            self.len += 1;
        }
    }
}

/// Nearest triangle in `f32`; see [`Bvh::nearest_f32`]. To be inlined into a function that was dispatched.
#[inline(always)]
pub(super) fn nearest(
    simd: impl Simd,
    bvh: &Bvh,
    p: [f32; 3],
    bound2: f32,
    near: u32,
    tests: &mut u64,
) -> (f32, u32) {
    nearest_from(simd, bvh, p, (bound2, near), bvh.nodes.first(), &mut Stack::new(), tests)
}

/// As [`nearest`], from this node down; `stack` is scratch memory.
#[inline(always)]
pub(super) fn nearest_from(
    simd: impl Simd,
    bvh: &Bvh,
    p: [f32; 3],
    (bound2, near): (f32, u32),
    from: Option<&Node>,
    stack: &mut Stack,
    tests: &mut u64,
) -> (f32, u32) {
    let mut best = (bound2, NO_SLOT);
    let seed = if near == NO_SLOT { NONE } else { near / LANES as u32 };
    if seed != NONE {
        open_leaf(simd, bvh, p, seed, &mut best, tests);
    }
    let Some(from) = from else { return best };
    stack.len = 0;
    stack.push(box_distances(simd, from, p), best.0, from);
    while let Some((d, at)) = stack.pop() {
        if d >= best.0 {
            continue;
        }
        if at & LEAF != 0 {
            if at ^ LEAF != seed {
                open_leaf(simd, bvh, p, at ^ LEAF, &mut best, tests);
            }
        } else if let Some(node) = bvh.nodes.get(at as usize) {
            stack.push(box_distances(simd, node, p), best.0, node);
        }
    }
    best
}

/// Lowers `best` (squared distance, slot) by the triangles of a leaf.
#[inline(always)]
fn open_leaf(simd: impl Simd, bvh: &Bvh, p: [f32; 3], leaf: u32, best: &mut (f32, u32), tests: &mut u64) {
    let Some(data) = bvh.leaves.get(leaf as usize) else { return };
    *tests += LANES as u64;
    let d = triangle_distances(simd, data, p);
    let mask = d.below(best.0) & data.used;
    if mask != 0 {
        let d = d.store();
        let lane = smallest(mask, &d);
        *best = (d[lane], leaf * LANES as u32 + lane as u32);
    }
}

/// The lane in `mask` (not empty) with the smallest value.
#[inline(always)]
pub(super) fn smallest(mut mask: u32, values: &F) -> usize {
    let mut best = (mask.trailing_zeros() as usize) & (LANES - 1);
    mask &= mask - 1;
    while mask != 0 {
        let lane = (mask.trailing_zeros() as usize) & (LANES - 1);
        mask &= mask - 1;
        if values[lane] < values[best] {
            best = lane;
        }
    }
    best
}

/// Square of a distance within which a triangle may in truth be nearer than `best` (local units).
#[inline(always)]
fn widened(best: f64, margin: f64) -> f32 {
    let reach = (best + margin) * (1.0 + 1e-6);
    (reach * reach * (1.0 + 1e-6)) as f32
}

/// Shows `visit` the slots of all triangles that may in truth be within `reach` (m) of the place `local`, about the nearest first; it
/// says how far to look from then on. `spend` is asked before each sixteen boxes or triangles (four quarters of a unit) and before each
/// visit (one quarter): true ends it, and the answer is false.
#[inline(always)]
pub(super) fn visit_near(
    simd: impl Simd,
    bvh: &Bvh,
    local: [f64; 3],
    reach: f64,
    mut spend: impl FnMut(u32) -> bool,
    mut visit: impl FnMut(u32) -> f64,
) -> bool {
    let q = local.map(|x| x as f32);
    let size = (local[0] * local[0] + local[1] * local[1] + local[2] * local[2]).sqrt();
    let margin = MARGIN * (1.0 + size);
    let mut bound = widened(reach / bvh.scale, margin);
    let mut stack = Stack::new();
    while let Some((d, at)) = stack.pop() {
        if d >= bound {
            continue;
        }
        if spend(SIXTEEN) {
            return false;
        }
        if at & LEAF != 0 {
            let leaf = at ^ LEAF;
            let Some(data) = bvh.leaves.get(leaf as usize) else { continue };
            let d = triangle_distances(simd, data, q);
            let mut mask = d.below(bound) & data.used;
            let d = d.store();
            // The nearest one first: it shrinks the bound below most of the others.
            while mask != 0 {
                let lane = smallest(mask, &d);
                mask &= !(1 << lane);
                if d[lane] >= bound {
                    break;
                }
                if spend(1) {
                    return false;
                }
                bound = widened(visit(leaf * LANES as u32 + lane as u32) / bvh.scale, margin);
            }
        } else if let Some(node) = bvh.nodes.get(at as usize) {
            stack.push(box_distances(simd, node, q), bound, node);
        }
    }
    true
}

#[inline(always)]
fn exact_body(simd: impl Simd, bvh: &Bvh, p: &Point, local: [f64; 3], start: Closest) -> Closest {
    let mut best = start;
    visit_near(
        simd,
        bvh,
        local,
        start.distance,
        |_| false,
        |slot| {
            best = nearer(best, bvh.measure(p, slot));
            best.distance
        },
    );
    best
}

/// Nearest triangle, measured in `f64`, starting from the answer `start`.
pub(super) fn exact(bvh: &Bvh, p: &Point, local: [f64; 3], start: Closest) -> Closest {
    dispatch!(simd::level(), exact_body(bvh: &Bvh, p: &Point, local: [f64; 3], start: Closest) -> Closest)
}

/// Where a ray o + t d enters each box, or infinity. Boxes behind or beyond `limit` are missed.
#[inline(always)]
fn box_entries<S: Simd>(simd: S, node: &Node, o: [f32; 3], d: [f32; 3], limit: f32) -> Lanes<S> {
    let (mut near, mut far) = (Lanes::splat(simd, 0.0), Lanes::splat(simd, limit));
    let (q, d) = (minus(splat(simd, o), load(simd, &node.center)), splat(simd, d));
    let least = Lanes::splat(simd, 1e-12);
    for k in 0..3 {
        let axis = load(simd, &node.axes[k]);
        let (x, v, h) = (dot(q, axis), dot(d, axis), Lanes::load(simd, &node.half[k]));
        let v = v.abs().at_most(least, least, v);
        let (s, t) = ((-h - x) / v, (h - x) / v);
        near = near.max(s.min(t));
        far = far.min(s.max(t));
    }
    near.at_most(far, near, Lanes::splat(simd, f32::INFINITY))
}

#[inline(always)]
fn ray_hit_body(simd: impl Simd, bvh: &Bvh, o: [f32; 3], d: [f32; 3], limit: f32, facing: f32) -> (f32, u32) {
    let (mut best, mut slot) = (limit, NO_SLOT);
    let mut stack = Stack::new();
    while let Some((entry, at)) = stack.pop() {
        if entry >= best {
            continue;
        }
        if at & LEAF != 0 {
            let leaf = at ^ LEAF;
            let Some(data) = bvh.leaves.get(leaf as usize) else { continue };
            let hit = ray_hits(simd, data, o, d, facing);
            let mut mask = hit.below(best) & data.used;
            let hit = hit.store();
            while mask != 0 {
                let lane = (mask.trailing_zeros() as usize) & (LANES - 1);
                mask &= mask - 1;
                if hit[lane] < best {
                    (best, slot) = (hit[lane], leaf * LANES as u32 + lane as u32);
                }
            }
        } else if let Some(node) = bvh.nodes.get(at as usize) {
            stack.push(box_entries(simd, node, o, d, best), best, node);
        }
    }
    (best, slot)
}

/// Where the ray meets each triangle that faces the right way (see [`Bvh::first_hit`]), or infinity.
#[inline(always)]
fn ray_hits<S: Simd>(simd: S, leaf: &Leaf, o: [f32; 3], d: [f32; 3], facing: f32) -> Lanes<S> {
    let (zero, miss) = (Lanes::splat(simd, 0.0), Lanes::splat(simd, f32::INFINITY));
    let (q, d) = (minus(splat(simd, o), load(simd, &leaf.a)), splat(simd, d));
    let (u, v, n) = (load(simd, &leaf.u), load(simd, &leaf.v), load(simd, &leaf.n));
    let dn = dot(d, n);
    let t = -dot(q, n) / dn;
    let (x, y) = (dot(q, u) + t * dot(d, u), dot(q, v) + t * dot(d, v));
    let l = Lanes::load(simd, &leaf.length);
    let (cx, cy) = (Lanes::load(simd, &leaf.cx), Lanes::load(simd, &leaf.cy));
    let inner = y.min((cy * x - cx * y).min((cx - l) * y - cy * (x - l)));
    // A grazing ray, a triangle without area, one behind, or a miss; NaN (of 0 / 0) misses too.
    let hit = zero.at_most(t, t, miss);
    let hit = zero.at_most(inner, hit, miss);
    let hit = cy.at_most(zero, miss, hit);
    (dn * Lanes::splat(simd, facing)).at_most(Lanes::splat(simd, 1e-3), miss, hit)
}

/// First triangle facing the right way that the ray meets before `limit`.
pub(super) fn ray_hit(bvh: &Bvh, o: [f32; 3], d: [f32; 3], limit: f32, facing: f32) -> (f32, u32) {
    dispatch!(
        simd::level(),
        ray_hit_body(bvh: &Bvh, o: [f32; 3], d: [f32; 3], limit: f32, facing: f32) -> (f32, u32)
    )
}
