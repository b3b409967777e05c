use super::*;
use crate::geometry::import::{orient::flood, topology::EdgeUses};
use crate::geometry::{mass::mass_properties, shapes};
use rand::{RngExt, SeedableRng};
use std::f64::consts::PI;

fn run(mesh: &TriMesh, closed: bool) -> Solid {
    let mut copy = mesh.clone();
    let flood = flood(&mut copy, &EdgeUses::new(&mesh.triangles), &Watch::silent()).unwrap();
    assert_eq!(&copy, mesh, "the test's mesh is consistent");
    measure(mesh, &flood.shell, closed, &mass_properties(mesh), 5, &Watch::silent()).unwrap()
}

fn with(mut a: TriMesh, b: TriMesh, by: Vec3) -> TriMesh {
    let base = a.vertices.len() as u32;
    a.vertices.extend(b.vertices.iter().map(|v| v + by));
    a.triangles.extend(b.triangles.iter().map(|t| t.map(|i| i + base)));
    a
}

#[test]
fn clean_meshes_keep_their_exact_volume() {
    for mesh in [
        shapes::torus(0.06, 0.02, 64, 32),
        shapes::hollow_sphere(0.05, 0.03, 3),
        shapes::keyed_hole(&shapes::HoleShape::default()),
    ] {
        let m = mass_properties(&mesh);
        let exact = Solid { volume: m.volume, error: 0.0, centroid: m.centroid, inertia: m.inertia };
        assert_eq!(run(&mesh, true), exact);
    }
}

#[test]
fn overlapping_boxes_count_once() {
    let cube = || shapes::cuboid(Vec3::new(1.0, 1.0, 1.0));
    let by = Vec3::new(0.37, 0.21, -0.4);
    let mesh = with(cube(), cube(), by);
    let truth = 2.0 - (1.0 - by.x) * (1.0 - by.y) * (1.0 + by.z);
    let got = run(&mesh, true);
    assert!(got.error < 1e-3 && (got.volume - truth).abs() < 4.0 * got.error + 1e-9, "{got:?} {truth}");
}

#[test]
fn overlapping_balls_count_their_lens_once() {
    let (r, d): (f64, f64) = (0.05, 0.06);
    let mesh = with(shapes::icosphere(r, 4), shapes::icosphere(r, 4), Vec3::new(d, 0.0, 0.0));
    let v = mass_properties(&mesh).volume;
    // Lens of two equal balls: pi (4 r + d) (2 r - d)^2 / 12.
    let lens = PI * (4.0 * r + d) * (2.0 * r - d).powi(2) / 12.0;
    let got = run(&mesh, true);
    // The balls are polyhedra, 0.3 % short in volume; so is the lens, to that order.
    assert!((got.volume - (v - lens)).abs() < 0.02 * lens + 4.0 * got.error, "{got:?} {v} {lens}");
    assert!(got.volume < v - 0.9 * lens);
}

#[test]
fn inverted_body_is_no_solid() {
    let mut mesh = shapes::cuboid(Vec3::new(1.0, 1.0, 1.0));
    mesh.triangles.iter_mut().for_each(|t| t.swap(1, 2));
    let got = run(&mesh, true);
    assert!(got.volume.abs() < 3.0 * got.error + 1e-9 && got.error < 1e-2, "{got:?}");
}

#[test]
fn ball_with_a_hole_has_nearly_its_volume() {
    let mut mesh = shapes::icosphere(1.0, 4);
    let whole = mass_properties(&mesh).volume;
    mesh.triangles.retain(|t| t.iter().any(|i| mesh.vertices[*i as usize].z < 0.97));
    let got = run(&mesh, false);
    assert!((got.volume - whole).abs() < 0.01 * whole, "{got:?} {whole}");
    assert!(got.error < 2e-3 * whole);
}

/// Closed form: the union of two boxes is one minus their overlap, in each moment.
#[test]
fn centroid_and_inertia_are_those_of_the_solid() {
    let cube = || shapes::cuboid(Vec3::new(1.0, 1.0, 1.0));
    let by = Vec3::new(0.5, 0.0, 0.0);
    let got = run(&with(cube(), cube(), by), true);
    // A box of 1.5 x 1 x 1 about (0.25, 0, 0).
    let truth = mass_properties(&shapes::cuboid(Vec3::new(1.5, 1.0, 1.0)));
    assert!((got.volume - 1.5).abs() < 4.0 * got.error + 1e-9 && got.error < 1e-3, "{got:?}");
    assert!((got.centroid - Point::new(0.25, 0.0, 0.0)).norm() < 2e-3, "{got:?}");
    assert!((got.inertia - truth.inertia).norm() < 2e-3 * truth.inertia.norm(), "{got:?}");
}

/// Half of a ball, without its lid: the lid that the winding number puts there is near the flat one.
#[test]
fn an_open_body_has_the_moments_of_what_is_called_solid() {
    let mut mesh = shapes::icosphere(1.0, 5);
    mesh.triangles.retain(|t| t.iter().map(|i| mesh.vertices[*i as usize].z).sum::<f64>() > 0.0);
    let got = run(&mesh, false);
    // The winding number of an open half ball is one half on a surface bulging away from it; by the symmetry of the whole
    // ball (the two halves add to 1 inside and 0 outside) it is the half ball's own plane that counts inside the ball.
    let half = 2.0 * PI / 3.0;
    assert!((got.volume - half).abs() < 0.02 * half, "{got:?}");
    assert!((got.centroid - Point::new(0.0, 0.0, 3.0 / 8.0)).norm() < 0.02, "{got:?}");
    // 2/5 m r^2 about the axis.
    assert!((got.inertia[(2, 2)] - 0.4 * half).abs() < 0.02 * 0.4 * half, "{got:?}");
}

/// Needles far thinner than the tree's numbers resolve, along an axis and askew, sound and overlapping.
#[test]
fn the_error_of_a_needle_holds() {
    let askew = nalgebra::Rotation3::from_euler_angles(0.3, 0.4, 0.5);
    for (thin, turned) in
        [(1e-3, false), (1e-6, false), (1e-9, false), (1e-3, true), (1e-6, true), (1e-8, true)]
    {
        let turn = |mut m: TriMesh| {
            if turned {
                m.vertices.iter_mut().for_each(|v| *v = askew * *v);
            }
            m
        };
        let needle = shapes::cuboid(Vec3::new(1.0, thin, thin));
        // Turned, its corners are rounded.
        let volume = mass_properties(&turn(needle.clone())).volume;
        let got = run(&turn(needle.clone()), true);
        assert!((got.volume - volume).abs() <= 4.0 * got.error, "{thin} {turned}: {got:?}");
        if !turned {
            assert_eq!(got.error, 0.0, "{thin}: {got:?}");
        }
        let got = run(&turn(with(needle.clone(), needle, Vec3::new(0.25, 0.0, 0.0))), true);
        let truth = 1.25 * thin * thin;
        assert!((got.volume - truth).abs() <= 4.0 * got.error + 1e-4 * truth, "{thin} {turned}: {got:?}");
        if !turned {
            // A bar of 1.25 about x = 0.125: m L^2 / 12 across.
            let across = 1.25_f64.powi(3) / 12.0 * volume;
            assert!(got.error < 2e-3 * volume && (got.centroid.x - 0.125).abs() < 2e-3, "{got:?}");
            assert!((got.inertia[(1, 1)] - across).abs() < 5e-3 * across, "{got:?} {across}");
        }
    }
    // Too many triangles for the sum, and askew.
    let mut rod = shapes::icosphere(1.0, 4);
    rod.vertices.iter_mut().for_each(|v| *v = askew * Point::new(v.x, v.y * 1e-7, v.z * 1e-7));
    let volume = mass_properties(&rod).volume;
    let got = run(&rod, true);
    assert!((got.volume - volume).abs() <= 4.0 * got.error, "{got:?} {volume}");
}

/// Triangles at random in a box, wound at random.
fn soup(count: u32, seed: u64) -> TriMesh {
    let mut rng = rand_pcg::Pcg32::seed_from_u64(seed);
    let size = Vec3::new(1.0, 0.7, 1.3);
    let mut point = || Point::from(Vec3::from_fn(|_, _| rng.random_range(0.0..1.0)).component_mul(&size));
    let vertices = (0..3 * count).map(|_| point()).collect();
    TriMesh { vertices, triangles: (0..count).map(|t| [3 * t, 3 * t + 1, 3 * t + 2]).collect() }
}

/// A soup measured with fewer tests than it needs, against points at random with the winding number summed over all triangles.
#[test]
fn a_soup_beyond_its_tests_stays_within_its_error() {
    let mesh = soup(300, 5);
    let mass = mass_properties(&mesh);
    let shell: Vec<u32> = (0..300).collect();
    let run = |limit| {
        let watch = Watch::silent();
        let got = measure_within(&mesh, &shell, false, &mass, Effort { levels: 5, limit }, &watch).unwrap();
        (got, watch.work())
    };
    let (low, high) = mesh.bounds().unwrap();
    let size = high - low;
    let mut rng = rand_pcg::Pcg32::seed_from_u64(6);
    let n = 20_000;
    let mut point = || low + Vec3::from_fn(|_, _| rng.random_range(0.0..1.0)).component_mul(&size);
    let inside = (0..n).filter(|_| winding::exact(&mesh, &point()) > 0.5).count() as f64;
    let (share, volume) = (inside / f64::from(n), size.product());
    let sampled = (share * (1.0 - share) / f64::from(n)).sqrt() * volume;
    assert!(share > 0.05 && share < 0.95, "the soup has an inside: {share}");
    let mut last = 0.0;
    // Eight samples in each of the 8^n cells: at most sqrt(1/4 / 7 / 8^n) of the volume.
    for (limit, level) in [(60_000, 2), (10_000, 1), (100, 0)] {
        let most = (0.25 / 7.0 / 8.0_f64.powi(level)).sqrt() * 1.01;
        let (got, work) = run(limit);
        // One pass to look, and one for each level that is given up.
        assert!(work <= 7 * (limit + STRIDE as u64 * 8), "{limit}: {work}");
        let off = (got.volume - share * volume).abs();
        assert!(off <= 4.0 * (got.error + sampled), "{limit}: {got:?}, {}", share * volume);
        assert!(got.error <= most * volume, "{limit}: {got:?}");
        assert!(got.error > last, "fewer tests, larger error: {limit}: {got:?}");
        last = got.error;
        assert_eq!(run(limit).0, got, "the same again");
    }
}

/// Cells so large that all samples in them are alike say nothing for sure.
#[test]
fn few_tests_never_make_a_volume_certain() {
    let ball = with(shapes::icosphere(0.1, 2), shapes::icosphere(0.1, 2), Vec3::new(0.05, 0.0, 0.0));
    let truth = run(&ball, true);
    let n = ball.triangles.len() as u32;
    let shell: Vec<u32> = (0..n).map(|t| u32::from(t >= n / 2)).collect();
    for limit in [10, 5000, 20_000] {
        let effort = Effort { levels: 5, limit };
        let got =
            measure_within(&ball, &shell, true, &mass_properties(&ball), effort, &Watch::silent()).unwrap();
        assert!(got.error > truth.error, "{limit}: {got:?}");
        assert!((got.volume - truth.volume).abs() <= 4.0 * (got.error + truth.error), "{limit}: {got:?}");
    }
}
