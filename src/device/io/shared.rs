//! What the servo thread and the I/O thread of a device share: two mailboxes, the device's state, counters.
//! All that the servo touches is wait-free; the text about what is wrong has a lock, and is not for it.

use super::mailbox::Mailbox;
use super::seldom::seldom_exceeded;
use crate::device::{Emergency, Lifecycle};
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

/// One reading on its way to the servo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Counts, or deflections of an input device.
    pub counts: [i32; 6],
    /// Button bits.
    pub buttons: u32,
    /// When the device took it, ns on the I/O thread's clock.
    pub time_ns: u64,
    /// Readings so far.
    pub seq: u64,
    /// Readings lost so far.
    pub lost: u64,
    /// In which life of the device it was taken: [`Shared::life`].
    pub life: u32,
}

const READING: usize = 7;

impl Reading {
    fn words(&self) -> [u64; READING] {
        let pair = |a: i32, b: i32| u64::from(a as u32) << 32 | u64::from(b as u32);
        let [a, b, c, d, e, f] = self.counts;
        let buttons_life = u64::from(self.buttons) << 32 | u64::from(self.life);
        [pair(a, b), pair(c, d), pair(e, f), buttons_life, self.time_ns, self.seq, self.lost]
    }

    fn from_words(words: &[u64; READING]) -> Self {
        let [ab, cd, ef, buttons_life, time_ns, seq, lost] = *words;
        let high = |w: u64| (w >> 32) as u32 as i32;
        let low = |w: u64| w as u32 as i32;
        let counts = [high(ab), low(ab), high(cd), low(cd), high(ef), low(ef)];
        Self { counts, buttons: (buttons_life >> 32) as u32, time_ns, seq, lost, life: buttons_life as u32 }
    }
}

/// One command on its way to the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// Motor codes.
    pub codes: [i32; 3],
    /// [`Reading::time_ns`] of the reading from which it was made; 0 = none.
    pub sensed_ns: u64,
    /// When it was made, ns on the servo's clock, which is the I/O side's too: an old force is not sent.
    pub at_ns: u64,
    /// Which life of the device it is meant for: [`Shared::life`]. Force for an earlier one is not sent.
    pub life: u32,
}

const COMMAND: usize = 4;

impl Command {
    /// No force.
    pub const ZERO: Self = Self { codes: [0; 3], sensed_ns: 0, at_ns: 0, life: 0 };

    fn words(&self) -> [u64; COMMAND] {
        let [a, b, c] = self.codes.map(|c| u64::from(c as u32));
        [a << 32 | b, c << 32 | u64::from(self.life), self.sensed_ns, self.at_ns]
    }

    fn from_words(words: &[u64; COMMAND]) -> Self {
        let [ab, c_life, sensed_ns, at_ns] = *words;
        Self {
            codes: [(ab >> 32) as i32, ab as u32 as i32, (c_life >> 32) as i32],
            sensed_ns,
            at_ns,
            life: c_life as u32,
        }
    }
}

/// Longest wait of a last word, ms.
const LAST_WORD_MS: u32 = 20;

/// Width of a bucket of the latency histogram, ns.
pub const BUCKET_NS: u64 = 50_000;
/// Buckets; the last one holds everything beyond.
pub const BUCKETS: usize = 401;

/// Step of [`Stats::delay_ns`], ns: a millisecond takes a tenth of a second up and two seconds down.
const DELAY_STEP: u64 = 10_000;

/// [`Shared::trouble`] of a device whose counters did not change to what they were set to.
pub const REFUSED: &str = "the calibration that was asked for was tried five times, and the device's counters did not take it: hold the arm still in its \
                           calibration pose (docs/devices.md) and ask again; if it stays so, the firmware is not one that this driver knows";

/// Counters of a device's I/O.
#[derive(Debug)]
pub struct Stats {
    /// Readings that arrived.
    pub readings: AtomicU64,
    /// Readings that should have arrived and did not.
    pub lost: AtomicU64,
    /// Readings that arrived later than in their frame.
    pub late: AtomicU64,
    /// Transfers that made no sense.
    pub garbled: AtomicU64,
    /// Commands that went out.
    pub sent: AtomicU64,
    /// Commands that went out as zero because the servo's newest was too old.
    pub expired: AtomicU64,
    /// Times the device was found and started.
    pub starts: AtomicU64,
    /// Times the device went away.
    pub gone: AtomicU64,
    /// Rounds of the I/O thread's loop; they go on whatever the device does.
    pub rounds: AtomicU64,
    /// Time from the device's sense to the device's force, by [`BUCKET_NS`].
    latency: Box<[AtomicU64]>,
    /// Of these times lately, that which one of twenty exceeds, ns; 0 before the first.
    delay: AtomicU64,
}

impl Default for Stats {
    fn default() -> Self {
        Self {
            readings: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            late: AtomicU64::new(0),
            garbled: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            expired: AtomicU64::new(0),
            starts: AtomicU64::new(0),
            gone: AtomicU64::new(0),
            rounds: AtomicU64::new(0),
            latency: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            delay: AtomicU64::new(0),
        }
    }
}

impl Stats {
    /// Notes one sense-to-force time. Real-time safe.
    pub fn latency(&self, ns: u64) {
        let bucket = usize::try_from(ns / BUCKET_NS).unwrap_or(BUCKETS).min(BUCKETS - 1);
        if let Some(count) = self.latency.get(bucket) {
            count.fetch_add(1, Relaxed);
        }
        self.delay.store(seldom_exceeded(self.delay.load(Relaxed), ns, DELAY_STEP), Relaxed);
    }

    /// Of the sense-to-force times lately, that which one of twenty exceeds, ns; `None` before the first. Real-time safe.
    pub fn delay_ns(&self) -> Option<u64> {
        Some(self.delay.load(Relaxed)).filter(|d| *d > 0)
    }

    /// Upper edge of the bucket below which `share` (0 to 1) of the sense-to-force times lie, ns; `None` before the first.
    pub fn latency_quantile(&self, share: f64) -> Option<u64> {
        let counts: Vec<u64> = self.latency.iter().map(|c| c.load(Relaxed)).collect();
        let total: u64 = counts.iter().sum();
        let wanted = (share.clamp(0.0, 1.0) * total as f64).ceil().max(1.0) as u64;
        let mut sum = 0;
        let at = counts.iter().position(|c| {
            sum += c;
            sum >= wanted
        })?;
        Some((at as u64 + 1) * BUCKET_NS)
    }

    /// Name and value of every counter that people want to see.
    pub fn list(&self) -> [(&'static str, u64); 10] {
        let get = |c: &AtomicU64| c.load(Relaxed);
        let us = |share| self.latency_quantile(share).unwrap_or(0) / 1000;
        [
            ("device_readings", get(&self.readings)),
            ("device_lost", get(&self.lost)),
            ("device_garbled", get(&self.garbled)),
            ("device_sent", get(&self.sent)),
            ("device_expired", get(&self.expired)),
            ("device_starts", get(&self.starts)),
            ("device_gone", get(&self.gone)),
            ("device_sense_to_force_us_median", us(0.5)),
            ("device_sense_to_force_us_p99", us(0.99)),
            ("device_late", get(&self.late)),
        ]
    }
}

/// Shared state.
#[derive(Debug, Default)]
pub struct Shared {
    readings: Mailbox<READING>,
    commands: Mailbox<COMMAND>,
    lifecycle: AtomicU8,
    life: AtomicU32,
    /// A time at which a sample is expected, ns; 0 = unknown.
    beat: AtomicU64,
    calibrate: AtomicBool,
    silence: AtomicBool,
    stop: AtomicBool,
    unconfirmed: AtomicBool,
    scheduling: OnceLock<Result<String, String>>,
    trouble: std::sync::Mutex<String>,
    wish: OnceLock<&'static str>,
    /// The device calibrates itself, or its user does: asking its driver is of no use.
    by_hand: AtomicBool,
    /// The calibration asked for last was tried in vain.
    refused: AtomicBool,
    /// Counters.
    pub stats: Stats,
}

impl Shared {
    /// The device's state. Real-time safe.
    pub fn lifecycle(&self) -> Lifecycle {
        match self.lifecycle.load(Acquire) {
            1 => Lifecycle::Booting,
            2 => Lifecycle::Uncalibrated,
            3 => Lifecycle::Ready,
            4 => Lifecycle::Fault,
            _ => Lifecycle::Absent,
        }
    }

    /// Sets the device's state; whoever sees it sees what was set before it, too. Real-time safe.
    pub(in crate::device) fn set_lifecycle(&self, lifecycle: Lifecycle) {
        self.lifecycle.store(lifecycle as u8, Release);
    }

    /// Counts the times at which the device's frame or presence was lost: a force wanted before must not be sent after.
    pub fn life(&self) -> u32 {
        self.life.load(Relaxed)
    }

    pub(in crate::device) fn new_life(&self) {
        self.life.fetch_add(1, Relaxed);
    }

    /// A time at which a sample is expected, and from which the next follow in steps of a frame; `None` = unknown.
    pub fn beat_ns(&self) -> Option<u64> {
        Some(self.beat.load(Relaxed)).filter(|b| *b > 0)
    }

    pub(super) fn set_beat(&self, at_ns: Option<u64>) {
        self.beat.store(at_ns.unwrap_or(0), Relaxed);
    }

    /// Puts a reading. For the I/O thread.
    pub(super) fn put_reading(&self, reading: &Reading) {
        self.readings.put(&reading.words());
    }

    /// The newest reading. For the servo thread. Real-time safe.
    pub fn reading(&self) -> Option<Reading> {
        self.readings.newest().map(|(_, words)| Reading::from_words(&words))
    }

    /// Puts a command. For the servo thread. Real-time safe.
    pub fn put_command(&self, command: &Command) {
        self.commands.put(&command.words());
    }

    /// The newest command and its number.
    pub(super) fn command(&self) -> Option<(u64, Command)> {
        self.commands.newest().map(|(number, words)| (number, Command::from_words(&words)))
    }

    /// Asks the I/O thread to calibrate the device.
    pub fn ask_calibration(&self) {
        self.calibrate.store(true, Relaxed);
    }

    pub(in crate::device) fn take_calibration(&self) -> bool {
        self.calibrate.swap(false, Relaxed)
    }

    /// From now on nothing but zero goes to the motors, whatever is commanded. Async-signal-safe.
    pub fn silence(&self) {
        self.silence.store(true, Relaxed);
    }

    pub(in crate::device) fn silenced(&self) -> bool {
        self.silence.load(Relaxed)
    }

    /// Ends the I/O thread after a last zero.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// The I/O side has died: the device is not to be believed any more.
    pub(in crate::device) fn failed(&self) {
        self.new_life();
        self.set_lifecycle(Lifecycle::Absent);
        self.set_trouble("the device's I/O thread has failed; restart hapticd");
    }

    /// What the I/O thread asked the scheduler for: granted, or why not; `None` where it asked for nothing.
    pub fn scheduling(&self) -> Option<&Result<String, String>> {
        self.scheduling.get()
    }

    pub(in crate::device) fn set_scheduling(&self, outcome: Result<String, String>) {
        let _ = self.scheduling.set(outcome);
    }

    /// The link, or all, ended without the device having taken zero, as far as is known: a force may stand. Until it has taken two packets of
    /// zero on another link.
    pub fn unconfirmed(&self) -> bool {
        self.unconfirmed.load(Relaxed)
    }

    pub(in crate::device) fn set_unconfirmed(&self) {
        self.unconfirmed.store(true, Relaxed);
    }

    /// It has taken its zero after all.
    pub(in crate::device) fn set_confirmed(&self) {
        self.unconfirmed.store(false, Relaxed);
    }

    pub(in crate::device) fn stopping(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Why the device is not ready, for people; empty when all is well. Not for the servo thread.
    pub fn trouble(&self) -> String {
        let told = self.told();
        match self.wish.get() {
            Some(wish) if told.is_empty() && self.lifecycle() == Lifecycle::Uncalibrated => {
                (*wish).to_owned()
            }
            _ => told,
        }
    }

    /// As [`Shared::trouble`], but for what its user has to do in any case while the frame is not known.
    pub fn told(&self) -> String {
        let told = self.trouble.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        if told.is_empty() && self.refused.load(Relaxed) && self.lifecycle() == Lifecycle::Uncalibrated {
            return REFUSED.to_owned();
        }
        told
    }

    /// The calibration asked for last was tried in vain, or not. Real-time safe.
    pub(super) fn set_refused(&self, refused: bool) {
        self.refused.store(refused, Relaxed);
    }

    /// What [`Shared::trouble`] says while the frame is not known, and nothing else is to be said: nobody has to say it then from the I/O thread.
    /// `by_host`: its driver can calibrate it.
    pub(super) fn set_wish(&self, wish: &'static str, by_host: bool) {
        let _ = self.wish.set(wish);
        self.by_hand.store(!by_host, Relaxed);
    }

    /// Its driver can calibrate it, where somebody holds it in its calibration pose.
    pub fn calibrates_by_host(&self) -> bool {
        !self.by_hand.load(Relaxed)
    }

    /// Only where the I/O thread does nothing urgent: between two lives of the device.
    pub(in crate::device) fn set_trouble(&self, text: &str) {
        let mut trouble = self.trouble.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if *trouble != text {
            trouble.clear();
            trouble.push_str(text);
        }
    }
}

impl Emergency for Shared {
    /// From now on every packet is zero. Waits until the I/O thread has sent two of them, the first of which may have been
    /// under way with a force, for 20 ms at most; after that the device's own watchdog has to end what is left. A device
    /// that lost its frame a moment ago may have such a packet under way too, and one whose link broke keeps its last force.
    fn zero(&self, _now_ns: u64) -> bool {
        self.silence();
        let before = self.stats.sent.load(Relaxed);
        let taken = || {
            self.stats.sent.load(Relaxed).wrapping_sub(before) >= 2
                || !matches!(self.lifecycle(), Lifecycle::Ready | Lifecycle::Uncalibrated)
                    && !self.unconfirmed()
        };
        for _ in 0..LAST_WORD_MS {
            if taken() {
                return true;
            }
            let nap = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
            // SAFETY: nanosleep is async-signal-safe and only reads `nap`.
            unsafe { libc::nanosleep(&raw const nap, std::ptr::null_mut()) };
        }
        taken()
    }

    fn mend(&self, _address: usize) -> bool {
        false
    }

    fn packets(&self) -> Option<u64> {
        let may_push =
            matches!(self.lifecycle(), Lifecycle::Ready | Lifecycle::Uncalibrated) || self.unconfirmed();
        may_push.then(|| self.stats.sent.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_hold_everything() {
        let reading = Reading {
            counts: [1, -2, i32::MAX, i32::MIN, 0, -1],
            buttons: 0x8000_0001,
            time_ns: u64::MAX,
            seq: 7,
            lost: 9,
            life: 0x8000_0003,
        };
        assert_eq!(Reading::from_words(&reading.words()), reading);
        let command = Command { codes: [i32::MIN, -1, 4096], sensed_ns: 5, at_ns: u64::MAX, life: u32::MAX };
        assert_eq!(Command::from_words(&command.words()), command);
    }

    #[test]
    fn lifecycles_come_back() {
        let shared = Shared::default();
        assert_eq!(shared.lifecycle(), Lifecycle::Absent);
        for l in [
            Lifecycle::Booting,
            Lifecycle::Uncalibrated,
            Lifecycle::Ready,
            Lifecycle::Fault,
            Lifecycle::Absent,
        ] {
            shared.set_lifecycle(l);
            assert_eq!(shared.lifecycle(), l);
        }
    }

    /// One of ten comes late: that is the delay; one of a hundred: it is not.
    #[test]
    fn the_delay_is_what_one_of_twenty_exceeds() {
        let stats = Stats::default();
        assert_eq!(stats.delay_ns(), None);
        let run = |every: u64, rounds: u64| {
            (0..rounds).for_each(|k| stats.latency(if k % every == 0 { 5_000_000 } else { 2_000_000 }));
            stats.delay_ns().expect("measured")
        };
        stats.latency(60_000_000);
        assert!((1_990_000..=2_100_000).contains(&run(100, 1000)));
        assert!((4_900_000..=5_000_000).contains(&run(10, 20_000)));
        assert!((1_990_000..=2_100_000).contains(&run(100, 20_000)));
    }

    #[test]
    fn quantiles_of_known_times() {
        let stats = Stats::default();
        assert_eq!(stats.latency_quantile(0.5), None);
        (0..99).for_each(|_| stats.latency(2_010_000));
        stats.latency(u64::MAX);
        assert_eq!(stats.latency_quantile(0.5), Some(2_050_000));
        assert_eq!(stats.latency_quantile(0.99), Some(2_050_000));
        assert_eq!(stats.latency_quantile(1.0), Some(BUCKETS as u64 * BUCKET_NS));
    }
}
