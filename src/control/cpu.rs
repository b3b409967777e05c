//! Which CPU belongs to which servo, and keeping everything else off them.

use crate::config::Core;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// The CPUs of this process, split between the servos and the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpus {
    /// The servo's; the first one's where there are several.
    pub servo: usize,
    /// Those of all servos, by device. Several stand on one CPU where there are too few.
    servos: Vec<usize>,
    /// Everybody else's; a servo's own only when there is no other.
    pub others: Vec<usize>,
    /// All that this process may use.
    all: Vec<usize>,
}

impl Cpus {
    /// Splits the CPUs that this process may use, for one servo.
    ///
    /// # Errors
    /// A configured core that the process may not use.
    pub fn split(core: Core) -> Result<Self, String> {
        Self::divide(&[core])
    }

    /// Splits the CPUs that this process may use, for several servos: each has its own as long as one is left to everybody else.
    ///
    /// # Errors
    /// As [`split`](Self::split).
    pub fn divide(cores: &[Core]) -> Result<Self, String> {
        let isolated = std::fs::read_to_string("/sys/devices/system/cpu/isolated").unwrap_or_default();
        Self::choose(cores, &allowed(), &parse_list(&isolated))
    }

    fn choose(cores: &[Core], allowed: &[usize], isolated: &[usize]) -> Result<Self, String> {
        let mut servos = Vec::with_capacity(cores.len());
        for core in cores {
            servos.push(match core {
                Core::Auto => None,
                Core::Index(n) if allowed.contains(n) || isolated.contains(n) => Some(*n),
                Core::Index(n) => {
                    let wrong = format!(
                        "servo.core = {n} (or device.core): this process may use the CPUs {allowed:?} only"
                    );
                    return Err(wrong);
                }
            });
        }
        let rest = |taken: &[usize]| -> Vec<usize> {
            let free = |c: &usize| !taken.contains(c) && !isolated.contains(c);
            allowed.iter().copied().filter(free).collect()
        };
        let mut taken: Vec<usize> = servos.iter().flatten().copied().collect();
        for servo in servos.iter_mut().filter(|s| s.is_none()) {
            // An isolated CPU is not in the mask of ordinary processes, but may be asked for explicitly.
            let all = isolated.iter().rev().chain(allowed.iter().rev()).copied();
            let own = all.clone().find(|c| {
                let with: Vec<usize> = taken.iter().copied().chain([*c]).collect();
                !taken.contains(c) && !rest(&with).is_empty()
            });
            let fewest = || taken.iter().copied().min_by_key(|c| taken.iter().filter(|t| *t == c).count());
            let cpu = own.or_else(fewest).or_else(|| all.clone().next()).unwrap_or(0);
            taken.push(cpu);
            *servo = Some(cpu);
        }
        let servos: Vec<usize> = servos.into_iter().flatten().collect();
        let mut others = rest(&servos);
        if others.is_empty() {
            others = allowed.iter().copied().filter(|c| !isolated.contains(c)).collect();
        }
        let servo = servos.first().copied().unwrap_or(0);
        if others.is_empty() {
            others.push(servo);
        }
        Ok(Self { servo, servos, others, all: allowed.to_vec() })
    }

    /// The same as the servo of that device sees it.
    #[must_use]
    pub fn of(&self, device: usize) -> Self {
        Self { servo: self.servos.get(device).copied().unwrap_or(self.servo), ..self.clone() }
    }

    /// Devices whose servos run on the same CPU as [`servo`](Self::servo), that one included.
    pub fn sharing(&self) -> Vec<usize> {
        let same = |(device, cpu): (usize, &usize)| (*cpu == self.servo).then_some(device);
        self.servos.iter().enumerate().filter_map(same).collect()
    }

    /// Keeps the calling thread, and the threads that it starts, off the servos' CPUs. Best effort: without it the
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
        let c = Cpus::choose(&[core], allowed, isolated).expect("splits");
        (c.servo, c.others)
    }

    #[test]
    fn the_servo_gets_an_isolated_cpu_or_the_last() {
        assert_eq!(split(Core::Auto, &[0, 1, 2, 3], &[]), (3, vec![0, 1, 2]));
        assert_eq!(split(Core::Auto, &[0, 1], &[2, 3]), (3, vec![0, 1]));
        assert_eq!(split(Core::Index(1), &[0, 1, 2], &[]), (1, vec![0, 2]));
        assert_eq!(split(Core::Auto, &[5], &[]), (5, vec![5]));
        assert!(Cpus::choose(&[Core::Index(9)], &[0, 1], &[]).unwrap_err().contains("servo.core = 9"));
    }

    #[test]
    fn each_servo_gets_its_own_cpu_as_long_as_one_is_left_to_the_rest() {
        let two = |cores: [Core; 2], allowed: &[usize], isolated: &[usize]| {
            let c = Cpus::choose(&cores, allowed, isolated).expect("splits");
            (c.servos.clone(), c.of(1).servo, c.of(1).sharing().len(), c.others)
        };
        let auto = [Core::Auto; 2];
        assert_eq!(two(auto, &[0, 1, 2, 3], &[]), (vec![3, 2], 2, 1, vec![0, 1]));
        assert_eq!(two(auto, &[0, 1, 2], &[]), (vec![2, 1], 1, 1, vec![0]));
        assert_eq!(two(auto, &[0, 1], &[]), (vec![1, 1], 1, 2, vec![0]), "one stays for the rest");
        assert_eq!(two(auto, &[0], &[]), (vec![0, 0], 0, 2, vec![0]));
        assert_eq!(two(auto, &[0, 1], &[2, 3]), (vec![3, 2], 2, 1, vec![0, 1]));
        assert_eq!(two(auto, &[0, 1], &[2]), (vec![2, 1], 1, 1, vec![0]));
        let asked = [Core::Index(0), Core::Index(1)];
        assert_eq!(two(asked, &[0, 1], &[]), (vec![0, 1], 1, 1, vec![0, 1]), "as asked");
        assert_eq!(two([Core::Auto, Core::Index(3)], &[0, 1, 2, 3], &[]), (vec![2, 3], 3, 1, vec![0, 1]));
        let four = Cpus::choose(&[Core::Auto; 4], &[0, 1, 2], &[]).expect("splits");
        assert_eq!((four.servos, four.others), (vec![2, 1, 2, 1], vec![0]));
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
