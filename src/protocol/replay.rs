//! Sequence numbers: wrap-safe order and the 64-packet replay window (as IPsec's, RFC 4303 section 3.4.3).

/// True when `a` comes after `b` on a 32-bit circle (RFC 1982 serial number arithmetic).
pub fn after(a: u32, b: u32) -> bool {
    a != b && a.wrapping_sub(b) < 1 << 31
}

/// What the window makes of a sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Newer than all before; `gap` numbers were skipped.
    Newest {
        /// Skipped numbers.
        gap: u32,
    },
    /// Not seen before, but overtaken by a newer one.
    Late,
    /// Seen before.
    Replay,
    /// Too far back to know.
    Old,
}

/// Remembers the newest number and which of the 64 up to it were seen. Feed it authenticated numbers only.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    top: u32,
    /// Bit i: `top - i` was seen. 0 only before the first packet.
    seen: u64,
}

impl Window {
    /// Classifies `seq` and, unless it is refused, marks it as seen.
    pub fn check(&mut self, seq: u32) -> Verdict {
        if self.seen == 0 {
            *self = Self { top: seq, seen: 1 };
            return Verdict::Newest { gap: 0 };
        }
        if after(seq, self.top) {
            let ahead = seq.wrapping_sub(self.top);
            self.seen = if ahead < 64 { self.seen << ahead | 1 } else { 1 };
            self.top = seq;
            return Verdict::Newest { gap: ahead - 1 };
        }
        let back = self.top.wrapping_sub(seq);
        if back >= 64 {
            return Verdict::Old;
        }
        let bit = 1_u64 << back;
        if self.seen & bit != 0 {
            return Verdict::Replay;
        }
        self.seen |= bit;
        Verdict::Late
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn order_survives_the_wrap() {
        assert!(after(0, u32::MAX));
        assert!(after(5, u32::MAX - 5));
        assert!(!after(u32::MAX, 0));
        assert!(!after(7, 7));
    }

    #[test]
    fn a_window_over_the_wrap() {
        let mut w = Window::default();
        assert_eq!(w.check(u32::MAX - 1), Verdict::Newest { gap: 0 });
        assert_eq!(w.check(1), Verdict::Newest { gap: 2 });
        assert_eq!(w.check(0), Verdict::Late);
        assert_eq!(w.check(u32::MAX), Verdict::Late);
        assert_eq!(w.check(u32::MAX), Verdict::Replay);
        assert_eq!(w.check(u32::MAX - 1), Verdict::Replay);
        assert_eq!(w.check(100), Verdict::Newest { gap: 98 });
        assert_eq!(w.check(37), Verdict::Late);
        assert_eq!(w.check(36), Verdict::Old);
    }

    proptest! {
        /// Against the definition: a set of everything accepted.
        #[test]
        fn accepts_each_number_once(start: u32, steps in prop::collection::vec(-80_i32..80, 1..400)) {
            let mut w = Window::default();
            let (mut seen, mut top, mut at) = (HashSet::new(), start, start);
            prop_assert_eq!(w.check(start), Verdict::Newest { gap: 0 });
            seen.insert(start);
            for s in steps {
                at = top.wrapping_add_signed(s).wrapping_add(at & 1);
                let ahead = at.wrapping_sub(top) as i32;
                let want = if ahead > 0 { Verdict::Newest { gap: ahead as u32 - 1 } }
                    else if ahead <= -64 { Verdict::Old }
                    else if seen.contains(&at) { Verdict::Replay }
                    else { Verdict::Late };
                prop_assert_eq!(w.check(at), want);
                if ahead > 0 { top = at; }
                if want != Verdict::Old { seen.insert(at); }
            }
        }
    }
}
