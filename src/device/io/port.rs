//! The packet side of a driver: bytes to readings, motor codes to bytes, start and calibration. It does no I/O and has no
//! clock; nothing but starting allocates.

use crate::device::wire::ftdi::Control;

/// What a device has told last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latest {
    /// Counts, or deflections of an input device.
    pub counts: [i32; 6],
    /// Button bits.
    pub buttons: u32,
    /// The counts belong to a known frame.
    pub calibrated: bool,
    /// A calibration that was asked for last was tried in vain.
    pub refused: bool,
}

/// What a transfer held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// Whole reports; the newest is [`Port::latest`].
    pub reports: u32,
    /// Something in it made no sense.
    pub garbled: bool,
}

/// What starting the device asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// A control request.
    Control(Control),
    /// The bytes of [`Port::outgoing`].
    Send,
    /// Bytes, or this time (ns).
    Wait(u64),
    /// It runs.
    Running,
    /// It does not start: what to do.
    Failed(&'static str),
    /// It is not heard at all.
    Silent,
}

/// How a device's readings come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// One for each command, one frame after it at the earliest; age of a reading at its arrival, ns.
    Replies(u64),
    /// When something changes; the last one holds until then. Nothing is ever sent.
    Changes,
}

/// A kind of device.
pub trait Port: Send {
    /// How readings come.
    fn pace(&self) -> Pace;
    /// A link to a device of this product id has just been opened: forget everything. Not real-time.
    fn begin(&mut self, product: u16);
    /// The next step of the start. Called again at once after `Control` and `Send`. Not real-time.
    fn start(&mut self, now_ns: u64) -> Start;
    /// Takes a transfer in, while starting and while running. Real-time safe.
    fn arrived(&mut self, bytes: &[u8]) -> Arrived;
    /// What it told last. Real-time safe.
    fn latest(&self) -> Latest;
    /// Makes [`outgoing`](Port::outgoing) the packet for these motor codes. Codes beyond the protocol's limit are scaled down
    /// together. Real-time safe.
    fn prepare(&mut self, codes: &[i32; 3]);
    /// The bytes to send. Real-time safe.
    fn outgoing(&self) -> &[u8];
    /// What its user has to do while its frame is not known; empty where that is never so.
    fn wish(&self) -> &'static str {
        ""
    }
    /// [`Port::calibrate`] does something.
    fn calibrates(&self) -> bool {
        false
    }
    /// Asks for calibration where the host can do it; the frame is unknown until it is done. Real-time safe.
    fn calibrate(&mut self) {}
}
