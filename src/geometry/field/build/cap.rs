//! Closing holes: the surface where the winding number is one half, wherever it is not the mesh itself.

use super::grid::{BLOCK, Blocks, EDGE, Grid, within};
use super::{FieldError, Meter, Solid};
use crate::geometry::bvh::{Bvh, NO_SLOT};
use crate::geometry::simd::{self, Simd, dispatch};
use crate::geometry::{Point, TriMesh};
use rayon::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// An edge whose ends differ in sign is crossed by a triangle only if the ends' distances add up to at most one cell; the
/// excess covers the rounding of the distances.
const CROSSED: f32 = 1.0 + 3e-5;

/// A point counts as on the surface when its winding number is this close to one half.
const ON_SURFACE: f64 = 0.03;

/// How far from the mesh's crossing of a cell's edge the rim is looked for, cells.
const RIM: f64 = 2.0;

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
    let pieces: Vec<(Vec<[Point; 3]>, f64)> = cells
        .par_chunks(256)
        .map(|chunk| {
            meter.check()?;
            let mut part = (Vec::new(), 0.0);
            for cell in chunk {
                cell_surface(solid, depth, cell.map(|i| i as usize), &mut part);
            }
            Ok(part)
        })
        .collect::<Result<_, FieldError>>()?;
    let area = pieces.iter().map(|p| p.1).sum();
    let triangles: Vec<[Point; 3]> = pieces.into_iter().flat_map(|p| p.0).collect();
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
/// Adds pieces and their area to `out`.
fn cell_surface(solid: &Solid, depth: &Blocks, cell: [usize; 3], out: &mut (Vec<[Point; 3]>, f64)) {
    let node = |c: usize| [0, 1, 2].map(|a| cell[a] + (c >> a & 1));
    let corners: [Corner; 8] = std::array::from_fn(|c| {
        let at = solid.grid.node(node(c));
        Corner { at, depth: depth.at(node(c)), winding: solid.winding.number(&at) }
    });
    let inside = |c: &usize| !corners[*c].depth.is_sign_negative();
    let cut = |a: usize, b: usize| crossing(solid, &corners, a.min(b), a.max(b));
    let mut add = |piece: [Cut; 3]| {
        if let Some([a, b, c]) = fitted(solid, piece) {
            out.1 += 0.5 * (b - a).cross(&(c - a)).norm();
            out.0.push([a, b, c]);
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
}

/// What of a triangle of the surface closes a hole. One that only retraces the mesh is not needed. One that reaches from
/// the hole to the mesh ends at the rim, if that is near; where it would still cut off a corner between hole and mesh,
/// only its corners in the hole stay, a segment or a point.
fn fitted(solid: &Solid, piece: [Cut; 3]) -> Option<[Point; 3]> {
    let first = piece.iter().position(|cut| cut.open)?;
    let last = piece.iter().rposition(|cut| cut.open)?;
    let plain = piece.map(|cut| cut.at);
    if piece.iter().all(|cut| cut.open) {
        return Some(plain);
    }
    let at_rim =
        |cut: Cut| if cut.open { Some(cut.at) } else { solid.rim.nearest(&cut.at, RIM * solid.grid.cell) };
    let on_surface = |[a, b, c]: &[Point; 3]| {
        let middle = Point::from((a.coords + b.coords + c.coords) / 3.0);
        (solid.winding.number(&middle) - 0.5).abs() <= ON_SURFACE
    };
    let trimmed = match piece.map(at_rim) {
        [Some(a), Some(b), Some(c)] => Some([a, b, c]),
        _ => None,
    };
    let whole = trimmed.into_iter().chain([plain]).find(on_surface);
    Some(whole.unwrap_or([plain[first], plain[last], plain[last]]))
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

fn crossing(solid: &Solid, corners: &[Corner; 8], a: usize, b: usize) -> Cut {
    let length = (a ^ b).count_ones() as f32;
    let (a, b) = (&corners[a], &corners[b]);
    let open = a.depth.abs() + b.depth.abs() > length.sqrt() * CROSSED;
    let along = |t: f64| a.at + (b.at - a.at) * t;
    // The winding number minus one half, turned so that it is positive at a.
    let turn = if a.depth.is_sign_negative() { -1.0 } else { 1.0 };
    let side = |w: f64| turn * (w - 0.5);
    let (mut t0, mut w0) = (0.0, side(a.winding));
    let (mut t1, mut w1) = (1.0, side(b.winding));
    // A triangle makes a step, which is bisected; in a hole the winding number is smooth, which allows false position.
    for _ in 0..if open { 2 } else { 10 } {
        let t = t0 + (t1 - t0) * if open { fraction(w0, w1) } else { 0.5 };
        let w = side(solid.winding.number(&along(t)));
        if w > 0.0 { (t0, w0) = (t, w) } else { (t1, w1) = (t, w) }
    }
    Cut { at: along(t0 + (t1 - t0) * fraction(w0, w1)), open }
}

/// Where a line from w0 >= 0 to w1 <= 0 is zero. A wrong sign (rounding, or the decree at the border) counts as zero.
fn fraction(w0: f64, w1: f64) -> f64 {
    let (w0, w1) = (w0.max(0.0), w1.min(0.0));
    if w0 > w1 { w0 / (w0 - w1) } else { 0.5 }
}

/// Lowers distances to those of the caps, where they are nearer. Returns the number of distances evaluated.
pub(super) fn apply(cap: &Cap, grid: &Grid, depth: &mut Blocks, meter: &Meter) -> Result<u64, FieldError> {
    let Some(tree) = &cap.tree else {
        meter.step(grid.blocks() as u64)?;
        return Ok(0);
    };
    let tests = AtomicU64::new(0);
    depth.data.par_chunks_mut(BLOCK).enumerate().try_for_each(|(index, out)| {
        tests.fetch_add(block(tree, grid, index, out), Ordering::Relaxed);
        meter.step(1)
    })?;
    Ok(tests.into_inner())
}

fn block(tree: &Bvh, grid: &Grid, index: usize, out: &mut [f32]) -> u64 {
    dispatch!(simd::level(), block_body(tree: &Bvh, grid: &Grid, index: usize, out: &mut [f32]) -> u64)
}

#[inline(always)]
fn block_body(simd: impl Simd, tree: &Bvh, grid: &Grid, index: usize, out: &mut [f32]) -> u64 {
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
                let (d2, slot) = tree.nearest_f32(simd, p, bound * bound, near, &mut tests);
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
