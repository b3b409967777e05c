//! Keeping the servo of each device running, and ending all of them in order.

use super::bridge::{Bridge, Request};
use super::cpu::Cpus;
use super::signals;
use super::status::StatusBoard;
use super::supervisor::{Ending, Engine, Join, Started};
use crate::servo::handle::{Counters, Flags, ServoHandle};
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
/// Time after that in which the devices of servos that have must be closed: one's I/O thread is waited for 1.5 s.
const LAST_CLOSE: Duration = Duration::from_millis(1600);

struct Servo {
    flags: Flags,
    counters: Arc<Counters>,
    join: Option<Join>,
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
    joining: Option<JoinHandle<Ending>>,
    /// The servo before has ended, nobody knows whether its device took its zero, and no servo has come since to say so.
    in_doubt: bool,
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
            in_doubt: false,
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
        if let Some(joining) = self.joining.take_if(|j| j.is_finished()) {
            self.closed(joining.join().is_ok_and(|e| e.zero), board);
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
            match std::thread::Builder::new().name("device-end".into()).spawn(join) {
                Ok(joining) => self.joining = Some(joining),
                Err(_) => self.closed(false, board),
            }
        }
    }

    /// The device of a servo that had ended is closed; `zero`: nothing says that it did not take its last zero.
    fn closed(&mut self, zero: bool, board: &StatusBoard) {
        self.in_doubt = !zero;
        if !zero {
            board.warn_of(
                self.device,
                "the device did not confirm its last zero when its servo ended; it gets another once it can be opened again; until \
                 then keep a hand on its power switch",
            );
        }
    }

    /// Opening a device may block for seconds: a thread of its own does it.
    fn begin(&mut self) {
        let Some(mut engine) = self.engine.take() else { return };
        let (tell, hear) = mpsc::channel();
        let (device, cpus) = (self.device, self.cpus.clone());
        let opening = move || {
            // The servo's thread inherits both: it may pin itself anywhere, and no handler ever runs in it.
            cpus.everywhere();
            // Before its thread runs: a panic in its first tick is its own.
            let watch = |servo: &ServoHandle| signals::watch(device, servo.disarm_flag(), servo.counters());
            let result = signals::blocked(|| engine.start(&cpus, &watch));
            if result.is_err() {
                signals::unwatch(device);
            }
            let _ = tell.send((engine, result));
        };
        if std::thread::Builder::new().name("device".into()).spawn(opening).is_ok() {
            self.coming = Some(hear);
        }
    }

    fn welcome(&mut self, s: Started, bridge: &Bridge, board: &StatusBoard) {
        let (flags, counters) = (s.handle.disarm_flag(), s.handle.counters());
        match board.name(self.device) {
            Some(role) => tracing::info!(device = %s.device, %role, "the servo runs"),
            None => tracing::info!(device = %s.device, "the servo runs"),
        }
        for note in s.rt.iter().filter(|n| !n.ok) {
            tracing::warn!("real-time: {}: {}; cure: {}", note.what, note.why, note.cure);
        }
        board.servo(self.device, &s);
        self.servo = Some(Servo { flags, counters, join: Some(s.join) });
        self.in_doubt = false;
        tell(bridge, Request::Attach(self.device, Box::new(s.handle), s.limits));
    }
}

/// The bridge must know which servos there are; one that takes nothing is hung, and nobody's lease is safe with it.
fn tell(bridge: &Bridge, request: Request) {
    if !bridge.send_within(request, BRIDGE) {
        tracing::error!("the bridge takes no requests; the force is taken away");
        signals::give_up();
    }
}

/// Longest wait of a process that stops for zeros that are on their way.
const LAST_PACKETS: Duration = Duration::from_millis(200);

/// Commands on their way to devices whose I/O threads send them, from now on.
struct Sending<'a>(Vec<(&'a Counters, u64)>);

impl<'a> Sending<'a> {
    fn of(servos: impl Iterator<Item = &'a Counters>) -> Self {
        Self(servos.filter_map(|c| Some((c, c.packets()?))).collect())
    }

    /// What was commanded before is at the motors of all: the packet that was under way, and one made after it. One that is gone by now has none.
    fn arrived(&self) -> bool {
        let on = |(servo, before): &(&Counters, u64)| {
            servo.packets().is_some_and(|now| now.wrapping_sub(*before) < 2)
        };
        !self.0.iter().any(on)
    }

    /// False when that takes longer.
    fn wait(&self, longest: Duration) -> bool {
        let until = Instant::now() + longest;
        while !self.arrived() {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
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
        // The tick that went idle has written zero, which may lie in a mailbox yet while a write of a device's I/O thread takes its time.
        std::thread::sleep(Duration::from_millis(5));
        if !Sending::of(servos().map(|s| &*s.counters)).wait(LAST_PACKETS) {
            tracing::warn!(
                "stopped before each device had taken its zero; what its motors hold then is its own: keep a hand on its power switch"
            );
        }
    }
    let _ = nix::sys::signal::raise(Signal::SIGSTOP);
}

/// Zero from every servo, then the end of their threads. All are told before one is waited for, and none waits for another.
pub(super) fn end(keepers: Vec<Keeper>) -> Ending {
    let (mut earlier, mut servos) = (Vec::new(), Vec::new());
    let mut ending = Ending::GOOD;
    for keeper in keepers {
        ending.zero &= !keeper.in_doubt;
        servos.extend(keeper.servo);
        earlier.extend(keeper.joining);
    }
    for s in &servos {
        s.flags.disarm();
        s.flags.stop();
    }
    let begin = Instant::now();
    let close =
        |s: &mut Servo| std::thread::Builder::new().name("device-end".into()).spawn(s.join.take()?).ok();
    let closing: Vec<Option<JoinHandle<Ending>>> = servos.iter_mut().map(close).collect();
    let all = || closing.iter().flatten().chain(&earlier).all(JoinHandle::is_finished);
    let ended = || servos.iter().all(|s| s.counters.ended());
    while !all() && begin.elapsed() < LAST_ZERO + if ended() { LAST_CLOSE } else { Duration::ZERO } {
        std::thread::sleep(Duration::from_millis(2));
    }
    if !ended() {
        tracing::error!("a servo did not end within 2 s; run `hapticd zero`");
    }
    let unknown = Ending { asked: true, zero: false };
    let result = |j: JoinHandle<Ending>| if j.is_finished() { j.join().unwrap_or(unknown) } else { unknown };
    for one in closing {
        ending = ending.and(one.map_or(unknown, result));
    }
    for one in earlier {
        // That it panicked was told when it did.
        ending.zero &= result(one).zero;
    }
    ending
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl Engine for Nothing {
        fn profile(&self) -> &'static str {
            "none"
        }

        fn start(&mut self, _: &Cpus, _: super::super::supervisor::Watch<'_>) -> Result<Started, String> {
            Err("there is none".into())
        }
    }

    fn keeper() -> Keeper {
        let cpus = Cpus::split(crate::config::Core::Auto).expect("CPUs");
        Keeper::new(0, Box::new(Nothing), cpus)
    }

    /// With a servo that has ended, and whose device says that of its last zero.
    fn with_servo(ending: Ending) -> Keeper {
        let counters = Arc::new(Counters::ending(true, None));
        let servo = Servo { flags: Flags::default(), counters, join: Some(Box::new(move || ending)) };
        Keeper { servo: Some(servo), ..keeper() }
    }

    /// Of several devices each bad answer is heard, to the question that it answers and to no other.
    #[test]
    fn of_all_ends_the_worst_is_told_of_each_question() {
        let all =
            [true, false].into_iter().flat_map(|asked| [true, false].map(|zero| Ending { asked, zero }));
        for one in all.clone() {
            for other in all.clone() {
                let keepers = vec![with_servo(one), with_servo(other), keeper()];
                let both = Ending { asked: one.asked && other.asked, zero: one.zero && other.zero };
                assert_eq!(end(keepers), both, "{one:?} {other:?}");
            }
        }
        // A servo that panicked earlier is no fault of this end, a zero that its device did not take is.
        for earlier in all {
            let joining = std::thread::spawn(move || earlier);
            let keepers = vec![with_servo(Ending::GOOD), Keeper { joining: Some(joining), ..keeper() }];
            assert_eq!(end(keepers), Ending { asked: true, zero: earlier.zero }, "{earlier:?}");
            let keepers = vec![with_servo(Ending::GOOD), Keeper { in_doubt: !earlier.zero, ..keeper() }];
            assert_eq!(end(keepers), Ending { asked: true, zero: earlier.zero });
        }
    }

    /// Closing that panics, or a device that never ends to be closed: nobody knows.
    #[test]
    fn an_end_that_nobody_tells_is_not_confirmed() {
        let hangs = || -> Join {
            Box::new(|| {
                loop {
                    std::thread::park();
                }
            })
        };
        let panics: Join = Box::new(|| std::panic::resume_unwind(Box::new("no hook is called")));
        for join in [hangs(), panics] {
            let mut keeper = with_servo(Ending::GOOD);
            keeper.servo.as_mut().expect("a servo").join = Some(join);
            assert!(!end(vec![keeper, with_servo(Ending::GOOD)]).zero);
        }
        // One whose servo does not end at all.
        let mut keeper = with_servo(Ending::GOOD);
        let servo = keeper.servo.as_mut().expect("a servo");
        servo.counters = Arc::new(Counters::ending(false, None));
        servo.join = Some(hangs());
        assert!(!end(vec![keeper]).zero);
    }

    /// A bridge that is hung renews no lease and lets go of nobody: the force ends where that is found, and so does the daemon.
    #[test]
    fn a_bridge_that_takes_nothing_ends_the_force() {
        use super::super::bridge::{BridgeOptions, spawn};
        use std::sync::atomic::Ordering::Relaxed;
        // For the whole process there is no force any more.
        if !signals::testing::alone("control::keeper::tests::a_bridge_that_takes_nothing_ends_the_force") {
            return;
        }
        let options = BridgeOptions {
            socket: super::super::udp::open(0).expect("a socket"),
            sessions: Arc::default(),
            cpus: Cpus::split(crate::config::Core::Auto).expect("CPUs"),
            flight: 0,
            roles: vec!["main".into()],
            dump: Arc::new(|_, _, _| ()),
        };
        let (bridge, thread) = spawn(options).expect("a thread");
        let (handle, mut servo) = signals::testing::armed();
        let counters = handle.counters();
        let owner = || counters.owner.load(Relaxed);
        // One that takes what it is told leaves the force alone.
        tell(&bridge, Request::Detach(7));
        for _ in 0..100 {
            servo.step();
        }
        assert_eq!((owner(), signals::has_panicked()), (1, false));
        tell(&bridge, Request::Stop);
        thread.join().expect("ends");
        tell(&bridge, Request::Detach(7));
        for _ in 0..100 {
            servo.step();
        }
        assert_eq!((owner(), signals::has_panicked()), (0, true));
        assert_eq!((counters.state(), counters.fault()), (ServoState::Fault, Fault::Panic));
    }

    /// What the device of an earlier servo did not confirm stays in doubt until another servo has it.
    #[test]
    fn a_device_that_did_not_confirm_its_zero_is_told_and_stays_in_doubt() {
        let board = StatusBoard::new(&["one".into()]);
        let mut keeper = keeper();
        keeper.closed(true, &board);
        assert!(!keeper.in_doubt);
        keeper.closed(false, &board);
        assert!(keeper.in_doubt && !end(vec![keeper]).zero);
    }

    /// A write of the I/O side that hangs keeps the zero in its mailbox: who stops the process then leaves the force on.
    #[test]
    fn who_stops_waits_until_the_zero_is_at_the_motors() {
        use crate::device::driver::falcon::Falcon;
        use crate::device::emulated::{self, Bus, Plugged, Stepped};
        use crate::device::{Device, registry::Registry, simulated::HandScript};
        use crate::geometry::{Vec3, Wrench};
        const MS: u64 = 1_000_000;
        let profile = Registry::builtin().profile("novint-falcon").expect("shipped");
        let setup = emulated::falcon::Setup { hold_ns: u64::MAX, ..Default::default() };
        let gadget =
            emulated::falcon::Falcon::new(&profile, &HandScript::default(), setup).expect("in reach");
        let bus = Plugged::new(Bus::new(gadget, 0.0, 0, false));
        let mut device = Stepped::new(profile, Box::new(Falcon::new(None)), bus.clone());
        let io = device.io().expect("its I/O");
        let servo = Counters::ending(false, Some(io));
        assert!(Sending::of([&servo].into_iter()).arrived(), "nothing is there");
        assert!(device.until_ready(1000 * MS));
        let push = Wrench { force: Vec3::new(0.3, -0.2, 0.25), torque: Vec3::zeros() };
        for late in 0..30 {
            for _ in 0..10 {
                let now = device.now_ns() + MS;
                let _ = (device.read(now), device.write(now, &push));
            }
            let now = device.now_ns() + late * MS / 15;
            device.advance(now);
            assert_ne!(bus.bus().gadget.codes(), [0; 3]);
            bus.bus().stall(now, now + 50 * MS);
            device.zero(now);
            let sending = Sending::of([&servo].into_iter());
            for k in 1..50 {
                device.advance(now + k * MS);
                assert!(!sending.arrived(), "{late}: nothing moves");
            }
            assert!(!sending.wait(Duration::from_millis(1)));
            let arrived = (50..60).find(|k| {
                device.zero(now + k * MS);
                device.advance(now + k * MS);
                sending.arrived()
            });
            assert!(arrived.is_some(), "{late}");
            assert_eq!(bus.bus().gadget.codes(), [0; 3], "{late}");
        }
        bus.bus().unplug(device.now_ns());
        let sending = Sending::of([&servo].into_iter());
        let now = device.now_ns() + 10 * MS;
        device.advance(now);
        assert!(sending.arrived(), "gone: nothing to wait for");
    }
}
