//! Covering radius of a set of points on a mesh: a guaranteed upper bound, within a few percent of the truth.

use super::nearest::PointGrid;
use crate::geometry::{Point, TriMesh};
use rayon::prelude::*;

/// Nearest-point searches that a measurement may spend before it settles for a wider bound.
const MAX_SEARCHES: usize = 1_000_000;

/// A place and its nearest point, with the distance, m.
type Corner = (Point, Option<(u32, f64)>);

/// No point of the triangles is farther than the result from its nearest of `points`, m.
///
/// For a triangle with corners v_k and any point s, the largest distance from the triangle to s is
/// max |v_k - s|. The nearest points of the corners give three such bounds; where the best of them exceeds the
/// largest distance seen at any corner by more than 3 %, the triangle is cut in two across its longest side, so that
/// needles get shorter first.
pub(super) fn covering_radius(mesh: &TriMesh, points: &[Point]) -> f64 {
    let corners = (0..mesh.triangles.len()).map(|t| mesh.corners(t));
    let area: f64 = corners.map(|c| 0.5 * (c[1] - c[0]).cross(&(c[2] - c[0])).norm()).sum();
    let grid = PointGrid::new(points, (area / points.len().max(1) as f64).sqrt());
    // Most vertices are corners of several triangles.
    let near: Vec<Corner> = mesh.vertices.par_iter().map(|v| (*v, grid.nearest(points, v))).collect();
    let mut open: Vec<[Corner; 3]> = mesh.triangles.iter().map(|t| t.map(|v| near[v as usize])).collect();
    let mut seen = open.iter().flatten().filter_map(|c| c.1).fold(0.0, |most: f64, n| most.max(n.1));
    let mut left = (MAX_SEARCHES + 1).saturating_sub(near.len());
    let mut settled: f64 = 0.0;
    while !open.is_empty() {
        let enough = 1.03 * seen;
        let bounds: Vec<f64> = open.par_iter().map(|corners| bound(corners, points)).collect();
        let mut cut = Vec::new();
        for (corners, bound) in open.into_iter().zip(bounds) {
            if bound <= enough || cut.len() == left {
                settled = settled.max(bound);
            } else {
                cut.push(corners);
            }
        }
        left -= cut.len();
        let halves: Vec<[[Corner; 3]; 2]> = cut
            .par_iter()
            .map(|corners| {
                let side = |k: usize| (corners[(k + 1) % 3].0 - corners[k].0).norm_squared();
                let k = (0..3).max_by(|&a, &b| side(a).total_cmp(&side(b))).unwrap_or(0);
                let [a, b, c] = [0, 1, 2].map(|i| corners[(k + i) % 3]);
                let at = nalgebra::center(&a.0, &b.0);
                let middle = (at, grid.nearest(points, &at));
                [[a, middle, c], [middle, b, c]]
            })
            .collect();
        seen = halves.iter().filter_map(|h| h[0][1].1).fold(seen, |most, n| most.max(n.1));
        open = halves.into_flattened();
    }
    settled.max(seen)
}

/// The least bound of a triangle's distances to the nearest points of its corners, m.
fn bound(corners: &[Corner; 3], points: &[Point]) -> f64 {
    corners.iter().filter_map(|c| c.1).fold(f64::INFINITY, |least, (s, _)| {
        let s = points[s as usize];
        least.min(corners.iter().fold(0.0, |m: f64, c| m.max((c.0 - s).norm())))
    })
}
