//! Running sums of a query: f32 lanes for a few blocks, then f64.

use crate::contact::patch::{Gather, Pressing, TOGETHER};
use crate::geometry::lanes::{F, Lanes};
use crate::geometry::simd::{LANES, Simd};

/// Volume, force (3), torque (3), stiffness (21), damping (6), lower and upper bound.
pub(super) const COUNT: usize = 36;
pub(super) const VOLUME: usize = 0;
pub(super) const FORCE: usize = 1;
pub(super) const TORQUE: usize = 4;
pub(super) const STIFFNESS: usize = 7;
pub(super) const DAMPING: usize = 28;
pub(super) const LOWER: usize = 34;
pub(super) const UPPER: usize = 35;

/// Blocks after which the f32 lanes are emptied into the f64 ones.
const BLOCKS: u32 = 32;
/// f32 sums of so many terms are off by less than this fraction.
pub(super) const SLACK: f64 = 8e-6;

/// The sums, of everything that was added so far.
pub(super) struct Sums {
    near: [F; COUNT],
    far: [[f64; LANES]; COUNT],
    blocks: u32,
    /// Bounds added one by one, m^3.
    pub(super) lower: f64,
    pub(super) upper: f64,
    /// By octant about the tool's origin.
    pub(super) deepest: [Deepest; 8],
    /// Where it presses, if friction asks.
    pub(super) rub: Option<Rub>,
}

/// The deepest of the cells and nodes so far.
#[derive(Clone, Copy)]
pub(super) struct Deepest {
    /// Of its deepest corner, estimated, and of its middle, which lies in the tool, m.
    pub(super) depth: f32,
    pub(super) middle: f32,
    /// The corner, grid coordinates.
    pub(super) at: [f32; 3],
    /// Gradient of the depth.
    pub(super) inward: [f32; 3],
}

/// Where it presses, up to date at the end.
pub(super) struct Rub {
    pub(super) patches: Gather,
    /// What is not in there yet: the first `len`.
    waiting: [Pressing; TOGETHER],
    len: usize,
}

impl Rub {
    /// Takes sixteen more.
    #[inline(always)]
    pub(super) fn add<S: Simd>(&mut self, simd: S, sixteen: Pressing) {
        if let Some(place) = self.waiting.get_mut(self.len) {
            *place = sixteen;
            self.len += 1;
        }
        if self.len >= TOGETHER {
            self.flush(simd);
        }
    }

    #[inline(always)]
    fn flush<S: Simd>(&mut self, simd: S) {
        self.patches.add(simd, self.waiting.get(..self.len).unwrap_or(&[]));
        self.len = 0;
    }
}

impl Sums {
    pub(super) fn new(rubs: bool) -> Self {
        let rub = || Rub { patches: Gather::NONE, waiting: [Pressing::NONE; TOGETHER], len: 0 };
        Self {
            near: [[0.0; LANES]; COUNT],
            far: [[0.0; LANES]; COUNT],
            blocks: 0,
            lower: 0.0,
            upper: 0.0,
            deepest: [Deepest { depth: 0.0, middle: 0.0, at: [0.0; 3], inward: [0.0; 3] }; 8],
            rub: rubs.then(rub),
        }
    }

    /// Adds to sum `i`.
    #[inline(always)]
    pub(super) fn add<S: Simd>(&mut self, simd: S, i: usize, value: Lanes<S>) {
        self.near[i] = (Lanes::load(simd, &self.near[i]) + value).store();
    }

    /// Ends a block.
    #[inline(always)]
    pub(super) fn block<S: Simd>(&mut self, simd: S) {
        self.blocks += 1;
        if self.blocks == BLOCKS {
            self.flush(simd);
        }
    }

    /// Empties the f32 lanes.
    #[inline(always)]
    pub(super) fn flush<S: Simd>(&mut self, simd: S) {
        for i in 0..COUNT {
            simd.accumulate(simd.load(&self.near[i]), &mut self.far[i]);
            self.near[i] = [0.0; LANES];
        }
        self.blocks = 0;
    }

    /// Brings everything up to date: once, at the end.
    #[inline(always)]
    pub(super) fn finish<S: Simd>(&mut self, simd: S) {
        self.flush(simd);
        if let Some(rub) = &mut self.rub {
            rub.flush(simd);
        }
    }

    /// Sum `i` at the end, lanes from the first to the last.
    pub(super) fn total(&self, i: usize) -> f64 {
        self.far[i].iter().sum()
    }
}
