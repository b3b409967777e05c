//! Contact patches: where a tool presses on an object, with how much, and how widely. Friction is asked of them.
//!
//! Everything that presses is sorted by the direction in which it does: six directions of the sampled body's frame (of the solid's,
//! for spheres), so that a pin that leans in its hole has a patch at either end, on opposite sides, and what presses does
//! not cancel. A body's points stay in their patch whatever the pose; what presses least has least weight, so patches come and go with
//! nothing.
//!
//! Of each point or cell: f what it presses with along the unit normal n, g the gradient of the depth, c = -n.g how squarely n
//! meets the surface. Side walls of what is sunk into a floor press too, but along it: c is nothing there, and so is their weight w = f c.
//! A patch's normal is the sum of -w g, what presses the part along it of the sum of f n: right for an edge of the tool on a face and
//! for a face of the tool on an edge. Never more than what the points of the patch press with.

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

mod lanes;

pub(super) use lanes::{Pressing, TOGETHER};

use crate::geometry::Vec3;
use nalgebra::{Matrix3, UnitQuaternion};

/// Patches of one contact, one for each direction; most of them empty.
pub const MAX_PATCHES: usize = 6;

/// Normals that add up to less than this part of what presses have no direction: the patch fades.
const SPREAD: f64 = 0.5;
/// Mean distance from the centre over the radius of gyration: of a uniform line, (1/2) / sqrt(1/3), and of a uniform disc,
/// (2/3) / sqrt(1/2). A square has 0.937, a ring 1; between, the root of how round it is meets rectangles to 1 %.
const LINE: f64 = 0.866_025_403_784_438_6;
const DISC: f64 = 0.942_809_041_582_063_4;
/// Of an even disc: its mean distance over Hoelder's bound, (2/3) / (2^(-3/2) 3^(1/2)).
const EVEN: f64 = 1.088_662_107_903_635_2;

/// Where a tool presses in one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Patch {
    /// What presses, elastic part, N; 0 where there is no patch.
    pub press: f64,
    /// Unit direction in which the object pushes the tool, scene axes.
    pub normal: Vec3,
    /// Centre of what presses, from the tool's origin, scene axes, m.
    pub centre: Vec3,
    /// How fast `press` grows with the depth, N/m.
    pub stiffness: f64,
    /// Radius of gyration of what presses, about the normal through the centre, m.
    pub gyration: f64,
    /// Its mean distance from the centre, m: what presses holds a twist up to the coefficient of friction times `press` times this.
    /// From second and fourth moments, exact for a uniform disc; a ring's is 6 % short, a point's with a faint rim 9 % long at worst.
    pub arm: f64,
}

impl Patch {
    /// Nothing presses.
    pub const NONE: Self = Self {
        press: 0.0,
        normal: Vec3::new(0.0, 0.0, 0.0),
        centre: Vec3::new(0.0, 0.0, 0.0),
        stiffness: 0.0,
        gyration: 0.0,
        arm: 0.0,
    };

    /// The same with everything that presses times `factor`. Real-time safe.
    pub(crate) fn scaled(self, factor: f64) -> Self {
        Self { press: self.press * factor, stiffness: self.stiffness * factor, ..self }
    }

    /// Of two answers to one question, `w` of the other one. Real-time safe.
    pub(super) fn mixed(&self, other: &Self, w: f64) -> Self {
        let (mine, its) = (self.scaled(1.0 - w), other.scaled(w));
        let press = mine.press + its.press;
        let Some(normal) = (mine.normal * mine.press + its.normal * its.press).try_normalize(0.0) else {
            return Self::NONE;
        };
        let part = its.press / press;
        let between = |a: f64, b: f64| a + (b - a) * part;
        Self {
            press,
            normal,
            centre: mine.centre + (its.centre - mine.centre) * part,
            stiffness: mine.stiffness + its.stiffness,
            gyration: between(mine.gyration, its.gyration),
            arm: between(mine.arm, its.arm),
        }
    }
}

/// Sums over what presses, by direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gather([Sums; MAX_PATCHES]);

#[derive(Clone, Copy, Debug)]
struct Sums {
    weight: f64,
    at: [f64; 3],
    /// xx, xy, xz, yy, yz, zz.
    moments: [f64; 6],
    /// Sum of w |x|^2 x, and of w |x|^4.
    third: [f64; 3],
    fourth: f64,
    /// Sum of -w g, and of f n.
    out: [f64; 3],
    push: [f64; 3],
    area: f64,
}

impl Gather {
    pub(super) const NONE: Self = Self(
        [Sums {
            weight: 0.0,
            at: [0.0; 3],
            moments: [0.0; 6],
            third: [0.0; 3],
            fourth: 0.0,
            out: [0.0; 3],
            push: [0.0; 3],
            area: 0.0,
        }; MAX_PATCHES],
    );

    /// The patches, turned into the scene's axes; forces and areas were in units of `force` N and `stiffness` N/m.
    pub(super) fn patches(
        &self,
        turn: &UnitQuaternion<f64>,
        force: f64,
        stiffness: f64,
    ) -> [Patch; MAX_PATCHES] {
        self.0.each_ref().map(|sums| sums.patch(turn, force, stiffness).unwrap_or(Patch::NONE))
    }
}

impl Sums {
    /// At least so far are things from the centre on the average, by Hoelder's inequality: E r >= (E r^2)^(3/2) / (E r^4)^(1/2); times
    /// [`EVEN`], with which it is that of an even disc.
    fn bound(&self, centre: &Vec3, gyration: f64) -> f64 {
        let [xx, xy, xz, yy, yz, zz] = self.moments.map(|v| v / self.weight);
        let second = Matrix3::new(xx, xy, xz, xy, yy, yz, xz, yz, zz);
        let third = Vec3::from(self.third) / self.weight;
        let c2 = centre.norm_squared();
        let fourth = self.fourth / self.weight - 4.0 * centre.dot(&third)
            + 4.0 * centre.dot(&(second * centre))
            + 2.0 * c2 * second.trace()
            - 3.0 * c2 * c2;
        // Never less than the square of the mean square: what is below is rounding.
        EVEN * gyration.powi(3) / fourth.max(gyration.powi(4)).sqrt().max(f64::MIN_POSITIVE)
    }

    fn patch(&self, turn: &UnitQuaternion<f64>, force: f64, stiffness: f64) -> Option<Patch> {
        let out = Vec3::from(self.out);
        let normal = out.try_normalize(f64::MIN_POSITIVE)?;
        let together = (out.norm() / (SPREAD * self.weight)).min(1.0);
        let press = (normal.dot(&Vec3::from(self.push)) * together).max(0.0);
        let centre = Vec3::from(self.at) / self.weight;
        let [xx, xy, xz, yy, yz, zz] = self.moments;
        let about =
            Matrix3::new(xx, xy, xz, xy, yy, yz, xz, yz, zz) / self.weight - centre * centre.transpose();
        let (gyration, arm) = spread(&about, &normal);
        let arm = arm.min(self.bound(&centre, gyration));
        let patch = Patch {
            press: press * force,
            normal: turn * normal,
            centre: turn * centre,
            stiffness: self.area * stiffness,
            gyration,
            arm,
        };
        let sound = patch.press > 0.0 && patch.press.is_finite() && patch.stiffness.is_finite();
        (sound && patch.centre.iter().chain(&[gyration, arm]).all(|v| v.is_finite())).then_some(patch)
    }
}

/// Radius of gyration and mean distance of what has these second moments about its centre, in the plane across `normal`.
fn spread(about: &Matrix3<f64>, normal: &Vec3) -> (f64, f64) {
    let flat = Matrix3::identity() - normal * normal.transpose();
    let m = flat * about * flat;
    // Of the two eigenvalues in the plane the sum is the trace, and their product half of what the trace's square has more.
    let sum = m.trace().max(0.0);
    let product = 0.5 * (sum * sum - m.norm_squared());
    let apart = (sum * sum - 4.0 * product).max(0.0).sqrt();
    let round = if sum > 0.0 { (1.0 - apart / sum).clamp(0.0, 1.0) } else { 0.0 };
    let gyration = sum.sqrt();
    (gyration, gyration * (LINE + (DISC - LINE) * round.sqrt()))
}

#[cfg(test)]
mod tests;
