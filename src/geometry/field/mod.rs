//! Sampled signed distance field of a solid.
//!
//! One sign convention in the whole code, that of Voxmap-PointShell (Sagardia et al. 2014): values are *depth*,
//! **positive inside, negative outside**, in metres; the gradient therefore points inwards.

pub(crate) mod block;
pub(crate) mod bricks;
pub mod build;
mod cubic;
mod floats;
mod layers;
mod pages;
pub mod sample;
mod storage;

pub use floats::FloatMap;
pub use layers::LayerMap;
pub(crate) use storage::Storage;

use super::{Point, Stamp};

/// A regular grid of signed distances as `i16` counts. Immutable after the build; shared by `Arc`.
///
/// Node (i, j, k) lies at `origin + cell * (i, j, k)` in the object's frame; its depth is a count times `scale`, m,
/// positive inside ([`Field::node`]). Small fields hold every node. Large ones hold bricks: every node near the surface,
/// and far from it only as many as it takes to interpolate the others within a stated error.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Position of node (0, 0, 0) in the object's frame, m.
    pub origin: Point,
    /// Edge of a cubic cell, m.
    pub cell: f64,
    /// Number of nodes along x, y, z; each at least 2.
    pub dims: [u32; 3],
    /// Depth of one count, m: max|d| / 32767.
    pub scale: f32,
    /// The counts.
    pub(crate) storage: Storage,
    /// Tells it apart from other fields.
    pub(crate) stamp: Stamp,
}
