use super::*;
use crate::config::Core;
use crate::geometry::shapes;
use crate::protocol::edit::{MeshFormat, ObjectRef, PoseJson, Resolution};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Keeps what was published.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<(u64, usize, Vec<Moving>)>>>);

impl Publish for Log {
    fn publish(&self, snapshots: Vec<Snapshot>, moving: Vec<Moving>) {
        let snapshot = &snapshots[0];
        self.0.lock().unwrap().push((snapshot.generation, snapshot.objects.len(), moving));
    }
}

impl Log {
    fn generations(&self) -> Vec<u64> {
        self.0.lock().unwrap().iter().map(|p| p.0).collect()
    }
}

fn service(cap: u64) -> (SceneService, Log) {
    let log = Log::default();
    let options = SceneOptions {
        cpus: Cpus::split(Core::Auto).unwrap(),
        build_threads: 1,
        mesh_roots: Vec::new(),
        mesh_bytes: 1 << 20,
        max_edits: 100,
        lock_memory: false,
        roles: vec!["main".into()],
    };
    (SceneService::new(Scene::default(), Compiler::new(cap), options, Box::new(log.clone())), log)
}

fn cube() -> OwnedFd {
    let mut f = tempfile::tempfile().unwrap();
    f.write_all(&shapes::write_stl(&shapes::cuboid(crate::geometry::Vec3::repeat(0.04)))).unwrap();
    f.into()
}

fn load(name: &str, cells: u32) -> Wire {
    Wire::MeshLoad {
        name: name.into(),
        source: MeshSource::Descriptor,
        format: MeshFormat::Stl,
        unit: "m".into(),
        scale: None,
        strict: false,
        weld_tolerance: None,
        resolution: Some(Resolution::Longest(cells)),
        hold_thin: false,
        persistent: false,
    }
}

fn material(name: &str, stiffness: f64) -> Wire {
    Wire::MaterialSet {
        name: name.into(),
        stiffness,
        reference_area: None,
        damping: None,
        friction: None,
        texture: None,
        persistent: false,
    }
}

fn object(name: &str, moving: bool) -> Wire {
    Wire::ObjectCreate {
        name: name.into(),
        mesh: "cube".into(),
        material: "wood".into(),
        pose: PoseJson::default(),
        moving,
        persistent: false,
        scale: None,
        resolution: None,
        method: None,
        shell: None,
        proxy: None,
    }
}

const OWNER: Owner = Owner { session: 7, uid: 1000 };

fn edits(edits: Vec<Wire>) -> Transaction {
    Transaction { edits, expect_generation: None }
}

#[test]
fn a_whole_scene_in_one_transaction_is_published_once() {
    let (s, log) = service(1 << 30);
    let t = edits(vec![load("cube", 16), material("wood", 500.0), object("a", false), object("b", true)]);
    let done = s.transact(OWNER, &t, Some(cube()), &Silent).unwrap();
    assert_eq!(log.generations(), [done.generation]);
    let names: Vec<_> = done.created.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    let moving = log.0.lock().unwrap()[0].2.clone();
    assert_eq!(moving.len(), 1);
    assert_eq!((moving[0].id, moving[0].owner, moving[0].persistent), (done.created[1].id, 7, false));
    assert!(done.notes[0].contains("12 triangles"), "{:?}", done.notes);
}

#[test]
fn whatever_fails_changes_and_publishes_nothing() {
    let (s, log) = service(1 << 30);
    let before = s.info();
    let refused = |t: Transaction, fd: Option<OwnedFd>, code: i32, field: &str| {
        let e = s.transact(OWNER, &t, fd, &Silent).unwrap_err();
        let data = e.data.clone().unwrap();
        assert_eq!((e.code, data.field.as_deref()), (code, Some(field)), "{e}");
        assert_eq!(data.generation, Some(before.generation));
    };
    let full = || vec![load("cube", 16), material("wood", 500.0), object("a", false)];
    let with = |w: Wire| edits(full().into_iter().chain([w]).collect());
    refused(edits(vec![]), None, codes::INVALID_PARAMS, "edits");
    refused(edits(vec![material("x", 1.0); 101]), None, codes::LIMIT, "edits");
    refused(edits(full()), None, codes::DESCRIPTOR, "edits[0].source");
    refused(with(load("second", 16)), Some(cube()), codes::DESCRIPTOR, "edits[3].source");
    refused(with(object("a", false)), Some(cube()), codes::REJECTED, "edits[3].name");
    refused(with(material("y", f64::NAN)), Some(cube()), codes::REJECTED, "edits[3].stiffness");
    let turn = PoseJson { orientation: [0.0, 0.0, 0.0, 1.01], ..PoseJson::default() };
    let update = Wire::ObjectUpdate {
        object: ObjectRef::Name("a".into()),
        material: None,
        pose: Some(turn),
        mesh: None,
        scale: None,
        resolution: None,
        method: None,
        shell: None,
        proxy: None,
        moving: None,
        persistent: None,
    };
    refused(with(update), Some(cube()), codes::INVALID_PARAMS, "edits[3].pose");
    let late = Transaction { edits: full(), expect_generation: Some(99) };
    refused(late, Some(cube()), codes::CONFLICT, "expect_generation");
    assert_eq!(s.info(), before);
    assert!(log.generations().is_empty());
    s.transact(OWNER, &edits(full()), Some(cube()), &Silent).unwrap();
}

#[test]
fn a_scene_over_the_memory_cap_is_refused_before_it_is_built() {
    let (s, log) = service(200_000);
    let t = edits(vec![load("cube", 256), material("wood", 500.0), object("a", false)]);
    let e = s.transact(OWNER, &t, Some(cube()), &Silent).unwrap_err();
    assert_eq!(e.code, codes::LIMIT);
    assert!(log.generations().is_empty());
    let t = edits(vec![load("cube", 16), material("wood", 500.0), object("a", false)]);
    s.transact(OWNER, &t, Some(cube()), &Silent).unwrap();
}

/// Cancels once a stage begins.
struct Cancel(&'static str, AtomicBool);

impl Progress for Cancel {
    fn step(&self, _: u64, _: u64) {}
    fn stage(&self, name: &'static str) {
        self.1.fetch_or(name == self.0, Relaxed);
    }
    fn cancelled(&self) -> bool {
        self.1.load(Relaxed)
    }
}

#[test]
fn a_cancelled_import_or_build_changes_nothing() {
    let (s, log) = service(1 << 30);
    let t = edits(vec![load("cube", 64), material("wood", 500.0), object("a", false)]);
    for stage in ["import", "build"] {
        let e = s.transact(OWNER, &t, Some(cube()), &Cancel(stage, AtomicBool::new(false))).unwrap_err();
        assert_eq!(e.code, codes::CANCELLED);
        assert!(log.generations().is_empty() && s.info().objects.is_empty());
    }
}

#[test]
fn edits_from_many_threads_all_arrive_and_generations_rise() {
    let (s, log) = service(1 << 30);
    let t = edits(vec![load("cube", 8), material("wood", 500.0), object("a", false)]);
    s.transact(OWNER, &t, Some(cube()), &Silent).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let s = &s;
            scope.spawn(move || {
                for i in 0..25 {
                    let name = format!("m{thread}-{i}");
                    s.transact(
                        Owner { session: thread, ..OWNER },
                        &edits(vec![material(&name, 1.0)]),
                        None,
                        &Silent,
                    )
                    .unwrap();
                }
            });
        }
    });
    let g = log.generations();
    assert_eq!(g.len(), 101);
    assert!(g.windows(2).all(|w| w[1] == w[0] + 1), "each generation once, in order");
    assert_eq!(s.info().materials.len(), 101);
}

#[test]
fn the_daemon_fades_and_removes_what_a_session_owned() {
    let (s, _) = service(1 << 30);
    let t = edits(vec![load("cube", 8), material("wood", 500.0), object("a", false)]);
    s.transact(OWNER, &t, Some(cube()), &Silent).unwrap();
    s.apply(7, &[Edit::FadeOwned { owner: 7, gain: 0.5 }]).unwrap();
    assert_eq!(s.scene().objects().next().unwrap().gain, 0.5);
    s.apply(7, &[Edit::RemoveOwned { owner: 7 }]).unwrap();
    let info = s.info();
    assert!(info.objects.is_empty() && info.meshes.is_empty() && info.materials.is_empty());
}

/// Each role's tool and place are told as they were given, over those of all; a deleted mesh by where it came from.
#[test]
fn the_scene_tells_the_tool_and_the_place_of_each_role() {
    use crate::protocol::edit::{Factors, ToolJson};
    let (mut service, _) = service(1 << 30);
    service.options.roles = vec!["left".into(), "right".into()];
    let edit = |edit: Wire, file: Option<OwnedFd>| {
        let t = Transaction { edits: vec![edit], expect_generation: None };
        service.transact(OWNER, &t, file, &Silent).unwrap();
    };
    let at = |x: f64| PoseJson { position: [x, 0.0, 0.0], orientation: [0.0, 0.0, 0.0, 1.0] };
    let ball = |radius| ToolJson::Sphere { radius, offset: None };
    let tool = ToolJson::Mesh {
        mesh: "cube".into(),
        points: Some(500),
        scale: Some(Factors::Each([0.5, 1.0, 0.75])),
        offset: Some(at(0.01)),
    };
    edit(load("cube", 16), Some(cube()));
    edit(Wire::ToolSet { device: None, tool: ball(0.004) }, None);
    edit(Wire::ToolSet { device: Some("right".into()), tool: tool.clone() }, None);
    edit(Wire::DevicePlace { device: None, pose: Some(at(0.1)), scale: Some(2.0) }, None);
    edit(Wire::DevicePlace { device: Some("left".into()), pose: Some(at(0.2)), scale: None }, None);
    let all = service.info().devices;
    let [left, right] = &all[..] else { panic!("{all:?}") };
    assert_eq!((&*left.role, &left.tool, left.pose, left.scale), ("left", &ball(0.004), at(0.2), 2.0));
    assert_eq!((&*right.role, &right.tool, right.pose, right.scale), ("right", &tool, at(0.1), 2.0));
    edit(Wire::MeshDelete { name: "cube".into() }, None);
    let all = service.info().devices;
    assert!(matches!(&all[1].tool, ToolJson::Mesh { points: Some(500), .. }), "it is kept: {all:?}");
}
