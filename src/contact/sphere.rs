//! The 3-DoF haptic point: a ball about the tool's origin against an object.
//!
//! Penetration is depth at the ball's centre plus radius. The push is `stiffness` times penetration along minus the
//! field's gradient: a point tool has no area, so the material's stiffness holds as it is. It acts at the ball's
//! centre, which is the tool's origin, so there is no torque.

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

use super::{Bounds, Contact, ContactPoint, Query, sound};
use crate::geometry::field::Field;
use crate::geometry::{Point, Vec3, Wrench, pose::finite};
use nalgebra::Matrix3;

/// Below this length the gradient counts as ambiguous (medial axis) and the force fades out with it.
const LEAST_GRADIENT: f64 = 0.25;

/// Answers for a ball of `radius` m. Six more field values than one give a gradient that is continuous in the pose.
/// Real-time safe.
pub(crate) fn query(q: &Query<'_>, radius: f64, field: &Field) -> Contact {
    let centre = q.object_pose.inverse_transform_point(&Point::from(q.tool_pose.translation.vector));
    let (depth, gradient) = field.locate(&centre);
    let radius = if radius.is_finite() { radius.max(0.0) } else { 0.0 };
    let penetration = depth + radius;
    if !(penetration.is_finite() && finite(&gradient)) {
        return Contact { complete: false, ..Contact::none(None) };
    }
    let mut contact = Contact { work: 1, need: 1, ..Contact::none(Some((-penetration).max(0.0))) };
    let error = field.sample_error();
    let outside = if field.covers(&centre) { 0.0 } else { (std::f64::consts::SQRT_2 - 1.0) * depth.abs() };
    contact.depth_bounds =
        Some(Bounds { lower: penetration - error - outside, upper: penetration + error + outside });
    if penetration <= 0.0 {
        return contact;
    }
    let away = q.object_pose.rotation * (-gradient / gradient.norm().max(LEAST_GRADIENT));
    let stiffness = sound(q.material.stiffness);
    let spring = stiffness * penetration;
    let approach = -q.relative_twist().linear.dot(&away);
    // Never more than the spring: starts from 0 at first touch, never pulls.
    let damping = (sound(q.material.damping) * approach).clamp(0.0, spring);
    contact.touching = true;
    contact.depth = penetration;
    contact.wrench = Wrench { force: away * (spring + damping), torque: Vec3::zeros() };
    let k: Matrix3<f64> = away * away.transpose() * stiffness;
    contact.stiffness.fixed_view_mut::<3, 3>(0, 0).copy_from(&k);
    contact.points[0] = ContactPoint {
        position: q.tool_pose.translation.vector - away * radius,
        normal: away,
        depth: penetration,
        area: q.material.reference_area,
        id: 0,
    };
    contact.n_points = 1;
    contact
}
