//! Nothing builds up: contacts of a million N/m for a hundred thousand ticks and more.

use crate::device::Puppet;
use crate::grip::{slab, spheres};
use crate::world::{Bench, cube_tool, floor, norm, object, scene};
use hapticd::geometry::{Pose, Twist, Vec3, Wrench};
use hapticd::haptics::coupling::dynamic::{Body, Load, Spring, VirtualTool};
use hapticd::haptics::coupling::{Coupling, Law};
use hapticd::servo::handle::ServoConfig;
use hapticd::servo::record::ServoState;
use nalgebra::{Matrix6, UnitQuaternion};

/// A hand that dips, slides and tips, never twice the same.
fn way(t: f64) -> Pose {
    let at = Vec3::new(2e-3 * (3.1 * t).sin(), -1e-3 + 3e-3 * (7.3 * t).sin(), 2e-3 * (4.7 * t).cos());
    let turn = Vec3::new(0.1 * (2.3 * t).sin(), 0.2 * (1.1 * t).sin(), 0.1 * (5.9 * t).cos());
    Pose::from_parts(at.into(), UnitQuaternion::from_scaled_axis(turn))
}

/// A million ticks for each stiffness: a tool of 12 g, and, for a fifth of them, one without mass, that its device carries over a floor under one of its corners. The
/// spring never gives more than its stretch and damping are worth, and the corner is never farther in than the force presses it.
#[test]
fn a_virtual_tool_survives_a_million_ticks_of_every_stiffness() {
    const DT: f64 = 1e-3;
    let spring = Spring {
        stiffness: 4000.0,
        rot_stiffness: 10.0,
        damping: 3.0,
        rot_damping: 7.5e-3,
        max_force: 80.0,
        max_torque: 4.0,
        max_stretch: f64::INFINITY,
        max_turn: f64::INFINITY,
    };
    let corner = Vec3::new(0.01, -0.01, 0.01);
    for stiffness in [1e4, 1e5, 1e6] {
        for (mass, ticks) in [(0.012, 1_000_000), (0.0, 200_000)] {
            let body = Body { mass, radius: 0.017, lever: 0.0, fastest: 2.0 };
            let mut tool = VirtualTool { pose: way(0.0), twist: Twist::ZERO };
            let (mut pressed, mut most) = (0, 0.0f64);
            for k in 1..=ticks {
                let t = f64::from(k) * DT;
                let (target, before) = (way(t), way(t - DT));
                let motion = Twist {
                    linear: (target.translation.vector - before.translation.vector) / DT,
                    angular: (target.rotation * before.rotation.inverse()).scaled_axis() / DT,
                };
                let arm = tool.pose.rotation * corner;
                let depth = -(tool.pose.translation.vector + arm).y - 0.01;
                let mut load = Load {
                    wrench: Wrench::ZERO,
                    stiffness: Matrix6::zeros(),
                    damping: Matrix6::zeros(),
                    carried: Wrench::ZERO,
                };
                if depth > 0.0 {
                    let force = Vec3::y() * (stiffness * depth);
                    load.wrench = Wrench { force, torque: arm.cross(&force) };
                    let lever = arm.cross(&Vec3::y());
                    let row = nalgebra::Vector6::new(0.0, 1.0, 0.0, lever.x, lever.y, lever.z);
                    load.stiffness = row * row.transpose() * stiffness;
                    pressed += 1;
                }
                let felt = tool.step(&body, &spring, &target, &motion, &load, DT);
                let f = felt.force.norm();
                assert!(f.is_finite() && f <= 20.0, "{stiffness} {mass} {k}: {f} N");
                most = most.max(f);
            }
            println!("{stiffness} N/m, {mass} kg: {pressed} ticks pressed, {most:.2} N at most");
            assert!(pressed > ticks / 5 && most > 4.0, "{stiffness} {mass}: {pressed} {most}");
        }
    }
}

/// The same through the tick, with a cube of points and one of spheres.
#[test]
fn a_contact_of_a_million_newtons_a_metre_does_not_build_up_in_the_tick() {
    for (name, tool, shape) in [("points", cube_tool(400), floor()), ("spheres", spheres(400), slab())] {
        for (law, ticks) in [(Law::Dynamic, 40_000u32), (Law::Static, 10_000)] {
            let puppet = Puppet::new(Vec3::new(0.0, 0.02, 0.0));
            let coupling = Coupling { law, ..Coupling::default() };
            let mut bench =
                Bench::new(Box::new(puppet.clone()), ServoConfig { coupling, ..ServoConfig::default() });
            bench.publish(scene(1, &tool, vec![object(1, shape.clone(), Pose::identity(), 1e6)]));
            bench.arm();
            let from = puppet.get().pose;
            // The most in the first five seconds, of which one is the way to where it begins, and in the rest.
            let (mut early, mut late, mut touched) = (0.0f64, 0.0f64, 0);
            for k in 0..ticks {
                let t = f64::from(k) * 1e-3;
                let part = t.min(1.0);
                let to = Pose::translation(0.0, 0.012, 0.0) * way(t);
                puppet.with(|s| s.pose = from.lerp_slerp(&to, part));
                let r = bench.step();
                assert_eq!(r.state, ServoState::Rendering, "{name} {law:?} {k}: {:?}", r.fault);
                let most = if k < 5000 { &mut early } else { &mut late };
                *most = most.max(norm(r.force));
                touched += u32::from(r.touched > 0);
            }
            println!("{name} {law:?}: {early:.3} N early, {late:.3} N later, {touched} ticks touched");
            assert!(
                touched > ticks / 4 && early > 4.0 && late <= 1.1 * early,
                "{name} {law:?}: {early} {late}"
            );
        }
    }
}
