//! How good forces are along a keyed pin in its hole and along two linked rings: sphere trees beside the response of their paper and beside
//! Voxmap-PointShell.
//!
//! `cargo bench --bench force_quality [-- PNG]`. Reads the recorded paths beside the repository. For each method: the part of the
//! force's and the torque's energy above 50 Hz (poses a millisecond apart, Hann window, mean taken off) beside that of the exact
//! gradient of the volume; the largest change for a micrometre or 1e-5 rad; the work that closed loops take, as a
//! part of all that is done on the way; the angle to the exact gradient. Forces go into a picture (`force-quality.png`).

#[path = "force_quality/paper.rs"]
mod paper;

use clap::Parser as _;
use hapticd::cli::evaluate::{Args, Pair, PosePath};
use hapticd::geometry::{Pose, Vec3, Wrench};
use paper::Paper;
use plotters::prelude::*;
use std::path::Path;

const PATHS: [&str; 2] = ["pin_hole_keyed", "torus_link"];
const METHODS: [(&str, &str, &str); 2] = [("ist", "--spheres", "45000"), ("vps", "--points", "10000")];
/// Spheres of each body for the paper's response.
const PAPER: u32 = 45_000;
/// Frequency from which force is noise rather than the hand's own motion, Hz.
const NOISE: f64 = 50.0;
/// Places along a path where jumps and loops are looked at.
const PLACES: usize = 12;
/// Steps of a walk there, poses of a loop, and how finely each of them is divided.
const STEPS: usize = 30;
const LOOP: usize = 40;
const FINE: usize = 16;

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

/// The wrench at a pose of the moving body, with an empty memory.
type Ask<'a> = &'a dyn Fn(&Pose) -> Wrench;

/// Part of a signal's energy above [`NOISE`].
fn above(signal: &[Vec3], dt: f64) -> f64 {
    let n = signal.len();
    let mean = signal.iter().sum::<Vec3>() / n as f64;
    let turn = std::f64::consts::TAU / n as f64;
    let shaped: Vec<Vec3> =
        signal.iter().enumerate().map(|(i, v)| (v - mean) * (0.5 - 0.5 * (turn * i as f64).cos())).collect();
    let all = shaped.iter().map(Vec3::norm_squared).sum::<f64>();
    let bins = (NOISE * n as f64 * dt) as usize;
    let mut low = 0.0;
    for k in 0..=bins {
        let (mut re, mut im) = (Vec3::zeros(), Vec3::zeros());
        for (i, v) in shaped.iter().enumerate() {
            let (s, c) = (turn * ((k * i) % n) as f64).sin_cos();
            re += v * c;
            im += v * s;
        }
        // Parseval: each bin but the first stands for two.
        low += (re.norm_squared() + im.norm_squared()) / n as f64 * if k == 0 { 1.0 } else { 2.0 };
    }
    (1.0 - low / all.max(f64::MIN_POSITIVE)).max(0.0)
}

/// Largest change of force and torque for a micrometre or 1e-5 rad.
fn jumps(at: Ask<'_>, path: &PosePath) -> (f64, f64) {
    let mut worst = (0.0f64, 0.0f64);
    for place in 0..PLACES {
        let i = (2 * place + 1) * path.poses.len() / (2 * PLACES);
        let (Some((from, _)), Some((to, _))) = (path.poses.get(i), path.poses.get(i + 1)) else { continue };
        let way = (to.translation.vector - from.translation.vector).norm();
        let all = (way / 1e-6).max(from.rotation.angle_to(&to.rotation) / 1e-5).max(1.0);
        let walk: Vec<Wrench> =
            (0..=STEPS).map(|s| at(&from.lerp_slerp(to, (s as f64 / all).min(1.0)))).collect();
        for w in walk.windows(2) {
            worst.0 = worst.0.max((w[1].force - w[0].force).norm());
            worst.1 = worst.1.max((w[1].torque - w[0].torque).norm());
        }
    }
    worst
}

/// Work of closed loops (along the path and straight back) as a part of the work done on the way: mean and largest.
fn loops(at: Ask<'_>, path: &PosePath) -> (f64, f64) {
    let mut parts = Vec::new();
    for place in 0..PLACES {
        let i = (2 * place + 1) * path.poses.len() / (2 * PLACES);
        let Some(row) = path.poses.get(i..=i + LOOP) else { continue };
        let mut corners: Vec<Pose> = row.iter().map(|(pose, _)| *pose).collect();
        let (first, last) = (corners[0], corners[LOOP]);
        corners.extend((1..=LOOP).map(|s| last.lerp_slerp(&first, s as f64 / LOOP as f64)));
        let (mut work, mut passed) = (0.0, 0.0);
        let mut before = at(&corners[0]);
        for w in corners.windows(2) {
            let mut from = w[0];
            for s in 1..=FINE {
                let to = w[0].lerp_slerp(&w[1], s as f64 / FINE as f64);
                let after = at(&to);
                let turn = (to.rotation * from.rotation.inverse()).scaled_axis();
                let step = to.translation.vector - from.translation.vector;
                let done = 0.5
                    * ((before.force + after.force).dot(&step) + (before.torque + after.torque).dot(&turn));
                work += done;
                passed += done.abs();
                (from, before) = (to, after);
            }
        }
        if passed > 1e-9 {
            parts.push(work.abs() / passed);
        }
    }
    let mean = parts.iter().sum::<f64>() / parts.len().max(1) as f64;
    (mean, parts.iter().copied().fold(0.0, f64::max))
}

/// Angle between forces and the exact gradient, degrees: mean and 99th percentile, where both say enough.
fn angles(forces: &[Vec3], path: &PosePath) -> (f64, f64) {
    let exact = |i: usize| path.poses[i].1.by_position.map(|g| -g);
    let peak = forces.iter().map(Vec3::norm).fold(0.0, f64::max);
    let most = (0..forces.len()).filter_map(exact).map(|g| g.norm()).fold(0.0, f64::max);
    let mut all: Vec<f64> = (0..forces.len())
        .filter_map(|i| exact(i).map(|g| (forces[i], g)))
        .filter(|(f, g)| f.norm() > 0.01 * peak && g.norm() > 0.01 * most)
        .map(|(f, g)| f.angle(&g).to_degrees())
        .collect();
    all.sort_by(f64::total_cmp);
    let mean = all.iter().sum::<f64>() / all.len().max(1) as f64;
    (mean, all.get(all.len() * 99 / 100).copied().unwrap_or(0.0))
}

/// Names and forces, N, one a pose.
type Curves = Vec<(&'static str, Vec<f64>)>;

fn picture(file: &str, panels: &[(&str, f64, Curves)]) -> Result<(), Box<dyn std::error::Error>> {
    plotters::style::register_font("sans", FontStyle::Normal, dejavu::sans::regular()).map_err(|_| "font")?;
    let area = BitMapBackend::new(file, (1200, 500 * panels.len() as u32)).into_drawing_area();
    area.fill(&WHITE)?;
    let colours = [RGBColor(0, 114, 178), RGBColor(213, 94, 0), RGBColor(0, 158, 115)];
    for (area, (name, dt, curves)) in area.split_evenly((panels.len(), 1)).into_iter().zip(panels) {
        let most = curves.iter().flat_map(|c| &c.1).copied().fold(1e-3, f64::max);
        let seconds = curves.iter().map(|c| c.1.len()).max().unwrap_or(1) as f64 * dt;
        let mut chart = ChartBuilder::on(&area)
            .caption(*name, ("sans", 22))
            .margin(15)
            .x_label_area_size(45)
            .y_label_area_size(65)
            .build_cartesian_2d(0.0..seconds, 0.0..1.05 * most)?;
        chart.configure_mesh().x_desc("s").y_desc("force, N").label_style(("sans", 15)).draw()?;
        for ((name, forces), colour) in curves.iter().zip(colours) {
            let line = forces.iter().enumerate().map(|(i, f)| (i as f64 * dt, *f));
            chart
                .draw_series(LineSeries::new(line, colour.mix(0.7).stroke_width(2)))?
                .label(*name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(3)));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .label_font(("sans", 17))
            .border_style(BLACK)
            .background_style(WHITE)
            .draw()?;
    }
    area.present()?;
    Ok(())
}

fn main() {
    let file = std::env::args().skip(1).find(|a| a.ends_with(".png"));
    let file = file.unwrap_or_else(|| "force-quality.png".to_owned());
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    if !shared.join("paths").is_dir() {
        println!("skipped: no recorded paths at {}", shared.display());
        return;
    }
    println!(
        "| path | method | above 50 Hz, force / torque, % | most in 1 µm or 1e-5 rad, N / N m | peak, N / N m | work of loops, \
         mean / most, % | angle mean / p99, ° |"
    );
    println!("|---|---|---|---|---|---|---|");
    let mut panels = Vec::new();
    for name in PATHS {
        let file = shared.join("paths").join(format!("{name}.jsonl"));
        let path = PosePath::read(&file).expect("the path parses");
        let dt = path.header.dt;
        let exact = |of: fn(&hapticd::cli::evaluate::Truth) -> Option<Vec3>| -> Vec<Vec3> {
            path.poses.iter().map(|(_, t)| of(t).unwrap_or_default()).collect()
        };
        let (by_position, by_rotation) = (exact(|t| t.by_position), exact(|t| t.by_rotation));
        println!(
            "| {name} | exact gradient | {:.4} / {:.4} | - | - | - | - |",
            100.0 * above(&by_position, dt),
            100.0 * above(&by_rotation, dt)
        );
        let mut curves = Curves::new();
        let mut row = |method: &'static str, count: &str, at: Ask<'_>| {
            let answers: Vec<Wrench> = path.poses.iter().map(|(pose, _)| at(pose)).collect();
            let forces: Vec<Vec3> = answers.iter().map(|a| a.force).collect();
            let torques: Vec<Vec3> = answers.iter().map(|a| a.torque).collect();
            let peak = |v: &[Vec3]| v.iter().map(Vec3::norm).fold(0.0, f64::max);
            let (jump, work, angle) = (jumps(at, &path), loops(at, &path), angles(&forces, &path));
            println!(
                "| {name} | {method}, {count} | {:.4} / {:.4} | {:.4} / {:.5} | {:.1} / {:.2} | {:.3} / {:.2} | {:.1} / {:.1} |",
                100.0 * above(&forces, dt),
                100.0 * above(&torques, dt),
                jump.0,
                jump.1,
                peak(&forces),
                peak(&torques),
                100.0 * work.0,
                100.0 * work.1,
                angle.0,
                angle.1
            );
            curves.push((method, forces.iter().map(Vec3::norm).collect()));
        };
        let models = [shared.join("models")];
        let mut stiffness = 0.0;
        for (method, size, count) in METHODS {
            let file = file.to_string_lossy().into_owned();
            let args = Line::parse_from(["evaluate", &file, "--method", method, size, count]).args;
            let pair = Pair::build(&path, &models, &args).expect("both bodies build");
            stiffness = pair.material().stiffness / pair.material().reference_area;
            row(method, count, &|pose| pair.at(pose, 0).wrench);
        }
        let [moving, fixed] =
            [&path.header.moving, &path.header.fixed].map(|b| b.load(&models).expect("the model is there"));
        let paper = Paper::build(&moving, &fixed, PAPER, stiffness);
        row("the paper's cones", &PAPER.to_string(), &|pose| paper.wrench(pose));
        panels.push((name, dt, curves));
    }
    match picture(&file, &panels) {
        Ok(()) => println!("{file}"),
        Err(e) => println!("no picture: {e}"),
    }
}
