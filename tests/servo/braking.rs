//! Pre-contact braking in the whole servo: it brakes what comes nearer within its layer, holds nothing back, and a hand that strikes a
//! wall sinks in less.

use crate::device::{Puppet, Watched};
use crate::facets::{bowl, layer, meshed};
use crate::grip::{slab, spheres};
use crate::world::{Bench, cube_tool, floor, norm, object, scene, sphere_tool};
use hapticd::contact::ObjectShape;
use hapticd::device::Device;
use hapticd::device::registry::Registry;
use hapticd::device::simulated::{HandScript, Setup, SimulatedDevice};
use hapticd::geometry::{Pose, Vec3};
use hapticd::haptics::coupling::{Coupling, Law};
use hapticd::scene::snapshot::Tool;
use hapticd::servo::handle::ServoConfig;
use hapticd::servo::record::{ServoState, TickRecord, ZeroReason};
use std::sync::Arc;

const LAWS: [Law; 3] = [Law::Direct, Law::Dynamic, Law::Static];
/// The layer, m.
const LAYER: f64 = 3e-3;

fn config(law: Law, braking: f64) -> ServoConfig {
    ServoConfig { coupling: Coupling { law, braking, ..Coupling::default() }, ..ServoConfig::default() }
}

/// A device that comes down by `speed` to 4 mm above the floor and goes up again, with every record.
fn dips(law: Law, braking: f64, scale: f64) -> Vec<(f64, TickRecord)> {
    let puppet = Puppet::new(Vec3::new(0.0, 0.01 / scale + 0.012, 0.0));
    let mut bench = Bench::new(Box::new(puppet.clone()), config(law, braking));
    let mut world = scene(1, &sphere_tool(0.01), vec![object(1, floor(), Pose::identity(), 500.0)]);
    world.workspace_scale = scale;
    bench.publish(world);
    bench.arm();
    bench.steps(100);
    (0..800)
        .map(|k| {
            // The gap at the hand: 12 mm down to 1 mm and back, at 0.1 m/s at most.
            let gap = 6.5e-3 + 5.5e-3 * (f64::from(k) * 0.018).cos();
            puppet.with(|s| s.pose.translation.vector.y = 0.01 / scale + gap);
            (gap, bench.step())
        })
        .collect()
}

#[test]
fn it_brakes_in_its_layer_and_only_what_comes_nearer() {
    for law in LAWS {
        let off = dips(law, 0.0, 1.0);
        // The dynamic law's tool has a mass, which is felt: 12 g at 1.8 m/s2, and as much again where the brake lets it go.
        let idle = if law == Law::Dynamic { 2.0 * 0.012 * 1.8 } else { 1e-9 };
        assert!(off.iter().all(|(_, r)| norm(r.force) <= idle), "{law:?}");
        let on = dips(law, LAYER, 1.0);
        let (mut braked, most) = (0, on.iter().map(|(_, r)| r.force[1]).fold(0.0, f64::max));
        // A virtual tool that is let go swings back by its spring, by less than a tenth of what stretched it.
        let back = if law == Law::Direct { 1e-9 } else { 0.1 * most };
        for k in 1..on.len() {
            let ((before, _), (gap, r)) = (on[k - 1], on[k]);
            let up = r.force[1];
            // A virtual tool lags by what the spring is stretched.
            if gap > LAYER + 1e-3
                || before < gap && k > 5 && on[k - 5].0 < gap && on[k.saturating_sub(20)].0 < gap
            {
                assert!(norm(r.force) <= idle + back, "{law:?} at {gap}: {:?}", r.force);
            }
            assert!(up >= -idle - back, "{law:?} at {gap}: it pulls, {up} N");
            if up > 0.05 {
                braked += 1;
                assert_eq!(r.zero, ZeroReason::None);
            }
        }
        println!("{law:?}: {braked} ticks, {most} N");
        assert!(braked > 30 && most > 0.2, "{law:?}: {braked} ticks, {most} N");
    }
}

/// The layer is the hand's, however large the scene is to it.
#[test]
fn the_layer_is_as_thick_at_the_hand_in_any_scale() {
    let starts = |scale| {
        let (gap, _) =
            *dips(Law::Direct, LAYER, scale).iter().find(|(_, r)| r.force[1] > 1e-3).expect("brakes");
        gap
    };
    for scale in [0.5, 1.0, 2.0] {
        let gap = starts(scale);
        assert!(gap <= LAYER && gap > 0.9 * LAYER, "{scale}: {gap}");
    }
}

/// A hand strikes a hard floor at this speed: deepest place of the device below the surface (m), largest force at the motors (N), and
/// fastest motion up within 50 ms after (m/s).
fn strikes(
    device: &str,
    law: Law,
    braking: f64,
    speed: f64,
    with: &(Arc<Tool>, ObjectShape),
) -> (f64, f64, f64) {
    let time = 0.02 / speed;
    let script = format!(
        "hand = 'light'\nkeyframe = [{{ time = 0.0, position = [0.0, 0.0, 0.0] }}, {{ time = 0.5, position = [0.0, 0.0, 0.0] }},\
         {{ time = {}, position = [0.0, -0.02, 0.0] }}]\n",
        0.5 + time
    );
    let hand = HandScript::parse(&script).expect("parses");
    let profile = Registry::builtin().profile(device).expect("shipped");
    let mut plant = SimulatedDevice::new(profile, Setup { hand, ..Setup::default() }).expect("opens");
    plant.calibrate().expect("calibrates");
    let (opened, inside) = Watched::new(plant);
    let config = ServoConfig { gate_force: 1e4, gate_torque: 1e4, ramp_up: 0.05, ..config(law, braking) };
    let mut bench = Bench::new(Box::new(opened), config);
    let (tool, shape) = with;
    bench.publish(scene(1, tool, vec![]));
    let at = Vec3::from(bench.steps(3).position);
    // The surface is 10 mm below the tool.
    let place = Pose::translation(at.x, at.y - 0.02, at.z);
    bench.publish(scene(2, tool, vec![object(1, shape.clone(), place, 1e5)]));
    bench.step();
    bench.own();
    let (mut deepest, mut force, mut up) = (0.0f64, 0.0f64, 0.0f64);
    for _ in 0..800 {
        let r = bench.step();
        assert_ne!(r.state, ServoState::Fault, "{device} {law:?}: {:?}", r.fault);
        let (tip, velocity) = {
            let inside = inside.lock().unwrap();
            let state = inside.device.state();
            (state.tip, state.velocity)
        };
        let depth = at.y - 0.01 - tip.y;
        deepest = deepest.max(depth);
        force = force.max(norm(r.applied_force));
        if deepest > 0.0 {
            up = up.max(velocity.y);
        }
    }
    (deepest, force, up)
}

#[test]
fn a_hand_that_strikes_sinks_in_less() {
    for (name, with) in [
        ("ball", (sphere_tool(0.01), floor())),
        ("points", (cube_tool(1000), floor())),
        ("spheres", (spheres(500), slab())),
    ] {
        for device in ["ideal-6dof", "novint-falcon"] {
            for law in LAWS {
                let [off, on] = [0.0, LAYER].map(|b| strikes(device, law, b, 0.5, &with));
                println!("{device} {law:?} {name}: off {off:?} on {on:?}");
                assert!(off.0 > 0.0 && on.0 < off.0, "{device} {law:?} {name}: {off:?} {on:?}");
                // It meets the surface slower: the blow is softer, and so is what throws it back. A Falcon's motors saturate at 8 N either way,
                // and what throws it back is then those.
                if device == "ideal-6dof" {
                    assert!(on.1 < 0.8 * off.1 && on.2 < 0.8 * off.2, "{law:?} {name}: {off:?} {on:?}");
                } else {
                    assert!(on.1 < 8.01 && on.2 < 1.05 * off.2, "{law:?} {name}: {off:?} {on:?}");
                }
            }
        }
    }
}

/// The force at each height of a hand that goes down at 0.1 m/s over this object to `to`, and up again.
fn over(shape: &ObjectShape, radius: f64, from: f64, to: f64) -> Vec<(f64, Vec3)> {
    let puppet = Puppet::new(Vec3::new(0.0, from, 0.0));
    let mut bench = Bench::new(Box::new(puppet.clone()), config(Law::Direct, LAYER));
    bench.publish(scene(1, &sphere_tool(radius), vec![object(1, shape.clone(), Pose::identity(), 500.0)]));
    bench.arm();
    let mut y = from;
    let mut all = vec![];
    while y > to {
        y -= 1e-4;
        puppet.place(Vec3::new(3e-4, y, 2e-4));
        bench.step();
        all.push((y, puppet.get().command.force));
    }
    all
}

/// Where the proxy goes along the mesh, its triangles brake, and nothing else does: the field of an open bowl closes its mouth, and has no
/// sheet of a single layer.
#[test]
fn a_mesh_brakes_where_its_triangles_are() {
    let (cup, r) = (0.03, 0.004);
    let all = over(&meshed(&bowl(cup)), r, 0.04, -cup + r + 5e-4);
    for (y, force) in &all {
        // Above it and in its mouth it is 26 mm from everything.
        let far = y - r > -cup + LAYER + 2e-3;
        assert!(!far || *force == Vec3::zeros(), "at {y}: {force}, and there is nothing");
    }
    let most = all.iter().map(|(_, f)| f.y).fold(0.0, f64::max);
    assert!(most > 0.2, "{most} N before its floor");
    // From both sides.
    let sheet = meshed(&layer());
    let most = over(&sheet, r, 0.02, r + 2e-4).iter().map(|(_, f)| f.y).fold(0.0, f64::max);
    println!("sheet: {most} N");
    assert!(most > 0.2, "{most} N before the sheet");
}
