//! A disk that is full while the daemon renders: recordings and dumps end with a word, and nothing else does.

use crate::daemon::{Daemon, refused, wait_for};
use hapticd::protocol::rpc::codes;
use nix::sys::signal::Signal;
use serde_json::json;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::time::Duration;

/// A daemon none of whose files may exceed 1 MiB.
fn cramped() -> Daemon {
    let d = Daemon::start_with("[recordings]\nflight_s = 30.0\n", |command| {
        // SAFETY: between fork and exec only an async-signal-safe system call is made.
        unsafe {
            command.pre_exec(|| {
                let small = libc::rlimit { rlim_cur: 1 << 20, rlim_max: 1 << 20 };
                libc::setrlimit(libc::RLIMIT_FSIZE, &small);
                Ok(())
            })
        };
    });
    d.wait_device();
    d
}

fn recordings(dir: &Path) -> Vec<String> {
    let list = std::fs::read_dir(dir).into_iter().flatten();
    list.filter_map(|e| Some(e.ok()?.file_name().to_string_lossy().into_owned())).collect()
}

#[test]
fn a_recording_that_the_disk_does_not_take_ends_with_an_event_and_can_be_started_again() {
    let d = cramped();
    let mut c = d.client("recorder");
    let made = c.call("record", json!({"on": true})).expect("records");
    let path = made["path"].as_str().expect("a path").to_owned();
    let failure = |c: &mut hapticd::control::client::Client| {
        wait_for("the event", || {
            let n = c.note(Duration::from_millis(100)).expect("reads")?;
            (n.params["event"] == "recording_failed")
                .then(|| n.params["text"].as_str().unwrap_or("").to_owned())
        })
    };
    let text = failure(&mut c);
    assert!(text.contains(&path) || text.contains("run-"), "names the file: {text}");
    d.wait_log("the recording has ended");
    // What was written before can be read.
    let (_, records, _) = hapticd::recording::load(Path::new(&path)).expect("loads");
    assert!(records.len() > 100, "{} records", records.len());
    // Ending what has ended says what happened; then one starts anew, at once or after that.
    match c.call("record", json!({"on": false})) {
        Err(hapticd::control::client::ClientError::Refused(e)) => {
            assert!(e.code == codes::REJECTED && e.message.contains("ended before"), "{e:?}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(refused(c.call("record", json!({"on": false}))), codes::REJECTED, "not recording");
    c.call("record", json!({"on": true})).expect("starts anew");
    failure(&mut c);
    c.call("record", json!({"on": true})).expect("starts anew without ending the failed one");
    assert_eq!(d.status().state.expect("a state").fault, "none");
}

#[test]
fn a_dump_that_the_disk_does_not_take_is_said_and_leaves_nothing_behind() {
    let d = cramped();
    let mut c = d.client("watcher");
    // Enough records that their dump is too large.
    let tick = || d.status().state.map(|s| s.tick);
    let first = wait_for("a tick", tick);
    wait_for("some seconds of records", || (tick()? > first + 3000).then_some(()));
    d.signal(Signal::SIGSTOP);
    d.signal(Signal::SIGCONT);
    let text = wait_for("the event", || {
        let n = c.note(Duration::from_millis(100)).expect("reads")?;
        (n.params["event"] == "recording_failed").then(|| n.params["text"].as_str().unwrap_or("").to_owned())
    });
    assert!(text.contains("no dump of the fault"), "{text}");
    assert_eq!(recordings(&d.dir.path().join("rec")), [""; 0]);
    assert_eq!(d.status().state.expect("a state").fault, "suspended", "the fault itself is not forgotten");
    c.call("clear_fault", json!({})).expect("clears");
}
