//! `hapticd run`: the service.

use super::calibrate::{Calibration, calibrate};
use super::{exit, out, replay, settings};
use crate::config::Config;
use crate::config::Driver;
use crate::control::cpu::{self, Cpus};
use crate::control::log::Log;
use crate::control::supervisor::{self, Engine, Outcome, Started};
use crate::control::throttle::LogThrottle;
use crate::device::attached::Kind;
use crate::device::io::scheduling::Scheduling;
use crate::device::registry::{OpenOptions, REPLAY, Registry};
use crate::device::replay::Track;
use crate::device::simulated::HandScript;
use crate::device::{Device, Lifecycle};
use crate::geometry::field::build::{FieldParams, Resolution, Silent};
use crate::geometry::{Pose, Vec3, shapes};
use crate::protocol::messages::RtNote;
use crate::scene::compile::Compiler;
use crate::scene::model::{
    Edit, Friction, GeometrySpec, Limits, Material, ObjectSpec, Scene, Shell, SourceMesh, Texture, ToolSpec,
};
use crate::scene::snapshot::Snapshot;
use crate::servo::handle::{ServoConfig, channel};
use crate::servo::rt::{RtLine, RtOptions};
use crate::servo::run::{self as servo, Ended};
use anyhow::Context;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use tracing_subscriber::filter::FilterExt;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt};

/// Arguments of `hapticd run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Configuration file; without it every key has its default
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Serve requests that provoke faults (for tests of hapticd itself)
    #[arg(long, hide = true)]
    debug_requests: bool,
}

/// Runs `hapticd run`.
///
/// # Errors
/// A message for the user.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (config, scene, engine) = match prepare(&args) {
        Ok(ready) => ready,
        Err(error) => {
            // Another try would meet the same: a code of its own, so that the service is not started again and again.
            out::note(format_args!("hapticd: {}", out::causes(&error)));
            return Ok(ExitCode::from(exit::CONFIG));
        }
    };
    let log = start_log(&config)?;
    let ended = serve(&config, scene, engine, args.debug_requests);
    if let Err(error) = &ended {
        // Said here, where a stderr that takes nothing holds up nobody.
        let text = format!("hapticd: {}\n", out::causes(error));
        log.line(out::printable(&text).into_owned().into_bytes());
    }
    log.finish();
    Ok(ended.unwrap_or(exit::FAILED))
}

/// Everything that the configuration names.
fn prepare(args: &Args) -> anyhow::Result<(Config, Scene, Local)> {
    let config = match &args.config {
        Some(path) => Config::load(path)?,
        None => Config::default(),
    };
    if let Some(socket) = &config.control.socket {
        let dir = socket.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // A directory made from a misspelt path would hide the mistake.
        anyhow::ensure!(
            dir.is_dir(),
            "control.socket: there is no directory {}; make it, or leave control.socket empty",
            dir.display()
        );
    }
    let scene = match &config.scene.file {
        Some(path) => crate::scene::file::load(path, Limits::default())?.scene,
        None => Scene::default(),
    };
    let engine = Local::new(&config, &scene)?;
    Ok((config, scene, engine))
}

fn serve(config: &Config, scene: Scene, engine: Local, debug: bool) -> anyhow::Result<ExitCode> {
    match supervisor::run(config, scene, Box::new(engine), debug)? {
        Outcome::Clean => Ok(exit::OK),
        Outcome::Panicked => anyhow::bail!("a thread panicked; the force was taken away"),
        Outcome::Unconfirmed => {
            anyhow::bail!("zero force was not confirmed by the servo and the device; run `hapticd zero`")
        }
    }
}

/// systemd adds the time itself; elsewhere a line without time is of little use.
fn start_log(config: &Config) -> anyhow::Result<Log> {
    let cpus = Cpus::split(config.servo.core).map_err(anyhow::Error::msg)?;
    // Not by way of std's stderr: its lock would make others wait for the one who writes.
    let stderr = std::fs::File::from(std::io::stderr().as_fd().try_clone_to_owned()?);
    let log = Log::start(move || cpus.leave_servo_alone(), stderr).context("cannot start the log")?;
    let filter = EnvFilter::try_from_env("HAPTICD_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let colour = std::io::stderr().is_terminal();
    let lines = fmt::layer().with_writer(log.clone()).with_target(false).with_ansi(colour);
    let lines = match std::env::var_os("JOURNAL_STREAM") {
        Some(_) => lines.without_time().boxed(),
        None => lines.boxed(),
    };
    let throttle = LogThrottle::telling(log.clone());
    let _ = tracing_subscriber::registry().with(lines.with_filter(throttle.and(filter))).try_init();
    Ok(log)
}

/// The device of the configuration and its servo.
struct Local {
    config: Config,
    registry: Registry,
    hand: HandScript,
    replay: Option<Arc<Track>>,
    /// Work units of a tick, once calibrated.
    budget: Option<u32>,
}

impl Local {
    /// The device of the configuration in the scene that it starts with.
    fn new(config: &Config, scene: &Scene) -> anyhow::Result<Self> {
        let registry = Registry::with(config.device.profiles.as_deref())?;
        let hand = match &config.device.hand {
            Some(path) => {
                let text = crate::config::read_text(path)
                    .with_context(|| format!("device.hand: cannot read {}", path.display()))?;
                HandScript::parse_named(&path.display().to_string(), &text)?
            }
            None => HandScript::default(),
        };
        registry.knows(&config.device.name).context("device.name")?;
        check_device(&config.device)?;
        let replay = match &config.device.recording {
            Some(path) => {
                let track = replay::track(path, scene).context("device.recording")?;
                registry.profile(track.device()).with_context(|| track.source().to_owned())?;
                Some(track)
            }
            None => None,
        };
        let budget = Some(config.servo.budget_units).filter(|n| *n > 0);
        Ok(Self { config: config.clone(), registry, hand, replay, budget })
    }

    /// The budget of a tick in work units, measured on the servo's own CPU the first time.
    fn budget(&mut self, cpus: &Cpus) -> u32 {
        let budget_us = f64::from(self.config.servo.budget_us);
        let servo = cpus.servo;
        *self.budget.get_or_insert_with(|| {
            let measured = std::thread::spawn(move || {
                cpu::pin(servo);
                reference_scene().and_then(|s| calibrate(&s))
            });
            let measured = measured.join().ok().flatten();
            match measured {
                Some(c) => tracing::info!("calibrated: {:.1} work units a microsecond", c.units_per_us),
                None => tracing::warn!(
                    "calibration failed; {FALLBACK_UNITS} work units a microsecond are assumed"
                ),
            }
            let assumed = Calibration { units_per_us: FALLBACK_UNITS, queries: 0 };
            measured.unwrap_or(assumed).units(budget_us)
        })
    }
}

/// Keys that say nothing for the kind of device that is meant are refused: whoever set them expects something of them.
fn check_device(device: &crate::config::Device) -> anyhow::Result<()> {
    let name = &device.name;
    if name == REPLAY {
        return check_replay(device);
    }
    anyhow::ensure!(
        device.recording.is_none(),
        "device.recording: '{name}' plays nothing back; leave it empty, or set device.name = \"{REPLAY}\""
    );
    if device.driver == Driver::Attached {
        anyhow::ensure!(
            Kind::of(name).is_some(),
            "device.driver: there is no driver for '{name}', only its simulation; `hapticd devices` shows which have one"
        );
        anyhow::ensure!(
            device.firmware.is_none() || Kind::of(name) == Some(Kind::Falcon),
            "device.firmware: only a Novint Falcon takes one, '{name}' does not; leave it empty"
        );
        anyhow::ensure!(
            device.library.is_none() || Kind::of(name) == Some(Kind::OpenHaptics),
            "device.library: only a Phantom is served by a library of its maker, '{name}' is not; leave it empty"
        );
        let simulated = [("hand", &device.hand), ("probe", &device.probe)];
        if let Some((key, _)) = simulated.iter().find(|(_, path)| path.is_some()) {
            anyhow::bail!(
                "device.{key}: belongs to a simulated device; leave it empty with device.driver = \"attached\""
            );
        }
        return Ok(());
    }
    if let Some(serial) = &device.serial {
        anyhow::bail!(
            "device.serial: a simulated device has no serial number, so '{serial}' names nothing; leave it empty, or set \
             device.driver = \"attached\""
        );
    }
    anyhow::ensure!(
        device.firmware.is_none(),
        "device.firmware: a simulated device takes no firmware; leave it empty, or set device.driver = \"attached\""
    );
    anyhow::ensure!(
        device.library.is_none(),
        "device.library: a simulated device needs no library; leave it empty, or set device.driver = \"attached\""
    );
    Ok(())
}

fn check_replay(device: &crate::config::Device) -> anyhow::Result<()> {
    anyhow::ensure!(
        device.recording.is_some(),
        "device.recording: empty; name the recording that the device '{REPLAY}' plays back"
    );
    let keys = [
        ("driver", device.driver == Driver::Attached),
        ("serial", device.serial.is_some()),
        ("firmware", device.firmware.is_some()),
        ("library", device.library.is_some()),
        ("hand", device.hand.is_some()),
        ("probe", device.probe.is_some()),
    ];
    if let Some((key, _)) = keys.iter().find(|(_, set)| *set) {
        anyhow::bail!("device.{key}: a recording is played back without a device; leave it at its default");
    }
    Ok(())
}

/// Work units a microsecond where calibration fails: slow, so that ticks stay short.
const FALLBACK_UNITS: f64 = 50.0;

/// A ball of points half inside a block: what the calibration times.
fn reference_scene() -> Option<Snapshot> {
    let spec = |mesh, cells| GeometrySpec {
        mesh: SourceMesh::new(mesh, "calibration"),
        params: FieldParams { resolution: Resolution::Longest(cells), ..FieldParams::default() },
        method: None,
        hold_thin: false,
    };
    let geometry = |name: &str, spec| Edit::AddGeometry { name: Some(name.into()), spec, persistent: false };
    let material = Material {
        stiffness: 500.0,
        reference_area: 1e-4,
        damping: 0.0,
        friction: Friction::NONE,
        texture: Texture::NONE,
    };
    let edits = [
        geometry("block", spec(shapes::cuboid(Vec3::new(0.1, 0.1, 0.1)), 64)),
        geometry("ball", spec(shapes::icosphere(0.02, 3), 8)),
        Edit::AddMaterial { name: Some("m".into()), material, persistent: false },
        Edit::AddObject {
            name: None,
            spec: ObjectSpec {
                geometry: "block".into(),
                material: "m".into(),
                pose: Pose::translation(0.0, -0.05, 0.0),
                scale: Vec3::repeat(1.0),
                params: None,
                method: None,
                shell: Shell::Auto,
                moving: false,
            },
            persistent: false,
        },
        Edit::SetTool {
            tool: ToolSpec::Mesh {
                geometry: "ball".into(),
                scale: Vec3::repeat(1.0),
                points: 4000,
                offset: Pose::identity(),
            },
        },
    ];
    let (scene, _) = Scene::default().apply(0, &edits).ok()?;
    Compiler::new(64 << 20).compile(&scene, &Silent).ok()
}

/// Closes the device; true when the servo ended as asked and the device is not known to have missed its last zero.
fn is_in_order(ended: Ended, device: Option<Box<dyn Device>>) -> bool {
    let io = device.as_ref().and_then(|d| d.io());
    drop(device);
    ended == Ended::Stopped && io.is_none_or(|io| !io.unconfirmed())
}

impl Engine for Local {
    fn profile(&self) -> &str {
        self.replay.as_ref().map_or(&self.config.device.name, |track| track.device())
    }

    fn start(&mut self, cpus: &Cpus) -> Result<Started, String> {
        let d = &self.config.device;
        let attached = (d.driver == Driver::Attached).then(|| {
            // Before the servo on the servo's CPU: a handover between them wakes no other.
            settings::attached(
                d,
                Scheduling { priority: self.config.servo.priority + 1, cpu: Some(cpus.servo) },
            )
        });
        let simulated = attached.is_none();
        let options = OpenOptions {
            attached,
            hand: self.hand.clone(),
            seed: Some(self.config.device.seed),
            probe_path: self.config.device.probe.clone(),
            replay: self.replay.clone(),
            ..OpenOptions::default()
        };
        let budget_units = self.budget(cpus);
        let name = self.config.device.name.clone();
        let mut device = self.registry.open(&name, &options).map_err(|e| e.to_string())?;
        // Nobody knows where the tool of a real one is: its user calibrates it.
        if simulated && device.lifecycle() == Lifecycle::Uncalibrated {
            device.calibrate().map_err(|e| e.to_string())?;
        }
        let config = ServoConfig { budget_units, ..settings::servo(&self.config) };
        let profile = device.profile().clone();
        let limits = [
            config.max_force.min(profile.max_force),
            config.max_torque.min(profile.max_torque),
            config.max_velocity.min(profile.max_velocity),
        ];
        if let Some(problem) = config.problem() {
            return Err(format!("the servo's settings are unsound: {problem}"));
        }
        let s = &self.config.servo;
        let options = RtOptions {
            priority: s.priority,
            cpu: Some(cpus.servo),
            lock_memory: s.lock_memory,
            require_rt: s.require_rt,
            ..RtOptions::default()
        };
        let (handle, end) = channel(config);
        let thread = servo::spawn(end, device, options).map_err(|e| format!("no servo thread: {e}"))?;
        let note =
            |l: &RtLine| RtNote { ok: l.ok, what: l.what.clone(), why: l.why.clone(), cure: l.cure.clone() };
        let rt = thread.report().lines.iter().map(note).collect();
        let join = Box::new(move || {
            let (ended, device) = thread.join();
            is_in_order(ended, device)
        });
        Ok(Started { handle, device: name, rt, limits, join })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::driver::falcon::Falcon;
    use crate::device::emulated::{self, Bus, Plugged, Stepped};

    /// The end is in order only when the device took its zero: a bus that stands still takes nothing.
    #[test]
    fn the_end_is_in_order_only_with_the_device_s_own_zero() {
        let profile = Registry::builtin().profile("novint-falcon").expect("shipped");
        let device = |hangs| {
            let hand = HandScript::default();
            let gadget = emulated::falcon::Falcon::new(&profile, &hand, Default::default());
            let bus = Bus::new(gadget.expect("in reach"), 0.0, 0, false);
            let mut device = Stepped::new(profile.clone(), Box::new(Falcon::new(None)), Plugged::new(bus));
            assert!(device.until_ready(1_000_000_000));
            if hangs {
                let now = device.now_ns();
                device.plugged().bus().stall(now, u64::MAX);
            }
            Some(Box::new(device) as Box<dyn Device>)
        };
        assert!(is_in_order(Ended::Stopped, device(false)));
        assert!(!is_in_order(Ended::Stopped, device(true)));
        assert!(!is_in_order(Ended::Panicked, device(false)));
        assert!(is_in_order(Ended::Stopped, None));
    }
}
