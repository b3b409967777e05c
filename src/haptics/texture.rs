//! Texture: pits in a surface that are felt and not seen, as a height along the surface that is added to the depth.
//!
//! A spring of depth d and height h (never above the surface) holds the energy K (d + h)^2 / 2, so its force is K (d + h) along the
//! normal less K (d + h) times the slope along the surface: conservative as long as the whole relief is felt, never more than the
//! smooth surface gives across, and nothing at first touch. A press so deep that its bend would stiffen the surface along itself more
//! than across feels a part of it ([`Relief::within`]). Waves that pass faster than a quarter of the tick rate fade away before they alias (Choi and Tan, 2004, on what
//! sampled texture does otherwise). Real-time safe, pure.

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

use crate::contact::{Texture, sound};
use crate::geometry::{Point, Vec3};
use std::f64::consts::TAU;

/// The surface at a place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Relief {
    /// Height, m: 0 at most.
    pub height: f64,
    /// Its gradient, object's frame.
    pub slope: Vec3,
    /// Largest second derivative anywhere, 1/m.
    pub bend: f64,
}

impl Relief {
    /// The part of it whose bend a spring pressed `depth` m in feels as no more than itself. Real-time safe.
    pub fn within(self, depth: f64) -> Self {
        let part = (1.0 / (depth * self.bend).max(1.0)).min(1.0);
        Self { height: self.height * part, slope: self.slope * part, bend: self.bend * part }
    }
}

/// The relief at `p` (object's frame, m), stroked with `speed` (m/s) in ticks of `dt` s. `None` where it is smooth. Real-time safe.
pub fn relief(texture: &Texture, p: &Point, speed: f64, dt: f64) -> Option<Relief> {
    let (height, wavelength) = (sound(texture.height), sound(texture.wavelength));
    if height <= 0.0 || wavelength <= 0.0 {
        return None;
    }
    // All of it up to an eighth of the tick rate, nothing from a quarter on.
    let part = (2.0 - 8.0 * dt * speed / wavelength).clamp(0.0, 1.0);
    let (k, half) = (TAU / wavelength, 0.5 * height * part);
    let waves = p.coords.map(|x| (k * x).sin()).sum() / 3.0;
    let slope = p.coords.map(|x| (k * x).cos()) * (half * k / 3.0);
    let relief = Relief { height: half * (waves - 1.0), slope, bend: half * k * k / 3.0 };
    (part > 0.0 && relief.height.is_finite() && relief.slope.norm().is_finite()).then_some(relief)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GRAIN: Texture = Texture { height: 2e-4, wavelength: 2e-3 };

    /// A deep press feels less of it, never a softer wall.
    #[test]
    fn the_bend_that_is_felt_is_never_more_than_the_press() {
        let whole = relief(&GRAIN, &Point::new(3e-4, 0.0, 1e-4), 0.0, 1e-3).unwrap();
        assert_eq!(whole.within(1e-3), whole);
        for depth in [0.005, 0.02, 1.0] {
            let part = whole.within(depth);
            assert!((part.bend * depth - 1.0).abs() < 1e-12 && part.height > whole.height, "{part:?}");
        }
    }

    #[test]
    fn waves_have_their_height_and_fade_before_they_alias() {
        // A quarter of a wave along all axes: at the top; three quarters: at the bottom.
        let at = |x: f64, speed: f64| relief(&GRAIN, &Point::new(x, x, x), speed, 1e-3);
        assert!(at(5e-4, 0.0).unwrap().height.abs() < 1e-15);
        assert!((at(1.5e-3, 0.0).unwrap().height + 2e-4).abs() < 1e-15);
        // 125 waves a second are felt whole, 250 not at all.
        assert_eq!(at(1.5e-3, 0.25).unwrap().height, at(1.5e-3, 0.0).unwrap().height);
        assert!((at(1.5e-3, 0.375).unwrap().height + 1e-4).abs() < 1e-15);
        assert_eq!(at(1.5e-3, 0.5), None);
        assert_eq!(relief(&Texture::NONE, &Point::origin(), 0.0, 1e-3), None);
        for bad in [f64::NAN, f64::INFINITY, -1.0] {
            assert_eq!(relief(&Texture { height: bad, ..GRAIN }, &Point::origin(), 0.0, 1e-3), None);
            assert_eq!(relief(&Texture { wavelength: bad, ..GRAIN }, &Point::origin(), 0.0, 1e-3), None);
            let lost = Point::new(bad, bad, bad);
            assert_eq!(relief(&GRAIN, &lost, 0.0, 1e-3).is_some(), bad == -1.0);
        }
    }

    proptest! {
        #[test]
        fn the_slope_is_the_height_s(p in prop::array::uniform3(-0.05..0.05f64)) {
            let p = Point::from(p);
            let r = relief(&GRAIN, &p, 0.0, 1e-3).unwrap();
            prop_assert!(r.height <= 1e-18 && r.height >= -GRAIN.height * (1.0 + 1e-12));
            let h = 1e-8;
            for axis in 0..3 {
                let mut q = p;
                q[axis] += h;
                let s = relief(&GRAIN, &q, 0.0, 1e-3).unwrap();
                prop_assert!(((s.height - r.height) / h - r.slope[axis]).abs() < 1e-5);
                prop_assert!(((s.slope - r.slope)[axis] / h).abs() <= r.bend * (1.0 + 1e-6));
            }
        }
    }
}
