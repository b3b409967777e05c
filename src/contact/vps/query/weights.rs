//! Area weights of a query that may see a part of the shell only.

use super::source::Partial;
use crate::contact::vps::{Level, PointShell};
use crate::geometry::simd::LANES;

/// Whole levels and a part of the next one. The levels' own weights are blended towards those of the next level in
/// proportion to how much of it is seen, so the force keeps its scale, and a budget that grows by one block changes
/// it by that block's share only.
pub(super) struct Weights<'a> {
    /// Weights of the whole levels; `None` where `fine` holds alone.
    pub(super) coarse: Option<&'a Level>,
    /// Weights of all points once the level granted in part is complete.
    pub(super) fine: Option<&'a Level>,
    /// Share of the level granted in part.
    pub(super) t: f64,
    /// That level.
    pub(super) partial: Partial,
}

impl<'a> Weights<'a> {
    /// For so many points, at least 16.
    pub(super) fn new(shell: &'a PointShell, granted: f64) -> Self {
        let alone = |fine, partial| Self { coarse: None, fine, t: 1.0, partial };
        let Some(i) = shell.levels.iter().position(|l| l.len as f64 > granted) else {
            return alone(shell.levels.last(), Partial::NONE);
        };
        let fine = &shell.levels[i];
        let blocks = |points: f64| (points / LANES as f64) as f32;
        if i == 0 {
            return alone(Some(fine), Partial::new(0, blocks(granted), fine.len.div_ceil(LANES)));
        }
        let coarse = &shell.levels[i - 1];
        let (first, end) = (coarse.len / LANES, fine.len.div_ceil(LANES));
        let partial = Partial::new(first, blocks(granted - coarse.len as f64), end - first);
        let weight: f64 = (first..end).map(|b| f64::from(partial.weight(shell, b))).sum();
        Self { coarse: Some(coarse), fine: Some(fine), t: weight / (end - first) as f64, partial }
    }

    /// End of the blocks to go through.
    pub(super) fn last_block(&self) -> usize {
        match (self.coarse, self.fine) {
            (Some(coarse), _) if self.partial.granted <= 0.0 => coarse.len / LANES,
            (_, Some(fine)) => fine.len.div_ceil(LANES),
            _ => 0,
        }
    }

    /// Points in the blocks visited before block `end`.
    pub(super) fn visited(&self, shell: &PointShell, end: usize) -> usize {
        let first = self.partial.first.min(end);
        LANES * (first + (first..end).filter(|&b| self.partial.weight(shell, b) > 0.0).count())
    }

    /// Weight of point `i`, m^2.
    pub(super) fn area(&self, shell: &PointShell, i: usize) -> f64 {
        let of = |l: &Level| f64::from(l.area.get(i).copied().unwrap_or(0.0));
        let area = match (self.coarse, self.fine) {
            (Some(c), Some(f)) if i < c.len => of(c) + (of(f) - of(c)) * self.t,
            (_, Some(f)) => of(f),
            _ => 0.0,
        };
        area * f64::from(self.partial.weight(shell, i / LANES))
    }

    /// Whole area over the weight of the points visited before block `end`.
    pub(super) fn factor(&self, shell: &PointShell, end: usize) -> f64 {
        let Some(fine) = self.fine else { return 0.0 };
        let until = |l: &Level, b: usize| l.sum.get(b.min(l.sum.len() - 1)).copied().unwrap_or(0.0);
        let first = self.partial.first.min(end);
        let old = self.coarse.map_or(until(fine, first), |c| {
            let both = first.min(c.len / LANES);
            until(c, both) + (until(fine, both) - until(c, both)) * self.t
        });
        let seen: f64 = (first..end).fold(old, |sum, b| {
            sum + (until(fine, b + 1) - until(fine, b)) * f64::from(self.partial.weight(shell, b))
        });
        if seen > 0.0 { shell.total_area / seen } else { 0.0 }
    }
}
