//! Penetration and separation of a shell against a million points of its surface, in f64, and how wide the bounds are.

use super::brute::read;
use super::{MATERIAL, ask_with, at, floor, random, round, shell, turned};
use hapticd::contact::{Bounds, Budget, ObjectShape};
use hapticd::geometry::field::build::{FieldParams, Resolution, Silent, build};
use hapticd::geometry::{Point, Pose, TriMesh, Twist, Vec3, shapes};
use rayon::prelude::*;
use std::sync::Arc;

/// Points on all triangles, about `wanted` of them, and how far a place of the surface can be from the nearest, m.
fn surface(mesh: &TriMesh, wanted: f64) -> (Vec<Point>, f64) {
    let corners: Vec<_> = (0..mesh.triangles.len()).map(|t| mesh.corners(t)).collect();
    let area: f64 = corners.iter().map(|[a, b, c]| 0.5 * (b - a).cross(&(c - a)).norm()).sum();
    // A triangle cut n-fold along its sides has n^2 / 2 points; parts whose longest side is s have none farther than s / sqrt(3).
    let side = (area / wanted).sqrt();
    let (mut points, mut far) = (Vec::new(), 0.0f64);
    for [a, b, c] in corners {
        let longest = (b - a).norm().max((c - a).norm()).max((c - b).norm());
        let n = (longest / side).ceil().max(1.0) as u32;
        far = far.max(longest / f64::from(n) / 3f64.sqrt());
        for i in 0..=n {
            for j in 0..=n - i {
                points.push(
                    a + (b - a) * (f64::from(i) / f64::from(n)) + (c - a) * (f64::from(j) / f64::from(n)),
                );
            }
        }
    }
    (points, far)
}

/// Depth below the surface of a cuboid about the origin: its closed form.
fn cuboid_depth(half: &Vec3, p: &Point) -> f64 {
    let q = p.coords.abs() - half;
    -(q.map(|x| x.max(0.0)).norm() + q.max().min(0.0))
}

#[test]
fn the_depth_is_within_its_bounds_and_they_are_as_narrow_as_points_and_field_allow() {
    let mesh = shapes::torus(0.02, 0.007, 96, 48);
    let (dense, far) = surface(&mesh, 5e5);
    assert!(dense.len() >= 1_000_000, "{}", dense.len());
    let size = Vec3::new(0.05, 0.04, 0.03);
    let params = FieldParams { resolution: Resolution::Cell(0.0007), padding: 20 };
    let (field, _) = build(&shapes::cuboid(size), &params, &Silent).expect("a field");
    let field = Arc::new(field);
    let object = ObjectShape::Field(field.clone());
    let (mut inside, mut outside, mut tightest) = (0, 0, f64::INFINITY);
    for (points, poses) in [(800, 15), (12_000, 15)] {
        let tool = shell(&mesh, points);
        let hapticd::contact::ToolShape::Shell(sampled) = &tool else { unreachable!() };
        for k in 0..poses {
            let r = |n: u32| random(k + 100, n);
            let axis = Vec3::new(r(1) - 0.5, r(2) - 0.5, r(3) - 0.5);
            // From 4 mm deep to 4 mm away, above one of the faces, about an edge, or over a corner.
            let away = Vec3::from_fn(|a, _| (0.5 * size[a]) * 2.0 * (r(4 + a as u32) - 0.5));
            let turn = turned(axis, 3.0 * r(7), 0.0, 0.0, 0.0);
            let height = dense.iter().map(|p| (turn * p).z).fold(f64::INFINITY, f64::min);
            let gap = -0.004 + 0.008 * f64::from(k) / f64::from(poses - 1);
            let pose = at(away.x, away.y, 0.5 * size.z - height + gap) * turn;
            let most = |depth: &(dyn Fn(&Point) -> f64 + Sync)| {
                dense.par_iter().map(|p| depth(&(pose * p))).reduce(|| f64::NEG_INFINITY, f64::max)
            };
            let truths = [most(&|p| cuboid_depth(&(0.5 * size), p)), most(&|p| read(&field, p).0)];
            let c = ask_with(
                &tool,
                &pose,
                &Twist::ZERO,
                &object,
                &Pose::identity(),
                &MATERIAL,
                Budget::UNLIMITED,
            );
            let b = c.depth_bounds.expect("bounds");
            for truth in truths {
                // The surface's own largest depth is at least that of the dense points, and no more than `far` beyond it.
                assert!(b.lower <= truth + far && truth <= b.upper, "{points} {k}: {truth} outside {b:?}");
            }
            let (width, stated) = (b.upper - b.lower, 2.0 * (sampled.covering_radius + field.sample_error()));
            assert!(width <= stated, "{points} {k}: {width} of {stated}");
            // What is told as depth or distance is one of the field's values at a point of the shell.
            let told = if c.touching { c.depth } else { -c.distance.expect("near enough to know") };
            assert!(told <= truths[1] + 1e-6, "{points} {k}: {told} deeper than {}", truths[1]);
            assert!(told >= truths[1] - sampled.covering_radius - 1e-6, "{points} {k}: {told} {}", truths[1]);
            (inside, outside) = (inside + u32::from(truths[0] > 0.0), outside + u32::from(truths[0] < 0.0));
            tightest = tightest.min((b.upper - truths[0]).min(truths[0] - b.lower));
        }
    }
    println!(
        "{inside} inside, {outside} apart; {} points, none farther than {far:.1e} m; least room {tightest:.1e} m",
        dense.len()
    );
    assert!(inside >= 10 && outside >= 10, "{inside} {outside}");
}

/// A ball whose depth has a closed form, apart, touching and deep; budgets from one block of points to all.
#[test]
fn more_budget_never_widens_the_bounds_of_the_depth() {
    let r = 0.015;
    let tool = shell(&shapes::icosphere(r, 6), 12_000);
    let sagitta = 2e-4 * r;
    let mut narrowed = 0;
    for (object, depth) in [(floor(), (|p: &Vec3| -p.z) as fn(&Vec3) -> f64), (round(), |p| 0.03 - p.norm())]
    {
        for k in 0..40 {
            let t = f64::from(k) / 40.0;
            let centre = Vec3::new(0.02 + 0.01 * t, 0.01, 0.05 - 0.06 * t);
            let exact = depth(&centre) + r;
            let mut last: Option<Bounds> = None;
            let mut first: Option<f64> = None;
            for units in (0..40).map(|i| (16.0 * 1.21f64.powi(i)) as u32).chain([0]) {
                let pose = Pose::translation(centre.x, centre.y, centre.z);
                let budget = Budget { units, deadline: None };
                let c = ask_with(&tool, &pose, &Twist::ZERO, &object, &Pose::identity(), &MATERIAL, budget);
                let b = c.depth_bounds.expect("bounds");
                assert!(
                    b.lower <= exact && exact - sagitta <= b.upper,
                    "{k}, {units}: {exact} outside {b:?}"
                );
                let width = b.upper - b.lower;
                let before = last.map_or(f64::INFINITY, |l| l.upper - l.lower);
                assert!(width <= before + 1e-7, "{k}, {units} units: {b:?} after {last:?}");
                first = first.or(Some(width));
                last = Some(b);
            }
            narrowed += u32::from(last.map_or(0.0, |l| l.upper - l.lower) < 0.7 * first.unwrap_or(0.0));
        }
    }
    assert!(narrowed >= 20, "budgets that change nothing show nothing: {narrowed}");
}
