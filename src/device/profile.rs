//! A device's data sheet: kinematics, limits, workspace, read from `devices/*.toml`.
//!
//! Profiles are data: the simulated device, the guard and real drivers read the same file. Every number in the
//! file carries its source ([`Profile::sources`]).
//!
//! The **device frame** is right-handed, in metres: origin in the middle of the workspace, x to the user's right,
//! y up, z towards the user. A mechanism has its own frame (that of the publication that describes it); the
//! profile's kinematics maps between the two.

mod at_tool;
mod ceiling;
mod certified;
mod file;
mod kept;

#[cfg(test)]
pub(crate) use ceiling::LEAST_DAMPED;
pub use ceiling::{Ceiling, EXACT_LIMITS};
pub use certified::{Certified, Covered};
pub use kept::{Guard, KEPT, Kept};

use crate::device::dynamics::Dynamics;
use crate::device::kinematics::Kinematics;
use crate::geometry::pose::{Vec3, Wrench};

/// Largest transport delay that a profile may state, samples.
pub const MAX_DELAY: u32 = 8;
/// Sample period of every device in this version, ns.
pub const SAMPLE_PERIOD_NS: u64 = 1_000_000;

/// Everything the daemon knows about a kind of device. SI units.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Registry name, e.g. `ideal-6dof`.
    pub name: String,
    /// What it is, for people.
    pub title: String,
    /// Which of x, y, z, rx, ry, rz are sensed.
    pub sensed: [bool; 6],
    /// Which of x, y, z, rx, ry, rz are driven.
    pub actuated: [bool; 6],
    /// Largest force, N.
    pub max_force: f64,
    /// Largest torque, N·m.
    pub max_torque: f64,
    /// Force that the motors bear for ever, N; `None` = unknown.
    pub continuous_force: Option<f64>,
    /// Largest stable translational stiffness that the file states, N/m.
    pub stated_stiffness: f64,
    /// Largest translational stiffness that is rendered at 1 kHz, N/m: [`Ceiling::stiffness`].
    pub max_stiffness: f64,
    /// Largest stable rotational stiffness that the file states, N·m/rad.
    pub stated_rot_stiffness: f64,
    /// Largest rotational stiffness that is rendered at 1 kHz, N·m/rad: what is stated, or less where mass, damping and delay bear less.
    pub max_rot_stiffness: f64,
    /// Largest damping, N·s/m.
    pub max_damping: f64,
    /// Largest rotational damping, N·m·s/rad.
    pub max_rot_damping: f64,
    /// Fastest plausible motion of the tool point, m/s.
    pub max_velocity: f64,
    /// Fastest plausible rotation, rad/s.
    pub max_angular_velocity: f64,
    /// Radius of the largest ball inside the workspace, m.
    pub workspace_radius: f64,
    /// Shape of the workspace, device frame.
    pub workspace: Workspace,
    /// How long the device holds its last torque without fresh commands, s; `None` = unknown or for ever.
    pub torque_hold: Option<f64>,
    /// What the user must do before the device knows its frame.
    pub calibration: Calibration,
    /// Geometry of the mechanism.
    pub kinematics: Kinematics,
    /// Encoders of the driven joints; `None` = the pose comes without quantisation.
    pub encoders: Option<Encoders>,
    /// Motors of the driven joints; `None` = force and torque are commanded directly.
    pub motors: Option<Motors>,
    /// Sensed, undriven wrist; `None` = the tool does not turn (or turns as part of the kinematics).
    pub gimbal: Option<Gimbal>,
    /// Masses, friction, stops.
    pub dynamics: Dynamics,
    /// Friction that the energy guard may count on.
    pub certified: Certified,
    /// What the energy guards keep of its stiffness.
    pub kept: Kept,
    /// Link between host and device.
    pub transport: Transport,
    /// Key and source of every number in the file, in the file's order.
    pub sources: Vec<(String, String)>,
}

/// Workspace around the device frame's origin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Workspace {
    /// A ball.
    Ball {
        /// m.
        radius: f64,
    },
    /// An axis-aligned box.
    Box {
        /// Half extents, m.
        half: [f64; 3],
    },
}

/// How the device learns where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calibration {
    /// Absolute from the start.
    None,
    /// Encoders count from an unknown offset until the user homes the device (Falcon: pull out and push in).
    Homing,
    /// The user puts the tool into a known pose (Phantom: reset position or inkwell).
    Reset,
}

/// Encoders of the driven joints.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Encoders {
    /// Joint angle of one count, rad: 2 pi / (counts a motor turn x gear ratio); negative where the counter runs against
    /// the joint.
    pub radians_per_count: [f64; 3],
    /// Joint angle at count 0, rad.
    pub offset: [f64; 3],
    /// Width of the device's counter, bits; it wraps.
    pub bits: u32,
    /// Counts in the pose in which the user calibrates a device that is reset; 0 where nothing else is known.
    pub preset: [i32; 3],
}

impl Encoders {
    /// Joint angles at these counts, rad. Pure, real-time safe.
    pub fn angles(&self, counts: &[i32; 3]) -> Vec3 {
        let mut q = Vec3::zeros();
        for (((angle, count), step), offset) in
            q.iter_mut().zip(counts).zip(&self.radians_per_count).zip(&self.offset)
        {
            *angle = offset + f64::from(*count) * step;
        }
        q
    }
}

/// Motors of the driven joints, commanded with integers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Motors {
    /// Joint torque of one code, N·m: motor torque a code x gear ratio; negative where the motor turns against the joint.
    pub torque_per_code: [f64; 3],
    /// Largest code that the driver may send.
    pub max_code: i32,
}

/// A sensed, undriven gimbal of three axes (yaw, pitch, roll) with absolute, noisy sensors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gimbal {
    /// Smallest angles, rad.
    pub min: [f64; 3],
    /// Largest angles, rad.
    pub max: [f64; 3],
    /// Step of the converter, rad.
    pub resolution: f64,
    /// Standard deviation of the noise before conversion, rad.
    pub noise: f64,
}

/// Link between host and device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transport {
    /// Age of a sample when the host reads it, samples.
    pub read_delay: u32,
    /// Time from write to torque, samples.
    pub write_delay: u32,
}

/// A profile file that cannot be used: file, line, key, cause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct ProfileError {
    /// File name.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Key and cause.
    pub message: String,
}

impl Profile {
    /// Reads a profile. `file` names it in errors.
    ///
    /// # Errors
    /// Unknown or missing keys, wrong types, numbers without a source, numbers that make no sense.
    pub fn parse(file: &str, text: &str) -> Result<Self, ProfileError> {
        file::parse(file, text)
    }

    /// True when the tool's orientation is sensed.
    pub fn senses_rotation(&self) -> bool {
        self.sensed[3] || self.sensed[4] || self.sensed[5]
    }

    /// True when it drives the orientation, or part of it. Real-time safe.
    pub fn drives_rotation(&self) -> bool {
        self.actuated[3] || self.actuated[4] || self.actuated[5]
    }

    /// Wrench at the tool point, device frame, that holds the mechanism against gravity at these joints; add it to
    /// the command. Zero for a balanced device and where the Jacobian is singular. Pure, real-time safe.
    pub fn gravity_compensation(&self, joints: &[f64; 6]) -> Wrench {
        let q = Vec3::new(joints[0], joints[1], joints[2]);
        match self.kinematics {
            Kinematics::Ideal => Wrench { force: -self.dynamics.ideal_weight(), torque: Vec3::zeros() },
            Kinematics::Delta(_) | Kinematics::Serial3R(_) => {
                let Some(state) = self.kinematics.state(&q, None) else { return Wrench::ZERO };
                let Some(inverse) = state.jacobian.try_inverse() else { return Wrench::ZERO };
                // tau = J^T F, so F = J^-T tau.
                let tau = self.dynamics.gravity_torque(&self.kinematics, &q, &state.jacobian);
                Wrench { force: inverse.transpose() * tau, torque: Vec3::zeros() }
            }
        }
    }

    /// Common factor (0..=1) by which a wrench must be multiplied so that no motor saturates at these joints and
    /// neither force nor torque passes the data sheet's limit. Pure, real-time safe; 0 for a wrench that is not
    /// finite.
    pub fn motor_scale(&self, joints: &[f64; 6], wrench: &Wrench) -> f64 {
        if !wrench.is_finite() {
            return 0.0;
        }
        let mut k =
            limit(length(&wrench.force), self.max_force).min(limit(length(&wrench.torque), self.max_torque));
        if let Some(motors) = &self.motors {
            let q = Vec3::new(joints[0], joints[1], joints[2]);
            let Some(state) = self.kinematics.state(&q, None) else { return 0.0 };
            let tau = state.jacobian.transpose() * wrench.force;
            for i in 0..3 {
                k = k.min(limit(tau[i].abs(), motors.torque_per_code[i].abs() * f64::from(motors.max_code)));
            }
        }
        k
    }
}

/// Euclidean length without overflow of the squares.
fn length(v: &Vec3) -> f64 {
    let largest = v.amax();
    if largest > 0.0 { largest * (v / largest).norm() } else { 0.0 }
}

/// Factor that brings `value` down to `max`; 1 when it is below. A zero limit means "not driven" and does not scale.
fn limit(value: f64, max: f64) -> f64 {
    if max > 0.0 && value > max { max / value } else { 1.0 }
}

impl Workspace {
    /// Signed distance of a point to the workspace's surface, m: positive inside, negative outside (exact inside,
    /// a lower bound of the distance's magnitude at a box's outer corners). NaN counts as far outside. Pure,
    /// real-time safe.
    pub fn depth(&self, p: &Vec3) -> f64 {
        let d = match self {
            Self::Ball { radius } => radius - p.norm(),
            Self::Box { half } => (half[0] - p.x.abs()).min(half[1] - p.y.abs()).min(half[2] - p.z.abs()),
        };
        if d.is_nan() { f64::NEG_INFINITY } else { d }
    }

    /// True when the point is inside. Pure, real-time safe.
    pub fn contains(&self, p: &Vec3) -> bool {
        self.depth(p) >= 0.0
    }

    /// Radius of the largest ball about the origin inside the workspace, m.
    pub fn inscribed_radius(&self) -> f64 {
        match self {
            Self::Ball { radius } => *radius,
            Self::Box { half } => half[0].min(half[1]).min(half[2]),
        }
    }
}
