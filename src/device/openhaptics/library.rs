//! The vendor's `libHD.so`, loaded at run time. Nothing of the vendor's is in this program: the functions are called by the names, and
//! with the numbers, that its interface publishes (OpenHaptics 3.0: hdDevice, hdScheduler, hdDefines).
//!
//! Once loaded the library stays: CHAI3D (`src/devices/CPhantomDevices.cpp`) notes that it cannot be loaded a second time.

use libc::{c_char, c_int, c_uint, c_ulong, c_ushort, c_void};
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;

/// Names under which it is looked for where none is given.
pub const NAMES: [&str; 2] = ["libHD.so", "libHD.so.3.4"];

/// No device.
pub const NO_DEVICE: c_uint = u32::MAX;
/// What a callback answers to be called again.
pub const CONTINUE: c_uint = 1;

/// `HD_CURRENT_BUTTONS`.
pub const BUTTONS: c_uint = 0x2000;
/// `HD_CURRENT_TRANSFORM`: sixteen numbers by columns, mm.
pub const TRANSFORM: c_uint = 0x2052;
/// `HD_CURRENT_FORCE`, N.
pub const FORCE: c_uint = 0x2700;
/// `HD_DEVICE_MODEL_TYPE`.
pub const MODEL: c_uint = 0x2501;
/// `HD_DEVICE_SERIAL_NUMBER`.
pub const SERIAL: c_uint = 0x2504;
/// `HD_CALIBRATION_STYLE`, a mask.
pub const CALIBRATION_STYLE: c_uint = 0x2555;
/// `HD_NOMINAL_MAX_FORCE`, N.
pub const NOMINAL_MAX_FORCE: c_uint = 0x2603;
/// `HD_FORCE_OUTPUT`.
pub const FORCE_OUTPUT: c_uint = 0x4000;
/// `HD_CALIBRATION_OK`.
pub const CALIBRATED: c_uint = 0x5000;
/// `HD_CALIBRATION_NEEDS_UPDATE`.
pub const NEEDS_UPDATE: c_uint = 0x5001;
/// First of the errors of the device itself; below are those of functions and forces.
pub const DEVICE_ERRORS: std::ops::Range<c_uint> = 0x0300..0x0400;
/// Errors about forces: the library takes them away by itself.
pub const FORCE_ERRORS: std::ops::Range<c_uint> = 0x0200..0x0300;

/// `HD_WARM_MOTORS`: a warning.
pub const WARM_MOTORS: c_uint = 0x0200;
/// `HD_CALIBRATION_ENCODER_RESET`: the arm must be in its reset pose when it is calibrated so.
pub const ENCODER_RESET: c_uint = 1;

/// Errors taken at once.
const MOST_ERRORS: usize = 16;

/// Code called by the vendor's scheduler.
pub type Callback = unsafe extern "C" fn(*mut c_void) -> c_uint;

/// `HDErrorInfo`.
#[repr(C)]
#[derive(Clone, Copy)]
struct ErrorInfo {
    code: c_uint,
    internal: c_int,
    device: c_uint,
}

/// The functions that are used.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    init_device: unsafe extern "C" fn(*const c_char) -> c_uint,
    disable_device: unsafe extern "C" fn(c_uint),
    make_current: unsafe extern "C" fn(c_uint),
    begin_frame: unsafe extern "C" fn(c_uint),
    end_frame: unsafe extern "C" fn(c_uint),
    enable: unsafe extern "C" fn(c_uint),
    get_integers: unsafe extern "C" fn(c_uint, *mut c_int),
    get_doubles: unsafe extern "C" fn(c_uint, *mut f64),
    set_doubles: unsafe extern "C" fn(c_uint, *const f64),
    get_string: unsafe extern "C" fn(c_uint) -> *const c_char,
    get_error: unsafe extern "C" fn() -> ErrorInfo,
    check_calibration: unsafe extern "C" fn() -> c_uint,
    update_calibration: unsafe extern "C" fn(c_uint),
    set_rate: unsafe extern "C" fn(c_ulong),
    start: unsafe extern "C" fn(),
    stop: unsafe extern "C" fn(),
    schedule: unsafe extern "C" fn(Callback, *mut c_void, c_ushort) -> c_ulong,
    unschedule: unsafe extern "C" fn(c_ulong),
}

impl Library {
    /// Loads the library at `path`, or the first of [`NAMES`] that the system's loader finds. It runs code of the vendor's. Not
    /// real-time safe.
    ///
    /// # Errors
    /// What the loader says, and what to do.
    pub fn load(path: Option<&OsStr>) -> Result<Self, String> {
        let mut causes = Vec::new();
        let names: Vec<&OsStr> = path.map_or_else(|| NAMES.iter().map(OsStr::new).collect(), |p| vec![p]);
        for name in names {
            let c_name =
                CString::new(name.as_bytes()).map_err(|_| "device.library: a path without NUL, please")?;
            // SAFETY: `c_name` is a string that ends in NUL. What the library does when it is loaded is the vendor's.
            let handle = unsafe { libc::dlopen(c_name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
            if handle.is_null() {
                causes.push(why());
                continue;
            }
            return Self::bind(handle).map_err(|symbol| {
                format!("{} has no function {symbol}: it is no OpenHaptics 3 library", name.to_string_lossy())
            });
        }
        Err(format!(
            "the maker's library is not there ({}); install its OpenHaptics and device driver, or set device.library to the path of \
             libHD.so",
            causes.join("; ")
        ))
    }

    fn bind(handle: *mut c_void) -> Result<Self, &'static str> {
        /// The function of that name, as what the field is.
        macro_rules! function {
            ($name:literal) => {{
                // SAFETY: the handle is open and stays so, the name ends in NUL.
                let symbol = unsafe { libc::dlsym(handle, concat!($name, "\0").as_ptr().cast()) };
                if symbol.is_null() {
                    return Err($name);
                }
                // SAFETY: the interface publishes a function of this name with the field's arguments (module text); both are
                // pointers to code.
                // (The field's type says what it becomes.)
                #[allow(clippy::missing_transmute_annotations)]
                unsafe {
                    std::mem::transmute(symbol)
                }
            }};
        }
        Ok(Self {
            init_device: function!("hdInitDevice"),
            disable_device: function!("hdDisableDevice"),
            make_current: function!("hdMakeCurrentDevice"),
            begin_frame: function!("hdBeginFrame"),
            end_frame: function!("hdEndFrame"),
            enable: function!("hdEnable"),
            get_integers: function!("hdGetIntegerv"),
            get_doubles: function!("hdGetDoublev"),
            set_doubles: function!("hdSetDoublev"),
            get_string: function!("hdGetString"),
            get_error: function!("hdGetError"),
            check_calibration: function!("hdCheckCalibration"),
            update_calibration: function!("hdUpdateCalibration"),
            set_rate: function!("hdSetSchedulerRate"),
            start: function!("hdStartScheduler"),
            stop: function!("hdStopScheduler"),
            schedule: function!("hdScheduleAsynchronous"),
            unschedule: function!("hdUnschedule"),
        })
    }

    /// Opens the system's default device.
    ///
    /// # Errors
    /// The library's code.
    pub fn init_device(&self) -> Result<c_uint, c_uint> {
        self.error();
        // SAFETY: the interface takes NULL for the default device.
        let device = unsafe { (self.init_device)(std::ptr::null()) };
        match self.error() {
            0 if device != NO_DEVICE => Ok(device),
            code => {
                if device != NO_DEVICE {
                    self.disable_device(device);
                }
                Err(code)
            }
        }
    }

    /// Closes a device.
    pub fn disable_device(&self, device: c_uint) {
        // SAFETY: a number, checked by the library.
        unsafe { (self.disable_device)(device) }
    }

    /// Makes it the device that this thread's calls are about.
    pub fn make_current(&self, device: c_uint) {
        // SAFETY: a number, checked by the library.
        unsafe { (self.make_current)(device) }
    }

    /// One frame: everything between is of one moment, and what is set goes out at its end.
    pub fn frame<T>(&self, device: c_uint, inside: impl FnOnce() -> T) -> T {
        // SAFETY: a number, checked by the library; begin and end are paired.
        unsafe { (self.begin_frame)(device) };
        let out = inside();
        // SAFETY: as above.
        unsafe { (self.end_frame)(device) };
        out
    }

    /// Switches something on.
    pub fn enable(&self, what: c_uint) {
        // SAFETY: a number, checked by the library.
        unsafe { (self.enable)(what) }
    }

    /// A single integer.
    pub fn integer(&self, what: c_uint) -> c_int {
        // Room for the largest answer to any of our questions.
        let mut out = [0; 16];
        // SAFETY: `what` is one of the constants above, which fill one integer.
        unsafe { (self.get_integers)(what, out.as_mut_ptr()) };
        out[0]
    }

    /// Up to sixteen numbers.
    pub fn doubles(&self, what: c_uint) -> [f64; 16] {
        let mut out = [0.0; 16];
        // SAFETY: `what` is one of the constants above, which fill at most sixteen numbers.
        unsafe { (self.get_doubles)(what, out.as_mut_ptr()) };
        out
    }

    /// Sets the force, N.
    pub fn set_force(&self, force: &[f64; 3]) {
        // SAFETY: the interface reads three numbers for this name.
        unsafe { (self.set_doubles)(FORCE, force.as_ptr()) }
    }

    /// A text, for people.
    pub fn text(&self, what: c_uint) -> String {
        // SAFETY: a number, checked by the library.
        let text = unsafe { (self.get_string)(what) };
        if text.is_null() {
            return String::new();
        }
        // SAFETY: the interface gives a string that ends in NUL and lives as long as the library.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    /// Takes all errors that wait and gives the gravest, by their numbers' hundreds: the device's own before those about forces,
    /// before the others; 0 = none.
    pub fn error(&self) -> c_uint {
        let grave = |code: c_uint| match code {
            0 => 0,
            c if DEVICE_ERRORS.contains(&c) => 3,
            c if FORCE_ERRORS.contains(&c) => 2,
            _ => 1,
        };
        let mut worst = 0;
        for _ in 0..MOST_ERRORS {
            // SAFETY: no argument; the answer is a plain structure.
            let code = unsafe { (self.get_error)() }.code;
            if code == 0 {
                break;
            }
            if grave(code) > grave(worst) {
                worst = code;
            }
        }
        worst
    }

    /// Whether the frame of the current device is known.
    pub fn check_calibration(&self) -> c_uint {
        // SAFETY: no argument.
        unsafe { (self.check_calibration)() }
    }

    /// Calibrates the current device in a style.
    pub fn update_calibration(&self, style: c_uint) {
        // SAFETY: a number, checked by the library.
        unsafe { (self.update_calibration)(style) }
    }

    /// Starts the vendor's thread at a rate, Hz.
    pub fn start_scheduler(&self, rate: c_ulong) {
        // SAFETY: a number, and no argument.
        unsafe {
            (self.set_rate)(rate);
            (self.start)();
        }
    }

    /// Stops the vendor's thread.
    pub fn stop_scheduler(&self) {
        // SAFETY: no argument.
        unsafe { (self.stop)() }
    }

    /// Has `callback` called in every round, at the highest priority.
    ///
    /// # Safety
    /// `data` must be what `callback` expects for as long as the process lives: a round may be under way when it is unscheduled.
    pub unsafe fn schedule(&self, callback: Callback, data: *mut c_void) -> c_ulong {
        // SAFETY: the caller's.
        unsafe { (self.schedule)(callback, data, c_ushort::MAX) }
    }

    /// Ends the rounds of a callback.
    pub fn unschedule(&self, handle: c_ulong) {
        // SAFETY: a number, checked by the library.
        unsafe { (self.unschedule)(handle) }
    }
}

/// What the loader said last.
fn why() -> String {
    // SAFETY: dlerror has no argument and gives NULL or a string that holds until this thread's next call.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "no cause given".into();
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
