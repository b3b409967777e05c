//! A stand-in for the maker's `libHD.so`: compiled by the test, with the same functions, a device that the test moves, and a count of
//! everything that a caller may not do. Written from the published names and meanings; it has nothing else in common with the library.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::os::raw::{c_char, c_int, c_uint, c_ulong, c_ushort};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

type Callback = unsafe extern "C" fn(*mut c_void) -> c_uint;

#[repr(C)]
pub struct ErrorInfo {
    code: c_uint,
    internal: c_int,
    device: c_uint,
}

struct State {
    present: bool,
    open: Option<c_uint>,
    next: c_uint,
    current: c_uint,
    frame: bool,
    output: bool,
    position: [f64; 3],
    buttons: c_int,
    calibration: c_uint,
    style: c_uint,
    updated: c_uint,
    /// Set within the frame, and what the motors have.
    pending: [f64; 3],
    force: [f64; 3],
    largest: f64,
    error: c_uint,
    /// Reported from now on at the end of each frame.
    fails: c_uint,
    misuse: u32,
    rate: c_ulong,
    running: bool,
    /// The scheduler hangs.
    still: bool,
    scheduled: Option<(Callback, usize)>,
    opens: u32,
}

/// A lock that asks nothing of the system but a sleep: what else a round asks of it is its caller's.
struct Sleeping<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: only who holds it gets at the value.
unsafe impl<T: Send> Sync for Sleeping<T> {}

impl<T> Sleeping<T> {
    const fn new(value: T) -> Self {
        Self { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        while self.held.swap(true, SeqCst) {
            std::thread::sleep(Duration::from_micros(10));
        }
        // SAFETY: held by this call alone, which does not come back to itself.
        let result = f(unsafe { &mut *self.value.get() });
        self.held.store(false, SeqCst);
        result
    }
}

static STATE: Sleeping<State> = Sleeping::new(State {
    present: true,
    open: None,
    next: 1,
    current: u32::MAX,
    frame: false,
    output: false,
    position: [0.0; 3],
    buttons: 0,
    calibration: 0x5000,
    style: 2,
    updated: 0,
    pending: [0.0; 3],
    force: [0.0; 3],
    largest: 0.0,
    error: 0,
    fails: 0,
    misuse: 0,
    rate: 0,
    running: false,
    still: false,
    scheduled: None,
    opens: 0,
});
static THREAD: Mutex<Option<JoinHandle<()>>> = Mutex::new(None);

/// The call that hangs, and for how long, ms; `u32::MAX` = until it is told otherwise.
static HANG: Sleeping<(c_int, c_uint)> = Sleeping::new((-1, 0));
/// Called before (0) and after (1) each round, on its thread; 0 = nothing.
static WATCH: AtomicUsize = AtomicUsize::new(0);
/// The call that hangs for ever from the start.
static ASKED: OnceLock<Option<c_int>> = OnceLock::new();
/// The call in which the plug is pulled.
static PULLED: std::sync::atomic::AtomicI32 = std::sync::atomic::AtomicI32::new(-1);
/// Frames that have put a force on the motors.
static PUSHES: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

/// Every call comes by here first.
fn pass(call: c_int) {
    if PULLED.compare_exchange(call, -1, SeqCst, SeqCst).is_ok() {
        // Every later frame ends with an error, and the motors have no power.
        with(|s| (s.present, s.fails, s.error, s.force) = (false, 0x0302, 0x0302, [0.0; 3]));
    }
    let asked = ASKED.get_or_init(|| std::env::var("STANDIN_HANG").ok().and_then(|t| t.parse().ok()));
    let begin = std::time::Instant::now();
    loop {
        let (which, ms) = match asked {
            Some(which) => (*which, c_uint::MAX),
            None => HANG.with(|hang| *hang),
        };
        if which != call || ms != c_uint::MAX && begin.elapsed() >= Duration::from_millis(ms.into()) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn with<T>(f: impl FnOnce(&mut State) -> T) -> T {
    STATE.with(f)
}

fn watch(after: c_int) {
    let f = WATCH.load(SeqCst);
    if f != 0 {
        // SAFETY: `standin_watch` stored such a function.
        unsafe { std::mem::transmute::<usize, extern "C" fn(c_int)>(f)(after) };
    }
}

// --- the interface -----------------------------------------------------------------------------------------------

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdInitDevice(name: *const c_char) -> c_uint {
    pass(0);
    with(|s| {
        s.misuse += u32::from(!name.is_null() || s.open.is_some());
        if !s.present {
            s.error = 0x0302;
            return u32::MAX;
        }
        if let Some(code) = std::env::var("STANDIN_CALIBRATION").ok().filter(|_| s.opens == 0) {
            s.calibration = code.parse().expect("a number");
        }
        s.opens += 1;
        s.next += 1;
        s.open = Some(s.next);
        s.current = s.next;
        (s.force, s.pending) = ([0.0; 3], [0.0; 3]);
        s.next
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdDisableDevice(device: c_uint) {
    pass(1);
    with(|s| {
        s.misuse += u32::from(s.open != Some(device) || s.frame);
        (s.open, s.output, s.force) = (None, false, [0.0; 3]);
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdMakeCurrentDevice(device: c_uint) {
    pass(2);
    with(|s| {
        s.misuse += u32::from(s.open != Some(device));
        s.current = device;
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdBeginFrame(device: c_uint) {
    pass(3);
    with(|s| {
        s.misuse += u32::from(s.frame || s.open != Some(device) || s.current != device);
        s.frame = true;
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdEndFrame(device: c_uint) {
    pass(4);
    with(|s| {
        s.misuse += u32::from(!s.frame || s.open != Some(device));
        s.frame = false;
        if s.fails != 0 {
            s.error = s.fails;
        }
        // Errors about forces and the device take the force away.
        s.force = if s.output && s.fails == 0 { s.pending } else { [0.0; 3] };
        PUSHES.fetch_add(u32::from(s.force != [0.0; 3]), SeqCst);
        s.largest = s.largest.max(s.force.iter().map(|f| f * f).sum::<f64>().sqrt());
        s.pending = [0.0; 3];
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdEnable(what: c_uint) {
    pass(5);
    with(|s| match what {
        0x4000 => s.output = true,
        _ => s.misuse += 1,
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdGetIntegerv(what: c_uint, out: *mut c_int) {
    pass(6);
    let value = with(|s| match what {
        0x2000 => {
            s.misuse += u32::from(!s.frame);
            s.buttons
        }
        0x2555 => s.style as c_int,
        _ => {
            s.misuse += 1;
            0
        }
    });
    unsafe { *out = value };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdGetDoublev(what: c_uint, out: *mut f64) {
    pass(7);
    let (values, n) = with(|s| {
        let mut values = [0.0; 16];
        match what {
            0x2052 => {
                s.misuse += u32::from(!s.frame);
                // A quarter turn about x, by columns; the position in mm.
                values[0] = 1.0;
                values[6] = 1.0;
                values[9] = -1.0;
                values[12..15].copy_from_slice(&s.position);
                values[15] = 1.0;
                (values, 16)
            }
            0x2603 => {
                values[0] = 3.0;
                (values, 1)
            }
            _ => {
                s.misuse += 1;
                (values, 0)
            }
        }
    });
    for (i, value) in values.iter().take(n).enumerate() {
        unsafe { *out.add(i) = *value };
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdSetDoublev(what: c_uint, values: *const f64) {
    pass(8);
    let force = unsafe { [*values, *values.add(1), *values.add(2)] };
    with(|s| {
        s.misuse += u32::from(what != 0x2700 || !s.frame);
        s.pending = force;
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdGetString(what: c_uint) -> *const c_char {
    pass(9);
    match what {
        0x2501 => c"Stand-in".as_ptr(),
        0x2504 => c"S-1".as_ptr(),
        _ => std::ptr::null(),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdGetError() -> ErrorInfo {
    pass(10);
    with(|s| ErrorInfo { code: std::mem::take(&mut s.error), internal: -1, device: s.current })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdCheckCalibration() -> c_uint {
    pass(11);
    with(|s| s.calibration)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdUpdateCalibration(style: c_uint) {
    pass(12);
    with(|s| {
        s.misuse += u32::from(style != s.style);
        s.updated += 1;
        if s.calibration == 0x5001 {
            s.calibration = 0x5000;
        }
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdSetSchedulerRate(rate: c_ulong) {
    pass(13);
    with(|s| s.rate = rate);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdScheduleAsynchronous(f: Callback, data: *mut c_void, priority: c_ushort) -> c_ulong {
    pass(14);
    with(|s| {
        s.misuse += u32::from(s.scheduled.is_some() || priority != c_ushort::MAX);
        s.scheduled = Some((f, data as usize));
        7
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdUnschedule(handle: c_ulong) {
    pass(15);
    with(|s| {
        s.misuse += u32::from(handle != 7 || s.scheduled.is_none());
        s.scheduled = None;
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdStartScheduler() {
    pass(16);
    with(|s| {
        s.misuse += u32::from(s.running || s.rate != 1000);
        s.running = true;
    });
    let rounds = || {
        while with(|s| s.running) {
            if let Some((f, data)) = with(|s| s.scheduled.filter(|_| !s.still)) {
                watch(0);
                unsafe { f(data as *mut c_void) };
                watch(1);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    *THREAD.lock().unwrap() = Some(std::thread::spawn(rounds));
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdStopScheduler() {
    pass(17);
    with(|s| {
        s.misuse += u32::from(!s.running);
        s.running = false;
    });
    if let Some(thread) = THREAD.lock().unwrap().take() {
        let _ = thread.join();
    }
}

// --- what the test does with it ----------------------------------------------------------------------------------

/// Has the call of that number, in the order above, hang for so many ms; `u32::MAX` = until the next word.
#[unsafe(no_mangle)]
pub extern "C" fn standin_hang(call: c_int, ms: c_uint) {
    HANG.with(|hang| *hang = (call, ms));
}

/// Has this called before (0) and after (1) each round, on the round's thread.
#[unsafe(no_mangle)]
pub extern "C" fn standin_watch(f: extern "C" fn(c_int)) {
    WATCH.store(f as usize, SeqCst);
}

/// Moves the device (mm) and presses its buttons.
#[unsafe(no_mangle)]
pub extern "C" fn standin_place(x: f64, y: f64, z: f64, buttons: c_int) {
    with(|s| (s.position, s.buttons) = ([x, y, z], buttons));
}

/// 0: plugged in (1) or not (0). 5: the plug is pulled in the call of this number. 1: error at each frame's end. 2: calibration. 3: the scheduler hangs (1). 4: style.
#[unsafe(no_mangle)]
pub extern "C" fn standin_set(what: c_int, value: c_uint) {
    with(|s| match what {
        0 => {
            s.present = value != 0;
            s.fails = if s.present { 0 } else { s.fails };
        }
        5 => PULLED.store(value as c_int, SeqCst),
        1 => s.fails = value,
        2 => s.calibration = value,
        3 => s.still = value != 0,
        _ => s.style = value,
    });
}

/// 0: misuse. 1: opened so often. 2: calibrated so often. 3: open. 4: the scheduler runs. 5: frames with a force.
#[unsafe(no_mangle)]
pub extern "C" fn standin_get(what: c_int) -> c_uint {
    with(|s| match what {
        0 => s.misuse,
        1 => s.opens,
        2 => s.updated,
        3 => u32::from(s.open.is_some()),
        5 => PUSHES.load(SeqCst),
        _ => u32::from(s.running),
    })
}

/// Force at the motors, N: component, or 3 for the largest so far.
#[unsafe(no_mangle)]
pub extern "C" fn standin_force(i: c_int) -> f64 {
    with(|s| s.force.get(i as usize).copied().unwrap_or(s.largest))
}
