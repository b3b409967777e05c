//! What is written comes back, in every format, and another reader agrees.

use super::*;
use hapticd::geometry::import::{Format, ImportOptions, import};
use hapticd::geometry::{mass::mass_properties, shapes};
use proptest::prelude::*;

fn bodies() -> Vec<(&'static str, TriMesh)> {
    vec![
        ("cuboid", shapes::cuboid(hapticd::geometry::Vec3::new(0.1, 0.06, 0.04))),
        ("icosphere", shapes::icosphere(0.05, 3)),
        ("uv_sphere", shapes::uv_sphere(0.05, 24, 12)),
        ("cylinder", shapes::cylinder(0.02, 0.1, 48)),
        ("torus", shapes::torus(0.06, 0.02, 48, 24)),
        ("hollow_sphere", shapes::hollow_sphere(0.05, 0.03, 2)),
        ("keyed_pin", shapes::keyed_pin(&shapes::PinShape::default())),
        ("keyed_hole", shapes::keyed_hole(&shapes::HoleShape::default())),
    ]
}

#[test]
fn every_format_brings_back_the_same_mesh() {
    for (name, mesh) in bodies() {
        for (bytes, format) in [
            (obj(&mesh).into_bytes(), Format::Obj),
            (ply(&mesh, Encoding::Ascii, "\n"), Format::Ply),
            (ply(&mesh, Encoding::Little, "\r\n"), Format::Ply),
            (ply(&mesh, Encoding::Big, "\n"), Format::Ply),
        ] {
            let got = load(bytes, format).unwrap();
            assert_eq!(got.mesh, mesh, "{name}: double coordinates come back bit for bit");
            assert!(got.report.repairs().is_empty() && got.report.defects().is_empty(), "{name}");
        }
        let got = load(ascii_stl(&mesh), Format::Stl).unwrap();
        assert_eq!(
            (got.mesh.vertices.len(), got.mesh.triangles.len()),
            (mesh.vertices.len(), mesh.triangles.len())
        );
        for t in 0..mesh.triangles.len() {
            assert_eq!(got.mesh.corners(t), mesh.corners(t), "{name}");
        }
    }
}

#[test]
fn binary_stl_comes_back_within_single_precision() {
    for (name, mesh) in bodies() {
        let got = load(shapes::write_stl(&mesh), Format::Stl).unwrap();
        assert_eq!(got.mesh.vertices.len(), mesh.vertices.len(), "{name}");
        assert_eq!(got.report.contradicting_normals, 0, "{name}");
        let (a, b) = (mass_properties(&got.mesh), mass_properties(&mesh));
        near(a.volume, b.volume, 1e-6);
        assert!((a.inertia - b.inertia).norm() < 1e-6 * b.inertia.norm(), "{name}");
        for t in 0..mesh.triangles.len() {
            for (p, q) in got.mesh.corners(t).iter().zip(mesh.corners(t)) {
                assert!((p - q).norm() <= 2e-7 * q.coords.norm(), "{name}");
            }
        }
        // Written again, the file is the same: single precision is a fixed point.
        assert_eq!(
            shapes::write_stl(&got.mesh),
            shapes::write_stl(&load(shapes::write_stl(&got.mesh), Format::Stl).unwrap().mesh)
        );
    }
}

/// tobj, an independent OBJ reader, on real files.
#[test]
fn another_obj_reader_sees_the_same_surface() {
    for name in ["teapot.obj", "truck.obj"] {
        let Some(path) = models::shared("models/messy").map(|p| p.join(name)) else { return };
        let bytes = std::fs::read(&path).unwrap();
        let options = tobj::LoadOptions { triangulate: true, single_index: true, ..Default::default() };
        let (theirs, _) =
            tobj::load_obj_buf(&mut bytes.as_slice(), &options, |_| Err(tobj::LoadError::OpenFileFailed))
                .unwrap();
        let mut area = 0.0;
        let mut triangles = 0;
        for m in &theirs {
            let at = |i: u32| {
                let p = &m.mesh.positions[3 * i as usize..3 * i as usize + 3];
                hapticd::geometry::Vec3::new(f64::from(p[0]), f64::from(p[1]), f64::from(p[2]))
            };
            triangles += m.mesh.indices.len() / 3;
            for t in m.mesh.indices.chunks_exact(3) {
                area += (at(t[1]) - at(t[0])).cross(&(at(t[2]) - at(t[0]))).norm() / 2.0;
            }
        }
        let ours = import(name, &bytes, Format::Obj, &ImportOptions::in_unit(1.0)).unwrap().report;
        assert_eq!(ours.file_triangles, triangles, "{name}");
        near(ours.area, area, 1e-5);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]
    /// Any soup of triangles on a small lattice: indices stay in range, nothing flat or double stays, area never grows.
    #[test]
    fn any_soup_becomes_a_valid_mesh(raw in prop::collection::vec(prop::array::uniform3((0..4_i8, 0..4_i8, 0..4_i8)), 1..60)) {
        let f: Vec<_> = raw.iter().map(|t| t.map(|p| [f32::from(p.0), f32::from(p.1), f32::from(p.2)])).collect();
        let Ok(got) = load(binary_stl(b"", f.len() as u32, &f), Format::Stl) else { return Ok(()) };
        let n = got.mesh.vertices.len() as u32;
        let mut keys = std::collections::HashSet::new();
        for (t, tri) in got.mesh.triangles.iter().enumerate() {
            prop_assert!(tri.iter().all(|i| *i < n));
            let [a, b, c] = got.mesh.corners(t);
            prop_assert!((b - a).cross(&(c - a)).norm() > 0.0);
            let mut key = *tri;
            key.sort_unstable();
            prop_assert!(keys.insert(key));
        }
        let total: f64 = f.iter().map(|t| {
            let [a, b, c] = t.map(|p| hapticd::geometry::Vec3::from(p.map(f64::from)));
            (b - a).cross(&(c - a)).norm() / 2.0
        }).sum();
        prop_assert!(got.report.area <= total * (1.0 + 1e-12));
        prop_assert!(got.report.solid_volume.is_finite() && got.report.solid_volume >= -1e-9);
    }
}
