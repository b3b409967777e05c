//! The farthest points in many directions.

use crate::contact::vps::query::Pushed;
use crate::geometry::simd::LANES;

/// Directions: all with whole coordinates up to 2 that have no common divisor.
pub(super) const DIRECTIONS: usize = 98;
/// Padded to whole lanes with directions in which nothing is far.
const PADDED: usize = DIRECTIONS.next_multiple_of(LANES);

/// Components of the directions; padding is 0.
const COMPONENTS: [[f32; PADDED]; 3] = components();

const fn components() -> [[f32; PADDED]; 3] {
    let mut out = [[0.0; PADDED]; 3];
    let mut n = 0;
    let mut code = 0;
    while code < 125 {
        let d = [code % 5 - 2, code / 5 % 5 - 2, code / 25 - 2];
        // Common divisors are 2 only, and all of (0, 0, 0).
        let odd = d[0] % 2 != 0 || d[1] % 2 != 0 || d[2] % 2 != 0;
        if odd {
            out[0][n] = d[0] as f32;
            out[1][n] = d[1] as f32;
            out[2][n] = d[2] as f32;
            n += 1;
        }
        code += 1;
    }
    assert!(n == DIRECTIONS);
    out
}

/// The farthest pushing point in each direction, and the deepest.
pub(super) struct Support {
    /// Product of position and direction, m.
    farthest: [f32; PADDED],
    /// Shell index and depth (m) of that point.
    point: [(u32, f32); PADDED],
    deepest: (u32, f32),
}

impl Support {
    pub(super) fn new() -> Self {
        Self { farthest: [f32::NEG_INFINITY; PADDED], point: [(0, 0.0); PADDED], deepest: (0, 0.0) }
    }

    /// Takes the points of a block into account. Its box leaves out directions in which others are farther.
    pub(super) fn offer(&mut self, p: &Pushed<'_>) {
        let [dx, dy, dz] = &COMPONENTS;
        let (mut low, mut high) = ([f32::INFINITY; 3], [f32::NEG_INFINITY; 3]);
        for (lane, &depth) in p.depth.iter().enumerate() {
            if depth <= 0.0 {
                continue;
            }
            if depth > self.deepest.1 {
                self.deepest = (p.block.id[lane], depth);
            }
            for axis in 0..3 {
                low[axis] = low[axis].min(p.block.at[axis][lane]);
                high[axis] = high[axis].max(p.block.at[axis][lane]);
            }
        }
        let mut reach = [0.0f32; PADDED];
        for k in 0..PADDED {
            let along = |d: f32, axis: usize| (d * low[axis]).max(d * high[axis]);
            reach[k] = along(dx[k], 0) + along(dy[k], 1) + along(dz[k], 2);
        }
        // (A little more for rounding.)
        for k in 0..DIRECTIONS {
            if reach[k] + 1e-6 * reach[k].abs() < self.farthest[k] {
                continue;
            }
            for (lane, &depth) in p.depth.iter().enumerate() {
                let at = |axis: usize| p.block.at[axis][lane];
                let far = dx[k] * at(0) + dy[k] * at(1) + dz[k] * at(2);
                if depth > 0.0 && far > self.farthest[k] {
                    self.farthest[k] = far;
                    self.point[k] = (p.block.id[lane], depth);
                }
            }
        }
    }

    /// Index and depth (m) of the deepest point, then of the farthest ones; some may be given twice.
    pub(super) fn found(&self) -> impl Iterator<Item = (u32, f32)> {
        std::iter::once(self.deepest).chain(self.point).filter(|p| p.1 > 0.0)
    }
}
