//! Clocks of the servo: the real one sleeps to absolute times, the virtual one jumps.

use crate::contact::Deadline;

/// What the servo asks of time. `now_ns` is real-time safe; `sleep_until` is the tick's only wait.
pub trait Clock {
    /// Nanoseconds since the clock's origin; never falls.
    fn now_ns(&self) -> u64;
    /// Waits until `at_ns`; returns at once when that has passed.
    fn sleep_until(&mut self, at_ns: u64);
    /// Time that the machine has spent suspended, ns. Rises across a suspend.
    fn suspended_ns(&self) -> u64;
    /// False where time does not pass by itself: deadlines make no sense there.
    fn is_real(&self) -> bool;
}

/// A tick's deadline by a clock. Real-time safe.
pub(super) struct Until<'a> {
    /// The clock.
    pub clock: &'a dyn Clock,
    /// When it passes, ns.
    pub at: u64,
}

impl Deadline for Until<'_> {
    fn passed(&self) -> bool {
        self.clock.now_ns() >= self.at
    }
}

/// The machine's monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealClock;

impl Clock for RealClock {
    #[inline]
    fn now_ns(&self) -> u64 {
        monotonic_ns()
    }

    fn sleep_until(&mut self, at_ns: u64) {
        let at = libc::timespec {
            tv_sec: (at_ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (at_ns % 1_000_000_000) as libc::c_long,
        };
        // A signal may end the sleep early; an absolute time makes sleeping again exact.
        loop {
            // SAFETY: `at` is a valid timespec; no remainder is asked for.
            let r = unsafe {
                libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &at, std::ptr::null_mut())
            };
            if r != libc::EINTR {
                return;
            }
        }
    }

    #[inline]
    fn suspended_ns(&self) -> u64 {
        // The clock with suspended time minus the one without; both come from the vDSO. Read in this order the
        // difference is never too large by more than a preemption between the two.
        let monotonic = monotonic_ns();
        read(libc::CLOCK_BOOTTIME).saturating_sub(monotonic)
    }

    fn is_real(&self) -> bool {
        true
    }
}

/// A clock that jumps: for tests, `simulate` and replay.
#[derive(Clone, Copy, Debug, Default)]
pub struct VirtualClock {
    now_ns: u64,
    suspended_ns: u64,
}

impl VirtualClock {
    /// Lets time pass.
    pub fn advance(&mut self, ns: u64) {
        self.now_ns = self.now_ns.saturating_add(ns);
    }

    /// Suspends the machine for some time.
    pub fn suspend(&mut self, ns: u64) {
        self.suspended_ns = self.suspended_ns.saturating_add(ns);
    }
}

impl Clock for VirtualClock {
    #[inline]
    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn sleep_until(&mut self, at_ns: u64) {
        self.now_ns = self.now_ns.max(at_ns);
    }

    #[inline]
    fn suspended_ns(&self) -> u64 {
        self.suspended_ns
    }

    fn is_real(&self) -> bool {
        false
    }
}

/// The machine's monotonic clock in ns: the servo's clock on real hardware, and the one to which control maps sender
/// times. Answered by the vDSO without a system call. Real-time safe.
#[inline]
pub fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds on a POSIX clock that always exists.
#[inline]
fn read(clock: libc::clockid_t) -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid timespec to write to.
    unsafe { libc::clock_gettime(clock, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_real_clock_does_not_wake_early() {
        let mut clock = RealClock;
        for _ in 0..5 {
            let at = clock.now_ns() + 2_000_000;
            clock.sleep_until(at);
            assert!(clock.now_ns() >= at);
        }
        let past = clock.now_ns() - 1;
        clock.sleep_until(past);
    }

    #[test]
    fn the_virtual_clock_jumps_and_never_falls() {
        let mut clock = VirtualClock::default();
        clock.sleep_until(5);
        clock.sleep_until(3);
        assert_eq!(clock.now_ns(), 5);
        clock.advance(2);
        clock.suspend(9);
        assert_eq!((clock.now_ns(), clock.suspended_ns()), (7, 9));
    }
}
