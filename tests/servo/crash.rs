//! Broken code inside the servo thread while it pushes: in child processes that die of it, with their plant's last command
//! read from outside.

use crate::device::Hooked;
use crate::sealed::in_child;
use crate::world::{cube_tool, floor, object, scene, unhurried};
use hapticd::control::signals;
use hapticd::device::registry::{OpenOptions, Registry};
use hapticd::device::simulated::probe::Reading;
use hapticd::device::simulated::{HandScript, Probe};
use hapticd::geometry::Pose;
use hapticd::servo::handle::{ServoCommand, channel};
use hapticd::servo::rt::RtOptions;
use hapticd::servo::run::spawn;
use nix::sys::signal::Signal;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

const MODE: &str = "HAPTICD_TEST_CRASH_CHILD";
const PROBE: &str = "HAPTICD_TEST_CRASH_PROBE";
/// Exit code of a child that leaves in the panic's hook.
const LEFT: i32 = 42;
/// Pushing ticks before the code breaks.
const PUSHES: u32 = 200;

fn break_down(mode: &str) {
    match mode {
        // SAFETY: none; the first page is never mapped, and the signal is what is tested.
        "segv" => drop(std::hint::black_box(unsafe {
            std::ptr::read_volatile(std::ptr::without_provenance::<u64>(8))
        })),
        "overflow" => drop(std::hint::black_box(deeper(1))),
        "abort" => std::process::abort(),
        // SAFETY: raise takes a number.
        "fpe" => drop(unsafe { libc::raise(libc::SIGFPE) }),
        // The kernel tells of it at RLIMIT_RTTIME, which needs rights; the test sends what the kernel would.
        "hang" => loop {
            std::hint::spin_loop();
        },
        "panic" | "panic of several" => panic!("what is tested"),
        other => panic!("unknown mode {other}"),
    }
}

#[allow(unconditional_recursion)]
fn deeper(n: u64) -> u64 {
    let here = std::hint::black_box([n; 64]);
    deeper(n + 1) + here[n as usize % 64]
}

const HAND: &str = "
hand = 'normal'
keyframe = [
  { time = 0.0, position = [0.0, 0.05, 0.0] },
  { time = 1.0, position = [0.0, 0.05, 0.0] },
  { time = 1.5, position = [0.0, 0.004, 0.001] },
]
";

fn child(mode: &str) -> ! {
    let page = std::env::var(PROBE).expect("a path");
    let probe = Arc::new(Probe::create(Path::new(&page)).expect("a page"));
    let options = OpenOptions {
        hand: HandScript::parse(HAND).expect("parses"),
        probe: Some(probe.clone()),
        ..OpenOptions::default()
    };
    let inner = Registry::builtin().open("ideal-6dof", &options).expect("opens");
    let (panics, devices) = (mode.starts_with("panic"), if mode == "panic of several" { 2 } else { 1 });
    let (mode, mut pushes) = (mode.to_owned(), 0);
    let breaking = move |_| {
        pushes += u32::from(probe.read().wrench.force.norm() > 0.5);
        if pushes == PUSHES {
            break_down(&mode);
        }
        None
    };
    let device = Hooked::new(inner, Box::new(breaking));
    let config = unhurried();
    let (mut handle, end) = channel(config);
    if panics {
        // Whatever the unwinding servo would say itself comes too late: what is read outside is what the daemon's hook has done.
        // SAFETY: _exit takes a number.
        std::panic::set_hook(Box::new(|_| unsafe { libc::_exit(LEFT) }));
    }
    signals::install(-1, devices).expect("installs");
    signals::watch(0, handle.disarm_flag(), handle.counters());
    let cube = cube_tool(1000);
    handle.publish(scene(1, &cube, vec![object(1, floor(), Pose::identity(), 1000.0)])).expect("the first");
    let servo = signals::blocked(|| spawn(end, device, RtOptions::none())).expect("starts");
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until && !servo.ended() {
        let _ = handle.send(ServoCommand::Arm { session: 1 });
        let _ = handle.send(ServoCommand::Lease { until_ns: u64::MAX });
        handle.acks().for_each(drop);
        handle.reclaim();
        handle.drain(&mut |_| ());
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("the code did not break");
}

#[test]
fn in_a_child() {
    match std::env::var(MODE) {
        Ok(mode) => child(&mode),
        Err(_) => println!("nothing to do: this is what the other test runs in child processes"),
    }
}

/// The servo's own thread runs into each kind of fault, or into no end, while it pushes: the handler says zero in its
/// place, and the process ends as the fault ends it.
#[test]
fn a_servo_that_breaks_while_it_pushes_leaves_no_force() {
    std::thread::scope(|scope| {
        for (mode, ends) in [
            ("segv", Signal::SIGSEGV),
            // The runtime says "stack overflow" and aborts.
            ("overflow", Signal::SIGABRT),
            ("abort", Signal::SIGABRT),
            ("fpe", Signal::SIGFPE),
            ("hang", Signal::SIGXCPU),
        ] {
            scope.spawn(move || dies(mode, ends));
        }
    });
}

/// A servo that panics while it pushes has its device's zero said at once, before it unwinds: of one device and of several.
#[test]
fn a_servo_that_panics_while_it_pushes_has_its_zero_at_once() {
    for mode in ["panic", "panic of several"] {
        let (status, said, plant) = broken(mode);
        assert_eq!(status.code(), Some(LEFT), "{mode}: {status}\n{said}");
        assert!(plant.is_zero() && plant.zeros >= 1 && plant.since_zero == 0, "{mode}: {plant:?}\n{said}");
    }
}

/// How that child ended, what it said, and the plant's last command.
fn broken(mode: &str) -> (ExitStatus, String, Reading) {
    let dir = tempfile::tempdir().expect("a directory");
    let probe = dir.path().join("probe");
    let log = dir.path().join("log");
    let mut child = in_child("crash::in_a_child", MODE, mode)
        .env(PROBE, &probe)
        .stderr(std::fs::File::create(&log).expect("a log"))
        .spawn()
        .expect("runs");
    let until = Instant::now() + Duration::from_secs(90);
    let (mut pushed, mut stuck, mut last) = (false, None, 0);
    let status = loop {
        if let Some(status) = child.try_wait().expect("waits") {
            break status;
        }
        assert!(Instant::now() < until, "{mode}: neither broke nor ended");
        if let Ok(page) = Probe::open(&probe) {
            let r = page.read();
            pushed |= r.wrench.force.norm() > 0.5;
            // No command for a second, with a force: it hangs.
            if r.count != last || r.is_zero() {
                (last, stuck) = (r.count, Some(Instant::now()));
            } else if mode == "hang" && stuck.is_some_and(|t| t.elapsed() > Duration::from_secs(1)) {
                let pid = nix::unistd::Pid::from_raw(child.id() as i32);
                nix::sys::signal::kill(pid, Signal::SIGXCPU).expect("signals");
                stuck = None;
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let said = std::fs::read_to_string(&log).expect("a log");
    assert!(pushed, "{mode}: it never pushed\n{said}");
    let plant = Probe::open(&probe).expect("a probe").read();
    (status, said, plant)
}

fn dies(mode: &str, ends: Signal) {
    let (status, said, plant) = broken(mode);
    assert_eq!(status.signal(), Some(ends as i32), "{mode}: {status}\n{said}");
    assert!(plant.is_zero() && plant.zeros >= 1 && plant.since_zero == 0, "{mode}: {plant:?}\n{said}");
    assert!(said.contains("could not command zero force; it was done in its place"), "{mode}: {said}");
    if mode == "segv" {
        // What it wanted, and an instruction of this very program.
        let (_, rest) = said.split_once("; address 0x0000000000000008 by the instruction 0x").expect(&said);
        let at = usize::from_str_radix(rest.get(..16).unwrap_or_default(), 16).expect(&said);
        let program = std::env::current_exe().and_then(std::fs::metadata).expect("a program").len();
        assert!(at > 0 && at < program as usize, "{said}");
    } else {
        assert_eq!(said.contains("; address "), mode == "overflow", "{mode}: {said}");
    }
}
