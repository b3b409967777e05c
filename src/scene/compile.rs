//! Model to snapshot: estimate, build what is missing (in memory, on disk, anew), bound, assemble.
//!
//! Built geometry is shared by `Arc` between snapshots and cached under (mesh hash, scale, parameters, method),
//! so that publishing costs O(objects). Runs off the servo thread; nothing here is real-time safe.

mod assemble;
mod key;
mod memory;
mod sampled;
mod store;
#[cfg(test)]
mod tests;
mod thin;
mod views;

use super::cache::{Cache, CacheNote, Source};
use super::model::{GeometryDef, Method, Object, ProxyOn, Scene, Shell, SourceMesh, ToolDef, ToolGeometry};
use super::snapshot::{Snapshot, Tool};
use crate::contact::ToolShape;
use crate::contact::ist::IstParams;
use crate::contact::vps::{PointShell, ShellParams};
use crate::geometry::Vec3;
use crate::geometry::field::build::{FieldError, FieldParams, Progress};
use assemble::{Parts, assemble};
use key::{GeometryKey, ToolKey};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::{Built, Store};
use views::{View, wanted};

/// Why a scene was not compiled. The scene and the cache are as before, apart from finished builds that stay
/// cached.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CompileError {
    /// The scene would not fit.
    #[error(
        "the scene needs about {needed} bytes, {working} of them while it is built, more than the memory cap of \
         {cap}; largest part: {largest}; choose larger cells, or raise scene.memory_cap_mb"
    )]
    Memory {
        /// Estimate of the whole scene and its build, bytes.
        needed: u64,
        /// What only the build takes, this one and those that run at the same time, bytes.
        working: u64,
        /// The cap, bytes.
        cap: u64,
        /// Its largest part, with its size.
        largest: String,
    },
    /// A field could not be built.
    #[error("geometry {id} ({label}): {error}")]
    Field {
        /// Geometry identifier.
        id: u32,
        /// Where its mesh came from.
        label: String,
        /// Cause.
        error: FieldError,
    },
    /// The tool could not be sampled.
    #[error("tool ({label}): {cause}")]
    Tool {
        /// Where its mesh came from.
        label: String,
        /// Cause.
        cause: String,
    },
    /// The tool's field, which the points of objects ask, could not be built.
    #[error("tool ({label}): {error}")]
    ToolField {
        /// Where its mesh came from.
        label: String,
        /// Cause.
        error: FieldError,
    },
    /// An object could not be sampled.
    #[error("geometry {id} ({label}) as points: {cause}")]
    Points {
        /// Geometry identifier.
        id: u32,
        /// Where its mesh came from.
        label: String,
        /// Cause.
        cause: String,
    },
    /// The caller cancelled.
    #[error("the build was cancelled")]
    Cancelled,
}

/// What a compilation did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CompileReport {
    /// Geometries built anew (the tool's shell included).
    pub built: usize,
    /// Geometries found in memory.
    pub reused: usize,
    /// Geometries read from the disk cache.
    pub loaded: usize,
    /// Bytes of the compiled scene's geometry and of the model's meshes.
    pub bytes: u64,
    /// What the user should know about the scene's geometries, by geometry identifier.
    pub warnings: Vec<(u32, String)>,
    /// What went wrong with the disk cache; the compilation did without.
    pub cache_notes: Vec<CacheNote>,
}

/// Compiles scenes. Shared by reference; the cache is behind a lock that is not held during builds.
pub struct Compiler {
    cap: u64,
    disk: Cache,
    store: Mutex<Store>,
}

impl Compiler {
    /// A compiler whose scenes, and the builds that make them, may take up to `cap` bytes together. What an older scene
    /// alone uses comes on top until the servo has left it.
    pub fn new(cap: u64) -> Self {
        Self::with_cache(cap, Cache::none())
    }

    /// The same, with fields kept on disk.
    pub fn with_cache(cap: u64, disk: Cache) -> Self {
        Self { cap, disk, store: Mutex::new(Store::default()) }
    }

    /// The same, with fields kept in up to `size` bytes of files in `dir`, `None` for nowhere. The note says how far the
    /// directory cannot be used.
    pub fn kept(cap: u64, dir: Option<PathBuf>, size: u64) -> (Self, Option<CacheNote>) {
        let (disk, note) = dir.map_or((Cache::none(), None), |dir| Cache::open(dir, size));
        (Self::with_cache(cap, disk), note)
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        // The store is only ever replaced entry by entry, so it is sound after a panic elsewhere.
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compiles a scene; see [`compile_reported`](Self::compile_reported).
    ///
    /// # Errors
    /// [`CompileError`].
    pub fn compile(&self, scene: &Scene, progress: &dyn Progress) -> Result<Snapshot, CompileError> {
        self.compile_reported(scene, progress).map(|(snapshot, _)| snapshot)
    }

    /// Compiles a scene into the snapshot of generation `scene.revision()`. Builds in parallel on rayon's
    /// current pool what is not cached; `progress` counts thousandths of a geometry.
    ///
    /// # Errors
    /// [`CompileError`]; the estimate of memory, that of the build included, is checked before anything is built, and again before
    /// each finer field of a geometry with thin walls that must hold.
    pub fn compile_reported(
        &self,
        scene: &Scene,
        progress: &dyn Progress,
    ) -> Result<(Snapshot, CompileReport), CompileError> {
        let (mut snapshots, report) = self.compile_views(std::slice::from_ref(scene), progress)?;
        // One scene, one snapshot.
        snapshots.pop().map(|s| (s, report)).ok_or(CompileError::Cancelled)
    }

    /// Compiles a scene for several devices: one snapshot each, in the order of `roles`, all of one generation. What they share is built
    /// once and estimated once.
    ///
    /// # Errors
    /// As [`compile_reported`](Self::compile_reported); nothing is compiled for any of them then.
    pub fn compile_for(
        &self,
        scene: &Scene,
        roles: &[String],
        progress: &dyn Progress,
    ) -> Result<(Vec<Snapshot>, CompileReport), CompileError> {
        let views: Vec<Scene> = roles.iter().map(|role| scene.felt_by(role)).collect();
        self.compile_views(&views, progress)
    }

    /// One scene as different devices feel it.
    fn compile_views(
        &self,
        scenes: &[Scene],
        progress: &dyn Progress,
    ) -> Result<(Vec<Snapshot>, CompileReport), CompileError> {
        let mut report = CompileReport::default();
        let views: Vec<View<'_>> = scenes.iter().map(View::new).collect();
        let wanted = wanted(&views);
        let keys: BTreeSet<ToolKey> = views.iter().flat_map(View::keys).collect();
        // Each holds the same meshes.
        let mesh_bytes = scenes.first().map_or(0, Scene::mesh_bytes);
        let reserved = self.reserve(mesh_bytes, &wanted, &keys)?;

        let missing = wanted.keys().filter(|k| !self.store().has(k)).count() as u64;
        let mut at = 0;
        let mut built = BTreeMap::new();
        for (key, want) in &wanted {
            let found = self.store().get(key);
            let one = match found {
                Some(one) => {
                    report.reused += 1;
                    one
                }
                None => {
                    let part = Part { whole: progress, at, of: missing.max(at + 1) };
                    at += 1;
                    let made = Built::new(want, &self.disk, &reserved, &part, &mut report.cache_notes);
                    let (one, source) = made.map_err(|error| match error {
                        FieldError::Cancelled => CompileError::Cancelled,
                        error => want.failed(error),
                    })?;
                    match source {
                        Source::Built => report.built += 1,
                        Source::Disk => report.loaded += 1,
                    }
                    self.store().put(key.clone(), Arc::new(one))
                }
            };
            if let (Some(id), Some(text)) = (want.id, one.fine.note(&want.mesh.label)) {
                report.warnings.push((id, text));
            }
            built.insert(key.clone(), one);
        }
        report.cache_notes.dedup();
        if progress.cancelled() {
            return Err(CompileError::Cancelled);
        }
        let mut solids = BTreeMap::new();
        for (key, want) in wanted.iter().filter(|(_, want)| want.solid) {
            let solid = built.get(key).and_then(|b| b.solid(want, progress));
            solids.insert(key.clone(), solid.ok_or(CompileError::Cancelled)?);
        }
        let (mut keyed, mut shells, mut made) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for view in &views {
            let tool = self.shapes(view, &mut keyed, &mut shells, progress, &mut report)?;
            made.push((view, tool));
        }
        self.store().keep_shapes(keyed);
        report.bytes = mesh_bytes + built.values().map(|b| b.bytes()).sum::<u64>();
        report.bytes += shells.values().map(|p: &Arc<PointShell>| p.memory_bytes() as u64).sum::<u64>();
        let mut snapshots: Vec<Snapshot> = Vec::new();
        for (view, tool) in made {
            let tool_field = view.field(&built);
            if let Some((_, Some(thin))) = &tool_field {
                let sampled = |o: &&Object| o.shell == Shell::Object && view.sampled.contains_key(&o.meta.id);
                let note = format!("the tool, asked by the object's points: {thin}");
                let told: Vec<_> =
                    view.scene.objects().filter(sampled).map(|o| (o.geometry, note.clone())).collect();
                report.warnings.extend(told);
            }
            let parts =
                Parts { built: &built, solids: &solids, sampled: &view.sampled, points: &shells, tool_field };
            let objects = assemble(view.scene, &parts);
            if !snapshots.iter().any(|s| Arc::ptr_eq(&s.tool, &tool)) {
                report.bytes += assemble::bytes(&tool.shape);
            }
            let (scene, mapping) = (view.scene, view.scene.mapping());
            let effects = scene.effects().map(super::model::EffectDef::felt).collect();
            let (place, scale) = (mapping.device_in_scene, mapping.workspace_scale);
            let snapshot = Snapshot::new(scene.revision(), tool, objects, place, scale);
            snapshots.push(snapshot.with_effects(effects));
        }
        self.store().shrink(self.cap, |key| built.contains_key(key));
        Ok((snapshots, report))
    }

    /// The tool of a view; the points of the objects that are sampled come to `points`, by what they are made of.
    fn shapes(
        &self,
        view: &View<'_>,
        keyed: &mut BTreeMap<ToolKey, ToolShape>,
        points: &mut BTreeMap<ToolKey, Arc<PointShell>>,
        progress: &dyn Progress,
        report: &mut CompileReport,
    ) -> Result<Arc<Tool>, CompileError> {
        let mut shapes = Vec::new();
        for geometry in &view.tools {
            shapes.push(self.shape(geometry, keyed, progress, report)?);
        }
        for (def, geometry) in view.sampled.values() {
            if progress.cancelled() {
                return Err(CompileError::Cancelled);
            }
            let shape = self.shape(geometry, keyed, progress, report).map_err(|e| match e {
                CompileError::Tool { label, cause } => CompileError::Points { id: def.meta.id, label, cause },
                e => e,
            })?;
            if let (Some(key), Some(shell)) = (ToolKey::of(geometry), sampled::shell_of(&shape)) {
                points.insert(key, shell.clone());
            }
        }
        Ok(self.tool(view.scene.tool(), shapes))
    }

    /// Finds a shape among those `made` or kept, or makes it.
    fn shape(
        &self,
        geometry: &ToolGeometry,
        made: &mut BTreeMap<ToolKey, ToolShape>,
        progress: &dyn Progress,
        report: &mut CompileReport,
    ) -> Result<ToolShape, CompileError> {
        let Some(key) = ToolKey::of(geometry) else {
            return make(geometry, &self.disk, progress, &mut report.cache_notes).map(|(shape, _)| shape);
        };
        if let Some(shape) = made.get(&key) {
            return Ok(shape.clone());
        }
        let found = self.store().shape(&key);
        let shape = match found {
            Some(shape) => {
                report.reused += 1;
                shape
            }
            None => {
                let (shape, source) = make(geometry, &self.disk, progress, &mut report.cache_notes)?;
                report.cache_notes.dedup();
                match source {
                    Source::Built => report.built += 1,
                    Source::Disk => report.loaded += 1,
                }
                shape
            }
        };
        made.insert(key, shape.clone());
        Ok(shape)
    }

    fn tool(&self, def: &ToolDef, mut shapes: Vec<ToolShape>) -> Arc<Tool> {
        let shape = match (shapes.pop(), shapes.pop()) {
            (Some(ToolShape::Spheres(tree)), Some(ToolShape::Shell(shell)))
            | (Some(ToolShape::Shell(shell)), Some(ToolShape::Spheres(tree))) => ToolShape::Both(shell, tree),
            (Some(shape), _) => shape,
            (None, _) => unreachable!("a tool is made of something"),
        };
        let bound_radius = match &shape {
            ToolShape::Sphere { radius } => *radius,
            ToolShape::Shell(shell) => shell.bound_radius,
            ToolShape::Spheres(tree) => tree.bound_radius,
            ToolShape::Both(shell, tree) => shell.bound_radius.max(tree.bound_radius),
        };
        let tool = Tool { shape, offset: def.offset, bound_radius, incarnation: def.incarnation };
        self.store().share_tool(tool)
    }
}

/// What a scene needs: one entry for each distinct thing to build.
type Wanted<'a> = BTreeMap<GeometryKey, Want<'a>>;

/// A field to build.
#[derive(Clone, Copy)]
struct Want<'a> {
    /// Its geometry; `None` for the tool's field.
    id: Option<u32>,
    mesh: &'a SourceMesh,
    scale: Vec3,
    params: FieldParams,
    /// Its surface is asked too.
    solid: bool,
    /// Thin walls must be in the field.
    hold: bool,
}

impl<'a> Want<'a> {
    fn of(def: &'a GeometryDef, object: &Object) -> Self {
        Self {
            id: Some(def.meta.id),
            mesh: &def.mesh,
            scale: object.scale,
            params: object.params.unwrap_or(def.params),
            solid: false,
            hold: def.hold_thin,
        }
    }

    fn failed(&self, error: FieldError) -> CompileError {
        let label = self.mesh.label.clone();
        match self.id {
            Some(id) => CompileError::Field { id, label, error },
            None => CompileError::ToolField { label, error },
        }
    }
}

/// Objects that are sampled, by identifier: their geometry, and what they are made of.
type SampledObjects<'a> = BTreeMap<u32, (&'a GeometryDef, ToolGeometry)>;

fn sampled_objects(scene: &Scene) -> SampledObjects<'_> {
    let sampled = |o: &Object| {
        let def = scene.geometry(o.geometry)?;
        Some((o.meta.id, (def, sampled::points_of(scene, def, o)?)))
    };
    scene.objects().filter_map(sampled).collect()
}

/// By which method an object is asked: its own, that of its shape, that of the tool. `None` for a tool that is a ball.
fn method(scene: &Scene, def: &GeometryDef, object: &Object) -> Option<Method> {
    let tool = scene.tool().geometry.method()?;
    Some(object.method.or(def.method).unwrap_or(tool))
}

/// Whether an object's triangles are asked, beside its field: by the spheres of a tool, or by the proxy of a ball.
fn by_surface(scene: &Scene, def: &GeometryDef, object: &Object) -> bool {
    match method(scene, def, object) {
        Some(method) => method == Method::Ist,
        None => object.proxy == ProxyOn::Mesh,
    }
}

/// What the tool is to be made of: the structure that it names, and that of the other method where an object asks for it.
fn tools(scene: &Scene) -> Vec<ToolGeometry> {
    let geometry = &scene.tool().geometry;
    let Some(own) = geometry.method() else { return vec![geometry.clone()] };
    let asked: Vec<Method> =
        scene.objects().filter_map(|o| method(scene, scene.geometry(o.geometry)?, o)).collect();
    let other = if own == Method::Vps { Method::Ist } else { Method::Vps };
    let needed = |m: &Method| asked.contains(m) || (*m == own && !asked.contains(&other));
    [own, other].into_iter().filter(needed).filter_map(|m| geometry.made_for(m)).collect()
}

/// Builds what a tool is made of, or loads it.
fn make(
    geometry: &ToolGeometry,
    disk: &Cache,
    progress: &dyn Progress,
    notes: &mut Vec<CacheNote>,
) -> Result<(ToolShape, Source), CompileError> {
    match geometry {
        ToolGeometry::Sphere(radius) => Ok((ToolShape::Sphere { radius: *radius }, Source::Built)),
        ToolGeometry::Mesh { mesh, scale, points } => {
            match PointShell::build(&mesh.scaled(scale), ShellParams::points(*points)) {
                Ok(shell) => Ok((ToolShape::Shell(Arc::new(shell)), Source::Built)),
                Err(e) => Err(CompileError::Tool { label: mesh.label.clone(), cause: e.to_string() }),
            }
        }
        ToolGeometry::Spheres { mesh, scale, spheres } => {
            match disk.sphere_tree(&mesh.scaled(scale), &IstParams::spheres(*spheres), progress, notes) {
                Ok((tree, source)) => Ok((ToolShape::Spheres(Arc::new(tree)), source)),
                Err(_) if progress.cancelled() => Err(CompileError::Cancelled),
                Err(e) => Err(CompileError::Tool { label: mesh.label.clone(), cause: e.to_string() }),
            }
        }
    }
}

/// Progress of one geometry among several.
struct Part<'a> {
    whole: &'a dyn Progress,
    at: u64,
    of: u64,
}

impl Progress for Part<'_> {
    fn step(&self, done: u64, total: u64) {
        let part = (u128::from(done.min(total)) * 1000 / u128::from(total.max(1))) as u64;
        self.whole.step(self.at * 1000 + part, self.of * 1000);
    }

    fn cancelled(&self) -> bool {
        self.whole.cancelled()
    }
}
