//! Friction of point shells and sphere trees through the whole servo: what it holds, when it lets go, what it takes.

use crate::device::Puppet;
use crate::world::{Bench, MS, cube_tool, field, floor, norm, object, scene};
use hapticd::contact::ist::{IstParams, Solid, SphereTree};
use hapticd::contact::vps::{PointShell, ShellParams};
use hapticd::contact::{Friction, ObjectShape, ToolShape};
use hapticd::geometry::field::build::{FieldParams, Resolution, Silent, build};
use hapticd::geometry::{Pose, TriMesh, Twist, Vec3, Wrench, shapes};
use hapticd::haptics::coupling::{Coupling, Law};
use hapticd::scene::snapshot::{SnapshotObject, Tool};
use hapticd::servo::handle::ServoConfig;
use hapticd::servo::record::ServoState;
use nalgebra::UnitQuaternion;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const RUBBER: Friction = Friction { statics: 0.8, dynamic: 0.5, stribeck: 0.0, viscous: 0.0 };
const SIDE: f64 = 0.02;
/// Lower than this no contact of these tests is capped: a face of 4 cm^2 has 1200 N/m.
const SOFT: f64 = 300.0;

fn law(law: Law) -> ServoConfig {
    ServoConfig { coupling: Coupling { law, ..Coupling::default() }, ..ServoConfig::default() }
}

fn rough(shape: ObjectShape, pose: Pose, stiffness: f64, friction: Friction) -> SnapshotObject {
    let mut object = object(1, shape, pose, stiffness);
    object.material.friction = friction;
    object
}

fn shell(mesh: &TriMesh, points: u32, turn: UnitQuaternion<f64>) -> Arc<Tool> {
    let shell = PointShell::build(mesh, ShellParams::points(points)).expect("closed");
    let bound_radius = shell.bound_radius;
    let offset = Pose::from_parts(Vec3::zeros().into(), turn);
    Arc::new(Tool { shape: ToolShape::Shell(Arc::new(shell)), offset, bound_radius, incarnation: 3 })
}

/// A cube of 2 cm as a sphere tree.
pub fn spheres(number: u32) -> Arc<Tool> {
    let tree = SphereTree::build(&shapes::cuboid(Vec3::repeat(SIDE)), &IstParams::spheres(number), &Silent);
    let tree = tree.expect("builds");
    let bound_radius = tree.bound_radius;
    let shape = ToolShape::Spheres(Arc::new(tree));
    Arc::new(Tool { shape, offset: Pose::identity(), bound_radius, incarnation: 4 })
}

/// A slab with its upper face at y = 0, for sphere trees.
pub fn slab() -> ObjectShape {
    let mut mesh = shapes::cuboid(Vec3::new(0.1, 0.02, 0.1));
    mesh.vertices.iter_mut().for_each(|v| v.y -= 0.01);
    let params = FieldParams { resolution: Resolution::Cell(0.002), padding: 4 };
    let (field, _) = build(&mesh, &params, &Silent).expect("builds");
    ObjectShape::Solid(Arc::new(Solid::new(&mesh, Arc::new(field), &|| false).expect("never stopped")))
}

/// A free body in the hand's place: what the servo commands and what pulls besides moves it.
struct Body {
    kg: f64,
    inertia: f64,
    /// The hand's own damping, N s/m and N m s/rad.
    damping: [f64; 2],
    pose: Pose,
    twist: Twist,
}

impl Body {
    fn new(pose: Pose) -> Self {
        Self { kg: 0.1, inertia: 1e-4, damping: [0.0; 2], pose, twist: Twist::ZERO }
    }

    fn tick(&mut self, bench: &mut Bench, puppet: &Puppet, pull: &Wrench) -> Wrench {
        puppet.with(|s| s.pose = self.pose);
        let r = bench.step();
        assert_eq!(r.state, ServoState::Rendering, "{:?}", r.fault);
        let command = puppet.get().command;
        let force = command.force + pull.force - self.twist.linear * self.damping[0];
        let torque = command.torque + pull.torque - self.twist.angular * self.damping[1];
        let (a, b) = (force / self.kg, torque / self.inertia);
        let way = self.twist.linear * 1e-3 + a * 5e-7;
        let turn = self.twist.angular * 1e-3 + b * 5e-7;
        self.twist.linear += a * 1e-3;
        self.twist.angular += b * 1e-3;
        self.pose.translation.vector += way;
        self.pose.rotation = UnitQuaternion::from_scaled_axis(turn) * self.pose.rotation;
        command
    }
}

fn push(force: Vec3, torque: Vec3) -> Wrench {
    Wrench { force, torque }
}

/// Armed in the free at a pose.
fn armed(config: ServoConfig, tool: &Arc<Tool>, objects: Vec<SnapshotObject>, at: Pose) -> (Bench, Puppet) {
    let puppet = Puppet::new(at.translation.vector);
    puppet.with(|s| s.pose = at);
    let mut bench = Bench::new(Box::new(puppet.clone()), config);
    bench.publish(scene(1, tool, objects));
    bench.arm();
    (bench, puppet)
}

/// A cube of 2 cm, its lower face this far over y = 0.
fn over(gap: f64) -> Pose {
    Pose::translation(0.0, 0.5 * SIDE + gap, 0.0)
}

/// Everything that a cube can be, on a floor.
fn cubes() -> Vec<(&'static str, Law, Arc<Tool>, ObjectShape)> {
    cubes_of(3000, 2000)
}

fn cubes_of(points: u32, balls: u32) -> Vec<(&'static str, Law, Arc<Tool>, ObjectShape)> {
    let (points, tree) = (cube_tool(points), spheres(balls));
    vec![
        ("points, direct", Law::Direct, points.clone(), floor()),
        ("points, dynamic", Law::Dynamic, points.clone(), floor()),
        ("points, static", Law::Static, points, floor()),
        ("spheres, direct", Law::Direct, tree.clone(), slab()),
        ("spheres, dynamic", Law::Dynamic, tree.clone(), slab()),
        ("spheres, static", Law::Static, tree, slab()),
    ]
}

/// Lies on the floor under this press.
fn lying(config: ServoConfig, tool: &Arc<Tool>, object: SnapshotObject, press: f64) -> (Bench, Puppet, Body) {
    let (mut bench, puppet) = armed(config, tool, vec![object], over(1e-3));
    let mut body = Body { damping: [5.0, 0.01], ..Body::new(over(1e-3)) };
    for _ in 0..1500 {
        body.tick(&mut bench, &puppet, &push(Vec3::y() * -press, Vec3::zeros()));
    }
    assert!(body.twist.linear.norm() < 1e-4, "{:?}", body.twist);
    (bench, puppet, body)
}

/// A minute under four fifths of what breaks it away: not a micrometre. Then a quarter more than that, and it goes.
#[test]
fn below_break_away_nothing_drifts() {
    let press = 1.5;
    for (name, law_, tool, shape) in cubes_of(500, 400) {
        let (mut bench, puppet, mut body) =
            lying(law(law_), &tool, rough(shape, Pose::identity(), SOFT, RUBBER), press);
        // Pulled where the floor holds it, so that it does not tip.
        let most = RUBBER.statics * press;
        let pull = |part: f64| {
            let force = Vec3::x() * (part * most);
            push(force - Vec3::y() * press, (Vec3::y() * -0.5 * SIDE).cross(&force))
        };
        // It leans on a soft floor, and takes seconds to rest in that.
        for k in 0..6000 {
            body.tick(&mut bench, &puppet, &pull(0.8 * (f64::from(k) / 1000.0).min(1.0)));
        }
        let start = body.pose;
        let (mut worst, mut turned) = (0.0f64, 0.0f64);
        for _ in 0..60_000 {
            body.tick(&mut bench, &puppet, &pull(0.8));
            worst = worst.max((body.pose.translation.vector - start.translation.vector).norm());
            turned = turned.max(body.pose.rotation.angle_to(&start.rotation));
        }
        println!("{name}: {worst:e} m, {turned:e} rad in a minute");
        assert!(worst < 1e-7 && turned < 1e-5, "{name}: {worst} m, {turned} rad");
        assert!(bench.last.force[0] < -0.75 * most, "{name}: {:?}", bench.last.force);
        for _ in 0..300 {
            body.tick(&mut bench, &puppet, &pull(1.1));
        }
        let slid = body.pose.translation.vector.x - start.translation.vector.x;
        assert!(slid > 0.002, "{name}: {slid}");
    }
}

/// A hand that presses, strokes, turns and tips a cube: along the floor no sample is more than the coefficient times what presses.
#[test]
fn no_sample_leaves_the_cone() {
    for (name, law_, tool, shape) in cubes() {
        for friction in [RUBBER, Friction { stribeck: 0.02, ..RUBBER }, Friction::of(0.3)] {
            let object = rough(shape.clone(), Pose::identity(), SOFT, friction);
            let (mut bench, puppet) = armed(law(law_), &tool, vec![object], over(1e-3));
            let (mut pressed, mut full) = (0, 0);
            for k in 0..6000 {
                let t = f64::from(k) * 1e-3;
                let tip = Vec3::new(0.1 * (1.3 * t).sin(), 0.5 * (2.9 * t).sin(), 0.1 * (1.7 * t).sin());
                let lift = 1e-3 - 2.5e-3 * (3.3 * t).sin() * (t / 0.5).min(1.0);
                let at = Vec3::new(0.01 * (2.1 * t).sin(), 0.5 * SIDE + lift, 0.008 * (3.7 * t).sin());
                puppet.with(|s| {
                    s.pose = Pose::from_parts(
                        at.into(),
                        UnitQuaternion::from_scaled_axis(tip * (t / 0.5).min(1.0)),
                    );
                });
                bench.step();
                let force = puppet.get().command.force;
                // The contact's own force, and that of the whole: by the dynamic law the spring also carries what moves the virtual tool.
                let [x, y, z] = bench.last.contact_force;
                let own = x.hypot(z);
                assert!(own <= friction.statics * y + 1e-9, "{name} tick {k}: {own} of {y}");
                // The law's damping comes on top, of all that presses and of each patch by itself.
                let force = if law_ != Law::Direct { Vec3::new(x, y, z) } else { force };
                let along = force.x.hypot(force.z);
                assert!(
                    along <= friction.statics * force.y + 1e-3,
                    "{name} tick {k}: {force}, {}",
                    along / force.y
                );
                pressed += u32::from(force.y > 0.1);
                full += u32::from(along > 0.9 * friction.dynamic * force.y && force.y > 0.1);
            }
            assert!(pressed > 1500 && full > 200, "{name}: {pressed} ticks pressed, {full} rubbed");
        }
    }
}

/// Coulomb's incline: it sticks below atan(mu) and slides above, with g (sin a - mu cos a).
#[test]
fn a_cube_on_an_incline_sticks_and_slides() {
    let (mu, kg, g) = (0.4, 0.1, 9.81);
    for (degrees, slides) in [(19.0f64, false), (21.2, false), (22.4, true), (30.0, true)] {
        let angle = degrees.to_radians();
        let turn = UnitQuaternion::from_scaled_axis(Vec3::z() * -angle);
        let incline = Pose::from_parts(Vec3::zeros().into(), turn);
        let (down, out) = (turn * Vec3::x(), turn * Vec3::y());
        let start = Pose::from_parts((out * (0.5 * SIDE + 1e-3) - down * 0.03).into(), turn);
        let object = rough(floor(), incline, SOFT, Friction::of(mu));
        let (mut bench, puppet) = armed(law(Law::Direct), &cube_tool(3000), vec![object], start);
        let mut body = Body { damping: [5.0, 0.01], ..Body::new(start) };
        let mut way = Vec::new();
        // Gravity pulls out of the slope first, with a hand's damping; then along it, and the hand lets go.
        for k in 0..1800 {
            let free = (f64::from(k - 1000) / 300.0).clamp(0.0, 1.0);
            body.damping = [5.0 * (1.0 - free), 0.01];
            // Pulled along at the height of the incline: a cube on a soft floor would lean.
            let along = down * (angle.sin() * free * kg * g);
            let torque = (out * (-0.5 * SIDE)).cross(&along);
            body.tick(&mut bench, &puppet, &push(along - out * (angle.cos() * kg * g), torque));
            if k >= 1300 {
                way.push((body.pose.translation.vector - start.translation.vector).dot(&down));
            }
            // Before the floor ends.
            if slides && way.last().is_some_and(|w| w - way[0] > 0.04) {
                break;
            }
        }
        let slid = way[way.len() - 1] - way[0];
        println!("{degrees} degrees: {:.4} mm", slid * 1e3);
        if slides {
            let a = g * (angle.sin() - mu * angle.cos());
            let speed = |k: usize| (way[k] - way[k - 20]) / 0.02;
            let (from, to) = if degrees < 25.0 { (100, 400) } else { (30, 180) };
            let grown = (speed(to) - speed(from)) / (1e-3 * (to - from) as f64);
            println!("{grown:.4} m/s^2, {a:.4}");
            assert!((grown - a).abs() < 0.02 * a + 0.01, "{degrees}: {grown} m/s^2 of {a}");
        } else {
            assert!(slid.abs() < 1e-4, "{degrees}: {slid} m");
        }
    }
}

/// A disc that stands on its face breaks away at two thirds of R mu F.
#[test]
fn a_disc_breaks_away_at_two_thirds_of_its_radius() {
    let (radius, press) = (0.01, 1.0);
    let upright = UnitQuaternion::from_scaled_axis(Vec3::x() * std::f64::consts::FRAC_PI_2);
    let tool = shell(&shapes::cylinder(radius, SIDE, 64), 4000, upright);
    for law_ in [Law::Direct, Law::Dynamic, Law::Static] {
        let object = rough(floor(), Pose::identity(), SOFT, RUBBER);
        let (mut bench, puppet, mut body) = lying(law(law_), &tool, object, press);
        let most = RUBBER.statics * press * radius * 2.0 / 3.0;
        body.damping = [5.0, 1e-3];
        let mut broke = None;
        // One part in a thousand of it every 2 ms.
        for k in 0..3000 {
            let torque = most * f64::from(k / 2) * 1e-3;
            body.tick(&mut bench, &puppet, &push(Vec3::y() * -press, Vec3::y() * torque));
            if body.twist.angular.y > 0.3 {
                broke = Some(torque / most);
                break;
            }
        }
        let broke = broke.expect("breaks away");
        println!("{law_:?}: at {broke} of 2/3 R mu F");
        assert!((broke - 1.0).abs() < 0.04, "{law_:?}: {broke}");
    }
}

/// Work of the force over a stroke of known length: mu times the press times the way.
#[test]
fn a_stroke_costs_mu_times_the_press_times_the_way() {
    for (name, law_, tool, shape) in cubes() {
        for mu in [0.3, 0.6] {
            let object = rough(shape.clone(), Pose::identity(), SOFT, Friction::of(mu));
            let start = Pose::translation(-0.02, 0.5 * SIDE + 1e-3, 0.0);
            let (mut bench, puppet) = armed(law(law_), &tool, vec![object], start);
            let depth = 1e-3;
            let place = |bench: &mut Bench, x: f64, gap: f64| {
                puppet.with(|s| s.pose.translation.vector = Vec3::new(x, 0.5 * SIDE + gap, 0.0));
                bench.step();
            };
            for k in 0..=200 {
                place(&mut bench, -0.02, 1e-3 - f64::from(k) * 1e-5);
            }
            for _ in 0..200 {
                place(&mut bench, -0.02, -depth);
            }
            let (mut x, mut work, mut want) = (-0.02, 0.0, 0.0);
            for k in 0..400 {
                let force = puppet.get().command.force;
                x += 1e-4;
                // The springs stretch first.
                if k > 100 {
                    work -= force.x * 1e-4;
                    want += mu * force.y * 1e-4;
                }
                place(&mut bench, x, -depth);
            }
            println!("{name}: {work:.6} J of {want:.6} J");
            assert!(want > 1e-3 && (work / want - 1.0).abs() < 0.02, "{name}: {work} J of {want} J");
        }
    }
}

/// Round and round, pressed, tipped and turned: what the hand gets back is never more than what it gave.
#[test]
fn closed_paths_give_no_work() {
    for (name, law_, tool, shape) in cubes() {
        let object = rough(shape, Pose::identity(), SOFT, RUBBER);
        let (mut bench, puppet) = armed(law(law_), &tool, vec![object], over(2e-3));
        let (mut work, mut most) = (0.0f64, 0.0f64);
        let mut last = puppet.get().pose;
        for k in 0..=4000 {
            let t = f64::from(k) * 1e-3 * std::f64::consts::TAU;
            // Ten rounds of each, back in the air at the end of every second.
            let lift = 2e-3 - 3e-3 * (0.5 * t).sin().abs();
            let at = Vec3::new(4e-4 * (10.0 * t).sin(), 0.5 * SIDE + lift, 3e-4 * (7.0 * t).sin());
            let turn = UnitQuaternion::from_scaled_axis(Vec3::new(0.0, 0.02 * (5.0 * t).sin(), 0.0));
            let next = Pose::from_parts(at.into(), turn);
            let command = puppet.get().command;
            let turned = (next.rotation * last.rotation.inverse()).scaled_axis();
            work += command.force.dot(&(at - last.translation.vector)) + command.torque.dot(&turned);
            puppet.with(|s| s.pose = next);
            bench.step();
            last = next;
            most = most.max(norm(bench.last.force));
        }
        println!("{name}: {work:e} J, up to {most} N");
        assert_eq!(bench.handle.counters().heap.load(Relaxed), 0, "{name}: no tick touches the heap");
        assert!(most > 0.5 && work < -1e-4, "{name}: {work} J, {most} N");
    }
}

/// An object that moves carries what sticks to it along.
#[test]
fn a_moving_object_carries_what_sticks_to_it() {
    let mut slab = rough(floor(), Pose::identity(), SOFT, RUBBER);
    slab.motion = Some(0);
    let puppet = Puppet::new(over(3e-3).translation.vector);
    let mut bench = Bench::new(Box::new(puppet.clone()), ServoConfig::default());
    bench.publish(scene(1, &cube_tool(3000), vec![slab]));
    let from = 900 * MS;
    let path = move |ns: u64| Vec3::new(ns.saturating_sub(from) as f64 * 0.02e-9, 0.0, 0.0);
    let step = |bench: &mut Bench| bench.step_streamed(path);
    for _ in 0..20 {
        step(&mut bench);
    }
    bench.own();
    while bench.last.planned_ns < 800 * MS {
        let part = (bench.last.planned_ns as f64 / (700.0 * MS as f64)).min(1.0);
        puppet.place(over(3e-3 - 5e-3 * part).translation.vector);
        step(&mut bench);
    }
    let (mut carried, mut slid) = (0, 0);
    while bench.last.planned_ns < 1200 * MS {
        let r = step(&mut bench);
        let moved = 0.02 * (r.planned_ns as f64 / MS as f64 - 908.0) * 1e-3;
        // What is damped beside the friction: a floor that is sunk into holds the sides a little.
        assert!(r.force[0] <= RUBBER.statics * r.force[1] * 1.002, "{:?}", r.force);
        if (1e-4..1.0e-3).contains(&moved) {
            carried += u32::from(r.force[0] > 600.0 * moved);
        }
        if moved > 3e-3 {
            assert!((r.force[0] / r.force[1] - RUBBER.dynamic).abs() < 0.02, "{moved}: {:?}", r.force);
            slid += 1;
        }
    }
    assert!(carried > 40 && slid > 80, "{carried} carried, {slid} slid");
}

/// Without friction in the material nothing is different to the bit, whatever else stands there.
#[test]
fn no_friction_is_no_friction_to_the_bit() {
    for (name, law_, tool, shape) in cubes() {
        let run = |friction: Friction| {
            let object = rough(shape.clone(), Pose::identity(), SOFT, friction);
            let (mut bench, puppet) = armed(law(law_), &tool, vec![object], over(1e-3));
            let mut forces = Vec::new();
            for k in 0..500 {
                let t = f64::from(k) * 1e-3;
                let at = over(1e-3 - 4e-3 * t).translation.vector + Vec3::x() * (0.02 * t);
                puppet.with(|s| s.pose.translation.vector = at);
                let r = bench.step();
                forces.push((r.force, r.torque));
            }
            forces
        };
        let none = run(Friction::NONE);
        assert!(none.iter().any(|f| norm(f.0) > 0.3), "{name}");
        for friction in [
            Friction { statics: 0.0, dynamic: 0.5, stribeck: 0.01, viscous: 1.0 },
            Friction::of(f64::NAN),
            Friction::of(-0.5),
        ] {
            assert!(run(friction) == none, "{name}");
        }
        assert!(run(RUBBER) != none, "{name}: friction is felt");
    }
}

/// A pin in a hole, 40 mm deep, that is pushed beside its axis.
struct Pin {
    /// How far it goes in the last 1.5 s, m.
    way: f64,
    /// How far it leans, rad, and how deep it presses into the walls, m.
    lean: f64,
    depth: f64,
    /// How far it goes in 1.5 s once the push has come nearer to its axis, m.
    then: f64,
}

const IN_HOLE: f64 = 0.04;
/// Cell of the hole's field: its mouth is as sharp as that.
const CELL: f64 = 0.12 / 192.0;

/// Pushed at `arm` beside its axis, and then at `less`.
fn pushed(law_: Law, tool: &Arc<Tool>, block: &ObjectShape, mu: f64, arm: f64, less: f64) -> Pin {
    let object = rough(block.clone(), Pose::identity(), 2e4, Friction::of(mu));
    let start = Pose::translation(0.0, 0.04 - IN_HOLE, 0.0);
    let (mut bench, puppet) = armed(law(law_), tool, vec![object], start);
    let mut body = Body { damping: [2.0, 0.02], ..Body::new(start) };
    let force = 0.03;
    // It leans first, then the push along the axis comes.
    let torque = |arm: f64| Vec3::new(arm, 0.0, 0.0).cross(&(Vec3::y() * -force));
    let mut before = 0.0;
    for k in 0..4000 {
        let part = (f64::from(k - 1000) / 1000.0).clamp(0.0, 1.0);
        body.tick(&mut bench, &puppet, &push(Vec3::y() * (-force * part), torque(arm)));
        if k == 2500 {
            before = body.pose.translation.vector.y;
        }
    }
    let mut pin = Pin {
        way: before - body.pose.translation.vector.y,
        lean: body.pose.rotation.angle(),
        depth: bench.last.depth,
        then: 0.0,
    };
    if less < arm {
        before = body.pose.translation.vector.y;
        for k in 0..2500 {
            let arm = arm + (less - arm) * (f64::from(k) / 1000.0).min(1.0);
            body.tick(&mut bench, &puppet, &push(Vec3::y() * -force, torque(arm)));
        }
        pin.then = before - body.pose.translation.vector.y;
    }
    println!(
        "{law_:?} mu {mu}: arm {:.3} l/(2 mu), leans by {:.4} rad, {:.4} mm deep, cap {:.3}: goes {:.4} mm in 1.5 s, then {:.4} mm",
        arm * 2.0 * mu / IN_HOLE,
        pin.lean,
        pin.depth * 1e3,
        bench.last.cap,
        pin.way * 1e3,
        pin.then * 1e3
    );
    pin
}

/// The pin leans until mouth and tip press on opposite sides, each with N = F a / l, and hold 2 mu N: it jams from a = l / (2 mu) on (the
/// drawer's lock; Whitney 1982 has the whole diagram).
///
/// What is known of it: the mouth presses across the leaning pin, which holds another N sin(lean) up; and the walls are soft, so that what
/// presses lies over the length s = depth / lean at either end, falling evenly (its middle s / 3 from there), to a cell at the mouth and
/// the points' spacing at the tip. So the threshold lies between (l - s - cell - spacing) / (2 mu + lean) and
/// (l - 2 s / 3) / (2 mu + lean). By bisection it is at 0.885 to 0.908 l / (2 mu) with these laws and coefficients.
#[test]
fn a_leaning_pin_jams_and_frees_at_the_drawers_arm() {
    let (radius, hole, points) = (0.008, 0.0085, 30_000);
    let upright = UnitQuaternion::from_scaled_axis(Vec3::x() * std::f64::consts::FRAC_PI_2);
    let tool = shell(&shapes::cylinder(radius, 0.08, 128), points, upright);
    let ToolShape::Shell(pin) = &tool.shape else { panic!("a shell") };
    let spacing = (pin.total_area / f64::from(points)).sqrt();
    // A block with a hole along y, its mouth at y = 0.
    let block = ObjectShape::Field(field(0.06, 193, |p| (p.x.hypot(p.z) - hole).min(-p.y)));
    for law_ in [Law::Direct, Law::Dynamic, Law::Static] {
        for mu in [0.3, 0.5] {
            let limit = IN_HOLE / (2.0 * mu);
            let arm = 0.87 * limit;
            let free = pushed(law_, &tool, &block, mu, arm, arm);
            let s = free.depth / free.lean;
            let bends = 2.0 * mu + free.lean;
            let (least, most) = ((IN_HOLE - s - CELL - spacing) / bends, (IN_HOLE - 2.0 / 3.0 * s) / bends);
            println!("between {:.4} and {:.4} l/(2 mu)", least / limit, most / limit);
            assert!(free.way > 5e-4, "{law_:?} {mu}: jammed at {arm}, {} m", free.way);
            let over = 0.92 * limit;
            assert!(
                least < over && arm < most,
                "{law_:?} {mu}: the threshold is not between {least} and {most}"
            );
            // It frees as the push comes nearer to the axis, to where it would not have jammed.
            let jammed = pushed(law_, &tool, &block, mu, over, arm);
            assert!(jammed.way.abs() < 1e-5, "{law_:?} {mu}: goes on, {} m", jammed.way);
            assert!(jammed.then > 5e-4, "{law_:?} {mu}: stays jammed, {} m", jammed.then);
        }
    }
}

/// The same of spheres in a mesh: it jams from a much shorter arm on, by bisection from 0.62 to 0.67 l / (2 mu). (docs/proxy.md says why.)
#[test]
fn a_leaning_pin_of_spheres_jams_and_frees() {
    let (radius, hole) = (0.008, 0.0085);
    let upright = UnitQuaternion::from_scaled_axis(Vec3::x() * std::f64::consts::FRAC_PI_2);
    let pin = shapes::cylinder(radius, 0.08, 128);
    let tree = SphereTree::build(&pin, &IstParams::spheres(12_000), &Silent).expect("builds");
    let bound_radius = tree.bound_radius;
    let offset = Pose::from_parts(Vec3::zeros().into(), upright);
    let tool =
        Arc::new(Tool { shape: ToolShape::Spheres(Arc::new(tree)), offset, bound_radius, incarnation: 5 });
    let shape = shapes::HoleShape {
        radius: hole,
        length: 0.1,
        side: 0.05,
        chamfer: 0.0,
        key: None,
        ..shapes::HoleShape::default()
    };
    // Its bore along y, its mouth at y = 0.
    let mut block = shapes::keyed_hole(&shape);
    block.vertices.iter_mut().for_each(|v| *v = nalgebra::Point3::new(-v.y, v.x - 0.05, v.z));
    let params = FieldParams { resolution: Resolution::Cell(0.001), padding: 4 };
    let (field, _) = build(&block, &params, &Silent).expect("builds");
    let block =
        ObjectShape::Solid(Arc::new(Solid::new(&block, Arc::new(field), &|| false).expect("never stopped")));
    for law_ in [Law::Direct, Law::Static] {
        let mu = 0.4;
        let limit = IN_HOLE / (2.0 * mu);
        let jammed = pushed(law_, &tool, &block, mu, 0.69 * limit, 0.6 * limit);
        assert!(jammed.way.abs() < 1e-5, "{law_:?}: goes on, {} m", jammed.way);
        assert!(jammed.then > 5e-4, "{law_:?}: stays jammed, {} m", jammed.then);
    }
}

/// Tangential force at the motors.
fn drag(puppet: &Puppet) -> f64 {
    let f = puppet.get().command.force;
    f.x.hypot(f.z)
}

/// A material's coefficient rises under a hand that slides over it: no step is felt, and in the end the new one holds. A lower one
/// holds at once.
#[test]
fn a_higher_friction_fades_in_under_a_sliding_hand() {
    let ball = crate::world::sphere_tool(0.5 * SIDE);
    let cube = cube_tool(2000);
    for (law_, tool) in
        [Law::Direct, Law::Dynamic, Law::Static].into_iter().flat_map(|l| [(l, &ball), (l, &cube)])
    {
        let what = format!("{law_:?}, incarnation {}", tool.incarnation);
        let object = |mu| rough(floor(), Pose::identity(), SOFT, Friction::of(mu));
        let (mut bench, puppet) = armed(law(law_), tool, vec![object(0.1)], over(0.001));
        let go = |bench: &mut Bench, dx: f64, dy: f64| {
            puppet.with(|s| s.pose.translation.vector += Vec3::new(dx, dy, 0.0));
            bench.step();
        };
        (0..200).for_each(|_| go(&mut bench, 0.0, -1e-5));
        (0..300).for_each(|_| go(&mut bench, 3e-5, 0.0));
        let press = puppet.get().command.force.y;
        assert!((drag(&puppet) - 0.1 * press).abs() < 0.02 * press, "{what}: {}", drag(&puppet));
        bench.publish(scene(2, tool, vec![object(0.5)]));
        // The coefficient takes a fade of 200 ticks for its whole size; what rubs stays within the cone that it has come to, but for
        // the swing of a virtual tool's mass. At once it would be there in six ticks.
        let mut last = 0.0;
        for k in 1..=600 {
            go(&mut bench, 3e-5, 0.0);
            last = drag(&puppet);
            let cone = (0.1 + 0.5 * f64::from(k) / 200.0).min(0.5) * press;
            assert!(last <= cone + 0.05 * press, "{what}: {last} N after {k} ticks, of {press} N");
        }
        assert!((last - 0.5 * press).abs() < 0.02 * press, "{what}: {last} of {press} N");
        bench.publish(scene(3, tool, vec![object(0.1)]));
        (0..50).for_each(|_| go(&mut bench, 3e-5, 0.0));
        assert!((drag(&puppet) - 0.1 * press).abs() < 0.02 * press, "{what}: {}", drag(&puppet));
    }
}
