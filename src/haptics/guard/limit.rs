//! Limits of the command: slew and common-factor saturation.

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

use crate::geometry::{Vec3, Wrench};

/// What the command may be. Built by [`Limits::new`], which makes every number finite and non-negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    force: f64,
    torque: f64,
    force_step: f64,
    torque_step: f64,
}

/// Largest number that still multiplies without overflow: stands for "no limit".
const HUGE: f64 = 1e100;
/// Limits below this (N, N·m) count as zero: squares of such numbers lose their digits.
const TINY: f64 = 1e-12;

fn sound(value: f64) -> f64 {
    // NaN becomes zero: an unreadable limit allows nothing.
    if value >= TINY { value.min(HUGE) } else { 0.0 }
}

impl Limits {
    /// Largest force (N) and torque (N·m), and their largest growth per tick and component. NaN and negative numbers
    /// count as 0, which switches the force or torque off.
    pub fn new(force: f64, torque: f64, force_step: f64, torque_step: f64) -> Self {
        Self {
            force: sound(force),
            torque: sound(torque),
            force_step: sound(force_step),
            torque_step: sound(torque_step),
        }
    }

    /// These limits with force and torque lowered to at most the given; larger or unreadable values change nothing.
    #[must_use]
    pub fn lowered(&self, force: f64, torque: f64) -> Self {
        // `f64::min` ignores a NaN.
        Self { force: sound(self.force.min(force)), torque: sound(self.torque.min(torque)), ..*self }
    }

    /// Largest force, N.
    pub fn force(&self) -> f64 {
        self.force
    }

    /// Largest torque, N·m.
    pub fn torque(&self) -> f64 {
        self.torque
    }

    /// Largest growth of a force component in a tick, N.
    pub fn force_step(&self) -> f64 {
        self.force_step
    }

    /// Largest growth of a torque component in a tick, N·m.
    pub fn torque_step(&self) -> f64 {
        self.torque_step
    }
}

/// Limits growth and change of direction of each component; a decrease towards zero is never slowed.
pub fn slew(limits: &Limits, last: &Wrench, wanted: &Wrench) -> Wrench {
    let each = |last: &Vec3, wanted: &Vec3, step: f64| wanted.zip_map(last, |w, l| slew_one(l, w, step));
    Wrench {
        force: each(&last.force, &wanted.force, limits.force_step),
        torque: each(&last.torque, &wanted.torque, limits.torque_step),
    }
}

fn slew_one(last: f64, wanted: f64, step: f64) -> f64 {
    // From the other side of zero, zero itself is reached at once.
    let from = if last.is_finite() && (last < 0.0) == (wanted < 0.0) { last.abs() } else { 0.0 };
    wanted.clamp(-(from + step), from + step)
}

/// Scales force and torque by one factor so that both norms keep their limits: the direction of the wrench stays. A
/// limit of zero drops its part instead, so that a device without torque still gives force.
pub fn saturate(limits: &Limits, wrench: &Wrench) -> Wrench {
    let mut out = *wrench;
    if limits.force == 0.0 {
        out.force = Vec3::zeros();
    }
    if limits.torque == 0.0 {
        out.torque = Vec3::zeros();
    }
    let k = factor(out.force.norm(), limits.force).min(factor(out.torque.norm(), limits.torque));
    if k < 1.0 { out.scaled(k) } else { out }
}

/// Factor (0..=1) that brings `norm` to `limit`, rounded down so that the product does not exceed it.
fn factor(norm: f64, limit: f64) -> f64 {
    if norm > limit { (limit / norm) * (1.0 - 8.0 * f64::EPSILON) } else { 1.0 }
}
