//! The depth gradient under a few points.
//!
//! That of the interpolation leaps where a point passes from cell to cell: by a cell over the object's radius, and by up to one beside
//! its edges. Among many points this evens out. A tip, a corner, or a coarse shell would feel it at each border: for them the gradient
//! is what depths about the point differ by, which changes continuously. The difference is summed apart, so that it
//! can fade as the points become many ([`super::super::sparse::few`]); only then does a point cost four look-ups more. The sum of the
//! gradients needs it too: a row of points that lies along the grid passes from cell to cell as one.

use super::super::source::Source;
use super::sums::along;
use super::{Force, Job, LACKS, Lack};
use crate::contact::vps::query::sparse::MANY;
use crate::geometry::field::block::Cells;
use crate::geometry::simd::{LANES, Simd};

/// Corners of a tetrahedron, half a cell along each axis from its middle.
const ABOUT: [[f32; 3]; 4] = [[0.5, 0.5, 0.5], [0.5, -0.5, -0.5], [-0.5, 0.5, -0.5], [-0.5, -0.5, 0.5]];
/// Sixteens of them.
const SIXTEENS: usize = MANY.div_ceil(LANES);

/// Sixteen points that press, from whatever blocks: most blocks of a small contact hold one or two.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Sixteen {
    /// Position (m), inward normal and gradient of the interpolation, tool frame.
    at: [[f32; LANES]; 3],
    normal: [[f32; LANES]; 3],
    gradient: [[f32; LANES]; 3],
    /// N; 0 where there is none.
    force: [f32; LANES],
}

/// The first points that press.
#[derive(Clone, Copy)]
pub(super) struct First {
    points: [Sixteen; SIXTEENS],
    len: usize,
}

impl First {
    pub(super) const NONE: Self = {
        let (one, three) = ([0.0; LANES], [[0.0; LANES]; 3]);
        let none = Sixteen { at: three, normal: three, gradient: three, force: one };
        Self { points: [none; SIXTEENS], len: 0 }
    };

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Forgets all from `len` on.
    pub(super) fn cut(&mut self, len: usize) {
        self.len = len;
    }

    /// What the parts along the gradient lack.
    #[inline(always)]
    pub(super) fn lack<S: Simd>(&self, s: S, job: &Job<'_>) -> Lack {
        let mut lanes = [[0.0; LANES]; LACKS];
        for (i, sixteen) in self.points.iter().enumerate().take(self.len.div_ceil(LANES)) {
            add(s, job, sixteen, self.len - i * LANES, &mut lanes);
        }
        lanes.map(|l| l.iter().sum())
    }
}

impl Force {
    /// Counts the points that press of the blocks that wait, and keeps the first of them. Once they are many nobody asks how many.
    #[inline(always)]
    pub(super) fn keep_first<P: Source>(&mut self, from: &P) {
        for p in self.pressed.iter().take(self.waiting) {
            if self.count > MANY {
                return;
            }
            let block = p.block as usize;
            let (Some(at), Some(normal)) = (from.at(block), from.normal(block)) else { break };
            for lane in 0..LANES {
                if p.area[lane] <= 0.0 {
                    continue;
                }
                self.count += 1;
                let (i, slot) = (self.first.len / LANES, self.first.len % LANES);
                let Some(to) = self.first.points.get_mut(i) else { continue };
                for axis in 0..3 {
                    to.at[axis][slot] = at[axis][lane];
                    to.normal[axis][slot] = normal[axis][lane];
                    to.gradient[axis][slot] = p.gradient[axis][lane];
                }
                to.force[slot] = p.force[lane];
                self.first.len += 1;
            }
        }
    }
}

#[inline(always)]
fn add<S: Simd>(s: S, job: &Job<'_>, points: &Sixteen, len: usize, lanes: &mut [[f64; LANES]; LACKS]) {
    let three = |v: &[[f32; LANES]; 3]| [s.load(&v[0]), s.load(&v[1]), s.load(&v[2])];
    let mut there = points.force;
    // What lies behind the last one was cut off.
    there.iter_mut().skip(len).for_each(|force| *force = 0.0);
    let (r, n, force) = (three(&points.at), three(&points.normal), s.load(&there));
    let at = job.place.coordinates(s, r);
    let zero = s.splat(0.0);
    let mut slope = [zero; 3];
    for signs in ABOUT {
        let signs = signs.map(|v| s.splat(v));
        let about = [s.add(at[0], signs[0]), s.add(at[1], signs[1]), s.add(at[2], signs[2])];
        let depth = Cells::look_up(s, &job.place.grid, about).depth(s);
        for axis in 0..3 {
            slope[axis] = s.add(slope[axis], s.mul(signs[axis], depth));
        }
    }
    // The signs are orthogonal, and four halves squared are one.
    let (gradient, interpolated) = (job.place.gradient(s, slope), three(&points.gradient));
    let smooth = along(s, r, n, force, gradient);
    let plain = along(s, r, n, force, interpolated);
    for i in 0..7 {
        s.accumulate(s.sub(smooth[i], plain[i]), &mut lanes[i]);
    }
    for i in 0..3 {
        s.accumulate(s.mul(force, s.sub(gradient[i], interpolated[i])), &mut lanes[7 + i]);
    }
}
