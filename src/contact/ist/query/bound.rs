//! The least and the most that cells can contribute.
//!
//! A node of the object's grid holds its exact depth P, and depth changes by no more than the distance: the ball of
//! radius P about a node inside is inside, that of radius -P about one outside is outside. For each group of cells two
//! such nodes are chosen, one up and one down the gradient, and for each cell near the surface two of its own. A cell's
//! centroid at the distance D from one of them, and
//! q = centroid + y: |q - node| <= D - n.y + |y|^2 / 2D, n the direction to the node, since sqrt(1 + z) <= 1 + z / 2. So
//! the half-space beyond a plane is inside, and likewise outside. The plane cuts the cell's cube; what of the cube is
//! not solid may lie on either side. Cells, and whole groups, that lie within the group's ball need no more than that.

use super::cells::Block;
use super::frame::Frame;
use super::kernel::{Seen, bare, turn_back};
use super::sums::{LOWER, Sums, UPPER};
use crate::geometry::lanes::{Constants, F, Lanes, Vector, dot, load, minus, splat};
use crate::geometry::simd::{LANES, Simd};

/// Half the diagonal of a unit cube.
const HALF_DIAGONAL: f32 = 0.866_026;

/// How far along the gradient nodes are looked for, in radii of what they are to prove. A near one serves where the
/// surface bends, a far one's ball is flatter.
const AWAY: [f32; 2] = [2.0, 6.0];
/// The same for the nodes of single cells, which lie within a cell of the ball's nearest point.
const OWN_AWAY: f32 = 4.0;
/// Where cells of a group lie about its centre, in radii: what a flat ball is worth.
const ACROSS: f32 = 0.6;

/// The balls that prove what is inside and what outside, for one group of cells.
#[derive(Clone, Copy)]
pub(super) struct Proof {
    /// Centre, in cells of the tool from its grid's first node, and radius in cells; 0 proves nothing.
    pub(super) inside: [f32; 4],
    pub(super) outside: [f32; 4],
}

/// The same for sixteen groups.
pub(super) struct Proofs {
    inside: [F; 4],
    outside: [F; 4],
    /// Groups that lie in the one ball or the other.
    pub(super) sure: u16,
    pub(super) gone: u16,
}

impl Proofs {
    /// That of group `i`. Real-time safe.
    #[inline(always)]
    pub(super) fn of(&self, i: usize) -> Proof {
        let i = i & (LANES - 1);
        let pick = |f: &[F; 4]| [f[0][i], f[1][i], f[2][i], f[3][i]];
        Proof { inside: pick(&self.inside), outside: pick(&self.outside) }
    }
}

/// Chooses the nodes for sixteen groups of radius `r` about the places seen.
#[inline(always)]
pub(super) fn proofs<S: Simd>(simd: S, frame: &Frame<'_>, seen: &Seen<S>, r: Lanes<S>) -> Proofs {
    let (inner, outer) = (ball(simd, frame, seen, r, (1.0, None)), ball(simd, frame, seen, r, (-1.0, None)));
    Proofs {
        inside: in_tool_cells(simd, frame, &inner),
        outside: in_tool_cells(simd, frame, &outer),
        sure: inner.held,
        gone: outer.held,
    }
}

/// For each of sixteen places one ball about a node of the object's grid, all of it on one side of the surface.
pub(super) struct Ball<S: Simd> {
    /// Grid coordinates.
    pub(super) centre: Vector<S>,
    /// m; 0 proves nothing.
    pub(super) radius: Lanes<S>,
    /// Places whose surroundings of the radius asked for lie within.
    pub(super) held: u16,
}

#[inline(always)]
fn in_tool_cells<S: Simd>(simd: S, frame: &Frame<'_>, ball: &Ball<S>) -> [F; 4] {
    let k = Constants(simd);
    let centre = turn_back(simd, frame, minus(ball.centre, splat(simd, frame.first)));
    let scale = k.of(frame.grid_cell / frame.cell);
    [
        (centre[0] * scale).store(),
        (centre[1] * scale).store(),
        (centre[2] * scale).store(),
        (ball.radius / k.of(frame.cell)).store(),
    ]
}

/// The best of the balls on one side (1 inside, -1 outside) for what lies within `r` of the places, one that is `known` among
/// them.
#[inline(always)]
pub(super) fn ball<S: Simd>(
    simd: S,
    frame: &Frame<'_>,
    seen: &Seen<S>,
    r: Lanes<S>,
    (side, known): (f32, Option<Ball<S>>),
) -> Ball<S> {
    let k = Constants(simd);
    let (zero, nothing) = (k.of(0.0), k.of(f32::NEG_INFINITY));
    let g = seen.gradient;
    let per_length = r * k.of(side / frame.grid_cell) / dot(g, g).sqrt().max(k.of(1e-3));
    let mut best = Ball { centre: seen.at, radius: zero, held: 0 };
    let mut best_worth = nothing;
    if let Some(known) = known {
        best_worth = known.radius.at_most(zero, nothing, worth(simd, frame, seen.at, r, &known).0);
        best = known;
    }
    for away in AWAY {
        let stride = per_length * k.of(away);
        let at = [seen.at[0] + g[0] * stride, seen.at[1] + g[1] * stride, seen.at[2] + g[2] * stride];
        let (centre, depth) = nearest(simd, frame, at);
        let radius = (k.of(side) * depth - k.of(frame.node_error)).max(k.of(0.0));
        let next = Ball { centre, radius, held: 0 };
        let (worth, held) = worth(simd, frame, seen.at, r, &next);
        best.held |= held;
        for axis in 0..3 {
            best.centre[axis] = worth.at_most(best_worth, best.centre[axis], next.centre[axis]);
        }
        best.radius = worth.at_most(best_worth, best.radius, next.radius);
        best_worth = worth.max(best_worth);
    }
    best
}

/// How far beyond each place its ball reaches, less what it bends back at the rim of what lies within `r`, m; and which balls hold all
/// of that.
#[inline(always)]
fn worth<S: Simd>(simd: S, frame: &Frame<'_>, at: Vector<S>, r: Lanes<S>, ball: &Ball<S>) -> (Lanes<S>, u16) {
    let k = Constants(simd);
    let across = r * r * k.of(0.5 * ACROSS * ACROSS);
    let d = minus(ball.centre, at);
    let distance = dot(d, d).sqrt() * k.of(frame.grid_cell);
    let held = simd.gt_bits((ball.radius - distance).bare(), r.bare());
    (ball.radius - distance - across / (distance - r * k.of(ACROSS)).max(r * k.of(0.1)), held)
}

/// Squared distance of cells from a ball's centre and the square of what it may be for them to lie within, both in
/// squared cells. `reach` is from their centroids to their cubes' corners.
#[inline(always)]
pub(super) fn within<S: Simd>(
    simd: S,
    p: Vector<S>,
    reach: Lanes<S>,
    ball: &[f32; 4],
) -> (Lanes<S>, Lanes<S>) {
    let k = Constants(simd);
    let d = [k.of(ball[0]) - p[0], k.of(ball[1]) - p[1], k.of(ball[2]) - p[2]];
    let least = (k.of(ball[3]) - reach - k.of(ROUNDING)).max(k.of(0.0));
    (dot(d, d), least * least)
}

/// Rounding of positions, cells.
const ROUNDING: f32 = 2e-3;

/// From cells' centroids to the farthest corners of their cubes, in cells.
#[inline(always)]
pub(super) fn reach<S: Simd>(simd: S, block: &Block) -> Lanes<S> {
    let o = load(simd, &block.offset);
    dot(o, o).sqrt() + Lanes::splat(simd, HALF_DIAGONAL)
}

/// Centroids of cells, in cells from the tool grid's first node.
#[inline(always)]
pub(super) fn in_cells<S: Simd>(simd: S, frame: &Frame<'_>, block: &Block) -> Vector<S> {
    let (q, step) = (load(simd, &block.at), Lanes::splat(simd, frame.per_step));
    [q[0] * step, q[1] * step, q[2] * step]
}

/// Adds the least and the most that the cells can contribute, times `fresh`.
#[inline(always)]
pub(super) fn bound<S: Simd>(
    simd: S,
    frame: &Frame<'_>,
    block: &Block,
    fresh: Lanes<S>,
    seen: &Seen<S>,
    sums: &mut Sums,
) {
    let k = Constants(simd);
    let (zero, one) = (k.of(0.0), k.of(1.0));
    let fraction = Lanes::load(simd, &block.fraction);
    let o = load(simd, &block.offset);
    // In cells.
    let reach = reach(simd, block);
    let error = k.of(frame.error / frame.cell);
    let depth = seen.depth * k.of(1.0 / frame.cell);
    let doubt = Lanes::load(simd, &block.doubt);
    let (least, most) = ((fraction - doubt).max(zero), (fraction + doubt).min(one));
    // A cell deeper than its corners are far is inside, whatever its nodes say.
    let low = (depth - error).at_most(reach, zero, one);
    let high = (zero - depth - error).at_most(reach, one, zero);
    let (to_inner, inner) = own_ball(simd, frame, seen, 1.0);
    let (to_outer, outer) = own_ball(simd, frame, seen, -1.0);
    let inside = cut(simd, to_inner, o, reach, inner, 1.0);
    let touched = cut(simd, to_outer, o, reach, outer, -1.0);
    let low = low.max((inside - k.of(1e-3)).max(zero));
    let high = high.min((touched + k.of(1e-3)).min(one));
    let whole = k.of(frame.cell * frame.cell * frame.cell);
    let lower = (low + least - one).max(zero);
    let upper = high.min(most);
    let whole = fresh * whole;
    sums.add(simd, LOWER, fraction.at_most(zero, zero, lower) * whole);
    sums.add(simd, UPPER, fraction.at_most(zero, zero, upper) * whole);
}

/// The node some cells up the gradient of each place (`side` 1), or down (-1): the way there, tool axes, and the radius
/// that its depth proves, in cells of the tool.
#[inline(always)]
fn own_ball<S: Simd>(simd: S, frame: &Frame<'_>, seen: &Seen<S>, side: f32) -> (Vector<S>, Lanes<S>) {
    let k = Constants(simd);
    let g = seen.gradient;
    let stride = k.of(side * OWN_AWAY) / dot(g, g).sqrt().max(k.of(1e-3));
    let (node, depth) = nearest(
        simd,
        frame,
        [seen.at[0] + g[0] * stride, seen.at[1] + g[1] * stride, seen.at[2] + g[2] * stride],
    );
    let scale = k.of(frame.grid_cell / frame.cell);
    let way = turn_back(simd, frame, minus(node, seen.at));
    let radius = (k.of(side) * depth - k.of(frame.node_error)).max(k.of(0.0));
    ([way[0] * scale, way[1] * scale, way[2] * scale], radius * k.of(1.0 / frame.cell))
}

/// A node near each place, and its depth.
#[inline(always)]
fn nearest<S: Simd>(simd: S, frame: &Frame<'_>, at: Vector<S>) -> (Vector<S>, Lanes<S>) {
    let ([x, y, z], depth) = frame.grid.node_near(simd, bare(at));
    ([Lanes::of(simd, x), Lanes::of(simd, y), Lanes::of(simd, z)], Lanes::of(simd, depth))
}

/// Fraction of each cube on the inner side of the plane that a ball proves, `way` from the centroid to its centre: beyond it all is
/// inside (`side` 1), or before it nothing is (-1).
#[inline(always)]
pub(super) fn cut<S: Simd>(
    simd: S,
    way: Vector<S>,
    o: Vector<S>,
    reach: Lanes<S>,
    radius: Lanes<S>,
    side: f32,
) -> Lanes<S> {
    let k = Constants(simd);
    let distance = dot(way, way).sqrt().max(k.of(1e-3));
    // Direction into the object.
    let inverse = k.of(1.0) / distance;
    let scale = inverse * k.of(side);
    let n: Vector<S> = [way[0] * scale, way[1] * scale, way[2] * scale];
    let bend = reach * reach * k.of(0.5) * inverse;
    // n.y >= offset, y from the centroid; then from the cube's centre.
    let offset = k.of(side) * (distance + bend - radius) + dot(n, o);
    beyond(simd, n, offset + k.of(side * ROUNDING), side)
}

/// Fraction of the unit cube about the origin with n.y >= offset, rounded down for `side` 1 and up for -1.
#[inline(always)]
fn beyond<S: Simd>(simd: S, n: Vector<S>, offset: Lanes<S>, side: f32) -> Lanes<S> {
    beyond_slope(simd, n, offset, side).0
}

/// Fraction of the unit cube about the origin with n.y >= offset, and how much it falls per length of the offset.
/// Rounded down for `side` 1 and up for -1, right in the middle for 0.
///
/// With all components of n positive the part beyond is a corner's simplex less those of the cube's other corners
/// (inclusion and exclusion). Components near 0 are raised, which moves the plane by no more than half of what was
/// added; the offset gives way by as much. n is to be about as long as 1.
#[inline(always)]
pub(super) fn beyond_slope<S: Simd>(
    simd: S,
    n: Vector<S>,
    offset: Lanes<S>,
    side: f32,
) -> (Lanes<S>, Lanes<S>) {
    let k = Constants(simd);
    let zero = k.of(0.0);
    let raw = [n[0].abs(), n[1].abs(), n[2].abs()];
    let [a, b, d] = [raw[0].max(k.of(0.04)), raw[1].max(k.of(0.04)), raw[2].max(k.of(0.04))];
    let sum = a + b + d;
    let raised = sum - raw[0] - raw[1] - raw[2];
    let offset = offset + raised * k.of(0.5 * side);
    let rest = sum * k.of(0.5) - offset;
    let rest = rest.max(zero).min(sum);
    let (mut volume, mut area) = (zero, zero);
    for (away, sign) in [
        (rest, k.of(1.0)),
        (rest - a, k.of(-1.0)),
        (rest - b, k.of(-1.0)),
        (rest - d, k.of(-1.0)),
        (rest - a - b, k.of(1.0)),
        (rest - a - d, k.of(1.0)),
        (rest - b - d, k.of(1.0)),
    ] {
        let x = away.max(zero);
        let square = x * x * sign;
        area = area + square;
        volume = volume + square * x;
    }
    let all = k.of(2.0) * a * b * d;
    ((volume / (k.of(3.0) * all)).max(zero).min(k.of(1.0)), (area / all).max(zero))
}
