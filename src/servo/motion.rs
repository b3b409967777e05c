//! Playback of streamed object poses: interpolated on sender time with a bounded, stated delay; velocity derived.
//!
//! Each moving object plays its samples `delay` after their time. When newer samples change the curve, what was played
//! so far goes over to the new curve without a jump in pose or velocity. When the stream's lease lapses, the object
//! freezes where it was. Real-time safe.

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

pub mod curve;

use crate::geometry::{Pose, Twist, Vec3};
use crate::scene::snapshot::{MAX_MOVING, MotionEntry, MotionFrame, SnapshotObject};
use curve::Curve;
use nalgebra::UnitQuaternion;

/// Time constant with which a difference between the played and the present curve fades, s.
const BLEND: f64 = 0.015;
/// The playback clock runs at most this much faster or slower to follow a changed delay.
const CLOCK_RATE: f64 = 0.1;
/// A difference beyond this is a jump (m, rad): taken at once, and the caller fades the contact in.
const JUMP: (f64, f64) = (5e-3, 0.1);

/// What an object does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stream {
    /// It has no stream: it rests at its own pose.
    #[default]
    Rest,
    /// It follows its stream.
    Playing,
    /// Its stream stopped: frozen.
    Stopped,
}

/// One object in one tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Played {
    /// Pose in the scene.
    pub pose: Pose,
    /// Velocity of its origin and rotation, scene axes.
    pub twist: Twist,
    /// What it does.
    pub stream: Stream,
    /// It jumped in this tick (a stream began elsewhere, or a pose was edited).
    pub jumped: bool,
}

/// A difference to the curve that fades, critically damped.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Offset {
    value: Vec3,
    rate: Vec3,
}

impl Offset {
    fn advance(&mut self, dt: f64) {
        let decay = (-dt / BLEND).exp();
        let c = self.rate + self.value / BLEND;
        self.value = (self.value + c * dt) * decay;
        self.rate = (self.rate - c * (dt / BLEND)) * decay;
    }
}

#[derive(Clone, Copy, Debug)]
struct Player {
    /// Object and incarnation; (0, 0) = nobody.
    of: (u32, u32),
    stream: Stream,
    curve: Option<Curve>,
    /// The knots that the curve was built from, as [`curve::fingerprint`] tells them apart.
    built: u64,
    /// Playback time, ns.
    time: f64,
    /// Last tick, ns.
    last_ns: u64,
    pose: Pose,
    twist: Twist,
    linear: Offset,
    angular: Offset,
}

/// The players of all moving objects.
#[derive(Clone, Debug)]
pub struct Motions {
    players: Box<[Player]>,
}

impl Default for Motions {
    #[allow(clippy::disallowed_macros, reason = "allocated once, before the first tick")]
    fn default() -> Self {
        let player = Player {
            of: (0, 0),
            stream: Stream::Rest,
            curve: None,
            built: 0,
            time: 0.0,
            last_ns: 0,
            pose: Pose::identity(),
            twist: Twist::ZERO,
            linear: Offset::default(),
            angular: Offset::default(),
        };
        Self { players: vec![player; MAX_MOVING].into() }
    }
}

impl Motions {
    /// Where `object` is at `now_ns`. Objects without a motion slot rest at their pose.
    pub fn play(&mut self, object: &SnapshotObject, frame: Option<&MotionFrame>, now_ns: u64) -> Played {
        let rest = Played { pose: object.pose, twist: Twist::ZERO, stream: Stream::Rest, jumped: false };
        let Some(slot) = object.motion.map(usize::from) else { return rest };
        let Some(player) = self.players.get_mut(slot) else { return rest };
        let of = (object.id, object.incarnation);
        if player.of != of {
            (player.of, player.stream, player.curve) = (of, Stream::Rest, None);
        }
        let entry = frame.and_then(|f| f.entries.get(slot)).and_then(Option::as_ref);
        let entry = entry.filter(|e| (e.id, e.incarnation) == of && e.lease_until_ns > now_ns);
        let played = entry.and_then(|e| player.follow(e, object, now_ns));
        played.unwrap_or_else(|| player.freeze(object, now_ns))
    }
}

impl Player {
    /// No valid stream: at rest if there never was one, frozen otherwise.
    fn freeze(&mut self, object: &SnapshotObject, now_ns: u64) -> Played {
        let before = (self.stream, self.pose);
        if self.stream == Stream::Rest {
            self.pose = object.pose;
        } else {
            self.stream = Stream::Stopped;
        }
        self.curve = None;
        self.twist = Twist::ZERO;
        self.last_ns = now_ns;
        Played {
            pose: self.pose,
            twist: Twist::ZERO,
            stream: self.stream,
            jumped: before.0 == Stream::Rest && before.1 != self.pose,
        }
    }

    fn follow(&mut self, entry: &MotionEntry, object: &SnapshotObject, now_ns: u64) -> Option<Played> {
        let samples = entry.samples.get(..usize::from(entry.len))?;
        let dt = now_ns.saturating_sub(self.last_ns) as f64 * 1e-9;
        let fresh = self.stream != Stream::Playing;
        let before = self.time;
        self.time = self.clock(now_ns.saturating_sub(entry.delay_ns) as f64, dt * 1e9, fresh);

        let at = self.time as u64;
        let knots = curve::fingerprint(samples, at);
        let rebuilt = fresh || self.curve.is_none() || self.built != knots;
        if rebuilt {
            self.curve = Some(Curve::new(samples, at)?);
            self.built = knots;
        }
        let curve = self.curve.as_ref()?;
        let (pose, twist) = curve.at(self.time);
        let jumped = if fresh {
            let from = if self.stream == Stream::Rest { object.pose } else { self.pose };
            self.take_over((pose, twist), &from, &Twist::ZERO)
        } else if rebuilt {
            let (present, played) = (curve.at(before), (self.pose, self.twist));
            self.take_over(present, &played.0, &played.1)
        } else {
            false
        };
        if !fresh {
            self.linear.advance(dt);
            self.angular.advance(dt);
        }
        let turn = UnitQuaternion::from_scaled_axis(self.angular.value);
        self.pose =
            Pose::from_parts((pose.translation.vector + self.linear.value).into(), turn * pose.rotation);
        self.twist = Twist {
            linear: twist.linear + self.linear.rate,
            angular: turn * twist.angular + self.angular.rate,
        };
        self.stream = Stream::Playing;
        self.last_ns = now_ns;
        Some(Played { pose: self.pose, twist: self.twist, stream: Stream::Playing, jumped })
    }

    /// Playback time: follows `target` (ns) without stepping, never backwards.
    fn clock(&self, target: f64, dt: f64, fresh: bool) -> f64 {
        let error = target - (self.time + dt);
        if fresh || error.abs() > 0.5e9 {
            return target;
        }
        self.time + dt + error.clamp(-CLOCK_RATE * dt, CLOCK_RATE * dt)
    }

    /// Makes the offset such that playing goes on from `pose` and `twist` where the curve says `curve`. True when that
    /// is too far to bridge: then the curve is taken as it is.
    fn take_over(&mut self, curve: (Pose, Twist), pose: &Pose, twist: &Twist) -> bool {
        let value = pose.translation.vector - curve.0.translation.vector;
        let turn = (pose.rotation * curve.0.rotation.inverse()).scaled_axis();
        if !(value.norm() <= JUMP.0 && turn.norm() <= JUMP.1) {
            (self.linear, self.angular) = (Offset::default(), Offset::default());
            return true;
        }
        self.linear = Offset { value, rate: twist.linear - curve.1.linear };
        self.angular = Offset { value: turn, rate: twist.angular - curve.1.angular };
        false
    }
}

#[cfg(test)]
mod tests;
