//! Building the hierarchy top down, in parallel below the first levels, with the same result every time.

use super::{CellColumns, EMPTY, FULL, LEAF, Node, WIDTH, gas, steps_log};
use crate::contact::ist::packing::Packing;
use crate::contact::ist::parts::Part;
use crate::geometry::field::Field;
use crate::geometry::simd::LANES;
use crate::geometry::{Point, Vec3};
use rayon::prelude::*;

/// How a set of spheres is divided among the children of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Split {
    /// Batch neural gas, with the median where it leaves a cluster empty or takes over three quarters.
    #[default]
    NeuralGas,
    /// Medians along the longest side of the box.
    Median,
}

/// Most cells of a group.
pub const GROUP: usize = 32;

/// Below so many cells a subtree is built on the caller's thread.
const PARALLEL: usize = 16_384;

/// A subtree with indices of its own.
#[derive(Default)]
struct Sub {
    nodes: Vec<Node>,
    /// Parts in order.
    cells: Vec<u32>,
}

/// What the recursion reads.
struct Input<'a> {
    packing: &'a Packing,
    parts: &'a [Part],
    field: &'a Field,
    split: Split,
    /// Steps of a cell in which positions are stored.
    steps: f32,
}

/// Builds nodes (the root first) and cells. Deterministic whatever the number of threads.
pub(crate) fn build(
    packing: &Packing,
    parts: &[Part],
    field: &Field,
    split: Split,
) -> (Vec<Node>, CellColumns) {
    let log = steps_log(field.dims.into_iter().max().unwrap_or(1));
    let input = Input { packing, parts, field, split, steps: (1u32 << log) as f32 };
    let mut ids: Vec<u32> = (0..packing.spheres.len() as u32).collect();
    let sub = input.spheres(&mut ids);
    let cells = CellColumns { steps_log: log, ..input.columns(&sub.cells) };
    let mut nodes = sub.nodes;
    nodes.shrink_to_fit();
    (nodes, cells)
}

impl Input<'_> {
    fn cells_of(&self, id: u32) -> &[u32] {
        let starts = &self.packing.starts;
        &self.packing.order[starts[id as usize] as usize..starts[id as usize + 1] as usize]
    }

    /// The subtree over a set of spheres, with at least one node.
    fn spheres(&self, ids: &mut [u32]) -> Sub {
        if let [one] = *ids {
            return self.pieces(&mut self.cells_of(one).to_vec());
        }
        let sizes = self.divide(ids);
        let total: usize = ids.iter().map(|&i| self.cells_of(i).len()).sum();
        let mut parts = Vec::with_capacity(WIDTH);
        let mut rest = ids;
        for len in sizes {
            let (head, tail) = rest.split_at_mut(len);
            parts.push(head);
            rest = tail;
        }
        let below = |part: &mut [u32]| {
            let count: usize = part.iter().map(|&i| self.cells_of(i).len()).sum();
            if count <= GROUP {
                let cells = part.iter().flat_map(|&i| self.cells_of(i)).copied().collect();
                return Sub { nodes: Vec::new(), cells };
            }
            self.spheres(part)
        };
        self.join(if total > PARALLEL {
            parts.into_par_iter().map(below).collect()
        } else {
            parts.into_iter().map(below).collect()
        })
    }

    /// The subtree over the cells of one large sphere.
    fn pieces(&self, cells: &mut [u32]) -> Sub {
        let sizes = quarters(cells, &|i| self.position(i));
        let mut below = Vec::with_capacity(WIDTH);
        let mut rest = cells;
        for len in sizes {
            let (head, tail) = rest.split_at_mut(len);
            below.push(if len <= GROUP {
                Sub { nodes: Vec::new(), cells: head.to_vec() }
            } else {
                self.pieces(head)
            });
            rest = tail;
        }
        self.join(below)
    }

    /// One node over its children's subtrees.
    fn join(&self, below: Vec<Sub>) -> Sub {
        let mut node = Node::EMPTY;
        let mut out = Sub { nodes: vec![Node::EMPTY], cells: Vec::new() };
        for (i, sub) in below.into_iter().enumerate() {
            if sub.cells.is_empty() {
                continue;
            }
            self.describe(&mut node, i, &sub.cells);
            let first = out.cells.len() as u32;
            if sub.nodes.is_empty() {
                node.child[i] = LEAF | first;
                node.cells[i] = sub.cells.len() as u32;
            } else {
                let root = out.nodes.len() as u32;
                node.child[i] = root;
                out.nodes.extend(sub.nodes.into_iter().map(|n| shifted(n, root, first)));
            }
            out.cells.extend(sub.cells);
        }
        out.nodes[0] = node;
        out
    }

    /// Reorders spheres into up to four groups and returns their sizes.
    fn divide(&self, ids: &mut [u32]) -> [usize; WIDTH] {
        let n = ids.len();
        if n <= WIDTH {
            return std::array::from_fn(|i| usize::from(i < n));
        }
        let place = |i: u32| Point::from(self.packing.spheres[i as usize].centroid.map(f64::from));
        if self.split == Split::NeuralGas {
            let weight = |i: u32| f64::from(self.packing.spheres[i as usize].secondary).powi(3);
            let data: Vec<(Point, f64)> = ids.iter().map(|&i| (place(i), weight(i))).collect();
            let of = gas::clusters(&data);
            let mut sizes = [0; WIDTH];
            of.iter().for_each(|&c| sizes[c as usize] += 1);
            let largest = sizes.iter().copied().max().unwrap_or(n);
            if sizes.iter().all(|s| *s > 0) && largest * 4 <= n * 3 {
                let mut tagged: Vec<(u8, u32)> = of.into_iter().zip(ids.iter().copied()).collect();
                tagged.sort_by_key(|(c, _)| *c);
                ids.iter_mut().zip(tagged).for_each(|(s, (_, t))| *s = t);
                return sizes;
            }
        }
        quarters(ids, &place)
    }

    /// Centroid of a cell's solid part, tool frame, m.
    fn position(&self, part: u32) -> Point {
        let p = &self.parts[part as usize];
        let node = p.place(self.field);
        self.field.origin
            + self.field.cell * Vec3::from_fn(|a, _| f64::from(node[a]) + f64::from(self.stored(p.offset[a])))
    }

    /// An offset as it is stored: a whole number of steps, never on the cube's face, so that rounding gives the cube back.
    fn stored(&self, offset: f32) -> f32 {
        let half = self.steps / 2.0;
        (offset * self.steps).round().clamp(1.0 - half, half - 1.0) / self.steps
    }

    /// Fills child slot `i` with the summary of `cells`.
    fn describe(&self, node: &mut Node, i: usize, cells: &[u32]) {
        let cell = self.field.cell;
        let volume = |c: u32| f64::from(self.parts[c as usize].fraction) * cell.powi(3);
        let total: f64 = cells.iter().map(|&c| volume(c)).sum();
        let first = self.position(cells[0]);
        let moment: Vec3 = cells.iter().map(|&c| (self.position(c) - first) * volume(c)).sum();
        let middle = first + moment / total.max(f64::MIN_POSITIVE);
        let rounded = [middle.x as f32, middle.y as f32, middle.z as f32];
        let centre = Point::from(rounded.map(f64::from));
        let (mut reach, mut second) = (0.0f64, 0.0);
        for &c in cells {
            let part = &self.parts[c as usize];
            let off = Vec3::from(part.offset.map(|o| f64::from(self.stored(o))));
            let cube = self.position(c) - off * cell;
            reach = reach.max((cube - centre).norm());
            second += volume(c)
                * ((self.position(c) - centre).norm_squared()
                    + 0.25 * cell * cell * f64::from(part.fraction).cbrt().powi(2));
        }
        // To the cubes' corners, rounded outwards.
        let radius = (reach + 0.75f64.sqrt() * cell) * (1.0 + 4.0 * f64::from(f32::EPSILON));
        (node.x[i], node.y[i], node.z[i]) = (rounded[0], rounded[1], rounded[2]);
        node.r[i] = (radius as f32).next_up();
        // A uniform ball of radius s has the second moment 3/5 s^2 about its centre.
        let spread = (second / total.max(f64::MIN_POSITIVE) * 5.0 / 3.0).sqrt();
        node.spread[i] = (spread as f32).clamp(0.05 * node.r[i], node.r[i]);
        node.volume[i] = total as f32;
    }

    fn columns(&self, order: &[u32]) -> CellColumns {
        let padded = order.len().div_ceil(LANES) * LANES + LANES;
        let mut out = CellColumns { len: order.len(), ..CellColumns::default() };
        for (axis, column) in out.at.iter_mut().enumerate() {
            column.reserve_exact(padded);
            column.extend(order.iter().map(|&c| {
                let p = &self.parts[c as usize];
                let node = p.place(self.field)[axis];
                ((node as f32 + self.stored(p.offset[axis])) * self.steps) as u16
            }));
            column.resize(padded, 0);
        }
        out.fraction.reserve_exact(padded);
        out.fraction.extend(order.iter().map(|&c| match self.parts[c as usize].fraction {
            f if f >= 1.0 => FULL,
            f => ((f * f32::from(FULL)) as u16).min(FULL - 1),
        }));
        out.fraction.resize(padded, 0);
        out
    }
}

/// A node whose nodes and cells lie further on.
fn shifted(mut n: Node, nodes: u32, cells: u32) -> Node {
    for c in &mut n.child {
        if *c != EMPTY {
            *c += if *c & LEAF == 0 { nodes } else { cells };
        }
    }
    n
}

/// Reorders items into four parts of nearly equal number by medians along the longest sides.
fn quarters(items: &mut [u32], place: &dyn Fn(u32) -> Point) -> [usize; WIDTH] {
    let n = items.len();
    let half = n / 2;
    halve(items, half, place);
    let (a, b) = items.split_at_mut(half);
    let (qa, qb) = (a.len() / 2, b.len() / 2);
    halve(a, qa, place);
    halve(b, qb, place);
    [qa, half - qa, qb, n - half - qb]
}

/// Partitions at the `k`-th item along the longest side of the box; ties by the other coordinates and the number.
fn halve(items: &mut [u32], k: usize, place: &dyn Fn(u32) -> Point) {
    if items.len() < 2 {
        return;
    }
    let (lo, hi) = items
        .iter()
        .map(|&i| place(i))
        .fold((Vec3::repeat(f64::INFINITY), Vec3::repeat(f64::NEG_INFINITY)), |(lo, hi), p| {
            (lo.inf(&p.coords), hi.sup(&p.coords))
        });
    let axis = (hi - lo).imax();
    items.select_nth_unstable_by(k.min(items.len() - 1), |&a, &b| {
        let (p, q) = (place(a), place(b));
        let order = |i: usize| p[(axis + i) % 3].total_cmp(&q[(axis + i) % 3]);
        order(0).then_with(|| order(1)).then_with(|| order(2)).then(a.cmp(&b))
    });
}
