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

use super::fading::{overlap, size};
use super::mapping::{Mapping, ToolState};
use super::query::Touch;
use crate::geometry::{Pose, Twist, Vec3, Wrench};
use crate::haptics::braking::{self, Braking};
use crate::haptics::coupling::dynamic::{Body, Load, Spring, VirtualTool};
use crate::haptics::coupling::{Caps, Coupling};
use crate::haptics::guard::Limits;

/// Force at which the spring gives half as much as a linear one, in multiples of the largest that the hand is to feel: below
/// that, a quarter of the stiffness is lost at most, and the guard's saturation comes first.
const ROOM: f64 = 4.0;
/// Multiple of the largest force that the hand is to feel at which the spring gives way: harder the hand cannot be held, and the virtual
/// tool need not be pressed.
const REACH: f64 = 1.5;
/// A rotation that the device does not drive is held by this many times the rest's stiffness: what is felt at the tool is the
/// spring of the driven axes (1/100 of the stretch is the rotation's), and the tool keeps the device's rotation.
const LOCK: f64 = 100.0;
/// Friction holds the virtual tool with at most so many times the spring's stiffness: four fifths of that are felt.
const GRIP: f64 = 4.0;
/// Stiffness that ties the tool to a device without motors, N/m.
const LEASH: f64 = 1000.0;
/// Force that counts as none, N, and at [`LEAST_RADIUS`] for torques: less than a motor code of the Omni's.
const UNFELT: f64 = 1e-3;
/// Least radius of the virtual tool, m: a point has no inertia to integrate.
const LEAST_RADIUS: f64 = 5e-3;

/// What is felt of an edit: however stiff the contact and however soon it carries the whole spring, the wrench goes from what was
/// felt before to the spring's in the fade's time. No more is held back than the edit adds: what the hand presses meanwhile is felt.
#[derive(Clone, Copy, Debug)]
struct Fade {
    /// Felt before.
    from: Wrench,
    /// Most that is held back, N, torques measured at the tool's radius.
    most: f64,
    /// What is held back now.
    held: f64,
    /// The part of the rest that is felt, 0..=1.
    part: f64,
}

impl Fade {
    const OVER: Self = Self { from: Wrench::ZERO, most: 0.0, held: 0.0, part: 1.0 };

    /// Contacts of the size `more` begin. What is held back already goes on coming, by one step of the fade.
    fn begin(&self, felt: &Wrench, more: f64, step: f64) -> Self {
        Self { from: *felt, most: self.held * (1.0 - step) + more, held: 0.0, part: 0.0 }
    }

    /// What is felt of `wrench`; of what was felt before only what the spring still gives, so that it lets go with the hand.
    fn felt(&mut self, wrench: &Wrench, length: f64) -> Wrench {
        self.held = 0.0;
        if self.part >= 1.0 {
            return *wrench;
        }
        let still = overlap(wrench, &self.from, length).min(1.0);
        let comes = *wrench + self.from.scaled(-still);
        let all = size(&comes, length);
        let back = (1.0 - self.part) * if all > self.most { self.most / all } else { 1.0 };
        self.held = back * all;
        *wrench + comes.scaled(-back)
    }
}

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
    /// From the device's tool point to the tool's origin if it were there, scene axes.
    lever: Vec3,
    fade: Fade,
    /// Felt in the last tick, scene axes, about the coupling point.
    felt: Wrench,
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
            lever: Vec3::zeros(),
            fade: Fade::OVER,
            felt: Wrench::ZERO,
            restart: true,
        }
    }

    /// A virtual tool lies between device and contact.
    pub(super) fn virtual_tool(&self) -> bool {
        self.coupling.virtual_mass().is_some()
    }

    /// What the device renders stably from now on, and the damping time of the spring, s.
    pub(super) fn within(&mut self, caps: &Caps, tau: f64) {
        (self.caps, self.tau) = (*caps, tau);
    }

    /// The tool's pose jumps in this tick: the virtual one jumps with it.
    pub(super) fn restart(&mut self) {
        self.restart = true;
    }

    /// The view is moved by this motion of the scene: the virtual tool goes with the device, its spring as it is.
    pub(super) fn carry(&mut self, by: &Pose) {
        self.shift(by);
        self.target.pose = by * self.target.pose;
    }

    fn shift(&mut self, by: &Pose) {
        let Twist { linear, angular } = self.tool.twist;
        let twist = Twist { linear: by.rotation * linear, angular: by.rotation * angular };
        self.tool = VirtualTool { pose: by * self.tool.pose, twist };
        self.tool.pose.rotation.renormalize();
    }

    /// The tool that touches, for the device's at `target`; `offset` is the tool's frame in the device's tool point's, `held`
    /// tells whether somebody holds the force, `back` that where the hand is was not known before: the virtual tool has gone with it.
    pub(super) fn tool(&mut self, target: &ToolState, offset: &Pose, held: bool, back: bool) -> ToolState {
        self.lever = target.lever;
        if !self.virtual_tool() {
            return *target;
        }
        let point = Twist { linear: target.twist.at(&-target.lever), angular: target.twist.angular };
        let now = VirtualTool { pose: target.pose * offset.inverse(), twist: point };
        let before = std::mem::replace(&mut self.target, now);
        self.offset = *offset;
        if std::mem::take(&mut self.restart) || !held {
            self.tool.follow(&self.target.pose, &self.target.twist);
            (self.fade, self.felt) = (Fade::OVER, Wrench::ZERO);
            return *target;
        }
        if back {
            self.shift(&(now.pose * before.pose.inverse()));
        }
        let pose = self.tool.pose * offset;
        let lever = pose.translation.vector - self.tool.pose.translation.vector;
        let twist = Twist { linear: self.tool.twist.at(&lever), angular: self.tool.twist.angular };
        ToolState { pose, twist, lever }
    }

    /// The contact's stiffness as it is felt, N/m: with a virtual tool in series with the spring.
    pub(super) fn stiffness(&self, contact: f64) -> f64 {
        match self.virtual_tool() {
            true => contact * self.linear() / (contact + self.linear()),
            false => contact,
        }
    }

    /// The device has motors that push.
    fn pushes(&self) -> bool {
        self.caps.linear() > 0.0
    }

    /// Stiffness of a virtual tool's spring, N/m; none without.
    pub(super) fn spring_stiffness(&self) -> Option<f64> {
        self.virtual_tool().then(|| self.linear())
    }

    /// Stiffness of the spring, N/m.
    fn linear(&self) -> f64 {
        if self.pushes() { self.caps.stiffness } else { LEASH }
    }

    /// Fastest motion of the device, m/s.
    pub(super) fn fastest(&self) -> f64 {
        self.fastest
    }

    /// How the tool is braked before it touches; `scale` is scene metres per device metre.
    pub(super) fn braking(&self, scale: f64) -> Braking {
        // The layer is one of the hand's, N s/m are the same at both ends.
        let damping = if self.pushes() { braking::PART * self.caps.damping } else { 0.0 };
        Braking { range: self.coupling.braking * scale, damping }
    }

    /// How stiff the friction of a contact is at most, N/m: behind the spring more is hardly felt. Directly the cap sees to it.
    pub(super) fn grip(&self) -> f64 {
        if self.virtual_tool() { GRIP * self.linear() } else { f64::INFINITY }
    }

    /// From the device's tool point to the tool's origin where the device has it, scene axes: the command's lever.
    pub(super) fn lever(&self) -> Vec3 {
        self.lever
    }

    /// Moves the virtual tool by `dt` s under the contact; what the device feels, device axes. `radius` is that of the tool's
    /// bounding ball, `fade` the time over which changes fade in, s.
    pub(super) fn step(
        &mut self,
        tool: &ToolState,
        touch: &Touch,
        mapping: &Mapping,
        radius: f64,
        fade: f64,
        dt: f64,
    ) -> Wrench {
        let scale = mapping.scale();
        let plain = Mapping::default();
        let load = Load {
            wrench: plain.wrench(&touch.wrench, &tool.lever),
            stiffness: plain.stiffness(&touch.stiffness, &tool.lever),
            damping: plain.stiffness(&touch.damping, &tool.lever),
            carried: plain.wrench(&touch.carried, &tool.lever),
        };
        let body = Body {
            mass: self.coupling.virtual_mass().unwrap_or(0.0),
            radius: radius.max(LEAST_RADIUS),
            lever: self.offset.translation.vector.norm(),
            fastest: self.fastest * scale,
        };
        let spring = self.spring(&body, scale);
        let (target, motion) = (self.target.pose, self.target.twist);
        let faster = (dt / fade).min(1.0);
        self.fade = match touch.left_out > 0.0 {
            true => self.fade.begin(&self.felt, touch.left_out, faster),
            false => Fade { part: (self.fade.part + faster).min(1.0), ..self.fade },
        };
        let wrench = self.tool.step(&body, &spring, &target, &motion, &load, dt);
        self.felt = self.fade.felt(&wrench, radius);
        self.caps.driven(&mapping.wrench(&self.felt, &Vec3::zeros()))
    }

    /// The spring in scene units: as stiff as the device renders stably, what is not driven locked to the rest of the tool
    /// at its radius of gyration.
    fn spring(&self, body: &Body, scale: f64) -> Spring {
        let stiffness = self.linear();
        let turned = self.caps.actuated[3..].contains(&true) && self.caps.rot_stiffness > 0.0;
        let rot_stiffness = match turned {
            true => self.caps.rot_stiffness * scale * scale,
            false => LOCK * stiffness * body.gyration(),
        };
        let max_force = if self.pushes() { ROOM * self.limits.force() * scale } else { f64::INFINITY };
        let max_torque = if turned { ROOM * self.limits.torque() * scale * scale } else { f64::INFINITY };
        // most s/(1 + s) is REACH/ROOM of most at s = REACH/(ROOM - REACH).
        let reach = |most: f64, k: f64| REACH / (ROOM - REACH) * most / k;
        Spring {
            stiffness,
            rot_stiffness,
            damping: self.tau * stiffness,
            rot_damping: self.tau * rot_stiffness,
            max_force,
            max_torque,
            max_stretch: reach(max_force, stiffness),
            max_turn: reach(max_torque, rot_stiffness),
        }
    }
}

/// Whether a virtual tool's spring gives more than nothing: its wrench is never exactly zero.
pub(super) fn perceptible(wrench: &Wrench) -> bool {
    wrench.force.norm() > UNFELT || wrench.torque.norm() > UNFELT * LEAST_RADIUS
}
