//! Where the nodes lie, and the blocked array that the passes work on.

use super::{FieldError, FieldParams, MAX_BYTES, Resolution};
use crate::geometry::{Point, TriMesh, Vec3};

/// Nodes along the edge of a block.
pub(super) const EDGE: usize = 8;
/// Nodes of a block.
pub(super) const BLOCK: usize = EDGE * EDGE * EDGE;

/// Working memory for a triangle: its copy, its places in both trees, its edges.
const TRIANGLE_BYTES: u64 = 450;

/// Largest padding; more would only waste memory.
const MAX_PADDING: u32 = 4096;

/// The grid of nodes.
pub(super) struct Grid {
    pub(super) origin: Point,
    pub(super) cell: f64,
    pub(super) dims: [usize; 3],
}

impl Grid {
    /// The grid for a mesh: its box, centred, plus the padding.
    pub(super) fn choose(mesh: &TriMesh, params: &FieldParams) -> Result<Self, FieldError> {
        if mesh.triangles.is_empty() {
            return Err(FieldError::Empty);
        }
        let bad = |what: String| Err(FieldError::Parameter(what));
        if !(2..=MAX_PADDING).contains(&params.padding) {
            return bad(format!("the padding must be 2 to {MAX_PADDING} cells, not {}", params.padding));
        }
        let used = || mesh.triangles.iter().flatten().map(|&v| mesh.vertices[v as usize]);
        if !used().all(|v| v.iter().all(|x| x.abs() < 1e12)) {
            return bad("the mesh has a vertex that is not finite or beyond 1e12 m".into());
        }
        let (far, near) = (Point::from([f64::INFINITY; 3]), Point::from([f64::NEG_INFINITY; 3]));
        let (lo, hi) = used().fold((far, near), |(lo, hi), v| (lo.inf(&v), hi.sup(&v)));
        let size = hi - lo;
        let longest = size.max();
        let limit = limit(params);
        if params.resolution == Resolution::Longest(0) {
            return bad("the longest side must have at least one cell".into());
        }
        let cell = cell(&size, params);
        if longest == 0.0 && !matches!(params.resolution, Resolution::Cell(_)) {
            return bad("all vertices coincide, so the cell must be given in metres".into());
        }
        if !(cell.is_finite() && cell > 0.0) {
            return bad(format!("the cell must be a positive number of metres, not {cell}"));
        }
        // Beyond this the single-precision coordinates of the build overflow or no longer resolve a cell.
        if cell > 1e12 * longest.max(1e-12) || cell < 1e-5 * longest {
            return bad(format!("a cell of {cell} m does not fit a mesh of {longest} m"));
        }
        let counts = nodes_along(&size, cell, params.padding);
        let total = counts.iter().product::<f64>();
        if 2.0 * total > limit as f64 {
            return Err(FieldError::TooLarge { nodes: total as u64, bytes: (2.0 * total) as u64, limit });
        }
        // Centred: the same slack on both sides.
        let span = Vec3::from(counts.map(|n| (n - 1.0) * cell));
        let origin = Point::from(lo.coords * 0.5 + hi.coords * 0.5 - span * 0.5);
        Ok(Self { origin, cell, dims: counts.map(|n| n as usize) })
    }

    /// Position of a node, m.
    pub(super) fn node(&self, at: [usize; 3]) -> Point {
        self.origin + Vec3::from(at.map(|i| i as f64)) * self.cell
    }

    /// True for the outermost nodes.
    #[inline(always)]
    pub(super) fn on_border(&self, at: [usize; 3]) -> bool {
        (0..3).any(|a| at[a] == 0 || at[a] + 1 == self.dims[a])
    }

    /// Blocks along each axis.
    pub(super) fn block_dims(&self) -> [usize; 3] {
        self.dims.map(|n| n.div_ceil(EDGE))
    }

    /// Number of blocks.
    pub(super) fn blocks(&self) -> usize {
        self.block_dims().iter().product()
    }

    /// First node of a block and its nodes along each axis.
    pub(super) fn block(&self, index: usize) -> ([usize; 3], [usize; 3]) {
        let b = self.block_dims();
        let first = [index % b[0], index / b[0] % b[1], index / (b[0] * b[1])].map(|i| i * EDGE);
        (first, [0, 1, 2].map(|a| EDGE.min(self.dims[a] - first[a])))
    }

    /// Centre of a block (m) and the distance from there to its farthest node (m).
    pub(super) fn block_ball(&self, first: [usize; 3], len: [usize; 3]) -> (Point, f64) {
        let half = Vec3::from(len.map(|n| (n - 1) as f64 * 0.5)) * self.cell;
        (self.node(first) + half, half.norm())
    }
}

fn limit(params: &FieldParams) -> u64 {
    match params.resolution {
        Resolution::MemoryCap(bytes) => bytes.min(MAX_BYTES),
        _ => MAX_BYTES,
    }
}

fn cell(size: &Vec3, params: &FieldParams) -> f64 {
    match params.resolution {
        Resolution::Cell(cell) => cell,
        Resolution::Longest(n) => size.max() / f64::from(n),
        Resolution::MemoryCap(_) => finest(size, params.padding, limit(params)),
    }
}

/// What a build takes, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The finished field.
    pub field: u64,
    /// Beside it while it is built: a depth in single precision for every node, in whole blocks, and the trees over the
    /// triangles. What closes a hole comes on top: some hundred bytes for each cell of the hole's area.
    pub working: u64,
}

/// Edge of a cell (m) and nodes along x, y, z of the field of a mesh with a box of that size (m).
pub fn plan(size: &Vec3, params: &FieldParams) -> (f64, [u64; 3]) {
    let cell = cell(size, params);
    (cell, nodes_along(size, cell, params.padding).map(|n| n as u64))
}

/// An upper estimate of what the field of a mesh takes, from the size of its box (m) and its triangles.
pub fn needs(size: &Vec3, triangles: usize, params: &FieldParams) -> Needs {
    // One node more for the rounding of a scaled box.
    let nodes = nodes_along(size, cell(size, params), params.padding).map(|n| n + 1.0);
    let blocks = nodes.map(|n| (n / EDGE as f64).ceil());
    let bytes = |x: f64| if x.is_finite() { x as u64 } else { u64::MAX };
    Needs {
        field: bytes(2.0 * nodes.iter().product::<f64>()),
        // When the distances are gone, the bricks take less (`Bricks::of`).
        working: bytes(4.0 * BLOCK as f64 * blocks.iter().product::<f64>())
            .saturating_add(TRIANGLE_BYTES * triangles as u64),
    }
}

fn nodes_along(size: &Vec3, cell: f64, padding: u32) -> [f64; 3] {
    // A side of n cells up to rounding takes n cells, not n + 1.
    [0, 1, 2].map(|a| (size[a] / cell - 1e-9).ceil().max(0.0) + 1.0 + 2.0 * f64::from(padding))
}

/// The smallest cell whose grid fits, by bisection (the number of nodes does not grow with the cell).
fn finest(size: &Vec3, padding: u32, limit: u64) -> f64 {
    let fits = |cell: f64| 2.0 * nodes_along(size, cell, padding).iter().product::<f64>() <= limit as f64;
    let longest = size.max();
    let (mut fine, mut coarse) = (longest * 2e-5, longest);
    if fits(fine) {
        return fine;
    }
    for _ in 0..60 {
        let middle = (fine * coarse).sqrt();
        if fits(middle) { coarse = middle } else { fine = middle }
    }
    coarse
}

/// One `f32` per node, block after block, so that a block is one piece of memory and one task.
pub(super) struct Blocks {
    pub(super) data: Vec<f32>,
    block_dims: [usize; 3],
}

impl Blocks {
    pub(super) fn new(grid: &Grid) -> Self {
        Self { data: vec![0.0; grid.blocks() * BLOCK], block_dims: grid.block_dims() }
    }

    /// Value at a node.
    #[inline]
    pub(super) fn at(&self, node: [usize; 3]) -> f32 {
        let b = node.map(|i| i / EDGE);
        let block = b[0] + self.block_dims[0] * (b[1] + self.block_dims[1] * b[2]);
        self.data[block * BLOCK + within(node.map(|i| i % EDGE))]
    }
}

/// Index of a node in its block.
#[inline(always)]
pub(super) fn within(at: [usize; 3]) -> usize {
    at[0] + EDGE * (at[1] + EDGE * at[2])
}
