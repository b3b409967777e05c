//! The coupling's place in the tick: where the tool is that the contact is asked at, and what the device feels of it.
//!
//! Nobody holds the force: the virtual tool is where the device is. Else it is a body of its own
//! ([`crate::haptics::coupling::dynamic`]), but starts anew from the device wherever the tool's pose jumps (another tool,
//! another mapping, recentring), and then goes through the gate as any force does.

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

use super::mapping::{Mapping, ToolState};
use super::query::Touch;
use crate::geometry::{Pose, Twist, Vec3, Wrench};
use crate::haptics::coupling::dynamic::{Body, Load, Spring, VirtualTool};
use crate::haptics::coupling::{Caps, Coupling, Law};
use crate::haptics::guard::Limits;

/// Force at which the spring gives half as much as a linear one, in multiples of the largest that the hand is to feel: below
/// that, a quarter of the stiffness is lost at most, and the guard's saturation comes first.
const ROOM: f64 = 4.0;
/// Stiffness that ties the tool to a device without motors, N/m.
const LEASH: f64 = 1000.0;
/// Least radius of the virtual tool, m: a point has no inertia to integrate.
const LEAST_RADIUS: f64 = 5e-3;

/// The virtual tool between device and contact.
#[derive(Debug)]
pub(super) struct Coupled {
    coupling: Coupling,
    caps: Caps,
    /// Damping time of the spring, s.
    tau: f64,
    limits: Limits,
    /// Fastest motion of the device, m/s.
    fastest: f64,
    tool: VirtualTool,
    /// The tool's frame in the coupling point's, as of this tick.
    offset: Pose,
    /// The device's tool point in the scene and its motion, as of this tick.
    target: VirtualTool,
    restart: bool,
}

impl Coupled {
    pub(super) fn new(coupling: Coupling, caps: &Caps, tau: f64, limits: &Limits, fastest: f64) -> Self {
        let still = VirtualTool { pose: Pose::identity(), twist: Twist::ZERO };
        Self {
            coupling,
            caps: *caps,
            tau,
            limits: *limits,
            fastest,
            tool: still,
            offset: Pose::identity(),
            target: still,
            restart: true,
        }
    }

    /// The virtual tool has a body of its own.
    pub(super) fn dynamic(&self) -> bool {
        self.coupling.law == Law::Dynamic
    }

    /// The tool's pose jumps in this tick: the virtual one jumps with it.
    pub(super) fn restart(&mut self) {
        self.restart = true;
    }

    /// The tool that touches, for the device's at `target`; `offset` is the tool's frame in the device's tool point's, `held`
    /// tells whether somebody holds the force.
    pub(super) fn tool(&mut self, target: &ToolState, offset: &Pose, held: bool) -> ToolState {
        if !self.dynamic() {
            return *target;
        }
        let point = Twist { linear: target.twist.at(&-target.lever), angular: target.twist.angular };
        self.target = VirtualTool { pose: target.pose * offset.inverse(), twist: point };
        self.offset = *offset;
        if std::mem::take(&mut self.restart) || !held {
            self.tool.follow(&self.target.pose, &self.target.twist);
            return *target;
        }
        let pose = self.tool.pose * offset;
        let lever = pose.translation.vector - self.tool.pose.translation.vector;
        let twist = Twist { linear: self.tool.twist.at(&lever), angular: self.tool.twist.angular };
        ToolState { pose, twist, lever }
    }

    /// Moves the virtual tool by `dt` s under the contact; what the device feels, device axes. `radius` is that of the tool's
    /// bounding ball.
    pub(super) fn step(
        &mut self,
        tool: &ToolState,
        touch: &Touch,
        mapping: &Mapping,
        radius: f64,
        dt: f64,
    ) -> Wrench {
        let scale = mapping.scale();
        let plain = Mapping::default();
        let load = Load {
            wrench: plain.wrench(&touch.wrench, &tool.lever),
            stiffness: plain.stiffness(&touch.stiffness, &tool.lever),
            damping: plain.stiffness(&touch.damping, &tool.lever),
        };
        let body = Body {
            mass: self.coupling.mass,
            radius: radius.max(LEAST_RADIUS),
            fastest: self.fastest * scale,
        };
        let spring = self.spring(&body, scale);
        let (target, motion) = (self.target.pose, self.target.twist);
        let felt = self.tool.step(&body, &spring, &target, &motion, &load, dt);
        let device = mapping.wrench(&felt, &Vec3::zeros());
        let on = self.caps.actuated.map(f64::from);
        let [x, y, z, rx, ry, rz] = on;
        Wrench {
            force: device.force.component_mul(&Vec3::new(x, y, z)),
            torque: device.torque.component_mul(&Vec3::new(rx, ry, rz)),
        }
    }

    /// The spring in scene units: as stiff as the device renders stably, what is not driven as stiff as the rest of the tool
    /// at its radius of gyration.
    fn spring(&self, body: &Body, scale: f64) -> Spring {
        let [x, y, z, rx, ry, rz] = self.caps.actuated;
        let moved = (x || y || z) && self.caps.stiffness > 0.0;
        let stiffness = if moved { self.caps.stiffness } else { LEASH };
        let turned = (rx || ry || rz) && self.caps.rot_stiffness > 0.0;
        let rot_stiffness = match turned {
            true => self.caps.rot_stiffness * scale * scale,
            false => stiffness * 0.4 * body.radius * body.radius,
        };
        Spring {
            stiffness,
            rot_stiffness,
            damping: self.tau * stiffness,
            rot_damping: self.tau * rot_stiffness,
            max_force: if moved { ROOM * self.limits.force() * scale } else { f64::INFINITY },
            max_torque: if turned { ROOM * self.limits.torque() * scale * scale } else { f64::INFINITY },
        }
    }
}
