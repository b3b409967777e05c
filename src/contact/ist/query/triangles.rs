//! The closest points of two triangles.

use crate::geometry::Point;
use crate::geometry::bvh::closest_on_triangle;

/// Closest points of two triangles, the first one's first; equal where they meet. Triangles without area count as
/// segments or points. Real-time safe.
///
/// The distance of two triangles that do not meet is reached at a corner of one and the other, or between two edges;
/// two that meet do so where an edge of one passes through the other.
pub(super) fn closest_of_triangles(a: &[Point; 3], b: &[Point; 3]) -> (Point, Point) {
    let mut best = (a[0], b[0]);
    let mut least = f64::INFINITY;
    let mut take = |p: Point, q: Point| {
        let d = (p - q).norm_squared();
        if d < least {
            least = d;
            best = (p, q);
        }
    };
    for i in 0..3 {
        take(a[i], closest_on_triangle(&a[i], b));
        take(closest_on_triangle(&b[i], a), b[i]);
        let (p, q) = (&a[i], &a[(i + 1) % 3]);
        for j in 0..3 {
            let (s, t) = closest_of_segments(p, q, &b[j], &b[(j + 1) % 3]);
            take(s, t);
        }
    }
    for i in 0..3 {
        if let Some(p) = passes(&a[i], &a[(i + 1) % 3], b).or_else(|| passes(&b[i], &b[(i + 1) % 3], a)) {
            return (p, p);
        }
    }
    best
}

/// Where a segment passes through a triangle, if it does.
fn passes(p: &Point, q: &Point, t: &[Point; 3]) -> Option<Point> {
    let d = q - p;
    let (u, v) = (t[1] - t[0], t[2] - t[0]);
    // Moeller and Trumbore, "Fast, minimum storage ray/triangle intersection", 1997.
    let h = d.cross(&v);
    let det = u.dot(&h);
    if det.abs() <= 1e-14 * u.norm() * v.norm() * d.norm() {
        return None;
    }
    let s = p - t[0];
    let a = s.dot(&h) / det;
    let w = s.cross(&u);
    let b = d.dot(&w) / det;
    let at = v.dot(&w) / det;
    (a >= 0.0 && b >= 0.0 && a + b <= 1.0 && (0.0..=1.0).contains(&at)).then(|| p + d * at)
}

/// Closest points of two segments (Ericson, Real-Time Collision Detection, 2005, section 5.1.9).
fn closest_of_segments(p1: &Point, q1: &Point, p2: &Point, q2: &Point) -> (Point, Point) {
    let (d1, d2, r) = (q1 - p1, q2 - p2, p1 - p2);
    let (a, e, f) = (d1.norm_squared(), d2.norm_squared(), d2.dot(&r));
    let (c, b) = (d1.dot(&r), d1.dot(&d2));
    let part = |x: f64, y: f64| if y > 0.0 { (x / y).clamp(0.0, 1.0) } else { 0.0 };
    let den = a * e - b * b;
    let mut s = if den > 1e-12 * a * e { ((b * f - c * e) / den).clamp(0.0, 1.0) } else { 0.0 };
    let mut t = if e > 0.0 { (b * s + f) / e } else { 0.0 };
    if t < 0.0 {
        t = 0.0;
        s = part(-c, a);
    } else if t > 1.0 {
        t = 1.0;
        s = part(b - c, a);
    }
    (p1 + d1 * s, p2 + d2 * t)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Vec3;
    use proptest::prelude::*;

    fn tri(v: &[f64; 9]) -> [Point; 3] {
        std::array::from_fn(|i| Point::new(v[3 * i], v[3 * i + 1], v[3 * i + 2]))
    }

    #[test]
    fn known_pairs() {
        let flat = tri(&[0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
        let above = flat.map(|p| p + Vec3::new(0.1, 0.1, 0.5));
        let (a, b) = closest_of_triangles(&flat, &above);
        assert!(((a - b).norm() - 0.5).abs() < 1e-12);
        let through = tri(&[0.2, 0.2, -1.0, 0.2, 0.2, 1.0, 5.0, 5.0, 0.0]);
        let (a, b) = closest_of_triangles(&flat, &through);
        assert_eq!(a, b);
        // Edges crossing at right angles, a tenth apart.
        let edge = tri(&[0.5, -1.0, 0.1, 0.5, 1.0, 0.1, 0.5, 0.0, 3.0]);
        let (a, b) = closest_of_triangles(&tri(&[0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.5, 0.0, -2.0]), &edge);
        assert!(((a - b).norm() - 0.1).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn never_farther_than_any_sampled_pair(
            a in prop::array::uniform9(-1.0..1.0f64), b in prop::array::uniform9(-1.0..1.0f64)
        ) {
            let (a, b) = (tri(&a), tri(&b));
            let (p, q) = closest_of_triangles(&a, &b);
            let d = (p - q).norm();
            // Both points lie on their triangles.
            prop_assert!((closest_on_triangle(&p, &a) - p).norm() < 1e-9);
            prop_assert!((closest_on_triangle(&q, &b) - q).norm() < 1e-9);
            const N: usize = 12;
            let on = |t: &[Point; 3], i: usize, j: usize| {
                t[0] + (t[1] - t[0]) * (i as f64 / N as f64) + (t[2] - t[0]) * (j as f64 / N as f64)
            };
            for i in 0..=N {
                for j in 0..=N - i {
                    let s = on(&a, i, j);
                    prop_assert!((closest_on_triangle(&s, &b) - s).norm() >= d - 1e-9);
                }
            }
        }
    }
}
