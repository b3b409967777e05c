use super::*;
use crate::device::simulated::HandScript;

fn path(text: &str) -> Path {
    Path::new(&HandScript::parse(text).expect("script"))
}

const ROUND: &str = "[[keyframe]]\ntime = 0.5\nposition = [0.0, 0.0, 0.0]\n\
    [[keyframe]]\ntime = 1.0\nposition = [0.03, -0.01, 0.02]\nrotation_deg = [30.0, 0.0, 40.0]\n\
    [[keyframe]]\ntime = 1.7\nposition = [-0.02, 0.02, 0.0]\nrotation_deg = [0.0, -60.0, 0.0]\n\
    [[keyframe]]\ntime = 2.0\nposition = [0.0, 0.0, 0.0]\n";

#[test]
fn keyframes_are_met_at_their_times() {
    let script = HandScript::parse(ROUND).expect("script");
    let mut p = Path::new(&script);
    for k in &script.keyframes {
        let t = p.at(k.time);
        assert!((t.position - k.pose.translation.vector).norm() < 1e-15);
        assert!(t.rotation.angle_to(&k.pose.rotation) < 1e-7);
        assert!(t.velocity.norm() < 1e-12 && t.acceleration.norm() < 1e-9, "keyframes are met at rest");
    }
    assert_eq!(p.at(0.0).position, p.at(0.5).position);
    assert_eq!(p.at(100.0).position, script.keyframes[3].pose.translation.vector);
}

/// Position is twice continuously differentiable, and velocity, acceleration, angular velocity are its derivatives;
/// with tremor and repetition as well.
#[test]
fn derivatives_are_those_of_the_path() {
    let text =
        format!("repeat = true\nseed = 3\ntremor = {{ amplitude = 0.0002, frequency = 9.0 }}\n{ROUND}");
    let mut p = path(&text);
    let h = 1e-5;
    for k in 0..6000 {
        let t = 0.0005 + 0.001 * f64::from(k);
        let (a, m, b) = (p.at(t - h), p.at(t), p.at(t + h));
        let v = (b.position - a.position) / (2.0 * h);
        assert!((v - m.velocity).norm() < 1e-6, "t {t}: {v:?} {:?}", m.velocity);
        let acc = (b.velocity - a.velocity) / (2.0 * h);
        assert!((acc - m.acceleration).norm() < 2e-3, "t {t}: {acc:?} {:?}", m.acceleration);
        let w = (b.rotation * a.rotation.inverse()).scaled_axis() / (2.0 * h);
        assert!((w - m.angular_velocity).norm() < 1e-5, "t {t}: {w:?} {:?}", m.angular_velocity);
        let alpha = (b.angular_velocity - a.angular_velocity) / (2.0 * h);
        assert!((alpha - m.angular_acceleration).norm() < 0.1, "t {t}");
    }
}

#[test]
fn the_cursor_does_not_matter() {
    let mut forwards = path(ROUND);
    let mut jumps = path(ROUND);
    for k in 0..2000u32 {
        let t = f64::from(k) * 1e-3;
        let _ = jumps.at(f64::from(k * 7919 % 2100) * 1e-3);
        assert_eq!(forwards.at(t), jumps.at(t));
    }
}
