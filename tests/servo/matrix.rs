//! Every fault of the table in docs/safety.md, run: a simulated device in a hand that presses on a floor, through the shipped tick.
//!
//! Always: the command stays below a limit just above what is pressed and grows by no more than a slew limit just above what pressing
//! takes, zero is read at the motors, and when the force comes back it does not throw the hand off.

use crate::device::{Inside, Watched};
use crate::grip::{slab, spheres};
use crate::world::{Bench, MS, cube_tool, floor, norm, object, scene, sphere_tool, streamed};
use hapticd::contact::ObjectShape;
use hapticd::control::motion::{Fate, MotionTable, Moving};
use hapticd::device::Device;
use hapticd::device::profile::Profile;
use hapticd::device::registry::Registry;
use hapticd::device::simulated::{
    Fault as Wrong, FaultKind, Faults, Hand, HandScript, Setup, SimulatedDevice,
};
use hapticd::geometry::{Pose, Vec3, Wrench};
use hapticd::haptics::coupling::{Coupling, Law};
use hapticd::haptics::guard::energy::EnergyGuard;
use hapticd::protocol::datagram::{Header, Kind, MotionPose};
use hapticd::scene::snapshot::{MotionFrame, Tool};
use hapticd::servo::handle::{ServoCommand, ServoConfig};
use hapticd::servo::record::{
    FLAG_ENERGY_BOUND, FLAG_SATURATED, FLAG_SLEW, Fault, ServoState, TickRecord, ZeroReason,
};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex};

/// What the hand presses with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Presses {
    Ball,
    /// A cube of 2 cm, its lower face flat on the floor.
    Points,
    Spheres,
}

/// A device, a law, a tool.
#[derive(Clone, Copy, Debug)]
pub struct Case(pub &'static str, pub Law, pub Presses);

pub const CASES: [Case; 12] = [
    Case("ideal-6dof", Law::Direct, Presses::Ball),
    Case("novint-falcon", Law::Direct, Presses::Ball),
    Case("phantom-omni", Law::Direct, Presses::Ball),
    Case("ideal-6dof", Law::Dynamic, Presses::Points),
    Case("ideal-6dof", Law::Static, Presses::Spheres),
    Case("novint-falcon", Law::Dynamic, Presses::Ball),
    Case("phantom-omni", Law::Static, Presses::Ball),
    Case("phantom-premium-1.5", Law::Direct, Presses::Ball),
    Case("novint-falcon-mh", Law::Direct, Presses::Ball),
    Case("woodenhaptics-v2015", Law::Direct, Presses::Ball),
    Case("woodenhaptics-v2019", Law::Direct, Presses::Ball),
    Case("woodenhaptics-vintage", Law::Direct, Presses::Ball),
];
/// Time of the fault, s.
const AT: f64 = 3.0;
/// Of the whole tool on the floor, N/m.
pub const STIFFNESS: f64 = 600.0;
/// Fastest growth of the force, N/s: pressing takes half of it.
const SLEW: f64 = 50.0;
/// Largest force from the fault on, in multiples of what is pressed.
const ROOM: f64 = 1.1;
/// Farthest place from the device's origin, m.
const REACH: f64 = 0.04;

impl Case {
    pub fn tool(self) -> Arc<Tool> {
        static POINTS: LazyLock<Arc<Tool>> = LazyLock::new(|| cube_tool(800));
        static TREE: LazyLock<Arc<Tool>> = LazyLock::new(|| spheres(400));
        match self.2 {
            Presses::Ball => sphere_tool(0.01),
            Presses::Points => POINTS.clone(),
            Presses::Spheres => TREE.clone(),
        }
    }

    fn shape(self) -> ObjectShape {
        static SLAB: LazyLock<ObjectShape> = LazyLock::new(slab);
        if self.2 == Presses::Spheres { SLAB.clone() } else { floor() }
    }

    /// Of the material: a face has 4 cm^2.
    pub fn part(self) -> f64 {
        if self.2 == Presses::Ball { 1.0 } else { 0.25 }
    }
}

/// Comes down from 20 mm above the floor, presses the tool in, and after a while goes aside.
const PRESS: &str = "hand = 'firm'
[[keyframe]]
time = 0.0
position = [0.0, 0.03, 0.0]
[[keyframe]]
time = 0.8
position = [0.0, 0.03, 0.0]
[[keyframe]]
time = 1.5
position = [0.0, 0.004, 0.0]
";
const STAYS: &str = "[[keyframe]]
time = 20.0
position = [0.0, 0.004, 0.0]
";
const GOES_ASIDE: &str = "[[keyframe]]
time = 3.0
position = [0.0, 0.004, 0.0]
[[keyframe]]
time = 3.3
position = [0.06, 0.004, 0.0]
";

/// Who streams the floor's poses.
enum Client {
    /// Through the control plane, by the client's own clock, which says so much more than the servo's, ns.
    Sends { table: Box<MotionTable>, stream: u16, seq: u32, leap_ns: i64 },
    /// As the servo would get them if the control plane took the client's times as they are.
    Raw { frames: u64, leap_ns: i64 },
}

impl Client {
    fn sends() -> Self {
        let mut table = Box::<MotionTable>::default();
        table.set_objects(&[Moving { index: 0, id: 1, incarnation: 1, owner: 1, persistent: false }]);
        let stream = table.open(1, 13 * MS, 100 * MS, 0).expect("a stream");
        Self::Sends { table, stream, seq: 0, leap_ns: 0 }
    }

    fn leap(&mut self, by_ns: i64) {
        let (Self::Sends { leap_ns, .. } | Self::Raw { leap_ns, .. }) = self;
        *leap_ns += by_ns;
    }

    /// Half a millimetre up and down once a second: 3 mm/s, of which ten seconds would be 3 cm.
    fn height(ns: u64) -> f64 {
        5e-4 * (std::f64::consts::TAU * ns as f64 * 1e-9).sin()
    }

    fn frame(&mut self, now: u64) -> Option<Box<MotionFrame>> {
        match self {
            Self::Sends { table, stream, seq, leap_ns } => {
                if now.is_multiple_of(2 * MS) {
                    // Started a thousand seconds before the servo.
                    let time_ns = (now + 1_000_000 * MS).saturating_add_signed(*leap_ns);
                    let header = Header {
                        kind: Kind::Motion,
                        minor: 0,
                        seq: *seq,
                        session: 1,
                        time_ns,
                        stream: *stream,
                        count: 1,
                        entry_size: 64,
                    };
                    *seq += 1;
                    let pose = MotionPose {
                        object: 1,
                        position: [0.0, Self::height(now), 0.0],
                        orientation: [0.0, 0.0, 0.0, 1.0],
                    };
                    let fate = table.feed(&header, &[pose], now);
                    assert!(matches!(fate, Fate::Taken { strangers: 0, .. }), "{fate:?}");
                }
                table.frame()
            }
            Self::Raw { frames, leap_ns } => {
                *frames += 1;
                let newest = (now / (2 * MS) * 2 * MS).saturating_add_signed(*leap_ns);
                let path = |ns: u64| Vec3::y() * Self::height(ns.saturating_add_signed(-*leap_ns));
                let entries = vec![Some(streamed(1, newest, now + 100 * MS, path))];
                Some(Box::new(MotionFrame { sequence: *frames, entries }))
            }
        }
    }
}

struct Rig {
    case: Case,
    bench: Bench,
    inside: Arc<Mutex<Inside>>,
    profile: Arc<Profile>,
    tool: Arc<Tool>,
    shape: ObjectShape,
    client: Option<Client>,
    /// Of the floor, m.
    height: f64,
    generation: u64,
    /// The last command, and the force of the motors, N.
    asked: Wrench,
    last: f64,
    /// Ticks for which the command has been zero.
    silent: u32,
    /// The device is not to be told anything any more: only its own watchdog ends its force.
    deaf: bool,
    /// Force before the fault, N, of the motors and of the contact alone, and the limit.
    pressed: f64,
    carried: f64,
    limit: f64,
    /// Ticks in which the limit of the force and the slew limit held the command back.
    held_back: (u32, u32),
}

impl Rig {
    /// Presses, fully on, until the next tick is the one at [`AT`].
    fn pressing(case: Case, faults: Vec<Wrong>, drop_rate: f64) -> Self {
        Self::with(case, faults, drop_rate, STAYS, None)
    }

    fn with(case: Case, faults: Vec<Wrong>, drop_rate: f64, then: &str, client: Option<Client>) -> Self {
        let setup = Setup {
            hand: HandScript::parse(&format!("{PRESS}{then}")).expect("a hand"),
            faults: Faults(faults),
            drop_rate,
            ..Setup::default()
        };
        Self::of(case, setup, client, case.shape(), None)
    }

    fn of(
        case: Case,
        setup: Setup,
        client: Option<Client>,
        shape: ObjectShape,
        energy: Option<EnergyGuard>,
    ) -> Self {
        let Case(name, law, _) = case;
        let profile = Registry::builtin().profile(name).expect("shipped");
        let mut device = SimulatedDevice::new(profile.clone(), setup).expect("opens");
        device.calibrate().expect("calibrates");
        let (device, inside) = Watched::new(device);
        let config = ServoConfig {
            coupling: Coupling { law, ..Coupling::default() },
            slew_force: SLEW,
            energy,
            // What is asked of a guard goes with walls that make debt: not damped ones.
            damping_time: energy.map(|_| 0.0),
            workspace_factor: REACH / profile.workspace_radius,
            ..ServoConfig::default()
        };
        let mut rig = Self {
            case,
            bench: Bench::new(Box::new(device), config),
            inside,
            limit: profile.max_force,
            profile,
            tool: case.tool(),
            shape,
            client,
            height: 0.0,
            generation: 0,
            asked: Wrench::ZERO,
            last: 0.0,
            silent: 0,
            deaf: false,
            pressed: 0.0,
            carried: 0.0,
            held_back: (0, 0),
        };
        rig.publish(STIFFNESS);
        rig.step();
        rig.bench.handle.send(ServoCommand::Arm { session: 1 }).expect("room");
        rig.bench.handle.send(ServoCommand::Lease { until_ns: u64::MAX }).expect("room");
        while rig.time() + 1.5e-3 < AT {
            rig.step();
        }
        assert_eq!(rig.bench.last.state, ServoState::Rendering, "{case:?}");
        let least = if energy == Some(EnergyGuard::Certified) { 0.2 } else { 0.8 };
        assert!(rig.last > least, "{case:?} presses with {} N", rig.last);
        (rig.pressed, rig.carried) = (rig.last, norm(rig.bench.last.contact_force));
        // What the floor does by itself comes on top of it.
        rig.limit = if rig.client.is_some() { 1.2 } else { 1.0 } * ROOM * rig.asked.force.norm();
        let limits = ServoCommand::Limits { force: rig.limit, torque: 1e3, velocity: 1e3 };
        rig.bench.handle.send(limits).expect("room");
        rig.step();
        assert!((rig.time() - AT).abs() < 1e-9, "{}", rig.time());
        rig.held_back = (0, 0);
        rig
    }

    fn time(&self) -> f64 {
        self.bench.servo.now_ns() as f64 * 1e-9
    }

    fn publish(&mut self, stiffness: f64) {
        self.publish_all(vec![(1, stiffness)]);
    }

    /// The floor, once for each of these.
    fn publish_all(&mut self, floors: Vec<(u32, f64)>) {
        self.generation += 1;
        let objects = floors
            .into_iter()
            .map(|(id, stiffness)| {
                let stiffness = stiffness * self.case.part();
                let mut floor =
                    object(id, self.shape.clone(), Pose::translation(0.0, self.height, 0.0), stiffness);
                floor.motion = self.client.as_ref().map(|_| 0);
                floor
            })
            .collect();
        self.bench.publish(scene(self.generation, &self.tool, objects));
    }

    /// Ticks from a command to the motors: its delay, and one in which the plant goes through the time at which it arrives.
    fn on_its_way(&self) -> u32 {
        let delay = self.profile.transport.write_delay;
        if delay > 0 { delay + 1 } else { 0 }
    }

    /// What the plant's motors give, as the plant itself says.
    fn motors(&self) -> Wrench {
        self.inside.lock().unwrap().device.probe().read().wrench
    }

    fn step(&mut self) -> TickRecord {
        let now = self.bench.servo.now_ns();
        if let Some(frame) = self.client.as_mut().and_then(|c| c.frame(now)) {
            self.bench.handle.publish_motion(frame);
            self.bench.handle.reclaim();
        }
        let r = self.bench.step();
        let (asked, motors) = {
            let inside = self.inside.lock().unwrap();
            (inside.asked, inside.device.probe().read().wrench)
        };
        let (case, time) = (self.case, self.time());
        let what = || format!("{case:?} at {time} s");
        assert!(asked.force.norm() <= self.limit * (1.0 + 1e-9), "{}: {} N", what(), asked.force.norm());
        assert!(asked.torque.norm() <= self.profile.max_torque * (1.0 + 1e-9), "{}", what());
        for (from, to) in self.asked.force.iter().zip(asked.force.iter()) {
            let from = if from * to > 0.0 { from.abs() } else { 0.0 };
            assert!(to.abs() <= from + SLEW * 1e-3 + 1e-12, "{}: {from} to {to} N", what());
        }
        // The motors' force is made of whole codes.
        let (force, rounding) = (motors.force.norm(), 0.02 * self.profile.max_force);
        assert!(force <= self.limit + rounding, "{}: {force} N", what());
        // A command takes so many samples to the motors; what has lost its link keeps the last one.
        self.silent = if asked == Wrench::ZERO { self.silent + 1 } else { 0 };
        if self.silent > self.on_its_way() && !self.deaf {
            assert_eq!(motors, Wrench::ZERO, "{}: {:?}", what(), r.zero);
        }
        self.held_back.0 += u32::from(r.flags & FLAG_SATURATED != 0);
        self.held_back.1 += u32::from(r.flags & FLAG_SLEW != 0);
        (self.asked, self.last) = (asked, force);
        r
    }

    /// Ticks until the motors are told to give no force, 0 for the next one; fails after `most`. They give none when it has arrived.
    fn ticks_to_zero(&mut self, most: u32) -> u32 {
        for k in 0..=most {
            self.step();
            if self.asked == Wrench::ZERO {
                // As `step` asserts: at once, or when a command on its way has come.
                (0..self.on_its_way()).for_each(|_| _ = self.step());
                assert!(self.deaf || self.motors() == Wrench::ZERO, "{:?}: {:?}", self.case, self.motors());
                return k;
            }
        }
        let r = &self.bench.last;
        panic!("{:?}: {} N after {most} ticks, {:?} {:?}", self.case, self.last, r.fault, r.zero);
    }

    /// The fault is there and stays, without force, until it is cleared; then the force comes back by arming alone, and gently.
    fn latched(&mut self, fault: Fault) {
        self.latched_in(fault, false);
    }

    /// What cannot be told gives what it was told last until its own watchdog ends it, where it has one.
    fn lets_go_by_itself(&mut self) {
        let probe = self.inside.lock().unwrap().device.probe();
        let last = probe.read();
        assert!(
            last.wrench != Wrench::ZERO && last.time_ns <= (AT * 1e9) as u64,
            "{:?}: {last:?}",
            self.case
        );
        if let Some(hold) = last.torque_hold_ns {
            assert_eq!(last.wrench_at(last.time_ns + hold + 1), Wrench::ZERO);
        }
    }

    /// The fault is there and stays, without force.
    fn stays(&mut self, fault: Fault) {
        let last = (self.bench.last.state, self.bench.last.fault, self.bench.last.zero);
        assert_eq!(last, (ServoState::Fault, fault, ZeroReason::Fault), "{:?}", self.case);
        for _ in 0..100 {
            let r = self.step();
            assert_eq!((r.state, r.zero, self.asked), (ServoState::Fault, ZeroReason::Fault, Wrench::ZERO));
            assert!(self.deaf || self.motors() == Wrench::ZERO, "{:?}: {:?}", self.case, self.motors());
        }
    }

    /// As [`latched`](Self::latched), where the floor may have `changed` meanwhile.
    fn latched_in(&mut self, fault: Fault, changed: bool) {
        self.stays(fault);
        if self.bench.command(ServoCommand::ClearFault).is_err() || self.bench.last.state != ServoState::Idle
        {
            // What is still broken has no way out but the device's.
            return;
        }
        for _ in 0..100 {
            assert_eq!((self.step().state, self.last), (ServoState::Idle, 0.0), "nothing comes by itself");
        }
        self.bench.own();
        // Inside the floor the gate stays shut; a floor that has changed comes in from nothing.
        let begin = self.time();
        for _ in 0..300 {
            let r = self.step();
            let faded = (self.time() - begin) / ServoConfig::default().fade;
            let gentle = r.state == ServoState::Rendering && self.last <= self.pressed * faded + 0.05;
            assert!(r.state == ServoState::Armed && self.last == 0.0 || changed && gentle, "{r:?}");
        }
    }

    /// The force comes back by itself, and the hand is not thrown: no more energy of motion on the way out than what was pressed held, the
    /// floor's spring and the hand's own, which takes it in while nothing holds it.
    fn comes_back(&mut self) {
        // The hand's own, without the device.
        let hand = Hand::FIRM;
        let mass = hand.mass;
        let springs = 0.5 * self.carried.powi(2) * (1.0 / STIFFNESS + 1.0 / hand.stiffness);
        let mut most = 0.0f64;
        for _ in 0..600 {
            let r = self.step();
            let velocity = self.inside.lock().unwrap().device.state().velocity;
            // Into the floor the hand goes by itself while nothing holds it.
            let speed = Vec3::new(velocity.x, velocity.y.max(0.0), velocity.z).norm();
            most = most.max(speed);
            assert!(
                0.5 * mass * speed * speed < springs,
                "{:?}: {speed} m/s at {} s",
                self.case,
                self.time()
            );
            let what = (self.case, self.time(), r.contact_force, r.fault);
            assert_eq!(r.state, ServoState::Rendering, "{what:?}");
        }
        println!(
            "{:?}: {most:.4} m/s, {:.0} % of the springs",
            self.case,
            50.0 * mass * most * most / springs
        );
        assert!(
            (self.last - self.pressed).abs() < 0.1 * self.pressed + 0.1,
            "{:?}: {} N, before {} N",
            self.case,
            self.last,
            self.pressed
        );
    }
}

/// What the table promises: ticks until there is no force, by fault.
fn promised() -> BTreeMap<String, u32> {
    let page = include_str!("../../docs/safety.md");
    let (_, rest) = page.split_once("## Faults, one by one").expect("the chapter");
    let (table, _) = rest.split_once("\n## ").expect("its end");
    let row = |line: &str| {
        let mut cells = line.split('|').skip(1).map(str::trim);
        let name = cells.next()?.strip_prefix('`')?.strip_suffix('`')?.to_owned();
        let ticks = cells.nth(1)?.parse().ok()?;
        Some((name, ticks))
    };
    table.lines().filter_map(row).collect()
}

/// What the table promises and what it took, the longest of all cases.
struct Table {
    promised: BTreeMap<String, u32>,
    took: BTreeMap<&'static str, u32>,
}

impl Table {
    fn new() -> Self {
        Self { promised: promised(), took: BTreeMap::new() }
    }

    /// The force goes within what this row says, counted from the tick that sees it.
    fn holds(&mut self, row: &'static str, rig: &mut Rig) {
        let k = rig.ticks_to_zero(self.promised[row]);
        self.took(row, k);
    }

    fn took(&mut self, row: &'static str, ticks: u32) {
        let most = self.took.entry(row).or_default();
        *most = ticks.max(*most);
    }
}

impl Drop for Table {
    /// A row says no more than it takes.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        for (row, took) in &self.took {
            println!("{row}: {took} ticks of {}", self.promised[*row]);
            assert_eq!(self.promised[*row], *took, "{row}");
        }
    }
}

fn between(kind: FaultKind, ms: f64) -> Vec<Wrong> {
    vec![Wrong::between(kind, AT, AT + 1e-3 * ms)]
}

#[test]
fn the_table_names_every_fault_once() {
    let promised = promised();
    for fault in &Fault::ALL[1..] {
        let name = hapticd::control::names::fault(*fault);
        assert!(promised.contains_key(name), "{name} is not in docs/safety.md");
    }
    assert_eq!(
        promised.len(),
        Fault::ALL.len() - 1 + 2,
        "and beside them lease_lost and stale_sample: {promised:?}"
    );
}

/// What breaks in the device, each for as long as it takes to be a fault.
#[test]
fn what_breaks_in_the_device_ends_the_force_as_the_table_says() {
    let mut table = Table::new();
    let broken = |kind, ms| if ms < f64::INFINITY { between(kind, ms) } else { vec![Wrong::from(kind, AT)] };
    for case in CASES {
        for (kind, ms, fault, row) in [
            (FaultKind::NanPose, 1.0, Fault::NonFiniteSample, "non_finite_sample"),
            (FaultKind::Spike, 10.0, Fault::PoseJump, "pose_jump"),
            (FaultKind::FailWrites, 10.0, Fault::WriteFailed, "write_failed"),
            (FaultKind::Unplug, f64::INFINITY, Fault::DeviceGone, "device_gone"),
            (FaultKind::LinkLost, f64::INFINITY, Fault::DeviceGone, "device_gone"),
            (FaultKind::LoseCalibration, 10.0, Fault::DeviceGone, "device_gone"),
        ] {
            let mut rig = Rig::pressing(case, broken(kind, ms), 0.0);
            rig.deaf = kind == FaultKind::LinkLost;
            table.holds(row, &mut rig);
            rig.latched(fault);
            if rig.deaf {
                rig.lets_go_by_itself();
            }
        }
        // Nothing new: the ramp first, the fault after a quarter of a second.
        let mut rig = Rig::pressing(case, broken(FaultKind::Stale, 400.0), 0.0);
        table.holds("stale_sample", &mut rig);
        assert_eq!(
            (rig.bench.last.state, rig.bench.last.zero),
            (ServoState::Rendering, ZeroReason::StaleSample)
        );
        while rig.step().state != ServoState::Fault {
            assert_eq!(rig.last, 0.0);
            assert!(rig.time() < AT + 0.3);
        }
        table.took("stale", ((rig.time() - AT) * 1e3).round() as u32 - 1);
        rig.latched(Fault::Stale);
    }
}

/// Faster than the limit, and slow enough to be a motion: into the floor, which wants to throw it out again with all it has.
#[test]
fn what_runs_away_ends_the_force_as_the_table_says() {
    let mut table = Table::new();
    for case in CASES {
        let mut rig = Rig::pressing(case, vec![], 0.0);
        // What a device reads is so many ticks old.
        let unseen = rig.profile.transport.read_delay;
        let mut ticks = 0;
        while rig.motors() != Wrench::ZERO {
            rig.inside.lock().unwrap().device.set_motion(Vec3::y() * -2.5, Vec3::zeros());
            rig.step();
            ticks += 1;
            assert!(ticks < 20, "{case:?}: {:?}", rig.bench.last);
        }
        table.took("velocity", ticks - 1 - unseen);
        rig.stays(Fault::Velocity);
        assert!(rig.held_back.1 > 0, "{case:?}: the slew limit was to bite");
    }
}

/// The hand takes it aside, out of the workspace.
#[test]
fn what_leaves_the_workspace_ends_the_force_as_the_table_says() {
    let mut table = Table::new();
    for case in CASES {
        let mut rig = Rig::with(case, vec![], 0.0, GOES_ASIDE, None);
        let mut outside = 0;
        while rig.motors() != Wrench::ZERO {
            rig.step();
            let at = rig.inside.lock().unwrap().sample.expect("read").pose.translation.vector.norm();
            outside += u32::from(at > REACH);
            assert!(rig.time() < AT + 0.5, "{case:?}: {at} m");
        }
        table.took("workspace", outside - 1);
        rig.stays(Fault::Workspace);
    }
}

/// Samples that are late, twice there, garbled or lost for a while are no fault; the force stays within its limits, and is back
/// afterwards.
#[test]
fn what_is_late_or_lost_for_a_while_comes_back_gently() {
    for case in CASES {
        // The servo knows of a sample that it did not come or is an old one; which, makes no difference to law and tool.
        let kinds = [FaultKind::Stale, FaultKind::Duplicate, FaultKind::Garbled];
        for kind in kinds.into_iter().take(if case.2 == Presses::Ball { 3 } else { 1 }) {
            for ms in [1.0, 2.0, 5.0, 20.0, 50.0, 100.0] {
                let mut rig = Rig::pressing(case, between(kind, ms), 0.0);
                rig.comes_back();
            }
        }
        // Two wrong poses are held over.
        for ms in [1.0, 2.0] {
            let mut rig = Rig::pressing(case, between(FaultKind::Spike, ms), 0.0);
            rig.comes_back();
        }
        // A fifth of all samples lost, all the time.
        let mut rig = Rig::pressing(case, vec![], 0.2);
        rig.comes_back();
    }
}

#[test]
fn what_ends_outside_the_device_ends_the_force_as_the_table_says() {
    let mut table = Table::new();
    for case in CASES {
        for (fault, row) in [(Fault::Panic, "panic"), (Fault::ControlDead, "control_dead")] {
            let mut rig = Rig::pressing(case, vec![], 0.0);
            rig.bench.handle.disarm_flag().fault(fault);
            table.holds(row, &mut rig);
            rig.latched(fault);
        }
        // The client is gone, or the control plane hangs: the lease is not renewed.
        let mut rig = Rig::pressing(case, vec![], 0.0);
        let until_ns = rig.bench.servo.now_ns();
        rig.bench.handle.send(ServoCommand::Lease { until_ns }).expect("room");
        table.holds("lease_lost", &mut rig);
        assert_eq!(rig.bench.last.zero, ZeroReason::LeaseLost);
        for _ in 0..300 {
            rig.step();
            assert_eq!(rig.last, 0.0, "nothing comes by itself");
        }
        // The process slept, and the machine did.
        let mut rig = Rig::pressing(case, vec![], 0.0);
        rig.bench.servo.suspend(1_000 * MS);
        table.holds("suspended", &mut rig);
        rig.latched(Fault::Suspended);
    }
}

#[test]
fn a_starved_servo_goes_on_gently_or_ends_the_force() {
    let mut table = Table::new();
    for case in CASES {
        for ms in [5, 20, 100] {
            let mut rig = Rig::pressing(case, vec![], 0.0);
            rig.bench.servo.delay(ms * MS);
            rig.comes_back();
        }
        // Again and again is a fault.
        let mut rig = Rig::pressing(case, vec![], 0.0);
        for _ in 0..19 {
            rig.bench.servo.delay(5 * MS);
            assert_eq!(rig.step().state, ServoState::Rendering);
        }
        rig.bench.servo.delay(5 * MS);
        table.holds("overrun", &mut rig);
        rig.latched(Fault::Overrun);
    }
}

/// Clocks that step. The servo's own never does: ten seconds on it that nobody worked are a sleep. A client's may, under a floor that moves
/// by its stream: through the control plane, and with the times as they are.
#[test]
fn a_clock_that_steps_neither_throws_nor_pushes() {
    let mut table = Table::new();
    for case in CASES {
        let mut rig = Rig::pressing(case, vec![], 0.0);
        rig.bench.servo.delay(10_000 * MS);
        table.holds("suspended", &mut rig);
        rig.latched(Fault::Suspended);
        for leap_ns in [10_000_000_000, -10_000_000_000] {
            for client in [Client::sends(), Client::Raw { frames: 0, leap_ns: 0 }] {
                let mut rig = Rig::with(case, vec![], 0.0, STAYS, Some(client));
                // Once for good, then to and fro.
                rig.client.as_mut().expect("streams").leap(leap_ns);
                rig.comes_back();
                for k in 0..10 {
                    rig.client.as_mut().expect("streams").leap(if k % 2 == 0 { -leap_ns } else { leap_ns });
                    for _ in 0..30 {
                        assert_eq!(rig.step().state, ServoState::Rendering);
                    }
                }
                rig.comes_back();
            }
        }
    }
}

/// A new scene in every tick, with another stiffness, and without the object in every tenth.
#[test]
fn scenes_swapped_every_tick_neither_fault_nor_throw() {
    for case in CASES {
        let mut rig = Rig::pressing(case, vec![], 0.0);
        for k in 0..500 {
            rig.publish(if k % 2 == 0 { STIFFNESS } else { 0.5 * STIFFNESS });
            rig.step();
        }
        for k in 0..500 {
            rig.publish_all(if k % 10 == 9 { vec![] } else { vec![(1, STIFFNESS)] });
            rig.step();
        }
        rig.publish(STIFFNESS);
        rig.comes_back();
        // 3 mm higher it would push more than it may.
        rig.height = 3e-3;
        rig.publish(STIFFNESS);
        for _ in 0..500 {
            rig.step();
        }
        assert!(rig.held_back.0 > 100, "{case:?}: the limit was to bite");
    }
}

/// Forces that are no numbers: more material than any client may ask for. A ball's forces overflow; points and spheres leave out a contact that is no
/// number, and so give none.
#[test]
fn a_contact_that_is_no_number_ends_the_force_as_the_table_says() {
    let mut table = Table::new();
    for case in CASES {
        let mut rig = Rig::pressing(case, vec![], 0.0);
        rig.publish_all((1..=1000).map(|id| (id, f64::MAX)).collect());
        if case.2 != Presses::Ball {
            (0..20).for_each(|_| assert!(rig.step().force.iter().all(|f| f.is_finite())));
            assert!(rig.last < 0.5 * rig.pressed, "{case:?}: {} of {} N", rig.last, rig.pressed);
            rig.publish(STIFFNESS);
            rig.comes_back();
            continue;
        }
        // The new objects fade in first.
        let fault = (0..600).any(|_| rig.step().state == ServoState::Fault);
        assert!(fault && rig.motors() == Wrench::ZERO, "{case:?}");
        table.took("non_finite_force", 0);
        rig.publish(STIFFNESS);
        rig.step();
        rig.latched_in(Fault::NonFiniteForce, true);
    }
}

/// Whatever the energy guard does to the command: it grows by no more than a slew step, also while it pays a debt.
#[test]
fn no_energy_guard_lets_the_force_grow_faster() {
    let mut acted = 0;
    for case in CASES {
        for energy in [EnergyGuard::Observe, EnergyGuard::Controller, EnergyGuard::Certified] {
            let hand = HandScript::parse(&format!("{PRESS}{STAYS}")).expect("a hand");
            let setup = Setup { hand, ..Setup::default() };
            let mut rig = Rig::of(case, setup, None, case.shape(), Some(energy));
            // In while it is soft, out while it is hard: each time more comes out than went in. And in again, fast.
            let mut acts = 0;
            let soft = 0.25 * STIFFNESS;
            for _ in 0..4 {
                for (stiffness, speed, ticks) in [
                    (soft, 0.0, 220),
                    (soft, 0.05, 40),
                    (soft, -0.05, 40),
                    (STIFFNESS, 0.0, 220),
                    (STIFFNESS, 0.2, 12),
                    (STIFFNESS, -0.4, 6),
                ] {
                    rig.publish(stiffness);
                    for _ in 0..ticks {
                        rig.inside.lock().unwrap().device.set_motion(Vec3::y() * speed, Vec3::zeros());
                        let r = rig.step();
                        acts += u32::from(r.flags & FLAG_ENERGY_BOUND != 0);
                    }
                }
            }
            // In and out, as stiff each way, until more has been given than ever was pressed in.
            for k in 0..720 {
                let speed = if k % 18 < 12 { 0.2 } else { -0.4 };
                rig.inside.lock().unwrap().device.set_motion(Vec3::y() * speed, Vec3::zeros());
                acts += u32::from(rig.step().flags & FLAG_ENERGY_BOUND != 0);
            }
            println!("{case:?} {energy:?}: acts in {acts} ticks, slew in {}", rig.held_back.1);
            assert!(rig.held_back.1 > 10, "{case:?}: the slew limit was to bite");
            acted += if energy == EnergyGuard::Controller { acts } else { 0 };
        }
    }
    assert!(acted > 200, "the controller was to act: {acted}");
}
