//! Sums over the blocks that press, kind by kind: all at once do not fit into the registers.

use super::super::source::Source;
use super::super::sparse::Enough;
use super::{ALONG, AREA, CHUNK, Force, GRADIENTS, Job, SOFT_AREA, STIFFNESS, STILL, block_of, cross, dot};
use crate::contact::patch::Pressing;
use crate::geometry::simd::{LANES, Simd};

#[inline(always)]
pub(super) fn sum_here<S: Simd, P: Source>(
    s: S,
    job: &Job<'_>,
    from: &P,
    force: &mut Force,
    enough: &Enough,
    deepest: &[f32; LANES],
) {
    if force.waiting == 0 {
        return;
    }
    sum_forces(s, job, from, force);
    if along_matters(force, enough, deepest) {
        sum_along(s, from, force);
    }
    force.keep_first(from);
    sum_moments(s, from, force);
    sum_patches(s, from, force);
    force.waiting = 0;
}

/// Whether [`super::super::sparse::settled`] may look at the parts along the gradient, as far as it is known.
#[inline(always)]
pub(super) fn along_matters(force: &Force, enough: &Enough, deepest: &[f32; LANES]) -> bool {
    force.total[SOFT_AREA].iter().sum::<f64>() < enough.area
        || !deepest.iter().any(|&d| f64::from(d) >= enough.depth)
}

/// Adds force, torque, elastic force and area of the blocks that press. This and [`sum_moments`] go over them one after the
/// other because all sums at once do not fit into the registers.
#[inline(always)]
fn sum_forces<S: Simd, P: Source>(s: S, job: &Job<'_>, from: &P, force: &mut Force) {
    let zero = s.splat(0.0);
    let mut lanes = [zero; 10];
    let mut soft = zero;
    for p in force.pressed.iter().take(force.waiting) {
        let Some((r, n)) = block_of(s, from, p.block as usize) else { break };
        let m = cross(s, r, n);
        let (push, still) = (s.load(&p.force), s.load(&p.still));
        for i in 0..3 {
            lanes[i] = s.add(lanes[i], s.mul(push, n[i]));
            lanes[3 + i] = s.add(lanes[3 + i], s.mul(push, m[i]));
            lanes[STILL + i] = s.add(lanes[STILL + i], s.mul(still, n[i]));
        }
        let area = s.load(&p.area);
        lanes[AREA] = s.add(lanes[AREA], area);
        soft = s.add(soft, s.min(s.mul(still, s.splat(job.whole)), area));
    }
    for i in 0..10 {
        s.accumulate(lanes[i], &mut force.total[i]);
    }
    s.accumulate(soft, &mut force.total[SOFT_AREA]);
}

/// Adds the parts of the forces along the depth gradient g, (n . g) g for each n, and the gradients.
#[inline(always)]
fn sum_along<S: Simd, P: Source>(s: S, from: &P, force: &mut Force) {
    let zero = s.splat(0.0);
    let (mut lanes, mut mean) = ([zero; 7], [zero; 4]);
    for p in force.pressed.iter().take(force.waiting) {
        let Some((r, n)) = block_of(s, from, p.block as usize) else { break };
        let g = [s.load(&p.gradient[0]), s.load(&p.gradient[1]), s.load(&p.gradient[2])];
        let push = s.load(&p.force);
        let part = along(s, r, n, push, g);
        for i in 0..7 {
            lanes[i] = s.add(lanes[i], part[i]);
        }
        for i in 0..3 {
            mean[i] = s.add(mean[i], s.mul(push, g[i]));
        }
        mean[3] = s.add(mean[3], push);
    }
    for i in 0..4 {
        s.accumulate(mean[i], &mut force.total[GRADIENTS + i]);
    }
    for i in 0..7 {
        s.accumulate(lanes[i], &mut force.total[ALONG + i]);
    }
}

/// Force, torque and size of the part of a force along g: (n . g) g for each n.
#[inline(always)]
pub(super) fn along<S: Simd>(s: S, r: [S::F; 3], n: [S::F; 3], force: S::F, g: [S::F; 3]) -> [S::F; 7] {
    let size = s.mul(force, dot(s, n, g));
    let m = cross(s, r, g);
    // One by one: a closure would not be compiled for the instructions of `S` (`Constants`).
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

/// Adds where the elastic force presses.
#[inline(always)]
fn sum_patches<S: Simd, P: Source>(s: S, from: &P, force: &mut Force) {
    let Some(patches) = &mut force.patches else { return };
    let mut some = [Pressing::NONE; CHUNK];
    for (out, p) in some.iter_mut().zip(&force.pressed).take(force.waiting) {
        let Some((r, n)) = block_of(s, from, p.block as usize) else { break };
        let g = [s.load(&p.gradient[0]), s.load(&p.gradient[1]), s.load(&p.gradient[2])];
        *out = Pressing::new(s, r, n, g, (s.load(&p.still), s.load(&p.area)));
    }
    patches.add(s, &some);
}

/// Adds twice the symmetric part of area (n, r x n) (g, r x g)^T, upper triangle by rows.
#[inline(always)]
fn sum_moments<S: Simd, P: Source>(s: S, from: &P, force: &mut Force) {
    let zero = s.splat(0.0);
    let mut lanes = [zero; 21];
    for p in force.pressed.iter().take(force.waiting) {
        let Some((r, n)) = block_of(s, from, p.block as usize) else { break };
        let area = s.load(&p.area);
        let g = [s.load(&p.gradient[0]), s.load(&p.gradient[1]), s.load(&p.gradient[2])];
        // With s = n g^T + g n^T the blocks are s, t = s [r]^T, whose rows are r x (the rows of s), and [r] t, whose
        // columns are r x (the columns of t).
        let a = [s.mul(area, n[0]), s.mul(area, n[1]), s.mul(area, n[2])];
        let xx = s.mul(s.add(a[0], a[0]), g[0]);
        let yy = s.mul(s.add(a[1], a[1]), g[1]);
        let zz = s.mul(s.add(a[2], a[2]), g[2]);
        let xy = s.add(s.mul(a[0], g[1]), s.mul(a[1], g[0]));
        let xz = s.add(s.mul(a[0], g[2]), s.mul(a[2], g[0]));
        let yz = s.add(s.mul(a[1], g[2]), s.mul(a[2], g[1]));
        let x = cross(s, r, [xx, xy, xz]);
        let y = cross(s, r, [xy, yy, yz]);
        let z = cross(s, r, [xz, yz, zz]);
        let upper = [
            xx,
            xy,
            xz,
            x[0],
            x[1],
            x[2],
            yy,
            yz,
            y[0],
            y[1],
            y[2],
            zz,
            z[0],
            z[1],
            z[2],
            s.sub(s.mul(r[1], z[0]), s.mul(r[2], y[0])),
            s.sub(s.mul(r[1], z[1]), s.mul(r[2], y[1])),
            s.sub(s.mul(r[1], z[2]), s.mul(r[2], y[2])),
            s.sub(s.mul(r[2], x[1]), s.mul(r[0], z[1])),
            s.sub(s.mul(r[2], x[2]), s.mul(r[0], z[2])),
            s.sub(s.mul(r[0], y[2]), s.mul(r[1], x[2])),
        ];
        for i in 0..21 {
            lanes[i] = s.add(lanes[i], upper[i]);
        }
    }
    for i in 0..21 {
        s.accumulate(lanes[i], &mut force.total[STIFFNESS + i]);
    }
}
