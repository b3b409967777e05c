//! Sampled signed distance field of a solid.
//!
//! One sign convention in the whole code, that of Voxmap-PointShell (Sagardia et al. 2014): values are *depth*,
//! **positive inside, negative outside**, in metres; the gradient therefore points inwards.

pub(crate) mod block;
pub mod build;
mod pages;
pub mod sample;

use super::Point;

/// A regular grid of signed distances stored as `i16` counts. Immutable after the build; shared by `Arc`.
///
/// Node (i, j, k) lies at `origin + cell * (i, j, k)` in the object's frame and is stored at
/// `i + dims[0] * (j + dims[1] * k)`; its depth is `scale * data[..]` m, positive inside.
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
    /// Depth counts, x fastest.
    pub data: Box<[i16]>,
}
