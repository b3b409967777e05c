//! The shipped systemd unit, installed as docs/install.md does: it starts and notifies, runs at real-time priority with its
//! memory locked and without root, keeps its watchdog fed, and ends with zero force whether it is stopped, killed or hangs.

use super::{
    Wooden, calibrating_hand, install_rules, modprobe, owned_by_the_service, succeeds, uhid, wait_for, wooden,
};
use hapticd::control::client::Client;
use hapticd::device::simulated::probe::Probe;
use serde_json::json;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SOCKET: &str = "/run/hapticd/control.sock";
const RULES: &str = "/etc/udev/rules.d/72-hapticd.rules";
const PROBE: &str = "/var/lib/hapticd/probe";
/// The guest is emulated: a program may take seconds to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// A hand that holds still.
const SIMULATED: &str = "[device]\nname = \"ideal-6dof\"\nhand = \"/etc/hapticd/hand.toml\"\nprobe = \"/var/lib/hapticd/probe\"\n";
const ATTACHED: &str = "[device]\nname = \"woodenhaptics-v2015\"\ndriver = \"attached\"\nserial = \"T1\"\n";
/// Ticks of an emulated machine are late.
const CONFIG: &str =
    "[servo]\nlate_in_a_row = 1000\nlate_in_a_second = 1000\nmax_gap_s = 10.0\n[control]\nlease_s = 10.0\n";
const HAND: &str = "hand = \"firm\"\n[[keyframe]]\ntime = 0.0\nposition = [0.0, 0.0, 0.0]\n";

/// A property of the unit as systemd has it.
fn shown(property: &str) -> String {
    succeeds(&["systemctl", "show", "hapticd", "--value", "-p", property]).trim().to_owned()
}

fn install(config: &str) {
    install_rules();
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
fn seat(pid: &str) -> (u32, u64, u32, u32) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("runs");
    let number = |key: &str| {
        let line = status.lines().find(|l| l.starts_with(key)).expect("told");
        line.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok()).expect("a number")
    };
    let servo = std::fs::read_dir(format!("/proc/{pid}/task")).expect("threads").find_map(|task| {
        let dir = task.ok()?.path();
        let name = std::fs::read_to_string(dir.join("comm")).ok()?;
        let stat = std::fs::read_to_string(dir.join("stat")).ok()?;
        (name.trim() == "servo").then_some(stat)
    });
    // After the name, which may hold anything: the state is field 3 (proc(5)), so priority 40 and policy 41.
    let stat = servo.expect("a servo thread");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
    let field = |n: usize| fields[n - 3].parse().expect("a number");
    (number("Uid:") as u32, number("VmLck:"), field(41), field(40))
}

fn client(name: &str) -> Client {
    let mut client = None;
    wait_for("the socket", PATIENCE, || {
        client = Client::connect(Some(Path::new(SOCKET)), name, None).ok();
        client.is_some()
    });
    let mut client = client.expect("connected");
    client.set_patience(Some(PATIENCE));
    client
}

fn state(client: &mut Client) -> String {
    let status = client.call("status", json!({})).expect("status");
    status["state"]["state"].as_str().unwrap_or("").to_owned()
}

fn warnings(client: &mut Client) -> String {
    client.call("status", json!({})).expect("status")["warnings"].to_string()
}

/// Waits for a state; tells all that is known where it does not come.
fn reach(client: &mut Client, what: &str, wanted: &str) {
    let begin = Instant::now();
    while state(client) != wanted {
        if begin.elapsed() > PATIENCE {
            let status = client.call("status", json!({})).expect("status");
            panic!(
                "{what}: {status}\n{}",
                succeeds(&["journalctl", "-u", "hapticd", "-n", "40", "--no-pager"])
            );
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Somebody armed, and a constant push of 1 N.
fn push() -> Child {
    let owner = Command::new("hapticd")
        .args(["ctl", "--socket", SOCKET, "arm"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("starts");
    let mut c = client("unit");
    reach(&mut c, "the force is on", "rendering");
    let push =
        json!({"name": "push", "effect": {"constant": {"force": [0.0, 1.0, 0.0]}}, "persistent": true});
    c.call("effect.set", push).expect("an effect");
    owner
}

/// As [`push`], until it is at the motors of the simulated device.
fn pushing() -> (Child, Probe) {
    let owner = push();
    let probe = Probe::open(Path::new(PROBE)).expect("a page");
    wait_for("1 N at the motors", PATIENCE, || probe.read().wrench.force.norm() > 0.9);
    (owner, probe)
}

/// Zero at the motors of the process that has died, and another in its place which pushes nobody.
fn ends_with_zero_and_comes_back(what: &str, old: &str, probe: &Probe, owner: &mut Child) {
    let begin = Instant::now();
    wait_for("zero at the motors", PATIENCE, || probe.read().is_zero());
    let zero = begin.elapsed();
    wait_for("another process", PATIENCE, || {
        shown("ActiveState") == "active" && !["0", old].contains(&&*shown("MainPID"))
    });
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

pub fn unit() {
    let realtime = std::fs::read_to_string("/sys/kernel/realtime").is_ok_and(|t| t.trim() == "1");
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

/// The process has a socket open on which the kernel and udev tell of devices (protocol 15 of netlink).
fn is_told_of_devices(pid: &str) -> bool {
    let sockets = std::fs::read_to_string("/proc/net/netlink").expect("sockets");
    let inodes: Vec<String> = sockets
        .lines()
        .filter_map(|l| {
            let f: Vec<&str> = l.split_whitespace().collect();
            (f.get(1) == Some(&"15")).then(|| format!("socket:[{}]", f.last().unwrap_or(&"")))
        })
        .collect();
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("descriptors");
    open.flatten()
        .filter_map(|fd| std::fs::read_link(fd.path()).ok())
        .any(|to| inodes.iter().any(|inode| *inode == to.to_string_lossy()))
}

/// What the kernel counts of the device's I/O thread: times it gave its processor up, and hundredths of a second that it had one.
fn io_thread(pid: &str) -> (u64, u64) {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("threads");
    let dir = tasks
        .flatten()
        .map(|task| task.path())
        .find(|dir| std::fs::read_to_string(dir.join("comm")).is_ok_and(|name| name.trim() == "device-io"))
        .expect("an I/O thread");
    let status = std::fs::read_to_string(dir.join("status")).expect("runs");
    let wakes = status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:")).expect("told");
    let stat = std::fs::read_to_string(dir.join("stat")).expect("runs");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
    let number = |text: &str| text.trim().parse::<u64>().expect("a number");
    // proc(5): utime and stime are fields 14 and 15.
    (number(wakes), number(fields[11]) + number(fields[12]))
}

/// The shipped unit with a device behind a real hidraw node: within its sandbox it hears of the device and opens it as the service's user; what it
/// pushes ends however the daemon ends.
pub fn unit_with_a_device() {
    modprobe(&["uhid"]);
    let _ = Command::new("modprobe").args(["-a", "hid-generic"]).status();
    install(&format!("{ATTACHED}{CONFIG}"));
    succeeds(&["systemctl", "start", "hapticd"]);
    let mut c = client("unit");
    reach(&mut c, "no device yet", "absent");
    let pid = shown("MainPID");
    let (uid, ..) = seat(&pid);
    assert!(uid != 0 && is_told_of_devices(&pid), "no socket for the events of devices");

    // The rights come after the device: refused first, open then.
    std::fs::rename(RULES, "/root/rules").expect("there");
    succeeds(&["udevadm", "control", "--reload"]);
    let gadget = wooden(&calibrating_hand(1e6));
    let plug = |gadget: &Wooden| uhid::Plug::new(&uhid::WOODENHAPTICS, gadget.clone()).expect("uhid");
    let plugged = plug(&gadget);
    let mut refused = String::new();
    wait_for("it is refused", PATIENCE, || {
        refused = warnings(&mut c);
        refused.contains("this user may not open it")
    });
    assert_eq!(state(&mut c), "absent");
    println!("| systemd unit, hidraw | no rights yet | {refused} |");
    std::fs::rename("/root/rules", RULES).expect("there");
    succeeds(&["udevadm", "control", "--reload"]);
    succeeds(&["udevadm", "trigger", "--action=add", "--subsystem-match=hidraw"]);
    let begin = Instant::now();
    reach(&mut c, "the device is open", "uncalibrated");
    owned_by_the_service(Path::new("/dev/hidraw0"));
    println!(
        "| systemd unit, hidraw | user {uid} | plugged in while it runs; open {} ms after it has its rights | netlink events allowed |",
        begin.elapsed().as_millis()
    );
    let currents = |gadget: &Wooden| gadget.lock().unwrap().currents();
    let lapses = |gadget: &Wooden| gadget.lock().unwrap().lapses;
    // In its calibration pose; somebody arms; it pushes.
    let at_work = |c: &mut Client, gadget: &Wooden| {
        reach(c, "the device is open", "uncalibrated");
        assert_eq!(currents(gadget), [0; 3], "force before it is calibrated");
        c.call("calibrate", json!({})).expect("calibrates");
        reach(c, "calibrated", "idle");
        assert_eq!(currents(gadget), [0; 3], "force before it is armed");
        let owner = push();
        wait_for("currents in the motors", PATIENCE, || currents(gadget) != [0; 3]);
        owner
    };
    let end = |mut owner: Child| {
        let _ = owner.kill();
        let _ = owner.wait();
    };

    let owner = at_work(&mut c, &gadget);
    drop(plugged);
    let begin = Instant::now();
    reach(&mut c, "unplugged while it pushes", "fault");
    println!(
        "| systemd unit, hidraw | unplugged while it pushes | fault after {} ms |",
        begin.elapsed().as_millis()
    );
    end(owner);
    // Its I/O thread sleeps: it gives the processor up a few times a second and not all the time.
    let before = io_thread(&pid);
    std::thread::sleep(Duration::from_secs(3));
    let after = io_thread(&pid);
    let (wakes, hundredths) = (after.0 - before.0, after.1 - before.1);
    println!(
        "| systemd unit, hidraw | in 3 s without the device | {wakes} wake-ups of its I/O thread, {hundredths} hundredths of a second of a processor |"
    );
    assert!(wakes < 200, "{wakes} wake-ups in 3 s");
    let plugged = plug(&gadget);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!((currents(&gadget), state(&mut c).as_str()), ([0; 3], "fault"), "force by itself");
    c.call("clear_fault", json!({})).expect("clears");

    let owner = at_work(&mut c, &gadget);
    let before = lapses(&gadget);
    let begin = Instant::now();
    succeeds(&["kill", "-KILL", &pid]);
    wait_for("zero at the motors", PATIENCE, || currents(&gadget) == [0; 3]);
    let zero = begin.elapsed();
    wait_for("another process", PATIENCE, || {
        shown("ActiveState") == "active" && !["0", &pid].contains(&&*shown("MainPID"))
    });
    let whose = if lapses(&gadget) > before { "the device's watchdog" } else { "hapticd zero" };
    println!(
        "| systemd unit, hidraw | killed while it pushes | zero at the motors after {} ms, by {whose} |",
        zero.as_millis()
    );
    end(owner);
    let mut c = client("unit");
    reach(&mut c, "started again", "uncalibrated");
    assert_eq!(currents(&gadget), [0; 3]);

    let owner = at_work(&mut c, &gadget);
    let before = lapses(&gadget);
    succeeds(&["systemctl", "stop", "hapticd"]);
    assert_eq!((shown("ActiveState"), shown("Result")), ("inactive".into(), "success".into()));
    assert_eq!((currents(&gadget), lapses(&gadget)), ([0; 3], before), "the daemon's own last word is zero");
    println!("| systemd unit, hidraw | stopped while it pushes | zero at the motors, by the daemon |");
    end(owner);
    drop(plugged);
}
