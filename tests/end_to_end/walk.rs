//! The command line as a user would type it: `hapticd run` with the shipped configuration, and each `ctl` command a
//! process of its own.

use crate::daemon::{Daemon, HAPTICD, wait_for};
use crate::{arm_process, force, owner, wait_force, wait_rendering, wait_zero};
use hapticd::geometry::import::{Format, ImportOptions, import};
use hapticd::geometry::shapes;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A daemon with every key of the shipped configuration, but for its directories, a hand, and patience with a busy
/// machine.
fn shipped() -> Daemon {
    let dir = tempfile::tempdir().expect("a directory");
    let hand = dir.path().join("hand.toml");
    std::fs::write(&hand, "hand = \"normal\"\n[[keyframe]]\ntime = 0.0\nposition = [0.0, 0.0, 0.0]\n")
        .expect("writes");
    let mut config: toml::Table =
        toml::from_str(hapticd::config::SHIPPED).expect("the shipped configuration");
    let path = |name: &str| dir.path().join(name).display().to_string();
    for (section, key, value) in [
        ("control", "socket", path("s.sock")),
        ("device", "probe", path("probe")),
        ("device", "hand", hand.display().to_string()),
        ("cache", "dir", path("cache")),
        ("recordings", "dir", path("rec")),
    ] {
        config[section][key] = value.into();
    }
    for key in ["late_in_a_row", "late_in_a_second"] {
        config["servo"][key] = 1000.into();
    }
    config["servo"]["max_gap_s"] = 10.0.into();
    let child = Daemon::spawn(&dir, &config.to_string(), |_| ());
    let mut d = Daemon { child, dir };
    d.wait_ready();
    d.wait_device();
    d
}

/// Runs `hapticd ctl --json`, which must succeed, and reads the answer, its last line.
fn ctl(d: &Daemon, args: &[&str]) -> Value {
    let out = d.ctl(&[&["--json"], args].concat());
    let (text, errors) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "ctl {args:?}: {text}{errors}");
    let last = text.lines().last().unwrap_or_else(|| panic!("ctl {args:?} says nothing"));
    serde_json::from_str(last).unwrap_or_else(|e| panic!("ctl {args:?}: {last}: {e}"))
}

fn generation(answer: &Value) -> u64 {
    answer["generation"].as_u64().unwrap_or_else(|| panic!("no generation in {answer}"))
}

/// An edit: its generation is newer than the last, and `ctl watch` comes to show that it is felt.
fn edit(d: &Daemon, last: &mut u64, args: &[&str]) -> Value {
    let answer = ctl(d, args);
    let g = generation(&answer);
    assert!(g > *last, "{args:?}: generation {g} after {last}");
    *last = g;
    wait_for("the generation to be felt", || {
        let seen = ctl(d, &["watch", "--rate", "50", "--seconds", "0.3"]);
        (seen["state"]["generation"].as_u64()? >= g).then_some(())
    });
    answer
}

fn triple(v: [f64; 3]) -> String {
    format!("{},{},{}", v[0], v[1], v[2])
}

/// The walk through the whole of it with a mesh file.
fn walk(file: &Path, unit: &str, scale: f64) {
    let d = shipped();
    // Where the mesh's highest vertex is, so that it can be put into the ball that the hand holds.
    let format = Format::of_file(&file.display().to_string()).expect("a format");
    let options =
        ImportOptions::in_unit(hapticd::geometry::import::Unit::parse(unit).expect("a unit").metres());
    let bytes = std::fs::read(file).expect("reads");
    let mesh = import("walk", &bytes, format, &options).expect("imports").mesh;
    let top = mesh.vertices.iter().max_by(|a, b| a.y.total_cmp(&b.y)).expect("vertices") * scale;
    let touching = triple([-top.x, -top.y + 0.002, -top.z]);
    let away = triple([-top.x, -top.y - 0.1, -top.z]);
    let (touching, away) = (touching.as_str(), away.as_str());
    let file = file.display().to_string();

    let mut g = 0;
    edit(&d, &mut g, &["material", "soft", "--stiffness", "400", "--damping", "1"]);
    let loaded = edit(
        &d,
        &mut g,
        &["load", "thing", &file, "--unit", unit, "--scale", &scale.to_string(), "--resolution", "64"],
    );
    assert!(
        loaded["notes"][0].as_str().is_some_and(|n| n.contains("triangles")),
        "the importer's report: {loaded}"
    );
    let made = edit(
        &d,
        &mut g,
        &["object", "it", "--mesh", "thing", "--material", "soft", "--at", away, "--rot", "0,0,0,1"],
    );
    assert_eq!(made["created"][0]["name"], "it");

    let mut owning = arm_process(&d);
    wait_rendering(&d);
    edit(&d, &mut g, &["move", "it", "--at", touching]);
    wait_force(&d);
    let seen = ctl(&d, &["watch", "--rate", "50", "--seconds", "0.5"]);
    assert!(seen["peak_force"].as_f64().is_some_and(|f| f > 0.0) && seen["state"]["touched"] == 1, "{seen}");
    // Stiffer and softer while touching.
    let settled = |what: &str| {
        wait_for(what, || {
            let a = force(&d);
            std::thread::sleep(std::time::Duration::from_millis(200));
            (a > 0.02 && (force(&d) - a).abs() < 0.02 * a).then_some(a)
        })
    };
    edit(&d, &mut g, &["material", "soft", "--stiffness", "100"]);
    let soft = settled("a steady force");
    edit(&d, &mut g, &["material", "soft", "--stiffness", "400"]);
    wait_for("a larger force", || (force(&d) > 1.1 * soft).then_some(()));
    edit(&d, &mut g, &["move", "it", "--at", away]);
    wait_zero(&d);
    edit(&d, &mut g, &["move", "it", "--at", touching]);
    wait_force(&d);
    edit(&d, &mut g, &["delete", "it"]);
    wait_zero(&d);
    // Another one, loaded while armed; it appears where the ball is.
    edit(
        &d,
        &mut g,
        &["load", "again", &file, "--unit", unit, "--scale", &scale.to_string(), "--resolution", "48"],
    );
    edit(&d, &mut g, &["object", "second", "--mesh", "again", "--material", "soft", "--at", touching]);
    wait_force(&d);
    let scene = ctl(&d, &["scene"]);
    assert_eq!((scene["objects"].as_array().map(Vec::len), generation(&scene)), (Some(1), g));

    kill(Pid::from_raw(owning.id() as i32), Signal::SIGINT).expect("interrupts");
    let status = wait_for("the end of ctl arm", || owning.try_wait().expect("waits"));
    assert_eq!(status.code(), Some(0));
    wait_zero(&d);
    let s = d.status();
    assert_eq!((s.state.expect("a state").fault.as_str(), s.owner), ("none", 0));
}

#[test]
fn a_mesh_of_our_own_is_loaded_touched_changed_moved_deleted_and_loaded_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("block.stl");
    // In millimetres, and half as large as wanted.
    let mesh = shapes::cuboid(hapticd::geometry::Vec3::new(20.0, 15.0, 20.0));
    std::fs::write(&file, shapes::write_stl(&mesh)).expect("writes");
    walk(&file, "mm", 2.0);
}

#[test]
fn the_bunny_is_loaded_touched_changed_moved_deleted_and_loaded_again() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/models/bunny.ply");
    if !file.is_file() {
        return println!("skipped: no {}", file.display());
    }
    walk(&file, "m", 0.5);
}

/// `ctl shell` with these lines on its standard input.
fn shell(d: &Daemon, lines: &str) -> Output {
    let mut child = Command::new(HAPTICD)
        .args(["ctl", "--json", "--socket"])
        .arg(d.socket())
        .arg("shell")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    child.stdin.take().expect("piped").write_all(lines.as_bytes()).expect("writes");
    child.wait_with_output().expect("ends")
}

#[test]
fn a_shell_keeps_one_session_whose_objects_go_with_it() {
    let d = Daemon::start("[control]\nresume_s = 0.0\nfade_s = 0.0\n");
    d.wait_device();
    let file = tempfile::Builder::new().suffix(".stl").tempfile().expect("a file");
    std::fs::write(file.path(), shapes::write_stl(&shapes::icosphere(0.02, 2))).expect("writes");
    let lines = format!(
        "# a comment, and an empty line\n\nmaterial soft --stiffness 300\nload ball '{}' --unit m --resolution 16\n\
         object a --mesh ball --material soft --at 0,-0.1,0\narm\nstatus\nscene\nmove a --at 0,-0.2,0\nquit\nnot reached\n",
        file.path().display()
    );
    let out = shell(&d, &lines);
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{text}{}", String::from_utf8_lossy(&out.stderr));
    let answers: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    assert_eq!(answers.len(), 7, "{text}");
    let edits = [&answers[0], &answers[1], &answers[2], &answers[6]].map(generation);
    assert!(edits.windows(2).all(|w| w[1] > w[0]), "{edits:?}");
    let status = &answers[4];
    let mine: Vec<_> = status["sessions"].as_array().expect("sessions").iter().collect();
    assert_eq!(mine.len(), 1, "one session for all lines: {status}");
    assert_eq!(status["owner"], mine[0]["session"], "it is armed");
    assert_eq!(answers[5]["objects"][0]["name"], "a");
    // Its end takes force and objects away.
    wait_for("the objects to go", || {
        let scene = ctl(&d, &["scene"]);
        let empty = |key: &str| scene[key].as_array().is_some_and(Vec::is_empty);
        (empty("objects") && empty("meshes") && empty("materials")).then_some(())
    });
    assert_eq!(owner(&d), 0);
}

#[test]
fn a_shell_goes_on_after_a_bad_line_and_tells_by_its_exit_code() {
    let d = Daemon::start("");
    let out = shell(&d, "material\nmove nobody --at 0,0,0\nload x 'unclosed\nmaterial m --stiffness 5\n");
    let errors = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{errors}");
    for word in ["--stiffness", "nobody", "quote"] {
        assert!(errors.contains(word), "'{word}' is not in: {errors}");
    }
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(text.lines().count() == 1 && text.contains("generation"), "{text}");
}

#[test]
fn ctl_takeover_ends_the_other_ctl_arm_which_says_why() {
    let d = crate::start();
    let spawn = |command: &str| {
        let mut child = Command::new(HAPTICD)
            .args(["ctl", "--socket"])
            .arg(d.socket())
            .args([command, "--rate", "20"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        let errors = child.stderr.take().expect("piped");
        (child, std::thread::spawn(move || std::io::read_to_string(errors).expect("reads")))
    };
    let (mut first, first_said) = spawn("arm");
    let had = wait_for("an owner", || Some(owner(&d)).filter(|o| *o != 0));
    // Arming is refused while somebody is armed.
    let refused = d.ctl(&["arm"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("takeover"), "{refused:?}");
    let (mut second, _said) = spawn("takeover");
    let has = wait_for("another owner", || Some(owner(&d)).filter(|o| *o != 0 && *o != had));
    let status = wait_for("the end of the first", || first.try_wait().expect("waits"));
    assert_eq!(status.code(), Some(1));
    let said = first_said.join().expect("reads");
    assert!(said.contains("the force was lost") && said.contains(&has.to_string()), "{said}");
    // Its parting disarm does not touch the new owner.
    assert_eq!(owner(&d), has);
    kill(Pid::from_raw(second.id() as i32), Signal::SIGTERM).expect("ends");
    assert_eq!(wait_for("the end of the second", || second.try_wait().expect("waits")).code(), Some(0));
    wait_for("nobody to own the force", || (owner(&d) == 0).then_some(()));
}

/// The commands of the README, word by word, in the order in which they stand there.
#[test]
fn the_walk_of_the_readme_is_felt() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(root.join("README.md")).expect("the README");
    let part =
        readme.split("## Touch something").nth(1).and_then(|p| p.split("\n## ").next()).expect("the walk");
    let commands: Vec<Vec<&str>> =
        part.lines().filter_map(|l| Some(l.strip_prefix("hapticd ")?.split_whitespace().collect())).collect();
    let [run, rest @ ..] = commands.as_slice() else { panic!("no commands: {part}") };
    assert_eq!(run[..2], ["run", "--config"]);
    // As shipped, but for its directories and patience with a busy machine.
    let text = std::fs::read_to_string(root.join(run[2])).expect("the configuration");
    let hand = text.lines().find_map(|l| l.strip_prefix("hand = ")).expect("a hand").trim_matches('"');
    let hand = root.join("config").join(hand);
    let d = Daemon::start(&text.replace("hands/hold.toml", &hand.display().to_string()));
    d.wait_device();
    // The demo's mesh.
    let demo = d.dir.path().join("out/demo");
    std::fs::create_dir_all(&demo).expect("a directory");
    let hole = shapes::keyed_hole(&shapes::HoleShape::default());
    std::fs::write(demo.join("hole.stl"), shapes::write_stl(&hole)).expect("writes");
    let mut owning = None;
    let mut g = 0;
    for command in rest {
        if command[..2] == ["ctl", "arm"] {
            owning = Some(arm_process(&d));
            wait_rendering(&d);
            continue;
        }
        let out = Command::new(HAPTICD)
            .args(["ctl", "--json", "--socket"])
            .arg(d.socket())
            .args(&command[1..])
            .current_dir(d.dir.path())
            .stdin(Stdio::null())
            .output()
            .expect("runs");
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(out.status.success(), "{command:?}: {text}{}", String::from_utf8_lossy(&out.stderr));
        let answer: Value = serde_json::from_str(text.lines().last().expect("an answer")).expect("JSON");
        assert!(generation(&answer) > g || command[1] == "status", "{command:?}: {answer}");
        g = generation(&answer);
        match command[1] {
            "move" => wait_force(&d),
            "delete" => wait_zero(&d),
            _ => {}
        }
    }
    let mut owning = owning.expect("the walk arms");
    kill(Pid::from_raw(owning.id() as i32), Signal::SIGINT).expect("signals");
    assert!(owning.wait().expect("waits").success());
    assert_eq!(owner(&d), 0);
}
