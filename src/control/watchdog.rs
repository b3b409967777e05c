//! systemd: ready, stopping, and the watchdog, which is fed only while everything that matters advances.

use super::bridge::Shared;
use crate::servo::handle::{Counters, monotonic_ns};
use crate::servo::record::{Fault, ServoState};
use sd_notify::NotifyState;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Silence of the tokio side after which the watchdog is not fed, ms.
const BEAT_MS: u64 = 2000;

/// Counters of a servo and of what it needs, which must advance from one feeding to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    rounds: u64,
    ticks: u64,
    io: u64,
}

/// Talks to systemd when it is there; otherwise does nothing.
pub struct Watchdog {
    period: Option<Duration>,
    last: Instant,
    /// By device.
    seen: Vec<Seen>,
}

impl Watchdog {
    /// Says that the service is ready.
    pub fn ready() -> Self {
        let _ = sd_notify::notify(&[NotifyState::Ready]);
        let period = sd_notify::watchdog_enabled().map(|d| d / 4);
        Self { period, last: Instant::now(), seen: Vec::new() }
    }

    /// Says that the service ends.
    pub fn stopping(&self) {
        let _ = sd_notify::notify(&[NotifyState::Stopping]);
    }

    /// Feeds the watchdog when it is time and everything advances: each of the servos, `None` where there is none yet.
    pub fn feed(&mut self, shared: &Shared, servos: &[Option<&Counters>]) {
        let Some(period) = self.period else { return };
        if self.last.elapsed() < period {
            return;
        }
        self.last = Instant::now();
        self.seen.resize(servos.len(), Seen::default());
        if due(&mut self.seen, shared, servos, monotonic_ns() / 1_000_000) {
            let _ = sd_notify::notify(&[NotifyState::Watchdog]);
        }
    }
}

/// True when everything that matters lives, `now_ms` on the monotonic clock: every servo has advanced since the last look, which is
/// remembered, and the tokio side has beaten.
fn due(seen: &mut [Seen], shared: &Shared, servos: &[Option<&Counters>], now_ms: u64) -> bool {
    let silence = now_ms.saturating_sub(shared.beat_ms.load(Relaxed));
    all_advance(seen, shared, servos) && silence < BEAT_MS
}

/// True when every servo has advanced since the last look, which is remembered.
fn all_advance(seen: &mut [Seen], shared: &Shared, servos: &[Option<&Counters>]) -> bool {
    let mut fed = true;
    for (seen, servo) in seen.iter_mut().zip(servos) {
        let now = Seen::now(shared, *servo);
        fed &= advances(*seen, now, servo.is_some(), servo.is_none_or(excused));
        *seen = now;
    }
    fed
}

impl Seen {
    fn now(shared: &Shared, servo: Option<&Counters>) -> Self {
        Self {
            rounds: shared.rounds.load(Relaxed),
            ticks: servo.map_or(0, |c| c.ticks.load(Relaxed)),
            io: servo.map_or(0, Counters::io_rounds),
        }
    }
}

/// True where the device's I/O need not advance: a device that is gone cannot answer, and one without an I/O thread of its own
/// is not asked before it is ready. Everything else must go on all the same.
fn excused(servo: &Counters) -> bool {
    match servo.state() {
        ServoState::Absent => true,
        ServoState::Booting | ServoState::Uncalibrated => !servo.has_io(),
        _ => servo.fault() == Fault::DeviceGone,
    }
}

fn advances(before: Seen, now: Seen, servo: bool, gone: bool) -> bool {
    now.rounds != before.rounds
        && (!servo || now.ticks != before.ticks)
        && (!servo || gone || now.io != before.io)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::io::shared::Shared as IoShared;
    use std::sync::Arc;

    #[test]
    fn every_counter_must_advance() {
        let a = Seen { rounds: 1, ticks: 1, io: 1 };
        let b = Seen { rounds: 2, ticks: 2, io: 2 };
        assert!(advances(a, b, true, false));
        assert!(!advances(a, Seen { rounds: 1, ..b }, true, false), "the bridge hangs");
        assert!(!advances(a, Seen { ticks: 1, ..b }, true, false), "the servo hangs");
        assert!(!advances(a, Seen { io: 1, ..b }, true, false), "the device's I/O hangs");
        assert!(advances(a, Seen { io: 1, ..b }, true, true), "the device is gone, which is told otherwise");
        assert!(advances(a, Seen { ticks: 1, io: 1, ..b }, false, true), "no servo yet");
    }

    /// One servo that hangs is enough, whichever it is.
    #[test]
    fn each_of_several_servos_must_advance() {
        let bridge = Shared::default();
        let servos = [Counters::of(ServoState::Absent, None), Counters::of(ServoState::Absent, None)];
        let mut seen = [Seen::default(); 2];
        let mut feeds = |ticks: [u64; 2]| {
            bridge.rounds.fetch_add(1, Relaxed);
            for (servo, n) in servos.iter().zip(ticks) {
                servo.ticks.fetch_add(n, Relaxed);
            }
            all_advance(&mut seen, &bridge, &[Some(&servos[0]), Some(&servos[1])])
        };
        assert!(feeds([5, 5]));
        assert!(!feeds([5, 0]) && !feeds([0, 5]));
        assert!(feeds([1, 1]));
        assert!(all_advance(&mut [], &bridge, &[]), "no device yet");
    }

    /// A tokio side that hangs is enough, and so is a servo: systemd starts the service anew.
    #[test]
    fn it_is_withheld_where_the_tokio_side_or_a_servo_stands_still() {
        let bridge = Shared::default();
        bridge.beat_ms.store(10_000, Relaxed);
        let servo = Counters::of(ServoState::Absent, None);
        let mut seen = [Seen::default()];
        let mut fed = |now_ms: u64, ticks: u64| {
            bridge.rounds.fetch_add(1, Relaxed);
            servo.ticks.fetch_add(ticks, Relaxed);
            due(&mut seen, &bridge, &[Some(&servo)], now_ms)
        };
        assert!(fed(10_000, 5) && fed(11_900, 5), "all go on");
        assert!(!fed(12_001, 5), "no beat for 2001 ms");
        assert!(!fed(10_000, 0), "the servo stands still");
        assert!(fed(10_000, 5));
    }

    /// Whatever a device that waits for firmware, for its user, or for its clearing does or does not say: fed while its I/O
    /// thread goes round, and only then. The servo's puts into the mailbox are no sign of that.
    #[test]
    fn a_device_that_is_not_ready_is_fed_while_its_io_goes_on() {
        use ServoState::{Booting, Fault, Idle, Uncalibrated};
        let bridge = Shared::default();
        for state in [Booting, Uncalibrated, Idle, Fault] {
            let io = Arc::new(IoShared::default());
            let servo = Counters::of(state, Some(io.clone()));
            let feeds = |io_rounds: u64| {
                let before = Seen::now(&bridge, Some(&servo));
                bridge.rounds.fetch_add(1, Relaxed);
                servo.ticks.fetch_add(500, Relaxed);
                servo.writes.fetch_add(500, Relaxed);
                io.stats.rounds.fetch_add(io_rounds, Relaxed);
                advances(before, Seen::now(&bridge, Some(&servo)), true, excused(&servo))
            };
            assert!(feeds(10), "{state:?}: the I/O thread lives");
            assert!(!feeds(0), "{state:?}: the I/O thread hangs");
        }
        // Inline there is nothing to ask before the device is ready; then its samples and writes count.
        for (state, fed) in [(Booting, true), (Uncalibrated, true), (Idle, false), (Fault, false)] {
            let servo = Counters::of(state, None);
            let before = Seen::now(&bridge, Some(&servo));
            bridge.rounds.fetch_add(1, Relaxed);
            servo.ticks.fetch_add(500, Relaxed);
            assert_eq!(advances(before, Seen::now(&bridge, Some(&servo)), true, excused(&servo)), fed);
            servo.writes.fetch_add(500, Relaxed);
            assert!(advances(before, Seen::now(&bridge, Some(&servo)), true, excused(&servo)), "{state:?}");
        }
    }
}
