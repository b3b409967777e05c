//! A uniform grid over points: neighbours within a radius, and the nearest one.

use crate::geometry::Point;
use rayon::prelude::*;

/// Most cells along an axis.
const MAX_SIDE: usize = 160;

/// The box of some points: its lowest and highest corner.
pub(super) fn bounds(points: &[Point]) -> (Point, Point) {
    let first = points.first().copied().unwrap_or_default();
    points.iter().fold((first, first), |(l, h), p| (l.inf(p), h.sup(p)))
}

/// Points sorted by cell.
pub(super) struct PointGrid {
    low: Point,
    cell: f64,
    side: [usize; 3],
    start: Vec<u32>,
    /// Indices of the points, cell after cell.
    order: Vec<u32>,
}

impl PointGrid {
    /// Sorts `points` into cells of about `cell` m (larger where the grid would have too many).
    pub(super) fn new(points: &[Point], cell: f64) -> Self {
        Self::within(points, bounds(points), cell)
    }

    /// The same in a box that is larger than the points'.
    pub(super) fn within(points: &[Point], (low, high): (Point, Point), cell: f64) -> Self {
        let extent = (high - low).amax();
        let cell = cell.max(extent / MAX_SIDE as f64).max(f64::MIN_POSITIVE);
        let side = [0, 1, 2].map(|a| ((high[a] - low[a]) / cell) as usize + 1);
        let mut grid =
            Self { low, cell, side, start: vec![0; side.iter().product::<usize>() + 1], order: vec![] };
        let cells: Vec<u32> = points.par_iter().map(|p| grid.flat(grid.of(p)) as u32).collect();
        for &c in &cells {
            grid.start[c as usize] += 1;
        }
        let mut end = 0;
        for start in &mut grid.start {
            end += *start;
            *start = end;
        }
        // Filled from behind, each cell's end becomes its start.
        grid.order = vec![0; points.len()];
        for (i, &c) in cells.iter().enumerate().rev() {
            let to = &mut grid.start[c as usize];
            *to -= 1;
            grid.order[*to as usize] = i as u32;
        }
        grid
    }

    fn of(&self, p: &Point) -> [usize; 3] {
        [self.along(0, p.x), self.along(1, p.y), self.along(2, p.z)]
    }

    fn along(&self, a: usize, x: f64) -> usize {
        (((x - self.low[a]) / self.cell).max(0.0) as usize).min(self.side[a] - 1)
    }

    fn flat(&self, c: [usize; 3]) -> usize {
        c[0] + self.side[0] * (c[1] + self.side[1] * c[2])
    }

    /// Calls `f` with the index of every point that may lie within `radius` of `p`: all that do, and some more.
    pub(super) fn near(&self, p: &Point, radius: f64, mut f: impl FnMut(u32)) {
        let reach = Point::from(p.coords.add_scalar(radius));
        let (a, b) = (self.of(&Point::from(p.coords.add_scalar(-radius))), self.of(&reach));
        for z in a[2]..=b[2] {
            for y in a[1]..=b[1] {
                let row = self.flat([0, y, z]);
                let span = self.start[row + a[0]] as usize..self.start[row + b[0] + 1] as usize;
                self.order[span].iter().for_each(|&i| f(i));
            }
        }
    }

    /// The nearest point to `p`: index and distance (m). `None` for an empty grid.
    pub(super) fn nearest(&self, points: &[Point], p: &Point) -> Option<(u32, f64)> {
        if points.is_empty() {
            return None;
        }
        // Any hit within the searched radius is final; outside the grid's box start at its border.
        let outside = (0..3).fold(0.0, |s: f64, a| {
            let high = self.low[a] + self.cell * self.side[a] as f64;
            let off = (self.low[a] - p[a]).max(p[a] - high).max(0.0);
            s + off * off
        });
        let mut radius = outside.sqrt() + self.cell;
        loop {
            let mut best = (u32::MAX, radius * radius);
            self.near(p, radius, |i| {
                let d = (points[i as usize] - p).norm_squared();
                if d < best.1 || (d == best.1 && i < best.0) {
                    best = (i, d);
                }
            });
            if best.0 != u32::MAX {
                return Some((best.0, best.1.sqrt()));
            }
            radius *= 2.0;
            if !radius.is_finite() {
                return None;
            }
        }
    }
}
