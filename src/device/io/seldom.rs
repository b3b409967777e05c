//! What one of twenty exceeds, without remembering any: the frugal quantile of Ma, Muthukrishnan and Sandler (2013).

/// The estimate rises by a step with each longer time and falls by this part of it with each shorter one, so that it settles
/// where one of twenty is longer.
const ONE_OF: u64 = 20;

/// The estimate after one more time, ns, from what it was `before`; begins with 0, so that a first one which comes very late does
/// not count for long. It rises by `step` ns at most. Pure, real-time safe.
pub fn seldom_exceeded(before: u64, time: u64, step: u64) -> u64 {
    if time > before {
        before.saturating_add(step).min(time)
    } else {
        before.saturating_sub(step / ONE_OF).max(time)
    }
}
