//! Evaluation of the winding-number tree: 16 moments or 16 triangles at a time.

// Loops over lanes take part in many arrays; by index is what the vectoriser reads best.
#![allow(clippy::needless_range_loop)]

use super::Winding;
use crate::geometry::lanes::{F, LANES, below, max, min};
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
fn far_field(simd: impl Simd, node: &Node, p: [f32; 3], sum: &mut F) -> u32 {
    let mut excess = [0.0; LANES];
    for i in 0..LANES {
        let (x, y, z) = (node.center[0][i] - p[0], node.center[1][i] - p[1], node.center[2][i] - p[2]);
        let (xx, yy, zz) = (x * x, y * y, z * z);
        let r2 = xx + yy + zz;
        let i2 = 1.0 / r2;
        let first = node.n[0][i] * x + node.n[1][i] * y + node.n[2][i] * z;
        let a = &node.a;
        let second = a[0][i] * xx
            + a[1][i] * yy
            + a[2][i] * zz
            + a[3][i] * (x * y)
            + a[4][i] * (x * z)
            + a[5][i] * (y * z);
        let s = &node.s;
        let third = xx * (s[0][i] * x + s[3][i] * y + s[4][i] * z)
            + yy * (s[1][i] * y + s[5][i] * x + s[6][i] * z)
            + zz * (s[2][i] * z + s[7][i] * x + s[8][i] * y)
            + s[9][i] * (x * y * z);
        let w = i2 * i2.sqrt() * (first + i2 * (second + i2 * third));
        excess[i] = r2 - node.far2[i];
        sum[i] += if excess[i] < 0.0 { 0.0 } else { w };
    }
    // Negative where the child is near.
    below(simd, &excess, 0.0) & node.used
}

/// Adds each triangle's solid angle over 4 pi.
#[inline(always)]
fn near_field(leaf: &Leaf, p: [f32; 3], sum: &mut F) {
    for i in 0..LANES {
        let (a, b, c) = (seen(leaf, 0, i, p), seen(leaf, 1, i, p), seen(leaf, 2, i, p));
        let (la, lb, lc) = (dot(a, a).sqrt(), dot(b, b).sqrt(), dot(c, c).sqrt());
        let n = [b[1] * c[2] - b[2] * c[1], b[2] * c[0] - b[0] * c[2], b[0] * c[1] - b[1] * c[0]];
        let den = la * lb * lc + dot(a, b) * lc + dot(b, c) * la + dot(c, a) * lb;
        sum[i] += atan2(dot(a, n), den) * (0.5 * FRAC_1_PI);
    }
}

/// Corner `k` of triangle `i` as seen from p.
#[inline(always)]
fn seen(leaf: &Leaf, k: usize, i: usize, p: [f32; 3]) -> [f32; 3] {
    let c = &leaf.corner[k];
    [c[0][i] - p[0], c[1][i] - p[1], c[2][i] - p[2]]
}

#[inline(always)]
fn dot(a: [f32; 3], b: [f32; 3]) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// atan2 to about 3e-7 rad, 0 at the origin: one octant by the polynomial of Cephes' `atanf` (S. Moshier), the rest by
/// symmetry. Branch-free, so that it vectorises.
#[inline(always)]
pub(super) fn atan2(y: f32, x: f32) -> f32 {
    let (ax, ay) = (x.abs(), y.abs());
    let (big, small) = (max(ax, ay), min(ax, ay));
    let upper = small > 0.414_213_56 * big;
    let num = if upper { small - big } else { small };
    let den = if upper { small + big } else { big };
    let q = num / if den > 0.0 { den } else { 1.0 };
    let z = q * q;
    let poly = ((8.053_744_5e-2 * z - 1.387_768_6e-1) * z + 1.997_771_1e-1) * z - 3.333_294_9e-1;
    let r = poly * z * q + q + if upper { FRAC_PI_4 } else { 0.0 };
    let r = if ay > ax { FRAC_PI_2 - r } else { r };
    let r = if x < 0.0 { PI - r } else { r };
    r.copysign(y)
}

#[inline(always)]
pub(super) fn number_body(simd: impl Simd, tree: &Winding, p: [f32; 3]) -> f64 {
    let mut sum = [0.0; LANES];
    let mut stack = [0u32; STACK];
    let mut len = usize::from(!tree.nodes.is_empty());
    while len > 0 {
        len -= 1;
        let at = stack[len];
        if at & LEAF != 0 {
            if let Some(leaf) = tree.leaves.get((at ^ LEAF) as usize) {
                near_field(leaf, p, &mut sum);
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
    sum.iter().map(|&x| f64::from(x)).sum()
}

/// Winding number at a local point.
pub(super) fn number(tree: &Winding, p: [f32; 3]) -> f64 {
    dispatch!(simd::level(), number_body(tree: &Winding, p: [f32; 3]) -> f64)
}
