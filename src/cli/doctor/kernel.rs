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
