use super::*;
use crate::geometry::shapes;
use crate::geometry::simd::{self, SimdLevel};
use proptest::prelude::*;

fn points(n: u32, reach: f64) -> impl Iterator<Item = Point> {
    (0..n).map(f64::from).map(move |f| {
        Point::new((f * 0.713).sin() * reach, (f * 1.317).cos() * reach, (f * 0.371 + 1.0).sin() * reach)
    })
}

#[test]
fn solid_angles_of_a_cube_and_an_octant() {
    // One face of a cube seen from its centre is a sixth of the sphere; the octant triangle an eighth.
    let mesh = shapes::cuboid(Vec3::new(2.0, 2.0, 2.0));
    let seen: f64 = (0..mesh.triangles.len()).map(|t| solid_angle(&Point::origin(), &mesh.corners(t))).sum();
    assert!((seen - 4.0 * std::f64::consts::PI).abs() < 1e-12);
    let octant = [Point::new(1.0, 0.0, 0.0), Point::new(0.0, 1.0, 0.0), Point::new(0.0, 0.0, 1.0)];
    assert!((solid_angle(&Point::origin(), &octant) - std::f64::consts::FRAC_PI_2).abs() < 1e-12);
    assert_eq!(solid_angle(&octant[0], &octant), 0.0);
}

#[test]
fn one_inside_and_zero_outside_of_closed_meshes() {
    let cube = shapes::cuboid(Vec3::new(1.0, 1.0, 1.0));
    let torus = shapes::torus(0.8, 0.3, 80, 40);
    let sphere = shapes::icosphere(1.0, 5);
    let inside_cube = |p: &Point| p.coords.amax() < 0.5;
    // Inside the polyhedron for certain, outside of the true solid for certain.
    let ring = |p: &Point| ((p.x.hypot(p.y) - 0.8).hypot(p.z)) / 0.3;
    for p in points(500, 1.5) {
        let w = |m: &TriMesh| Winding::build(m).number(&p);
        assert!((w(&cube) - f64::from(u8::from(inside_cube(&p)))).abs() < 3e-3, "cube {p}");
        if !(0.98..=1.0).contains(&ring(&p)) {
            assert!(
                (w(&torus) - f64::from(u8::from(ring(&p) < 0.98))).abs() < 3e-3,
                "torus {p} {}",
                w(&torus)
            );
        }
    }
    let tree = Winding::build(&sphere);
    for p in points(3000, 1.2) {
        let r = p.coords.norm();
        if !(0.99..=1.0).contains(&r) {
            assert!(
                (tree.number(&p) - f64::from(u8::from(r < 0.99))).abs() < 3e-3,
                "{p}: {}",
                tree.number(&p)
            );
        }
    }
}

#[test]
fn open_and_turned_and_overlapping_meshes_agree_with_the_sum() {
    let mut open = shapes::icosphere(1.0, 4);
    open.triangles.retain(|t| t.iter().any(|&v| open.vertices[v as usize].z < 0.6));
    let mut turned = shapes::torus(0.8, 0.3, 60, 30);
    turned.triangles.iter_mut().step_by(3).for_each(|t| t.swap(1, 2));
    let mut twice = shapes::icosphere(1.0, 4);
    let other = shapes::icosphere(0.7, 4);
    let shift = twice.vertices.len() as u32;
    twice.vertices.extend(other.vertices.iter().map(|v| v + Vec3::new(0.5, 0.0, 0.0)));
    twice.triangles.extend(other.triangles.iter().map(|t| t.map(|v| v + shift)));
    for mesh in [open, turned, twice] {
        let tree = Winding::build(&mesh);
        let mut worst = 0.0f64;
        for p in points(2000, 1.3) {
            worst = worst.max((tree.number(&p) - exact(&mesh, &p)).abs());
        }
        assert!(worst < 3e-3, "off by {worst}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn soups_agree_with_the_sum(
        corners in prop::collection::vec(prop::array::uniform3(-1.0f64..1.0), 3..600),
        p in prop::array::uniform3(-2.0f64..2.0),
        scale in prop::sample::select(vec![1e-5, 1.0, 1e5]),
    ) {
        let mesh = TriMesh {
            vertices: corners.iter().map(|c| Point::from(*c) * scale).collect(),
            triangles: (0..corners.len() as u32 / 3).map(|t| [3 * t, 3 * t + 1, 3 * t + 2]).collect(),
        };
        let p = Point::from(p) * scale;
        let (got, want) = (Winding::build(&mesh).number(&p), exact(&mesh, &p));
        prop_assert!((got - want).abs() < 5e-3, "{} instead of {}", got, want);
    }

    #[test]
    fn atan2_is_accurate_in_every_quadrant(x in -1.0f32..1.0, y in -1.0f32..1.0) {
        let want = f64::from(y).atan2(f64::from(x));
        prop_assert!((f64::from(kernel::atan2_of(y, x)) - want).abs() < 6e-7);
    }
}

#[test]
fn nothing_panics_on_what_is_no_surface() {
    let p = Point::new(0.1, 0.2, 0.3);
    assert_eq!(Winding::build(&TriMesh::default()).number(&p), 0.0);
    let dot = TriMesh { vertices: vec![p; 3], triangles: vec![[0, 1, 2]] };
    assert_eq!(Winding::build(&dot).number(&p), 0.0);
    assert_eq!(kernel::atan2_of(0.0, 0.0), 0.0);
    let cube = Winding::build(&shapes::cuboid(Vec3::new(1.0, 1.0, 1.0)));
    for bad in [f64::NAN, f64::INFINITY, 1e300] {
        assert_eq!(cube.number(&Point::new(bad, 0.0, 0.0)), 0.0);
    }
    for corner in [Point::new(0.5, 0.5, 0.5), Point::new(0.5, 0.5, 0.0), Point::new(0.5, 0.1, 0.2)] {
        assert!((-0.1..=1.1).contains(&cube.number(&corner)), "on the surface: {}", cube.number(&corner));
    }
}

#[test]
fn every_instruction_set_gives_the_same_bits() {
    let tree = Winding::build(&shapes::torus(1.0, 0.3, 60, 30));
    let mut runs = Vec::new();
    for level in SimdLevel::ALL {
        if simd::force(Some(level)) {
            runs.push(points(300, 1.4).map(|p| tree.number(&p).to_bits()).collect::<Vec<_>>());
        }
    }
    simd::force(None);
    assert!(runs.windows(2).all(|w| w[0] == w[1]));
}
