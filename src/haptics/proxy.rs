//! The point that a ball tool would be if it could not go into things: the god-object of Zilles and Salisbury (1995), with the ball's
//! radius as Ruspini and others (1997) have it, on the object's distance field or, for [`ObjectShape::Solid`], on its mesh, with friction.
//!
//! Every object has a proxy of its own, in its own frame: it moves along with the object. In each tick it goes from where it was
//! towards the tool, never through anything, along the surface where that is in its way, in corners along the edge of
//! both walls, to the nearest place that can be reached. The force is the material's stiffness times the way from the tool to
//! it. So the side from which the tool came is kept, however thin the wall and however hard the push. Where several objects are
//! touched their forces add up: each is a spring of its own.
//!
//! With friction the place where the spring rests follows the proxy only as [`super::friction`] lets it.
//!
//! The field of a solid is off by [`Field::sample_error`]: by that much at most is the proxy inside the solid itself, and never by
//! the field's own account. To a mesh it is never nearer than the ball's radius, whatever the field.
//!
//! [`Field::sample_error`]: crate::geometry::field::Field::sample_error

#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types,
        clippy::expect_used,
        clippy::panic,
        clippy::unwrap_used
    )
)]

mod facets;
mod planes;
mod surface;
mod walls;

use super::friction::{self, Cone};
use super::texture;
use crate::contact::{Budget, Contact, ObjectShape, Query, QueryState, ToolShape, query, sound};
use crate::geometry::{Point, Vec3, Wrench};
use facets::{Facets, Trail};
use nalgebra::Matrix3;
use surface::Surface;
use walls::{Slid, Walls};

/// Nothing is that deep, m: its square is still a number.
const FAR: f64 = 1e6;
/// While the proxy is on its way and does not know what is under the tool, what it pressed with is forgotten in that time, s.
const FORGET: f64 = 0.1;
/// From that on, s: a hand does not feel that something holds so much longer, and what comes and goes by turns stays whole.
pub const GRACE: f64 = 0.01;

/// What is known of a ball against one object. Explicit, resettable, fixed size: the answer with the same query and state has the
/// same bits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Proxy {
    /// What tool and object it is about.
    key: [u64; 3],
    at: Option<Place>,
    /// How far behind it the tool is, m.
    behind: f64,
    /// How deep it pressed in the last tick, m.
    pressed: f64,
    /// Where the tool was in the last tick, object's frame.
    tool: Option<Point>,
    /// It has not come to where it can come: its way goes on.
    lags: bool,
    /// What presses is no longer what pressed.
    anew: bool,
    /// So long it has been on its way, s, and had been before it came where it is.
    under_way: f64,
    waited: f64,
    /// What is remembered of the mesh, where it goes along that.
    trail: Trail,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    /// Nearest to the tool of what it can reach, object's frame.
    free: Point,
    /// Where the spring rests.
    rest: Point,
    touching: bool,
    slides: bool,
}

impl Proxy {
    /// The next pose does not follow the last: the tool or the object was set elsewhere, or nobody holds the tool by force.
    /// Real-time safe.
    pub fn interrupt(&mut self) {
        *self = Self::default();
    }

    /// How far the tool is from where it would be if it could not go into things, m. Real-time safe.
    pub fn behind(&self) -> f64 {
        self.behind
    }

    /// True while it is on its way: in the last tick its budget ended before it came to where it can come. Real-time safe.
    pub fn lags(&self) -> bool {
        self.lags
    }

    /// True in a tick from which on the force need not be what it was before: the proxy had been on its way so far, or nothing was
    /// known of where it is on its mesh. What is felt then has to fade in. Real-time safe.
    pub fn anew(&self) -> bool {
        self.anew
    }

    /// How long it had been on its way when it came where it is, s; 0 in all but an [`anew`](Self::anew) tick. Real-time safe.
    pub fn waited(&self) -> f64 {
        self.waited
    }

    /// Where the spring rests, object's frame; `None` while nothing is known. Real-time safe.
    pub fn rest(&self) -> Option<Point> {
        self.at.map(|p| p.rest)
    }

    /// Answers the query of a ball that follows its last pose by a tick, and the cone in which its force lies. Tools that are
    /// no balls, and balls that are where they cannot be (wedged in a hole that is too narrow), get [`query`]'s answer. `dt` is the
    /// time since the last tick, s.
    /// Real-time safe.
    pub fn touch(
        &mut self,
        q: &Query<'_>,
        budget: Budget<'_>,
        state: &mut QueryState,
        dt: f64,
    ) -> (Contact, Option<Cone>) {
        self.answer(q, budget, state, dt, false)
    }

    /// The same where there is no time for its way: it stays where it was, and presses by the walls that it knows. Real-time safe.
    pub fn wait(
        &mut self,
        q: &Query<'_>,
        budget: Budget<'_>,
        state: &mut QueryState,
        dt: f64,
    ) -> (Contact, Option<Cone>) {
        self.answer(q, budget, state, dt, true)
    }

    fn answer(
        &mut self,
        q: &Query<'_>,
        budget: Budget<'_>,
        state: &mut QueryState,
        dt: f64,
        waits: bool,
    ) -> (Contact, Option<Cone>) {
        let mut contact = query(q, budget, state);
        (self.anew, self.waited) = (false, 0.0);
        let waited = self.under_way;
        let &ToolShape::Sphere { radius } = q.tool else { return (contact, None) };
        let field = q.object.field();
        let solid = match q.object {
            ObjectShape::Solid(solid) => Some(solid),
            _ => None,
        };
        let key = [radius.to_bits(), field.stamp.number(), solid.is_some().into()];
        let known = contact.complete && contact.depth < FAR;
        if self.key != key || !known {
            self.interrupt();
            self.key = key;
        }
        if !known {
            return (contact, None);
        }
        let x = q.object_pose.inverse_transform_point(&Point::from(q.tool_pose.translation.vector));
        let lagged = std::mem::take(&mut self.lags);
        let Some(solid) = solid else {
            let mut surface = Surface::new(field, sound(radius), budget);
            let cone = self.go_on(q, &x, dt, waits, &mut surface, &mut contact);
            surface.charge(&mut contact);
            self.anew = contact.touching && lagged && !self.lags;
            self.waited = if self.anew { waited } else { 0.0 };
            return (contact, cone);
        };
        let unknown = self.at.is_none();
        if !solid.outward {
            // What has holes, or goes round itself twice or the wrong way, has no inside, whatever the field makes of it.
            contact = Contact { work: contact.work, need: contact.need, ..Contact::none(contact.distance) };
        }
        let mut facets = Facets::new(solid, sound(radius), self.trail, budget);
        let cone = self.go_on(q, &x, dt, waits, &mut facets, &mut contact);
        self.trail = facets.trail();
        facets.charge(&mut contact);
        self.anew = contact.touching && !self.lags && (lagged || unknown);
        self.waited = if self.anew { waited } else { 0.0 };
        (contact, cone)
    }

    /// A tick's way to where the tool is now at `x`, object's frame.
    fn go_on(
        &mut self,
        q: &Query<'_>,
        x: &Point,
        dt: f64,
        waits: bool,
        surface: &mut impl Walls,
        contact: &mut Contact,
    ) -> Option<Cone> {
        if waits && self.at.is_none() {
            self.lags = true;
            surface.let_go(contact);
            return None;
        }
        let Some(start) = self.start(x, contact, surface) else {
            self.interrupt();
            return None;
        };
        // From where it is clear there is nothing between.
        let open = !start.touching && surface.clear(contact) > (x - start.free).norm();
        let slid = match (open, waits) {
            (true, _) => Slid { at: *x, entry: None, arrived: true, unfinished: false },
            (_, true) => Slid { at: start.free, entry: None, arrived: false, unfinished: true },
            (_, false) => surface.slide(&start.free, x),
        };
        self.lags = slid.unfinished && !slid.arrived;
        let across = if self.lags { surface.across(&slid.at, x, start.touching) } else { None };
        surface.settle();
        let last = self.tool.replace(*x);
        self.under_way = if self.lags { self.under_way + dt } else { 0.0 };
        if self.lags {
            let start = Place { free: slid.at, ..start };
            return self.under_way(q, x, last, across, start, dt, surface, contact);
        }
        if slid.arrived {
            self.at = Some(Place { free: slid.at, rest: slid.at, touching: false, slides: false });
            self.behind = 0.0;
            self.pressed = 0.0;
            surface.let_go(contact);
            return None;
        }
        let mut place = Place { free: slid.at, ..start };
        if !place.touching {
            place.rest = slid.entry.unwrap_or(slid.at);
        }
        place.touching = true;
        let cone = rub(q, x, &mut place, surface);
        self.at = Some(place);
        self.behind = (place.free - x).norm();
        let Some(cone) = cone else {
            // It only just touches: what the field says need not be there.
            surface.let_go(contact);
            self.pressed = 0.0;
            return None;
        };
        let cone = press(q, x, &place, cone, dt, surface, contact);
        self.pressed = contact.depth;
        Some(Cone { normal: q.object_pose.rotation * cone.normal, ..cone })
    }

    /// What is felt of a proxy that is on its way along the surface: the spring stays across the walls that it knows. How far it is
    /// to the surface under the tool is not known yet: as far as it was, and as the tool went in since, or as the field says; and where it
    /// takes long the less of it the longer, since there may be nothing any more.
    #[allow(clippy::too_many_arguments, reason = "one tick's place, from the one caller")]
    fn under_way(
        &mut self,
        q: &Query<'_>,
        x: &Point,
        last: Option<Point>,
        across: Option<Point>,
        start: Place,
        dt: f64,
        surface: &mut impl Walls,
        contact: &mut Contact,
    ) -> Option<Cone> {
        let at = start.free;
        self.behind = (at - x).norm();
        let way = across.unwrap_or(at) - x;
        let Some(normal) = way.try_normalize(0.0) else {
            self.at = Some(Place { free: at, rest: at, touching: false, slides: false });
            self.pressed = 0.0;
            surface.under_way(contact);
            return None;
        };
        let went = last.map_or(0.0, |last| (last - x).dot(&normal));
        let most = match surface.told(contact) {
            Some(depth) => self.pressed.max(depth),
            None => {
                let over = if self.under_way > GRACE { dt / FORGET } else { 0.0 };
                (self.pressed * (1.0 - over.clamp(0.0, 1.0)) + went).max(0.0)
            }
        };
        let depth = way.norm().min(most);
        // Without friction the spring's end goes along.
        let rest = if sound(q.material.friction.statics) > 0.0 { start.rest } else { at };
        self.at = Some(Place { rest, touching: true, ..start });
        let across = x + normal * depth;
        let drag = start.rest - x;
        let drag = drag - normal * drag.dot(&normal);
        let mu = friction::sliding(&q.material.friction, speed(q, &normal));
        let drag = drag * (mu * depth / drag.norm().max(mu * depth).max(f64::MIN_POSITIVE));
        let place = Place { free: across, rest: across + drag, touching: true, slides: true };
        let cone = press(q, x, &place, Cone { normal, mu }, dt, surface, contact);
        self.pressed = contact.depth;
        Some(Cone { normal: q.object_pose.rotation * cone.normal, ..cone })
    }

    /// Where the proxy was; the first time where the tool is, or the nearest place where it can be.
    fn start(&self, x: &Point, contact: &Contact, surface: &mut impl Walls) -> Option<Place> {
        if let Some(at) = self.at {
            return Some(at);
        }
        let (free, touching) = surface.begin(x, contact)?;
        Some(Place { free, rest: free, touching, slides: false })
    }
}

/// Lets the spring's end follow as friction has it. The cone has its normal in the object's frame; `None` when nothing presses.
fn rub(q: &Query<'_>, x: &Point, place: &mut Place, surface: &mut impl Walls) -> Option<Cone> {
    let pressed = place.free - x;
    let length = pressed.norm();
    let by_field = if length < surface.blur() { surface.normal(&place.free) } else { None };
    let normal = by_field.or_else(|| pressed.try_normalize(0.0))?;
    // It rests a trace outside, now more and now less: what presses is measured from the surface itself.
    let press = (length - surface.trace(&place.free)).max(0.0);
    let material = &q.material.friction;
    let statics = sound(material.statics);
    if statics <= 0.0 {
        (place.rest, place.slides) = (place.free, true);
        return Some(Cone { normal, mu: 0.0 });
    }
    let drag = place.free - place.rest;
    let Some(mu) = friction::slip(material, place.slides, drag.norm(), press, speed(q, &normal)) else {
        place.slides = false;
        return Some(Cone { normal, mu: statics });
    };
    // As far behind the tool as the pull holds it.
    let lag = drag * (mu * press / drag.norm());
    place.rest = surface.slide(&place.rest, &(x - lag)).at;
    place.slides = true;
    Some(Cone { normal, mu })
}

/// How fast the tool moves along a surface of this normal (object's frame), m/s.
fn speed(q: &Query<'_>, normal: &Vec3) -> f64 {
    let moving = q.object_pose.rotation.inverse() * q.relative_twist().linear;
    (moving - normal * moving.dot(normal)).norm()
}

/// The force of the spring on the textured surface, with its stiffness and the material's damping. The cone about the normal of that
/// surface, object's frame.
fn press(
    q: &Query<'_>,
    x: &Point,
    place: &Place,
    mut cone: Cone,
    dt: f64,
    surface: &mut impl Walls,
    contact: &mut Contact,
) -> Cone {
    let stiffness = sound(q.material.stiffness);
    let n = cone.normal;
    let rest = place.rest - n * surface.trace(&place.rest);
    let depth = ((place.free - x).dot(&n) - surface.trace(&place.free)).max(0.0);
    let mut way = rest - x;
    // Only so much of it that the force along the surface grows no faster than that across: the cap would lower the wall itself.
    let relief = texture::relief(&q.material.texture, &place.rest, speed(q, &n), dt).map(|r| r.within(depth));
    let mut tangential = 0.0;
    if let Some(relief) = relief {
        let along = relief.slope - n * relief.slope.dot(&n);
        let across = way.dot(&n).max(0.0);
        let left = (across + relief.height).max(0.0);
        way += n * (left - across) - along * left;
        cone.normal = (n - along).normalize();
        // The most that the force changes along the surface: it counts for the stiffness cap.
        tangential = depth * relief.bend + along.norm_squared();
    }
    // Where the surface bends the cut lets the spring press along the normal alone.
    way = cone.cut(&way);
    if way == Vec3::zeros() && relief.is_none() {
        way = n * depth;
    }
    let spring = way * stiffness;
    let out = cone.normal;
    let approach = -(q.object_pose.rotation.inverse() * q.relative_twist().linear).dot(&out);
    let damping = (sound(q.material.damping) * approach).clamp(0.0, spring.dot(&out).max(0.0));
    let turn = q.object_pose.rotation;
    contact.touching = true;
    contact.depth = depth;
    contact.distance = Some(0.0);
    contact.wrench = Wrench { force: turn * (spring + out * damping), torque: Vec3::zeros() };
    let mut k = n * n.transpose();
    if !place.slides && cone.mu > 0.0 {
        k = Matrix3::identity();
    } else {
        k += surface.hollow(&place.free, &n, depth);
        k += (Matrix3::identity() - n * n.transpose()) * tangential;
    }
    let r = turn.to_rotation_matrix().into_inner();
    let k = r * k * r.transpose() * stiffness;
    contact.stiffness.fixed_view_mut::<3, 3>(0, 0).copy_from(&k);
    let normal = turn * n;
    let point = &mut contact.points[0];
    point.position = (q.object_pose * (rest - n * surface.radius())).coords;
    point.normal = normal;
    point.depth = depth;
    point.area = q.material.reference_area;
    point.id = 0;
    contact.n_points = 1;
    cone
}
