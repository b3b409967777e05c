//! The view: the place of a device's workspace in the scene, moved about by another device, which pushes no hand.
//!
//! The mover's servo tells each tick which motion its hand asks for ([`View`], a latest-value mailbox), in the axes of the moved
//! device's workspace and at its size; the moved device's servo integrates it. What is old, or not there, moves nothing.
//!
//! **A moved view pushes nobody.** To the hand it is a motion of the scene that it did not make. So while the device gives force
//! the view stands still wherever the tool is touched, or nearly so, or held by an effect (a spring, a magnet), and wherever nobody
//! knows; elsewhere it comes no closer to anything in a tick than a small part of the way that is left. A virtual tool is carried along, so that its spring
//! does not stretch; and the speed of the view is none of the tool's, so that nothing viscous drags.

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

use super::adopt::Adopted;
use super::query::Touch;
use super::sense::Sensed;
use super::tick::Servo;
use crate::device::io::mailbox::Mailbox;
use crate::device::{Device, Lifecycle};
use crate::geometry::{Pose, Twist, Vec3};
use std::sync::Arc;

/// Fastest view, m/s at the size of the device, and rad/s: twice what a SpaceMouse asks for along one axis.
pub const FASTEST: (f64, f64) = (0.3, 3.0);
/// A request older than this moves nothing, ns: some fifty ticks of the mover, so that a busy machine does not stop it.
pub const STALE_NS: u64 = 50_000_000;
/// Way that is left between tool and objects while there is force, m at the size of the device.
pub const GAP: f64 = 0.002;
/// The view comes no closer than what is left over this time lets it, s.
const APPROACH: f64 = 0.05;
/// Button that puts the view back to where the scene has it: the second, "fit" on the devices that are meant.
const RESET: u32 = 2;

/// What a mover asks of a view. One servo tells, one is told; share it by reference.
#[derive(Debug, Default)]
pub struct View(Mailbox<8>);

/// The motion asked for, and how often the view was put back.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Asked {
    rate: Twist,
    resets: u64,
}

impl View {
    fn tell(&self, rate: &Twist, now_ns: u64, resets: u64) {
        let [x, y, z] = rate.linear.into();
        let [a, b, c] = rate.angular.into();
        let bits = f64::to_bits;
        self.0.put(&[bits(x), bits(y), bits(z), bits(a), bits(b), bits(c), now_ns, resets]);
    }

    /// What is asked at `now_ns`; no motion where that is old or makes no sense.
    fn asked(&self, now_ns: u64) -> Option<Asked> {
        let (_, [x, y, z, a, b, c, told_ns, resets]) = self.0.newest()?;
        let of = f64::from_bits;
        let rate = Twist { linear: Vec3::new(of(x), of(y), of(z)), angular: Vec3::new(of(a), of(b), of(c)) };
        let fresh = now_ns.saturating_sub(told_ns) <= STALE_NS;
        let rate = if fresh && rate.is_finite() { bounded(&rate) } else { Twist::ZERO };
        Some(Asked { rate, resets })
    }
}

fn bounded(rate: &Twist) -> Twist {
    let cut = |v: &Vec3, most: f64| v * (most / v.norm().max(most));
    Twist { linear: cut(&rate.linear, FASTEST.0), angular: cut(&rate.angular, FASTEST.1) }
}

/// A servo whose device moves a view.
#[derive(Debug)]
pub(super) struct Mover {
    view: Arc<View>,
    pressed: bool,
    resets: u64,
}

impl Mover {
    pub(super) fn new(view: Arc<View>) -> Self {
        // A servo that is started anew goes on counting.
        let resets = view.asked(0).map_or(0, |a| a.resets);
        Self { view, pressed: false, resets }
    }
}

/// A servo whose workspace is moved.
#[derive(Debug)]
pub(super) struct Moved {
    view: Arc<View>,
    /// Resets seen.
    resets: Option<u64>,
    /// What the last tick's contacts leave, and the tool's place then, scene m.
    room: Room,
    /// Speed of the fastest point of the tool that the view gave it in this tick, scene m/s.
    speed: f64,
    /// The view's motion in this tick, scene axes, about the workspace's origin.
    motion: Twist,
}

/// What the contacts of a tick leave to the view.
#[derive(Clone, Copy, Debug)]
struct Room {
    /// Smallest separation, m; 0 where the view has to stand still.
    left: f64,
    at: Vec3,
}

impl Moved {
    pub(super) fn new(view: Arc<View>) -> Self {
        let room = Room { left: 0.0, at: Vec3::zeros() };
        Self { view, resets: None, room, speed: 0.0, motion: Twist::ZERO }
    }

    /// Speed that the view gives the tool, scene m/s.
    pub(super) fn speed(&self) -> f64 {
        self.speed
    }

    /// What a tick's contacts leave to the next tick's view.
    pub(super) fn left(&mut self, touch: &Touch, tool: &Pose) {
        let still = touch.placed || touch.touched > 0 || touch.stopped || !touch.complete;
        self.room = Room { left: if still { 0.0 } else { touch.distance }, at: tool.translation.vector };
    }

    /// The part of the motion asked for that there is room for; it would move the tool's fastest point by `fastest` scene m/s.
    fn part(&self, fastest: f64, scale: f64) -> f64 {
        ((self.room.left - GAP * scale) / (APPROACH * fastest)).clamp(0.0, 1.0)
    }
}

impl Servo {
    /// Tells the view what this device's hand asks of it.
    pub(super) fn tell_view(&mut self, device: &dyn Device, sensed: &Sensed, now: u64) {
        let Some(mover) = &mut self.mover else { return };
        let there = sensed.fresh && device.lifecycle() == Lifecycle::Ready;
        let rate = if there { device.rate().unwrap_or(sensed.twist) } else { Twist::ZERO };
        let pressed = there && sensed.buttons & RESET != 0;
        mover.resets += u64::from(pressed && !mover.pressed);
        mover.pressed = pressed;
        mover.view.tell(&rate, now, mover.resets);
    }

    /// Moves this device's view as it is asked to.
    pub(super) fn move_view(&mut self, sensed: &Sensed, adopted: &Adopted, now: u64, dt: f64) {
        let Some(moved) = &mut self.moved else { return };
        (moved.speed, moved.motion) = (0.0, Twist::ZERO);
        let Some(asked) = moved.view.asked(now) else { return };
        let seen = moved.resets.replace(asked.resets);
        if seen.is_some_and(|seen| seen != asked.resets) && self.mapping.put_back() {
            self.regate();
            return;
        }
        if asked.rate == Twist::ZERO {
            return;
        }
        let radius = self.end.snapshots.current().map_or(0.0, |s| s.tool.bound_radius);
        let (origin, scale) = (self.mapping.frame(), self.mapping.scale());
        let reach = (moved.room.at - origin.translation.vector).norm() + radius;
        let fastest = asked.rate.linear.norm() * scale + asked.rate.angular.norm() * reach;
        let part = match self.arming.gain() > 0.0 {
            false => 1.0,
            // Of a new scene nothing is known yet.
            true if adopted.since.is_some() => 0.0,
            true => moved.part(fastest, scale),
        };
        let rate = Twist { linear: asked.rate.linear * part, angular: asked.rate.angular * part };
        if rate == Twist::ZERO {
            return;
        }
        let before = self.mapping.point(&sensed.pose);
        if !self.mapping.carry(&rate, dt) {
            return;
        }
        moved.speed = fastest * part;
        let turn = origin.rotation;
        moved.motion = Twist { linear: turn * (rate.linear * scale), angular: turn * rate.angular };
        let after = self.mapping.point(&sensed.pose);
        self.coupled.carry(&(after * before.inverse()));
    }

    /// Where the workspace stands in the scene now and how the view moves it, for others to read.
    pub(super) fn show_view(&self) {
        let Some(moved) = &self.moved else { return };
        self.end.counters.workspace.show(&self.mapping.frame(), &moved.motion);
    }
}

/// A workspace as others see it: where it stands and how its view moves it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workspace {
    /// The device's frame in the scene.
    pub pose: Pose,
    /// Velocity of its origin and rotation, scene axes.
    pub twist: Twist,
}

/// The newest [`Workspace`] of a servo whose view is moved.
#[derive(Debug, Default)]
pub struct Shown(Mailbox<13>);

impl Shown {
    fn show(&self, pose: &Pose, twist: &Twist) {
        let mut words = [0; 13];
        let numbers = pose.translation.vector.iter().chain(pose.rotation.coords.iter());
        let numbers = numbers.chain(twist.linear.iter()).chain(twist.angular.iter());
        words.iter_mut().zip(numbers).for_each(|(word, number)| *word = number.to_bits());
        self.0.put(&words);
    }

    /// It; `None` where no view is moved, and before the first tick. For any thread.
    pub fn newest(&self) -> Option<Workspace> {
        let (_, words) = self.0.newest()?;
        let [x, y, z, i, j, k, w, vx, vy, vz, wx, wy, wz] = words.map(f64::from_bits);
        let rotation = nalgebra::Unit::new_unchecked(nalgebra::Quaternion::new(w, i, j, k));
        let twist = Twist { linear: Vec3::new(vx, vy, vz), angular: Vec3::new(wx, wy, wz) };
        Some(Workspace { pose: Pose::from_parts(Vec3::new(x, y, z).into(), rotation), twist })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servo::mapping::{FARTHEST, Mapping};

    fn rate(linear: [f64; 3], angular: [f64; 3]) -> Twist {
        Twist { linear: linear.into(), angular: angular.into() }
    }

    #[test]
    fn what_is_old_or_no_number_asks_for_nothing_and_what_is_too_fast_for_less() {
        let view = View::default();
        assert_eq!(view.asked(0), None);
        let wanted = rate([0.1, -0.2, 0.0], [0.0, 1.0, 2.0]);
        view.tell(&wanted, 1000, 3);
        assert_eq!(view.asked(1000 + STALE_NS), Some(Asked { rate: wanted, resets: 3 }));
        assert_eq!(view.asked(1001 + STALE_NS), Some(Asked { rate: Twist::ZERO, resets: 3 }));
        // The two servos' ticks fall where they fall: a moment ahead is no age.
        assert_eq!(view.asked(999), Some(Asked { rate: wanted, resets: 3 }));
        for broken in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            view.tell(&rate([0.0, broken, 0.0], [0.0; 3]), 1000, 3);
            assert_eq!(view.asked(1000), Some(Asked { rate: Twist::ZERO, resets: 3 }));
            view.tell(&rate([0.0; 3], [broken, 0.0, 0.0]), 1000, 3);
            assert_eq!(view.asked(1000), Some(Asked { rate: Twist::ZERO, resets: 3 }));
        }
        view.tell(&rate([30.0, 0.0, -40.0], [0.0, 1e9, 0.0]), 1000, 3);
        let cut = view.asked(1000).expect("told").rate;
        assert!((cut.linear - Vec3::new(0.18, 0.0, -0.24)).norm() < 1e-12);
        assert!((cut.angular - Vec3::new(0.0, 3.0, 0.0)).norm() < 1e-12);
    }

    /// A turn about the workspace's own y by w for a time t under a speed along its own x is an arc: radius v / w, closed form.
    #[test]
    fn the_workspace_goes_where_its_own_axes_point() {
        let mut mapping = Mapping::default();
        let place = Pose::new(Vec3::new(0.1, 0.2, 0.3), Vec3::new(0.0, 0.7, 0.0));
        mapping.set(&place, 2.0);
        let (v, w, t, n) = (0.1, 0.5, 2.0, 20_000);
        for _ in 0..n {
            assert!(mapping.carry(&rate([v, 0.0, 0.0], [0.0, w, 0.0]), t / f64::from(n)));
        }
        let (r, a) = (2.0 * v / w, w * t);
        // About y, x turns towards -z.
        let local = Pose::new(Vec3::new(r * a.sin(), 0.0, -r * (1.0 - a.cos())), Vec3::new(0.0, a, 0.0));
        let (is, should) = (mapping.frame(), place * local);
        assert!((is.translation.vector - should.translation.vector).norm() < 1e-4, "{is} {should}");
        assert!(is.rotation.angle_to(&should.rotation) < 1e-9);
        assert!((is.rotation.norm() - 1.0).abs() < 1e-12);
        assert!(mapping.put_back());
        assert_eq!(mapping.frame(), place);
        assert!(!mapping.put_back(), "it is there");
    }

    #[test]
    fn a_view_that_is_pushed_for_years_stays_where_numbers_are_good_and_can_come_back() {
        let mut mapping = Mapping::default();
        mapping.set(&Pose::identity(), 100.0);
        let out = rate([0.3, 0.0, 0.0], [0.0; 3]);
        let mut steps = 0;
        while mapping.carry(&out, 0.05) {
            steps += 1;
            assert!(steps < 1000);
        }
        assert!(mapping.frame().translation.vector.norm() <= FARTHEST);
        assert!(mapping.carry(&rate([-0.3, 0.0, 0.0], [0.0; 3]), 0.05));
    }

    #[test]
    fn a_workspace_is_read_as_it_was_shown() {
        let shown = Shown::default();
        assert_eq!(shown.newest(), None);
        let pose = Pose::new(Vec3::new(1.0, -2.0, 3.0), Vec3::new(0.3, 0.2, -0.1));
        let twist = rate([0.1, 0.2, 0.3], [0.4, 0.5, 0.6]);
        shown.show(&pose, &twist);
        assert_eq!(shown.newest(), Some(Workspace { pose, twist }));
    }
}
