//! Sixteen nodes of the hierarchy against the object's field.

use super::frame::Frame;
use super::kernel::{CUBE, Seen, place, read, read_apart, read_depth, smooth};
use super::tree::{Node, WIDTH};
use crate::geometry::lanes::{Constants, F, Lanes, Vector, dot, load};
use crate::geometry::simd::{LANES, Simd, apart};

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

/// Where sixteen nodes are and how deep, without gradients.
#[inline(always)]
pub(super) fn node_depth<S: Simd>(simd: S, frame: &Frame<'_>, nodes: &Sixteen) -> (Vector<S>, Lanes<S>) {
    let p = load(simd, &nodes.place);
    let at = place(simd, &frame.to_grid, &frame.first, p);
    (at, read_depth(simd, frame, at))
}

/// How much of sixteen nodes counts whole, as deep inside: not as long as the surface is near.
#[inline(always)]
pub(super) fn alone<S: Simd>(simd: S, frame: &Frame<'_>, nodes: &Sixteen, depth: Lanes<S>) -> Lanes<S> {
    let r = Lanes::load(simd, &nodes.r);
    smooth(simd, (depth - r) / (deep(simd, frame, nodes) - r))
}

/// Nodes that are deep inside, looked at for whether one gradient serves all of them.
pub(super) struct Even<S: Simd> {
    /// Mean inward gradient, object axes; of nodes that were not asked for their own.
    pub(super) gradient: Vector<S>,
    /// From 0, where it serves (and for leaves and nodes that were not asked for), to 1.
    pub(super) uneven: Lanes<S>,
    /// Root of the mean square by which gradients differ from it.
    spread: Lanes<S>,
}

/// Least part of the tool's volume that is looked at: what is smaller and lies across the medial surface of the object is
/// too little to turn the force.
const LEAST_PART: f32 = 1.0 / 8192.0;
/// Mean square by which gradients may differ from their mean; from twice that on the node's children stand for it.
const UNEVEN: f32 = 0.04;
/// What opening such a node can change, as a part of its volume and of the root of that mean square.
const UNEVEN_RANK: f32 = 0.6;
/// Work of looking at one.
pub(super) const EVEN_WORK: u32 = 3;

/// Half the sides of the boxes of the children of four nodes, m; a cell where there is none.
pub(super) fn halves(nodes: [&Node; LANES / WIDTH], cell: f32) -> [F; 3] {
    let mut half = [[cell; LANES]; 3];
    for lane in 0..LANES {
        let sides = nodes[lane / WIDTH].sides(lane % WIDTH);
        for axis in 0..3 {
            half[axis][lane] = 0.5 * cell * f32::from(sides[axis].max(1));
        }
    }
    half
}

/// Which of the nodes are to be looked at with [`even`]: those that count whole with more than a little.
#[inline(always)]
pub(super) fn large<S: Simd>(simd: S, least: f32, nodes: &Sixteen, alone: Lanes<S>) -> u16 {
    let k = Constants(simd);
    simd.gt_bits(k.at(&nodes.volume).bare(), k.of(least).bare())
        & simd.gt_bits(alone.bare(), k.of(0.0).bare())
}

/// The least volume that is looked at with [`even`], m^3.
pub(super) fn least_volume(volume: f64) -> f32 {
    volume as f32 * LEAST_PART
}

apart! {
    /// How much gradients differ within the nodes of `bits`, at grid coordinates `at` and with the gradients `own` there. The object's depth has a gradient of length 1 nearly everywhere, so
    /// that 1 less the square of the mean gradient is the mean square by which gradients differ from it: across the medial surface,
    /// where the nearest place of the surface changes by a leap, one gradient does not serve. The mean is read at the corners of a
    /// box as large as the node's, half its sides being `half`, about its centroid: it is exact for depths of second degree, and where two
    /// planes meet in the box's middle.
    pub(super) fn even['a, 'f](frame: &'a Frame<'f>, nodes: &'a Sixteen, half: &'a [F; 3], at: Vector<S>, own: Vector<S>, bits: u16) -> Even<S> = even_body
}

#[inline(always)]
fn even_body<S: Simd>(
    simd: S,
    frame: &Frame<'_>,
    nodes: &Sixteen,
    half: &[F; 3],
    at: Vector<S>,
    own: Vector<S>,
    bits: u16,
) -> Even<S> {
    let k = Constants(simd);
    let gradient = read_apart(simd, frame, at, load(simd, half), &CUBE).gradient;
    let off = k.of(1.0) - dot(gradient, gradient);
    let uneven = smooth(simd, off * k.of(1.0 / UNEVEN) - k.of(1.0));
    // Of leaves the mean is as good as what opening them would give.
    let uneven = k.at(&nodes.flat).at_most(k.at(&nodes.r), k.of(0.0), uneven);
    let used: F = std::array::from_fn(|lane| f32::from(bits >> lane & 1));
    let (used, zero) = (k.at(&used), k.of(0.0));
    Even {
        gradient: [0, 1, 2].map(|axis| used.at_most(zero, own[axis], gradient[axis])),
        uneven: used.at_most(zero, zero, uneven),
        spread: off.max(zero).sqrt(),
    }
}

impl<S: Simd> Even<S> {
    /// What opening can change where one gradient does not serve, m^3.
    #[inline(always)]
    pub(super) fn stake(&self, simd: S, nodes: &Sixteen, alone: Lanes<S>) -> Lanes<S> {
        let k = Constants(simd);
        k.at(&nodes.volume) * self.uneven * alone * self.spread * k.of(UNEVEN_RANK)
    }
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
