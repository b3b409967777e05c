//! Devices that come, as the kernel and udev tell it: a look at the right moment instead of one now and then.
//!
//! Both tell over netlink (NETLINK_KOBJECT_UEVENT; kernel: lib/kobject_uevent.c; udev: libudev's monitor, whose messages have a
//! header of their own). The kernel tells first, udev once its rules have given the node to its group. An event is no more than a
//! reason to look: nothing in it is believed. Only root may send such messages. Where the socket is refused, looking now and then
//! has to do.

use crate::device::io::thread::now_ns;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket,
};
use nix::sys::time::TimeSpec;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

/// Multicast groups: the kernel's own events, and udev's.
const GROUPS: u32 = 1 | 2;
/// Messages taken between two pauses, and the pause, ns: what floods the socket gets no more of this thread than that.
const BATCH: usize = 64;
const PAUSE_NS: u64 = 5_000_000;
/// The longest message that the kernel makes is 2 KiB, udev's are some more; longer ones are cut.
const MESSAGE: usize = 8192;

/// A source of events.
#[derive(Debug)]
pub(super) struct Events(OwnedFd);

/// What came while somebody waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// A device may have come.
    Something,
    /// Nothing, until the time was over.
    Nothing,
    /// The source is broken.
    Broken,
}

impl Events {
    /// Listens from now on.
    ///
    /// # Errors
    /// The system refuses the socket.
    pub(super) fn open() -> nix::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let kind = SockProtocol::NetlinkKObjectUEvent;
        let fd = socket(AddressFamily::Netlink, SockType::Datagram, flags, kind)?;
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, GROUPS))?;
        Ok(Self(fd))
    }

    /// Sleeps until a device may have come, or until this time.
    pub(super) fn wait(&self, until_ns: u64) -> Came {
        loop {
            let now = now_ns();
            let time = TimeSpec::from_duration(Duration::from_nanos(until_ns.saturating_sub(now)));
            match ppoll(&mut [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)], Some(time), None) {
                Ok(0) => return Came::Nothing,
                Ok(_) => {}
                Err(Errno::EINTR) if now_ns() < until_ns => continue,
                Err(Errno::EINTR) => return Came::Nothing,
                Err(_) => return Came::Broken,
            }
            match self.take() {
                Came::Nothing => {}
                came => return came,
            }
            let now = now_ns();
            if now >= until_ns {
                return Came::Nothing;
            }
            std::thread::sleep(Duration::from_nanos(PAUSE_NS.min(until_ns - now)));
        }
    }

    /// Takes what has come, so much at most.
    fn take(&self) -> Came {
        let mut message = [0; MESSAGE];
        let mut came = Came::Nothing;
        for _ in 0..BATCH {
            match recv(self.0.as_raw_fd(), &mut message, MsgFlags::MSG_DONTWAIT) {
                Ok(len) if adds(message.get(..len).unwrap_or(&[])) => came = Came::Something,
                Ok(_) | Err(Errno::EINTR) => {}
                // More came than the socket holds: one of them may have been ours.
                Err(Errno::ENOBUFS) => came = Came::Something,
                Err(Errno::EAGAIN) => break,
                Err(_) => return Came::Broken,
            }
        }
        came
    }
}

/// Where a connector hears of devices that come, while it has none.
#[derive(Debug, Default)]
pub(super) struct Lookout(Option<Events>);

impl Lookout {
    /// Listens, if the system lets it. To be called before a look: what comes after it is told.
    pub(super) fn listen(&mut self) {
        if self.0.is_none() {
            self.0 = Events::open().ok();
        }
    }

    /// Does not listen any more.
    pub(super) fn rest(&mut self) {
        self.0 = None;
    }

    /// It listens.
    pub(super) fn listens(&self) -> bool {
        self.0.is_some()
    }

    /// As [`Connector::wait`](crate::device::io::link::Connector::wait).
    pub(super) fn wait(&mut self, until_ns: u64) -> Option<bool> {
        match self.0.as_ref()?.wait(until_ns) {
            Came::Something => Some(true),
            Came::Nothing => Some(false),
            Came::Broken => {
                self.rest();
                None
            }
        }
    }
}

/// True for a message that tells of a new USB device or hidraw node.
fn adds(message: &[u8]) -> bool {
    let properties = match message.strip_prefix(b"libudev\0") {
        // After the prefix: magic, length of the header, offset of the properties.
        Some(rest) => {
            let at = rest.get(8..12).and_then(|b| <[u8; 4]>::try_from(b).ok()).map(u32::from_ne_bytes);
            at.and_then(|at| message.get(usize::try_from(at).ok()?..)).unwrap_or(&[])
        }
        None => message,
    };
    let has = |property: &[u8]| properties.split(|b| *b == 0).any(|p| p == property);
    has(b"ACTION=add") && (has(b"SUBSYSTEM=hidraw") || has(b"SUBSYSTEM=usb") && has(b"DEVTYPE=usb_device"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{send, socketpair};
    use std::time::Instant;

    /// A source that the test fills.
    fn fake() -> (Events, OwnedFd) {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let (ours, theirs) =
            socketpair(AddressFamily::Unix, SockType::Datagram, None, flags).expect("a pair");
        (Events(ours), theirs)
    }

    fn tell(to: &OwnedFd, message: &[u8]) -> bool {
        send(to.as_raw_fd(), message, MsgFlags::empty()).is_ok()
    }

    /// As the kernel has it.
    fn kernel(action: &str, subsystem: &str, kind: &str) -> Vec<u8> {
        let path = "/devices/pci0000:00/0000:00:14.0/usb1/1-2";
        format!(
            "{action}@{path}\0ACTION={action}\0DEVPATH={path}\0SUBSYSTEM={subsystem}\0DEVTYPE={kind}\0SEQNUM=4711\0"
        )
        .into_bytes()
    }

    /// As udev has it: a header of 40 bytes, the last of which need not be zero.
    fn udev(action: &str, subsystem: &str, kind: &str) -> Vec<u8> {
        let properties = format!(
            "ACTION={action}\0DEVPATH=/devices/x\0SUBSYSTEM={subsystem}\0DEVTYPE={kind}\0SEQNUM=4711\0"
        );
        let mut message = b"libudev\0".to_vec();
        message.extend(0xfeed_cafe_u32.to_be_bytes());
        for word in [40, 40, properties.len() as u32, 0x1234_5678, 0x9abc_def0, u32::MAX, u32::MAX] {
            message.extend(word.to_ne_bytes());
        }
        message.extend(properties.as_bytes());
        message
    }

    #[test]
    fn a_new_device_is_told_by_kernel_and_udev_and_nothing_else_is_one() {
        for message in [kernel, udev] {
            assert!(adds(&message("add", "usb", "usb_device")));
            assert!(adds(&message("add", "hidraw", "")));
            for (action, subsystem, kind) in [
                ("remove", "usb", "usb_device"),
                ("remove", "hidraw", ""),
                // What opening and closing a device makes the kernel say must not begin it anew.
                ("bind", "usb", "usb_device"),
                ("unbind", "usb", "usb_interface"),
                ("change", "hidraw", ""),
                ("add", "usb", "usb_interface"),
                ("add", "block", "disk"),
                ("add", "usbmisc", "usb_device"),
            ] {
                assert!(!adds(&message(action, subsystem, kind)), "{action} {subsystem} {kind}");
            }
        }
    }

    proptest::proptest! {
        /// Whatever bytes come, also with the header of udev before them, and cut anywhere.
        #[test]
        fn no_message_panics(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200), cut in 0usize..200) {
            let _ = adds(&bytes);
            let _ = adds(&[b"libudev\0", &bytes[..]].concat());
            let whole = udev("add", "usb", "usb_device");
            let _ = adds(&whole[..cut.min(whole.len())]);
        }
    }

    #[test]
    fn who_waits_is_woken_by_a_device_and_by_nothing_else() {
        let (events, to) = fake();
        assert_eq!(events.wait(now_ns() + 1_000_000), Came::Nothing);
        assert!(tell(&to, &kernel("add", "hidraw", "")));
        assert_eq!(events.wait(now_ns() + 3_600_000_000_000), Came::Something);
        assert!(tell(&to, &kernel("add", "block", "disk")));
        assert_eq!(events.wait(now_ns() + 20_000_000), Came::Nothing);
        // Told while it waits.
        let waiting = std::thread::spawn(move || events.wait(now_ns() + 3_600_000_000_000));
        std::thread::sleep(Duration::from_millis(20));
        assert!(tell(&to, &udev("add", "usb", "usb_device")));
        assert_eq!(waiting.join().expect("ends"), Came::Something);
    }

    /// A flood of what is none of ours is taken by the batch, with pauses, and ends no wait before its time.
    #[test]
    fn a_flood_gets_no_more_than_its_share() {
        let (events, to) = fake();
        let message = kernel("add", "block", "disk");
        let start = Instant::now();
        let flood = std::thread::spawn(move || {
            let mut taken = 0u64;
            while start.elapsed() < Duration::from_millis(300) {
                taken += u64::from(tell(&to, &message));
            }
            taken
        });
        let until = now_ns() + 200_000_000;
        assert_eq!(events.wait(until), Came::Nothing);
        assert!(now_ns() >= until);
        let elapsed = start.elapsed();
        drop(events);
        let taken = flood.join().expect("ends");
        // What the socket itself holds comes on top.
        let most = (elapsed.as_nanos() as u64 / PAUSE_NS + 2) * BATCH as u64 + 4096;
        assert!(taken <= most, "{taken} of at most {most}");
    }

    #[test]
    fn a_source_that_broke_is_told() {
        let (events, to) = fake();
        drop(to);
        // An end of a pair without the other reads nothing for ever; a descriptor of another kind cannot be read so at all.
        let (file, _) = nix::unistd::pipe().expect("a pipe");
        drop(events);
        assert_eq!(Events(file).take(), Came::Broken);
    }
}
