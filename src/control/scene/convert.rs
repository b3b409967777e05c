//! Edits from the wire to edits of the model.

use super::source::Reading;
use crate::config::source::number;
use crate::geometry::import::Unit;
use crate::geometry::pose::Vec3;
use crate::geometry::{Pose, field::build::FieldParams, field::build::Resolution as FieldResolution};
use crate::protocol::edit::{
    Edit as Wire, Factors, FrictionJson, MethodName, ObjectRef, PoseJson, ProxyName, Resolution, ShellName,
    TextureJson, ToolJson,
};
use crate::protocol::rpc::{RpcError, codes};
use crate::scene::model::{
    Edit, EditError, EditErrorKind, Friction, GeometrySpec, Material, Method, ObjectPatch, ObjectSpec,
    ProxyOn, Ref, Scene, Shell, SourceMesh, Texture, ToolDef, ToolGeometry, ToolSpec,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Reference area of a material whose client names none: one square centimetre, a fingertip, m^2.
const DEFAULT_AREA: f64 = 1e-4;

fn bad(field: &str, cause: impl Into<String>) -> RpcError {
    RpcError::new(codes::INVALID_PARAMS, cause).field(field)
}

/// Metres per unit.
///
/// # Errors
/// An unknown unit, with the known ones.
pub fn unit(name: &str) -> Result<f64, RpcError> {
    Unit::parse(name).map(Unit::metres).map_err(|e| bad("unit", e.to_string()))
}

/// How to read the mesh of a `mesh.load`; `None` for other edits.
///
/// # Errors
/// Unknown unit, or a scale or tolerance out of range.
pub fn reading(edit: &Wire) -> Result<Option<Reading<'_>>, RpcError> {
    let Wire::MeshLoad { name, format, unit: unit_name, scale, strict, weld_tolerance, .. } = edit else {
        return Ok(None);
    };
    let scale = scale.unwrap_or(1.0);
    if !(1e-9..=1e9).contains(&scale) {
        return Err(bad("scale", format!("{} is outside 1e-9 to 1e9", number(scale))));
    }
    let weld = weld_tolerance.unwrap_or(0.0);
    if !(0.0..=1.0).contains(&weld) {
        return Err(bad("weld_tolerance", format!("{} is outside 0 to 1 m", number(weld))));
    }
    Ok(Some(Reading {
        label: name,
        format: *format,
        metres_per_unit: unit(unit_name)? * scale,
        strict: *strict,
        weld_tolerance: weld,
    }))
}

fn pose(p: &PoseJson, field: &str) -> Result<Pose, RpcError> {
    let p = p.checked().map_err(|e| bad(field, e.to_string()))?;
    let [x, y, z, w] = p.orientation;
    let rotation = nalgebra::UnitQuaternion::from_quaternion(nalgebra::Quaternion::new(w, x, y, z));
    Ok(Pose::from_parts(Vec3::from(p.position).into(), rotation))
}

/// A pose for JSON.
pub fn pose_json(p: &Pose) -> PoseJson {
    let q = p.rotation.coords;
    PoseJson { position: p.translation.vector.into(), orientation: [q.x, q.y, q.z, q.w] }
}

fn friction(f: FrictionJson) -> Friction {
    Friction {
        statics: f.statics,
        dynamic: f.dynamic.unwrap_or(f.statics),
        stribeck: f.stribeck,
        viscous: f.viscous,
    }
}

/// How a material rubs, for JSON; `None` when it does not.
pub fn friction_json(f: &Friction) -> Option<FrictionJson> {
    (*f != Friction::NONE).then_some(FrictionJson {
        statics: f.statics,
        dynamic: Some(f.dynamic),
        stribeck: f.stribeck,
        viscous: f.viscous,
    })
}

/// A texture, for JSON; `None` when there is none.
pub fn texture_json(t: &Texture) -> Option<TextureJson> {
    (*t != Texture::NONE).then_some(TextureJson { height: t.height, wavelength: t.wavelength })
}

fn params(r: Option<Resolution>) -> Option<FieldParams> {
    let resolution = match r? {
        Resolution::Cell(cell) => FieldResolution::Cell(cell),
        Resolution::Longest(n) => FieldResolution::Longest(n),
        Resolution::Bytes(n) => FieldResolution::MemoryCap(n),
    };
    Some(FieldParams { resolution, ..FieldParams::default() })
}

fn object(r: &ObjectRef) -> Ref {
    match r {
        ObjectRef::Id(id) => Ref::Id(*id),
        ObjectRef::Name(name) => Ref::Name(name.clone()),
    }
}

fn factors(s: Option<Factors>) -> Vec3 {
    s.map_or(Vec3::repeat(1.0), |f| Vec3::from(f.each()))
}

/// Converts a whole transaction against the scene to which it will be applied; `meshes[i]` is what edit `i` loads.
///
/// # Errors
/// The first edit that makes no sense, its field named `edits[i].field`.
pub fn edits(
    wire: &[Wire],
    meshes: &[Option<Arc<SourceMesh>>],
    scene: &Scene,
) -> Result<Vec<Edit>, RpcError> {
    // Materials as they will stand when an edit comes to be applied: `material.set` creates or changes.
    let named = scene.materials().filter_map(|m| Some((m.meta.name.as_deref()?.to_owned(), m.material)));
    let mut materials: BTreeMap<String, Material> = named.collect();
    let mut out = Vec::with_capacity(wire.len());
    for (i, w) in wire.iter().enumerate() {
        let mesh = meshes.get(i).cloned().flatten();
        out.push(one(w, mesh, &mut materials).map_err(|e| at(e, i))?);
    }
    Ok(out)
}

/// The same error with the edit's place in front of its field.
pub fn at(mut e: RpcError, index: usize) -> RpcError {
    let data = e.data.get_or_insert_default();
    let field = data.field.take().map_or_else(String::new, |f| format!(".{f}"));
    data.field = Some(format!("edits[{index}]{field}"));
    e
}

/// An edit that was a request of its own: its field as the client sent it, without its place in a list.
pub fn alone(mut e: RpcError) -> RpcError {
    if let Some(field) = e.data.as_mut().and_then(|d| d.field.as_mut()) {
        let bare = field.strip_prefix("edits[0]").map(|f| f.trim_start_matches('.').to_owned());
        *field = bare.unwrap_or_else(|| std::mem::take(field));
    }
    if let Some(data) = e.data.as_mut().filter(|d| d.field.as_deref() == Some("")) {
        data.field = None;
    }
    if let Some((_, rest)) = e.message.strip_prefix("edit 0 (").and_then(|m| m.split_once("): ")) {
        e.message = rest.to_owned();
    }
    e
}

fn one(
    wire: &Wire,
    mesh: Option<Arc<SourceMesh>>,
    materials: &mut BTreeMap<String, Material>,
) -> Result<Edit, RpcError> {
    Ok(match wire {
        Wire::MaterialSet {
            name,
            stiffness,
            reference_area,
            damping,
            friction: rubs,
            texture,
            persistent,
        } => {
            let old = materials.get(name).copied();
            let base = old.unwrap_or(Material {
                stiffness: 0.0,
                reference_area: DEFAULT_AREA,
                damping: 0.0,
                friction: Friction::NONE,
                texture: Texture::NONE,
            });
            let material = Material {
                stiffness: *stiffness,
                reference_area: reference_area.unwrap_or(base.reference_area),
                damping: damping.unwrap_or(base.damping),
                friction: rubs.map_or(base.friction, friction),
                texture: texture
                    .map_or(base.texture, |t| Texture { height: t.height, wavelength: t.wavelength }),
            };
            materials.insert(name.clone(), material);
            match old {
                Some(_) => Edit::SetMaterial { material: Ref::Name(name.clone()), values: material },
                None => Edit::AddMaterial { name: Some(name.clone()), material, persistent: *persistent },
            }
        }
        Wire::MaterialDelete { name } => {
            materials.remove(name);
            Edit::RemoveMaterial { material: Ref::Name(name.clone()) }
        }
        Wire::MeshLoad { name, resolution, hold_thin, persistent, .. } => {
            let mesh = mesh.ok_or_else(|| RpcError::new(codes::INTERNAL, "the mesh was not read"))?;
            let params = params(*resolution).unwrap_or_default();
            let spec = GeometrySpec { mesh, params, method: None, hold_thin: *hold_thin };
            Edit::AddGeometry { name: Some(name.clone()), spec, persistent: *persistent }
        }
        Wire::MeshDelete { name } => Edit::RemoveGeometry { geometry: Ref::Name(name.clone()) },
        Wire::ObjectCreate {
            name,
            mesh,
            material,
            pose: p,
            moving,
            persistent,
            scale,
            resolution,
            method,
            shell,
            proxy,
        } => {
            let spec = ObjectSpec {
                geometry: Ref::Name(mesh.clone()),
                material: Ref::Name(material.clone()),
                pose: pose(p, "pose")?,
                scale: factors(*scale),
                params: params(*resolution),
                method: method.map(contact_method),
                shell: shell.map(sampled).unwrap_or_default(),
                proxy: proxy.map(gone_along).unwrap_or_default(),
                moving: *moving,
            };
            Edit::AddObject { name: Some(name.clone()), spec, persistent: *persistent }
        }
        Wire::ObjectUpdate {
            object: o,
            material,
            pose: p,
            mesh,
            scale,
            resolution,
            method,
            shell,
            proxy,
            moving,
            persistent,
        } => {
            let patch = ObjectPatch {
                geometry: mesh.clone().map(Ref::Name),
                material: material.clone().map(Ref::Name),
                pose: p.map(|p| pose(&p, "pose")).transpose()?,
                scale: scale.map(|f| Vec3::from(f.each())),
                params: params(*resolution),
                method: method.map(contact_method),
                shell: shell.map(sampled),
                proxy: proxy.map(gone_along),
                moving: *moving,
                gain: None,
                persistent: *persistent,
            };
            Edit::SetObject { object: object(o), patch }
        }
        Wire::ObjectDelete { object: o } => Edit::RemoveObject { object: object(o) },
        Wire::EffectSet { name, effect, max_force, persistent } => Edit::SetEffect {
            name: name.clone(),
            effect: super::effect::effect(effect, *max_force),
            persistent: *persistent,
        },
        Wire::EffectDelete { name } => Edit::RemoveEffect { effect: Ref::Name(name.clone()) },
        Wire::ToolSet { tool, device } => {
            let tool = tool_spec(tool)?;
            match device.as_deref() {
                None => Edit::SetTool { tool },
                Some(device) => Edit::SetDeviceTool { device: device.into(), tool },
            }
        }
        Wire::DevicePlace { pose: p, scale, device } => {
            let device_in_scene = p.map(|p| pose(&p, "pose")).transpose()?;
            let workspace_scale = *scale;
            match device.as_deref() {
                None => Edit::SetMapping { device_in_scene, workspace_scale },
                Some(device) => {
                    Edit::SetDeviceMapping { device: device.into(), device_in_scene, workspace_scale }
                }
            }
        }
        Wire::SceneClear {} => {
            materials.clear();
            Edit::Clear
        }
    })
}

fn contact_method(name: MethodName) -> Method {
    match name {
        MethodName::Vps => Method::Vps,
        MethodName::Ist => Method::Ist,
    }
}

fn sampled(name: ShellName) -> Shell {
    match name {
        ShellName::Auto => Shell::Auto,
        ShellName::Tool => Shell::Tool,
        ShellName::Object => Shell::Object,
    }
}

fn gone_along(name: ProxyName) -> ProxyOn {
    match name {
        ProxyName::Field => ProxyOn::Field,
        ProxyName::Mesh => ProxyOn::Mesh,
    }
}

fn tool_spec(tool: &ToolJson) -> Result<ToolSpec, RpcError> {
    let offset = |o: &Option<PoseJson>| pose(&o.unwrap_or_default(), "tool.offset");
    Ok(match tool {
        ToolJson::Sphere { radius, offset: o } => ToolSpec::Sphere { radius: *radius, offset: offset(o)? },
        ToolJson::Spheres { mesh, spheres, scale, offset: o } => ToolSpec::Spheres {
            geometry: Ref::Name(mesh.clone()),
            scale: factors(*scale),
            spheres: spheres.unwrap_or(ToolSpec::SPHERES),
            offset: offset(o)?,
        },
        ToolJson::Mesh { mesh, points, scale, offset: o } => ToolSpec::Mesh {
            geometry: Ref::Name(mesh.clone()),
            scale: factors(*scale),
            points: points.unwrap_or(ToolSpec::POINTS),
            offset: offset(o)?,
        },
    })
}

/// A tool, for JSON, with the names that `mesh` gives.
pub fn tool_json(tool: &ToolDef, mesh: impl Fn(&Arc<SourceMesh>) -> String) -> ToolJson {
    let offset = (tool.offset != Pose::identity()).then(|| pose_json(&tool.offset));
    let factors = |s: &Vec3| (*s != Vec3::repeat(1.0)).then(|| Factors::Each((*s).into()));
    match &tool.geometry {
        ToolGeometry::Sphere(radius) => ToolJson::Sphere { radius: *radius, offset },
        ToolGeometry::Mesh { mesh: m, scale, points } => {
            ToolJson::Mesh { mesh: mesh(m), points: Some(*points), scale: factors(scale), offset }
        }
        ToolGeometry::Spheres { mesh: m, scale, spheres } => {
            ToolJson::Spheres { mesh: mesh(m), spheres: Some(*spheres), scale: factors(scale), offset }
        }
    }
}

/// The model's refusal as an answer.
pub fn refusal(e: &EditError) -> RpcError {
    let code = match e.kind {
        EditErrorKind::NotFound => codes::NOT_FOUND,
        EditErrorKind::Limit => codes::LIMIT,
        EditErrorKind::Invalid | EditErrorKind::Duplicate | EditErrorKind::InUse => codes::REJECTED,
    };
    // The model's names are not always those of the protocol.
    let field = match (e.field, e.edit) {
        ("geometry", "add geometry" | "remove geometry") => "name",
        ("material", "add material" | "set material" | "remove material") => "name",
        ("effect", "remove effect") => "name",
        ("geometry", _) => "mesh",
        ("device_in_scene", _) => "pose",
        ("workspace_scale", _) => "scale",
        ("cell" | "memory" | "padding", _) => "resolution",
        (field, _) => field,
    };
    let named = EditError {
        field,
        cause: e.cause.replace("a geometry", "a mesh").replace("no geometry", "no mesh"),
        ..e.clone()
    };
    at(RpcError::new(code, named.to_string()).field(field), e.index)
}
