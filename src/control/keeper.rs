//! Keeping the servo of each device running, and ending all of them in order.

use super::bridge::{Bridge, Request};
use super::cpu::Cpus;
use super::signals;
use super::status::StatusBoard;
use super::supervisor::{Engine, Started};
use crate::servo::handle::{Counters, Flags};
use crate::servo::record::{Fault, ServoState};
use nix::sys::signal::Signal;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two attempts to open a device.
const RETRY: Duration = Duration::from_secs(2);
/// A device whose servos have panicked so often is left alone.
const MAX_PANICS: u32 = 5;
/// Longest wait for room in the bridge's queue.
const BRIDGE: Duration = Duration::from_millis(500);
/// Time in which the servos must have commanded their last zero.
const LAST_ZERO: Duration = Duration::from_secs(2);

struct Servo {
    flags: Flags,
    counters: Arc<Counters>,
    join: Option<Box<dyn FnOnce() -> bool + Send>>,
}

/// Keeps the servo of a device running: starts it, and starts another when it has ended.
pub(super) struct Keeper {
    device: usize,
    engine: Option<Box<dyn Engine>>,
    cpus: Cpus,
    coming: Option<mpsc::Receiver<(Box<dyn Engine>, Result<Started, String>)>>,
    servo: Option<Servo>,
    next: Instant,
    last_error: String,
    /// The next servo is not the first.
    again: bool,
    /// The end of the servo before: its device may take its time to be closed.
    joining: Option<JoinHandle<bool>>,
    /// Servos that panicked.
    panics: u32,
}

impl Keeper {
    /// For the device of that number; `cpus` as its servo sees them.
    pub(super) fn new(device: usize, engine: Box<dyn Engine>, cpus: Cpus) -> Self {
        Self {
            device,
            engine: Some(engine),
            cpus,
            coming: None,
            servo: None,
            next: Instant::now(),
            last_error: String::new(),
            again: false,
            joining: None,
            panics: 0,
        }
    }

    /// True once no further servo is started for the device.
    pub(super) fn given_up(&self) -> bool {
        self.panics >= MAX_PANICS && self.servo.is_none()
    }

    /// Those of the servo, while one runs.
    pub(super) fn counters(&self) -> Option<&Counters> {
        self.servo.as_ref().map(|s| &*s.counters)
    }

    /// Looks after it; true when a servo has come in place of an earlier one, which needs the scene once more.
    pub(super) fn look(&mut self, bridge: &Bridge, board: &StatusBoard) -> bool {
        if let Some(servo) = self.servo.take_if(|s| s.counters.ended()) {
            self.lost(servo, bridge, board);
        }
        if self.joining.take_if(|j| j.is_finished()).is_some() {
            self.next = Instant::now() + RETRY;
        }
        let idle = self.servo.is_none() && self.coming.is_none() && self.joining.is_none();
        if idle && self.panics < MAX_PANICS && Instant::now() >= self.next {
            self.begin();
        }
        let Some(coming) = &self.coming else { return false };
        let Ok((engine, result)) = coming.try_recv() else { return false };
        self.coming = None;
        self.engine = Some(engine);
        match result {
            Ok(started) => {
                self.welcome(started, bridge, board);
                std::mem::take(&mut self.again)
            }
            Err(e) => {
                if e != self.last_error {
                    board.warn_of(self.device, format_args!("no device yet: {e}"));
                    self.last_error = e;
                }
                self.next = Instant::now() + RETRY;
                false
            }
        }
    }

    /// A servo has ended by itself. Closing its device may block: a thread of its own does it, so that the others are looked after.
    fn lost(&mut self, mut servo: Servo, bridge: &Bridge, board: &StatusBoard) {
        let panicked = servo.counters.fault() == Fault::Panic;
        self.panics += u32::from(panicked);
        // Whoever did not take its zero has ended the daemon: see the panic hook.
        let what = if panicked {
            "the servo panicked, which is a bug; the device got zero"
        } else {
            "the servo has ended"
        };
        let next = if self.panics < MAX_PANICS {
            "it is started again"
        } else {
            "it is left alone until hapticd is started anew"
        };
        board.warn_of(self.device, format_args!("{what}; {next}"));
        self.again = true;
        tell(bridge, Request::Detach(self.device));
        board.no_servo(self.device);
        self.next = Instant::now() + RETRY;
        if let Some(join) = servo.join.take() {
            self.joining = std::thread::Builder::new().name("device-end".into()).spawn(join).ok();
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
        signals::watch(self.device, flags.clone(), counters.clone());
        match board.name(self.device) {
            Some(role) => tracing::info!(device = %s.device, %role, "the servo runs"),
            None => tracing::info!(device = %s.device, "the servo runs"),
        }
        for note in s.rt.iter().filter(|n| !n.ok) {
            tracing::warn!("real-time: {}: {}; cure: {}", note.what, note.why, note.cure);
        }
        board.servo(self.device, &s.device, s.rt, s.limits, counters.clone());
        self.servo = Some(Servo { flags, counters, join: Some(s.join) });
        tell(bridge, Request::Attach(self.device, Box::new(s.handle)));
    }
}

/// The bridge must know which servos there are; one that takes nothing is hung, and nobody's lease is safe with it.
fn tell(bridge: &Bridge, request: Request) {
    if !bridge.send_within(request, BRIDGE) {
        tracing::error!("the bridge takes no requests; the force is taken away");
        signals::give_up();
    }
}

/// SIGTSTP: zero first, from every servo, then stop.
pub(super) fn suspend(keepers: &[Keeper]) {
    let servos = || keepers.iter().filter_map(|k| k.servo.as_ref());
    servos().for_each(|s| s.flags.disarm());
    if servos().next().is_some() {
        let until = Instant::now() + Duration::from_millis(500);
        let on = |s: &Servo| matches!(s.counters.state(), ServoState::Armed | ServoState::Rendering);
        while servos().any(on) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        // The tick that went idle has written zero; two more periods for a device with its own thread.
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = nix::sys::signal::raise(Signal::SIGSTOP);
}

/// Zero from every servo, then the end of their threads; true when that is confirmed for each. All are told before one is waited for.
pub(super) fn end(keepers: Vec<Keeper>) -> bool {
    let mut joining = Vec::new();
    let mut servos = Vec::new();
    for keeper in keepers {
        servos.extend(keeper.servo);
        joining.extend(keeper.joining);
    }
    for s in &servos {
        s.flags.disarm();
        s.flags.stop();
    }
    let until = Instant::now() + LAST_ZERO;
    let closed = || joining.iter().all(JoinHandle::is_finished);
    while !(servos.iter().all(|s: &Servo| s.counters.ended()) && closed()) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(2));
    }
    let ended = |s: &mut Servo| {
        if !s.counters.ended() {
            tracing::error!("a servo did not end within 2 s; run `hapticd zero`");
            return false;
        }
        s.join.take().is_none_or(|join| join())
    };
    servos.iter_mut().map(ended).fold(true, |all, one| all & one)
}
