//! The driver of Phantom-class devices against a stand-in for their maker's library, which this test compiles.
//!
//! All cases run one after the other: the library belongs to one owner in a process.

#[path = "device_conformance/clauses.rs"]
mod clauses;
#[path = "openhaptics/rounds.rs"]
mod rounds;
#[path = "servo/sealed.rs"]
mod sealed;

use clauses::{CLAUSES, is_asked};
use hapticd::device::attached::{Attached, open};
use hapticd::device::registry::Registry;
use hapticd::device::{Device, DeviceError, Lifecycle, ReadFault, WriteFault};
use hapticd::geometry::pose::pose_is_finite;
use hapticd::geometry::{Vec3, Wrench};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The stand-in's strings.
struct StandIn {
    path: PathBuf,
    place: extern "C" fn(f64, f64, f64, i32),
    set: extern "C" fn(i32, u32),
    get: extern "C" fn(i32) -> u32,
    force: extern "C" fn(i32) -> f64,
    hang: extern "C" fn(i32, u32),
    watch: extern "C" fn(extern "C" fn(i32)),
}

/// Counts the heap operations of each thread.
#[global_allocator]
static ALLOCATOR: hapticd::servo::heap::CountingAllocator = hapticd::servo::heap::CountingAllocator;

const PRESENT: i32 = 0;
const FAILS: i32 = 1;
const CALIBRATION: i32 = 2;
const STILL: i32 = 3;
const STYLE: i32 = 4;
const PULLED: i32 = 5;

const MISUSE: i32 = 0;
const OPENS: i32 = 1;
const UPDATED: i32 = 2;
const OPEN: i32 = 3;
const RUNNING: i32 = 4;
const PUSHES: i32 = 5;

/// Calls of the library, by the stand-in's numbers.
const INIT: i32 = 0;
const SET_DOUBLE: i32 = 8;
const END_FRAME: i32 = 4;
const NOBODY: i32 = -1;
/// Those of a round.
const IN_A_ROUND: [(&str, i32); 7] = [
    ("hdMakeCurrentDevice", 2),
    ("hdBeginFrame", 3),
    ("hdEndFrame", END_FRAME),
    ("hdGetIntegerv", 6),
    ("hdGetDoublev", 7),
    ("hdSetDoublev", SET_DOUBLE),
    ("hdGetError", 10),
];
const FOR_EVER: u32 = u32::MAX;

impl StandIn {
    /// Compiles it; `None` where there is no compiler.
    fn compile(dir: &Path) -> Option<PathBuf> {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/openhaptics/stand_in.rs");
        let path = dir.join("libHD.so");
        let out = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
            .args(["--edition", "2024", "--crate-type", "cdylib", "-A", "non_snake_case", "-o"])
            .args([path.as_os_str(), source.as_ref()])
            .output();
        let out = match out {
            Ok(out) => out,
            Err(e) => {
                eprintln!("skipped: no rustc to compile the stand-in with: {e}");
                return None;
            }
        };
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        Some(path)
    }

    fn load(path: PathBuf) -> Self {
        let name = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: our own library, which does nothing when it is loaded.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null());
        macro_rules! function {
            ($name:literal) => {{
                // SAFETY: the handle is open; the name ends in NUL.
                let symbol = unsafe { libc::dlsym(handle, $name.as_ptr()) };
                assert!(!symbol.is_null(), "{:?}", $name);
                // SAFETY: the stand-in has it with these arguments.
                #[allow(clippy::missing_transmute_annotations)]
                unsafe {
                    std::mem::transmute(symbol)
                }
            }};
        }
        Self {
            path,
            place: function!(c"standin_place"),
            set: function!(c"standin_set"),
            get: function!(c"standin_get"),
            force: function!(c"standin_force"),
            hang: function!(c"standin_hang"),
            watch: function!(c"standin_watch"),
        }
    }

    fn forces(&self) -> Vec3 {
        Vec3::new((self.force)(0), (self.force)(1), (self.force)(2))
    }

    fn options(&self) -> Attached {
        Attached { library: Some(self.path.clone()), ..Attached::default() }
    }
}

fn phantom(options: &Attached) -> Result<Box<dyn Device>, DeviceError> {
    open(Registry::builtin().profile("phantom-omni").expect("shipped"), options)
}

fn now() -> u64 {
    hapticd::device::io::thread::now_ns()
}

/// Waits until it is so; every few milliseconds it looks again.
fn wait(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !so() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn trouble(device: &dyn Device) -> String {
    device.io().expect("its I/O").trouble()
}

/// Reads and writes like a servo until the motors have it.
fn push(device: &mut Box<dyn Device>, hd: &StandIn, force: Vec3, felt: Vec3) {
    wait("the motors have the force", || {
        let _ = device.read(now());
        let _ = device.write(now(), &Wrench { force, torque: Vec3::zeros() });
        (hd.forces() - felt).norm() < 1e-12
    });
}

#[test]
fn a_phantom_through_the_library_of_its_maker() {
    let dir = tempfile::tempdir().unwrap();

    // Without the library: it says what to do, and never gives force.
    let none = Attached { library: Some(dir.path().join("none.so")), ..Attached::default() };
    let mut device = phantom(&none).unwrap();
    wait("it says so", || trouble(&*device).contains("device.library"));
    assert_eq!(device.lifecycle(), Lifecycle::Absent);
    assert_eq!(device.write(now(), &Wrench::ZERO).unwrap_err(), WriteFault::Gone);
    // One owner in a process.
    let second = phantom(&none).err().expect("refused");
    assert!(second.to_string().contains("one owner"), "{second}");
    drop(device);
    // A file that is something else.
    let text = dir.path().join("text.so");
    std::fs::write(&text, "no library").unwrap();
    let device = phantom(&Attached { library: Some(text), ..Attached::default() }).unwrap();
    wait("it says so", || trouble(&*device).contains("text.so"));
    drop(device);

    let Some(path) = StandIn::compile(dir.path()) else { return };
    let hd = StandIn::load(path);
    (hd.watch)(rounds::count);

    // Another serial number than the one that is wanted.
    let device = phantom(&Attached { serial: Some("S-2".into()), ..hd.options() }).unwrap();
    wait("it says so", || trouble(&*device).contains("S-1"));
    assert_eq!((device.lifecycle(), (hd.get)(OPEN)), (Lifecycle::Absent, 0));
    drop(device);

    // Not there, then there; its frame is not known at first, and it needs no hand for it.
    (hd.set)(PRESENT, 0);
    (hd.set)(CALIBRATION, 0x5002);
    let mut device = phantom(&Attached { serial: Some("S-1".into()), ..hd.options() }).unwrap();
    wait("it says so", || trouble(&*device).contains("HD_COMM_ERROR"));
    assert!(device.calibrate().is_err());
    (hd.set)(PRESENT, 1);
    wait("it is found", || device.lifecycle() == Lifecycle::Uncalibrated);
    wait("it says so", || trouble(&*device).contains("inkwell"));
    let force = Vec3::new(0.0, 1.0, -2.0);
    let pull = Wrench { force, torque: Vec3::zeros() };
    for _ in 0..50 {
        let _ = device.read(now());
        assert_eq!(device.write(now(), &pull).unwrap_err(), WriteFault::NotReady);
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(hd.forces(), Vec3::zeros());
    }
    (hd.set)(CALIBRATION, 0x5001);
    wait("ready", || device.lifecycle() == Lifecycle::Ready);
    assert!((hd.get)(UPDATED) == 1 && trouble(&*device).is_empty(), "{}", trouble(&*device));
    device.calibrate().expect("it is");

    // Millimetres, columns, buttons.
    (hd.place)(10.0, -20.0, 30.0, 2);
    let mut sample = None;
    wait("it moved", || {
        sample = device.read(now()).ok();
        sample.is_some_and(|s| s.pose.translation.vector.x > 0.0)
    });
    let sample = sample.expect("read");
    assert!((sample.pose.translation.vector - Vec3::new(0.01, -0.02, 0.03)).norm() < 1e-15);
    assert!((sample.pose.rotation * Vec3::y() - Vec3::z()).norm() < 1e-12, "a quarter turn about x");
    assert_eq!(sample.buttons, 2);
    let joints = Vec3::new(sample.joints[0], sample.joints[1], sample.joints[2]);
    let tip = device.profile().kinematics.forward(&joints, None).expect("regular");
    assert!((tip - sample.pose.translation.vector).norm() < 1e-9, "joints of the same pose: {tip}");

    // The force, and no more than the device bears; torques of a wrist without motors are none.
    push(&mut device, &hd, force, force);
    let strong = Vec3::new(0.0, 30.0, 40.0);
    push(&mut device, &hd, strong, strong * (3.0 / 50.0));
    let taken = device.write(now(), &Wrench { force: strong, torque: Vec3::x() }).expect("taken");
    assert!(taken.saturated && (taken.applied.force - strong * (3.0 / 50.0)).norm() < 1e-12);
    assert_eq!(taken.applied.torque, Vec3::zeros());
    let bad = Wrench { force: Vec3::new(f64::NAN, 0.0, 0.0), torque: Vec3::zeros() };
    assert_eq!(device.write(now(), &bad).unwrap_err(), WriteFault::Failed);
    wait("nothing for no number", || hd.forces() == Vec3::zeros());

    // A servo that falls silent: its force does not live on.
    push(&mut device, &hd, force, force);
    wait("an old force ends", || hd.forces() == Vec3::zeros());
    let io = device.io().expect("its I/O");
    let stats: std::collections::BTreeMap<_, _> = io.stats.list().into_iter().collect();
    assert!(stats["device_expired"] > 0 && stats["device_readings"] > 100, "{stats:?}");
    assert!(stats["device_sense_to_force_us_median"] > 0, "{stats:?}");

    // A force that the library refuses is no lost device, but does not come back by itself: the write fails, a fault for the servo.
    push(&mut device, &hd, force, force);
    (hd.set)(FAILS, 0x0201);
    wait("it says so", || trouble(&*device).contains("HD_EXCEEDED_MAX_FORCE"));
    assert_eq!((device.lifecycle(), hd.forces()), (Lifecycle::Ready, Vec3::zeros()));
    (hd.set)(FAILS, 0);
    std::thread::sleep(Duration::from_millis(20));
    let _ = device.read(now());
    assert_eq!(device.write(now(), &pull).unwrap_err(), WriteFault::Failed);
    push(&mut device, &hd, force, force);
    // Warm motors are a warning.
    (hd.set)(FAILS, 0x0200);
    wait("it says so", || trouble(&*device).contains("HD_WARM_MOTORS"));
    (hd.set)(FAILS, 0);
    let _ = device.read(now());
    device.write(now(), &pull).expect("taken");
    // What the library would refine waits: the pose would jump under the hand.
    let updated = (hd.get)(UPDATED);
    (hd.set)(CALIBRATION, 0x5001);
    for _ in 0..150 {
        let _ = device.read(now());
        device.write(now(), &pull).expect("taken");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(((hd.get)(UPDATED), device.lifecycle()), (updated, Lifecycle::Ready));
    (hd.set)(CALIBRATION, 0x5000);
    push(&mut device, &hd, force, force);

    // Its frame is lost: no force, and none of before when it is known again.
    (hd.set)(CALIBRATION, 0x5002);
    wait("uncalibrated", || device.lifecycle() == Lifecycle::Uncalibrated);
    (hd.set)(CALIBRATION, 0x5000);
    wait("ready", || device.lifecycle() == Lifecycle::Ready);
    assert_eq!(device.write(now(), &pull).unwrap_err(), WriteFault::NotReady, "it has not been read since");

    // Broken, or the maker's thread hangs: absent, and found again; the old force does not come with it.
    for (what, value, said) in [(FAILS, 0x0302, "HD_COMM_ERROR"), (STILL, 1, "stands still")] {
        push(&mut device, &hd, force, force);
        let opens = (hd.get)(OPENS);
        (hd.set)(what, value);
        let mut reason = String::new();
        wait("absent", || {
            reason = trouble(&*device);
            device.lifecycle() == Lifecycle::Absent
        });
        assert_eq!(device.write(now(), &pull).unwrap_err(), WriteFault::Gone);
        (hd.set)(what, 0);
        wait("found again", || (hd.get)(OPENS) > opens && device.lifecycle() == Lifecycle::Ready);
        assert_eq!(hd.forces(), Vec3::zeros(), "{reason}");
        assert_eq!(device.write(now(), &pull).unwrap_err(), WriteFault::NotReady, "{said}");
    }

    // The servo has crashed: whoever is left says zero.
    push(&mut device, &hd, force, force);
    assert!(device.emergency().expect("one").zero(now()), "it was taken");
    assert_eq!(hd.forces(), Vec3::zeros());
    for _ in 0..20 {
        let _ = device.read(now());
        let _ = device.write(now(), &pull);
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(hd.forces(), Vec3::zeros(), "and it stays so");
    }
    drop(device);
    assert_eq!(((hd.get)(OPEN), (hd.get)(RUNNING)), (0, 0));

    // The same from outside: the tool that brings it up, and the last zero.
    let config = dir.path().join("hapticd.toml");
    let text = |driver: &str| {
        format!(
            "[device]\nname = \"phantom-omni\"\ndriver = \"{driver}\"\nlibrary = \"{}\"\n[control]\nsocket = \"{}\"\n",
            hd.path.display(),
            dir.path().join("socket").display()
        )
    };
    std::fs::write(&config, text("attached")).unwrap();
    let hapticd = |args: &[&str], calibration: u32| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hapticd"));
        command.args(args).arg("--config").arg(&config);
        let out = command.env("STANDIN_CALIBRATION", calibration.to_string()).output().expect("runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (out.status.code(), text(&out.stdout) + &text(&out.stderr))
    };
    for calibration in [0x5000, 0x5001] {
        let (code, said) = hapticd(&["calibrate", "--watch", "0.3"], calibration);
        assert!(code == Some(0) && said.contains("phantom-omni: ready\n"), "{code:?} {said}");
        assert!(said.contains("up     0.00 mm"), "{said}");
    }
    let (code, said) = hapticd(&["calibrate", "--timeout", "0.5", "--json"], 0x5002);
    let states: Vec<serde_json::Value> =
        said.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {said}"))).collect();
    assert!(code == Some(1) && states.len() >= 2, "{code:?} {said}");
    assert!(
        states
            .iter()
            .any(|s| s["state"] == "uncalibrated" && s["text"].as_str().unwrap().contains("inkwell"))
    );
    assert_eq!(states.last().unwrap()["state"], "timeout");
    // Two programs must not command one device.
    let listener = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
    let (code, said) = hapticd(&["calibrate"], 0x5000);
    assert!(code == Some(1) && said.contains("stop it first"), "{code:?} {said}");
    drop(listener);
    let (code, said) = hapticd(&["zero"], 0x5000);
    assert!(code == Some(0) && said.contains("zero commanded"), "{code:?} {said}");
    std::fs::write(&config, text("simulated")).unwrap();
    let (code, said) = hapticd(&["run"], 0x5000);
    assert!(code == Some(78) && said.contains("device.library"), "{code:?} {said}");

    // Dropped while it pushes; each style of calibration; opened and closed again and again.
    for style in [1, 2, 4] {
        (hd.set)(STYLE, style);
        (hd.set)(CALIBRATION, 0x5001);
        let mut device = phantom(&hd.options()).unwrap();
        if style == 1 {
            // Its encoders are set where the arm is: not before the user says that it is in its pose.
            wait("uncalibrated", || trouble(&*device).contains("--in-pose"));
            std::thread::sleep(Duration::from_millis(200));
            assert_eq!(device.lifecycle(), Lifecycle::Uncalibrated);
            let _ = device.calibrate();
        }
        wait("ready", || device.lifecycle() == Lifecycle::Ready);
        push(&mut device, &hd, force, force);
        drop(device);
        assert_eq!((hd.forces(), (hd.get)(OPEN), (hd.get)(RUNNING)), (Vec3::zeros(), 0, 0));
    }
    conformance(&hd);
    hanging_calls(&hd, dir.path());
    assert!((hd.force)(3) <= 3.0 + 1e-9, "never more than the device bears: {}", (hd.force)(3));
    assert_eq!((hd.get)(MISUSE), 0, "calls that the interface does not allow");
    let (rounds, heap) = rounds::counted();
    println!("{heap} heap operations in {rounds} rounds");
    assert!(rounds > 2000 && heap == 0, "{heap} heap operations in {rounds} rounds");
}

const FORCE: Vec3 = Vec3::new(0.0, 1.0, -2.0);
const PULL: Wrench = Wrench { force: FORCE, torque: Vec3::new(0.0, 0.0, 0.0) };
/// Calls of the library in all.
const CALLS: u32 = 18;
/// Those that come again and again while it runs.
const WHILE_IT_RUNS: [u32; 8] = [2, 3, 4, 6, 7, 8, 10, 11];
/// As of each of the drivers on a bus of frames, but on the machine's clock.
const OPENINGS: u32 = 1000;

/// The suite that other drivers pass on a bus of frames, as far as a library of calls has what it asks for. Time is the machine's, so
/// counts and states are asserted, no times.
fn conformance(hd: &StandIn) {
    (hd.set)(STYLE, 2);
    (hd.set)(CALIBRATION, 0x5000);
    for clause in CLAUSES.into_iter().filter(|clause| is_asked("Phantom", clause)) {
        println!("Phantom: {clause}");
        match clause {
            clauses::OPENINGS => openings(hd),
            clauses::UNPLUGGED => (0..CALLS).for_each(|call| unplugged(hd, call)),
            clauses::DAMAGED => numbers_that_are_none(hd),
            _ => pushing(hd, |device| behaves(hd, clause, device)),
        }
        assert_eq!(((hd.get)(OPEN), (hd.get)(RUNNING), hd.forces()), (0, 0, Vec3::zeros()), "{clause}");
    }
}

/// A force is not taken: the device is not ready, or, where the machine stood still for a tenth of a second, not even there.
fn held_back(device: &mut Box<dyn Device>) -> bool {
    matches!(device.write(now(), &PULL), Err(WriteFault::NotReady | WriteFault::Gone))
}

fn ready(hd: &StandIn) -> Box<dyn Device> {
    let device = phantom(&hd.options()).unwrap();
    wait("ready", || device.lifecycle() == Lifecycle::Ready);
    device
}

fn pushing(hd: &StandIn, check: impl FnOnce(&mut Box<dyn Device>)) {
    let mut device = ready(hd);
    push(&mut device, hd, FORCE, FORCE);
    check(&mut device);
}

fn openings(hd: &StandIn) {
    let (before, descriptors) =
        ((hd.get)(OPENS), || std::fs::read_dir("/proc/self/fd").expect("proc").count());
    let mut open = 0;
    for round in 0..OPENINGS {
        // At another point of its life each time.
        let mut device = phantom(&hd.options()).unwrap();
        if round % 4 == 0 {
            wait("ready", || device.lifecycle() == Lifecycle::Ready);
        }
        if round % 8 == 0 {
            push(&mut device, hd, FORCE, FORCE);
        }
        drop(device);
        assert_eq!(((hd.get)(OPEN), (hd.get)(RUNNING), hd.forces()), (0, 0, Vec3::zeros()), "round {round}");
        if round == 10 {
            open = descriptors();
        }
    }
    assert!((hd.get)(OPENS) - before >= OPENINGS / 4 && descriptors() <= open + 2);
}

/// The plug is pulled within this call of the library, whenever it comes: while it is opened, in each call of a round with force on, while it is closed.
fn unplugged(hd: &StandIn, call: u32) {
    let mut device = if WHILE_IT_RUNS.contains(&call) {
        let mut device = ready(hd);
        push(&mut device, hd, FORCE, FORCE);
        (hd.set)(PULLED, call);
        device
    } else {
        (hd.set)(PULLED, call);
        phantom(&hd.options()).unwrap()
    };
    // It is not called in a plain life: then the device is ready, and it is called at the end, or never.
    wait("absent, or ready", || {
        let _ = device.read(now());
        let _ = device.write(now(), &PULL);
        match device.lifecycle() {
            Lifecycle::Absent => !trouble(&*device).is_empty(),
            Lifecycle::Ready => (hd.force)(3) > 0.0 && !WHILE_IT_RUNS.contains(&call) && hd.forces() == FORCE,
            _ => false,
        }
    });
    if device.lifecycle() == Lifecycle::Absent {
        assert_eq!((hd.forces(), device.read(now())), (Vec3::zeros(), Err(ReadFault::Gone)), "call {call}");
        assert_eq!(device.write(now(), &PULL), Err(WriteFault::Gone), "call {call}");
        (hd.set)(PRESENT, 1);
        // Whoever pushed pushes on: nothing comes of it before it has been read in its new life.
        wait("back", || device.lifecycle() == Lifecycle::Ready);
        assert!(held_back(&mut device), "call {call}");
        assert_eq!(hd.forces(), Vec3::zeros(), "call {call}: force by itself");
        push(&mut device, hd, FORCE, FORCE);
    }
    drop(device);
    (hd.set)(PULLED, u32::MAX);
    (hd.set)(PRESENT, 1);
    assert_eq!(((hd.get)(OPEN), (hd.get)(RUNNING), hd.forces()), (0, 0, Vec3::zeros()), "call {call}");
}

/// It hands over numbers and no packets, so none can be short, long or doubled; those that are none are what garbled ones would be.
fn numbers_that_are_none(hd: &StandIn) {
    let mut device = ready(hd);
    push(&mut device, hd, FORCE, FORCE);
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300] {
        (hd.place)(0.0, bad, 0.0, 0);
        for _ in 0..50 {
            if let Ok(sample) = device.read(now()) {
                assert!(pose_is_finite(&sample.pose) && sample.joints.iter().all(|j| j.is_finite()), "{bad}");
            }
            let _ = device.write(now(), &PULL);
            std::thread::sleep(Duration::from_millis(1));
            assert!(hd.forces().iter().all(|f| f.is_finite()) && hd.forces().norm() <= 3.0 + 1e-9);
        }
        (hd.place)(10.0, -20.0, 30.0, 0);
        wait("it is read again", || {
            device.read(now()).is_ok_and(|s| (s.pose.translation.vector.y + 0.02).abs() < 1e-12)
        });
    }
}

/// With force on.
fn behaves(hd: &StandIn, clause: &str, device: &mut Box<dyn Device>) {
    match clause {
        clauses::STALE => {
            // Shorter than what counts as hanging.
            (hd.set)(STILL, 1);
            std::thread::sleep(Duration::from_millis(30));
            let seqs: Vec<Option<u64>> = (0..5).map(|_| device.read(now()).ok().map(|s| s.seq)).collect();
            (hd.set)(STILL, 0);
            // On a machine that stands still it counts as hanging, and as absent.
            let read: Vec<u64> = seqs.into_iter().flatten().collect();
            assert!(read.windows(2).all(|w| w[0] == w[1]), "nothing came, and it is not said to: {read:?}");
            push(device, hd, FORCE, FORCE);
        }
        clauses::NO_NUMBER => {
            for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                let w = Wrench { force: Vec3::new(0.1, bad, 0.0), torque: Vec3::zeros() };
                wait("refused", || {
                    let _ = device.read(now());
                    let taken = device.write(now(), &w);
                    assert!(taken.is_err(), "{bad}");
                    taken == Err(WriteFault::Failed)
                });
                wait("nothing for no number", || hd.forces() == Vec3::zeros());
                push(device, hd, FORCE, FORCE);
            }
        }
        clauses::ACCEPTED => {
            for size in [0.1, 1.0, 100.0] {
                let w = Wrench { force: FORCE * size, torque: Vec3::zeros() };
                let mut accepted = None;
                wait("taken", || {
                    let _ = device.read(now());
                    accepted = device.write(now(), &w).ok();
                    accepted.is_some()
                });
                let accepted = accepted.expect("taken");
                assert_eq!(accepted.saturated, size > 2.0);
                push(device, hd, w.force, accepted.applied.force);
            }
        }
        clauses::ZERO => {
            device.zero(now());
            wait("zero", || hd.forces() == Vec3::zeros());
            let pushes = (hd.get)(PUSHES);
            std::thread::sleep(Duration::from_millis(50));
            assert_eq!((hd.get)(PUSHES), pushes, "an old force came late");
        }
        clauses::REFUSED => {
            (hd.set)(FAILS, 0x0201);
            wait("refused", || {
                let _ = device.read(now());
                device.write(now(), &PULL) == Err(WriteFault::Failed)
            });
            assert_eq!(hd.forces(), Vec3::zeros());
            (hd.set)(FAILS, 0);
            push(device, hd, FORCE, FORCE);
        }
        clauses::BEFORE => {
            (hd.set)(CALIBRATION, 0x5002);
            wait("uncalibrated", || device.lifecycle() == Lifecycle::Uncalibrated);
            for _ in 0..20 {
                let _ = device.read(now());
                assert!(held_back(device));
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(hd.forces(), Vec3::zeros());
            (hd.set)(CALIBRATION, 0x5000);
            wait("ready", || device.lifecycle() == Lifecycle::Ready);
        }
        clauses::BROKEN => {
            let opens = (hd.get)(OPENS);
            (hd.set)(FAILS, 0x0302);
            wait("absent", || device.lifecycle() == Lifecycle::Absent);
            assert_eq!(hd.forces(), Vec3::zeros());
            (hd.set)(FAILS, 0);
            wait("found again", || (hd.get)(OPENS) > opens && device.lifecycle() == Lifecycle::Ready);
            assert_eq!(hd.forces(), Vec3::zeros());
        }
        // What is asserted is asserted of each after it was dropped.
        clauses::DROPPED => {}
        clauses::POSE => {
            (hd.place)(-15.0, 5.0, 25.0, 1);
            wait("it moved", || {
                device.read(now()).is_ok_and(|s| {
                    let at = s.pose.translation.vector;
                    let [x, y, z, ..] = s.joints;
                    let tip = device.profile().kinematics.forward(&Vec3::new(x, y, z), None);
                    (at - Vec3::new(-0.015, 0.005, 0.025)).norm() < 1e-12
                        && tip.is_some_and(|tip| (tip - at).norm() < 1e-9)
                        && s.buttons == 1
                })
            });
        }
        other => panic!("{other} is asked of nobody"),
    }
}

/// Every call of a round hangs for ever, or comes back late: the device is absent and says why, nothing that the servo wanted before
/// goes out once the call has come back, and whoever ends meanwhile ends.
fn hanging_calls(hd: &StandIn, dir: &Path) {
    (hd.set)(STYLE, 2);
    (hd.set)(CALIBRATION, 0x5000);
    let force = Vec3::new(0.0, 1.0, -2.0);
    let pull = Wrench { force, torque: Vec3::zeros() };
    let mut device = phantom(&hd.options()).unwrap();
    for (name, call) in IN_A_ROUND {
        wait("ready", || device.lifecycle() == Lifecycle::Ready);
        push(&mut device, hd, force, force);
        (hd.hang)(call, FOR_EVER);
        // The servo goes on wanting its force all the while.
        let mut reason = String::new();
        wait("absent", || {
            let _ = device.read(now());
            let _ = device.write(now(), &pull);
            reason = trouble(&*device);
            device.lifecycle() == Lifecycle::Absent && reason.contains("hangs in a call")
        });
        assert_eq!(device.write(now(), &pull).unwrap_err(), WriteFault::Gone, "{name}");
        assert!(device.io().expect("its I/O").unconfirmed(), "{name}: nobody knows what the motors have");
        let (opens, pushes) = ((hd.get)(OPENS), (hd.get)(PUSHES));
        (hd.hang)(NOBODY, 0);
        wait("found again", || {
            let _ = device.read(now());
            let _ = device.write(now(), &pull);
            (hd.get)(OPENS) > opens
        });
        // The frame that hung may end with what it was given when that was fresh; no other has a force.
        let late = (hd.get)(PUSHES) - pushes;
        assert!(
            late <= u32::from(call == SET_DOUBLE || call == END_FRAME),
            "{name}: {late} frames with an old force"
        );
        assert!(!device.io().expect("its I/O").unconfirmed(), "{name}: it has had its zeros");
        assert_eq!((hd.get)(MISUSE), 0, "{name}");
    }
    // Late by less than it takes to be given up: a force that is older than 5 ms does not go out.
    for (name, call) in IN_A_ROUND.into_iter().filter(|(_, call)| *call != SET_DOUBLE && *call != END_FRAME) {
        wait("ready", || device.lifecycle() == Lifecycle::Ready);
        push(&mut device, hd, force, force);
        (hd.hang)(call, 40);
        let pushes = (hd.get)(PUSHES);
        // The servo is silent, so each frame that ends after the call came back has only what is old.
        std::thread::sleep(Duration::from_millis(200));
        let late = (hd.get)(PUSHES) - pushes;
        assert!(late <= 8, "{name}: {late} frames with a force: more than fit into 5 ms, and one under way");
        wait("zero", || hd.forces() == Vec3::zeros());
        (hd.hang)(NOBODY, 0);
    }
    wait("ready", || device.lifecycle() == Lifecycle::Ready);
    push(&mut device, hd, force, force);
    // The daemon ends while a call hangs: it does not wait for it, and says that nobody has confirmed the zero.
    let (shared, begin) = (device.io().expect("its I/O"), Instant::now());
    (hd.hang)(END_FRAME, FOR_EVER);
    drop(device);
    assert!(begin.elapsed() < Duration::from_secs(20) && shared.unconfirmed());
    (hd.hang)(NOBODY, 0);
    // Opening never comes back: it is told, and can be ended.
    (hd.set)(FAILS, 0);
    // Who hung has the library until it has closed the device.
    let free = || phantom(&hd.options()).is_ok();
    wait("it is free", free);
    (hd.hang)(INIT, FOR_EVER);
    let device = phantom(&hd.options()).unwrap();
    wait("it says so", || trouble(&*device).contains("has not come back"));
    assert_eq!(device.lifecycle(), Lifecycle::Absent);
    drop(device);
    (hd.hang)(NOBODY, 0);
    wait("it is free", free);
    // From outside: whatever hangs, the last zero ends, and does not claim what it does not know.
    let config = dir.join("hapticd.toml");
    let text = format!(
        "[device]\nname = \"phantom-omni\"\ndriver = \"attached\"\nlibrary = \"{}\"\n",
        hd.path.display()
    );
    std::fs::write(&config, text).unwrap();
    for (name, call) in IN_A_ROUND.into_iter().chain([("hdInitDevice", INIT)]) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hapticd"));
        let out =
            command.args(["zero", "--config"]).arg(&config).env("STANDIN_HANG", call.to_string()).output();
        let out = out.expect("runs");
        let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{name}: {said}");
        assert!(!said.contains("zero commanded"), "{name}: {said}");
    }
}
