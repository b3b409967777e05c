//! `hapticd evaluate`: it asks the very question that the servo's tick asks (same pose, same bits), and its figures hold.
//!
//! Uses the recorded paths and models beside the repository, where they exist.

#[path = "evaluate/bounds.rs"]
mod bounds;
#[path = "evaluate/continuity.rs"]
mod continuity;
#[path = "evaluate/figures.rs"]
mod figures;
#[path = "evaluate/pin.rs"]
mod pin;
#[path = "evaluate/play.rs"]
mod play;
#[path = "evaluate/witness.rs"]
mod witness;

use clap::Parser;
use hapticd::cli::evaluate::{Args, Pair, PosePath};
use hapticd::device::profile::Profile;
use hapticd::device::registry::Registry;
use hapticd::device::{Accepted, Device, DeviceError, Lifecycle, ReadFault, Sample, WriteFault};
use hapticd::geometry::{Point, Pose, Wrench};
use hapticd::scene::snapshot::{Snapshot, SnapshotObject, Tool};
use hapticd::servo::handle::{ServoConfig, channel};
use hapticd::servo::run::VirtualServo;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A device whose tool point follows a list of poses exactly, one a read; it takes any force.
struct Follower {
    profile: Arc<Profile>,
    poses: Vec<Pose>,
    reads: usize,
}

impl Device for Follower {
    fn profile(&self) -> &Arc<Profile> {
        &self.profile
    }
    fn lifecycle(&self) -> Lifecycle {
        Lifecycle::Ready
    }
    fn calibrate(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn read(&mut self, now_ns: u64) -> Result<Sample, ReadFault> {
        let pose = *self.poses.get(self.reads).ok_or(ReadFault::Stale)?;
        self.reads += 1;
        Ok(Sample { pose, joints: [0.0; 6], time_ns: now_ns, seq: self.reads as u64, lost: 0, buttons: 0 })
    }
    fn write(&mut self, _: u64, wrench: &Wrench) -> Result<Accepted, WriteFault> {
        Ok(Accepted { applied: *wrench, saturated: false })
    }
    fn zero(&mut self, _: u64) {}
}

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn shared() -> Option<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    if dir.join("paths").is_dir() && dir.join("models").is_dir() {
        return Some(dir);
    }
    println!("skipped: no recorded paths at {}", dir.display());
    None
}

/// A recorded path and its two bodies, built as `hapticd evaluate` does with these options; `None` without the recordings.
fn built(name: &str, how: &[&str]) -> Option<(PosePath, Pair)> {
    let shared = shared()?;
    let file = shared.join("paths").join(format!("{name}.jsonl"));
    let path = PosePath::read(&file).expect("the path parses");
    let file = file.to_string_lossy().into_owned();
    let args = Line::parse_from([&["evaluate", &file], how].concat()).args;
    let pair = Pair::build(&path, &[shared.join("models")], &args).expect("both bodies build");
    Some((path, pair))
}

/// Runs a path through `evaluate` and through the tick on the virtual clock and compares every pose.
fn same_bits(name: &str, points: &str, units: u32) {
    let Some((path, pair)) = built(name, &["--points", points]) else { return };
    let answers = pair.run(&path, units, |_| {});

    let mut profile = (*Registry::builtin().profile("ideal-6dof").expect("shipped")).clone();
    // Recorded poses may move faster than a hand on this device; the check for jumps is not what is tested here.
    (profile.max_velocity, profile.max_angular_velocity) = (1e6, 1e6);
    let device = Follower {
        profile: Arc::new(profile),
        poses: path.poses.iter().map(|(pose, _)| *pose).collect(),
        reads: 0,
    };
    let config = ServoConfig { budget_units: units, ..ServoConfig::default() };
    let (mut handle, end) = channel(config);
    let tool =
        Tool { shape: pair.tool().clone(), offset: Pose::identity(), bound_radius: 1.0, incarnation: 1 };
    let object = SnapshotObject {
        id: 1,
        incarnation: 1,
        slot: 0,
        motion: None,
        pose: Pose::identity(),
        shape: pair.object().clone(),
        material: *pair.material(),
        bound_centre: Point::origin(),
        bound_radius: 10.0,
    };
    let scene = Snapshot::new(1, Arc::new(tool), Box::new([object]), Pose::identity(), 1.0);
    handle.publish(Box::new(scene)).expect("first generation");
    let mut servo = VirtualServo::new(end, Box::new(device));
    let mut touched = 0;
    for (i, answer) in answers.iter().enumerate() {
        let record = servo.step();
        assert_eq!(record.generation, 1);
        let force: [f64; 3] = answer.wrench.force.into();
        assert_eq!(
            record.contact_force.map(f64::to_bits),
            force.map(f64::to_bits),
            "{name}, pose {i}: force"
        );
        assert_eq!(record.depth.to_bits(), answer.depth.to_bits(), "{name}, pose {i}: depth");
        assert_eq!(record.work, answer.work, "{name}, pose {i}: work");
        touched += usize::from(answer.touching);
    }
    assert!(touched * 10 > answers.len(), "{name} touches in {touched} poses only: nothing was compared");
}

#[test]
fn the_tick_answers_as_evaluate_does_on_the_bunny_and_the_slab() {
    same_bits("bunny_plane", "3000", 0);
}

#[test]
fn the_tick_answers_as_evaluate_does_on_the_keyed_pin() {
    same_bits("pin_hole_keyed", "3000", 0);
}

#[test]
fn the_tick_answers_as_evaluate_does_within_a_budget() {
    same_bits("torus_link", "6000", 1000);
}
