//! Scheduling policy and CPU affinity.

use super::RtLine;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::io;

/// Allows the priorities of the servo and of a device's I/O above it.
pub(super) const CURE: &str = "add 'LimitRTPRIO=95' to the service, or '@hapticd - rtprio 95' to /etc/security/limits.conf and log in again";

/// Pins the calling thread to one CPU.
pub(super) fn pin(cpu: usize) -> RtLine {
    const WHAT: &str = "affinity";
    let there = core_affinity::get_core_ids().unwrap_or_default().iter().any(|c| c.id == cpu);
    if there && core_affinity::set_for_current(core_affinity::CoreId { id: cpu }) {
        return RtLine::ok(WHAT, format!("pinned to CPU {cpu}"));
    }
    let why = if there {
        format!("the kernel refused CPU {cpu}")
    } else {
        format!("this process may not run on CPU {cpu}")
    };
    RtLine::short(
        WHAT,
        why,
        "set servo.core to an allowed CPU, or widen AllowedCPUs=/CPUAffinity= of the service (see `taskset -p $$`)",
    )
}

/// Puts the calling thread under SCHED_FIFO; children that it might fork fall back to the normal policy.
pub(super) fn fifo(priority: u8) -> RtLine {
    const WHAT: &str = "scheduling";
    let parameter = libc::sched_param { sched_priority: i32::from(priority) };
    // SAFETY: 0 means the calling thread; `parameter` is valid for the call.
    let r = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &parameter) };
    if r == 0 {
        return RtLine::ok(WHAT, format!("SCHED_FIFO, priority {priority}"));
    }
    RtLine::short(WHAT, format!("SCHED_FIFO priority {priority}: {}", io::Error::last_os_error()), CURE)
}

/// The CPU for the servo: an isolated one if the kernel has one that this process may use, else the last allowed one.
/// `None` when only one CPU is allowed: pinning would then gain nothing and starve the rest. For benches and
/// tests; the daemon, which may have several servos, splits its CPUs by `control::cpu::Cpus`.
pub fn pick_cpu() -> Option<usize> {
    let isolated = std::fs::read_to_string("/sys/devices/system/cpu/isolated").unwrap_or_default();
    let set = sched_getaffinity(Pid::from_raw(0)).ok()?;
    let allowed: Vec<usize> = (0..CpuSet::count()).filter(|&c| set.is_set(c).unwrap_or(false)).collect();
    let first = parse_list(&isolated).into_iter().find(|c| allowed.contains(c));
    if first.is_some() {
        return first;
    }
    (allowed.len() > 1).then(|| allowed.last().copied()).flatten()
}

/// Keeps the calling thread, and every thread that it starts from now on, off the servo's CPU. Call it in `main` before
/// any pool or runtime starts. For benches and tests, as [`pick_cpu`].
///
/// # Errors
/// When the kernel refuses, or no other CPU is left.
pub fn keep_off(cpu: usize) -> io::Result<()> {
    let me = Pid::from_raw(0);
    let mut set = sched_getaffinity(me)?;
    set.unset(cpu)?;
    if (0..CpuSet::count()).all(|c| !set.is_set(c).unwrap_or(false)) {
        return Err(io::Error::other(format!("CPU {cpu} is the only one")));
    }
    Ok(sched_setaffinity(me, &set)?)
}

/// A kernel CPU list such as `0-2,5`.
fn parse_list(text: &str) -> Vec<usize> {
    let range = |part: &str| -> Option<std::ops::RangeInclusive<usize>> {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some(from.parse().ok()?..=to.parse().ok()?)
    };
    text.trim().split(',').filter_map(range).flatten().take(CpuSet::count()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_read() {
        assert_eq!(parse_list("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(parse_list("\n"), [0usize; 0]);
        assert_eq!(parse_list("x,3"), [3]);
    }

    #[test]
    fn policy_and_affinity_stay_in_the_thread_that_asked() {
        let policy = || {
            // SAFETY: 0 means the calling thread.
            unsafe { libc::sched_getscheduler(0) }
        };
        let cpus = || sched_getaffinity(Pid::from_raw(0)).unwrap();
        let before = cpus();
        let cpu = pick_cpu();
        std::thread::spawn(move || {
            if let Some(cpu) = cpu {
                assert!(pin(cpu).ok);
                let mut only = CpuSet::new();
                only.set(cpu).unwrap();
                assert_eq!(cpus(), only);
            }
            let line = fifo(10);
            let expect =
                if line.ok { libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK } else { libc::SCHED_OTHER };
            assert_eq!(policy(), expect, "{line:?}");
            // A thread started from here falls back to the normal policy.
            std::thread::spawn(move || {
                assert_eq!(policy() & !libc::SCHED_RESET_ON_FORK, libc::SCHED_OTHER);
            })
            .join()
            .unwrap();
        })
        .join()
        .unwrap();
        assert_eq!((policy(), cpus()), (libc::SCHED_OTHER, before));
    }

    #[test]
    fn an_absent_cpu_is_a_shortfall_with_a_cure() {
        let line = std::thread::spawn(|| pin(1000)).join().unwrap();
        assert!(!line.ok && line.cure.contains("servo.core"), "{line:?}");
    }

    #[test]
    fn keep_off_leaves_the_other_cpus() {
        let Some(cpu) = pick_cpu() else {
            println!("skipped: only one CPU");
            return;
        };
        std::thread::spawn(move || {
            keep_off(cpu).unwrap();
            assert!(!sched_getaffinity(Pid::from_raw(0)).unwrap().is_set(cpu).unwrap());
            // Inherited by what starts from here.
            let child = std::thread::spawn(|| sched_getaffinity(Pid::from_raw(0)).unwrap());
            assert!(!child.join().unwrap().is_set(cpu).unwrap());
        })
        .join()
        .unwrap();
    }
}
