//! Dry friction of a point that is held by a spring: what it holds, when it lets go, how it slides.
//!
//! The spring's far end rests on the surface and stays there, in the object's frame, as long as the tool drags it by no more than
//! the static coefficient times what presses; beyond that it slides after the tool until the pull is the sliding
//! coefficient times what presses (the stick spring of Salcudean and Vlaar, 1997; the friction cone of CHAI3D's finger proxy). What
//! sticks does not move at all: nothing drifts below break-away (the requirement of Hayward and Armstrong, 2000). Sliding
//! follows Stribeck's curve where the material has one. The pull never exceeds the cone.
//!
//! Real-time safe, pure.

#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types,
        clippy::expect_used,
        clippy::panic,
        clippy::unwrap_used
    )
)]

use crate::contact::{Friction, sound};
use crate::geometry::Vec3;

/// A dragged point slides again from so much more than where it came to rest: less is rounding.
const REST: f64 = 1e-9;

/// The coefficient at which a point slides with `speed` (m/s): mu_d + (mu_s - mu_d) exp(-(v/v_s)^2) + viscous v, never above the
/// static one. Real-time safe.
pub fn sliding(friction: &Friction, speed: f64) -> f64 {
    let top = sound(friction.statics);
    let low = sound(friction.dynamic).min(top);
    let stribeck = sound(friction.stribeck);
    // A speed that is no number slides as if it hardly moved.
    let speed = sound(speed.abs());
    let curve = if stribeck > 0.0 { (-(speed / stribeck).powi(2)).exp() } else { 0.0 };
    (low + (top - low) * curve + sound(friction.viscous) * speed).min(top)
}

/// Least size that a coefficient's way is measured by.
const SMALL: f64 = 0.05;

/// Friction on its way from what is felt to what is wanted, up by `part` (0..=1) of the larger one: an edit of a material does not seize
/// a hand that slides over it. Less friction lets go at once, as what is deleted does. Real-time safe.
pub fn toward(felt: &Friction, wanted: &Friction, part: f64) -> Friction {
    let go = |from: f64, to: f64| {
        let (from, to) = (sound(from), sound(to));
        (from + part * to.max(SMALL)).min(to)
    };
    Friction {
        statics: go(felt.statics, wanted.statics),
        dynamic: go(felt.dynamic, wanted.dynamic),
        stribeck: go(felt.stribeck, wanted.stribeck),
        viscous: go(felt.viscous, wanted.viscous),
    }
}

/// How a point that rests on the surface goes on: `None` when it sticks, else the coefficient with which it slides. `drag` is
/// how far the tool would have it, `press` how far it is pressed, both m; `slides` whether it slid in the tick before.
/// Real-time safe.
pub fn slip(friction: &Friction, slides: bool, drag: f64, press: f64, speed: f64) -> Option<f64> {
    let moving = sliding(friction, speed);
    let holds = if slides { moving } else { sound(friction.statics) };
    (drag > holds * press * (1.0 + REST)).then_some(moving)
}

/// The cone in which the whole force of a rubbing contact lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cone {
    /// Unit direction in which the object presses.
    pub normal: Vec3,
    /// Tangent of its half angle.
    pub mu: f64,
}

impl Cone {
    /// The force with what is along the surface cut down to the cone; nothing where nothing presses. Real-time safe.
    pub fn cut(&self, force: &Vec3) -> Vec3 {
        let press = force.dot(&self.normal);
        if press <= 0.0 {
            return Vec3::zeros();
        }
        let along = force - self.normal * press;
        let (pull, most) = (along.norm(), self.mu * press);
        if pull > most { self.normal * press + along * (most / pull) } else { *force }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RUBBER: Friction = Friction { statics: 0.8, dynamic: 0.5, stribeck: 0.0, viscous: 0.0 };

    #[test]
    fn the_curve_starts_at_the_static_coefficient_and_falls_to_the_dynamic_one() {
        let f = Friction { stribeck: 0.01, ..RUBBER };
        assert_eq!(sliding(&f, 0.0), 0.8);
        // One Stribeck speed: 1/e of the difference is left.
        assert!((sliding(&f, 0.01) - (0.5 + 0.3 / std::f64::consts::E)).abs() < 1e-12);
        assert!((sliding(&f, 0.1) - 0.5).abs() < 1e-12);
        assert_eq!(sliding(&RUBBER, 0.0), 0.5, "without a curve it falls at once");
        let oiled = Friction { viscous: 2.0, ..RUBBER };
        assert!((sliding(&oiled, 0.05) - 0.6).abs() < 1e-12);
        assert_eq!(sliding(&oiled, 10.0), 0.8, "never above the static one");
    }

    #[test]
    fn it_sticks_up_to_the_static_and_goes_on_sliding_above_the_dynamic_coefficient() {
        assert_eq!(slip(&RUBBER, false, 0.79e-3, 1e-3, 0.0), None);
        assert_eq!(slip(&RUBBER, false, 0.81e-3, 1e-3, 0.0), Some(0.5));
        assert_eq!(slip(&RUBBER, true, 0.51e-3, 1e-3, 0.0), Some(0.5));
        assert_eq!(slip(&RUBBER, true, 0.5e-3, 1e-3, 0.0), None, "come to rest");
        assert_eq!(slip(&Friction::NONE, false, 1e-9, 1e-3, 0.0), Some(0.0));
    }

    #[test]
    fn unreadable_numbers_rub_as_if_there_were_none() {
        let bad = Friction { statics: f64::NAN, dynamic: f64::INFINITY, stribeck: f64::NAN, viscous: -1.0 };
        assert_eq!(sliding(&bad, 1.0), 0.0);
        assert_eq!(sliding(&RUBBER, f64::NAN), 0.5);
        assert_eq!(sliding(&Friction { viscous: 1.0, ..RUBBER }, f64::NAN), 0.5);
    }

    proptest! {
        #[test]
        fn a_cut_force_lies_in_the_cone(f in prop::array::uniform3(-1e3..1e3f64), n in prop::array::uniform3(-1.0..1.0f64), mu in 0.0..3.0f64) {
            let (force, normal) = (Vec3::from(f), Vec3::from(n));
            prop_assume!(normal.norm() > 1e-3);
            let cone = Cone { normal: normal.normalize(), mu };
            let cut = cone.cut(&force);
            let press = cut.dot(&cone.normal);
            prop_assert!(press >= -1e-9);
            prop_assert!((cut - cone.normal * press).norm() <= mu * press + 1e-9);
            // What lay in it stays as it is.
            prop_assert!((cone.cut(&cut) - cut).norm() <= 1e-9);
        }
    }
}
