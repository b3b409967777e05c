//! Where a tool presses, as friction is told: against closed forms, and for nothing in the answer itself.

use super::{MATERIAL, PRESSURE, ask_with, at, close, floor, shell, turned, wrench};
use hapticd::contact::ist::{IstParams, Solid, SphereTree};
use hapticd::contact::roles::Sampled;
use hapticd::contact::vps::{PointShell, ShellParams};
use hapticd::contact::{Budget, Contact, Friction, Material, ObjectShape, Patch, ToolShape};
use hapticd::geometry::field::build::{FieldParams, Resolution, Silent, build};
use hapticd::geometry::{Pose, TriMesh, Twist, Vec3, shapes};
use std::sync::Arc;

const ROUGH: Material = Material { friction: Friction::of(0.5), ..MATERIAL };
const SIZE: f64 = 0.04;

fn there(c: &Contact) -> Vec<Patch> {
    let least = 1e-3 * c.wrench.force.norm();
    c.patches.iter().copied().filter(|p| p.press > least).collect()
}

fn asked(tool: &ToolShape, pose: &Pose, object: &ObjectShape, material: &Material, units: u32) -> Contact {
    let budget = Budget { units, deadline: None };
    ask_with(tool, pose, &Twist::ZERO, object, &Pose::identity(), material, budget)
}

fn solid(mesh: &TriMesh, cell: f64) -> ObjectShape {
    let (field, _) = build(mesh, &FieldParams { resolution: Resolution::Cell(cell), padding: 4 }, &Silent)
        .expect("builds");
    ObjectShape::Solid(Arc::new(Solid::new(mesh, Arc::new(field), &|| false).expect("never stopped")))
}

/// A slab with its upper face at z = 0.
fn slab() -> TriMesh {
    let mut mesh = shapes::cuboid(Vec3::new(0.12, 0.12, 0.03));
    mesh.vertices.iter_mut().for_each(|v| v.z -= 0.015);
    mesh
}

fn spheres(mesh: &TriMesh) -> ToolShape {
    ToolShape::Spheres(Arc::new(SphereTree::build(mesh, &IstParams::spheres(4000), &Silent).expect("builds")))
}

#[test]
fn a_flat_face_is_one_patch_with_all_of_the_force() {
    let cube = shapes::cuboid(Vec3::repeat(SIZE));
    for (name, tool, object) in
        [("points", shell(&cube, 8000), floor()), ("spheres", spheres(&cube), solid(&slab(), 0.002))]
    {
        for units in [0, 3000] {
            let h = 1e-3;
            let c = asked(&tool, &at(0.003, -0.002, 0.5 * SIZE - h), &object, &ROUGH, units);
            let [patch] = there(&c)[..] else { panic!("{name} {units}: {:?}", there(&c)) };
            let force = PRESSURE * SIZE * SIZE * h;
            close("press and force", patch.press, c.wrench.force.z, 0.02);
            if c.complete {
                close("press", patch.press, force, 2e-3);
            }
            close("stiffness", patch.stiffness, force / h, 0.08);
            assert!((patch.normal - Vec3::z()).norm() < 1e-2, "{name} {units}: {}", patch.normal);
            assert!(
                patch.centre.xy().norm() < if units == 0 { 2e-4 } else { 1e-3 },
                "{name} {units}: {}",
                patch.centre
            );
            assert!((patch.centre.z + 0.5 * SIZE).abs() < 2.5 * h, "{name} {units}: {}", patch.centre);
            // Of a square with sides 2a: sqrt(2/3) a, and a mean distance of 0.765 a.
            close("gyration", patch.gyration, (2.0f64 / 3.0).sqrt() * 0.5 * SIZE, 0.06);
            close("arm", patch.arm, 0.7652 * 0.5 * SIZE, if c.complete { 0.025 } else { 0.06 });
        }
    }
}

/// A pin that leans in its hole presses at the mouth and at the tip, on opposite sides: their forces cancel, what presses does not.
#[test]
fn a_leaning_pin_has_a_patch_at_either_end() {
    let (radius, hole) = (0.008, 0.0085);
    let depth = move |p: &hapticd::geometry::Point| (p.x.hypot(p.y) - hole).min(-p.z);
    let corner = hapticd::geometry::Point::new(-0.02, -0.02, -0.05);
    let field = hapticd::geometry::field::Field::from_fn(corner, 5e-4, [81, 81, 141], depth);
    let object = ObjectShape::Field(Arc::new(field));
    let pin = shell(&shapes::cylinder(radius, 0.08, 128), 20_000);
    // Its tip 40 mm deep; leaning by more than the play of 1 mm over that.
    for heading in [0.0f64, 0.4, 0.9, 2.0] {
        let axis = Vec3::new(-heading.sin(), heading.cos(), 0.0);
        let lean = turned(axis, 0.03, 0.0, 0.0, 0.0);
        // About the middle of what is in the hole, 20 mm deep.
        let pose =
            Pose::from_parts((lean.rotation * Vec3::z() * 0.02 - Vec3::z() * 0.02).into(), lean.rotation);
        let c = asked(&pin, &pose, &object, &ROUGH, 0);
        let found =
            there(&Contact { wrench: hapticd::geometry::Wrench { force: Vec3::x() * 0.1, ..c.wrench }, ..c });
        let press: f64 = found.iter().map(|p| p.press).sum();
        println!("{heading}: {press} N, force {}", c.wrench.force);
        assert!(press > 3.0 * c.wrench.force.norm(), "{heading}: {press} {}", c.wrench.force);
        let side = Vec3::new(heading.cos(), heading.sin(), 0.0);
        let end = |deep: bool| -> (f64, Vec3) {
            let of = found
                .iter()
                .filter(|p| ((pose * hapticd::geometry::Point::origin()).z + p.centre.z < -0.02) == deep);
            of.fold((0.0, Vec3::zeros()), |(n, f), p| (n + p.press, f + p.normal * p.press))
        };
        let ((mouth, up), (tip, down)) = (end(false), end(true));
        assert!((mouth / tip).ln().abs() < 0.3, "{heading}: {mouth} {tip}");
        // Opposite, along the way that it leans.
        assert!(up.dot(&side) * down.dot(&side) < 0.0, "{heading}: {up} {down}");
        assert!(
            up.normalize().dot(&side).abs() > 0.95 && down.normalize().dot(&side).abs() > 0.95,
            "{heading}"
        );
        for p in &found {
            assert!(p.press <= 1.02 * press && p.normal.z.abs() < 0.3, "{p:?}");
        }
    }
}

/// What is asked for friction changes no bit of the answer; without friction nothing is asked.
#[test]
fn patches_cost_the_answer_no_bit() {
    let torus = shapes::torus(0.02, 0.007, 64, 32);
    for (tool, object) in [(shell(&torus, 7777), floor()), (spheres(&torus), solid(&slab(), 0.002))] {
        let mut pressed = 0;
        for k in 0..60 {
            let pose = turned(Vec3::new(0.3, 1.0, 0.2), 0.05 * f64::from(k), 0.001, 0.0, 0.016);
            for units in [0, 500, 2500] {
                let (plain, rough) = (
                    asked(&tool, &pose, &object, &MATERIAL, units),
                    asked(&tool, &pose, &object, &ROUGH, units),
                );
                assert_eq!(wrench(&plain).map(f64::to_bits), wrench(&rough).map(f64::to_bits), "{k} {units}");
                assert_eq!(plain.stiffness, rough.stiffness);
                assert_eq!((plain.work, plain.need, plain.depth), (rough.work, rough.need, rough.depth));
                assert!(plain.patches.iter().all(|p| *p == Patch::NONE));
                pressed += usize::from(!there(&rough).is_empty());
            }
        }
        assert!(pressed > 60, "{pressed}");
    }
}

/// Asked the other way round the patches are the same ones, seen from the tool.
#[test]
fn exchanged_roles_give_the_patches_of_the_tool() {
    let plate = shapes::cuboid(Vec3::new(0.1, 0.1, 0.02));
    let cube = shapes::cuboid(Vec3::repeat(0.02));
    let field = |mesh: &TriMesh| {
        Arc::new(
            build(mesh, &FieldParams { resolution: Resolution::Cell(0.002), padding: 6 }, &Silent)
                .expect("builds")
                .0,
        )
    };
    let points = Arc::new(PointShell::build(&cube, ShellParams::points(3000)).expect("closed"));
    let object = ObjectShape::Sampled(Arc::new(Sampled::new(points, field(&plate), field(&cube))));
    let tool = shell(&plate, 500);
    let h = 5e-4;
    let place = at(0.02, -0.01, 0.0);
    let budget = Budget::UNLIMITED;
    let c = ask_with(&tool, &at(0.001, 0.002, 0.02 - h), &Twist::ZERO, &object, &place, &ROUGH, budget);
    let [patch] = there(&c)[..] else { panic!("{:?}", there(&c)) };
    close("press", patch.press, c.wrench.force.z, 0.02);
    assert!((patch.normal - Vec3::z()).norm() < 1e-3, "{}", patch.normal);
    // From the plate's origin to the middle of the cube's upper face.
    assert!((patch.centre - Vec3::new(0.019, -0.012, -0.01)).norm() < 1e-3, "{}", patch.centre);
    close("arm", patch.arm, 0.7652 * 0.01, 0.03);
}

/// What a floor bears is what rubs on it, however deep a tool is sunk and however thin it is.
#[test]
fn a_plate_sunk_deeper_than_it_is_thick_presses_with_its_force() {
    let plate = shapes::cuboid(Vec3::new(0.03, 0.03, 0.002));
    for depth in [1e-3, 2e-3, 5e-3, 10e-3] {
        let c = asked(&shell(&plate, 8000), &at(0.0, 0.0, 1e-3 - depth), &floor(), &ROUGH, 0);
        let press: f64 = c.patches.iter().map(|p| p.press).sum();
        close("press", press, c.wrench.force.z, 0.02);
    }
}

/// A face over an edge of a block: part of it hangs where the block's side is nearer. What presses goes over from tilt to tilt.
#[test]
fn tilting_over_an_edge_what_presses_does_not_leap() {
    let corner = hapticd::geometry::Point::new(-0.05, -0.05, -0.03);
    let depth = |p: &hapticd::geometry::Point| (-p.z).min(p.x);
    let block = hapticd::geometry::field::Field::from_fn(corner, 1e-3, [101, 101, 61], depth);
    let (block, cube) =
        (ObjectShape::Field(Arc::new(block)), shell(&shapes::cuboid(Vec3::repeat(0.02)), 6000));
    let press = |tilt: f64| {
        let pose = turned(Vec3::y(), tilt, 0.005, 0.0, 0.01 - 3.37e-3);
        let c = asked(&cube, &pose, &block, &ROUGH, 0);
        c.patches.iter().map(|p| p.press).sum::<f64>()
    };
    let flat = press(0.0);
    for tilt in [1e-5, 1e-4, 1e-3] {
        let (less, more) = (press(-tilt), press(tilt));
        assert!(
            (more - less).abs() < 0.02 * flat + 100.0 * tilt * flat,
            "{tilt}: {less} and {more} N, {flat} N flat"
        );
    }
}
