//! Field effects through the whole servo.

use crate::device::Puppet;
use crate::world::{Bench, floor, norm, object, scene, sphere_tool};
use hapticd::contact::effect::{Effect, EffectKind, SceneEffect};
use hapticd::device::registry::{OpenOptions, Registry};
use hapticd::device::simulated::HandScript;
use hapticd::geometry::{Pose, Vec3};
use hapticd::servo::handle::{ServoCommand, ServoConfig};
use hapticd::servo::record::{FLAG_SATURATED, FLAG_STIFFNESS_CAPPED, ServoState, ZeroReason};

fn effect(kind: EffectKind, strength: f64, vector: Vec3, max_force: f64) -> SceneEffect {
    SceneEffect { id: 5, effect: Effect { kind, strength, vector, range: 0.03, max_force }, gain: 1.0 }
}

fn publish(bench: &mut Bench, generation: u64, effects: &[SceneEffect]) {
    let snapshot = scene(generation, &sphere_tool(0.005), vec![]).with_effects(effects.into());
    bench.publish(Box::new(snapshot));
}

/// An effect is there before anybody arms: it holds up no gate, and comes over the fade once the force is on.
#[test]
fn an_effect_comes_after_the_gate_and_goes_within_the_release_time() {
    let (mut bench, _puppet) = Bench::puppet(Vec3::new(0.0, 0.03, 0.0));
    publish(&mut bench, 2, &[effect(EffectKind::Constant, 0.0, Vec3::new(0.0, 0.0, -1.5), 2.0)]);
    assert_eq!(norm(bench.steps(100).force), 0.0);
    bench.step();
    bench.own();
    let mut last = 0.0;
    for _ in 0..600 {
        let f = norm(bench.step().force);
        assert!(f - last < 0.012, "{f} after {last}");
        last = f;
    }
    let r = bench.last;
    assert_eq!((r.state, r.zero, r.touched), (ServoState::Rendering, ZeroReason::None, 0));
    assert!((r.force[2] + 1.5).abs() < 1e-12 && r.contact_force == [0.0; 3], "{:?}", r.force);
    // Deleted.
    publish(&mut bench, 3, &[]);
    for _ in 0..30 {
        let f = norm(bench.step().force);
        assert!(last - f < 0.06, "{f} after {last}");
        last = f;
    }
    let r = bench.step();
    assert_eq!((norm(r.force), r.zero), (0.0, ZeroReason::NoContact));
    // And whoever disarms takes it along.
    publish(&mut bench, 4, &[effect(EffectKind::Constant, 0.0, Vec3::new(0.0, 0.0, -1.5), 2.0)]);
    assert!(norm(bench.steps(300).force) > 1.4);
    assert_eq!(bench.command(ServoCommand::Disarm), Ok(()));
    let r = bench.steps(60);
    assert_eq!((norm(r.force), r.state), (0.0, ServoState::Idle));
}

/// What is asked for beyond limits is lowered, and says so.
#[test]
fn effects_stay_below_their_own_maximum_and_the_guards() {
    let (mut bench, puppet) = Bench::puppet(Vec3::new(0.0, 0.03, 0.0));
    bench.arm();
    publish(&mut bench, 2, &[effect(EffectKind::Constant, 0.0, Vec3::new(90.0, 0.0, 0.0), 3.0)]);
    assert!((bench.steps(400).force[0] - 3.0).abs() < 1e-9);
    publish(&mut bench, 3, &[effect(EffectKind::Constant, 0.0, Vec3::new(90.0, 0.0, 0.0), 90.0)]);
    let r = bench.steps(400);
    assert!(norm(r.force) <= 20.0 + 1e-9 && r.flags & FLAG_SATURATED != 0, "{:?}", r.force);
    publish(&mut bench, 4, &[]);
    bench.steps(100);
    // A spring stiffer than the device renders: felt as stiff as that.
    publish(&mut bench, 5, &[effect(EffectKind::Spring, 1e5, Vec3::new(0.0, 0.03, 0.0), 90.0)]);
    bench.steps(400);
    puppet.place(Vec3::new(0.001, 0.03, 0.0));
    let r = bench.steps(200);
    assert!(r.flags & FLAG_STIFFNESS_CAPPED != 0 && r.cap < 0.05, "{}", r.cap);
    // The ideal device: 4000 N/m.
    assert!(-r.force[0] <= 4.0 + 1e-6 && -r.force[0] > 3.8, "{:?}", r.force);
}

fn device(name: &str, hand: &str) -> Box<dyn hapticd::device::Device> {
    let hand = HandScript::parse(hand).expect("parses");
    let mut device =
        Registry::builtin().open(name, &OpenOptions { hand, ..OpenOptions::default() }).expect("shipped");
    device.calibrate().expect("calibrates");
    device
}

fn armed(device: Box<dyn hapticd::device::Device>, effects: &[SceneEffect]) -> Bench {
    let mut bench = Bench::new(device, ServoConfig::default());
    publish(&mut bench, 1, effects);
    bench.step();
    bench.own();
    bench
}

/// On every mechanism with motors, as much viscosity as one can ask for: the hand that strokes and rests feels no shaking.
#[test]
fn the_thickest_oil_rests_on_every_device() {
    for name in ["ideal-6dof", "novint-falcon", "phantom-omni", "phantom-premium-1.5", "woodenhaptics-v2019"]
    {
        let (a, b) = match name {
            "woodenhaptics-v2019" => ("[0.0, 0.0, 0.0]", "[0.01, 0.0, 0.01]"),
            _ => ("[0.0, 0.0, 0.0]", "[0.015, 0.01, 0.0]"),
        };
        let hand = format!(
            "hand = 'light'\nkeyframe = [\n{{ time = 0.0, position = {a} }},\n{{ time = 1.0, position = {a} }},\n\
             {{ time = 1.3, position = {b} }},\n]\n"
        );
        let oil = effect(EffectKind::Viscosity, 1000.0, Vec3::zeros(), 5.0);
        let mut bench = armed(device(name, &hand), &[oil]);
        let (mut against, mut with, mut rest) = (0.0, 0.0, Vec::new());
        // A light hand takes seconds to get where it wants in it.
        for _ in 0..12_000 {
            let r = bench.step();
            assert_eq!(r.fault, hapticd::servo::record::Fault::None, "{name}");
            let ms = r.planned_ns / 1_000_000;
            let power = Vec3::from(r.contact_force).norm();
            assert_eq!(power, 0.0, "{name}: nothing is touched");
            if (1000..1600).contains(&ms) {
                let p = Vec3::from(r.velocity).dot(&Vec3::from(r.force));
                if p < 0.0 { against -= p } else { with += p }
            }
            if ms > 11_500 {
                rest.push(Vec3::from(r.position));
            }
        }
        let mean = rest.iter().sum::<Vec3>() / rest.len() as f64;
        let shake = rest.iter().map(|p| (p - mean).norm()).fold(0.0, f64::max);
        println!("{name}: {against:.4} against the motion, {with:.4} with it, shakes {:.4} mm", shake * 1e3);
        // The others hold their own weight besides, which goes with the motion as well as against it.
        if ["ideal-6dof", "phantom-premium-1.5"].contains(&name) {
            assert!(against > 1.0 && with == 0.0, "{name}: {against} against the motion, {with} with it");
        }
        assert!(shake < 5e-5, "{name}: {shake} m");
    }
}

/// Let go of, a tool falls into the magnet's point and stays there.
#[test]
fn a_magnet_and_a_spring_hold_a_free_device_at_their_point() {
    for (kind, strength) in [(EffectKind::Spring, 300.0), (EffectKind::Magnet, 1.5)] {
        let hand =
            "hand = 'light'\nlet_go = 0.6\nkeyframe = [{ time = 0.0, position = [0.012, 0.0, 0.0] }]\n";
        let point = Vec3::new(0.004, 0.002, 0.001);
        let mut bench = armed(device("ideal-6dof", hand), &[effect(kind, strength, point, 2.0)]);
        let r = bench.steps(6000);
        let off = (Vec3::from(r.position) - point).norm();
        println!("{kind:?}: {:.4} mm off", off * 1e3);
        assert!(off < 5e-4, "{kind:?}: {off}");
    }
}

/// Other numbers every 20 ms: the force follows without a jump.
#[test]
fn changing_effects_never_jump() {
    let (mut bench, _puppet): (Bench, Puppet) = Bench::puppet(Vec3::new(0.0, 0.03, 0.0));
    bench.arm();
    let (mut last, mut worst, mut within, mut most) = (Vec3::zeros(), 0.0f64, 0.0f64, 0.0f64);
    for k in 0..2000u64 {
        if k % 20 == 0 {
            let s = |f: f64| (k as f64 * f).sin();
            let kind = if (k / 500) % 2 == 0 { EffectKind::Spring } else { EffectKind::Constant };
            let vector = match kind {
                EffectKind::Spring => Vec3::new(0.01 * s(0.03), 0.03, 0.01 * s(0.05)),
                _ => Vec3::new(1.5 * s(0.03), 1.5 * s(0.05), 0.0),
            };
            publish(&mut bench, 2 + k, &[effect(kind, 200.0, vector, 2.0)]);
        }
        let force = Vec3::from(bench.step().force);
        worst = worst.max((force - last).norm());
        // Apart from where another kind takes over.
        if k % 500 > 40 {
            within = within.max((force - last).norm());
        }
        most = most.max(force.norm());
        last = force;
    }
    assert!(most > 0.8 && within > 1e-2, "nothing was felt: {most} N, {within} N in a tick");
    // Numbers go over in 200 ms: 3 N at most from one constant force to the opposite one.
    assert!(within < 2.0 * 1.5 * 2f64.sqrt() / 200.0 * 1.5, "{within} N in a tick");
    // What goes does so over 30 ms, of at most 2 N.
    assert!(worst < 2.0 / 29.0 + 2.0 * 2.0 / 200.0, "{worst} N in a tick");
}

/// The strongest effect that a client may ask for leaves a wall as stiff as it was, and changes nothing about it when it goes.
#[test]
fn no_effect_makes_a_wall_softer() {
    let (mut bench, puppet) = Bench::puppet(Vec3::new(0.0, 0.0101, 0.0));
    bench.arm();
    for k in 0..300 {
        puppet.place(Vec3::new(0.0, 0.0101 - 1e-5 * f64::from(k), 0.0));
        bench.step();
    }
    let alone = bench.steps(400).force[1];
    assert!(alone > 2.0, "{alone}");
    let far = Vec3::new(0.0, 0.0071, 0.0);
    let mut generation = 1;
    for e in [
        effect(EffectKind::Viscosity, 1000.0, Vec3::zeros(), 2.0),
        effect(EffectKind::Spring, 1e5, far, 2.0),
        effect(EffectKind::Magnet, 100.0, far, 2.0),
    ] {
        for effects in [vec![e], vec![]] {
            generation += 1;
            let objects = vec![object(1, floor(), Pose::identity(), 1000.0)];
            let snapshot = scene(generation, &sphere_tool(0.01), objects).with_effects(effects.into());
            bench.publish(Box::new(snapshot));
            for _ in 0..600 {
                let force = bench.step().force[1];
                assert!(
                    (force - alone).abs() < 0.02 * alone + 0.05,
                    "{:?}: {force}, alone {alone}",
                    e.effect.kind
                );
            }
        }
    }
}
