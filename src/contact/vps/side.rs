//! Keeping the side from which a tool came: what answers once a motion has carried it through a wall between two ticks.
//!
//! Behind the middle of a thin wall the field pushes out of the other side, and behind the wall not at all. From the impact
//! on ([`super::sweep_to_impact`]) the point that entered first is therefore held by a spring to the surface where it
//! entered, until it is back on its side. The surface is followed as the point slides along it, curved or not; where it ends
//! (the point went round its edge) the point is let go.

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

use super::PointShell;
use super::query::{Impact, place_of};
use crate::contact::{Contact, Query, ToolShape, sound};
use crate::geometry::field::Field;
use crate::geometry::pose::pose_is_finite;
use crate::geometry::{Point, Vec3, Wrench};
use nalgebra::Vector6;

/// The surface is looked for so many cells before and behind where it was.
const WINDOW: f64 = 4.0;
/// Steps of that search to a cell.
const STEPS: u32 = 4;
/// The side turns with the surface by less than acos of this at once.
const TURNS: f64 = 0.5;

/// A point of a tool that is held on the side of an object's surface from which it came.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Side {
    id: u32,
    /// Where the surface is, and the unit vector out of the object there, object's frame.
    anchor: Point,
    out: Vec3,
}

impl Side {
    /// Held from this impact on. Real-time safe.
    pub fn new(impact: &Impact) -> Self {
        Self { id: impact.id, anchor: impact.position, out: impact.side }
    }

    /// Index in the shell of the point that is held. Real-time safe.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The unit vector out of the object, object's frame. Real-time safe.
    pub fn out(&self) -> Vec3 {
        self.out
    }

    /// Of a point (object's frame) beside a surface, in front of it or behind: the way out is away from the object there. `None`
    /// where the field knows no way. Real-time safe.
    pub(crate) fn beside(id: u32, x: &Point, field: &Field) -> Option<Self> {
        let (depth, gradient) = field.depth_gradient(x);
        let out = (-gradient).try_normalize(0.1)?;
        Some(Self { id, anchor: x + out * depth, out })
    }

    /// True, and the surface taken from the field at once, where it pushes the point out on its side anyway: `depth` and inward
    /// `gradient` are the field's at `x`. Real-time safe.
    pub(crate) fn is_pushed_back(&mut self, x: &Point, (depth, gradient): (f64, Vec3)) -> bool {
        let out = -gradient;
        let pushed = depth > 0.0 && out.dot(&self.out) > TURNS;
        if let Some(out) = out.try_normalize(TURNS).filter(|_| pushed) {
            *self = Self { anchor: x + out * depth, out, ..*self };
            return true;
        }
        false
    }

    /// Where the held point is in the tool's frame. Real-time safe.
    pub(crate) fn place(&self, shell: &PointShell) -> Option<Point> {
        place_of(shell, self.id)
    }

    /// How far the point `x` is behind the surface, along the way out, m. Real-time safe.
    pub(crate) fn behind(&self, x: &Point) -> f64 {
        (self.anchor - x).dot(&self.out)
    }

    /// Adds to `contact`, the answer to the same query, what its force lacks of a spring that pulls the point back to the
    /// surface: `stiffness` (N/m) times the way, with the material's damping (N·s/m) while it goes farther, which never
    /// exceeds the spring. So the force starts from nothing at the impact, grows whatever the field says, and
    /// is nothing again when the point is back. False, and nothing added, from then on: let go of the side. The same where
    /// the surface is not there any more, the tool is no shell or has no such point, or the pose is not finite.
    /// Real-time safe.
    pub fn hold(&mut self, q: &Query<'_>, contact: &mut Contact) -> bool {
        let relative = q.object_pose.inv_mul(q.tool_pose);
        let (ToolShape::Shell(shell) | ToolShape::Both(shell, _)) = q.tool else { return false };
        if !pose_is_finite(&relative) {
            return false;
        }
        let Some(place) = self.place(shell) else { return false };
        let x = relative * place;
        if !self.follow(q.object.field(), &x) {
            return false;
        }
        let behind = self.behind(&x);
        self.pull(q, contact, &place, sound(q.material.stiffness) * behind, 1.0);
        contact.depth = contact.depth.max(behind);
        true
    }

    /// Adds `weight` of what the contact's force along the way out lacks of `spring` (N) and its damping, at the point `place`
    /// of the tool. Real-time safe.
    pub(crate) fn pull(&self, q: &Query<'_>, contact: &mut Contact, place: &Point, spring: f64, weight: f64) {
        let out = q.object_pose.rotation * self.out;
        let lever = q.tool_pose.rotation * place.coords;
        let receding = -q.relative_twist().at(&lever).dot(&out);
        let wanted = spring + (sound(q.material.damping) * receding).clamp(0.0, spring);
        let lacks = (wanted - contact.wrench.force.dot(&out)).max(0.0) * weight;
        if lacks > 0.0 {
            contact.wrench += Wrench::from_force_at(out * lacks, &lever);
            let (k, turning) = (&mut contact.stiffness, lever.cross(&out));
            // The spring stands in for what the field does along the way out: that part of the stiffness goes.
            let along: Vector6<f64> = k.fixed_view::<6, 3>(0, 0) * out;
            let own = along.fixed_rows::<3>(0).dot(&out);
            if own > 0.0 {
                *k -= along * along.transpose() * (weight / own);
            }
            let row = Vector6::new(out.x, out.y, out.z, turning.x, turning.y, turning.z);
            *k += row * row.transpose() * (sound(q.material.stiffness) * weight);
        }
        contact.touching = true;
        contact.distance = Some(0.0);
    }

    /// Moves the anchor to where the surface is beside the point `x`. False once `x` is before the surface, or there is none.
    pub(crate) fn follow(&mut self, field: &Field, x: &Point) -> bool {
        let behind = (self.anchor - x).dot(&self.out);
        let step = field.cell / f64::from(STEPS);
        let steps = (2.0 * WINDOW) as u32 * STEPS;
        let at = |k: u32| x + self.out * (behind + (f64::from(k) - 0.5 * f64::from(steps)) * step);
        // The outermost place where the object ends.
        let mut outer = field.depth(&at(steps));
        for k in (0..steps).rev() {
            let inner = field.depth(&at(k));
            if inner > 0.0 && outer <= 0.0 {
                let anchor = at(k) + self.out * (step * inner / (inner - outer));
                let (_, gradient) = field.depth_gradient(&anchor);
                let way = (anchor - x).dot(&self.out);
                self.anchor = anchor;
                if let Some(out) = (-gradient).try_normalize(0.1).filter(|o| o.dot(&self.out) > TURNS) {
                    self.out = out;
                }
                return way > 0.0;
            }
            outer = inner;
        }
        false
    }
}
