//! What the bridge holds of one device: its servo's handle, the commands under way, its owner, its telemetry.

use super::arming::{Arm, Arming};
use super::datagrams::Client;
use super::telemetry::Telemetry;
use super::{DeviceShared, Reply};
use crate::control::session::Sessions;
use crate::protocol::messages::LimitsNow;
use crate::protocol::rpc::{RpcError, codes};
use crate::scene::snapshot::Snapshot;
use crate::servo::handle::{Refusal, ServoCommand, ServoHandle, monotonic_ns};
use crate::servo::record::Fault;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

/// What happens when a command's answer arrives.
pub(super) enum Waiting {
    Plain(Reply<()>),
    Arm(Arm),
    /// Whose force goes.
    Disarm(u64, Reply<()>),
    Limits([f64; 3], Reply<LimitsNow>),
    Nobody,
}

/// One device.
pub(super) struct Unit {
    /// Its role in events; `None` where the daemon has but one.
    pub(super) name: Option<Arc<str>>,
    pub(super) servo: Option<Box<ServoHandle>>,
    /// A scene that came while there was no servo.
    unseen: Option<Box<Snapshot>>,
    pub(super) waiting: HashMap<u64, Waiting>,
    pub(super) arming: Arming,
    /// What the servo is told to hold, N, N·m, m/s: a client's lower ones, too, and over a restart of the servo. Endless before the
    /// first.
    limits: [f64; 3],
    /// What the device bears, which its servo knows by itself.
    caps: [f64; 3],
    pub(super) telemetry: Telemetry,
    pub(super) shared: Arc<DeviceShared>,
    pub(super) all: Arc<Sessions>,
}

impl Unit {
    pub(super) fn new(
        name: Option<Arc<str>>,
        telemetry: Telemetry,
        shared: Arc<DeviceShared>,
        all: Arc<Sessions>,
    ) -> Self {
        Self {
            name,
            servo: None,
            unseen: None,
            waiting: HashMap::new(),
            arming: Arming::default(),
            limits: [f64::INFINITY; 3],
            caps: [f64::INFINITY; 3],
            telemetry,
            shared,
            all,
        }
    }

    pub(super) fn attach(&mut self, mut handle: Box<ServoHandle>, caps: [f64; 3]) {
        if self.servo.is_some() {
            self.detach();
        }
        let c = handle.config();
        let configured = [c.max_force, c.max_torque, c.max_velocity];
        let lowered = (0..3).any(|i| self.limits[i] < configured[i]);
        self.limits = std::array::from_fn(|i| self.limits[i].min(configured[i]));
        self.caps = caps;
        self.tell_limits();
        if let Some(snapshot) = self.unseen.take() {
            // The servo is new, so any generation is newer than its last.
            let _ = handle.publish(snapshot);
        }
        self.servo = Some(handle);
        if lowered {
            // Before any other command: what a client has lowered stays so.
            let [force, torque, velocity] = self.limits;
            self.command(ServoCommand::Limits { force, torque, velocity }, Waiting::Nobody);
        }
    }

    pub(super) fn detach(&mut self) {
        let panicked = self.servo.as_ref().is_some_and(|s| s.counters().fault() == Fault::Panic);
        self.drain(monotonic_ns());
        self.servo = None;
        self.release_all();
        if let Some(arm) = self.arming.waiting() {
            let _ = arm.reply.send(Err(no_device()));
        }
        self.arming = Arming::default();
        self.shared.owner.store(0, Relaxed);
        // What it felt last is no state any more.
        *self.shared.latest.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let armed = self.telemetry.forget(panicked);
        let name = self.name.as_deref();
        if panicked {
            self.all.broadcast_of(
                name,
                "fault",
                "fault: panic, a bug; the device got zero, its servo has ended",
            );
        }
        if armed {
            self.all.broadcast_of(name, "disarmed", "the servo has ended");
        }
    }

    /// True when the session holds this device's force, or has asked for it.
    pub(super) fn concerns(&self, session: u64) -> bool {
        let asked = |w: &Waiting| matches!(w, Waiting::Arm(a) if a.session == session);
        self.holder() == session || self.arming.waits(session) || self.waiting.values().any(asked)
    }

    pub(super) fn publish(&mut self, snapshot: Box<Snapshot>) {
        match &mut self.servo {
            // The scene service publishes under its lock, so generations rise.
            Some(servo) => {
                let _ = servo.publish(snapshot);
            }
            None => self.unseen = Some(snapshot),
        }
    }

    /// The limits that hold now, which others may read from here on.
    fn tell_limits(&self) -> [f64; 3] {
        let now = std::array::from_fn(|i| self.limits[i].min(self.caps[i]));
        *self.shared.limits.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        now
    }

    /// Lowers the limits; what is `None` stays.
    pub(super) fn lower(&mut self, wanted: [Option<f64>; 3], reply: Reply<LimitsNow>) {
        // What another has asked for and the servo has not answered yet is not to be taken back.
        let mut new = self.limits;
        let asked = self.waiting.values().filter_map(|w| match w {
            Waiting::Limits(asked, _) => Some(*asked),
            _ => None,
        });
        for less in asked.map(|l| l.map(Some)).chain([wanted]) {
            for (new, less) in new.iter_mut().zip(less) {
                *new = less.map_or(*new, |less| less.min(*new));
            }
        }
        let command = ServoCommand::Limits { force: new[0], torque: new[1], velocity: new[2] };
        self.command(command, Waiting::Limits(new, reply));
    }

    /// Sends a command; false, and the answer is given, when it cannot be sent.
    pub(super) fn command(&mut self, command: ServoCommand, waiting: Waiting) -> bool {
        let Some(servo) = &mut self.servo else {
            waiting.refuse(no_device());
            return false;
        };
        match servo.send(command) {
            Ok(id) => {
                self.waiting.insert(id, waiting);
                true
            }
            Err(full) => {
                waiting.refuse(RpcError::new(codes::LIMIT, full.to_string()));
                false
            }
        }
    }

    /// Hands the servo's answers to those who wait.
    pub(super) fn answer(&mut self, sessions: &BTreeMap<u64, Client>, generation: u64) {
        let Some(servo) = &mut self.servo else { return };
        let acks: Vec<_> = servo.acks().collect();
        for ack in acks {
            let Some(waiting) = self.waiting.remove(&ack.id) else { continue };
            match (waiting, ack.result) {
                (Waiting::Arm(arm), result) => self.armed(arm, result, sessions),
                (Waiting::Disarm(session, reply), Ok(())) => self.releasing(session, reply),
                (Waiting::Limits(new, reply), Ok(())) => {
                    self.limits = new;
                    let [force, torque, velocity] = self.tell_limits();
                    let _ = reply.send(Ok(LimitsNow { force, torque, velocity, generation }));
                }
                (Waiting::Plain(reply), Ok(())) => {
                    let _ = reply.send(Ok(()));
                }
                (other, Err(why)) => other.refuse(refusal(why)),
                (Waiting::Nobody, Ok(())) => {}
            }
        }
    }
}

impl Waiting {
    pub(super) fn refuse(self, e: RpcError) {
        match self {
            Self::Plain(reply) | Self::Disarm(_, reply) => drop(reply.send(Err(e))),
            Self::Arm(arm) => drop(arm.reply.send(Err(e))),
            Self::Limits(_, reply) => drop(reply.send(Err(e))),
            Self::Nobody => {}
        }
    }
}

pub(super) fn no_device() -> RpcError {
    RpcError::new(codes::SERVO, "no device is open; see `status`, and `hapticd devices` for what is known")
}

pub(in crate::control) fn refusal(why: Refusal) -> RpcError {
    let text = match why {
        Refusal::NotReady => "the device is absent, booting or not calibrated",
        Refusal::InFault => "a fault is latched; see `status` for which, then clear_fault",
        Refusal::Degraded => {
            "real-time set-up is degraded and servo.require_rt is on; `hapticd doctor` names what is missing and \
             the cure"
        }
        Refusal::Disarmed => "the force was taken away meanwhile; arm again",
        Refusal::Owned => "another session is armed; `takeover` takes the force from it",
        Refusal::NoFault => "there is no latched fault",
        Refusal::Invalid => "a number is not finite or out of range",
        Refusal::Stopping => "the daemon is shutting down",
    };
    let code = match why {
        Refusal::Owned => codes::NOT_OWNER,
        Refusal::Invalid => codes::INVALID_PARAMS,
        Refusal::Stopping => codes::SHUTDOWN,
        _ => codes::SERVO,
    };
    RpcError::new(code, text)
}
