//! `ctl --device`: the commands of a user with two devices.

use super::*;

#[test]
fn ctl_names_a_device() {
    let d = pair("");
    let mut c = owner(&d, "builder");
    build(&d, &mut c);
    let done = |args: &[&str]| {
        let out = d.ctl(args);
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    let limit = |role: &str| d.device(role).limits.force;
    let before = limit("left");
    done(&["--device", "right", "limits", "--force", "1.5"]);
    assert_eq!((limit("right"), limit("left")), (1.5, before), "what holds now, and of this device");
    assert!(done(&["--json", "--device", "right", "limits", "--force", "9"]).contains("\"force\":1.5"));
    assert!(
        done(&["--json", "limits", "--force", "99"]).contains(&format!("\"force\":{before:?}")),
        "the first"
    );
    assert_eq!((limit("right"), limit("left")), (1.5, before));
    done(&["tool", "--sphere", "0.004", "--device", "left"]);
    let status = done(&["status"]);
    for role in ROLES {
        assert!(status.contains(&format!("device ideal-6dof ({role})")), "{status}");
    }
    let out = d.ctl(&["--device", "middle", "disarm"]);
    assert!(!out.status.success() && String::from_utf8_lossy(&out.stderr).contains("left, right"));
    let out = d.ctl(&["--device", "left", "scene"]);
    assert_eq!(out.status.code(), Some(2), "it is about no device");
    // Armed in the foreground for a while; what befalls the other is none of its business.
    arm(&d, &mut c, "right");
    let arming = Command::new(HAPTICD)
        .args(["ctl", "--json", "--device", "left", "--socket"])
        .arg(d.socket())
        .args(["arm", "--rate", "50", "--seconds", "2"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("starts");
    wait_state(&d, "left", &["rendering"]);
    c.call("disarm", json!({"device": "right"})).expect("disarms");
    arm(&d, &mut c, "right");
    let out = arming.wait_with_output().expect("ends");
    assert!(out.status.success(), "it kept its force until it gave it back");
    let text = String::from_utf8_lossy(&out.stdout);
    let mut telemetry = text.lines().filter(|l| l.contains("peak_force"));
    assert!(telemetry.clone().count() > 10 && telemetry.all(|l| l.contains("\"device\":\"left\"")), "{text}");
    // An admin's parting word takes nobody else's.
    assert_eq!(d.device("left").owner, 0);
    assert_eq!(d.device("right").owner, c.welcome().session);
}
