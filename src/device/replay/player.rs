//! Plays a track. There is no mechanism and there are no motors: what is commanded is worked out as the recorded device would
//! have taken it, and goes nowhere.

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

use super::Track;
use crate::device::actuators;
use crate::device::kinematics::{Kinematics, gimbal};
use crate::device::profile::{Profile, SAMPLE_PERIOD_NS};
use crate::device::{
    Accepted, Device, DeviceError, Emergency, Lifecycle, NoMotors, ReadFault, Sample, WriteFault,
};
use crate::geometry::pose::{Pose, Wrench};
use std::sync::Arc;

/// The first moment is taken to have been so long before the first read, ns: a tick may be early by so much and still gets the
/// moment of the tick that was recorded.
const SLACK_NS: u64 = SAMPLE_PERIOD_NS / 2;

/// Plays a [`Track`]. Its time begins at the first read; at the end it holds the last pose.
pub struct ReplayDevice {
    profile: Arc<Profile>,
    track: Arc<Track>,
    /// Servo time of the first moment, ns.
    begin_ns: Option<u64>,
    /// Moments that are over.
    over: usize,
    last: Option<Sample>,
    last_word: Arc<dyn Emergency>,
}

impl ReplayDevice {
    /// `profile`: that of the recorded device. Its limits hold, and the servo reads its resolution.
    // Before the servo runs: it may allocate.
    #[allow(clippy::disallowed_methods)]
    pub fn new(profile: Arc<Profile>, track: Arc<Track>) -> Self {
        Self { profile, track, begin_ns: None, over: 0, last: None, last_word: Arc::new(NoMotors) }
    }

    /// Joints at which the mechanism has this pose; those before where it cannot. Real-time safe.
    fn joints(&self, pose: &Pose) -> [f64; 6] {
        let tip = pose.translation.vector;
        if let Kinematics::Ideal = self.profile.kinematics {
            let turn = pose.rotation.scaled_axis();
            return [tip.x, tip.y, tip.z, turn.x, turn.y, turn.z];
        }
        let Some(q) = self.profile.kinematics.inverse(&tip) else {
            return self.last.map_or([0.0; 6], |s| s.joints);
        };
        let wrist = || gimbal::angles(&(self.profile.kinematics.wrist(&q).inverse() * pose.rotation));
        let [yaw, pitch, roll] = self.profile.gimbal.map_or([0.0; 3], |_| wrist());
        [q.x, q.y, q.z, yaw, pitch, roll]
    }

    fn take(&mut self, pose: Pose, time_ns: u64, buttons: u32, lost: u32) -> Sample {
        let seq = self.last.map_or(0, |s| s.seq) + 1;
        let sample = Sample { pose, joints: self.joints(&pose), time_ns, seq, lost, buttons };
        self.last = Some(sample);
        sample
    }
}

impl Device for ReplayDevice {
    fn profile(&self) -> &Arc<Profile> {
        &self.profile
    }

    fn lifecycle(&self) -> Lifecycle {
        Lifecycle::Ready
    }

    fn calibrate(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn read(&mut self, now_ns: u64) -> Result<Sample, ReadFault> {
        let begin = *self.begin_ns.get_or_insert(now_ns.saturating_sub(SLACK_NS));
        let over = self.track.over(now_ns.saturating_sub(begin), self.over);
        let skipped = over - self.over;
        self.over = over;
        let newest = over.checked_sub(1).and_then(|at| self.track.moments.get(at)).copied();
        let Some(moment) = newest.filter(|_| skipped > 0) else {
            return self.nothing_new(now_ns);
        };
        let Some(pose) = moment.pose else { return Err(ReadFault::Stale) };
        let lost = u32::try_from(skipped - 1).unwrap_or(u32::MAX).saturating_add(moment.lost);
        let time_ns = begin + self.track.since(&moment);
        Ok(self.take(pose, time_ns, moment.buttons, lost))
    }

    fn write(&mut self, _now_ns: u64, wrench: &Wrench) -> Result<Accepted, WriteFault> {
        if !wrench.is_finite() {
            return Err(WriteFault::Failed);
        }
        let joints = self.last.map_or([0.0; 6], |s| s.joints);
        let (command, saturated) = actuators::command(&self.profile, &joints, wrench);
        Ok(Accepted { applied: command.wrench, saturated })
    }

    fn zero(&mut self, _now_ns: u64) {}

    fn emergency(&self) -> Option<Arc<dyn Emergency>> {
        Some(self.last_word.clone())
    }
}

impl ReplayDevice {
    /// The last sample again while the recorded device gave none; a new one at rest once the recording is over.
    fn nothing_new(&mut self, now_ns: u64) -> Result<Sample, ReadFault> {
        let Some(last) = self.last else { return Err(ReadFault::Stale) };
        let ended = self.over == self.track.moments.len();
        if ended && now_ns >= last.time_ns.saturating_add(SAMPLE_PERIOD_NS) {
            return Ok(self.take(last.pose, now_ns, last.buttons, 0));
        }
        Ok(Sample { lost: 0, ..last })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Moment;
    use super::*;
    use crate::device::registry::Registry;
    use crate::geometry::pose::Vec3;
    use nalgebra::UnitQuaternion;

    const MS: u64 = 1_000_000;
    /// When the recording began on its clock.
    const THEN: u64 = 77_000_000_123;

    fn profile(name: &str) -> Arc<Profile> {
        Registry::builtin().profile(name).expect("shipped")
    }

    fn pose(k: u64) -> Pose {
        let t = k as f64 * 1e-3;
        Pose::new(Vec3::new(0.01 * (3.0 * t).sin(), 0.02 * t, -0.01 * t), Vec3::new(0.1 * t, 0.0, 0.3 * t))
    }

    fn moment(k: u64) -> Moment {
        Moment { time_ns: THEN + k * MS, pose: Some(pose(k)), buttons: (k % 4) as u32, lost: 0 }
    }

    fn device(moments: impl IntoIterator<Item = Moment>) -> ReplayDevice {
        let track = Track::new("ideal-6dof", "run.mcap", moments).expect("a track");
        ReplayDevice::new(profile("ideal-6dof"), Arc::new(track))
    }

    /// At any time of day, on ticks as even as the recorded ones and on such as come early and late.
    #[test]
    fn each_moment_comes_in_its_tick() {
        for (begin, jitter) in [(0, 0), (0, 300_000), (5_123_456_789, 0), (5_123_456_789, 499_999)] {
            let mut device = device((0..500).map(moment));
            let mut last = None;
            for k in 0..500u64 {
                // The first tick is on time, and nobody reads before it.
                let late = if k == 0 { 0 } else { [0, jitter, 1][k as usize % 3] };
                let early = if k == 0 || begin == 0 { 0 } else { [0, 0, jitter][k as usize % 3] };
                let now = begin + k * MS + late - early;
                let sample = device.read(now).expect("a sample");
                let want = moment(k);
                assert_eq!((Some(sample.pose), sample.buttons, sample.lost), (want.pose, want.buttons, 0));
                assert_eq!(sample.seq, k + 1);
                assert!(sample.time_ns <= now);
                assert!(last.is_none_or(|t| sample.time_ns - t == MS), "the speed is that of the recording");
                last = Some(sample.time_ns);
                let again = device.read(now).expect("the same");
                assert_eq!(again, sample);
            }
        }
    }

    /// Where the recorded device gave nothing new, this one does not either; what it failed to give is a failed read.
    #[test]
    fn gaps_are_played_too_and_what_was_not_looked_at_is_lost() {
        let missed = Moment { pose: None, lost: 1, ..moment(20) };
        let after = Moment { lost: 7, ..moment(21) };
        let early = Moment { time_ns: THEN - MS, pose: None, ..moment(0) };
        let all = [early].into_iter().chain((0..10).map(moment)).chain([missed, after, moment(30)]);
        let mut device = device(all);
        for k in 0..10 {
            assert_eq!(device.read(k * MS).map(|s| s.seq), Ok(k + 1));
        }
        for k in 10..20 {
            assert_eq!(device.read(k * MS).map(|s| (s.seq, s.lost)), Ok((10, 0)), "held");
        }
        assert_eq!(device.read(20 * MS), Err(ReadFault::Stale));
        assert_eq!(device.read(21 * MS).map(|s| (s.seq, s.lost)), Ok((11, 7)));
        // A servo that was kept from running for a while.
        let mut device = self::device((0..100).map(moment));
        assert_eq!(device.read(0).map(|s| s.lost), Ok(0));
        let sample = device.read(50 * MS).expect("the newest");
        assert_eq!((sample.pose, sample.lost, sample.time_ns), (pose(50), 49, 50 * MS));
    }

    #[test]
    fn it_stays_where_the_recording_ends() {
        let mut device = device((0..10).map(moment));
        let mut last = device.read(0).expect("a sample");
        for k in 1..1000 {
            let sample = device.read(k * MS).expect("a sample");
            assert_eq!((sample.seq, sample.time_ns), (last.seq + 1, last.time_ns + MS), "fresh");
            assert_eq!(sample.pose, pose(k.min(9)));
            last = sample;
        }
    }

    /// Commands are those of the recorded device: its limits, its motors, by its joints.
    #[test]
    fn a_command_is_taken_as_the_recorded_device_would() {
        let push = Wrench { force: Vec3::new(0.3, -0.5, 0.2), torque: Vec3::zeros() };
        let tip = Vec3::new(0.01, -0.02, 0.005);
        let still =
            Moment { pose: Some(Pose::from_parts(tip.into(), UnitQuaternion::identity())), ..moment(0) };
        for name in ["ideal-6dof", "novint-falcon", "woodenhaptics-v2015", "phantom-omni"] {
            let profile = profile(name);
            let tip = if name.starts_with("wooden") { Vec3::new(0.0, 0.205, 0.025) } else { tip };
            let still =
                Moment { pose: Some(Pose::from_parts(tip.into(), UnitQuaternion::identity())), ..still };
            let track = Track::new(name, "run.mcap", [still]).expect("a track");
            let mut device = ReplayDevice::new(profile.clone(), Arc::new(track));
            let sample = device.read(0).expect("a sample");
            let q = Vec3::new(sample.joints[0], sample.joints[1], sample.joints[2]);
            if profile.kinematics != Kinematics::Ideal {
                let there = profile.kinematics.forward(&q, None).expect("closes");
                assert!((there - tip).norm() < 1e-9, "{name}");
            }
            if profile.gimbal.is_some() {
                let [_, _, _, yaw, pitch, roll] = sample.joints;
                let turned = profile.kinematics.wrist(&q) * gimbal::rotation(&[yaw, pitch, roll]);
                assert!(turned.angle_to(&still.pose.expect("one").rotation) < 1e-7, "{name}");
            }
            let taken = device.write(0, &push).expect("taken");
            let off = (taken.applied.force - push.force).norm();
            assert!(!taken.saturated && off < 0.02, "{name}: {off} N");
            let most = device.write(0, &push.scaled(1e6)).expect("taken");
            assert!(most.saturated && most.applied.force.norm() < profile.max_force * 1.01, "{name}");
            let nan = Wrench { force: Vec3::new(0.0, f64::NAN, 0.0), torque: Vec3::zeros() };
            assert_eq!(device.write(0, &nan), Err(WriteFault::Failed));
            device.zero(0);
            assert!(device.emergency().is_some_and(|e| e.zero(0) && !e.mend(0)), "nothing can push");
        }
    }
}
