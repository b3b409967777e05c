//! The figures against closed forms and recorded truth, files without truth, and bad files.

use hapticd::cli::clustering::Clustering;
use hapticd::cli::division::Division;
use hapticd::cli::evaluate::{Args, Method, Pair, PosePath, Role, Truth, report as run};
use hapticd::cli::law::Law;
use hapticd::contact::Contact;
use hapticd::geometry::{Vec3, shapes};
use std::f64::consts::PI;
use std::path::{Path, PathBuf};

/// The keys of the JSON object, exactly.
const KEYS: [&str; 36] = [
    "bounds_violated",
    "bounds_width_mean",
    "budget_force_err_mean",
    "budget_force_err_p99",
    "budget_torque_err_mean",
    "budget_torque_err_p99",
    "build_s",
    "complete",
    "distance_err_max",
    "distance_err_mean",
    "distance_err_p99",
    "distance_exact",
    "elements",
    "force_angle_mean_deg",
    "force_angle_p99_deg",
    "force_err_mean",
    "law",
    "max_us",
    "median_contact_us",
    "median_us",
    "memory_bytes",
    "method",
    "p99_contact_us",
    "p99_us",
    "path",
    "queries",
    "torque_angle_mean_deg",
    "torque_err_mean",
    "touch_wrong",
    "volume_err_body_max",
    "volume_err_body_mean",
    "volume_err_max",
    "volume_err_mean",
    "volume_err_p99",
    "witness_exact",
    "work_median",
];

fn args(paths: Vec<PathBuf>, models: Vec<PathBuf>) -> Args {
    Args {
        paths,
        models,
        method: Method::Vps,
        points: 3000,
        clusters: Clustering::default(),
        law: Law::default(),
        voxel: None,
        budget_us: None,
        budget_units: None,
        shell: Role::Moving,
        json: None,
        spheres: 1000,
        split: Division::default(),
        until: Default::default(),
        cold: false,
    }
}

/// A slab of 80 x 80 x 20 mm whose upper face is z = 0 in m, a ball of 10 mm radius in mm, and a path of the ball from
/// 1 mm above to 4 mm below the face.
fn ball_on_slab(dir: &Path, truth: bool) -> PathBuf {
    let mut slab = shapes::cuboid(Vec3::new(0.08, 0.08, 0.02));
    slab.vertices.iter_mut().for_each(|v| v.z -= 0.01);
    std::fs::write(dir.join("slab.stl"), shapes::write_stl(&slab)).expect("writable");
    std::fs::create_dir_all(dir.join("sub")).expect("writable");
    let ball = shapes::icosphere(10.0, 5);
    std::fs::write(dir.join("sub/ball.stl"), shapes::write_stl(&ball)).expect("writable");
    let r = 0.01;
    let mut text = String::from(
        "{\"name\":\"ball on slab\",\"static\":{\"model\":\"x:slab.stl\"},\
         \"moving\":{\"model\":\"y:sub/ball.stl\",\"scale\":0.001},\"bounding_size\":0.02}\n",
    );
    for k in 0..=50 {
        let z = 0.011 - 0.0001 * f64::from(k);
        let h = r - z;
        let mut line = format!("{{\"p\":[0.001,0.002,{z}],\"q\":[0.8,0.6,0,0]");
        if truth && h > 0.0 {
            let v = PI * h * h * (3.0 * r - h) / 3.0;
            // The overlap shrinks as the ball rises: dv/dz = -pi (2 r h - h^2). Turning a ball changes nothing.
            let area = PI * h * (2.0 * r - h);
            line += &format!(",\"d\":0,\"v\":{v},\"gp\":[0,0,{}],\"gr\":[0,0,0]", -area);
        } else if truth {
            line += &format!(",\"d\":{},\"v\":0", -h);
        }
        text += &(line + "}\n");
    }
    let file = dir.join("path.jsonl");
    std::fs::write(&file, text).expect("writable");
    file
}

/// Runs with `--json` and reads the object.
fn figures(args: &mut Args, dir: &Path) -> serde_json::Value {
    let file = dir.join("out.json");
    args.json = Some(file.clone());
    run(args).expect("runs");
    serde_json::from_str(&std::fs::read_to_string(file).expect("written")).expect("JSON")
}

/// Other balls around the same points: only time and work differ.
#[test]
fn all_clusterings_give_the_same_figures() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut args = args(vec![ball_on_slab(dir.path(), true)], vec![dir.path().into()]);
    let [a, b, c] = [Clustering::Morton, Clustering::BottomUp, Clustering::Mixed].map(|clusters| {
        args.clusters = clusters;
        figures(&mut args, dir.path())
    });
    for key in KEYS.into_iter().filter(|k| !k.ends_with("_us") && !["build_s", "work_median"].contains(k)) {
        for other in [&b, &c] {
            match (a[key].as_f64(), other[key].as_f64()) {
                (Some(x), Some(y)) => assert!((x - y).abs() <= 1e-4 * x.abs() + 1e-6, "{key}: {x} {y}"),
                _ => assert_eq!(a[key], other[key], "{key}"),
            }
        }
    }
}

/// Every law pushes a ball straight off a floor. The classic ones sum k d over points where pressure sums k/A_ref d over areas: with n points of 4 pi r^2 / n each
/// they are n A_ref / 4 pi r^2 times as large, whole layers within half of one (a cell of 0.6 mm beside 4 mm).
#[test]
fn every_law_of_the_command_line_pushes_as_much_as_its_points_say() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut args = args(vec![ball_on_slab(dir.path(), true)], vec![dir.path().into()]);
    let path = PosePath::read(&args.paths[0]).expect("parses");
    let (deepest, _) = path.poses[path.poses.len() - 1];
    let mut push = |law| {
        args.law = law;
        let force = Pair::build(&path, &args.models, &args).expect("builds").at(&deepest, 0).wrench.force;
        assert!(force.xy().norm() < 0.02 * force.z, "{law}: {force}");
        force.z
    };
    let pressure = push(Law::Pressure);
    let cap = PI * 0.004f64.powi(2) * (0.03 - 0.004) / 3.0;
    assert!((pressure / (1e7 * cap) - 1.0).abs() < 0.02, "{pressure}");
    assert!((push(Law::FieldNormals) / pressure - 1.0).abs() < 0.02);
    let more = 3000.0 * 1e-4 / (4.0 * PI * 1e-4);
    let classic = [Law::ClassicFloat, Law::ClassicScaled, Law::ClassicLayers].map(&mut push);
    for (force, off) in classic.into_iter().zip([0.03, 0.03, 0.15]) {
        assert!((force / (more * pressure) - 1.0).abs() < off, "{classic:?}, {pressure}");
    }
    assert!(classic[0] != classic[1] && classic[1] != classic[2], "{classic:?}");
}

/// However the nodes are divided the same cells lie below them: the volume is the cap's, and it lies within the bounds with a budget and without.
#[test]
fn all_divisions_hold_the_cap_within_their_bounds() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut args = args(vec![ball_on_slab(dir.path(), true)], vec![dir.path().into()]);
    (args.method, args.spheres) = (Method::Ist, 4000);
    for split in [Division::Boxes, Division::NeuralGas, Division::Median] {
        args.split = split;
        for units in [None, Some(40)] {
            args.budget_units = units;
            let out = figures(&mut args, dir.path());
            assert_eq!(out["bounds_violated"].as_f64(), Some(0.0), "{split:?} {units:?}: {out}");
        }
        let path = PosePath::read(&args.paths[0]).expect("the path parses");
        let pair = Pair::build(&path, &args.models, &args).expect("both bodies build");
        // A ball of 5 subdivisions lacks a thousandth of its volume, and of a cap of 2 mm, at 0.3 mm a side, as much.
        let deep = path.poses.iter().filter(|(_, t)| t.volume.is_some_and(|v| v > PI * 4e-6 * 0.028 / 3.0));
        let mut asked = 0;
        for (pose, truth) in deep {
            let (got, exact) = (pair.at(pose, 0).volume.expect("a volume"), truth.volume.expect("exact"));
            assert!((got / exact - 1.0).abs() < 0.01, "{split:?}: {got} of {exact}");
            asked += 1;
        }
        assert_eq!(asked, 20);
    }
}

#[test]
fn figures_of_a_ball_on_a_slab_agree_with_the_closed_forms() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut args = args(vec![ball_on_slab(dir.path(), true)], vec![dir.path().into()]);
    let out = figures(&mut args, dir.path());
    let object = out.as_object().expect("one object");
    let mut keys: Vec<&str> = object.keys().map(String::as_str).collect();
    keys.sort_unstable();
    assert_eq!(keys, KEYS);
    let number = |key: &str| out[key].as_f64().unwrap_or_else(|| panic!("{key}: {}", out[key]));
    assert_eq!((out["path"].as_str(), out["method"].as_str()), (Some("ball on slab"), Some("vps")));
    assert_eq!((number("elements"), number("queries"), number("complete")), (3000.0, 51.0, 1.0));
    // 3,000 points on the ball lie 0.65 mm apart: the lowest one is at most 0.38 mm off axis, so 7 um too high; the
    // flat face is exact in the field.
    assert!(number("distance_err_max") < 1e-3, "{}", number("distance_err_max"));
    assert!(number("touch_wrong") < 1.5 / 51.0, "{}", number("touch_wrong"));
    assert!(number("force_angle_mean_deg") < 1.0, "{}", number("force_angle_mean_deg"));
    assert_eq!(number("bounds_violated"), 0.0);
    assert!(number("bounds_width_mean") < 0.2);
    assert!(number("median_contact_us") > 0.0 && number("max_us") >= number("p99_us"));
    for absent in [
        "volume_err_mean",
        "volume_err_p99",
        "volume_err_max",
        "volume_err_body_mean",
        "torque_angle_mean_deg",
        "budget_force_err_mean",
    ] {
        assert!(out[absent].is_null(), "{absent}: {}", out[absent]);
    }
    // The law presses with depth, the volume's gradient with area: k v against a constant factor on the area. The
    // best factor s on v(h) for a(h) leaves this mean error over the peak, over the same poses.
    let touched: Vec<(f64, f64)> = (11..=50)
        .map(|k| 0.0001 * f64::from(k) - 0.001)
        .map(|h| (PI * h * h * (0.03 - h) / 3.0, PI * h * (0.02 - h)))
        .collect();
    let s = touched.iter().map(|(v, a)| v * a).sum::<f64>() / touched.iter().map(|(v, _)| v * v).sum::<f64>();
    let peak = touched.iter().map(|(_, a)| *a).fold(0.0, f64::max);
    let expected = touched.iter().map(|(v, a)| (s * v - a).abs() / peak).sum::<f64>() / touched.len() as f64;
    assert!((number("force_err_mean") - expected).abs() < 0.02, "{} {expected}", number("force_err_mean"));
}

/// Cubes above a slab are told exactly by their triangles; the file's truth is made to differ from that in three of ten poses.
#[test]
fn distances_that_are_exact_are_counted() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    ball_on_slab(dir.path(), true);
    // Sides of a power of two are exact in the file.
    let cube = shapes::cuboid(Vec3::repeat(1.0 / 64.0));
    std::fs::write(dir.path().join("cube.stl"), shapes::write_stl(&cube)).expect("writable");
    let size = 0.027;
    let mut text = format!(
        "{{\"static\":{{\"model\":\"slab.stl\"}},\"moving\":{{\"model\":\"cube.stl\"}},\"bounding_size\":{size}}}\n"
    );
    // Off by this much of the size; half of a millionth is as good as exact.
    let off = [0.0, 5e-7, 2e-6, 0.0, -5e-7, -2e-6, 0.0, 1e-3, 0.0, 0.0];
    for (k, off) in off.into_iter().enumerate() {
        let gap = 1e-4 * (k + 1) as f64;
        let z = 1.0 / 128.0 + gap;
        let d = gap + off * size;
        text += &format!("{{\"p\":[0.001,0.002,{z}],\"q\":[1,0,0,0],\"d\":{d},\"v\":0}}\n");
    }
    // Poses that touch do not count.
    text += "{\"p\":[0,0,0.005],\"q\":[1,0,0,0],\"d\":0,\"v\":1e-7}\n";
    let file = dir.path().join("cube.jsonl");
    std::fs::write(&file, text).expect("writable");
    let mut args = args(vec![file], vec![dir.path().into()]);
    args.method = Method::Ist;
    let out = figures(&mut args, dir.path());
    assert_eq!(out["distance_exact"].as_f64(), Some(0.7), "{out}");
    assert!(out["distance_err_max"].as_f64().is_some_and(|e| (e - 1e-3).abs() < 1e-6), "{out}");
}

#[test]
fn what_a_budget_costs_is_told() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut args = args(vec![ball_on_slab(dir.path(), true)], vec![dir.path().into()]);
    // In no time one block of points is visited; in an hour all are, and there is nothing to tell.
    args.budget_us = Some(1e-3);
    let out = figures(&mut args, dir.path());
    let (mean, p99) = (out["budget_force_err_mean"].as_f64(), out["budget_force_err_p99"].as_f64());
    assert!(mean.is_some_and(|e| e > 1e-3 && e < 1.0) && p99 > mean, "{mean:?} {p99:?}");
    assert!(out["budget_torque_err_mean"].is_number() && out["complete"].as_f64() < Some(1.0), "{out}");
    // A single pose has a budget as well.
    let text = std::fs::read_to_string(dir.path().join("path.jsonl")).expect("readable");
    let one: Vec<&str> = text.lines().take(1).chain(text.lines().last()).collect();
    std::fs::write(dir.path().join("one.jsonl"), one.join("\n")).expect("writable");
    let all = std::mem::replace(&mut args.paths, vec![dir.path().join("one.jsonl")]);
    let out = figures(&mut args, dir.path());
    assert!(out["queries"] == 1 && out["budget_force_err_mean"].as_f64() > Some(0.0), "{out}");
    args.paths = all;
    args.budget_us = Some(3.6e9);
    let out = figures(&mut args, dir.path());
    assert!(out["budget_force_err_mean"].is_null() && out["complete"] == 1.0, "{out}");
}

#[test]
fn a_recording_without_truth_runs_too() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut args = args(vec![ball_on_slab(dir.path(), false)], vec![dir.path().into()]);
    args.budget_us = Some(20.0);
    let out = figures(&mut args, dir.path());
    assert!(out["median_us"].as_f64().is_some_and(|us| us > 0.0));
    for absent in
        ["distance_err_mean", "force_angle_mean_deg", "force_err_mean", "touch_wrong", "median_contact_us"]
    {
        assert!(out[absent].is_null(), "{absent}: {}", out[absent]);
    }
}

#[test]
fn bad_files_are_refused_with_the_place() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let good = ball_on_slab(dir.path(), true);
    let text = std::fs::read_to_string(&good).expect("written");
    let refused = |name: &str, text: String| {
        let file = dir.path().join(name);
        std::fs::write(&file, text).expect("writable");
        format!("{:#}", run(&args(vec![file], vec![dir.path().into()])).expect_err("must be refused"))
    };
    let e = refused("a.jsonl", text.replace("slab.stl", "nowhere.stl"));
    assert!(e.contains("nowhere.stl") && e.contains("--models"), "{e}");
    let e = refused("b.jsonl", text.replace("slab.stl", "../slab.stl"));
    assert!(e.contains("'..'"), "{e}");
    let e = refused("c.jsonl", text.replace("slab.stl", "slab.xyz"));
    assert!(e.contains("slab.xyz"), "{e}");
    let lines: Vec<&str> = text.lines().collect();
    let e = refused("d.jsonl", format!("{}\n{}\nnonsense\n", lines[0], lines[1]));
    assert!(e.contains("d.jsonl") && e.contains("line 3"), "{e}");
    std::fs::write(dir.path().join("slab.xyz"), "?").expect("writable");
    let e = format!(
        "{:#}",
        run(&args(vec![dir.path().join("gone.jsonl")], vec![])).expect_err("must be refused")
    );
    assert!(e.contains("gone.jsonl"), "{e}");
}

/// The true distance lies within the bounds, and the wrench is one.
fn hold(answer: &Contact, truth: &Truth, place: &str) {
    let bounds = answer.depth_bounds.expect("bounded");
    if let Some(d) = truth.distance.filter(|d| *d > 0.0) {
        assert!(bounds.lower <= -d && -d <= bounds.upper, "{place}: {d} outside {bounds:?}");
    }
    assert!(answer.wrench.is_finite(), "{place}");
}

#[test]
fn recorded_paths_keep_their_bounds_and_know_what_touches() {
    let Some(shared) = crate::shared() else { return };
    for (name, wrong) in [("screwdriver_screwdriver_approach", 0.0), ("torus_link", 0.02), ("gears", 0.1)] {
        let path = PosePath::read(&shared.join(format!("paths/{name}.jsonl"))).expect("a path");
        let pair = Pair::build(&path, &[shared.join("models")], &args(vec![], vec![])).expect("builds");
        let mut missed = 0;
        let answers = pair.run(&path, 0, |_| {});
        for (k, ((_, truth), answer)) in path.poses.iter().zip(&answers).enumerate() {
            hold(answer, truth, &format!("{name} pose {k}"));
            assert!(answer.complete);
            missed += usize::from(truth.touching().is_some_and(|t| t != answer.touching));
        }
        // Cut off, and each with what the one before left.
        for units in [500, 64] {
            let answers = pair.run(&path, units, |_| {});
            for (k, ((_, truth), answer)) in path.poses.iter().zip(&answers).enumerate() {
                hold(answer, truth, &format!("{name} pose {k}, {units} units"));
            }
        }
        let missed = missed as f64 / answers.len() as f64;
        println!("{name}: touching-or-not wrong in {:.2} % of poses", 100.0 * missed);
        assert!(missed <= wrong, "{name}: {missed}");
    }
}
