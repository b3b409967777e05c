//! systemd: ready, stopping, and the watchdog, which is fed only while everything that matters advances.

use super::bridge::Shared;
use crate::servo::handle::{Counters, monotonic_ns};
use crate::servo::record::{Fault, ServoState};
use sd_notify::NotifyState;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Silence of the tokio side after which the watchdog is not fed, ms.
const BEAT_MS: u64 = 2000;

/// Counters that must advance from one feeding to the next.
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
    seen: Seen,
}

impl Watchdog {
    /// Says that the service is ready.
    pub fn ready() -> Self {
        let _ = sd_notify::notify(&[NotifyState::Ready]);
        let period = sd_notify::watchdog_enabled().map(|d| d / 4);
        Self { period, last: Instant::now(), seen: Seen::default() }
    }

    /// Says that the service ends.
    pub fn stopping(&self) {
        let _ = sd_notify::notify(&[NotifyState::Stopping]);
    }

    /// Feeds the watchdog when it is time and everything advances.
    pub fn feed(&mut self, shared: &Shared, servo: Option<&Counters>) {
        let Some(period) = self.period else { return };
        if self.last.elapsed() < period {
            return;
        }
        self.last = Instant::now();
        let now = Seen {
            rounds: shared.rounds.load(Relaxed),
            ticks: servo.map_or(0, |c| c.ticks.load(Relaxed)),
            io: servo.map_or(0, |c| c.samples.load(Relaxed) + c.writes.load(Relaxed)),
        };
        let beat = (monotonic_ns() / 1_000_000).saturating_sub(shared.beat_ms.load(Relaxed));
        // A device that is gone cannot answer; everything else must go on all the same.
        let gone = servo.is_none_or(|c| c.fault() == Fault::DeviceGone || c.state() == ServoState::Absent);
        if advances(self.seen, now, servo.is_some(), gone) && beat < BEAT_MS {
            let _ = sd_notify::notify(&[NotifyState::Watchdog]);
        }
        self.seen = now;
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
}
