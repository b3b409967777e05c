//! Lines and descriptors from a Unix stream socket.
//!
//! Descriptors arrive by `recvmsg` only (a plain read drops them). One belongs to the line that holds the last
//! byte of the chunk with which it came: a client sends its whole line in one `sendmsg` with the descriptor
//! attached and nothing behind the line.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::time::Instant;

/// Bytes asked for at a time.
const CHUNK: usize = 64 * 1024;
/// Descriptors taken from one message; the kernel closes what does not fit.
const MAX_FDS: usize = 8;

/// One request line.
#[derive(Debug)]
pub struct Line {
    /// The bytes without the line feed.
    pub bytes: Vec<u8>,
    /// The descriptor that came with it.
    pub descriptor: Option<OwnedFd>,
    /// More descriptors came than the one that is allowed; they have been closed.
    pub extra: bool,
}

/// Why there are no more lines.
#[derive(Debug)]
pub enum End {
    /// The peer closed.
    Closed,
    /// A line exceeded the limit.
    TooLong,
    /// A begun line was not finished in time.
    Slow,
    /// The system says.
    Io(io::Error),
}

struct Mark {
    /// Stream position of the byte whose line owns the descriptor.
    at: u64,
    fd: OwnedFd,
    extra: bool,
}

/// Splits a stream into lines.
pub struct Lines {
    stream: Arc<UnixStream>,
    buffer: Vec<u8>,
    /// Stream position of `buffer[0]`.
    base: u64,
    /// Bytes already searched for a line feed.
    searched: usize,
    marks: VecDeque<Mark>,
    limit: usize,
    patience: Duration,
    begun: Option<Instant>,
}

impl Lines {
    /// Lines of at most `limit` bytes, each finished within `patience` after it began.
    pub fn new(stream: Arc<UnixStream>, limit: usize, patience: Duration) -> Self {
        Self {
            stream,
            buffer: Vec::new(),
            base: 0,
            searched: 0,
            marks: VecDeque::new(),
            limit,
            patience,
            begun: None,
        }
    }

    /// The next line.
    ///
    /// # Errors
    /// [`End`]. Cancel safe: nothing read is lost.
    pub async fn next(&mut self) -> Result<Line, End> {
        loop {
            if let Some(line) = self.take_line() {
                return Ok(line);
            }
            if self.buffer.len() > self.limit {
                return Err(End::TooLong);
            }
            let ready = self.stream.readable();
            match self.begun {
                None => ready.await.map_err(End::Io)?,
                Some(t) => match tokio::time::timeout_at(t + self.patience, ready).await {
                    Ok(r) => r.map_err(End::Io)?,
                    Err(_) => return Err(End::Slow),
                },
            }
            match self.receive() {
                Ok(0) => return Err(End::Closed),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(End::Io(e)),
            }
        }
    }

    fn take_line(&mut self) -> Option<Line> {
        let found = self.buffer[self.searched..].iter().position(|b| *b == b'\n');
        let Some(at) = found.map(|p| p + self.searched) else {
            self.searched = self.buffer.len();
            if self.begun.is_none() && !self.buffer.is_empty() {
                self.begun = Some(Instant::now());
            }
            return None;
        };
        if at > self.limit {
            return None;
        }
        let rest = self.buffer.split_off(at + 1);
        let mut bytes = std::mem::replace(&mut self.buffer, rest);
        bytes.pop();
        let end = self.base + at as u64;
        self.base = end + 1;
        self.searched = 0;
        self.begun = None;
        let mut line = Line { bytes, descriptor: None, extra: false };
        while self.marks.front().is_some_and(|m| m.at <= end) {
            if let Some(m) = self.marks.pop_front() {
                line.extra |= m.extra || line.descriptor.is_some();
                line.descriptor.get_or_insert(m.fd);
            }
        }
        Some(line)
    }

    fn receive(&mut self) -> io::Result<usize> {
        let old = self.buffer.len();
        let want = CHUNK.min(self.limit + 1 + CHUNK - old.min(self.limit + 1));
        self.buffer.resize(old + want, 0);
        let fd = self.stream.as_raw_fd();
        let space = &mut self.buffer[old..];
        let got = self.stream.try_io(Interest::READABLE, || receive_once(fd, space));
        let (n, mut fds) = match got {
            Ok(x) => x,
            Err(e) => {
                self.buffer.truncate(old);
                return Err(e);
            }
        };
        self.buffer.truncate(old + n);
        if !fds.is_empty() && n > 0 {
            let extra = fds.len() > 1;
            let first = fds.swap_remove(0);
            // A peer that attaches a descriptor to every byte gets no more than this many kept open.
            if self.marks.len() < MAX_FDS {
                self.marks.push_back(Mark { at: self.base + (old + n) as u64 - 1, fd: first, extra });
            } else if let Some(last) = self.marks.back_mut() {
                last.extra = true;
            }
        }
        Ok(n)
    }
}

/// One `recvmsg`. Written out rather than taken from nix, whose iterator gives nothing when the control message was
/// truncated, although the descriptors that fitted are then installed already: a peer could fill our table.
fn receive_once(fd: RawFd, space: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    /// Aligned room for the control message of `MAX_FDS` descriptors.
    #[repr(align(8))]
    struct Control([u8; 64]);
    const { assert!(64 >= 16 + 4 * MAX_FDS) };
    let mut control = Control([0; 64]);
    let mut io = libc::iovec { iov_base: space.as_mut_ptr().cast(), iov_len: space.len() };
    // SAFETY: an all-zero msghdr is a valid one (null pointers with zero lengths).
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut io;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len();
    let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT;
    // SAFETY: `message` points at `space` and `control`, both alive and as long as said.
    let n = unsafe { libc::recvmsg(fd, &raw mut message, flags) };
    let n = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
    let mut fds = Vec::new();
    // SAFETY: the kernel has filled `control` and set msg_controllen to what it wrote; the CMSG macros stay inside.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !header.is_null() {
        // SAFETY: not null, so it points at a whole cmsghdr inside `control`.
        let h = unsafe { *header };
        if (h.cmsg_level, h.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            // SAFETY: data follow the header.
            let data = unsafe { libc::CMSG_DATA(header) }.cast::<RawFd>();
            let count = (h.cmsg_len - (data as usize - header as usize)) / size_of::<RawFd>();
            for i in 0..count {
                // SAFETY: the kernel wrote `count` descriptors there, has just installed them for us, and nobody
                // else knows them.
                fds.push(unsafe { OwnedFd::from_raw_fd(data.add(i).read_unaligned()) });
            }
        }
        // SAFETY: as for CMSG_FIRSTHDR.
        header = unsafe { libc::CMSG_NXTHDR(&raw const message, header) };
    }
    Ok((n, fds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
    use std::fs::File;
    use std::io::IoSlice;
    use std::os::unix::net::UnixStream as StdStream;

    fn pair(limit: usize) -> (StdStream, Lines) {
        let (a, b) = StdStream::pair().expect("a pair");
        b.set_nonblocking(true).expect("non-blocking");
        let b = UnixStream::from_std(b).expect("registers");
        (a, Lines::new(Arc::new(b), limit, Duration::from_secs(30)))
    }

    fn send(to: &StdStream, text: &[u8], files: &[&File]) {
        let fds: Vec<RawFd> = files.iter().map(|f| f.as_raw_fd()).collect();
        let rights = [ControlMessage::ScmRights(&fds)];
        let control: &[ControlMessage<'_>] = if fds.is_empty() { &[] } else { &rights };
        let n = sendmsg::<()>(to.as_raw_fd(), &[IoSlice::new(text)], control, MsgFlags::empty(), None);
        assert_eq!(n.expect("sends"), text.len());
    }

    fn open_fds() -> usize {
        std::fs::read_dir("/proc/self/fd").expect("proc").count()
    }

    fn numbered(n: u8) -> File {
        let mut f = tempfile::tempfile().expect("a file");
        io::Write::write_all(&mut f, &[n]).expect("writes");
        f
    }

    fn number(line: &Line) -> Option<u8> {
        let fd = line.descriptor.as_ref()?.try_clone().expect("clones");
        let mut b = [0];
        std::os::unix::fs::FileExt::read_exact_at(&File::from(fd), &mut b, 0).expect("reads");
        Some(b[0])
    }

    #[tokio::test]
    async fn a_descriptor_belongs_to_the_line_it_came_with() {
        let (a, mut lines) = pair(1000);
        let (f, g) = (numbered(1), numbered(2));
        send(&a, b"one\n", &[]);
        send(&a, b"two\n", &[&f]);
        send(&a, b"three\n", &[]);
        send(&a, b"four\n", &[&g]);
        let mut got = Vec::new();
        for _ in 0..4 {
            let l = lines.next().await.expect("a line");
            got.push((String::from_utf8(l.bytes.clone()).expect("text"), number(&l), l.extra));
        }
        let want = [("one", None), ("two", Some(1)), ("three", None), ("four", Some(2))];
        let want: Vec<_> = want.iter().map(|(t, n)| ((*t).to_owned(), *n, false)).collect();
        assert_eq!(got, want);
    }

    #[tokio::test]
    async fn extra_descriptors_are_closed_and_close_on_exec_is_set() {
        let (a, mut lines) = pair(1000);
        let f = numbered(9);
        // Other tests open files in this process too: only growth by what was sent here would be a leak.
        let before = open_fds();
        for _ in 0..50 {
            send(&a, b"x\n", &[&f; 30]);
            let l = lines.next().await.expect("a line");
            assert!(l.extra);
            assert_eq!(number(&l), Some(9));
            let fd = l.descriptor.expect("kept");
            let flags = nix::fcntl::fcntl(&fd, nix::fcntl::FcntlArg::F_GETFD).expect("flags");
            assert_ne!(flags & libc::FD_CLOEXEC, 0);
        }
        assert!(open_fds() < before + 50, "{} descriptors, {before} before 1500 were sent", open_fds());
    }

    #[tokio::test]
    async fn a_long_line_ends_the_stream() {
        let (a, mut lines) = pair(100);
        send(&a, &[b'x'; 100], &[]);
        send(&a, b"\n", &[]);
        assert_eq!(lines.next().await.expect("fits").bytes.len(), 100);
        send(&a, &[b'x'; 101], &[]);
        send(&a, b"\n", &[]);
        assert!(matches!(lines.next().await, Err(End::TooLong)));
    }

    #[tokio::test]
    async fn a_half_sent_line_is_not_waited_for_for_ever() {
        let (a, mut lines) = pair(100);
        lines.patience = Duration::from_millis(20);
        send(&a, b"hal", &[]);
        assert!(matches!(lines.next().await, Err(End::Slow)));
        drop(a);
    }

    #[tokio::test]
    async fn the_end_is_seen() {
        let (a, mut lines) = pair(100);
        send(&a, b"last\nhalf", &[]);
        drop(a);
        assert_eq!(lines.next().await.expect("a line").bytes, b"last");
        assert!(matches!(lines.next().await, Err(End::Closed)));
    }
}
