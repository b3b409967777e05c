//! `hapticd doctor`: each line ok, degraded and unknown on a made-up /proc and /sys, and the process limits for real in
//! a child whose limits are lowered.

use hapticd::cli::doctor::{Check, Daemon, FifoAttempt, Root, Status, Told, checks};
use hapticd::device::registry::Registry;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// Files of a machine on which everything is as it should be.
const GOOD: &[(&str, &str)] = &[
    (
        "proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n\
         Max locked memory         unlimited            unlimited            bytes     \n\
         Max realtime priority     95                   95                   \n",
    ),
    ("proc/self/status", "Name:\thapticd\nCpus_allowed_list:\t0-3\nCapEff:\t0000000000000000\n"),
    ("proc/self/cgroup", "0::/user.slice\n"),
    ("proc/cmdline", "root=/dev/sda1 quiet\n"),
    ("proc/version", "Linux version 6.12.0-rt (x) #1 SMP PREEMPT_RT\n"),
    ("proc/sys/kernel/osrelease", "6.12.0-rt\n"),
    ("proc/sys/kernel/sched_rt_runtime_us", "950000\n"),
    ("proc/sys/kernel/sched_rt_period_us", "1000000\n"),
    ("boot/config-6.12.0-rt", "CONFIG_SMP=y\n# CONFIG_RT_GROUP_SCHED is not set\n"),
    ("sys/devices/system/cpu/isolated", "3\n"),
    ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
    ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"),
    ("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "0\n"),
    ("sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "0\n"),
    ("sys/devices/system/cpu/cpuidle/current_driver", "intel_idle\n"),
    ("dev/cpu_dma_latency", ""),
    ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
    ("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet acpi_pm\n"),
    ("sys/bus/usb/devices/1-2/idVendor", "0403\n"),
    ("sys/bus/usb/devices/1-2/idProduct", "cb48\n"),
    ("sys/bus/usb/devices/1-2/busnum", "1\n"),
    ("sys/bus/usb/devices/1-2/devnum", "7\n"),
    ("dev/bus/usb/001/007", ""),
    (
        "etc/systemd/system/hapticd.service",
        "[Service]\nExecStart=/usr/bin/hapticd run\nExecStopPost=/usr/bin/hapticd zero\n",
    ),
];

/// Checks a machine that differs from the good one: a file with `None` is absent.
fn on(changes: &[(&str, Option<&str>)], fifo: &FifoAttempt) -> Vec<Check> {
    let dir = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    GOOD.iter().for_each(|(path, text)| put(path, text));
    for (path, text) in changes {
        match text {
            Some(text) => put(path, text),
            None => std::fs::remove_file(dir.path().join(path)).unwrap(),
        }
    }
    checks(&Root::new(dir.path()), fifo, &Registry::builtin(), &[], &idle())
}

/// A daemon that has a Falcon ready.
fn idle() -> Daemon {
    let [role, profile, state, trouble] = ["", "novint-falcon", "idle", ""].map(str::to_owned);
    Daemon::Tells(vec![Told { role, profile, state, trouble }])
}

fn line<'a>(all: &'a [Check], name: &str) -> &'a Check {
    all.iter().find(|c| c.name.starts_with(name)).unwrap_or_else(|| panic!("no line '{name}' in {all:#?}"))
}

#[test]
fn everything_is_ok_on_a_good_machine() {
    let all = on(&[], &FifoAttempt::Granted);
    // The vector unit is this machine's own; its two verdicts have a unit test.
    let bad: Vec<&Check> = all.iter().filter(|c| c.status != Status::Ok && c.name != "SIMD").collect();
    assert!(bad.is_empty(), "{bad:#?}");
    assert!(all.len() >= 15, "{} lines", all.len());
    assert!(all.iter().all(|c| c.cure.is_none() && !c.why.is_empty()));
}

/// Each change makes exactly the named line worse, with a reason that holds the given words and a cure to run.
#[test]
fn each_shortfall_is_found_explained_and_cured() {
    let refused = FifoAttempt::Refused("Operation not permitted".into());
    let granted = FifoAttempt::Granted;
    let limits = |lock: &str, prio: &str| {
        format!("Max locked memory {lock} {lock} bytes\nMax realtime priority {prio} {prio}\n")
    };
    let cases: Vec<(&str, Vec<(&str, Option<String>)>, &FifoAttempt, &str, &str)> = vec![
        ("scheduling policy", vec![], &refused, "not permitted", "limits.d"),
        (
            "RLIMIT_RTPRIO",
            vec![("proc/self/limits", Some(limits("unlimited", "10")))],
            &granted,
            "10, 81 are needed",
            "rtprio 95",
        ),
        (
            "RLIMIT_RTPRIO",
            vec![("proc/self/limits", Some(limits("unlimited", "80")))],
            &granted,
            "80, 81 are needed (the servo's 80, the device's I/O one above)",
            "rtprio 95",
        ),
        (
            "RLIMIT_MEMLOCK",
            vec![("proc/self/limits", Some(limits("8388608", "95")))],
            &granted,
            "8 MiB",
            "memlock unlimited",
        ),
        (
            "cgroup RT budget",
            vec![
                ("proc/self/cgroup", Some("3:cpu,cpuacct:/user.slice\n0::/\n".into())),
                ("sys/fs/cgroup/cpu,cpuacct/user.slice/cpu.rt_runtime_us", Some("0\n".into())),
            ],
            &granted,
            "is 0",
            "echo 950000 | sudo tee /sys/fs/cgroup/cpu,cpuacct/user.slice/cpu.rt_runtime_us",
        ),
        (
            "RT throttling",
            vec![("proc/sys/kernel/sched_rt_runtime_us", Some("100000\n".into()))],
            &granted,
            "10 %",
            "sysctl -w kernel.sched_rt_runtime_us=950000",
        ),
        (
            "PREEMPT_RT",
            vec![("proc/version", Some("Linux version 6.1 #1 SMP PREEMPT_DYNAMIC\n".into()))],
            &granted,
            "PREEMPT_DYNAMIC",
            "linux-image-rt",
        ),
        (
            "CPU affinity",
            vec![("proc/self/status", Some("Cpus_allowed_list:\t2\nCapEff:\t0\n".into()))],
            &granted,
            "CPU 2 alone",
            "taskset",
        ),
        (
            "isolated CPU",
            // A kernel without a fair server, which has lines of its own.
            vec![
                ("sys/devices/system/cpu/isolated", Some("\n".into())),
                ("proc/sys/kernel/osrelease", Some("6.11.0-rt\n".into())),
            ],
            &granted,
            "none",
            "isolcpus=domain,managed_irq,1 ",
        ),
        (
            "CPU governor",
            vec![("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", Some("powersave\n".into()))],
            &granted,
            "cpu1 powersave",
            "echo performance",
        ),
        ("DMA latency", vec![("dev/cpu_dma_latency", None)], &granted, "intel_idle", "max_cstate"),
        (
            "thermal throttling",
            vec![("sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", Some("12\n".into()))],
            &granted,
            "cpu1 12 times",
            "sensors",
        ),
        (
            "clocksource",
            vec![("sys/devices/system/clocksource/clocksource0/current_clocksource", Some("hpet\n".into()))],
            &granted,
            "hpet",
            "echo tsc",
        ),
        ("device nodes", vec![("dev/bus/usb/001/007", None)], &granted, "Novint Falcon", "udevadm"),
        (
            "torque hold",
            vec![("etc/systemd/system/hapticd.service", Some("[Service]\nExecStart=/x\n".into()))],
            &granted,
            "nothing ends it",
            "ExecStopPost=hapticd zero",
        ),
    ];
    for (name, changes, fifo, why, cure) in &cases {
        let changes: Vec<(&str, Option<&str>)> = changes.iter().map(|(p, t)| (*p, t.as_deref())).collect();
        let all = on(&changes, fifo);
        let found = line(&all, name);
        assert_eq!(found.status, Status::Degraded, "{found:#?}");
        assert!(found.why.contains(why), "{name}: '{}' does not say '{why}'", found.why);
        let given = found.cure.as_deref().unwrap();
        assert!(given.contains(cure), "{name}: '{given}' does not say '{cure}'");
        let others: Vec<&Check> = all
            .iter()
            .filter(|c| c.status == Status::Degraded && !c.name.starts_with(name) && c.name != "SIMD")
            .collect();
        assert!(others.is_empty(), "{name} also degraded {others:#?}");
    }
}

/// Who joins the group of the device nodes can command raw torque past every guard: the cure says so, and that the service needs
/// nobody to.
/// A profile of one's own that states more than its figures bear is lowered, and a degraded line says from what to what; what it is guarded by
/// stands beside.
#[test]
fn a_profile_that_states_more_than_it_bears_is_degraded() {
    let dir = tempfile::tempdir().expect("tempdir");
    let shipped = include_str!("../devices/phantom-omni.toml");
    let bold = shipped.replace("max_stiffness = { value = 700.0", "max_stiffness = { value = 70000.0");
    std::fs::write(dir.path().join("phantom-omni.toml"), bold).expect("written");
    let root = Root::new(dir.path());
    for (profiles, status) in [(None, None), (Some(dir.path()), Some(Status::Degraded))] {
        let registry = Registry::with(profiles).expect("sound");
        let named = ["phantom-omni".to_owned()];
        let all =
            checks(&root, &FifoAttempt::Granted, &registry, &named, &Daemon::Silent("none runs".into()));
        let found = all.iter().find(|c| c.name == "stiffness phantom-omni");
        assert_eq!(found.map(|c| c.status), status, "{all:#?}");
        if let Some(found) = found {
            let to = registry.profile("phantom-omni").expect("there").max_stiffness;
            assert!(
                found.why.contains("70000 N/m") && found.why.contains(&format!("{to:.0}")),
                "{}",
                found.why
            );
            assert!(found.cure.as_ref().is_some_and(|c| c.contains("docs/new-device.md")), "{found:?}");
        }
        assert!(
            line(&all, "energy bound phantom-omni").why.contains("\"profile\" is \"controller\""),
            "{all:#?}"
        );
    }
}

#[test]
fn the_cure_for_a_closed_node_tells_what_joining_its_group_means() {
    let all = on(&[("dev/bus/usb/001/007", None)], &FifoAttempt::Granted);
    let cure = line(&all, "device nodes").cure.clone().unwrap();
    let (rules, own) = cure.split_once("; ").unwrap();
    assert!(rules.contains("72-hapticd.rules") && !rules.contains("usermod"), "{cure}");
    assert!(own.starts_with("only to run hapticd as yourself"), "{cure}");
    assert!(own.contains("raw torque") && own.contains("hapticd-dev"), "{cure}");
}

#[test]
fn rt_group_scheduling_without_budget_is_named_only_when_it_is_the_cause() {
    let refused = FifoAttempt::Refused("Operation not permitted".into());
    let built = ("boot/config-6.12.0-rt", Some("CONFIG_RT_GROUP_SCHED=y\n"));
    assert_eq!(line(&on(&[built], &refused), "cgroup").status, Status::Degraded);
    assert!(line(&on(&[built], &refused), "cgroup").cure.as_ref().unwrap().contains("rt_group_sched=0"));
    assert_eq!(line(&on(&[built], &FifoAttempt::Granted), "cgroup").status, Status::Ok);
    let off = ("proc/cmdline", Some("quiet rt_group_sched=0\n"));
    assert_eq!(line(&on(&[built, off], &refused), "cgroup").status, Status::Ok);
    assert_eq!(line(&on(&[("boot/config-6.12.0-rt", None)], &refused), "cgroup").status, Status::Unknown);
}

#[test]
fn capabilities_stand_above_limits() {
    let low = ("proc/self/limits", Some("Max locked memory 65536 65536 bytes\nMax realtime priority 0 0\n"));
    let caps = ("proc/self/status", Some("Cpus_allowed_list:\t0-3\nCapEff:\t0000000000804000\n"));
    let all = on(&[low, caps], &FifoAttempt::Granted);
    assert!(line(&all, "RLIMIT_RTPRIO").why.contains("CAP_SYS_NICE"));
    assert!(line(&all, "RLIMIT_MEMLOCK").why.contains("CAP_IPC_LOCK"));
    assert_eq!(line(&all, "RLIMIT_RTPRIO").status, Status::Ok);
}

#[test]
fn an_empty_system_tells_nothing_and_claims_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let all = checks(&Root::new(dir.path()), &FifoAttempt::Granted, &Registry::builtin(), &[], &idle());
    for name in [
        "RLIMIT_RTPRIO",
        "RLIMIT_MEMLOCK",
        "RT throttling",
        "PREEMPT_RT",
        "CPU affinity",
        "isolated CPU",
        "fair server",
    ] {
        assert_eq!(line(&all, name).status, Status::Unknown, "{name}");
    }
}

/// Runs the program with the given limits and without the capabilities that stand above them.
fn with_limits(priority: u64, locked: u64) -> Option<serde_json::Value> {
    use nix::sys::resource::{Resource, setrlimit};
    let mut command = Command::new(env!("CARGO_BIN_EXE_hapticd"));
    command.args(["doctor", "--json", "--seconds", "0"]);
    // SAFETY: between fork and exec only system calls are made, no memory is allocated and no lock taken.
    unsafe {
        command.pre_exec(move || {
            setrlimit(Resource::RLIMIT_RTPRIO, priority, priority)?;
            setrlimit(Resource::RLIMIT_MEMLOCK, locked, locked)?;
            // CAP_IPC_LOCK, CAP_SYS_NICE. Without root there is nothing to drop, and the call's refusal means nothing.
            libc::prctl(libc::PR_CAPBSET_DROP, 14, 0, 0, 0);
            libc::prctl(libc::PR_CAPBSET_DROP, 23, 0, 0, 0);
            Ok(())
        });
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return None,
        Err(error) => panic!("{error}"),
    };
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 3)), "exit {code:?}: {}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["ok"], code == Some(0), "exit code and 'ok' disagree");
    Some(json)
}

fn status(json: &serde_json::Value, name: &str) -> String {
    let all = json["checks"].as_array().unwrap();
    let line = all.iter().find(|c| c["name"] == name).unwrap_or_else(|| panic!("no line '{name}'"));
    line["status"].as_str().unwrap().to_owned()
}

#[test]
fn lowered_limits_of_a_real_process_are_seen() {
    let json = with_limits(0, 65536).expect("limits can always be lowered");
    for name in ["scheduling policy", "RLIMIT_RTPRIO", "RLIMIT_MEMLOCK"] {
        assert_eq!(status(&json, name), "degraded", "{name}");
    }
    assert_eq!(json["wake"], serde_json::Value::Null);
}

#[test]
fn sufficient_limits_of_a_real_process_are_seen() {
    let Some(json) = with_limits(95, libc::RLIM_INFINITY) else {
        eprintln!("skipped: this user may not raise its limits");
        return;
    };
    for name in ["RLIMIT_RTPRIO", "RLIMIT_MEMLOCK"] {
        assert_eq!(status(&json, name), "ok", "{name}");
    }
}

#[test]
fn the_text_has_one_line_a_check_and_cures_below_the_degraded() {
    let root = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_hapticd"))
        .args(["doctor", "--seconds", "0.05", "--root"])
        .arg(root.path())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("wake-up latency") && text.contains("wake-up error [µs]"), "{text}");
    let degraded = text.lines().filter(|l| l.starts_with("degraded")).count();
    assert_eq!(text.lines().filter(|l| l.trim_start().starts_with("cure:")).count(), degraded, "{text}");
    assert_eq!(output.status.code(), Some(if degraded > 0 { 3 } else { 0 }));
    assert!(Path::new(root.path()).exists());
}

/// Two of a kind, a mouse, and the second interface of a Teensy, which is no device: each node is looked at, with who may open it, whichever is closed.
#[test]
fn each_node_of_two_of_a_kind_is_looked_at() {
    let hid = |n: u32, id: &str| {
        (format!("sys/class/hidraw/hidraw{n}/device/uevent"), format!("DRIVER=hid-generic\nHID_ID={id}\n"))
    };
    let teensy = "0003:000016C0:00000486";
    let files = [
        hid(0, teensy),
        hid(1, teensy),
        hid(2, teensy),
        hid(3, "0003:0000256F:0000C635"),
        hid(4, "0003:0000046D:0000C077"),
        ("sys/class/hidraw/hidraw2/device/report_descriptor".into(), "\u{6}\u{9}".into()),
        ("sys/bus/usb/devices/1-3/idVendor".into(), "16c0\n".into()),
        ("sys/bus/usb/devices/1-3/idProduct".into(), "0486\n".into()),
    ];
    for there in [vec![0, 1, 3], vec![0, 3], vec![1, 3]] {
        let nodes: Vec<String> = there.iter().map(|n| format!("dev/hidraw{n}")).collect();
        let changes: Vec<(&str, Option<&str>)> = files
            .iter()
            .map(|(p, t)| (p.as_str(), Some(t.as_str())))
            .chain(nodes.iter().map(|n| (n.as_str(), Some(""))))
            .collect();
        let all = on(&changes, &FifoAttempt::Granted);
        let found = line(&all, "device nodes");
        assert_eq!(found.status == Status::Ok, there.len() == 3, "{found:#?}");
        for n in [0, 1] {
            let at =
                format!("/dev/hidraw{n} ({}", if there.contains(&n) { "06" } else { "which is not there" });
            assert!(found.why.contains(&at), "{} does not say {at}", found.why);
        }
        assert!(found.why.contains("SpaceMouse (input only) at /dev/hidraw3"), "{}", found.why);
        assert!(!found.why.contains("hidraw2") && !found.why.contains("hidraw4"), "{}", found.why);
        assert!(!found.why.contains("bus/usb/001/003"), "it has nodes: {}", found.why);
        let driver = line(&all, "driver WoodenHaptics");
        assert!(!driver.why.contains("device.name ="), "{}", driver.why);
        assert!(
            driver.why.contains("woodenhaptics-v2019") && driver.why.contains("Polhem"),
            "{}",
            driver.why
        );
        // What has no motors holds nothing.
        assert!(!all.iter().any(|c| c.name.contains("hold spacemouse")), "{all:#?}");
    }
}
