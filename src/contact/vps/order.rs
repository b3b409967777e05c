//! Order of the points in memory: levels for graceful cuts, a space-filling curve within each for the caches.

use super::UNSORTED;
use crate::geometry::Point;
use crate::geometry::morton::morton;
use crate::geometry::simd::LANES;

/// A permutation that keeps every level together.
pub(super) struct Order(Vec<u32>);

impl Order {
    /// Sorts the points of each level (they end at `ends`) along a Morton curve; leaves the first ones alone.
    pub(super) fn new(places: &[Point], ends: &[usize]) -> Self {
        let codes = codes(places);
        let mut order: Vec<u32> = (0..places.len() as u32).collect();
        let mut start = UNSORTED.min(places.len());
        for &end in ends {
            if end > start {
                order[start..end].sort_by_key(|&i| (codes[i as usize], i));
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

/// Places along a Morton curve through the points' box.
fn codes(places: &[Point]) -> Vec<u64> {
    let first = places.first().copied().unwrap_or_default();
    let (low, high) = places.iter().fold((first, first), |(l, h), p| (l.inf(p), h.sup(p)));
    let per_metre = 1023.0 / (high - low).amax().max(1e-12);
    let code = |p: &Point| {
        let cell = (p - low) * per_metre;
        morton([cell.x as u32, cell.y as u32, cell.z as u32])
    };
    places.iter().map(code).collect()
}

/// Brings items that are neighbours together in memory; `indices` go on naming the same ones.
pub(super) fn together<T: Copy>(items: &mut Vec<T>, at: impl Fn(&T) -> Point, indices: &mut [u32]) {
    let codes = codes(&items.iter().map(at).collect::<Vec<_>>());
    let mut order: Vec<u32> = (0..items.len() as u32).collect();
    order.sort_unstable_by_key(|&i| (codes[i as usize], i));
    let mut place = vec![0; order.len()];
    order.iter().zip(0..).for_each(|(&i, to)| place[i as usize] = to);
    indices.iter_mut().for_each(|i| *i = place[*i as usize]);
    *items = order.iter().map(|&i| items[i as usize]).collect();
}

/// Rank of each block within its level: by bit reversal (van der Corput), so that the blocks below any rank lie evenly
/// along the curve. The first, unsorted blocks keep their order.
pub(super) fn ranks(ends: &[usize]) -> Vec<u32> {
    let mut out = Vec::new();
    for &end in ends {
        let (start, end) = (out.len(), end.div_ceil(LANES));
        let mut blocks: Vec<u32> = (0..end.saturating_sub(start) as u32).collect();
        if start * LANES >= UNSORTED {
            blocks.sort_by_key(|b| b.reverse_bits());
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

    #[test]
    fn items_brought_together_keep_their_names() {
        let items: Vec<Point> =
            (0..500).map(|i| Point::new(f64::from(i * 37 % 500), f64::from(i % 7), 0.0)).collect();
        let (mut moved, mut names) = (items.clone(), (0..500).rev().collect::<Vec<u32>>());
        together(&mut moved, |p| *p, &mut names);
        assert!(names.iter().zip(items.iter().rev()).all(|(&n, p)| moved[n as usize] == *p));
        let way = |v: &[Point]| v.windows(2).map(|w| (w[1] - w[0]).norm()).sum::<f64>();
        assert!(way(&moved) < 0.1 * way(&items));
    }

    #[test]
    fn levels_stay_together_and_ranks_are_permutations() {
        let places: Vec<Point> = (0..400).map(|i| Point::new(f64::from(i * 37 % 400), 0.0, 1.0)).collect();
        let ends = [64, 112, 256, 400];
        let order = Order::new(&places, &ends);
        let xs: Vec<f64> = order.apply(&places).iter().map(|p| p.x).collect();
        assert_eq!(xs[..64], places[..64].iter().map(|p| p.x).collect::<Vec<_>>());
        for level in ends.windows(2) {
            // Along one axis the curve is that axis.
            assert!(xs[level[0]..level[1]].is_sorted());
        }
        let rank = ranks(&ends);
        assert_eq!(rank.len(), 25);
        assert_eq!(rank[..4], [0, 1, 2, 3]);
        let mut level = rank[7..16].to_vec();
        level.sort_unstable();
        assert_eq!(level, (0..9).collect::<Vec<_>>());
    }
}
