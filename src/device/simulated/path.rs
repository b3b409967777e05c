//! The intended path: keyframes joined by minimum-jerk motion, twice continuously differentiable. Evaluation is
//! real-time safe.

use super::script::{HandScript, Press, Tremor};
use crate::geometry::pose::{Pose, Vec3};
use nalgebra::{Quaternion, UnitQuaternion};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::f64::consts::TAU;

/// Where the hand wants the tool to be, device frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// m.
    pub position: Vec3,
    /// m/s.
    pub velocity: Vec3,
    /// m/s².
    pub acceleration: Vec3,
    /// Orientation.
    pub rotation: UnitQuaternion<f64>,
    /// rad/s, device axes.
    pub angular_velocity: Vec3,
    /// rad/s², device axes.
    pub angular_acceleration: Vec3,
}

impl Target {
    fn at_rest(pose: &Pose) -> Self {
        let zero = Vec3::zeros();
        Self {
            position: pose.translation.vector,
            velocity: zero,
            acceleration: zero,
            rotation: pose.rotation,
            angular_velocity: zero,
            angular_acceleration: zero,
        }
    }
}

#[derive(Clone, Debug)]
struct Segment {
    start: f64,
    rate: f64,
    from: Pose,
    delta: Vec3,
    /// Rotation vector from start to end, device axes, its direction and half its length.
    turn: Vec3,
    axis: Vec3,
    half_angle: f64,
}

/// A path ready for evaluation.
#[derive(Clone, Debug)]
pub struct Path {
    segments: Vec<Segment>,
    first: Pose,
    last: Pose,
    start: f64,
    end: f64,
    repeat: bool,
    /// Amplitude, angular frequencies, phases.
    tremor: Option<(f64, [f64; 3], [f64; 3])>,
    cursor: usize,
    presses: Vec<Press>,
}

impl Path {
    /// The buttons that are held at `t` s, bit 0 = first. Real-time safe.
    pub fn buttons(&self, t: f64) -> u32 {
        let held = self.presses.iter().filter(|p| p.at <= t && t < p.until);
        held.fold(0, |all, p| all | 1u32.checked_shl(p.button.wrapping_sub(1)).unwrap_or(0))
    }

    /// Prepares a script's path. Allocates.
    pub fn new(script: &HandScript) -> Self {
        let frames = &script.keyframes;
        let first = frames.first().map_or_else(Pose::identity, |k| k.pose);
        let last = frames.last().map_or_else(Pose::identity, |k| k.pose);
        let mut segments = Vec::with_capacity(frames.len());
        for pair in frames.windows(2) {
            let (a, b) = (&pair[0], &pair[1]);
            let turn = (b.pose.rotation * a.pose.rotation.inverse()).scaled_axis();
            let angle = turn.norm();
            segments.push(Segment {
                start: a.time,
                rate: 1.0 / (b.time - a.time),
                from: a.pose,
                delta: b.pose.translation.vector - a.pose.translation.vector,
                turn,
                axis: if angle > 0.0 { turn / angle } else { Vec3::zeros() },
                half_angle: 0.5 * angle,
            });
        }
        Self {
            segments,
            first,
            last,
            start: frames.first().map_or(0.0, |k| k.time),
            end: frames.last().map_or(0.0, |k| k.time),
            repeat: script.repeat,
            tremor: script.tremor.map(|t| tremor(t, script.seed)),
            cursor: 0,
            presses: script.presses.clone(),
        }
    }

    /// Pose at the start.
    pub fn first(&self) -> &Pose {
        &self.first
    }

    /// Where the hand wants the tool at time `t`, s. Real-time safe; constant time when `t` moves on steadily.
    pub fn at(&mut self, t: f64) -> Target {
        let mut local = t;
        if self.repeat && t > self.end {
            let (since, period) = (t - self.start, self.end - self.start);
            local = self.start + (since - period * (since / period).floor());
        }
        let mut target = if local <= self.start || self.segments.is_empty() {
            Target::at_rest(&self.first)
        } else if local >= self.end {
            Target::at_rest(&self.last)
        } else {
            self.find(local);
            self.segments[self.cursor].at(local)
        };
        if let Some((amplitude, rates, phases)) = self.tremor {
            for i in 0..3 {
                let (sin, cos) = (rates[i] * t + phases[i]).sin_cos();
                target.position[i] += amplitude * sin;
                target.velocity[i] += amplitude * rates[i] * cos;
                target.acceleration[i] -= amplitude * rates[i] * rates[i] * sin;
            }
        }
        target
    }

    /// Moves the cursor to the segment that holds `t` (start < t < end).
    fn find(&mut self, t: f64) {
        let holds = |i: usize| {
            self.segments[i].start <= t && self.segments.get(i + 1).is_none_or(|next| t < next.start)
        };
        if holds(self.cursor) {
            return;
        }
        if self.cursor + 1 < self.segments.len() && holds(self.cursor + 1) {
            self.cursor += 1;
            return;
        }
        self.cursor = self.segments.partition_point(|s| s.start <= t).saturating_sub(1);
    }
}

impl Segment {
    /// Minimum-jerk profile (Flash and Hogan 1985): s = 10 u^3 - 15 u^4 + 6 u^5; speed and acceleration vanish at both
    /// ends.
    fn at(&self, t: f64) -> Target {
        let u = ((t - self.start) * self.rate).clamp(0.0, 1.0);
        let s = u * u * u * (10.0 + u * (6.0 * u - 15.0));
        let ds = 30.0 * u * u * (1.0 - u) * (1.0 - u) * self.rate;
        let dds = 60.0 * u * (1.0 - u) * (1.0 - 2.0 * u) * self.rate * self.rate;
        let turned = || {
            let (sin, cos) = (self.half_angle * s).sin_cos();
            UnitQuaternion::new_unchecked(Quaternion::from_parts(cos, self.axis * sin))
        };
        Target {
            position: self.from.translation.vector + self.delta * s,
            velocity: self.delta * ds,
            acceleration: self.delta * dds,
            rotation: if self.half_angle > 0.0 { turned() * self.from.rotation } else { self.from.rotation },
            angular_velocity: self.turn * ds,
            angular_acceleration: self.turn * dds,
        }
    }
}

/// Three slightly detuned sines with seeded phases.
fn tremor(t: Tremor, seed: u64) -> (f64, [f64; 3], [f64; 3]) {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut unit = || (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    (t.amplitude, [0.93, 1.0, 1.07].map(|k| TAU * t.frequency * k), [unit(), unit(), unit()].map(|p| TAU * p))
}

#[cfg(test)]
mod tests;
