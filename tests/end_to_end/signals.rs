//! No signal leaves a force on the motors: each that can be caught and would end or stop the process.

use crate::daemon::{Daemon, HAPTICD, refused, wait_for};
use crate::{AWAY, at, force, start, touch, wait_force, wait_zero};
use hapticd::protocol::rpc::codes;
use nix::sys::signal::Signal;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::File;
use std::process::Command;
use std::sync::Mutex;

/// What a signal does to the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    /// It ends in order, exit code 0.
    Ends,
    /// It commands zero and ends by this signal, as broken code does.
    Dies,
    /// Nothing.
    Nothing,
}

/// signal(7): every standard signal whose default action is to end or to stop a process and that can be caught, but for
/// SIGTSTP, which has a test of its own.
fn table() -> Vec<(i32, Does)> {
    use libc::*;
    let ends = [SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM, SIGSTKFLT, SIGVTALRM, SIGPROF];
    let ends = ends.into_iter().chain([SIGIO, SIGPWR, SIGRTMIN(), SIGRTMIN() + 7, SIGRTMAX()]);
    let dies = [SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGXCPU, SIGSYS];
    let nothing = [SIGPIPE, SIGTTIN, SIGTTOU, SIGXFSZ];
    let all = ends.map(|s| (s, Does::Ends)).chain(dies.map(|s| (s, Does::Dies)));
    all.chain(nothing.map(|s| (s, Does::Nothing))).collect()
}

fn send(d: &Daemon, signal: i32) {
    // SAFETY: kill takes two numbers.
    assert_eq!(unsafe { libc::kill(d.child.id() as i32, signal) }, 0);
}

/// The masks of a thread, bit 0 is signal 1.
fn masks(path: &str) -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string(path).expect("proc");
    let lines = text.lines().filter(|l| l.starts_with("Sig") && !l.starts_with("SigQ"));
    let mask = |l: &str| {
        let (name, value) = l.split_once(':').expect("a name");
        (name.to_owned(), u64::from_str_radix(value.trim(), 16).expect("a mask"))
    };
    lines.map(mask).collect()
}

#[test]
fn every_signal_that_would_end_or_stop_the_process_is_caught_or_ignored() {
    let d = start();
    let proc = format!("/proc/{}", d.child.id());
    let main = masks(&format!("{proc}/status"));
    let has = |m: u64, s: i32| m >> (s - 1) & 1 == 1;
    let left = [libc::SIGKILL, libc::SIGSTOP, libc::SIGCHLD, libc::SIGURG, libc::SIGWINCH];
    // The two below SIGRTMIN belong to the C library.
    for s in (1..=31).chain(libc::SIGRTMIN()..=libc::SIGRTMAX()).filter(|s| !left.contains(s)) {
        assert!(has(main["SigCgt"] | main["SigIgn"], s), "signal {s} has its default action");
    }
    // No handler interrupts the servo, but for what its own instructions cause: blocked, that would kill at once.
    let servo = masks(&format!("{proc}/task/{}/status", d.thread("servo")));
    for (s, does) in table() {
        let caused = does == Does::Dies && s != libc::SIGXCPU;
        assert_eq!(has(servo["SigBlk"], s), !caused, "signal {s} at the servo");
    }
}

#[test]
fn no_signal_while_touching_leaves_a_force_at_the_plant() {
    let rest = Mutex::new(table());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some((s, does)) = { rest.lock().expect("a list").pop() } {
                    signal_while_touching(s, does);
                }
            });
        }
    });
}

fn signal_while_touching(signal: i32, does: Does) {
    use std::os::unix::process::ExitStatusExt;
    let mut d = start();
    let mut child = touch(&d);
    send(&d, signal);
    if does == Does::Nothing {
        // It still answers, and still pushes.
        assert_eq!(d.status().state.expect("a state").state, "rendering", "signal {signal}");
        assert!(force(&d) > 0.05, "signal {signal}");
    } else {
        let status = d.wait_exit();
        let plant = d.plant();
        assert!(plant.is_zero(), "signal {signal}: {:?}", plant.wrench);
        assert_eq!(plant.since_zero, 0, "signal {signal}: nothing came after the last zero");
        assert!(plant.zeros >= 1);
        if does == Does::Ends {
            assert!(status.success(), "signal {signal}: {status}\n{}", d.log());
            assert!(!d.socket().exists());
        } else {
            assert_eq!(status.signal(), Some(signal), "{status}\n{}", d.log());
            let name = Signal::try_from(signal).expect("a standard signal").as_str();
            let said = format!("hapticd: {name}: ");
            assert!(d.log().contains(&said) && d.log().contains("commanded zero force"), "{}", d.log());
        }
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// What is caused in the servo's own thread, which can then say nothing more to its device.
#[test]
fn a_signal_at_the_servo_thread_itself_leaves_no_force() {
    use std::os::unix::process::ExitStatusExt;
    // All that are open there (see above); a servo that stands still, as before SIGXCPU, is among the tests of the servo.
    let open = |(s, does): (i32, Does)| (does == Does::Dies && s != libc::SIGXCPU).then_some(s);
    let rest = Mutex::new(table().into_iter().filter_map(open).collect::<Vec<_>>());
    let one = |signal: i32| {
        let mut d = start();
        let mut child = touch(&d);
        let pid = d.child.id() as i32;
        // SAFETY: tgkill takes three numbers.
        assert_eq!(unsafe { libc::syscall(libc::SYS_tgkill, pid, d.thread("servo"), signal) }, 0);
        let status = d.wait_exit();
        let plant = d.plant();
        assert!(plant.is_zero() && plant.since_zero == 0 && plant.zeros >= 1, "signal {signal}: {plant:?}");
        assert_eq!(status.signal(), Some(signal), "{status}\n{}", d.log());
        assert!(d.log().contains("it was done in its place"), "{}", d.log());
        let _ = child.kill();
        let _ = child.wait();
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(s) = { rest.lock().expect("a list").pop() } {
                    one(s);
                }
            });
        }
    });
}

/// Somebody cuts the probe page under a daemon that pushes: it goes on, says so, and takes its force away when told.
#[test]
fn a_cut_probe_page_does_not_end_the_daemon() {
    let mut d = start();
    let mut child = touch(&d);
    let page = d.dir.path().join("probe");
    File::options().write(true).open(&page).and_then(|f| f.set_len(0)).expect("cuts");
    d.wait_log("probe page was cut");
    let warnings = d.status().warnings;
    assert!(warnings.iter().any(|w| w.contains("probe page was cut")), "{warnings:?}");
    let state = d.status().state.expect("a state");
    assert_eq!((state.state.as_str(), state.fault.as_str()), ("rendering", "none"));
    d.signal(Signal::SIGTERM);
    assert!(d.wait_exit().success(), "{}", d.log());
    assert_eq!(std::fs::metadata(&page).expect("there").len(), 0);
    let _ = child.kill();
    let _ = child.wait();
}

/// SIGKILL cannot be caught: `hapticd zero` follows it, and needs nobody who reads what it says.
#[test]
fn zero_after_sigkill_zeroes_whatever_becomes_of_its_words() {
    let mut d = start();
    let mut child = touch(&d);
    // Beside a daemon that runs it warns.
    let out = Command::new(HAPTICD)
        .args(["zero", "--config"])
        .arg(d.dir.path().join("hapticd.toml"))
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("process {} runs", d.child.id())), "{said}");
    // The daemon goes on, as it said.
    wait_force(&d);
    let before = d.plant().zeros;
    d.signal(Signal::SIGKILL);
    d.wait_exit();
    assert!(!d.plant().is_zero(), "nothing of ours can run");
    let zero = || {
        let mut c = Command::new(HAPTICD);
        c.args(["zero", "--config"]).arg(d.dir.path().join("hapticd.toml"));
        c
    };
    let full = File::options().write(true).open("/dev/full").expect("/dev/full");
    let error = full.try_clone().expect("clones");
    assert!(zero().stdout(full).stderr(error).status().expect("runs").success());
    let plant = d.plant();
    assert!(plant.is_zero() && plant.since_zero == 0 && plant.zeros == before + 1, "{plant:?}");
    let _ = child.kill();
    let _ = child.wait();
}

/// The request of an admin, while somebody else touches.
#[test]
fn a_shutdown_that_is_asked_for_while_touching_leaves_no_force() {
    let mut d = start();
    let mut child = touch(&d);
    d.client("admin").call("shutdown", json!({})).expect("accepted");
    assert!(d.wait_exit().success(), "{}", d.log());
    let plant = d.plant();
    assert!(plant.is_zero() && plant.since_zero == 0 && plant.zeros >= 1, "{plant:?}");
    let _ = child.kill();
    let _ = child.wait();
}

#[test]
fn sigterm_with_the_sigcont_that_systemd_sends_after_it_is_no_fault() {
    let mut d = start();
    let mut child = touch(&d);
    d.signal(Signal::SIGTERM);
    d.signal(Signal::SIGCONT);
    assert!(d.wait_exit().success());
    let plant = d.plant();
    assert!(plant.is_zero() && plant.since_zero == 0, "{:?}", plant.wrench);
    assert!(!d.log().contains("fault"), "{}", d.log());
    let dumps = std::fs::read_dir(d.dir.path().join("rec")).expect("a directory").count();
    assert_eq!(dumps, 0, "a dump of an ordinary end");
    let _ = child.kill();
    let _ = child.wait();
}

#[test]
fn sigtstp_while_touching_zeroes_before_it_stops_and_sigcont_is_a_fault() {
    stops(Signal::SIGTSTP, true);
}

#[test]
fn sigstop_while_touching_stops_with_the_force_and_sigcont_is_a_fault_with_none() {
    stops(Signal::SIGSTOP, false);
}

/// The daemon is stopped while it pushes, with or without zero before; going on is a latched fault without force.
fn stops(signal: Signal, zero_first: bool) {
    let d = start();
    let mut child = touch(&d);
    d.signal(signal);
    d.wait_stopped();
    let plant = d.plant();
    assert_eq!(plant.is_zero(), zero_first, "{:?}", plant.wrench);
    d.signal(Signal::SIGCONT);
    wait_zero(&d);
    let s = wait_for("the fault", || d.status().state.filter(|s| s.fault != "none"));
    assert_eq!((s.state.as_str(), s.fault.as_str()), ("fault", "suspended"));
    // It latches, and leaving it is explicit.
    let mut c = d.client("user");
    assert_eq!(refused(c.call("arm", json!({}))), codes::SERVO);
    c.call("clear_fault", json!({})).expect("clears");
    c.call("object.update", json!({"object": "cube", "pose": at(AWAY)})).expect("moves");
    c.call("arm", json!({})).expect("arms");
    let _ = child.kill();
    let _ = child.wait();
}
