//! The editable scene: materials, geometries, objects, tool, device mapping. Control side only.
//!
//! A scene is a value. [`Scene::apply`] takes a transaction, validates all of it on a copy and returns the new
//! scene with one higher revision, or the first error; the old scene is untouched either way. Identifiers are
//! never used twice; servo slots are kept while an object lives and reused afterwards by objects of another
//! incarnation.

mod apply;
mod devices;
mod edit;
mod lookup;
mod parts;
#[cfg(test)]
mod tests;

pub(super) use lookup::check_scale;

pub use edit::{Applied, Edit, EditError, EditErrorKind, ObjectPatch, Ref};
pub use lookup::MAX_POSITION;
pub use parts::{
    DeviceMapping, EffectDef, GeometryDef, GeometrySpec, MaterialDef, Meta, Method, Object, ObjectSpec,
    ProxyOn, Shell, SourceMesh, ToolDef, ToolGeometry, ToolSpec,
};

pub use crate::contact::effect::{Effect, EffectKind};
pub use crate::contact::{Friction, Material, Texture};

use super::snapshot::{MAX_MOVING, MAX_OBJECTS};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Session number of what the daemon itself owns (scene files, configuration).
pub const DAEMON: u64 = 0;

/// What a scene may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Objects, at most [`MAX_OBJECTS`].
    pub objects: usize,
    /// Moving objects, at most [`MAX_MOVING`].
    pub moving: usize,
    /// Materials.
    pub materials: usize,
    /// Geometries.
    pub geometries: usize,
    /// Bytes of the meshes that the model keeps.
    pub mesh_bytes: u64,
    /// Objects may have a ball's proxy on their mesh: on some meshes it falls behind the hand (docs/proxy.md).
    pub proxy_on_mesh: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            objects: MAX_OBJECTS,
            moving: MAX_MOVING,
            materials: 4096,
            geometries: 4096,
            mesh_bytes: 512 << 20,
            proxy_on_mesh: false,
        }
    }
}

/// A scene at one revision. Cheap to clone: meshes and names are shared.
#[derive(Clone, Debug)]
pub struct Scene {
    limits: Limits,
    revision: u64,
    next_id: u32,
    next_incarnation: u32,
    materials: BTreeMap<u32, MaterialDef>,
    geometries: BTreeMap<u32, GeometryDef>,
    objects: BTreeMap<u32, Object>,
    effects: BTreeMap<u32, EffectDef>,
    slots: Slots,
    tool: ToolDef,
    mapping: DeviceMapping,
    /// Tools and places of single devices, by role; the others have the common ones.
    tools: BTreeMap<Arc<str>, ToolDef>,
    mappings: BTreeMap<Arc<str>, DeviceMapping>,
}

impl Default for Scene {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Scene {
    /// An empty scene at revision 1 with a sphere tool of 5 mm.
    pub fn new(limits: Limits) -> Self {
        let limits = Limits {
            objects: limits.objects.min(MAX_OBJECTS),
            moving: limits.moving.min(MAX_MOVING),
            ..limits
        };
        Self {
            limits,
            revision: 1,
            next_id: 1,
            next_incarnation: 2,
            materials: BTreeMap::new(),
            geometries: BTreeMap::new(),
            objects: BTreeMap::new(),
            effects: BTreeMap::new(),
            slots: Slots::default(),
            tool: ToolDef::default(),
            mapping: DeviceMapping::default(),
            tools: BTreeMap::new(),
            mappings: BTreeMap::new(),
        }
    }

    /// What this scene may hold.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Rises by one with each applied transaction; the generation of the snapshot compiled from this scene.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Materials by identifier.
    pub fn materials(&self) -> impl ExactSizeIterator<Item = &MaterialDef> {
        self.materials.values()
    }

    /// Geometries by identifier.
    pub fn geometries(&self) -> impl ExactSizeIterator<Item = &GeometryDef> {
        self.geometries.values()
    }

    /// Objects by identifier.
    pub fn objects(&self) -> impl ExactSizeIterator<Item = &Object> {
        self.objects.values()
    }

    /// Effects by identifier.
    pub fn effects(&self) -> impl ExactSizeIterator<Item = &EffectDef> {
        self.effects.values()
    }

    /// The object of that identifier.
    pub fn object(&self, id: u32) -> Option<&Object> {
        self.objects.get(&id)
    }

    /// The geometry of that identifier.
    pub fn geometry(&self, id: u32) -> Option<&GeometryDef> {
        self.geometries.get(&id)
    }

    /// The material of that identifier.
    pub fn material(&self, id: u32) -> Option<&MaterialDef> {
        self.materials.get(&id)
    }

    /// The tool of every device that has none of its own.
    pub fn tool(&self) -> &ToolDef {
        &self.tool
    }

    /// How the space of a device lies in the scene that has no place of its own.
    pub fn mapping(&self) -> &DeviceMapping {
        &self.mapping
    }

    /// Bytes of the meshes that the model keeps, each shared mesh counted once.
    pub fn mesh_bytes(&self) -> u64 {
        let mut seen = std::collections::BTreeMap::new();
        for g in self.geometries.values() {
            seen.insert(g.mesh.hash, g.mesh.bytes());
        }
        for mesh in self.tools.values().chain([&self.tool]).filter_map(|t| t.geometry.mesh()) {
            seen.insert(mesh.hash, mesh.bytes());
        }
        seen.values().sum()
    }

    /// Validates and applies a whole transaction of `owner` on a copy. Nothing is built here: see
    /// [`Compiler`](super::compile::Compiler).
    ///
    /// # Errors
    /// The first edit that cannot be applied, with the field and the cause; `self` is unchanged in every case.
    pub fn apply(&self, owner: u64, edits: &[Edit]) -> Result<(Self, Applied), EditError> {
        let mut next = self.clone();
        next.revision += 1;
        let mut ids = Vec::with_capacity(edits.len());
        for (index, edit) in edits.iter().enumerate() {
            let id = next.apply_one(owner, edit, &ids).map_err(|e| e.at(index, edit))?;
            ids.push(id);
        }
        let revision = next.revision;
        Ok((next, Applied { ids, revision }))
    }
}

/// Which servo slots and motion slots are taken. The lowest free one is given out.
#[derive(Clone, Debug, Default)]
struct Slots {
    objects: std::collections::BTreeSet<u16>,
    motion: std::collections::BTreeSet<u8>,
}

/// The lowest number below `limit` that is not in `taken`.
fn lowest_free<T: Ord + TryFrom<usize>>(taken: &std::collections::BTreeSet<T>, limit: usize) -> Option<T> {
    if taken.len() >= limit {
        return None;
    }
    (0..limit).filter_map(|i| T::try_from(i).ok()).find(|i| !taken.contains(i))
}
