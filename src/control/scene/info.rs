//! The scene as `scene` requests show it.

use super::{
    SceneService,
    convert::{friction_json, pose_json, texture_json, tool_json},
    effect::effect_json,
};
use crate::protocol::messages::{DeviceInfo, EffectInfo, MaterialInfo, ObjectInfo, SceneInfo};
use crate::scene::model::{Meta, Scene, SourceMesh};
use std::sync::Arc;

impl SceneService {
    /// Everything in the scene.
    pub fn info(&self) -> SceneInfo {
        describe(&self.scene(), &self.options.roles)
    }
}

fn name(meta: &Meta) -> String {
    meta.name.as_deref().map_or_else(|| meta.id.to_string(), str::to_owned)
}

fn describe(scene: &Scene, roles: &[String]) -> SceneInfo {
    let material = |id| scene.material(id).map_or_else(String::new, |m| name(&m.meta));
    let mesh = |id| scene.geometry(id).map_or_else(String::new, |g| name(&g.meta));
    SceneInfo {
        generation: scene.revision(),
        materials: scene
            .materials()
            .map(|m| MaterialInfo {
                name: name(&m.meta),
                stiffness: m.material.stiffness,
                reference_area: m.material.reference_area,
                damping: m.material.damping,
                friction: friction_json(&m.material.friction),
                texture: texture_json(&m.material.texture),
            })
            .collect(),
        meshes: scene.geometries().map(|g| name(&g.meta)).collect(),
        objects: scene
            .objects()
            .map(|o| ObjectInfo {
                id: o.meta.id,
                name: name(&o.meta),
                mesh: mesh(o.geometry),
                material: material(o.material),
                pose: pose_json(&o.pose),
                moving: o.motion.is_some(),
                persistent: o.meta.persistent,
                session: o.meta.owner,
            })
            .collect(),
        effects: scene
            .effects()
            .map(|e| EffectInfo {
                name: name(&e.meta),
                effect: effect_json(&e.effect),
                max_force: e.effect.max_force,
                persistent: e.meta.persistent,
                session: e.meta.owner,
            })
            .collect(),
        devices: roles.iter().map(|role| device(&scene.felt_by(role), role)).collect(),
    }
}

/// What that device has in the scene as it feels it.
fn device(scene: &Scene, role: &str) -> DeviceInfo {
    let (tool, place) = (scene.tool(), scene.mapping());
    // It keeps its mesh when that is deleted or loaded anew: then all that is left is where the mesh came from.
    let mesh = |mesh: &Arc<SourceMesh>| {
        let same = scene.geometries().find(|g| Arc::ptr_eq(&g.mesh, mesh));
        same.map_or_else(|| mesh.label.clone(), |g| name(&g.meta))
    };
    DeviceInfo {
        role: role.into(),
        tool: tool_json(tool, mesh),
        pose: pose_json(&place.device_in_scene),
        scale: place.workspace_scale,
    }
}
