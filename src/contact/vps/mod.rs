//! Voxmap-PointShell: a sampled tool surface against an object's distance field (Sagardia, Stouraitis and Lopes e
//! Silva 2014), with area weights, so that neither force nor stiffness depends on the sampling density.

mod balance;
mod ball;
mod build;
mod cells;
mod cloud;
mod clusters;
mod cover;
mod features;
mod law;
mod manifold;
mod nearest;
mod order;
mod query;
mod rounds;
mod side;
mod sorted;
mod surface;
mod tree;

pub use build::{Density, ShellError, ShellParams};
pub use cloud::OrientedPoint;
pub use clusters::Clusters;
pub use law::{ForceLaw, Normals, VoxelValue};
pub use manifold::{Manifold, ManifoldParams};
pub use query::{Clearance, Impact, Segment, Segments, Swept, sweep_to_impact};
pub(crate) use query::{per_area, query};
pub use side::Side;

use crate::geometry::simd::LANES;
use crate::geometry::{Point, Stamp};
use bytemuck::cast_slice;

/// Patches into which a shell is divided, so that the reported contact points lie apart.
pub const PATCHES: usize = 64;

/// The first points stand in order of acceptance, the others in clusters within their level.
pub(crate) const UNSORTED: usize = 64;

/// Area weights for one prefix of the shell: what each of its first `len` points stands for when only these are
/// visited. They sum to the whole area.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Level {
    /// Points in the prefix; a multiple of 16, but for the last level.
    pub(crate) len: usize,
    /// Area weights, m^2, padded to whole blocks with 0.
    pub(crate) area: Vec<f32>,
    /// `sum[b]` = area of the first `b` blocks of 16, m^2.
    pub(crate) sum: Vec<f64>,
    /// No surface point is farther than this from the prefix, m.
    pub(crate) covering_radius: f64,
}

impl Level {
    /// Area weights of each sixteen points, m^2.
    fn blocks(&self) -> &[[f32; LANES]] {
        self.area.as_chunks().0
    }
}

/// The tool's surface as oriented, weighted points (structure of arrays, f32, tool frame).
///
/// The points stand in levels: those of each further level lie evenly between those of the levels before it, so that
/// a query whose budget ends early has still seen the whole tool. Within a level they stand in clusters ([`Clusters`]),
/// so that neighbours in memory read neighbouring cells of the field; a level that is granted in part is visited
/// block by block in an order of its own (`rank`) that spreads any number of blocks evenly. Arrays are padded to a multiple of 16 with points of zero area
/// far away, so that every SIMD path reads whole lanes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PointShell {
    /// Number of real points.
    pub len: usize,
    /// Positions, m.
    pub x: Vec<f32>,
    /// Positions, m.
    pub y: Vec<f32>,
    /// Positions, m.
    pub z: Vec<f32>,
    /// Unit normals, pointing **into** the tool.
    pub nx: Vec<f32>,
    /// Unit normals, pointing **into** the tool.
    pub ny: Vec<f32>,
    /// Unit normals, pointing **into** the tool.
    pub nz: Vec<f32>,
    /// Surface area that each point stands for, m^2; they sum to the mesh area.
    pub area: Vec<f32>,
    /// No surface point is farther than this from its nearest shell point, m.
    pub covering_radius: f64,
    /// Radius of a ball about the tool's origin that holds all points, m.
    pub bound_radius: f64,
    /// Centre of a small ball that holds all points, tool frame, m.
    pub ball_centre: Point,
    /// Radius of that ball, m.
    pub ball_radius: f64,
    /// Sum of the areas, m^2.
    pub total_area: f64,
    /// How the points push.
    pub law: ForceLaw,
    /// Patch of each point, below [`PATCHES`].
    pub(crate) patch: Vec<u8>,
    /// Rank of each block of 16 within its level: a level of which k blocks are granted visits those below k.
    pub(crate) rank: Vec<u32>,
    /// Weights of ever longer prefixes; the last holds all points.
    pub(crate) levels: Vec<Level>,
    /// Balls around the points, for leaving out what cannot touch.
    pub(crate) tree: tree::Tree,
    /// The points once more, neighbours together.
    pub(crate) sorted: sorted::Sorted,
    /// Tells it apart from other shells.
    pub(crate) stamp: Stamp,
}

/// Coordinate of the padding points, m.
const FAR: f32 = 1e9;
/// Covers the rounding of positions to f32.
const ROUND_UP: f64 = 1.0 + 1e-6;

impl PointShell {
    /// The same shell with another force law.
    #[must_use]
    pub fn with_law(self, law: ForceLaw) -> Self {
        Self { law, ..self }
    }

    /// The points of the block that a query remembers as nearest ([`QueryState::nearest`](crate::contact::QueryState)); `None` when none is
    /// known. Real-time safe.
    pub(crate) fn nearest_block(
        &self,
        nearest: u32,
    ) -> Option<impl Iterator<Item = crate::geometry::Point> + '_> {
        self.sorted.points(nearest.checked_sub(1)? as usize)
    }

    /// Points of each level, and how far a place of the surface may be from the nearest of them, m; the last level has all
    /// points.
    pub fn levels(&self) -> impl Iterator<Item = (usize, f64)> {
        self.levels.iter().map(|l| (l.len, l.covering_radius))
    }

    /// Radii of the balls around each 16, 256 and 4096 points that stand together, m: of all points sorted by place, which a query
    /// reads whose budget holds them, and of those of the levels. Allocates.
    pub fn ball_radii(&self) -> [[Vec<f64>; 3]; 2] {
        [self.sorted.tree.radii(), self.tree.radii()]
    }

    /// Edge of a square that a point stands for in the mean, m. Real-time safe.
    pub fn spacing(&self) -> f64 {
        (self.total_area / self.len.max(1) as f64).sqrt()
    }

    /// The largest distance from any of these places (tool frame, m) to the nearest point, m. Allocates.
    pub fn farthest(&self, places: impl Iterator<Item = Point>) -> f64 {
        let points: Vec<Point> = (0..self.len).map(|i| self.position(i)).collect();
        let grid = nearest::PointGrid::new(&points, self.spacing());
        places.filter_map(|p| grid.nearest(&points, &p)).fold(0.0, |far, n| far.max(n.1))
    }

    /// Bytes held on the heap.
    pub fn memory_bytes(&self) -> usize {
        self.memory().map(<[u8]>::len).sum()
    }

    /// All memory, which is what a query reads; for locking.
    pub(crate) fn memory(&self) -> impl Iterator<Item = &[u8]> {
        let columns = [&self.x, &self.y, &self.z, &self.nx, &self.ny, &self.nz, &self.area];
        let weights = self.levels.iter().flat_map(|l| [cast_slice(&l.area), cast_slice(&l.sum)]);
        columns
            .into_iter()
            .map(|c| cast_slice(c))
            .chain([&*self.patch, cast_slice(&self.rank)])
            .chain(weights)
            .chain(self.tree.memory())
            .chain(self.sorted.memory())
    }

    /// Position of point `i`, tool frame, m.
    ///
    /// # Panics
    /// When `i` is out of range.
    pub fn position(&self, i: usize) -> Point {
        Point::new(f64::from(self.x[i]), f64::from(self.y[i]), f64::from(self.z[i]))
    }
}
