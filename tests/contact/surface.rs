//! Shells sampled from the surface cells of a field, against the closed forms of a torus and a ball.

use super::{PRESSURE, ask, at, close, floor};
use hapticd::contact::ToolShape;
use hapticd::contact::vps::{Density, PointShell, ShellError, ShellParams};
use hapticd::geometry::field::Field;
use hapticd::geometry::{Point, Vec3};
use std::f64::consts::PI;
use std::sync::Arc;

/// Of a torus about z, radii of ring and tube, m; cells of 0.5 mm.
const RING: [f64; 2] = [0.02, 0.007];

fn torus() -> Field {
    let depth = |p: &Point| RING[1] - (p.x.hypot(p.y) - RING[0]).hypot(p.z);
    Field::from_fn(Point::new(-0.0295, -0.0295, -0.0095), 5e-4, [119, 119, 39], depth)
}

/// Out of the torus, from the middle of its tube.
fn out(p: &Point) -> Vec3 {
    p.coords - Vec3::new(p.x, p.y, 0.0).normalize() * RING[0]
}

#[test]
fn surface_cells_give_places_normals_and_areas_of_a_torus() {
    let shell = PointShell::from_field(&torus(), ShellParams::points(4000)).expect("cells enough");
    assert_eq!(shell.len, 4000);
    let area = 4.0 * PI * PI * RING[0] * RING[1];
    close("area", shell.total_area, area, 2e-3);
    for i in 0..shell.len {
        let p = shell.position(i);
        let normal = Vec3::new(shell.nx[i].into(), shell.ny[i].into(), shell.nz[i].into());
        assert!((out(&p).norm() - RING[1]).abs() < 5e-6, "{i}: {} m off", out(&p).norm() - RING[1]);
        assert!(normal.dot(&out(&p).normalize()) < -0.999, "{i}: {normal}");
    }
    // As far from all points as any place of the surface is, and how far hexagonal packing covers.
    let places = (0..600).flat_map(|i| (0..200).map(move |j| (f64::from(i) / 600.0, f64::from(j) / 200.0)));
    let farthest = shell.farthest(places.map(|(u, v)| {
        let ((s, c), (t, d)) = ((2.0 * PI * u).sin_cos(), (2.0 * PI * v).sin_cos());
        let r = RING[0] + RING[1] * d;
        Point::new(r * c, r * s, RING[1] * t)
    }));
    let least = (2.0 * area / (3.0 * 3.0f64.sqrt() * 4000.0)).sqrt();
    println!("farthest {farthest:.3e} m, stated {:.3e}, hexagons {least:.3e}", shell.covering_radius);
    assert!(farthest <= shell.covering_radius && farthest < 2.2 * least);
    // Weights are local: each quarter of the ring has a quarter of the area.
    for (sx, sy) in [(1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0)] {
        let quarter =
            (0..shell.len).filter(|&i| shell.position(i).x * sx > 0.0 && shell.position(i).y * sy > 0.0);
        close("quarter", quarter.map(|i| f64::from(shell.area[i])).sum(), 0.25 * area, 0.02);
    }
}

/// A thin plate and a box askew: edges where no gradient leads to the surface. No place of their faces is farther from all points than is said.
#[test]
fn edges_and_thin_walls_stay_within_the_covering_radius() {
    let turn = nalgebra::UnitQuaternion::from_euler_angles(0.4, 0.7, 0.2);
    for half in [Vec3::new(0.01, 0.01, 0.0008), Vec3::new(0.008, 0.006, 0.01)] {
        let field = Field::from_fn(Point::new(-0.0175, -0.0175, -0.0175), 5e-4, [71; 3], |p| {
            let d = (turn.inverse() * p.coords).abs() - half;
            -(d.sup(&Vec3::zeros()).norm() + d.max().min(0.0))
        });
        let shell = PointShell::from_field(&field, ShellParams::points(1200)).expect("cells enough");
        let area = 8.0 * (half.x * half.y + half.y * half.z + half.z * half.x);
        close("area", shell.total_area, area, 0.06);
        let faces = (0..3).flat_map(|axis| [-1.0, 1.0].map(move |side| (axis, side)));
        let places = faces.flat_map(|(axis, side)| {
            (0..=40).flat_map(move |i| {
                (0..=40).map(move |j| (axis, side, f64::from(i) / 20.0 - 1.0, f64::from(j) / 20.0 - 1.0))
            })
        });
        let farthest = shell.farthest(places.map(|(axis, side, u, v)| {
            let mut p = Vec3::zeros();
            (p[axis], p[(axis + 1) % 3], p[(axis + 2) % 3]) = (side, u, v);
            Point::from(turn * p.component_mul(&half))
        }));
        println!("{half:?}: farthest {farthest:.3e} m, stated {:.3e}", shell.covering_radius);
        assert!(farthest <= shell.covering_radius && shell.covering_radius < 4.0 * shell.spacing());
    }
}

/// k times the volume of the cap, straight up.
#[test]
fn a_ball_known_as_a_field_presses_as_its_cap() {
    let r = 0.01;
    let ball = Field::from_fn(Point::new(-0.012, -0.012, -0.012), 4e-4, [61; 3], |p| r - p.coords.norm());
    let shell = PointShell::from_field(&ball, ShellParams::points(3000)).expect("cells enough");
    let tool = ToolShape::Shell(Arc::new(shell));
    for h in [1e-3, 2e-3, 4e-3] {
        let contact = ask(&tool, &at(1e-4, -2e-4, r - h), &floor());
        let cap = PI * h * h * (3.0 * r - h) / 3.0;
        close("force", contact.wrench.force.z, PRESSURE * cap, 0.02);
        assert!(contact.wrench.force.xy().norm() < 0.01 * contact.wrench.force.z);
    }
}

#[test]
fn too_many_points_for_the_cells_and_a_field_without_a_surface_are_refused() {
    let many = PointShell::from_field(&torus(), ShellParams::points(40_000)).expect_err("0.2 mm apart");
    assert!(many.to_string().contains("finer field"), "{many}");
    let spaced = ShellParams { density: Density::Spacing(1e-3), ..ShellParams::points(1) };
    assert!(PointShell::from_field(&torus(), spaced).is_ok());
    let nothing = Field::from_fn(Point::origin(), 1e-3, [9; 3], |_| -1.0);
    assert_eq!(PointShell::from_field(&nothing, spaced), Err(ShellError::Empty));
}
