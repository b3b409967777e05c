//! The datagram socket: bound to loopback, read in batches so that a flood costs little per packet.

use crate::protocol::datagram::{self, MAX_DATAGRAM, WireError};
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

// What an edit may place a stream may move, and no more.
const _: () = assert!(datagram::MAX_POSITION == crate::scene::model::MAX_POSITION);

/// Datagrams read with one system call.
const BATCH: usize = 64;
/// One byte more than allowed, so that a longer datagram shows.
const ROOM: usize = MAX_DATAGRAM + 1;

/// What happened to datagrams so far.
#[derive(Debug, Default)]
pub struct UdpCounters {
    /// Received.
    pub received: AtomicU64,
    /// Taken.
    pub taken: AtomicU64,
    /// Wrong length.
    pub length: AtomicU64,
    /// Wrong magic.
    pub magic: AtomicU64,
    /// Unserved version.
    pub version: AtomicU64,
    /// Unknown kind.
    pub kind: AtomicU64,
    /// Unknown flags or reserved bytes.
    pub reserved: AtomicU64,
    /// Unknown session.
    pub session: AtomicU64,
    /// Wrong MAC.
    pub mac: AtomicU64,
    /// A number that is not finite.
    pub non_finite: AtomicU64,
    /// A quaternion that is not of unit length.
    pub norm: AtomicU64,
    /// A position too far away.
    pub range: AtomicU64,
    /// Seen before.
    pub replay: AtomicU64,
    /// Too old to know.
    pub old: AtomicU64,
    /// Overtaken but taken.
    pub late: AtomicU64,
    /// Sequence numbers skipped.
    pub gaps: AtomicU64,
    /// Stream not opened.
    pub stream: AtomicU64,
    /// Poses of objects that the session may not move.
    pub strangers: AtomicU64,
    /// Sender clocks stepped.
    pub clock_steps: AtomicU64,
    /// Not from loopback.
    pub source: AtomicU64,
    /// State datagrams sent.
    pub sent: AtomicU64,
    /// State datagrams that the system refused.
    pub send_failed: AtomicU64,
}

impl UdpCounters {
    /// Counts a refused datagram.
    pub fn refuse(&self, e: WireError) {
        let counter = match e {
            WireError::Length => &self.length,
            WireError::Magic => &self.magic,
            WireError::Version => &self.version,
            WireError::Kind => &self.kind,
            WireError::Reserved => &self.reserved,
            WireError::Mac => &self.mac,
            WireError::NonFinite => &self.non_finite,
            WireError::Norm => &self.norm,
            WireError::Range => &self.range,
        };
        counter.fetch_add(1, Relaxed);
    }

    /// All counters by name.
    pub fn list(&self, out: &mut BTreeMap<String, u64>) {
        let all = [
            ("received", &self.received),
            ("taken", &self.taken),
            ("bad_length", &self.length),
            ("bad_magic", &self.magic),
            ("bad_version", &self.version),
            ("bad_kind", &self.kind),
            ("bad_reserved", &self.reserved),
            ("bad_session", &self.session),
            ("bad_mac", &self.mac),
            ("bad_number", &self.non_finite),
            ("bad_norm", &self.norm),
            ("bad_range", &self.range),
            ("replay", &self.replay),
            ("old", &self.old),
            ("late", &self.late),
            ("gaps", &self.gaps),
            ("no_stream", &self.stream),
            ("strangers", &self.strangers),
            ("clock_steps", &self.clock_steps),
            ("bad_source", &self.source),
            ("sent", &self.sent),
            ("send_failed", &self.send_failed),
        ];
        out.extend(all.map(|(n, c)| (format!("udp_{n}"), c.load(Relaxed))));
    }
}

/// Opens the socket on loopback.
///
/// # Errors
/// What the system says, with the port.
pub fn open(port: u16) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, port))
        .map_err(|e| io::Error::new(e.kind(), format!("cannot bind UDP 127.0.0.1:{port}: {e}")))?;
    socket.set_nonblocking(true)?;
    // A burst of some thousand datagrams survives while the bridge does something else.
    socket2::SockRef::from(&socket).set_recv_buffer_size(1 << 20)?;
    Ok(socket)
}

/// Buffers for batched reading.
pub struct Batch {
    bytes: Box<[[u8; ROOM]; BATCH]>,
    names: Box<[libc::sockaddr_in; BATCH]>,
    lengths: [usize; BATCH],
}

impl Default for Batch {
    fn default() -> Self {
        // SAFETY: all-zero is a valid sockaddr_in (plain integers).
        let name: libc::sockaddr_in = unsafe { std::mem::zeroed() };
        Self { bytes: Box::new([[0; ROOM]; BATCH]), names: Box::new([name; BATCH]), lengths: [0; BATCH] }
    }
}

impl Batch {
    /// Reads what waits, at most a batch, without blocking; returns how many.
    ///
    /// # Errors
    /// What the system says; "nothing waits" is 0, not an error.
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        let mut io: [libc::iovec; BATCH] = std::array::from_fn(|i| libc::iovec {
            iov_base: self.bytes[i].as_mut_ptr().cast(),
            iov_len: ROOM,
        });
        let mut messages: [libc::mmsghdr; BATCH] = std::array::from_fn(|i| {
            // SAFETY: an all-zero mmsghdr is valid (null pointers with zero lengths).
            let mut m: libc::mmsghdr = unsafe { std::mem::zeroed() };
            m.msg_hdr.msg_iov = &raw mut io[i];
            m.msg_hdr.msg_iovlen = 1;
            m.msg_hdr.msg_name = (&raw mut self.names[i]).cast();
            m.msg_hdr.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
            m
        });
        // SAFETY: every message points at buffers of ours that outlive the call and have the lengths given.
        let n = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                messages.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        let Ok(n) = usize::try_from(n) else {
            let e = io::Error::last_os_error();
            // An ICMP answer to a state datagram whose receiver is gone shows up here; it is not our socket's fault.
            let passing =
                [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted, io::ErrorKind::ConnectionRefused];
            return if passing.contains(&e.kind()) { Ok(0) } else { Err(e) };
        };
        for (length, m) in self.lengths.iter_mut().zip(&messages).take(n) {
            *length = (m.msg_len as usize).min(ROOM);
        }
        Ok(n)
    }

    /// Datagram `i` of the last batch and where it came from.
    pub fn get(&self, i: usize) -> (&[u8], SocketAddr) {
        let name = &self.names[i];
        let ip = Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr));
        (&self.bytes[i][..self.lengths[i]], SocketAddrV4::new(ip, u16::from_be(name.sin_port)).into())
    }

    /// Most datagrams in a batch.
    pub const fn capacity() -> usize {
        BATCH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_keep_bytes_lengths_and_senders() {
        let server = open(0).expect("binds");
        let to = server.local_addr().expect("an address");
        let clients: Vec<UdpSocket> =
            (0..3).map(|_| UdpSocket::bind("127.0.0.1:0").expect("binds")).collect();
        let mut batch = Batch::default();
        assert_eq!(batch.receive(&server).expect("nothing waits"), 0);
        for i in 0..100_usize {
            let text = vec![i as u8; i * 20];
            clients[i % 3].send_to(&text, to).expect("sends");
        }
        let mut seen = 0;
        loop {
            let n = batch.receive(&server).expect("reads");
            if n == 0 {
                break;
            }
            assert!(n <= Batch::capacity());
            for i in 0..n {
                let (bytes, from) = batch.get(i);
                // Loopback keeps the order.
                assert_eq!(bytes.len(), (seen * 20).min(ROOM), "datagram {seen}");
                assert!(bytes.iter().all(|b| usize::from(*b) == seen));
                assert_eq!(from, clients[seen % 3].local_addr().expect("an address"));
                seen += 1;
            }
        }
        assert_eq!(seen, 100);
    }
}
