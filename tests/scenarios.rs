//! Golden scenarios: short texts over the real engine (scene, compiler, servo, simulated device) on the virtual
//! clock. What they expect comes from closed forms, which stand in the scenarios.

#[path = "scenarios/language.rs"]
mod language;

use hapticd::cli::simulation::Simulation;
use hapticd::device::registry::{OpenOptions, Registry};
use hapticd::device::simulated::script::{Keyframe, Press};
use hapticd::device::simulated::{Fault, FaultKind, Faults, Hand, HandScript};
use hapticd::geometry::Pose;
use hapticd::geometry::field::build::Silent;
use hapticd::scene::compile::Compiler;
use hapticd::scene::file;
use hapticd::scene::model::{Edit, Limits, ObjectPatch, Ref, ToolSpec};
use hapticd::servo::handle::{ServoCommand, ServoConfig};
use hapticd::servo::record::{self, TickRecord};
use language::{Check, Command, Line, Subject};
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::sync::Arc;

const SESSION: u64 = 1;
const LEASE_NS: u64 = 100_000_000;

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios")
}

/// The device's hand script and faults follow from the whole scenario, because its times are known beforehand.
fn device_of(lines: &[Line]) -> Result<(String, HandScript, Faults), String> {
    let (mut device, mut hand) = ("ideal-6dof".to_string(), Hand::FIRM);
    let mut keyframes = vec![Keyframe { time: 0.0, pose: Pose::identity() }];
    let mut faults = Vec::new();
    let mut now = 0u64;
    let mut let_go = None;
    let mut presses: Vec<Press> = Vec::new();
    // A keyframe at `t` ms that holds the last pose, when the path has not got there yet.
    let hold = |keyframes: &mut Vec<Keyframe>, t: u64| {
        let last = *keyframes.last().expect("starts with one");
        let time = t as f64 * 1e-3;
        if time > last.time + 1e-9 {
            keyframes.push(Keyframe { time, ..last });
        }
    };
    for line in lines {
        let fail = |m: String| format!("line {}: {m}", line.number);
        match &line.command {
            Command::Device(name) => device.clone_from(name),
            Command::Hand(words) => hand = parse_hand(words).map_err(fail)?,
            Command::Start([x, y, z]) => keyframes[0].pose = Pose::translation(*x, *y, *z),
            Command::Reach { to: [x, y, z], ticks } => {
                hold(&mut keyframes, now);
                let end = (now + ticks) as f64 * 1e-3;
                if end <= keyframes.last().expect("starts with one").time {
                    return Err(fail("the hand has not finished its last motion".into()));
                }
                keyframes.push(Keyframe { time: end, pose: Pose::translation(*x, *y, *z) });
            }
            Command::Break { kind, ticks } => {
                let kind: FaultKind = serde_json::from_value(serde_json::Value::String(kind.clone()))
                    .map_err(|e| fail(e.to_string()))?;
                faults.push(Fault::between(kind, now as f64 * 1e-3, (now + ticks) as f64 * 1e-3));
            }
            Command::Wait(ticks) => now += ticks,
            Command::LetGo => let_go = Some(now as f64 * 1e-3),
            Command::Button(button, true) => {
                presses.push(Press { button: *button, at: now as f64 * 1e-3, until: f64::INFINITY });
            }
            Command::Button(button, false) => {
                let held = presses.iter_mut().rfind(|p| p.button == *button && p.until.is_infinite());
                held.ok_or_else(|| fail("the button is not held".into()))?.until = now as f64 * 1e-3;
            }
            _ => {}
        }
    }
    let script = HandScript { keyframes, hand, let_go, presses, ..HandScript::default() };
    Ok((device, script, Faults(faults)))
}

fn parse_hand(words: &[String]) -> Result<Hand, String> {
    let numbers: Vec<f64> = words.iter().filter_map(|w| w.parse().ok()).collect();
    match (words, numbers.as_slice()) {
        ([name], []) => Hand::preset(name).ok_or_else(|| format!("no hand '{name}'")),
        (_, [mass, damping, stiffness]) => Ok(Hand::new(*mass, *damping, *stiffness)),
        _ => Err("a hand is a preset, or mass, damping and stiffness".into()),
    }
}

/// A scenario under way.
struct Run {
    simulation: Simulation,
    renew: bool,
    last: TickRecord,
    since_mark: Vec<TickRecord>,
    all: Vec<TickRecord>,
}

impl Run {
    fn start(lines: &[Line], compiler: &Arc<Compiler>) -> Result<Self, String> {
        let scene = lines.iter().find_map(|l| match &l.command {
            Command::Scene(file) => Some(file.clone()),
            _ => None,
        });
        let path = dir().join(scene.ok_or("a scenario names its scene")?);
        let loaded = file::load(&path, Limits::default()).map_err(|e| e.to_string())?;
        let (name, hand, faults) = device_of(lines)?;
        let options = OpenOptions { hand, faults, ..OpenOptions::default() };
        let mut device = Registry::builtin().open(&name, &options).map_err(|e| e.to_string())?;
        device.calibrate().map_err(|e| e.to_string())?;
        let compiler = Arc::clone(compiler);
        let budget_units = lines.iter().find_map(|l| match l.command {
            Command::Budget(units) => Some(units),
            _ => None,
        });
        let deadman = lines.iter().find_map(|l| match l.command {
            Command::DeadMan(button) => Some(1 << (button - 1)),
            _ => None,
        });
        let config = ServoConfig {
            budget_units: budget_units.unwrap_or_default(),
            deadman: deadman.unwrap_or_default(),
            ..ServoConfig::default()
        };
        let simulation = Simulation::new(loaded.scene, &loaded.motions, compiler, device, config, &Silent)
            .map_err(|e| e.to_string())?;
        let last = TickRecord::default();
        Ok(Self { simulation, renew: false, last, since_mark: Vec::new(), all: Vec::new() })
    }

    fn command(&mut self, command: &Command) -> Result<(), String> {
        let id = |r: &str| Ref::Name(r.to_string());
        match command {
            Command::Scene(_)
            | Command::Device(_)
            | Command::Hand(_)
            | Command::Start(_)
            | Command::Reach { .. }
            | Command::Break { .. }
            | Command::Budget(_)
            | Command::DeadMan(_)
            | Command::Button(..)
            | Command::LetGo => Ok(()),
            Command::Wait(ticks) => {
                for _ in 0..*ticks {
                    self.tick()?;
                }
                Ok(())
            }
            Command::Arm => {
                self.renew = true;
                self.send(ServoCommand::Arm { session: SESSION })
            }
            Command::Disarm => self.send(ServoCommand::Disarm),
            Command::ClearFault => self.send(ServoCommand::ClearFault),
            Command::Renew(on) => {
                self.renew = *on;
                Ok(())
            }
            Command::Clutch(held) => self.send(ServoCommand::Clutch { held: *held }),
            Command::Recentre(to) => self.send(ServoCommand::Recentre { to: *to }),
            Command::Limits([force, torque, velocity]) => {
                self.send(ServoCommand::Limits { force: *force, torque: *torque, velocity: *velocity })
            }
            Command::Delete(name) => self.change(Edit::RemoveObject { object: id(name) }),
            Command::Stiffness { material, value } => {
                let scene = self.simulation.scene();
                let found = scene.find_material(&id(material)).and_then(|m| scene.material(m));
                let mut values = found.ok_or_else(|| format!("no material '{material}'"))?.material;
                values.stiffness = *value;
                self.change(Edit::SetMaterial { material: id(material), values })
            }
            Command::Move { object, by } => {
                let scene = self.simulation.scene();
                let found = scene.find_object(&id(object)).and_then(|o| scene.object(o));
                let mut pose = found.ok_or_else(|| format!("no object '{object}'"))?.pose;
                pose.translation.vector += nalgebra::Vector3::from(*by);
                let patch = ObjectPatch { pose: Some(pose), ..ObjectPatch::default() };
                self.change(Edit::SetObject { object: id(object), patch })
            }
            Command::ToolSphere(radius) => {
                let tool = ToolSpec::Sphere { radius: *radius, offset: Pose::identity() };
                self.change(Edit::SetTool { tool })
            }
            Command::Workspace(scale) => {
                self.change(Edit::SetMapping { device_in_scene: None, workspace_scale: Some(*scale) })
            }
            Command::Mark => {
                self.since_mark.clear();
                Ok(())
            }
            Command::Expect { subject, check } => self.expect(subject, check),
        }
    }

    fn send(&mut self, command: ServoCommand) -> Result<(), String> {
        self.simulation.send(command).map(|_| ()).map_err(|e| e.to_string())
    }

    fn change(&mut self, edit: Edit) -> Result<(), String> {
        self.simulation.change(SESSION, &[edit], &Silent).map(drop).map_err(|e| e.to_string())
    }

    fn tick(&mut self) -> Result<(), String> {
        if self.renew {
            let until_ns = self.simulation.now_ns() + LEASE_NS;
            self.send(ServoCommand::Lease { until_ns })?;
        }
        self.last = self.simulation.step();
        self.simulation.acks().for_each(drop);
        self.since_mark.push(self.last);
        self.all.push(self.last);
        Ok(())
    }

    fn expect(&self, subject: &Subject, check: &Check) -> Result<(), String> {
        let word = match subject {
            Subject::State => Some(snake(&format!("{:?}", self.last.state))),
            Subject::Zero => Some(snake(&format!("{:?}", self.last.zero))),
            Subject::Fault => Some(snake(&format!("{:?}", self.last.fault))),
            _ => None,
        };
        if let Some(word) = word {
            return match check {
                Check::Is(expected) if *expected == word => Ok(()),
                other => Err(format!("expected {other:?}, is {word}")),
            };
        }
        let value = match subject {
            Subject::Value(name, axis) => number(&self.last, name, *axis)?,
            Subject::Count(flag) => {
                let bit = bit(flag)?;
                self.since_mark.iter().filter(|r| r.flags & bit != 0).count() as f64
            }
            Subject::Peak(name, axis) => {
                let all = self.since_mark.iter().map(|r| number(r, name, *axis));
                all.collect::<Result<Vec<_>, _>>()?.into_iter().fold(f64::NEG_INFINITY, f64::max)
            }
            Subject::Jump(name) => {
                let all = self.since_mark.iter().map(|r| vector(r, name));
                let all = all.collect::<Result<Vec<_>, _>>()?;
                all.windows(2).map(|w| (w[1] - w[0]).norm()).fold(0.0, f64::max)
            }
            Subject::State | Subject::Zero | Subject::Fault => unreachable!("handled above"),
        };
        let holds = match check {
            Check::Near { value: expected, tolerance } => (value - expected).abs() <= *tolerance,
            Check::Below(limit) => value < *limit,
            Check::Above(limit) => value > *limit,
            Check::Is(word) => return Err(format!("'{word}' is no check of a number")),
        };
        if holds { Ok(()) } else { Err(format!("expected {check:?}, is {value}")) }
    }
}

fn vector(r: &TickRecord, name: &str) -> Result<nalgebra::Vector3<f64>, String> {
    Ok(match name {
        "force" => r.force,
        "torque" => r.torque,
        "contact" => r.contact_force,
        "position" => r.position,
        "velocity" => r.velocity,
        "applied" => r.applied_force,
        other => return Err(format!("no vector '{other}'")),
    }
    .into())
}

fn number(r: &TickRecord, name: &str, axis: Option<usize>) -> Result<f64, String> {
    if let Ok(v) = vector(r, name) {
        return Ok(axis.map_or_else(|| v.norm(), |a| v[a]));
    }
    Ok(match name {
        "depth" => r.depth,
        "distance" => r.distance,
        // What the contact feels like: its force after the cap, without what holds the device against gravity.
        "hardness" => vector(r, "contact")?.norm() * r.cap / r.depth,
        "ramp" => r.ramp,
        "cap" => r.cap,
        "stiffness" => r.stiffness,
        "touched" => r.touched.into(),
        "queried" => r.queried.into(),
        "generation" => r.generation as f64,
        other => return Err(format!("no number '{other}'")),
    })
}

fn bit(flag: &str) -> Result<u32, String> {
    Ok(match flag {
        "contact_begin" => record::FLAG_CONTACT_BEGIN,
        "contact_end" => record::FLAG_CONTACT_END,
        "adopted" => record::FLAG_ADOPTED,
        "saturated" => record::FLAG_SATURATED,
        "slew" => record::FLAG_SLEW,
        "capped" => record::FLAG_STIFFNESS_CAPPED,
        "held" => record::FLAG_HELD_SAMPLE,
        "incomplete" => record::FLAG_INCOMPLETE,
        other => return Err(format!("no flag '{other}'")),
    })
}

fn snake(camel: &str) -> String {
    let mut out = String::new();
    for (i, c) in camel.char_indices() {
        if c.is_ascii_uppercase() && i > 0 {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// Runs a scenario; the records, or the line that failed.
fn play(text: &str, compiler: &Arc<Compiler>) -> Result<Vec<TickRecord>, String> {
    let lines = language::parse(text)?;
    let mut run = Run::start(&lines, compiler)?;
    for line in &lines {
        run.command(&line.command)
            .map_err(|e| format!("line {} (tick {}): {e}", line.number, run.all.len()))?;
    }
    Ok(run.all)
}

fn scenarios() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir()).expect("tests/scenarios");
    let mut all: Vec<_> = entries.map(|e| e.expect("entry").path()).collect();
    all.retain(|p| p.extension().is_some_and(|e| e == "txt"));
    all.sort();
    all
}

#[test]
fn every_scenario_holds_and_repeats_bit_for_bit() {
    // One compiler: equal geometry is built once. The second run takes everything from its cache.
    let compiler = Arc::new(Compiler::new(1 << 30));
    let mut failed = Vec::new();
    for path in scenarios() {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("readable");
        match (play(&text, &compiler), play(&text, &compiler)) {
            (Ok(a), Ok(b)) => {
                // Debug shows each f64 with the digits that identify it.
                let same =
                    a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| format!("{a:?}") == format!("{b:?}"));
                if !same {
                    failed.push(format!("{name}: two runs differ"));
                }
            }
            (Err(e), _) | (_, Err(e)) => failed.push(format!("{name}: {e}")),
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// The same run with and without its budget, tick by tick.
#[test]
fn twenty_objects_on_a_tight_budget_feel_like_the_whole_run() {
    let compiler = Arc::new(Compiler::new(1 << 30));
    let text = std::fs::read_to_string(dir().join("twenty.txt")).expect("readable");
    let without: String =
        text.lines().filter(|l| !l.contains("incomplete")).map(|l| format!("{l}\n")).collect();
    let cut = play(&text, &compiler).expect("holds");
    let whole = play(&without.replace("budget 8000", "budget 0"), &compiler).expect("holds");
    let change = |run: &[TickRecord]| -> Vec<f64> {
        run.windows(2)
            .map(|w| (nalgebra::Vector3::from(w[1].force) - nalgebra::Vector3::from(w[0].force)).norm())
            .collect()
    };
    let peak = whole.iter().map(|r| nalgebra::Vector3::from(r.force).norm()).fold(0.0, f64::max);
    assert_eq!(cut.len(), whole.len());
    assert!(whole.iter().all(|r| r.flags & record::FLAG_INCOMPLETE == 0));
    for (i, (a, b)) in cut.iter().zip(&whole).enumerate() {
        let off = (nalgebra::Vector3::from(a.force) - nalgebra::Vector3::from(b.force)).norm();
        assert!(off < 0.05 * peak, "tick {i}: {off} of {peak}");
        assert!(a.work <= 8000, "tick {i}: {}", a.work);
    }
    let worst = |changes: Vec<f64>| changes.into_iter().fold(0.0, f64::max);
    let (cut, whole) = (worst(change(&cut)), worst(change(&whole)));
    assert!(cut < 1.5 * whole + 0.01 * peak, "{cut} N a tick where the whole run has {whole}");
}

#[test]
fn a_wrong_expectation_fails_with_its_line() {
    let text = "scene flat.toml\nwait 1\nexpect state rendering";
    let e = play(text, &Arc::new(Compiler::new(1 << 30))).unwrap_err();
    assert!(e.starts_with("line 3 (tick 1): expected"), "{e}");
}

/// Runs `hapticd simulate` on the shipped plane and hand; the summary.
fn simulate(out: &Path, more: &[&str]) -> serde_json::Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let json = out.with_extension("json");
    let done = Process::new(env!("CARGO_BIN_EXE_hapticd"))
        .arg("simulate")
        .arg(root.join("config/scenes/plane.toml"))
        .arg("--hand")
        .arg(root.join("config/hands/press.toml"))
        .args(["--seconds", "3", "--out"])
        .arg(out)
        .arg("--json")
        .arg(&json)
        .args(more)
        .output()
        .expect("the program runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let text = std::fs::read_to_string(json).expect("a summary");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn two_simulations_write_equal_files_whose_records_are_those_of_the_run() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = (dir.path().join("a.mcap"), dir.path().join("b.mcap"));
    let summary = simulate(&a, &[]);
    simulate(&b, &[]);
    let (bytes_a, bytes_b) = (std::fs::read(&a).expect("a"), std::fs::read(&b).expect("b"));
    assert!(bytes_a == bytes_b, "two runs wrote different files");

    let (header, records, notice) = hapticd::recording::load(&a).expect("a recording");
    assert_eq!((header.device.as_str(), header.scene.as_str(), notice), ("ideal-6dof", "plane.toml", None));
    assert_eq!(records.len(), 3000);
    assert!(
        records.iter().enumerate().all(|(i, r)| (r.tick, r.planned_ns) == (i as u64, i as u64 * 1_000_000))
    );
    assert_eq!(summary["ticks"], 3000);
    let peak = records.iter().map(|r| nalgebra::Vector3::from(r.force).norm()).fold(0.0, f64::max);
    assert_eq!(summary["peak_force_n"].as_f64(), Some(peak));
    // The hand (135 N/m) aims 3 mm below first touch of a floor of 800 N/m: 0.347 N at rest.
    let still = &records[2900];
    let expected = 800.0 * 135.0 / 935.0 * 0.003;
    assert!((still.force[2] - expected).abs() < 0.03 * expected, "{} is not {expected}", still.force[2]);
}

#[test]
fn an_unarmed_simulation_has_no_force_and_a_budget_is_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().join("run.mcap");
    let summary = simulate(&out, &["--unarmed", "--budget-units", "7"]);
    assert_eq!(summary["peak_force_n"], 0.0);
    assert_eq!((summary["state"].as_str(), summary["fault"].as_str()), (Some("idle"), Some("none")));
    let (header, records, _) = hapticd::recording::load(&out).expect("a recording");
    assert_eq!(header.budget_units, 7);
    assert!(records.iter().all(|r| r.work <= 7) && records.iter().any(|r| r.touched > 0));
}
