//! How much of each grid cube is solid: exact volumes and centroids of a closed mesh cut by the cubes of a grid.
//!
//! A point of the solid has one more triangle facing up than down above it, so the solid is the signed sum, over its
//! triangles, of the columns below them. Each triangle is cut by the planes of the grid; a piece adds the prism
//! below it to its own cube and its shadow to every cube further down. All integrands are polynomials of second
//! degree, for which the rule of edge midpoints is exact, so nothing but rounding separates the sum of the parts
//! from the volume of the mesh.

use crate::geometry::field::Field;
use crate::geometry::{Point, TriMesh, Vec3};
use rayon::prelude::*;

/// The part of a solid within one cube of the grid (edge `cell`, centred at a node).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Part {
    /// Index of the node in the field's storage.
    pub(crate) node: u32,
    /// Fraction of the cube that is solid, 0..=1.
    pub(crate) fraction: f32,
    /// Centroid of the part from the cube's centre, in cells.
    pub(crate) offset: [f32; 3],
}

impl Part {
    /// Its node's place in the grid.
    pub(crate) fn place(&self, field: &Field) -> [u32; 3] {
        place(self.node, field)
    }
}

/// A node's place in the grid.
fn place(node: u32, field: &Field) -> [u32; 3] {
    let [nx, ny] = [field.dims[0], field.dims[1]];
    [node % nx, node / nx % ny, node / (nx * ny)]
}

/// All parts of a solid, ascending node index.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Parts {
    pub(crate) parts: Vec<Part>,
    /// True when the fractions are those of the mesh itself; false when they were read from the field, for meshes
    /// that are no simple solid.
    pub(crate) exact: bool,
}

/// Fractions may miss 0 or 1 by so much through rounding.
const ROUNDING: f64 = 1e-6;
/// Fractions below this are nothing.
const LEAST: f64 = 1e-9;

/// Cuts the mesh by the cubes around the nodes of `field`. A mesh whose columns do not cancel (open, or covering some
/// points twice) has its fractions read from the field instead.
pub(crate) fn parts(mesh: &TriMesh, field: &Field) -> Parts {
    if closed(mesh)
        && let Some(parts) = cut(mesh, field)
    {
        return Parts { parts, exact: true };
    }
    Parts { parts: read(field), exact: false }
}

/// Number of nodes inside the solid.
pub(crate) fn inside_nodes(field: &Field) -> usize {
    let nodes = u32::try_from(field.nodes()).unwrap_or(u32::MAX);
    (0..nodes).filter(|&n| field.node(place(n, field)) > 0.0).count()
}

/// True when every edge is used as often in one direction as in the other.
pub(crate) fn closed(mesh: &TriMesh) -> bool {
    let mut edges: Vec<(u32, u32, i8)> = mesh
        .triangles
        .iter()
        .flat_map(|&[a, b, c]| [(a, b), (b, c), (c, a)])
        .map(|(a, b)| if a < b { (a, b, 1) } else { (b, a, -1) })
        .collect();
    edges.par_sort_unstable();
    !edges.is_empty()
        && edges
            .chunk_by(|x, y| (x.0, x.1) == (y.0, y.1))
            .all(|e| e.iter().map(|e| i32::from(e.2)).sum::<i32>() == 0)
}

/// What a piece of surface in one cube contributes; lengths in cells, x and y from the column's axis, z from the
/// cube's floor.
#[derive(Clone, Copy, Default)]
struct Piece {
    column: u32,
    level: u32,
    /// Signed shadow and its first moments.
    shadow: [f64; 3],
    /// Signed volume below the piece down to the cube's floor, and its first moments.
    below: [f64; 4],
}

fn cut(mesh: &TriMesh, field: &Field) -> Option<Vec<Part>> {
    let local = |p: &Point| (p - field.origin) / field.cell + Vec3::repeat(0.5);
    let dims = field.dims;
    let mut pieces: Vec<Piece> = (0..mesh.triangles.len())
        .into_par_iter()
        .fold(Vec::new, |mut out, t| {
            pieces_of(mesh.corners(t).map(|p| local(&p)), dims, &mut out);
            out
        })
        .reduce(Vec::new, |mut a, mut b| {
            a.append(&mut b);
            a
        });
    // The order within a cube is fixed too, so that the sums have the same bits whatever the number of threads.
    pieces.par_sort_unstable_by(|a, b| {
        (a.column, b.level).cmp(&(b.column, a.level)).then_with(|| {
            let key = |p: &Piece| [p.shadow[0], p.shadow[1], p.below[0], p.below[1]];
            let (x, y) = (key(a), key(b));
            x.iter()
                .zip(y)
                .map(|(x, y)| x.total_cmp(&y))
                .find(|o| o.is_ne())
                .unwrap_or(std::cmp::Ordering::Equal)
        })
    });
    let columns: Vec<&[Piece]> = pieces.chunk_by(|a, b| a.column == b.column).collect();
    let stacks: Option<Vec<Vec<Part>>> = columns.par_iter().map(|c| column(c, dims)).collect();
    let mut parts: Vec<Part> = stacks?.into_iter().flatten().collect();
    parts.par_sort_unstable_by_key(|p| p.node);
    Some(parts)
}

/// The parts of one column, from the top down; `None` when a cube is not between empty and full.
fn column(pieces: &[Piece], dims: [u32; 3]) -> Option<Vec<Part>> {
    let place = pieces[0].column;
    let mut out = Vec::new();
    let mut shadow = [0.0; 3];
    let mut add = |level: u32, shadow: &[f64; 3], below: &[f64; 4]| -> Option<()> {
        let volume = below[0] + shadow[0];
        if !(-ROUNDING..=1.0 + ROUNDING).contains(&volume) {
            return None;
        }
        if volume < LEAST {
            return Some(());
        }
        let node = place + dims[0] * dims[1] * level;
        if volume > 1.0 - LEAST {
            out.push(Part { node, fraction: 1.0, offset: [0.0; 3] });
            return Some(());
        }
        let moment = [below[1] + shadow[1], below[2] + shadow[2], below[3] + 0.5 * shadow[0]];
        let centroid = [moment[0] / volume, moment[1] / volume, moment[2] / volume - 0.5];
        out.push(Part { node, fraction: volume as f32, offset: centroid.map(|c| c.clamp(-0.5, 0.5) as f32) });
        Some(())
    };
    let mut next = pieces[0].level;
    for group in pieces.chunk_by(|a, b| a.level == b.level) {
        let level = group[0].level;
        while next > level {
            add(next, &shadow, &[0.0; 4])?;
            next -= 1;
        }
        let mut below = [0.0; 4];
        let mut own = [0.0; 3];
        for p in group {
            (0..4).for_each(|i| below[i] += p.below[i]);
            (0..3).for_each(|i| own[i] += p.shadow[i]);
        }
        add(level, &shadow, &below)?;
        (0..3).for_each(|i| shadow[i] += own[i]);
        next = level.wrapping_sub(1);
    }
    // Below the last piece nothing may be left.
    (shadow[0].abs() < ROUNDING).then_some(out)
}

/// Appends the pieces of one triangle given in cells.
fn pieces_of(corners: [Vec3; 3], dims: [u32; 3], out: &mut Vec<Piece>) {
    slabs(&corners, 0, dims[0], &mut |i, strip| {
        slabs(strip, 1, dims[1], &mut |j, bar| {
            slabs(bar, 2, dims[2], &mut |k, piece| {
                let floor = Vec3::new(f64::from(i) + 0.5, f64::from(j) + 0.5, f64::from(k));
                let mut sum = Piece { column: i + dims[0] * j, level: k, ..Piece::default() };
                for t in 1..piece.len() - 1 {
                    integrate([piece[0] - floor, piece[t] - floor, piece[t + 1] - floor], &mut sum);
                }
                out.push(sum);
            });
        });
    });
}

/// Cuts a convex polygon by the planes at whole numbers along `axis` and hands on each strip.
fn slabs(polygon: &[Vec3], axis: usize, n: u32, then: &mut dyn FnMut(u32, &[Vec3])) {
    let (lo, hi) =
        polygon.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), p| (l.min(p[axis]), h.max(p[axis])));
    let last = f64::from(n) - 1.0;
    let first = lo.floor().clamp(0.0, last) as u32;
    let end = hi.floor().clamp(0.0, last) as u32;
    if first == end {
        return then(first, polygon);
    }
    for i in first..=end {
        let mut strip: [Vec3; 12] = [Vec3::zeros(); 12];
        let mut count = polygon.len().min(10);
        strip[..count].copy_from_slice(&polygon[..count]);
        if i > first {
            count = clip(&mut strip, count, axis, f64::from(i), 1.0);
        }
        if i < end {
            count = clip(&mut strip, count, axis, f64::from(i) + 1.0, -1.0);
        }
        if count >= 3 {
            then(i, &strip[..count]);
        }
    }
}

/// Keeps what lies at or beyond the plane (`side` 1) or before it (-1); a triangle cut by six planes has at most nine corners.
fn clip(polygon: &mut [Vec3; 12], count: usize, axis: usize, at: f64, side: f64) -> usize {
    let old = *polygon;
    let mut n = 0;
    for i in 0..count {
        let (a, b) = (old[i], old[(i + 1) % count]);
        let (da, db) = (side * (a[axis] - at), side * (b[axis] - at));
        if da >= 0.0 && n < 12 {
            polygon[n] = a;
            n += 1;
        }
        if (da > 0.0 && db < 0.0 || da < 0.0 && db > 0.0) && n < 12 {
            let mut p = a + (b - a) * (da / (da - db));
            p[axis] = at;
            polygon[n] = p;
            n += 1;
        }
    }
    n
}

/// Adds the integrals over one triangle of the piece.
fn integrate([a, b, c]: [Vec3; 3], sum: &mut Piece) {
    let (u, v) = (b - a, c - a);
    let third = (u.x * v.y - u.y * v.x) / 6.0;
    if third == 0.0 {
        return;
    }
    for m in [(a + b) * 0.5, (b + c) * 0.5, (c + a) * 0.5] {
        sum.shadow[0] += third;
        sum.shadow[1] += third * m.x;
        sum.shadow[2] += third * m.y;
        sum.below[0] += third * m.z;
        sum.below[1] += third * m.x * m.z;
        sum.below[2] += third * m.y * m.z;
        sum.below[3] += third * 0.5 * m.z * m.z;
    }
}

/// Fractions of a plane through each cube as the field has it.
fn read(field: &Field) -> Vec<Part> {
    let part = |node: u32| {
        let at = place(node, field);
        let fraction = (0.5 + field.node(at) / field.cell).clamp(0.0, 1.0) as f32;
        if fraction <= 0.0 {
            return None;
        }
        let mut offset = [0.0; 3];
        if fraction < 1.0 {
            let [x, y, z] = at.map(f64::from);
            let (_, g) = field.depth_gradient(&(field.origin + field.cell * Vec3::new(x, y, z)));
            let shift = 0.5 * (1.0 - f64::from(fraction));
            offset = (g.try_normalize(1e-12).unwrap_or_else(Vec3::zeros) * shift).map(|c| c as f32).into();
        }
        Some(Part { node, fraction, offset })
    };
    let nodes = u32::try_from(field.nodes()).unwrap_or(u32::MAX);
    (0..nodes).into_par_iter().filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::field::build::{FieldParams, Resolution, Silent, build};
    use crate::geometry::mass::mass_properties;
    use crate::geometry::shapes;

    fn cut_into(mesh: &TriMesh, cell: f64) -> (Parts, Field) {
        let params = FieldParams { resolution: Resolution::Cell(cell), padding: 3 };
        let (field, _) = build(mesh, &params, &Silent).expect("builds");
        (parts(mesh, &field), field)
    }

    #[test]
    fn parts_sum_to_volume_and_centroid_of_the_mesh() {
        for mesh in [shapes::torus(0.06, 0.02, 48, 24), shapes::cuboid(Vec3::new(0.1, 0.07, 0.013))] {
            let (parts, field) = cut_into(&mesh, 0.0037);
            assert!(parts.exact);
            let want = mass_properties(&mesh);
            let (nx, ny) = (field.dims[0], field.dims[1]);
            let (mut volume, mut moment) = (0.0, Vec3::zeros());
            for p in &parts.parts {
                let place = Vec3::new(
                    f64::from(p.node % nx),
                    f64::from(p.node / nx % ny),
                    f64::from(p.node / (nx * ny)),
                );
                let v = f64::from(p.fraction) * field.cell.powi(3);
                volume += v;
                moment +=
                    (field.origin.coords + field.cell * (place + Vec3::from(p.offset.map(f64::from)))) * v;
            }
            assert!((volume / want.volume - 1.0).abs() < 1e-6, "{volume} {}", want.volume);
            assert!((moment / volume - want.centroid.coords).norm() < 1e-7);
        }
    }

    #[test]
    fn a_cut_cube_has_the_closed_form() {
        // A box whose top lies a fraction above a node plane: every cube of the top layer is cut alike.
        let mesh = shapes::cuboid(Vec3::new(0.05, 0.05, 0.05));
        let (parts, field) = cut_into(&mesh, 0.004);
        let top = parts.parts.iter().map(|p| p.node / (field.dims[0] * field.dims[1])).max().expect("parts");
        let floor = field.origin.z + field.cell * (f64::from(top) - 0.5);
        let (_, hi) = mesh.bounds().expect("a box");
        let want = (hi.z - floor) / field.cell;
        let middle = parts.parts.iter().find(|p| {
            p.node
                == field.dims[0] / 2
                    + field.dims[0] * (field.dims[1] / 2)
                    + field.dims[0] * field.dims[1] * top
        });
        let middle = middle.expect("the top layer has a middle");
        assert!((f64::from(middle.fraction) - want).abs() < 1e-6, "{middle:?} {want}");
        assert!((f64::from(middle.offset[2]) - (0.5 * want - 0.5)).abs() < 1e-6);
    }

    #[test]
    fn meshes_that_are_no_simple_solid_read_the_field() {
        let mut open = shapes::cuboid(Vec3::new(0.05, 0.05, 0.05));
        open.triangles.pop();
        assert!(!cut_into(&open, 0.004).0.exact);
        let mut twice = shapes::cuboid(Vec3::new(0.05, 0.05, 0.05));
        let n = twice.vertices.len() as u32;
        let (v, t) = (twice.vertices.clone(), twice.triangles.clone());
        twice.vertices.extend(v.iter().map(|p| p + Vec3::new(0.02, 0.013, 0.017)));
        twice.triangles.extend(t.iter().map(|t| t.map(|i| i + n)));
        assert!(!cut_into(&twice, 0.004).0.exact);
    }
}
