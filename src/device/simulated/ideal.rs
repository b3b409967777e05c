//! The ideal device's body: six Cartesian degrees of freedom, isotropic inertia, integrated by the exact transition
//! of the linear part (mass, damping, hand) with friction and stops added.
//!
//! Per axis `(m + M) x'' + (b + B) x' + K x = u`, where capital letters are the hand's, and u holds command, gravity,
//! stops and the hand's intention, constant over a step. The transition matrix is exact for any step and any
//! stiffness, so the plant adds no energy of its own.

use super::PlantState;
use super::hand::Hand;
use super::path::Target;
use crate::device::dynamics::{Dynamics, Friction, Inertia};
use crate::geometry::pose::{Vec3, Wrench};
use nalgebra::{Matrix3, UnitQuaternion};

/// Exact step of `m x'' + b x' + k x = u` over a fixed time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Transition {
    xx: f64,
    xv: f64,
    xu: f64,
    vx: f64,
    vv: f64,
    vu: f64,
}

impl Transition {
    /// Matrix exponential of the augmented system. Not real-time.
    pub(super) fn new(m: f64, b: f64, k: f64, h: f64) -> Self {
        let a = Matrix3::new(0.0, 1.0, 0.0, -k / m, -b / m, 1.0 / m, 0.0, 0.0, 0.0) * h;
        let e = exponential(&a);
        Self { xx: e[(0, 0)], xv: e[(0, 1)], xu: e[(0, 2)], vx: e[(1, 0)], vv: e[(1, 1)], vu: e[(1, 2)] }
    }

    #[inline]
    fn step(&self, x: f64, v: f64, u: f64) -> (f64, f64) {
        (self.xx * x + self.xv * v + self.xu * u, self.vx * x + self.vv * v + self.vu * u)
    }
}

/// exp of a 3x3 matrix by scaling and squaring with a Taylor series.
fn exponential(a: &Matrix3<f64>) -> Matrix3<f64> {
    let mut squarings = 0;
    let mut small = *a;
    while small.amax() > 0.1 && squarings < 60 {
        small *= 0.5;
        squarings += 1;
    }
    let mut term = Matrix3::identity();
    let mut sum = Matrix3::identity();
    for i in 1..=14 {
        term = term * small / f64::from(i);
        sum += term;
    }
    for _ in 0..squarings {
        sum *= sum;
    }
    sum
}

/// State and constants of the ideal plant.
#[derive(Clone, Debug)]
pub(super) struct Ideal {
    pub state: PlantState,
    weight: Vec3,
    friction: Option<Friction>,
    /// Half-width of the box of end stops, m.
    stop: f64,
    stop_stiffness: f64,
    stop_damping: f64,
    hand: Hand,
    held: [Transition; 2],
    free: [Transition; 2],
}

impl Ideal {
    /// `stop` is the distance of the end stops from the origin, m; `h` the step, s. Not real-time.
    pub fn new(dynamics: &Dynamics, hand: &Hand, stop: f64, start: &Target, h: f64) -> Self {
        let Inertia::Ideal { mass, rot_inertia, rot_viscous } = dynamics.inertia else {
            unreachable!("profiles give the ideal kinematics an ideal inertia")
        };
        let f = dynamics.friction;
        let none = f.coulomb == [0.0; 3] && f.stiction == [0.0; 3];
        // The viscous part is one number for the three axes in the exact transition; profiles of the ideal device
        // state it per axis, so the first stands for all (checked when the profile is read).
        let b = f.viscous[0];
        let pair = |hand: &Hand| {
            [
                Transition::new(mass + hand.mass, b + hand.damping, hand.stiffness, h),
                Transition::new(
                    rot_inertia + hand.inertia,
                    rot_viscous + hand.rot_damping,
                    hand.rot_stiffness,
                    h,
                ),
            ]
        };
        Self {
            state: PlantState {
                tip: start.position,
                velocity: Vec3::zeros(),
                rotation: start.rotation,
                angular_velocity: Vec3::zeros(),
                joints: Vec3::zeros(),
                wrist: [0.0; 3],
            },
            weight: dynamics.ideal_weight(),
            friction: (!none).then_some(f),
            stop,
            stop_stiffness: dynamics.stop_stiffness,
            stop_damping: dynamics.stop_damping,
            hand: *hand,
            held: pair(hand),
            free: pair(&Hand::NONE),
        }
    }

    /// One step under a constant wrench. Real-time safe.
    pub fn step(&mut self, wrench: &Wrench, target: Option<&Target>) {
        let linear = match target {
            Some(_) => &self.held[0],
            None => &self.free[0],
        };
        let mut u = wrench.force + self.weight;
        if let Some(t) = target {
            u += t.acceleration * self.hand.mass
                + t.velocity * self.hand.damping
                + t.position * self.hand.stiffness;
        }
        let (x, v) = (self.state.tip, self.state.velocity);
        for i in 0..3 {
            let mut force = u[i];
            let over = x[i].abs() - self.stop;
            if over > 0.0 {
                // A stop pushes, never pulls.
                let push = self.stop_stiffness * over + self.stop_damping * v[i] * x[i].signum();
                force -= push.max(0.0) * x[i].signum();
            }
            let (mut nx, mut nv) = linear.step(x[i], v[i], force);
            if let Some(f) = &self.friction {
                // Karnopp's stick band on one axis: the friction force that would bring the speed to zero within
                // the step holds if it is below the limit; else friction slides against the motion.
                let stop = -nv / linear.vu;
                let bound = if v[i] == 0.0 { f.stiction[i] } else { f.coulomb[i] };
                if stop.abs() <= bound {
                    nx = if v[i] == 0.0 { x[i] } else { nx + linear.xu * stop };
                    nv = 0.0;
                } else {
                    let slide = f.coulomb[i] * stop.signum();
                    nx += linear.xu * slide;
                    nv += linear.vu * slide;
                }
            }
            self.state.tip[i] = nx;
            self.state.velocity[i] = nv;
        }
        self.turn(&wrench.torque, target);
    }

    /// Rotation: the same law on the rotation vector from the intended orientation. Isotropic inertia has no
    /// gyroscopic term, so the law is exact for a fixed axis and second order in the step otherwise.
    fn turn(&mut self, torque: &Vec3, target: Option<&Target>) {
        let w = self.state.angular_velocity;
        let delta;
        match target {
            None => {
                if w == Vec3::zeros() && *torque == Vec3::zeros() {
                    return;
                }
                let t = &self.free[1];
                delta = w * t.xv + torque * t.xu;
                self.state.angular_velocity = w * t.vv + torque * t.vu;
            }
            Some(target) => {
                let t = &self.held[1];
                // The target is that of the middle of the step, as for the translation.
                let error = rotation_vector(&(self.state.rotation * target.rotation.inverse()));
                let u = torque
                    + target.angular_acceleration * self.hand.inertia
                    + target.angular_velocity * self.hand.rot_damping;
                delta = error * (t.xx - 1.0) + w * t.xv + u * t.xu;
                self.state.angular_velocity = error * t.vx + w * t.vv + u * t.vu;
            }
        }
        self.state.rotation = exp(&delta) * self.state.rotation;
        // One Newton step keeps the length at 1 to rounding.
        let q = self.state.rotation.into_inner();
        self.state.rotation = UnitQuaternion::new_unchecked(q * (1.5 - 0.5 * q.norm_squared()));
    }
}

/// Rotation vector of a rotation, the short way.
#[inline]
fn rotation_vector(q: &UnitQuaternion<f64>) -> Vec3 {
    let (v, w) = (q.imag(), q.w);
    let (v, w) = if w < 0.0 { (-v, -w) } else { (v, w) };
    let s2 = v.norm_squared();
    if s2 < 0.005 {
        // 2 asin(s)/s = 2 (1 + s^2/6 + 3 s^4/40 + 15 s^6/336 + 105 s^8/3456 + 945 s^10/42240 + ...); what is left out is
        // below 1e-15 at 0.14 rad.
        let c =
            [2.0, 1.0 / 3.0, 3.0 / 20.0, 15.0 / 168.0, 105.0 / 1728.0, 945.0 / 21120.0, 10395.0 / 299_520.0];
        let series = c.iter().rev().fold(0.0, |sum, c| sum * s2 + c);
        return v * series;
    }
    let s = s2.sqrt();
    v * (2.0 * s.atan2(w) / s)
}

/// Rotation of a rotation vector; series for small angles (error below 1e-17 rad).
#[inline]
fn exp(r: &Vec3) -> UnitQuaternion<f64> {
    let a2 = r.norm_squared();
    if a2 < 1e-4 {
        let s = 0.5 - a2 * (1.0 / 48.0 - a2 / 3840.0);
        let w = 1.0 - a2 * (1.0 / 8.0 - a2 * (1.0 / 384.0 - a2 / 46080.0));
        return UnitQuaternion::new_unchecked(nalgebra::Quaternion::from_parts(w, r * s));
    }
    UnitQuaternion::new(*r)
}
