//! Where a ball's centre can go: the surface at its radius from an object, as the object's field has it, and the nearest place on it
//! to where it wants to be, without going through anything on the way.

use crate::contact::{Budget, Contact};
use crate::geometry::field::Field;
use crate::geometry::{Point, Vec3};

/// A way is looked at twice a cell. Walls that a field holds are two cells thick: half a cell of them is deeper than [`SLACK`].
const STEP: f64 = 0.5;
/// How deep a place on the way may lie, in cells: where it ends it is put right.
const SLACK: f64 = 0.1;
/// A free ball goes so much of its clearance at once: an interpolated field falls by at most sqrt(3) a metre.
const TRUST: f64 = 0.577;
/// It rests so far outside, in cells: rounding does not put it inside.
const AIM: f64 = 1e-4;
/// What is nearer than that to where it should be is there, in cells.
const THERE: f64 = 1e-4;
/// Most times that the way is corrected in one tick, and that a place is put right.
const ROUNDS: usize = 8;
const CORRECTIONS: usize = 4;
/// From the inside, where nothing is known of the way.
const ESCAPE: usize = 16;
/// Most reads of the field in a tick.
const READS: u32 = 640;
/// What the smallest budget has, and reads between two looks at the clock.
const LEAST_READS: u32 = 64;
const LOOK: u32 = 32;
const HALVINGS: u32 = 20;
/// Shortest gradient that tells a side.
const LEAST: f64 = 0.05;
/// Shortest gradient by which a step is measured.
const SHALLOW: f64 = 0.25;
/// A correction that gets so much of its way was one along a smooth surface.
const SMOOTH: f64 = 0.5;

/// A half-space: n.x >= c.
#[derive(Clone, Copy)]
struct Plane {
    n: Vec3,
    c: f64,
    /// Length of the gradient that it was taken from.
    slope: f64,
}

/// The planes that were found in a tick: those of a corner stand together.
#[derive(Clone, Copy)]
struct Planes {
    all: [Plane; 4],
    len: usize,
}

impl Planes {
    const NONE: Self = Self { all: [Plane { n: Vec3::new(0.0, 0.0, 0.0), c: 0.0, slope: 0.0 }; 4], len: 0 };

    fn of(plane: Plane) -> Self {
        let mut planes = Self::NONE;
        planes.push(plane);
        planes
    }

    /// The oldest goes when there are too many.
    fn push(&mut self, plane: Plane) {
        if self.len == self.all.len() {
            self.all.rotate_left(1);
            self.len -= 1;
        }
        if let Some(place) = self.all.get_mut(self.len) {
            *place = plane;
            self.len += 1;
        }
    }

    fn slice(&self) -> &[Plane] {
        self.all.get(..self.len).unwrap_or(&[])
    }

    fn hold(&self, y: &Point, slack: f64) -> bool {
        self.slice().iter().all(|p| p.n.dot(&y.coords) >= p.c - slack)
    }

    /// The point of all half-spaces that is nearest to x: the first set of up to three planes whose multipliers are not negative
    /// and whose point lies in all of them (Karush-Kuhn-Tucker; the problem is convex). `None` when they have none in common.
    fn nearest(&self, x: &Point, slack: f64) -> Option<Point> {
        if self.hold(x, slack) {
            return Some(*x);
        }
        let planes = self.slice();
        let lacks = |p: &Plane| p.c - p.n.dot(&x.coords);
        for p in planes {
            let y = x + p.n * lacks(p);
            if lacks(p) >= 0.0 && self.hold(&y, slack) {
                return Some(y);
            }
        }
        for (i, p) in planes.iter().enumerate() {
            for q in planes.iter().take(i) {
                let cross = p.n.dot(&q.n);
                let det = 1.0 - cross * cross;
                if det < 1e-6 {
                    continue;
                }
                let (a, b) = ((lacks(p) - cross * lacks(q)) / det, (lacks(q) - cross * lacks(p)) / det);
                let y = x + p.n * a + q.n * b;
                if a >= 0.0 && b >= 0.0 && self.hold(&y, slack) {
                    return Some(y);
                }
            }
        }
        for (i, p) in planes.iter().enumerate() {
            for (j, q) in planes.iter().enumerate().take(i) {
                for r in planes.iter().take(j) {
                    let (pq, qr, rp) = (p.n.cross(&q.n), q.n.cross(&r.n), r.n.cross(&p.n));
                    let det = p.n.dot(&qr);
                    if det.abs() < 1e-6 {
                        continue;
                    }
                    let y = Point::from((qr * p.c + rp * q.c + pq * r.c) / det);
                    let way = y - x;
                    let all = [way.dot(&qr), way.dot(&rp), way.dot(&pq)];
                    if all.iter().all(|m| m / det >= 0.0) && self.hold(&y, slack) {
                        return Some(y);
                    }
                }
            }
        }
        None
    }
}

/// Where a way ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slid {
    /// The place that is nearest to the target of those that can be reached; never inside.
    pub(super) at: Point,
    /// Where the free way ended, on the surface.
    pub(super) entry: Option<Point>,
    /// The target itself.
    pub(super) arrived: bool,
    /// The way was too long for one tick: it goes on in the next.
    pub(super) unfinished: bool,
}

/// An object's field for the centre of a ball.
pub(super) struct Surface<'a> {
    field: &'a Field,
    radius: f64,
    reads: u32,
    budget: Budget<'a>,
    late: bool,
}

impl<'a> Surface<'a> {
    pub(super) fn new(field: &'a Field, radius: f64, budget: Budget<'a>) -> Self {
        Self { field, radius, reads: 0, budget, late: false }
    }

    /// The way ends here for this tick: so many reads are spent, or the time is over. A first look is always had.
    fn spent(&mut self) -> bool {
        let most = if self.budget.units == 0 { READS } else { self.budget.units.clamp(LEAST_READS, READS) };
        self.late =
            self.late || (self.reads > LEAST_READS && self.budget.deadline.is_some_and(|d| d.passed()));
        self.reads > most || self.late
    }

    /// Puts what was read on the contact's account: a read is a unit.
    pub(super) fn charge(&self, contact: &mut Contact) {
        contact.work = contact.work.saturating_add(self.reads);
        contact.need = contact.need.saturating_add(self.reads.max(LEAST_READS));
        contact.deadline_hit |= self.late;
    }

    /// Of the ball, m.
    pub(super) fn radius(&self) -> f64 {
        self.radius
    }

    /// How deep the ball is, m; positive inside.
    pub(super) fn depth(&mut self, p: &Point) -> f64 {
        self.reads += 1;
        if self.field.covers(p) { self.field.depth(p) + self.radius } else { self.locate(p).0 }
    }

    /// The same with its continuous gradient, inwards.
    pub(super) fn locate(&mut self, p: &Point) -> (f64, Vec3) {
        self.reads += 7;
        let (depth, gradient) = self.field.locate(p);
        (depth + self.radius, gradient)
    }

    /// The gradient within its cell, at the price of one read: it jumps from cell to cell.
    fn slope(&mut self, p: &Point) -> Vec3 {
        self.reads += 1;
        self.field.depth_gradient(p).1
    }

    fn plane(&mut self, p: &Point) -> Option<Plane> {
        let (depth, gradient) = self.locate(p);
        let slope = gradient.norm();
        if !(slope > LEAST && depth.is_finite()) {
            return None;
        }
        let n = gradient / -slope;
        let rise = (depth + AIM * self.field.cell) / slope.max(SHALLOW);
        Some(Plane { n, c: n.dot(&p.coords) + rise, slope })
    }

    /// Puts a place right that is a little inside, along the plane's normal.
    fn put_right(&mut self, p: &Point, plane: &Plane) -> Option<Point> {
        let mut y = p + plane.n * (plane.c - plane.n.dot(&p.coords)).max(0.0);
        for _ in 0..CORRECTIONS {
            let depth = self.depth(&y);
            if depth <= 0.0 {
                return Some(y);
            }
            y += plane.n * ((depth + AIM * self.field.cell) / plane.slope.max(SHALLOW));
        }
        (self.depth(&y) <= 0.0).then_some(y)
    }

    /// The way out from `x` inside, by the shortest way as the field knows it. `None` where it knows none.
    pub(super) fn out_of(&mut self, x: &Point) -> Option<Point> {
        let mut y = *x;
        for _ in 0..ESCAPE {
            let plane = self.plane(&y)?;
            y += plane.n * (plane.c - plane.n.dot(&y.coords));
            if self.depth(&y) <= 0.0 {
                return Some(y);
            }
        }
        None
    }

    /// Along the straight way as far as it is free: where it ends, and true where something is in the way. `None` when it is too
    /// long for this tick; then `at` is how far it came.
    fn walk(&mut self, from: &Point, to: &Point, at: &mut Point) -> Option<bool> {
        let way = to - from;
        let length = way.norm();
        let (slack, step) = (SLACK * self.field.cell, STEP * self.field.cell);
        *at = *from;
        let mut gone = 0.0;
        let mut clear = 0.0;
        while gone < length {
            if self.reads > READS || self.late || (self.reads.is_multiple_of(LOOK) && self.spent()) {
                return None;
            }
            let next = (gone + step.max(TRUST * clear)).min(length);
            let p = if next < length { from + way * (next / length) } else { *to };
            let depth = self.depth(&p);
            if depth > slack {
                let (mut free, mut shut) = (gone, next);
                for _ in 0..HALVINGS {
                    let middle = 0.5 * (free + shut);
                    if self.depth(&(from + way * (middle / length))) > slack {
                        shut = middle
                    } else {
                        free = middle
                    }
                }
                *at = from + way * (free / length);
                return Some(true);
            }
            (*at, gone, clear) = (p, next, -depth);
        }
        Some(false)
    }

    /// From `start`, which is not inside, as near to `target` as can be reached.
    pub(super) fn slide(&mut self, start: &Point, target: &Point) -> Slid {
        let (cell, there) = (self.field.cell, THERE * self.field.cell);
        let mut out = Slid { at: *start, entry: None, arrived: start == target, unfinished: false };
        let mut planes = Planes::NONE;
        if -self.depth(start) < cell {
            planes = self.plane(start).map_or(Planes::NONE, Planes::of);
        }
        for round in 0..ROUNDS {
            if round > 0 && self.spent() {
                out.unfinished = true;
                break;
            }
            let Some(aim) = planes.nearest(target, 0.1 * there) else { break };
            if (aim - out.at).norm() <= there && aim != *target {
                break;
            }
            let (from, mut reached) = (out.at, out.at);
            let Some(blocked) = self.walk(&from, &aim, &mut reached) else {
                // Only a free place counts: on the way it may lie a little inside.
                out.at = if self.depth(&reached) <= 0.0 { reached } else { from };
                out.unfinished = true;
                return out;
            };
            let nearer = |y: &Point| (target - y).norm_squared() < (target - from).norm_squared();
            if !blocked && self.depth(&reached) <= 0.0 {
                if aim == *target {
                    return Slid { at: *target, arrived: true, ..out };
                }
                if !nearer(&reached) {
                    break;
                }
                out.at = reached;
            } else {
                let Some(plane) = self.plane(&reached) else { break };
                let right = self.put_right(&reached, &plane).filter(nearer);
                if let Some(y) = right {
                    if planes.len == 0 && out.entry.is_none() {
                        out.entry = Some(y);
                    }
                    out.at = y;
                }
                let way = aim - from;
                // In a corner what is put right of one wall lies in the other: both stay.
                if !right.is_some_and(|y| (y - from).dot(&way) > SMOOTH * (reached - from).dot(&way)) {
                    planes.push(plane);
                    continue;
                }
            }
            let Some(plane) = self.plane(&out.at) else { break };
            planes = Planes::of(plane);
        }
        // A target that touches from outside is where it should be, but for rounding.
        out.arrived = (target - out.at).norm() <= 4.0 * there && self.depth(target) <= 0.0;
        if out.arrived {
            out.at = *target;
        }
        out
    }

    /// The unit vector away from the object at `p`; `None` where the field does not tell.
    pub(super) fn normal(&mut self, p: &Point) -> Option<Vec3> {
        self.plane(p).map(|plane| plane.n)
    }

    /// How far outside a place on the surface lies, m: no more than where it may come to rest.
    pub(super) fn trace(&mut self, p: &Point) -> f64 {
        (-self.depth(p)).clamp(0.0, 10.0 * AIM * self.field.cell)
    }

    /// What is so near, in m, tells no direction.
    pub(super) fn blur(&self) -> f64 {
        20.0 * THERE * self.field.cell
    }

    /// About how the surface bends away under the place `p` with outward normal `n`: the second derivatives along it (1/m), by one-sided
    /// differences over a cell. Positive where it is hollow.
    pub(super) fn bend(&mut self, p: &Point, n: &Vec3) -> ([Vec3; 2], [[f64; 2]; 2]) {
        let a = if n.x.abs() < 0.6 { Vec3::x() } else { Vec3::y() };
        let t = n.cross(&a).normalize();
        let along = [t, n.cross(&t)];
        let h = self.field.cell;
        let here = self.slope(p);
        // In a corner the mean of both walls' gradients is shorter than either.
        let per = 1.0 / (h * here.norm().max(SHALLOW));
        let grown = along.map(|t| (self.slope(&(p + t * h)) - here) * per);
        let s = |i: usize, j: usize| grown[j].dot(&along[i]);
        let mixed = 0.5 * (s(0, 1) + s(1, 0));
        (along, [[s(0, 0), mixed], [mixed, s(1, 1)]])
    }
}
