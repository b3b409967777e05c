//! Moments and corners in SIMD order.

use super::kernel::{BETA, Leaf, Node};
use crate::geometry::Vec3;
use crate::geometry::lanes::LANES;
use crate::geometry::wide::{NONE, Stop, Tree};
use nalgebra::Matrix3;
use rayon::prelude::*;
use std::f64::consts::PI;

pub(super) fn nodes(tree: &Tree, local: &[[Vec3; 3]], stop: Stop) -> Option<Vec<Node>> {
    let pack = |n: &crate::geometry::wide::Node| {
        let mut node = Node::EMPTY;
        for lane in (0..LANES).filter(|&l| n.child[l] != NONE) {
            if stop() {
                return None;
            }
            let (start, len) = n.range[lane];
            set_moments(&mut node, lane, &local[start as usize..(start + len) as usize]);
            node.child[lane] = n.child[lane];
            node.used |= 1 << lane;
        }
        Some(node)
    };
    tree.nodes.par_iter().map(pack).collect()
}

/// w(p) = 1/(4 pi) sum over triangles of the integral of n . r / |r|^3, expanded about the group's centre c to second order.
/// With R = c - p and f = R/|R|^3 the derivatives of f are symmetric and traceless, so only those parts of the moments count:
/// 4 pi w = (N.R - 3 R.A.R/|R|^2 + 7.5 S(R,R,R)/|R|^4) / |R|^3.
fn set_moments(node: &mut Node, lane: usize, triangles: &[[Vec3; 3]]) {
    let area_vector = |t: &[Vec3; 3]| (t[1] - t[0]).cross(&(t[2] - t[0])) * 0.5;
    let mut weighted = Vec3::zeros();
    let mut total = 0.0;
    for t in triangles {
        let area = area_vector(t).norm();
        weighted += (t[0] + t[1] + t[2]) * (area / 3.0);
        total += area;
    }
    let center = if total > 0.0 { weighted / total } else { triangles[0][0] };
    // What the f32 centre really is, so that the moments are about that very point.
    let center = center.map(|x| f64::from(x as f32));
    let (mut n, mut a) = (Vec3::zeros(), Matrix3::zeros());
    let mut b = [Matrix3::<f64>::zeros(); 3];
    let mut radius2 = 0.0f64;
    for t in triangles {
        let an = area_vector(t);
        let v = t.map(|x| x - center);
        let sum = v[0] + v[1] + v[2];
        n += an;
        a += an * (sum / 3.0).transpose();
        // Integral of y y^T over a triangle: area / 12 (sum v v^T + (sum v)(sum v)^T).
        let yy = (v[0] * v[0].transpose()
            + v[1] * v[1].transpose()
            + v[2] * v[2].transpose()
            + sum * sum.transpose())
            / 12.0;
        for i in 0..3 {
            b[i] += yy * an[i];
        }
        radius2 = v.iter().fold(radius2, |r, x| r.max(x.norm_squared()));
    }
    let k = 1.0 / (4.0 * PI);
    let sym = (a + a.transpose()) * 0.5;
    let sym = (sym - Matrix3::identity() * (sym.trace() / 3.0)) * (-3.0 * k);
    let full = |i: usize, j: usize, l: usize| (b[i][(j, l)] + b[j][(i, l)] + b[l][(i, j)]) / 3.0;
    let trace = [0, 1, 2].map(|l| full(0, 0, l) + full(1, 1, l) + full(2, 2, l));
    let s = |i: usize, j: usize, l: usize| {
        let mut x = full(i, j, l);
        if i == j {
            x -= trace[l] / 5.0;
        }
        if i == l {
            x -= trace[j] / 5.0;
        }
        if j == l {
            x -= trace[i] / 5.0;
        }
        x * 7.5 * k
    };
    for i in 0..3 {
        node.center[i][lane] = center[i] as f32;
        node.n[i][lane] = (n[i] * k) as f32;
    }
    let first =
        [sym[(0, 0)], sym[(1, 1)], sym[(2, 2)], 2.0 * sym[(0, 1)], 2.0 * sym[(0, 2)], 2.0 * sym[(1, 2)]];
    let second = [
        s(0, 0, 0),
        s(1, 1, 1),
        s(2, 2, 2),
        3.0 * s(0, 0, 1),
        3.0 * s(0, 0, 2),
        3.0 * s(0, 1, 1),
        3.0 * s(1, 1, 2),
        3.0 * s(0, 2, 2),
        3.0 * s(1, 2, 2),
        6.0 * s(0, 1, 2),
    ];
    for (to, x) in node.a.iter_mut().zip(first) {
        to[lane] = x as f32;
    }
    for (to, x) in node.s.iter_mut().zip(second) {
        to[lane] = x as f32;
    }
    node.far2[lane] = (BETA * BETA * radius2 + 1e-12) as f32;
}

pub(super) fn leaves(tree: &Tree, local: &[[Vec3; 3]]) -> Vec<Leaf> {
    let pack = |&(start, len): &(u32, u32)| {
        let mut leaf = Leaf::EMPTY;
        for lane in 0..len as usize {
            for (to, v) in leaf.corner.iter_mut().zip(&local[start as usize + lane]) {
                for k in 0..3 {
                    to[k][lane] = v[k] as f32;
                }
            }
        }
        leaf
    };
    tree.leaves.par_iter().map(pack).collect()
}
