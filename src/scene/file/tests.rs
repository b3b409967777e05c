//! Tests of scene files.

use super::*;
use crate::contact::{Friction, Material, Texture};
use crate::scene::model::{EffectKind, ToolGeometry};
use crate::scene::motion::Path as MotionPath;

const GOOD: &str = r#"
[device]
position_m = [0.0, 0.0, 0.1]
workspace_scale = 2.0

[materials.steel]
stiffness_n_m = 800
damping_ns_m = 2

[meshes.floor]
shape = "cuboid"
size_m = [0.4, 0.4, 0.02]
cells = 40

[meshes.ball]
shape = "sphere"
radius_m = 0.01
scale = [1.0, 1.0, 2.0]

[objects.floor]
mesh = "floor"
material = "steel"
position_m = [0, 0, -0.01]
rotation_deg = [0, 0, 90]

[objects.mover]
mesh = "ball"
material = "steel"
moving = true
[objects.mover.motion]
amplitude_m = [0, 0, 0.005]
frequency_hz = 2
stop_s = 3

[objects.grid]
mesh = "ball"
material = "steel"
[objects.grid.copies]
count = [2, 3, 1]
step_m = [0.1, 0.2, 0.3]

[tool]
mesh = "ball"
points = 400
"#;

fn parse(text: &str) -> Result<Scene, SourceError> {
    let file = SceneFile::parse("demo.toml", text, Path::new("/nonexistent"))?;
    file.apply(&Scene::default()).map(|(scene, _)| scene)
}

#[test]
fn a_file_becomes_the_scene_that_it_describes() {
    let file = SceneFile::parse("demo.toml", GOOD, Path::new("")).unwrap();
    let (scene, applied) = file.apply(&Scene::default()).unwrap();
    assert_eq!(scene.objects().len(), 2 + 6);
    assert_eq!(scene.mapping().workspace_scale, 2.0);
    assert_eq!(scene.mapping().device_in_scene, Pose::translation(0.0, 0.0, 0.1));
    let steel = Material {
        stiffness: 800.0,
        reference_area: 1e-4,
        damping: 2.0,
        friction: Friction::NONE,
        texture: Texture::NONE,
    };
    assert_eq!(scene.materials().next().unwrap().material, steel);
    let floor = scene.object(scene.find_object(&"floor".into()).unwrap()).unwrap();
    let turned = floor.pose * nalgebra::Point3::new(0.1, 0.0, 0.0);
    assert!((turned - nalgebra::Point3::new(0.0, 0.1, -0.01)).norm() < 1e-15, "{turned}");
    let last = scene.object(scene.find_object(&"grid[1,2,0]".into()).unwrap()).unwrap();
    assert_eq!(last.pose.translation.vector, Vec3::new(0.1, 0.4, 0.0));
    assert!(scene.objects().all(|o| o.meta.persistent && o.meta.owner == DAEMON));
    let ball = scene.geometry(scene.find_geometry(&"ball".into()).unwrap()).unwrap();
    let (lo, hi) = ball.mesh.mesh.bounds().unwrap();
    assert!((hi.z - 0.02).abs() < 1e-12 && (lo.z + 0.02).abs() < 1e-12, "scaled along z");
    assert!(matches!(scene.tool().geometry, ToolGeometry::Mesh { points: 400, .. }));

    let motions = file.motions(&applied);
    assert_eq!(motions.len(), 1);
    assert_eq!(Some(motions[0].0), scene.find_object(&"mover".into()));
    assert_eq!((motions[0].1.rate_hz, motions[0].1.delay, motions[0].1.span), (500.0, 0.004, (0.0, 3.0)));
    assert!(matches!(motions[0].1.path, MotionPath::Analytic { frequency: 2.0, .. }));
}

#[test]
fn friction_is_read_with_its_defaults() {
    let with = |friction: &str| {
        let text = GOOD.replace("damping_ns_m = 2", &format!("damping_ns_m = 2\nfriction = {friction}"));
        parse(&text).map(|s| s.materials().next().map(|m| m.material.friction))
    };
    assert_eq!(with("{ static = 0.5 }").unwrap(), Some(Friction::of(0.5)));
    let all = Friction { statics: 0.5, dynamic: 0.25, stribeck: 0.01, viscous: 2.0 };
    let text = "{ static = 0.5, dynamic = 0.25, stribeck_m_s = 0.01, viscous_s_m = 2 }";
    assert_eq!(with(text).unwrap(), Some(all));
    for (wrong, key) in [
        ("{ dynamic = 0.5 }", "materials.steel.friction.static"),
        ("{ static = 0.5, dynamc = 0.5 }", "materials.steel.friction.dynamc"),
        ("{ static = 0.5, dynamic = 0.6 }", "materials.steel.friction.dynamic"),
        ("{ static = 11 }", "materials.steel.friction.static"),
        ("{ static = 1, stribeck_m_s = 2 }", "materials.steel.friction.stribeck"),
        ("{ static = 1, viscous_s_m = -1 }", "materials.steel.friction.viscous"),
        ("0.5", "materials.steel.friction"),
    ] {
        let error = with(wrong).expect_err(wrong);
        assert_eq!(error.key, key, "{error}");
    }
}

#[test]
fn texture_is_read_and_limited() {
    let with = |texture: &str| {
        let text = GOOD.replace("damping_ns_m = 2", &format!("damping_ns_m = 2\ntexture = {texture}"));
        parse(&text).map(|s| s.materials().next().map(|m| m.material.texture))
    };
    let grain = with("{ height_m = 0.0002, wavelength_m = 0.002 }").unwrap();
    assert_eq!(grain, Some(Texture { height: 2e-4, wavelength: 2e-3 }));
    for (wrong, key) in [
        ("{ height_m = 0.0002 }", "materials.steel.texture.wavelength_m"),
        ("{ height_m = 0.001, wavelength_m = 0.002 }", "materials.steel.texture.height"),
        ("{ height_m = 0, wavelength_m = -1 }", "materials.steel.texture.wavelength"),
    ] {
        assert_eq!(with(wrong).expect_err(wrong).key, key);
    }
}

#[test]
fn effects_are_read_by_kind() {
    let with = |effects: &str| parse(&format!("{GOOD}\n{effects}"));
    let text = "[effects.oil]\nkind = \"viscosity\"\ndamping_ns_m = 5\n\
                [effects.wind]\nkind = \"constant\"\nforce_n = [0, 0, -1]\nmax_force_n = 0.5\n\
                [effects.home]\nkind = \"spring\"\nstiffness_n_m = 100\npoint_m = [0.1, 0, 0]\n\
                [effects.snap]\nkind = \"magnet\"\npull_n = 1.5\npoint_m = [0, 0.1, 0]\nrange_m = 0.02\n";
    let scene = with(text).unwrap();
    let found: Vec<_> = scene
        .effects()
        .map(|e| (e.meta.name.as_deref().unwrap(), e.effect.kind, e.effect.strength, e.effect.max_force))
        .collect();
    let expect = [
        ("oil", EffectKind::Viscosity, 5.0, 2.0),
        ("wind", EffectKind::Constant, 0.0, 0.5),
        ("home", EffectKind::Spring, 100.0, 2.0),
        ("snap", EffectKind::Magnet, 1.5, 2.0),
    ];
    assert_eq!(found, expect);
    assert!(scene.effects().all(|e| e.meta.persistent && e.gain == 1.0));
    for (wrong, key) in [
        ("[effects.a]\nkind = \"wind\"", "effects.a.kind"),
        ("[effects.a]\nkind = \"viscosity\"", "effects.a.damping_ns_m"),
        ("[effects.a]\nkind = \"viscosity\"\ndamping_ns_m = -1", "effects.a.damping"),
        ("[effects.a]\nkind = \"viscosity\"\ndamping_ns_m = 1\nmax_force_n = 1000", "effects.a.max_force"),
        ("[effects.a]\nkind = \"viscosity\"\ndamping_ns_m = 1\nrange_m = 1", "effects.a.range_m"),
        ("[effects.a]\nkind = \"constant\"\nforce_n = [0, 0, 1e9]", "effects.a.force"),
        ("[effects.a]\nkind = \"magnet\"\npull_n = 1\npoint_m = [0, 0, 0]\nrange_m = 0", "effects.a.range"),
    ] {
        let error = with(wrong).expect_err(wrong);
        assert_eq!(error.key, key, "{error}");
    }
}

/// (what replaces what in the good file, line, key, part of the cause)
const WRONG: &[(&str, &str, usize, &str, &str)] = &[
    ("stiffness_n_m = 800", "stifness_n_m = 800", 6, "materials.steel.stiffness_n_m", "'stifness_n_m'?"),
    ("damping_ns_m = 2", "dampin = 2", 8, "materials.steel.dampin", "unknown key"),
    ("stiffness_n_m = 800", "stiffness_n_m = -8", 6, "materials.steel.stiffness", "-8 is outside"),
    ("shape = \"cuboid\"", "shape = \"cubiod\"", 11, "meshes.floor.shape", "did you mean 'cuboid'?"),
    ("shape = \"cuboid\"", "shape = \"cuboid\"\nfile = \"a.stl\"", 10, "meshes.floor", "either file"),
    ("cells = 40", "cells = 40\ncell_m = 0.01", 10, "meshes.floor", "one of cells"),
    ("cells = 40", "cells = 2", 10, "meshes.floor.resolution", "outside 4 to 1024"),
    ("cells = 40", "method = \"gjk\"", 13, "meshes.floor.method", "known: vps, ist"),
    ("rotation_deg = [0, 0, 90]", "shell = \"both\"", 24, "objects.floor.shell", "known: auto, tool, object"),
    ("rotation_deg = [0, 0, 90]", "proxy = \"points\"", 24, "objects.floor.proxy", "known: field, mesh"),
    ("[0.4, 0.4, 0.02]", "[0.4, 0.4, 0]", 12, "meshes.floor.size_m", "0 is outside"),
    ("[0.4, 0.4, 0.02]", "[0.4, 0.4]", 12, "meshes.floor.size_m", "expected 3 values, found 2"),
    (
        "radius_m = 0.01",
        "radius_m = 0.01\nsubdivisions = 12",
        18,
        "meshes.ball.subdivisions",
        "outside 0 to 7",
    ),
    ("scale = [1.0, 1.0, 2.0]", "scale = [1, 0, 1]", 18, "meshes.ball.scale", "outside"),
    ("[0, 0, 90]", "[0, 0, 90]\norientation = [0, 0, 0, 1]", 24, "objects.floor.rotation_deg", "either"),
    ("rotation_deg = [0, 0, 90]", "orientation = [1, 0, 0, 1]", 24, "objects.floor.orientation", "unit"),
    ("position_m = [0, 0, -0.01]", "position_m = [0, 0, -1e9]", 20, "objects.floor.pose", "farther"),
    ("moving = true", "moving = false", 30, "objects.mover.motion", "moving = true"),
    ("frequency_hz = 2", "frequency_hz = 1e4", 32, "objects.mover.motion.frequency_hz", "outside"),
    ("count = [2, 3, 1]", "count = [200, 300, 1]", 39, "objects.grid.copies.count", "60000 copies"),
    ("mesh = \"ball\"\npoints", "mesh = \"bal\"\npoints", 42, "tool.geometry", "no geometry 'bal'"),
    ("points = 400", "sphere_radius_m = 0.1", 42, "tool", "either sphere_radius_m or mesh"),
    ("[tool]", "[tol]", 42, "tol", "did you mean 'tool'?"),
    ("[tool]", "[tools]", 43, "tools.mesh", "expected a table"),
];

#[test]
fn errors_name_file_line_and_key() {
    for (good, bad, line, key, cause) in WRONG {
        assert!(GOOD.contains(good), "{good}");
        let e = parse(&GOOD.replacen(good, bad, 1)).expect_err(bad);
        assert_eq!((e.file.as_str(), e.key.as_str()), ("demo.toml", *key), "{bad}: {e}");
        assert_eq!(e.line, *line, "{bad}: {e}");
        assert!(e.cause.contains(cause), "{bad}: {e}");
    }
}

#[test]
fn a_mesh_file_needs_a_unit_and_must_exist() {
    let file = |lines: &str| parse(&format!("[meshes.bunny]\nfile = 'bunny.ply'\n{lines}"));
    let e = file("").unwrap_err();
    assert_eq!((e.key.as_str(), e.line), ("meshes.bunny.unit", 1), "{e}");
    let e = file("unit = 'parsec'\n").unwrap_err();
    assert_eq!((e.key.as_str(), e.line), ("meshes.bunny.unit", 3), "{e}");
    let e = file("unit = 'mm'\n").unwrap_err();
    assert_eq!((e.key.as_str(), e.line), ("meshes.bunny.file", 2));
    assert!(e.cause.contains("/nonexistent/bunny.ply"), "{e}");
    let e = file("unit = 'mm'\nformat = 'step'\n").unwrap_err();
    assert!(e.cause.contains("'step' is none of stl, obj, ply"), "{e}");
}

#[test]
fn keyframes_must_rise_and_be_poses() {
    let motion = |rows: &str| {
        let text =
            GOOD.replace("amplitude_m = [0, 0, 0.005]\nfrequency_hz = 2", &format!("keyframes = {rows}"));
        parse(&text)
    };
    assert!(motion("[[0,0,0,0,0,0,0,1], [1,0,0,0.1,0,0,0,1]]").is_ok());
    for (rows, cause) in [
        ("[[0,0,0,0,0,0,0,1], [0,0,0,0.1,0,0,0,1]]", "times must rise"),
        ("[[0,0,0,0,0,0,0,2]]", "not a unit quaternion"),
        ("[]", "empty"),
        ("[[0,0,0]]", "expected 8 values, found 3"),
    ] {
        let e = motion(rows).unwrap_err();
        assert!(e.key == "objects.mover.motion.keyframes" && e.cause.contains(cause), "{e}");
    }
}

#[test]
fn contradicting_measures_are_refused_instead_of_panicking() {
    for (shape, cause) in [
        ("shape='keyed_pin'\nradius_m=0.2", "key inside the shank"),
        ("shape='keyed_pin'\nhead_side_m=0.01", "head does not cover"),
        ("shape='keyed_pin'\nlength_m=0.011", "shorter than its lead-in"),
        ("shape='keyed_hole'\nside_m=0.01", "does not surround"),
        ("shape='keyed_hole'\nchamfer_m=0.3\nside_m=1.0", "chamfer does not fit"),
        ("shape='keyed_pin'\naxial_step_m=1e-9", "outside"),
        ("shape='torus'\nmajor_m=0.1\nminor_m=0.2", "less than major_m"),
        ("shape='hollow_sphere'\nouter_m=0.1\ninner_m=0.1", "less than outer_m"),
    ] {
        let e = parse(&format!("[meshes.a]\n{shape}\n")).expect_err(shape);
        assert!(e.cause.contains(cause), "{shape}: {e}");
    }
    assert!(parse("[meshes.a]\nshape='keyed_pin'\n[meshes.b]\nshape='keyed_hole'\nkey=false\n").is_ok());
}

proptest::proptest! {
    #[test]
    fn no_mangled_file_panics(at in 0..GOOD.len(), cut in 0usize..6, with in "[ -~]{0,3}") {
        let mut text = GOOD.to_string();
        text.replace_range(at..(at + cut).min(GOOD.len()), &with);
        let _ = parse(&text);
    }
}
