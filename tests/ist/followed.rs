//! What a query remembers from the one before, and the place where a distance becomes a volume.

use super::{ask, ask_after, ask_with, check, solid, tool, turned};
use hapticd::contact::{Contact, ObjectShape, QueryState, ToolShape};
use hapticd::geometry::{Pose, TriMesh, Twist, Vec3, shapes};
use nalgebra::UnitQuaternion;

fn follow(
    tool: &ToolShape,
    pose: &Pose,
    object: &ObjectShape,
    units: u32,
    state: &mut QueryState,
) -> Contact {
    ask_after(state, tool, pose, object, &Pose::identity(), &Twist::ZERO, units)
}

fn tori() -> (ToolShape, ObjectShape) {
    let torus = shapes::torus(0.02, 0.008, 48, 24);
    (tool(&torus, 5000), solid(&torus, 0.001))
}

/// Down onto the other torus, into it and out again, turning, a thirtieth of a millimetre at a time.
fn way() -> impl Iterator<Item = Pose> {
    (0..1200).map(|i| {
        let t = f64::from(i) / 1200.0;
        let down = 0.03 - 0.04 * (std::f64::consts::PI * t).sin();
        turned(0.02, 0.004 * t, down, Vec3::new(1.3, 0.4 * t, 0.2))
    })
}

#[test]
fn what_was_closest_spares_work_and_changes_no_distance() {
    let (tool, object) = tori();
    let mut state = QueryState::default();
    let (mut apart, mut differ, mut warm, mut cold) = (0, 0, 0, 0);
    for (i, pose) in way().enumerate() {
        let fresh = ask(&tool, &pose, &object);
        let kept = follow(&tool, &pose, &object, 0, &mut state);
        assert_eq!(kept.touching, fresh.touching, "pose {i}");
        let (Some(a), Some(b)) = (kept.distance, fresh.distance) else { continue };
        // Both are distances of two points of the surfaces; that either may be that of a neighbouring facet is allowed in one pose of
        // twenty, and then by a five-thousandth of the size.
        assert!((a - b).abs() <= 2e-4 * 0.056, "pose {i}: {a} remembered, {b} without");
        differ += u32::from((a - b).abs() > 1e-9);
        if !fresh.touching && a > 0.0 && a < 0.01 {
            (apart, warm, cold) = (apart + 1, warm + u64::from(kept.work), cold + u64::from(fresh.work));
        }
    }
    println!("{apart} poses apart, {differ} differ: {warm} units, without memory {cold}");
    assert!(apart > 50 && 20 * differ < apart, "{differ} of {apart}");
    assert!(10 * warm < 9 * cold, "{warm} of {cold}");
}

#[test]
fn the_same_pose_budget_and_memory_give_the_same_bits() {
    let (tool, object) = tori();
    let mut touches = 0;
    for units in [0, 3000, 300] {
        let mut state = QueryState::default();
        for (i, pose) in way().enumerate() {
            let mut again = state;
            let first = follow(&tool, &pose, &object, units, &mut state);
            let second = follow(&tool, &pose, &object, units, &mut again);
            assert_eq!(format!("{first:?}"), format!("{second:?}"), "pose {i}, {units} units");
            assert!(state == again, "pose {i}, {units} units: what is remembered");
            touches += u32::from(first.touching);
        }
    }
    assert!(touches > 200, "{touches}");
}

/// How deep `mesh` lies when turned so and its lowest corner is `h` below the top of the block; 0.02 m is the block's half height.
fn pressed(mesh: &TriMesh, turn: Vec3, h: f64) -> Pose {
    let rotation = UnitQuaternion::from_scaled_axis(turn);
    let low = mesh.vertices.iter().map(|v| (rotation * v).z).fold(f64::INFINITY, f64::min);
    turned(0.002, 0.001, 0.02 - low - h, turn)
}

fn cell_of(tool: &ToolShape) -> f64 {
    match tool {
        ToolShape::Spheres(tree) => tree.cell,
        _ => unreachable!("a tree"),
    }
}

fn block() -> ObjectShape {
    solid(&shapes::cuboid(Vec3::new(0.06, 0.06, 0.04)), 0.001)
}

/// A face and an edge, pressed from a micrometre on: where they no longer are apart, the volume is all that lies below the
/// surface, to a ten-thousandth of a cell under the face, and within the bounds.
#[test]
fn no_volume_is_lost_where_a_distance_becomes_a_volume() {
    let object = block();
    let side = 0.02;
    let mesh = shapes::cuboid(Vec3::repeat(side));
    let cube = tool(&mesh, 4000);
    for h in [-2e-6, 1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4] {
        let c = ask(&cube, &pressed(&mesh, Vec3::zeros(), h), &object);
        assert_eq!(c.touching, h > 0.0, "{h}");
        if h < 0.0 {
            assert!((c.distance.expect("apart") + h).abs() < 1e-9);
            continue;
        }
        let truth = side * side * h;
        check(&c, truth, 1e-3 + 1e-7 / h);
        let c = ask(&cube, &pressed(&mesh, Vec3::x() * std::f64::consts::FRAC_PI_4, h), &object);
        assert!(c.touching, "edge {h}");
        let (b, truth) = (c.volume_bounds.expect("bounds"), side * h * h);
        assert!(b.lower <= truth && truth <= b.upper, "{b:?} {truth}");
    }
}

/// The deepest place is a place of the tool's surface, not the middle of a cell: flat faces, edges and corners.
#[test]
fn the_depth_is_that_of_the_lowest_corner() {
    let object = block();
    let mesh = shapes::cuboid(Vec3::new(0.02, 0.016, 0.01));
    for spheres in [300, 4000] {
        let shape = tool(&mesh, spheres);
        let cell = cell_of(&shape);
        let mut worst = [0.0f64; 3];
        for (i, turn) in [Vec3::zeros(), Vec3::x() * 0.7, Vec3::new(0.6, 0.5, 0.1)].into_iter().enumerate() {
            for h in [2e-4, 7e-4, 2e-3, 6e-3] {
                let c = ask(&shape, &pressed(&mesh, turn, h), &object);
                worst[i] = worst[i].max((c.depth - h).abs() / cell);
                // Where it is said to be there it is that deep, and the way out is up; nothing is deeper.
                let p = c.points[0];
                assert!((0.02 - p.position.z - c.depth).abs() < 0.1 * cell, "{:?}", p.position);
                assert!((p.normal - Vec3::z()).norm() < 0.02 && p.depth == c.depth, "{p:?}");
                assert!(c.points.iter().all(|o| o.depth <= c.depth));
                // The same wherever the block is.
                let away = turned(0.3, -0.2, 0.1, Vec3::new(0.4, -1.1, 0.7));
                let pose = away * pressed(&mesh, turn, h);
                let moved = ask_with(&shape, &pose, &object, &away, &Twist::ZERO, 0);
                assert!((moved.depth - c.depth).abs() < 1e-6, "{} {}", moved.depth, c.depth);
                let there = away.inverse_transform_point(&moved.points[0].position.into());
                assert!((there.coords - p.position).norm() < 1e-3 * cell || turn == Vec3::zeros(), "{there}");
            }
        }
        println!(
            "{spheres} spheres: off by {worst:.3?} cells of {:.2} mm at a face, an edge, a corner",
            cell * 1e3
        );
        // From the middle of a large node three searches do not always end at the corner.
        assert!(worst[0] < 0.01 && worst[1] < 0.01 && worst[2] < 0.2, "{spheres} spheres: {worst:?} cells");
    }
}

/// A ball goes into the face of a larger tool until it is swallowed: the depth is the way of the face as far as the ball's middle, and
/// the ball's radius from there on, where the deepest place lies inside the tool and its surface has gone past.
#[test]
fn a_depth_inside_the_tool_is_not_lost_to_its_surface() {
    let (r, side) = (0.005, 0.03);
    let object = solid(&shapes::icosphere(r, 4), 2.5e-4);
    let mesh = shapes::cuboid(Vec3::repeat(side));
    let shape = tool(&mesh, 4000);
    let cell = cell_of(&shape);
    let mut worst = 0.0f64;
    for i in 1..60 {
        let h = 2.5e-4 * f64::from(i);
        let c = ask(&shape, &turned(0.003, -0.002, side / 2.0 + r - h, Vec3::zeros()), &object);
        assert!(c.touching, "{h}");
        worst = worst.max((c.depth - h.min(r)).abs());
    }
    println!("off by at most {:.3} cells of {:.2} mm", worst / cell, cell * 1e3);
    // As far as the middle of a cell or of a solid box of some cells lies from the ball's; the surface alone would give 0.
    assert!(worst < 2.0 * cell, "{worst}");
}
