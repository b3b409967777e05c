//! Device space to scene space and back: workspace scale, clutch (indexing) and recentring.
//!
//! With s scene metres per device metre, point x and rotation R of the device's tool point go to
//! `D (s x + o, R q)`: `D` is the device's frame in the scene, `o` and `q` what clutching has added. Forces come back
//! divided by s and torques by s^2: the device feels the scene shrunk by s with the N/m that the user asked for, and
//! the wrench stays the gradient of a potential (that of the scene over s^2). Real-time safe.

#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used
    )
)]

use crate::geometry::pose::pose_is_finite;
use crate::geometry::{Point, Pose, Twist, Vec3, Wrench};
use nalgebra::{Matrix3, Matrix6, UnitQuaternion};

/// Farthest that a moved view goes from the scene's origin, m.
pub(super) const FARTHEST: f64 = 1000.0;

/// The mapping and its clutch.
#[derive(Clone, Debug, PartialEq)]
pub struct Mapping {
    /// Where the scene has the device.
    place: Pose,
    /// Where it stands: there, until a view is moved.
    frame: Pose,
    scale: f64,
    offset: Vec3,
    turn: UnitQuaternion<f64>,
    held: Option<Pose>,
}

/// The tool as it stands in the scene.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ToolState {
    /// Tool frame in the scene.
    pub pose: Pose,
    /// Velocity of the tool's origin and rotation, scene axes.
    pub twist: Twist,
    /// From the device's tool point to the tool's origin, scene axes, m.
    pub lever: Vec3,
}

impl Default for Mapping {
    fn default() -> Self {
        Self {
            place: Pose::identity(),
            frame: Pose::identity(),
            scale: 1.0,
            offset: Vec3::zeros(),
            turn: UnitQuaternion::identity(),
            held: None,
        }
    }
}

impl Mapping {
    /// Takes over the scene's mapping. True when it differs from the scene's last one: the tool jumps then, and a moved view is back.
    pub fn set(&mut self, frame: &Pose, scale: f64) -> bool {
        // An unreadable scale cannot come from the compiler; 1 keeps the tick sound all the same.
        let scale = if scale.is_finite() && scale > 0.0 { scale } else { 1.0 };
        let changed = self.place != *frame || self.scale != scale;
        if changed {
            (self.place, self.frame, self.scale) = (*frame, *frame, scale);
        }
        changed
    }

    /// The device's frame in the scene.
    pub fn frame(&self) -> Pose {
        self.frame
    }

    /// A view is moved: the device's frame goes, and the scene is told nothing, by a motion in its own axes at the device's size, for `dt` s.
    /// False, and nothing moves, where that would go too far.
    pub(super) fn carry(&mut self, rate: &Twist, dt: f64) -> bool {
        let step = Pose::new(rate.linear * (self.scale * dt), rate.angular * dt);
        let mut to = self.frame * step;
        // Renewed at every step, so that rounding does not add up.
        to.rotation.renormalize();
        let (was, is) = (self.frame.translation.vector.norm(), to.translation.vector.norm());
        let fits = pose_is_finite(&to) && (is <= FARTHEST || is <= was);
        if fits {
            self.frame = to;
        }
        fits
    }

    /// The device's frame is where the scene has it again. True when it was not: the tool jumps then.
    pub(super) fn put_back(&mut self) -> bool {
        let moved = self.frame != self.place;
        self.frame = self.place;
        moved
    }

    /// Scene metres per device metre.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// True while the clutch holds the tool.
    pub fn clutched(&self) -> bool {
        self.held.is_some()
    }

    /// The device's tool point in the scene.
    pub fn point(&self, device: &Pose) -> Pose {
        if let Some(held) = self.held {
            return held;
        }
        let p = device.translation.vector * self.scale + self.offset;
        self.frame * Pose::from_parts(p.into(), device.rotation * self.turn)
    }

    /// Holds the tool where it is, or lets it follow the device again from where it is.
    pub fn clutch(&mut self, held: bool, device: &Pose) {
        match (held, self.held) {
            (true, None) => self.held = Some(self.point(device)),
            (false, Some(at)) => {
                let local = self.frame.inverse() * at;
                self.offset = local.translation.vector - device.translation.vector * self.scale;
                self.turn = device.rotation.inverse() * local.rotation;
                self.turn.renormalize();
                self.held = None;
            }
            _ => {}
        }
    }

    /// Maps the device's present position to the scene point `to`; rotation stays.
    pub fn recentre(&mut self, to: &Point, device: &Pose) {
        let local = self.frame.inverse() * to;
        self.offset = local.coords - device.translation.vector * self.scale;
        if let Some(held) = &mut self.held {
            held.translation = to.coords.into();
        }
    }

    /// The tool for a device pose and twist; `tool` is the tool's frame in the tool point's.
    pub fn tool(&self, device: &Pose, twist: &Twist, tool: &Pose) -> ToolState {
        let point = self.point(device);
        let pose = point * tool;
        let lever = pose.translation.vector - point.translation.vector;
        if self.clutched() {
            return ToolState { pose, twist: Twist::ZERO, lever };
        }
        let turn = &self.frame.rotation;
        let at_point = Twist { linear: turn * (twist.linear * self.scale), angular: turn * twist.angular };
        let twist = Twist { linear: at_point.at(&lever), angular: at_point.angular };
        ToolState { pose, twist, lever }
    }

    /// Where the device is when the tool is here: the inverse of [`tool`](Self::tool) while the clutch does not hold.
    pub fn device(&self, at: &Pose, tool: &Pose) -> Pose {
        let local = self.frame.inverse() * (at * tool.inverse());
        let p = (local.translation.vector - self.offset) / self.scale;
        Pose::from_parts(p.into(), local.rotation * self.turn.inverse())
    }

    /// A wrench about the tool's origin (scene axes, scene metres) as the device's tool point feels it.
    pub fn wrench(&self, wrench: &Wrench, lever: &Vec3) -> Wrench {
        let back = self.frame.rotation.inverse();
        let torque = wrench.torque + lever.cross(&wrench.force);
        Wrench { force: back * wrench.force / self.scale, torque: back * torque / (self.scale * self.scale) }
    }

    /// A command at the device's tool point in scene axes, newtons as the hand feels them, torque about the tool's
    /// origin (at device size): for records.
    pub fn felt(&self, command: &Wrench, lever: &Vec3) -> Wrench {
        let force = self.frame.rotation * command.force;
        let torque = self.frame.rotation * command.torque - (lever / self.scale).cross(&force);
        Wrench { force, torque }
    }

    /// A stiffness (or damping) about the tool's origin as the device's tool point feels it: the congruence that
    /// belongs to [`wrench`](Self::wrench).
    pub fn stiffness(&self, k: &Matrix6<f64>, lever: &Vec3) -> Matrix6<f64> {
        // Displacement of the tool's origin for one of the tool point: (s D dx + D dphi x lever, D dphi).
        let d: Matrix3<f64> = *self.frame.rotation.to_rotation_matrix().matrix();
        let mut j = Matrix6::zeros();
        j.fixed_view_mut::<3, 3>(0, 0).copy_from(&(d * self.scale));
        j.fixed_view_mut::<3, 3>(0, 3).copy_from(&(-lever.cross_matrix() * d));
        j.fixed_view_mut::<3, 3>(3, 3).copy_from(&d);
        j.transpose() * k * j / (self.scale * self.scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::Vector6;
    use proptest::prelude::*;

    fn pose() -> impl Strategy<Value = Pose> {
        (prop::array::uniform3(-0.2..0.2f64), prop::array::uniform3(-2.0..2.0f64))
            .prop_map(|(p, r)| Pose::new(Vec3::from(p), Vec3::from(r)))
    }

    fn vector() -> impl Strategy<Value = Vec3> {
        prop::array::uniform3(-3.0..3.0f64).prop_map(Vec3::from)
    }

    fn mapping(frame: Pose, scale: f64) -> Mapping {
        let mut m = Mapping::default();
        m.set(&frame, scale);
        m
    }

    /// Linear and angular difference of two close poses, parent axes.
    fn difference(a: &Pose, b: &Pose) -> Vector6<f64> {
        let d = a.translation.vector - b.translation.vector;
        let r = (a.rotation * b.rotation.inverse()).scaled_axis();
        Vector6::new(d.x, d.y, d.z, r.x, r.y, r.z)
    }

    proptest! {
        #[test]
        fn the_device_is_found_back_from_the_tool(
            frame in pose(), device in pose(), tool in pose(), scale in 0.1..10.0f64, to in vector(), from in pose()
        ) {
            let mut m = mapping(frame, scale);
            m.clutch(true, &from);
            m.clutch(false, &device);
            m.recentre(&to.into(), &device);
            let at = m.tool(&device, &Twist::ZERO, &tool).pose;
            prop_assert!(difference(&m.device(&at, &tool), &device).norm() < 1e-9);
            // Where nothing is mapped, nothing is changed in the last bit either.
            let plain = Mapping::default();
            let same = plain.device(&plain.tool(&device, &Twist::ZERO, &Pose::identity()).pose, &Pose::identity());
            prop_assert_eq!(same, device);
        }

        #[test]
        fn power_at_the_device_is_the_scenes_over_the_scale_squared(
            frame in pose(), device in pose(), tool in pose(), scale in 0.1..10.0f64,
            v in vector(), w in vector(), f in vector(), t in vector()
        ) {
            let m = mapping(frame, scale);
            let twist = Twist { linear: v, angular: w };
            let state = m.tool(&device, &twist, &tool);
            let scene = Wrench { force: f, torque: t };
            let felt = m.wrench(&scene, &state.lever);
            let p_scene = f.dot(&state.twist.linear) + t.dot(&state.twist.angular);
            let p_device = felt.force.dot(&v) + felt.torque.dot(&w);
            prop_assert!((p_device * scale * scale - p_scene).abs() < 1e-9 * (1.0 + p_scene.abs() + scale * scale));
            // Back in scene axes and about the tool's origin it is the scene's wrench over s and s^2.
            let back = m.felt(&felt, &state.lever);
            prop_assert!((back.force * scale - f).norm() < 1e-9);
            prop_assert!((back.torque * scale * scale - t).norm() < 1e-8);
        }

        #[test]
        fn the_twist_is_the_derivative_of_the_pose(
            frame in pose(), device in pose(), tool in pose(), scale in 0.1..10.0f64, v in vector(), w in vector()
        ) {
            let m = mapping(frame, scale);
            let h = 1e-6;
            let moved = |s: f64| Pose::from_parts(
                (device.translation.vector + v * s).into(),
                UnitQuaternion::from_scaled_axis(w * s) * device.rotation,
            );
            let d = difference(&m.tool(&moved(h), &Twist::ZERO, &tool).pose, &m.tool(&moved(-h), &Twist::ZERO, &tool).pose);
            let twist = m.tool(&device, &Twist { linear: v, angular: w }, &tool).twist;
            let t = Vector6::new(
                twist.linear.x, twist.linear.y, twist.linear.z, twist.angular.x, twist.angular.y, twist.angular.z,
            );
            prop_assert!((d / (2.0 * h) - t).norm() < 1e-6 * (1.0 + t.norm()), "{d} {t}");
        }

        #[test]
        fn the_stiffness_is_the_derivative_of_the_wrench(
            frame in pose(), device in pose(), tool in pose(), scale in 0.2..5.0f64,
            anchor in pose(), k in 10.0..1000.0f64
        ) {
            // A linear spring on the tool's origin: force -k (p - anchor), no torque.
            let m = mapping(frame, scale);
            let wrench = |device: &Pose| {
                let state = m.tool(device, &Twist::ZERO, &tool);
                let f = (state.pose.translation.vector - anchor.translation.vector) * -k;
                m.wrench(&Wrench { force: f, torque: Vec3::zeros() }, &state.lever)
            };
            let mut spring = Matrix6::zeros();
            spring.fixed_view_mut::<3, 3>(0, 0).fill_diagonal(k);
            let state = m.tool(&device, &Twist::ZERO, &tool);
            let felt = m.stiffness(&spring, &state.lever);
            let h = 1e-6;
            for axis in 0..3 {
                let mut step = Vec3::zeros();
                step[axis] = h;
                let moved = |s: f64| Pose::from_parts((device.translation.vector + step * s).into(), device.rotation);
                let (a, b) = (wrench(&moved(1.0)), wrench(&moved(-1.0)));
                let d = -(a.force - b.force) / (2.0 * h);
                let column = felt.fixed_view::<3, 1>(0, axis).into_owned();
                prop_assert!((d - column).norm() < 1e-5 * k, "{d} {column}");
                prop_assert!((column.norm() - k).abs() < 1e-9 * k, "the felt N/m do not depend on the scale");
            }
        }

        #[test]
        fn clutching_moves_the_device_and_not_the_tool(
            frame in pose(), first in pose(), second in pose(), third in pose(), scale in 0.1..10.0f64
        ) {
            let mut m = mapping(frame, scale);
            let before = m.point(&first);
            m.clutch(true, &first);
            prop_assert_eq!(m.point(&second), before);
            m.clutch(true, &second);
            prop_assert_eq!(m.point(&third), before);
            m.clutch(false, &second);
            prop_assert!(difference(&m.point(&second), &before).norm() < 1e-9);
            // From here on the tool follows: same displacement as without the clutch.
            let moved = m.point(&third).translation.vector - m.point(&second).translation.vector;
            let plain = mapping(frame, scale);
            let expect = plain.point(&third).translation.vector - plain.point(&second).translation.vector;
            prop_assert!((moved - expect).norm() < 1e-9);
        }

        #[test]
        fn recentring_puts_the_tool_point_there(frame in pose(), device in pose(), to in vector(), scale in 0.1..10.0f64) {
            let mut m = mapping(frame, scale);
            m.recentre(&Point::from(to), &device);
            prop_assert!((m.point(&device).translation.vector - to).norm() < 1e-9);
        }
    }
}
