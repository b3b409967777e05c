//! Reduces any number of ticks to a few thousand columns without losing a spike.
//!
//! Each column keeps first, smallest, largest and last value of each series: a line drawn through those four has the
//! same pixels as the line through all points (Jugel et al., "M4", VLDB 2014). Memory is bounded: when the time axis
//! outgrows the columns, neighbours merge and the column width doubles.

use crate::servo::record::{Fault, ServoState, TickRecord};

/// Series of a plot, in the order of [`Column::series`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Series {
    ForceX,
    ForceY,
    ForceZ,
    Force,
    TorqueX,
    TorqueY,
    TorqueZ,
    Torque,
    /// m
    Depth,
    /// s
    Compute,
    /// s
    Wake,
    Work,
}

/// Number of series.
pub const SERIES: usize = Series::Work as usize + 1;

/// First, smallest, largest, last of the finite values in a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// First in time.
    pub first: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Last in time.
    pub last: f64,
}

impl Span {
    fn join(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        match (a, b) {
            (Some(a), Some(b)) => {
                Some(Self { first: a.first, min: a.min.min(b.min), max: a.max.max(b.max), last: b.last })
            }
            (a, b) => a.or(b),
        }
    }
}

/// What happened in one column of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Column {
    /// Ticks in the column.
    pub ticks: u32,
    /// Ticks that touched something.
    pub touching: u32,
    /// Ticks whose force was on.
    pub rendering: u32,
    /// Ticks in a latched fault.
    pub fault: u32,
    /// Periods missed.
    pub missed: u64,
    /// The series; `None` where there is no finite value.
    pub series: [Option<Span>; SERIES],
}

impl Column {
    fn join(self, later: Self) -> Self {
        let mut series = self.series;
        for (a, b) in series.iter_mut().zip(later.series) {
            *a = Span::join(*a, b);
        }
        Self {
            ticks: self.ticks.saturating_add(later.ticks),
            touching: self.touching.saturating_add(later.touching),
            rendering: self.rendering.saturating_add(later.rendering),
            fault: self.fault.saturating_add(later.fault),
            missed: self.missed.saturating_add(later.missed),
            series,
        }
    }

    fn of(r: &TickRecord) -> Self {
        let norm = |v: [f64; 3]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
        let [fx, fy, fz] = r.force;
        let [tx, ty, tz] = r.torque;
        let values = [
            fx,
            fy,
            fz,
            norm(r.force),
            tx,
            ty,
            tz,
            norm(r.torque),
            r.depth,
            r.compute_ns as f64 * 1e-9,
            r.wake_ns as f64 * 1e-9,
            f64::from(r.work),
        ];
        Self {
            ticks: 1,
            touching: u32::from(r.touched > 0),
            rendering: u32::from(r.state == ServoState::Rendering),
            fault: u32::from(r.fault != Fault::None),
            missed: u64::from(r.skipped),
            series: values.map(|v| v.is_finite().then_some(Span { first: v, min: v, max: v, last: v })),
        }
    }
}

/// The columns of a run.
#[derive(Clone, Debug)]
pub struct Columns {
    columns: Vec<Column>,
    limit: usize,
    start_ns: u64,
    width_ns: u64,
    records: u64,
}

impl Columns {
    /// At most `limit` columns (at least 2), each at first one period wide.
    #[must_use]
    pub fn new(limit: usize, period_ns: u64) -> Self {
        Self { columns: Vec::new(), limit: limit.max(2), start_ns: 0, width_ns: period_ns.max(1), records: 0 }
    }

    /// Adds one tick. Time must not run backwards; what does counts for the first column.
    pub fn push(&mut self, record: &TickRecord) {
        if self.records == 0 {
            self.start_ns = record.planned_ns;
        }
        self.records += 1;
        let offset = record.planned_ns.saturating_sub(self.start_ns);
        while offset / self.width_ns >= self.limit as u64 {
            self.merge();
        }
        let index = (offset / self.width_ns) as usize;
        if index >= self.columns.len() {
            self.columns.resize(index + 1, Column::default());
        }
        self.columns[index] = self.columns[index].join(Column::of(record));
    }

    fn merge(&mut self) {
        self.width_ns = self.width_ns.saturating_mul(2);
        let joined =
            self.columns.chunks(2).map(|c| c.iter().copied().reduce(Column::join).unwrap_or_default());
        self.columns = joined.collect();
    }

    /// Ticks added.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The columns; empty ones have no ticks.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Width of a column, s.
    #[must_use]
    pub fn width_s(&self) -> f64 {
        self.width_ns as f64 * 1e-9
    }

    /// Length of the time axis, s.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.columns.len() as f64 * self.width_s()
    }

    /// Smallest and largest value of a series, where it has any.
    #[must_use]
    pub fn range(&self, series: Series) -> Option<(f64, f64)> {
        let spans = self.columns.iter().filter_map(|c| c.series[series as usize]);
        spans.map(|s| (s.min, s.max)).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Smallest positive value among the columns' smallest, for logarithmic axes.
    #[must_use]
    pub fn smallest_positive(&self, series: Series) -> Option<f64> {
        let spans = self.columns.iter().filter_map(|c| c.series[series as usize]);
        spans.map(|s| s.min).filter(|v| *v > 0.0).min_by(f64::total_cmp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick(ms: u64, depth: f64) -> TickRecord {
        TickRecord { planned_ns: 5_000_000_000 + ms * 1_000_000, depth, ..TickRecord::default() }
    }

    #[test]
    fn a_single_spike_survives_any_reduction() {
        let mut columns = Columns::new(100, 1_000_000);
        for ms in 0..100_000 {
            columns.push(&tick(ms, if ms == 77_777 { 9.0 } else { (ms % 2) as f64 }));
        }
        assert!(columns.columns().len() <= 100);
        assert_eq!(columns.range(Series::Depth), Some((0.0, 9.0)));
        assert_eq!(columns.columns().iter().map(|c| u64::from(c.ticks)).sum::<u64>(), 100_000);
        assert_eq!(columns.records(), 100_000);
        let with_spike: Vec<usize> = (0..columns.columns().len())
            .filter(|i| columns.columns()[*i].series[Series::Depth as usize].unwrap().max == 9.0)
            .collect();
        assert_eq!(with_spike, [(77.777 / columns.width_s()) as usize]);
    }

    #[test]
    fn first_and_last_keep_their_order_across_merges() {
        let mut columns = Columns::new(2, 1_000_000);
        for (ms, depth) in [(0, 1.0), (1, 5.0), (2, -3.0), (3, 2.0)] {
            columns.push(&tick(ms, depth));
        }
        let all = columns.columns()[0].join(columns.columns()[1]).series[Series::Depth as usize];
        assert_eq!(all, Some(Span { first: 1.0, min: -3.0, max: 5.0, last: 2.0 }));
    }

    #[test]
    fn gaps_stay_empty_and_nan_gives_no_value() {
        let mut columns = Columns::new(50, 1_000_000);
        columns.push(&tick(0, f64::NAN));
        columns.push(&tick(9, 1.0));
        assert_eq!(columns.columns()[0].series[Series::Depth as usize], None);
        assert_eq!(columns.columns()[5].ticks, 0);
        assert_eq!(columns.columns().len(), 10);
    }

    #[test]
    fn absurd_times_end() {
        let mut columns = Columns::new(10, 1);
        for planned_ns in [0, u64::MAX, 3, 1 << 40] {
            columns.push(&TickRecord { planned_ns, ..TickRecord::default() });
        }
        assert!(columns.columns().len() <= 10);
        assert_eq!(columns.columns().iter().map(|c| c.ticks).sum::<u32>(), 4);
    }
}
