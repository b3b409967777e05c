//! What is built, off the servo thread: the sphere tree of a tool, the solid that it is held against.

use super::packing::{Packing, PackingError, Stop, fill};
use super::parts::parts;
use super::tree::{CellStore, Child, Node, Split, WIDTH, build};
use crate::geometry::bvh::Bvh;
use crate::geometry::field::Field;
use crate::geometry::field::build::{self as field_build, FieldError, FieldParams, Progress, Resolution};
use crate::geometry::mass::mass_properties;
use crate::geometry::winding::Winding;
use crate::geometry::{Point, TriMesh};
use rayon::prelude::*;
use std::sync::Arc;

/// Cells for each sphere: about as many as a packing to the last cell needs.
const CELLS_PER_SPHERE: f64 = 6.5;
/// Cells along the longest side of the grid that finds out how large a body without a volume of its own is.
const ROUGH: u32 = 48;
/// Most nodes along one side of the tool's grid: stored positions have 16 bits, six of them within a cell.
const MOST_NODES: u32 = 1023;
/// Most faces that are asked how often the surface goes round them.
const MOST_ASKED: usize = 20_000;

/// How a sphere tree is built.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IstParams {
    /// How fine the cells are: so many spheres fill the solid to about its last cell. Thin bodies may hold fewer.
    pub spheres: u32,
    /// When the packing ends. The cells are the same ones whatever it says, and a tree divided by [`Split::Boxes`] is made of
    /// them alone: there it decides only how many spheres are counted, and what they fill.
    pub stop: Stop,
    /// Partitioning of the spheres.
    pub split: Split,
}

impl IstParams {
    /// So many spheres, the rest as usual.
    pub fn spheres(spheres: u32) -> Self {
        Self { spheres, stop: Stop::Spheres(spheres as usize), split: Split::default() }
    }
}

/// Why there is no sphere tree.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum IstError {
    /// The distance grid was not built.
    #[error("distance grid: {0}")]
    Field(#[from] FieldError),
    /// The solid was not packed.
    #[error("sphere packing: {0}")]
    Packing(#[from] PackingError),
    /// The packing is told to end where it cannot.
    #[error(
        "a packing can end at a radius above 0 m, or at a fill of more than 0 and at most 1; not at {0:?}"
    )]
    Stop(Stop),
    /// The grid has too many nodes along a side.
    #[error(
        "the grid for {spheres} spheres has {nodes} nodes along one side, more than {MOST_NODES}; ask for fewer spheres"
    )]
    TooLong {
        /// Spheres asked for.
        spheres: u32,
        /// Nodes along the longest side.
        nodes: u32,
    },
}

/// A tool as inner spheres with their hierarchy and cells, in the tool's frame.
pub struct SphereTree {
    /// Nodes, the root first; empty only for a tree without cells.
    pub(crate) nodes: Vec<Node>,
    pub(crate) cells: CellStore,
    /// Node (0, 0, 0) of the cells' grid, m.
    pub(crate) origin: Point,
    /// Edge of a cell, m.
    pub cell: f64,
    /// Number of inner spheres.
    pub spheres: usize,
    /// Solid volume, m^3.
    pub volume: f64,
    /// Fraction of it that the primary spheres fill.
    pub fill: f64,
    /// True when the volumes are those of the mesh itself; without that no bounds are given.
    pub exact: bool,
    /// Closest points of the surface.
    pub(crate) bvh: Bvh,
    /// Centre of a ball that holds the tool, m.
    pub ball_centre: Point,
    /// Its radius, m.
    pub ball_radius: f64,
    /// Radius of a ball about the tool's origin that holds the tool, m.
    pub bound_radius: f64,
}

impl std::fmt::Debug for SphereTree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SphereTree")
            .field("spheres", &self.spheres)
            .field("cells", &self.cells.len)
            .field("cell", &self.cell)
            .finish_non_exhaustive()
    }
}

impl SphereTree {
    /// Builds the tree of a mesh in parallel on rayon's current pool. The same mesh and parameters give the same tree.
    /// Not real-time safe.
    ///
    /// # Errors
    /// [`IstError`].
    pub fn build(mesh: &TriMesh, params: &IstParams, progress: &dyn Progress) -> Result<Self, IstError> {
        // Divided by boxes a tree is that of the cells; who owns them and how the spheres lie is not asked.
        Self::build_from(mesh, params, params.split != Split::Boxes, progress).map(|(tree, _)| tree)
    }

    /// As [`SphereTree::build`], with the packing that the tree was built from.
    ///
    /// # Errors
    /// [`IstError`].
    pub fn build_with_packing(
        mesh: &TriMesh,
        params: &IstParams,
        progress: &dyn Progress,
    ) -> Result<(Self, Packing), IstError> {
        Self::build_from(mesh, params, true, progress)
    }

    /// The tree and its packing, without the spheres unless `described`.
    fn build_from(
        mesh: &TriMesh,
        params: &IstParams,
        described: bool,
        progress: &dyn Progress,
    ) -> Result<(Self, Packing), IstError> {
        if !params.stop.makes_sense() {
            return Err(IstError::Stop(params.stop));
        }
        let stage = |at: u64| Stage { whole: progress, at };
        let cell = cell_for(mesh, params.spheres, &stage(0))?;
        let grid = FieldParams { resolution: Resolution::Cell(cell), padding: 2 };
        let (field, _) = field_build::build(mesh, &grid, &stage(1))?;
        if let Some(&nodes) = field.dims.iter().find(|d| **d > MOST_NODES) {
            return Err(IstError::TooLong { spheres: params.spheres, nodes });
        }
        let bvh = Bvh::build_unless(mesh, &|| progress.cancelled()).ok_or(PackingError::Cancelled)?;
        let cut = parts(mesh, &field);
        let filled = fill(&field, &cut.parts, params.stop, &stage(2))?;
        let spheres = filled.spheres();
        let packing = if described { filled.packing(&field, &bvh) } else { filled.outline(&field) };
        if progress.cancelled() {
            return Err(PackingError::Cancelled.into());
        }
        let (nodes, cells) = build(&packing, &cut.parts, &field, params.split);
        stage(3).step(1, 1);
        let (ball_centre, ball_radius) = ball(mesh);
        let tree = Self {
            nodes,
            cells,
            origin: field.origin,
            cell: field.cell,
            spheres,
            volume: packing.volume,
            fill: packing.fill,
            exact: cut.exact,
            bvh,
            ball_centre,
            ball_radius,
            bound_radius: mesh.vertices.iter().map(|v| v.coords.norm()).fold(0.0, f64::max),
        };
        Ok((tree, packing))
    }

    /// Bytes of nodes and cells; the mesh and its closest-point tree apart.
    pub fn memory_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>() + self.cells.bytes()
    }

    /// Bytes of the closest-point tree over its surface.
    pub fn surface_bytes(&self) -> u64 {
        self.bvh.bytes()
    }

    /// The memory of the cells, which queries read.
    pub fn memory(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(bytemuck::cast_slice(&self.cells.blocks))
    }

    /// Nodes of the hierarchy.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Cells that hold some of the solid, those of solid boxes included.
    pub fn cell_count(&self) -> usize {
        let boxed = |node: &Node, i: usize| match node.child(i) {
            Child::Box => node.sides(i).map(usize::from).iter().product(),
            _ => 0,
        };
        self.cells.len
            + self.nodes.iter().map(|n| (0..WIDTH).map(|i| boxed(n, i)).sum::<usize>()).sum::<usize>()
    }

    /// Levels of the hierarchy.
    pub fn depth(&self) -> usize {
        let mut deepest = 0;
        let mut left = vec![(0u32, 1)];
        while let Some((at, level)) = left.pop() {
            deepest = deepest.max(level);
            let Some(node) = self.nodes.get(at as usize) else { continue };
            for i in 0..WIDTH {
                if let Child::Node(n) = node.child(i) {
                    left.push((n, level + 1));
                }
            }
        }
        deepest
    }
}

/// An object that sphere trees are held against: its field and its surface.
pub struct Solid {
    /// Signed distance field.
    pub field: Arc<Field>,
    /// Closest points of the surface.
    pub(crate) bvh: Bvh,
    /// True when the mesh is closed, so that the field's nodes hold the solid's exact depth; without that no bounds on
    /// volumes are given.
    pub exact: bool,
    /// True when it is closed and all around its inside faces look outwards: nowhere does it go round a place twice, or the other way.
    pub outward: bool,
}

impl std::fmt::Debug for Solid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Solid").field("dims", &self.field.dims).finish_non_exhaustive()
    }
}

impl Solid {
    /// Joins a mesh with the field that was built from it; `None` when `stop` said true. Not real-time safe.
    pub fn new(mesh: &TriMesh, field: Arc<Field>, stop: &(dyn Fn() -> bool + Sync)) -> Option<Self> {
        let bvh = Bvh::build_unless(mesh, stop)?;
        let exact = super::parts::closed(mesh);
        let outward = exact && outward(mesh, stop)?;
        Some(Self { field, bvh, exact, outward })
    }

    /// Bytes of the closest-point tree over its surface; the field, which others may share, apart.
    pub fn surface_bytes(&self) -> u64 {
        self.bvh.bytes()
    }

    /// At most so many bytes does that tree take for a mesh of so many triangles.
    pub fn surface_bytes_for(triangles: usize) -> u64 {
        Bvh::bytes_for(triangles)
    }
}

/// The edge of a cell with which a packing of a mesh has about so many spheres, m.
///
/// # Errors
/// [`IstError::Field`], for meshes without a volume of their own.
pub fn cell_for(mesh: &TriMesh, spheres: u32, progress: &dyn Progress) -> Result<f64, IstError> {
    let (lo, hi) = mesh.bounds().ok_or(FieldError::Empty)?;
    let box_volume = (hi - lo).product();
    let mut volume = mass_properties(mesh).volume;
    if !(volume > 1e-4 * box_volume && super::parts::closed(mesh)) {
        let rough = FieldParams { resolution: Resolution::Longest(ROUGH), padding: 2 };
        let (field, _) = field_build::build(mesh, &rough, progress)?;
        let inside = super::parts::inside_nodes(&field).max(1);
        volume = inside as f64 * field.cell.powi(3);
    }
    let spheres = f64::from(spheres.max(1));
    Ok((volume / (CELLS_PER_SPHERE * spheres)).cbrt().min((hi - lo).amax() / 4.0))
}

/// Whether the surface goes once round what is just behind each of its faces, but for a thousandth of its area (folds finer than
/// what `f32` tells apart). Of large meshes every n-th face is asked. `None` when `stop` said true.
fn outward(mesh: &TriMesh, stop: &(dyn Fn() -> bool + Sync)) -> Option<bool> {
    let winding = Winding::build_unless(mesh, stop)?;
    let (low, high) = mesh.bounds()?;
    let behind = 1e-5 * (high - low).amax();
    let each = mesh.triangles.len().div_ceil(MOST_ASKED);
    let area = |t: usize| {
        let [a, b, c] = mesh.corners(t);
        let normal = (b - a).cross(&(c - a));
        let Some(n) = normal.try_normalize(0.0) else { return [0.0; 2] };
        let middle = Point::from((a.coords + b.coords + c.coords) / 3.0);
        let once = (winding.number(&(middle - n * behind)) - 1.0).abs() < 0.5;
        [normal.norm(), if once { 0.0 } else { normal.norm() }]
    };
    let asked = (0..mesh.triangles.len()).into_par_iter().step_by(each.max(1));
    let [all, wrong] = asked.map(area).reduce(|| [0.0; 2], |x, y| [x[0] + y[0], x[1] + y[1]]);
    Some(wrong <= 1e-3 * all)
}

/// Ball about the middle of the mesh's box.
pub(super) fn ball(mesh: &TriMesh) -> (Point, f64) {
    let Some((lo, hi)) = mesh.bounds() else { return (Point::origin(), 0.0) };
    let centre = nalgebra::center(&lo, &hi);
    (centre, mesh.vertices.iter().map(|v| (v - centre).norm()).fold(0.0, f64::max))
}

/// Progress of one stage of four.
struct Stage<'a> {
    whole: &'a dyn Progress,
    at: u64,
}

impl Progress for Stage<'_> {
    fn step(&self, done: u64, total: u64) {
        let part = (u128::from(done.min(total)) * 1000 / u128::from(total.max(1))) as u64;
        self.whole.step(self.at * 1000 + part, 4000);
    }

    fn cancelled(&self) -> bool {
        self.whole.cancelled()
    }
}
