//! How the I/O thread is scheduled: as wanted while it exchanges packets with the device, and like any other thread while it
//! looks for one that is not there. Listing what is on the buses takes milliseconds of a processor, every two
//! seconds, or four times a second where nobody tells what is plugged in; above the servo and on its CPU each
//! of them would cost the servo its ticks.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::io;

/// How the thread is scheduled while the device is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scheduling {
    /// SCHED_FIFO priority: above the servo's, so that the device is served first; 0 = the normal scheduler.
    pub priority: u8,
    /// CPU: the servo's, so that a handover costs no wake-up of another; `None` = any.
    pub cpu: Option<usize>,
}

/// The calling thread before the scheduler.
pub(in crate::device) struct Seat {
    wanted: Scheduling,
    /// CPUs on which the thread was started; `None` where the kernel does not say.
    home: Option<CpuSet>,
    urgent: bool,
}

impl Seat {
    /// For the calling thread: tries what is wanted, and goes back to the normal scheduler. Tells what was granted or why not;
    /// `None` when nothing was asked for. Without the right to it the thread still runs.
    pub(in crate::device) fn try_out(wanted: Scheduling) -> (Self, Option<Result<String, String>>) {
        let mut seat = Self { wanted, home: sched_getaffinity(Pid::from_raw(0)).ok(), urgent: true };
        let outcome = seat.raise();
        seat.set_urgent(false);
        (seat, outcome)
    }

    /// As wanted, or like any other thread. Nothing is asked of the system where nothing changes.
    pub(in crate::device) fn set_urgent(&mut self, urgent: bool) {
        if urgent == self.urgent {
            return;
        }
        self.urgent = urgent;
        if urgent {
            // What came of it was told at the start.
            let _ = self.raise();
        } else {
            self.lower();
        }
    }

    fn raise(&self) -> Option<Result<String, String>> {
        let mut asked = Vec::new();
        let mut refused = Vec::new();
        let mut note = |what: String, outcome: io::Result<()>| {
            if let Err(e) = outcome {
                refused.push(format!("{what}: {e}"));
            }
            asked.push(what);
        };
        let priority = self.wanted.priority;
        if priority > 0 {
            // Inherited by the threads that opening a device starts: they must not wait behind the servo.
            note(format!("SCHED_FIFO priority {priority}"), policy(libc::SCHED_FIFO, priority));
        }
        if let Some(cpu) = self.wanted.cpu {
            let mut set = CpuSet::new();
            let outcome = set.set(cpu).and_then(|()| sched_setaffinity(Pid::from_raw(0), &set));
            note(format!("CPU {cpu}"), outcome.map_err(io::Error::from));
        }
        match (asked.is_empty(), refused.is_empty()) {
            (true, _) => None,
            (false, true) => Some(Ok(asked.join(", "))),
            (false, false) => Some(Err(refused.join("; "))),
        }
    }

    /// Needs no right, so it does not fail: no more is given up than was granted.
    fn lower(&self) {
        if self.wanted.priority > 0 {
            let _ = policy(libc::SCHED_OTHER, 0);
        }
        if let (Some(_), Some(home)) = (self.wanted.cpu, &self.home) {
            let _ = sched_setaffinity(Pid::from_raw(0), home);
        }
    }
}

fn policy(policy: libc::c_int, priority: u8) -> io::Result<()> {
    let param = libc::sched_param { sched_priority: libc::c_int::from(priority) };
    // SAFETY: `param` is valid for the call; 0 is the calling thread.
    let r = unsafe { libc::sched_setscheduler(0, policy, &param) };
    if r == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::driver::spacemouse::SpaceMouse;
    use crate::device::io::link::{Connector, LONGEST, Link, LinkFault, OpenFault};
    use crate::device::io::runner::Runner;
    use crate::device::io::shared::Shared;
    use crate::device::io::thread::{IoThread, now_ns};
    use crate::device::wire::ftdi::Control;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    /// Policy, priority and CPUs of the calling thread.
    type Found = (i32, i32, CpuSet);

    fn found() -> Found {
        let this = Pid::from_raw(0);
        let mut param = libc::sched_param { sched_priority: -1 };
        // SAFETY: `param` is valid for the call; 0 is the calling thread.
        let (policy, told) =
            unsafe { (libc::sched_getscheduler(0), libc::sched_getparam(0, &raw mut param)) };
        assert_eq!(told, 0);
        (policy, param.sched_priority, sched_getaffinity(this).expect("CPUs"))
    }

    type Notes = Arc<Mutex<Vec<(&'static str, Found)>>>;

    /// A device that comes at the third look, goes after a hundred readings and comes again. It notes how whoever asks it is
    /// scheduled, and a thread that it starts, as hidraw's writer and nusb's reaper are started.
    struct Noting {
        notes: Notes,
        looks: u32,
        left: u32,
    }

    impl Noting {
        fn note(&self, when: &'static str) {
            self.notes.lock().expect("sound").push((when, found()));
        }
    }

    impl Connector for Noting {
        fn find(&mut self, _now_ns: u64) -> Result<(), OpenFault> {
            self.note("find");
            self.looks += 1;
            if self.looks.is_multiple_of(3) && self.looks < 7 { Ok(()) } else { Err(OpenFault::NotThere) }
        }

        fn open(&mut self, _now_ns: u64) -> Result<Box<dyn Link>, OpenFault> {
            self.note("open");
            let helper = Self { notes: self.notes.clone(), looks: 0, left: 0 };
            std::thread::spawn(move || helper.note("helper")).join().expect("ends");
            Ok(Box::new(Self { notes: self.notes.clone(), looks: 0, left: 100 }))
        }
    }

    impl Link for Noting {
        fn send(&mut self, _now_ns: u64, _bytes: &[u8]) -> Result<(), LinkFault> {
            Ok(())
        }
        fn sent(&mut self, _now_ns: u64) -> Result<bool, LinkFault> {
            Ok(true)
        }
        fn receive(
            &mut self,
            _now_ns: u64,
            _buffer: &mut [u8; LONGEST],
        ) -> Result<Option<(usize, u64)>, LinkFault> {
            self.note("link");
            self.left = self.left.saturating_sub(1);
            if self.left == 0 { Err(LinkFault::Gone) } else { Ok(None) }
        }
        fn control(&mut self, _now_ns: u64, _request: Control) -> Result<(), LinkFault> {
            Ok(())
        }
        fn wait(&mut self, until_ns: u64) {
            std::thread::sleep(Duration::from_nanos(until_ns.saturating_sub(now_ns())));
        }
    }

    /// The CPU is anybody's to choose; the priority takes a right, without which the thread keeps the normal scheduler.
    #[test]
    fn the_search_is_like_any_other_thread_and_the_exchange_is_as_wanted() {
        let home = found();
        let cpu = (0..CpuSet::count()).find(|c| home.2.is_set(*c) == Ok(true)).expect("a CPU");
        let mut alone = CpuSet::new();
        alone.set(cpu).expect("in range");
        let notes = Notes::default();
        let device = Noting { notes: notes.clone(), looks: 0, left: 0 };
        let shared = Arc::new(Shared::default());
        let runner = Runner::new(Box::new(device), Box::new(SpaceMouse::default()), shared.clone());
        let wanted = Scheduling { priority: 1, cpu: Some(cpu) };
        let thread = IoThread::start(runner, shared.clone(), wanted).expect("a thread");
        let told = shared.scheduling().cloned().expect("asked for something");
        // Twice it comes and goes.
        for _ in 0..1000 {
            if notes.lock().expect("sound").iter().filter(|(when, _)| *when == "find").count() > 7 {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(thread);
        let urgent = match &told {
            Ok(text) => {
                assert_eq!(text, &format!("SCHED_FIFO priority 1, CPU {cpu}"));
                (libc::SCHED_FIFO, 1, alone)
            }
            Err(text) => {
                println!("this user may not: {text}");
                assert!(text.starts_with("SCHED_FIFO priority 1: ") && !text.contains("CPU"), "{text}");
                (home.0, home.1, alone)
            }
        };
        let notes = notes.lock().expect("sound");
        let count = |when| notes.iter().filter(|(w, _)| *w == when).count();
        assert!(count("find") > 7 && count("open") == 2 && count("link") == 200, "{}", notes.len());
        for (when, how) in notes.iter() {
            let normal = (libc::SCHED_OTHER, 0, home.2);
            assert_eq!(*how, if *when == "find" { normal } else { urgent }, "{when}");
        }
        // Where nothing is wanted, nothing is touched.
        let (mut seat, told) = Seat::try_out(Scheduling::default());
        seat.set_urgent(true);
        seat.set_urgent(false);
        assert_eq!((told, found()), (None, home));
    }
}
