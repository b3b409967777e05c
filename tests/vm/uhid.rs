//! The device's side of hidraw: an emulated HID device behind the kernel's uhid.

use hapticd::device::emulated::bus::Gadget;
use hapticd::device::io::link::LONGEST;
use hapticd::device::io::thread::now_ns;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Length of the kernel's `struct uhid_event` (linux/uhid.h).
const EVENT: usize = 4376;
const DESTROY: u32 = 1;
const OUTPUT: u32 = 6;
const CREATE2: u32 = 11;
const INPUT2: u32 = 12;
/// hidapi lists USB devices.
const BUS_USB: u16 = 3;

/// What the kernel is told about the device.
#[derive(Clone, Copy)]
pub struct Identity {
    pub vendor: u32,
    pub product: u32,
    pub serial: &'static str,
    pub descriptor: &'static [u8],
}

/// Vendor page 0xffab, usage 0x0200, 64 bytes each way without report numbers.
pub const WOODENHAPTICS: Identity = Identity {
    vendor: 0x16c0,
    product: 0x0486,
    serial: "T1",
    descriptor: &[
        0x06, 0xab, 0xff, 0x0a, 0x00, 0x02, 0xa1, 0x01, 0x75, 0x08, 0x15, 0x00, 0x26, 0xff, 0x00, 0x95, 0x40,
        0x09, 0x01, 0x81, 0x02, 0x95, 0x40, 0x09, 0x02, 0x91, 0x02, 0xc0,
    ],
};

/// A multi-axis controller with three reports of input, of 6, 6 and 2 bytes.
pub const SPACE_MOUSE: Identity = Identity {
    vendor: 0x256f,
    product: 0xc635,
    serial: "S1",
    descriptor: &[
        0x05, 0x01, 0x09, 0x08, 0xa1, 0x01, 0x75, 0x08, 0x15, 0x00, 0x26, 0xff, 0x00, 0x85, 0x01, 0x95, 0x06,
        0x09, 0x30, 0x81, 0x02, 0x85, 0x02, 0x95, 0x06, 0x09, 0x33, 0x81, 0x02, 0x85, 0x03, 0x95, 0x02, 0x09,
        0x01, 0x81, 0x02, 0xc0,
    ],
};

fn create(identity: &Identity) -> Vec<u8> {
    let mut e = vec![0; EVENT];
    e[..4].copy_from_slice(&CREATE2.to_le_bytes());
    let mut put = |at: usize, bytes: &[u8]| e[4 + at..4 + at + bytes.len()].copy_from_slice(bytes);
    put(0, b"emulated");
    put(192, identity.serial.as_bytes());
    put(256, &(identity.descriptor.len() as u16).to_le_bytes());
    put(258, &BUS_USB.to_le_bytes());
    put(260, &identity.vendor.to_le_bytes());
    put(264, &identity.product.to_le_bytes());
    put(276, identity.descriptor);
    e
}

/// A plugged-in device; dropping it pulls the plug.
pub struct Plug {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Plug {
    /// Plugs it in; the emulator's time is the machine's.
    pub fn new<G: Gadget + 'static>(identity: &Identity, gadget: Arc<Mutex<G>>) -> std::io::Result<Self> {
        let mut file = OpenOptions::new().read(true).write(true).open("/dev/uhid")?;
        file.write_all(&create(identity))?;
        gadget.lock().unwrap().power_on(now_ns());
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let stop = stop.clone();
            move || {
                super::above_the_driver();
                serve(file, &gadget, &stop);
            }
        });
        Ok(Self { stop, thread: Some(thread) })
    }
}

/// One frame a millisecond: what has come is handed on, then the device is asked.
fn serve<G: Gadget>(mut file: File, gadget: &Mutex<G>, stop: &AtomicBool) {
    let mut event = vec![0; EVENT];
    let mut frames = super::Frames::new();
    while !stop.load(Relaxed) {
        frames.begins();
        loop {
            let ready = {
                let mut fds = [PollFd::new(file.as_fd(), PollFlags::POLLIN)];
                poll(&mut fds, PollTimeout::ZERO).unwrap_or(0) > 0
            };
            if !ready {
                break;
            }
            let Ok(n) = file.read(&mut event) else { return };
            if n >= 4102 && event[..4] == OUTPUT.to_le_bytes() {
                let len = usize::from(u16::from_le_bytes([event[4100], event[4101]])).min(4096);
                // uhid leaves the report number 0 in front; a real device never sees it.
                gadget.lock().unwrap().output(now_ns(), &event[5..4 + len.max(1)]);
            }
        }
        let mut buffer = [0; LONGEST];
        let said = {
            let mut gadget = gadget.lock().unwrap();
            gadget.frame(now_ns());
            gadget.input(now_ns(), &mut buffer)
        };
        if let Some(len) = said {
            let mut input = vec![0; EVENT];
            input[..4].copy_from_slice(&INPUT2.to_le_bytes());
            input[4..6].copy_from_slice(&(len as u16).to_le_bytes());
            input[6..6 + len].copy_from_slice(&buffer[..len]);
            if file.write_all(&input).is_err() {
                return;
            }
        }
        std::thread::sleep(std::time::Duration::from_nanos(frames.ends()));
    }
    let mut destroy = vec![0; EVENT];
    destroy[..4].copy_from_slice(&DESTROY.to_le_bytes());
    let _ = file.write_all(&destroy);
    gadget.lock().unwrap().power_off(now_ns());
}

impl Drop for Plug {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
