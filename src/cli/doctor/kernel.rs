//! What the kernel was built and told to do.

use super::check::{Check, Root};
use super::limits::FifoAttempt;

/// CONFIG_RT_GROUP_SCHED: a cgroup without real-time budget refuses SCHED_FIFO whatever the limits say.
pub fn cgroup(root: &Root, fifo: &FifoAttempt) -> Check {
    let name = "cgroup RT budget";
    let groups = root.read("/proc/self/cgroup").unwrap_or_default();
    // cgroup v1: "3:cpu,cpuacct:/user.slice".
    let v1 = groups.lines().find_map(|l| {
        let mut parts = l.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        controllers.split(',').any(|c| c == "cpu").then(|| path.trim_matches('/').to_owned())
    });
    for mount in ["cpu", "cpu,cpuacct"] {
        let Some(group) = &v1 else { break };
        let file = format!("/sys/fs/cgroup/{mount}/{group}/cpu.rt_runtime_us").replace("//", "/");
        if let Some(runtime) = root.read(&file).and_then(|t| t.parse::<i64>().ok()) {
            return if runtime == 0 {
                let cure = format!("echo 950000 | sudo tee {file}");
                Check::degraded(name, format!("{file} is 0: no SCHED_FIFO in this group"), cure)
            } else {
                Check::ok(name, format!("{runtime} µs a second"))
            };
        }
    }
    let off = root
        .read("/proc/cmdline")
        .is_some_and(|c| c.split_whitespace().any(|w| w == "rt_group_sched=0" || w == "rt_group_sched=off"));
    let release = root.read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let config = root.read(&format!("/boot/config-{release}"));
    let built = config.as_ref().map(|c| c.lines().any(|l| l.trim() == "CONFIG_RT_GROUP_SCHED=y"));
    match (fifo, off, built) {
        (FifoAttempt::Granted, ..) => Check::ok(name, "SCHED_FIFO is granted in this process's group"),
        (_, true, _) => Check::ok(name, "RT group scheduling is switched off at boot"),
        (_, _, Some(false)) => Check::ok(name, "the kernel has no RT group scheduling"),
        (FifoAttempt::Refused(_), false, Some(true)) => Check::degraded(
            name,
            "the kernel has RT group scheduling, and this process's group has no budget",
            "sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&rt_group_sched=0 /' /etc/default/grub && sudo update-grub, reboot",
        ),
        (_, _, None) => Check::unknown(name, "no cpu.rt_runtime_us and no kernel configuration to read"),
    }
}

/// `kernel.sched_rt_runtime_us`: the share of each second that real-time threads may take.
pub fn rt_runtime(root: &Root) -> Check {
    let name = "RT throttling";
    let get = |key: &str| root.read(&format!("/proc/sys/kernel/{key}")).and_then(|t| t.parse::<i64>().ok());
    let (Some(runtime), Some(period)) = (get("sched_rt_runtime_us"), get("sched_rt_period_us")) else {
        return Check::unknown(name, "no kernel.sched_rt_runtime_us");
    };
    if runtime < 0 {
        return Check::ok(
            name,
            "off: a runaway real-time thread can hang the machine; hapticd limits itself",
        );
    }
    let share = 100 * runtime / period.max(1);
    if share >= 90 {
        Check::ok(name, format!("real-time threads may use {share} % of a CPU"))
    } else {
        Check::degraded(
            name,
            format!("real-time threads may use only {share} % of a CPU, then they are stopped"),
            "sudo sysctl -w kernel.sched_rt_runtime_us=950000 kernel.sched_rt_period_us=1000000",
        )
    }
}

/// First kernel whose scheduler has a deadline server for ordinary threads: (major, minor).
const FIRST_WITH_SERVER: (u32, u32) = (6, 12);

/// The scheduler's "fair server", a deadline entity on every CPU that lets ordinary threads run before SCHED_FIFO ones for up
/// to 50 ms of each second (Linux 6.12, kernel/sched/deadline.c). Where ordinary threads keep the servo's CPU busy it wakes the
/// servo milliseconds late about once a second, though nobody starves.
pub fn fair_server(root: &Root, servo: Option<usize>) -> Check {
    let name = "fair server";
    let release = root.read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|n| n.parse::<u32>().ok());
    let (Some(major), Some(minor)) = (numbers.next(), numbers.next()) else {
        return Check::unknown(name, "no kernel version to read");
    };
    if (major, minor) < FIRST_WITH_SERVER {
        return Check::ok(name, format!("kernel {release} has none"));
    }
    let Some(cpu) = servo else { return Check::unknown(name, "/proc does not tell the servo's CPU") };
    let isolated = root.read("/sys/devices/system/cpu/isolated").unwrap_or_default();
    if super::check::cpu_list(&isolated).contains(&(cpu as u32)) {
        return Check::ok(name, format!("CPU {cpu} is isolated: there is nobody for it to serve"));
    }
    let dir = format!("/sys/kernel/debug/sched/fair_server/cpu{cpu}");
    let get = |key: &str| root.read(&format!("{dir}/{key}")).and_then(|t| t.parse::<u64>().ok());
    let what = match (get("runtime"), get("period")) {
        (Some(0), _) => return Check::ok(name, format!("switched off on CPU {cpu}")),
        (Some(runtime), Some(period)) => {
            format!("for {} ms of each {} ms", runtime / 1_000_000, period / 1_000_000)
        }
        _ => format!("for up to 50 ms of each second (the default of kernel {release})"),
    };
    Check::degraded(
        name,
        format!(
            "ordinary threads on CPU {cpu} may run before the servo {what}: single wake-ups come milliseconds late"
        ),
        format!("isolate the CPU (see above), or after each boot: echo 0 | sudo tee {dir}/runtime"),
    )
}

/// PREEMPT_RT.
pub fn preemption(root: &Root) -> Check {
    let name = "PREEMPT_RT";
    let Some(version) = root.read("/proc/version") else {
        return Check::unknown(name, "no /proc/version");
    };
    if root.read("/sys/kernel/realtime").as_deref() == Some("1") || version.contains("PREEMPT_RT") {
        return Check::ok(name, "the kernel is fully preemptible");
    }
    let kind = ["PREEMPT_DYNAMIC", "PREEMPT"].into_iter().find(|k| version.contains(k));
    Check::degraded(
        name,
        format!("the kernel is {}: some wake-ups come milliseconds late", kind.unwrap_or("not preemptible")),
        "sudo apt-get install linux-image-rt-amd64 (Debian; Ubuntu: sudo pro enable realtime-kernel), reboot",
    )
}

#[cfg(test)]
mod tests {
    use super::super::check::Status;
    use super::*;

    #[test]
    fn the_fair_server_is_told_where_it_can_run_before_the_servo() {
        const DIR: &str = "sys/kernel/debug/sched/fair_server/cpu1";
        let on = |release: &str, isolated: &str, runtime: Option<&str>| {
            let dir = tempfile::tempdir().expect("a directory");
            let put = |path: &str, text: &str| {
                let path = dir.path().join(path);
                std::fs::create_dir_all(path.parent().expect("below")).expect("made");
                std::fs::write(path, text).expect("written");
            };
            put("proc/sys/kernel/osrelease", release);
            put("sys/devices/system/cpu/isolated", isolated);
            if let Some(runtime) = runtime {
                put(&format!("{DIR}/runtime"), runtime);
                put(&format!("{DIR}/period"), "1000000000\n");
            }
            fair_server(&Root::new(dir.path()), Some(1))
        };
        for (release, isolated, runtime) in [
            ("6.11.9-amd64\n", "\n", None),
            ("5.15.0\n", "\n", None),
            ("6.18.44\n", "1\n", None),
            ("7.0.1-rc1\n", "\n", Some("0\n")),
        ] {
            let check = on(release, isolated, runtime);
            assert_eq!(check.status, Status::Ok, "{check:?}");
        }
        for (release, runtime, why) in [
            ("6.12.0-rt\n", None, "up to 50 ms of each second"),
            ("7.0.1-rc1\n", None, "kernel 7.0.1-rc1"),
            ("6.18.44\n", Some("25000000\n"), "25 ms of each 1000 ms"),
        ] {
            let check = on(release, "0\n", runtime);
            assert_eq!(check.status, Status::Degraded, "{check:?}");
            assert!(check.why.contains(why), "{check:?}");
            assert!(check.cure.is_some_and(|c| c.contains(&format!("echo 0 | sudo tee /{DIR}/runtime"))));
        }
        assert_eq!(on("strange\n", "\n", None).status, Status::Unknown);
    }
}
