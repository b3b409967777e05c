//! Every point of a shell in f64, with the field's nodes read by another trilinear rule: random bodies, densities, cells and poses.

use super::{ask, even_gradient, few, turned, wrench};
use hapticd::contact::vps::{Clusters, PointShell, ShellParams};
use hapticd::contact::{ObjectShape, ToolShape};
use hapticd::geometry::field::Field;
use hapticd::geometry::field::build::{FieldParams, Resolution, Silent, build};
use hapticd::geometry::{Point, TriMesh, Vec3, shapes};
use nalgebra::Vector6;
use proptest::prelude::*;
use std::sync::Arc;

/// Depth and its gradient from the eight nodes around a place, weighted by the volume across; beyond the grid minus the least
/// distance that the border allows.
pub fn read(field: &Field, p: &Point) -> (f64, Vec3) {
    let u = (p - field.origin) / field.cell;
    let last = Vec3::from(field.dims.map(|d| f64::from(d - 1)));
    let q = Vec3::from_fn(|a, _| u[a].clamp(0.0, last[a]));
    let low = Vec3::from_fn(|a, _| q[a].floor().min(last[a] - 1.0));
    let part = q - low;
    let (mut depth, mut gradient) = (0.0, Vec3::zeros());
    for corner in 0..8u32 {
        let high = |a: usize| corner >> a & 1 == 1;
        let node = field.node(std::array::from_fn(|a| low[a] as u32 + u32::from(high(a))));
        let weight = |a: usize| if high(a) { part[a] } else { 1.0 - part[a] };
        depth += node * weight(0) * weight(1) * weight(2);
        for a in 0..3 {
            let sign = if high(a) { 1.0 } else { -1.0 };
            gradient[a] += sign * node * weight((a + 1) % 3) * weight((a + 2) % 3) / field.cell;
        }
    }
    let beyond = (u - q).norm() * field.cell;
    if beyond > 0.0 { (-depth.min(0.0).hypot(beyond), gradient) } else { (depth, gradient) }
}

fn body(kind: u8, [a, b, c]: [f64; 3]) -> TriMesh {
    match kind {
        0 => shapes::cuboid(Vec3::new(a, b, c)),
        1 => shapes::torus(0.5 * a, 0.18 * b, 48, 24),
        2 => shapes::cylinder(0.5 * a, b, 48),
        _ => shapes::icosphere(0.5 * a, 4),
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 32,
        rng_seed: proptest::test_runner::RngSeed::Fixed(2014),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_query_is_the_sum_over_all_points(
        kinds in (0u8..4, 0u8..4),
        sizes in prop::array::uniform2(prop::array::uniform3(0.02f64..0.06)),
        points in (4f64..9.2).prop_map(|e| e.exp() as u32),
        cells in 12u32..40,
        place in prop::array::uniform3(-0.03f64..0.03),
        axis in prop::array::uniform3(-1f64..1.0),
        angle in 0f64..3.1,
    ) {
        let mesh = body(kinds.0, sizes[0]);
        let [tool, other] = [Clusters::BottomUp, Clusters::Morton].map(|clusters| {
            let params = ShellParams { clusters, ..ShellParams::points(points) };
            ToolShape::Shell(Arc::new(PointShell::build(&mesh, params).expect("a proper mesh")))
        });
        let ToolShape::Shell(sampled) = &tool else { unreachable!() };
        let params = FieldParams { resolution: Resolution::Longest(cells), padding: 4 };
        let (field, _) = build(&body(kinds.1, sizes[1]), &params, &Silent).expect("a field");
        let field = Arc::new(field);
        let object = ObjectShape::Field(field.clone());
        let axis = Vec3::from(axis) + Vec3::new(0.0, 0.0, 1e-3);
        let pose = turned(axis, angle, place[0], place[1], place[2]);
        let c = ask(&tool, &pose, &object);
        let in_order = ask(&other, &pose, &object);
        prop_assert!(c.complete && in_order.complete);

        let [mut normals, mut plain, mut smooth] = [Vector6::zeros(); 3];
        let (mut deepest, mut pressed, mut size) = (f64::NEG_INFINITY, 0u32, 0.0);
        for i in 0..sampled.len {
            let p = pose * sampled.position(i);
            let (depth, g) = read(&field, &p);
            deepest = deepest.max(depth);
            if depth <= 0.0 {
                continue;
            }
            pressed += 1;
            let normal =
                pose.rotation * Vec3::new(sampled.nx[i].into(), sampled.ny[i].into(), sampled.nz[i].into());
            let even = even_gradient(|p| read(&field, p).0, &p, field.cell);
            let push = super::PRESSURE * f64::from(sampled.area[i]) * depth;
            size += push;
            let pushes = [normal, g * normal.dot(&g), even * normal.dot(&even)].map(|n| n * push);
            for (sum, f) in [&mut normals, &mut plain, &mut smooth].into_iter().zip(pushes) {
                let torque = (p.coords - pose.translation.vector).cross(&f);
                *sum += Vector6::new(f.x, f.y, f.z, torque.x, torque.y, torque.z);
            }
        }
        let along = plain + (smooth - plain) * few(pressed);
        // Single precision: positions in cells of the grid, and what adds up of so many pushes.
        let depth_error = 1e-6 * (1.0 + f64::from(cells)) * field.cell;
        if deepest.abs() > depth_error {
            prop_assert_eq!(c.touching, deepest > 0.0, "deepest {}", deepest);
        }
        // The same points in another order: the same to rounding.
        let rounding = 2e-5 * size + 2.0 * super::PRESSURE * f64::from(pressed) * depth_error
            * sampled.total_area / sampled.len as f64;
        let apart = wrench(&c) - wrench(&in_order);
        prop_assert!(apart.fixed_rows::<3>(0).norm() <= rounding);
        prop_assert!(apart.fixed_rows::<3>(3).norm() <= rounding * sampled.bound_radius);
        prop_assert_eq!(c.touching, in_order.touching);
        prop_assert!((c.depth - in_order.depth).abs() <= depth_error);
        prop_assert_eq!(c.distance.is_some(), in_order.distance.is_some());
        let between = c.distance.zip(in_order.distance).map_or(0.0, |(a, b)| (a - b).abs());
        prop_assert!(between <= depth_error, "{:?} {:?}", c.distance, in_order.distance);
        if c.touching {
            prop_assert!((c.depth - deepest).abs() <= depth_error, "{} {}", c.depth, deepest);
        }
        // Finely sampled contacts push along the shell's normals; of few points or shallow ones the answer lies between the sums.
        let off = along - normals;
        let got = wrench(&c) - normals;
        let finely = pressed > 60 && deepest > 2.6 * (sampled.total_area / sampled.len as f64).sqrt();
        let part = if finely || off.norm() < 1e-9 { 0.0 } else { got.dot(&off) / off.norm_squared() };
        prop_assert!(part > -1e-3 && part < 1.001, "part {} of {} points", part, pressed);
        let left = got - off * part;
        let (force, torque) = (left.fixed_rows::<3>(0).norm(), left.fixed_rows::<3>(3).norm());
        prop_assert!(force <= rounding, "{} N off, {} allowed of {}", force, rounding, size);
        prop_assert!(torque <= rounding * sampled.bound_radius, "{} N m off", torque);
    }
}
