//! A grained surface in the whole tick, under a ball by either proxy: it gives no energy, lowers the force and never steepens it beyond what the
//! device renders.

use crate::device::Puppet;
use crate::grip::slab;
use crate::world::{Bench, floor, object, scene, sphere_tool};
use hapticd::contact::{ObjectShape, Texture};
use hapticd::device::Device;
use hapticd::geometry::{Pose, Vec3};
use hapticd::haptics::coupling::{Coupling, Law};
use hapticd::servo::handle::ServoConfig;
use hapticd::servo::record::{FLAG_STIFFNESS_CAPPED, ServoState, TickRecord};

const GRAIN: Texture = Texture { height: 2e-4, wavelength: 4e-3 };

/// The field's proxy, and the mesh's.
fn shapes() -> [(&'static str, ObjectShape); 2] {
    [("field", floor()), ("mesh", slab())]
}

/// Pressed `depth` m into a grained floor, at rest.
fn pressed(
    config: ServoConfig,
    shape: &ObjectShape,
    stiffness: f64,
    grain: Texture,
    depth: f64,
) -> (Bench, Puppet) {
    let puppet = Puppet::new(Vec3::new(0.0, 0.012, 0.0));
    let mut bench = Bench::new(Box::new(puppet.clone()), config);
    let mut ground = object(1, shape.clone(), Pose::identity(), stiffness);
    ground.material.texture = grain;
    bench.publish(scene(1, &sphere_tool(0.01), vec![ground]));
    bench.arm();
    while puppet.get().pose.translation.vector.y > 0.01 - depth {
        puppet.with(|s| s.pose.translation.vector.y -= 2e-5);
        bench.step();
    }
    bench.steps(300);
    (bench, puppet)
}

/// Three whole waves along x and back beside them. Undamped, a device on it gets back what it gave; with a virtual tool, whose spring is
/// damped, no more than that.
#[test]
fn a_grained_surface_gives_no_energy() {
    for (name, shape) in shapes() {
        for law in [Law::Direct, Law::Dynamic, Law::Static] {
            let config = ServoConfig {
                coupling: Coupling { law, ..Coupling::default() },
                damping_time: (law == Law::Direct).then_some(0.0),
                ..ServoConfig::default()
            };
            let (mut bench, puppet) = pressed(config, &shape, 800.0, GRAIN, 1e-3);
            let (mut work, mut taken, mut low, mut high) = (0.0, 0.0, f64::MAX, 0.0f64);
            let mut last = puppet.get().command.force;
            // A ring of 2.4 mm about where it is.
            let at = |k: u32| {
                let a = std::f64::consts::TAU * f64::from(k) / 4000.0;
                Vec3::new(2.4e-3 * (1.0 - a.cos()), 0.0, 2.4e-3 * a.sin())
            };
            let start = puppet.get().pose.translation.vector;
            for k in 1..=8000 {
                puppet.place(start + at(k));
                assert_eq!(bench.step().state, ServoState::Rendering);
                let force = puppet.get().command.force;
                let w = 0.5 * (force + last).dot(&(at(k) - at(k - 1)));
                // The first round is for a virtual tool to come along.
                if k > 4000 {
                    work += w;
                    taken += w.abs();
                    (low, high) = (low.min(force.y), high.max(force.y));
                }
                last = force;
            }
            println!("{name} {law:?}: {work:e} J of {taken:e} J, {low:.3} to {high:.3} N");
            assert!(taken > 1e-5 && work <= 3e-3 * taken, "{name} {law:?}: {work} J of {taken} J");
            assert!(law != Law::Direct || work >= -3e-3 * taken, "{name}: {work} J of {taken} J");
            // Behind a spring of 4000 N/m a floor of 800 is one of 667.
            let flat = if law == Law::Direct { 0.8 } else { 0.667 };
            assert!(high <= flat * 1.005 && low < 0.93 * flat, "{name} {law:?}: {low} to {high} N");
        }
    }
}

/// With a height h over the place, F = K (d + h) (n - grad h), and so |dF/dx| <= K (|grad h| (1 + |grad h|) + d |bend|), of which the
/// last is no more than 1 however deep and steep. K, with the factor of the cap, is no more than the device renders.
#[test]
fn a_grain_on_a_stiff_floor_stays_under_the_ceiling() {
    for (name, shape) in shapes() {
        for (height, wavelength) in [(2e-4, 4e-3), (2e-4, 2e-3), (1e-3, 4e-3)] {
            let config = ServoConfig { damping_time: Some(0.0), ..ServoConfig::default() };
            let grain = Texture { height, wavelength };
            let (mut bench, puppet) = pressed(config, &shape, 1e5, grain, 2e-3);
            let most = puppet.profile().max_stiffness;
            let slope = 3f64.sqrt() * 0.5 * height * std::f64::consts::TAU / wavelength / 3.0;
            let steepest = most * (slope * (1.0 + slope) + 1.0);
            let of = |r: &TickRecord| (Vec3::from(r.contact_force), r.cap);
            let (mut last, mut worst) = (of(&bench.last), 0.0f64);
            for k in 0..4000 {
                puppet.with(|s| s.pose.translation.vector += Vec3::new(5e-6, 0.0, 3e-6));
                let r = bench.step();
                assert!(r.flags & FLAG_STIFFNESS_CAPPED != 0 && r.stiffness * r.cap <= most * (1.0 + 1e-9));
                let (force, cap) = of(&r);
                // From rest the field's proxy stays where it is for some micrometres (0.002 cells), and then comes along.
                if k > 20 {
                    worst = worst.max((force - last.0).norm() / 5e-6f64.hypot(3e-6) * cap.min(last.1));
                }
                last = (force, cap);
            }
            println!("{name} {height} {wavelength}: {worst:.0} N/m of {steepest:.0} N/m");
            assert!(worst <= steepest, "{name} {height} {wavelength}: {worst} N/m");
        }
    }
}
