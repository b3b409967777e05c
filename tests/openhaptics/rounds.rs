//! What a round of the maker's thread does beside the library's own calls: it takes no memory and asks the system for nothing.

use super::sealed::{deny_all_but_the_sleep, ends, in_child};
use super::{CALIBRATION, FAILS, FORCE, PULL, PUSHES, StandIn, now, push, ready};
use hapticd::device::{Lifecycle, WriteFault};
use hapticd::servo::heap::operations;
use nix::sys::signal::Signal;
use seccompiler::{BpfProgram, apply_filter};
use std::cell::Cell;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

const MODE: &str = "HAPTICD_TEST_ROUND_CHILD";
const LIBRARY: &str = "HAPTICD_TEST_ROUND_LIBRARY";
/// Rounds from which on they are watched.
const WARM: u64 = 200;
/// And how many of them.
const WATCHED: u64 = 3000;

static ROUNDS: AtomicU64 = AtomicU64::new(0);
static HEAP: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static BEGUN: Cell<u64> = const { Cell::new(0) };
}

/// Called by the stand-in before and after a round: counts its heap operations, of which those of the stand-in, which has an allocator of its own, are none.
pub extern "C" fn count(after: i32) {
    if after == 0 {
        BEGUN.set(operations());
    } else {
        ROUNDS.fetch_add(1, SeqCst);
        HEAP.fetch_add(operations() - BEGUN.get(), SeqCst);
    }
}

/// Rounds so far, and heap operations in them.
pub fn counted() -> (u64, u64) {
    let before = operations();
    drop(std::hint::black_box(vec![0u8; 100]));
    assert_eq!(operations() - before, 2, "the counting allocator is installed");
    (ROUNDS.load(SeqCst), HEAP.load(SeqCst))
}

/// What the child's rounds may do, and what they do besides.
static SEAL: OnceLock<(BpfProgram, String)> = OnceLock::new();
static HELD: Mutex<()> = Mutex::new(());

extern "C" fn seal(after: i32) {
    if after != 0 {
        return;
    }
    let (filter, mode) = SEAL.get().expect("set before");
    match ROUNDS.fetch_add(1, SeqCst).checked_sub(WARM) {
        Some(0) => apply_filter(filter).expect("installs"),
        Some(100) if mode == "getpid" => drop(nix::unistd::getpid()),
        Some(100) if mode == "lock" => drop(HELD.lock()),
        _ => {}
    }
}

/// A servo at a device that pushes, whose forces are refused, whose motors are warm, that loses its frame and finds it; and somebody who asks all the time for what is
/// behind a lock: a round that took it would find it taken.
fn child(mode: String) -> ! {
    SEAL.set((deny_all_but_the_sleep(), mode)).expect("once");
    let _held = HELD.lock();
    let hd = StandIn::load(std::env::var_os(LIBRARY).expect("told").into());
    let mut device = ready(&hd);
    let io = device.io().expect("its I/O");
    std::thread::spawn(move || {
        loop {
            std::hint::black_box(io.trouble());
        }
    });
    push(&mut device, &hd, FORCE, FORCE);
    (hd.watch)(seal);
    let (begin, mut refused, mut lost) = (Instant::now(), 0, 0);
    // Until all of it has been seen, however seldom this thread gets to run.
    let seen = |refused, lost| (hd.get)(PUSHES) > 500 && refused > 0 && lost > 10;
    while ROUNDS.load(SeqCst) < WARM + WATCHED || !seen(refused, lost) {
        assert!(begin.elapsed() < Duration::from_secs(120), "the rounds end");
        let round = ROUNDS.load(SeqCst) % 1000;
        (hd.set)(
            FAILS,
            match round {
                200..250 => 0x0200,
                250..300 => 0x0201,
                _ => 0,
            },
        );
        (hd.set)(
            CALIBRATION,
            match round {
                500..700 => 0x5002,
                700..900 => 0x5001,
                _ => 0x5000,
            },
        );
        (hd.place)(round as f64 * 0.01, 0.0, 0.0, (round % 4) as i32);
        let _ = device.read(now());
        refused += u32::from(device.write(now(), &PULL) == Err(WriteFault::Failed));
        lost += u32::from(device.lifecycle() == Lifecycle::Uncalibrated);
        // Silent at times: what is old goes out as zero.
        std::thread::sleep(Duration::from_millis(if round.is_multiple_of(100) { 20 } else { 1 }));
    }
    // The maker's thread may not even end.
    // SAFETY: ends the process, nothing else.
    unsafe { libc::_exit(0) }
}

#[test]
fn in_a_child() {
    match std::env::var(MODE) {
        Ok(mode) => child(mode),
        Err(_) => println!("nothing to do: this is what the other test runs in a child process"),
    }
}

#[test]
fn a_round_makes_no_system_call_and_one_that_does_kills_the_child() {
    let dir = tempfile::tempdir().unwrap();
    let Some(library) = StandIn::compile(dir.path()) else { return };
    let status = |mode| ends(in_child("rounds::in_a_child", MODE, mode).env(LIBRARY, &library));
    assert!(status("nothing").success(), "{:?}", status("nothing").signal());
    for mode in ["getpid", "lock"] {
        assert_eq!(status(mode).signal(), Some(Signal::SIGSYS as i32), "{mode}");
    }
}
