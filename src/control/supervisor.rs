//! The daemon's main thread: starts everything, feeds the watchdog, answers signals and panics, ends in order.
//!
//! It runs outside the async runtime, so that it can act when that hangs.

use super::bridge::{self, Bridge, BridgeOptions, Request};
use super::cpu::Cpus;
use super::ipc::{self, Gates, IpcOptions, Server};
use super::keeper::{self, Keeper};
use super::lobby::Lobby;
use super::peer::Policy;
use super::places;
use super::recorder::{self, Recorded, Recordings, Tell};
use super::scene::{SceneOptions, SceneService};
use super::session::Sessions;
use super::socket::{self, ControlSocket};
use super::status::StatusBoard;
use super::watchdog::Watchdog;
use super::{metrics, signals, udp};
use crate::config::Config;
use crate::protocol::messages::RtNote;
use crate::scene::model::Scene;
use crate::servo::handle::ServoHandle;
use anyhow::Context;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The main thread looks around so often, ms.
const LOOK_MS: u16 = 20;
/// Attempts to give a new servo the scene, a second apart.
const REPUBLISH: u32 = 5;
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
    /// Limits of configuration and device: force N, torque N·m, velocity m/s.
    pub limits: [f64; 3],
    /// Calibrated work units a microsecond; 0 when not calibrated.
    pub units_per_us: f64,
    /// Waits until the servo's thread has ended and the device is closed.
    pub join: Join,
}

/// Waits for the end of a servo and its device; how that was.
pub type Join = Box<dyn FnOnce() -> Ending + Send>;

/// How servos and their devices have ended: two questions, of which either may have the bad answer alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// As asked; false after a panic.
    pub asked: bool,
    /// Nothing says that a device did not take its last zero.
    pub zero: bool,
}

impl Ending {
    /// As it should be.
    pub const GOOD: Self = Self { asked: true, zero: true };

    /// Of both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { asked: self.asked && other.asked, zero: self.zero && other.zero }
    }
}

/// Opens a device and starts its servo. Called again some seconds after a failure, and when a servo has ended.
pub trait Engine: Send {
    /// Name of its device's profile, for recordings.
    fn profile(&self) -> &str;

    /// Starts. `watch` is told of the servo before its thread runs.
    ///
    /// # Errors
    /// Why not, and what to do.
    fn start(&mut self, cpus: &Cpus, watch: Watch<'_>) -> Result<Started, String>;
}

/// Makes a servo known to whoever answers signals and panics.
pub type Watch<'a> = &'a dyn Fn(&ServoHandle);

/// Runs the daemon, with an engine for each device of the configuration, until a signal, a shutdown request or a panic ends it. `debug` serves requests that provoke
/// faults.
///
/// # Errors
/// What kept it from starting.
pub fn run(
    config: &Config,
    scene: Scene,
    engines: Vec<Box<dyn Engine>>,
    debug: bool,
) -> anyhow::Result<Ending> {
    let cpus = Cpus::divide(&config.cores()).map_err(anyhow::Error::msg)?;
    cpus.leave_servo_alone();
    let wake: &'static EventFd = Box::leak(Box::new(
        EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK).context("no eventfd")?,
    ));
    signals::install(wake.as_raw_fd(), engines.len()).context("cannot install signal handlers")?;
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
    let roles: Vec<String> = config.devices().map(|d| d.role.clone()).collect();
    let board = Arc::new(StatusBoard::new(&roles));
    let sessions = Arc::new(Sessions::default());
    let udp_socket = udp::open(config.control.udp_port)?;
    let udp_address = udp_socket.local_addr()?;
    let recordings_dir = places::recordings(config, &board);
    let heard = sessions.clone();
    let tell: Tell = Arc::new(move |text: &str| {
        tracing::warn!("{text}");
        heard.broadcast("recording_failed", text);
    });
    let cap = config.recordings.size_mb << 20;
    let cap = match &recordings_dir {
        Ok(dir) => recorder::share(dir, cap, engines.len()).unwrap_or_else(|e| {
            board.warn(format!("old recordings in {} cannot be deleted: {e}", dir.display()));
            cap / (engines.len() as u64 + 1)
        }),
        Err(_) => cap,
    };
    let start = config.scene.file.as_ref().map(|path| path.display().to_string());
    let record = |(number, device): (usize, &str)| {
        let (scene, coupling) = (start.as_deref().unwrap_or("live"), config.coupling.law.name());
        let of = Recorded { number, device, scene, coupling, board: &board };
        Arc::new(Recordings::new(recordings_dir.clone(), cap, of, tell.clone()))
    };
    let recordings: Vec<_> = engines.iter().map(|e| e.profile()).enumerate().map(record).collect();
    let dumps = recordings.clone();
    let (bridge, bridge_thread) = bridge::spawn(BridgeOptions {
        socket: udp_socket,
        sessions: sessions.clone(),
        cpus: cpus.clone(),
        flight: (config.recordings.flight_s * 1000.0) as usize,
        roles: roles.clone(),
        dump: Arc::new(move |device, records, fault| {
            let Some(dumps) = dumps.get(device).cloned() else { return };
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
        gates: Gates::of(roles.len()),
        // As many as sessions and some more, so that the silent ones never stand in anybody's way.
        lobby: Lobby::new(config.control.sessions as usize + 8),
        shutdown: Box::new(move || {
            stop_request.store(true, Relaxed);
            let _ = wake.write(1);
        }),
    });
    let runtime = start_runtime(config, &cpus, &server, &control)?;
    let publish = || {
        let (board, scene) = (board.clone(), scene.clone());
        runtime.spawn_blocking(move || {
            for _ in 0..REPUBLISH {
                match scene.republish() {
                    Ok(_) => return,
                    Err(e) => board.warn(format!("the scene could not be built: {e}")),
                }
                std::thread::sleep(Duration::from_secs(1));
            }
        });
    };
    publish();
    tracing::info!(socket = %path.display(), udp = %udp_address, "hapticd listens");
    let mut watchdog = Watchdog::ready();

    let keep = |(device, engine): (usize, Box<dyn Engine>)| Keeper::new(device, engine, cpus.of(device));
    let mut keepers: Vec<_> = engines.into_iter().enumerate().map(keep).collect();
    let asked = loop {
        let mut fds = [PollFd::new(wake.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut fds, PollTimeout::from(LOOK_MS));
        let _ = wake.read();
        if signals::has_panicked() {
            break false;
        }
        let came = signals::take();
        if let Some(s) = came.ending() {
            tracing::info!("{s}: zero force, then the end");
            break true;
        }
        if came.stop() {
            keeper::suspend(&keepers);
        }
        if stop.load(Relaxed) {
            break true;
        }
        if signals::take_mended() {
            board.warn(
                "the device's probe page was cut or its disk failed: what the motors are told can no longer be seen from \
                 outside, and `hapticd zero` cannot reach them; restart hapticd, and let nothing else write device.probe",
            );
        }
        for keeper in &mut keepers {
            if keeper.look(&bridge, &board) {
                // The new servo has felt nothing yet.
                publish();
            }
        }
        if keepers.iter().all(Keeper::given_up) {
            // Nothing is left to serve; whoever starts the daemon anew has it afresh.
            break false;
        }
        let servos: Vec<_> = keepers.iter().map(Keeper::counters).collect();
        watchdog.feed(&bridge.shared, &servos);
    };

    watchdog.stopping();
    let ending = keeper::end(keepers);
    sessions.broadcast("shutdown", "the daemon is shutting down");
    recordings.iter().for_each(|r| r.finish(&bridge));
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
    Ok(Ending { asked: asked && ending.asked && !signals::has_panicked(), zero: ending.zero })
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
        roles: board.roles().to_vec(),
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
