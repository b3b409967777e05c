//! The drivers on a real kernel: a virtual machine with devices of software behind real nodes.
//!
//! `cargo test --test vm -- --ignored --nocapture` runs it, where `../shared/vm/run` and QEMU are there; else it says why not.
//! The machine is emulated, so it shows that things work, not how fast: the limits on times are loose.

#[path = "vm/bunny.rs"]
mod bunny;
#[path = "vm/uhid.rs"]
mod uhid;
#[path = "vm/unit.rs"]
mod unit;
#[path = "vm/usbhid.rs"]
mod usbhid;
#[path = "vm/usbip.rs"]
mod usbip;

use hapticd::device::attached::{self, Attached};
use hapticd::device::emulated::{self, Gadget as _};
use hapticd::device::io::scheduling::Scheduling;
use hapticd::device::io::shared::Shared;
use hapticd::device::io::thread::now_ns;
use hapticd::device::registry::Registry;
use hapticd::device::simulated::HandScript;
use hapticd::device::{Device, Lifecycle};
use hapticd::geometry::{Vec3, Wrench};
use hapticd::servo::handle::{ServoCommand, ServoConfig, channel};
use hapticd::servo::record::ServoState;
use hapticd::servo::rt::RtOptions;
use hapticd::servo::run::spawn;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Set inside the machine: which part to do.
const PART: &str = "HAPTICD_VM_PART";
/// Set for the emulator of a Falcon whose servo is stopped before the plug is pulled.
const STOPPED: &str = "HAPTICD_VM_STOPPED";
const SECONDS: u64 = 10;
/// The guest's processor is emulated: it moves a mechanism by one step between two packets, of so many ns at most.
const SLOW: u64 = 1_000_000;

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
#[ignore = "boots a virtual machine: a minute"]
fn hid_devices_on_a_real_kernel() {
    in_the_machine("hid", &[]);
}

#[test]
#[ignore = "boots a virtual machine: a minute"]
fn a_hid_device_on_a_usb_bus() {
    in_the_machine("usbhid", &[]);
}

#[test]
#[ignore = "boots a virtual machine: a minute"]
fn a_falcon_on_a_real_kernel() {
    in_the_machine("falcon", &[]);
}

#[test]
#[ignore = "boots a virtual machine: two minutes"]
fn the_systemd_unit() {
    in_the_machine("unit", &[]);
}

#[test]
#[ignore = "boots a virtual machine: two minutes"]
fn the_systemd_unit_with_a_device() {
    in_the_machine("unit-device", &[]);
}

#[test]
#[ignore = "boots a virtual machine: two minutes"]
fn the_systemd_unit_on_the_real_time_kernel() {
    in_the_machine("unit", &["--rt"]);
}

/// What is done inside the machine.
#[test]
#[ignore = "done inside the virtual machine"]
fn the_part() {
    match std::env::var(PART).as_deref() {
        Ok("hid") => hid(),
        Ok("usbhid") => hid_on_usb(),
        Ok("falcon") => falcon(),
        Ok("unit") => unit::unit(),
        Ok("unit-device") => unit::unit_with_a_device(),
        Ok("falcon-device") => falcon_device(),
        _ => println!("skipped: not in the machine"),
    }
}

fn modprobe(modules: &[&str]) {
    let done = Command::new("modprobe").arg("-a").args(modules).status().expect("modprobe");
    assert!(done.success(), "{modules:?}");
}

/// The device must not wait behind its driver: the calling thread becomes real-time, above it (the unit runs its servo at 80 and its I/O at 81).
pub fn above_the_driver() {
    let param = libc::sched_param { sched_priority: 85 };
    // SAFETY: `param` is valid for the call; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) };
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
    use std::os::unix::fs::MetadataExt as _;
    let groups = std::fs::read_to_string("/etc/group").expect("groups");
    let line = groups.lines().find(|l| l.starts_with("hapticd-dev:")).expect("the group");
    let fields: Vec<&str> = line.split(':').collect();
    let gid: u32 = fields[2].parse().expect("a number");
    assert_eq!(fields[3], "hapticd", "who is in the group");
    let mut found = (0, 0);
    wait("the rule", || {
        found = std::fs::metadata(node).map_or((0, 0), |m| (m.gid(), m.mode() & 0o777));
        found == (gid, 0o660)
    });
    println!("| {} | group hapticd-dev, mode 0660 |", node.display());
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

/// A USB device does not fall asleep, and ModemManager does not talk to it. Its node.
fn awake_and_left_alone(product: &str) -> String {
    let at = usb_device(product).expect("there");
    let read = |file: &str| std::fs::read_to_string(at.join(file)).unwrap_or_default().trim().to_string();
    let number = |file: &str| read(file).parse::<u32>().expect("a number");
    let node = format!("/dev/bus/usb/{:03}/{:03}", number("busnum"), number("devnum"));
    wait("power/control", || read("power/control") == "on");
    told_by_udev(&node, "ID_MM_DEVICE_IGNORE=", "1");
    node
}

fn wait(what: &str, until: impl FnMut() -> bool) -> Duration {
    // An emulated machine on a busy host: udev alone has taken half a minute.
    wait_for(what, Duration::from_secs(60), until)
}

fn wait_for(what: &str, longest: Duration, mut until: impl FnMut() -> bool) -> Duration {
    let begin = Instant::now();
    while !until() {
        assert!(begin.elapsed() < longest, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
    begin.elapsed()
}

/// How a closed loop ends, while it pushes.
enum End<U, R> {
    /// The servo is stopped.
    Stop,
    /// The plug is pulled, and put in again.
    Unplug(U, R),
}

/// So many seconds of contact with the bunny over a driver, and an end while it pushes; what came of it.
fn closed_loop<U: FnOnce(), R: FnOnce()>(
    what: &str,
    front: Box<dyn Device>,
    shared: &Arc<Shared>,
    seconds: u64,
    end: End<U, R>,
) {
    let config = ServoConfig {
        late_in_row: u32::MAX,
        late_per_second: u32::MAX,
        max_gap: 60.0,
        stale_fault: 5.0,
        stale_ticks: 100,
        gate_ticks: 5,
        gate_force: 5.0,
        ramp_up: 0.01,
        lease: 60.0,
        ..ServoConfig::default()
    };
    let (scene, body) = bunny::scene();
    let (mut handle, servo_end) = channel(config);
    handle.publish(scene).expect("first");
    let options = RtOptions { priority: 50, cpu: Some(0), ..RtOptions::none() };
    let servo = spawn(servo_end, front, options).expect("starts");
    let counters = handle.counters();
    wait("idle", || counters.state() == ServoState::Idle);
    handle.send(ServoCommand::Arm { session: 1 }).expect("room");
    handle.send(ServoCommand::Lease { until_ns: u64::MAX }).expect("room");
    let (mut ticks, mut pushing, mut strongest) = (0u64, 0u64, 0f64);
    let mut last = None;
    let mut drain = |ticks: &mut u64| {
        let mut latest = 0.0;
        handle.drain(&mut |r| {
            latest = r.applied_force.iter().map(|v| v * v).sum::<f64>().sqrt();
            *ticks += 1;
            pushing += u64::from(latest > 0.05);
            strongest = strongest.max(latest);
            last = Some(*r);
        });
        std::thread::sleep(Duration::from_millis(20));
        (latest > 0.05, last)
    };
    // Rate and counts are those of the time in which it is armed.
    let before: std::collections::BTreeMap<_, _> = shared.stats.list().into_iter().collect();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(seconds) {
        drain(&mut ticks);
    }
    let seconds = begin.elapsed().as_secs_f64();
    let stats: std::collections::BTreeMap<_, _> = shared.stats.list().into_iter().collect();
    let in_all = ticks;
    let begin = Instant::now();
    loop {
        let (pushes, last) = drain(&mut ticks);
        if pushes {
            break;
        }
        assert!(
            begin.elapsed() < Duration::from_secs(30),
            "no force at the end: {last:#?}\n{stats:?} {}",
            shared.trouble()
        );
    }
    let count = |name: &str| stats[name] - before[name];
    println!(
        "| {what}, {body} | ticks/s | samples/s | lost | late | garbled | late commands | sense to force, median | p99 | most |"
    );
    println!(
        "| {seconds:.1} s | {:.0} | {:.0} | {} | {} | {} | {} | {:.2} ms | {:.2} ms | {strongest:.2} N in {pushing} ticks |",
        in_all as f64 / seconds,
        count("device_readings") as f64 / seconds,
        count("device_lost"),
        count("device_late"),
        count("device_garbled"),
        count("device_expired"),
        stats["device_sense_to_force_us_median"] as f64 * 1e-3,
        stats["device_sense_to_force_us_p99"] as f64 * 1e-3,
    );
    // An emulated machine on a busy host does few ticks; some of them push.
    assert!(pushing > 20, "{pushing} of {ticks} ticks with force; state {:?}", counters.state());
    if let End::Unplug(unplug, replug) = end {
        unplug();
        let gone = wait("absent", || shared.lifecycle() == Lifecycle::Absent);
        wait("no force", || !matches!(counters.state(), ServoState::Armed | ServoState::Rendering));
        println!(
            "| {what} | unplugged in contact: absent after {} ms: {} |",
            gone.as_millis(),
            shared.trouble()
        );
        // Whatever error the kernel gave.
        wait("the reason", || shared.trouble().starts_with("the device was unplugged"));
        assert!(gone < Duration::from_millis(1000));
        replug();
        let back = wait("back", || matches!(shared.lifecycle(), Lifecycle::Uncalibrated | Lifecycle::Ready));
        println!("| {what} | plugged in again: its driver runs after {} ms |", back.as_millis());
        std::thread::sleep(Duration::from_millis(300));
        assert!(
            !matches!(counters.state(), ServoState::Armed | ServoState::Rendering),
            "force without arming"
        );
    }
    handle.stop();
    drop(servo.join());
}

const SCHEDULING: Scheduling = Scheduling { priority: 51, cpu: Some(0) };

/// The same device as a USB gadget, with the kernel's own usbhid driver between.
fn hid_on_usb() {
    modprobe(&["dummy_hcd", "libcomposite", "usb_f_hid", "usbhid", "hid-generic"]);
    install_rules();
    haptic_hid("hidraw over usbhid", |gadget| {
        let plug = usbhid::Plug::new(&uhid::WOODENHAPTICS, gadget).expect("a gadget");
        wait("the USB device", || usb_device("0486").is_some());
        awake_and_left_alone("0486");
        plug
    });
}

/// A hand that holds a WoodenHaptics in its calibration pose for so many seconds, and then presses down onto the bunny.
fn calibrating_hand(seconds: f64) -> HandScript {
    HandScript::parse(&format!(
        "hand = 'firm'\n[[keyframe]]\ntime = 0.0\nposition = [0.0, 0.205, 0.025]\n\
         [[keyframe]]\ntime = {:.1}\nposition = [0.0, 0.205, 0.025]\n\
         [[keyframe]]\ntime = {:.1}\nposition = [0.0, 0.003, 0.0]\n",
        seconds,
        seconds + 2.0
    ))
    .expect("script")
}

type Wooden = Arc<Mutex<emulated::hid_haptic::HidHaptic>>;

fn wooden(hand: &HandScript) -> Wooden {
    let profile = Registry::builtin().profile("woodenhaptics-v2015").expect("shipped");
    let mut gadget = emulated::hid_haptic::HidHaptic::new(&profile, hand, 64).expect("in reach");
    gadget.hurry(SLOW);
    Arc::new(Mutex::new(gadget))
}

/// Its driver, calibrated.
fn calibrated(serial: &str) -> Box<dyn Device> {
    let profile = Registry::builtin().profile("woodenhaptics-v2015").expect("shipped");
    let options = Attached { serial: Some(serial.into()), scheduling: SCHEDULING, ..Attached::default() };
    let mut front = attached::open(profile, &options).expect("a driver");
    let shared = front.io().expect("its I/O");
    wait("readings", || {
        front.zero(now_ns());
        shared.reading().is_some()
    });
    front.calibrate().expect("calibrates");
    assert_eq!(front.lifecycle(), Lifecycle::Ready);
    front
}

/// A WoodenHaptics that `plug` puts on some bus: rights, calibration, ten seconds of contact and an end in it; another one of which the plug is pulled
/// in contact, and put in again.
fn haptic_hid<P>(what: &str, plug: impl Fn(Wooden) -> P) {
    let node = Path::new("/dev/hidraw0");
    let session = |seconds: u64, unplugs: bool| {
        let gadget = wooden(&calibrating_hand(2.0));
        let plugged = Mutex::new(Some(plug(gadget.clone())));
        wait("the node", || node.exists());
        owned_by_the_service(node);
        let front = calibrated("T1");
        let shared = front.io().expect("its I/O");
        let unplug = || drop(plugged.lock().unwrap().take());
        let replug = || *plugged.lock().unwrap() = Some(plug(gadget.clone()));
        let end = if unplugs { End::Unplug(unplug, replug) } else { End::Stop };
        closed_loop(what, front, &shared, seconds, end);
        // What was sent may wait before a slow emulator.
        wait("zero", || gadget.lock().unwrap().currents() == [0; 3]);
        let gadget = gadget.lock().unwrap();
        if !unplugs {
            ends_with_zero(what, gadget.currents(), &gadget.applied, gadget.lapses);
        }
        assert_eq!(gadget.currents(), [0; 3], "zero at the end");
        drop(gadget);
        drop(plugged);
        wait("no node", || !node.exists());
    };
    session(SECONDS, false);
    session(8, true);
}

/// Nobody pulled the plug: that the motors have zero is the driver's doing.
fn ends_with_zero(what: &str, codes: [i16; 3], applied: &[(u64, [i16; 3])], lapses: u32) {
    let zero = |(_, codes): &&(u64, [i16; 3])| *codes == [0; 3];
    let zeros = applied.iter().rev().take_while(zero).count();
    let force = applied.iter().rev().nth(zeros);
    println!(
        "| {what} | stopped in contact | codes {codes:?} | before them {zeros} packets of zero, after {force:?} | the device let go by itself {lapses} times |"
    );
    assert!(force.is_some(), "it never pushed");
    assert_eq!((codes, lapses), ([0; 3], 0), "the driver's own last word is zero");
}

/// Two of a kind on one machine: each driver has the device of its serial number, and the other one none of its force.
fn two_of_a_kind() {
    let gadgets = ["T1", "T2"].map(|serial| {
        let gadget = wooden(&calibrating_hand(1e6));
        (
            uhid::Plug::new(&uhid::Identity { serial, ..uhid::WOODENHAPTICS }, gadget.clone()).expect("uhid"),
            gadget,
        )
    });
    wait("both nodes", || Path::new("/dev/hidraw1").exists());
    let profile = Registry::builtin().profile("woodenhaptics-v2015").expect("shipped");
    let unnamed = attached::open(profile, &Attached::default()).expect("a driver");
    let shared = unnamed.io().expect("its I/O");
    wait("which one?", || shared.trouble().contains("set device.serial to one of T"));
    drop(unnamed);
    let mut fronts = ["T1", "T2"].map(calibrated);
    let push = Wrench { force: Vec3::new(0.3, -0.2, 0.25), torque: Vec3::zeros() };
    let mut pushes = |which: usize| {
        wait("the force of one, and not of the other", || {
            for (k, front) in fronts.iter_mut().enumerate() {
                let _ = front.read(now_ns());
                let _ = front.write(now_ns(), if k == which { &push } else { &Wrench::ZERO });
            }
            let currents = gadgets.each_ref().map(|(_, g)| g.lock().unwrap().currents() != [0; 3]);
            currents[which] && !currents[1 - which]
        });
    };
    pushes(0);
    let before = gadgets[1].1.lock().unwrap().applied.clone();
    assert!(before.iter().all(|(_, c)| *c == [0; 3]), "the other one's force");
    pushes(1);
    println!(
        "| two WoodenHaptics over uhid | each with its own driver, by serial number; a driver that is told none says so |"
    );
    drop(fronts);
    for (_, gadget) in &gadgets {
        assert_eq!(gadget.lock().unwrap().currents(), [0; 3]);
    }
}

fn hid() {
    modprobe(&["uhid"]);
    let _ = Command::new("modprobe").args(["-a", "hid-generic"]).status();
    install_rules();
    let latency = Path::new("/dev/cpu_dma_latency");
    succeeds(&["udevadm", "trigger", "--action=add", "--name-match=/dev/cpu_dma_latency"]);
    owned_by_the_service(latency);
    haptic_hid("hidraw over uhid", |gadget| uhid::Plug::new(&uhid::WOODENHAPTICS, gadget).expect("uhid"));
    two_of_a_kind();
    wait("no nodes", || !Path::new("/dev/hidraw0").exists() && !Path::new("/dev/hidraw1").exists());

    let mouse = Arc::new(Mutex::new(emulated::spacemouse::SpaceMouse::default()));
    let _plug = uhid::Plug::new(&uhid::SPACE_MOUSE, mouse.clone()).expect("uhid");
    let profile = Registry::builtin().profile("spacemouse").expect("shipped");
    wait("the node", || Path::new("/dev/hidraw0").exists());
    owned_by_the_service(Path::new("/dev/hidraw0"));
    told_by_udev("/dev/hidraw0", "TAGS=", ":uaccess:");
    let mut front = attached::open(profile, &Attached::default()).expect("a driver");
    wait("the mouse", || front.lifecycle() == Lifecycle::Ready);
    mouse.lock().unwrap().deflect([350, 0, 0, 0, 0, 0]);
    wait("motion", || front.read(now_ns()).is_ok_and(|s| s.pose.translation.vector.x > 0.02));
    println!("| SpaceMouse over uhid | moves the tool |");
}

/// The emulator's own process: serves the socket on descriptor 3.
fn falcon_device() {
    let profile = Registry::builtin().profile("novint-falcon").expect("shipped");
    let hand = HandScript::parse(
        "hand = 'firm'\n[[keyframe]]\ntime = 0.0\nposition = [0.0, 0.02, 0.0]\n\
         [[keyframe]]\ntime = 1.0\nposition = [0.0, 0.02, 0.0]\n\
         [[keyframe]]\ntime = 2.0\nposition = [0.0, 0.003, 0.0]\n",
    )
    .expect("script");
    let image = image();
    // It would hold its last force for ever.
    let setup = emulated::falcon::Setup {
        image: Some(image),
        flakiness: 0.02,
        hold_ns: u64::MAX,
        ..Default::default()
    };
    let mut gadget = emulated::falcon::Falcon::new(&profile, &hand, setup).expect("in reach");
    gadget.hurry(SLOW);
    // SAFETY: the parent left this end of the socket pair at 3 for this process alone.
    let socket = unsafe { UnixStream::from_raw_fd(3) };
    above_the_driver();
    usbip::serve(socket, &mut gadget);
    // It has its power yet.
    println!("the emulator ends with {:?} after {} commands", gadget.codes(), gadget.applied.len());
    if std::env::var_os(STOPPED).is_some() {
        ends_with_zero("Falcon over vhci_hcd", gadget.codes(), &gadget.applied, gadget.lapses);
    }
    gadget.power_off(now_ns());
}

fn image() -> Vec<u8> {
    (0..600u32).map(|i| (i * 37 % 251) as u8).collect()
}

const VHCI: &str = "/sys/devices/platform/vhci_hcd.0";

/// Plugs in: the emulator's process has one end, the kernel the other. `stopped`: when it is unplugged its motors must have zero.
fn attach(stopped: bool) -> Child {
    let (kernel, device) = UnixStream::pair().expect("a socket pair");
    let fd = device.into_raw_fd();
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "the_part", "--include-ignored", "--nocapture"]).env(PART, "falcon-device");
    if stopped {
        command.env(STOPPED, "1");
    }
    use std::os::unix::process::CommandExt as _;
    // SAFETY: between fork and exec only dup2 and close are called.
    unsafe {
        command.pre_exec(move || {
            if libc::dup2(fd, 3) < 0 {
                return Err(std::io::Error::last_os_error());
            }
            if fd != 3 {
                libc::close(fd);
            }
            Ok(())
        });
    }
    let child = command.spawn().expect("the emulator");
    // SAFETY: the child has its own copy; this one is ours to close.
    unsafe { libc::close(fd) };
    // Port 0, full speed.
    let line = format!("0 {} 65538 2", kernel.as_raw_fd());
    std::fs::write(format!("{VHCI}/attach"), line).expect("attaches");
    child
}

fn falcon() {
    modprobe(&["vhci-hcd"]);
    install_rules();
    let dir = tempfile::tempdir().expect("a directory");
    let firmware: PathBuf = dir.path().join("firmware.bin");
    std::fs::write(&firmware, image()).expect("writes");
    let profile = Registry::builtin().profile("novint-falcon").expect("shipped");
    let session = |seconds: u64, unplugs: bool| {
        let child = Mutex::new(attach(!unplugs));
        wait("the device", || usb_device("cb48").is_some());
        owned_by_the_service(Path::new(&awake_and_left_alone("cb48")));
        let options = Attached {
            serial: Some("F1".into()),
            firmware: Some(firmware.clone()),
            scheduling: SCHEDULING,
            ..Attached::default()
        };
        let front = attached::open(profile.clone(), &options).expect("a driver");
        let shared = front.io().expect("its I/O");
        let booted = wait("boot and homing", || shared.lifecycle() == Lifecycle::Ready);
        println!("| Falcon over vhci_hcd | found, firmware loaded, homed after {} ms |", booted.as_millis());
        let unplug = || {
            std::fs::write(format!("{VHCI}/detach"), "0").expect("detaches");
            let ended = child.lock().unwrap().wait().expect("the emulator");
            assert!(ended.success(), "the emulator: {ended}");
        };
        let replug = || {
            wait("no device", || usb_device("cb48").is_none());
            std::thread::sleep(Duration::from_millis(500));
            *child.lock().unwrap() = attach(false);
        };
        let end = if unplugs { End::Unplug(unplug, replug) } else { End::Stop };
        closed_loop("Falcon over vhci_hcd", front, &shared, seconds, end);
        unplug();
        wait("no device", || usb_device("cb48").is_none());
    };
    session(SECONDS, false);
    session(6, true);
}
