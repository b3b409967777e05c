//! The place where tool and object are nearest, as each method's answer leaves it, against the exact gap of a cube over a slab.

use super::MATERIAL;
use hapticd::contact::ist::{IstParams, Solid, SphereTree};
use hapticd::contact::near::{Near, near};
use hapticd::contact::roles::Sampled;
use hapticd::contact::vps::{PointShell, ShellParams};
use hapticd::contact::{Budget, Contact, ObjectShape, Query, QueryState, ToolShape, query};
use hapticd::geometry::field::Field;
use hapticd::geometry::field::build::{FieldParams, Resolution, Silent, build};
use hapticd::geometry::{Point, Pose, TriMesh, Twist, Vec3, shapes};
use std::sync::Arc;

/// A cell of the fields, m.
const CELL: f64 = 1e-3;

fn field(mesh: &TriMesh) -> Arc<Field> {
    let params = FieldParams { resolution: Resolution::Cell(CELL), padding: 8 };
    Arc::new(build(mesh, &params, &Silent).expect("closed").0)
}

fn points(mesh: &TriMesh, n: u32) -> Arc<PointShell> {
    Arc::new(PointShell::build(mesh, ShellParams::points(n)).expect("closed"))
}

/// A slab with its upper face at y = 0, and a cube of 2 cm as every kind of tool against it.
fn pairs() -> Vec<(&'static str, ToolShape, ObjectShape)> {
    let mut slab = shapes::cuboid(Vec3::new(0.08, 0.02, 0.08));
    slab.vertices.iter_mut().for_each(|v| v.y -= 0.01);
    let cube = shapes::cuboid(Vec3::repeat(0.02));
    let shell = points(&cube, 2000);
    let tree = SphereTree::build(&cube, &IstParams::spheres(2000), &Silent).expect("builds");
    let tree = Arc::new(tree);
    let plain = field(&slab);
    let solid = Solid::new(&slab, plain.clone(), &|| false).expect("never stopped");
    let solid = ObjectShape::Solid(Arc::new(solid));
    let sampled = Sampled::new(points(&slab, 8000), field(&cube), plain.clone());
    vec![
        ("ball", ToolShape::Sphere { radius: 0.01 }, ObjectShape::Field(plain.clone())),
        ("points", ToolShape::Shell(shell.clone()), ObjectShape::Field(plain.clone())),
        ("both against a field", ToolShape::Both(shell.clone(), tree.clone()), ObjectShape::Field(plain)),
        ("spheres", ToolShape::Spheres(tree.clone()), solid.clone()),
        ("both against a solid", ToolShape::Both(shell.clone(), tree), solid),
        ("the object's points", ToolShape::Shell(shell), ObjectShape::Sampled(Arc::new(sampled))),
    ]
}

fn ask(
    tool: &ToolShape,
    object: &ObjectShape,
    at: &Pose,
    frame: &Pose,
    state: &mut QueryState,
) -> (Contact, Option<Near>) {
    let q = Query {
        tool,
        tool_pose: &(frame * at),
        tool_twist: &Twist::ZERO,
        object,
        object_pose: frame,
        object_twist: &Twist::ZERO,
        material: &MATERIAL,
    };
    let contact = query(&q, Budget::UNLIMITED, state);
    (contact, near(&q, &contact, state))
}

/// Down from 4 mm above to 0.5 mm inside, on a face and on a corner, wherever the two stand in the scene.
#[test]
fn it_is_the_exact_gap_along_the_face_s_normal() {
    let corner = Pose::new(Vec3::zeros(), Vec3::new(0.5, 0.1, 0.9));
    for (name, tool, object) in &pairs() {
        for (turn, frame) in [
            (Pose::identity(), Pose::identity()),
            (corner, Pose::new(Vec3::new(0.3, -0.2, 0.1), Vec3::new(1.0, 2.0, -0.5))),
        ] {
            let half = match tool {
                ToolShape::Sphere { radius } => *radius,
                _ => {
                    let corners =
                        (0..8).map(|i| Vec3::from_fn(|a, _| if i >> a & 1 == 0 { 0.01 } else { -0.01 }));
                    -corners.map(|c| (turn * Point::from(c)).y).fold(f64::MAX, f64::min)
                }
            };
            let mut state = QueryState::default();
            for k in 0..=90 {
                let gap = 4e-3 - 5e-5 * f64::from(k);
                let at = Pose::translation(2e-3, half + gap, -1e-3) * turn;
                let (_, found) = ask(tool, object, &at, &frame, &mut state);
                let found = found.unwrap_or_else(|| panic!("{name} at {gap}: nothing"));
                // Points lie up to their spacing from the corner; of an object's points the same.
                let short = if *name == "ball" { 0.0 } else { 8e-4 };
                let error = 0.1 * CELL;
                assert!(
                    found.gap >= gap - error && found.gap <= gap + short + error,
                    "{name} at {gap}: {}",
                    found.gap
                );
                let up = frame.rotation.inverse() * found.normal;
                assert!(up.y > 0.9 && (up.norm() - 1.0).abs() < 1e-9, "{name} at {gap}: {up}");
                // One on the tool's surface, one on the slab's.
                let [on_tool, on_slab] = found.witnesses().map(Point::from);
                let on_tool = (frame * at).inverse_transform_point(&on_tool).coords;
                let off_tool = match tool {
                    ToolShape::Sphere { radius } => on_tool.norm() - radius,
                    _ => on_tool.amax() - 0.01,
                };
                let off_slab = frame.inverse_transform_point(&on_slab).y;
                // Points of sphere trees are the meshes' own while the two are apart.
                let own = name.contains("spheres") || name.contains("solid");
                let error = if own && gap > 1e-9 { 1e-12 } else { error };
                assert!(off_tool.abs() <= error, "{name} at {gap}: {off_tool} off the tool");
                assert!(off_slab.abs() <= error, "{name} at {gap}: {off_slab} off the slab");
            }
        }
    }
}

/// Through the micrometres in which triangles touch and the field, of cells of a millimetre, does not know yet: always the way out.
#[test]
fn the_way_out_does_not_turn_over_where_only_the_triangles_touch() {
    let (ball, tool) = (shapes::icosphere(0.01, 5), shapes::icosphere(0.008, 5));
    let solid = Solid::new(&ball, field(&ball), &|| false).expect("never stopped");
    let object = ObjectShape::Solid(Arc::new(solid));
    let tree = SphereTree::build(&tool, &IstParams::spheres(2000), &Silent).expect("builds");
    let tool = ToolShape::Spheres(Arc::new(tree));
    let (mut apart, mut unfelt, mut felt) = (0, 0, 0);
    for out in [Vec3::new(0.3, 0.9, 0.2), Vec3::new(-0.5, 0.1, 0.8), Vec3::new(0.0, -1.0, 0.05)] {
        let out = out.normalize();
        let mut state = QueryState::default();
        for k in 0..=60 {
            let gap = 3e-5 - 1e-6 * f64::from(k);
            let pose = Pose::from(out * (0.018 + gap));
            let (contact, found) = ask(&tool, &object, &pose, &Pose::identity(), &mut state);
            match (contact.touching, contact.n_points) {
                (false, _) => apart += 1,
                (true, 0) => unfelt += 1,
                (true, _) => felt += 1,
            }
            let found = found.unwrap_or_else(|| panic!("{gap}: nothing"));
            assert!(found.normal.dot(&out) > 0.9, "{gap}: {found:?}");
            assert!((found.gap - gap).abs() < 4e-5, "{gap}: {found:?}");
        }
    }
    println!("{apart} apart, {unfelt} touch by their triangles alone, {felt} in the field");
    assert!(apart > 0 && unfelt + felt > 0);
}

#[test]
fn nothing_is_near_before_anything_was_asked_or_where_nothing_can_be() {
    for (name, tool, object) in &pairs() {
        let q = Query {
            tool,
            tool_pose: &Pose::translation(0.0, 0.02, 0.0),
            tool_twist: &Twist::ZERO,
            object,
            object_pose: &Pose::identity(),
            object_twist: &Twist::ZERO,
            material: &MATERIAL,
        };
        let nothing = hapticd::contact::Contact::none(None);
        let unasked = near(&q, &nothing, &QueryState::default());
        // A ball needs no search.
        assert_eq!(unasked.is_some(), *name == "ball", "{name}: {unasked:?}");
        let broken = Pose::translation(f64::NAN, 0.0, 0.0);
        let q = Query { tool_pose: &broken, ..q };
        assert_eq!(
            near(&q, &nothing, &QueryState { nearest: 1, closest: [1, 1], ..QueryState::default() }),
            None
        );
    }
}
