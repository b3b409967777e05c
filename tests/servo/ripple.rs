//! What rests is still: a cube in a corner, a stiff grab, a tool held at an edge, each held by a hand for ten seconds. The force's ripple
//! between 30 and 500 Hz, where a hand feels it, with and without friction.

use crate::grip::{slab, spheres};
use crate::spheres::{blocks, solid};
use crate::stability::{Lies, laid};
use crate::world::{Bench, field, object, scene};
use hapticd::contact::ist::{IstParams, SphereTree};
use hapticd::contact::vps::{PointShell, ShellParams};
use hapticd::contact::{Friction, ObjectShape, ToolShape};
use hapticd::device::Device;
use hapticd::device::registry::Registry;
use hapticd::device::simulated::{HandScript, Setup, SimulatedDevice};
use hapticd::geometry::field::build::Silent;
use hapticd::geometry::{Point, Pose, Vec3, shapes};
use hapticd::haptics::coupling::{Coupling, Law};
use hapticd::scene::snapshot::{SnapshotObject, Tool};
use hapticd::servo::handle::ServoConfig;
use hapticd::servo::record::ServoState;
use nalgebra::UnitQuaternion;
use std::sync::Arc;

const TICKS: usize = 10_000;
/// Ticks until it lies.
const SETTLES: usize = 3000;

/// A tool pressed into something by a hand.
struct Rest {
    name: &'static str,
    edge: f64,
    lies: Lies,
    /// Depth in the object about the place where the tool is when the hand has its way.
    depth: fn(&Point) -> f64,
    stiffness: f64,
    hand: &'static str,
}

const RESTS: [Rest; 4] = [
    // Walls that the hand would have 4 mm inside the cube on three sides.
    Rest {
        name: "a cube of 10 cm in a corner",
        edge: 0.1,
        lies: Lies::Flat,
        depth: |p| -(p.x.min(p.y).min(p.z) + 0.046),
        stiffness: 500.0,
        hand: "'normal'",
    },
    // A hundred times what the device renders.
    Rest {
        name: "a stiff grab",
        edge: 0.03,
        lies: Lies::Flat,
        depth: |p| -(p.y + 0.011),
        stiffness: 40_000.0,
        hand: "'firm'",
    },
    // An edge of the tool along an edge of the object, both of 90 degrees.
    Rest {
        name: "held at an edge",
        edge: 0.03,
        lies: Lies::OnEdges,
        depth: |p| -((p.y + 0.017) + p.x.abs()) * std::f64::consts::FRAC_1_SQRT_2,
        stiffness: 4000.0,
        hand: "'normal'",
    },
    Rest {
        name: "held across an edge",
        edge: 0.03,
        lies: Lies::OnEdges,
        depth: |p| -((p.y + 0.017) + p.z.abs()) * std::f64::consts::FRAC_1_SQRT_2,
        stiffness: 4000.0,
        hand: "'normal'",
    },
];

/// RMS of what is left of samples (1 kHz) from 30 Hz on: all of it but the mean and the frequencies below.
fn ripple(samples: &[f64]) -> f64 {
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    let all = samples.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
    let below = (30.0 * n * 1e-3) as u32;
    let slow: f64 = (1..below)
        .map(|k| {
            // Goertzel's recurrence.
            let c = 2.0 * (std::f64::consts::TAU * f64::from(k) / n).cos();
            let (mut a, mut b) = (0.0, 0.0);
            for v in samples {
                (a, b) = (v - mean + c * a - b, a);
            }
            2.0 * (a * a + b * b - c * a * b) / (n * n)
        })
        .sum();
    (all - slow).max(0.0).sqrt()
}

#[test]
fn ripple_is_what_lies_above_30_hz() {
    let wave = |hz: f64| -> Vec<f64> {
        (0..TICKS).map(|k| 3.0 + (std::f64::consts::TAU * hz * k as f64 * 1e-3).sin()).collect()
    };
    for hz in [2.0, 17.0, 29.0] {
        assert!(ripple(&wave(hz)) < 1e-3, "{hz}");
    }
    for hz in [31.0, 100.0, 333.3, 480.0] {
        assert!((ripple(&wave(hz)) - 0.5f64.sqrt()).abs() < 0.01, "{hz}: {}", ripple(&wave(hz)));
    }
}

/// A tool, and what it is pressed into where it rests.
struct Pressed {
    tool: Arc<Tool>,
    thing: SnapshotObject,
    hand: &'static str,
    name: &'static str,
}

fn pressed(rest: &Rest, friction: Friction) -> Pressed {
    let mesh = shapes::cuboid(Vec3::repeat(rest.edge));
    let shell = PointShell::build(&mesh, ShellParams::points(6000)).expect("closed");
    let bound_radius = shell.bound_radius;
    let tool = Arc::new(Tool {
        shape: ToolShape::Shell(Arc::new(shell)),
        offset: Pose::from_parts(Vec3::zeros().into(), laid(rest.lies)),
        bound_radius,
        incarnation: 1,
    });
    let shape = ObjectShape::Field(field(1.2 * bound_radius, 65, rest.depth));
    let mut thing = object(1, shape, Pose::identity(), rest.stiffness);
    thing.bound_radius = 3.0 * bound_radius;
    thing.material.friction = friction;
    Pressed { tool, thing, hand: rest.hand, name: rest.name }
}

/// A cube of 2 cm of spheres on a slab as stiff as the grab.
fn pressed_spheres(friction: Friction) -> Pressed {
    let mut thing = object(1, slab(), Pose::translation(0.0, -0.006, 0.0), 40_000.0);
    thing.material.friction = friction;
    Pressed { tool: spheres(500), thing, hand: "'firm'", name: "a cube of spheres" }
}

/// Ripple of force (N) and torque (N m), and the mean force (N) of what the motors give beside the arm's weight.
fn held(device: &str, law: Law, pressed: &Pressed, tremor: f64) -> (f64, f64, f64) {
    let script = format!(
        "hand = {}\ntremor = {{ amplitude = {tremor:?}, frequency = 9.0 }}\n\
         keyframe = [{{ time = 0.0, position = [0.0, 0.0, 0.0] }}]\n",
        pressed.hand
    );
    let hand = HandScript::parse(&script).expect("parses");
    let profile = Registry::builtin().profile(device).expect("shipped");
    let mut plant = SimulatedDevice::new(profile, Setup { hand, ..Setup::default() }).expect("opens");
    plant.calibrate().expect("calibrates");
    let coupling = Coupling { law, ..Coupling::default() };
    let config = ServoConfig { coupling, gate_force: 1e4, gate_torque: 1e4, ..ServoConfig::default() };
    let mut bench = Bench::new(Box::new(plant), config);
    bench.publish(scene(1, &pressed.tool, vec![]));
    let at = Vec3::from(bench.steps(3).position);
    let mut thing = pressed.thing.clone();
    thing.pose.translation.vector += at;
    bench.publish(scene(2, &pressed.tool, vec![thing]));
    bench.step();
    bench.own();
    bench.steps(SETTLES);
    let mut axes: [Vec<f64>; 6] = Default::default();
    let mut mean = Vec3::zeros();
    for _ in 0..TICKS {
        let r = bench.step();
        assert_eq!(
            (r.state, r.touched),
            (ServoState::Rendering, 1),
            "{device}, {}: {:?}",
            pressed.name,
            r.fault
        );
        for (axis, v) in axes.iter_mut().zip(r.applied_force.iter().chain(&r.applied_torque)) {
            axis.push(*v);
        }
        mean += Vec3::from(r.contact_force) * r.cap / TICKS as f64;
    }
    let [force, torque] =
        [&axes[..3], &axes[3..]].map(|a| a.iter().map(|v| ripple(v).powi(2)).sum::<f64>().sqrt());
    (force, torque, mean.norm())
}

fn is_still(device: &str, law: Law, pressed: &Pressed, most: f64, tremor: f64) {
    let (force, torque, mean) = held(device, law, pressed, tremor);
    let what = format!("{device} {law:?}, {}, mu {}", pressed.name, pressed.thing.material.friction.statics);
    println!("{what}: {mean:.2} N, ripple {:.3} mN, {:.4} mN m", force * 1e3, torque * 1e3);
    assert!(mean > 0.1, "{what}: nothing presses, {mean} N");
    assert!(force <= most, "{what}: {force} N");
    assert!(torque <= 1e-3, "{what}: {torque} N m");
}

const ROUGH: Friction = Friction { statics: 0.6, dynamic: 0.4, stribeck: 0.01, viscous: 0.0 };

/// With a tremor the hand runs through the counts of encoders and motors; the tremor itself is slower than what counts here.
fn still(device: &str, most: f64, tremor: f64) {
    for rest in &RESTS {
        for friction in [Friction::NONE, ROUGH] {
            is_still(device, Law::Direct, &pressed(rest, friction), most, tremor);
        }
    }
}

#[test]
fn what_rests_on_the_ideal_device_is_still() {
    still("ideal-6dof", 0.01, 0.0);
}

#[test]
fn what_rests_on_a_falcon_is_still_to_its_counts() {
    still("novint-falcon", 0.05, 5e-5);
}

#[test]
fn what_rests_on_a_premium_is_still_to_its_counts() {
    still("phantom-premium-1.5", 0.05, 5e-5);
}

/// With a virtual tool, too.
#[test]
fn what_rests_behind_a_virtual_tool_is_still() {
    for law in [Law::Dynamic, Law::Static] {
        for rest in &RESTS {
            is_still("ideal-6dof", law, &pressed(rest, ROUGH), 0.01, 0.0);
            is_still("novint-falcon", law, &pressed(rest, ROUGH), 0.05, 5e-5);
        }
    }
}

/// An Omni's wrist is sensed by noisy potentiometers and not driven: a contact beside the tool point moves with what they say, but for what
/// the servo takes off.
#[test]
fn what_rests_on_an_omni_is_still_to_its_wrist() {
    for rest in &RESTS {
        is_still("phantom-omni", Law::Direct, &pressed(rest, ROUGH), 0.05, 5e-5);
    }
}

/// The other devices that hold their own weight.
#[test]
fn what_rests_on_any_device_is_still_to_its_counts() {
    for device in ["novint-falcon-mh", "woodenhaptics-v2015", "woodenhaptics-v2019"] {
        for rest in &RESTS {
            is_still(device, Law::Direct, &pressed(rest, ROUGH), 0.05, 5e-5);
        }
    }
}

/// The tools and things of [`RESTS`], the tools of spheres and the things meshes.
fn of_spheres(rest: &Rest) -> Pressed {
    let mesh = shapes::cuboid(Vec3::repeat(rest.edge));
    let tree = SphereTree::build(&mesh, &IstParams::spheres(800), &Silent).expect("builds");
    let tool = Arc::new(Tool {
        bound_radius: tree.bound_radius,
        shape: ToolShape::Spheres(Arc::new(tree)),
        offset: Pose::from_parts(Vec3::zeros().into(), laid(rest.lies)),
        incarnation: 1,
    });
    let ridge = |along: Vec3| {
        let turn = UnitQuaternion::from_scaled_axis(along * std::f64::consts::FRAC_PI_4);
        let top = 0.06 * std::f64::consts::FRAC_1_SQRT_2;
        (shapes::cuboid(Vec3::repeat(0.06)), Pose::from_parts(Vec3::new(0.0, -0.017 - top, 0.0).into(), turn))
    };
    let (mesh, pose) = match rest.name {
        "a cube of 10 cm in a corner" => {
            (blocks(&[-0.08, 0.0, 0.12], |c| c.contains(&0)), Pose::from(Vec3::repeat(-0.046)))
        }
        "a stiff grab" => (shapes::cuboid(Vec3::new(0.06, 0.02, 0.06)), Pose::translation(0.0, -0.021, 0.0)),
        "held at an edge" => ridge(Vec3::z()),
        _ => ridge(Vec3::x()),
    };
    let mut thing = object(1, solid(&mesh), pose, rest.stiffness);
    thing.bound_radius = 0.3;
    thing.material.friction = ROUGH;
    Pressed { tool, thing, hand: rest.hand, name: rest.name }
}

/// A cube of 3 cm, held against something small as stiffly as in the grab.
const fn small(name: &'static str, lies: Lies, depth: fn(&Point) -> f64) -> Rest {
    Rest { name, edge: 0.03, lies, depth, stiffness: 40_000.0, hand: "'normal'" }
}

/// Corners and edges on bodies that are small.
const SMALL: [Rest; 5] = [
    small("a corner on a ball of 5 mm", Lies::OnCorners, |p| 0.005 - (p + Vec3::y() * 0.028).coords.norm()),
    small("a corner on a ball of 10 mm", Lies::OnCorners, |p| 0.01 - (p + Vec3::y() * 0.033).coords.norm()),
    small("an edge on a ball of 5 mm", Lies::OnEdges, |p| 0.005 - (p + Vec3::y() * 0.0232).coords.norm()),
    small("a corner on a cube of 8 mm", Lies::OnCorners, |p| {
        -(p.x.abs().max(p.z.abs()).max((p.y + 0.027).abs()) - 0.004)
    }),
    small("an edge across one of a cube of 8 mm", Lies::OnEdges, |p| {
        let [a, b] = [p.y + 0.0239 + p.z, p.y + 0.0239 - p.z].map(|w| w * std::f64::consts::FRAC_1_SQRT_2);
        -(p.x.abs().max(a.abs()).max(b.abs()) - 0.004)
    }),
];

/// Few points carry what presses there, and the tool would roll off: friction holds it, or the hand.
#[test]
fn what_rests_on_something_small_is_still() {
    for rest in &SMALL {
        for friction in [Friction::NONE, ROUGH] {
            let pressed = pressed(rest, friction);
            for law in [Law::Direct, Law::Dynamic, Law::Static] {
                is_still("ideal-6dof", law, &pressed, 0.01, 0.0);
            }
            for device in ["novint-falcon", "phantom-premium-1.5", "phantom-omni"] {
                is_still(device, Law::Direct, &pressed, 0.05, 5e-5);
            }
        }
    }
}

#[test]
fn a_tool_of_spheres_that_rests_is_still() {
    let cube = pressed_spheres(ROUGH);
    for law in [Law::Direct, Law::Dynamic, Law::Static] {
        is_still("ideal-6dof", law, &cube, 0.01, 0.0);
        is_still("novint-falcon", law, &cube, 0.05, 5e-5);
    }
}

#[test]
fn tools_of_spheres_in_a_corner_and_at_edges_are_still() {
    for rest in &RESTS {
        let pressed = of_spheres(rest);
        is_still("ideal-6dof", Law::Direct, &pressed, 0.01, 0.0);
        is_still("novint-falcon", Law::Direct, &pressed, 0.05, 5e-5);
    }
}
