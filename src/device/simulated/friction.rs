//! Dry friction at three joints: Karnopp's stick band, solved exactly.
//!
//! One step of the rigid bodies reads `A w = b - p`, where p are the friction impulses. Each joint sticks (w = 0 and
//! |p| <= bound) or slides (p = limit x sign(w)). This is a linear complementarity problem in three unknowns: the
//! modes of the last step are tried first, then all others, so the answer does not depend on an iteration's
//! tolerance and a stuck joint does not creep.
//!
//! Karnopp, "Computer Simulation of Stick-Slip Friction in Mechanical Dynamic Systems", ASME J. Dyn. Syst. 107 (1985).

use crate::geometry::pose::Vec3;
use nalgebra::Matrix3;

/// What each joint does: 0 sticks, +1 or -1 slides that way.
pub(super) type Modes = [i8; 3];

/// Impulses that friction can give in one step, N·m·s.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Largest while stuck.
    pub stick: [f64; 3],
    /// While sliding.
    pub slide: [f64; 3],
}

/// Joint speeds after the step; `modes` is the start of the search and comes back as found. `a` is symmetric and
/// positive definite. Real-time safe.
pub(super) fn solve(a: &Matrix3<f64>, b: &Vec3, bounds: &Bounds, modes: &mut Modes) -> Vec3 {
    if let Some(w) = attempt(a, b, bounds, modes) {
        return w;
    }
    for code in 0..27 {
        let candidate = [digit(code), digit(code / 3), digit(code / 9)];
        if let Some(w) = attempt(a, b, bounds, &candidate) {
            *modes = candidate;
            return w;
        }
    }
    // A positive definite system always has an answer; rounding on a tie may hide it. Then nothing moves for one step.
    *modes = [0; 3];
    Vec3::zeros()
}

fn digit(code: i32) -> i8 {
    [0, 1, -1][(code % 3) as usize]
}

fn attempt(a: &Matrix3<f64>, b: &Vec3, bounds: &Bounds, modes: &Modes) -> Option<Vec3> {
    let mut m = *a;
    let mut r = *b;
    for i in 0..3 {
        if modes[i] == 0 {
            // w_i = 0: drop the joint from the system.
            for j in 0..3 {
                m[(i, j)] = 0.0;
                m[(j, i)] = 0.0;
            }
            m[(i, i)] = 1.0;
            r[i] = 0.0;
        } else {
            r[i] -= bounds.slide[i] * f64::from(modes[i]);
        }
    }
    let mut w = m.try_inverse()? * r;
    for i in 0..3 {
        if modes[i] == 0 {
            w[i] = 0.0;
        } else if w[i] * f64::from(modes[i]) <= 0.0 {
            return None;
        }
    }
    let p = b - a * w;
    for i in 0..3 {
        if modes[i] == 0 && p[i].abs() > bounds.stick[i] {
            return None;
        }
    }
    Some(w)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the system, the answer obeys Coulomb's law: sticking joints within the bound, sliding ones with
        /// the limit against their motion.
        #[test]
        fn coulombs_law_holds(m in prop::array::uniform9(-1.0..1.0f64), b in prop::array::uniform3(-2.0..2.0f64),
                              limit in prop::array::uniform3(0.01..1.0f64)) {
            let l = Matrix3::from_row_slice(&m);
            let a = l * l.transpose() + Matrix3::identity() * 0.1;
            let b = Vec3::from(b);
            let bounds = Bounds { stick: limit, slide: limit };
            let mut modes = [0; 3];
            let w = solve(&a, &b, &bounds, &mut modes);
            let p = b - a * w;
            for i in 0..3 {
                prop_assert!(p[i].abs() <= limit[i] * (1.0 + 1e-9));
                if w[i] != 0.0 {
                    prop_assert!((p[i] - limit[i] * w[i].signum()).abs() < 1e-9);
                }
            }
        }
    }
}
