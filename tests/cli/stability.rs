//! `hapticd stability` against closed forms.

use super::{hapticd, png_size, text};
use serde_json::Value;

#[test]
fn the_ideal_device_s_limits_are_those_of_the_formulas() {
    let dir = tempfile::tempdir().unwrap();
    let picture = dir.path().join("width.png");
    let output = hapticd(&["stability", "ideal-6dof", "--json", "--out", picture.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let r = &all["devices"][0];
    let number = |v: &Value| v.as_f64().unwrap();
    // Undamped, of 0.1 kg and 0.1 N s/m: 200.0 N/m exactly (2 b/T); found to 1 % beside the two of the test's windows.
    let nobody = number(&r["width"][0]["nobody"]);
    assert!((nobody / 200.0 - 1.0).abs() < 0.03, "{nobody}");
    // A relaxed hand of 0.5 kg and 6 N s/m more: near 2 (b + b_hand)/T, that is 12,200.
    let normal = number(&r["width"][0]["normal"]);
    assert!((normal / 12_200.0 - 1.0).abs() < 0.1, "{normal}");
    // The wall is felt as it is asked for where nothing is bounded ...
    assert!((number(&r["observe"]["stiffness"]) / number(&r["asked"]) - 1.0).abs() < 0.02, "{r}");
    assert!(number(&r["observe"]["restitution"]) < 1.0, "damped as shipped");
    // ... and certified at most as stiff as the friction covers.
    assert!((number(&r["covered"]) - 200.0).abs() < 1e-9);
    let certified = number(&r["certified"]["stiffness"]);
    assert!(certified < 205.0 && certified > 100.0, "{certified}");
    assert!(number(&r["certified"]["restitution"]) <= 1.0);
    assert_eq!(png_size(&picture), (1000, 700));
}

#[test]
fn wrong_names_are_said() {
    for args in [
        &["stability", "nosuch"][..],
        &["stability", "spacemouse"],
        &["stability", "ideal-6dof", "--out", "a.jpg"],
        &["stability", "--out", "a.png"],
    ] {
        let output = hapticd(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stderr));
    }
}
