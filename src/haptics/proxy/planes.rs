//! The nearest point of a corner: what a proxy makes of the walls that it knows.

use crate::geometry::{Point, Vec3};

/// A half-space: n.x >= c.
#[derive(Clone, Copy)]
pub(super) struct Plane {
    pub(super) n: Vec3,
    pub(super) c: f64,
}

impl Plane {
    /// How far outside of it `x` is, m; negative inside.
    fn lacks(&self, x: &Point) -> f64 {
        self.c - self.n.dot(&x.coords)
    }
}

/// The planes that were found in a tick: those of a corner stand together.
#[derive(Clone, Copy)]
pub(super) struct Planes<const N: usize> {
    all: [Plane; N],
    len: usize,
}

/// The nearest point, and which planes hold it there: bit i for the i-th.
#[derive(Clone, Copy)]
pub(super) struct Nearest {
    pub(super) at: Point,
    pub(super) held: u32,
}

impl<const N: usize> Planes<N> {
    pub(super) const NONE: Self = Self { all: [Plane { n: Vec3::new(0.0, 0.0, 0.0), c: 0.0 }; N], len: 0 };

    pub(super) fn of(plane: Plane) -> Self {
        let mut planes = Self::NONE;
        planes.push(plane);
        planes
    }

    /// The oldest goes when there are too many.
    pub(super) fn push(&mut self, plane: Plane) {
        if self.len == self.all.len() {
            self.all.rotate_left(1);
            self.len -= 1;
        }
        if let Some(place) = self.all.get_mut(self.len) {
            *place = plane;
            self.len += 1;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn slice(&self) -> &[Plane] {
        self.all.get(..self.len).unwrap_or(&[])
    }

    fn hold(&self, y: &Point, slack: f64) -> bool {
        self.slice().iter().all(|p| p.lacks(y) <= slack)
    }

    /// The same, moved so far that `y` lies in all of them.
    pub(super) fn around(mut self, y: &Point) -> Self {
        for plane in self.all.iter_mut().take(self.len) {
            plane.c = plane.c.min(plane.n.dot(&y.coords));
        }
        self
    }

    /// The point of all half-spaces that is nearest to x, off by `slack` at most: of one to three planes whose multipliers are not
    /// negative and whose point lies in all of them (Karush-Kuhn-Tucker; the problem is convex). Planes that meet at an angle whose
    /// sine is below `least` count as parallel. `None` when they have no point in common.
    ///
    /// Each set is solved in an orthonormal frame grown from its first normal, so that the point lies on all its planes
    /// to rounding however flat the angle. Of several that hold within the slack it is the farthest: all others lack something.
    pub(super) fn nearest(&self, x: &Point, slack: f64, least: f64) -> Option<Nearest> {
        let found = |at: Point, held: u32| self.hold(&at, slack).then_some(Nearest { at, held });
        if let Some(nearest) = found(*x, 0) {
            return Some(nearest);
        }
        let planes = self.slice();
        // Of one alone it can only be the one that lacks most.
        let lacks = planes.iter().map(|p| p.lacks(x));
        let (i, most) = lacks.enumerate().max_by(|a, b| a.1.total_cmp(&b.1))?;
        if let Some(nearest) = found(x + planes.get(i)?.n * most, 1 << i) {
            return Some(nearest);
        }
        let mut best: Option<Nearest> = None;
        let farther = |best: &Option<Nearest>, at: &Point| {
            best.is_none_or(|b| (at - x).norm_squared() > (b.at - x).norm_squared())
        };
        for (i, p) in planes.iter().enumerate() {
            for (j, q) in planes.iter().enumerate().take(i) {
                if let Some(edge) = Edge::of(p, q, x, least)
                    && edge.presses()
                    && farther(&best, &edge.at)
                {
                    best = found(edge.at, 1 << i | 1 << j).or(best);
                }
            }
        }
        if best.is_some() {
            return best;
        }
        for (i, p) in planes.iter().enumerate() {
            for (j, q) in planes.iter().enumerate().take(i) {
                let Some(edge) = Edge::of(p, q, x, least) else { continue };
                for (k, r) in planes.iter().enumerate().take(j) {
                    if let Some(at) = edge.corner(q, r, least)
                        && farther(&best, &at)
                    {
                        best = found(at, 1 << i | 1 << j | 1 << k).or(best);
                    }
                }
            }
        }
        best
    }
}

/// Where two planes meet, nearest to a point.
struct Edge {
    /// First normal, and the direction across it in which the second is reached.
    n: Vec3,
    across: Vec3,
    /// Cosine and sine of the angle between them.
    cos: f64,
    sin: f64,
    /// How far to go along the two.
    lacks: f64,
    on: f64,
    at: Point,
}

impl Edge {
    fn of(p: &Plane, q: &Plane, x: &Point, least: f64) -> Option<Self> {
        let cos = p.n.dot(&q.n);
        let rest = q.n - p.n * cos;
        let sin = rest.norm();
        if sin.is_nan() || sin <= least {
            return None;
        }
        // Once more: what is left of nearly parallel ones cancels.
        let across = rest / sin;
        let across = (across - p.n * p.n.dot(&across)).normalize();
        let lacks = p.lacks(x);
        let foot = x + p.n * lacks;
        let on = q.lacks(&foot) / q.n.dot(&across);
        Some(Self { n: p.n, across, cos, sin, lacks, on, at: foot + across * on })
    }

    /// Both multipliers are not negative.
    fn presses(&self) -> bool {
        let b = self.on / self.sin;
        b >= 0.0 && self.lacks - b * self.cos >= 0.0
    }

    /// The corner with a third plane, where all three multipliers are not negative.
    fn corner(&self, q: &Plane, r: &Plane, least: f64) -> Option<Point> {
        let along = self.n.cross(&self.across);
        let slope = r.n.dot(&along);
        if slope.is_nan() || slope.abs() <= least {
            return None;
        }
        let far = r.lacks(&self.at) / slope;
        let c = far / slope;
        let b = (self.on - c * r.n.dot(&self.across)) / q.n.dot(&self.across);
        let a = self.lacks - b * self.cos - c * r.n.dot(&self.n);
        (a >= 0.0 && b >= 0.0 && c >= 0.0).then(|| self.at + along * far)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};

    /// The way to the nearest point is a sum of the normals that hold it, none of them negative, and all planes hold it: that
    /// is the definition.
    #[test]
    fn is_the_nearest_point_of_any_corner() {
        let mut rng = rand::rngs::SmallRng::seed_from_u64(3);
        let mut held = [0; 4];
        for case in 0..20_000 {
            let flat = [1.0, 1e-2, 1e-4, 1e-6][case % 4];
            let mut vector = |by: f64| Vec3::from([0; 3].map(|_| rng.random_range(-1.0..1.0))) * by;
            let up = vector(1.0).normalize();
            let mut planes = Planes::<6>::NONE;
            for _ in 0..1 + case % 6 {
                let n = (up + vector(flat)).normalize();
                planes.push(Plane { n, c: vector(0.01 * flat).x });
            }
            let x = Point::from(vector(0.01) - up * 0.005);
            let Some(nearest) = planes.nearest(&x, 1e-12, 1e-7) else {
                // Of six planes about one direction all have a point in common; only the sharpest may lack one.
                assert!(flat == 1.0, "{case}: none, {flat}");
                continue;
            };
            held[nearest.held.count_ones() as usize] += 1;
            assert!(planes.hold(&nearest.at, 1e-12));
            // No better one: from any other point of all of them x lies behind the plane through the nearest.
            for _ in 0..50 {
                let other = nearest.at + vector(0.01) + up * 0.01;
                if planes.hold(&other, 0.0) {
                    let way = nearest.at - x;
                    assert!(way.dot(&(other - nearest.at)) >= -1e-11, "{case}: {other} is nearer");
                }
            }
        }
        assert!(held.iter().skip(1).all(|n| *n > 200), "{held:?}");
    }
}
