//! The drivers on a real kernel: a virtual machine with devices of software behind real nodes.
//!
//! `cargo test --test vm -- --ignored --nocapture` runs it, where `../shared/vm/run` and QEMU are there; else it says why not.
//! The machine is emulated, so it shows that things work, not how fast: what is waited for is states, for as long as it takes.

#[path = "vm/bunny.rs"]
mod bunny;
#[path = "vm/closed_loop.rs"]
mod closed_loop;
#[path = "vm/falcon.rs"]
mod falcon;
#[path = "vm/hid.rs"]
mod hid;
#[path = "vm/uhid.rs"]
mod uhid;
#[path = "vm/unit.rs"]
mod unit;
#[path = "vm/unit_device.rs"]
mod unit_device;
#[path = "vm/usbhid.rs"]
mod usbhid;
#[path = "vm/usbip.rs"]
mod usbip;

use hapticd::device::io::scheduling::Scheduling;
use hapticd::device::io::thread::now_ns;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Set inside the machine: which part to do.
const PART: &str = "HAPTICD_VM_PART";
const SECONDS: u64 = 10;
/// The guest's processor is emulated: it moves a mechanism by one step between two packets, of so many ns at most.
const SLOW: u64 = 1_000_000;
const SCHEDULING: Scheduling = Scheduling { priority: 51, cpu: Some(0) };

/// When an emulator's next frame begins: a millisecond after the last, but never so soon that the device takes more than half of the only processor.
struct Frames {
    begun: u64,
    next: u64,
}

impl Frames {
    fn new() -> Self {
        Self { begun: now_ns(), next: now_ns() }
    }

    fn begins(&mut self) {
        self.begun = now_ns();
    }

    /// The frame's work is done. The time until the next, ns.
    fn ends(&mut self) -> u64 {
        let now = now_ns();
        // Longer work was not work: the guest stood still.
        self.next = (self.next + 1_000_000).max(now + (now - self.begun).min(5_000_000));
        self.next - now
    }
}

/// Runs one part of this very program in the machine, on the kernel that `options` of the machine's tool choose; false where
/// there is no machine.
fn in_the_machine(part: &str, options: &[&str]) -> bool {
    let tool = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/vm/run"));
    if !tool.is_file() {
        println!("skipped: no {}", tool.display());
        return false;
    }
    let share = tempfile::tempdir().expect("a directory");
    let program = std::env::current_exe().expect("this program");
    std::fs::copy(program, share.path().join("vm")).expect("copies");
    std::fs::copy(env!("CARGO_BIN_EXE_hapticd"), share.path().join("hapticd")).expect("copies");
    for file in ["72-hapticd.rules", "hapticd.sysusers", "hapticd.service"] {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd").join(file);
        std::fs::copy(from, share.path().join(file)).expect("copies");
    }
    if matches!(part, "hid" | "usbhid" | "falcon") {
        bunny::write(share.path());
    }
    let script = format!("{PART}={part} /share/vm --exact the_part --include-ignored --nocapture");
    let out = Command::new(tool)
        // One processor: a handover between two waits for the host's scheduler.
        .args(options)
        .args(["--timeout", "600", "--cpus", "1", "--share"])
        .arg(share.path())
        .args(["--", "sh", "-c", &script])
        .output()
        .expect("starts");
    let text = String::from_utf8_lossy(&out.stdout);
    println!("{text}");
    if out.status.code() == Some(125) {
        println!("skipped: the machine did not come up:\n{}", String::from_utf8_lossy(&out.stderr));
        return false;
    }
    assert!(out.status.success(), "{}\n{}", out.status, String::from_utf8_lossy(&out.stderr));
    assert!(text.contains("1 passed"), "the part did not run");
    true
}

#[test]
#[ignore = "boots a virtual machine: two minutes"]
fn hid_devices_on_a_real_kernel() {
    in_the_machine("hid", &[]);
}

#[test]
#[ignore = "boots a virtual machine: two minutes"]
fn a_hid_device_on_a_usb_bus() {
    in_the_machine("usbhid", &[]);
}

#[test]
#[ignore = "boots a virtual machine: two minutes"]
fn a_falcon_on_a_real_kernel() {
    in_the_machine("falcon", &[]);
}

#[test]
#[ignore = "boots a virtual machine: two minutes"]
fn the_systemd_unit() {
    in_the_machine("unit", &[]);
}

#[test]
#[ignore = "boots a virtual machine: three minutes"]
fn the_systemd_unit_with_a_device() {
    in_the_machine("unit-device", &[]);
}

#[test]
#[ignore = "boots a virtual machine: two minutes"]
fn the_systemd_unit_on_the_real_time_kernel() {
    in_the_machine("unit-rt", &["--rt"]);
}

/// What is done inside the machine.
#[test]
#[ignore = "done inside the virtual machine"]
fn the_part() {
    match std::env::var(PART).as_deref() {
        Ok("hid") => hid::through_uhid(),
        Ok("usbhid") => hid::on_usb(),
        Ok("falcon") => falcon::falcon(),
        Ok("unit") => unit::unit(false),
        Ok("unit-rt") => unit::unit(true),
        Ok("unit-device") => unit_device::unit_with_a_device(),
        Ok("falcon-device") => falcon::device(),
        _ => println!("skipped: not in the machine"),
    }
}

fn modprobe(modules: &[&str]) {
    let done = Command::new("modprobe").arg("-a").args(modules).status().expect("modprobe");
    assert!(done.success(), "{modules:?}");
}

/// The device must not wait behind its driver: the calling thread becomes real-time, above it (the unit runs its servo at 80 and its I/O at 81).
pub fn above_the_driver() {
    schedule(libc::SCHED_FIFO, 85);
}

/// Policy and priority of the calling thread.
fn schedule(policy: i32, priority: i32) {
    let param = libc::sched_param { sched_priority: priority };
    // SAFETY: `param` is valid for the call; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, policy, &param) };
}

/// Installs the shipped rules and groups, as docs/install.md does.
fn install_rules() {
    let put = |from: &str, dir: &str, name: &str| {
        std::fs::create_dir_all(dir).expect("a directory");
        std::fs::copy(format!("/share/{from}"), format!("{dir}/{name}")).expect("copies");
    };
    put("hapticd.sysusers", "/etc/sysusers.d", "hapticd.conf");
    put("72-hapticd.rules", "/etc/udev/rules.d", "72-hapticd.rules");
    for words in [&["systemd-sysusers"][..], &["udevadm", "control", "--reload"]] {
        assert!(Command::new(words[0]).args(&words[1..]).status().expect("runs").success(), "{words:?}");
    }
}

/// The node comes to belong to the group of the service alone, and to nobody else.
fn owned_by_the_service(node: &Path) {
    comes_to_belong_to_the_service(|| Some(node.to_owned()));
}

/// The same of a node whose name may change: a slow guest lets the kernel number a device anew before it answers.
fn comes_to_belong_to_the_service(node: impl Fn() -> Option<PathBuf>) -> PathBuf {
    use std::os::unix::fs::MetadataExt as _;
    let groups = std::fs::read_to_string("/etc/group").expect("groups");
    let line = groups.lines().find(|l| l.starts_with("hapticd-dev:")).expect("the group");
    let fields: Vec<&str> = line.split(':').collect();
    let gid: u32 = fields[2].parse().expect("a number");
    assert_eq!(fields[3], "hapticd", "who is in the group");
    let begin = Instant::now();
    loop {
        let at = node();
        let found = at.as_ref().and_then(|n| std::fs::metadata(n).ok()).map(|m| (m.gid(), m.mode() & 0o777));
        if let Some(node) = at.as_ref().filter(|_| found == Some((gid, 0o660))) {
            println!("| {} | group hapticd-dev, mode 0660 |", node.display());
            return node.clone();
        }
        let log = || succeeds(&["dmesg"]).lines().rev().take(30).collect::<Vec<_>>().join("\n");
        assert!(begin.elapsed() < Duration::from_secs(60), "{at:?}: {found:?} and not {gid}\n{}", log());
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn succeeds(words: &[&str]) -> String {
    let out = Command::new(words[0]).args(&words[1..]).output().expect("runs");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{words:?}: {text}{}", String::from_utf8_lossy(&out.stderr));
    text
}

/// udev's own record of a node comes to have this line.
fn told_by_udev(node: &str, key: &str, value: &str) {
    let mut record = String::new();
    let has = |line: &str| line.strip_prefix(key).is_some_and(|rest| rest.contains(value));
    let query = ["udevadm", "info", "--query=property", "--name", node];
    let begin = Instant::now();
    while !record.lines().any(has) {
        assert!(begin.elapsed() < Duration::from_secs(60), "no {key}{value} of {node}:\n{record}");
        std::thread::sleep(Duration::from_millis(50));
        record = succeeds(&query);
    }
    println!("| {node} | {key}{value} |");
}

/// Where sysfs has the USB device of this product number.
fn usb_device(product: &str) -> Option<PathBuf> {
    let devices = std::fs::read_dir("/sys/bus/usb/devices").ok()?;
    devices
        .filter_map(|d| Some(d.ok()?.path()))
        .find(|d| std::fs::read_to_string(d.join("idProduct")).is_ok_and(|t| t.trim() == product))
}

/// The node of the USB device of this product number.
fn usb_node(product: &str) -> Option<PathBuf> {
    let at = usb_device(product)?;
    let number = |file: &str| std::fs::read_to_string(at.join(file)).ok()?.trim().parse::<u32>().ok();
    Some(format!("/dev/bus/usb/{:03}/{:03}", number("busnum")?, number("devnum")?).into())
}

/// A USB device does not fall asleep, and ModemManager does not talk to it.
fn awake_and_left_alone(product: &str) {
    let on = |d: PathBuf| std::fs::read_to_string(d.join("power/control")).is_ok_and(|t| t.trim() == "on");
    wait("power/control", || usb_device(product).is_some_and(on));
    let mut told = String::new();
    wait("ID_MM_DEVICE_IGNORE", || {
        let node = usb_node(product).unwrap_or_default();
        let query = Command::new("udevadm").args(["info", "--query=property", "--name"]).arg(node).output();
        told = query.map(|out| String::from_utf8_lossy(&out.stdout).into_owned()).unwrap_or_default();
        told.lines().any(|l| l == "ID_MM_DEVICE_IGNORE=1")
    });
    println!("| USB product {product} | power/control = on, ID_MM_DEVICE_IGNORE=1 |");
}

fn wait(what: &str, until: impl FnMut() -> bool) -> Duration {
    // An emulated machine on a busy host: udev alone has taken half a minute.
    wait_for(what, Duration::from_secs(120), until)
}

fn wait_for(what: &str, longest: Duration, mut until: impl FnMut() -> bool) -> Duration {
    let begin = Instant::now();
    while !until() {
        assert!(begin.elapsed() < longest, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
    begin.elapsed()
}
