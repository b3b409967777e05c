//! `hapticd simulate`: a scene and a scripted hand on the virtual clock.

use super::demo::stats::{Quantiles, Stats};
use super::progress::Bar;
use super::simulation::Simulation;
use super::{exit, fields, out, outputs, replay, settings};
use crate::config::Config;
use crate::device::Lifecycle;
use crate::device::registry::{OpenOptions, REPLAY, Registry};
use crate::device::replay::Track;
use crate::device::simulated::HandScript;
use crate::recording::Recording;
use crate::recording::{ClockKind, Header, Recorder};
use crate::scene::file;
use crate::servo::handle::{ServoCommand, ServoConfig};
use crate::servo::record::{FLAG_SATURATED, FLAG_STIFFNESS_CAPPED, TickRecord};
use anyhow::Context;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

/// Session that holds the force in a simulation.
const SESSION: u64 = 1;
/// Length of a run whose hand script has no end, s.
const DEFAULT_SECONDS: f64 = 10.0;
/// Time that a run goes on after the hand's last keyframe, s.
const AFTER: f64 = 0.5;

/// Arguments of `hapticd simulate`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Scene file (TOML, see config/scenes)
    scene: PathBuf,
    /// Hand script (TOML, see config/hands); without it nobody holds the device
    #[arg(long)]
    hand: Option<PathBuf>,
    /// Recording to write (MCAP); equal runs give equal files
    #[arg(long, value_name = "RUN")]
    out: Option<PathBuf>,
    /// Length of the run, s; by default the hand script's and half a second more, or the recording's
    #[arg(long, value_parser = super::numbers::between(0.001, 1e6))]
    seconds: Option<f64>,
    /// Device, by its name in the registry (`hapticd devices`)
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// Recording (MCAP) that is played back in a hand's place: the tool moves as it did, with the limits of the recorded device
    #[arg(long, value_name = "RUN", conflicts_with_all = ["hand", "device"])]
    replay: Option<PathBuf>,
    /// Write the summary as a JSON object
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Work units that the contact queries of a tick may spend; 0 = unlimited
    #[arg(long, value_name = "U", default_value_t = 0)]
    budget_units: u32,
    /// Configuration whose device, limits and arming hold; by default the shipped values
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Do not arm: the forces stay zero
    #[arg(long)]
    unarmed: bool,
}

/// Runs `hapticd simulate`.
///
/// # Errors
/// A message for the user.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let config = match &args.config {
        Some(path) => Config::load(path)?,
        None => Config::default(),
    };
    let chosen = args.replay.as_ref().map_or(args.device.as_deref(), |_| Some(REPLAY));
    let device_name = chosen.unwrap_or(&config.device.name);
    let script = match args.hand.as_ref().or(config.device.hand.as_ref()).filter(|_| device_name != REPLAY) {
        Some(path) => {
            let text = crate::config::read_text(path).with_context(|| path.display().to_string())?;
            HandScript::parse_named(&path.display().to_string(), &text)?
        }
        None => HandScript::default(),
    };
    let registry = Registry::with(config.device.profiles.as_deref())?;
    registry.knows(device_name).map_err(exit::Usage::from)?;
    let recording = match args.replay.as_ref().or(config.device.recording.as_ref()) {
        Some(path) if device_name == REPLAY => Some(path),
        None if device_name == REPLAY => {
            let text =
                format!("'{REPLAY}' plays a recording back: name it with --replay, or as device.recording");
            return Err(exit::Usage(text).into());
        }
        _ => None,
    };

    let mut loaded = file::load(&args.scene, settings::scene(&config))?;
    // A recording of one of several devices was felt by its tool, at its place.
    let role = recording
        .and_then(|path| Recording::open(path).ok())
        .and_then(|r| r.header().extra.get("role").cloned());
    if let Some(role) = role {
        loaded.scene = loaded.scene.felt_by(&role);
    }
    let mut inputs = vec![("SCENE", args.scene.as_path())];
    inputs.extend(args.hand.as_deref().map(|p| ("--hand", p)));
    inputs.extend(args.config.as_deref().map(|p| ("--config", p)));
    inputs.extend(recording.map(|p| ("--replay", p.as_path())));
    inputs.extend(loaded.files.iter().map(|p| ("mesh of the scene", p.as_path())));
    let outputs: Vec<_> = [("--out", &args.out), ("--json", &args.json)]
        .into_iter()
        .filter_map(|(name, path)| path.as_deref().map(|p| (name, p)))
        .collect();
    outputs::keep_apart(&inputs, &outputs)?;
    let track = recording.map(|path| replay::track(path, &loaded.scene)).transpose()?;
    let ticks = ticks(args.seconds, &script, track.as_deref());
    let options =
        OpenOptions { hand: script, seed: Some(config.device.seed), replay: track, ..OpenOptions::default() };
    let mut device = registry.open(device_name, &options)?;
    if device.lifecycle() == Lifecycle::Uncalibrated {
        device.calibrate()?;
    }
    let profile = device.profile().name.clone();
    for (name, report) in &loaded.imports {
        out::line(format_args!("{}: {report}", out::word(name)))?;
    }
    let servo = ServoConfig { budget_units: args.budget_units, ..settings::servo(&config) };
    let compiler = Arc::new(fields::compiler(&config));
    let bar = Bar::new("building fields");
    let simulation = Simulation::new(loaded.scene, &loaded.motions, compiler, device, servo, &bar);
    bar.finish();
    let mut simulation = simulation?;
    fields::say(simulation.report())?;

    let mut recorder = match &args.out {
        Some(path) => Some(Recorder::create(path, &header(&args, &profile, &config))?),
        None => None,
    };
    let started = Instant::now();
    let mut gather = Gather::default();
    if !args.unarmed {
        simulation.send(ServoCommand::Arm { session: SESSION })?;
    }
    for tick in 0..ticks {
        // One renewal in ten ticks keeps the lease as an attentive client would.
        if !args.unarmed && tick % 10 == 0 {
            let until_ns = simulation.now_ns() + (config.control.lease_s * 1e9) as u64;
            simulation.send(ServoCommand::Lease { until_ns })?;
            simulation.acks().for_each(drop);
        }
        let record = simulation.step();
        gather.push(&record);
        if let Some(recorder) = &mut recorder {
            recorder.push(&record)?;
        }
    }
    if let Some(recorder) = recorder {
        recorder.finish()?;
    }
    let summary = gather.finish(started.elapsed().as_secs_f64(), simulation.report().bytes);
    out::text(&summary)?;
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&summary)?;
        std::fs::write(path, text + "\n").with_context(|| path.display().to_string())?;
    }
    Ok(if summary.fault == "none" { exit::OK } else { exit::findings() })
}

fn ticks(seconds: Option<f64>, script: &HandScript, track: Option<&Track>) -> u64 {
    // The first moment has a tick of its own.
    let recorded = track.map(|t| t.duration_ns() as f64 * 1e-9 + 1e-3);
    let end = script.keyframes.last().filter(|_| !script.repeat).map(|k| k.time + AFTER);
    let seconds = seconds.or(recorded).or(end).unwrap_or(DEFAULT_SECONDS);
    (seconds * 1000.0).round() as u64
}

fn header(args: &Args, device: &str, config: &Config) -> Header {
    let scene = args.scene.file_name().map_or_else(|| args.scene.as_path(), Path::new);
    let mut header = Header::new(device, &scene.display().to_string(), ClockKind::Virtual);
    header.budget_units = args.budget_units;
    header.coupling = config.coupling.law.name().into();
    header
}

/// What a run was like.
#[derive(Debug, Serialize)]
struct Summary {
    ticks: u64,
    /// Time that it took, s.
    elapsed_s: f64,
    /// Simulated time over elapsed time.
    speed: f64,
    contact_share: f64,
    peak_force_n: f64,
    peak_torque_nm: f64,
    peak_depth_m: f64,
    work_units: Quantiles,
    saturated_ticks: u64,
    capped_ticks: u64,
    incomplete_ticks: u64,
    generation: u64,
    state: String,
    zero: String,
    fault: String,
    scene_bytes: u64,
}

/// Gathers the summary of a run.
#[derive(Default)]
struct Gather {
    stats: Stats,
    saturated: u64,
    capped: u64,
    last: TickRecord,
}

impl Gather {
    fn push(&mut self, r: &TickRecord) {
        self.stats.push(r);
        self.saturated += u64::from(r.flags & FLAG_SATURATED != 0);
        self.capped += u64::from(r.flags & FLAG_STIFFNESS_CAPPED != 0);
        self.last = *r;
    }

    fn finish(self, elapsed_s: f64, scene_bytes: u64) -> Summary {
        let stats = &self.stats;
        Summary {
            ticks: stats.ticks,
            elapsed_s,
            speed: stats.ticks as f64 * 1e-3 / elapsed_s.max(1e-9),
            contact_share: stats.contact_share(),
            peak_force_n: stats.peak_force,
            peak_torque_nm: stats.peak_torque,
            peak_depth_m: stats.peak_depth,
            work_units: stats.work_units(),
            saturated_ticks: self.saturated,
            capped_ticks: self.capped,
            incomplete_ticks: stats.incomplete,
            generation: stats.generation,
            state: words(self.last.state),
            zero: words(self.last.zero),
            fault: words(stats.fault),
            scene_bytes,
        }
    }
}

/// A state, reason or fault in words: `MotionStopped` is "motion stopped".
fn words(name: impl std::fmt::Debug) -> String {
    let mut out = String::new();
    for c in format!("{name:?}").chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push(' ');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (ticks, elapsed) = (self.ticks, self.elapsed_s);
        writeln!(
            f,
            "{} s in {elapsed:.3} s ({:.1} x real time), {ticks} ticks",
            ticks as f64 * 1e-3,
            self.speed
        )?;
        let (contact, depth) = (100.0 * self.contact_share, 1e3 * self.peak_depth_m);
        let (force, torque) = (self.peak_force_n, self.peak_torque_nm);
        writeln!(f, "contact in {contact:.1} % of ticks, deepest {depth:.3} mm")?;
        writeln!(f, "peak force {force:.3} N, peak torque {torque:.4} N m")?;
        writeln!(f, "work units a tick: median {}, largest {}", self.work_units.p50, self.work_units.max)?;
        let (saturated, capped, incomplete) =
            (self.saturated_ticks, self.capped_ticks, self.incomplete_ticks);
        writeln!(f, "ticks saturated {saturated}, stiffness capped {capped}, out of budget {incomplete}")?;
        let (state, zero, fault) = (&self.state, &self.zero, &self.fault);
        writeln!(f, "at the end: {state}; reason for zero force: {zero}; fault: {fault}")?;
        writeln!(
            f,
            "generation {}, scene {:.1} MiB",
            self.generation,
            self.scene_bytes as f64 / f64::from(1 << 20)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::replay::Moment;
    use crate::geometry::Pose;
    use crate::servo::record::{Fault, ZeroReason};

    #[test]
    fn names_become_words() {
        assert_eq!(words(ZeroReason::MotionStopped), "motion stopped");
        assert_eq!(words(Fault::None), "none");
    }

    #[test]
    fn a_run_is_as_long_as_its_hand_unless_told() {
        let text = "[[keyframe]]\ntime = 2.0\nposition = [0, 0, 0]\n";
        let script = HandScript::parse(text).unwrap();
        assert_eq!(ticks(None, &script, None), 2500);
        assert_eq!(ticks(None, &HandScript::default(), None), 10_000);
        assert_eq!(ticks(Some(0.25), &script, None), 250);
        let moment = |time_ns| Moment { time_ns, pose: Some(Pose::identity()), buttons: 0, lost: 0 };
        let track = Track::new("ideal-6dof", "run", [moment(5_000_000), moment(503_900_000)]).unwrap();
        assert_eq!(ticks(None, &HandScript::default(), Some(&track)), 500);
        assert_eq!(ticks(Some(0.25), &HandScript::default(), Some(&track)), 250);
    }
}
