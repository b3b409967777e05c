//! The tree of balls over a shell (Sagardia et al. 2014, section 2.1.2: balls around all points below a node).
//!
//! Sixteen points that lie together are a block, sixteen blocks a group, sixteen groups a region: an order along a
//! space-filling curve gives the clusters, without the outliers that clustering by nearest neighbours has to repair.
//! Points stand at their highest level once; a node never spans two levels, so a traversal meets the coarse levels first.
//! Sixteen balls are tested at once, as sixteen points are.

use super::build::ball;
use super::kernel::{CHUNK, Job, Sums, about, over, soft_count, visit};
use super::{FAR, ROUND_UP};
use crate::geometry::Point;
use crate::geometry::simd::{LANES, SimdLevel};
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
    fn push(&mut self, points: &[Point], first: u32) {
        let (centre, radius) = ball(points);
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
    }

    /// Number of balls.
    fn len(&self) -> usize {
        self.first.len().saturating_sub(1)
    }

    /// Children of a ball.
    fn children(&self, node: usize) -> Range<usize> {
        match (self.first.get(node), self.first.get(node + 1)) {
            (Some(&a), Some(&b)) => a as usize..b as usize,
            _ => 0..0,
        }
    }

    fn bytes(&self) -> usize {
        4 * (self.x.capacity() + self.y.capacity() + self.z.capacity() + self.radius.capacity())
            + 4 * self.first.capacity()
    }
}

impl Tree {
    /// Over points in shell order whose levels end at `ends` (whole blocks but for the last).
    pub(super) fn new(points: &[Point], ends: &[usize]) -> Self {
        let mut tree = Self::default();
        let [blocks, groups, regions] = &mut tree.tiers;
        let mut start = 0;
        for &end in ends {
            for region in (start..end).step_by(LANES * LANES * LANES) {
                let stop = end.min(region + LANES * LANES * LANES);
                regions.push(&points[region..stop], groups.first.len() as u32);
                for group in (region..stop).step_by(LANES * LANES) {
                    let stop = stop.min(group + LANES * LANES);
                    groups.push(&points[group..stop], blocks.first.len() as u32);
                    for block in (group..stop).step_by(LANES) {
                        blocks.push(&points[block..stop.min(block + LANES)], block as u32);
                    }
                }
            }
            start = end;
        }
        let counts = [points.len(), blocks.first.len(), groups.first.len()];
        for (tier, end) in tree.tiers.iter_mut().zip(counts) {
            tier.close(end as u32);
        }
        tree
    }

    pub(super) fn bytes(&self) -> usize {
        self.tiers.iter().map(Tier::bytes).sum()
    }
}

/// What a traversal came to.
pub(super) struct Walk {
    /// Every block before this one has been visited, or cannot matter.
    pub(super) done: usize,
    /// End of what `sums.total` holds: a level cut short covers one side of the tool only, so it does not count.
    pub(super) counted: usize,
    /// Points visited.
    pub(super) visited: usize,
    /// The deadline ended it.
    pub(super) late: bool,
}

/// Visits every block before `end` that has a weight and may touch, or, as long as nothing touches, may hold the point
/// nearest to the object. Stops when `limit` points are visited or `passed` says so (asked before each group).
pub(super) fn walk(
    simd: SimdLevel,
    job: &Job<'_>,
    end: usize,
    limit: usize,
    passed: impl Fn() -> bool,
    sums: &mut Sums,
) -> Walk {
    let shell = job.shell;
    let [blocks, groups, regions] = &shell.tree.tiers;
    let mut ends = shell.levels.iter().map(|l| l.len.div_ceil(LANES));
    let mut next_end = ends.next().unwrap_or(usize::MAX);
    let mut whole = (0, sums.total);
    let mut chunk = [0u32; CHUNK];
    let (mut n, mut visited) = (0, 0);
    for top in (0..regions.len()).step_by(LANES) {
        let mut hits = over(simd, job, regions, top, regions.len() - top, sums.nearest());
        while hits != 0 {
            let region = top + hits.trailing_zeros() as usize;
            hits &= hits - 1;
            let children = regions.children(region);
            let mut hits = over(simd, job, groups, children.start, children.len(), sums.nearest());
            while hits != 0 {
                let group = children.start + hits.trailing_zeros() as usize;
                hits &= hits - 1;
                let children = groups.children(group);
                if children.start >= end {
                    visit(simd, job, &chunk[..n], sums);
                    return Walk { done: end, counted: end, visited: visited.min(shell.len), late: false };
                }
                if next_end <= children.start {
                    visit(simd, job, &chunk[..n], sums);
                    n = 0;
                    whole = (next_end, sums.total);
                    while next_end <= children.start {
                        whole.0 = next_end;
                        next_end = ends.next().unwrap_or(usize::MAX);
                    }
                }
                let mut hits = over(simd, job, blocks, children.start, children.len(), sums.nearest());
                let late = visited > 0 && passed();
                while hits != 0 {
                    let block = children.start + hits.trailing_zeros() as usize;
                    hits &= hits - 1;
                    if block >= end || job.partial.weight(shell, block) == 0.0 {
                        continue;
                    }
                    if late || (visited > 0 && visited + LANES > limit) {
                        visit(simd, job, &chunk[..n], sums);
                        let counted = if whole.0 > 0 { whole.0 } else { block };
                        if whole.0 > 0 {
                            sums.total = whole.1;
                        }
                        return Walk { done: block, counted, visited, late };
                    }
                    if n == CHUNK {
                        visit(simd, job, &chunk, sums);
                        n = 0;
                    }
                    chunk[n] = block as u32;
                    n += 1;
                    visited += LANES;
                }
                // Every visit may bring the nearest point closer and so spare others.
                if !sums.touched {
                    visit(simd, job, &chunk[..n], sums);
                    n = 0;
                }
            }
        }
    }
    visit(simd, job, &chunk[..n], sums);
    Walk { done: end, counted: end, visited: visited.min(shell.len), late: false }
}

/// How much of the shell a budget pays for.
pub(super) struct Plan {
    /// Points to grant: a prefix of the shell of which about `fits` points may touch; all of them where that is fewer.
    pub(super) granted: usize,
    /// Points that may touch, estimated where not all fit.
    pub(super) may_touch: usize,
}

/// Counts, level by level, the points in blocks that may touch, until `fits` is exceeded. Blocks that nearly may count
/// in part, so that the plan changes continuously with the pose.
pub(super) fn plan(simd: SimdLevel, job: &Job<'_>, fits: usize) -> Plan {
    let shell = job.shell;
    let [blocks, groups, regions] = &shell.tree.tiers;
    let mut levels = shell.levels.iter().map(|l| l.len);
    // The level being counted, the points that may touch before it and in it.
    let (mut start, mut end) = (0, levels.next().unwrap_or(shell.len));
    let (mut before, mut within) = (0.0, 0.0);
    let fits = fits as f64;
    let over_budget = |start: usize, end: usize, before: f64, within: f64| {
        let granted = start + ((end - start) as f64 * (fits - before) / within) as usize;
        let may_touch = ((before + within) * shell.len as f64 / end.max(1) as f64) as usize;
        Plan { granted: (granted / LANES * LANES).max(LANES).min(shell.len), may_touch }
    };
    for top in (0..regions.len()).step_by(LANES) {
        let mut hits = about(simd, job, regions, top, regions.len() - top);
        while hits != 0 {
            let children = regions.children(top + hits.trailing_zeros() as usize);
            hits &= hits - 1;
            let mut hits = about(simd, job, groups, children.start, children.len());
            while hits != 0 {
                let children = groups.children(children.start + hits.trailing_zeros() as usize);
                hits &= hits - 1;
                while children.start * LANES >= end && end < shell.len {
                    if before + within > fits {
                        return over_budget(start, end, before, within);
                    }
                    before += within;
                    within = 0.0;
                    start = end;
                    end = levels.next().unwrap_or(shell.len);
                }
                let n = children.len();
                within += f64::from(soft_count(simd, job, blocks, children.start, n)) * LANES as f64;
            }
        }
    }
    if before + within > fits {
        return over_budget(start, end, before, within);
    }
    Plan { granted: shell.len, may_touch: (before + within) as usize }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contact::vps::{PointShell, ShellParams};
    use crate::geometry::shapes;

    #[test]
    fn every_ball_holds_all_points_below_it_and_every_block_has_one_parent() {
        for points in [1, 15, 16, 300, 5000] {
            let shell =
                PointShell::build(&shapes::torus(0.03, 0.01, 64, 32), ShellParams::points(points)).unwrap();
            let [blocks, groups, regions] = &shell.tree.tiers;
            assert_eq!(blocks.len(), shell.len.div_ceil(LANES));
            let holds = |tier: &Tier, node: usize, from: usize, to: usize| {
                let c = Point::new(tier.x[node].into(), tier.y[node].into(), tier.z[node].into());
                for i in from..to.min(shell.len) {
                    assert!((shell.position(i) - c).norm() <= f64::from(tier.radius[node]), "{node} {i}");
                }
            };
            let (mut group, mut block) = (0, 0);
            for r in 0..regions.len() {
                assert_eq!(regions.children(r).start, group);
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
}
