//! Builds that are asked for over the socket: their progress, how they are cancelled, and what becomes of edits that
//! wait when their connection ends.

use crate::daemon::{Daemon, Raw, code, wait_for};
use hapticd::geometry::{Point, TriMesh, shapes};
use hapticd::protocol::rpc::codes;
use serde_json::{Value, json};
use std::net::Shutdown;

/// A daemon that may read meshes by path, and a ball of some thousand triangles there.
fn with_ball() -> (Daemon, tempfile::TempDir, String) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("ball.stl");
    std::fs::write(&path, shapes::write_stl(&shapes::icosphere(0.05, 5))).expect("writes");
    let config =
        format!("[scene]\nmesh_roots = [{:?}]\n[control]\nresume_s = 0.0\nfade_s = 0.0\n", dir.path());
    (Daemon::start(&config), dir, path.display().to_string())
}

fn request(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

/// Loads the ball for a field of so many cells, which nothing has built yet.
fn prepare(r: &mut Raw, path: &str, cells: u32) {
    r.hello();
    let load = json!({"name": "ball", "source": {"path": path}, "format": "stl", "unit": "m",
        "resolution": {"longest": cells}, "persistent": true});
    assert_eq!(code(&r.ask(&request(1, "mesh.load", &load))), 0);
    let material = json!({"name": "m", "stiffness": 100.0, "persistent": true});
    assert_eq!(code(&r.ask(&request(2, "material.set", &material))), 0);
}

/// The next so many answers of several requests that were sent; progress between them is passed over.
fn answers(r: &mut Raw, n: usize) -> Vec<Value> {
    (0..n).map(|_| r.answer()).collect()
}

fn create(id: u64) -> String {
    request(id, "object.create", &json!({"name": "ball", "mesh": "ball", "material": "m"}))
}

/// Sends an edit that has to build; its answer, after progress that never goes back.
fn build_with_progress(r: &mut Raw, id: u64, method: &str, params: &Value) -> Value {
    r.send(&request(id, method, params));
    let mut seen: Vec<(u64, u64)> = Vec::new();
    let answer = loop {
        let line = r.line().expect("a line");
        if line["method"] != "progress" {
            break line;
        }
        let p = &line["params"];
        assert_eq!((p["request"].as_u64(), p["stage"].as_str()), (Some(id), Some("build")), "{line}");
        seen.push((p["done"].as_u64().expect("a count"), p["total"].as_u64().expect("a count")));
    };
    assert_eq!((answer["id"].as_u64(), code(&answer)), (Some(id), 0), "{answer}");
    assert!(!seen.is_empty(), "a build of a second without a word");
    assert!(seen.iter().all(|(done, total)| done <= total) && seen.is_sorted_by_key(|p| p.0), "{seen:?}");
    answer
}

#[test]
fn a_build_tells_its_progress_and_then_its_generation() {
    let (d, _dir, path) = with_ball();
    let mut r = d.raw();
    prepare(&mut r, &path, 160);
    let ball = json!({"name": "ball", "mesh": "ball", "material": "m"});
    let answer = build_with_progress(&mut r, 77, "object.create", &ball);
    assert!(answer["result"]["generation"].as_u64().is_some());
    // The same again is there already, and nothing is told of it.
    r.send(&request(78, "object.create", &json!({"name": "b", "mesh": "ball", "material": "m"})));
    assert_eq!(r.line().expect("an answer")["id"], 78);
}

/// So does a tool's tree of spheres, which is kept like a field.
#[test]
fn a_tree_of_spheres_tells_its_progress_and_is_kept() {
    let (d, _dir, path) = with_ball();
    let mut r = d.raw();
    prepare(&mut r, &path, 40);
    let tool = json!({"tool": {"spheres": {"mesh": "ball", "spheres": 60_000}}});
    build_with_progress(&mut r, 77, "tool.set", &tool);
    let object = json!({"name": "ball", "mesh": "ball", "material": "m"});
    assert_eq!(code(&r.ask(&request(78, "object.create", &object))), 0);
    r.send(&request(79, "tool.set", &tool));
    assert_eq!(r.line().expect("an answer")["id"], 79);
}

/// Triangles at random, for which the importer takes its time.
#[test]
fn a_long_import_tells_its_progress_and_is_cancelled() {
    let (d, dir, _) = with_ball();
    let path = dir.path().join("soup.stl");
    let mut x = 1_u32;
    let mut random = || {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(x >> 8) / f64::from(1 << 24)
    };
    let vertices = (0..60_000).map(|_| Point::new(random(), random(), random())).collect();
    let triangles = (0..20_000).map(|t| [3 * t, 3 * t + 1, 3 * t + 2]).collect();
    std::fs::write(&path, shapes::write_stl(&TriMesh { vertices, triangles })).expect("writes");
    let mut r = d.raw();
    r.hello();
    let load = json!({"name": "soup", "source": {"path": path}, "format": "stl", "unit": "mm"});
    r.send(&request(5, "mesh.load", &load));
    let note = r.line().expect("a line");
    assert_eq!(
        (note["method"].as_str(), note["params"]["request"].as_u64()),
        (Some("progress"), Some(5)),
        "{note}"
    );
    assert_eq!(note["params"]["stage"], "import", "{note}");
    r.send(&request(6, "cancel", &json!({"request": 5})));
    let answers = answers(&mut r, 2);
    let answer = |id: u64| answers.iter().find(|a| a["id"] == id).expect("an answer");
    assert_eq!(code(answer(6)), 0);
    assert_eq!(code(answer(5)), i64::from(codes::CANCELLED), "{answers:?}");
    // The name is still free.
    let path = dir.path().join("ball.stl");
    let load = json!({"name": "soup", "source": {"path": path}, "format": "stl", "unit": "m"});
    assert_eq!(code(&r.ask(&request(7, "mesh.load", &load))), 0);
}

#[test]
fn a_cancelled_build_changes_nothing_and_the_next_one_goes_on() {
    let (d, _dir, path) = with_ball();
    let mut r = d.raw();
    prepare(&mut r, &path, 400);
    let scene = |r: &mut Raw| r.ask(&request(5, "scene", &json!({})))["result"].clone();
    let before = scene(&mut r);
    r.send(&create(77));
    wait_for("progress", || (r.line()?["method"] == "progress").then_some(()));
    // Others pass by while it builds.
    let mut other = d.raw();
    other.hello();
    assert_eq!(code(&other.ask(&request(6, "ping", &json!({})))), 0);
    // Nobody else can cancel it.
    assert_ne!(code(&other.ask(&request(7, "cancel", &json!({"request": 77})))), 0);
    r.send(&request(8, "cancel", &json!({"request": 77})));
    let answers = answers(&mut r, 2);
    let answer = |id: u64| answers.iter().find(|a| a["id"] == id).expect("an answer");
    assert_eq!(code(answer(8)), 0);
    assert_eq!(code(answer(77)), i64::from(codes::CANCELLED));
    assert_eq!(scene(&mut r), before, "the scene is as it was");
    // What has ended cannot be cancelled.
    assert_ne!(code(&r.ask(&request(9, "cancel", &json!({"request": 77})))), 0);
    // The next edit is taken.
    assert_eq!(code(&r.ask(&request(10, "material.set", &json!({"name": "m", "stiffness": 2.0})))), 0);
}

#[test]
fn who_shuts_down_only_the_sending_side_gets_every_edit_done_and_answered() {
    let (d, _dir, path) = with_ball();
    let mut r = d.raw();
    prepare(&mut r, &path, 100);
    r.send(&create(10));
    for k in 11..40 {
        let stiffness = f64::from(k as u32);
        r.send(&request(k, "material.set", &json!({"name": "m", "stiffness": stiffness})));
    }
    r.stream.shutdown(Shutdown::Write).expect("shuts down");
    let mut answered = Vec::new();
    let mut generation = 0;
    while let Some(line) = r.line() {
        if let Some(id) = line["id"].as_u64() {
            assert_eq!(code(&line), 0, "{line}");
            let g = line["result"]["generation"].as_u64().expect("a generation");
            assert!(g > generation);
            (generation, answered) = (g, [answered, vec![id]].concat());
        }
    }
    assert_eq!(answered, (10..40).collect::<Vec<_>>(), "in order, to the last");
    let scene = d.client("looker").call("scene", json!({})).expect("a scene");
    assert_eq!(scene["materials"][0]["stiffness"], 39.0);
}

/// Who sends nothing more cannot let go either: the force does not wait for what is still to be done and answered.
#[test]
fn who_shuts_down_the_sending_side_while_armed_has_no_force_before_the_last_answer() {
    let (d, _dir, path) = with_ball();
    d.wait_device();
    let mut r = d.raw();
    // Some seconds: a client that takes nothing for long is closed, which is another end of its force.
    prepare(&mut r, &path, 220);
    assert_eq!(code(&r.ask(&request(3, "arm", &json!({})))), 0);
    assert_ne!(d.status().owner, 0);
    let ball = json!({"name": "ball", "mesh": "ball", "material": "m", "persistent": true});
    r.send(&request(10, "object.create", &ball));
    wait_for("progress", || (r.line()?["method"] == "progress").then_some(()));
    r.stream.shutdown(Shutdown::Write).expect("shuts down");
    let mut looker = d.client("looker");
    wait_for("nobody to own the force", || {
        if d.status().owner == 0 {
            return Some(());
        }
        let scene = looker.call("scene", json!({})).expect("a scene");
        assert_eq!(
            scene["objects"].as_array().map(Vec::len),
            Some(0),
            "done, and the force still there: {scene}"
        );
        None
    });
}

#[test]
fn of_who_has_gone_the_build_ends_and_what_waits_is_dropped() {
    let (d, _dir, path) = with_ball();
    let mut r = d.raw();
    prepare(&mut r, &path, 400);
    r.send(&create(10));
    r.send(&request(11, "material.set", &json!({"name": "late", "stiffness": 1.0, "persistent": true})));
    wait_for("progress", || (r.line()?["method"] == "progress").then_some(()));
    drop(r);
    // A session is forgotten once its last edit has ended.
    let ended = |d: &Daemon| d.status().sessions.iter().all(|s| s.client != "raw").then_some(());
    wait_for("the end of the session", || ended(&d));
    let scene = d.client("looker").call("scene", json!({})).expect("a scene");
    assert_eq!(scene["objects"].as_array().map(Vec::len), Some(0), "{scene}");
    let names: Vec<_> =
        scene["materials"].as_array().into_iter().flatten().map(|m| m["name"].clone()).collect();
    assert_eq!(names, [json!("m")]);
    // The place of the build is free again.
    let mut next = d.raw();
    next.hello();
    let coarse = json!({"name": "coarse", "source": {"path": path}, "format": "stl", "unit": "m",
        "resolution": {"longest": 16}});
    assert_eq!(code(&next.ask(&request(1, "mesh.load", &coarse))), 0);
    next.send(&request(2, "object.create", &json!({"name": "b", "mesh": "coarse", "material": "m"})));
    assert_eq!(code(&next.answer()), 0);
}

/// Who waits for a place to build and goes leaves the queue at once, not when a place is free.
#[test]
fn who_goes_while_he_waits_leaves_the_queue() {
    let (d, _dir, path) = with_ball();
    // Two build for long: that is how many may.
    let mut first = d.raw();
    prepare(&mut first, &path, 400);
    let mut second = d.raw();
    second.hello();
    let busy: Vec<Raw> = [(first, 1.0), (second, 1.1)]
        .into_iter()
        .map(|(mut r, scale)| {
            let made =
                json!({"name": format!("ball of {scale}"), "mesh": "ball", "material": "m", "scale": scale});
            r.send(&request(10, "object.create", &made));
            wait_for("progress", || (r.line()?["method"] == "progress").then_some(()));
            r
        })
        .collect();
    let raws = || d.status().sessions.iter().filter(|s| s.client == "raw").count();
    let mut waits = d.raw();
    waits.hello();
    waits.send(&create(20));
    // Its turn has not come: it is asked for something that is answered beside.
    assert_eq!(code(&waits.ask(&request(21, "ping", &json!({})))), 0);
    assert_eq!(raws(), 3);
    drop(waits);
    wait_for("the end of the session", || (raws() == 2).then_some(()));
    let scene = d.client("looker").call("scene", json!({})).expect("a scene");
    assert_eq!(scene["objects"].as_array().map(Vec::len), Some(0), "the two still build: {scene}");
    drop(busy);
}
