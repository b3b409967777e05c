//! A smooth curve through timed poses: cubic spline in position and quaternion, continuous to the second derivative.

// Every index is below `len`, which is at most KNOTS.
#![allow(clippy::indexing_slicing)]

use crate::geometry::pose::pose_is_finite;
use crate::geometry::{Pose, Twist, Vec3};
use crate::scene::snapshot::MotionSample;
use nalgebra::{Quaternion, UnitQuaternion, Vector4};

/// Knots that a curve runs through: some around the time of interest; a knot four intervals away hardly matters.
pub const KNOTS: usize = 8;
/// Where extrapolation past the last knot comes to rest: time constant, in last intervals, bounded in s.
const REST: (f64, f64) = (2e-3, 20e-3);

type Row = nalgebra::SVector<f64, 7>;

/// The spline. Fixed size; building and sampling are real-time safe.
#[derive(Clone, Copy, Debug)]
pub struct Curve {
    base_ns: u64,
    len: usize,
    time: [f64; KNOTS],
    value: [Row; KNOTS],
    /// Second derivatives at the knots.
    bend: [Row; KNOTS],
}

fn row(pose: &Pose, near: Option<&Row>) -> Row {
    let p = &pose.translation.vector;
    let mut q = pose.rotation.coords;
    // q and -q are the same rotation; take the one on the same side.
    if near.is_some_and(|n| n[3] * q.x + n[4] * q.y + n[5] * q.z + n[6] * q.w < 0.0) {
        q = -q;
    }
    Row::from([p.x, p.y, p.z, q.x, q.y, q.z, q.w])
}

/// The samples that a curve about `at_ns` runs through.
fn window(samples: &[MotionSample], at_ns: u64) -> Option<&[MotionSample]> {
    let after = samples.iter().position(|s| s.time_ns > at_ns).unwrap_or(samples.len());
    let end = samples.len().min(after.max(1) + KNOTS / 2);
    samples.get(end.saturating_sub(KNOTS)..end)
}

/// A number that changes with the times of the samples that a curve about `at_ns` runs through. Real-time safe.
pub fn fingerprint(samples: &[MotionSample], at_ns: u64) -> u64 {
    let times = window(samples, at_ns).unwrap_or_default().iter().map(|s| s.time_ns);
    times.fold(0, |f: u64, t| (f ^ t).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31))
}

impl Curve {
    /// Through the samples around `at_ns`; `None` when there is none, or one that is not finite. Samples whose time
    /// does not rise are left out.
    pub fn new(samples: &[MotionSample], at_ns: u64) -> Option<Self> {
        let window = window(samples, at_ns)?;
        let first = window.first()?;
        let mut curve = Self {
            base_ns: first.time_ns,
            len: 0,
            time: [0.0; KNOTS],
            value: [Row::zeros(); KNOTS],
            bend: [Row::zeros(); KNOTS],
        };
        for sample in window {
            if !pose_is_finite(&sample.pose) {
                return None;
            }
            let t = seconds(sample.time_ns, curve.base_ns);
            let n = curve.len;
            let previous = n.checked_sub(1).and_then(|i| Some((curve.time.get(i)?, curve.value.get(i)?)));
            if previous.is_some_and(|(last, _)| t <= *last) {
                continue;
            }
            let value = row(&sample.pose, previous.map(|(_, v)| v));
            if let (Some(a), Some(b)) = (curve.time.get_mut(n), curve.value.get_mut(n)) {
                (*a, *b) = (t, value);
                curve.len += 1;
            }
        }
        curve.bend();
        Some(curve)
    }

    /// Solves for the second derivatives: tridiagonal system of the cubic spline with parabolic ends (the end's second
    /// derivative equals its neighbour's), which stays good where the motion is curved at the newest sample.
    fn bend(&mut self) {
        let n = self.len;
        if n < 3 {
            return;
        }
        let (t, v) = (&self.time, &self.value);
        let h = |i: usize| t[i + 1] - t[i];
        let slope = |i: usize| (v[i + 1] - v[i]) / h(i);
        // Rows 1..n-1: h[i-1] m[i-1] + 2 (h[i-1] + h[i]) m[i] + h[i] m[i+1] = 6 (slope[i] - slope[i-1]), with
        // m[0] = m[1] and m[n-1] = m[n-2].
        let (mut upper, mut right) = ([0.0; KNOTS], [Row::zeros(); KNOTS]);
        for i in 1..n - 1 {
            let mut diagonal = 2.0 * (h(i - 1) + h(i));
            if i == 1 {
                diagonal += h(0);
            }
            if i == n - 2 {
                diagonal += h(n - 2);
            }
            let lower = if i > 1 { h(i - 1) } else { 0.0 };
            let pivot = diagonal - lower * upper[i - 1];
            upper[i] = h(i) / pivot;
            right[i] = ((slope(i) - slope(i - 1)) * 6.0 - right[i - 1] * lower) / pivot;
        }
        self.bend[n - 2] = right[n - 2];
        for i in (1..n - 2).rev() {
            self.bend[i] = right[i] - self.bend[i + 1] * upper[i];
        }
        self.bend[0] = self.bend[1];
        self.bend[n - 1] = self.bend[n - 2];
    }

    /// Pose and twist (parent axes, about the body's origin) at a time. Before the first knot it rests there; past the
    /// last it comes to rest smoothly.
    pub fn at(&self, time_ns: f64) -> (Pose, Twist) {
        let t = (time_ns - self.base_ns as f64) * 1e-9;
        let last = self.len.saturating_sub(1);
        if self.len < 2 || t <= 0.0 {
            return pose_twist(&self.value[0], &Row::zeros());
        }
        if t >= self.time[last] {
            let h = self.time[last] - self.time[last - 1];
            let (value, velocity) = self.segment(last - 1, self.time[last]);
            let rest = h.clamp(REST.0, REST.1);
            let decay = (-(t - self.time[last]) / rest).exp();
            return pose_twist(&(value + velocity * (rest * (1.0 - decay))), &(velocity * decay));
        }
        let mut i = 0;
        while i + 2 < self.len && self.time[i + 1] <= t {
            i += 1;
        }
        let (value, velocity) = self.segment(i, t);
        pose_twist(&value, &velocity)
    }

    /// Value and derivative in segment `i`.
    fn segment(&self, i: usize, t: f64) -> (Row, Row) {
        let (t0, t1) = (self.time[i], self.time[i + 1]);
        let h = t1 - t0;
        let (a, b) = ((t1 - t) / h, (t - t0) / h);
        let (v0, v1, m0, m1) = (&self.value[i], &self.value[i + 1], &self.bend[i], &self.bend[i + 1]);
        let value = v0 * a + v1 * b + (m0 * (a * a * a - a) + m1 * (b * b * b - b)) * (h * h / 6.0);
        let velocity = (v1 - v0) / h + (m1 * (3.0 * b * b - 1.0) - m0 * (3.0 * a * a - 1.0)) * (h / 6.0);
        (value, velocity)
    }
}

/// Signed difference of two clock readings, s.
fn seconds(time_ns: u64, base_ns: u64) -> f64 {
    time_ns.wrapping_sub(base_ns) as i64 as f64 * 1e-9
}

/// Pose and twist from the seven numbers and their derivatives. The quaternion is normalised, and its derivative with
/// it: w = 2 dq q* / |q|^2, whose real part is the change of length and drops out.
fn pose_twist(value: &Row, velocity: &Row) -> (Pose, Twist) {
    let q = Quaternion::from(Vector4::new(value[3], value[4], value[5], value[6]));
    let dq = Quaternion::from(Vector4::new(velocity[3], velocity[4], velocity[5], velocity[6]));
    let norm2 = q.norm_squared();
    let (rotation, angular) = if norm2 > 1e-6 {
        (UnitQuaternion::new_normalize(q), (dq * q.conjugate()).imag() * (2.0 / norm2))
    } else {
        // Opposite rotations half a turn apart in one interval: no way between them is shorter.
        (UnitQuaternion::identity(), Vec3::zeros())
    };
    let linear = Vec3::new(velocity[0], velocity[1], velocity[2]);
    let position = Vec3::new(value[0], value[1], value[2]);
    (Pose::from_parts(position.into(), rotation), Twist { linear, angular })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A smooth motion with its exact derivative.
    fn truth(t: f64) -> (Pose, Twist) {
        let w = 2.0 * std::f64::consts::PI;
        let p = Vec3::new(0.02 * (w * t).sin(), 0.01 * (2.0 * w * t).cos(), 0.0);
        let v = Vec3::new(0.02 * w * (w * t).cos(), -0.02 * w * (2.0 * w * t).sin(), 0.0);
        // Rotation about a fixed axis, so that angle and rate are exact.
        let axis = Vec3::new(0.6, 0.0, 0.8);
        let (angle, rate) = (0.5 * (w * t).sin(), 0.5 * w * (w * t).cos());
        let pose = Pose::from_parts(p.into(), UnitQuaternion::from_scaled_axis(axis * angle));
        (pose, Twist { linear: v, angular: axis * rate })
    }

    fn samples(times: impl Iterator<Item = f64>) -> Vec<MotionSample> {
        times.map(|t| MotionSample { time_ns: (t * 1e9) as u64, pose: truth(t).0 }).collect()
    }

    fn worst(times: &[f64], from: f64, to: f64) -> (f64, f64, f64, f64) {
        let all = samples(times.iter().copied());
        let mut worst = (0.0f64, 0.0f64, 0.0f64, 0.0f64);
        let mut t = from;
        while t < to {
            let curve = Curve::new(&all, (t * 1e9) as u64).unwrap();
            let (pose, twist) = curve.at(t * 1e9);
            let (exact, exact_twist) = truth(t);
            worst.0 = worst.0.max((pose.translation.vector - exact.translation.vector).norm());
            worst.1 = worst.1.max(pose.rotation.angle_to(&exact.rotation));
            worst.2 = worst.2.max((twist.linear - exact_twist.linear).norm());
            worst.3 = worst.3.max((twist.angular - exact_twist.angular).norm());
            t += 0.37e-3;
        }
        worst
    }

    #[test]
    fn it_follows_a_smooth_motion_to_fourth_order() {
        // Cubic spline error is O(h^4) in value: halving the interval divides it by about 16.
        let even = |n: usize| (0..n).map(|i| i as f64 / (n - 1) as f64).collect::<Vec<_>>();
        let coarse = worst(&even(61), 0.2, 0.8);
        let fine = worst(&even(121), 0.2, 0.8);
        // 5/384 h^4 x'''' with x'''' = 0.01 (4 pi)^4 = 249: 2.5e-7 m at 60 Hz (Hall and Meyer 1976).
        assert!(coarse.0 < 3e-7, "{coarse:?}");
        assert!(fine.0 < coarse.0 / 10.0 && fine.1 < coarse.1 / 10.0, "{coarse:?} {fine:?}");
        assert!(coarse.2 < 1e-4 && coarse.3 < 2e-3, "{coarse:?}");
    }

    #[test]
    fn a_lost_sample_costs_little() {
        let times: Vec<f64> = (0..61).filter(|i| i % 7 != 3).map(|i| f64::from(i) / 60.0).collect();
        let worst = worst(&times, 0.2, 0.8);
        // The interval doubles, so the bound grows by 16.
        assert!(worst.0 < 16.0 * 3e-7 && worst.1 < 1e-4, "{worst:?}");
    }

    #[test]
    fn it_is_smooth_to_the_second_derivative_at_its_knots() {
        let all = samples((0..8).map(|i| f64::from(i) / 60.0));
        let curve = Curve::new(&all, all[3].time_ns).unwrap();
        for knot in &all[1..7] {
            let at = |d: f64| curve.at(knot.time_ns as f64 + d);
            let second = |a: f64, b: f64| (at(b).1.linear - at(a).1.linear) / ((b - a) * 1e-9);
            let (left, right) = (second(-2e3, 0.0), second(0.0, 2e3));
            assert!((left - right).norm() < 2e-3, "{left} {right}");
            assert!((at(-1.0).0.translation.vector - at(1.0).0.translation.vector).norm() < 1e-9);
        }
    }

    #[test]
    fn it_rests_before_the_first_knot_and_comes_to_rest_after_the_last() {
        let all = samples((30..36).map(|i| f64::from(i) / 60.0));
        let before = Curve::new(&all, 0).unwrap().at(0.0);
        assert_eq!((before.0, before.1), (all[0].pose, Twist::ZERO));
        let curve = Curve::new(&all, u64::MAX).unwrap();
        let end = all[5].time_ns as f64;
        let (a, b) = (curve.at(end - 1.0), curve.at(end + 1.0));
        assert!((a.1.linear - b.1.linear).norm() < 1e-5, "no kink at the end");
        let late = curve.at(end + 1e9);
        assert!(late.1.linear.norm() < 1e-12);
        // Velocity times the time constant (one interval) is all that is left to travel.
        let travelled = (late.0.translation.vector - all[5].pose.translation.vector).norm();
        assert!((travelled - a.1.linear.norm() / 60.0).abs() < 1e-6);
    }

    #[test]
    fn bad_samples_do_no_harm() {
        let mut all = samples((0..8).map(|i| f64::from(i) / 60.0));
        assert!(Curve::new(&[], 0).is_none());
        all[5].time_ns = all[4].time_ns;
        all[6].time_ns = 0;
        assert!(Curve::new(&all, all[4].time_ns).unwrap().at(1e8).0.translation.vector.norm().is_finite());
        all[3].pose.translation.vector.x = f64::NAN;
        assert!(Curve::new(&all, all[4].time_ns).is_none());
    }

    #[test]
    fn quaternions_of_either_sign_are_one_rotation() {
        let mut all = samples((0..8).map(|i| f64::from(i) / 60.0));
        let straight = Curve::new(&all, all[3].time_ns).unwrap().at(60e6);
        for sample in all.iter_mut().step_by(2) {
            let q = sample.pose.rotation.into_inner();
            sample.pose.rotation = nalgebra::Unit::new_unchecked(-q);
        }
        let mixed = Curve::new(&all, all[3].time_ns).unwrap().at(60e6);
        assert!(straight.0.rotation.angle_to(&mixed.0.rotation) < 1e-12);
        assert!((straight.1.angular - mixed.1.angular).norm() < 1e-12);
    }
}
