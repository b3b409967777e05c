//! Voxmap-PointShell: a sampled tool surface against an object's distance field (Sagardia et al. 2014).

/// The tool's surface as oriented, weighted points (structure of arrays, f32, tool frame). Arrays are padded to a
/// multiple of 16 with points of zero area far away, so that every SIMD path reads whole lanes.
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
}
