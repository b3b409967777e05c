//! Progress and cancellation of an import, and the work that its parts count.

use super::soup::{Fault, Place};
use crate::geometry::field::build::Progress;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The caller wants the import no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stopped;

impl From<Stopped> for Fault {
    fn from(_: Stopped) -> Self {
        Self { cancelled: true, ..Self::new(Place::Mesh, "the import was cancelled") }
    }
}

/// Items of some nanoseconds each between two looks.
pub(super) const STRIDE: usize = 4096;
/// An import in all.
const WHOLE: u64 = 1000;

/// What an import does after another, each with the share of the whole that is behind it when it begins: rough, as it
/// depends on the mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum Stage {
    Parse = 0,
    Triangulate = 250,
    Weld = 300,
    Repair = 400,
    Orient = 500,
    Nest = 550,
    Measure = 600,
}

/// Tells the caller how far the import is, and asks whether to go on.
pub(super) struct Watch<'a> {
    progress: &'a dyn Progress,
    done: AtomicU64,
    work: AtomicU64,
}

impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("done", &self.done).field("work", &self.work).finish_non_exhaustive()
    }
}

impl<'a> Watch<'a> {
    pub fn new(progress: &'a dyn Progress) -> Self {
        Self { progress, done: AtomicU64::new(0), work: AtomicU64::new(0) }
    }

    /// To be called in every loop, after some milliseconds of work at most.
    pub fn look(&self) -> Result<(), Stopped> {
        self.progress.step(self.done.load(Relaxed), WHOLE);
        if self.progress.cancelled() { Err(Stopped) } else { Ok(()) }
    }

    /// The same in a loop of quick steps, of which this is the i-th.
    #[inline]
    pub fn at(&self, i: usize) -> Result<(), Stopped> {
        if i.is_multiple_of(STRIDE) { self.look() } else { Ok(()) }
    }

    /// For parts that ask in their own way.
    pub fn stopped(&self) -> bool {
        self.look().is_err()
    }

    pub fn enter(&self, stage: Stage) -> Result<(), Stopped> {
        self.done.store(stage as u64, Relaxed);
        self.look()
    }

    /// So much of the last stage is done; never goes back.
    pub fn measured(&self, part: u64, of: u64) {
        let begin = Stage::Measure as u64;
        self.done.fetch_max(begin + (WHOLE - begin) * part.min(of) / of.max(1), Relaxed);
    }

    /// Counts tests of a triangle against a cell, of a shell against a point, of a side against a side: what can
    /// grow faster than the mesh.
    pub fn count(&self, work: u64) {
        self.work.fetch_add(work, Relaxed);
    }

    /// What was counted so far.
    #[cfg(test)]
    pub fn work(&self) -> u64 {
        self.work.load(Relaxed)
    }
}

#[cfg(test)]
impl Watch<'static> {
    /// Reports nothing, never stops.
    pub fn silent() -> Self {
        Watch::new(&crate::geometry::field::build::Silent)
    }
}

#[cfg(test)]
mod tests;
