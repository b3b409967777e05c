//! Pure geometry: rigid transforms, triangle meshes and the structures built over them.
//!
//! Nothing here knows a clock, a device or a scene. Lengths are metres, angles radians, frames right-handed.

pub mod bvh;
pub mod field;
pub mod import;
pub(crate) mod lanes;
pub mod mass;
pub mod mesh;
pub(crate) mod morton;
pub mod pose;
pub mod shapes;
pub mod simd;
mod stamp;
mod wide;
pub mod winding;

pub use mesh::TriMesh;
pub use pose::{Point, Pose, Twist, Vec3, Wrench};
pub use stamp::Stamp;
