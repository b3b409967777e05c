//! Haptic devices behind one trait. Drivers know poses and wrenches, nothing of scenes or control.
//!
//! The device frame is right-handed with its origin in the middle of the workspace: x to the user's right, y up,
//! z towards the user. Wrenches are given at the device's tool point in that frame.

pub mod actuators;
pub mod attached;
pub mod driver;
pub mod dynamics;
pub mod emulated;
pub mod integrator;
pub mod io;
pub mod kinematics;
pub mod known;
pub mod openhaptics;
pub mod profile;
pub mod registry;
pub mod replay;
pub mod simulated;
pub mod wire;

use crate::geometry::pose::{Pose, Twist, Wrench};
use profile::Profile;
use std::sync::Arc;

/// One reading of a device. Fixed size, real-time safe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Pose of the tool point in the device frame: encoder counts through the profile's kinematics, what the
    /// maker's library says, the sum of an input device's deflections, or what was recorded.
    pub pose: Pose,
    /// Joint coordinates as read (rad or m), unused entries 0.
    pub joints: [f64; 6],
    /// Servo-clock time at which the device took the sample, ns.
    pub time_ns: u64,
    /// Counts the device's samples; a repeated value means that nothing new arrived.
    pub seq: u64,
    /// Samples lost since the previous read.
    pub lost: u32,
    /// Button bits, bit 0 = first button.
    pub buttons: u32,
}

/// Where a device stands in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Lifecycle {
    /// Not there (never found, or unplugged).
    Absent,
    /// Starting: firmware upload, handshake.
    Booting,
    /// Answers, but its frame is not known yet.
    Uncalibrated,
    /// Reads and accepts force.
    Ready,
    /// Refuses to work until reopened.
    Fault,
}

/// Why a read gave no sample. Plain enum: real-time safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ReadFault {
    /// Nothing new since the last read (lost or late); hold the last sample.
    Stale,
    /// The device is gone, or was since the last sample, as one with an I/O thread tells however short it was: its frame may be another now.
    Gone,
    /// The device answered with bytes that make no sense.
    Garbled,
}

/// Why a write was not accepted. Plain enum: real-time safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum WriteFault {
    /// The device is gone.
    Gone,
    /// The device is not calibrated; it only takes zero.
    NotReady,
    /// The transport refused the bytes.
    Failed,
}

/// What the device made of an accepted command.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accepted {
    /// The wrench that the motors really got after quantisation and motor-space saturation.
    pub applied: Wrench,
    /// True when motor-space saturation scaled the command.
    pub saturated: bool,
}

impl Accepted {
    /// No force.
    pub const NOTHING: Self = Self { applied: Wrench::ZERO, saturated: false };
}

/// How a device's I/O behaves in the servo thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoMode {
    /// `read` and `write` never block.
    Inline,
    /// `read` and `write` exchange mailboxes with the driver's own real-time I/O thread.
    Threaded,
}

/// A haptic device. `read`, `write`, `zero` and the getters are real-time safe: no allocation, lock, log or panic,
/// no system call but the device's own I/O. Everything else runs before or after the servo. Dropping a device
/// commands zero force first.
pub trait Device: Send {
    /// The device's data sheet.
    fn profile(&self) -> &Arc<Profile>;
    /// Where the device stands in its life. Real-time safe.
    fn lifecycle(&self) -> Lifecycle;
    /// How `read` and `write` behave.
    fn io_mode(&self) -> IoMode {
        IoMode::Inline
    }
    /// Brings the device from `Uncalibrated` to `Ready`. Not real-time: may block and allocate.
    ///
    /// # Errors
    /// A message for the user: what was tried, what to do.
    fn calibrate(&mut self) -> Result<(), DeviceError>;
    /// Newest sample at servo time `now_ns`. Real-time safe.
    ///
    /// # Errors
    /// [`ReadFault`].
    fn read(&mut self, now_ns: u64) -> Result<Sample, ReadFault>;
    /// Commands a wrench at the tool point, device frame. Real-time safe.
    ///
    /// # Errors
    /// [`WriteFault`].
    fn write(&mut self, now_ns: u64, wrench: &Wrench) -> Result<Accepted, WriteFault>;
    /// When the next sample will be there, ns, for a device with a beat of its own of about the servo's period; `None` for one
    /// that has a sample whenever it is read, or whose beat is not known yet. Real-time safe.
    fn next_sample_ns(&self, _now_ns: u64) -> Option<u64> {
        None
    }
    /// Time from a sense to the force that was made of it, as the device's I/O measures it, ns: one of twenty takes longer.
    /// `None` for a device that does not measure it, or has not yet. Real-time safe.
    fn delay_ns(&self) -> Option<u64> {
        None
    }
    /// The motion that the hand asks for, device frame, of a device that tells speeds and not places; zero while it is not ready.
    /// `None` for any other. Real-time safe.
    fn rate(&self) -> Option<Twist> {
        None
    }
    /// Commands zero force whatever the state; best effort. Real-time safe.
    fn zero(&mut self, now_ns: u64);
    /// State and counters of the I/O thread of a device that has one. Not real-time.
    fn io(&self) -> Option<Arc<io::shared::Shared>> {
        None
    }
    /// What reaches the motors when the thread that owns the device has died inside its own code. `None`: nothing does,
    /// and the force stays until the device's own watchdog or `hapticd zero` ends it. Not real-time.
    fn emergency(&self) -> Option<Arc<dyn Emergency>> {
        None
    }
}

/// The last word to a device whose owner cannot speak any more: used from a signal handler, by any thread.
/// Its functions are async-signal-safe: no allocation, lock, panic, no wait beyond some 20 ms. The process
/// ends afterwards.
pub trait Emergency: Send + Sync + std::fmt::Debug {
    /// Commands zero force. True when the device has taken it, or gives none; false when that is not known.
    fn zero(&self, now_ns: u64) -> bool;
    /// SIGBUS at this address: true when it lies in memory that the device shares with other processes, one of which took
    /// it away, and when own memory stands there now, so that the instruction may be tried again.
    fn mend(&self, address: usize) -> bool;
    /// Packets that the device has taken so far, for one whose commands lie in a mailbox until its I/O thread sends them: two more, and what was
    /// commanded before is at the motors. `None` where a command is there at once, or nothing can push.
    fn packets(&self) -> Option<u64> {
        None
    }
}

/// There is nothing that could push.
#[derive(Clone, Copy, Debug)]
pub struct NoMotors;

impl Emergency for NoMotors {
    fn zero(&self, _now_ns: u64) -> bool {
        true
    }

    fn mend(&self, _address: usize) -> bool {
        false
    }
}

/// Why a device could not be opened or calibrated; the text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// No profile or driver of that name.
    #[error("no device '{name}'; known: {known}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// Known names, comma separated.
        known: String,
    },
    /// The profile file is wrong.
    #[error("{0}")]
    Profile(String),
    /// Anything the driver reports.
    #[error("{0}")]
    Driver(String),
}
