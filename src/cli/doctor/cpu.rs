//! CPUs: who may run where, how fast, how deep they sleep, which clock they read.

use super::check::{Check, Root, cpu_list};
use crate::geometry::simd::SimdLevel;

const GRUB: &str = "sudo update-grub, reboot";

/// The CPU that the servo takes: the last isolated one, else the last that this process may use.
pub fn servo_cpu(root: &Root) -> Option<usize> {
    let isolated = root.read("/sys/devices/system/cpu/isolated").unwrap_or_default();
    let last = cpu_list(&isolated).last().map(|c| *c as usize);
    last.or_else(|| core_affinity::get_core_ids()?.last().map(|c| c.id))
}

/// CPUs that this process may use.
pub fn affinity(root: &Root) -> Check {
    let name = "CPU affinity";
    let status = root.read("/proc/self/status").unwrap_or_default();
    let Some(list) = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")) else {
        return Check::unknown(name, "/proc/self/status does not tell");
    };
    let allowed = cpu_list(list);
    if allowed.len() >= 2 {
        return Check::ok(name, format!("may run on CPUs {}", list.trim()));
    }
    let cure = if root.cpus().len() > 1 {
        "taskset -c 0-$(($(nproc --all)-1)) hapticd run (or remove CPUAffinity= from the unit)"
    } else {
        "use a machine (or a virtual one) with two CPUs or more"
    };
    Check::degraded(
        name,
        format!("may run on CPU {} alone: scene builds and network share it with the servo", list.trim()),
        cure,
    )
}

/// A CPU kept free of other work.
pub fn isolation(root: &Root) -> Check {
    let name = "isolated CPU";
    let Some(list) = root.read("/sys/devices/system/cpu/isolated") else {
        return Check::unknown(name, "/sys does not tell");
    };
    if !list.is_empty() {
        return Check::ok(name, format!("{list} (the servo takes the last of them)"));
    }
    let cpus = root.cpus();
    let last = cpus.last().copied().unwrap_or(0);
    if cpus.len() < 2 {
        return Check::degraded(
            name,
            "there is only one CPU, which cannot be isolated",
            "use a machine (or a virtual one) with two CPUs or more",
        );
    }
    Check::degraded(
        name,
        "none: other programs and interrupts run on the servo's CPU",
        format!(
            "sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&isolcpus=domain,managed_irq,{last} nohz_full={last} \
             rcu_nocbs={last} /' /etc/default/grub && {GRUB}"
        ),
    )
}

/// Frequency scaling.
pub fn governor(root: &Root) -> Check {
    let name = "CPU governor";
    let slow: Vec<String> = root
        .cpus()
        .into_iter()
        .filter_map(|cpu| {
            let file = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
            root.read(&file).filter(|g| g != "performance").map(|g| format!("cpu{cpu} {g}"))
        })
        .collect();
    let scales = root
        .cpus()
        .into_iter()
        .any(|cpu| root.exists(&format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor")));
    if !scales {
        return Check::ok(name, "no frequency scaling to control here");
    }
    if slow.is_empty() {
        return Check::ok(name, "performance");
    }
    Check::degraded(
        name,
        format!("{}: a tick after idle time runs slow", summary(&slow)),
        "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
    )
}

/// Idle states: the wake-up from a deep one takes longer than a tick may.
pub fn dma_latency(root: &Root) -> Check {
    let name = "DMA latency";
    let driver = root.read("/sys/devices/system/cpu/cpuidle/current_driver");
    if driver.as_deref() == Some("none") {
        return Check::ok(name, "no idle driver: the CPUs have no deep sleep to wake from");
    }
    let path = root.path("/dev/cpu_dma_latency");
    if !path.exists() {
        let why = match driver {
            Some(d) => format!("no /dev/cpu_dma_latency, so '{d}' may put the servo's CPU into deep sleep"),
            None => {
                return Check::unknown(name, "neither /dev/cpu_dma_latency nor an idle driver is visible");
            }
        };
        let sed = "sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&processor.max_cstate=1 /' /etc/default/grub";
        return Check::degraded(name, why, format!("{sed} && {GRUB}"));
    }
    if nix::unistd::access(&path, nix::unistd::AccessFlags::W_OK).is_ok() {
        return Check::ok(
            name,
            "/dev/cpu_dma_latency is writable: the servo keeps its CPU out of deep sleep",
        );
    }
    Check::degraded(name, "/dev/cpu_dma_latency is not writable for this user", super::devices::UDEV)
}

/// Thermal throttling since boot.
pub fn throttling(root: &Root) -> Check {
    let name = "thermal throttling";
    let counts: Vec<(u32, u64)> = root
        .cpus()
        .into_iter()
        .filter_map(|cpu| {
            let dir = format!("/sys/devices/system/cpu/cpu{cpu}/thermal_throttle");
            let read = |file: &str| root.read(&format!("{dir}/{file}")).and_then(|t| t.parse::<u64>().ok());
            let core = read("core_throttle_count")?;
            Some((cpu, core + read("package_throttle_count").unwrap_or(0)))
        })
        .collect();
    if counts.is_empty() {
        return Check::unknown(name, "this CPU has no throttle counters");
    }
    let hot: Vec<String> =
        counts.iter().filter(|c| c.1 > 0).map(|(cpu, n)| format!("cpu{cpu} {n} times")).collect();
    if hot.is_empty() {
        return Check::ok(name, "none since boot");
    }
    Check::degraded(
        name,
        format!("{} since boot: the CPU got too hot and slowed down", summary(&hot)),
        "sudo apt-get install lm-sensors && watch sensors; clean the fans, lower the load, then reboot",
    )
}

/// The clock that the kernel reads.
pub fn clocksource(root: &Root) -> Check {
    let name = "clocksource";
    let dir = "/sys/devices/system/clocksource/clocksource0";
    let Some(current) = root.read(&format!("{dir}/current_clocksource")) else {
        return Check::unknown(name, "/sys does not tell");
    };
    // These are read in user space (vDSO) or at register speed; others cost a system call of a microsecond or more.
    if matches!(current.as_str(), "tsc" | "arch_sys_counter" | "kvm-clock" | "hyperv_clocksource_tsc_page") {
        return Check::ok(name, current);
    }
    let others = root.read(&format!("{dir}/available_clocksource")).unwrap_or_default();
    let cure = if others.split_whitespace().any(|c| c == "tsc") {
        format!("echo tsc | sudo tee {dir}/current_clocksource")
    } else {
        format!("sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&tsc=reliable /' /etc/default/grub && {GRUB}")
    };
    Check::degraded(name, format!("{current}: each look at the clock costs a microsecond or more"), cure)
}

/// Vector instructions of the contact query.
pub fn simd() -> Check {
    simd_of(SimdLevel::ALL.into_iter().rev().find(|l| l.available()).unwrap_or(SimdLevel::Scalar))
}

fn simd_of(level: SimdLevel) -> Check {
    let name = "SIMD";
    if level > SimdLevel::Scalar {
        return Check::ok(name, level.to_string());
    }
    Check::degraded(
        name,
        "no AVX2: contact queries take about five times as long, so fewer points fit a tick",
        "use a CPU with AVX2 (x86-64-v3; in a virtual machine: qemu -cpu host), or a lower [servo] budget_us",
    )
}

/// The first few of a list.
fn summary(all: &[String]) -> String {
    match all {
        [a, b, c, rest @ ..] if !rest.is_empty() => format!("{a}, {b}, {c} and {} more", rest.len()),
        all => all.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::Status;
    use super::*;

    #[test]
    fn simd_levels() {
        assert_eq!(simd_of(SimdLevel::Scalar).status, Status::Degraded);
        assert_eq!(simd_of(SimdLevel::Avx2).status, Status::Ok);
        assert!(simd_of(SimdLevel::Avx512).why.contains("avx512"));
    }

    #[test]
    fn long_lists_are_cut() {
        let all: Vec<String> = (0..5).map(|i| i.to_string()).collect();
        assert_eq!(summary(&all), "0, 1, 2 and 2 more");
        assert_eq!(summary(&all[..3]), "0, 1, 2");
    }
}
