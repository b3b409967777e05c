//! Sphere trees of real meshes: every shared model that is not too large for a test, and where their packing ends.

#[path = "../meshes/mod.rs"]
mod meshes;

use super::*;
use hapticd::contact::ist::packing::PackingError;
use hapticd::contact::ist::{IstError, Split, Stop};
use hapticd::geometry::Point;
use std::collections::HashSet;
use std::f64::consts::PI;

/// Most triangles of a model that is filled here.
const MOST: usize = 12_000;
const SPHERES: u32 = 500;

/// Files that hold so few, and are read in no time: PLY here is binary, with 19 bytes a triangle, the others are text or have 50.
fn small(name: &str, bytes: u64) -> bool {
    bytes <= if name.ends_with(".ply") { 300_000 } else { 600_000 }
}

/// Each edge once in each direction.
fn is_closed(mesh: &TriMesh) -> bool {
    let edges = mesh.triangles.iter().flat_map(|&[a, b, c]| [(a, b), (b, c), (c, a)]);
    let mut seen = HashSet::new();
    edges.into_iter().all(|e| seen.insert(e)) && seen.iter().all(|&(a, b)| seen.contains(&(b, a)))
}

/// Volume by signed tetrahedra, m^3.
fn volume(mesh: &TriMesh) -> f64 {
    let tetrahedron = |t: usize| {
        let [a, b, c] = mesh.corners(t);
        a.coords.dot(&b.coords.cross(&c.coords)) / 6.0
    };
    (0..mesh.triangles.len()).map(tetrahedron).sum()
}

/// How often the surface goes round `p`, by the triangles' solid angles (van Oosterom and Strackee 1983), and the distance to the
/// nearest of their planes' points, m: another implementation than the field's.
fn round(mesh: &TriMesh, p: &Point) -> (f64, f64) {
    let (mut angle, mut nearest) = (0.0, f64::INFINITY);
    for t in 0..mesh.triangles.len() {
        let [a, b, c] = mesh.corners(t).map(|v| v - p);
        let (x, y, z) = (a.norm(), b.norm(), c.norm());
        let above = a.dot(&b.cross(&c));
        angle += 2.0 * above.atan2(x * y * z + a.dot(&b) * z + b.dot(&c) * x + c.dot(&a) * y);
        nearest = nearest.min(to_triangle(&a, &b, &c));
    }
    (angle / (4.0 * PI), nearest)
}

/// Distance of the origin from a triangle.
fn to_triangle(a: &Vec3, b: &Vec3, c: &Vec3) -> f64 {
    let to_edge = |p: &Vec3, q: &Vec3| {
        let along = q - p;
        let t = (-p.dot(&along) / along.norm_squared().max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        (p + along * t).norm()
    };
    let n = (b - a).cross(&(c - a));
    let within = [(a, b), (b, c), (c, a)].iter().all(|(p, q)| n.dot(&(*q - *p).cross(&-*p)) >= 0.0);
    if within && n.norm() > 0.0 {
        return a.dot(&n).abs() / n.norm();
    }
    to_edge(a, b).min(to_edge(b, c)).min(to_edge(c, a))
}

#[test]
fn every_shared_model_is_filled_with_what_it_holds() {
    let mut closed = 0;
    for (name, mesh) in meshes::those(small) {
        if mesh.triangles.len() > MOST {
            println!("{name}: left out, {} triangles", mesh.triangles.len());
            continue;
        }
        let (tree, packing) = SphereTree::build_with_packing(&mesh, &IstParams::spheres(SPHERES), &Silent)
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let ball = |r: f32| 4.0 / 3.0 * PI * f64::from(r).powi(3);
        let (primary, secondary) = packing
            .spheres
            .iter()
            .fold((0.0, 0.0), |(p, s), sphere| (p + ball(sphere.radius), s + ball(sphere.secondary)));
        println!("{name}: {} spheres, fill {:.3}, exact {}", tree.spheres, tree.fill, tree.exact);
        assert!(tree.fill > 0.0 && tree.fill <= 1.0, "{name}: {}", tree.fill);
        assert!((primary / tree.volume - tree.fill).abs() < 1e-4, "{name}: {primary}");
        assert!((secondary / tree.volume - 1.0).abs() < 1e-4, "{name}: {secondary} of {}", tree.volume);
        if !(is_closed(&mesh) && tree.exact) {
            continue;
        }
        closed += 1;
        let truth = volume(&mesh);
        assert!((tree.volume / truth - 1.0).abs() < 1e-6, "{name}: {} instead of {truth}", tree.volume);
        let each = (packing.spheres.len() * mesh.triangles.len()).div_ceil(200_000);
        for sphere in packing.spheres.iter().step_by(each.max(1)) {
            let (times, nearest) = round(&mesh, &sphere.point());
            assert!((times - 1.0).abs() < 1e-3, "{name}: the surface goes {times} times round {sphere:?}");
            assert!(f64::from(sphere.radius) <= nearest, "{name}: {nearest} m to the surface, {sphere:?}");
        }
        // The leaves: of two boxes that share a face through the middle one holds the one part of the body, and the other the rest.
        let (low, high) = mesh.bounds().expect("not empty");
        let (middle, size) = (nalgebra::center(&low, &high), (high - low).amax());
        let half = solid(&shapes::cuboid(Vec3::repeat(4.0 * size)), size / 4.0);
        let tool = ToolShape::Spheres(Arc::new(tree));
        let sides = [-1.0, 1.0].map(|side| {
            let c = ask(&tool, &at(2.0 * size * side - middle.x, -middle.y, -middle.z), &half);
            (c.volume.expect("a volume"), c.volume_bounds.expect("bounds"))
        });
        let [(a, b), (c, d)] = sides;
        assert!(((a + c) / truth - 1.0).abs() < 1e-3, "{name}: {a} and {c} of {truth}");
        assert!(b.lower + d.lower <= truth * (1.0 + 1e-9), "{name}: {b:?} {d:?} {truth}");
        assert!(b.upper + d.upper >= truth * (1.0 - 1e-9), "{name}: {b:?} {d:?} {truth}");
        assert!(a > 0.01 * truth && c > 0.01 * truth, "{name}: {a} and {c}");
    }
    assert!(closed > 5 || meshes::models().is_none(), "{closed}");
}

/// On a real mesh where the models are there, on a ring where they are not.
#[test]
fn a_packing_ends_where_it_is_told_to() {
    let mesh = meshes::shared("screwdriver.ply").unwrap_or_else(|| shapes::torus(0.06, 0.02, 48, 24));
    let filled = |stop, split| {
        let params = IstParams { stop, split, ..IstParams::spheres(4000) };
        SphereTree::build_with_packing(&mesh, &params, &Silent)
    };
    let all = filled(Stop::Spheres(4000), Split::Boxes).expect("builds");
    let radius = |i: usize| f64::from(all.1.spheres[i].radius);
    for fill in [0.2, 0.5, 0.9 * all.0.fill] {
        let (tree, packing) = filled(Stop::Fill(fill), Split::Boxes).expect("builds");
        // Reached, and not before the last sphere.
        let last = packing.spheres.last().expect("a sphere").radius;
        let part = 4.0 / 3.0 * PI * f64::from(last).powi(3) / tree.volume;
        assert!(tree.fill >= fill && tree.fill - part < fill, "{fill}: {}", tree.fill);
        // The same spheres, up to there.
        let same = packing
            .spheres
            .iter()
            .zip(&all.1.spheres)
            .all(|(a, b)| a.centre == b.centre && a.radius == b.radius);
        assert!(same && tree.spheres < all.0.spheres, "{fill}");
    }
    for k in [1, 10, 300] {
        let least = radius(k);
        let (tree, packing) = filled(Stop::Radius(least), Split::Boxes).expect("builds");
        assert!(packing.spheres.iter().all(|s| f64::from(s.radius) >= least));
        assert!(tree.spheres > k && radius(tree.spheres) < least, "{k}: {}", tree.spheres);
        // Boxes are made of the same cells whatever the spheres are; the others of the spheres.
        assert_eq!((tree.cell_count(), tree.node_count()), (all.0.cell_count(), all.0.node_count()));
        assert!((tree.volume / all.0.volume - 1.0).abs() < 1e-12);
        let (gas, _) = filled(Stop::Radius(least), Split::NeuralGas).expect("builds");
        assert_eq!((gas.spheres, gas.cell_count()), (tree.spheres, tree.cell_count()));
    }
    // More than the cells can hold: what there is, and said so.
    let (tree, _) = filled(Stop::Fill(1.0), Split::Boxes).expect("builds");
    assert!(tree.fill > all.0.fill && tree.fill < 1.0 && Stop::Fill(1.0).missed(tree.fill) == Some(1.0));
    assert_eq!(Stop::Fill(0.5).missed(tree.fill), None);
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        for stop in [Stop::Fill(bad), Stop::Radius(bad), Stop::Fill(1.1)] {
            let got = filled(stop, Split::Boxes).expect_err("makes no sense");
            assert!(matches!(got, IstError::Stop(_)), "{stop:?}: {got}");
        }
    }
    // Larger than the body is thick: it says what would fit.
    let asked = 1.01 * radius(0);
    let got = filled(Stop::Radius(asked), Split::Boxes).expect_err("none fits");
    assert_eq!(got, IstError::Packing(PackingError::NoneFits { asked, largest: radius(0) }));
}
