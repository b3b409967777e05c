//! Runs the servo on the real clock with the simulated device and hand, and gathers its records.

use super::stats::Stats;
use super::{DEVICE, hand};
use crate::config::Core;
use crate::control::cpu::Cpus;
use crate::device::registry::{OpenOptions, Registry};
use crate::recording::Recorder;
use crate::recording::worker::{Sink, Worker};
use crate::scene::snapshot::Snapshot;
use crate::servo::handle::{ServoCommand, ServoConfig, channel, monotonic_ns};
use crate::servo::record::TickRecord;
use crate::servo::rt::{RtOptions, RtReport};
use crate::servo::run::{Ended, spawn};
use anyhow::bail;
use std::time::{Duration, Instant};

/// The demo's own session.
const SESSION: u64 = 1;
/// The lease is long and renewed often: the demo's loop runs at normal priority on a machine that may be busy.
const LEASE_NS: u64 = 10_000_000_000;
const RENEW: Duration = Duration::from_millis(200);
/// Without a record for so long the servo is given up.
const SILENCE: Duration = Duration::from_secs(10);
/// Records that may wait for the disk.
const WAITING: usize = 16_384;

/// A finished run.
pub struct Run {
    /// Figures.
    pub stats: Stats,
    /// What the real-time set-up could and could not get.
    pub rt: RtReport,
    /// Records lost between servo and summary.
    pub lost: u64,
    /// Records that the disk was too slow for.
    pub unrecorded: u64,
}

/// Touches the scene for so long.
///
/// # Errors
/// The device or the servo cannot be started, the servo falls silent, or the recording cannot be written.
pub fn drive(snapshot: Snapshot, units: u32, seconds: f64, recorder: Recorder) -> anyhow::Result<Run> {
    let config = ServoConfig {
        budget_units: units,
        max_force: 10.0,
        max_torque: 0.5,
        lease: 10.0,
        telemetry_ring: 16_384,
        ..ServoConfig::default()
    };
    let period_ns = config.period_ns;
    let options = OpenOptions { hand: hand::script(seconds), ..OpenOptions::default() };
    let device = Registry::builtin().open(DEVICE, &options)?;
    let (mut handle, end) = channel(config);
    handle.publish(Box::new(snapshot))?;
    let cpus = Cpus::split(Core::Auto).map_err(anyhow::Error::msg)?;
    let thread = spawn(end, device, RtOptions { cpu: Some(cpus.servo), ..RtOptions::default() })?;
    // Afterwards, because the servo's thread inherits what its parent may use: this thread and the recorder's stay away.
    cpus.leave_servo_alone();
    let rt = thread.report().clone();
    let mut worker = Worker::spawn(Sink::One(recorder), WAITING)?;
    handle.send(ServoCommand::Arm { session: SESSION })?;

    let mut stats = Stats::default();
    let mut gather = Gather {
        first_ns: None,
        period_ns,
        periods: (seconds * 1e9) as u64 / period_ns,
        next: 0,
        done: false,
        quiet: false,
    };
    let (mut lost, mut heard, mut renewed) = (0, Instant::now(), Instant::now());
    while !gather.done {
        std::thread::sleep(Duration::from_millis(4));
        let (n, dropped) = handle.drain(&mut |r| gather.take(r, &mut stats, &mut worker));
        lost += dropped;
        handle.reclaim();
        if n > 0 {
            heard = Instant::now();
        } else if heard.elapsed() > SILENCE || thread.ended() {
            bail!("the servo has stopped ticking");
        }
        if renewed.elapsed() > RENEW {
            // A full queue only means that the last renewal is still waiting.
            let _ = handle.send(ServoCommand::Lease { until_ns: monotonic_ns() + LEASE_NS });
            renewed = Instant::now();
        }
    }
    // The force ramps down before the servo ends.
    handle.disarm();
    let ending = Instant::now();
    while !gather.quiet && ending.elapsed() < Duration::from_secs(2) {
        std::thread::sleep(Duration::from_millis(4));
        handle.drain(&mut |r| gather.take(r, &mut stats, &mut worker));
    }
    handle.stop();
    let (ended, _) = thread.join();
    anyhow::ensure!(ended == Ended::Stopped, "the servo thread panicked; it commanded zero first");
    let (_, unrecorded) = worker.finish()?;
    Ok(Run { stats, rt, lost, unrecorded })
}

/// Sorts records: the wanted time counts, all are recorded.
struct Gather {
    first_ns: Option<u64>,
    period_ns: u64,
    /// Periods that count.
    periods: u64,
    /// The period after the last record's.
    next: u64,
    done: bool,
    quiet: bool,
}

impl Gather {
    fn take(&mut self, record: &TickRecord, stats: &mut Stats, worker: &mut Worker) {
        worker.offer(record);
        let first = *self.first_ns.get_or_insert(record.planned_ns);
        let period = record.planned_ns.saturating_sub(first) / self.period_ns;
        if !self.done {
            // Periods before the first tick and after the wanted time belong to nobody.
            let missed = period.min(self.periods).saturating_sub(self.next);
            self.done = period >= self.periods;
            let counted = TickRecord { skipped: u32::try_from(missed).unwrap_or(u32::MAX), ..*record };
            if self.done {
                stats.missed += missed;
            } else {
                stats.push(&counted);
            }
            self.next = period + 1;
        }
        self.quiet = self.done && record.force == [0.0; 3] && record.torque == [0.0; 3];
    }
}
