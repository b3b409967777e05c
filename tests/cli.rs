//! The program as its users see it: help, exit codes, demo, plot, recordings.

use hapticd::recording::{ClockKind, Header, Recorder, load};
use hapticd::servo::record::{ServoState, TickRecord};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output};

#[path = "cli/stability.rs"]
mod stability;

fn hapticd(args: &[&str]) -> Output {
    hapticd_with_cache(Path::new(env!("CARGO_TARGET_TMPDIR")), args)
}

/// With the user's cache directory there instead of the developer's own.
fn hapticd_with_cache(cache: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hapticd"));
    command.env_remove("CACHE_DIRECTORY").env("XDG_CACHE_HOME", cache).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn every_subcommand_has_help() {
    let top = hapticd(&["--help"]);
    assert!(top.status.success());
    let top = text(&top.stdout);
    assert!(top.contains("Exit codes:"), "{top}");
    for sub in [
        "run",
        "ctl",
        "demo",
        "simulate",
        "inspect",
        "evaluate",
        "stability",
        "plot",
        "doctor",
        "zero",
        "devices",
    ] {
        assert!(top.contains(&format!("\n  {sub} ")), "{sub} does not stand in the overview");
        let help = hapticd(&[sub, "--help"]);
        assert_eq!(help.status.code(), Some(0), "{sub} --help");
        assert!(text(&help.stdout).contains(&format!("Usage: hapticd {sub}")), "{}", text(&help.stdout));
    }
}

#[test]
fn version_and_wrong_arguments() {
    let version = hapticd(&["--version"]);
    assert_eq!(text(&version.stdout), format!("hapticd {}\n", env!("CARGO_PKG_VERSION")));
    for args in
        [&[][..], &["nonsense"], &["demo", "--seconds", "fast"], &["plot"], &["plot", "x", "--size", "1x1"]]
    {
        let output = hapticd(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(!output.stderr.is_empty(), "{args:?}");
    }
}

/// A run with contact, faults and missed ticks; NaN where records have it.
fn record(tick: u64) -> TickRecord {
    let t = tick as f64 * 1e-3;
    let depth = (3e-4 * (5.0 * t).sin()).max(0.0);
    TickRecord {
        tick,
        planned_ns: tick * 1_000_000,
        wake_ns: 30_000 + (tick % 7) as i64 * 1000,
        compute_ns: 15_000 + tick % 911 * 10,
        skipped: u32::from(tick == 700),
        state: if tick < 200 { ServoState::Armed } else { ServoState::Rendering },
        force: [f64::from_bits(0x7ff8_0000_0000_1234), depth * 3000.0, 0.1 + 0.2],
        torque: [-0.0, depth * 100.0, 5e-324],
        depth,
        distance: f64::INFINITY,
        touched: u16::from(depth > 0.0),
        ..TickRecord::default()
    }
}

fn write_recording(path: &Path, ticks: u64) {
    let header = Header::new("ideal-6dof", "made up", ClockKind::Real);
    let mut recorder = Recorder::create(path, &header).unwrap();
    (0..ticks).for_each(|tick| recorder.push(&record(tick)).unwrap());
    recorder.finish().unwrap();
}

fn bits(r: &TickRecord) -> Vec<u8> {
    let mut out = Vec::new();
    hapticd::recording::layout::encode(r, &mut out);
    out
}

#[test]
fn a_recording_comes_back_bit_for_bit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.mcap");
    write_recording(&path, 1500);
    let (_, records, notice) = load(&path).unwrap();
    assert_eq!((records.len(), notice), (1500, None));
    for (tick, back) in records.iter().enumerate() {
        let put = record(tick as u64);
        assert_eq!(bits(back), bits(&put));
        assert_eq!(back.force[0].to_bits(), 0x7ff8_0000_0000_1234);
        assert_eq!(back.torque.map(f64::to_bits), put.torque.map(f64::to_bits));
    }
}

/// Width and height of a PNG, from its first chunk.
fn png_size(path: &Path) -> (u32, u32) {
    let bytes = std::fs::read(path).unwrap();
    assert_eq!(&bytes[..8], b"\x89PNG\r\n\x1a\n");
    assert_eq!(&bytes[12..16], b"IHDR");
    assert!(bytes.len() > 20_000, "{} bytes are hardly four panels", bytes.len());
    let side = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    (side(16), side(20))
}

#[test]
fn plot_makes_a_picture_beside_the_recording() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run.mcap");
    write_recording(&run, 3000);
    let output = hapticd(&["plot", run.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("run.png (3000 ticks)"), "{}", text(&output.stdout));
    assert_eq!(png_size(&dir.path().join("run.png")), (1600, 1280));
}

#[test]
fn plot_takes_a_range_a_name_and_a_size() {
    let dir = tempfile::tempdir().unwrap();
    let (run, out) = (dir.path().join("run.mcap"), dir.path().join("part.png"));
    write_recording(&run, 3000);
    let (run, out_text) = (run.to_str().unwrap(), out.to_str().unwrap());
    let output =
        hapticd(&["plot", run, "--out", out_text, "--from", "1", "--to", "1.5", "--size", "800x600"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("(501 ticks)"), "{}", text(&output.stdout));
    assert_eq!(png_size(&out), (800, 600));
    let none = hapticd(&["plot", run, "--from", "100"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(text(&none.stderr).contains("no records after 100 s"), "{}", text(&none.stderr));
}

#[test]
fn plot_of_a_file_cut_off_says_so_and_draws_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run.mcap");
    write_recording(&run, 3000);
    let bytes = std::fs::read(&run).unwrap();
    std::fs::write(&run, &bytes[..bytes.len() / 2]).unwrap();
    let output = hapticd(&["plot", run.to_str().unwrap()]);
    assert!(output.status.success());
    assert!(text(&output.stderr).contains("ends in the middle"), "{}", text(&output.stderr));
    png_size(&dir.path().join("run.png"));
}

#[test]
fn plot_refuses_what_is_no_recording_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("no.mcap");
    std::fs::write(&path, "no recording").unwrap();
    for name in [path.to_str().unwrap(), "/nonexistent.mcap"] {
        let output = hapticd(&["plot", name]);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains(name), "{}", text(&output.stderr));
    }
}

/// Standard output that takes nothing is an error with a message and exit code 1 in every subcommand that prints. Not in
/// `zero`, whose exit code is about the force.
#[test]
fn a_full_standard_output_is_an_error_and_no_panic() {
    use clap::CommandFactory;
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    write_recording(&dir.path().join("run.mcap"), 1500);
    let demo = hapticd(&["demo", "--seconds", "0.1", "--out", &path("demo")]);
    assert!(demo.status.success());
    let scene = format!("{}/config/scenes/sphere.toml", env!("CARGO_MANIFEST_DIR"));
    let lines = [
        vec!["demo".to_owned(), "--seconds".into(), "0.1".into(), "--out".into(), path("demo")],
        vec!["simulate".into(), scene, "--seconds".into(), "0.1".into()],
        vec!["inspect".into(), path("demo/pin.stl"), "--unit".into(), "m".into()],
        vec!["inspect".into(), path("demo/pin.stl"), "--unit".into(), "m".into(), "--json".into()],
        vec!["plot".into(), path("run.mcap")],
        vec!["doctor".into(), "--seconds".into(), "0".into()],
        vec!["doctor".into(), "--seconds".into(), "0".into(), "--json".into()],
        vec!["devices".into()],
        vec!["devices".into(), "--json".into()],
        vec!["devices".into(), "ideal-6dof".into()],
        vec!["stability".into(), "ideal-6dof".into()],
        vec!["calibrate".into()],
        vec!["zero".into()],
    ];
    for line in &lines {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_hapticd"));
        command.env_remove("CACHE_DIRECTORY").env("XDG_CACHE_HOME", dir.path()).args(line);
        let out = command.stdout(full).output().unwrap();
        let said = text(&out.stderr);
        assert!(!said.contains("panicked"), "{line:?}: {said}");
        if line[0] == "zero" {
            assert_eq!(out.status.code(), Some(0), "{said}");
            continue;
        }
        assert_eq!(out.status.code(), Some(1), "{line:?}: {said}");
        assert!(said.contains("standard output") && said.contains("No space left"), "{line:?}: {said}");
        // A reader that has left, as `head` does, is no failure.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let out = command.stdout(writer).output().unwrap();
        assert_eq!((out.status.code(), text(&out.stderr).contains("output")), (Some(0), false), "{line:?}");
    }
    // `run` prints nothing there, `ctl` needs a daemon, `evaluate` needs paths: these print by the same functions.
    let elsewhere = ["run", "ctl", "evaluate", "help"];
    for sub in hapticd::cli::Cli::command().get_subcommands().map(clap::Command::get_name) {
        assert!(elsewhere.contains(&sub) || lines.iter().any(|l| l[0] == sub), "{sub} is not tried");
    }
}

/// What is no regular file is refused at once as a mesh, never waited for and never read without end.
#[test]
fn no_mesh_comes_from_a_pipe_a_device_or_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    nix::unistd::mkfifo(&at("fifo.stl"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    std::os::unix::fs::symlink("/dev/zero", at("zero.stl")).unwrap();
    std::fs::create_dir(at("dir.stl")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket.stl")).unwrap();
    for name in ["fifo.stl", "zero.stl", "dir.stl", "socket.stl"] {
        let scene =
            format!("[materials.m]\nstiffness_n_m = 500.0\n[meshes.x]\nfile = \"{name}\"\nunit = \"m\"\n");
        std::fs::write(at("scene.toml"), scene).unwrap();
        let file = at(name).to_str().unwrap().to_owned();
        let scene = at("scene.toml").to_str().unwrap().to_owned();
        for args in [&["inspect", "--unit", "m", &file][..], &["simulate", &scene, "--seconds", "0.01"]] {
            let out = hapticd(args);
            let said = text(&out.stderr);
            assert_eq!(out.status.code(), Some(1), "{args:?}: {said}");
            assert!(said.contains(name), "{args:?}: {said}");
            let socket = name == "socket.stl" && said.contains("No such device");
            assert!(socket || said.contains("not a regular file"), "{args:?}: {said}");
        }
    }
}

/// Arguments that cannot be right are code 2, before anything is read or built; what the world refuses is code 1.
#[test]
fn wrong_arguments_are_code_2_in_every_command() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let scene = format!("{}/config/scenes/sphere.toml", env!("CARGO_MANIFEST_DIR"));
    let mut lines: Vec<Vec<String>> = Vec::new();
    let mut add = |args: &[&str]| lines.push(args.iter().map(|a| (*a).to_owned()).collect());
    for bad in ["0", "-1", "nan", "inf", "1e999", "x"] {
        add(&["simulate", &scene, "--seconds", bad]);
        add(&["evaluate", "absent.jsonl", "--voxel", bad]);
        add(&["evaluate", "absent.jsonl", "--budget-us", bad]);
        add(&["evaluate", "absent.jsonl", "--budget-units", bad]);
        add(&["evaluate", "absent.jsonl", "--points", bad]);
        for end in ["--fill", "--smallest-radius-mm"] {
            add(&["evaluate", "absent.jsonl", "--method", "ist", end, bad]);
            add(&["inspect", "absent.stl", "--unit", "m", "--ist", "100", end, bad]);
        }
        add(&["inspect", "absent.stl", "--unit", "m", "--workspace-mm", bad]);
        add(&["ctl", "load", "a", "absent.stl", "--unit", "m", "--cell", bad]);
        add(&["ctl", "arm", "--rate", bad]);
    }
    for bad in ["-1", "nan", "inf"] {
        add(&["inspect", "absent.stl", "--unit", "m", "--weld-mm", bad]);
        add(&["plot", "absent.mcap", "--from", bad]);
        add(&["plot", "absent.mcap", "--to", bad]);
        add(&["ctl", "watch", "--seconds", bad]);
        add(&["ctl", "--timeout", bad, "status"]);
    }
    for bad in ["nan,0,0", "0,0,inf", "0,0", "0,0,0,0"] {
        add(&["ctl", "move", "a", "--at", bad]);
        add(&["ctl", "recentre", bad]);
    }
    add(&["ctl", "limits", "--force", "nan"]);
    add(&["plot", "absent.mcap", "--from", "5", "--to", "1"]);
    add(&["plot", "absent.mcap", "--out", "picture.jpg"]);
    add(&["simulate", &scene, "--device", "no\u{1b}[31msuch"]);
    add(&["simulate", &scene, "--device", "replay"]);
    add(&["simulate", &scene, "--replay", "run.mcap", "--hand", "hand.toml"]);
    add(&["simulate", &scene, "--replay", "run.mcap", "--device", "ideal-6dof"]);
    add(&["devices", "nosuch"]);
    add(&["doctor", "--seconds", "0", "--device", "nosuch"]);
    add(&["inspect", "name-without-format", "--unit", "m"]);
    add(&["inspect", "absent.stl", "--unit", "m", "--clusters", "morton"]);
    add(&["inspect", "absent.stl", "--unit", "m", "--vps", "--clusters", "curve"]);
    add(&["evaluate", "absent.jsonl", "--clusters", "curve"]);
    add(&["inspect", "absent.stl", "--unit", "m", "--split", "boxes"]);
    add(&["inspect", "absent.stl", "--unit", "m", "--ist", "100", "--split", "thirds"]);
    add(&["evaluate", "absent.jsonl", "--split", "thirds"]);
    add(&["evaluate", "absent.jsonl", "--fill", "1.01"]);
    add(&["evaluate", "absent.jsonl", "--fill", "0.5", "--smallest-radius-mm", "1"]);
    add(&[
        "inspect",
        "absent.stl",
        "--unit",
        "m",
        "--ist",
        "9",
        "--fill",
        "0.5",
        "--smallest-radius-mm",
        "1",
    ]);
    for line in &lines {
        let args: Vec<&str> = line.iter().map(String::as_str).collect();
        let out = hapticd(&args);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert!(!said.is_empty() && !said.contains('\u{1b}'), "{args:?}: {said}");
    }
    // A negative number is a value, whether it makes sense or not; here only the daemon is missing.
    let out = hapticd(&["ctl", "--socket", &at("none"), "limits", "--force", "-1"]);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
}

/// Nothing that a command reads is overwritten by what it writes, and no two of its files are one.
#[test]
fn outputs_are_never_inputs() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let mesh = hapticd::geometry::shapes::cuboid(hapticd::geometry::Vec3::repeat(0.04));
    std::fs::write(at("cube.stl"), hapticd::geometry::shapes::write_stl(&mesh)).unwrap();
    std::fs::write(
        at("hand.toml"),
        "hand = \"normal\"\n[[keyframe]]\ntime = 0.0\nposition = [0.0, 0.0, 0.0]\n",
    )
    .unwrap();
    std::fs::write(
        at("scene.toml"),
        "[meshes.x]\nfile = \"cube.stl\"\nunit = \"m\"\ncells = 16\n[materials.m]\nstiffness_n_m = 500.0\n",
    )
    .unwrap();
    std::fs::write(at("config.toml"), "[device]\nname = \"ideal-6dof\"\n").unwrap();
    write_recording(Path::new(&at("run.png")), 10);
    std::fs::hard_link(at("scene.toml"), at("link.mcap")).unwrap();
    let (scene, hand, config) = (at("scene.toml"), at("hand.toml"), at("config.toml"));
    let simulate = |more: &[&str]| {
        let mut args = vec!["simulate", &scene, "--hand", &hand, "--config", &config, "--seconds", "0.01"];
        args.extend(more);
        hapticd(&args)
    };
    let before = |name: &str| std::fs::read(at(name)).unwrap();
    let names = ["scene.toml", "hand.toml", "config.toml", "cube.stl", "link.mcap", "run.png"];
    let all = names.map(before);
    let mut refused: Vec<Output> = Vec::new();
    for name in &names[..5] {
        refused.push(simulate(&["--out", &at(name)]));
        refused.push(simulate(&["--json", &at(name)]));
    }
    refused.push(simulate(&["--out", &at("x"), "--json", &at("./x")]));
    refused.push(hapticd(&["plot", &at("run.png")]));
    refused.push(hapticd(&["simulate", &scene, "--replay", &at("run.png"), "--out", &at("run.png")]));
    refused.push(hapticd(&[
        "inspect",
        &at("cube.stl"),
        "--unit",
        "m",
        "--ist",
        "100",
        "--png",
        &at("cube.stl"),
    ]));
    refused.push(hapticd(&["inspect", &at("cube.stl"), "--unit", "m", "--vps", "--png", &at("cube.stl")]));
    refused.push(hapticd(&["evaluate", &scene, "--json", &scene]));
    refused.push(hapticd(&[
        "demo",
        "--seconds",
        "0.1",
        "--out",
        &at("demo"),
        "--json",
        &at("demo/demo.png"),
    ]));
    for out in refused {
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{said}");
        assert!(said.contains("would overwrite") || said.contains("same file"), "{said}");
    }
    assert_eq!(names.map(before), all, "nothing was touched");
    assert!(!Path::new(&at("x")).exists());
    let fine = simulate(&["--out", &at("run.mcap"), "--json", &at("run.json")]);
    assert_eq!(fine.status.code(), Some(0), "{}", text(&fine.stderr));
}

/// Names are other people's text: no command lets one reach the terminal as an escape sequence.
#[test]
fn names_cannot_steer_the_terminal() {
    const EVIL: &str = "x\\u001b[31m\\u202Ey\\u009b2J";
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(
        at("scene.toml"),
        format!("[materials.\"{EVIL}\"]\nstiffness_n_m = 500.0\n[objects.\"{EVIL}\"]\nx = 1\n"),
    )
    .unwrap();
    std::fs::write(at("config.toml"), format!("[\"{EVIL}\"]\nx = 1\n")).unwrap();
    std::fs::write(
        at("path.jsonl"),
        format!("{{\"name\":\"{EVIL}\",\"static\":{{\"model\":\"{EVIL}.absent.stl\"}},\"moving\":{{\"model\":\"b.stl\"}}}}\n{{\"p\":[0,0,0],\"q\":[1,0,0,0]}}\n"),
    )
    .unwrap();
    let evil = "x\u{1b}[31m\u{202e}y\u{9b}2J";
    let mesh = hapticd::geometry::shapes::cuboid(hapticd::geometry::Vec3::repeat(0.04));
    std::fs::write(at(&format!("{evil}.stl")), hapticd::geometry::shapes::write_stl(&mesh)).unwrap();
    std::fs::write(at(&format!("{evil}.obj")), "nonsense").unwrap();
    write_recording(&dir.path().join(format!("{evil}.mcap")), 10);
    for args in [
        &["simulate", &at("scene.toml"), "--seconds", "0.01"][..],
        &["run", "--config", &at("config.toml")],
        &["evaluate", &at("path.jsonl")],
        &["inspect", &at(&format!("{evil}.stl")), "--unit", "m", "--cells", "0"],
        &["inspect", &at(&format!("{evil}.stl")), "--unit", "m", "--cells", "0", "--json"],
        &["inspect", &at(&format!("{evil}.obj")), "--unit", "m"],
        &["inspect", &at("x"), "--unit", evil],
        &["plot", &at(&format!("{evil}.mcap"))],
        &["simulate", evil],
        &["devices", evil],
        &["zero", "--config", &at(evil)],
        &["ctl", "--socket", &at(evil), "status"],
        &[evil],
    ] {
        let out = hapticd(args);
        let said = text(&out.stdout) + &text(&out.stderr);
        assert!(said.contains("2J"), "{args:?} says nothing of the name: {said}");
        let bad =
            |c: char| (c.is_control() && c != '\n' && c != '\t') || ('\u{202a}'..='\u{202e}').contains(&c);
        assert!(!said.contains(bad), "{args:?}: {said:?}");
    }
}

/// A configuration that cannot be used has an exit code of its own, by which the unit does not start `run` again.
#[test]
fn a_wrong_configuration_ends_run_with_code_78() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.toml");
    let name = file.to_str().unwrap();
    for wrong in [
        "nonsense",
        "[device]\nnam = 1\n",
        "[scene]\nfile = \"absent.toml\"\n",
        "[device]\nhand = \"absent\"\n",
        "[device]\nname = \"nosuch\"\n",
        "[device]\nserial = \"xyz\"\n",
        "[control]\nsocket = \"absent/c.sock\"\n",
    ] {
        std::fs::write(&file, wrong).unwrap();
        let out = hapticd(&["run", "--config", name]);
        assert_eq!(out.status.code(), Some(78), "{wrong}: {}", text(&out.stderr));
        assert!(text(&out.stderr).starts_with("hapticd: "), "{}", text(&out.stderr));
    }
    let unit =
        std::fs::read_to_string(format!("{}/systemd/hapticd.service", env!("CARGO_MANIFEST_DIR"))).unwrap();
    assert!(unit.lines().any(|l| l == "RestartPreventExitStatus=78"));
}

/// Counts, not times: the machine may be busy and need not grant any privilege.
#[test]
fn demo_runs_and_its_summary_has_the_keys() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let json = dir.path().join("summary.json");
    let args = ["demo", "--seconds", "1", "--out", out.to_str().unwrap(), "--json", json.to_str().unwrap()];
    let output = hapticd(&args);
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    let summary: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let mut keys: Vec<&str> = summary.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    let wanted =
        ["generation", "missed", "peak_force_n", "peak_torque_nm", "rt", "tick_us", "ticks", "wake_us"];
    assert_eq!(keys, wanted);
    for times in ["wake_us", "tick_us"] {
        let q = |key: &str| summary[times][key].as_f64().unwrap_or_else(|| panic!("{times}.{key}"));
        let all = [q("p50"), q("p99"), q("p999"), q("max")];
        assert!(all.is_sorted() && all[0] >= 0.0, "{times}: {all:?}");
    }
    let count = |key: &str| summary[key].as_u64().unwrap();
    assert!(count("ticks") > 0);
    assert_eq!(count("ticks") + count("missed"), 1000, "{summary}");
    assert!(count("generation") >= 1);
    assert!(summary["peak_force_n"].as_f64().unwrap() <= 10.0);
    let lines = summary["rt"]["lines"].as_array().unwrap();
    assert!(!lines.is_empty());
    for line in lines {
        assert!(line["what"].is_string());
        if line["ok"] == false {
            assert!(line["why"].as_str().is_some_and(|w| !w.is_empty()), "{line}");
            assert!(line["cure"].as_str().is_some_and(|c| !c.is_empty()), "{line}");
        }
    }
    png_size(&out.join("demo.png"));
    for mesh in ["pin.stl", "hole.stl"] {
        let bytes = std::fs::read(out.join(mesh)).unwrap();
        let triangles = u32::from_le_bytes(bytes[80..84].try_into().unwrap()) as usize;
        assert_eq!(bytes.len(), 84 + 50 * triangles);
    }
    let (header, records, notice) = load(&out.join("demo.mcap")).unwrap();
    assert_eq!(notice, None);
    assert!(header.budget_units > 0 && header.units_per_us > 0.0);
    assert!(records.len() as u64 >= count("ticks"));
    // Each period is there once: ticked or counted as missed.
    for pair in records.windows(2) {
        let periods = (pair[1].planned_ns - pair[0].planned_ns) / 1_000_000;
        assert_eq!(periods, 1 + u64::from(pair[1].skipped));
    }
    let stdout = text(&output.stdout);
    for word in ["missed deadlines", "wake error", "peak force", "real-time set-up", "units/µs"] {
        assert!(stdout.contains(word), "'{word}' is missing in:\n{stdout}");
    }
}

/// Entries of a cache directory.
fn entries(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut all: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    all.sort();
    all
}

#[test]
fn simulate_keeps_fields_on_disk_and_a_run_from_them_is_the_same_bit_for_bit() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, run) = (dir.path().join("cache"), dir.path().join("run.mcap"));
    let shipped = |name: &str| format!("{}/config/{name}", env!("CARGO_MANIFEST_DIR"));
    let (scene, hand) = (shipped("scenes/sphere.toml"), shipped("hands/press.toml"));
    let simulate = || {
        let args = ["simulate", &scene, "--hand", &hand, "--seconds", "0.5", "--out", run.to_str().unwrap()];
        let out = hapticd_with_cache(&cache, &args);
        assert!(out.status.success(), "{}", text(&out.stderr));
        (std::fs::read(&run).unwrap(), text(&out.stdout))
    };
    let (built, said) = simulate();
    assert!(!said.contains("note:"), "{said}");
    let files = entries(&cache.join("hapticd"));
    assert!(!files.is_empty(), "nothing was kept");
    let written = |f: &Path| std::fs::metadata(f).map(|m| m.ino()).unwrap();
    let before: Vec<u64> = files.iter().map(|f| written(f)).collect();
    assert!(simulate().0 == built, "the run from the cache differs");
    assert_eq!(files.iter().map(|f| written(f)).collect::<Vec<_>>(), before, "built again");
    // A damaged file is found, said, and replaced.
    let good = std::fs::read(&files[0]).unwrap();
    let mut bad = good.clone();
    let last = bad.len() - 1;
    bad[last] ^= 0x40;
    std::fs::write(&files[0], &bad).unwrap();
    let (again, said) = simulate();
    assert!(again == built, "the run after the damage differs");
    assert!(said.contains("note:") && said.contains("damaged"), "{said}");
    assert!(std::fs::read(&files[0]).unwrap() == good);
    // A place that is none: it runs and says so.
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let args = ["simulate", &scene, "--hand", &hand, "--seconds", "0.5", "--out", run.to_str().unwrap()];
    let out = hapticd_with_cache(&file, &args);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("note: built fields are not cached"), "{}", text(&out.stdout));
    assert!(std::fs::read(&run).unwrap() == built);
}

/// The recording of a run, played back in the same scene, makes the same recording; so does that one.
#[test]
fn a_run_played_back_is_the_same_bit_for_bit() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let shipped = |name: &str| format!("{}/config/{name}", env!("CARGO_MANIFEST_DIR"));
    let simulate = |scene: &str, more: &[&str]| {
        let args: Vec<&str> = ["simulate", scene].iter().chain(more).copied().collect();
        let out = hapticd(&args);
        assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
    };
    let records = |name: &str| load(Path::new(&at(name))).unwrap().1;
    // Objects that move by themselves are where they were; the last run is that of the plane.
    for (scene, hand) in [("moving", "hover"), ("plane", "press")] {
        let (scene, hand) =
            (shipped(&format!("scenes/{scene}.toml")), shipped(&format!("hands/{hand}.toml")));
        simulate(&scene, &["--hand", &hand, "--out", &at("a.mcap")]);
        simulate(&scene, &["--replay", &at("a.mcap"), "--out", &at("b.mcap")]);
        let (first, second) = (records("a.mcap"), records("b.mcap"));
        assert!(first.iter().any(|r| r.force != [0.0; 3]), "it pushed");
        assert_eq!(first.len(), second.len());
        first.iter().zip(&second).for_each(|(a, b)| assert_eq!(a, b));
        assert!(std::fs::read(at("a.mcap")).unwrap() == std::fs::read(at("b.mcap")).unwrap());
    }
    let (scene, first) = (shipped("scenes/plane.toml"), records("a.mcap"));
    // From a configuration, and with the frame and scale of another scene: the tool goes the same way.
    let plane = std::fs::read_to_string(&scene).unwrap();
    let mapped = format!("{plane}\n[device]\nposition_m = [0.01, 0.02, -0.03]\nworkspace_scale = 2.0\n");
    std::fs::write(at("mapped.toml"), mapped).unwrap();
    std::fs::write(at("config.toml"), "[device]\nname = 'replay'\nrecording = 'b.mcap'\n").unwrap();
    simulate(&at("mapped.toml"), &["--config", &at("config.toml"), "--out", &at("c.mcap")]);
    let (header, third, _) = load(Path::new(&at("c.mcap"))).unwrap();
    assert_eq!((header.device.as_str(), third.len()), ("ideal-6dof", first.len()));
    for (a, b) in first.iter().zip(&third) {
        let off = (0..3).map(|i| (a.position[i] - b.position[i]).abs()).fold(0.0, f64::max);
        assert!(off < 1e-12, "tick {}: {off} m", a.tick);
    }
    // What cannot be played back is told by its name.
    std::fs::write(at("rubbish.mcap"), "no recording").unwrap();
    for file in [at("rubbish.mcap"), at("absent.mcap"), scene.clone()] {
        let out = hapticd(&["simulate", &scene, "--replay", &file]);
        let said = text(&out.stderr);
        assert!(out.status.code() == Some(1) && said.contains(&file), "{said}");
    }
}

/// A tool filled with spheres, from the file to the recorded forces: the press that points of the same ball give.
#[test]
fn simulate_feels_with_spheres_what_it_feels_with_points() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let hand = "hand = \"normal\"\n[[keyframe]]\ntime = 0.0\nposition = [0.0, 0.0, 0.02]\n\
                [[keyframe]]\ntime = 0.3\nposition = [0.0, 0.0, 0.006]\n";
    std::fs::write(at("hand.toml"), hand).unwrap();
    let peaks = ["method = \"ist\"\nspheres = 2000", "points = 1500"].map(|tool| {
        let scene = format!(
            "[materials.rubber]\nstiffness_n_m = 300\nreference_area_m2 = 1e-4\n\
             [meshes.floor]\nshape = \"cuboid\"\nsize_m = [0.1, 0.1, 0.04]\ncells = 40\n\
             [meshes.probe]\nshape = \"sphere\"\nradius_m = 0.008\n\
             [objects.floor]\nmesh = \"floor\"\nmaterial = \"rubber\"\nposition_m = [0.0, 0.0, -0.02]\n\
             [tool]\nmesh = \"probe\"\n{tool}\n"
        );
        std::fs::write(at("scene.toml"), scene).unwrap();
        let (scene, hand, run) = (at("scene.toml"), at("hand.toml"), at("run.mcap"));
        let out = hapticd(&["simulate", &scene, "--hand", &hand, "--seconds", "0.6", "--out", &run]);
        assert!(out.status.success(), "{}", text(&out.stderr));
        let (_, records, _) = load(Path::new(&run)).unwrap();
        assert!(records.iter().take(100).all(|r| r.force == [0.0; 3]), "nothing touches at first");
        records.iter().map(|r| r.force[2]).fold(0.0, f64::max)
    });
    assert!(peaks[0] > 0.1 && (peaks[0] / peaks[1] - 1.0).abs() < 0.05, "{peaks:?} N");
}

#[test]
fn demo_touches_with_spheres_too() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let json = dir.path().join("summary.json");
    let (out, json) = (out.to_str().unwrap(), json.to_str().unwrap());
    let done = hapticd(&["demo", "--method", "ist", "--seconds", "0.3", "--out", out, "--json", json]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let said = text(&done.stdout);
    assert!(said.contains(" spheres"), "{said}");
    let summary: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let count = |key: &str| summary[key].as_u64().unwrap();
    assert!(count("ticks") > 0 && count("ticks") + count("missed") == 300, "{summary}");
    png_size(&Path::new(out).join("demo.png"));
}

#[test]
fn demo_keeps_its_field_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let args = ["demo", "--seconds", "0.1", "--out", out.to_str().unwrap()];
    let said = [0, 1].map(|_| text(&hapticd_with_cache(dir.path(), &args).stdout));
    assert_eq!(said.map(|s| s.contains("from the disk cache")), [false, true]);
}
