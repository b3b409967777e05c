//! A recording in a device's place: the daemon plays it back.

use crate::daemon::{Daemon, wait_for};
use hapticd::recording::{ClockKind, Header, Recorder, load};
use hapticd::servo::record::TickRecord;
use serde_json::json;
use std::path::Path;

/// Along x at 20 mm/s, as a daemon with a Falcon would have recorded it.
fn write(path: &Path, ticks: u64) {
    let header = Header::new("novint-falcon", "live", ClockKind::Real);
    let mut recorder = Recorder::create(path, &header).expect("creates");
    for k in 0..ticks {
        let position = [2e-5 * k as f64 - 0.02, 0.005, 0.0];
        let (orientation, planned_ns) = ([0.0, 0.0, 0.0, 1.0], 1_000_000 * (k + 5_000_000));
        let record = TickRecord { tick: k, planned_ns, position, orientation, ..TickRecord::default() };
        recorder.push(&record).expect("writes");
    }
    recorder.finish().expect("closes");
}

#[test]
fn the_daemon_plays_a_recording_back_and_may_record_that() {
    let dir = tempfile::tempdir().expect("a directory");
    let run = dir.path().join("run.mcap");
    write(&run, 2001);
    let d = Daemon::start(&format!("[device]\nname = 'replay'\nrecording = {run:?}\nprobe = ''\n"));
    d.wait_device();
    let mut client = d.client("owner");
    let again = client.call("record", json!({ "on": true })).expect("records");
    client.call("arm", json!({})).expect("armed");
    wait_for("the end of the recording", || (d.counter("ticks") > 3000).then_some(()));
    client.call("record", json!({ "on": false })).expect("stops");
    let status = d.status();
    assert_eq!(status.device, "replay");
    let state = status.state.expect("a state");
    assert_eq!(state.fault, "none", "it moved no faster than a Falcon may");
    // What was recorded is the recorded device's, and can be played back in its turn.
    let (header, records, _) = load(Path::new(again["path"].as_str().expect("a path"))).expect("reads");
    assert_eq!(header.device, "novint-falcon");
    let last = records.last().expect("records").position;
    assert!((last[0] - 0.02).abs() < 1e-12 && last[1] == 0.005, "{last:?}");
    for pair in records.windows(2) {
        assert!(pair[1].position[0] >= pair[0].position[0], "forwards only");
    }
}
