//! One scene, several tools: what each device's view of it needs built.

use super::key::{GeometryKey, ToolKey};
use super::store::Built;
use super::{SampledObjects, Want, Wanted, by_surface, sampled, sampled_objects, tools};
use crate::geometry::field::Field;
use crate::scene::model::{Scene, ToolGeometry};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A scene as one device feels it, and what that asks for.
pub(super) struct View<'a> {
    pub(super) scene: &'a Scene,
    pub(super) tools: Vec<ToolGeometry>,
    pub(super) sampled: SampledObjects<'a>,
    /// The tool's field, where points of objects ask it.
    pub(super) tool_field: Option<(GeometryKey, Want<'a>)>,
}

impl<'a> View<'a> {
    pub(super) fn new(scene: &'a Scene) -> Self {
        let sampled = sampled_objects(scene);
        let tool_field = sampled::tool_field(scene).filter(|_| !sampled.is_empty());
        Self { scene, tools: tools(scene), sampled, tool_field }
    }

    /// What tool and sampled objects are made of.
    pub(super) fn keys(&self) -> impl Iterator<Item = ToolKey> + '_ {
        self.tools.iter().chain(self.sampled.values().map(|(_, points)| points)).filter_map(ToolKey::of)
    }

    /// The tool's field, with what is too fine for it.
    pub(super) fn field(
        &self,
        built: &BTreeMap<GeometryKey, Arc<Built>>,
    ) -> Option<(Arc<Field>, Option<String>)> {
        let (key, want) = self.tool_field.as_ref()?;
        let built = built.get(key)?;
        Some((built.field.clone(), built.fine.note(&want.mesh.label)))
    }
}

/// The fields of all objects, and the tools' where they are asked.
pub(super) fn wanted<'a>(views: &[View<'a>]) -> Wanted<'a> {
    let mut all = Wanted::new();
    for view in views {
        let scene = view.scene;
        for o in scene.objects() {
            let Some(def) = scene.geometry(o.geometry) else { continue };
            let want = Want::of(def, o);
            let solid = by_surface(scene, def, o);
            all.entry(GeometryKey::of(&want)).or_insert(want).solid |= solid;
        }
    }
    for (key, want) in views.iter().filter_map(|v| v.tool_field.as_ref()) {
        all.entry(key.clone()).or_insert(*want);
    }
    all
}
