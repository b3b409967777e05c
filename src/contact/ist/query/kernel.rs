//! Sixteen nodes, or sixteen cells, against the object's field.

use super::frame::Frame;
use super::sums::{DAMPING, FORCE, LOWER, STIFFNESS, Sums, TORQUE, UPPER, VOLUME};
use super::tree::{CellColumns, FULL, Node, WIDTH};
use crate::geometry::field::block::Cells;
use crate::geometry::lanes::{Constants, F, Lanes, Vector, cross, dot, load, minus, splat};
use crate::geometry::simd::{LANES, Simd};

/// Nodes are replaced by their children until their depth is this many radii, where one normal for all that is below
/// is good enough; from one radius on the two are blended.
const DEEP_NODE: f32 = 2.0;
/// The same for groups of cells, which are small beside the curvature of what a field can hold.
const DEEP_GROUP: f32 = 1.25;

/// Half the diagonal of a unit cube.
const HALF_DIAGONAL: f32 = 0.866_026;

/// What is known of sixteen nodes.
pub(super) struct Seen<S: Simd> {
    /// Positions, grid coordinates.
    pub(super) at: Vector<S>,
    /// Depth, m.
    pub(super) depth: Lanes<S>,
    /// Inward gradient, object axes.
    pub(super) gradient: Vector<S>,
}

/// The children of four nodes side by side.
pub(super) struct Sixteen {
    pub(super) r: F,
    pub(super) spread: F,
    pub(super) volume: F,
    /// Radii of depth from which one normal is good enough.
    pub(super) deep: F,
    place: [F; 3],
}

/// Lanes `WIDTH * i..` are the children of node i.
#[inline(always)]
pub(super) fn sixteen(nodes: [&Node; LANES / WIDTH]) -> Sixteen {
    let none = [0.0; LANES];
    let mut out = Sixteen { r: none, spread: none, volume: none, deep: none, place: [none; 3] };
    for i in 0..LANES / WIDTH {
        for k in 0..WIDTH {
            let lane = WIDTH * i + k;
            out.r[lane] = nodes[i].r[k];
            out.spread[lane] = nodes[i].spread[k];
            out.volume[lane] = nodes[i].volume[k];
            out.deep[lane] = if nodes[i].is_group(k) { DEEP_GROUP } else { DEEP_NODE };
            out.place[0][lane] = nodes[i].x[k];
            out.place[1][lane] = nodes[i].y[k];
            out.place[2][lane] = nodes[i].z[k];
        }
    }
    out
}

#[inline(always)]
fn place<S: Simd>(simd: S, m: &[f32; 9], offset: &[f32; 3], p: Vector<S>) -> Vector<S> {
    [row(simd, m, 0, p, offset[0]), row(simd, m, 1, p, offset[1]), row(simd, m, 2, p, offset[2])]
}

#[inline(always)]
fn row<S: Simd>(simd: S, m: &[f32; 9], i: usize, p: Vector<S>, offset: f32) -> Lanes<S> {
    let m = splat(simd, [m[3 * i], m[3 * i + 1], m[3 * i + 2]]);
    dot(m, p) + Lanes::splat(simd, offset)
}

/// Object axes to tool axes.
#[inline(always)]
fn turn_back<S: Simd>(simd: S, frame: &Frame<'_>, v: Vector<S>) -> Vector<S> {
    let t = &frame.turn;
    [
        dot(splat(simd, [t[0], t[3], t[6]]), v),
        dot(splat(simd, [t[1], t[4], t[7]]), v),
        dot(splat(simd, [t[2], t[5], t[8]]), v),
    ]
}

/// Reads depth and gradient at grid coordinates.
#[inline(always)]
fn read<S: Simd>(simd: S, frame: &Frame<'_>, at: Vector<S>) -> Seen<S> {
    let cells = Cells::look_up(simd, &frame.grid, bare(at));
    let per_cell = Lanes::splat(simd, 1.0 / frame.grid_cell);
    let [x, y, z] = cells.gradient(simd);
    let gradient =
        [Lanes::of(simd, x) * per_cell, Lanes::of(simd, y) * per_cell, Lanes::of(simd, z) * per_cell];
    Seen { at, depth: Lanes::of(simd, cells.depth(simd)), gradient }
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
    let at = place(simd, &frame.to_grid, &frame.origin, p);
    Lanes::of(simd, Cells::look_up(simd, &frame.grid, bare(at)).depth(simd))
}

/// How much a node's opening can change, m^3: its volume, less the clearer it lies inside or outside.
#[inline(always)]
pub(super) fn stake<S: Simd>(simd: S, frame: &Frame<'_>, nodes: &Sixteen, depth: Lanes<S>) -> Lanes<S> {
    let (zero, one) = (Lanes::splat(simd, 0.0), Lanes::splat(simd, 1.0));
    let r = Lanes::load(simd, &nodes.r);
    let deep = Lanes::load(simd, &nodes.deep) * r;
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

/// Adds what sixteen volumes (m^3) contribute of which `inside` is inside; `slope` = d(inside)/d(depth), 1/m.
#[inline(always)]
pub(super) fn contribute<S: Simd>(
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

/// Up to sixteen cells.
pub(super) struct Block {
    /// Stored positions.
    at: [F; 3],
    /// Offset of the solid part's centroid from the cube's centre, in cells.
    offset: [F; 3],
    /// Solid fraction; 0 past the last cell.
    fraction: F,
    /// Half the step of the fraction: 0 for cells that are wholly solid.
    doubt: F,
}

/// Unpacks cells `first..first + count` (at most sixteen).
#[inline(always)]
pub(super) fn unpack(cells: &CellColumns, first: usize, count: usize) -> Option<Block> {
    let mut block = Block {
        at: [[0.0; LANES]; 3],
        offset: [[0.0; LANES]; 3],
        fraction: [0.0; LANES],
        doubt: [0.0; LANES],
    };
    let (log, half) = (cells.steps_log, 1 << (cells.steps_log - 1));
    let per_step = 1.0 / cells.steps();
    for axis in 0..3 {
        let from: &[u16; LANES] = cells.at[axis].get(first..)?.first_chunk()?;
        for i in 0..LANES {
            let q = i32::from(from[i]);
            block.at[axis][i] = q as f32;
            block.offset[axis][i] = (q - (((q + half) >> log) << log)) as f32 * per_step;
        }
    }
    let from: &[u16; LANES] = cells.fraction.get(first..)?.first_chunk()?;
    for i in 0..LANES {
        let full = from[i] == FULL;
        let used = i < count;
        let f = if full { 1.0 } else { (f32::from(from[i]) + 0.5) * (1.0 / 65_535.0) };
        block.fraction[i] = if used { f } else { 0.0 };
        block.doubt[i] = if used && !full { 0.6 / 65_535.0 } else { 0.0 };
    }
    Some(block)
}

/// What is known of sixteen cells.
pub(super) struct SeenCells<S: Simd> {
    pub(super) seen: Seen<S>,
    /// Half the width of the cell's solid part across the object's surface, m.
    pub(super) half: Lanes<S>,
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
    SeenCells { seen, half }
}

/// Adds up to sixteen cells with weight `weight` to the estimate and, unless `certain`, to the bounds.
#[inline(always)]
pub(super) fn add_cells<S: Simd>(
    simd: S,
    frame: &Frame<'_>,
    block: &Block,
    weight: f32,
    certain: bool,
    sums: &mut Sums,
) {
    let k = Constants(simd);
    let (zero, one) = (k.of(0.0), k.of(1.0));
    let SeenCells { seen, half } = see_cells(simd, frame, block);
    let fraction = Lanes::load(simd, &block.fraction);
    let whole = frame.cell * frame.cell * frame.cell;
    // A ramp, and its slope where it is neither 0 nor 1.
    let ramp = k.of(0.5) + k.of(0.5) * seen.depth / half;
    let inside = ramp.max(zero).min(one);
    let slope = (ramp - inside).abs().at_most(zero, k.of(0.5) / half, zero);
    if !certain {
        bound(simd, frame, block, &seen, sums);
    }
    if simd.gt_bits((inside * fraction).bare(), zero.bare()) == 0 {
        return;
    }
    deepest(simd, frame, &seen, inside * fraction, sums);
    contribute(simd, frame, &seen, fraction * k.of(whole * weight), (inside, slope), sums);
}

/// Remembers the deepest place of each octant.
#[inline(always)]
fn deepest<S: Simd>(simd: S, frame: &Frame<'_>, seen: &Seen<S>, used: Lanes<S>, sums: &mut Sums) {
    let zero = Lanes::splat(simd, 0.0);
    let depth = used.at_most(zero, zero, seen.depth);
    let mut least = sums.deepest[0].0;
    for d in &sums.deepest {
        least = if d.0 < least { d.0 } else { least };
    }
    let mut bits = simd.gt_bits(depth.bare(), Lanes::splat(simd, least).bare());
    if bits == 0 {
        return;
    }
    let (depth, at) = (depth.store(), store(seen.at));
    let g = store(seen.gradient);
    while bits != 0 {
        let i = bits.trailing_zeros() as usize & (LANES - 1);
        bits &= bits - 1;
        let p = [at[0][i], at[1][i], at[2][i]];
        let o = &frame.origin;
        let octant = usize::from(p[0] > o[0]) | usize::from(p[1] > o[1]) << 1 | usize::from(p[2] > o[2]) << 2;
        if depth[i] > sums.deepest[octant].0 {
            sums.deepest[octant] = (depth[i], p);
            sums.inward[octant] = [g[0][i], g[1][i], g[2][i]];
        }
    }
}

/// Adds the least and the most that the cells can contribute.
///
/// A cell farther from the surface than its corners is wholly in or out. For the others: a node of the object's grid
/// of depth P lies at the distance D from the centroid, and q = centroid + y is at least
/// P - |q - node| >= P - D + n.y - |y|^2 / 2D deep, n the direction to the node: depth changes by no more than the
/// distance, and sqrt(1 + z) <= 1 + z / 2. So the half-space beyond a plane is inside, and likewise with a node
/// outside. The plane cuts the cube; what of the cube is not solid may lie on either side.
#[inline(always)]
fn bound<S: Simd>(simd: S, frame: &Frame<'_>, block: &Block, seen: &Seen<S>, sums: &mut Sums) {
    let k = Constants(simd);
    let (zero, one) = (k.of(0.0), k.of(1.0));
    let cell = k.of(frame.cell);
    let fraction = Lanes::load(simd, &block.fraction);
    let doubt = Lanes::load(simd, &block.doubt);
    let (least, most) = ((fraction - doubt).max(zero), (fraction + doubt).min(one));
    let o = load(simd, &block.offset);
    let reach = (dot(o, o).sqrt() + k.of(HALF_DIAGONAL)) * cell;
    let error = k.of(frame.error);
    let sure = simd.gt_bits((seen.depth - error).bare(), reach.bare());
    let gone = simd.gt_bits((zero - seen.depth - error).bare(), reach.bare());
    let used = simd.gt_bits(fraction.bare(), zero.bare());
    if used & !gone == 0 {
        return;
    }
    let open = used & !(sure | gone);
    let all_in = seen.depth - error;
    let (mut low, mut high) =
        (all_in.at_most(reach, zero, one), (zero - all_in - error - error).at_most(reach, one, zero));
    if open != 0 {
        let g = seen.gradient;
        let length = dot(g, g).sqrt().max(k.of(1e-3));
        // A node some cells up the gradient, and one down it.
        let stride = k.of(AWAY) / length;
        let up = nearest(
            simd,
            frame,
            [seen.at[0] + g[0] * stride, seen.at[1] + g[1] * stride, seen.at[2] + g[2] * stride],
        );
        let down = nearest(
            simd,
            frame,
            [seen.at[0] - g[0] * stride, seen.at[1] - g[1] * stride, seen.at[2] - g[2] * stride],
        );
        let inside = cut(simd, frame, seen, o, reach, up, 1.0);
        let touched = cut(simd, frame, seen, o, reach, down, -1.0);
        let sure_low = (inside - k.of(1e-3)).max(zero);
        let sure_high = (touched + k.of(1e-3)).min(one);
        // Where nothing was open these only confirm.
        low = low.max(sure_low);
        high = high.min(sure_high);
    }
    let whole = k.of(frame.cell * frame.cell * frame.cell);
    let lower = (low + least - one).max(zero);
    let upper = high.min(most);
    sums.add(simd, LOWER, fraction.at_most(zero, zero, lower) * whole);
    sums.add(simd, UPPER, fraction.at_most(zero, zero, upper) * whole);
    sums.block(simd);
}

/// Fraction of each cube on the inner side of the plane that a node proves: beyond it all is inside (`side` 1), or
/// before it nothing is (-1).
#[inline(always)]
fn cut<S: Simd>(
    simd: S,
    frame: &Frame<'_>,
    seen: &Seen<S>,
    o: Vector<S>,
    reach: Lanes<S>,
    (node, depth): (Vector<S>, Lanes<S>),
    side: f32,
) -> Lanes<S> {
    let grid_cell = Lanes::splat(simd, frame.grid_cell);
    let d = minus(node, seen.at);
    let steps = dot(d, d).sqrt().max(Lanes::splat(simd, 1e-3));
    let distance = steps * grid_cell;
    let side_lanes = Lanes::splat(simd, side);
    // Direction into the object, tool axes.
    let turned = turn_back(simd, frame, d);
    let scale = side_lanes / steps;
    let n: Vector<S> = [turned[0] * scale, turned[1] * scale, turned[2] * scale];
    let ball = (side_lanes * depth - Lanes::splat(simd, frame.node_error)).max(Lanes::splat(simd, 0.0));
    let bend = reach * reach * Lanes::splat(simd, 0.5) / distance;
    // n.y >= offset, y from the centroid, m; then from the cube's centre, in cells.
    let offset = side_lanes * (distance + bend - ball) / Lanes::splat(simd, frame.cell) + dot(n, o);
    beyond(simd, n, offset + Lanes::splat(simd, side * 2e-3), side)
}

/// How far along the gradient the node for a cell's bound is taken, in cells of the object's grid.
const AWAY: f32 = 4.0;

/// The node nearest to each place, and its depth.
#[inline(always)]
fn nearest<S: Simd>(simd: S, frame: &Frame<'_>, at: Vector<S>) -> (Vector<S>, Lanes<S>) {
    let node = [
        whole(simd, at[0], frame.field.dims[0]),
        whole(simd, at[1], frame.field.dims[1]),
        whole(simd, at[2], frame.field.dims[2]),
    ];
    let depth = Cells::look_up(simd, &frame.grid, bare(node)).depth(simd);
    (node, Lanes::of(simd, depth))
}

/// The whole number next to a coordinate, within the grid.
#[inline(always)]
fn whole<S: Simd>(simd: S, x: Lanes<S>, nodes: u32) -> Lanes<S> {
    // `max` returns its second operand for NaN.
    let x = (x + Lanes::splat(simd, 0.5)).max(Lanes::splat(simd, 0.0));
    let x = x.min(Lanes::splat(simd, nodes.max(1) as f32 - 1.0));
    Lanes::of(simd, simd.to_f32(simd.trunc(x.bare())))
}

#[inline(always)]
fn bare<S: Simd>(v: Vector<S>) -> [S::F; 3] {
    [v[0].bare(), v[1].bare(), v[2].bare()]
}

/// Fraction of the unit cube about the origin with n.y >= offset, rounded down for `side` 1 and up for -1.
///
/// With all components of n positive the part beyond is a corner's simplex less those of the cube's other corners
/// (inclusion and exclusion). Components near 0 are raised, which moves the plane by no more than half of what was
/// added; the offset gives way by as much.
#[inline(always)]
fn beyond<S: Simd>(simd: S, n: Vector<S>, offset: Lanes<S>, side: f32) -> Lanes<S> {
    let k = Constants(simd);
    let zero = k.of(0.0);
    let raw = [n[0].abs(), n[1].abs(), n[2].abs()];
    let [a, b, d] = [raw[0].max(k.of(0.04)), raw[1].max(k.of(0.04)), raw[2].max(k.of(0.04))];
    let sum = a + b + d;
    let raised = sum - raw[0] - raw[1] - raw[2];
    let offset = offset + raised * k.of(0.5 * side);
    let rest = sum * k.of(0.5) - offset;
    let rest = rest.max(zero).min(sum);
    let volume = cubed(rest, zero) - cubed(rest - a, zero) - cubed(rest - b, zero) - cubed(rest - d, zero)
        + cubed(rest - a - b, zero)
        + cubed(rest - a - d, zero)
        + cubed(rest - b - d, zero);
    (volume / (k.of(6.0) * a * b * d)).max(zero).min(k.of(1.0))
}

#[inline(always)]
fn cubed<S: Simd>(x: Lanes<S>, zero: Lanes<S>) -> Lanes<S> {
    let x = x.max(zero);
    x * x * x
}

/// Writes three lanes.
#[inline(always)]
pub(super) fn store<S: Simd>(v: Vector<S>) -> [F; 3] {
    [v[0].store(), v[1].store(), v[2].store()]
}
