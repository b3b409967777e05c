//! The gain between nothing and the full force, and the gate before it rises.

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

/// A gain that moves linearly between 0 and 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ramp {
    gain: f64,
}

impl Ramp {
    /// The gain, 0..=1.
    #[inline]
    pub fn gain(&self) -> f64 {
        self.gain
    }

    /// One tick of `dt` s upwards; from 0 to 1 takes `over` s.
    #[inline]
    pub fn rise(&mut self, dt: f64, over: f64) {
        self.gain = (self.gain + step(dt, over)).min(1.0);
    }

    /// One tick of `dt` s downwards; from 1 to 0 takes `over` s at most.
    #[inline]
    pub fn fall(&mut self, dt: f64, over: f64) {
        let gain = self.gain - step(dt, over);
        // The rest of rounding errors counts as zero, so that "zero" is exact.
        self.gain = if gain > 1e-9 { gain } else { 0.0 };
    }

    /// Straight to one, for a wrench that fades from where it is.
    #[inline]
    pub fn fill(&mut self) {
        self.gain = 1.0;
    }

    /// Straight to zero.
    #[inline]
    pub fn drop_to_zero(&mut self) {
        self.gain = 0.0;
    }
}

/// Part of the way that `dt` makes of `over`; a time that makes no sense is over at once.
fn step(dt: f64, over: f64) -> f64 {
    let s = dt / over;
    if s.is_finite() && s > 0.0 { s.min(1.0) } else { 1.0 }
}

/// Counts ticks in which the wanted wrench is small, as a condition for giving force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gate {
    small: u32,
}

impl Gate {
    /// Starts anew.
    pub fn reset(&mut self) {
        self.small = 0;
    }

    /// One tick; `small` says whether the wanted wrench is. True once it has been for `ticks` ticks in a row.
    pub fn pass(&mut self, small: bool, ticks: u32) -> bool {
        self.small = if small { self.small.saturating_add(1) } else { 0 };
        self.small >= ticks
    }
}
