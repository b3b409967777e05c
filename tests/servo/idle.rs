//! What a device that is pulled out in contact leaves behind: a process that costs what it cost before the device came. In a child process, so that no other test counts.

use crate::isolation::{Driven, attached};
use crate::sealed::{ends, in_child};
use crate::world::{floor, object, scene, sphere_tool, unhurried};
use hapticd::device::io::thread::now_ns;
use hapticd::geometry::Pose;
use hapticd::servo::handle::{ServoCommand, ServoHandle, channel};
use hapticd::servo::record::ServoState;
use hapticd::servo::rt::RtOptions;
use hapticd::servo::run::spawn;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

const MODE: &str = "HAPTICD_TEST_IDLE_CHILD";

/// What a second costs: processor time of the process and of its I/O thread in us, and how often that thread woke up. By the servo's ticks, of which a busy machine lets
/// fewer come.
#[derive(Debug)]
struct Cost {
    process: f64,
    io: f64,
    wakes: f64,
}

fn io_thread() -> PathBuf {
    let tasks = std::fs::read_dir("/proc/self/task").expect("threads").flatten().map(|t| t.path());
    let named = |t: &PathBuf| std::fs::read_to_string(t.join("comm")).is_ok_and(|n| n.trim() == "device-io");
    tasks.into_iter().find(named).expect("an I/O thread")
}

/// Processor time of the process and of the I/O thread in µs, and its voluntary waits.
fn spent() -> [f64; 3] {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("always there");
    let process = (usage.user_time() + usage.system_time()).num_microseconds() as f64;
    let read = |file: &str| std::fs::read_to_string(io_thread().join(file)).expect("told");
    let ran: f64 = read("schedstat").split(' ').next().and_then(|t| t.parse().ok()).expect("ns");
    let waits = read("status");
    let waits = waits.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:")).expect("told");
    [process, ran * 1e-3, waits.trim().parse().expect("a number")]
}

fn cost(handle: &mut ServoHandle) -> Cost {
    let counters = handle.counters();
    let (ticks, before, begin) = (counters.ticks.load(Relaxed), spent(), Instant::now());
    while begin.elapsed() < Duration::from_secs(1) {
        handle.drain(&mut |_| {});
        std::thread::sleep(Duration::from_millis(10));
    }
    let (after, ticks) = (spent(), (counters.ticks.load(Relaxed) - ticks) as f64);
    let [process, io, wakes] = std::array::from_fn(|i| (after[i] - before[i]) / ticks);
    Cost { process, io, wakes }
}

fn child() {
    let Driven { device, plugged } = attached();
    let plugged = plugged.expect("on a bus");
    plugged.bus().unplug(now_ns());
    let shared = device.io().expect("its I/O");
    let config = unhurried();
    let (mut handle, end) = channel(config);
    let objects = vec![object(1, floor(), Pose::identity(), 800.0)];
    handle.publish(scene(1, &sphere_tool(0.01), objects)).expect("first");
    let servo = spawn(end, device, RtOptions { priority: 10, ..RtOptions::none() }).expect("starts");
    let counters = handle.counters();
    let wait = |handle: &mut ServoHandle, what: &str, so: &dyn Fn(f64) -> bool| {
        let (begin, mut pushes) = (Instant::now(), 0.0);
        while !so(pushes) {
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "never: {what}: {:?} {}",
                counters.state(),
                shared.trouble()
            );
            handle.drain(&mut |r| pushes = r.force[1]);
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    wait(&mut handle, "absent", &|_| counters.state() == ServoState::Absent);
    let before = cost(&mut handle);
    plugged.bus().plug(now_ns());
    wait(&mut handle, "idle", &|_| counters.state() == ServoState::Idle);
    handle.send(ServoCommand::Arm { session: 1 }).expect("room");
    handle.send(ServoCommand::Lease { until_ns: u64::MAX }).expect("room");
    wait(&mut handle, "contact", &|pushes| pushes > 0.3);
    let busy = cost(&mut handle);
    wait(&mut handle, "contact", &|pushes| pushes > 0.3);
    plugged.bus().unplug(now_ns());
    wait(&mut handle, "a fault", &|_| counters.state() == ServoState::Fault);
    let after = cost(&mut handle);
    println!("before it came {before:?}; in contact {busy:?}; unplugged in contact {after:?}");
    // A busy loop takes all of a processor: 1000 us a tick.
    assert!(after.process < 4.0 * before.process, "{before:?} {after:?}");
    assert!(after.io < 0.2 * busy.io && after.wakes < 0.2 * busy.wakes, "{busy:?} {after:?}");
    drop(servo);
}

#[test]
fn in_a_child() {
    match std::env::var(MODE) {
        Ok(_) => child(),
        Err(_) => println!("nothing to do: this is what the other test runs in a child process"),
    }
}

#[test]
fn unplugged_in_contact_a_device_leaves_a_process_as_idle_as_before_it_came() {
    assert!(ends(&mut in_child("idle::in_a_child", MODE, "unplugged")).success());
}
