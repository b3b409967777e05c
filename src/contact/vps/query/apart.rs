//! The distance of what does not touch.

use super::kernel::{Sums, probe};
use super::source::Source;
use super::sparse::Enough;
use super::weights::Weights;
use super::{Ask, largest};
use crate::contact::{Bounds, Contact, QueryState};
use crate::geometry::Point;
use crate::geometry::simd::LANES;

/// Parts of the covering radius and of the distance that a tool may come between two searches.
const COVERING: f64 = 0.25;
const DISTANCE: f64 = 0.02;

impl Ask<'_> {
    /// The answer where the tool has come less far since the last search than would let anything touch: from the block that was nearest
    /// then. Searched again after a quarter of the covering radius and a fiftieth of the distance, so that the bounds stay within twice
    /// covering radius and field error, and the distance is more than the least by no more than twice that. Not within two of the field's
    /// errors of the surface, where the interpolation may rise faster than the distance falls.
    pub(super) fn still_apart(&self, may_touch: f64, state: &QueryState) -> Option<Contact> {
        let shell = self.shell;
        let seed = (state.nearest as usize).checked_sub(1).filter(|&b| b < shell.sorted.blocks.len())?;
        let (most, since) = state.clear.apart();
        let enough = (COVERING * shell.covering_radius).min(-most * DISTANCE);
        let near = most > -2.0 * self.error;
        if near || !(since <= enough && since < f64::from(self.job.place.way(most as f32))) {
            return None;
        }
        let mut sums = Sums::new(Enough::NEVER);
        probe(self.simd, &self.job, &shell.sorted, seed as u32, &mut sums);
        if largest(&sums.deepest) > 0.0 {
            return None;
        }
        let all = shell.len as f64;
        let mut contact = self.contact(&sums, &Weights::new(shell, all), all, shell.len, 1.0);
        self.apart(&mut contact, &sums, &shell.sorted);
        // True depths change by no more than the way.
        let upper = (most + since + self.error + shell.covering_radius).min(-self.gap.least);
        contact.depth_bounds = contact.depth_bounds.map(|b| Bounds { upper, ..b });
        contact.work = LANES.min(shell.len) as u32;
        contact.need = self.need(may_touch);
        contact.complete = true;
        Some(contact)
    }

    /// What an answer without a touch says about the distance. The sums compare points outside the grid by their bounds; that
    /// of the nearest is made as good as the field allows.
    pub(super) fn apart(&self, contact: &mut Contact, sums: &Sums, from: &impl Source) {
        let (any, inside) = (largest(&sums.deepest), largest(&sums.deepest_inside));
        if sums.touched || any <= inside {
            return;
        }
        let (block, lane) = sums.deepest_point();
        let Some([x, y, z]) = from.at(block as usize).map(|c| c.map(|c| f64::from(c[lane]))) else { return };
        let (depth, _) = self.field.locate(&(self.relative * Point::new(x, y, z)));
        contact.distance = contact.distance.map(|d| d.max(-depth));
    }
}
