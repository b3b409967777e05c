//! Telling geometries apart without comparing them.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that no other geometry of this process has. Copies of a geometry share it, as they share the shape; two stamps
/// always compare equal, so that geometries compare by what they hold.
#[derive(Clone, Copy, Debug)]
pub struct Stamp(u64);

impl Default for Stamp {
    /// A new one.
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl PartialEq for Stamp {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Stamp {
    /// The number; never 0. Real-time safe.
    pub(crate) fn number(self) -> u64 {
        self.0
    }
}
