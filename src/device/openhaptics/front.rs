//! The servo's end of a Phantom: mailboxes on one side, the device trait on the other.

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

use super::link::{Command, Mail};
use crate::device::io::front::admit;
use crate::device::io::newest::Newest;
use crate::device::io::shared::Shared;
use crate::device::io::thread::{IoThread, now_ns};
use crate::device::profile::Profile;
use crate::device::{
    Accepted, Device, DeviceError, Emergency, IoMode, Lifecycle, ReadFault, Sample, WriteFault,
};
use crate::geometry::pose::{Pose, Vec3, Wrench};
use nalgebra::{Matrix3, Rotation3, Translation3, UnitQuaternion};
use std::sync::Arc;

/// How far the library's rotation may be from one.
const CROOKED: f64 = 1e-3;

/// A device behind the maker's library.
pub struct Phantom {
    profile: Arc<Profile>,
    shared: Arc<Shared>,
    mail: Arc<Mail>,
    thread: Option<IoThread>,
    newest: Newest,
    seq: u64,
    /// Forces that the library had refused when the last was commanded.
    refusals: u64,
}

impl Phantom {
    /// The servo's end of what `thread` looks after.
    pub(super) fn new(profile: Arc<Profile>, shared: Arc<Shared>, mail: Arc<Mail>, thread: IoThread) -> Self {
        let newest = Newest::new(shared.life());
        Self { profile, shared, mail, thread: Some(thread), newest, seq: 0, refusals: 0 }
    }

    fn put(&self, now_ns: u64, force: Vec3) {
        let sensed_ns = self.newest.sample().map_or(0, |s| s.time_ns);
        self.mail.put(&Command { force: force.into(), at_ns: now_ns, sensed_ns, life: self.newest.life() });
    }

    /// Joint angles of the profile's mechanism at a tool point; where it does not reach, those of the last one.
    fn joints(&self, tip: &Vec3) -> [f64; 6] {
        let here = self.profile.kinematics.inverse(tip);
        here.map_or(self.newest.joints(), |q| [q.x, q.y, q.z, 0.0, 0.0, 0.0])
    }
}

impl Device for Phantom {
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
        // The user says that the arm is in its reset pose, where it has one.
        self.shared.ask_calibration();
        let trouble = self.shared.trouble();
        let text = if trouble.is_empty() { "not ready yet; try again".into() } else { trouble };
        Err(DeviceError::Driver(format!("{}: {text}", self.profile.name)))
    }

    fn delay_ns(&self) -> Option<u64> {
        self.shared.stats.delay_ns()
    }

    fn read(&mut self, now_ns: u64) -> Result<Sample, ReadFault> {
        if self.lifecycle() == Lifecycle::Absent {
            return Err(ReadFault::Gone);
        }
        let life = self.shared.life();
        self.newest.begin(life)?;
        let Some(reading) = self.mail.reading().filter(|r| r.life == life) else {
            return Err(ReadFault::Stale);
        };
        if let Some(last) = self.newest.again(reading.seq) {
            return Ok(last);
        }
        let rotation = Matrix3::from_column_slice(&reading.rotation);
        let crooked = (rotation.transpose() * rotation - Matrix3::identity()).amax();
        let position = Vec3::from(reading.position);
        // No number is not less.
        let sound =
            crooked < CROOKED && rotation.determinant() > 0.0 && position.iter().all(|x| x.is_finite());
        if !sound {
            return Err(ReadFault::Garbled);
        }
        let lost = reading.seq.saturating_sub(self.seq).saturating_sub(1);
        let rotation = UnitQuaternion::from_rotation_matrix(&Rotation3::from_matrix_unchecked(rotation));
        let sample = Sample {
            pose: Pose::from_parts(Translation3::from(position), rotation),
            joints: self.joints(&position),
            time_ns: reading.time_ns.min(now_ns),
            seq: reading.seq,
            lost: if self.seq == 0 { 0 } else { u32::try_from(lost).unwrap_or(u32::MAX) },
            buttons: reading.buttons,
        };
        self.seq = reading.seq;
        self.newest.set(sample);
        Ok(sample)
    }

    fn write(&mut self, now_ns: u64, wrench: &Wrench) -> Result<Accepted, WriteFault> {
        match admit(self.lifecycle(), self.newest.is_of(self.shared.life()), wrench) {
            Ok(true) => {}
            Err(WriteFault::Gone) => return Err(WriteFault::Gone),
            refused => {
                self.put(now_ns, Vec3::zeros());
                return refused.map(|_| Accepted::NOTHING);
            }
        }
        let driven = &self.profile.actuated;
        let mut force = wrench.force;
        force.iter_mut().zip(driven).filter(|(_, on)| !**on).for_each(|(f, _)| *f = 0.0);
        // A force that was refused is gone: what comes after it must not be it again by itself.
        let refusals = self.mail.refusals();
        if std::mem::replace(&mut self.refusals, refusals) != refusals {
            self.put(now_ns, Vec3::zeros());
            return Err(WriteFault::Failed);
        }
        let most = self.mail.most();
        let saturated = force.norm() > most;
        if saturated {
            force *= most / force.norm();
        }
        self.put(now_ns, force);
        Ok(Accepted { applied: Wrench { force, torque: Vec3::zeros() }, saturated })
    }

    fn zero(&mut self, now_ns: u64) {
        self.newest.zeroed(self.lifecycle());
        self.put(now_ns, Vec3::zeros());
    }

    fn io(&self) -> Option<Arc<Shared>> {
        Some(self.shared.clone())
    }

    fn emergency(&self) -> Option<Arc<dyn Emergency>> {
        Some(self.shared.clone())
    }
}

impl Drop for Phantom {
    fn drop(&mut self) {
        self.put(now_ns(), Vec3::zeros());
        self.shared.silence();
        // One that hangs in the maker's library has it until it comes back.
        drop(self.thread.take());
    }
}
