//! The device's beat: when its next frame begins, learnt from the arrivals.
//!
//! Arrivals come with the device's frames (1 ms) and are seen late, never early: the thread wakes after the event. So the
//! estimate follows early arrivals quickly and late ones slowly. A clock that drifts by 200 ppm (0.2 µs a
//! frame) is followed with a lag of 0.4 µs where it is fast, of 26 µs where it is slow. Pure, real-time safe.

/// Length of a USB frame, ns.
pub const FRAME_NS: u64 = 1_000_000;

/// Share of an early and of a late arrival by which the estimate moves.
const EARLY: i64 = 2;
const LATE: i64 = 128;
/// An arrival is so much before its frame's beginning at most, ns: the estimate errs by less. Earlier ones belong to the frame before, late.
const BEFORE_NS: i64 = FRAME_NS as i64 / 8;
/// Arrivals before the estimate is believed.
const SETTLED: u32 = 16;

/// Estimate of the frames' beginnings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Phase {
    /// A beginning near the last arrival, ns.
    anchor: Option<u64>,
    seen: u32,
}

impl Phase {
    /// An arrival at this time, ns.
    pub fn arrival(&mut self, at_ns: u64) {
        self.seen = self.seen.saturating_add(1);
        let Some(anchor) = self.anchor else {
            self.anchor = Some(at_ns);
            return;
        };
        let expected = begun(anchor, at_ns);
        let error = at_ns as i64 - expected as i64;
        let step = if error < 0 { error / EARLY } else { error / LATE };
        self.anchor = Some(expected.saturating_add_signed(step));
    }

    /// The first beginning after `now_ns`; `None` until the estimate has settled.
    pub fn next(&self, now_ns: u64) -> Option<u64> {
        let anchor = self.anchor.filter(|_| self.seen >= SETTLED)?;
        let frames = now_ns.saturating_sub(anchor) / FRAME_NS + 1;
        Some(anchor + frames * FRAME_NS)
    }

    /// When the frame began to which an arrival at this time belongs, unless it is seen later than in its frame; not after it. `None` until the
    /// estimate has settled.
    pub fn beginning(&self, at_ns: u64) -> Option<u64> {
        let anchor = self.anchor.filter(|_| self.seen >= SETTLED)?;
        Some(begun(anchor, at_ns).min(at_ns))
    }

    /// Forgets everything: another device, or another frame clock.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

/// The beginning of the frame to which an arrival at `at_ns` belongs, some beginning being at `anchor`.
fn begun(anchor: u64, at_ns: u64) -> u64 {
    let frame = FRAME_NS as i64;
    let frames = (at_ns as i64 - anchor as i64 + BEFORE_NS).div_euclid(frame);
    anchor.saturating_add_signed(frames * frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames 200 ppm off our clock, arrivals up to 0.3 ms late in three of four frames: the estimate stays within 30 µs of
    /// the truth.
    #[test]
    fn follows_a_drifting_clock_through_late_arrivals() {
        for ppm in [-200i64, 0, 200] {
            let mut phase = Phase::default();
            let mut worst = 0;
            for k in 0..20_000i64 {
                let frame = 5_000_000 + k * (1_000_000 + ppm);
                let late = [0, 40_000, 300_000, 9_000][(k * 7 % 4) as usize];
                phase.arrival((frame + late) as u64);
                if k > 500 {
                    let begun = phase.beginning((frame + late) as u64).expect("settled") as i64;
                    worst = worst.max((begun - frame).abs());
                }
                if k > 500 {
                    let next = phase.next(frame as u64 + 500_000).expect("settled") as i64;
                    worst = worst.max((next - frame - 1_000_000 - ppm).abs());
                }
            }
            assert!(worst < 30_000, "{ppm} ppm: {worst} ns");
        }
    }

    /// Arrivals later than half a frame, every other one or now and then, are late ones of their own frame and not early ones of the next: the
    /// estimate does not walk after them. (Where the very first is so late and more of them come, it may take them for the beat.)
    #[test]
    fn what_is_later_than_half_a_frame_is_late() {
        for (late, each) in [(550_000, 2), (600_000, 50), (800_000, 3), (800_000, 50)] {
            for ppm in [-200i64, 0, 200] {
                let mut phase = Phase::default();
                let mut worst = 0;
                for k in 0..20_000i64 {
                    let frame = 5_000_000 + k * (1_000_000 + ppm);
                    let at = frame + if k % each == each - 1 { late } else { 0 };
                    phase.arrival(at as u64);
                    if k > 1000 {
                        let begun = phase.beginning(at as u64).expect("settled") as i64;
                        worst = worst.max((begun - frame).abs());
                    }
                }
                assert!(worst < 30_000, "{late} ns late every {each} frames, {ppm} ppm: {worst} ns");
            }
        }
    }

    #[test]
    fn lost_arrivals_do_not_matter() {
        let mut phase = Phase::default();
        assert_eq!(phase.next(0), None);
        for k in (0..2000u64).filter(|k| k % 5 != 0 && !(500..900).contains(k)) {
            phase.arrival(250_000 + k * FRAME_NS);
        }
        assert_eq!(phase.next(2000 * FRAME_NS), Some(2000 * FRAME_NS + 250_000));
        assert_eq!(phase.next(2000 * FRAME_NS + 250_000), Some(2001 * FRAME_NS + 250_000));
    }
}
