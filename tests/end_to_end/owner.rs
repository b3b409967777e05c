//! The force changes hands; the daemon that says nothing; the log that nobody reads.

use crate::daemon::{Daemon, HAPTICD, add_cube, wait_for};
use crate::{AWAY, Stream, arm, at, owner, start, start_with, touch, wait_force};
use hapticd::control::client::Client;
use nix::sys::signal::Signal;
use serde_json::json;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The answer to `disarm` means that there is no force and no owner.
#[test]
fn disarm_is_answered_when_it_holds() {
    let d = start();
    let mut child = touch(&d);
    let out = d.ctl(&["disarm"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(d.plant().is_zero());
    assert_eq!(owner(&d), 0);
    let _ = child.wait();
    // On one connection and from one to the other, as fast as it goes: no arming is refused.
    let (mut a, mut b) = (d.client("a"), d.client("b"));
    for _ in 0..100 {
        for c in [&mut a, &mut b] {
            c.call("arm", json!({})).expect("arms");
            c.call("disarm", json!({})).expect("disarms");
        }
    }
    // With a ramp in between, too.
    b.call("object.update", json!({"object": "cube", "pose": at(AWAY)})).expect("moves");
    for _ in 0..5 {
        arm(&d, &mut a);
        a.call("disarm", json!({})).expect("disarms");
        arm(&d, &mut b);
        b.call("disarm", json!({})).expect("disarms");
    }
    // Who is gone has no force either: the next one waits for the ramp and is not refused.
    arm(&d, &mut a);
    drop(a);
    wait_for("the daemon to notice", || b.call("arm", json!({})).ok());
}

/// The force was the old connection's, which still stands: who takes up its session must arm for itself.
#[test]
fn a_session_that_is_resumed_beside_its_old_connection_has_no_force() {
    let d = start();
    let mut old = d.client("old");
    add_cube(&mut old, d.dir.path(), "cube", &json!({"pose": at(AWAY)}));
    arm(&d, &mut old);
    old.call("object.update", json!({"object": "cube", "pose": at(crate::TOUCHING)})).expect("moves");
    wait_force(&d);
    let token = old.welcome().token.clone();
    let new = Client::resume(Some(&d.socket()), "new", None, Some(&token)).expect("connects");
    assert!(new.welcome().resumed && new.welcome().session == old.welcome().session);
    crate::wait_zero(&d);
    assert_eq!(owner(&d), 0);
    drop((old, new));
}

/// The event goes out though nobody touches what stood still, and the owner keeps the force.
#[test]
fn a_stopped_stream_is_told_whether_touched_or_not() {
    let d = start_with("motion_timeout_s = 0.5");
    let mut c = d.client("streamer");
    let id = add_cube(&mut c, d.dir.path(), "cube", &json!({"pose": at(AWAY), "moving": true}));
    add_cube(&mut c, d.dir.path(), "floor", &json!({"pose": at(AWAY)}));
    arm(&d, &mut c);
    c.call("object.update", json!({"object": "floor", "pose": at(crate::TOUCHING)})).expect("moves");
    wait_force(&d);
    let mut stream = Stream::start(&mut c, id, |_| AWAY);
    wait_for("poses to be taken", || (d.counter("udp_taken") > 50).then_some(()));
    stream.end();
    let text = wait_for("the event", || {
        let n = c.note(Duration::from_millis(100)).expect("reads")?;
        (n.params["event"] == "motion_stopped").then(|| n.params["text"].to_string())
    });
    assert!(text.contains(&format!("object {id} ")), "{text}");
    std::thread::sleep(Duration::from_millis(100));
    let s = d.status().state.expect("a state");
    assert_eq!((s.state.as_str(), s.zero.as_str()), ("rendering", "none"));
    assert!(crate::force(&d) > 0.05);
}

#[test]
fn ctl_gives_up_on_a_daemon_that_does_not_answer() {
    let d = start();
    let mut before = d.client("before");
    before.set_patience(Some(Duration::from_millis(300)));
    d.signal(Signal::SIGSTOP);
    d.wait_stopped();
    let error = before.call("status", json!({})).expect_err("no answer").to_string();
    assert!(error.contains("has not answered for 0.3 s"), "{error}");
    let out = d.ctl(&["--timeout", "0.3", "status"]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("has not answered for 0.3 s") && said.contains("s.sock"), "{said}");
    // Until the queue of connections is full, and after.
    let quick = Some(Duration::from_millis(1));
    for _ in 0..200 {
        let e = hapticd::control::client::Client::connect_within(Some(&d.socket()), "x", None, None, quick);
        assert!(e.is_err_and(|e| e.to_string().contains("has not answered")));
    }
    d.signal(Signal::SIGCONT);
    wait_for("the daemon", || d.ctl(&["status"]).status.success().then_some(()));
}

/// A pipe that is full and that nobody reads.
fn full_pipe() -> (std::io::PipeReader, OwnedFd) {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    fcntl(writer.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).expect("non-blocking");
    while writer.write(&[b'x'; 4096]).is_ok() {}
    while writer.write(b"x").is_ok() {}
    fcntl(writer.as_fd(), FcntlArg::F_SETFL(OFlag::empty())).expect("blocking");
    (reader, writer.into())
}

#[test]
fn a_log_that_nobody_reads_keeps_nothing_from_working_or_ending() {
    let (mut reader, writer) = full_pipe();
    let mut d = Daemon::start_with("", |c| {
        c.stderr(Stdio::from(writer));
    });
    d.wait_device();
    assert!(d.ctl(&["disarm"]).status.success());
    d.signal(Signal::SIGTERM);
    assert!(d.wait_exit().success());
    let mut text = Vec::new();
    reader.read_to_end(&mut text).expect("reads");
    assert!(text.iter().all(|b| *b == b'x'), "the pipe had no room");
    // A reader who stops reading later: a daemon that cannot start ends all the same.
    let (_reader, writer) = full_pipe();
    let mut child = Command::new(HAPTICD)
        .args(["run", "--config"])
        .arg(d.dir.path().join("hapticd.toml"))
        .env("HAPTICD_LOG", "trace")
        .stderr(Stdio::from(writer))
        .spawn()
        .expect("starts");
    std::thread::sleep(Duration::from_millis(300));
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id() as i32), Signal::SIGTERM).expect("signals");
    wait_for("the end", || child.try_wait().expect("waits"));
}
