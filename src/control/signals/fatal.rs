//! Signals that mean broken code or a hung daemon: SIGSEGV and its like, SIGABRT (abort(), systemd's watchdog),
//! SIGXCPU (the servo computes without end; the kernel's SIGKILL would follow).
//!
//! Nothing can be mended in them, but for a page that another process took from under a device. The servo thread, if it
//! still runs, gets a moment to ramp down and to command zero; when it is itself the one that is hurt, or stands still, the
//! handler says zero to the device in its place. Then one line says what happened, and the process ends as it would have
//! ended, with a core dump.

use super::{act, reach};
use crate::config::MAX_DEVICES;
use crate::servo::handle::{Counters, Flags, monotonic_ns};
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
/// Somebody took the device's shared page away since the last look.
static MENDED: AtomicBool = AtomicBool::new(false);
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

/// True when, since the last call, a page that the device shares was taken away and own memory was put in its place.
pub(super) fn take_mended() -> bool {
    MENDED.swap(false, AcqRel)
}

extern "C" fn on_fatal(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes a whole siginfo; null is looked for all the same.
    let info = unsafe { info.as_ref() };
    let caused = info.is_some_and(|i| i.si_code > 0);
    let addressed = caused && matches!(signal, libc::SIGBUS | libc::SIGSEGV | libc::SIGILL | libc::SIGFPE);
    // SAFETY: for these, when an instruction caused them, the kernel fills in the address.
    let address = info.filter(|_| addressed).map(|i| unsafe { i.si_addr() } as usize);
    let mend = |at| reach().filter_map(|r| r.counters.emergency()).any(|e| e.mend(at));
    if address.filter(|_| signal == libc::SIGBUS).is_some_and(mend) {
        MENDED.store(true, Relaxed);
        super::wake();
        return;
    }
    let first = !RUNS.swap(true, AcqRel);
    if !first && !caused {
        // Sent from outside while another thread ends the process: the servo may be the one that got it.
        return;
    }
    let zero = last_zero(reach().map(|r| (&r.flags, &*r.counters)));
    if first {
        tell(signal, zero, address.map(|at| Place { at, instruction: instruction(context) }));
    }
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

/// Who said zero to a device; of several devices the worst, which comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Zero {
    /// No servo runs.
    NoForce,
    /// The servo itself.
    Servo,
    /// The handler, in place of a servo that cannot.
    Handler,
    /// Nobody could.
    Nobody,
}

/// Asks every servo for its last zero and waits for them, as long as one ticks and at most 200 ms in all; says zero itself where
/// a servo cannot any more.
fn last_zero<'a>(servos: impl Iterator<Item = (&'a Flags, &'a Counters)>) -> Zero {
    let mut all: [Option<Last<'a>>; MAX_DEVICES] = [const { None }; MAX_DEVICES];
    for (place, (flags, counters)) in all.iter_mut().zip(servos) {
        flags.disarm();
        flags.stop();
        *place = Some(Last { counters, ticks: counters.ticks.load(Relaxed), still: 0, zero: None });
    }
    let nap = libc::timespec { tv_sec: 0, tv_nsec: 2_000_000 };
    for _ in 0..NAPS {
        // One that is hurt is answered for at once, whatever the others do.
        let waits = all.iter_mut().flatten().filter_map(Last::look).count();
        if waits == 0 {
            break;
        }
        // SAFETY: nanosleep is async-signal-safe and only reads `nap`.
        unsafe { libc::nanosleep(&raw const nap, std::ptr::null_mut()) };
    }
    let worst = all.iter_mut().flatten().map(Last::word).max().unwrap_or(Zero::NoForce);
    // One that seemed to stand still may have written once more, after what was said in its place.
    for servo in all.iter().flatten().filter(|s| !s.counters.ended()) {
        servo.counters.emergency().map(|e| e.zero(monotonic_ns()));
    }
    worst
}

/// A servo whose last zero is waited for.
struct Last<'a> {
    counters: &'a Counters,
    ticks: u64,
    /// Naps without a tick.
    still: u32,
    /// Who said it, once that is known.
    zero: Option<Zero>,
}

impl Last<'_> {
    /// Something while it must be waited for.
    fn look(&mut self) -> Option<()> {
        if self.zero.is_some() {
            return None;
        }
        let now = self.counters.ticks.load(Relaxed);
        self.still = if now == self.ticks { self.still + 1 } else { 0 };
        self.ticks = now;
        if self.counters.ended() || self.still > STILL || self.counters.is_own_thread() {
            self.word();
            return None;
        }
        Some(())
    }

    /// Who says zero: the servo where it has ended, the handler otherwise.
    fn word(&mut self) -> Zero {
        let counters = self.counters;
        let said = || match counters.emergency() {
            // Where the device has an I/O thread, the servo's zero may lie in its mailbox yet.
            Some(e) => match (e.zero(monotonic_ns()), counters.ended()) {
                (true, true) => Zero::Servo,
                (true, false) => Zero::Handler,
                (false, _) => Zero::Nobody,
            },
            None if counters.ended() => Zero::Servo,
            None => Zero::Nobody,
        };
        *self.zero.get_or_insert_with(said)
    }
}

/// Where an instruction failed.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The address that it wanted.
    at: usize,
    /// Its place in the program file, as `addr2line -e hapticd` wants it; 0 where that is not known.
    instruction: usize,
}

unsafe extern "C" {
    /// Where the program begins in memory: a symbol of the linker.
    static __executable_start: u8;
}

/// The instruction that the signal found, counted from the program's begin; 0 where that is not known.
fn instruction(context: *mut libc::c_void) -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        let start = (&raw const __executable_start) as usize;
        // SAFETY: with SA_SIGINFO the kernel passes the thread's context; null is looked for all the same.
        let context = unsafe { context.cast::<libc::ucontext_t>().as_ref() };
        let at = context.and_then(|c| c.uc_mcontext.gregs.get(libc::REG_RIP as usize));
        at.map_or(0, |&at| (at as usize).saturating_sub(start))
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = context;
        0
    }
}

/// Hexadecimal digits with their 0x.
fn hex(value: usize, digits: &mut [u8; 18]) -> &str {
    *digits = *b"0x0000000000000000";
    for (i, place) in digits.iter_mut().skip(2).enumerate() {
        let digit = (value >> (60 - 4 * i) & 15) as u8;
        *place = if digit < 10 { b'0' + digit } else { b'a' + digit - 10 };
    }
    std::str::from_utf8(digits).unwrap_or("?")
}

/// One line on stderr, where it takes it at once.
fn tell(signal: i32, zero: Zero, place: Option<Place>) {
    let what: &str = match signal {
        libc::SIGSEGV => "SIGSEGV: a bug, or broken memory",
        libc::SIGBUS => "SIGBUS: a bug, or memory that is gone",
        libc::SIGFPE => "SIGFPE: a bug",
        libc::SIGILL => "SIGILL: a bug, or a program for another processor",
        libc::SIGTRAP => "SIGTRAP: a trap without a debugger",
        libc::SIGSYS => "SIGSYS: a system call that this process may not make",
        libc::SIGABRT => "SIGABRT: aborted, by the watchdog or by itself",
        libc::SIGXCPU => {
            "SIGXCPU: a real-time thread computed for half a second without sleeping (RLIMIT_RTTIME), or this process used \
             up its processor time (RLIMIT_CPU)"
        }
        _ => "a fatal signal",
    };
    let force: &str = match zero {
        Zero::NoForce => "no servo ran",
        Zero::Servo => "the servo commanded zero force",
        Zero::Handler => "the servo could not command zero force; it was done in its place",
        Zero::Nobody => "it is not known that the device took zero force; run `hapticd zero`",
    };
    let (mut at, mut instruction) = ([0; 18], [0; 18]);
    let [at, by, instruction] = place.map_or([""; 3], |p| {
        [hex(p.at, &mut at), " by the instruction ", hex(p.instruction, &mut instruction)]
    });
    let parts = [
        "hapticd: ",
        what,
        "; ",
        force,
        if by.is_empty() { "" } else { "; address " },
        at,
        by,
        instruction,
        "\n",
    ];
    let mut line = [0_u8; 512];
    let mut end = 0;
    for byte in parts.iter().flat_map(|p| p.bytes()) {
        if let Some(place) = line.get_mut(end) {
            *place = byte;
            end += 1;
        }
    }
    let mut fd = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
    // A log that nobody reads must not keep the process from ending. A pipe that has room has it for the whole line.
    // SAFETY: poll and write are async-signal-safe; `fd` and `line` live through the calls.
    unsafe {
        if libc::poll(&raw mut fd, 1, 0) == 1 && fd.revents & libc::POLLOUT != 0 {
            libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Emergency;
    use std::sync::Arc;

    /// Whoever commanded it: what counts is whether the device took it.
    #[test]
    fn zero_is_told_as_commanded_only_where_the_device_took_it() {
        #[derive(Debug)]
        struct Word(bool);
        impl Emergency for Word {
            fn zero(&self, _now_ns: u64) -> bool {
                self.0
            }
            fn mend(&self, _address: usize) -> bool {
                false
            }
        }
        let word = |took| Some(Arc::new(Word(took)) as Arc<dyn Emergency>);
        // An ended servo; and one that never ticks, for which the handler speaks.
        for (ended, last_word, want) in [
            (true, None, Zero::Servo),
            (true, word(true), Zero::Servo),
            (true, word(false), Zero::Nobody),
            (false, None, Zero::Nobody),
            (false, word(true), Zero::Handler),
            (false, word(false), Zero::Nobody),
        ] {
            let counters = Counters::ending(ended, last_word);
            let flags = Flags::default();
            assert_eq!(last_zero([(&flags, &counters)].into_iter()), want, "ended: {ended}");
            assert!(flags.stopping());
        }
        assert_eq!(last_zero(std::iter::empty()), Zero::NoForce);
    }

    /// Of several devices each is told zero, whatever became of the others, and the worst is what is said.
    #[test]
    fn each_of_several_devices_gets_its_zero() {
        use std::sync::atomic::AtomicU32;
        #[derive(Debug)]
        struct Counted(bool, AtomicU32);
        impl Emergency for Counted {
            fn zero(&self, _now_ns: u64) -> bool {
                self.1.fetch_add(1, Relaxed);
                self.0
            }
            fn mend(&self, _address: usize) -> bool {
                false
            }
        }
        for (took, want) in [
            ([true, true, true], Zero::Handler),
            ([true, false, true], Zero::Nobody),
            ([false, true, true], Zero::Nobody),
            ([true, true, false], Zero::Nobody),
        ] {
            let words: Vec<Arc<Counted>> =
                took.iter().map(|t| Arc::new(Counted(*t, AtomicU32::new(0)))).collect();
            // The middle one's servo has ended, the others stand still.
            let servos: Vec<(Flags, Counters)> = words
                .iter()
                .enumerate()
                .map(|(i, w)| {
                    (Flags::default(), Counters::ending(i == 1, Some(w.clone() as Arc<dyn Emergency>)))
                })
                .collect();
            assert_eq!(last_zero(servos.iter().map(|(f, c)| (f, c))), want, "{took:?}");
            let told: Vec<u32> = words.iter().map(|w| w.1.load(Relaxed)).collect();
            assert_eq!(
                told,
                [2, 1, 2],
                "once, and once more at the end where its servo might have written meanwhile"
            );
            assert!(servos.iter().all(|(f, _)| f.stopping()));
        }
    }

    #[test]
    fn addresses_have_all_their_digits() {
        for value in [0, 8, 0xdead_beef, usize::MAX] {
            assert_eq!(hex(value, &mut [0; 18]), format!("{value:#018x}"));
        }
    }
}
