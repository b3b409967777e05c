//! Order of the points in memory: levels for graceful cuts, clusters within each for the caches and the tree.

use super::UNSORTED;
use super::clusters::{Clusters, bottom_up};
use super::nearest::bounds;
use crate::geometry::Point;
use crate::geometry::morton::morton;
use crate::geometry::simd::LANES;
use rayon::prelude::*;

/// A permutation that keeps every level together.
pub(super) struct Order(Vec<u32>);

impl Order {
    /// Sorts the points of each level (they end at `ends`) along a Morton curve, or by clusters; leaves the first ones alone.
    pub(super) fn new(places: &[Point], ends: &[usize], clusters: Clusters) -> Self {
        let codes: Vec<u32> = if clusters == Clusters::BottomUp {
            vec![]
        } else {
            let curve = Curve::through(places);
            places.iter().map(|p| curve.code(p)).collect()
        };
        let mut order: Vec<u32> = (0..places.len() as u32).collect();
        let mut start = UNSORTED.min(places.len());
        for &end in ends {
            if end > start {
                let level = &mut order[start..end];
                match clusters {
                    Clusters::Morton | Clusters::Mixed => level.sort_by_key(|&i| (codes[i as usize], i)),
                    Clusters::BottomUp => {
                        let sorted = bottom_up(&places[start..end]);
                        level.iter_mut().zip(sorted).for_each(|(to, i)| *to = start as u32 + i);
                    }
                }
                start = end;
            }
        }
        Self(order)
    }

    /// The first values, permuted; `values` must end where a level does.
    pub(super) fn apply<T: Copy>(&self, values: &[T]) -> Vec<T> {
        self.0[..values.len()].iter().map(|&i| values[i as usize]).collect()
    }
}

/// A Morton curve of 2^[`BITS`](Self::BITS) steps along the longest side of a box.
pub(super) struct Curve {
    /// Corner of the box, m.
    pub(super) low: Point,
    /// Steps per metre.
    pub(super) per_metre: f64,
}

impl Curve {
    pub(super) const BITS: u32 = 10;

    /// Through the box of some places.
    pub(super) fn through(places: &[Point]) -> Self {
        let (low, high) = bounds(places);
        let last = f64::from((1 << Self::BITS) - 1);
        Self { low, per_metre: last / (high - low).amax().max(1e-12) }
    }

    /// Where a place of the box lies along the curve.
    pub(super) fn code(&self, p: &Point) -> u32 {
        let cell = (p - self.low) * self.per_metre;
        morton([cell.x as u32, cell.y as u32, cell.z as u32]) as u32
    }
}

/// The items' indices in the order in which they stand along a Morton curve through their box.
pub(super) fn along_curve<T: Sync>(items: &[T], at: impl Fn(&T) -> Point + Sync) -> Vec<u32> {
    let places: Vec<Point> = items.par_iter().map(&at).collect();
    let curve = Curve::through(&places);
    // In one number with the index, which no other item has, so that any way of sorting gives the same order.
    let place = |(i, p): (usize, &Point)| u64::from(curve.code(p)) << 32 | i as u64;
    let mut keys: Vec<u64> = places.par_iter().enumerate().map(place).collect();
    keys.par_sort_unstable();
    keys.into_iter().map(|key| key as u32).collect()
}

/// Puts items in an order; `indices` go on naming the same ones.
pub(super) fn together<T: Copy + Send + Sync>(items: &mut Vec<T>, order: &[u32], indices: &mut [u32]) {
    let mut place = vec![0; order.len()];
    order.iter().zip(0..).for_each(|(&i, to)| place[i as usize] = to);
    indices.par_iter_mut().for_each(|i| *i = place[*i as usize]);
    *items = order.par_iter().map(|&i| items[i as usize]).collect();
}

/// Rank of each block within its level: by bit reversal (van der Corput), so that the blocks below any rank lie evenly
/// along the curve, or over the clusters. The first, unsorted blocks keep their order.
///
/// Of two halves of a cluster that was made bottom-up the first always lies at the same side. If that one
/// came first everywhere, the blocks below a rank would lie to that side of those they stand for; so with
/// [`Clusters::BottomUp`] every other pair comes the other way round (Gray code), which takes the error of a
/// part of a level to a half or a quarter.
pub(super) fn ranks(ends: &[usize], clusters: Clusters) -> Vec<u32> {
    let mut out = Vec::new();
    for &end in ends {
        let (start, end) = (out.len(), end.div_ceil(LANES));
        let mut blocks: Vec<u32> = (0..end.saturating_sub(start) as u32).collect();
        if start * LANES >= UNSORTED {
            blocks.sort_by_key(|&b| match clusters {
                Clusters::Morton | Clusters::Mixed => b.reverse_bits(),
                Clusters::BottomUp => (b ^ (b >> 1)).reverse_bits(),
            });
        }
        let mut rank = vec![0; blocks.len()];
        for (r, &block) in blocks.iter().enumerate() {
            rank[block as usize] = r as u32;
        }
        out.extend(rank);
    }
    out.shrink_to_fit();
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Vec3;

    #[test]
    fn items_brought_together_keep_their_names() {
        let items: Vec<Point> =
            (0..500).map(|i| Point::new(f64::from(i * 37 % 500), f64::from(i % 7), 0.0)).collect();
        let (mut moved, mut names) = (items.clone(), (0..500).rev().collect::<Vec<u32>>());
        let order = along_curve(&moved, |p| *p);
        together(&mut moved, &order, &mut names);
        assert!(names.iter().zip(items.iter().rev()).all(|(&n, p)| moved[n as usize] == *p));
        let way = |v: &[Point]| v.windows(2).map(|w| (w[1] - w[0]).norm()).sum::<f64>();
        assert!(way(&moved) < 0.1 * way(&items));
    }

    #[test]
    fn levels_stay_together_and_ranks_are_permutations() {
        let places: Vec<Point> = (0..400).map(|i| Point::new(f64::from(i * 37 % 400), 0.0, 1.0)).collect();
        let ends = [64, 112, 256, 400];
        let order = Order::new(&places, &ends, Clusters::Morton);
        let xs: Vec<f64> = order.apply(&places).iter().map(|p| p.x).collect();
        assert_eq!(xs[..64], places[..64].iter().map(|p| p.x).collect::<Vec<_>>());
        for level in ends.windows(2) {
            // Along one axis the curve is that axis.
            assert!(xs[level[0]..level[1]].is_sorted());
        }
        for clusters in [Clusters::Morton, Clusters::BottomUp] {
            let rank = ranks(&ends, clusters);
            assert_eq!(rank.len(), 25);
            assert_eq!(rank[..4], [0, 1, 2, 3]);
            let mut level = rank[7..16].to_vec();
            level.sort_unstable();
            assert_eq!(level, (0..9).collect::<Vec<_>>());
        }
    }

    /// Blocks of evenly spread points of a square stand for where all lie, however many of them are taken.
    #[test]
    fn the_blocks_below_a_rank_lie_about_the_middle_of_all() {
        let n: u32 = 16_384;
        let place = |i: f64| {
            Point::new((i * 0.754_877_666_246_692_7).fract(), (i * 0.569_840_290_998_053_3).fract(), 0.0)
        };
        let places: Vec<Point> = (0..n).map(|i| place(f64::from(i))).collect();
        let ends = [UNSORTED, places.len()];
        let sorted = Order::new(&places, &ends, Clusters::BottomUp).apply(&places);
        let first = UNSORTED / LANES;
        let mut by_rank = vec![Vec3::zeros(); places.len() / LANES - first];
        for (points, &rank) in sorted.chunks(LANES).zip(&ranks(&ends, Clusters::BottomUp)).skip(first) {
            by_rank[rank as usize] = points.iter().map(|p| p.coords).sum::<Vec3>() / LANES as f64;
        }
        let mut sum = Vec3::zeros();
        for (n, at) in (1..).zip(&by_rank) {
            sum += at;
            let off = (sum / f64::from(n) - Vec3::new(0.5, 0.5, 0.0)).amax();
            // Half a block's width; with the first halves first everywhere it would be two widths.
            assert!(n < 64 || off < 0.5 / 32.0, "{n} blocks: {off}");
        }
    }
}
