//! Through all points that matter, neighbours together: what a query does that has the budget.

use super::ball::{Found, Place, Span, deepest, reached, soft_groups};
use super::kernel::{Job, Sums, finish_sorted, probe, visit_sorted};
use crate::contact::vps::sorted::Sorted;
use crate::contact::vps::tree::{Tier, Tree};
use crate::geometry::simd::{LANES, SimdLevel};
use std::ops::Range;

/// Blocks visited between two looks at the clock.
pub(super) const CHUNK: usize = 64;

/// What a sweep came to.
pub(super) struct Sweep {
    /// Points visited.
    pub(super) visited: usize,
    /// Not all that may touch was seen: the deadline has passed.
    pub(super) late: bool,
    /// Something nearer may have been left out, as `search` was spent.
    pub(super) unsure: bool,
}

/// The spans of the children of some balls.
pub(super) struct Spans {
    item: [Span; LANES],
    n: usize,
}

impl Spans {
    fn of(tier: &Tier, balls: &[u32]) -> Self {
        Self::within(tier, balls, &(0..usize::MAX))
    }

    /// Only what of the children lies in `range`.
    pub(super) fn within(tier: &Tier, balls: &[u32], range: &Range<usize>) -> Self {
        let mut spans = Self { item: [(0, 0); LANES], n: 0 };
        for (item, &ball) in spans.item.iter_mut().zip(balls) {
            let children = tier.children(ball as usize);
            let start = children.start.max(range.start);
            *item = (start as u32, children.end.min(range.end).saturating_sub(start) as u32);
            spans.n += 1;
        }
        spans
    }

    /// All balls of a tier of at most sixteen times sixteen.
    fn all(tier: &Tier) -> Self {
        let mut spans = Self { item: [(0, 0); LANES], n: 0 };
        let starts = (0..tier.len()).step_by(LANES);
        for (item, start) in spans.item.iter_mut().zip(starts) {
            *item = (start as u32, (tier.len() - start).min(LANES) as u32);
            spans.n += 1;
        }
        spans
    }

    pub(super) fn get(&self) -> &[Span] {
        self.item.get(..self.n).unwrap_or(&[])
    }
}

/// Tiers with more balls than this are entered from the one above.
const FEW: usize = 64;

struct Tour<'a, P> {
    simd: SimdLevel,
    job: &'a Job<'a>,
    from: &'a Sorted,
    search: usize,
    passed: P,
    sums: &'a mut Sums,
    visited: usize,
    unsure: bool,
}

/// Visits every block that may touch, or, as long as nothing touches, may hold the point nearest to the object, which
/// is looked for first in block `seed`. That search ends when `search` points are visited, all of it when `passed` says so.
pub(super) fn sweep(
    simd: SimdLevel,
    job: &Job<'_>,
    from: &Sorted,
    seed: Option<u32>,
    search: usize,
    passed: impl Fn() -> bool,
    sums: &mut Sums,
) -> Sweep {
    let seed = seed.unwrap_or_else(|| greedy(simd, &job.place, &from.tree));
    probe(simd, job, from, seed, sums);
    let mut tour = Tour { simd, job, from, search, passed, sums, visited: LANES, unsure: false };
    let late = !tour.regions();
    let (visited, unsure) = (tour.visited, tour.unsure && !tour.sums.touched);
    finish_sorted(simd, job, from, sums);
    Sweep { visited, late, unsure }
}

impl<P: Fn() -> bool> Tour<'_, P> {
    /// False when the deadline ended it, as for the other steps.
    fn regions(&mut self) -> bool {
        let [blocks, groups, regions] = &self.from.tree.tiers;
        let mut found = Found::new();
        if blocks.len() <= FEW {
            return self.blocks(&Spans::all(blocks), &mut found);
        }
        let mut open = Found::new();
        if groups.len() <= FEW {
            return self.groups(&Spans::all(groups), &mut open, &mut found);
        }
        for start in (0..regions.len()).step_by(LANES) {
            let mut near = Found::new();
            let span = (start as u32, (regions.len() - start).min(LANES) as u32);
            self.reached(regions, &[span], &mut near);
            if !self.groups(&Spans::of(regions, near.items()), &mut open, &mut found) {
                return false;
            }
        }
        true
    }

    fn groups(&mut self, spans: &Spans, open: &mut Found, found: &mut Found) -> bool {
        let [_, groups, _] = &self.from.tree.tiers;
        self.reached(groups, spans.get(), open);
        open.items().chunks(LANES).all(|some| self.blocks(&Spans::of(groups, some), found))
    }

    fn blocks(&mut self, spans: &Spans, found: &mut Found) -> bool {
        let [blocks, ..] = &self.from.tree.tiers;
        self.reached(blocks, spans.get(), found);
        if !self.sums.touched && !self.unsure && self.visited + found.items().len() * LANES > self.search {
            self.unsure = true;
            self.reached(blocks, spans.get(), found);
        }
        for some in found.items().chunks(CHUNK) {
            if (self.passed)() {
                return false;
            }
            visit_sorted(self.simd, self.job, self.from, some, self.sums, &mut []);
            self.visited += some.len() * LANES;
        }
        true
    }

    fn reached(&mut self, tier: &Tier, spans: &[Span], found: &mut Found) {
        found.clear();
        let nearest = if self.unsure { f32::INFINITY } else { self.sums.nearest() };
        reached(self.simd, &self.job.place, tier, spans, nearest, &mut self.sums.spots, found);
    }
}

/// A block near the object: the deepest ball of each tier, among the children of the one above.
fn greedy(simd: SimdLevel, place: &Place<'_>, tree: &Tree) -> u32 {
    let [blocks, groups, regions] = &tree.tiers;
    let region = if regions.len() <= LANES { deepest(simd, place, regions, 0, regions.len()) } else { 0 };
    let children = regions.children(region);
    let group = deepest(simd, place, groups, children.start, children.len());
    let children = groups.children(group);
    deepest(simd, place, blocks, children.start, children.len()) as u32
}

/// Points in blocks that may touch, those that nearly may in part ([`soft_groups`]). At least as many as a sweep visits of
/// what touches; exact up to `enough` only.
pub(super) fn count(simd: SimdLevel, place: &Place<'_>, tree: &Tree, enough: f64) -> f64 {
    let mut points = 0.0;
    soft_groups(simd, place, tree, |_, part| {
        points += part;
        points <= enough
    });
    points
}
