//! The memory cap: what a scene and its build take is estimated, checked and set aside before anything is built.

use super::key::{self, ToolKey};
use super::store::Memory;
use super::{CompileError, Compiler, Wanted};
use crate::contact::ist::Solid;
use std::cell::Cell;
use std::collections::BTreeSet;

/// Memory set aside for a build; given back when dropped.
pub(super) struct Reserved<'a> {
    compiler: &'a Compiler,
    wanted: &'a Wanted<'a>,
    /// What is there already and stays, bytes.
    there: u64,
    bytes: Cell<u64>,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.compiler.store().reserved -= self.bytes.get();
    }
}

impl Memory for Reserved<'_> {
    fn spare(&self) -> u64 {
        self.compiler.cap.saturating_sub(self.there).saturating_sub(self.compiler.store().reserved)
    }

    fn swap(&self, given: u64, taken: u64) -> bool {
        let mut store = self.compiler.store();
        let reserved = store.reserved.saturating_sub(given).saturating_add(taken);
        let fits = self.there.saturating_add(reserved) <= self.compiler.cap;
        if fits {
            self.bytes.set((self.bytes.get().saturating_sub(given)).saturating_add(taken));
            store.reserved = reserved;
            store.shrink(self.compiler.cap - self.there - reserved, |key| self.wanted.contains_key(key));
        }
        fits
    }
}

impl Compiler {
    /// Refuses a scene that would not fit while it is built, beside the builds that run already. Drops from memory what
    /// no scene needs where the build needs the room.
    pub(super) fn reserve<'a>(
        &'a self,
        mesh_bytes: u64,
        wanted: &'a Wanted<'a>,
        tool: &BTreeSet<ToolKey>,
    ) -> Result<Reserved<'a>, CompileError> {
        let mut store = self.store();
        let shapes = tool.iter().map(ToolKey::bytes).fold(0, u64::saturating_add);
        let stays = mesh_bytes.saturating_add(shapes);
        let (mut fields, mut missing) = (0u64, 0u64);
        // One thing is built after the other.
        let new_tool = tool.iter().filter(|key| store.shape(key).is_none());
        let mut working = new_tool.map(ToolKey::working).max().unwrap_or(0);
        let mut largest = (0, String::from("the meshes themselves"));
        for (key, want) in wanted {
            let found = store.peek(key);
            let solids = want.solid;
            // The surface comes with the first query by spheres and stays.
            let surface = match found {
                Some(built) if !solids || built.solid.get().is_some() => 0,
                None if !solids => 0,
                _ => Solid::surface_bytes_for(want.mesh.mesh.triangles.len()),
            };
            missing = missing.saturating_add(surface);
            let bytes = match found {
                Some(built) => built.bytes(),
                None => {
                    let needs = key::needs(want);
                    working = working.max(needs.working);
                    missing = missing.saturating_add(needs.field);
                    needs.field
                }
            };
            let bytes = bytes.saturating_add(surface);
            fields = fields.saturating_add(bytes);
            if bytes > largest.0 {
                let what = want.id.map_or("tool".to_owned(), |id| format!("geometry {id}"));
                largest = (bytes, format!("{what} ({}), {bytes} bytes", want.mesh.label));
            }
        }
        let others = store.reserved;
        let needed = [stays, fields, working, others].into_iter().fold(0, u64::saturating_add);
        if needed > self.cap {
            let working = working.saturating_add(others);
            return Err(CompileError::Memory { needed, working, cap: self.cap, largest: largest.1 });
        }
        let bytes = working + missing;
        store.reserved += bytes;
        let room = self.cap - stays - store.reserved;
        store.shrink(room, |key| wanted.contains_key(key));
        drop(store);
        Ok(Reserved { compiler: self, wanted, there: stays + (fields - missing), bytes: Cell::new(bytes) })
    }
}
