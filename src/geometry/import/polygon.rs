//! Polygons to triangles, concave ones too, with the area kept.
//!
//! Ears are cut (Meisters 1975) in the projection along the dominant axis of Newell's normal, which keeps
//! coordinates exact. Every corner stays a corner of a triangle, also where it lies in the middle of a straight
//! side, because a neighbour may end there. What has no ear (self-crossing outlines) goes to the `earcut` crate.

use super::soup::Soup;
use super::watch::{STRIDE, Stopped, Watch};
use crate::geometry::Vec3;

/// Triangles of all faces, and the number of polygons that cross themselves.
pub(super) fn triangulate(soup: &Soup<'_>, watch: &Watch<'_>) -> Result<(Vec<[u32; 3]>, usize), Stopped> {
    let mut out = Vec::with_capacity(soup.corners.len() - 2 * soup.faces.len());
    let mut cutter = Cutter::default();
    let mut crossing = 0;
    let mut begin = 0;
    for (i, face) in soup.faces.iter().enumerate() {
        watch.at(i)?;
        let corners = &soup.corners[begin..face.end as usize];
        begin = face.end as usize;
        match *corners {
            [a, b, c] => out.push([a, b, c]),
            _ => crossing += usize::from(!cutter.cut(corners, &soup.vertices, &mut out, watch)?),
        }
    }
    Ok((out, crossing))
}

/// Reused buffers.
#[derive(Default)]
struct Cutter {
    ring: Vec<u32>,
    flat: Vec<[f64; 2]>,
    next: Vec<usize>,
    prev: Vec<usize>,
    ears: Vec<[usize; 3]>,
}

impl Cutter {
    /// Appends the triangles of a polygon; false when its outline crosses itself, so that no answer is right.
    fn cut(
        &mut self,
        corners: &[u32],
        vertices: &[[f64; 3]],
        out: &mut Vec<[u32; 3]>,
        watch: &Watch<'_>,
    ) -> Result<bool, Stopped> {
        self.ring.clear();
        for &c in corners {
            if self.ring.last() != Some(&c) {
                self.ring.push(c);
            }
        }
        if self.ring.len() > 1 && self.ring.first() == self.ring.last() {
            self.ring.pop();
        }
        if self.ring.len() < 3 {
            // Degenerate; the repair stage counts it.
            out.push([corners[0], corners[1], corners[2]]);
            return Ok(true);
        }
        let area2 = self.project(vertices);
        self.ears.clear();
        let whole = area2 > 0.0 && (self.ears(true, watch)? || self.ears(false, watch)?);
        if !whole {
            self.fallback();
        }
        let ring = &self.ring;
        out.extend(self.ears.iter().map(|e| e.map(|i| ring[i])));
        let kept: f64 =
            self.ears.iter().map(|&[a, b, c]| cross(self.flat[a], self.flat[b], self.flat[c]).abs()).sum();
        Ok((kept - area2).abs() <= 1e-9 * kept)
    }

    /// Drops the coordinate along which the polygon's normal is largest, so that the outline runs anticlockwise.
    /// Returns twice its area.
    fn project(&mut self, vertices: &[[f64; 3]]) -> f64 {
        let at = |i: usize| Vec3::from(vertices[self.ring[i] as usize]);
        let (n, origin) = (self.ring.len(), at(0));
        let normal = (1..n - 1).fold(Vec3::zeros(), |s, i| s + (at(i) - origin).cross(&(at(i + 1) - origin)));
        let axis = normal.iamax();
        let (mut u, mut v) = ((axis + 1) % 3, (axis + 2) % 3);
        if normal[axis] < 0.0 {
            (u, v) = (v, u);
        }
        self.flat.clear();
        self.flat.extend(self.ring.iter().map(|r| [vertices[*r as usize][u], vertices[*r as usize][v]]));
        normal[axis].abs()
    }

    /// Cuts ears until a triangle is left. `closed`: no other corner may lie even on an ear's border.
    fn ears(&mut self, closed: bool, watch: &Watch<'_>) -> Result<bool, Stopped> {
        let n = self.flat.len();
        self.ears.clear();
        self.next.clear();
        self.next.extend((0..n).map(|i| (i + 1) % n));
        self.prev.clear();
        self.prev.extend((0..n).map(|i| (i + n - 1) % n));
        if n == 4 && closed && self.quad() {
            return Ok(true);
        }
        // Cost is bounded: a polygon that takes more is left to the fallback.
        let mut work = 16 * n * n + 64;
        let (mut left, mut i, mut since, mut looked) = (n, 0, 0, 0);
        while left > 3 {
            let (a, c) = (self.prev[i], self.next[i]);
            if since > left || work == 0 {
                return Ok(false);
            }
            // Each step goes once round the polygon.
            looked += left;
            if looked >= STRIDE {
                looked = 0;
                watch.look()?;
            }
            if self.is_ear([a, i, c], closed, &mut work) {
                self.ears.push([a, i, c]);
                (self.next[a], self.prev[c]) = (c, a);
                left -= 1;
                since = 0;
                // Skipping a corner makes fatter triangles than cutting round one of them.
                i = self.next[c];
            } else {
                since += 1;
                i = c;
            }
        }
        let (a, c) = (self.prev[i], self.next[i]);
        self.ears.push([a, i, c]);
        Ok(cross(self.flat[a], self.flat[i], self.flat[c]) >= 0.0)
    }

    /// A convex quadrilateral is split along its shorter diagonal.
    fn quad(&mut self) -> bool {
        let [a, b, c, d] = [self.flat[0], self.flat[1], self.flat[2], self.flat[3]];
        let convex =
            cross(a, b, c) > 0.0 && cross(b, c, d) > 0.0 && cross(c, d, a) > 0.0 && cross(d, a, b) > 0.0;
        if convex {
            let length = |p: [f64; 2], q: [f64; 2]| (p[0] - q[0]).hypot(p[1] - q[1]);
            let split =
                if length(a, c) <= length(b, d) { [[0, 1, 2], [0, 2, 3]] } else { [[0, 1, 3], [1, 2, 3]] };
            self.ears.extend(split);
        }
        convex
    }

    fn is_ear(&self, [a, b, c]: [usize; 3], closed: bool, work: &mut usize) -> bool {
        let [p, q, r] = [self.flat[a], self.flat[b], self.flat[c]];
        if cross(p, q, r) <= 0.0 {
            return false;
        }
        let mut i = self.next[c];
        while i != a {
            *work = work.saturating_sub(1);
            let x = self.flat[i];
            // Only a corner that turns inwards, or lies straight, can stand in the way.
            let reflex = cross(self.flat[self.prev[i]], x, self.flat[self.next[i]]) <= 0.0;
            if reflex && x != p && x != q && x != r {
                let sides = [cross(p, q, x), cross(q, r, x), cross(r, p, x)];
                if sides.iter().all(|s| if closed { *s >= 0.0 } else { *s > 0.0 }) {
                    return false;
                }
            }
            i = self.next[i];
        }
        true
    }

    fn fallback(&mut self) {
        self.ears.clear();
        let mut triangles: Vec<u32> = Vec::new();
        earcut::Earcut::new().earcut(self.flat.iter().copied(), &[] as &[u32], &mut triangles);
        self.ears.extend(triangles.as_chunks::<3>().0.iter().map(|t| t.map(|i| i as usize)));
        if self.ears.is_empty() {
            // No area in any projection: a fan, which the repair stage will treat as degenerate.
            self.ears.extend((1..self.flat.len() - 1).map(|i| [0, i, i + 1]));
        }
        // The crate does not promise an orientation: the outline's is anticlockwise.
        for e in &mut self.ears {
            if cross(self.flat[e[0]], self.flat[e[1]], self.flat[e[2]]) < 0.0 {
                e.swap(1, 2);
            }
        }
    }
}

/// Twice the signed area of a flat triangle.
fn cross(a: [f64; 2], b: [f64; 2], c: [f64; 2]) -> f64 {
    (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
}

#[cfg(test)]
#[path = "polygon_tests.rs"]
mod tests;
