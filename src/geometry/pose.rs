//! Rigid poses, twists and wrenches.

use nalgebra::{Isometry3, Point3, Vector3};

/// A free vector in R^3; the unit is said where it is used.
pub type Vec3 = Vector3<f64>;
/// A position, m.
pub type Point = Point3<f64>;
/// A rigid transform: `x_parent = R x_child + p`, m.
pub type Pose = Isometry3<f64>;

/// Velocity of a rigid body: linear velocity of its reference point (m/s) and angular velocity (rad/s),
/// both expressed in the axes of the frame in which they are given. Real-time safe (`Copy`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Twist {
    /// Velocity of the reference point, m/s.
    pub linear: Vec3,
    /// Angular velocity, rad/s.
    pub angular: Vec3,
}

/// Force (N) and torque (N·m) about the body's reference point. Real-time safe (`Copy`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wrench {
    /// Force, N.
    pub force: Vec3,
    /// Torque about the reference point, N·m.
    pub torque: Vec3,
}

impl Twist {
    /// No motion.
    pub const ZERO: Self = Self { linear: Vec3::new(0.0, 0.0, 0.0), angular: Vec3::new(0.0, 0.0, 0.0) };

    /// Velocity of a point at `lever` (m) from the reference point: v + w x r, m/s.
    #[inline]
    pub fn at(&self, lever: &Vec3) -> Vec3 {
        self.linear + self.angular.cross(lever)
    }

    /// True when all six components are finite.
    #[inline]
    pub fn is_finite(&self) -> bool {
        finite(&self.linear) && finite(&self.angular)
    }
}

impl Wrench {
    /// No force.
    pub const ZERO: Self = Self { force: Vec3::new(0.0, 0.0, 0.0), torque: Vec3::new(0.0, 0.0, 0.0) };

    /// Wrench of a force applied at `lever` (m) from the reference point.
    #[inline]
    pub fn from_force_at(force: Vec3, lever: &Vec3) -> Self {
        Self { force, torque: lever.cross(&force) }
    }

    /// What the other body gets, about a point from which this wrench's own lies `arm` (m) away.
    #[inline]
    pub fn reaction(&self, arm: &Vec3) -> Self {
        -Self { force: self.force, torque: self.torque + arm.cross(&self.force) }
    }

    /// True when all six components are finite.
    #[inline]
    pub fn is_finite(&self) -> bool {
        finite(&self.force) && finite(&self.torque)
    }

    /// The wrench multiplied by a common factor, which keeps its direction.
    #[inline]
    pub fn scaled(&self, k: f64) -> Self {
        Self { force: self.force * k, torque: self.torque * k }
    }
}

impl std::ops::Add for Wrench {
    type Output = Self;
    #[inline]
    fn add(self, o: Self) -> Self {
        Self { force: self.force + o.force, torque: self.torque + o.torque }
    }
}

impl std::ops::AddAssign for Wrench {
    #[inline]
    fn add_assign(&mut self, o: Self) {
        *self = *self + o;
    }
}

impl std::ops::Neg for Wrench {
    type Output = Self;
    #[inline]
    fn neg(self) -> Self {
        Self { force: -self.force, torque: -self.torque }
    }
}

/// True when the three components are finite.
#[inline]
pub fn finite(v: &Vec3) -> bool {
    v.x.is_finite() && v.y.is_finite() && v.z.is_finite()
}

/// True when rotation and translation are finite.
#[inline]
pub fn pose_is_finite(p: &Pose) -> bool {
    finite(&p.translation.vector) && p.rotation.coords.iter().all(|c| c.is_finite())
}
