//! What is known of how far each part of a shell is from touching, carried from tick to tick.
//!
//! A block whose points were seen (or bounded) at depth D < 0 cannot touch before the tool has moved, against the object,
//! by what the field needs to rise to 0. A hand moves some hundredths of a millimetre a tick, so that most blocks near a
//! surface need no look for many ticks (the coherence of Barbic and James 2008, with a guarantee).

use crate::geometry::simd::LANES;
use crate::geometry::{Point, Pose};

/// Entries; each stands for a power of two of blocks in a row.
const ENTRIES: usize = 1024;
/// Way after which the count starts again, m: so far f32 tells micrometres apart.
const FAR: f64 = 1.0;

/// Which blocks cannot touch yet. Fixed size, no heap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clearance {
    /// Stamps of shell and field; 0 = nothing known.
    key: [u64; 2],
    /// Pose of the tool in the object's frame at the last query.
    last: Pose,
    /// Bound on the way of every point of the tool against the object, m.
    moved: f64,
    /// No block of the entry touches as long as `moved` is less, m.
    until: [f32; ENTRIES],
    /// No point was deeper than the first (negative, m) when `moved` was the second.
    apart: [f64; 2],
}

impl Default for Clearance {
    fn default() -> Self {
        Self {
            key: [0; 2],
            last: Pose::identity(),
            moved: 0.0,
            until: [f32::NEG_INFINITY; ENTRIES],
            apart: [f64::INFINITY, 0.0],
        }
    }
}

impl Clearance {
    /// Brings the way up to date. False where nothing is known.
    pub(super) fn advance(&mut self, key: [u64; 2], pose: &Pose, centre: &Point, radius: f64) -> bool {
        let known = self.key == key && self.moved < FAR;
        if known {
            let turn = self.last.rotation.inverse() * pose.rotation;
            let half = turn.imag().norm().atan2(turn.w.abs());
            let way = (pose * centre - self.last * centre).norm() + 2.0 * half * radius;
            self.moved += way * (1.0 + 1e-9) + 1e-9;
        }
        if !known || !self.moved.is_finite() {
            *self = Self { key, ..Self::default() };
        }
        self.last = *pose;
        known
    }

    /// Blocks that an entry stands for: a power of two.
    pub(super) fn per_entry(blocks: usize) -> usize {
        blocks.div_ceil(ENTRIES).next_power_of_two()
    }

    /// Which of sixteen blocks from `first` (a multiple of 16) may touch by now; forgets what was known of them. With more
    /// than 16 blocks to an entry, only its first blocks make it forget; `open` then tells the others.
    pub(super) fn due(&mut self, first: usize, per: usize, open: &mut bool) -> u16 {
        let now = self.moved as f32;
        let mut due = |entry: usize| {
            let Some(until) = self.until.get_mut(entry) else { return true };
            let due = *until <= now;
            if due {
                *until = f32::INFINITY;
            }
            due
        };
        if per >= LANES {
            if first.is_multiple_of(per) {
                *open = due(first / per);
            }
            return if *open { u16::MAX } else { 0 };
        }
        let mut bits = 0;
        for k in 0..LANES / per {
            if due(first / per + k) {
                bits |= (((1u32 << per) - 1) << (k * per)) as u16;
            }
        }
        bits
    }

    /// Notes that a block cannot touch for the next `way` m; at once for nothing or less.
    pub(super) fn note(&mut self, block: usize, per: usize, way: f32) {
        let until = if way > 0.0 { (self.moved as f32 + way) * (1.0 - 1e-6) } else { f32::NEG_INFINITY };
        if let Some(entry) = self.until.get_mut(block / per)
            && until < *entry
        {
            *entry = until;
        }
    }

    /// Notes that no point is deeper than `most` (m) where the tool is now.
    pub(super) fn note_apart(&mut self, most: f64) {
        self.apart = [most, self.moved];
    }

    /// The depth (m) that no point exceeded when all were last looked at without a touch, +infinity where none is known, and the way
    /// since, m.
    pub(super) fn apart(&self) -> (f64, f64) {
        let [most, at] = self.apart;
        (most, self.moved - at)
    }

    /// Forgets everything: a query that was ended has not looked at all that was due.
    pub(super) fn forget(&mut self) {
        self.key = [0; 2];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Vec3;
    use nalgebra::{Translation3, UnitQuaternion};

    /// The way is never less than that of any point of the ball.
    #[test]
    fn no_point_moves_farther_than_the_way() {
        let (centre, radius) = (Point::new(0.01, -0.02, 0.03), 0.05);
        let mut clear = Clearance::default();
        let pose = |k: f64| {
            Pose::from_parts(
                Translation3::new(0.1 * k.sin(), 0.02 * k, 0.03),
                UnitQuaternion::from_scaled_axis(Vec3::new(k.cos(), k.sin(), 0.3 * k)),
            )
        };
        assert!(!clear.advance([1, 2], &pose(0.0), &centre, radius));
        for k in 0..50 {
            let (a, b) = (pose(f64::from(k) * 0.07), pose(f64::from(k + 1) * 0.07));
            let before = clear.moved;
            assert!(clear.advance([1, 2], &b, &centre, radius) || before >= FAR);
            if clear.moved == 0.0 {
                continue;
            }
            let way = clear.moved - before;
            for dir in [Vec3::x(), Vec3::y(), Vec3::z(), -Vec3::x(), Vec3::new(0.6, 0.0, -0.8)] {
                let p = centre + dir * radius;
                assert!((b * p - a * p).norm() <= way, "{k}");
            }
        }
        assert!(!clear.advance([1, 3], &pose(0.0), &centre, radius));
        assert_eq!(clear.moved, 0.0);
    }

    #[test]
    fn entries_fall_due_with_the_way_and_stand_for_all_their_blocks() {
        for blocks in [40, 1024, 5000, 60_000] {
            let per = Clearance::per_entry(blocks);
            assert!(
                per.is_power_of_two() && blocks <= per * ENTRIES && blocks * 2 > per * ENTRIES / 2
                    || per == 1
            );
            let mut clear = Clearance::default();
            let mut open = false;
            for first in (0..blocks).step_by(LANES) {
                assert_eq!(clear.due(first, per, &mut open), u16::MAX);
            }
            for block in 0..blocks {
                clear.note(block, per, if block == 37 { 1e-3 } else { 2e-3 });
            }
            let mut sweep = |moved: f64| {
                clear.moved = moved;
                let mut due = vec![];
                for first in (0..blocks).step_by(LANES) {
                    let bits = clear.due(first, per, &mut open);
                    due.extend((0..LANES).filter(|i| bits >> i & 1 == 1).map(|i| first + i));
                }
                due
            };
            assert!(sweep(0.9e-3).is_empty());
            let due: Vec<usize> = sweep(1.1e-3).into_iter().filter(|&b| b < blocks).collect();
            let start = 37 / per * per;
            assert_eq!(due, (start..(start + per).min(blocks)).collect::<Vec<_>>());
        }
    }
}
