//! Where the tool lies in the object's grid: everything a query needs to know about its pose.

use super::model::SphereTree;
use super::nodes::large_from;
use crate::geometry::field::Field;
use crate::geometry::field::block::Grid;
use crate::geometry::{Pose, Twist};

/// A pose of the tool, turned into factors for the kernels. Lengths in m unless said.
pub(super) struct Frame<'a> {
    pub(super) grid: Grid<'a>,
    pub(super) field: &'a Field,
    /// Tool axes to object axes, rows.
    pub(super) turn: [f32; 9],
    /// m in the tool's frame to the object's grid coordinates.
    pub(super) to_grid: [f32; 9],
    /// The tool's origin in grid coordinates.
    pub(super) origin: [f32; 3],
    /// Stored cell positions to grid coordinates.
    pub(super) step_to_grid: [f32; 9],
    /// The tool grid's first node in grid coordinates.
    pub(super) first: [f32; 3],
    /// Edge of a cell of the object's grid.
    pub(super) grid_cell: f32,
    /// Edge of a cell of the tool.
    pub(super) cell: f32,
    /// Stored cell positions to cells.
    pub(super) per_step: f32,
    /// Largest |trilinear - true depth|.
    pub(super) error: f32,
    /// Largest |stored - true depth| at a node, with the rounding of positions.
    pub(super) node_error: f32,
    /// Velocity of the tool relative to the object, object axes: m/s and rad/s; zero when not to be felt.
    pub(super) linear: [f32; 3],
    pub(super) angular: [f32; 3],
    /// True when that velocity matters.
    pub(super) moving: bool,
    /// Friction asks where it presses.
    pub(super) rubs: bool,
    /// Nodes of more volume than this are looked at for how even they are, m^3.
    pub(super) large: f32,
}

impl<'a> Frame<'a> {
    /// `None` for a field that is not sound. `relative` places the tool in the object's frame, `twist` is the
    /// tool's velocity relative to the object in object axes. Real-time safe.
    pub(super) fn new(tree: &SphereTree, field: &'a Field, relative: &Pose, twist: &Twist) -> Option<Self> {
        let grid = Grid::new(field)?;
        let rotation = relative.rotation.to_rotation_matrix();
        let per_cell = 1.0 / field.cell;
        let origin = (relative.translation.vector - field.origin.coords) * per_cell;
        let first = ((relative * tree.origin) - field.origin) * per_cell;
        let matrix = |scale: f64| std::array::from_fn(|i| (rotation[(i / 3, i % 3)] * scale) as f32);
        let step = tree.cell / f64::from(tree.cells.steps());
        // Coordinates of up to the grid's and the tool's size, in f32, through a dozen operations.
        let reach =
            field.dims.iter().copied().max().map_or(0.0, f64::from) * field.cell + 2.0 * tree.ball_radius;
        let rounding = 16.0 * f64::from(f32::EPSILON) * reach;
        let error = field.sample_error() + rounding;
        Some(Self {
            grid,
            field,
            turn: matrix(1.0),
            to_grid: matrix(per_cell),
            origin: origin.map(|v| v as f32).into(),
            step_to_grid: matrix(step * per_cell),
            first: first.map(|v| v as f32).into(),
            grid_cell: field.cell as f32,
            cell: tree.cell as f32,
            per_step: 1.0 / tree.cells.steps(),
            error: error as f32,
            node_error: (error - 0.75f64.sqrt() * field.cell) as f32,
            linear: twist.linear.map(|v| v as f32).into(),
            angular: twist.angular.map(|v| v as f32).into(),
            moving: twist.linear.norm_squared() + twist.angular.norm_squared() > 0.0,
            rubs: false,
            large: large_from(tree.volume),
        })
    }
}
