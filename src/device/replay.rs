//! The device that plays a recording back: poses and buttons as they were, in their time.
//!
//! A [`Track`] is what it plays; [`ReplayDevice`] plays it.

pub mod player;

pub use player::ReplayDevice;

use super::DeviceError;
use crate::geometry::pose::{Pose, pose_is_finite};

/// Most moments of a track: more than an hour at 1 kHz.
pub const MAX_MOMENTS: usize = 4_000_000;
/// Longest time of a track, ns: a day.
pub const MAX_NS: u64 = 86_400_000_000_000;

/// One reading of the recorded device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// When it was read, ns on the recording's clock.
    pub time_ns: u64,
    /// Pose of the tool point, device frame; `None` where the device gave no sample.
    pub pose: Option<Pose>,
    /// Button bits.
    pub buttons: u32,
    /// Samples lost since the reading before.
    pub lost: u32,
}

/// What is played back.
#[derive(Clone, Debug)]
pub struct Track {
    device: String,
    source: String,
    moments: Box<[Moment]>,
}

impl Track {
    /// The readings of a device of the profile `device`, in order of time; those before its first sample are left out.
    /// `source` names the recording in errors. Allocates.
    ///
    /// # Errors
    /// No sample, too many, times that do not rise, a pose that is none.
    pub fn new(
        device: &str,
        source: &str,
        moments: impl IntoIterator<Item = Moment>,
    ) -> Result<Self, DeviceError> {
        let fail = |text: String| Err(DeviceError::Driver(format!("{source}: {text}")));
        let mut kept: Vec<Moment> = Vec::new();
        let begun = moments.into_iter().skip_while(|m| m.pose.is_none());
        for (n, moment) in begun.enumerate() {
            if n == MAX_MOMENTS {
                return fail(format!("more than {MAX_MOMENTS} samples; play a shorter recording back"));
            }
            let begin = kept.first().map_or(moment.time_ns, |first| first.time_ns);
            if moment.time_ns.saturating_sub(begin) > MAX_NS {
                return fail("goes on for more than a day; play a shorter recording back".into());
            }
            let ms = |ns: u64| ns as f64 * 1e-6;
            if let Some(last) = kept.last().filter(|last| moment.time_ns <= last.time_ns) {
                let (now, before) = (ms(moment.time_ns), ms(last.time_ns));
                return fail(format!(
                    "damaged: the sample at {now:.3} ms comes after that at {before:.3} ms"
                ));
            }
            if moment.pose.is_some_and(|p| !is_pose(&p)) {
                return fail(format!("damaged: the sample at {:.3} ms holds no pose", ms(moment.time_ns)));
            }
            kept.push(moment);
        }
        if kept.is_empty() {
            return fail("holds no sample of a device, so there is nothing to play back".into());
        }
        Ok(Self { device: device.into(), source: source.into(), moments: kept.into() })
    }

    /// Profile of the recorded device.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Where it comes from, for people.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Time from the first sample to the last reading, ns.
    pub fn duration_ns(&self) -> u64 {
        let (first, last) = (self.moments.first(), self.moments.last());
        first.zip(last).map_or(0, |(first, last)| last.time_ns - first.time_ns)
    }

    /// Time of a moment after the first, ns.
    fn since(&self, moment: &Moment) -> u64 {
        moment.time_ns - self.moments.first().map_or(0, |m| m.time_ns)
    }

    /// How many moments are over at this time after the first, of which `known` are. Real-time safe.
    fn over(&self, elapsed_ns: u64, known: usize) -> usize {
        let rest = self.moments.get(known..).unwrap_or(&[]);
        let is_over = |m: &Moment| self.since(m) <= elapsed_ns;
        // Mostly there is one, or none.
        match (rest.first().is_some_and(is_over), rest.get(1).is_some_and(is_over)) {
            (false, _) => known,
            (true, false) => known + 1,
            (true, true) => known + rest.partition_point(is_over),
        }
    }
}

/// Finite, with a unit quaternion.
fn is_pose(pose: &Pose) -> bool {
    pose_is_finite(pose) && (pose.rotation.quaternion().norm() - 1.0).abs() < 1e-6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::pose::Vec3;
    use nalgebra::{Quaternion, UnitQuaternion};

    fn moment(k: u64) -> Moment {
        let pose = Pose::translation(0.0, 1e-3 * k as f64, 0.0);
        Moment { time_ns: 77_000_000_000 + k * 1_000_000, pose: Some(pose), buttons: 0, lost: 0 }
    }

    #[test]
    fn what_is_no_track_is_refused_by_its_file() {
        let refused = |moments: Vec<Moment>, why: &str| {
            let error = match Track::new("ideal-6dof", "dir/run.mcap", moments) {
                Ok(_) => panic!("accepted: {why}"),
                Err(e) => e.to_string(),
            };
            assert!(error.starts_with("dir/run.mcap: ") && error.contains(why), "{error}");
        };
        refused(vec![], "no sample");
        refused(vec![Moment { pose: None, ..moment(0) }; 3], "no sample");
        refused(vec![moment(0), moment(2), moment(2)], "at 77002.000 ms comes after that at 77002.000 ms");
        refused(vec![moment(3), moment(2)], "comes after");
        let mut far = Pose::identity();
        for bad in [f64::NAN, f64::INFINITY] {
            far.translation.vector.y = bad;
            refused(vec![moment(0), Moment { pose: Some(far), ..moment(1) }], "no pose");
        }
        for w in [0.0, 2.0, f64::NAN] {
            let turned = UnitQuaternion::new_unchecked(Quaternion::new(w, 0.0, 0.0, 0.0));
            let pose = Pose::from_parts(Vec3::zeros().into(), turned);
            refused(vec![Moment { pose: Some(pose), ..moment(0) }], "no pose");
        }
        let day = |more| Moment { time_ns: moment(0).time_ns + MAX_NS + more, ..moment(0) };
        refused(vec![moment(0), day(1)], "more than a day");
        assert!(Track::new("ideal-6dof", "run.mcap", [moment(0), day(0)]).is_ok());
        let long = (0..=MAX_MOMENTS as u64).map(|k| Moment { time_ns: k, ..moment(0) });
        let error = Track::new("ideal-6dof", "run.mcap", long).err().map(|e| e.to_string());
        assert!(error.is_some_and(|e| e.starts_with("run.mcap: more than 4000000 samples")));
    }
}
