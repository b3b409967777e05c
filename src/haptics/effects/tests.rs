//! Laws against closed forms and differences; comings, changes and goings.

use super::*;
use proptest::prelude::*;

const PACE: Pace = Pace { dt: 1e-3, fade: 0.2, release: 0.03, tau: 0.0, scale: 1.0 };

fn effect(kind: EffectKind) -> Effect {
    let strength = match kind {
        EffectKind::Viscosity => 5.0,
        EffectKind::Constant => 0.0,
        EffectKind::Spring => 200.0,
        EffectKind::Magnet => 2.0,
    };
    Effect { kind, strength, vector: Vec3::new(0.01, -0.02, 0.03), range: 0.05, max_force: 3.0 }
}

const KINDS: [EffectKind; 4] =
    [EffectKind::Viscosity, EffectKind::Constant, EffectKind::Spring, EffectKind::Magnet];

#[test]
fn laws_have_their_closed_forms() {
    let zero = Vec3::zeros();
    let v = Vec3::new(0.1, -0.2, 0.0);
    assert_eq!(push(&effect(EffectKind::Viscosity), &zero, &v, 0.0).force, v * -5.0);
    let constant = Effect { vector: Vec3::new(0.0, 0.0, -1.5), ..effect(EffectKind::Constant) };
    assert_eq!(push(&constant, &v, &v, 0.0).force, Vec3::new(0.0, 0.0, -1.5));
    let spring = effect(EffectKind::Spring);
    let x = spring.vector + Vec3::new(0.004, 0.0, 0.0);
    assert!((push(&spring, &x, &zero, 0.0).force - Vec3::new(-0.8, 0.0, 0.0)).norm() < 1e-12);
    // Most at a third of the range, nothing at the point and beyond the range.
    let magnet = effect(EffectKind::Magnet);
    let at = |d: f64| push(&magnet, &(magnet.vector + Vec3::new(0.0, d, 0.0)), &zero, 0.0).force.y;
    assert!((at(0.05 / 3.0) + 2.0).abs() < 1e-12, "{}", at(0.05 / 3.0));
    assert_eq!((at(0.0), at(0.05), at(0.08)), (0.0, 0.0, 0.0));
    assert!(at(0.01) < at(0.002) && at(0.03) > at(0.05 / 3.0));
}

#[test]
fn a_gone_effect_fades_out_and_a_new_one_in() {
    let mut effects = Effects::default();
    let e = Effect { vector: Vec3::new(1.0, 0.0, 0.0), ..effect(EffectKind::Constant) };
    let scene = [SceneEffect { id: 7, effect: e, gain: 1.0 }];
    let zero = Vec3::zeros();
    let mut last = 0.0;
    for k in 1..=200 {
        let f = effects.step(&scene, &zero, &zero, &PACE).force.x;
        assert!((f - f64::from(k) / 200.0).abs() < 1e-9, "{k}: {f}");
        last = f;
    }
    // Other numbers: from the old to the new over the same time.
    let more = [SceneEffect { effect: Effect { vector: Vec3::new(2.0, 0.0, 0.0), ..e }, ..scene[0] }];
    for k in 1..=200 {
        let f = effects.step(&more, &zero, &zero, &PACE).force.x;
        assert!((f - last - 1.0 / 200.0).abs() < 1e-9, "{k}: {f} after {last}");
        last = f;
    }
    // Numbers that change fifty times a second follow without a step.
    for k in 0..1000u32 {
        let x = 2.0 + 0.5 * f64::from(k / 20).sin();
        let now = [SceneEffect { effect: Effect { vector: Vec3::new(x, 0.0, 0.0), ..e }, ..scene[0] }];
        let f = effects.step(&now, &zero, &zero, &PACE).force.x;
        assert!((f - last).abs() <= 1.0 / 200.0 + 1e-9 && (1.4..=2.6).contains(&f), "{k}: {f} after {last}");
        last = f;
    }
    // Gone: within the release time.
    for k in 1..=30 {
        let f = effects.step(&[], &zero, &zero, &PACE).force.x;
        assert!(f < last && last - f < 2.6 / 29.0, "{k}: {f} after {last}");
        last = f;
    }
    assert_eq!(effects.step(&[], &zero, &zero, &PACE), Push::NONE);
    // A gain that its session takes away.
    for _ in 0..400 {
        effects.step(&scene, &zero, &zero, &PACE);
    }
    let half = [SceneEffect { gain: 0.5, ..scene[0] }];
    for _ in 0..100 {
        effects.step(&half, &zero, &zero, &PACE);
    }
    assert!((effects.step(&half, &zero, &zero, &PACE).force.x - 0.5).abs() < 1e-12);
    effects.reset();
    assert!(effects.step(&scene, &zero, &zero, &PACE).force.x <= 1.0 / 200.0 + 1e-12);
}

/// Every tick other effects beside some that last: those come in as if they were alone, and the flood never gets beyond its first tick.
#[test]
fn a_flood_of_effects_takes_no_place_of_those_that_last() {
    let mut effects = Effects::default();
    let e = Effect { vector: Vec3::new(1.0, 0.0, 0.0), ..effect(EffectKind::Constant) };
    let lasting = 8;
    for k in 0..2000u32 {
        let flood = (0..40).map(|i| 1000 + k * 40 + i);
        let scene: Vec<_> =
            (0..lasting).chain(flood).map(|id| SceneEffect { id, effect: e, gain: 1.0 }).collect();
        let f = effects.step(&scene, &Vec3::zeros(), &Vec3::zeros(), &PACE).force.x;
        let own = f64::from(lasting) * (f64::from(k + 1) / 200.0).min(1.0);
        let others = (MAX_EFFECTS as f64 - f64::from(lasting)) / 200.0;
        assert!((f - own - others).abs() < 1e-9, "{k}: {f} N, {own} and {others}");
    }
}

/// A sampled viscosity takes energy out of a free mass in every tick, as long as it is less than the mass over the period.
#[test]
fn viscosity_never_adds_energy() {
    let e = Effect { max_force: 50.0, ..effect(EffectKind::Viscosity) };
    for (mass, b) in [(0.1, 1.0), (0.1, 20.0), (0.1, 99.0), (0.5, 30.0)] {
        let e = Effect { strength: b, ..e };
        let mut v = Vec3::new(0.3, -0.2, 0.1);
        for k in 0..2000 {
            let before = v.norm_squared();
            v += push(&e, &Vec3::zeros(), &v, 0.0).force * (1e-3 / mass);
            assert!(v.norm_squared() <= before, "{mass} kg, {b}: tick {k}");
        }
        assert!(v.norm() < 0.3, "{v}");
    }
}

proptest! {
    /// Never more than its maximum, whatever the numbers; the stiffness is what differences say where it is positive.
    #[test]
    fn bounded_and_consistent(
        kind in 0..4usize, s in 0.0..1e4f64, most in 0.0..20.0f64, range in 1e-3..1.0f64,
        x in prop::array::uniform3(-0.2..0.2f64), v in prop::array::uniform3(-3.0..3.0f64), tau in 0.0..0.01f64,
    ) {
        let e = Effect { strength: s, max_force: most, range, ..effect(KINDS[kind]) };
        let (x, v) = (Vec3::from(x), Vec3::from(v));
        let p = push(&e, &x, &v, tau);
        prop_assert!(p.force.norm() <= most * (1.0 + 1e-12));
        prop_assert!(p.stiffness.iter().chain(p.damping.iter()).all(|n| n.is_finite()));
        prop_assert!(p.stiffness.symmetric_eigen().eigenvalues.min() > -1e-6 * (1.0 + s));
        // Never along the motion: a spring at rest in the numbers, a damper in its place.
        if KINDS[kind] == EffectKind::Viscosity {
            prop_assert!(p.force.dot(&v) <= 0.0);
        }
        let still = push(&e, &x, &Vec3::zeros(), 0.0);
        let away = x - e.vector;
        let springy = matches!(KINDS[kind], EffectKind::Spring | EffectKind::Magnet);
        if springy && away.norm() > 1e-3 && still.force.norm() < 0.99 * most {
            let h = 1e-7;
            let slope = |d: Vec3| (push(&e, &(x + d * h), &Vec3::zeros(), 0.0).force - still.force) / -h;
            let differences = Matrix3::from_columns(&[slope(Vec3::x()), slope(Vec3::y()), slope(Vec3::z())]);
            let off = differences - still.stiffness;
            let rough = 1e-3 * (s + s / range) + 1e-6;
            if KINDS[kind] == EffectKind::Spring {
                prop_assert!(off.norm() <= 1e-3 * s + 1e-6, "{differences} {}", still.stiffness);
            }
            // It counts for the cap: never less than the force really grows.
            prop_assert!((off + off.transpose()).symmetric_eigen().eigenvalues.max() <= 2.0 * rough, "{off}");
        }
        for bad in [f64::NAN, f64::INFINITY] {
            let e = Effect { strength: bad, vector: Vec3::new(bad, 0.0, 0.0), range: bad, max_force: most, ..e };
            prop_assert!(push(&e, &x, &v, tau).force.norm() <= most);
            let e = Effect { strength: bad, range: bad, ..effect(KINDS[kind]) };
            prop_assert!(push(&e, &x, &v, tau).force.norm() <= e.max_force * (1.0 + 1e-12));
        }
    }
}

/// Forces and maxima are meant at the hand, whatever the workspace's scale; what is per metre is the same on both sides.
#[test]
fn forces_are_those_at_the_hand() {
    let x = Vec3::new(0.02, 0.0, 0.0);
    let v = Vec3::new(0.0, 0.1, 0.0);
    for scale in [0.01, 1.0, 10.0] {
        let pace = Pace { scale, ..PACE };
        let at_hand = |e: Effect, x: Vec3, v: Vec3| {
            let scene = [SceneEffect { id: 1, effect: e, gain: 1.0 }];
            let mut effects = Effects::default();
            (0..400).map(|_| effects.step(&scene, &x, &v, &pace).force / scale).last().expect("some")
        };
        let constant = Effect { vector: Vec3::new(0.0, 0.0, 1.5), ..effect(EffectKind::Constant) };
        assert!((at_hand(constant, x, v) - Vec3::new(0.0, 0.0, 1.5)).norm() < 1e-12);
        // The scene's metres are the scale times the device's.
        let spring = Effect { vector: Vec3::zeros(), strength: 50.0, ..effect(EffectKind::Spring) };
        assert!((at_hand(spring, x * scale, Vec3::zeros()) + x * 50.0).norm() < 1e-9);
        let viscous = Effect { strength: 3.0, ..effect(EffectKind::Viscosity) };
        assert!((at_hand(viscous, x, v * scale) + v * 3.0).norm() < 1e-9);
        for kind in [EffectKind::Constant, EffectKind::Spring, EffectKind::Viscosity, EffectKind::Magnet] {
            let strong =
                Effect { strength: 1e5, vector: Vec3::new(90.0, 0.0, 0.0), range: 200.0, ..effect(kind) };
            let f = at_hand(strong, x * scale, v * scale).norm();
            assert!(f <= strong.max_force * (1.0 + 1e-9), "{kind:?} at {scale}: {f}");
        }
    }
}
