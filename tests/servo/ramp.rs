//! How the force comes and goes around arming: softly, and better damped than what is held for good.

use crate::device::Puppet;
use crate::world::{Bench, floor, object, scene, sphere_tool};
use hapticd::geometry::{Pose, Vec3};
use hapticd::servo::handle::ServoConfig;
use hapticd::servo::record::ServoState;

/// N/m, m, s.
const STIFFNESS: f64 = 500.0;
const RADIUS: f64 = 0.01;
const TAU: f64 = 2e-3;

/// On its way up, by gain g, the force is g (K d - (2 - g) tau K v): g of the spring, and of the damper g (2 - g), as much as twice as
/// well damped as with the whole force and never more than it.
#[test]
fn the_ramp_up_and_down_is_damped_more() {
    let puppet = Puppet::new(Vec3::new(0.0, 0.05, 0.0));
    let config =
        ServoConfig { damping_time: Some(TAU), gate_force: 1e3, ramp_up: 0.5, ..ServoConfig::default() };
    let mut bench = Bench::new(Box::new(puppet.clone()), config);
    bench.publish(scene(1, &sphere_tool(RADIUS), vec![object(1, floor(), Pose::identity(), STIFFNESS)]));
    // About 2 mm deep, 0.5 mm up and down: up to 0.025 m/s, and never out.
    let mut at = 0.0f64;
    let mut step = |bench: &mut Bench| {
        at += 0.05;
        puppet.place(Vec3::new(0.0, RADIUS - 2e-3 + 0.5e-3 * at.sin(), 0.0));
        bench.step()
    };
    for _ in 0..100 {
        step(&mut bench);
    }
    bench.own();
    let (mut before, mut counts) = (0.0, [0; 2]);
    for k in 0..1500 {
        if k == 900 {
            bench.handle.disarm();
        }
        let r = step(&mut bench);
        // Who takes the force in contact has the contact fade in beside.
        let least = if k < 900 { 0.6 } else { 0.05 };
        if r.ramp > least && r.state == ServoState::Rendering {
            let easing = 2.0 - before;
            let expect = r.ramp * STIFFNESS * (r.depth - easing * TAU * r.velocity[1]);
            assert!((r.force[1] - expect).abs() < 1e-6, "tick {k}, gain {}: {} {expect}", r.ramp, r.force[1]);
            // The damper's own part tells it from one that is not eased.
            let plain = r.ramp * STIFFNESS * (r.depth - TAU * r.velocity[1]);
            counts[usize::from(k >= 900)] += i32::from((r.force[1] - plain).abs() > 1e-3);
        }
        before = r.ramp;
    }
    assert!(counts[0] > 100 && counts[1] > 10, "{counts:?}");
    assert_eq!(bench.last.state, ServoState::Idle);
}
