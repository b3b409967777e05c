//! The drivers on a real kernel: a virtual machine with devices of software behind real nodes.
//!
//! `cargo test --test vm -- --ignored --nocapture` runs it, where `../shared/vm/run` and QEMU are there; else it says why not.
//! The machine is emulated, so it shows that things work, not how fast: the limits on times are loose.

#[path = "vm/uhid.rs"]
mod uhid;
#[path = "vm/unit.rs"]
mod unit;
#[path = "vm/usbhid.rs"]
mod usbhid;
#[path = "vm/usbip.rs"]
mod usbip;

use hapticd::contact::{Friction, Material, Texture};
use hapticd::contact::{ObjectShape, ToolShape};
use hapticd::device::attached::{self, Attached};
use hapticd::device::emulated;
use hapticd::device::io::scheduling::Scheduling;
use hapticd::device::io::shared::Shared;
use hapticd::device::registry::Registry;
use hapticd::device::simulated::HandScript;
use hapticd::device::{Device, Lifecycle};
use hapticd::geometry::field::Field;
use hapticd::geometry::{Point, Pose};
use hapticd::scene::snapshot::{Snapshot, SnapshotObject, Tool};
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
const SECONDS: u64 = 10;

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
    let script = format!("{PART}={part} /share/vm --exact the_part --include-ignored --nocapture");
    let out = Command::new(tool)
        // One processor: a handover between two waits for the host's scheduler.
        .args(options)
        .args(["--timeout", "300", "--cpus", "1", "--share"])
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
        Ok("falcon-device") => falcon_device(),
        _ => println!("skipped: not in the machine"),
    }
}

fn modprobe(modules: &[&str]) {
    let done = Command::new("modprobe").arg("-a").args(modules).status().expect("modprobe");
    assert!(done.success(), "{modules:?}");
}

/// The device must not wait behind its driver: the calling thread becomes real-time, above it.
pub fn above_the_driver() {
    let param = libc::sched_param { sched_priority: 60 };
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

/// A ball under the tool, so that a hand that presses down touches.
fn scene() -> Box<Snapshot> {
    let (half, nodes) = (0.06, 33u32);
    let cell = 2.0 * half / f64::from(nodes - 1);
    let field = Field::from_fn(Point::new(-half, -half, -half), cell, [nodes; 3], |p| -p.y);
    let object = SnapshotObject {
        id: 1,
        incarnation: 1,
        slot: 1,
        motion: None,
        pose: Pose::identity(),
        shape: ObjectShape::Field(Arc::new(field)),
        material: Material {
            stiffness: 400.0,
            reference_area: 1e-4,
            damping: 0.0,
            friction: Friction::NONE,
            texture: Texture::NONE,
        },
        bound_centre: Point::origin(),
        bound_radius: 0.11,
    };
    let shape = ToolShape::Sphere { radius: 0.01 };
    let tool = Tool { shape, offset: Pose::identity(), bound_radius: 0.01, incarnation: 1 };
    Box::new(Snapshot::new(1, Arc::new(tool), vec![object].into(), Pose::identity(), 1.0))
}

/// Ten seconds of contact over a driver, then a plug pulled while it pushes; what came of it.
fn closed_loop(
    what: &str,
    front: Box<dyn Device>,
    shared: &Arc<Shared>,
    unplug: impl FnOnce(),
    replug: impl FnOnce(),
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
    let (mut handle, end) = channel(config);
    handle.publish(scene()).expect("first");
    let options = RtOptions { priority: 50, cpu: Some(0), ..RtOptions::none() };
    let servo = spawn(end, front, options).expect("starts");
    let counters = handle.counters();
    wait("idle", || counters.state() == ServoState::Idle);
    handle.send(ServoCommand::Arm { session: 1 }).expect("room");
    handle.send(ServoCommand::Lease { until_ns: u64::MAX }).expect("room");
    let begin = Instant::now();
    let (mut ticks, mut pushing, mut strongest) = (0u64, 0u64, 0f64);
    while begin.elapsed() < Duration::from_secs(SECONDS) {
        handle.drain(&mut |r| {
            let f = r.applied_force.iter().map(|v| v * v).sum::<f64>().sqrt();
            ticks += 1;
            pushing += u64::from(f > 0.05);
            strongest = strongest.max(f);
        });
        std::thread::sleep(Duration::from_millis(20));
    }
    let seconds = begin.elapsed().as_secs_f64();
    let stats: std::collections::BTreeMap<_, _> = shared.stats.list().into_iter().collect();
    println!(
        "| {what} | {:.0} ticks/s | {:.0} samples/s | {} lost | {} garbled | {} late commands | sense to force median {:.2} \
         ms, p99 {:.2} ms | {pushing} ticks with force, {strongest:.2} N at most |",
        ticks as f64 / seconds,
        stats["device_readings"] as f64 / seconds,
        stats["device_lost"],
        stats["device_garbled"],
        stats["device_expired"],
        stats["device_sense_to_force_us_median"] as f64 * 1e-3,
        stats["device_sense_to_force_us_p99"] as f64 * 1e-3,
    );
    // An emulated machine on a busy host does few ticks; some of them push.
    assert!(pushing > 20, "{pushing} of {ticks} ticks with force; state {:?}", counters.state());
    unplug();
    let gone = wait("absent", || shared.lifecycle() == Lifecycle::Absent);
    wait("no force", || !matches!(counters.state(), ServoState::Armed | ServoState::Rendering));
    println!("| {what} | unplugged in contact: absent after {} ms: {} |", gone.as_millis(), shared.trouble());
    // Whatever error the kernel gave.
    wait("the reason", || shared.trouble().starts_with("the device was unplugged"));
    assert!(gone < Duration::from_millis(1000));
    replug();
    let back = wait("back", || matches!(shared.lifecycle(), Lifecycle::Uncalibrated | Lifecycle::Ready));
    println!("| {what} | plugged in again: its driver runs after {} ms |", back.as_millis());
    std::thread::sleep(Duration::from_millis(300));
    assert!(!matches!(counters.state(), ServoState::Armed | ServoState::Rendering), "force without arming");
    handle.stop();
    drop(servo.join());
}

const SCHEDULING: Scheduling = Scheduling { priority: 51, cpu: Some(0) };

/// The same device as a USB gadget, with the kernel's own usbhid driver between.
fn hid_on_usb() {
    modprobe(&["dummy_hcd", "libcomposite", "usb_f_hid", "usbhid", "hid-generic"]);
    haptic_hid("hidraw over usbhid", |gadget| {
        usbhid::Plug::new(&uhid::WOODENHAPTICS, gadget).expect("a gadget")
    });
}

/// A WoodenHaptics that `plug` puts on some bus: rights, calibration, ten seconds of contact, unplugged and plugged in again.
fn haptic_hid<P>(what: &str, plug: impl Fn(Arc<Mutex<emulated::hid_haptic::HidHaptic>>) -> P) {
    install_rules();
    let profile = Registry::builtin().profile("woodenhaptics-v2015").expect("shipped");
    // Ready in its calibration pose, then down into the floor.
    let hand = HandScript::parse(
        "hand = 'firm'\n[[keyframe]]\ntime = 0.0\nposition = [0.0, 0.205, 0.025]\n\
         [[keyframe]]\ntime = 4.0\nposition = [0.0, 0.205, 0.025]\n\
         [[keyframe]]\ntime = 6.0\nposition = [0.0, 0.003, 0.0]\n",
    )
    .expect("script");
    let gadget = emulated::hid_haptic::HidHaptic::new(&profile, &hand, 64).expect("in reach");
    let gadget = Arc::new(Mutex::new(gadget));
    let plugged = plug(gadget.clone());
    wait("the node", || Path::new("/dev/hidraw0").exists());
    owned_by_the_service(Path::new("/dev/hidraw0"));
    let options = Attached { serial: Some("T1".into()), scheduling: SCHEDULING, ..Attached::default() };
    let mut front = attached::open(profile, &options).expect("a driver");
    let shared = front.io().expect("its I/O");
    let begin = hapticd::device::io::thread::now_ns();
    wait("readings", || {
        front.zero(begin);
        shared.reading().is_some()
    });
    front.calibrate().expect("calibrates");
    assert_eq!(front.lifecycle(), Lifecycle::Ready);
    let (plugged, mut again) = (Mutex::new(Some(plugged)), None);
    closed_loop(
        what,
        front,
        &shared,
        || drop(plugged.lock().unwrap().take()),
        || again = Some(plug(gadget.clone())),
    );
    assert_eq!(gadget.lock().unwrap().currents(), [0; 3], "zero at the end");
    drop(again);
}

fn hid() {
    modprobe(&["uhid"]);
    let _ = Command::new("modprobe").args(["-a", "hid-generic"]).status();
    haptic_hid("hidraw over uhid", |gadget| uhid::Plug::new(&uhid::WOODENHAPTICS, gadget).expect("uhid"));

    let mouse = Arc::new(Mutex::new(emulated::spacemouse::SpaceMouse::default()));
    let _plug = uhid::Plug::new(&uhid::SPACE_MOUSE, mouse.clone()).expect("uhid");
    let profile = Registry::builtin().profile("spacemouse").expect("shipped");
    let mut front = attached::open(profile, &Attached::default()).expect("a driver");
    wait("the mouse", || front.lifecycle() == Lifecycle::Ready);
    mouse.lock().unwrap().deflect([350, 0, 0, 0, 0, 0]);
    wait("motion", || {
        front.read(hapticd::device::io::thread::now_ns()).is_ok_and(|s| s.pose.translation.vector.x > 0.02)
    });
    println!("| SpaceMouse over uhid | moves the tool |");
}

/// The emulator's own process: serves the socket on descriptor 3.
fn falcon_device() {
    let profile = Registry::builtin().profile("novint-falcon").expect("shipped");
    let hand = HandScript::parse(
        "hand = 'firm'\n[[keyframe]]\ntime = 0.0\nposition = [0.0, 0.02, 0.0]\n\
         [[keyframe]]\ntime = 3.0\nposition = [0.0, 0.02, 0.0]\n\
         [[keyframe]]\ntime = 4.0\nposition = [0.0, 0.003, 0.0]\n",
    )
    .expect("script");
    let image = image();
    let setup = emulated::falcon::Setup { image: Some(image), flakiness: 0.02, ..Default::default() };
    let mut gadget = emulated::falcon::Falcon::new(&profile, &hand, setup).expect("in reach");
    // SAFETY: the parent left this end of the socket pair at 3 for this process alone.
    let socket = unsafe { UnixStream::from_raw_fd(3) };
    above_the_driver();
    usbip::serve(socket, &mut gadget);
    let (codes, applied) = (gadget.codes(), gadget.applied.len());
    println!("the emulator ends with {codes:?} after {applied} commands");
    assert_eq!(codes, [0; 3]);
}

fn image() -> Vec<u8> {
    (0..600u32).map(|i| (i * 37 % 251) as u8).collect()
}

const VHCI: &str = "/sys/devices/platform/vhci_hcd.0";

/// Plugs in: the emulator's process has one end, the kernel the other.
fn attach() -> Child {
    let (kernel, device) = UnixStream::pair().expect("a socket pair");
    let fd = device.into_raw_fd();
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "the_part", "--include-ignored", "--nocapture"]).env(PART, "falcon-device");
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
    let child = Mutex::new(attach());
    let sysfs = || -> Option<PathBuf> {
        let devices = std::fs::read_dir("/sys/bus/usb/devices").ok()?;
        devices
            .filter_map(|d| Some(d.ok()?.path()))
            .find(|d| std::fs::read_to_string(d.join("idProduct")).is_ok_and(|t| t.trim() == "cb48"))
    };
    wait("the device", || sysfs().is_some());
    let at = sysfs().expect("there");
    let read = |file: &str| std::fs::read_to_string(at.join(file)).expect(file).trim().to_string();
    let number = |file: &str| read(file).parse::<u32>().expect("a number");
    let node = format!("/dev/bus/usb/{:03}/{:03}", number("busnum"), number("devnum"));
    owned_by_the_service(Path::new(&node));
    assert_eq!(read("power/control"), "on", "it must not fall asleep");
    let profile = Registry::builtin().profile("novint-falcon").expect("shipped");
    let options = Attached {
        serial: Some("F1".into()),
        firmware: Some(firmware),
        scheduling: SCHEDULING,
        ..Attached::default()
    };
    let front = attached::open(profile, &options).expect("a driver");
    let shared = front.io().expect("its I/O");
    let booted = wait("boot and homing", || shared.lifecycle() == Lifecycle::Ready);
    println!("| Falcon over vhci_hcd | found, firmware loaded, homed after {} ms |", booted.as_millis());
    let unplug = || {
        std::fs::write(format!("{VHCI}/detach"), "0").expect("detaches");
        let ended = child.lock().unwrap().wait().expect("the emulator");
        assert!(ended.success(), "the emulator: {ended}");
    };
    closed_loop("Falcon over vhci_hcd", front, &shared, unplug, || {
        std::thread::sleep(Duration::from_millis(500));
        *child.lock().unwrap() = attach();
    });
    std::fs::write(format!("{VHCI}/detach"), "0").expect("detaches");
    let ended = child.lock().unwrap().wait().expect("the emulator");
    assert!(ended.success(), "the emulator: {ended}");
}
