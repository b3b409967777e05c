use super::*;
use crate::device::simulated::FaultKind;

const FULL: &str = r#"
hand = "light"
let_go = 4.0
seed = 7
repeat = true
tremor = { amplitude = 0.0001, frequency = 9.0 }

[[keyframe]]
time = 0.0
position = [0.0, 0.0, 0.0]

[[keyframe]]
time = 1.0
position = [0.01, 0.0, -0.02]
orientation = [0.0, 0.7071067811865476, 0.0, 0.7071067811865476]

[[keyframe]]
time = 2.5
position = [0.0, 0.0, 0.0]
rotation_deg = [0.0, 0.0, 180.0]

[[fault]]
kind = "unplug"
at = 2.5

[[fault]]
kind = "spike"
at = 1.0
until = 1.001
size = 0.2
"#;

#[test]
fn everything_is_read() {
    let s = HandScript::parse(FULL).expect("parses");
    assert_eq!((s.hand, s.let_go, s.seed, s.repeat), (Hand::LIGHT, Some(4.0), 7, true));
    assert_eq!(s.keyframes.len(), 3);
    let turn = s.keyframes[1].pose.rotation.scaled_axis();
    assert!((turn - Vec3::new(0.0, std::f64::consts::FRAC_PI_2, 0.0)).norm() < 1e-12);
    assert!((s.keyframes[2].pose.rotation.angle() - std::f64::consts::PI).abs() < 1e-12);
    assert_eq!(s.faults.0[0], Fault::from(FaultKind::Unplug, 2.5));
    assert_eq!((s.faults.0[1].until, s.faults.0[1].size), (1.001, 0.2));
}

#[test]
fn an_empty_script_is_a_relaxed_hand_at_rest() {
    let s = HandScript::parse("").expect("parses");
    assert_eq!((s.hand, s.keyframes.len()), (Hand::NORMAL, 0));
}

#[test]
fn a_hand_of_one_s_own() {
    let s = HandScript::parse("hand = { mass = 0.2, damping = 3.0, stiffness = 50.0, rot_stiffness = 0.7 }")
        .expect("parses");
    assert_eq!((s.hand.mass, s.hand.rot_stiffness), (0.2, 0.7));
    assert!((s.hand.rot_damping - 3.0 * 0.0025).abs() < 1e-15, "the rest acts at 5 cm");
}

/// Each wrong script is refused at the right line with a word of help.
#[test]
fn errors_name_line_and_cure() {
    for (from, to, line, word) in [
        ("hand = \"light\"", "hand = \"strong\"", 2, "firm"),
        ("hand = \"light\"", "hand = { mass = -1.0, damping = 0.0, stiffness = 0.0 }", 2, "between"),
        ("hand = \"light\"", "hand = { mass = 1.0, damping = 0.0, stiffness = 0.0, color = 3 }", 2, "color"),
        ("let_go = 4.0", "let_go = nan", 3, "let_go"),
        ("seed = 7", "sed = 7", 4, "sed"),
        ("amplitude = 0.0001", "amplitude = 3.0", 6, "0.01 m"),
        ("time = 1.0", "time = 0.0", 12, "keyframe 2"),
        ("time = 1.0", "time = -1.0", 12, "keyframe 2"),
        ("time = 1.0", "time = inf", 12, "keyframe 2"),
        ("position = [0.01, 0.0, -0.02]", "position = [10.5, 0.0, -20.0]", 12, "metres"),
        ("position = [0.01, 0.0, -0.02]", "position = [nan, 0.0, -20.0]", 12, "metres"),
        ("0.0, 0.7071067811865476]", "0.0, 0.9]", 12, "length 1"),
        ("0.0, 0.7071067811865476]", "0.0, nan]", 12, "length 1"),
        ("rotation_deg = [0.0, 0.0, 180.0]", "rotation_deg = [0.0, 0.0, 1e9]", 17, "degrees"),
        (
            "rotation_deg = [0.0, 0.0, 180.0]",
            "orientation = [0.0, 0.0, 0.0, 1.0]\nrotation_deg = [0.0, 0.0, 0.0]",
            17,
            "not both",
        ),
        ("kind = \"unplug\"", "kind = \"explode\"", 23, "explode"),
        ("until = 1.001", "until = 0.5", 26, "until"),
    ] {
        let text = FULL.replacen(from, to, 1);
        assert_ne!(text, FULL, "{from}");
        let e = HandScript::parse_named("push.toml", &text).expect_err(to);
        assert_eq!(e.file, "push.toml");
        assert!(e.line == line || e.line == line + 1, "{to}: line {} instead of {line}: {e}", e.line);
        assert!(e.message.contains(word), "{to}: {e}");
    }
    let e = HandScript::parse("repeat = true").expect_err("one pose cannot repeat");
    assert!(e.message.contains("two keyframes"), "{e}");
}

#[test]
fn too_many_keyframes_are_refused() {
    let mut text = String::new();
    for k in 0..=MAX_KEYFRAMES {
        text.push_str(&format!("[[keyframe]]\ntime={}.0\nposition=[0.0,0.0,0.0]\n", k));
    }
    let e = HandScript::parse(&text).expect_err("too many");
    assert!(e.message.contains("at most"), "{e}");
}
