//! A shell from the surface cells of a distance field: a tool that is known as a field alone.

use super::PointShell;
use super::build::{Candidate, ShellError, ShellParams, checked_count, thin};
use crate::geometry::field::Field;
use crate::geometry::{Point, Vec3};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng;
use std::f64::consts::PI;

/// Half width of the band of nodes about the surface, cells: every place of the surface has a node in it (half a cell's diagonal, 0.87,
/// away). The smoothed delta below sums to the area of a plane along the grid exactly, of one askew within 0.8 %.
const BAND: f64 = 1.5;
/// Newton's steps onto the surface, how far from it a point may be left, and how much farther than its depth it may go, cells.
const STEPS: u32 = 4;
const ON_SURFACE: f64 = 0.05;
const ASTRAY: f64 = 0.1;
/// Candidates that there must be for each point: fewer leave no choice, and the points lie as the grid does.
const CHOICE: f64 = 3.0;

impl PointShell {
    /// Samples the zero surface of a signed distance field (the tool's frame is the field's). Each node within one and a half cells of the
    /// surface is moved onto it along the gradient and stands for the area delta(depth) h^3, delta a cosine 3 h wide (the co-area formula;
    /// Engquist, Tornberg and Tsai, J. Comput. Phys. 207, 2005). Nodes that the gradient does not lead to the surface (in the middle of thin walls, at sharp
    /// edges) have their place in the covering radius, which counts from the field's own surface: it rounds edges and corners off by up to a cell. Allocates;
    /// not for the servo.
    ///
    /// # Errors
    /// [`ShellError`]; asked for more points than the cells have choice for.
    pub fn from_field(field: &Field, params: ShellParams) -> Result<Self, ShellError> {
        let h = field.cell;
        let band = BAND * h;
        let (mut candidates, mut lost, mut missing) = (Vec::new(), Vec::new(), 0.0);
        let [nx, ny, nz] = field.dims;
        for (z, y) in (0..nz).flat_map(|z| (0..ny).map(move |y| (z, y))) {
            for x in 0..nx {
                let node = field.origin + nalgebra::Vector3::new(x, y, z).map(f64::from) * h;
                let depth = field.depth(&node);
                if depth.abs() >= band {
                    continue;
                }
                let weight = (1.0 + (PI * depth / band).cos()) / (2.0 * band) * h.powi(3);
                match onto(field, &node, depth) {
                    Some((at, normal)) => candidates.push(Candidate { at, normal, weight }),
                    None => {
                        lost.push(node);
                        missing += weight;
                    }
                }
            }
        }
        let found: f64 = candidates.iter().map(|c| c.weight).sum();
        if found.is_nan() || found <= 0.0 {
            return Err(ShellError::Empty);
        }
        let total = found + missing;
        candidates.iter_mut().for_each(|c| c.weight *= total / found);
        let want = checked_count(params.density, total)?;
        if CHOICE * want > candidates.len() as f64 {
            return Err(ShellError::Parameter(format!(
                "{want:.0} points are too many for cells of {h} m: {:.0} at most, or a finer field",
                candidates.len() as f64 / CHOICE
            )));
        }
        let places: Vec<Point> = candidates.iter().map(|c| c.at).collect();
        let mut shell = thin(candidates, Vec::new(), params, &mut Pcg64Mcg::seed_from_u64(params.seed));
        // A place of the surface is within half a cell's diagonal of a node, and that node's place on the surface within as much of it and what
        // it may go astray; a node without one is itself the place.
        let gap = (3f64.sqrt() + ASTRAY + ON_SURFACE) * h;
        let farthest = shell.farthest(places.into_iter().chain(lost));
        shell.set_covering_radius(farthest + gap);
        Ok(shell)
    }
}

/// The place of the surface that a node at such a depth leads to, and the unit normal inwards; `None` where the field leads to none near it.
fn onto(field: &Field, node: &Point, depth: f64) -> Option<(Point, Vec3)> {
    let mut at = *node;
    for _ in 0..STEPS {
        let (depth, gradient) = field.cubic(&at);
        let square = gradient.norm_squared();
        // A gradient that short has no side.
        if !(square > 0.25) {
            return None;
        }
        at -= gradient * (depth / square);
    }
    let (left, gradient) = field.cubic(&at);
    let normal = gradient.try_normalize(0.5)?;
    let cell = field.cell;
    let near = left.abs() <= ON_SURFACE * cell && (at - node).norm() <= depth.abs() + ASTRAY * cell;
    near.then_some((at, normal))
}
