//! The counts of a field: all of them, or bricks.

use super::Field;
use super::bricks::Bricks;
use crate::geometry::Stamp;

/// How the counts are kept.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Storage {
    /// Every node, x fastest: (i, j, k) at `i + dims[0] * (j + dims[1] * k)`.
    Dense(Box<[i16]>),
    /// Bricks of 4^3 cells, coarser away from the surface.
    Bricks(Box<Bricks>),
}

/// Corners of a cell in counts, or scaled to m (bit 0 of the index = x, 1 = y, 2 = z), the place in it, and its edge in cells of the grid.
pub(super) struct Corners {
    pub(super) value: [f64; 8],
    pub(super) fraction: [f64; 3],
    pub(super) edge: f64,
}

impl Corners {
    /// Trilinear value.
    pub(super) fn trilinear(&self) -> f64 {
        let v = &self.value;
        let [fx, fy, fz] = self.fraction;
        let low = lerp(lerp(v[0], v[1], fx), lerp(v[2], v[3], fx), fy);
        let high = lerp(lerp(v[4], v[5], fx), lerp(v[6], v[7], fx), fy);
        lerp(low, high, fz)
    }
}

#[inline]
pub(super) fn lerp(a: f64, b: f64, t: f64) -> f64 {
    a + (b - a) * t
}

impl Field {
    /// A field from the counts of all nodes, x fastest; large ones are put into bricks.
    pub(crate) fn of_counts(
        origin: super::Point,
        cell: f64,
        dims: [u32; 3],
        scale: f32,
        counts: Box<[i16]>,
    ) -> Self {
        let storage = match Bricks::of(&counts, dims, cell / f64::from(scale)) {
            Some(bricks) => Storage::Bricks(Box::new(bricks)),
            None => Storage::Dense(counts),
        };
        Self { origin, cell, dims, scale, storage, stamp: Stamp::default() }
    }

    /// Bytes of the counts.
    pub fn bytes(&self) -> u64 {
        match &self.storage {
            Storage::Dense(counts) => std::mem::size_of_val(&**counts) as u64,
            Storage::Bricks(bricks) => bricks.bytes() as u64,
        }
    }

    /// Number of nodes of the grid.
    pub fn nodes(&self) -> u64 {
        self.dims.iter().map(|&d| u64::from(d)).product()
    }

    /// Depth at node (i, j, k), m. Real-time safe.
    ///
    /// # Panics
    /// When the node is outside the grid.
    pub fn node(&self, at: [u32; 3]) -> f64 {
        assert!((0..3).all(|a| at[a] < self.dims[a]), "node {at:?} of a grid of {:?}", self.dims);
        let count = match &self.storage {
            Storage::Dense(counts) => {
                let [i, j, k] = at.map(|i| i as usize);
                f64::from(counts[i + self.dims[0] as usize * (j + self.dims[1] as usize * k)])
            }
            Storage::Bricks(bricks) => bricks.node(at),
        };
        count * f64::from(self.scale)
    }

    /// Largest deviation of a node from its own distance that the bricks cause, m; 0 where every node is held. Nodes
    /// within three cells of the surface have none.
    pub fn coarse_error(&self) -> f64 {
        match &self.storage {
            Storage::Dense(_) => 0.0,
            Storage::Bricks(bricks) => f64::from(bricks.error()) * f64::from(self.scale),
        }
    }

    /// The memory of the counts, for locking and for advice to the kernel.
    pub(crate) fn memory(&self) -> [&[u8]; 2] {
        match &self.storage {
            Storage::Dense(counts) => [bytemuck::cast_slice(counts), &[]],
            Storage::Bricks(bricks) => bricks.memory(),
        }
    }

    /// The corners around a place in a cell of the grid, which must be one.
    pub(super) fn corners(&self, cell: [usize; 3], fraction: [f64; 3]) -> Corners {
        match &self.storage {
            Storage::Dense(counts) => {
                let (dy, dz) = (self.dims[0] as usize, self.dims[0] as usize * self.dims[1] as usize);
                let base = cell[0] + dy * cell[1] + dz * cell[2];
                let value = std::array::from_fn(|k| {
                    let at = base + (k & 1) + (k >> 1 & 1) * dy + (k >> 2) * dz;
                    f64::from(counts.get(at).copied().unwrap_or(i16::MIN))
                });
                Corners { value, fraction, edge: 1.0 }
            }
            Storage::Bricks(bricks) => bricks.corners(cell, fraction),
        }
    }
}
