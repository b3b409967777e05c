//! The control plane of the real daemon: bad input of every kind, sessions, transactions, descriptors, datagrams.

#[path = "control/attached.rs"]
mod attached;
#[path = "control/builds.rs"]
mod builds;
#[path = "control/cache.rs"]
mod cache;
mod daemon;
#[path = "control/recordings.rs"]
mod recordings;
#[path = "control/replay.rs"]
mod replay;

use daemon::{Daemon, Raw, add_cube, code, cube_file, refused, wait_for};
use hapticd::control::client::Client;
use hapticd::protocol::datagram::{HEADER, KEY, MAC, MAX_DATAGRAM, MotionPose, Sender, mac};
use hapticd::protocol::messages::Role;
use hapticd::protocol::rpc::codes;
use nix::sys::signal::Signal;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use serde_json::json;
use std::io::{IoSlice, Write};
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

#[test]
fn wrong_requests_are_answered_and_the_connection_goes_on() {
    let d = Daemon::start("");
    let mut r = d.raw();
    assert_eq!(r.hello()["result"]["version"]["major"], 1);
    let cases: [(&str, i32); 11] = [
        ("{", codes::PARSE),
        ("\u{1}\u{2}", codes::PARSE),
        ("[]", codes::INVALID_REQUEST),
        (r#"{"id":7,"method":"ping"}"#, codes::INVALID_REQUEST),
        (r#"{"jsonrpc":"2.0","id":7,"method":"make_coffee"}"#, codes::UNKNOWN_METHOD),
        (r#"{"jsonrpc":"2.0","id":7,"method":"debug.panic2"}"#, codes::UNKNOWN_METHOD),
        (r#"{"jsonrpc":"2.0","id":7,"method":"clutch","params":{"held":"yes"}}"#, codes::INVALID_PARAMS),
        (r#"{"jsonrpc":"2.0","id":7,"method":"clutch","params":{"held":true,"x":1}}"#, codes::INVALID_PARAMS),
        (r#"{"jsonrpc":"2.0","id":7,"method":"subscribe","params":{"rate_hz":1e9}}"#, codes::INVALID_PARAMS),
        (r#"{"jsonrpc":"2.0","id":7,"method":"material.set","params":[1]}"#, codes::INVALID_PARAMS),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"hello","params":{"min":1,"max":1,"client":"x"}}"#,
            codes::INVALID_REQUEST,
        ),
    ];
    for (line, want) in cases {
        assert_eq!(code(&r.ask(line)), i64::from(want), "{line}");
    }
    // Notifications are carried out without an answer.
    r.send(r#"{"jsonrpc":"2.0","method":"ping"}"#);
    let pong = r.ask(r#"{"jsonrpc":"2.0","id":"last","method":"ping"}"#);
    assert_eq!((pong["id"].as_str(), code(&pong)), (Some("last"), 0));
    assert!(d.counter("request_errors") >= 11);
}

#[test]
fn every_method_refuses_positional_arguments_and_every_error_carries_the_generation() {
    let d = Daemon::start("[control]\nrequests_per_s = 1000\n");
    let mut r = d.raw();
    assert_eq!(r.hello()["result"]["version"]["major"], 1);
    let mut methods: Vec<&str> = hapticd::protocol::edit::Edit::OPS.to_vec();
    methods.extend([
        "hello",
        "ping",
        "status",
        "scene",
        "arm",
        "takeover",
        "disarm",
        "clear_fault",
        "calibrate",
        "limits",
        "clutch",
        "recentre",
        "subscribe",
        "state_stream",
        "motion.open",
        "motion.close",
        "cancel",
        "record",
        "transaction",
        "shutdown",
    ]);
    let told = |a: &serde_json::Value| a["error"]["data"]["generation"].as_u64();
    for method in methods {
        for params in [json!([]), json!([1]), json!(1), json!("x"), json!(false)] {
            let line = json!({"jsonrpc":"2.0","id":method,"method":method,"params":params}).to_string();
            let answer = r.ask(&line);
            assert_eq!(code(&answer), i64::from(codes::INVALID_PARAMS), "{line}: {answer}");
            assert_eq!(answer["id"], method, "{line}");
            assert!(told(&answer).is_some(), "{answer}");
        }
    }
    let long = "m".repeat(500_000);
    let mut ask = |method: &str, params: serde_json::Value| {
        r.ask(&json!({"jsonrpc":"2.0","id":1,"method":method,"params":params}).to_string())
    };
    // (method, arguments, code, field)
    let cases = [
        (long.as_str(), json!({}), codes::UNKNOWN_METHOD, None),
        ("hello", json!({"min":1,"max":1,"client":"x"}), codes::INVALID_REQUEST, None),
        ("arm", json!({"lease_s":1e308}), codes::INVALID_PARAMS, Some("lease_s")),
        ("limits", json!({"force":-1.0}), codes::INVALID_PARAMS, Some("force")),
        ("motion.open", json!({"rate_hz":"x"}), codes::INVALID_PARAMS, Some("rate_hz")),
        ("motion.close", json!({"stream":3}), codes::NOT_FOUND, Some("stream")),
        ("cancel", json!({"request":1.5}), codes::INVALID_PARAMS, Some("request")),
        ("cancel", json!({"request":99}), codes::NOT_FOUND, Some("request")),
        ("material.set", json!({"name":"x","stiffness":[1,2]}), codes::INVALID_PARAMS, Some("stiffness")),
        ("material.set", json!({"name":"x","stiffness":-1}), codes::REJECTED, Some("stiffness")),
        ("object.create", json!({"name":"x","mesh":"none","material":"no"}), codes::NOT_FOUND, Some("mesh")),
        ("mesh.delete", json!({"name":"none"}), codes::NOT_FOUND, Some("name")),
        ("material.delete", json!({"name":"none"}), codes::NOT_FOUND, Some("name")),
        ("device.place", json!({"scale":1e9}), codes::REJECTED, Some("scale")),
        ("device.place", json!({"pose":{"position":[1e300,0,0]}}), codes::REJECTED, Some("pose")),
        ("transaction", json!({"edits":[]}), codes::INVALID_PARAMS, Some("edits")),
        ("transaction", json!({"edits":[{"op":"scene.paint"}]}), codes::INVALID_PARAMS, Some("edits[0].op")),
        (
            "transaction",
            json!({"edits":[{"op":"material.set","name":"x","stiffness":null}]}),
            codes::INVALID_PARAMS,
            Some("edits[0].stiffness"),
        ),
        (
            "transaction",
            json!({"edits":[], "expect_generation":-1}),
            codes::INVALID_PARAMS,
            Some("expect_generation"),
        ),
    ];
    for (method, params, want, field) in cases {
        let answer = ask(method, params.clone());
        assert_eq!(code(&answer), i64::from(want), "{params}: {answer}");
        assert_eq!(answer["error"]["data"]["field"].as_str(), field, "{answer}");
        assert!(told(&answer).is_some(), "{answer}");
        let message = answer["error"]["message"].as_str().expect("a message");
        assert!(message.len() < 300 && !message.starts_with("edit 0 ("), "{message}");
    }
    for line in [
        "{",
        "[]",
        "7",
        r#"{"id":7,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"arm","params":{"lease_s":1e999}}"#,
    ] {
        assert!(told(&r.ask(line)).is_some(), "{line}");
    }
    // Haste, and what comes before hello.
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    (0..1500).for_each(|_| r.send(ping));
    let answers: Vec<_> = (0..1500).map(|_| r.line().expect("an answer")).collect();
    assert!(answers.iter().any(|a| code(a) == i64::from(codes::LIMIT)));
    assert!(answers.iter().all(|a| code(a) == 0 || told(a).is_some()));
    for first in [ping, "{", r#"{"jsonrpc":"2.0","id":1,"method":"hello","params":[1]}"#] {
        let answer = d.raw().ask(first);
        assert!(code(&answer) != 0 && told(&answer).is_some(), "{first}: {answer}");
    }
}

#[test]
fn motion_streams_can_be_closed_without_end() {
    let d = Daemon::start("");
    let mut c = d.client("streams");
    for round in 0..40 {
        let opened = c.call("motion.open", json!({"rate_hz": 100.0})).expect("opens");
        let stream = opened["stream"].as_u64().expect("a number");
        c.call("motion.close", json!({"stream": stream})).unwrap_or_else(|e| panic!("{round}: {e}"));
    }
}

#[test]
fn hello_comes_first_and_versions_must_meet() {
    let d = Daemon::start("");
    let first = |line: &str| {
        let mut r = d.raw();
        let answer = r.ask(line);
        assert!(r.line().is_none(), "the connection is closed after {line}");
        code(&answer)
    };
    assert_eq!(first(r#"{"jsonrpc":"2.0","id":1,"method":"arm"}"#), i64::from(codes::NO_HELLO));
    assert_eq!(first("nonsense"), i64::from(codes::PARSE));
    let hello = |min, max, client: &str| {
        json!({"jsonrpc":"2.0","id":1,"method":"hello","params":{"min":min,"max":max,"client":client}})
            .to_string()
    };
    assert_eq!(first(&hello(2, 9, "x")), i64::from(codes::VERSION));
    assert_eq!(first(&hello(0, 0, "x")), i64::from(codes::VERSION));
    assert_eq!(first(&hello(1, 1, "")), i64::from(codes::INVALID_PARAMS));
    assert_eq!(first(&hello(1, 1, &"x".repeat(65))), i64::from(codes::INVALID_PARAMS));
    d.client("still here");
}

#[test]
fn oversize_lines_and_silent_clients_are_closed() {
    let d = Daemon::start("[control]\nline_bytes = 2000\nhello_s = 0.3\n");
    let mut r = d.raw();
    r.hello();
    // The daemon may close while this is being written.
    let _ = r.stream.write_all(&[b'x'; 100_000]);
    let answer = r.line();
    assert!(answer.is_none_or(|a| code(&a) == i64::from(codes::LIMIT)));
    // One that says nothing, and one that stops in the middle of its hello.
    let mut silent = d.raw();
    let mut half = d.raw();
    half.stream.write_all(br#"{"jsonrpc":"2.0","id":1,"#).expect("writes");
    for r in [&mut silent, &mut half] {
        assert_eq!(r.line().map(|a| code(&a)), Some(i64::from(codes::NO_HELLO)));
        assert!(r.line().is_none());
    }
    d.client("still here");
    assert!(d.counter("connections_closed") >= 3);
}

#[test]
fn a_crowd_of_silent_connections_leaves_room() {
    // So long that the crowd never leaves by itself.
    let d = Daemon::start("[control]\nsessions = 4\nhello_s = 60.0\n");
    let mut crowd: Vec<_> = (0..400).map(|_| d.raw()).collect();
    let connect = |name: &str| Client::connect(Some(&d.socket()), name, None).expect("admitted at once");
    let c = connect("newcomer");
    // The oldest of the crowd were told why they had to go.
    let told = crowd[0].line().expect("an answer");
    assert_eq!(code(&told), i64::from(codes::LIMIT), "{told}");
    assert!(told["error"]["data"]["generation"].is_u64() && crowd[0].line().is_none(), "{told}");
    let more = [connect("more"), connect("more"), connect("more")];
    assert!(crowd.iter_mut().skip(395).all(|r| r.stream.write_all(b"{").is_ok()), "the newest still wait");
    drop(crowd);
    // Sessions are limited too.
    match Client::connect(Some(&d.socket()), "one too many", None) {
        Err(hapticd::control::client::ClientError::Refused(e)) => assert_eq!(e.code, codes::LIMIT),
        other => panic!("admitted: {:?}", other.map(|c| c.welcome().clone())),
    }
    drop((c, more));
}

#[test]
fn haste_is_refused_but_disarming_never_is() {
    let d = Daemon::start("[control]\nrequests_per_s = 20\n");
    let mut r = d.raw();
    r.hello();
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    for _ in 0..200 {
        r.send(ping);
    }
    r.send(r#"{"jsonrpc":"2.0","id":2,"method":"disarm"}"#);
    let answers: Vec<_> = (0..201).map(|_| r.line().expect("an answer")).collect();
    let refused = answers.iter().filter(|a| code(a) == i64::from(codes::LIMIT)).count();
    assert!(refused > 100, "{refused} of 200 were refused");
    assert_ne!(code(&answers[200]), i64::from(codes::LIMIT), "disarm");
}

#[test]
fn any_bytes_are_survived() {
    let d = Daemon::start("");
    let mut seed = 1_u64;
    let mut random = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as u8
    };
    for round in 0..50 {
        let mut r = d.raw();
        if round % 2 == 0 {
            r.hello();
        }
        let junk: Vec<u8> = (0..2000).map(|_| random()).collect();
        let _ = r.stream.write_all(&junk);
    }
    d.client("still here");
}

#[test]
fn transactions_are_all_or_nothing() {
    let d = Daemon::start("");
    let mut c = d.client("editor");
    let before = c.call("scene", json!({})).expect("a scene");
    let edits = json!([
        {"op": "material.set", "name": "a", "stiffness": 100.0},
        {"op": "material.set", "name": "b", "stiffness": 100.0},
        {"op": "object.delete", "object": "nobody"},
    ]);
    let e = match c.call("transaction", json!({"edits": edits})) {
        Err(hapticd::control::client::ClientError::Refused(e)) => e,
        other => panic!("{other:?}"),
    };
    let data = e.data.expect("data");
    assert_eq!(e.code, codes::NOT_FOUND);
    assert!(data.field.as_deref().is_some_and(|f| f.starts_with("edits[2]")), "{:?}", data.field);
    assert_eq!(data.generation, before["generation"].as_u64());
    assert_eq!(c.call("scene", json!({})).expect("a scene"), before, "nothing has changed");

    let good = json!([
        {"op": "material.set", "name": "a", "stiffness": 100.0, "damping": 2.0},
        {"op": "material.set", "name": "a", "stiffness": 200.0},
    ]);
    let g = before["generation"].as_u64().expect("a generation");
    let done = c.call("transaction", json!({"edits": good, "expect_generation": g})).expect("commits");
    assert_eq!(done["generation"], g + 1, "published once");
    let scene = c.call("scene", json!({})).expect("a scene");
    assert_eq!(scene["materials"][0]["stiffness"], 200.0);
    assert_eq!(scene["materials"][0]["damping"], 2.0, "what is not given stays");
    assert!(scene["materials"][0]["friction"].is_null(), "smooth");
    let again = c.call("transaction", json!({"edits": good, "expect_generation": g}));
    assert_eq!(refused(again), codes::CONFLICT);
    let bad = |v| json!({"edits": [{"op": "material.set", "name": "n", "stiffness": v}]});
    assert_eq!(refused(c.call("transaction", bad(-1.0))), codes::REJECTED);
    assert_eq!(refused(c.call("transaction", json!({"edits": []}))), codes::INVALID_PARAMS);
}

/// What a device does not render as stiff as it is asked is told in the answer: by the profile, and by the preset.
#[test]
fn a_material_above_the_ceiling_is_told_in_the_answer() {
    let profile = hapticd::device::registry::Registry::builtin().profile("ideal-6dof").expect("shipped");
    for (config, part) in [("", 1.0), ("[coupling]\npreset = 'soft'\n", 1.0 / 3.0)] {
        let d = Daemon::start(config);
        let mut c = d.client("editor");
        let most = profile.max_stiffness * part;
        let counted = wait_for("the servo's first tick", || {
            c.call("status", json!({})).ok()?["counters"]["stiffness_ceiling_n_m"].as_f64()
        });
        assert!((counted - most).abs() <= 0.5, "{counted} {most}");
        let set = |c: &mut Client, stiffness: f64| {
            let done =
                c.call("material.set", json!({"name": "steel", "stiffness": stiffness})).expect("commits");
            done["notes"].as_array().map_or_else(Vec::new, Clone::clone)
        };
        assert!(set(&mut c, 0.99 * most).is_empty());
        let notes = set(&mut c, 1.01 * most);
        let text = notes[0].as_str().expect("text");
        assert!(notes.len() == 1 && text.contains("'steel'"), "{notes:?}");
        assert!(text.contains(&format!("{most:.0} N/m")), "{text}");
        // Whoever gives it to an object is told as well; who sets something else is not.
        add_cube(&mut c, d.dir.path(), "cube", &json!({}));
        let done = c.call("object.update", json!({"object": "cube", "material": "steel"})).expect("commits");
        assert_eq!(done["notes"].as_array().map(Vec::len), Some(1), "{done}");
        let other = c.call("material.set", json!({"name": "felt", "stiffness": 10.0})).expect("commits");
        assert!(other["notes"].is_null(), "{other}");
    }
}

#[test]
fn edits_of_a_connection_are_carried_out_in_order() {
    let d = Daemon::start("");
    let mut c = d.client("editor");
    let ids: Vec<u64> = (0..50)
        .map(|i| {
            let params = json!({"name": "m", "stiffness": 100.0 + f64::from(i)});
            c.start("material.set", params, None).expect("sends")
        })
        .collect();
    let mut last = 0;
    for id in ids {
        let g = c.finish(id).expect("an answer")["generation"].as_u64().expect("a generation");
        assert!(g > last);
        last = g;
    }
    let scene = c.call("scene", json!({})).expect("a scene");
    assert_eq!(scene["materials"][0]["stiffness"], 149.0);
}

#[test]
fn observers_watch_and_owners_do_not_shut_down() {
    let d = Daemon::start("");
    let mut o = Client::connect(Some(&d.socket()), "observer", Some(Role::Observer)).expect("connects");
    assert_eq!(o.welcome().role, Role::Observer);
    for method in [
        "arm",
        "takeover",
        "disarm",
        "clear_fault",
        "calibrate",
        "record",
        "shutdown",
        "limits",
        "scene.clear",
    ] {
        let params = if method == "record" { json!({"on": true}) } else { json!({}) };
        assert_eq!(refused(o.call(method, params)), codes::FORBIDDEN, "{method}");
    }
    let material = json!({"name": "m", "stiffness": 1.0});
    assert_eq!(refused(o.call("material.set", material.clone())), codes::FORBIDDEN);
    assert_eq!(refused(o.call("transaction", json!({"edits": [{"op": "scene.clear"}]}))), codes::FORBIDDEN);
    o.call("status", json!({})).expect("status");
    o.call("subscribe", json!({"rate_hz": 10.0})).expect("subscribes");
    let mut w = Client::connect(Some(&d.socket()), "owner", Some(Role::Owner)).expect("connects");
    w.call("material.set", material).expect("owners edit");
    assert_eq!(refused(w.call("shutdown", json!({}))), codes::FORBIDDEN);
    assert_eq!(refused(w.call("scene.clear", json!({}))), codes::FORBIDDEN);
}

/// Sends a line with descriptors attached.
fn send_with(r: &Raw, line: &str, fds: &[RawFd]) {
    let text = format!("{line}\n");
    let rights = [ControlMessage::ScmRights(fds)];
    let io = [IoSlice::new(text.as_bytes())];
    let n = sendmsg::<()>(r.stream.as_raw_fd(), &io, &rights, MsgFlags::empty(), None).expect("sends");
    assert_eq!(n, text.len());
}

#[test]
fn meshes_come_by_descriptor_of_a_regular_file_only() {
    let d = Daemon::start("");
    let mut r = d.raw();
    r.hello();
    let load = |name: &str| {
        json!({"jsonrpc":"2.0","id":1,"method":"mesh.load","params":
            {"name": name, "source": "descriptor", "format": "stl", "unit": "m"}})
        .to_string()
    };
    let cube = cube_file(d.dir.path(), 0.04);
    let (pipe, _w) = nix::unistd::pipe().expect("a pipe");
    let dir = std::fs::File::open("/").expect("a directory");
    let zero = std::fs::File::open("/dev/zero").expect("a device");
    let write_only =
        std::fs::File::options().write(true).create(true).truncate(true).open(d.dir.path().join("w"));
    let write_only = write_only.expect("a file");
    let (sock, _other) = UnixStream::pair().expect("a pair");
    let bad = [pipe.as_raw_fd(), dir.as_raw_fd(), zero.as_raw_fd(), write_only.as_raw_fd(), sock.as_raw_fd()];
    for fd in bad {
        send_with(&r, &load("bad"), &[fd]);
        assert_eq!(code(&r.answer()), i64::from(codes::DESCRIPTOR));
    }
    assert_eq!(code(&r.ask(&load("none"))), i64::from(codes::DESCRIPTOR), "no descriptor at all");
    send_with(&r, &load("two"), &[cube.as_raw_fd(), cube.as_raw_fd()]);
    assert_eq!(code(&r.answer()), i64::from(codes::DESCRIPTOR), "two descriptors");
    // A descriptor with a request that needs none is closed and forgotten.
    send_with(&r, r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, &[cube.as_raw_fd()]);
    assert_eq!(code(&r.answer()), 0);
    assert_eq!(code(&r.ask(&load("none"))), i64::from(codes::DESCRIPTOR));
    // None of these leaked into the daemon.
    let fds = || std::fs::read_dir(format!("/proc/{}/fd", d.child.id())).expect("proc").count();
    let before = fds();
    for _ in 0..50 {
        send_with(&r, &load("bad"), &[pipe.as_raw_fd(); 20]);
        r.answer();
    }
    assert!(fds() <= before + 5, "{} descriptors, {before} before", fds());

    send_with(&r, &load("file"), &[cube.as_raw_fd()]);
    let answer = r.answer();
    assert_eq!(code(&answer), 0, "{answer}");
    let m = nix::sys::memfd::memfd_create("mesh", nix::sys::memfd::MFdFlags::empty()).expect("a memfd");
    let mut m = std::fs::File::from(m);
    m.write_all(&std::fs::read(d.dir.path().join("cube-0.04.stl")).expect("reads")).expect("writes");
    send_with(&r, &load("memfd"), &[m.as_raw_fd()]);
    let answer = r.answer();
    assert_eq!(code(&answer), 0, "{answer}");
    // The format that the request names counts, not the bytes' own idea.
    let ply = load("ply").replace("stl", "ply");
    send_with(&r, &ply, &[cube.as_raw_fd()]);
    assert_eq!(code(&r.answer()), i64::from(codes::REJECTED));
}

#[test]
fn meshes_by_path_stay_under_their_roots() {
    let roots = tempfile::tempdir().expect("a directory");
    cube_file(roots.path(), 0.04);
    let d = Daemon::start(&format!("[scene]\nmesh_roots = [{:?}]\n", roots.path()));
    let mut c = d.client("paths");
    let load = |path: String| json!({"name": "m", "source": {"path": path}, "format": "stl", "unit": "m"});
    let inside = roots.path().join("cube-0.04.stl").display().to_string();
    let outside = cube_file(d.dir.path(), 0.03);
    drop(outside);
    let outside = d.dir.path().join("cube-0.03.stl").display().to_string();
    assert_eq!(refused(c.call("mesh.load", load(outside))), codes::DESCRIPTOR);
    assert_eq!(refused(c.call("mesh.load", load("/etc/passwd".into()))), codes::DESCRIPTOR);
    let mut unit = load(inside.clone());
    unit["unit"] = json!("furlong");
    assert_eq!(refused(c.call("mesh.load", unit)), codes::INVALID_PARAMS);
    c.call("mesh.load", load(inside)).expect("an allowed path");
}

#[test]
fn broken_meshes_leave_the_scene_as_it_was() {
    let d = Daemon::start("");
    let mut c = d.client("breaker");
    let before = c.call("scene", json!({})).expect("a scene");
    let good = std::fs::read({
        cube_file(d.dir.path(), 0.04);
        d.dir.path().join("cube-0.04.stl")
    })
    .expect("reads");
    let mut lying = good.clone();
    lying[80..84].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut nan = good.clone();
    nan[96..100].copy_from_slice(&f32::NAN.to_le_bytes());
    let huge_ply = b"ply\nformat ascii 1.0\nelement vertex 99999999999999999999\nend_header\n".to_vec();
    let cases: [(&str, Vec<u8>, &str); 6] = [
        ("empty", Vec::new(), "stl"),
        ("truncated", good[..good.len() - 30].to_vec(), "stl"),
        ("lying", lying, "stl"),
        ("nan", nan, "stl"),
        ("huge", huge_ply, "ply"),
        ("text", b"hello".to_vec(), "obj"),
    ];
    for (name, bytes, format) in cases {
        let path = d.dir.path().join(name);
        std::fs::write(&path, bytes).expect("writes");
        let file = std::fs::File::open(&path).expect("opens");
        let load = json!({"name": name, "source": "descriptor", "format": format, "unit": "m"});
        let e = refused(c.call_with_file("mesh.load", load, &file));
        assert_eq!(e, codes::REJECTED, "{name}");
    }
    assert_eq!(c.call("scene", json!({})).expect("a scene"), before);
}

#[test]
fn a_token_resumes_a_session_and_what_is_not_resumed_fades() {
    let d = Daemon::start("[control]\nresume_s = 2.0\nfade_s = 0.2\n");
    let mut c = d.client("first");
    let token = c.welcome().token.clone();
    let session = c.welcome().session;
    let key = c.welcome().udp.clone().expect("datagrams").key;
    let id = add_cube(&mut c, d.dir.path(), "mine", &json!({}));
    let file = cube_file(d.dir.path(), 0.04);
    let load = json!({"name": "kept", "source": "descriptor", "format": "stl", "unit": "m", "persistent": true,
        "resolution": {"longest": 16}});
    c.call_with_file("mesh.load", load, &file).expect("loads");
    c.call("material.set", json!({"name": "k", "stiffness": 1.0, "persistent": true})).expect("a material");
    c.call("object.create", json!({"name": "kept", "mesh": "kept", "material": "k", "persistent": true}))
        .expect("an object");
    drop(c);
    let mut c = Client::resume(Some(&d.socket()), "again", None, Some(&token)).expect("resumes");
    assert!(c.welcome().resumed);
    assert_eq!(c.welcome().session, session);
    assert_ne!(c.welcome().udp.clone().expect("datagrams").key, key, "a new connection has a new key");
    let ids = |c: &mut Client| {
        let s = c.call("scene", json!({})).expect("a scene");
        let objects = s["objects"].as_array().expect("objects").clone();
        objects.iter().map(|o| o["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&mut c), ["mine", "kept"]);
    c.call("object.update", json!({"object": id, "pose": {"position": [0.0, 1.0, 0.0]}})).expect("moves");
    let wrong = Client::resume(Some(&d.socket()), "other", None, Some("not a token")).expect("connects");
    assert!(!wrong.welcome().resumed);
    drop(c);
    let mut watcher = d.client("watcher");
    wait_for("the objects to fade", || (ids(&mut watcher) == ["kept"]).then_some(()));
    let scene = watcher.call("scene", json!({})).expect("a scene");
    assert_eq!(scene["meshes"], json!(["kept"]), "its meshes and materials go too");
    let late = Client::resume(Some(&d.socket()), "late", None, Some(&token)).expect("connects");
    assert!(!late.welcome().resumed);
}

#[test]
fn one_daemon_a_socket_and_a_stale_one_is_replaced() {
    let mut d = Daemon::start("");
    let out = std::process::Command::new(daemon::HAPTICD)
        .args(["run", "--config"])
        .arg(d.dir.path().join("hapticd.toml"))
        .output()
        .expect("runs");
    let text = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1));
    assert!(text.contains("already running") && text.contains(&d.child.id().to_string()), "{text}");
    d.signal(Signal::SIGKILL);
    d.wait_exit();
    assert!(d.socket().exists(), "left over");
    d.child = Daemon::spawn(&d.dir, "", |_| ());
    wait_for("the new daemon", || Client::connect(Some(&d.socket()), "x", None).ok());
    d.signal(Signal::SIGTERM);
    assert!(d.wait_exit().success());
    assert!(!d.socket().exists(), "removed");
}

#[test]
fn ctl_says_which_socket_it_tried() {
    let dir = tempfile::tempdir().expect("a directory");
    let out = std::process::Command::new(daemon::HAPTICD)
        .args(["ctl", "status"])
        .env("XDG_RUNTIME_DIR", dir.path())
        .output()
        .expect("runs");
    let text = String::from_utf8_lossy(&out.stderr);
    let mine = dir.path().join("hapticd/control.sock").display().to_string();
    if !out.status.success() {
        assert!(text.contains("/run/hapticd/control.sock") && text.contains(&mine), "{text}");
        assert!(text.contains("hapticd run"), "what to do: {text}");
    }
    let d = Daemon::start("");
    let out = d.ctl(&["--json", "scene"]);
    assert!(out.status.success());
    let v: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert!(v["generation"].as_u64().is_some());
    let out = d.ctl(&["move", "nobody", "--at", "0,0,0"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stderr).contains("nobody"));
    // Who means a mesh learns how to say so; the field that is to blame is named once.
    let out = d.ctl(&["delete", "nobody"]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("--mesh") && said.matches("object").count() == 2, "{said}");
    assert_eq!(out.status.code(), Some(1));
}

#[test]
fn a_cache_that_cannot_be_written_is_said_and_done_without() {
    let d = Daemon::start("[cache]\ndir = \"/proc/no/such/place\"\n[recordings]\ndir = \"/proc/none\"\n");
    let warnings = d.status().warnings.join("\n");
    assert!(warnings.contains("/proc/no/such/place") && warnings.contains("/proc/none"), "{warnings}");
    let mut c = d.client("editor");
    add_cube(&mut c, d.dir.path(), "cube", &json!({}));
    let e = c.call("record", json!({"on": true})).expect_err("there is no place");
    assert!(e.to_string().contains("/proc/none cannot be written"), "the given place and why not: {e}");
    assert_eq!(refused(Err(e)), codes::REJECTED);
}

#[test]
fn metrics_are_text_on_loopback() {
    use std::io::Read;
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("binds").local_addr().expect("a port");
    let d = Daemon::start(&format!("[control]\nmetrics = \"{free}\"\n"));
    let get = |head: &str| {
        let mut s = std::net::TcpStream::connect(free).expect("connects");
        s.set_read_timeout(Some(daemon::PATIENCE)).expect("a time-out");
        s.write_all(head.as_bytes()).expect("writes");
        let mut text = String::new();
        // A server that closes with unread input resets the connection.
        let _ = s.read_to_string(&mut text);
        text
    };
    let text = get("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    let generation = d.status().generation;
    assert!(text.contains(&format!("\nhapticd_generation {generation}\n")), "{text}");
    assert!(text.contains("\nhapticd_udp_bad_mac 0\n"), "{text}");
    assert!(get("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    let post = get("POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n");
    assert!(post.starts_with("HTTP/1.1 405") && post.contains("\r\nAllow: GET, HEAD\r\n"), "{post}");
    // Who connects and asks for nothing stands in nobody's way.
    let idle: Vec<_> = (0..300).map(|_| std::net::TcpStream::connect(free).expect("connects")).collect();
    for _ in 0..20 {
        assert!(get("GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
    }
    drop(idle);
    assert_eq!(get(&format!("GET /{} HTTP/1.1\r\n", "x".repeat(20_000))), "");
}

#[test]
fn systemd_hears_ready_and_the_watchdog_is_fed() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("notify");
    let notify = std::os::unix::net::UnixDatagram::bind(&path).expect("binds");
    notify.set_read_timeout(Some(daemon::PATIENCE)).expect("a time-out");
    let mut d = Daemon::start_with("[device]\nname = \"ideal-6dof\"\n", |c| {
        c.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "400000");
    });
    let mut hear = || {
        let mut b = [0; 1000];
        let n = notify.recv(&mut b).expect("a notification");
        String::from_utf8_lossy(&b[..n]).into_owned()
    };
    assert!(hear().contains("READY=1"));
    for _ in 0..3 {
        assert!(hear().contains("WATCHDOG=1"));
    }
    d.signal(Signal::SIGTERM);
    assert!(d.wait_exit().success());
    let stopping = std::iter::repeat_with(&mut hear).take(100).any(|t| t.contains("STOPPING=1"));
    assert!(stopping);
}

#[test]
fn ready_does_not_wait_for_a_device() {
    // It cannot be opened: there is no place for its probe page.
    let d = Daemon::start("[device]\nprobe = \"/proc/none/page\"\nrole = \"left hand\"\n");
    let status = d.status();
    assert_eq!(status.device_role, "left hand", "what the device is for is shown to clients");
    let shown = String::from_utf8(d.ctl(&["status"]).stdout).expect("text");
    assert!(shown.contains("(left hand)"), "{shown}");
    let text = wait_for("the reason", || {
        let w = d.status().warnings.join("\n");
        w.contains("/proc/none/page").then_some(w)
    });
    assert!(text.contains("no device yet: ideal-6dof"), "{text}");
    assert!(status.state.is_none());
    assert_eq!(refused(d.client("x").call("arm", json!({}))), codes::SERVO);
}

/// A session's datagrams, made by hand.
struct Datagrams {
    socket: UdpSocket,
    session: u64,
    key: [u8; KEY],
    stream: u16,
    object: u32,
}

impl Datagrams {
    fn make(&self, seq: u32, time: u64, f: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let pose = MotionPose { object: self.object, position: [0.0; 3], orientation: [0.0, 0.0, 0.0, 1.0] };
        let mut out = [0; MAX_DATAGRAM];
        let sender = Sender { session: self.session, key: &self.key, stream: self.stream };
        let n = sender.motion(seq, time, &[pose], &mut out).expect("one pose");
        let mut bytes = out[..n].to_vec();
        f(&mut bytes);
        bytes
    }

    fn seal(&self, bytes: &mut [u8]) {
        let end = bytes.len() - MAC;
        let tag = mac(&self.key, &bytes[..end]);
        bytes[end..].copy_from_slice(&tag);
    }
}

#[test]
fn each_bad_datagram_is_counted_under_its_own_name() {
    let d = Daemon::start("");
    let mut c = d.client("mover");
    let object = add_cube(&mut c, d.dir.path(), "moving", &json!({"moving": true}));
    let still = add_cube(&mut c, d.dir.path(), "still", &json!({}));
    let stream = c.call("motion.open", json!({"rate_hz": 500.0})).expect("a stream")["stream"]
        .as_u64()
        .expect("a number") as u16;
    let w = c.welcome().clone();
    let udp = w.udp.expect("datagrams");
    let key: Vec<u8> =
        (0..KEY).map(|i| u8::from_str_radix(&udp.key[2 * i..2 * i + 2], 16).expect("hex")).collect();
    let socket = UdpSocket::bind("127.0.0.1:0").expect("binds");
    socket.connect((udp.address.as_str(), udp.port)).expect("connects");
    let g = Datagrams { socket, session: w.session, key: key.try_into().expect("32 bytes"), stream, object };
    let expect = |name: &str, bytes: Vec<u8>| {
        let name = format!("udp_{name}");
        let before = d.status().counters;
        g.socket.send(&bytes).expect("sends");
        let after = wait_for(&name, || {
            let c = d.status().counters;
            (c["udp_received"] > before["udp_received"]).then_some(c)
        });
        for (k, v) in &after {
            let grown = v - before.get(k).copied().unwrap_or(0);
            if k.starts_with("udp_") && k != "udp_received" && k != "udp_sent" {
                assert_eq!(grown, u64::from(*k == name), "{k} after a case of {name}");
            }
        }
    };
    let t = 1_000_000_000;
    expect("taken", g.make(1000, t, |_| ()));
    expect("bad_magic", g.make(1001, t, |b| b[0] ^= 1));
    expect("bad_version", g.make(1001, t, |b| b[4] = 9));
    expect("bad_kind", g.make(1001, t, |b| b[6] = 77));
    expect("bad_reserved", g.make(1001, t, |b| b[8] = 1));
    expect("bad_length", g.make(1001, t, |b| b.push(0)));
    expect("bad_length", g.make(1001, t, |b| b.truncate(50)));
    expect("bad_length", vec![0; 1300]);
    expect("bad_length", Vec::new());
    expect("bad_session", g.make(1001, t, |b| b[16] ^= 1));
    expect("bad_mac", g.make(1001, t, |b| *b.last_mut().expect("bytes") ^= 1));
    expect("bad_mac", g.make(1001, t, |b| b[HEADER + 8] ^= 1));
    expect(
        "bad_number",
        g.make(1001, t, |b| {
            b[HEADER + 8..HEADER + 16].copy_from_slice(&f64::NAN.to_le_bytes());
            g.seal(b);
        }),
    );
    expect(
        "bad_norm",
        g.make(1001, t, |b| {
            b[HEADER + 56..HEADER + 64].copy_from_slice(&1.1_f64.to_le_bytes());
            g.seal(b);
        }),
    );
    expect("replay", g.make(1000, t, |_| ()));
    expect("old", g.make(900, t, |_| ()));
    expect(
        "no_stream",
        g.make(1001, t, |b| {
            b[32] = 9;
            g.seal(b);
        }),
    );
    // A state datagram is the daemon's to send.
    expect("bad_length", g.make(1001, t, |b| b[6] = 2));
    // Good ones that move what may not be moved, or skip numbers, are taken and counted besides.
    let before = d.status().counters;
    g.socket
        .send(&g.make(1010, t, |b| {
            b[HEADER..HEADER + 4].copy_from_slice(&still.to_le_bytes());
            g.seal(b);
        }))
        .expect("sends");
    wait_for("a stranger", || (d.counter("udp_strangers") > before["udp_strangers"]).then_some(()));
    assert_eq!(d.counter("udp_gaps"), before["udp_gaps"] + 9);
    // Another session's key does not open this session's streams.
    let other = d.client("other");
    let session = other.welcome().session;
    expect(
        "bad_mac",
        g.make(1011, t, |b| {
            b[16..24].copy_from_slice(&session.to_le_bytes());
            g.seal(b);
        }),
    );
}

#[test]
fn shutdown_is_asked_for_and_happens() {
    for _ in 0..8 {
        let mut d = Daemon::start("");
        let mut c = d.client("admin");
        let mut other = d.client("other");
        c.call("shutdown", json!({})).expect("accepted");
        let last = other.note(daemon::PATIENCE).expect("the event comes before the end").expect("an event");
        assert_eq!(last.params["event"], "shutdown");
        assert!(d.wait_exit().success());
    }
}

#[test]
fn a_slow_subscriber_loses_telemetry_and_learns_how_much() {
    let d = Daemon::start("");
    d.wait_device();
    let mut c = d.client("slow");
    c.call("subscribe", json!({"rate_hz": 200.0})).expect("subscribes");
    // Read nothing until the socket's buffers are full and the outbox drops.
    std::thread::sleep(Duration::from_secs(4));
    let mut gaps = 0;
    let mut last = 0;
    for _ in 0..2000 {
        let Some(n) = c.note(Duration::from_secs(1)).expect("reads") else { break };
        if n.method == "telemetry" {
            gaps += n.params["gap"].as_u64().expect("a gap");
            let tick = n.params["state"]["tick"].as_u64().expect("a tick");
            assert!(tick > last, "never backwards");
            last = tick;
            if gaps > 0 {
                break;
            }
        }
    }
    assert!(gaps > 0, "800 notes of a kilobyte do not fit into a socket's buffer");
}

#[test]
fn ctl_of_a_stranger_is_told_which_group_opens_the_socket() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let d = Daemon::start("");
    let mut command = std::process::Command::new(daemon::HAPTICD);
    command.args(["ctl", "--socket"]).arg(d.socket()).arg("status");
    if nix::unistd::geteuid().is_root() {
        // Permissions do not bind root, but they do somebody else.
        command.uid(65534).gid(65534);
    } else {
        std::fs::set_permissions(d.socket(), std::fs::Permissions::from_mode(0o000)).expect("closes it");
    }
    let out = match command.output() {
        Ok(out) => out,
        Err(e) => return println!("skipped: nobody cannot run the program under test: {e}"),
    };
    let text = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1));
    assert!(text.contains("usermod -aG") && !text.contains("start one"), "{text}");
}

#[test]
fn effects_are_set_shown_and_deleted() {
    let d = Daemon::start("");
    d.wait_device();
    let mut c = d.client("editor");
    let spring = json!({"spring": {"point": [0.0, 0.1, 0.0], "stiffness": 150.0}});
    let answer =
        c.call("effect.set", json!({"name": "home", "effect": spring, "max_force": 1.0})).expect("set");
    assert!(answer["generation"].as_u64().is_some(), "{answer}");
    c.call("effect.set", json!({"name": "oil", "effect": {"viscosity": {"damping": 5.0}}})).expect("set");
    let scene = c.call("scene", json!({})).expect("a scene");
    assert_eq!(scene["effects"][0]["effect"], spring);
    assert_eq!(
        (&scene["effects"][0]["max_force"], &scene["effects"][1]["name"]),
        (&json!(1.0), &json!("oil"))
    );
    let wrong = json!({"name": "oil", "effect": {"viscosity": {"damping": -5.0}}});
    assert_eq!(refused(c.call("effect.set", wrong)), codes::REJECTED);
    let wrong = json!({"name": "oil", "effect": {"wind": {"damping": 5.0}}});
    assert_eq!(refused(c.call("effect.set", wrong)), codes::INVALID_PARAMS);
    c.call("effect.delete", json!({"name": "home"})).expect("deleted");
    assert_eq!(refused(c.call("effect.delete", json!({"name": "home"}))), codes::NOT_FOUND);
    // They go with their session.
    drop(c);
    let mut w = d.client("watcher");
    wait_for("the effects to fade", || {
        w.call("scene", json!({})).expect("a scene")["effects"].is_null().then_some(())
    });
}

/// A client that is gone cannot end what it pushes with: its effects rest until it is back, long before its session is over.
#[test]
fn the_effects_of_a_client_that_is_gone_rest() {
    let d = Daemon::start("[control]\nresume_s = 600.0\n");
    d.wait_device();
    let mut w = d.client("watcher");
    let mut c = d.client("pusher");
    let push = json!({"constant": {"force": [0.5, 0.0, 0.0]}});
    c.call("effect.set", json!({"name": "push", "effect": push, "max_force": 1.0})).expect("set");
    let mut generation =
        || w.call("scene", json!({})).expect("a scene")["generation"].as_u64().expect("a number");
    let (token, before) = (c.welcome().token.clone(), generation());
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(generation(), before, "nobody else edits this scene");
    drop(c);
    let resting = wait_for("the effect to rest", || Some(generation()).filter(|g| *g > before));
    assert_eq!(resting, before + 1);
    let _back = Client::resume(Some(&d.socket()), "pusher", None, Some(&token)).expect("resumes");
    wait_for("the effect to push again", || (generation() == before + 2).then_some(()));
}

/// The table of ranges in docs/protocol.md, probed at the daemon: outside is refused with the field's name, the ends are not.
#[test]
fn the_ranges_of_the_manual_hold() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/protocol.md"))
        .expect("the manual");
    let table = text.split("| method | argument | from | to |").nth(1).expect("the table");
    let d = Daemon::start("");
    d.wait_device();
    let mut c = d.client("prober");
    add_cube(&mut c, d.dir.path(), "cube", &json!({}));
    let file = cube_file(d.dir.path(), 0.04);
    let mut rows = 0;
    for row in table.lines().skip(2).take_while(|l| l.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [method, argument, from, to] = cells[..] else { panic!("{row}") };
        let method = method.trim_matches('`');
        let (lo, hi): (f64, f64) = (from.parse().expect("a number"), to.parse().expect("a number"));
        let fields: Vec<&str> =
            argument.split('`').skip(1).step_by(2).filter(|f| !f.starts_with("control.")).collect();
        let whole = argument.contains("cells") || argument.contains("points") || argument.contains("spheres");
        for field in fields {
            rows += 1;
            let base = match method {
                "material.set" => json!({"name": "m", "stiffness": 500.0}),
                "mesh.load" => json!({"name": "new", "source": "descriptor", "format": "stl", "unit": "m"}),
                "object.create" => json!({"name": "new", "mesh": "cube-mesh", "material": "cube-mat"}),
                "motion.open" => json!({"rate_hz": 500.0}),
                _ => json!({}),
            };
            let mut ask = |x: f64| {
                let mut value = if whole { json!(x as i64) } else { json!(x) };
                if field == "to" {
                    value = json!([x, 0.0, 0.0]);
                }
                let mut path: Vec<&str> = field.split('.').collect();
                if path.len() == 3 && path[1] != "sphere" {
                    value = json!({path[2]: value, "mesh": "cube-mesh"});
                    path.pop();
                }
                while path.len() > 1 {
                    value = json!({path.pop().expect("a name"): value});
                }
                let mut params = base.clone();
                params[path[0]] = value;
                match method {
                    "mesh.load" => c.call_with_file(method, params, &file),
                    _ => c.call(method, params),
                }
            };
            let step = |x: f64| if whole { 1.0 } else { (x.abs() * 1e-3).max(1e-9) };
            let below = if lo == 0.0 && !whole {
                -1e-6
            } else {
                lo - step(lo).min(lo.abs() / 2.0 + f64::from(u8::from(whole)))
            };
            for outside in [below, hi + step(hi)] {
                match ask(outside) {
                    Err(hapticd::control::client::ClientError::Refused(e)) => {
                        let named = e.data.as_ref().and_then(|d| d.field.clone()).unwrap_or_default();
                        assert!(
                            field.split('.').any(|part| named.contains(part)),
                            "{method} {field} = {outside}: {e:?}"
                        );
                        assert!([6, -32602].contains(&e.code), "{method} {field} = {outside}: {e:?}");
                    }
                    other => panic!("{method} {field} = {outside}: {other:?}"),
                }
            }
            // Building at the ends may be refused for its size or the device's state, never for the range; large ones are
            // left alone.
            if whole || method == "object.create" || method == "mesh.load" {
                continue;
            }
            for end in [lo, hi] {
                if let Err(hapticd::control::client::ClientError::Refused(e)) = ask(end) {
                    assert!(!e.message.contains("outside"), "{method} {field} = {end}: {e:?}");
                }
            }
        }
    }
    assert!(rows >= 22, "{rows} rows were tried");
}

/// State goes to the port from which the session's last attach came, and to nobody else.
#[test]
fn state_goes_to_the_session_s_own_port_only() {
    let d = Daemon::start("");
    d.wait_device();
    let (mut a, mut b) = (d.client("a"), d.client("b"));
    for c in [&mut a, &mut b] {
        c.call("state_stream", json!({"rate_hz": 200.0})).expect("a stream");
    }
    let (mut first, mut second) = (a.datagrams().expect("a socket"), a.datagrams().expect("a socket"));
    let silent = b.datagrams().expect("a socket");
    let hears = |s: &mut hapticd::control::client::Datagrams| {
        wait_for("a state", || {
            s.attach().expect("attaches");
            s.state(Duration::from_millis(50)).expect("hears")
        })
    };
    let one = hears(&mut first);
    // Numbers of attach datagrams go on in the session: the second socket's first ones are replays.
    for _ in 0..100 {
        second.attach().expect("attaches");
    }
    assert!(hears(&mut second).tick > one.tick);
    // What was on its way has come; from now on the first hears nothing.
    while first.state(Duration::from_millis(50)).expect("hears").is_some() {}
    assert!(second.state(Duration::from_secs(30)).expect("hears").is_some());
    assert!(first.state(Duration::from_millis(200)).expect("hears").is_none());
    assert!(silent.state(Duration::from_millis(200)).expect("hears").is_none(), "it never attached");
}

/// A profile of one's own that states more than its figures bear: the log says what it states, and who helps.
#[test]
fn a_profile_that_states_more_than_it_bears_is_told_of_in_the_log() {
    let dir = tempfile::tempdir().expect("a directory");
    let shipped = include_str!("../devices/phantom-omni.toml");
    let bold = shipped.replace("max_stiffness = { value = 700.0", "max_stiffness = { value = 70000.0");
    std::fs::write(dir.path().join("phantom-omni.toml"), bold).expect("written");
    let config = |profiles: &str| format!("[device]\nname = \"phantom-omni\"\nprofiles = \"{profiles}\"\n");
    let d = Daemon::start(&config(&dir.path().display().to_string()));
    d.wait_log("70000 N/m as stated");
    d.wait_log("`hapticd doctor` says what to do about it");
    let d = Daemon::start(&config(""));
    assert!(!d.log().contains("as stated"), "{}", d.log());
}
