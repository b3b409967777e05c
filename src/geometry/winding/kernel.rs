//! Evaluation of the winding-number tree: 16 moments or 16 triangles at a time.

use super::Winding;
use crate::geometry::lanes::{Constants, F, LANES, Lanes, cross, dot, load, minus, splat};
use crate::geometry::simd::{self, Simd, dispatch};
use crate::geometry::wide::{LEAF, NONE, STACK};
use std::f32::consts::{FRAC_1_PI, FRAC_PI_2, FRAC_PI_4, PI};

/// A group is far when its distance exceeds this many of its radii. Barill et al. use 2 to 2.3 for second order.
pub(super) const BETA: f64 = 2.5;

/// Moments of up to 16 children, divided by 4 pi, about each child's area centroid.
#[repr(C, align(64))]
pub(super) struct Node {
    pub(super) center: [F; 3],
    /// Square of the distance beyond which the moments stand for the group; infinite in unused lanes.
    pub(super) far2: F,
    /// Area vector.
    pub(super) n: [F; 3],
    /// -3 x the symmetric traceless first moment: xx, yy, zz, 2xy, 2xz, 2yz.
    pub(super) a: [F; 6],
    /// 7.5 x the symmetric traceless second moment: xxx, yyy, zzz, 3xxy, 3xxz, 3xyy, 3yyz, 3xzz, 3yzz, 6xyz.
    pub(super) s: [F; 10],
    pub(super) child: [u32; LANES],
    pub(super) used: u32,
}

impl Node {
    pub(super) const EMPTY: Self = Self {
        center: [[0.0; LANES]; 3],
        far2: [f32::INFINITY; LANES],
        n: [[0.0; LANES]; 3],
        a: [[0.0; LANES]; 6],
        s: [[0.0; LANES]; 10],
        child: [NONE; LANES],
        used: 0,
    };
}

/// Corners of up to 16 triangles. Unused lanes hold three equal corners, whose solid angle is zero.
#[repr(C, align(64))]
pub(super) struct Leaf {
    pub(super) corner: [[F; 3]; 3],
}

impl Leaf {
    pub(super) const EMPTY: Self = Self { corner: [[[3.0; LANES]; 3]; 3] };
}

/// Adds each far child's moments to `sum`; returns the mask of near ones.
#[inline(always)]
fn far_field<S: Simd>(simd: S, node: &Node, p: [f32; 3], sum: &mut Lanes<S>) -> u32 {
    let get = Constants(simd);
    let [x, y, z] = minus(load(simd, &node.center), splat(simd, p));
    let (xx, yy, zz) = (x * x, y * y, z * z);
    let r2 = xx + yy + zz;
    let i2 = Lanes::splat(simd, 1.0) / r2;
    let first = dot(load(simd, &node.n), [x, y, z]);
    let a = &node.a;
    let second = get.at(&a[0]) * xx
        + get.at(&a[1]) * yy
        + get.at(&a[2]) * zz
        + get.at(&a[3]) * (x * y)
        + get.at(&a[4]) * (x * z)
        + get.at(&a[5]) * (y * z);
    let s = &node.s;
    let third = xx * (get.at(&s[0]) * x + get.at(&s[3]) * y + get.at(&s[4]) * z)
        + yy * (get.at(&s[1]) * y + get.at(&s[5]) * x + get.at(&s[6]) * z)
        + zz * (get.at(&s[2]) * z + get.at(&s[7]) * x + get.at(&s[8]) * y)
        + get.at(&s[9]) * (x * y * z);
    let w = i2 * i2.sqrt() * (first + i2 * (second + i2 * third));
    // Negative where the child is near; there w may be anything, NaN included.
    let excess = r2 - get.at(&node.far2);
    let zero = Lanes::splat(simd, 0.0);
    *sum = *sum + zero.at_most(excess, w, zero);
    excess.below(0.0) & node.used
}

/// Adds each triangle's solid angle over 4 pi.
#[inline(always)]
fn near_field<S: Simd>(simd: S, leaf: &Leaf, p: [f32; 3], sum: &mut Lanes<S>) {
    let p = splat(simd, p);
    let a = minus(load(simd, &leaf.corner[0]), p);
    let b = minus(load(simd, &leaf.corner[1]), p);
    let c = minus(load(simd, &leaf.corner[2]), p);
    let (la, lb, lc) = (dot(a, a).sqrt(), dot(b, b).sqrt(), dot(c, c).sqrt());
    let den = la * lb * lc + dot(a, b) * lc + dot(b, c) * la + dot(c, a) * lb;
    *sum = *sum + atan2(simd, dot(a, cross(b, c)), den) * Lanes::splat(simd, 0.5 * FRAC_1_PI);
}

/// atan2 to about 3e-7 rad, 0 at the origin: one octant by the polynomial of Cephes' `atanf` (S. Moshier), the rest by
/// symmetry.
#[inline(always)]
fn atan2<S: Simd>(simd: S, y: Lanes<S>, x: Lanes<S>) -> Lanes<S> {
    let k = Constants(simd);
    let (zero, one) = (k.of(0.0), k.of(1.0));
    let (ax, ay) = (x.abs(), y.abs());
    let (big, small) = (ax.max(ay), ax.min(ay));
    let limit = k.of(0.414_213_56) * big;
    let num = small.at_most(limit, small, small - big);
    let den = small.at_most(limit, big, small + big);
    let q = num / den.at_most(zero, one, den);
    let z = q * q;
    let poly = ((k.of(8.053_744_5e-2) * z - k.of(1.387_768_6e-1)) * z + k.of(1.997_771_1e-1)) * z
        - k.of(3.333_294_9e-1);
    let r = poly * z * q + q + small.at_most(limit, zero, k.of(FRAC_PI_4));
    let r = ay.at_most(ax, r, k.of(FRAC_PI_2) - r);
    let r = zero.at_most(x, r, k.of(PI) - r);
    zero.at_most(y, r, -r)
}

#[inline(always)]
pub(super) fn number_body(simd: impl Simd, tree: &Winding, p: [f32; 3]) -> f64 {
    let mut sum = Lanes::splat(simd, 0.0);
    let mut stack = [0u32; STACK];
    let mut len = usize::from(!tree.nodes.is_empty());
    while len > 0 {
        len -= 1;
        let at = stack[len];
        if at & LEAF != 0 {
            if let Some(leaf) = tree.leaves.get((at ^ LEAF) as usize) {
                near_field(simd, leaf, p, &mut sum);
            }
        } else if let Some(node) = tree.nodes.get(at as usize) {
            let mut mask = far_field(simd, node, p, &mut sum);
            while mask != 0 {
                let lane = (mask.trailing_zeros() as usize) & (LANES - 1);
                mask &= mask - 1;
                stack[len] = node.child[lane];
                len += 1;
            }
        }
    }
    sum.store().iter().map(|&x| f64::from(x)).sum()
}

/// Winding number at a local point.
pub(super) fn number(tree: &Winding, p: [f32; 3]) -> f64 {
    dispatch!(simd::level(), number_body(tree: &Winding, p: [f32; 3]) -> f64)
}

#[cfg(test)]
pub(super) fn atan2_of(y: f32, x: f32) -> f32 {
    let simd = crate::geometry::simd::Scalar;
    atan2(simd, Lanes::splat(simd, y), Lanes::splat(simd, x)).store()[0]
}
