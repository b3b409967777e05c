//! The scene as a whole: sequences of transactions against invariants, sharing between compilations, the shipped
//! scene files.

#[path = "scene/devices.rs"]
mod devices;

use hapticd::contact::{
    self, Budget, Friction, Material, ObjectShape, Query, QueryState, Texture, ToolShape,
};
use hapticd::geometry::field::build::{FieldError, FieldParams, Progress, Resolution, Silent};
use hapticd::geometry::{Point, Pose, TriMesh, Twist, Vec3, shapes};
use hapticd::scene::cache::{Cache, CacheNote};
use hapticd::scene::compile::{CompileError, Compiler};
use hapticd::scene::file;
use hapticd::scene::model::{
    Edit, GeometrySpec, Limits, Method, ObjectPatch, ObjectSpec, ProxyOn, Ref, Scene, Shell, SourceMesh,
    ToolSpec,
};
use hapticd::scene::snapshot::Snapshot;
use proptest::prelude::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const STEEL: Material = Material {
    stiffness: 800.0,
    reference_area: 1e-4,
    damping: 1.0,
    friction: Friction::NONE,
    texture: Texture::NONE,
};

fn coarse(cells: u32) -> FieldParams {
    FieldParams { resolution: Resolution::Longest(cells), padding: 3 }
}

fn geometry(mesh: TriMesh, cells: u32) -> Edit {
    let spec = GeometrySpec {
        mesh: SourceMesh::new(mesh, "generated"),
        params: coarse(cells),
        method: None,
        hold_thin: false,
    };
    Edit::AddGeometry { name: None, spec, persistent: false }
}

fn material() -> Edit {
    Edit::AddMaterial { name: None, material: STEEL, persistent: false }
}

fn object(geometry: impl Into<Ref>, material: impl Into<Ref>, x: f64) -> Edit {
    let spec = ObjectSpec {
        geometry: geometry.into(),
        material: material.into(),
        pose: Pose::translation(x, 0.0, 0.0),
        scale: Vec3::repeat(1.0),
        params: None,
        method: None,
        shell: Shell::Auto,
        proxy: ProxyOn::Field,
        moving: false,
    };
    Edit::AddObject { name: None, spec, persistent: false }
}

fn patch(object: u32, patch: ObjectPatch) -> Edit {
    Edit::SetObject { object: object.into(), patch }
}

/// A scene with one box-shaped geometry (16 cells) and `n` objects of it; their identifiers.
fn boxes(n: usize) -> (Scene, Vec<u32>) {
    let mut edits = vec![material(), geometry(shapes::cuboid(Vec3::new(0.02, 0.03, 0.04)), 16)];
    edits.extend((0..n).map(|i| object(Ref::New(1), Ref::New(0), 0.05 * i as f64)));
    let (scene, applied) = allowing().apply(1, &edits).unwrap();
    (scene, applied.ids[2..].iter().map(|id| id.unwrap()).collect())
}

/// An empty scene in which objects may have a proxy on their mesh.
fn allowing() -> Scene {
    Scene::new(Limits { proxy_on_mesh: true, ..Limits::default() })
}

fn field(snapshot: &Snapshot, i: usize) -> &Arc<hapticd::geometry::field::Field> {
    match &snapshot.objects[i].shape {
        ObjectShape::Field(field) => field,
        ObjectShape::Solid(solid) => &solid.field,
        ObjectShape::Sampled(sampled) => sampled.field(),
    }
}

// --- transactions ---------------------------------------------------------------------------------------------

/// A random edit; numbers pick among what lives, so that most edits make sense and some do not.
#[derive(Clone, Debug)]
enum Step {
    Material(f64),
    Geometry(u8),
    Object { geometry: usize, material: usize, moving: bool, persistent: bool },
    Set { object: usize, scale: f64, moving: Option<bool>, gain: f64 },
    SetGeometry { object: usize, geometry: usize },
    RemoveObject(usize),
    RemoveGeometry(usize),
    RemoveMaterial(usize),
    RemoveOwned(u64),
    Tool(f64),
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    let (n, scale) = (0usize..12, prop_oneof![Just(1.0), Just(-1.0), Just(2.0), Just(0.0)]);
    prop_oneof![
        2 => (-100.0..2000.0f64).prop_map(Step::Material),
        2 => (0u8..4).prop_map(Step::Geometry),
        8 => (n.clone(), n.clone(), any::<bool>(), any::<bool>())
            .prop_map(|(geometry, material, moving, persistent)| Step::Object { geometry, material, moving, persistent }),
        4 => (n.clone(), scale, proptest::option::of(any::<bool>()), -0.1..1.1f64)
            .prop_map(|(object, scale, moving, gain)| Step::Set { object, scale, moving, gain }),
        2 => (n.clone(), n.clone()).prop_map(|(object, geometry)| Step::SetGeometry { object, geometry }),
        4 => n.clone().prop_map(Step::RemoveObject),
        1 => n.clone().prop_map(Step::RemoveGeometry),
        1 => n.prop_map(Step::RemoveMaterial),
        1 => (1u64..4).prop_map(Step::RemoveOwned),
        1 => (-0.01..0.1f64).prop_map(Step::Tool),
        1 => Just(Step::Clear),
    ]
}

/// The identifier of the `i`-th part, or one that does not exist.
fn pick(mut ids: impl ExactSizeIterator<Item = u32>, i: usize) -> u32 {
    ids.nth(i).unwrap_or(9_999)
}

fn edit(scene: &Scene, step: &Step) -> Edit {
    let object_id = |i| pick(scene.objects().map(|o| o.meta.id), i);
    let geometry_id = |i| pick(scene.geometries().map(|g| g.meta.id), i);
    let material_id = |i| pick(scene.materials().map(|m| m.meta.id), i);
    match *step {
        Step::Material(stiffness) => {
            Edit::AddMaterial { name: None, material: Material { stiffness, ..STEEL }, persistent: false }
        }
        Step::Geometry(n) => geometry(shapes::cuboid(Vec3::repeat(0.01 * (1.0 + f64::from(n)))), 16),
        Step::Object { geometry, material, moving, persistent } => {
            let spec = ObjectSpec {
                geometry: geometry_id(geometry).into(),
                material: material_id(material).into(),
                pose: Pose::identity(),
                scale: Vec3::repeat(1.0),
                params: None,
                method: None,
                shell: Shell::Auto,
                proxy: ProxyOn::Field,
                moving,
            };
            Edit::AddObject { name: None, spec, persistent }
        }
        Step::Set { object, scale, moving, gain } => {
            let p = ObjectPatch {
                scale: Some(Vec3::repeat(scale)),
                moving,
                gain: Some(gain),
                ..Default::default()
            };
            patch(object_id(object), p)
        }
        Step::SetGeometry { object, geometry } => {
            let geometry = Some(geometry_id(geometry).into());
            patch(object_id(object), ObjectPatch { geometry, ..Default::default() })
        }
        Step::RemoveObject(i) => Edit::RemoveObject { object: object_id(i).into() },
        Step::RemoveGeometry(i) => Edit::RemoveGeometry { geometry: geometry_id(i).into() },
        Step::RemoveMaterial(i) => Edit::RemoveMaterial { material: material_id(i).into() },
        Step::RemoveOwned(owner) => Edit::RemoveOwned { owner },
        Step::Tool(radius) => Edit::SetTool { tool: ToolSpec::Sphere { radius, offset: Pose::identity() } },
        Step::Clear => Edit::Clear,
    }
}

const SMALL: Limits =
    Limits { objects: 6, moving: 2, materials: 4, geometries: 4, mesh_bytes: 1 << 20, proxy_on_mesh: false };

fn holds(scene: &Scene) {
    let slots: BTreeSet<u16> = scene.objects().map(|o| o.slot).collect();
    assert_eq!(slots.len(), scene.objects().len(), "a slot is held twice");
    assert!(slots.iter().all(|s| usize::from(*s) < SMALL.objects));
    let motion: Vec<u8> = scene.objects().filter_map(|o| o.motion).collect();
    assert_eq!(motion.iter().collect::<BTreeSet<_>>().len(), motion.len(), "a motion slot is held twice");
    assert!(motion.iter().all(|m| usize::from(*m) < SMALL.moving));
    for o in scene.objects() {
        assert!(scene.geometry(o.geometry).is_some() && scene.material(o.material).is_some(), "{o:?}");
        assert!((0.0..=1.0).contains(&o.gain) && o.scale.iter().all(|s| *s != 0.0));
    }
    assert!(scene.materials().all(|m| m.material.stiffness >= 0.0));
    assert!(scene.materials().len() <= SMALL.materials && scene.geometries().len() <= SMALL.geometries);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_transactions_keeps_the_invariants(
        transactions in proptest::collection::vec((1u64..4, proptest::collection::vec(step(), 1..5)), 1..40)
    ) {
        let mut scene = Scene::new(SMALL);
        let mut ids = BTreeSet::new();
        // Shape of each (identifier, incarnation): an incarnation never has two.
        let mut shape_of = BTreeMap::new();
        for (owner, steps) in &transactions {
            let edits: Vec<Edit> = steps.iter().map(|s| edit(&scene, s)).collect();
            let before = format!("{scene:?}");
            let applied = scene.apply(*owner, &edits);
            prop_assert_eq!(&format!("{:?}", scene), &before, "apply changes nothing in place");
            let Ok((next, applied)) = applied else { continue };
            prop_assert_eq!((next.revision(), applied.revision), (scene.revision() + 1, scene.revision() + 1));
            for id in applied.ids.iter().flatten() {
                prop_assert!(*id != 0 && ids.insert(*id), "identifier {} was given out twice", id);
            }
            holds(&next);
            for o in next.objects() {
                if let Some(old) = scene.object(o.meta.id) {
                    prop_assert_eq!((old.slot, old.meta.owner), (o.slot, o.meta.owner));
                }
                let shape = (o.meta.id, o.geometry, o.scale.map(f64::to_bits));
                prop_assert_eq!(*shape_of.entry(o.incarnation).or_insert(shape), shape);
            }
            scene = next;
        }
    }
}

// --- compilation ----------------------------------------------------------------------------------------------

/// Counts builds by their progress calls and can cancel.
#[derive(Default)]
struct Watch {
    steps: AtomicU64,
    cancel: bool,
}

impl Progress for Watch {
    fn step(&self, done: u64, total: u64) {
        assert!(done <= total, "{done} of {total}");
        self.steps.fetch_add(1, Relaxed);
    }

    fn cancelled(&self) -> bool {
        self.cancel
    }
}

#[test]
fn publishing_a_thousand_objects_builds_once_and_shares_for_ever() {
    let (scene, ids) = boxes(1000);
    let compiler = Compiler::new(1 << 30);
    let (first, report) = compiler.compile_reported(&scene, &Silent).unwrap();
    assert_eq!((report.built, report.reused), (1, 0));
    assert_eq!((first.objects.len(), first.generation), (1000, scene.revision()));
    for i in 1..1000 {
        assert!(Arc::ptr_eq(field(&first, 0), field(&first, i)));
    }
    let moved =
        patch(ids[3], ObjectPatch { pose: Some(Pose::translation(0.0, 0.5, 0.0)), ..Default::default() });
    let (scene, _) = scene.apply(1, &[moved]).unwrap();
    let watch = Watch::default();
    let (second, report) = compiler.compile_reported(&scene, &watch).unwrap();
    assert_eq!((report.built, report.reused, watch.steps.into_inner()), (0, 1, 0));
    assert!(Arc::ptr_eq(field(&first, 0), field(&second, 999)));
    assert!(Arc::ptr_eq(&first.tool, &second.tool), "an unchanged tool is shared");
    assert_eq!(second.generation, first.generation + 1);
    assert_eq!(second.objects[3].pose, Pose::translation(0.0, 0.5, 0.0));
    assert!(second.objects.windows(2).all(|w| w[0].slot < w[1].slot));
}

#[test]
fn only_what_is_new_is_built() {
    let (scene, ids) = boxes(2);
    let compiler = Compiler::new(1 << 30);
    compiler.compile(&scene, &Silent).unwrap();
    let built = |scene: &Scene| compiler.compile_reported(scene, &Silent).unwrap().1.built;
    let scaled = patch(ids[0], ObjectPatch { scale: Some(Vec3::repeat(2.0)), ..Default::default() });
    let (scene, _) = scene.apply(1, &[scaled]).unwrap();
    assert_eq!(built(&scene), 1, "a scale is another solid");
    assert_eq!(built(&scene), 0);
    let finer = patch(ids[1], ObjectPatch { params: Some(coarse(20)), ..Default::default() });
    let (scene, _) = scene.apply(1, &[finer]).unwrap();
    assert_eq!(built(&scene), 1, "another fineness");
    // The same mesh loaded again is the same thing.
    let again = [
        geometry(shapes::cuboid(Vec3::new(0.02, 0.03, 0.04)), 16),
        object(Ref::New(0), ids_material(&scene), 1.0),
    ];
    let (scene, _) = scene.apply(2, &again).unwrap();
    assert_eq!(built(&scene), 0);
}

fn ids_material(scene: &Scene) -> u32 {
    scene.materials().next().unwrap().meta.id
}

#[test]
fn fields_come_back_from_disk_and_a_damaged_file_is_built_anew() {
    let dir = tempfile::tempdir().unwrap();
    let (scene, _) = boxes(3);
    let fresh = || Compiler::with_cache(1 << 30, Cache::open(dir.path(), 1 << 30).0);
    let (first, report) = fresh().compile_reported(&scene, &Silent).unwrap();
    assert_eq!((report.built, report.loaded), (1, 0));
    let (second, report) = fresh().compile_reported(&scene, &Silent).unwrap();
    assert_eq!((report.built, report.loaded, report.cache_notes.len()), (0, 1, 0));
    assert_eq!(field(&first, 0), field(&second, 0));
    let file = std::fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let (third, report) = fresh().compile_reported(&scene, &Silent).unwrap();
    assert_eq!((report.built, report.loaded, report.cache_notes.len()), (1, 0, 1), "{report:?}");
    assert_eq!(field(&first, 0), field(&third, 0));
    assert_eq!(fresh().compile_reported(&scene, &Silent).unwrap().1.loaded, 1, "and kept again");
    let finer = alone(shapes::cuboid(Vec3::new(0.02, 0.03, 0.04)), coarse(17));
    assert_eq!(
        fresh().compile_reported(&finer, &Silent).unwrap().1.loaded,
        0,
        "another fineness is another field"
    );
}

#[test]
fn a_scene_is_built_without_a_cache_that_cannot_be_used_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, b"").unwrap();
    let (scene, _) = boxes(3);
    let (compiler, note) = Compiler::kept(1 << 30, Some(file.join("below a file")), 1 << 30);
    let (_, report) = compiler.compile_reported(&scene, &Silent).unwrap();
    assert_eq!((report.built, report.cache_notes), (1, vec![note.expect("a note at once")]));
    // Nothing was built, so there is nothing to say.
    assert_eq!(compiler.compile_reported(&scene, &Silent).unwrap().1.cache_notes, []);
    // A cache that is too small for the field.
    let (compiler, note) = Compiler::kept(1 << 30, Some(dir.path().join("small")), 1000);
    assert_eq!(note, None);
    let (_, report) = compiler.compile_reported(&scene, &Silent).unwrap();
    assert!(matches!(report.cache_notes[..], [CacheNote::TooLarge { .. }]), "{report:?}");
    // One that was not asked for is nothing to speak of.
    let (compiler, note) = Compiler::kept(1 << 30, None, 1 << 30);
    assert_eq!((note, compiler.compile_reported(&scene, &Silent).unwrap().1.cache_notes), (None, vec![]));
}

#[test]
fn a_scene_over_the_cap_is_refused_before_anything_is_built() {
    let (scene, _) = boxes(1);
    let edits = [geometry(shapes::icosphere(0.1, 2), 300), object(Ref::New(0), ids_material(&scene), 1.0)];
    let (scene, _) = scene.apply(1, &edits).unwrap();
    // 300 cells along each side and 3 of padding on both: 307^3 nodes of 2 bytes at least, and while it is built as many
    // of 4 bytes.
    let nodes = 307u64.pow(3);
    let watch = Watch::default();
    let e = Compiler::new(6 * nodes - 1).compile(&scene, &watch).unwrap_err();
    assert_eq!(watch.steps.into_inner(), 0, "nothing was built");
    let CompileError::Memory { needed, working, cap, ref largest } = e else { panic!("{e}") };
    let close = |x: u64, least: u64| x >= least && x < least + least / 10;
    assert!(close(needed - working, 2 * nodes) && close(working, 4 * nodes), "{e}");
    assert_eq!(cap, 6 * nodes - 1);
    assert!(largest.contains("generated"), "{e}");
}

/// What the compiler says that the scene and its build take.
fn estimate(scene: &Scene) -> (u64, u64) {
    match Compiler::new(0).compile(scene, &Silent) {
        Err(CompileError::Memory { needed, working, .. }) => (needed, working),
        other => panic!("no room was enough: {:?}", other.map(|s| s.generation)),
    }
}

/// One object of a mesh.
fn alone(mesh: TriMesh, params: FieldParams) -> Scene {
    let spec = GeometrySpec { mesh: SourceMesh::new(mesh, "m"), params, method: None, hold_thin: false };
    let edits = [
        material(),
        Edit::AddGeometry { name: None, spec, persistent: false },
        object(Ref::New(1), Ref::New(0), 0.0),
    ];
    Scene::default().apply(1, &edits).unwrap().0
}

#[test]
fn the_estimate_is_never_below_the_field_and_close_to_it() {
    for (mesh, params) in [
        (shapes::cuboid(Vec3::new(0.02, 0.03, 0.04)), coarse(33)),
        (shapes::torus(0.06, 0.02, 32, 16), coarse(40)),
        (shapes::icosphere(0.05, 3), FieldParams { resolution: Resolution::Cell(0.0037), padding: 2 }),
        (shapes::icosphere(0.05, 3), FieldParams { resolution: Resolution::MemoryCap(100_000), padding: 5 }),
    ] {
        let scene = alone(mesh, params);
        let (needed, working) = estimate(&scene);
        let compiler = Compiler::new(needed);
        assert!(matches!(
            Compiler::new(needed - 1).compile(&scene, &Silent),
            Err(CompileError::Memory { .. })
        ));
        let (snapshot, report) = compiler.compile_reported(&scene, &Silent).unwrap();
        let bytes = field(&snapshot, 0).bytes();
        assert_eq!(report.bytes, bytes + scene.mesh_bytes());
        let stays = needed - working;
        assert!(report.bytes <= stays, "{params:?}: the estimate is below the field");
        assert!(stays <= report.bytes + bytes / 2, "{params:?}: the estimate is far above {bytes}");
        assert!(working >= 2 * bytes, "{params:?}");
    }
}

/// The scene with its geometry as the tool.
fn with_tool(scene: &Scene, points: u32) -> Scene {
    let geometry = scene.geometries().next().unwrap().meta.id.into();
    let tool = ToolSpec::Mesh { geometry, scale: Vec3::repeat(1.0), points, offset: Pose::identity() };
    scene.apply(1, &[Edit::SetTool { tool }]).unwrap().0
}

#[test]
fn a_tool_of_spheres_is_compiled_edited_kept_on_disk_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let fresh = || Compiler::with_cache(1 << 30, Cache::open(dir.path(), 1 << 30).0);
    let (scene, ids) = boxes(2);
    let spheres = |scene: &Scene, spheres: u32| {
        let geometry = scene.geometries().next().unwrap().meta.id.into();
        let offset = Pose::identity();
        let tool = ToolSpec::Spheres { geometry, scale: Vec3::repeat(1.0), spheres, offset };
        scene.apply(1, &[Edit::SetTool { tool }]).unwrap().0
    };
    let scene = spheres(&scene, 400);
    let press = |snapshot: &Snapshot, z: f64| {
        let object = snapshot.objects.iter().find(|o| o.id == ids[0]).expect("the first box");
        let (rest, pose) = (Twist::ZERO, Pose::translation(0.0, 0.0, z));
        let query = Query {
            tool: &snapshot.tool.shape,
            tool_pose: &pose,
            tool_twist: &rest,
            object: &object.shape,
            object_pose: &object.pose,
            object_twist: &rest,
            material: &object.material,
        };
        contact::query(&query, Budget::UNLIMITED, &mut QueryState::default())
    };
    let compiler = fresh();
    let watch = Watch::default();
    let (first, report) = compiler.compile_reported(&scene, &watch).unwrap();
    assert_eq!((report.built, report.loaded), (2, 0), "a field and a tree");
    assert!(watch.steps.into_inner() > 4, "the build says how far it is");
    assert!(first.objects.iter().all(|o| matches!(o.shape, ObjectShape::Solid(_))));
    // Equal boxes, 20 x 30 x 40 mm, one a millimetre into the other: 0.6 cubic centimetres.
    let touch = press(&first, 0.039);
    let v = touch.volume.expect("a volume");
    assert!((v / 6e-7 - 1.0).abs() < 0.03 && touch.wrench.force.z > 0.0, "{v} {:?}", touch.wrench);
    assert!(press(&first, 0.0405).distance.is_some_and(|d| (d - 5e-4).abs() < 1e-6));

    // Loaded from disk it answers with the same bits.
    let (second, report) = fresh().compile_reported(&scene, &Silent).unwrap();
    assert_eq!((report.built, report.loaded, report.cache_notes.len()), (0, 2, 0), "{report:?}");
    assert_eq!(format!("{:?}", press(&second, 0.039)), format!("{touch:?}"));

    // More spheres are another tree; an object moved or deleted builds nothing.
    let (_, report) = fresh().compile_reported(&spheres(&scene, 500), &Silent).unwrap();
    assert_eq!((report.built, report.loaded), (1, 1));
    let moved = ObjectPatch { pose: Some(Pose::translation(0.0, 0.0, 0.1)), ..ObjectPatch::default() };
    let (scene, _) = scene.apply(1, &[patch(ids[0], moved)]).unwrap();
    let (third, report) = compiler.compile_reported(&scene, &Silent).unwrap();
    assert_eq!(report.built, 0);
    assert!(!press(&third, 0.039).touching && press(&third, 0.139).touching);
    let (scene, _) = scene.apply(1, &[Edit::RemoveObject { object: ids[0].into() }]).unwrap();
    let (last, report) = compiler.compile_reported(&scene, &Silent).unwrap();
    assert_eq!((report.built, last.objects.len()), (0, 1));

    // A damaged entry is dropped, said so, and made anew.
    for file in std::fs::read_dir(dir.path()).unwrap() {
        let file = file.unwrap().path();
        let mut bytes = std::fs::read(&file).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&file, bytes).unwrap();
    }
    let (_, report) = fresh().compile_reported(&scene, &Silent).unwrap();
    assert_eq!((report.built, report.loaded, report.cache_notes.len()), (2, 0, 2), "{report:?}");
}

/// The scene with its geometry as a tool of spheres.
fn with_spheres(scene: &Scene, spheres: u32) -> Scene {
    let geometry = scene.geometries().next().unwrap().meta.id.into();
    let tool = ToolSpec::Spheres { geometry, scale: Vec3::repeat(1.0), spheres, offset: Pose::identity() };
    scene.apply(1, &[Edit::SetTool { tool }]).unwrap().0
}

/// Objects may be asked by another method than the tool's: then the tool has both structures, and each object is what
/// its method needs.
#[test]
fn each_object_is_asked_by_its_own_method() {
    let (scene, ids) = boxes(2);
    let scene = with_tool(&scene, 2000);
    let compiler = Compiler::new(1 << 30);
    let method = |scene: &Scene, id: u32, method: Method| {
        let change = ObjectPatch { method: Some(method), ..ObjectPatch::default() };
        scene.apply(1, &[patch(id, change)]).unwrap().0
    };
    let before = compiler.compile(&scene, &Silent).unwrap();
    assert!(matches!(before.tool.shape, ToolShape::Shell(_)));

    let mixed = method(&scene, ids[1], Method::Ist);
    assert_ne!(mixed.object(ids[1]).unwrap().incarnation, scene.object(ids[1]).unwrap().incarnation);
    let (snapshot, report) = compiler.compile_reported(&mixed, &Silent).unwrap();
    assert_eq!(report.built, 1, "the tree; points and fields are there");
    let ToolShape::Both(shell, tree) = &snapshot.tool.shape else { panic!("both: {:?}", snapshot.tool) };
    assert!(shell.len > 1000 && tree.spheres > 1000);
    let ask = |snapshot: &Snapshot, id: u32| {
        let object = snapshot.objects.iter().find(|o| o.id == id).expect("a box");
        let pose = Pose::from_parts(
            (object.pose.translation.vector + Vec3::new(0.0, 0.0, 0.035)).into(),
            object.pose.rotation,
        );
        let rest = Twist::ZERO;
        let query = Query {
            tool: &snapshot.tool.shape,
            tool_pose: &pose,
            tool_twist: &rest,
            object: &object.shape,
            object_pose: &object.pose,
            object_twist: &rest,
            material: &object.material,
        };
        contact::query(&query, Budget::UNLIMITED, &mut QueryState::default())
    };
    let (points, spheres) = (ask(&snapshot, ids[0]), ask(&snapshot, ids[1]));
    assert!(points.touching && points.volume.is_none(), "points give no volume");
    // 20 x 30 mm, 5 mm deep.
    assert!(
        spheres.touching && spheres.volume.is_some_and(|v| (v / 3e-6 - 1.0).abs() < 0.03),
        "{:?}",
        spheres.volume
    );
    // The same press on the same box, by either method.
    let (a, b) = (points.wrench.force, spheres.wrench.force);
    assert!((a - b).norm() < 0.05 * a.norm(), "{a:?} {b:?}");

    // Where all ask for the other method, its structure alone is made, and each scene leaves what the next one shares.
    let all = method(&mixed, ids[0], Method::Ist);
    let (snapshot, report) = compiler.compile_reported(&all, &Silent).unwrap();
    assert!(matches!(snapshot.tool.shape, ToolShape::Spheres(_)) && report.built == 0, "{report:?}");
    // The structure that is missing counts under the cap.
    assert!(estimate(&mixed).0 > estimate(&scene).0);
    // A ball has no structure: methods change nothing.
    let ball = Edit::SetTool { tool: ToolSpec::Sphere { radius: 0.005, offset: Pose::identity() } };
    let (ball, _) = mixed.apply(1, &[ball]).unwrap();
    let snapshot = compiler.compile(&ball, &Silent).unwrap();
    assert!(snapshot.objects.iter().all(|o| matches!(o.shape, ObjectShape::Field(_))));
}

/// The example in the documentation.
#[test]
fn the_documented_scene_file_is_one() {
    let page = include_str!("../docs/scenes.md");
    let (_, rest) = page.split_once("```toml scene\n").expect("an example");
    let (text, _) = rest.split_once("```").expect("its end");
    let file = file::SceneFile::parse("docs/scenes.md", text, Path::new("")).expect("it reads");
    let refused =
        file.apply(&Scene::default()).expect_err("a proxy on the mesh has to be allowed").to_string();
    assert!(refused.contains("proxy_on_mesh"), "{refused}");
    let (scene, applied) = file.apply(&allowing()).expect("it holds");
    assert_eq!((scene.objects().len(), file.motions(&applied).len()), (1 + 1 + 6 + 1, 1));
    let (snapshot, report) = Compiler::new(1 << 30).compile_reported(&scene, &Silent).expect("it compiles");
    let of = |name: &str| {
        let id = scene.find_object(&name.into()).expect("it is there");
        snapshot.objects.iter().find(|o| o.id == id).expect("it is felt")
    };
    assert!(matches!(of("pin[2,1,0]").shape, ObjectShape::Sampled(_)));
    assert!(of("sheet").shape.field().cell <= 0.0004, "{}", of("sheet").shape.field().cell);
    assert!(report.warnings.is_empty(), "{report:?}");
}

/// Points are the tool's, or the object's where it is told so or is much the smaller body.
#[test]
fn the_body_with_the_finer_parts_is_sampled() {
    let (scene, ids) = boxes(2);
    let scene = with_tool(&scene, 2000);
    let compiler = Compiler::new(1 << 30);
    let told = |scene: &Scene, id: u32, shell: Shell| {
        scene.apply(1, &[patch(id, ObjectPatch { shell: Some(shell), ..Default::default() })]).unwrap().0
    };
    let sampled = |s: &Snapshot| -> Vec<bool> {
        s.objects.iter().map(|o| matches!(o.shape, ObjectShape::Sampled(_))).collect()
    };
    // Tool and objects are of one size: the tool's points.
    assert_eq!(sampled(&compiler.compile(&scene, &Silent).unwrap()), [false, false]);

    let mixed = told(&scene, ids[1], Shell::Object);
    assert_ne!(mixed.object(ids[1]).unwrap().incarnation, scene.object(ids[1]).unwrap().incarnation);
    let (snapshot, report) = compiler.compile_reported(&mixed, &Silent).unwrap();
    assert_eq!(sampled(&snapshot), [false, true]);
    // The same mesh, sampled for the tool already; its field as the tool's has other cells.
    assert_eq!(report.built, 1, "the tool's field: {report:?}");
    assert!(estimate(&mixed).0 > estimate(&scene).0, "it counts under the cap");
    // Nothing is built again, and the answers to the same press are alike.
    let (again, report) = compiler.compile_reported(&mixed, &Silent).unwrap();
    assert_eq!((report.built, sampled(&again)), (0, vec![false, true]));
    let ask = |id: u32| {
        let object = snapshot.objects.iter().find(|o| o.id == id).expect("a box");
        let pose = object.pose * Pose::translation(0.0, 0.0, 0.035);
        let query = Query {
            tool: &snapshot.tool.shape,
            tool_pose: &pose,
            tool_twist: &Twist::ZERO,
            object: &object.shape,
            object_pose: &object.pose,
            object_twist: &Twist::ZERO,
            material: &object.material,
        };
        contact::query(&query, Budget::UNLIMITED, &mut QueryState::default()).wrench.force
    };
    let (a, b) = (ask(ids[0]), ask(ids[1]));
    assert!(a.z > 1.0 && (a - b).norm() < 0.05 * a.norm(), "{a:?} {b:?}");

    // An object of a fifth of the tool's size has a twenty-fifth of its surface.
    let small = |shell| {
        let scale = Some(Vec3::repeat(0.2));
        let change = ObjectPatch { scale, shell: Some(shell), ..Default::default() };
        scene.apply(1, &[patch(ids[0], change)]).unwrap().0
    };
    assert_eq!(sampled(&compiler.compile(&small(Shell::Auto), &Silent).unwrap()), [true, false]);
    assert_eq!(sampled(&compiler.compile(&small(Shell::Tool), &Silent).unwrap()), [false, false]);
    // Spheres and balls have no such roles.
    let spheres = with_spheres(&mixed, 300);
    assert_eq!(sampled(&compiler.compile(&spheres, &Silent).unwrap()), [false, false]);
    let ball = Edit::SetTool { tool: ToolSpec::Sphere { radius: 0.005, offset: Pose::identity() } };
    let (ball, _) = mixed.apply(1, &[ball]).unwrap();
    assert_eq!(sampled(&compiler.compile(&ball, &Silent).unwrap()), [false, false]);
}

/// A ball's proxy goes along the field, or along the mesh where it is told so: then the surface is kept, and counted.
#[test]
fn the_surface_is_kept_for_the_proxy_that_goes_along_it() {
    let (scene, ids) = boxes(2);
    let compiler = Compiler::new(1 << 30);
    let on = |scene: &Scene, id: u32, proxy: ProxyOn| {
        scene.apply(1, &[patch(id, ObjectPatch { proxy: Some(proxy), ..Default::default() })]).unwrap().0
    };
    let solid = |s: &Snapshot| -> Vec<bool> {
        s.objects.iter().map(|o| matches!(o.shape, ObjectShape::Solid(_))).collect()
    };
    let (snapshot, plain) = compiler.compile_reported(&scene, &Silent).unwrap();
    assert_eq!(solid(&snapshot), [false, false]);
    let meshed = on(&scene, ids[1], ProxyOn::Mesh);
    assert_ne!(meshed.object(ids[1]).unwrap().incarnation, scene.object(ids[1]).unwrap().incarnation);
    let (snapshot, report) = compiler.compile_reported(&meshed, &Silent).unwrap();
    assert_eq!((solid(&snapshot), report.built), (vec![false, true], 0));
    assert!(report.bytes > plain.bytes + 12 * 72, "{report:?} {plain:?}");
    assert!(estimate(&meshed).0 > estimate(&scene).0, "it counts under the cap");
    // To tools that are no balls it says nothing.
    assert_eq!(solid(&compiler.compile(&with_tool(&meshed, 500), &Silent).unwrap()), [false, false]);
    let back = on(&meshed, ids[1], ProxyOn::Field);
    assert_eq!(solid(&compiler.compile(&back, &Silent).unwrap()), [false, false]);
    // A scene that does not fit with it is refused before anything is built.
    let cap = estimate(&meshed).0 - 1;
    assert!(matches!(Compiler::new(cap).compile(&meshed, &Silent), Err(CompileError::Memory { .. })));
    assert!(Compiler::new(cap).compile(&scene, &Silent).is_ok());
}

/// A plate of half a cell: said by default; where it must hold, held by smaller cells, or refused.
#[test]
fn thin_walls_are_held_where_the_geometry_asks_for_it() {
    let plate = |thick: f64, hold_thin: bool| {
        let mesh = SourceMesh::new(shapes::cuboid(Vec3::new(0.04, 0.04, thick)), "plate");
        let params = FieldParams { resolution: Resolution::Cell(0.001), padding: 3 };
        let spec = GeometrySpec { mesh, params, method: None, hold_thin };
        let edits = [
            material(),
            Edit::AddGeometry { name: None, spec, persistent: false },
            object(Ref::New(1), Ref::New(0), 0.0),
        ];
        Scene::default().apply(1, &edits).unwrap().0
    };
    let compile = |scene: &Scene, cap: u64| Compiler::new(cap).compile_reported(scene, &Silent);
    let (snapshot, report) = compile(&plate(0.0005, false), 1 << 30).unwrap();
    assert_eq!(snapshot.objects[0].shape.field().cell, 0.001);
    assert!(report.warnings[0].1.contains("thinnest wall spans 0.50 cells"), "{report:?}");

    let (snapshot, report) = compile(&plate(0.0005, true), 1 << 30).unwrap();
    let field = snapshot.objects[0].shape.field();
    assert!(field.cell <= 0.00025 && field.cell > 0.0002 && report.warnings.is_empty(), "{report:?}");
    assert!(field.depth(&Point::origin()) > 0.4 * 0.00025);
    // Its report counts what was built, not what was asked for.
    assert!(report.bytes >= field.bytes(), "{report:?}");
    // A thick one is left as it is.
    let (snapshot, _) = compile(&plate(0.005, true), 1 << 30).unwrap();
    assert_eq!(snapshot.objects[0].shape.field().cell, 0.001);

    // As much memory as the field that was asked for needs, and a little more.
    let (needed, _) = estimate(&plate(0.0005, true));
    let e = compile(&plate(0.0005, true), needed + 1000).unwrap_err();
    let CompileError::Field { error: FieldError::TooThin { bytes, limit, .. }, .. } = &e else {
        panic!("{e}")
    };
    assert!(*limit <= 1000 && bytes > limit, "{e}");
    assert!(e.to_string().contains("plate"), "{e}");
}

/// What the servo keeps for a tool of spheres beyond fields and spheres stands in the report and under the cap.
#[test]
fn the_surfaces_of_objects_and_tool_count() {
    let scene = alone(shapes::icosphere(0.05, 5), coarse(24));
    let triangles = 20 * 4_u64.pow(5);
    let balls = with_spheres(&scene, 500);
    let compiler = Compiler::new(1 << 30);
    let plain = compiler.compile_reported(&scene, &Silent).unwrap().1.bytes;
    let full = compiler.compile_reported(&balls, &Silent).unwrap().1.bytes;
    // Two trees, each with three corners of three f64 for every triangle.
    assert!(full - plain > 2 * 72 * triangles, "{plain} {full}");
    assert!(estimate(&balls).0 > full, "the cap counts at least what is kept");
    // An object that was there before the tool counts again when the tool asks for its surface.
    assert!(matches!(Compiler::new(full - 1).compile(&balls, &Silent), Err(CompileError::Memory { .. })));
}

/// Counts the bytes of the whole process, for the child below.
struct Weighing;

static HELD: AtomicU64 = AtomicU64::new(0);
static PEAK: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system allocator unchanged.
unsafe impl GlobalAlloc for Weighing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size() as u64, Relaxed) + layout.size() as u64;
        PEAK.fetch_max(held, Relaxed);
        // SAFETY: the caller's contract is ours.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size() as u64, Relaxed);
        // SAFETY: the caller's contract is ours.
        unsafe { System.dealloc(p, layout) }
    }
}

#[global_allocator]
static WEIGHING: Weighing = Weighing;

/// Runs alone in a child; does nothing otherwise.
#[test]
fn in_a_child_that_weighs_builds() {
    if std::env::var_os("HAPTICD_TEST_WEIGH").is_none() {
        return;
    }
    let pin = || shapes::keyed_pin(&shapes::PinShape::default());
    let cases = [
        // Nodes rule, triangles rule, a plate, a given size, a tool.
        alone(shapes::cuboid(Vec3::new(0.02, 0.03, 0.04)), coarse(100)),
        alone(shapes::icosphere(0.05, 6), coarse(24)),
        alone(shapes::cuboid(Vec3::new(0.4, 0.4, 0.04)), coarse(250)),
        alone(pin(), FieldParams { resolution: Resolution::MemoryCap(2_000_000), padding: 4 }),
        with_tool(&alone(pin(), coarse(20)), 20_000),
        with_tool(&alone(pin(), coarse(20)), 33_000),
        // Surfaces rule: those of the object and of the tool are kept beside field and spheres.
        with_spheres(&alone(shapes::icosphere(0.05, 6), coarse(24)), 2000),
    ];
    for (i, scene) in cases.iter().enumerate() {
        let (needed, _) = estimate(scene);
        let dir = tempfile::tempdir().unwrap();
        for disk in [Cache::none(), Cache::open(dir.path(), 1 << 30).0, Cache::open(dir.path(), 1 << 30).0] {
            let compiler = Compiler::with_cache(1 << 30, disk);
            // The meshes are there already.
            let before = HELD.load(Relaxed);
            PEAK.store(before, Relaxed);
            let built = compiler.compile(scene, &Silent).unwrap();
            let taken = PEAK.load(Relaxed) - before + scene.mesh_bytes();
            println!("case {i}: {taken} of {needed} estimated");
            assert!(taken <= needed + (1 << 20), "case {i}: {taken} bytes, {needed} estimated");
            drop(built);
        }
    }
}

#[test]
fn a_build_takes_no_more_memory_than_was_estimated() {
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "in_a_child_that_weighs_builds", "--nocapture", "--test-threads=1"]);
    let out = child.env("HAPTICD_TEST_WEIGH", "1").output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{text}{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(text.matches("estimated").count(), 21, "the child ran nothing: {text}");
}

#[test]
fn builds_at_the_same_time_share_the_cap() {
    /// Holds its build until told.
    struct Held {
        inside: std::sync::mpsc::SyncSender<()>,
        go_on: std::sync::Mutex<std::sync::mpsc::Receiver<()>>,
        once: std::sync::Once,
    }
    impl Progress for Held {
        fn step(&self, _: u64, _: u64) {
            self.once.call_once(|| {
                self.inside.send(()).unwrap();
                self.go_on.lock().unwrap().recv().unwrap();
            });
        }
    }
    let scenes = [0.03, 0.04].map(|edge| alone(shapes::cuboid(Vec3::repeat(edge)), coarse(60)));
    let (needed, _) = estimate(&scenes[0]);
    let compiler = Compiler::new(needed + 1000);
    let (inside, entered) = std::sync::mpsc::sync_channel(1);
    let (go, go_on) = std::sync::mpsc::sync_channel(1);
    let held = Held { inside, go_on: go_on.into(), once: std::sync::Once::new() };
    std::thread::scope(|s| {
        let first = s.spawn(|| compiler.compile(&scenes[0], &held).map(|_| ()));
        entered.recv().unwrap();
        let second = compiler.compile(&scenes[1], &Silent).map(|_| ());
        go.send(()).unwrap();
        assert!(matches!(second, Err(CompileError::Memory { .. })), "{second:?}");
        assert_eq!(first.join().unwrap(), Ok(()));
    });
    // When the first has ended there is room; its field, which this scene does not need, makes way.
    compiler.compile(&scenes[1], &Silent).unwrap();
    assert_eq!(compiler.compile_reported(&scenes[0], &Silent).unwrap().1.built, 1);
}

#[test]
fn a_cancelled_build_says_so_and_leaves_the_compiler_sound() {
    let (scene, _) = boxes(1);
    let compiler = Compiler::new(1 << 30);
    let watch = Watch { cancel: true, ..Default::default() };
    assert_eq!(compiler.compile(&scene, &watch).unwrap_err(), CompileError::Cancelled);
    assert_eq!(compiler.compile_reported(&scene, &Silent).unwrap().1.built, 1);
}

#[test]
fn bounding_balls_hold_the_scaled_geometry_and_mirrors_stay_solid() {
    let mesh = shapes::keyed_pin(&shapes::PinShape::default());
    let (lo, hi) = mesh.bounds().unwrap();
    let scale = Vec3::new(-0.5, 0.5, 0.5);
    let edits = [material(), geometry(mesh.clone(), 48), object(Ref::New(1), Ref::New(0), 0.0)];
    let (scene, applied) = Scene::default().apply(1, &edits).unwrap();
    let id = applied.ids[2].unwrap();
    let (scene, _) =
        scene.apply(1, &[patch(id, ObjectPatch { scale: Some(scale), ..Default::default() })]).unwrap();
    let snapshot = Compiler::new(1 << 30).compile(&scene, &Silent).unwrap();
    let o = &snapshot.objects[0];
    for v in &mesh.vertices {
        let v = nalgebra::Point3::from(v.coords.component_mul(&scale));
        assert!((v - o.bound_centre).norm() <= o.bound_radius * (1.0 + 1e-12));
    }
    assert!(o.bound_radius <= (hi - lo).norm() * 0.25 * (1.0 + 1e-12), "no looser than the box");
    // The axis of the shank is inside, mirrored to +x; the other side is outside.
    let inside = field(&snapshot, 0).depth(&nalgebra::Point3::new(0.05, 0.0, 0.0));
    let outside = field(&snapshot, 0).depth(&nalgebra::Point3::new(-0.05, 0.0, 0.0));
    assert!(inside > 0.01 && outside < 0.0, "{inside} {outside}");
}

#[test]
fn gain_scales_stiffness_and_damping_and_tools_are_sampled() {
    let (scene, ids) = boxes(1);
    let tool = ToolSpec::Mesh {
        geometry: scene.geometries().next().unwrap().meta.id.into(),
        scale: Vec3::repeat(0.5),
        points: 400,
        offset: Pose::translation(0.0, 0.0, 0.01),
    };
    let edits =
        [patch(ids[0], ObjectPatch { gain: Some(0.25), ..Default::default() }), Edit::SetTool { tool }];
    let (scene, _) = scene.apply(1, &edits).unwrap();
    let snapshot = Compiler::new(1 << 30).compile(&scene, &Silent).unwrap();
    let expect = Material { stiffness: 200.0, damping: 0.25, ..STEEL };
    assert_eq!(snapshot.objects[0].material, expect);
    let ToolShape::Shell(shell) = &snapshot.tool.shape else { panic!("a shell") };
    let area: f64 = shell.area.iter().map(|a| f64::from(*a)).sum();
    let exact = 2.0 * (0.01 * 0.015 + 0.015 * 0.02 + 0.02 * 0.01);
    assert!((area - exact).abs() < 1e-4 * exact, "{area} is not {exact}");
    let corner = 0.5 * Vec3::new(0.01, 0.015, 0.02).norm();
    assert!(snapshot.tool.bound_radius <= corner * (1.0 + 1e-6) && snapshot.tool.bound_radius > 0.8 * corner);
    assert_eq!(snapshot.tool.offset, Pose::translation(0.0, 0.0, 0.01));
}

#[test]
fn features_too_thin_for_the_field_are_told() {
    // 0.4 m at 40 cells is a cell of 10 mm; the sheet is 4 mm thin.
    let sheet = shapes::cuboid(Vec3::new(0.4, 0.4, 0.004));
    let edits = [material(), geometry(sheet, 40), object(Ref::New(1), Ref::New(0), 0.0)];
    let (scene, applied) = Scene::default().apply(1, &edits).unwrap();
    let (_, report) = Compiler::new(1 << 30).compile_reported(&scene, &Silent).unwrap();
    assert_eq!(report.warnings.len(), 1, "{report:?}");
    assert_eq!(Some(report.warnings[0].0), applied.ids[1]);
    assert!(report.warnings[0].1.contains("smaller cells"), "{report:?}");
}

// --- scene files ----------------------------------------------------------------------------------------------

fn shipped() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/scenes");
    let mut all: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    all.sort();
    all
}

#[test]
fn every_shipped_scene_file_loads() {
    let names: Vec<_> =
        shipped().iter().map(|p| p.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    assert_eq!(names, ["corner", "effects", "moving", "pin_and_hole", "plane", "sphere", "thousand"]);
    for path in shipped() {
        let loaded = file::load(&path, Limits::default()).unwrap_or_else(|e| panic!("{e}"));
        assert!(loaded.scene.objects().len() + loaded.scene.effects().len() > 0, "{}", path.display());
        assert_eq!(loaded.motions.len(), usize::from(path.ends_with("moving.toml")));
    }
}

#[test]
fn a_mesh_file_is_found_beside_its_scene() {
    let dir = tempfile::tempdir().unwrap();
    let mesh = shapes::cuboid(Vec3::new(20.0, 30.0, 40.0));
    std::fs::write(dir.path().join("box.stl"), shapes::write_stl(&mesh)).unwrap();
    let text = "[meshes.box]\nfile = 'box.stl'\nunit = 'mm'\n";
    std::fs::write(dir.path().join("scene.toml"), text).unwrap();
    let loaded = file::load(&dir.path().join("scene.toml"), Limits::default()).unwrap();
    let (lo, hi) = loaded.scene.geometries().next().unwrap().mesh.mesh.bounds().unwrap();
    assert!((hi - lo - Vec3::new(0.02, 0.03, 0.04)).norm() < 1e-9, "millimetres became metres");
    assert_eq!(loaded.imports[0].0, "box");
}
