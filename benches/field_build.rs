//! Field builds at three resolutions: time, nodes per second, bytes per cell, tests per node.
//!
//! `cargo bench --bench field_build [-- NAME...]`; the shared scans where they are, generated shapes always.

#[path = "../tests/meshes/mod.rs"]
#[allow(dead_code, reason = "shared with the tests, which use more of it")]
mod meshes;

use hapticd::geometry::field::build::{FieldParams, Resolution, Silent, build};
use hapticd::geometry::{TriMesh, shapes};
use nix::time::{ClockId, clock_gettime};
use std::time::Instant;

/// CPU time of all threads, s: says what the build costs where other processes share the cores.
fn cpu_s() -> f64 {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)
        .map_or(f64::NAN, |t| t.tv_sec() as f64 + t.tv_nsec() as f64 * 1e-9)
}

fn main() {
    let names: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let wanted = |n: &str| names.is_empty() || names.iter().any(|w| n.contains(w.as_str()));
    let mut inputs: Vec<(String, TriMesh)> = vec![
        ("icosphere (82 k triangles)".into(), shapes::icosphere(0.05, 6)),
        ("torus (80 k triangles)".into(), shapes::torus(0.08, 0.03, 400, 100)),
    ];
    for name in ["bunny.ply", "armadillo.ply", "messy/counter_mm.stl", "messy/cycloidal.ply"] {
        inputs.extend(meshes::shared(name).map(|m| (name.to_string(), m)));
    }
    println!("{} threads", rayon::current_num_threads());
    println!(
        "{:28} {:>5} {:>9} {:>8} {:>8} {:>8} {:>7} {:>8} {:>9} {:>9} {:>7}",
        "mesh",
        "cells",
        "nodes",
        "s",
        "cpu s",
        "Mnode/s",
        "B/cell",
        "tri/node",
        "wind/node",
        "cap cm2",
        "thin"
    );
    for (name, mesh) in inputs.iter().filter(|(n, _)| wanted(n)) {
        for longest in [64, 128, 256] {
            let params = FieldParams { resolution: Resolution::Longest(longest), ..FieldParams::default() };
            let runs: u32 = if longest <= 128 { 3 } else { 1 };
            let mut times = Vec::new();
            let cpu = cpu_s();
            let mut last = None;
            for _ in 0..runs {
                let start = Instant::now();
                last = build(mesh, &params, &Silent).map_err(|e| eprintln!("{name}: {e}")).ok();
                times.push(start.elapsed().as_secs_f64());
            }
            let cpu = (cpu_s() - cpu) / f64::from(runs);
            let Some((field, report)) = last else { continue };
            times.sort_by(f64::total_cmp);
            let (s, nodes) = (times[times.len() / 2], report.nodes as f64);
            let cells: f64 = field.dims.iter().map(|&n| f64::from(n - 1)).product();
            println!(
                "{name:28} {longest:>5} {:>9} {s:>8.3} {cpu:>8.3} {:>8.2} {:>7.3} {:>8.1} {:>9.4} {:>9.2} {:>7.2}",
                report.nodes,
                nodes / s * 1e-6,
                report.bytes as f64 / cells,
                report.distance_tests as f64 / nodes,
                report.winding_tests as f64 / nodes,
                report.capped_area * 1e4,
                report.thinnest_cells,
            );
        }
    }
}
