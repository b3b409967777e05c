//! Sixteen nodes of the hierarchy against the object's field.

use super::frame::Frame;
use super::kernel::{Seen, place, read, read_depth};
use super::tree::{Node, WIDTH};
use crate::geometry::lanes::{Constants, F, Lanes, load};
use crate::geometry::simd::{LANES, Simd};

/// The children of four nodes side by side.
pub(super) struct Sixteen {
    pub(super) r: F,
    pub(super) flat: F,
    pub(super) rank: F,
    pub(super) spread: F,
    pub(super) volume: F,
    place: [F; 3],
}

/// Lanes `WIDTH * i..` are the children of node i.
#[inline(always)]
pub(super) fn sixteen(nodes: [&Node; LANES / WIDTH]) -> Sixteen {
    let row = |of: fn(&Node) -> [f32; WIDTH]| -> F {
        let mut out = [0.0; LANES];
        for (chunk, node) in out.as_chunks_mut::<WIDTH>().0.iter_mut().zip(nodes) {
            *chunk = of(node);
        }
        out
    };
    Sixteen {
        r: row(|n| n.r),
        flat: row(|n| n.flat),
        rank: row(Node::rank),
        spread: row(|n| n.spread),
        volume: row(|n| n.volume),
        place: [row(|n| n.x), row(|n| n.y), row(|n| n.z)],
    }
}

/// Depth from which one normal is good enough for what is below a node: for leaves, when it is certain that all is inside.
#[inline(always)]
pub(super) fn deep<S: Simd>(simd: S, frame: &Frame<'_>, nodes: &Sixteen) -> Lanes<S> {
    let k = Constants(simd);
    k.at(&nodes.flat).max(k.at(&nodes.r) + k.of(frame.error))
}

/// Looks sixteen nodes up.
#[inline(always)]
pub(super) fn see_nodes<S: Simd>(simd: S, frame: &Frame<'_>, nodes: &Sixteen) -> Seen<S> {
    let p = load(simd, &nodes.place);
    read(simd, frame, place(simd, &frame.to_grid, &frame.first, p))
}

/// Depth of sixteen nodes only.
#[inline(always)]
pub(super) fn node_depth<S: Simd>(simd: S, frame: &Frame<'_>, nodes: &Sixteen) -> Lanes<S> {
    let p = load(simd, &nodes.place);
    read_depth(simd, frame, place(simd, &frame.to_grid, &frame.first, p))
}

/// How much a node's opening can change, m^3: its volume, less the clearer it lies inside or outside, and less where the
/// plane through its box is known.
#[inline(always)]
pub(super) fn stake<S: Simd>(simd: S, frame: &Frame<'_>, nodes: &Sixteen, depth: Lanes<S>) -> Lanes<S> {
    let (zero, one) = (Lanes::splat(simd, 0.0), Lanes::splat(simd, 1.0));
    let deep = deep(simd, frame, nodes);
    let far = Lanes::load(simd, &nodes.r) + Lanes::splat(simd, frame.error);
    // `at_most` takes the first where depth <= 0.
    let left = depth.at_most(zero, (far + depth) / far, (deep - depth) / deep);
    // Empty slots have a negative radius and no volume.
    left.max(zero).min(one) * (Lanes::load(simd, &nodes.volume) * Lanes::load(simd, &nodes.rank))
}

/// Fraction of a ball of radius `spread` whose centre is `depth` deep under a plane, and its derivative.
#[inline(always)]
pub(super) fn cap<S: Simd>(simd: S, depth: Lanes<S>, spread: Lanes<S>) -> (Lanes<S>, Lanes<S>) {
    let k = Constants(simd);
    let t = (depth / spread).max(k.of(-1.0)).min(k.of(1.0));
    let f = k.of(0.25) * (k.of(2.0) + t * (k.of(3.0) - t * t));
    (f, k.of(0.75) * (k.of(1.0) - t * t) / spread)
}
