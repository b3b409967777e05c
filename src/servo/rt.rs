//! Real-time set-up, with a report of every shortfall and its cure. Nothing here is real-time safe; all of it runs
//! before the first tick.

mod limits;
mod memory;
mod scheduling;

pub use memory::lock_snapshot;
pub use scheduling::{keep_off, pick_cpu};

use std::fmt;

/// Stack of the servo thread, bytes; half of it is touched before the first tick.
pub(super) const STACK: usize = 1 << 20;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RtOptions {
    /// SCHED_FIFO priority, 1..=98; 0 leaves the thread to the normal scheduler.
    pub priority: u8,
    /// CPU to run on; `None` leaves the thread unpinned.
    pub cpu: Option<usize>,
    /// Lock all memory.
    pub lock_memory: bool,
    /// Largest wake-up latency to allow the CPU's idle states, µs; `None` does not ask.
    pub dma_latency_us: Option<u32>,
    /// Longest time that the thread may compute without sleeping, µs (RLIMIT_RTTIME); then the kernel signals
    /// SIGXCPU, which ends the process unless it is handled. `None` sets no limit.
    pub runaway_us: Option<u64>,
    /// Refuse to arm when anything of this was not reached.
    pub require_rt: bool,
}

impl Default for RtOptions {
    fn default() -> Self {
        Self {
            priority: 80,
            cpu: None,
            lock_memory: true,
            dma_latency_us: Some(0),
            runaway_us: Some(500_000),
            require_rt: false,
        }
    }
}

impl RtOptions {
    /// Nothing asked for: for tests, and for users who know that their machine cannot.
    pub fn none() -> Self {
        Self {
            priority: 0,
            cpu: None,
            lock_memory: false,
            dma_latency_us: None,
            runaway_us: None,
            require_rt: false,
        }
    }
}

/// One thing that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RtLine {
    /// Reached.
    pub ok: bool,
    /// What.
    pub what: String,
    /// What came of it, or why not.
    pub why: String,
    /// The command or setting that cures a shortfall; empty when all is well.
    pub cure: String,
}

impl RtLine {
    fn ok(what: &str, why: impl Into<String>) -> Self {
        Self { ok: true, what: what.into(), why: why.into(), cure: String::new() }
    }

    fn short(what: &str, why: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { ok: false, what: what.into(), why: why.into(), cure: cure.into() }
    }
}

/// What was reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RtReport {
    /// One line for each thing that was asked for.
    pub lines: Vec<RtLine>,
}

impl RtReport {
    /// Everything asked for was reached.
    pub fn ok(&self) -> bool {
        self.lines.iter().all(|l| l.ok)
    }

    /// `ok`, or `degraded: ` and what fell short.
    pub fn summary(&self) -> String {
        let short: Vec<&str> = self.shortfalls().map(|l| l.what.as_str()).collect();
        if short.is_empty() { "ok".into() } else { format!("degraded: {}", short.join(", ")) }
    }

    /// The shortfalls.
    pub fn shortfalls(&self) -> impl Iterator<Item = &RtLine> {
        self.lines.iter().filter(|l| !l.ok)
    }
}

impl fmt::Display for RtReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            let mark = if line.ok { "ok      " } else { "degraded" };
            writeln!(f, "{mark} {}: {}", line.what, line.why)?;
            if !line.ok {
                writeln!(f, "         cure: {}", line.cure)?;
            }
        }
        Ok(())
    }
}

/// What holds for the whole process: memory locks. Called before the thread starts.
pub(super) fn process(options: &RtOptions) -> RtReport {
    RtReport { lines: if options.lock_memory { vec![memory::lock_all()] } else { Vec::new() } }
}

/// What a device's I/O thread was granted.
pub(super) fn device_io(outcome: &Result<String, String>) -> RtLine {
    const WHAT: &str = "device I/O";
    match outcome {
        Ok(granted) => RtLine::ok(WHAT, granted.clone()),
        Err(refused) => RtLine::short(WHAT, refused.clone(), scheduling::CURE),
    }
}

/// What the thread keeps for as long as it runs.
pub(super) struct Guard {
    _latency: Option<limits::DmaLatency>,
}

/// What is set from inside the servo thread: its stack, affinity and policy, the process's runaway limit, and
/// the machine's idle states for as long as the guard lives.
pub(super) fn thread(options: &RtOptions) -> (Vec<RtLine>, Guard) {
    let mut lines = Vec::new();
    memory::prefault_stack();
    if let Some(cpu) = options.cpu {
        lines.push(scheduling::pin(cpu));
    }
    if options.priority > 0 {
        if let Some(us) = options.runaway_us {
            lines.push(limits::runaway(us));
        }
        lines.push(scheduling::fifo(options.priority));
    }
    let mut latency = None;
    if let Some(us) = options.dma_latency_us {
        let (line, held) = limits::dma_latency(us);
        lines.push(line);
        latency = held;
    }
    (lines, Guard { _latency: latency })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_names_each_cure() {
        let report =
            RtReport { lines: vec![RtLine::ok("a", "fine"), RtLine::short("b", "not allowed", "do this")] };
        assert!(!report.ok());
        assert_eq!(report.shortfalls().count(), 1);
        assert_eq!(report.summary(), "degraded: b");
        let text = report.to_string();
        assert!(text.contains("ok       a: fine") && text.contains("degraded b: not allowed"));
        assert!(text.contains("cure: do this"));
    }

    /// Without it a servo that computes for ever holds its last force for ever.
    #[test]
    fn the_runaway_guard_is_the_limit_that_is_asked_for() {
        use nix::sys::resource::{Resource::RLIMIT_RTTIME, getrlimit, setrlimit};
        let (soft, hard) = getrlimit(RLIMIT_RTTIME).unwrap();
        let us = 432_109.min(hard);
        let options = RtOptions { priority: 1, runaway_us: Some(us), ..RtOptions::none() };
        let lines = std::thread::spawn(move || thread(&options).0).join().unwrap();
        let set = getrlimit(RLIMIT_RTTIME).unwrap();
        // It is the whole process's.
        setrlimit(RLIMIT_RTTIME, soft, hard).unwrap();
        assert_eq!(set, (us, hard));
        assert!(lines.iter().any(|l| l.ok && l.why.contains(&us.to_string())), "{lines:?}");
    }

    #[test]
    fn asking_for_nothing_falls_short_of_nothing() {
        let options = RtOptions::none();
        assert!(process(&options).ok());
        assert_eq!(thread(&options).0, []);
    }
}
