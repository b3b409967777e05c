//! The dynamic coupling in the whole servo: what is felt at rest, and that arming, clutch, tool changes and new objects keep
//! their rules with a virtual tool in between.

use crate::device::Puppet;
use crate::stability::{Holds, Laid, Lies, POINTS, laid, press_by};
use crate::world::{Bench, ball, cube_tool, floor, norm, object, scene, sphere_tool};
use hapticd::geometry::{Pose, Vec3};
use hapticd::haptics::coupling::{Coupling, Law, Preset};
use hapticd::servo::handle::{ServoCommand, ServoConfig};
use hapticd::servo::record::{ServoState, TickRecord, ZeroReason};

fn config() -> ServoConfig {
    ServoConfig { coupling: Coupling { law: Law::Dynamic, ..Coupling::default() }, ..ServoConfig::default() }
}

/// A ball of 1 cm over a floor of this stiffness.
fn over_floor(stiffness: f64, config: ServoConfig) -> (Bench, Puppet) {
    let puppet = Puppet::new(Vec3::new(0.0, 0.012, 0.0));
    let mut bench = Bench::new(Box::new(puppet.clone()), config);
    bench.publish(scene(1, &sphere_tool(0.01), vec![object(1, floor(), Pose::identity(), stiffness)]));
    (bench, puppet)
}

/// Lowers the device at 0.1 m/s and waits until nothing moves any more.
fn press(bench: &mut Bench, puppet: &Puppet, to: f64) -> TickRecord {
    let mut y = puppet.get().pose.translation.vector.y;
    while (y - to).abs() > 1e-9 {
        y += (to - y).clamp(-1e-4, 1e-4);
        puppet.with(|s| s.pose.translation.vector.y = y);
        bench.step();
    }
    bench.steps(500)
}

#[test]
fn at_rest_both_stiffnesses_are_felt_in_series() {
    for (preset, part) in [(Preset::Soft, 1.0 / 3.0), (Preset::Normal, 1.0), (Preset::Crisp, 1.0)] {
        for stiffness in [300.0, 4000.0, 1e5, 1e6] {
            let coupling = Coupling { law: Law::Dynamic, preset, ..Coupling::default() };
            let (mut bench, puppet) =
                over_floor(stiffness, ServoConfig { coupling, ..ServoConfig::default() });
            bench.arm();
            let r = press(&mut bench, &puppet, 0.009);
            // The ideal device: 4000 N/m, and a spring that saturates at four times its 20 N.
            let (f, spring) = (r.force[1], 4000.0 * part);
            let depth = f / stiffness + f / (spring * (1.0 - f / 80.0));
            assert!((depth - 1e-3).abs() < 2e-6, "{preset:?} {stiffness}: {f} N at {depth} m");
            assert!(f <= spring * stiffness / (spring + stiffness) * 1e-3);
            // The tool itself is where the contact stops it.
            assert!((0.01 - r.position[1] - f / stiffness).abs() < 1e-6, "{:?}", r.position);
            assert_eq!(r.cap, 1.0);
        }
    }
}

#[test]
fn nobody_holds_the_force_and_the_tool_is_where_the_device_is() {
    let (mut bench, puppet) = over_floor(1000.0, config());
    bench.steps(3);
    let r = press(&mut bench, &puppet, 0.008);
    assert!((r.position[1] - 0.008).abs() < 1e-12);
    assert!((r.depth - 2e-3).abs() < 1e-5, "{}", r.depth);
    // Armed inside the floor: the virtual tool is pushed out, what is wanted is not small, the gate stays shut.
    bench.command(ServoCommand::Arm { session: 1 }).expect("arms");
    bench.command(ServoCommand::Lease { until_ns: u64::MAX }).expect("leases");
    for _ in 0..500 {
        let r = bench.step();
        assert_eq!((norm(r.force), r.state, r.zero), (0.0, ServoState::Armed, ZeroReason::ArmingGate));
    }
    // Out of it, it opens.
    press(&mut bench, &puppet, 0.012);
    assert_eq!(bench.last.state, ServoState::Rendering);
}

/// Largest growth of the force from tick to tick, and the largest force, over some ticks.
fn watch(bench: &mut Bench, ticks: usize) -> (f64, f64) {
    let (mut growth, mut most, mut before) = (0.0f64, 0.0f64, norm(bench.last.force));
    for _ in 0..ticks {
        let now = norm(bench.step().force);
        growth = growth.max(now - before);
        most = most.max(now);
        before = now;
    }
    (growth, most)
}

#[test]
fn the_clutch_takes_the_force_away_and_gives_it_back_through_the_ramp() {
    let (mut bench, puppet) = over_floor(1000.0, config());
    bench.arm();
    let pressed = norm(press(&mut bench, &puppet, 0.007).force);
    assert!(pressed > 1.0);
    bench.command(ServoCommand::Clutch { held: true }).expect("holds");
    let (growth, _) = watch(&mut bench, 50);
    assert!(growth <= 1e-9 && norm(bench.last.force) == 0.0, "{growth}");
    bench.command(ServoCommand::Clutch { held: false }).expect("lets go");
    // 0.3 s up to the same force.
    let (growth, most) = watch(&mut bench, 400);
    assert!(growth < 0.02 * pressed && most < 1.01 * pressed, "{growth} {most}");
    assert!(norm(bench.last.force) > 0.9 * pressed);
}

#[test]
fn another_tool_goes_through_the_gate() {
    let (mut bench, puppet) = over_floor(1000.0, config());
    bench.arm();
    let pressed = norm(press(&mut bench, &puppet, 0.008).force);
    bench.publish(scene(2, &cube_tool(500), vec![object(1, floor(), Pose::identity(), 1e5)]));
    let (growth, most) = watch(&mut bench, 300);
    assert!(growth <= 1e-9 && most <= pressed, "it only fades: {growth} {most}");
    assert_eq!((norm(bench.last.force), bench.last.state), (0.0, ServoState::Armed));
    press(&mut bench, &puppet, 0.013);
    assert_eq!(bench.last.state, ServoState::Rendering);
}

#[test]
fn a_hard_object_put_over_the_tool_fades_in() {
    let (mut bench, _puppet) = over_floor(1000.0, config());
    bench.arm();
    let place = Pose::translation(0.0, -0.005, 0.0);
    let around = object(2, ball(), place, 1e5);
    bench.publish(scene(2, &sphere_tool(0.01), vec![object(1, floor(), Pose::identity(), 1000.0), around]));
    // 13 mm deep: through 4000 N/m in one tick it would be 50 N.
    let (growth, _) = watch(&mut bench, 100);
    assert!(growth < 2.0 + 1e-9, "no faster than the slew limit: {growth}");
    let (early, late) = (norm(bench.last.force), watch(&mut bench, 500).1);
    assert!(late > 1.0 && early <= late, "{early} {late}");
    assert_ne!(bench.last.state, ServoState::Fault);
}

#[test]
fn equal_runs_have_equal_bits() {
    let run = || {
        let (mut bench, puppet) = over_floor(1e6, config());
        bench.arm();
        (0..500)
            .map(|k| {
                let y = 0.01 + 2e-3 * (0.03 * f64::from(k)).cos();
                puppet.with(|s| s.pose.translation.vector.y = y);
                let r = bench.step();
                (r.force.map(f64::to_bits), r.position.map(f64::to_bits))
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}

/// The tools that direct rendering brings to rest between two walls come to rest here as well: faces, edges and corners, up
/// to a thousand times as stiff as the device renders.
fn comes_to_rest(device: &str, step: f64, holds: Holds) {
    let coupling = Coupling { law: Law::Dynamic, ..Coupling::default() };
    for (lies, stiffness) in
        [(Lies::Flat, 2e3), (Lies::Flat, 2e5), (Lies::OnEdges, 2e5), (Lies::OnCorners, 2e6)]
    {
        for edge in [0.01, 0.03, 0.1] {
            let mesh = hapticd::geometry::shapes::cuboid(Vec3::repeat(edge));
            let cube = Laid { mesh: &mesh, points: POINTS, turn: laid(lies), hollow: f64::INFINITY };
            let tips = device == "ideal-6dof" && !matches!(lies, Lies::Flat);
            let seen = press_by(coupling, device, &cube, stiffness, holds, tips);
            println!(
                "{device} {holds:?} {lies:?} {edge} m, {stiffness}: shakes by {:.4} mm/s, turns {:?}",
                seen.shakes * 1e3,
                seen.turns
            );
            assert!(
                seen.shakes <= 1.2e-4 + 3.0 * step / 1e-3,
                "{lies:?} {edge} {stiffness}: {} m/s",
                seen.shakes
            );
        }
    }
}

#[test]
fn the_ideal_device_s_virtual_tool_comes_to_rest() {
    comes_to_rest("ideal-6dof", 0.0, Holds::Nobody);
    comes_to_rest("ideal-6dof", 0.0, Holds::Normal);
}

#[test]
fn the_falcon_s_virtual_tool_comes_to_rest() {
    comes_to_rest("novint-falcon", 60e-6, Holds::Nobody);
}

#[test]
fn the_omni_s_virtual_tool_comes_to_rest() {
    comes_to_rest("phantom-omni", 60e-6, Holds::Light);
}
