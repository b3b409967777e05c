//! What the simulated user wants to do: a path of poses over time, a hand, and what goes wrong.
//!
//! ```toml
//! hand = "normal"             # none, light, normal, firm, or a table of mass, damping, stiffness, ...
//! let_go = 4.0                # s: the hand opens (optional)
//! seed = 7                    # tremor, lost samples, sensor noise
//! repeat = false              # start over after the last keyframe
//! tremor = { amplitude = 0.0001, frequency = 9.0 }   # m, Hz (optional)
//!
//! [[keyframe]]                # poses of the tool in the device frame
//! time = 0.0                  # s
//! position = [0.0, 0.0, 0.0]  # m
//! orientation = [0.0, 0.0, 0.0, 1.0]     # x y z w, or
//! # rotation_deg = [0.0, 90.0, 0.0]      # rotation vector, degrees
//!
//! [[press]]                   # a button is held
//! button = 1
//! at = 1.0                    # s
//! until = 2.0
//!
//! [[fault]]                   # see `Fault`
//! kind = "unplug"
//! at = 2.5
//! ```

use super::faults::{Fault, Faults};
use super::hand::Hand;
use crate::geometry::pose::{Point, Pose, Vec3};
use nalgebra::{Quaternion, Translation3, UnitQuaternion};
use serde::Deserialize;
use toml::Spanned;

/// Most keyframes in a script.
pub const MAX_KEYFRAMES: usize = 100_000;

/// A pose to reach at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Keyframe {
    /// s since the first read.
    pub time: f64,
    /// Pose of the tool in the device frame.
    pub pose: Pose,
}

/// Involuntary oscillation of the intended position.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tremor {
    /// m.
    pub amplitude: f64,
    /// Hz (physiological tremor: 8 to 12).
    pub frequency: f64,
}

/// A button that is held for a while.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Press {
    /// Its number, from 1.
    pub button: u32,
    /// s since the first read.
    pub at: f64,
    /// s; for good when absent.
    #[serde(default = "forever")]
    pub until: f64,
}

fn forever() -> f64 {
    f64::INFINITY
}

/// What the simulated user does.
#[derive(Clone, Debug, PartialEq)]
pub struct HandScript {
    /// Path, times strictly rising; empty = rest at the origin.
    pub keyframes: Vec<Keyframe>,
    /// The hand.
    pub hand: Hand,
    /// When the hand opens, s.
    pub let_go: Option<f64>,
    /// Start over after the last keyframe.
    pub repeat: bool,
    /// Tremor.
    pub tremor: Option<Tremor>,
    /// Seed of everything random in the device.
    pub seed: u64,
    /// Buttons that are held.
    pub presses: Vec<Press>,
    /// Faults of the device.
    pub faults: Faults,
}

impl Default for HandScript {
    fn default() -> Self {
        Self {
            keyframes: Vec::new(),
            hand: Hand::NONE,
            let_go: None,
            repeat: false,
            tremor: None,
            seed: 0,
            presses: Vec::new(),
            faults: Faults::default(),
        }
    }
}

/// A script that cannot be used: file, line, cause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct ScriptError {
    /// File name, or "hand script".
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Cause.
    pub message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    hand: Option<Spanned<toml::Value>>,
    let_go: Option<Spanned<f64>>,
    #[serde(default)]
    seed: u64,
    #[serde(default)]
    repeat: bool,
    tremor: Option<Spanned<Tremor>>,
    #[serde(default)]
    keyframe: Vec<Spanned<RawKeyframe>>,
    #[serde(default)]
    press: Vec<Spanned<Press>>,
    #[serde(default)]
    fault: Vec<Spanned<Fault>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawKeyframe {
    time: f64,
    position: [f64; 3],
    orientation: Option<[f64; 4]>,
    rotation_deg: Option<[f64; 3]>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHand {
    mass: f64,
    damping: f64,
    stiffness: f64,
    inertia: Option<f64>,
    rot_damping: Option<f64>,
    rot_stiffness: Option<f64>,
}

impl HandScript {
    /// Reads a script (TOML text, see the module's example).
    ///
    /// # Errors
    /// Line and cause.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        Self::parse_named("hand script", text)
    }

    /// Reads a script; `file` names it in errors.
    ///
    /// # Errors
    /// File, line and cause.
    pub fn parse_named(file: &str, text: &str) -> Result<Self, ScriptError> {
        let at = |offset: usize, message: String| {
            let end = offset.min(text.len());
            let line = 1 + text.as_bytes()[..end].iter().filter(|b| **b == b'\n').count();
            ScriptError { file: file.to_string(), line, message }
        };
        let raw: Raw = toml::from_str(text)
            .map_err(|e| at(e.span().map_or(0, |s| s.start), e.message().trim_end().to_string()))?;

        let hand = match &raw.hand {
            None => Hand::NORMAL,
            Some(v) => parse_hand(v.get_ref()).map_err(|m| at(v.span().start, m))?,
        };
        if let Some(t) = &raw.let_go
            && !(t.get_ref() >= &0.0 && t.get_ref().is_finite())
        {
            return Err(at(
                t.span().start,
                format!("`let_go` = {}: must be a time in s, from 0", t.get_ref()),
            ));
        }
        if let Some(t) = &raw.tremor {
            let v = t.get_ref();
            if !((0.0..=0.01).contains(&v.amplitude) && (0.0..=50.0).contains(&v.frequency)) {
                let message = "`tremor`: amplitude must be 0 to 0.01 m, frequency 0 to 50 Hz".to_string();
                return Err(at(t.span().start, message));
            }
        }
        if raw.keyframe.len() > MAX_KEYFRAMES {
            let message = format!("{} keyframes; at most {MAX_KEYFRAMES}", raw.keyframe.len());
            return Err(at(raw.keyframe[MAX_KEYFRAMES].span().start, message));
        }
        let mut keyframes: Vec<Keyframe> = Vec::with_capacity(raw.keyframe.len());
        for (i, k) in raw.keyframe.iter().enumerate() {
            let fail = |m: &str| at(k.span().start, format!("keyframe {}: {m}", i + 1));
            let v = k.get_ref();
            if !(v.time >= 0.0 && v.time.is_finite()) {
                return Err(fail("`time` must be in s, from 0"));
            }
            if keyframes.last().is_some_and(|last| v.time - last.time < 1e-3) {
                return Err(fail("`time` must be at least 1 ms after the keyframe before"));
            }
            if v.position.iter().any(|p| !(-10.0..=10.0).contains(p)) {
                return Err(fail("`position` must be within 10 m of the device's origin (metres!)"));
            }
            let rotation = match (v.orientation, v.rotation_deg) {
                (Some(_), Some(_)) => return Err(fail("give `orientation` or `rotation_deg`, not both")),
                (None, None) => UnitQuaternion::identity(),
                (Some(q), None) => {
                    let q = Quaternion::new(q[3], q[0], q[1], q[2]);
                    if !(0.999..=1.001).contains(&q.norm()) {
                        return Err(fail("`orientation` (x y z w) must have length 1"));
                    }
                    UnitQuaternion::from_quaternion(q)
                }
                (None, Some(d)) => {
                    if d.iter().any(|a| !(-3600.0..=3600.0).contains(a)) {
                        return Err(fail("`rotation_deg` must be within 3600 degrees"));
                    }
                    UnitQuaternion::new(Vec3::from(d.map(f64::to_radians)))
                }
            };
            keyframes.push(Keyframe {
                time: v.time,
                pose: Pose::from_parts(Translation3::from(Point::from(v.position).coords), rotation),
            });
        }
        if raw.repeat && keyframes.len() < 2 {
            return Err(at(0, "`repeat` needs at least two keyframes".into()));
        }
        for p in &raw.press {
            let v = p.get_ref();
            if !((1..=32).contains(&v.button) && v.at >= 0.0 && v.until > v.at) {
                let message = "press: need `button` 1 to 32 and 0 <= `at` < `until` (s)".to_string();
                return Err(at(p.span().start, message));
            }
        }
        for f in &raw.fault {
            let v = f.get_ref();
            if !(v.at >= 0.0 && v.until > v.at && v.size.is_finite()) {
                let message = "fault: need 0 <= `at` < `until` (s) and a finite `size` (m)".to_string();
                return Err(at(f.span().start, message));
            }
        }
        Ok(Self {
            keyframes,
            hand,
            let_go: raw.let_go.map(Spanned::into_inner),
            repeat: raw.repeat,
            tremor: raw.tremor.map(Spanned::into_inner),
            seed: raw.seed,
            presses: raw.press.into_iter().map(Spanned::into_inner).collect(),
            faults: Faults(raw.fault.into_iter().map(Spanned::into_inner).collect()),
        })
    }
}

fn parse_hand(value: &toml::Value) -> Result<Hand, String> {
    if let toml::Value::String(name) = value {
        return Hand::preset(name).ok_or_else(|| {
            format!("`hand` = {name:?}: use \"none\", \"light\", \"normal\", \"firm\" or a table")
        });
    }
    let raw: RawHand = value.clone().try_into().map_err(|e| format!("`hand`: {e}"))?;
    let mut hand = Hand::new(raw.mass, raw.damping, raw.stiffness);
    hand.inertia = raw.inertia.unwrap_or(hand.inertia);
    hand.rot_damping = raw.rot_damping.unwrap_or(hand.rot_damping);
    hand.rot_stiffness = raw.rot_stiffness.unwrap_or(hand.rot_stiffness);
    let all = [hand.mass, hand.damping, hand.stiffness, hand.inertia, hand.rot_damping, hand.rot_stiffness];
    if all.iter().all(|v| (0.0..=1e6).contains(v)) {
        Ok(hand)
    } else {
        Err("`hand`: every number must be between 0 and 1e6 (kg, N s/m, N/m)".into())
    }
}

#[cfg(test)]
mod tests;
