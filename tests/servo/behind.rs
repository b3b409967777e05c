//! A proxy on the mesh that falls behind: what the motors get of it meanwhile and afterwards, that it is told, and that many of them keep
//! the tick's time.

use crate::device::Puppet;
use crate::facets::meshed;
use crate::sheets::{dense, edge};
use crate::world::{Bench, object, scene, sphere_tool};
use hapticd::contact::{Deadline, ObjectShape};
use hapticd::geometry::{Pose, TriMesh, Twist, Vec3, shapes};
use hapticd::haptics::guard::energy::EnergyGuard;
use hapticd::scene::snapshot::{Snapshot, SnapshotObject};
use hapticd::servo::handle::ServoConfig;
use hapticd::servo::lapse::Lapse;
use hapticd::servo::mapping::ToolState;
use hapticd::servo::query::{Queries, Touch, World};
use hapticd::servo::record::{FLAG_INCOMPLETE, TickRecord};

const STIFFNESS: f64 = 800.0;

/// What is left of a ball of triangles below the plane z = 1 mm.
fn cup(radius: f64, finer: u32) -> TriMesh {
    let mut ball = shapes::icosphere(radius, finer);
    let below = |t: &[u32; 3]| t.iter().all(|v| ball.vertices[*v as usize].z <= 1e-3);
    let triangles = ball.triangles.iter().copied().filter(below).collect();
    ball.triangles = triangles;
    ball
}

fn whole(shape: &ObjectShape) -> SnapshotObject {
    SnapshotObject { bound_radius: 0.05, ..object(1, shape.clone(), Pose::identity(), STIFFNESS) }
}

/// A bench whose hand stands at `from` with the force on.
fn armed(shape: &ObjectShape, radius: f64, budget_units: u32, from: Vec3) -> (Bench, Puppet) {
    guarded(shape, radius, ServoConfig { budget_units, ..ServoConfig::default() }, from)
}

fn guarded(shape: &ObjectShape, radius: f64, config: ServoConfig, from: Vec3) -> (Bench, Puppet) {
    let puppet = Puppet::new(from);
    let mut bench = Bench::new(Box::new(puppet.clone()), config);
    bench.publish(scene(1, &sphere_tool(radius), vec![whole(shape)]));
    bench.arm();
    (bench, puppet)
}

/// Goes in steps of at most `step`; each tick's record and command.
fn go(
    (bench, puppet): &mut (Bench, Puppet),
    to: Vec3,
    step: f64,
    mut see: impl FnMut(Vec3, &TickRecord, Vec3),
) {
    let from = puppet.get().pose.translation.vector;
    let ticks = ((to - from).norm() / step).ceil().max(1.0) as u32;
    for k in 1..=ticks {
        let x = from + (to - from) * (f64::from(k) / f64::from(ticks));
        puppet.place(x);
        let r = bench.step();
        see(x, &r, puppet.get().command.force);
    }
}

/// A ball that nearly fills its cup is stroked to and fro for three seconds: the whole press at the motors, along the radius, without
/// dragging, where the tick is enough for its way.
#[test]
fn a_stroked_socket_presses_whole_at_the_motors() {
    let (radius, r, press) = (0.0245, 0.024, 0.002);
    let far = radius - r + press;
    let want = STIFFNESS * press;
    for (finer, speed) in [(5, 0.1), (5, 0.3), (6, 0.1), (6, 0.3)] {
        let shape = meshed(&cup(radius, finer));
        // The contact's own force: what is stroked so fast over facets so small makes debt, which the controller would damp.
        let config = ServoConfig { energy: Some(EnergyGuard::Observe), ..ServoConfig::default() };
        let mut rig = guarded(&shape, r, config, Vec3::zeros());
        let at = |a: f64| Vec3::new(a.sin(), 0.01, -a.cos()).normalize() * far;
        go(&mut rig, at(0.0), 1e-4, |_, _, _| {});
        let (mut least, mut along, mut behind, mut work, mut way) = (f64::MAX, 0.0f64, 0, 0.0, 0.0);
        let (mut last, mut jump) = (rig.1.get().command.force, 0.0f64);
        let mut x = at(0.0);
        for k in 0..3000 {
            // A triangle wave of 0.5 rad.
            let turned = speed * 1e-3 / far * f64::from(k) / 0.5;
            let a = 0.5 * ((turned + 1.0).rem_euclid(4.0) - 2.0).abs() - 0.5;
            let next = at(-a);
            rig.1.place(next);
            let flagged = rig.0.step().flags & FLAG_INCOMPLETE != 0;
            behind += u32::from(flagged);
            let force = rig.1.get().command.force;
            let n = -next.normalize();
            let drag = force - n * force.dot(&n);
            least = least.min(force.dot(&n));
            along = along.max(drag.norm());
            work += drag.dot(&(next - x));
            way += (next - x).norm();
            jump = jump.max((force - last).norm());
            (last, x) = (force, next);
        }
        println!(
            "{finer} {speed}: {least} of {want} N, {along} N along, {behind} ticks behind, {work} J over {way} m, {jump} N in a tick"
        );
        // The last is more than a tick has: docs/proxy.md says what is lost.
        let late = (finer, speed) == (6, 0.3);
        let (part, drag, drags, turn) = if late { (0.33, 0.35, 0.12, 0.7) } else { (0.9, 0.05, 0.02, 0.3) };
        assert!(least > part * want, "{finer} {speed}: {least} of {want} N");
        assert!(along < drag * want, "{finer} {speed}: {along} N along");
        assert!(work.abs() < drags * want * way, "{finer} {speed}: {work} J over {way} m");
        assert!(jump < turn, "{finer} {speed}: {jump} N in a tick");
        assert!(late == (behind > 1500), "{finer} {speed}: told in {behind} ticks");
    }
}

/// With the least that there is to spend: it is told, nothing grows that was not felt, and when the budget is back the hand feels hardly more
/// than before, however far it has gone in.
#[test]
fn a_starved_socket_is_told_and_does_not_burst() {
    let (radius, r) = (0.0245, 0.024);
    let shape = meshed(&cup(radius, 6));
    let snapshot = scene(1, &sphere_tool(r), vec![whole(&shape)]);
    let mut asked = Asked::new(*snapshot);
    let mut x = Vec3::new(0.0, 2e-4, 0.0);
    for _ in 0..3 {
        asked.touch(x, 0, None);
    }
    let mut most = 0.0f64;
    let mut behind = 0;
    for k in 0..500 {
        x.z -= 2.5e-5;
        let t = asked.touch(x, 1, None);
        most = most.max(t.wrench.force.norm());
        if t.behind > 1e-6 && asked.lags() {
            behind += 1;
            assert!(!t.complete, "{k}: nobody is told");
        }
    }
    println!("{behind} ticks behind, {most} N at most");
    assert!(behind > 400, "{behind} ticks: not starved");
    let before = asked.last.wrench.force.norm();
    let mut grown = 0.0f64;
    for _ in 0..600 {
        let t = asked.touch(x, 0, None);
        grown = grown.max(t.wrench.force.norm() - before);
    }
    println!("felt {before}, grown by {grown} N");
    assert!(grown <= before + 1.0 + 1e-9, "from {before} N by {grown} N");
    assert!(asked.last.complete, "and it is there");
    // Out of it and in again: whole.
    for _ in 0..600 {
        x.z = (x.z + 2.5e-5).min(0.0);
        asked.touch(x, 0, None);
    }
    for _ in 0..60 {
        x.z -= 2.5e-5;
        asked.touch(x, 0, None);
    }
    let want = STIFFNESS * (x.norm() - (radius - r));
    let force = asked.last.wrench.force.norm();
    assert!((force - want).abs() < 0.1 * want, "{force}, not {want} N");
}

/// Queries of one scene, tick by tick.
struct Asked {
    queries: Queries,
    snapshot: Snapshot,
    tick: u64,
    last: Touch,
    at: Vec3,
}

impl Asked {
    fn new(snapshot: Snapshot) -> Self {
        Self { queries: Queries::default(), snapshot, tick: 0, last: Touch::NOTHING, at: Vec3::zeros() }
    }

    fn touch(&mut self, x: Vec3, units: u32, deadline: Option<&dyn Deadline>) -> Touch {
        let dt = 1e-3;
        self.tick += 1;
        let linear = if self.tick > 1 { (x - self.at) / dt } else { Vec3::zeros() };
        self.at = x;
        let tool = ToolState {
            pose: Pose::translation(x.x, x.y, x.z),
            twist: Twist { linear, angular: Vec3::zeros() },
            lever: Vec3::zeros(),
        };
        self.last = self.queries.touch(&World {
            snapshot: &self.snapshot,
            frame: None,
            tool: &tool,
            tick: self.tick,
            now_ns: self.tick * 1_000_000,
            dt,
            since: None,
            units,
            deadline,
            tau: 0.0,
            grip: f64::INFINITY,
            fade: 0.2,
            release: 0.03,
            way: 2e-3,
            keep: true,
            braking: 3e-3,
            lapse: Lapse::none(),
        });
        self.last
    }

    /// The hand has gone on, and what is felt is less than half of what its proxy would press with.
    fn lags(&self) -> bool {
        self.last.wrench.force.norm() < 0.5 * STIFFNESS * self.last.behind
    }
}

/// Many meshes about a ball in a tick whose time is over: what each has at least would be many times the tick's. They take turns, and what
/// presses goes on pressing.
#[test]
fn many_meshes_in_a_tick_that_is_over_take_turns() {
    struct Over;
    impl Deadline for Over {
        fn passed(&self) -> bool {
            true
        }
    }
    // Thirty fine sheets through the place where the ball presses, a degree apart.
    let shape = meshed(&dense(150, 0.04));
    let objects = (0..30u16).map(|k| {
        let turn = Vec3::new(0.017 * f64::from(k), 0.0, 0.0);
        let sheet = object(u32::from(k) + 1, shape.clone(), Pose::new(Vec3::zeros(), turn), 20.0);
        SnapshotObject { bound_radius: 0.03, ..sheet }
    });
    let r = 0.004;
    for (name, units, deadline) in [
        ("deadline", 0, Some(&Over as &dyn Deadline)),
        ("budget", 300, None),
        ("both", 300, Some(&Over as _)),
    ] {
        let run = |units, deadline: Option<&dyn Deadline>| {
            let snapshot = scene(1, &sphere_tool(r), objects.clone().collect());
            let mut asked = Asked::new(*snapshot);
            let (mut work, mut forces) = (0, vec![]);
            for k in 0..900 {
                let down = (f64::from(k) * 1e-5).min(3e-3);
                let along = (f64::from(k) - 300.0).clamp(0.0, 300.0) * 1e-5;
                let t = asked.touch(Vec3::new(along, 1e-4, r + 1e-3 - down), units, deadline);
                work = work.max(t.work);
                forces.push(t.wrench.force);
            }
            (work, forces)
        };
        let (full, truth) = run(0, None);
        let (work, forces) = run(units, deadline);
        let worst = (150..900).map(|k| (forces[k] - truth[k]).norm() / truth[k].norm()).fold(0.0, f64::max);
        println!("{name}: {work} of {full} units, {worst} of the force lost");
        // The one with which it is over, and four that have their turn, with 96 units, 64 for braking and what the field is asked.
        assert!(full > 1000 && work <= 300 + 5 * 170, "{name}: {work} of {full} units");
        assert!(worst < 0.2, "{name}: {worst} of the force");
    }
}

/// In an edge whose triangles are smaller than a tick's way, and on a scanned body, with the least to spend: at the motors, in every tick,
/// against a twin that may spend what it likes.
#[test]
fn a_starved_hand_feels_what_one_in_plenty_does() {
    let shape = meshed(&edge());
    for radius in [0.004, 0.015] {
        for speed in [0.1, 0.3, 1.0] {
            let at = |y: f64| Vec3::new(radius - 2e-3, y, radius - 1.4e-3);
            let out = Vec3::new(radius + 4e-3, -0.01, radius + 4e-3);
            let run = |units| {
                let mut rig = armed(&shape, radius, units, out);
                let (mut forces, mut run, mut longest) = (vec![], 0, 0);
                go(&mut rig, at(-0.01), 1.3e-4, |_, _, _| {});
                rig.0.steps(40);
                for y in [-0.01, 0.01] {
                    go(&mut rig, at(y), speed * 1e-3, |_, r, f| {
                        forces.push(f);
                        run = if r.flags & FLAG_INCOMPLETE != 0 { run + 1 } else { 0 };
                        longest = longest.max(run);
                    });
                }
                for _ in 0..300 {
                    let r = rig.0.step();
                    forces.push(rig.1.get().command.force);
                    run = if r.flags & FLAG_INCOMPLETE != 0 { run + 1 } else { 0 };
                    longest = longest.max(run);
                }
                (forces, longest)
            };
            let (truth, _) = run(0);
            let (forces, longest) = run(1);
            let off = truth.iter().zip(&forces).map(|(t, f)| (t - f).norm()).fold(0.0, f64::max);
            let jump = forces.windows(2).map(|w| (w[1] - w[0]).norm()).fold(0.0, f64::max);
            println!("edge {radius} {speed}: off by {off} N, {jump} N in a tick, {longest} ticks behind");
            // With nothing to spend, the triangles that it knows end under a hand that goes two of them a tick (docs/proxy.md).
            let (turns, lost, ticks) = if speed > 0.5 { (1.3, 1.7, 60) } else { (0.3, 0.3, 20) };
            assert!(jump < turns, "edge {radius} {speed}: {jump} N in a tick");
            assert!(off < lost, "edge {radius} {speed}: {off} N off");
            assert!(longest <= ticks, "edge {radius} {speed}: {longest} ticks behind");
            let last = (truth[truth.len() - 1] - forces[forces.len() - 1]).norm();
            assert!(last < 0.1, "edge {radius} {speed}: {last} N off in the end");
        }
    }
}
