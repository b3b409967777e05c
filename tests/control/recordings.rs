//! What the daemon's recordings say about it.

use crate::daemon::{Daemon, wait_for};
use hapticd::recording::Header;
use serde_json::json;
use std::path::Path;

/// Of a recording of some ticks by a daemon with that configuration.
fn header(config: &str) -> Header {
    let d = Daemon::start(config);
    d.wait_device();
    let mut c = d.client("recorder");
    let path = c.call("record", json!({"on": true})).expect("records")["path"].clone();
    let ticks = d.counter("ticks");
    wait_for("some ticks", || (d.counter("ticks") > ticks + 10).then_some(()));
    c.call("record", json!({"on": false})).expect("ends");
    hapticd::recording::load(Path::new(path.as_str().expect("a path"))).expect("loads").0
}

#[test]
fn a_recording_says_with_which_budget_and_scene_the_daemon_runs() {
    let measured = header("");
    assert!(measured.budget_units > 0 && measured.units_per_us > 0.0, "{measured:?}");
    assert_eq!(measured.scene, "live");
    let scene = tempfile::NamedTempFile::new().expect("a file");
    let given = header(&format!("[servo]\nbudget_units = 4321\n[scene]\nfile = {:?}\n", scene.path()));
    assert_eq!((given.budget_units, given.units_per_us), (4321, 0.0));
    assert_eq!(given.scene, scene.path().display().to_string());
}
