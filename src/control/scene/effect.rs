//! Effects from the wire to the model and back.

use crate::geometry::Vec3;
use crate::protocol::edit::EffectJson;
use crate::scene::model::{Effect, EffectKind};

/// Largest force of an effect whose client names none, N.
const DEFAULT_MOST: f64 = 2.0;

/// From the wire.
pub(super) fn effect(wire: &EffectJson, max_force: Option<f64>) -> Effect {
    let of = |kind, strength, vector: [f64; 3], range| {
        let max_force = max_force.unwrap_or(DEFAULT_MOST);
        Effect { kind, strength, vector: Vec3::from(vector), range, max_force }
    };
    match *wire {
        EffectJson::Viscosity { damping } => of(EffectKind::Viscosity, damping, [0.0; 3], 0.0),
        EffectJson::Constant { force } => of(EffectKind::Constant, 0.0, force, 0.0),
        EffectJson::Spring { point, stiffness } => of(EffectKind::Spring, stiffness, point, 0.0),
        EffectJson::Magnet { point, force, range } => of(EffectKind::Magnet, force, point, range),
    }
}

/// For JSON.
pub(super) fn effect_json(e: &Effect) -> EffectJson {
    let vector: [f64; 3] = e.vector.into();
    match e.kind {
        EffectKind::Viscosity => EffectJson::Viscosity { damping: e.strength },
        EffectKind::Constant => EffectJson::Constant { force: vector },
        EffectKind::Spring => EffectJson::Spring { point: vector, stiffness: e.strength },
        EffectKind::Magnet => EffectJson::Magnet { point: vector, force: e.strength, range: e.range },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_come_back() {
        for wire in [
            EffectJson::Viscosity { damping: 5.0 },
            EffectJson::Constant { force: [1.0, 2.0, 3.0] },
            EffectJson::Spring { point: [0.1, 0.2, 0.3], stiffness: 100.0 },
            EffectJson::Magnet { point: [0.1, 0.2, 0.3], force: 1.5, range: 0.02 },
        ] {
            assert_eq!(effect_json(&effect(&wire, None)), wire);
            assert_eq!((effect(&wire, None).max_force, effect(&wire, Some(0.5)).max_force), (2.0, 0.5));
        }
    }
}
