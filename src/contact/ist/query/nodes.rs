//! Sixteen nodes of the hierarchy against the object's field.

use super::frame::Frame;
use super::kernel::{Seen, place, read, read_depth};
use super::tree::{Node, WIDTH};
use crate::geometry::lanes::{Constants, F, Lanes, load};
use crate::geometry::simd::{LANES, Simd};

/// Nodes are replaced by their children until their depth is this many radii, where one normal for all that is below
/// is good enough; from one radius on the two are blended.
const DEEP_NODE: f32 = 1.5;

/// The children of four nodes side by side.
pub(super) struct Sixteen {
    pub(super) r: F,
    pub(super) spread: F,
    pub(super) volume: F,
    /// Depth from which one normal is good enough, m.
    pub(super) deep: F,
    place: [F; 3],
}

/// Lanes `WIDTH * i..` are the children of node i.
#[inline(always)]
pub(super) fn sixteen(frame: &Frame<'_>, nodes: [&Node; LANES / WIDTH]) -> Sixteen {
    let none = [0.0; LANES];
    let mut out = Sixteen { r: none, spread: none, volume: none, deep: none, place: [none; 3] };
    for i in 0..LANES / WIDTH {
        for k in 0..WIDTH {
            let lane = WIDTH * i + k;
            let r = nodes[i].r[k];
            out.r[lane] = r;
            out.spread[lane] = nodes[i].spread[k];
            out.volume[lane] = nodes[i].volume[k];
            // Groups have one normal for all that is inside: they close when that is certain.
            let deep = r + frame.error;
            let flat = DEEP_NODE * r;
            out.deep[lane] = if nodes[i].is_group(k) || flat < deep { deep } else { flat };
            out.place[0][lane] = nodes[i].x[k];
            out.place[1][lane] = nodes[i].y[k];
            out.place[2][lane] = nodes[i].z[k];
        }
    }
    out
}

/// Looks sixteen nodes up.
#[inline(always)]
pub(super) fn see_nodes<S: Simd>(simd: S, frame: &Frame<'_>, nodes: &Sixteen) -> Seen<S> {
    let p = load(simd, &nodes.place);
    read(simd, frame, place(simd, &frame.to_grid, &frame.origin, p))
}

/// Depth of sixteen nodes only.
#[inline(always)]
pub(super) fn node_depth<S: Simd>(simd: S, frame: &Frame<'_>, nodes: &Sixteen) -> Lanes<S> {
    let p = load(simd, &nodes.place);
    read_depth(simd, frame, place(simd, &frame.to_grid, &frame.origin, p))
}

/// How much a node's opening can change, m^3: its volume, less the clearer it lies inside or outside.
#[inline(always)]
pub(super) fn stake<S: Simd>(simd: S, frame: &Frame<'_>, nodes: &Sixteen, depth: Lanes<S>) -> Lanes<S> {
    let (zero, one) = (Lanes::splat(simd, 0.0), Lanes::splat(simd, 1.0));
    let r = Lanes::load(simd, &nodes.r);
    let deep = Lanes::load(simd, &nodes.deep);
    let far = r + Lanes::splat(simd, frame.error);
    // `at_most` takes the first where depth <= 0.
    let left = depth.at_most(zero, (far + depth) / far, (deep - depth) / deep);
    // Empty slots have a negative radius and no volume.
    left.max(zero).min(one) * Lanes::load(simd, &nodes.volume)
}

/// Fraction of a ball of radius `spread` whose centre is `depth` deep under a plane, and its derivative.
#[inline(always)]
pub(super) fn cap<S: Simd>(simd: S, depth: Lanes<S>, spread: Lanes<S>) -> (Lanes<S>, Lanes<S>) {
    let k = Constants(simd);
    let t = (depth / spread).max(k.of(-1.0)).min(k.of(1.0));
    let f = k.of(0.25) * (k.of(2.0) + t * (k.of(3.0) - t * t));
    (f, k.of(0.75) * (k.of(1.0) - t * t) / spread)
}
