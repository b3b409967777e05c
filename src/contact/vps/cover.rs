//! Covering radius of a set of points on a mesh: a guaranteed upper bound, within a few percent of the truth.

use super::nearest::PointGrid;
use crate::geometry::Point;

/// Nearest-point searches that a measurement may spend before it settles for a wider bound.
const MAX_SEARCHES: usize = 3_000_000;

/// No point of the triangles is farther than the result from its nearest of `points`, m.
///
/// For a triangle with corners v_k and any point s, the largest distance from the triangle to s is
/// max |v_k - s|. The nearest points of the corners give three such bounds; where the best of them exceeds the
/// largest distance seen at any corner by more than 3 %, the triangle is split into four.
pub(super) fn covering_radius(triangles: &[[Point; 3]], points: &[Point]) -> f64 {
    let area: f64 = triangles.iter().map(|c| 0.5 * (c[1] - c[0]).cross(&(c[2] - c[0])).norm()).sum();
    let grid = PointGrid::new(points, (area / points.len().max(1) as f64).sqrt());
    let mut seen: f64 = 0.0;
    let mut searches = 0;
    let mut settled: f64 = 0.0;
    let mut stack: Vec<[Point; 3]> = Vec::new();
    // First pass over whole triangles raises `seen` early, so that fewer need a split.
    let mut open: Vec<[Point; 3]> = triangles.to_vec();
    while !open.is_empty() {
        let mut bounds = Vec::with_capacity(open.len());
        for corners in &open {
            let near = corners.map(|v| grid.nearest(points, &v));
            searches += 3;
            let mut bound = f64::INFINITY;
            for (s, d) in near.into_iter().flatten() {
                seen = seen.max(d);
                let s = points[s as usize];
                bound = bound.min(corners.iter().fold(0.0, |m: f64, v| m.max((v - s).norm())));
            }
            bounds.push(bound);
        }
        for (corners, bound) in open.iter().zip(bounds) {
            if bound <= 1.03 * seen || searches > MAX_SEARCHES {
                settled = settled.max(bound);
            } else {
                stack.push(*corners);
            }
        }
        open.clear();
        for [a, b, c] in stack.drain(..) {
            let (ab, bc, ca) = (nalgebra::center(&a, &b), nalgebra::center(&b, &c), nalgebra::center(&c, &a));
            open.extend([[a, ab, ca], [ab, b, bc], [ca, bc, c], [ab, bc, ca]]);
        }
    }
    settled.max(seen)
}
