//! One device moves the place of another's workspace in the running daemon: where that stands is told to whoever has a camera to move.

use crate::daemon::{Daemon, HAPTICD, wait_for};
use hapticd::protocol::telemetry::{StateJson, WorkspaceJson};
use serde_json::json;
use std::process::Command;

/// Moves its tool point 5 cm to the right within a second.
const ASIDE: &str = "hand = \"normal\"\n[[keyframe]]\ntime = 0.0\nposition = [0.0, 0.0, 0.0]\n[[keyframe]]\ntime = 0.5\nposition = [0.0, \
                     0.0, 0.0]\n[[keyframe]]\ntime = 1.5\nposition = [0.05, 0.0, 0.0]\n";
const STILL: &str = "hand = \"normal\"\n[[keyframe]]\ntime = 0.0\nposition = [0.0, 0.0, 0.0]\n";

fn workspace(state: Option<StateJson>) -> Option<WorkspaceJson> {
    state?.workspace
}

#[test]
fn a_view_is_moved_and_told() {
    let dir = tempfile::tempdir().expect("dir");
    let hand = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("writes");
        path
    };
    let d = Daemon::start(&format!(
        "[[device]]\nname = \"ideal-6dof\"\nrole = \"hand\"\nhand = {:?}\n[[device]]\nname = \"spacemouse\"\nrole = \"view\"\nmoves = \
         \"hand\"\nhand = {:?}\n",
        hand("still", STILL),
        hand("aside", ASIDE)
    ));
    // A simulated mouse moves the view as its tool point moves.
    let there = |w: &WorkspaceJson, x: f64| (w.position[0] - x).abs() < 3e-3 && w.position[1].abs() < 3e-3;
    let stands = wait_for("the workspace to be moved", || {
        let w = workspace(d.device("hand").state)?;
        (there(&w, 0.05) && w.velocity[0].abs() < 1e-3).then_some(w)
    });
    assert_eq!(stands.orientation, [0.0, 0.0, 0.0, 1.0]);
    let state = d.device("hand").state.expect("a state");
    assert!((state.position[0] - 0.05).abs() < 5e-3, "the tool has gone with it: {:?}", state.position);
    assert_eq!(workspace(d.device("view").state), None, "nobody moves the mover's");
    let shown = d.ctl(&["status"]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("workspace at [0.0"), "{shown:?}");
    let mut raw = d.raw();
    raw.hello();
    raw.send(r#"{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"device":"hand","rate_hz":100}}"#);
    let note = wait_for("telemetry", || raw.line().filter(|l| l["method"] == "telemetry"));
    let told: StateJson = serde_json::from_value(note["params"]["state"].clone()).expect("a state");
    assert!(told.workspace.is_some_and(|w| there(&w, 0.05)), "{note}");
    // The scene's word counts.
    let mut c = d.client("owner");
    c.call("device.place", json!({"device": "hand", "pose": {"position": [0.2, 0.0, 0.0]}}))
        .expect("a place");
    wait_for("the workspace to be put there", || workspace(d.device("hand").state).filter(|w| there(w, 0.2)));
}

#[test]
fn what_has_motors_moves_no_view() {
    let dir = tempfile::tempdir().expect("dir");
    for name in ["novint-falcon", "ideal-6dof", "replay"] {
        let path = dir.path().join("c.toml");
        let text = format!(
            "[[device]]\nrole = \"hand\"\n[[device]]\nname = \"{name}\"\nrole = \"view\"\nmoves = \"hand\"\n"
        );
        std::fs::write(&path, text).expect("writes");
        let out = Command::new(HAPTICD).args(["run", "--config"]).arg(&path).output().expect("runs");
        let text = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(78), "{text}");
        assert!(text.contains("view") && text.contains("device."), "{text}");
        assert!(name == "replay" || text.contains("has motors"), "{text}");
    }
}
