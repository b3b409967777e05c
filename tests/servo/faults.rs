//! Everything that goes wrong: zero at the device, a latched fault with its reason, an explicit way out.

use crate::device::Puppet;
use crate::world::{Bench, MS, floor, norm, object, scene, sphere_tool};
use hapticd::device::{Lifecycle, ReadFault, WriteFault};
use hapticd::geometry::{Pose, Vec3};
use hapticd::servo::handle::{Refusal, ServoCommand};
use hapticd::servo::record::{FLAG_AFTER_LAPSE, FLAG_HELD_SAMPLE, Fault, ServoState, TickRecord, ZeroReason};
use nalgebra::UnitQuaternion;

/// Armed, fully on and pressing with some newtons.
fn pressing() -> (Bench, Puppet) {
    let (mut bench, puppet) = Bench::puppet(Vec3::new(0.0, 0.0101, 0.0));
    bench.arm();
    for _ in 0..100 {
        let at = puppet.get().pose.translation.vector;
        puppet.place(at - Vec3::new(0.0, 5e-5, 0.0));
        bench.step();
    }
    bench.steps(20);
    assert!(puppet.get().command.force.norm() > 1.0);
    (bench, puppet)
}

/// The fault is latched, the motors got zero in that very tick, nobody arms, and clearing leads back to idle.
fn check(bench: &mut Bench, puppet: &Puppet, fault: Fault) {
    assert_eq!((bench.last.state, bench.last.fault), (ServoState::Fault, fault));
    assert_eq!((bench.last.zero, norm(bench.last.force)), (ZeroReason::Fault, 0.0));
    assert_eq!(puppet.get().command.force.norm(), 0.0, "zero at the device");
    assert_eq!(bench.handle.counters().fault(), fault);
    assert_eq!(bench.command(ServoCommand::Arm { session: 1 }), Err(Refusal::InFault));
    bench.steps(100);
    assert_eq!((bench.last.state, norm(bench.last.force)), (ServoState::Fault, 0.0), "it latches");
    puppet.with(|s| {
        s.lifecycle = Lifecycle::Ready;
        (s.read, s.write, s.frozen) = (None, None, false);
        if !s.pose.translation.vector.norm().is_finite() || s.pose.translation.vector.norm() > 0.1 {
            s.pose = Pose::translation(0.0, 0.05, 0.0);
        }
    });
    bench.steps(10);
    assert_eq!(bench.command(ServoCommand::ClearFault), Ok(()));
    let r = bench.steps(5);
    assert_eq!((r.state, r.fault, r.zero), (ServoState::Idle, Fault::None, ZeroReason::NotArmed));
    puppet.place(Vec3::new(0.0, 0.05, 0.0));
    bench.steps(20);
    bench.arm();
}

#[test]
fn a_lost_device() {
    for lifecycle in [Lifecycle::Absent, Lifecycle::Fault, Lifecycle::Uncalibrated] {
        let (mut bench, puppet) = pressing();
        puppet.with(|s| s.lifecycle = lifecycle);
        bench.step();
        check(&mut bench, &puppet, Fault::DeviceGone);
    }
    let (mut bench, puppet) = pressing();
    puppet.with(|s| s.read = Some(ReadFault::Gone));
    bench.step();
    check(&mut bench, &puppet, Fault::DeviceGone);
}

#[test]
fn a_device_lost_while_nobody_is_armed_is_no_fault() {
    let (mut bench, puppet) = Bench::puppet(Vec3::new(0.0, 0.05, 0.0));
    bench.steps(5);
    for (lifecycle, state, zero) in [
        (Lifecycle::Absent, ServoState::Absent, ZeroReason::NoDevice),
        (Lifecycle::Booting, ServoState::Booting, ZeroReason::NotReady),
        (Lifecycle::Uncalibrated, ServoState::Uncalibrated, ZeroReason::NotReady),
        (Lifecycle::Ready, ServoState::Idle, ZeroReason::NotArmed),
    ] {
        puppet.with(|s| s.lifecycle = lifecycle);
        let r = bench.step();
        assert_eq!((r.state, r.zero, r.fault), (state, zero, Fault::None));
    }
}

#[test]
fn samples_that_are_no_numbers() {
    for bad in [f64::NAN, f64::INFINITY] {
        let (mut bench, puppet) = pressing();
        puppet.with(|s| s.pose.translation.vector.y = bad);
        let r = bench.step();
        assert!(r.position.iter().all(|c| c.is_finite()));
        check(&mut bench, &puppet, Fault::NonFiniteSample);
    }
}

#[test]
fn forces_that_are_no_numbers() {
    let (mut bench, puppet) = pressing();
    // No client may ask for such materials: each force is the largest number there is times a depth, their sum is none.
    let endless = (1..=1000).map(|id| object(id, floor(), Pose::identity(), f64::MAX)).collect();
    bench.publish(scene(2, &sphere_tool(0.01), endless));
    for _ in 0..500 {
        let r = bench.step();
        assert!(r.force.iter().chain(&r.torque).all(|f| f.is_finite()), "tick {}", r.tick);
        assert!(puppet.get().command.force.norm().is_finite());
        if r.state == ServoState::Fault {
            break;
        }
    }
    bench.publish(scene(3, &sphere_tool(0.01), vec![object(1, floor(), Pose::identity(), 1000.0)]));
    check(&mut bench, &puppet, Fault::NonFiniteForce);
}

#[test]
fn a_jump_is_held_for_two_ticks_and_then_a_fault() {
    let (mut bench, puppet) = pressing();
    let (held, at) = (bench.last, puppet.get().pose);
    puppet.place(Vec3::new(0.05, 0.05, 0.0));
    for _ in 0..2 {
        let r = bench.step();
        assert_eq!((r.state, r.position), (ServoState::Rendering, held.position));
        assert!(r.flags & FLAG_HELD_SAMPLE != 0);
    }
    puppet.with(|s| s.pose = at);
    assert_eq!(bench.step().flags & FLAG_HELD_SAMPLE, 0, "a spike passes");
    puppet.place(Vec3::new(0.05, 0.05, 0.0));
    bench.steps(3);
    check(&mut bench, &puppet, Fault::PoseJump);
}

#[test]
fn a_runaway_is_stopped() {
    let (mut bench, puppet) = pressing();
    for _ in 0..4 {
        // 2.5 m/s: plausible with the check's slack, beyond the limit of 2 m/s.
        let at = puppet.get().pose.translation.vector;
        puppet.place(at + Vec3::new(0.0, 2.5e-3, 0.0));
        bench.step();
    }
    check(&mut bench, &puppet, Fault::Velocity);
}

/// A driven rotation, too: 40 rad/s is plausible, beyond the limit of 30.
#[test]
fn a_turn_that_runs_away_is_stopped() {
    let (mut bench, puppet) = pressing();
    for _ in 0..4 {
        puppet
            .with(|s| s.pose.rotation = UnitQuaternion::from_scaled_axis(Vec3::z() * 0.04) * s.pose.rotation);
        bench.step();
    }
    check(&mut bench, &puppet, Fault::Velocity);
}

#[test]
fn outside_the_workspace() {
    let (mut bench, puppet) = pressing();
    while bench.last.state == ServoState::Rendering {
        let at = puppet.get().pose.translation.vector;
        puppet.place(at + Vec3::new(1e-3, 0.0, 0.0));
        bench.step();
        assert!(at.x < 0.6, "three radii of 15 cm");
    }
    assert!(puppet.get().pose.translation.vector.norm() > 0.45);
    check(&mut bench, &puppet, Fault::Workspace);
}

#[test]
fn stale_samples_ramp_down_come_back_or_become_a_fault() {
    let (mut bench, puppet) = pressing();
    let force = norm(bench.last.force);
    puppet.with(|s| s.frozen = true);
    bench.steps(2);
    assert!((norm(bench.last.force) - force).abs() < 0.01 * force, "two ticks are held over");
    assert!((0..51).any(|_| norm(bench.step().force) == 0.0));
    assert_eq!((bench.last.state, bench.last.zero), (ServoState::Rendering, ZeroReason::StaleSample));
    puppet.with(|s| s.frozen = false);
    let back = |r: TickRecord| r.ramp >= 1.0 && r.flags & FLAG_AFTER_LAPSE == 0;
    assert!((0..400).any(|_| back(bench.step())), "fresh samples bring the force back");
    assert!((norm(bench.last.force) - force).abs() < 0.01 * force);
    for read in [ReadFault::Stale, ReadFault::Garbled] {
        let (mut bench, puppet) = pressing();
        puppet.with(|s| s.read = Some(read));
        bench.steps(240);
        assert_eq!(bench.last.state, ServoState::Rendering);
        bench.steps(15);
        check(&mut bench, &puppet, Fault::Stale);
    }
}

/// A device that is ready and has not given a sample yet.
#[test]
fn nobody_arms_without_a_sample() {
    for read in [ReadFault::Stale, ReadFault::Garbled] {
        let (mut bench, puppet) = Bench::puppet(Vec3::new(0.0, 0.05, 0.0));
        puppet.with(|s| s.read = Some(read));
        let answer = bench.command(ServoCommand::Arm { session: 1 });
        let stale = (bench.last.state, bench.last.fault) == (ServoState::Fault, Fault::Stale);
        assert!(answer.is_err() || stale, "{answer:?} {:?}", bench.last);
        bench.steps(50);
        assert_eq!((norm(bench.last.force), puppet.get().command.force.norm()), (0.0, 0.0));
        assert_ne!(bench.last.state, ServoState::Rendering);
    }
}

#[test]
fn refused_writes() {
    for (write, fault) in [
        (WriteFault::Failed, Fault::WriteFailed),
        (WriteFault::NotReady, Fault::WriteFailed),
        (WriteFault::Gone, Fault::DeviceGone),
    ] {
        let (mut bench, puppet) = pressing();
        puppet.with(|s| s.write = Some(write));
        bench.step();
        check(&mut bench, &puppet, fault);
    }
}

#[test]
fn too_many_late_ticks() {
    let (mut bench, puppet) = pressing();
    for k in 1..20 {
        bench.servo.delay(3 * MS);
        let r = bench.step();
        assert_eq!((r.skipped, r.state), (3, ServoState::Rendering), "late tick {k} is tolerated");
        assert_eq!(r.planned_ns % MS, 0, "the phase stays");
    }
    bench.servo.delay(3 * MS);
    bench.step();
    check(&mut bench, &puppet, Fault::Overrun);
}

/// Never twenty in a row, and two hundred in a second, which slides in steps of half of one.
#[test]
fn late_ticks_that_add_up_within_a_second() {
    let (mut bench, puppet) = pressing();
    let (begin, mut late) = (bench.servo.now_ns(), 0);
    while bench.last.state == ServoState::Rendering {
        bench.servo.delay(2 * MS * (late % 2));
        late += 1;
        bench.step();
        assert!(late < 1000, "two of four milliseconds are late");
    }
    let within = bench.servo.now_ns() - begin;
    assert!((400..=500).contains(&late) && within <= 1001 * MS, "{late} ticks in {within} ns");
    check(&mut bench, &puppet, Fault::Overrun);
}

#[test]
fn suspend_stop_and_continue_and_a_long_gap() {
    let (mut bench, puppet) = pressing();
    bench.servo.suspend(1_000 * MS);
    bench.step();
    check(&mut bench, &puppet, Fault::Suspended);
    let (mut bench, puppet) = pressing();
    bench.handle.disarm_flag().continued();
    bench.step();
    check(&mut bench, &puppet, Fault::Suspended);
    let (mut bench, puppet) = pressing();
    bench.servo.delay(300 * MS);
    bench.step();
    check(&mut bench, &puppet, Fault::Suspended);
}

#[test]
fn faults_from_outside() {
    for fault in [Fault::Panic, Fault::ControlDead] {
        let (mut bench, puppet) = pressing();
        bench.handle.disarm_flag().fault(fault);
        bench.step();
        check(&mut bench, &puppet, fault);
    }
}

#[test]
fn a_dropped_handle_is_a_dead_control_plane() {
    let (bench, puppet) = pressing();
    let Bench { handle, mut servo, .. } = bench;
    drop(handle);
    let r = servo.step();
    assert_eq!((r.state, r.fault, norm(r.force)), (ServoState::Fault, Fault::ControlDead, 0.0));
    assert_eq!(puppet.get().command.force.norm(), 0.0);
}

#[test]
fn full_rings_cost_records_and_adoption_and_nothing_else() {
    let (mut bench, puppet) = pressing();
    let force = norm(bench.last.force);
    let before = bench.handle.counters().dropped.load(std::sync::atomic::Ordering::Relaxed);
    // Nobody drains telemetry, nobody reclaims.
    for generation in 2..40 {
        let tool = crate::world::sphere_tool(0.01);
        let floor = crate::world::object(1, crate::world::floor(), Pose::identity(), 1000.0);
        bench.handle.publish(crate::world::scene(generation, &tool, vec![floor])).unwrap();
        bench.servo.step();
    }
    for _ in 0..5000 {
        bench.servo.step();
    }
    let counters = bench.handle.counters();
    assert!(counters.dropped.load(std::sync::atomic::Ordering::Relaxed) > before);
    assert!(counters.return_full.load(std::sync::atomic::Ordering::Relaxed) > 0);
    assert!(bench.handle.counters().generation.load(std::sync::atomic::Ordering::Relaxed) < 39);
    let (n, dropped) = bench.handle.drain(&mut |_| {});
    assert!(n == 4096 && dropped > 0);
    bench.handle.reclaim();
    let r = bench.step();
    assert_eq!(r.generation, 39, "adopted as soon as there is room");
    assert!((norm(r.force) - force).abs() < 0.01 * force);
    assert!(puppet.get().command.force.norm() > 1.0);
}
