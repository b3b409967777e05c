//! The socket server: of each connection a task, a writer, a queue of edits, and a lane to each device.

mod edits;
mod lanes;
mod linger;
mod methods;

use super::bridge::{Bridge, Request};
use super::lines::{End, Line, Lines};
use super::lobby::{Lobby, Place};
use super::outbox::Outbox;
use super::peer::{Peer, Policy};
use super::recorder::Recordings;
use super::scene::SceneService;
use super::session::{Applicant, Session, Sessions};
use super::status::StatusBoard;
use crate::protocol::messages::{Hello, Role, UdpInfo, Welcome};
use crate::protocol::rpc::{Id, Response, RpcError, arguments, codes, parse_request};
use crate::protocol::{VERSION, negotiate};
use lanes::{Busy, Lanes};
use methods::Caller;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

/// A line that has begun must end within this time.
const LINE_PATIENCE: Duration = Duration::from_secs(10);
/// A client that does not take what it asked for is closed after this time.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);
/// Time between two looks whether a client that sends nothing more still reads.
const GONE_LOOK: Duration = Duration::from_millis(50);
/// What a connection reads whose place another got.
const TOO_MANY: &str = "too many connections have not said hello; of yours this one waited longest: say hello at once, and \
                        close connections that are not used";
/// Edits of one connection that may wait.
const EDIT_QUEUE: usize = 64;
/// Refused requests in a row after which a connection that ignores its rate is closed.
const MAX_EXCESS: u32 = 10_000;

pub use lanes::Gates;

/// Limits of the server.
#[derive(Clone, Debug)]
pub struct IpcOptions {
    /// Sessions at a time.
    pub sessions: usize,
    /// Longest line, bytes.
    pub line_bytes: usize,
    /// Time to say hello.
    pub hello: Duration,
    /// Requests a second.
    pub requests_per_s: u32,
    /// Longest lease that a client may name.
    pub lease: Duration,
    /// Time to resume a session.
    pub resume: Duration,
    /// Time over which a dead session's objects fade.
    pub fade: Duration,
    /// Fastest state stream, Hz.
    pub state_hz: f64,
    /// Default lease of a motion stream.
    pub motion_timeout: Duration,
    /// Takes hidden requests that provoke faults, for tests of this program.
    pub debug: bool,
}

/// Counters of the server.
#[derive(Debug, Default)]
pub struct IpcCounters {
    /// Connections accepted.
    pub connections: AtomicU64,
    /// Connections refused or closed for their behaviour: too many, silent, oversize, too fast.
    pub closed: AtomicU64,
    /// Requests answered.
    pub requests: AtomicU64,
    /// Requests answered with an error.
    pub errors: AtomicU64,
}

/// Everything that requests need.
pub struct Server {
    /// Limits.
    pub options: IpcOptions,
    /// Who may do what.
    pub policy: Policy,
    /// All sessions.
    pub sessions: Arc<Sessions>,
    /// The servo.
    pub bridge: Bridge,
    /// The scene.
    pub scene: Arc<SceneService>,
    /// Where datagrams go.
    pub udp: SocketAddr,
    /// What `status` says besides.
    pub board: Arc<StatusBoard>,
    /// Recordings by device.
    pub recordings: Vec<Arc<Recordings>>,
    /// Counters.
    pub counters: Arc<IpcCounters>,
    /// Where arming and taking the force away meet.
    pub gates: Gates,
    /// Builds at a time; light edits pass by.
    pub builds: Semaphore,
    /// Connections that have not said hello.
    pub lobby: Arc<Lobby>,
    /// Ends the daemon.
    pub shutdown: Box<dyn Fn() + Send + Sync>,
}

/// Accepts connections for ever.
pub async fn serve(server: Arc<Server>, listener: UnixListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                server.counters.connections.fetch_add(1, Relaxed);
                let Ok(peer) = Peer::of(&stream) else { continue };
                // Here, in the order of arrival: who comes first has waited longest.
                let place = server.lobby.enter(peer.uid, peer.pid);
                let server = server.clone();
                tokio::spawn(async move { converse(&server, stream, peer, place).await });
            }
            // Out of descriptors, most likely: wait for some to close.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn converse(server: &Arc<Server>, stream: UnixStream, peer: Peer, mut place: Place) {
    let stream = Arc::new(stream);
    let outbox = Arc::new(Outbox::quiet());
    let writer = tokio::spawn(write(stream.clone(), outbox.clone()));
    let mut lines = Lines::new(stream.clone(), server.options.line_bytes, LINE_PATIENCE);

    let patience = server.options.hello;
    let first = tokio::select! {
        // Whoever has spoken is heard, though the place has just gone to another.
        biased;
        greeted = tokio::time::timeout(patience, greet(server, &peer, &mut lines, &outbox)) => {
            greeted.map_err(|_| RpcError::new(codes::NO_HELLO, format!("no hello within {} s", patience.as_secs_f64())))
        }
        () = place.given_away() => Err(RpcError::new(codes::LIMIT, TOO_MANY)),
    };
    drop(place);
    match first {
        Ok(Some(session)) => {
            let mut connection = Connection::new(server.clone(), session, outbox.clone());
            if let Some(End::Closed) = connection.talk(&mut lines).await {
                connection.finish(&stream).await;
            }
            connection.end();
        }
        Ok(None) => drop(server.counters.closed.fetch_add(1, Relaxed)),
        Err(e) => {
            server.counters.closed.fetch_add(1, Relaxed);
            outbox.answer(&Response::err(None, e.generation(server.scene.generation())));
        }
    }
    outbox.close();
    let _ = writer.await;
}

async fn write(stream: Arc<UnixStream>, outbox: Arc<Outbox>) {
    while let Some(bytes) = outbox.next().await {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            match tokio::time::timeout(WRITE_PATIENCE, stream.writable()).await {
                Ok(Ok(())) => {}
                _ => return outbox.close(),
            }
            match stream.try_write(rest) {
                Ok(n) => rest = &rest[n..],
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return outbox.close(),
            }
        }
    }
}

/// Waits for a valid `hello`. Anything else is answered and ends the connection.
async fn greet(
    server: &Arc<Server>,
    peer: &Peer,
    lines: &mut Lines,
    outbox: &Arc<Outbox>,
) -> Option<Arc<Session>> {
    let line = match lines.next().await {
        Ok(line) => line,
        Err(end) => {
            complain(&end, server, outbox);
            return None;
        }
    };
    let (id, answer) = match parse_request(&line.bytes) {
        Err((id, e)) => (id, Err(e)),
        Ok(r) if r.method != "hello" => {
            (r.id, Err(RpcError::new(codes::NO_HELLO, "the first request of a connection is hello")))
        }
        Ok(r) => {
            let hello = arguments::<Hello>(r.params);
            (r.id, hello.and_then(|h| admit(server, peer, &h, outbox)))
        }
    };
    match answer {
        Ok((session, welcome)) => {
            outbox.answer(&Response::ok(id, serde_json::to_value(&welcome).unwrap_or_default()));
            Some(session)
        }
        Err(e) => {
            outbox.answer(&Response::err(id, e.or_generation(|| server.scene.generation())));
            None
        }
    }
}

fn admit(
    server: &Arc<Server>,
    peer: &Peer,
    hello: &Hello,
    outbox: &Arc<Outbox>,
) -> Result<(Arc<Session>, Welcome), RpcError> {
    let Some(major) = negotiate(hello.min, hello.max) else {
        let text = format!(
            "this daemon speaks protocol {} to {}, the client {} to {}",
            crate::protocol::OLDEST_MAJOR,
            VERSION.major,
            hello.min,
            hello.max
        );
        return Err(RpcError::new(codes::VERSION, text).field("min"));
    };
    if hello.client.is_empty() || hello.client.len() > 64 || hello.client.chars().any(char::is_control) {
        let text = "a client's name has 1 to 64 bytes and no control characters";
        return Err(RpcError::new(codes::INVALID_PARAMS, text).field("client"));
    }
    let most = server.policy.role(peer);
    let role = hello.role.map_or(most, |r| r.min(most));
    let applicant = Applicant {
        peer,
        client: &hello.client,
        role,
        token: hello.token.as_deref(),
        outbox: outbox.clone(),
    };
    let (session, resumed) = server
        .sessions
        .admit(applicant, server.options.sessions)
        .map_err(|e| RpcError::new(codes::LIMIT, e.to_string()))?;
    server.bridge.send(Request::Open(session.clone()));
    if resumed {
        tokio::spawn(linger::rest(server.clone(), session.clone()));
    }
    let welcome = Welcome {
        version: crate::protocol::Version { major, minor: VERSION.minor },
        server: env!("CARGO_PKG_VERSION").into(),
        session: session.id,
        token: session.token().into(),
        resumed,
        role,
        udp: Some(UdpInfo {
            address: server.udp.ip().to_string(),
            port: server.udp.port(),
            key: super::session::hex(&session.key()),
        }),
        generation: server.scene.generation(),
        linger_s: server.options.resume.as_secs_f64(),
    };
    Ok((session, welcome))
}

fn complain(end: &End, server: &Server, outbox: &Outbox) {
    let text = match end {
        End::Closed | End::Io(_) => return,
        End::TooLong => format!("a line has at most {} bytes", server.options.line_bytes),
        End::Slow => format!("a line must end within {} s of its beginning", LINE_PATIENCE.as_secs()),
    };
    server.counters.closed.fetch_add(1, Relaxed);
    let e = RpcError::new(codes::LIMIT, text).generation(server.scene.generation());
    outbox.answer(&Response::err(None, e));
}

/// A connection that has said hello.
struct Connection {
    caller: Caller,
    lanes: Lanes,
    /// `None` once no more come.
    edits: Option<mpsc::Sender<edits::Job>>,
    worker: tokio::task::JoinHandle<()>,
    /// Held by everything that has not ended yet; `None` once nothing further begins.
    busy: Option<Busy>,
    idle: mpsc::Receiver<()>,
    tokens: f64,
    filled: Instant,
    excess: u32,
}

impl Connection {
    fn new(server: Arc<Server>, session: Arc<Session>, outbox: Arc<Outbox>) -> Self {
        let (edits, jobs) = mpsc::channel(EDIT_QUEUE);
        let (busy, idle) = mpsc::channel(1);
        let caller = Caller { server, session, outbox, running: edits::Running::default() };
        let worker = tokio::spawn(edits::work(caller.clone(), jobs, busy.clone()));
        let lanes = Lanes::new(&caller, caller.server.board.roles().len(), &busy);
        let tokens = f64::from(caller.server.options.requests_per_s);
        let (edits, busy) = (Some(edits), Some(busy));
        Self { caller, lanes, edits, worker, busy, idle, tokens, filled: Instant::now(), excess: 0 }
    }

    /// Answers requests until the connection or the client's patience ends; how its input ended.
    async fn talk(&mut self, lines: &mut Lines) -> Option<End> {
        let closed = self.caller.outbox.clone();
        loop {
            let line = tokio::select! {
                line = lines.next() => line,
                () = closed.closed() => return None,
            };
            match line {
                Ok(line) => {
                    self.caller.session.heard();
                    self.line(line).await;
                    if self.excess > MAX_EXCESS {
                        self.caller.server.counters.closed.fetch_add(1, Relaxed);
                        return None;
                    }
                }
                Err(end) => {
                    complain(&end, &self.caller.server, &self.caller.outbox);
                    return Some(end);
                }
            }
        }
    }

    /// The client's input has ended. One that still reads (it has shut down its sending side only) gets the requests that
    /// wait done and answered; of one that has gone the rest is dropped. Neither can hold the force any more.
    async fn finish(&mut self, stream: &UnixStream) {
        if has_gone(stream) {
            return;
        }
        self.lanes.void(&self.caller.server.gates);
        self.caller.server.bridge.let_go(self.caller.session.id);
        (self.edits, self.busy) = (None, None);
        self.lanes.close();
        // Ends when nobody is busy any more.
        while tokio::time::timeout(GONE_LOOK, self.idle.recv()).await.is_err() {
            if has_gone(stream) || self.caller.outbox.is_closed() {
                return self.caller.outbox.close();
            }
        }
    }

    /// A full bucket is one second of requests.
    fn within_rate(&mut self) -> bool {
        let rate = f64::from(self.caller.server.options.requests_per_s);
        let now = Instant::now();
        self.tokens = (self.tokens + rate * (now - self.filled).as_secs_f64()).min(rate);
        self.filled = now;
        let ok = self.tokens >= 1.0;
        if ok {
            self.tokens -= 1.0;
            self.excess = 0;
        } else {
            self.excess += 1;
        }
        ok
    }

    async fn line(&mut self, line: Line) {
        let within = self.within_rate();
        let request = match parse_request(&line.bytes) {
            Ok(r) => r,
            Err((id, e)) => return self.answer(Some(id), Err(e)),
        };
        // A notification gets no answer, but is carried out.
        let id = request.id.clone().map(Some);
        // Taking the force away is never refused for haste.
        if !within && request.method != "disarm" {
            let text = format!("more than {} requests a second", self.caller.server.options.requests_per_s);
            return self.answer(id, Err(RpcError::new(codes::LIMIT, text)));
        }
        if line.extra {
            let text = "more than one descriptor came with this request; all have been closed";
            return self.answer(id, Err(RpcError::new(codes::DESCRIPTOR, text)));
        }
        if edits::is_edit(&request.method) {
            let queued = edits::job(request, line.descriptor, self.caller.session.role());
            let queued = queued
                .and_then(|j| j.may_place(&self.caller.server, &self.caller.session).map(|()| j))
                .and_then(|j| {
                    self.edits.as_ref().map_or(Ok(()), |e| e.try_send(j).map_err(|_| edits::queue_full()))
                });
            if let Err(e) = queued {
                self.answer(id, Err(e));
            }
            return;
        }
        if request.method == "disarm" {
            match (self.caller.disarm(request.params, &self.lanes), &self.busy) {
                (Ok(begun), Some(busy)) => self.lanes.disarmed(&self.caller, id, begun, busy).await,
                (Ok(_), None) => {}
                (Err(e), _) => self.answer(id, Err(e)),
            }
            return;
        }
        if let Some(device) = self.caller.lane(&request.method, &request.params) {
            let taken = self.lanes.take(&self.caller, device, id.clone(), request.method, request.params);
            if let Err(e) = taken {
                self.answer(id, Err(e));
            }
            return;
        }
        let result = self.caller.call(&request.method, request.params, None).await;
        let end = request.method == "shutdown" && result.is_ok();
        self.answer(id, result);
        if end {
            (self.caller.server.shutdown)();
        }
    }

    fn answer(&self, id: Option<Option<Id>>, result: Result<serde_json::Value, RpcError>) {
        answer(&self.caller.server, &self.caller.outbox, id, result);
    }

    /// The connection has ended. The session waits to be resumed, then its objects fade.
    fn end(self) {
        let Self { caller, lanes, edits, worker, .. } = self;
        caller.running.cancel_all();
        lanes.void(&caller.server.gates);
        drop(lanes);
        let Caller { server, session, outbox, .. } = caller;
        if !server.sessions.disconnect(&session, &outbox) {
            return;
        }
        server.bridge.send(Request::Close(session.id));
        drop(edits);
        tokio::spawn(async move {
            // The edit under way may still create something.
            let _ = worker.await;
            linger::linger(server, session).await;
        });
    }
}

/// True when the other end is closed, not only its sending side.
fn has_gone(stream: &UnixStream) -> bool {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let mut fds = [PollFd::new(stream.as_fd(), PollFlags::empty())];
    let polled = poll(&mut fds, PollTimeout::ZERO);
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    polled.is_err() || fds[0].revents().is_none_or(|r| r.intersects(gone))
}

fn answer(
    server: &Server,
    outbox: &Outbox,
    id: Option<Option<Id>>,
    result: Result<serde_json::Value, RpcError>,
) {
    server.counters.requests.fetch_add(1, Relaxed);
    if result.is_err() {
        server.counters.errors.fetch_add(1, Relaxed);
    }
    let Some(id) = id else { return };
    outbox.answer(&match result {
        Ok(v) => Response::ok(id, v),
        Err(e) => Response::err(id, e.or_generation(|| server.scene.generation())),
    });
}

/// A role is needed.
fn need(role: Role, least: Role, method: &str) -> Result<(), RpcError> {
    if role >= least {
        return Ok(());
    }
    let who = match least {
        Role::Admin => "an admin (control.admins)",
        _ => "an owner (control.owners)",
    };
    let text = format!("{method} needs {who}; this session is {}", role_name(role));
    Err(RpcError::new(codes::FORBIDDEN, text))
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Observer => "an observer",
        Role::Owner => "an owner",
        Role::Admin => "an admin",
    }
}
