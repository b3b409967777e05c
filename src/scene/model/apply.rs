//! Applying one edit to a scene (the working copy of a transaction).

use super::lookup::{
    check_effect, check_material, check_pose, check_scale, fresh_name, invalid, resolve, within,
};
use super::{
    DAEMON, Edit, EditError, EditErrorKind, EffectDef, GeometryDef, GeometrySpec, MaterialDef, Meta, Object,
    ObjectPatch, ObjectSpec, ProxyOn, Ref, Scene, SourceMesh, ToolDef, ToolGeometry, ToolSpec, lowest_free,
};
use crate::contact::effect::MAX_EFFECTS;
use crate::geometry::field::build::{FieldParams, Resolution};
use crate::geometry::pose::finite;
use crate::geometry::{TriMesh, Vec3};
use std::sync::Arc;

/// Most points that a tool may be sampled with.
const MAX_POINTS: u32 = 500_000;
/// Most spheres that a tool may be filled with.
const MAX_SPHERES: u32 = 2_000_000;

fn limit(field: &'static str, cause: String) -> EditError {
    EditError::new(EditErrorKind::Limit, field, cause)
}

fn in_use(field: &'static str, cause: String) -> EditError {
    EditError::new(EditErrorKind::InUse, field, cause)
}

impl Scene {
    /// Applies one edit; `created` holds what the earlier edits of the transaction created.
    pub(super) fn apply_one(
        &mut self,
        owner: u64,
        edit: &Edit,
        created: &[Option<u32>],
    ) -> Result<Option<u32>, EditError> {
        match edit {
            Edit::AddMaterial { name, material, persistent } => {
                check_material(material)?;
                let name = fresh_name(&self.materials, name.as_deref())?;
                room("material", self.materials.len(), self.limits.materials)?;
                let meta = self.meta(name, owner, *persistent)?;
                let id = meta.id;
                self.materials.insert(id, MaterialDef { meta, material: *material });
                return Ok(Some(id));
            }
            Edit::SetMaterial { material, values } => {
                check_material(values)?;
                let id = resolve(&self.materials, material, created)?;
                if let Some(m) = self.materials.get_mut(&id) {
                    m.material = *values;
                }
            }
            Edit::RemoveMaterial { material } => {
                let id = resolve(&self.materials, material, created)?;
                if let Some(o) = self.objects.values().find(|o| o.material == id) {
                    return Err(in_use("material", format!("object {} is made of it", o.meta.id)));
                }
                self.materials.remove(&id);
            }
            Edit::AddGeometry { name, spec, persistent } => {
                check_mesh(&spec.mesh.mesh)?;
                check_params(&spec.params)?;
                let name = fresh_name(&self.geometries, name.as_deref())?;
                room("geometry", self.geometries.len(), self.limits.geometries)?;
                let meta = self.meta(name, owner, *persistent)?;
                let id = meta.id;
                let GeometrySpec { mesh, params, method, hold_thin } = spec.clone();
                self.geometries.insert(id, GeometryDef { meta, mesh, params, method, hold_thin });
                self.check_mesh_bytes()?;
                return Ok(Some(id));
            }
            Edit::RemoveGeometry { geometry } => {
                let id = resolve(&self.geometries, geometry, created)?;
                if let Some(o) = self.objects.values().find(|o| o.geometry == id) {
                    return Err(in_use("geometry", format!("object {} has its shape", o.meta.id)));
                }
                self.geometries.remove(&id);
            }
            Edit::AddObject { name, spec, persistent } => {
                return self.add_object(owner, name.as_deref(), spec, *persistent, created).map(Some);
            }
            Edit::SetObject { object, patch } => {
                let id = resolve(&self.objects, object, created)?;
                self.patch_object(id, patch, created)?;
            }
            Edit::RemoveObject { object } => {
                let id = resolve(&self.objects, object, created)?;
                self.drop_object(id);
            }
            Edit::SetEffect { name, effect, persistent } => {
                check_effect(effect)?;
                if let Ok(id) = resolve(&self.effects, &Ref::Name(name.clone()), created) {
                    if let Some(e) = self.effects.get_mut(&id) {
                        // Whose numbers push is whose life it hangs on.
                        (e.meta.owner, e.meta.persistent) = (owner, *persistent);
                        (e.effect, e.gain) = (*effect, 1.0);
                    }
                    return Ok(Some(id));
                }
                let name = fresh_name(&self.effects, Some(name))?;
                room("effect", self.effects.len(), MAX_EFFECTS)?;
                let meta = self.meta(name, owner, *persistent)?;
                let id = meta.id;
                self.effects.insert(id, EffectDef { meta, effect: *effect, gain: 1.0 });
                return Ok(Some(id));
            }
            Edit::RemoveEffect { effect } => {
                let id = resolve(&self.effects, effect, created)?;
                self.effects.remove(&id);
            }
            Edit::SetTool { tool } => {
                self.tool = self.made_tool(tool, created)?;
                self.tools.clear();
                self.check_mesh_bytes()?;
            }
            Edit::SetDeviceTool { device, tool } => {
                let tool = self.made_tool(tool, created)?;
                self.tools.insert(device.clone(), tool);
                self.check_mesh_bytes()?;
            }
            Edit::SetMapping { device_in_scene, workspace_scale } => {
                self.set_mapping(None, device_in_scene.as_ref(), *workspace_scale)?;
            }
            Edit::SetDeviceMapping { device, device_in_scene, workspace_scale } => {
                self.set_mapping(Some(device), device_in_scene.as_ref(), *workspace_scale)?;
            }
            Edit::FadeOwned { owner, gain } => {
                within("gain", *gain, 0.0, 1.0, "")?;
                let owned =
                    self.objects.values_mut().filter(|o| o.meta.owner == *owner && !o.meta.persistent);
                owned.for_each(|o| o.gain = *gain);
                let owned = self.effects.values_mut();
                let owned = owned.filter(|e| e.meta.owner == *owner && !e.meta.persistent);
                owned.for_each(|e| e.gain = e.gain.min(*gain));
            }
            Edit::RestEffects { owner, rest } => {
                let owned = self.effects.values_mut();
                let owned = owned.filter(|e| e.meta.owner == *owner && !e.meta.persistent);
                owned.for_each(|e| e.gain = if *rest { 0.0 } else { 1.0 });
            }
            Edit::RemoveOwned { owner } => self.remove_owned(*owner),
            Edit::Clear => {
                self.objects.clear();
                self.effects.clear();
                self.slots = super::Slots::default();
                self.materials.clear();
                self.geometries.clear();
            }
        }
        Ok(None)
    }

    fn meta(&mut self, name: Option<Arc<str>>, owner: u64, persistent: bool) -> Result<Meta, EditError> {
        let id = self.next_id;
        self.next_id = id
            .checked_add(1)
            .ok_or_else(|| limit("id", "the daemon has given out all identifiers; restart it".into()))?;
        Ok(Meta { id, name, owner, persistent })
    }

    fn incarnation(&mut self) -> Result<u32, EditError> {
        let n = self.next_incarnation;
        self.next_incarnation = n.checked_add(1).ok_or_else(|| {
            limit("incarnation", "the daemon has given out all incarnations; restart it".into())
        })?;
        Ok(n)
    }

    fn check_mesh_bytes(&self) -> Result<(), EditError> {
        let (have, most) = (self.mesh_bytes(), self.limits.mesh_bytes);
        if have <= most {
            return Ok(());
        }
        Err(limit(
            "mesh",
            format!("the scene's meshes would take {have} bytes, more than the limit of {most}"),
        ))
    }

    fn motion_slot(&mut self) -> Result<u8, EditError> {
        let most = self.limits.moving;
        let slot = lowest_free(&self.slots.motion, most)
            .ok_or_else(|| limit("moving", format!("the scene already holds {most} moving objects")))?;
        self.slots.motion.insert(slot);
        Ok(slot)
    }

    fn add_object(
        &mut self,
        owner: u64,
        name: Option<&str>,
        spec: &ObjectSpec,
        persistent: bool,
        created: &[Option<u32>],
    ) -> Result<u32, EditError> {
        let geometry = resolve(&self.geometries, &spec.geometry, created)?;
        let material = resolve(&self.materials, &spec.material, created)?;
        check_pose("pose", &spec.pose)?;
        check_scale(&spec.scale)?;
        spec.params.as_ref().map_or(Ok(()), check_params)?;
        self.check_proxy(spec.proxy)?;
        let name = fresh_name(&self.objects, name)?;
        room("object", self.objects.len(), self.limits.objects)?;
        let slot = lowest_free(&self.slots.objects, self.limits.objects)
            .ok_or_else(|| limit("object", "no servo slot is free".into()))?;
        let motion = if spec.moving { Some(self.motion_slot()?) } else { None };
        let incarnation = self.incarnation()?;
        let meta = self.meta(name, owner, persistent)?;
        let id = meta.id;
        self.slots.objects.insert(slot);
        let &ObjectSpec { pose, scale, params, method, shell, proxy, .. } = spec;
        let gain = 1.0;
        let object = Object {
            meta,
            incarnation,
            slot,
            motion,
            geometry,
            material,
            pose,
            scale,
            params,
            method,
            shell,
            proxy,
            gain,
        };
        self.objects.insert(id, object);
        Ok(id)
    }

    fn patch_object(
        &mut self,
        id: u32,
        patch: &ObjectPatch,
        created: &[Option<u32>],
    ) -> Result<(), EditError> {
        let mut o = self.objects.get(&id).cloned().ok_or_else(|| invalid("object", "gone"))?;
        let before = (o.geometry, o.scale, o.params, o.method, o.shell, o.proxy);
        if let Some(r) = &patch.geometry {
            o.geometry = resolve(&self.geometries, r, created)?;
        }
        if let Some(r) = &patch.material {
            o.material = resolve(&self.materials, r, created)?;
        }
        if let Some(pose) = patch.pose {
            check_pose("pose", &pose)?;
            o.pose = pose;
        }
        if let Some(scale) = patch.scale {
            check_scale(&scale)?;
            o.scale = scale;
        }
        if let Some(params) = patch.params {
            check_params(&params)?;
            o.params = Some(params);
        }
        o.method = patch.method.or(o.method);
        o.shell = patch.shell.unwrap_or(o.shell);
        if let Some(proxy) = patch.proxy {
            self.check_proxy(proxy)?;
            o.proxy = proxy;
        }
        if let Some(gain) = patch.gain {
            o.gain = within("gain", gain, 0.0, 1.0, "")?;
        }
        if let Some(persistent) = patch.persistent {
            o.meta.persistent = persistent;
        }
        match (patch.moving, o.motion) {
            (Some(true), None) => o.motion = Some(self.motion_slot()?),
            (Some(false), Some(slot)) => {
                self.slots.motion.remove(&slot);
                o.motion = None;
            }
            _ => {}
        }
        if (o.geometry, o.scale, o.params, o.method, o.shell, o.proxy) != before {
            o.incarnation = self.incarnation()?;
        }
        self.objects.insert(id, o);
        Ok(())
    }

    fn check_proxy(&self, proxy: ProxyOn) -> Result<(), EditError> {
        if proxy == ProxyOn::Mesh && !self.limits.proxy_on_mesh {
            return Err(invalid(
                "proxy",
                "'mesh' is off: in fine sockets of nearly the ball's radius it falls behind the hand, docs/proxy.md says how; who has read that \
                 sets [scene] proxy_on_mesh = true in the configuration. Leave proxy out, or say 'field'",
            ));
        }
        Ok(())
    }

    fn drop_object(&mut self, id: u32) {
        if let Some(o) = self.objects.remove(&id) {
            self.slots.objects.remove(&o.slot);
            if let Some(m) = o.motion {
                self.slots.motion.remove(&m);
            }
        }
    }

    fn made_tool(&mut self, tool: &ToolSpec, created: &[Option<u32>]) -> Result<ToolDef, EditError> {
        let (geometry, offset) = match tool {
            ToolSpec::Sphere { radius, offset } => {
                (ToolGeometry::Sphere(within("radius", *radius, 1e-5, 1.0, " m")?), offset)
            }
            ToolSpec::Spheres { geometry, scale, spheres, offset } => {
                let mesh = self.tool_mesh(geometry, scale, created)?;
                if !(1..=MAX_SPHERES).contains(spheres) {
                    return Err(invalid("spheres", format!("{spheres} is outside 1 to {MAX_SPHERES}")));
                }
                (ToolGeometry::Spheres { mesh, scale: *scale, spheres: *spheres }, offset)
            }
            ToolSpec::Mesh { geometry, scale, points, offset } => {
                let mesh = self.tool_mesh(geometry, scale, created)?;
                if !(16..=MAX_POINTS).contains(points) {
                    return Err(invalid("points", format!("{points} is outside 16 to {MAX_POINTS}")));
                }
                (ToolGeometry::Mesh { mesh, scale: *scale, points: *points }, offset)
            }
        };
        check_pose("offset", offset)?;
        Ok(ToolDef { geometry, offset: *offset, incarnation: self.incarnation()? })
    }

    /// The mesh of the geometry that a tool is made from.
    fn tool_mesh(
        &self,
        geometry: &Ref,
        scale: &Vec3,
        created: &[Option<u32>],
    ) -> Result<Arc<SourceMesh>, EditError> {
        let id = resolve(&self.geometries, geometry, created)?;
        let def = self.geometries.get(&id).ok_or_else(|| invalid("geometry", "gone"))?;
        check_scale(scale)?;
        Ok(def.mesh.clone())
    }

    /// Parts of a dead session go; those that others still use become the daemon's and go when unused.
    fn remove_owned(&mut self, owner: u64) {
        let dead = |m: &Meta| m.owner == owner && !m.persistent;
        let gone: Vec<u32> = self.objects.values().filter(|o| dead(&o.meta)).map(|o| o.meta.id).collect();
        gone.into_iter().for_each(|id| self.drop_object(id));
        self.effects.retain(|_, e| !dead(&e.meta));
        let (objects, orphan) = (&self.objects, |m: &Meta| dead(m) || (m.owner == DAEMON && !m.persistent));
        self.materials.retain(|id, m| !orphan(&m.meta) || objects.values().any(|o| o.material == *id));
        self.geometries.retain(|id, g| !orphan(&g.meta) || objects.values().any(|o| o.geometry == *id));
        let left = self.materials.values_mut().map(|m| &mut m.meta);
        let left = left.chain(self.geometries.values_mut().map(|g| &mut g.meta));
        left.filter(|m| dead(m)).for_each(|m| m.owner = DAEMON);
    }
}

fn room(kind: &'static str, have: usize, most: usize) -> Result<(), EditError> {
    if have < most {
        return Ok(());
    }
    Err(limit(kind, format!("the scene already holds {most}, the most it may")))
}

fn check_mesh(mesh: &TriMesh) -> Result<(), EditError> {
    if mesh.triangles.is_empty() {
        return Err(invalid("mesh", "the mesh has no triangles"));
    }
    let n = mesh.vertices.len();
    if mesh.triangles.iter().flatten().any(|i| *i as usize >= n) {
        return Err(invalid("mesh", format!("an index lies beyond the {n} vertices")));
    }
    if mesh.vertices.iter().any(|v| !finite(&v.coords)) {
        return Err(invalid("mesh", "a vertex is not finite"));
    }
    Ok(())
}

fn check_params(p: &FieldParams) -> Result<(), EditError> {
    match p.resolution {
        Resolution::Cell(cell) => {
            within("cell", cell, 1e-6, 10.0, " m")?;
        }
        Resolution::Longest(n) if !(4..=1024).contains(&n) => {
            return Err(invalid(
                "resolution",
                format!("{n} cells along the longest side is outside 4 to 1024"),
            ));
        }
        Resolution::MemoryCap(bytes) if bytes < 1024 => {
            return Err(invalid("memory", format!("{bytes} bytes hold no field; give at least 1024")));
        }
        _ => {}
    }
    if !(2..=64).contains(&p.padding) {
        return Err(invalid("padding", format!("{} cells is outside 2 to 64", p.padding)));
    }
    Ok(())
}
