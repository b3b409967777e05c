//! The hierarchy by planes of the cells' grid: halves of aligned boxes, until a box is solid throughout and no longer
//! than [`BLOCK_EDGE`], or holds so few cells that they are a group.

use super::{BLOCK_EDGE, BY_CELLS, GROUP, Input, PARALLEL, Sub, WIDTH};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// A box of the grid with the cells in it that hold some of the solid.
struct Region<'a> {
    cells: &'a mut [u32],
    low: [u32; 3],
    /// Powers of two.
    side: [u32; 3],
}

/// The subtree over all cells.
pub(super) fn build(input: &Input<'_>, cells: &mut [u32]) -> Sub {
    let (mut low, mut high) = ([u32::MAX; 3], [0; 3]);
    for cube in cells.iter().map(|&c| input.cube(c)) {
        for axis in 0..3 {
            low[axis] = low[axis].min(cube[axis]);
            high[axis] = high[axis].max(cube[axis] + 1);
        }
    }
    if cells.is_empty() {
        return input.join(Vec::new());
    }
    let side = [0, 1, 2].map(|a| (high[a] - low[a]).next_power_of_two());
    node(input, Region { cells, low, side })
}

impl Region<'_> {
    fn longest(&self) -> usize {
        (1..3).fold(0, |best, a| if self.side[a] > self.side[best] { a } else { best })
    }

    /// Every cell of the box is there, and solid.
    fn solid(&self, input: &Input<'_>) -> bool {
        let all: u64 = self.side.iter().map(|&s| u64::from(s)).product();
        self.cells.len() as u64 == all && self.cells.iter().all(|&c| input.parts[c as usize].fraction >= 1.0)
    }

    /// No two by two by two of its cells, as halving would come to them, are solid.
    fn ragged(&self, input: &Input<'_>) -> bool {
        if self.cells.len() > BY_CELLS {
            return false;
        }
        let mut solid = BTreeMap::new();
        for &c in self.cells.iter().filter(|&&c| input.parts[c as usize].fraction >= 1.0) {
            let cube = input.cube(c);
            let count = solid.entry([0, 1, 2].map(|a| (cube[a] - self.low[a]) / 2)).or_insert(0);
            *count += 1;
            if *count == 8 {
                return false;
            }
        }
        true
    }

    fn is_leaf(&self, input: &Input<'_>) -> bool {
        self.cells.len() <= GROUP || (self.side.iter().all(|s| *s <= BLOCK_EDGE) && self.solid(input))
    }
}

/// Two halves along the longest side; empty ones are left out.
fn halves<'a>(input: &Input<'_>, region: Region<'a>) -> Vec<Region<'a>> {
    let axis = region.longest();
    let half = region.side[axis] / 2;
    let middle = region.low[axis] + half;
    let first = part_by(region.cells, |c| input.cube(c)[axis] < middle);
    let (a, b) = region.cells.split_at_mut(first);
    let mut side = region.side;
    side[axis] = half;
    let mut low = region.low;
    low[axis] = middle;
    [Region { cells: a, low: region.low, side }, Region { cells: b, low, side }]
        .into_iter()
        .filter(|r| !r.cells.is_empty())
        .collect()
}

/// Brings those for which `first` says true to the front and returns how many they are; both kinds stay in their order, in which cells
/// are numbered along the grid.
fn part_by(cells: &mut [u32], first: impl Fn(u32) -> bool) -> usize {
    let mut others = Vec::new();
    let mut n = 0;
    for i in 0..cells.len() {
        if first(cells[i]) {
            cells[n] = cells[i];
            n += 1;
        } else {
            others.push(cells[i]);
        }
    }
    cells[n..].copy_from_slice(&others);
    n
}

/// One node over a region: the fullest of its parts are halved until there are four.
fn node(input: &Input<'_>, region: Region<'_>) -> Sub {
    let total = region.cells.len();
    let mut parts = vec![region];
    while parts.len() < WIDTH {
        let fullest = (0..parts.len())
            .filter(|&i| !parts[i].is_leaf(input) && !parts[i].ragged(input))
            .max_by_key(|&i| (parts[i].cells.len(), std::cmp::Reverse(i)));
        let Some(i) = fullest else { break };
        let part = parts.remove(i);
        for (k, half) in halves(input, part).into_iter().enumerate() {
            parts.insert(i + k, half);
        }
    }
    let below = |part: Region<'_>| {
        let all = part.cells.to_vec();
        let sub = if part.solid(input) && part.side.iter().all(|s| *s <= BLOCK_EDGE) {
            Sub { solid: true, ..Sub::default() }
        } else if part.cells.len() <= GROUP {
            input.group(part.cells)
        } else if part.ragged(input) {
            // Full groups, which halves of boxes are not.
            input.cells(part.cells)
        } else {
            node(input, part)
        };
        (sub, all)
    };
    input.join(if total > PARALLEL {
        parts.into_par_iter().map(below).collect()
    } else {
        parts.into_iter().map(below).collect()
    })
}
