//! Clusters of sixteen from the points upwards (Sagardia et al. 2014, section 2.1.2).
//!
//! Greedy: the sixteen nearest of what is left about a seed are a cluster, and the nearest of the rest is the next seed. Of
//! what that leaves over between the clusters the last ones are put together from afar; [`repair`] mends them. The means of the
//! clusters are clustered in turn. Queries read sixteen points at once and count on whole clusters, so every cluster
//! has sixteen members but for the last one of each tier, and the repair keeps it so.

mod remaining;
mod repair;

use crate::geometry::Point;
use crate::geometry::simd::LANES;
use remaining::Remaining;

/// How the points are found that lie together in memory and in a ball.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Clusters {
    /// By an order that halves space: a Morton curve within each level, and a k-d tree over all points.
    #[default]
    Morton,
    /// The nearest sixteen, then the nearest sixteen of these clusters, and so on, with outliers repaired. The smallest balls; but sixteen
    /// points of a level close together stand for less of the tool than sixteen along a curve, so that a level granted in
    /// part errs and leaps more, and [segments](super::Segments) lie less apart.
    BottomUp,
    /// Bottom-up over all points, a Morton curve within the levels.
    Mixed,
}

/// Blocks, groups and regions: what the tree of balls has.
const TIERS: usize = 3;

/// An order of the points in which each 16, each 256 and each 4096 in a row are a cluster. Halves of these lie together too.
/// Deterministic.
pub(super) fn bottom_up(points: &[Point]) -> Vec<u32> {
    let mut means = vec![points.to_vec()];
    let mut tiers: Vec<Vec<u32>> = Vec::new();
    while let Some(items) = means.last().filter(|m| m.len() > LANES && tiers.len() < TIERS) {
        let tier = clustered(items, !tiers.is_empty(), true);
        means.push(tier.chunks(LANES).map(|c| mean(items, c)).collect());
        tiers.push(tier);
    }
    let top = means.last().map_or(&[][..], |m| m);
    let mut order: Vec<u32> = (0..top.len() as u32).collect();
    arrange(top, &mut order, true);
    // From the top down, each cluster is replaced by its members.
    for (tier, items) in tiers.iter().zip(&means).rev() {
        let last = tier.len().div_ceil(LANES) - 1;
        order = order
            .iter()
            .flat_map(|&cluster| {
                let first = cluster as usize * LANES;
                let mut members = tier[first..tier.len().min(first + LANES)].to_vec();
                arrange(items, &mut members, cluster as usize == last);
                members
            })
            .collect();
    }
    order
}

/// Where the middle of some items is.
fn mean(items: &[Point], members: &[u32]) -> Point {
    let sum = members.iter().fold(Point::origin(), |s, &i| s + items[i as usize].coords);
    sum / members.len().max(1) as f64
}

/// The items, those of a cluster together: all have sixteen but for the last, which has what is over. The last item stays last
/// if it is not whole itself.
fn clustered(items: &[Point], last_is_short: bool, repaired: bool) -> Vec<u32> {
    let tree = Remaining::new(items);
    let short = last_is_short.then(|| items.len() as u32 - 1);
    let mut clusters = greedy(items, tree.clone(), short);
    if repaired {
        repair::repair(items, &tree, &mut clusters, short);
    }
    clusters.rotate_left(1);
    if let Some(last) = clusters.last_mut() {
        // False before true, else as they stand.
        last.sort_by_key(|&i| Some(i) == short);
    }
    clusters.concat()
}

/// Clusters of sixteen; the first has what is left over, and holds `short`.
fn greedy(items: &[Point], mut rest: Remaining<'_>, short: Option<u32>) -> Vec<Vec<u32>> {
    let mut clusters: Vec<Vec<u32>> = Vec::with_capacity(items.len().div_ceil(LANES));
    let centre = mean(items, &(0..items.len() as u32).collect::<Vec<_>>());
    // Begun at the border there is less to leave behind than in the middle.
    let outermost = (0..items.len() as u32)
        .max_by(|&a, &b| {
            let far = |i: u32| (items[i as usize] - centre).norm_squared();
            far(a).total_cmp(&far(b))
        })
        .unwrap_or(0);
    let mut seed = Some(short.unwrap_or(outermost));
    let mut size = (items.len() - 1) % LANES + 1;
    while let Some(from) = seed {
        let near = rest.nearest(&items[from as usize], size + 1);
        seed = near.get(size).copied();
        let members = near[..size.min(near.len())].to_vec();
        members.iter().for_each(|&i| rest.remove(i));
        clusters.push(members);
        size = LANES;
    }
    clusters
}

/// Sorts so that halves lie together, halves of halves too; `fixed` keeps the last where it is.
fn arrange(items: &[Point], members: &mut [u32], fixed: bool) {
    let Some((&last, free)) = members.split_last().filter(|m| m.1.len() >= if fixed { 2 } else { 1 }) else {
        return;
    };
    let at = |i: &u32| items[*i as usize];
    let (low, high) = free.iter().fold((at(&last), at(&last)), |(l, h), i| (l.inf(&at(i)), h.sup(&at(i))));
    let axis = (high - low).imax();
    // The last one belongs to the second half.
    let down = fixed && at(&last)[axis] < 0.5 * (low[axis] + high[axis]);
    let left = members.len().div_ceil(2);
    let free = members.len() - usize::from(fixed);
    if left < free {
        members[..free].select_nth_unstable_by(left, |a, b| {
            let along = at(a)[axis].total_cmp(&at(b)[axis]);
            (if down { along.reverse() } else { along }).then(a.cmp(b))
        });
    }
    let (a, b) = members.split_at_mut(left);
    arrange(items, a, false);
    arrange(items, b, fixed);
}

#[cfg(test)]
mod tests;
