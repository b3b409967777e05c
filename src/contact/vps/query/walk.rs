//! Through the levels: which blocks of points a query visits that has no budget for all, and how far it reaches.

use super::ball::{Place, over, soft_groups};
use super::kernel::{Job, Sums, finish_graded, visit_graded};
use super::source::Graded;
use crate::contact::vps::PointShell;
use crate::geometry::simd::{LANES, SimdLevel};

/// Blocks visited at once.
const CHUNK: usize = 32;

/// What a traversal came to.
pub(super) struct Walk {
    /// Every block before this one has been visited, or cannot matter.
    pub(super) done: usize,
    /// End of what the sums hold: a level cut short covers one side of the tool only, so it does not count.
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
    from: &Graded<'_>,
    end: usize,
    limit: usize,
    passed: impl Fn() -> bool,
    sums: &mut Sums,
) -> Walk {
    let shell = from.shell;
    let place = &job.place;
    let [blocks, groups, regions] = &shell.tree.tiers;
    let mut ends = shell.levels.iter().map(|l| l.len.div_ceil(LANES));
    let mut next_end = ends.next().unwrap_or(usize::MAX);
    let mut whole = (0, sums.totals());
    let mut chunk = [0u32; CHUNK];
    let (mut n, mut visited) = (0, 0);
    for top in (0..regions.len()).step_by(LANES) {
        let mut hits = over(simd, place, regions, top, regions.len() - top, sums.nearest());
        while hits != 0 {
            let region = top + hits.trailing_zeros() as usize;
            hits &= hits - 1;
            let children = regions.children(region);
            let mut hits = over(simd, place, groups, children.start, children.len(), sums.nearest());
            while hits != 0 {
                let group = children.start + hits.trailing_zeros() as usize;
                hits &= hits - 1;
                let children = groups.children(group);
                if children.start >= end {
                    visit_graded(simd, job, from, &chunk[..n], sums);
                    finish_graded(simd, job, from, sums);
                    return Walk { done: end, counted: end, visited: visited.min(shell.len), late: false };
                }
                if next_end <= children.start {
                    visit_graded(simd, job, from, &chunk[..n], sums);
                    finish_graded(simd, job, from, sums);
                    n = 0;
                    whole = (next_end, sums.totals());
                    while next_end <= children.start {
                        whole.0 = next_end;
                        next_end = ends.next().unwrap_or(usize::MAX);
                    }
                }
                let mut hits = over(simd, place, blocks, children.start, children.len(), sums.nearest());
                let late = visited > 0 && passed();
                while hits != 0 {
                    let block = children.start + hits.trailing_zeros() as usize;
                    hits &= hits - 1;
                    if block >= end || from.partial.weight(shell, block) == 0.0 {
                        continue;
                    }
                    if late || (visited > 0 && visited + LANES > limit) {
                        visit_graded(simd, job, from, &chunk[..n], sums);
                        finish_graded(simd, job, from, sums);
                        let counted = if whole.0 > 0 { whole.0 } else { block };
                        if whole.0 > 0 {
                            sums.set(whole.1);
                        }
                        return Walk { done: block, counted, visited, late };
                    }
                    if n == CHUNK {
                        visit_graded(simd, job, from, &chunk, sums);
                        n = 0;
                    }
                    chunk[n] = block as u32;
                    n += 1;
                    visited += LANES;
                }
                // Every visit may bring the nearest point closer and so spare others.
                if !sums.touched {
                    visit_graded(simd, job, from, &chunk[..n], sums);
                    n = 0;
                }
            }
        }
    }
    visit_graded(simd, job, from, &chunk[..n], sums);
    finish_graded(simd, job, from, sums);
    Walk { done: end, counted: end, visited: visited.min(shell.len), late: false }
}

/// How much of the shell a budget pays for.
pub(super) struct Plan {
    /// Points to grant: a prefix of the shell of which about `fits` points may touch; all of them where that is fewer.
    pub(super) granted: f64,
    /// Points that may touch, estimated where not all fit.
    pub(super) may_touch: usize,
}

/// Counts, level by level, the points in blocks that may touch, until `fits` is exceeded. Blocks that nearly may count
/// in part, so that the plan changes continuously with the pose.
pub(super) fn plan(simd: SimdLevel, place: &Place<'_>, shell: &PointShell, fits: f64) -> Plan {
    let mut levels = shell.levels.iter().map(|l| l.len);
    // The level being counted, the points that may touch before it and in it.
    let (mut start, mut end) = (0, levels.next().unwrap_or(shell.len));
    let (mut before, mut within) = (0.0, 0.0);
    soft_groups(simd, place, &shell.tree, |first, points| {
        while first * LANES >= end && end < shell.len {
            if before + within > fits {
                return false;
            }
            before += within;
            within = 0.0;
            start = end;
            end = levels.next().unwrap_or(shell.len);
        }
        within += points;
        true
    });
    let may_touch = before + within;
    if may_touch <= fits {
        return Plan { granted: shell.len as f64, may_touch: may_touch as usize };
    }
    let granted = start as f64 + (end - start) as f64 * (fits - before) / within;
    Plan {
        granted: granted.max(LANES as f64).min(shell.len as f64),
        may_touch: (may_touch * shell.len as f64 / end.max(1) as f64) as usize,
    }
}
