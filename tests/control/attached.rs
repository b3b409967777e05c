//! A real device that is not there: the daemon starts, waits for it, says so, and gives nobody the force.

use crate::daemon::{Daemon, HAPTICD, wait_for};
use serde_json::json;
use std::process::Command;

const CONFIG: &str =
    "[device]\nname = 'novint-falcon'\ndriver = 'attached'\nserial = 'of no falcon'\nprobe = ''\n";

#[test]
fn a_device_that_is_not_plugged_in_is_waited_for() {
    let d = Daemon::start(CONFIG);
    let mut client = d.client("owner");
    wait_for("the servo and its device's absence", || {
        let s = client.call("status", json!({})).expect("status");
        let told = s["warnings"].as_array()?.iter().any(|w| w == "device: the device is not plugged in");
        (told && s["state"]["state"] == "absent" && s["counters"]["ticks"].as_u64()? > 50).then_some(())
    });
    assert!(client.call("arm", json!({})).is_err(), "armed without a device");
    let refused = client.call("calibrate", json!({})).expect_err("calibrated without a device").to_string();
    assert!(refused.contains("not plugged in"), "{refused}");
    assert_eq!((d.counter("device_readings"), d.counter("device_starts")), (0, 0));
    assert_eq!(d.status().device, "novint-falcon");
    // The last zero after the daemon: nothing there, nothing to do.
    let zero =
        Command::new(HAPTICD).arg("zero").arg("--config").arg(d.dir.path().join("hapticd.toml")).output();
    let zero = zero.expect("runs");
    let text = String::from_utf8_lossy(&zero.stdout).into_owned();
    assert!(zero.status.success() && text.contains("not plugged in"), "{text}");
}

#[test]
fn keys_that_say_nothing_for_the_device_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let refused = |device: &str, why: &str| {
        let file = dir.path().join("hapticd.toml");
        let socket = dir.path().join("s.sock");
        std::fs::write(&file, format!("[control]\nsocket = {socket:?}\n[device]\n{device}\n"))
            .expect("writes");
        let out = Command::new(HAPTICD).args(["run", "--config"]).arg(&file).output().expect("runs");
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(78), "{device}: {text}");
        assert!(text.contains(why), "{device}: {text}");
    };
    refused("driver = 'attached'", "no driver for 'ideal-6dof'");
    refused("name = 'novint-falcon'\ndriver = 'attached'\nprobe = 'p'", "device.probe");
    refused("name = 'novint-falcon'\nserial = '1'", "device.driver = \"attached\"");
    refused("name = 'novint-falcon'\nfirmware = 'f'", "device.firmware");
    for name in ["woodenhaptics-v2015", "spacemouse"] {
        refused(
            &format!("name = '{name}'\ndriver = 'attached'\nprobe = ''\nfirmware = 'f'"),
            "device.firmware",
        );
    }
    let absent = dir.path().join("absent.mcap");
    refused("name = 'replay'", "device.recording");
    refused(&format!("name = 'replay'\nrecording = {absent:?}"), "absent.mcap");
    refused("recording = 'run.mcap'", "device.recording");
    for key in ["driver = 'attached'", "serial = '1'", "firmware = 'f'", "hand = 'h'", "probe = 'p'"] {
        let name = format!("device.{}", key.split(' ').next().expect("a key"));
        refused(&format!("name = 'replay'\nrecording = 'run.mcap'\n{key}"), &name);
    }
    refused("driver = 'real'", "neither");
}
