//! Effects of a scene file.

use crate::config::source::{SourceError, Table};
use crate::geometry::Vec3;
use crate::scene::model::{Effect, EffectKind};

/// `[effects.NAME]`.
pub(super) fn effect(t: &Table<'_>) -> Result<Effect, SourceError> {
    let max_force = t.or("max_force_n", 2.0)?;
    let of = |kind, strength, vector: [f64; 3], range| Effect {
        kind,
        strength,
        vector: Vec3::from(vector),
        range,
        max_force,
    };
    match t.req::<String>("kind")?.as_str() {
        "viscosity" => Ok(of(EffectKind::Viscosity, t.req("damping_ns_m")?, [0.0; 3], 0.0)),
        "constant" => Ok(of(EffectKind::Constant, 0.0, t.req("force_n")?, 0.0)),
        "spring" => Ok(of(EffectKind::Spring, t.req("stiffness_n_m")?, t.req("point_m")?, 0.0)),
        "magnet" => Ok(of(EffectKind::Magnet, t.req("pull_n")?, t.req("point_m")?, t.req("range_m")?)),
        other => {
            Err(t.error("kind", format!("no effect '{other}'; known: viscosity, constant, spring, magnet")))
        }
    }
}
