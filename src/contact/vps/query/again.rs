//! Through what may touch by now, as far as it is known from the ticks before.

use super::ball::{Found, most};
use super::clear::Clearance;
use super::kernel::{Job, Sums, finish_sorted, visit_sorted};
use super::sweep::{CHUNK, Sweep};
use crate::contact::vps::sorted::Sorted;
use crate::geometry::simd::{LANES, SimdLevel};
use std::ops::Range;

/// More balls than this are looked at before what they hold.
const MANY: u32 = 3;

struct Tour<'a, P> {
    simd: SimdLevel,
    job: &'a Job<'a>,
    from: &'a Sorted,
    clear: &'a mut Clearance,
    /// Blocks to an entry of `clear`.
    per: usize,
    passed: P,
    sums: &'a mut Sums,
    /// Blocks to visit.
    list: Found,
    visited: usize,
}

/// Visits every block that may touch, as far as `clear` does not rule it out, and keeps that up to date. Finds no nearest
/// point. The sums are those of [`super::sweep::sweep`], bit for bit, if something touches. Stops when `passed` says so.
pub(super) fn revisit(
    simd: SimdLevel,
    job: &Job<'_>,
    from: &Sorted,
    clear: &mut Clearance,
    passed: impl Fn() -> bool,
    sums: &mut Sums,
) -> Sweep {
    let [blocks, _, regions] = &from.tree.tiers;
    let per = Clearance::per_entry(blocks.len());
    let mut tour = Tour { simd, job, from, clear, per, passed, sums, list: Found::new(), visited: 0 };
    let mut open = false;
    let late = !(0..regions.len()).all(|region| tour.region(regions.children(region), &mut open));
    if late {
        // Not all that was due has been looked at.
        tour.clear.forget();
    } else {
        tour.visit();
    }
    let visited = tour.visited;
    finish_sorted(simd, job, from, sums);
    Sweep { visited, late, unsure: false }
}

impl<P: Fn() -> bool> Tour<'_, P> {
    /// Lists the blocks of a region's groups. False when the deadline ended it, as for the other steps.
    fn region(&mut self, kids: Range<usize>, open: &mut bool) -> bool {
        let [_, groups, _] = &self.from.tree.tiers;
        let mut due = [0u16; LANES];
        for (due, group) in due.iter_mut().zip(kids.clone()) {
            *due = self.clear.due(groups.children(group).start, self.per, open);
        }
        if due.iter().filter(|&&d| d != 0).count() as u32 > MANY {
            let most = most(self.simd, &self.job.place, groups, kids.start);
            for ((due, &most), group) in due.iter_mut().zip(&most).zip(kids.clone()) {
                if most <= 0.0 {
                    for block in set(*due, groups.children(group)) {
                        self.clear.note(block, self.per, self.job.place.way(most));
                    }
                    *due = 0;
                }
            }
        }
        due.iter().zip(kids).all(|(&due, group)| due == 0 || self.group(groups.children(group), due))
    }

    fn group(&mut self, kids: Range<usize>, due: u16) -> bool {
        let [blocks, ..] = &self.from.tree.tiers;
        let mut each = [f32::INFINITY; LANES];
        if due.count_ones() > MANY {
            each = most(self.simd, &self.job.place, blocks, kids.start);
        }
        let first = kids.start;
        for block in set(due, kids) {
            let most = each.get(block - first).copied().unwrap_or(f32::INFINITY);
            if most <= 0.0 {
                self.clear.note(block, self.per, self.job.place.way(most));
                continue;
            }
            if self.list.items().len() == CHUNK {
                if (self.passed)() {
                    return false;
                }
                self.visit();
            }
            self.list.push(block as u32);
        }
        true
    }

    fn visit(&mut self) {
        let blocks = self.list.items();
        let mut most = [f32::INFINITY; CHUNK];
        visit_sorted(self.simd, self.job, self.from, blocks, self.sums, &mut most);
        for (&block, &most) in blocks.iter().zip(&most) {
            self.clear.note(block as usize, self.per, self.job.place.way(most));
        }
        self.visited += blocks.len() * LANES;
        self.list.clear();
    }
}

/// Those of up to sixteen whose bit is set.
fn set(bits: u16, of: Range<usize>) -> impl Iterator<Item = usize> {
    of.enumerate().filter(move |(i, _)| bits >> i & 1 != 0).map(|(_, block)| block)
}
