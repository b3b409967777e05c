//! The device's side of a real USB bus: an emulated HID device as a gadget (configfs, f_hid) on the kernel's dummy_hcd, with the real usbhid
//! driver between it and hidraw (Documentation/usb/gadget_hid.rst).

use super::uhid::Identity;
use hapticd::device::emulated::bus::Gadget;
use hapticd::device::io::link::LONGEST;
use hapticd::device::io::thread::now_ns;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

const GADGET: &str = "/sys/kernel/config/usb_gadget/haptic";
const NODE: &str = "/dev/hidg0";
/// Bytes of a report, each way.
const REPORT: usize = 64;

fn put(name: &str, bytes: &[u8]) {
    std::fs::write(format!("{GADGET}/{name}"), bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
}

/// Describes the device to the kernel, once.
fn describe(identity: &Identity) {
    if Path::new(GADGET).exists() {
        return;
    }
    for dir in ["", "/strings/0x409", "/configs/c.1", "/functions/hid.usb0"] {
        std::fs::create_dir(format!("{GADGET}{dir}")).unwrap_or_else(|e| panic!("{dir}: {e}"));
    }
    put("idVendor", format!("{:#06x}", identity.vendor).as_bytes());
    put("idProduct", format!("{:#06x}", identity.product).as_bytes());
    put("strings/0x409/serialnumber", identity.serial.as_bytes());
    put("strings/0x409/manufacturer", b"emulated");
    put("strings/0x409/product", b"emulated");
    put("functions/hid.usb0/report_length", REPORT.to_string().as_bytes());
    put("functions/hid.usb0/report_desc", identity.descriptor);
    let link = format!("{GADGET}/configs/c.1/hid.usb0");
    std::os::unix::fs::symlink(format!("{GADGET}/functions/hid.usb0"), link).expect("a configuration");
}

/// A plugged-in device; dropping it pulls the plug.
pub struct Plug {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Plug {
    /// Plugs it in; the emulator's time is the machine's.
    pub fn new<G: Gadget + 'static>(identity: &Identity, gadget: Arc<Mutex<G>>) -> std::io::Result<Self> {
        describe(identity);
        put("UDC", b"dummy_udc.0");
        super::wait(NODE, || Path::new(NODE).exists());
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(NODE)?;
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

/// One frame a millisecond: what has come is handed on, then the device is asked. A report that the host has not fetched yet
/// keeps its place; the newer one is lost, as on the bus.
fn serve<G: Gadget>(mut file: File, gadget: &Mutex<G>, stop: &AtomicBool) {
    let mut report = [0; REPORT];
    let mut frames = super::Frames::new();
    while !stop.load(Relaxed) {
        frames.begins();
        while let Ok(len) = file.read(&mut report) {
            if len == 0 {
                break;
            }
            gadget.lock().unwrap().output(now_ns(), &report[..len]);
        }
        let mut buffer = [0; LONGEST];
        let said = {
            let mut gadget = gadget.lock().unwrap();
            gadget.frame(now_ns());
            gadget.input(now_ns(), &mut buffer)
        };
        if let Some(len) = said {
            let _ = file.write(&buffer[..len]);
        }
        std::thread::sleep(std::time::Duration::from_nanos(frames.ends()));
    }
    gadget.lock().unwrap().power_off(now_ns());
}

impl Drop for Plug {
    fn drop(&mut self) {
        // Off the bus first: its other end must not find a device that does not answer.
        put("UDC", b"\n");
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
