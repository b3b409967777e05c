//! Wake-ups of a thread that sleeps to absolute times a millisecond apart, as the servo does.

use super::check::Check;
use super::limits::{SERVO, set_fifo};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};
use std::fmt::Write as _;
use std::time::Duration;

/// Upper edges of the histogram, µs; what is above the last goes into one more bucket.
pub const BUCKETS_US: [f64; 11] =
    [5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0, 10_000.0];

/// At most so much at the 99th percentile, µs: a tenth of the period.
const GOOD_P99_US: f64 = 100.0;
/// At most so much at the 99.9th percentile, µs: half of the period.
const GOOD_P999_US: f64 = 500.0;
const PERIOD_NS: i64 = 1_000_000;

/// Wake errors (actual minus planned), µs.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Wake {
    /// Wake-ups measured.
    pub count: usize,
    /// True when the thread ran under SCHED_FIFO.
    pub fifo: bool,
    /// Median, µs.
    pub p50: f64,
    /// 99th percentile, µs.
    pub p99: f64,
    /// 99.9th percentile, µs.
    pub p999: f64,
    /// Largest, µs.
    pub max: f64,
    /// Counts by [`BUCKETS_US`], one more for what lies above.
    pub histogram: Vec<usize>,
}

/// Measures for so long, on that CPU (`None` = wherever the system puts the thread). Takes that long.
///
/// # Errors
/// The thread cannot be started, or sleeping fails.
pub fn measure(time: Duration, cpu: Option<usize>) -> std::io::Result<Wake> {
    let n = (time.as_secs_f64() * 1e9 / PERIOD_NS as f64).ceil().clamp(1.0, 4e6) as usize;
    let thread = std::thread::Builder::new().name("wake".into()).spawn(move || loop_of(n, cpu))?;
    let (errors, fifo) = thread.join().map_err(|_| std::io::Error::other("the measuring thread died"))??;
    Ok(Wake::of(errors, fifo))
}

fn loop_of(n: usize, cpu: Option<usize>) -> std::io::Result<(Vec<f64>, bool)> {
    if let Some(id) = cpu {
        // A refusal shows in the figures; the affinity line names its cause.
        let _ = core_affinity::set_for_current(core_affinity::CoreId { id });
    }
    let fifo = set_fifo(SERVO).is_ok();
    let mut errors = vec![0.0; n];
    let now = || clock_gettime(ClockId::CLOCK_MONOTONIC).map(nanoseconds);
    let mut planned = now()? + 2 * PERIOD_NS;
    for error in &mut errors {
        let until = TimeSpec::new(planned / 1_000_000_000, planned % 1_000_000_000);
        while clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &until).is_err() {
            // Interrupted by a signal: the time is absolute, so sleep on.
            if now()? >= planned {
                break;
            }
        }
        let late = now()? - planned;
        *error = late.max(0) as f64 * 1e-3;
        // Whole periods that were missed are skipped, the phase stays.
        planned += PERIOD_NS * (1 + late.max(0) / PERIOD_NS);
    }
    Ok((errors, fifo))
}

fn nanoseconds(t: TimeSpec) -> i64 {
    t.tv_sec() * 1_000_000_000 + t.tv_nsec()
}

impl Wake {
    /// From wake errors in µs; at least one.
    #[must_use]
    pub fn of(mut errors: Vec<f64>, fifo: bool) -> Self {
        errors.sort_by(f64::total_cmp);
        let quantile = |q: f64| {
            let rank = (q * errors.len() as f64).ceil() as usize;
            errors.get(rank.clamp(1, errors.len().max(1)) - 1).copied().unwrap_or(0.0)
        };
        let mut histogram = vec![0; BUCKETS_US.len() + 1];
        for e in &errors {
            histogram[BUCKETS_US.iter().position(|edge| e <= edge).unwrap_or(BUCKETS_US.len())] += 1;
        }
        Self {
            count: errors.len(),
            fifo,
            p50: quantile(0.5),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: quantile(1.0),
            histogram,
        }
    }

    /// The line of the report.
    #[must_use]
    pub fn check(&self) -> Check {
        let name = "wake-up latency";
        let policy = if self.fifo { "SCHED_FIFO" } else { "normal priority" };
        let why = format!(
            "p50 {:.0}, p99 {:.0}, p99.9 {:.0}, max {:.0} µs over {} wake-ups at {policy}",
            self.p50, self.p99, self.p999, self.max, self.count
        );
        if self.p99 <= GOOD_P99_US && self.p999 <= GOOD_P999_US {
            return Check::ok(name, why);
        }
        let cure = if self.fifo {
            "sudo systemctl stop irqbalance (after the cures of the degraded lines above), then hapticd doctor"
        } else {
            "hapticd doctor (again, after the cure of 'scheduling policy' above)"
        };
        let wanted = format!("; wanted p99 <= {GOOD_P99_US:.0}, p99.9 <= {GOOD_P999_US:.0}");
        Check::degraded(name, why + &wanted, cure)
    }

    /// A text histogram; the bars are logarithmic, so that single outliers show.
    #[must_use]
    pub fn histogram_text(&self) -> String {
        let mut out = String::from("wake-up error [µs]\n");
        for (i, count) in self.histogram.iter().enumerate() {
            let label = match BUCKETS_US.get(i) {
                Some(edge) => format!("<= {edge:.0}"),
                None => format!("> {:.0}", BUCKETS_US[BUCKETS_US.len() - 1]),
            };
            let bar = if *count == 0 { 0 } else { 1 + ((*count as f64).log10() * 10.0) as usize };
            let _ = writeln!(out, "{label:>9} {count:>8} {}", "#".repeat(bar));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::Status;
    use super::*;

    #[test]
    fn quantiles_and_buckets_of_a_known_set() {
        let wake = Wake::of((1..=1000).map(f64::from).collect(), true);
        assert_eq!((wake.p50, wake.p99, wake.p999, wake.max), (500.0, 990.0, 999.0, 1000.0));
        assert_eq!(wake.histogram, [5, 5, 10, 30, 50, 100, 300, 500, 0, 0, 0, 0]);
        assert_eq!(wake.check().status, Status::Degraded);
        let text = wake.histogram_text();
        assert_eq!(text.lines().count(), 13);
        assert!(text.contains("<= 5000        0 \n"));
    }

    #[test]
    fn good_wake_ups_are_ok_and_the_policy_is_named() {
        let wake = Wake::of(vec![20.0; 1000], false);
        let check = wake.check();
        assert_eq!(check.status, Status::Ok);
        assert!(check.why.contains("normal priority"));
        assert_eq!(Wake::of(vec![], true).max, 0.0);
    }

    #[test]
    fn a_measurement_counts_every_period() {
        let wake = measure(Duration::from_millis(50), None).unwrap();
        assert_eq!(wake.count, 50);
        assert_eq!(wake.histogram.iter().sum::<usize>(), 50);
    }
}
