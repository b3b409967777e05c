//! Walls and gaps too thin for the grid.
//!
//! From sample points on the triangles a ray runs inwards to where it leaves the solid again: the wall's thickness there. A
//! ray outwards to where it enters again: a gap. Sampling finds what is about as wide as its triangles or a few cells.

use super::{FieldError, Meter, Solid};
use crate::geometry::{Point, TriMesh, Vec3};
use rayon::prelude::*;

/// Samples lie this many cells apart on large triangles.
const SPACING: f64 = 4.0;
/// Most rows of samples on a triangle.
const ROWS: f64 = 16.0;
/// Surfaces inside the solid (of overlapping shells) that a ray may pass.
const PASSES: u32 = 8;
/// Triangles of one task, which share the shortest length found so far.
const TASK: usize = 512;

/// The thinnest found, in cells; infinite when none.
pub(super) struct Thin {
    pub(super) wall: f64,
    pub(super) gap: f64,
}

pub(super) fn measure(mesh: &TriMesh, solid: &Solid, meter: &Meter) -> Result<Thin, FieldError> {
    let none = || Thin { wall: f64::INFINITY, gap: f64::INFINITY };
    mesh.triangles
        .par_chunks(TASK)
        .enumerate()
        .map(|(task, triangles)| {
            let mut found = none();
            for t in 0..triangles.len() {
                if t % 64 == 0 {
                    meter.check()?;
                }
                probe(solid, &mesh.corners(task * TASK + t), &mut found);
            }
            Ok(found)
        })
        .try_reduce(none, |a, b| Ok(Thin { wall: a.wall.min(b.wall), gap: a.gap.min(b.gap) }))
}

fn probe(solid: &Solid, corners: &[Point; 3], found: &mut Thin) {
    let [a, b, c] = corners;
    let area_vector = (b - a).cross(&(c - a)) * 0.5;
    let area = area_vector.norm();
    let Some(normal) = area_vector.try_normalize(0.0).filter(|n| n.iter().all(|x| x.is_finite())) else {
        return;
    };
    let rows = (area.sqrt() / (SPACING * solid.grid.cell)).ceil().clamp(1.0, ROWS) as u32;
    for i in 0..rows {
        for j in 0..rows - i {
            let (u, v) = [(i, j)].map(|(i, j)| {
                let step = 1.0 / f64::from(rows);
                ((f64::from(i) + 1.0 / 3.0) * step, (f64::from(j) + 1.0 / 3.0) * step)
            })[0];
            let p = a + (b - a) * u + (c - a) * v;
            if let Some(t) = crossing(solid, &p, -normal, true, found.wall) {
                found.wall = t;
            }
            if let Some(t) = crossing(solid, &p, normal, false, found.gap) {
                found.gap = t;
            }
        }
    }
}

/// Length in cells, if shorter than `limit`, of the run from surface point `p` along `dir` through the solid (`wall`) or
/// through free space; `None` when `p` is not a border of that kind.
fn crossing(solid: &Solid, p: &Point, dir: Vec3, wall: bool, limit: f64) -> Option<f64> {
    let (bvh, cell) = (solid.bvh, solid.grid.cell);
    // How far beside a surface its side is asked: far less than a cell, far more than single precision.
    let aside = (1e-3 * cell).max(1e-5 * bvh.unit());
    let within = |q: &Point| (solid.winding.number(q) > 0.5) == wall;
    let mut gone = 0.0;
    for pass in 0..PASSES {
        let from = p + dir * gone;
        let room = ((limit * cell - gone) / bvh.unit()) as f32;
        let o = bvh.to_local(&from).map(|x| x as f32);
        let d = [dir.x as f32, dir.y as f32, dir.z as f32];
        let t = bvh.first_hit(o, d, room, if wall { 1.0 } else { -1.0 })?;
        // Only now, since most rays are longer than the shortest so far.
        if pass == 0 && (!within(&(p + dir * aside)) || within(&(p - dir * aside))) {
            return None;
        }
        let end = gone + f64::from(t) * bvh.unit();
        if !within(&(p + dir * (end + aside))) {
            return (end < limit * cell).then_some(end / cell);
        }
        gone = end + aside;
    }
    None
}
