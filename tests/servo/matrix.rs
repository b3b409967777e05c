//! Every fault of the table in docs/safety.md, run: a simulated device in a hand that presses on a floor, through the shipped tick.
//!
//! Always: the motors' force stays below the device's limit and grows by no more than the slew limit from one tick to the next,
//! zero is read at the motors, and when the force comes back it does not throw the hand off.

use crate::device::{Inside, Watched};
use crate::world::{Bench, MS, floor, object, scene, sphere_tool};
use hapticd::contact::ObjectShape;
use hapticd::device::profile::Profile;
use hapticd::device::registry::Registry;
use hapticd::device::simulated::{Fault as Wrong, FaultKind, Faults, HandScript, Setup, SimulatedDevice};
use hapticd::device::{Device, actuators};
use hapticd::geometry::{Pose, Vec3, Wrench};
use hapticd::servo::handle::{ServoCommand, ServoConfig};
use hapticd::servo::record::{Fault, ServoState, TickRecord, ZeroReason};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const DEVICES: [&str; 3] = ["ideal-6dof", "novint-falcon", "phantom-omni"];
/// Time of the fault, s, and the tick before it.
const AT: f64 = 3.0;
const STIFFNESS: f64 = 600.0;

/// Comes down from 20 mm above the floor and presses the ball in.
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
[[keyframe]]
time = 20.0
position = [0.0, 0.004, 0.0]
";

struct Rig {
    bench: Bench,
    inside: Arc<Mutex<Inside>>,
    profile: Arc<Profile>,
    shape: ObjectShape,
    generation: u64,
    last: f64,
    /// Force before the fault, N.
    pressed: f64,
}

impl Rig {
    /// Presses, fully on, until just before [`AT`].
    fn pressing(name: &str, faults: Vec<Wrong>, drop_rate: f64) -> Self {
        let profile = Registry::builtin().profile(name).expect("shipped");
        let setup = Setup {
            hand: HandScript::parse(PRESS).expect("a hand"),
            faults: Faults(faults),
            drop_rate,
            ..Setup::default()
        };
        let mut device = SimulatedDevice::new(profile.clone(), setup).expect("opens");
        device.calibrate().expect("calibrates");
        let (device, inside) = Watched::new(device);
        let shape = floor();
        let bench = Bench::new(Box::new(device), ServoConfig::default());
        let mut rig = Self { bench, inside, profile, shape, generation: 0, last: 0.0, pressed: 0.0 };
        rig.publish(STIFFNESS);
        rig.bench.arm();
        while rig.time() + 1.5e-3 < AT {
            rig.step();
        }
        assert_eq!(rig.bench.last.state, ServoState::Rendering, "{name}");
        assert!(rig.last > 0.8, "{name} presses with {} N", rig.last);
        rig.pressed = rig.last;
        rig
    }

    fn time(&self) -> f64 {
        self.bench.servo.now_ns() as f64 * 1e-9
    }

    fn publish(&mut self, stiffness: f64) {
        self.generation += 1;
        let objects = vec![object(1, self.shape.clone(), Pose::identity(), stiffness)];
        self.bench.publish(scene(self.generation, &sphere_tool(0.01), objects));
    }

    fn command(&self) -> actuators::Command {
        self.inside.lock().unwrap().command
    }

    fn step(&mut self) -> TickRecord {
        let r = self.bench.step();
        let command = self.command();
        let force = command.wrench.force.norm();
        // The motors' force is made of whole codes.
        let rounding = 0.02 * self.profile.max_force;
        assert!(force <= self.profile.max_force * (1.0 + 1e-9), "{} N at {} s", force, self.time());
        let slew = ServoConfig::default().slew_force * 1e-3;
        assert!(force <= self.last + slew + rounding, "{} to {force} N at {} s", self.last, self.time());
        if Vec3::from(r.force).norm() == 0.0 && r.state != ServoState::Rendering {
            assert_eq!(command.wrench, Wrench::ZERO, "{:?}", r.zero);
        }
        self.last = force;
        r
    }

    /// Ticks until the motors have no force; fails after `most`.
    fn ticks_to_zero(&mut self, most: u32) -> u32 {
        for k in 0..=most {
            self.step();
            if self.command().wrench == Wrench::ZERO {
                return k;
            }
        }
        panic!("{} N after {most} ticks, {:?} {:?}", self.last, self.bench.last.fault, self.bench.last.zero);
    }

    /// The fault is there and stays, without force, until it is cleared; then the force comes back by arming alone, and gently.
    fn latched(&mut self, fault: Fault) {
        self.latched_in(fault, false);
    }

    /// The fault is there and stays, without force.
    fn stays(&mut self, fault: Fault) {
        let last = (self.bench.last.state, self.bench.last.fault, self.bench.last.zero);
        assert_eq!(last, (ServoState::Fault, fault, ZeroReason::Fault), "{}", self.profile.name);
        for _ in 0..100 {
            let r = self.step();
            assert_eq!(
                (r.state, r.zero, self.command().wrench),
                (ServoState::Fault, ZeroReason::Fault, Wrench::ZERO)
            );
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
        self.bench.command(ServoCommand::Arm { session: 1 }).expect("arms");
        self.bench.command(ServoCommand::Lease { until_ns: u64::MAX }).expect("leases");
        // Inside the floor the gate stays shut; a floor that has changed comes in from nothing.
        let begin = self.time();
        for _ in 0..300 {
            let r = self.step();
            let faded = (self.time() - begin) / ServoConfig::default().fade;
            let gentle = r.state == ServoState::Rendering && self.last <= self.pressed * faded + 0.05;
            assert!(r.state == ServoState::Armed && self.last == 0.0 || changed && gentle, "{r:?}");
        }
    }

    /// The force comes back by itself, and the hand is not thrown: no more energy of motion than the pressed spring held.
    fn comes_back(&mut self) {
        // Less than any of these devices weighs together with the hand.
        let mass = 0.1;
        let spring = 0.5 * self.pressed.powi(2) / STIFFNESS;
        for _ in 0..600 {
            let r = self.step();
            let speed = self.inside.lock().unwrap().device.state().velocity.norm();
            assert!(0.5 * mass * speed * speed < spring, "{speed} m/s at {} s", self.time());
            assert_eq!(r.state, ServoState::Rendering, "{:?}", r.fault);
        }
        assert!(
            (self.last - self.pressed).abs() < 0.1 * self.pressed + 0.1,
            "{}: {} N, before {} N",
            self.profile.name,
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
    let promised = promised();
    let broken = |kind, ms| if ms < f64::INFINITY { between(kind, ms) } else { vec![Wrong::from(kind, AT)] };
    for name in DEVICES {
        for (kind, ms, fault, row) in [
            (FaultKind::NanPose, 1.0, Fault::NonFiniteSample, "non_finite_sample"),
            (FaultKind::Spike, 10.0, Fault::PoseJump, "pose_jump"),
            (FaultKind::FailWrites, 10.0, Fault::WriteFailed, "write_failed"),
            (FaultKind::Unplug, f64::INFINITY, Fault::DeviceGone, "device_gone"),
            (FaultKind::LinkLost, f64::INFINITY, Fault::DeviceGone, "device_gone"),
            (FaultKind::LoseCalibration, 10.0, Fault::DeviceGone, "device_gone"),
        ] {
            let mut rig = Rig::pressing(name, broken(kind, ms), 0.0);
            let within = promised[row];
            // What was said before it may stand one tick longer: the fault may fall between two reads.
            rig.ticks_to_zero(within + 2);
            rig.latched(fault);
        }
        // Hit hard, it is faster than the limit, or than it can move at all.
        let mut rig = Rig::pressing(name, vec![], 0.0);
        rig.inside.lock().unwrap().device.set_motion(Vec3::y() * 6.0, Vec3::zeros());
        // Two samples show how fast.
        rig.ticks_to_zero(promised["velocity"] + 3);
        let fault = rig.bench.last.fault;
        assert!([Fault::Velocity, Fault::PoseJump].contains(&fault), "{fault:?}");
        rig.stays(fault);

        let mut rig = Rig::pressing(name, broken(FaultKind::Stale, 400.0), 0.0);
        // The ramp first, the fault after a quarter of a second.
        rig.ticks_to_zero(promised["stale_sample"] + 2);
        assert_eq!(
            (rig.bench.last.state, rig.bench.last.zero),
            (ServoState::Rendering, ZeroReason::StaleSample)
        );
        for _ in 0..promised["stale"] {
            rig.step();
            assert_eq!(rig.last, 0.0);
        }
        rig.latched(Fault::Stale);
    }
}

/// Samples that are late, twice there, garbled or lost for a while are no fault; the force stays within its limits, and is back
/// afterwards.
#[test]
fn what_is_late_or_lost_for_a_while_comes_back_gently() {
    for name in DEVICES {
        for kind in [FaultKind::Stale, FaultKind::Duplicate, FaultKind::Garbled] {
            for ms in [1.0, 2.0, 5.0, 20.0, 50.0, 100.0] {
                let mut rig = Rig::pressing(name, between(kind, ms), 0.0);
                rig.comes_back();
            }
        }
        // Two wrong poses are held over.
        for ms in [1.0, 2.0] {
            let mut rig = Rig::pressing(name, between(FaultKind::Spike, ms), 0.0);
            rig.comes_back();
        }
        // A fifth of all samples lost, all the time.
        let mut rig = Rig::pressing(name, vec![], 0.2);
        rig.comes_back();
    }
}

#[test]
fn what_ends_outside_the_device_ends_the_force_as_the_table_says() {
    let promised = promised();
    for name in DEVICES {
        for (fault, row) in [(Fault::Panic, "panic"), (Fault::ControlDead, "control_dead")] {
            let mut rig = Rig::pressing(name, vec![], 0.0);
            rig.bench.handle.disarm_flag().fault(fault);
            rig.ticks_to_zero(promised[row]);
            rig.latched(fault);
        }
        // The client is gone: its lease is not renewed.
        let mut rig = Rig::pressing(name, vec![], 0.0);
        let now = rig.bench.servo.now_ns();
        rig.bench.command(ServoCommand::Lease { until_ns: now }).expect("leases");
        rig.ticks_to_zero(promised["lease_lost"]);
        assert_eq!(rig.bench.last.zero, ZeroReason::LeaseLost);
        for _ in 0..300 {
            rig.step();
            assert_eq!(rig.last, 0.0, "nothing comes by itself");
        }
        // The process slept.
        let mut rig = Rig::pressing(name, vec![], 0.0);
        rig.bench.servo.suspend(1_000 * MS);
        rig.ticks_to_zero(promised["suspended"]);
        rig.latched(Fault::Suspended);
    }
}

#[test]
fn a_starved_servo_goes_on_gently_or_ends_the_force() {
    let promised = promised();
    for name in DEVICES {
        for ms in [5, 20, 100] {
            let mut rig = Rig::pressing(name, vec![], 0.0);
            rig.bench.servo.delay(ms * MS);
            rig.comes_back();
        }
        // Again and again is a fault.
        let mut rig = Rig::pressing(name, vec![], 0.0);
        for _ in 0..19 {
            rig.bench.servo.delay(5 * MS);
            assert_eq!(rig.step().state, ServoState::Rendering);
        }
        rig.bench.servo.delay(5 * MS);
        rig.ticks_to_zero(promised["overrun"]);
        rig.latched(Fault::Overrun);
    }
}

/// A new scene in every tick, with another stiffness, and without the object in every tenth.
#[test]
fn scenes_swapped_every_tick_neither_fault_nor_throw() {
    for name in DEVICES {
        let mut rig = Rig::pressing(name, vec![], 0.0);
        for k in 0..500 {
            rig.publish(if k % 2 == 0 { STIFFNESS } else { 0.5 * STIFFNESS });
            rig.step();
        }
        for k in 0..500 {
            rig.generation += 1;
            let objects = match k % 10 {
                9 => vec![],
                _ => vec![object(1, rig.shape.clone(), Pose::identity(), STIFFNESS)],
            };
            rig.bench.publish(scene(rig.generation, &sphere_tool(0.01), objects));
            rig.step();
        }
        rig.publish(STIFFNESS);
        rig.comes_back();
    }
}

/// Forces that are no numbers: more material than any client may ask for.
#[test]
fn a_contact_that_is_no_number_ends_the_force_as_the_table_says() {
    let within = promised()["non_finite_force"];
    for name in DEVICES {
        let mut rig = Rig::pressing(name, vec![], 0.0);
        rig.generation += 1;
        let endless =
            (1..=1000).map(|id| object(id, rig.shape.clone(), Pose::identity(), f64::MAX)).collect();
        rig.bench.publish(scene(rig.generation, &sphere_tool(0.01), endless));
        // The new objects fade in first.
        let fault = (0..600).any(|_| rig.step().state == ServoState::Fault);
        assert!(fault && rig.ticks_to_zero(within) == 0, "{name}");
        rig.publish(STIFFNESS);
        rig.step();
        rig.latched_in(Fault::NonFiniteForce, true);
    }
}
