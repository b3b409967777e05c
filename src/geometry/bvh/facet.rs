//! One triangle in `f64`, prepared for several questions.

use crate::geometry::{Point, Vec3};

/// Lower than that, as a part of its longest edge, a triangle is this edge.
const FLAT: f64 = 1e-12;

/// A triangle as a planar frame: corner a, u along the longest edge, v towards the third corner. Of a sliver too the plane and the
/// width are accurate, which its barycentric coordinates are not. Degenerate triangles are segments or points.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facet {
    a: Point,
    u: Vec3,
    v: Vec3,
    length: f64,
    c: [f64; 2],
}

impl Facet {
    /// Real-time safe.
    pub(crate) fn new(corners: &[Point; 3]) -> Self {
        let [a, b, c] = corners;
        let lengths = [(b - a).norm_squared(), (c - b).norm_squared(), (a - c).norm_squared()];
        let (a, b, c) = if lengths[0] >= lengths[1] && lengths[0] >= lengths[2] {
            (a, b, c)
        } else if lengths[1] >= lengths[2] {
            (b, c, a)
        } else {
            (c, a, b)
        };
        let (ab, ac) = (b - a, c - a);
        let length = ab.norm();
        let u = if length > 0.0 { ab / length } else { Vec3::x() };
        let across = ac - u * u.dot(&ac);
        // Once more: that of a sliver cancels.
        let across = across - u * u.dot(&across);
        let height = across.norm();
        if height <= FLAT * length {
            let other = if u.x.abs() < 0.6 { Vec3::x() } else { Vec3::y() };
            return Self { a: *a, u, v: u.cross(&other).normalize(), length, c: [0.0; 2] };
        }
        Self { a: *a, u, v: across / height, length, c: [u.dot(&ac), height] }
    }

    /// The point of the triangle that is nearest to `p`, and the way from there to `p`; off by some roundings of the coordinates.
    /// Real-time safe.
    pub(crate) fn nearest(&self, p: &Point) -> (Point, Vec3) {
        let d = p - self.a;
        let (x, y) = (d.dot(&self.u), d.dot(&self.v));
        let (l, [cx, cy]) = (self.length, self.c);
        if cy > 0.0 && y >= 0.0 && cy * x >= cx * y && (cx - l) * y >= cy * (x - l) {
            let n = self.u.cross(&self.v);
            let way = n * d.dot(&n);
            return (p - way, way);
        }
        let along = |from: [f64; 2], to: [f64; 2]| {
            let (ex, ey) = (to[0] - from[0], to[1] - from[1]);
            let square = ex * ex + ey * ey;
            let t = if square > 0.0 { ((x - from[0]) * ex + (y - from[1]) * ey) / square } else { 0.0 };
            let t = t.clamp(0.0, 1.0);
            let (px, py) = (from[0] + t * ex, from[1] + t * ey);
            let far = (x - px).powi(2) + (y - py).powi(2);
            (far, px, py)
        };
        let mut best = along([0.0; 2], [l, 0.0]);
        for edge in [along([0.0; 2], self.c), along([l, 0.0], self.c)] {
            if edge.0 < best.0 {
                best = edge;
            }
        }
        let point = self.a + self.u * best.1 + self.v * best.2;
        (point, p - point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::bvh::closest_on_triangle;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn is_the_closest_point_of_any_triangle() {
        let mut rng = rand::rngs::SmallRng::seed_from_u64(7);
        for case in 0..20_000 {
            let mut point = || Point::from([0; 3].map(|_| rng.random_range(-1.0..1.0)));
            let (a, b, mut c, p) = (point(), point(), point(), point());
            match case % 4 {
                1 => c = a,
                2 => c = a + (b - a) * 0.3,
                3 => c = a + (b - a) * 0.3 + (c - a) * 1e-4,
                _ => {}
            }
            let want = (p - closest_on_triangle(&p, &[a, b, c])).norm();
            let (at, way) = Facet::new(&[a, b, c]).nearest(&p);
            assert!((way.norm() - want).abs() < 1e-13, "{case}: {} instead of {want}", way.norm());
            assert!((p - at - way).norm() < 1e-14);
        }
    }

    /// The height above a sliver is that above its plane, at any place of it.
    #[test]
    fn a_sliver_has_an_inside() {
        for width in [1e-3, 1e-6, 1e-8, 1e-10] {
            let corners =
                [Point::new(0.1, 0.2, 0.3), Point::new(1.1, 0.2, 0.3), Point::new(0.4, 0.2 + width, 0.3)];
            let facet = Facet::new(&corners);
            for k in 1..30 {
                let p = Point::new(0.1 + 0.03 * f64::from(k), 0.2 + 1e-3 * width, 0.3 + 1e-9);
                let (_, way) = facet.nearest(&p);
                assert!((way - Vec3::z() * 1e-9).norm() < 1e-13, "{width} {k}: {way}");
            }
        }
    }
}
