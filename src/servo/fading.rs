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
use crate::geometry::Wrench;

/// A softened or hardened object keeps its force at first; beyond this ratio it does not.
pub(super) const MAX_GAIN: f64 = 8.0;

/// The part of `new` that `old` already was: <old, new> / <new, new> with torques measured at `length`, not negative.
/// 1 when there is no new wrench to fade.
pub(super) fn overlap(old: &Wrench, new: &Wrench, length: f64) -> f64 {
    let lever = 1.0 / length.max(1e-3).powi(2);
    let dot = |a: &Wrench, b: &Wrench| a.force.dot(&b.force) + a.torque.dot(&b.torque) * lever;
    let size = dot(new, new);
    if size > 1e-18 { (dot(old, new) / size).max(0.0) } else { 1.0 }
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
    use crate::geometry::Vec3;

    fn force(x: f64, y: f64) -> Wrench {
        Wrench { force: Vec3::new(x, y, 0.0), torque: Vec3::zeros() }
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
