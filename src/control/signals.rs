//! Signals and panics: the force goes first, everything else after.
//!
//! Handlers only touch atomics and write to an eventfd; the main thread does the rest.

use crate::servo::handle::{Counters, Flags};
use crate::servo::record::Fault;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32};

/// Signals that end the daemon.
pub const ENDING: [Signal; 4] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT];

/// What the handlers need of the running servo.
struct Reach {
    flags: Flags,
    counters: Arc<Counters>,
}

static REACH: AtomicPtr<Reach> = AtomicPtr::new(std::ptr::null_mut());
static PENDING: AtomicU32 = AtomicU32::new(0);
static WAKE: AtomicI32 = AtomicI32::new(-1);
static END_ASKED: AtomicBool = AtomicBool::new(false);
static PANICKED: AtomicBool = AtomicBool::new(false);

/// Makes a servo reachable for the handlers. Each call leaks some bytes, because a handler may look at any time;
/// servos start rarely.
pub fn watch(flags: Flags, counters: Arc<Counters>) {
    REACH.store(Box::into_raw(Box::new(Reach { flags, counters })), Release);
}

fn reach() -> Option<&'static Reach> {
    // SAFETY: null or a leaked box, which is never freed or changed.
    unsafe { REACH.load(Acquire).as_ref() }
}

fn bit(signal: i32) -> u32 {
    1 << (signal & 31)
}

fn wake() {
    let fd = WAKE.load(Acquire);
    let one = 1_u64.to_ne_bytes();
    // SAFETY: write is async-signal-safe; `one` has eight bytes. A wrong descriptor only fails.
    unsafe { libc::write(fd, one.as_ptr().cast(), one.len()) };
}

extern "C" fn on_signal(signal: i32) {
    // errno belongs to the interrupted code.
    // SAFETY: the location is this thread's own.
    let errno = unsafe { *libc::__errno_location() };
    if signal != libc::SIGCONT && signal != libc::SIGTSTP {
        END_ASKED.store(true, Release);
    }
    if let Some(r) = reach() {
        match signal {
            // systemd sends SIGCONT after each SIGTERM, stopped or not: no fault, and no dump of it, on the way out.
            libc::SIGCONT if END_ASKED.load(Acquire) => {}
            libc::SIGCONT => r.flags.continued(),
            _ => r.flags.disarm(),
        }
    }
    PENDING.fetch_or(bit(signal), AcqRel);
    wake();
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// systemd's watchdog ends a hung daemon with SIGABRT, and so does abort(): the servo thread, if it still runs, gets
/// up to 200 ms to ramp down and command zero.
extern "C" fn on_abort(_: i32) {
    if let Some(r) = reach() {
        r.flags.disarm();
        r.flags.stop();
        let nap = libc::timespec { tv_sec: 0, tv_nsec: 2_000_000 };
        for _ in 0..100 {
            if r.counters.ended() {
                break;
            }
            // SAFETY: nanosleep is async-signal-safe and only reads `nap`.
            unsafe { libc::nanosleep(&raw const nap, std::ptr::null_mut()) };
        }
    }
    // The handler was reset when it was entered: this ends the process with a core dump.
    // SAFETY: raise is async-signal-safe.
    unsafe { libc::raise(libc::SIGABRT) };
}

/// Installs the handlers and the panic hook. `wake_fd` is an eventfd that lives as long as the process.
///
/// # Errors
/// What the system says.
pub fn install(wake_fd: i32) -> nix::Result<()> {
    WAKE.store(wake_fd, Release);
    let act = |handler, flags| SigAction::new(handler, flags, SigSet::empty());
    // One after the other: of two that wait, the handler of the second would otherwise run first.
    let plain = SigAction::new(SigHandler::Handler(on_signal), SaFlags::SA_RESTART, SigSet::all());
    for signal in ENDING.into_iter().chain([Signal::SIGTSTP, Signal::SIGCONT]) {
        // SAFETY: the handler is async-signal-safe.
        unsafe { sigaction(signal, &plain) }?;
    }
    let abort = act(SigHandler::Handler(on_abort), SaFlags::SA_RESETHAND | SaFlags::SA_NODEFER);
    // SIGXCPU comes when the servo computes without end (RLIMIT_RTTIME); the kernel's SIGKILL would follow.
    for signal in [Signal::SIGABRT, Signal::SIGXCPU] {
        // SAFETY: as above.
        unsafe { sigaction(signal, &abort) }?;
    }
    // A recording that reaches a file size limit is an error of that file, not the end of the daemon.
    // SAFETY: nothing is called.
    unsafe { sigaction(Signal::SIGXFSZ, &act(SigHandler::SigIgn, SaFlags::empty())) }?;
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        panicked();
        before(info);
    }));
    Ok(())
}

/// Takes the force away because some thread panicked.
fn panicked() {
    if let Some(r) = reach() {
        r.flags.fault(Fault::Panic);
        r.flags.disarm();
    }
    PANICKED.store(true, Release);
    wake();
}

/// True once any thread has panicked.
pub fn has_panicked() -> bool {
    PANICKED.load(Acquire)
}

/// The signals that came since the last call.
pub fn take() -> Vec<Signal> {
    let bits = PENDING.swap(0, AcqRel);
    let known = ENDING.into_iter().chain([Signal::SIGTSTP, Signal::SIGCONT]);
    known.filter(|s| bits & bit(*s as i32) != 0).collect()
}

/// Blocks every signal in the calling thread (and the threads that it starts) while the guard lives: the servo must
/// not be interrupted by handlers.
pub fn blocked<T>(f: impl FnOnce() -> T) -> T {
    let mut old = SigSet::empty();
    let all = SigSet::all();
    let changed = nix::sys::signal::pthread_sigmask(
        nix::sys::signal::SigmaskHow::SIG_SETMASK,
        Some(&all),
        Some(&mut old),
    );
    let result = f();
    if changed.is_ok() {
        let _ =
            nix::sys::signal::pthread_sigmask(nix::sys::signal::SigmaskHow::SIG_SETMASK, Some(&old), None);
    }
    result
}
