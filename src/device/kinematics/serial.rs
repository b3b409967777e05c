//! Waist, shoulder, elbow with a parallelogram (Phantom family): q3 is the absolute angle of the second link,
//! 0 = hanging straight down.
//!
//! Mechanism frame: x forwards at q1 = 0, z up, origin at the shoulder (MAHI lab, `mahilab/Phantom`,
//! cpp/src/PhantomModel.cpp; the same as Cavusoglu, Feygin, Tendick, "A Critical Study of the Mechanical and
//! Electrical Properties of the PHANToM Haptic Interface...", Presence 11(6), 2002).

use super::Mount;
use crate::geometry::pose::Vec3;
use nalgebra::{Matrix3, UnitQuaternion};
use std::f64::consts::FRAC_PI_2;

/// Lengths in m, angles in rad.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Serial3R {
    /// Upper link, shoulder to elbow.
    pub l1: f64,
    /// Lower link, elbow to tool (gimbal centre).
    pub l2: f64,
    /// Smallest joint angles.
    pub min: [f64; 3],
    /// Largest joint angles.
    pub max: [f64; 3],
    /// Smallest q3 - q2 that the parallelogram allows.
    pub elbow_min: f64,
    /// Largest q3 - q2.
    pub elbow_max: f64,
    /// Mechanism frame in the device frame.
    pub mount: Mount,
}

impl Serial3R {
    /// Tool point, mechanism frame.
    pub fn forward(&self, q: &Vec3) -> Vec3 {
        let (s1, c1) = q.x.sin_cos();
        let (s2, c2) = q.y.sin_cos();
        let (s3, c3) = q.z.sin_cos();
        let r = self.l1 * c2 + self.l2 * s3;
        Vec3::new(c1 * r, s1 * r, self.l1 * s2 - self.l2 * c3)
    }

    /// Joints for a tool point in the mechanism's frame, elbow up, tool in front of the waist's axis; `None` out of
    /// reach.
    pub fn inverse(&self, p: &Vec3) -> Option<Vec3> {
        let r = p.x.hypot(p.y);
        let d = r.hypot(p.z);
        let (l1, l2) = (self.l1, self.l2);
        let at_shoulder = (l1 * l1 + d * d - l2 * l2) / (2.0 * l1 * d);
        let at_elbow = (l1 * l1 + l2 * l2 - d * d) / (2.0 * l1 * l2);
        if !(at_shoulder.abs() <= 1.0 && at_elbow.abs() <= 1.0) {
            return None;
        }
        let q2 = p.z.atan2(r) + at_shoulder.acos();
        // The inner angle at the elbow is pi/2 + q3 - q2.
        Some(Vec3::new(p.y.atan2(p.x), q2, q2 + at_elbow.acos() - FRAC_PI_2))
    }

    /// d p / d q, mechanism frame.
    pub fn jacobian(&self, q: &Vec3) -> Matrix3<f64> {
        let (s1, c1) = q.x.sin_cos();
        let (s2, c2) = q.y.sin_cos();
        let (s3, c3) = q.z.sin_cos();
        let (l1, l2) = (self.l1, self.l2);
        let r = l1 * c2 + l2 * s3;
        Matrix3::new(
            -s1 * r,
            -l1 * c1 * s2,
            l2 * c1 * c3,
            c1 * r,
            -l1 * s1 * s2,
            l2 * s1 * c3,
            0.0,
            l1 * c2,
            l2 * s3,
        )
    }

    /// The tool's acceleration at zero joint acceleration, Jdot w (m/s²), mechanism frame.
    pub fn bias(&self, q: &Vec3, w: &Vec3) -> Vec3 {
        let (s1, c1) = q.x.sin_cos();
        let (s2, c2) = q.y.sin_cos();
        let (s3, c3) = q.z.sin_cos();
        let (l1, l2) = (self.l1, self.l2);
        let r = l1 * c2 + l2 * s3;
        let rd = -l1 * s2 * w.y + l2 * c3 * w.z;
        let rdd = -l1 * c2 * w.y * w.y - l2 * s3 * w.z * w.z;
        let zdd = -l1 * s2 * w.y * w.y + l2 * c3 * w.z * w.z;
        let (inward, sideways) = (rdd - r * w.x * w.x, 2.0 * rd * w.x);
        Vec3::new(c1 * inward - s1 * sideways, s1 * inward + c1 * sideways, zdd)
    }

    /// Orientation of the wrist that carries the gimbal, device axes; identity when the lower link lies level and
    /// points at the user.
    pub fn wrist(&self, q: &Vec3) -> UnitQuaternion<f64> {
        UnitQuaternion::from_axis_angle(&Vec3::y_axis(), q.x)
            * UnitQuaternion::from_axis_angle(&Vec3::x_axis(), FRAC_PI_2 - q.z)
    }

    /// Joint limits at these joints, the parallelogram's coupling of q2 and q3 included.
    pub fn limits(&self, q: &Vec3) -> (Vec3, Vec3) {
        (
            Vec3::new(
                self.min[0],
                self.min[1].max(q.z - self.elbow_max),
                self.min[2].max(q.y + self.elbow_min),
            ),
            Vec3::new(
                self.max[0],
                self.max[1].min(q.z - self.elbow_min),
                self.max[2].min(q.y + self.elbow_max),
            ),
        )
    }
}
