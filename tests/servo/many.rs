//! Many objects: none starves, forces are continuous, far ones cost nothing but a ball test.

use crate::device::Puppet;
use crate::world::{Bench, cube_tool, floor, norm, object, scene};
use hapticd::geometry::{Pose, Vec3};
use hapticd::servo::handle::ServoConfig;
use hapticd::servo::record::{FLAG_INCOMPLETE, ServoState};

/// Twenty floors, all at the same height, touched by one cube of 4,000 points on a budget that two of them would use up.
fn twenty(budget_units: u32) -> (Bench, Puppet) {
    let puppet = Puppet::new(Vec3::new(0.0, 0.012, 0.0));
    let config = ServoConfig { budget_units, ..ServoConfig::default() };
    let mut bench = Bench::new(Box::new(puppet.clone()), config);
    let objects = (1..=20).map(|id| object(id, floor(), Pose::identity(), 20.0)).collect();
    bench.publish(scene(1, &cube_tool(4000), objects));
    bench.arm();
    (bench, puppet)
}

#[test]
fn twenty_touched_objects_share_the_budget_and_none_starves() {
    let press = |budget: u32| {
        let (mut bench, puppet) = twenty(budget);
        let (mut jump, mut last) = (0.0f64, 0.0);
        for _ in 0..200 {
            let at = puppet.get().pose.translation.vector;
            puppet.place(at - Vec3::new(0.0, 2e-5, 0.0));
            let r = bench.step();
            assert_eq!(r.queried, 20);
            if budget > 0 {
                assert!(r.work <= budget + 20 * 64, "{} of {budget}", r.work);
            }
            jump = jump.max((norm(r.force) - last).abs());
            last = norm(r.force);
        }
        assert_eq!(bench.last.state, ServoState::Rendering);
        (bench.last, jump)
    };
    let (full, full_jump) = press(0);
    let (short, short_jump) = press(8000);
    assert!(short.flags & FLAG_INCOMPLETE != 0, "the budget did bite");
    assert_eq!((full.touched, short.touched), (20, 20), "none is starved");
    // Each object got its part of a coarser sampling of the same face: the sum stays close.
    assert!(
        (norm(short.force) / norm(full.force) - 1.0).abs() < 0.15,
        "{} {}",
        norm(short.force),
        norm(full.force)
    );
    assert!(short_jump < 3.0 * full_jump + 0.02 * norm(full.force), "{short_jump} {full_jump}");
}

#[test]
fn a_thousand_objects_away_are_not_queried() {
    let puppet = Puppet::new(Vec3::new(0.0, 0.012, 0.0));
    let mut bench = Bench::new(Box::new(puppet.clone()), ServoConfig::default());
    let shape = floor();
    let mut objects = vec![object(1, shape.clone(), Pose::identity(), 500.0)];
    for id in 2..=1001u32 {
        let at = Pose::translation(1.0 + f64::from(id % 10), f64::from(id / 100), f64::from(id / 10 % 10));
        objects.push(object(id, shape.clone(), at, 500.0));
    }
    bench.publish(scene(1, &cube_tool(1000), objects));
    bench.arm();
    for _ in 0..60 {
        let at = puppet.get().pose.translation.vector;
        puppet.place(at - Vec3::new(0.0, 5e-5, 0.0));
        bench.step();
    }
    assert_eq!((bench.last.queried, bench.last.touched, bench.last.deepest_object), (1, 1, 1));
}
