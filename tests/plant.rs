//! Physics of the simulated device against closed forms.

use hapticd::device::Device;
use hapticd::device::profile::Profile;
use hapticd::device::simulated::{HandScript, Setup, SimulatedDevice};
use hapticd::geometry::pose::{Vec3, Wrench};
use std::sync::Arc;

const MS: u64 = 1_000_000;

fn ideal(change: impl FnOnce(&mut Profile)) -> Arc<Profile> {
    let text = include_str!("../devices/ideal-6dof.toml");
    let mut profile = Profile::parse("ideal-6dof.toml", text).expect("shipped profile");
    change(&mut profile);
    Arc::new(profile)
}

fn mass_and_damping(profile: &mut Profile, mass: f64, damping: f64) {
    use hapticd::device::dynamics::Inertia;
    if let Inertia::Ideal { mass: m, .. } = &mut profile.dynamics.inertia {
        *m = mass;
    }
    profile.dynamics.friction.viscous = [damping; 3];
}

/// A body in free fall under constant force follows x = F t^2 / 2m exactly.
#[test]
fn constant_force_gives_the_parabola() {
    let profile = ideal(|p| mass_and_damping(p, 0.1, 0.0));
    let mut device = SimulatedDevice::new(profile, Setup::default()).expect("device");
    let force = Wrench { force: Vec3::new(0.02, 0.0, -0.01), torque: Vec3::zeros() };
    device.read(0).expect("read");
    device.write(0, &force).expect("write");
    for k in 1..=100u64 {
        let s = device.read(k * MS).expect("read");
        let t = k as f64 * 1e-3;
        let want = force.force * (0.5 * t * t / 0.1);
        assert!((s.pose.translation.vector - want).norm() < 1e-12, "tick {k}");
        device.write(k * MS, &force).expect("write");
    }
}

/// A held device at rest away from the hand's target rings as the closed form of m x'' + b x' + k x = 0 says, and in
/// rotation as well.
#[test]
fn hand_rings_like_the_closed_form() {
    let script = HandScript::parse(
        r#"
        hand = { mass = 0.5, damping = 6.0, stiffness = 135.0, inertia = 0.001, rot_damping = 0.01, rot_stiffness = 0.3 }
        [[keyframe]]
        time = 0.0
        position = [0.0, 0.0, 0.0]
        "#,
    )
    .expect("script");
    let profile = ideal(|_| {});
    let mut device =
        SimulatedDevice::new(profile, Setup { hand: script, ..Setup::default() }).expect("device");
    device.set_motion(Vec3::new(0.1, 0.0, 0.0), Vec3::new(0.0, 2.0, 0.0));
    device.read(0).expect("read");
    let ring = |m: f64, b: f64, k: f64, v0: f64, t: f64| {
        let (decay, w2) = (b / (2.0 * m), k / m - b * b / (4.0 * m * m));
        let w = w2.sqrt();
        v0 / w * (-decay * t).exp() * (w * t).sin()
    };
    for k in 1..=500u64 {
        let s = device.read(k * MS).expect("read");
        let t = k as f64 * 1e-3;
        let x = ring(0.6, 6.1, 135.0, 0.1, t);
        assert!(
            (s.pose.translation.vector.x - x).abs() < 1e-12,
            "tick {k}: {} {x}",
            s.pose.translation.vector.x
        );
        let a = ring(1.1e-3, 1.01e-2, 0.3, 2.0, t);
        assert!((s.pose.rotation.scaled_axis().y - a).abs() < 1e-10, "tick {k}");
        device.write(k * MS, &Wrench::ZERO).expect("write");
    }
}
