//! Closing holes: the surface where the winding number is one half, wherever it is not the mesh itself.

use super::grid::{BLOCK, Blocks, EDGE, Grid, within};
use super::{FieldError, Meter, Solid};
use crate::geometry::bvh::{Bvh, NO_SLOT};
use crate::geometry::lanes::{Lanes, per_level};
use crate::geometry::{Point, TriMesh};
use rayon::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// An edge whose ends differ in sign is crossed by a triangle only if the ends' distances add up to at most one cell; the
/// excess covers the rounding of the distances.
const CROSSED: f32 = 1.0 + 3e-5;

/// The caps, if there are any.
pub(super) struct Cap {
    tree: Option<Bvh>,
    /// Their area, m^2.
    pub(super) area: f64,
}

/// Finds the holes and triangulates what closes them.
pub(super) fn close(solid: &Solid, depth: &Blocks, meter: &Meter) -> Result<Cap, FieldError> {
    let grid = solid.grid;
    let found: Vec<Vec<[u32; 3]>> = (0..grid.blocks())
        .into_par_iter()
        .map(|b| {
            meter.step(1)?;
            Ok(open_cells(grid, depth, b))
        })
        .collect::<Result<_, FieldError>>()?;
    let mut cells = found.concat();
    if cells.is_empty() {
        return Ok(Cap { tree: None, area: 0.0 });
    }
    cells.par_sort_unstable();
    cells.dedup();
    let pieces: Vec<Vec<[Point; 3]>> = cells
        .par_chunks(256)
        .map(|chunk| {
            meter.check()?;
            Ok(chunk.iter().flat_map(|c| cell_surface(solid, depth, c.map(|i| i as usize))).collect())
        })
        .collect::<Result<_, FieldError>>()?;
    let triangles = pieces.concat();
    let area = triangles.iter().map(|[a, b, c]| 0.5 * (b - a).cross(&(c - a)).norm()).sum();
    let mesh = TriMesh {
        triangles: (0..triangles.len() as u32).map(|t| [3 * t, 3 * t + 1, 3 * t + 2]).collect(),
        vertices: triangles.into_iter().flatten().collect(),
    };
    let tree = Bvh::build_unless(&mesh, &|| meter.cancelled()).ok_or(FieldError::Cancelled)?;
    Ok(Cap { tree: Some(tree), area })
}

/// Cells around those edges of a block's nodes (towards +x, +y, +z) where the sign changes without a triangle.
fn open_cells(grid: &Grid, depth: &Blocks, block: usize) -> Vec<[u32; 3]> {
    let mut cells = Vec::new();
    let (first, len) = grid.block(block);
    for k in first[2]..first[2] + len[2] {
        for j in first[1]..first[1] + len[1] {
            for i in first[0]..first[0] + len[0] {
                let node = [i, j, k];
                let d = depth.at(node);
                for axis in 0..3 {
                    if node[axis] + 1 >= grid.dims[axis] {
                        continue;
                    }
                    let mut next = node;
                    next[axis] += 1;
                    let e = depth.at(next);
                    if d.is_sign_negative() != e.is_sign_negative() && d.abs() + e.abs() > CROSSED {
                        around(grid, node, axis, &mut cells);
                    }
                }
            }
        }
    }
    cells
}

/// The up to four cells that share the edge from `node` along `axis`.
fn around(grid: &Grid, node: [usize; 3], axis: usize, cells: &mut Vec<[u32; 3]>) {
    let (u, v) = ((axis + 1) % 3, (axis + 2) % 3);
    for (du, dv) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
        let mut cell = node;
        if node[u] >= du && node[v] >= dv {
            cell[u] -= du;
            cell[v] -= dv;
            if cell[u] + 1 < grid.dims[u] && cell[v] + 1 < grid.dims[v] {
                cells.push(cell.map(|i| i as u32));
            }
        }
    }
}

/// Six tetrahedra around the main diagonal (Kuhn's division); neighbouring cells match. Bit a of a corner: offset along axis a.
const TETRAHEDRA: [[usize; 4]; 6] =
    [[0, 1, 3, 7], [0, 1, 5, 7], [0, 2, 3, 7], [0, 2, 6, 7], [0, 4, 5, 7], [0, 4, 6, 7]];

/// Marching tetrahedra over the signs of one cell. Each grid edge that changes sign gets a corner of the surface, so
/// afterwards the distances of its ends add up to at most one cell.
fn cell_surface(solid: &Solid, depth: &Blocks, cell: [usize; 3]) -> Vec<[Point; 3]> {
    let node = |c: usize| [0, 1, 2].map(|a| cell[a] + (c >> a & 1));
    let corners: [Corner; 8] = std::array::from_fn(|c| {
        let at = solid.grid.node(node(c));
        Corner { at, depth: depth.at(node(c)), winding: solid.winding.number(&at) }
    });
    let inside = |c: &usize| !corners[*c].depth.is_sign_negative();
    let cut = |a: usize, b: usize| crossing(&corners, a.min(b), a.max(b));
    let mut out = Vec::new();
    // Pieces that only retrace the mesh are not needed.
    let mut add = |piece: [Cut; 3]| {
        if piece.iter().any(|c| c.open) {
            out.push(piece.map(|c| c.at));
        }
    };
    for tetrahedron in &TETRAHEDRA {
        let (ins, outs): (Vec<usize>, Vec<usize>) = tetrahedron.iter().partition(|c| inside(c));
        match (&ins[..], &outs[..]) {
            (&[a], &[b, c, d]) | (&[b, c, d], &[a]) => add([cut(a, b), cut(a, c), cut(a, d)]),
            (&[a, b], &[c, d]) => {
                let quad = [cut(a, c), cut(a, d), cut(b, d), cut(b, c)];
                add([quad[0], quad[1], quad[2]]);
                add([quad[0], quad[2], quad[3]]);
            }
            _ => {}
        }
    }
    out
}

struct Corner {
    at: Point,
    /// Signed distance in cells.
    depth: f32,
    winding: f64,
}

/// A crossing of the surface with the segment between two corners.
#[derive(Clone, Copy)]
struct Cut {
    at: Point,
    /// No triangle passes between the corners.
    open: bool,
}

fn crossing(corners: &[Corner; 8], a: usize, b: usize) -> Cut {
    let length = (a ^ b).count_ones() as f32;
    let (a, b) = (&corners[a], &corners[b]);
    let (da, db) = (a.depth.abs(), b.depth.abs());
    let open = da + db > length.sqrt() * CROSSED;
    let t = if open {
        // No triangle is near, so the winding number is smooth.
        let t = (a.winding - 0.5) / (a.winding - b.winding);
        if t.is_finite() { t.clamp(0.0, 1.0) } else { 0.5 }
    } else if da + db > 0.0 {
        f64::from(da) / f64::from(da + db)
    } else {
        0.5
    };
    Cut { at: a.at + (b.at - a.at) * t, open }
}

/// Lowers distances to those of the caps, where they are nearer. Returns the number of distances evaluated.
pub(super) fn apply(cap: &Cap, grid: &Grid, depth: &mut Blocks, meter: &Meter) -> Result<u64, FieldError> {
    let Some(tree) = &cap.tree else {
        meter.step(grid.blocks() as u64)?;
        return Ok(0);
    };
    let tests = AtomicU64::new(0);
    depth.data.par_chunks_mut(BLOCK).enumerate().try_for_each(|(index, out)| {
        tests.fetch_add(block(tree.level(), tree, grid, index, out), Ordering::Relaxed);
        meter.step(1)
    })?;
    Ok(tests.into_inner())
}

per_level! {
    /// One block.
    fn block = block_body(tree: &Bvh, grid: &Grid, index: usize, out: &mut [f32]) -> u64
}

#[inline(always)]
fn block_body(lanes: impl Lanes, tree: &Bvh, grid: &Grid, index: usize, out: &mut [f32]) -> u64 {
    let (first, len) = grid.block(index);
    let (center, radius) = grid.block_ball(first, len);
    let largest = f64::from(out.iter().fold(0.0f32, |m, d| if d.abs() > m { d.abs() } else { m }));
    if !tree.closest_within(&center, largest * grid.cell + radius).found() {
        return 0;
    }
    let mut tests = 0;
    let origin = tree.to_local(&grid.node(first));
    let step = grid.cell / tree.unit();
    let to_cells = (1.0 / step) as f32;
    let mut near = NO_SLOT;
    for k in 0..len[2] {
        for j in 0..len[1] {
            let j = if k % 2 == 0 { j } else { len[1] - 1 - j };
            for i in 0..len[0] {
                let i = if (j + k) % 2 == 0 { i } else { len[0] - 1 - i };
                let p = [
                    (origin[0] + i as f64 * step) as f32,
                    (origin[1] + j as f64 * step) as f32,
                    (origin[2] + k as f64 * step) as f32,
                ];
                let d = &mut out[within([i, j, k])];
                let bound = d.abs() / to_cells;
                let (d2, slot) = tree.nearest_f32(lanes, p, bound * bound, near, &mut tests);
                if slot != NO_SLOT {
                    near = slot;
                    *d = (d2.sqrt() * to_cells).copysign(*d);
                }
            }
        }
    }
    debug_assert!(len.iter().all(|&n| n <= EDGE));
    tests
}
