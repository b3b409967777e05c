//! Which samples of a moving object a motion frame carries.

use super::snapshot::{MOTION_HISTORY, MotionSample};

/// The samples kept reach back by the delay in no more than this many steps, and some beyond it: playback is always
/// among them, with knots on both sides.
const STEPS: u64 = 24;

/// Takes a sample into `held` (ascending in time, at most [`MOTION_HISTORY`]). The same time replaces. Where samples come
/// closer together than a part of `delay_ns`, the newest takes the place of the one before it, and late ones are kept only
/// where they fill a gap: else those of a fast stream that is played late would all be newer than what is played.
pub fn keep(held: &mut Vec<MotionSample>, sample: MotionSample, delay_ns: u64) {
    let step = delay_ns / STEPS;
    let at = held.partition_point(|s| s.time_ns < sample.time_ns);
    let newest = at == held.len();
    let since = at.checked_sub(1).map(|i| sample.time_ns - held[i].time_ns);
    let until = held.get(at).map(|s| s.time_ns - sample.time_ns);
    match (until, held.as_mut_slice()) {
        (Some(0), held) => {
            held[at] = sample;
            return;
        }
        (None, [.., a, b]) if b.time_ns - a.time_ns < step => {
            *b = sample;
            return;
        }
        _ => {}
    }
    // The newest may lie closer: it gives way to the next.
    let last = at + 1 == held.len();
    let fits = newest || (since.is_none_or(|d| d >= step) && (last || until.is_none_or(|d| d >= step)));
    if !fits || (at == 0 && held.len() == MOTION_HISTORY) {
        return;
    }
    held.insert(at, sample);
    if held.len() > MOTION_HISTORY {
        held.remove(0);
    }
}

/// The samples as a frame carries them.
///
/// # Panics
/// When there are none, or more than [`MOTION_HISTORY`].
pub fn carried(held: &[MotionSample]) -> [MotionSample; MOTION_HISTORY] {
    let mut samples = [held[held.len() - 1]; MOTION_HISTORY];
    samples[..held.len()].copy_from_slice(held);
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Pose;
    use proptest::prelude::*;

    fn at(time_ns: u64) -> MotionSample {
        MotionSample { time_ns, pose: Pose::translation(time_ns as f64, 0.0, 0.0) }
    }

    fn times(held: &[MotionSample]) -> Vec<u64> {
        held.iter().map(|s| s.time_ns).collect()
    }

    #[test]
    fn slow_streams_keep_their_newest_samples_in_order() {
        let mut held = Vec::new();
        for t in [0, 20, 10, 30, 30, 50, 40] {
            keep(&mut held, at(t), 240);
        }
        assert_eq!(times(&held), [0, 10, 20, 30, 40, 50]);
        for t in 6..60 {
            keep(&mut held, at(10 * t), 240);
        }
        assert_eq!(times(&held), (60 - MOTION_HISTORY as u64..60).map(|t| 10 * t).collect::<Vec<_>>());
        keep(&mut held, at(1), 240);
        assert_eq!(held.len(), MOTION_HISTORY, "older than all: not kept");
        assert_eq!(held[0].time_ns, 10 * (60 - MOTION_HISTORY as u64));
    }

    #[test]
    fn the_newest_is_always_there() {
        let mut held = Vec::new();
        for t in 0..1000 {
            keep(&mut held, at(t), 2400);
            assert_eq!(held[held.len() - 1], at(t));
        }
    }

    proptest! {
        /// Whatever the rate, the jitter, the loss and the delay: what is played lies among the samples kept, and no gap
        /// is wider than what was lost, late or thinned.
        #[test]
        fn they_reach_back_beyond_the_delay(
            period in 100_000u64..20_000_000,
            jitter in 0u64..30_000_000,
            seed in any::<u64>(),
        ) {
            let delay = crate::servo::handle::motion_delay_ns(period, jitter);
            let mut random = seed | 1;
            let mut next = || {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random
            };
            let mut arrivals: Vec<(u64, u64)> =
                (0..1500).map(|k| (k * period + next() % (jitter + 1), k * period)).collect();
            arrivals.retain(|_| next() % 20 != 0);
            arrivals.sort_unstable();
            let mut held = Vec::new();
            for (now, sent) in arrivals {
                keep(&mut held, at(sent), delay);
                prop_assert!(held.windows(2).all(|w| w[0].time_ns < w[1].time_ns));
                prop_assert!(held.len() <= MOTION_HISTORY);
                let played = now.saturating_sub(delay);
                // Until the first full second the stream is young.
                if now > 1500 * period / 2 {
                    prop_assert!(held[0].time_ns <= played, "{} {played} {delay}", held[0].time_ns);
                }
            }
        }
    }
}
