//! Inner Sphere Trees: cost of a query against the number of spheres and of triangles, time and memory of the build.
//!
//! `cargo bench --bench ist [-- PNG]`. Two equal tori, linked and pressed a millimetre into each other, from a thousand to a
//! million spheres; prints medians and minima beside a reference load (a fixed chain of dependent operations), fits
//! the exponent of cost against spheres and draws both into a picture (`ist-cost.png` unless told otherwise).

use hapticd::contact::ist::{IstParams, Solid, SphereTree, cell_for};
use hapticd::contact::{Budget, Material, ObjectShape, Query, QueryState, ToolShape, query};
use hapticd::geometry::field::build::{FieldParams, Resolution, Silent, build};
use hapticd::geometry::import::{Format, ImportOptions, import};
use hapticd::geometry::{Pose, TriMesh, Twist, Vec3, shapes};
use nalgebra::{Translation3, UnitQuaternion};
use plotters::prelude::*;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const COUNTS: [u32; 6] = [1_000, 4_000, 16_000, 64_000, 250_000, 1_000_000];
const QUERIES: usize = 400;

fn torus() -> TriMesh {
    shapes::torus(0.06, 0.02, 128, 64)
}

/// Each triangle split in four in its own plane, so often: the same shape.
fn refined(mesh: &TriMesh, times: u32) -> TriMesh {
    let mut mesh = mesh.clone();
    for _ in 0..times {
        let mut middles = std::collections::BTreeMap::new();
        let mut finer = TriMesh { vertices: mesh.vertices.clone(), ..TriMesh::default() };
        for t in &mesh.triangles {
            let m: [u32; 3] = std::array::from_fn(|i| {
                let (a, b) = (t[i], t[(i + 1) % 3]);
                *middles.entry((a.min(b), a.max(b))).or_insert_with(|| {
                    let (p, q) = (&mesh.vertices[a as usize], &mesh.vertices[b as usize]);
                    finer.vertices.push(nalgebra::center(p, q));
                    finer.vertices.len() as u32 - 1
                })
            });
            finer.triangles.extend([
                [t[0], m[0], m[2]],
                [m[0], t[1], m[1]],
                [m[2], m[1], t[2]],
                [m[0], m[1], m[2]],
            ]);
        }
        mesh = finer;
    }
    mesh
}

/// 20,000 dependent multiply-adds, us.
fn reference() -> f64 {
    let time = || {
        let start = Instant::now();
        let mut x = black_box(1.0f64);
        for _ in 0..20_000 {
            x = x * 0.999_999 + 1e-6;
        }
        black_box(x);
        start.elapsed().as_secs_f64() * 1e6
    };
    let mut times: Vec<f64> = (0..50).map(|_| time()).collect();
    times.sort_by(f64::total_cmp);
    times[25]
}

/// A hand's motion, `apart` further from the pressed pose: the rings linked, the one turned by a right angle.
fn pose(k: usize, apart: f64) -> Pose {
    let s = k as f64 * 1e-3;
    Pose::from_parts(
        Translation3::new(0.081 + apart + 1e-4 * s.sin(), 2e-4 * (1.3 * s).cos(), 1e-4 * (0.7 * s).sin()),
        UnitQuaternion::from_scaled_axis(Vec3::new(std::f64::consts::FRAC_PI_2, 0.01 * s.cos(), 0.02 * s)),
    )
}

struct Cost {
    median_us: f64,
    least_us: f64,
    work: u32,
    volume: f64,
    distance: Option<f64>,
}

fn measure(tool: &ToolShape, object: &ObjectShape, apart: f64) -> Cost {
    let material = Material { stiffness: 1000.0, reference_area: 1e-4, damping: 2.0 };
    let mut state = QueryState::default();
    let mut last = None;
    let mut times: Vec<f64> = (0..QUERIES)
        .map(|k| {
            let tool_pose = pose(k, apart);
            let q = Query {
                tool,
                tool_pose: &tool_pose,
                tool_twist: &Twist::ZERO,
                object,
                object_pose: &Pose::identity(),
                object_twist: &Twist::ZERO,
                material: &material,
            };
            let start = Instant::now();
            let c = query(black_box(&q), Budget::UNLIMITED, &mut state);
            let us = start.elapsed().as_secs_f64() * 1e6;
            last = Some((c.work, c.volume.unwrap_or(0.0), c.distance));
            us
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let (work, volume, distance) = last.unwrap_or((0, 0.0, None));
    Cost { median_us: times[QUERIES / 2], least_us: times[0], work, volume, distance }
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
         {:.3} %; distance {:6.2} us (least {:6.2}), {:5} units, {:?}; reference {before:.1}/{:.1} us",
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
        apart.distance,
        reference(),
    );
    (touch, apart)
}

/// Slope of the straight line through the logarithms.
fn exponent(points: &[(f64, f64)]) -> f64 {
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let n = logs.len() as f64;
    let (mx, my) = (logs.iter().map(|p| p.0).sum::<f64>() / n, logs.iter().map(|p| p.1).sum::<f64>() / n);
    let (xy, xx) =
        logs.iter().fold((0.0, 0.0), |(xy, xx), (x, y)| (xy + (x - mx) * (y - my), xx + (x - mx).powi(2)));
    xy / xx
}

fn draw(file: &str, series: &[(&str, Vec<(f64, f64)>, RGBColor)]) -> Result<(), Box<dyn std::error::Error>> {
    plotters::style::register_font("sans", FontStyle::Normal, dejavu::sans::regular()).map_err(|_| "font")?;
    let area = BitMapBackend::new(file, (1000, 700)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption("Cost of a query against spheres: two tori", ("sans", 22))
        .margin(20)
        .x_label_area_size(50)
        .y_label_area_size(70)
        .build_cartesian_2d((800.0..1.3e6).log_scale(), (0.5..1e4).log_scale())?;
    chart.configure_mesh().x_desc("spheres").y_desc("µs, least of 400").label_style(("sans", 15)).draw()?;
    for (name, points, colour) in series {
        let colour = *colour;
        let label = format!("{name}: ~ n^{:.2}", exponent(points));
        chart
            .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(3)))?
            .label(label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(3)));
        chart.draw_series(points.iter().map(|p| Circle::new(*p, 5, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .label_font(("sans", 17))
        .border_style(BLACK)
        .background_style(WHITE)
        .draw()?;
    area.present()?;
    Ok(())
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
    match draw(&file, &[("volume", volume, blue), ("distance", distance, red)]) {
        Ok(()) => println!("drawn into {file}"),
        Err(e) => println!("{file}: {e}"),
    }

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
