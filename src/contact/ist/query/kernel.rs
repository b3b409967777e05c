//! Sixteen places against the object's field: what nodes and cells share.

use super::frame::Frame;
use crate::geometry::field::block::Cells;
use crate::geometry::lanes::{F, Lanes, Vector, dot, splat};
use crate::geometry::simd::Simd;

/// What is known of sixteen places.
pub(super) struct Seen<S: Simd> {
    /// Positions, grid coordinates.
    pub(super) at: Vector<S>,
    /// Depth, m.
    pub(super) depth: Lanes<S>,
    /// Inward gradient, object axes.
    pub(super) gradient: Vector<S>,
}

/// m p + offset.
#[inline(always)]
pub(super) fn place<S: Simd>(simd: S, m: &[f32; 9], offset: &[f32; 3], p: Vector<S>) -> Vector<S> {
    [row(simd, m, 0, p, offset[0]), row(simd, m, 1, p, offset[1]), row(simd, m, 2, p, offset[2])]
}

#[inline(always)]
fn row<S: Simd>(simd: S, m: &[f32; 9], i: usize, p: Vector<S>, offset: f32) -> Lanes<S> {
    let m = splat(simd, [m[3 * i], m[3 * i + 1], m[3 * i + 2]]);
    dot(m, p) + Lanes::splat(simd, offset)
}

/// Object axes to tool axes.
#[inline(always)]
pub(super) fn turn_back<S: Simd>(simd: S, frame: &Frame<'_>, v: Vector<S>) -> Vector<S> {
    let t = &frame.turn;
    [
        dot(splat(simd, [t[0], t[3], t[6]]), v),
        dot(splat(simd, [t[1], t[4], t[7]]), v),
        dot(splat(simd, [t[2], t[5], t[8]]), v),
    ]
}

/// Reads depth and gradient at grid coordinates.
#[inline(always)]
pub(super) fn read<S: Simd>(simd: S, frame: &Frame<'_>, at: Vector<S>) -> Seen<S> {
    let cells = Cells::look_up(simd, &frame.grid, bare(at));
    let per_cell = Lanes::splat(simd, 1.0 / frame.grid_cell);
    let [x, y, z] = cells.gradient(simd);
    let gradient =
        [Lanes::of(simd, x) * per_cell, Lanes::of(simd, y) * per_cell, Lanes::of(simd, z) * per_cell];
    Seen { at, depth: Lanes::of(simd, cells.depth(simd)), gradient }
}

/// Corners of a tetrahedron in a cube.
pub(super) const TETRAHEDRON: [[f32; 3]; 4] =
    [[1.0, 1.0, 1.0], [1.0, -1.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]];
/// All corners of a cube.
pub(super) const CUBE: [[f32; 3]; 8] = [
    [1.0, 1.0, 1.0],
    [1.0, -1.0, -1.0],
    [-1.0, 1.0, -1.0],
    [-1.0, -1.0, 1.0],
    [-1.0, -1.0, -1.0],
    [-1.0, 1.0, 1.0],
    [1.0, -1.0, 1.0],
    [1.0, 1.0, -1.0],
];

/// Mean depth and gradient about places, over a tetrahedron of the standard deviations `way` (along the tool's axes, m): the
/// means of all that surrounds the place, for depths of second degree. The one is the other's derivative, so that forces
/// made of them have a potential. With them the root of the mean squared length by which the four gradients differ
/// from their mean.
#[inline(always)]
pub(super) fn read_around<S: Simd>(
    simd: S,
    frame: &Frame<'_>,
    at: Vector<S>,
    way: Vector<S>,
) -> (Seen<S>, Lanes<S>) {
    let (zero, quarter) = (Lanes::splat(simd, 0.0), Lanes::splat(simd, 0.25));
    let (mut depth, mut square, mut sum) = (zero, zero, [zero; 3]);
    for signs in TETRAHEDRON {
        let signs = splat(simd, signs);
        let off = [way[0] * signs[0], way[1] * signs[1], way[2] * signs[2]];
        let off = place(simd, &frame.to_grid, &[0.0; 3], off);
        let seen = read(simd, frame, [at[0] + off[0], at[1] + off[1], at[2] + off[2]]);
        depth = depth + seen.depth;
        square = square + dot(seen.gradient, seen.gradient);
        for axis in 0..3 {
            sum[axis] = sum[axis] + seen.gradient[axis];
        }
    }
    let gradient = [sum[0] * quarter, sum[1] * quarter, sum[2] * quarter];
    let uneven = (square * quarter - dot(gradient, gradient)).max(zero).sqrt();
    (Seen { at, depth: depth * quarter, gradient }, uneven)
}

/// Mean depth over corners about each place, and the gradient that their differences show: unlike the field's own it is
/// continuous. `way` is how far they are along each of the tool's axes, m.
#[inline(always)]
pub(super) fn read_apart<S: Simd>(
    simd: S,
    frame: &Frame<'_>,
    at: Vector<S>,
    way: Vector<S>,
    corners: &[[f32; 3]],
) -> Seen<S> {
    let zero = Lanes::splat(simd, 0.0);
    let (mut depth, mut sum) = (zero, [zero; 3]);
    for signs in corners {
        let signs = splat(simd, *signs);
        let off = [way[0] * signs[0], way[1] * signs[1], way[2] * signs[2]];
        let off = place(simd, &frame.to_grid, &[0.0; 3], off);
        let seen = read_depth(simd, frame, [at[0] + off[0], at[1] + off[1], at[2] + off[2]]);
        depth = depth + seen;
        for axis in 0..3 {
            sum[axis] = sum[axis] + signs[axis] * seen;
        }
    }
    // The corners' signs are orthogonal: each sum is their number times the slope times the way.
    let each = Lanes::splat(simd, 1.0 / corners.len() as f32);
    let slope = [sum[0] * (each / way[0]), sum[1] * (each / way[1]), sum[2] * (each / way[2])];
    Seen { at, depth: depth * each, gradient: place(simd, &frame.turn, &[0.0; 3], slope) }
}

/// Reads depth only.
#[inline(always)]
pub(super) fn read_depth<S: Simd>(simd: S, frame: &Frame<'_>, at: Vector<S>) -> Lanes<S> {
    Lanes::of(simd, Cells::look_up(simd, &frame.grid, bare(at)).depth(simd))
}

#[inline(always)]
pub(super) fn bare<S: Simd>(v: Vector<S>) -> [S::F; 3] {
    [v[0].bare(), v[1].bare(), v[2].bare()]
}

/// Writes three lanes.
#[inline(always)]
pub(super) fn store<S: Simd>(v: Vector<S>) -> [F; 3] {
    [v[0].store(), v[1].store(), v[2].store()]
}

/// 0 for t <= 0 (and no number), 1 for t >= 1, smooth between.
#[inline(always)]
pub(super) fn smooth<S: Simd>(simd: S, t: Lanes<S>) -> Lanes<S> {
    // `max` returns its second operand for NaN.
    let t = t.max(Lanes::splat(simd, 0.0)).min(Lanes::splat(simd, 1.0));
    t * t * (Lanes::splat(simd, 3.0) - (t + t))
}
