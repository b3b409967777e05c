//! A Falcon on a real USB bus, behind the kernel's virtual host controller. Its emulator has a process of its own ([`usbip`]).

use super::closed_loop::{End, Notes, closed_loop, ended_with_zero};
use super::{
    PART, SCHEDULING, SECONDS, SLOW, above_the_driver, awake_and_left_alone, comes_to_belong_to_the_service,
    install_rules, modprobe, usb_device, usb_node, usbip, wait,
};
use hapticd::device::Lifecycle;
use hapticd::device::attached::{self, Attached};
use hapticd::device::emulated::{self, Gadget};
use hapticd::device::io::link::LONGEST;
use hapticd::device::registry::Registry;
use hapticd::device::simulated::HandScript;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Set for the emulator: where it leaves its notes.
const NOTES: &str = "HAPTICD_VM_NOTES";
const VHCI: &str = "/sys/devices/platform/vhci_hcd.0";

fn image() -> Vec<u8> {
    (0..600u32).map(|i| (i * 37 % 251) as u8).collect()
}

/// A Falcon whose hand waits for a word.
struct Held {
    falcon: emulated::falcon::Falcon,
    word: Arc<AtomicBool>,
}

impl Gadget for Held {
    fn frame(&mut self, now_ns: u64) {
        if self.word.swap(false, Relaxed) {
            self.falcon.hurry(SLOW);
        }
        self.falcon.frame(now_ns);
    }

    fn output(&mut self, now_ns: u64, bytes: &[u8]) {
        self.falcon.output(now_ns, bytes);
    }

    fn input(&mut self, now_ns: u64, buffer: &mut [u8; LONGEST]) -> Option<usize> {
        self.falcon.input(now_ns, buffer)
    }

    fn control(&mut self, now_ns: u64, request: u8, value: u16) {
        self.falcon.control(now_ns, request, value);
    }

    fn power_on(&mut self, now_ns: u64) {
        self.falcon.power_on(now_ns);
    }

    fn power_off(&mut self, now_ns: u64) {
        self.falcon.power_off(now_ns);
    }
}

/// The emulator's own process: serves the socket on descriptor 3; a byte on its standard input lets the hand come down.
pub fn device() {
    let profile = Registry::builtin().profile("novint-falcon").expect("shipped");
    let hand = HandScript::parse(
        "hand = 'firm'\n[[keyframe]]\ntime = 0.0\nposition = [0.0, 0.02, 0.0]\n\
         [[keyframe]]\ntime = 0.3\nposition = [0.0, 0.003, 0.0]\n",
    )
    .expect("script");
    let setup = emulated::falcon::Setup {
        image: Some(image()),
        flakiness: 0.02,
        // It would hold its last force for ever.
        hold_ns: u64::MAX,
        ..Default::default()
    };
    let mut falcon = emulated::falcon::Falcon::new(&profile, &hand, setup).expect("in reach");
    falcon.hurry(0);
    let word = Arc::new(AtomicBool::new(false));
    std::thread::spawn({
        let word = word.clone();
        move || word.store(std::io::stdin().read_exact(&mut [0]).is_ok(), Relaxed)
    });
    let mut held = Held { falcon, word };
    // SAFETY: the parent left this end of the socket pair at 3 for this process alone.
    let socket = unsafe { UnixStream::from_raw_fd(3) };
    above_the_driver();
    usbip::serve(socket, &mut held);
    // It has its power yet.
    let (codes, applied) = (held.falcon.codes(), &held.falcon.applied);
    println!("| the Falcon's emulator | ends with codes {codes:?} after {} commands |", applied.len());
    let lines = applied.iter().map(|(at, c)| format!("applied {at} {} {} {}\n", c[0], c[1], c[2]));
    let packets = held.falcon.sampled.iter().map(|at| format!("packet {at}\n"));
    std::fs::write(std::env::var_os(NOTES).expect("told"), lines.chain(packets).collect::<String>())
        .expect("writes");
}

fn notes(file: &Path) -> Notes {
    let mut notes = Notes::default();
    for line in std::fs::read_to_string(file).expect("the emulator's notes").lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let number = |k: usize| fields[k].parse::<i64>().expect("a number");
        match fields[0] {
            "applied" => {
                notes.applied.push((number(1) as u64, [2, 3, 4].map(|k| number(k) as i16)));
            }
            _ => notes.packets.push(number(1) as u64),
        }
    }
    notes
}

/// Plugs in: the emulator's process has one end, the kernel the other.
fn attach(notes: &Path) -> Child {
    let (kernel, device) = UnixStream::pair().expect("a socket pair");
    let fd = device.into_raw_fd();
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "the_part", "--include-ignored", "--nocapture"]);
    command.env(PART, "falcon-device").env(NOTES, notes).stdin(Stdio::piped());
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

pub fn falcon() {
    modprobe(&["vhci-hcd"]);
    install_rules();
    let dir = tempfile::tempdir().expect("a directory");
    let firmware: PathBuf = dir.path().join("firmware.bin");
    let noted = dir.path().join("notes");
    std::fs::write(&firmware, image()).expect("writes");
    let profile = Registry::builtin().profile("novint-falcon").expect("shipped");
    let what = "Falcon over vhci_hcd";
    let session = |seconds: u64, unplugs: bool| {
        let child = Mutex::new(attach(&noted));
        wait("the device", || usb_device("cb48").is_some());
        comes_to_belong_to_the_service(|| usb_node("cb48"));
        awake_and_left_alone("cb48");
        let options = Attached {
            serial: Some("F1".into()),
            firmware: Some(firmware.clone()),
            scheduling: SCHEDULING,
            ..Attached::default()
        };
        let front = attached::open(profile.clone(), &options).expect("a driver");
        let shared = front.io().expect("its I/O");
        let booted = wait("boot and homing", || shared.lifecycle() == Lifecycle::Ready);
        println!("| {what} | found, firmware loaded, homed after {} ms |", booted.as_millis());
        let press = || {
            let mut child = child.lock().unwrap();
            child.stdin.as_mut().expect("a pipe").write_all(b"!").expect("tells it");
        };
        let unplug = || {
            std::fs::write(format!("{VHCI}/detach"), "0").expect("detaches");
            let ended = child.lock().unwrap().wait().expect("the emulator");
            assert!(ended.success(), "the emulator: {ended}");
        };
        let replug = || {
            wait("no device", || usb_device("cb48").is_none());
            std::thread::sleep(Duration::from_millis(500));
            *child.lock().unwrap() = attach(&noted);
        };
        let stop = |stop: &dyn Fn()| {
            stop();
            true
        };
        let end = if unplugs { End::Unplug(unplug, replug) } else { End::Stop(stop) };
        let stopped_ns = closed_loop(what, front, &shared, seconds, press, end);
        unplug();
        wait("no device", || usb_device("cb48").is_none());
        stopped_ns.is_some_and(|at| unplugs || ended_with_zero(what, &notes(&noted), at, &shared))
    };
    for (seconds, unplugs) in [(SECONDS, false), (2, true)] {
        let came_through = (0..8).any(|_| session(seconds, unplugs));
        assert!(came_through, "{what}: eight times in vain");
    }
}
