//! Real-time set-up of the servo thread, with a report of every shortfall and its cure.
//!
//! Everything here is done once, inside the servo thread, before its loop: affinity and policy belong to that thread
//! alone and are not inherited by the threads that it or tokio starts. Nothing here is real-time safe.

use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::fs::File;
use std::io::Write;

/// A servo that spins this long without sleeping is stopped by the kernel (SIGXCPU), so that a bug cannot freeze the
/// machine, µs.
const RUNAWAY_US: u64 = 500_000;
/// Stack touched in advance, bytes: far more than a tick uses.
const STACK: usize = 256 * 1024;
/// `CAP_IPC_LOCK`, bit in the effective set (capabilities(7)).
const CAP_IPC_LOCK: u64 = 1 << 14;

/// What to ask of the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RtOptions {
    /// Processor to pin the servo to; `None` leaves it to the scheduler.
    pub core: Option<usize>,
    /// SCHED_FIFO priority, 1..=99.
    pub priority: u8,
    /// Lock all memory of the process.
    pub lock_memory: bool,
    /// Keep the processors out of deep sleep by holding `/dev/cpu_dma_latency` at 0.
    pub dma_latency: bool,
    /// Refuse to arm while anything is degraded.
    pub require: bool,
}

impl Default for RtOptions {
    fn default() -> Self {
        Self { core: None, priority: 60, lock_memory: true, dma_latency: true, require: false }
    }
}

/// One thing that was asked of the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RtLine {
    /// True when it was granted.
    pub ok: bool,
    /// What it is, e.g. `scheduling policy`.
    pub what: &'static str,
    /// What the system said.
    pub why: String,
    /// What the user can do about it; empty when granted.
    pub cure: String,
}

/// Everything that was asked and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RtReport {
    /// In the order in which it was asked.
    pub lines: Vec<RtLine>,
}

impl RtReport {
    /// True when anything was refused.
    pub fn degraded(&self) -> bool {
        self.lines.iter().any(|line| !line.ok)
    }

    /// `ok`, or `degraded: ` and what is missing.
    pub fn summary(&self) -> String {
        let missing: Vec<&str> = self.lines.iter().filter(|l| !l.ok).map(|l| l.what).collect();
        if missing.is_empty() { "ok".into() } else { format!("degraded: {}", missing.join(", ")) }
    }

    fn note<T, E: std::fmt::Display>(
        &mut self,
        what: &'static str,
        tried: Result<T, E>,
        granted: String,
        cure: &str,
    ) -> Option<T> {
        let (ok, why, value) = match tried {
            Ok(value) => (true, granted, Some(value)),
            Err(e) => (false, e.to_string(), None),
        };
        let cure = if ok { String::new() } else { cure.to_owned() };
        self.lines.push(RtLine { ok, what, why, cure });
        value
    }
}

/// What must be held while the servo runs.
#[derive(Debug, Default)]
pub struct RtGuard {
    _dma_latency: Option<File>,
}

/// Prepares the calling thread: pins it, makes it SCHED_FIFO, locks memory, touches its stack. Goes on whatever is
/// refused; the report says what and how to cure it.
pub fn enter(options: &RtOptions) -> (RtGuard, RtReport) {
    let mut report = RtReport::default();
    if let Some(core) = options.core {
        report.note(
            "processor",
            pin(core),
            format!("pinned to {core}"),
            "choose servo.core among the processors \
            of this process (`taskset -cp $$` lists them)",
        );
    }
    if options.lock_memory {
        report.note(
            "locked memory",
            lock_memory(),
            "all memory is locked".into(),
            "set LimitMEMLOCK=infinity in the \
            unit, or `memlock unlimited` for your group in /etc/security/limits.d/hapticd.conf",
        );
    }
    let guard = RtGuard {
        _dma_latency: options
            .dma_latency
            .then(|| {
                report.note(
                    "DMA latency",
                    hold_dma_latency(),
                    "held at 0 µs".into(),
                    "let the service's user open \
                    /dev/cpu_dma_latency: install the udev rules (see docs/install.md)",
                )
            })
            .flatten(),
    };
    prefault_stack();
    // The runaway limit comes before the policy, so that there is no moment without it.
    report.note(
        "runaway limit",
        limit_runaway(),
        format!("{RUNAWAY_US} µs without sleeping"),
        "raise the hard limit \
        with LimitRTTIME=infinity in the unit",
    );
    report.note(
        "scheduling policy",
        fifo(options.priority),
        format!("SCHED_FIFO {}", options.priority),
        "set \
        LimitRTPRIO=99 in the unit, or `rtprio 99` for your group in /etc/security/limits.d/hapticd.conf",
    );
    (guard, report)
}

fn pin(core: usize) -> Result<(), String> {
    let there = core_affinity::get_core_ids().unwrap_or_default();
    let Some(id) = there.iter().find(|id| id.id == core) else {
        let known: Vec<String> = there.iter().map(|id| id.id.to_string()).collect();
        return Err(format!("processor {core} is not available; there are {}", known.join(", ")));
    };
    if core_affinity::set_for_current(*id) {
        Ok(())
    } else {
        Err(format!("the kernel refused processor {core}"))
    }
}

/// Locks present and future memory, but only where the limit allows any amount: with a finite limit every later
/// allocation beyond it would fail.
fn lock_memory() -> Result<(), String> {
    let (soft, _) = getrlimit(Resource::RLIMIT_MEMLOCK).map_err(|e| e.to_string())?;
    if soft != libc::RLIM_INFINITY && !may_lock_any() {
        return Err(format!("the limit is {soft} bytes"));
    }
    mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE).map_err(|e| e.to_string())
}

fn may_lock_any() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let set = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    set.and_then(|s| u64::from_str_radix(s.trim(), 16).ok()).is_some_and(|caps| caps & CAP_IPC_LOCK != 0)
}

/// The kernel honours the request while the file stays open (Documentation/power/pm_qos_interface.rst).
fn hold_dma_latency() -> std::io::Result<File> {
    let mut file = File::options().write(true).open("/dev/cpu_dma_latency")?;
    file.write_all(&0i32.to_ne_bytes())?;
    Ok(file)
}

fn limit_runaway() -> Result<(), nix::Error> {
    let (_, hard) = getrlimit(Resource::RLIMIT_RTTIME)?;
    setrlimit(Resource::RLIMIT_RTTIME, RUNAWAY_US.min(hard), hard)
}

/// SCHED_FIFO for the calling thread; threads and processes that it starts fall back to the normal policy.
fn fifo(priority: u8) -> Result<(), String> {
    let param = libc::sched_param { sched_priority: i32::from(priority.clamp(1, 99)) };
    // SAFETY: `param` is a valid sched_param; 0 means the calling thread.
    let answer = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &param) };
    if answer == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().to_string()) }
}

/// Touches the stack that the loop may use, so that it is mapped before the first tick.
#[inline(never)]
fn prefault_stack() {
    let mut stack = [0u8; STACK];
    for page in stack.iter_mut().step_by(4096) {
        *page = 1;
    }
    std::hint::black_box(&stack);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a thread of its own: the set-up is per thread, but for the memory lock, which is left out here.
    #[test]
    fn every_request_is_reported_with_a_cure_where_refused() {
        let options =
            RtOptions { core: Some(0), lock_memory: false, dma_latency: false, ..RtOptions::default() };
        let report = std::thread::spawn(move || enter(&options).1).join().expect("the set-up never panics");
        let asked: Vec<&str> = report.lines.iter().map(|l| l.what).collect();
        assert_eq!(asked, ["processor", "runaway limit", "scheduling policy"]);
        for line in &report.lines {
            assert_eq!(line.ok, line.cure.is_empty(), "{line:?}");
            assert!(!line.why.is_empty());
        }
        assert_eq!(report.degraded(), report.summary() != "ok");
    }

    #[test]
    fn an_unknown_processor_is_refused_by_name() {
        let options =
            RtOptions { core: Some(100_000), lock_memory: false, dma_latency: false, ..RtOptions::default() };
        let report = std::thread::spawn(move || enter(&options).1).join().expect("the set-up never panics");
        assert!(!report.lines[0].ok && report.lines[0].why.contains("100000"), "{:?}", report.lines[0]);
        assert!(report.degraded() && report.summary().contains("processor"));
    }

    #[test]
    fn the_policy_stays_in_its_thread() {
        let options = RtOptions { lock_memory: false, dma_latency: false, ..RtOptions::default() };
        let inside = std::thread::spawn(move || {
            enter(&options);
            // Threads started from a real-time thread must not inherit its policy.
            std::thread::spawn(policy).join().expect("reads its policy")
        });
        assert_eq!(inside.join().expect("runs"), libc::SCHED_OTHER);
        assert_eq!(policy(), libc::SCHED_OTHER);
    }

    fn policy() -> i32 {
        // SAFETY: asks for the calling thread's policy; no memory is involved.
        unsafe { libc::sched_getscheduler(0) & !libc::SCHED_RESET_ON_FORK }
    }
}
