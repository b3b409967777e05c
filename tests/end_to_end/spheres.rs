//! A tool of spheres that `hapticd ctl` sets while the daemon runs.

use crate::daemon::add_cube;
use crate::{AWAY, arm, at, force, start, wait_force, wait_zero};
use serde_json::json;

#[test]
fn a_tool_of_spheres_set_by_ctl_is_felt_and_left_again() {
    let d = start();
    let mut c = d.client("user");
    add_cube(&mut c, d.dir.path(), "cube", &json!({"pose": at(AWAY), "persistent": true}));
    let set = d.ctl(&["tool", "--mesh", "cube-mesh", "--spheres", "3000"]);
    assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
    let scene = c.call("scene", json!({})).expect("a scene");
    assert!(scene.to_string().contains("\"spheres\":3000"), "{scene}");
    arm(&d, &mut c);
    assert!(force(&d) < 0.01, "nothing touches: {}", force(&d));
    // Two cubes of 40 mm, one of them the tool: a millimetre deep, which the ball before would not reach.
    c.call("object.update", json!({"object": "cube", "pose": at(-0.039)})).expect("moves");
    wait_force(&d);
    c.call("object.update", json!({"object": "cube", "pose": at(AWAY)})).expect("moves");
    wait_zero(&d);
    assert_eq!(d.status().state.expect("a state").fault, "none");
}
