//! The scene service: transactions on the model, built off the servo's core, published once.
//!
//! A transaction is applied to a copy, built without any lock, and committed only if the scene has not moved on;
//! otherwise it is applied anew to the newer scene (its geometry is cached by then). Whatever fails leaves the
//! scene as it was.

pub mod convert;
mod effect;
mod info;
mod reading;
pub mod source;
#[cfg(test)]
mod tests;

use super::cpu::Cpus;
use super::motion::Moving;
use crate::geometry::field::build::{Progress, Silent};
use crate::protocol::edit::{Edit as Wire, MeshSource};
use crate::protocol::messages::{Committed, Created, Transaction};
use crate::protocol::rpc::{RpcError, codes, shown};
use crate::scene::compile::{CompileError, CompileReport, Compiler};
use crate::scene::model::{Edit, Object, Scene, SourceMesh};
use crate::scene::snapshot::Snapshot;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Takes what is published: the bridge, or a test.
pub trait Publish: Send + Sync {
    /// A new scene, one snapshot for each device, and its moving objects. Called under the scene's lock, in the order of
    /// generations.
    fn publish(&self, snapshots: Vec<Snapshot>, moving: Vec<Moving>);
}

/// What the service is told once.
#[derive(Clone, Debug)]
pub struct SceneOptions {
    /// The threads that build leave the servo's CPU alone.
    pub cpus: Cpus,
    /// Threads of one build.
    pub build_threads: usize,
    /// Roots below which meshes may be named by path.
    pub mesh_roots: Vec<PathBuf>,
    /// Largest mesh file, bytes.
    pub mesh_bytes: u64,
    /// Most edits in a transaction.
    pub max_edits: usize,
    /// Lock each scene's geometry in memory where the process as a whole could not be.
    pub lock_memory: bool,
    /// Roles of the devices that feel the scene.
    pub roles: Vec<String>,
}

type Compiled = (Vec<Snapshot>, CompileReport);
/// Generation, identifiers created by each edit, warnings.
type Commit = (u64, Vec<Option<u32>>, Vec<String>);
/// What each edit loads.
type Meshes = Vec<Option<Arc<SourceMesh>>>;

/// Who changes the scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Session, to which new parts belong.
    pub session: u64,
    /// User, against whom files that hang count.
    pub uid: u32,
}

/// The scene and everything that changes it.
pub struct SceneService {
    scene: Mutex<Scene>,
    compiler: Compiler,
    options: SceneOptions,
    publish: Box<dyn Publish>,
}

impl SceneService {
    /// A service around a scene; nothing is published until the first change or [`republish`](Self::republish).
    pub fn new(scene: Scene, compiler: Compiler, options: SceneOptions, publish: Box<dyn Publish>) -> Self {
        Self { scene: Mutex::new(scene), compiler, options, publish }
    }

    fn lock(&self) -> MutexGuard<'_, Scene> {
        // The scene is replaced whole, so it is sound whatever panicked.
        self.scene.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The scene as it stands.
    pub fn scene(&self) -> Scene {
        self.lock().clone()
    }

    /// The generation that stands.
    pub fn generation(&self) -> u64 {
        self.lock().revision()
    }

    /// Largest mesh file, bytes.
    pub fn mesh_bytes(&self) -> u64 {
        self.options.mesh_bytes
    }

    /// Applies a client's transaction. Blocks for as long as reading and building take.
    ///
    /// # Errors
    /// The cause, with the field and the generation that stands.
    pub fn transact(
        &self,
        owner: Owner,
        t: &Transaction,
        descriptor: Option<OwnedFd>,
        progress: &dyn Progress,
    ) -> Result<Committed, RpcError> {
        self.transact_if(owner, t, descriptor, progress, &|| Ok(()))
    }

    /// As [`transact`](Self::transact), if `may` agrees at the moment of publishing, too: a build may take its time.
    ///
    /// # Errors
    /// As [`transact`](Self::transact), and what `may` says.
    pub fn transact_if(
        &self,
        owner: Owner,
        t: &Transaction,
        descriptor: Option<OwnedFd>,
        progress: &dyn Progress,
        may: &dyn Fn() -> Result<(), RpcError>,
    ) -> Result<Committed, RpcError> {
        self.attempt(owner, t, descriptor, progress, may).map_err(|e| {
            let stands = self.generation();
            e.generation(stands)
        })
    }

    fn attempt(
        &self,
        owner: Owner,
        t: &Transaction,
        descriptor: Option<OwnedFd>,
        progress: &dyn Progress,
        may: &dyn Fn() -> Result<(), RpcError>,
    ) -> Result<Committed, RpcError> {
        if t.edits.is_empty() {
            return Err(
                RpcError::new(codes::INVALID_PARAMS, "a transaction needs at least one edit").field("edits")
            );
        }
        if t.edits.len() > self.options.max_edits {
            let text = format!("{} edits, more than the limit of {}", t.edits.len(), self.options.max_edits);
            return Err(RpcError::new(codes::LIMIT, text).field("edits"));
        }
        self.check_generation(t, self.generation())?;
        self.check_devices(&t.edits)?;
        // Checked before anything is read: a wrong edit must not cost a build.
        progress.stage("import");
        let (meshes, mut notes) = self.load(&t.edits, descriptor, owner.uid, progress)?;
        progress.stage("build");
        let names = |ids: &[Option<u32>]| {
            let created = t.edits.iter().zip(ids).filter_map(|(e, id)| match (e, id) {
                (Wire::ObjectCreate { name, .. }, Some(id)) => Some(Created { name: name.clone(), id: *id }),
                _ => None,
            });
            created.collect()
        };
        let make = |scene: &Scene| {
            self.check_generation(t, scene.revision())?;
            convert::edits(&t.edits, &meshes, scene)
        };
        let (generation, ids, warnings) =
            self.commit(owner.session, &make, t.edits.iter().any(may_build), progress, may)?;
        notes.extend(warnings);
        Ok(Committed { generation, created: names(&ids), notes })
    }

    fn check_generation(&self, t: &Transaction, stands: u64) -> Result<(), RpcError> {
        match t.expect_generation {
            Some(g) if g != stands => Err(RpcError::new(
                codes::CONFLICT,
                format!("the scene is at generation {stands}, not {g}; read it again"),
            )
            .field("expect_generation")),
            _ => Ok(()),
        }
    }

    fn check_devices(&self, edits: &[Wire]) -> Result<(), RpcError> {
        let unknown = |(i, edit): (usize, &Wire)| {
            let role = edit.device().filter(|role| !self.options.roles.iter().any(|r| r == role))?;
            Some(convert::at(unknown_device(role, &self.options.roles), i))
        };
        edits.iter().enumerate().find_map(unknown).map_or(Ok(()), Err)
    }

    /// Applies edits of the daemon itself (fading, scene files).
    ///
    /// # Errors
    /// As [`transact`](Self::transact).
    pub fn apply(&self, owner: u64, edits: &[Edit]) -> Result<u64, RpcError> {
        self.commit(owner, &|_| Ok(edits.to_vec()), false, &Silent, &|| Ok(()))
            .map(|(generation, ..)| generation)
    }

    /// Publishes the scene again under a new generation (a device came back and has felt nothing yet).
    ///
    /// # Errors
    /// As [`transact`](Self::transact).
    pub fn republish(&self) -> Result<u64, RpcError> {
        self.apply(crate::scene::model::DAEMON, &[])
    }

    fn commit(
        &self,
        owner: u64,
        make: &dyn Fn(&Scene) -> Result<Vec<Edit>, RpcError>,
        builds: bool,
        progress: &dyn Progress,
        may: &dyn Fn() -> Result<(), RpcError>,
    ) -> Result<Commit, RpcError> {
        // First without the lock: this is where building happens.
        let base = self.scene();
        let (next, applied) = base.apply(owner, &make(&base)?).map_err(|e| convert::refusal(&e))?;
        let compiled = if builds { self.build(&next, progress)? } else { self.compile(&next, progress)? };
        let warnings = notes(&compiled.1, &base, &next);
        let mut stands = self.lock();
        let ((snapshots, _), next, applied) = if stands.revision() == base.revision() {
            (compiled, next, applied)
        } else {
            // Somebody committed meanwhile. What was built is cached, so this is quick.
            let (next, applied) = stands.apply(owner, &make(&stands)?).map_err(|e| convert::refusal(&e))?;
            (self.compile(&next, progress)?, next, applied)
        };
        may()?;
        let moving = moving(&next);
        *stands = next;
        self.publish.publish(snapshots, moving);
        Ok((applied.revision, applied.ids, warnings))
    }

    /// Compiles on a pool of its own: in a shared one a small build would wait for a large one to end.
    fn build(&self, scene: &Scene, progress: &dyn Progress) -> Result<Compiled, RpcError> {
        let cpus = self.options.cpus.clone();
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(self.options.build_threads.max(1))
            .thread_name(|i| format!("build-{i}"))
            .start_handler(move |_| cpus.leave_servo_alone())
            .build()
            .map_err(|e| RpcError::new(codes::LIMIT, format!("no threads for the build: {e}")))?;
        pool.install(|| self.compile(scene, progress))
    }

    fn compile(&self, scene: &Scene, progress: &dyn Progress) -> Result<Compiled, RpcError> {
        let compiled = self.compiler.compile_for(scene, &self.options.roles, progress);
        let compiled = compiled.map_err(|e| failure(&e))?;
        let (snapshots, report) = &compiled;
        for note in &report.cache_notes {
            tracing::warn!("{note}");
        }
        // Once for what is new, before any scene with it stands: the servo must meet no page for the first time. A limit
        // that is too low is told by the report of the real-time set-up; the scene works all the same.
        if self.options.lock_memory
            && report.built + report.loaded > 0
            && let Err(e) = snapshots.iter().try_for_each(crate::servo::handle::lock_snapshot)
        {
            tracing::debug!("the scene's memory is not locked: {e}");
        }
        Ok(compiled)
    }

    fn load(
        &self,
        edits: &[Wire],
        mut descriptor: Option<OwnedFd>,
        uid: u32,
        progress: &dyn Progress,
    ) -> Result<(Meshes, Vec<String>), RpcError> {
        let readings: Vec<_> = edits
            .iter()
            .enumerate()
            .map(|(i, e)| convert::reading(e).map_err(|x| convert::at(x, i)))
            .collect();
        let (mut meshes, mut notes) = (Vec::with_capacity(edits.len()), Vec::new());
        for (i, (edit, reading)) in edits.iter().zip(readings).enumerate() {
            let (Some(reading), Wire::MeshLoad { source, .. }) = (reading?, edit) else {
                meshes.push(None);
                continue;
            };
            let mut one = || {
                let limit = self.options.mesh_bytes;
                let file = match source {
                    MeshSource::Path(path) => source::open(path, &self.options.mesh_roots, limit)?,
                    MeshSource::Descriptor => {
                        let missing = "no descriptor came with this request (one serves one mesh); pass it by \
                                       SCM_RIGHTS in the same sendmsg as the line";
                        let fd = descriptor
                            .take()
                            .ok_or_else(|| RpcError::new(codes::DESCRIPTOR, missing).field("source"))?;
                        source::accept(fd, limit)?
                    }
                };
                source::parse(&reading::read(file, limit, uid, progress)?, &reading, progress)
            };
            let (mesh, note) = one().map_err(|e| convert::at(e, i))?;
            meshes.push(Some(mesh));
            notes.push(note);
        }
        Ok((meshes, notes))
    }
}

/// Whether an edit may need geometry that is not built yet.
pub fn may_build(edit: &Wire) -> bool {
    match edit {
        Wire::MeshLoad { .. } | Wire::ObjectCreate { .. } | Wire::ToolSet { .. } => true,
        Wire::ObjectUpdate { mesh, scale, resolution, method, shell, proxy, .. } => {
            let sampled = resolution.is_some() || method.is_some() || shell.is_some();
            mesh.is_some() || scale.is_some() || sampled || proxy.is_some()
        }
        _ => false,
    }
}

/// A role that no device has.
pub(super) fn unknown_device(role: &str, known: &[String]) -> RpcError {
    let text = format!("there is no device '{}'; there is: {}", shown(role), known.join(", "));
    RpcError::new(codes::NOT_FOUND, text).field("device")
}

fn failure(e: &CompileError) -> RpcError {
    let code = match e {
        CompileError::Cancelled => codes::CANCELLED,
        CompileError::Memory { .. } => codes::LIMIT,
        CompileError::Field { .. }
        | CompileError::Tool { .. }
        | CompileError::ToolField { .. }
        | CompileError::Points { .. } => codes::REJECTED,
    };
    RpcError::new(code, e.to_string())
}

/// What the author of a change should know: about geometry that it brings in, and about the disk cache.
fn notes(report: &CompileReport, before: &Scene, after: &Scene) -> Vec<String> {
    let same = |b: &Object, o: &Object| (b.geometry, b.scale, b.params) == (o.geometry, o.scale, o.params);
    // Mostly it is the object itself that had it before; only for others all are looked through.
    let known = |o: &Object| {
        before.object(o.meta.id).is_some_and(|b| same(b, o)) || before.objects().any(|b| same(b, o))
    };
    let news = |id: u32| after.objects().any(|o| o.geometry == id && !known(o));
    let warnings = report.warnings.iter().filter(|(id, _)| news(*id)).map(|(_, text)| text.clone());
    warnings.chain(report.cache_notes.iter().map(ToString::to_string)).collect()
}

fn moving(scene: &Scene) -> Vec<Moving> {
    let all = scene.objects().filter_map(|o| {
        Some(Moving {
            index: o.motion?,
            id: o.meta.id,
            incarnation: o.incarnation,
            owner: o.meta.owner,
            persistent: o.meta.persistent,
        })
    });
    all.collect()
}
