//! One scene for several devices: each its own tool and place, everything else shared and built once.

use super::*;

const ROLES: [&str; 3] = ["left", "right", "third"];

fn roles() -> Vec<String> {
    ROLES.map(str::to_owned).to_vec()
}

/// Tools of the devices: points, inner spheres, a ball.
fn tools(scene: &Scene) -> [ToolSpec; 3] {
    let geometry = || Ref::from(scene.geometries().next().unwrap().meta.id);
    let (scale, offset) = (Vec3::repeat(0.5), Pose::translation(0.0, 0.0, 0.01));
    [
        ToolSpec::Mesh { geometry: geometry(), scale, points: 300, offset },
        ToolSpec::Spheres { geometry: geometry(), scale: Vec3::repeat(0.4), spheres: 200, offset },
        ToolSpec::Sphere { radius: 0.004, offset },
    ]
}

fn own_tools(scene: &Scene) -> Scene {
    let own = |(role, tool): (&str, ToolSpec)| Edit::SetDeviceTool { device: role.into(), tool };
    let edits: Vec<Edit> = ROLES.into_iter().zip(tools(scene)).map(own).collect();
    scene.apply(1, &edits).unwrap().0
}

/// Every contact of the tool of a snapshot at some poses, to the last bit.
fn answers(snapshot: &Snapshot) -> Vec<[u64; 6]> {
    let mut out = Vec::new();
    for object in &snapshot.objects {
        for k in 0..12 {
            let pose = Pose::translation(0.002 * f64::from(k) - 0.01, 0.012, 0.001 * f64::from(k));
            let query = Query {
                tool: &snapshot.tool.shape,
                tool_pose: &pose,
                tool_twist: &Twist::ZERO,
                object: &object.shape,
                object_pose: &object.pose,
                object_twist: &Twist::ZERO,
                material: &object.material,
            };
            let w = contact::query(&query, Budget::UNLIMITED, &mut QueryState::default()).wrench;
            let bits = |v: Vec3| [v.x.to_bits(), v.y.to_bits(), v.z.to_bits()];
            let ([a, b, c], [d, e, f]) = (bits(w.force), bits(w.torque));
            out.push([a, b, c, d, e, f]);
        }
    }
    out
}

/// Bit for bit what a daemon with that one device, and its tool as the only one, would feel.
#[test]
fn each_device_feels_what_it_would_feel_alone() {
    let (scene, _) = boxes(2);
    let several = own_tools(&scene);
    let (snapshots, _) = Compiler::new(1 << 30).compile_for(&several, &roles(), &Silent).unwrap();
    assert_eq!(snapshots.len(), 3);
    let mut different = BTreeSet::new();
    for (snapshot, tool) in snapshots.iter().zip(tools(&scene)) {
        let alone = scene.apply(1, &[Edit::SetTool { tool }]).unwrap().0;
        let alone = Compiler::new(1 << 30).compile(&alone, &Silent).unwrap();
        let felt = answers(snapshot);
        assert_eq!(felt, answers(&alone));
        assert!(felt.iter().any(|w| w[..3].iter().any(|f| f64::from_bits(*f).abs() > 1e-3)), "it touches");
        assert_eq!(snapshot.tool.offset, alone.tool.offset);
        assert_eq!(snapshot.generation, several.revision(), "one generation for all");
        different.insert(felt);
    }
    assert_eq!(different.len(), 3, "three tools, three forces");
}

/// Building for several costs each thing once, and nothing anew when something else changes.
#[test]
fn what_devices_share_is_built_once_and_kept_for_each() {
    let (scene, ids) = boxes(3);
    let scene = own_tools(&scene);
    let compiler = Compiler::new(1 << 30);
    let (first, report) = compiler.compile_for(&scene, &roles(), &Silent).unwrap();
    // The boxes' field, the points, the spheres, and the ball, which is nothing to build.
    assert_eq!(report.built, 3, "{report:?}");
    for s in &first[1..] {
        assert!((0..3).all(|i| Arc::ptr_eq(field(&first[0], i), field(s, i))), "one field for all");
    }
    let moved =
        patch(ids[1], ObjectPatch { pose: Some(Pose::translation(0.0, 0.5, 0.0)), ..Default::default() });
    let (scene, _) = scene.apply(1, &[moved]).unwrap();
    let (second, report) = compiler.compile_for(&scene, &roles(), &Silent).unwrap();
    assert_eq!((report.built, report.loaded), (0, 0), "no tool is built anew: {report:?}");
    for (a, b) in first.iter().zip(&second) {
        assert!(Arc::ptr_eq(&a.tool, &b.tool), "the servo sees the same tool");
        assert_eq!(b.objects[1].pose, Pose::translation(0.0, 0.5, 0.0));
    }
}

/// A tool and a place for one device are that one's; without a device they are everybody's.
#[test]
fn an_edit_means_one_device_or_all() {
    let scene = Scene::default();
    let ball = |radius| ToolSpec::Sphere { radius, offset: Pose::identity() };
    let x = |x| Some(Pose::translation(x, 0.0, 0.0));
    let apply = |scene: &Scene, edits: &[Edit]| scene.apply(1, edits).unwrap().0;
    let view = |scene: &Scene, role: &str| {
        let v = scene.felt_by(role);
        let radius = match v.tool().geometry {
            hapticd::scene::model::ToolGeometry::Sphere(r) => r,
            _ => panic!("a ball"),
        };
        (radius, v.mapping().device_in_scene.translation.x, v.mapping().workspace_scale)
    };
    let one = apply(
        &scene,
        &[
            Edit::SetMapping { device_in_scene: x(0.1), workspace_scale: Some(2.0) },
            Edit::SetDeviceTool { device: "left".into(), tool: ball(0.01) },
            Edit::SetDeviceMapping { device: "left".into(), device_in_scene: x(0.3), workspace_scale: None },
        ],
    );
    assert_eq!((view(&one, "left"), view(&one, "right")), ((0.01, 0.3, 2.0), (0.005, 0.1, 2.0)));
    assert_eq!(one.roles().collect::<BTreeSet<_>>(), BTreeSet::from(["left"]));
    let incarnations = |s: &Scene| ["left", "right"].map(|r| s.felt_by(r).tool().incarnation);
    let [left, right] = incarnations(&one);
    assert_ne!(left, right, "each tool has its own");
    let all = apply(
        &one,
        &[
            Edit::SetTool { tool: ball(0.02) },
            Edit::SetMapping { device_in_scene: None, workspace_scale: Some(3.0) },
        ],
    );
    assert_eq!((view(&all, "left"), view(&all, "right")), ((0.02, 0.3, 3.0), (0.02, 0.1, 3.0)));
    let gone = apply(&all, &[Edit::Clear]);
    assert_eq!(view(&gone, "left"), view(&all, "left"), "tools and places stay");
    // A wrong number changes nothing, whose ever it is.
    let wrong =
        Edit::SetDeviceMapping { device: "left".into(), device_in_scene: None, workspace_scale: Some(0.0) };
    let error = all.apply(1, &[Edit::SetTool { tool: ball(0.03) }, wrong]).unwrap_err();
    assert_eq!((error.index, error.field), (1, "workspace_scale"));
}

/// A tool that cannot be built keeps every device from the new scene.
#[test]
fn a_tool_that_does_not_fit_fails_the_whole() {
    let (scene, _) = boxes(1);
    let compiler = Compiler::new(2 << 20);
    assert!(compiler.compile_for(&scene, &roles(), &Silent).is_ok());
    let geometry = scene.geometries().next().unwrap().meta.id.into();
    let (scale, offset) = (Vec3::repeat(1.0), Pose::identity());
    let big = ToolSpec::Mesh { geometry, scale, points: 400_000, offset };
    let (scene, _) = scene.apply(1, &[Edit::SetDeviceTool { device: "right".into(), tool: big }]).unwrap();
    let error = compiler.compile_for(&scene, &roles(), &Silent).unwrap_err();
    assert!(matches!(error, CompileError::Memory { .. }), "{error}");
}

#[test]
fn a_scene_file_gives_devices_their_tools_and_places() {
    let text = "[tool]\nsphere_radius_m = 0.01\n[device]\nposition_m = [0.0, 0.1, 0.0]\n\
                [tools.left]\nsphere_radius_m = 0.02\n[devices.left]\nposition_m = [0.2, 0.0, 0.0]\nworkspace_scale = 2.0\n";
    let parsed = file::SceneFile::parse("s.toml", text, Path::new("")).unwrap();
    let (scene, _) = parsed.apply(&Scene::default()).unwrap();
    let at = |role: &str| scene.felt_by(role).mapping().device_in_scene.translation.vector;
    assert_eq!((at("left"), at("right")), (Vec3::new(0.2, 0.0, 0.0), Vec3::new(0.0, 0.1, 0.0)));
    let (left, right) = (scene.felt_by("left"), scene.felt_by("right"));
    let radius = |s: &Scene| format!("{:?}", s.tool().geometry);
    assert_eq!((radius(&left), radius(&right)), ("Sphere(0.02)".into(), "Sphere(0.01)".into()));
    let error = file::SceneFile::parse("s.toml", "[tools.left]\nradius = 1\n", Path::new("")).unwrap_err();
    assert!(error.to_string().starts_with("s.toml:1: tools.left"), "{error}");
}
