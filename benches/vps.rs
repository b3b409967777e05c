//! Voxmap-PointShell: cost of a query against the number of points, and the torque about a pin that is put into its hole and
//! turned there.
//!
//! `cargo bench --bench vps [-- PNG [PNG]]`. Two equal tori, linked and pressed a millimetre into each other, then apart, with shells
//! of a hundred to a million points; prints medians and minima beside a reference load (a fixed chain of dependent
//! operations), fits the exponent of cost against points and draws both (`vps-cost.png` unless told otherwise). Then, where
//! the path `pin_hole_keyed` is there, its torque (`vps-pin.png`).

mod common;

use clap::Parser as _;
use common::{draw, exponent, reference, timed, torus};
use hapticd::cli::evaluate::{Args, Pair, PosePath};
use hapticd::contact::vps::{PointShell, ShellParams};
use hapticd::contact::{ObjectShape, ToolShape};
use hapticd::geometry::Vec3;
use hapticd::geometry::field::build::{FieldParams, Resolution, Silent, build};
use plotters::prelude::*;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const COUNTS: [u32; 9] = [100, 316, 1000, 3162, 10_000, 31_623, 100_000, 316_228, 1_000_000];
const QUERIES: usize = 1000;
/// Points in contact and apart from which on the exponent is fitted: below, what a query costs at all counts most.
const FIT: f64 = 3000.0;

fn costs(file: &str) {
    let params = FieldParams { resolution: Resolution::Longest(256), padding: 8 };
    let (field, _) = build(&torus(), &params, &Silent).expect("a torus has a field");
    field.advise_large_pages();
    println!("field {:?} nodes, {:.1} MB", field.dims, field.bytes() as f64 / 1e6);
    let object = ObjectShape::Field(Arc::new(field));
    let cases =
        [("in contact", 0.0, false), ("in contact, no memory", 0.0, true), ("6 mm apart", -0.006, false)];
    let mut curves: [Vec<(f64, f64)>; 3] = [vec![], vec![], vec![]];
    for points in COUNTS {
        let before = reference();
        let start = Instant::now();
        let shell = PointShell::build(&torus(), ShellParams::points(points)).expect("a torus can be sampled");
        let build_s = start.elapsed().as_secs_f64();
        let tool = ToolShape::Shell(Arc::new(shell));
        print!("{points:>8} points (built in {build_s:.2} s):");
        for ((name, apart, cold), curve) in cases.iter().zip(&mut curves) {
            let (times, last) = timed(&tool, &object, *apart, QUERIES, *cold);
            curve.push((f64::from(points), times[0]));
            print!(
                "  {name} {:.2} us (least {:.2}), {} points{};",
                times[QUERIES / 2],
                times[0],
                last.work,
                if last.touching { ", touching" } else { "" }
            );
        }
        println!("  reference {before:.1}/{:.1} us", reference());
    }
    let colours = [RGBColor(0, 114, 178), RGBColor(120, 126, 135), RGBColor(213, 94, 0)];
    for ((name, ..), curve) in cases.iter().zip(&curves) {
        let large: Vec<(f64, f64)> = curve.iter().copied().filter(|p| p.0 >= FIT).collect();
        println!("{name}: ~ n^{:.2} over all, n^{:.2} from {FIT} points", exponent(curve), exponent(&large));
    }
    let series: Vec<_> = cases
        .iter()
        .zip(curves)
        .zip(colours)
        .map(|((case, curve), colour)| (case.0, curve, colour))
        .collect();
    match draw(file, "points", 100.0, &series) {
        Ok(()) => println!("drawn into {file}"),
        Err(e) => println!("{file}: {e}"),
    }
}

/// The command line of `hapticd evaluate`.
#[derive(clap::Parser)]
struct Evaluate {
    #[command(flatten)]
    args: Args,
}

/// The poster's experiment (Sagardia 2013): a keyed pin goes into its hole (to pose 1500), then is turned about its axis.
fn pin(file: &str) -> Result<(), Box<dyn std::error::Error>> {
    let shared = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared"));
    let path = shared.join("paths/pin_hole_keyed.jsonl");
    if !path.is_file() {
        println!("skipped: {} is absent", path.display());
        return Ok(());
    }
    let dirs = [shared.join("models"), shared.join("models/analytic")];
    let path_name = path.display().to_string();
    let voxel = (0.28f64 / 280.0).to_string();
    let arguments = ["evaluate", &path_name, "--points", "8691", "--voxel", &voxel];
    let args = Evaluate::try_parse_from(arguments)?.args;
    let path = PosePath::read(&path)?;
    let pair = Pair::build(&path, &dirs, &args)?;
    let answers = pair.run(&path, 0, |_| {});
    let mut torques = [Vec::new(), Vec::new()];
    for (k, ((pose, _), answer)) in path.poses.iter().zip(&answers).enumerate() {
        let axis = pose.rotation * Vec3::x();
        let axial = answer.wrench.torque.dot(&axis);
        torques[0].push((k as f64, axial));
        torques[1].push((k as f64, (answer.wrench.torque - axis * axial).norm()));
    }
    let most = |of: &[(f64, f64)], poses: std::ops::Range<usize>| {
        of[poses].iter().fold(0.0f64, |m, t| m.max(t.1.abs()))
    };
    let all = path.poses.len();
    let lateral = most(&torques[1], 0..all);
    println!(
        "pin: torque about the axis at most {:.4} N m over poses 0-1500 ({:.2} % of the lateral maximum, {lateral:.3} N m), then up to \
         {:.3} N m",
        most(&torques[0], 0..1500.min(all)),
        100.0 * most(&torques[0], 0..1500.min(all)) / lateral,
        most(&torques[0], 1500.min(all)..all),
    );
    let (low, high) = torques.iter().flatten().fold((0.0f64, 0.0f64), |(l, h), t| (l.min(t.1), h.max(t.1)));
    plotters::style::register_font("sans", FontStyle::Normal, dejavu::sans::regular()).map_err(|_| "font")?;
    let area = BitMapBackend::new(file, (1000, 600)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption("A keyed pin in its hole: torque about the pin's origin", ("sans", 22))
        .margin(20)
        .x_label_area_size(50)
        .y_label_area_size(80)
        .build_cartesian_2d(0.0..all as f64, 1.05 * low..1.05 * high)?;
    chart
        .configure_mesh()
        .x_desc("pose (put in until 1500, then turned)")
        .y_desc("torque, N m (1000 N/m a cm²)")
        .label_style(("sans", 15))
        .draw()?;
    let looks = [("about the axis", RGBColor(213, 94, 0)), ("across it", RGBColor(0, 114, 178))];
    for (curve, (name, colour)) in torques.iter().zip(looks) {
        chart
            .draw_series(LineSeries::new(curve.iter().copied(), colour.stroke_width(2)))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .label_font(("sans", 17))
        .border_style(BLACK)
        .background_style(WHITE)
        .draw()?;
    area.present()?;
    println!("drawn into {file}");
    Ok(())
}

fn main() {
    let files: Vec<String> = std::env::args().skip(1).filter(|a| a.ends_with(".png")).collect();
    let file = |i: usize, default: &str| files.get(i).cloned().unwrap_or(default.to_owned());
    costs(&file(0, "vps-cost.png"));
    if let Err(e) = pin(&file(1, "vps-pin.png")) {
        println!("{e}");
    }
}
