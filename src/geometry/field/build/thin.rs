//! Walls and gaps too thin for the grid.
//!
//! From sample points on the triangles a ray runs inwards to where it leaves the solid again: the wall's thickness there. A
//! ray outwards to where it enters again: a gap. A wedge gets thin towards its tip and a scan has wrinkles of some
//! micrometres, so what counts is the width that at least one cell's worth of surface does not reach.

use super::{FieldError, Meter, Solid};
use crate::geometry::{Point, TriMesh, Vec3};
use rayon::prelude::*;

/// Samples lie this many cells apart on large triangles.
const SPACING: f64 = 4.0;
/// Most rows of samples on a triangle.
const ROWS: f64 = 16.0;
/// Surfaces inside the solid (of overlapping shells) that a ray may pass.
const PASSES: u32 = 4;
/// Least cosine between a ray and the normal where it ends: a wall's faces are about parallel, a corner's are not.
const FACING: f64 = 0.7;
/// Walls and gaps wider than this many cells are not looked for.
const WIDEST: f64 = 4.0;
/// Triangles of one task.
const TASK: usize = 512;

/// The thinnest found, in cells; infinite when none.
pub(super) struct Thin {
    pub(super) wall: f64,
    pub(super) gap: f64,
}

/// A sample: width in cells and the surface that it stands for in square cells.
type Sample = (f64, f64);

pub(super) fn measure(mesh: &TriMesh, solid: &Solid, meter: &Meter) -> Result<Thin, FieldError> {
    let tasks: Vec<[Vec<Sample>; 2]> = mesh
        .triangles
        .par_chunks(TASK)
        .enumerate()
        .map(|(task, triangles)| {
            let mut found = [Vec::new(), Vec::new()];
            for t in 0..triangles.len() {
                if t % 64 == 0 {
                    meter.check()?;
                }
                probe(mesh, solid, task * TASK + t, &mut found);
            }
            Ok(found)
        })
        .collect::<Result<_, FieldError>>()?;
    let thinnest = |kind: usize| {
        let mut all: Vec<Sample> = tasks.iter().flat_map(|t| &t[kind]).copied().collect();
        all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let mut surface = 0.0;
        let enough = |s: &&Sample| {
            surface += s.1;
            surface >= 1.0
        };
        all.iter().find(enough).map_or(f64::INFINITY, |s| s.0)
    };
    Ok(Thin { wall: thinnest(0), gap: thinnest(1) })
}

fn probe(mesh: &TriMesh, solid: &Solid, triangle: usize, found: &mut [Vec<Sample>; 2]) {
    let [a, b, c] = mesh.corners(triangle);
    let area_vector = (b - a).cross(&(c - a)) * 0.5;
    let area = area_vector.norm() / solid.grid.cell.powi(2);
    let Some(normal) = area_vector.try_normalize(0.0).filter(|n| n.iter().all(|x| x.is_finite())) else {
        return;
    };
    let rows = (area.sqrt() / SPACING).ceil().clamp(1.0, ROWS) as u32;
    // The centroids of rows^2 similar parts of the triangle, those that point the same way and those upside down.
    let share = area / f64::from(rows * rows);
    let part = 1.0 / f64::from(rows);
    for i in 0..rows {
        for j in 0..rows - i {
            for third in [1.0 / 3.0, 2.0 / 3.0] {
                let (u, v) = ((f64::from(i) + third) * part, (f64::from(j) + third) * part);
                if third > 0.5 && i + j + 2 > rows {
                    continue;
                }
                let p = a + (b - a) * u + (c - a) * v;
                // How far beside a surface its sides are asked: far less than a cell, far more than single precision.
                let aside = (1e-3 * solid.grid.cell).max(1e-5 * solid.bvh.unit());
                if solid.inside(&(p - normal * aside)) && !solid.inside(&(p + normal * aside)) {
                    found[0].extend(run(mesh, solid, &p, -normal, true, aside).map(|t| (t, share)));
                    found[1].extend(run(mesh, solid, &p, normal, false, aside).map(|t| (t, share)));
                }
            }
        }
    }
}

/// Length in cells, if below [`WIDEST`], of the run from a point `p` of the solid's surface along `dir` through the solid
/// (`wall`) or through free space, if it ends at a surface that faces back.
fn run(mesh: &TriMesh, solid: &Solid, p: &Point, dir: Vec3, wall: bool, aside: f64) -> Option<f64> {
    let (bvh, longest) = (solid.bvh, WIDEST * solid.grid.cell);
    let facing = if wall { 1.0 } else { -1.0 };
    let mut gone = 0.0;
    for _ in 0..PASSES {
        let o = bvh.to_local(&(p + dir * gone)).map(|x| x as f32);
        let d = [dir.x as f32, dir.y as f32, dir.z as f32];
        let (t, hit) = bvh.first_hit(o, d, ((longest - gone) / bvh.unit()) as f32, facing as f32)?;
        let end = gone + f64::from(t) * bvh.unit();
        if solid.inside(&(p + dir * (end + aside))) != wall {
            let [a, b, c] = mesh.corners(hit as usize);
            let normal = (b - a).cross(&(c - a)).normalize();
            return (normal.dot(&dir) * facing > FACING).then_some(end / solid.grid.cell);
        }
        gone = end + aside;
    }
    None
}
