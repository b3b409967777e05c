//! Our own thread beside the vendor's: loads the library, finds the device, tells its state, begins again when it was lost.

use super::library::{
    CALIBRATION_STYLE, ENCODER_RESET, FORCE_OUTPUT, Library, MODEL, NO_DEVICE, NOMINAL_MAX_FORCE, SERIAL,
};
use super::link::{Link, Mail, round};
use crate::device::Lifecycle;
use crate::device::io::scheduling::Scheduling;
use crate::device::io::shared::Shared;
use crate::device::io::thread::now_ns;
use crate::device::known::printable;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, Ordering::Relaxed};
use std::time::Duration;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(10);
/// Between two tries to find the device, ns.
const AGAIN_NS: u64 = 1_000_000_000;
/// The vendor's thread stands still when it made no round for so long, ns.
const STILL_NS: u64 = 100_000_000;
/// Time for the first round, ns.
const FIRST_NS: u64 = 1_000_000_000;
/// How long a refused force is told, ns.
const TOLD_NS: u64 = 5_000_000_000;
/// Longest wait for a round that is under way, ns.
const QUIET_NS: u64 = 100_000_000;
/// Rounds of zero before the device is closed, and how long they may take, ns.
const LAST_ROUNDS: u64 = 3;
const LAST_NS: u64 = 100_000_000;
/// Rounds a second.
const RATE: libc::c_ulong = 1000;

/// The library runs one scheduler for the process.
static STARTED: AtomicBool = AtomicBool::new(false);

/// What is known of the library's tries.
pub(super) struct Supervisor {
    pub(super) shared: Arc<Shared>,
    /// Made once the library is loaded.
    pub(super) link: Option<Arc<Link>>,
    pub(super) mail: Arc<Mail>,
    pub(super) library: Option<std::path::PathBuf>,
    pub(super) serial: Option<String>,
    pub(super) scheduling: Scheduling,
    /// Handle of our rounds.
    pub(super) scheduled: Option<libc::c_ulong>,
    pub(super) again_ns: u64,
    /// Rounds seen last, and when they were fewer.
    pub(super) seen: (u64, u64),
    /// Until when a refused force is told, ns.
    pub(super) told_ns: Option<u64>,
    /// A round hangs in the library.
    pub(super) hangs: bool,
}

impl Supervisor {
    /// Until it is told to stop.
    pub(super) fn run(mut self) {
        while !self.shared.stopping() {
            let now = now_ns();
            self.mail.set_inside(now);
            self.look(now);
            self.mail.set_inside(0);
            std::thread::sleep(LOOK);
        }
        self.end();
    }

    fn look(&mut self, now: u64) {
        match (self.link.clone(), self.scheduled) {
            (Some(link), Some(_)) => self.watch(&link, now),
            _ if now < self.again_ns => {}
            (None, _) => match Library::load(self.library.as_deref().map(std::path::Path::as_os_str)) {
                Ok(library) => {
                    let link = Link::new(library, self.shared.clone(), self.mail.clone(), self.scheduling);
                    self.link = Some(Arc::new(link));
                }
                Err(why) => self.absent(&why),
            },
            (Some(link), None) => self.begin(&link),
        }
    }

    fn absent(&mut self, why: &str) {
        self.shared.set_lifecycle(Lifecycle::Absent);
        self.shared.set_trouble(why);
        // The library may have taken its time.
        self.again_ns = now_ns() + AGAIN_NS;
    }

    /// Opens the device and has the vendor's thread serve it.
    fn begin(&mut self, link: &Arc<Link>) {
        let library = &link.library;
        let device = match library.init_device() {
            Ok(device) => device,
            Err(code) => {
                return self.absent(&format!(
                    "the maker's library finds no device ({}); is it switched on, set up with the maker's tool, and free of \
                     other programs?",
                    error_name(code)
                ));
            }
        };
        library.make_current(device);
        let (model, serial) = (library.text(MODEL), library.text(SERIAL));
        if let Some(wanted) = self.serial.as_ref().filter(|wanted| **wanted != serial) {
            library.disable_device(device);
            let (model, serial) = (printable(&model), printable(&serial));
            let text = format!(
                "the maker's default device is a {model} with serial number {serial}, device.serial asks for {}",
                printable(wanted)
            );
            return self.absent(&text);
        }
        let nominal = library.doubles(NOMINAL_MAX_FORCE)[0];
        let nominal = if nominal > 0.0 { nominal } else { f64::INFINITY };
        link.mail.set_nominal(nominal);
        link.style.store(style(library.integer(CALIBRATION_STYLE)), Relaxed);
        library.enable(FORCE_OUTPUT);
        let code = library.error();
        if code != 0 {
            library.disable_device(device);
            return self.absent(&format!("the device does not start ({})", error_name(code)));
        }
        link.broken.store(0, Relaxed);
        link.refused.store(0, Relaxed);
        link.calibration.store(0, Relaxed);
        // Asked for while it was away: where the arm is now nobody said.
        self.shared.take_calibration();
        link.in_pose.store(false, Relaxed);
        self.shared.set_lifecycle(Lifecycle::Uncalibrated);
        self.shared.new_life();
        link.device.store(device, Ordering::SeqCst);
        // The vendor's thread may be in a round whenever we end: what it looks at is never freed.
        let data = Arc::into_raw(link.clone()).cast_mut().cast();
        // SAFETY: `round` expects a link, and this one is never freed.
        self.scheduled = Some(unsafe { library.schedule(round, data) });
        if !STARTED.swap(true, Relaxed) {
            library.start_scheduler(RATE);
        }
        let code = library.error();
        if code != 0 {
            self.close(link);
            return self.absent(&format!("the maker's thread does not start ({})", error_name(code)));
        }
        // It may need a while for its first round.
        self.seen = (self.mail.rounds(), now_ns() + FIRST_NS);
        self.shared.stats.starts.fetch_add(1, Relaxed);
        self.shared.set_trouble("");
    }

    fn watch(&mut self, link: &Arc<Link>, now: u64) {
        let rounds = self.mail.rounds();
        if rounds != self.seen.0 {
            self.seen = (rounds, now);
        }
        if self.hangs && link.is_busy() {
            return;
        }
        let broken = link.broken.load(Relaxed);
        if self.hangs || broken != 0 || now.saturating_sub(self.seen.1) > STILL_NS {
            let why = match broken {
                0 => "the maker's thread stands still".to_owned(),
                code => format!("the device is lost ({})", error_name(code)),
            };
            // Before it is absent: who asks whether it has its zero must not take that for an end of what may still hang.
            if link.is_busy() {
                self.shared.set_unconfirmed();
            }
            self.shared.set_lifecycle(Lifecycle::Absent);
            self.shared.new_life();
            // Before the library is asked again: it may hang.
            self.shared.set_trouble(&why);
            if std::mem::take(&mut self.hangs) {
                // Whatever the call that hung has left on: some rounds of zero.
                if self.last_rounds(link) {
                    self.shared.set_confirmed();
                }
            } else {
                self.shared.stats.gone.fetch_add(1, Relaxed);
                if link.quiet(QUIET_NS) {
                    self.shared.set_confirmed();
                } else {
                    // A device that is closed under a call of its own is nobody's any more; open, it gets zero in the first round after.
                    self.hangs = true;
                    self.shared.set_unconfirmed();
                    self.shared.set_trouble(
                        "the maker's library hangs in a call, and the motors hold what it gives them: switch the device off; where the \
                         library does not come back, restart hapticd",
                    );
                    return;
                }
            }
            self.close(link);
            if broken == 0 && STARTED.swap(false, Relaxed) {
                link.library.stop_scheduler();
            }
            return self.absent(&why);
        }
        let reset = link.style.load(Relaxed) == ENCODER_RESET;
        if self.shared.take_calibration() && reset {
            link.in_pose.store(true, Relaxed);
        }
        if link.is_calibrated() {
            // Not for a loss that may come later, with the arm anywhere.
            link.in_pose.store(false, Relaxed);
        }
        if !link.is_calibrated() {
            // The round that found it has ended the force.
            self.shared.set_lifecycle(Lifecycle::Uncalibrated);
            self.shared.set_trouble(if reset {
                "not calibrated: hold the arm in its reset pose and run hapticd ctl calibrate (without a daemon: hapticd calibrate --in-pose)"
            } else {
                "not calibrated: put the stylus into its inkwell, or move the arm as the maker says"
            });
            return;
        }
        let refused = link.refused.swap(0, Relaxed);
        if refused != 0 {
            self.told_ns = Some(now + TOLD_NS);
            self.shared
                .set_trouble(&format!("the maker's library refused a force ({})", error_name(refused)));
        } else if self.told_ns.is_none_or(|until| now > until) {
            self.told_ns = None;
            self.shared.set_trouble("");
        }
        self.shared.set_lifecycle(Lifecycle::Ready);
    }

    fn close(&mut self, link: &Link) {
        if let Some(handle) = self.scheduled.take() {
            link.library.unschedule(handle);
        }
        let device = link.device.swap(NO_DEVICE, Ordering::SeqCst);
        // A round that has seen the device must not meet a closed one; one that never ends cannot be waited for.
        link.quiet(QUIET_NS);
        link.calibration.store(0, Relaxed);
        if device != NO_DEVICE {
            link.library.disable_device(device);
        }
    }

    /// A few rounds of zero, which is all that rounds give while nothing is ready; true when they came.
    fn last_rounds(&self, link: &Link) -> bool {
        let (from, until) = (self.shared.stats.sent.load(Relaxed), now_ns() + LAST_NS);
        let sent = || self.shared.stats.sent.load(Relaxed).wrapping_sub(from) >= LAST_ROUNDS;
        while !sent() && link.broken.load(Relaxed) == 0 && now_ns() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        sent()
    }

    /// A few rounds of zero, and the end.
    fn end(&mut self) {
        self.shared.silence();
        let Some(link) = self.link.clone() else { return };
        if self.scheduled.is_some() {
            if !self.last_rounds(&link) && link.broken.load(Relaxed) == 0 {
                self.shared.set_unconfirmed();
            }
            // It cannot be closed under a call that hangs. Whoever ends leaves this thread behind.
            while !link.quiet(QUIET_NS) {
                self.shared.set_unconfirmed();
                self.shared.set_lifecycle(Lifecycle::Absent);
            }
        }
        self.close(&link);
        if STARTED.swap(false, Relaxed) {
            link.library.stop_scheduler();
        }
        self.shared.set_lifecycle(Lifecycle::Absent);
    }
}

/// The style in which we calibrate, of those that the device has: by itself, in the inkwell, by its encoders' reset.
fn style(mask: i32) -> u32 {
    let has = |bit: u32| (mask as u32 & bit != 0).then_some(bit);
    has(1 << 1).or(has(1 << 2)).or(has(1 << 0)).unwrap_or(1 << 0)
}

/// Names of the errors, as the maker's documents have them.
fn error_name(code: u32) -> String {
    let name = match code {
        0 => "no cause given",
        0x0200 => "HD_WARM_MOTORS",
        0x0201 => "HD_EXCEEDED_MAX_FORCE",
        0x0202 => "HD_EXCEEDED_MAX_FORCE_IMPULSE",
        0x0203 => "HD_EXCEEDED_MAX_VELOCITY",
        0x0204 => "HD_FORCE_ERROR",
        0x0300 => "HD_DEVICE_FAULT",
        0x0301 => "HD_DEVICE_ALREADY_INITIATED",
        0x0302 => "HD_COMM_ERROR",
        0x0303 => "HD_COMM_CONFIG_ERROR",
        0x0304 => "HD_TIMER_ERROR",
        0x0600 => "HD_INVALID_LICENSE",
        _ => return format!("error {code:#06x}"),
    };
    name.to_owned()
}
