//! Encoders and gimbal sensors: from the true state to what a driver works out from the device's counts.

use super::PlantState;
use crate::device::kinematics::{Kinematics, gimbal};
use crate::device::profile::{Encoders, Gimbal, Profile};
use crate::geometry::pose::{Pose, Vec3};
use nalgebra::{Translation3, UnitQuaternion};
use rand::Rng;
use rand_pcg::Pcg64Mcg;
use std::f64::consts::TAU;
use std::sync::Arc;

/// Sensors of a linkage with the driver's knowledge of their offsets.
pub(super) struct Sensors {
    profile: Arc<Profile>,
    /// Joint angle at which the device's counters read zero, rad.
    zero: [f64; 3],
    /// Joints as measured last, rad.
    pub joints: [f64; 6],
    hint: Option<Vec3>,
}

impl Sensors {
    /// Counters start at 0 where the device was switched on (`state`), unless it is calibrated.
    pub fn new(profile: Arc<Profile>, state: &PlantState, calibrated: bool) -> Self {
        let mut sensors = Self { profile, zero: [0.0; 3], joints: [0.0; 6], hint: None };
        if calibrated {
            sensors.calibrate();
        } else {
            sensors.forget(state);
        }
        sensors
    }

    /// The device now knows its frame: counter zero is where the data sheet says.
    pub fn calibrate(&mut self) {
        if let Some(e) = &self.profile.encoders {
            self.zero = e.offset;
        }
        self.hint = None;
    }

    /// Counters restart at 0 here; the driver does not know where "here" is.
    pub fn forget(&mut self, state: &PlantState) {
        self.zero = state.joints.into();
        self.hint = None;
    }

    /// Pose and joints from counts; `None` when the joints make no pose. Real-time safe.
    pub fn measure(&mut self, state: &PlantState, rng: &mut Pcg64Mcg) -> Option<(Pose, [f64; 6])> {
        let mut joints = [0.0; 6];
        let mut q = state.joints;
        if let Some(e) = &self.profile.encoders {
            q = e.angles(&std::array::from_fn(|i| count(e, i, state.joints[i] - self.zero[i])));
        }
        joints[..3].copy_from_slice(q.as_slice());
        let mut rotation = UnitQuaternion::identity();
        if let Some(g) = &self.profile.gimbal {
            let mut angles = state.wrist;
            for (angle, out) in angles.iter_mut().zip(&mut joints[3..]) {
                *angle = converted(*angle, g, rng);
                *out = *angle;
            }
            rotation = self.profile.kinematics.wrist(&q) * gimbal::rotation(&angles);
        }
        self.joints = joints;
        let tip = self.profile.kinematics.forward(&q, self.hint.as_ref())?;
        self.hint = Some(tip);
        Some((Pose::from_parts(Translation3::from(tip), rotation), joints))
    }
}

/// The device's counter: the floor of the angle in counts, as wide as the register, two's complement.
fn count(e: &Encoders, i: usize, angle: f64) -> i32 {
    let counts = (angle / e.radians_per_count[i]).floor();
    // `as` saturates, so no angle overflows.
    let wide = counts as i64;
    let shift = 64 - e.bits;
    ((wide << shift) >> shift) as i32
}

/// An angle through a noisy converter.
fn converted(angle: f64, g: &Gimbal, rng: &mut Pcg64Mcg) -> f64 {
    let mut noisy = angle;
    if g.noise > 0.0 {
        // Box and Muller; the first number is never zero.
        let unit = |rng: &mut Pcg64Mcg| ((rng.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        let (u, v) = (unit(rng), unit(rng));
        noisy += g.noise * (-2.0 * u.ln()).sqrt() * (TAU * v).cos();
    }
    if g.resolution > 0.0 { (noisy / g.resolution).round() * g.resolution } else { noisy }
}

/// The pose of a device whose mechanism is Cartesian, as it is.
pub(super) fn cartesian(state: &PlantState) -> (Pose, [f64; 6]) {
    let (p, turn) = (state.tip, state.rotation.scaled_axis());
    (Pose::from_parts(Translation3::from(p), state.rotation), [p.x, p.y, p.z, turn.x, turn.y, turn.z])
}

/// True for a mechanism with encoders.
pub(super) fn has_sensors(kinematics: &Kinematics) -> bool {
    !matches!(kinematics, Kinematics::Ideal)
}
