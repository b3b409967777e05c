//! The depth gradient as a tricubic reading of the field shows it: continuous from cell to cell.

use super::super::ball::Place;
use crate::geometry::field::Field;
use crate::geometry::simd::{LANES, Simd};
use crate::geometry::{Point, Vec3};

/// Gradient (m/m, tool frame) at those of sixteen points of the tool whose depth is positive; nothing at the others.
#[inline(always)]
pub(super) fn gradient<S: Simd>(
    s: S,
    place: &Place<'_>,
    field: &Field,
    r: [S::F; 3],
    depth: S::F,
) -> [S::F; 3] {
    let u = place.coordinates(s, r);
    let mut at = [[0.0; LANES]; 3];
    for (axis, out) in at.iter_mut().enumerate() {
        s.store(u[axis], out);
    }
    let [x, y, z] = slopes(field, &at, s.gt_bits(depth, s.splat(0.0)));
    place.gradient(s, [s.load(&x), s.load(&y), s.load(&z)])
}

/// Change of the depth along the grid's axes at the places (grid coordinates) whose bit is set, m a cell. One code for every
/// instruction set: each place reads 64 nodes of its own.
#[inline(never)]
fn slopes(field: &Field, at: &[[f32; LANES]; 3], bits: u16) -> [[f32; LANES]; 3] {
    let mut out = [[0.0; LANES]; 3];
    for lane in 0..LANES {
        if bits >> lane & 1 == 0 {
            continue;
        }
        let u = Vec3::from(at.each_ref().map(|axis| f64::from(axis[lane])));
        let (_, gradient): (f64, Vec3) = field.cubic(&Point::from(field.origin.coords + u * field.cell));
        for axis in 0..3 {
            out[axis][lane] = (gradient[axis] * field.cell) as f32;
        }
    }
    out
}
