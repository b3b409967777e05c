//! Which CPU belongs to the servo, and keeping everything else off it.

use crate::config::Core;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// The CPUs of this process, split between the servo and the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpus {
    /// The servo's.
    pub servo: usize,
    /// Everybody else's; the servo's own only when there is no other.
    pub others: Vec<usize>,
    /// All that this process may use.
    all: Vec<usize>,
}

impl Cpus {
    /// Splits the CPUs that this process may use.
    ///
    /// # Errors
    /// A configured core that the process may not use.
    pub fn split(core: Core) -> Result<Self, String> {
        let isolated = std::fs::read_to_string("/sys/devices/system/cpu/isolated").unwrap_or_default();
        Self::choose(core, &allowed(), &parse_list(&isolated))
    }

    fn choose(core: Core, allowed: &[usize], isolated: &[usize]) -> Result<Self, String> {
        let servo = match core {
            Core::Index(n) if allowed.contains(&n) || isolated.contains(&n) => n,
            Core::Index(n) => {
                return Err(format!("servo.core = {n}: this process may use the CPUs {allowed:?} only"));
            }
            // An isolated CPU is not in the mask of ordinary processes, but may be asked for explicitly.
            Core::Auto => isolated.last().or(allowed.last()).copied().unwrap_or(0),
        };
        let mut others: Vec<usize> =
            allowed.iter().copied().filter(|c| *c != servo && !isolated.contains(c)).collect();
        if others.is_empty() {
            others.push(servo);
        }
        Ok(Self { servo, others, all: allowed.to_vec() })
    }

    /// Keeps the calling thread, and the threads that it starts, off the servo's CPU. Best effort: without it the
    /// daemon still works, and `doctor` shows the wake error.
    pub fn leave_servo_alone(&self) {
        allow(&self.others);
    }

    /// Gives the calling thread all CPUs back: the one that starts the servo, which pins itself.
    pub fn everywhere(&self) {
        allow(&self.all);
    }
}

/// Moves the calling thread to one CPU; best effort.
pub fn pin(cpu: usize) {
    allow(&[cpu]);
}

fn allow(cpus: &[usize]) {
    let mut set = CpuSet::new();
    if cpus.iter().all(|c| set.set(*c).is_ok()) {
        let _ = sched_setaffinity(Pid::from_raw(0), &set);
    }
}

fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    (0..CpuSet::count()).filter(|c| set.is_set(*c).unwrap_or(false)).collect()
}

/// `0,2-4` to `[0, 2, 3, 4]`, as the kernel prints lists of CPUs.
fn parse_list(text: &str) -> Vec<usize> {
    let mut out = Vec::new();
    for part in text.trim().split(',').filter(|p| !p.is_empty()) {
        let (a, b) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(a), Ok(b)) = (a.parse::<usize>(), b.parse::<usize>()) {
            out.extend(a..=b.min(a + 4096));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(core: Core, allowed: &[usize], isolated: &[usize]) -> (usize, Vec<usize>) {
        let c = Cpus::choose(core, allowed, isolated).expect("splits");
        (c.servo, c.others)
    }

    #[test]
    fn the_servo_gets_an_isolated_cpu_or_the_last() {
        assert_eq!(split(Core::Auto, &[0, 1, 2, 3], &[]), (3, vec![0, 1, 2]));
        assert_eq!(split(Core::Auto, &[0, 1], &[2, 3]), (3, vec![0, 1]));
        assert_eq!(split(Core::Index(1), &[0, 1, 2], &[]), (1, vec![0, 2]));
        assert_eq!(split(Core::Auto, &[5], &[]), (5, vec![5]));
        assert!(Cpus::choose(Core::Index(9), &[0, 1], &[]).unwrap_err().contains("servo.core = 9"));
    }

    #[test]
    fn lists_of_cpus() {
        assert_eq!(parse_list("0,2-4\n"), [0, 2, 3, 4]);
        assert_eq!(parse_list("\n"), [0_usize; 0]);
        assert_eq!(parse_list("x,7"), [7]);
    }

    #[test]
    fn a_thread_and_its_children_leave_the_servo_alone() {
        let c = Cpus::split(Core::Auto).expect("splits");
        let others = c.others.clone();
        let seen = std::thread::spawn(move || {
            c.leave_servo_alone();
            let alone = std::thread::spawn(allowed).join().expect("runs");
            c.everywhere();
            (alone, allowed() == c.all)
        });
        assert_eq!(seen.join().expect("runs"), (others, true));
    }
}
