//! Sixteen nodes of the hierarchy against the object's field.

use super::frame::Frame;
use super::kernel::{CUBE, place, read_apart, smooth};
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
fn deep<S: Simd>(simd: S, frame: &Frame<'_>, nodes: &Sixteen) -> Lanes<S> {
    let k = Constants(simd);
    k.at(&nodes.flat).max(k.at(&nodes.r) + k.of(frame.error))
}

/// Where sixteen nodes are, grid coordinates.
#[inline(always)]
pub(super) fn node_places<S: Simd>(simd: S, frame: &Frame<'_>, nodes: &Sixteen) -> Vector<S> {
    place(simd, &frame.to_grid, &frame.first, load(simd, &nodes.place))
}

/// Least part of the tool's volume whose evenness is looked at: what is smaller and lies across the medial surface of the object is
/// too little to turn the force.
const LEAST_PART: f32 = 1.0 / 8192.0;
/// Mean square by which gradients may differ from their mean; from twice that on the node's children stand for it.
const UNEVEN: f32 = 0.04;
/// What opening such a node can change, as a part of its volume and of the root of that mean square.
const UNEVEN_RANK: f32 = 0.6;
/// Work of looking at one.
pub(super) const EVEN_WORK: u32 = 3;

/// How much sixteen nodes matter, whole and opened.
pub(super) struct Weighed<S: Simd> {
    /// What opening can change, m^3.
    pub(super) stake: Lanes<S>,
    /// How much of a node counts whole, as deep inside: not as long as the surface is near.
    pub(super) alone: Lanes<S>,
    /// Which may be uneven: large ones of which something counts whole.
    pub(super) large: u16,
    /// What was seen of those.
    pub(super) even: Option<Even<S>>,
}

/// Whether one gradient serves all of a node.
pub(super) struct Even<S: Simd> {
    /// Mean inward gradient, object axes; only of large nodes.
    gradient: Vector<S>,
    /// From 0, where it serves (and for leaves and small nodes), to 1.
    pub(super) uneven: Lanes<S>,
    /// Root of the mean square by which gradients differ from it.
    differ: Lanes<S>,
}

/// Weighs nodes at grid coordinates `at` and so deep; of the large ones it looks at how even they are, if `look`. In the plan of a budget
/// and in its answer alike.
#[inline(always)]
pub(super) fn weigh<S: Simd>(
    simd: S,
    frame: &Frame<'_>,
    (nodes, from): (&Sixteen, [&Node; LANES / WIDTH]),
    (at, depth): (Vector<S>, Lanes<S>),
    look: bool,
) -> Weighed<S> {
    let k = Constants(simd);
    let (r, volume) = (k.at(&nodes.r), k.at(&nodes.volume));
    let alone = smooth(simd, (depth - r) / (deep(simd, frame, nodes) - r));
    let mut stake = stake(simd, frame, nodes, depth);
    let large =
        simd.gt_bits(volume.bare(), k.of(frame.large).bare()) & simd.gt_bits(alone.bare(), k.of(0.0).bare());
    let even = (look && large != 0).then(|| even(simd, frame, nodes, &halves(from, frame.cell), at));
    if let Some(even) = &even {
        stake = stake.max(volume * even.uneven * alone * even.differ * k.of(UNEVEN_RANK));
    }
    Weighed { stake, alone, large, even }
}

/// The least volume of a large node, m^3, of a tool of so much.
pub(super) fn large_from(volume: f64) -> f32 {
    volume as f32 * LEAST_PART
}

/// Half the sides of the boxes of the children of four nodes, m; half a cell where there is none.
fn halves(from: [&Node; LANES / WIDTH], cell: f32) -> [F; 3] {
    let mut half = [[0.0; LANES]; 3];
    for lane in 0..LANES {
        let (_, sides) = from[lane / WIDTH].bounds(lane % WIDTH, cell);
        for axis in 0..3 {
            half[axis][lane] = sides[axis].max(0.5 * cell);
        }
    }
    half
}

apart! {
    /// The object's depth has a gradient of length 1 nearly everywhere, so that 1 less the square of the mean gradient is the mean square
    /// by which gradients differ from it: across the medial surface, where the nearest place of the surface changes by a leap, one gradient
    /// does not serve. The mean is read at the corners of a box as large as the node's, half its sides being `half`, about its centroid: it is
    /// exact for depths of second degree, and where two planes meet in the box's middle.
    fn even['a, 'f](frame: &'a Frame<'f>, nodes: &'a Sixteen, half: &'a [F; 3], at: Vector<S>) -> Even<S> = even_body
}

#[inline(always)]
fn even_body<S: Simd>(simd: S, frame: &Frame<'_>, nodes: &Sixteen, half: &[F; 3], at: Vector<S>) -> Even<S> {
    let (k, zero) = (Constants(simd), Lanes::splat(simd, 0.0));
    let gradient = read_apart(simd, frame, at, load(simd, half), &CUBE).gradient;
    let off = k.of(1.0) - dot(gradient, gradient);
    let uneven = smooth(simd, off * k.of(1.0 / UNEVEN) - k.of(1.0));
    // Of leaves the mean is as good as what opening them would give.
    let uneven = k.at(&nodes.flat).at_most(k.at(&nodes.r), zero, uneven);
    let uneven = k.at(&nodes.volume).at_most(k.of(frame.large), zero, uneven);
    Even { gradient, uneven, differ: off.max(zero).sqrt() }
}

impl<S: Simd> Even<S> {
    /// The mean gradients of large nodes, and `own` of the others.
    #[inline(always)]
    pub(super) fn gradient(&self, simd: S, frame: &Frame<'_>, nodes: &Sixteen, own: Vector<S>) -> Vector<S> {
        let k = Constants(simd);
        let (volume, large) = (k.at(&nodes.volume), k.of(frame.large));
        let mut gradient = own;
        for axis in 0..3 {
            gradient[axis] = volume.at_most(large, own[axis], self.gradient[axis]);
        }
        gradient
    }
}

/// How much a node's opening can change, m^3: its volume, less the clearer it lies inside or outside, and less where the
/// plane through its box is known.
#[inline(always)]
fn stake<S: Simd>(simd: S, frame: &Frame<'_>, nodes: &Sixteen, depth: Lanes<S>) -> Lanes<S> {
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
