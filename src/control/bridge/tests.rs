use super::*;
use crate::config::Core;
use crate::control::peer::Peer;
use crate::control::session::Applicant;
use crate::protocol::messages::Role;
use crate::servo::handle::{ServoConfig, channel};

fn bridge() -> (Bridge, Arc<Sessions>, std::thread::JoinHandle<()>) {
    let sessions = Arc::new(Sessions::default());
    let (bridge, thread) = spawn(BridgeOptions {
        socket: super::super::udp::open(0).unwrap(),
        sessions: sessions.clone(),
        cpus: Cpus::split(Core::Auto).unwrap(),
        flight: 0,
        roles: vec!["main".into()],
        dump: Arc::new(|_, _, _| ()),
    })
    .unwrap();
    (bridge, sessions, thread)
}

fn session(sessions: &Sessions) -> Arc<Session> {
    admit(sessions, None).0
}

/// A connection's session, and whether it is that of the token.
fn admit(sessions: &Sessions, token: Option<&str>) -> (Arc<Session>, bool) {
    let peer = Peer { pid: 1, uid: 2, groups: vec![] };
    let outbox = Arc::new(Outbox::default());
    let a = Applicant { peer: &peer, client: "t", role: Role::Owner, token, outbox };
    sessions.admit(a, 9).unwrap()
}

#[tokio::test]
async fn a_contact_that_ends_names_the_object_that_was_touched() {
    let mut telemetry = telemetry::Telemetry::new(None, 0, Box::new(|_, _| ()));
    let outbox = Arc::new(Outbox::default());
    telemetry.subscribe(1, outbox.clone(), 1.0);
    let record =
        |tick, flags, deepest_object| TickRecord { tick, flags, deepest_object, ..TickRecord::default() };
    use crate::servo::record::{FLAG_CONTACT_BEGIN, FLAG_CONTACT_END};
    for r in [record(4, FLAG_CONTACT_BEGIN, 7), record(5, 0, 9), record(6, FLAG_CONTACT_END, 0)] {
        telemetry.take(&r, &mut Vec::new());
    }
    for expect in ["object 7 at tick 4", "object 9 at tick 6"] {
        let line = String::from_utf8(outbox.next().await.unwrap()).unwrap();
        assert!(line.contains(expect), "{line}");
    }
}

/// What its device bears, N, N·m, m/s.
const CAPS: [f64; 3] = [5.0, 0.5, 1.0];

/// A servo on the virtual clock, and the bridge's state for it without its thread: armed by one session, and rendering.
struct Stalling {
    state: State,
    servo: crate::servo::run::VirtualServo,
    session: Arc<Session>,
}

impl Stalling {
    fn new() -> Self {
        let mut s = Self::idle();
        let _answer = s.arm();
        s.live(10, true);
        assert_eq!(s.owner(), s.session.id);
        s
    }

    /// Nobody has armed yet.
    fn idle() -> Self {
        let sessions = Arc::new(Sessions::default());
        let shared = Arc::new(Shared::of(1));
        let (_, requests) = bounded(1);
        let options = BridgeOptions {
            socket: super::super::udp::open(0).unwrap(),
            sessions: sessions.clone(),
            cpus: Cpus::split(Core::Auto).unwrap(),
            flight: 0,
            roles: vec!["main".into()],
            dump: Arc::new(|_, _, _| ()),
        };
        let mut state = State::new(options, shared, requests);
        let device = crate::device::registry::Registry::builtin();
        let device = device.open("ideal-6dof", &Default::default()).unwrap();
        // What `run` configures by default.
        let config =
            ServoConfig { lease: crate::config::Config::default().control.lease_s, ..Default::default() };
        let (handle, end) = channel(config);
        let mut servo = crate::servo::run::VirtualServo::new(end, device);
        state.attach(0, Box::new(handle), CAPS);
        let session = session(&sessions);
        state.sessions.insert(session.id, datagrams::Client::new(session.clone(), 1));
        servo.step();
        Self { state, servo, session }
    }

    /// Asks for the force; who waits for the answer.
    fn arm(&mut self) -> oneshot::Receiver<Result<(), RpcError>> {
        let (reply, answer) = oneshot::channel();
        let (session, lease, takeover) = (self.session.id, None, false);
        self.state.handle(Request::Arm(arming::Arm { device: 0, session, lease, takeover, reply }));
        answer
    }

    fn owner(&self) -> u64 {
        self.state.units[0].servo.as_ref().unwrap().counters().owner.load(Relaxed)
    }

    /// Lets `ms` go by: the servo ticks, and the bridge makes its rounds or stands still; the tokio side beats with it.
    fn live(&mut self, ms: u64, bridge: bool) {
        for _ in 0..ms {
            self.servo.step();
            if bridge {
                self.state.shared.beat_ms.store(self.servo.now_ns() / 1_000_000, Relaxed);
                self.round();
            }
        }
    }

    /// Lets `ms` go by without a beat of the tokio side: servo and bridge go on.
    fn without_beat(&mut self, ms: u64) {
        for _ in 0..ms {
            self.servo.step();
            self.round();
        }
    }

    /// A round of the bridge.
    fn round(&mut self) {
        let now = self.servo.now_ns();
        self.state.answer();
        self.state.keep_leases(now);
        self.state.drain(now);
    }
}

/// An owner that is there and says nothing keeps the force while the daemon's own threads are kept from running for as
/// long as a busy machine may keep them (three quarters of a second), whenever that is; and loses it when they hang.
#[tokio::test]
async fn a_late_renewal_does_not_take_the_force_from_a_living_owner() {
    // Right after arming, too: the first renewal is the one that may be late.
    let mut early = Stalling::new();
    early.live(740, false);
    assert_eq!(early.owner(), early.session.id, "stalled right after arming");
    let mut s = Stalling::new();
    for round in 0..5 {
        // Not in step with the renewals.
        s.live(333 + 7 * round, true);
        s.live(750, false);
        assert_eq!(s.owner(), s.session.id, "stall {round}");
    }
    s.live(100, true);
    assert_eq!((s.owner(), s.state.shared.owner(0)), (s.session.id, s.session.id));
    // A control plane that is dead for good.
    s.live(1200, false);
    assert_eq!(s.owner(), 0);
    s.live(1, true);
    assert_eq!(s.state.shared.owner(0), 0);
}

/// The bridge renews what the tokio side lives for: where that hangs, nobody would hear of an owner that has gone.
#[tokio::test]
async fn a_tokio_side_that_hangs_loses_the_force_though_the_bridge_goes_on() {
    let mut s = Stalling::new();
    s.live(100, true);
    // As long as a busy machine may keep it from running it keeps the force.
    s.without_beat(750);
    assert_eq!((s.owner(), s.state.shared.owner(0)), (s.session.id, s.session.id));
    s.live(100, true);
    assert_eq!(s.owner(), s.session.id);
    s.without_beat(1200);
    assert_eq!((s.owner(), s.state.shared.owner(0)), (0, 0));
    // That it comes back brings nothing back.
    s.live(100, true);
    assert_eq!((s.owner(), s.state.shared.owner(0)), (0, 0));
}

/// The force was the old connection's, which nobody has told to end: the new one must arm for itself.
#[tokio::test]
async fn a_session_that_is_resumed_beside_its_old_connection_has_no_force() {
    let mut s = Stalling::new();
    let (session, resumed) = admit(&s.state.all, Some(s.session.token()));
    assert!(resumed && session.id == s.session.id);
    s.state.handle(Request::Open(session));
    s.live(100, true);
    assert_eq!((s.owner(), s.state.shared.owner(0)), (0, 0));
    let answer = s.arm();
    s.live(10, true);
    assert_eq!((answer.await.unwrap().map_err(|e| e.code), s.owner()), (Ok(()), s.session.id));
}

/// The device's own limits, those of the configuration and the least that a client has asked for: in the answer, and for `status`.
#[tokio::test]
async fn what_is_told_of_the_limits_is_what_holds_now() {
    let mut s = Stalling::idle();
    let velocity = CAPS[2].min(ServoConfig::default().max_velocity);
    assert_eq!(s.state.shared.devices[0].limits(), Some([CAPS[0], CAPS[1], velocity]));
    let mut lower = |force: Option<f64>, torque: Option<f64>| {
        let (reply, mut answer) = oneshot::channel();
        s.state.handle(Request::Limits { device: 0, force, torque, velocity: None, reply });
        s.live(2, true);
        let told = answer.try_recv().unwrap().unwrap();
        let told = [told.force, told.torque, told.velocity];
        assert_eq!(s.state.shared.devices[0].limits(), Some(told));
        told
    };
    assert_eq!(lower(None, Some(0.2)), [CAPS[0], 0.2, velocity]);
    assert_eq!(lower(Some(99.0), Some(9.0)), [CAPS[0], 0.2, velocity], "nothing is raised");
    assert_eq!(lower(Some(1.5), None), [1.5, 0.2, velocity]);
    // A servo that comes after it has them, too, and the time between says nothing else.
    s.state.handle(Request::Detach(0));
    assert_eq!(s.state.shared.devices[0].limits(), Some([1.5, 0.2, velocity]));
    let (handle, _end) = channel(ServoConfig { max_torque: 0.1, ..ServoConfig::default() });
    s.state.handle(Request::Attach(0, Box::new(handle), CAPS));
    assert_eq!(s.state.shared.devices[0].limits(), Some([1.5, 0.1, velocity]));
}

/// Two sessions lower different ones before the servo has answered either: both hold.
#[tokio::test]
async fn limits_that_are_asked_for_at_once_all_hold() {
    let mut s = Stalling::idle();
    let mut answers = Vec::new();
    for (force, torque) in [(Some(1.5), None), (None, Some(0.1)), (Some(3.0), None)] {
        let (reply, answer) = oneshot::channel();
        s.state.handle(Request::Limits { device: 0, force, torque, velocity: None, reply });
        answers.push(answer);
    }
    s.live(2, true);
    for (answer, torque) in answers.iter_mut().zip([CAPS[1], 0.1, 0.1]) {
        let told = answer.try_recv().unwrap().unwrap();
        assert_eq!((told.force, told.torque), (1.5, torque));
    }
    let now = s.state.shared.devices[0].limits().unwrap();
    assert_eq!(now[..2], [1.5, 0.1]);
}

/// Who was told that the servo did not answer in time, or has gone, is not given the force when it does.
#[tokio::test]
async fn a_request_to_arm_that_was_given_up_brings_no_force() {
    let mut s = Stalling::idle();
    drop(s.arm());
    for _ in 0..100 {
        s.live(1, true);
        assert_eq!(s.state.shared.owner(0), 0);
    }
    assert_eq!(s.owner(), 0, "and the servo is nobody's");
    let answer = s.arm();
    s.live(10, true);
    assert_eq!((answer.await.unwrap().map_err(|e| e.code), s.owner()), (Ok(()), s.session.id));
}

fn code<T: std::fmt::Debug>(r: Result<T, RpcError>) -> i32 {
    r.unwrap_err().code
}

#[tokio::test]
async fn without_a_device_requests_are_refused_and_disarming_is_fine() {
    let (bridge, sessions, thread) = bridge();
    let s = session(&sessions);
    bridge.send(Request::Open(s.clone()));
    let arm =
        |reply| Request::Arm(arming::Arm { device: 0, session: s.id, lease: None, takeover: false, reply });
    assert_eq!(code(bridge.ask(arm).await), codes::SERVO);
    assert_eq!(code(bridge.ask(|r| Request::Command(0, ServoCommand::ClearFault, r)).await), codes::SERVO);
    bridge.ask(|reply| Request::Disarm { device: 0, session: s.id, any: false, reply }).await.unwrap();
    bridge.send(Request::Stop);
    thread.join().unwrap();
    assert_eq!(code(bridge.ask(|r| Request::Command(0, ServoCommand::ClearFault, r)).await), codes::LIMIT);
}

#[tokio::test]
async fn streams_are_opened_for_sessions_and_end_with_them() {
    let (bridge, sessions, thread) = bridge();
    let s = session(&sessions);
    bridge.send(Request::Open(s.clone()));
    let open = |reply| Request::Motion { session: s.id, delay_ns: 5_000_000, lease_ns: 1, reply };
    let first = bridge.ask(open).await.unwrap();
    assert_eq!((first.stream, first.delay_s), (1, 0.005));
    for _ in 1..super::super::motion::MAX_STREAMS {
        bridge.ask(open).await.unwrap();
    }
    assert_eq!(code(bridge.ask(open).await), codes::LIMIT);
    bridge.send(Request::Close(s.id));
    bridge.send(Request::Open(s.clone()));
    assert_eq!(bridge.ask(open).await.unwrap().stream, 1);
    bridge.send(Request::Stop);
    thread.join().unwrap();
}
