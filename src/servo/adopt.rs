//! Step 1 of a tick: faults and flags from outside, the newest scene, the newest motion frame, the waiting commands.

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

use super::handle::{Ack, Refusal, Sent, ServoCommand};
use super::record::{FLAG_ADOPTED, FLAG_RETURN_FULL, Fault, ZeroReason};
use super::tick::Servo;
use crate::device::Lifecycle;
use crate::geometry::Point;
use crate::scene::exchange::Adoption;
use std::sync::atomic::Ordering::Relaxed;

/// Commands taken in one tick; more wait for the next.
const COMMANDS: usize = 8;

/// The world of this tick.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Adopted {
    /// Generation felt.
    pub generation: u64,
    /// Motion frame felt.
    pub motion_seq: u64,
    /// When a scene was adopted in this tick: the generation felt before.
    pub since: Option<u64>,
    /// Record flags.
    pub flags: u32,
}

impl Servo {
    pub(super) fn adopt(&mut self, device: Lifecycle, now: u64, fault: Fault) -> Adopted {
        self.arming.device(device);
        let outside = self.end.flags.take_fault();
        self.arming.fail(if outside == Fault::None { fault } else { outside });
        if self.end.flags.stopping() {
            self.arming.leave(ZeroReason::Shutdown);
        }
        let mut adopted = Adopted::default();
        self.adopt_scene(&mut adopted);
        if self.end.motions.adopt() == Adoption::ReturnFull {
            adopted.flags |= FLAG_RETURN_FULL;
        }
        adopted.generation = self.end.snapshots.current().map_or(0, |s| s.generation);
        adopted.motion_seq = self.end.motions.current().map_or(0, |m| m.sequence);

        let disarms = self.end.flags.disarms();
        self.arming.watch(disarms, now);
        for _ in 0..COMMANDS {
            // Without room for the answer the command waits.
            if self.end.acks.is_full() {
                break;
            }
            let Ok(sent) = self.end.commands.pop() else { break };
            let result = self.obey(&sent, device, disarms, now);
            let _ = self.end.acks.push(Ack { id: sent.id, tick: self.tick - 1, result });
        }
        adopted
    }

    fn adopt_scene(&mut self, adopted: &mut Adopted) {
        let before = self.end.snapshots.current().map_or(0, |s| s.generation);
        match self.end.snapshots.adopt() {
            Adoption::Unchanged => return,
            Adoption::ReturnFull => {
                adopted.flags |= FLAG_RETURN_FULL;
                return;
            }
            Adoption::Adopted => {}
        }
        let Some(scene) = self.end.snapshots.current() else { return };
        adopted.flags |= FLAG_ADOPTED;
        adopted.since = Some(before);
        let tool = Some((scene.tool.incarnation, scene.tool.offset));
        let moved = self.mapping.set(&scene.device_in_scene, scene.workspace_scale);
        if moved || tool != self.tool {
            self.tool = tool;
            self.regate();
        }
        super::flags::add(&self.end.counters.adopted, 1);
    }

    /// The tool's pose jumps: back to the gate, and a virtual tool starts anew from the device.
    pub(super) fn regate(&mut self) {
        self.arming.regate(&self.last);
        self.coupled.restart();
    }

    fn obey(&mut self, sent: &Sent, device: Lifecycle, disarms: u64, now: u64) -> Result<(), Refusal> {
        match sent.command {
            ServoCommand::Arm { .. } if self.end.flags.stopping() => Err(Refusal::Stopping),
            ServoCommand::Arm { session } => {
                self.arming.arm(session, sent.disarms, disarms, now, &self.end.config)
            }
            ServoCommand::Disarm => {
                self.arming.leave(ZeroReason::Disarmed);
                Ok(())
            }
            ServoCommand::ClearFault => {
                let cleared = self.arming.clear();
                if cleared.is_ok() {
                    self.sense.reset();
                    self.energy.restart(self.tick);
                    self.arming.device(device);
                }
                cleared
            }
            ServoCommand::Lease { until_ns } => {
                self.arming.lease(until_ns);
                Ok(())
            }
            ServoCommand::Limits { force, torque, velocity } => {
                if !(force >= 0.0 && torque >= 0.0 && velocity >= 0.0) {
                    return Err(Refusal::Invalid);
                }
                self.arming.lowered = super::arming::Lowered { force, torque, velocity };
                Ok(())
            }
            ServoCommand::Clutch { held } => {
                let Some(pose) = self.sense.pose() else { return Err(Refusal::NotReady) };
                self.mapping.clutch(held, &pose);
                Ok(())
            }
            ServoCommand::Recentre { to } => {
                let Some(pose) = self.sense.pose() else { return Err(Refusal::NotReady) };
                if !to.iter().all(|c| c.is_finite()) {
                    return Err(Refusal::Invalid);
                }
                self.mapping.recentre(&Point::from(to), &pose);
                self.regate();
                Ok(())
            }
        }
    }
}

impl super::handle::Counters {
    /// Takes a tick's record into the running counters. Servo side.
    pub(super) fn note(&self, record: &super::record::TickRecord, dropped: bool, owner: u64) {
        use super::flags::add;
        use super::record as r;
        let on = |bit: u32| u64::from(record.flags & bit != 0);
        add(&self.lost, u64::from(record.lost));
        add(&self.skipped, u64::from(record.skipped));
        add(&self.late, u64::from(record.skipped > 0));
        add(&self.deadlines, on(r::FLAG_DEADLINE));
        add(&self.incomplete, on(r::FLAG_INCOMPLETE));
        add(&self.return_full, on(FLAG_RETURN_FULL));
        add(&self.dropped, u64::from(dropped));
        self.generation.store(record.generation, Relaxed);
        self.owner.store(owner, Relaxed);
        self.wake_max_ns.store(self.wake_max_ns.load(Relaxed).max(record.wake_ns), Relaxed);
        self.compute_max_ns.store(self.compute_max_ns.load(Relaxed).max(record.compute_ns), Relaxed);
        self.publish(record);
        self.planned_ns.store(record.planned_ns, Relaxed);
        add(&self.ticks, 1);
    }
}
