//! A snapshot's objects, from what was built.

use super::key::{GeometryKey, ToolKey};
use super::store::Built;
use super::{SampledObjects, Want, by_surface};
use crate::contact::ist::Solid;
use crate::contact::roles::Sampled;
use crate::contact::vps::PointShell;
use crate::contact::{Material, ObjectShape, ToolShape};
use crate::geometry::field::Field;
use crate::scene::model::{GeometryDef, Object, Scene, Shell};
use crate::scene::snapshot::SnapshotObject;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What objects are made of.
pub(super) struct Parts<'a> {
    pub(super) built: &'a BTreeMap<GeometryKey, Arc<Built>>,
    pub(super) solids: &'a BTreeMap<GeometryKey, Arc<Solid>>,
    pub(super) sampled: &'a SampledObjects<'a>,
    pub(super) points: &'a BTreeMap<ToolKey, Arc<PointShell>>,
    /// With what is too fine for it.
    pub(super) tool_field: Option<(Arc<Field>, Option<String>)>,
}

impl Parts<'_> {
    /// An object's shape: a solid where the tool's spheres or a ball's proxy ask its surface, points where it is sampled.
    fn shape(&self, scene: &Scene, def: &GeometryDef, o: &Object, key: &GeometryKey) -> Option<ObjectShape> {
        let field = &self.built.get(key)?.field;
        if by_surface(scene, def, o)
            && let Some(solid) = self.solids.get(key)
        {
            return Some(ObjectShape::Solid(solid.clone()));
        }
        let points = self.sampled.get(&o.meta.id).and_then(|(_, made_of)| ToolKey::of(made_of));
        match (points.and_then(|key| self.points.get(&key)), &self.tool_field) {
            (Some(points), Some((tool, thin))) if thin.is_none() || o.shell == Shell::Object => Some(
                ObjectShape::Sampled(Arc::new(Sampled::new(points.clone(), tool.clone(), field.clone()))),
            ),
            _ => Some(ObjectShape::Field(field.clone())),
        }
    }
}

/// The snapshot's objects.
pub(super) fn assemble(scene: &Scene, parts: &Parts<'_>) -> Box<[SnapshotObject]> {
    let mut objects: Vec<SnapshotObject> = scene
        .objects()
        .filter_map(|o| {
            let def = scene.geometry(o.geometry)?;
            let key = GeometryKey::of(&Want::of(def, o));
            let built = parts.built.get(&key)?;
            let m = scene.material(o.material)?.material;
            Some(SnapshotObject {
                id: o.meta.id,
                incarnation: o.incarnation,
                slot: o.slot,
                motion: o.motion,
                pose: o.pose,
                shape: parts.shape(scene, def, o, &key)?,
                material: Material { stiffness: m.stiffness * o.gain, damping: m.damping * o.gain, ..m },
                bound_centre: built.centre,
                bound_radius: built.radius,
            })
        })
        .collect();
    objects.sort_unstable_by_key(|o| o.slot);
    objects.into_boxed_slice()
}

/// Bytes of a tool's geometry.
pub(super) fn bytes(tool: &ToolShape) -> u64 {
    match tool {
        ToolShape::Sphere { .. } => 0,
        ToolShape::Shell(shell) => shell.memory_bytes() as u64,
        ToolShape::Spheres(tree) => tree.memory_bytes() as u64 + tree.surface_bytes(),
        ToolShape::Both(shell, tree) => {
            (shell.memory_bytes() + tree.memory_bytes()) as u64 + tree.surface_bytes()
        }
    }
}
