//! The control side's whole view of a running servo: [`channel`] makes the two ends, [`ServoHandle`] stays with the
//! control side, [`ServoEnd`] goes to [`super::run`].

pub use super::clock::monotonic_ns;
pub use super::config::ServoConfig;
pub use super::flags::{Counters, Flags};
use super::record::{Fault, TickRecord};
pub use super::rt::lock_snapshot;
use super::view::View;
pub use super::view::Workspace;
use crate::scene::broad::Published;
use crate::scene::exchange::{Adopter, Publisher, exchange};
use crate::scene::snapshot::{MotionFrame, Snapshot};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// What the control side may ask of the servo. Small and `Copy`: travels in a bounded ring, acknowledged by id.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ServoCommand {
    /// Arm for this session; renews nothing when already armed by it.
    Arm {
        /// Session that owns the force.
        session: u64,
    },
    /// Ramp down and go idle. The same as the disarm flag, but acknowledged.
    Disarm,
    /// Leave a latched fault: back to idle.
    ClearFault,
    /// The owner is alive until this servo-clock time, ns.
    Lease {
        /// Servo-clock time, ns.
        until_ns: u64,
    },
    /// Lower the limits; values above the daemon's own are ignored (clamped).
    Limits {
        /// N.
        force: f64,
        /// N·m.
        torque: f64,
        /// m/s.
        velocity: f64,
    },
    /// Hold the tool in place while the device is moved (indexing).
    Clutch {
        /// True while held.
        held: bool,
    },
    /// Map the device's present position to this point of the scene.
    Recentre {
        /// Scene, m.
        to: [f64; 3],
    },
}

/// Longest delay of a motion stream, ns. Slower or more scattered streams are played with gaps.
pub const MAX_MOTION_DELAY_NS: u64 = 80_000_000;

/// Delay with which a motion stream should be played so that one lost sample goes unnoticed, ns: two and a half
/// intervals, the jitter of the arrivals and 2 ms for the curve to settle, at most [`MAX_MOTION_DELAY_NS`]. For
/// [`MotionEntry::delay_ns`]; what `motion.open` answers.
///
/// [`MotionEntry::delay_ns`]: crate::scene::snapshot::MotionEntry::delay_ns
pub fn motion_delay_ns(interval_ns: u64, jitter_ns: u64) -> u64 {
    (interval_ns.saturating_mul(5) / 2)
        .saturating_add(jitter_ns)
        .saturating_add(2_000_000)
        .min(MAX_MOTION_DELAY_NS)
}

/// Why a command was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
    /// The device is absent, booting or not calibrated.
    NotReady,
    /// A latched fault: clear it first.
    InFault,
    /// Real-time set-up is degraded and `require_rt` is on.
    Degraded,
    /// The force was taken away after this arm command was sent.
    Disarmed,
    /// Another session is armed.
    Owned,
    /// There is no latched fault to clear. (A cause that persists latches a new one.)
    NoFault,
    /// A number is not finite or out of its range.
    Invalid,
    /// The daemon is shutting down.
    Stopping,
}

/// Answer of the servo to one command, in the order of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// As returned by [`ServoHandle::send`].
    pub id: u64,
    /// Tick in which it took effect.
    pub tick: u64,
    /// Done, or why not.
    pub result: Result<(), Refusal>,
}

/// The command ring is full: try again a tick later. Disarming never needs the ring, see [`Flags::disarm`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the servo's command queue is full; try again")]
pub struct QueueFull;

/// A snapshot was published whose generation does not exceed the last one's; it was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("generation {given} was published after generation {last}; generations must rise")]
pub struct StaleGeneration {
    /// Generation of the refused snapshot.
    pub given: u64,
    /// Newest generation published.
    pub last: u64,
}

/// Values freed by [`ServoHandle::reclaim`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Snapshots that the servo had replaced.
    pub snapshots: usize,
    /// Motion frames that the servo had replaced.
    pub motions: usize,
}

/// A command on its way, with its number and the disarm count at its sending.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub id: u64,
    pub disarms: u64,
    pub command: ServoCommand,
}

/// The control side's end. Not real-time: publishing and reclaiming free memory.
pub struct ServoHandle {
    snapshots: Publisher<Snapshot>,
    motions: Publisher<MotionFrame>,
    commands: rtrb::Producer<Sent>,
    acks: rtrb::Consumer<Ack>,
    telemetry: rtrb::Consumer<TickRecord>,
    flags: Flags,
    counters: Arc<Counters>,
    config: Arc<ServoConfig>,
    published: Published,
    generation: Option<u64>,
    superseded: u64,
    sent: u64,
    dropped: u64,
}

/// The servo's end: hand it to [`super::run::spawn`] or [`super::run::VirtualServo::new`].
pub struct ServoEnd {
    pub(super) snapshots: Adopter<Snapshot>,
    pub(super) motions: Adopter<MotionFrame>,
    pub(super) commands: rtrb::Consumer<Sent>,
    pub(super) acks: rtrb::Producer<Ack>,
    pub(super) telemetry: rtrb::Producer<TickRecord>,
    pub(super) flags: Flags,
    pub(super) counters: Arc<Counters>,
    pub(super) config: Arc<ServoConfig>,
    pub(super) moves: Option<Arc<View>>,
    pub(super) moved_by: Option<Arc<View>>,
}

impl ServoEnd {
    /// This servo's device moves that view, and has no tool in the scene.
    pub fn moves(&mut self, view: Arc<View>) {
        self.moves = Some(view);
    }

    /// The workspace of this servo's device is that view's.
    pub fn moved_by(&mut self, view: Arc<View>) {
        self.moved_by = Some(view);
    }
}

/// Makes the two ends of a servo.
///
/// # Panics
/// When [`ServoConfig::problem`] finds one; the configuration is checked with it when it is read.
pub fn channel(config: ServoConfig) -> (ServoHandle, ServoEnd) {
    assert_eq!(config.problem(), None, "unsound servo configuration");
    let (snapshots, adopt_snapshots) = exchange(config.return_ring);
    let (motions, adopt_motions) = exchange(config.return_ring);
    let (commands, take_commands) = rtrb::RingBuffer::new(config.command_ring);
    let (give_acks, acks) = rtrb::RingBuffer::new(config.command_ring);
    let (give_telemetry, telemetry) = rtrb::RingBuffer::new(config.telemetry_ring);
    let (flags, counters, config) = (Flags::default(), Arc::new(Counters::default()), Arc::new(config));
    let handle = ServoHandle {
        snapshots,
        motions,
        commands,
        acks,
        telemetry,
        flags: flags.clone(),
        counters: counters.clone(),
        config: config.clone(),
        published: Published::default(),
        generation: None,
        superseded: 0,
        sent: 0,
        dropped: 0,
    };
    let end = ServoEnd {
        snapshots: adopt_snapshots,
        motions: adopt_motions,
        commands: take_commands,
        acks: give_acks,
        telemetry: give_telemetry,
        flags,
        counters,
        config,
        moves: None,
        moved_by: None,
    };
    (handle, end)
}

impl ServoHandle {
    /// Makes `snapshot` the newest scene; an un-adopted older one is superseded and freed here. O(objects).
    ///
    /// # Errors
    /// [`StaleGeneration`] when its generation does not exceed that of the last publish.
    pub fn publish(&mut self, mut snapshot: Box<Snapshot>) -> Result<(), StaleGeneration> {
        let given = snapshot.generation;
        if let Some(last) = self.generation.filter(|last| given <= *last) {
            return Err(StaleGeneration { given, last });
        }
        self.generation = Some(given);
        let Snapshot { objects, broad, .. } = &mut *snapshot;
        self.published.mark(objects, broad, given);
        self.superseded += u64::from(self.snapshots.publish(snapshot).is_some());
        Ok(())
    }

    /// Makes `frame` the newest motion frame (all moving poses together).
    pub fn publish_motion(&mut self, frame: Box<MotionFrame>) {
        drop(self.motions.publish(frame));
    }

    /// Frees what the servo has replaced. Call it regularly (some times a second, and after publishing): when the
    /// return rings are full the servo adopts nothing new.
    pub fn reclaim(&mut self) -> Reclaimed {
        let mut n = Reclaimed::default();
        while self.snapshots.collect().is_some() {
            n.snapshots += 1;
        }
        while self.motions.collect().is_some() {
            n.motions += 1;
        }
        n
    }

    /// Queues a command; its [`Ack`] carries the returned number.
    ///
    /// # Errors
    /// [`QueueFull`].
    pub fn send(&mut self, command: ServoCommand) -> Result<u64, QueueFull> {
        let id = self.sent + 1;
        let sent = Sent { id, disarms: self.flags.disarms(), command };
        self.commands.push(sent).map_err(|_| QueueFull)?;
        self.sent = id;
        Ok(id)
    }

    /// Takes the force away whatever the queue holds; see [`Flags::disarm`].
    pub fn disarm(&self) {
        self.flags.disarm();
    }

    /// The same because the owner is gone; see [`Flags::lose`].
    pub fn lose(&self) {
        self.flags.lose();
    }

    /// Ends the servo: ramp to zero, zero at the device, thread returns. Dropping the handle without this is the
    /// fault [`Fault::ControlDead`].
    pub fn stop(&self) {
        self.flags.stop();
    }

    /// The flags as a clonable handle, usable from any thread and from signal handlers.
    pub fn disarm_flag(&self) -> Flags {
        self.flags.clone()
    }

    /// Hands every waiting record to `f`. Returns how many, and how many the servo dropped since the last call.
    pub fn drain(&mut self, f: &mut dyn FnMut(&TickRecord)) -> (usize, u64) {
        let mut n = 0;
        while let Ok(record) = self.telemetry.pop() {
            f(&record);
            n += 1;
        }
        let total = self.counters.dropped.load(Relaxed);
        let dropped = total - self.dropped;
        self.dropped = total;
        (n, dropped)
    }

    /// The answers that have arrived.
    pub fn acks(&mut self) -> impl Iterator<Item = Ack> + '_ {
        std::iter::from_fn(|| self.acks.pop().ok())
    }

    /// Running counters.
    pub fn counters(&self) -> Arc<Counters> {
        self.counters.clone()
    }

    /// The configuration that the servo runs with.
    pub fn config(&self) -> &ServoConfig {
        &self.config
    }

    /// Snapshots that a newer one replaced before the servo saw them.
    pub fn superseded(&self) -> u64 {
        self.superseded
    }
}

impl Drop for ServoHandle {
    fn drop(&mut self) {
        if !self.flags.stopping() {
            self.flags.fault(Fault::ControlDead);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_command_ring_refuses_and_disarm_still_counts() {
        let (mut handle, end) = channel(ServoConfig { command_ring: 2, ..Default::default() });
        assert_eq!(handle.send(ServoCommand::Disarm), Ok(1));
        assert_eq!(handle.send(ServoCommand::Disarm), Ok(2));
        assert_eq!(handle.send(ServoCommand::Disarm), Err(QueueFull));
        handle.disarm();
        assert_ne!(end.flags.disarms(), 0, "it is seen all the same");
    }

    #[test]
    fn dropping_the_handle_is_a_fault_unless_it_was_stopped() {
        let (handle, end) = channel(ServoConfig::default());
        drop(handle);
        assert_eq!(end.flags.take_fault(), Fault::ControlDead);
        assert_eq!(end.flags.take_fault(), Fault::None);
        let (handle, end) = channel(ServoConfig::default());
        handle.stop();
        drop(handle);
        assert_eq!(end.flags.take_fault(), Fault::None);
    }

    #[test]
    fn the_first_fault_from_outside_counts() {
        let (handle, end) = channel(ServoConfig::default());
        handle.disarm_flag().fault(Fault::Panic);
        handle.disarm_flag().fault(Fault::ControlDead);
        assert_eq!(end.flags.take_fault(), Fault::Panic);
        handle.disarm_flag().continued();
        assert_eq!(end.flags.take_fault(), Fault::Suspended);
    }
}
