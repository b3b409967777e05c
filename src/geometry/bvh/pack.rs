//! Filling the SIMD nodes and leaves of the tree.

use super::kernel::{Leaf, Node};
use crate::geometry::Vec3;
use crate::geometry::lanes::LANES;
use crate::geometry::wide::{NONE, Stop, Tree};
use nalgebra::{Matrix3, SymmetricEigen};
use rayon::prelude::*;

/// Rounding allowance of the `f32` box test in local units (coordinates within [-1, 1]).
const INFLATE: f64 = 1e-6;

/// Boxes around the triangles (local corners, in leaf order) of every child.
pub(super) fn nodes(tree: &Tree, local: &[[Vec3; 3]], stop: Stop) -> Option<Vec<Node>> {
    let pack = |n: &crate::geometry::wide::Node| {
        let mut node = Node::EMPTY;
        for lane in (0..LANES).filter(|&l| n.child[l] != NONE) {
            if stop() {
                return None;
            }
            let (start, len) = n.range[lane];
            let (center, axes, half) = tight_box(&local[start as usize..(start + len) as usize]);
            node.child[lane] = n.child[lane];
            node.used |= 1 << lane;
            for k in 0..3 {
                node.center[k][lane] = center[k] as f32;
                node.half[k][lane] = (half[k] + INFLATE) as f32;
                for (j, axis) in axes.iter().enumerate() {
                    node.axes[j][k][lane] = axis[k] as f32;
                }
            }
        }
        Some(node)
    };
    tree.nodes.par_iter().map(pack).collect()
}

/// Centre, axes and half sizes of a small box: along the principal axes of the corners or along x, y, z.
fn tight_box(triangles: &[[Vec3; 3]]) -> (Vec3, [Vec3; 3], [f64; 3]) {
    let straight = [Vec3::x(), Vec3::y(), Vec3::z()];
    let measure = |axes: [Vec3; 3]| {
        let (mut lo, mut hi) = ([f64::INFINITY; 3], [f64::NEG_INFINITY; 3]);
        for v in triangles.iter().flatten() {
            for k in 0..3 {
                let x = axes[k].dot(v);
                lo[k] = lo[k].min(x);
                hi[k] = hi[k].max(x);
            }
        }
        let half = [0, 1, 2].map(|k| (hi[k] - lo[k]) * 0.5);
        let center = (0..3).map(|k| axes[k] * ((hi[k] + lo[k]) * 0.5)).sum::<Vec3>();
        let area = half[0] * half[1] + half[1] * half[2] + half[2] * half[0];
        (area, center, axes, half)
    };
    let plain = measure(straight);
    let best = match principal_axes(triangles).map(measure) {
        Some(turned) if turned.0 < plain.0 => turned,
        _ => plain,
    };
    (best.1, best.2, best.3)
}

fn principal_axes(triangles: &[[Vec3; 3]]) -> Option<[Vec3; 3]> {
    let n = (triangles.len() * 3) as f64;
    let mean = triangles.iter().flatten().sum::<Vec3>() / n;
    let mut spread = Matrix3::zeros();
    for v in triangles.iter().flatten() {
        let d = v - mean;
        spread += d * d.transpose();
    }
    let trace = spread.trace();
    if trace.is_nan() || trace <= 0.0 {
        return None;
    }
    let eigen = SymmetricEigen::try_new(spread / trace, 1e-12, 100)?;
    let u = eigen.eigenvectors.column(0).into_owned().try_normalize(0.1)?;
    let v = eigen.eigenvectors.column(1).into_owned();
    let v = (v - u * u.dot(&v)).try_normalize(0.1)?;
    Some([u, v, u.cross(&v)])
}

/// Triangles (local corners, in leaf order) as planar frames.
pub(super) fn leaves(tree: &Tree, local: &[[Vec3; 3]]) -> Vec<Leaf> {
    let pack = |&(start, len): &(u32, u32)| {
        let mut leaf = Leaf::EMPTY;
        for lane in 0..len as usize {
            leaf.used |= 1 << lane;
            set_triangle(&mut leaf, lane, &local[start as usize + lane]);
        }
        leaf
    };
    tree.leaves.par_iter().map(pack).collect()
}

/// Puts the longest edge on the frame's x axis: then even a sliver's frame is accurate, and the third corner projects
/// onto that edge.
fn set_triangle(leaf: &mut Leaf, lane: usize, corners: &[Vec3; 3]) {
    let edge = |i: usize| (corners[(i + 1) % 3] - corners[i]).norm_squared();
    let first = (0..3).max_by(|&i, &j| edge(i).total_cmp(&edge(j))).unwrap_or(0);
    let [a, b, c] = [0, 1, 2].map(|i| corners[(first + i) % 3]);
    let u = (b - a).try_normalize(0.0).unwrap_or_else(Vec3::x);
    let ac = c - a;
    let across = ac - u * u.dot(&ac);
    // Without height, `across` is rounding noise of any direction: the triangle is then its longest edge.
    let flat = across.norm() <= 1e-12 * ac.norm();
    let v = if flat { any_normal(&u) } else { across.normalize() };
    // One more Gram-Schmidt step, since that of a sliver cancels.
    let v = (v - u * u.dot(&v)).normalize();
    let n = u.cross(&v);
    let (length, cx, cy) = ((b - a).norm(), u.dot(&ac), if flat { 0.0 } else { across.norm() });
    for k in 0..3 {
        leaf.a[k][lane] = a[k] as f32;
        leaf.u[k][lane] = u[k] as f32;
        leaf.v[k][lane] = v[k] as f32;
        leaf.n[k][lane] = n[k] as f32;
    }
    let inverse = |x: f64, y: f64| {
        let r = 1.0 / (x * x + y * y);
        if r < 1e30 { r as f32 } else { 0.0 }
    };
    leaf.length[lane] = length as f32;
    leaf.cx[lane] = cx as f32;
    leaf.cy[lane] = cy as f32;
    leaf.inv_ac[lane] = inverse(cx, cy);
    leaf.inv_bc[lane] = inverse(cx - length, cy);
}

fn any_normal(u: &Vec3) -> Vec3 {
    let other = if u.x.abs() < 0.6 { Vec3::x() } else { Vec3::y() };
    u.cross(&other).normalize()
}
