//! Building the hierarchy top down, in parallel below the first levels, with the same result every time.

use super::{CellBlock, CellStore, DEEP_NODE, EMPTY, FULL, LEAF, Node, SOLID, WIDTH, gas, steps_log};
use crate::contact::ist::packing::Packing;
use crate::contact::ist::parts::Part;
use crate::geometry::field::Field;
use crate::geometry::simd::LANES;
use crate::geometry::{Point, Vec3};
use rayon::prelude::*;

mod boxes;

/// How the children of a node are divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Split {
    /// Cells by planes of their grid, so that what is solid throughout becomes boxes.
    #[default]
    Boxes,
    /// Spheres by batch neural gas, with the median where it leaves a cluster empty or takes over three quarters.
    NeuralGas,
    /// Spheres by medians along the longest side of the box.
    Median,
}

/// Most cells of a group: two blocks.
pub const GROUP: usize = 2 * LANES;

/// Longest side of a solid box that is no longer divided, cells.
pub const BLOCK_EDGE: u32 = 4;

/// Sets of spheres with so many cells are divided by their cells, so that groups are full.
const BY_CELLS: usize = 2048;

/// Below so many cells a subtree is built on the caller's thread.
const PARALLEL: usize = 16_384;

/// Fills up the last block of a group.
const NOTHING: u32 = u32::MAX;

/// A subtree with indices of its own.
#[derive(Default)]
struct Sub {
    nodes: Vec<Node>,
    /// Parts in order, each group filled up to whole blocks; none for a solid box.
    cells: Vec<u32>,
    /// A leaf without cells.
    solid: bool,
}

/// What the recursion reads.
struct Input<'a> {
    packing: &'a Packing,
    parts: &'a [Part],
    split: Split,
    /// Edge of a cell, m.
    cell: f64,
    log: u32,
    /// Stored position of each part, see [`CellBlock`].
    stored: Vec<[u16; 3]>,
}

/// Builds nodes (the root first) and cells. Deterministic whatever the number of threads.
pub(crate) fn build(
    packing: &Packing,
    parts: &[Part],
    field: &Field,
    split: Split,
) -> (Vec<Node>, CellStore) {
    let log = steps_log(field.dims.into_iter().max().unwrap_or(1));
    let steps = (1u32 << log) as f32;
    let half = steps / 2.0;
    let stored = |p: &Part| {
        let node = p.place(field);
        // Never on the cube's face, so that rounding gives the cube back.
        let off = p.offset.map(|o| (o * steps).round().clamp(1.0 - half, half - 1.0));
        [0, 1, 2].map(|a| (node[a] as f32 * steps + off[a]) as u16)
    };
    let stored = parts.par_iter().map(stored).collect();
    let input = Input { packing, parts, split, cell: field.cell, log, stored };
    let mut sub = match split {
        Split::Boxes => {
            let mut cells: Vec<u32> = (0..parts.len() as u32).collect();
            boxes::build(&input, &mut cells)
        }
        _ => {
            let mut ids: Vec<u32> = (0..packing.spheres.len() as u32).collect();
            input.spheres(&mut ids)
        }
    };
    sub.nodes.shrink_to_fit();
    let blocks = sub.cells.par_chunks(LANES).map(|c| input.block(c)).collect();
    let len = sub.cells.iter().filter(|c| **c != NOTHING).count();
    (sub.nodes, CellStore { len, steps_log: log, blocks })
}

impl Input<'_> {
    fn cells_of(&self, id: u32) -> &[u32] {
        let starts = &self.packing.starts;
        &self.packing.order[starts[id as usize] as usize..starts[id as usize + 1] as usize]
    }

    /// The subtree over a set of spheres, with at least one node.
    fn spheres(&self, ids: &mut [u32]) -> Sub {
        let count = |part: &[u32]| part.iter().map(|&i| self.cells_of(i).len()).sum::<usize>();
        let total = count(ids);
        if total <= BY_CELLS || ids.len() == 1 {
            let mut cells: Vec<u32> = ids.iter().flat_map(|&i| self.cells_of(i)).copied().collect();
            return self.cells(&mut cells);
        }
        let sizes = self.divide(ids);
        let below = |part: &mut [u32]| if part.is_empty() { Sub::default() } else { self.spheres(part) };
        let parts = pieces(ids, sizes);
        let subs: Vec<Sub> = if total > PARALLEL {
            parts.into_par_iter().map(below).collect()
        } else {
            parts.into_iter().map(below).collect()
        };
        self.join(with_cells(subs))
    }

    /// The subtree over cells, all groups full but the last of each set.
    fn cells(&self, cells: &mut [u32]) -> Sub {
        let place = |i: u32| self.stored[i as usize].map(f32::from);
        let sizes = quarters(cells, GROUP, &place);
        let parts = pieces(cells, sizes);
        let below = |part: &mut [u32]| {
            if part.len() > GROUP {
                return self.cells(part);
            }
            self.group(part)
        };
        self.join(with_cells(parts.into_iter().map(below).collect()))
    }

    /// A leaf of cells, each block of them compact by itself.
    fn group(&self, part: &mut [u32]) -> Sub {
        halve(part, LANES, &|i| self.stored[i as usize].map(f32::from));
        let mut cells = part.to_vec();
        cells.resize(part.len().next_multiple_of(LANES), NOTHING);
        Sub { cells, ..Sub::default() }
    }

    /// One node over its children's subtrees, each with all the cells that it stands for.
    fn join(&self, below: Vec<(Sub, Vec<u32>)>) -> Sub {
        let mut node = Node::EMPTY;
        let mut out = Sub { nodes: vec![Node::EMPTY], ..Sub::default() };
        for (i, (sub, all)) in below.into_iter().enumerate() {
            if all.is_empty() {
                continue;
            }
            let count = self.describe(&mut node, i, &all);
            let first = (out.cells.len() / LANES) as u32;
            if sub.nodes.is_empty() {
                node.child[i] = if sub.solid { SOLID } else { LEAF | first };
                node.cells[i] = if sub.solid { 0 } else { count as u8 };
                node.flat[i] = node.r[i];
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
        let place = |i: u32| self.packing.spheres[i as usize].centroid;
        if self.split == Split::NeuralGas {
            let weight = |i: u32| f64::from(self.packing.spheres[i as usize].secondary).powi(3);
            let data: Vec<(Point, f64)> =
                ids.iter().map(|&i| (Point::from(place(i).map(f64::from)), weight(i))).collect();
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
        quarters(ids, 1, &place)
    }

    /// Fills child slot `i` with the summary of `cells` and returns how many there are.
    fn describe(&self, node: &mut Node, i: usize, cells: &[u32]) -> u32 {
        // Lengths in cells from the grid's first node.
        let per_step = 1.0 / f64::from(1u32 << self.log);
        let position = |c: u32| Vec3::from(self.stored[c as usize].map(|q| f64::from(q) * per_step));
        let fraction = |c: u32| f64::from(self.parts[c as usize].fraction);
        let there = || cells.iter().copied().filter(|c| *c != NOTHING);
        let (mut total, mut moment, mut count) = (0.0, Vec3::zeros(), 0);
        for c in there() {
            total += fraction(c);
            moment += position(c) * fraction(c);
            count += 1;
        }
        let middle = moment / total.max(f64::MIN_POSITIVE) * self.cell;
        let rounded = [middle.x as f32, middle.y as f32, middle.z as f32];
        let centre = Vec3::from(rounded.map(f64::from)) / self.cell;
        let (mut reach, mut second) = (0.0f64, 0.0);
        let (mut low, mut high) = ([u32::MAX; 3], [0; 3]);
        for c in there() {
            let cube = self.cube(c);
            for axis in 0..3 {
                low[axis] = low[axis].min(cube[axis]);
                high[axis] = high[axis].max(cube[axis] + 1);
            }
            let cube = Vec3::from(cube.map(f64::from));
            reach = reach.max((cube - centre).norm_squared());
            let f = fraction(c);
            let own = if f < 1.0 { f.cbrt().powi(2) } else { 1.0 };
            second += f * ((position(c) - centre).norm_squared() + 0.25 * own);
        }
        // To the cubes' corners, rounded outwards.
        let radius = (reach.sqrt() + 0.75f64.sqrt()) * self.cell * (1.0 + 4.0 * f64::from(f32::EPSILON));
        (node.x[i], node.y[i], node.z[i]) = (rounded[0], rounded[1], rounded[2]);
        node.r[i] = (radius as f32).next_up();
        // A uniform ball of radius s has the second moment 3/5 s^2 about its centre.
        let spread = (second / total.max(f64::MIN_POSITIVE) * 5.0 / 3.0).sqrt() * self.cell;
        node.spread[i] = (spread as f32).clamp(0.05 * node.r[i], node.r[i]);
        node.volume[i] = (total * self.cell.powi(3)) as f32;
        // The grid has at most 1,023 nodes a side.
        let mut all = 1.0;
        for axis in 0..3 {
            let side = high[axis].saturating_sub(low[axis]);
            (node.low[axis][i], node.sides[axis][i]) = (low[axis] as u16, side as u16);
            all *= f64::from(side);
        }
        node.flat[i] = DEEP_NODE * node.r[i];
        node.solid[i] = all <= total;
        count
    }

    /// The place of a cell's cube in the grid.
    fn cube(&self, c: u32) -> [u32; 3] {
        let half = 1u32 << (self.log - 1);
        self.stored[c as usize].map(|q| (u32::from(q) + half) >> self.log)
    }

    fn block(&self, cells: &[u32]) -> CellBlock {
        let mut block = CellBlock { at: [[0; LANES]; 3], fraction: [0; LANES] };
        for (i, &c) in cells.iter().enumerate() {
            // Nothing lies where the first cell does, where the field is read anyway.
            let c = if c == NOTHING { cells[0] } else { c } as usize;
            (0..3).for_each(|axis| block.at[axis][i] = self.stored[c][axis]);
            block.fraction[i] = match self.parts[c].fraction {
                f if f >= 1.0 => FULL,
                f => ((f * f32::from(FULL)) as u16).min(FULL - 1),
            };
        }
        block
    }
}

/// Subtrees that store all their cells.
fn with_cells(subs: Vec<Sub>) -> Vec<(Sub, Vec<u32>)> {
    subs.into_iter()
        .map(|sub| {
            let cells = sub.cells.clone();
            (sub, cells)
        })
        .collect()
}

/// A node whose nodes and cells lie further on.
fn shifted(mut n: Node, nodes: u32, blocks: u32) -> Node {
    for c in &mut n.child {
        if *c != EMPTY && *c != SOLID {
            *c += if *c & LEAF == 0 { nodes } else { blocks };
        }
    }
    n
}

/// Cuts a slice into pieces of these sizes.
fn pieces(mut rest: &mut [u32], sizes: [usize; WIDTH]) -> Vec<&mut [u32]> {
    let mut out = Vec::with_capacity(WIDTH);
    for len in sizes {
        let (head, tail) = rest.split_at_mut(len);
        out.push(head);
        rest = tail;
    }
    out
}

/// Reorders items into four parts by medians along the longest sides: all but the last part in whole `units`, of nearly
/// equal number.
fn quarters(items: &mut [u32], unit: usize, place: &dyn Fn(u32) -> [f32; 3]) -> [usize; WIDTH] {
    let n = items.len();
    let half_of = |n: usize| (n.div_ceil(unit) / 2 * unit).min(n);
    let half = half_of(n);
    halve(items, half, place);
    let (a, b) = items.split_at_mut(half);
    let (qa, qb) = (half_of(half), half_of(n - half));
    halve(a, qa, place);
    halve(b, qb, place);
    [qa, half - qa, qb, n - half - qb]
}

/// Partitions at the `k`-th item along the longest side of the box; ties by the other coordinates and the number.
fn halve(items: &mut [u32], k: usize, place: &dyn Fn(u32) -> [f32; 3]) {
    if k == 0 || k >= items.len() {
        return;
    }
    let mut box_of = ([f32::INFINITY; 3], [f32::NEG_INFINITY; 3]);
    for p in items.iter().map(|&i| place(i)) {
        for a in 0..3 {
            box_of.0[a] = box_of.0[a].min(p[a]);
            box_of.1[a] = box_of.1[a].max(p[a]);
        }
    }
    let side = |a: usize| box_of.1[a] - box_of.0[a];
    let axis = (1..3).fold(0, |best, a| if side(a) > side(best) { a } else { best });
    items.select_nth_unstable_by(k, |&a, &b| {
        let (p, q) = (place(a), place(b));
        let order = |i: usize| p[(axis + i) % 3].total_cmp(&q[(axis + i) % 3]);
        order(0).then_with(|| order(1)).then_with(|| order(2)).then(a.cmp(&b))
    });
}

#[cfg(test)]
mod tests;
