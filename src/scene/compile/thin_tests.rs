use super::super::Want;
use super::super::store::{Built, Memory};
use crate::geometry::field::build::{FieldParams, Resolution, Silent};
use crate::geometry::{Point, TriMesh, Vec3, shapes};
use crate::scene::cache::Cache;
use crate::scene::model::{GeometryDef, Meta, SourceMesh};

/// So much memory is left.
struct Left(u64);

impl Memory for Left {
    fn spare(&self) -> u64 {
        self.0
    }

    fn swap(&self, _: u64, taken: u64) -> bool {
        taken <= self.0
    }
}

fn note(mesh: TriMesh, scale: [f64; 3], resolution: Resolution) -> Option<String> {
    let params = FieldParams { resolution, padding: 4 };
    let def = GeometryDef {
        meta: Meta { id: 1, name: None, owner: 0, persistent: true },
        mesh: SourceMesh::new(mesh, "the body"),
        params,
        method: None,
        hold_thin: false,
    };
    let want = Want { id: Some(1), mesh: &def.mesh, scale: scale.into(), params, solid: false, hold: false };
    let (built, _) = Built::new(&want, &Cache::none(), &Left(0), &Silent, &mut Vec::new()).expect("builds");
    built.fine.note("the body")
}

fn turned(mut mesh: TriMesh) -> TriMesh {
    let askew = nalgebra::Rotation3::from_euler_angles(0.3, 0.4, 0.5);
    mesh.vertices.iter_mut().for_each(|v| *v = askew * *v);
    mesh
}

#[test]
fn a_body_flattened_out_of_its_field_is_named() {
    let body = || shapes::cuboid(Vec3::new(0.07, 0.066, 0.05));
    for scale in [
        [1e6, 1.0, 1e6],
        [-1e6, 1.0, 1e6],
        [1e6, -1.0, 1e6],
        [-1e6, -1.0, -1e6],
        [1.0, 1e-6, 1.0],
        [1e6, 1e6, 1.0],
        [1.0, 1e6, 1.0],
    ] {
        let text = note(body(), scale, Resolution::Longest(64)).unwrap_or_default();
        assert!(text.starts_with("the body: no node of its field lies inside it"), "{scale:?}: {text}");
        assert!(text.contains("thinnest wall spans") && text.contains("smaller cells"), "{scale:?}: {text}");
    }
    for scale in [[1e3, 1.0, 1e3], [-1e3, 1.0, 1e3], [100.0, 1.0, 100.0], [100.0, -1.0, 100.0]] {
        let text = note(body(), scale, Resolution::Longest(64)).unwrap_or_default();
        assert!(text.contains("thinnest wall spans"), "{scale:?}: {text}");
    }
}

/// The box of a plate that lies askew is large on all sides.
#[test]
fn thin_plates_are_named_however_they_lie() {
    for thick in [1e-3, 1e-5, 1e-7] {
        let plate = || shapes::cuboid(Vec3::new(0.4, 0.4, thick));
        for mesh in [plate(), turned(plate())] {
            let text = note(mesh, [1.0; 3], Resolution::Cell(0.02)).unwrap_or_default();
            assert!(text.contains("thinnest wall spans"), "{thick}: {text}");
        }
    }
    let plate = |cells: f64| shapes::cuboid(Vec3::new(0.4, 0.4, 0.02 * cells));
    let text = note(plate(1.5), [1.0; 3], Resolution::Cell(0.02)).expect("too thin");
    assert!(text.contains("spans 1.50 cells"), "{text}");
    assert_eq!(note(plate(2.5), [1.0; 3], Resolution::Cell(0.02)), None);
}

/// A flat square without thickness, askew.
#[test]
fn a_sheet_with_nothing_inside_is_named() {
    let p = |x, y| Point::new(x, y, 0.0);
    let vertices = vec![p(0.0, 0.0), p(0.1, 0.0), p(0.1, 0.1), p(0.0, 0.1)];
    let sheet = turned(TriMesh { vertices, triangles: vec![[0, 1, 2], [0, 2, 3]] });
    let text = note(sheet, [1.0; 3], Resolution::Longest(32)).unwrap_or_default();
    assert!(text.contains("cannot be felt") && text.contains("close its surface"), "{text}");
}

#[test]
fn ordinary_bodies_are_not_spoken_of() {
    let wire = shapes::cuboid(Vec3::new(0.1, 0.01, 0.01));
    for (name, mesh, cells) in [
        ("ball", shapes::icosphere(0.03, 3), 12),
        ("ball, fine", shapes::icosphere(0.03, 3), 64),
        ("cube", shapes::cuboid(Vec3::new(0.05, 0.05, 0.05)), 16),
        ("wire", turned(wire.clone()), 50),
        ("wire along the axis", wire, 50),
        ("torus", shapes::torus(0.06, 0.02, 48, 24), 48),
        ("hollow ball", shapes::hollow_sphere(0.05, 0.03, 3), 48),
    ] {
        for scale in [[1.0; 3], [-1.0, 1.0, 1.0], [3.0, 3.0, -3.0]] {
            assert_eq!(note(mesh.clone(), scale, Resolution::Longest(cells)), None, "{name} {scale:?}");
        }
    }
}
