//! A jointed mechanism (delta or serial): rigid bodies in joint coordinates, dry friction, stops, gravity, hand and a
//! free gimbal, in steps of 0.1 ms.
//!
//! The linear part (hand, viscous friction) is integrated by the trapezoidal rule about the middle of the step
//! (unconditionally stable, no damping of its own), velocity terms by extrapolation, dry friction exactly, stops
//! explicitly (they are soft against this step).

use super::PlantState;
use super::friction::{self, Bounds, Modes};
use super::hand::Hand;
use super::path::Target;
use crate::device::dynamics::Dynamics;
use crate::device::kinematics::{Kinematics, gimbal};
use crate::device::profile::Gimbal;
use crate::geometry::pose::Vec3;
use nalgebra::{Matrix3, UnitQuaternion};

/// State and constants of a linkage.
#[derive(Clone, Debug)]
pub(super) struct Linkage {
    pub state: PlantState,
    /// Gimbal angles, rad.
    pub wrist: [f64; 3],
    kinematics: Kinematics,
    dynamics: Dynamics,
    gimbal: Option<Gimbal>,
    hand: Hand,
    /// Joint speeds now and one step ago, rad/s.
    w: Vec3,
    w_before: Vec3,
    /// Tool point in the middle of the last step: start of the next solution.
    hint: Vec3,
    modes: Modes,
    dry: bool,
    h: f64,
}

impl Linkage {
    /// At rest at the start of the hand's path; `None` when that is out of reach. Not real-time.
    pub fn new(
        kinematics: &Kinematics,
        dynamics: &Dynamics,
        gimbal: Option<Gimbal>,
        hand: &Hand,
        start: &Target,
        h: f64,
    ) -> Option<Self> {
        let q = kinematics.inverse(&start.position)?;
        let (min, max) = kinematics.limits(&q);
        if (0..3).any(|i| !(q[i] >= min[i] && q[i] <= max[i])) {
            return None;
        }
        kinematics.state(&q, None)?;
        let f = dynamics.friction;
        let mut linkage = Self {
            state: PlantState {
                tip: start.position,
                velocity: Vec3::zeros(),
                rotation: UnitQuaternion::identity(),
                angular_velocity: Vec3::zeros(),
                joints: q,
                wrist: [0.0; 3],
            },
            wrist: [0.0; 3],
            kinematics: *kinematics,
            dynamics: *dynamics,
            gimbal,
            hand: *hand,
            w: Vec3::zeros(),
            w_before: Vec3::zeros(),
            hint: start.position,
            modes: [0; 3],
            dry: f.coulomb != [0.0; 3] || f.stiction != [0.0; 3],
            h,
        };
        linkage.hold_gimbal(&start.rotation);
        linkage.sync();
        Some(linkage)
    }

    /// Steps are so long from now on, s.
    pub fn set_step(&mut self, h: f64) {
        self.h = h;
    }

    /// Sets the joint speeds for a tool velocity; for tests.
    pub fn set_velocity(&mut self, v: &Vec3) {
        let inverse = self.kinematics.state(&self.state.joints, None).and_then(|s| s.jacobian.try_inverse());
        if let Some(inverse) = inverse {
            self.w = inverse * v;
            self.w_before = self.w;
            self.sync();
        }
    }

    /// One step under constant joint torques. Real-time safe.
    pub fn step(&mut self, torque: &Vec3, target: Option<&Target>) {
        let h = self.h;
        let q = self.state.joints;
        let w = self.w;
        let middle = q + w * (0.5 * h);
        let guess = w * 1.5 - self.w_before * 0.5;
        let Some((link, bias)) = self.kinematics.motion(&middle, &guess, Some(&self.hint)) else {
            // The stops keep the mechanism from here; should it get here all the same, it stays.
            self.w = Vec3::zeros();
            self.w_before = Vec3::zeros();
            return;
        };
        self.hint = link.tip;
        let j = &link.jacobian;
        let d = &self.dynamics;
        let mut mass = d.mass_matrix(&middle, j);
        let mut damping = Matrix3::from_diagonal(&Vec3::from(d.friction.viscous));
        let mut stiffness = Matrix3::zeros();
        let mut tau = torque
            - d.gravity_torque(&self.kinematics, &middle, j)
            - d.velocity_torque(&middle, &guess, j, &bias)
            + self.stops(&q, &w);
        if let Some(housing) = &d.housing {
            tau += j.tr_mul(&housing.force(&link.tip, &(j * w)));
        }
        if let Some(t) = target {
            let jj = j.tr_mul(j);
            let hand = &self.hand;
            mass += jj * hand.mass;
            damping += jj * hand.damping;
            stiffness = jj * hand.stiffness;
            let pull = (t.acceleration - bias) * hand.mass
                + t.velocity * hand.damping
                + (t.position - link.tip) * hand.stiffness;
            tau += j.tr_mul(&pull);
        }
        // M (w+ - w) = h [tau - D (w + w+)/2 - K h/4 (w+ - w)] - p
        let half = damping * (0.5 * h);
        let spring = stiffness * (0.25 * h * h);
        let a = mass + half + spring;
        let b = (mass - half + spring) * w + tau * h;
        let after = if self.dry {
            let f = &d.friction;
            let mut bounds = Bounds { stick: [0.0; 3], slide: [0.0; 3] };
            for i in 0..3 {
                bounds.slide[i] = f.coulomb[i] * h;
                // Breaking away takes more than stopping.
                bounds.stick[i] = h * if w[i] == 0.0 { f.stiction[i] } else { f.coulomb[i] };
            }
            friction::solve(&a, &b, &bounds, &mut self.modes)
        } else {
            match a.try_inverse() {
                Some(inverse) => inverse * b,
                None => Vec3::zeros(),
            }
        };
        for i in 0..3 {
            // A joint that stood and stands has not moved.
            if !(w[i] == 0.0 && after[i] == 0.0) {
                self.state.joints[i] = q[i] + 0.5 * h * (w[i] + after[i]);
            }
        }
        self.w_before = w;
        self.w = after;
        if let Some(t) = target {
            self.hold_gimbal(&t.rotation);
        }
        self.state.wrist = self.wrist;
    }

    /// Torque of the end stops: a spring and a damper that push, never pull.
    fn stops(&self, q: &Vec3, w: &Vec3) -> Vec3 {
        let (min, max) = self.kinematics.limits(q);
        let (k, b) = (self.dynamics.stop_stiffness, self.dynamics.stop_damping);
        let mut tau = Vec3::zeros();
        for i in 0..3 {
            if q[i] > max[i] {
                tau[i] = -(k * (q[i] - max[i]) + b * w[i]).max(0.0);
            } else if q[i] < min[i] {
                tau[i] = (k * (min[i] - q[i]) - b * w[i]).max(0.0);
            }
        }
        tau
    }

    /// The hand turns the weightless gimbal as it likes, within its stops.
    fn hold_gimbal(&mut self, rotation: &UnitQuaternion<f64>) {
        if let Some(g) = &self.gimbal {
            let wrist = self.kinematics.wrist(&self.state.joints);
            let mut angles = gimbal::angles(&(wrist.inverse() * rotation));
            for (angle, (min, max)) in angles.iter_mut().zip(g.min.iter().zip(&g.max)) {
                *angle = angle.clamp(*min, *max);
            }
            self.wrist = angles;
            self.state.wrist = angles;
        }
    }

    /// Brings tool point, velocity and orientation of the state up to date with the joints. Real-time safe.
    pub fn sync(&mut self) {
        if let Some(link) = self.kinematics.state(&self.state.joints, Some(&self.hint)) {
            self.state.tip = link.tip;
            self.state.velocity = link.jacobian * self.w;
        }
        if self.gimbal.is_some() {
            self.state.rotation = self.kinematics.wrist(&self.state.joints) * gimbal::rotation(&self.wrist);
        }
    }
}
