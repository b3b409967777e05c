//! Which objects are sampled, so that their points ask the tool's field.

use super::key::GeometryKey;
use super::{Want, method};
use crate::contact::ToolShape;
use crate::contact::vps::PointShell;
use crate::geometry::Vec3;
use crate::geometry::field::build::FieldParams;
use crate::scene::model::{GeometryDef, Method, Object, Scene, Shell, SourceMesh, ToolGeometry};
use std::sync::Arc;

/// From this part of the tool's surface on (of the boxes around both) the object is sampled by itself: as many points lie
/// four times closer on it.
const MUCH_SMALLER: f64 = 1.0 / 16.0;

/// True for an object whose points ask the tool's field, if that holds the tool: one too thin for it is felt by its own points, unless
/// the object says otherwise.
fn is_sampled(scene: &Scene, def: &GeometryDef, object: &Object) -> bool {
    let Some((mesh, scale)) = placed(scene) else { return false };
    if method(scene, def, object) != Some(Method::Vps) {
        return false;
    }
    match object.shell {
        Shell::Tool => false,
        Shell::Object => true,
        Shell::Auto => surface(&def.mesh.size, &object.scale) < MUCH_SMALLER * surface(&mesh.size, scale),
    }
}

/// The tool's mesh and its scale; `None` for a ball.
fn placed(scene: &Scene) -> Option<(&Arc<SourceMesh>, &Vec3)> {
    match &scene.tool().geometry {
        ToolGeometry::Sphere(_) => None,
        ToolGeometry::Mesh { mesh, scale, .. } | ToolGeometry::Spheres { mesh, scale, .. } => {
            Some((mesh, scale))
        }
    }
}

/// Surface of a box, m^2.
fn surface(size: &Vec3, scale: &Vec3) -> f64 {
    let s = size.component_mul(&scale.abs());
    2.0 * (s.x * s.y + s.y * s.z + s.z * s.x)
}

/// The tool's field; `None` for a ball.
pub(super) fn tool_field(scene: &Scene) -> Option<(GeometryKey, Want<'_>)> {
    let (mesh, scale) = placed(scene)?;
    let want =
        Want { id: None, mesh, scale: *scale, params: FieldParams::default(), solid: false, hold: false };
    Some((GeometryKey::of(&want), want))
}

/// What a sampled object is made of: as many points as the tool has, or would have.
pub(super) fn points_of(scene: &Scene, def: &GeometryDef, object: &Object) -> Option<ToolGeometry> {
    if !is_sampled(scene, def, object) {
        return None;
    }
    let Some(ToolGeometry::Mesh { points, .. }) = scene.tool().geometry.made_for(Method::Vps) else {
        return None;
    };
    Some(ToolGeometry::Mesh { mesh: def.mesh.clone(), scale: object.scale, points })
}

/// The points of a shape that is some.
pub(super) fn shell_of(shape: &ToolShape) -> Option<&Arc<PointShell>> {
    match shape {
        ToolShape::Shell(shell) => Some(shell),
        _ => None,
    }
}
