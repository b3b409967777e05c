//! The guard that a device has by default, and that it takes nothing from what the scene gives of its own: objects that move, come and harden, and
//! effects. That is debt only to an account that knows no source but the hand.

use crate::energy::{NOBODY, Rig, wall};
use crate::world::{Bench, floor, norm, object, scene, sphere_tool};
use hapticd::contact::effect::{Effect, EffectKind, SceneEffect};
use hapticd::device::Device as _;
use hapticd::device::registry::Registry;
use hapticd::device::simulated::{HandScript, Setup, SimulatedDevice};
use hapticd::geometry::{Pose, Twist, Vec3};
use hapticd::haptics::coupling::{Coupling, Law};
use hapticd::haptics::guard::energy::EnergyGuard;
use hapticd::scene::snapshot::SnapshotObject;
use hapticd::servo::handle::ServoConfig;
use hapticd::servo::record::{FLAG_ENERGY_BOUND, Fault, ServoState, TickRecord};

const RADIUS: f64 = 0.01;
const STIFFNESS: f64 = 600.0;

/// What happens to a hand that holds the tool still.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    /// The floor comes up against it, stays, and goes.
    Lift,
    /// A force pushes it aside, and goes.
    Constant,
    /// A spring takes it to another place.
    Spring,
    /// A floor stands over it.
    Appears,
    /// The floor that it presses is four times as stiff.
    Hardens,
}

/// Height of the floor at a time, m: 0 to 12 mm within a second, and back from 2 s on.
fn height(ns: u64) -> f64 {
    let t = ns as f64 * 1e-9 - 1.0;
    let part = if t < 1.5 { t } else { 2.5 - t };
    let s = part.clamp(0.0, 1.0);
    0.012 * s * s * (3.0 - 2.0 * s)
}

fn ground(event: Event, y: f64, stiffness: f64) -> SnapshotObject {
    let motion = (event == Event::Lift).then_some(0);
    SnapshotObject { motion, ..object(1, floor(), Pose::translation(0.0, y, 0.0), stiffness) }
}

fn effect(event: Event) -> Option<SceneEffect> {
    let (kind, strength, vector) = match event {
        Event::Constant => (EffectKind::Constant, 0.0, Vec3::new(1.0, 0.0, 0.0)),
        Event::Spring => (EffectKind::Spring, 150.0, Vec3::new(0.012, 0.0, 0.0)),
        _ => return None,
    };
    Some(SceneEffect {
        id: 5,
        effect: Effect { kind, strength, vector, range: 0.03, max_force: 2.0 },
        gain: 1.0,
    })
}

/// Four seconds of it: each tick's record, in the terms of a scene that is the device's own.
fn records(name: &str, law: Law, event: Event, energy: Option<EnergyGuard>) -> Vec<TickRecord> {
    let profile = Registry::builtin().profile(name).expect("shipped");
    let hand = HandScript::parse("hand = 'normal'\nkeyframe = [{ time = 0.0, position = [0.0, 0.0, 0.0] }]");
    let setup = Setup { hand: hand.expect("a hand"), ..Setup::default() };
    let mut device = SimulatedDevice::new(profile, setup).expect("opens");
    device.calibrate().expect("calibrates");
    let coupling = Coupling { law, ..Coupling::default() };
    let mut bench = Bench::new(Box::new(device), ServoConfig { coupling, energy, ..ServoConfig::default() });
    let tool = sphere_tool(RADIUS);
    let below = -RADIUS - 5e-3;
    let up = |stiffness| ground(event, -RADIUS + 6e-3, stiffness);
    bench.publish(scene(1, &tool, vec![ground(event, below, STIFFNESS)]));
    bench.own();
    let mut all = vec![];
    let path = |ns: u64| Vec3::new(0.0, height(ns) + below, 0.0);
    for k in 0..4000 {
        match (event, k) {
            (Event::Constant | Event::Spring, 1000) => {
                let effects = effect(event).into_iter().collect::<Vec<_>>();
                bench.publish(Box::new(scene(2, &tool, vec![]).with_effects(effects.into())));
            }
            (Event::Constant | Event::Spring, 2500) => bench.publish(scene(3, &tool, vec![])),
            (Event::Appears | Event::Hardens, 1000) => bench.publish(scene(2, &tool, vec![up(STIFFNESS)])),
            (Event::Hardens, 2500) => bench.publish(scene(3, &tool, vec![up(4.0 * STIFFNESS)])),
            _ => {}
        }
        all.push(if event == Event::Lift { bench.step_streamed(path) } else { bench.step() });
        assert_eq!(bench.last.fault, Fault::None, "{name} {law:?} {event:?} {k}");
    }
    assert_eq!(bench.last.state, ServoState::Rendering);
    all
}

/// With the default guard every force is, to the bit, what it is without any; and the plain account, that knows of no source, is in debt.
#[test]
fn what_the_scene_gives_of_its_own_is_no_debt() {
    for name in ["ideal-6dof", "novint-falcon", "phantom-premium-1.5"] {
        for law in [Law::Direct, Law::Dynamic] {
            for event in [Event::Lift, Event::Constant, Event::Spring, Event::Appears, Event::Hardens] {
                let with = records(name, law, event, None);
                let without = records(name, law, event, Some(EnergyGuard::Off));
                let what = format!("{name} {law:?} {event:?}");
                let (mut plain, mut least, mut owed, mut acts) = (0.0f64, 0.0f64, 0.0f64, 0);
                for (r, was) in with.iter().zip(&with[1..]) {
                    let moved = Vec3::from(was.position) - Vec3::from(r.position);
                    plain -= Vec3::from(r.applied_force).dot(&moved);
                    least = least.min(plain);
                    owed = owed.min(was.energy);
                    acts += u32::from(was.flags & FLAG_ENERGY_BOUND != 0);
                }
                let most = with.iter().map(|r| norm(r.applied_force)).fold(0.0, f64::max);
                println!(
                    "{what}: {most:.2} N, plain {:.3} mJ, account {:.4} mJ, acts in {acts}",
                    1e3 * least,
                    1e3 * owed
                );
                assert!(least < -5e-4, "{what}: it was to give: {least} J");
                assert_eq!(acts, 0, "{what}: {owed} J");
                for (k, (a, b)) in with.iter().zip(&without).enumerate() {
                    assert_eq!(a.force, b.force, "{what}, tick {k}");
                }
            }
        }
    }
}

/// The energy bound knows no source but the hand: a floor that comes up gives it no more than the device's own damping takes.
#[test]
fn under_the_energy_bound_what_moves_gives_nothing() {
    for law in [Law::Direct, Law::Dynamic] {
        for (energy, gives) in [(EnergyGuard::Certified, false), (EnergyGuard::Controller, true)] {
            let all = records("ideal-6dof", law, Event::Lift, Some(energy));
            let (mut account, mut least) = (0.0f64, 0.0f64);
            for (r, was) in all.iter().zip(&all[1..]) {
                let moved = Vec3::from(was.position) - Vec3::from(r.position);
                account += 0.1 * moved.norm_squared() / 1e-3 - Vec3::from(r.applied_force).dot(&moved);
                least = least.min(account);
            }
            println!("{law:?} {energy:?}: {:.4} mJ", 1e3 * least);
            assert_eq!(least < -1e-4, gives, "{law:?} {energy:?}: {least} J");
            assert!(gives || least > -1e-9, "{law:?}: {least} J");
        }
    }
}

/// Of a free device that meets an undamped wall the surplus is taken where the profile says that the controller keeps its stiffness.
#[test]
fn each_device_has_the_guard_that_its_profile_names() {
    let fastest = |name: &str, energy: Option<EnergyGuard>| {
        let profile = &Registry::builtin().profile(name).expect("shipped");
        let config = ServoConfig {
            energy,
            damping_time: Some(0.0),
            gate_ticks: 1,
            ramp_up: 1e-3,
            ..ServoConfig::default()
        };
        let mut rig = Rig::moving(
            profile,
            NOBODY,
            &Twist { linear: Vec3::y() * -0.1, angular: Vec3::zeros() },
            config,
            vec![],
        );
        let at = rig.bench.last.position;
        let mut floor = wall(1, at[1], -5e-4, true, profile.max_stiffness);
        (floor.pose.translation.x, floor.pose.translation.z) = (at[0], at[2]);
        rig.bench.publish(scene(2, &sphere_tool(RADIUS), vec![floor]));
        let (mut out, mut acts) = (0.0f64, 0);
        for _ in 0..200 {
            let r = rig.step();
            acts += u32::from(r.flags & FLAG_ENERGY_BOUND != 0);
            out = out.max(rig.state().velocity.y);
        }
        (out, acts)
    };
    let mut controlled = vec![];
    let registry = Registry::builtin();
    for profile in registry.profiles().iter().filter(|p| p.max_force > 0.0) {
        let name = profile.name.as_str();
        let guard = profile.kept.strictest().name();
        let expect = if guard == "controller" { EnergyGuard::Controller } else { EnergyGuard::Observe };
        let found = fastest(name, None);
        println!("{name}: {guard}, {found:?}");
        assert_eq!(found, fastest(name, Some(expect)), "{name}");
        if guard == "controller" {
            controlled.push(name);
        }
    }
    assert_eq!(controlled.len(), 7, "{controlled:?}");
    // Where it has something to do.
    let (plain, with) = (fastest("ideal-6dof", Some(EnergyGuard::Observe)), fastest("ideal-6dof", None));
    assert!(plain.1 == 0 && with.1 > 0 && with.0 < 0.95 * plain.0, "{plain:?} {with:?}");
}
