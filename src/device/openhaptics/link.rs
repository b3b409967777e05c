//! What the servo, the vendor's thread and ours share, and the vendor's rounds: they only exchange mailboxes.

use super::library::{
    BUTTONS, CALIBRATED, CONTINUE, DEVICE_ERRORS, ENCODER_RESET, FORCE_ERRORS, Library, NEEDS_UPDATE,
    NO_DEVICE, TRANSFORM, WARM_MOTORS,
};
use crate::device::Lifecycle;
use crate::device::io::mailbox::Mailbox;
use crate::device::io::scheduling::{Scheduling, Seat};
use crate::device::io::shared::Shared;
use crate::device::io::thread::now_ns;
use libc::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, Ordering::Relaxed};

/// Age of the servo's newest command from which on the motors get zero, ns.
const EXPIRED_NS: u64 = 5_000_000;
/// The calibration is looked at once in so many rounds.
const CHECK_EVERY: u64 = 64;

/// One reading: rotation by columns and position (m), buttons, time, number, life.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reading {
    pub(super) rotation: [f64; 9],
    pub(super) position: [f64; 3],
    pub(super) buttons: u32,
    pub(super) time_ns: u64,
    pub(super) seq: u64,
    /// In which life of the device it was taken.
    pub(super) life: u32,
}

const READING: usize = 15;

impl Reading {
    fn words(&self) -> [u64; READING] {
        let mut words = [0; READING];
        let numbers = self.rotation.iter().chain(&self.position);
        words.iter_mut().zip(numbers).for_each(|(w, x)| *w = x.to_bits());
        let buttons_life = u64::from(self.buttons) << 32 | u64::from(self.life);
        [words[12], words[13], words[14]] = [buttons_life, self.time_ns, self.seq];
        words
    }

    fn from_words(words: &[u64; READING]) -> Self {
        let number = |i: usize| words.get(i).map_or(f64::NAN, |w| f64::from_bits(*w));
        Self {
            rotation: std::array::from_fn(number),
            position: std::array::from_fn(|i| number(9 + i)),
            buttons: (words[12] >> 32) as u32,
            time_ns: words[13],
            seq: words[14],
            life: words[12] as u32,
        }
    }
}

/// One command: force (N), when it was put and of which reading it was made (ns), for which life of the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Command {
    pub(super) force: [f64; 3],
    pub(super) at_ns: u64,
    pub(super) sensed_ns: u64,
    pub(super) life: u32,
}

/// The mailboxes between the servo and the vendor's rounds.
pub(super) struct Mail {
    /// Largest force of the profile, N.
    max_force: f64,
    /// What the device itself allows, N, bits.
    nominal: AtomicU64,
    /// Forces that the library refused so far.
    refusals: AtomicU64,
    /// Rounds of the vendor's thread so far.
    rounds: AtomicU64,
    /// Since when our own thread is in the library, ns; 0 = it is not.
    inside_ns: AtomicU64,
    readings: Mailbox<READING>,
    commands: Mailbox<6>,
}

impl Mail {
    pub(super) fn new(max_force: f64) -> Self {
        Self {
            max_force,
            nominal: AtomicU64::new(f64::INFINITY.to_bits()),
            refusals: AtomicU64::new(0),
            rounds: AtomicU64::new(0),
            inside_ns: AtomicU64::new(0),
            readings: Mailbox::default(),
            commands: Mailbox::default(),
        }
    }

    /// What the device itself allows, N.
    pub(super) fn set_nominal(&self, force: f64) {
        self.nominal.store(force.to_bits(), Relaxed);
    }

    /// Forces that the library refused so far. Real-time safe.
    pub(super) fn refusals(&self) -> u64 {
        self.refusals.load(Relaxed)
    }

    /// Rounds of the vendor's thread so far.
    pub(super) fn rounds(&self) -> u64 {
        self.rounds.load(Relaxed)
    }

    /// Our own thread begins something that may call the library, or has ended it (0).
    pub(super) fn set_inside(&self, since_ns: u64) {
        self.inside_ns.store(since_ns, Relaxed);
    }

    /// Our own thread has not come back for so long, ns.
    pub(super) fn inside(&self, now: u64) -> u64 {
        match self.inside_ns.load(Relaxed) {
            0 => 0,
            since => now.saturating_sub(since),
        }
    }

    /// Largest force that goes out, N. Real-time safe.
    pub(super) fn most(&self) -> f64 {
        self.max_force.min(f64::from_bits(self.nominal.load(Relaxed)))
    }

    /// Puts a command. Real-time safe.
    pub(super) fn put(&self, c: &Command) {
        let [x, y, z] = c.force.map(f64::to_bits);
        self.commands.put(&[x, y, z, c.at_ns, c.sensed_ns, u64::from(c.life)]);
    }

    /// The newest reading. Real-time safe.
    pub(super) fn reading(&self) -> Option<Reading> {
        self.readings.newest().map(|(_, words)| Reading::from_words(&words))
    }

    /// What the motors get now: the newest command, or nothing. The number of the command that it is, if it is one.
    /// `calibrated`: the frame is known at this moment, whatever the lifecycle says yet; our own thread may write that over what a round has just found.
    fn wanted(&self, shared: &Shared, calibrated: bool, now: u64) -> ([f64; 3], Option<(u64, u64)>) {
        const NOTHING: ([f64; 3], Option<(u64, u64)>) = ([0.0; 3], None);
        let Some((number, words)) = self.commands.newest() else { return NOTHING };
        let [x, y, z, at_ns, sensed_ns, life] = words;
        let force = [x, y, z].map(f64::from_bits);
        let meant = calibrated && u64::from(shared.life()) == life && shared.lifecycle() == Lifecycle::Ready;
        if shared.silenced() || !meant || !force.iter().all(|f| f.is_finite()) {
            return NOTHING;
        }
        if now.saturating_sub(at_ns) > EXPIRED_NS {
            if force != [0.0; 3] {
                shared.stats.expired.fetch_add(1, Relaxed);
            }
            return NOTHING;
        }
        let most = self.most();
        let size = force.iter().map(|f| f * f).sum::<f64>().sqrt();
        let part = if size > most { most / size } else { 1.0 };
        (force.map(|f| f * part), Some((number, sensed_ns)))
    }
}

/// Everything shared.
pub(super) struct Link {
    pub(super) library: Library,
    pub(super) shared: Arc<Shared>,
    pub(super) mail: Arc<Mail>,
    /// The device's handle.
    pub(super) device: AtomicU32,
    /// How it is calibrated.
    pub(super) style: AtomicU32,
    /// What the last check of the calibration said.
    pub(super) calibration: AtomicU32,
    /// The last error of the device itself; 0 = none.
    pub(super) broken: AtomicU32,
    /// The last error about forces; 0 = none.
    pub(super) refused: AtomicU32,
    /// The user has the arm in its reset pose: it may be calibrated so.
    pub(super) in_pose: AtomicBool,
    /// How the vendor's thread shall be scheduled.
    scheduling: Scheduling,
    seated: AtomicBool,
    /// A round is under way.
    busy: AtomicBool,
    last_command: AtomicU64,
}

impl Link {
    pub(super) fn new(
        library: Library,
        shared: Arc<Shared>,
        mail: Arc<Mail>,
        scheduling: Scheduling,
    ) -> Self {
        Self {
            library,
            shared,
            mail,
            device: AtomicU32::new(NO_DEVICE),
            style: AtomicU32::new(0),
            calibration: AtomicU32::new(0),
            broken: AtomicU32::new(0),
            refused: AtomicU32::new(0),
            in_pose: AtomicBool::new(false),
            scheduling,
            seated: AtomicBool::new(false),
            busy: AtomicBool::new(false),
            last_command: AtomicU64::new(0),
        }
    }

    /// A round is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::SeqCst)
    }

    /// Waits until no round is under way; false when that takes longer than `most_ns`.
    pub(super) fn quiet(&self, most_ns: u64) -> bool {
        let end = now_ns() + most_ns;
        while self.is_busy() {
            if now_ns() > end {
                return false;
            }
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
        true
    }

    /// One round of the vendor's thread.
    fn round(&self) {
        self.busy.store(true, Ordering::SeqCst);
        let device = self.device.load(Ordering::SeqCst);
        if device != NO_DEVICE {
            self.serve(device);
        }
        self.busy.store(false, Ordering::SeqCst);
    }

    /// The vendor's thread is scheduled as our own for other devices: a thread that starves leaves the last force on.
    fn seat(&self) {
        if !self.seated.swap(true, Relaxed) {
            let (mut seat, outcome) = Seat::try_out(self.scheduling);
            seat.set_urgent(true);
            if let Some(outcome) = outcome {
                self.shared.set_scheduling(outcome);
            }
        }
    }

    /// Looks at the calibration. A frame that is lost ends the force at once. One that the library would only refine is
    /// left until the device is opened anew: the pose would jump under the hand.
    fn check(&self) {
        let (library, shared) = (&self.library, &self.shared);
        let state = library.check_calibration();
        let ready = shared.lifecycle() == Lifecycle::Ready;
        let style = self.style.load(Relaxed);
        match state {
            CALIBRATED => self.calibration.store(CALIBRATED, Relaxed),
            NEEDS_UPDATE if ready => {}
            _ => {
                self.calibration.store(state, Relaxed);
                if ready {
                    shared.set_lifecycle(Lifecycle::Uncalibrated);
                    shared.new_life();
                }
                let may = style == ENCODER_RESET && self.in_pose.swap(false, Relaxed)
                    || style != ENCODER_RESET && state == NEEDS_UPDATE;
                if may {
                    library.update_calibration(style);
                }
            }
        }
    }

    fn serve(&self, device: u32) {
        self.seat();
        let (library, stats) = (&self.library, &self.shared.stats);
        let round = self.mail.rounds.fetch_add(1, Relaxed);
        library.make_current(device);
        if round.is_multiple_of(CHECK_EVERY) {
            self.check();
        }
        let (now, life) = (now_ns(), self.shared.life());
        let (transform, buttons, command) = library.frame(device, || {
            let (transform, buttons) = (library.doubles(TRANSFORM), library.integer(BUTTONS));
            // Any call may have taken its time: what is wanted is asked as late as can be, so that no old force goes out.
            let (force, command) = self.mail.wanted(&self.shared, self.is_calibrated(), now_ns());
            library.set_force(&force);
            (transform, buttons, command)
        });
        match library.error() {
            0 => {}
            code if DEVICE_ERRORS.contains(&code) => self.broken.store(code, Relaxed),
            code if FORCE_ERRORS.contains(&code) => {
                self.refused.store(code, Relaxed);
                if code != WARM_MOTORS {
                    self.mail.refusals.fetch_add(1, Relaxed);
                }
            }
            _ => {
                stats.garbled.fetch_add(1, Relaxed);
                return;
            }
        }
        if self.broken.load(Relaxed) != 0 {
            return;
        }
        stats.sent.fetch_add(1, Relaxed);
        if let Some((number, sensed)) = command
            && self.last_command.swap(number, Relaxed) != number
            && sensed > 0
        {
            stats.latency(now_ns().saturating_sub(sensed));
        }
        let seq = stats.readings.fetch_add(1, Relaxed) + 1;
        let m = &transform;
        self.mail.readings.put(
            &Reading {
                rotation: [m[0], m[1], m[2], m[4], m[5], m[6], m[8], m[9], m[10]],
                position: [1e-3 * m[12], 1e-3 * m[13], 1e-3 * m[14]],
                buttons: buttons as u32,
                time_ns: now,
                seq,
                life,
            }
            .words(),
        );
    }

    /// The frame is known.
    pub(super) fn is_calibrated(&self) -> bool {
        self.calibration.load(Relaxed) == CALIBRATED
    }
}

/// What the vendor's thread calls; `data` is a [`Link`] that lives as long as the process.
pub(super) unsafe extern "C" fn round(data: *mut c_void) -> u32 {
    // SAFETY: `data` was made from a link that is never freed (`Supervisor::begin`).
    if let Some(link) = unsafe { data.cast_const().cast::<Link>().as_ref() } {
        link.round();
    }
    CONTINUE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_hold_everything() {
        let reading = Reading {
            rotation: std::array::from_fn(|i| 0.1 * i as f64 - 0.3),
            position: [1e-3, -2.0, f64::MAX],
            buttons: u32::MAX,
            time_ns: u64::MAX,
            seq: 7,
            life: 0x8000_0003,
        };
        assert_eq!(Reading::from_words(&reading.words()), reading);
    }

    /// A frame that is lost at this moment ends the force, also where the lifecycle still says, or says again, that it is ready.
    #[test]
    fn nothing_is_wanted_but_in_a_known_frame_of_this_life_and_in_time() {
        let (shared, mail) = (Shared::default(), Mail::new(3.0));
        shared.set_lifecycle(Lifecycle::Ready);
        let force = [1.0, -2.0, 0.5];
        mail.put(&Command { force, at_ns: 1000, sensed_ns: 5, life: shared.life() });
        assert_eq!(mail.wanted(&shared, true, 1000), (force, Some((1, 5))));
        assert_eq!(mail.wanted(&shared, true, 1000 + EXPIRED_NS), (force, Some((1, 5))));
        assert_eq!(mail.wanted(&shared, true, 1001 + EXPIRED_NS), ([0.0; 3], None));
        assert_eq!(mail.wanted(&shared, false, 1000), ([0.0; 3], None), "the frame");
        for state in [Lifecycle::Absent, Lifecycle::Booting, Lifecycle::Uncalibrated, Lifecycle::Fault] {
            shared.set_lifecycle(state);
            assert_eq!(mail.wanted(&shared, true, 1000), ([0.0; 3], None), "{state:?}");
        }
        shared.set_lifecycle(Lifecycle::Ready);
        shared.new_life();
        assert_eq!(mail.wanted(&shared, true, 1000), ([0.0; 3], None), "another life");
        mail.put(&Command { force, at_ns: 1000, sensed_ns: 5, life: shared.life() });
        assert_eq!(mail.wanted(&shared, true, 1000).0, force);
        shared.silence();
        assert_eq!(mail.wanted(&shared, true, 1000), ([0.0; 3], None), "silenced");
    }
}
