//! The one thread that owns the servos' handles: publishes scenes and motion, sends commands, keeps the owners'
//! leases alive, drains telemetry, serves datagrams.
//!
//! Everything else asks it by messages. Each round of its loop does a bounded amount of work, so that no flood on
//! one side starves another.

pub mod arming;
mod datagrams;
mod telemetry;
#[cfg(test)]
mod tests;
mod unit;

use super::cpu::Cpus;
use super::motion::{MAX_STREAMS, MotionTable, Moving};
use super::outbox::Outbox;
use super::scene::Publish;
use super::session::{Session, Sessions};
use super::udp::{Batch, UdpCounters};
use crate::protocol::messages::{LimitsNow, MotionOpened};
use crate::protocol::rpc::{RpcError, codes};
use crate::scene::snapshot::Snapshot;
use crate::servo::handle::{ServoCommand, ServoHandle, monotonic_ns};
use crate::servo::record::TickRecord;
use crossbeam::channel::{Receiver, Sender, bounded};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
pub(super) use unit::refusal;
use unit::{Unit, Waiting};

/// Requests that may wait.
const QUEUE: usize = 4096;
/// Requests taken in one round.
const REQUESTS_A_ROUND: usize = 256;
/// Batches of datagrams taken in one round: at 64 each, some 500 µs of work at most.
const BATCHES_A_ROUND: usize = 8;
/// Longest sleep between rounds.
const ROUND: Duration = Duration::from_millis(2);

/// Answer to a request.
pub type Reply<T> = oneshot::Sender<Result<T, RpcError>>;

/// What the bridge is asked.
pub enum Request {
    /// The servo of that device has started; what the device bears, N, N·m, m/s.
    Attach(usize, Box<ServoHandle>, [f64; 3]),
    /// The servo of that device ended; its handle is dropped.
    Detach(usize),
    /// A new scene: a snapshot for each device.
    Publish(Vec<Snapshot>, Vec<Moving>),
    /// A session opened or was resumed.
    Open(Arc<Session>),
    /// A session's connection ended: its lease, streams and subscriptions end.
    Close(u64),
    /// Arm for a session.
    Arm(arming::Arm),
    /// Take the force away. The session must own it unless `any`.
    Disarm {
        /// Which device.
        device: usize,
        /// Who asks.
        session: u64,
        /// May disarm others.
        any: bool,
        /// Answer.
        reply: Reply<()>,
    },
    /// A session gives back whatever it holds or has asked for.
    LetGo(u64),
    /// Any other command to that device.
    Command(usize, ServoCommand, Reply<()>),
    /// Lower the limits; what is `None` stays.
    Limits {
        /// Which device.
        device: usize,
        /// N.
        force: Option<f64>,
        /// N·m.
        torque: Option<f64>,
        /// m/s.
        velocity: Option<f64>,
        /// Answer: what holds now.
        reply: Reply<LimitsNow>,
    },
    /// Open a motion stream.
    Motion {
        /// Who asks.
        session: u64,
        /// Delay, ns.
        delay_ns: u64,
        /// Lease, ns.
        lease_ns: u64,
        /// Answer.
        reply: Reply<MotionOpened>,
    },
    /// Close a motion stream.
    CloseMotion {
        /// Who asks.
        session: u64,
        /// The stream's number.
        stream: u16,
        /// Answer.
        reply: Reply<()>,
    },
    /// State datagrams a second about that device to a session, 0 = none.
    StateRate(usize, u64, f64),
    /// Telemetry notes a second about that device on that outbox of a session, 0 = none.
    Subscribe(usize, u64, Arc<Outbox>, f64),
    /// Keep a copy of every record of that device (for recordings); `None` ends it.
    Tap(usize, Option<Box<dyn FnMut(&TickRecord) + Send>>),
    /// End the thread.
    Stop,
    /// Panic, to test what follows. Only sent by builds that allow it.
    Panic,
}

/// What others may read of one device at any time.
#[derive(Debug, Default)]
pub struct DeviceShared {
    /// The newest record.
    pub latest: Mutex<Option<TickRecord>>,
    /// Records that its servo dropped because the ring was full.
    pub lost: AtomicU64,
    /// Session that holds its force.
    pub owner: AtomicU64,
    /// Limits that hold, N, N·m, m/s; none before its first servo.
    limits: Mutex<Option<[f64; 3]>>,
}

impl DeviceShared {
    /// The newest record.
    pub fn latest(&self) -> Option<TickRecord> {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limits that hold, N, N·m, m/s: the least of configuration, device and clients. None before the first servo.
    pub fn limits(&self) -> Option<[f64; 3]> {
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What others may read at any time.
#[derive(Debug, Default)]
pub struct Shared {
    /// The devices, in the order of the configuration.
    pub devices: Box<[Arc<DeviceShared>]>,
    /// Rounds of the bridge's loop.
    pub rounds: AtomicU64,
    /// Heart beats of the tokio side, ms on the monotonic clock.
    pub beat_ms: AtomicU64,
    /// Scenes published.
    pub published: AtomicU64,
    /// Datagram counters.
    pub udp: UdpCounters,
}

impl Shared {
    /// Of so many devices.
    pub fn of(devices: usize) -> Self {
        Self { devices: (0..devices).map(|_| Arc::default()).collect(), ..Self::default() }
    }

    /// Session that holds the force of that device, 0 = nobody.
    pub fn owner(&self, device: usize) -> u64 {
        self.devices.get(device).map_or(0, |d| d.owner.load(Relaxed))
    }

    /// The tokio side is alive.
    pub fn beat(&self) {
        self.beat_ms.store(monotonic_ns() / 1_000_000, Relaxed);
    }
}

/// How to ask the bridge. Cheap to clone.
#[derive(Clone)]
pub struct Bridge {
    queue: Sender<Request>,
    wake: Arc<EventFd>,
    /// What others may read.
    pub shared: Arc<Shared>,
}

impl Bridge {
    /// Sends a request. False when the queue is full or the thread has ended.
    pub fn send(&self, request: Request) -> bool {
        let sent = self.queue.try_send(request).is_ok();
        let _ = self.wake.write(1);
        sent
    }

    /// Sends a request that carries a reply and waits for it.
    ///
    /// # Errors
    /// The bridge's answer, or that there is none.
    pub async fn ask<T>(&self, make: impl FnOnce(Reply<T>) -> Request) -> Result<T, RpcError> {
        self.begin(make)?.end().await
    }

    /// Takes the force away that a session holds or has asked for, of whichever device.
    pub fn let_go(&self, session: u64) {
        self.send(Request::LetGo(session));
    }

    /// Sends a request that must not be lost: waits for room for `patience` (the bridge empties its queue every 2 ms). False when
    /// there was none, or the thread has ended.
    pub fn send_within(&self, request: Request, patience: Duration) -> bool {
        let sent = self.queue.send_timeout(request, patience).is_ok();
        let _ = self.wake.write(1);
        sent
    }

    /// Sends a request that carries a reply, which is waited for later.
    ///
    /// # Errors
    /// When too many requests wait.
    pub fn begin<T>(&self, make: impl FnOnce(Reply<T>) -> Request) -> Result<Asked<T>, RpcError> {
        let (reply, answer) = oneshot::channel();
        if !self.send(make(reply)) {
            return Err(RpcError::new(codes::LIMIT, "too many requests are waiting; try again"));
        }
        Ok(Asked(answer))
    }
}

/// A request on its way.
pub struct Asked<T>(oneshot::Receiver<Result<T, RpcError>>);

impl<T> Asked<T> {
    /// Waits for the answer.
    ///
    /// # Errors
    /// The bridge's answer, or that there is none.
    pub async fn end(self) -> Result<T, RpcError> {
        match tokio::time::timeout(Duration::from_secs(5), self.0).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(RpcError::new(codes::SHUTDOWN, "the daemon is shutting down")),
            Err(_) => Err(RpcError::new(codes::INTERNAL, "the servo did not answer within 5 s")),
        }
    }
}

impl Publish for Bridge {
    fn publish(&self, snapshots: Vec<Snapshot>, moving: Vec<Moving>) {
        // A scene must not be lost: wait for room.
        let _ = self.queue.send(Request::Publish(snapshots, moving));
        let _ = self.wake.write(1);
    }
}

/// What the thread needs.
pub struct BridgeOptions {
    /// The datagram socket.
    pub socket: UdpSocket,
    /// All sessions, for events.
    pub sessions: Arc<Sessions>,
    /// Where to run.
    pub cpus: Cpus,
    /// Records before a fault that a dump shows; 0 = no dumps.
    pub flight: usize,
    /// Roles of the devices, in the order of the configuration.
    pub roles: Vec<String>,
    /// Called with the device and the records before a fault.
    pub dump: Arc<dyn Fn(usize, Vec<TickRecord>, &'static str) + Send + Sync>,
}

/// Starts the thread.
///
/// # Errors
/// No thread or event descriptor.
pub fn spawn(options: BridgeOptions) -> std::io::Result<(Bridge, std::thread::JoinHandle<()>)> {
    let (queue, requests) = bounded(QUEUE);
    let wake = Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?);
    let shared = Arc::new(Shared::of(options.roles.len()));
    shared.beat();
    let bridge = Bridge { queue, wake: wake.clone(), shared: shared.clone() };
    let thread = std::thread::Builder::new().name("bridge".into()).spawn(move || {
        options.cpus.leave_servo_alone();
        State::new(options, shared, requests).run(&wake);
    })?;
    Ok((bridge, thread))
}

struct State {
    units: Vec<Unit>,
    generation: u64,
    motion: MotionTable,
    sessions: BTreeMap<u64, datagrams::Client>,
    udp: datagrams::Udp,
    /// Period of the fastest state stream, ns.
    fastest_ns: u64,
    shared: Arc<Shared>,
    all: Arc<Sessions>,
    requests: Receiver<Request>,
}

impl State {
    fn new(o: BridgeOptions, shared: Arc<Shared>, requests: Receiver<Request>) -> Self {
        let several = o.roles.len() > 1;
        let units = o.roles.iter().zip(&shared.devices).enumerate().map(|(device, (role, own))| {
            let dump = o.dump.clone();
            let dump = Box::new(move |records, fault| dump(device, records, fault));
            let name = several.then(|| role.as_str().into());
            let telemetry = telemetry::Telemetry::new(name.clone(), o.flight, dump);
            Unit::new(name, telemetry, own.clone(), o.sessions.clone())
        });
        Self {
            units: units.collect(),
            generation: 0,
            motion: MotionTable::default(),
            sessions: BTreeMap::new(),
            udp: datagrams::Udp { socket: o.socket, batch: Batch::default() },
            fastest_ns: u64::MAX,
            shared,
            all: o.sessions,
            requests,
        }
    }

    fn run(mut self, wake: &EventFd) {
        loop {
            self.wait(wake);
            for _ in 0..REQUESTS_A_ROUND {
                match self.requests.try_recv() {
                    Ok(Request::Stop) | Err(crossbeam::channel::TryRecvError::Disconnected) => return,
                    Ok(r) => self.handle(r),
                    Err(crossbeam::channel::TryRecvError::Empty) => break,
                }
            }
            self.receive_datagrams();
            let now = monotonic_ns();
            self.answer();
            self.keep_leases(now);
            for lapse in self.motion.lapsed(now) {
                let text = lapse.to_string();
                tracing::info!(event = "motion_stopped", "{text}");
                self.all.broadcast("motion_stopped", &text);
            }
            self.publish_motion();
            self.drain(now);
            self.shared.rounds.fetch_add(1, Relaxed);
        }
    }

    /// Hands every servo the poses that have come, and frees what they have replaced.
    fn publish_motion(&mut self) {
        let mut servos = self.units.iter_mut().filter_map(|u| u.servo.as_mut());
        if let Some(frame) = self.motion.frame()
            && let Some(first) = servos.next()
        {
            servos.for_each(|servo| servo.publish_motion(frame.clone()));
            first.publish_motion(frame);
        }
        self.units.iter_mut().filter_map(|u| u.servo.as_mut()).for_each(|servo| {
            servo.reclaim();
        });
    }

    fn keep_leases(&mut self, now: u64) {
        let beat_ms = self.shared.beat_ms.load(Relaxed);
        self.units.iter_mut().for_each(|u| u.keep_lease(&self.sessions, beat_ms, now));
    }

    fn answer(&mut self) {
        self.units.iter_mut().for_each(|u| u.answer(&self.sessions, self.generation));
    }

    fn wait(&self, wake: &EventFd) {
        let mut fds = [
            PollFd::new(wake.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.udp.socket.as_fd(), PollFlags::POLLIN),
        ];
        let timeout =
            PollTimeout::try_from(telemetry::patience(ROUND, self.fastest_ns)).unwrap_or(PollTimeout::ZERO);
        let _ = poll(&mut fds, timeout);
        let _ = wake.read();
    }

    fn handle(&mut self, request: Request) {
        match request {
            Request::Attach(device, handle, caps) => self.attach(device, handle, caps),
            Request::Detach(device) => self.unit(device, Unit::detach),
            Request::Publish(snapshots, moving) => self.publish(snapshots, &moving),
            Request::Open(session) => {
                // Streams, subscriptions and the force belonged to the connection before.
                self.close(session.id);
                let client = datagrams::Client::new(session, self.units.len());
                self.sessions.insert(client.session.id, client);
            }
            Request::Close(id) => self.close(id),
            Request::Arm(arm) => {
                if let Some(unit) = self.units.get_mut(arm.device) {
                    unit.arm(arm, &self.sessions);
                }
            }
            Request::Disarm { device, session, any, reply } => {
                self.unit(device, |unit| unit.disarm(session, any, reply));
            }
            Request::LetGo(session) => {
                for unit in self.units.iter_mut().filter(|u| u.concerns(session)) {
                    unit.disarm(session, false, oneshot::channel().0);
                }
            }
            Request::Command(device, command, reply) => {
                self.unit(device, |unit| {
                    unit.command(command, Waiting::Plain(reply));
                });
            }
            Request::Limits { device, force, torque, velocity, reply } => {
                self.unit(device, |unit| unit.lower([force, torque, velocity], reply));
            }
            Request::Motion { session, delay_ns, lease_ns, reply } => {
                let opened = self.motion.open(session, delay_ns, lease_ns, monotonic_ns()).map(|stream| {
                    MotionOpened {
                        stream,
                        delay_s: delay_ns as f64 / 1e9,
                        lease_s: lease_ns as f64 / 1e9,
                        generation: self.generation,
                    }
                });
                let full = || {
                    let text = format!("this session has {MAX_STREAMS} live motion streams; close one first");
                    RpcError::new(codes::LIMIT, text)
                };
                let _ = reply.send(opened.ok_or_else(full));
            }
            Request::CloseMotion { session, stream, reply } => {
                let known = self.motion.close_stream(session, stream, monotonic_ns());
                let unknown = || {
                    let text = format!("this session has no motion stream {stream}");
                    RpcError::new(codes::NOT_FOUND, text).field("stream")
                };
                let _ = reply.send(known.then_some(()).ok_or_else(unknown));
            }
            Request::StateRate(device, id, rate) => {
                if let Some(s) = self.sessions.get_mut(&id).and_then(|c| c.streams.get_mut(device)) {
                    s.pace = datagrams::Pace::new(rate);
                }
            }
            Request::Subscribe(device, id, outbox, rate) => {
                self.unit(device, |unit| unit.telemetry.subscribe(id, outbox, rate));
            }
            Request::Tap(device, tap) => {
                // What happened before the request belongs to the tap that ends.
                self.drain(monotonic_ns());
                self.unit(device, |unit| unit.telemetry.tap = tap);
            }
            Request::Panic => panic!("asked to panic"),
            Request::Stop => {}
        }
    }

    /// The device of that number; a request about another is dropped, and whoever waits for it is told so.
    fn unit(&mut self, device: usize, act: impl FnOnce(&mut Unit)) {
        if let Some(unit) = self.units.get_mut(device) {
            act(unit);
        }
    }

    fn attach(&mut self, device: usize, handle: Box<ServoHandle>, caps: [f64; 3]) {
        self.unit(device, |unit| unit.attach(handle, caps));
        // It has seen no pose yet.
        self.motion.again();
    }

    fn publish(&mut self, snapshots: Vec<Snapshot>, moving: &[Moving]) {
        self.generation = snapshots.first().map_or(self.generation, |s| s.generation);
        self.motion.set_objects(moving);
        self.shared.published.fetch_add(1, Relaxed);
        for (unit, snapshot) in self.units.iter_mut().zip(snapshots) {
            unit.publish(Box::new(snapshot));
        }
    }

    fn close(&mut self, id: u64) {
        self.sessions.remove(&id);
        self.motion.close(id, monotonic_ns());
        for unit in &mut self.units {
            unit.telemetry.unsubscribe(id);
            unit.lose_owner(id);
        }
    }
}
