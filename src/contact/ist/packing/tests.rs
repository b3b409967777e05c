//! Packings against the mesh, against each other, and against the shape's own volume.

use super::*;
use crate::contact::ist::parts::parts;
use crate::geometry::field::build::Silent;
use crate::geometry::mass::mass_properties;
use crate::geometry::{TriMesh, Vec3, shapes};

fn torus_depth(p: &Point) -> f64 {
    let ring = (p.x.hypot(p.y) - 0.06).hypot(p.z);
    0.02 - ring
}

fn packed(cells: u32, stop: Stop) -> (Packing, TriMesh) {
    let cell = 0.16 / f64::from(cells);
    let (n, nz) = (cells + 9, cells / 4 + 9);
    let half = |n: u32| 0.5 * f64::from(n - 1) * cell;
    let origin = Point::new(-half(n), -half(n), -half(nz));
    let field = Field::from_fn(origin, cell, [n, n, nz], torus_depth);
    let mesh = shapes::torus(0.06, 0.02, 512, 256);
    let cut = parts(&mesh, &field);
    assert!(cut.exact);
    (fill(&field, &cut.parts, stop, &Silent).expect("packs").packing(&field, &Bvh::build(&mesh)), mesh)
}

#[test]
fn primaries_are_disjoint_and_inside() {
    let (p, mesh) = packed(96, Stop::Spheres(3000));
    let bvh = Bvh::build(&mesh);
    assert_eq!(p.spheres.len(), 3000);
    for (i, a) in p.spheres.iter().enumerate() {
        // The exact torus; the mesh is inscribed by up to its sagitta, far below a micrometre here.
        assert!(f64::from(a.radius) <= torus_depth(&a.point()) + 1e-9, "sphere {i} pokes out: {a:?}");
        let sagitta = 0.08 * (1.0 - (std::f64::consts::PI / 256.0).cos());
        assert!(f64::from(a.radius) <= bvh.closest(&a.point()).distance + sagitta, "sphere {i}");
        for (j, b) in p.spheres.iter().enumerate().skip(i + 1) {
            let d = (a.point() - b.point()).norm();
            assert!(d >= f64::from(a.radius) + f64::from(b.radius), "{i} and {j} overlap by {d}");
        }
    }
}

#[test]
fn radii_fall_and_fill_is_what_the_spheres_say() {
    let (p, _) = packed(64, Stop::Radius(1e-3));
    assert!(p.spheres.windows(2).all(|w| w[1].radius <= w[0].radius));
    assert!(p.spheres.iter().all(|s| f64::from(s.radius) >= 1e-3));
    let filled: f64 = p.spheres.iter().map(|s| 4.189_790_205 * f64::from(s.radius).powi(3)).sum();
    assert!((filled / p.volume - p.fill).abs() < 1e-3, "{} against {}", filled / p.volume, p.fill);
    // The algorithms literature's figure for a torus of this shape at 128 cells and r >= s: 77.6 %.
    let (fine, _) = packed(128, Stop::Radius(0.16 / 128.0));
    assert!((fine.fill - 0.776).abs() < 0.03, "fill {}", fine.fill);
}

#[test]
fn secondary_volumes_sum_to_the_solid() {
    for stop in [Stop::Spheres(50), Stop::Spheres(2000), Stop::Fill(0.7)] {
        let (p, mesh) = packed(64, stop);
        let volume = mass_properties(&mesh).volume;
        let sum: f64 =
            p.spheres.iter().map(|s| 4.0 / 3.0 * std::f64::consts::PI * f64::from(s.secondary).powi(3)).sum();
        assert!((sum / volume - 1.0).abs() < 1e-5, "{stop:?}: {}", sum / volume);
    }
}

#[test]
fn normals_point_outwards_from_the_ring() {
    let (p, _) = packed(64, Stop::Spheres(4000));
    let mut narrow = 0;
    for s in p.spheres.iter().filter(|s| s.cone < 0.5) {
        let c = Point::from(s.centroid.map(f64::from));
        let ring = Vec3::new(c.x, c.y, 0.0).normalize() * 0.06;
        let out = (c.coords - ring).normalize();
        let n = Vec3::from(s.normal.map(f64::from));
        assert!((n.norm() - 1.0).abs() < 1e-5);
        assert!(n.dot(&out) > 0.8, "{s:?}");
        narrow += 1;
    }
    assert!(narrow > 1000, "only {narrow} spheres have a narrow cone");
}

#[test]
fn same_input_same_packing() {
    assert_eq!(packed(48, Stop::Spheres(500)).0, packed(48, Stop::Spheres(500)).0);
}

#[test]
fn nothing_inside_is_an_error() {
    let field = Field::from_fn(Point::origin(), 0.1, [4, 4, 4], |_| -1.0);
    assert_eq!(fill(&field, &[], Stop::Spheres(1), &Silent).err(), Some(PackingError::NothingInside));
}
