//! Velocity from encoder positions: first-order adaptive windowing (Janabi-Sharifi, Hayward and Chen, IEEE Trans.
//! Control Systems Technology 8(6), 2000, "end-fit").
//!
//! The longest window is used whose chord passes every sample within the encoders' step: little noise when slow, little
//! lag when fast. Without quantisation it is the plain backward difference. Real-time safe.

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

use crate::geometry::{Pose, Twist, Vec3};
use nalgebra::UnitQuaternion;

/// Samples that the longest window spans.
const WINDOW: usize = 16;

/// Estimates the twist of the device's tool point from its poses.
#[derive(Clone, Debug)]
pub struct Velocity {
    /// Newest first; only `len` hold.
    poses: [(Pose, u64); WINDOW],
    len: usize,
    /// How far a sample may lie off a chord: m and rad.
    noise: (f64, f64),
}

impl Velocity {
    /// For a device that resolves `step` m and `angle_step` rad; 0 = ideal.
    pub fn new(step: f64, angle_step: f64) -> Self {
        // A sample errs by half a step, a chord by as much: together one step, and a hair for rounding.
        let noise = (step * (1.0 + 1e-6), angle_step * (1.0 + 1e-6));
        Self { poses: [(Pose::identity(), 0); WINDOW], len: 0, noise }
    }

    /// Forgets the past.
    pub fn reset(&mut self) {
        self.len = 0;
    }

    /// Takes a new sample; an older or equally old time is ignored.
    pub fn push(&mut self, pose: &Pose, time_ns: u64) {
        if self.len > 0 && time_ns <= self.poses[0].1 {
            return;
        }
        self.poses.copy_within(0..WINDOW - 1, 1);
        self.poses[0] = (*pose, time_ns);
        self.len = (self.len + 1).min(WINDOW);
    }

    /// The newest twist, axes of the poses' parent frame; zero before the second sample.
    pub fn twist(&self) -> Twist {
        Twist {
            linear: self.fit(self.noise.0, |a, b| a.translation.vector - b.translation.vector),
            angular: self.fit(self.noise.1, |a, b| turn(&a.rotation, &b.rotation)),
        }
    }

    /// Slope of the longest acceptable chord; `difference(a, b)` is a - b.
    fn fit(&self, noise: f64, difference: impl Fn(&Pose, &Pose) -> Vec3) -> Vec3 {
        let Some(((newest, now), past)) = self.poses.get(..self.len).and_then(<[_]>::split_first) else {
            return Vec3::zeros();
        };
        let mut steps = [(Vec3::zeros(), 0.0); WINDOW];
        let mut slope = Vec3::zeros();
        for (n, (pose, time)) in past.iter().enumerate() {
            let (moved, dt) = (difference(newest, pose), (now - time) as f64 * 1e-9);
            let chord = moved / dt;
            let inside = |(m, t): &(Vec3, f64)| (m - chord * *t).norm() <= noise;
            if n > 0 && !(noise > 0.0 && steps.iter().take(n).all(inside)) {
                break;
            }
            slope = chord;
            if let Some(step) = steps.get_mut(n) {
                *step = (moved, dt);
            }
        }
        slope
    }
}

/// Rotation vector that turns `b` into `a`, parent axes, rad; the shorter way.
fn turn(a: &UnitQuaternion<f64>, b: &UnitQuaternion<f64>) -> Vec3 {
    (a * b.inverse()).scaled_axis()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(x: f64, angle: f64) -> Pose {
        Pose::new(Vec3::new(x, 0.0, 0.0), Vec3::new(0.0, 0.0, angle))
    }

    #[test]
    fn without_quantisation_it_is_the_backward_difference() {
        let mut v = Velocity::new(0.0, 0.0);
        assert_eq!(v.twist(), Twist::ZERO);
        let x = |k: u64| 0.01 * (0.05 * k as f64).sin();
        for k in 0..100 {
            v.push(&at(x(k), 0.3 * x(k)), k * MS);
            if k > 0 {
                let expect = (x(k) - x(k - 1)) / 1e-3;
                assert!((v.twist().linear.x - expect).abs() < 1e-9);
                assert!((v.twist().angular.z - 0.3 * expect).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn quantised_constant_motion_is_far_less_noisy_than_a_difference() {
        // 30 um steps at 1 kHz: a plain difference of 5 mm/s jumps between 0 and 30 mm/s.
        let step = 30e-6;
        let mut v = Velocity::new(step, 0.0);
        let mut worst: f64 = 0.0;
        for k in 0..1000u64 {
            let x = 0.005 * k as f64 * 1e-3;
            v.push(&at((x / step).round() * step, 0.0), k * MS);
            if k > 100 {
                worst = worst.max((v.twist().linear.x - 0.005).abs());
            }
        }
        // A chord over 16 ms errs by at most one step in all.
        assert!(worst <= step / 0.015 + 1e-9, "{worst}");
    }

    #[test]
    fn a_sudden_stop_is_seen_within_two_steps_of_motion() {
        let step = 30e-6;
        let mut v = Velocity::new(step, 0.0);
        let x = |k: u64| 0.2 * k.min(100) as f64 * 1e-3;
        let mut after = None;
        for k in 0..130u64 {
            v.push(&at((x(k) / step).round() * step, 0.0), k * MS);
            if k > 100 && v.twist().linear.x.abs() < 0.02 && after.is_none() {
                after = Some(k - 100);
            }
        }
        assert!(after.is_some_and(|ticks| ticks <= 2), "{after:?}");
    }

    #[test]
    fn lost_samples_and_repeated_times_do_no_harm() {
        let mut v = Velocity::new(0.0, 0.0);
        for ms in [0, 1, 2, 5, 6, 6, 9] {
            v.push(&at(0.1 * ms as f64 * 1e-3, 0.0), ms * MS);
        }
        assert!((v.twist().linear.x - 0.1).abs() < 1e-12);
    }
}
