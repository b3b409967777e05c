use super::*;
use crate::geometry::{Pose, Twist, Vec3};
use nalgebra::{Quaternion, Translation3, Unit, UnitQuaternion};
use proptest::prelude::*;

/// Any f64 at all: NaN, infinities, subnormals, zeros of both signs.
fn wild() -> impl Strategy<Value = f64> {
    prop_oneof![
        2 => proptest::num::f64::ANY,
        3 => -50.0..50.0f64,
        1 => prop::sample::select(vec![
            f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, 0.0, -0.0, f64::MIN_POSITIVE, 5e-324,
        ]),
    ]
}

fn wrench(c: [f64; 6]) -> Wrench {
    Wrench { force: Vec3::new(c[0], c[1], c[2]), torque: Vec3::new(c[3], c[4], c[5]) }
}

fn components(w: &Wrench) -> [f64; 6] {
    [w.force.x, w.force.y, w.force.z, w.torque.x, w.torque.y, w.torque.z]
}

fn six() -> impl Strategy<Value = Wrench> {
    prop::array::uniform6(wild()).prop_map(wrench)
}

fn limits() -> impl Strategy<Value = Limits> {
    prop::array::uniform4(wild()).prop_map(|[a, b, c, d]| Limits::new(a, b, c, d))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..Default::default() })]

    #[test]
    fn whatever_comes_in_the_output_keeps_every_limit(
        limits in limits(), first in six(), wanted in prop::collection::vec((six(), wild()), 1..8)
    ) {
        // The first command, too, is something that the guard itself let through.
        let mut last = output(&limits, &Wrench::ZERO, &first, 1.0).map_or(Wrench::ZERO, |g| g.wrench);
        for (wanted, gain) in wanted {
            let Ok(out) = output(&limits, &last, &wanted, gain) else {
                prop_assert!(!wanted.is_finite() || !gain.is_finite(), "only non-finite input is refused");
                last = Wrench::ZERO;
                continue;
            };
            prop_assert!(wanted.is_finite() && gain.is_finite());
            let w = out.wrench;
            prop_assert!(w.is_finite());
            prop_assert!(w.force.norm() <= limits.force(), "{} N", w.force.norm());
            prop_assert!(w.torque.norm() <= limits.torque(), "{} Nm", w.torque.norm());
            let steps = [limits.force_step(), limits.torque_step()];
            for (i, ((new, old), want)) in
                components(&w).iter().zip(components(&last)).zip(components(&wanted)).enumerate()
            {
                let step = steps[i / 3];
                let from = if (*new > 0.0) == (old > 0.0) { old.abs() } else { 0.0 };
                prop_assert!(new.abs() <= (from + step) * (1.0 + 1e-12), "{old} -> {new}, step {step}");
                prop_assert!(new.abs() <= want.abs() && (*new == 0.0 || (*new > 0.0) == (want > 0.0)), "never beyond the wanted");
            }
            last = w;
        }
    }

    #[test]
    fn a_decrease_towards_zero_is_never_slowed(
        limits in limits(), last in prop::array::uniform6(-1e3..1e3f64), part in prop::array::uniform6(0.0..1.0f64)
    ) {
        let last = wrench(last);
        let less = wrench(std::array::from_fn(|i| components(&last)[i] * part[i]));
        prop_assert_eq!(slew(&limits, &last, &less), less);
        prop_assert_eq!(slew(&limits, &last, &Wrench::ZERO), Wrench::ZERO);
    }

    #[test]
    fn saturation_keeps_the_direction_of_the_whole_wrench(
        c in prop::array::uniform6(-1e6..1e6f64), f in 1e-3..1e3f64, t in 1e-3..1e3f64
    ) {
        let wanted = wrench(c);
        let out = saturate(&Limits::new(f, t, 1.0, 1.0), &wanted);
        let k = (f / wanted.force.norm()).min(t / wanted.torque.norm()).min(1.0);
        for (o, w) in components(&out).iter().zip(components(&wanted)) {
            prop_assert!((o - k * w).abs() <= 1e-12 * w.abs(), "{o} {w} {k}");
        }
    }

    #[test]
    fn a_client_can_lower_limits_and_never_raise_them(own in limits(), force in wild(), torque in wild()) {
        let lower = own.lowered(force, torque);
        prop_assert!(lower.force() <= own.force() && lower.torque() <= own.torque());
        prop_assert!(lower.force() >= 0.0 && lower.torque() >= 0.0);
        if force >= 0.0 {
            prop_assert!(lower.force() <= force);
        }
    }

    #[test]
    fn the_ramp_stays_between_zero_and_one(moves in prop::collection::vec((any::<bool>(), wild(), wild()), 0..50)) {
        let mut ramp = Ramp::default();
        for (up, dt, over) in moves {
            if up { ramp.rise(dt, over) } else { ramp.fall(dt, over) }
            prop_assert!((0.0..=1.0).contains(&ramp.gain()));
        }
    }

    #[test]
    fn no_sample_panics_and_none_that_is_not_finite_passes(
        poses in prop::collection::vec((prop::array::uniform4(wild()), prop::array::uniform3(wild()), any::<u64>()), 1..20)
    ) {
        let limits = sample_limits();
        let mut watch = Watch::default();
        for (q, p, now) in poses {
            let rotation = Unit::new_unchecked(Quaternion::new(q[0], q[1], q[2], q[3]));
            let pose = Pose::from_parts(Translation3::new(p[0], p[1], p[2]), rotation);
            let verdict = watch.sample(&limits, &pose, now);
            if verdict == Verdict::Use {
                prop_assert!(p.iter().chain(&q).all(|c| c.is_finite()));
            }
            let twist = Twist { linear: Vec3::new(q[0], q[1], q[2]), angular: Vec3::new(p[0], p[1], p[2]) };
            let _ = watch.motion(&limits, &pose, &twist);
        }
    }
}

fn sample_limits() -> SampleLimits {
    SampleLimits { plausible: 2.0, plausible_angular: 20.0, speed: 1.0, angular_speed: 10.0, reach: 0.1 }
}

#[test]
fn a_ramp_takes_its_time_and_ends_at_exactly_zero() {
    let mut ramp = Ramp::default();
    let up = (1..).find(|_| {
        ramp.rise(1e-3, 0.3);
        ramp.gain() >= 1.0
    });
    let down = (1..).find(|_| {
        ramp.fall(1e-3, 0.03);
        ramp.gain() == 0.0
    });
    // 300 and 30 ticks, give or take the rounding of the last one.
    assert!(matches!((up, down), (Some(300..=301), Some(30..=31))), "{up:?} {down:?}");
}

#[test]
fn the_gate_wants_an_unbroken_row() {
    let mut gate = Gate::default();
    for _ in 0..49 {
        assert!(!gate.pass(true, 50));
    }
    assert!(!gate.pass(false, 50));
    for _ in 0..49 {
        assert!(!gate.pass(true, 50));
    }
    assert!(gate.pass(true, 50));
}

#[test]
fn one_wild_sample_is_held_over_and_three_are_a_jump() {
    let limits = sample_limits();
    let at = |x: f64| Pose::translation(x, 0.0, 0.0);
    let mut watch = Watch::default();
    assert_eq!(watch.sample(&limits, &at(0.0), 0), Verdict::Use);
    // 2 m/s x 1 ms x 1.5 + 2 mm = 5 mm may lie between two samples.
    assert_eq!(watch.sample(&limits, &at(0.0049), 1_000_000), Verdict::Use);
    assert_eq!(watch.sample(&limits, &at(0.05), 2_000_000), Verdict::Hold);
    assert_eq!(watch.sample(&limits, &at(0.005), 3_000_000), Verdict::Use);
    let verdicts = [4, 5, 6].map(|ms| watch.sample(&limits, &at(0.08), ms * 1_000_000));
    assert_eq!(verdicts, [Verdict::Hold, Verdict::Hold, Verdict::Jump]);
    let turned = Pose::from_parts(
        Translation3::new(0.005, 0.0, 0.0),
        UnitQuaternion::from_euler_angles(0.0, 1.0, 0.0),
    );
    let mut watch = Watch::default();
    assert_eq!(watch.sample(&limits, &at(0.005), 0), Verdict::Use);
    assert_eq!(watch.sample(&limits, &turned, 1_000_000), Verdict::Hold);
}

#[test]
fn speed_and_place_are_faults_after_three_ticks() {
    let limits = sample_limits();
    let fast = Twist { linear: Vec3::new(0.0, 1.1, 0.0), angular: Vec3::zeros() };
    let mut watch = Watch::default();
    let seen = [0; 3].map(|_| watch.motion(&limits, &Pose::identity(), &fast));
    assert_eq!(seen, [Seen::Fine, Seen::Fine, Seen::TooFast]);
    // Turning alone, and the two are counted together.
    let turns = Twist { linear: Vec3::zeros(), angular: Vec3::new(0.0, 0.0, -10.1) };
    watch.reset();
    let seen = [turns, fast, turns].map(|twist| watch.motion(&limits, &Pose::identity(), &twist));
    assert_eq!(seen, [Seen::Fine, Seen::Fine, Seen::TooFast]);
    watch.reset();
    let out = Pose::translation(0.0, 0.0, 0.11);
    let seen = [0; 3].map(|_| watch.motion(&limits, &out, &Twist::ZERO));
    assert_eq!(seen, [Seen::Fine, Seen::Fine, Seen::Outside]);
    let nan = Twist { linear: Vec3::new(f64::NAN, 0.0, 0.0), angular: Vec3::zeros() };
    let seen = [0; 3].map(|_| watch.motion(&limits, &Pose::identity(), &nan));
    assert_eq!(seen[2], Seen::TooFast, "an unreadable speed counts as too fast");
}

/// What is no rotation is no pose, however finite.
#[test]
fn a_quaternion_that_is_not_of_unit_length_is_no_number() {
    let turned = UnitQuaternion::from_scaled_axis(Vec3::new(0.3, -0.2, 0.5)).into_inner();
    for (length, verdict) in [
        (0.0, Verdict::NonFinite),
        (0.5, Verdict::NonFinite),
        (0.998, Verdict::NonFinite),
        (1.002, Verdict::NonFinite),
        (1.0 + 1e-6, Verdict::Use),
    ] {
        let pose = Pose::from_parts(Translation3::identity(), Unit::new_unchecked(turned * length));
        assert_eq!(Watch::default().sample(&sample_limits(), &pose, 0), verdict, "{length}");
    }
}

/// A first sample has none before it: one that no device can have is not taken all the same, and forces out no later one.
#[test]
fn a_first_sample_from_nowhere_is_not_taken() {
    let limits = sample_limits();
    for far in [1.01, 1e3, 1e150, 1e300, f64::MAX] {
        let mut watch = Watch::default();
        let astray = Pose::translation(0.0, -far, 0.0);
        let verdicts = [0, 1, 2].map(|ms| watch.sample(&limits, &astray, ms * 1_000_000));
        assert_eq!(verdicts, [Verdict::Hold, Verdict::Hold, Verdict::Jump], "{far}");
        watch.reset();
        assert_eq!(watch.sample(&limits, &astray, 3_000_000), Verdict::Hold);
        assert_eq!(watch.sample(&limits, &Pose::translation(0.0, 0.5, 0.0), 4_000_000), Verdict::Use);
    }
}
