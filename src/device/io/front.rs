//! The servo's end of a device with an I/O thread: mailboxes on one side, the device trait on the other.

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

use super::newest::Newest;
use super::phase::FRAME_NS;
use super::shared::{Command, Shared};
use super::thread::{IoThread, now_ns};
use crate::device::actuators;
use crate::device::integrator::{self, Integrator};
use crate::device::kinematics::Kinematics;
use crate::device::profile::{Calibration, Profile};
use crate::device::{
    Accepted, Device, DeviceError, Emergency, IoMode, Lifecycle, NoMotors, ReadFault, Sample, WriteFault,
};
use crate::geometry::pose::{Pose, Twist, Vec3, Wrench};
use nalgebra::{Translation3, UnitQuaternion};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time that calibration by the host may take.
const CALIBRATION: Duration = Duration::from_secs(2);

/// What a write comes to before any force is thought of: true where it may push, false where the device takes nothing and nothing is
/// wanted. `known`: the last sample is of the device's present life. Real-time safe.
///
/// # Errors
/// [`WriteFault`]; but for a device that is gone it still has to get zero.
pub(in crate::device) fn admit(
    lifecycle: Lifecycle,
    known: bool,
    wrench: &Wrench,
) -> Result<bool, WriteFault> {
    match lifecycle {
        Lifecycle::Absent => Err(WriteFault::Gone),
        Lifecycle::Ready if known && wrench.is_finite() => Ok(true),
        Lifecycle::Ready if known => Err(WriteFault::Failed),
        _ if *wrench == Wrench::ZERO => Ok(false),
        _ => Err(WriteFault::NotReady),
    }
}

/// A device behind mailboxes.
pub struct Front {
    profile: Arc<Profile>,
    shared: Arc<Shared>,
    thread: Option<IoThread>,
    newest: Newest,
    lost: u64,
    hint: Option<Vec3>,
    /// Time of the last reading on the I/O side's clock.
    sensed_ns: u64,
    /// Pose of a device that tells speeds.
    integrator: Integrator,
    /// What its last reading asked for.
    rate: Twist,
}

impl Front {
    /// The servo's end of `shared`. `thread` runs the other end and is ended with this one; `None` where somebody else steps
    /// it, whom a dying process has no time for.
    pub fn new(profile: Arc<Profile>, shared: Arc<Shared>, thread: Option<IoThread>) -> Self {
        let integrator = Integrator::new(profile.workspace_radius);
        Self {
            profile,
            newest: Newest::new(shared.life()),
            shared,
            thread,
            lost: 0,
            hint: None,
            sensed_ns: 0,
            integrator,
            rate: Twist::ZERO,
        }
    }

    /// What is shared with the I/O side.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Pose and joints of a reading; `None` where the joints make no pose.
    fn measure(&mut self, counts: &[i32; 6], time_ns: u64) -> Option<(Pose, [f64; 6])> {
        if let Kinematics::Ideal = self.profile.kinematics {
            self.rate = integrator::speeds(counts);
            let pose = self.integrator.step(&self.rate, time_ns);
            let (p, r) = (pose.translation.vector, pose.rotation.scaled_axis());
            return Some((pose, [p.x, p.y, p.z, r.x, r.y, r.z]));
        }
        let [a, b, c, ..] = *counts;
        let q = self.profile.encoders.as_ref()?.angles(&[a, b, c]);
        let tip = self.profile.kinematics.forward(&q, self.hint.as_ref())?;
        self.hint = Some(tip);
        let pose = Pose::from_parts(Translation3::from(tip), UnitQuaternion::identity());
        Some((pose, [q.x, q.y, q.z, 0.0, 0.0, 0.0]))
    }

    fn put(&self, at_ns: u64, codes: [i32; 3]) {
        self.shared.put_command(&Command {
            codes,
            sensed_ns: self.sensed_ns,
            at_ns,
            life: self.newest.life(),
        });
    }
}

impl Device for Front {
    fn profile(&self) -> &Arc<Profile> {
        &self.profile
    }

    fn lifecycle(&self) -> Lifecycle {
        self.shared.lifecycle()
    }

    fn io_mode(&self) -> IoMode {
        IoMode::Threaded
    }

    // Before the servo runs: it may block and allocate.
    #[allow(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)]
    fn calibrate(&mut self) -> Result<(), DeviceError> {
        if self.lifecycle() == Lifecycle::Ready {
            return Ok(());
        }
        let fail = |text: String| Err(DeviceError::Driver(format!("{}: {text}", self.profile.name)));
        match self.profile.calibration {
            // The user's hands do it; the I/O side sees when it is done.
            Calibration::Homing => {
                return fail(
                    "pull the grip out as far as it goes, then push it in: the device homes itself".into(),
                );
            }
            Calibration::Reset | Calibration::None => self.shared.ask_calibration(),
        }
        let end = Instant::now() + CALIBRATION;
        while Instant::now() < end && self.thread.is_some() {
            if self.lifecycle() == Lifecycle::Ready {
                return Ok(());
            }
            // Nobody is spoken to who has been silent for long, and nobody else speaks before the servo runs.
            self.put(now_ns(), [0; 3]);
            std::thread::sleep(Duration::from_millis(2));
        }
        let trouble = self.shared.told();
        fail(if trouble.is_empty() {
            "the device did not take its calibration; try again".into()
        } else {
            trouble
        })
    }

    fn delay_ns(&self) -> Option<u64> {
        self.shared.stats.delay_ns()
    }

    fn read(&mut self, now_ns: u64) -> Result<Sample, ReadFault> {
        if self.lifecycle() == Lifecycle::Absent {
            return Err(ReadFault::Gone);
        }
        let life = self.shared.life();
        let begun = self.newest.begin(life);
        if begun != Ok(false) {
            self.hint = None;
        }
        begun?;
        let Some(reading) = self.shared.reading().filter(|r| r.life == life) else {
            return Err(ReadFault::Stale);
        };
        if let Some(last) = self.newest.again(reading.seq) {
            return Ok(last);
        }
        let lost = reading.lost.saturating_sub(self.lost);
        self.lost = reading.lost;
        let Some((pose, joints)) = self.measure(&reading.counts, reading.time_ns) else {
            return Err(ReadFault::Garbled);
        };
        self.sensed_ns = reading.time_ns;
        let sample = Sample {
            pose,
            joints,
            time_ns: reading.time_ns.min(now_ns),
            seq: reading.seq,
            lost: u32::try_from(lost).unwrap_or(u32::MAX),
            buttons: reading.buttons,
        };
        self.newest.set(sample);
        Ok(sample)
    }

    fn write(&mut self, now_ns: u64, wrench: &Wrench) -> Result<Accepted, WriteFault> {
        match admit(self.lifecycle(), self.newest.is_of(self.shared.life()), wrench) {
            Ok(true) => {}
            Err(WriteFault::Gone) => return Err(WriteFault::Gone),
            refused => {
                self.put(now_ns, [0; 3]);
                return refused.map(|_| Accepted::NOTHING);
            }
        }
        let (command, saturated) = actuators::command(&self.profile, &self.newest.joints(), wrench);
        self.put(now_ns, command.codes);
        Ok(Accepted { applied: command.wrench, saturated })
    }

    fn rate(&self) -> Option<Twist> {
        let tells_speeds = matches!(self.profile.kinematics, Kinematics::Ideal);
        tells_speeds.then(|| if self.lifecycle() == Lifecycle::Ready { self.rate } else { Twist::ZERO })
    }

    fn zero(&mut self, now_ns: u64) {
        self.newest.zeroed(self.lifecycle());
        self.put(now_ns, [0; 3]);
    }

    fn next_sample_ns(&self, now_ns: u64) -> Option<u64> {
        let beat = self.shared.beat_ns()?;
        let frames = now_ns.saturating_sub(beat).div_ceil(FRAME_NS);
        Some(beat + frames * FRAME_NS)
    }

    fn io(&self) -> Option<Arc<Shared>> {
        Some(self.shared.clone())
    }

    #[allow(clippy::disallowed_methods)]
    fn emergency(&self) -> Option<Arc<dyn Emergency>> {
        self.thread.as_ref()?;
        if self.profile.actuated == [false; 6] {
            // Asked before the servo runs. It is only read: no packet could confirm a zero, and none is needed.
            return Some(Arc::new(NoMotors));
        }
        Some(self.shared.clone())
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.put(0, [0; 3]);
        self.shared.silence();
        self.shared.stop();
        drop(self.thread.take());
    }
}
