//! The one thread that owns the servo's handle: publishes scenes and motion, sends commands, keeps the owner's
//! lease alive, drains telemetry, serves datagrams.
//!
//! Everything else asks it by messages. Each round of its loop does a bounded amount of work, so that no flood on
//! one side starves another.

pub mod arming;
mod datagrams;
mod telemetry;
#[cfg(test)]
mod tests;

use super::cpu::Cpus;
use super::motion::{MAX_STREAMS, MotionTable, Moving};
use super::outbox::Outbox;
use super::scene::Publish;
use super::session::{Session, Sessions};
use super::udp::{Batch, UdpCounters};
use crate::protocol::messages::{LimitsNow, MotionOpened};
use crate::protocol::rpc::{RpcError, codes};
use crate::scene::snapshot::Snapshot;
use crate::servo::handle::{Flags, Refusal, ServoCommand, ServoHandle, monotonic_ns};
use crate::servo::record::TickRecord;
use crossbeam::channel::{Receiver, Sender, bounded};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::collections::{BTreeMap, HashMap};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

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
    /// A servo has started.
    Attach(Box<ServoHandle>),
    /// The servo ended; its handle is dropped.
    Detach,
    /// A new scene.
    Publish(Box<Snapshot>, Vec<Moving>),
    /// A session opened or was resumed.
    Open(Arc<Session>),
    /// A session's connection ended: its lease, streams and subscriptions end.
    Close(u64),
    /// Arm for a session.
    Arm(arming::Arm),
    /// Take the force away. The session must own it unless `any`.
    Disarm {
        /// Who asks.
        session: u64,
        /// May disarm others.
        any: bool,
        /// Answer.
        reply: Reply<()>,
    },
    /// Any other command.
    Command(ServoCommand, Reply<()>),
    /// Lower the limits; what is `None` stays.
    Limits {
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
    /// State datagrams a second, 0 = none.
    StateRate(u64, f64),
    /// Telemetry notes a second on that outbox, 0 = none.
    Subscribe(u64, Arc<Outbox>, f64),
    /// Keep a copy of every record (for recordings); `None` ends it.
    Tap(Option<Box<dyn FnMut(&TickRecord) + Send>>),
    /// End the thread.
    Stop,
    /// Panic, to test what follows. Only sent by builds that allow it.
    Panic,
}

/// What others may read at any time.
#[derive(Debug, Default)]
pub struct Shared {
    /// The newest record.
    pub latest: Mutex<Option<TickRecord>>,
    /// Records that the servo dropped because its ring was full.
    pub lost: AtomicU64,
    /// Rounds of the bridge's loop.
    pub rounds: AtomicU64,
    /// Heart beats of the tokio side, ms on the monotonic clock.
    pub beat_ms: AtomicU64,
    /// Session that holds the force.
    pub owner: AtomicU64,
    /// Scenes published.
    pub published: AtomicU64,
    /// Datagram counters.
    pub udp: UdpCounters,
}

impl Shared {
    /// The newest record.
    pub fn latest(&self) -> Option<TickRecord> {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner)
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
        let (reply, answer) = oneshot::channel();
        if !self.send(make(reply)) {
            return Err(RpcError::new(codes::LIMIT, "too many requests are waiting; try again"));
        }
        match tokio::time::timeout(Duration::from_secs(5), answer).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(RpcError::new(codes::SHUTDOWN, "the daemon is shutting down")),
            Err(_) => Err(RpcError::new(codes::INTERNAL, "the servo did not answer within 5 s")),
        }
    }
}

impl Publish for Bridge {
    fn publish(&self, snapshot: Box<Snapshot>, moving: Vec<Moving>) {
        // A scene must not be lost: wait for room (the bridge empties its queue every 2 ms).
        let _ = self.queue.send(Request::Publish(snapshot, moving));
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
    /// Called with the records before a fault.
    pub dump: Box<dyn FnMut(Vec<TickRecord>, &'static str) + Send>,
}

/// Starts the thread.
///
/// # Errors
/// No thread or event descriptor.
pub fn spawn(options: BridgeOptions) -> std::io::Result<(Bridge, std::thread::JoinHandle<()>)> {
    let (queue, requests) = bounded(QUEUE);
    let wake = Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?);
    let shared = Arc::new(Shared::default());
    shared.beat();
    let bridge = Bridge { queue, wake: wake.clone(), shared: shared.clone() };
    let thread = std::thread::Builder::new().name("bridge".into()).spawn(move || {
        options.cpus.leave_servo_alone();
        State::new(options, shared, requests).run(&wake);
    })?;
    Ok((bridge, thread))
}

/// What happens when a command's answer arrives.
enum Waiting {
    Plain(Reply<()>),
    Arm(arming::Arm),
    /// Whose force goes.
    Disarm(u64, Reply<()>),
    Limits([f64; 3], Reply<LimitsNow>),
    Nobody,
}

struct State {
    servo: Option<Box<ServoHandle>>,
    flags: Option<Flags>,
    /// A scene that came while there was no servo.
    unseen: Option<Box<Snapshot>>,
    generation: u64,
    motion: MotionTable,
    waiting: HashMap<u64, Waiting>,
    arming: arming::Arming,
    limits: [f64; 3],
    sessions: BTreeMap<u64, datagrams::Client>,
    udp: datagrams::Udp,
    telemetry: telemetry::Telemetry,
    shared: Arc<Shared>,
    all: Arc<Sessions>,
    requests: Receiver<Request>,
}

impl State {
    fn new(o: BridgeOptions, shared: Arc<Shared>, requests: Receiver<Request>) -> Self {
        Self {
            servo: None,
            flags: None,
            unseen: None,
            generation: 0,
            motion: MotionTable::default(),
            waiting: HashMap::new(),
            arming: arming::Arming::default(),
            limits: [0.0; 3],
            sessions: BTreeMap::new(),
            udp: datagrams::Udp { socket: o.socket, batch: Batch::default() },
            telemetry: telemetry::Telemetry::new(o.flight, o.dump),
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
            self.keep_lease(now);
            for lapse in self.motion.lapsed(now) {
                let text = lapse.to_string();
                tracing::info!(event = "motion_stopped", "{text}");
                self.all.broadcast("motion_stopped", &text);
            }
            if let Some(servo) = &mut self.servo {
                if let Some(frame) = self.motion.frame() {
                    servo.publish_motion(frame);
                }
                servo.reclaim();
            }
            self.drain(now);
            self.shared.rounds.fetch_add(1, Relaxed);
        }
    }

    fn wait(&self, wake: &EventFd) {
        let mut fds = [
            PollFd::new(wake.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.udp.socket.as_fd(), PollFlags::POLLIN),
        ];
        let timeout = PollTimeout::try_from(self.telemetry.patience(ROUND)).unwrap_or(PollTimeout::ZERO);
        let _ = poll(&mut fds, timeout);
        let _ = wake.read();
    }

    fn handle(&mut self, request: Request) {
        match request {
            Request::Attach(handle) => self.attach(handle),
            Request::Detach => {
                self.servo = None;
                self.flags = None;
                self.release_all();
                self.arming = arming::Arming::default();
                self.waiting.clear();
                self.shared.owner.store(0, Relaxed);
            }
            Request::Publish(snapshot, moving) => self.publish(snapshot, &moving),
            Request::Open(session) => {
                // Streams, subscriptions and the force belonged to the connection before.
                self.close(session.id);
                self.sessions.insert(session.id, datagrams::Client::new(session));
            }
            Request::Close(id) => self.close(id),
            Request::Arm(arm) => self.arm(arm),
            Request::Disarm { session, any, reply } => self.disarm(session, any, reply),
            Request::Command(command, reply) => drop(self.command(command, Waiting::Plain(reply))),
            Request::Limits { force, torque, velocity, reply } => {
                let [f, t, v] = self.limits;
                let lower = |now: f64, wanted: Option<f64>| wanted.map_or(now, |w| w.min(now));
                let new = [lower(f, force), lower(t, torque), lower(v, velocity)];
                let command = ServoCommand::Limits { force: new[0], torque: new[1], velocity: new[2] };
                self.command(command, Waiting::Limits(new, reply));
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
            Request::StateRate(id, rate) => {
                if let Some(c) = self.sessions.get_mut(&id) {
                    c.pace = datagrams::Pace::new(rate);
                }
            }
            Request::Subscribe(id, outbox, rate) => self.telemetry.subscribe(id, outbox, rate),
            Request::Tap(tap) => {
                // What happened before the request belongs to the tap that ends.
                self.drain(monotonic_ns());
                self.telemetry.tap = tap;
            }
            Request::Panic => panic!("asked to panic"),
            Request::Stop => {}
        }
    }

    fn attach(&mut self, mut handle: Box<ServoHandle>) {
        let c = handle.config();
        self.limits = [c.max_force, c.max_torque, c.max_velocity];
        self.flags = Some(handle.disarm_flag());
        if let Some(snapshot) = self.unseen.take() {
            // The servo is new, so any generation is newer than its last.
            let _ = handle.publish(snapshot);
        }
        self.servo = Some(handle);
    }

    fn publish(&mut self, snapshot: Box<Snapshot>, moving: &[Moving]) {
        self.generation = snapshot.generation;
        self.motion.set_objects(moving);
        self.shared.published.fetch_add(1, Relaxed);
        match &mut self.servo {
            // The scene service publishes under its lock, so generations rise.
            Some(servo) => {
                let _ = servo.publish(snapshot);
            }
            None => self.unseen = Some(snapshot),
        }
    }

    fn close(&mut self, id: u64) {
        self.sessions.remove(&id);
        self.motion.close(id, monotonic_ns());
        self.telemetry.unsubscribe(id);
        self.lose_owner(id);
    }

    /// Sends a command; false, and the answer is given, when it cannot be sent.
    fn command(&mut self, command: ServoCommand, waiting: Waiting) -> bool {
        let Some(servo) = &mut self.servo else {
            waiting.refuse(no_device());
            return false;
        };
        match servo.send(command) {
            Ok(id) => {
                self.waiting.insert(id, waiting);
                true
            }
            Err(full) => {
                waiting.refuse(RpcError::new(codes::LIMIT, full.to_string()));
                false
            }
        }
    }

    /// Hands the servo's answers to those who wait.
    fn answer(&mut self) {
        let Some(servo) = &mut self.servo else { return };
        let acks: Vec<_> = servo.acks().collect();
        for ack in acks {
            let Some(waiting) = self.waiting.remove(&ack.id) else { continue };
            match (waiting, ack.result) {
                (Waiting::Arm(arm), result) => self.armed(arm, result),
                (Waiting::Disarm(session, reply), Ok(())) => self.releasing(session, reply),
                (Waiting::Limits(new, reply), Ok(())) => {
                    self.limits = new;
                    let [force, torque, velocity] = new;
                    let _ =
                        reply.send(Ok(LimitsNow { force, torque, velocity, generation: self.generation }));
                }
                (Waiting::Plain(reply), Ok(())) => {
                    let _ = reply.send(Ok(()));
                }
                (other, Err(why)) => other.refuse(refusal(why)),
                (Waiting::Nobody, Ok(())) => {}
            }
        }
    }
}

impl Waiting {
    fn refuse(self, e: RpcError) {
        match self {
            Self::Plain(reply) | Self::Disarm(_, reply) => drop(reply.send(Err(e))),
            Self::Arm(arm) => drop(arm.reply.send(Err(e))),
            Self::Limits(_, reply) => drop(reply.send(Err(e))),
            Self::Nobody => {}
        }
    }
}

fn no_device() -> RpcError {
    RpcError::new(codes::SERVO, "no device is open; see `status`, and `hapticd devices` for what is known")
}

fn refusal(why: Refusal) -> RpcError {
    let text = match why {
        Refusal::NotReady => "the device is absent, booting or not calibrated",
        Refusal::InFault => "a fault is latched; see `status` for which, then clear_fault",
        Refusal::Degraded => {
            "real-time set-up is degraded and servo.require_rt is on; `hapticd doctor` names what is missing and \
             the cure"
        }
        Refusal::Disarmed => "the force was taken away meanwhile; arm again",
        Refusal::Owned => "another session is armed; `takeover` takes the force from it",
        Refusal::NoFault => "there is no latched fault, or its cause persists",
        Refusal::Invalid => "a number is not finite or out of range",
        Refusal::Stopping => "the daemon is shutting down",
    };
    let code = match why {
        Refusal::Owned => codes::NOT_OWNER,
        Refusal::Invalid => codes::INVALID_PARAMS,
        Refusal::Stopping => codes::SHUTDOWN,
        _ => codes::SERVO,
    };
    RpcError::new(code, text)
}
