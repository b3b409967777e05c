//! Time of the whole tick: without contact, with 10,000 shell points in contact, with twenty objects touched at once,
//! adopting a scene, and with a thousand objects out of reach; and what control law and guard cost in it, and by themselves.
//!
//! `cargo bench --bench tick`. Medians and p99 in us, beside what each should stay below on a 2-core machine of today,
//! and a reference load (a fixed chain of dependent operations): where that one wavers, so does the machine. Nothing
//! is asserted.

#[path = "tick/command.rs"]
mod command;

use hapticd::contact::ist::{IstParams, Solid, SphereTree};
use hapticd::contact::vps::{PointShell, ShellParams};
use hapticd::contact::{
    Budget, Friction, Material, ObjectShape, Query, QueryState, Texture, ToolShape, query,
};
use hapticd::device::registry::{OpenOptions, Registry};
use hapticd::device::simulated::HandScript;
use hapticd::geometry::field::Field;
use hapticd::geometry::field::build::{FieldParams, Resolution, Silent, build};
use hapticd::geometry::{Point, Pose, Twist, Vec3, shapes};
use hapticd::haptics::coupling::{Coupling, Law};
use hapticd::haptics::grip::{Grip, Held};
use hapticd::haptics::guard::energy::EnergyGuard;
use hapticd::haptics::proxy::Proxy;
use hapticd::scene::exchange::{Adoption, exchange};
use hapticd::scene::snapshot::{Snapshot, SnapshotObject, Tool};
use hapticd::servo::handle::{ServoCommand, ServoConfig, ServoHandle, channel};
use hapticd::servo::run::VirtualServo;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const TICKS: usize = 5000;

/// Median and p99, us.
fn quantiles(mut ns: Vec<u64>) -> (f64, f64) {
    ns.sort_unstable();
    let at = |q: f64| ns[((ns.len() - 1) as f64 * q).round() as usize] as f64 / 1e3;
    (at(0.5), at(0.99))
}

fn show(name: &str, target: &str, ns: Vec<u64>) {
    let (median, p99) = quantiles(ns);
    println!("{name:<70} {median:>9.3} {p99:>9.3}   {target}");
}

fn ball(nodes: u32) -> ObjectShape {
    let cell = 0.1 / f64::from(nodes - 1);
    let corner = Point::new(-0.05, -0.05, -0.05);
    ObjectShape::Field(Arc::new(Field::from_fn(corner, cell, [nodes; 3], |p| 0.04 - p.coords.norm())))
}

fn object(id: u32, shape: &ObjectShape, at: Vec3) -> SnapshotObject {
    SnapshotObject {
        id,
        incarnation: 1,
        slot: id as u16,
        motion: None,
        pose: Pose::translation(at.x, at.y, at.z),
        shape: shape.clone(),
        material: Material {
            stiffness: 50.0,
            reference_area: 1e-4,
            damping: 0.2,
            friction: Friction::NONE,
            texture: Texture::NONE,
        },
        bound_centre: Point::origin(),
        bound_radius: 0.087,
    }
}

fn sphere() -> Arc<Tool> {
    Arc::new(Tool {
        shape: ToolShape::Sphere { radius: 0.005 },
        offset: Pose::identity(),
        bound_radius: 0.005,
        incarnation: 1,
    })
}

/// A ball of 4.0 cm as a shell: laid over the ball object, all its points lie in the band of the surface.
fn shell(points: u32) -> Arc<Tool> {
    let mesh = shapes::icosphere(0.0402, 5);
    let shell = PointShell::build(&mesh, ShellParams::points(points)).expect("a sphere");
    Arc::new(Tool {
        bound_radius: shell.bound_radius,
        shape: ToolShape::Shell(Arc::new(shell)),
        offset: Pose::identity(),
        incarnation: 2,
    })
}

fn servo(tool: &Arc<Tool>, objects: Vec<SnapshotObject>) -> (ServoHandle, VirtualServo) {
    servo_with(tool, objects, ServoConfig::default())
}

fn servo_with(
    tool: &Arc<Tool>,
    objects: Vec<SnapshotObject>,
    config: ServoConfig,
) -> (ServoHandle, VirtualServo) {
    let hand = HandScript::parse("hand = 'firm'\nkeyframe = [{ time = 0.0, position = [0.0, 0.0, 0.0] }]");
    let options = OpenOptions { hand: hand.expect("parses"), ..OpenOptions::default() };
    let device = Registry::builtin().open("ideal-6dof", &options).expect("shipped");
    let (mut handle, end) = channel(config);
    let snapshot = Snapshot::new(1, tool.clone(), objects.into(), Pose::identity(), 1.0);
    handle.publish(Box::new(snapshot)).expect("the first");
    (handle, VirtualServo::new(end, device))
}

/// Times of single ticks, ns.
fn ticks(handle: &mut ServoHandle, servo: &mut VirtualServo) -> Vec<u64> {
    let mut ns = Vec::with_capacity(TICKS);
    for k in 0..TICKS + 200 {
        let start = Instant::now();
        black_box(servo.step());
        let took = start.elapsed().as_nanos() as u64;
        if k >= 200 {
            ns.push(took);
        }
        handle.drain(&mut |_| {});
    }
    ns
}

fn reference() -> Vec<u64> {
    let one = |_| {
        let start = Instant::now();
        let mut x = black_box(1.0f64);
        for _ in 0..20_000 {
            x = x * 0.999_999 + 1e-6;
        }
        black_box(x);
        start.elapsed().as_nanos() as u64
    };
    (0..200).map(one).collect()
}

/// Adoption alone: the exchange with real snapshots of `n` objects, ns.
fn adoptions(n: u32, tool: &Arc<Tool>, shape: &ObjectShape) -> Vec<u64> {
    let (mut publisher, mut adopter) = exchange::<Snapshot>(8);
    let mut ns = Vec::new();
    // Enough for a median and a p99; large scenes take their time to make.
    for generation in 1..=if n > 1000 { 200 } else { 500 } {
        let objects: Vec<_> = (0..n).map(|i| object(i, shape, Vec3::new(f64::from(i), 0.0, 0.0))).collect();
        let snapshot = Snapshot::new(generation, tool.clone(), objects.into(), Pose::identity(), 1.0);
        drop(publisher.publish(Box::new(snapshot)));
        let start = Instant::now();
        let what = black_box(adopter.adopt());
        ns.push(start.elapsed().as_nanos() as u64);
        assert_eq!(what, Adoption::Adopted);
        drop(publisher.collect());
    }
    ns
}

/// A ball's query alone (`None`), and its proxy with this friction; at rest, or sliding along by this much a tick, m. ns.
fn law(friction: Option<Friction>, slide: f64) -> Vec<u64> {
    let corner = Field::from_fn(Point::new(-0.06, -0.06, -0.06), 0.12 / 64.0, [65; 3], |p| -p.y.min(p.z));
    let mut wall = object(1, &ObjectShape::Field(Arc::new(corner)), Vec3::zeros());
    wall.material.friction = friction.unwrap_or(Friction::NONE);
    let shape = ToolShape::Sphere { radius: 0.005 };
    let (mut state, mut proxy) = (QueryState::following(), Proxy::default());
    let mut ns = Vec::with_capacity(TICKS);
    for k in 0..TICKS + 200 {
        let near = 0.006 - 0.002 * (k as f64 / 100.0).min(1.0);
        let x = -0.04 + (slide * k as f64) % 0.08;
        // Sliding along the edge of both walls, or pressed on one of them.
        let pose = Pose::translation(x, near, if slide > 0.0 { near } else { 0.03 });
        let q = Query {
            tool: &shape,
            tool_pose: &pose,
            tool_twist: &Twist::ZERO,
            object: &wall.shape,
            object_pose: &wall.pose,
            object_twist: &Twist::ZERO,
            material: &wall.material,
        };
        let start = Instant::now();
        match friction {
            None => {
                black_box(query(&q, Budget::UNLIMITED, &mut state));
            }
            Some(_) => {
                black_box(proxy.touch(&q, Budget::UNLIMITED, &mut state, 1e-3));
            }
        }
        if k >= 200 {
            ns.push(start.elapsed().as_nanos() as u64);
        }
    }
    ns
}

/// A cube's query on a floor that it stands in by `depth` m, as points or spheres, and what it holds. ns.
fn cube_on_floor(spheres: bool, friction: Friction, depth: f64) -> Vec<u64> {
    let side = 0.02;
    let mesh = shapes::cuboid(Vec3::repeat(side));
    let mut slab = shapes::cuboid(Vec3::new(0.1, 0.02, 0.1));
    slab.vertices.iter_mut().for_each(|v| v.y -= 0.01);
    let params = FieldParams { resolution: Resolution::Cell(0.002), padding: 4 };
    let (field, _) = build(&slab, &params, &Silent).expect("a field");
    let solid = Solid::new(&slab, Arc::new(field), &|| false).expect("never stopped");
    let mut floor = object(1, &ObjectShape::Solid(Arc::new(solid)), Vec3::zeros());
    floor.material.friction = friction;
    let shape = match spheres {
        true => ToolShape::Spheres(Arc::new(
            SphereTree::build(&mesh, &IstParams::spheres(4000), &Silent).expect("a tree"),
        )),
        false => {
            ToolShape::Shell(Arc::new(PointShell::build(&mesh, ShellParams::points(4000)).expect("a shell")))
        }
    };
    let (mut state, mut grip) = (QueryState::following(), Grip::default());
    let held = Held { tool: 1, tau: 3e-3, most: f64::INFINITY, part: 1.0, late: false };
    let mut ns = Vec::with_capacity(TICKS);
    for k in 0..TICKS + 200 {
        let pose = Pose::translation(-0.02 + 1e-5 * (k % 4000) as f64, 0.5 * side - depth, 0.0);
        let q = Query {
            tool: &shape,
            tool_pose: &pose,
            tool_twist: &Twist::ZERO,
            object: &floor.shape,
            object_pose: &floor.pose,
            object_twist: &Twist::ZERO,
            material: &floor.material,
        };
        let start = Instant::now();
        let contact = query(&q, Budget::UNLIMITED, &mut state);
        black_box(grip.rub(&q, &contact.patches, &held));
        if k >= 200 {
            ns.push(start.elapsed().as_nanos() as u64);
        }
    }
    ns
}

/// Ticks of a ball in a wall, armed, on a device by name.
fn in_contact(device: &str, law: Law, energy: EnergyGuard) -> Vec<u64> {
    let hand = HandScript::parse("hand = 'firm'\nkeyframe = [{ time = 0.0, position = [0.0, 0.0, 0.0] }]");
    let options = OpenOptions { hand: hand.expect("parses"), ..OpenOptions::default() };
    let mut device = Registry::builtin().open(device, &options).expect("shipped");
    device.calibrate().expect("calibrates");
    let coupling = Coupling { law, ..Coupling::default() };
    let config = ServoConfig {
        coupling,
        energy: Some(energy),
        gate_force: 1e3,
        gate_torque: 1e3,
        ..ServoConfig::default()
    };
    let (mut handle, end) = channel(config);
    let mut run = VirtualServo::new(end, device);
    let floor = Field::from_fn(Point::new(-0.06, -0.06, -0.06), 0.12 / 32.0, [33; 3], |p| -0.004 - p.y);
    let mut wall = object(1, &ObjectShape::Field(Arc::new(floor)), Vec3::zeros());
    wall.material.stiffness = 1000.0;
    let snapshot = Snapshot::new(1, sphere(), vec![wall].into(), Pose::identity(), 1.0);
    handle.publish(Box::new(snapshot)).expect("the first");
    handle.send(ServoCommand::Arm { session: 1 }).expect("room");
    handle.send(ServoCommand::Lease { until_ns: u64::MAX }).expect("room");
    let ns = ticks(&mut handle, &mut run);
    assert!(run.step().touched == 1, "in contact");
    ns
}

fn main() {
    let (small, big) = (ball(33), ball(256));
    let tool = sphere();
    println!("{:<70} {:>9} {:>9}   should stay below", "", "median us", "p99 us");
    show("reference load (20,000 multiply-adds)", "", reference());

    let (mut handle, mut run) = servo(&tool, vec![object(1, &small, Vec3::new(1.0, 0.0, 0.0))]);
    show("tick, nothing in reach (device simulation included)", "3 us", ticks(&mut handle, &mut run));

    let far = |i: u32| Vec3::new(1.0 + f64::from(i % 10), f64::from(i / 10 % 10), f64::from(i / 100));
    let thousand: Vec<_> = (1..=1000).map(|i| object(i, &small, far(i))).collect();
    let (mut handle, mut run) = servo(&tool, thousand.clone());
    show("tick, 1,000 objects out of reach", "5 us more", ticks(&mut handle, &mut run));

    for points in [5_000, 10_000] {
        let (mut handle, mut run) = servo(&shell(points), vec![object(1, &big, Vec3::zeros())]);
        let name = format!("tick, {points} points in the band of a 256^3 field");
        show(&name, if points == 10_000 { "60 us" } else { "" }, ticks(&mut handle, &mut run));
    }
    show("reference load again", "", reference());

    show("a ball's query alone", "", law(None, 0.0));
    for (name, friction) in
        [("smooth", Friction::NONE), ("rough", Friction { statics: 0.5, dynamic: 0.3, ..Friction::NONE })]
    {
        show(&format!("with its proxy, {name}, at rest on a wall"), "2 us more", law(Some(friction), 0.0));
        show(
            &format!("with its proxy, {name}, 0.1 m/s along an edge"),
            "2 us more",
            law(Some(friction), 1e-4),
        );
    }

    for (name, spheres) in [("4,000 points", false), ("4,000 spheres", true)] {
        for (rough, friction) in [("smooth", Friction::NONE), ("rough", Friction::of(0.5))] {
            let ns = cube_on_floor(spheres, friction, 1e-3);
            show(&format!("a cube of {name} a millimetre in a {rough} floor"), "", ns);
        }
    }

    for device in ["ideal-6dof", "novint-falcon", "phantom-premium-1.5"] {
        for law in [Law::Direct, Law::Dynamic, Law::Static] {
            for energy in
                [EnergyGuard::Off, EnergyGuard::Observe, EnergyGuard::Certified, EnergyGuard::Controller]
            {
                let name = format!("{device}, {law:?}, energy {energy:?}: law and guard alone");
                show(&name, "2 us", command::alone(device, law, energy));
                show("    and the whole tick in contact", "", in_contact(device, law, energy));
            }
        }
    }

    // Twenty floors of the same height under one cube: all are queried in full, or share what two of them need.
    let flat = ObjectShape::Field(Arc::new(Field::from_fn(
        Point::new(-0.06, -0.06, -0.06),
        0.12 / 32.0,
        [33; 3],
        |p| -0.0095 - p.z,
    )));
    let floors: Vec<_> = (1..=20).map(|i| object(i, &flat, Vec3::zeros())).collect();
    let cube =
        PointShell::build(&shapes::cuboid(Vec3::repeat(0.02)), ShellParams::points(4000)).expect("a cube");
    let cube = Arc::new(Tool {
        bound_radius: cube.bound_radius,
        shape: ToolShape::Shell(Arc::new(cube)),
        offset: Pose::identity(),
        incarnation: 3,
    });
    for budget_units in [0, 8000] {
        let config = ServoConfig { budget_units, ..ServoConfig::default() };
        let (mut handle, mut run) = servo_with(&cube, floors.clone(), config);
        let name = match budget_units {
            0 => "tick, 20 objects touched, 80,000 points".into(),
            n => format!("tick, 20 objects touched, budget of {n}"),
        };
        show(&name, "", ticks(&mut handle, &mut run));
        let last = run.step();
        println!("    touched {} objects with {} work units a tick", last.touched, last.work);
    }

    for n in [1, 100, 10_000] {
        show(&format!("adopting a snapshot of {n} objects"), "1 us", adoptions(n, &tool, &small));
    }

    // A new scene of a thousand objects in every tick: the publishing is control's, the tick must not notice.
    let (mut handle, mut run) = servo(&tool, thousand.clone());
    let mut ns = Vec::new();
    for generation in 2..=1000 {
        let snapshot =
            Snapshot::new(generation, tool.clone(), thousand.clone().into(), Pose::identity(), 1.0);
        handle.publish(Box::new(snapshot)).expect("generations rise");
        let start = Instant::now();
        black_box(run.step());
        ns.push(start.elapsed().as_nanos() as u64);
        handle.reclaim();
        handle.drain(&mut |_| {});
    }
    show("tick that adopts 1,000 objects out of reach", "", ns);
}
