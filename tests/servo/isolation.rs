//! The real servo thread against the kernel: in child processes that die on any system call but the clock's sleep, and
//! with the kernel's own account of page faults and waits. Each check is shown to catch a deliberate violation.

use crate::device::Hooked;
use crate::world::{MS, cube_tool, floor, in_child, object, scene, sphere_tool, streamed};
use hapticd::contact::Friction;
use hapticd::device::ReadFault;
use hapticd::device::registry::{OpenOptions, Registry};
use hapticd::device::simulated::HandScript;
use hapticd::geometry::{Pose, Vec3};
use hapticd::scene::snapshot::{MotionFrame, SnapshotObject};
use hapticd::servo::handle::{ServoCommand, ServoConfig, ServoHandle, channel, monotonic_ns};
use hapticd::servo::record::{ServoState, TickRecord};
use hapticd::servo::rt::RtOptions;
use hapticd::servo::run::{ServoThread, spawn};
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::signal::Signal;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
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

/// Runs the servo on the real clock through contact, a scene swap each tick or so, a motion stream, full rings, device
/// loss, arming, ramp and fault, until `hook` has seen [`DONE`] reads.
fn live(mut hook: impl FnMut(u64) + Send + 'static) -> (Vec<TickRecord>, (ServoHandle, ServoThread)) {
    let options = OpenOptions { hand: HandScript::parse(HAND).expect("parses"), ..OpenOptions::default() };
    let mut inner = Registry::builtin().open("ideal-6dof", &options).expect("opens");
    inner.calibrate().expect("calibrates");
    let reads = Arc::new(AtomicU64::new(0));
    let seen = reads.clone();
    let watched = move |n| {
        hook(n);
        seen.store(n, SeqCst);
        // A script of losses.
        match n % 1000 {
            700..720 => Some(ReadFault::Stale),
            900..905 => Some(ReadFault::Gone),
            _ => None,
        }
    };
    let device = Hooked::new(inner, Box::new(watched));
    // The machine may be busy with other tests: lateness is not what is tested here.
    let config = ServoConfig {
        late_in_row: u32::MAX,
        late_per_second: u32::MAX,
        max_gap: 60.0,
        telemetry_ring: 256,
        ..ServoConfig::default()
    };
    let (mut handle, end) = channel(config);
    let thread = spawn(end, device, RtOptions { priority: 10, ..RtOptions::none() }).expect("starts");
    let (cube, sphere, flat) = (cube_tool(3000), sphere_tool(0.01), floor());
    let mut records = Vec::new();
    let mut generation = 0;
    let began = Instant::now();
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
        std::thread::sleep(Duration::from_micros(700));
    }
    (records, (handle, thread))
}

/// What the run was meant to see and has not.
fn missing(records: &[TickRecord]) -> Option<&'static str> {
    let count = |f: &dyn Fn(&TickRecord) -> bool| records.iter().filter(|r| f(r)).count();
    [
        ("contact", 200, count(&|r| r.touched > 0)),
        ("force", 50, count(&|r| r.state == ServoState::Rendering && r.force[1] > 0.0)),
        ("gate", 20, count(&|r| r.state == ServoState::Armed)),
        ("device loss as a fault", 0, count(&|r| r.state == ServoState::Fault)),
        ("stream and swaps", 1000, count(&|r| r.motion_seq > 0 && r.generation > 1)),
    ]
    .into_iter()
    .find_map(|(what, more_than, seen)| (seen <= more_than).then_some(what))
}

fn check(records: &[TickRecord]) {
    assert_eq!(missing(records), None);
}

fn deny_all_but_the_sleep() -> BpfProgram {
    let filter = SeccompFilter::new(
        [(libc::SYS_clock_nanosleep, vec![])].into_iter().collect(),
        SeccompAction::KillProcess,
        SeccompAction::Allow,
        std::env::consts::ARCH.try_into().expect("a known architecture"),
    );
    filter.expect("a sound filter").try_into().expect("compiles")
}

/// Runs in the child; the parent reads its exit status.
fn child(mode: &str) -> ! {
    let filter = deny_all_but_the_sleep();
    // SAFETY: ends the process, nothing else.
    let ok = || unsafe { libc::_exit(0) };
    match mode {
        "seccomp" => {
            let (records, servo) = live(move |n| {
                if n == WARM {
                    apply_filter(&filter).expect("installs");
                }
            });
            check(&records);
            // The thread may not even end, that too is a system call; it ticks on until the process ends.
            std::mem::forget(servo);
            ok()
        }
        "seccomp-getpid" | "seccomp-lock" => {
            let lock = Arc::new(Mutex::new(()));
            let held = lock.clone();
            std::thread::spawn(move || {
                let _guard = held.lock();
                std::thread::sleep(Duration::from_secs(60));
            });
            let call = mode == "seccomp-getpid";
            let servo = live(move |n| {
                if n == WARM {
                    apply_filter(&filter).expect("installs");
                }
                if n == WARM + 100 {
                    if call {
                        std::hint::black_box(std::process::id());
                        // SAFETY: asks for a number. libc caches nothing here.
                        unsafe { libc::syscall(libc::SYS_getpid) };
                    } else {
                        drop(lock.lock());
                    }
                }
            });
            std::mem::forget(servo);
            ok()
        }
        _ => panic!("unknown mode {mode}"),
    }
}

/// Runs that test in the given mode in a child process.
fn spawn_child(mode: &str) -> ExitStatus {
    let output = in_child("isolation::in_a_child", MODE, mode).output().expect("runs");
    if !output.status.success() && output.status.signal().is_none() {
        panic!("{mode}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    output.status
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
    assert!(spawn_child("seccomp").success());
}

#[test]
fn a_system_call_in_the_tick_kills_the_child() {
    assert_eq!(spawn_child("seccomp-getpid").signal(), Some(Signal::SIGSYS as i32));
}

#[test]
fn a_contended_lock_in_the_tick_kills_the_child() {
    assert_eq!(spawn_child("seccomp-lock").signal(), Some(Signal::SIGSYS as i32));
}

/// Growth of the servo thread's account over the watched ticks: (major faults, minor faults, voluntary waits, ticks).
fn account(extra: impl Fn() + Send + 'static) -> (i64, i64, i64, i64) {
    let usages: Arc<Mutex<Vec<Usage>>> = Arc::new(Mutex::new(Vec::with_capacity(2)));
    let noted = usages.clone();
    let (records, servo) = live(move |n| {
        if n == WARM || n == DONE {
            noted.lock().unwrap().push(getrusage(UsageWho::RUSAGE_THREAD).expect("always there"));
        }
        if n > WARM {
            extra();
        }
    });
    drop(servo);
    check(&records);
    let usages = usages.lock().unwrap();
    let (a, b) = (&usages[0], &usages[1]);
    (
        b.major_page_faults() - a.major_page_faults(),
        b.minor_page_faults() - a.minor_page_faults(),
        b.voluntary_context_switches() - a.voluntary_context_switches(),
        (DONE - WARM) as i64,
    )
}

#[test]
fn the_tick_faults_no_page_in_and_waits_once_a_tick_at_most() {
    let (major, minor, waits, ticks) = account(|| {});
    assert_eq!(major, 0);
    // The scenes that control publishes are new memory; the servo may be the first to read a page of them.
    assert!(minor <= ticks / 10, "{minor} minor faults in {ticks} ticks");
    assert!(waits <= ticks + 10, "{waits} waits in {ticks} ticks");
}

#[test]
fn a_wait_in_the_tick_shows_in_the_account() {
    let (_, _, waits, ticks) = account(|| std::thread::sleep(Duration::from_micros(50)));
    assert!(waits > ticks + 10, "{waits} waits in {ticks} ticks");
}
