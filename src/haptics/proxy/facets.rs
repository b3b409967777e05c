//! Where a ball's centre can go among the triangles of a mesh. There is no inside to it: a triangle is a wall on both sides, so
//! that sheets and thin bodies hold as well as thick ones.
//!
//! The set of places that are nearer to one triangle than the radius is convex: the plane through its nearest point, across the way to
//! the ball, keeps clear of all of it. So the ball goes towards the nearest point of the half-spaces of all triangles that have
//! stopped it so far, and stops exactly where the first other one is in the way ([`Bvh::sweep`]); their planes are then taken
//! anew from where it is, until nothing moves any more. Where it stands it touches what holds it.
//!
//! [`Bvh::sweep`]: crate::geometry::bvh::Bvh::sweep

use super::planes::{Plane, Planes};
use super::walls::{Slid, Walls};
use crate::contact::ist::Solid;
use crate::contact::{Budget, Contact};
use crate::geometry::bvh::sweep::{Ball, Spend};
use crate::geometry::{Point, Vec3};
use nalgebra::Matrix3;

/// Triangles that are remembered from tick to tick; a place is held by no more than three.
pub(super) const HINTS: usize = 3;
/// Triangles whose planes stand together.
const WALLS: usize = 8;
/// Most times that the way is corrected in one tick: the budget ends it sooner, mostly.
const ROUNDS: usize = 64;
/// From the inside, where nothing is known of the way.
const ESCAPE: usize = 16;
/// Most units of work in a tick: sixteen boxes or triangles in `f32`, or four measures of a triangle in `f64`, are one.
const UNITS: u32 = 2048;
/// What the smallest budget has, and units between two looks at the clock.
const LEAST_UNITS: u32 = 96;
const LOOK: u32 = 16;
/// Quarters of a unit for the nearest point of a corner.
const CORNER: u32 = 8;
/// A search may spend so many eighths of what is left: where that is too little, a shorter way still has a chance.
const PART: u32 = 5;
/// Of a way that cost too much so much is tried next; of one that did not, so much more.
const SHORTER: f64 = 0.25;
const LONGER: f64 = 2.0;
/// In skins: no way is made shorter than that.
const SHORTEST: f64 = 8.0;
/// A part of the radius that no rounding comes near to: with a ball ten thousand times as large as the mesh, coordinates are its own.
const ROUNDING: f64 = 1e-10;
/// Sine of the smallest angle at which two walls are two.
const PARALLEL: f64 = 1e-7;
/// What a wall adds to the directions in which a place is held is at least this sine off them.
const APART: f64 = 1e-3;
/// In skins: a place is as good as another one so near, points may lie so far inside of planes, and what is so near tells no direction.
const THERE: f64 = 1.0 / 4096.0;
const SLACK: f64 = 1.0 / 8192.0;
const BLUR: f64 = 20.0;
/// A place that still moves by such a part of how far the tool is from it, or by less than a skin, is there as far as anyone can feel:
/// about edges and corners of which the tool is deep the planes come nearer to each other by a constant factor only.
const BARELY: f64 = 1.0 / 1024.0;

/// The triangles that have stopped a ball, by slot.
#[derive(Clone, Copy, Default)]
struct Held {
    slots: [u32; WALLS],
    len: usize,
}

impl Held {
    fn slice(&self) -> &[u32] {
        self.slots.get(..self.len).unwrap_or(&[])
    }

    fn put(&mut self, slot: u32) {
        if let Some(place) = self.slots.get_mut(self.len) {
            *place = slot;
            self.len += 1;
        }
    }

    /// Those whose bits are set.
    fn kept(&self, bits: u32) -> Self {
        let mut kept = Self::default();
        for (i, slot) in self.slice().iter().enumerate() {
            if bits >> i & 1 != 0 {
                kept.put(*slot);
            }
        }
        kept
    }
}

/// What a tick may spend, in quarters of a unit.
struct Purse<'a> {
    budget: Budget<'a>,
    spent: u32,
    /// Where the search that runs ends.
    end: u32,
    late: bool,
}

impl Purse<'_> {
    fn most(&self) -> u32 {
        4 * if self.budget.units == 0 { UNITS } else { self.budget.units.clamp(LEAST_UNITS, UNITS) }
    }

    fn over(&self) -> bool {
        self.spent >= self.most() || self.late
    }

    /// The next search has so many eighths of what is left.
    fn allow(&mut self, eighths: u32) {
        self.end = self.spent + self.most().saturating_sub(self.spent) * eighths / 8;
    }

    fn units(&self) -> u32 {
        self.spent.div_ceil(4)
    }
}

impl Spend for Purse<'_> {
    fn spend(&mut self, quarters: u32) -> bool {
        let looked = self.spent / (4 * LOOK);
        self.spent += quarters;
        if self.spent > 4 * LEAST_UNITS && self.spent / (4 * LOOK) != looked {
            self.late = self.late || self.budget.deadline.is_some_and(|d| d.passed());
        }
        self.spent >= self.end || self.late
    }
}

/// What is remembered from tick to tick.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Trail {
    /// Triangles that held the proxy, each plus one.
    hints: [u32; HINTS],
    /// The longest way that a search is known to afford, m; 0: any.
    stride: f64,
}

/// A nearest triangle.
#[derive(Clone, Copy)]
struct Near {
    point: Point,
    /// From there to who asked.
    way: Vec3,
    distance: f64,
    slot: u32,
}

/// An object's mesh for the centre of a ball.
pub(super) struct Facets<'a> {
    solid: &'a Solid,
    ball: Ball,
    purse: Purse<'a>,
    walls: Held,
    /// Which of the walls hold the last place.
    held: u32,
    /// Those of the proxy itself.
    settled: Held,
    /// [`Trail::stride`] of the last way, and of the proxy itself.
    stride: f64,
    afforded: f64,
}

impl<'a> Facets<'a> {
    /// `trail`: of the last tick; any will do.
    pub(super) fn new(solid: &'a Solid, radius: f64, trail: Trail, budget: Budget<'a>) -> Self {
        let ball = Ball { radius, skin: solid.bvh.skin() + ROUNDING * radius };
        let mut purse = Purse { budget, spent: 0, end: 0, late: false };
        purse.allow(8);
        let mut walls = Held::default();
        for slot in trail.hints.into_iter().filter_map(|h| h.checked_sub(1)) {
            walls.put(slot);
        }
        let (stride, settled) = (trail.stride, Held::default());
        Self { solid, ball, purse, walls, held: 0, settled, stride, afforded: stride }
    }

    /// What the next tick is to know.
    pub(super) fn trail(&self) -> Trail {
        let mut trail = Trail { hints: [0; HINTS], stride: self.afforded };
        for (hint, slot) in trail.hints.iter_mut().zip(self.settled.slice()) {
            *hint = slot.saturating_add(1);
        }
        trail
    }

    /// The half-space of a triangle that a ball at `p` may be in: it keeps clear of the triangle.
    fn wall(&mut self, slot: u32, p: &Point) -> Option<Plane> {
        let (point, way) = self.solid.bvh.facet(slot)?.nearest(p);
        let n = way.try_normalize(0.0)?;
        Some(Plane { n, c: n.dot(&point.coords) + self.ball.radius + self.ball.skin })
    }

    /// Walls as they are from `p`; those that are none go.
    fn planes(&mut self, p: &Point) -> Planes<WALLS> {
        self.purse.spend(CORNER + self.walls.len as u32);
        let (mut planes, mut walls) = (Planes::NONE, Held::default());
        let known = self.walls;
        for &slot in known.slice() {
            if let Some(plane) = self.wall(slot, p) {
                planes.push(plane);
                walls.put(slot);
            }
        }
        self.walls = walls;
        planes
    }

    /// Another wall; when there are too many, the farthest from `p` goes that does not hold it. False for one that is there already.
    fn found(&mut self, slot: u32, p: &Point) -> bool {
        if self.walls.slice().contains(&slot) {
            return false;
        }
        if self.walls.len == WALLS {
            let mut farthest = (-1.0, 0);
            for i in 0..WALLS {
                let facet = self.walls.slice().get(i).and_then(|s| self.solid.bvh.facet(*s));
                let distance = facet.map_or(f64::INFINITY, |f| f.nearest(p).1.norm());
                if self.held >> i & 1 == 0 && distance > farthest.0 {
                    farthest = (distance, i);
                }
            }
            let below = (1 << farthest.1) - 1;
            self.walls = self.walls.kept(!(below + 1));
            self.held = self.held & below | self.held >> 1 & !below;
        }
        self.walls.put(slot);
        true
    }

    /// The triangle nearest to `p` within `reach` (m), if there is one; `None` when the budget does not reach.
    fn nearest(&mut self, p: &Point, reach: f64) -> Option<Option<Near>> {
        let bvh = &self.solid.bvh;
        let mut best: Option<Near> = None;
        let all = bvh.about(p, reach, &mut self.purse, &mut |slot| {
            let distance = best.map_or(reach, |b| b.distance);
            let Some((point, way)) = bvh.facet(slot).map(|f| f.nearest(p)) else { return distance };
            let near = Near { point, way, distance: way.norm(), slot };
            if near.distance < distance {
                best = Some(near);
            }
            distance.min(near.distance)
        });
        all.then_some(best)
    }

    /// Whether the field leaves it open that `p` is inside: an orientation that no field agrees with pulls nobody in.
    fn may_be_inside(&mut self, p: &Point) -> bool {
        if !self.solid.outward {
            return false;
        }
        self.purse.spend(CORNER);
        let field = &self.solid.field;
        let depth = field.locate(p).0;
        let beyond = if field.covers(p) { 0.0 } else { (std::f64::consts::SQRT_2 - 1.0) * depth.abs() };
        depth + field.sample_error() + beyond >= 0.0
    }

    /// Whether `p` is inside of a closed mesh whose faces look outwards: by the angle-weighted normal of the nearest face, edge or corner
    /// (Bærentzen and Aanæs 2005), which is exact.
    fn inside(&mut self, p: &Point, near: &Near) -> Option<bool> {
        let bvh = &self.solid.bvh;
        let same = 0.25 * self.ball.skin;
        let reach = near.distance + same;
        let mut normal = Vec3::zeros();
        let all = bvh.about(p, reach, &mut self.purse, &mut |slot| {
            if let (Some(corners), Some(facet)) = (bvh.slot_corners(slot), bvh.facet(slot)) {
                let (point, way) = facet.nearest(p);
                if way.norm() <= reach && (point - near.point).norm() <= same {
                    normal += face(corners) * angle(corners, &near.point, same);
                }
            }
            reach
        });
        all.then(|| near.way.dot(&normal) < 0.0)
    }

    /// The nearest place to `x` where the ball can be, by the planes of what it is in, one after the other. `None` where its centre
    /// would have to go through something to get there.
    fn out_of(&mut self, x: &Point) -> Option<(Point, bool)> {
        let mut planes = Planes::<WALLS>::NONE;
        let mut y = *x;
        // Where its centre comes out of what it is in.
        let mut out = *x;
        for round in 0..ESCAPE {
            let closed = self.may_be_inside(&y);
            let reach = if closed { f64::INFINITY } else { self.ball.radius + self.ball.skin };
            let Some(near) = self.nearest(&y, reach)? else {
                return self.comes_from(&out, &y).then_some((y, round > 0));
            };
            let inside = closed && self.inside(&y, &near)?;
            if !inside && near.distance >= self.ball.radius + 0.5 * self.ball.skin {
                return self.comes_from(&out, &y).then_some((y, round > 0));
            }
            let apart = near.distance > same_place(&self.ball);
            let n = if apart {
                near.way * (if inside { -1.0 } else { 1.0 } / near.distance)
            } else {
                face(self.solid.bvh.slot_corners(near.slot)?)
            };
            if round == 0 && (inside || !apart) {
                out = near.point + n * self.ball.skin;
            }
            let c = n.dot(&near.point.coords) + self.ball.radius + self.ball.skin;
            planes.push(Plane { n, c });
            let slack = SLACK * self.ball.skin;
            y = match planes.nearest(x, slack, PARALLEL) {
                Some(nearest) => nearest.at,
                None => y + n * (c - n.dot(&y.coords)),
            };
        }
        None
    }

    /// Nothing is between two places.
    fn comes_from(&mut self, from: &Point, to: &Point) -> bool {
        let point = Ball { radius: 0.0, skin: self.ball.skin };
        from == to || self.solid.bvh.sweep(from, &(to - from), &point, &mut self.purse).part >= 1.0
    }
}

/// What is nearer to a triangle tells no side.
fn same_place(ball: &Ball) -> f64 {
    1e-3 * ball.skin
}

/// Outward unit normal; zero for a triangle without area.
fn face([a, b, c]: &[Point; 3]) -> Vec3 {
    (b - a).cross(&(c - a)).try_normalize(0.0).unwrap_or_default()
}

/// What a triangle turns about the place `p` on it, rad: all round, half round on an edge, the angle at a corner.
fn angle(corners: &[Point; 3], p: &Point, same: f64) -> f64 {
    let [a, b, c] = corners;
    let mut angle = std::f64::consts::TAU;
    for (at, next, last) in [(a, b, c), (b, c, a), (c, a, b)] {
        if (p - at).norm() <= same {
            return (next - at).angle(&(last - at));
        }
        let edge = next - at;
        let along = (p - at).dot(&edge) / edge.norm_squared();
        if (p - at - edge * along).norm() <= same {
            angle = std::f64::consts::PI;
        }
    }
    angle
}

impl Walls for Facets<'_> {
    fn radius(&self) -> f64 {
        self.ball.radius
    }

    fn charge(&self, contact: &mut Contact) {
        let units = self.purse.units();
        contact.work = contact.work.saturating_add(units);
        contact.need = contact.need.saturating_add(units.max(LEAST_UNITS));
        contact.deadline_hit |= self.purse.late;
    }

    fn begin(&mut self, x: &Point, _: &Contact) -> Option<(Point, bool)> {
        self.out_of(x)
    }

    fn clear(&self, _: &Contact) -> f64 {
        0.0
    }

    fn slide(&mut self, start: &Point, target: &Point) -> Slid {
        let (there, slack) = (THERE * self.ball.skin, SLACK * self.ball.skin);
        let mut out = Slid { at: *start, entry: None, arrived: start == target, unfinished: false };
        self.held = 0;
        let mut stride = if self.afforded > 0.0 { self.afforded } else { f64::INFINITY };
        let (mut afforded, mut last): (f64, f64) = (0.0, f64::INFINITY);
        for round in 0..=ROUNDS {
            if round == ROUNDS || round > 0 && self.purse.over() {
                out.unfinished = last > self.ball.skin.max(BARELY * (target - out.at).norm());
                break;
            }
            let planes = self.planes(&out.at);
            // Between walls that leave no room for a skin it stays as near to them as it is.
            let nearest = planes.nearest(target, slack, PARALLEL);
            let tight = nearest.is_none();
            let nearest = nearest.or_else(|| planes.around(&out.at).nearest(target, slack, PARALLEL));
            let Some(nearest) = nearest else { break };
            self.held = nearest.held;
            let whole = nearest.at - out.at;
            let length = whole.norm();
            if length <= there && nearest.at != *target {
                break;
            }
            last = length;
            // No longer than what can be searched; the rest is another round's.
            let all = length <= stride;
            let (way, length) = if all { (whole, length) } else { (whole * (stride / length), stride) };
            self.purse.allow(PART);
            let swept = self.solid.bvh.sweep(&out.at, &way, &self.ball, &mut self.purse);
            if swept.cut {
                stride = (SHORTER * length).max(SHORTEST * self.ball.skin);
            } else {
                afforded = afforded.max(length);
                stride = stride.max(LONGER * length);
            }
            if swept.part >= 1.0 {
                out.at = if all { nearest.at } else { out.at + way };
                if out.at == *target {
                    out.arrived = true;
                    break;
                }
                continue;
            }
            out.at += way * swept.part;
            if swept.cut {
                continue;
            }
            let Some(slot) = swept.hit else { break };
            if planes.is_empty() && out.entry.is_none() {
                out.entry = Some(out.at);
            }
            if !self.found(slot, &out.at) && tight {
                break;
            }
        }
        self.stride = if out.unfinished { stride.max(afforded) } else { stride };
        out
    }

    fn across(&mut self, at: &Point, x: &Point, _: bool) -> Option<Point> {
        let slack = SLACK * self.ball.skin;
        let nearest = self.planes(at).around(at).nearest(x, slack, PARALLEL)?;
        self.held = nearest.held;
        Some(nearest.at)
    }

    fn told(&self, _: &Contact) -> Option<f64> {
        None
    }

    fn settle(&mut self) {
        self.settled = self.walls.kept(self.held);
        self.afforded = if self.stride.is_finite() { self.stride } else { 0.0 };
    }

    /// What the field says of it is another surface's.
    fn under_way(&self, contact: &mut Contact) {
        self.let_go(contact);
    }

    fn let_go(&self, contact: &mut Contact) {
        let Contact { work, need, .. } = *contact;
        let distance = if contact.touching { Some(0.0) } else { contact.distance };
        *contact = Contact { work, need, ..Contact::none(distance) };
    }

    fn normal(&mut self, p: &Point) -> Option<Vec3> {
        let mut best: Option<(f64, Vec3)> = None;
        for &slot in self.settled.slice() {
            if let Some((_, way)) = self.solid.bvh.facet(slot).map(|f| f.nearest(p))
                && best.is_none_or(|b| way.norm() < b.0)
            {
                best = Some((way.norm(), way));
            }
        }
        let way = match best {
            Some((_, way)) => way,
            None => self.nearest(p, f64::INFINITY)??.way,
        };
        way.try_normalize(0.0)
    }

    /// The skin is too thin to be felt.
    fn trace(&mut self, _: &Point) -> f64 {
        0.0
    }

    fn blur(&self) -> f64 {
        BLUR * self.ball.skin
    }

    /// Flat triangles add nothing; further ones that hold it do as one across another does.
    fn hollow(&mut self, p: &Point, n: &Vec3, _: f64) -> Matrix3<f64> {
        let mut sum = Matrix3::zeros();
        let settled = self.settled;
        for slot in settled.slice() {
            let Some(wall) = self.wall(*slot, p) else { continue };
            let rest = wall.n - n * n.dot(&wall.n);
            let rest = rest - sum * rest;
            if let Some(across) = rest.try_normalize(APART) {
                sum += across * across.transpose();
            }
        }
        sum
    }
}
