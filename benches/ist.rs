//! Inner Sphere Trees: cost of a query against the number of spheres and of triangles, time and memory of the build.
//!
//! `cargo bench --bench ist [-- PNG]`. Two equal tori, linked and pressed a millimetre into each other, from a thousand to a
//! million spheres; prints medians and minima beside a reference load (a fixed chain of dependent operations), fits
//! the exponent of cost against spheres and draws both into a picture (`ist-cost.png` unless told otherwise). Then what sixteen nodes or
//! cells against the field cost, the step that a query consists of, with tree and field in the caches and not.

mod common;

use common::{draw, exponent, pose, question, reference, timed, torus};
use hapticd::contact::ist::{IstParams, Solid, SphereTree, cell_for};
use hapticd::contact::{Budget, ObjectShape, QueryState, ToolShape, query, simd_level};
use hapticd::geometry::field::build::{FieldParams, Resolution, Silent, build};
use hapticd::geometry::import::{Format, ImportOptions, import};
use hapticd::geometry::{TriMesh, shapes};
use plotters::style::RGBColor;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const COUNTS: [u32; 6] = [1_000, 4_000, 16_000, 64_000, 250_000, 1_000_000];
const QUERIES: usize = 400;

/// Each triangle split in four, so often.
fn refined(mesh: &TriMesh, times: u32) -> TriMesh {
    (0..times).fold(mesh.clone(), |mesh, _| shapes::quartered(&mesh))
}

struct Cost {
    median_us: f64,
    least_us: f64,
    work: u32,
    volume: f64,
    distance: Option<f64>,
}

fn measure(tool: &ToolShape, object: &ObjectShape, apart: f64) -> Cost {
    let (times, last) = timed(tool, object, apart, QUERIES, false);
    Cost {
        median_us: times[QUERIES / 2],
        least_us: times[0],
        work: last.work,
        volume: last.volume.unwrap_or(0.0),
        distance: last.distance,
    }
}

fn bodies(mesh: &TriMesh, spheres: u32) -> (Arc<SphereTree>, ObjectShape, f64, f64) {
    let start = Instant::now();
    let tree = SphereTree::build(mesh, &IstParams::spheres(spheres), &Silent).expect("a torus can be filled");
    let tree_s = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let cell = cell_for(mesh, spheres, &Silent).expect("a torus has a volume");
    let params = FieldParams { resolution: Resolution::Cell(cell), padding: 8 };
    let (field, _) = build(mesh, &params, &Silent).expect("a torus has a field");
    field.advise_large_pages();
    let solid = Solid::new(mesh, Arc::new(field), &|| false).expect("never stopped");
    (Arc::new(tree), ObjectShape::Solid(Arc::new(solid)), tree_s, start.elapsed().as_secs_f64())
}

fn row(name: &str, tree: &Arc<SphereTree>, object: &ObjectShape) -> (Cost, Cost) {
    let tool = ToolShape::Spheres(tree.clone());
    let before = reference();
    let (touch, apart) = (measure(&tool, object, 0.0), measure(&tool, object, -0.006));
    println!(
        "  {name:>9} {:>8} spheres, {:5.1} bytes each: volume {:8.1} us (least {:8.1}), {:7} units, {:5.2} ns each, overlap \
         {:.3} %; distance {:6.2} us (least {:6.2}), {:5} units, {:.3} mm; reference {before:.1}/{:.1} us",
        tree.spheres,
        tree.memory_bytes() as f64 / tree.spheres as f64,
        touch.median_us,
        touch.least_us,
        touch.work,
        touch.least_us * 1e3 / f64::from(touch.work.max(1)),
        100.0 * touch.volume / tree.volume,
        apart.median_us,
        apart.least_us,
        apart.work,
        1e3 * apart.distance.expect("asked for"),
        reference(),
    );
    (touch, apart)
}

/// Bytes that are read between two queries, and where that leaves tree and field: a core's own caches, what cores share, neither.
const SWEPT: [(usize, &str); 3] =
    [(0, "as the last query left them"), (4 << 20, "out of the core's caches"), (256 << 20, "in memory")];
/// Work units between which the cost of sixteen is taken.
const OPENED: [u32; 2] = [500, 4_000];

/// Sixteen nodes or cells against the field, ns: the difference between two budgets, so that what a query costs at all is left out.
fn sixteen(tool: &ToolShape, object: &ObjectShape, swept: &[u64]) -> f64 {
    let queries = if swept.len() > 1 << 20 { 60 } else { QUERIES };
    // Both budgets at each pose, one after the other, so that a machine that wavers does so for both.
    let mut costs: Vec<f64> = (0..queries)
        .filter_map(|k| {
            let tool_pose = pose(k, 0.0);
            let q = question(tool, &tool_pose, object);
            let [few, many] = OPENED.map(|units| {
                let mut state = QueryState { touching: true, ..QueryState::default() };
                black_box(swept.iter().fold(0u64, |sum, x| sum.wrapping_add(*x)));
                let start = Instant::now();
                let answer = query(black_box(&q), Budget { units, deadline: None }, &mut state);
                (start.elapsed().as_secs_f64() * 1e9, f64::from(answer.work))
            });
            (many.1 > few.1).then(|| 16.0 * (many.0 - few.0) / (many.1 - few.1))
        })
        .collect();
    costs.sort_by(f64::total_cmp);
    costs.get(costs.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The step that all of a query consists of, in small and large trees.
fn batches() {
    println!(
        "\nsixteen nodes or cells against the field ({}), between budgets of {OPENED:?} units",
        simd_level()
    );
    for spheres in [16_000, 250_000, 1_000_000] {
        let (tree, object, ..) = bodies(&torus(), spheres);
        let bytes = tree.memory_bytes() as f64 + object.field().bytes() as f64;
        let tool = ToolShape::Spheres(tree);
        for (swept, name) in SWEPT {
            let swept = vec![1u64; swept / 8];
            let before = reference();
            let ns = sixteen(&tool, &object, &swept);
            println!(
                "  {spheres:>9} spheres, tree and field {:6.1} MB, {name}: {ns:6.1} ns; reference {before:.1}/{:.1} us",
                bytes / 1e6,
                reference()
            );
        }
    }
}

fn main() {
    let file = std::env::args().skip(1).find(|a| a.ends_with(".png")).unwrap_or("ist-cost.png".to_owned());
    println!("query cost against spheres");
    let (mut volume, mut distance) = (Vec::new(), Vec::new());
    for spheres in COUNTS {
        let (tree, object, tree_s, solid_s) = bodies(&torus(), spheres);
        let (touch, apart) = row("torus", &tree, &object);
        println!("{:>12} tree built in {tree_s:.2} s, solid in {solid_s:.2} s", "");
        volume.push((tree.spheres as f64, touch.least_us));
        distance.push((tree.spheres as f64, apart.least_us));
    }
    println!("volume ~ n^{:.2}, distance ~ n^{:.2}", exponent(&volume), exponent(&distance));
    let (blue, red) = (RGBColor(0, 114, 178), RGBColor(213, 94, 0));
    match draw(&file, "spheres", 1000.0, &[("volume", volume, blue), ("distance", distance, red)]) {
        Ok(()) => println!("drawn into {file}"),
        Err(e) => println!("{file}: {e}"),
    }

    batches();

    println!("\nquery cost against triangles of the same shape, 100,000 spheres");
    let base = torus();
    let mut costs = Vec::new();
    for (times, name) in [(0, "as it is"), (2, "16-fold")] {
        let (tree, object, _, _) = bodies(&refined(&base, times), 100_000);
        costs.push(row(name, &tree, &object));
    }
    if let [(v, d), (w, e)] = costs.as_slice() {
        println!("ratio: volume {:.2}, distance {:.2}", w.least_us / v.least_us, e.least_us / d.least_us);
    }

    println!("\nbuild times");
    let bunny = std::fs::read("../shared/models/bunny_filled.ply")
        .ok()
        .and_then(|b| import("bunny", &b, Format::Ply, &ImportOptions::in_unit(1.0)).ok());
    let (name, mesh) = bunny.map_or(("torus", torus()), |b| ("bunny", b.mesh));
    for spheres in [100_000, 500_000] {
        let before = reference();
        let (tree, _, tree_s, solid_s) = bodies(&mesh, spheres);
        println!(
            "  {name}, {} spheres: tree {tree_s:.2} s, solid {solid_s:.2} s, {:.1} bytes a sphere, {} levels, fill {:.1} %; \
             reference {before:.1}/{:.1} us",
            tree.spheres,
            tree.memory_bytes() as f64 / tree.spheres as f64,
            tree.depth(),
            100.0 * tree.fill,
            reference()
        );
    }
}
