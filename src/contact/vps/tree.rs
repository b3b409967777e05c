//! The tree of balls over a shell (Sagardia et al. 2014, section 2.1.2: balls around all points below a node).
//!
//! Sixteen points that lie together are a block, sixteen blocks a group, sixteen groups a region: whole clusters in a row, as
//! [`super::clusters`] or a space-filling curve puts them together. Each ball is the smallest around all points below it (nearly
//! so along the curve). Points stand at their highest level once; a node never spans two levels, so a traversal meets the coarse levels first.
//! Sixteen balls are tested at once, as sixteen points are ([`super::query`]).

use super::ball::{ball, nearly_smallest};
use super::clusters::Clusters;
use super::{FAR, ROUND_UP};
use crate::geometry::Point;
use crate::geometry::simd::LANES;
use bytemuck::cast_slice;
use rayon::prelude::*;
use std::ops::Range;

/// Balls of one tier, structure of arrays, tool frame, m; sixteen more than there are, which touch nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tier {
    pub(super) x: Vec<f32>,
    pub(super) y: Vec<f32>,
    pub(super) z: Vec<f32>,
    pub(super) radius: Vec<f32>,
    /// First child of each ball, and the end of the last one's: blocks, or balls of the tier below.
    first: Vec<u32>,
}

/// Tiers from the blocks upwards.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tree {
    pub(super) tiers: [Tier; 3],
}

impl Tier {
    fn push(&mut self, (centre, radius): (Point, f64), first: u32) {
        self.x.push(centre.x as f32);
        self.y.push(centre.y as f32);
        self.z.push(centre.z as f32);
        // The centre is rounded too.
        self.radius.push((radius * ROUND_UP + centre.coords.norm() * 1e-6) as f32);
        self.first.push(first);
    }

    fn close(&mut self, end: u32) {
        self.first.push(end);
        for column in [&mut self.x, &mut self.y, &mut self.z] {
            column.extend([FAR; LANES]);
        }
        self.radius.extend([f32::NEG_INFINITY; LANES]);
        for column in [&mut self.x, &mut self.y, &mut self.z, &mut self.radius] {
            column.shrink_to_fit();
        }
        self.first.shrink_to_fit();
    }

    /// Number of balls.
    pub(super) fn len(&self) -> usize {
        self.first.len().saturating_sub(1)
    }

    /// No point of a ball is farther than this from the tool's origin, m.
    pub(super) fn reach(&self, node: usize) -> f64 {
        let of = |c: &[f32]| c.get(node).copied().map_or(f64::INFINITY, f64::from);
        Point::new(of(&self.x), of(&self.y), of(&self.z)).coords.norm() + of(&self.radius)
    }

    /// Children of a ball.
    pub(super) fn children(&self, node: usize) -> Range<usize> {
        match (self.first.get(node), self.first.get(node + 1)) {
            (Some(&a), Some(&b)) => a as usize..b as usize,
            _ => 0..0,
        }
    }

    /// Radii of the balls, m.
    fn radii(&self) -> Vec<f64> {
        self.radius.iter().take(self.len()).map(|&r| f64::from(r)).collect()
    }

    fn memory(&self) -> impl Iterator<Item = &[u8]> {
        let columns = [&self.x, &self.y, &self.z, &self.radius].map(|c| cast_slice(c));
        columns.into_iter().chain([cast_slice(&self.first)])
    }
}

impl Tree {
    /// Over points in shell order whose levels end at `ends` (whole blocks but for the last).
    pub(super) fn new(points: &[Point], ends: &[usize], clusters: Clusters) -> Self {
        let ball = if clusters == Clusters::Morton { nearly_smallest } else { ball };
        let mut tree = Self::default();
        // What each ball holds, and its first child.
        let [mut blocks, mut groups, mut regions] = [const { Vec::new() }; 3];
        let mut start = 0;
        for &end in ends {
            for region in (start..end).step_by(LANES * LANES * LANES) {
                let stop = end.min(region + LANES * LANES * LANES);
                regions.push((region..stop, groups.len()));
                for group in (region..stop).step_by(LANES * LANES) {
                    let stop = stop.min(group + LANES * LANES);
                    groups.push((group..stop, blocks.len()));
                    for block in (group..stop).step_by(LANES) {
                        blocks.push((block..stop.min(block + LANES), block));
                    }
                }
            }
            start = end;
        }
        let counts = [points.len(), blocks.len(), groups.len()];
        for (tier, nodes) in tree.tiers.iter_mut().zip([blocks, groups, regions]) {
            let balls: Vec<_> = nodes.par_iter().map(|(held, _)| ball(&points[held.clone()])).collect();
            balls.into_iter().zip(nodes).for_each(|(ball, (_, first))| tier.push(ball, first as u32));
        }
        for (tier, end) in tree.tiers.iter_mut().zip(counts) {
            tier.close(end as u32);
        }
        tree
    }

    /// Radii of the balls of each tier, m.
    pub(super) fn radii(&self) -> [Vec<f64>; 3] {
        self.tiers.each_ref().map(Tier::radii)
    }

    pub(super) fn memory(&self) -> impl Iterator<Item = &[u8]> {
        self.tiers.iter().flat_map(Tier::memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contact::vps::{PointShell, ShellParams};
    use crate::geometry::shapes;

    #[test]
    fn every_ball_holds_all_points_below_it_and_every_block_has_one_parent() {
        let torus = shapes::torus(0.03, 0.01, 64, 32);
        for (points, clusters) in
            [1, 15, 16, 300, 5000].into_iter().flat_map(|n| [(n, Clusters::Morton), (n, Clusters::BottomUp)])
        {
            let shell =
                PointShell::build(&torus, ShellParams { clusters, ..ShellParams::points(points) }).unwrap();
            check(&shell.tree, &|i| shell.position(i), shell.len);
            let at = |i: usize| {
                let block = &shell.sorted.blocks[i / LANES];
                Point::from(block.at.map(|c| f64::from(c[i % LANES])))
            };
            check(&shell.sorted.tree, &at, shell.len);
        }
    }

    fn check(tree: &Tree, at: &dyn Fn(usize) -> Point, len: usize) {
        let [blocks, groups, regions] = &tree.tiers;
        assert_eq!(blocks.len(), len.div_ceil(LANES));
        let holds = |tier: &Tier, node: usize, from: usize, to: usize| {
            let c = Point::new(tier.x[node].into(), tier.y[node].into(), tier.z[node].into());
            for i in from..to.min(len) {
                assert!((at(i) - c).norm() <= f64::from(tier.radius[node]), "{node} {i}");
            }
        };
        let (mut group, mut block) = (0, 0);
        for r in 0..regions.len() {
            assert_eq!(regions.children(r).start, group);
            holds(regions, r, block * LANES, groups.children(regions.children(r).end - 1).end * LANES);
            for g in regions.children(r) {
                assert_eq!(groups.children(g).start, block);
                assert!((1..=LANES).contains(&groups.children(g).len()));
                for b in groups.children(g) {
                    holds(blocks, b, b * LANES, (b + 1) * LANES);
                }
                holds(groups, g, block * LANES, groups.children(g).end * LANES);
                block = groups.children(g).end;
            }
            group = regions.children(r).end;
            assert!((1..=LANES).contains(&regions.children(r).len()));
        }
        assert_eq!((group, block), (groups.len(), blocks.len()));
    }
}
