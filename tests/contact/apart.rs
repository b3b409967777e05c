//! Tick by tick, what is known of the distance spares the search: it stays within its bounds, and no touch is missed.

use super::*;
use hapticd::contact::Bounds;

/// Ticks along a path with one memory, and each asked afresh: bounds and distances agree, and touches come in the same tick.
/// Returns how many ticks looked at one block only, of those apart. A search must not come sooner than the way allows.
fn walk(
    tool: &ToolShape,
    object: &ObjectShape,
    exact: &dyn Fn(&Pose) -> f64,
    path: &[Pose],
) -> (usize, usize, usize) {
    let (ToolShape::Shell(points), ObjectShape::Field(field)) = (tool, object) else {
        panic!("a shell and a field")
    };
    let (covering, identity) = (points.covering_radius, Pose::identity());
    let mut state = QueryState::default();
    let (mut spared, mut apart, mut far, mut allowed) = (0, 0, 0, 3.0);
    let mut last = path[0];
    let mut since = 0.0;
    for (i, pose) in path.iter().enumerate() {
        let turn = (last.rotation.inverse() * pose.rotation).angle();
        let way = (pose.translation.vector - last.translation.vector).norm() + turn * points.bound_radius;
        last = *pose;
        let q = question(tool, pose, object, &identity);
        let c = query(&q, Budget::UNLIMITED, &mut state);
        let fresh = query(&q, Budget::UNLIMITED, &mut QueryState::default());
        assert_eq!(
            (c.touching, c.complete, c.need),
            (fresh.touching, fresh.complete, fresh.need),
            "tick {i}"
        );
        assert_eq!(c.wrench, fresh.wrench, "tick {i}");
        let (b, f) = (c.depth_bounds.expect("bounds"), fresh.depth_bounds.expect("bounds"));
        let depth = exact(pose);
        assert!(b.lower - 1e-9 <= depth && depth <= b.upper + 1e-9, "tick {i}: {depth} outside {b:?}");
        if c.touching {
            continue;
        }
        apart += 1;
        let one = c.work <= 16;
        spared += usize::from(one);
        since = if one { since + way } else { 0.0 };
        let (told, best) = (c.distance.expect("near"), fresh.distance.expect("near"));
        // Within two of the field's errors it is searched for in every tick.
        let near = best < 2.0 * field.sample_error() + way;
        far += usize::from(!near);
        allowed += if near { 1.0 } else { (way / (0.25 * covering).min(0.02 * best)).min(1.0) };
        // By twice the way since more than what a search leaves.
        assert!(b.upper - b.lower <= f.upper - f.lower + 2.0 * since + 1e-7, "tick {i}: {b:?}, fresh {f:?}");
        assert!(
            best <= told + 1e-9 && told <= best + (2.0 * since).min(0.05 * best) + 1e-7,
            "tick {i}: {told}, {best}"
        );
    }
    let searches = (apart - spared) as f64;
    // The distance of the last search is that of now to a tenth.
    assert!(searches <= 1.1 * allowed, "{searches} searches, {allowed} expected at most");
    (spared, apart, far)
}

/// A ball comes down on a floor and a ball, slides, rolls and leaves, at up to 0.3 m/s.
#[test]
fn a_tool_that_comes_nearer_is_searched_for_only_as_often_as_it_must() {
    let r = 0.012;
    for (points, object, depth) in [
        (4000, floor(), (|p: &Vec3| -p.z) as fn(&Vec3) -> f64),
        (4000, round(), |p: &Vec3| 0.03 - p.norm()),
        (30_000, round(), |p: &Vec3| 0.03 - p.norm()),
    ] {
        let tool = shell(&shapes::icosphere(r, 6), points);
        let top = if depth(&Vec3::zeros()) > 0.0 { 0.03 } else { 0.0 };
        for speed in [0.02e-3, 0.1e-3, 0.3e-3] {
            // No farther than the ball's grid reaches: beyond, distances are bounds.
            let ticks = (0.0126 / speed) as u32;
            let path: Vec<Pose> = (0..ticks)
                .map(|k| {
                    let s = f64::from(k) * speed;
                    // Down through the surface, along and up again.
                    let gap = if s < 0.006 { 0.005 - s } else { -0.001 + 0.9 * (s - 0.006) };
                    turned(Vec3::new(0.2, 1.0, 0.1), 8.0 * s, 0.3 * s, -0.2 * s, top + r + gap)
                })
                .collect();
            let exact = |pose: &Pose| depth(&pose.translation.vector) + r;
            let (spared, apart, far) = walk(&tool, &object, &exact, &path);
            println!(
                "{points} points, {speed} m a tick: {spared} of {apart} ticks apart looked at one block"
            );
            // A slow hand: a fiftieth of the distance is more than a tick's way from a millimetre on.
            if speed < 0.05e-3 {
                assert!(spared as f64 >= 0.5 * far as f64, "{spared} of {far}");
            }
            assert!(spared < apart);
        }
    }
}

/// A long box about its end over a floor, its depth that of its lowest corner, with budgets by turns: bounds hold, what is asked for is what
/// a fresh query asks for, and no touch is missed.
#[test]
fn a_long_tool_that_turns_with_budgets_by_turns_keeps_its_bounds() {
    let sizes = Vec3::new(0.05, 0.008, 0.008);
    let mut mesh = shapes::cuboid(sizes);
    mesh.vertices.iter_mut().for_each(|v| v.x += 0.025);
    let corners: Vec<Point> = (0..8)
        .map(|i| {
            let side = |bit: u32| if i >> bit & 1 == 1 { 0.5 } else { -0.5 };
            Point::new(0.025 + side(0) * sizes.x, side(1) * sizes.y, side(2) * sizes.z)
        })
        .collect();
    let (tool, object, here) = (shell(&mesh, 6000), floor(), Pose::identity());
    let mut state = QueryState::default();
    let (mut touched, mut spared) = (0, 0);
    for k in 0..4000u32 {
        let s = f64::from(k) / 4000.0;
        // To and fro about the end, which sinks from 6 mm above until the far corners touch at each swing.
        let angle = 0.25 * (25.0 * s).sin();
        let pose = turned(Vec3::new(0.1, 1.0, 0.0), angle, -0.02, 0.0, 0.022 - 0.008 * s);
        let exact = corners.iter().map(|c| -(pose * c).z).fold(f64::NEG_INFINITY, f64::max);
        let units = [0, 16, 300, 0, 0, 2000, 8000, 0][k as usize % 8];
        let q = question(&tool, &pose, &object, &here);
        let budget = || Budget { units, deadline: None };
        let c = query(&q, budget(), &mut state);
        let fresh = query(&q, budget(), &mut QueryState::default());
        let b = c.depth_bounds.expect("bounds");
        assert!(b.lower - 1e-9 <= exact && exact <= b.upper + 1e-9, "tick {k}: {exact} outside {b:?}");
        assert_eq!((c.touching, c.need), (fresh.touching, fresh.need), "tick {k}, {units} units");
        spared += u32::from(!c.touching && c.work == 16 && units != 16);
        touched += u32::from(c.touching);
    }
    println!("{touched} ticks touching, {spared} that looked at one block");
    assert!(touched > 100 && spared > 300, "{touched} {spared}");
}

/// Apart, where the ball about the tool says little: the levels' bounds and those of the sum over what may touch. Where the sum answers alone,
/// with twice the points that may touch, and the search for the nearest point does not end within the budget, only that ball is known.
#[test]
fn more_budget_never_widens_the_bounds_of_what_is_apart() {
    let (tool, object) = (shell(&shapes::torus(0.02, 0.007, 96, 48), 12_000), floor());
    for k in 0..20 {
        let gap = 1e-4 * f64::from(k + 1);
        let pose = at(0.003, 0.001, 0.007 + gap);
        let (mut last, mut compared): (Option<Bounds>, u32) = (None, 0);
        for units in (0..40).map(|i| (16.0 * 1.21f64.powi(i)) as u32).chain([0]) {
            let budget = Budget { units, deadline: None };
            let c = ask_with(&tool, &pose, &Twist::ZERO, &object, &Pose::identity(), &MATERIAL, budget);
            let b = c.depth_bounds.expect("bounds");
            // The mesh's circles are polygons of 48 corners, of which one is the lowest.
            assert!(b.lower <= -gap + 1e-9 && -gap <= b.upper + 1e-9, "{gap}: {b:?}");
            let before = last.map_or(f64::INFINITY, |l| l.upper - l.lower);
            // An answer asks for 2.2 times the points that may touch, and 256.
            let alone = units == 0 || f64::from(units) >= (f64::from(c.need) - 256.0) / 1.1;
            if alone && !c.complete {
                continue;
            }
            compared += 1;
            assert!(b.upper - b.lower <= before + 1e-7, "{gap} m, {units} units: {b:?} after {last:?}");
            last = Some(b);
        }
        assert!(compared > 25, "{gap}: {compared}");
    }
}

/// Leaps, an object that moves under the tool, and an object whose field is another.
#[test]
fn what_was_known_does_not_outlive_a_leap_or_another_object() {
    let tool = shell(&shapes::icosphere(0.012, 5), 3000);
    let mut state = QueryState::default();
    let ask = |state: &mut QueryState, object: &ObjectShape, pose: &Pose, object_pose: &Pose| {
        query(&question(&tool, pose, object, object_pose), Budget::UNLIMITED, state)
    };
    let (floor, ball) = (floor(), round());
    let (high, low) = (at(0.0, 0.0, 0.016), at(0.0, 0.0, 0.0115));
    let here = Pose::identity();
    let first = ask(&mut state, &floor, &high, &here);
    let again = ask(&mut state, &floor, &high, &here);
    assert!(!first.touching && first.work > 16 && again.work == 16, "{} {}", first.work, again.work);
    assert_eq!(first.distance, again.distance);
    // The tool leaps in.
    assert!(ask(&mut state, &floor, &low, &here).touching);
    assert!(!ask(&mut state, &floor, &high, &here).touching);
    // The object rises under it.
    assert!(ask(&mut state, &floor, &high, &at(0.0, 0.0, 0.0045)).touching);
    assert!(!ask(&mut state, &floor, &high, &here).touching);
    // The object becomes another one.
    let other = ask(&mut state, &ball, &high, &here);
    assert!(other.touching, "{other:?}");
}
