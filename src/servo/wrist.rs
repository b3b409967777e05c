//! A wrist that is sensed by noisy potentiometers and not driven, held still where it is still.
//!
//! What touches beside the tool point moves with the wrist's angles, and their noise would be felt, through stiffness and damping. The
//! orientation q follows the reading by a part of the way e between them that grows with it:
//!
//! q ← q + e |e|²/(|e|² + s²),  s = [`STEADY`] σ,  σ = hypot(noise, step/√12) an angle.
//!
//! At rest |e|² is about 3σ², and a twelfth of the way is gone: the noise is less than a third of the sensors'. A turn of ω is followed with the lag
//! that solves e³ = ω dt (e² + s²), less than (ω dt s²)^⅓ + ω dt (3.9 mrad at 1 rad/s for an Omni); a leap of 10 s is followed to 1 % at
//! once. A linear low pass with that noise would lag by 6.5 dt ω: 6.5 mrad at 1 rad/s, and 65 at ten. No motor turns these angles, so that no
//! loop is slower for it. Real-time safe.

#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used
    )
)]

use crate::device::profile::Profile;
use nalgebra::UnitQuaternion;

/// In terms of the noise of an angle, the distance that is gone by half in a sample.
const STEADY: f64 = 6.0;

/// Orientation of an undriven wrist.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wrist {
    /// s², rad²; zero where the orientation is taken as it comes.
    steady2: f64,
    last: Option<UnitQuaternion<f64>>,
}

impl Wrist {
    pub(super) fn new(profile: &Profile) -> Self {
        let noise = match &profile.gimbal {
            Some(g) if !profile.drives_rotation() => g.noise.hypot(g.resolution / 12f64.sqrt()),
            _ => 0.0,
        };
        Self { steady2: (STEADY * noise).powi(2), last: None }
    }

    /// The next reading is taken as it comes.
    pub(super) fn reset(&mut self) {
        self.last = None;
    }

    /// Takes a reading.
    pub(super) fn follow(&mut self, read: UnitQuaternion<f64>) -> UnitQuaternion<f64> {
        let followed = match self.last {
            Some(last) if self.steady2 > 0.0 => {
                let way = (read * last.inverse()).scaled_axis();
                let far2 = way.norm_squared();
                UnitQuaternion::from_scaled_axis(way * (far2 / (far2 + self.steady2))) * last
            }
            _ => read,
        };
        self.last = Some(followed);
        followed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::registry::Registry;
    use crate::geometry::Vec3;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    fn omni() -> (Wrist, f64) {
        let profile = Registry::builtin().profile("phantom-omni").expect("shipped");
        let g = profile.gimbal.expect("a wrist");
        (Wrist::new(&profile), g.noise.hypot(g.resolution / 12f64.sqrt()))
    }

    fn turned(v: Vec3) -> UnitQuaternion<f64> {
        UnitQuaternion::from_scaled_axis(v)
    }

    #[test]
    fn at_rest_it_has_less_than_a_third_of_the_noise_and_no_bias() {
        let (mut wrist, sigma) = omni();
        let mut rng = Pcg64Mcg::seed_from_u64(7);
        let n = 100_000;
        let (mut sum, mut squares, mut steps) = (Vec3::zeros(), 0.0, 0.0);
        let mut last = Vec3::zeros();
        for k in 0..n + 1000 {
            // Twelve equal ones are as good as a Gaussian's here.
            let mut noise = || sigma * ((0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0);
            let at = wrist.follow(turned(Vec3::new(noise(), noise(), noise()))).scaled_axis();
            if k >= 1000 {
                sum += at;
                squares += at.norm_squared();
                steps += (at - last).norm_squared();
            }
            last = at;
        }
        let (of, rms) = (f64::from(n), (squares / (3.0 * f64::from(n))).sqrt());
        assert!((sum / of).norm() < 0.02 * sigma, "{:?}", sum / of);
        assert!(rms < sigma / 3.0, "{} of the noise", rms / sigma);
        // From reading to reading the sensors' own differ by the square root of 2.
        assert!((steps / (3.0 * of)).sqrt() < 0.2 * sigma, "{}", (steps / (3.0 * of)).sqrt() / sigma);
    }

    #[test]
    fn turns_are_followed_as_closely_as_said() {
        let dt = 1e-3;
        for rate in [0.01, 0.1, 1.0, 10.0] {
            let (mut wrist, sigma) = omni();
            let s2 = (STEADY * sigma).powi(2);
            let mut lag = 0.0;
            for k in 0..3000 {
                let read = turned(Vec3::new(0.0, rate * dt * f64::from(k), 0.0));
                // Before it has followed: what was left of the way, and the new part.
                let before = wrist.last.map_or(0.0, |last| last.angle_to(&read));
                wrist.follow(read);
                lag = before;
            }
            // The root of e³ = ω dt (e² + s²), by halving.
            let (mut low, mut high) = (0.0, 1.0);
            for _ in 0..60 {
                let e: f64 = 0.5 * (low + high);
                if e.powi(3) < rate * dt * (e * e + s2) { low = e } else { high = e }
            }
            assert!((lag - low).abs() < 1e-3 * low, "{rate}: {lag} for {low}");
            assert!(lag <= (rate * dt * s2).cbrt() + rate * dt, "{rate}: {lag}");
        }
    }

    #[test]
    fn leaps_are_followed_at_once_and_never_overshot() {
        for far in [1e-3, 0.01, 0.065, 0.5, 3.0] {
            let (mut wrist, _) = omni();
            wrist.follow(UnitQuaternion::identity());
            let to = turned(Vec3::new(far, 0.0, 0.0));
            let mut left = far;
            for k in 0..200 {
                let now = wrist.follow(to).angle_to(&to);
                assert!(now <= left, "{far}: {left} to {now}");
                assert!(k > 0 || far < 0.065 || now <= 0.0101 * far, "{far}: {now} left");
                left = now;
            }
        }
    }

    #[test]
    fn what_is_driven_or_has_no_wrist_is_taken_as_it_comes() {
        for profile in Registry::builtin().profiles() {
            let mut wrist = Wrist::new(profile);
            if profile.gimbal.is_some() {
                continue;
            }
            for k in 0..10 {
                let read = turned(Vec3::new(1e-4 * f64::from(k % 3), 0.2, -0.1));
                assert_eq!(wrist.follow(read), read, "{}", profile.name);
            }
        }
    }

    #[test]
    fn after_a_reset_a_reading_is_taken_as_it_comes() {
        let (mut wrist, _) = omni();
        wrist.follow(UnitQuaternion::identity());
        wrist.reset();
        let read = turned(Vec3::new(1e-3, 0.0, 0.0));
        assert_eq!(wrist.follow(read), read);
    }
}
