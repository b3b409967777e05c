//! Clocks of the servo: the real one sleeps to absolute times, the virtual one jumps.

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
