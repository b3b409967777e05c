//! A hand that leans on something while where it is is not known, or the clutch is held: it falls in, since there is no force, and is not thrown
//! out when the force comes back. With each law and kind of tool, on devices that ship.

use crate::device::{Inside, Watched};
use crate::grip::slab;
use crate::matrix::{CASES, Case, Presses, STIFFNESS};
use crate::world::{Bench, field, norm, object, scene};
use hapticd::contact::ObjectShape;
use hapticd::device::Device;
use hapticd::device::registry::Registry;
use hapticd::device::simulated::{
    Fault as Wrong, FaultKind, Faults, Hand, HandScript, Setup, SimulatedDevice,
};
use hapticd::geometry::Pose;
use hapticd::haptics::coupling::{Coupling, Law};
use hapticd::servo::handle::{ServoCommand, ServoConfig};
use hapticd::servo::lapse::{EASY, WALK};
use hapticd::servo::record::{
    FLAG_AFTER_LAPSE, FLAG_MOTOR_SATURATED, FLAG_SATURATED, Fault, ServoState, TickRecord, ZeroReason,
};
use std::sync::{Arc, LazyLock, Mutex};

/// When the samples stop, s.
const AT: f64 = 3.0;
/// When all is over: the deepest is led out over 3 s.
const END: f64 = 8.0;
/// Of a device's own at the hand, at most, N: the Omni's data sheet.
const FRICTION: f64 = 0.26;
/// Of a device, felt with the hand's, at most, kg.
const DEVICE: f64 = 0.3;
/// How far the floor's face is above the middle of the workspace, m: so a hand that falls in for a quarter of a second is in the workspace still.
const FACE: f64 = 0.015;

/// So far below the face a relaxed hand wants to be, m.
const WANTS: f64 = 0.03;

/// Who leans on it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Leans {
    /// A relaxed hand.
    Relaxed,
    /// 2 N, wherever the hand is: 5 N/m to a place 0.4 m away.
    Constant,
}

impl Leans {
    fn mass(self) -> f64 {
        match self {
            Self::Relaxed => Hand::NORMAL.mass,
            Self::Constant => 0.6,
        }
    }

    /// Comes down from 12 mm above `touch`, where the tool touches, and leans on it.
    fn script(self, touch: f64) -> String {
        let (hand, to) = match self {
            Self::Relaxed => ("'normal'".to_owned(), touch - WANTS),
            Self::Constant => {
                let Hand { inertia, rot_damping, rot_stiffness, .. } = Hand::NORMAL;
                let turns = format!(
                    "inertia = {inertia}, rot_damping = {rot_damping}, rot_stiffness = {rot_stiffness}"
                );
                let mass = self.mass();
                (format!("{{ mass = {mass}, damping = 6.0, stiffness = 5.0, {turns} }}"), touch - 0.4)
            }
        };
        // What wants to go in lifts once more in the end.
        let from = touch + 0.012;
        let up = if self == Self::Relaxed { from } else { to };
        let frame =
            |time: f64, y: f64| format!("[[keyframe]]\ntime = {time:?}\nposition = [0.0, {y:?}, 0.0]\n");
        let frames =
            [(0.0, from), (0.8, from), (2.0, to), (END, to), (END + 0.5, up), (END + 1.7, to), (20.0, to)];
        format!("hand = {hand}\n{}", frames.map(|(t, y)| frame(t, y)).concat())
    }
}

/// What it leans on.
#[derive(Clone, Copy, Debug, PartialEq)]
enum On {
    Floor,
    /// 4 mm thick: the hand falls through.
    Sheet,
}

struct Rig {
    bench: Bench,
    inside: Arc<Mutex<Inside>>,
    /// Contact force before, N.
    carried: f64,
    /// Of the hand's mass alone, away from the face, the largest, J, and where it was deepest, m below where it touches.
    out: f64,
    deepest: f64,
    touch: f64,
    leans: Leans,
    /// The device could not give what was wanted.
    strong: bool,
}

impl Rig {
    /// Leans until the next tick is the one at [`AT`].
    fn new(case: Case, on: On, leans: Leans, faults: Vec<Wrong>, let_go: Option<f64>) -> Self {
        static FLOOR: LazyLock<ObjectShape> =
            LazyLock::new(|| ObjectShape::Field(field(0.06, 33, |p| FACE - p.y)));
        static SHEET: LazyLock<ObjectShape> =
            LazyLock::new(|| ObjectShape::Field(field(0.06, 121, |p| 0.002 - (p.y - FACE + 0.002).abs())));
        static SLAB: LazyLock<ObjectShape> = LazyLock::new(slab);
        let (shape, place) = match (on, case.2) {
            // For sphere trees, and 20 mm thick.
            (_, Presses::Spheres) => (&*SLAB, FACE),
            (On::Floor, _) => (&*FLOOR, 0.0),
            (On::Sheet, _) => (&*SHEET, 0.0),
        };
        let Case(name, law, _) = case;
        let profile = Registry::builtin().profile(name).expect("shipped");
        // Balls and cubes reach 1 cm down.
        let touch = FACE + 0.01;
        let mut hand = HandScript::parse(&leans.script(touch)).expect("a hand");
        hand.let_go = let_go;
        let setup = Setup { hand, faults: Faults(faults), ..Setup::default() };
        let mut device = SimulatedDevice::new(profile, setup).expect("opens");
        device.calibrate().expect("calibrates");
        let (device, inside) = Watched::new(device);
        let coupling = Coupling { law, ..Coupling::default() };
        let mut bench = Bench::new(Box::new(device), ServoConfig { coupling, ..ServoConfig::default() });
        let floor = object(1, shape.clone(), Pose::translation(0.0, place, 0.0), STIFFNESS * case.part());
        bench.publish(scene(1, &case.tool(), vec![floor]));
        bench.step();
        bench.handle.send(ServoCommand::Arm { session: 1 }).expect("room");
        bench.handle.send(ServoCommand::Lease { until_ns: u64::MAX }).expect("room");
        let mut rig =
            Self { bench, inside, carried: 0.0, out: 0.0, deepest: 0.0, touch, leans, strong: false };
        while rig.time() + 0.5e-3 < AT {
            rig.step();
        }
        rig.carried = norm(rig.bench.last.contact_force);
        assert!(rig.carried > 1.0, "{case:?} {on:?} {leans:?} leans with {} N", rig.carried);
        rig.strong = rig.bench.last.flags & (FLAG_SATURATED | FLAG_MOTOR_SATURATED) != 0;
        (rig.out, rig.deepest) = (0.0, 0.0);
        rig
    }

    fn time(&self) -> f64 {
        self.bench.servo.now_ns() as f64 * 1e-9
    }

    fn step(&mut self) -> TickRecord {
        let r = self.bench.step();
        let inside = self.inside.lock().unwrap();
        let state = inside.device.state();
        let speed = state.velocity.y.max(0.0);
        self.out = self.out.max(0.5 * self.leans.mass() * speed * speed);
        self.deepest = self.deepest.max(self.touch - state.tip.y);
        drop(inside);
        r
    }

    /// What the wall's spring held, J, and what may come besides: it may be pressed by [`EASY`] more, the hand led out, and a relaxed hand that has fallen
    /// past where it wants to be comes back by itself.
    fn held(&self) -> (f64, f64) {
        let spring = |f: f64| 0.5 * f * f / STIFFNESS;
        let walk = 0.5 * (self.leans.mass() + DEVICE) * WALK * WALK;
        let own = match self.leans {
            Leans::Relaxed => 0.5 * Hand::NORMAL.stiffness * (self.deepest - WANTS).max(0.0).powi(2),
            Leans::Constant => 0.0,
        };
        (spring(self.carried), spring(self.carried + EASY) - spring(self.carried) + walk + own)
    }
}

/// Everything that is tried: who leans on what, with what.
fn all() -> Vec<(Case, On, Leans)> {
    let mut all = vec![];
    for case in CASES {
        for on in [On::Floor, On::Sheet] {
            // A sphere tree's slab is a sheet already, and 5 N/m hold up no Falcon.
            if on == On::Sheet && case.2 != Presses::Ball {
                continue;
            }
            all.push((case, on, Leans::Relaxed));
            if case.0 == "ideal-6dof" {
                all.push((case, on, Leans::Constant));
            }
        }
    }
    for name in ["novint-falcon-mh", "phantom-premium-1.5", "woodenhaptics-v2015", "woodenhaptics-v2019"] {
        all.push((Case(name, Law::Direct, Presses::Ball), On::Floor, Leans::Relaxed));
    }
    all
}

#[test]
fn a_hand_that_sank_in_while_samples_were_stale_is_held_there_and_led_out() {
    let mut failed = vec![];
    let mut worst = 0.0f64;
    for (case, on, leans) in all() {
        for ms in [1.0, 4.0, 15.0, 25.0, 50.0, 100.0, 200.0, 240.0] {
            let stale = vec![Wrong::between(FaultKind::Stale, AT, AT + 1e-3 * ms)];
            let mut rig = Rig::new(case, on, leans, stale, None);
            let mut told = (0, 0, 0);
            while rig.time() < END {
                let r = rig.step();
                let what = || format!("{case:?} {on:?} {leans:?} {ms} ms at {} s", rig.time());
                // No fault, no gate, nothing to arm.
                assert_eq!((r.state, r.fault), (ServoState::Rendering, Fault::None), "{}", what());
                told.0 += u32::from(r.zero == ZeroReason::StaleSample);
                told.1 += u32::from(r.flags & FLAG_AFTER_LAPSE != 0);
                told.2 += u32::from(r.zero == ZeroReason::AfterLapse);
                assert!(r.zero != ZeroReason::AfterLapse || r.flags & FLAG_AFTER_LAPSE != 0, "{}", what());
            }
            let (held, allowed) = rig.held();
            worst = worst.max(rig.out / (held + allowed));
            let (force, flags) = (norm(rig.bench.last.contact_force), rig.bench.last.flags);
            let what = format!(
                "{case:?} {on:?} {leans:?} {ms} ms: {:.1} mm deep, {:.2} mJ of {:.2} and {:.2} mJ, {force:.2} of {:.2} N, told {told:?}",
                1e3 * rig.deepest,
                1e3 * rig.out,
                1e3 * held,
                1e3 * allowed,
                rig.carried
            );
            println!("{what}");
            let mut no = |why: &str| failed.push(format!("{why}: {what}"));
            if rig.out > held + allowed {
                no("thrown");
            }
            // Stale from the third tick on.
            if told.0 + 3 < ms as u32 {
                no("not told that it was stale");
            }
            // The sheet, or the slab, is above it by now; or what touches is inside as a whole, and wanted is the same wherever it is.
            let gone = ms > 35.0;
            let through = gone && (on == On::Sheet && force == 0.0 || case.2 == Presses::Spheres);
            let whole = case.2 == Presses::Points && rig.deepest > 0.02;
            if gone && !through && told.1 < 20 {
                no("not told that it is led out");
            }
            // The device's friction helped the wall on the way in, and is against it on the way out.
            let rubs = if case.0 == "ideal-6dof" { 0.0 } else { 2.0 * FRICTION };
            // A hand that the device cannot hold is not led out by it either.
            if !through
                && !whole
                && !rig.strong
                && ((force - rig.carried).abs() > 0.1 * rig.carried + 0.1 + rubs
                    || flags & FLAG_AFTER_LAPSE != 0)
            {
                no("not as before");
            }
            if through || leans == Leans::Constant {
                continue;
            }
            // Out, and in again.
            while rig.time() < END + 3.0 {
                assert_eq!(rig.step().state, ServoState::Rendering, "{what}");
            }
            let (force, flags) = (norm(rig.bench.last.contact_force), rig.bench.last.flags);
            if (force - rig.carried).abs() > 0.05 * rig.carried || flags & FLAG_AFTER_LAPSE != 0 {
                no(&format!("pressed again, {force:.2} N"));
            }
        }
    }
    println!("at most {worst:.2} of what it may");
    assert!(failed.is_empty(), "{failed:#?}");
}

/// Three stale ticks in every fifty from the start: it comes to the wall, leans on it and is held as if there were none of them.
#[test]
fn short_gaps_again_and_again_take_no_wall_away() {
    for (case, on, leans) in all() {
        let lean = |gaps: Vec<Wrong>| {
            let mut rig = Rig::new(case, on, leans, gaps, None);
            while rig.time() < END - 1.0 {
                assert_eq!(rig.step().state, ServoState::Rendering, "{case:?}");
            }
            rig
        };
        let gaps = (0..120).map(|k| 1.0 + 0.05 * f64::from(k));
        let gaps = gaps.map(|at| Wrong::between(FaultKind::Stale, at, at + 4.5e-3)).collect();
        let (quiet, rig) = (lean(vec![]), lean(gaps));
        let what = format!("{case:?} {on:?} {leans:?}: {} m deep, not {}", rig.deepest, quiet.deepest);
        println!("{what}");
        assert!(rig.deepest < quiet.deepest + 1e-3, "{what}");
        assert!(
            (rig.carried - quiet.carried).abs() < 0.1 * quiet.carried + FRICTION,
            "{what}: {} N",
            rig.carried
        );
        assert_eq!(rig.bench.last.flags & FLAG_AFTER_LAPSE, 0, "{what}");
    }
}

/// The clutch: the tool stays where it is pressed in, the device goes on. Taken up again it gives the hand no more than it held.
#[test]
fn a_hand_that_was_clutched_is_not_thrown() {
    for (case, on, leans) in all() {
        for ms in [10.0, 50.0, 200.0] {
            let mut rig = Rig::new(case, on, leans, vec![], None);
            rig.bench.handle.send(ServoCommand::Clutch { held: true }).expect("room");
            while rig.time() + 0.5e-3 < AT + 1e-3 * ms {
                rig.step();
            }
            rig.bench.handle.send(ServoCommand::Clutch { held: false }).expect("room");
            while rig.time() < END {
                let r = rig.step();
                assert_eq!((r.state, r.fault), (ServoState::Rendering, Fault::None), "{case:?} {ms} ms");
            }
            let (held, allowed) = rig.held();
            // The ramp takes its time: with half the gain the same force holds twice the energy.
            let (held, allowed) = (2.0 * held, 2.0 * allowed);
            let deep = rig.deepest;
            let what = format!(
                "{case:?} {on:?} {leans:?} {ms} ms: {deep} m, {} J of {held} and {allowed} J",
                rig.out
            );
            println!("{what}");
            assert!(rig.out <= held + allowed, "{what}");
            // Wholly inside, wanted is the same wrench wherever it is.
            let whole = case.2 == Presses::Points && deep > 0.02;
            assert!(rig.strong || whole || rig.bench.last.flags & FLAG_AFTER_LAPSE == 0, "{what}");
        }
    }
}

/// While it is led out the hand may open whenever it likes: what it leaves gets no more than the spring had held, and what [`EASY`] makes of that.
#[test]
fn a_hand_that_opens_while_it_is_led_out_leaves_a_device_that_is_not_thrown() {
    let mass = 0.1;
    for case in CASES.into_iter().filter(|c| c.0 == "ideal-6dof" && c.2 != Presses::Spheres) {
        for after in [0.3, 0.5, 0.8] {
            let stale = vec![Wrong::between(FaultKind::Stale, AT, AT + 0.1)];
            let opens = AT + 0.1 + after;
            let mut rig = Rig::new(case, On::Floor, Leans::Constant, stale, Some(opens));
            let (held, allowed) = rig.held();
            let mut out = 0.0f64;
            while rig.time() < opens + 0.5 {
                let r = rig.step();
                if rig.time() < opens {
                    assert!(
                        rig.time() < opens - 0.05 || r.flags & FLAG_AFTER_LAPSE != 0,
                        "{case:?}: it was to be led out"
                    );
                    continue;
                }
                let speed = rig.inside.lock().unwrap().device.state().velocity.norm();
                out = out.max(0.5 * mass * speed * speed);
            }
            println!("{case:?} after {after} s: {out} J of {held} and {allowed} J");
            assert!(out <= held + allowed, "{case:?} after {after} s: {out} J of {held} and {allowed} J");
        }
    }
}
