//! The I/O thread: the runner's steps on the real clock, at real-time priority where it may be had and is needed.

use super::debt::OWED_NS;
use super::runner::Runner;
use super::scheduling::{Scheduling, Seat};
use super::shared::Shared;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// Longest sleep, so that the wish to end is seen, and that the watchdog sees the thread alive.
const LOOK_NS: u64 = 50_000_000;

/// Longest time for the last zero after a panic, ns.
const LAST_ZERO_NS: u64 = OWED_NS;

/// Longest wait for the thread's end, ns: a last zero that is owed fits in.
const END_NS: u64 = LAST_ZERO_NS + LAST_ZERO_NS / 2;

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
    /// Starts the thread. It is scheduled so while a device is there; what cannot be had is gone without, and
    /// [`Shared::scheduling`] says so from the start.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(mut runner: Runner, shared: Arc<Shared>, scheduling: Scheduling) -> io::Result<Self> {
        let (last, ending) = (shared.clone(), shared.clone());
        let (tell, told) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("device-io".into()).spawn(move || {
            let (mut seat, outcome) = Seat::try_out(scheduling);
            let _ = tell.send(outcome);
            let ended = catch_unwind(AssertUnwindSafe(|| run(&mut runner, &ending, &mut seat, || false)));
            if ended.is_err() {
                // The servo must not believe in the device any more, and nobody that it has its zero.
                last.silence();
                runner.again();
                last.failed();
                last_zero(&mut runner, &last, &mut seat);
                last.failed();
            }
        })?;
        if let Some(outcome) = told.recv().ok().flatten() {
            shared.set_scheduling(outcome);
        }
        Ok(Self { shared, thread: Some(thread) })
    }

    /// A thread of a driver's own that looks at [`Shared::stopping`].
    pub(in crate::device) fn of(shared: Arc<Shared>, thread: JoinHandle<()>) -> Self {
        Self { shared, thread: Some(thread) }
    }
}

/// The link was closed by the unwinding, with the last force on. Opens it again and says zero.
fn last_zero(runner: &mut Runner, shared: &Shared, seat: &mut Seat) {
    let end = now_ns() + LAST_ZERO_NS;
    let done = || !shared.unconfirmed() || now_ns() > end;
    // What panicked once may do so again.
    let _ = catch_unwind(AssertUnwindSafe(|| run(runner, shared, seat, done)));
}

/// Steps until the runner has ended or `done`.
fn run(runner: &mut Runner, shared: &Shared, seat: &mut Seat, done: impl Fn() -> bool) {
    loop {
        seat.set_urgent(!runner.is_searching());
        let Some(until) = runner.step(now_ns()).filter(|_| !done()) else { return };
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
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Opening the device never comes back, as with a driver of the kernel's that waits for a device that hangs.
    struct Hangs(Receiver<()>, Sender<()>);

    impl Connector for Hangs {
        fn find(&mut self, _now_ns: u64) -> Result<(), OpenFault> {
            let _ = self.1.send(());
            let _ = self.0.recv();
            Err(OpenFault::NotThere)
        }

        fn open(&mut self, _now_ns: u64) -> Result<Box<dyn Link>, OpenFault> {
            Err(OpenFault::NotThere)
        }
    }

    /// 99 is the highest priority there is, and no machine has that many processors.
    #[test]
    fn what_the_scheduler_refuses_is_told() {
        let scheduling = |priority, cpu| {
            let shared = Arc::new(Shared::default());
            let port = Box::new(driver::falcon::Falcon::new(None));
            let (release, held) = channel();
            drop(release);
            let runner = Runner::new(Box::new(Hangs(held, channel().0)), port, shared.clone());
            let thread = IoThread::start(runner, shared.clone(), Scheduling { priority, cpu });
            drop(thread.expect("it runs all the same"));
            shared.scheduling().cloned()
        };
        assert_eq!(scheduling(0, None), None);
        let refused = scheduling(100, None).expect("asked").expect_err("refused");
        assert!(refused.starts_with("SCHED_FIFO priority 100: "), "{refused}");
        let refused = scheduling(0, Some(1 << 20)).expect("asked").expect_err("refused");
        assert!(refused.starts_with("CPU 1048576: "), "{refused}");
        let refused = scheduling(100, Some(1 << 20)).expect("asked").expect_err("refused");
        assert!(refused.contains("priority 100") && refused.contains("CPU 1048576"), "{refused}");
        let cpu = nix::sched::sched_getcpu().expect("a processor");
        assert_eq!(scheduling(0, Some(cpu)), Some(Ok(format!("CPU {cpu}"))));
    }

    #[test]
    fn a_thread_that_hangs_is_left_behind_and_told() {
        let (release, held) = channel();
        let shared = Arc::new(Shared::default());
        let port = Box::new(driver::falcon::Falcon::new(None));
        let (enter, entered) = channel();
        let runner = Runner::new(Box::new(Hangs(held, enter)), port, shared.clone());
        let thread = IoThread::start(runner, shared.clone(), Scheduling::default()).expect("a thread");
        // Else it may end before it hangs.
        entered.recv().expect("it looks for the device");
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
