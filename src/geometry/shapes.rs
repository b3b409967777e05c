//! Closed, consistently oriented meshes made from numbers: what the demo, the tests and the benches touch.
//!
//! Every shape winds anticlockwise seen from outside, shares its vertices and has no degenerate triangle. Curved
//! surfaces are inscribed: their vertices lie on the named radius. Counts below the smallest sensible value are
//! raised to it; lengths must be positive and finite.

mod keyed;
mod primitives;

pub use keyed::{HoleShape, Key, PinShape, keyed_hole, keyed_pin};
pub use primitives::{cuboid, cylinder, hollow_sphere, icosphere, torus, uv_sphere};

use super::TriMesh;

/// A binary STL of the mesh in metres (`f32`, little-endian, facet normals by the right-hand rule).
/// Coordinates are rounded to `f32`; STL carries no unit.
pub fn write_stl(mesh: &TriMesh) -> Vec<u8> {
    let mut out = Vec::with_capacity(84 + 50 * mesh.triangles.len());
    let mut header = [b' '; 80];
    let text = b"hapticd, metres";
    header[..text.len()].copy_from_slice(text);
    out.extend_from_slice(&header);
    out.extend_from_slice(&(mesh.triangles.len() as u32).to_le_bytes());
    for t in 0..mesh.triangles.len() {
        let [a, b, c] = mesh.corners(t);
        let normal = (b - a).cross(&(c - a)).try_normalize(0.0).unwrap_or_default();
        for v in [normal, a.coords, b.coords, c.coords] {
            for x in v.iter() {
                out.extend_from_slice(&(*x as f32).to_le_bytes());
            }
        }
        out.extend_from_slice(&[0, 0]);
    }
    out
}

/// The same shape with each triangle split in four in its own plane, at the middles of its sides.
pub fn quartered(mesh: &TriMesh) -> TriMesh {
    let mut middles = std::collections::BTreeMap::new();
    let mut finer = TriMesh { vertices: mesh.vertices.clone(), ..TriMesh::default() };
    for t in &mesh.triangles {
        let m: [u32; 3] = std::array::from_fn(|i| {
            let (a, b) = (t[i], t[(i + 1) % 3]);
            *middles.entry((a.min(b), a.max(b))).or_insert_with(|| {
                let (p, q) = (&mesh.vertices[a as usize], &mesh.vertices[b as usize]);
                finer.vertices.push(nalgebra::center(p, q));
                finer.vertices.len() as u32 - 1
            })
        });
        finer.triangles.extend([
            [t[0], m[0], m[2]],
            [m[0], t[1], m[1]],
            [m[2], m[1], t[2]],
            [m[0], m[1], m[2]],
        ]);
    }
    finer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{Vec3, mass::mass_properties};
    use std::collections::HashMap;
    use std::f64::consts::PI;

    /// Every directed edge once, its reverse once, no degenerate triangle, every vertex used.
    pub(super) fn assert_closed(mesh: &TriMesh) {
        let mut edges = HashMap::new();
        let mut used = vec![false; mesh.vertices.len()];
        for (t, tri) in mesh.triangles.iter().enumerate() {
            let [a, b, c] = mesh.corners(t);
            assert!((b - a).cross(&(c - a)).norm() > 0.0, "triangle {t} has no area");
            for k in 0..3 {
                used[tri[k] as usize] = true;
                *edges.entry((tri[k], tri[(k + 1) % 3])).or_insert(0) += 1;
            }
        }
        assert!(used.iter().all(|u| *u), "unused vertex");
        for (&(a, b), &n) in &edges {
            assert_eq!(n, 1, "edge {a} {b} is used {n} times in one direction");
            assert!(edges.contains_key(&(b, a)), "edge {a} {b} is open");
        }
    }

    fn euler(mesh: &TriMesh) -> i64 {
        mesh.vertices.len() as i64 - mesh.triangles.len() as i64 / 2
    }

    fn near(a: f64, b: f64, rel: f64) {
        assert!((a - b).abs() <= rel * b.abs(), "{a} is not {b} within {rel}");
    }

    #[test]
    fn all_shapes_are_closed_and_have_the_right_genus() {
        let (r, hole, pin) = (0.05, HoleShape::default(), PinShape::default());
        for (name, mesh, chi) in [
            ("cuboid", cuboid(Vec3::new(1.0, 2.0, 3.0)), 2),
            ("uv_sphere", uv_sphere(r, 24, 12), 2),
            ("icosphere", icosphere(r, 3), 2),
            ("cylinder", cylinder(r, 0.2, 32), 2),
            ("torus", torus(0.06, 0.02, 32, 16), 0),
            ("hollow_sphere", hollow_sphere(r, 0.03, 2), 4),
            ("keyed_pin", keyed_pin(&pin), 2),
            ("keyed_hole", keyed_hole(&hole), 0),
            ("pin", keyed_pin(&PinShape { key: None, ..pin }), 2),
            ("hole", keyed_hole(&HoleShape { key: None, ..hole }), 0),
            ("fine pin", keyed_pin(&PinShape { axial_step: 0.003, segments: 256, ..pin }), 2),
            ("fine hole", keyed_hole(&HoleShape { axial_step: 0.003, segments: 61, ..hole }), 0),
        ] {
            assert_closed(&mesh);
            assert_eq!(euler(&mesh), chi, "{name}");
            assert!(mass_properties(&mesh).volume > 0.0, "{name} is inside out");
        }
    }

    #[test]
    fn volumes_are_those_of_the_inscribed_polyhedra() {
        let polygon = |n: f64, r: f64| n / 2.0 * r * r * (2.0 * PI / n).sin();
        near(mass_properties(&cylinder(0.05, 0.2, 32)).volume, polygon(32.0, 0.05) * 0.2, 1e-12);
        // Pappus for a polygon swept in straight segments: area x length of the centroid's inscribed polygon.
        let (nu, nv) = (32.0_f64, 16.0);
        let swept = nu * (2.0 * PI / nu).sin() / 2.0;
        let mut sum = 0.0;
        for k in 0..16 {
            // V = (1/2) sin(2 pi/nu) nu * integral of r^2 dz over the section's outline.
            let at = |k: f64| {
                let a = 2.0 * PI * k / nv;
                (0.06 + 0.02 * a.cos(), 0.02 * a.sin())
            };
            let ((r0, z0), (r1, z1)) = (at(k as f64), at(k as f64 + 1.0));
            sum += (r0 * r0 + r0 * r1 + r1 * r1) / 3.0 * (z1 - z0);
        }
        near(mass_properties(&torus(0.06, 0.02, 32, 16)).volume, swept * sum, 1e-12);
        // Converge to the smooth bodies.
        near(mass_properties(&icosphere(0.05, 5)).volume, 4.0 / 3.0 * PI * 0.05_f64.powi(3), 1.5e-3);
        near(mass_properties(&uv_sphere(0.05, 256, 128)).volume, 4.0 / 3.0 * PI * 0.05_f64.powi(3), 1e-3);
        let hollow = mass_properties(&hollow_sphere(0.05, 0.03, 5)).volume;
        near(hollow, 4.0 / 3.0 * PI * (0.05_f64.powi(3) - 0.03_f64.powi(3)), 1.5e-3);
    }

    #[test]
    fn stl_has_the_declared_length_and_outward_normals() {
        let mesh = cuboid(Vec3::new(0.1, 0.06, 0.04));
        let bytes = write_stl(&mesh);
        assert_eq!(bytes.len(), 84 + 50 * 12);
        assert_eq!(u32::from_le_bytes(bytes[80..84].try_into().unwrap()), 12);
        for t in 0..12 {
            let f = |k: usize| {
                let at = 84 + 50 * t + 4 * k;
                f64::from(f32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()))
            };
            let normal = Vec3::new(f(0), f(1), f(2));
            near(normal.norm(), 1.0, 1e-6);
            assert!(normal.dot(&Vec3::new(f(3), f(4), f(5))) > 0.0, "normal of facet {t} points inwards");
        }
    }
}
