//! Kinematics of the driven joints: forward, inverse, Jacobian, all in the device frame.
//!
//! Everything here is pure and real-time safe. Joint torques and forces at the tool go together as
//! `tau = J^T F`, speeds as `v = J qdot`.

pub mod delta;
pub mod gimbal;
pub mod serial;

use crate::geometry::pose::Vec3;
use delta::Delta;
use nalgebra::{Matrix3, UnitQuaternion};
use serial::Serial3R;

/// The mechanism's family and lengths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kinematics {
    /// Six Cartesian degrees of freedom: the joints are position (m) and rotation vector (rad).
    Ideal,
    /// Three-armed delta (Stamper): the joints are the arm angles, rad.
    Delta(Delta),
    /// Waist, shoulder and elbow (Phantom family): q1, q2, q3 with q3 absolute, rad.
    Serial3R(Serial3R),
}

/// Tool point and Jacobian at some joints, device frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkState {
    /// Tool point, m.
    pub tip: Vec3,
    /// d tip / d joints, m/rad.
    pub jacobian: Matrix3<f64>,
}

/// Where a mechanism's frame sits in the device frame: `device = axes (mechanism - origin)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mount {
    /// Point of the mechanism's frame that is the device frame's origin, m.
    pub origin: Vec3,
    /// Rotation from the mechanism's axes to the device's.
    pub axes: Matrix3<f64>,
}

impl Mount {
    /// A point of the mechanism's frame in the device frame.
    #[inline]
    pub fn to_device(&self, p: &Vec3) -> Vec3 {
        self.axes * (p - self.origin)
    }

    /// A point of the device frame in the mechanism's frame.
    #[inline]
    pub fn to_mechanism(&self, p: &Vec3) -> Vec3 {
        self.axes.tr_mul(p) + self.origin
    }
}

impl Kinematics {
    /// Tool point at these joints, m. `hint` (a nearby tool point) saves iterations and does not change the answer
    /// beyond the last bits. `None` where the mechanism cannot close.
    pub fn forward(&self, q: &Vec3, hint: Option<&Vec3>) -> Option<Vec3> {
        match self {
            Self::Ideal => Some(*q),
            Self::Delta(d) => {
                let start = hint.map(|p| d.mount.to_mechanism(p));
                d.forward(q, start.as_ref()).map(|p| d.mount.to_device(&p))
            }
            Self::Serial3R(s) => Some(s.mount.to_device(&s.forward(q))),
        }
    }

    /// Joints that put the tool at this point. `None` out of reach.
    pub fn inverse(&self, tip: &Vec3) -> Option<Vec3> {
        match self {
            Self::Ideal => Some(*tip),
            Self::Delta(d) => d.inverse(&d.mount.to_mechanism(tip)),
            Self::Serial3R(s) => s.inverse(&s.mount.to_mechanism(tip)),
        }
    }

    /// Tool point and Jacobian. `None` where the mechanism cannot close or is singular.
    pub fn state(&self, q: &Vec3, hint: Option<&Vec3>) -> Option<LinkState> {
        match self {
            Self::Ideal => Some(LinkState { tip: *q, jacobian: Matrix3::identity() }),
            Self::Delta(d) => {
                let start = hint.map(|p| d.mount.to_mechanism(p));
                let p = d.forward(q, start.as_ref())?;
                let jacobian = d.jacobian(q, &p)?;
                Some(LinkState { tip: d.mount.to_device(&p), jacobian: d.mount.axes * jacobian })
            }
            Self::Serial3R(s) => Some(LinkState {
                tip: s.mount.to_device(&s.forward(q)),
                jacobian: s.mount.axes * s.jacobian(q),
            }),
        }
    }

    /// [`Kinematics::state`] and Jdot w, the tool's acceleration at zero joint acceleration, m/s².
    pub fn motion(&self, q: &Vec3, w: &Vec3, hint: Option<&Vec3>) -> Option<(LinkState, Vec3)> {
        match self {
            Self::Ideal => Some((self.state(q, hint)?, Vec3::zeros())),
            Self::Delta(d) => {
                let start = hint.map(|p| d.mount.to_mechanism(p));
                let p = d.forward(q, start.as_ref())?;
                let (jacobian, bias) = d.motion(q, w, &p)?;
                let state = LinkState { tip: d.mount.to_device(&p), jacobian: d.mount.axes * jacobian };
                Some((state, d.mount.axes * bias))
            }
            Self::Serial3R(s) => Some((self.state(q, hint)?, s.mount.axes * s.bias(q, w))),
        }
    }

    /// Orientation of the wrist that carries a gimbal, device axes; identity for mechanisms that do not turn their
    /// tool.
    pub fn wrist(&self, q: &Vec3) -> UnitQuaternion<f64> {
        match self {
            Self::Serial3R(s) => s.wrist(q),
            Self::Ideal | Self::Delta(_) => UnitQuaternion::identity(),
        }
    }

    /// Smallest and largest joint angles at these joints (limits of a parallelogram depend on the other joint), rad.
    pub fn limits(&self, q: &Vec3) -> (Vec3, Vec3) {
        match self {
            Self::Ideal => (Vec3::repeat(f64::NEG_INFINITY), Vec3::repeat(f64::INFINITY)),
            Self::Delta(d) => (Vec3::from(d.min), Vec3::from(d.max)),
            Self::Serial3R(s) => s.limits(q),
        }
    }
}

#[cfg(test)]
mod tests;
