//! A zero that is owed to a device: its link broke while it was there, so its motors may hold the last force.

use super::shared::Shared;
use std::sync::atomic::Ordering::Relaxed;

/// Longest wait of the end for a zero that is owed, ns.
pub const OWED_NS: u64 = 1_000_000_000;
/// The device is looked for at once, then after this time, then after twice as long each time, ns.
const SOON_NS: u64 = 5_000_000;
/// The longest of these times, ns.
const LATER_NS: u64 = 250_000_000;
/// A device that was looked for longer ago than this has run well since: the next look is the first again, ns.
const STEADY_NS: u64 = 1_000_000_000;
/// Packets of zero that pay: the first may have been lost with something before it.
const PACKETS: u32 = 2;

/// What is owed, and how hard it was tried.
#[derive(Debug, Default)]
pub(super) struct Debt {
    owed: bool,
    /// Packets of zero that went out since.
    paid: u32,
    /// Looks for the device, one soon after the other.
    tries: u32,
    /// When the end was asked for, ns.
    end_ns: Option<u64>,
}

impl Debt {
    /// A zero is owed: nothing but zero may be sent.
    pub(super) fn is_open(&self) -> bool {
        self.owed
    }

    /// The link ends, and nobody knows that the motors have zero. To be called before the device is said to be absent.
    pub(super) fn open(&mut self, shared: &Shared) {
        shared.set_unconfirmed();
        (self.owed, self.paid) = (true, 0);
    }

    /// The motors have zero, or cannot push.
    pub(super) fn settle(&mut self, shared: &Shared) {
        if std::mem::take(&mut self.owed) {
            shared.set_confirmed();
        }
    }

    /// A packet has gone out. Real-time safe.
    pub(super) fn sent(&mut self, shared: &Shared) {
        shared.stats.sent.fetch_add(1, Relaxed);
        self.paid += u32::from(self.owed);
        if self.paid >= PACKETS {
            self.settle(shared);
        }
    }

    /// When to look for the device next, which was looked for last at `looked_ns`, ns.
    pub(super) fn next_look(&mut self, now_ns: u64, looked_ns: u64) -> u64 {
        if now_ns.saturating_sub(looked_ns) > STEADY_NS {
            self.tries = 0;
        }
        let wait = self.tries.checked_sub(1).map_or(0, |n| (SOON_NS << n.min(8)).min(LATER_NS));
        self.tries += 1;
        now_ns + wait
    }

    /// The end is asked for: it does not wait for ever. What is given up stays unconfirmed.
    pub(super) fn at_end(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(*self.end_ns.get_or_insert(now_ns)) > OWED_NS {
            self.owed = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_device_that_is_owed_a_zero_is_looked_for_soon_and_never_all_the_time() {
        let mut debt = Debt::default();
        let (mut now, mut looked, mut waits) = (5000 * MS, 0, Vec::new());
        for _ in 0..10 {
            let next = debt.next_look(now, looked);
            waits.push((next - now) / MS);
            // It opens, and breaks 2 ms later.
            (looked, now) = (next, next + 2 * MS);
        }
        assert_eq!(waits, [0, 5, 10, 20, 40, 80, 160, 250, 250, 250]);
        assert_eq!(debt.next_look(looked + 1001 * MS, looked), looked + 1001 * MS, "it had run well");
    }

    #[test]
    fn two_packets_pay_and_the_end_waits_a_second() {
        let (mut debt, shared) = (Debt::default(), Shared::default());
        for _ in 0..2 {
            debt.open(&shared);
            debt.sent(&shared);
            assert!(debt.is_open() && shared.unconfirmed());
        }
        debt.sent(&shared);
        assert!(!debt.is_open() && !shared.unconfirmed());
        debt.open(&shared);
        debt.at_end(7 * MS);
        debt.at_end(1007 * MS);
        assert!(debt.is_open());
        debt.at_end(1008 * MS);
        assert!(!debt.is_open() && shared.unconfirmed());
    }
}
