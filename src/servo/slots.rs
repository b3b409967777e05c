//! What the servo remembers of the objects that it has asked about, from tick to tick.

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

use super::lapse::Back;
use crate::contact::{Friction, QueryState};
use crate::geometry::{Pose, Wrench};
use crate::haptics::grip::Grip;
use crate::haptics::proxy::Proxy;

/// What is remembered of one object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) id: u32,
    pub(super) incarnation: u32,
    /// Last tick in which it was queried.
    pub(super) tick: u64,
    pub(super) need: u32,
    pub(super) units: u32,
    pub(super) pose: Pose,
    /// Where it stands in the scene, or would at rest.
    pub(super) rest: Pose,
    /// It began anew in that tick, and its stream stood.
    pub(super) anew: bool,
    pub(super) stopped: bool,
    /// Fading gain, 0..=1 (above while a softened object fades down).
    pub(super) gain: f64,
    /// What is felt of it: that, and what a lapse leaves.
    pub(super) share: f64,
    /// Wrench felt in that tick, and what of it was not damping.
    pub(super) felt: Wrench,
    pub(super) spring: Wrench,
    /// Stiffness of its material, N/m.
    pub(super) stiffness: f64,
    /// What it gives at most until it would give less by itself, N.
    pub(super) most: f64,
    /// Friction felt in that tick.
    pub(super) friction: Friction,
    /// What is held back of it after a lapse.
    pub(super) lapse: Back,
}

impl Slot {
    pub(super) fn new() -> Self {
        Self {
            id: 0,
            incarnation: 0,
            tick: 0,
            need: 0,
            units: 0,
            pose: Pose::identity(),
            rest: Pose::identity(),
            anew: false,
            stopped: false,
            gain: 1.0,
            share: 1.0,
            felt: Wrench::ZERO,
            spring: Wrench::ZERO,
            stiffness: 0.0,
            most: f64::INFINITY,
            friction: Friction::NONE,
            lapse: Back::default(),
        }
    }
}

/// Memories of queries: objects whose slots differ by a multiple of this share one, and lose it to each other.
pub(super) const MEMORIES: usize = 256;

/// What the queries of one object remember.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    pub(super) id: u32,
    pub(super) incarnation: u32,
    pub(super) state: QueryState,
    pub(super) proxy: Proxy,
    pub(super) grip: Grip,
}

impl Memory {
    pub(super) fn new() -> Self {
        Self {
            id: 0,
            incarnation: 0,
            state: QueryState::following(),
            proxy: Proxy::default(),
            grip: Grip::default(),
        }
    }
}
