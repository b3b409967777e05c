//! HID devices behind real hidraw nodes, through uhid and as a USB gadget behind the kernel's usbhid.

use super::closed_loop::{End, Notes, closed_loop, ended_with_zero};
use super::{
    SCHEDULING, SECONDS, SLOW, awake_and_left_alone, install_rules, modprobe, owned_by_the_service, schedule,
    succeeds, told_by_udev, uhid, usb_device, usbhid, wait,
};
use hapticd::device::attached::{self, Attached};
use hapticd::device::emulated;
use hapticd::device::io::thread::now_ns;
use hapticd::device::registry::Registry;
use hapticd::device::simulated::HandScript;
use hapticd::device::{Device, Lifecycle};
use hapticd::geometry::{Vec3, Wrench};
use std::path::Path;
use std::sync::{Arc, Mutex};

pub type Wooden = Arc<Mutex<emulated::hid_haptic::HidHaptic>>;

/// A WoodenHaptics in a hand that holds it in its calibration pose until its time goes on, and then presses it down onto the bunny.
pub fn wooden() -> Wooden {
    let profile = Registry::builtin().profile("woodenhaptics-v2015").expect("shipped");
    let hand = HandScript::parse(
        "hand = 'firm'\n[[keyframe]]\ntime = 0.0\nposition = [0.0, 0.205, 0.025]\n\
         [[keyframe]]\ntime = 0.8\nposition = [0.0, 0.003, 0.0]\n",
    )
    .expect("script");
    let mut gadget = emulated::hid_haptic::HidHaptic::new(&profile, &hand, 64).expect("in reach");
    gadget.hurry(0);
    Arc::new(Mutex::new(gadget))
}

/// Looks at the device, above all other threads meanwhile: a look that is held up holds up the emulator, and then its driver takes it for mute.
pub fn look<T>(gadget: &Wooden, with: impl FnOnce(&mut emulated::hid_haptic::HidHaptic) -> T) -> T {
    schedule(libc::SCHED_FIFO, 90);
    let seen = with(&mut gadget.lock().unwrap());
    schedule(libc::SCHED_OTHER, 0);
    seen
}

/// Motor currents in effect.
pub fn currents(gadget: &Wooden) -> [i16; 3] {
    look(gadget, |g| g.currents())
}

/// What it has noted.
pub fn notes(gadget: &Wooden) -> Notes {
    look(gadget, |g| Notes { applied: g.applied.clone(), packets: g.sampled.clone() })
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
        let gadget = wooden();
        let plugged = Mutex::new(Some(plug(gadget.clone())));
        wait("the node", || node.exists());
        owned_by_the_service(node);
        let front = calibrated("T1");
        let shared = front.io().expect("its I/O");
        let press = || look(&gadget, |g| g.hurry(SLOW));
        // No packet comes between the look and the stop.
        let stop = |stop: &dyn Fn()| {
            look(&gadget, |g| {
                let pushes = g.currents() != [0; 3];
                if pushes {
                    stop();
                }
                pushes
            })
        };
        let unplug = || drop(plugged.lock().unwrap().take());
        let replug = || *plugged.lock().unwrap() = Some(plug(gadget.clone()));
        let end = if unplugs { End::Unplug(unplug, replug) } else { End::Stop(stop) };
        let stopped_ns = closed_loop(what, front, &shared, seconds, press, end);
        let came_through = stopped_ns.is_some_and(|stopped_ns| {
            // What was sent may wait before a slow emulator.
            wait("zero", || currents(&gadget) == [0; 3]);
            unplugs || ended_with_zero(what, &notes(&gadget), stopped_ns, &shared)
        });
        drop(plugged);
        wait("no node", || !node.exists());
        came_through
    };
    for (seconds, unplugs) in [(SECONDS, false), (2, true)] {
        // The guest is too slow at times: after half a second without an answer the driver opens its device again.
        let came_through = (0..8).any(|_| session(seconds, unplugs));
        assert!(came_through, "{what}: eight times in vain");
    }
}

/// Two of a kind on one machine: each driver has the device of its serial number, and the other one none of its force.
fn two_of_a_kind() {
    let gadgets = ["T1", "T2"].map(|serial| {
        let gadget = wooden();
        let identity = uhid::Identity { serial, ..uhid::WOODENHAPTICS };
        (uhid::Plug::new(&identity, gadget.clone()).expect("uhid"), gadget)
    });
    wait("both nodes", || Path::new("/dev/hidraw0").exists() && Path::new("/dev/hidraw1").exists());
    let profile = Registry::builtin().profile("woodenhaptics-v2015").expect("shipped");
    let unnamed = attached::open(profile, &Attached::default()).expect("a driver");
    let shared = unnamed.io().expect("its I/O");
    wait("which one?", || shared.trouble().contains("set device.serial to one of T"));
    println!("| two WoodenHaptics over uhid | {} |", shared.trouble());
    drop(unnamed);
    let mut fronts = ["T1", "T2"].map(calibrated);
    let push = Wrench { force: Vec3::new(0.3, -0.2, 0.25), torque: Vec3::zeros() };
    let mut pushes = |which: usize| {
        wait("the force of one, and not of the other", || {
            for (k, front) in fronts.iter_mut().enumerate() {
                let _ = front.read(now_ns());
                let _ = front.write(now_ns(), if k == which { &push } else { &Wrench::ZERO });
            }
            let pushed = gadgets.each_ref().map(|(_, g)| currents(g) != [0; 3]);
            pushed[which] && !pushed[1 - which]
        });
    };
    pushes(0);
    let before = notes(&gadgets[1].1).applied;
    assert!(before.iter().all(|(_, c)| *c == [0; 3]), "the other one's force");
    pushes(1);
    println!("| two WoodenHaptics over uhid | each pushes by its own driver, of its serial number |");
    drop(fronts);
    for (_, gadget) in &gadgets {
        wait("zero", || currents(gadget) == [0; 3]);
    }
}

/// The same device as a USB gadget, with the kernel's own usbhid driver between.
pub fn on_usb() {
    modprobe(&["dummy_hcd", "libcomposite", "usb_f_hid", "usbhid", "hid-generic"]);
    install_rules();
    haptic_hid("hidraw over usbhid", |gadget| {
        let plug = usbhid::Plug::new(&uhid::WOODENHAPTICS, gadget).expect("a gadget");
        wait("the USB device", || usb_device("0486").is_some());
        awake_and_left_alone("0486");
        plug
    });
}

/// Through uhid: one, two of a kind, a SpaceMouse; and the request for short wake-up latencies.
pub fn through_uhid() {
    modprobe(&["uhid"]);
    // In Debian's kernel it may be built in.
    let _ = std::process::Command::new("modprobe").args(["-a", "hid-generic"]).status();
    install_rules();
    succeeds(&["udevadm", "trigger", "--action=add", "--sysname-match=cpu_dma_latency"]);
    owned_by_the_service(Path::new("/dev/cpu_dma_latency"));
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
