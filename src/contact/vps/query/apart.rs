//! The distance of what does not touch.

use super::clear::Clearance;
use super::kernel::{Sums, probe};
use super::source::Source;
use super::sparse::Enough;
use super::{Ask, largest};
use crate::contact::{Bounds, Contact};
use crate::geometry::Point;
use crate::geometry::simd::LANES;

/// Parts of the covering radius and of the distance that a tool may come between two searches.
const COVERING: f64 = 0.25;
const DISTANCE: f64 = 0.02;

impl Ask<'_> {
    /// The answer where the tool has come less far since the last search than would let anything touch: from the block `near` that was nearest
    /// then. Searched again after a quarter of the covering radius and a fiftieth of the distance, so that the bounds stay within twice
    /// covering radius and field error, and the distance is more than the least by no more than twice that. Not within two of the field's
    /// errors of the surface, where the interpolation may rise faster than the distance falls.
    pub(super) fn still_apart(&self, near: u32, may_touch: f64, clear: &Clearance) -> Option<Contact> {
        let shell = self.shell;
        let (most, since) = clear.apart();
        let enough = (COVERING * shell.covering_radius).min(-most * DISTANCE);
        let free = f64::from(self.job.place.way(most as f32));
        if most > -2.0 * self.error || !(since <= enough && since < free) {
            return None;
        }
        let mut sums = Sums::new(Enough::NEVER);
        probe(self.simd, &self.job, &shell.sorted, near, &mut sums);
        if largest(&sums.deepest) > 0.0 {
            return None;
        }
        let answer = self.of_all(&sums, shell.len, LANES, may_touch);
        // True depths change by no more than the way.
        let upper = (most + since + self.error + shell.covering_radius).min(-self.gap.least);
        let depth_bounds = answer.depth_bounds.map(|b| Bounds { upper, ..b });
        Some(Contact { depth_bounds, complete: true, ..answer })
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
