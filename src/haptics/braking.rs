//! Pre-contact braking: in a thin layer before a surface the tool is braked as it comes nearer, so that it arrives slower and sinks
//! in less before the first tick that feels the contact (McNeely, Puterbaugh and Troy, SIGGRAPH 1999: a force -b (v.n) n while v.n
//! is negative, at points near the surface).
//!
//! Here one damper a tick, at the tool's origin along the normal of the nearest place: `F = -D v` with the motion v of the tool against
//! what it comes near to, and D = b (1 - |gap|/range) n n^T while it approaches, 0 else. D follows that within a millisecond, so that
//! the force jumps neither where the nearest place changes nor where the tool turns back. D is positive semidefinite at any time: it only
//! takes energy, whatever the nearest place is said to be. Nor does it hold back: what goes away is let go at once, for D's part along
//! the normal is then left out.
//!
//! Real-time safe, pure.

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

use super::effects::Push;
use crate::contact::near::Near;
use crate::geometry::Vec3;
use crate::geometry::pose::finite;
use nalgebra::Matrix3;

/// Time within which the damper follows, s: at 1 m/s a layer of 3 mm is crossed in three of it.
const SMOOTH: f64 = 1e-3;
/// Part of the device's damping that brakes: the rest is the contact's.
pub const PART: f64 = 0.5;
/// Sine of the angle to the surface from which on what comes nearer is braked in full: what grazes is let go smoothly.
const TURN: f64 = 0.1;
/// A damper of less is none, in parts of the whole.
const LEAST: f64 = 1e-3;

/// How hard is braked, and where.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Braking {
    /// Thickness of the layer, on both sides of the surface, m; 0: none.
    pub range: f64,
    /// Damping at the surface, N·s/m.
    pub damping: f64,
}

/// The damper as it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Brake {
    damping: Matrix3<f64>,
}

impl Default for Brake {
    fn default() -> Self {
        Self { damping: Matrix3::zeros() }
    }
}

impl Brake {
    /// What brakes a tool whose origin moves by `relative` m/s (scene axes) against what is nearest, `dt` s after the last tick. Nothing
    /// for numbers that cannot be read.
    pub fn step(&mut self, braking: &Braking, near: Option<&Near>, relative: &Vec3, dt: f64) -> Push {
        if !(finite(relative) && braking.range > 0.0 && braking.damping > 0.0) {
            *self = Self::default();
            return Push::NONE;
        }
        let layer = |near: &&Near| {
            let part = 1.0 - near.gap.abs() / braking.range;
            (part > 0.0 && relative.dot(&near.normal) < 0.0).then_some((part, near.normal))
        };
        let wanted = match near.as_ref().and_then(layer) {
            Some((part, n)) if finite(&n) => n * n.transpose() * (part * braking.damping),
            _ => Matrix3::zeros(),
        };
        self.damping += (wanted - self.damping) * (dt / (dt + SMOOTH));
        if self.damping.trace() < LEAST * braking.damping {
            self.damping = Matrix3::zeros();
            return Push::NONE;
        }
        // What is left of the damper holds nothing back that goes away again: seen through Q it stays a damper, so it only takes.
        let damping = match near.map(|n| n.normal).filter(finite) {
            Some(n) => {
                let leaves = relative.dot(&n) / relative.norm().max(f64::MIN_POSITIVE);
                let q = Matrix3::identity() - n * n.transpose() * (1.0 + leaves / TURN).clamp(0.0, 1.0);
                q * self.damping * q
            }
            None => self.damping,
        };
        Push { force: -(damping * relative), damping, ..Push::NONE }
    }

    /// Nobody holds the force. Real-time safe.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BRAKING: Braking = Braking { range: 3e-3, damping: 10.0 };
    const DT: f64 = 1e-3;

    fn up(gap: f64) -> Near {
        Near { normal: Vec3::y(), gap, at: Vec3::zeros() }
    }

    /// After so many ticks in which nothing changes.
    fn settled(near: &Near, v: &Vec3) -> Push {
        let mut brake = Brake::default();
        (0..50).fold(Push::NONE, |_, _| brake.step(&BRAKING, Some(near), v, DT))
    }

    #[test]
    fn it_brakes_what_comes_nearer_and_nothing_else() {
        let down = Vec3::new(0.3, -0.2, 0.0);
        // Half of the layer away: half of 10 N s/m at 0.2 m/s.
        let push = settled(&up(1.5e-3), &down);
        assert!((push.force - Vec3::new(0.0, 1.0, 0.0)).norm() < 1e-9, "{:?}", push.force);
        assert!((push.damping[(1, 1)] - 5.0).abs() < 1e-9 && (push.damping.trace() - 5.0).abs() < 1e-9);
        // As deep inside as well, nothing beyond.
        assert!((settled(&up(-1.5e-3), &down).force.y - 1.0).abs() < 1e-9);
        for (gap, v) in [(3.1e-3, down), (-4e-3, down), (1e-3, -down), (1e-3, Vec3::x())] {
            assert_eq!(settled(&up(gap), &v), Push::NONE, "{gap} {v:?}");
        }
        let off = Braking { range: 0.0, ..BRAKING };
        assert_eq!(Brake::default().step(&off, Some(&up(0.0)), &down, DT), Push::NONE);
    }

    #[test]
    fn turning_back_it_lets_go_within_some_ticks_without_a_jump() {
        let mut brake = Brake::default();
        let v = |k: i32| Vec3::y() * -(0.2 * (f64::from(k) * 0.01).cos());
        let mut last = 0.0f64;
        for k in 0..400 {
            let push = brake.step(&BRAKING, Some(&up(0.0)), &v(k), DT);
            // 2 N come within some milliseconds, as slowly as the layer lets it in; nothing jumps where it turns.
            assert!(k < 20 || (push.force.y - last).abs() < 0.05, "{k}: {last} {}", push.force.y);
            assert!(push.force.y >= 0.0, "{k}: it pulls, {}", push.force.y);
            last = push.force.y;
        }
        assert_eq!(settled(&up(0.0), &Vec3::y()), Push::NONE);
    }

    #[test]
    fn what_cannot_be_read_does_not_brake() {
        for (n, gap, v) in [
            (Vec3::repeat(f64::NAN), 0.0, -Vec3::y()),
            (Vec3::y(), f64::NAN, -Vec3::y()),
            (Vec3::y(), 0.0, Vec3::repeat(f64::INFINITY)),
        ] {
            assert_eq!(settled(&Near { normal: n, gap, at: n }, &v), Push::NONE);
        }
        let mut brake = Brake::default();
        brake.step(&BRAKING, Some(&up(0.0)), &-Vec3::y(), DT);
        brake.reset();
        assert_eq!(brake, Brake::default());
    }

    proptest! {
        /// Whatever is said to be near, the brake only takes energy, and is never stronger than it may be.
        #[test]
        fn it_takes_and_never_gives(
            steps in prop::collection::vec((prop::array::uniform3(-1.0..1.0f64), -5e-3..5e-3f64,
                prop::array::uniform3(-1.0..1.0f64)), 1..60)
        ) {
            let mut brake = Brake::default();
            for (n, gap, v) in steps {
                let (n, v) = (Vec3::from(n), Vec3::from(v));
                let near = n.try_normalize(1e-3).map(|normal| Near { normal, gap, at: normal });
                let push = brake.step(&BRAKING, near.as_ref(), &v, DT);
                prop_assert!(push.force.dot(&v) <= 1e-12, "{:?} {v:?}", push.force);
                let most = push.damping.symmetric_eigen().eigenvalues;
                prop_assert!(most.max() <= BRAKING.damping * (1.0 + 1e-9) && most.min() >= -1e-9);
            }
        }
    }
}
