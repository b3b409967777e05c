//! What the process may do: scheduling policy, priority and memory limits.

use super::check::{Check, Root};

/// The servo's priority by default.
pub const SERVO: u8 = 80;
/// Highest priority that the service asks for by default: a device's I/O is one above the servo.
pub const PRIORITY: u8 = SERVO + 1;
/// Who needs it.
const WHO: &str = "the servo's 80, the device's I/O one above";
/// Memory lock below which scenes of usual size do not fit, bytes.
const ENOUGH_LOCKED: u64 = 1 << 30;
const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_NICE: u32 = 23;

const LIMITS_FILE: &str = "printf '@hapticd - rtprio 95\\n@hapticd - memlock unlimited\\n' | sudo tee \
     /etc/security/limits.d/hapticd.conf; sudo usermod -aG hapticd $USER; then log in again \
     (the systemd unit sets both by itself)";

/// Outcome of asking for SCHED_FIFO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FifoAttempt {
    /// Granted.
    Granted,
    /// Refused, with the system's words.
    Refused(String),
}

/// Asks for SCHED_FIFO in a thread of its own, which then ends.
#[must_use]
pub fn try_fifo(priority: u8) -> FifoAttempt {
    let attempt = std::thread::spawn(move || set_fifo(priority)).join();
    match attempt {
        Ok(Ok(())) => FifoAttempt::Granted,
        Ok(Err(error)) => FifoAttempt::Refused(error.to_string()),
        Err(_) => FifoAttempt::Refused("the thread that tried it died".into()),
    }
}

/// Puts the calling thread under SCHED_FIFO; its children get the normal policy.
pub(super) fn set_fifo(priority: u8) -> std::io::Result<()> {
    let param = libc::sched_param { sched_priority: i32::from(priority) };
    // SAFETY: `param` is a valid sched_param that outlives the call; 0 names the calling thread.
    let rc = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &param) };
    if rc == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Whether the servo's scheduling policy is granted.
pub fn scheduling(fifo: &FifoAttempt) -> Check {
    let name = "scheduling policy";
    match fifo {
        FifoAttempt::Granted => Check::ok(name, format!("SCHED_FIFO {PRIORITY} is granted ({WHO})")),
        FifoAttempt::Refused(error) => Check::degraded(
            name,
            format!(
                "SCHED_FIFO {PRIORITY} is refused ({error}; {WHO}): the servo or the device's I/O runs at normal priority"
            ),
            LIMITS_FILE,
        ),
    }
}

/// RLIMIT_RTPRIO.
pub fn realtime_priority(root: &Root) -> Check {
    let name = "RLIMIT_RTPRIO";
    let Some(soft) = limit(root, "Max realtime priority") else {
        return Check::unknown(name, "/proc/self/limits does not tell");
    };
    if soft >= u64::from(PRIORITY) {
        let text = if soft == u64::MAX { "unlimited".into() } else { soft.to_string() };
        Check::ok(name, format!("{text}, {PRIORITY} are needed ({WHO})"))
    } else if has_capability(root, CAP_SYS_NICE) {
        Check::ok(name, format!("{soft}, but the process has CAP_SYS_NICE, which is above the limit"))
    } else {
        Check::degraded(name, format!("{soft}, {PRIORITY} are needed ({WHO})"), LIMITS_FILE)
    }
}

/// RLIMIT_MEMLOCK.
pub fn locked_memory(root: &Root) -> Check {
    let name = "RLIMIT_MEMLOCK";
    let Some(soft) = limit(root, "Max locked memory") else {
        return Check::unknown(name, "/proc/self/limits does not tell");
    };
    let shown = if soft == u64::MAX { "unlimited".into() } else { format!("{} MiB", soft >> 20) };
    if soft >= ENOUGH_LOCKED {
        Check::ok(name, shown)
    } else if has_capability(root, CAP_IPC_LOCK) {
        Check::ok(name, format!("{shown}, but the process has CAP_IPC_LOCK, which is above the limit"))
    } else {
        let why =
            format!("{shown}: memory cannot be locked, so a page fault can delay a tick by milliseconds");
        Check::degraded(name, why, LIMITS_FILE)
    }
}

/// Soft limit of a line of `/proc/self/limits`.
fn limit(root: &Root, line: &str) -> Option<u64> {
    let text = root.read("/proc/self/limits")?;
    let rest = text.lines().find_map(|l| l.strip_prefix(line))?;
    match rest.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

fn has_capability(root: &Root, bit: u32) -> bool {
    let status = root.read("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|l| u64::from_str_radix(l.strip_prefix("CapEff:")?.trim(), 16).ok());
    mask.is_some_and(|m| m >> bit & 1 == 1)
}
