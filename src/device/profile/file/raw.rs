//! The file as it is written: every key, nothing else.

use serde::Deserialize;
use toml::Spanned;

/// `{ value = ..., source = "..." }`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sourced<T> {
    pub(super) value: Spanned<T>,
    pub(super) source: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Raw {
    pub(super) name: Spanned<String>,
    pub(super) title: String,
    pub(super) kinematics: Spanned<String>,
    pub(super) calibration: Spanned<String>,
    pub(super) axes: Axes,
    pub(super) limits: Limits,
    pub(super) workspace: RawWorkspace,
    pub(super) joints: Option<Joints>,
    pub(super) delta: Option<RawDelta>,
    pub(super) serial3r: Option<RawSerial>,
    pub(super) encoders: Option<RawEncoders>,
    pub(super) motors: Option<RawMotors>,
    pub(super) gimbal: Option<RawGimbal>,
    pub(super) inertia: RawInertia,
    pub(super) friction: RawFriction,
    pub(super) certified: Option<RawCertified>,
    pub(super) kept: Option<RawKept>,
    pub(super) stops: Stops,
    pub(super) housing: Option<RawHousing>,
    pub(super) transport: RawTransport,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Axes {
    pub(super) sensed: Sourced<[bool; 6]>,
    pub(super) actuated: Sourced<[bool; 6]>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Limits {
    pub(super) max_force: Sourced<f64>,
    pub(super) max_torque: Sourced<f64>,
    pub(super) continuous_force: Option<Sourced<f64>>,
    pub(super) max_stiffness: Sourced<f64>,
    pub(super) max_rot_stiffness: Sourced<f64>,
    pub(super) max_damping: Sourced<f64>,
    pub(super) max_rot_damping: Sourced<f64>,
    pub(super) max_velocity: Sourced<f64>,
    pub(super) max_angular_velocity: Sourced<f64>,
    pub(super) torque_hold: Option<Sourced<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawKept {
    pub(super) controller: Sourced<f64>,
    pub(super) certified: Option<Sourced<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawWorkspace {
    pub(super) shape: Spanned<String>,
    pub(super) radius: Option<Sourced<f64>>,
    pub(super) half: Option<Sourced<[f64; 3]>>,
    pub(super) origin: Option<Sourced<[f64; 3]>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Joints {
    pub(super) ratio: Sourced<[f64; 3]>,
    pub(super) direction: Option<Sourced<[f64; 3]>>,
    pub(super) min: Sourced<[f64; 3]>,
    pub(super) max: Sourced<[f64; 3]>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDelta {
    pub(super) a: Sourced<f64>,
    pub(super) b: Sourced<f64>,
    pub(super) c: Sourced<f64>,
    pub(super) d: Sourced<f64>,
    pub(super) e: Sourced<f64>,
    pub(super) r: Sourced<f64>,
    pub(super) lateral: Sourced<f64>,
    pub(super) azimuths: Sourced<[f64; 3]>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSerial {
    pub(super) l1: Sourced<f64>,
    pub(super) l2: Sourced<f64>,
    pub(super) elbow_min: Sourced<f64>,
    pub(super) elbow_max: Sourced<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawEncoders {
    pub(super) counts_per_turn: Sourced<f64>,
    pub(super) offset: Sourced<[f64; 3]>,
    pub(super) bits: Sourced<u32>,
    pub(super) preset: Option<Sourced<[i32; 3]>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMotors {
    pub(super) torque_per_code: Option<Sourced<f64>>,
    pub(super) torque_per_code_each: Option<Sourced<[f64; 3]>>,
    pub(super) max_code: Sourced<i32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawGimbal {
    pub(super) min: Sourced<[f64; 3]>,
    pub(super) max: Sourced<[f64; 3]>,
    pub(super) resolution: Sourced<f64>,
    pub(super) noise: Sourced<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawInertia {
    pub(super) gravity: Sourced<f64>,
    // ideal
    pub(super) mass: Option<Sourced<f64>>,
    pub(super) rot_inertia: Option<Sourced<f64>>,
    pub(super) rot_viscous: Option<Sourced<f64>>,
    // delta
    pub(super) arm_inertia: Option<Sourced<f64>>,
    pub(super) arm_moment: Option<Sourced<f64>>,
    // delta and serial
    pub(super) tip_mass: Option<Sourced<f64>>,
    // serial
    pub(super) rotor: Option<Sourced<f64>>,
    pub(super) arm: Option<RawArm>,
}

/// Bodies of the parallelogram arm, named as by Cavusoglu et al. (2002).
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawArm {
    pub(super) l3: Sourced<f64>,
    pub(super) l5: Sourced<f64>,
    pub(super) l6: Sourced<f64>,
    pub(super) mass_a: Sourced<f64>,
    pub(super) mass_c: Sourced<f64>,
    pub(super) mass_be: Sourced<f64>,
    pub(super) mass_df: Sourced<f64>,
    pub(super) inertia_a: Sourced<[f64; 3]>,
    pub(super) inertia_c: Sourced<[f64; 3]>,
    pub(super) inertia_be: Sourced<[f64; 3]>,
    pub(super) inertia_df: Sourced<[f64; 3]>,
    pub(super) inertia_base: Sourced<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFriction {
    pub(super) coulomb: Sourced<[f64; 3]>,
    pub(super) stiction: Sourced<[f64; 3]>,
    pub(super) viscous: Sourced<[f64; 3]>,
}

/// Friction that a device has at least.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCertified {
    pub(super) damping: Sourced<[f64; 3]>,
    pub(super) coulomb: Sourced<[f64; 3]>,
    pub(super) rot_damping: Option<Sourced<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stops {
    pub(super) stiffness: Sourced<f64>,
    pub(super) damping: Sourced<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawHousing {
    pub(super) radius: Sourced<f64>,
    pub(super) stiffness: Sourced<f64>,
    pub(super) damping: Sourced<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTransport {
    pub(super) read_delay: Sourced<u32>,
    pub(super) write_delay: Sourced<u32>,
}
