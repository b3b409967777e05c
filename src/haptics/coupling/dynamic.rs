//! Coupling through a virtual tool with a mass of its own: the contact acts on the virtual tool, a spring and damper in six
//! degrees of freedom tie it to the device, and the device feels the spring alone. So the felt stiffness never exceeds the
//! spring's, however stiff the contact: k_c K/(k_c + K) at rest (Colgate, Stanley and Brown, "Issues in the haptic
//! display of tool use", IROS 1995; six degrees of freedom: McNeely, Puterbaugh and Troy, SIGGRAPH 1999).
//!
//! The virtual tool is integrated implicitly with the linearised contact and spring (Baraff and Witkin, SIGGRAPH 1998, equation
//! 6; for haptics Otaduy and Lin, World Haptics 2005):
//!
//! ```text
//! (M + T D + T^2 K) dv = T (F - T K v + T K_c u),   x += T (v + dv)
//! ```
//!
//! with u the motion of what is touched, K_c the contact's stiffness, K and D the sums of both stiffnesses and dampings, both positive semidefinite: stable for any contact, and it
//! takes energy out. Without mass (M = 0) the step no longer depends on the tool's motion: it is a damped Newton step to where spring,
//! damper and contact are in balance, the quasi-static coupling (Wan and McNeely, "Quasi-static approximation for 6
//! degrees-of-freedom haptic rendering", IEEE Visualization 2003). What the device feels is the contact's wrench at that place, as linearised,
//! and nothing at all in the free. Rotations are rotation vectors of the quaternion's logarithm. The spring saturates: F = k d/(1 + k |d|/F_max),
//! and from its reach on it pulls no harder.
//!
//! All about the **coupling point**: the device's tool point, and the point of the virtual tool that belongs there. Scene
//! axes. Real-time safe, pure.

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

use crate::geometry::{Pose, Twist, Vec3, Wrench};
use nalgebra::{Matrix6, UnitQuaternion, Vector6};

/// The virtual tool's body, with one moment of inertia about all axes, so that it does not depend on the pose: that of a ball about a
/// point beside it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Body {
    /// kg; 0: quasi-static.
    pub mass: f64,
    /// m.
    pub radius: f64,
    /// From the coupling point to the ball's centre, m.
    pub lever: f64,
    /// Fastest motion of any of its points, m/s. What would be faster loses speed: in one tick it cannot pass through what
    /// is thicker than that speed times the period, and nothing can throw it.
    pub fastest: f64,
}

impl Body {
    /// Square of the radius of gyration about the coupling point, m²: the full ball's and its lever's (Steiner).
    pub fn gyration(&self) -> f64 {
        0.4 * self.radius * self.radius + self.lever * self.lever
    }

    /// Farthest point from the coupling point, m.
    fn reach(&self) -> f64 {
        self.radius + self.lever
    }
}

/// Spring and damper between device and virtual tool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spring {
    /// N/m at small stretch.
    pub stiffness: f64,
    /// N·m/rad at small stretch.
    pub rot_stiffness: f64,
    /// N·s/m.
    pub damping: f64,
    /// N·m·s/rad.
    pub rot_damping: f64,
    /// Force that it approaches when stretched far, N; may be infinite.
    pub max_force: f64,
    /// Torque likewise, N·m.
    pub max_torque: f64,
    /// Stretch beyond which it pulls no harder, m; may be infinite. The contact wins over a hand that is far (McNeely, Puterbaugh and
    /// Troy, SIGGRAPH 1999).
    pub max_stretch: f64,
    /// Turn likewise, rad.
    pub max_turn: f64,
}

/// What the contact does to the virtual tool, about the coupling point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Wrench, N and N·m.
    pub wrench: Wrench,
    /// Stiffness, symmetric positive semidefinite.
    pub stiffness: Matrix6<f64>,
    /// Damping, likewise; the damping's own wrench is part of `wrench`.
    pub damping: Matrix6<f64>,
    /// Stiffness times the motion of what is touched: by how much the wrench on a tool at rest grows, N/s and N·m/s.
    pub carried: Wrench,
}

/// The virtual tool's coupling point: pose and motion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VirtualTool {
    /// Pose in the scene.
    pub pose: Pose,
    /// Velocity of the point and rotation.
    pub twist: Twist,
}

impl VirtualTool {
    /// One step of `dt` s towards the device's tool point at `target`, which moves with `motion`. Returns the wrench that the
    /// device feels, about its tool point: what the stretched spring pulls it by.
    ///
    /// A result that is not finite comes back as it is; the guard behind makes a fault of it.
    pub fn step(
        &mut self,
        body: &Body,
        spring: &Spring,
        target: &Pose,
        motion: &Twist,
        load: &Load,
        dt: f64,
    ) -> Wrench {
        let (pull, slopes) = spring.pull(&self.pose, &self.twist, target, motion);
        let mut stiffness = load.stiffness;
        let mut system = load.damping * dt;
        for i in 0..6 {
            let (k, b, m) = match i {
                0..3 => (slopes.0, spring.damping, body.mass),
                _ => (slopes.1, spring.rot_damping, body.mass * body.gyration()),
            };
            stiffness[(i, i)] += k;
            system[(i, i)] += m + dt * b;
        }
        system += stiffness * (dt * dt);
        let v = vector(&self.twist.linear, &self.twist.angular);
        let force = load.wrench + pull + load.carried.scaled(dt);
        let push = (vector(&force.force, &force.torque) - stiffness * v * dt) * dt;
        // Positive definite with any mass or damper; what is not is not finite.
        let change = system.cholesky().map_or_else(|| Vector6::repeat(f64::NAN), |c| c.solve(&push));
        let v = v + change;
        let speed = v.fixed_rows::<3>(0).norm() + v.fixed_rows::<3>(3).norm() * body.reach();
        let v = if speed > body.fastest { v * (body.fastest / speed) } else { v };
        self.twist = Twist { linear: Vec3::new(v[0], v[1], v[2]), angular: Vec3::new(v[3], v[4], v[5]) };
        self.pose.translation.vector += self.twist.linear * dt;
        let mut rotation = UnitQuaternion::from_scaled_axis(self.twist.angular * dt) * self.pose.rotation;
        rotation.renormalize();
        self.pose.rotation = rotation;
        -spring.pull(&self.pose, &self.twist, target, motion).0
    }

    /// Follows the device rigidly: where nothing is felt there is nothing to couple.
    pub fn follow(&mut self, target: &Pose, motion: &Twist) {
        (self.pose, self.twist) = (*target, *motion);
    }
}

impl Spring {
    /// The wrench on the virtual tool, and the largest slopes of force and torque at this stretch.
    fn pull(&self, pose: &Pose, twist: &Twist, target: &Pose, motion: &Twist) -> (Wrench, (f64, f64)) {
        let stretch = target.translation.vector - pose.translation.vector;
        let turn = (target.rotation * pose.rotation.inverse()).scaled_axis();
        let (force, slope) = saturated(&stretch, self.stiffness, self.max_force, self.max_stretch);
        let (torque, rot_slope) = saturated(&turn, self.rot_stiffness, self.max_torque, self.max_turn);
        let wrench = Wrench {
            force: force + (motion.linear - twist.linear) * self.damping,
            torque: torque + (motion.angular - twist.angular) * self.rot_damping,
        };
        (wrench, (slope, rot_slope))
    }
}

/// k s/(1 + k s/most) along d, with s = min(|d|, reach), and its slope across d; along d it is less.
fn saturated(d: &Vec3, k: f64, most: f64, reach: f64) -> (Vec3, f64) {
    let length = d.norm();
    let stretch = length.min(reach);
    let slope = if most > 0.0 { k / (1.0 + k * stretch / most) } else { 0.0 };
    let slope = if stretch < length { slope * (stretch / length) } else { slope };
    (d * slope, slope)
}

fn vector(linear: &Vec3, angular: &Vec3) -> Vector6<f64> {
    Vector6::new(linear.x, linear.y, linear.z, angular.x, angular.y, angular.z)
}

#[cfg(test)]
mod tests;
