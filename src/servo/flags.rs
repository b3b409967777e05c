//! Requests that no full queue can lose, and the servo's running counters: plain atomics shared by both sides.

use super::record::{Fault, ServoState, TickRecord, ZeroReason};
use crate::device::Emergency;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU8, AtomicU32, AtomicU64};
use std::sync::{Arc, OnceLock};

#[derive(Debug, Default)]
struct Shared {
    /// Rises with every request to take the force away; odd where the last was for a lease that was lost.
    disarms: AtomicU64,
    stop: AtomicBool,
    continued: AtomicBool,
    fault: AtomicU8,
}

/// Requests to the servo that bypass the command ring. Every method is atomic and lock-free,
/// async-signal-safe and real-time safe.
#[derive(Clone, Debug, Default)]
pub struct Flags(Arc<Shared>);

impl Flags {
    /// Takes the force away: ramp to zero, then idle. Arm commands sent before this call no longer count.
    #[inline]
    pub fn disarm(&self) {
        self.take_away(0);
    }

    /// As [`disarm`](Self::disarm), because the owner is gone: records say so.
    #[inline]
    pub fn lose(&self) {
        self.take_away(1);
    }

    /// To the next even number, and `gone` more.
    fn take_away(&self, gone: u64) {
        let _ = self.0.disarms.fetch_update(AcqRel, Acquire, |n| Some((n | 1) + 1 + gone));
    }

    /// Ends the servo: ramp to zero, zero at the device, then its thread returns.
    #[inline]
    pub fn stop(&self) {
        self.0.stop.store(true, Release);
    }

    /// True once [`stop`](Self::stop) was called.
    #[inline]
    pub fn stopping(&self) -> bool {
        self.0.stop.load(Acquire)
    }

    /// For the SIGCONT handler: the process was stopped and goes on, which is a fault.
    #[inline]
    pub fn continued(&self) {
        self.0.continued.store(true, Release);
    }

    /// Latches a fault from outside (a task panicked, the control plane died). The first one counts.
    #[inline]
    pub fn fault(&self, fault: Fault) {
        let _ = self.0.fault.compare_exchange(0, fault as u8, AcqRel, Relaxed);
    }

    /// Changes with each request to take the force away; odd where the last was for a lost lease. Servo side and command
    /// stamps.
    #[inline]
    pub(super) fn disarms(&self) -> u64 {
        self.0.disarms.load(Acquire)
    }

    /// The fault raised from outside since the last call, if any. Servo side.
    #[inline]
    pub(super) fn take_fault(&self) -> Fault {
        if self.0.continued.load(Relaxed) && self.0.continued.swap(false, AcqRel) {
            return Fault::Suspended;
        }
        if self.0.fault.load(Relaxed) == 0 {
            return Fault::None;
        }
        Fault::from_u8(self.0.fault.swap(0, AcqRel))
    }
}

/// Running counters of the servo, readable from any thread at any time; each is exact, together they may be a tick
/// apart.
#[derive(Debug, Default)]
pub struct Counters {
    /// Ticks done.
    pub ticks: AtomicU64,
    /// Planned start of the last tick, ns on the servo clock.
    pub planned_ns: AtomicU64,
    /// Device samples seen so far (distinct ones).
    pub samples: AtomicU64,
    /// Writes that the device accepted.
    pub writes: AtomicU64,
    /// Samples lost.
    pub lost: AtomicU64,
    /// Periods skipped.
    pub skipped: AtomicU64,
    /// Ticks before which periods were skipped.
    pub late: AtomicU64,
    /// Ticks in which the wall-clock deadline ended a query.
    pub deadlines: AtomicU64,
    /// Ticks whose queries ran out of budget or time, or in which a ball's proxy was still on its way.
    pub incomplete: AtomicU64,
    /// Records dropped because the telemetry ring was full.
    pub dropped: AtomicU64,
    /// Snapshots adopted.
    pub adopted: AtomicU64,
    /// Ticks that left a mailbox alone because its return ring was full.
    pub return_full: AtomicU64,
    /// Heap allocations and frees counted inside ticks; 0 unless the counting allocator is installed.
    pub heap: AtomicU64,
    /// Generation felt.
    pub generation: AtomicU64,
    /// Session that holds the force, 0 = none.
    pub owner: AtomicU64,
    /// Largest wake error so far, ns.
    pub wake_max_ns: AtomicI64,
    /// Longest tick so far, ns.
    pub compute_max_ns: AtomicU64,
    /// From the device's sense to its force as the servo counts with it, ns.
    pub(super) delay_ns: AtomicU64,
    /// Bits of the part of the profile's stiffness that this delay leaves; 0 before the first tick.
    pub(super) ceiling: AtomicU64,
    /// The stiffness that this makes, N/m, as bits of an f64; 0 before the first tick.
    pub(super) stiffest: AtomicU64,
    pub(super) state: AtomicU8,
    pub(super) zero: AtomicU8,
    pub(super) fault: AtomicU8,
    /// Exit of the servo thread: 0 running, 1 stopped, 2 panicked.
    pub(super) ended: AtomicU32,
    /// Number of the servo's thread, 0 before it runs.
    pub(super) thread: AtomicI32,
    /// The device's last word, for when that thread has died in its own code.
    pub(super) emergency: OnceLock<Arc<dyn Emergency>>,
    /// The device's I/O thread, where it has one.
    pub(super) io: OnceLock<Arc<crate::device::io::shared::Shared>>,
    /// Where the workspace stands, where a view is moved.
    pub workspace: super::view::Shown,
}

impl Counters {
    /// State after the last tick.
    pub fn state(&self) -> ServoState {
        ServoState::from_u8(self.state.load(Acquire))
    }

    /// Why the force is zero, after the last tick.
    pub fn zero(&self) -> ZeroReason {
        ZeroReason::from_u8(self.zero.load(Acquire))
    }

    /// The latched fault.
    pub fn fault(&self) -> Fault {
        Fault::from_u8(self.fault.load(Acquire))
    }

    /// State, reason and fault after a tick. Servo side.
    pub(super) fn publish(&self, record: &TickRecord) {
        self.state.store(record.state as u8, Release);
        self.zero.store(record.zero as u8, Release);
        self.fault.store(record.fault as u8, Release);
    }

    /// Shows a fault that no tick could record any more. Servo side.
    pub(super) fn fail(&self, fault: Fault) {
        self.fault.store(fault as u8, Release);
        self.zero.store(ZeroReason::Fault as u8, Release);
        self.state.store(ServoState::Fault as u8, Release);
    }

    /// From the device's sense to its force, ns, and the part of the profile's stiffness that this leaves, above 0, at most 1;
    /// `None` before the first tick.
    pub fn loop_delay(&self) -> Option<(u64, f64)> {
        let part = f64::from_bits(self.ceiling.load(Relaxed));
        (part > 0.0).then(|| (self.delay_ns.load(Relaxed), part))
    }

    /// The stiffest contact that the device is given along its driven axes, N/m: what its profile states, by the preset of the coupling and
    /// the loop's delay as it is. `None` before the first tick, and for a device without motors.
    pub fn stiffest(&self) -> Option<f64> {
        Some(f64::from_bits(self.stiffest.load(Relaxed))).filter(|k| *k > 0.0)
    }

    /// True in the servo's own thread. Async-signal-safe.
    pub fn is_own_thread(&self) -> bool {
        let own = self.thread.load(Acquire);
        // SAFETY: gettid takes nothing and cannot fail.
        own != 0 && own == unsafe { libc::gettid() }
    }

    /// This thread is the servo's.
    pub(crate) fn set_own_thread(&self) {
        self.thread.store(nix::unistd::gettid().as_raw(), Release);
    }

    /// What reaches the motors without the servo, if anything does. Async-signal-safe.
    pub fn emergency(&self) -> Option<&dyn Emergency> {
        self.emergency.get().map(|e| &**e)
    }

    /// As [`Emergency::packets`].
    pub fn packets(&self) -> Option<u64> {
        self.emergency()?.packets()
    }

    /// Names and values of the counters of the device's I/O thread; empty where it has none. Not for the servo thread.
    pub fn io(&self) -> Vec<(&'static str, u64)> {
        self.io.get().map_or_else(Vec::new, |io| io.stats.list().to_vec())
    }

    /// The device has an I/O thread of its own.
    pub fn has_io(&self) -> bool {
        self.io.get().is_some()
    }

    /// What advances while the device's I/O lives: the rounds of its I/O thread, whatever the device does; without one,
    /// samples and writes.
    pub fn io_rounds(&self) -> u64 {
        match self.io.get() {
            Some(io) => io.stats.rounds.load(Relaxed),
            None => self.samples.load(Relaxed).wrapping_add(self.writes.load(Relaxed)),
        }
    }

    /// Why the device is not there, for people; empty when all is well. Not for the servo thread.
    pub fn device_trouble(&self) -> String {
        self.io.get().map_or_else(String::new, |io| io.trouble())
    }

    /// Has the device's frame set where its arm is held right now, its calibration pose. Only while its frame is not known and there is no force: it cannot
    /// come back before the frame is known. Whether it was taken shows in the state. Not for the servo thread.
    ///
    /// # Errors
    /// Why not, and what to do, for people.
    pub fn ask_calibration(&self) -> Result<(), String> {
        use crate::device::Lifecycle;
        let Some(io) = self.io.get() else {
            return Err("a simulated device has nothing to calibrate".into());
        };
        if matches!(self.state(), ServoState::Armed | ServoState::Rendering) {
            return Err("the device is armed; disarm first".into());
        }
        match io.lifecycle() {
            Lifecycle::Uncalibrated if io.calibrates_by_host() => {
                io.ask_calibration();
                Ok(())
            }
            Lifecycle::Uncalibrated => Err(io.trouble()),
            Lifecycle::Ready => {
                Err("the device is calibrated; its own button, or plugging it in again, begins anew".into())
            }
            Lifecycle::Absent | Lifecycle::Booting | Lifecycle::Fault => {
                let why = io.trouble();
                Err(if why.is_empty() { "the device is starting".into() } else { why })
            }
        }
    }

    /// True once the servo thread has commanded its last zero and ended.
    pub fn ended(&self) -> bool {
        self.ended.load(Acquire) != 0
    }
}

#[cfg(test)]
impl Counters {
    /// Of a servo in this state, over a device with this I/O thread.
    pub(crate) fn of(state: ServoState, io: Option<Arc<crate::device::io::shared::Shared>>) -> Self {
        let counters = Self::default();
        counters.state.store(state as u8, Release);
        if let Some(io) = io {
            let _ = counters.io.set(io);
        }
        counters
    }

    /// Of a servo that has ended, or stands still, over a device with this last word.
    pub(crate) fn ending(ended: bool, last_word: Option<Arc<dyn Emergency>>) -> Self {
        let counters = Self::default();
        counters.ended.store(u32::from(ended), Release);
        if let Some(last_word) = last_word {
            let _ = counters.emergency.set(last_word);
        }
        counters
    }
}

/// Adds to a counter that only this thread writes: no locked instruction.
#[inline]
pub(super) fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(n), Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever asks at the same moment, the number rises and its kind is that of those who asked.
    #[test]
    fn requests_at_the_same_moment_keep_their_kind() {
        let flags = Flags::default();
        let mut last = flags.disarms();
        for round in 0..200u64 {
            let gone = round % 2;
            std::thread::scope(|s| {
                for _ in 0..4 {
                    s.spawn(|| if gone == 1 { flags.lose() } else { flags.disarm() });
                }
            });
            let now = flags.disarms();
            assert!(now >= last + 4 && now % 2 == gone, "round {round}: {now} after {last}");
            last = now;
        }
    }

    /// Asked for without force, in an unknown frame, of a driver that can: the device takes it then, and never otherwise.
    #[test]
    fn a_calibration_is_asked_of_a_device_that_is_uncalibrated_and_gives_no_force() {
        use crate::device::driver;
        use crate::device::emulated::{self, Bus, Plugged, Stepped};
        use crate::device::registry::Registry;
        use crate::device::simulated::HandScript;
        use crate::device::wire::hid_haptic::Layout;
        const MS: u64 = 1_000_000;
        let (registry, hand) = (Registry::builtin(), HandScript::default());
        let profile = registry.profile("woodenhaptics-v2015").expect("shipped");
        let gadget = emulated::hid_haptic::HidHaptic::new(&profile, &hand, 64).expect("in reach");
        let port = Box::new(driver::hid_haptic::HidHaptic::new(Layout::Padded, [0; 3]));
        let mut device = Stepped::new(profile, port, Plugged::new(Bus::new(gadget, 0.0, 0, true)));
        let io = device.shared().clone();
        let ask = |state| Counters::of(state, Some(io.clone())).ask_calibration();
        assert!(ask(ServoState::Absent).is_err(), "it is not there");
        device.advance(50 * MS);
        for state in [ServoState::Armed, ServoState::Rendering] {
            assert!(ask(state).is_err_and(|e| e.contains("disarm")));
        }
        device.advance(200 * MS);
        assert_eq!(device.plugged().bus().gadget.presets, 0);
        assert_eq!(ask(ServoState::Uncalibrated), Ok(()));
        assert!(device.until_ready(500 * MS));
        assert_eq!(device.plugged().bus().gadget.presets, 1);
        assert!(ask(ServoState::Idle).is_err(), "its frame is known");
        let now = device.now_ns();
        device.advance(now + 200 * MS);
        assert_eq!(device.plugged().bus().gadget.presets, 1);

        let profile = registry.profile("novint-falcon").expect("shipped");
        let setup = emulated::falcon::Setup { homes_after: None, ..Default::default() };
        let gadget = emulated::falcon::Falcon::new(&profile, &hand, setup).expect("in reach");
        let port = Box::new(driver::falcon::Falcon::new(None));
        let mut device = Stepped::new(profile, port, Plugged::new(Bus::new(gadget, 0.0, 0, false)));
        device.advance(100 * MS);
        let counters = Counters::of(ServoState::Uncalibrated, Some(device.shared().clone()));
        assert!(counters.ask_calibration().is_err_and(|e| e.contains("pull the grip out")));
        assert!(Counters::of(ServoState::Idle, None).ask_calibration().is_err());
    }
}
