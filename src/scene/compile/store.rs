//! What was built, kept in memory for the next compilation.

use super::Want;
use super::key::{GeometryKey, ToolKey};
use super::thin::Fineness;
use crate::contact::ToolShape;
use crate::contact::ist::Solid;
use crate::geometry::Point;
use crate::geometry::field::Field;
use crate::geometry::field::build::{FieldError, Progress};
use crate::scene::cache::{Cache, CacheNote, Source};
use crate::scene::snapshot::Tool;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// Memory beyond what was estimated.
pub(super) trait Memory {
    /// Bytes that are left.
    fn spare(&self) -> u64;
    /// Gives back what was set aside and sets other bytes aside, until the compilation ends. False, and nothing done, where they are not
    /// there any more.
    fn swap(&self, given: u64, taken: u64) -> bool;
}

/// A field with what the snapshot needs to know about it.
pub(super) struct Built {
    pub(super) field: Arc<Field>,
    pub(super) fine: Fineness,
    pub(super) centre: Point,
    pub(super) radius: f64,
    /// The field with its surface, once a tool of spheres asked for it.
    pub(super) solid: OnceLock<Arc<Solid>>,
}

impl Built {
    /// Loads or builds the field of the scaled mesh, and a ball around it.
    ///
    /// # Errors
    /// The build's; where thin walls must be held, what [`Fineness::hold`] says, also for memory that is not there.
    pub(super) fn new(
        want: &Want<'_>,
        disk: &Cache,
        memory: &dyn Memory,
        progress: &dyn Progress,
        notes: &mut Vec<CacheNote>,
    ) -> Result<(Self, Source), FieldError> {
        let mesh = want.mesh.scaled(&want.scale);
        let (lo, hi) = mesh.bounds().ok_or(FieldError::Empty)?;
        let centre = nalgebra::center(&lo, &hi);
        let radius = mesh.vertices.iter().map(|v| (v - centre).norm()).fold(0.0, f64::max);
        let (mut field, report, mut source) = disk.field(&mesh, &want.params, progress, notes)?;
        let mut fine = Fineness::of(&mesh, &field, &report);
        let (mut params, mut aside) = (want.params, 0);
        loop {
            let finer = if want.hold { fine.hold(&mesh, &params, &field, memory.spare())? } else { None };
            let Some((finer, needs)) = finer else { break };
            let bytes = needs.field.saturating_add(needs.working);
            if !memory.swap(aside, bytes) {
                // Another build took it: what is left decides.
                continue;
            }
            (params, aside) = (finer, bytes);
            drop(field);
            let next = disk.field(&mesh, &params, progress, notes)?;
            (field, source) = (next.0, next.2);
            fine = Fineness::of(&mesh, &field, &next.1);
        }
        // Before the servo shares it: this may copy it.
        field.advise_large_pages();
        Ok((Self { field: Arc::new(field), fine, centre, radius, solid: OnceLock::new() }, source))
    }

    /// The field joined with the surface that it was built from; built on first use. `None` when cancelled.
    pub(super) fn solid(&self, want: &Want<'_>, progress: &dyn Progress) -> Option<Arc<Solid>> {
        if let Some(solid) = self.solid.get() {
            return Some(solid.clone());
        }
        let mesh = want.mesh.scaled(&want.scale);
        let solid = Solid::new(&mesh, self.field.clone(), &|| progress.cancelled())?;
        Some(self.solid.get_or_init(|| Arc::new(solid)).clone())
    }

    /// Of the field, and of the surface where that is held too.
    pub(super) fn bytes(&self) -> u64 {
        self.field.bytes() + self.solid.get().map_or(0, |s| s.surface_bytes())
    }
}

/// Tools that are kept for the next compilation: no fewer than there are devices.
const TOOLS: usize = 8;

/// Estimate of a shell of that many points, bytes: seven f32 each in two orders, patches, weights of the prefixes, balls.
pub(super) fn shell_bytes(points: usize) -> u64 {
    points as u64 * 72 + 1024
}

/// The memory cache. Least recently used fields that no scene needs go first.
#[derive(Default)]
pub(super) struct Store {
    fields: BTreeMap<GeometryKey, (Arc<Built>, u64)>,
    clock: u64,
    /// What the tools of the last compilation are made of, by method.
    shapes: BTreeMap<ToolKey, ToolShape>,
    /// The tools of the last compilations, newest last.
    tools: Vec<Arc<Tool>>,
    /// Memory set aside for the builds that run, bytes.
    pub(super) reserved: u64,
}

impl Store {
    pub(super) fn has(&self, key: &GeometryKey) -> bool {
        self.fields.contains_key(key)
    }

    pub(super) fn peek(&self, key: &GeometryKey) -> Option<&Arc<Built>> {
        self.fields.get(key).map(|(b, _)| b)
    }

    pub(super) fn get(&mut self, key: &GeometryKey) -> Option<Arc<Built>> {
        self.clock += 1;
        let (built, used) = self.fields.get_mut(key)?;
        *used = self.clock;
        Some(built.clone())
    }

    /// Keeps the field; when another compilation was faster, its field is the one that all share.
    pub(super) fn put(&mut self, key: GeometryKey, built: Arc<Built>) -> Arc<Built> {
        self.clock += 1;
        self.fields.entry(key).or_insert((built, self.clock)).0.clone()
    }

    /// What a tool of the last compilation was made of, when the key is the same.
    pub(super) fn shape(&self, key: &ToolKey) -> Option<ToolShape> {
        self.shapes.get(key).cloned()
    }

    /// Keeps these, and no others.
    pub(super) fn keep_shapes(&mut self, shapes: BTreeMap<ToolKey, ToolShape>) {
        self.shapes = shapes;
    }

    /// A tool of the last compilations when it is the same, so that snapshots share it.
    pub(super) fn share_tool(&mut self, tool: Tool) -> Arc<Tool> {
        let same = |t: &Arc<Tool>| {
            t.incarnation == tool.incarnation && t.offset == tool.offset && same_shape(&t.shape, &tool.shape)
        };
        let known = self.tools.iter().position(same);
        let tool = known.map_or_else(|| Arc::new(tool), |at| self.tools.remove(at));
        if self.tools.len() >= TOOLS {
            self.tools.remove(0);
        }
        self.tools.push(tool.clone());
        tool
    }

    /// Drops least recently used fields that are not needed until all fit into `cap` bytes.
    pub(super) fn shrink(&mut self, cap: u64, needed: impl Fn(&GeometryKey) -> bool) {
        let mut total: u64 = self.fields.values().map(|(b, _)| b.bytes()).sum();
        while total > cap {
            let spare = self.fields.iter().filter(|(k, _)| !needed(k));
            let Some(oldest) = spare.min_by_key(|(_, (_, used))| *used).map(|(k, _)| k.clone()) else {
                return;
            };
            if let Some((gone, _)) = self.fields.remove(&oldest) {
                total -= gone.bytes();
            }
        }
    }
}

fn same_shape(a: &ToolShape, b: &ToolShape) -> bool {
    match (a, b) {
        (ToolShape::Sphere { radius: a }, ToolShape::Sphere { radius: b }) => a == b,
        (ToolShape::Shell(a), ToolShape::Shell(b)) => Arc::ptr_eq(a, b),
        (ToolShape::Spheres(a), ToolShape::Spheres(b)) => Arc::ptr_eq(a, b),
        (ToolShape::Both(a, b), ToolShape::Both(c, d)) => Arc::ptr_eq(a, c) && Arc::ptr_eq(b, d),
        _ => false,
    }
}
