//! A device that senses six axes and drives three in the demo's scene: the keyed pin of an Omni's stylus wedged in its hole, askew and
//! turned against the key by more than the gap gives. Nothing but forces at its tool point can hold it, and it comes to rest.

use crate::device::Watched;
use crate::stability::Holds;
use crate::world::Bench;
use hapticd::device::Device;
use hapticd::device::registry::Registry;
use hapticd::device::simulated::{Setup, SimulatedDevice};
use hapticd::geometry::field::build::Silent;
use hapticd::geometry::{Pose, Vec3};
use hapticd::haptics::coupling::{Coupling, Law};
use hapticd::scene::compile::Compiler;
use hapticd::scene::file;
use hapticd::scene::snapshot::Snapshot;
use hapticd::servo::handle::ServoConfig;
use hapticd::servo::record::{FLAG_STIFFNESS_CAPPED, ServoState};
use std::path::Path;
use std::sync::LazyLock;

/// The scene as shipped: metres of it per metre of the device.
const SCALE: f64 = 2.0;
/// How far the pin is in, m, and how far from its tool point it may touch.
const IN: f64 = 0.15;
const REACH: f64 = 0.2;
/// What is left of the noise and the steps of the Omni's wrist where it is held still, less than a third (`servo/wrist.rs`), and seven times that from
/// end to end, rad.
const WRIST: f64 = 7.0 * 1.09e-3 / 3.0;

fn scene(generation: u64, hole: Option<Pose>) -> Box<Snapshot> {
    static SHIPPED: LazyLock<Snapshot> = LazyLock::new(|| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/scenes/pin_and_hole.toml");
        let loaded = file::load(&path, Default::default()).expect("loads");
        Compiler::new(1 << 30).compile(&loaded.scene, &Silent).expect("compiles")
    });
    assert_eq!(SHIPPED.workspace_scale, SCALE);
    let objects = hole.map(|pose| {
        let mut object = SHIPPED.objects[0].clone();
        let centre = object.pose.inverse() * object.bound_centre;
        (object.pose, object.bound_centre) = (pose, pose * centre);
        object
    });
    let objects = objects.into_iter().collect();
    Box::new(Snapshot::new(generation, SHIPPED.tool.clone(), objects, Pose::identity(), SCALE))
}

/// What became of the pin in the last half second.
struct Rests {
    /// Fastest motion of the device itself, m/s, and the part of the time in which it moves at all.
    plant: f64,
    moves: f64,
    /// Least mass that its tool point has in any direction, kg.
    mass: f64,
    /// How far the force of the motors went up and down, N, and the mean of its size.
    ripple: f64,
    force: f64,
    wanted: f64,
    capped: bool,
}

fn wedged(law: Law, holds: Holds) -> Rests {
    let profile = Registry::builtin().profile("phantom-omni").expect("shipped");
    let mut plant =
        SimulatedDevice::new(profile.clone(), Setup { hand: holds.hand(false), ..Setup::default() })
            .expect("opens");
    plant.calibrate().expect("calibrates");
    let (opened, inside) = Watched::new(plant);
    let gate = ServoConfig { gate_force: 1e4, gate_torque: 1e4, ..ServoConfig::default() };
    let coupling = Coupling { law, ..Coupling::default() };
    let mut bench = Bench::new(Box::new(opened), ServoConfig { coupling, ramp_up: 0.05, ..gate });
    bench.publish(scene(1, None));
    bench.steps(3);
    // The device rests where it rests; the hole comes to it. The pin lies along -x from its tool point, the block 0.14 m to either side of
    // its middle.
    let state = *inside.lock().unwrap().device.state();
    let at = Pose::from_parts((state.tip * SCALE).into(), state.rotation);
    // A gap of 0.5 mm allows 7 mrad askew, and 14 about the axis.
    let hole = at
        * Pose::new(Vec3::new(IN - REACH, 2e-4, 0.0), Vec3::new(0.02, 0.0, 0.01))
        * Pose::translation(-0.14, 0.0, 0.0);
    bench.publish(scene(2, Some(hole)));
    bench.step();
    bench.own();
    let link = profile.kinematics.state(&state.joints, None).expect("regular");
    let inertia = profile.dynamics.mass_matrix(&state.joints, &link.jacobian);
    let mobility = link.jacobian * inertia.try_inverse().expect("has a mass") * link.jacobian.transpose();
    let mass = 1.0 / mobility.symmetric_eigen().eigenvalues.max();
    let mut seen =
        Rests { plant: 0.0, moves: 0.0, mass, ripple: 0.0, force: 0.0, wanted: 0.0, capped: false };
    let mut range = [(f64::MAX, f64::MIN); 3];
    let ticks = if matches!(holds, Holds::Nobody) { 2500 } else { 1500 };
    for k in 0..ticks {
        let r = bench.step();
        assert_ne!(r.state, ServoState::Fault, "{law:?} {holds:?}: {:?} at {k}", r.fault);
        seen.wanted = seen.wanted.max(r.stiffness);
        seen.capped |= r.flags & FLAG_STIFFNESS_CAPPED != 0;
        if ticks - k > 500 {
            continue;
        }
        assert_eq!(r.touched, 1, "{law:?} {holds:?}: free at {k}");
        let speed = inside.lock().unwrap().device.state().velocity.norm();
        seen.plant = seen.plant.max(speed);
        seen.moves += f64::from(speed > 1e-6) / 500.0;
        for ((low, high), f) in range.iter_mut().zip(r.applied_force) {
            (*low, *high) = (low.min(f), high.max(f));
        }
        seen.force += Vec3::from(r.contact_force).norm() / SCALE / 500.0;
    }
    seen.ripple = range.iter().map(|(low, high)| high - low).fold(0.0, f64::max);
    seen
}

#[test]
fn a_wedged_pin_comes_to_rest_on_a_device_that_drives_three_of_six() {
    for law in [Law::Direct, Law::Dynamic, Law::Static] {
        for holds in [Holds::Nobody, Holds::Light, Holds::Normal] {
            let seen = wedged(law, holds);
            println!(
                "{law:?} {holds:?}: {:.4} mm/s in {:.1} % of the time, {:.4} N up and down of {:.3} N, wants {:.0} N/m, capped {}, {:.4} kg",
                seen.plant * 1e3,
                seen.moves * 1e2,
                seen.ripple,
                seen.force,
                seen.wanted,
                seen.capped,
                seen.mass
            );
            // What the flicker of its sensors is worth at the far end of the pin through the stiffest spring that it renders; and a code
            // of the motors.
            let flicker = 700.0 * REACH / SCALE * WRIST;
            assert!(seen.ripple <= 0.05 + flicker, "{law:?} {holds:?}: {} N", seen.ripple);
            // At rest in its own friction, but where the flicker breaks it away: then for what a tick of it gives, and not on and on.
            assert!(seen.plant <= seen.ripple * 1e-3 / seen.mass, "{law:?} {holds:?}: {} m/s", seen.plant);
            assert!(seen.moves <= 0.02, "{law:?} {holds:?}: moves in {} of the time", seen.moves);
            assert_eq!(seen.capped, law == Law::Direct, "only what is direct wants more than there is");
        }
    }
}
