//! Building a field from a mesh.

mod cap;
mod grid;
mod meter;
mod nodes;
mod pack;
mod rim;
mod thin;

use super::Field;
use crate::geometry::bvh::Bvh;
use crate::geometry::winding::Winding;
use crate::geometry::{Point, TriMesh};
use grid::{Blocks, Grid};
pub use grid::{Needs, needs, plan};
use meter::Meter;
use rim::Rim;

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
    /// Bound on |stored - exact| at any node, m: quantisation, single-precision arithmetic, and `coarse_error`.
    pub node_error: f64,
    /// Its part that is interpolation far from the surface, m; see [`Field::coarse_error`].
    pub coarse_error: f64,
    /// Thinnest wall found in cells; below 2 the field cannot hold it. Infinite when none was found.
    pub thinnest_cells: f64,
    /// Narrowest gap between facing walls found in cells; below 2 the field fills it in. Infinite when none was found.
    pub narrowest_gap_cells: f64,
    /// Area of surface added to close holes, m^2.
    pub capped_area: f64,
    /// Point-triangle distances evaluated.
    pub distance_tests: u64,
    /// Winding numbers evaluated at nodes; the signs of the others were flooded.
    pub winding_tests: u64,
}

/// Progress of a long build, called from worker threads; also how to cancel it.
pub trait Progress: Sync {
    /// `done` of `total` units are finished.
    fn step(&self, done: u64, total: u64);
    /// What is done from here on, in a word for the user; its units begin anew.
    fn stage(&self, _name: &'static str) {}
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
    /// A wall or gap is too thin for the grid, and a finer grid too large.
    #[error(
        "a wall or gap of {width} m spans {cells:.2} cells and may be lost; the {} m cells that would hold it need {bytes} bytes, \
         more than the limit of {limit} bytes",
        width / THIN_CELLS
    )]
    TooThin {
        /// Width of the thinnest, m.
        width: f64,
        /// The same in cells.
        cells: f64,
        /// Bytes that a field that holds it and its build take.
        bytes: u64,
        /// The limit, bytes.
        limit: u64,
    },
    /// No cells hold it.
    #[error("nothing lies inside the mesh, so that it cannot be felt; close its surface")]
    Lost,
    /// A parameter makes no sense.
    #[error("{0}")]
    Parameter(String),
}

/// Walls and gaps of fewer cells than this may be lost or filled in.
pub const THIN_CELLS: f64 = 2.0;

/// Version of the build: raised whenever the same mesh and parameters give another field, so that cached fields of older
/// versions are not taken for today's.
pub const VERSION: u32 = 2;

/// Largest field that is built, bytes: 32-bit node indices, and twice as much again while building.
pub const MAX_BYTES: u64 = 1 << 32;

/// Builds the field of a mesh, in parallel on rayon's current pool. The result depends on mesh and parameters alone, not on
/// the number of threads or the processor. Not real-time safe.
///
/// 1. Distance of every node to the exactly nearest triangle (`Bvh`), block by block of 8^3 nodes.
/// 2. Sign by the generalized winding number: evaluated once for each set of nodes of a block that no triangle separates
///    and over which the winding number provably stays on one side of one half; at every node where there is no such bound.
/// 3. Where the sign changes along a grid edge and no triangle is there, the mesh has a hole. The surface where the
///    winding number is one half closes it, and the distance becomes that to the closer of mesh and cap. After that
///    neighbouring nodes differ by at most one cell.
///
/// [`needs`] says how much memory it takes.
///
/// # Errors
/// [`FieldError`]: an empty mesh, parameters or vertices that are no use, a grid over [`MAX_BYTES`], or cancelled (within
/// some milliseconds).
///
/// # Panics
/// When a triangle's index is out of range.
pub fn build(
    mesh: &TriMesh,
    params: &FieldParams,
    progress: &dyn Progress,
) -> Result<(Field, FieldReport), FieldError> {
    let grid = Grid::choose(mesh, params)?;
    let stop = || progress.cancelled();
    let or_cancelled = FieldError::Cancelled;
    let bvh = Bvh::build_unless(mesh, &stop).ok_or(or_cancelled.clone())?;
    let winding = Winding::build_unless(mesh, &stop).ok_or(or_cancelled.clone())?;
    let rim = Rim::build_unless(mesh, &stop).ok_or(or_cancelled.clone())?;
    let meter = Meter::new(progress, grid.blocks());

    let solid = Solid { grid: &grid, bvh: &bvh, winding: &winding, rim: &rim };
    let mut depth = Blocks::new(&grid);
    let counts = nodes::fill(&solid, &mut depth, &meter)?;
    let cap = cap::close(&solid, &depth, &meter)?;
    let capped_tests = cap::apply(&cap, &grid, &mut depth, &meter)?;
    let thin = thin::measure(mesh, &solid, &meter)?;
    let (field, node_error) = pack::quantise(&grid, depth, &meter)?;
    meter.finish();

    let report = FieldReport {
        nodes: field.nodes(),
        bytes: field.bytes(),
        node_error,
        coarse_error: field.coarse_error(),
        thinnest_cells: thin.wall,
        narrowest_gap_cells: thin.gap,
        capped_area: cap.area,
        distance_tests: counts.distance + capped_tests,
        winding_tests: counts.winding,
    };
    Ok((field, report))
}

/// As [`build`], but a field in which every wall and gap spans at least [`THIN_CELLS`] cells: where the cells of `params` are
/// too large for that, with smaller ones. For tools that must not pass through thin sheets. Not real-time safe.
///
/// # Errors
/// As [`build`], and [`FieldError::TooThin`] where such a field and its build may take more than `limit` bytes.
///
/// # Panics
/// As [`build`].
pub fn build_holding(
    mesh: &TriMesh,
    params: &FieldParams,
    limit: u64,
    progress: &dyn Progress,
) -> Result<(Field, FieldReport), FieldError> {
    let mut params = *params;
    loop {
        let (field, report) = build(mesh, &params, progress)?;
        let cells = report.thinnest_cells.min(report.narrowest_gap_cells);
        if cells >= THIN_CELLS {
            return Ok((field, report));
        }
        params = finer(mesh, &params, &field, cells, limit)?.0;
    }
}

/// Parameters of a field with cells so small that a wall or gap of `cells` cells of `field` spans [`THIN_CELLS`] of them, and
/// what it and its build take together.
///
/// # Errors
/// [`FieldError::TooThin`] where that may be more than `limit` bytes, or the field more than [`MAX_BYTES`].
pub fn finer(
    mesh: &TriMesh,
    params: &FieldParams,
    field: &Field,
    cells: f64,
    limit: u64,
) -> Result<(FieldParams, Needs), FieldError> {
    let width = cells * field.cell;
    // A little finer, as the width is known to single precision. Each time at least so much, so that it ends.
    let cell = (width / THIN_CELLS * 0.999).min(0.9 * field.cell);
    let params = FieldParams { resolution: Resolution::Cell(cell), ..*params };
    let size = mesh.bounds().map(|(lo, hi)| hi - lo).ok_or(FieldError::Empty)?;
    let needs = needs(&size, mesh.triangles.len(), &params);
    let bytes = needs.field.saturating_add(needs.working);
    if !(cell > 0.0) || needs.field > MAX_BYTES || bytes > limit {
        return Err(FieldError::TooThin { width, cells, bytes, limit });
    }
    Ok((params, needs))
}

/// What the passes over the nodes read.
struct Solid<'a> {
    grid: &'a Grid,
    bvh: &'a Bvh,
    winding: &'a Winding,
    rim: &'a Rim,
}

impl Solid<'_> {
    /// True where the winding number exceeds one half.
    fn inside(&self, p: &Point) -> bool {
        self.winding.number(p) > 0.5
    }
}
