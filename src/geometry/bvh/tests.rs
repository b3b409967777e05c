use super::*;
use crate::geometry::shapes;
use crate::geometry::simd::{self, Scalar, SimdLevel};
use proptest::prelude::*;

/// Distance from a point to a triangle by another route than the code under test: the plane's distance when the point is on the
/// inner side of all three edge planes, else the smallest distance to an edge by projection.
fn reference(p: &Point, [a, b, c]: &[Point; 3]) -> f64 {
    let n = (b - a).cross(&(c - a));
    let edge = |s: &Point, e: &Point| {
        let d = e - s;
        let l = d.norm();
        if l == 0.0 {
            return (p - s).norm();
        }
        let along = (p - s).dot(&d) / l;
        if along <= 0.0 {
            (p - s).norm()
        } else if along >= l {
            (p - e).norm()
        } else {
            (p - s).cross(&d).norm() / l
        }
    };
    let edges = edge(a, b).min(edge(b, c)).min(edge(c, a));
    let longest = (b - a).norm().max((c - a).norm()).max((c - b).norm());
    // A triangle whose height is lost in rounding has no plane worth the name.
    if n.norm() > 1e-9 * longest * longest {
        let side = |s: &Point, e: &Point| (e - s).cross(&(p - s)).dot(&n) >= 0.0;
        if side(a, b) && side(b, c) && side(c, a) {
            return edges.min((p - a).dot(&n).abs() / n.norm());
        }
    }
    edges
}

fn brute(mesh: &TriMesh, p: &Point) -> f64 {
    (0..mesh.triangles.len()).map(|t| reference(p, &mesh.corners(t))).fold(f64::INFINITY, f64::min)
}

fn check(mesh: &TriMesh, p: &Point) {
    let bvh = Bvh::build(mesh);
    let got = bvh.closest(p);
    let want = brute(mesh, p);
    let size = mesh.vertices.iter().map(|v| (v - p).norm()).fold(0.0, f64::max);
    assert!((got.distance - want).abs() <= 1e-9 * size, "{} instead of {want} at {p}", got.distance);
    assert!(((got.point - p).norm() - got.distance).abs() <= 1e-12 * size);
    let on = reference(&got.point, &mesh.corners(got.triangle as usize));
    assert!(on <= 1e-9 * size, "the point is {on} off its triangle");
    for hint in [0, got.triangle, u32::MAX] {
        assert_eq!(bvh.closest_from(p, hint).distance, got.distance);
    }
    assert_eq!(bvh.closest_within(p, got.distance * 1.001 + 1e-12).distance, got.distance);
    if got.distance > 0.0 {
        assert!(!bvh.closest_within(p, got.distance * 0.999).found());
    }
}

fn soup(corners: &[[f64; 3]]) -> TriMesh {
    TriMesh {
        vertices: corners.iter().map(|c| Point::from(*c)).collect(),
        triangles: (0..corners.len() as u32 / 3).map(|t| [3 * t, 3 * t + 1, 3 * t + 2]).collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn soups_agree_with_a_scan(
        corners in prop::collection::vec(prop::array::uniform3(-1.0f64..1.0), 3..300),
        p in prop::array::uniform3(-3.0f64..3.0),
        scale in prop::sample::select(vec![1e-6, 1.0, 1e6]),
        shift in prop::array::uniform3(-50.0f64..50.0),
    ) {
        let place = |c: [f64; 3]| [0, 1, 2].map(|k| (c[k] + shift[k]) * scale);
        let corners: Vec<[f64; 3]> = corners.into_iter().map(place).collect();
        check(&soup(&corners), &Point::from(place(p)));
    }

    /// Corners on a coarse lattice: equal points, collinear corners, coplanar and duplicate triangles, ties.
    #[test]
    fn degenerate_soups_agree_with_a_scan(
        corners in prop::collection::vec(prop::array::uniform3(-1i8..=1), 3..120),
        p in prop::array::uniform3(-4i8..=4),
    ) {
        let corners: Vec<[f64; 3]> = corners.into_iter().map(|c| c.map(f64::from)).collect();
        check(&soup(&corners), &Point::from(p.map(|x| f64::from(x) * 0.5)));
    }

    /// Needles: one side up to 10^8 times the height.
    #[test]
    fn needles_agree_with_a_scan(
        needles in prop::collection::vec((prop::array::uniform3(-1.0f64..1.0), prop::array::uniform3(-1.0f64..1.0), -8.0f64..0.0, 0.0f64..1.0), 1..60),
        p in prop::array::uniform3(-1.5f64..1.5),
    ) {
        let corners: Vec<[f64; 3]> = needles
            .iter()
            .flat_map(|(a, b, thin, t)| {
                let c = [0, 1, 2].map(|k| a[k] + (b[k] - a[k]) * t + 10f64.powf(*thin) * [0.3, -0.7, 0.2][k]);
                [*a, *b, c]
            })
            .collect();
        check(&soup(&corners), &Point::from(p));
    }
}

#[test]
fn sphere_has_the_distances_of_its_facets() {
    let mesh = shapes::icosphere(1.0, 5);
    let bvh = Bvh::build(&mesh);
    // Facets of an inscribed sphere lie between the insphere of the polyhedron and the sphere.
    let sagitta = 1.0
        - (0..mesh.triangles.len())
            .map(|t| {
                let [a, b, c] = mesh.corners(t);
                let n = (b - a).cross(&(c - a)).normalize();
                a.coords.dot(&n)
            })
            .fold(1.0, f64::min);
    for i in 0..400 {
        let f = f64::from(i);
        let p = Point::new((f * 0.7).sin(), (f * 1.3).cos(), (f * 0.37).sin()) * (0.1 + f * 0.01);
        let r = p.coords.norm();
        let d = bvh.closest(&p).distance;
        assert!((d - (r - 1.0).abs()).abs() <= sagitta + 1e-12, "{d} at radius {r}");
    }
}

#[test]
fn nothing_panics_on_what_is_no_surface() {
    let p = Point::new(1.0, 2.0, 3.0);
    let empty = Bvh::build(&TriMesh::default());
    assert!(empty.is_empty() && !empty.closest(&p).found() && empty.closest(&p).distance == f64::INFINITY);
    let dot = soup(&[[1.0, 1.0, 1.0]; 3]);
    assert_eq!(Bvh::build(&dot).closest(&p).distance, 5f64.sqrt());
    let bad = soup(&[[f64::NAN, 0.0, 0.0], [1.0; 3], [0.0; 3]]);
    assert!(!Bvh::build(&bad).closest(&p).found());
    let some = Bvh::build(&shapes::cuboid(Vec3::new(1.0, 1.0, 1.0)));
    for bad in [f64::NAN, f64::INFINITY] {
        assert!(!some.closest(&Point::new(bad, 0.0, 0.0)).found());
    }
    // Far beyond the f32 range of the tests, and a mesh of 1e150 m.
    let far = some.closest(&Point::new(1e30, 0.0, 0.0));
    assert!((far.distance / 1e30 - 1.0).abs() < 1e-12);
    let huge = Bvh::build(&soup(&[[1e150, 0.0, 0.0], [0.0, 1e150, 0.0], [0.0, 0.0, 1e150]]));
    assert!(huge.closest(&Point::origin()).found());
}

#[test]
fn every_instruction_set_gives_the_same_bits() {
    let bvh = Bvh::build(&shapes::torus(1.0, 0.3, 60, 30));
    let points: Vec<Point> = (0..300)
        .map(f64::from)
        .map(|f| Point::new((f * 0.71).sin() * 1.6, (f * 1.31).cos() * 1.6, (f * 0.37).sin()))
        .collect();
    let mut runs = Vec::new();
    for level in SimdLevel::ALL {
        if simd::force(Some(level)) {
            let closest: Vec<Closest> = points.iter().map(|p| bvh.closest(p)).collect();
            let hit = |p: &Point| {
                let d = (-p.coords).normalize();
                let o = bvh.to_local(p).map(|x| x as f32);
                bvh.first_hit(o, [d.x as f32, d.y as f32, d.z as f32], 9.0, 1.0)
            };
            runs.push((closest, points.iter().map(hit).collect::<Vec<_>>()));
        }
    }
    simd::force(None);
    assert!(runs.windows(2).all(|w| w[0] == w[1]));
}

#[test]
fn rays_leave_and_enter_a_box_where_they_should() {
    let bvh = Bvh::build(&shapes::cuboid(Vec3::new(2.0, 1.0, 0.5)));
    let hit = |x: f64, limit: f32, facing: f32| {
        let o = bvh.to_local(&Point::new(x, 0.1, 0.05)).map(|x| x as f32);
        bvh.first_hit(o, [1.0, 0.0, 0.0], limit, facing).map(|(t, _)| f64::from(t) * bvh.unit())
    };
    let near = |got: Option<f64>, want: f64| (got.unwrap() - want).abs() < 1e-5;
    assert!(near(hit(0.25, 1e3, 1.0), 0.75), "from inside, out through the near face");
    assert!(near(hit(-3.0, 1e3, 1.0), 4.0), "from outside, out through the far face");
    assert!(near(hit(-3.0, 1e3, -1.0), 2.0), "from outside, in through the near face");
    assert_eq!(hit(0.25, 0.1, 1.0), None, "beyond the limit");
    assert_eq!(hit(0.25, 1e3, -1.0), None, "no way in from inside");
    assert_eq!(hit(2.0, 1e3, 1.0), None, "behind the ray");
}

/// The estimate that the memory cap counts with: never below, and of the same order.
#[test]
fn the_memory_of_a_tree_is_estimated_from_above() {
    for mesh in [
        shapes::cuboid(Vec3::repeat(1.0)),
        shapes::icosphere(1.0, 3),
        shapes::icosphere(1.0, 6),
        shapes::torus(0.06, 0.02, 640, 3),
        shapes::keyed_hole(&shapes::HoleShape::default()),
    ] {
        let (n, tree) = (mesh.triangles.len(), Bvh::build(&mesh));
        let (real, most) = (tree.bytes(), Bvh::bytes_for(n));
        assert!(real <= most && most < 3 * real + 8192, "{n} triangles: {real} of {most} bytes");
        assert!(real >= 72 * n as u64, "three corners of three f64 each");
    }
}

/// Wherever the ball lies, and however large it is, what is looked up among the few boxes is what a scan finds.
#[test]
fn the_few_boxes_of_a_ball_hold_all_that_is_nearest_in_it() {
    use rand_pcg::rand_core::{Rng, SeedableRng};
    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(9);
    let mut within = |half: f64| -> Vec3 {
        Vec3::from_fn(|_, _| half * ((rng.next_u64() >> 11) as f64 / (1u64 << 52) as f64 - 1.0))
    };
    let scattered = |n: usize, within: &mut dyn FnMut(f64) -> Vec3| {
        let corner = |at: Vec3, within: &mut dyn FnMut(f64) -> Vec3| (at + within(0.1)).into();
        let corners: Vec<[f64; 3]> = (0..n)
            .flat_map(|_| {
                let at = within(1.0);
                [0; 3].map(|_| corner(at, within))
            })
            .collect();
        soup(&corners)
    };
    let meshes =
        [shapes::icosphere(1.0, 4), shapes::cuboid(Vec3::new(1.0, 0.01, 2.0)), scattered(3000, &mut within)];
    for mesh in &meshes {
        let bvh = Bvh::build(mesh);
        let (mut few, mut tests) = (Few::new(), 0);
        for round in 0..40 {
            let radius = [1e-4, 0.01, 0.1, 1.0][round % 4];
            let centre = within(1.2).map(|x| x as f32);
            let mut near = few.find(Scalar, &bvh, (centre.into(), radius as f32), NO_SLOT, &mut tests);
            for _ in 0..20 {
                let way = within(1.0);
                let way = way * (radius * within(1.0).x.abs() / way.norm().max(1e-9));
                let p = centre + way.map(|x| x as f32) * 0.999;
                let local: [f64; 3] = p.map(f64::from).into();
                let (d2, slot) = few.nearest(Scalar, &bvh, p.into(), near, &mut tests);
                let world = bvh.center + Vec3::from(local) * bvh.scale;
                let margin = 2.0 * kernel::MARGIN * (1.0 + Vec3::from(local).norm());
                let want = brute(mesh, &world) / bvh.scale;
                assert!((f64::from(d2).sqrt() - want).abs() <= margin, "{d2} {want} {round}");
                near = slot;
            }
        }
    }
}
