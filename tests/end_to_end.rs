//! The real daemon with a simulated device and hand, touched from outside. Forces are read at the plant (the probe
//! page that the simulated motors write), zero force above all.
//!
//! The hand rests at the device's origin with a ball of 5 mm as tool. A cube waits out of reach; moving it under the
//! ball makes contact whatever the timing of the machine is.

mod daemon;
#[path = "end_to_end/disk.rs"]
mod disk;
#[path = "end_to_end/matrix.rs"]
mod matrix;
#[path = "end_to_end/owner.rs"]
mod owner_tests;
/// The shipped example, run as it stands.
#[path = "../examples/push_bunny.rs"]
#[allow(dead_code)]
mod push_bunny;
#[path = "end_to_end/several.rs"]
mod several;
#[path = "end_to_end/signals.rs"]
mod signals;
#[path = "end_to_end/spheres.rs"]
mod spheres;
#[path = "end_to_end/view.rs"]
mod view;
#[path = "end_to_end/walk.rs"]
mod walk;

use daemon::{Daemon, HAPTICD, add_cube, cube_file, refused, wait_for};
use hapticd::control::client::Client;
use hapticd::geometry::shapes;
use hapticd::protocol::datagram::MotionPose;
use hapticd::protocol::rpc::codes;
use hapticd::servo::record::{FLAG_DEADLINE, FLAG_INCOMPLETE, TickRecord};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Height of the cube's centre when its top is 2 mm inside the ball.
const TOUCHING: f64 = -0.023;
const AWAY: f64 = -0.1;

fn start() -> Daemon {
    start_with("")
}

fn start_with(control: &str) -> Daemon {
    let hand = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(hand.path(), "hand = \"normal\"\n[[keyframe]]\ntime = 0.0\nposition = [0.0, 0.0, 0.0]\n")
        .expect("writes");
    let d = Daemon::start(&format!("[control]\n{control}\n[device]\nhand = {:?}\n", hand.path()));
    d.wait_device();
    d
}

fn at(height: f64) -> Value {
    json!({"position": [0.0, height, 0.0]})
}

fn force(d: &Daemon) -> f64 {
    d.plant().wrench.force.norm()
}

fn wait_force(d: &Daemon) {
    wait_for("a force at the plant", || (force(d) > 0.05).then_some(()));
}

/// Waits until the motors are told zero and stay so over many further commands (or have no further ones).
fn wait_zero(d: &Daemon) {
    let first = wait_for("zero at the plant", || Some(d.plant()).filter(|r| r.is_zero()));
    let until = Instant::now() + Duration::from_millis(600);
    while Instant::now() < until {
        let r = d.plant();
        assert!(r.is_zero(), "the force came back: {:?} after {} commands", r.wrench, r.count - first.count);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// `ctl arm` as a process of its own, and a persistent cube under the tool.
fn touch(d: &Daemon) -> Child {
    let mut c = d.client("builder");
    add_cube(&mut c, d.dir.path(), "cube", &json!({"pose": at(AWAY), "persistent": true}));
    let owner = arm_process(d);
    wait_rendering(d);
    c.call("object.update", json!({"object": "cube", "pose": at(TOUCHING)})).expect("moves");
    wait_force(d);
    owner
}

fn arm_process(d: &Daemon) -> Child {
    let mut child = Command::new(HAPTICD)
        .args(["ctl", "--json", "--socket"])
        .arg(d.socket())
        .args(["arm", "--rate", "20"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    out.read_line(&mut line).expect("reads");
    assert!(line.contains("generation"), "not armed: {line}");
    // Its telemetry is read so that it never stands still.
    std::thread::spawn(move || out.lines().for_each(drop));
    child
}

/// Waits until the arming gate has passed: contact that comes before would keep it closed.
fn wait_rendering(d: &Daemon) {
    wait_for("the arming gate", || d.status().state.filter(|s| s.state == "rendering").map(drop));
}

/// Arms and waits for the gate.
fn arm(d: &Daemon, c: &mut Client) {
    c.call("arm", json!({})).expect("arms");
    wait_rendering(d);
}

fn owner(d: &Daemon) -> u64 {
    d.status().owner
}

#[test]
fn a_scene_is_built_touched_changed_and_deleted_while_touching() {
    let d = start();
    let mut c = d.client("user");
    let id = add_cube(&mut c, d.dir.path(), "cube", &json!({"pose": at(AWAY)}));
    arm(&d, &mut c);
    let generation = |v: &Value| v["generation"].as_u64().expect("a generation");
    let felt = |d: &Daemon, g: u64| {
        wait_for("the generation to be felt", || {
            d.status().state.filter(|s| s.generation >= g).map(|s| s.generation)
        })
    };
    let g = generation(&c.call("object.update", json!({"object": id, "pose": at(TOUCHING)})).expect("moves"));
    felt(&d, g);
    wait_force(&d);
    let soft = wait_for("a steady force", || {
        let a = force(&d);
        std::thread::sleep(Duration::from_millis(200));
        (a > 0.05 && (force(&d) - a).abs() < 0.02 * a).then_some(a)
    });
    // Stiffer while touching: the force grows.
    let g2 = generation(
        &c.call("material.set", json!({"name": "cube-mat", "stiffness": 1500.0})).expect("changes"),
    );
    assert!(g2 > g);
    wait_for("a larger force", || (force(&d) > 1.1 * soft).then_some(()));
    // Deleted while touching: zero, and no fault.
    let g3 = generation(&c.call("object.delete", json!({"object": "cube"})).expect("deletes"));
    felt(&d, g3);
    wait_zero(&d);
    assert_eq!(d.status().state.expect("a state").fault, "none");
    assert_eq!(owner(&d), c.welcome().session, "still armed");
    // Another one, loaded while armed.
    add_cube(&mut c, d.dir.path(), "second", &json!({"pose": at(TOUCHING)}));
    wait_force(&d);
    // An edit by somebody who does not own the force.
    let mut other = d.client("other");
    other.call("object.update", json!({"object": "second", "pose": at(AWAY)})).expect("edits");
    wait_zero(&d);
    c.call("disarm", json!({})).expect("disarms");
    wait_for("nobody to own the force", || (owner(&d) == 0).then_some(()));
}

#[test]
fn kill_9_of_the_owner_while_touching_ramps_to_zero() {
    let d = start();
    let mut child = touch(&d);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGKILL).expect("kills");
    child.wait().expect("waits");
    wait_zero(&d);
    wait_for("nobody to own the force", || (owner(&d) == 0).then_some(()));
    assert_eq!(d.status().state.expect("a state").zero, "lease_lost", "nobody asked for it");
    // Nothing is broken: the next client arms and feels.
    let mut c = d.client("next");
    let away = json!({"object": "cube", "pose": at(AWAY)});
    c.call("object.update", away).expect("moves");
    arm(&d, &mut c);
    c.call("object.update", json!({"object": "cube", "pose": at(TOUCHING)})).expect("moves");
    wait_force(&d);
}

#[test]
fn ctrl_c_in_ctl_arm_disarms() {
    let d = start();
    let mut child = touch(&d);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).expect("interrupts");
    let status = wait_for("the end of ctl", || child.try_wait().expect("waits"));
    assert_eq!(status.code(), Some(0));
    wait_zero(&d);
}

/// A panic in that task while touching: zero force, a word about it, an exit code that says so.
fn panics_in(task: &str) {
    let mut d = start();
    let mut child = touch(&d);
    let mut r = d.raw();
    r.hello();
    r.send(&json!({"jsonrpc":"2.0","id":1,"method":"debug.panic","params":{"task":task}}).to_string());
    let status = d.wait_exit();
    assert_eq!(status.code(), Some(1), "{task}: {status}");
    let plant = d.plant();
    assert!(plant.is_zero() && plant.since_zero == 0, "{task}: {:?}", plant.wrench);
    d.wait_log("panicked");
    let _ = child.kill();
    let _ = child.wait();
}

#[test]
fn a_panic_in_a_connection_while_touching_leaves_zero() {
    panics_in("connection");
}

#[test]
fn a_panic_in_the_bridge_while_touching_leaves_zero() {
    panics_in("bridge");
}

#[test]
fn a_panic_in_a_build_while_touching_leaves_zero() {
    panics_in("build");
}

#[test]
fn debug_requests_are_not_served_by_an_ordinary_daemon() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("s.sock");
    let config = dir.path().join("c.toml");
    std::fs::write(&config, format!("[control]\nsocket = {socket:?}\n[cache]\nsize_mb = 0\n"))
        .expect("writes");
    let mut child = Command::new(HAPTICD)
        .args(["run", "--config"])
        .arg(&config)
        .env("XDG_STATE_HOME", dir.path())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let mut c = wait_for("the daemon", || Client::connect(Some(&socket), "x", None).ok());
    assert_eq!(refused(c.call("debug.panic", json!({"task": "bridge"}))), codes::UNKNOWN_METHOD);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).expect("ends");
    child.wait().expect("waits");
}

#[test]
fn takeover_is_explicit_and_the_old_owner_hears_of_it() {
    let d = start();
    let (mut a, mut b) = (d.client("a"), d.client("b"));
    a.call("arm", json!({})).expect("arms");
    assert_eq!(refused(b.call("arm", json!({}))), codes::NOT_OWNER);
    b.call("takeover", json!({})).expect("takes over");
    wait_for("b to own the force", || (owner(&d) == b.welcome().session).then_some(()));
    let heard = wait_for("the event", || {
        let n = a.note(Duration::from_millis(100)).expect("reads")?;
        (n.params["event"] == "taken_over").then_some(n)
    });
    assert!(heard.params["text"].as_str().is_some_and(|t| t.contains(&b.welcome().session.to_string())));
    // The end of the old owner's connection does not touch the new one.
    drop(a);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(owner(&d), b.welcome().session);
}

#[test]
fn an_owner_that_hangs_loses_the_force_when_it_named_a_lease() {
    let d = start();
    let mut c = d.client("hangs");
    add_cube(&mut c, d.dir.path(), "cube", &json!({"pose": at(AWAY), "persistent": true}));
    c.call("arm", json!({"lease_s": 0.4})).expect("arms");
    let mut other = d.client("other");
    // Pings keep it.
    for _ in 0..20 {
        c.call("ping", json!({})).expect("pings");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(owner(&d), c.welcome().session);
    wait_for("the arming gate", || {
        c.call("ping", json!({})).expect("pings");
        d.status().state.filter(|s| s.state == "rendering")
    });
    other.call("object.update", json!({"object": "cube", "pose": at(TOUCHING)})).expect("moves");
    wait_for("nobody to own the force", || (owner(&d) == 0).then_some(()));
    wait_zero(&d);
    assert_eq!(refused(c.call("arm", json!({"lease_s": 100.0}))), codes::INVALID_PARAMS);
}

#[test]
fn limits_are_lowered_and_never_raised() {
    let d = start();
    let mut c = d.client("careful");
    let now = c.call("limits", json!({"force": 0.2})).expect("lowers");
    assert_eq!(now["force"], 0.2);
    let torque = now["torque"].as_f64().expect("a limit");
    let again = c.call("limits", json!({"force": 5.0, "torque": 1e6})).expect("keeps");
    assert_eq!(again["force"], 0.2);
    assert_eq!(again["torque"], torque);
    let status = d.status().limits;
    assert_eq!((status.force, status.torque), (0.2, torque), "what holds now");
    add_cube(&mut c, d.dir.path(), "cube", &json!({"pose": at(AWAY)}));
    c.call("material.set", json!({"name": "cube-mat", "stiffness": 3000.0})).expect("stiff");
    arm(&d, &mut c);
    c.call("object.update", json!({"object": "cube", "pose": at(-0.02)})).expect("moves");
    wait_force(&d);
    let mut peak = 0.0_f64;
    let until = Instant::now() + Duration::from_millis(500);
    while Instant::now() < until {
        peak = peak.max(force(&d));
        std::thread::sleep(Duration::from_millis(1));
    }
    // The motors round the command to their own steps.
    assert!(peak > 0.1 && peak < 0.2 + 0.01, "{peak} N at a limit of 0.2 N");
}

/// Streams the cube's height by UDP from a thread.
struct Stream {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Stream {
    fn start(c: &mut Client, object: u32, height: impl Fn(f64) -> f64 + Send + 'static) -> Self {
        let opened = c.call("motion.open", json!({"rate_hz": 500.0})).expect("a stream");
        let stream = opened["stream"].as_u64().expect("a number") as u16;
        assert!(opened["delay_s"].as_f64().is_some_and(|d| d > 0.0 && d <= 0.1));
        let mut datagrams = c.datagrams().expect("datagrams");
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (s, n) = (stop.clone(), sent.clone());
        let thread = std::thread::spawn(move || {
            let start = Instant::now();
            while !s.load(Relaxed) {
                let y = height(start.elapsed().as_secs_f64());
                let pose = MotionPose { object, position: [0.0, y, 0.0], orientation: [0.0, 0.0, 0.0, 1.0] };
                datagrams.send(stream, &[pose]).expect("sends");
                n.fetch_add(1, Relaxed);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        Self { stop, sent, thread: Some(thread) }
    }

    fn end(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(t) = self.thread.take() {
            t.join().expect("streams");
        }
    }
}

#[test]
fn a_streamed_object_is_felt_moving_and_its_stop_ramps_to_zero() {
    // A generous time-out: the machine that tests is busy.
    let d = start_with("motion_timeout_s = 0.5");
    let mut c = d.client("streamer");
    let id = add_cube(&mut c, d.dir.path(), "cube", &json!({"pose": at(AWAY), "moving": true}));
    arm(&d, &mut c);
    let mut stream = Stream::start(&mut c, id, |t| (AWAY + t * 0.1).min(TOUCHING));
    wait_force(&d);
    let s = d.status();
    assert_eq!(s.state.expect("a state").deepest, id);
    assert!(s.counters["udp_taken"] > 100);
    stream.end();
    assert!(stream.sent.load(Relaxed) > 100);
    wait_for("the event", || {
        let n = c.note(Duration::from_millis(100)).expect("reads")?;
        (n.params["event"] == "motion_stopped").then_some(())
    });
    wait_zero(&d);
}

#[test]
fn the_owner_s_end_freezes_what_it_moves() {
    let d = start_with("motion_timeout_s = 0.5\nresume_s = 60.0");
    let mut c = d.client("streamer");
    let id = add_cube(&mut c, d.dir.path(), "cube", &json!({"pose": at(AWAY), "moving": true}));
    arm(&d, &mut c);
    let mut stream = Stream::start(&mut c, id, |t| (AWAY + t * 0.1).min(TOUCHING));
    wait_force(&d);
    // The connection ends; the datagrams go on, as those of a client that forgot to stop its thread.
    drop(c);
    wait_zero(&d);
    let before = d.counter("udp_bad_session");
    wait_for("the daemon to refuse them", || (d.counter("udp_bad_session") > before).then_some(()));
    stream.end();
    assert!(d.status().state.is_some_and(|s| s.fault == "none"));
}

#[test]
fn a_flood_of_junk_leaves_state_served_and_the_servo_untouched() {
    let d = start();
    let mut c = d.client("watcher");
    c.call("state_stream", json!({"rate_hz": 500.0})).expect("a stream");
    let mut datagrams = c.datagrams().expect("datagrams");
    let udp = c.welcome().udp.clone().expect("datagrams");
    datagrams.attach().expect("attaches");
    datagrams.state(Duration::from_secs(60)).expect("reads").expect("state before the flood");

    // Junk of every kind, as fast as one sender can, for five seconds: bounded in count and in time.
    let session = c.welcome().session;
    let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (s, n) = (stop.clone(), sent.clone());
    let flood = std::thread::spawn(move || {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("binds");
        socket.connect((udp.address.as_str(), udp.port)).expect("connects");
        let noise = vec![0x5A; 120];
        let mut forged = vec![0; 120];
        forged[0..4].copy_from_slice(b"HPTC");
        forged[4] = 1;
        forged[6] = 1;
        forged[10] = 120;
        forged[16..24].copy_from_slice(&session.to_le_bytes());
        forged[34] = 1;
        forged[36] = 64;
        let start = Instant::now();
        let mut k = 0_u64;
        while !s.load(Relaxed) && k < 500_000 && start.elapsed() < Duration::from_secs(60) {
            let _ = socket.send(if k.is_multiple_of(2) { &noise } else { &forged });
            k += 1;
            // About 100,000 a second.
            while start.elapsed() < Duration::from_micros(10 * k) {
                std::hint::spin_loop();
            }
        }
        n.store(k, Relaxed);
        start.elapsed()
    });
    let mut ticks = Vec::new();
    let mut served_edits = 0;
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(5) {
        if let Some(s) = datagrams.state(Duration::from_millis(100)).expect("reads") {
            ticks.push(s.tick);
        }
        if ticks.len() % 100 == 0 {
            c.call("material.set", json!({"name": "m", "stiffness": 1.0 + f64::from(served_edits)}))
                .expect("edits are served");
            served_edits += 1;
        }
    }
    stop.store(true, Relaxed);
    let took = flood.join().expect("floods");
    let sent = sent.load(Relaxed);
    let s = d.status();
    println!(
        "{sent} junk datagrams in {took:?}, {} received, {} states, {served_edits} edits",
        s.counters["udp_received"],
        ticks.len()
    );
    assert!(ticks.len() > 50, "{} states in 5 s", ticks.len());
    assert!(ticks.windows(2).all(|w| w[1] > w[0]), "in order");
    assert!(s.counters["udp_bad_magic"] > 0 && s.counters["udp_bad_mac"] > 0);
    assert_eq!(s.counters["udp_taken"], 1, "the attach datagram alone");
    assert_eq!(s.state.expect("a state").fault, "none");
}

#[test]
fn recordings_are_made_and_hold_what_happened() {
    let d = start();
    let mut c = d.client("recorder");
    add_cube(&mut c, d.dir.path(), "cube", &json!({"pose": at(AWAY)}));
    let made = c.call("record", json!({"on": true})).expect("records");
    let path = made["path"].as_str().expect("a path").to_owned();
    assert_eq!(refused(c.call("record", json!({"on": true}))), codes::REJECTED, "one at a time");
    arm(&d, &mut c);
    c.call("object.update", json!({"object": "cube", "pose": at(TOUCHING)})).expect("moves");
    wait_force(&d);
    // Some more of it, so that the force has faded in by the end of the recording.
    std::thread::sleep(Duration::from_millis(200));
    c.call("record", json!({"on": false})).expect("ends");
    let (header, records, _) = hapticd::recording::load(std::path::Path::new(&path)).expect("loads");
    assert_eq!(header.device, "ideal-6dof");
    assert!(records.len() > 10);
    assert!(records.windows(2).all(|w| w[1].tick > w[0].tick));
    assert!(records.iter().any(|r| r.applied_force.iter().any(|f| f.abs() > 0.05)));
}

#[test]
fn a_fault_leaves_a_dump_of_the_seconds_before() {
    let d = start();
    d.signal(Signal::SIGSTOP);
    d.signal(Signal::SIGCONT);
    let file = wait_for("the dump", || {
        let dir = std::fs::read_dir(d.dir.path().join("rec")).ok()?;
        let mut names = dir.filter_map(|e| e.ok().map(|e| e.path()));
        let found =
            names.find(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("fault-")))?;
        hapticd::recording::load(&found).ok().map(|r| (found, r))
    });
    let (path, (_, records, _)) = file;
    assert!(path.display().to_string().contains("suspended"), "{path:?}");
    assert_eq!(hapticd::control::names::fault(records.last().expect("records").fault), "suspended");
    assert!(records.len() > 1);
}

/// A recording of it all shows that each tick did all of its work: neither edits nor a build take anything from it.
#[test]
fn twenty_edits_a_second_and_a_build_leave_the_work_of_each_tick_alone() {
    const POINTS: u32 = 2000;
    let d = start();
    let mut child = touch(&d);
    let mut c = d.client("busy");
    let ball = d.dir.path().join("ball.stl");
    std::fs::write(&ball, shapes::write_stl(&shapes::icosphere(0.005, 4))).expect("writes");
    let load = |name: &str, cells: u32| json!({"name": name, "source": "descriptor", "format": "stl", "unit": "m", "resolution": {"longest": cells}});
    c.call_with_file("mesh.load", load("ball", 16), &std::fs::File::open(&ball).expect("opens"))
        .expect("loads");
    c.call("object.update", json!({"object": "cube", "pose": at(AWAY)})).expect("moves");
    let tool =
        c.call("tool.set", json!({"tool": {"mesh": {"mesh": "ball", "points": POINTS}}})).expect("a tool");
    wait_for("the tool", || {
        let s = d.status().state?;
        (Some(s.generation) >= tool["generation"].as_u64() && s.state == "rendering").then_some(())
    });
    c.call("object.update", json!({"object": "cube", "pose": at(TOUCHING)})).expect("moves");
    wait_force(&d);
    c.call_with_file("mesh.load", load("fine", 256), &cube_file(d.dir.path(), 0.05)).expect("loads");
    c.call("material.set", json!({"name": "other", "stiffness": 100.0})).expect("a material");
    let recording = c.call("record", json!({"on": true})).expect("records");

    // An uncached build of 256^3 cells, and meanwhile edits of another session, which must not wait for it.
    let object =
        json!({"name": "fine", "mesh": "fine", "material": "other", "pose": {"position": [1.0, 0.0, 0.0]}});
    let build = c.start("object.create", object, None).expect("sends");
    let built = Arc::new(AtomicBool::new(false));
    let done = built.clone();
    let builder = std::thread::spawn(move || {
        let answer = c.finish(build);
        done.store(true, Relaxed);
        (c, answer)
    });
    let mut e = d.client("editor");
    let (mut edits, mut during) = (0, 0);
    while edits < 40 || !built.load(Relaxed) {
        let height = TOUCHING + 1e-5 * f64::from(edits % 5);
        e.call("object.update", json!({"object": "cube", "pose": at(height)})).expect("edits");
        edits += 1;
        during += u32::from(!built.load(Relaxed));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(during > 5, "{during} edits were served during the build");
    let (mut c, answer) = builder.join().expect("builds");
    let newest = answer.expect("builds")["generation"].as_u64().expect("a generation");
    wait_for("the newest generation to be felt", || {
        d.status().state.filter(|s| s.generation >= newest).map(|_| ())
    });
    c.call("record", json!({"on": false})).expect("ends");
    let s = d.status().state.expect("a state");
    assert_eq!((s.fault.as_str(), s.state.as_str()), ("none", "rendering"));
    wait_force(&d);

    let path = recording["path"].as_str().expect("a path");
    let (_, records, _) = hapticd::recording::load(std::path::Path::new(path)).expect("loads");
    // A tick that another program kept from its CPU may meet its deadline, which says so.
    let (whole, cut): (Vec<&TickRecord>, Vec<&TickRecord>) =
        records.iter().partition(|r| r.flags & FLAG_DEADLINE == 0);
    println!("{} ticks, {} of them cut off by their deadline", records.len(), cut.len());
    assert!(whole.len() > 1000 && whole.len() > cut.len());
    // Work depends on the pose alone, as points that cannot touch are left out; none is left out for want of budget.
    for r in &whole {
        let complete = r.flags & FLAG_INCOMPLETE == 0;
        assert_eq!((complete, r.touched), (true, 1), "tick {}, generation {}", r.tick, r.generation);
        assert!((1..=POINTS).contains(&r.work), "tick {}: {}", r.tick, r.work);
    }
    let generations: std::collections::BTreeSet<u64> = records.iter().map(|r| r.generation).collect();
    assert!(generations.len() > 20, "{} generations were felt", generations.len());
    let _ = child.kill();
    let _ = child.wait();
}

#[test]
fn the_example_pushes_a_mesh_against_the_tool() {
    let d = start_with("motion_timeout_s = 0.5");
    let file = d.dir.path().join("block.stl");
    std::fs::write(&file, shapes::write_stl(&shapes::cuboid(hapticd::geometry::Vec3::repeat(0.1))))
        .expect("writes");
    let (file, socket) = (file.display().to_string(), d.socket().display().to_string());
    let args =
        [&file, "--unit", "m", "--scale", "0.8", "--seconds", "6", "--socket", &socket].map(String::from);
    let options = push_bunny::options(args.into_iter()).expect("options");
    let peak = push_bunny::push(&options).expect("runs");
    assert!(peak > 0.05, "{peak} N");
    wait_zero(&d);
    assert_eq!(d.status().state.expect("a state").fault, "none");
    assert!(push_bunny::options(std::iter::empty()).is_err());
}
