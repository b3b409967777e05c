//! A blocking client for Rust programs: requests over the socket, poses and state over UDP.
//!
//! ```no_run
//! use hapticd::control::client::Client;
//! use serde_json::json;
//! let mut c = Client::connect(None, "my program", None)?;
//! c.call("material.set", json!({"name": "wood", "stiffness": 800.0}))?;
//! let mesh = std::fs::File::open("bunny.ply")?;
//! let load = json!({"name": "bunny", "source": "descriptor", "format": "ply", "unit": "m"});
//! c.call_with_file("mesh.load", load, &mesh)?;
//! # Ok::<(), hapticd::control::client::ClientError>(())
//! ```

use super::socket::candidates;
use crate::protocol::datagram::{Datagram, KEY, Kind, MAX_DATAGRAM, MotionPose, Sender};
use crate::protocol::messages::{Hello, Role, Welcome};
use crate::protocol::rpc::{Id, Notification, Request, Response, RpcError, TwoPointZero};
use crate::protocol::telemetry::State;
use crate::servo::handle::monotonic_ns;
use serde_json::Value;
use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest line that a client reads, bytes.
const MAX_LINE: usize = 64 << 20;
/// Longest silence of a daemon, pings included, before it counts as hung; see [`Client::set_patience`].
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Notifications kept while an answer is waited for; the oldest go first.
const MAX_NOTES: usize = 1024;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No daemon was found.
    #[error("no hapticd answers: {0}")]
    NoDaemon(String),
    /// The daemon said no.
    #[error("{}{}", .0.message, place(.0))]
    Refused(RpcError),
    /// The daemon is there and says nothing.
    #[error(
        "hapticd at {path} has not answered for {seconds} s: it is stopped, hung or overloaded; see its log, and \
         `hapticd zero` when a device may be pushing"
    )]
    Silent {
        /// Its socket.
        path: String,
        /// How long.
        seconds: f64,
    },
    /// The connection failed.
    #[error("the connection to hapticd failed: {0}")]
    Io(#[from] io::Error),
    /// The daemon answered with something else.
    #[error("hapticd answered with something unexpected: {0}")]
    Strange(String),
}

fn place(e: &RpcError) -> String {
    // Most messages begin with it.
    let field = e.data.as_ref().and_then(|d| d.field.as_deref()).filter(|f| !e.message.contains(&**f));
    field.map(|f| format!(" ({f})")).unwrap_or_default()
}

/// A session with a daemon.
pub struct Client {
    stream: UnixStream,
    path: PathBuf,
    welcome: Welcome,
    buffer: Vec<u8>,
    next: u64,
    notes: VecDeque<Notification>,
    patience: Option<Duration>,
}

impl Client {
    /// Connects to the daemon at `path`, or at the standard places in turn, and says hello.
    ///
    /// # Errors
    /// [`ClientError`]; `NoDaemon` names what was tried.
    pub fn connect(path: Option<&Path>, name: &str, role: Option<Role>) -> Result<Self, ClientError> {
        Self::resume(path, name, role, None)
    }

    /// As [`connect`](Self::connect), taking up the session of that token if it still stands.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub fn resume(
        path: Option<&Path>,
        name: &str,
        role: Option<Role>,
        token: Option<&str>,
    ) -> Result<Self, ClientError> {
        Self::connect_within(path, name, role, token, Some(PATIENCE))
    }

    /// As [`resume`](Self::resume), with another patience than [`PATIENCE`]; `None` waits for ever.
    ///
    /// # Errors
    /// As [`connect`](Self::connect); `Silent` when something is there that does not answer.
    pub fn connect_within(
        path: Option<&Path>,
        name: &str,
        role: Option<Role>,
        token: Option<&str>,
        patience: Option<Duration>,
    ) -> Result<Self, ClientError> {
        let places = path.map_or_else(candidates, |p| vec![p.to_path_buf()]);
        let (mut tried, mut refused) = (Vec::new(), false);
        for place in places {
            let mut stream = match open(&place, patience) {
                Ok(s) => s,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Err(silent(&place, patience)),
                Err(e) => {
                    refused |= e.kind() == io::ErrorKind::PermissionDenied;
                    tried.push(format!("{}: {e}", place.display()));
                    continue;
                }
            };
            let hello = Hello { min: 1, max: 1, client: name.into(), token: token.map(str::to_owned), role };
            let mut buffer = Vec::new();
            let said = send(&mut stream, 0, "hello", serde_json::to_value(&hello).unwrap_or_default(), None);
            let until = patience.map(|p| Instant::now() + p);
            if let Err(e) = said {
                // Refused before it could speak: the reason may lie there to be read.
                let line = read_line(&mut stream, &mut buffer, until).ok().flatten();
                return Err(line.and_then(|l| take(parse(&l).ok()?).err()).unwrap_or(e));
            }
            let line = read_line(&mut stream, &mut buffer, until)?.ok_or_else(|| silent(&place, patience))?;
            let answer: Response = parse(&line)?;
            let welcome = serde_json::from_value(take(answer)?).map_err(strange)?;
            let notes = VecDeque::new();
            return Ok(Self { stream, path: place, welcome, buffer, next: 1, notes, patience });
        }
        let cure = if refused {
            "join the socket's group: sudo usermod -aG GROUP USER (hapticd, where the service was installed as \
             described), then log in again"
        } else {
            "start one with `hapticd run`"
        };
        Err(ClientError::NoDaemon(format!("{}; {cure}", tried.join("; "))))
    }

    /// How long the daemon may be silent while an answer is waited for; `None` = for ever. Half of it without any line, and
    /// it is pinged; a daemon that is alive answers that beside the longest build.
    pub fn set_patience(&mut self, patience: Option<Duration>) {
        self.patience = patience;
    }

    /// What the daemon said to the hello.
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// The socket that answered.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sends a request and waits for its answer; notifications that come meanwhile are kept.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn call(&mut self, method: &str, params: Value) -> Result<Value, ClientError> {
        let id = self.start(method, params, None)?;
        self.finish(id)
    }

    /// As [`call`](Self::call), passing an open file along.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn call_with_file(
        &mut self,
        method: &str,
        params: Value,
        file: &impl AsRawFd,
    ) -> Result<Value, ClientError> {
        let id = self.start(method, params, Some(file.as_raw_fd()))?;
        self.finish(id)
    }

    /// Sends a request without waiting; its number goes to [`finish`](Self::finish).
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn start(&mut self, method: &str, params: Value, fd: Option<i32>) -> Result<u64, ClientError> {
        let id = self.next;
        self.next += 1;
        send(&mut self.stream, id, method, params, fd).map_err(|e| match e {
            ClientError::Io(e) if e.kind() == io::ErrorKind::WouldBlock => silent(&self.path, self.patience),
            other => other,
        })?;
        Ok(id)
    }

    /// Waits for the answer to a request; answers to earlier ones are dropped.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn finish(&mut self, id: u64) -> Result<Value, ClientError> {
        let mut pinged = false;
        loop {
            let until = self.patience.map(|p| Instant::now() + p / 2);
            let Some(line) = read_line(&mut self.stream, &mut self.buffer, until)? else {
                if pinged {
                    return Err(silent(&self.path, self.patience));
                }
                self.start("ping", serde_json::json!({}), None)?;
                pinged = true;
                continue;
            };
            pinged = false;
            if let Some(answer) = self.sort(&line)?
                && (answer.id == Some(Id::Number(id)) || answer.id.is_none())
            {
                return take(answer);
            }
        }
    }

    /// An answer, or nothing when it was a notification, which is kept.
    fn sort(&mut self, line: &[u8]) -> Result<Option<Response>, ClientError> {
        let value: Value = parse(line)?;
        if value.get("method").is_none() {
            return serde_json::from_value(value).map(Some).map_err(strange);
        }
        if self.notes.len() >= MAX_NOTES {
            self.notes.pop_front();
        }
        self.notes.push_back(serde_json::from_value(value).map_err(strange)?);
        Ok(None)
    }

    /// The next notification, waiting at most `patience` for it.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn note(&mut self, patience: Duration) -> Result<Option<Notification>, ClientError> {
        let until = Instant::now() + patience;
        while self.notes.is_empty() {
            match read_line(&mut self.stream, &mut self.buffer, Some(until))? {
                Some(line) => drop(self.sort(&line)?),
                None => return Ok(None),
            }
        }
        Ok(self.notes.pop_front())
    }

    /// The datagram plane of this session.
    ///
    /// # Errors
    /// The daemon has none, or no socket.
    pub fn datagrams(&self) -> Result<Datagrams, ClientError> {
        let none = || ClientError::Strange("this daemon serves no datagrams".into());
        let udp = self.welcome.udp.as_ref().ok_or_else(none)?;
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect((udp.address.as_str(), udp.port))?;
        let key = unhex(&udp.key).ok_or_else(|| ClientError::Strange("the key is no key".into()))?;
        Ok(Datagrams { socket, key, session: self.welcome.session, seqs: [0; 17], attach: 0 })
    }
}

/// Sends poses and receives state. Real-time friendly: no allocation; sending is one system call, receiving
/// two for each datagram that comes.
pub struct Datagrams {
    socket: UdpSocket,
    key: [u8; KEY],
    session: u64,
    seqs: [u32; 17],
    attach: u32,
}

impl Datagrams {
    /// Sends poses that hold now on a stream from `motion.open`.
    ///
    /// # Errors
    /// What the system says; `InvalidInput` for a wrong number of poses or an unknown stream.
    pub fn send(&mut self, stream: u16, poses: &[MotionPose]) -> io::Result<()> {
        let now = monotonic_ns();
        self.send_at(stream, now, poses)
    }

    /// Sends poses that held at `time_ns` of this machine's monotonic clock.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_at(&mut self, stream: u16, time_ns: u64, poses: &[MotionPose]) -> io::Result<()> {
        let wrong = || io::Error::from(io::ErrorKind::InvalidInput);
        let seq = self.seqs.get_mut(usize::from(stream)).ok_or_else(wrong)?;
        let mut out = [0; MAX_DATAGRAM];
        let sender = Sender { session: self.session, key: &self.key, stream };
        let n = sender.motion(*seq, time_ns, poses, &mut out).ok_or_else(wrong)?;
        *seq = seq.wrapping_add(1);
        self.socket.send(&out[..n]).map(drop)
    }

    /// Asks for the state stream to come to this socket (its rate is set by `state_stream`). Repeat it when nothing
    /// comes: datagrams may be lost.
    ///
    /// # Errors
    /// What the system says.
    pub fn attach(&mut self) -> io::Result<()> {
        let mut out = [0; MAX_DATAGRAM];
        let sender = Sender { session: self.session, key: &self.key, stream: 0 };
        let n = sender.attach(self.attach, monotonic_ns(), &mut out);
        self.attach = self.attach.wrapping_add(1);
        self.socket.send(&out[..n]).map(drop)
    }

    /// The next valid state datagram, waiting at most `patience`.
    ///
    /// # Errors
    /// What the system says.
    pub fn state(&self, patience: Duration) -> io::Result<Option<State>> {
        Ok(self.state_of(patience)?.map(|(_, state)| state))
    }

    /// The same with the number of the device that it is about: its place in the `devices` of `status`, from 0.
    ///
    /// # Errors
    /// What the system says.
    pub fn state_of(&self, patience: Duration) -> io::Result<Option<(u16, State)>> {
        let until = Instant::now() + patience;
        let mut bytes = [0; MAX_DATAGRAM + 1];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.socket.set_read_timeout(Some(left))?;
            let n = match self.socket.recv(&mut bytes) {
                Ok(n) => n,
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return Ok(None);
                }
                Err(e) => return Err(e),
            };
            let Ok(d) = Datagram::parse(&bytes[..n]) else { continue };
            if d.header.kind == Kind::State
                && d.header.session == self.session
                && d.verify(&self.key).is_ok()
                && let Ok(state) = d.state()
            {
                return Ok(Some((d.header.stream, state)));
            }
        }
    }
}

fn silent(path: &Path, patience: Option<Duration>) -> ClientError {
    let seconds = patience.unwrap_or_default().as_secs_f64();
    ClientError::Silent { path: path.display().to_string(), seconds }
}

/// Connects; a daemon that takes no connections (its queue is full) is waited for no longer than `patience`, which holds
/// for what is sent later, too. `WouldBlock` says that it was over.
fn open(path: &Path, patience: Option<Duration>) -> io::Result<UnixStream> {
    use nix::sys::socket::{
        AddressFamily, SockFlag, SockType, UnixAddr, connect, setsockopt, socket, sockopt::SendTimeout,
    };
    let fd = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    if let Some(p) = patience {
        // Zero would mean for ever.
        let us = i64::try_from(p.as_micros()).unwrap_or(i64::MAX).max(1);
        let time = nix::sys::time::TimeVal::new(us / 1_000_000, us % 1_000_000);
        setsockopt(&fd, SendTimeout, &time)?;
    }
    connect(fd.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(UnixStream::from(fd))
}

fn send(
    stream: &mut UnixStream,
    id: u64,
    method: &str,
    params: Value,
    fd: Option<i32>,
) -> Result<(), ClientError> {
    let request = Request { jsonrpc: TwoPointZero, id: Some(Id::Number(id)), method: method.into(), params };
    let mut line = serde_json::to_vec(&request).map_err(strange)?;
    line.push(b'\n');
    let Some(fd) = fd else { return Ok(stream.write_all(&line)?) };
    // The descriptor travels with the first bytes; the rest of a long line follows.
    use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
    let fds = [fd];
    let rights = [ControlMessage::ScmRights(&fds)];
    let n = sendmsg::<()>(stream.as_raw_fd(), &[IoSlice::new(&line)], &rights, MsgFlags::MSG_NOSIGNAL, None)
        .map_err(io::Error::from)?;
    Ok(stream.write_all(&line[n..])?)
}

/// A line without its line feed; `None` once `until` has passed.
fn read_line(
    stream: &mut UnixStream,
    buffer: &mut Vec<u8>,
    until: Option<Instant>,
) -> Result<Option<Vec<u8>>, ClientError> {
    let mut searched = 0;
    let mut chunk = [0; 16 * 1024];
    loop {
        if let Some(at) = buffer[searched..].iter().position(|b| *b == b'\n') {
            let rest = buffer.split_off(searched + at + 1);
            let mut line = std::mem::replace(buffer, rest);
            line.pop();
            return Ok(Some(line));
        }
        searched = buffer.len();
        if searched > MAX_LINE {
            return Err(ClientError::Strange(format!("a line of more than {MAX_LINE} bytes")));
        }
        let left = until.map(|u| u.saturating_duration_since(Instant::now()));
        if left.is_some_and(|l| l.is_zero()) {
            return Ok(None);
        }
        stream.set_read_timeout(left)?;
        match stream.read(&mut chunk) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(n) => buffer.extend_from_slice(&chunk[..n]),
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Ok(None);
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e.into()),
        }
    }
}

fn parse<T: serde::de::DeserializeOwned>(line: &[u8]) -> Result<T, ClientError> {
    serde_json::from_slice(line).map_err(strange)
}

fn strange(e: impl std::fmt::Display) -> ClientError {
    ClientError::Strange(e.to_string())
}

fn take(answer: Response) -> Result<Value, ClientError> {
    match (answer.result, answer.error) {
        (_, Some(e)) => Err(ClientError::Refused(e)),
        (Some(v), None) => Ok(v),
        (None, None) => Ok(Value::Null),
    }
}

fn unhex(text: &str) -> Option<[u8; KEY]> {
    let mut key = [0; KEY];
    if text.len() != 2 * KEY || !text.is_ascii() {
        return None;
    }
    for (i, k) in key.iter_mut().enumerate() {
        *k = u8::from_str_radix(text.get(2 * i..2 * i + 2)?, 16).ok()?;
    }
    Some(key)
}
