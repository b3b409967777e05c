//! Mending what greedy clusters have left over: members that lie far from the rest of their cluster.
//!
//! As in the paper, the member that lies farther from the mean than it should is taken out, the mean is computed
//! anew, and so on. What a cluster should reach is not one threshold for all, but how far the sixteenth nearest item is from its
//! middle one: a shell need not be equally dense. The paper then gives each outlier to the nearest cluster, or makes it one; here
//! clusters keep their size, so an outlier enters the nearest cluster, that one passes on the member that lies best in the
//! next, and so on until the nearest cluster with a gap is reached. At last neighbours exchange members as long as that
//! lowers the sum of the squared distances to the means (k-means at fixed sizes).

use super::mean;
use super::remaining::Remaining;
use crate::geometry::Point;
use crate::geometry::simd::LANES;
use std::collections::VecDeque;

/// Times the distance to the sixteenth neighbour at which a member is an outlier: clusters twice as long as wide pass.
const FAR: f64 = 1.5;
/// Clusters that count as neighbours of one.
const NEIGHBOURS: usize = 12;
/// Rounds of exchanges; each does a third of the one before or less, and most have no more to do after seven.
const ROUNDS: usize = 12;

/// Mends the clusters; each keeps its number of members. `fixed` stays where it is.
pub(super) fn repair(items: &[Point], all: &Remaining<'_>, clusters: &mut [Vec<u32>], fixed: Option<u32>) {
    let mut work = Work { items, fixed, centre: clusters.iter().map(|c| mean(items, c)).collect(), clusters };
    work.refill(all);
    for _ in 0..ROUNDS {
        if work.exchange() == 0 {
            break;
        }
    }
}

struct Work<'a> {
    items: &'a [Point],
    fixed: Option<u32>,
    clusters: &'a mut [Vec<u32>],
    /// Mean of each cluster's members.
    centre: Vec<Point>,
}

impl Work<'_> {
    fn apart(&self, item: u32, cluster: usize) -> f64 {
        (self.items[item as usize] - self.centre[cluster]).norm_squared()
    }

    /// Of a cluster's members that may leave it, the one with the largest value: its place and that value.
    fn largest(&self, cluster: usize, value: impl Fn(u32) -> f64) -> Option<(usize, f64)> {
        let may = self.clusters[cluster].iter().enumerate().filter(|m| Some(*m.1) != self.fixed);
        may.map(|(place, &i)| (place, value(i))).max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Takes outliers out; returns them.
    fn outliers(&mut self, all: &Remaining<'_>) -> Vec<u32> {
        let mut out = Vec::new();
        for cluster in 0..self.clusters.len() {
            while self.clusters[cluster].len() > 1 {
                let Some((place, far)) = self.largest(cluster, |i| self.apart(i, cluster)) else { break };
                // The nearest item to the mean stands for the cluster.
                let near = |&&i: &&u32| self.apart(i, cluster);
                let members = &self.clusters[cluster];
                let parent = members.iter().min_by(|a, b| near(a).total_cmp(&near(b)));
                let Some(parent) = parent.map(|&i| &self.items[i as usize]) else { break };
                let sixteenth = all.nearest(parent, LANES).pop();
                let reach = sixteenth.map_or(0.0, |i| (self.items[i as usize] - parent).norm_squared());
                if far <= FAR * FAR * reach {
                    break;
                }
                out.push(self.clusters[cluster].remove(place));
                self.centre[cluster] = mean(self.items, &self.clusters[cluster]);
            }
        }
        out
    }

    /// Gives the outliers to the clusters about them.
    fn refill(&mut self, all: &Remaining<'_>) {
        let sizes: Vec<usize> = self.clusters.iter().map(Vec::len).collect();
        let out = self.outliers(all);
        let at = self.centre.clone();
        let tree = Remaining::new(&at);
        let beside: Vec<Vec<u32>> = if out.is_empty() {
            vec![]
        } else {
            at.iter().map(|c| tree.nearest(c, NEIGHBOURS + 1)).collect()
        };
        // Which search came to a cluster last, and from where.
        let mut came = vec![(u32::MAX, u32::MAX); at.len()];
        for (search, &item) in (0..).zip(&out) {
            let Some(&start) = tree.nearest(&self.items[item as usize], 1).first() else { return };
            came[start as usize] = (search, u32::MAX);
            let mut queue = VecDeque::from([start]);
            let mut gap = None;
            while let Some(cluster) = queue.pop_front() {
                if self.clusters[cluster as usize].len() < sizes[cluster as usize] {
                    gap = Some(cluster);
                    break;
                }
                // One that has nothing to pass on leads nowhere.
                if self.largest(cluster as usize, |_| 0.0).is_none() {
                    continue;
                }
                for &next in &beside[cluster as usize] {
                    if came[next as usize].0 != search {
                        came[next as usize] = (search, cluster);
                        queue.push_back(next);
                    }
                }
            }
            // Where no way leads there (bodies apart), straight into the nearest gap.
            let Some(mut to) = gap.or_else(|| self.nearest_gap(item, &sizes)) else { return };
            while let Some(from) = gap.and(Some(came[to as usize].1)).filter(|&f| f != u32::MAX) {
                self.pass_on(from as usize, to as usize);
                to = from;
            }
            self.clusters[to as usize].push(item);
            self.centre[to as usize] = mean(self.items, &self.clusters[to as usize]);
        }
    }

    fn nearest_gap(&self, item: u32, sizes: &[usize]) -> Option<u32> {
        let gaps = (0..sizes.len()).filter(|&c| self.clusters[c].len() < sizes[c]);
        gaps.min_by(|&a, &b| self.apart(item, a).total_cmp(&self.apart(item, b))).map(|c| c as u32)
    }

    /// Moves the member that lies best there.
    fn pass_on(&mut self, from: usize, to: usize) {
        let Some((place, _)) = self.largest(from, |i| self.apart(i, from) - self.apart(i, to)) else {
            return;
        };
        let item = self.clusters[from].remove(place);
        self.clusters[to].push(item);
        for c in [from, to] {
            self.centre[c] = mean(self.items, &self.clusters[c]);
        }
    }

    /// One round of exchanges between neighbours; returns how many there were.
    fn exchange(&mut self) -> usize {
        let at = self.centre.clone();
        let tree = Remaining::new(&at);
        let mut done = 0;
        for a in 0..at.len() {
            let beside = tree.nearest(&at[a], NEIGHBOURS + 1);
            for place in 0..self.clusters[a].len() {
                let item = self.clusters[a][place];
                if Some(item) == self.fixed {
                    continue;
                }
                let own = self.apart(item, a);
                let mut best = (1e-9 * own, None);
                for b in beside.iter().map(|&b| b as usize).filter(|&b| b != a) {
                    let gain = own - self.apart(item, b);
                    if gain <= 0.0 {
                        continue;
                    }
                    if let Some((other, more)) = self.largest(b, |i| self.apart(i, b) - self.apart(i, a))
                        && gain + more > best.0
                    {
                        best = (gain + more, Some((b, other)));
                    }
                }
                if let Some((b, other)) = best.1 {
                    self.clusters[a][place] = std::mem::replace(&mut self.clusters[b][other], item);
                    for c in [a, b] {
                        self.centre[c] = mean(self.items, &self.clusters[c]);
                    }
                    done += 1;
                }
            }
        }
        done
    }
}
