//! The last code before the device: finite check, slew limit, saturation, ramp, and the checks of the device's samples.
//!
//! Order: wanted wrench -> ramp -> slew limit -> common-factor saturation ([`output`]) -> energy bound ([`energy`]).
//! Whatever comes in, what goes out is finite and within the limits. Everything here is a pure function of its arguments.
//! Real-time safe.

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

pub mod energy;
mod limit;
mod ramp;
#[cfg(test)]
mod tests;
mod watch;

pub use limit::{Limits, saturate, slew};
pub use ramp::{Gate, Ramp};
pub use watch::{SampleLimits, Seen, Verdict, Watch};

use crate::geometry::Wrench;

/// The wanted wrench was not finite: the caller commands zero and latches a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NonFinite;

/// What the guard lets through.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guarded {
    /// The command.
    pub wrench: Wrench,
    /// A force or torque limit scaled it.
    pub saturated: bool,
    /// The slew limit held it back.
    pub slewed: bool,
}

/// The final command for `wanted` under the ramp's `gain` (0..=1), given the `last` command. Device axes, N and N·m.
///
/// # Errors
/// [`NonFinite`] when `wanted` or `gain` is not finite.
pub fn output(limits: &Limits, last: &Wrench, wanted: &Wrench, gain: f64) -> Result<Guarded, NonFinite> {
    if !wanted.is_finite() || !gain.is_finite() {
        return Err(NonFinite);
    }
    let ramped = wanted.scaled(gain.clamp(0.0, 1.0));
    let slewed = slew(limits, last, &ramped);
    let wrench = saturate(limits, &slewed);
    Ok(Guarded { wrench, saturated: wrench != slewed, slewed: slewed != ramped })
}
