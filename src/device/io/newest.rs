//! The newest sample of a device behind mailboxes, and in which life of the device it was taken.

#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used
    )
)]

use crate::device::{Lifecycle, ReadFault, Sample};

/// See the module. All of it is real-time safe.
#[derive(Clone, Copy, Debug)]
pub(in crate::device) struct Newest {
    sample: Option<Sample>,
    /// The last one that was seen.
    life: u32,
}

impl Newest {
    pub(in crate::device) fn new(life: u32) -> Self {
        Self { sample: None, life }
    }

    /// For commands: the life that they are meant for.
    pub(in crate::device) fn life(&self) -> u32 {
        self.life
    }

    pub(in crate::device) fn sample(&self) -> Option<&Sample> {
        self.sample.as_ref()
    }

    /// Joints of the sample, rad or m; zeros before the first.
    pub(in crate::device) fn joints(&self) -> [f64; 6] {
        self.sample.map_or([0.0; 6], |s| s.joints)
    }

    /// A sample of this life is known.
    pub(in crate::device) fn is_of(&self, life: u32) -> bool {
        self.life == life && self.sample.is_some()
    }

    /// Before a read. True when this life is another than the last.
    ///
    /// # Errors
    /// [`ReadFault::Gone`], once, where a sample of the last life was told: however short the device was gone, whoever pushes must not go
    /// on in another frame.
    pub(in crate::device) fn begin(&mut self, life: u32) -> Result<bool, ReadFault> {
        let another = std::mem::replace(&mut self.life, life) != life;
        if another && self.sample.take().is_some() {
            return Err(ReadFault::Gone);
        }
        Ok(another)
    }

    /// The sample once more, where the newest reading is still the one of this number.
    pub(in crate::device) fn again(&self, seq: u64) -> Option<Sample> {
        self.sample.filter(|s| s.seq == seq).map(|s| Sample { lost: 0, ..s })
    }

    pub(in crate::device) fn set(&mut self, sample: Sample) {
        self.sample = Some(sample);
    }

    /// Zero was said. Who says it to a device that is not ready knows it: no need to be told once more.
    pub(in crate::device) fn zeroed(&mut self, lifecycle: Lifecycle) {
        if lifecycle != Lifecycle::Ready {
            self.sample = None;
        }
    }
}
