//! Friction of tools that touch with areas: point shells and sphere trees.
//!
//! Each of a contact's patches ([`crate::contact::patch`]) is held by a spring along the surface and one that twists about its normal.
//! Both are stretched by what the tool moves against the object there, from pose to pose, so that they go along with an object that
//! moves and nothing drifts; what comes off its object lets go. The springs are as stiff as the patch is across the surface
//! (and `arm` squared of that in twist, so that what slides pulls the way that it goes). Pull and twist together stay within one limit (Goyal, Ruina and Papadopoulos 1991; the
//! ellipsoid of Howe and Cutkosky 1996):
//!
//! ```text
//! sqrt(pull^2 + (twist / arm)^2) <= mu press
//! ```
//!
//! Beyond the static coefficient both springs give way by one factor until the sliding coefficient holds them
//! ([`friction::slip`]). Giving way is along what the springs pull, so it always takes energy; and a spring that gets stiffer
//! as more presses keeps its pull, one that gets softer keeps its stretch (Elata and Berryman 1996), so that changing what presses
//! gives none either. A spring follows its patch's stiffness only beyond a factor of [`LOOSE`]: points that come and go with
//! each count of an encoder would pull it loose bit by bit.
//!
//! Real-time safe, pure.

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

use super::friction;
use crate::contact::{MAX_PATCHES, Patch, Query};
use crate::geometry::pose::pose_is_finite;
use crate::geometry::{Point, Pose, Twist, Vec3, Wrench};
use nalgebra::{Matrix3, Matrix6};

/// A spring is at most so many times softer or stiffer than its patch.
pub const LOOSE: f64 = 1.5;
/// Patches narrower than this do not hold a twist, m.
const POINT: f64 = 1e-9;

/// What is held of one object. Explicit, resettable, fixed size: the answer with the same query and state has the same bits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Grip {
    /// Incarnation of the tool.
    tool: u32,
    /// The tool in the object's frame, last tick.
    before: Option<Pose>,
    holds: [Hold; MAX_PATCHES],
}

/// What one patch holds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Hold {
    /// Stretch along the surface, object's frame, m, and twist about the normal, rad.
    stretch: Vec3,
    twist: f64,
    /// Of the springs, N/m and N·m/rad; 0 = nothing is held.
    stiffness: f64,
    turning: f64,
    slides: bool,
}

/// What friction does to a tool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rubbed {
    /// Wrench on the tool about its origin, scene axes.
    pub wrench: Wrench,
    /// Stiffness of the springs, same frame.
    pub stiffness: Matrix6<f64>,
    /// The part of it whose far ends slide along with the tool.
    pub sliding: Matrix6<f64>,
}

/// How it is to be held.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// Incarnation of the tool.
    pub tool: u32,
    /// Damping time of the coupling, s: what sticks is damped with it as the contact is.
    pub tau: f64,
    /// Most that the springs of one object are stiff together, N/m; may be infinite.
    pub most: f64,
    /// The part of what presses that is felt, 0..=1: no more than that holds. The damping across the surface is that of the whole.
    pub part: f64,
    /// The contact was cut short by the clock: patches that are not seen may be there.
    pub late: bool,
}

impl Grip {
    /// The next pose does not follow the last, or nobody holds the tool by force. Real-time safe.
    pub fn interrupt(&mut self) {
        *self = Self::default();
    }

    /// What the patches of a contact hold, in a tick after the last. `None` without friction. Real-time safe.
    pub fn rub(&mut self, q: &Query<'_>, patches: &[Patch; MAX_PATCHES], held: &Held) -> Option<Rubbed> {
        let material = &q.material.friction;
        if !material.rubs() {
            self.interrupt();
            return None;
        }
        if self.tool != held.tool {
            self.interrupt();
            self.tool = held.tool;
        }
        let relative = q.object_pose.inv_mul(q.tool_pose);
        let moving = q.relative_twist();
        if !(pose_is_finite(&relative) && moving.is_finite()) {
            self.interrupt();
            return None;
        }
        // From where a place of the tool was to where it is, object's frame.
        let step = self.before.map_or_else(Pose::identity, |before| relative * before.inverse());
        self.before = Some(relative);
        let whole: f64 = patches.iter().map(|p| p.stiffness).sum();
        let part = held.part.min(if whole > held.most { held.most / whole } else { 1.0 });
        let none = Matrix6::zeros();
        let mut rubbed = Rubbed { wrench: Wrench::ZERO, stiffness: none, sliding: none };
        let mut any = false;
        for (hold, patch) in self.holds.iter_mut().zip(patches) {
            if !(patch.press > 0.0 && patch.stiffness * part > 0.0) {
                if !held.late {
                    *hold = Hold::default();
                }
                continue;
            }
            any = true;
            hold.follow(patch.stiffness * part, patch.arm);
        }
        // Each may be stiffer than its part by the factor that it lags behind.
        let sum: f64 = self.holds.iter().map(|h| h.stiffness).sum();
        if sum > held.most {
            self.holds.iter_mut().for_each(|h| h.soften(held.most / sum));
        }
        for (hold, patch) in self.holds.iter_mut().zip(patches).filter(|(h, _)| h.stiffness > 0.0) {
            if !(patch.press > 0.0) {
                // Not seen in a tick that ran out of time: it stays where it is.
                continue;
            }
            hold.carry(q, patch, &step);
            let (pull, twist) = hold.pull(q, patch, &moving, held);
            rubbed.wrench.force += pull;
            rubbed.wrench.torque += patch.centre.cross(&pull) + patch.normal * twist;
            let stiffness = hold.matrix(patch);
            rubbed.stiffness += stiffness;
            if hold.slides {
                rubbed.sliding += stiffness;
            }
        }
        any.then_some(rubbed)
    }
}

impl Hold {
    /// The springs go after what their patch is now.
    fn follow(&mut self, stiffness: f64, arm: f64) {
        let turning = stiffness * arm * arm;
        let fresh = self.stiffness <= 0.0;
        let (k, kept) = followed(self.stiffness, stiffness, fresh);
        self.stiffness = k;
        self.stretch *= kept;
        let (k, kept) = followed(self.turning, turning, fresh || self.turning <= 0.0);
        self.turning = k;
        self.twist *= kept;
    }

    /// Makes both springs softer.
    fn soften(&mut self, factor: f64) {
        self.stiffness *= factor;
        self.turning *= factor;
    }

    /// Stretches them by what the tool moved there.
    fn carry(&mut self, q: &Query<'_>, patch: &Patch, step: &Pose) {
        let at = Point::from(q.tool_pose.translation.vector + patch.centre);
        let at = q.object_pose.inverse_transform_point(&at);
        let normal = q.object_pose.rotation.inverse() * patch.normal;
        let moved = at - step.inverse_transform_point(&at);
        self.stretch += moved;
        self.stretch -= normal * normal.dot(&self.stretch);
        self.twist += normal.dot(&step.rotation.scaled_axis());
        if patch.gyration < POINT {
            self.twist = 0.0;
        }
    }

    /// Lets go of what is not held any more; the pull on the tool (scene axes) and the twist about the normal.
    fn pull(&mut self, q: &Query<'_>, patch: &Patch, moving: &Twist, held: &Held) -> (Vec3, f64) {
        let (tau, press) = (held.tau, held.part * patch.press);
        let material = &q.material.friction;
        let arm = patch.arm.max(POINT);
        let velocity = moving.at(&patch.centre);
        let out = velocity.dot(&patch.normal);
        let (along, turn) = (velocity - patch.normal * out, moving.angular.dot(&patch.normal));
        let load = (self.stretch.norm() * self.stiffness).hypot(self.twist * self.turning / arm);
        let speed = along.norm().hypot(turn * arm);
        let mu = friction::slip(material, self.slides, load, press, speed);
        self.slides = mu.is_some();
        if let Some(mu) = mu {
            let left = mu * press / load;
            self.stretch *= left;
            self.twist *= left;
        }
        let mut pull = q.object_pose.rotation * (self.stretch * -self.stiffness);
        let mut twist = self.twist * -self.turning;
        if !self.slides {
            pull -= along * (tau * self.stiffness);
            twist -= turn * (tau * self.turning);
        }
        // What is damped away of the press on the way out holds nothing either.
        let press = (press - tau * patch.stiffness * out.max(0.0)).max(0.0);
        let most = mu.unwrap_or(material.statics) * press;
        let load = pull.norm().hypot(twist / arm);
        if load > most {
            (pull, twist) = (pull * (most / load), twist * (most / load));
        }
        (pull, if patch.gyration < POINT { 0.0 } else { twist })
    }

    /// Stiffness about the tool's origin: the spring along the surface at its lever, and that about the normal.
    fn matrix(&self, patch: &Patch) -> Matrix6<f64> {
        let across = patch.normal * patch.normal.transpose();
        let along = (Matrix3::identity() - across) * self.stiffness;
        let lever = patch.centre.cross_matrix();
        let mut k = Matrix6::zeros();
        k.fixed_view_mut::<3, 3>(0, 0).copy_from(&along);
        k.fixed_view_mut::<3, 3>(0, 3).copy_from(&(-along * lever));
        k.fixed_view_mut::<3, 3>(3, 0).copy_from(&(lever * along));
        k.fixed_view_mut::<3, 3>(3, 3).copy_from(&(across * self.turning - lever * along * lever));
        k
    }
}

/// A spring's stiffness that goes after `to`, and the part of its stretch that is left.
fn followed(kept: f64, to: f64, fresh: bool) -> (f64, f64) {
    let (low, high) = (to / LOOSE, to * LOOSE);
    if fresh {
        (to, 1.0)
    } else if kept < low {
        (low, kept / low)
    } else {
        (kept.min(high), 1.0)
    }
}

#[cfg(test)]
mod tests;
