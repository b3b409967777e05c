//! Cells of any size over points that stand along a Morton curve: each is a span of them.

use super::order::Curve;
use crate::geometry::Point;
use crate::geometry::morton::morton;
use std::ops::Range;

/// Finest cells: 128 along the longest side, whose table still fits into a cache.
const FINEST: u32 = 3;
/// Largest edge of a cell, of the reach that is asked for.
const EDGE: f64 = 0.75;
/// Covers the rounding of places along the curve, of its steps.
const SLACK: f64 = 1e-6;

/// A grid whose cells are made larger or smaller without sorting anything again.
pub(super) struct Cells {
    curve: Curve,
    /// Of each point, in order.
    codes: Vec<u32>,
    /// A cell is 2^this steps of the curve along an edge.
    shift: u32,
    /// First point of each cell, along the curve, and the end of the last one's.
    start: Vec<u32>,
}

impl Cells {
    /// Of points that stand along the curve through their own box. One cell until it is fitted.
    pub(super) fn new(points: &[Point]) -> Self {
        let curve = Curve::through(points);
        let codes: Vec<u32> = points.iter().map(|p| curve.code(p)).collect();
        debug_assert!(codes.is_sorted());
        Self { start: vec![0, codes.len() as u32], curve, codes, shift: Curve::BITS }
    }

    /// Chooses the size for a reach, m.
    pub(super) fn fit(&mut self, reach: f64) {
        let steps = EDGE * reach * self.curve.per_metre;
        let shift = (steps.log2().max(0.0) as u32).clamp(FINEST, Curve::BITS);
        if shift == self.shift {
            return;
        }
        self.shift = shift;
        self.start.clear();
        for (i, code) in (0..).zip(&self.codes) {
            let cell = (code >> (3 * shift)) as usize;
            if self.start.len() <= cell {
                self.start.resize(cell + 1, i);
            }
        }
        self.start.resize((1 << (3 * (Curve::BITS - shift))) + 1, self.codes.len() as u32);
    }

    /// Calls `f` with spans of the points that hold all within `reach` of `p`, m, and some more.
    pub(super) fn near(&self, p: &Point, reach: f64, mut f: impl FnMut(Range<usize>)) {
        let at = (p - self.curve.low) * self.curve.per_metre;
        let reach = reach * self.curve.per_metre + SLACK;
        let last = (1 << Curve::BITS) - 1;
        let cell = |along: f64| (along.max(0.0) as u32).min(last) >> self.shift;
        let range = |a: usize| cell(at[a] - reach)..=cell(at[a] + reach);
        // Squared distance to a cell along an axis.
        let off = |a: usize, c: u32| {
            let low = f64::from(c << self.shift);
            let off = (low - at[a]).max(at[a] - low - f64::from(1u32 << self.shift)).max(0.0);
            off * off
        };
        for z in range(2) {
            let left = reach * reach - off(2, z);
            for y in range(1) {
                let left = left - off(1, y);
                if left < 0.0 {
                    continue;
                }
                for x in range(0) {
                    if off(0, x) <= left {
                        let cell = morton([x, y, z]) as usize;
                        let span = self.start[cell] as usize..self.start[cell + 1] as usize;
                        if !span.is_empty() {
                            f(span);
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contact::vps::order::{along_curve, together};

    #[test]
    fn spans_of_any_size_of_cell_hold_all_within_reach() {
        let place = |i: f64| {
            Point::new((i * 0.754_877_666_246_692_7).fract(), (i * 0.569_840_290_998_053_3).fract(), 1e-3 * i)
        };
        let mut points: Vec<Point> = (0..500).map(|i| place(f64::from(i))).collect();
        let order = along_curve(&points, |p| *p);
        together(&mut points, &order, &mut []);
        let mut cells = Cells::new(&points);
        for reach in [f64::INFINITY, 1.0, 0.3, 0.1, 0.03, 1e-3, 1e-9] {
            cells.fit(reach);
            let mut all = 0;
            for p in &points {
                let mut found = vec![0; points.len()];
                cells.near(p, reach, |span| found[span].iter_mut().for_each(|n| *n += 1));
                for (q, n) in points.iter().zip(found) {
                    assert!(n == 1 || n == 0 && (q - p).norm() > reach, "{reach}");
                    all += n;
                }
            }
            assert!(reach > 0.05 || all < points.len() * points.len() / 10, "{reach}: {all}");
        }
    }
}
