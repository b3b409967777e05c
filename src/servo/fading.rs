//! How what is felt comes and goes: the gain of an object that changed, and of one whose stream stopped. Real-time safe.

#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used
    )
)]

use super::motion::{Played, Stream};
use super::query::World;
use crate::contact::Contact;
use crate::geometry::{Twist, Vec3, Wrench};
use crate::haptics::coupling;
use crate::haptics::friction::Cone;
use nalgebra::Matrix6;

/// A softened or hardened object keeps its force at first; beyond this ratio it does not.
pub(super) const MAX_GAIN: f64 = 8.0;

/// Of what the tool's own motion can have brought since the last tick so much may be there: where that is all, nothing has to fade.
const MOVED: f64 = 2.0;

/// <a, b>, torques measured at `length`.
pub(super) fn dot(a: &Wrench, b: &Wrench, length: f64) -> f64 {
    a.force.dot(&b.force) + a.torque.dot(&b.torque) / length.max(1e-3).powi(2)
}

/// Size of a wrench, N, torques measured at `length`.
pub(super) fn size(wrench: &Wrench, length: f64) -> f64 {
    dot(wrench, wrench, length).sqrt()
}

/// How fast [`size`] grows where the tool moves against `wrench`, N/m: its stiffness along that.
pub(super) fn along(stiffness: &Matrix6<f64>, wrench: &Wrench, length: f64) -> f64 {
    let all = size(wrench, length);
    if !(all > 0.0) {
        return 0.0;
    }
    let push = wrench.scaled(1.0 / all);
    let way = Twist { linear: push.force, angular: push.torque / length.max(1e-3).powi(2) };
    dot(&coupling::times(stiffness, &way), &push, length)
}

/// What a contact presses with, N, and how fast that grows, N/m: across the surface where that is known, else its [`size`] and [`along`] it.
pub(super) fn pressed(contact: &Contact, cone: Option<&Cone>, length: f64) -> (f64, f64) {
    let Some(Cone { normal, .. }) = cone else {
        return (size(&contact.wrench, length), along(&contact.stiffness, &contact.wrench, length));
    };
    let way = Twist { linear: *normal, angular: Vec3::zeros() };
    let grows = coupling::times(&contact.stiffness, &way);
    (contact.wrench.force.dot(normal).max(0.0), grows.force.dot(normal))
}

/// A wrench about the tool's origin, about the device's tool point.
pub(super) fn about(wrench: &Wrench, lever: &Vec3) -> Wrench {
    Wrench { torque: wrench.torque + lever.cross(&wrench.force), ..*wrench }
}

/// The part of `new` that `old` already was: <old, new> / <new, new> with torques measured at `length`, not negative.
/// 1 when there is no new wrench to fade.
pub(super) fn overlap(old: &Wrench, new: &Wrench, length: f64) -> f64 {
    let size = dot(new, new, length);
    if size > 1e-18 { (dot(old, new, length) / size).max(0.0) } else { 1.0 }
}

/// What an object did in the last tick, and how it has changed since.
pub(super) struct Before {
    /// Felt in the last tick, without damping: that comes and goes with the motion.
    pub spring: Wrench,
    /// For so long the tool's own motion has pressed on it since, s, times what its stiffness was of what it is now; 0 for an object that was not there.
    pub moved: f64,
    /// Largest gain.
    pub most: f64,
    /// It began anew in the last tick, too.
    pub again: bool,
}

/// The gain of an object in the tick in which it becomes another: what was felt of it, what the tool's motion `relative` to it adds in a
/// tick, and where it does so in every tick a step of the fade, so that it comes, too.
pub(super) fn begin(
    before: &Before,
    contact: &Contact,
    relative: &Twist,
    played: &Played,
    world: &World<'_>,
) -> f64 {
    let length = world.snapshot.tool.bound_radius;
    let grows = coupling::times(&contact.stiffness, relative).scaled(-1.0);
    let (came, now_only) = (grows.scaled(before.moved), grows.scaled(before.moved.min(world.dt)));
    let now = &contact.wrench;
    let by_motion = before.spring == Wrench::ZERO && overlap(&now_only, now, length) * MOVED >= 1.0;
    let gain = if by_motion { 1.0 } else { overlap(&(before.spring + came), now, length).min(before.most) };
    match played.stream {
        Stream::Stopped => gain,
        _ if before.again && gain < 1.0 => (gain + world.dt / world.fade).min(1.0),
        _ => gain,
    }
}

/// The next gain of an object that did not change in this tick.
pub(super) fn fade(gain: f64, played: &Played, felt: bool, recent: bool, world: &World<'_>) -> f64 {
    let gain = if recent { gain } else { 1.0 };
    match (played.stream, felt) {
        // Frozen: what was felt fades out; what was not felt stays out.
        (Stream::Stopped, true) if recent => (gain - world.dt / world.release).max(0.0),
        (Stream::Stopped, _) => 0.0,
        (_, false) => 1.0,
        (_, true) if gain < 1.0 => (gain + world.dt / world.fade).min(1.0),
        (_, true) => (gain - (MAX_GAIN - 1.0) * world.dt / world.fade).max(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn force(x: f64, y: f64) -> Wrench {
        Wrench { force: Vec3::new(x, y, 0.0), torque: Vec3::zeros() }
    }

    /// A wall's normal spring, with and without a lever: closed forms.
    #[test]
    fn the_stiffness_along_a_wrench_is_that_of_its_spring() {
        let wall = Matrix6::from_diagonal(&[1000.0, 0.0, 0.0, 0.0, 0.0, 0.0].into());
        assert!((along(&wall, &force(-3.0, 0.0), 0.05) - 1000.0).abs() < 1e-9);
        assert_eq!(along(&wall, &force(0.0, 3.0), 0.05), 0.0);
        assert_eq!(along(&wall, &Wrench::ZERO, 0.05), 0.0);
        let hinge = Matrix6::from_diagonal(&[0.0, 0.0, 0.0, 0.0, 0.0, 2.0].into());
        let torque = Wrench { force: Vec3::zeros(), torque: Vec3::new(0.0, 0.0, 0.1) };
        assert!((along(&hinge, &torque, 0.05) - 2.0 / 0.05f64.powi(2)).abs() < 1e-9, "at the tool's radius");
    }

    #[test]
    fn overlap_keeps_what_was_felt_and_no_more() {
        assert_eq!(overlap(&force(2.0, 0.0), &force(4.0, 0.0), 0.05), 0.5);
        assert_eq!(overlap(&Wrench::ZERO, &force(4.0, 0.0), 0.05), 0.0);
        assert_eq!(overlap(&force(0.0, 3.0), &force(4.0, 0.0), 0.05), 0.0, "across: nothing of it was felt");
        assert_eq!(overlap(&force(-3.0, 0.0), &force(4.0, 0.0), 0.05), 0.0);
        assert_eq!(overlap(&force(3.0, 0.0), &Wrench::ZERO, 0.05), 1.0);
        assert_eq!(
            overlap(&force(4.0, 0.0), &force(2.0, 0.0), 0.05),
            2.0,
            "softened: fades down from what was felt"
        );
    }
}
