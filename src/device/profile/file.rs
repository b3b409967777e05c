//! `devices/*.toml` -> [`Profile`]: strict, every number with its source.

mod raw;
mod sure;

use super::{Calibration, Encoders, Gimbal, MAX_DELAY, Motors, Profile, ProfileError, Transport, Workspace};
use crate::device::dynamics::{Dynamics, Friction, Housing, Inertia, SerialInertia};
use crate::device::kinematics::delta::Delta;
use crate::device::kinematics::serial::Serial3R;
use crate::device::kinematics::{Kinematics, Mount};
use crate::geometry::pose::Vec3;
use nalgebra::Matrix3;
use raw::{Raw, RawArm, RawInertia, RawWorkspace, Sourced};
use std::f64::consts::TAU;

/// File name and text, for errors.
struct Context<'a> {
    file: &'a str,
    text: &'a str,
}

type Result<T> = std::result::Result<T, ProfileError>;

impl Context<'_> {
    fn at(&self, offset: usize, message: String) -> ProfileError {
        let end = offset.min(self.text.len());
        let line = 1 + self.text.as_bytes()[..end].iter().filter(|b| **b == b'\n').count();
        ProfileError { file: self.file.to_string(), line, message }
    }

    /// The value, once it has a source.
    fn take<T: Clone>(&self, key: &str, raw: &Sourced<T>) -> Result<T> {
        if raw.source.get_ref().trim().is_empty() {
            return Err(self.at(
                raw.source.span().start,
                format!("`{key}`: empty source; say where the number is from"),
            ));
        }
        Ok(raw.value.get_ref().clone())
    }

    /// A finite number in `low..=high`.
    fn number(&self, key: &str, raw: &Sourced<f64>, low: f64, high: f64) -> Result<f64> {
        let value = self.take(key, raw)?;
        if !(value >= low && value <= high) {
            let message = format!("`{key}` = {value}: must be a number between {low} and {high}");
            return Err(self.at(raw.value.span().start, message));
        }
        Ok(value)
    }

    fn triple(&self, key: &str, raw: &Sourced<[f64; 3]>, low: f64, high: f64) -> Result<[f64; 3]> {
        let value = self.take(key, raw)?;
        if value.iter().any(|v| !(*v >= low && *v <= high)) {
            let message = format!("`{key}` = {value:?}: every number must be between {low} and {high}");
            return Err(self.at(raw.value.span().start, message));
        }
        Ok(value)
    }

    fn whole(&self, key: &str, raw: &Sourced<u32>, low: u32, high: u32) -> Result<u32> {
        let value = self.take(key, raw)?;
        if !(low..=high).contains(&value) {
            let message = format!("`{key}` = {value}: must be a whole number between {low} and {high}");
            return Err(self.at(raw.value.span().start, message));
        }
        Ok(value)
    }

    fn need<'r, T>(&self, key: &str, raw: &'r Option<T>, why: &str) -> Result<&'r T> {
        raw.as_ref().ok_or_else(|| self.at(0, format!("missing `{key}`: needed because {why}")))
    }

    fn refuse<T>(&self, key: &str, raw: &Option<T>, why: &str) -> Result<()> {
        match raw {
            None => Ok(()),
            Some(_) => Err(self.at(0, format!("`{key}` makes no sense here: {why}"))),
        }
    }
}

/// Largest of anything: keeps later arithmetic finite.
const HUGE: f64 = 1e9;
/// Smallest positive length, mass, inertia: keeps later divisions finite.
const TINY: f64 = 1e-12;

pub(super) fn parse(file: &str, text: &str) -> Result<Profile> {
    let cx = Context { file, text };
    let raw: Raw = toml::from_str(text)
        .map_err(|e| cx.at(e.span().map_or(0, |s| s.start), e.message().trim_end().to_string()))?;

    let name = raw.name.get_ref().clone();
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.' | '_');
    if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
        let message = format!("`name` = {name:?}: use 1 to 64 of a-z, 0-9, '-', '.', '_'");
        return Err(cx.at(raw.name.span().start, message));
    }
    let calibration = match raw.calibration.get_ref().as_str() {
        "none" => Calibration::None,
        "homing" => Calibration::Homing,
        "reset" => Calibration::Reset,
        other => {
            let message = format!("`calibration` = {other:?}: use \"none\", \"homing\" or \"reset\"");
            return Err(cx.at(raw.calibration.span().start, message));
        }
    };
    let kinematics = kinematics(&cx, &raw)?;
    let (encoders, motors) = joints(&cx, &raw, &kinematics)?;
    let dynamics = dynamics(&cx, &raw, &kinematics)?;
    let workspace = workspace(&cx, &raw.workspace)?;
    let gimbal = match &raw.gimbal {
        None => None,
        Some(g) => {
            let min = cx.triple("gimbal.min", &g.min, -TAU * 2.0, TAU * 2.0)?;
            let max = cx.triple("gimbal.max", &g.max, -TAU * 2.0, TAU * 2.0)?;
            if (0..3).any(|i| min[i] >= max[i]) {
                return Err(cx.at(g.max.value.span().start, "`gimbal.max` must be above `gimbal.min`".into()));
            }
            Some(Gimbal {
                min,
                max,
                resolution: cx.number("gimbal.resolution", &g.resolution, 0.0, 1.0)?,
                noise: cx.number("gimbal.noise", &g.noise, 0.0, 1.0)?,
            })
        }
    };
    let l = &raw.limits;
    let optional = |key: &str, raw: &Option<Sourced<f64>>, low: f64| match raw {
        None => Ok(None),
        Some(v) => cx.number(key, v, low, HUGE).map(Some),
    };
    let table: toml::Table =
        toml::from_str(text).map_err(|e| cx.at(e.span().map_or(0, |s| s.start), e.message().to_string()))?;
    let mut sources = Vec::new();
    collect_sources("", &table, &mut sources);

    let stated_stiffness = cx.number("limits.max_stiffness", &l.max_stiffness, 0.0, HUGE)?;
    let stated_rot_stiffness = cx.number("limits.max_rot_stiffness", &l.max_rot_stiffness, 0.0, HUGE)?;
    let mut profile = Profile {
        name,
        title: raw.title.clone(),
        sensed: cx.take("axes.sensed", &raw.axes.sensed)?,
        actuated: cx.take("axes.actuated", &raw.axes.actuated)?,
        max_force: cx.number("limits.max_force", &l.max_force, 0.0, 1000.0)?,
        max_torque: cx.number("limits.max_torque", &l.max_torque, 0.0, 1000.0)?,
        continuous_force: optional("limits.continuous_force", &l.continuous_force, 0.0)?,
        stated_stiffness,
        max_stiffness: stated_stiffness,
        stated_rot_stiffness,
        max_rot_stiffness: stated_rot_stiffness,
        max_damping: cx.number("limits.max_damping", &l.max_damping, 0.0, HUGE)?,
        max_rot_damping: cx.number("limits.max_rot_damping", &l.max_rot_damping, 0.0, HUGE)?,
        max_velocity: cx.number("limits.max_velocity", &l.max_velocity, 1e-3, 1000.0)?,
        max_angular_velocity: cx.number("limits.max_angular_velocity", &l.max_angular_velocity, 1e-3, 1e4)?,
        workspace_radius: workspace.inscribed_radius(),
        workspace,
        torque_hold: optional("limits.torque_hold", &l.torque_hold, 0.0)?,
        calibration,
        kinematics,
        encoders,
        motors,
        gimbal,
        dynamics,
        certified: sure::certified(&cx, &raw, &kinematics)?,
        kept: sure::kept(&cx, &raw)?,
        transport: Transport {
            read_delay: cx.whole("transport.read_delay", &raw.transport.read_delay, 0, MAX_DELAY)?,
            write_delay: cx.whole("transport.write_delay", &raw.transport.write_delay, 0, MAX_DELAY)?,
        },
        sources,
    };
    profile.max_stiffness = profile.borne();
    profile.max_rot_stiffness = profile.rot_ceiling();
    for (stated, borne, key, at) in [
        (stated_stiffness, profile.max_stiffness, "max_damping", &l.max_damping),
        (stated_rot_stiffness, profile.max_rot_stiffness, "max_rot_damping", &l.max_rot_damping),
    ] {
        if stated > 0.0 && borne <= 0.0 {
            let message = "with this damping no stiffness is stable at this delay (docs/stability.md)";
            return Err(cx.at(at.value.span().start, format!("`limits.{key}`: {message}")));
        }
    }
    Ok(profile)
}

fn workspace(cx: &Context<'_>, raw: &RawWorkspace) -> Result<Workspace> {
    match raw.shape.get_ref().as_str() {
        "ball" => {
            cx.refuse("workspace.half", &raw.half, "the shape is a ball")?;
            let radius = cx.need("workspace.radius", &raw.radius, "the shape is a ball")?;
            Ok(Workspace::Ball { radius: cx.number("workspace.radius", radius, 1e-4, 100.0)? })
        }
        "box" => {
            cx.refuse("workspace.radius", &raw.radius, "the shape is a box")?;
            let half = cx.need("workspace.half", &raw.half, "the shape is a box")?;
            Ok(Workspace::Box { half: cx.triple("workspace.half", half, 1e-4, 100.0)? })
        }
        other => {
            let message = format!("`workspace.shape` = {other:?}: use \"ball\" or \"box\"");
            Err(cx.at(raw.shape.span().start, message))
        }
    }
}

fn kinematics(cx: &Context<'_>, raw: &Raw) -> Result<Kinematics> {
    let kind = raw.kinematics.get_ref().as_str();
    let why = format!("kinematics = \"{kind}\"");
    let origin = || -> Result<Vec3> {
        let origin = cx.need("workspace.origin", &raw.workspace.origin, &why)?;
        Ok(Vec3::from(cx.triple("workspace.origin", origin, -10.0, 10.0)?))
    };
    let limits = || -> Result<([f64; 3], [f64; 3])> {
        let j = cx.need("joints", &raw.joints, &why)?;
        let min = cx.triple("joints.min", &j.min, -TAU, TAU)?;
        let max = cx.triple("joints.max", &j.max, -TAU, TAU)?;
        if (0..3).any(|i| min[i] >= max[i]) {
            return Err(cx.at(j.max.value.span().start, "`joints.max` must be above `joints.min`".into()));
        }
        Ok((min, max))
    };
    match kind {
        "ideal" => {
            cx.refuse("delta", &raw.delta, &why)?;
            cx.refuse("serial3r", &raw.serial3r, &why)?;
            cx.refuse("joints", &raw.joints, &why)?;
            cx.refuse("workspace.origin", &raw.workspace.origin, &why)?;
            cx.refuse("gimbal", &raw.gimbal, &why)?;
            Ok(Kinematics::Ideal)
        }
        "delta" => {
            cx.refuse("serial3r", &raw.serial3r, &why)?;
            let d = cx.need("delta", &raw.delta, &why)?;
            let (min, max) = limits()?;
            let azimuths = cx.triple("delta.azimuths", &d.azimuths, -TAU, TAU)?;
            let at = |key: &str, v: &Sourced<f64>| cx.number(key, v, -1.0, 1.0);
            Ok(Kinematics::Delta(Delta {
                a: cx.number("delta.a", &d.a, 1e-3, 1.0)?,
                b: cx.number("delta.b", &d.b, 1e-3, 1.0)?,
                de: at("delta.d", &d.d)? + at("delta.e", &d.e)?,
                radial: at("delta.c", &d.c)? - at("delta.r", &d.r)?,
                lateral: at("delta.lateral", &d.lateral)?,
                legs: azimuths.map(|phi| [phi.cos(), phi.sin()]),
                min,
                max,
                mount: Mount { origin: origin()?, axes: Matrix3::identity() },
            }))
        }
        "serial3r" => {
            cx.refuse("delta", &raw.delta, &why)?;
            let s = cx.need("serial3r", &raw.serial3r, &why)?;
            let (min, max) = limits()?;
            let elbow_min = cx.number("serial3r.elbow_min", &s.elbow_min, -TAU, TAU)?;
            let elbow_max = cx.number("serial3r.elbow_max", &s.elbow_max, -TAU, TAU)?;
            if elbow_min >= elbow_max {
                let message = "`serial3r.elbow_max` must be above `serial3r.elbow_min`".to_string();
                return Err(cx.at(s.elbow_max.value.span().start, message));
            }
            Ok(Kinematics::Serial3R(Serial3R {
                l1: cx.number("serial3r.l1", &s.l1, 1e-3, 10.0)?,
                l2: cx.number("serial3r.l2", &s.l2, 1e-3, 10.0)?,
                min,
                max,
                elbow_min,
                elbow_max,
                // Mechanism x (forwards, to the user) -> device z, y -> x, z (up) -> y.
                mount: Mount {
                    origin: origin()?,
                    axes: Matrix3::new(0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0),
                },
            }))
        }
        other => {
            let message = format!("`kinematics` = {other:?}: use \"ideal\", \"delta\" or \"serial3r\"");
            Err(cx.at(raw.kinematics.span().start, message))
        }
    }
}

fn joints(
    cx: &Context<'_>,
    raw: &Raw,
    kinematics: &Kinematics,
) -> Result<(Option<Encoders>, Option<Motors>)> {
    if *kinematics == Kinematics::Ideal {
        let why = "the ideal device has no joints";
        cx.refuse("encoders", &raw.encoders, why)?;
        cx.refuse("motors", &raw.motors, why)?;
        return Ok((None, None));
    }
    let why = "the mechanism has joints";
    let j = cx.need("joints", &raw.joints, why)?;
    let ratio = cx.triple("joints.ratio", &j.ratio, 1e-3, 1e4)?;
    let direction = match &j.direction {
        None => [1.0; 3],
        Some(d) => {
            let direction = cx.triple("joints.direction", d, -1.0, 1.0)?;
            if direction.iter().any(|d| d.abs() != 1.0) {
                return Err(cx.at(d.value.span().start, "`joints.direction` holds 1 and -1 only".into()));
            }
            direction
        }
    };
    let ratio: [f64; 3] = std::array::from_fn(|i| ratio[i] * direction[i]);
    let e = cx.need("encoders", &raw.encoders, why)?;
    let counts = cx.number("encoders.counts_per_turn", &e.counts_per_turn, 1.0, 1e9)?;
    let m = cx.need("motors", &raw.motors, why)?;
    let torque = match (&m.torque_per_code, &m.torque_per_code_each) {
        (Some(one), None) => [cx.number("motors.torque_per_code", one, TINY, 1e3)?; 3],
        (None, Some(each)) => cx.triple("motors.torque_per_code_each", each, TINY, 1e3)?,
        _ => {
            let message =
                "`motors`: give one of `torque_per_code` (all alike) and `torque_per_code_each`".into();
            return Err(cx.at(m.max_code.value.span().start, message));
        }
    };
    let max_code = cx.take("motors.max_code", &m.max_code)?;
    if !(1..=1 << 30).contains(&max_code) {
        return Err(
            cx.at(m.max_code.value.span().start, format!("`motors.max_code` = {max_code}: must be positive"))
        );
    }
    let encoders = Encoders {
        radians_per_count: ratio.map(|r| TAU / (counts * r)),
        offset: cx.triple("encoders.offset", &e.offset, -TAU, TAU)?,
        bits: cx.whole("encoders.bits", &e.bits, 8, 32)?,
        preset: e.preset.as_ref().map_or(Ok([0; 3]), |p| cx.take("encoders.preset", p))?,
    };
    let (min, max) = (j.min.value.get_ref(), j.max.value.get_ref());
    let room = f64::from(1u32 << (encoders.bits - 1));
    for i in 0..3 {
        let far = (min[i] - encoders.offset[i]).abs().max((max[i] - encoders.offset[i]).abs());
        let counts = far / encoders.radians_per_count[i].abs();
        if counts >= room {
            let message = format!(
                "`encoders.bits` = {}: joint {} goes to {counts:.0} counts, the counter to {room}; it would wrap",
                encoders.bits,
                i + 1
            );
            return Err(cx.at(e.bits.value.span().start, message));
        }
        if let Some(p) = e.preset.as_ref().filter(|_| f64::from(encoders.preset[i]).abs() >= room) {
            let message = format!(
                "`encoders.preset`: {} counts of joint {} do not fit a counter of {} bits",
                encoders.preset[i],
                i + 1,
                encoders.bits
            );
            return Err(cx.at(p.value.span().start, message));
        }
    }
    let torque_per_code = std::array::from_fn(|i| torque[i] * ratio[i]);
    Ok((Some(encoders), Some(Motors { torque_per_code, max_code })))
}

fn dynamics(cx: &Context<'_>, raw: &Raw, kinematics: &Kinematics) -> Result<Dynamics> {
    let i = &raw.inertia;
    let why = format!("kinematics = \"{}\"", raw.kinematics.get_ref());
    let number = |key: &str, v: &Option<Sourced<f64>>, low: f64| -> Result<f64> {
        cx.number(key, cx.need(key, v, &why)?, low, HUGE)
    };
    let inertia = match kinematics {
        Kinematics::Ideal => {
            cx.refuse("inertia.arm_inertia", &i.arm_inertia, &why)?;
            cx.refuse("inertia.arm_moment", &i.arm_moment, &why)?;
            cx.refuse("inertia.tip_mass", &i.tip_mass, &why)?;
            cx.refuse("inertia.rotor", &i.rotor, &why)?;
            cx.refuse("inertia.arm", &i.arm, &why)?;
            Inertia::Ideal {
                mass: number("inertia.mass", &i.mass, 1e-6)?,
                rot_inertia: number("inertia.rot_inertia", &i.rot_inertia, 1e-9)?,
                rot_viscous: number("inertia.rot_viscous", &i.rot_viscous, 0.0)?,
            }
        }
        Kinematics::Delta(_) => {
            refuse_ideal(cx, i, &why)?;
            cx.refuse("inertia.rotor", &i.rotor, &why)?;
            cx.refuse("inertia.arm", &i.arm, &why)?;
            Inertia::Delta {
                arm_inertia: number("inertia.arm_inertia", &i.arm_inertia, 1e-9)?,
                arm_moment: number("inertia.arm_moment", &i.arm_moment, 0.0)?,
                tip_mass: number("inertia.tip_mass", &i.tip_mass, 0.0)?,
            }
        }
        Kinematics::Serial3R(s) => {
            refuse_ideal(cx, i, &why)?;
            cx.refuse("inertia.arm_inertia", &i.arm_inertia, &why)?;
            cx.refuse("inertia.arm_moment", &i.arm_moment, &why)?;
            let mut k = arm(cx, cx.need("inertia.arm", &i.arm, &why)?, s)?;
            k.add_tip(number("inertia.tip_mass", &i.tip_mass, 0.0)?, s.l1, s.l2);
            let rotor = number("inertia.rotor", &i.rotor, 0.0)?;
            let ratio = cx.triple("joints.ratio", &cx.need("joints", &raw.joints, &why)?.ratio, 1e-3, 1e4)?;
            k.add_rotors(ratio.map(|r| rotor * r * r));
            Inertia::Serial(k)
        }
    };
    let f = &raw.friction;
    let friction = Friction {
        coulomb: cx.triple("friction.coulomb", &f.coulomb, 0.0, HUGE)?,
        stiction: cx.triple("friction.stiction", &f.stiction, 0.0, HUGE)?,
        viscous: cx.triple("friction.viscous", &f.viscous, 0.0, HUGE)?,
    };
    if (0..3).any(|i| friction.stiction[i] < friction.coulomb[i]) {
        let message = "`friction.stiction` must not be below `friction.coulomb`".to_string();
        return Err(cx.at(f.stiction.value.span().start, message));
    }
    let v = friction.viscous;
    if *kinematics == Kinematics::Ideal && (v[0] != v[1] || v[0] != v[2]) {
        let message = "`friction.viscous` of the ideal device must be the same along x, y and z".to_string();
        return Err(cx.at(f.viscous.value.span().start, message));
    }
    let housing = match &raw.housing {
        None => None,
        Some(h) => Some(Housing {
            radius: cx.number("housing.radius", &h.radius, 1e-4, 100.0)?,
            stiffness: cx.number("housing.stiffness", &h.stiffness, 0.0, HUGE)?,
            damping: cx.number("housing.damping", &h.damping, 0.0, HUGE)?,
        }),
    };
    if *kinematics == Kinematics::Ideal {
        cx.refuse("housing", &raw.housing, &why)?;
    }
    Ok(Dynamics {
        housing,
        gravity: cx.number("inertia.gravity", &i.gravity, 0.0, 100.0)?,
        inertia,
        friction,
        stop_stiffness: cx.number("stops.stiffness", &raw.stops.stiffness, 0.0, HUGE)?,
        stop_damping: cx.number("stops.damping", &raw.stops.damping, 0.0, HUGE)?,
    })
}

fn refuse_ideal(cx: &Context<'_>, i: &RawInertia, why: &str) -> Result<()> {
    cx.refuse("inertia.mass", &i.mass, why)?;
    cx.refuse("inertia.rot_inertia", &i.rot_inertia, why)?;
    cx.refuse("inertia.rot_viscous", &i.rot_viscous, why)
}

/// Coefficients of the mass matrix from the bodies (Cavusoglu et al. 2002, equations of section 4).
fn arm(cx: &Context<'_>, raw: &RawArm, s: &Serial3R) -> Result<SerialInertia> {
    let n = |key: &str, v: &Sourced<f64>| cx.number(key, v, -10.0, 10.0);
    let t = |key: &str, v: &Sourced<[f64; 3]>| cx.triple(key, v, 0.0, 10.0);
    let (l1, l2) = (s.l1, s.l2);
    let (l3, l5, l6) =
        (n("inertia.arm.l3", &raw.l3)?, n("inertia.arm.l5", &raw.l5)?, n("inertia.arm.l6", &raw.l6)?);
    let (ma, mc) = (n("inertia.arm.mass_a", &raw.mass_a)?, n("inertia.arm.mass_c", &raw.mass_c)?);
    let (mbe, mdf) = (n("inertia.arm.mass_be", &raw.mass_be)?, n("inertia.arm.mass_df", &raw.mass_df)?);
    let [axx, ayy, azz] = t("inertia.arm.inertia_a", &raw.inertia_a)?;
    let [cxx, cyy, czz] = t("inertia.arm.inertia_c", &raw.inertia_c)?;
    let [bxx, byy, bzz] = t("inertia.arm.inertia_be", &raw.inertia_be)?;
    let [dxx, dyy, dzz] = t("inertia.arm.inertia_df", &raw.inertia_df)?;
    let base = n("inertia.arm.inertia_base", &raw.inertia_base)?;
    Ok(SerialInertia {
        k0: 0.125
            * (4.0 * (ayy + azz + 2.0 * base + byy + bzz + cyy + czz + dyy + dzz)
                + 4.0 * l1 * l1 * ma
                + l2 * l2 * ma
                + l1 * l1 * mc
                + 4.0 * l3 * l3 * mc),
        k1: 0.125 * (4.0 * (byy - bzz + cyy - czz) + l1 * l1 * (4.0 * ma + mc)),
        k2: 0.125 * (4.0 * (ayy - azz + dyy - dzz) - l2 * l2 * ma - 4.0 * l3 * l3 * mc),
        k3: l1 * (l2 * ma + l3 * mc),
        k4: bxx + cxx + l1 * l1 * ma + 0.25 * l1 * l1 * mc,
        k5: axx + dxx + 0.25 * l2 * l2 * ma + l3 * l3 * mc,
        w2: l1 * ma + l5 * mbe + 0.5 * l1 * mc,
        w3: 0.5 * l2 * ma + l3 * mc - l6 * mdf,
    })
}

/// Walks the file for `{ value, source }` tables.
fn collect_sources(path: &str, table: &toml::Table, out: &mut Vec<(String, String)>) {
    if let (Some(_), Some(toml::Value::String(source))) = (table.get("value"), table.get("source")) {
        out.push((path.to_string(), source.clone()));
        return;
    }
    for (key, value) in table {
        if let toml::Value::Table(inner) = value {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            collect_sources(&path, inner, out);
        }
    }
}

#[cfg(test)]
mod tests;
