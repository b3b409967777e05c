//! Steps 2 and 3 of a tick: the device's newest sample, checked; what was lost; what is held over.

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

use super::config::ServoConfig;
use super::record::{FLAG_HELD_SAMPLE, Fault};
use super::tick::Servo;
use super::velocity::Velocity;
use super::wrist::Wrist;
use crate::device::profile::Profile;
use crate::device::{Device, Lifecycle, ReadFault, Sample};
use crate::geometry::{Pose, Twist, Wrench};
use crate::haptics::guard::{SampleLimits, Seen, Verdict, Watch};
use std::sync::Arc;

/// The device as this tick knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sensed {
    /// Pose of the tool point, device frame.
    pub pose: Pose,
    /// Its twist, device axes.
    pub twist: Twist,
    /// Recent enough to give force on.
    pub fresh: bool,
    /// Button bits.
    pub buttons: u32,
    /// Sequence number of the sample.
    pub seq: u64,
    /// Samples lost since the last tick.
    pub lost: u32,
    /// Record flags.
    pub flags: u32,
}

/// What is remembered of the device's samples.
#[derive(Debug)]
pub(super) struct Sense {
    sample: Option<Sample>,
    /// When the sample arrived, ns.
    arrival_ns: u64,
    watch: Watch,
    velocity: Velocity,
    wrist: Wrist,
    limits: SampleLimits,
    /// Ages in ns beyond which a sample is stale, and a fault.
    stale_ns: (u64, u64),
    profile: Arc<Profile>,
}

/// How fine the device sees: m and rad between neighbouring encoder readings, in the middle of the workspace;
/// of a gimbal its step and six times its noise.
fn resolution(profile: &Profile) -> (f64, f64) {
    let angle = profile.gimbal.map_or(0.0, |g| g.resolution + 6.0 * g.noise);
    // Each joint may err by half a count at either end of a chord.
    let step = profile.counts_at_tool().into_iter().sum();
    (step, angle)
}

impl Sense {
    pub(super) fn new(config: &ServoConfig, profile: &Arc<Profile>) -> Self {
        let (step, angle) = resolution(profile);
        let turns = profile.senses_rotation();
        // Sensed, undriven wrists turn as fast as a hand does; only a driven rotation is a danger.
        let driven = profile.drives_rotation();
        Self {
            sample: None,
            arrival_ns: 0,
            watch: Watch::default(),
            velocity: Velocity::new(step, angle),
            wrist: Wrist::new(profile),
            limits: SampleLimits {
                plausible: profile.max_velocity,
                plausible_angular: if turns { profile.max_angular_velocity } else { f64::INFINITY },
                speed: config.max_velocity,
                angular_speed: if driven { config.max_angular_velocity } else { f64::INFINITY },
                reach: config.workspace_factor * profile.workspace_radius,
            },
            stale_ns: (
                u64::from(config.stale_ticks) * config.period_ns + config.period_ns / 2,
                (config.stale_fault * 1e9) as u64,
            ),
            profile: profile.clone(),
        }
    }

    /// True once the device has given a sample.
    pub(super) fn has_sample(&self) -> bool {
        self.sample.is_some()
    }

    /// The last good pose, device frame.
    pub(super) fn pose(&self) -> Option<Pose> {
        self.sample.map(|s| s.pose)
    }

    /// Forgets the past: after a fault the next sample is taken as it comes.
    pub(super) fn reset(&mut self) {
        self.watch.reset();
        self.velocity.reset();
        self.wrist.reset();
    }

    /// The wrench that holds the mechanism against gravity where it is, device frame.
    pub(super) fn gravity(&self) -> Wrench {
        self.sample.map_or(Wrench::ZERO, |s| self.profile.gravity_compensation(&s.joints))
    }

    fn take(&mut self, mut sample: Sample, now: u64) {
        sample.pose.rotation = self.wrist.follow(sample.pose.rotation);
        self.velocity.push(&sample.pose, sample.time_ns);
        self.sample = Some(sample);
        self.arrival_ns = now;
    }
}

impl Servo {
    /// Reads and checks. Faults are latched here; without any sample yet the pose is the identity, at rest.
    pub(super) fn sense(&mut self, device: &mut dyn Device, now: u64) -> Sensed {
        let mut lost = 0;
        let mut held = true;
        if device.lifecycle() == Lifecycle::Ready {
            match device.read(now) {
                Ok(sample) => {
                    lost = sample.lost;
                    let new = self.sense.sample.is_none_or(|last| last.seq != sample.seq);
                    held = !(new && self.judge(sample, now));
                }
                Err(ReadFault::Stale | ReadFault::Garbled) => lost = 1,
                Err(ReadFault::Gone) => self.arming.device(Lifecycle::Absent),
            }
        }
        let sense = &mut self.sense;
        let age = now.saturating_sub(sense.arrival_ns);
        let fresh = sense.sample.is_some() && age <= sense.stale_ns.0;
        let twist = if fresh { sense.velocity.twist() } else { Twist::ZERO };
        let limits =
            SampleLimits { speed: sense.limits.speed.min(self.arming.lowered.velocity), ..sense.limits };
        let pose = sense.pose().unwrap_or_else(Pose::identity);
        if self.arming.owned() {
            if sense.sample.is_none() || age > sense.stale_ns.1 {
                self.arming.fail(Fault::Stale);
            }
            if !held {
                match sense.watch.motion(&limits, &pose, &twist) {
                    Seen::Fine => {}
                    Seen::TooFast => self.arming.fail(Fault::Velocity),
                    Seen::Outside => self.arming.fail(Fault::Workspace),
                }
            }
        }
        if !held {
            super::flags::add(&self.end.counters.samples, 1);
        }
        let sense = &self.sense;
        Sensed {
            pose,
            twist,
            fresh,
            buttons: sense.sample.map_or(0, |s| s.buttons),
            seq: sense.sample.map_or(0, |s| s.seq),
            lost,
            flags: if held { FLAG_HELD_SAMPLE } else { 0 },
        }
    }

    /// Takes a good sample; true when it was taken.
    fn judge(&mut self, sample: Sample, now: u64) -> bool {
        match self.sense.watch.sample(&self.sense.limits, &sample.pose, sample.time_ns) {
            Verdict::Use => {
                self.sense.take(sample, now);
                self.energy.sample(self.tick, &sample);
                return true;
            }
            Verdict::Hold => {}
            Verdict::NonFinite => self.arming.fail(Fault::NonFiniteSample),
            Verdict::Jump if self.arming.owned() => self.arming.fail(Fault::PoseJump),
            // Nobody holds the force: the device was moved while nobody looked.
            Verdict::Jump => {
                self.sense.reset();
                self.energy.restart(self.tick);
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::kinematics::Kinematics;
    use crate::device::registry::Registry;

    #[test]
    fn resolution_matches_the_sheets() {
        let registry = Registry::builtin();
        for profile in registry.profiles() {
            let (step, _) = resolution(profile);
            if matches!(profile.kinematics, Kinematics::Ideal) {
                assert_eq!(step, 0.0);
            } else {
                // Between the finest (Premium 1.5: 30 um nominal) and three joints of the coarsest (Falcon: 57 um a
                // count on the axis, research on libnifalcon's geometry).
                assert!((10e-6..200e-6).contains(&step), "{}: {step}", profile.name);
            }
        }
    }
}
