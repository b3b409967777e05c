//! The servo thread on the real clock: it starts, ticks, stops at zero, and survives its own panic with zero.

use crate::device::Puppet;
use crate::world::{floor, object, scene, sphere_tool, unhurried};
use hapticd::device::driver;
use hapticd::device::emulated::{self, Bus, Plugged};
use hapticd::device::io::front::Front;
use hapticd::device::io::runner::Runner;
use hapticd::device::io::scheduling::Scheduling;
use hapticd::device::io::shared::Shared;
use hapticd::device::io::thread::{IoThread, now_ns};
use hapticd::device::registry::Registry;
use hapticd::device::simulated::HandScript;
use hapticd::geometry::{Pose, Vec3};
use hapticd::servo::handle::{ServoCommand, ServoConfig, ServoHandle, channel};
use hapticd::servo::record::{Fault, ServoState};
use hapticd::servo::rt::RtOptions;
use hapticd::servo::run::{Ended, ServoThread, spawn};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

fn start(options: RtOptions) -> (ServoHandle, ServoThread, Puppet) {
    let puppet = Puppet::new(Vec3::new(0.0, 0.02, 0.0));
    let config = ServoConfig { gate_ticks: 5, ramp_up: 0.01, ..unhurried() };
    let (mut handle, end) = channel(config);
    handle.publish(scene(1, &sphere_tool(0.01), vec![object(1, floor(), Pose::identity(), 1000.0)])).unwrap();
    let thread = spawn(end, Box::new(puppet.clone()), options).expect("starts");
    (handle, thread, puppet)
}

fn wait(what: &str, mut until: impl FnMut() -> bool) {
    let began = Instant::now();
    while !until() {
        assert!(began.elapsed() < Duration::from_secs(60), "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Arms and pushes the puppet into the floor, at a plausible speed.
fn press(handle: &mut ServoHandle, puppet: &Puppet) {
    let counters = handle.counters();
    wait("idle", || counters.state() == ServoState::Idle);
    handle.send(ServoCommand::Arm { session: 1 }).unwrap();
    handle.send(ServoCommand::Lease { until_ns: u64::MAX }).unwrap();
    wait("rendering", || counters.state() == ServoState::Rendering);
    wait("contact", || {
        let at = puppet.get().pose.translation.vector;
        if at.y > 0.007 {
            puppet.place(at - Vec3::new(0.0, 1e-4, 0.0));
        }
        puppet.get().command.force.y > 1.0
    });
}

#[test]
fn it_renders_and_stops_at_zero() {
    let (mut handle, thread, puppet) = start(RtOptions { priority: 5, ..RtOptions::none() });
    press(&mut handle, &puppet);
    handle.stop();
    let counters = handle.counters();
    let (ended, device) = thread.join();
    assert_eq!((ended, device.is_some(), counters.ended()), (Ended::Stopped, true, true));
    assert_eq!(puppet.get().command.force.norm(), 0.0);
    assert!(counters.ticks.load(SeqCst) > 10 && counters.fault() == Fault::None);
    assert_eq!(counters.heap.load(SeqCst), 0);
}

#[test]
fn a_panic_in_the_tick_commands_zero_and_is_told() {
    let (mut handle, thread, puppet) = start(RtOptions::none());
    press(&mut handle, &puppet);
    // The puppet's lock is poisoned by the panic; it reads on.
    puppet.with(|s| s.panic = true);
    let counters = handle.counters();
    wait("the end", || counters.ended());
    assert_eq!((counters.state(), counters.fault()), (ServoState::Fault, Fault::Panic));
    assert_eq!(thread.join().0, Ended::Panicked);
    let state = puppet.get_poisoned();
    assert_eq!(state.command.force.norm(), 0.0);
    assert!(state.zeros > 0);
}

#[test]
fn dropping_the_thread_stops_it_at_zero() {
    let (mut handle, thread, puppet) = start(RtOptions::none());
    press(&mut handle, &puppet);
    drop(thread);
    assert_eq!(puppet.get().command.force.norm(), 0.0);
    assert!(handle.counters().ended());
}

#[test]
fn require_rt_refuses_to_arm_when_degraded() {
    let impossible = RtOptions { cpu: Some(4000), require_rt: true, ..RtOptions::none() };
    let (mut handle, thread, _) = start(impossible);
    assert!(!thread.report().ok(), "{}", thread.report());
    is_refused(&mut handle);
}

/// The servo has all that it asked for; the thread of the device's I/O, which must run before it, has not.
#[test]
fn require_rt_refuses_to_arm_when_the_device_s_io_is_degraded() {
    let profile = Registry::builtin().profile("novint-falcon").expect("shipped");
    let gadget = emulated::falcon::Falcon::new(&profile, &HandScript::default(), Default::default());
    let plugged = Plugged::real(Bus::new(gadget.expect("in reach"), 0.0, 0, false), now_ns());
    let shared = Arc::new(Shared::default());
    let runner = Runner::new(Box::new(plugged), Box::new(driver::falcon::Falcon::new(None)), shared.clone());
    let beyond = Scheduling { priority: 100, cpu: None };
    let io = IoThread::start(runner, shared.clone(), beyond).expect("runs all the same");
    let front = Front::new(profile, shared, Some(io));
    let (mut handle, end) = channel(ServoConfig::default());
    let options = RtOptions { require_rt: true, ..RtOptions::none() };
    let thread = spawn(end, Box::new(front), options).expect("starts");
    assert_eq!(thread.report().summary(), "degraded: device I/O");
    assert!(thread.report().to_string().contains("priority 100"), "{}", thread.report());
    is_refused(&mut handle);
}

/// Arming is refused for want of real-time set-up.
fn is_refused(handle: &mut ServoHandle) {
    let counters = handle.counters();
    wait("idle", || counters.state() == ServoState::Idle);
    let id = handle.send(ServoCommand::Arm { session: 1 }).unwrap();
    let mut answer = None;
    wait("an answer", || {
        answer = handle.acks().find(|a| a.id == id);
        answer.is_some()
    });
    assert_eq!(answer.unwrap().result, Err(hapticd::servo::handle::Refusal::Degraded));
    assert_eq!(counters.state(), ServoState::Idle);
    handle.stop();
}
