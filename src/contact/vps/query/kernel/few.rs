//! The depth gradient under a few points.
//!
//! That of the interpolation leaps where a point passes from cell to cell: by a cell over the object's radius, and by up to one beside
//! its edges. Among many points this evens out. A tip, a corner, or a coarse shell would feel it at each border: for them the gradient
//! is what depths about the point differ by, which changes continuously. The difference is summed apart, so that it
//! can fade as the points become many ([`super::super::sparse::few`]).

use super::super::source::Source;
use super::{Force, Job, LACK, cross, dot};
use crate::geometry::field::block::Cells;
use crate::geometry::simd::{LANES, Simd};

/// Corners of a tetrahedron, half a cell along each axis from its middle.
const ABOUT: [[f32; 3]; 4] = [[0.5, 0.5, 0.5], [0.5, -0.5, -0.5], [-0.5, 0.5, -0.5], [-0.5, -0.5, 0.5]];

/// Up to sixteen points that press, from whatever blocks: most blocks of a small contact hold one or two.
#[repr(align(64))]
struct Few {
    /// Position (m), inward normal and gradient of the interpolation, tool frame.
    at: [[f32; LANES]; 3],
    normal: [[f32; LANES]; 3],
    gradient: [[f32; LANES]; 3],
    /// N; 0 where there is none.
    force: [f32; LANES],
    n: usize,
}

impl Few {
    const NONE: Self = Self {
        at: [[0.0; LANES]; 3],
        normal: [[0.0; LANES]; 3],
        gradient: [[0.0; LANES]; 3],
        force: [0.0; LANES],
        n: 0,
    };
}

/// Adds what the parts along the gradient lack, of the blocks that press.
#[inline(always)]
pub(super) fn add_few<S: Simd, P: Source>(s: S, job: &Job<'_>, from: &P, force: &mut Force) {
    let mut few = Few::NONE;
    for i in 0..force.waiting {
        let Some(p) = force.pressed.get(i) else { break };
        let block = p.block as usize;
        let (Some(at), Some(normal)) = (from.at(block), from.normal(block)) else { break };
        for lane in 0..LANES {
            if p.force[lane] == 0.0 {
                continue;
            }
            for axis in 0..3 {
                few.at[axis][few.n] = at[axis][lane];
                few.normal[axis][few.n] = normal[axis][lane];
                few.gradient[axis][few.n] = p.gradient[axis][lane];
            }
            few.force[few.n] = p.force[lane];
            few.n += 1;
            if few.n == LANES {
                add(s, job, &few, &mut force.total);
                few = Few::NONE;
            }
        }
    }
    if few.n > 0 {
        add(s, job, &few, &mut force.total);
    }
}

#[inline(always)]
fn add<S: Simd>(s: S, job: &Job<'_>, few: &Few, total: &mut super::Total) {
    let three = |v: &[[f32; LANES]; 3]| [s.load(&v[0]), s.load(&v[1]), s.load(&v[2])];
    let (r, n, force) = (three(&few.at), three(&few.normal), s.load(&few.force));
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
    let smooth = part(s, r, n, force, job.place.gradient(s, slope));
    let plain = part(s, r, n, force, three(&few.gradient));
    for i in 0..7 {
        s.accumulate(s.sub(smooth[i], plain[i]), &mut total[LACK + i]);
    }
}

/// Force, torque and size of the part along g: (n . g) g for each n.
#[inline(always)]
fn part<S: Simd>(s: S, r: [S::F; 3], n: [S::F; 3], force: S::F, g: [S::F; 3]) -> [S::F; 7] {
    let along = dot(s, n, g);
    let size = s.mul(force, along);
    let m = cross(s, r, g);
    [
        s.mul(size, g[0]),
        s.mul(size, g[1]),
        s.mul(size, g[2]),
        s.mul(size, m[0]),
        s.mul(size, m[1]),
        s.mul(size, m[2]),
        s.max(size, s.sub(s.splat(0.0), size)),
    ]
}
