//! The four-ary hierarchy over the inner spheres and the cells that they stand for.
//!
//! Nodes are structure-of-arrays over their four children, one record of three cache lines a node, so that the sixteen children
//! of four nodes are one test. The balls are wrapped: each holds every cell below it, not the balls of the level
//! between (Weller & Zachmann 2009, section 3.2). Balls lie about the centroid of what is solid in them; beside the
//! ball each child has the box of its cells. The hierarchy ends in groups of a few dozen cells, contiguous in memory,
//! and in boxes of up to 4 x 4 x 4 cells that are all solid: of those the box is all there is to know, and their cells
//! are not stored.

mod build;
mod gas;

pub(crate) use build::build;
pub use build::{BLOCK_EDGE, GROUP, Split};

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
    /// A box that is solid throughout.
    Box,
}

const LEAF: u32 = 1 << 31;
/// A leaf without cells.
const SOLID: u32 = LEAF | (LEAF >> 1);
const EMPTY: u32 = u32::MAX;

/// One node: the balls and boxes of its four children and what stands below each. Three cache lines. Lengths are in m, from
/// node (0, 0, 0) of the tool's grid.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(64))]
pub struct Node {
    /// Centroids of what is solid below each child.
    pub x: [f32; WIDTH],
    /// See `x`.
    pub y: [f32; WIDTH],
    /// See `x`.
    pub z: [f32; WIDTH],
    /// Radii about the centroids of balls that hold all cells below; negative for empty slots.
    pub r: [f32; WIDTH],
    /// Depth from which one normal is good enough for all that is below; the radius for leaves.
    pub flat: [f32; WIDTH],
    /// Radii of uniform balls with the same second moments, at most `r`.
    pub spread: [f32; WIDTH],
    /// Solid volume below, m^3.
    pub volume: [f32; WIDTH],
    child: [u32; WIDTH],
    /// Box of all cells below: the first cell along each axis.
    low: [[u16; WIDTH]; 3],
    /// Cells along each side of it.
    sides: [[u16; WIDTH]; 3],
    cells: [u8; WIDTH],
    /// Boxes that are solid throughout.
    solid: [bool; WIDTH],
}

/// Words of four bytes in a node.
pub(crate) const NODE_WORDS: usize = 8 * WIDTH + 14;

/// Radii of depth from which one normal serves all that is below a node; from one radius on node and children are
/// blended.
const DEEP_NODE: f32 = 1.5;
/// Doubt that a closed child leaves which is solid throughout: the plane through its box is known.
const BOX_RANK: f32 = 0.5;

impl Node {
    /// All of it as words: reals, children, then pairs of the boxes' rows and two words of bytes.
    pub(crate) fn words(&self) -> impl Iterator<Item = u32> {
        let reals = [self.x, self.y, self.z, self.r, self.flat, self.spread, self.volume];
        let boxes = self.low.into_iter().chain(self.sides);
        let pairs = boxes.flat_map(|[a, b, c, d]| [[a, b], [c, d]]);
        let bytes = [self.cells, self.solid.map(u8::from)].map(u32::from_le_bytes);
        let words = pairs.map(|[a, b]| u32::from(a) | u32::from(b) << 16);
        reals.into_iter().flatten().map(f32::to_bits).chain(self.child).chain(words).chain(bytes)
    }

    /// The node of [`Node::words`].
    pub(crate) fn of_words(words: &[u32; NODE_WORDS]) -> Self {
        let row = |i: usize| -> [u32; WIDTH] { std::array::from_fn(|k| words[i * WIDTH + k]) };
        let real = |i: usize| row(i).map(f32::from_bits);
        let short = |i: usize| -> [u16; WIDTH] {
            std::array::from_fn(|k| (words[8 * WIDTH + 2 * i + k / 2] >> (16 * (k % 2))) as u16)
        };
        let bytes = |i: usize| words[8 * WIDTH + 12 + i].to_le_bytes();
        Self {
            x: real(0),
            y: real(1),
            z: real(2),
            r: real(3),
            flat: real(4),
            spread: real(5),
            volume: real(6),
            child: row(7),
            low: [short(0), short(1), short(2)],
            sides: [short(3), short(4), short(5)],
            cells: bytes(0),
            solid: bytes(1).map(|b| b != 0),
        }
    }

    /// A node without children.
    pub const EMPTY: Self = Self {
        x: [0.0; WIDTH],
        y: [0.0; WIDTH],
        z: [0.0; WIDTH],
        r: [-1.0; WIDTH],
        flat: [-1.0; WIDTH],
        spread: [1.0; WIDTH],
        volume: [0.0; WIDTH],
        child: [EMPTY; WIDTH],
        low: [[0; WIDTH]; 3],
        sides: [[0; WIDTH]; 3],
        cells: [0; WIDTH],
        solid: [false; WIDTH],
    };

    /// What slot `i` holds; slots past the last are empty. Real-time safe.
    #[inline]
    pub fn child(&self, i: usize) -> Child {
        match self.child.get(i) {
            None | Some(&EMPTY) => Child::Empty,
            Some(&SOLID) => Child::Box,
            Some(&c) if c & LEAF != 0 => {
                Child::Group(c & !LEAF, u32::from(self.cells.get(i).copied().unwrap_or(0)))
            }
            Some(&c) => Child::Node(c),
        }
    }

    /// How much of its volume each child that is cut leaves in doubt while it stays closed, 0..=1.
    #[inline]
    pub(crate) fn rank(&self) -> [f32; WIDTH] {
        self.solid.map(|s| if s { BOX_RANK } else { 1.0 })
    }

    /// The box of all cells below slot `i & 3`: from the centroid to its middle, and half its sides, for cells of edge
    /// `cell`, m. Real-time safe.
    #[inline]
    pub(crate) fn bounds(&self, i: usize, cell: f32) -> ([f32; 3], [f32; 3]) {
        let i = i & (WIDTH - 1);
        let at = [self.x[i], self.y[i], self.z[i]];
        let (mut middle, mut half) = ([0.0; 3], [0.0; 3]);
        for axis in 0..3 {
            let sides = f32::from(self.sides[axis][i]);
            half[axis] = 0.5 * sides * cell;
            middle[axis] = (f32::from(self.low[axis][i]) + 0.5 * (sides - 1.0)) * cell - at[axis];
        }
        (middle, half)
    }

    /// Cells along the sides of that box.
    pub(crate) fn sides(&self, i: usize) -> [u16; 3] {
        self.sides.map(|s| s[i & (WIDTH - 1)])
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

/// The cells in the order of the hierarchy, each group in blocks of its own; without those of solid boxes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CellStore {
    /// Cells stored.
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
