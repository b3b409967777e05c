//! `hapticd demo`: a mesh, touched at 1 kHz on the simulated device, with nothing to install and nothing to set up.

mod drive;
pub mod hand;
mod report;
pub mod scene;
pub mod stats;

use super::calibrate::calibrate;
use super::plot::{draw, reduce::Columns};
use super::{fields, out, progress::Bar};
use crate::config::Config;
use crate::recording::{ClockKind, Header, Recorder, Recording};
use crate::scene::model::Method;
use anyhow::{Context as _, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// Time that a tick's contact queries may take, µs; the rest of the period is for everything else.
const BUDGET_US: f64 = 350.0;
/// The device.
const DEVICE: &str = "ideal-6dof";
/// The scene's name in recording and plot.
const SCENE: &str = "keyed pin in its hole";

/// Arguments of `hapticd demo`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Writes pin.stl, hole.stl, demo.mcap (the recording) and demo.png (the plot) to DIR.")]
pub struct Args {
    /// Length of the run
    #[arg(long, value_name = "N", default_value_t = 10.0, value_parser = super::numbers::between(0.1, 86_400.0))]
    pub seconds: f64,
    /// Directory to write to; made if absent
    #[arg(long, value_name = "DIR", default_value = "out/demo")]
    pub out: PathBuf,
    /// Also write the summary as one JSON object
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// How contact is computed: by points of the pin's surface, or by spheres that fill it
    #[arg(long, default_value = "vps", value_parser = method())]
    pub method: Method,
}

fn method() -> impl TypedValueParser<Value = Method> {
    PossibleValuesParser::new(["vps", "ist"]).try_map(|name| Method::named(&name).ok_or("no such method"))
}

/// Runs `hapticd demo`.
///
/// # Errors
/// Files that cannot be written, a build that fails, or a servo that cannot be started.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let made = ["pin.stl", "hole.stl", "demo.mcap", "demo.png"].map(|name| args.out.join(name));
    if let Some(json) = &args.json {
        let mut outputs: Vec<(&str, &Path)> =
            made.iter().map(|p| ("the demo's own file", p.as_path())).collect();
        outputs.push(("--json", json));
        super::outputs::keep_apart(&[], &outputs)?;
    }
    std::fs::create_dir_all(&args.out).with_context(|| format!("cannot make {}", args.out.display()))?;
    let bar = Bar::new("building the scene");
    let built = scene::build(&args.out, args.method, &fields::compiler(&Config::default()), &bar);
    bar.finish();
    let built = built?;
    fields::say(&built.report)?;
    let facts = report::Facts::of(&built)?;
    out::line(&facts)?;
    let Some(calibration) = calibrate(&built.snapshot) else { bail!("the scene takes no work to query") };
    let units = calibration.units(BUDGET_US);

    let path = args.out.join("demo.mcap");
    let mut header = Header::new(DEVICE, SCENE, ClockKind::Real);
    header.budget_units = units;
    header.units_per_us = calibration.units_per_us;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
    header.epoch_ns = now.saturating_sub(crate::servo::handle::monotonic_ns());
    let recorder = Recorder::create(&path, &header)?;
    out::line(format_args!("touching it for {} s at 1 kHz ...", args.seconds))?;
    let run = drive::drive(built.snapshot, units, args.seconds, recorder)?;

    let plot = args.out.join("demo.png");
    plot_recording(&path, &plot)?;
    let summary = report::Summary { run: &run, calibration, units };
    out::line(summary.text())?;
    out::line(format_args!("recording  {}\nplot       {}", path.display(), plot.display()))?;
    if let Some(json) = &args.json {
        let text = serde_json::to_string_pretty(&summary.json())?;
        std::fs::write(json, text + "\n").with_context(|| format!("cannot write {}", json.display()))?;
    }
    Ok(super::exit::OK)
}

fn plot_recording(recording: &Path, png: &Path) -> anyhow::Result<()> {
    const SIZE: (u32, u32) = (1600, 1280);
    let mut recording = Recording::open(recording)?;
    let header = recording.header().clone();
    let mut columns = Columns::new(SIZE.0 as usize, header.period_ns);
    recording.by_ref().for_each(|record| columns.push(&record));
    draw::draw(png, SIZE, "hapticd demo", &header, &columns)
        .with_context(|| format!("cannot write {}", png.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contact::ToolShape;
    use crate::device::registry::{OpenOptions, Registry};
    use crate::geometry::field::build::Silent;
    use crate::scene::compile::Compiler;
    use crate::servo::handle::{ServoCommand, ServoConfig, channel};
    use crate::servo::record::{Fault, ServoState};
    use crate::servo::run::VirtualServo;

    /// The demo on the virtual clock: what it promises holds whatever the machine's load.
    #[test]
    fn the_scene_is_as_large_and_the_hand_as_busy_as_promised() {
        let dir = tempfile::tempdir().unwrap();
        let built = scene::build(dir.path(), Method::Vps, &Compiler::new(1 << 30), &Silent).unwrap();
        let ToolShape::Shell(shell) = &built.snapshot.tool.shape else { panic!("the pin is no shell") };
        assert!(shell.len >= 5000, "{} points", shell.len);
        let field = built.snapshot.objects[0].shape.field();
        assert!(field.dims.iter().all(|n| *n > 128), "{:?}", field.dims);

        let seconds = 3.0;
        let config = ServoConfig { max_force: 10.0, max_torque: 0.5, lease: 10.0, ..ServoConfig::default() };
        let options = OpenOptions { hand: hand::script(seconds), ..OpenOptions::default() };
        let (mut handle, end) = channel(config);
        handle.publish(Box::new(built.snapshot)).unwrap();
        let mut servo = VirtualServo::new(end, Registry::builtin().open(DEVICE, &options).unwrap());
        handle.send(ServoCommand::Arm { session: 1 }).unwrap();
        let mut stats = stats::Stats::default();
        for tick in 0..(seconds * 1000.0) as u64 {
            let record = servo.step();
            assert_eq!(record.fault, Fault::None, "tick {tick}");
            assert!(tick > 100 || record.touched == 0, "touching in tick {tick}, before the arming gate");
            assert!(tick < 500 || record.state == ServoState::Rendering, "not rendering in tick {tick}");
            stats.push(&record);
            handle.drain(&mut |_| {});
        }
        assert!(stats.contact_share() >= 0.5, "contact in {} of the ticks", stats.contact_share());
        assert!(stats.peak_force > 0.5 && stats.peak_torque > 0.01, "{} N", stats.peak_force);
        // No point goes deeper than the hand aims: at most 5.5 mm beside the axis, 5 degrees at the key's 37 mm.
        let aim = 5.5e-3 + 5f64.to_radians() * 0.037;
        assert!(stats.peak_depth > 1e-5 && stats.peak_depth < aim, "{} m deep", stats.peak_depth);
    }
}
