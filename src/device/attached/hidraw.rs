//! HID devices through the kernel's hidraw nodes.
//!
//! hidapi (its pure-Rust backend) finds the device and tells what its descriptor says; the node is then opened twice, for
//! reading and for writing. A write to hidraw blocks until the device has taken the report (kernel: usb_interrupt_msg, up to
//! 5 s with a device that hangs; 5 ms were seen now and then, libusb/hidapi issue 506), so a thread of its own does it and the
//! readings do not wait. hidapi's own read waits in whole milliseconds, so the node is polled here.

use super::Kind;
use super::events::Lookout;
use crate::device::io::link::{Connector, LONGEST, Link, LinkFault, OpenFault};
use crate::device::io::mailbox::Mailbox;
use crate::device::io::thread::now_ns;
use crate::device::wire::ftdi::Control;
use crate::device::wire::hid_haptic::{USAGE, USAGE_PAGE};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

/// Which HID devices are meant.
#[derive(Clone, Copy, Debug)]
pub struct Which {
    /// What drives them.
    kind: Kind,
    /// Usage page and usage of the collection.
    usage: (u16, u16),
    /// For messages.
    title: &'static str,
    /// Reports are sent to it.
    writes: bool,
}

/// WoodenHaptics and Polhem.
pub const HAPTIC: Which =
    Which { kind: Kind::HidHaptic, usage: (USAGE_PAGE, USAGE), title: "WoodenHaptics", writes: true };

/// 3Dconnexion mice: generic desktop, multi-axis controller.
pub const SPACE_MOUSE: Which =
    Which { kind: Kind::SpaceMouse, usage: (1, 8), title: "SpaceMouse", writes: false };

impl Which {
    fn matches(&self, vendor: u16, product: u16, usage: (u16, u16)) -> bool {
        usage == self.usage && Kind::of_ids(vendor, product) == Some(self.kind)
    }
}

/// Finds and opens an HID device.
#[derive(Debug)]
pub struct HidConnector {
    which: Which,
    serial: Option<String>,
    /// Node and product id.
    found: Option<(PathBuf, u16)>,
    lookout: Lookout,
}

impl HidConnector {
    /// The only device of this kind, or that of this serial number.
    pub fn new(which: Which, serial: Option<String>) -> Self {
        Self { which, serial, found: None, lookout: Lookout::default() }
    }
}

impl Connector for HidConnector {
    fn find(&mut self, _now_ns: u64) -> Result<(), OpenFault> {
        self.lookout.listen();
        let api = hidapi::HidApi::new()
            .map_err(|e| OpenFault::Trouble(format!("cannot list the HID devices: {e}")))?;
        let kind = api
            .device_list()
            .filter(|d| self.which.matches(d.vendor_id(), d.product_id(), (d.usage_page(), d.usage())));
        let device = super::the_one(kind, self.serial.as_deref(), |d| d.serial_number())?;
        let path = PathBuf::from(OsStr::from_bytes(device.path().to_bytes()));
        self.found = Some((path, device.product_id()));
        Ok(())
    }

    fn open(&mut self, _now_ns: u64) -> Result<Box<dyn Link>, OpenFault> {
        let Some((path, product)) = self.found.take() else { return Err(OpenFault::NotThere) };
        let link = HidrawLink::open(&path, product, self.which.writes)
            .map_err(|e| trouble(self.which.title, &path.to_string_lossy(), &e))?;
        self.lookout.rest();
        Ok(Box::new(link))
    }

    fn is_told(&self) -> bool {
        self.lookout.listens()
    }

    fn wait(&mut self, until_ns: u64) -> Option<bool> {
        self.lookout.wait(until_ns)
    }
}

/// Why a node cannot be opened, and the cure.
pub(super) fn trouble(title: &str, path: &str, error: &std::io::Error) -> OpenFault {
    OpenFault::Trouble(match error.kind() {
        ErrorKind::PermissionDenied => format!(
            "{title} at {path}: this user may not open it; the service may, once systemd/72-hapticd.rules is installed; docs/devices.md \
             (Rights) tells what running hapticd as yourself takes, and what it means"
        ),
        ErrorKind::NotFound => return OpenFault::NotThere,
        _ => format!("{title} at {path} cannot be opened: {error}"),
    })
}

const IDLE: u8 = 0;
const BUSY: u8 = 1;
const FAILED: u8 = 2;
const GONE: u8 = 3;
/// Words of a report: its length, then its bytes.
const WORDS: usize = 1 + LONGEST.div_ceil(8);

/// What link and writer share.
struct Desk {
    report: Mailbox<WORDS>,
    state: AtomicU8,
    stop: AtomicBool,
    /// Raised for the writer.
    work: EventFd,
    /// Raised for the link.
    done: EventFd,
}

/// An open node.
pub struct HidrawLink {
    node: File,
    desk: Option<Arc<Desk>>,
    product: u16,
    /// Waiting has seen that the device is gone.
    hung: bool,
}

impl HidrawLink {
    /// Opens a node for reading and, where reports are sent, once more for writing.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(path: &Path, product: u16, writes: bool) -> std::io::Result<Self> {
        let node = OpenOptions::new()
            .read(true)
            .write(writes)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(path)?;
        if !writes {
            return Ok(Self { node, desk: None, product, hung: false });
        }
        let out = OpenOptions::new().read(true).write(true).custom_flags(libc::O_CLOEXEC).open(path)?;
        let desk = Arc::new(Desk {
            report: Mailbox::default(),
            state: AtomicU8::new(IDLE),
            stop: AtomicBool::new(false),
            work: EventFd::from_flags(EfdFlags::EFD_CLOEXEC)?,
            done: EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?,
        });
        let writer = desk.clone();
        // Started from the I/O thread, it inherits its scheduling.
        std::thread::Builder::new().name("device-out".into()).spawn(move || write(&writer, out))?;
        Ok(Self { node, desk: Some(desk), product, hung: false })
    }
}

/// Writes reports until told to stop. A write that hangs hangs here alone.
fn write(desk: &Desk, mut out: File) {
    while desk.work.read().is_ok() && !desk.stop.load(Ordering::Acquire) {
        let Some((_, words)) = desk.report.newest() else { continue };
        let [len, body @ ..] = words;
        let mut bytes = [0; (WORDS - 1) * 8];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(&body) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        let len = usize::try_from(len).unwrap_or(0).min(LONGEST);
        let state = match out.write(&bytes[..len]) {
            Ok(n) if n == len => IDLE,
            Ok(_) => FAILED,
            Err(e) if fault(&e, &out) == LinkFault::Gone => GONE,
            Err(_) => FAILED,
        };
        desk.state.store(state, Ordering::Release);
        let _ = desk.done.write(1);
    }
}

/// What it means that the kernel refused to read or write. Once a node is removed, reading says EIO and writing ENODEV
/// (drivers/hid/hidraw.c); on the way there the USB side says ESHUTDOWN, ENOENT or ENXIO, and codes that a fault on the bus has, too: EPROTO,
/// EILSEQ, ETIME, EPIPE (Documentation/driver-api/usb/error-codes.rst). With those the node itself is asked whether it is still one.
fn fault(e: &std::io::Error, node: &File) -> LinkFault {
    use Errno as E;
    let removed = matches!(
        e.raw_os_error().map(Errno::from_raw),
        Some(E::ENODEV | E::EIO | E::ESHUTDOWN | E::ENOENT | E::ENXIO)
    );
    if removed || is_hung(node) { LinkFault::Gone } else { LinkFault::Failed }
}

/// The node's device is gone, as its poll has it.
fn is_hung(node: &File) -> bool {
    let mut fds = [PollFd::new(node.as_fd(), PollFlags::empty())];
    let _ = ppoll(&mut fds, Some(TimeSpec::from_duration(Duration::ZERO)), None);
    hangs(&fds[0])
}

/// What poll says of a node without a device.
fn hangs(node: &PollFd<'_>) -> bool {
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    node.revents().is_some_and(|r| r.intersects(gone))
}

impl Link for HidrawLink {
    fn product(&self) -> u16 {
        self.product
    }

    fn send(&mut self, _now_ns: u64, bytes: &[u8]) -> Result<(), LinkFault> {
        let Some(desk) = &self.desk else { return Err(LinkFault::Failed) };
        if bytes.len() > LONGEST {
            return Err(LinkFault::Failed);
        }
        let mut words = [0; WORDS];
        let (len, body) = words.split_at_mut(1);
        len.fill(bytes.len() as u64);
        for (word, chunk) in body.iter_mut().zip(bytes.chunks(8)) {
            let mut eight = [0; 8];
            for (slot, byte) in eight.iter_mut().zip(chunk) {
                *slot = *byte;
            }
            *word = u64::from_le_bytes(eight);
        }
        desk.report.put(&words);
        desk.state.store(BUSY, Ordering::Release);
        desk.work.write(1).map(drop).map_err(|_| LinkFault::Failed)
    }

    fn sent(&mut self, _now_ns: u64) -> Result<bool, LinkFault> {
        match self.desk.as_ref().map_or(IDLE, |d| d.state.load(Ordering::Acquire)) {
            IDLE => Ok(true),
            BUSY => Ok(false),
            GONE => Err(LinkFault::Gone),
            _ => Err(LinkFault::Failed),
        }
    }

    fn receive(
        &mut self,
        now_ns: u64,
        buffer: &mut [u8; LONGEST],
    ) -> Result<Option<(usize, u64)>, LinkFault> {
        match self.node.read(buffer) {
            Ok(0) => Err(LinkFault::Gone),
            Ok(len) => Ok(Some((len, now_ns))),
            // Nothing to read and nobody to write: waiting would not wait any more.
            Err(e) if e.kind() == ErrorKind::WouldBlock && self.hung => Err(LinkFault::Gone),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
            Err(e) => Err(fault(&e, &self.node)),
        }
    }

    fn control(&mut self, _now_ns: u64, _request: Control) -> Result<(), LinkFault> {
        Ok(())
    }

    fn wait(&mut self, until_ns: u64) {
        let time = TimeSpec::from_duration(Duration::from_nanos(until_ns.saturating_sub(now_ns())));
        let node = PollFd::new(self.node.as_fd(), PollFlags::POLLIN);
        self.hung = match &self.desk {
            Some(desk) => {
                let mut fds = [node, PollFd::new(desk.done.as_fd(), PollFlags::POLLIN)];
                let _ = ppoll(&mut fds, Some(time), None);
                let _ = desk.done.read();
                hangs(&fds[0])
            }
            None => {
                let mut fds = [node];
                let _ = ppoll(&mut fds, Some(time), None);
                hangs(&fds[0])
            }
        };
    }
}

impl Drop for HidrawLink {
    fn drop(&mut self) {
        // The writer ends by itself; one that hangs in a write is not waited for.
        if let Some(desk) = &self.desk {
            desk.stop.store(true, Ordering::Release);
            let _ = desk.work.write(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_by_numbers_and_usage() {
        assert!(HAPTIC.matches(0x16c0, 0x0486, (0xffab, 0x0200)));
        // A Teensy's second collection (its serial emulation) and other makers are not meant.
        assert!(!HAPTIC.matches(0x16c0, 0x0486, (0xffc9, 0x0004)));
        assert!(!HAPTIC.matches(0x16c0, 0x0483, (0xffab, 0x0200)));
        assert!(SPACE_MOUSE.matches(0x256f, 0xc635, (1, 8)));
        assert!(SPACE_MOUSE.matches(0x046d, 0xc626, (1, 8)));
        assert!(SPACE_MOUSE.matches(0x046d, 0xc62b, (1, 8)));
        assert!(HAPTIC.matches(0x1234, 0x0006, (0xffab, 0x0200)));
        // Each has its own driver.
        assert!(!SPACE_MOUSE.matches(0x16c0, 0x0486, (1, 8)));
        assert!(!HAPTIC.matches(0x256f, 0xc635, (0xffab, 0x0200)));
        // A mouse for the desk is made by the same company.
        assert!(!SPACE_MOUSE.matches(0x046d, 0xc077, (1, 2)));
    }

    /// A pipe stands for the node: reports go out whole, and its end is noticed on both sides.
    #[test]
    fn reports_pass_and_the_end_is_noticed() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("node");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("fifo");
        let mut link = HidrawLink::open(&path, 7, true).expect("opens");
        let report: Vec<u8> = (0..65).collect();
        link.send(0, &report).expect("sends");
        let (mut buffer, mut got) = ([0; LONGEST], None);
        for _ in 0..500 {
            link.wait(now_ns() + 10_000_000);
            // The pipe gives back what was written to it.
            got = got.or(link.receive(5, &mut buffer).expect("reads"));
            if got.is_some() && link.sent(0).expect("there") {
                break;
            }
        }
        assert_eq!((got, &buffer[..], link.product()), (Some((65, 5)), &report[..], 7));
        assert_eq!(link.send(0, &[0; 66]), Err(LinkFault::Failed));
    }

    /// A socket stands for the node: while its other end is there, and when it is closed.
    fn node() -> (File, std::os::unix::net::UnixStream) {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
        ours.set_nonblocking(true).expect("set");
        (File::from(std::os::fd::OwnedFd::from(ours)), theirs)
    }

    /// Every error that there is: of a node whose device is gone none is told as a mere refusal; of one that is there, those
    /// with which the kernel says that it is not.
    #[test]
    fn whatever_a_removed_node_answers_it_is_told_as_removed() {
        let (there, _other) = node();
        let (removed, other) = node();
        drop(other);
        let gone = [libc::ENODEV, libc::EIO, libc::ESHUTDOWN, libc::ENOENT, libc::ENXIO];
        for code in 1..=133 {
            let e = std::io::Error::from_raw_os_error(code);
            assert_eq!(fault(&e, &removed), LinkFault::Gone, "{e}");
            assert_eq!(fault(&e, &there) == LinkFault::Gone, gone.contains(&code), "{e}");
        }
    }

    /// The whole link over a node that goes: reading, waiting and writing all end with the same word.
    #[test]
    fn a_link_whose_node_goes_ends_as_gone() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("node");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("fifo");
        for writes in [false, true] {
            let link = || {
                let mut link = HidrawLink::open(&path, 7, writes).expect("opens");
                let (there, other) = node();
                link.node = there;
                (link, other)
            };
            let mut buffer = [0; LONGEST];
            let (mut there, other) = link();
            assert_eq!(there.receive(0, &mut buffer), Ok(None));
            drop(other);
            there.wait(now_ns() + 3_600_000_000_000);
            assert!(there.hung, "the wait ends, and says why");
            assert_eq!(there.receive(0, &mut buffer), Err(LinkFault::Gone));
            // Also where reading has nothing to say: who waited for it would be woken for ever.
            let (mut there, _other) = link();
            there.hung = true;
            assert_eq!(there.receive(0, &mut buffer), Err(LinkFault::Gone));
        }
        // Writing to what is gone: the error is that of a broken pipe.
        let (out, other) = node();
        drop(other);
        let mut link = HidrawLink::open(&path, 7, true).expect("opens");
        let desk = Arc::new(Desk {
            report: Mailbox::default(),
            state: AtomicU8::new(IDLE),
            stop: AtomicBool::new(false),
            work: EventFd::from_flags(EfdFlags::EFD_CLOEXEC).expect("an eventfd"),
            done: EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK).expect("an eventfd"),
        });
        let writer = desk.clone();
        std::thread::spawn(move || write(&writer, out));
        link.desk = Some(desk);
        link.send(0, &[1, 2, 3]).expect("handed over");
        let mut ended = Ok(false);
        for _ in 0..2000 {
            ended = link.sent(0);
            if ended != Ok(false) {
                break;
            }
            link.wait(now_ns() + 10_000_000);
        }
        assert_eq!(ended, Err(LinkFault::Gone));
    }

    #[test]
    fn a_node_that_may_not_be_opened_names_the_cure() {
        let denied = std::io::Error::from(ErrorKind::PermissionDenied);
        let OpenFault::Trouble(text) = trouble("SpaceMouse", "/dev/hidraw3", &denied) else { panic!("told") };
        assert!(text.contains("/dev/hidraw3") && text.contains("72-hapticd.rules"), "{text}");
        // Its members can command raw torque: nobody is told to join without being told that.
        assert!(text.contains("docs/devices.md") && !text.contains("join"), "{text}");
        let gone = std::io::Error::from(ErrorKind::NotFound);
        assert_eq!(trouble("SpaceMouse", "/dev/hidraw3", &gone), OpenFault::NotThere);
    }
}
