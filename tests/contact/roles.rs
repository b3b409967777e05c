//! The object as the shell: its points ask the tool's field.

use super::{MATERIAL, PRESSURE, at, close, question, random, turned, wrench};
use hapticd::contact::roles::Sampled;
use hapticd::contact::vps::{PointShell, ShellParams};
use hapticd::contact::{Budget, Contact, Material, ObjectShape, Query, QueryState, ToolShape, query};
use hapticd::geometry::field::Field;
use hapticd::geometry::field::build::{FieldParams, Resolution, Silent, build};
use hapticd::geometry::{Pose, TriMesh, Twist, Vec3, shapes};
use nalgebra::{Matrix6, Vector6};
use std::sync::Arc;

fn field(mesh: &TriMesh, cell: f64) -> Arc<Field> {
    let params = FieldParams { resolution: Resolution::Cell(cell), padding: 6 };
    Arc::new(build(mesh, &params, &Silent).expect("a field").0)
}

fn points(mesh: &TriMesh, n: u32) -> Arc<PointShell> {
    Arc::new(PointShell::build(mesh, ShellParams::points(n)).expect("a proper mesh"))
}

/// An object as points against a tool's field.
fn sampled(object: &TriMesh, n: u32, tool: &TriMesh, cell: f64) -> ObjectShape {
    ObjectShape::Sampled(Arc::new(Sampled::new(points(object, n), field(tool, cell), field(object, cell))))
}

struct Pair {
    tool: ToolShape,
    object: ObjectShape,
}

impl Pair {
    fn ask_moving(
        &self,
        [tool, object]: [&Pose; 2],
        [tool_twist, object_twist]: [&Twist; 2],
        material: &Material,
    ) -> Contact {
        let q = Query {
            tool: &self.tool,
            tool_pose: tool,
            tool_twist,
            object: &self.object,
            object_pose: object,
            object_twist,
            material,
        };
        query(&q, Budget::UNLIMITED, &mut QueryState::default())
    }

    fn ask(&self, tool: &Pose, object: &Pose) -> Contact {
        self.ask_moving([tool, object], [&Twist::ZERO; 2], &MATERIAL)
    }
}

/// A plate of 200 mm as the tool above a cube of 20 mm, both about their origins.
fn plate_and_cube() -> (TriMesh, TriMesh) {
    (shapes::cuboid(Vec3::new(0.2, 0.2, 0.02)), shapes::cuboid(Vec3::repeat(0.02)))
}

#[test]
fn a_cube_pushes_a_plate_off_with_k_a_h_at_its_lever() {
    let (plate, cube) = plate_and_cube();
    let pair =
        Pair { tool: ToolShape::Shell(points(&plate, 500)), object: sampled(&cube, 2000, &plate, 0.002) };
    let area = 0.02 * 0.02;
    for (x, y, h) in [(0.0, 0.0, 5e-4), (0.05, 0.03, 5e-4), (-0.06, 0.02, 1e-3)] {
        // The plate's lower face lies h below the cube's upper one.
        let c = pair.ask(&at(0.0, 0.0, 0.02 - h), &at(x, y, 0.0));
        let force = PRESSURE * area * h;
        close("force", c.wrench.force.z, force, 5e-3);
        assert!(c.touching && (c.depth - h).abs() < 1e-5, "{}", c.depth);
        // About the plate's centre: the push acts at (x, y).
        let torque = Vec3::new(y * force, -x * force, 0.0);
        assert!((c.wrench.torque - torque).norm() < 6e-3 * force * 0.1, "{} {torque}", c.wrench.torque);
        // Its stiffness about the same point: k A (1, y, -x) for moving along z.
        let k = PRESSURE * area;
        close("k A", c.stiffness[(2, 2)], k, 0.02);
        assert!((c.stiffness[(2, 3)] - k * y).abs() < 0.02 * k * 0.1, "{}", c.stiffness[(2, 3)]);
        assert!((c.stiffness[(2, 4)] + k * x).abs() < 0.02 * k * 0.1, "{}", c.stiffness[(2, 4)]);
        for p in &c.points[..c.n_points.into()] {
            assert!(p.normal.z > 0.99 && (p.position.z - 0.01).abs() < 1e-6, "{p:?}");
        }
    }
    // Apart: the same gap as seen from either side.
    let c = pair.ask(&at(0.0, 0.0, 0.025), &at(0.0, 0.0, 0.0));
    assert!(!c.touching && c.distance.is_some_and(|d| (d - 0.005).abs() < 1e-4), "{:?}", c.distance);
    assert_eq!(c.wrench.force, Vec3::zeros());
}

/// What an exchange is for: a pin between the points of a large tool.
#[test]
fn a_pin_between_the_tools_points_is_felt() {
    let plate = shapes::cuboid(Vec3::new(0.2, 0.2, 0.02));
    let pin = shapes::cuboid(Vec3::new(0.002, 0.002, 0.02));
    // 500 points lie 14 mm apart.
    let tool = ToolShape::Shell(points(&plate, 500));
    let as_field = Pair { tool: tool.clone(), object: ObjectShape::Field(field(&pin, 0.0004)) };
    let as_points = Pair { tool, object: sampled(&pin, 500, &plate, 0.002) };
    let (h, area) = (3e-4, 4e-6);
    let (mut missed, mut n) = (0, 0);
    for k in 0..200 {
        let object = at(0.15 * (random(k, 1) - 0.5), 0.15 * (random(k, 2) - 0.5), 0.0);
        let tool = at(0.0, 0.0, 0.02 - h);
        missed += u32::from(!as_field.ask(&tool, &object).touching);
        let c = as_points.ask(&tool, &object);
        close("force", c.wrench.force.z, PRESSURE * area * h, 0.02);
        n += 1;
    }
    assert!(missed > n / 2, "the plate's own points miss the pin: {missed} of {n}");
}

/// Face on face the roles tell the same of two blocks anywhere in the scene, but for a strip along the edges of the face, as wide
/// as the press is deep and the cells are large, in which the tool's own side faces are nearer.
#[test]
fn either_role_tells_the_same_of_two_blocks_face_on_face() {
    let (block, tool) =
        (shapes::cuboid(Vec3::new(0.05, 0.04, 0.03)), shapes::cuboid(Vec3::new(0.03, 0.03, 0.05)));
    let (mine, shell) = (ObjectShape::Field(field(&block, 0.0005)), ToolShape::Shell(points(&tool, 30_000)));
    let mine = Pair { tool: shell.clone(), object: mine };
    let other = Pair { tool: shell, object: sampled(&block, 30_000, &tool, 0.0005) };
    for k in 0..20 {
        let axis = Vec3::new(random(k, 3) - 0.5, random(k, 4) - 0.5, random(k, 5) - 0.5);
        let object = turned(axis, 3.0 * random(k, 6), 0.1, -0.05, 0.2);
        let (x, y) = (0.01 * (random(k, 1) - 0.5), 0.006 * (random(k, 2) - 0.5));
        let pose = object * at(x, y, 0.04 - 5e-4);
        let (a, b) = (mine.ask(&pose, &object), other.ask(&pose, &object));
        let (f, g) = (a.wrench.force, b.wrench.force);
        let strip = PRESSURE * 5e-4 * 4.0 * 0.03 * (5e-4 + 5e-4);
        close("the tool's points", f.norm(), PRESSURE * 9e-4 * 5e-4, 0.01);
        assert!((f - g).norm() < strip && g.cross(&f).norm() < 0.01 * f.norm_squared(), "{f} {g}");
        let (s, t) = (a.wrench.torque, b.wrench.torque);
        assert!((s - t).norm() < 0.03 * strip, "{s} {t}");
        assert!((a.depth - b.depth).abs() < 2e-5, "{} {}", a.depth, b.depth);
    }
}

#[test]
fn its_stiffness_is_that_of_the_tools_motion() {
    let (plate, cube) = plate_and_cube();
    let pair =
        Pair { tool: ToolShape::Shell(points(&plate, 500)), object: sampled(&cube, 20_000, &plate, 0.002) };
    let object = turned(Vec3::new(1.0, 0.3, 0.1), 0.4, 0.04, -0.03, 0.0);
    let tool = turned(Vec3::new(0.1, 1.0, 0.3), 0.1, 0.0, 0.0, 0.018);
    let c = pair.ask(&tool, &object);
    assert!(c.touching, "{:?}", c.distance);
    let (step, lever) = (2e-5, 0.1);
    let mut k = Matrix6::zeros();
    for j in 0..6 {
        let moved = |h: f64| {
            let mut d = Vector6::zeros();
            d[j] = if j < 3 { h } else { h / lever };
            let turn = nalgebra::UnitQuaternion::from_scaled_axis(Vec3::new(d[3], d[4], d[5]));
            let shift = tool.translation.vector + Vec3::new(d[0], d[1], d[2]);
            wrench(&pair.ask(&Pose::from_parts(shift.into(), turn * tool.rotation), &object))
        };
        let slope = (moved(step) - moved(-step)) / (2.0 * step);
        k.set_column(j, &(-slope * if j < 3 { 1.0 } else { lever }));
    }
    let unit = |i: usize| if i < 3 { 1.0 } else { 1.0 / lever };
    let scaled = |m: &Matrix6<f64>| Matrix6::from_fn(|i, j| m[(i, j)] * unit(i) * unit(j));
    let (ours, theirs) = (scaled(&c.stiffness), scaled(&((k + k.transpose()) * 0.5)));
    let e = theirs.symmetric_eigen();
    let positive = e.eigenvectors
        * Matrix6::from_diagonal(&e.eigenvalues.map(|v| v.max(0.0)))
        * e.eigenvectors.transpose();
    let error = (ours - positive).norm() / positive.norm();
    assert!(error < 0.05, "{error}\n{ours}\n{positive}");
    assert!(ours.symmetric_eigenvalues().min() >= -1e-6 * ours.norm());
}

/// A sheet as the tool, pushed slowly through by a cube that is sampled: the side is kept, the force goes on growing, and lets go in front.
#[test]
fn the_side_is_kept_through_the_exchange() {
    let sheet = shapes::cuboid(Vec3::new(0.08, 0.08, 0.002));
    let cube = shapes::cuboid(Vec3::repeat(0.01));
    let pair =
        Pair { tool: ToolShape::Shell(points(&sheet, 300)), object: sampled(&cube, 600, &sheet, 0.0005) };
    let mut state = QueryState::following();
    let mut ask = |z: f64| {
        let (tool, object) = (at(0.0, 0.0, 0.0), at(0.0, 0.0, z));
        query(&question(&pair.tool, &tool, &pair.object, &object), Budget::UNLIMITED, &mut state)
            .wrench
            .force
            .z
    };
    // From above: the sheet is pushed down, by more and more, far beyond its middle.
    let mut last = 0.0f64;
    for k in 0..400 {
        let depth = 1e-5 * f64::from(k) - 1e-3;
        let force = ask(0.006 - depth);
        if depth > 5e-4 {
            assert!(force < 0.0, "{depth}: {force}");
        }
        if depth > 1.5e-3 {
            assert!(force <= last + 0.05 * last.abs(), "{depth}: {force} after {last}");
        }
        last = force;
    }
    // Without a memory the far side would have pushed it on. Back the way it came, never up, and nothing in front.
    for k in (-150..400).rev() {
        let depth = 1e-5 * f64::from(k) - 1e-3;
        let force = ask(0.006 - depth);
        assert!(force <= 0.0 && (depth > -1e-3 || force == 0.0), "{depth}: {force}");
    }
}

/// Power of the damping: never positive, whichever of the two moves, and as large for either.
#[test]
fn damping_brakes_the_tool_whichever_of_the_two_moves() {
    let (plate, cube) = plate_and_cube();
    let pair =
        Pair { tool: ToolShape::Shell(points(&plate, 500)), object: sampled(&cube, 2000, &plate, 0.002) };
    let damped = Material { damping: 5.0, ..MATERIAL };
    let poses = [&at(0.0, 0.0, 0.02 - 1e-3), &at(0.03, 0.02, 0.0)];
    let rest = pair.ask_moving(poses, [&Twist::ZERO; 2], &damped);
    let down = Twist { linear: Vec3::new(0.0, 0.0, -0.05), angular: Vec3::zeros() };
    let up = Twist { linear: -down.linear, angular: Vec3::zeros() };
    let (tool_moves, object_moves) = (
        pair.ask_moving(poses, [&down, &Twist::ZERO], &damped),
        pair.ask_moving(poses, [&Twist::ZERO, &up], &damped),
    );
    let more = tool_moves.wrench.force.z - rest.wrench.force.z;
    // c / A_ref times the face's area, times the speed.
    close("damping", more, 5.0 / 1e-4 * 4e-4 * 0.05, 0.02);
    assert_eq!(tool_moves.wrench, object_moves.wrench);
    // Drawn apart, nothing holds it.
    let apart = pair.ask_moving(poses, [&up, &Twist::ZERO], &damped);
    assert_eq!(apart.wrench, rest.wrench);
}
