//! A counting allocator: proves that ticks neither allocate nor free.
//!
//! It only counts, per thread, and never aborts: a process that drives a device must go on. The tests of the
//! servo path install it with `#[global_allocator]`, the daemon does not. The servo reports what it counted
//! inside ticks in [`Counters::heap`](super::handle::Counters), which stays 0 without it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    // Const-initialised and without a destructor: reading it never allocates.
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// The system allocator, with every allocation, reallocation and free of a thread counted.
#[derive(Debug, Default)]
pub struct CountingAllocator;

fn count() {
    COUNT.with(|c| c.set(c.get().wrapping_add(1)));
}

/// Heap operations of this thread so far; stays 0 unless [`CountingAllocator`] is installed. Real-time safe.
#[inline]
pub fn operations() -> u64 {
    COUNT.with(Cell::get)
}

// SAFETY: every method hands its arguments to the system allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's contract is ours.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's contract is ours.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's contract is ours.
        unsafe { System.realloc(p, layout, size) }
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller's contract is ours.
        unsafe { System.dealloc(p, layout) }
    }
}
