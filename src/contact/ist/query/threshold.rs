//! From a budget to the stake below which nodes stay closed.
//!
//! The cost of a threshold is the number of nodes and cells looked at when all nodes with a higher stake are opened, here
//! and in the answer itself. Nodes are taken from a queue in the order of their stakes (Weller & Zachmann 2009, section
//! 4.2.3), kept in bins of their logarithm; each cost is shared out between the two bins next to it, so that the
//! threshold, like the stakes, is continuous in the pose. Stakes fall down the hierarchy, so that each bin is complete
//! when those above it are empty, and no node is looked at that the answer does not open. Cells are not looked at here.

use super::boxes::{BOUND_WORK, BOX_WORK, FINER_STAKE, FINER_WORK, SHUT_WORK};
use super::frame::Frame;
use super::kernel::read_depth;
use super::model::SphereTree;
use super::nodes::{EVEN_WORK, node_places, sixteen, weigh};
use super::tree::{Child, WIDTH};
use super::volume::{NOTHING, node_at};
use crate::geometry::lanes::Lanes;
use crate::geometry::simd::{LANES, Simd, dispatch, level, prefetch};

/// Bins of a factor of two.
const PER_OCTAVE: f32 = 8.0;
/// Bins.
const BINS: usize = 512;
/// Nodes looked at together may come from so many bins on: they would be looked at soon anyway.
const AHEAD: usize = 4;
/// Room for nodes that wait. What would not fit counts as closed, and so does all with a lower stake.
const ROOM: usize = 4096;
/// More nodes that the surface crosses with each one that is opened.
const MORE_CUT: f32 = 1.5;
/// No node.
const END: u16 = u16::MAX;
/// Nodes looked at together.
const TOGETHER: usize = LANES / WIDTH;

/// The threshold for about `units` of work, m^3, and the work of finding it. Real-time safe.
pub(super) fn threshold(tree: &SphereTree, frame: &Frame<'_>, units: u32) -> (f32, u32) {
    let simd = level();
    dispatch!(simd, search(tree: &SphereTree, frame: &Frame<'_>, units: u32) -> (f32, u32))
}

/// Place of a stake among the bins, from the top: minus its binary logarithm (straight between powers of two).
fn place(stake: f32, top: f32) -> f32 {
    let log = |x: f32| x.to_bits() as f32 * (1.0 / 8_388_608.0);
    ((log(top) - log(stake)) * PER_OCTAVE).clamp(0.0, BINS as f32 - 2.0)
}

/// The stake at a place.
fn stake_at(place: f32, top: f32) -> f32 {
    let log = top.to_bits() as f32 * (1.0 / 8_388_608.0) - place / PER_OCTAVE;
    f32::from_bits((log.max(1.0) * 8_388_608.0) as u32)
}

/// A node that waits.
#[derive(Clone, Copy)]
struct Waiting {
    node: u32,
    stake: f32,
    next: u16,
}

/// Nodes by bin, and the costs of the bins.
struct Queue {
    first: [u16; BINS],
    nodes: [Waiting; ROOM],
    used: usize,
    free: u16,
    cost: [f32; BINS],
    /// The first bin that may lack nodes, for want of room.
    broken: usize,
}

impl Queue {
    fn new() -> Self {
        Self {
            first: [END; BINS],
            nodes: [Waiting { node: 0, stake: 0.0, next: END }; ROOM],
            used: 0,
            free: END,
            cost: [0.0; BINS],
            broken: BINS,
        }
    }

    /// Counts a cost at a place.
    #[inline(always)]
    fn count(&mut self, place: f32, cost: f32) {
        let at = place as usize;
        let t = place - at as f32;
        if let Some([a, b]) = self.cost.get_mut(at..at + 2) {
            *a += cost * (1.0 - t);
            *b += cost * t;
        }
    }

    /// Lets a node wait in a bin.
    #[inline(always)]
    fn push(&mut self, bin: usize, node: u32, stake: f32) {
        let slot = if self.free != END {
            self.free
        } else if self.used < ROOM {
            self.used += 1;
            (self.used - 1) as u16
        } else {
            self.broken = self.broken.min(bin);
            return;
        };
        let (Some(first), Some(place)) = (self.first.get_mut(bin), self.nodes.get_mut(usize::from(slot)))
        else {
            return;
        };
        if self.free == slot {
            self.free = place.next;
        }
        *place = Waiting { node, stake, next: *first };
        *first = slot;
    }

    /// Takes a node from a bin.
    #[inline(always)]
    fn pop(&mut self, bin: usize) -> Option<Waiting> {
        let first = self.first.get_mut(bin)?;
        let place = self.nodes.get_mut(usize::from(*first))?;
        let taken = *place;
        place.next = self.free;
        self.free = *first;
        *first = taken.next;
        Some(taken)
    }
}

#[inline(always)]
fn search<S: Simd>(simd: S, tree: &SphereTree, frame: &Frame<'_>, units: u32) -> (f32, u32) {
    let budget = (units as f32).max(LANES as f32);
    let top = tree.volume as f32;
    let mut queue = Queue::new();
    if !tree.nodes.is_empty() {
        queue.push(0, 0, f32::INFINITY);
    }
    let (mut work, mut spent) = (0, 0.0);
    for bin in 0..BINS {
        while queue.first[bin] != END {
            let mut nodes = [&NOTHING; TOGETHER];
            let mut above = [0.0; LANES];
            let (mut n, mut from) = (0, bin);
            while n < TOGETHER && from < BINS.min(bin + AHEAD) {
                match queue.pop(from) {
                    Some(taken) => {
                        nodes[n] = node_at(tree, taken.node);
                        above[WIDTH * n..WIDTH * (n + 1)].fill(taken.stake);
                        n += 1;
                    }
                    None => from += 1,
                }
            }
            let columns = sixteen(nodes);
            let at = node_places(simd, frame, &columns);
            let seen = (at, read_depth(simd, frame, at));
            let weighed = weigh(simd, frame, (&columns, nodes), seen, true);
            if weighed.large != 0 {
                // Once here and once in the answer, as soon as the node above is opened; the count sets in gently.
                work += EVEN_WORK * weighed.large.count_ones();
                let (alone, mut left) = (weighed.alone.store(), weighed.large);
                while left != 0 {
                    let lane = left.trailing_zeros() as usize & (LANES - 1);
                    left &= left - 1;
                    let cost = 2.0 * EVEN_WORK as f32 * (8.0 * alone[lane]).min(1.0);
                    queue.count(place(above[lane], top), cost);
                }
            }
            let own = Lanes::load(simd, &above).min(weighed.stake);
            let mut bits = simd.gt_bits(own.bare(), simd.splat(0.0));
            work += (n * WIDTH) as u32;
            let own = own.store();
            while bits != 0 {
                let lane = bits.trailing_zeros() as usize & (LANES - 1);
                bits &= bits - 1;
                let at = place(own[lane], top);
                match nodes[lane / WIDTH].child(lane % WIDTH) {
                    // Its children are looked at here and in the answer.
                    Child::Node(node) => {
                        prefetch(node_at(tree, node));
                        queue.count(at, 2.0 * WIDTH as f32 + MORE_CUT * (BOUND_WORK + SHUT_WORK) as f32);
                        queue.push(at as usize, node, own[lane]);
                    }
                    Child::Group(_, cells) => queue.count(at, cells as f32),
                    Child::Box => {
                        queue.count(at, BOX_WORK as f32);
                        queue.count(place(own[lane] * FINER_STAKE, top), FINER_WORK as f32);
                    }
                    Child::Empty => {}
                }
            }
        }
        // Each bin's cost spreads evenly up to the next bin.
        let cost = queue.cost[bin];
        if cost > 0.0 && spent + cost >= budget {
            return (stake_at((bin as f32 + (budget - spent) / cost - 1.0).max(0.0), top), work);
        }
        spent += cost;
        if bin + 1 >= queue.broken {
            return (stake_at(bin as f32, top), work);
        }
    }
    (0.0, work)
}
