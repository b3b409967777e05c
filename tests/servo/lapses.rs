//! A hand on a device that is its mass alone, and samples that are missing again and again, or once: taps and presses are as without the gaps, and what
//! the hand sinks into in a long one throws it nowhere: meshes whose proxies wait, objects that are edited, heaps, and rubbing tools.

use crate::device::Puppet;
use crate::facets::meshed;
use crate::world::{Bench, cube_tool, field, norm, object, scene, sphere_tool};
use hapticd::contact::{Friction, ObjectShape};
use hapticd::device::ReadFault;
use hapticd::geometry::{Pose, Vec3, shapes};
use hapticd::scene::snapshot::{SnapshotObject, Tool};
use hapticd::servo::handle::ServoConfig;
use hapticd::servo::lapse::{EASY, FOLLOW, WALK};
use hapticd::servo::record::{FLAG_AFTER_LAPSE, FLAG_INCOMPLETE, ServoState, TickRecord, ZeroReason};
use std::sync::{Arc, LazyLock};

/// Of every floor, N/m.
const STIFFNESS: f64 = 600.0;
/// The ball's radius, m: it touches the floor there.
const RADIUS: f64 = 0.01;
const MASS: f64 = 0.6;

/// The half-space y < 0, 10 cm deep.
fn deep_floor() -> ObjectShape {
    static FLOOR: LazyLock<ObjectShape> = LazyLock::new(|| ObjectShape::Field(field(0.1, 41, |p| -p.y)));
    FLOOR.clone()
}

fn floor(id: u32, stiffness: f64) -> SnapshotObject {
    SnapshotObject { bound_radius: 0.18, ..object(id, deep_floor(), Pose::identity(), stiffness) }
}

struct Rig {
    bench: Bench,
    puppet: Puppet,
    at: Vec3,
    speed: Vec3,
    push: Vec3,
    generation: u64,
    tool: Arc<Tool>,
    /// m below where the ball touches; and of the motion away from it, the most, J.
    deepest: f64,
    out: f64,
}

impl Rig {
    fn new(config: ServoConfig, tool: &Arc<Tool>, objects: Vec<SnapshotObject>) -> Self {
        let at = Vec3::new(0.0, RADIUS + 0.01, 0.0);
        let puppet = Puppet::new(at);
        let mut bench = Bench::new(Box::new(puppet.clone()), config);
        bench.publish(scene(1, tool, objects));
        bench.arm();
        let none = Vec3::zeros();
        let tool = tool.clone();
        Self { bench, puppet, at, speed: none, push: none, generation: 1, tool, deepest: -1.0, out: 0.0 }
    }

    fn on_floor() -> Self {
        Self::new(ServoConfig::default(), &sphere_tool(RADIUS), vec![floor(1, STIFFNESS)])
    }

    fn publish(&mut self, objects: Vec<SnapshotObject>) {
        self.generation += 1;
        let tool = self.tool.clone();
        self.bench.publish(scene(self.generation, &tool, objects));
    }

    /// A tick of the servo without or with a sample.
    fn tick(&mut self, missing: bool) -> TickRecord {
        self.puppet.with(|s| s.read = missing.then_some(ReadFault::Stale));
        self.puppet.place(self.at);
        let r = self.bench.step();
        assert_eq!(r.state, ServoState::Rendering, "{:?}", r.fault);
        r
    }

    /// And a millisecond of the hand: its mass, 6 N s/m, and what it pushes with.
    fn step(&mut self, missing: bool) -> TickRecord {
        let r = self.tick(missing);
        let force = self.puppet.get().command.force;
        for _ in 0..10 {
            self.speed += (self.push + force - self.speed * 6.0) * (1e-4 / MASS);
            self.at += self.speed * 1e-4;
        }
        self.deepest = self.deepest.max(RADIUS - self.at.y);
        self.out = self.out.max(0.5 * MASS * self.speed.y.max(0.0).powi(2));
        r
    }

    fn steps(&mut self, ticks: u32, missing: impl Fn(u32) -> bool) -> TickRecord {
        for k in 0..ticks {
            self.step(missing(k));
        }
        self.bench.last
    }

    /// Leans with this, for so long that it is at rest.
    fn lean(&mut self, force: f64) {
        self.push.y = -force;
        let r = self.steps(2000, |_| false);
        assert!((norm(r.contact_force) - force).abs() < 0.02 * force, "{:?}", r.contact_force);
        (self.out, self.deepest) = (0.0, RADIUS - self.at.y);
    }

    /// Until nothing is held back any more, at most so long, s; how long that took.
    fn led_out(&mut self, most: f64) -> f64 {
        let mut ticks = 0u32;
        while self.bench.last.flags & FLAG_AFTER_LAPSE != 0 {
            self.step(false);
            ticks += 1;
            assert!(f64::from(ticks) < 1e3 * most, "held {} mm deep", 1e3 * (RADIUS - self.at.y));
        }
        f64::from(ticks) * 1e-3
    }

    fn stands(&self, force: f64, what: &str) {
        let (depth, rest) = (RADIUS - self.at.y, force / STIFFNESS);
        assert!((depth - rest).abs() < 2e-4 + 0.02 * rest, "{what}: {depth} m deep, not {rest}");
    }
}

/// What the wall's spring held, and what [`EASY`] and the way out may make of it, J.
fn allowed(force: f64) -> f64 {
    0.5 * (force + EASY).powi(2) / STIFFNESS + 0.5 * MASS * WALK * WALK
}

/// Three samples missing are one stale tick, six are four. The tap goes in no farther than the hand goes in the gap.
#[test]
fn a_tap_in_a_gap_is_as_deep_as_the_gap_is_long() {
    let tap = |at: u32, missing: u32, speed: f64| {
        let mut rig = Rig::on_floor();
        rig.push.y = -2.0;
        rig.speed.y = -speed;
        rig.steps(3000, |k| k >= at && k < at + missing);
        rig.stands(2.0, &format!("{missing} missing from {at} on at {speed} m/s"));
        rig.deepest
    };
    for speed in [0.3f64, 0.5] {
        let quiet = tap(0, 0, speed);
        // It touches 10 mm from the start.
        let touches = (0.01 / speed * 1e3) as u32;
        for missing in [3, 4, 6, 10, 15] {
            for before in [8, 3, 1, 0] {
                let deep = tap(touches - before.min(touches), missing, speed);
                let most = quiet + speed * f64::from(missing) * 1e-3;
                println!("{speed} m/s, {missing} from {before} before: {deep} of {quiet} m");
                assert!(deep < most, "{speed} m/s, {missing} from {before} before: {deep}, not {quiet} m");
            }
        }
        // A long one ends where the wall stands, too.
        for missing in [20, 30, 60] {
            let mut rig = Rig::on_floor();
            rig.push.y = -2.0;
            rig.speed.y = -speed;
            rig.steps(200, |k| k + 1 >= touches && k + 1 < touches + missing);
            let depth = rig.deepest;
            rig.led_out(FOLLOW * (2.0 / EASY).ln() + 1.2 * (depth + 0.02) / WALK);
            rig.steps(500, |_| false);
            rig.stands(2.0, &format!("{missing} missing at {speed} m/s, {depth} m deep"));
        }
    }
}

/// Walls that stop a tap within a gap: the gap lets it in softer than the wall then is. No more comes out than came in: a wall that were as stiff
/// at once again would give it up to twice.
#[test]
fn a_tap_on_a_stiff_wall_in_a_gap_gets_out_what_it_brought() {
    let mut failed = vec![];
    for (stiffness, speed) in [(1500.0, 0.3), (1500.0, 0.5), (3000.0, 0.3), (3000.0, 0.5f64)] {
        let touches = (0.01 / speed * 1e3) as u32;
        for missing in [0, 6, 10, 14, 17, 20, 22, 26, 30] {
            let mut most = 0.0f64;
            for from in (touches.saturating_sub(8)..=touches + 8).step_by(2) {
                let mut rig =
                    Rig::new(ServoConfig::default(), &sphere_tool(RADIUS), vec![floor(1, stiffness)]);
                rig.push.y = -2.0;
                rig.speed.y = -speed;
                // As it comes to the wall, the first time.
                let mut brought = None;
                for k in 0..600 {
                    rig.step(k >= from && k < from + missing);
                    if rig.at.y <= RADIUS {
                        brought = brought.or(Some(0.5 * MASS * rig.speed.y.powi(2)));
                    }
                }
                let brought = brought.expect("it comes to the wall");
                most = most.max(rig.out / brought);
            }
            println!("{stiffness} N/m, {speed} m/s, {missing} missing: {most:.2} of what it brought");
            if most > 1.01 {
                failed.push((stiffness, speed, missing, most));
            }
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}

/// Gaps of three samples in a row, come again and again; a third of them and more would take the force.
#[test]
fn gaps_again_and_again_take_no_wall_away() {
    for force in [2.0, 5.0] {
        let lean = |missing: &dyn Fn(u32) -> bool| {
            let mut rig = Rig::on_floor();
            for k in 0..4000 {
                rig.push.y = -force * (f64::from(k) * 1e-3).min(1.0);
                rig.step(missing(k));
            }
            rig.stands(force, "gaps while it leans");
            rig.deepest
        };
        let quiet = lean(&|_| false);
        for every in [12, 15, 20, 25, 50, 100] {
            let deepest = lean(&|k| k % every >= every - 3);
            assert!(deepest < quiet + 1e-3, "{force} N, 3 missing of {every}: {deepest} m, not {quiet}");
        }
        // After a long lapse the hand presses with more than before, and is held there.
        let mut rig = Rig::on_floor();
        rig.lean(2.0);
        rig.steps(100, |_| true);
        rig.push.y = -force;
        rig.steps(400, |_| false);
        let deep = rig.deepest;
        for _ in 0..20 {
            rig.steps(50, |k| k < 3);
        }
        assert!(rig.deepest < deep + 1e-3, "{force} N: {} m, not {deep}", rig.deepest);
        rig.led_out(FOLLOW * (force / EASY).ln() + 1.2 * deep / WALK);
        rig.steps(500, |_| false);
        rig.stands(force, "pressed with more after a lapse");
    }
}

/// A sample in four, 250 a second, of a hand in its place.
#[test]
fn too_few_samples_let_the_force_fade_out_and_say_so() {
    let mut rig = Rig::on_floor();
    rig.lean(2.0);
    let mut told = 0;
    for k in 0..1000u32 {
        let r = rig.tick(k % 4 != 0);
        told += u32::from(r.zero == ZeroReason::StaleSample);
        assert!(k < 400 || (r.ramp < 0.05 && norm(r.force) < 0.1), "{k}: {}", r.ramp);
    }
    assert!(told >= 240, "{told}");
    rig.steps(3000, |_| false);
    rig.stands(2.0, "samples again");
}

/// The hand draws back faster than what it sank into may lead it out: nothing holds it until it is at the end of that, and the record says why.
#[test]
fn who_draws_back_after_a_lapse_feels_nothing_and_reads_why() {
    let mut rig = Rig::on_floor();
    rig.lean(2.0);
    rig.steps(100, |_| true);
    rig.step(false);
    rig.push.y = 6.0;
    let mut told = 0;
    for _ in 0..500 {
        let r = rig.step(false);
        if r.zero == ZeroReason::AfterLapse {
            // Still inside what it sank into.
            assert!(norm(r.force) == 0.0 && r.touched == 1 && r.flags & FLAG_AFTER_LAPSE != 0, "{r:?}");
            assert_eq!(rig.puppet.get().command.force.norm(), 0.0);
            told += 1;
        }
    }
    assert!(told > 0, "never told");
    assert_eq!(rig.bench.last.zero, ZeroReason::NoContact);
}

/// Lapses of all lengths, and the hand leans on, or opens when the samples are back.
#[test]
fn a_lapse_of_any_length_gives_no_more_than_the_wall_held() {
    for force in [1.0, 2.0, 5.0] {
        for missing in [1, 3, 5, 10, 15, 20, 25, 30, 40, 70, 100] {
            if force * f64::from(missing) > 300.0 {
                continue;
            }
            let mut rig = Rig::on_floor();
            rig.lean(force);
            rig.steps(missing, |_| true);
            rig.step(false);
            rig.led_out(8.0);
            rig.steps(1000, |_| false);
            rig.stands(force, "after a lapse");
            let out = rig.out;
            println!("{force} N, {missing} missing: {} mm, {out} of {} J", 1e3 * rig.deepest, allowed(force));
            assert!(out <= allowed(force), "{force} N, {missing} missing: {out} of {} J", allowed(force));
        }
    }
}

/// Lapse upon lapse: nothing more than the limit's spring comes out of each, and in the end the wall is where it stands.
#[test]
fn lapses_in_a_row_give_no_more_than_one_does() {
    for (missing, every) in [(50, 100), (50, 150), (50, 400), (20, 60), (20, 200), (12, 50)] {
        let mut rig = Rig::on_floor();
        rig.lean(2.0);
        rig.steps(600, |k| k % every < missing);
        let deep = rig.deepest;
        rig.step(false);
        rig.led_out(FOLLOW * (2.0 / EASY).ln() + 1.2 * deep / WALK + 1.0);
        rig.steps(1000, |_| false);
        rig.stands(2.0, &format!("{missing} missing of {every}, {deep} m deep"));
        println!("{missing} of {every}: {} mm, {} of {} J", 1e3 * rig.deepest, rig.out, allowed(2.0));
        // What the ramp took its time for holds up to twice the energy: half the gain.
        assert!(rig.out <= 2.0 * allowed(2.0), "{missing} missing of {every}: {} J", rig.out);
    }
}

/// A hand in the free comes to the wall in the lapse, or goes from one object to another.
#[test]
fn what_the_hand_came_to_in_a_lapse_leads_it_out_in_its_time() {
    for missing in [40, 100, 200] {
        let mut rig = Rig::on_floor();
        rig.push.y = -2.0;
        rig.speed.y = -0.2;
        // 1 mm before it touches.
        while rig.at.y > RADIUS + 1e-3 {
            rig.step(false);
        }
        rig.steps(missing, |_| true);
        rig.step(false);
        rig.steps(300, |_| false);
        let deep = rig.deepest;
        let took = rig.led_out(FOLLOW * (2.0 / EASY).ln() + 1.2 * deep / WALK);
        rig.steps(500, |_| false);
        rig.stands(2.0, &format!("{missing} missing, {deep} m deep, {took} s"));
        println!("{missing}: {deep} m deep, {took} s, {} J", rig.out);
        assert!(rig.out <= allowed(2.0), "{missing} missing: {} J", rig.out);
    }
    // A wall beside the floor, 5 mm away, into which the hand is pushed with 2 N meanwhile.
    let wall = || ObjectShape::Field(field(0.1, 41, |p| p.x - RADIUS - 0.005));
    let wall = SnapshotObject { bound_radius: 0.18, ..object(2, wall(), Pose::identity(), STIFFNESS) };
    let mut rig = Rig::new(ServoConfig::default(), &sphere_tool(RADIUS), vec![floor(1, STIFFNESS), wall]);
    rig.lean(2.0);
    rig.push.x = 2.0;
    rig.steps(100, |_| true);
    rig.step(false);
    rig.led_out(5.0);
    rig.steps(1000, |_| false);
    rig.stands(2.0, "from the floor into a wall");
    let rest = 0.005 + 2.0 / STIFFNESS;
    assert!((rig.at.x - rest).abs() < 2e-4 + 0.02 * rest, "{} m, not {rest}", rig.at.x);
    assert!(rig.out <= allowed(2.0), "{} J", rig.out);
}

/// Meshes have their proxies begin anew after a lapse; with so little to spend in a tick these wait for their turn.
#[test]
fn a_mesh_whose_proxy_waits_throws_nobody_out() {
    let block = meshed(&shapes::cuboid(Vec3::new(0.16, 0.16, 0.16)));
    for units in [0, 1] {
        let block = |id| {
            // All but the last are 30 mm lower, and near by their bounds: they are asked first, and then there is nothing left.
            let y = if id == 8 { -0.08 } else { -0.11 };
            SnapshotObject {
                bound_radius: 0.2,
                ..object(id, block.clone(), Pose::translation(0.0, y, 0.0), STIFFNESS)
            }
        };
        let config = ServoConfig { budget_units: units, ..ServoConfig::default() };
        let mut rig = Rig::new(config, &sphere_tool(RADIUS), (1..=8).map(block).collect());
        rig.lean(2.0);
        let mut waited = false;
        for missing in [40, 80, 97, 98, 99, 100] {
            (rig.out, rig.deepest) = (0.0, 0.0);
            rig.steps(missing, |_| true);
            for _ in 0..300 {
                waited |= rig.step(false).flags & FLAG_INCOMPLETE != 0;
            }
            rig.led_out(5.0);
            rig.steps(1000, |_| false);
            rig.stands(2.0, &format!("{units} units, {missing} missing"));
            println!("{units} units, {missing}: {} mm, {} J", 1e3 * rig.deepest, rig.out);
            assert!(rig.out <= allowed(2.0), "{units} units, {missing} missing: {} J", rig.out);
        }
        assert_eq!(waited, units > 0, "{units} units");
    }
}

/// One per cent in scale is another incarnation of the same object.
#[test]
fn an_edit_on_the_way_out_throws_nobody_out() {
    let edits: [fn(&mut SnapshotObject); 3] =
        [|_| (), |o| o.material.stiffness *= 1.01, |o| o.pose = Pose::translation(0.0, 2e-4, 0.0)];
    for (n, edit) in edits.into_iter().enumerate() {
        for after in [0, 20, 200] {
            let mut rig = Rig::on_floor();
            rig.lean(2.0);
            rig.steps(100, |_| true);
            rig.steps(1 + after, |_| false);
            assert_ne!(rig.bench.last.flags & FLAG_AFTER_LAPSE, 0, "{after}");
            let mut edited = SnapshotObject { incarnation: 2, ..floor(1, STIFFNESS) };
            edit(&mut edited);
            rig.publish(vec![edited]);
            rig.step(false);
            assert_ne!(rig.bench.last.flags & FLAG_AFTER_LAPSE, 0, "edit {n} after {after} ms");
            rig.led_out(5.0);
            rig.steps(1000, |_| false);
            println!("edit {n} after {after}: {} J", rig.out);
            assert!(rig.out <= allowed(2.0), "edit {n} after {after} ms: {} J", rig.out);
        }
    }
}

/// Held in its place after the lapse, the hand gets no more of ten floors than of one.
#[test]
fn a_heap_leads_out_as_one_object_does() {
    for floors in [1u32, 10] {
        let each = STIFFNESS / f64::from(floors);
        let objects = (1..=floors).map(|id| floor(id, each)).collect();
        let mut rig = Rig::new(ServoConfig::default(), &sphere_tool(RADIUS), objects);
        rig.lean(2.0);
        rig.steps(100, |_| true);
        rig.step(false);
        rig.steps(300, |_| false);
        // A clamp.
        let deep = RADIUS - rig.at.y;
        let mut most = 0.0f64;
        for k in 0..1000 {
            let r = rig.tick(false);
            assert_ne!(r.flags & FLAG_AFTER_LAPSE, 0, "{floors} floors, {k}");
            if k > 0 {
                most = most.max(norm(r.contact_force));
            }
        }
        println!("{floors} floors, {deep} m deep: {most} N");
        // What is felt is followed meanwhile, with EASY/FOLLOW.
        assert!(most < 2.0 + EASY + EASY * 1.3 / FOLLOW + 0.1, "{floors} floors: {most} N");
        assert!(most > 2.0 + 0.5 * EASY, "{floors} floors: {most} N");
    }
}

/// A cube that is drawn out obliquely while most of the wall is held back: what rubs is within the cone of what presses. No deeper than that
/// its sides do not touch.
#[test]
fn friction_stays_in_its_cone_on_the_way_out() {
    let mut rough = floor(1, 1.25 * STIFFNESS);
    rough.material.friction = Friction::of(0.5);
    let config = ServoConfig { slew_force: 1e6, slew_torque: 1e6, ..ServoConfig::default() };
    let mut rig = Rig::new(config, &cube_tool(800), vec![rough]);
    // Comes from the free in the lapse, 0.8 mm into 3000 N/m, of which it feels EASY.
    while rig.at.y > RADIUS + 1e-3 {
        rig.at.y -= 5e-5;
        rig.tick(false);
    }
    for _ in 0..100 {
        rig.at.y = (rig.at.y - 3e-5).max(RADIUS - 8e-4);
        rig.tick(true);
    }
    let mut rubs = 0;
    // With 30 mm/s to the side and out: most of what is felt is damped away.
    for (steps, step) in [(100, Vec3::new(3e-5, 0.0, 0.0)), (40, Vec3::new(3e-5, 3e-5, 0.0))] {
        for k in 0..steps {
            rig.at += step;
            let r = rig.tick(false);
            let [x, y, z] = r.force;
            assert!(x.hypot(z) <= 0.5 * y * 1.01 + 1e-3, "{step:?} {k}: {:?}", r.force);
            let held = r.flags & FLAG_AFTER_LAPSE != 0 && y > 0.01;
            rubs += u32::from(held && step.y > 0.0 && x < -0.4 * y);
        }
    }
    assert!(rubs >= 5, "{rubs}");
}
