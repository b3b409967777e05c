//! From a budget to the stake below which nodes stay closed.
//!
//! The cost of a threshold is the number of nodes and cells looked at when all nodes with a higher stake are opened.
//! Stakes are counted in a histogram of their logarithm, each one shared out between the two bins next to it, so
//! that the threshold, like the stakes, is continuous in the pose. Ever lower stakes are counted until the budget is
//! reached; cells are not looked at here.

use super::frame::Frame;
use super::model::SphereTree;
use super::nodes::{node_depth, sixteen, stake};
use super::tree::{Child, WIDTH};
use super::volume::{NOTHING, STACK, node_at};
use crate::geometry::simd::{LANES, Simd, dispatch, level};

/// Bins of a factor of two.
const PER_OCTAVE: f32 = 8.0;
/// Bins.
const BINS: usize = 512;
/// Factor between the thresholds of two passes.
const PASS: f32 = 1.0 / 16.0;
/// Part of the budget that is left for the answer itself; the rest pays for the counting.
const ANSWER: f32 = 0.8;

/// The threshold for about `units` of work, m^3, and the work of finding it. Real-time safe.
pub(super) fn threshold(tree: &SphereTree, frame: &Frame<'_>, units: u32) -> (f32, u32) {
    let simd = level();
    dispatch!(simd, search(tree: &SphereTree, frame: &Frame<'_>, units: u32) -> (f32, u32))
}

/// Place of a stake in the histogram, from the top: minus its binary logarithm (straight between powers of two).
fn place(stake: f32, top: f32) -> f32 {
    let log = |x: f32| x.to_bits() as f32 * (1.0 / 8_388_608.0);
    ((log(top) - log(stake)) * PER_OCTAVE).clamp(0.0, BINS as f32 - 2.0)
}

/// The stake at a place.
fn stake_at(place: f32, top: f32) -> f32 {
    let log = top.to_bits() as f32 * (1.0 / 8_388_608.0) - place / PER_OCTAVE;
    f32::from_bits((log.max(1.0) * 8_388_608.0) as u32)
}

struct Count {
    bins: [f32; BINS],
    total: f32,
}

impl Count {
    fn add(&mut self, place: f32, cost: f32) {
        let at = place as usize;
        let t = place - at as f32;
        if let Some([a, b]) = self.bins.get_mut(at..at + 2) {
            *a += cost * (1.0 - t);
            *b += cost * t;
        }
        self.total += cost;
    }

    /// Where the sum from the top reaches `cost`: each bin's cost spreads evenly up to the next bin.
    fn reach(&self, cost: f32) -> f32 {
        let mut left = cost;
        for (i, bin) in self.bins.iter().enumerate() {
            if *bin > 0.0 && *bin >= left {
                return i as f32 + left / bin - 1.0;
            }
            left -= bin;
        }
        BINS as f32
    }
}

#[inline(always)]
fn search<S: Simd>(simd: S, tree: &SphereTree, frame: &Frame<'_>, units: u32) -> (f32, u32) {
    let budget = (units as f32 * ANSWER).max(LANES as f32);
    let top = tree.volume as f32;
    let mut work = 0;
    let mut limit = top * PASS;
    loop {
        let mut count = Count { bins: [0.0; BINS], total: 0.0 };
        let (cut, spent) = pass(simd, tree, frame, limit, budget, &mut count);
        work += spent;
        // Bins next to the limit lack the shares of nodes below it: only what lies above them is accepted.
        let at = count.reach(budget).max(0.0);
        if at <= place(limit, top) - 1.0 {
            return (stake_at(at, top), work);
        }
        if !cut {
            return (0.0, work);
        }
        limit *= PASS;
    }
}

/// Counts the nodes of a stake above `limit`, which rises when they alone exceed the budget. True when a node with a
/// stake below was left closed.
#[inline(always)]
fn pass<S: Simd>(
    simd: S,
    tree: &SphereTree,
    frame: &Frame<'_>,
    limit: f32,
    budget: f32,
    count: &mut Count,
) -> (bool, u32) {
    let top_stake = tree.volume as f32;
    let mut limit = limit;
    let mut stack = [(0u32, f32::INFINITY); STACK];
    let mut top = usize::from(!tree.nodes.is_empty());
    let (mut cut, mut work, mut checked) = (false, 0, 2.0 * budget);
    while top > 0 {
        if count.total > checked {
            // Two bins of room, for what the bins below the limit still share with those above.
            limit = limit.max(stake_at(count.reach(budget) + 2.0, top_stake));
            checked = count.total + budget;
        }
        let mut taken = [(u32::MAX, 0.0f32); LANES / WIDTH];
        for slot in &mut taken {
            if top == 0 {
                break;
            }
            top -= 1;
            *slot = stack[top & (STACK - 1)];
        }
        let mut nodes = [&NOTHING; LANES / WIDTH];
        for i in 0..LANES / WIDTH {
            nodes[i] = node_at(tree, taken[i].0);
        }
        let columns = sixteen(frame, nodes);
        let depth = node_depth(simd, frame, &columns);
        let stakes = stake(simd, frame, &columns, depth).store();
        for lane in 0..LANES {
            let child = nodes[lane / WIDTH].child(lane % WIDTH);
            if child == Child::Empty {
                continue;
            }
            work += 1;
            let own = taken[lane / WIDTH].1.min(stakes[lane]);
            if own <= 0.0 {
                continue;
            }
            if own <= limit || top + LANES > STACK {
                cut = true;
                continue;
            }
            let at = place(own, top_stake);
            match child {
                Child::Node(node) => {
                    count.add(at, WIDTH as f32);
                    stack[top & (STACK - 1)] = (node, own);
                    top += 1;
                }
                Child::Group(_, cells) => count.add(at, cells as f32),
                Child::Empty => {}
            }
        }
    }
    (cut, work)
}
