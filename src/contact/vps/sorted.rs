//! The shell's points once more, neighbours together: what a query reads that has the budget for all of them.
//!
//! The levels of [`super::Level`] spread sixteen points widely, so that few blocks lie clear of the object and most that
//! touch do so with a point or two. Here the points of all levels are put together in clusters of sixteen
//! ([`super::clusters`]), or split at the middle of their longest side, down to blocks of sixteen (a k-d tree whose leaves are
//! balls), and all that a block needs lies side by side.

use super::clusters::{Clusters, bottom_up};
use super::tree::Tree;
use super::{FAR, PATCHES};
use crate::geometry::Point;
use crate::geometry::simd::LANES;
use bytemuck::{Pod, Zeroable, cast_slice};
use std::ops::Range;

/// Sixteen neighbours, tool frame.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C, align(64))]
pub(crate) struct Block {
    /// Positions, m; padding lies far away.
    pub(super) at: [[f32; LANES]; 3],
    /// Unit normals into the tool.
    pub(super) normal: [[f32; LANES]; 3],
    /// Areas, m^2; 0 for padding.
    pub(super) area: [f32; LANES],
    /// Index of each point in the shell.
    pub(super) id: [u32; LANES],
}

/// All points of a shell, sorted by place.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sorted {
    pub(super) blocks: Vec<Block>,
    pub(super) tree: Tree,
}

impl Sorted {
    /// Of points with inward normals and areas, in shell order.
    pub(super) fn new(points: &[Point], normals: [&[f32]; 3], areas: &[f32], clusters: Clusters) -> Self {
        let order = match clusters {
            Clusters::BottomUp | Clusters::Mixed => bottom_up(points),
            Clusters::Morton => {
                let mut order: Vec<u32> = (0..points.len() as u32).collect();
                split(points, &mut order);
                order
            }
        };
        let sorted: Vec<Point> = order.iter().map(|&i| points[i as usize]).collect();
        let block = |ids: &[u32]| {
            let lanes = |column: &dyn Fn(usize) -> f32, pad: f32| {
                std::array::from_fn(|lane| ids.get(lane).map_or(pad, |&i| column(i as usize)))
            };
            Block {
                at: [0, 1, 2].map(|a| lanes(&|i| points[i][a] as f32, FAR)),
                normal: normals.map(|n| lanes(&|i| n[i], 0.0)),
                area: lanes(&|i| areas[i], 0.0),
                id: std::array::from_fn(|lane| ids.get(lane).copied().unwrap_or(0)),
            }
        };
        Self {
            blocks: order.chunks(LANES).map(block).collect(),
            tree: Tree::new(&sorted, &[sorted.len()], clusters),
        }
    }

    /// The points of a block, without padding. Real-time safe.
    pub(super) fn points(&self, block: usize) -> Option<impl Iterator<Item = Point> + '_> {
        let block = self.blocks.get(block)?;
        let [x, y, z] = &block.at;
        let lanes = x.iter().zip(y).zip(z).zip(&block.area).filter(|(_, area)| **area > 0.0);
        Some(lanes.map(|(((x, y), z), _)| Point::new(f64::from(*x), f64::from(*y), f64::from(*z))))
    }

    /// Patch of a block, below [`PATCHES`]: blocks that follow each other lie together.
    pub(super) fn patch(&self, block: usize) -> usize {
        block * PATCHES / self.blocks.len().max(1)
    }

    /// The clusters of `points` points at a level, as ranges of blocks: the whole at level 1, each split in two from one level
    /// to the next, down to single blocks.
    pub(super) fn clusters(points: usize, level: u32) -> Vec<Range<usize>> {
        let mut out: Vec<Range<usize>> = std::iter::once(0..points).collect();
        for _ in 1..level {
            let halves = |r: &Range<usize>| match middle(r.len()) {
                Some(left) => vec![r.start..r.start + left, r.start + left..r.end],
                None => vec![r.clone()],
            };
            let next: Vec<_> = out.iter().flat_map(halves).collect();
            if next.len() == out.len() {
                break;
            }
            out = next;
        }
        out.into_iter().map(|r| r.start / LANES..r.end.div_ceil(LANES)).collect()
    }

    pub(super) fn memory(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(cast_slice(&self.blocks)).chain(self.tree.memory())
    }
}

/// Where a row of more than sixteen points is split: halves, whole units of 4096, 256 or 16 to the left.
fn middle(n: usize) -> Option<usize> {
    let unit = [LANES * LANES * LANES, LANES * LANES, LANES].into_iter().find(|&u| n > u)?;
    Some((n / 2).next_multiple_of(unit).min((n - 1) / unit * unit))
}

/// Sorts so that each 4096, each 256 and each 16 points in a row lie together: halves along the longest side, whole
/// units of the size below to the left.
fn split(points: &[Point], order: &mut [u32]) {
    let Some(left) = middle(order.len()) else { return };
    let first = points[order[0] as usize];
    let (low, high) =
        order.iter().map(|&i| points[i as usize]).fold((first, first), |(l, h), p| (l.inf(&p), h.sup(&p)));
    let axis = (high - low).imax();
    order.select_nth_unstable_by(left, |&a, &b| {
        points[a as usize][axis].total_cmp(&points[b as usize][axis]).then(a.cmp(&b))
    });
    let (a, b) = order.split_at_mut(left);
    rayon::join(|| split(points, a), || split(points, b));
}

#[cfg(test)]
mod tests {
    use crate::contact::vps::{Clusters, PointShell, ShellParams};
    use crate::geometry::shapes;
    use crate::geometry::simd::LANES;

    #[test]
    fn every_point_stands_once_with_what_belongs_to_it() {
        let torus = shapes::torus(0.03, 0.01, 64, 32);
        let sizes = [1, 16, 17, 300, 9000].map(ShellParams::points);
        let bottom_up = sizes.map(|p| ShellParams { clusters: Clusters::BottomUp, ..p });
        for params in sizes.into_iter().chain(bottom_up) {
            let shell = PointShell::build(&torus, params).unwrap();
            let mut seen = vec![false; shell.len];
            for (b, block) in shell.sorted.blocks.iter().enumerate() {
                for lane in 0..LANES {
                    let i = block.id[lane] as usize;
                    if b * LANES + lane >= shell.len {
                        assert_eq!(block.area[lane], 0.0);
                        continue;
                    }
                    assert!(!std::mem::replace(&mut seen[i], true));
                    assert_eq!(block.at.map(|c| c[lane]), [shell.x[i], shell.y[i], shell.z[i]]);
                    assert_eq!(block.normal.map(|c| c[lane]), [shell.nx[i], shell.ny[i], shell.nz[i]]);
                    assert_eq!(block.area[lane], shell.area[i]);
                }
            }
            assert!(seen.iter().all(|&s| s));
        }
    }

    /// Sixteen evenly spaced points on a surface, s^2 of it each, fit into a ball of about sqrt(16 / pi) s.
    #[test]
    fn blocks_lie_together() {
        for clusters in [Clusters::Morton, Clusters::BottomUp] {
            let params = ShellParams { clusters, ..ShellParams::points(8000) };
            let shell = PointShell::build(&shapes::icosphere(0.05, 5), params).unwrap();
            let [[mut radii, ..], _] = shell.ball_radii();
            radii.sort_by(f64::total_cmp);
            let median = radii[radii.len() / 2] / shell.spacing();
            assert!(median < 3.2, "{median}");
        }
    }
}
