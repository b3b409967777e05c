//! No tick touches the heap, whatever happens in it; and an allocation that does happen is seen.

use crate::device::{Hooked, Puppet};
use crate::world::{Bench, MS, ball, cube_tool, floor, material, object, scene, sphere_tool, streamed};
use hapticd::contact::vps::{Manifold, ManifoldParams, Segments, Side, sweep_to_impact};
use hapticd::contact::{Budget, Friction, Query, QueryState, ToolShape, query};
use hapticd::device::{Lifecycle, ReadFault};
use hapticd::geometry::{Pose, Twist, Vec3};
use hapticd::scene::snapshot::{MotionFrame, SnapshotObject};
use hapticd::servo::handle::{ServoCommand, ServoConfig};
use hapticd::servo::heap::operations;
use hapticd::servo::record::{Fault, ServoState};
use std::sync::atomic::Ordering::Relaxed;

/// Everything at once: contact with a shell, a scene swap each tick, a motion stream, full rings, commands, arming,
/// ramp, device loss and fault.
pub fn everything(mut between: impl FnMut(&Bench)) -> Bench {
    let puppet = Puppet::new(Vec3::new(0.0, 0.02, 0.0));
    let config = ServoConfig { budget_units: 3000, telemetry_ring: 64, ..ServoConfig::default() };
    let mut bench = Bench::new(Box::new(puppet.clone()), config);
    let (cube, sphere) = (cube_tool(4000), sphere_tool(0.01));
    let (flat, round) = (floor(), ball());
    let (mut touched, mut faults, mut rendered) = (0, 0, 0);
    for k in 0..3000u64 {
        // Outside the ticks: publish, stream, command, move, break.
        let tool = if k % 1500 < 1200 { &cube } else { &sphere };
        let mut moving = SnapshotObject {
            motion: Some(0),
            ..object(2, round.clone(), Pose::translation(0.03, 0.02, 0.0), 300.0)
        };
        moving.material.friction = Friction::of(0.5);
        let stiffness = 500.0 + (k % 7) as f64;
        let mut still = object(1, flat.clone(), Pose::identity(), stiffness);
        still.material.friction = Friction { dynamic: 0.3, ..Friction::of(0.5) };
        bench.handle.publish(scene(k + 1, tool, vec![still, moving])).unwrap();
        let now = bench.servo.now_ns();
        let lease = if k % 1000 > 700 { 0 } else { u64::MAX };
        let entry = streamed(2, now.saturating_sub(2 * MS), lease, |t| {
            Vec3::new(0.03 + 0.005 * (t as f64 * 1e-8).sin(), 0.02, 0.0)
        });
        bench.handle.publish_motion(Box::new(MotionFrame { sequence: k, entries: vec![Some(entry)] }));
        if k % 500 < 400 {
            // The rest of the time the return rings fill up.
            bench.handle.reclaim();
        }
        match k % 1500 {
            5 => drop(bench.handle.send(ServoCommand::Arm { session: 1 })),
            6 => drop(bench.handle.send(ServoCommand::Lease { until_ns: u64::MAX })),
            1100 => drop(bench.handle.send(ServoCommand::Clutch { held: true })),
            1110 => drop(bench.handle.send(ServoCommand::Clutch { held: false })),
            1300 => puppet.with(|s| s.read = Some(ReadFault::Stale)),
            1340 => puppet.with(|s| s.read = None),
            1400 => puppet.with(|s| s.lifecycle = Lifecycle::Absent),
            1450 => puppet.with(|s| s.lifecycle = Lifecycle::Ready),
            1460 => drop(bench.handle.send(ServoCommand::ClearFault)),
            _ => {}
        }
        let swing = (k as f64 * 2e-3).sin();
        let y = if k % 1500 < 400 { 0.02 } else { 0.011 - 0.003 * swing };
        let at = puppet.get().pose.translation.vector;
        // Along the floor, too.
        let x = 0.004 * (k as f64 * 7e-3).sin();
        puppet.place(Vec3::new(x, at.y + (y - at.y).clamp(-2e-4, 2e-4), 0.0));
        between(&bench);
        let r = bench.servo.step();
        bench.last = r;
        touched += u32::from(r.touched > 0);
        faults += u32::from(r.fault != Fault::None);
        rendered += u32::from(r.state == ServoState::Rendering);
    }
    let c = bench.handle.counters();
    assert!(touched > 500 && faults > 40 && rendered > 1000, "{touched} {faults} {rendered}");
    assert!(c.dropped.load(Relaxed) > 1000 && c.return_full.load(Relaxed) > 100);
    assert!(c.adopted.load(Relaxed) > 2000);
    bench
}

#[test]
fn no_tick_allocates_or_frees() {
    let before = operations();
    drop(vec![0u8; 100]);
    assert!(operations() >= before + 2, "the counting allocator is installed");
    let bench = everything(|_| {});
    assert_eq!(bench.handle.counters().heap.load(Relaxed), 0);
}

#[test]
fn an_allocation_in_the_tick_is_counted() {
    let greedy = |n| {
        std::hint::black_box(vec![n; 4]);
        None
    };
    let device = Hooked::new(Box::new(Puppet::new(Vec3::zeros())), Box::new(greedy));
    let mut bench = Bench::new(device, ServoConfig::default());
    bench.steps(10);
    assert_eq!(bench.handle.counters().heap.load(Relaxed), 20, "one allocation and one free a tick");
}

/// What a physics engine asks beside the tick's own query.
#[test]
fn manifolds_segments_and_swept_motions_allocate_nothing() {
    let (tool, object) = (cube_tool(4000), floor());
    let ToolShape::Shell(shell) = &tool.shape else { panic!("a shell") };
    let (mut manifold, mut segments) = (Manifold::default(), Segments::new(shell, 5));
    let (mut contacts, mut deepest, mut impacts, mut held) = (0, 0, 0, 0);
    let before = operations();
    for k in 0..200 {
        let pose = Pose::translation(0.0, 0.012 - 2e-5 * f64::from(k), 0.0);
        let below = Pose::translation(0.0, 0.005, 0.0);
        let q = Query {
            tool: &tool.shape,
            tool_pose: &pose,
            tool_twist: &Twist::ZERO,
            object: &object,
            object_pose: &Pose::identity(),
            object_twist: &Twist::ZERO,
            material: &material(500.0),
        };
        contacts += manifold.update(&q, &ManifoldParams::default()).len();
        deepest += segments.update(&q).iter().filter(|s| s.deepest.is_some()).count();
        let swept = sweep_to_impact(shell, object.field(), &pose, &below, Budget::UNLIMITED);
        if let Some(impact) = swept.impact {
            impacts += 1;
            let after = Query { tool_pose: &below, ..q };
            let mut contact = query(&after, Budget::UNLIMITED, &mut QueryState::default());
            held += usize::from(Side::new(&impact).hold(&after, &mut contact));
        }
    }
    assert_eq!(operations(), before);
    assert!(contacts > 50 && deepest > 50, "{contacts} {deepest}");
    assert!(impacts > 50 && held == impacts, "{impacts} {held}");
}
