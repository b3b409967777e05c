//! The energy guard's place in the tick: from samples and wrenches to displacements and efforts of the device's ports.
//!
//! Ports are the joints of a mechanism, or position and rotation of a device without. Gravity compensation is left out on
//! both sides: it balances the mechanism's own weight, and the two together do no work.

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
use super::own::Given;
use crate::device::Sample;
use crate::device::io::phase::FRAME_NS;
use crate::device::kinematics::Kinematics;
use crate::device::profile::{Guard, Profile};
use crate::geometry::{Vec3, Wrench};
use crate::haptics::guard::energy::{Account, EnergyGuard, PORTS, PerPort, Port};
use nalgebra::Matrix3;
use std::sync::Arc;

/// What became of a wrench.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounded {
    /// The wrench that the account covers.
    pub wrench: Wrench,
    /// The factor on all but the gravity compensation, 0..=1.
    pub factor: f64,
    /// It was changed.
    pub acts: bool,
    /// Something was added to it.
    pub adds: bool,
}

/// The account and what it needs to know of the device.
#[derive(Debug)]
pub(super) struct Energy {
    guard: EnergyGuard,
    account: Account,
    profile: Arc<Profile>,
    last: Option<Sample>,
    /// d tool point / d joints at the last sample.
    jacobian: Matrix3<f64>,
    /// Part of the last command that only balances the mechanism's weight.
    weight: Wrench,
    /// Most that may be added in one tick, N and N·m.
    most: (f64, f64),
    /// Period of the servo, s.
    period: f64,
    /// Shortest time from sample to sample, s: no driven device has more than one in a USB frame, and a simulated one has one a tick.
    frame: f64,
}

impl Energy {
    pub(super) fn new(config: &ServoConfig, profile: &Arc<Profile>) -> Self {
        let (driven, sure) = (profile.driven_ports(), profile.certified);
        let mut ports = [Port::default(); PORTS];
        let numbers = driven.iter().zip(&sure.damping).zip(&sure.coulomb);
        for (port, ((driven, damping), friction)) in ports.iter_mut().zip(numbers) {
            *port = Port { driven: *driven, damping: *damping, friction: *friction, count: 0.0 };
        }
        if let Some(encoders) = &profile.encoders {
            for (port, count) in ports.iter_mut().zip(&encoders.radians_per_count) {
                port.count = count.abs();
            }
        }
        let delay = profile.transport.read_delay + profile.transport.write_delay;
        Self {
            guard: config.energy.unwrap_or(match profile.kept.strictest() {
                Guard::Observe => EnergyGuard::Observe,
                Guard::Controller => EnergyGuard::Controller,
                Guard::Certified => EnergyGuard::Certified,
            }),
            account: Account::new(ports, config.dt(), delay),
            profile: profile.clone(),
            last: None,
            jacobian: Matrix3::identity(),
            weight: Wrench::ZERO,
            frame: config.dt().min(FRAME_NS as f64 * 1e-9),
            period: config.dt(),
            most: (config.slew_force * config.dt(), config.slew_torque * config.dt()),
        }
    }

    /// The balance, J; 0 without an account.
    pub(super) fn balance(&self) -> f64 {
        self.account.energy()
    }

    /// A new sample, before the command of tick `tick`.
    pub(super) fn sample(&mut self, tick: u64, sample: &Sample) {
        if self.guard == EnergyGuard::Off {
            return;
        }
        let before = self.last.replace(*sample);
        match self.profile.kinematics {
            Kinematics::Ideal => {}
            Kinematics::Delta(_) | Kinematics::Serial3R(_) => {
                let [a, b, c, ..] = sample.joints;
                let hint = sample.pose.translation.vector;
                match self.profile.kinematics.state(&Vec3::new(a, b, c), Some(&hint)) {
                    Some(state) => self.jacobian = state.jacobian,
                    // Singular: no effort is known, and the driver gives none.
                    None => self.jacobian = Matrix3::zeros(),
                }
            }
        }
        match before {
            Some(before) if sample.time_ns > before.time_ns => {
                // Of a sample seen late and the next, which is not, the way in the shorter time would be credited with more than is certain: a
                // device that samples once a frame took a frame for each that came. Of one that was lost nothing is known.
                let seen = (sample.time_ns - before.time_ns) as f64 * 1e-9;
                let elapsed = seen.max(sample.seq.saturating_sub(before.seq) as f64 * self.frame);
                self.account.sample(tick, &self.moved(&before, sample), elapsed);
            }
            _ => self.account.restart(tick),
        }
    }

    /// The next sample has nothing to do with the last.
    pub(super) fn restart(&mut self, tick: u64) {
        self.last = None;
        self.account.restart(tick);
    }

    fn moved(&self, before: &Sample, after: &Sample) -> PerPort {
        match self.profile.kinematics {
            Kinematics::Ideal => {
                let d = after.pose.translation.vector - before.pose.translation.vector;
                let r = (after.pose.rotation * before.pose.rotation.inverse()).scaled_axis();
                [d.x, d.y, d.z, r.x, r.y, r.z]
            }
            Kinematics::Delta(_) | Kinematics::Serial3R(_) => {
                let ([a, b, c, ..], [d, e, f, ..]) = (before.joints, after.joints);
                [d - a, e - b, f - c, 0.0, 0.0, 0.0]
            }
        }
    }

    /// Efforts of the ports for a wrench at the tool point.
    fn efforts(&self, wrench: &Wrench) -> PerPort {
        match self.profile.kinematics {
            Kinematics::Ideal => {
                let (f, t) = (&wrench.force, &wrench.torque);
                [f.x, f.y, f.z, t.x, t.y, t.z]
            }
            Kinematics::Delta(_) | Kinematics::Serial3R(_) => {
                let tau = self.jacobian.tr_mul(&wrench.force);
                [tau.x, tau.y, tau.z, 0.0, 0.0, 0.0]
            }
        }
    }

    /// The wrench at the tool point that efforts of the ports amount to; none where the mechanism is singular.
    fn wrench(&self, efforts: &PerPort) -> Wrench {
        let [a, b, c, d, e, f] = *efforts;
        let tau = Vec3::new(a, b, c);
        match self.profile.kinematics {
            Kinematics::Ideal => Wrench { force: tau, torque: Vec3::new(d, e, f) },
            Kinematics::Delta(_) | Kinematics::Serial3R(_) => {
                let back = self.jacobian.transpose().try_inverse();
                let force = back.map_or_else(Vec3::zeros, |back| back * tau);
                let sound = force.iter().all(|f| f.is_finite());
                Wrench { force: if sound { force } else { Vec3::zeros() }, torque: Vec3::zeros() }
            }
        }
    }

    /// Not more than a command may grow in one tick, and no more damping than the device renders stably: at a crawl any debt would ask for
    /// endless damping.
    fn gentle(&self, wrench: Wrench) -> Wrench {
        let part = |size: f64, most: f64| if size > most { most / size } else { 1.0 };
        let (force, torque) = (wrench.force.norm(), wrench.torque.norm());
        let [a, b, c, d, e, f] = self.account.moved().map(|way| way / self.period);
        let profile = &self.profile;
        let (speed, turning) = match profile.kinematics {
            Kinematics::Ideal => (Vec3::new(a, b, c).norm(), Vec3::new(d, e, f).norm()),
            Kinematics::Delta(_) | Kinematics::Serial3R(_) => {
                ((self.jacobian * Vec3::new(a, b, c)).norm(), 0.0)
            }
        };
        let damped = (profile.max_damping * speed, profile.max_rot_damping * turning);
        wrench.scaled(part(force, self.most.0.min(damped.0)).min(part(torque, self.most.1.min(damped.1))))
    }

    /// Lowers the command of tick `tick` to what the account covers, or adds what pays its debt; `weight` is its part that balances the mechanism.
    pub(super) fn bound(&mut self, tick: u64, command: &Wrench, weight: &Wrench) -> Bounded {
        self.weight = *weight;
        let all = Bounded { wrench: *command, factor: 1.0, acts: false, adds: false };
        match self.guard {
            EnergyGuard::Off | EnergyGuard::Observe => return all,
            // Where there is no force, none is added.
            EnergyGuard::Controller if *command == *weight => return all,
            EnergyGuard::Controller => {
                let back = self.account.repayment();
                if back == [0.0; PORTS] {
                    return all;
                }
                let damping = self.gentle(self.wrench(&back));
                let acts = damping != Wrench::ZERO;
                return Bounded { wrench: *command + damping, acts, adds: acts, ..all };
            }
            EnergyGuard::Certified => {}
        }
        let rest = Wrench { force: command.force - weight.force, torque: command.torque - weight.torque };
        let factor = self.account.factor(tick, &self.efforts(&rest));
        if factor >= 1.0 {
            return all;
        }
        Bounded { wrench: *weight + rest.scaled(factor), factor, acts: true, adds: false }
    }

    /// What the motors got in tick `tick`, whether the tool was in contact, the force on, and what of it the scene gave of its own.
    pub(super) fn applied(&mut self, tick: u64, applied: &Wrench, contact: bool, given: &Given) {
        if self.guard == EnergyGuard::Off {
            return;
        }
        // No force at all carries no weight either.
        let weight = if *applied == Wrench::ZERO { Wrench::ZERO } else { self.weight };
        let rest = Wrench { force: applied.force - weight.force, torque: applied.torque - weight.torque };
        let efforts = self.efforts(&rest);
        // The energy bound promises the hand that nothing gives it more than it put in: not an object's motion either.
        let (efforts, work) = match self.guard {
            EnergyGuard::Certified => (efforts, 0.0),
            _ => given.apart(&efforts, |wrench| self.efforts(wrench)),
        };
        self.account.applied(tick, &efforts, contact, work);
    }
}
