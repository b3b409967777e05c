use super::*;
use crate::device::registry::Registry;

const IDEAL: &str = include_str!("../../../../devices/ideal-6dof.toml");
const WOODEN: &str = include_str!("../../../../devices/woodenhaptics-v2015.toml");
const FALCON: &str = include_str!("../../../../devices/novint-falcon.toml");

fn changed(text: &str, from: &str, to: &str) -> ProfileError {
    let text = text.replacen(from, to, 1);
    match parse("x.toml", &text) {
        Ok(_) => panic!("{from:?} -> {to:?} was accepted"),
        Err(e) => e,
    }
}

fn line_of(text: &str, part: &str) -> usize {
    text.lines().position(|l| l.contains(part)).expect("a line") + 1
}

#[test]
fn shipped_profiles_are_sound() {
    for p in Registry::builtin().profiles() {
        // An input device has no force.
        let pushes = p.actuated[..3].iter().any(|a| *a);
        assert_eq!((p.max_force > 0.0, p.max_stiffness > 0.0), (pushes, pushes), "{}", p.name);
        assert!(p.max_velocity > 0.0, "{}", p.name);
        assert!(p.sources.len() >= 20 && p.sources.iter().all(|(_, s)| s.len() > 3), "{}", p.name);
        let driven = p.actuated[3..].iter().any(|a| *a);
        assert_eq!(driven, p.max_torque > 0.0, "{}", p.name);
        assert_eq!(p.workspace_radius, p.workspace.inscribed_radius());
    }
}

/// The file's own numbers arrive where they belong.
#[test]
fn falcon_constants_arrive() {
    let p = parse("novint-falcon.toml", FALCON).expect("parses");
    let Kinematics::Delta(d) = p.kinematics else { panic!("a delta") };
    assert_eq!((d.a, d.b, d.de, d.lateral), (0.060, 0.1025, 0.0225, -0.00191));
    assert!((d.radial - (0.01443 - 0.040)).abs() < 1e-15);
    let m = p.motors.expect("motors");
    assert_eq!(m.max_code, 4096);
    assert!((m.torque_per_code[0] - 1.9835e-5 * 7.72).abs() < 1e-12);
    // A turn of a motor, by the gear ratio.
    let e = p.encoders.expect("encoders");
    let turned = e.angles(&[1280, 0, -2560]) - Vec3::from(e.offset);
    let turn = std::f64::consts::TAU / 7.72;
    assert!((turned - Vec3::new(turn, 0.0, -2.0 * turn)).amax() < 1e-12, "{turned}");
    assert_eq!(p.torque_hold, None);
    assert!(p.sources.iter().any(|(k, s)| k == "encoders.counts_per_turn" && s.contains("320 slots")));
}

/// Cavusoglu's closed form for the mass matrix, written out as in the paper, against the coefficients.
#[test]
fn premium_mass_matrix_is_that_of_the_paper() {
    let p = Registry::builtin().profile("phantom-premium-1.5").expect("shipped");
    let Kinematics::Serial3R(s) = p.kinematics else { panic!("serial") };
    let (l1, l2, l3) = (s.l1, s.l2, 0.0325);
    let (ma, mc) = (0.0202, 0.0249);
    let (iaxx, iayy, iazz) = (0.4864e-4, 0.001843e-4, 0.4864e-4);
    let (icxx, icyy, iczz) = (0.959e-4, 0.959e-4, 0.0051e-4);
    let (ibexx, ibeyy, ibezz) = (11.09e-4, 10.06e-4, 0.591e-4);
    let (idfxx, idfyy, idfzz) = (7.11e-4, 0.629e-4, 6.246e-4);
    let ibase = 11.87e-4;
    let rotor = |ratio: f64| 1.08e-6 * ratio * ratio;
    for (q2, q3) in [(0.0f64, 1.2f64), (0.4, 0.9), (-0.6, 0.1)] {
        let m11 = 0.125
            * (4.0 * iayy
                + 4.0 * iazz
                + 8.0 * ibase
                + 4.0 * ibeyy
                + 4.0 * ibezz
                + 4.0 * icyy
                + 4.0 * iczz
                + 4.0 * idfyy
                + 4.0 * idfzz
                + 4.0 * l1 * l1 * ma
                + l2 * l2 * ma
                + l1 * l1 * mc
                + 4.0 * l3 * l3 * mc)
            + 0.125
                * (4.0 * ibeyy - 4.0 * ibezz + 4.0 * icyy - 4.0 * iczz + l1 * l1 * (4.0 * ma + mc))
                * (2.0 * q2).cos()
            + 0.125
                * (4.0 * iayy - 4.0 * iazz + 4.0 * idfyy - 4.0 * idfzz - l2 * l2 * ma - 4.0 * l3 * l3 * mc)
                * (2.0 * q3).cos()
            + l1 * (l2 * ma + l3 * mc) * q2.cos() * q3.sin();
        let m22 = 0.25 * (4.0 * (ibexx + icxx + l1 * l1 * ma) + l1 * l1 * mc);
        let m23 = -0.5 * l1 * (l2 * ma + l3 * mc) * (q2 - q3).sin();
        let m33 = 0.25 * (4.0 * iaxx + 4.0 * idfxx + l2 * l2 * ma + 4.0 * l3 * l3 * mc);
        let q = Vec3::new(0.3, q2, q3);
        let m = p.dynamics.mass_matrix(&q, &Matrix3::identity());
        let want = Matrix3::new(
            m11 + rotor(13.3),
            0.0,
            0.0,
            0.0,
            m22 + rotor(11.2),
            m23,
            0.0,
            m23,
            m33 + rotor(11.2),
        );
        assert!((m - want).amax() < 1e-12, "{m} {want}");
    }
    // The published apparent mass at the tip, 0.03 to 0.12 kg by pose and direction, in the middle of the workspace; the
    // rotors add up to 0.02 kg.
    let q = p.kinematics.inverse(&Vec3::zeros()).expect("centre");
    let j = p.kinematics.state(&q, None).expect("regular").jacobian;
    let inverse = j.try_inverse().expect("regular");
    let apparent = (inverse.transpose() * p.dynamics.mass_matrix(&q, &j) * inverse).symmetric_eigenvalues();
    assert!(apparent.min() > 0.03 && apparent.max() < 0.14, "{apparent}");
}

#[test]
fn errors_name_file_line_and_key() {
    let e = changed(IDEAL, "max_damping =", "max_dumping =");
    assert_eq!((e.file.as_str(), e.line), ("x.toml", line_of(IDEAL, "max_damping =")));
    assert!(e.message.contains("max_dumping"), "{e}");

    let e = changed(IDEAL, "[transport]", "[transport]\nspeed = 3");
    assert!(e.message.contains("speed") && e.line == line_of(IDEAL, "[transport]") + 1, "{e}");

    let e = changed(IDEAL, "max_force = { value = 20.0", "max_force = { value = -20.0");
    assert!(e.message.contains("limits.max_force") && e.message.contains("-20"), "{e}");
    assert_eq!(e.line, line_of(IDEAL, "max_force ="));

    for bad in ["nan", "inf", "1e300"] {
        let e =
            changed(IDEAL, "max_stiffness = { value = 4000.0", &format!("max_stiffness = {{ value = {bad}"));
        assert!(e.message.contains("limits.max_stiffness"), "{e}");
    }

    let e = changed(IDEAL, "mass = { value = 0.1", "mass = { value = \"0.1\"");
    assert!(e.line == line_of(IDEAL, "mass = { value = 0.1"), "{e}");
}

#[test]
fn a_number_without_a_source_is_refused() {
    let e = changed(
        FALCON,
        "d = { value = 0.01125, source = \"libnifalcon include/falcon/core/FalconGeometry.h\" }",
        "d = { value = 0.01125 }",
    );
    assert!(e.message.contains("source"), "{e}");
    let e = changed(
        FALCON,
        "d = { value = 0.01125, source = \"libnifalcon include/falcon/core/FalconGeometry.h\" }",
        "d = { value = 0.01125, source = \" \" }",
    );
    assert!(e.message.contains("`delta.d`") && e.message.contains("source"), "{e}");
    assert_eq!(e.line, line_of(FALCON, "d = { value = 0.01125"));
    let e = changed(IDEAL, "max_torque = { value = 1.0, source = ", "max_torque = 1.0 #");
    assert_eq!(e.line, line_of(IDEAL, "max_torque ="));
}

#[test]
fn contradictions_are_refused() {
    assert!(
        changed(FALCON, "kinematics = \"delta\"", "kinematics = \"hexapod\"").message.contains("hexapod")
    );
    assert!(changed(FALCON, "kinematics = \"delta\"", "kinematics = \"ideal\"").message.contains("delta"));
    assert!(changed(IDEAL, "kinematics = \"ideal\"", "kinematics = \"delta\"").message.contains("delta"));
    assert!(changed(IDEAL, "shape = \"ball\"", "shape = \"box\"").message.contains("radius"));
    assert!(changed(IDEAL, "name = \"ideal-6dof\"", "name = \"../x\"").message.contains("name"));
    let e = changed(FALCON, "stiction = { value = [0.013, 0.013", "stiction = { value = [0.013, 0.003");
    assert!(e.message.contains("stiction"), "{e}");
    let e = changed(IDEAL, "viscous = { value = [0.1, 0.1, 0.1]", "viscous = { value = [0.1, 0.2, 0.1]");
    assert!(e.message.contains("viscous"), "{e}");
    assert!(changed(FALCON, "bits = { value = 16", "bits = { value = 8").message.contains("bits"));
    for preset in ["[40000, 0, 6000]", "[0, -32768, 6000]", "[0, 0, 2147483647]", "[0, 0, -2147483648]"] {
        let e = changed(WOODEN, "preset = { value = [0, 0, 6000]", &format!("preset = {{ value = {preset}"));
        assert!(e.message.contains("`encoders.preset`") && e.message.contains("16 bits"), "{e}");
        assert_eq!(e.line, line_of(WOODEN, "preset ="));
    }
    assert!(
        changed(IDEAL, "read_delay = { value = 0", "read_delay = { value = 99")
            .message
            .contains("read_delay")
    );
}

/// Cut anywhere, a profile is refused or read, never a panic.
#[test]
fn truncated_files_do_no_harm() {
    for cut in (0..FALCON.len()).step_by(37).filter(|c| FALCON.is_char_boundary(*c)) {
        let _ = parse("cut.toml", &FALCON[..cut]);
    }
}

/// What the guards keep is a share, with a source; a file that says nothing of it has measured nothing.
#[test]
fn shares_that_guards_keep_are_numbers_or_nothing() {
    for (key, value) in [("controller", "1.0"), ("certified", "0.05")] {
        let from = format!("{key} = {{ value = {value}");
        for bad in ["-0.1", "11.0", "nan"] {
            let e = changed(IDEAL, &from, &format!("{key} = {{ value = {bad}"));
            assert!(e.message.contains(&format!("`kept.{key}`")), "{e}");
            assert_eq!(e.line, line_of(IDEAL, &from), "{e}");
        }
    }
    let stated = parse("x.toml", IDEAL).expect("parses").kept;
    assert!(stated.controller > 0.0 && stated.certified > 0.0, "{stated:?}");
    let start = IDEAL.find("[kept]").expect("a section");
    let end = start + IDEAL[start..].find("[stops]").expect("a section");
    let without = [&IDEAL[..start], &IDEAL[end..]].concat();
    assert_eq!(parse("x.toml", &without).expect("parses").kept, super::super::Kept::default());
}
