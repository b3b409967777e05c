//! The I/O thread: real-time scheduling where it may be had, and the runner's steps on the real clock.

use super::runner::Runner;
use super::shared::Shared;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Duration;

/// Longest sleep, so that the wish to end is seen, and that the watchdog sees the thread alive.
const LOOK_NS: u64 = 50_000_000;

/// Longest time for the last zero after a panic, ns.
const LAST_ZERO_NS: u64 = 1_000_000_000;

/// How the thread is scheduled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scheduling {
    /// SCHED_FIFO priority: above the servo's, so that the device is served first; 0 = the normal scheduler.
    pub priority: u8,
    /// CPU: the servo's, so that a handover costs no wake-up of another; `None` = any.
    pub cpu: Option<usize>,
}

/// A running I/O thread. Dropping it ends it, after a last zero to the device.
#[derive(Debug)]
pub struct IoThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Now on the servo's clock (CLOCK_MONOTONIC), ns.
pub fn now_ns() -> u64 {
    let t = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC);
    t.map_or(0, |t| t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64)
}

impl IoThread {
    /// Starts the thread. What cannot be had of `scheduling` is gone without; `doctor` shows why.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(mut runner: Runner, shared: Arc<Shared>, scheduling: Scheduling) -> io::Result<Self> {
        let (last, ending) = (shared.clone(), shared.clone());
        let thread = std::thread::Builder::new().name("device-io".into()).spawn(move || {
            schedule(scheduling);
            let ended = catch_unwind(AssertUnwindSafe(|| run(&mut runner, &ending, || false)));
            if ended.is_err() {
                // The servo must not believe in the device any more.
                last.silence();
                last.failed();
                last_zero(&mut runner, &last);
                last.failed();
            }
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }
}

/// The link was closed by the unwinding, with the last force on. Opens it again and says zero.
fn last_zero(runner: &mut Runner, shared: &Shared) {
    let end = now_ns() + LAST_ZERO_NS;
    let before = shared.stats.sent.load(Relaxed);
    runner.again();
    let done = || shared.stats.sent.load(Relaxed).wrapping_sub(before) >= 2 || now_ns() > end;
    // What panicked once may do so again.
    let _ = catch_unwind(AssertUnwindSafe(|| run(runner, shared, done)));
}

/// Steps until the runner has ended or `done`.
fn run(runner: &mut Runner, shared: &Shared, done: impl Fn() -> bool) {
    while let Some(until) = runner.step(now_ns()).filter(|_| !done()) {
        shared.stats.rounds.fetch_add(1, Relaxed);
        let now = now_ns();
        if until <= now {
            continue;
        }
        let until = until.min(now + LOOK_NS);
        if !runner.wait(until) && !runner.ends() {
            std::thread::sleep(Duration::from_nanos(until - now));
        }
    }
}

/// Best effort: without the right to real-time priority the thread still runs.
fn schedule(wanted: Scheduling) {
    if let Some(cpu) = wanted.cpu {
        let mut set = nix::sched::CpuSet::new();
        if set.set(cpu).is_ok() {
            let _ = nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set);
        }
    }
    if wanted.priority > 0 {
        let param = libc::sched_param { sched_priority: libc::c_int::from(wanted.priority) };
        // Inherited by the threads that a transport starts to reap its transfers: they must not wait behind the servo.
        // SAFETY: `param` is valid for the call; 0 is the calling thread.
        unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) };
    }
}

impl Drop for IoThread {
    fn drop(&mut self) {
        self.shared.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
