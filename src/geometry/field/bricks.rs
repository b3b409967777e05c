//! Bricks: an adaptively sampled field (Frisken et al. 2000) that a query reads with one load a point.
//!
//! A brick covers 4^3 cells of the grid. Near the surface it holds all its nodes; elsewhere every second or only its
//! corners, where interpolating between them reproduces all others within a tolerance. Nodes on the border to a coarser
//! brick lie on that brick's interpolation, so the value stays continuous (to half a count).
//!
//! Nodes are stored four at a time: a *quad* at (x, y, z) holds (y, z), (y + 1, z), (y, z + 1), (y + 1, z + 1), and quads
//! are stored along x. The eight corners of a cell are then two quads side by side: sixteen bytes in one or two cache
//! lines, where nodes in x order would spread them over four lines and as many pages. That takes 10 bytes a cell near the
//! surface and 0.25 to 1.5 elsewhere.

use super::storage::Corners;
use crate::geometry::morton::morton;
use rayon::prelude::*;

/// Cells along the edge of a brick.
pub(crate) const EDGE: usize = 4;
/// Nodes along the edge.
const NODES: usize = EDGE + 1;
/// Fields with fewer nodes stay dense: they fit into the caches as they are.
const MIN_NODES: usize = 1 << 20;
/// Attempts: distance from the surface (cells) within which all nodes are held, and tolerance elsewhere (cells).
const ATTEMPTS: [(f64, f64); 3] = [(6.0, 0.02), (4.0, 0.04), (3.0, 0.08)];

/// The bricks of a field. Fields are private: kernels rely on what [`Bricks::of`] and [`Bricks::read`] checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bricks {
    /// Nodes of the grid.
    dims: [u32; 3],
    /// Bricks along x, y, z.
    side: [usize; 3],
    /// First quad of each brick times 4, plus the logarithm of its spacing (0, 1, 2); x fastest.
    table: Box<[u32]>,
    quads: Box<[[i16; 4]]>,
    /// Largest deviation of a node, counts.
    error: f32,
}

/// Quads of a brick whose nodes are 2^shift apart.
const fn quads(shift: u32) -> usize {
    let cells = EDGE >> shift;
    (cells + 1) * cells * cells
}

/// All nodes of a grid extended to whole bricks.
struct Nodes {
    side: [usize; 3],
    stride: [usize; 3],
    count: Vec<i16>,
}

impl Nodes {
    /// Beyond the grid's far borders the last brick's nodes are extrapolated.
    fn new(counts: &[i16], dims: [u32; 3]) -> Self {
        let d = dims.map(|n| n as usize);
        let side = d.map(|n| (n - 1).div_ceil(EDGE));
        let e = side.map(|n| n * EDGE + 1);
        let mut count = vec![0; e.iter().product()];
        for k in 0..d[2] {
            for j in 0..d[1] {
                let (from, to) = (d[0] * (j + d[1] * k), e[0] * (j + e[1] * k));
                count[to..to + d[0]].copy_from_slice(&counts[from..from + d[0]]);
            }
        }
        let mut nodes = Self { side, stride: [1, e[0], e[0] * e[1]], count };
        for axis in 0..3 {
            // Along this axis up to the border, along the earlier ones up to the extended border.
            let mut reach = [0, 1, 2].map(|a| if a < axis { e[a] } else { d[a] });
            let last = d[axis] - 1;
            let start = last / EDGE * EDGE;
            if start == last {
                continue;
            }
            reach[axis] = 1;
            for k in 0..reach[2] {
                for j in 0..reach[1] {
                    for i in 0..reach[0] {
                        let line = nodes.index([i, j, k]);
                        let at = |n: usize| line + n * nodes.stride[axis];
                        let (a, b) = (f64::from(nodes.count[at(start)]), f64::from(nodes.count[at(last)]));
                        for n in last + 1..e[axis] {
                            let v = a + (b - a) * (n - start) as f64 / (last - start) as f64;
                            let place = at(n);
                            nodes.count[place] = v.round().clamp(-32767.0, 32767.0) as i16;
                        }
                    }
                }
            }
        }
        nodes
    }

    fn index(&self, at: [usize; 3]) -> usize {
        at[0] + self.stride[1] * at[1] + self.stride[2] * at[2]
    }

    fn brick(&self, b: usize) -> [usize; 3] {
        [b % self.side[0], b / self.side[0] % self.side[1], b / (self.side[0] * self.side[1])]
    }

    /// The counts of a brick, x fastest.
    fn of_brick(&self, b: usize) -> [f32; NODES * NODES * NODES] {
        let first = self.index(self.brick(b).map(|i| i * EDGE));
        let mut out = [0.0; NODES * NODES * NODES];
        for (row, values) in out.chunks_mut(NODES).enumerate() {
            let at = first + row % NODES * self.stride[1] + row / NODES * self.stride[2];
            for (v, &c) in values.iter_mut().zip(&self.count[at..at + NODES]) {
                *v = f32::from(c);
            }
        }
        out
    }
}

/// Interpolates a brick from its nodes 2^shift apart, axis by axis.
fn interpolated(nodes: &[f32; NODES * NODES * NODES], shift: u32) -> [f32; NODES * NODES * NODES] {
    let mut out = *nodes;
    let step = 1 << shift;
    for stride in [1, NODES, NODES * NODES] {
        for line in 0..NODES * NODES * NODES {
            if line / stride % NODES != 0 {
                continue;
            }
            for n in 0..NODES {
                let a = n / step * step;
                if a != n {
                    let (v, w) = (out[line + a * stride], out[line + (a + step) * stride]);
                    out[line + n * stride] = v + (w - v) * ((n - a) as f32 / step as f32);
                }
            }
        }
    }
    out
}

/// The widest spacing that serves a brick.
fn spacing(nodes: &[f32; NODES * NODES * NODES], near: f32, tolerance: f32) -> u8 {
    if nodes.iter().any(|v| v.abs() <= near) {
        return 0;
    }
    let serves = |shift| {
        let guess = interpolated(nodes, shift);
        nodes.iter().zip(&guess).all(|(v, g)| (v - g).abs() <= tolerance)
    };
    if serves(2) { 2 } else { u8::from(serves(1)) }
}

impl Bricks {
    /// Bricks for the counts of all nodes (x fastest), `per_cell` counts to a cell's edge. `None` where the dense
    /// counts serve better: bricks take at most 1.6 bytes a node, so that making them, with the nodes twice over, stays
    /// within the 6 bytes a node that the build took before. The result depends on the counts alone.
    pub(super) fn of(counts: &[i16], dims: [u32; 3], per_cell: f64) -> Option<Self> {
        if counts.len() < MIN_NODES {
            return None;
        }
        let mut nodes = Nodes::new(counts, dims);
        let bricks: usize = nodes.side.iter().product();
        let chosen = ATTEMPTS.into_iter().find_map(|(near, tolerance)| {
            let (near, tolerance) = ((near * per_cell) as f32, (tolerance * per_cell) as f32);
            let shifts: Vec<u8> =
                (0..bricks).into_par_iter().map(|b| spacing(&nodes.of_brick(b), near, tolerance)).collect();
            let total: usize = shifts.iter().map(|&s| quads(u32::from(s))).sum();
            (8 * total + 4 * bricks < counts.len() * 8 / 5 && total < i32::MAX as usize / 4)
                .then_some((shifts, total))
        });
        let (shifts, total) = chosen?;
        join(&mut nodes, &shifts);

        // In memory bricks follow a space-filling curve, so that neighbours share pages.
        let mut order: Vec<u32> = (0..bricks as u32).collect();
        order.par_sort_by_cached_key(|&b| morton(nodes.brick(b as usize).map(|i| i as u32)));
        let mut table = vec![0u32; bricks];
        let mut stored = Vec::with_capacity(total);
        for b in order {
            let b = b as usize;
            let shift = u32::from(shifts[b]);
            table[b] = (stored.len() as u32) << 2 | shift;
            let first = nodes.brick(b).map(|i| i * EDGE);
            let (cells, step) = (EDGE >> shift, 1 << shift);
            let at = |x: usize, y: usize, z: usize| {
                nodes.count[nodes.index([first[0] + x * step, first[1] + y * step, first[2] + z * step])]
            };
            for z in 0..cells {
                for y in 0..cells {
                    for x in 0..=cells {
                        stored.push([at(x, y, z), at(x, y + 1, z), at(x, y, z + 1), at(x, y + 1, z + 1)]);
                    }
                }
            }
        }
        let mut bricks =
            Self { dims, side: nodes.side, table: table.into(), quads: stored.into(), error: 0.0 };
        let [nx, ny, nz] = dims;
        let error = (0..nz).into_par_iter().map(|k| {
            let mut worst = 0.0f64;
            for j in 0..ny {
                for i in 0..nx {
                    let n = i as usize + nx as usize * (j as usize + ny as usize * k as usize);
                    worst = worst.max((bricks.node([i, j, k]) - f64::from(counts[n])).abs());
                }
            }
            worst
        });
        bricks.error = error.reduce(|| 0.0, f64::max) as f32;
        Some(bricks)
    }

    pub(super) fn bytes(&self) -> usize {
        std::mem::size_of_val(&*self.table) + std::mem::size_of_val(&*self.quads)
    }

    pub(super) fn error(&self) -> f32 {
        self.error
    }

    pub(super) fn memory(&self) -> [&[u8]; 2] {
        [bytemuck::cast_slice(&self.quads), bytemuck::cast_slice(&self.table)]
    }

    /// Nodes of the grid, bricks along the axes, table and quads, as kernels read them: an entry of the table is a first
    /// quad times 4 plus a shift; the brick's quads are all there.
    pub(super) fn parts(&self) -> ([u32; 3], [usize; 3], &[u32], &[[i16; 4]]) {
        (self.dims, self.side, &self.table, &self.quads)
    }

    /// The corners around a place in a cell of the grid, which must be one.
    pub(super) fn corners(&self, cell: [usize; 3], fraction: [f64; 3]) -> Corners {
        let b = cell.map(|i| i / EDGE);
        let entry = self.table[b[0] + self.side[0] * (b[1] + self.side[1] * b[2])];
        let shift = entry & 3;
        let (cells, step) = (EDGE >> shift, 1usize << shift);
        let local = cell.map(|i| i % EDGE);
        let [x, y, z] = local.map(|i| i >> shift);
        let first = (entry >> 2) as usize + x + (cells + 1) * (y + cells * z);
        let (low, high) = (self.quads[first], self.quads[first + 1]);
        let edge = step as f64;
        Corners {
            value: std::array::from_fn(|k| f64::from(if k & 1 == 0 { low[k >> 1] } else { high[k >> 1] })),
            fraction: [0, 1, 2].map(|a| (fraction[a] + (local[a] & (step - 1)) as f64) / edge),
            edge,
        }
    }

    /// Count at a node of the grid, interpolated where it is not held.
    pub(super) fn node(&self, at: [u32; 3]) -> f64 {
        let mut fraction = [0.0; 3];
        let cell = [0, 1, 2].map(|a| {
            let last = self.dims[a] as usize - 2;
            fraction[a] = f64::from(u8::from(at[a] as usize > last));
            (at[a] as usize).min(last)
        });
        self.corners(cell, fraction).trilinear()
    }

    /// Appends table, quads and error to a cache entry.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.error.to_le_bytes());
        out.extend_from_slice(&(self.quads.len() as u32).to_le_bytes());
        for entry in &self.table {
            out.extend_from_slice(&entry.to_le_bytes());
        }
        for count in self.quads.iter().flatten() {
            out.extend_from_slice(&count.to_le_bytes());
        }
    }

    /// Reads what [`Bricks::write`] wrote; `None` where the bytes are anything else.
    pub(crate) fn read(bytes: &[u8], dims: [u32; 3]) -> Option<Self> {
        if dims.iter().any(|&d| d < 2) {
            return None;
        }
        let side = dims.map(|n| (n as usize - 1).div_ceil(EDGE));
        let bricks = side.iter().try_fold(1usize, |n, &s| n.checked_mul(s))?;
        let (head, rest) = bytes.split_at_checked(8)?;
        let error = f32::from_le_bytes(head[..4].try_into().ok()?);
        let len = u32::from_le_bytes(head[4..].try_into().ok()?) as usize;
        let (table, stored) = rest.split_at_checked(bricks.checked_mul(4)?)?;
        if stored.len() != len.checked_mul(8)?
            || len >= i32::MAX as usize / 4
            || !(error >= 0.0 && error.is_finite())
        {
            return None;
        }
        let table: Box<[u32]> = table.as_chunks::<4>().0.iter().map(|c| u32::from_le_bytes(*c)).collect();
        let whole = |e: &u32| e & 3 < 3 && (e >> 2) as usize + quads(e & 3) <= len;
        if !table.iter().all(whole) {
            return None;
        }
        let count = |c: &[u8; 8], k: usize| i16::from_le_bytes([c[2 * k], c[2 * k + 1]]);
        let quads = stored.as_chunks::<8>().0.iter().map(|c| [0, 1, 2, 3].map(|k| count(c, k))).collect();
        Some(Self { dims, side, table, quads, error })
    }
}

/// Moves the nodes on the borders between bricks of different spacing onto the interpolation of the coarser one.
fn join(nodes: &mut Nodes, shifts: &[u8]) {
    let side = nodes.side.map(|s| s as i64);
    let mut done = vec![0u64; nodes.count.len().div_ceil(64)];
    for shift in [2u8, 1] {
        for b in 0..shifts.len() {
            if shifts[b] != shift {
                continue;
            }
            let at = nodes.brick(b);
            let finer = (0..27i64).any(|n| {
                let o = [n % 3 - 1, n / 3 % 3 - 1, n / 9 - 1];
                let p = [0, 1, 2].map(|a| at[a] as i64 + o[a]);
                (0..3).all(|a| p[a] >= 0 && p[a] < side[a])
                    && shifts[(p[0] + side[0] * (p[1] + side[1] * p[2])) as usize] < shift
            });
            if !finer {
                continue;
            }
            let values = interpolated(&nodes.of_brick(b), u32::from(shift));
            let step = 1 << shift;
            for (n, v) in values.iter().enumerate() {
                let local = [n % NODES, n / NODES % NODES, n / (NODES * NODES)];
                let border = local.iter().any(|&i| i == 0 || i == EDGE);
                let held = local.iter().all(|&i| i % step == 0);
                let index = nodes.index([0, 1, 2].map(|a| at[a] * EDGE + local[a]));
                let (word, bit) = (index / 64, 1 << (index % 64));
                if border && !held && done[word] & bit == 0 {
                    nodes.count[index] = v.round() as i16;
                    done[word] |= bit;
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "bricks_tests.rs"]
mod tests;
