//! Replies that come one a frame, or later, or never: which are lost.

use super::phase::FRAME_NS;

/// After so long a reply that has not come is lost, ns: between one such time and two.
const PATIENCE_NS: u64 = 32 * FRAME_NS;

/// The count of one device's replies.
#[derive(Debug, Default)]
pub(super) struct Replies {
    /// When one came last, or when they were last not to be expected, ns.
    last_ns: Option<u64>,
    /// Those that have not come in their frame: lately, and before that.
    owing: [u64; 2],
    /// When lately began, ns.
    since_ns: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    /// They came later than in their frame.
    pub(super) late: u64,
    /// They will not come any more.
    pub(super) lost: u64,
}

impl Replies {
    /// One has come since the device runs.
    pub(super) fn have_begun(&self) -> bool {
        self.last_ns.is_some()
    }

    /// None was asked for until now.
    pub(super) fn pause(&mut self, now_ns: u64) {
        self.last_ns = self.last_ns.map(|last| last.max(now_ns));
    }

    /// So many came with one transfer. What was late comes in a burst behind the one that held it up, with the same time or an earlier one.
    /// Real-time safe.
    pub(super) fn came(&mut self, at_ns: u64, replies: u64) -> Counted {
        let frames = self.last_ns.map_or(1, |last| (at_ns.saturating_sub(last) + FRAME_NS / 2) / FRAME_NS);
        self.last_ns = Some(self.last_ns.map_or(at_ns, |last| last.max(at_ns)));
        // Of several that come at once after some frames all but the last are late.
        let mut counted = Counted { late: replies.min(frames).saturating_sub(1), lost: self.give_up(at_ns) };
        let [lately, before] = &mut self.owing;
        *lately += frames.saturating_sub(replies);
        let mut surplus = replies.saturating_sub(frames);
        for owing in [before, lately] {
            let paid = surplus.min(*owing);
            *owing -= paid;
            surplus -= paid;
            counted.late += paid;
        }
        counted
    }

    /// Those that have been waited for long enough.
    fn give_up(&mut self, now_ns: u64) -> u64 {
        if now_ns.saturating_sub(self.since_ns) < PATIENCE_NS {
            return 0;
        }
        self.since_ns = now_ns;
        let [lately, before] = self.owing;
        self.owing = [0, lately];
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Frames from 1 on: in each so many replies; the sums.
    fn sums(replies: &mut Replies, from: u64, each: impl IntoIterator<Item = u64>) -> Counted {
        let mut sum = Counted::default();
        for (k, n) in each.into_iter().enumerate().filter(|(_, n)| *n > 0) {
            let counted = replies.came((from + k as u64) * MS, n);
            sum.late += counted.late;
            sum.lost += counted.lost;
        }
        sum
    }

    #[test]
    fn late_ones_are_late_and_lost_ones_lost() {
        let mut replies = Replies::default();
        assert!(!replies.have_begun());
        assert_eq!(sums(&mut replies, 1, [1; 200]), Counted::default());
        assert!(replies.have_begun());
        // Three frames nothing, then all four with one transfer, or with four of the same time.
        let burst = [0, 0, 0, 4].into_iter().chain([1; 96]);
        assert_eq!(sums(&mut replies, 201, burst), Counted { late: 3, lost: 0 });
        sums(&mut replies, 301, [0, 0, 0, 1]);
        assert_eq!((0..3).map(|_| replies.came(304 * MS, 1).late).sum::<u64>(), 3);
        assert_eq!(sums(&mut replies, 305, [1; 100]), Counted::default());
        // Two that never come.
        let gap = [0, 0].into_iter().chain([1; 98]);
        assert_eq!(sums(&mut replies, 405, gap), Counted { late: 0, lost: 2 });
        // One lost in every ten, for long.
        let tenth = (0..2000).map(|k| u64::from(k % 10 != 0));
        let counted = sums(&mut replies, 505, tenth);
        assert!(counted.late == 0 && (193..=200).contains(&counted.lost), "{counted:?}");
        // Nobody asked for any.
        replies.pause(9000 * MS);
        let after = sums(&mut replies, 9001, [1; 100]);
        assert!(after.late == 0 && counted.lost + after.lost == 200, "{after:?}");
    }
}
