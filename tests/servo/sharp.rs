//! Corners and edges of other shapes than a cube, dull and thin, upright and tilted, finely and coarsely sampled, soft and
//! hard: wedged between two walls, flat or hollow, without a hand, they come to rest.

use crate::stability::{Holds, Laid, press};
use hapticd::contact::Friction;
use hapticd::geometry::shapes::cuboid;
use hapticd::geometry::{Point, TriMesh, Vec3};
use nalgebra::UnitQuaternion;

/// A double pyramid over a regular polygon, the tips on y; `width` across, `height` from tip to tip, m.
fn spindle(sides: u32, width: f64, height: f64) -> TriMesh {
    let turn = |i: u32| f64::from(i) * std::f64::consts::TAU / f64::from(sides);
    let mut vertices: Vec<Point> = (0..sides)
        .map(|i| Point::new(0.5 * width * turn(i).cos(), 0.0, 0.5 * width * turn(i).sin()))
        .collect();
    vertices.extend([Point::new(0.0, 0.5 * height, 0.0), Point::new(0.0, -0.5 * height, 0.0)]);
    let around = (0..sides).flat_map(|i| [[(i + 1) % sides, i, sides], [i, (i + 1) % sides, sides + 1]]);
    TriMesh { triangles: around.collect(), vertices }
}

/// A bar along z whose section is a rhombus, edges on y.
fn blade(width: f64, height: f64, length: f64) -> TriMesh {
    let (x, y, z) = (0.5 * width, 0.5 * height, 0.5 * length);
    let vertices = [-z, z]
        .iter()
        .flat_map(|&z| {
            [Point::new(x, 0.0, z), Point::new(0.0, y, z), Point::new(-x, 0.0, z), Point::new(0.0, -y, z)]
        })
        .collect();
    let mut triangles = vec![[0, 2, 1], [0, 3, 2], [4, 5, 6], [4, 6, 7]];
    for i in 0..4 {
        let j = (i + 1) % 4;
        triangles.extend([[i, j, 4 + j], [i, 4 + j, 4 + i]]);
    }
    TriMesh { vertices, triangles }
}

/// Shapes with something sharp above and below.
fn shapes() -> Vec<(&'static str, TriMesh, UnitQuaternion<f64>)> {
    let on = |toward: Vec3| UnitQuaternion::rotation_between(&toward, &Vec3::y()).expect("not opposite");
    let upright = UnitQuaternion::identity();
    vec![
        ("cube corner", cuboid(Vec3::repeat(0.03)), on(Vec3::repeat(1.0))),
        ("cube edge", cuboid(Vec3::repeat(0.03)), on(Vec3::new(1.0, 1.0, 0.0))),
        ("octahedron", spindle(4, 0.03, 0.03), upright),
        ("three faces", spindle(3, 0.03, 0.03), upright),
        ("needle", spindle(3, 0.01, 0.05), upright),
        ("cone", spindle(48, 0.02, 0.04), upright),
        ("dull cone", spindle(48, 0.04, 0.02), upright),
        ("blade", blade(0.01, 0.04, 0.03), upright),
    ]
}

/// Presses every shape, turned by `tilt` rad about an axis in the plane of the walls, which are hollow to so many m.
fn rest(tilt: f64, points: u32, stiffness: f64, hollow: f64) {
    for (name, mesh, turn) in shapes() {
        let axis = Vec3::new(1.0, 0.0, 0.6).normalize();
        let turn = UnitQuaternion::from_scaled_axis(axis * tilt) * turn;
        let seen = press(
            "ideal-6dof",
            &Laid { mesh: &mesh, points, turn, hollow, friction: Friction::NONE },
            stiffness,
            Holds::Nobody,
            true,
        );
        println!("{name} tilted {tilt}, {points} points, {stiffness} N/m, {hollow} m: {} m/s", seen.shakes);
        assert!(
            seen.shakes <= 1.2e-4,
            "{name} tilted {tilt}, {points} points, {stiffness} N/m, {hollow} m: {} m/s",
            seen.shakes
        );
    }
}

/// One test a case, so that they run beside each other.
macro_rules! sharp_tools_rest {
    ($($name:ident: $tilt:literal, $points:literal, $stiffness:literal, $hollow:expr;)*) => {$(
        #[test]
        fn $name() {
            rest($tilt, $points, $stiffness, $hollow);
        }
    )*};
}

const FLAT: f64 = f64::INFINITY;

sharp_tools_rest! {
    upright_coarse_and_hard: 0.0, 500, 2e5, FLAT;
    upright_and_hard: 0.0, 3000, 2e5, FLAT;
    upright_and_soft: 0.0, 3000, 2e3, FLAT;
    tilted_a_little: 0.15, 3000, 2e4, FLAT;
    tilted_fine_and_hard: 0.15, 10_000, 2e5, FLAT;
    tilted_coarse_and_hard: 0.3, 500, 2e5, FLAT;
    tilted_far_and_hard: 0.5, 3000, 2e5, FLAT;
    tilted_far_and_coarse: 0.5, 500, 2e4, FLAT;
    hollow_upright_and_hard: 0.0, 3000, 2e5, 0.06;
    hollow_tilted_and_hard: 0.2, 3000, 2e5, 0.06;
    hollow_tilted_coarse_and_soft: 0.2, 500, 2e3, 0.06;
}
