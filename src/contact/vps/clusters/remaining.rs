//! A k-d tree from which items are taken away: the nearest of those that remain.

use crate::geometry::Point;

/// Items that a leaf has at most.
const LEAF: usize = 8;

/// Items, halved along their longest side down to a few; the halves of node `i` are `2 i` and `2 i + 1`, the whole is 1.
#[derive(Clone)]
pub(super) struct Remaining<'a> {
    items: &'a [Point],
    nodes: Vec<Node>,
    /// Indices of the items, leaf after leaf.
    order: Vec<u32>,
    /// Leaf of each item, and whether it is still there.
    leaf: Vec<u32>,
    there: Vec<bool>,
}

#[derive(Clone, Copy)]
struct Node {
    low: Point,
    high: Point,
    start: u32,
    end: u32,
    remaining: u32,
}

/// The nearest ones so far, nearest first.
struct Best {
    found: Vec<(f64, u32)>,
    wanted: usize,
}

impl<'a> Remaining<'a> {
    pub(super) fn new(items: &'a [Point]) -> Self {
        let leaves = items.len().div_ceil(LEAF).next_power_of_two();
        let none = Node { low: Point::origin(), high: Point::origin(), start: 0, end: 0, remaining: 0 };
        let mut tree = Self {
            items,
            nodes: vec![none; 2 * leaves],
            order: (0..items.len() as u32).collect(),
            leaf: vec![0; items.len()],
            there: vec![true; items.len()],
        };
        tree.split(1, 0, items.len());
        tree
    }

    fn split(&mut self, node: usize, start: usize, end: usize) {
        let items = self.items;
        let of = &mut self.order[start..end];
        let Some(first) = of.first().map(|&i| items[i as usize]) else { return };
        let (low, high) = of.iter().fold((first, first), |(l, h), &i| {
            let p = &items[i as usize];
            (l.inf(p), h.sup(p))
        });
        let remaining = of.len() as u32;
        self.nodes[node] = Node { low, high, start: start as u32, end: end as u32, remaining };
        if 2 * node >= self.nodes.len() {
            for &i in &*of {
                self.leaf[i as usize] = node as u32;
            }
            return;
        }
        let axis = (high - low).imax();
        let half = of.len() / 2;
        of.select_nth_unstable_by(half, |&a, &b| {
            items[a as usize][axis].total_cmp(&items[b as usize][axis]).then(a.cmp(&b))
        });
        self.split(2 * node, start, start + half);
        self.split(2 * node + 1, start + half, end);
    }

    /// Takes an item away.
    pub(super) fn remove(&mut self, item: u32) {
        if std::mem::replace(&mut self.there[item as usize], false) {
            let mut node = self.leaf[item as usize] as usize;
            while node > 0 {
                self.nodes[node].remaining -= 1;
                node /= 2;
            }
        }
    }

    /// The `wanted` nearest to `p` of those that remain, nearest first; of equally near ones those of lower index.
    pub(super) fn nearest(&self, p: &Point, wanted: usize) -> Vec<u32> {
        let mut best = Best { found: Vec::with_capacity(wanted + 1), wanted };
        if wanted > 0 {
            self.search(1, p, &mut best);
        }
        best.found.into_iter().map(|(_, i)| i).collect()
    }

    fn search(&self, node: usize, p: &Point, best: &mut Best) {
        let Node { start, end, .. } = self.nodes[node];
        if 2 * node >= self.nodes.len() {
            for &i in &self.order[start as usize..end as usize] {
                if self.there[i as usize] {
                    best.take(((self.items[i as usize] - p).norm_squared(), i));
                }
            }
            return;
        }
        let away = [2 * node, 2 * node + 1].map(|child| self.nodes[child].away(p));
        let nearer = usize::from(away[1] < away[0]);
        for side in [nearer, 1 - nearer] {
            let child = 2 * node + side;
            if self.nodes[child].remaining > 0 && away[side] <= best.reach() {
                self.search(child, p, best);
            }
        }
    }
}

impl Node {
    /// Squared distance to its box.
    fn away(&self, p: &Point) -> f64 {
        (p - p.sup(&self.low).inf(&self.high)).norm_squared()
    }
}

impl Best {
    /// Nothing farther is wanted (squared).
    fn reach(&self) -> f64 {
        if self.found.len() < self.wanted { f64::INFINITY } else { self.found[self.wanted - 1].0 }
    }

    fn take(&mut self, item: (f64, u32)) {
        let before = self.found.partition_point(|f| f.0.total_cmp(&item.0).then(f.1.cmp(&item.1)).is_lt());
        if before < self.wanted {
            self.found.insert(before, item);
            self.found.truncate(self.wanted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_are_those_that_sorting_finds() {
        // A lattice has many equal distances.
        let lattice = |i: i32| Point::new(f64::from(i % 7), f64::from(i / 7 % 7), f64::from(i / 49));
        for n in [1, 8, 9, 100, 343] {
            let items: Vec<Point> = (0..n).map(lattice).collect();
            let mut tree = Remaining::new(&items);
            let mut left: Vec<u32> = (0..n as u32).collect();
            for k in 0..n as usize {
                let p = items[k * 31 % n as usize] + nalgebra::Vector3::new(0.2, 0.0, 0.1 * (k % 3) as f64);
                left.sort_by(|&a, &b| {
                    let d = |i: u32| (items[i as usize] - p).norm_squared();
                    d(a).total_cmp(&d(b)).then(a.cmp(&b))
                });
                assert_eq!(tree.nearest(&p, 17), left[..left.len().min(17)]);
                let gone = left.remove(k * 17 % left.len());
                tree.remove(gone);
                tree.remove(gone);
            }
            assert!(tree.nearest(&items[0], 3).is_empty());
        }
    }
}
