//! The Falcon over USB, with nusb: pure Rust, no system library.
//!
//! nusb's own thread takes completed transfers from the kernel and wakes the one that waits. It is started by the first
//! device that is opened, here by the I/O thread, whose real-time scheduling it inherits. Two reads are kept in flight.

use super::Kind;
use super::events::Lookout;
use crate::device::io::link::{Connector, LONGEST, Link, LinkFault, OpenFault};
use crate::device::io::thread::now_ns;
use crate::device::wire::ftdi::{self, Control, IN_LENGTH};
use nusb::transfer::{Buffer, Bulk, Completion, ControlOut, ControlType, In, Out, Recipient, TransferError};
use nusb::{DeviceInfo, Endpoint, ErrorKind, Interface, MaybeFuture};
use std::time::Duration;

/// Reads in flight.
const READS: usize = 2;
/// Longest control request.
const CONTROL: Duration = Duration::from_millis(500);

/// Finds and opens a Falcon.
#[derive(Debug)]
pub struct FalconConnector {
    serial: Option<String>,
    found: Option<DeviceInfo>,
    lookout: Lookout,
}

impl FalconConnector {
    /// The only Falcon, or that of this serial number.
    pub fn new(serial: Option<String>) -> Self {
        Self { serial, found: None, lookout: Lookout::default() }
    }
}

impl Connector for FalconConnector {
    fn find(&mut self, _now_ns: u64) -> Result<(), OpenFault> {
        self.lookout.listen();
        // A machine without USB has no such directory.
        if !std::path::Path::new("/sys/bus/usb/devices").is_dir() {
            return Err(OpenFault::NotThere);
        }
        let all = nusb::list_devices()
            .wait()
            .map_err(|e| OpenFault::Trouble(format!("cannot list the USB devices: {e}")))?;
        let falcons = all.filter(|d| Kind::of_ids(d.vendor_id(), d.product_id()) == Some(Kind::Falcon));
        self.found = Some(super::the_one(falcons, self.serial.as_deref(), |d| d.serial_number())?);
        Ok(())
    }

    fn open(&mut self, _now_ns: u64) -> Result<Box<dyn Link>, OpenFault> {
        let Some(device) = self.found.take() else { return Err(OpenFault::NotThere) };
        let place = format!("/dev/bus/usb/{:03}/{:03}", device.busnum(), device.device_address());
        let trouble = |e: nusb::Error| match e.kind() {
            ErrorKind::Disconnected | ErrorKind::NotFound => OpenFault::NotThere,
            ErrorKind::Busy => OpenFault::Trouble(format!(
                "the Falcon at {place} is in use by another program; end that one"
            )),
            ErrorKind::PermissionDenied => super::hidraw::trouble(
                "Novint Falcon",
                &place,
                &std::io::Error::from(std::io::ErrorKind::PermissionDenied),
            ),
            _ => OpenFault::Trouble(format!("the Falcon at {place} cannot be opened: {e}")),
        };
        let opened = device.open().wait().map_err(trouble)?;
        let interface = opened.detach_and_claim_interface(0).wait().map_err(trouble)?;
        let out = interface.endpoint::<Bulk, Out>(ftdi::OUT).map_err(trouble)?;
        let input = interface.endpoint::<Bulk, In>(ftdi::IN).map_err(trouble)?;
        self.lookout.rest();
        Ok(Box::new(UsbLink::new(interface, out, input)))
    }

    fn is_told(&self) -> bool {
        self.lookout.listens()
    }

    fn wait(&mut self, until_ns: u64) -> Option<bool> {
        self.lookout.wait(until_ns)
    }
}

/// An open Falcon.
struct UsbLink {
    interface: Interface,
    out: Endpoint<Bulk, Out>,
    input: Endpoint<Bulk, In>,
    /// What waiting has already taken.
    arrived: Option<(Completion, u64)>,
    /// The OUT buffer while nothing is being sent.
    spare: Option<Buffer>,
}

fn fault(e: TransferError) -> LinkFault {
    if e == TransferError::Disconnected { LinkFault::Gone } else { LinkFault::Failed }
}

impl UsbLink {
    fn new(interface: Interface, out: Endpoint<Bulk, Out>, mut input: Endpoint<Bulk, In>) -> Self {
        for _ in 0..READS {
            input.submit(Buffer::new(IN_LENGTH));
        }
        Self { interface, out, input, arrived: None, spare: Some(Buffer::new(LONGEST)) }
    }
}

impl Link for UsbLink {
    fn send(&mut self, _now_ns: u64, bytes: &[u8]) -> Result<(), LinkFault> {
        let Some(mut buffer) = self.spare.take() else { return Err(LinkFault::Failed) };
        buffer.clear();
        if bytes.len() > buffer.capacity() {
            return Err(LinkFault::Failed);
        }
        buffer.extend_from_slice(bytes);
        self.out.submit(buffer);
        Ok(())
    }

    fn sent(&mut self, _now_ns: u64) -> Result<bool, LinkFault> {
        if self.out.pending() == 0 {
            return Ok(true);
        }
        let Some(done) = self.out.wait_next_complete(Duration::ZERO) else { return Ok(false) };
        self.spare = Some(done.buffer);
        done.status.map(|()| true).map_err(fault)
    }

    fn receive(
        &mut self,
        now_ns: u64,
        buffer: &mut [u8; LONGEST],
    ) -> Result<Option<(usize, u64)>, LinkFault> {
        let arrived = match self.arrived.take() {
            Some(arrived) => Some(arrived),
            None if self.input.pending() == 0 => None,
            None => self.input.wait_next_complete(Duration::ZERO).map(|c| (c, now_ns)),
        };
        let Some((completion, at)) = arrived else { return Ok(None) };
        completion.status.map_err(fault)?;
        let mut len = 0;
        for (slot, byte) in buffer.iter_mut().zip(completion.buffer.iter().take(completion.actual_len)) {
            *slot = *byte;
            len += 1;
        }
        let mut again = completion.buffer;
        again.clear();
        again.set_requested_len(IN_LENGTH);
        self.input.submit(again);
        Ok(Some((len, at)))
    }

    fn control(&mut self, _now_ns: u64, request: Control) -> Result<(), LinkFault> {
        let (request, value) = request.setup();
        let (control_type, recipient) = (ControlType::Vendor, Recipient::Device);
        let data = ControlOut { control_type, recipient, request, value, index: 0, data: &[] };
        self.interface.control_out(data, CONTROL).wait().map_err(fault)
    }

    /// The chip sends its status every millisecond at the latest, so waiting for input is waiting for everything.
    fn wait(&mut self, until_ns: u64) {
        let left = Duration::from_nanos(until_ns.saturating_sub(now_ns()));
        if self.arrived.is_none() && self.input.pending() > 0 {
            self.arrived = self.input.wait_next_complete(left).map(|c| (c, now_ns()));
        }
    }
}
