//! Unit tests of the model: one transaction at a time. Sequences stand in `tests/scene.rs`.

use super::*;
use crate::contact::{Friction, Material, Texture};
use crate::geometry::field::build::{FieldParams, Resolution};
use crate::geometry::{Pose, TriMesh, Vec3, mass, shapes};
use nalgebra::{Quaternion, Unit};

const STEEL: Material = Material {
    stiffness: 800.0,
    reference_area: 1e-4,
    damping: 1.0,
    friction: Friction::NONE,
    texture: Texture::NONE,
};

fn geometry(mesh: TriMesh) -> GeometrySpec {
    let mesh = SourceMesh::new(mesh, "test");
    GeometrySpec { mesh, params: FieldParams::default(), method: None, hold_thin: false }
}

fn add_material(name: &str, material: Material) -> Edit {
    Edit::AddMaterial { name: Some(name.into()), material, persistent: false }
}

fn add_geometry(name: &str, spec: GeometrySpec) -> Edit {
    Edit::AddGeometry { name: Some(name.into()), spec, persistent: false }
}

fn object(geometry: Ref, material: Ref) -> ObjectSpec {
    ObjectSpec {
        geometry,
        material,
        pose: Pose::identity(),
        scale: Vec3::repeat(1.0),
        params: None,
        method: None,
        shell: Shell::Auto,
        proxy: ProxyOn::Field,
        moving: false,
    }
}

fn add_object(spec: ObjectSpec) -> Edit {
    Edit::AddObject { name: None, spec, persistent: false }
}

/// A scene with material "steel", geometry "box" and one object, all of session 5; and the object's identifier.
fn scene() -> (Scene, u32) {
    let edits = [
        add_material("steel", STEEL),
        add_geometry("box", geometry(shapes::cuboid(Vec3::new(0.1, 0.2, 0.3)))),
        add_object(object(Ref::New(1), Ref::New(0))),
    ];
    let (scene, applied) = Scene::default().apply(5, &edits).unwrap();
    let id = applied.ids[2].unwrap();
    (scene, id)
}

fn refused(scene: &Scene, edit: Edit) -> EditError {
    let before = format!("{scene:?}");
    let e = scene.apply(5, &[edit]).expect_err("refused");
    assert_eq!(format!("{scene:?}"), before);
    e
}

#[test]
fn a_transaction_names_what_it_created_and_raises_the_revision_once() {
    let empty = Scene::default();
    let (scene, id) = scene();
    assert_eq!((empty.revision(), scene.revision()), (1, 2));
    assert_eq!(scene.find_object(&Ref::Id(id)), Some(id));
    let o = scene.object(id).unwrap();
    assert_eq!(scene.find_material(&"steel".into()), Some(o.material));
    assert_eq!(scene.find_geometry(&"box".into()), Some(o.geometry));
    assert_eq!((o.meta.owner, o.slot, o.motion, o.gain), (5, 0, None, 1.0));
}

#[test]
fn an_error_names_edit_field_and_cause() {
    let (scene, id) = scene();
    let bad = Material { stiffness: f64::NAN, ..STEEL };
    let edits = [Edit::RemoveObject { object: id.into() }, add_material("rubber", bad)];
    let e = scene.apply(5, &edits).unwrap_err();
    assert_eq!((e.index, e.edit, e.field, e.kind), (1, "add material", "stiffness", EditErrorKind::Invalid));
    assert_eq!(e.to_string(), "edit 1 (add material): stiffness: NaN is outside 0 to 1000000 N/m");
    assert!(scene.object(id).is_some(), "nothing of a refused transaction stays");
}

#[test]
fn every_kind_of_wrong_value_is_refused() {
    use EditErrorKind::*;
    let (scene, id) = scene();
    let patch = |patch| Edit::SetObject { object: id.into(), patch };
    let mut open = shapes::cuboid(Vec3::repeat(0.1));
    open.triangles[0][0] = 99;
    let mut nan = shapes::cuboid(Vec3::repeat(0.1));
    nan.vertices[3].y = f64::NAN;
    let pose = |x: f64| Pose::translation(x, 0.0, 0.0);
    let bent = Pose::from_parts(Default::default(), Unit::new_unchecked(Quaternion::new(1.0, 1.0, 0.0, 0.0)));
    let fine = FieldParams { resolution: Resolution::Longest(100_000), padding: 4 };
    let cases: Vec<(Edit, &str, EditErrorKind)> = vec![
        (add_material("steel", STEEL), "name", Duplicate),
        (add_material("", STEEL), "name", Invalid),
        (add_material("a\nb", STEEL), "name", Invalid),
        (add_material("x", Material { stiffness: -1.0, ..STEEL }), "stiffness", Invalid),
        (add_material("x", Material { reference_area: 0.0, ..STEEL }), "reference_area", Invalid),
        (add_material("x", Material { damping: f64::INFINITY, ..STEEL }), "damping", Invalid),
        (
            add_material("x", Material { friction: Friction::of(f64::NAN), ..STEEL }),
            "friction.static",
            Invalid,
        ),
        (Edit::SetMaterial { material: "wood".into(), values: STEEL }, "material", NotFound),
        (Edit::RemoveMaterial { material: "steel".into() }, "material", InUse),
        (Edit::RemoveGeometry { geometry: "box".into() }, "geometry", InUse),
        (add_geometry("x", geometry(TriMesh::default())), "mesh", Invalid),
        (add_geometry("x", geometry(open)), "mesh", Invalid),
        (add_geometry("x", geometry(nan)), "mesh", Invalid),
        (add_object(object("ball".into(), "steel".into())), "geometry", NotFound),
        (add_object(object("box".into(), Ref::New(7))), "material", NotFound),
        (Edit::RemoveObject { object: 77.into() }, "object", NotFound),
        (patch(ObjectPatch { pose: Some(pose(f64::NAN)), ..Default::default() }), "pose", Invalid),
        (patch(ObjectPatch { pose: Some(pose(1e9)), ..Default::default() }), "pose", Invalid),
        (patch(ObjectPatch { pose: Some(bent), ..Default::default() }), "pose", Invalid),
        (patch(ObjectPatch { scale: Some(Vec3::zeros()), ..Default::default() }), "scale", Invalid),
        (patch(ObjectPatch { gain: Some(1.5), ..Default::default() }), "gain", Invalid),
        (patch(ObjectPatch { params: Some(fine), ..Default::default() }), "resolution", Invalid),
        (sphere(0.0), "radius", Invalid),
        (Edit::SetMapping { device_in_scene: None, workspace_scale: Some(0.0) }, "workspace_scale", Invalid),
        (Edit::FadeOwned { owner: 5, gain: -0.1 }, "gain", Invalid),
    ];
    for (edit, field, kind) in cases {
        let shown = format!("{edit:?}");
        let e = refused(&scene, edit);
        assert_eq!((e.field, e.kind), (field, kind), "{shown}: {e}");
    }
}

fn sphere(radius: f64) -> Edit {
    Edit::SetTool { tool: ToolSpec::Sphere { radius, offset: Pose::identity() } }
}

#[test]
fn only_changes_of_shape_make_a_new_incarnation() {
    let (scene, id) = scene();
    let before = scene.object(id).unwrap().clone();
    let after = |patch| {
        let (scene, _) = scene.apply(9, &[Edit::SetObject { object: id.into(), patch }]).unwrap();
        scene.object(id).unwrap().clone()
    };
    for patch in [
        ObjectPatch { pose: Some(Pose::translation(0.1, 0.0, 0.0)), ..Default::default() },
        ObjectPatch { gain: Some(0.5), ..Default::default() },
        ObjectPatch { moving: Some(true), ..Default::default() },
        ObjectPatch { scale: Some(before.scale), ..Default::default() },
    ] {
        assert_eq!(after(patch).incarnation, before.incarnation);
    }
    for patch in [
        ObjectPatch { scale: Some(Vec3::new(-1.0, 1.0, 1.0)), ..Default::default() },
        ObjectPatch { params: Some(FieldParams { padding: 6, ..Default::default() }), ..Default::default() },
    ] {
        let o = after(patch);
        assert_ne!(o.incarnation, before.incarnation);
        assert_eq!((o.slot, o.meta.owner), (before.slot, 5), "slot and owner stay");
    }
}

#[test]
fn a_freed_slot_is_reused_by_another_incarnation_and_identifier() {
    let (scene, id) = scene();
    let old = scene.object(id).unwrap().clone();
    let edits = [Edit::RemoveObject { object: id.into() }, add_object(object("box".into(), "steel".into()))];
    let (scene, applied) = scene.apply(5, &edits).unwrap();
    let new = scene.object(applied.ids[1].unwrap()).unwrap();
    assert_eq!(new.slot, old.slot);
    assert_ne!(new.meta.id, old.meta.id);
    assert_ne!(new.incarnation, old.incarnation);
}

#[test]
fn limits_hold() {
    let limits = Limits {
        objects: 2,
        moving: 1,
        materials: 1,
        geometries: 1,
        mesh_bytes: 8 * 24 + 12 * 12,
        proxy_on_mesh: false,
    };
    let base = [add_material("m", STEEL), add_geometry("g", geometry(shapes::cuboid(Vec3::repeat(0.1))))];
    let (scene, _) = Scene::new(limits).apply(1, &base).unwrap();
    let moving = || ObjectSpec { moving: true, ..object("g".into(), "m".into()) };
    let still = || object("g".into(), "m".into());
    let (two, _) = scene.apply(1, &[add_object(moving()), add_object(still())]).unwrap();
    for (scene, edit, field) in [
        (&scene, add_material("n", STEEL), "material"),
        (&scene, add_geometry("h", geometry(shapes::cuboid(Vec3::repeat(0.2)))), "geometry"),
        (&two, add_object(still()), "object"),
    ] {
        let e = refused(scene, edit);
        assert_eq!((e.field, e.kind), (field, EditErrorKind::Limit), "{e}");
    }
    let e = scene.apply(1, &[add_object(moving()), add_object(moving())]).unwrap_err();
    assert_eq!((e.index, e.field, e.kind), (1, "moving", EditErrorKind::Limit));
    // A proxy on the mesh is for who asked for it, whether an object begins with it or gets it.
    let meshed = || ObjectSpec { proxy: ProxyOn::Mesh, ..still() };
    let e = refused(&scene, add_object(meshed()));
    assert_eq!((e.field, e.kind), ("proxy", EditErrorKind::Invalid), "{e}");
    assert!(e.cause.contains("proxy_on_mesh"), "{e}");
    let of = two.objects().next().expect("two").meta.id;
    let patch = ObjectPatch { proxy: Some(ProxyOn::Mesh), ..Default::default() };
    let e = refused(&two, Edit::SetObject { object: of.into(), patch });
    assert_eq!((e.field, e.kind), ("proxy", EditErrorKind::Invalid), "{e}");
    let free = Scene::new(Limits { proxy_on_mesh: true, ..Limits::default() }).apply(1, &base).unwrap().0;
    assert!(free.apply(1, &[add_object(meshed())]).is_ok());
    let small = Scene::new(Limits { mesh_bytes: 8 * 24 + 12 * 12 - 1, ..Limits::default() });
    let e = refused(&small, base[1].clone());
    assert_eq!((e.field, e.kind), ("mesh", EditErrorKind::Limit));
}

#[test]
fn a_dead_session_takes_its_parts_but_not_what_others_use_or_what_is_persistent() {
    let (scene, id) = scene();
    let theirs = object("box".into(), "steel".into());
    let kept = Edit::AddObject { name: Some("kept".into()), spec: theirs.clone(), persistent: true };
    let (scene, _) = scene.apply(5, &[kept]).unwrap();
    let (scene, applied) = scene.apply(6, &[add_object(theirs)]).unwrap();
    let other = applied.ids[0].unwrap();
    let (scene, _) = scene.apply(DAEMON, &[Edit::RemoveOwned { owner: 5 }]).unwrap();
    assert!(scene.object(id).is_none(), "session 5's own object goes");
    assert!(scene.object(other).is_some() && scene.find_object(&"kept".into()).is_some());
    assert_eq!((scene.materials().len(), scene.geometries().len()), (1, 1), "in use");
    let keep = Edit::RemoveObject { object: "kept".into() };
    let (scene, _) = scene.apply(7, &[keep]).unwrap();
    let (scene, _) = scene.apply(DAEMON, &[Edit::RemoveOwned { owner: 6 }]).unwrap();
    assert_eq!((scene.objects().len(), scene.materials().len(), scene.geometries().len()), (0, 0, 0));
}

#[test]
fn fading_touches_only_what_would_go() {
    let (scene, id) = scene();
    let kept = Edit::AddObject {
        name: Some("kept".into()),
        spec: object("box".into(), "steel".into()),
        persistent: true,
    };
    let (scene, _) = scene.apply(5, &[kept]).unwrap();
    let (scene, _) = scene.apply(DAEMON, &[Edit::FadeOwned { owner: 5, gain: 0.25 }]).unwrap();
    assert_eq!(scene.object(id).unwrap().gain, 0.25);
    let kept = scene.find_object(&"kept".into()).unwrap();
    assert_eq!(scene.object(kept).unwrap().gain, 1.0);
}

#[test]
fn the_tool_keeps_the_mesh_of_a_removed_geometry() {
    let (scene, id) = scene();
    let tool = ToolSpec::Mesh {
        geometry: "box".into(),
        scale: Vec3::repeat(1.0),
        points: 500,
        offset: Pose::identity(),
    };
    let edits = [
        Edit::SetTool { tool },
        Edit::RemoveObject { object: id.into() },
        Edit::RemoveGeometry { geometry: "box".into() },
    ];
    let before = scene.tool().incarnation;
    let (scene, _) = scene.apply(5, &edits).unwrap();
    assert_eq!(scene.geometries().len(), 0);
    assert!(scene.mesh_bytes() > 0 && scene.tool().incarnation != before);
}

#[test]
fn a_mirrored_mesh_is_still_a_solid_with_the_scaled_volume() {
    let mesh = shapes::torus(0.06, 0.02, 24, 12);
    let volume = mass::mass_properties(&mesh).volume;
    let source = SourceMesh::new(mesh, "torus");
    for s in [Vec3::new(-1.0, 1.0, 1.0), Vec3::new(-2.0, -3.0, 0.5), Vec3::new(-1.0, -1.0, -1.0)] {
        let scaled = mass::mass_properties(&source.scaled(&s)).volume;
        assert!((scaled - volume * s.product().abs()).abs() < 1e-12 * volume, "{s}: {scaled}");
    }
}

#[test]
fn equal_meshes_share_a_hash_and_others_do_not() {
    let a = SourceMesh::new(shapes::cuboid(Vec3::repeat(0.1)), "a");
    let b = SourceMesh::new(shapes::cuboid(Vec3::repeat(0.1)), "b");
    let mut other = shapes::cuboid(Vec3::repeat(0.1));
    other.vertices[0].x = other.vertices[0].x.next_up();
    assert_eq!(a.hash, b.hash);
    assert_ne!(a.hash, SourceMesh::new(other, "c").hash);
    let mut flipped = shapes::cuboid(Vec3::repeat(0.1));
    flipped.triangles[0].swap(1, 2);
    assert_ne!(a.hash, SourceMesh::new(flipped, "d").hash);
}

#[test]
fn effects_belong_to_their_session_and_are_limited() {
    let oil = |strength: f64| {
        let (kind, vector) = (EffectKind::Viscosity, Vec3::zeros());
        let effect = Effect { kind, strength, vector, range: 0.0, max_force: 2.0 };
        Edit::SetEffect { name: "oil".into(), effect, persistent: false }
    };
    let (scene, applied) = Scene::default().apply(7, &[oil(1.0)]).unwrap();
    let id = applied.ids[0].unwrap();
    // The same name: other numbers, the same effect.
    let (scene, applied) = scene.apply(8, &[oil(3.0)]).unwrap();
    assert_eq!((applied.ids[0], scene.effects().len()), (Some(id), 1));
    let e = scene.effects().next().unwrap();
    // Who set it last is who takes it along: not who set it first.
    assert_eq!((e.meta.owner, e.effect.strength, e.gain), (8, 3.0, 1.0));
    let gain = |s: &Scene| s.effects().next().unwrap().felt().gain;
    let (faded, _) = scene.apply(8, &[Edit::FadeOwned { owner: 8, gain: 0.25 }]).unwrap();
    assert_eq!(gain(&faded), 0.25);
    assert_eq!(scene.apply(7, &[Edit::RemoveOwned { owner: 7 }]).unwrap().0.effects().len(), 1);
    assert_eq!(scene.apply(8, &[Edit::RemoveOwned { owner: 8 }]).unwrap().0.effects().len(), 0);
    // Nobody there: it rests, what is left of its time too; until its session is back, or another one sets it.
    let rest = |rest| Edit::RestEffects { owner: 8, rest };
    let (resting, _) = scene.apply(8, &[rest(true), Edit::FadeOwned { owner: 8, gain: 0.9 }]).unwrap();
    assert_eq!(gain(&resting), 0.0);
    assert_eq!(gain(&resting.apply(8, &[rest(false)]).unwrap().0), 1.0);
    let (taken, _) = resting.apply(9, &[oil(2.0)]).unwrap();
    assert_eq!((gain(&taken), taken.effects().next().unwrap().meta.owner), (1.0, 9));
    // What is meant to stay stays.
    let stays = |persistent| match oil(1.0) {
        Edit::SetEffect { name, effect, .. } => Edit::SetEffect { name, effect, persistent },
        other => other,
    };
    let (kept, _) = scene.apply(8, &[stays(true), rest(true)]).unwrap();
    assert_eq!(gain(&kept), 1.0);
    assert_eq!(kept.apply(8, &[Edit::RemoveOwned { owner: 8 }]).unwrap().0.effects().len(), 1);
    assert_eq!(scene.apply(7, &[Edit::Clear]).unwrap().0.effects().len(), 0);
    let gone = Edit::RemoveEffect { effect: "oil".into() };
    assert_eq!(scene.apply(7, std::slice::from_ref(&gone)).unwrap().0.effects().len(), 0);
    assert_eq!(Scene::default().apply(7, &[gone]).unwrap_err().kind, EditErrorKind::NotFound);
    for wrong in [-1.0, 1e9, f64::NAN] {
        assert_eq!(scene.apply(7, &[oil(wrong)]).unwrap_err().field, "damping");
    }
    let many: Vec<Edit> = (0..17)
        .map(|i| match oil(1.0) {
            Edit::SetEffect { effect, .. } => {
                Edit::SetEffect { name: format!("oil {i}"), effect, persistent: true }
            }
            other => other,
        })
        .collect();
    assert!(Scene::default().apply(7, &many[..16]).is_ok());
    assert_eq!(Scene::default().apply(7, &many).unwrap_err().kind, EditErrorKind::Limit);
}
