//! A smooth reading of a field: value and direction that do not jump from cell to cell.

use super::Field;
use crate::geometry::{Point, Vec3};

/// Weights of four nodes in a row at `t` (0..=1) between the middle two (Catmull and Rom 1974), and their slopes.
fn weights(t: f64) -> ([f64; 4], [f64; 4]) {
    let (t2, t3) = (t * t, t * t * t);
    (
        [
            0.5 * (-t + 2.0 * t2 - t3),
            0.5 * (2.0 - 5.0 * t2 + 3.0 * t3),
            0.5 * (t + 4.0 * t2 - 3.0 * t3),
            0.5 * (t3 - t2),
        ],
        [
            0.5 * (-1.0 + 4.0 * t - 3.0 * t2),
            0.5 * (9.0 * t2 - 10.0 * t),
            0.5 * (1.0 + 8.0 * t - 9.0 * t2),
            0.5 * (3.0 * t2 - 2.0 * t),
        ],
    )
}

impl Field {
    /// Depth (m) and its gradient (m/m, object's axes, inwards) at `p`: tricubic over 64 nodes, with a gradient that is
    /// continuous in the whole grid. Where the depth is smooth it is off by the cube of the cell, where the trilinear
    /// [`Field::depth`] is off by the square; at edges it may overshoot by some hundredths of a cell.
    /// Outside the grid, where only a bound is known, as [`Field::depth_gradient`]. Real-time safe.
    pub fn cubic(&self, p: &Point) -> (f64, Vec3) {
        let mut first = [0i64; 3];
        let mut weight = [([0.0; 4], [0.0; 4]); 3];
        for axis in 0..3 {
            let u = (p[axis] - self.origin[axis]) / self.cell;
            let last = f64::from(self.dims[axis].max(2) - 1);
            if !(0.0..=last).contains(&u) {
                return self.depth_gradient(p);
            }
            let index = u.min(last - 1.0).floor();
            first[axis] = index as i64 - 1;
            weight[axis] = weights(u - index);
        }
        let (mut value, mut slope) = (0.0, Vec3::zeros());
        let [(x, dx), (y, dy), (z, dz)] = &weight;
        for k in 0..4 {
            for j in 0..4 {
                let row: [f64; 4] =
                    std::array::from_fn(|i| self.extended([i, j, k].map(|n| n as i64), &first));
                let along = |w: &[f64; 4]| row.iter().zip(w).map(|(v, w)| v * w).sum::<f64>();
                let (v, d) = (along(x), along(dx));
                value += v * y[j] * z[k];
                slope += Vec3::new(d * y[j] * z[k], v * dy[j] * z[k], v * y[j] * dz[k]);
            }
        }
        (value, slope / self.cell)
    }

    /// Depth at a node, one beyond each border extrapolated, m.
    fn extended(&self, local: [i64; 3], first: &[i64; 3]) -> f64 {
        let at: [i64; 3] = [0, 1, 2].map(|a| first[a] + local[a]);
        let last = self.dims.map(|d| i64::from(d) - 1);
        match (0..3).find(|&a| at[a] < 0 || at[a] > last[a]) {
            None => self.node(at.map(|i| i as u32)),
            Some(axis) => {
                let inwards = if at[axis] < 0 { 1 } else { -1 };
                let moved = |by: i64| {
                    let mut there = local;
                    there[axis] += by * inwards;
                    self.extended(there, first)
                };
                2.0 * moved(1) - moved(2)
            }
        }
    }
}
