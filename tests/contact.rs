//! Contact queries against closed forms, finite differences and themselves.
//!
//! Truth: for a half-space the law's force is (k / A_ref) times the volume below the surface, because minus the
//! gradient of the integral of depth over the overlap is the overlap's volume along the normal.

#[path = "contact/apart.rs"]
mod apart;
#[path = "contact/bounce.rs"]
mod bounce;
#[path = "contact/brute.rs"]
mod brute;
#[path = "contact/clusters.rs"]
mod clusters;
#[path = "contact/continuity.rs"]
mod continuity;
#[path = "contact/cuts.rs"]
mod cuts;
#[path = "contact/dense.rs"]
mod dense;
#[path = "contact/density.rs"]
mod density;
#[path = "contact/facets.rs"]
mod facets;
#[path = "contact/impact.rs"]
mod impact;
#[path = "contact/kept.rs"]
mod kept;
#[path = "contact/law.rs"]
mod law;
#[path = "contact/manifold.rs"]
mod manifold;
#[path = "contact/near.rs"]
mod near;
#[path = "contact/patch.rs"]
mod patch;
#[path = "contact/proxy.rs"]
mod proxy;
#[path = "contact/roles.rs"]
mod roles;
#[path = "meshes/sheets.rs"]
mod sheets;
#[path = "contact/surface.rs"]
mod surface;

use hapticd::contact::vps::{Density, ForceLaw, Normals, OrientedPoint, PointShell, ShellError, ShellParams};
use hapticd::contact::{
    Budget, Contact, Deadline, Friction, MAX_POINTS, Material, ObjectShape, Query, QueryState, SimdLevel,
    Texture, ToolShape, felt_stiffness_cap, force_simd, query,
};
use hapticd::geometry::field::Field;
use hapticd::geometry::{Point, Pose, TriMesh, Twist, Vec3, shapes};
use nalgebra::{Matrix6, Rotation3, Translation3, UnitQuaternion, Vector3, Vector6};
use std::cell::Cell;
use std::f64::consts::PI;
use std::sync::Arc;

const MATERIAL: Material = Material {
    stiffness: 800.0,
    reference_area: 1e-4,
    damping: 0.0,
    friction: Friction::NONE,
    texture: Texture::NONE,
};
/// N/m^3.
const PRESSURE: f64 = 800.0 / 1e-4;

/// The half-space z < 0 in a grid of 128 x 128 x 64 mm.
fn floor() -> ObjectShape {
    let field = Field::from_fn(Point::new(-0.064, -0.064, -0.032), 0.002, [65, 65, 33], |p| -p.z);
    ObjectShape::Field(Arc::new(field))
}

/// Numbers in 0..1 that look random: the `n`-th of case `k`.
fn random(k: u32, n: u32) -> f64 {
    f64::from(k.wrapping_mul(7919).wrapping_add(n * 104_729).wrapping_mul(2_654_435_761) >> 8)
        / f64::from(1 << 24)
}

/// A ball of radius 30 mm about the origin with 1 mm cells.
fn round() -> ObjectShape {
    let field =
        Field::from_fn(Point::new(-0.036, -0.036, -0.036), 0.001, [73, 73, 73], |p| 0.03 - p.coords.norm());
    ObjectShape::Field(Arc::new(field))
}

fn shell(mesh: &TriMesh, points: u32) -> ToolShape {
    ToolShape::Shell(Arc::new(PointShell::build(mesh, ShellParams::points(points)).expect("a proper mesh")))
}

fn at(x: f64, y: f64, z: f64) -> Pose {
    Pose::translation(x, y, z)
}

fn turned(axis: Vec3, angle: f64, x: f64, y: f64, z: f64) -> Pose {
    Pose::from_parts(Translation3::new(x, y, z), UnitQuaternion::from_scaled_axis(axis.normalize() * angle))
}

fn ask(tool: &ToolShape, pose: &Pose, object: &ObjectShape) -> Contact {
    ask_with(tool, pose, &Twist::ZERO, object, &Pose::identity(), &MATERIAL, Budget::UNLIMITED)
}

/// What is asked of bodies at rest.
fn question<'a>(
    tool: &'a ToolShape,
    tool_pose: &'a Pose,
    object: &'a ObjectShape,
    object_pose: &'a Pose,
) -> Query<'a> {
    let still = &Twist::ZERO;
    Query {
        tool,
        tool_pose,
        tool_twist: still,
        object,
        object_pose,
        object_twist: still,
        material: &MATERIAL,
    }
}

fn ask_with(
    tool: &ToolShape,
    tool_pose: &Pose,
    tool_twist: &Twist,
    object: &ObjectShape,
    object_pose: &Pose,
    material: &Material,
    budget: Budget<'_>,
) -> Contact {
    let q = Query { tool_twist, material, ..question(tool, tool_pose, object, object_pose) };
    query(&q, budget, &mut QueryState::default())
}

fn close(what: &str, got: f64, want: f64, relative: f64) {
    assert!((got - want).abs() <= relative * want.abs(), "{what}: got {got}, want {want}");
}

fn wrench(c: &Contact) -> Vector6<f64> {
    let (f, t) = (c.wrench.force, c.wrench.torque);
    Vector6::new(f.x, f.y, f.z, t.x, t.y, t.z)
}

#[test]
fn a_flat_face_pushes_with_k_a_h() {
    let size = 0.04;
    for points in [500, 5000] {
        let tool = shell(&shapes::cuboid(Vec3::repeat(size)), points);
        for h in [1e-5, 1e-4, 1e-3, 3e-3] {
            let c = ask(&tool, &at(0.0, 0.0, size / 2.0 - h), &floor());
            // The face's own weights sum to its own area, whatever the density.
            close("force", c.wrench.force.z, PRESSURE * size * size * h, 2e-3 + 1e-6 / h);
            assert!(c.touching && c.complete && c.distance == Some(0.0));
            close("depth", c.depth, h, 1e-6 / h);
            // The side faces push inwards against each other; a few points more on one side are left over.
            let few = 4.0 * 6.0 * size * size / f64::from(points) * h;
            let sides = 4.0 * size * h * h / 2.0;
            let sideways = c.wrench.force.xy().norm() / PRESSURE;
            assert!(sideways < few + 0.3 * sides, "{}", c.wrench.force);
        }
    }
}

#[test]
fn wedge_corner_cap_and_cylinders_push_with_the_volume_below() {
    let size = 0.04;
    let cube = shell(&shapes::cuboid(Vec3::repeat(size)), 40_000);
    let h = 0.006;
    // Edge down: L h^2.
    let c = ask(&cube, &turned(Vec3::x(), PI / 4.0, 0.0, 0.0, size * 0.5f64.sqrt() - h), &floor());
    close("edge", c.wrench.force.z, PRESSURE * size * h * h, 0.01);
    // Corner down: (sqrt 3 / 2) h^3.
    let diagonal = Rotation3::rotation_between(&Vec3::repeat(1.0), &-Vec3::z()).expect("not opposite");
    let pose = Pose::from_parts(
        Translation3::new(0.0, 0.0, size * 0.75f64.sqrt() - h),
        UnitQuaternion::from_rotation_matrix(&diagonal),
    );
    let c = ask(&cube, &pose, &floor());
    close("corner", c.wrench.force.z, PRESSURE * 0.75f64.sqrt() * h.powi(3), 0.02);
    // Sphere cap: pi h^2 (3R - h) / 3.
    let r = 0.02;
    let ball = shell(&shapes::icosphere(r, 6), 20_000);
    for h in [0.002, 0.005, 0.02] {
        let c = ask(&ball, &at(0.0, 0.0, r - h), &floor());
        close("cap", c.wrench.force.z, PRESSURE * PI * h * h * (3.0 * r - h) / 3.0, 0.01);
        assert!(c.wrench.torque.norm() < 1e-3 * c.wrench.force.norm() * r);
    }
    // Lying cylinder: L (r^2 acos((r - h) / r) - (r - h) sqrt(2 r h - h^2)).
    let (r, l, h) = (0.01, 0.05, 0.003);
    let rod = shell(&shapes::cylinder(r, l, 256), 20_000);
    let c = ask(&rod, &turned(Vec3::y(), PI / 2.0, 0.0, 0.0, r - h), &floor());
    let section = r * r * ((r - h) / r).acos() - (r - h) * (2.0 * r * h - h * h).sqrt();
    close("lying cylinder", c.wrench.force.z, PRESSURE * l * section, 0.01);
    // Standing on its end: pi r^2 h.
    let c = ask(&rod, &at(0.0, 0.0, l / 2.0 - 0.001), &floor());
    close("cylinder's end", c.wrench.force.z, PRESSURE * PI * r * r * 0.001, 0.01);
}

#[test]
fn torque_is_the_force_at_the_pressure_centre_about_the_tool_origin() {
    // A cuboid whose origin lies off its centre.
    let mut mesh = shapes::cuboid(Vec3::repeat(0.04));
    mesh.vertices.iter_mut().for_each(|v| v.x += 0.03);
    let tool = shell(&mesh, 4000);
    let c = ask(&tool, &at(-0.01, 0.0, 0.019), &floor());
    let f = c.wrench.force.z;
    close("torque", c.wrench.torque.y, -0.03 * f, 5e-3);
    assert!(c.wrench.torque.x.abs() < 5e-3 * 0.03 * f);
}

#[test]
fn force_and_stiffness_do_not_depend_on_density() {
    let mesh = shapes::torus(0.02, 0.007, 96, 48);
    let pose = turned(Vec3::new(1.0, 0.3, 0.0), 0.4, 0.003, 0.001, 0.008);
    let fine = ask(&shell(&mesh, 60_000), &pose, &floor());
    for points in [2000, 8000, 20_000] {
        let c = ask(&shell(&mesh, points), &pose, &floor());
        let error = (c.wrench.force - fine.wrench.force).norm() / fine.wrench.force.norm();
        assert!(error < 0.02, "{points}: {error}");
        let error = (c.stiffness - fine.stiffness).norm() / fine.stiffness.norm();
        assert!(error < 0.03, "{points}: {error}");
    }
}

#[test]
fn a_common_rigid_motion_turns_the_answer_along() {
    let tool = shell(&shapes::torus(0.02, 0.007, 64, 32), 6000);
    let object = round();
    let pose = turned(Vec3::new(0.2, 1.0, -0.4), 0.7, 0.03, 0.015, 0.01);
    let before = ask(&tool, &pose, &object);
    assert!(before.touching && before.wrench.force.norm() > 0.1);
    for (k, axis) in [Vec3::x(), Vec3::new(1.0, -2.0, 0.5), Vec3::new(0.1, 0.2, 3.0)].into_iter().enumerate()
    {
        let motion = turned(axis, 0.9 + k as f64, 3.0, -1.0, 2.0);
        let c =
            ask_with(&tool, &(motion * pose), &Twist::ZERO, &object, &motion, &MATERIAL, Budget::UNLIMITED);
        let f = motion.rotation * before.wrench.force;
        let t = motion.rotation * before.wrench.torque;
        assert!((c.wrench.force - f).norm() < 1e-4 * f.norm(), "{} {f}", c.wrench.force);
        assert!((c.wrench.torque - t).norm() < 1e-4 * f.norm() * 0.03);
        assert!((c.depth - before.depth).abs() < 1e-7);
        close("stiffness", c.stiffness.norm(), before.stiffness.norm(), 1e-3);
    }
}

/// The displacement (v, w) applied to the tool about its origin, scene axes.
fn displaced(pose: &Pose, d: &Vector6<f64>) -> Pose {
    let turn = UnitQuaternion::from_scaled_axis(Vector3::new(d[3], d[4], d[5]));
    let shift = Vector3::new(d[0], d[1], d[2]);
    Pose::from_parts(Translation3::from(pose.translation.vector + shift), turn * pose.rotation)
}

/// Symmetric part of -d(wrench)/d(displacement) by central differences.
fn differences(tool: &ToolShape, pose: &Pose, object: &ObjectShape, step: f64, lever: f64) -> Matrix6<f64> {
    let mut k = Matrix6::zeros();
    for j in 0..6 {
        let mut d = Vector6::zeros();
        d[j] = if j < 3 { step } else { step / lever };
        let (up, down) = (displaced(pose, &d), displaced(pose, &-d));
        let column = (wrench(&ask(tool, &down, object)) - wrench(&ask(tool, &up, object))) / (2.0 * d[j]);
        k.set_column(j, &column);
    }
    (k + k.transpose()) * 0.5
}

#[test]
fn stiffness_agrees_with_finite_differences() {
    let cases = [
        ("box face", shell(&shapes::cuboid(Vec3::repeat(0.04)), 20_000), at(0.0, 0.0, 0.0185), floor()),
        (
            "box edge",
            shell(&shapes::cuboid(Vec3::repeat(0.04)), 20_000),
            turned(Vec3::x(), PI / 4.0, 0.0, 0.0, 0.024),
            floor(),
        ),
        ("half a ball", shell(&shapes::icosphere(0.02, 5), 20_000), at(0.001, 0.0, 0.002), floor()),
        (
            "torus on a ball",
            shell(&shapes::torus(0.02, 0.007, 96, 48), 20_000),
            turned(Vec3::new(0.2, 1.0, -0.4), 0.7, 0.03, 0.015, 0.01),
            round(),
        ),
    ];
    for (name, tool, pose, object) in cases {
        let c = ask(&tool, &pose, &object);
        let ours = c.stiffness;
        // The positive part depends on how turning compares with moving: at the tool's own radius.
        let ToolShape::Shell(points) = &tool else { panic!("a shell") };
        let lever = points.bound_radius;
        let theirs = differences(&tool, &pose, &object, 2e-5, lever);
        // In units of N/m: rotations count at the lever.
        let unit = |i: usize| if i < 3 { 1.0 } else { 1.0 / lever };
        let scaled = |m: &Matrix6<f64>| Matrix6::from_fn(|i, j| m[(i, j)] * unit(i) * unit(j));
        let (ours, theirs) = (scaled(&ours), scaled(&theirs));
        // Positive part of the differences: what the contract promises.
        let e = theirs.symmetric_eigen();
        let positive = e.eigenvectors
            * Matrix6::from_diagonal(&e.eigenvalues.map(|v| v.max(0.0)))
            * e.eigenvectors.transpose();
        let error = (ours - positive).norm() / positive.norm();
        println!("{name}: stiffness differs by {error:.4} of its norm");
        assert!(error < 0.03, "{name}: {error}\n{ours}\n{positive}");
        assert!(ours.symmetric_eigenvalues().min() >= -1e-6 * ours.norm());
    }
}

#[test]
fn stiffness_has_closed_forms_on_a_half_space() {
    // Flat face: k A along z, k I about x and y, nothing in the plane.
    let size = 0.04;
    // (Points closer together than the face is deep: what the sides add below the surface is then sampled too.)
    let c = ask(&shell(&shapes::cuboid(Vec3::repeat(size)), 40_000), &at(0.0, 0.0, 0.0195), &floor());
    close("k A", c.stiffness[(2, 2)], PRESSURE * size * size, 1e-3);
    // About the tool's origin, high above the face, turning also lowers the load: k (I - V z).
    let (volume, height) = (size * size * 0.0005, 0.02 - 0.00025);
    close("k I", c.stiffness[(3, 3)], PRESSURE * (size.powi(4) / 12.0 - volume * height), 0.01);
    assert!(c.stiffness[(0, 0)] < 0.01 * c.stiffness[(2, 2)], "{}", c.stiffness[(0, 0)]);
    // Edge: the potential k L h^3 / 3 has the second derivative 2 k L h.
    let h = 0.006;
    let pose = turned(Vec3::x(), PI / 4.0, 0.0, 0.0, size * 0.5f64.sqrt() - h);
    let c = ask(&shell(&shapes::cuboid(Vec3::repeat(size)), 40_000), &pose, &floor());
    close("2 k L h", c.stiffness[(2, 2)], 2.0 * PRESSURE * size * h, 0.02);
    // A ball wholly inside feels a constant push: no stiffness, force k V.
    let r = 0.01;
    let c = ask(&shell(&shapes::icosphere(r, 5), 10_000), &at(0.0, 0.0, -0.015), &floor());
    close("k V", c.wrench.force.z, PRESSURE * 4.0 / 3.0 * PI * r.powi(3), 0.01);
    assert!(c.stiffness[(2, 2)] < 0.02 * PRESSURE * PI * r * r, "{}", c.stiffness);
}

/// However few points there are, one of each face lies at the corner itself.
#[test]
fn a_corner_touches_when_it_is_there_and_is_pushed_off_the_surface() {
    let size = 0.04;
    for points in [200, 1000, 5000, 20_000] {
        let tool = shell(&shapes::cuboid(Vec3::repeat(size)), points);
        for tilt in [0.0, 0.2, 0.4] {
            let upright = Rotation3::rotation_between(&Vec3::repeat(1.0), &-Vec3::z()).expect("not opposite");
            let turn = UnitQuaternion::from_scaled_axis(Vec3::new(0.8, 0.6, 0.0) * tilt)
                * UnitQuaternion::from_rotation_matrix(&upright);
            let lowest = (turn * Vec3::repeat(size / 2.0)).z;
            for h in [1e-5, 2e-4, 1e-3] {
                let pose = Pose::from_parts(Translation3::new(0.0, 0.0, -lowest - h), turn);
                let c = ask(&tool, &pose, &floor());
                assert!((c.depth - h).abs() < 3e-6, "{points} {tilt} {h}: {}", c.depth);
                let f = c.wrench.force;
                assert!(f.z > 0.0 && f.xy().norm() < 0.02 * f.z, "{points} {tilt} {h}: {f}");
            }
        }
    }
}

/// A sparse corner, dragged along a wall while deep and back while hardly touching.
#[test]
fn a_sparse_corner_takes_no_work_in_a_closed_loop() {
    let size = 0.04;
    let upright = Rotation3::rotation_between(&Vec3::repeat(1.0), &-Vec3::z()).expect("not opposite");
    let upright = UnitQuaternion::from_rotation_matrix(&upright);
    for points in [200, 2000, 10_000] {
        let tool = shell(&shapes::cuboid(Vec3::repeat(size)), points);
        for (tilt, heading) in [(0.0, 0.0), (0.0, 2.0), (0.3, 1.0), (0.3, 4.0), (0.45, 2.5)] {
            let turn = UnitQuaternion::from_scaled_axis(Vec3::new(0.8, 0.6, 0.0) * tilt) * upright;
            let lowest = (turn * Vec3::repeat(size / 2.0)).z;
            // 2 mm across, 0.5 mm deep and back up.
            let way = Vec3::new(f64::cos(heading), f64::sin(heading), 0.0) * 2e-3;
            let deep = Vec3::new(0.0, 0.0, -lowest - 6e-4);
            let shallow = deep + Vec3::z() * 5e-4;
            let stops = [shallow, deep, deep + way, shallow + way, shallow];
            let (mut work, mut moved) = (0.0, 0.0f64);
            for leg in stops.windows(2) {
                for k in 0..100 {
                    let at = leg[0] + (leg[1] - leg[0]) * ((f64::from(k) + 0.5) / 100.0);
                    let c = ask(&tool, &Pose::from_parts(at.into(), turn), &floor());
                    let done = c.wrench.force.dot(&(leg[1] - leg[0])) / 100.0;
                    work += done;
                    moved += done.abs();
                }
            }
            assert!(moved > 0.0 && work.abs() < 0.02 * moved, "{points} {tilt} {heading}: {work} of {moved}");
        }
    }
}

#[test]
fn a_closed_loop_takes_no_work() {
    let tool = shell(&shapes::torus(0.02, 0.007, 96, 48), 20_000);
    let object = round();
    let steps = 720;
    let (mut work, mut turned_over) = (0.0, 0.0);
    let pose_at = |k: usize| {
        let a = 2.0 * PI * k as f64 / steps as f64;
        turned(
            Vec3::new(0.3, 1.0, 0.2),
            0.5 + 0.3 * a.sin(),
            0.034 + 0.004 * a.cos(),
            0.006 * a.sin(),
            0.004 * (2.0 * a).sin(),
        )
    };
    for k in 0..steps {
        let (a, b) = (pose_at(k), pose_at(k + 1));
        let middle = a.lerp_slerp(&b, 0.5);
        let c = ask(&tool, &middle, &object);
        let shift = b.translation.vector - a.translation.vector;
        let turn = (b.rotation * a.rotation.inverse()).scaled_axis();
        let w = c.wrench.force.dot(&shift) + c.wrench.torque.dot(&turn);
        work += w;
        turned_over += w.abs();
    }
    println!("work of a loop {work:.3e} J of {turned_over:.3e} J turned over");
    assert!(turned_over > 1e-4);
    assert!(work.abs() < 0.01 * turned_over, "{work} of {turned_over}");
}

#[test]
fn forces_are_continuous_along_a_fine_path_also_where_the_budget_cuts() {
    let tool = shell(&shapes::torus(0.02, 0.007, 96, 48), 10_000);
    let object = round();
    for units in [0u32, 16, 100, 777, 3000, 6789] {
        let budget = Budget { units, deadline: None };
        let mut last: Option<Contact> = None;
        let (mut peak, mut touched): (f64, u32) = (0.0, 0);
        let mut worst: f64 = 0.0;
        // From apart to some mm deep, 1 um and 1e-5 rad a step.
        for k in 0..5000 {
            let s = 1e-3 + f64::from(k) * 1e-6;
            let pose = turned(Vec3::new(0.3, 1.0, 0.2), 0.2 + 10.0 * s, 0.058 - s, 0.002, 0.5 * s);
            let c = ask_with(&tool, &pose, &Twist::ZERO, &object, &Pose::identity(), &MATERIAL, budget);
            if let Some(before) = last {
                worst = worst.max((c.wrench.force - before.wrench.force).norm());
            }
            peak = peak.max(c.wrench.force.norm());
            touched += u32::from(c.touching);
            assert!(c.work <= if units == 0 { 10_000 } else { units.max(16) });
            last = Some(c);
        }
        assert!(touched > 1000 && touched < 5000, "units {units}: touched {touched}");
        // A step moves a point by at most (1 + 10 * 0.027 + 0.5) um. The force is then at most the pressure of
        // that on the part of the torus that can touch: not half of it.
        let area = 4.0 * PI * PI * 0.02 * 0.007;
        println!("units {units}: peak {peak:.2} N, worst step {worst:.5} N");
        assert!(worst < PRESSURE * 0.5 * area * 1.77e-6, "units {units}: {worst}");
    }
}

#[test]
fn a_cut_budget_keeps_the_force_and_a_changing_budget_moves_it_little() {
    let tool = shell(&shapes::torus(0.02, 0.007, 96, 48), 20_000);
    let pose = turned(Vec3::new(1.0, 0.3, 0.0), 0.4, 0.003, 0.001, 0.008);
    let object = floor();
    let full = ask(&tool, &pose, &object).wrench.force;
    let ToolShape::Shell(points) = &tool else { panic!("a shell") };
    let touching = (0..points.len).filter(|&i| (pose * points.position(i)).z < 0.0).count() as f64 / 20_000.0;
    let mut last: Option<Vec3> = None;
    let mut complete = false;
    for units in (512..=20_000).step_by(16) {
        let budget = Budget { units, deadline: None };
        let c = ask_with(&tool, &pose, &Twist::ZERO, &object, &Pose::identity(), &MATERIAL, budget);
        // Complete once what may touch fits; that is never less than what does.
        assert!(c.complete || (!complete && units < 20_000), "{units}");
        assert!(!c.complete || f64::from(units) >= touching * 20_000.0, "{units}");
        complete = c.complete;
        let error = (c.wrench.force - full).norm() / full.norm();
        let allowed = if units < 2000 { 0.12 } else { 0.05 };
        assert!(error < allowed, "{units}: {error}");
        if let Some(last) = last {
            // One more block of 16, by the fading weights of the last ones one and a half: at most their share of
            // the points that touch, of those that the levels visit. Those are all, but no more than fit beside the sum over all points
            // that may touch where that begins to answer, at 1 / 0.65 of them.
            let step = (c.wrench.force - last).norm() / full.norm();
            let visited = f64::from(units).min((1.0 / 0.65 - 1.0) * touching * 20_000.0 - 16.0);
            assert!(step < 1.5 * 16.0 / (visited * touching), "{units}: {step}");
        }
        last = Some(c.wrench.force);
    }
}

#[test]
fn damping_only_resists_approach_and_starts_from_zero() {
    let tool = shell(&shapes::cuboid(Vec3::repeat(0.04)), 2000);
    let material = Material { damping: 0.5, ..MATERIAL };
    let object = floor();
    let force = |h: f64, v: f64| {
        let twist = Twist { linear: Vec3::new(0.0, 0.0, v), angular: Vec3::zeros() };
        let pose = at(0.0, 0.0, 0.02 - h);
        ask_with(&tool, &pose, &twist, &object, &Pose::identity(), &material, Budget::UNLIMITED)
            .wrench
            .force
            .z
    };
    let area = 0.04 * 0.04;
    let h = 1e-3;
    close("spring", force(h, 0.0), PRESSURE * area * h, 2e-3);
    close("approach", force(h, -0.1), PRESSURE * area * h + 0.5 / 1e-4 * area * 0.1, 2e-3);
    assert_eq!(force(h, 0.2), force(h, 0.0));
    // However fast: never more than the spring again, so nothing jumps at first touch.
    close("fast", force(1e-5, -5.0), 2.0 * force(1e-5, 0.0), 1e-6);
}

#[test]
fn same_question_same_bits_on_every_instruction_set() {
    let tool = shell(&shapes::torus(0.02, 0.007, 96, 48), 7777);
    let object = round();
    let twist = Twist { linear: Vec3::new(-0.2, 0.1, 0.0), angular: Vec3::new(0.5, -1.0, 2.0) };
    let material = Material { damping: 0.5, friction: Friction::of(0.5), ..MATERIAL };
    let answers = || -> Vec<u64> {
        (0..200)
            .flat_map(|k| {
                let s = f64::from(k) * 1e-4;
                let pose = turned(Vec3::new(0.3, 1.0, 0.2), 0.5 + 20.0 * s, 0.060 - s, 0.002, 0.7 * s);
                let budget = Budget { units: 5000, deadline: None };
                let c = ask_with(&tool, &pose, &twist, &object, &Pose::identity(), &material, budget);
                let mut bits: Vec<u64> = wrench(&c).iter().map(|v| v.to_bits()).collect();
                bits.extend(c.stiffness.iter().map(|v| v.to_bits()));
                bits.extend(c.patches.iter().flat_map(|p| [p.press, p.arm, p.stiffness]).map(f64::to_bits));
                bits.extend([c.depth.to_bits(), c.distance.map_or(1, f64::to_bits), u64::from(c.work)]);
                bits.extend(
                    c.points[..usize::from(c.n_points)].iter().map(|p| p.depth.to_bits() ^ u64::from(p.id)),
                );
                bits
            })
            .collect()
    };
    let reference = answers();
    assert_eq!(reference, answers());
    for level in SimdLevel::ALL {
        if force_simd(Some(level)) {
            println!("compared {level}");
            assert_eq!(reference, answers(), "{level}");
        } else {
            println!("skipped {level}: this CPU lacks it");
        }
    }
    force_simd(None);
}

#[test]
fn bounds_hold_when_apart_touching_and_cut_short() {
    let r = 0.015;
    let tool = shell(&shapes::icosphere(r, 6), 8000);
    // The mesh is a polyhedron inside the ball: its surface is up to this much nearer to the centre.
    let sagitta = 0.0002 * r;
    for (object, depth) in [(floor(), (|p: &Vec3| -p.z) as fn(&Vec3) -> f64), (round(), |p| 0.03 - p.norm())]
    {
        for units in [0, 16, 64, 300, 5000] {
            for k in 0..300 {
                let t = f64::from(k) / 300.0;
                let centre = Vec3::new(0.02 + 0.01 * t, 0.01, 0.05 - 0.06 * t);
                let budget = Budget { units, deadline: None };
                let pose = Pose::translation(centre.x, centre.y, centre.z);
                let c = ask_with(&tool, &pose, &Twist::ZERO, &object, &Pose::identity(), &MATERIAL, budget);
                let exact = depth(&centre) + r;
                let b = c.depth_bounds.expect("the method bounds the depth");
                assert!(
                    b.lower <= exact && exact - sagitta <= b.upper,
                    "units {units} k {k}: {exact} not in {b:?}"
                );
                if units == 0 && exact.abs() < 0.004 {
                    // Two field errors and the covering radius, or sqrt(2) where all is outside the grid.
                    assert!(b.upper - b.lower < 0.0062 + 0.42 * exact.abs(), "{b:?}");
                    let got = if c.touching { c.depth } else { -c.distance.expect("near enough to know") };
                    assert!((got - exact).abs() < 4e-4, "{got} {exact}");
                }
            }
        }
    }
}

/// The gradient of few points in contact, without leaps: of depths at the corners of a tetrahedron, half a cell off along each axis.
fn even_gradient(depth: impl Fn(&Point) -> f64, p: &Point, cell: f64) -> Vec3 {
    let about = [[1.0, 1.0, 1.0], [1.0, -1.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]].map(Vec3::from);
    about.iter().map(|s| s * depth(&(p + s * 0.5 * cell))).sum::<Vec3>() * (0.5 / cell)
}

/// How much of it counts: all up to 60 points, and the field's own from 120 on.
fn few(points: u32) -> f64 {
    1.0 - ((f64::from(points) - 60.0) / 60.0).clamp(0.0, 1.0)
}

#[test]
fn what_the_tree_leaves_out_cannot_touch() {
    // Another implementation: every point of the shell, in f64, against the same field.
    let tool = shell(&shapes::torus(0.02, 0.007, 96, 48), 12_000);
    let ToolShape::Shell(points) = &tool else { panic!("a shell") };
    let ball: fn(&Point) -> f64 = |p| p.coords.norm() - 0.03;
    for (object, reach, exact) in [(round(), 0.065, Some(ball)), (floor(), 0.045, None)] {
        let ObjectShape::Field(field) = &object else { panic!("a field") };
        let (mut touched, mut apart, mut outside, mut spared) = (0, 0, 0, 0);
        for k in 0..120u32 {
            let r = |n: u32| random(k, n);
            let axis = Vec3::new(r(1) - 0.5, r(2) - 0.5, r(3) - 0.5);
            let place = (Vec3::new(r(4), r(5), r(6)) - Vec3::repeat(0.5)) * 2.0 * reach;
            let pose = turned(axis, 6.0 * r(7), place.x, place.y, place.z);
            let c = ask(&tool, &pose, &object);
            let (mut normals, mut plain, mut smooth) = (Vector6::zeros(), Vector6::zeros(), Vector6::zeros());
            let (mut deepest, mut pressed, mut inside, mut nearest) =
                (f64::NEG_INFINITY, 0, true, f64::INFINITY);
            for i in 0..points.len {
                let p = pose * points.position(i);
                let (depth, g) = field.depth_gradient(&p);
                if depth > deepest {
                    (deepest, inside) = (depth, field.covers(&p));
                }
                nearest = nearest.min(exact.map_or(f64::INFINITY, |exact| exact(&p)));
                pressed += u32::from(depth > 0.0);
                let normal =
                    pose.rotation * Vec3::new(points.nx[i].into(), points.ny[i].into(), points.nz[i].into());
                let size = PRESSURE * f64::from(points.area[i]) * depth.max(0.0);
                let even = even_gradient(|p| field.depth(p), &p, field.cell);
                let pushes = [normal * size, g * normal.dot(&g) * size, even * normal.dot(&even) * size];
                for (sum, f) in [&mut normals, &mut plain, &mut smooth].into_iter().zip(pushes) {
                    let torque = (p.coords - pose.translation.vector).cross(&f);
                    *sum += Vector6::new(f.x, f.y, f.z, torque.x, torque.y, torque.z);
                }
            }
            assert!(c.complete);
            let along = plain + (smooth - plain) * few(pressed);
            // Of a sparse contact the answer lies between the two sums, with one part for force and torque.
            let (off, got) = (along - normals, wrench(&c) - normals);
            let part = if off.norm() > 1e-9 { got.dot(&off) / off.norm_squared() } else { 0.0 };
            assert!(part > -1e-3 && part < 1.001, "{k}: {part}");
            let finely = pressed > 60 && deepest > 2.6 * (points.total_area / 12_000.0).sqrt();
            let answer = if finely { normals } else { normals + off * part };
            let triple = |at: usize| Vec3::new(answer[at], answer[at + 1], answer[at + 2]);
            let (force, torque) = (triple(0), triple(3));
            assert!((c.wrench.force - force).norm() <= 1e-4 * force.norm() + 1e-5, "{k}: {force}");
            assert!((c.wrench.torque - torque).norm() <= 1e-4 * force.norm() * 0.03 + 1e-6, "{k}: {torque}");
            if deepest > 1e-6 {
                assert!(c.touching && (c.depth - deepest).abs() < 1e-6, "{k}: {} {deepest}", c.depth);
                touched += 1;
            } else if let Some(distance) = c.distance.filter(|_| !c.touching) {
                // The nearest point, as well as the field knows it: outside the grid between its bounds, and no nearer than the
                // truth.
                let error = 2.0 * field.sample_error();
                let most = if inside { -deepest } else { -deepest * 2f64.sqrt() };
                assert!(distance >= -deepest - 1e-6 && distance <= most + error, "{k}: {distance} {deepest}");
                if exact.is_some() && !inside {
                    assert!(distance >= nearest - error, "{k}: {distance} {nearest}");
                    outside += 1;
                }
                apart += 1;
            }
            spared += u32::from(c.work < 6000);
        }
        assert!(touched > 20 && apart > 20 && spared > 20, "{touched} {apart} {spared}");
        assert!(outside > 20 || exact.is_none(), "{outside}");
    }
}

/// What a query remembers may spare it work, and no bit of the wrench: slow, fast, resting and separated motion, tool and
/// object exchanged under way.
#[test]
fn a_remembering_query_gives_the_same_contact() {
    let tools = [
        shell(&shapes::torus(0.02, 0.007, 96, 48), 10_000),
        shell(&shapes::cuboid(Vec3::new(0.05, 0.01, 0.03)), 300),
        shell(&shapes::torus(0.02, 0.007, 96, 48), 40_000),
    ];
    let objects = [round(), floor()];
    let mut state = QueryState::default();
    let (mut touched, mut spared, mut all) = (0, 0u64, 0u64);
    for k in 0..3000 {
        // Speeds from 0 to 10 mm a step, in stretches of 100.
        let speed = [1e-5, 0.0, 1e-4, 3e-5, 1e-3, 1e-5, 1e-2][k / 100 % 7];
        let s = f64::from((k % 100) as u32) * speed;
        let high = [0.030, 0.035, 0.027][k / 700 % 3];
        let pose = turned(Vec3::new(0.3, 1.0, 0.2), 0.4 + 20.0 * s, 0.002 - s, 0.3 * s, high - 0.9 * s);
        let (tool, object, here) = (&tools[k / 500 % 3], &objects[k / 1300 % 2], Pose::identity());
        let ask = |state: &mut QueryState| {
            let tool_twist = &Twist { linear: Vec3::new(0.01, 0.0, -0.02), angular: Vec3::zeros() };
            let q = Query { tool_twist, ..question(tool, &pose, object, &here) };
            query(&q, Budget::UNLIMITED, state)
        };
        let (kept, fresh) = (ask(&mut state), ask(&mut QueryState::default()));
        assert_eq!(kept.touching, fresh.touching, "{k}");
        assert!(kept.complete);
        if !fresh.touching {
            // Both found the nearest point, as well as the field knows it.
            let (a, b) = (kept.depth_bounds.expect("bounds"), fresh.depth_bounds.expect("bounds"));
            assert!(a.lower <= b.upper && b.lower <= a.upper, "{k}: {a:?} {b:?}");
            continue;
        }
        touched += 1;
        spared += u64::from(fresh.work.saturating_sub(kept.work));
        all += u64::from(fresh.work);
        let bits = |c: &Contact| {
            let mut bits: Vec<u64> =
                wrench(c).iter().chain(c.stiffness.iter()).map(|v| v.to_bits()).collect();
            bits.push(c.depth.to_bits());
            bits.extend(c.points.iter().take(c.n_points.into()).map(|p| u64::from(p.id)));
            bits.extend(c.depth_bounds.iter().flat_map(|b| [b.lower.to_bits(), b.upper.to_bits()]));
            bits
        };
        assert_eq!(bits(&kept), bits(&fresh), "{k}");
    }
    println!("{touched} touches, work spared {spared} of {all}");
    assert!(touched > 1000 && spared * 40 > all, "{touched} {spared} {all}");
}

#[test]
fn far_away_is_answered_at_once() {
    let tool = shell(&shapes::icosphere(0.015, 4), 20_000);
    let c = ask(&tool, &at(0.0, 0.0, 1.0), &round());
    assert!(!c.touching && c.complete && c.work <= 16, "{}", c.work);
    let b = c.depth_bounds.expect("bounds");
    assert!(b.upper < 0.0 && -b.upper <= 0.955 && 0.955 <= -b.lower, "{b:?}");
    // Near, but the ball around the tool is clear: a coarse prefix finds the distance.
    let roomy =
        Field::from_fn(Point::new(-0.06, -0.06, -0.06), 0.002, [61, 61, 61], |p| 0.03 - p.coords.norm());
    let c = ask(&tool, &at(0.0, 0.0, 0.05), &ObjectShape::Field(Arc::new(roomy)));
    assert!(!c.touching && c.complete && c.work < 4096);
    assert!((c.distance.expect("near") - 0.005).abs() < 5e-4, "{:?}", c.distance);
}

#[test]
fn a_deadline_stops_the_query_with_the_force_still_to_scale() {
    struct After(Cell<u32>);
    impl Deadline for After {
        fn passed(&self) -> bool {
            self.0.set(self.0.get() + 1);
            self.0.get() > 2
        }
    }
    let tool = shell(&shapes::cuboid(Vec3::repeat(0.04)), 20_000);
    let pose = at(0.0, 0.0, 0.019);
    let clock = After(Cell::new(0));
    let budget = Budget { units: 0, deadline: Some(&clock) };
    let object = floor();
    let cut = ask_with(&tool, &pose, &Twist::ZERO, &object, &Pose::identity(), &MATERIAL, budget);
    assert!(cut.deadline_hit && !cut.complete && cut.work < 10_000, "{}", cut.work);
    close("force", cut.wrench.force.z, ask(&tool, &pose, &object).wrench.force.z, 0.05);
}

#[test]
fn nonsense_poses_and_materials_do_no_harm() {
    let shell = shell(&shapes::cuboid(Vec3::repeat(0.04)), 1000);
    let sphere = ToolShape::Sphere { radius: 0.005 };
    let object = floor();
    let good = at(0.0, 0.0, 0.0);
    for tool in [&shell, &sphere] {
        for v in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e300, 1e30] {
            for pose in [at(v, 0.0, 0.0), at(0.0, 0.0, v)] {
                for c in [
                    ask(tool, &pose, &object),
                    ask_with(tool, &good, &Twist::ZERO, &object, &pose, &MATERIAL, Budget::UNLIMITED),
                ] {
                    assert!(c.wrench.is_finite() && c.wrench.force.norm() == 0.0 && !c.touching);
                    assert!(v.is_finite() || !c.complete);
                }
            }
            let twist = Twist { linear: Vec3::new(v, 0.0, 0.0), angular: Vec3::zeros() };
            let m = Material { damping: 1.0, ..MATERIAL };
            let c = ask_with(tool, &good, &twist, &object, &Pose::identity(), &m, Budget::UNLIMITED);
            assert!(c.wrench.is_finite(), "{v}: {:?}", c.wrench);
        }
        for bad in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
            let m = Material {
                reference_area: bad,
                stiffness: bad,
                damping: bad,
                friction: Friction::NONE,
                texture: Texture::NONE,
            };
            let twist = Twist { linear: Vec3::new(0.0, 0.0, -1.0), angular: Vec3::zeros() };
            let c = ask_with(tool, &good, &twist, &object, &Pose::identity(), &m, Budget::UNLIMITED);
            assert!(c.wrench.is_finite() && c.wrench.force.z >= 0.0);
        }
    }
    // Shells and fields put together by hand, inconsistently.
    let mut broken = PointShell::default();
    (broken.len, broken.x) = (1000, vec![0.0; 64]);
    let broken = ToolShape::Shell(Arc::new(broken));
    assert!(ask(&broken, &good, &object).wrench.is_finite());
    let mut broken = Field::clone(object.field());
    broken.dims = [9, 9, 9];
    let broken = ObjectShape::Field(Arc::new(broken));
    let c = ask(&shell, &good, &broken);
    assert!(!c.complete && c.wrench.force.norm() == 0.0);
}

#[test]
fn contact_points_are_deep_apart_and_stable() {
    let tool = shell(&shapes::cuboid(Vec3::repeat(0.04)), 8000);
    let c = ask(&tool, &at(0.0, 0.0, 0.019), &floor());
    let points = &c.points[..usize::from(c.n_points)];
    assert_eq!(points.len(), MAX_POINTS);
    assert!(points.windows(2).all(|w| w[0].depth >= w[1].depth));
    for (i, p) in points.iter().enumerate() {
        assert!((p.depth - 0.001).abs() < 1e-5 && (p.position.z + 0.001).abs() < 1e-5);
        assert!((p.normal - Vec3::z()).norm() < 1e-6);
        assert!(p.area > 0.0);
        for q in &points[..i] {
            assert!((p.position - q.position).norm() > 0.004, "{} {}", p.position, q.position);
        }
    }
    let again = ask(&tool, &at(1e-7, 0.0, 0.019), &floor());
    assert!(again.points.iter().zip(points).all(|(a, b)| a.id == b.id));
}

#[test]
fn the_ball_tool_follows_its_closed_form_and_is_continuous() {
    let r = 0.005;
    let tool = ToolShape::Sphere { radius: r };
    let object = round();
    let c = ask(&tool, &at(0.0, 0.0, 0.034), &object);
    close("force", c.wrench.force.z, 800.0 * 0.001, 0.01);
    assert!(c.wrench.torque.norm() == 0.0 && c.n_points == 1);
    let direction = Vec3::new(1.0, 2.0, -0.5).normalize();
    let p = direction * 0.033;
    let c = ask(&tool, &at(p.x, p.y, p.z), &object);
    assert!(c.wrench.force.normalize().dot(&direction) > 0.9999);
    close("stiffness", direction.dot(&(c.stiffness.fixed_view::<3, 3>(0, 0) * direction)), 800.0, 1e-3);
    assert!(!ask(&tool, &at(0.0, 0.0, 0.036), &object).touching);
    // Through the ball, across cells, the border of the grid and its centre.
    let mut last = Vec3::zeros();
    for k in 0..60_000 {
        let s = -0.058 + f64::from(k) * 1e-6;
        let f = ask(&tool, &at(s, 0.3 * s + 0.001, 0.002), &object).wrench.force;
        // Slope: the spring itself, plus its turning while the gradient turns near the centre.
        assert!((f - last).norm() < 1e-6 * 800.0 * 60.0, "jump at {s}: {} N", (f - last).norm());
        last = f;
    }
    // A ball wider than the grid's padding claims nothing before it touches.
    let wide = ToolShape::Sphere { radius: 0.04 };
    for angle in 0..60 {
        let a = f64::from(angle) * 0.1;
        let d = Vec3::new(a.cos(), a.sin(), 0.4).normalize();
        let p = d * (0.03 + 0.04 + 0.0008);
        assert!(!ask(&wide, &at(p.x, p.y, p.z), &object).touching, "{p}");
        let p = d * (0.03 + 0.04 - 0.006);
        assert!(ask(&wide, &at(p.x, p.y, p.z), &object).touching, "{p}");
    }
}

#[test]
fn shells_cover_evenly_and_repeat_bit_for_bit() {
    let mesh = shapes::torus(0.02, 0.007, 96, 48);
    let area: f64 = (0..mesh.triangles.len())
        .map(|t| {
            let [a, b, c] = mesh.corners(t);
            0.5 * (b - a).cross(&(c - a)).norm()
        })
        .sum();
    let a = PointShell::build(&mesh, ShellParams::points(5000)).expect("torus");
    let b = PointShell::build(&mesh, ShellParams::points(5000)).expect("torus");
    assert_eq!(a, b);
    assert_ne!(
        a.x,
        PointShell::build(&mesh, ShellParams { seed: 2, ..ShellParams::points(5000) }).expect("torus").x
    );
    assert_eq!(a.len, 5000);
    assert_eq!(a.x.len() % 16, 0);
    let sum: f64 = a.area.iter().map(|&a| f64::from(a)).sum();
    close("area", sum, area, 1e-6);
    // Hexagonal packing of n discs covers with radius sqrt(2 A / (3 sqrt 3 n)); nothing covers with less.
    let least = (2.0 * area / (3.0 * 3.0f64.sqrt() * 5000.0)).sqrt();
    assert!(a.covering_radius > least && a.covering_radius < 2.2 * least, "{} {least}", a.covering_radius);
    // So does every level, which is what a query has seen whose budget ended early: its bound goes by way of the whole shell's points.
    for (n, radius) in a.levels() {
        let least = (2.0 * area / (3.0 * 3.0f64.sqrt() * n as f64)).sqrt();
        let most = 2.2 * least + if n < a.len { a.covering_radius } else { 0.0 };
        assert!(radius > least && radius < most, "{n} points: {radius}, {least}");
    }
    for i in 0..a.len {
        let p = a.position(i);
        let ring = Vec3::new(p.x, p.y, 0.0).normalize() * 0.02;
        let out = (p.coords - ring).normalize();
        let n = Vec3::new(f64::from(a.nx[i]), f64::from(a.ny[i]), f64::from(a.nz[i]));
        assert!(n.dot(&out) < -0.99, "normal {i} does not point inwards");
    }
    let spaced = ShellParams { density: Density::Spacing(0.0005), ..ShellParams::points(1) };
    let c = PointShell::build(&mesh, spaced).expect("torus");
    assert!(c.covering_radius < 0.0008, "{}", c.covering_radius);
    let (p, q) = (c.position(0), c.position(c.len - 1));
    assert!((p - q).norm() > 0.0005 * 0.999);
}

/// Also where the triangles are needles, which stay needles when they are cut in four.
#[test]
fn the_covering_radius_is_a_bound_and_close_to_the_farthest_place() {
    for (name, mesh) in [
        ("cylinder", shapes::cylinder(0.01, 0.05, 300)),
        ("hole", shapes::keyed_hole(&shapes::HoleShape::default())),
        ("torus", shapes::torus(0.02, 0.007, 24, 12)),
    ] {
        let shell = PointShell::build(&mesh, ShellParams::points(2000)).expect("a proper mesh");
        // Places all over each triangle, a twentieth of the spacing apart.
        let step = 0.05 * (shell.total_area / 2000.0).sqrt();
        let mesh = &mesh;
        let places = (0..mesh.triangles.len()).flat_map(|t| {
            let [a, b, c] = mesh.corners(t);
            let rows = |v: Vec3| (v.norm() / step).ceil().max(1.0) as u32;
            let (n, m) = (rows(b - a), rows(c - a));
            (0..=n).flat_map(move |i| {
                (0..=m).filter_map(move |j| {
                    let (u, v) = (f64::from(i) / f64::from(n), f64::from(j) / f64::from(m));
                    (u + v <= 1.0 + 1e-9).then_some(a + (b - a) * u + (c - a) * v)
                })
            })
        });
        let farthest = shell.farthest(places);
        println!("{name}: covering radius {:.4e} m, farthest {farthest:.4e} m", shell.covering_radius);
        assert!(farthest <= shell.covering_radius * (1.0 + 1e-6), "{name}");
        // Three percent of the bound, a twentieth of the spacing for the places.
        assert!(
            shell.covering_radius <= 1.03 * (farthest + step),
            "{name}: {} {farthest}",
            shell.covering_radius
        );
    }
}

#[test]
fn shells_refuse_what_they_cannot_sample() {
    let cube = shapes::cuboid(Vec3::repeat(0.01));
    let empty = TriMesh::default();
    assert_eq!(PointShell::build(&empty, ShellParams::points(10)), Err(ShellError::Empty));
    assert!(matches!(PointShell::build(&cube, ShellParams::points(0)), Err(ShellError::Parameter(_))));
    assert!(matches!(PointShell::build(&cube, ShellParams::points(u32::MAX)), Err(ShellError::Parameter(_))));
    for s in [0.0, -1.0, f64::NAN, 1e-12] {
        let params = ShellParams { density: Density::Spacing(s), ..ShellParams::points(1) };
        assert!(matches!(PointShell::build(&cube, params), Err(ShellError::Parameter(_))), "{s}");
    }
    let mut bad = cube.clone();
    bad.vertices[3].x = f64::NAN;
    assert_eq!(PointShell::build(&bad, ShellParams::points(10)), Err(ShellError::NotFinite(3)));
    // A few points are enough for an answer.
    for n in [1, 2, 15, 16, 17, 63, 64, 65] {
        let s = PointShell::build(&cube, ShellParams::points(n)).expect("a cube");
        assert_eq!(s.len, n as usize);
        let c = ask(&ToolShape::Shell(Arc::new(s)), &at(0.0, 0.0, -0.01), &floor());
        assert!(c.touching && c.complete);
    }
}

#[test]
fn a_cloud_makes_the_same_contact_as_the_mesh_it_came_from() {
    let mesh = shapes::icosphere(0.02, 6);
    let dense = PointShell::build(&mesh, ShellParams::points(30_000)).expect("a ball");
    let cloud: Vec<OrientedPoint> = (0..dense.len)
        .map(|i| OrientedPoint {
            at: dense.position(i),
            outward: -Vec3::new(f64::from(dense.nx[i]), f64::from(dense.ny[i]), f64::from(dense.nz[i])) * 3.0,
        })
        .collect();
    let shell = PointShell::from_cloud(&cloud, None, ShellParams::points(5000)).expect("a cloud");
    close("area", shell.total_area, 4.0 * PI * 0.0004, 0.1);
    let exact =
        PointShell::from_cloud(&cloud, Some(4.0 * PI * 0.0004), ShellParams::points(5000)).expect("a cloud");
    let h = 0.005;
    let c = ask(&ToolShape::Shell(Arc::new(exact)), &at(0.0, 0.0, 0.02 - h), &floor());
    close("cap", c.wrench.force.z, PRESSURE * PI * h * h * (0.06 - h) / 3.0, 0.03);
    assert!(PointShell::from_cloud(&cloud[..5], None, ShellParams::points(5)).is_err());
    assert!(PointShell::from_cloud(&cloud, None, ShellParams::points(40_000)).is_err());
}

/// With no hand: a mass on the felt spring, one sample of delay in the force, the device's own damping. The factor
/// is recomputed each tick as the servo does.
#[test]
fn capped_contacts_stay_stable_without_a_hand_from_1_to_100_square_centimetres() {
    // 0.1 kg, 1 N s/m, force delayed by one sample: stable up to 668 N/m (linear analysis, exact hold).
    let (mass, device_damping, dt, limit) = (0.1, 1.0, 1e-3, 500.0);
    let object = floor();
    let stiff = Material {
        stiffness: 3000.0,
        reference_area: 1e-4,
        damping: 0.0,
        friction: Friction::NONE,
        texture: Texture::NONE,
    };
    let mut cases = vec![];
    for side in [0.01, 0.03, 0.1] {
        let tool = shell(&shapes::cuboid(Vec3::new(side, side, 0.02)), 6000);
        cases.push((format!("face of {side} m"), tool, UnitQuaternion::identity()));
    }
    let cube = shell(&shapes::cuboid(Vec3::repeat(0.04)), 6000);
    cases.push(("edge".into(), cube.clone(), UnitQuaternion::from_scaled_axis(Vec3::x() * PI / 4.0)));
    let diagonal = Rotation3::rotation_between(&Vec3::repeat(1.0), &-Vec3::z()).expect("not opposite");
    cases.push(("vertex".into(), cube, UnitQuaternion::from_rotation_matrix(&diagonal)));
    for (name, tool, turn) in cases {
        let ToolShape::Shell(points) = &tool else { panic!("a shell") };
        let lowest = (0..points.len).map(|i| (turn * points.position(i)).z).fold(f64::INFINITY, f64::min);
        // Dropped at 0.1 m/s under 1 N.
        let (mut z, mut v, mut applied) = (1e-3 - lowest, -0.1, 0.0);
        let mut early: f64 = 0.0;
        let mut late: f64 = 0.0;
        for tick in 0..4000 {
            let pose = Pose::from_parts(Translation3::new(0.0, 0.0, z), turn);
            let c =
                ask_with(&tool, &pose, &Twist::ZERO, &object, &Pose::identity(), &stiff, Budget::UNLIMITED);
            let factor = felt_stiffness_cap(&c.stiffness, limit, f64::INFINITY);
            for _ in 0..10 {
                v += (applied - 1.0 - device_damping * v) / mass * dt / 10.0;
                z += v * dt / 10.0;
            }
            applied = c.wrench.force.z * factor;
            let speed = f64::abs(v);
            if tick < 1000 {
                early = early.max(speed);
            } else if tick >= 3000 {
                late = late.max(speed);
            }
        }
        println!("{name}: peak speed {early:.3} m/s, after 3 s {late:.2e} m/s");
        assert!(late < 0.02 * early, "{name} does not settle: {early} {late}");
    }
}

/// Sums and forces of a few points, along whose depth gradients the force goes, over borders between the object's cells: the
/// gradient of the interpolation leaps there by a cell over the radius, and beside an edge by as much as the edge turns.
#[test]
fn a_few_points_feel_no_borders_of_the_cells() {
    let ball = Field::from_fn(Point::new(-0.04, -0.04, -0.04), 0.004, [21; 3], |p| 0.03 - p.coords.norm());
    // Exact depth of a quarter space x < 0, z < 0: its edge lies along y.
    let edge = Field::from_fn(Point::new(-0.0405, -0.0405, -0.0405), 0.001, [80; 3], |p| {
        let out = Vec3::new(p.x.max(0.0), 0.0, p.z.max(0.0)).norm();
        if out > 0.0 { -out } else { -p.x.max(p.z) }
    });
    // The ball over borders of its cells, half a millimetre deep; over the edge, a third of a cell deep.
    let over_ball = |s: f64| {
        let z = (0.0355f64.powi(2) - 0.002f64.powi(2) - s * s).sqrt();
        turned(Vec3::y(), 0.3, s, 0.002, z)
    };
    let over_edge = |s: f64| turned(Vec3::y(), 0.3, s - 0.003, 0.002, 0.00567);
    type Slide<'a> = &'a dyn Fn(f64) -> Pose;
    let cases: [(&str, Field, Slide<'_>); 2] = [("ball", ball, &over_ball), ("edge", edge, &over_edge)];
    for (name, field, pose) in cases {
        let object = ObjectShape::Field(Arc::new(field));
        for (points, units) in [(200, 0), (3000, 0), (30_000, 1500)] {
            for law in [ForceLaw::Pressure(Normals::Shell), ForceLaw::Pressure(Normals::Field)] {
                let built = PointShell::build(&shapes::icosphere(0.006, 4), ShellParams::points(points));
                let tool = ToolShape::Shell(Arc::new(built.expect("a proper mesh").with_law(law)));
                let budget = Budget { units, deadline: None };
                let (mut last, mut most, mut peak): (Option<Vec3>, f64, f64) = (None, 0.0, 0.0);
                for k in 0..2500 {
                    let pose = pose(1e-3 + f64::from(k) * 1e-6);
                    let c =
                        ask_with(&tool, &pose, &Twist::ZERO, &object, &Pose::identity(), &MATERIAL, budget);
                    let force = c.wrench.force;
                    peak = peak.max(force.norm());
                    if let Some(last) = last.replace(force) {
                        most = most.max((force - last).norm());
                    }
                }
                println!(
                    "{name}, {points} points, {units} units, {law:?}: {peak:.3} N, {:.3} %",
                    100.0 * most / peak
                );
                assert!(peak > 0.01, "{name} {points}: {peak} N");
                // A micrometre changes what presses, and turns a gradient that turns within a cell, by less than this.
                assert!(
                    most < 0.01 * peak,
                    "{name}, {points} points, {law:?}: leaps by {:.2} %",
                    100.0 * most / peak
                );
            }
        }
    }
}

/// Points of all faces that meet at a corner or edge of a tool lie at one place: the one that pushes is listed, as deep as the deepest.
#[test]
fn what_presses_at_an_edge_is_listed() {
    let floor = floor();
    for points in [300, 3000, 30_000] {
        let tool = shell(&shapes::cuboid(Vec3::new(0.04, 0.03, 0.01)), points);
        for k in 0..60 {
            let tilt = Vec3::new(random(k, 1) - 0.5, random(k, 2) - 0.5, 0.0).normalize();
            let pose = turned(tilt, 1e-3 + 0.5 * random(k, 3), 0.0, 0.0, 0.0);
            // The lowest corner lies a tenth of a millimetre deep.
            let low = [-1.0, 1.0]
                .iter()
                .flat_map(|x| [-1.0, 1.0].iter().flat_map(move |y| [-1.0, 1.0].map(|z| (*x, *y, z))));
            let low = low
                .map(|(x, y, z)| (pose * Point::new(0.02 * x, 0.015 * y, 0.005 * z)).z)
                .fold(f64::INFINITY, f64::min);
            let c = ask(&tool, &turned(tilt, 1e-3 + 0.5 * random(k, 3), 0.0, 0.0, -low - 1e-4), &floor);
            assert!(c.touching && c.n_points > 0, "{points} {k}: {c:?}");
            assert!(
                (c.points[0].depth - c.depth).abs() < 1e-6,
                "{points} {k}: {} of {}",
                c.points[0].depth,
                c.depth
            );
            assert!((c.depth - 1e-4).abs() < 2e-6, "{points} {k}: {}", c.depth);
        }
    }
}
