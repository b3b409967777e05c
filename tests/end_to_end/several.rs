//! Two devices of one kind in one daemon: one scene, a tool, an owner and a fault of its own for each.
//!
//! Both hands rest at the origins of their devices, which stand side by side over one cube; each holds a ball of another size.

#[path = "several_ctl.rs"]
mod ctl;

use crate::daemon::{Daemon, HAPTICD, add_cube, refused, wait_for};
use crate::{AWAY, TOUCHING, at};
use hapticd::control::client::Client;
use hapticd::protocol::messages::{DeviceStatus, Role};
use hapticd::protocol::rpc::codes;
use hapticd::protocol::telemetry::StateJson;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::process::Command;
use std::time::{Duration, Instant};

const ROLES: [&str; 2] = ["left", "right"];
/// Radii of their tools, m.
const RADII: [f64; 2] = [0.005, 0.006];
/// N/m, of `add_cube`.
const STIFFNESS: f64 = 500.0;

/// A session that may arm, but nothing that belongs to others.
fn owner(d: &Daemon, name: &str) -> Client {
    Client::connect(Some(&d.socket()), name, Some(Role::Owner)).expect("connects")
}

/// A daemon with two simulated devices of one kind; `faults` go into the left one's hand script.
fn pair(faults: &str) -> Daemon {
    pair_of("ideal-6dof", faults)
}

fn pair_of(name: &str, faults: &str) -> Daemon {
    let d = started(name, faults);
    for role in ROLES {
        wait_state(&d, role, &["idle"]);
    }
    d
}

fn started(name: &str, faults: &str) -> Daemon {
    let (config, _hands) = config(name, [faults, ""]);
    Daemon::start(&config)
}

/// A configuration, and the hand scripts that it names.
fn config(name: &str, faults: [&str; 2]) -> (String, [tempfile::NamedTempFile; 2]) {
    let hand = "hand = \"normal\"\n[[keyframe]]\ntime = 0.0\nposition = [0.0, 0.0, 0.0]\n";
    let files = [tempfile::NamedTempFile::new(), tempfile::NamedTempFile::new()].map(|f| f.expect("a file"));
    for (file, more) in files.iter().zip(faults) {
        std::fs::write(file.path(), format!("{hand}{more}")).expect("writes");
    }
    let device = |i: usize| {
        format!("[[device]]\nname = \"{name}\"\nrole = \"{}\"\nhand = {:?}\n", ROLES[i], files[i].path())
    };
    (format!("{}{}", device(0), device(1)), files)
}

fn wait_state(d: &Daemon, role: &str, states: &[&str]) -> StateJson {
    wait_for(&format!("{role} to be {states:?}"), || {
        d.device(role).state.filter(|s| states.contains(&s.state.as_str()))
    })
}

/// Side by side over a cube that waits out of reach, each with its own ball.
fn build(d: &Daemon, c: &mut Client) {
    add_cube(c, d.dir.path(), "cube", &json!({"pose": at(AWAY), "persistent": true}));
    for ((role, radius), x) in ROLES.iter().zip(RADII).zip([-0.01, 0.01]) {
        c.call("tool.set", json!({"device": role, "tool": {"sphere": {"radius": radius}}})).expect("a tool");
        c.call("device.place", json!({"device": role, "pose": {"position": [x, 0.0, 0.0]}}))
            .expect("a place");
    }
}

fn arm(d: &Daemon, c: &mut Client, role: &str) {
    c.call("arm", json!({"device": role})).expect("arms");
    wait_state(d, role, &["rendering"]);
}

fn force(d: &Daemon, role: &str) -> f64 {
    d.plant_of(role).wrench.force.norm()
}

/// Moves the cube under the tools and waits until the armed ones feel it.
fn touch(d: &Daemon, c: &mut Client, roles: &[&str]) {
    c.call("object.update", json!({"object": "cube", "pose": at(TOUCHING)})).expect("moves");
    for role in roles {
        wait_for(&format!("a force at {role}"), || (force(d, role) > 0.05).then_some(()));
    }
}

/// Both armed by one session, and touching.
fn both(d: &Daemon) -> Client {
    let mut c = d.client("owner of both");
    build(d, &mut c);
    for role in ROLES {
        arm(d, &mut c, role);
    }
    touch(d, &mut c, &ROLES);
    c
}

/// The motors of that device are told zero and stay so over many further commands.
fn wait_zero(d: &Daemon, role: &str) {
    wait_for(&format!("zero at {role}"), || d.plant_of(role).is_zero().then_some(()));
    let until = Instant::now() + Duration::from_millis(400);
    while Instant::now() < until {
        let r = d.plant_of(role);
        assert!(r.is_zero(), "{role}: the force came back: {:?}", r.wrench);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// That device renders on: it ticks, without a fault, and its motors are told a force all the time.
fn renders(d: &Daemon, role: &str) {
    let before = d.device(role);
    let commands = d.plant_of(role).count;
    let until = Instant::now() + Duration::from_millis(400);
    while Instant::now() < until {
        assert!(force(d, role) > 0.05, "{role} has lost its force: {:?}", d.device(role).state);
        std::thread::sleep(Duration::from_millis(1));
    }
    let after = d.device(role);
    let state = after.state.as_ref().expect("a state");
    assert_eq!((state.state.as_str(), state.fault.as_str()), ("rendering", "none"), "{role}");
    assert_eq!(after.owner, before.owner);
    assert!(after.counters["ticks"] > before.counters["ticks"] && d.plant_of(role).count > commands);
}

/// A ball of radius r, its centre at height y over a flat face at `top`: it is pressed by r - (y - top).
fn expected(radius: f64, state: &StateJson) -> f64 {
    STIFFNESS * (radius - (state.position[1] - (TOUCHING + 0.02)))
}

/// What pushes a device's tool up at rest, by what its own ball must feel; `free`: what it is pushed with where nothing is touched (the
/// Falcon's arm is carried).
fn feel_their_own(d: &Daemon, free: [f64; 2], within: f64) {
    for ((i, role), x) in ROLES.iter().enumerate().zip([-0.01, 0.01]) {
        let push = |s: &StateJson| s.force[1] - free[i];
        // Until the hand has come to rest against it.
        let feels = |s: &StateJson| {
            let own = expected(RADII[i], s);
            s.touched == 1 && own > 0.1 && (push(s) - own).abs() < within
        };
        let state = wait_for(&format!("{role} to feel its ball"), || d.device(role).state.filter(feels));
        assert!(
            (state.position[0] - x).abs() < 0.002,
            "{role} stands at its own place: {:?}",
            state.position
        );
        // The other's ball would be pressed by a millimetre more, or less.
        assert!((push(&state) - expected(RADII[1 - i], &state)).abs() > 0.4);
    }
}

#[test]
fn two_falcons_touch_one_object_each_with_its_own_tool() {
    let d = pair_of("novint-falcon", "");
    let mut c = owner(&d, "owner of both");
    build(&d, &mut c);
    ROLES.iter().for_each(|role| arm(&d, &mut c, role));
    let free = ROLES.map(|role| {
        wait_for("the whole force", || d.device(role).state.filter(|s| s.ramp == 1.0 && s.touched == 0)).force
            [1]
    });
    c.call("object.update", json!({"object": "cube", "pose": at(TOUCHING)})).expect("moves");
    feel_their_own(&d, free, 0.03);
    let seen = d.status().devices;
    assert!(seen.iter().all(|s| s.device == "novint-falcon" && s.owner == c.welcome().session));
}

#[test]
fn two_devices_touch_one_object_each_with_its_own_tool() {
    let d = pair("");
    let mut c = both(&d);
    feel_their_own(&d, [0.0; 2], 0.005);
    let status = d.status();
    let session = c.welcome().session;
    let seen: Vec<_> = status.devices.iter().map(|s| (s.role.as_str(), s.device.as_str(), s.owner)).collect();
    assert_eq!(seen, [("left", "ideal-6dof", session), ("right", "ideal-6dof", session)]);
    assert_eq!((status.device_role.as_str(), status.owner), ("left", session), "the first stands above, too");
    // Both streams of state, told apart by their number; telemetry by the role.
    let mut udp = c.datagrams().expect("datagrams");
    udp.attach().expect("attaches");
    for role in ROLES {
        c.call("state_stream", json!({"device": role, "rate_hz": 50.0})).expect("a stream");
        c.call("subscribe", json!({"device": role, "rate_hz": 50.0})).expect("telemetry");
    }
    let (mut notes, mut heights) = ([0; 2], [0.0; 2]);
    wait_for("telemetry of both", || {
        let n = c.note(Duration::from_millis(50)).expect("reads").filter(|n| n.method == "telemetry")?;
        let i = ROLES.iter().position(|r| n.params["device"] == *r).expect("a role");
        heights[i] = n.params["state"]["position"][0].as_f64().expect("a number");
        notes[i] += 1;
        (notes[0] > 3 && notes[1] > 3).then_some(())
    });
    assert!(heights[0] < 0.0 && heights[1] > 0.0, "each told of its own device: {heights:?}");
    let mut streams = [0; 2];
    wait_for("state of both", || {
        let (stream, s) = udp.state_of(Duration::from_millis(50)).expect("reads")?;
        assert_eq!(s.position[0] > 0.0, stream == 1, "{stream}: {:?}", s.position);
        streams[usize::from(stream)] += 1;
        (streams[0] > 3 && streams[1] > 3).then_some(())
    });
    // A recording is one device's, and says whose.
    let on = json!({"device": "right", "on": true});
    let path = c.call("record", on).expect("records")["path"].as_str().expect("a path").to_owned();
    c.call("record", json!({"device": "left", "on": true})).expect("the other one's beside it");
    std::thread::sleep(Duration::from_millis(200));
    for role in ROLES {
        c.call("record", json!({"device": role, "on": false})).expect("ends");
    }
    let (header, records, _) = hapticd::recording::load(std::path::Path::new(&path)).expect("loads");
    assert!(path.contains("/rec/right/") && header.extra["role"] == "right", "{path}: {:?}", header.extra);
    assert!(!records.is_empty() && records.iter().all(|r| r.position[0] > 0.0), "the right one's own ticks");
    // An edit without a device is for all: both get the same ball, whose force ramps up anew in the free.
    c.call("object.update", json!({"object": "cube", "pose": at(AWAY)})).expect("moves");
    let set = c.call("tool.set", json!({"tool": {"sphere": {"radius": 0.0055}}})).expect("a tool");
    for role in ROLES {
        wait_for(&format!("{role} to have it"), || {
            let s = d.device(role).state?;
            (s.generation >= set["generation"].as_u64()? && s.ramp == 1.0).then_some(())
        });
    }
    touch(&d, &mut c, &ROLES);
    for role in ROLES {
        wait_for(&format!("{role} to feel the new ball"), || {
            let s = d.device(role).state?;
            ((s.force[1] - expected(0.0055, &s)).abs() < 0.005).then_some(())
        });
    }
}

#[test]
fn each_device_has_its_own_owner() {
    let d = pair("");
    let (mut a, mut b) = (owner(&d, "a"), owner(&d, "b"));
    build(&d, &mut b);
    arm(&d, &mut a, "left");
    assert_eq!(refused(b.call("arm", json!({"device": "left"}))), codes::NOT_OWNER);
    // The first is meant where none is named.
    assert_eq!(refused(b.call("arm", json!({}))), codes::NOT_OWNER);
    arm(&d, &mut b, "right");
    let owners = |d: &Daemon| ROLES.map(|r| d.device(r).owner);
    let [sa, sb] = [a.welcome().session, b.welcome().session];
    assert_eq!(owners(&d), [sa, sb]);
    touch(&d, &mut b, &ROLES);
    // What changes a servo is for the one that holds it; another's limit is no limit of one's own.
    for (method, mut params) in
        [("limits", json!({"force": 1e-3})), ("clutch", json!({"held": true})), ("disarm", json!({}))]
    {
        params["device"] = "right".into();
        assert_eq!(refused(a.call(method, params)), codes::NOT_OWNER, "{method}");
    }
    // Nor may a tool or a place be changed under another's hand; without a device it would be.
    let ball = json!({"sphere": {"radius": 0.02}});
    for (method, params, field) in [
        ("tool.set", json!({"device": "right", "tool": ball}), "device"),
        ("tool.set", json!({"tool": ball}), "device"),
        ("device.place", json!({"device": "right", "scale": 100.0}), "device"),
        ("device.place", json!({"scale": 100.0}), "device"),
        ("transaction", json!({"edits": [{"op": "tool.set", "tool": ball}]}), "edits[0].device"),
    ] {
        let e = match a.call(method, params) {
            Err(hapticd::control::client::ClientError::Refused(e)) => e,
            other => panic!("{method}: {other:?}"),
        };
        assert_eq!(
            (e.code, e.data.and_then(|d| d.field).as_deref()),
            (codes::NOT_OWNER, Some(field)),
            "{method}"
        );
    }
    a.call("limits", json!({"device": "left", "force": 0.06})).expect("lowers");
    wait_for("the lower limit", || (force(&d, "left") <= 0.06 + 1e-9).then_some(()));
    wait_for("more than that", || (force(&d, "right") > 0.1).then_some(()));
    renders(&d, "right");
    // Without a device: what one holds, and nothing of the other's.
    a.call("disarm", json!({})).expect("disarms");
    wait_zero(&d, "left");
    renders(&d, "right");
    assert_eq!(owners(&d), [0, sb]);
    assert_eq!(refused(a.call("disarm", json!({}))), codes::NOT_OWNER, "it holds nothing any more");
    renders(&d, "right");
    // An admin that holds nothing takes all of it.
    arm_again(&d, &mut a, &mut b);
    d.client("admin").call("disarm", json!({})).expect("disarms");
    for role in ROLES {
        wait_zero(&d, role);
    }
    assert_eq!(owners(&d), [0, 0]);
}

/// The left one in the hands of `a` once more, and both touching.
fn arm_again(d: &Daemon, a: &mut Client, b: &mut Client) {
    b.call("object.update", json!({"object": "cube", "pose": at(AWAY)})).expect("moves");
    arm(d, a, "left");
    touch(d, b, &ROLES);
}

#[test]
fn the_owner_that_goes_leaves_the_other_one_s_device_alone() {
    let d = pair("");
    let (mut a, mut b) = (owner(&d, "a"), owner(&d, "b"));
    build(&d, &mut b);
    arm(&d, &mut a, "left");
    arm(&d, &mut b, "right");
    touch(&d, &mut b, &ROLES);
    drop(a);
    wait_zero(&d, "left");
    renders(&d, "right");
    // It may be had again, by the one that holds the other.
    b.call("object.update", json!({"object": "cube", "pose": at(AWAY)})).expect("moves");
    arm(&d, &mut b, "left");
    touch(&d, &mut b, &ROLES);
    drop(b);
    for role in ROLES {
        wait_zero(&d, role);
    }
}

#[test]
fn a_device_that_is_not_there_is_named_in_the_refusal() {
    let d = pair("");
    let mut c = d.client("lost");
    let calls = [
        ("arm", json!({})),
        ("takeover", json!({})),
        ("disarm", json!({})),
        ("clear_fault", json!({})),
        ("calibrate", json!({})),
        ("limits", json!({"force": 1.0})),
        ("clutch", json!({"held": true})),
        ("recentre", json!({"to": [0.0, 0.0, 0.0]})),
        ("subscribe", json!({"rate_hz": 1.0})),
        ("state_stream", json!({"rate_hz": 1.0})),
        ("record", json!({"on": true})),
        ("tool.set", json!({"tool": {"sphere": {"radius": 0.01}}})),
        ("device.place", json!({"scale": 1.0})),
    ];
    let before = d.status().generation;
    for (method, mut params) in calls {
        params["device"] = "middle".into();
        let e = match c.call(method, params) {
            Err(hapticd::control::client::ClientError::Refused(e)) => e,
            other => panic!("{method}: {other:?}"),
        };
        assert_eq!(e.code, codes::NOT_FOUND, "{method}: {e:?}");
        assert!(e.message.contains("'middle'") && e.message.contains("left, right"), "{method}: {e:?}");
        assert_eq!(e.data.and_then(|d| d.field).as_deref(), Some("device"), "{method}");
    }
    assert_eq!(d.status().generation, before, "nothing has changed");
    assert!(ROLES.iter().all(|r| d.device(r).owner == 0));
}

/// Both touch; the left one falls into that fault, and stays there without force.
fn fault_of_the_left(faults: &str, reason: &str, provoke: impl FnOnce(&mut Client)) {
    let d = pair(faults);
    let mut c = both(&d);
    provoke(&mut c);
    wait_for(reason, || d.device("left").state.filter(|s| s.state == "fault" && s.fault == reason));
    wait_zero(&d, "left");
    renders(&d, "right");
    let told = wait_for("the event", || {
        let n = c.note(Duration::from_millis(50)).expect("reads")?;
        (n.params["event"] == "fault").then_some(n.params)
    });
    assert_eq!(told["device"], "left", "{told}");
    // The dump lies in the device's own directory.
    let recordings = d.dir.path().join("rec");
    wait_for("the dump", || {
        let mut files = std::fs::read_dir(recordings.join("left")).ok()?.flatten();
        files.any(|f| f.file_name().to_string_lossy().contains(reason)).then_some(())
    });
    assert!(!recordings.join("right").exists());
}

#[test]
fn a_fault_of_one_device_leaves_the_other_rendering() {
    // Slower than any hand is still.
    let provoke =
        |c: &mut Client| drop(c.call("limits", json!({"device": "left", "velocity": 1e-9})).expect("lowers"));
    fault_of_the_left("", "velocity", provoke);
}

#[test]
fn one_device_that_is_unplugged_leaves_the_other_rendering() {
    // Late enough that a slow machine touches before.
    fault_of_the_left("[[fault]]\nkind = \"unplug\"\nat = 20.0\n", "device_gone", |_| ());
}

/// Broken code in one device's driver: its own servo ends at zero and is started again, the other renders on.
#[test]
fn a_panic_in_one_servo_leaves_the_other_rendering() {
    // Every life of the left device ends so; the right one is touched before, during and after.
    let d = pair("[[fault]]\nkind = \"panic\"\nat = 12.0\n");
    let mut c = both(&d);
    c.call("limits", json!({"device": "left", "force": 0.08})).expect("lowers");
    wait_for("the lower limit", || (force(&d, "left") <= 0.08 + 1e-9).then_some(()));
    // The page of a successor begins anew, at zero: what counts is what stands in this one. It pushes until the panic is told.
    let before = wait_for("the panic", || {
        let last = d.plant_of("left");
        d.log().contains("a panic that the hand script asks for").then_some(last)
    });
    let after = d.plant_of("left");
    assert!(
        after.count >= before.count && after.is_zero(),
        "{:?} after {} commands",
        after.wrench,
        after.count
    );
    assert!(after.count > 1000 && after.zeros >= 1, "the page of the servo that pushed: {after:?}");
    d.wait_log("the servo panicked");
    renders(&d, "right");
    let mut told = Vec::new();
    wait_for("the events", || {
        told.extend(c.note(Duration::from_millis(50)).expect("reads").map(|n| n.params));
        let event = |what: &str| told.iter().any(|p| p["device"] == "left" && p["event"] == what);
        (event("fault") && event("disarmed")).then_some(())
    });
    let dumps = d.dir.path().join("rec/left");
    wait_for("the dump", || {
        let mut files = std::fs::read_dir(&dumps).ok()?.flatten();
        files.any(|f| f.file_name().to_string_lossy().contains("panic")).then_some(())
    });
    // Its successor feels the scene as it stands, and nobody holds it.
    let generation = d.device("right").state.expect("a state").generation;
    let next = wait_for("another servo", || d.device("left").state.filter(|s| s.generation >= generation));
    assert_eq!((next.state.as_str(), d.device("left").owner), ("idle", 0));
    renders(&d, "right");
    c.call("object.update", json!({"object": "cube", "pose": at(AWAY)})).expect("moves");
    arm(&d, &mut c, "left");
    touch(&d, &mut c, &ROLES);
    // What a client has lowered holds on.
    let until = Instant::now() + Duration::from_millis(400);
    while Instant::now() < until {
        assert!(force(&d, "left") <= 0.08 + 1e-9, "{}", force(&d, "left"));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Broken code in the very first tick, and in that of every successor: after five of them the device is left alone. The other one is
/// armed, touches and renders all the while.
#[test]
fn a_servo_that_panics_from_its_first_tick_on_is_given_up_and_the_other_renders() {
    let mut d = started("ideal-6dof", "[[fault]]\nkind = \"panic\"\nat = 0.0\n");
    wait_state(&d, "right", &["idle"]);
    let mut c = d.client("owner of one");
    build(&d, &mut c);
    arm(&d, &mut c, "right");
    touch(&d, &mut c, &["right"]);
    let times = |d: &Daemon| d.log().matches("the servo panicked, which is a bug").count();
    let mut lives = 0;
    while lives < 5 {
        let now = wait_for("another panic", || Some(times(&d)).filter(|n| *n > lives));
        lives = now;
        assert!(d.plant_of("left").is_zero());
        renders(&d, "right");
    }
    d.wait_log("it is left alone until hapticd is started anew");
    // Longer than the time between two tries.
    let until = Instant::now() + Duration::from_secs(5);
    while Instant::now() < until {
        renders(&d, "right");
    }
    assert_eq!(times(&d), 5);
    assert_eq!(refused(c.call("arm", json!({"device": "left"}))), codes::SERVO);
    // What is asked for now is the end, and that is in order.
    d.signal(Signal::SIGTERM);
    assert_eq!(d.wait_exit().code(), Some(0));
    assert!(ROLES.iter().all(|role| d.plant_of(role).is_zero()));
}

/// With no servo left and none to come there is nothing to serve: whoever starts the daemon anew has it afresh, and its devices are at zero.
#[test]
fn a_daemon_all_of_whose_devices_are_given_up_ends_with_code_1() {
    let (config, _hands) = config("ideal-6dof", ["[[fault]]\nkind = \"panic\"\nat = 0.0\n"; 2]);
    let dir = tempfile::tempdir().expect("a directory");
    let mut d = Daemon { child: Daemon::spawn(&dir, &config, |_| ()), dir };
    assert_eq!(d.wait_exit().code(), Some(1), "{}", d.log());
    // The end waits for the log, but not for ever.
    assert!(d.log().contains("it is left alone until hapticd is started anew"), "{}", d.log());
    assert!(ROLES.iter().all(|role| d.plant_of(role).is_zero()));
}

/// Where nobody can say zero in the place of the servo that panicked, the daemon does not go on as if somebody had: it ends, and both
/// devices are at zero.
#[test]
fn a_panic_without_a_zero_at_once_ends_the_daemon() {
    let mut d = pair("[[fault]]\nkind = \"panic\"\nat = 12.0\n[[fault]]\nkind = \"deaf\"\nat = 0.0\n");
    let _c = both(&d);
    assert_eq!(d.wait_exit().code(), Some(1));
    assert!(ROLES.iter().all(|role| d.plant_of(role).is_zero()));
    assert!(d.log().contains("a panic that the hand script asks for"), "{}", d.log());
    d.wait_log("a thread panicked; zero force was commanded");
}

/// One thread of a daemon stands still, as with a device whose I/O hangs, until this is dropped. From the thread that made it only.
struct Still(i32);

impl Still {
    fn new(thread: i32) -> Self {
        let still = Self(thread);
        still.trace(libc::PTRACE_SEIZE);
        still.trace(libc::PTRACE_INTERRUPT);
        // SAFETY: waits for a thread that this one traces; no status is asked for.
        let stopped = unsafe { libc::waitpid(thread, std::ptr::null_mut(), libc::__WALL) };
        assert_eq!(stopped, thread, "{}", std::io::Error::last_os_error());
        still
    }

    fn trace(&self, request: libc::c_uint) {
        let none = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: none of the requests used here reads or writes memory.
        let done = unsafe { libc::ptrace(request, self.0, none, none) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        let none = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: as above; a thread that has ended is none of our concern.
        unsafe { libc::ptrace(libc::PTRACE_DETACH, self.0, none, none) };
    }
}

/// The left device's servo stands still.
fn hold_left(d: &Daemon) -> Still {
    let servos: Vec<i32> = std::fs::read_dir(format!("/proc/{}/task", d.child.id()))
        .expect("proc")
        .flatten()
        .filter(|t| std::fs::read_to_string(t.path().join("comm")).is_ok_and(|c| c.trim() == "servo"))
        .filter_map(|t| t.file_name().to_str()?.parse().ok())
        .collect();
    assert_eq!(servos.len(), 2);
    for thread in servos {
        let still = Still::new(thread);
        let ticks = || d.device("left").counters["ticks"];
        let before = ticks();
        let right = d.device("right").counters["ticks"];
        wait_for("the other one to go on", || {
            (ticks() > before + 20 || d.device("right").counters["ticks"] > right + 20).then_some(())
        });
        if ticks() <= before + 1 {
            return still;
        }
    }
    panic!("neither is the left one's");
}

/// A device that answers nothing holds up what is about it, and nothing else: a disarm of the other passes by everything that waits, and is
/// the first to be answered. A disarm of its own passes by what waits, too: nothing that was asked for before brings the force back.
#[test]
fn a_device_that_stands_still_holds_up_no_disarm() {
    let d = pair("");
    let mut r = d.raw();
    r.hello();
    build(&d, &mut d.client("builder"));
    let ask = |r: &mut crate::daemon::Raw, id: u64, method: &str, params: Value| {
        r.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
    };
    // Events may come between.
    let answer = |r: &mut crate::daemon::Raw| loop {
        let line = r.line().expect("an answer");
        if line.get("method").is_none() {
            return line;
        }
    };
    for (id, role) in [(1, "left"), (2, "right")] {
        ask(&mut r, id, "arm", json!({"device": role}));
        assert_eq!(crate::daemon::code(&answer(&mut r)), 0);
        wait_state(&d, role, &["rendering"]);
    }
    touch(&d, &mut d.client("mover"), &ROLES);
    let still = hold_left(&d);
    ask(&mut r, 10, "limits", json!({"device": "left", "force": 0.5}));
    ask(&mut r, 11, "arm", json!({"device": "left"}));
    ask(&mut r, 12, "takeover", json!({"device": "left"}));
    ask(&mut r, 13, "disarm", json!({"device": "right"}));
    let first = answer(&mut r);
    assert_eq!((first["id"].as_u64(), crate::daemon::code(&first)), (Some(13), 0), "{first}");
    wait_zero(&d, "right");
    ask(&mut r, 14, "disarm", json!({"device": "left"}));
    // It has been read when what comes after it is answered.
    ask(&mut r, 15, "ping", json!({}));
    while answer(&mut r)["id"] != 15 {}
    drop(still);
    let mut answers = std::collections::BTreeMap::new();
    while answers.len() < 4 {
        let a = answer(&mut r);
        answers.insert(a["id"].as_u64().expect("a number"), crate::daemon::code(&a));
    }
    assert_eq!(answers.keys().copied().collect::<Vec<_>>(), [10, 11, 12, 14]);
    assert_eq!(
        (answers[&11], answers[&12]),
        (i64::from(codes::SERVO), i64::from(codes::SERVO)),
        "{answers:?}"
    );
    wait_zero(&d, "left");
    assert!(ROLES.iter().all(|role| d.device(role).owner == 0));
    // What is asked for afterwards is another matter.
    ask(&mut r, 20, "arm", json!({"device": "right"}));
    assert_eq!(crate::daemon::code(&answer(&mut r)), 0);
}

/// Every way out takes both forces.
#[test]
fn every_end_of_the_daemon_zeroes_both_devices() {
    for signal in [Signal::SIGTERM, Signal::SIGSEGV, Signal::SIGABRT] {
        let mut d = pair("");
        let _c = both(&d);
        d.signal(signal);
        let status = d.wait_exit();
        assert_eq!(status.success(), signal == Signal::SIGTERM, "{status}");
        for role in ROLES {
            let plant = d.plant_of(role);
            assert!(plant.is_zero() && plant.since_zero == 0, "{signal}: {role}: {:?}", plant.wrench);
        }
    }
    // A panic that the daemon cannot do without.
    let mut d = pair("");
    let _c = both(&d);
    let mut r = d.raw();
    r.hello();
    r.send(&json!({"jsonrpc":"2.0","id":1,"method":"debug.panic","params":{"task":"bridge"}}).to_string());
    assert!(!d.wait_exit().success());
    assert!(ROLES.iter().all(|role| d.plant_of(role).is_zero()));
    // What can do nothing more itself: `hapticd zero` afterwards.
    let mut d = pair("");
    let _c = both(&d);
    d.signal(Signal::SIGKILL);
    d.wait_exit();
    assert!(ROLES.iter().all(|role| !d.plant_of(role).is_zero()), "nobody said zero");
    let zero =
        Command::new(HAPTICD).arg("zero").arg("--config").arg(d.dir.path().join("hapticd.toml")).output();
    assert!(zero.expect("runs").status.success());
    assert!(ROLES.iter().all(|role| d.plant_of(role).is_zero()));
}

/// Stopped like a job of a shell: zero for both before.
#[test]
fn a_stop_takes_both_forces_first() {
    let d = pair("");
    let _c = both(&d);
    d.signal(Signal::SIGTSTP);
    d.wait_stopped();
    assert!(ROLES.iter().all(|role| d.plant_of(role).is_zero()));
    d.signal(Signal::SIGCONT);
    for role in ROLES {
        wait_state(&d, role, &["fault", "idle"]);
        wait_zero(&d, role);
    }
}

/// One that is not there is waited for; the other works.
#[test]
fn a_device_that_is_missing_holds_up_nobody() {
    let file = "[[device]]\nname = \"novint-falcon\"\nrole = \"real\"\ndriver = \"attached\"\nserial = \"of no falcon\"\n\
                [[device]]\nname = \"novint-falcon\"\nrole = \"right\"\n";
    let d = Daemon::start(file);
    wait_state(&d, "right", &["idle"]);
    let mut c = d.client("owner");
    arm(&d, &mut c, "right");
    let refused = refused(c.call("arm", json!({"device": "real"})));
    assert_eq!(refused, codes::SERVO);
    let seen: Vec<DeviceStatus> = d.status().devices;
    assert_eq!(seen[1].owner, c.welcome().session);
    assert!(seen[0].state.as_ref().is_none_or(|s| s.state == "absent"), "{:?}", seen[0].state);
}

/// With one device nothing of this shows: requests and answers are those that an old client knows.
#[test]
fn one_device_answers_as_it_always_did() {
    let d = crate::start();
    let mut c = d.client("old");
    let status = c.call("status", json!({})).expect("status");
    assert!(status.get("devices").is_none());
    c.call("subscribe", json!({"rate_hz": 100.0})).expect("telemetry");
    crate::arm(&d, &mut c);
    let mut seen: Vec<Value> = Vec::new();
    wait_for("telemetry and an event", || {
        seen.extend(c.note(Duration::from_millis(50)).expect("reads").map(|n| n.params));
        let has = |key: &str| seen.iter().any(|p| p.get(key).is_some());
        (has("state") && has("event")).then_some(())
    });
    assert!(seen.iter().all(|p| p.get("device").is_none()), "{seen:?}");
    // The role is a name for it all the same.
    c.call("disarm", json!({"device": "main"})).expect("disarms");
}
