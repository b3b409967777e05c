//! Deflections to a pose: speed of an input device, integrated within a ball. Pure, real-time safe.

use crate::device::wire::spacemouse::NOMINAL;
use crate::geometry::pose::{Pose, Twist, Vec3};
use nalgebra::{Translation3, UnitQuaternion};

/// Speed at full deflection, m/s.
pub const SPEED: f64 = 0.15;
/// Turn at full deflection, rad/s.
pub const TURN: f64 = 1.5;
/// Deflection below which nothing moves, of [`NOMINAL`]: springs do not come back exactly.
pub const DEAD: f64 = 0.03;
/// Longest time that one step may integrate, s.
const LONGEST: f64 = 0.1;

/// The pose so far.
#[derive(Clone, Copy, Debug)]
pub struct Integrator {
    pose: Pose,
    radius: f64,
    last_ns: Option<u64>,
}

/// A deflection as a share of full speed, -1 to 1.
fn rate(deflection: i32) -> f64 {
    let share = (f64::from(deflection) / NOMINAL).clamp(-1.0, 1.0);
    if share.abs() < DEAD { 0.0 } else { share }
}

/// The motion that these deflections ask for, device frame. The device's axes (x right, y towards the user, z down) become x right,
/// y up, z towards the user. Real-time safe.
pub fn speeds(deflections: &[i32; 6]) -> Twist {
    let [x, y, z, rx, ry, rz] = deflections.map(rate);
    Twist { linear: Vec3::new(x, -z, y) * SPEED, angular: Vec3::new(rx, -rz, ry) * TURN }
}

impl Integrator {
    /// At the origin; it stays within `radius` of it, m.
    pub fn new(radius: f64) -> Self {
        Self { pose: Pose::identity(), radius, last_ns: None }
    }

    /// The pose at `time_ns`, with these [`speeds`] since the last call.
    pub fn step(&mut self, speeds: &Twist, time_ns: u64) -> Pose {
        let last = self.last_ns.replace(time_ns).unwrap_or(time_ns);
        let dt = (time_ns.saturating_sub(last) as f64 * 1e-9).min(LONGEST);
        let mut position = self.pose.translation.vector + speeds.linear * dt;
        let far = position.norm();
        if far > self.radius {
            position *= self.radius / far;
        }
        let turn = UnitQuaternion::from_scaled_axis(speeds.angular * dt);
        // Renewed at every step, so that rounding does not add up.
        let rotation = UnitQuaternion::new_normalize((turn * self.pose.rotation).into_inner());
        self.pose = Pose::from_parts(Translation3::from(position), rotation);
        self.pose
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half deflection for 0.4 s is 3 cm; a rotation about z for 1 s at full speed is 1.5 rad.
    #[test]
    fn speeds_integrate_to_ways() {
        let mut way = Integrator::new(0.15);
        for k in 0..=400u64 {
            way.step(&speeds(&[175, 0, 0, 0, 0, 0]), k * 1_000_000);
        }
        let p = way.pose.translation.vector;
        assert!((p - Vec3::new(0.03, 0.0, 0.0)).norm() < 1e-9, "{p:?}");
        let mut turn = Integrator::new(0.15);
        for k in 0..=1000u64 {
            turn.step(&speeds(&[0, 0, 0, 0, 350, 0]), k * 1_000_000);
        }
        assert!((turn.pose.rotation.scaled_axis() - Vec3::new(0.0, 0.0, 1.5)).norm() < 1e-9);
    }

    #[test]
    fn down_is_down_and_the_dead_zone_is_dead() {
        let mut i = Integrator::new(0.15);
        i.step(&speeds(&[0; 6]), 0);
        assert!(i.step(&speeds(&[0, 0, 100, 0, 0, 0]), 100_000_000).translation.vector.y < 0.0);
        let mut i = Integrator::new(0.15);
        i.step(&speeds(&[0; 6]), 0);
        assert_eq!(i.step(&speeds(&[10, -10, 10, 10, -10, 10]), 100_000_000), Pose::identity());
    }

    #[test]
    fn it_stays_in_its_ball_and_jumps_over_no_gap() {
        let mut i = Integrator::new(0.05);
        for k in 0..5000u64 {
            let p = i.step(&speeds(&[500, 500, -500, 500, 500, 500]), k * 1_000_000);
            assert!(p.translation.vector.norm() <= 0.05 + 1e-12);
            assert!((p.rotation.norm() - 1.0).abs() < 1e-12);
        }
        let mut i = Integrator::new(1.0);
        i.step(&speeds(&[0; 6]), 0);
        let p = i.step(&speeds(&[350, 0, 0, 0, 0, 0]), 3_600_000_000_000);
        assert!(p.translation.vector.x <= SPEED * 0.1 + 1e-12);
    }
}
