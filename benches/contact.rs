//! Time of the contact query: 10,000 shell points in the band of a 256^3 field.
//!
//! `cargo bench --bench contact`. Prints ns a point and us a query, median and p99, for each instruction set, beside
//! a reference load (a fixed chain of dependent floating-point operations) timed between the runs: where that one
//! wavers, so does the machine.

use hapticd::contact::vps::{PointShell, ShellParams};
use hapticd::contact::{
    Budget, Friction, Material, ObjectShape, Query, QueryState, SimdLevel, Texture, ToolShape, force_simd,
    query,
};
use hapticd::geometry::field::Field;
use hapticd::geometry::{Point, Pose, Twist, Vec3, shapes};
use nalgebra::{Translation3, UnitQuaternion};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const QUERIES: usize = 2000;

/// Median and p99, us.
fn quantiles(mut ns: Vec<u64>) -> (f64, f64) {
    ns.sort_unstable();
    let at = |q: f64| ns[((ns.len() - 1) as f64 * q).round() as usize] as f64 / 1e3;
    (at(0.5), at(0.99))
}

/// 20,000 dependent multiply-adds.
fn reference() -> (f64, f64) {
    let times = (0..200)
        .map(|_| {
            let start = Instant::now();
            let mut x = black_box(1.0f64);
            for _ in 0..20_000 {
                x = x * 0.999_999 + 1e-6;
            }
            black_box(x);
            start.elapsed().as_nanos() as u64
        })
        .collect();
    quantiles(times)
}

fn main() {
    let started = Instant::now();
    let radius = 0.04;
    let n = 256;
    let cell = 0.1 / f64::from(n - 1);
    let corner = Point::new(-0.05, -0.05, -0.05);
    let field = Field::from_fn(corner, cell, [n, n, n], |p| radius - p.coords.norm());
    println!(
        "field {n}^3, {:.1} MB, sampled in {:.2} s",
        field.bytes() as f64 * 1e-6,
        started.elapsed().as_secs_f64()
    );
    // As the scene compiler does.
    println!(
        "large pages {}, nodes left out are within {:.3} cells",
        field.advise_large_pages(),
        field.coarse_error() / cell
    );
    let object = ObjectShape::Field(Arc::new(field));
    let material = Material {
        stiffness: 1000.0,
        reference_area: 1e-4,
        damping: 2.0,
        friction: Friction::NONE,
        texture: Texture::NONE,
    };
    for points in [10_000u32, 35_000] {
        for (name, tool_radius) in
            [("none touches", radius * 1.04), ("half touch", radius), ("all touch", radius * 0.97)]
        {
            let started = Instant::now();
            let shell = PointShell::build(&shapes::icosphere(tool_radius, 6), ShellParams::points(points));
            let shell = shell.expect("a sphere can be sampled");
            let built = started.elapsed().as_secs_f64();
            println!(
                "\n{points} points, {name} (shell built in {built:.2} s, {:.1} MB)",
                shell.memory_bytes() as f64 * 1e-6
            );
            let tool = ToolShape::Shell(Arc::new(shell));
            for level in SimdLevel::ALL {
                if !force_simd(Some(level)) {
                    println!("  {level}: this CPU lacks it");
                    continue;
                }
                let before = reference();
                let mut touching = 0;
                let times = (0..QUERIES)
                    .map(|k| {
                        // A hand's motion: slow, small, never the same pose twice.
                        let s = k as f64 * 1e-3;
                        let pose = Pose::from_parts(
                            Translation3::new(2e-4 * s.sin(), 2e-4 * (1.3 * s).cos(), 1e-4 * (0.7 * s).sin()),
                            UnitQuaternion::from_scaled_axis(Vec3::new(
                                0.1 * s.sin(),
                                0.2 * s.cos(),
                                0.1 * s,
                            )),
                        );
                        let twist = Twist { linear: Vec3::new(0.01, 0.0, -0.01), angular: Vec3::zeros() };
                        let q = Query {
                            tool: &tool,
                            tool_pose: &pose,
                            tool_twist: &twist,
                            object: &object,
                            object_pose: &Pose::identity(),
                            object_twist: &Twist::ZERO,
                            material: &material,
                        };
                        let start = Instant::now();
                        let c = query(black_box(&q), Budget::UNLIMITED, &mut QueryState::default());
                        let ns = start.elapsed().as_nanos() as u64;
                        touching += u32::from(black_box(c).touching);
                        ns
                    })
                    .collect();
                let (median, p99) = quantiles(times);
                let after = reference();
                println!(
                    "  {:7} median {median:7.1} us ({:5.2} ns/point)  p99 {p99:7.1} us  touching {:3.0} %  \
                     reference {:.1}/{:.1} us before, {:.1}/{:.1} after",
                    level.to_string(),
                    median * 1e3 / f64::from(points),
                    f64::from(touching) / QUERIES as f64 * 100.0,
                    before.0,
                    before.1,
                    after.0,
                    after.1,
                );
            }
        }
    }
    force_simd(None);
}
