//! The sums of the patches, over sixteen places at a time.
//!
//! In single precision about the centre of what presses in each direction, of up to [`TOGETHER`] sixteens at once; only these sums
//! are carried to the tool's origin, in double precision. There fourth moments of a small patch would be lost: ten widths
//! off, they are ten thousand times as large.

use super::{Gather, MAX_PATCHES, Sums};
use crate::geometry::lanes::{Constants, F, Lanes, Vector, dot, load, minus, splat};
use crate::geometry::simd::{LANES, Simd};

/// Sixteens that are best added together.
pub(in crate::contact) const TOGETHER: usize = 8;

/// Directions are told apart with these weights, so that no boundary lies at 45 degrees, where bevels are.
const WEIGHTS: [f32; 3] = [1.0, 0.9, 0.8];
/// What meets the surface this squarely counts whole.
const SQUARE: f32 = 0.2;
/// The side of what presses nowhere.
const NOWHERE: f32 = 15.0;

/// Sixteen places where something may press.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(in crate::contact) struct Pressing {
    at: [F; 3],
    normal: [F; 3],
    gradient: [F; 3],
    /// Force times how squarely it meets the surface; 0 where it pushes back in.
    weight: F,
    /// Likewise the area that it grows with.
    area: F,
    /// The part of the force that the surface bears.
    counts: F,
    /// In which direction.
    side: F,
    /// Bit i: some of them in direction i.
    sides: u8,
}

impl Pressing {
    pub(in crate::contact) const NONE: Self = Self {
        at: [[0.0; LANES]; 3],
        normal: [[0.0; LANES]; 3],
        gradient: [[0.0; LANES]; 3],
        weight: [0.0; LANES],
        area: [0.0; LANES],
        counts: [0.0; LANES],
        side: [NOWHERE; LANES],
        sides: 0,
    };

    /// What presses with `force` along the normals `n` at `at`, where the depth has the gradient `g`; `area` is what the force grows
    /// with. Lanes without a force, or with one that is no number, press nowhere.
    #[inline(always)]
    pub(in crate::contact) fn new<S: Simd>(
        simd: S,
        at: [S::F; 3],
        n: [S::F; 3],
        g: [S::F; 3],
        (force, area): (S::F, S::F),
    ) -> Self {
        let (at, n, g) = (with(simd, at), with(simd, n), with(simd, g));
        let (force, area) = (Lanes::of(simd, force), Lanes::of(simd, area));
        let k = Constants(simd);
        let (zero, one) = (k.of(0.0), k.of(1.0));
        let squarely = zero - dot(n, g);
        // What enters does so from nothing: a face tilts by a hair and half of it meets the surface squarely or not at all.
        let t = (squarely.abs() / k.of(SQUARE)).min(one);
        let counts = force * t * t * (k.of(3.0) - k.of(2.0) * t);
        // The far side of what is sunk deeper than it is thick pushes back in: the surface bears that much less there
        // where it would push out.
        let turn = squarely.at_most(zero, -one, one);
        let [x, y, z] = WEIGHTS;
        let (x, y, z) = (n[0].abs() * k.of(x), n[1].abs() * k.of(y), n[2].abs() * k.of(z));
        let (yz, most) = (z.at_most(y, k.of(2.0), k.of(4.0)), y.max(z));
        let axis = most.at_most(x, zero, yz);
        let towards = most.at_most(x, n[0], z.at_most(y, n[1], n[2])) * turn;
        let side = axis + towards.at_most(zero, zero, one);
        // NaN is no side, and compares with nothing.
        let least = k.of(f32::MIN_POSITIVE);
        let presses = least.at_most(force, one, zero) * least.at_most(squarely.abs(), one, zero);
        let side = presses.at_most(zero, k.of(NOWHERE), side);
        let mut sides = 0;
        for i in 0..MAX_PATCHES {
            sides |= u8::from((side - k.of(i as f32)).abs().below(0.5) != 0) << i;
        }
        let met = squarely.max(zero);
        Self {
            at: kept(simd, presses, at),
            normal: kept(simd, presses, n),
            gradient: kept(simd, presses, g),
            weight: presses.at_most(zero, zero, force * met).store(),
            area: presses.at_most(zero, zero, area * met).store(),
            counts: presses.at_most(zero, zero, counts).store(),
            side: side.store(),
            sides,
        }
    }

    /// Those of the values that belong to direction `i`, else 0.
    #[inline(always)]
    fn of<S: Simd>(&self, simd: S, i: usize, values: &F) -> Lanes<S> {
        let k = Constants(simd);
        let off = (k.at(&self.side) - k.of(i as f32)).abs();
        off.at_most(k.of(0.5), k.at(values), k.of(0.0))
    }
}

impl Gather {
    /// Adds up to [`TOGETHER`] sixteens. The same bits on every instruction set.
    #[inline(always)]
    pub(in crate::contact) fn add<S: Simd>(&mut self, simd: S, some: &[Pressing]) {
        let sides = some.iter().fold(0, |all, p| all | p.sides);
        for (i, sums) in self.0.iter_mut().enumerate() {
            if sides >> i & 1 != 0 {
                sums.add(simd, i, some);
            }
        }
    }
}

impl Sums {
    #[inline(always)]
    fn add<S: Simd>(&mut self, simd: S, side: usize, some: &[Pressing]) {
        let zero = Lanes::splat(simd, 0.0);
        let (mut weight, mut first) = (zero, [zero; 3]);
        for p in some {
            if p.sides >> side & 1 == 0 {
                continue;
            }
            let (w, at) = (p.of(simd, side, &p.weight), load(simd, &p.at));
            weight = weight + w;
            first = [first[0] + w * at[0], first[1] + w * at[1], first[2] + w * at[2]];
        }
        let weight = total(weight);
        // Any place is right; near the centre least is lost.
        let mut centre = [0.0; 3];
        if weight > 0.0 {
            for (c, v) in centre.iter_mut().zip(first) {
                *c = (total(v) / weight) as f32;
            }
        }
        let about = splat(simd, centre);
        // Sum of w d (3), w d d^T (6), w d^2 d (3), w d^4; of w g (3), of counts n (3), of the area.
        let mut sums = [zero; 20];
        for p in some {
            if p.sides >> side & 1 == 0 {
                continue;
            }
            let (w, counts) = (p.of(simd, side, &p.weight), p.of(simd, side, &p.counts));
            let (d, n, g) = (minus(load(simd, &p.at), about), load(simd, &p.normal), load(simd, &p.gradient));
            let square = dot(d, d);
            let (wd, far) = ([w * d[0], w * d[1], w * d[2]], w * square);
            let terms = [
                wd[0],
                wd[1],
                wd[2],
                wd[0] * d[0],
                wd[0] * d[1],
                wd[0] * d[2],
                wd[1] * d[1],
                wd[1] * d[2],
                wd[2] * d[2],
                far * d[0],
                far * d[1],
                far * d[2],
                far * square,
                w * g[0],
                w * g[1],
                w * g[2],
                counts * n[0],
                counts * n[1],
                counts * n[2],
                p.of(simd, side, &p.area),
            ];
            for (sum, term) in sums.iter_mut().zip(terms) {
                *sum = *sum + term;
            }
        }
        let mut totals = [0.0; 20];
        for (out, sum) in totals.iter_mut().zip(sums) {
            *out = total(sum);
        }
        self.take(weight, centre.map(f64::from), &totals);
    }

    /// Takes the sums about `c`.
    fn take(&mut self, weight: f64, c: [f64; 3], sums: &[f64; 20]) {
        let [x, y, z, xx, xy, xz, yy, yz, zz, u, v, w, fourth, rest @ ..] = *sums;
        let (first, third) = ([x, y, z], [u, v, w]);
        let second = [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]];
        let dot = |a: [f64; 3], b: [f64; 3]| a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
        let (c2, trace, off) = (dot(c, c), xx + yy + zz, dot(c, first));
        let turned = second.map(|row| dot(row, c));
        self.weight += weight;
        let mut moments = self.moments.iter_mut();
        for i in 0..3 {
            self.at[i] += weight * c[i] + first[i];
            self.third[i] +=
                c2 * (weight * c[i] + first[i]) + 2.0 * (c[i] * off + turned[i]) + c[i] * trace + third[i];
            for j in i..3 {
                if let Some(moment) = moments.next() {
                    *moment += weight * c[i] * c[j] + c[i] * first[j] + first[i] * c[j] + second[i][j];
                }
            }
        }
        self.fourth +=
            c2 * (c2 * weight + 4.0 * off + 2.0 * trace) + 4.0 * (dot(c, turned) + dot(c, third)) + fourth;
        let [out_x, out_y, out_z, push_x, push_y, push_z, area] = rest;
        for (sum, v) in self.out.iter_mut().zip([out_x, out_y, out_z]) {
            *sum -= v;
        }
        for (sum, v) in self.push.iter_mut().zip([push_x, push_y, push_z]) {
            *sum += v;
        }
        self.area += area;
    }
}

#[inline(always)]
fn with<S: Simd>(simd: S, v: [S::F; 3]) -> Vector<S> {
    [Lanes::of(simd, v[0]), Lanes::of(simd, v[1]), Lanes::of(simd, v[2])]
}

/// The vectors where something presses, else 0.
#[inline(always)]
fn kept<S: Simd>(simd: S, presses: Lanes<S>, v: Vector<S>) -> [F; 3] {
    let zero = Lanes::splat(simd, 0.0);
    let mut out = [[0.0; LANES]; 3];
    for (out, v) in out.iter_mut().zip(v) {
        *out = presses.at_most(zero, zero, v).store();
    }
    out
}

/// Sum over the lanes, halves onto halves.
#[inline(always)]
fn total<S: Simd>(lanes: Lanes<S>) -> f64 {
    let mut v = lanes.store();
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            v[i] += v[i + half];
        }
    }
    f64::from(v[0])
}
