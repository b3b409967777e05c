//! Distances in single precision at every node: the papers' floating-point field, to compare the others with.

use super::Field;
use super::storage::Corners;
use crate::geometry::bvh::Bvh;
use crate::geometry::{Point, TriMesh, Vec3};
use rayon::prelude::*;

/// Signed distances at the nodes of a field, not rounded to counts.
#[derive(Clone, Debug, PartialEq)]
pub struct FloatMap {
    /// Position of node (0, 0, 0) in the object's frame, m.
    pub origin: Point,
    /// Edge of a cell, m.
    pub cell: f64,
    /// Nodes along x, y, z.
    pub dims: [u32; 3],
    depth: Box<[f32]>,
}

impl FloatMap {
    /// Exact distances to `mesh` at the nodes of its `field`, which knows what is inside. On rayon's current pool; about a
    /// microsecond a node. Not real-time safe.
    ///
    /// # Panics
    /// When a triangle's index is out of range.
    pub fn new(mesh: &TriMesh, field: &Field) -> Self {
        let bvh = Bvh::build(mesh);
        let [nx, ny, nz] = field.dims;
        let row = |row: u32| {
            let mut hint = 0;
            let node = move |i: u32| [i, row % ny, row / ny];
            (0..nx)
                .map(|i| {
                    let at = node(i);
                    let place = field.origin + Vec3::from(at.map(f64::from)) * field.cell;
                    let found = bvh.closest_from(&place, hint);
                    hint = found.triangle;
                    (if field.node(at) > 0.0 { found.distance } else { -found.distance }) as f32
                })
                .collect::<Vec<f32>>()
        };
        let rows: Vec<Vec<f32>> = (0..ny * nz).into_par_iter().map(row).collect();
        Self { origin: field.origin, cell: field.cell, dims: field.dims, depth: rows.concat().into() }
    }

    /// Depth at a node, m; `None` outside the grid. Real-time safe.
    pub fn node(&self, at: [u32; 3]) -> Option<f64> {
        if (0..3).any(|a| at[a] >= self.dims[a]) {
            return None;
        }
        let [nx, ny, _] = self.dims.map(|d| d as usize);
        let [i, j, k] = at.map(|i| i as usize);
        self.depth.get(i + nx * (j + ny * k)).copied().map(f64::from)
    }

    /// Depth at a place (object's frame, m), trilinear, m; `None` outside the grid. Real-time safe.
    pub fn depth(&self, p: &Point) -> Option<f64> {
        let mut cell = [0u32; 3];
        let mut fraction = [0.0; 3];
        for axis in 0..3 {
            let u = (p[axis] - self.origin[axis]) / self.cell;
            let last = self.dims[axis].checked_sub(2)?;
            if !(u >= 0.0 && u <= f64::from(last) + 1.0) {
                return None;
            }
            cell[axis] = (u as u32).min(last);
            fraction[axis] = u - f64::from(cell[axis]);
        }
        let mut value = [0.0; 8];
        for (k, value) in value.iter_mut().enumerate() {
            *value = self.node([0, 1, 2].map(|a| cell[a] + (k as u32 >> a & 1)))?;
        }
        Some(Corners { value, fraction, edge: 1.0 }.trilinear())
    }

    /// Bytes of the distances.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.depth)
    }
}
