//! A device of the configuration and its servo, in this process.

use super::checks;
use crate::cli::calibrate::{Calibration, calibrate};
use crate::cli::{replay, settings};
use crate::config::{Config, Driver};
use crate::control::cpu::{self, Cpus};
use crate::control::status::Budget;
use crate::control::supervisor::{Ending, Engine, Started, Watch};
use crate::device::io::scheduling::Scheduling;
use crate::device::io::shared::Shared;
use crate::device::registry::{OpenOptions, Registry};
use crate::device::replay::Track;
use crate::device::simulated::HandScript;
use crate::device::{Device, Lifecycle};
use crate::geometry::field::build::{FieldParams, Resolution, Silent};
use crate::geometry::{Pose, Vec3, shapes};
use crate::protocol::messages::RtNote;
use crate::scene::compile::Compiler;
use crate::scene::model::{
    Edit, Friction, GeometrySpec, Material, ObjectSpec, ProxyOn, Scene, Shell, SourceMesh, Texture, ToolSpec,
};
use crate::scene::snapshot::Snapshot;
use crate::servo::handle::{ServoConfig, channel};
use crate::servo::rt::{RtLine, RtOptions};
use crate::servo::run::{self as servo, Ended};
use crate::servo::view::View;
use anyhow::Context;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// The device of the configuration and its servo.
pub(super) struct Local {
    /// Which of the configuration's devices.
    number: usize,
    device: crate::config::Device,
    config: Config,
    registry: Registry,
    hand: HandScript,
    replay: Option<Arc<Track>>,
    speed: Speed,
    views: Views,
}

/// The view that this device moves, and that of its own workspace.
#[derive(Clone, Default)]
pub(super) struct Views {
    moves: Option<Arc<View>>,
    moved_by: Option<Arc<View>>,
}

/// The views of all devices, in their order.
pub(super) fn views(config: &Config) -> Vec<Views> {
    let mut all: Vec<Views> = config.devices().map(|_| Views::default()).collect();
    for (mover, device) in config.devices().enumerate() {
        let Some(moved) = config.devices().position(|d| Some(&d.role) == device.moves.as_ref()) else {
            continue;
        };
        let view = Arc::new(View::default());
        all[mover].moves = Some(view.clone());
        all[moved].moved_by = Some(view);
    }
    all
}

impl Local {
    /// The device of that number of the configuration in the scene that it starts with. Devices share what one has found of the
    /// machine's `speed`.
    pub(super) fn new(
        config: &Config,
        number: usize,
        scene: &Scene,
        speed: Speed,
        views: Views,
    ) -> anyhow::Result<Self> {
        let device = config.devices().nth(number).context("no such device")?.clone();
        let registry = Registry::with(device.profiles.as_deref())?;
        let hand = match &device.hand {
            Some(path) => {
                let text = crate::config::read_text(path)
                    .with_context(|| format!("device.hand: cannot read {}", path.display()))?;
                HandScript::parse_named(&path.display().to_string(), &text)?
            }
            None => HandScript::default(),
        };
        registry.knows(&device.name).context("device.name")?;
        checks::device(&device)?;
        if device.moves.is_some() {
            checks::mover(&device, &*registry.profile(&device.name).context("device.moves")?)?;
        }
        let replay = match &device.recording {
            Some(path) => {
                let track = replay::track(path, &scene.felt_by(&device.role)).context("device.recording")?;
                registry.profile(track.device()).with_context(|| track.source().to_owned())?;
                Some(track)
            }
            None => None,
        };
        let config = config.clone();
        Ok(Self { number, device, config, registry, hand, replay, speed, views })
    }

    /// The budget of a tick in work units. Where nothing else is configured it is measured on the servo's own CPU, by the first
    /// device that comes to that CPU; `sharing` servos on one CPU share its time.
    fn budget(&self, servo: usize, sharing: usize) -> Budget {
        let units = self.config.servo.budget_units;
        if units > 0 {
            return Budget { units: (units / sharing.max(1) as u32).max(1), units_per_us: 0.0 };
        }
        let budget_us = share(self.config.servo.budget_us, TOGETHER_US, sharing);
        let mut speed = self.speed.lock().unwrap_or_else(PoisonError::into_inner);
        let speed = speed.entry(servo).or_insert_with(|| {
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
            measured.unwrap_or(Calibration { units_per_us: FALLBACK_UNITS, queries: 0 })
        });
        let units_per_us = if speed.queries > 0 { speed.units_per_us } else { 0.0 };
        Budget { units: speed.units(f64::from(budget_us)), units_per_us }
    }
}

/// What the machine was found to do, by CPU; measured once for all devices there.
pub(super) type Speed = Arc<Mutex<BTreeMap<usize, Calibration>>>;

/// All queries of the servos on one CPU take at most so much of a tick together, µs, and end at the latest so long after its start.
const TOGETHER_US: u32 = 700;
const TOGETHER_END_US: u32 = 900;

/// A servo's share of what `servos` on one CPU may take `together`.
fn share(wanted: u32, together: u32, servos: usize) -> u32 {
    if servos < 2 { wanted } else { wanted.min(together / servos as u32) }
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
                proxy: ProxyOn::Field,
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

/// Closes the device, which commands zero whatever became of the servo; `io`, the device's own, knows whether that went out. Where there
/// is none the command is all there is: of a device that went down with its thread, or that panics even then, nobody knows.
fn ending(ended: Ended, device: Option<Box<dyn Device>>, io: Option<&Shared>) -> Ending {
    let there = device.is_some();
    let closed = catch_unwind(AssertUnwindSafe(|| drop(device))).is_ok();
    Ending { asked: ended == Ended::Stopped, zero: io.map_or(there && closed, |io| !io.unconfirmed()) }
}

impl Engine for Local {
    fn profile(&self) -> &str {
        self.replay.as_ref().map_or(&self.device.name, |track| track.device())
    }

    fn start(&mut self, cpus: &Cpus, watch: Watch<'_>) -> Result<Started, String> {
        let d = &self.device;
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
            seed: Some(d.seed),
            probe_path: d.probe.clone(),
            replay: self.replay.clone(),
            ..OpenOptions::default()
        };
        let sharing = cpus.sharing();
        let Budget { units: budget_units, units_per_us } = self.budget(cpus.servo, sharing.len());
        let name = d.name.clone();
        let mut device = self.registry.open(&name, &options).map_err(|e| e.to_string())?;
        // Nobody knows where the tool of a real one is: its user calibrates it.
        if simulated && device.lifecycle() == Lifecycle::Uncalibrated {
            device.calibrate().map_err(|e| e.to_string())?;
        }
        let deadline_us = share(self.config.servo.deadline_us, TOGETHER_END_US, sharing.len());
        let deadline_ns = Some(u64::from(deadline_us) * 1000);
        let config = ServoConfig { budget_units, deadline_ns, ..settings::servo(&self.config) };
        let profile = device.profile().clone();
        for lowered in profile.lowered() {
            tracing::warn!("device {name}: {lowered}; `hapticd doctor` says what to do about it");
        }
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
        let (handle, mut end) = channel(config);
        let Views { moves, moved_by } = self.views.clone();
        moves.into_iter().for_each(|view| end.moves(view));
        moved_by.into_iter().for_each(|view| end.moved_by(view));
        let io = device.io();
        watch(&handle);
        let thread = servo::spawn(end, device, options).map_err(|e| format!("no servo thread: {e}"))?;
        let note =
            |l: &RtLine| RtNote { ok: l.ok, what: l.what.clone(), why: l.why.clone(), cure: l.cure.clone() };
        let rt = thread.report().lines.iter().map(note).chain(self.shared_cpu(cpus)).collect();
        let join = Box::new(move || {
            let (ended, device) = thread.join();
            ending(ended, device, io.as_deref())
        });
        Ok(Started { handle, device: name, rt, limits, units_per_us, join })
    }
}

impl Local {
    /// Said where servos share a CPU: each may have to wait for the other's tick.
    fn shared_cpu(&self, cpus: &Cpus) -> Option<RtNote> {
        let others = cpus.sharing().into_iter().filter(|d| *d != self.number);
        let roles: Vec<&str> =
            others.filter_map(|d| self.config.devices().nth(d)).map(|d| d.role.as_str()).collect();
        (!roles.is_empty()).then(|| RtNote {
            ok: false,
            what: "a CPU of its own".into(),
            why: format!(
                "CPU {} is shared with {}, at the same priority: a tick may wait for theirs, and together they have the time of one",
                cpus.servo,
                roles.join(", ")
            ),
            cure: "give hapticd one CPU more than it has devices, or name device.core".into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::driver::falcon::Falcon;
    use crate::device::emulated::{self, Bus, Plugged, Stepped};

    /// Whether it ended as asked and whether the device took its zero are two questions: a bus that stands still takes nothing, whatever
    /// became of the servo.
    #[test]
    fn the_zero_is_the_device_s_own_word_and_the_end_the_servo_s() {
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
            Box::new(device) as Box<dyn Device>
        };
        let simulated = || Registry::builtin().open("ideal-6dof", &OpenOptions::default()).expect("opens");
        for ended in [Ended::Stopped, Ended::Panicked] {
            let asked = ended == Ended::Stopped;
            for hangs in [false, true] {
                let device = device(hangs);
                let io = device.io();
                assert!(io.is_some());
                assert_eq!(
                    ending(ended, Some(device), io.as_deref()),
                    Ending { asked, zero: !hangs },
                    "{ended:?}"
                );
            }
            // Without I/O of its own.
            assert_eq!(ending(ended, Some(simulated()), None), Ending { asked, zero: true });
            assert_eq!(ending(ended, None, None), Ending { asked, zero: false });
        }
    }
}
