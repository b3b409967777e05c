//! The part of a tree that matters within a small ball: for grids, which ask about many places close together.

use super::Bvh;
use super::kernel::{MARGIN, Node, Stack, box_distances, nearest_from};
use crate::geometry::lanes::LANES;
use crate::geometry::simd::Simd;
use crate::geometry::wide::LEAF;

/// Up to sixteen boxes that hold the nearest triangle of every place within a ball.
pub(crate) struct Few {
    node: Node,
    stack: Stack,
}

impl Few {
    /// Room for them.
    pub(crate) fn new() -> Self {
        Self { node: Node::EMPTY, stack: Stack::new() }
    }

    /// Finds those of a ball (local units); `near` as for [`Few::nearest`], and so is the answer.
    ///
    /// With d the distance of its centre and r its radius, a place in it is at most d + r from the mesh, and the triangle there
    /// at most d + 2 r from the centre. Boxes that are farther are left out, the others opened as long as there is room.
    #[inline(always)]
    pub(crate) fn find(
        &mut self,
        simd: impl Simd,
        bvh: &Bvh,
        (centre, radius): ([f32; 3], f32),
        near: u32,
        tests: &mut u64,
    ) -> u32 {
        let (d2, slot) = bvh.nearest_f32(simd, centre, f32::INFINITY, near, tests);
        let size = centre.iter().map(|x| x * x).sum::<f32>().sqrt() + radius;
        let reach = (d2.sqrt() + 2.0 * radius + 4.0 * MARGIN as f32 * (1.0 + size)) * (1.0 + 1e-5);
        let bound = reach * reach;
        self.node.used = 0;
        let Some(root) = bvh.nodes.first() else { return slot };
        self.take(root, box_distances(simd, root, centre).below(bound) & root.used);
        // Those before `from` are leaves, or do not fit when they are opened.
        let mut from = 0;
        while from < self.len() {
            let at = self.node.child[from & (LANES - 1)];
            let inner = if at & LEAF != 0 { None } else { bvh.nodes.get(at as usize) };
            let Some(inner) = inner else {
                from += 1;
                continue;
            };
            let mask = box_distances(simd, inner, centre).below(bound) & inner.used;
            if self.len() - 1 + mask.count_ones() as usize > LANES {
                from += 1;
                continue;
            }
            self.remove(from);
            self.take(inner, mask);
        }
        slot
    }

    /// As [`Bvh::nearest_f32`], for a place within the ball.
    #[inline(always)]
    pub(crate) fn nearest(
        &mut self,
        simd: impl Simd,
        bvh: &Bvh,
        p: [f32; 3],
        near: u32,
        tests: &mut u64,
    ) -> (f32, u32) {
        nearest_from(simd, bvh, p, (f32::INFINITY, near), Some(&self.node), &mut self.stack, tests)
    }

    fn len(&self) -> usize {
        self.node.used.count_ones() as usize
    }

    /// Adds those children; there is room.
    fn take(&mut self, from: &Node, mut mask: u32) {
        while mask != 0 {
            let lane = (mask.trailing_zeros() as usize) & (LANES - 1);
            mask &= mask - 1;
            let to = self.len() & (LANES - 1);
            copy(&mut self.node, to, from, lane);
            self.node.used |= 1 << to;
        }
    }

    /// Puts the last one in the place of this one.
    fn remove(&mut self, at: usize) {
        let last = self.len().saturating_sub(1);
        let node = &mut self.node;
        for lanes in node.center.iter_mut().chain(&mut node.half).chain(node.axes.as_flattened_mut()) {
            lanes[at & (LANES - 1)] = lanes[last & (LANES - 1)];
        }
        node.child[at & (LANES - 1)] = node.child[last & (LANES - 1)];
        self.node.used &= !(1 << last);
    }
}

fn copy(to: &mut Node, at: usize, from: &Node, lane: usize) {
    for k in 0..3 {
        to.center[k][at] = from.center[k][lane];
        to.half[k][at] = from.half[k][lane];
        for j in 0..3 {
            to.axes[j][k][at] = from.axes[j][k][lane];
        }
    }
    to.child[at] = from.child[lane];
}
