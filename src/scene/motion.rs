//! Scripted motion of objects, for scene files: what a client's motion stream would send.

use super::history::{carried, keep};
use super::snapshot::{MotionEntry, MotionSample};
use crate::geometry::{Pose, Vec3};
use nalgebra::{Translation3, UnitQuaternion};

/// A pose at a time, relative to nothing: in the scene.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Keyframe {
    /// Time since the start, s.
    pub time: f64,
    /// Pose in the scene.
    pub pose: Pose,
}

/// How an object moves over time.
#[derive(Clone, Debug, PartialEq)]
pub enum Path {
    /// About its rest pose: position = rest + amplitude sin(2 pi f t + phase); rotation = rest, turned about
    /// `axis` by rate t + turn sin(2 pi f t + phase).
    Analytic {
        /// Amplitude of the position, m.
        amplitude: Vec3,
        /// Frequency, Hz.
        frequency: f64,
        /// Phase, rad.
        phase: f64,
        /// Unit axis of rotation, object frame.
        axis: Vec3,
        /// Rotation at constant rate, rad/s.
        rate: f64,
        /// Amplitude of the rotation, rad.
        turn: f64,
    },
    /// Linear between keyframes (slerp for the rotation), held before the first and after the last.
    Keyframes(Vec<Keyframe>),
}

/// A scripted motion stream.
#[derive(Clone, Debug, PartialEq)]
pub struct MotionScript {
    /// Where it goes.
    pub path: Path,
    /// Poses a second that the stream carries.
    pub rate_hz: f64,
    /// The servo plays the stream this much later, s.
    pub delay: f64,
    /// Times between which the stream runs, s.
    pub span: (f64, f64),
    /// The stream counts as stopped this long after its last pose, s.
    pub timeout: f64,
    /// Poses arrive up to this much later than sent, each by its own, s: they may overtake each other.
    pub jitter: f64,
    /// Part of the poses that never arrive. Which ones, and how late the others are, is the same in each run.
    pub loss: f64,
}

impl Path {
    /// Pose at `t` s of an object with that rest pose.
    pub fn at(&self, t: f64, rest: &Pose) -> Pose {
        match self {
            Self::Analytic { amplitude, frequency, phase, axis, rate, turn } => {
                let s = (std::f64::consts::TAU * frequency * t + phase).sin();
                let spin = UnitQuaternion::from_scaled_axis(axis * (rate * t + turn * s));
                Pose::from_parts(
                    Translation3::from(rest.translation.vector + amplitude * s),
                    rest.rotation * spin,
                )
            }
            Self::Keyframes(frames) => between(frames, t).unwrap_or(*rest),
        }
    }
}

fn between(frames: &[Keyframe], t: f64) -> Option<Pose> {
    let next = frames.partition_point(|k| k.time <= t);
    let (Some(b), Some(a)) = (frames.get(next), next.checked_sub(1).map(|i| &frames[i])) else {
        return frames.get(next).or(frames.last()).map(|k| k.pose);
    };
    let s = (t - a.time) / (b.time - a.time);
    let position = a.pose.translation.vector.lerp(&b.pose.translation.vector, s);
    // Opposite rotations have no shortest way between them; hold the earlier one.
    let rotation = a.pose.rotation.try_slerp(&b.pose.rotation, s, 1e-9).unwrap_or(a.pose.rotation);
    Some(Pose::from_parts(position.into(), rotation))
}

/// Plays a script as a client would: one pose each 1/rate, kept in the ring that motion frames carry.
#[derive(Clone, Debug)]
pub struct Player {
    script: MotionScript,
    rest: Pose,
    sent: u64,
    /// Sent and not yet arrived: time of arrival, ns.
    under_way: Vec<(u64, MotionSample)>,
    arrived: Vec<MotionSample>,
    entry: MotionEntry,
}

impl Player {
    /// A player for the object of that identity.
    pub fn new(script: MotionScript, id: u32, incarnation: u32, rest: Pose) -> Self {
        let none = MotionSample { time_ns: 0, pose: rest };
        let entry = MotionEntry {
            id,
            incarnation,
            samples: carried(&[none]),
            len: 0,
            delay_ns: (script.delay * 1e9) as u64,
            lease_until_ns: 0,
        };
        Self { script, rest, sent: 0, under_way: Vec::new(), arrived: Vec::new(), entry }
    }

    /// Sends every pose that is due by `now_ns`; true when one arrived.
    pub fn advance(&mut self, now_ns: u64) -> bool {
        loop {
            let t = self.script.span.0 + self.sent as f64 / self.script.rate_hz;
            let time_ns = (t * 1e9).round() as u64;
            if t > self.script.span.1 || time_ns > now_ns {
                break;
            }
            let [late, lost] = chances(self.sent);
            if lost >= self.script.loss {
                let sample = MotionSample { time_ns, pose: self.script.path.at(t, &self.rest) };
                self.under_way.push((time_ns + (late * self.script.jitter * 1e9) as u64, sample));
            }
            self.sent += 1;
        }
        let mut any = false;
        // In the order of their arrival, as far as a tick tells them apart.
        self.under_way.sort_by_key(|(arrival, _)| *arrival);
        while self.under_way.first().is_some_and(|(arrival, _)| *arrival <= now_ns) {
            let (arrival, sample) = self.under_way.remove(0);
            keep(&mut self.arrived, sample, self.entry.delay_ns);
            self.entry.lease_until_ns = arrival + (self.script.timeout * 1e9) as u64;
            any = true;
        }
        if any {
            self.entry.samples = carried(&self.arrived);
            self.entry.len = self.arrived.len() as u8;
        }
        any
    }

    /// Goes on with another incarnation of the object.
    pub fn retarget(&mut self, incarnation: u32) {
        self.entry.incarnation = incarnation;
    }

    /// What the next motion frame carries; `None` before the first pose.
    pub fn entry(&self) -> Option<MotionEntry> {
        (self.entry.len > 0).then_some(self.entry)
    }
}

/// Two numbers in 0..1 for a pose, by its number (SplitMix64: Steele, Lea and Flood, OOPSLA 2014).
fn chances(number: u64) -> [f64; 2] {
    [1, 2].map(|which: u64| {
        let mut x = (2 * number + which).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::snapshot::MOTION_HISTORY;
    use std::f64::consts::{FRAC_PI_2, TAU};

    fn close(a: &Pose, b: &Pose) {
        assert!((a.translation.vector - b.translation.vector).norm() < 1e-12, "{a} is not {b}");
        assert!(a.rotation.angle_to(&b.rotation) < 1e-7, "{a} is not {b}");
    }

    fn sine() -> Path {
        Path::Analytic {
            amplitude: Vec3::new(0.0, 0.0, 0.01),
            frequency: 2.0,
            phase: 0.0,
            axis: Vec3::x(),
            rate: TAU,
            turn: 0.0,
        }
    }

    #[test]
    fn an_analytic_path_is_its_formula_about_the_rest_pose() {
        let rest = Pose::translation(0.1, 0.2, 0.3);
        // A quarter period of 2 Hz: the sine is at its top, the turn at 1/8 of a revolution.
        let expect = Pose::from_parts(
            Translation3::new(0.1, 0.2, 0.31),
            UnitQuaternion::from_axis_angle(&Vec3::x_axis(), TAU / 8.0),
        );
        close(&sine().at(0.125, &rest), &expect);
        close(&sine().at(0.0, &rest), &rest);
    }

    #[test]
    fn keyframes_interpolate_and_hold_at_both_ends() {
        let turned = Pose::from_parts(
            Translation3::new(2.0, 0.0, 0.0),
            UnitQuaternion::from_axis_angle(&Vec3::z_axis(), FRAC_PI_2),
        );
        let frames =
            vec![Keyframe { time: 1.0, pose: Pose::identity() }, Keyframe { time: 3.0, pose: turned }];
        let path = Path::Keyframes(frames);
        let rest = Pose::translation(9.0, 9.0, 9.0);
        close(&path.at(0.0, &rest), &Pose::identity());
        close(&path.at(9.0, &rest), &turned);
        let half = Pose::from_parts(
            Translation3::new(1.0, 0.0, 0.0),
            UnitQuaternion::from_axis_angle(&Vec3::z_axis(), FRAC_PI_2 / 2.0),
        );
        close(&path.at(2.0, &rest), &half);
        close(&Path::Keyframes(vec![]).at(2.0, &rest), &rest);
    }

    #[test]
    fn the_player_sends_at_its_rate_keeps_the_newest_and_stops() {
        let script = MotionScript {
            path: sine(),
            rate_hz: 500.0,
            delay: 0.004,
            span: (0.1, 0.2),
            timeout: 0.05,
            jitter: 0.0,
            loss: 0.0,
        };
        let mut p = Player::new(script, 7, 3, Pose::identity());
        assert!(!p.advance(99_000_000) && p.entry().is_none());
        let mut sent = 0;
        for ms in 100..400 {
            sent += u32::from(p.advance(ms * 1_000_000));
        }
        assert_eq!(sent, 51, "0.1 s at 500 Hz, both ends");
        let e = p.entry().unwrap();
        assert_eq!((e.id, e.incarnation, usize::from(e.len), e.delay_ns), (7, 3, MOTION_HISTORY, 4_000_000));
        let times: Vec<u64> = e.samples.iter().map(|s| s.time_ns).collect();
        assert!(times.windows(2).all(|w| w[1] - w[0] == 2_000_000));
        assert_eq!(times[MOTION_HISTORY - 1], 200_000_000);
        assert_eq!(e.lease_until_ns, 250_000_000);
    }

    #[test]
    fn jitter_delays_each_pose_by_its_own_and_loss_drops_its_part() {
        let script = MotionScript {
            path: sine(),
            rate_hz: 500.0,
            delay: 0.02,
            span: (0.0, 4.0),
            timeout: 0.1,
            jitter: 0.01,
            loss: 0.2,
        };
        let run = || {
            let mut p = Player::new(script.clone(), 7, 3, Pose::identity());
            let mut seen = std::collections::BTreeMap::new();
            for ms in 0..4020u64 {
                p.advance(ms * 1_000_000);
                for s in p.entry().iter().flat_map(|e| e.samples[..usize::from(e.len)].to_vec()) {
                    seen.entry(s.time_ns).or_insert(ms * 1_000_000 - s.time_ns);
                }
            }
            seen
        };
        let seen = run();
        assert_eq!(seen, run(), "the same in each run");
        // 2001 poses, 20 % lost: 1601 +- 4 standard deviations of 18.
        assert!((1529..1673).contains(&seen.len()), "{}", seen.len());
        // A tick later at most; all delays occur.
        assert!(seen.values().all(|d| *d < 11_000_000));
        // Poses are sent when a tick is, so none arrives in the same one.
        for part in 1..10 {
            let within = seen.values().filter(|d| **d / 1_000_000 == part).count();
            assert!(within > 80, "{part} ms: {within}");
        }
    }
}
