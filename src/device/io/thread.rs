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

/// Longest wait for the thread's end, ns: a last zero after a panic fits in.
const END_NS: u64 = LAST_ZERO_NS + LAST_ZERO_NS / 2;

/// How the thread is scheduled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scheduling {
    /// SCHED_FIFO priority: above the servo's, so that the device is served first; 0 = the normal scheduler.
    pub priority: u8,
    /// CPU: the servo's, so that a handover costs no wake-up of another; `None` = any.
    pub cpu: Option<usize>,
}

/// A running I/O thread. Dropping it ends it, after a last zero to the device. One that hangs is left behind after 1.5 s; then, and
/// where the device did not take the zero, [`Shared::unconfirmed`] says so.
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
    if shared.stats.sent.load(Relaxed).wrapping_sub(before) < 2 {
        shared.set_unconfirmed();
    }
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
        let Some(thread) = self.thread.take() else { return };
        let end = now_ns() + END_NS;
        while !thread.is_finished() {
            if now_ns() > end {
                // It hangs in the system, for as long as that pleases; the process must end all the same.
                self.shared.set_unconfirmed();
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = thread.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::driver;
    use crate::device::io::link::{Connector, Link, OpenFault};
    use std::sync::mpsc::{Receiver, channel};

    /// Opening the device never comes back, as with a driver of the kernel's that waits for a device that hangs.
    struct Hangs(Receiver<()>);

    impl Connector for Hangs {
        fn connect(&mut self, _now_ns: u64) -> Result<Box<dyn Link>, OpenFault> {
            let _ = self.0.recv();
            Err(OpenFault::NotThere)
        }
    }

    #[test]
    fn a_thread_that_hangs_is_left_behind_and_told() {
        let (release, held) = channel();
        let shared = Arc::new(Shared::default());
        let port = Box::new(driver::falcon::Falcon::new(None));
        let runner = Runner::new(Box::new(Hangs(held)), port, shared.clone());
        let thread = IoThread::start(runner, shared.clone(), Scheduling::default()).expect("a thread");
        let (tell, told) = channel();
        let ending = std::thread::spawn(move || {
            drop(thread);
            let _ = tell.send(());
        });
        let ended = told.recv_timeout(Duration::from_secs(60));
        drop(release);
        ending.join().expect("ends");
        assert!(ended.is_ok(), "the end waited for a thread that hangs");
        assert!(shared.unconfirmed());
    }
}
