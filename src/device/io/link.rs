//! The transport: bytes to and from a device, both ways in flight at the same time.

use crate::device::wire::ftdi::Control;

/// Longest transfer, bytes (a report number and 64).
pub const LONGEST: usize = 65;

/// Why a link cannot go on. Plain enum: real-time safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkFault {
    /// The device was unplugged.
    Gone,
    /// The system refused a transfer.
    Failed,
}

/// An open device as bytes. One thread uses it. Reads are kept in flight by the link itself. Nothing here blocks but
/// [`Link::wait`] and [`Link::control`]; nothing but those two and opening allocates. Dropping closes the device.
pub trait Link: Send {
    /// Starts to send; the one before must have [`sent`](Link::sent). At most [`LONGEST`] bytes.
    ///
    /// # Errors
    /// [`LinkFault`].
    fn send(&mut self, now_ns: u64, bytes: &[u8]) -> Result<(), LinkFault>;

    /// True when nothing is being sent: all has arrived at the device.
    ///
    /// # Errors
    /// [`LinkFault`], of the transfer that was under way.
    fn sent(&mut self, now_ns: u64) -> Result<bool, LinkFault>;

    /// The next transfer that has arrived: its length, and when it did, ns. `None` = nothing more yet.
    ///
    /// # Errors
    /// [`LinkFault`].
    fn receive(&mut self, now_ns: u64, buffer: &mut [u8; LONGEST])
    -> Result<Option<(usize, u64)>, LinkFault>;

    /// A control request; may block for some ms. Links without control requests accept and ignore them.
    ///
    /// # Errors
    /// [`LinkFault`].
    fn control(&mut self, now_ns: u64, request: Control) -> Result<(), LinkFault>;

    /// Product id of what was opened, where a protocol has variants; 0 = unknown.
    fn product(&self) -> u16 {
        0
    }

    /// Sleeps until something has arrived or was sent, or until this time.
    fn wait(&mut self, until_ns: u64);
}

/// Why a device could not be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenFault {
    /// There is none (of this serial number).
    NotThere,
    /// There is one, and what is in the way; with the cure.
    Trouble(String),
}

/// Finds and opens the device, again and again over the daemon's life. Not real-time.
pub trait Connector: Send {
    /// Looks for it on the machine's buses. This may take milliseconds of a processor, so it is never called at real-time
    /// priority.
    ///
    /// # Errors
    /// [`OpenFault`].
    fn find(&mut self, now_ns: u64) -> Result<(), OpenFault>;

    /// Opens what was found last. Called at the priority of the I/O: threads that it starts inherit that.
    ///
    /// # Errors
    /// [`OpenFault`].
    fn open(&mut self, now_ns: u64) -> Result<Box<dyn Link>, OpenFault>;

    /// Somebody tells when a device comes.
    fn is_told(&self) -> bool {
        false
    }

    /// Sleeps until a device may have come: true; or until this time: false. `None`, at once, where nobody tells.
    fn wait(&mut self, _until_ns: u64) -> Option<bool> {
        None
    }
}
