//! Period and overrun policy: absolute times, whole periods skipped, phase kept, everything counted. Pure.

#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used
    )
)]

/// One planned tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Planned start, ns on the servo's clock.
    pub planned_ns: u64,
    /// What lateness counts from, ns: the planned start, or that of the first skipped period where the thread slept through it.
    pub due_ns: u64,
    /// Periods skipped just before it.
    pub skipped: u32,
}

/// Most by which a tick is moved towards the device's beat, ns.
const FOLLOW_NS: i64 = 5_000;
/// Time between a sample's arrival and the tick that uses it, ns: the I/O thread's own work.
const AFTER_NS: u64 = 40_000;

/// What lateness amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lateness {
    /// In time.
    InTime,
    /// Late, within what is tolerated.
    Late,
    /// Too many late ticks in a row or in a second.
    TooOften,
    /// A single gap so long that the process must have been stopped.
    Gap,
}

/// When ticks are due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    period_ns: u64,
    next_ns: u64,
    in_row: u32,
    max_in_row: u32,
    max_per_second: u32,
    max_gap_ns: u64,
    /// Late ticks in the present and the previous second, and where the present one began.
    window: (u32, u32, u64),
    last_ns: Option<u64>,
    /// When the last tick had ended.
    ended_ns: u64,
}

impl Schedule {
    /// First tick at `start_ns`.
    pub fn new(period_ns: u64, start_ns: u64, max_in_row: u32, max_per_second: u32, max_gap_ns: u64) -> Self {
        Self {
            period_ns: period_ns.max(1),
            next_ns: start_ns,
            in_row: 0,
            max_in_row,
            max_per_second,
            max_gap_ns,
            window: (0, 0, start_ns),
            last_ns: None,
            ended_ns: 0,
        }
    }

    /// A tick has ended: periods that began before were missed by a long tick, not by a late wake-up.
    pub fn ended(&mut self, now_ns: u64) {
        self.ended_ns = now_ns;
    }

    /// When the next tick is due, ns.
    pub fn due_ns(&self) -> u64 {
        self.next_ns
    }

    /// Called when the thread woke at `now_ns` for the tick that was due: plans it, or, when whole periods have passed
    /// meanwhile, skips them and keeps the phase.
    pub fn wake(&mut self, now_ns: u64) -> (Plan, Lateness) {
        let behind = now_ns.saturating_sub(self.next_ns) / self.period_ns;
        let planned_ns = self.next_ns + behind * self.period_ns;
        let due_ns = if self.ended_ns <= self.next_ns { self.next_ns } else { planned_ns };
        self.next_ns = planned_ns + self.period_ns;
        let plan = Plan { planned_ns, due_ns, skipped: u32::try_from(behind).unwrap_or(u32::MAX) };
        (plan, self.judge(now_ns, behind > 0))
    }

    /// Moves the next tick a little towards just after the time at which the device's next sample will be there, so that a
    /// device with a beat of its own adds no period of waiting. At most 5 µs a tick: far less than wake-ups scatter,
    /// and more than crystals differ.
    pub fn follow(&mut self, sample_ns: u64) {
        let period = self.period_ns as i64;
        let wanted = sample_ns.saturating_add(AFTER_NS) as i64;
        let error = (wanted - self.next_ns as i64).rem_euclid(period);
        let error = if error > period / 2 { error - period } else { error };
        self.next_ns = self.next_ns.saturating_add_signed(error.clamp(-FOLLOW_NS, FOLLOW_NS));
    }

    /// Forgets lateness, once it has been made a fault: it must not count again for the next one.
    pub fn forgive(&mut self) {
        self.in_row = 0;
        self.window.0 = 0;
        self.window.1 = 0;
        self.last_ns = None;
    }

    fn judge(&mut self, now_ns: u64, late: bool) -> Lateness {
        let gap = self.last_ns.map_or(0, |last| now_ns.saturating_sub(last));
        self.last_ns = Some(now_ns);
        let (present, previous, began) = &mut self.window;
        if now_ns.saturating_sub(*began) >= 500_000_000 {
            // Two halves of a second: "in a second" slides in steps of half of one.
            (*previous, *present) = (*present, 0);
            *began = now_ns;
        }
        self.in_row = if late { self.in_row.saturating_add(1) } else { 0 };
        *present = present.saturating_add(u32::from(late));
        if gap > self.max_gap_ns {
            Lateness::Gap
        } else if self.in_row >= self.max_in_row || *present + *previous >= self.max_per_second {
            Lateness::TooOften
        } else if late {
            Lateness::Late
        } else {
            Lateness::InTime
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn schedule() -> Schedule {
        Schedule::new(MS, 5 * MS, 4, 10, 250 * MS)
    }

    #[test]
    fn in_time_ticks_follow_each_other() {
        let mut s = schedule();
        for k in 0..2000 {
            assert_eq!(s.due_ns(), (5 + k) * MS);
            let (plan, late) = s.wake((5 + k) * MS + 60_000);
            let planned_ns = (5 + k) * MS;
            assert_eq!(plan, Plan { planned_ns, due_ns: planned_ns, skipped: 0 });
            assert_eq!(late, Lateness::InTime);
        }
    }

    /// Samples every 1.0002 ms from any phase: within 100 ticks of 5 us each the tick stands just after the sample and stays
    /// there.
    #[test]
    fn a_device_s_beat_is_followed() {
        for phase in [0, 130_000, 480_000, 520_000, 999_999] {
            for drift in [-200i64, 0, 200] {
                let mut s = schedule();
                let mut last = s.due_ns();
                for k in 0..5000i64 {
                    let now = s.due_ns();
                    s.wake(now);
                    let step = s.due_ns() - now;
                    let sample = 5 * MS as i64 + phase + (k + 1) * (MS as i64 + drift);
                    s.follow(sample as u64);
                    assert!(s.due_ns().abs_diff(now + step) <= 5_000);
                    if k > 120 {
                        let late = (s.due_ns() as i64 - sample).rem_euclid(MS as i64);
                        assert!((30_000..50_000).contains(&late), "{phase} {drift} {k}: {late}");
                    }
                    assert!(s.due_ns() > last);
                    last = s.due_ns();
                }
            }
        }
    }

    #[test]
    fn whole_periods_are_skipped_and_the_phase_stays() {
        let mut s = schedule();
        let (plan, late) = s.wake(8 * MS + 300_000);
        assert_eq!((plan.planned_ns, plan.skipped, late), (8 * MS, 3, Lateness::Late));
        assert_eq!(s.due_ns(), 9 * MS);
    }

    /// A thread that slept through three periods woke 3.3 ms late; one that was still busy when they began did not wake late.
    #[test]
    fn a_late_wake_up_is_told_from_a_long_tick() {
        let mut s = schedule();
        s.ended(4 * MS);
        assert_eq!(s.wake(8 * MS + 300_000).0.due_ns, 5 * MS);
        s.ended(11 * MS + 200_000);
        assert_eq!(s.wake(11 * MS + 200_000).0.due_ns, 11 * MS);
        s.ended(11 * MS + 300_000);
        assert_eq!(s.wake(12 * MS + 10_000).0.due_ns, 12 * MS);
    }

    #[test]
    fn late_ticks_in_a_row_and_in_a_second_are_too_often() {
        let mut s = schedule();
        let row: Vec<_> = (1..=4).map(|k| s.wake(5 * MS + k * 3 * MS).1).collect();
        assert_eq!(row, [Lateness::Late, Lateness::Late, Lateness::Late, Lateness::TooOften]);
        s.forgive();
        // Every second tick late: never four in a row, but ten in a second.
        let mut now = s.due_ns();
        let mut counted = 0;
        loop {
            now += 2 * MS;
            let late = s.wake(now).1;
            counted += u32::from(late != Lateness::InTime);
            if late == Lateness::TooOften {
                break;
            }
            now = s.due_ns();
            s.wake(now);
            now = s.due_ns();
        }
        assert_eq!(counted, 10);
    }

    #[test]
    fn a_few_late_ticks_a_second_are_tolerated_for_ever() {
        let mut s = schedule();
        for _ in 0..60 {
            let now = s.due_ns() + MS;
            assert_eq!(s.wake(now).1, Lateness::Late);
            for _ in 0..300 {
                let now = s.due_ns();
                assert_eq!(s.wake(now).1, Lateness::InTime);
            }
        }
    }

    #[test]
    fn a_long_gap_is_told_apart() {
        let mut s = schedule();
        s.wake(5 * MS);
        assert_eq!(s.wake(300 * MS).1, Lateness::Gap);
    }

    proptest! {
        #[test]
        fn planned_times_keep_phase_and_account_for_every_period(
            gaps in prop::collection::vec(0u64..20 * MS, 1..200)
        ) {
            let mut s = schedule();
            let (mut now, mut ticks, mut skipped) = (5 * MS, 0u64, 0u64);
            let mut last = None;
            for gap in gaps {
                now = now.max(s.due_ns()) + gap;
                let (plan, _) = s.wake(now);
                prop_assert!(plan.planned_ns <= now && now - plan.planned_ns < MS);
                prop_assert!(last.is_none_or(|l| plan.planned_ns > l));
                ticks += 1;
                skipped += u64::from(plan.skipped);
                prop_assert_eq!(plan.planned_ns, (5 + ticks - 1 + skipped) * MS);
                last = Some(plan.planned_ns);
            }
        }
    }
}
