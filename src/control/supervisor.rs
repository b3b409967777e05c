//! The daemon's main thread: starts everything, feeds the watchdog, answers signals and panics, ends in order.
//!
//! It runs outside the async runtime, so that it can act when that hangs.

use super::bridge::{self, Bridge, BridgeOptions, Request};
use super::cpu::Cpus;
use super::ipc::{self, IpcOptions, Server};
use super::lobby::Lobby;
use super::peer::Policy;
use super::places;
use super::recorder::Recordings;
use super::scene::{SceneOptions, SceneService};
use super::session::Sessions;
use super::socket::{self, ControlSocket};
use super::status::StatusBoard;
use super::watchdog::Watchdog;
use super::{metrics, signals, udp};
use crate::config::Config;
use crate::protocol::messages::RtNote;
use crate::scene::model::Scene;
use crate::servo::handle::{Counters, Flags, ServoHandle};
use crate::servo::record::ServoState;
use anyhow::Context;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::Signal;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The main thread looks around so often, ms.
const LOOK_MS: u16 = 20;
/// Time between two attempts to open the device.
const RETRY: Duration = Duration::from_secs(2);
/// Time in which the servo must have commanded its last zero.
const LAST_ZERO: Duration = Duration::from_secs(2);

/// Clients have so long to take the last answers and events.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// A servo that runs.
pub struct Started {
    /// Its control end.
    pub handle: ServoHandle,
    /// Name of the device.
    pub device: String,
    /// What real-time set-up found.
    pub rt: Vec<RtNote>,
    /// Limits that hold: force N, torque N·m, velocity m/s.
    pub limits: [f64; 3],
    /// Waits until the servo's thread has ended and the device is closed; true when it ended as asked and nothing says that
    /// the device did not take its last zero.
    pub join: Box<dyn FnOnce() -> bool + Send>,
}

/// Opens the device and starts the servo. Called again some seconds after a failure, and when a servo has ended.
pub trait Engine: Send {
    /// Name of its device's profile, for recordings.
    fn profile(&self) -> &str;

    /// Starts.
    ///
    /// # Errors
    /// Why not, and what to do.
    fn start(&mut self, cpus: &Cpus) -> Result<Started, String>;
}

/// How the daemon ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As asked.
    Clean,
    /// A thread panicked.
    Panicked,
    /// The servo, or the device's I/O, did not confirm the last zero in time.
    Unconfirmed,
}

struct Servo {
    flags: Flags,
    counters: Arc<Counters>,
    join: Option<Box<dyn FnOnce() -> bool + Send>>,
}

/// Runs the daemon until a signal, a shutdown request or a panic ends it. `debug` serves requests that provoke
/// faults.
///
/// # Errors
/// What kept it from starting.
pub fn run(config: &Config, scene: Scene, engine: Box<dyn Engine>, debug: bool) -> anyhow::Result<Outcome> {
    let cpus = Cpus::split(config.servo.core).map_err(anyhow::Error::msg)?;
    cpus.leave_servo_alone();
    let wake: &'static EventFd = Box::leak(Box::new(
        EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK).context("no eventfd")?,
    ));
    signals::install(wake.as_raw_fd()).context("cannot install signal handlers")?;
    // Whatever computes in parallel without a pool of its own must not start one on the servo's CPU.
    let pin = cpus.clone();
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(cpus.others.len())
        .start_handler(move |_| pin.leave_servo_alone());
    pool.build_global().context("cannot start worker threads")?;

    let path = match &config.control.socket {
        Some(path) => path.clone(),
        None => socket::default_path()?,
    };
    let control = ControlSocket::open(&path, config.control.group.as_deref())?;
    let board = Arc::new(StatusBoard::new(&config.device.role));
    let sessions = Arc::new(Sessions::default());
    let udp_socket = udp::open(config.control.udp_port)?;
    let udp_address = udp_socket.local_addr()?;
    let recordings_dir = places::recordings(config, &board);
    let cap = config.recordings.size_mb << 20;
    let heard = sessions.clone();
    let tell = move |text: &str| {
        tracing::warn!("{text}");
        heard.broadcast("recording_failed", text);
    };
    let of = (engine.profile(), config.coupling.law.name());
    let recordings = Arc::new(Recordings::new(recordings_dir, cap, of, Arc::new(tell)));
    let dumps = recordings.clone();
    let (bridge, bridge_thread) = bridge::spawn(BridgeOptions {
        socket: udp_socket,
        sessions: sessions.clone(),
        cpus: cpus.clone(),
        flight: (config.recordings.flight_s * 1000.0) as usize,
        dump: Box::new(move |records, fault| {
            let dumps = dumps.clone();
            let _ =
                std::thread::Builder::new().name("dump".into()).spawn(move || dumps.dump(&records, fault));
        }),
    })?;
    let scene = Arc::new(scene_service(config, scene, &cpus, &bridge, &board));
    let stop = Arc::new(AtomicBool::new(false));
    let (policy, unknown) = Policy::new(&config.control.owners, &config.control.admins);
    unknown.into_iter().for_each(|w| board.warn(w));
    let stop_request = stop.clone();
    let server = Arc::new(Server {
        options: ipc_options(config, debug),
        policy,
        sessions: sessions.clone(),
        bridge: bridge.clone(),
        scene: scene.clone(),
        udp: udp_address,
        board: board.clone(),
        recordings: recordings.clone(),
        counters: Arc::default(),
        builds: tokio::sync::Semaphore::new(2),
        // As many as sessions and some more, so that the silent ones never stand in anybody's way.
        lobby: Lobby::new(config.control.sessions as usize + 8),
        shutdown: Box::new(move || {
            stop_request.store(true, Relaxed);
            let _ = wake.write(1);
        }),
    });
    let runtime = start_runtime(config, &cpus, &server, &control)?;
    runtime.spawn_blocking({
        let board = board.clone();
        move || {
            if let Err(e) = scene.republish() {
                board.warn(format!("the scene could not be built: {e}"));
            }
        }
    });
    tracing::info!(socket = %path.display(), udp = %udp_address, "hapticd listens");
    let mut watchdog = Watchdog::ready();

    let mut keeper = Keeper::new(engine, cpus);
    let outcome = loop {
        let mut fds = [PollFd::new(wake.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut fds, PollTimeout::from(LOOK_MS));
        let _ = wake.read();
        if signals::has_panicked() {
            break Outcome::Panicked;
        }
        let came = signals::take();
        if let Some(s) = came.ending() {
            tracing::info!("{s}: zero force, then the end");
            break Outcome::Clean;
        }
        if came.stop() {
            keeper.suspend();
        }
        if stop.load(Relaxed) {
            break Outcome::Clean;
        }
        if signals::take_mended() {
            board.warn(
                "the device's probe page was cut or its disk failed: what the motors are told can no longer be seen from \
                 outside, and `hapticd zero` cannot reach them; restart hapticd, and let nothing else write device.probe",
            );
        }
        keeper.look(&bridge, &board);
        watchdog.feed(&bridge.shared, keeper.counters());
    };

    watchdog.stopping();
    let confirmed = keeper.end();
    sessions.broadcast("shutdown", "the daemon is shutting down");
    recordings.finish(&bridge);
    // The answer to `shutdown` and the event go out, to whoever reads.
    let until = Instant::now() + LAST_WORDS;
    while !sessions.all_idle() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(2));
    }
    // The runtime first: its tasks ask the bridge.
    runtime.shutdown_timeout(Duration::from_millis(500));
    bridge.send(Request::Stop);
    if !signals::has_panicked() {
        let _ = bridge_thread.join();
    }
    drop(control);
    match (outcome, confirmed) {
        _ if signals::has_panicked() => Ok(Outcome::Panicked),
        (o, true) => Ok(o),
        (_, false) => Ok(Outcome::Unconfirmed),
    }
}

fn ipc_options(config: &Config, debug: bool) -> IpcOptions {
    let c = &config.control;
    IpcOptions {
        sessions: c.sessions as usize,
        line_bytes: c.line_bytes,
        hello: Duration::from_secs_f64(c.hello_s),
        requests_per_s: c.requests_per_s,
        lease: Duration::from_secs_f64(c.lease_s),
        resume: Duration::from_secs_f64(c.resume_s),
        fade: Duration::from_secs_f64(c.fade_s),
        state_hz: f64::from(c.state_hz),
        motion_timeout: Duration::from_secs_f64(c.motion_timeout_s),
        debug,
    }
}

fn scene_service(
    config: &Config,
    scene: Scene,
    cpus: &Cpus,
    bridge: &Bridge,
    board: &StatusBoard,
) -> SceneService {
    let threads = match config.scene.build_threads {
        0 => cpus.others.len(),
        n => n,
    };
    let options = SceneOptions {
        cpus: cpus.clone(),
        build_threads: threads,
        mesh_roots: config.scene.mesh_roots.clone(),
        mesh_bytes: config.control.mesh_bytes,
        max_edits: 10_000,
        lock_memory: config.servo.lock_memory,
    };
    let compiler = places::compiler(config, board);
    SceneService::new(scene, compiler, options, Box::new(bridge.clone()))
}

fn start_runtime(
    config: &Config,
    cpus: &Cpus,
    server: &Arc<Server>,
    control: &ControlSocket,
) -> anyhow::Result<tokio::runtime::Runtime> {
    let pin = cpus.clone();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(16)
        .thread_name("control")
        .on_thread_start(move || pin.leave_servo_alone())
        .enable_all()
        .build()
        .context("cannot start the control runtime")?;
    let listener = control.listener.try_clone()?;
    let bound = config.control.metrics.map(std::net::TcpListener::bind).transpose();
    let bound = bound.with_context(|| "control.metrics: cannot listen there".to_string())?;
    let _inside = runtime.enter();
    let listener = tokio::net::UnixListener::from_std(listener)?;
    runtime.spawn(ipc::serve(server.clone(), listener));
    if let Some(l) = bound {
        l.set_nonblocking(true)?;
        runtime.spawn(metrics::serve(server.clone(), tokio::net::TcpListener::from_std(l)?));
    }
    let shared = server.bridge.shared.clone();
    runtime.spawn(async move {
        loop {
            shared.beat();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    Ok(runtime)
}

/// Keeps a servo running: starts it, and starts another when it has ended.
struct Keeper {
    engine: Option<Box<dyn Engine>>,
    cpus: Cpus,
    coming: Option<mpsc::Receiver<(Box<dyn Engine>, Result<Started, String>)>>,
    servo: Option<Servo>,
    next: Instant,
    last_error: String,
}

impl Keeper {
    fn new(engine: Box<dyn Engine>, cpus: Cpus) -> Self {
        let next = Instant::now();
        Self { engine: Some(engine), cpus, coming: None, servo: None, next, last_error: String::new() }
    }

    fn counters(&self) -> Option<&Counters> {
        self.servo.as_ref().map(|s| &*s.counters)
    }

    fn look(&mut self, bridge: &Bridge, board: &StatusBoard) {
        if self.servo.as_ref().is_some_and(|s| s.counters.ended()) {
            board.warn("the servo has ended; it is started again");
            if let Some(join) = self.servo.take().and_then(|s| s.join) {
                join();
            }
            bridge.send(Request::Detach);
            board.no_servo();
            self.next = Instant::now() + RETRY;
        }
        if self.servo.is_none() && self.coming.is_none() && Instant::now() >= self.next {
            self.begin();
        }
        let Some(coming) = &self.coming else { return };
        let Ok((engine, result)) = coming.try_recv() else { return };
        self.coming = None;
        self.engine = Some(engine);
        match result {
            Ok(started) => self.welcome(started, bridge, board),
            Err(e) => {
                if e != self.last_error {
                    board.warn(format!("no device yet: {e}"));
                    self.last_error = e;
                }
                self.next = Instant::now() + RETRY;
            }
        }
    }

    /// Opening a device may block for seconds: a thread of its own does it.
    fn begin(&mut self) {
        let Some(mut engine) = self.engine.take() else { return };
        let (tell, hear) = mpsc::channel();
        let cpus = self.cpus.clone();
        let opening = move || {
            // The servo's thread inherits both: it may pin itself anywhere, and no handler ever runs in it.
            cpus.everywhere();
            let result = signals::blocked(|| engine.start(&cpus));
            let _ = tell.send((engine, result));
        };
        if std::thread::Builder::new().name("device".into()).spawn(opening).is_ok() {
            self.coming = Some(hear);
        }
    }

    fn welcome(&mut self, s: Started, bridge: &Bridge, board: &StatusBoard) {
        let (flags, counters) = (s.handle.disarm_flag(), s.handle.counters());
        signals::watch(flags.clone(), counters.clone());
        tracing::info!(device = %s.device, "the servo runs");
        for note in s.rt.iter().filter(|n| !n.ok) {
            tracing::warn!("real-time: {}: {}; cure: {}", note.what, note.why, note.cure);
        }
        board.servo(&s.device, s.rt, s.limits, counters.clone());
        self.servo = Some(Servo { flags, counters, join: Some(s.join) });
        bridge.send(Request::Attach(Box::new(s.handle)));
    }

    /// SIGTSTP: zero first, then stop.
    fn suspend(&self) {
        if let Some(s) = &self.servo {
            s.flags.disarm();
            let until = Instant::now() + Duration::from_millis(500);
            let on = || matches!(s.counters.state(), ServoState::Armed | ServoState::Rendering);
            while on() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(2));
            }
            // The tick that went idle has written zero; two more periods for a device with its own thread.
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = nix::sys::signal::raise(Signal::SIGSTOP);
    }

    /// Zero, then the end of the servo's thread; true when that is confirmed.
    fn end(mut self) -> bool {
        let Some(mut s) = self.servo.take() else { return true };
        s.flags.disarm();
        s.flags.stop();
        let until = Instant::now() + LAST_ZERO;
        while !s.counters.ended() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        if !s.counters.ended() {
            tracing::error!("the servo did not end within 2 s; run `hapticd zero`");
            return false;
        }
        s.join.take().is_none_or(|join| join())
    }
}
