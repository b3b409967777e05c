//! What is too fine for its field, or lost in it altogether.
//!
//! Noted, unless the geometry asks for more ([`Fineness::hold`]): whether a plate of half a cell has a node in it depends on how it lies in
//! the grid, a tool of spheres asks the surface too, and a transaction of many objects should not fail for one of them.

use crate::contact::ist::parts::closed;
use crate::geometry::TriMesh;
use crate::geometry::field::Field;
use crate::geometry::field::build::{FieldError, FieldParams, FieldReport, Needs, THIN_CELLS, finer};
use crate::geometry::mass::mass_properties;

/// 2 volume / area in cells below which a closed body must have walls of less than four cells, the widest that a field's build
/// looks for: a convex body around a ball of radius r has volume >= r area / 3 (every face is r or farther from the centre),
/// so that a body four cells wide has at least 4/3.
const SLENDER: f64 = 4.0 / 3.0;

/// How a field holds its mesh.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fineness {
    /// Thinnest wall, or a bound on it, in cells; infinite when all are thick enough.
    wall: f64,
    /// Narrowest gap in cells; infinite when none was found.
    gap: f64,
    /// No node lies inside.
    lost: bool,
}

impl Fineness {
    /// Off the real-time path: goes over the mesh and, until it finds one inside, over the field's nodes.
    pub(super) fn of(mesh: &TriMesh, field: &Field, report: &FieldReport) -> Self {
        let mut wall = report.thinnest_cells;
        if let Some((low, high)) = mesh.bounds() {
            // The sizes are sums of rounded numbers: two cells stay two cells.
            wall = wall.min((high - low).amin() / field.cell * (1.0 + 1e-9));
        }
        // A wall so thin that a ray misses its other side is not found by the build.
        let mass = mass_properties(mesh);
        let mean = 2.0 * mass.volume / mass.area / field.cell;
        let slender = report.thinnest_cells.is_infinite() && mean > 0.0 && mean < SLENDER.min(wall);
        if slender && closed(mesh) {
            wall = mean;
        }
        Self { wall, gap: report.narrowest_gap_cells, lost: lost(field) }
    }

    /// The finer parameters for which all of it is in the field, and what they take; `None` when it is.
    ///
    /// # Errors
    /// [`FieldError::TooThin`]: more than `limit` bytes; [`FieldError::Lost`]: smaller cells would not help.
    pub(super) fn hold(
        &self,
        mesh: &TriMesh,
        params: &FieldParams,
        field: &Field,
        limit: u64,
    ) -> Result<Option<(FieldParams, Needs)>, FieldError> {
        let cells = self.wall.min(self.gap);
        if cells < THIN_CELLS {
            return finer(mesh, params, field, cells, limit).map(Some);
        }
        if self.lost { Err(FieldError::Lost) } else { Ok(None) }
    }

    /// What the user should know of the mesh of that name, if anything.
    pub(super) fn note(&self, label: &str) -> Option<String> {
        let mut what = Vec::new();
        if self.lost {
            what.push("no node of its field lies inside it, so that it cannot be felt".to_owned());
        }
        if self.wall < THIN_CELLS {
            what.push(format!("its thinnest wall spans {} cells and can be lost", cells(self.wall)));
        }
        if self.gap < THIN_CELLS {
            what.push(format!("its narrowest gap spans {} cells and can be filled in", cells(self.gap)));
        }
        let what = (!what.is_empty()).then(|| what.join(", "))?;
        if self.wall.min(self.gap) >= THIN_CELLS {
            return Some(format!("{label}: {what}; close its surface, or choose smaller cells"));
        }
        Some(format!("{label}: {what}; choose smaller cells, so that it spans {THIN_CELLS} or more"))
    }
}

fn cells(x: f64) -> String {
    if x > 0.0 && x < 0.01 { format!("{x:.1e}") } else { format!("{x:.2}") }
}

/// No node is inside. Bodies are mostly in the middle, so that the search begins there.
fn lost(field: &Field) -> bool {
    let [nx, ny, nz] = field.dims;
    let mut layers: Vec<u32> = (0..nz).collect();
    layers.sort_by_key(|k| k.abs_diff(nz / 2));
    let mut nodes = layers.iter().flat_map(|k| (0..ny).flat_map(move |j| (0..nx).map(move |i| [i, j, *k])));
    !nodes.any(|at| field.node(at) > 0.0)
}

#[cfg(test)]
#[path = "thin_tests.rs"]
mod tests;
