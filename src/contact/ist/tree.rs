//! The four-ary hierarchy over the inner spheres and the cells that they stand for.
//!
//! Nodes are structure-of-arrays over their four children, one 128-byte record a node, so that the sixteen children
//! of four nodes are one test. The balls are wrapped: each holds every cell below it, not the balls of the level
//! between (Weller & Zachmann 2009, section 3.2). Balls lie about the centroid of what is solid in them. The
//! hierarchy ends in groups of a few dozen cells, which are again contiguous in memory; small spheres share a group,
//! large ones are divided into several.

mod build;
mod gas;

pub(crate) use build::build;
pub use build::{GROUP, Split};

use crate::geometry::simd::LANES;

/// Children of a node.
pub const WIDTH: usize = 4;

/// What a child slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Child {
    /// Nothing.
    Empty,
    /// Another node.
    Node(u32),
    /// A group of cells: its first block and how many cells, the last block being filled up with nothing.
    Group(u32, u32),
}

const LEAF: u32 = 1 << 31;
const EMPTY: u32 = u32::MAX;

/// One node: the balls of its four children and what stands below each. Two cache lines.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(64))]
pub struct Node {
    /// Centroids of what is solid below each child, tool frame, m.
    pub x: [f32; WIDTH],
    /// See `x`.
    pub y: [f32; WIDTH],
    /// See `x`.
    pub z: [f32; WIDTH],
    /// Radii about the centroids of balls that hold all cells below, m; negative for empty slots.
    pub r: [f32; WIDTH],
    /// Radii of uniform balls with the same second moments, at most `r`, m.
    pub spread: [f32; WIDTH],
    /// Solid volume below, m^3.
    pub volume: [f32; WIDTH],
    child: [u32; WIDTH],
    cells: [u32; WIDTH],
}

/// Words of four bytes in a node.
pub(crate) const NODE_WORDS: usize = 8 * WIDTH;

impl Node {
    /// All of it as words, in the order of the fields.
    pub(crate) fn words(&self) -> impl Iterator<Item = u32> {
        let reals = [self.x, self.y, self.z, self.r, self.spread, self.volume];
        reals.into_iter().flatten().map(f32::to_bits).chain(self.child).chain(self.cells)
    }

    /// The node of [`Node::words`].
    pub(crate) fn of_words(words: &[u32; NODE_WORDS]) -> Self {
        let row = |i: usize| -> [u32; WIDTH] { std::array::from_fn(|k| words[i * WIDTH + k]) };
        let real = |i: usize| row(i).map(f32::from_bits);
        Self {
            x: real(0),
            y: real(1),
            z: real(2),
            r: real(3),
            spread: real(4),
            volume: real(5),
            child: row(6),
            cells: row(7),
        }
    }

    /// A node without children.
    pub const EMPTY: Self = Self {
        x: [0.0; WIDTH],
        y: [0.0; WIDTH],
        z: [0.0; WIDTH],
        r: [-1.0; WIDTH],
        spread: [1.0; WIDTH],
        volume: [0.0; WIDTH],
        child: [EMPTY; WIDTH],
        cells: [0; WIDTH],
    };

    /// True when slot `i` holds a group of cells (or nothing). Real-time safe.
    #[inline(always)]
    pub(crate) fn is_group(&self, i: usize) -> bool {
        self.child[i] & LEAF != 0
    }

    /// What slot `i` holds; slots past the last are empty. Real-time safe.
    #[inline]
    pub fn child(&self, i: usize) -> Child {
        match self.child.get(i) {
            None | Some(&EMPTY) => Child::Empty,
            Some(&c) if c & LEAF != 0 => Child::Group(c & !LEAF, self.cells.get(i).copied().unwrap_or(0)),
            Some(&c) => Child::Node(c),
        }
    }
}

/// Stored fraction of a cell that is wholly solid; below it q stands for (q + 1/2) / 65535 give or take half a step.
pub(crate) const FULL: u16 = u16::MAX;
/// Fewest steps that a cell is divided into.
pub(crate) const LEAST_STEPS_LOG: u32 = 6;
/// Most: finer ones would not be worth the thinner range.
const MOST_STEPS_LOG: u32 = 12;

/// Binary logarithm of the steps of a cell in a grid of so many nodes a side: what 16 bits leave.
pub(crate) fn steps_log(nodes: u32) -> u32 {
    (u16::BITS - (nodes + 1).ilog2().min(9) - 1).clamp(LEAST_STEPS_LOG, MOST_STEPS_LOG)
}

/// Sixteen cells, two cache lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
pub(crate) struct CellBlock {
    /// Centroids of what is solid, from node (0, 0, 0) of the tool's grid, in steps.
    pub(crate) at: [[u16; LANES]; 3],
    /// Solid fraction, see [`FULL`].
    pub(crate) fraction: [u16; LANES],
}

/// Bytes of a block.
pub(crate) const CELL_BYTES: usize = 8 * LANES;

/// The cells in the order of the hierarchy, each group in blocks of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CellStore {
    /// Cells that hold some of the solid.
    pub(crate) len: usize,
    /// Binary logarithm of the steps of a cell.
    pub(crate) steps_log: u32,
    pub(crate) blocks: Vec<CellBlock>,
}

impl CellStore {
    /// Bytes held on the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<CellBlock>()
    }

    /// Steps of a cell.
    pub(crate) fn steps(&self) -> f32 {
        (1u32 << self.steps_log) as f32
    }
}

#[cfg(test)]
mod tests;
