//! The side from which a tool came, kept from tick to tick: neither a fast hand nor a hard push gets through a thin wall.
//!
//! A distance field pushes out on the nearer side. Behind the middle of a thin wall that is the wrong one, and behind the wall
//! nothing pushes at all. So the point of a shell that touched first is followed with the surface that it entered
//! through ([`vps::Side`]); one that got through between two ticks is found on its way there ([`vps::sweep_to_impact`]). As
//! long as the field pushes it back the way it came, nothing is added. Where the field pushes on, a spring goes on from the
//! force that was there last, with the material's stiffness, until the point is back on its side or has gone round the edge.
//!
//! One point a tool: a second part of a tool that gets through another wall at the same time is held only after the first.
//! Balls are not kept here: what follows them is a proxy of the control law.

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

use super::vps::{self, Impact, PointShell, Side};
use super::{Budget, Contact, Query, ToolShape, sound};
use crate::geometry::field::Field;
use crate::geometry::{Point, Pose, Vec3};

/// A way of less than so many cells ends inside a wall that it enters, before the middle: the query itself sees that. Walls
/// that a field holds are two cells thick.
const LEAST_WAY: f64 = 0.5;
/// Part of a unit gradient along the kept side within which the held force comes in, so that it is continuous in the pose.
const AGAINST: f64 = 0.25;
/// Part of it across that side from which on it is an edge that turns the gradient, not the middle of a wall.
const ACROSS: f64 = 0.5;

/// What is known of the way to where the tool is. Off until [`Kept::follow`]: a question about a pose alone has no way.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Kept {
    on: bool,
    /// What tool and object it is about.
    key: [u64; 2],
    /// Pose of the tool in the object's frame, one tick ago.
    last: Option<Pose>,
    held: Option<Held>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Held {
    side: Side,
    /// How far behind the surface the point was when the field last pushed it back, m, and the force along that way, N.
    behind: f64,
    force: f64,
    /// Where that was, object's frame; `None` while it is held.
    at: Option<Point>,
    /// The field pushes on.
    pulls: bool,
}

impl Kept {
    /// Sides are kept from now on: each query follows the one before by a tick. Real-time safe.
    pub fn follow(&mut self) {
        self.on = true;
    }

    /// The next pose does not follow the last: the tool or the object was set elsewhere, or nobody holds the tool by force.
    /// Real-time safe.
    pub fn interrupt(&mut self) {
        *self = Self { on: self.on, ..Self::default() };
    }

    /// True while something is held that the field alone would let through. Real-time safe.
    pub fn holds(&self) -> bool {
        self.held.is_some_and(|h| h.pulls)
    }

    /// Adds to the answer to the same query what keeps the tool on its side. Real-time safe.
    pub(super) fn keep(&mut self, q: &Query<'_>, budget: Budget<'_>, contact: &mut Contact) {
        if !self.on {
            return;
        }
        let field = q.object.field();
        let shell = match q.tool {
            ToolShape::Shell(s) | ToolShape::Both(s, _) => &**s,
            // Spheres know how much of a body overlaps, not where it came in.
            ToolShape::Sphere { .. } | ToolShape::Spheres(_) => return,
        };
        let key = [shell.stamp.number(), field.stamp.number()];
        if self.key != key {
            self.interrupt();
            self.key = key;
        }
        let to = q.object_pose.inv_mul(q.tool_pose);
        let from = self.last.replace(to);
        let place = |side: &Side| side.place(shell).unwrap_or_else(Point::origin);
        let mut read = None;
        if let Some(held) = &mut self.held {
            let x = to * place(&held.side);
            let there = field.locate(&x);
            if held.side.is_pushed_back(&x, there) || held.side.follow(field, &x) {
                read = Some(there);
            } else {
                self.held = None;
            }
        }
        if self.held.is_none() {
            let through = from.and_then(|from| passed(shell, field, &from, &to, budget, contact));
            let side = through.as_ref().map(Side::new).or_else(|| entered(q, field, contact));
            self.held = side.and_then(|mut side| {
                let behind = side.follow(field, &(to * place(&side)));
                behind.then_some(Held { side, behind: 0.0, force: 0.0, at: None, pulls: false })
            });
        }
        let Some(held) = &mut self.held else { return };
        let on_tool = place(&held.side);
        let (x, out) = (to * on_tool, held.side.out());
        let (_, gradient) = read.unwrap_or_else(|| field.locate(&x));
        let weight = weight(&gradient, &out);
        let behind = held.side.behind(&x).max(0.0);
        let pushed = contact.wrench.force.dot(&(q.object_pose.rotation * out));
        held.pulls = weight > 0.0;
        if !held.pulls {
            (held.behind, held.force, held.at) = (behind, pushed.max(0.0), Some(x));
            return;
        }
        if let Some(at) = held.at.take() {
            // Measured from the surface as it is found from here, which the field's depth about the middle does not tell.
            held.behind = (behind - (at - x).dot(&out)).max(0.0);
        }
        let stiffness = sound(q.material.stiffness);
        let spring = if behind >= held.behind {
            held.force + stiffness * (behind - held.behind)
        } else {
            held.force * behind / held.behind
        };
        held.side.pull(q, contact, &on_tool, spring, weight);
        contact.depth = contact.depth.max(behind);
    }
}

/// How much of the held force is wanted where the field has this gradient (inwards): all where it pushes on, none where it
/// pushes back, and about the middle of a wall, where it hardly pushes at all, what is missing.
fn weight(gradient: &Vec3, out: &Vec3) -> f64 {
    let against = gradient.dot(out);
    let across = (gradient - out * against).norm();
    let smooth = |t: f64| {
        let t = t.clamp(0.0, 1.0);
        t * t * (3.0 - 2.0 * t)
    };
    // In full before the pushes of balls and points fade with the gradient.
    let middle = smooth(2.0 + against / AGAINST) * smooth(1.0 - across / ACROSS);
    smooth(against / AGAINST).max(middle)
}

/// What got through between two ticks.
fn passed(
    shell: &PointShell,
    field: &Field,
    from: &Pose,
    to: &Pose,
    budget: Budget<'_>,
    contact: &mut Contact,
) -> Option<Impact> {
    let shift = (to.translation.vector - from.translation.vector).norm();
    let way = shift + from.rotation.angle_to(&to.rotation) * shell.bound_radius;
    // What ends farther from the surface than it went was never there. NaN: nothing is known, and nothing found.
    let ends = contact.depth_bounds.map_or(f64::INFINITY, |b| b.upper);
    if !(way > LEAST_WAY * field.cell && -ends < way) {
        return None;
    }
    let left = match budget.units {
        0 => 0,
        units => units.saturating_sub(contact.work).max(1),
    };
    let swept = vps::sweep_to_impact(shell, field, from, to, Budget { units: left, ..budget });
    contact.work = contact.work.saturating_add(swept.work);
    contact.complete &= swept.complete;
    contact.deadline_hit |= swept.late;
    swept.impact
}

/// Where a contact began: its deepest point, with the surface beside it.
fn entered(q: &Query<'_>, field: &Field, contact: &Contact) -> Option<Side> {
    let deepest = contact.points.first().filter(|_| contact.touching && contact.n_points > 0)?;
    let x = q.object_pose.inverse_transform_point(&Point::from(deepest.position));
    Side::beside(deepest.id, &x, field)
}
