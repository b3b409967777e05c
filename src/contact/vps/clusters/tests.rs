use super::*;
use crate::contact::vps::ball::ball;
use crate::contact::vps::{PointShell, ShellParams};
use crate::geometry::{Vec3, shapes};

/// Evenly over a ball of radius 1: a spiral of equal steps in height and of the golden angle.
fn sphere(n: usize) -> Vec<Point> {
    let place = |i: usize| {
        let z = 1.0 - 2.0 * (i as f64 + 0.5) / n as f64;
        let (sin, cos) = (i as f64 * 2.399_963_229_728_653).sin_cos();
        let r = (1.0 - z * z).sqrt();
        Point::new(r * cos, r * sin, z)
    };
    (0..n).map(place).collect()
}

/// Evenly over a square of side 1, neither row nor column.
fn square(n: usize) -> Vec<Point> {
    let place = |i: usize| {
        let [x, y] = [0.754_877_666_246_692_7, 0.569_840_290_998_053_3].map(|s| (i as f64 * s).fract());
        Point::new(x, y, 0.0)
    };
    (0..n).map(place).collect()
}

fn radii(points: &[Point], order: &[u32], unit: usize) -> Vec<f64> {
    let of = |c: &[u32]| ball(&c.iter().map(|&i| points[i as usize]).collect::<Vec<_>>()).1;
    let mut radii: Vec<f64> = order.chunks(unit).map(of).collect();
    radii.sort_by(f64::total_cmp);
    radii
}

/// Largest over median.
fn outlying(radii: &[f64]) -> f64 {
    radii[radii.len() - 1] / radii[radii.len() / 2]
}

#[test]
fn every_point_stands_once() {
    let sizes = [0, 1, 2, 15, 16, 17, 31, 33, 255, 256, 257, 272, 273, 1000, 4096, 4097, 4369, 5000];
    for n in sizes {
        let cases = [sphere(n), square(n), vec![Point::new(1.0, 2.0, 3.0); n]];
        for points in cases {
            let mut order = bottom_up(&points);
            order.sort_unstable();
            assert!(order.iter().copied().eq(0..n as u32), "{n}");
        }
    }
}

#[test]
fn no_ball_is_an_outlier_as_greedy_leaves_them() {
    // Whole blocks, groups and regions, and a rest of each.
    for n in [2000, 4096, 5000, 20_003] {
        for points in [sphere(n), square(n)] {
            let order = bottom_up(&points);
            for unit in [LANES, LANES * LANES] {
                let radii = radii(&points, &order, unit);
                assert!(outlying(&radii) < 2.0, "{n} by {unit}: {}", outlying(&radii));
            }
            let greedy = clustered(&points, false, false);
            let radii = radii(&points, &greedy, LANES);
            assert!(outlying(&radii) > 3.0, "{n}: greedy alone left none, {}", outlying(&radii));
        }
    }
}

/// Sixteen points of a unit square's 1/n each fill at least a disc of radius sqrt(16 / (pi n)), and a square cell's corners lie
/// 1.25 times as far out; between points there is a spacing less.
#[test]
fn balls_are_nearly_as_small_as_can_be() {
    let n = 20_000;
    let disc = (16.0 / (std::f64::consts::PI * n as f64)).sqrt();
    let points = square(n);
    let bottom_up = radii(&points, &bottom_up(&points), LANES);
    let mean = bottom_up.iter().sum::<f64>() / bottom_up.len() as f64;
    assert!(mean < 1.25 * disc, "{}", mean / disc);
}

#[test]
fn halves_of_clusters_lie_together() {
    let points = square(4096 * 3 + 777);
    let order = bottom_up(&points);
    for unit in [4096, 256] {
        let of = |n: usize| {
            let all: f64 =
                order.chunks(unit).filter(|c| c.len() == unit).flat_map(|c| radii(&points, c, n)).sum();
            all * n as f64
        };
        // Half of a round piece has 0.8 to 0.9 of its radius; in no order it would keep nearly all of it.
        assert!(of(unit / 2) / of(unit) * 2.0 < 2.0 * 0.92, "{unit}: {}", of(unit / 2) / of(unit));
    }
}

#[test]
fn bodies_apart_share_one_cluster_at_most() {
    // 8 points are over on each.
    let mut points = sphere(1000);
    points.extend(sphere(1000).iter().map(|p| p + Vec3::new(100.0, 0.0, 0.0)));
    let order = bottom_up(&points);
    let across = |c: &&[u32]| c.iter().any(|&i| i < 1000) && c.iter().any(|&i| i >= 1000);
    assert!(order.chunks(LANES).filter(across).count() <= 1);
}

#[test]
fn weights_of_every_level_stay_with_their_points_and_sum_to_the_area() {
    let mesh = shapes::cuboid(Vec3::new(0.03, 0.02, 0.01));
    let build = |clusters| {
        PointShell::build(&mesh, ShellParams { clusters, ..ShellParams::points(3000) }).expect("a cuboid")
    };
    let (a, b) = (build(Clusters::Morton), build(Clusters::BottomUp));
    let weights = |shell: &PointShell, level: usize| {
        let level = &shell.levels[level];
        let mut rows: Vec<[u32; 7]> = (0..level.len)
            .map(|i| {
                let columns = [&shell.x, &shell.y, &shell.z, &shell.nx, &shell.ny, &shell.nz, &level.area];
                columns.map(|c| c[i].to_bits())
            })
            .collect();
        rows.sort_unstable();
        rows
    };
    assert!(a.levels.len() > 10 && a.levels.len() == b.levels.len());
    for (i, level) in b.levels.iter().enumerate() {
        assert!(weights(&a, i) == weights(&b, i), "level {i}");
        let area: f64 = level.area.iter().map(|&a| f64::from(a)).sum();
        assert!((area / 0.0022 - 1.0).abs() < 1e-5, "level {i}: {area}");
        assert!((level.sum[level.len.div_ceil(LANES)] / area - 1.0).abs() < 1e-6);
    }
}
