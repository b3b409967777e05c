//! Intersection of two balls (the lens): volume, derivative and centroid in closed form.
//!
//! With x the distance of the radical plane from centre 1, the lens is two caps of heights r1 - x and r2 - (d - x);
//! a cap of height h of a ball of radius r has volume pi h^2 (3r - h) / 3 and its centroid lies at
//! 3 (2r - h)^2 / (4 (3r - h)) from the ball's centre. The derivative of the volume with respect to the distance of
//! the centres is minus the area of the disc in the radical plane.

use std::f64::consts::PI;

/// Intersection of two balls. Real-time safe (`Copy`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lens {
    /// Volume, m^3.
    pub volume: f64,
    /// dV/dd: change of the volume with the distance of the centres, m^2; never positive.
    pub derivative: f64,
    /// Distance of the lens's centroid from centre 1 towards centre 2, m; negative is behind centre 1.
    pub centroid: f64,
}

impl Lens {
    /// No intersection.
    pub const NONE: Self = Self { volume: 0.0, derivative: 0.0, centroid: 0.0 };
}

/// The lens of balls of radii `r1`, `r2` (m, not negative) whose centres are `d` (m) apart. Real-time safe.
pub fn lens(r1: f64, r2: f64, d: f64) -> Lens {
    let reach = r1 + r2;
    if !(d < reach) {
        return Lens::NONE;
    }
    if d <= (r1 - r2).abs() {
        // One ball holds the other: the lens is the smaller ball.
        let r = r1.min(r2);
        let centroid = if r1 <= r2 { 0.0 } else { d };
        return Lens { volume: 4.0 / 3.0 * PI * r * r * r, derivative: 0.0, centroid };
    }
    // d exceeds |r1 - r2| >= 0 here, so the quotient is defined; it is bounded by r1 up to rounding.
    let x = (0.5 * (d + (r1 - r2) * reach / d)).clamp(-r1, r1);
    let disc = ((r1 - x) * (r1 + x)).max(0.0);
    let (v1, m1) = cap(r1, r1 - x);
    let (v2, m2) = cap(r2, (r2 - (d - x)).clamp(0.0, 2.0 * r2));
    let volume = v1 + v2;
    // Moments about centre 1: the caps' own plus the second cap's offset.
    let centroid = if volume > 0.0 { (m1 + d * v2 - m2) / volume } else { x };
    Lens { volume, derivative: -PI * disc, centroid }
}

/// Volume and first moment (volume times distance of the centroid from the ball's centre) of a cap of height `h`.
fn cap(r: f64, h: f64) -> (f64, f64) {
    let volume = PI / 3.0 * h * h * (3.0 * r - h);
    // pi h^2 (3r - h)/3 * 3 (2r - h)^2 / (4 (3r - h)): the factor 3r - h cancels.
    let moment = PI / 4.0 * (h * (2.0 * r - h)).powi(2);
    (volume, moment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Values from Monte Carlo and finite differences, checked outside this code.
    #[test]
    fn known_lenses() {
        for (r1, r2, d, v, dv, c) in [
            (1.0, 1.0, 1.0, 1.308_997, -2.356_194, 0.5),
            (1.0, 0.5, 1.2, 0.084_234, -0.525_726, 0.867_34),
            (0.8, 0.6, 0.3, 0.855_299, -0.815_941, 0.272_63),
        ] {
            let l = lens(r1, r2, d);
            assert!((l.volume - v).abs() < 1e-6, "{l:?}");
            assert!((l.derivative - dv).abs() < 1e-6, "{l:?}");
            assert!((l.centroid - c).abs() < 1e-5, "{l:?}");
        }
    }

    #[test]
    fn the_polynomial_form_agrees() {
        // V = pi (r1+r2-d)^2 (d^2 + 2d(r1+r2) - 3(r1-r2)^2) / (12 d), the other textbook form.
        for i in 1..200 {
            let (r1, r2) = (0.7, 0.4);
            let d = 0.3 + 0.8 * f64::from(i) / 200.0;
            let s = r1 + r2;
            let v = PI * (s - d).powi(2) * (d * d + 2.0 * d * s - 3.0 * (r1 - r2) * (r1 - r2)) / (12.0 * d);
            assert!((lens(r1, r2, d).volume - v).abs() < 1e-12, "at {d}");
        }
    }

    #[test]
    fn limits_are_clean() {
        assert_eq!(lens(1.0, 2.0, 3.0), Lens::NONE);
        assert_eq!(lens(1.0, 1.0, f64::NAN), Lens::NONE);
        let inside = lens(2.0, 0.5, 0.0);
        assert!(
            (inside.volume - PI / 6.0).abs() < 1e-12 && inside.derivative == 0.0 && inside.centroid == 0.0
        );
        assert_eq!(lens(0.0, 1.0, 0.5).volume, 0.0);
        // Grazing contact: no negative volume, no NaN, centroid between the centres.
        for k in 1..40 {
            let l = lens(1.0, 1.0, 2.0 - 0.5f64.powi(k));
            assert!(
                l.volume >= 0.0 && (0.0..=2.0).contains(&l.centroid) && l.derivative <= 0.0,
                "{k}: {l:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn derivative_matches_differences(r1 in 0.05..2.0f64, r2 in 0.05..2.0f64, t in 0.05..0.95f64) {
            let lo = (r1 - r2).abs();
            let d = lo + t * (r1 + r2 - lo);
            let e = 1e-6;
            let numeric = (lens(r1, r2, d + e).volume - lens(r1, r2, d - e).volume) / (2.0 * e);
            prop_assert!((lens(r1, r2, d).derivative - numeric).abs() < 1e-5);
        }

        #[test]
        fn symmetric_in_the_balls(r1 in 0.0..2.0f64, r2 in 0.0..2.0f64, d in 0.0..4.0f64) {
            let (a, b) = (lens(r1, r2, d), lens(r2, r1, d));
            prop_assert!((a.volume - b.volume).abs() <= 1e-12);
            if a.volume > 1e-9 {
                prop_assert!((a.centroid - (d - b.centroid)).abs() <= 1e-6);
            }
        }
    }
}
