//! The couplings with a virtual tool in the whole servo: what is felt at rest, and that arming, clutch, tool changes and new objects keep
//! their rules with a virtual tool in between.

use crate::device::Puppet;
use crate::grip::{slab, spheres};
use crate::stability::{Holds, Laid, Lies, POINTS, Wedged, laid, press_by, press_into};
use crate::world::{Bench, MS, cube_tool, floor, norm, object, scene, sphere_tool, streamed};
use hapticd::contact::Friction;
use hapticd::geometry::{Pose, Vec3};
use hapticd::haptics::coupling::{Coupling, Law, Preset, least_damping_time};
use hapticd::scene::snapshot::{MotionFrame, SnapshotObject, Tool};
use hapticd::servo::handle::{ServoCommand, ServoConfig};
use hapticd::servo::record::{FLAG_STIFFNESS_CAPPED, ServoState, TickRecord, ZeroReason};
use std::sync::Arc;

/// A virtual tool with a mass, and one without.
const LAWS: [Law; 2] = [Law::Dynamic, Law::Static];

fn coupling(law: Law) -> Coupling {
    Coupling { law, ..Coupling::default() }
}

fn config(law: Law) -> ServoConfig {
    ServoConfig { coupling: coupling(law), ..ServoConfig::default() }
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
            for law in LAWS {
                let coupling = Coupling { preset, ..coupling(law) };
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
                // The record says so: stiffness times cap is what is felt, and it is felt for no reason of its own.
                let series = spring * stiffness / (spring + stiffness);
                assert!((r.stiffness * r.cap / series - 1.0).abs() < 1e-3, "{} {series}", r.stiffness);
                assert_eq!((r.cap, r.flags & FLAG_STIFFNESS_CAPPED, r.zero), (1.0, 0, ZeroReason::None));
            }
        }
    }
}

#[test]
fn nobody_holds_the_force_and_the_tool_is_where_the_device_is() {
    for law in LAWS {
        let (mut bench, puppet) = over_floor(1000.0, config(law));
        bench.steps(3);
        let r = press(&mut bench, &puppet, 0.008);
        assert!((r.position[1] - 0.008).abs() < 1e-12);
        assert!((r.depth - 2e-3).abs() < 1e-5, "{}", r.depth);
        // Armed inside the floor: the virtual tool is pushed out, what is wanted is not small, the gate stays shut.
        bench.own();
        for _ in 0..500 {
            let r = bench.step();
            assert_eq!((norm(r.force), r.state, r.zero), (0.0, ServoState::Armed, ZeroReason::ArmingGate));
        }
        // Out of it, it opens.
        press(&mut bench, &puppet, 0.012);
        assert_eq!(bench.last.state, ServoState::Rendering);
    }
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
    for law in LAWS {
        let (mut bench, puppet) = over_floor(1000.0, config(law));
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
}

#[test]
fn another_tool_goes_through_the_gate() {
    for law in LAWS {
        let (mut bench, puppet) = over_floor(1000.0, config(law));
        bench.arm();
        let pressed = norm(press(&mut bench, &puppet, 0.008).force);
        bench.publish(scene(2, &cube_tool(500), vec![object(1, floor(), Pose::identity(), 1e5)]));
        let (growth, most) = watch(&mut bench, 300);
        assert!(growth <= 1e-9 && most <= pressed, "it only fades: {growth} {most}");
        assert_eq!((norm(bench.last.force), bench.last.state), (0.0, ServoState::Armed));
        press(&mut bench, &puppet, 0.013);
        assert_eq!(bench.last.state, ServoState::Rendering);
    }
}

/// The ideal device's floor of the first scene, and a second one whose surface is at this height.
fn with_second(generation: u64, y: f64, stiffness: f64) -> Box<hapticd::scene::snapshot::Snapshot> {
    let second = object(2, floor(), Pose::translation(0.0, y, 0.0), stiffness);
    scene(generation, &sphere_tool(0.01), vec![object(1, floor(), Pose::identity(), 1000.0), second])
}

/// Force in each of the 400 ticks after this edit.
fn edited(bench: &mut Bench, snapshot: Box<hapticd::scene::snapshot::Snapshot>) -> Vec<f64> {
    bench.publish(snapshot);
    (0..400).map(|_| norm(bench.step().force)).collect()
}

/// However stiff, whether new or put elsewhere: what is felt comes in the fade's 0.2 s, though the virtual tool is pushed out of a
/// stiff object within a few ticks.
#[test]
fn a_hard_object_put_over_the_tool_fades_in() {
    for law in LAWS {
        for stiffness in [4e3, 1e5, 1e6] {
            for teleported in [false, true] {
                let (mut bench, _puppet) = over_floor(1000.0, config(law));
                bench.arm();
                if teleported {
                    bench.publish(with_second(2, -0.02, stiffness));
                    bench.steps(20);
                }
                // 2 mm deep: some 7 N.
                let forces = edited(&mut bench, with_second(3, 0.004, stiffness));
                let last = forces[399];
                let what = format!("{stiffness} N/m, teleported {teleported}: {last} N");
                let series = 4000.0 * stiffness / (4000.0 + stiffness) * 2e-3;
                assert!(last > 0.85 * series && last < series, "{what}");
                for (ms, part) in [(20, 0.15), (50, 0.3), (100, 0.55)] {
                    let most = forces[..=ms].iter().fold(0.0f64, |a, f| a.max(*f));
                    assert!(most <= part * last, "{what}: {most} N after {ms} ms");
                }
                let growth = forces.windows(2).map(|w| w[1] - w[0]).fold(0.0, f64::max);
                // The contact's part p and the felt one in series, 2 p^2/(1 + p) where both are equally stiff: 1.5 times as steep at
                // the end as a straight fade, and straight where the contact is the stiffer one.
                assert!(growth < 1.55 * last / 200.0, "{what}: by {growth} in a tick");
                assert!((forces[250] / last - 1.0).abs() < 1e-3, "{what}: and then it is all there");
                assert_eq!(bench.last.state, ServoState::Rendering);
            }
        }
    }
}

/// What is pressed stays pressed while it hardens, and no edit leaves a force behind for a hand that lets go.
#[test]
fn hardening_under_the_tool_fades_from_what_was_felt() {
    for law in LAWS {
        for stiffness in [4e3, 1e5, 1e6] {
            let (mut bench, puppet) = over_floor(300.0, config(law));
            bench.arm();
            let before = norm(press(&mut bench, &puppet, 0.008).force);
            let harder = |generation| {
                scene(generation, &sphere_tool(0.01), vec![object(1, floor(), Pose::identity(), stiffness)])
            };
            let forces = edited(&mut bench, harder(2));
            let last = forces[399];
            assert!(last > 3.0 * before, "{before} {last}");
            for (k, f) in forces.iter().enumerate() {
                let earlier = if k == 0 { before } else { forces[k - 1] };
                assert!((f - earlier).abs() < (last - before) / 100.0, "{stiffness} {k}: {earlier} {f}");
            }
            // Another edit, and the hand goes up at 0.1 m/s: 2 mm in 20 ticks.
            bench.publish(harder(3));
            for k in 1..=30 {
                puppet.with(|s| s.pose.translation.vector.y += 1e-4);
                let f = norm(bench.step().force);
                assert!(f <= last, "{k}: {f}");
            }
            assert!(norm(bench.steps(20).force) < 1e-3, "{:?}", bench.last.force);
        }
    }
}

/// A device above a floor that stands still until `from` s and then moves at `speed`, and the device with it, from 1 mm above
/// the surface to 1 mm inside. Calls back with each record of `ticks` ticks from one second on.
fn moved(law: Law, stiffness: f64, speed: f64, ticks: usize, mut each: impl FnMut(&TickRecord)) -> Bench {
    let puppet = Puppet::new(Vec3::new(0.0, 0.011, 0.0));
    let mut bench = Bench::new(Box::new(puppet.clone()), config(law));
    let moving = SnapshotObject { motion: Some(0), ..object(1, floor(), Pose::identity(), stiffness) };
    bench.publish(scene(1, &sphere_tool(0.01), vec![moving]));
    let y = |t: f64| speed * (t - 0.8).max(0.0);
    for k in 0..1000 + ticks {
        if k == 10 {
            bench.handle.send(ServoCommand::Arm { session: 1 }).expect("room");
            bench.handle.send(ServoCommand::Lease { until_ns: u64::MAX }).expect("room");
        }
        let now = bench.servo.now_ns();
        let floor = streamed(1, now / (2 * MS) * 2 * MS, now + 100 * MS, |t| Vec3::y() * y(t as f64 * 1e-9));
        bench.handle.publish_motion(Box::new(MotionFrame { sequence: now, entries: vec![Some(floor)] }));
        bench.handle.reclaim();
        let t = bench.servo.now_ns() as f64 * 1e-9;
        let above = 1e-3 - 2e-3 * ((t - 0.5) / 0.1).clamp(0.0, 1.0);
        puppet.with(|s| s.pose.translation.vector.y = 0.01 + y(t - 8e-3) + above);
        let r = bench.step();
        if k >= 1000 {
            each(&r);
        }
    }
    assert_eq!(bench.last.state, ServoState::Rendering, "{:?}", bench.last);
    bench
}

/// A moving floor is felt as one at rest: the contact carries what the hand feels and not the motion of a tick, without a buzz.
#[test]
fn what_moves_under_the_tool_does_not_buzz() {
    for law in LAWS {
        for stiffness in [1e4, 1e5, 1e6] {
            for speed in [0.1, -0.1] {
                let (mut low, mut high) = (f64::MAX, 0.0f64);
                moved(law, stiffness, speed, 100, |r| {
                    let (f, contact) = (r.force[1], r.contact_force[1]);
                    (low, high) = (low.min(f), high.max(f));
                    assert!(r.touched == 1, "{stiffness} {speed}: lost at {}", r.tick);
                    assert!((contact - f).abs() < 0.02 * f, "{stiffness} {speed}: {contact} N carry {f} N");
                });
                println!("{stiffness} N/m at {speed} m/s: {low} to {high} N");
                assert!(low > 1.0 && high - low <= 0.01, "{stiffness} {speed}: {low} to {high} N");
            }
        }
    }
}

#[test]
fn a_stopped_floor_lets_go_and_the_record_says_why() {
    for law in LAWS {
        let mut bench = moved(law, 1e5, 0.1, 0, |_| {});
        let force = norm(bench.last.force);
        assert!(force > 1.0 && bench.last.zero == ZeroReason::None);
        for _ in 0..400 {
            let r = bench.step();
            let none = norm(r.force) < 1e-3;
            assert_eq!(
                r.zero,
                if none { ZeroReason::MotionStopped } else { ZeroReason::None },
                "{:?}",
                r.force
            );
        }
        assert!(norm(bench.last.force) < 1e-3);
    }
}

/// In the free the virtual tool's mass is felt: where there is a force, no record gives a reason for none.
#[test]
fn a_record_gives_a_reason_for_no_force_only_where_there_is_none() {
    let (mut bench, puppet) = over_floor(1000.0, config(Law::Dynamic));
    bench.arm();
    let (mut felt, mut none) = (0, 0);
    press(&mut bench, &puppet, 0.03);
    for k in 0..2000 {
        // Shaken at 3 Hz for a second, then held still.
        let t = 1e-3 * f64::from(k.min(1000));
        puppet.with(|s| s.pose.translation.vector.y = 0.03 + 0.01 * (std::f64::consts::TAU * 3.0 * t).sin());
        let r = bench.step();
        let some = norm(r.force) > 1e-3 || norm(r.torque) > 5e-6;
        assert_eq!(r.zero, if some { ZeroReason::None } else { ZeroReason::NoContact }, "{:?}", r.force);
        if some { felt += 1 } else { none += 1 }
    }
    assert!(felt > 500 && none > 500, "{felt} {none}");
}

/// A stylus: a ball of 5 mm, 15 cm from the device's tool point.
const STYLUS: Vec3 = Vec3::new(0.0, 0.0, -0.15);

fn stylus() -> Arc<Tool> {
    Arc::new(Tool {
        offset: Pose::translation(STYLUS.x, STYLUS.y, STYLUS.z),
        ..Tool::clone(&sphere_tool(5e-3))
    })
}

/// The Omni with a stylus above a floor under its tip.
fn with_stylus(law: Law, stiffness: f64) -> (Bench, Puppet) {
    let puppet = Puppet::of("phantom-omni", Vec3::new(0.0, 0.007, 0.0));
    let mut bench = Bench::new(Box::new(puppet.clone()), config(law));
    let place = Pose::translation(STYLUS.x, STYLUS.y, STYLUS.z);
    bench.publish(scene(1, &stylus(), vec![object(1, floor(), place, stiffness)]));
    bench.arm();
    (bench, puppet)
}

/// A rotation that is not driven does not give way: across a stylus as along it the spring of the driven axes is felt.
#[test]
fn a_stylus_is_stiff_at_its_tip() {
    for law in LAWS {
        for stiffness in [1e4, 1e6] {
            let (mut bench, puppet) = with_stylus(law, stiffness);
            // The arm's weight is compensated for; what is felt is on top of it.
            let weight = Vec3::from(bench.steps(200).force);
            let r = press(&mut bench, &puppet, 0.003);
            let f = (Vec3::from(r.force) - weight).y;
            let turned = STYLUS.norm_squared() / (100.0 * (STYLUS.norm_squared() + 0.4 * 25e-6));
            let depth = f / stiffness + f / (700.0 * (1.0 - f / (4.0 * 3.3))) + f / 700.0 * turned;
            assert!((depth - 2e-3).abs() < 2e-5, "{stiffness}: {f} N at {depth} m");
            let [x, y, z, w] = r.orientation;
            assert!(w > 1.0 - 1e-6, "keeps the device's rotation: {x} {y} {z} {w}");
        }
    }
}

/// A turned device whose tool touches beside it: in series are the contact, the force's spring and, at the lever, the torque's.
#[test]
fn a_turned_device_feels_its_rotation_in_series() {
    let lever = 0.1;
    for law in LAWS {
        for (preset, part) in [(Preset::Soft, 1.0 / 3.0), (Preset::Normal, 1.0)] {
            for stiffness in [1e4, 1e6] {
                let coupling = Coupling { preset, ..coupling(law) };
                let puppet = Puppet::new(Vec3::new(0.0, 0.0105, 0.0));
                let config = ServoConfig { coupling, ..ServoConfig::default() };
                let mut bench = Bench::new(Box::new(puppet.clone()), config);
                let tool =
                    Tool { offset: Pose::translation(lever, 0.0, 0.0), ..Tool::clone(&sphere_tool(0.01)) };
                let under = Pose::translation(lever, 0.0, 0.0);
                bench.publish(scene(1, &Arc::new(tool), vec![object(1, floor(), under, stiffness)]));
                bench.arm();
                let angle = 0.02;
                for k in 1..=400 {
                    let turn = Vec3::z() * (-angle * f64::from(k) / 400.0);
                    puppet.with(|s| s.pose.rotation = nalgebra::UnitQuaternion::from_scaled_axis(turn));
                    bench.step();
                }
                bench.steps(600);
                let command = puppet.get().command;
                let f = command.force.y;
                // The ideal device: 4000 N/m and 10 N m/rad, springs that saturate at four times 20 N and 1 N m. The virtual tool turns back by
                // what its torque stretches, and its ball is pushed at where it is then.
                let (spring, turned) = (4000.0 * part, 10.0 * part);
                let back = command.torque.z / (turned * (1.0 - command.torque.z / 4.0));
                let arm = lever * (angle - back).cos();
                // The proxy stops a fraction of a micrometre beside where it would rest on the surface, which the contact's stiffness feels.
                let torque = command.torque.z;
                assert!((torque - arm * f).abs() < 1e-4 * torque, "{law:?}: {torque} N m, {arm} m of {f} N");
                let depth = f / stiffness
                    + f / (spring * (1.0 - f / 80.0))
                    + lever * (angle.sin() - (angle - back).sin());
                let pressed = lever * angle.sin() - 0.5e-3;
                println!(
                    "{law:?} {preset:?} {stiffness}: {f:.4} N, {:.4} N m, {depth:.6} of {pressed:.6} m",
                    command.torque.z
                );
                assert!(
                    (depth - pressed).abs() < 2e-6,
                    "{law:?} {preset:?} {stiffness}: {depth} of {pressed} m"
                );
                assert!(back > 0.3 * angle, "the rotation is to give way: {back} rad");
            }
        }
    }
}

/// The fastest point of the tool is no faster than the device: nothing throws it through what is thicker than that in a tick.
#[test]
fn nothing_throws_a_stylus() {
    for law in LAWS {
        let (mut bench, puppet) = with_stylus(law, 1e3);
        let place = |y: f64| Pose::translation(STYLUS.x, STYLUS.y + y, STYLUS.z);
        for k in 0..6 {
            // The floor jumps through the tip and back, and the device turns.
            let y = if k % 2 == 0 { 0.02 } else { 0.0 };
            bench.publish(scene(2 + k, &stylus(), vec![object(1, floor(), place(y), 1e6)]));
            for i in 0..150 {
                let turn = Vec3::new(1e-3 * f64::from(i), 0.0, 0.0);
                puppet.with(|s| s.pose.rotation = nalgebra::UnitQuaternion::from_scaled_axis(turn));
                let before = Vec3::from(bench.last.position);
                let r = bench.step();
                let moved = (Vec3::from(r.position) - before).norm();
                assert!(norm(r.velocity) <= 2.0 + 1e-9, "{k} {i}: {:?}", r.velocity);
                assert!(i == 0 || moved <= 2e-3 + 1e-9, "{k} {i}: {moved} m in a tick");
            }
            puppet.with(|s| s.pose.rotation = nalgebra::UnitQuaternion::identity());
            bench.steps(200);
        }
    }
}

/// What the record says of the torque is the device's, moved to where the tool would be on it.
#[test]
fn a_record_s_torque_is_the_device_s() {
    let lever = Vec3::new(0.02, 0.0, 0.0);
    let puppet = Puppet::new(Vec3::new(0.0, 0.012, 0.0));
    let mut bench = Bench::new(Box::new(puppet.clone()), config(Law::Dynamic));
    let tool = Tool { offset: Pose::translation(lever.x, 0.0, 0.0), ..Tool::clone(&sphere_tool(0.01)) };
    bench.publish(scene(1, &Arc::new(tool), vec![object(1, floor(), Pose::identity(), 1e5)]));
    bench.arm();
    let r = press(&mut bench, &puppet, 0.006);
    let (command, force) = (puppet.get().command, Vec3::from(r.force));
    assert!(command.torque.norm() > 1e-3, "{:?}", command.torque);
    assert!((Vec3::from(r.torque) + lever.cross(&force) - command.torque).norm() < 1e-12);
}

#[test]
fn equal_runs_have_equal_bits() {
    for law in LAWS {
        let run = || {
            let (mut bench, puppet) = over_floor(1e6, config(law));
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
}

/// The tools that direct rendering brings to rest between two walls come to rest here as well: faces, edges and corners, up
/// to a thousand times as stiff as the device renders.
fn comes_to_rest(law: Law, device: &str, ripple: f64, holds: Holds) {
    rests_on(law, device, ripple, holds, Friction::NONE, &[0.01, 0.03, 0.1]);
}

fn rests_on(law: Law, device: &str, ripple: f64, holds: Holds, friction: Friction, edges: &[f64]) {
    let coupling = coupling(law);
    for (lies, stiffness) in
        [(Lies::Flat, 2e3), (Lies::Flat, 2e5), (Lies::OnEdges, 2e5), (Lies::OnCorners, 2e6)]
    {
        for &edge in edges {
            let mesh = hapticd::geometry::shapes::cuboid(Vec3::repeat(edge));
            let cube =
                Laid { mesh: &mesh, points: POINTS, turn: laid(lies), hollow: f64::INFINITY, friction };
            let tips = device == "ideal-6dof" && !matches!(lies, Lies::Flat);
            let seen = press_by(coupling, device, &cube, stiffness, holds, tips);
            is_at_rest(
                &seen,
                law,
                device,
                edge,
                ripple,
                &format!("{holds:?} {lies:?} {edge} m, {stiffness}"),
            );
        }
    }
}

/// A cube of this edge is, up to `ripple` N and what its sensors' flicker does.
fn is_at_rest(seen: &Wedged, law: Law, device: &str, edge: f64, ripple: f64, what: &str) {
    let wrist = device == "phantom-omni";
    let what = format!("{law:?} {device} {what}");
    println!(
        "{what}: tool shakes by {:.4} mm/s, device at {:.4} mm/s, {:.4} N, turns {:?}",
        seen.shakes * 1e3,
        seen.plant * 1e3,
        seen.ripple,
        seen.turns
    );
    // The virtual tool has no encoder, so nothing but the field's own steps is allowed for, and, with a wrist that is
    // sensed and not driven, what the flicker of its sensors moves the tool's corners by.
    let flicker = if wrist { seen.turns.1 * 0.75f64.sqrt() * edge } else { 0.0 };
    assert!(seen.shakes <= 1.2e-4 + flicker, "{what}: {} m/s", seen.shakes);
    // The device itself and its motors, too: a coupling that swings would hide behind a tool that stands.
    assert!(seen.plant <= 1e-3, "{what}: the device moves at {} m/s", seen.plant);
    // The flicker itself is felt, through the spring of 700 N/m at the corners' distance: its profile gives the Omni's wrist
    // 1.09 mrad of noise and steps, of which less than a third is left where it is held still, seven times that from end to end.
    let wrist = if wrist { 700.0 * 0.5f64.sqrt() * edge * 7.0 * 1.09e-3 / 3.0 } else { 0.0 };
    // Without a mass the damper's part of it is felt as well.
    let flicker = if law == Law::Static { flicker * 700.0 * least_damping_time(1e-3, 1e-3) } else { 0.0 };
    assert!(seen.ripple <= ripple + wrist + flicker, "{what}: {} N up and down", seen.ripple);
}

/// A cube of spheres between two slabs.
#[test]
fn a_virtual_tool_of_spheres_comes_to_rest() {
    let (tree, slab) = (spheres(500), slab());
    for (device, ripple, holds) in [
        ("ideal-6dof", 0.01, Holds::Nobody),
        ("ideal-6dof", 0.01, Holds::Normal),
        ("novint-falcon", 0.05, Holds::Nobody),
        ("phantom-omni", 0.05, Holds::Light),
    ] {
        for law in LAWS {
            // The hard walls, which nobody damps; the soft ones in a hand. All eight would take a minute.
            let stiffness = if matches!(holds, Holds::Nobody) { 2e5 } else { 2e3 };
            let walls = |at: &Vec3| {
                let (below, above) = (at.y - 0.0095, at.y + 0.0095);
                let up = Pose::translation(at.x, below, at.z);
                let down = Pose::new(Vec3::new(at.x, above, at.z), Vec3::x() * std::f64::consts::PI);
                vec![object(1, slab.clone(), up, stiffness), object(2, slab.clone(), down, stiffness)]
            };
            let seen = press_into(coupling(law), device, &tree, walls, holds, false);
            is_at_rest(&seen, law, device, 0.02, ripple, &format!("{holds:?}, spheres, {stiffness}"));
        }
    }
}

#[test]
fn the_ideal_device_s_virtual_tool_comes_to_rest() {
    for law in LAWS {
        comes_to_rest(law, "ideal-6dof", 0.01, Holds::Nobody);
        rests_on(law, "ideal-6dof", 0.01, Holds::Normal, Friction::NONE, &[0.03]);
    }
}

/// On rough walls, too, along which the tool sticks by springs of their own.
#[test]
fn the_virtual_tool_comes_to_rest_on_rough_walls() {
    let rough = Friction { statics: 0.8, dynamic: 0.5, stribeck: 0.0, viscous: 0.0 };
    for holds in [Holds::Nobody, Holds::Normal] {
        for law in LAWS {
            rests_on(law, "ideal-6dof", 0.01, holds, rough, &[0.03]);
        }
    }
    for law in LAWS {
        rests_on(law, "novint-falcon", 0.05, Holds::Nobody, rough, &[0.03]);
    }
}

#[test]
fn the_falcon_s_virtual_tool_comes_to_rest() {
    for law in LAWS {
        comes_to_rest(law, "novint-falcon", 0.05, Holds::Nobody);
    }
}

#[test]
fn the_omni_s_virtual_tool_comes_to_rest() {
    for law in LAWS {
        comes_to_rest(law, "phantom-omni", 0.05, Holds::Light);
    }
}
