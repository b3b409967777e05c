//! What the simulated hand does: it presses the pin against the bore, runs it round, pushes, pulls and twists it.

use crate::device::simulated::script::Keyframe;
use crate::device::simulated::{Hand, HandScript};
use crate::geometry::pose::{Pose, Vec3};
use nalgebra::{Translation3, UnitQuaternion};
use std::f64::consts::TAU;

/// Time between keyframes, s.
const STEP: f64 = 0.02;
/// The hand rests on the axis while the servo arms, s.
const REST: f64 = 0.15;
/// Then it presses harder and harder for so long, s.
const PRESS: f64 = 0.25;

/// The hand for a run of so many seconds.
#[must_use]
pub fn script(seconds: f64) -> HandScript {
    let steps = (seconds / STEP).ceil().max(1.0) as usize + 50;
    let keyframes = (0..=steps).map(|i| i as f64 * STEP).map(|time| Keyframe { time, pose: pose(time) });
    HandScript { keyframes: keyframes.collect(), hand: Hand::FIRM, seed: 1, ..HandScript::default() }
}

/// Where the hand wants the pin, device frame.
fn pose(t: f64) -> Pose {
    let strength = ((t - REST) / PRESS).clamp(0.0, 1.0);
    let strength = strength * strength * (3.0 - 2.0 * strength);
    let busy = (t - REST).max(0.0);
    // Round the bore once in four seconds, pressing 2.5 to 5.5 mm deep; in and out by 25 mm in five.
    let press = 0.004 + 0.0015 * (TAU * busy / 1.3).sin();
    let round = TAU * busy / 4.0;
    let slide = -0.025 * (TAU * busy / 5.0).sin();
    let shift = Vec3::new(slide, -press * round.cos(), -press * round.sin()) * strength;
    // Twist by 5 degrees to and fro, so that the key meets both flanks of its way; tilt a little.
    let twist = 5f64.to_radians() * (TAU * busy / 3.0).sin();
    let tilt = 1.5f64.to_radians() * (TAU * busy / 2.2).sin();
    let turn = UnitQuaternion::from_scaled_axis(Vec3::new(twist, 0.0, tilt) * strength);
    Pose::from_parts(Translation3::from(shift), turn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hand_rests_first_and_moves_smoothly_for_the_whole_run() {
        let script = script(10.0);
        let keys = &script.keyframes;
        assert!(keys.last().unwrap().time >= 10.0);
        for k in keys.iter().filter(|k| k.time <= REST) {
            assert_eq!(k.pose, Pose::identity());
        }
        for pair in keys.windows(2) {
            let moved = (pair[1].pose.translation.vector - pair[0].pose.translation.vector).norm();
            assert!(moved < 0.3 * STEP, "the hand jumps by {moved} m at {} s", pair[1].time);
            let turned = pair[0].pose.rotation.angle_to(&pair[1].pose.rotation);
            assert!(turned < 3.0 * STEP, "the hand turns by {turned} rad at {} s", pair[1].time);
        }
    }
}
