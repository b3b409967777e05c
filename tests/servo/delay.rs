//! What the loop's delay leaves of the stiffness: ticks that begin late, and a device that is slower than its profile states.

use crate::device::Puppet;
use crate::world::{Bench, floor, norm, object, scene, sphere_tool};
use hapticd::geometry::{Pose, Vec3};
use hapticd::haptics::coupling::{Coupling, Law};
use hapticd::servo::handle::ServoConfig;
use hapticd::servo::record::{FLAG_STIFFNESS_CAPPED, Fault, TickRecord, ZeroReason};

/// Stiffness of the floor, all that the ideal device renders, N/m; and how deep the ball is pressed into it, m.
const STIFFNESS: f64 = 4000.0;
const DEPTH: f64 = 0.5e-3;

const LAWS: [Law; 3] = [Law::Direct, Law::Dynamic, Law::Static];

fn pressed(law: Law) -> (Bench, f64) {
    let puppet = Puppet::new(Vec3::new(0.0, 0.02, 0.0));
    let coupling = Coupling { law, ..Coupling::default() };
    let mut bench = Bench::new(Box::new(puppet.clone()), ServoConfig { coupling, ..ServoConfig::default() });
    bench.publish(scene(1, &sphere_tool(0.01), vec![object(1, floor(), Pose::identity(), STIFFNESS)]));
    bench.arm();
    for k in 0..=500 {
        puppet.place(Vec3::new(0.0, 0.02 - (0.01 + DEPTH) * f64::from(k) / 500.0, 0.0));
        bench.step();
    }
    let full = norm(bench.steps(2000).force);
    (bench, full)
}

/// What is felt with a part of the device's stiffness left: directly that of the floor; behind a virtual tool's spring, which saturates at
/// four times 20 N, both in series.
fn felt(law: Law, part: f64) -> f64 {
    if law == Law::Direct {
        return part * STIFFNESS * DEPTH;
    }
    (0..50).fold(0.0, |f, _| DEPTH / (1.0 / STIFFNESS + 1.0 / (part * STIFFNESS * (1.0 - f / 80.0))))
}

/// Half a period more than a sound machine's lateness doubles T/2 + t_d: half of the stiffness is left. It goes and comes
/// back without a step, and never is a fault.
#[test]
fn ticks_that_begin_late_soften_the_contact_and_it_comes_back() {
    for law in LAWS {
        let (mut bench, full) = pressed(law);
        // The damping is at rest: what is felt is the spring.
        assert!((full - felt(law, 1.0)).abs() < 0.02 * full, "{law:?}: {full}");
        assert_eq!(bench.handle.counters().loop_delay(), Some((0, 1.0)));
        let mut last = full;
        let mut follow = |bench: &mut Bench, late_ns: u64, n: usize| -> TickRecord {
            for _ in 0..n {
                bench.servo.delay(late_ns);
                let r = bench.step();
                assert_eq!((r.fault, r.zero), (Fault::None, ZeroReason::None));
                assert!((norm(r.force) - last).abs() < 0.02 * full, "{} after {last}", norm(r.force));
                last = norm(r.force);
            }
            bench.last
        };
        let r = follow(&mut bench, 600_000, 1000);
        let half = felt(law, 0.5);
        println!("{law:?}: {full:.4} N, then {:.4} of {half:.4} N", norm(r.force));
        assert!((norm(r.force) - half).abs() < 0.02 * full, "{law:?}: {} of {full}", norm(r.force));
        // A virtual tool's floor is not capped: its spring is softer.
        assert_eq!(r.flags & FLAG_STIFFNESS_CAPPED != 0, law == Law::Direct);
        let (delay, part) = bench.handle.counters().loop_delay().expect("known");
        assert!((490_000..510_000).contains(&delay) && (part - 0.5).abs() < 0.01, "{delay} {part}");
        let r = follow(&mut bench, 0, 4000);
        assert!((norm(r.force) - full).abs() < 0.001 * full, "{law:?}: {} of {full}", norm(r.force));
        assert_eq!(r.flags & FLAG_STIFFNESS_CAPPED, 0);
    }
}

/// Without the real-time set-up that was asked for, half a period of lateness counts before any tick is late: half of the stiffness; the
/// counters, which the answers to edits are read from, say so.
#[test]
fn a_poor_real_time_set_up_softens_the_contact_at_once() {
    for law in LAWS {
        let (mut bench, full) = pressed(law);
        assert!((bench.handle.counters().stiffest().expect("known") - STIFFNESS).abs() < 1e-6);
        bench.servo.set_degraded(true);
        let r = bench.steps(300);
        assert!((norm(r.force) - felt(law, 0.5)).abs() < 0.02 * full, "{law:?}: {} of {full}", norm(r.force));
        assert_eq!(r.flags & FLAG_STIFFNESS_CAPPED != 0, law == Law::Direct);
        assert!((bench.handle.counters().stiffest().expect("known") - 0.5 * STIFFNESS).abs() < 1e-6);
        bench.servo.set_degraded(false);
        let back = norm(bench.steps(2000).force);
        assert!((back - full).abs() < 0.001 * full, "{law:?}: {back} of {full}");
    }
}

/// Lateness of a sound machine changes nothing: neither some hundredths of a millisecond always nor a few milliseconds now
/// and then.
#[test]
fn lateness_of_a_sound_machine_leaves_the_contact_as_it_is() {
    for law in LAWS {
        let (mut bench, full) = pressed(law);
        for k in 0..3000 {
            bench.servo.delay(if k % 100 == 0 { 900_000 } else { 80_000 });
            let r = bench.step();
            // A virtual tool comes to rest to the last bits but one.
            let off = (norm(r.force) - full).abs();
            let most = if law == Law::Direct { 0.0 } else { 1e-9 * full };
            assert!(off <= most, "{law:?} tick {}: by {off} N", r.tick);
        }
    }
}
