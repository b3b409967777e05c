//! One tick: the specification of the servo.
//!
//! [`Servo::tick`] is pure in the sense that clock, device and scene come in from outside: the very same function runs
//! on the real clock and, in tests and `hapticd simulate`, on a virtual one. It allocates nothing, frees nothing, takes
//! no lock, logs nothing and makes no system call but the device's own.

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

use super::adopt::Adopted;
use super::arming::Arming;
use super::clock::{Clock, Until};
use super::coupled::{self, Coupled};
use super::delay::LoopDelay;
use super::energy::Energy;
use super::handle::ServoEnd;
use super::mapping::{Mapping, ToolState};
use super::own::{self, Given};
use super::query::{Queries, Touch, World};
use super::record::*;
use super::schedule::Plan;
use super::sense::{Sense, Sensed};
use super::view::{Moved, Mover};
use crate::contact::Deadline;
use crate::device::profile::Profile;
use crate::device::{Accepted, Device, Lifecycle, WriteFault};
use crate::geometry::{Pose, Vec3, Wrench};
use crate::haptics::braking::Brake;
use crate::haptics::coupling::{self, Felt, Rendered};
use crate::haptics::effects::{Effects, Pace};
use crate::haptics::guard::{self, Limits};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The servo between ticks. Everything it will ever need is allocated in [`Servo::new`].
pub struct Servo {
    pub(super) end: ServoEnd,
    pub(super) arming: Arming,
    pub(super) mapping: Mapping,
    pub(super) sense: Sense,
    pub(super) energy: Energy,
    /// Tool incarnation and offset in force.
    pub(super) tool: Option<(u32, Pose)>,
    pub(super) coupled: Coupled,
    /// The view that this device moves, and that which is moved of its own workspace.
    pub(super) mover: Option<Mover>,
    pub(super) moved: Option<Moved>,
    queries: Queries,
    effects: Effects,
    brake: Brake,
    delay: LoopDelay,
    limits: Limits,
    gravity: bool,
    /// Factor of the stiffness cap in the last tick, and that of what the contacts left to the effects.
    factor: f64,
    effect_factor: f64,
    /// Last command, device axes.
    pub(super) last: Wrench,
    last_planned_ns: Option<u64>,
    pub(super) tick: u64,
    touching: bool,
}

/// A sample may be missing: the next one shows the way of two.
const SAMPLES: f64 = 2.0;
/// Part of the caps that contacts always leave to effects.
const LEAST_LEFT: f64 = 0.1;
/// Smallest factor of the stiffness cap in whose terms forces at the hand are put at the contact.
const LEAST_FACTOR: f64 = 0.1;

/// What the tick made of contact and guard.
struct Command {
    wrench: Wrench,
    rendered: Rendered,
    stiffness: f64,
    /// Factor of the energy bound.
    bound: f64,
    gain: f64,
    given: Given,
    zero: ZeroReason,
    flags: u32,
}

impl Servo {
    /// A servo for a device of this profile.
    pub fn new(end: ServoEnd, profile: &Arc<Profile>) -> Self {
        let (config, dt) = (end.config.clone(), end.config.dt());
        let delay = LoopDelay::new(&config, profile);
        let limits = Limits::new(
            config.max_force.min(profile.max_force),
            config.max_torque.min(profile.max_torque),
            config.slew_force * dt,
            config.slew_torque * dt,
        );
        let coupled =
            Coupled::new(config.coupling, &delay.caps(), delay.tau(), &limits, profile.max_velocity);
        Self {
            arming: Arming::new(end.flags.disarms()),
            mapping: Mapping::default(),
            sense: Sense::new(&config, profile),
            energy: Energy::new(&config, profile),
            tool: None,
            coupled,
            mover: end.moves.clone().map(Mover::new),
            moved: end.moved_by.clone().map(Moved::new),
            queries: Queries::default(),
            effects: Effects::default(),
            brake: Brake::default(),
            delay,
            limits,
            gravity: profile.gravity_compensation(&[0.0; 6]) != Wrench::ZERO,
            factor: 1.0,
            effect_factor: 1.0,
            last: Wrench::ZERO,
            last_planned_ns: None,
            tick: 0,
            touching: false,
            end,
        }
    }

    /// Whether the real-time set-up suffices to arm (`require_rt`).
    pub fn set_rt_ok(&mut self, ok: bool) {
        self.arming.rt_ok = ok;
    }

    /// The real-time set-up falls short of what was asked for: less is rendered stably.
    pub fn set_degraded(&mut self, degraded: bool) {
        self.delay.degraded(degraded);
    }

    /// True once the servo was asked to stop and holds no force any more.
    pub fn finished(&self) -> bool {
        self.end.flags.stopping() && !self.arming.owned()
    }

    /// One tick. `fault` is what the schedule or the clock found wrong.
    pub fn tick(
        &mut self,
        device: &mut dyn Device,
        clock: &dyn Clock,
        plan: Plan,
        fault: Fault,
    ) -> TickRecord {
        let now = clock.now_ns();
        let dt = self.since_last(plan);
        self.watch_delay(device, now.saturating_sub(plan.due_ns) as i64);
        // 1. Adopt the newest scene, motion frame and commands: everything below sees one world.
        let adopted = self.adopt(device.lifecycle(), now, fault);
        // 2. and 3. Read the device and check the sample.
        let sensed = self.sense(device, now);
        let follows = !self.mapping.clutched() && self.tool.is_some();
        self.arming.look(sensed.fresh, follows, &self.end.config);
        self.tell_view(device, &sensed, now);
        self.move_view(&sensed, &adopted, now, dt);
        // 4. Device space to scene space.
        let tool = self.tool_state(&sensed);
        // 5. Contacts within the budget.
        let touch = self.touch(&tool, clock, now, dt, &adopted);
        if let Some(moved) = &mut self.moved {
            moved.left(&touch, &tool.pose);
        }
        // 6. and 7. Control law and guard: the final wrench, and the reason when it is zero.
        let command = self.command(&sensed, &tool, &touch, dt);
        // 8. Write the device.
        let accepted = self.write(device, clock.now_ns(), command.wrench);
        let pressed = touch.acts() && self.arming.gain() > 0.0;
        self.energy.applied(self.tick, &accepted.applied, pressed, &command.given);
        // 9. One record.
        let record =
            self.record(plan, now, clock.now_ns(), &adopted, &sensed, &tool, &touch, &command, accepted);
        self.show_view();
        self.push(&record);
        record
    }

    fn since_last(&mut self, plan: Plan) -> f64 {
        self.tick += 1;
        let period = self.end.config.period_ns;
        let last = self.last_planned_ns.replace(plan.planned_ns);
        // A very long gap is a fault of its own; no ramp should run through in one step because of it.
        let ns = last.map_or(period, |l| plan.planned_ns.saturating_sub(l)).min(5 * period);
        ns as f64 * 1e-9
    }

    /// The loop's delay: what the device renders stably falls with it.
    fn watch_delay(&mut self, device: &dyn Device, late_ns: i64) {
        self.delay.step(late_ns, device.delay_ns());
        let caps = self.delay.caps();
        self.coupled.within(&caps, self.eased_tau());
        let counters = &self.end.counters;
        counters.delay_ns.store((self.delay.seconds() * 1e9) as u64, Relaxed);
        counters.ceiling.store(self.delay.part().to_bits(), Relaxed);
        counters.stiffest.store(caps.linear().to_bits(), Relaxed);
    }

    /// Damping time of what the device feels, s: of the contact, or of a virtual tool's spring.
    fn eased_tau(&self) -> f64 {
        self.delay.tau() * self.arming.easing()
    }

    /// Damping time of the contact, s.
    fn tau(&self) -> f64 {
        // A virtual tool's contact needs no more damping than its own integration: a tick's worth keeps it quiet.
        if self.coupled.virtual_tool() { self.end.config.dt() } else { self.eased_tau() }
    }

    fn tool_state(&mut self, sensed: &Sensed) -> ToolState {
        let offset = self.tool.map_or_else(Pose::identity, |(_, offset)| offset);
        let target = self.mapping.tool(&sensed.pose, &sensed.twist, &offset);
        self.coupled.tool(&target, &offset, self.arming.owned(), self.arming.back())
    }

    fn touch(&mut self, tool: &ToolState, clock: &dyn Clock, now: u64, dt: f64, adopted: &Adopted) -> Touch {
        let Some(snapshot) = self.end.snapshots.current() else { return Touch::NOTHING };
        // Who moves another's view has no tool in the scene.
        if !self.sense.has_sample() || self.mover.is_some() {
            return Touch::NOTHING;
        }
        let (config, tau) = (&self.end.config, self.tau());
        let deadline = config.deadline_ns.filter(|_| clock.is_real());
        let deadline = deadline.map(|ns| Until { clock, at: now.saturating_add(ns) });
        let keep = self.arming.gain() > 0.0;
        let scale = self.mapping.scale();
        let fastest = self.coupled.fastest() * scale;
        let braking = self.coupled.braking(scale);
        let mut touch = self.queries.touch(&World {
            snapshot,
            frame: self.end.motions.current(),
            tool,
            tick: self.tick,
            now_ns: now,
            dt,
            since: adopted.since,
            units: config.budget_units,
            deadline: deadline.as_ref().map(|d| d as &dyn Deadline),
            tau,
            grip: self.coupled.grip(),
            // A tool on a lever may be faster than the device.
            way: SAMPLES
                * dt
                * (fastest.max(tool.twist.linear.norm()) + self.moved.as_ref().map_or(0.0, Moved::speed)),
            fade: config.fade,
            release: config.ramp_down,
            keep,
            braking: braking.range,
            lapse: self.arming.lapse(dt, scale / self.factor.max(LEAST_FACTOR), scale, config),
        });
        if keep {
            let pace = Pace { dt, fade: config.fade, release: config.ramp_down, tau, scale };
            let (x, v) = (&tool.pose.translation.vector, &tool.twist.linear);
            let mut push = self.effects.step(&snapshot.effects, x, v, &pace);
            touch.placed |= push.holds();
            let (near, moves) = touch.near.map_or((None, Vec3::zeros()), |(n, v)| (Some(n), v));
            push.add(&self.brake.step(&braking, near.as_ref(), &(v - moves), dt), 1.0);
            // A virtual tool feels both; a device directly feels each within what it bears.
            if self.coupled.virtual_tool() {
                touch.pushed(&push, v);
            } else {
                touch.effects = push;
            }
        } else {
            self.effects.reset();
            self.brake.reset();
        }
        touch
    }

    fn command(&mut self, sensed: &Sensed, tool: &ToolState, touch: &Touch, dt: f64) -> Command {
        let felt = Felt {
            wrench: self.mapping.wrench(&touch.wrench, &tool.lever),
            stiffness: self.mapping.stiffness(&touch.stiffness, &tool.lever),
            damping: self.mapping.stiffness(&touch.damping, &tool.lever),
        };
        let radius = self.end.snapshots.current().map_or(0.0, |s| s.tool.bound_radius);
        let (rendered, effects) = if self.coupled.virtual_tool() {
            let fade = self.end.config.fade;
            let wrench = self.coupled.step(tool, touch, &self.mapping, radius, fade, dt);
            self.factor = 1.0;
            (Rendered { wrench, factor: 1.0, load: 0.0 }, Wrench::ZERO)
        } else {
            let caps = self.delay.caps();
            let nothing =
                |last| Rendered { wrench: Wrench::ZERO, factor: coupling::recovered(last, dt), load: 0.0 };
            let contacts = match touch.felt {
                true => coupling::render(&caps, &felt, self.factor, dt),
                false => nothing(self.factor),
            };
            // Effects never lower a contact: a wall would be gone as long as they last, and come back under a hand deep in it.
            let left = (1.0 - contacts.load).max(LEAST_LEFT);
            let felt = own::effects(&touch.effects, &self.mapping, &tool.lever);
            let effects = match &felt {
                Some(felt) => coupling::render_within(&caps, felt, left, self.effect_factor, dt),
                None => nothing(self.effect_factor),
            };
            (self.factor, self.effect_factor) = (contacts.factor, effects.factor);
            let factor = match (touch.felt, felt.is_some()) {
                (true, true) => contacts.factor.min(effects.factor),
                (false, true) => effects.factor,
                (_, false) => contacts.factor,
            };
            let wrench = contacts.wrench + effects.wrench;
            (Rendered { wrench, factor, load: contacts.load }, effects.wrench)
        };
        let config = &self.end.config;
        let situation = super::arming::Situation {
            dt,
            small: rendered.wrench.force.norm() <= config.gate_force
                && rendered.wrench.torque.norm() <= config.gate_torque,
            scene: self.tool.is_some(),
            fresh: sensed.fresh,
            clutched: self.mapping.clutched(),
            held: config.deadman == 0 || sensed.buttons & config.deadman != 0,
        };
        let before = self.arming.gain();
        let gain = self.arming.step(&situation, config);
        let mut wanted = self.arming.frozen().unwrap_or(rendered.wrench);
        let mut weight = Wrench::ZERO;
        if self.gravity && self.arming.frozen().is_none() {
            weight = self.sense.gravity();
            wanted += weight;
        }
        let limits = self.limits.lowered(self.arming.lowered.force, self.arming.lowered.torque);
        let mut flags = 0;
        let wrench = match guard::output(&limits, &self.last, &wanted, gain) {
            Ok(out) => {
                flags |= flag(out.saturated, FLAG_SATURATED) | flag(out.slewed, FLAG_SLEW);
                out.wrench
            }
            Err(guard::NonFinite) => {
                self.arming.fail(Fault::NonFiniteForce);
                Wrench::ZERO
            }
        };
        let wrench = if self.arming.gain() > 0.0 { wrench } else { Wrench::ZERO };
        let bounded = self.energy.bound(self.tick, &wrench, &weight.scaled(self.arming.gain()));
        flags |= flag(bounded.acts, FLAG_ENERGY_BOUND);
        // The weight that is put back whole beside what the account covers may be more than a lowered limit; so may damping, which grows
        // no faster together with the rest either.
        let wrench = match (bounded.acts, bounded.adds) {
            (true, true) => guard::saturate(&limits, &guard::slew(&limits, &self.last, &bounded.wrench)),
            (true, false) => guard::saturate(&limits, &bounded.wrench),
            (false, _) => wrench,
        };
        // What stands still beside a stopped object keeps its force: only then is there a reason for none.
        // The virtual tool's spring is never exactly without force.
        let force = !self.coupled.virtual_tool() || coupled::perceptible(&rendered.wrench);
        let none = !force || wrench == Wrench::ZERO;
        let pushed = touch.acts() || (self.coupled.virtual_tool() && force);
        let zero = match self.arming.zero(&situation, pushed, touch.stopped && none) {
            ZeroReason::None | ZeroReason::NoContact if none && touch.after_lapse => ZeroReason::AfterLapse,
            ZeroReason::None if none => ZeroReason::NoForce,
            zero => zero,
        };
        let stopping = self.end.flags.stopping() && self.arming.state() == ServoState::Idle;
        let (spring, ramp) = (self.coupled.spring_stiffness(), (before, self.arming.gain()));
        let scale = (self.mapping.scale(), radius);
        let pushes = (&rendered.wrench, &effects);
        let given = Given::of(touch, pushes, dt, scale, spring, self.factor, ramp);
        Command {
            wrench,
            given,
            stiffness: if touch.felt {
                self.coupled.stiffness(coupling::translational(&felt.stiffness))
            } else {
                0.0
            },
            rendered,
            bound: bounded.factor,
            gain: self.arming.gain(),
            zero: if stopping { ZeroReason::Shutdown } else { zero },
            flags,
        }
    }

    /// Writes the command, or zero by the device's own means where it takes nothing else.
    fn write(&mut self, device: &mut dyn Device, now: u64, wrench: Wrench) -> Accepted {
        self.last = Wrench::ZERO;
        let lifecycle = device.lifecycle();
        if self.arming.state() == ServoState::Fault || lifecycle != Lifecycle::Ready {
            // It may have gone, or lost its frame, since it was read: this tick's record has the reason.
            self.arming.device(lifecycle);
            device.zero(now);
            return Accepted::NOTHING;
        }
        match device.write(now, &wrench) {
            Ok(accepted) => {
                super::flags::add(&self.end.counters.writes, 1);
                self.last = wrench;
                accepted
            }
            Err(fault) => {
                if self.arming.owned() {
                    self.arming.fail(match fault {
                        WriteFault::Gone => Fault::DeviceGone,
                        WriteFault::NotReady | WriteFault::Failed => Fault::WriteFailed,
                    });
                }
                device.zero(now);
                Accepted::NOTHING
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn record(
        &mut self,
        plan: Plan,
        start: u64,
        end: u64,
        adopted: &Adopted,
        sensed: &Sensed,
        tool: &ToolState,
        touch: &Touch,
        command: &Command,
        accepted: Accepted,
    ) -> TickRecord {
        let touching = touch.touched > 0;
        let flags = adopted.flags
            | sensed.flags
            | command.flags
            | flag(!touch.complete, FLAG_INCOMPLETE)
            | flag(touch.deadline_hit, FLAG_DEADLINE)
            | flag(accepted.saturated, FLAG_MOTOR_SATURATED)
            | flag(touch.acts() && command.rendered.factor < 1.0, FLAG_STIFFNESS_CAPPED)
            | flag(touch.after_lapse, FLAG_AFTER_LAPSE)
            | flag(touching && !self.touching, FLAG_CONTACT_BEGIN)
            | flag(!touching && self.touching, FLAG_CONTACT_END);
        self.touching = touching;
        // A fault that the write itself met shows in this very record.
        let failed = self.arming.state() == ServoState::Fault;
        let felt = self.mapping.felt(&self.last, &self.coupled.lever());
        TickRecord {
            tick: self.tick - 1,
            planned_ns: plan.planned_ns,
            wake_ns: start.saturating_sub(plan.due_ns) as i64,
            compute_ns: end.saturating_sub(start),
            skipped: plan.skipped,
            generation: adopted.generation,
            motion_seq: adopted.motion_seq,
            state: self.arming.state(),
            zero: if failed { ZeroReason::Fault } else { command.zero },
            fault: self.arming.fault(),
            flags,
            buttons: sensed.buttons,
            sample_seq: sensed.seq,
            lost: sensed.lost,
            position: tool.pose.translation.vector.into(),
            orientation: tool.pose.rotation.coords.into(),
            velocity: tool.twist.linear.into(),
            angular_velocity: tool.twist.angular.into(),
            force: felt.force.into(),
            torque: felt.torque.into(),
            applied_force: accepted.applied.force.into(),
            applied_torque: accepted.applied.torque.into(),
            contact_force: touch.contact.force.into(),
            depth: touch.depth,
            distance: touch.distance,
            stiffness: command.stiffness,
            cap: command.rendered.factor,
            ramp: if failed { 0.0 } else { command.gain },
            energy: self.energy.balance(),
            bound: command.bound,
            work: touch.work,
            queried: touch.queried,
            touched: touch.touched,
            deepest_object: touch.deepest_object,
        }
    }

    fn push(&mut self, record: &TickRecord) {
        let dropped = self.end.telemetry.push(*record).is_err();
        self.end.counters.note(record, dropped, self.arming.owner());
    }
}

#[inline]
fn flag(on: bool, bit: u32) -> u32 {
    if on { bit } else { 0 }
}
