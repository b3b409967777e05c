//! Rows of the table of faults that need the real program: a device that goes while it pushes, a servo that is starved. (Killed, stopped and
//! crashed: `signals.rs`.)

use crate::daemon::{Daemon, wait_for};
use crate::{force, start_with, touch, wait_zero};
use std::time::{Duration, Instant};

fn wait_fault(d: &Daemon, reason: &str) {
    wait_for(reason, || d.status().state.filter(|s| s.state == "fault" && s.fault == reason).map(drop));
}

#[test]
fn a_device_that_goes_while_it_pushes_is_a_fault_without_force() {
    let hand = tempfile::NamedTempFile::new().expect("a file");
    // Late enough that a slow machine touches before.
    let script = "hand = \"normal\"\n[[keyframe]]\ntime = 0.0\nposition = [0.0, 0.0, 0.0]\n[[fault]]\nkind = \"unplug\"\nat = 25.0\n";
    std::fs::write(hand.path(), script).expect("writes");
    let d = Daemon::start(&format!("[device]\nhand = {:?}\n", hand.path()));
    d.wait_device();
    let mut child = touch(&d);
    wait_fault(&d, "device_gone");
    wait_zero(&d);
    let _ = child.kill();
    let _ = child.wait();
}

/// The CPU of a thread that may run on one alone.
fn only_cpu(d: &Daemon, thread: i32) -> Option<usize> {
    let text = std::fs::read_to_string(format!("/proc/{}/task/{thread}/status", d.child.id())).ok()?;
    text.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:"))?.trim().parse().ok()
}

/// Keeps a CPU to itself for a time; false where it may not.
fn hog(cpu: usize, time: Duration) -> bool {
    let run = move || {
        let mut set = nix::sched::CpuSet::new();
        let pinned =
            set.set(cpu).and_then(|()| nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set));
        let highest = libc::sched_param { sched_priority: 99 };
        // SAFETY: reads the parameter for this thread.
        let first = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const highest) } == 0;
        if pinned.is_err() || !first {
            return false;
        }
        let end = Instant::now() + time;
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        true
    };
    std::thread::spawn(run).join().expect("runs")
}

#[test]
fn a_servo_that_is_starved_while_it_pushes_is_a_fault_without_force() {
    let d = start_with("owners = []\n[servo]\nmax_gap_s = 0.6\n");
    let mut child = touch(&d);
    let servo = d.thread("servo");
    match only_cpu(&d, servo) {
        None => eprintln!("skipped: the servo has no CPU of its own here"),
        Some(cpu) if !hog(cpu, Duration::from_millis(900)) => {
            eprintln!("skipped: this user may not run threads at real-time priority");
        }
        Some(_) => {
            wait_fault(&d, "suspended");
            wait_zero(&d);
            assert_eq!(force(&d), 0.0);
        }
    }
    let _ = child.kill();
    let _ = child.wait();
}
