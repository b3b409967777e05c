//! The real servo thread against the kernel: in child processes that die on any system call but the clock's sleep, and
//! with the kernel's own account of page faults and waits. Each check is shown to catch a deliberate violation. The device is a simulated
//! one, called by the tick itself, or one behind its I/O thread, which stands still at times and is unplugged.

use crate::device::Hooked;
use crate::sealed::{deny_all_but_the_sleep, ends, in_child};
use crate::world::{MS, cube_tool, floor, object, scene, sphere_tool, streamed, unhurried};
use hapticd::contact::Friction;
use hapticd::device::emulated::bus::{Bus, Plugged};
use hapticd::device::emulated::falcon::{Falcon, Setup};
use hapticd::device::io;
use hapticd::device::io::scheduling::Scheduling;
use hapticd::device::io::thread::now_ns;
use hapticd::device::registry::{OpenOptions, Registry};
use hapticd::device::simulated::HandScript;
use hapticd::device::{Device, ReadFault, driver};
use hapticd::geometry::{Pose, Vec3};
use hapticd::scene::snapshot::{MotionFrame, SnapshotObject};
use hapticd::servo::handle::{ServoCommand, ServoConfig, ServoHandle, channel, monotonic_ns};
use hapticd::servo::record::{FLAG_HELD_SAMPLE, ServoState, TickRecord};
use hapticd::servo::rt::RtOptions;
use hapticd::servo::run::{ServoThread, spawn};
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::signal::Signal;
use seccompiler::apply_filter;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const MODE: &str = "HAPTICD_TEST_SERVO_CHILD";
/// Ticks from which on a child is watched: everything has been touched once by then.
const WARM: u64 = 300;
/// Ticks after which a child has seen everything.
const DONE: u64 = 3000;

const HAND: &str = "
hand = 'normal'
repeat = true
keyframe = [
  { time = 0.0, position = [0.0, 0.02, 0.0] },
  { time = 0.3, position = [0.0, 0.004, 0.001] },
  { time = 0.6, position = [0.0, 0.02, 0.0] },
]
";

/// What is driven, and where it is plugged in.
pub struct Driven {
    pub device: Box<dyn Device>,
    pub plugged: Option<Plugged<Falcon>>,
}

fn hand() -> HandScript {
    HandScript::parse(HAND).expect("parses")
}

fn simulated() -> Driven {
    let options = OpenOptions { hand: hand(), ..OpenOptions::default() };
    let mut device = Registry::builtin().open("ideal-6dof", &options).expect("opens");
    device.calibrate().expect("calibrates");
    Driven { device, plugged: None }
}

/// A Falcon on a bus of the machine's clock, behind its driver's I/O thread.
pub fn attached() -> Driven {
    let profile = Registry::builtin().profile("novint-falcon").expect("shipped");
    let gadget = Falcon::new(&profile, &hand(), Setup::default()).expect("in reach");
    let plugged = Plugged::real(Bus::new(gadget, 0.0, 0, false), now_ns());
    let port = Box::new(driver::falcon::Falcon::new(None));
    let front = io::start(profile, Box::new(plugged.clone()), port, Scheduling::default());
    Driven { device: Box::new(front.expect("a thread")), plugged: Some(plugged) }
}

/// What befalls a device on a bus.
#[derive(Default)]
struct Fate {
    unplugged: u64,
    /// Looks until it is plugged in again.
    away: u32,
}

impl Fate {
    /// While the servo reads for the `k`-th time. It does not read what is not there.
    fn befalls(&mut self, plugged: &Plugged<Falcon>, k: u64) {
        if self.away > 0 {
            self.away -= 1;
            if self.away == 0 {
                plugged.bus().plug(now_ns());
            }
        } else if k >= 1000 * self.unplugged + 400 {
            plugged.bus().unplug(now_ns());
            *self = Self { unplugged: self.unplugged + 1, away: 100 };
        } else if k % 500 < 100 {
            // Each transfer that the I/O thread begins waits, as one of the kernel's may.
            let _bus = plugged.bus();
            std::thread::sleep(Duration::from_millis(30));
        }
    }
}

/// Runs the servo on the real clock through contact, a scene swap each tick or so, a motion stream, full rings, device
/// loss, arming, ramp and fault, until `hook` has seen [`DONE`] reads; it is told the ticks so far, too.
fn live(
    driven: Driven,
    mut hook: impl FnMut(u64, u64) + Send + 'static,
) -> (Vec<TickRecord>, (ServoHandle, ServoThread)) {
    let Driven { device: inner, plugged } = driven;
    // The machine may be busy with other tests: lateness is not what is tested here.
    let config = ServoConfig { telemetry_ring: 256, ..unhurried() };
    let (mut handle, end) = channel(config);
    let (reads, counters) = (Arc::new(AtomicU64::new(0)), handle.counters());
    let seen = reads.clone();
    let watched = move |n| {
        hook(n, counters.ticks.load(Relaxed));
        seen.store(n, SeqCst);
        // A script of losses.
        match n % 1000 {
            700..720 => Some(ReadFault::Stale),
            900..905 => Some(ReadFault::Gone),
            _ => None,
        }
    };
    let device = Hooked::new(inner, Box::new(watched));
    let thread = spawn(end, device, RtOptions { priority: 10, ..RtOptions::none() }).expect("starts");
    let (cube, sphere, flat) = (cube_tool(3000), sphere_tool(0.01), floor());
    let mut records = Vec::new();
    let mut generation = 0;
    let began = Instant::now();
    let (missing, mut fate) = (|records: &[TickRecord]| missing(records, plugged.is_some()), Fate::default());
    // On a busy machine this thread is late to arm and to drain: then it takes more rounds.
    while (reads.load(SeqCst) < DONE || missing(&records).is_some()) && !thread.ended() {
        let seen = (reads.load(SeqCst), missing(&records));
        assert!(began.elapsed() < Duration::from_secs(120), "the servo hangs, or shows no {seen:?}");
        generation += 1;
        let k = reads.load(SeqCst);
        let tool = if k % 1000 < 950 { &cube } else { &sphere };
        let mut still = object(1, flat.clone(), Pose::identity(), 800.0 + (generation % 5) as f64);
        still.material.friction = Friction::of(0.4);
        let moving = SnapshotObject { motion: Some(0), ..object(2, flat.clone(), Pose::identity(), 300.0) };
        handle.publish(scene(generation, tool, vec![still, moving])).expect("generations rise");
        let now = monotonic_ns();
        let entry = streamed(2, now - 2 * MS, now + 50 * MS, |_| Vec3::new(0.0, -0.001, 0.0));
        handle.publish_motion(Box::new(MotionFrame { sequence: generation, entries: vec![Some(entry)] }));
        let _ = handle.send(ServoCommand::ClearFault);
        let _ = handle.send(ServoCommand::Arm { session: 1 });
        let _ = handle.send(ServoCommand::Lease { until_ns: u64::MAX });
        handle.acks().for_each(drop);
        if k % 1000 < 800 {
            // The rest of the time all rings run full.
            handle.reclaim();
            handle.drain(&mut |r| records.push(*r));
        }
        if let Some(plugged) = &plugged {
            fate.befalls(plugged, k);
        }
        std::thread::sleep(Duration::from_micros(700));
    }
    assert_eq!(missing(&records), None);
    assert_eq!(handle.counters().heap.load(Relaxed), 0, "heap operations in ticks");
    (records, (handle, thread))
}

/// What the run was meant to see and has not.
fn missing(records: &[TickRecord], attached: bool) -> Option<&'static str> {
    let count = |f: &dyn Fn(&TickRecord) -> bool| records.iter().filter(|r| f(r)).count();
    [
        ("contact", 200, count(&|r| r.touched > 0)),
        ("force", 50, count(&|r| r.state == ServoState::Rendering && r.force[1] > 0.0)),
        ("gate", 20, count(&|r| r.state == ServoState::Armed)),
        ("device loss as a fault", 0, count(&|r| r.state == ServoState::Fault)),
        ("stream and swaps", 1000, count(&|r| r.motion_seq > 0 && r.generation > 1)),
        ("held samples", 20, count(&|r| r.flags & FLAG_HELD_SAMPLE != 0)),
    ]
    .into_iter()
    .chain(attached.then(|| ("absence", 20, count(&|r| r.state == ServoState::Absent))))
    .find_map(|(what, more_than, seen)| (seen <= more_than).then_some(what))
}

/// Runs in the child; the parent reads its exit status.
fn child(mode: &str) -> ! {
    let (device, does) = mode.split_once(' ').expect("a device, and what the tick does");
    let driven = if device == "attached" { attached() } else { simulated() };
    let (filter, does, plugged) = (deny_all_but_the_sleep(), does.to_owned(), driven.plugged.clone());
    let lock = Arc::new(Mutex::new(()));
    let held = lock.clone();
    std::thread::spawn(move || {
        let _guard = held.lock();
        std::thread::sleep(Duration::from_secs(600));
    });
    let servo = live(driven, move |n, _| {
        if n == WARM {
            apply_filter(&filter).expect("installs");
        }
        if n >= WARM + 100 {
            match &*does {
                // SAFETY: asks for a number. libc caches nothing here.
                "getpid" => drop(unsafe { libc::syscall(libc::SYS_getpid) }),
                "lock" => drop(lock.lock()),
                // As a driver that waits for its device would.
                "waits" => drop(plugged.as_ref().expect("attached").bus()),
                _ => {}
            }
        }
    });
    // The thread may not even end, that too is a system call; it ticks on until the process ends.
    std::mem::forget(servo);
    // SAFETY: ends the process, nothing else.
    unsafe { libc::_exit(0) }
}

/// Runs that test in the given mode in a child process.
fn spawn_child(mode: &str) -> ExitStatus {
    ends(&mut in_child("isolation::in_a_child", MODE, mode))
}

#[test]
fn in_a_child() {
    match std::env::var(MODE) {
        Ok(mode) => child(&mode),
        Err(_) => println!("nothing to do: this is what the other tests run in a child process"),
    }
}

#[test]
fn the_tick_makes_no_system_call_but_its_sleep() {
    assert!(spawn_child("simulated nothing").success());
}

/// Whatever befalls the device, its transfers or its I/O thread.
#[test]
fn the_tick_of_a_device_with_an_io_thread_makes_no_system_call_but_its_sleep() {
    assert!(spawn_child("attached nothing").success());
}

#[test]
fn a_system_call_a_held_lock_or_a_wait_for_the_device_in_the_tick_kills_the_child() {
    for mode in ["simulated getpid", "simulated lock", "attached getpid", "attached lock", "attached waits"] {
        assert_eq!(spawn_child(mode).signal(), Some(Signal::SIGSYS as i32), "{mode}");
    }
}

/// Growth of the servo thread's account over the watched ticks: (major faults, minor faults, voluntary waits, ticks).
fn account(driven: Driven, extra: impl Fn() + Send + 'static) -> (i64, i64, i64, i64) {
    let usages: Arc<Mutex<Vec<(Usage, u64)>>> = Arc::new(Mutex::new(Vec::with_capacity(2)));
    let noted = usages.clone();
    let servo = live(driven, move |n, ticks| {
        if n == WARM || n == DONE {
            noted.lock().unwrap().push((getrusage(UsageWho::RUSAGE_THREAD).expect("always there"), ticks));
        }
        if n > WARM {
            extra();
        }
    });
    drop(servo);
    let usages = usages.lock().unwrap();
    let ((a, begin), (b, end)) = (&usages[0], &usages[1]);
    (
        b.major_page_faults() - a.major_page_faults(),
        b.minor_page_faults() - a.minor_page_faults(),
        b.voluntary_context_switches() - a.voluntary_context_switches(),
        (end - begin) as i64,
    )
}

#[test]
fn the_tick_faults_no_page_in_and_waits_once_a_tick_at_most() {
    for driven in [simulated(), attached()] {
        let (major, minor, waits, ticks) = account(driven, || {});
        assert_eq!(major, 0);
        println!("{major} major and {minor} minor faults, {waits} waits in {ticks} ticks");
        // The scenes that control publishes are new memory; the servo may be the first to read a page of them.
        assert!(minor <= ticks / 10, "{minor} minor faults in {ticks} ticks");
        assert!(waits <= ticks + 10, "{waits} waits in {ticks} ticks");
    }
}

#[test]
fn a_wait_in_the_tick_shows_in_the_account() {
    for driven in [simulated(), attached()] {
        let (_, _, waits, ticks) = account(driven, || std::thread::sleep(Duration::from_micros(50)));
        assert!(waits > ticks + 10, "{waits} waits in {ticks} ticks");
    }
}
