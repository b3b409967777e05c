//! Inner Sphere Trees against closed forms: boxes, balls, walls, pins; motions, swaps, budgets.

#[path = "ist/convex.rs"]
mod convex;
#[path = "ist/exact.rs"]
mod exact;
#[path = "ist/followed.rs"]
mod followed;
#[path = "ist/models.rs"]
mod models;

use hapticd::contact::ist::lens::lens;
use hapticd::contact::ist::{IstParams, Solid, SphereTree, cell_for};
use hapticd::contact::{
    self, Bounds, Budget, Contact, Friction, Material, ObjectShape, Query, QueryState, SimdLevel, Texture,
    ToolShape, force_simd,
};
use hapticd::geometry::field::build::{FieldParams, Resolution, Silent, build};
use hapticd::geometry::{Pose, TriMesh, Twist, Vec3, shapes};
use nalgebra::{Matrix6, Translation3, UnitQuaternion, Vector6};
use std::sync::Arc;

const MATERIAL: Material = Material {
    stiffness: 1000.0,
    reference_area: 1e-4,
    damping: 0.0,
    friction: Friction::NONE,
    texture: Texture::NONE,
};
/// Pressure per depth, N/m^3.
const K: f64 = 1e7;

fn tool(mesh: &TriMesh, spheres: u32) -> ToolShape {
    ToolShape::Spheres(Arc::new(
        SphereTree::build(mesh, &IstParams::spheres(spheres), &Silent).expect("builds"),
    ))
}

fn solid(mesh: &TriMesh, cell: f64) -> ObjectShape {
    let params = FieldParams { resolution: Resolution::Cell(cell), padding: 8 };
    let (field, _) = build(mesh, &params, &Silent).expect("builds");
    ObjectShape::Solid(Arc::new(Solid::new(mesh, Arc::new(field), &|| false).expect("never stopped")))
}

fn ask_with(
    tool: &ToolShape,
    pose: &Pose,
    object: &ObjectShape,
    at: &Pose,
    twist: &Twist,
    units: u32,
) -> Contact {
    ask_after(&mut QueryState::default(), tool, pose, object, at, twist, units)
}

/// With what queries before have left behind.
fn ask_after(
    state: &mut QueryState,
    tool: &ToolShape,
    pose: &Pose,
    object: &ObjectShape,
    at: &Pose,
    twist: &Twist,
    units: u32,
) -> Contact {
    let moving = *twist != Twist::ZERO;
    let (damping, mu) = if moving { (5.0, 0.5) } else { (0.0, 0.0) };
    let material = Material { damping, friction: Friction::of(mu), ..MATERIAL };
    let q = Query {
        tool,
        tool_pose: pose,
        tool_twist: twist,
        object,
        object_pose: at,
        object_twist: &Twist::ZERO,
        material: &material,
    };
    contact::query(&q, Budget { units, deadline: None }, state)
}

fn ask(tool: &ToolShape, pose: &Pose, object: &ObjectShape) -> Contact {
    ask_with(tool, pose, object, &Pose::identity(), &Twist::ZERO, 0)
}

fn at(x: f64, y: f64, z: f64) -> Pose {
    Pose::translation(x, y, z)
}

fn turned(x: f64, y: f64, z: f64, axis: Vec3) -> Pose {
    Pose::from_parts(Translation3::new(x, y, z), UnitQuaternion::from_scaled_axis(axis))
}

/// The volume within `error` of the truth (as a fraction of it), and the truth within the bounds.
fn check(c: &Contact, truth: f64, error: f64) {
    let v = c.volume.expect("a volume");
    assert!((v - truth).abs() <= error * truth, "{v} instead of {truth}");
    let b = c.volume_bounds.expect("bounds");
    assert!(b.lower <= truth * (1.0 + 1e-9) && truth <= b.upper * (1.0 + 1e-9), "{truth} outside {b:?}");
    assert!(b.lower <= v && v <= b.upper, "{v} outside {b:?}");
}

#[test]
fn boxes_overlap_by_the_product_of_their_intervals() {
    let (a, b) = (Vec3::new(0.04, 0.03, 0.02), Vec3::new(0.05, 0.05, 0.05));
    let (tool, object) = (tool(&shapes::cuboid(a), 4000), solid(&shapes::cuboid(b), 0.001));
    for d in
        [Vec3::new(0.03, 0.01, 0.02), Vec3::new(0.0, 0.0, 0.034), Vec3::new(0.0449, 0.03, 0.0), Vec3::zeros()]
    {
        let sides = Vec3::from_fn(|i, _| {
            let (low, high) = ((d[i] - a[i] / 2.0).max(-b[i] / 2.0), (d[i] + a[i] / 2.0).min(b[i] / 2.0));
            high - low
        });
        let truth = sides.product();
        check(&ask(&tool, &at(d.x, d.y, d.z), &object), truth, 0.02);
    }
}

#[test]
fn balls_overlap_in_a_lens() {
    let (r1, r2) = (0.03, 0.02);
    let (tool, object) = (tool(&shapes::icosphere(r2, 5), 5000), solid(&shapes::icosphere(r1, 5), 0.001));
    // The meshes are inscribed: their volumes are 0.2 % short at this subdivision, the overlap's a little more.
    for d in [0.012, 0.025, 0.035, 0.045] {
        let truth = lens(r1, r2, d).volume;
        for axis in [Vec3::x(), Vec3::new(0.6, -0.48, 0.64)] {
            let p = axis * d;
            let c = ask(&tool, &at(p.x, p.y, p.z), &object);
            let v = c.volume.expect("a volume");
            assert!((v / truth - 1.0).abs() < 0.012, "{d}: {v} {truth}");
            // Pushed out along the line of the centres; the deepest one holds the centre of the other, where depth has a ridge.
            assert!(d < 0.02 || c.wrench.force.angle(&p) < 0.02, "{:?} {p:?}", c.wrench);
        }
    }
}

#[test]
fn a_flat_face_pressed_h_deep_is_pushed_back_with_k_a_h() {
    let (tool, object) = (
        tool(&shapes::cuboid(Vec3::new(0.02, 0.02, 0.02)), 3000),
        solid(&shapes::cuboid(Vec3::repeat(0.06)), 0.001),
    );
    for h in [2e-5, 1e-4, 5e-4, 1.7e-3, 4e-3] {
        for pose in [at(0.003, -0.004, 0.04 - h), turned(0.001, 0.0, 0.04 - h, Vec3::new(0.0, 0.0, 0.5))] {
            let c = ask(&tool, &pose, &object);
            // Cells are 0.6 mm; edges and stored positions cost a few micrometres.
            let error = 0.02 + 2e-6 / h;
            check(&c, 4e-4 * h, error);
            let f = c.wrench.force;
            assert!((f.z / (K * 4e-4 * h) - 1.0).abs() < error + 0.01, "{h}: {f:?}");
            assert!(f.xy().norm() < 0.01 * f.z.abs(), "{f:?}");
            assert!((c.stiffness[(2, 2)] / (K * 4e-4) - 1.0).abs() < 0.05, "{}", c.stiffness[(2, 2)]);
        }
    }
}

#[test]
fn an_eccentric_pin_follows_the_two_circles() {
    // A pin of radius r in a hole of radius R whose axis lies e away: the pin's length times what of its circle lies
    // outside the hole's.
    let (r, hole, depth) = (0.0100, 0.0102, 0.02);
    let ring = {
        let (outer, n) = (0.02, 256u32);
        let mut mesh = TriMesh::default();
        for z in [-0.02, 0.02] {
            for radius in [hole, outer] {
                for i in 0..n {
                    let a = std::f64::consts::TAU * f64::from(i) / f64::from(n);
                    mesh.vertices.push(nalgebra::Point3::new(radius * a.cos(), radius * a.sin(), z));
                }
            }
        }
        for i in 0..n {
            let j = (i + 1) % n;
            let mut quad = |a: u32, b: u32, c: u32, d: u32| {
                mesh.triangles.push([a, b, c]);
                mesh.triangles.push([a, c, d]);
            };
            quad(n + i, n + j, 3 * n + j, 3 * n + i);
            quad(j, i, 2 * n + i, 2 * n + j);
            quad(i, j, n + j, n + i);
            quad(2 * n + j, 2 * n + i, 3 * n + i, 3 * n + j);
        }
        mesh
    };
    let (tool, object) = (tool(&shapes::cylinder(r, depth, 256), 20_000), solid(&ring, 2.5e-4));
    for e in [1.0e-3, 2.0e-3] {
        // Area of the intersection of two circles whose centres are e apart.
        let x = (e * e + r * r - hole * hole) / (2.0 * e);
        let segment = |r: f64, x: f64| r * r * (x / r).acos() - x * (r * r - x * x).max(0.0).sqrt();
        let both = segment(r, x) + segment(hole, e - x);
        let truth = depth * (std::f64::consts::PI * r * r - both);
        let c = ask(&tool, &at(e, 0.0, 0.0), &object);
        let v = c.volume.expect("a volume");
        assert!((v / truth - 1.0).abs() < 0.03, "{e}: {v} {truth}");
        let f = c.wrench.force;
        assert!(f.x < 0.0 && f.yz().norm() < 0.01 * f.norm(), "towards the axis: {f:?}");
        assert!(c.wrench.torque.z.abs() < 1e-3 * f.norm() * r, "{:?}", c.wrench.torque);
    }
    let apart = ask(&tool, &at(1e-4, 0.0, 0.0), &object);
    assert!(!apart.touching);
    let d = apart.distance.expect("a distance");
    // Never too small but for the polygons' sagitta. Along a crescent as flat as this one the estimates from the field,
    // good to a tenth of a cell, do not tell where it is narrowest.
    let sagitta = 2.0 * hole * (1.0 - (std::f64::consts::PI / 256.0).cos());
    let truth = hole - r - 1e-4;
    assert!(d > truth - sagitta && d < truth + 0.1 * 2.5e-4, "{d}");
}

#[test]
fn a_common_motion_changes_nothing_but_the_axes() {
    let (tool, object) =
        (tool(&shapes::torus(0.02, 0.008, 48, 24), 3000), solid(&shapes::torus(0.02, 0.008, 48, 24), 0.001));
    let pose = turned(0.012, 0.003, 0.002, Vec3::new(1.2, 0.3, -0.2));
    let here = ask(&tool, &pose, &object);
    assert!(here.touching);
    let motion = turned(0.4, -1.3, 0.8, Vec3::new(-0.7, 2.0, 0.4));
    let there = ask_with(&tool, &(motion * pose), &object, &motion, &Twist::ZERO, 0);
    let (v, w) = (here.volume.expect("a volume"), there.volume.expect("a volume"));
    assert!((v / w - 1.0).abs() < 1e-4, "{v} {w}");
    let f = motion.rotation * here.wrench.force;
    assert!((f - there.wrench.force).norm() < 1e-3 * f.norm());
    let t = motion.rotation * here.wrench.torque;
    assert!((t - there.wrench.torque).norm() < 1e-3 * (t.norm() + 0.02 * f.norm()));
}

#[test]
fn swapped_bodies_overlap_by_the_same_volume() {
    let (a, b) = (shapes::torus(0.02, 0.008, 64, 32), shapes::cuboid(Vec3::new(0.03, 0.02, 0.05)));
    let cell = 0.0008;
    let pose = turned(0.02, 0.004, 0.01, Vec3::new(0.4, 1.0, 0.1));
    let one = ask(&tool(&a, 8000), &pose, &solid(&b, cell));
    let other = ask(&tool(&b, 8000), &pose.inverse(), &solid(&a, cell));
    let (v, w) = (one.volume.expect("a volume"), other.volume.expect("a volume"));
    assert!((v / w - 1.0).abs() < 0.005, "{v} {w}");
    let (p, q) = (one.volume_bounds.expect("bounds"), other.volume_bounds.expect("bounds"));
    assert!(p.lower <= q.upper && q.lower <= p.upper, "{p:?} {q:?}");
    // Force on the one is minus the force on the other, up to which of the two is the soft one.
    let back = pose.rotation * other.wrench.force;
    assert!((one.wrench.force).angle(&-back) < 0.35, "{:?} {back:?}", one.wrench.force);
}

#[test]
fn convex_bodies_overlap_more_the_nearer_they_come() {
    let (tool, object) =
        (tool(&shapes::icosphere(0.01, 4), 3000), solid(&shapes::cuboid(Vec3::repeat(0.03)), 0.0007));
    let mut last = Contact::none(None);
    for i in 0..120 {
        let c = ask(
            &tool,
            &turned(0.001, 0.002, 0.0265 - 1e-4 * f64::from(i), Vec3::new(0.3, 0.1, 0.0)),
            &object,
        );
        let (v, before) = (c.volume.unwrap_or(0.0), last.volume.unwrap_or(0.0));
        assert!(v >= before * (1.0 - 1e-6), "step {i}: {v} after {before}");
        if let (Some(d), Some(e)) = (c.distance, last.distance) {
            assert!(d <= e + 1e-12, "step {i}");
        }
        last = c;
    }
    assert!(last.touching);
}

#[test]
fn distances_are_those_of_the_triangles() {
    let (tool, object) =
        (tool(&shapes::icosphere(0.01, 3), 1000), solid(&shapes::cuboid(Vec3::repeat(0.02)), 0.001));
    let ball = shapes::icosphere(0.01, 3);
    for p in [Vec3::new(0.022, 0.003, 0.001), Vec3::new(0.019, 0.018, 0.002), Vec3::new(0.017, 0.017, 0.018)]
    {
        let c = ask(&tool, &at(p.x, p.y, p.z), &object);
        assert!(!c.touching);
        // The ball is convex and faces the box with corners, edges or faces: a fine scan over its triangles.
        let clamp = |q: &nalgebra::Point3<f64>| q.coords.map(|x| x.clamp(-0.01, 0.01));
        let mut least = f64::INFINITY;
        for t in 0..ball.triangles.len() {
            let [a, b, c] = ball.corners(t);
            for i in 0..=20 {
                for j in 0..=20 - i {
                    let q = a + (b - a) * (f64::from(i) / 20.0) + (c - a) * (f64::from(j) / 20.0) + p;
                    least = least.min((q.coords - clamp(&q)).norm());
                }
            }
        }
        let d = c.distance.expect("a distance");
        assert!(d <= least + 1e-12 && d > least - 5e-6, "{d} {least}");
        let b = c.depth_bounds.expect("bounds");
        assert!(b.lower <= -d && -d <= b.upper, "{b:?} {d}");
    }
}

#[test]
fn whether_bodies_touch_is_decided_by_their_surfaces() {
    // Cells of half a millimetre and two; gaps and overlaps of micrometres, at a corner, an edge and a face.
    let (side, mesh) = (0.02, shapes::cuboid(Vec3::repeat(0.02)));
    let (tool, object) = (tool(&mesh, 2000), solid(&shapes::cuboid(Vec3::repeat(0.06)), 0.002));
    for axis in [Vec3::new(0.6, 0.4, 0.1), Vec3::new(0.5, 0.0, 0.0), Vec3::zeros()] {
        let rotation = UnitQuaternion::from_scaled_axis(axis);
        let low = mesh.vertices.iter().map(|v| (rotation * v).z).fold(f64::INFINITY, f64::min);
        for gap in [2e-4, 2e-5, 2e-6, -2e-6, -2e-5, -2e-4] {
            let c = ask(&tool, &turned(0.003, -0.004, 0.03 - low + gap, axis), &object);
            assert_eq!(c.touching, gap < 0.0, "{gap} m apart, turned by {axis:?}: {c:?}");
            if gap > 0.0 {
                let d = c.distance.expect("a distance");
                assert!((d - gap).abs() < 1e-9, "{d} instead of {gap}");
                assert_eq!(c.volume, Some(0.0));
                // What the field shows of it is no more than its own error under the whole body.
                assert!(c.wrench.force.norm() < K * side * side * 5e-5, "{:?}", c.wrench);
            }
        }
    }
}

#[test]
fn faces_of_many_triangles_touch_like_faces_of_two() {
    let cuboid = |side: f64, times| {
        (0..times).fold(shapes::cuboid(Vec3::repeat(side)), |mesh, _| shapes::quartered(&mesh))
    };
    // The finest triangles of the tool are as large as a cell of the object, and lie anyhow upon its own.
    let pair = |times| (tool(&cuboid(0.02, times), 2000), solid(&cuboid(0.06, times), 0.002));
    let (coarse, fine) = (pair(0), pair(4));
    for gap in [2e-4, 1e-5, -2e-6, -2e-5, -1e-4, -2e-4] {
        for i in 0..30 {
            let (x, y) = (0.012 * (f64::from(i) * 1.7).sin(), 0.012 * (f64::from(i) * 2.3).cos());
            let turn = Vec3::z() * (0.3 * f64::from(i % 7));
            let pose = turned(x, y, 0.04 + gap, turn);
            let [one, many] = [&coarse, &fine].map(|(tool, object)| ask(tool, &pose, object));
            assert_eq!(many.touching, gap < 0.0, "{gap} m apart at {x}, {y}: {many:?}");
            let off = (many.wrench.force - one.wrench.force).norm();
            assert!(off <= 0.01 * one.wrench.force.norm(), "{gap} at {x}, {y}: {one:?}, {many:?}");
        }
    }
}

#[test]
fn a_deadline_ends_the_search_for_a_distance_and_the_walk_alike() {
    struct Over;
    impl contact::Deadline for Over {
        fn passed(&self) -> bool {
            true
        }
    }
    // Two plates face to face: the search has to look at all of them.
    let (tool, object) = (
        tool(&shapes::cuboid(Vec3::new(0.04, 0.04, 0.003)), 8000),
        solid(&shapes::cuboid(Vec3::new(0.04, 0.04, 0.003)), 0.0005),
    );
    for z in [0.0035, 0.0028] {
        let pose = at(0.0, 0.0, z);
        let q = Query {
            tool: &tool,
            tool_pose: &pose,
            tool_twist: &Twist::ZERO,
            object: &object,
            object_pose: &Pose::identity(),
            object_twist: &Twist::ZERO,
            material: &MATERIAL,
        };
        let run = |deadline| contact::query(&q, Budget { units: 0, deadline }, &mut QueryState::default());
        let (free, cut) = (run(None), run(Some(&Over)));
        assert!(free.complete && !free.deadline_hit);
        assert!(cut.deadline_hit && !cut.complete && cut.work < free.work, "{} of {}", cut.work, free.work);
        let truth = 0.04 * 0.04 * (0.003 - z).max(0.0);
        let b = cut.volume_bounds.expect("bounds");
        assert!(b.lower <= truth && truth <= b.upper, "{truth} outside {b:?}");
        if let Some(b) = cut.depth_bounds {
            assert!(b.lower <= 0.003 - z && 0.003 - z <= b.upper, "{b:?}");
        }
    }
}

#[test]
fn more_budget_never_widens_the_bounds_and_they_always_hold() {
    let (a, b) = (shapes::torus(0.02, 0.008, 48, 24), shapes::torus(0.02, 0.008, 48, 24));
    let (tool, object) = (tool(&a, 20_000), solid(&b, 0.0005));
    for (pose, rounding) in [
        (turned(0.012, 0.003, 0.002, Vec3::new(1.2, 0.3, -0.2)), 0.0),
        // Where hardly anything changes, the order in which the same volumes are summed (in f32) does.
        (turned(0.0, 0.0, 0.015, Vec3::new(0.1, -0.2, 0.4)), 8e-6),
        (turned(0.0, 0.02, 0.0, Vec3::new(1.5, 0.0, 0.0)), 8e-6),
        (turned(0.03, 0.0, 0.004, Vec3::zeros()), 8e-6),
        (turned(0.001, 0.002, -0.001, Vec3::new(0.2, 0.0, 0.3)), 8e-6),
    ] {
        let full = ask(&tool, &pose, &object);
        let truth = full.volume.expect("a volume");
        let mut last = Bounds { lower: 0.0, upper: f64::INFINITY };
        for units in (0..36).map(|i| (16.0 * 1.35f64.powi(i)) as u32).chain([0]) {
            let c = ask_with(&tool, &pose, &object, &Pose::identity(), &Twist::ZERO, units);
            let b = c.volume_bounds.expect("bounds");
            assert!(b.lower <= truth && truth <= b.upper, "{units}: {truth} outside {b:?}");
            let width = (last.upper - last.lower) * (1.0 + 1e-9) + rounding * b.upper;
            assert!(b.upper - b.lower <= width, "{pose:?}, {units} units: {b:?} after {last:?}");
            assert!(units == 0 || c.work <= 2 * units + 1000, "{units} units: {} spent", c.work);
            last = b;
        }
        assert!(full.complete);
        assert!(last.upper - last.lower < 0.12 * truth, "{pose:?}: {last:?} {truth}");
    }
}

#[test]
fn forces_stay_continuous_when_the_budget_cuts() {
    let (a, b) = (shapes::torus(0.02, 0.008, 48, 24), shapes::cuboid(Vec3::repeat(0.04)));
    let (tool, object) = (tool(&a, 20_000), solid(&b, 0.0008));
    let path = |i: u32| {
        turned(0.01, 0.02 + 2e-6 * f64::from(i), 0.021, Vec3::new(0.5, 0.2 + 1e-5 * f64::from(i), 0.0))
    };
    let run = |units| {
        let forces: Vec<Vec3> = (0..200)
            .map(|i| ask_with(&tool, &path(i), &object, &Pose::identity(), &Twist::ZERO, units).wrench.force)
            .collect();
        let jump = forces.windows(2).map(|w| (w[1] - w[0]).norm()).fold(0.0, f64::max);
        (jump, forces.iter().map(Vec3::norm).fold(0.0, f64::max))
    };
    let (free, peak) = run(0);
    for units in [1500, 4000, 10_000] {
        let (jump, _) = run(units);
        assert!(jump <= 3.0 * free + 1e-3 * peak, "{units}: {jump} against {free}, peak {peak}");
    }
}

#[test]
fn stiffness_is_minus_the_derivative_of_the_wrench() {
    let (tool, object) = (
        tool(&shapes::cuboid(Vec3::new(0.02, 0.03, 0.02)), 8000),
        solid(&shapes::cuboid(Vec3::repeat(0.06)), 0.001),
    );
    // Flat on flat, away from the edges: no curvature, and the depth is small beside the size.
    let pose = at(0.002, -0.003, 0.0396);
    let k = ask(&tool, &pose, &object).stiffness;
    let mut numeric = Matrix6::zeros();
    for i in 0..6 {
        let moved = |s: f64| {
            let mut d = Vector6::zeros();
            d[i] = s * if i < 3 { 1e-4 } else { 5e-3 };
            let turn = UnitQuaternion::from_scaled_axis(Vec3::new(d[3], d[4], d[5]));
            let t = pose.translation.vector + Vec3::new(d[0], d[1], d[2]);
            let w = ask(&tool, &Pose::from_parts(t.into(), turn * pose.rotation), &object).wrench;
            (Vector6::from_iterator(w.force.iter().chain(w.torque.iter()).copied()), d[i])
        };
        let ((up, d), (down, _)) = (moved(1.0), moved(-1.0));
        numeric.set_column(i, &(-(up - down) / (2.0 * d)));
    }
    let unit = |i: usize| if i < 3 { 1.0 } else { 1.0 / 0.015 };
    let scaled = |m: &Matrix6<f64>| Matrix6::from_fn(|i, j| m[(i, j)] * unit(i) * unit(j));
    let (a, b) = (scaled(&k), scaled(&((numeric + numeric.transpose()) * 0.5)));
    assert!((a - b).amax() < 0.06 * a.amax(), "{a} {b}");
}

#[test]
fn damping_brakes_only_what_comes_nearer_and_never_pulls() {
    let (tool, object) =
        (tool(&shapes::cuboid(Vec3::repeat(0.02)), 3000), solid(&shapes::cuboid(Vec3::repeat(0.06)), 0.001));
    let pose = at(0.0, 0.0, 0.0395);
    let with = |v: f64| {
        let twist = Twist { linear: Vec3::new(0.0, 0.0, v), angular: Vec3::zeros() };
        ask_with(&tool, &pose, &object, &Pose::identity(), &twist, 0).wrench.force.z
    };
    let rest = ask(&tool, &pose, &object).wrench.force.z;
    assert!((with(0.1) / rest - 1.0).abs() < 1e-6);
    // 5 N s/m on a square centimetre: 20 N s/m on the face.
    let extra = with(-0.01) - rest;
    assert!((extra / 0.2 - 1.0).abs() < 0.05, "{extra}");
    assert!((with(-100.0) / rest - 2.0).abs() < 0.02);
}

#[test]
fn a_closed_loop_of_poses_takes_no_work() {
    let (tool, object) =
        (tool(&shapes::icosphere(0.01, 4), 10_000), solid(&shapes::torus(0.02, 0.01, 96, 48), 0.0005));
    let pose = |i: u32| {
        let a = std::f64::consts::TAU * f64::from(i) / 400.0;
        at(0.02 + 0.004 * a.cos(), 0.004 * a.sin(), 0.016 + 0.002 * (2.0 * a).sin())
    };
    let (mut work, mut passed) = (0.0, 0.0);
    for i in 0..400 {
        let (p, q) = (pose(i), pose(i + 1));
        let f = (ask(&tool, &p, &object).wrench.force + ask(&tool, &q, &object).wrench.force) * 0.5;
        let dw = f.dot(&(q.translation.vector - p.translation.vector));
        work += dw;
        passed += dw.abs();
    }
    assert!(work.abs() < 2e-3 * passed, "{work} of {passed}");
}

#[test]
fn all_instruction_sets_give_the_same_bits() {
    let (tool, object) =
        (tool(&shapes::torus(0.02, 0.008, 48, 24), 5000), solid(&shapes::torus(0.02, 0.008, 48, 24), 0.001));
    let run = |level| {
        assert!(force_simd(Some(level)));
        let mut out = Vec::new();
        for i in 0..60 {
            let s = f64::from(i);
            let pose = turned(0.0005 * s, 0.003, 0.002, Vec3::new(1.2, 0.05 * s, -0.2));
            for units in [0, 2000] {
                let twist = Twist { linear: Vec3::new(0.1, 0.0, -0.1), angular: Vec3::new(0.0, 1.0, 0.0) };
                let c = ask_with(&tool, &pose, &object, &Pose::identity(), &twist, units);
                out.push(format!("{c:?}"));
            }
        }
        force_simd(None);
        out
    };
    let scalar = run(SimdLevel::Scalar);
    for level in SimdLevel::ALL.into_iter().skip(1) {
        if level.available() {
            assert!(run(level) == scalar, "{level}");
        } else {
            println!("{level}: not on this CPU, skipped");
        }
    }
}

#[test]
fn open_meshes_are_held_against_without_promises() {
    let mut open = shapes::cuboid(Vec3::repeat(0.02));
    open.triangles.pop();
    let c = ask(&tool(&open, 1000), &at(0.0, 0.0, 0.029), &solid(&shapes::cuboid(Vec3::repeat(0.04)), 0.001));
    assert!(c.touching && c.volume_bounds.is_none());
    let v = c.volume.expect("an estimate");
    assert!((v / 4e-7 - 1.0).abs() < 0.1, "{v}");
}

#[test]
fn the_grid_is_as_fine_as_the_spheres_ask() {
    let mesh = shapes::torus(0.06, 0.02, 96, 48);
    for spheres in [500, 5000] {
        let tree = SphereTree::build(&mesh, &IstParams::spheres(spheres), &Silent).expect("builds");
        assert!(
            tree.spheres as f64 > 0.7 * f64::from(spheres) && tree.spheres <= spheres as usize,
            "{}",
            tree.spheres
        );
        assert!((tree.cell / cell_for(&mesh, spheres, &Silent).expect("a cell") - 1.0).abs() < 1e-9);
        assert!(tree.memory_bytes() as f64 <= 112.0 * tree.spheres as f64, "{}", tree.memory_bytes());
    }
}

/// Bodies near, at, and beyond touch: the units are a plan that is kept to a factor of two (on flat faces whole levels have the same
/// stake, and open together or not at all).
#[test]
fn a_budget_is_kept_in_every_state() {
    let plate = shapes::cuboid(Vec3::new(0.04, 0.04, 0.003));
    let torus = shapes::torus(0.02, 0.008, 48, 24);
    let pairs = [
        (tool(&plate, 8000), solid(&plate, 0.0005), 0.003),
        (tool(&torus, 20_000), solid(&torus, 0.0005), 0.016),
        (tool(&shapes::icosphere(0.02, 3), 3000), solid(&shapes::cuboid(Vec3::repeat(0.04)), 0.001), 0.04),
    ];
    // What the parts look at together before they ask again: sixteen nodes, and the boxes among them.
    let batch = 128.0;
    let mut worst: f64 = 0.0;
    for (tool, object, touch) in &pairs {
        for gap in [3e-3, 3e-4, 3e-5, -3e-5, -3e-4, -3e-3] {
            for turn in [0.0, 0.1] {
                let pose = turned(1e-3, 2e-3, touch + gap, Vec3::x() * turn);
                for units in [10_000, 3000, 1000, 500, 200, 64] {
                    // With what the tick before left behind, and without.
                    let mut state = QueryState::default();
                    for _ in 0..2 {
                        let c = ask_after(
                            &mut state,
                            tool,
                            &pose,
                            object,
                            &Pose::identity(),
                            &Twist::ZERO,
                            units,
                        );
                        let over = (f64::from(c.work) - batch) / f64::from(units);
                        assert!(over <= 2.0, "{gap} m, {turn} rad: {} of {units} units", c.work);
                        worst = worst.max(over);
                        assert!(c.distance.is_none_or(f64::is_finite), "{c:?}");
                    }
                }
            }
        }
    }
    println!("{worst:.3} of the budget at most, but for a batch");
}
