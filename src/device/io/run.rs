//! What the I/O side remembers of a device while it runs.

use super::phase::{FRAME_NS, Phase};
use super::replies::Replies;

/// What is remembered while the device runs.
pub(super) struct Run {
    pub(super) phase: Phase,
    /// The frame for which a packet was handed over last, ns.
    pub(super) target: u64,
    /// A packet is under way: made from a reading of this time.
    pub(super) sending: Option<u64>,
    /// Zero packets sent since the end was asked for, and when it was.
    pub(super) farewell: Option<(u32, u64)>,
    /// The frame is lost, or was until shortly.
    pub(super) uncalibrated_until: u64,
    /// What came since the last reading made no sense.
    pub(super) strange: bool,
    /// Which of them are late, and lost.
    pub(super) replies: Replies,
    /// Time of the last reading, ns.
    stamped: u64,
}

impl Run {
    /// It begins to run.
    pub(super) fn new() -> Self {
        Self {
            phase: Phase::default(),
            target: 0,
            sending: None,
            farewell: None,
            uncalibrated_until: 0,
            strange: false,
            replies: Replies::default(),
            stamped: 0,
        }
    }

    /// The time of a reply that was seen at this time: the beginning of its frame. One that is seen late and the next, which is not, would show
    /// a motion too slow and one too fast. Later than the last in any case. Real-time safe.
    pub(super) fn stamp(&mut self, at: u64) -> u64 {
        let frame = self.phase.beginning(at).filter(|b| *b > self.stamped + FRAME_NS / 2);
        self.stamped = frame.unwrap_or(at).max(self.stamped);
        self.stamped
    }
}
