//! One suite over the device trait, run on every shipped profile: whatever a driver does inside, the servo may rely on
//! this.

#[path = "device_conformance/boot.rs"]
mod boot;
#[path = "device_conformance/clauses.rs"]
mod clauses;
#[path = "device_conformance/drivers.rs"]
mod drivers;

use hapticd::device::profile::{Calibration, Profile};
use hapticd::device::registry::{OpenOptions, REPLAY, Registry};
use hapticd::device::replay::{Moment, Track};
use hapticd::device::simulated::probe::Reading;
use hapticd::device::simulated::{Fault, FaultKind, Faults, Hand, HandScript, Probe};
use hapticd::device::{Device, Lifecycle, ReadFault, Sample, WriteFault};
use hapticd::geometry::pose::{Vec3, Wrench, pose_is_finite};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

const MS: u64 = 1_000_000;

/// Counts this thread's allocations and releases.
struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system allocator unchanged; the counter neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = CALLS.try_with(|c| c.set(c.get() + 1));
        // SAFETY: the caller's promises are those that the system allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        let _ = CALLS.try_with(|c| c.set(c.get() + 1));
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A device under test with the witness at its motors.
struct Bench {
    device: Box<dyn Device>,
    probe: Arc<Probe>,
    name: String,
}

impl Bench {
    fn open(name: &str, options: OpenOptions) -> Self {
        let probe = Arc::new(Probe::new());
        let options = OpenOptions { probe: Some(Arc::clone(&probe)), ..options };
        let device = Registry::builtin().open(name, &options).expect("opens");
        Self { device, probe, name: name.to_string() }
    }

    fn ready(name: &str, options: OpenOptions) -> Self {
        let mut bench = Self::open(name, options);
        bench.device.calibrate().expect("calibrates");
        assert_eq!(bench.device.lifecycle(), Lifecycle::Ready, "{name}");
        bench
    }

    fn motors(&self) -> Reading {
        self.probe.read()
    }
}

fn push() -> Wrench {
    Wrench { force: Vec3::new(0.3, -0.2, 0.25), torque: Vec3::zeros() }
}

fn faults(list: &[Fault]) -> OpenOptions {
    OpenOptions { faults: Faults(list.to_vec()), ..OpenOptions::default() }
}

fn each(check: impl Fn(&Arc<Profile>)) {
    let registry = Registry::builtin();
    assert_eq!(
        registry.names(),
        [
            "ideal-6dof",
            "novint-falcon",
            "novint-falcon-mh",
            "phantom-omni",
            "phantom-premium-1.5",
            "replay",
            "spacemouse",
            "woodenhaptics-v2015",
            "woodenhaptics-v2019",
            "woodenhaptics-vintage"
        ]
    );
    // What gives no force has nothing to show here but readings.
    registry.profiles().iter().filter(|p| p.actuated != [false; 6]).for_each(check);
}

#[test]
fn opening_and_closing_many_times_leaves_nothing_behind() {
    each(|p| {
        let descriptors = || std::fs::read_dir("/proc/self/fd").expect("proc").count();
        let before = descriptors();
        for k in 0..1000u64 {
            let mut b = Bench::ready(&p.name, OpenOptions::default());
            b.device.read(k * MS).expect("reads");
            b.device.write(k * MS, &push()).expect("writes");
            drop(b.device);
            assert!(b.probe.read().is_zero(), "{}: closing did not end with zero", p.name);
        }
        // Other tests of this process open and close files at the same time.
        assert!(descriptors() < before + 40);
    });
}

#[test]
fn life_begins_as_the_profile_says_and_calibration_makes_it_ready() {
    each(|p| {
        let mut b = Bench::open(&p.name, OpenOptions::default());
        let want =
            if p.calibration == Calibration::None { Lifecycle::Ready } else { Lifecycle::Uncalibrated };
        assert_eq!(b.device.lifecycle(), want, "{}", p.name);
        b.device.calibrate().expect("calibrates");
        b.device.calibrate().expect("again, without harm");
        assert_eq!(b.device.lifecycle(), Lifecycle::Ready);
        assert_eq!(b.device.profile().name, p.name);
    });
}

#[test]
fn before_ready_only_zero_is_taken_and_reads_work() {
    each(|p| {
        if p.calibration == Calibration::None {
            return;
        }
        let mut b = Bench::open(&p.name, OpenOptions::default());
        for k in 0..20u64 {
            let s = b.device.read(k * MS).expect("reads before it is calibrated");
            assert!(pose_is_finite(&s.pose));
            assert_eq!(b.device.write(k * MS, &push()), Err(WriteFault::NotReady), "{}", p.name);
            assert!(b.motors().is_zero());
            b.device.write(k * MS, &Wrench::ZERO).expect("zero is always taken");
        }
        b.device.calibrate().expect("calibrates");
        b.device.read(20 * MS).expect("reads");
        assert!(b.device.write(20 * MS, &push()).is_ok());
    });
}

/// Calibration moves the frame: before it the pose is off by the unknown offset, after it the pose is right.
#[test]
fn calibration_gives_the_true_pose() {
    each(|p| {
        let start = Vec3::new(0.012, -0.01, 0.014);
        let hand = HandScript::parse(&format!(
            "hand = 'firm'\n[[keyframe]]\ntime = 0.0\nposition = [{}, {}, {}]\n",
            start.x, start.y, start.z
        ))
        .expect("script");
        let options = OpenOptions { hand, delays: Some((0, 0)), ..OpenOptions::default() };
        let mut b = Bench::open(&p.name, options);
        let before = b.device.read(0).expect("reads").pose.translation.vector;
        if p.calibration != Calibration::None {
            assert!((before - start).norm() > 1e-3, "{}: right before it can know", p.name);
        }
        b.device.calibrate().expect("calibrates");
        let after = b.device.read(MS).expect("reads").pose.translation.vector;
        assert!((after - start).norm() < 2e-4, "{}: {after:?}", p.name);
    });
}

#[test]
fn samples_are_numbered_timed_and_finite() {
    each(|p| {
        let mut b = Bench::ready(&p.name, OpenOptions::default());
        let mut last: Option<hapticd::device::Sample> = None;
        for k in 0..200u64 {
            let s = b.device.read(5 * MS + k * MS).expect("reads");
            assert!(pose_is_finite(&s.pose) && s.joints.iter().all(|j| j.is_finite()), "{}", p.name);
            assert!((s.pose.rotation.norm() - 1.0).abs() < 1e-12);
            assert!(s.time_ns <= 5 * MS + k * MS);
            if let Some(last) = last {
                assert_eq!(s.seq, last.seq + 1, "{}", p.name);
                assert!(s.time_ns >= last.time_ns);
                // A second read at the same time brings nothing new and says so.
                let again = b.device.read(5 * MS + k * MS).expect("reads");
                assert_eq!((again.seq, again.pose), (s.seq, s.pose));
            }
            last = Some(s);
            b.device.write(5 * MS + k * MS, &Wrench::ZERO).expect("writes");
        }
    });
}

#[test]
fn what_is_accepted_is_what_the_motors_get() {
    each(|p| {
        for delay in [0, 1, 3] {
            let options = OpenOptions { delays: Some((0, delay)), ..OpenOptions::default() };
            let mut b = Bench::ready(&p.name, options);
            b.device.read(0).expect("reads");
            let mut sent = Vec::new();
            for k in 0..30u64 {
                b.device.read(k * MS).expect("reads");
                let w = Wrench { force: Vec3::new(0.1 * k as f64 / 30.0, 0.05, 0.0), torque: Vec3::zeros() };
                sent.push(b.device.write(k * MS, &w).expect("writes").applied);
                if k > u64::from(delay) {
                    // One step of the plant after the time it is due.
                    b.device.read(k * MS + MS / 2).expect("reads");
                    let due = (k - u64::from(delay)) as usize;
                    assert_eq!(b.motors().wrench, sent[due], "{} delay {delay} tick {k}", p.name);
                }
            }
        }
    });
}

#[test]
fn zero_always_ends_with_zero_at_the_motors() {
    each(|p| {
        for delay in [0, 2] {
            for at in 0..12u64 {
                let options = OpenOptions { delays: Some((0, delay)), ..OpenOptions::default() };
                let mut b = Bench::open(&p.name, options);
                // At any point of life: unread, uncalibrated, ready, with commands on their way.
                if at > 1 {
                    b.device.calibrate().expect("calibrates");
                }
                for k in 0..at {
                    let _ = b.device.read(k * MS);
                    let _ = b.device.write(k * MS, &push());
                }
                b.device.zero(at * MS);
                assert!(b.motors().is_zero(), "{} at {at}", p.name);
                assert_eq!((b.motors().zeros, b.motors().since_zero), (1, 0));
                for k in at..at + 5 {
                    let _ = b.device.read(k * MS + MS / 2);
                    assert!(b.motors().is_zero(), "{} at {at}: an old command overtook zero", p.name);
                }
            }
        }
    });
}

#[test]
fn dropping_the_device_ends_with_zero() {
    each(|p| {
        for delay in [0, 3] {
            let options = OpenOptions { delays: Some((1, delay)), ..OpenOptions::default() };
            let mut b = Bench::ready(&p.name, options);
            for k in 0..10 {
                b.device.read(k * MS).expect("reads");
                b.device.write(k * MS, &push()).expect("writes");
            }
            assert!(!b.motors().is_zero());
            drop(b.device);
            assert!(b.probe.read().is_zero(), "{}", p.name);
        }
    });
}

/// Unplugged at every millisecond of a short session, at each point of the tick.
#[test]
fn unplugging_at_any_moment_is_reported_and_ends_the_force() {
    each(|p| {
        for tenths in 0..60u64 {
            let at = tenths as f64 * 1e-4;
            let mut b = Bench::ready(&p.name, faults(&[Fault::from(FaultKind::Unplug, at)]));
            let mut gone = None;
            for k in 0..10u64 {
                let read = b.device.read(k * MS);
                let write = b.device.write(k * MS + MS / 2, &push());
                match gone {
                    None if read == Err(ReadFault::Gone) || write == Err(WriteFault::Gone) => gone = Some(k),
                    None => assert!(read.is_ok() && write.is_ok(), "{}: {read:?} {write:?}", p.name),
                    Some(_) => {
                        assert_eq!(read, Err(ReadFault::Gone), "{}", p.name);
                        assert_eq!(write, Err(WriteFault::Gone), "{}", p.name);
                    }
                }
                if gone.is_some() {
                    assert_eq!(b.device.lifecycle(), Lifecycle::Absent);
                    assert!(b.motors().is_zero(), "{}: force after the plug was pulled", p.name);
                }
            }
            assert!(gone.is_some_and(|k| k as f64 * 1e-3 <= at + 1.1e-3), "{} at {at}: {gone:?}", p.name);
            b.device.zero(20 * MS);
            assert!(b.device.calibrate().is_err(), "a device that is gone cannot be calibrated");
            drop(b.device);
            assert!(b.probe.read().is_zero());
        }
    });
}

/// The link is lost but the motors have power: the last torque stays as long as the profile says, no longer.
#[test]
fn a_lost_link_leaves_the_torque_to_the_device_s_watchdog() {
    each(|p| {
        let mut b = Bench::ready(&p.name, faults(&[Fault::from(FaultKind::LinkLost, 0.01)]));
        for k in 0..=10u64 {
            let _ = b.device.read(k * MS);
            let _ = b.device.write(k * MS, &push());
        }
        assert_eq!(b.device.read(11 * MS), Err(ReadFault::Gone));
        assert!(!b.motors().is_zero(), "{}: nobody told the motors", p.name);
        b.device.zero(12 * MS);
        assert!(!b.motors().is_zero(), "{}: zero cannot reach a lost device", p.name);
        // Longer than any shipped device holds a torque.
        for k in 13..700u64 {
            assert_eq!(b.device.read(k * MS), Err(ReadFault::Gone));
        }
        assert_eq!(b.motors().is_zero(), p.torque_hold.is_some(), "{}", p.name);
        let last = b.motors().wrench_at(400 * MS);
        assert_eq!(last == Wrench::ZERO, p.torque_hold.is_some());
    });
}

#[test]
fn bad_samples_are_told_apart_and_counted() {
    each(|p| {
        let list = [
            Fault::between(FaultKind::Stale, 0.010, 0.0145),
            Fault::between(FaultKind::Garbled, 0.020, 0.0225),
            Fault::between(FaultKind::Duplicate, 0.030, 0.0345),
            Fault::between(FaultKind::NanPose, 0.040, 0.0405),
            Fault::between(FaultKind::Spike, 0.050, 0.0505),
        ];
        let mut b = Bench::ready(&p.name, faults(&list));
        let mut last = None;
        for k in 0..60u64 {
            let read = b.device.read(k * MS);
            match k {
                10..=14 => assert_eq!(read, Err(ReadFault::Stale), "{} {k}", p.name),
                20..=22 => assert_eq!(read, Err(ReadFault::Garbled), "{} {k}", p.name),
                _ => {
                    let s = read.expect("reads");
                    match k {
                        15 => assert_eq!(s.lost, 5),
                        23 => assert_eq!(s.lost, 3),
                        30..=34 => assert_eq!(Some(s.seq), last, "{}: a duplicate keeps its number", p.name),
                        40 => assert!(!pose_is_finite(&s.pose), "{}", p.name),
                        50 => assert!(s.pose.translation.vector.norm() > 0.05, "{}", p.name),
                        _ => {
                            assert!(pose_is_finite(&s.pose) && s.pose.translation.vector.norm() < 0.05);
                            assert_eq!(s.lost, 0);
                        }
                    }
                    last = Some(s.seq);
                }
            }
            // Bad samples do not stop writes.
            b.device.write(k * MS, &Wrench::ZERO).expect("writes");
        }
    });
}

#[test]
fn failing_writes_are_reported_and_zero_still_arrives() {
    each(|p| {
        let mut b = Bench::ready(&p.name, faults(&[Fault::between(FaultKind::FailWrites, 0.005, 0.0095)]));
        for k in 0..10u64 {
            b.device.read(k * MS).expect("reads");
            let write = b.device.write(k * MS, &push());
            if (5..10).contains(&k) {
                assert_eq!(write, Err(WriteFault::Failed), "{} {k}", p.name);
            } else {
                assert!(write.is_ok());
            }
        }
        b.device.zero(10 * MS);
        assert!(b.motors().is_zero(), "{}", p.name);
    });
}

#[test]
fn a_device_that_forgets_its_frame_drives_nothing_until_calibrated_again() {
    each(|p| {
        let mut b =
            Bench::ready(&p.name, faults(&[Fault::between(FaultKind::LoseCalibration, 0.005, 0.008)]));
        for k in 0..20u64 {
            let _ = b.device.read(k * MS);
            let write = b.device.write(k * MS, &push());
            if k > 5 {
                assert_eq!(b.device.lifecycle(), Lifecycle::Uncalibrated, "{}", p.name);
                assert_eq!(write, Err(WriteFault::NotReady), "{}", p.name);
                assert!(b.motors().is_zero(), "{}", p.name);
            }
        }
        b.device.calibrate().expect("calibrates");
        b.device.read(20 * MS).expect("reads");
        assert!(b.device.write(20 * MS, &push()).is_ok());
    });
}

/// Numbers that are none never reach a motor.
#[test]
fn a_command_that_is_no_number_becomes_zero() {
    each(|p| {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for i in 0..6 {
                let mut b = Bench::ready(&p.name, OpenOptions::default());
                b.device.read(0).expect("reads");
                b.device.write(0, &push()).expect("writes");
                let mut w = push();
                if i < 3 {
                    w.force[i] = bad
                } else {
                    w.torque[i - 3] = bad
                }
                assert_eq!(b.device.write(0, &w), Err(WriteFault::Failed), "{}", p.name);
                assert!(b.motors().is_zero(), "{} {bad}", p.name);
            }
        }
    });
}

/// Whatever finite wrench is written, the motors get no more than the data sheet allows, in the same direction.
#[test]
fn no_command_passes_the_data_sheet() {
    each(|p| {
        let mut b = Bench::ready(&p.name, OpenOptions::default());
        b.device.read(0).expect("reads");
        for size in [1e-9, 1.0, 1e3, 1e100, 1e300] {
            let w =
                Wrench { force: Vec3::new(0.6, -0.5, 0.62) * size, torque: Vec3::new(0.1, 0.2, -0.3) * size };
            let a = b.device.write(0, &w).expect("writes");
            assert!(a.applied.is_finite());
            assert!(a.applied.force.norm() <= p.max_force * 1.01, "{} {size}: {:?}", p.name, a.applied);
            assert!(a.applied.torque.norm() <= p.max_torque * (1.0 + 1e-9), "{} {size}", p.name);
            if size >= 1.0 {
                assert!(
                    a.applied.force.normalize().dot(&(w.force / size).normalize()) > 0.999,
                    "{} {size}",
                    p.name
                );
            }
            assert_eq!(a.saturated, size > 100.0, "{} {size}", p.name);
        }
    });
}

/// Lost samples are stale reads, and the next sample owns up to them.
#[test]
fn dropped_samples_are_counted() {
    each(|p| {
        let options = OpenOptions { drop_rate: 0.2, seed: Some(3), ..OpenOptions::default() };
        let mut b = Bench::ready(&p.name, options);
        let (mut stale, mut lost) = (0u32, 0u32);
        for k in 0..5000u64 {
            match b.device.read(k * MS) {
                Ok(s) => lost += s.lost,
                Err(e) => {
                    assert_eq!(e, ReadFault::Stale, "{}", b.name);
                    stale += 1;
                }
            }
        }
        // Binomial: 1000 +- 28 (one sigma).
        assert!((850..1150).contains(&stale), "{}: {stale}", p.name);
        assert!(stale - lost <= 20, "{}: {stale} stale, {lost} owned up to", p.name);
    });
}

#[test]
fn options_out_of_range_are_refused_with_a_reason() {
    each(|p| {
        let registry = Registry::builtin();
        let fail = |o: OpenOptions| match registry.open(&p.name, &o) {
            Ok(_) => panic!("{}: opened", p.name),
            Err(e) => e.to_string(),
        };
        assert!(fail(OpenOptions { drop_rate: 1.5, ..OpenOptions::default() }).contains("drop rate"));
        assert!(fail(OpenOptions { delays: Some((99, 0)), ..OpenOptions::default() }).contains("delay"));
        if p.name != "ideal-6dof" {
            let hand =
                HandScript::parse("[[keyframe]]\ntime = 0.0\nposition = [1.0, 0.0, 0.0]\n").expect("script");
            assert!(
                fail(OpenOptions { hand, ..OpenOptions::default() }).contains("out of the device's reach")
            );
        }
    });
    let error = match Registry::builtin().open("falcon", &OpenOptions::default()) {
        Ok(_) => panic!("opened"),
        Err(e) => e.to_string(),
    };
    assert!(error.contains("novint-falcon") && error.contains("phantom-omni"), "{error}");
}

/// The probe's file shows another process what the motors last got, after the writer is gone as well.
#[test]
fn the_probe_file_outlives_the_device() {
    each(|p| {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("probe");
        let hand = HandScript { hand: Hand::LIGHT, ..HandScript::default() };
        let delays = Some((0, 0));
        let options = OpenOptions { hand, delays, probe_path: Some(path.clone()), ..OpenOptions::default() };
        let mut device = Registry::builtin().open(&p.name, &options).expect("opens");
        device.calibrate().expect("calibrates");
        let mut applied = Wrench::ZERO;
        for k in 0..10 {
            device.read(k * MS).expect("reads");
            applied = device.write(k * MS, &push()).expect("writes").applied;
        }
        device.read(10 * MS).expect("reads");
        // What a killed daemon leaves: the device is never dropped.
        std::mem::forget(device);
        let outside = Probe::open(&path).expect("opens");
        assert_eq!(outside.read().wrench, applied, "{}", p.name);
        assert_eq!(outside.read().pid, std::process::id());
        assert_eq!(outside.read().torque_hold_ns.is_some(), p.torque_hold.is_some());
    });
}

/// read, write, zero and the getters allocate and free nothing, whatever happens: motion, drops, faults, gaps, saturation,
/// delay, unplugging.
#[test]
fn nothing_is_allocated_between_open_and_close() {
    let calls = || CALLS.with(Cell::get);
    let before = calls();
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(calls(), before + 2, "the counter counts");
    each(|p| {
        let hand = HandScript::parse(
            "hand = 'normal'\nlet_go = 1.2\nrepeat = true\ntremor = { amplitude = 0.0002, frequency = 9.0 }\n\
             [[keyframe]]\ntime = 0.0\nposition = [0.0, 0.0, 0.0]\n\
             [[keyframe]]\ntime = 0.2\nposition = [0.02, -0.02, 0.02]\nrotation_deg = [10.0, 0.0, 30.0]\n\
             [[keyframe]]\ntime = 0.4\nposition = [-0.02, 0.01, 0.0]\n",
        )
        .expect("script");
        let list = [
            Fault::between(FaultKind::Stale, 0.1, 0.105),
            Fault::between(FaultKind::Garbled, 0.2, 0.205),
            Fault::between(FaultKind::Duplicate, 0.3, 0.305),
            Fault::between(FaultKind::NanPose, 0.4, 0.405),
            Fault::between(FaultKind::Spike, 0.5, 0.505),
            Fault::between(FaultKind::FailWrites, 0.6, 0.605),
            Fault::between(FaultKind::LoseCalibration, 1.0, 1.005),
            Fault::from(FaultKind::Unplug, 1.5),
        ];
        let options = OpenOptions {
            hand,
            faults: Faults(list.to_vec()),
            drop_rate: 0.05,
            delays: Some((2, 2)),
            ..OpenOptions::default()
        };
        let mut b = Bench::ready(&p.name, options);
        let before = calls();
        let (mut good, mut bad) = (0, 0);
        for k in 0..2000u64 {
            let now = if k < 1800 { k * MS } else { k * MS + 3_600_000 * MS };
            let read = b.device.read(now);
            let size = if k % 50 == 0 { 1e6 } else { 1.0 };
            let write = b.device.write(now, &push().scaled(size));
            if k % 97 == 0 {
                b.device.zero(now);
            }
            let _ = (b.device.lifecycle(), b.device.io_mode(), b.device.profile().max_force);
            if read.is_ok() && write.is_ok() { good += 1 } else { bad += 1 }
        }
        assert_eq!(calls(), before, "{}", p.name);
        assert!(good > 700 && bad > 500, "{}: {good} good, {bad} bad ticks", p.name);
    });
}

/// What a device of each profile did, gaps and failures too, played back: the samples are numbered, timed and finite, no command
/// passes the recorded device's limits, and nothing is allocated whenever the servo looks.
#[test]
fn a_recording_of_any_device_is_a_device_too() {
    let calls = || CALLS.with(Cell::get);
    let registry = Registry::builtin();
    each(|p| {
        let hand = HandScript::parse("").expect("a hand at rest");
        let mut recorded =
            Bench::ready(&p.name, OpenOptions { hand, drop_rate: 0.1, ..OpenOptions::default() });
        let mut moments = Vec::new();
        for k in 0..1000u64 {
            let read = recorded.device.read(k * MS);
            let (pose, lost) = (read.ok().map(|s| s.pose), read.map_or(1, |s| s.lost));
            // A gap now and then, in which nothing new came.
            if k % 100 < 90 {
                moments.push(Moment { time_ns: k * MS, pose, buttons: 1, lost });
            }
        }
        let track = Arc::new(Track::new(&p.name, "run.mcap", moments.iter().copied()).expect("a track"));
        let options = OpenOptions { replay: Some(track), ..OpenOptions::default() };
        let mut device = registry.open(REPLAY, &options).expect("opens");
        assert_eq!((device.profile().name.as_str(), device.lifecycle()), (p.name.as_str(), Lifecycle::Ready));
        let before = calls();
        let (mut last, mut good, mut bad) = (None::<Sample>, 0, 0);
        for k in 0..2000u64 {
            // Late ticks, left-out ones, and a long gap beyond the end.
            let late = if k % 7 == 0 { MS / 3 } else { 0 };
            let now = k * MS + late + if k < 1800 { 0 } else { 3_600_000 * MS };
            if k % 50 < 3 {
                continue;
            }
            match device.read(now) {
                Ok(sample) => {
                    good += 1;
                    assert!(pose_is_finite(&sample.pose) && sample.joints.iter().all(|j| j.is_finite()));
                    let again = last.is_some_and(|l| l.seq == sample.seq);
                    let on = last.is_none_or(|l| sample.seq == l.seq + 1 && sample.time_ns > l.time_ns);
                    assert!((again || on) && sample.time_ns <= now && sample.buttons == 1, "{}", p.name);
                    last = Some(sample);
                }
                Err(e) => {
                    bad += 1;
                    assert_eq!(e, ReadFault::Stale);
                }
            }
            let accepted =
                device.write(now, &push().scaled(if k % 50 == 7 { 1e6 } else { 1.0 })).expect("taken");
            assert!(accepted.applied.force.norm() <= p.max_force * 1.02, "{}", p.name);
            assert_eq!(accepted.saturated, k % 50 == 7, "{}", p.name);
            device.zero(now);
        }
        assert_eq!(calls(), before, "{}", p.name);
        assert!(good > 1700 && bad > 50, "{}: {good} good, {bad} bad reads", p.name);
    });
}
