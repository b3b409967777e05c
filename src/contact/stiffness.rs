//! 6x6 stiffness: its positive part, and the cap on what the hand may feel.
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

use nalgebra::{Matrix3, Matrix6, Rotation3, Vector6};

/// Sweeps of cyclic Jacobi; a 6x6 matrix converges to f64 precision in five or six.
const SWEEPS: usize = 10;

/// All pairs of six indices, in five rounds of three that share none: such rotations do not touch each other's elements,
/// so that the CPU works on three at a time (Golub and Van Loan, Matrix Computations, section 8.5.7).
const ROUNDS: [[(usize, usize); 3]; 5] = [
    [(0, 1), (2, 3), (4, 5)],
    [(0, 2), (1, 4), (3, 5)],
    [(0, 3), (1, 5), (2, 4)],
    [(0, 4), (1, 3), (2, 5)],
    [(0, 5), (1, 2), (3, 4)],
];

/// Eigenvalues and eigenvectors (columns) of a symmetric matrix by cyclic Jacobi rotations, until the squared elements
/// beside the diagonal sum to less than `small` times those of the matrix.
fn eigen(symmetric: &Matrix6<f64>, small: f64) -> (Vector6<f64>, Matrix6<f64>) {
    let mut a = *symmetric;
    let mut v = Matrix6::identity();
    let scale: f64 = a.iter().map(|x| x * x).sum();
    for _ in 0..SWEEPS {
        let mut off = 0.0;
        for p in 0..6 {
            for q in p + 1..6 {
                off += a[(p, q)] * a[(p, q)];
            }
        }
        if off <= small * scale {
            break;
        }
        for pairs in ROUNDS {
            let turn = pairs.map(|(p, q)| rotation(&a, p, q));
            for ((p, q), (c, s)) in pairs.into_iter().zip(turn) {
                columns(&mut a, p, q, c, s);
                columns(&mut v, p, q, c, s);
            }
            for ((p, q), (c, s)) in pairs.into_iter().zip(turn) {
                for k in 0..6 {
                    let (x, y) = (a[(p, k)], a[(q, k)]);
                    a[(p, k)] = c * x - s * y;
                    a[(q, k)] = s * x + c * y;
                }
            }
        }
    }
    (a.diagonal(), v)
}

/// Cosine and sine of the rotation that zeroes a[p, q] (Golub and Van Loan, section 8.5.2).
#[inline(always)]
fn rotation(a: &Matrix6<f64>, p: usize, q: usize) -> (f64, f64) {
    let apq = a[(p, q)];
    if apq == 0.0 {
        return (1.0, 0.0);
    }
    // A square that overflows gives t = 0: nothing to turn.
    let tau = (a[(q, q)] - a[(p, p)]) / (2.0 * apq);
    let t = tau.signum() / (tau.abs() + (tau * tau + 1.0).sqrt());
    let c = 1.0 / (t * t + 1.0).sqrt();
    (c, t * c)
}

#[inline(always)]
fn columns(m: &mut Matrix6<f64>, p: usize, q: usize, c: f64, s: f64) {
    for k in 0..6 {
        let (x, y) = (m[(k, p)], m[(k, q)]);
        m[(k, p)] = c * x - s * y;
        m[(k, q)] = s * x + c * y;
    }
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
    let (values, vectors) = eigen(&scaled, 1e-24);
    if values.iter().all(|&e| e >= 0.0) {
        return *symmetric;
    }
    Matrix6::from_fn(|i, j| {
        let sum: f64 = (0..6).map(|k| values[k].max(0.0) * vectors[(i, k)] * vectors[(j, k)]).sum();
        sum / (unit(i) * unit(j))
    })
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
    eigen(&scaled, 1e-20).0.max()
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
