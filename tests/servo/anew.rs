//! What begins in contact under force, whatever begins it, on the field and on the mesh, under each law: it comes in the fade's time and comes
//! whole, and holds back nothing else. And edits under a hand that presses: no more than they add is held back.

use crate::device::Puppet;
use crate::grip::slab;
use crate::world::{Bench, MS, floor, norm, object, scene, sphere_tool, streamed};
use hapticd::contact::ObjectShape;
use hapticd::geometry::{Pose, Vec3};
use hapticd::haptics::coupling::{Coupling, Law};
use hapticd::scene::snapshot::{MotionFrame, SnapshotObject};
use hapticd::servo::handle::{ServoCommand, ServoConfig};
use hapticd::servo::record::ServoState;

const LAWS: [Law; 3] = [Law::Direct, Law::Dynamic, Law::Static];

/// How it begins.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Begins {
    /// It was there when the hand came.
    Never,
    Created,
    /// Put there by an edit of its pose.
    Moved,
    /// From the other side of the tool, where it pressed.
    Turned,
    /// It had no stiffness.
    Hardened,
    /// Its stream had stopped.
    Streamed,
}

/// A floor that a hand presses, and a second one, 1 mm higher, that begins while the hand presses on.
struct Floors {
    bench: Bench,
    puppet: Puppet,
    shape: ObjectShape,
    begins: Begins,
    generation: u64,
    frames: u64,
    streams: bool,
}

impl Floors {
    fn new(law: Law, shape: &ObjectShape, begins: Begins) -> Self {
        let puppet = Puppet::new(Vec3::new(0.0, 0.02, 0.0));
        let config =
            ServoConfig { coupling: Coupling { law, ..Coupling::default() }, ..ServoConfig::default() };
        let bench = Bench::new(Box::new(puppet.clone()), config);
        let mut floors =
            Self { bench, puppet, shape: shape.clone(), begins, generation: 0, frames: 0, streams: true };
        let before = match begins {
            Begins::Never => Some((0.001, 0.0, 1000.0)),
            Begins::Created => None,
            Begins::Moved => Some((-0.05, 0.0, 1000.0)),
            Begins::Turned => None,
            Begins::Hardened => Some((0.001, 0.0, 0.0)),
            Begins::Streamed => Some((0.001, 0.0, 1000.0)),
        };
        floors.publish(before);
        floors
    }

    fn publish(&mut self, second: Option<(f64, f64, f64)>) {
        self.generation += 1;
        let mut objects = vec![object(1, floor(), Pose::identity(), 1000.0)];
        if let Some((y, turned, stiffness)) = second {
            let pose = Pose::new(Vec3::new(0.0, y, 0.0), Vec3::new(turned, 0.0, 0.0));
            let motion = (self.begins == Begins::Streamed).then_some(0);
            objects.push(SnapshotObject { motion, ..object(2, self.shape.clone(), pose, stiffness) });
        }
        self.bench.publish(scene(self.generation, &sphere_tool(0.01), objects));
    }

    fn step(&mut self) -> f64 {
        if self.begins == Begins::Streamed && self.streams {
            let now = self.bench.servo.now_ns();
            self.frames += 1;
            let mut entry = streamed(2, now.saturating_sub(2 * MS), now + 10 * MS, |_| Vec3::y() * 0.001);
            entry.id = 2;
            let frame = MotionFrame { sequence: self.frames, entries: vec![Some(entry)] };
            self.bench.handle.publish_motion(Box::new(frame));
            self.bench.handle.reclaim();
        }
        self.bench.step();
        self.puppet.get().command.force.y
    }

    /// Down to `y` at 0.1 m/s, then `ticks` more. The force after each tick.
    fn to(&mut self, y: f64, ticks: usize) -> Vec<f64> {
        let mut forces = vec![];
        let mut at = self.puppet.get().pose.translation.vector.y;
        while at > y {
            at = (at - 1e-4).max(y);
            self.puppet.place(Vec3::new(0.0, at, 0.0));
            forces.push(self.step());
        }
        forces.extend((0..ticks).map(|_| self.step()));
        forces
    }
}

/// Force before, in each tick from there on, during which the hand presses half a millimetre deeper, and what it is in the end.
fn begun(law: Law, shape: &ObjectShape, begins: Begins) -> (f64, Vec<f64>) {
    let mut f = Floors::new(law, shape, begins);
    for _ in 0..20 {
        f.step();
    }
    f.bench.handle.send(ServoCommand::Arm { session: 1 }).expect("room");
    f.bench.handle.send(ServoCommand::Lease { until_ns: u64::MAX }).expect("room");
    for _ in 0..600 {
        f.step();
    }
    assert_eq!(f.bench.last.state, ServoState::Rendering, "{law:?} {begins:?}");
    f.to(0.0095, 300);
    if begins == Begins::Turned {
        // Upside down, above the tool, which it presses 0.2 mm.
        f.publish(Some((0.0193, std::f64::consts::PI, 1000.0)));
        f.to(0.0095, 400);
    }
    if begins == Begins::Streamed {
        f.streams = false;
        f.to(0.0095, 300);
    }
    let before = f.step();
    match begins {
        Begins::Never => {}
        Begins::Streamed => f.streams = true,
        _ => f.publish(Some((0.001, 0.0, 1000.0))),
    }
    let mut forces: Vec<f64> = (0..100).map(|_| f.step()).collect();
    for k in 0..100 {
        f.puppet.place(Vec3::new(0.0, 0.0095 - 5e-6 * f64::from(k + 1), 0.0));
        forces.push(f.step());
    }
    forces.extend((0..300).map(|_| f.step()));
    assert_eq!(f.bench.last.state, ServoState::Rendering, "{law:?} {begins:?}");
    (before, forces)
}

#[test]
fn what_begins_in_contact_comes_whole_and_in_the_fades_time() {
    for law in LAWS {
        for (name, shape) in [("field", floor()), ("mesh", slab())] {
            let (_, whole) = begun(law, &shape, Begins::Never);
            let whole = whole[whole.len() - 1];
            assert!(whole > 1.5, "{law:?} {name}: {whole} N");
            for begins in [Begins::Created, Begins::Moved, Begins::Turned, Begins::Hardened, Begins::Streamed]
            {
                let what = format!("{law:?} {name} {begins:?}");
                let (before, forces) = begun(law, &shape, begins);
                println!("{what}: {before} {} {} {} of {whole}", forces[50], forces[150], forces[499]);
                assert!((forces[499] / whole - 1.0).abs() < 0.01, "{what}: {} of {whole} N", forces[499]);
                assert!((forces[300] / whole - 1.0).abs() < 0.02, "{what}: {} of {whole} N", forces[300]);
                // 0.2 s for all of it; steeper at its end behind a spring, and what the hand presses.
                let mut last = before;
                for (k, force) in forces.iter().enumerate() {
                    // What pressed from above is gone at once.
                    let gone = if begins == Begins::Turned && k < 10 { 0.25 } else { 0.0 };
                    let grows = force - last;
                    assert!(grows < 1.6 * whole / 200.0 + 0.02 + gone, "{what} {k}: {last} to {force} N");
                    last = *force;
                }
            }
        }
    }
}

/// A hand presses 2 mm in within 50 ms, holds, and is out again within 50 ms, twice a second. Force after each tick, with an edit of 1 % of the
/// stiffness every 50 ms, `phase` ticks after the beginning of each press, or with none; and the work of the force on the hand.
fn pressed_under_edits(law: Law, shape: &ObjectShape, phase: Option<u32>) -> (Vec<f64>, f64) {
    let puppet = Puppet::new(Vec3::new(0.0, 0.011, 0.0));
    let config = ServoConfig { coupling: Coupling { law, ..Coupling::default() }, ..ServoConfig::default() };
    let mut bench = Bench::new(Box::new(puppet.clone()), config);
    let part = |stiffness| vec![object(1, shape.clone(), Pose::identity(), stiffness)];
    bench.publish(scene(1, &sphere_tool(0.01), part(1000.0)));
    bench.arm();
    let (mut work, mut y) = (0.0, 0.011);
    let mut forces = vec![];
    for k in 0..2000u32 {
        if phase.is_some_and(|phase| k % 50 == phase) {
            let stiffness = if k % 100 < 50 { 1010.0 } else { 1000.0 };
            bench.publish(scene(u64::from(k) + 2, &sphere_tool(0.01), part(stiffness)));
        }
        let t = f64::from(k % 500);
        let depth = 2e-3 * (t / 50.0).min(1.0).min((300.0 - t) / 50.0).max(-0.1);
        let from = y;
        y = 0.01 - depth;
        work += puppet.get().command.force.y * (y - from);
        puppet.place(Vec3::new(0.0, y, 0.0));
        bench.step();
        forces.push(puppet.get().command.force.y);
    }
    (forces, work)
}

#[test]
fn edits_under_a_hand_that_presses_hold_back_no_more_than_they_add() {
    for law in LAWS {
        for (name, shape) in [("field", floor()), ("mesh", slab())] {
            let (whole, _) = pressed_under_edits(law, &shape, None);
            for phase in [0, 1, 2, 10, 25, 49] {
                let (edited, work) = pressed_under_edits(law, &shape, Some(phase));
                let what = format!("{law:?} {name} {phase}");
                let pressing = |k: &usize| (100..250).contains(&(k % 500));
                let least = (0..2000).filter(pressing).map(|k| edited[k] / whole[k]).fold(1.0, f64::min);
                println!("{what}: {least} of the force, {work} J");
                assert!(least > 0.9, "{what}: {least} of the force without edits");
                let most =
                    (0..2000).map(|k| edited[k] - whole[k] - 0.02 * whole[k].abs()).fold(0.0, f64::max);
                assert!(most < 0.02, "{what}: {most} N beyond it");
                assert!(work <= 0.0, "{what}: {work} J came out");
            }
        }
    }
}

/// More objects than there are memories: two that share one are asked from nothing in every tick, and are felt for all that.
#[test]
fn two_objects_that_share_a_memory_are_both_felt() {
    for shape in [floor(), slab()] {
        let (mut bench, puppet) = Bench::puppet(Vec3::new(0.0, 0.011, 0.0));
        let objects = [1, 257].map(|id| object(id, shape.clone(), Pose::identity(), 500.0)).to_vec();
        bench.publish(scene(2, &sphere_tool(0.01), objects));
        bench.arm();
        for k in 0..200 {
            puppet.place(Vec3::new(0.0, 0.011 - 1.5e-5 * f64::from(k), 0.0));
            bench.step();
        }
        let force = norm(bench.steps(600).force);
        let want = 1000.0 * (0.01 - puppet.get().pose.translation.vector.y);
        assert!((force / want - 1.0).abs() < 0.02, "{force} of {want} N");
    }
}
