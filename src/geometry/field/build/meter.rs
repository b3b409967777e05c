//! Progress and cancellation of the passes.

use super::{FieldError, Progress};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts finished blocks over all passes.
pub(super) struct Meter<'a> {
    progress: &'a dyn Progress,
    done: AtomicU64,
    total: u64,
}

/// Blocks between two reports.
const STRIDE: u64 = 64;

impl<'a> Meter<'a> {
    /// Four passes go over the blocks: nodes (weighted 8, since it takes most of the time), holes, caps, packing.
    pub(super) fn new(progress: &'a dyn Progress, blocks: usize) -> Self {
        Self { progress, done: AtomicU64::new(0), total: blocks as u64 * (Self::NODES + 3) }
    }

    /// Weight of a block in the first pass.
    pub(super) const NODES: u64 = 8;

    /// To be called after each block (or piece of work of a millisecond at most); an error when the caller cancelled.
    pub(super) fn step(&self, weight: u64) -> Result<(), FieldError> {
        let before = self.done.fetch_add(weight, Ordering::Relaxed);
        if before / STRIDE != (before + weight) / STRIDE {
            self.progress.step((before + weight).min(self.total), self.total);
        }
        self.check()
    }

    /// An error when the caller cancelled.
    pub(super) fn check(&self) -> Result<(), FieldError> {
        if self.progress.cancelled() { Err(FieldError::Cancelled) } else { Ok(()) }
    }

    /// For parts that ask in their own way.
    pub(super) fn cancelled(&self) -> bool {
        self.progress.cancelled()
    }

    /// Says that all is done.
    pub(super) fn finish(&self) {
        self.progress.step(self.total, self.total);
    }
}
