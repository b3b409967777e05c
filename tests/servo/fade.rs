//! Edits under the tool never kick: stiffness, new and moved geometry, deletion, streams that stop.

use crate::device::Puppet;
use crate::world::{Bench, MS, ball, cube_tool, field, floor, norm, object, scene, sphere_tool, streamed};
use hapticd::contact::ObjectShape;
use hapticd::geometry::{Pose, Vec3};
use hapticd::scene::snapshot::{MotionFrame, SnapshotObject};
use hapticd::servo::handle::{ServoCommand, ServoConfig};
use hapticd::servo::record::{ServoState, ZeroReason};

/// Pressing 2 mm into the floor.
fn pressing() -> (Bench, Puppet) {
    let (mut bench, puppet) = Bench::puppet(Vec3::new(0.0, 0.011, 0.0));
    bench.arm();
    for _ in 0..60 {
        let at = puppet.get().pose.translation.vector;
        puppet.place(at - Vec3::new(0.0, 5e-5, 0.0));
        bench.step();
    }
    bench.steps(20);
    (bench, puppet)
}

/// Publishes, then returns (largest change of force in a tick, force after the fade).
fn edit(bench: &mut Bench, generation: u64, objects: Vec<SnapshotObject>) -> (f64, f64) {
    let mut last = Vec3::from(bench.last.force);
    bench.publish(scene(generation, &sphere_tool(0.01), objects));
    let mut jump = 0.0f64;
    for _ in 0..400 {
        let force = Vec3::from(bench.step().force);
        jump = jump.max((force - last).norm());
        last = force;
    }
    assert_eq!((bench.last.generation, bench.last.state), (generation, ServoState::Rendering));
    (jump, last.norm())
}

#[test]
fn a_stiffness_change_while_touching_fades_both_ways() {
    let (mut bench, _) = pressing();
    let soft = norm(bench.last.force);
    let (jump, stiff) = edit(&mut bench, 2, vec![object(1, floor(), Pose::identity(), 3000.0)]);
    assert!((stiff / soft - 3.0).abs() < 1e-3, "{soft} {stiff}");
    // 200 ms of fading: a two hundredth of the way in a tick.
    assert!(jump <= (stiff - soft) / 200.0 * 3.1, "{jump}");
    let (jump, again) = edit(&mut bench, 3, vec![object(1, floor(), Pose::identity(), 1000.0)]);
    assert!((again - soft).abs() < 1e-6);
    assert!(jump <= 7.0 * soft / 200.0 + 1e-9, "{jump}");
}

#[test]
fn twenty_edits_a_second_of_the_touched_object_stay_smooth() {
    let (mut bench, _) = pressing();
    let mut last = norm(bench.last.force);
    let mut jump = 0.0f64;
    for k in 0..1000u64 {
        if k % 50 == 0 {
            let stiffness = if (k / 50) % 2 == 0 { 2000.0 } else { 1000.0 };
            bench.publish(scene(
                2 + k,
                &sphere_tool(0.01),
                vec![object(1, floor(), Pose::identity(), stiffness)],
            ));
        }
        let force = norm(bench.step().force);
        jump = jump.max((force - last).abs());
        last = force;
    }
    assert!(last > 0.5);
    assert!(jump < 0.05 * last, "{jump} of {last}");
}

#[test]
fn other_edits_leave_the_felt_object_alone() {
    let (mut bench, _) = pressing();
    // A compiled scene shares what did not change.
    let (own, other) = (floor(), ball());
    bench.publish(scene(2, &sphere_tool(0.01), vec![object(1, own.clone(), Pose::identity(), 1000.0)]));
    let force = bench.step().force;
    for k in 0..20 {
        let far = Pose::translation(1.0 + k as f64, 0.0, 0.0);
        let objects = vec![
            object(1, own.clone(), Pose::identity(), 1000.0),
            object(2, other.clone(), far, 500.0 + k as f64),
        ];
        bench.publish(scene(3 + k, &sphere_tool(0.01), objects));
        assert_eq!(bench.step().force, force, "bit for bit");
    }
}

#[test]
fn new_geometry_over_the_tool_fades_in() {
    let (mut bench, puppet) = Bench::puppet(Vec3::new(0.0, 0.05, 0.0));
    bench.arm();
    let base = object(1, floor(), Pose::identity(), 1000.0);
    // The ball appears with the tool well inside.
    let at = Pose::translation(0.0, 0.045, 0.0);
    let (jump, force) = edit(&mut bench, 2, vec![base.clone(), object(2, ball(), at, 1000.0)]);
    assert!(force > 1.0, "{force}");
    // 200 ms of fading of what the contact wants (more than the device can give here).
    assert!(jump <= norm(bench.last.contact_force) / 190.0, "{jump} of {force}");
    // Moved by an edit to the other side of the tool: what was felt counts for nothing there.
    let other = Pose::translation(0.0, 0.055, 0.0);
    let (jump, there) = edit(&mut bench, 3, vec![base.clone(), object(2, ball(), other, 1000.0)]);
    assert!((there - force).abs() < 0.05 * force);
    // The old force may go at once, the new one fades in.
    assert!(jump <= force * 1.001, "{jump}");
    let direction = Vec3::from(bench.last.force).normalize();
    assert!(direction.y < -0.99, "{direction}");
    assert!(puppet.get().command.force.norm() > 1.0);
}

#[test]
fn approaching_an_object_that_was_edited_long_ago_is_not_softened() {
    let (mut bench, puppet) = Bench::puppet(Vec3::new(0.0, 0.05, 0.0));
    bench.arm();
    bench.publish(scene(2, &sphere_tool(0.01), vec![object(1, floor(), Pose::identity(), 2000.0)]));
    bench.steps(3);
    let mut contact = None;
    for _ in 0..1700 {
        let at = puppet.get().pose.translation.vector;
        puppet.place(at - Vec3::new(0.0, 2.5e-5, 0.0));
        let r = bench.step();
        if r.touched > 0 && contact.is_none() {
            contact = Some(r.depth);
        }
        if r.depth > 5e-4 {
            // The coupling's damping only adds while the tool goes in.
            assert!(norm(r.force) > 0.999 * norm(r.contact_force));
        }
    }
    assert!(contact.is_some_and(|d| d < 3e-5));
}

#[test]
fn a_deleted_object_lets_go_at_once() {
    let (mut bench, _) = pressing();
    bench.publish(scene(2, &sphere_tool(0.01), vec![]));
    let r = bench.step();
    assert_eq!((norm(r.force), r.zero, r.state), (0.0, ZeroReason::NoContact, ServoState::Rendering));
    // And comes back softly when it is put back under the tool.
    let (jump, force) = edit(&mut bench, 3, vec![object(1, floor(), Pose::identity(), 1000.0)]);
    assert!(force > 0.5 && jump <= force / 190.0, "{jump} of {force}");
}

fn stream(bench: &Bench, at: Vec3, lease_ms: u64) -> Box<MotionFrame> {
    let now = bench.servo.now_ns();
    let entry = streamed(1, now.saturating_sub(2 * MS), now + lease_ms * MS, |_| at);
    Box::new(MotionFrame { sequence: now, entries: vec![Some(entry)] })
}

#[test]
fn what_stands_still_beside_a_stopped_object_keeps_its_force() {
    let (mut bench, _) = pressing();
    let own = floor();
    bench.publish(scene(2, &sphere_tool(0.01), vec![object(1, own.clone(), Pose::identity(), 1000.0)]));
    let alone = norm(bench.step().force);
    let moving =
        SnapshotObject { motion: Some(0), ..object(2, floor(), Pose::translation(0.0, -0.1, 0.0), 1000.0) };
    let parts = vec![object(1, own, Pose::identity(), 1000.0), moving];
    bench.publish(scene(3, &sphere_tool(0.01), parts));
    // A second floor rises through the first to the same height.
    for k in 0..900 {
        let y = -0.1 + 0.1 * (f64::from(k) / 600.0).min(1.0);
        let mut frame = stream(&bench, Vec3::new(0.0, y, 0.0), 100);
        frame.entries.iter_mut().flatten().for_each(|e| e.id = 2);
        bench.handle.publish_motion(frame);
        bench.handle.reclaim();
        bench.step();
    }
    assert!(norm(bench.last.force) > 1.5 * alone, "{:?} {alone}", bench.last.force);
    assert_eq!(bench.last.touched, 2);
    // Its sender dies. There is a force at every moment, so no record gives a reason for none.
    for _ in 0..300 {
        let r = bench.step();
        assert!(norm(r.force) >= alone * (1.0 - 1e-9), "{:?} {alone}", r.force);
        assert_eq!(r.zero, ZeroReason::None);
    }
    assert!((norm(bench.last.force) - alone).abs() < 1e-6 * alone, "{:?} {alone}", bench.last.force);
}

#[test]
fn a_stopped_stream_freezes_the_object_and_its_force_ramps_to_zero() {
    let puppet = Puppet::new(Vec3::new(0.0, 0.011, 0.0));
    let mut bench = Bench::new(Box::new(puppet.clone()), ServoConfig::default());
    let moving = SnapshotObject { motion: Some(0), ..object(1, floor(), Pose::identity(), 1000.0) };
    bench.publish(scene(1, &sphere_tool(0.01), vec![moving]));
    bench.arm();
    // The floor rises by 3 mm under the tool, streamed at 500 Hz.
    for k in 0..900 {
        let y = 0.003 * (f64::from(k) / 300.0).min(1.0);
        bench.handle.publish_motion(stream(&bench, Vec3::new(0.0, y, 0.0), 100));
        bench.handle.reclaim();
        bench.step();
    }
    let (force, seq) = (norm(bench.last.force), bench.last.motion_seq);
    assert!(force > 0.5 && seq > 0, "{force}");
    assert_eq!(bench.last.zero, ZeroReason::None);
    // The sender dies: its lease lapses after 100 ms.
    let mut last = force;
    let mut down = None;
    for k in 1..=200 {
        let r = bench.step();
        assert!(norm(r.force) <= last + 1e-9);
        assert!(last - norm(r.force) <= force / 20.0 + 1e-9, "over at least 20 ms");
        last = norm(r.force);
        let why = if last == 0.0 { ZeroReason::MotionStopped } else { ZeroReason::None };
        assert_eq!(r.zero, why, "a reason if and only if there is no force");
        if last == 0.0 && down.is_none() {
            down = Some(k);
        }
    }
    assert!(down.is_some_and(|k| (100..=150).contains(&k)), "{down:?}");
    assert_eq!((bench.last.state, bench.last.zero), (ServoState::Rendering, ZeroReason::MotionStopped));
    assert!(bench.last.depth > 0.001, "it froze where it was");
    // It comes back: softly.
    let mut jump = 0.0f64;
    for _ in 0..400 {
        bench.handle.publish_motion(stream(&bench, Vec3::new(0.0, 0.003, 0.0), 100));
        bench.handle.reclaim();
        let f = norm(bench.step().force);
        jump = jump.max((f - last).abs());
        last = f;
    }
    assert!((last - force).abs() < 0.01 * force, "{last} {force}");
    assert!(jump <= force / 190.0, "{jump}");
}

/// Through a sheet that gives no force, because its stream stopped or it was made soft, and away: when it is hard again the hand is in the
/// free, and nothing draws it back to the side from which it came.
#[test]
fn a_hand_that_went_through_what_gave_no_force_is_not_drawn_back() {
    for by_stream in [true, false] {
        let puppet = Puppet::new(Vec3::new(0.0, 0.02, 0.0));
        let mut bench = Bench::new(Box::new(puppet.clone()), ServoConfig::default());
        let sheet = ObjectShape::Field(field(0.06, 121, |p| 0.002 - p.y.abs()));
        let part = |stiffness| SnapshotObject {
            motion: by_stream.then_some(0),
            ..object(1, sheet.clone(), Pose::identity(), stiffness)
        };
        let poses = |bench: &mut Bench| {
            if by_stream {
                bench.handle.publish_motion(stream(bench, Vec3::zeros(), 100));
                bench.handle.reclaim();
            }
        };
        bench.publish(scene(1, &sphere_tool(0.005), vec![part(1000.0)]));
        bench.arm();
        for k in 0..500 {
            poses(&mut bench);
            puppet.place(Vec3::new(0.0, 0.02 - 1e-4 * f64::from(k.min(140)), 0.0));
            bench.step();
        }
        assert!(norm(bench.last.force) > 0.5, "{by_stream}: {:?}", bench.last.force);
        if !by_stream {
            bench.publish(scene(2, &sphere_tool(0.005), vec![part(0.0)]));
        }
        assert_eq!(norm(bench.steps(400).force), 0.0, "{by_stream}");
        for k in 0..400 {
            puppet.place(Vec3::new(0.0, 0.006 - 1e-4 * f64::from(k), 0.0));
            assert_eq!(norm(bench.step().force), 0.0, "{by_stream}");
        }
        if !by_stream {
            bench.publish(scene(3, &sphere_tool(0.005), vec![part(1000.0)]));
        }
        for _ in 0..500 {
            poses(&mut bench);
            let r = bench.step();
            assert_eq!(norm(r.force), 0.0, "{by_stream}: {r:?}");
        }
    }
}

/// A force that is on its way down does not get a second ramp from a tool that changes meanwhile.
#[test]
fn a_tool_change_within_a_ramp_down_does_not_begin_it_anew() {
    let (mut bench, _) = pressing();
    assert!(norm(bench.last.force) > 0.5);
    assert_eq!(bench.command(ServoCommand::Disarm), Ok(()));
    let mut last = norm(bench.steps(14).force);
    bench.publish(scene(2, &cube_tool(500), vec![object(1, floor(), Pose::identity(), 1000.0)]));
    let mut ticks = 15;
    while norm(bench.step().force) > 0.0 {
        let now = norm(bench.last.force);
        assert!(now <= last + 1e-9, "{now} after {last}");
        (last, ticks) = (now, ticks + 1);
    }
    assert!(ticks <= 32, "{ticks} ticks for a ramp of 30 ms");
}

/// Another material of an object that moves: the force comes over the fade as on one that rests, and never jumps up.
#[test]
fn a_material_edit_of_a_moving_object_fades() {
    for (along, up) in [(5e-3, 0.0), (0.0, 2e-4), (5e-3, 2e-4)] {
        let puppet = Puppet::new(Vec3::new(0.0, 0.02, 0.0));
        let mut bench = Bench::new(Box::new(puppet.clone()), ServoConfig::default());
        let shape = floor();
        let moving = |stiffness| SnapshotObject {
            motion: Some(0),
            ..object(1, shape.clone(), Pose::identity(), stiffness)
        };
        bench.publish(scene(1, &sphere_tool(0.01), vec![moving(1000.0)]));
        let path = move |ns: u64| {
            let a = ns as f64 * 1e-9 * std::f64::consts::TAU;
            Vec3::new(along * a.sin(), up * a.cos(), 0.0)
        };
        let step = |bench: &mut Bench| bench.step_streamed(path);
        for _ in 0..20 {
            step(&mut bench);
        }
        bench.own();
        for k in 0..1200 {
            let y = 0.02 - 0.012 * (f64::from(k) / 900.0).min(1.0);
            puppet.place(Vec3::new(0.0, y, 0.0));
            step(&mut bench);
        }
        // By how much the force may grow in a tick for the motion of the floor alone.
        let own = |stiffness: f64| 1.5 * stiffness * up * std::f64::consts::TAU * 1e-3;
        let mut last = norm(bench.last.force);
        assert!((1.5..2.5).contains(&last), "{last}");
        for (generation, stiffness) in [(2, 3000.0), (3, 1000.0), (4, 2500.0)] {
            bench.publish(scene(generation, &sphere_tool(0.01), vec![moving(stiffness)]));
            let (mut grew, mut first) = (0.0f64, None);
            for _ in 0..400 {
                let force = norm(step(&mut bench).force);
                grew = grew.max(force - last);
                first.get_or_insert(force - last);
                last = force;
            }
            let depth = 2e-3 + up;
            println!("{along} {up} to {stiffness} N/m: {last:.3} N, {grew:.4} N in a tick");
            // 200 ms for all of it, and what the floor's own motion adds.
            assert!(
                grew <= stiffness * depth / 200.0 * 1.2 + own(stiffness),
                "{stiffness}: {grew} N in a tick"
            );
            assert!((last / (stiffness * 2e-3) - 1.0).abs() < 0.15, "{stiffness}: {last} N");
        }
    }
}
