//! 6x6 stiffness: its positive part, and the cap on what the hand may feel, as the tests ask for it (the
//! servo's stands in `haptics::coupling`).
//!
//! Everything here is real-time safe: fixed size, a bounded number of Jacobi rotations, no allocation.

#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types,
        clippy::expect_used,
        clippy::panic,
        clippy::unwrap_used
    )
)]

use crate::geometry::simd::{Simd, dispatch, level};
use nalgebra::{Matrix3, Matrix6, Rotation3, Vector6};

/// Sweeps of cyclic Jacobi; a 6x6 matrix converges to f64 precision in five or six.
const SWEEPS: usize = 10;

/// Squared elements beside the diagonal that count as none, relative to the matrix's: what they leave is a hundredth of the
/// rounding of the single-precision sums that stiffnesses are made of.
const NEARLY: f64 = 1e-20;

/// All pairs of six indices, in five rounds of three that share none: such rotations do not touch each other's elements,
/// so that the CPU works on three at a time (Golub and Van Loan, Matrix Computations, section 8.5.7).
const ROUNDS: [[(usize, usize); 3]; 5] = [
    [(0, 1), (2, 3), (4, 5)],
    [(0, 2), (1, 4), (3, 5)],
    [(0, 3), (1, 5), (2, 4)],
    [(0, 4), (1, 3), (2, 5)],
    [(0, 5), (1, 2), (3, 4)],
];

/// Six columns, each in whole vector registers.
#[derive(Clone, Copy)]
struct Columns([[f64; 8]; 6]);

impl Columns {
    fn of(m: &Matrix6<f64>) -> Self {
        Self(std::array::from_fn(|j| std::array::from_fn(|i| if i < 6 { m[(i, j)] } else { 0.0 })))
    }

    fn matrix(&self) -> Matrix6<f64> {
        Matrix6::from_fn(|i, j| self.0[j][i])
    }

    /// Columns p and q times the rotation.
    #[inline(always)]
    fn turn(&mut self, p: usize, q: usize, c: f64, s: f64) {
        let (x, y) = (self.0[p], self.0[q]);
        for k in 0..8 {
            self.0[p][k] = c * x[k] - s * y[k];
            self.0[q][k] = s * x[k] + c * y[k];
        }
    }
}

/// Eigenvalues and eigenvectors (columns) of a symmetric matrix by cyclic Jacobi rotations, until the squared elements
/// beside the diagonal sum to less than `small` times those of the matrix.
fn eigen(symmetric: &Matrix6<f64>, small: f64) -> (Vector6<f64>, Matrix6<f64>) {
    let mut out = (Vector6::zeros(), Matrix6::zeros());
    let to = &mut out;
    dispatch!(level(), jacobi(symmetric: &Matrix6<f64>, small: f64, to: &mut (Vector6<f64>, Matrix6<f64>)));
    out
}

/// Plain arithmetic without a sum whose order could change: compiled for wider registers it gives the same bits.
#[inline(always)]
fn jacobi<S: Simd>(_: S, symmetric: &Matrix6<f64>, small: f64, to: &mut (Vector6<f64>, Matrix6<f64>)) {
    let (mut a, mut v) = (Columns::of(symmetric), Columns::of(&Matrix6::identity()));
    let scale: f64 = symmetric.iter().map(|x| x * x).sum();
    for _ in 0..SWEEPS {
        let mut off = 0.0;
        for p in 0..6 {
            for q in p + 1..6 {
                off += a.0[p][q] * a.0[p][q];
            }
        }
        if off <= small * scale {
            break;
        }
        round::<0>(&mut a, &mut v);
        round::<1>(&mut a, &mut v);
        round::<2>(&mut a, &mut v);
        round::<3>(&mut a, &mut v);
        round::<4>(&mut a, &mut v);
    }
    *to = (Vector6::from_fn(|i, _| a.0[i][i]), v.matrix());
}

/// The three rotations of a round, whose pairs are known when it is compiled.
#[inline(always)]
fn round<const R: usize>(a: &mut Columns, v: &mut Columns) {
    let pairs = ROUNDS[R];
    let (mut d, mut twice) = ([0.0; 4], [0.0; 4]);
    for (i, (p, q)) in pairs.into_iter().enumerate() {
        (d[i], twice[i]) = (a.0[q][q] - a.0[p][p], 2.0 * a.0[p][q]);
    }
    let (c, s) = rotations(&d, &twice);
    // For the rows: element i of a column becomes cos[i] x[i] + sin[i] x[other[i]].
    let (mut cos, mut sin, mut other) = ([1.0; 8], [0.0; 8], [0, 1, 2, 3, 4, 5, 6, 7]);
    for (i, (p, q)) in pairs.into_iter().enumerate() {
        ((cos[p], cos[q]), (sin[p], sin[q]), (other[p], other[q])) = ((c[i], c[i]), (-s[i], s[i]), (q, p));
    }
    for (p, q) in pairs {
        a.turn(p, q, cos[p], sin[q]);
        v.turn(p, q, cos[p], sin[q]);
    }
    for column in &mut a.0 {
        let x = *column;
        for k in 0..8 {
            column[k] = cos[k] * x[k] + sin[k] * x[other[k]];
        }
    }
}

/// Cosines and sines of the rotations that zero a[p, q] (Golub and Van Loan, section 8.5.2), from d = a[q, q] - a[p, p] and
/// `twice` = 2 a[p, q]: the tangent is twice / (d + sign(d) sqrt(d^2 + twice^2)). Four beside each other, without a branch.
#[inline(always)]
fn rotations(d: &[f64; 4], twice: &[f64; 4]) -> ([f64; 4], [f64; 4]) {
    let (mut cos, mut sin) = ([1.0; 4], [0.0; 4]);
    for i in 0..4 {
        let below = d[i].abs() + (d[i] * d[i] + twice[i] * twice[i]).sqrt();
        let length = (below * below + twice[i] * twice[i]).sqrt();
        // Nothing to turn, or nothing that a square can tell from it.
        let some = length > 0.0 && length < f64::INFINITY;
        let over = 1.0 / if some { length } else { 1.0 };
        cos[i] = if some { below * over } else { 1.0 };
        sin[i] = if some { twice[i].copysign(twice[i] * d[i]) * over } else { 0.0 };
    }
    (cos, sin)
}

/// A symmetric matrix from its upper triangle: `upper(i)` is the i-th value by rows. Real-time safe.
pub(crate) fn symmetric(upper: impl Fn(usize) -> f64) -> Matrix6<f64> {
    let mut m = Matrix6::zeros();
    let mut at = 0;
    for i in 0..6 {
        for j in i..6 {
            let value = upper(at);
            m[(i, j)] = value;
            m[(j, i)] = value;
            at += 1;
        }
    }
    m
}

/// The nearest positive semidefinite matrix (negative eigenvalues set to 0). Rotations are measured as
/// displacement at a lever of `length` m, so that N/m and N·m/rad compare. Real-time safe.
pub fn positive_part(symmetric: &Matrix6<f64>, length: f64) -> Matrix6<f64> {
    let unit = |i: usize| if i < 3 { 1.0 } else { 1.0 / length };
    let scaled = Matrix6::from_fn(|i, j| symmetric[(i, j)] * unit(i) * unit(j));
    let (values, vectors) = eigen(&scaled, NEARLY);
    // The side with fewer: what is positive is added up, or what is negative taken away.
    let negative = values.iter().filter(|e| **e < 0.0).count();
    let sign = if 2 * negative <= 6 { -1.0 } else { 1.0 };
    let mut out = if sign < 0.0 { *symmetric } else { Matrix6::zeros() };
    for (k, &value) in values.iter().enumerate().filter(|(_, e)| **e * sign > 0.0) {
        let v: [f64; 6] = std::array::from_fn(|i| vectors[(i, k)] / unit(i));
        for j in 0..6 {
            for i in 0..6 {
                out[(i, j)] += sign * value * (v[i] * v[j]);
            }
        }
    }
    out
}

/// A stiffness about the same point, expressed in the axes that `r` turns into. Real-time safe.
pub(crate) fn rotated(k: &Matrix6<f64>, r: &Rotation3<f64>) -> Matrix6<f64> {
    let r = r.matrix();
    let mut out = Matrix6::zeros();
    for (i, j) in [(0, 0), (0, 3), (3, 0), (3, 3)] {
        let block: Matrix3<f64> = k.fixed_view::<3, 3>(i, j).into_owned();
        out.fixed_view_mut::<3, 3>(i, j).copy_from(&(r * block * r.transpose()));
    }
    out
}

/// Largest felt stiffness relative to the limits: the largest eigenvalue of L K L with
/// L = diag(1/sqrt(k_max) x3, 1/sqrt(kr_max) x3). At most 1 means that no displacement (v, w) is answered with more
/// energy than k_max |v|^2 / 2 + kr_max |w|^2 / 2, levers between force and torque included.
///
/// `stiffness` is mapped to the device already (N/m, N, N·m/rad); `kr_max` is infinite for a device without torque.
/// NaN where `stiffness` holds a NaN. Real-time safe.
pub fn relative_stiffness(stiffness: &Matrix6<f64>, k_max: f64, kr_max: f64) -> f64 {
    let weight = |limit: f64| if limit > 0.0 { 1.0 / limit.sqrt() } else { 0.0 };
    let unit = |i: usize| if i < 3 { weight(k_max) } else { weight(kr_max) };
    let scaled = Matrix6::from_fn(|i, j| 0.5 * (stiffness[(i, j)] + stiffness[(j, i)]) * unit(i) * unit(j));
    if !scaled.iter().all(|x| x.is_finite()) {
        return f64::NAN;
    }
    eigen(&scaled, NEARLY).0.max()
}

/// The factor in 0..=1 by which wrench and stiffness must be multiplied so that the felt stiffness stays within
/// the profile's limits: `k_max` (N/m) for translation and `kr_max` (N·m/rad) for rotation, infinite where the
/// device has no torque. Continuous in `stiffness`; 0 for a stiffness that is not finite or a limit that is not
/// positive. Sum the stiffnesses of all contacts, mapped to the device, before asking. Real-time safe.
pub fn felt_stiffness_cap(stiffness: &Matrix6<f64>, k_max: f64, kr_max: f64) -> f64 {
    if !(k_max > 0.0 && kr_max > 0.0) {
        return 0.0;
    }
    let relative = relative_stiffness(stiffness, k_max, kr_max);
    if relative.is_nan() {
        0.0
    } else if relative > 1.0 {
        1.0 / relative
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::Vector3;

    /// Stiffness of a spring k along the unit normal n at lever r: k s s^T, s = (n, r x n).
    fn spring(k: f64, n: Vector3<f64>, r: Vector3<f64>) -> Matrix6<f64> {
        let m = r.cross(&n);
        let s = Vector6::new(n.x, n.y, n.z, m.x, m.y, m.z);
        s * s.transpose() * k
    }

    fn sample(seed: u32) -> Matrix6<f64> {
        let mut x = seed;
        let a = Matrix6::from_fn(|_, _| {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(x >> 8) / f64::from(1 << 24) - 0.5
        });
        a + a.transpose()
    }

    #[test]
    fn eigenvalues_agree_with_nalgebra() {
        for seed in 0..200 {
            let m = sample(seed);
            let (values, vectors) = eigen(&m, 1e-28);
            let mut ours: Vec<f64> = values.iter().copied().collect();
            let mut theirs: Vec<f64> = m.symmetric_eigenvalues().iter().copied().collect();
            ours.sort_by(f64::total_cmp);
            theirs.sort_by(f64::total_cmp);
            for (a, b) in ours.iter().zip(&theirs) {
                assert!((a - b).abs() < 1e-12, "{ours:?} {theirs:?}");
            }
            let back = vectors * Matrix6::from_diagonal(&values) * vectors.transpose();
            assert!((back - m).amax() < 1e-12);
        }
    }

    #[test]
    fn positive_part_keeps_what_is_positive_and_never_has_a_negative_eigenvalue() {
        let k = spring(1000.0, Vector3::z(), Vector3::new(0.02, 0.01, 0.0));
        assert!((positive_part(&k, 0.05) - k).amax() < 1e-9);
        for seed in 0..100 {
            let m = sample(seed);
            let p = positive_part(&m, 0.05);
            assert!(p.symmetric_eigenvalues().min() > -1e-9 * p.amax());
            assert!(((p - p.transpose()).amax()) < 1e-9 * p.amax());
        }
        assert_eq!(positive_part(&(-Matrix6::identity()), 0.1), Matrix6::zeros());
    }

    #[test]
    fn cap_is_exact_for_springs_and_continuous() {
        let no_torque = f64::INFINITY;
        let at_origin = |k| spring(k, Vector3::z(), Vector3::zeros());
        assert_eq!(felt_stiffness_cap(&at_origin(500.0), 1000.0, no_torque), 1.0);
        assert!((felt_stiffness_cap(&at_origin(4000.0), 1000.0, no_torque) - 0.25).abs() < 1e-12);
        // With a lever of 0.1 m the rotational stiffness is k 0.01 m^2.
        let lever = spring(1000.0, Vector3::z(), Vector3::new(0.1, 0.0, 0.0));
        let relative = relative_stiffness(&lever, 1e9, 2.0);
        assert!((relative - (1000.0 / 1e9 + 10.0 / 2.0)).abs() < 1e-9, "{relative}");
        let mut last = 1.0;
        for i in 0..2000 {
            let now = felt_stiffness_cap(&at_origin(f64::from(i)), 1000.0, no_torque);
            assert!(now <= last && last - now < 1.1e-3);
            last = now;
        }
    }

    #[test]
    fn nonsense_gives_no_force() {
        assert_eq!(felt_stiffness_cap(&(Matrix6::identity() * f64::NAN), 1e3, 1.0), 0.0);
        assert_eq!(felt_stiffness_cap(&(Matrix6::identity() * f64::INFINITY), 1e3, 1.0), 0.0);
        assert_eq!(felt_stiffness_cap(&Matrix6::identity(), 0.0, 1.0), 0.0);
        assert_eq!(felt_stiffness_cap(&Matrix6::identity(), f64::NAN, 1.0), 0.0);
        assert_eq!(felt_stiffness_cap(&Matrix6::zeros(), 1e3, 1.0), 1.0);
    }
}
