use super::*;
use crate::device::actuators;
use crate::device::profile::{Profile, Workspace};
use crate::device::registry::Registry;
use crate::geometry::pose::Wrench;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::sync::Arc;

fn unit(rng: &mut Pcg64Mcg) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Points of the workspace: its whole surface (corners included) and its inside.
fn points(profile: &Profile, n: usize) -> Vec<Vec3> {
    let mut rng = Pcg64Mcg::seed_from_u64(7);
    let mut out = Vec::new();
    for k in 0..n {
        let mut p = Vec3::from_fn(|_, _| 2.0 * unit(&mut rng) - 1.0);
        match profile.workspace {
            Workspace::Ball { radius } => {
                let r = if k % 2 == 0 { radius } else { radius * unit(&mut rng).cbrt() };
                p = p.normalize() * r;
            }
            Workspace::Box { half } => {
                if k % 2 == 0 {
                    let axis = k / 2 % 3;
                    p[axis] = p[axis].signum();
                }
                if k < 8 {
                    p = Vec3::from_fn(|i, _| if k >> i & 1 == 0 { -1.0 } else { 1.0 });
                }
                p = p.component_mul(&Vec3::from(half));
            }
        }
        out.push(p);
    }
    out
}

fn linkages() -> Vec<Arc<Profile>> {
    let registry = Registry::builtin();
    let all: Vec<_> =
        registry.profiles().iter().filter(|p| p.kinematics != Kinematics::Ideal).cloned().collect();
    assert_eq!(all.len(), 7);
    all
}

/// Every point of every shipped workspace is in reach, within the joint limits, and FK(IK(x)) = x; the solver's hint
/// does not matter.
#[test]
fn forward_undoes_inverse_over_the_workspace() {
    for profile in linkages() {
        let k = &profile.kinematics;
        for p in points(&profile, 4000) {
            let q = k.inverse(&p).unwrap_or_else(|| panic!("{}: {p:?} out of reach", profile.name));
            let (min, max) = k.limits(&q);
            for i in 0..3 {
                assert!(
                    q[i] >= min[i] && q[i] <= max[i],
                    "{}: {p:?}: joint {i} = {} beyond {} .. {}",
                    profile.name,
                    q[i],
                    min[i],
                    max[i]
                );
            }
            let x = k.forward(&q, None).expect("closes");
            assert!((x - p).norm() < 1e-9, "{}: {p:?} {x:?}", profile.name);
            let hint = p + Vec3::new(0.01, -0.01, 0.005);
            let y = k.forward(&q, Some(&hint)).expect("closes");
            assert!((y - x).norm() < 1e-13, "{}: {p:?}", profile.name);
        }
    }
}

/// J against central differences of FK. What the motors are told for a wanted force does the work, along a small motion of the joints, that the force it is
/// said to amount to does along the tool's way, by FK alone: tau . dq = F . dx.
#[test]
fn jacobian_matches_differences_and_power_balances() {
    let mut rng = Pcg64Mcg::seed_from_u64(3);
    for profile in linkages() {
        let k = &profile.kinematics;
        for p in points(&profile, 500) {
            let q = k.inverse(&p).expect("in reach");
            let state = k.state(&q, None).expect("closes");
            let h = 1e-5;
            for i in 0..3 {
                let mut dq = Vec3::zeros();
                dq[i] = h;
                let a = k.forward(&(q + dq), None).expect("closes");
                let b = k.forward(&(q - dq), None).expect("closes");
                let column = (a - b) / (2.0 * h);
                let error = (column - state.jacobian.column(i)).norm();
                // Central differences are off by h^2/6 times the third derivative, which grows near the delta's
                // straight-arm edge.
                assert!(error < 1e-6 * (1.0 + column.norm()), "{}: {p:?} joint {i}: {error}", profile.name);
            }
            let wanted = Wrench { force: Vec3::from_fn(|_, _| unit(&mut rng) - 0.5), torque: Vec3::zeros() };
            let w = Vec3::from_fn(|_, _| unit(&mut rng) - 0.5);
            let dx = k.forward(&(q + w * h), None).expect("closes")
                - k.forward(&(q - w * h), None).expect("closes");
            let (command, _) = actuators::command(&profile, &[q.x, q.y, q.z, 0.0, 0.0, 0.0], &wanted);
            let (motors, tool) = (command.torque.dot(&w), command.wrench.force.dot(&dx) / (2.0 * h));
            assert!(
                (motors - tool).abs() < 1e-6 * (1.0 + dx.norm() / h),
                "{}: {motors} {tool} W",
                profile.name
            );
            // And it is what was wanted, to the motors' codes.
            let off = (command.wrench.force - wanted.force).norm();
            assert!(off < 0.2 && command.wrench.force.dot(&wanted.force) > 0.0, "{}: {off} N", profile.name);
        }
    }
}

/// Jdot w against differences of J w along the motion.
#[test]
fn acceleration_bias_matches_differences() {
    let w = Vec3::new(1.3, -0.8, 0.6);
    for profile in linkages() {
        let k = &profile.kinematics;
        for p in points(&profile, 200) {
            let q = k.inverse(&(p * 0.9)).expect("in reach");
            let (_, bias) = k.motion(&q, &w, None).expect("closes");
            let h = 1e-5;
            let a = k.state(&(q + w * h), None).expect("closes").jacobian * w;
            let b = k.state(&(q - w * h), None).expect("closes").jacobian * w;
            let want = (a - b) / (2.0 * h);
            assert!(
                (bias - want).norm() < 1e-5 * (1.0 + want.norm()),
                "{}: {p:?} {bias:?} {want:?}",
                profile.name
            );
        }
    }
}

/// The Falcon's own numbers (libnifalcon's geometry, on the axis): arm angle, mm/rad across and along, um a count, and
/// force at code 4096, as worked out independently from the published constants.
#[test]
fn falcon_table() {
    let profile = Registry::builtin().profile("novint-falcon").expect("shipped");
    let Kinematics::Delta(d) = profile.kinematics else { panic!("a delta") };
    let count = profile.encoders.expect("encoders").radians_per_count[0];
    assert!((count - 6.36e-4).abs() < 0.005e-4);
    for (z, arm, across, along, um_across, um_along, n_across, n_along) in [
        (0.11, 16.0, 66.0, 42.0, 42.0, 27.0, 11.7, 25.6),
        (0.13, 31.0, 79.0, 44.0, 50.0, 28.0, 9.8, 24.6),
        (0.15, 47.0, 89.0, 39.0, 57.0, 25.0, 8.7, 27.2),
    ] {
        let p = Vec3::new(0.0, 0.0, z);
        let q = d.inverse(&p).expect("in reach");
        let j = d.jacobian(&q, &p).expect("regular");
        // Gains: |dp| / |dq| for a motion across and along the axis.
        let g = j.try_inverse().expect("regular");
        let (gx, gz) = (1.0 / g.column(0).norm(), 1.0 / g.column(2).norm());
        assert!((q[0].to_degrees() - arm).abs() <= 0.6, "arm {}", q[0].to_degrees());
        assert!((gx * 1e3 - across).abs() <= 0.6, "across {gx}");
        assert!((gz * 1e3 - along).abs() <= 0.6, "along {gz}");
        assert!((gx * count * 1e6 - um_across).abs() <= 0.6);
        assert!((gz * count * 1e6 - um_along).abs() <= 0.6);
        // 1.51e-4 N m a code at the arm is the table's constant.
        let tau = 4096.0 * 1.51e-4;
        let max = |axis: usize| tau / j.row(axis).amax();
        assert!((max(0) - n_across).abs() / n_across < 0.01, "N across {}", max(0));
        assert!((max(2) - n_along).abs() / n_along < 0.01, "N along {}", max(2));
    }
}

/// haptikfabrikenapi's equations for WoodenHaptics, with its own angles A, B, C (src/kinematics.cpp), against the profile: the
/// position, the counts of the calibration pose, and the motor currents for a force, code by code.
#[test]
fn woodenhaptics_match_their_published_equations() {
    let mut rng = Pcg64Mcg::seed_from_u64(9);
    // Name, La, Lb, Lc, workspace origin, gear ratios, counts a turn, torque constants.
    type Row = (&'static str, [f64; 3], [f64; 3], [f64; 3], f64, [f64; 3]);
    let rows: [Row; 3] = [
        (
            "woodenhaptics-v2015",
            [0.080, 0.205, 0.245],
            [0.22, 0.0, 0.08],
            [16.0, 12.0, 12.0],
            2000.0,
            [0.0259; 3],
        ),
        (
            "woodenhaptics-v2019",
            [0.080, 0.205, 0.245],
            [0.22, 0.0, 0.08],
            [16.0, 12.0, 12.0],
            2000.0,
            [0.321, 0.0603, 0.0603],
        ),
        (
            "woodenhaptics-vintage",
            [0.056, 0.138, 0.112],
            [0.14, 0.0, 0.0],
            [9.0, 7.7, 7.7],
            4000.0,
            [0.0163; 3],
        ),
    ];
    for (name, [la, lb, lc], origin, ratio, cpr, kt) in rows {
        let profile = Registry::builtin().profile(name).expect("shipped");
        let (encoders, motors) = (profile.encoders.expect("encoders"), profile.motors.expect("motors"));
        for p in points(&profile, 500) {
            let q = profile.kinematics.inverse(&p).expect("in reach");
            let counts: [f64; 3] =
                std::array::from_fn(|i| (q[i] - encoders.offset[i]) / encoders.radians_per_count[i]);
            let [a, b, c]: [f64; 3] =
                std::array::from_fn(|i| std::f64::consts::TAU * counts[i] / cpr / ratio[i]);
            let r = lb * b.sin() + lc * c.sin();
            let at = [
                a.cos() * r - origin[0],
                a.sin() * r - origin[1],
                la + lb * b.cos() - lc * c.cos() - origin[2],
            ];
            // Theirs: x to the user, y right, z up. Ours: x right, y up, z to the user.
            assert!((Vec3::new(at[1], at[2], at[0]) - p).norm() < 1e-12, "{name} {p:?}");
            let f = Vec3::from_fn(|_, _| 0.4 * (unit(&mut rng) - 0.5));
            let (fx, fy, fz) = (f.z, f.x, f.y);
            let torque = [
                -a.sin() * r * fx + a.cos() * r * fy,
                lb * a.cos() * b.cos() * fx + lb * a.sin() * b.cos() * fy - lb * b.sin() * fz,
                lc * a.cos() * c.cos() * fx + lc * a.sin() * c.cos() * fy + lc * c.sin() * fz,
            ];
            let joints = [q.x, q.y, q.z, 0.0, 0.0, 0.0];
            let wrench = crate::geometry::pose::Wrench { force: f, torque: Vec3::zeros() };
            let (command, scaled) = crate::device::actuators::command(&profile, &joints, &wrench);
            assert!(!scaled && motors.max_code == 2000);
            for i in 0..3 {
                let milliamperes = 1000.0 * torque[i] / ratio[i] / kt[i];
                assert!((f64::from(command.codes[i]) - milliamperes).abs() <= 0.5 + 1e-9, "{name} motor {i}");
            }
        }
    }
    let v2015 =
        Registry::builtin().profile("woodenhaptics-v2015").expect("shipped").encoders.expect("encoders");
    // 6000 counts of body c are a right angle.
    assert_eq!(v2015.preset, [0, 0, 6000]);
    assert!((6000.0 * v2015.radians_per_count[2] - std::f64::consts::FRAC_PI_2).abs() < 1e-12);
    // 10 / 120 of a turn in 2000 counts at 0.245 m: about 64 um, as derived from the sources.
    assert!((v2015.radians_per_count[2] * 0.245 * 1e6 - 64.0).abs() < 0.6);
}

/// Where arms cannot meet there is no answer, and no number that is none.
#[test]
fn unreachable_points_have_no_answer() {
    for profile in linkages() {
        for p in [
            Vec3::repeat(1.0),
            Vec3::new(0.0, 0.0, -5.0),
            Vec3::repeat(f64::NAN),
            Vec3::repeat(f64::INFINITY),
        ] {
            assert!(profile.kinematics.inverse(&p).is_none(), "{} {p:?}", profile.name);
        }
        if let Kinematics::Delta(_) = profile.kinematics {
            for q in [Vec3::repeat(f64::NAN), Vec3::new(3.0, -1.0, 0.0)] {
                if let Some(x) = profile.kinematics.forward(&q, None) {
                    assert!(x.iter().all(|v| v.is_finite()));
                }
            }
        }
    }
}

#[test]
fn gimbal_angles_come_back() {
    let mut rng = Pcg64Mcg::seed_from_u64(5);
    for _ in 0..1000 {
        let a = [3.0, 1.5, 3.0].map(|m| m * (2.0 * unit(&mut rng) - 1.0));
        let b = gimbal::angles(&gimbal::rotation(&a));
        for i in 0..3 {
            assert!((a[i] - b[i]).abs() < 1e-12, "{a:?} {b:?}");
        }
    }
    let lock = gimbal::rotation(&[0.3, std::f64::consts::FRAC_PI_2, 0.0]);
    assert!(gimbal::rotation(&gimbal::angles(&lock)).angle_to(&lock) < 1e-6);
}
