//! Who holds the force, and for how long.
//!
//! Arming is a lease. The bridge renews it at the servo while the owner's connection stands (and, when the owner
//! named a period, while it sends something within it) and while the tokio side is alive. Whatever of these stops,
//! the servo ramps to zero by itself.

use super::Reply;
use super::datagrams::Client;
use super::unit::{Unit, Waiting, no_device, refusal};
use crate::protocol::messages::EventNote;
use crate::protocol::rpc::{RpcError, codes};
use crate::servo::handle::{Refusal, ServoCommand, monotonic_ns};
use crate::servo::record::ServoState;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// How far each renewal reaches past the last sign of life of the tokio side: as long as a control plane may hang before
/// the servo ramps down by itself. It is not what ends the force when a client goes: that is told at once. A lease near
/// the time that a busy machine may keep these threads from running would take the force from living owners.
const LEASE_NS: u64 = 1_000_000_000;
/// How often it is renewed: twenty times within a lease.
const RENEW_NS: u64 = 50_000_000;
/// Whoever waits for a ramp to end waits so long.
const RELEASE_NS: u64 = 1_000_000_000;

/// A request to arm.
pub struct Arm {
    /// Which device.
    pub device: usize,
    /// For whom.
    pub session: u64,
    /// Longest silence of the owner; `None` = the connection is the lease.
    pub lease: Option<Duration>,
    /// Take the force from whoever has it.
    pub takeover: bool,
    /// Answer.
    pub reply: Reply<()>,
}

struct Owner {
    session: u64,
    lease: Option<Duration>,
    /// The servo has confirmed that it holds the force.
    seen: bool,
}

/// A disarm that waits for the ramp.
struct Release {
    /// Whose force goes.
    session: u64,
    until_ns: u64,
    reply: Reply<()>,
}

/// The owner, and who waits for the end of a ramp.
#[derive(Default)]
pub(super) struct Arming {
    owner: Option<Owner>,
    takeover: Option<(Arm, u64)>,
    releases: Vec<Release>,
    renewed_ns: u64,
    in_flight: bool,
}

impl Arming {
    /// The request to arm that waits for another's ramp.
    pub(super) fn waiting(&mut self) -> Option<Arm> {
        self.takeover.take().map(|(arm, _)| arm)
    }

    /// True when such a request is the session's.
    pub(super) fn waits(&self, session: u64) -> bool {
        self.takeover.as_ref().is_some_and(|(a, _)| a.session == session)
    }
}

impl Unit {
    pub(super) fn holder(&self) -> u64 {
        let counters = self.servo.as_ref().map(|s| s.counters());
        let servo = counters.map_or(0, |c| c.owner.load(Relaxed));
        if servo != 0 { servo } else { self.arming.owner.as_ref().map_or(0, |o| o.session) }
    }

    pub(super) fn arm(&mut self, arm: Arm, sessions: &BTreeMap<u64, Client>) {
        let Some(servo) = &self.servo else {
            let _ = arm.reply.send(Err(no_device()));
            return;
        };
        if !sessions.contains_key(&arm.session) {
            let _ = arm.reply.send(Err(RpcError::new(codes::SHUTDOWN, "the session has ended")));
            return;
        }
        let holder = self.holder();
        // Given back, or taken away; the ramp is not yet over.
        let falling = holder != 0 && self.arming.owner.is_none() && !self.arming.in_flight;
        if falling && self.arming.takeover.is_none() {
            self.arming.takeover = Some((arm, monotonic_ns() + RELEASE_NS));
            return;
        }
        if holder == 0 || holder == arm.session {
            self.send_arm(arm);
            return;
        }
        if !arm.takeover || self.arming.takeover.is_some() {
            let text = format!("session {holder} is armed; `takeover` takes the force from it");
            let _ = arm.reply.send(Err(RpcError::new(codes::NOT_OWNER, text)));
            return;
        }
        servo.disarm();
        if let Some(outbox) = sessions.get(&holder).and_then(|c| c.session.outbox()) {
            let text = format!("session {} has taken the force over", arm.session);
            let device = self.name.as_deref().map(str::to_owned);
            outbox.note("event", &EventNote { event: "taken_over".into(), text, device });
        }
        self.arming.owner = None;
        self.arming.takeover = Some((arm, monotonic_ns() + RELEASE_NS));
    }

    fn send_arm(&mut self, arm: Arm) {
        let command = ServoCommand::Arm { session: arm.session };
        self.arming.in_flight = self.command(command, Waiting::Arm(arm));
    }

    pub(super) fn armed(&mut self, arm: Arm, result: Result<(), Refusal>, sessions: &BTreeMap<u64, Client>) {
        self.arming.in_flight = false;
        // The client may have gone while the command was under way, or have been told that it took too long.
        if result.is_ok() && (arm.reply.is_closed() || !sessions.contains_key(&arm.session)) {
            if let Some(servo) = &self.servo {
                servo.disarm();
            }
            return;
        }
        if result.is_ok() {
            self.arming.owner = Some(Owner { session: arm.session, lease: arm.lease, seen: false });
            self.arming.renewed_ns = 0;
            self.shared.owner.store(arm.session, Relaxed);
        }
        let _ = arm.reply.send(result.map_err(refusal));
    }

    pub(super) fn disarm(&mut self, session: u64, any: bool, reply: Reply<()>) {
        let holder = self.holder();
        if holder != 0 && holder != session && !any {
            let text = format!("session {holder} holds the force");
            let _ = reply.send(Err(RpcError::new(codes::NOT_OWNER, text)));
            return;
        }
        // Who waits for the force does not get it after somebody took it away.
        if (any || self.arming.waits(session))
            && let Some(arm) = self.arming.waiting()
        {
            let _ = arm.reply.send(Err(refusal(Refusal::Disarmed)));
        }
        if self.name.is_some() && holder == 0 && !any && self.arming.in_flight && !self.concerns(session) {
            // One of several devices, about to be another's: a disarm that was not meant for it does not refuse that, nor claim that
            // there will be no force.
            let text = "another session's arming is under way";
            let _ = reply.send(Err(RpcError::new(codes::NOT_OWNER, text)));
            return;
        }
        let Some(servo) = &self.servo else {
            // No device, no force.
            let _ = reply.send(Ok(()));
            return;
        };
        // The flag first: it cannot be lost in a queue. Then a command, whose acknowledgement says that it was seen; the
        // answer follows when the ramp is over.
        servo.disarm();
        self.arming.owner = None;
        self.shared.owner.store(0, Relaxed);
        let whose = if holder == 0 { session } else { holder };
        self.command(ServoCommand::Disarm, Waiting::Disarm(whose, reply));
    }

    /// The servo has seen the disarm.
    pub(super) fn releasing(&mut self, session: u64, reply: Reply<()>) {
        self.arming.releases.push(Release { session, until_ns: monotonic_ns() + RELEASE_NS, reply });
    }

    /// Without a servo there is no force: whoever waits for its end has it.
    pub(super) fn release_all(&mut self) {
        for r in self.arming.releases.drain(..) {
            let _ = r.reply.send(Ok(()));
        }
        for (_, waiting) in self.waiting.drain() {
            match waiting {
                Waiting::Disarm(_, reply) => drop(reply.send(Ok(()))),
                other => other.refuse(no_device()),
            }
        }
    }

    fn finish_releases(&mut self, now: u64) {
        let Some(servo) = &self.servo else { return };
        let counters = servo.counters();
        let on = matches!(counters.state(), ServoState::Armed | ServoState::Rendering);
        let owner = if on { counters.owner.load(Relaxed) } else { 0 };
        for r in std::mem::take(&mut self.arming.releases) {
            if owner != r.session {
                let _ = r.reply.send(Ok(()));
            } else if now >= r.until_ns {
                let text = "the force did not ramp down within 1 s; see `status`";
                let _ = r.reply.send(Err(RpcError::new(codes::SERVO, text)));
            } else {
                self.arming.releases.push(r);
            }
        }
    }

    /// The session's connection has ended, or its lease has run out.
    pub(super) fn lose_owner(&mut self, session: u64) {
        if self.arming.takeover.as_ref().is_some_and(|(a, _)| a.session == session) {
            self.arming.takeover = None;
        }
        if self.arming.owner.as_ref().is_some_and(|o| o.session == session) {
            if let Some(servo) = &self.servo {
                servo.lose();
            }
            self.arming.owner = None;
            self.shared.owner.store(0, Relaxed);
            let text = format!("session {session} has lost the force");
            self.all.broadcast_of(self.name.as_deref(), "lease_lost", &text);
        }
    }

    pub(super) fn keep_lease(&mut self, sessions: &BTreeMap<u64, Client>, beat_ms: u64, now: u64) {
        self.finish_releases(now);
        self.finish_takeover(now);
        let Some(servo) = &mut self.servo else { return };
        let held = servo.counters().owner.load(Relaxed);
        let Some(owner) = &mut self.arming.owner else { return };
        let session = owner.session;
        if held == session {
            owner.seen = true;
        } else if owner.seen {
            // Disarmed by the servo itself: a fault, a lease that was renewed too late.
            self.arming.owner = None;
            self.shared.owner.store(0, Relaxed);
            return;
        }
        let silent =
            owner.lease.is_some_and(|l| sessions.get(&session).is_none_or(|c| c.session.silence() > l));
        if silent {
            self.lose_owner(session);
            return;
        }
        if now.saturating_sub(self.arming.renewed_ns) < RENEW_NS {
            return;
        }
        // Whether this thread hangs or the tokio side does: the lease ends as soon.
        let until_ns = beat_ms * 1_000_000 + LEASE_NS;
        if let Ok(id) = servo.send(ServoCommand::Lease { until_ns }) {
            self.waiting.insert(id, Waiting::Nobody);
            self.arming.renewed_ns = now;
        }
    }

    fn finish_takeover(&mut self, now: u64) {
        let Some((_, until)) = &self.arming.takeover else { return };
        let Some(servo) = &self.servo else { return };
        let counters = servo.counters();
        let free = counters.owner.load(Relaxed) == 0
            && !matches!(counters.state(), ServoState::Armed | ServoState::Rendering);
        if !free && now < *until {
            return;
        }
        let Some((arm, _)) = self.arming.takeover.take() else { return };
        if arm.reply.is_closed() {
            // Given up meanwhile: nobody waits for the force.
        } else if free {
            self.send_arm(arm);
        } else {
            let text = "the force of whoever had it did not ramp down within 1 s";
            let _ = arm.reply.send(Err(RpcError::new(codes::SERVO, text)));
        }
    }
}
