//! From a wrench to what the motors really give: saturation in motor space by one common factor, integer codes. Shared by
//! drivers and the simulated device.

use crate::device::kinematics::Kinematics;
use crate::device::profile::Profile;
use crate::geometry::pose::{Vec3, Wrench};

/// What the motors are told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Command {
    /// The wrench that it amounts to at the tool.
    pub wrench: Wrench,
    /// Joint torques, N·m.
    pub torque: Vec3,
    /// Motor codes.
    pub codes: [i32; 3],
}

impl Command {
    /// No force.
    pub const ZERO: Self = Self { wrench: Wrench::ZERO, torque: Vec3::new(0.0, 0.0, 0.0), codes: [0; 3] };
}

/// The command that a driver sends for a finite wrench when the joints were measured at `joints`; true when it had
/// to be scaled down. Real-time safe.
pub fn command(profile: &Profile, joints: &[f64; 6], wrench: &Wrench) -> (Command, bool) {
    let mut wanted = *wrench;
    for i in 0..3 {
        if !profile.actuated[i] {
            wanted.force[i] = 0.0;
        }
        if !profile.actuated[3 + i] {
            wanted.torque[i] = 0.0;
        }
    }
    let k = profile.motor_scale(joints, &wanted);
    let wanted = wanted.scaled(k);
    let Some(motors) = &profile.motors else {
        return (Command { wrench: wanted, torque: Vec3::zeros(), codes: [0; 3] }, k < 1.0);
    };
    let q = Vec3::new(joints[0], joints[1], joints[2]);
    let link = match profile.kinematics {
        Kinematics::Ideal => None,
        _ => profile.kinematics.state(&q, None),
    };
    let Some((link, inverse)) = link.and_then(|l| l.jacobian.try_inverse().map(|i| (l, i))) else {
        // Singular: no torque of the joints is a known force at the tool.
        return (Command::ZERO, true);
    };
    let tau = link.jacobian.tr_mul(&wanted.force);
    let (mut torque, mut codes) = (Vec3::zeros(), [0; 3]);
    for i in 0..3 {
        let max = f64::from(motors.max_code);
        let code = (tau[i] / motors.torque_per_code[i]).round().clamp(-max, max);
        torque[i] = code * motors.torque_per_code[i];
        codes[i] = code as i32;
    }
    let force = inverse.tr_mul(&torque);
    (Command { wrench: Wrench { force, torque: Vec3::zeros() }, torque, codes }, k < 1.0)
}
