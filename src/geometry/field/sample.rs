//! Sampling a field: value and gradient, in f64 for one point and in f32 lanes for many.
//!
//! Outside the grid nothing is known but that the surface lies within it. Let q be the point of the grid's box
//! nearest to x, and D(q) the distance read there. For every s in the box (s - q).(x - q) <= 0, hence
//! |x - s|^2 >= |q - s|^2 + |x - q|^2 and the distance of x is at least sqrt(D(q)^2 + |x - q|^2). The depth
//! reported outside is minus that bound: continuous across the border of the grid, never positive.

use super::Field;
use super::block::{Cells, Grid};
use super::storage::{Corners, lerp};
use crate::geometry::simd::{LANES, Simd, SimdLevel, dispatch, level};
use crate::geometry::{Point, Vec3};

impl Field {
    /// Samples a function of position (m, object's frame) that returns depth (m, positive inside) at every node.
    /// `dims` are raised to at least 2. Allocates; not for the servo.
    pub fn from_fn(origin: Point, cell: f64, dims: [u32; 3], depth: impl Fn(&Point) -> f64) -> Self {
        let dims = dims.map(|d| d.max(2));
        let mut values = Vec::with_capacity(dims.iter().map(|&d| d as usize).product());
        for k in 0..dims[2] {
            for j in 0..dims[1] {
                for i in 0..dims[0] {
                    let p = origin + cell * Vec3::new(f64::from(i), f64::from(j), f64::from(k));
                    values.push(depth(&p));
                }
            }
        }
        let largest = values.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        // Rounded up so that the largest value still fits.
        let scale = ((largest / 32767.0) as f32).next_up().max(f32::MIN_POSITIVE);
        let counts = values.iter().map(|v| (v / f64::from(scale)).round() as i16).collect();
        Self::of_counts(origin, cell, dims, scale, counts)
    }

    /// Depth at `p` (object's frame, m), m: trilinear and positive inside. Outside the grid minus a lower bound on
    /// the distance, never positive (module text). NaN for a NaN point. Real-time safe.
    pub fn depth(&self, p: &Point) -> f64 {
        let (cell, outside) = self.look_up(p);
        let value = cell.trilinear();
        if outside.norm_squared() <= 0.0 { value } else { -value.min(0.0).hypot(outside.norm()) }
    }

    /// Depth (m) and its gradient (m/m, object's axes, pointing inwards) at `p`. The gradient is that of the
    /// trilinear value, so it jumps from cell to cell; outside the grid that of the bound. Real-time safe.
    pub fn depth_gradient(&self, p: &Point) -> (f64, Vec3) {
        let (cell, outside) = self.look_up(p);
        let value = cell.trilinear();
        let c = &cell.value;
        let [fx, fy, fz] = cell.fraction;
        let slope = |a: [usize; 4], b: [usize; 4], f: f64, g: f64| {
            let d = |k: usize| c[b[k]] - c[a[k]];
            lerp(lerp(d(0), d(1), f), lerp(d(2), d(3), f), g) / (self.cell * cell.edge)
        };
        let mut gradient = Vec3::new(
            slope([0, 2, 4, 6], [1, 3, 5, 7], fy, fz),
            slope([0, 1, 4, 5], [2, 3, 6, 7], fx, fz),
            slope([0, 1, 2, 3], [4, 5, 6, 7], fx, fy),
        );
        if outside.norm_squared() <= 0.0 {
            return (value, gradient);
        }
        let border = value.min(0.0);
        let bound = border.hypot(outside.norm());
        for axis in 0..3 {
            // q does not move with x along an axis on which it is clamped.
            if outside[axis] != 0.0 {
                gradient[axis] = 0.0;
            }
        }
        (-bound, (gradient * border.abs() - outside) / bound)
    }

    /// A continuous gradient at `p` (m/m, object's axes, inwards): central differences of [`Field::depth`] over
    /// one cell to each side. Its length falls below 1 near the medial axis. Real-time safe.
    pub fn smooth_gradient(&self, p: &Point) -> Vec3 {
        let h = self.cell;
        let along = |e: Vec3| (self.depth(&(p + e)) - self.depth(&(p - e))) / (2.0 * h);
        Vec3::new(along(Vec3::x() * h), along(Vec3::y() * h), along(Vec3::z() * h))
    }

    /// Depth (m) and a continuous inward gradient (m/m) at `p` (object's frame, m) as well as the field knows them. Outside
    /// the grid the surface point nearest to the border point q is estimated as q + D(q) g, and minus the distance to it
    /// taken: exact where the surface is flat there, and never less than the true distance but for the field's error, so
    /// that nothing that reaches over the border claims a contact that is not there. Real-time safe.
    pub fn locate(&self, p: &Point) -> (f64, Vec3) {
        let far = self.far_corner();
        let q = Point::from(Vec3::from_fn(|a, _| p[a].max(self.origin[a]).min(far[a])));
        // One cell within the border, so that the differences stay inside the grid.
        let h = self.cell;
        let at = Point::from(Vec3::from_fn(|a, _| q[a].min(far[a] - h).max(self.origin[a] + h)));
        let gradient = self.smooth_gradient(&at);
        let length = gradient.norm();
        if self.covers(p) || length <= 0.0 {
            return (self.depth(p), gradient);
        }
        let to_surface = (q - p) + gradient * (-self.depth(&q).min(0.0) / length);
        let distance = to_surface.norm();
        (-distance, to_surface / distance.max(f64::MIN_POSITIVE))
    }

    /// True for a point inside the grid's box. Real-time safe.
    pub fn covers(&self, p: &Point) -> bool {
        let far = self.far_corner();
        (0..3).all(|a| p[a] >= self.origin[a] && p[a] <= far[a])
    }

    /// The largest |trilinear value - true depth| inside the grid, m: the field of a solid changes by at most the
    /// distance between two points, so the eight weighted corners are off by at most sqrt(3)/2 cell, plus half a
    /// count of rounding, plus what the bricks leave out, plus f32 rounding of the fast paths. Real-time safe.
    pub fn sample_error(&self) -> f64 {
        let largest_coordinate = f64::from(self.dims.into_iter().max().unwrap_or(0));
        let rounding = 8.0
            * f64::from(f32::EPSILON)
            * (largest_coordinate * self.cell + f64::from(self.scale) * 32767.0);
        0.75f64.sqrt() * self.cell + 0.5 * f64::from(self.scale) + self.coarse_error() + rounding
    }

    /// The far corner of the grid in the object's frame, m.
    pub fn far_corner(&self) -> Point {
        self.origin + self.cell * Vec3::from(self.dims.map(|d| f64::from(d.max(1) - 1)))
    }

    /// Cell of the nearest point of the grid's box, and the offset from that point to `p`, m.
    fn look_up(&self, p: &Point) -> (Corners, Vec3) {
        let mut index = [0usize; 3];
        let mut fraction = [0.0; 3];
        let mut outside = Vec3::zeros();
        for axis in 0..3 {
            let u = (p[axis] - self.origin[axis]) / self.cell;
            let q = u.clamp(0.0, f64::from(self.dims[axis].max(2) - 1));
            // `as` sends NaN to 0.
            index[axis] = (q as usize).min(self.dims[axis].max(2) as usize - 2);
            fraction[axis] = q - index[axis] as f64;
            outside[axis] = (u - q) * self.cell;
        }
        let corners = self.corners(index, fraction);
        let value = corners.value.map(|c| c * f64::from(self.scale));
        (Corners { value, ..corners }, outside)
    }
}

/// Depth (m) of points given in **grid coordinates** (node indices, `(p - origin) / cell`), with the best
/// instructions this CPU has, and, where `gradient` is given, the gradient along the grid's axes in metres of
/// depth per cell (valid inside the grid). Whole blocks of [`LANES`] are answered, so every slice is cut to the
/// shortest one's whole blocks; returns the number of points answered. Real-time safe.
pub fn sample_batch(
    field: &Field,
    points: [&[f32]; 3],
    depth: &mut [f32],
    gradient: Option<[&mut [f32]; 3]>,
) -> usize {
    sample_batch_at(level(), field, points, depth, gradient)
}

/// [`sample_batch`] with the instructions of `level`; every level gives the same bits. Real-time safe.
pub fn sample_batch_at(
    level: SimdLevel,
    field: &Field,
    points: [&[f32]; 3],
    depth: &mut [f32],
    gradient: Option<[&mut [f32]; 3]>,
) -> usize {
    let Some(grid) = Grid::new(field) else { return 0 };
    let grid = &grid;
    let points = points.map(|p| p.as_chunks::<LANES>().0);
    let depth = depth.as_chunks_mut::<LANES>().0;
    let gradient = gradient.map(|g| g.map(|g| g.as_chunks_mut::<LANES>().0));
    dispatch!(level, batch(
        grid: &Grid<'_>,
        points: [&[[f32; LANES]]; 3],
        depth: &mut [[f32; LANES]],
        gradient: Option<[&mut [[f32; LANES]]; 3]>
    ) -> usize)
}

#[inline(always)]
fn batch<S: Simd>(
    s: S,
    grid: &Grid<'_>,
    points: [&[[f32; LANES]]; 3],
    depth: &mut [[f32; LANES]],
    mut gradient: Option<[&mut [[f32; LANES]]; 3]>,
) -> usize {
    let mut blocks = points.iter().fold(depth.len(), |n, p| n.min(p.len()));
    if let Some(g) = &gradient {
        blocks = g.iter().fold(blocks, |n, g| n.min(g.len()));
    }
    for block in 0..blocks {
        let [x, y, z] = points;
        let cells = Cells::look_up(s, grid, [s.load(&x[block]), s.load(&y[block]), s.load(&z[block])]);
        s.store(cells.depth(s), &mut depth[block]);
        if let Some(out) = &mut gradient {
            let gradient = cells.gradient(s);
            for axis in 0..3 {
                s.store(gradient[axis], &mut out[axis][block]);
            }
        }
    }
    blocks * LANES
}

#[cfg(test)]
#[path = "sample_tests.rs"]
mod tests;
