//! `hapticd inspect` as the user calls it.

use super::*;
use hapticd::geometry::shapes;
use std::path::Path;
use std::process::{Command, Output};

pub fn inspect(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hapticd")).arg("inspect").args(args).current_dir(dir).output().unwrap()
}

pub fn out(o: &Output) -> String {
    String::from_utf8(o.stdout.clone()).unwrap()
}

pub fn err(o: &Output) -> String {
    String::from_utf8(o.stderr.clone()).unwrap()
}

fn scene() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut ball = shapes::icosphere(50.0, 3);
    std::fs::write(dir.path().join("ball.stl"), shapes::write_stl(&ball)).unwrap();
    ball.triangles[7].swap(1, 2);
    ball.triangles.truncate(ball.triangles.len() - 3);
    std::fs::write(dir.path().join("torn.obj"), obj(&ball)).unwrap();
    std::fs::write(dir.path().join("cut.stl"), &shapes::write_stl(&ball)[..500]).unwrap();
    std::fs::write(dir.path().join("beetle.off"), "OFF\n0 0 0\n").unwrap();
    dir
}

#[test]
fn report_states_sizes_in_mm_workspace_and_cost() {
    let dir = scene();
    let got = inspect(dir.path(), &["ball.stl", "--unit", "mm", "--cells", "32"]);
    assert!(got.status.success(), "{}", err(&got));
    let text = out(&got);
    for part in [
        "642 vertices, 1280 triangles",
        "closed",
        "mm",
        "of 100 mm",
        "field of 32 cells",
        "41 x 41 x 41 nodes",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    let strict = inspect(dir.path(), &["ball.stl", "--unit", "mm", "--strict", "--cells", "0"]);
    assert!(strict.status.success(), "{}", err(&strict));
}

#[test]
fn json_is_one_object_with_the_same_figures() {
    let dir = scene();
    let args =
        ["ball.stl", "--unit", "in", "--scale", "-1,1,1", "--json", "--cells", "16", "--workspace-mm", "254"];
    let json: serde_json::Value = serde_json::from_slice(&inspect(dir.path(), &args).stdout).unwrap();
    let r = &json["report"];
    assert_eq!(
        (r["triangles"].as_u64(), r["mirrored"].as_bool(), r["closed"].as_bool()),
        (Some(1280), Some(true), Some(true))
    );
    // Inscribed polyhedron of a ball of 50 in: the volume is the mesh's own, from its corners in f64.
    let truth = hapticd::geometry::mass::mass_properties(&shapes::icosphere(50.0 * 0.0254, 3)).volume;
    near(r["signed_volume"].as_f64().unwrap(), truth, 1e-6);
    near(json["workspace_fraction"][2].as_f64().unwrap(), 10.0, 1e-3);
    assert_eq!(json["accepted"], true);
    assert!(json["field"]["bytes"].as_u64().unwrap() > 0);
}

#[test]
fn strict_reports_and_refuses_with_its_own_code() {
    let dir = scene();
    let lenient = inspect(dir.path(), &["torn.obj", "--unit", "mm", "--cells", "0"]);
    assert!(lenient.status.success());
    let got = inspect(dir.path(), &["torn.obj", "--unit", "mm", "--strict", "--cells", "0"]);
    assert_eq!(got.status.code(), Some(3));
    assert_eq!(out(&got), out(&lenient), "the report is shown all the same");
    assert!(
        err(&got).contains("refused (strict): 1 triangle turned") && err(&got).contains("open edges"),
        "{}",
        err(&got)
    );
}

#[test]
fn mistakes_are_explained() {
    let dir = scene();
    for (args, code, parts) in [
        (&["ball.stl", "--unit", "furlong"][..], 2, &["furlong", "um, mm, cm, m, in (inch), ft (foot)"][..]),
        (&["ball.stl"], 2, &["--unit"]),
        (&["ball.stl", "--unit", "mm", "--scale", "0"], 2, &["not zero"]),
        (&["beetle.off", "--unit", "mm"], 2, &["beetle.off", "stl, obj or ply"]),
        (&["nowhere.stl", "--unit", "mm"], 1, &["nowhere.stl", "No such file"]),
        (&[".", "--unit", "mm", "--format", "stl"], 1, &["directory"]),
        (&["cut.stl", "--unit", "mm"], 1, &["cut.stl: byte 500", "truncated"]),
        (&["ball.stl", "--unit", "mm", "--format", "ply"], 1, &["ball.stl: line 1", "ply"]),
    ] {
        let got = inspect(dir.path(), args);
        assert_eq!(got.status.code(), Some(code), "{args:?}: {}", err(&got));
        for part in parts {
            assert!(err(&got).contains(part), "{args:?}: {}", err(&got));
        }
    }
}

#[test]
fn a_shell_and_a_field_are_measured_and_drawn() {
    let dir = scene();
    let args = ["ball.stl", "--unit", "mm", "--cells", "0", "--vps", "--points", "3000", "--voxel", "0.002"];
    let got = inspect(dir.path(), &[&args[..], &["--png", "cut.png"]].concat());
    assert!(got.status.success(), "{}", err(&got));
    let text = out(&got);
    for part in
        ["shell:      3000 points", "levels:", "field:      59 x 59 x 59 nodes of 2.0000 mm", "distance:"]
    {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    let png = std::fs::read(dir.path().join("cut.png")).unwrap();
    assert!(png.starts_with(b"\x89PNG") && png.len() > 5000, "{}", png.len());
    let json = inspect(dir.path(), &[&args[..], &["--json", "--encodings"]].concat());
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let (shell, field) = (&json["vps"]["shell"], &json["vps"]["field"]);
    let number = |v: &serde_json::Value| v.as_f64().unwrap();
    // The ball's area by its triangles, 3000 points; hexagonal packing covers with no less than this.
    let spacing = number(&shell["spacing_m"]);
    assert!(
        (spacing - (4.0 * std::f64::consts::PI * 0.05f64.powi(2) / 3000.0).sqrt()).abs() < 0.01 * spacing
    );
    let least = spacing * (2.0 / (3.0 * 3.0f64.sqrt())).sqrt();
    let (bound, seen) = (number(&shell["covering_radius_m"]), number(&shell["farthest_m"]));
    assert!(least < bound && seen <= bound && seen > 0.8 * bound, "{least} {seen} {bound}");
    assert!(number(&shell["area_error"]).abs() < 1e-5);
    assert_eq!(shell["levels"].as_array().unwrap().last().unwrap()[0], 3000);
    let measured = &field["measured"];
    assert!(number(&measured["max_m"]) < number(&field["value_error_m"]));
    assert!(number(&measured["mean_m"]) < 2e-5 && number(&field["bytes_per_cell"]) < 2.2);
    let encodings = json["vps"]["encodings"].as_array().unwrap();
    let mean = |i: usize| number(&encodings[i]["measured"]["mean_m"]);
    // Layers, their nearest points, integers, the same read smoothly, floating point.
    assert!(
        encodings.len() == 5
            && mean(0) > 10.0 * mean(2)
            && mean(3) < mean(2)
            && (mean(4) - mean(2)).abs() < 1e-6
    );
    // A plate thinner than the cells is told.
    let plate = shapes::cuboid(hapticd::geometry::Vec3::new(40.0, 40.0, 1.0));
    std::fs::write(dir.path().join("plate.stl"), shapes::write_stl(&plate)).unwrap();
    let thin =
        inspect(dir.path(), &["plate.stl", "--unit", "mm", "--cells", "0", "--vps", "--voxel", "0.001"]);
    assert!(out(&thin).contains("a wall spans 1.00 cells"), "{}", out(&thin));
    // What belongs to it, alone.
    for wrong in [
        &["--points", "5"][..],
        &["--voxel", "0.1"],
        &["--png", "x.png"],
        &["--encodings"],
        &["--fill", "0.5"],
        &["--smallest-radius-mm", "1"],
        &["--vps", "--ist", "5"],
    ] {
        let got = inspect(dir.path(), &[&["ball.stl", "--unit", "mm"], wrong].concat());
        assert_eq!(got.status.code(), Some(2), "{wrong:?}: {}", out(&got));
    }
}
