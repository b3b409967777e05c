//! Figures of a run: ticks, missed deadlines, times, forces, work.

use crate::servo::record::{FLAG_DEADLINE, FLAG_INCOMPLETE, Fault, TickRecord};
use hdrhistogram::Histogram;

/// Longest time that a histogram holds, ns; longer ones count as this.
const LONGEST: u64 = 60_000_000_000;

/// Gathers the figures of a run, record by record, in constant memory.
pub struct Stats {
    wake: Histogram<u64>,
    compute: Histogram<u64>,
    work: Histogram<u64>,
    /// Ticks seen.
    pub ticks: u64,
    /// Periods missed.
    pub missed: u64,
    /// Ticks that touched something.
    pub touching: u64,
    /// Largest force, N.
    pub peak_force: f64,
    /// Largest torque, N·m.
    pub peak_torque: f64,
    /// Largest penetration, m.
    pub peak_depth: f64,
    /// Ticks whose query ran out of budget.
    pub incomplete: u64,
    /// Ticks whose query the wall clock ended.
    pub deadline: u64,
    /// Generation felt last.
    pub generation: u64,
    /// First fault.
    pub fault: Fault,
}

/// Quantiles of one quantity.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Quantiles {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Largest.
    pub max: f64,
}

impl Default for Stats {
    fn default() -> Self {
        // Three digits: the bounds are constants, so this cannot fail.
        let new = || Histogram::new_with_bounds(1, LONGEST, 3).unwrap_or_else(|_| unreachable!());
        Self {
            wake: new(),
            compute: new(),
            work: new(),
            ticks: 0,
            missed: 0,
            touching: 0,
            peak_force: 0.0,
            peak_torque: 0.0,
            peak_depth: 0.0,
            incomplete: 0,
            deadline: 0,
            generation: 0,
            fault: Fault::None,
        }
    }
}

impl Stats {
    /// Adds a record.
    pub fn push(&mut self, r: &TickRecord) {
        let norm = |v: [f64; 3]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
        self.ticks += 1;
        self.missed += u64::from(r.skipped);
        self.touching += u64::from(r.touched > 0);
        self.wake.saturating_record(u64::try_from(r.wake_ns).unwrap_or(0));
        self.compute.saturating_record(r.compute_ns);
        self.work.saturating_record(u64::from(r.work));
        self.peak_force = self.peak_force.max(norm(r.force));
        self.peak_torque = self.peak_torque.max(norm(r.torque));
        self.peak_depth = self.peak_depth.max(r.depth);
        self.incomplete += u64::from(r.flags & FLAG_INCOMPLETE != 0);
        self.deadline += u64::from(r.flags & FLAG_DEADLINE != 0);
        self.generation = self.generation.max(r.generation);
        if self.fault == Fault::None {
            self.fault = r.fault;
        }
    }

    /// Wake error, µs.
    #[must_use]
    pub fn wake_us(&self) -> Quantiles {
        quantiles(&self.wake, 1e-3)
    }

    /// Compute time of a tick, µs.
    #[must_use]
    pub fn tick_us(&self) -> Quantiles {
        quantiles(&self.compute, 1e-3)
    }

    /// Work units of a tick.
    #[must_use]
    pub fn work_units(&self) -> Quantiles {
        quantiles(&self.work, 1.0)
    }

    /// Share of ticks that touched something, 0..=1.
    #[must_use]
    pub fn contact_share(&self) -> f64 {
        self.touching as f64 / self.ticks.max(1) as f64
    }
}

fn quantiles(h: &Histogram<u64>, factor: f64) -> Quantiles {
    let at = |q: f64| h.value_at_quantile(q) as f64 * factor;
    Quantiles { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: h.max() as f64 * factor }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_known_run() {
        let mut stats = Stats::default();
        for i in 1..=1000u64 {
            stats.push(&TickRecord {
                wake_ns: i as i64 * 1000,
                compute_ns: 20_000,
                skipped: u32::from(i == 500),
                touched: u16::from(i > 250),
                force: [0.0, 3.0 * f64::from(u8::from(i == 7)), 4.0 * f64::from(u8::from(i == 7))],
                work: 6000,
                generation: 2,
                fault: if i == 900 { Fault::Overrun } else { Fault::None },
                flags: if i % 10 == 0 { FLAG_INCOMPLETE } else { 0 },
                ..TickRecord::default()
            });
        }
        let close = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 2e-3, "{a} for {b}");
        close(stats.wake_us().p50, 500.0);
        close(stats.wake_us().p99, 990.0);
        close(stats.wake_us().p999, 999.0);
        close(stats.wake_us().max, 1000.0);
        close(stats.tick_us().p50, 20.0);
        assert_eq!((stats.ticks, stats.missed, stats.incomplete), (1000, 1, 100));
        assert_eq!(stats.contact_share(), 0.75);
        assert_eq!(stats.peak_force, 5.0);
        assert_eq!((stats.generation, stats.fault), (2, Fault::Overrun));
    }

    #[test]
    fn odd_values_are_counted_not_lost() {
        let mut stats = Stats::default();
        stats.push(&TickRecord { wake_ns: -5, compute_ns: u64::MAX, ..TickRecord::default() });
        assert_eq!(stats.ticks, 1);
        assert!(stats.tick_us().max >= 59e6);
    }
}
