//! One-slot mailbox with a return ring: hands values from the control side to the servo, latest wins.
//!
//! The publisher swaps its new value in and gets back whatever the servo had not adopted yet. The servo takes the
//! value; the one that it replaces goes into a return ring that the control side empties and frees, so the servo
//! never frees. When the ring is full the servo leaves the mailbox alone. Both sides are wait-free.
//!
//! Atomics and orderings come from the sibling module `atomic`, so that loom runs this very file.

use super::atomic::{Arc, AtomicPtr, COLLECT, GIVE_BACK, PUBLISH, TAKE};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;

/// State shared by both ends. Every non-null pointer in it came from `Box::into_raw` and is owned by the place
/// that holds it.
struct Shared<T> {
    mailbox: AtomicPtr<T>,
    /// Return ring: a null entry is free. The servo writes in order, the control side empties in order; each keeps
    /// its own index, so the entries themselves are the only shared state.
    returns: Box<[AtomicPtr<T>]>,
    /// Both ends hand over `T` by value.
    _owns: std::marker::PhantomData<T>,
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        for place in std::iter::once(&self.mailbox).chain(self.returns.iter()) {
            let p = place.swap(null_mut(), COLLECT);
            if !p.is_null() {
                // SAFETY: the place owned the pointer (see `Shared`) and the swap took it out.
                drop(unsafe { Box::from_raw(p) });
            }
        }
    }
}

/// The control side's end. Not real-time: it frees.
pub struct Publisher<T> {
    shared: Arc<Shared<T>>,
    next: usize,
}

/// The servo's end. Its methods are real-time safe; dropping it is not.
pub struct Adopter<T> {
    shared: Arc<Shared<T>>,
    next: usize,
    current: Option<Box<T>>,
}

/// What [`Adopter::adopt`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// Nothing new.
    Unchanged,
    /// A newer value is current.
    Adopted,
    /// Something new waits, but the return ring is full: the old value stays current.
    ReturnFull,
}

/// A mailbox whose return ring holds `returns` (at least one) values.
pub fn exchange<T: Send + Sync>(returns: usize) -> (Publisher<T>, Adopter<T>) {
    let returns = (0..returns.max(1)).map(|_| AtomicPtr::new(null_mut())).collect();
    let shared =
        Arc::new(Shared { mailbox: AtomicPtr::new(null_mut()), returns, _owns: std::marker::PhantomData });
    (Publisher { shared: Arc::clone(&shared), next: 0 }, Adopter { shared, next: 0, current: None })
}

impl<T> Publisher<T> {
    /// Makes `value` the newest. Returns the previous value when the servo had not adopted it: it is superseded.
    pub fn publish(&mut self, value: Box<T>) -> Option<Box<T>> {
        let old = self.shared.mailbox.swap(Box::into_raw(value), PUBLISH);
        // SAFETY: a pointer in the mailbox is owned by it and the swap took it out; only this end ever puts one
        // there, so its contents were written by this thread.
        (!old.is_null()).then(|| unsafe { Box::from_raw(old) })
    }

    /// The next value that the servo has replaced, if any: the caller frees it.
    pub fn collect(&mut self) -> Option<Box<T>> {
        let place = self.shared.returns.get(self.next)?;
        if place.load(Relaxed).is_null() {
            return None;
        }
        let old = place.swap(null_mut(), COLLECT);
        self.next = (self.next + 1) % self.shared.returns.len();
        // SAFETY: the servo gave the pointer up when it stored it in the ring, and the swap took it out.
        Some(unsafe { Box::from_raw(old) })
    }
}

impl<T> Adopter<T> {
    /// The value in use; `None` before the first adoption. Real-time safe.
    #[inline]
    pub fn current(&self) -> Option<&T> {
        self.current.as_deref()
    }

    /// Takes the newest value, if there is one. Real-time safe: one or two atomic operations, whatever the size.
    #[inline]
    pub fn adopt(&mut self) -> Adoption {
        // Only this end empties the mailbox, so a value seen here is still there (or a newer one is) at the swap.
        if self.shared.mailbox.load(Relaxed).is_null() {
            return Adoption::Unchanged;
        }
        let Some(place) = self.shared.returns.get(self.next) else { return Adoption::ReturnFull };
        // A null entry carries no data and only this end fills entries, so relaxed is enough.
        if self.current.is_some() && !place.load(Relaxed).is_null() {
            return Adoption::ReturnFull;
        }
        let new = self.shared.mailbox.swap(null_mut(), TAKE);
        // SAFETY: non-null (see above), owned by the mailbox, and the swap took it out.
        let new = unsafe { Box::from_raw(new) };
        if let Some(old) = self.current.replace(new) {
            // A swap, not a store: all changes of an entry are read-modify-writes, hence totally ordered.
            let free = place.swap(Box::into_raw(old), GIVE_BACK);
            debug_assert!(free.is_null(), "only this end fills entries");
            self.next += 1;
            if self.next == self.shared.returns.len() {
                self.next = 0;
            }
        }
        Adoption::Adopted
    }
}

// SAFETY: both ends own or share values of `T` across threads only through the atomics above; `exchange` asks for
// `T: Send + Sync`.
unsafe impl<T: Send + Sync> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}
