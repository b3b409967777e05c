//! The tick under load on the control side: quiet and loaded runs of the real daemon, alternately.
//!
//! `cargo bench --bench control_load [-- PAIRS SECONDS]`, at least 7 pairs by default. Loaded means: edits of built
//! geometry at 20 a second, one field build that no cache holds, and a flood of junk datagrams, all at once. The tool
//! rests on a block in both, so every tick has the same work. Printed: compute time of the tick (p50, p99) and its work
//! units for each run, and the median ratio loaded / quiet, which should stay below 1.1 (p50) and 1.2 (p99). Nothing is
//! asserted: a virtual machine shows its neighbours as well.

#[path = "../tests/daemon/mod.rs"]
mod daemon;

use daemon::{Daemon, cube_file, wait_for};
use hapticd::control::client::Client;
use hapticd::servo::record::{FLAG_DEADLINE, ServoState, TickRecord};
use hapticd::servo::rt::keep_off;
use serde_json::json;
use std::net::UdpSocket;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Shell points of the tool: the work units of each tick that touches.
const POINTS: u32 = 6000;

/// What a run showed.
struct Run {
    p50: f64,
    p99: f64,
    /// Smallest and largest work of a tick.
    work: (u32, u32),
    ticks: usize,
    /// Ticks that ended at the wall-clock deadline.
    cut: usize,
    skipped: u64,
    /// Most of them in a row.
    longest: u32,
    edits: u32,
    builds: u32,
    junk: u64,
}

/// Ticks of the recording made while `load` ran.
fn record(d: &Daemon, c: &mut Client, load: impl FnOnce(&mut Client) -> (u32, u32, u64)) -> Run {
    let made = c.call("record", json!({"on": true})).expect("records");
    let path = made["path"].as_str().expect("a path").to_owned();
    let (edits, builds, junk) = load(c);
    c.call("record", json!({"on": false})).expect("ends");
    let (_, records, _) = hapticd::recording::load(Path::new(&path)).expect("loads");
    let skipped = records.iter().map(|r| u64::from(r.skipped)).sum();
    assert!(records.iter().all(|r| r.state == ServoState::Rendering && r.touched == 1), "{}", d.log());
    let mut us: Vec<f64> = records.iter().map(|r| r.compute_ns as f64 / 1e3).collect();
    us.sort_by(f64::total_cmp);
    let at = |q: f64| us[((us.len() - 1) as f64 * q).round() as usize];
    // The wall-clock deadline is the second guard: a tick that the machine took away is cut, and counted apart.
    let (cut, whole): (Vec<&TickRecord>, Vec<_>) = records.iter().partition(|r| r.flags & FLAG_DEADLINE != 0);
    let work = |f: fn(u32, u32) -> u32| whole.iter().map(|r| r.work).reduce(f).expect("ticks");
    Run {
        p50: at(0.5),
        p99: at(0.99),
        work: (work(u32::min), work(u32::max)),
        ticks: us.len(),
        cut: cut.len(),
        skipped,
        longest: records.iter().map(|r| r.skipped).max().unwrap_or(0),
        edits,
        builds,
        junk,
    }
}

/// Junk until told to stop, at most 100,000 a second; returns how many were sent.
fn flood(address: (String, u16), stop: &AtomicBool) -> u64 {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("binds");
    socket.connect((address.0.as_str(), address.1)).expect("connects");
    let (noise, start) = ([0x5A; 120], Instant::now());
    let mut sent = 0;
    while !stop.load(Relaxed) {
        for _ in 0..100 {
            let _ = socket.send(&noise);
        }
        sent += 100;
        let ahead = Duration::from_micros(sent * 10).saturating_sub(start.elapsed());
        std::thread::sleep(ahead);
    }
    sent
}

/// Edits 20 times a second for `time` and as long as the build runs.
fn loaded(d: &Daemon, c: &mut Client, round: usize, time: Duration) -> (u32, u32, u64) {
    let (stop, junk) = (Arc::new(AtomicBool::new(false)), AtomicU64::new(0));
    let built = AtomicBool::new(false);
    let udp = c.welcome().udp.clone().expect("datagrams");
    let mut edits = 0;
    std::thread::scope(|s| {
        s.spawn(|| junk.store(flood((udp.address.clone(), udp.port), &stop), Relaxed));
        s.spawn(|| {
            let mut builder = d.client("builder");
            // No two rounds share a field.
            let scale = 1.0 + 0.01 * (round + 1) as f64;
            let file = cube_file(d.dir.path(), 0.05);
            let load = json!({"name": "new", "source": "descriptor", "format": "stl", "unit": "m", "scale": scale,
                "resolution": {"longest": 256}});
            builder.call_with_file("mesh.load", load, &file).expect("loads");
            let object = json!({"name": "new", "mesh": "new", "material": "block-mat",
                "pose": {"position": [1.0, 0.0, 0.0]}});
            builder.call("object.create", object).expect("builds");
            built.store(true, Relaxed);
            builder.call("object.delete", json!({"object": "new"})).expect("deletes");
            builder.call("mesh.delete", json!({"name": "new"})).expect("deletes");
        });
        let start = Instant::now();
        while start.elapsed() < time || !built.load(Relaxed) {
            let x = 1.0 + f64::from(edits % 7);
            let edit = json!({"object": "far", "pose": {"position": [0.0, 0.0, x]}});
            c.call("object.update", edit).expect("moves");
            edits += 1;
            let due = Duration::from_millis(50) * edits;
            std::thread::sleep(due.saturating_sub(start.elapsed()));
        }
        stop.store(true, Relaxed);
    });
    (edits, u32::from(built.load(Relaxed)), junk.load(Relaxed))
}

/// The CPU that the servo is bound to.
fn servo_cpu(d: &Daemon) -> usize {
    let status = format!("/proc/{}/task/{}/status", d.child.id(), d.thread("servo"));
    let status = std::fs::read_to_string(status).expect("proc");
    let list = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")).expect("a list").trim();
    list.parse().unwrap_or_else(|_| {
        panic!("the servo is not bound to one CPU but to {list}: nothing to measure here")
    })
}

fn main() {
    let numbers: Vec<u64> = std::env::args().filter_map(|a| a.parse().ok()).collect();
    let pairs = numbers.first().copied().unwrap_or(7) as usize;
    let time = Duration::from_secs(numbers.get(1).copied().unwrap_or(3));
    let hand = tempfile::NamedTempFile::new().expect("a file");
    let script = "hand = 'firm'\n[[keyframe]]\ntime = 0.0\nposition = [0.0, 0.0, 0.0]\n";
    std::fs::write(hand.path(), script).expect("writes");
    let config = format!(
        "[device]\nhand = '{}'\n[servo]\nbudget_units = 100000\n[control]\nrequests_per_s = 1000",
        hand.path().display()
    );
    let d = Daemon::start(&config);
    d.wait_device();
    // What makes the load must not sit on the servo's CPU: that would measure itself. Only now: the daemon inherits what its
    // parent may use, and with one CPU less its servo shared the other one with the load.
    let cpu = servo_cpu(&d);
    keep_off(cpu).expect("the bench steps aside");
    let mut c = d.client("load");
    let away = json!({"pose": {"position": [0.0, -0.1, 0.0]}});
    daemon::add_cube(&mut c, d.dir.path(), "block", &away);
    let far = json!({"pose": {"position": [0.0, 0.0, 1.0]}});
    daemon::add_cube(&mut c, d.dir.path(), "far", &far);
    let tool = json!({"tool": {"mesh": {"mesh": "far-mesh", "points": POINTS}}});
    c.call("tool.set", tool).expect("a tool");
    c.call("arm", json!({})).expect("arms");
    wait_for("the arming gate", || d.status().state.filter(|s| s.state == "rendering").map(drop));
    // Faces of tool and block, 40 mm wide, overlap by 0.5 mm.
    let touching = json!({"object": "block", "pose": {"position": [0.0, -0.0395, 0.0]}});
    c.call("object.update", touching).expect("moves");
    wait_for("contact", || d.status().state.filter(|s| s.touched == 1 && s.ramp >= 1.0).map(drop));
    std::thread::sleep(Duration::from_millis(500));

    println!("servo on CPU {cpu}, the rest elsewhere; {pairs} pairs of {} s; times in us", time.as_secs());
    println!(
        "{:>7} {:>8} {:>8} {:>7} {:>7} {:>7} {:>7} {:>13} {:>6} {:>7} {:>9}",
        "", "p50", "p99", "ticks", "skipped", "in row", "cut", "work units", "edits", "builds", "junk"
    );
    let mut ratios: Vec<(f64, f64)> = Vec::new();
    let mut works = Vec::new();
    for round in 0..pairs {
        let quiet = record(&d, &mut c, |_| {
            std::thread::sleep(time);
            (0, 0, 0)
        });
        let busy = record(&d, &mut c, |c| loaded(&d, c, round, time));
        for (name, r) in [("quiet", &quiet), ("loaded", &busy)] {
            println!(
                "{name:>7} {:>8.2} {:>8.2} {:>7} {:>7} {:>7} {:>7} {:>6}..{:<5} {:>6} {:>7} {:>9}",
                r.p50,
                r.p99,
                r.ticks,
                r.skipped,
                r.longest,
                r.cut,
                r.work.0,
                r.work.1,
                r.edits,
                r.builds,
                r.junk
            );
            works.extend([r.work.0, r.work.1]);
        }
        ratios.push((busy.p50 / quiet.p50, busy.p99 / quiet.p99));
    }
    let median = |f: fn(&(f64, f64)) -> f64| {
        let mut all: Vec<f64> = ratios.iter().map(f).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    println!(
        "median ratio loaded / quiet: p50 {:.3} (should stay below 1.1), p99 {:.3} (1.2)",
        median(|r| r.0),
        median(|r| r.1)
    );
    works.dedup();
    println!(
        "work units of a tick: {}",
        if works.len() == 1 { "equal in all ticks of all runs (cut ones apart)" } else { "differ" }
    );
}
