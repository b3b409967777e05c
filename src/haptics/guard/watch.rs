//! Checks of what the device says: finite, plausible step, speed, workspace. How old it is the servo checks.

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

use crate::geometry::pose::pose_is_finite;
use crate::geometry::{Pose, Twist};

/// Ticks in a row with an implausible pose, a speed above the limit or a place outside that make it a fault; fewer
/// are held over (one flipped bit on a bus is no fault, and no force may follow it).
const TICKS: u32 = 3;
/// Slack of the step check, m: encoder steps and rounding.
const SLACK: f64 = 2e-3;
/// No device is so many times its reach away: a first sample has none before it to be measured against.
const ASTRAY: f64 = 10.0;
/// Slack of the step check, rad.
const SLACK_ANGLE: f64 = 0.05;

/// What samples may look like. Device frame, SI.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleLimits {
    /// Fastest plausible motion of the tool point, m/s.
    pub plausible: f64,
    /// Fastest plausible rotation, rad/s.
    pub plausible_angular: f64,
    /// Speed that is a fault, m/s.
    pub speed: f64,
    /// Rotation speed that is a fault, rad/s.
    pub angular_speed: f64,
    /// Distance from the device's origin that is a fault, m.
    pub reach: f64,
}

/// Judgement of a new sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Use it.
    Use,
    /// Do not use it; the last good one holds for this tick.
    Hold,
    /// It is not finite.
    NonFinite,
    /// It jumps farther than the device can move, for the third time.
    Jump,
}

/// Judgement of how the device moves, when forces are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// All well.
    Fine,
    /// Too fast for some ticks.
    TooFast,
    /// Outside the workspace for some ticks.
    Outside,
}

/// Memory of the checks. Real-time safe.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Watch {
    last: Option<(Pose, u64)>,
    jumps: u32,
    fast: u32,
    outside: u32,
}

impl Watch {
    /// Forgets everything: the next sample is taken as it is.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// Judges a new sample taken at `now_ns`.
    pub fn sample(&mut self, limits: &SampleLimits, pose: &Pose, now_ns: u64) -> Verdict {
        let unit = (pose.rotation.coords.norm() - 1.0).abs() < 1e-3;
        if !pose_is_finite(pose) || !unit {
            return Verdict::NonFinite;
        }
        let mut far = !(pose.translation.vector.norm() <= ASTRAY * limits.reach);
        if let Some((last, at)) = &self.last {
            // Half as much again: the sample's own time jitters against ours.
            let dt = now_ns.saturating_sub(*at) as f64 * 1e-9 * 1.5;
            let moved = (pose.translation.vector - last.translation.vector).norm();
            let turned = pose.rotation.angle_to(&last.rotation);
            far |= moved > limits.plausible * dt + SLACK;
            far |= turned > limits.plausible_angular * dt + SLACK_ANGLE;
        }
        if far {
            self.jumps = self.jumps.saturating_add(1);
            return if self.jumps >= TICKS { Verdict::Jump } else { Verdict::Hold };
        }
        self.jumps = 0;
        self.last = Some((*pose, now_ns));
        Verdict::Use
    }

    /// Judges motion and place of a good sample.
    pub fn motion(&mut self, limits: &SampleLimits, pose: &Pose, twist: &Twist) -> Seen {
        let (speed, turning) = (twist.linear.norm(), twist.angular.norm());
        let readable = !speed.is_nan() && !turning.is_nan();
        let fast = !readable || speed > limits.speed || turning > limits.angular_speed;
        let distance = pose.translation.vector.norm();
        let outside = distance.is_nan() || distance > limits.reach;
        self.fast = if fast { self.fast.saturating_add(1) } else { 0 };
        self.outside = if outside { self.outside.saturating_add(1) } else { 0 };
        match (self.fast >= TICKS, self.outside >= TICKS) {
            (true, _) => Seen::TooFast,
            (_, true) => Seen::Outside,
            _ => Seen::Fine,
        }
    }
}
