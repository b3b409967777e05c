//! Convex bodies anywhere in one another, against their exact overlap: volume, force, torque, bounds, swapped roles, budgets.

use super::convex::{Convex, edges_within, overlap};
use super::*;
use hapticd::geometry::Point;
use proptest::prelude::*;

/// A convex body of about this size.
fn body(kind: u8, [a, b, c]: [f64; 3]) -> TriMesh {
    let hull = |vertices: &[[f64; 3]], triangles: &[[u32; 3]]| TriMesh {
        vertices: vertices.iter().map(|v| Point::new(v[0] * a, v[1] * b, v[2] * c)).collect(),
        triangles: triangles.to_vec(),
    };
    match kind {
        0 => shapes::cuboid(Vec3::new(a, b, c)),
        1 => hull(
            &[
                [0.5, 0.0, 0.0],
                [-0.5, 0.0, 0.0],
                [0.0, 0.5, 0.0],
                [0.0, -0.5, 0.0],
                [0.0, 0.0, 0.5],
                [0.0, 0.0, -0.5],
            ],
            &[[0, 2, 4], [2, 1, 4], [1, 3, 4], [3, 0, 4], [2, 0, 5], [1, 2, 5], [3, 1, 5], [0, 3, 5]],
        ),
        2 => shapes::cylinder(0.5 * a, b, 5),
        _ => hull(
            &[[0.6, 0.6, 0.6], [-0.6, -0.6, 0.6], [-0.6, 0.6, -0.6], [0.6, -0.6, -0.6]],
            &[[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]],
        ),
    }
}

/// The exact volume lies within the bounds but for a billionth.
fn held(c: &Contact, volume: f64) -> Result<(), TestCaseError> {
    let b = c.volume_bounds.expect("bounds");
    prop_assert!(
        b.lower <= volume * (1.0 + 1e-9) && volume * (1.0 - 1e-9) <= b.upper,
        "{} outside {:?}",
        volume,
        b
    );
    let v = c.volume.expect("a volume");
    prop_assert!(b.lower <= v && v <= b.upper, "{} outside {:?}", v, b);
    Ok(())
}

/// How far a query may be off the exact overlap, volume and force: what one plane for a cell of the tool and the field's trilinear
/// value leave beside an edge of the object, `grain` being the larger of both cells.
fn grain_error(tool: &Convex, object: &Convex, grain: f64) -> f64 {
    // A triangle beside each metre of edge, as wide as a cell; ends of edges reach into the next cells.
    let long = edges_within(object, tool, 2.0 * grain) + 8.0 * grain;
    0.25 * long * grain * grain
}

fn grain(tool: &ToolShape, cell: f64) -> f64 {
    let ToolShape::Spheres(tree) = tool else { unreachable!() };
    tree.cell.max(cell)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        rng_seed: proptest::test_runner::RngSeed::Fixed(2009),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn bounds_hold_the_exact_overlap_at_every_budget(
        kinds in (0u8..4, 0u8..4),
        sizes in prop::array::uniform2(prop::array::uniform3(0.02f64..0.06)),
        spheres in (3f64..9.0).prop_map(|e| e.exp() as u32),
        cells in 12f64..60.0,
        shift in prop::array::uniform3(-0.6f64..0.6),
        turn in prop::array::uniform3(-2.0f64..2.0),
        units in 1u32..12_000,
    ) {
        let (a, b) = (body(kinds.0, sizes[0]), body(kinds.1, sizes[1]));
        let cell = sizes[1].into_iter().fold(0.0, f64::max) / cells;
        let (tool, object) = (tool(&a, spheres), solid(&b, cell));
        let at = Vec3::from_fn(|i, _| shift[i] * 0.5 * (sizes[0][i] + sizes[1][i]));
        let pose = turned(at.x, at.y, at.z, Vec3::from(turn));
        let (moved, still) = (Convex::of(&a, &pose), Convex::of(&b, &Pose::identity()));
        let t = overlap(&moved, &still, &at);
        let mut last: Option<Bounds> = None;
        for units in [units, 2 * units, 4 * units, 0] {
            let c = ask_with(&tool, &pose, &object, &Pose::identity(), &Twist::ZERO, units);
            held(&c, t.volume)?;
            let b = c.volume_bounds.expect("bounds");
            // The order of summing in single precision, as a fraction of the upper bound.
            let width = last.map_or(f64::INFINITY, |l: Bounds| l.upper - l.lower) + 8e-6 * b.upper;
            prop_assert!(b.upper - b.lower <= width, "{} units: {:?} after {:?}", units, b, last);
            last = Some(b);
            if units > 0 {
                continue;
            }
            prop_assert!(c.complete);
            let error = grain_error(&moved, &still, grain(&tool, cell));
            let off = (c.volume.expect("a volume") - t.volume).abs();
            let (force, torque) = (c.wrench.force / K - t.push, c.wrench.torque / K - t.moment);
            prop_assert!(off <= error, "{} off by {}, allowed {}", t.volume, off, error);
            // All below one face: one direction, and the moment of the volume about it. (Deep inside, where places of the overlap are nearest
            // to different faces, one gradient stands for a node, and neither is held to this.)
            if t.push.norm() > 0.999 * t.volume {
                let error = error + 0.01 * t.volume;
                prop_assert!(force.norm() <= error, "{:?} off by {:?}, allowed {}", t.push, force, error);
                let arm = a.vertices.iter().map(|v| v.coords.norm()).fold(0.0, f64::max);
                prop_assert!(torque.norm() <= arm * error, "{:?} off by {:?}, allowed {}", t.moment, torque, arm * error);
            }
        }
    }
}

/// Two bodies, each as the tool once: the same volume, and where the overlap is below one face the same force on each, turned round.
#[test]
fn swapped_bodies_overlap_and_push_alike() {
    let sizes = [[0.03, 0.025, 0.02], [0.035, 0.02, 0.03]];
    let mut pushed = 0;
    for (kinds, shift, turn) in [
        ((0, 0), [0.1, 0.05, 0.985], [0.0, 0.0, 0.4]),
        ((0, 0), [0.985, 0.1, 0.1], [0.5, 0.0, 0.0]),
        ((0, 2), [0.1, 0.6, 0.1], [0.9, 0.0, 0.3]),
        ((1, 0), [0.0, 0.1, 0.6], [0.3, 0.4, 0.0]),
        ((2, 1), [0.3, 0.4, 0.0], [0.0, 0.5, 1.0]),
        ((3, 2), [0.3, 0.3, 0.3], [1.4, 0.2, 0.6]),
    ] {
        let (a, b) = (body(kinds.0, sizes[0]), body(kinds.1, sizes[1]));
        let at = Vec3::from_fn(|i, _| shift[i] * 0.5 * (sizes[0][i] + sizes[1][i]));
        let pose = turned(at.x, at.y, at.z, Vec3::from(turn));
        let cell = 0.0006;
        let both = [(&a, &b, pose), (&b, &a, pose.inverse())].map(|(of, other, pose)| {
            let (tool, object) = (tool(of, 8000), solid(other, cell));
            let (moved, still) = (Convex::of(of, &pose), Convex::of(other, &Pose::identity()));
            let t = overlap(&moved, &still, &pose.translation.vector);
            let c = ask(&tool, &pose, &object);
            check(&c, t.volume, 0.002 + grain_error(&moved, &still, grain(&tool, cell)) / t.volume);
            // But for strips along its rim the overlap is below one face.
            let one_face = t.push.norm() > 0.97 * t.volume;
            if one_face {
                let off = (c.wrench.force / K - t.push).norm();
                assert!(
                    off < 0.015 * t.push.norm(),
                    "{kinds:?}: {} instead of {}",
                    c.wrench.force / K,
                    t.push
                );
                let (torque, arm) = (c.wrench.torque / K, 0.01);
                assert!(
                    (torque - t.moment).norm() < 0.02 * arm * t.push.norm(),
                    "{kinds:?}: {torque} {}",
                    t.moment
                );
            }
            (c.volume.expect("a volume"), c.wrench.force, one_face)
        });
        let [(v, f, one), (w, g, other)] = both;
        println!(
            "{kinds:?}: volumes {v:.3e} {w:.3e}, forces {f:?} {:?}, one face {one} {other}",
            pose.rotation * g
        );
        assert!((v / w - 1.0).abs() < 0.01, "{kinds:?}: {v} {w}");
        if one && other {
            let back = pose.rotation * g;
            assert!((f + back).norm() < 0.03 * f.norm(), "{kinds:?}: {f} and {back}");
            pushed += 1;
        }
    }
    assert!(pushed >= 2, "{pushed}");
}

/// Force on a ball of radius r, d from the middle of one of radius R, over the pressure gradient: in shells about the object's middle,
/// of radius s, the tool holds what is nearer to its direction than the angle of cosine (s^2 + d^2 - r^2) / (2 s d).
fn ball_push(r: f64, object: f64, d: f64) -> f64 {
    let a = d * d - r * r;
    let sum =
        |s: f64| s.powi(3) / 3.0 - (s.powi(5) / 5.0 + 2.0 * a * s.powi(3) / 3.0 + a * a * s) / (4.0 * d * d);
    std::f64::consts::PI * (sum(object) - sum(d - r))
}

#[test]
fn swapped_balls_are_pushed_by_their_closed_forms() {
    let radii = [0.02, 0.03];
    let meshes = radii.map(|r| shapes::icosphere(r, 5));
    let tools = [tool(&meshes[0], 8000), tool(&meshes[1], 8000)];
    let objects = [solid(&meshes[0], 0.0008), solid(&meshes[1], 0.0008)];
    let axis = Vec3::new(0.6, -0.48, 0.64);
    for d in [0.038, 0.041, 0.044, 0.048] {
        let p = axis * d;
        // Equal balls beside unequal ones: there the force is the same whichever is the tool.
        for (i, j) in [(0, 1), (1, 0), (1, 1)] {
            let d = if i == j { d + 0.01 } else { d };
            let p = if i == j { axis * d } else { p };
            let exact = ball_push(radii[i], radii[j], d);
            let f = ask(&tools[i], &at(p.x, p.y, p.z), &objects[j]).wrench.force / K;
            // The meshes are inscribed: 0.2 % of the volume, more of a small overlap.
            let error = (f - axis * exact).norm() / exact;
            println!("{i} in {j}, {d}: off by {error:.4}");
            let depth = radii[i] + radii[j] - d;
            assert!(error < 0.005 + 8e-5 / depth, "{i} in {j}, {d}: {f:?} instead of {exact}");
        }
    }
}

/// Budgets close to one another against the exact overlap, and what they cost.
#[test]
fn more_budget_never_widens_the_bounds_about_the_exact_overlap() {
    let sizes = [[0.04, 0.03, 0.035], [0.05, 0.04, 0.045]];
    let mut most = 0.0f64;
    for (kinds, shift, turn) in [
        ((0, 0), [0.3, 0.2, 0.3], [0.3, -0.4, 0.6]),
        ((2, 0), [0.1, 0.1, 0.6], [0.9, 0.1, 0.2]),
        ((1, 3), [0.2, 0.2, 0.1], [0.1, 0.8, 0.0]),
        ((3, 1), [0.0, 0.3, 0.2], [0.4, 0.4, 0.4]),
    ] {
        let (a, b) = (body(kinds.0, sizes[0]), body(kinds.1, sizes[1]));
        let (tool, object) = (tool(&a, 20_000), solid(&b, 0.0007));
        let at = Vec3::from_fn(|i, _| shift[i] * 0.5 * (sizes[0][i] + sizes[1][i]));
        let pose = turned(at.x, at.y, at.z, Vec3::from(turn));
        let t = overlap(&Convex::of(&a, &pose), &Convex::of(&b, &Pose::identity()), &at);
        let mut last = f64::INFINITY;
        for units in (0..60).map(|i| (8.0 * 1.17f64.powi(i)) as u32).chain([0]) {
            let c = ask_with(&tool, &pose, &object, &Pose::identity(), &Twist::ZERO, units);
            held(&c, t.volume).expect("held");
            let b = c.volume_bounds.expect("bounds");
            let width = b.upper - b.lower;
            assert!(
                width <= last + 8e-6 * b.upper,
                "{kinds:?}, {units} units: {b:?} after a width of {last}"
            );
            last = width;
            if units >= 1000 {
                most = most.max(f64::from(c.work) / f64::from(units));
            }
        }
        println!("{kinds:?}: {last:.2e} wide of {:.2e}; most work {most:.3} of the units", t.volume);
        assert!(last < 0.15 * t.volume, "{kinds:?}: {last} of {}", t.volume);
    }
}

/// A cube across the middle of a thick plate, level or tilted by t: of it the part above is pushed up and that below down. Off the middle by u
/// that leaves 2 u S^2 / cos t, as long as the middle crosses its four upright sides only.
#[test]
fn a_cube_across_the_middle_of_a_plate_is_pushed_by_what_is_more_on_one_side() {
    let side = 0.012;
    let (cube, plate) = (body(0, [side; 3]), body(0, [0.06, 0.06, 0.03]));
    for (spheres, cell, error) in [(1000, 0.0012, 0.04), (8000, 0.0006, 0.02), (64_000, 0.0003, 0.01)] {
        let (tool, object) = (tool(&cube, spheres), solid(&plate, cell));
        let push =
            |u: f64, turn: Vec3| ask(&tool, &turned(0.0013, -0.0007, u, turn), &object).wrench.force / K;
        let cos = |turn: Vec3| UnitQuaternion::from_scaled_axis(turn).to_rotation_matrix()[(2, 2)];
        let tilt = Vec3::new(0.2, 0.13, 0.0);
        let mut worst = 0.0f64;
        for k in -65..=65 {
            let u = 4e-5 * f64::from(k);
            for turn in [Vec3::zeros(), Vec3::new(0.0, 0.0, 0.3), Vec3::new(0.2, 0.0, 0.0), tilt] {
                let off = push(u, turn) - Vec3::new(0.0, 0.0, 2.0 * u * side * side / cos(turn));
                worst = worst.max(off.norm() / side.powi(3));
            }
        }
        // A micrometre at a time, through cells of both. (Level or tilted about one side, whole rows of leaves that
        // are too small to be looked at pass the middle at once.)
        let steps: Vec<f64> = (0..1200).map(|k| push(1e-3 + 1e-6 * f64::from(k), tilt).z).collect();
        let most = steps.windows(2).map(|w| (w[1] - w[0]).abs()).fold(0.0, f64::max) / side.powi(3);
        println!("{spheres} spheres: off by {worst:.4} of the volume; largest step {most:.2e} of it");
        assert!(worst < error, "{spheres}: {worst}");
        // A thousandth of the whole push.
        assert!(most < 1e-3 + 2e-6 / side, "{spheres}: {most}");
    }
}

/// Corner in corner, where places of the overlap are nearest to different faces: the pressure's force and torque, ever better with ever
/// more spheres.
#[test]
fn the_force_of_boxes_corner_in_corner_is_that_of_the_exact_pressure() {
    let sizes = [[0.03, 0.025, 0.02], [0.035, 0.02, 0.03]];
    let meshes = sizes.map(|s| body(0, s));
    for (shift, turn) in [
        ([0.5, 0.5, 0.3], [0.0; 3]),
        ([0.45, 0.3, 0.2], [0.2, 0.1, 0.7]),
        ([0.41, 0.62, 0.37], [0.0; 3]),
        ([0.3, 0.25, 0.55], [-0.4, 0.3, 0.2]),
        ([0.55, 0.1, 0.35], [0.1, -0.5, 1.1]),
    ] {
        for (spheres, cell, error) in [(1000, 0.0012, 0.06), (8000, 0.0006, 0.03), (64_000, 0.0003, 0.015)] {
            let at = Vec3::from_fn(|i, _| shift[i] * 0.5 * (sizes[0][i] + sizes[1][i]));
            let pose = turned(at.x, at.y, at.z, Vec3::from(turn));
            for (of, other, pose) in [(0, 1, pose), (1, 0, pose.inverse())] {
                let (tool, object) = (tool(&meshes[of], spheres), solid(&meshes[other], cell));
                let (moved, still) =
                    (Convex::of(&meshes[of], &pose), Convex::of(&meshes[other], &Pose::identity()));
                let t = overlap(&moved, &still, &pose.translation.vector);
                let c = ask(&tool, &pose, &object);
                let (force, torque) = (c.wrench.force / K, c.wrench.torque / K);
                let off = (force - t.push).norm() / t.push.norm();
                let turned = (torque - t.moment).norm() / (0.01 * t.push.norm());
                println!(
                    "{shift:?}, {of} in {other}, {spheres} spheres: force off by {off:.4}, torque by {turned:.4} of 10 mm"
                );
                assert!(
                    off < error && turned < 2.0 * error,
                    "{shift:?} {spheres}: {force} instead of {}",
                    t.push
                );
            }
        }
    }
}
