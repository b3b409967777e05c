//! Where a ball's centre can go: the surface at its radius from an object, as the object's field has it, and the nearest place on it
//! to where it wants to be, without going through anything on the way.

use super::planes::{Plane, Planes};
use super::walls::{Slid, Walls};
use crate::contact::{Budget, Contact};
use crate::geometry::field::Field;
use crate::geometry::{Point, Vec3};
use nalgebra::Matrix3;

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
/// Sine of the smallest angle at which two walls are two.
const PARALLEL: f64 = 1e-3;
/// A correction that gets so much of its way was one along a smooth surface.
const SMOOTH: f64 = 0.5;

/// A plane, and the length of the gradient that it was taken from.
#[derive(Clone, Copy)]
struct Tangent {
    plane: Plane,
    slope: f64,
}

/// Walls that were found in a tick.
type Corner = Planes<4>;

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

    /// How deep the ball is, m; positive inside.
    fn depth(&mut self, p: &Point) -> f64 {
        self.reads += 1;
        if self.field.covers(p) { self.field.depth(p) + self.radius } else { self.locate(p).0 }
    }

    /// The same with its continuous gradient, inwards.
    fn locate(&mut self, p: &Point) -> (f64, Vec3) {
        self.reads += 7;
        let (depth, gradient) = self.field.locate(p);
        (depth + self.radius, gradient)
    }

    /// The gradient within its cell, at the price of one read: it jumps from cell to cell.
    fn slope(&mut self, p: &Point) -> Vec3 {
        self.reads += 1;
        self.field.depth_gradient(p).1
    }

    fn plane(&mut self, p: &Point) -> Option<Tangent> {
        let (depth, gradient) = self.locate(p);
        let slope = gradient.norm();
        if !(slope > LEAST && depth.is_finite()) {
            return None;
        }
        let n = gradient / -slope;
        let rise = (depth + AIM * self.field.cell) / slope.max(SHALLOW);
        Some(Tangent { plane: Plane { n, c: n.dot(&p.coords) + rise }, slope })
    }

    /// Puts a place right that is a little inside, along the plane's normal.
    fn put_right(&mut self, p: &Point, tangent: &Tangent) -> Option<Point> {
        let plane = &tangent.plane;
        let mut y = p + plane.n * (plane.c - plane.n.dot(&p.coords)).max(0.0);
        for _ in 0..CORRECTIONS {
            let depth = self.depth(&y);
            if depth <= 0.0 {
                return Some(y);
            }
            y += plane.n * ((depth + AIM * self.field.cell) / tangent.slope.max(SHALLOW));
        }
        (self.depth(&y) <= 0.0).then_some(y)
    }

    /// The way out from `x` inside, by the shortest way as the field knows it. `None` where it knows none.
    fn out_of(&mut self, x: &Point) -> Option<Point> {
        let mut y = *x;
        for _ in 0..ESCAPE {
            let plane = self.plane(&y)?.plane;
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

    /// About how the surface bends away under the place `p` with outward normal `n`: the second derivatives along it (1/m), by one-sided
    /// differences over a cell. Positive where it is hollow.
    fn bend(&mut self, p: &Point, n: &Vec3) -> ([Vec3; 2], [[f64; 2]; 2]) {
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

impl Walls for Surface<'_> {
    fn radius(&self) -> f64 {
        self.radius
    }

    /// A read is a unit.
    fn charge(&self, contact: &mut Contact) {
        contact.work = contact.work.saturating_add(self.reads);
        contact.need = contact.need.saturating_add(self.reads.max(LEAST_READS));
        contact.deadline_hit |= self.late;
    }

    fn begin(&mut self, x: &Point, contact: &Contact) -> Option<(Point, bool)> {
        let touching = contact.touching;
        Some((if touching { self.out_of(x)? } else { *x }, touching))
    }

    fn clear(&self, contact: &Contact) -> f64 {
        contact.depth_bounds.map_or(0.0, |b| -b.upper)
    }

    fn slide(&mut self, start: &Point, target: &Point) -> Slid {
        let (cell, there) = (self.field.cell, THERE * self.field.cell);
        let mut out = Slid { at: *start, entry: None, arrived: start == target, unfinished: false };
        let mut planes = Corner::NONE;
        if -self.depth(start) < cell {
            planes = self.plane(start).map_or(Corner::NONE, |t| Corner::of(t.plane));
        }
        for round in 0..ROUNDS {
            if round > 0 && self.spent() {
                out.unfinished = true;
                break;
            }
            let Some(aim) = planes.nearest(target, 0.1 * there, PARALLEL).map(|n| n.at) else { break };
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
                    if planes.is_empty() && out.entry.is_none() {
                        out.entry = Some(y);
                    }
                    out.at = y;
                }
                let way = aim - from;
                // In a corner what is put right of one wall lies in the other: both stay.
                if !right.is_some_and(|y| (y - from).dot(&way) > SMOOTH * (reached - from).dot(&way)) {
                    planes.push(plane.plane);
                    continue;
                }
            }
            let Some(plane) = self.plane(&out.at) else { break };
            planes = Corner::of(plane.plane);
        }
        // A target that touches from outside is where it should be, but for rounding.
        out.arrived = (target - out.at).norm() <= 4.0 * there && self.depth(target) <= 0.0;
        if out.arrived {
            out.at = *target;
        }
        out
    }

    fn across(&mut self, at: &Point, x: &Point, touching: bool) -> Option<Point> {
        if !touching {
            return Some(*x);
        }
        let normal = self.normal(at)?;
        Some(x + normal * (at - x).dot(&normal).max(0.0))
    }

    fn told(&self, contact: &Contact) -> Option<f64> {
        Some(contact.depth)
    }

    fn normal(&mut self, p: &Point) -> Option<Vec3> {
        self.plane(p).map(|t| t.plane.n)
    }

    fn trace(&mut self, p: &Point) -> f64 {
        (-self.depth(p)).clamp(0.0, 10.0 * AIM * self.field.cell)
    }

    fn blur(&self) -> f64 {
        20.0 * THERE * self.field.cell
    }

    fn hollow(&mut self, p: &Point, n: &Vec3, depth: f64) -> Matrix3<f64> {
        hollow(&self.bend(p, n), depth)
    }
}

/// The part of the spring's stiffness that a hollow surface adds along itself: in a hollow of curvature c a proxy d away from the tool
/// follows it by 1/(1 + c d) of its way. A ridge lets it run ahead, which takes stiffness away and counts as none.
fn hollow((along, bend): &([Vec3; 2], [[f64; 2]; 2]), depth: f64) -> Matrix3<f64> {
    let [[a, b], [_, c]] = bend.map(|row| row.map(|v| v * depth));
    // A function of the symmetric 2 x 2 by its eigenvalues and their projectors.
    let (mean, half) = (0.5 * (a + c), 0.5 * (a - c));
    let spread = half.hypot(b);
    let part = |c: f64| if c > 0.0 { c / (1.0 + c) } else { 0.0 };
    let (high, low) = (part(mean + spread), part(mean - spread));
    let (middle, apart) = (0.5 * (high + low), 0.5 * (high - low) / spread.max(1e-12));
    let [s, t] = along;
    let cross = s * t.transpose();
    (s * s.transpose()) * (middle + apart * half)
        + (t * t.transpose()) * (middle - apart * half)
        + (cross + cross.transpose()) * (apart * b)
}
