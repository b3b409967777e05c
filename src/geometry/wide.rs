//! Grouping of items into a 16-ary tree with leaves of up to 16 items, the shape that one SIMD test per node wants.
//!
//! Both the closest-point tree and the winding-number tree are built over it. Splits are medians along the longest
//! side of the centroids' box, at multiples of whole leaves, so that all leaves but one are full and bottom nodes too.
//! The result depends on the input alone, not on the number of threads.

pub(crate) use super::lanes::LANES;
use rayon::prelude::*;

/// No child in this lane.
pub(crate) const NONE: u32 = u32::MAX;
/// Marks a child that is a leaf; the rest of the bits is its index.
pub(crate) const LEAF: u32 = 1 << 31;
/// Largest stack that a depth-first traversal can need: 16 entries a level, and a level for each factor of 8 in 2^31.
pub(crate) const STACK: usize = LANES * 12;

/// A node: children in lanes `0..`, then [`NONE`].
pub(crate) struct Node {
    /// Node index, `LEAF | leaf index`, or [`NONE`].
    pub(crate) child: [u32; LANES],
    /// First item and number of items below each child, as positions in [`Tree::order`].
    pub(crate) range: [(u32, u32); LANES],
}

/// The tree. Node 0 is the root; there is none when there are no items.
pub(crate) struct Tree {
    /// Items in leaf order.
    pub(crate) order: Vec<u32>,
    /// Inner nodes, parents before children.
    pub(crate) nodes: Vec<Node>,
    /// First position and number of items of each leaf.
    pub(crate) leaves: Vec<(u32, u32)>,
}

/// Asked now and then during a build; true stops it.
pub(crate) type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

struct Sub {
    start: u32,
    len: u32,
    children: Vec<Sub>,
}

/// Groups items by their centroids; `None` when stopped.
pub(crate) fn group(centroids: &[[f64; 3]], stop: Stop) -> Option<Tree> {
    let count = u32::try_from(centroids.len()).unwrap_or(u32::MAX).min(LEAF - 1);
    let mut order: Vec<u32> = (0..count).collect();
    let mut tree = Tree { order: Vec::new(), nodes: Vec::new(), leaves: Vec::new() };
    if count > 0 {
        let top = divide(&mut order, 0, centroids, stop)?;
        if top.children.is_empty() {
            place_node(&mut tree, std::slice::from_ref(&top));
        } else {
            place_node(&mut tree, &top.children);
        }
    }
    tree.order = order;
    Some(tree)
}

fn divide(items: &mut [u32], start: u32, centroids: &[[f64; 3]], stop: Stop) -> Option<Sub> {
    let len = items.len();
    let leaves = len.div_ceil(LANES);
    let whole = Sub { start, len: len as u32, children: Vec::new() };
    if leaves <= 1 {
        return Some(whole);
    }
    // Parts hold whole multiples of `grain` leaves: full bottom nodes above them, full leaves below.
    let mut grain = if leaves <= LANES { 1 } else { LANES };
    while grain >= LANES && leaves / (grain * LANES) >= LANES / 2 {
        grain *= LANES;
    }
    let unit = grain * LANES;
    let mut parts: Vec<(u32, &mut [u32])> = vec![(start, items)];
    while parts.len() < LANES {
        let Some(at) = (0..parts.len()).rev().max_by_key(|&i| parts[i].1.len()) else { break };
        let units = parts[at].1.len().div_ceil(unit);
        if units <= 1 {
            break;
        }
        if stop() {
            return None;
        }
        let (first, part) = parts.remove(at);
        let cut = (units / 2) * unit;
        let axis = longest_axis(part, centroids);
        part.select_nth_unstable_by(cut, |&a, &b| {
            let (x, y) = (centroids[a as usize][axis], centroids[b as usize][axis]);
            x.total_cmp(&y).then(a.cmp(&b))
        });
        let (left, right) = part.split_at_mut(cut);
        parts.insert(at, (first + cut as u32, right));
        parts.insert(at, (first, left));
    }
    let recurse = |(first, part): (u32, &mut [u32])| divide(part, first, centroids, stop);
    let children = if len > 2048 {
        parts.into_par_iter().map(recurse).collect::<Option<Vec<_>>>()?
    } else {
        parts.into_iter().map(recurse).collect::<Option<Vec<_>>>()?
    };
    Some(Sub { children, ..whole })
}

fn longest_axis(items: &[u32], centroids: &[[f64; 3]]) -> usize {
    let (mut lo, mut hi) = ([f64::INFINITY; 3], [f64::NEG_INFINITY; 3]);
    for &i in items {
        for (a, c) in centroids[i as usize].iter().enumerate() {
            lo[a] = lo[a].min(*c);
            hi[a] = hi[a].max(*c);
        }
    }
    let side = |a: usize| hi[a] - lo[a];
    let longest = if side(1) > side(0) { 1 } else { 0 };
    if side(2) > side(longest) { 2 } else { longest }
}

fn place_node(tree: &mut Tree, children: &[Sub]) -> u32 {
    let at = tree.nodes.len();
    tree.nodes.push(Node { child: [NONE; LANES], range: [(0, 0); LANES] });
    for (lane, sub) in children.iter().enumerate() {
        let child = if sub.children.is_empty() {
            tree.leaves.push((sub.start, sub.len));
            LEAF | (tree.leaves.len() - 1) as u32
        } else {
            place_node(tree, &sub.children)
        };
        tree.nodes[at].child[lane] = child;
        tree.nodes[at].range[lane] = (sub.start, sub.len);
    }
    at as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cloud(n: usize) -> Vec<[f64; 3]> {
        let mut s = 1u64;
        let mut next = || {
            s = s.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (s >> 11) as f64 / (1u64 << 53) as f64
        };
        (0..n).map(|_| [next(), next(), next()]).collect()
    }

    #[test]
    fn every_item_stands_in_exactly_one_leaf_and_ranges_nest() {
        for n in [0, 1, 15, 16, 17, 255, 256, 257, 4095, 4097, 33_333] {
            let tree = group(&cloud(n), &|| false).unwrap();
            let mut seen = tree.order.clone();
            seen.sort_unstable();
            assert!(seen.iter().copied().eq(0..n as u32), "{n}: not a permutation");
            let held: u32 = tree.leaves.iter().map(|l| l.1).sum();
            assert_eq!(held as usize, n);
            assert!(tree.leaves.iter().all(|l| l.1 >= 1 && l.1 as usize <= LANES));
            for node in &tree.nodes {
                for (lane, &c) in node.child.iter().enumerate().filter(|(_, c)| **c != NONE) {
                    let below = if c & LEAF != 0 {
                        tree.leaves[(c ^ LEAF) as usize]
                    } else {
                        let sub = &tree.nodes[c as usize];
                        let used = sub.child.iter().filter(|c| **c != NONE).count();
                        (sub.range[0].0, sub.range[..used].iter().map(|r| r.1).sum())
                    };
                    assert_eq!(node.range[lane], below);
                }
            }
        }
    }

    #[test]
    fn leaves_are_full_and_the_tree_is_shallow() {
        let tree = group(&cloud(70_000), &|| false).unwrap();
        assert_eq!(tree.leaves.len(), 70_000usize.div_ceil(LANES));
        assert!(tree.nodes.len() < 2 * tree.leaves.len() / LANES, "{} nodes", tree.nodes.len());
        fn depth(tree: &Tree, at: u32) -> usize {
            let inner = tree.nodes[at as usize].child.iter().filter(|c| **c & LEAF == 0);
            1 + inner.map(|c| depth(tree, *c)).max().unwrap_or(0)
        }
        assert!(depth(&tree, 0) <= 5, "depth {}", depth(&tree, 0));
    }

    #[test]
    fn equal_centroids_do_not_matter_and_stopping_works() {
        let same = vec![[1.0; 3]; 5000];
        assert_eq!(group(&same, &|| false).unwrap().order.len(), 5000);
        assert!(group(&same, &|| true).is_none());
    }
}
