//! How force comes and goes: arming, gate, ramps, disarm, lease, stop, clutch, recentring, tool change.

use crate::device::Puppet;
use crate::world::{Bench, MS, cube_tool, field, floor, norm, object, scene, sphere_tool};
use hapticd::contact::{ObjectShape, ToolShape};
use hapticd::geometry::{Pose, Vec3, Wrench};
use hapticd::scene::snapshot::{Snapshot, Tool};
use hapticd::servo::handle::{Refusal, ServoCommand, ServoConfig};
use hapticd::servo::record::{FLAG_CONTACT_BEGIN, FLAG_CONTACT_END, ServoState, ZeroReason};
use std::sync::Arc;

const FREE: Vec3 = Vec3::new(0.0, 0.03, 0.0);

/// Moves the puppet along y at 5 cm/s.
fn glide(bench: &mut Bench, puppet: &Puppet, to: f64) {
    loop {
        let at = puppet.get().pose.translation.vector;
        let step = (to - at.y).clamp(-5e-5, 5e-5);
        if step == 0.0 {
            return;
        }
        puppet.place(at + Vec3::new(0.0, step, 0.0));
        bench.step();
    }
}

#[test]
fn a_pressed_floor_answers_with_its_stiffness() {
    let (mut bench, puppet) = Bench::puppet(FREE);
    bench.arm();
    assert_eq!((bench.last.zero, norm(bench.last.force)), (ZeroReason::NoContact, 0.0));
    glide(&mut bench, &puppet, 0.009);
    let r = bench.steps(20);
    assert_eq!(
        (r.state, r.zero, r.touched, r.deepest_object),
        (ServoState::Rendering, ZeroReason::None, 1, 1)
    );
    assert!((r.depth - 0.001).abs() < 2e-6, "{}", r.depth);
    // What the contact wants is what the device gets, upwards, and the device's own command agrees.
    assert!(r.force[1] > 0.0 && r.force[0].abs() < 1e-3 * r.force[1]);
    assert!((r.force[1] - r.contact_force[1]).abs() < 1e-9);
    assert_eq!(puppet.get().command.force, Vec3::from(r.force));
    assert_eq!(bench.handle.counters().heap.load(std::sync::atomic::Ordering::Relaxed), 0);
}

/// Where the force is zero without anybody having taken it away, the record says that too.
#[test]
fn a_contact_without_force_has_its_reason() {
    let (mut bench, puppet) = Bench::puppet(FREE);
    bench.arm();
    glide(&mut bench, &puppet, 0.009);
    assert_eq!(bench.steps(20).zero, ZeroReason::None);
    let soft = vec![object(1, floor(), Pose::identity(), 0.0)];
    bench.publish(scene(2, &sphere_tool(0.01), soft));
    let r = bench.steps(200);
    assert_eq!((norm(r.force), r.touched, r.state), (0.0, 1, ServoState::Rendering));
    assert_eq!(r.zero, ZeroReason::NoForce);
    glide(&mut bench, &puppet, 0.012);
    assert_eq!(bench.step().zero, ZeroReason::NoContact);
}

/// Whether somebody asked for it or the owner is gone, and which of both was last, stands in the records.
#[test]
fn a_lost_owner_is_told_from_a_disarm() {
    let asks = |bench: &Bench, gone: bool| if gone { bench.handle.lose() } else { bench.handle.disarm() };
    for (first, second) in [(true, true), (true, false), (false, true), (false, false)] {
        let (mut bench, _puppet) = Bench::puppet(FREE);
        for gone in [first, second] {
            bench.arm();
            asks(&bench, gone);
            let reason = if gone { ZeroReason::LeaseLost } else { ZeroReason::Disarmed };
            assert_eq!(bench.step().zero, reason);
            assert_eq!((bench.steps(100).zero, bench.last.state), (reason, ServoState::Idle));
        }
    }
}

#[test]
fn contact_begins_and_ends_once() {
    let (mut bench, puppet) = Bench::puppet(FREE);
    bench.arm();
    let (mut begun, mut ended) = (0, 0);
    for k in 0..800 {
        let y = 0.0105 - 0.001 * (f64::from(k) * 1e-3 * std::f64::consts::TAU / 0.8).sin();
        let at = puppet.get().pose.translation.vector;
        // Start from where it is, at a plausible speed.
        puppet.place(Vec3::new(0.0, at.y + (y - at.y).clamp(-1e-3, 1e-3), 0.0));
        let r = bench.step();
        begun += u32::from(r.flags & FLAG_CONTACT_BEGIN != 0);
        ended += u32::from(r.flags & FLAG_CONTACT_END != 0);
    }
    assert_eq!((begun, ended), (1, 1));
}

#[test]
fn arming_inside_an_object_gives_no_force_until_the_tool_is_out() {
    let (mut bench, puppet) = Bench::puppet(Vec3::new(0.0, 0.005, 0.0));
    bench.step();
    bench.own();
    for _ in 0..500 {
        let r = bench.step();
        assert_eq!((r.state, r.zero, norm(r.force)), (ServoState::Armed, ZeroReason::ArmingGate, 0.0));
        assert!(norm(r.contact_force) > 0.0, "the wanted force is there to be seen");
    }
    glide(&mut bench, &puppet, 0.012);
    assert!((0..400).any(|_| bench.step().ramp >= 1.0));
}

/// Half a floor under one half of a cube and half a ceiling over the other push it nowhere, but turn it.
#[test]
fn arming_where_only_a_torque_is_felt_gives_none_until_it_is_gone() {
    // The cube's faces lie 1 mm within each.
    let below = ObjectShape::Field(field(0.03, 121, |p| (-(p.y + 0.009)).min(p.x)));
    let above = ObjectShape::Field(field(0.03, 121, |p| (p.y - 0.009).min(-p.x)));
    let at = Pose::translation(FREE.x, FREE.y, FREE.z);
    let (tool, both) = (cube_tool(2000), [object(1, below, at, 3000.0), object(2, above, at, 3000.0)]);
    // A gate that is wide open for torques shows that no force keeps it shut.
    for gate_torque in [ServoConfig::default().gate_torque, 10.0] {
        let puppet = Puppet::new(FREE);
        let config = ServoConfig { gate_torque, ..ServoConfig::default() };
        let small = config.gate_force;
        let mut bench = Bench::new(Box::new(puppet.clone()), config);
        bench.publish(scene(1, &tool, both.to_vec()));
        bench.step();
        bench.own();
        if gate_torque > 1.0 {
            assert!((0..600).any(|_| bench.step().ramp >= 1.0), "{:?}", bench.last);
            assert!(norm(bench.last.torque) > 0.01 && norm(bench.last.force) < small, "{:?}", bench.last);
            continue;
        }
        for _ in 0..500 {
            let r = bench.step();
            assert_eq!((r.state, r.zero, r.touched), (ServoState::Armed, ZeroReason::ArmingGate, 2));
            assert_eq!(puppet.get().command, Wrench::ZERO);
        }
        for k in 0..600 {
            puppet.place(FREE + Vec3::new(0.0, 0.0, 1e-4 * f64::from(k)));
            bench.step();
        }
        assert!((0..600).any(|_| bench.step().ramp >= 1.0), "{:?}", bench.last);
    }
}

/// Before the first scene.
#[test]
fn arming_without_a_scene_waits_for_one() {
    let puppet = Puppet::new(FREE);
    let mut bench = Bench::new(Box::new(puppet.clone()), ServoConfig::default());
    bench.step();
    bench.own();
    for _ in 0..100 {
        let r = bench.step();
        assert_eq!((r.state, r.zero, norm(r.force)), (ServoState::Armed, ZeroReason::NoScene, 0.0));
        assert_eq!(puppet.get().command, Wrench::ZERO);
    }
    bench.publish(scene(1, &sphere_tool(0.01), vec![object(1, floor(), Pose::identity(), 1000.0)]));
    assert!((0..1000).any(|_| bench.step().ramp >= 1.0), "{:?}", bench.last);
    assert_eq!(bench.last.state, ServoState::Rendering);
}

#[test]
fn a_disarm_flag_ramps_to_zero_at_the_device_whatever_the_queue_holds() {
    let (mut bench, puppet) = Bench::puppet(FREE);
    bench.arm();
    glide(&mut bench, &puppet, 0.005);
    assert!(puppet.get().command.force.norm() > 1.0);
    // A queue full of arm commands, sent before the disarm, changes nothing.
    while bench.handle.send(ServoCommand::Arm { session: 1 }).is_ok() {}
    bench.handle.disarm();
    let mut last = f64::INFINITY;
    let ticks = (1..=50).find(|_| {
        bench.step();
        let force = puppet.get().command.force.norm();
        assert!(force <= last + 1e-12, "never rises on the way down");
        last = force;
        force == 0.0
    });
    assert!(ticks.is_some_and(|n| n >= 20), "{ticks:?}");
    let r = bench.steps(20);
    assert_eq!((r.state, r.zero), (ServoState::Idle, ZeroReason::Disarmed));
    assert_eq!(puppet.get().command.force.norm(), 0.0);
}

#[test]
fn a_lapsed_lease_ramps_to_zero() {
    let (mut bench, puppet) = Bench::puppet(FREE);
    bench.arm();
    glide(&mut bench, &puppet, 0.005);
    let until = bench.servo.now_ns() + 100 * MS;
    bench.command(ServoCommand::Lease { until_ns: until }).unwrap();
    while bench.servo.now_ns() <= until {
        assert!(norm(bench.step().force) > 1.0 || bench.last.planned_ns >= until);
    }
    let r = bench.steps(50);
    assert_eq!((r.state, r.zero, norm(r.force)), (ServoState::Idle, ZeroReason::LeaseLost, 0.0));
}

#[test]
fn a_stop_ramps_down_and_finishes_and_nobody_arms_any_more() {
    let (mut bench, puppet) = Bench::puppet(FREE);
    bench.arm();
    glide(&mut bench, &puppet, 0.005);
    bench.handle.stop();
    bench.step();
    assert!(!bench.servo.finished() && puppet.get().command.force.norm() > 0.0, "no step to zero");
    assert!((0..50).any(|_| {
        bench.step();
        bench.servo.finished()
    }));
    assert_eq!(bench.last.zero, ZeroReason::Shutdown);
    assert_eq!(bench.command(ServoCommand::Arm { session: 1 }), Err(Refusal::Stopping));
    drop(bench);
    assert_eq!(puppet.get().command.force.norm(), 0.0);
}

/// A servo that nobody armed says so too when it ends, and one that is dropped in the middle of it all leaves no force behind.
#[test]
fn whatever_ends_a_servo_leaves_no_force() {
    let (mut bench, _puppet) = Bench::puppet(FREE);
    assert_eq!(bench.steps(5).zero, ZeroReason::NotArmed);
    bench.handle.stop();
    assert_eq!(bench.step().zero, ZeroReason::Shutdown);
    assert!(bench.servo.finished());
    let (mut bench, puppet) = Bench::puppet(FREE);
    bench.arm();
    glide(&mut bench, &puppet, 0.005);
    assert!(puppet.get().command.force.norm() > 1.0);
    drop(bench);
    assert_eq!(puppet.get().command, Wrench::ZERO);
}

#[test]
fn degraded_real_time_refuses_to_arm_when_required() {
    let (mut bench, _) = Bench::puppet(FREE);
    bench.servo.set_rt_ok(false);
    bench.step();
    assert_eq!(bench.command(ServoCommand::Arm { session: 1 }), Err(Refusal::Degraded));
}

#[test]
fn limits_can_be_lowered_and_not_raised() {
    let (mut bench, puppet) = Bench::puppet(FREE);
    bench.arm();
    glide(&mut bench, &puppet, -0.005);
    let free = norm(bench.steps(50).force);
    assert!(free > 3.0);
    let limits = |force| ServoCommand::Limits { force, torque: 1.0, velocity: 1.0 };
    bench.command(limits(1.5)).unwrap();
    assert!((norm(bench.step().force) - 1.5).abs() < 1e-9);
    bench.command(limits(1e9)).unwrap();
    let r = bench.steps(50);
    assert!((norm(r.force) - free).abs() < 1e-6, "back to what the contact wants, not more");
    bench.command(limits(0.0)).unwrap();
    assert_eq!((bench.steps(50).zero, puppet.get().command), (ZeroReason::NoForce, Wrench::ZERO));
    assert_eq!(bench.command(limits(f64::NAN)), Err(Refusal::Invalid));
    assert_eq!(bench.command(limits(-1.0)), Err(Refusal::Invalid));
}

#[test]
fn the_clutch_uncouples_and_the_tool_goes_on_from_where_it_was() {
    let (mut bench, puppet) = Bench::puppet(FREE);
    bench.arm();
    glide(&mut bench, &puppet, 0.008);
    let before = bench.steps(30);
    bench.command(ServoCommand::Clutch { held: true }).unwrap();
    let r = bench.steps(50);
    assert_eq!((r.zero, norm(r.force)), (ZeroReason::Clutch, 0.0));
    glide(&mut bench, &puppet, 0.03);
    assert_eq!(bench.last.position, before.position, "the tool stays while the device moves");
    bench.command(ServoCommand::Clutch { held: false }).unwrap();
    let mut jump = 0.0f64;
    let mut last = 0.0;
    for _ in 0..400 {
        let force = norm(bench.step().force);
        jump = jump.max((force - last).abs());
        last = force;
    }
    assert!((Vec3::from(bench.last.position) - Vec3::from(before.position)).norm() < 1e-9);
    assert!((last - norm(before.force)).abs() < 1e-6, "the same contact is felt again");
    assert!(jump < 0.02 * last, "and faded in: {jump}");
}

#[test]
fn recentring_goes_through_the_gate() {
    let (mut bench, puppet) = Bench::puppet(FREE);
    bench.arm();
    glide(&mut bench, &puppet, 0.008);
    let force = norm(bench.steps(30).force);
    bench.command(ServoCommand::Recentre { to: [0.0, 0.05, 0.0] }).unwrap();
    assert!((bench.last.position[1] - 0.05).abs() < 1e-12);
    assert!(norm(bench.last.force) > 0.9 * force, "the last force fades, it does not drop");
    assert!((0..50).any(|_| norm(bench.step().force) == 0.0));
    assert_eq!(bench.last.state, ServoState::Armed);
    assert!((0..400).any(|_| bench.step().ramp >= 1.0));
    assert_eq!(bench.command(ServoCommand::Recentre { to: [f64::NAN, 0.0, 0.0] }), Err(Refusal::Invalid));
}

#[test]
fn a_tool_change_while_armed_goes_through_the_ramp() {
    let (mut bench, puppet) = Bench::puppet(FREE);
    bench.arm();
    glide(&mut bench, &puppet, 0.008);
    let force = norm(bench.steps(30).force);
    // The new tool reaches deep into the floor at once.
    bench.publish(scene(2, &cube_tool(2000), vec![object(1, floor(), Pose::identity(), 1000.0)]));
    let mut last = bench.step();
    assert_eq!(last.generation, 2);
    let mut jump = (norm(last.force) - force).abs();
    for _ in 0..600 {
        let r = bench.step();
        jump = jump.max((norm(r.force) - norm(last.force)).abs());
        last = r;
    }
    assert_eq!((last.state, norm(last.force)), (ServoState::Armed, 0.0), "inside the floor: the gate holds");
    assert!(jump <= force / 20.0, "fades over at least 20 ticks: {jump} of {force}");
    glide(&mut bench, &puppet, 0.02);
    assert!((0..400).any(|_| bench.step().ramp >= 1.0));
}

#[test]
fn a_changed_mapping_goes_through_the_gate_and_scaling_keeps_the_newtons_per_metre() {
    // Scene ten times the device: 1 mm of the device is 10 mm of the scene.
    let shell = |scale: f64, generation| {
        let tool = Arc::new(Tool {
            shape: ToolShape::Sphere { radius: 0.01 },
            offset: Pose::identity(),
            bound_radius: 0.01,
            incarnation: 1,
        });
        let objects = vec![object(1, floor(), Pose::identity(), 1000.0)];
        Box::new(Snapshot::new(generation, tool, objects.into(), Pose::identity(), scale))
    };
    let mut felt = Vec::new();
    for scale in [1.0, 10.0] {
        let (mut bench, puppet) = Bench::puppet(FREE);
        bench.publish(shell(scale, 2));
        bench.arm();
        // 4 mm deep in the scene either way.
        glide(&mut bench, &puppet, 0.006 / scale);
        let r = bench.steps(30);
        assert!((r.position[1] - 0.006).abs() < 1e-9);
        assert!((puppet.get().command.force.y * scale - r.contact_force[1]).abs() < 1e-9);
        felt.push((r.contact_force[1], r.stiffness));
        bench.publish(shell(scale * 2.0, 3));
        bench.steps(60);
        assert_eq!(bench.last.state, ServoState::Armed, "a new scale is a new place: gate");
    }
    // Same scene, same contact; the device's N/m are the user's whatever the scale.
    assert!((felt[0].0 - felt[1].0).abs() < 1e-9 && (felt[0].1 - felt[1].1).abs() < 1e-6, "{felt:?}");
}

#[test]
fn two_runs_are_equal_bit_for_bit() {
    let run = || {
        let (mut bench, puppet) = Bench::puppet(FREE);
        bench.publish(scene(2, &cube_tool(3000), vec![object(1, floor(), Pose::identity(), 1000.0)]));
        bench.arm();
        glide(&mut bench, &puppet, 0.018);
        glide(&mut bench, &puppet, 0.008);
        let mut bits = Vec::new();
        for k in 0..300 {
            let x = 0.005 * (f64::from(k) * 0.01).sin();
            puppet.place(Vec3::new(x, 0.008, 0.0));
            let r = bench.step();
            bits.extend(r.force.map(f64::to_bits));
            bits.extend(r.torque.map(f64::to_bits));
            bits.push(u64::from(r.work));
        }
        bits
    };
    assert_eq!(run(), run());
}

#[test]
fn commands_and_scenes_come_in_at_the_top_of_the_tick() {
    let (mut bench, _) = Bench::puppet(FREE);
    bench.step();
    assert_eq!(bench.last.generation, 1);
    for generation in 2..=5 {
        bench
            .handle
            .publish(scene(
                generation,
                &sphere_tool(0.01),
                vec![object(1, floor(), Pose::identity(), 1000.0)],
            ))
            .unwrap();
    }
    assert_eq!(bench.step().generation, 5, "latest wins");
    assert_eq!(bench.handle.superseded(), 3);
    assert!(bench.handle.publish(scene(5, &sphere_tool(0.01), vec![])).is_err(), "generations must rise");
}
