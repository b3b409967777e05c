//! Signals and panics: the force goes first, everything else after.
//!
//! Every signal that can be caught and would end or stop the process is answered here, so that none leaves a force
//! on the motors: those that somebody sends end the daemon in order, SIGTSTP stops it after zero, the terminal's
//! (TTIN, TTOU) are ignored, and those that mean broken code (`fatal`) leave the servo a moment to command zero.
//! Handlers only touch atomics and write to an eventfd; the main thread does the rest.

mod fatal;

use crate::config::MAX_DEVICES;
use crate::servo::handle::{Counters, Flags, monotonic_ns};
use crate::servo::record::Fault;
use nix::errno::Errno;
use nix::sys::signal::Signal;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64};

/// Signals that end the daemon as SIGTERM does: all whose default action is to end a process, and that are sent, not
/// caused. The real-time signals belong to them.
const ENDING: [i32; 12] = [
    libc::SIGTERM,
    libc::SIGINT,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGSTKFLT,
];
/// Ignored: the terminal's stops (a daemon in the background may log to it and never reads), a peer that has gone, a
/// recording that reaches a file size limit; the last two are errors of the write.
const IGNORED: [i32; 4] = [libc::SIGTTIN, libc::SIGTTOU, libc::SIGPIPE, libc::SIGXFSZ];

/// What the handlers need of a running servo.
struct Reach {
    flags: Flags,
    counters: Arc<Counters>,
}

/// By device.
static REACH: [AtomicPtr<Reach>; MAX_DEVICES] = [const { AtomicPtr::new(std::ptr::null_mut()) }; MAX_DEVICES];
static PENDING: AtomicU64 = AtomicU64::new(0);
static WAKE: AtomicI32 = AtomicI32::new(-1);
static END_ASKED: AtomicBool = AtomicBool::new(false);
static PANICKED: AtomicBool = AtomicBool::new(false);
/// The daemon has more devices than one.
static SEVERAL: AtomicBool = AtomicBool::new(false);

/// Makes the servo of a device reachable for the handlers, in place of its last one. Each call leaks some bytes, because a
/// handler may look at any time; servos start rarely.
///
/// # Panics
/// For a device beyond [`MAX_DEVICES`], which the configuration refuses: a servo that no handler reaches must not run.
pub fn watch(device: usize, flags: Flags, counters: Arc<Counters>) {
    REACH[device].store(Box::into_raw(Box::new(Reach { flags, counters })), Release);
}

/// The servo that was made reachable last did not come about: nobody waits for its last zero.
pub fn unwatch(device: usize) {
    if let Some(place) = REACH.get(device) {
        place.store(std::ptr::null_mut(), Release);
    }
}

/// The servos that run or ran last. Async-signal-safe.
fn reach() -> impl Iterator<Item = &'static Reach> {
    // SAFETY: null or a leaked box, which is never freed or changed.
    REACH.iter().filter_map(|r| unsafe { r.load(Acquire).as_ref() })
}

/// Signals count from 1 to 64.
fn bit(signal: i32) -> u64 {
    1 << ((signal - 1) & 63)
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
    for r in reach() {
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

/// Sets what a signal does; `all` keeps every other signal waiting while the handler runs. nix's own function does
/// not know real-time signals.
fn act(signal: i32, handler: usize, flags: i32, all: bool) -> nix::Result<libc::sigaction> {
    // SAFETY: all zeros is a valid sigaction: default action, no flags, empty mask.
    let (mut new, mut old): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    new.sa_sigaction = handler;
    new.sa_flags = flags;
    if all {
        // SAFETY: the mask is ours.
        unsafe { libc::sigfillset(&raw mut new.sa_mask) };
    }
    // SAFETY: both point at whole structures; every handler of this module is async-signal-safe.
    Errno::result(unsafe { libc::sigaction(signal, &raw const new, &raw mut old) })?;
    Ok(old)
}

/// Installs the handlers and the panic hook for so many devices. `wake_fd` is an eventfd that lives as long as the process.
///
/// # Errors
/// What the system says.
pub fn install(wake_fd: i32, devices: usize) -> nix::Result<()> {
    SEVERAL.store(devices > 1, Release);
    WAKE.store(wake_fd, Release);
    let handler = on_signal as extern "C" fn(i32) as usize;
    let realtime = libc::SIGRTMIN()..=libc::SIGRTMAX();
    for signal in ENDING.into_iter().chain(realtime).chain([libc::SIGTSTP, libc::SIGCONT]) {
        // One after the other: of two that wait, the handler of the second would otherwise run first.
        act(signal, handler, libc::SA_RESTART, true)?;
    }
    for signal in IGNORED {
        act(signal, libc::SIG_IGN, 0, false)?;
    }
    fatal::install()?;
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        panicked();
        before(info);
    }));
    Ok(())
}

/// Takes the force away because some thread panicked: all of it, but where [`alone`] one servo ends.
fn panicked() {
    // Of one device, too: its zero comes before all else.
    let alone = alone(reach());
    if alone && SEVERAL.load(Acquire) {
        wake();
    } else {
        give_up();
    }
}

/// True where this thread is that of a servo and its device took a zero at once. Of several devices that one ends then and is started
/// again; what the others render, or will once they are there, does not hang on it. Where nobody can say zero to the device in the servo's
/// place, or it does not take it, the daemon ends as it does for every other panic.
fn alone<'a>(mut servos: impl Iterator<Item = &'a Reach>) -> bool {
    let Some(own) = servos.find(|r| r.counters.is_own_thread() && !r.counters.ended()) else { return false };
    own.flags.fault(Fault::Panic);
    own.flags.disarm();
    // Before anything is printed, and before the unwinding servo says it too, if it still can.
    own.counters.emergency().is_some_and(|e| e.zero(monotonic_ns()))
}

/// Takes all force away and ends the daemon as after a panic that it cannot do without.
pub fn give_up() {
    for r in reach() {
        r.flags.fault(Fault::Panic);
        r.flags.disarm();
    }
    PANICKED.store(true, Release);
    wake();
}

/// True once a thread has panicked that the daemon cannot do without.
pub fn has_panicked() -> bool {
    PANICKED.load(Acquire)
}

/// Signals that came.
#[derive(Clone, Copy, Debug)]
pub struct Came(u64);

impl Came {
    /// Name of a signal that ends the daemon, if one came.
    pub fn ending(self) -> Option<String> {
        let stays = bit(libc::SIGTSTP) | bit(libc::SIGCONT);
        let rest = self.0 & !stays;
        let number = rest.trailing_zeros() as i32 + 1;
        (rest != 0).then(|| match Signal::try_from(number) {
            Ok(s) => s.as_str().to_owned(),
            Err(_) => format!("signal {number}"),
        })
    }

    /// SIGTSTP came.
    pub fn stop(self) -> bool {
        self.0 & bit(libc::SIGTSTP) != 0
    }
}

/// The signals that came since the last call.
pub fn take() -> Came {
    Came(PENDING.swap(0, AcqRel))
}

/// True when, since the last call, somebody cut the page that a device shares with others: what the motors are told can no
/// longer be seen from outside, and `hapticd zero` reaches them no more.
pub fn take_mended() -> bool {
    fatal::take_mended()
}

/// Blocks every signal in the calling thread (and the threads that it starts) while the guard lives: the servo must
/// not be interrupted by handlers. What broken code causes stays open: blocked, it would end the process at once.
pub fn blocked<T>(f: impl FnOnce() -> T) -> T {
    use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};
    let mut old = SigSet::empty();
    let mut most = SigSet::all();
    fatal::CAUSED.into_iter().for_each(|s| most.remove(s));
    let changed = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&most), Some(&mut old));
    let result = f();
    if changed.is_ok() {
        let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&old), None);
    }
    result
}

/// For tests of what holds for the whole process.
#[cfg(test)]
pub(super) mod testing {
    use super::watch;
    use crate::servo::handle::{ServoCommand, ServoConfig, ServoHandle, channel};
    use crate::servo::run::VirtualServo;

    /// Has the test of that whole name carried out in a process of its own; true in that process.
    pub fn alone(test: &str) -> bool {
        const MARK: &str = "HAPTICD_TEST_ALONE";
        if std::env::var_os(MARK).is_some() {
            return true;
        }
        let mut command = std::process::Command::new(std::env::current_exe().expect("this program"));
        let out = command.args(["--exact", test, "--nocapture"]).env(MARK, "1").output().expect("runs");
        let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success() && said.contains("1 passed"), "{}: {said}", out.status);
        false
    }

    /// A servo on the virtual clock whose force session 1 holds, for ever; the handlers reach it as the first device's.
    pub fn armed() -> (ServoHandle, VirtualServo) {
        let (mut handle, end) = channel(ServoConfig::default());
        let device = crate::device::registry::Registry::builtin().open("ideal-6dof", &Default::default());
        let mut servo = VirtualServo::new(end, device.expect("opens"));
        watch(0, handle.disarm_flag(), handle.counters());
        servo.step();
        for command in [ServoCommand::Arm { session: 1 }, ServoCommand::Lease { until_ns: u64::MAX }] {
            handle.send(command).expect("room");
        }
        for _ in 0..100 {
            servo.step();
        }
        assert_eq!(handle.counters().owner.load(std::sync::atomic::Ordering::Relaxed), 1);
        (handle, servo)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    /// Before anybody else gets to run: the main thread that ends or stops the daemon may be late, or hang.
    #[test]
    fn the_handler_itself_takes_the_force_away() {
        if !testing::alone("control::signals::tests::the_handler_itself_takes_the_force_away") {
            return;
        }
        install(-1, 1).expect("installs");
        let realtime = [libc::SIGRTMIN(), libc::SIGRTMAX()];
        for signal in ENDING.into_iter().chain(realtime).chain([libc::SIGTSTP]) {
            let (handle, mut servo) = testing::armed();
            // SAFETY: raise takes a number.
            assert_eq!(unsafe { libc::raise(signal) }, 0);
            for _ in 0..100 {
                servo.step();
            }
            let counters = handle.counters();
            let owner = counters.owner.load(std::sync::atomic::Ordering::Relaxed);
            assert_eq!((owner, counters.fault()), (0, Fault::None), "signal {signal}");
            assert_ne!(take().0 & bit(signal), 0, "and the main thread hears of it");
        }
    }

    #[test]
    fn each_signal_has_a_bit_and_a_name() {
        let all: std::collections::BTreeSet<u64> = (1..=64).map(bit).collect();
        assert_eq!(all.len(), 64);
        assert_eq!(Came(0).ending(), None);
        assert_eq!(Came(bit(libc::SIGTSTP) | bit(libc::SIGCONT)).ending(), None);
        assert!(Came(bit(libc::SIGTSTP)).stop());
        assert_eq!(Came(bit(libc::SIGUSR1)).ending().as_deref(), Some("SIGUSR1"));
        assert_eq!(Came(bit(64)).ending().as_deref(), Some("signal 64"));
    }

    /// A device's last word, which counts how often it was said.
    #[derive(Debug)]
    struct Word(bool, AtomicU32);

    impl crate::device::Emergency for Word {
        fn zero(&self, _now_ns: u64) -> bool {
            self.1.fetch_add(1, AcqRel);
            self.0
        }

        fn mend(&self, _address: usize) -> bool {
            false
        }
    }

    /// A panic in this thread, as that of one of two servos: its device has its zero before anything else happens, the other is left
    /// alone. Where it does not take it, or another thread panicked, the daemon may not go on.
    #[test]
    fn a_servo_that_panics_ends_alone_only_with_its_zero() {
        let reach = |own: bool, word: Option<&Arc<Word>>| {
            let last_word = word.map(|w| w.clone() as Arc<dyn crate::device::Emergency>);
            let counters = Counters::ending(false, last_word);
            if own {
                counters.set_own_thread();
            }
            Reach { flags: Flags::default(), counters: Arc::new(counters) }
        };
        for (own, word, wanted, said) in [
            (true, Some(true), true, 1),
            (true, Some(false), false, 1),
            (true, None, false, 0),
            (false, Some(true), false, 0),
        ] {
            let word = word.map(|took| Arc::new(Word(took, AtomicU32::new(0))));
            let other = Arc::new(Word(true, AtomicU32::new(0)));
            let servos = [reach(false, Some(&other)), reach(own, word.as_ref())];
            assert_eq!(alone(servos.iter()), wanted, "own: {own}, word: {word:?}");
            assert_eq!(word.map_or(0, |w| w.1.load(Acquire)), said);
            assert_eq!(other.1.load(Acquire), 0, "the other renders on");
        }
    }
}
