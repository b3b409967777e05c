//! The shipped systemd unit, installed as docs/install.md does: it starts and notifies, runs at real-time priority with its
//! memory locked and without root, keeps its watchdog fed, and ends with zero force whether it is stopped, killed or hangs.

use super::{install_rules, owned_by_the_service, succeeds, wait_for};
use hapticd::control::client::Client;
use hapticd::device::simulated::probe::Probe;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub const SOCKET: &str = "/run/hapticd/control.sock";
const PROBE: &str = "/var/lib/hapticd/probe";
/// The guest is emulated: a program may take seconds to start.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A hand that holds still.
const SIMULATED: &str = "[device]\nname = \"ideal-6dof\"\nhand = \"/etc/hapticd/hand.toml\"\nprobe = \"/var/lib/hapticd/probe\"\n";
/// Ticks and samples of an emulated machine are late, and to measure how fast it is takes it a minute.
pub const CONFIG: &str = "[servo]\nlate_in_a_row = 1000\nlate_in_a_second = 1000\nmax_gap_s = 10.0\nbudget_units = 1000\n\
                          stale_ticks = 100\nstale_fault_s = 5.0\n[control]\nlease_s = 10.0\ngroup = \"hapticd\"\n";
const HAND: &str = "hand = \"firm\"\n[[keyframe]]\ntime = 0.0\nposition = [0.0, 0.0, 0.0]\n";

/// A property of the unit as systemd has it.
pub fn shown(property: &str) -> String {
    succeeds(&["systemctl", "show", "hapticd", "--value", "-p", property]).trim().to_owned()
}

pub fn install(config: &str) {
    install_rules();
    // It is there before the rules are.
    succeeds(&["udevadm", "trigger", "--action=add", "--sysname-match=cpu_dma_latency"]);
    owned_by_the_service(Path::new("/dev/cpu_dma_latency"));
    let put = |from: &str, to: &str| {
        std::fs::create_dir_all(Path::new(to).parent().expect("a directory")).expect("makes it");
        std::fs::copy(format!("/share/{from}"), to).expect("copies");
    };
    put("hapticd", "/usr/bin/hapticd");
    put("hapticd.service", "/usr/lib/systemd/system/hapticd.service");
    std::fs::create_dir_all("/etc/hapticd").expect("makes it");
    std::fs::write("/etc/hapticd/hapticd.toml", config).expect("writes");
    std::fs::write("/etc/hapticd/hand.toml", HAND).expect("writes");
    succeeds(&["systemctl", "daemon-reload"]);
}

/// What the kernel says of the process: user, locked memory, policy and priority of the servo's thread.
pub fn seat(pid: &str) -> (u32, u64, u32, u32) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("runs");
    let number = |key: &str| {
        let line = status.lines().find(|l| l.starts_with(key)).expect("told");
        line.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok()).expect("a number")
    };
    let (policy, priority) = scheduled(pid, "servo").expect("a servo thread");
    (number("Uid:") as u32, number("VmLck:"), policy, priority)
}

/// What the kernel says of a thread, by its name.
pub fn task(pid: &str, thread: &str) -> Option<PathBuf> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("threads");
    let named =
        |dir: &PathBuf| std::fs::read_to_string(dir.join("comm")).is_ok_and(|name| name.trim() == thread);
    tasks.flatten().map(|task| task.path()).find(named)
}

/// Policy and priority of a thread, by its name.
pub fn scheduled(pid: &str, thread: &str) -> Option<(u32, u32)> {
    let stat = std::fs::read_to_string(task(pid, thread)?.join("stat")).ok()?;
    // After the name, which may hold anything: the state is field 3 (proc(5)), so priority 40 and policy 41.
    let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
    let field = |n: usize| fields[n - 3].parse().expect("a number");
    Some((field(41), field(40)))
}

pub fn client(name: &str) -> Client {
    let mut client = None;
    wait_for("the socket", PATIENCE, || {
        client = Client::connect(Some(Path::new(SOCKET)), name, None).ok();
        client.is_some()
    });
    let mut client = client.expect("connected");
    client.set_patience(Some(PATIENCE));
    client
}

pub fn state(client: &mut Client) -> String {
    let status = client.call("status", json!({})).expect("status");
    status["state"]["state"].as_str().unwrap_or("").to_owned()
}

/// Waits for a state; tells all that is known where it does not come.
pub fn reach(client: &mut Client, what: &str, wanted: &str) {
    let begin = Instant::now();
    while state(client) != wanted {
        if begin.elapsed() > PATIENCE {
            let status = client.call("status", json!({})).expect("status");
            panic!(
                "{what}: {status}\n{}",
                succeeds(&["journalctl", "-u", "hapticd", "-n", "40", "--no-pager"])
            );
        }
        // Each question takes of the processor that the daemon waits for.
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Somebody armed, and a constant push of 1 N, until it is where it shall be. `None`: the device was lost first.
pub fn push(mut arrived: impl FnMut() -> bool) -> Option<Child> {
    let mut c = client("unit");
    for _ in 0..5 {
        let mut owner = Command::new("hapticd")
            .args(["ctl", "--socket", SOCKET, "arm"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("starts");
        let (begin, mut asked) = (Instant::now(), false);
        // It ends where it was too slow to renew its lease.
        while begin.elapsed() < PATIENCE && owner.try_wait().expect("ours").is_none() {
            if !asked && state(&mut c) == "rendering" {
                let effect = json!({"constant": {"force": [0.0, 1.0, 0.0]}});
                let push = json!({"name": "push", "effect": effect, "persistent": true});
                c.call("effect.set", push).expect("an effect");
                asked = true;
            }
            if asked && arrived() {
                return Some(owner);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = owner.kill();
        let _ = owner.wait();
        if ["fault", "uncalibrated", "booting", "absent"].contains(&&*state(&mut c)) {
            return None;
        }
    }
    panic!("it never pushed: {}", c.call("status", json!({})).expect("status"));
}

/// As [`push`], until it is at the motors of the simulated device.
fn pushing() -> (Child, Probe) {
    let probe = Probe::open(Path::new(PROBE)).expect("a page");
    let owner = push(|| probe.read().wrench.force.norm() > 0.9).expect("the device is simulated");
    (owner, probe)
}

/// systemd has started it again.
pub fn another_process(old: &str) {
    wait_for("another process", PATIENCE, || {
        std::thread::sleep(Duration::from_millis(200));
        shown("ActiveState") == "active" && !["0", old].contains(&&*shown("MainPID"))
    });
}

/// Zero at the motors of the process that has died, and another in its place which pushes nobody.
fn ends_with_zero_and_comes_back(what: &str, old: &str, probe: &Probe, owner: &mut Child) {
    let begin = Instant::now();
    wait_for("zero at the motors", PATIENCE, || probe.read().is_zero());
    let zero = begin.elapsed();
    another_process(old);
    println!(
        "| systemd unit | {what} | zero at the motors after {} ms, started again after {} ms |",
        zero.as_millis(),
        begin.elapsed().as_millis()
    );
    assert!(probe.read().is_zero());
    let mut c = client("unit");
    reach(&mut c, "started again", "idle");
    assert!(Probe::open(Path::new(PROBE)).expect("a page").read().is_zero());
    let _ = owner.kill();
    let _ = owner.wait();
}

/// On the real-time kernel, or on the plain one.
pub fn unit(realtime: bool) {
    let found = std::fs::read_to_string("/sys/kernel/realtime").is_ok_and(|t| t.trim() == "1");
    assert_eq!(found, realtime, "the kernel that was asked for");
    let kernel = if realtime { "PREEMPT_RT" } else { "plain" };
    install(&format!("{SIMULATED}{CONFIG}"));
    // Comes back when the daemon has said that it is ready.
    succeeds(&["systemctl", "start", "hapticd"]);
    // It does not wait for a device, nor for its servo.
    let mut c = client("unit");
    reach(&mut c, "a servo", "idle");
    let pid = shown("MainPID");
    let (uid, locked, policy, priority) = seat(&pid);
    println!(
        "| systemd unit | {kernel} kernel {} | user {uid} | {locked} kB locked | policy {policy} (1 = FIFO) priority {priority} |",
        succeeds(&["uname", "-r"]).trim()
    );
    assert!(uid != 0 && locked > 0);
    assert_eq!((policy, priority), (libc::SCHED_FIFO as u32, 80));
    let status = c.call("status", json!({})).expect("status");
    let lacks = status["rt"].as_array().expect("a list").iter().filter(|line| line["ok"] != true);
    assert_eq!(lacks.count(), 0, "{}", status["rt"]);
    println!(
        "| systemd unit | it lacks nothing for real time, the request for short wake-up latencies granted |"
    );

    // Three times the watchdog's time.
    std::thread::sleep(Duration::from_secs(6));
    assert_eq!((shown("MainPID"), shown("NRestarts")), (pid.clone(), "0".into()), "the watchdog bit");

    let (mut owner, probe) = pushing();
    succeeds(&["kill", "-KILL", &pid]);
    ends_with_zero_and_comes_back("killed while it pushes", &pid, &probe, &mut owner);

    let pid = shown("MainPID");
    let (mut owner, probe) = pushing();
    succeeds(&["kill", "-STOP", &pid]);
    ends_with_zero_and_comes_back("stands still while it pushes", &pid, &probe, &mut owner);

    let (mut owner, probe) = pushing();
    succeeds(&["systemctl", "stop", "hapticd"]);
    assert_eq!((shown("ActiveState"), shown("Result")), ("inactive".into(), "success".into()));
    assert!(probe.read().is_zero());
    println!("| systemd unit | stopped while it pushes | zero at the motors |");
    let _ = owner.kill();
    let _ = owner.wait();
}
