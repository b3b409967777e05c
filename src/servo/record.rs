//! What each tick leaves behind: one fixed-size record.

/// Servo states. The force is zero in all but `Rendering`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum ServoState {
    /// No device.
    #[default]
    Absent,
    /// The device is starting.
    Booting,
    /// The device's frame is not known.
    Uncalibrated,
    /// Ready, forces off.
    Idle,
    /// Armed: waits until the wanted force has been small for some ticks.
    Armed,
    /// Forces on (ramping up, full, or ramping down).
    Rendering,
    /// Latched fault; leaving it is explicit.
    Fault,
}

/// Why the commanded force is zero (or on its way to zero). `None` = it is not held at zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum ZeroReason {
    /// Force follows the contact.
    #[default]
    None,
    /// No device.
    NoDevice,
    /// Device booting or not calibrated.
    NotReady,
    /// Nobody armed.
    NotArmed,
    /// Arming gate: the wanted force has not been small long enough.
    ArmingGate,
    /// Disarmed by request; ramping down or zero.
    Disarmed,
    /// The owner's lease ended; ramping down or zero.
    LeaseLost,
    /// A motion stream stopped; ramping down or zero.
    MotionStopped,
    /// Samples too old.
    StaleSample,
    /// A latched fault; see the record's fault code.
    Fault,
    /// No contact: nothing to push against.
    NoContact,
    /// No scene yet.
    NoScene,
    /// The clutch is held: the tool is uncoupled.
    Clutch,
    /// The daemon is shutting down.
    Shutdown,
    /// Touched, but neither contact nor limits allow a force: a stiffness or a limit of zero, or no direction to push in.
    NoForce,
    /// The dead-man button is not held; ramping down or zero.
    DeadMan,
    /// After a lapse nothing is felt of what the hand has sunk into meanwhile: it is held where it is, and led out.
    AfterLapse,
}

/// Latched faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Fault {
    /// No fault.
    #[default]
    None,
    /// A non-finite number from the device.
    NonFiniteSample,
    /// A non-finite number from contact or law.
    NonFiniteForce,
    /// The device pose jumped farther than it can move.
    PoseJump,
    /// The tool or device moved faster than the limit.
    Velocity,
    /// The device left its workspace.
    Workspace,
    /// Samples stale for too long.
    Stale,
    /// The device is gone.
    DeviceGone,
    /// Writes to the device failed.
    WriteFailed,
    /// Too many late ticks.
    Overrun,
    /// The machine was suspended or the process stopped and continued.
    Suspended,
    /// The control plane died.
    ControlDead,
    /// A task of the daemon panicked.
    Panic,
}

impl ServoState {
    /// All of them, in the order of their codes.
    pub const ALL: [Self; 7] = [
        Self::Absent,
        Self::Booting,
        Self::Uncalibrated,
        Self::Idle,
        Self::Armed,
        Self::Rendering,
        Self::Fault,
    ];

    /// The value with this code (`as u8`); an unknown code reads as `Fault`, the safe side. Real-time safe.
    #[inline]
    pub fn from_u8(code: u8) -> Self {
        Self::ALL.get(usize::from(code)).copied().unwrap_or(Self::Fault)
    }
}

impl ZeroReason {
    /// All of them, in the order of their codes.
    pub const ALL: [Self; 17] = [
        Self::None,
        Self::NoDevice,
        Self::NotReady,
        Self::NotArmed,
        Self::ArmingGate,
        Self::Disarmed,
        Self::LeaseLost,
        Self::MotionStopped,
        Self::StaleSample,
        Self::Fault,
        Self::NoContact,
        Self::NoScene,
        Self::Clutch,
        Self::Shutdown,
        Self::NoForce,
        Self::DeadMan,
        Self::AfterLapse,
    ];

    /// The value with this code (`as u8`); an unknown code reads as `Fault`, the safe side. Real-time safe.
    #[inline]
    pub fn from_u8(code: u8) -> Self {
        Self::ALL.get(usize::from(code)).copied().unwrap_or(Self::Fault)
    }
}

impl Fault {
    /// All of them, in the order of their codes.
    pub const ALL: [Self; 13] = [
        Self::None,
        Self::NonFiniteSample,
        Self::NonFiniteForce,
        Self::PoseJump,
        Self::Velocity,
        Self::Workspace,
        Self::Stale,
        Self::DeviceGone,
        Self::WriteFailed,
        Self::Overrun,
        Self::Suspended,
        Self::ControlDead,
        Self::Panic,
    ];

    /// The value with this code (`as u8`); an unknown code reads as `Panic`, the safe side. Real-time safe.
    #[inline]
    pub fn from_u8(code: u8) -> Self {
        Self::ALL.get(usize::from(code)).copied().unwrap_or(Self::Panic)
    }
}

/// One tick, as the telemetry ring and recordings carry it. Plain data.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct TickRecord {
    /// Tick number.
    pub tick: u64,
    /// Planned start on the servo clock, ns.
    pub planned_ns: u64,
    /// How late the thread woke, ns: start minus planned start, or minus that of the first of the skipped periods where it slept
    /// through them (a period missed because the tick before took too long is no late wake-up).
    pub wake_ns: i64,
    /// Time from the start of the tick to the end of the write, ns (0 on the virtual clock).
    pub compute_ns: u64,
    /// Periods skipped just before this tick.
    pub skipped: u32,
    /// Generation of the snapshot felt.
    pub generation: u64,
    /// Sequence of the motion frame felt.
    pub motion_seq: u64,
    /// State after the tick.
    pub state: ServoState,
    /// Why the force is zero.
    pub zero: ZeroReason,
    /// Latched fault.
    pub fault: Fault,
    /// Bit set, see the `FLAG_*` constants.
    pub flags: u32,
    /// Device buttons.
    pub buttons: u32,
    /// Sequence number of the device sample used.
    pub sample_seq: u64,
    /// Samples lost since the last tick.
    pub lost: u32,
    /// Tool position in the scene, m.
    pub position: [f64; 3],
    /// Tool orientation in the scene, x y z w.
    pub orientation: [f64; 4],
    /// Tool linear velocity in the scene, m/s.
    pub velocity: [f64; 3],
    /// Tool angular velocity in the scene, rad/s.
    pub angular_velocity: [f64; 3],
    /// Commanded force at the tool, scene axes, N.
    pub force: [f64; 3],
    /// Commanded torque about the tool's origin, scene axes, N·m.
    pub torque: [f64; 3],
    /// Force that the motors really got, device axes, N.
    pub applied_force: [f64; 3],
    /// Torque that the motors really got, device axes, N·m.
    pub applied_torque: [f64; 3],
    /// Contact force before coupling and guard, scene axes, N.
    pub contact_force: [f64; 3],
    /// Deepest penetration over all objects, m.
    pub depth: f64,
    /// Smallest known separation, m (infinite when far from everything).
    pub distance: f64,
    /// Largest eigenvalue of the felt stiffness before the cap, N/m; with a virtual tool, contact and spring in series. Times
    /// `cap` it is what is felt.
    pub stiffness: f64,
    /// Factor by which the stiffness cap lowered the force, 0..=1.
    pub cap: f64,
    /// Gain of the arming or disarming ramp, 0..=1.
    pub ramp: f64,
    /// Balance of the energy account, J.
    pub energy: f64,
    /// Factor by which the energy bound lowered the force, 0..=1.
    pub bound: f64,
    /// Work units spent in this tick.
    pub work: u32,
    /// Objects queried.
    pub queried: u16,
    /// Objects touched.
    pub touched: u16,
    /// Identifier of the deepest object, 0 = none.
    pub deepest_object: u32,
}

/// The contact query ran out of budget or time, or a ball's proxy is still on its way.
pub const FLAG_INCOMPLETE: u32 = 1;
/// The wall-clock deadline ended the query.
pub const FLAG_DEADLINE: u32 = 2;
/// A force or torque limit scaled the command.
pub const FLAG_SATURATED: u32 = 4;
/// The slew limit held the command back.
pub const FLAG_SLEW: u32 = 8;
/// The device's motors saturated.
pub const FLAG_MOTOR_SATURATED: u32 = 16;
/// The stiffness cap lowered the force.
pub const FLAG_STIFFNESS_CAPPED: u32 = 32;
/// Contact began in this tick.
pub const FLAG_CONTACT_BEGIN: u32 = 64;
/// Contact ended in this tick.
pub const FLAG_CONTACT_END: u32 = 128;
/// A new snapshot was adopted in this tick.
pub const FLAG_ADOPTED: u32 = 256;
/// The return ring was full, so a mailbox was left alone.
pub const FLAG_RETURN_FULL: u32 = 512;
/// No new good sample was taken: the last one holds.
pub const FLAG_HELD_SAMPLE: u32 = 1024;
/// The energy account changed the command: its bound lowered the force, or its controller added damping.
pub const FLAG_ENERGY_BOUND: u32 = 2048;
/// After a lapse the hand is held where it has sunk in, and led out.
pub const FLAG_AFTER_LAPSE: u32 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_come_back() {
        for (i, v) in ServoState::ALL.iter().enumerate() {
            assert_eq!((*v as usize, ServoState::from_u8(i as u8)), (i, *v));
        }
        for (i, v) in ZeroReason::ALL.iter().enumerate() {
            assert_eq!((*v as usize, ZeroReason::from_u8(i as u8)), (i, *v));
        }
        for (i, v) in Fault::ALL.iter().enumerate() {
            assert_eq!((*v as usize, Fault::from_u8(i as u8)), (i, *v));
        }
        assert_eq!(ServoState::from_u8(200), ServoState::Fault);
    }
}
