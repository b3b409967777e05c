//! Who holds the force, and how it comes and goes: commands, lease, gate, ramp, faults. Real-time safe, no clock.

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
use super::handle::Refusal;
use super::lapse::{Gain, Lapse, Phase};
use super::record::{Fault, ServoState, ZeroReason};
use super::state::{Event, live, next, owned};
use crate::device::Lifecycle;
use crate::geometry::Wrench;
use crate::haptics::guard::{Gate, Ramp};

/// Limits that a client may lower.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lowered {
    /// N.
    pub force: f64,
    /// N·m.
    pub torque: f64,
    /// m/s.
    pub velocity: f64,
}

impl Default for Lowered {
    fn default() -> Self {
        Self { force: f64::INFINITY, torque: f64::INFINITY, velocity: f64::INFINITY }
    }
}

/// What the tick knows when it asks for the gain.
#[derive(Clone, Copy, Debug)]
pub struct Situation {
    /// Time since the last tick, s.
    pub dt: f64,
    /// The wanted wrench is small enough to arm.
    pub small: bool,
    /// There is a scene.
    pub scene: bool,
    /// The sample is fresh enough.
    pub fresh: bool,
    /// The clutch is held.
    pub clutched: bool,
    /// The dead-man button is held, or there is none.
    pub held: bool,
}

/// The force's owner and its gain.
#[derive(Clone, Debug)]
pub struct Arming {
    state: ServoState,
    fault: Fault,
    owner: u64,
    lease_until_ns: u64,
    ramp: Ramp,
    gate: Gate,
    /// Why the force is being taken away, while it is armed.
    leaving: Option<ZeroReason>,
    /// Why the force was last taken away, while it is idle.
    left: ZeroReason,
    /// While the force is taken away and the wanted wrench means nothing any more: what it fades from.
    frozen: Option<Wrench>,
    phase: Phase,
    /// The gain before a lapse, until it is back; else 0.
    reached: f64,
    /// Time since the last lapse began, s; and whether its force may come back as fast as it went.
    since: f64,
    quick: bool,
    /// Over which time it comes then, s, once that is known.
    over: Option<f64>,
    disarms: u64,
    /// Limits that a client lowered.
    pub lowered: Lowered,
    /// Real-time set-up suffices to arm.
    pub rt_ok: bool,
}

impl Arming {
    /// Absent, nobody's.
    pub fn new(disarms: u64) -> Self {
        Self {
            state: ServoState::Absent,
            fault: Fault::None,
            owner: 0,
            lease_until_ns: 0,
            ramp: Ramp::default(),
            gate: Gate::default(),
            leaving: None,
            left: ZeroReason::NotArmed,
            frozen: None,
            phase: Phase::Off,
            reached: 0.0,
            since: f64::INFINITY,
            quick: false,
            over: None,
            disarms,
            lowered: Lowered::default(),
            rt_ok: true,
        }
    }

    /// State.
    pub fn state(&self) -> ServoState {
        self.state
    }

    /// Latched fault.
    pub fn fault(&self) -> Fault {
        self.fault
    }

    /// Session that holds the force; 0 = none.
    pub fn owner(&self) -> u64 {
        self.owner
    }

    /// Gain, 0..=1.
    pub fn gain(&self) -> f64 {
        if live(self.state) { self.ramp.gain() } else { 0.0 }
    }

    /// How many times the contact's damping is taken while the force comes and goes: 2 - gain. With the gain g on the whole, what is
    /// felt is g (2 - g) of the damping with g of the stiffness: up to twice as well damped, and never more than with the whole force.
    pub fn easing(&self) -> f64 {
        2.0 - self.gain()
    }

    /// True while a session holds the force.
    pub fn owned(&self) -> bool {
        owned(self.state)
    }

    /// What the force fades from instead of the wanted wrench.
    pub fn frozen(&self) -> Option<Wrench> {
        self.frozen
    }

    fn go(&mut self, event: Event) {
        let before = self.state;
        self.state = next(self.state, event);
        if self.state == before {
            return;
        }
        if owned(before) && !owned(self.state) {
            self.left = self.leaving.take().unwrap_or(ZeroReason::NotArmed);
            self.owner = 0;
            self.frozen = None;
        }
        if !live(self.state) {
            self.ramp.drop_to_zero();
            self.gate.reset();
            self.frozen = None;
            self.reached = 0.0;
        }
        if self.state == ServoState::Fault && self.fault == Fault::None {
            self.fault = Fault::DeviceGone;
        }
    }

    /// Latches a fault; the first one stays.
    pub fn fail(&mut self, fault: Fault) {
        if fault == Fault::None {
            return;
        }
        if self.fault == Fault::None {
            self.fault = fault;
        }
        self.go(Event::Fails);
    }

    /// Follows the device's own state.
    pub fn device(&mut self, lifecycle: Lifecycle) {
        self.go(match lifecycle {
            Lifecycle::Absent | Lifecycle::Fault => Event::Gone,
            Lifecycle::Booting => Event::Boots,
            Lifecycle::Uncalibrated => Event::NeedsCalibration,
            Lifecycle::Ready => Event::Ready,
        });
    }

    /// Arms for `session`; `disarms` is the count of disarm requests now, `stamp` that at the sending.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn arm(
        &mut self,
        session: u64,
        stamp: u64,
        disarms: u64,
        now_ns: u64,
        config: &ServoConfig,
    ) -> Result<(), Refusal> {
        if stamp != disarms || self.leaving == Some(ZeroReason::Shutdown) {
            return Err(if stamp != disarms { Refusal::Disarmed } else { Refusal::Stopping });
        }
        match self.state {
            ServoState::Absent | ServoState::Booting | ServoState::Uncalibrated => Err(Refusal::NotReady),
            ServoState::Fault => Err(Refusal::InFault),
            ServoState::Idle if !self.rt_ok => Err(Refusal::Degraded),
            ServoState::Idle => {
                self.go(Event::Arm);
                self.owner = session;
                self.leaving = None;
                self.gate.reset();
                self.lease_until_ns = now_ns.saturating_add((config.lease * 1e9) as u64);
                Ok(())
            }
            ServoState::Armed | ServoState::Rendering if self.owner != session => Err(Refusal::Owned),
            // The force is on its way down for good; arm again once it is zero.
            ServoState::Armed | ServoState::Rendering if self.going() => Err(Refusal::Disarmed),
            ServoState::Armed | ServoState::Rendering => Ok(()),
        }
    }

    /// On its way to idle.
    fn going(&self) -> bool {
        self.leaving.is_some_and(|r| !matches!(r, ZeroReason::ArmingGate | ZeroReason::DeadMan))
    }

    /// Takes the force away for `reason`; a first reason stays, but a way back to the gate becomes a way to idle.
    pub fn leave(&mut self, reason: ZeroReason) {
        if owned(self.state) && !self.going() {
            self.leaving = Some(reason);
        }
    }

    /// Back to the gate: the tool changed or jumped, so the wanted wrench has nothing to do with the `last` command any
    /// more; that one fades.
    pub fn regate(&mut self, last: &Wrench) {
        if !live(self.state) {
            self.gate.reset();
            return;
        }
        if self.frozen.is_none() {
            let gain = self.ramp.gain();
            if self.leaving.is_some() && gain > 0.0 {
                // It is on its way down already, and goes on from there.
                self.frozen = Some(last.scaled(1.0 / gain));
            } else {
                self.frozen = Some(*last);
                self.ramp.fill();
            }
        }
        if self.leaving.is_none() {
            self.leaving = Some(ZeroReason::ArmingGate);
        }
    }

    /// Leaves a latched fault.
    ///
    /// # Errors
    /// [`Refusal::NoFault`].
    pub fn clear(&mut self) -> Result<(), Refusal> {
        if self.state != ServoState::Fault {
            return Err(Refusal::NoFault);
        }
        self.fault = Fault::None;
        self.left = ZeroReason::NotArmed;
        self.go(Event::Clear);
        Ok(())
    }

    /// The owner is alive until then.
    pub fn lease(&mut self, until_ns: u64) {
        self.lease_until_ns = until_ns;
    }

    /// Watches disarm requests (a number that changes with each, odd where the owner is gone) and the lease.
    pub fn watch(&mut self, disarms: u64, now_ns: u64) {
        if disarms != self.disarms {
            self.disarms = disarms;
            let gone = disarms & 1 == 1;
            self.leave(if gone { ZeroReason::LeaseLost } else { ZeroReason::Disarmed });
        }
        if owned(self.state) && now_ns >= self.lease_until_ns {
            self.leave(ZeroReason::LeaseLost);
        }
    }

    /// Before a tick's contacts: `fresh` tells whether where the hand is is known, and `follows` that the tool goes with it.
    pub fn look(&mut self, fresh: bool, follows: bool, config: &ServoConfig) {
        let away = self.phase == Phase::Away;
        self.phase = match (live(self.state), fresh && follows) {
            (false, _) => Phase::Off,
            (true, false) => Phase::Away,
            (true, true) if away => Phase::Back,
            (true, true) => Phase::Known,
        };
        if self.phase == Phase::Away && !away {
            // Samples that come too seldom for long let the force fade out.
            self.quick = self.since > config.ramp_up;
            self.since = 0.0;
            self.over = None;
        }
        if self.phase == Phase::Back {
            self.over = Some(self.ramped().comes_over(config.ramp_down, config.ramp_up));
        }
        // The clutch may be held for as long as one likes: nobody expects the force in the next moment.
        self.quick &= follows || self.phase != Phase::Away;
    }

    /// Where this tick stands in a lapse; see [`Lapse::new`].
    pub fn lapse(&self, dt: f64, more: f64, farther: f64, config: &ServoConfig) -> Lapse {
        let mut coming = self.ramp;
        coming.rise(dt, self.rise_over(config));
        Lapse::new(self.phase, Gain { comes: coming.gain(), ..self.ramped() }, dt, more, farther)
    }

    fn ramped(&self) -> Gain {
        let (was, reached) = (self.gain(), self.reached);
        Gain { was, comes: was, reached, quick: self.comes_back() }
    }

    /// The ramp is on its way back to where it was before a lapse, as fast as it went.
    fn comes_back(&self) -> bool {
        self.quick && self.ramp.gain() < self.reached
    }

    /// Time of the ramp up, s.
    fn rise_over(&self, config: &ServoConfig) -> f64 {
        self.over.filter(|_| self.comes_back()).unwrap_or(config.ramp_up)
    }

    /// The tick in which the hand is seen again after a lapse that took the force.
    pub fn back(&self) -> bool {
        self.phase == Phase::Back && self.ramped().lost() > 0.0
    }

    /// One tick of gate and ramp. Returns the gain for this tick's command.
    pub fn step(&mut self, s: &Situation, config: &ServoConfig) -> f64 {
        let small = s.small && s.scene && s.fresh && !s.clutched && s.held;
        self.since += s.dt;
        let passes = self.state == ServoState::Armed && self.gate.pass(small, config.gate_ticks);
        match self.state {
            ServoState::Armed if self.leaving.is_some() => self.go(Event::Released),
            ServoState::Armed if passes => self.go(Event::GatePassed),
            ServoState::Rendering => {
                // Let go of, the force comes back through the gate only.
                if !s.held && self.leaving.is_none() {
                    self.leaving = Some(ZeroReason::DeadMan);
                }
                if self.leaving.is_some() || !s.fresh || s.clutched || !s.scene {
                    self.reached = self.reached.max(self.ramp.gain());
                    self.ramp.fall(s.dt, config.ramp_down);
                } else {
                    self.ramp.rise(s.dt, self.rise_over(config));
                    if self.ramp.gain() >= self.reached {
                        self.reached = 0.0;
                    }
                }
                match self.leaving {
                    Some(ZeroReason::ArmingGate | ZeroReason::DeadMan) if self.ramp.gain() == 0.0 => {
                        self.leaving = None;
                        self.go(Event::Regate);
                    }
                    Some(_) if self.ramp.gain() == 0.0 => self.go(Event::Released),
                    _ => {}
                }
            }
            _ => {}
        }
        self.gain()
    }

    /// Why the force is zero or on its way there. `felt`: something is felt; `stopped`: it is not, for an object stopped.
    pub fn zero(&self, s: &Situation, felt: bool, stopped: bool) -> ZeroReason {
        match self.state {
            ServoState::Absent => ZeroReason::NoDevice,
            ServoState::Booting | ServoState::Uncalibrated => ZeroReason::NotReady,
            ServoState::Idle => self.left,
            ServoState::Fault => ZeroReason::Fault,
            ServoState::Armed if !s.scene => ZeroReason::NoScene,
            ServoState::Armed if !s.held => ZeroReason::DeadMan,
            ServoState::Armed => ZeroReason::ArmingGate,
            ServoState::Rendering => match self.leaving {
                Some(reason) => reason,
                None if !s.fresh => ZeroReason::StaleSample,
                None if s.clutched => ZeroReason::Clutch,
                None if !s.scene => ZeroReason::NoScene,
                None if stopped => ZeroReason::MotionStopped,
                None if !felt => ZeroReason::NoContact,
                None => ZeroReason::None,
            },
        }
    }
}

#[cfg(test)]
#[path = "arming_tests.rs"]
mod tests;
