//! Yaw, pitch, roll of a gimbal: `R = Ry(yaw) Rx(pitch) Rz(roll)` in the wrist's axes. Pure, real-time safe.

use crate::geometry::pose::Vec3;
use nalgebra::UnitQuaternion;

/// Orientation in the wrist's axes for angles in rad.
pub fn rotation(angles: &[f64; 3]) -> UnitQuaternion<f64> {
    UnitQuaternion::from_axis_angle(&Vec3::y_axis(), angles[0])
        * UnitQuaternion::from_axis_angle(&Vec3::x_axis(), angles[1])
        * UnitQuaternion::from_axis_angle(&Vec3::z_axis(), angles[2])
}

/// Angles in rad, pitch within +-pi/2. At the gimbal's lock (pitch +-pi/2) roll is taken as 0.
pub fn angles(rotation: &UnitQuaternion<f64>) -> [f64; 3] {
    let m = rotation.to_rotation_matrix();
    let pitch = (-m[(1, 2)]).clamp(-1.0, 1.0).asin();
    if m[(1, 2)].abs() > 1.0 - 1e-12 {
        return [(-m[(2, 0)]).atan2(m[(0, 0)]), pitch, 0.0];
    }
    [m[(0, 2)].atan2(m[(2, 2)]), pitch, m[(1, 0)].atan2(m[(1, 1)])]
}
