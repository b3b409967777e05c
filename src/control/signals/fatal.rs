//! Signals that mean broken code or a hung daemon: SIGSEGV and its like, SIGABRT (abort(), systemd's watchdog),
//! SIGXCPU (the servo computes without end; the kernel's SIGKILL would follow).
//!
//! Nothing can be mended in them. The servo thread, if it still runs, gets a moment to ramp down and to command zero;
//! then the process ends as it would have ended, with a core dump.

use super::{act, reach};
use nix::sys::signal::Signal;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

/// What a thread's own instructions can cause; a thread that blocks them is killed by them at once.
pub(super) const CAUSED: [Signal; 7] = [
    Signal::SIGSEGV,
    Signal::SIGBUS,
    Signal::SIGFPE,
    Signal::SIGILL,
    Signal::SIGTRAP,
    Signal::SIGSYS,
    Signal::SIGABRT,
];

/// Longest wait for the servo's last zero, in naps of 2 ms.
const NAPS: u32 = 100;
/// A servo without a tick for so many naps is itself the one that is hurt.
const STILL: u32 = 25;

/// A handler of these runs already.
static RUNS: AtomicBool = AtomicBool::new(false);
/// What the Rust runtime does at SIGSEGV and SIGBUS: it tells a stack overflow from others.
static BEFORE: OnceLock<[libc::sigaction; 2]> = OnceLock::new();

pub(super) fn install() -> nix::Result<()> {
    let handler = on_fatal as extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) as usize;
    // On the alternate stack that the Rust runtime gives each of its threads: the stack itself may have overflowed.
    let set = |signal| act(signal, handler, libc::SA_SIGINFO | libc::SA_ONSTACK, false);
    let before = [set(libc::SIGSEGV)?, set(libc::SIGBUS)?];
    let _ = BEFORE.set(before);
    for signal in CAUSED.into_iter().map(|s| s as i32).chain([libc::SIGXCPU]) {
        set(signal)?;
    }
    Ok(())
}

extern "C" fn on_fatal(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes a whole siginfo; null is looked for all the same.
    let caused = unsafe { info.as_ref() }.is_some_and(|i| i.si_code > 0);
    let first = !RUNS.swap(true, AcqRel);
    if !first && !caused {
        // Sent from outside while another thread ends the process: the servo may be the one that got it.
        return;
    }
    last_zero();
    let place = usize::from(signal == libc::SIGBUS);
    let known = BEFORE.get().and_then(|b| b.get(place));
    match known {
        // The instruction fails again when this returns, and the runtime says what it was.
        Some(before) if caused && matches!(signal, libc::SIGSEGV | libc::SIGBUS) => {
            // SAFETY: sigaction is async-signal-safe; `before` is what it gave itself.
            unsafe { libc::sigaction(signal, before, std::ptr::null_mut()) };
        }
        _ => {
            let _ = act(signal, libc::SIG_DFL, 0, false);
            // Blocked while its handler runs: it ends the process when this returns.
            // SAFETY: raise is async-signal-safe.
            unsafe { libc::raise(signal) };
        }
    }
}

/// Asks the servo for its last zero and waits for it, as long as it ticks and at most 200 ms.
fn last_zero() {
    let Some(r) = reach() else { return };
    r.flags.disarm();
    r.flags.stop();
    let nap = libc::timespec { tv_sec: 0, tv_nsec: 2_000_000 };
    let (mut ticks, mut still) = (r.counters.ticks.load(Relaxed), 0);
    for _ in 0..NAPS {
        if r.counters.ended() || still >= STILL {
            break;
        }
        // SAFETY: nanosleep is async-signal-safe and only reads `nap`.
        unsafe { libc::nanosleep(&raw const nap, std::ptr::null_mut()) };
        let now = r.counters.ticks.load(Relaxed);
        still = if now == ticks { still + 1 } else { 0 };
        ticks = now;
    }
}
