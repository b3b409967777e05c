//! What the I/O side remembers of a device while it runs.

use super::phase::Phase;
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
    /// When readings came last, or when they were last not to be expected.
    pub(super) heard_ns: u64,
    /// The frame is lost, or was until shortly.
    pub(super) uncalibrated_until: u64,
    /// What came since the last reading made no sense.
    pub(super) strange: bool,
    /// Which of them are late, and lost.
    pub(super) replies: Replies,
}

impl Run {
    /// It begins to run at this time, ns.
    pub(super) fn new(now: u64) -> Self {
        Self {
            phase: Phase::default(),
            target: 0,
            sending: None,
            farewell: None,
            heard_ns: now,
            uncalibrated_until: 0,
            strange: false,
            replies: Replies::default(),
        }
    }
}
