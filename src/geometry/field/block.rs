//! Sampling sixteen points of a field at once: the kernel under every fast query.

use super::Field;
use crate::geometry::simd::Simd;

/// A field whose storage has been checked, in the form that kernels read.
#[derive(Clone, Copy)]
pub(crate) struct Grid<'a> {
    data: &'a [i16],
    /// Nodes along x and y (strides of the storage).
    stride: [i32; 2],
    /// Index of the last cell along each axis.
    last_cell: [i32; 3],
    /// Coordinate of the last node along each axis.
    last_node: [f32; 3],
    /// Metres per count.
    scale: f32,
    /// Square of the cell edge, m^2.
    cell_squared: f32,
}

impl<'a> Grid<'a> {
    /// Checks once what the kernels rely on: at least 2 nodes a side, exactly as many counts as nodes, and every
    /// index within i32. `None` for a field that breaks this (only possible when built by hand).
    pub(crate) fn new(field: &'a Field) -> Option<Self> {
        let nodes = field.dims.iter().try_fold(1u64, |n, &d| n.checked_mul(u64::from(d)))?;
        let sound = field.dims.iter().all(|&d| d >= 2)
            && nodes <= i32::MAX as u64
            && field.data.len() as u64 == nodes
            && (1e-9..1e9).contains(&field.cell)
            && field.scale.is_finite();
        sound.then(|| Self {
            data: &field.data,
            stride: [field.dims[0] as i32, field.dims[1] as i32],
            last_cell: field.dims.map(|d| d as i32 - 2),
            last_node: field.dims.map(|d| (d - 1) as f32),
            scale: field.scale,
            cell_squared: (field.cell * field.cell) as f32,
        })
    }
}

/// The cells that hold sixteen points, with everything needed for value and gradient.
pub(crate) struct Cells<S: Simd> {
    /// Corner counts, index bit 0 = x, bit 1 = y, bit 2 = z.
    corner: [S::F; 8],
    /// Position within the cell, 0..=1.
    fraction: [S::F; 3],
    /// Squared distance to the grid's box, m^2; 0 inside.
    outside: S::F,
    scale: f32,
}

impl<S: Simd> Cells<S> {
    /// Looks up the cells of sixteen points given in grid coordinates (node indices). Points outside the grid use
    /// the nearest point of its box.
    #[inline(always)]
    pub(crate) fn look_up(s: S, grid: &Grid<'_>, p: [S::F; 3]) -> Self {
        let zero = s.splat(0.0);
        let mut cell = [s.isplat(0); 3];
        let mut fraction = [zero; 3];
        let mut outside = zero;
        for axis in 0..3 {
            // `max` returns its second operand for NaN: a NaN coordinate reads cell 0 and is marked by `outside`.
            let q = s.min(s.max(p[axis], zero), s.splat(grid.last_node[axis]));
            cell[axis] = s.imin(s.trunc(q), s.isplat(grid.last_cell[axis]));
            fraction[axis] = s.sub(q, s.to_f32(cell[axis]));
            let off = s.sub(p[axis], q);
            outside = s.add(outside, s.mul(off, off));
        }
        let nx = s.isplat(grid.stride[0]);
        let row = s.iadd(cell[1], s.imul(s.isplat(grid.stride[1]), cell[2]));
        let base = s.iadd(cell[0], s.imul(nx, row));
        let dy = grid.stride[0] as usize;
        let dz = dy * grid.stride[1] as usize;
        // SAFETY: 0 <= cell[a] <= dims[a] - 2 in every lane, NaN included (clamped above), and `Grid::new` checked
        // that the data hold dims[0] * dims[1] * dims[2] <= i32::MAX counts, so no index overflows. The largest
        // index read is base + 1 + dy + dz <= (nx - 1) + nx (ny - 1) + nx ny (nz - 1) = len - 1.
        let corner = unsafe { s.gather_corners(grid.data, base, dy, dz) };
        Self { corner, fraction, outside: s.mul(outside, s.splat(grid.cell_squared)), scale: grid.scale }
    }

    /// Depth, m: trilinear inside the grid; outside it minus a lower bound on the distance, see
    /// [`Field::depth`](super::Field::depth). NaN for a NaN coordinate.
    #[inline(always)]
    pub(crate) fn depth(&self, s: S) -> S::F {
        let c = &self.corner;
        let [fx, fy, fz] = self.fraction;
        let y0 = lerp(s, lerp(s, c[0], c[1], fx), lerp(s, c[2], c[3], fx), fy);
        let y1 = lerp(s, lerp(s, c[4], c[5], fx), lerp(s, c[6], c[7], fx), fy);
        let inside = s.mul(lerp(s, y0, y1, fz), s.splat(self.scale));
        let zero = s.splat(0.0);
        let border = s.min(inside, zero);
        let bound = s.sub(zero, s.sqrt(s.add(s.mul(border, border), self.outside)));
        s.select_le(self.outside, zero, inside, bound)
    }

    /// `value` in the lanes inside the grid, `other` in the rest.
    #[inline(always)]
    pub(crate) fn if_inside(&self, s: S, value: S::F, other: S::F) -> S::F {
        s.select_le(self.outside, s.splat(0.0), value, other)
    }

    /// Gradient of the trilinear value along the grid's axes, m of depth per cell. Holds inside the grid only.
    #[inline(always)]
    pub(crate) fn gradient(&self, s: S) -> [S::F; 3] {
        let c = &self.corner;
        let [fx, fy, fz] = self.fraction;
        let scale = s.splat(self.scale);
        [
            s.mul(slope(s, c, [0, 2, 4, 6], 1, fy, fz), scale),
            s.mul(slope(s, c, [0, 1, 4, 5], 2, fx, fz), scale),
            s.mul(slope(s, c, [0, 1, 2, 3], 4, fx, fy), scale),
        ]
    }
}

/// Differences of the four corner pairs (i, i + step), interpolated over the other two axes.
#[inline(always)]
fn slope<S: Simd>(s: S, c: &[S::F; 8], i: [usize; 4], step: usize, f: S::F, g: S::F) -> S::F {
    let d0 = s.sub(c[i[0] + step], c[i[0]]);
    let d1 = s.sub(c[i[1] + step], c[i[1]]);
    let d2 = s.sub(c[i[2] + step], c[i[2]]);
    let d3 = s.sub(c[i[3] + step], c[i[3]]);
    lerp(s, lerp(s, d0, d1, f), lerp(s, d2, d3, f), g)
}

#[inline(always)]
fn lerp<S: Simd>(s: S, a: S::F, b: S::F, t: S::F) -> S::F {
    s.add(a, s.mul(s.sub(b, a), t))
}
