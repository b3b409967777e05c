//! The proxy on the mesh itself in the whole tick: sheets of a single layer, of 0.2 mm, and such as move.

use crate::device::Puppet;
use crate::world::{Bench, MS, object, scene, sphere_tool, streamed};
use hapticd::contact::ObjectShape;
use hapticd::contact::ist::Solid;
use hapticd::geometry::field::build::{FieldParams, Resolution, Silent, build};
use hapticd::geometry::{Point, Pose, TriMesh, Vec3, shapes};
use hapticd::scene::snapshot::{MotionFrame, Snapshot, SnapshotObject};
use hapticd::servo::handle::ServoConfig;
use hapticd::servo::record::ServoState;
use std::sync::Arc;

/// With a field of so few cells that it does not hold it.
pub fn meshed(mesh: &TriMesh) -> ObjectShape {
    let params = FieldParams { resolution: Resolution::Longest(16), ..FieldParams::default() };
    let (field, _) = build(mesh, &params, &Silent).expect("builds");
    ObjectShape::Solid(Arc::new(Solid::new(mesh, Arc::new(field), &|| false).expect("not stopped")))
}

/// A single layer about y = 0, 12 mm wide: two triangles, which meet where the tool comes.
pub fn layer() -> TriMesh {
    let h = 0.006;
    let corners = [[-h, -h], [h, -h], [h, h], [-h, h]];
    TriMesh {
        vertices: corners.iter().map(|[x, z]| Point::new(*x, 0.0, *z)).collect(),
        triangles: vec![[0, 2, 1], [0, 3, 2]],
    }
}

/// Name, mesh and half its thickness, m.
fn sheets() -> [(&'static str, TriMesh, f64); 2] {
    [("single layer", layer(), 0.0), ("0.2 mm", shapes::cuboid(Vec3::new(0.012, 2e-4, 0.012)), 1e-4)]
}

#[test]
fn a_fast_hand_is_held_before_a_sheet_that_no_field_holds() {
    for (name, mesh, half) in sheets() {
        let shape = meshed(&mesh);
        for radius in [0.0, 4e-4, 0.005] {
            for phase in 0..6 {
                let (mut bench, puppet) = Bench::puppet(Vec3::new(0.0, 0.03, 0.0));
                let tool = sphere_tool(radius);
                bench.publish(scene(2, &tool, vec![object(1, shape.clone(), Pose::identity(), 1000.0)]));
                bench.arm();
                // 1 m/s, to 6 mm behind the sheet, through the edge of both its triangles.
                let mut y = 0.03 + f64::from(phase) * 1e-3 / 6.0;
                let mut last = 0.0;
                while y > -0.006 {
                    y -= 1e-3;
                    puppet.place(Vec3::new(3e-4, y, 3e-4));
                    let r = bench.step();
                    let force = puppet.get().command.force;
                    let behind = radius + half - y;
                    assert!(force.x.abs() < 0.02 && force.z.abs() < 0.02, "{name} {radius} {phase}: {force}");
                    assert!(
                        force.y >= last - 0.25,
                        "{name} {radius} {phase} at {y}: {} after {last}",
                        force.y
                    );
                    assert!(behind < 3e-3 || force.y > 0.5, "{name} {radius} {phase} at {y}: {} N", force.y);
                    assert_eq!(r.touched, u16::from(behind > 0.0), "{name} {radius} {phase} at {y}");
                    last = force.y;
                }
                let held = bench.steps(50);
                assert!((held.depth - (radius + half - y)).abs() < 1e-7, "{name} {phase}: {}", held.depth);
                // Back, slowly: the force ends where the tool is on its side again.
                while y < radius + 0.004 {
                    y += 5e-5;
                    puppet.place(Vec3::new(3e-4, y, 3e-4));
                    let r = bench.step();
                    assert_eq!(r.touched, u16::from(y < radius + half), "{name} {radius} {phase} at {y}");
                }
                assert_eq!(puppet.get().command.force, Vec3::zeros());
            }
        }
    }
}

/// A workspace enlarged a hundredfold: in a tick the tool goes farther than the whole object is wide.
#[test]
fn an_enlarged_hand_is_held_before_a_sheet_that_no_field_holds() {
    let scale = 100.0;
    for (name, mesh, half) in sheets() {
        let shape = meshed(&mesh);
        for phase in 0..12 {
            let (mut bench, puppet) = Bench::puppet(Vec3::new(0.0, 0.01, 0.0));
            let tool = sphere_tool(0.001);
            let small =
                SnapshotObject { bound_radius: 0.0086, ..object(1, shape.clone(), Pose::identity(), 1000.0) };
            let enlarged = Snapshot::new(2, tool.clone(), vec![small].into(), Pose::identity(), scale);
            bench.publish(Box::new(enlarged));
            bench.arm();
            // 0.9 m/s, 90 mm a tick in the scene.
            let mut y = 1.0 + f64::from(phase) * 7.5e-3;
            while y > -0.006 {
                y -= 0.09;
                puppet.place(Vec3::new(3e-4, y, 2e-4) / scale);
                bench.step();
            }
            let held = bench.steps(50);
            let behind = 0.001 + half - y;
            assert!(held.touched == 1 && held.force[1] > 0.0, "{name} {phase}: {:?}", held.force);
            assert!((held.depth - behind).abs() < 1e-6, "{name} {phase}: {} of {behind}", held.depth);
        }
    }
}

/// A sheet that is moved onto a tool at rest takes it along in front of it, with 0.4 m/s.
#[test]
fn a_moving_sheet_keeps_the_tool_on_its_side() {
    for (name, mesh, half) in sheets() {
        let (mut bench, puppet) = Bench::puppet(Vec3::new(3e-4, 0.0, 2e-4));
        let moving = SnapshotObject { motion: Some(0), ..object(1, meshed(&mesh), Pose::identity(), 500.0) };
        bench.publish(scene(2, &sphere_tool(0.001), vec![moving]));
        let path = |ns: u64| {
            let t = (ns as f64 * 1e-9 - 1.2).max(0.0);
            Vec3::new(0.0, (-0.03 + 0.4 * t).min(0.005), 0.0)
        };
        for sequence in 0..400u64 {
            let now = bench.servo.now_ns();
            let entry = streamed(1, now, u64::MAX, path);
            bench.handle.publish_motion(Box::new(MotionFrame { sequence, entries: vec![Some(entry)] }));
            if sequence == 2 {
                bench.arm();
            }
            bench.step();
        }
        for _ in 0..1200 {
            bench.step_streamed(path);
        }
        let force = puppet.get().command.force;
        // The sheet is 5 mm past the tool, which stays in front of it.
        let want = 500.0 * (0.005 + half + 0.001);
        assert!(
            (force.y - want).abs() < 0.05,
            "{name}: {force}, {want} N, at {} ms",
            bench.last.planned_ns / MS
        );
        assert!((bench.last.depth - (0.006 + half)).abs() < 1e-6, "{name}: {}", bench.last.depth);
    }
}

/// The lower half of a sphere of triangles, open above.
pub fn bowl(radius: f64) -> TriMesh {
    let mut ball = shapes::icosphere(radius, 4);
    let below = |t: &[u32; 3]| t.iter().all(|v| ball.vertices[*v as usize].y <= 1e-6);
    let triangles = ball.triangles.iter().copied().filter(below).collect();
    ball.triangles = triangles;
    ball
}

/// In the middle of an open bowl, whose mouth its field closes, nothing is felt: there one can arm, and then feel its wall.
#[test]
fn one_can_arm_inside_an_open_body() {
    let (mut bench, puppet) = Bench::puppet(Vec3::new(0.0, -0.005, 0.0));
    let shape = meshed(&bowl(0.03));
    bench.publish(scene(2, &sphere_tool(0.004), vec![object(1, shape, Pose::identity(), 1000.0)]));
    bench.arm();
    assert_eq!(bench.last.state, ServoState::Rendering, "{:?}", bench.last);
    let mut y = -0.005;
    while y > -0.028 {
        y -= 1e-4;
        puppet.place(Vec3::new(0.0, y, 0.0));
        bench.step();
    }
    bench.steps(300);
    let force = puppet.get().command.force;
    // Its facets of 2.1 mm lie up to 1.2 mm ^ 2 / 60 mm inside of the sphere.
    let beyond = force.y - 1000.0 * (0.004 - y - 0.03);
    assert!(beyond > -1e-3 && beyond < 0.025, "{force} at {y}");
}

/// The budget of a tick and its clock are kept, and nothing gets through meanwhile.
#[test]
fn a_starved_tick_lets_nothing_through() {
    let mesh = shapes::torus(0.03, 0.012, 128, 64);
    let shape = meshed(&mesh);
    let puppet = Puppet::new(Vec3::new(0.03, 0.0, 0.033));
    let config = ServoConfig { budget_units: 1, ..ServoConfig::default() };
    let mut bench = Bench::new(Box::new(puppet.clone()), config);
    bench.publish(scene(1, &sphere_tool(0.002), vec![object(1, shape, Pose::identity(), 500.0)]));
    bench.arm();
    let mut last = bench.last.force;
    for k in 0..3000 {
        let t = f64::from(k) * 1e-3;
        // Down on the ring and round on it, a millimetre deep.
        let height = 0.013 + 0.02 * (1.0 - 4.0 * t).max(0.0);
        let turn = 2.0 * (t - 0.3).max(0.0);
        puppet.place(Vec3::new(0.03 * turn.cos(), 0.03 * turn.sin(), height));
        let r = bench.step();
        assert!(r.work <= 400, "{k}: {}", r.work);
        if t > 0.4 {
            assert!(r.touched == 1 && r.force[2] > 0.2, "{k}: {:?}", r.force);
            assert!((r.force[2] - last[2]).abs() < 0.2, "{k}: {:?} after {last:?}", r.force);
        }
        last = r.force;
    }
}
