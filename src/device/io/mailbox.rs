//! Latest-value mailbox between two threads: wait-free on both sides, no lock, no allocation after its making, no unsafe.
//!
//! One writer puts values of `W` words; one reader takes the newest. Values lie in a ring of slots, each guarded by its own
//! sequence number (a seqlock: H.-J. Boehm, "Can Seqlocks Get Along With Programming Language Memory Models?", MSPC 2012),
//! so the writer never waits, and the reader meets a slot being written only when it was overtaken by a whole ring during one
//! copy; it then looks again a bounded number of times.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Slots of the ring.
const SLOTS: usize = 4;
/// Looks that the reader takes before it makes do with what it had.
const LOOKS: usize = 4;

struct Slot<const W: usize> {
    /// Number of the value inside, doubled; odd while it is being written.
    stamp: AtomicU64,
    words: [AtomicU64; W],
}

/// The mailbox. Share it by reference; one thread puts, one takes.
pub struct Mailbox<const W: usize> {
    /// Number of the newest value; 0 = none yet.
    newest: AtomicU64,
    slots: [Slot<W>; SLOTS],
}

impl<const W: usize> std::fmt::Debug for Mailbox<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mailbox").field("newest", &self.newest).finish_non_exhaustive()
    }
}

impl<const W: usize> Default for Mailbox<W> {
    fn default() -> Self {
        let slot = || Slot { stamp: AtomicU64::new(0), words: std::array::from_fn(|_| AtomicU64::new(0)) };
        Self { newest: AtomicU64::new(0), slots: std::array::from_fn(|_| slot()) }
    }
}

impl<const W: usize> Mailbox<W> {
    fn slot(&self, number: u64) -> Option<&Slot<W>> {
        self.slots.get((number % SLOTS as u64) as usize)
    }

    /// Makes this the newest value. For the one writer. Real-time safe.
    pub fn put(&self, words: &[u64; W]) {
        let number = self.newest.load(Ordering::Relaxed) + 1;
        let Some(slot) = self.slot(number) else { return };
        slot.stamp.store(2 * number - 1, Ordering::Relaxed);
        // Nobody may see the words before the odd stamp.
        fence(Ordering::Release);
        for (place, word) in slot.words.iter().zip(words) {
            place.store(*word, Ordering::Relaxed);
        }
        slot.stamp.store(2 * number, Ordering::Release);
        self.newest.store(number, Ordering::Release);
    }

    /// The newest value and its number (1 = first). `None` before the first, and in the unheard-of case that the writer
    /// overtook every look. Real-time safe.
    pub fn newest(&self) -> Option<(u64, [u64; W])> {
        for _ in 0..LOOKS {
            let number = self.newest.load(Ordering::Acquire);
            if number == 0 {
                return None;
            }
            let slot = self.slot(number)?;
            let before = slot.stamp.load(Ordering::Acquire);
            let mut words = [0; W];
            for (word, place) in words.iter_mut().zip(&slot.words) {
                *word = place.load(Ordering::Relaxed);
            }
            // The words were read before this stamp.
            fence(Ordering::Acquire);
            if before == 2 * number && slot.stamp.load(Ordering::Relaxed) == before {
                return Some((number, words));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn the_newest_wins_and_is_numbered() {
        let mailbox = Mailbox::<2>::default();
        assert_eq!(mailbox.newest(), None);
        for n in 1..=20 {
            mailbox.put(&[n, n * n]);
        }
        assert_eq!(mailbox.newest(), Some((20, [20, 400])));
        assert_eq!(mailbox.newest(), Some((20, [20, 400])), "taking does not empty it");
    }

    /// Two threads at full speed: no value is torn, none goes back in time, the last arrives.
    #[test]
    fn values_are_never_torn() {
        const N: u64 = 200_000;
        let mailbox = Arc::new(Mailbox::<8>::default());
        let writer = std::thread::spawn({
            let mailbox = mailbox.clone();
            move || (1..=N).for_each(|n| mailbox.put(&std::array::from_fn(|i| n * (i as u64 + 1))))
        });
        let mut last = 0;
        while last < N {
            if let Some((number, words)) = mailbox.newest() {
                assert!(number >= last);
                assert_eq!(words, std::array::from_fn(|i| number * (i as u64 + 1)));
                last = number;
            } else {
                std::thread::yield_now();
            }
        }
        writer.join().expect("writer");
    }
}
