//! Novint Falcon: start with or without loading firmware, homing, packets.

use crate::device::io::port::{Arrived, Latest, Pace, Port, Start};
use crate::device::wire::boot::{Action, Boot};
use crate::device::wire::falcon::{self, BLUE, Command, Framer, GREEN, RED};
use crate::device::wire::ftdi;
use std::sync::Arc;

/// Age of the encoders in a reply when it arrives, ns: the device answers at once to a command that came with one frame, and
/// the chip's timer and the bus bring the answer with the next (0.1 ms are the serial line's).
const AGE_NS: u64 = 900_000;

/// The Falcon's packets.
pub struct Falcon {
    firmware: Option<Arc<[u8]>>,
    boot: Option<Boot>,
    framer: Framer,
    latest: Latest,
    packet: [u8; falcon::PACKET],
}

impl Falcon {
    /// `firmware` is loaded where the device does not run already; the user's own file, never ours.
    pub fn new(firmware: Option<Arc<[u8]>>) -> Self {
        Self {
            firmware,
            boot: None,
            framer: Framer::default(),
            latest: Latest::default(),
            packet: falcon::encode(&Command::default()),
        }
    }
}

impl Port for Falcon {
    fn pace(&self) -> Pace {
        Pace::Replies(AGE_NS)
    }

    fn begin(&mut self, _product: u16) {
        self.boot = Some(Boot::new(self.firmware.clone()));
        self.framer = Framer::default();
        self.latest = Latest::default();
    }

    fn start(&mut self, now_ns: u64) -> Start {
        let Some(boot) = &mut self.boot else { return Start::Running };
        match boot.next(now_ns) {
            Action::Control(request) => Start::Control(request),
            Action::Send => Start::Send,
            Action::Wait(until) => Start::Wait(until),
            Action::Failed(stage) => Start::Failed(stage.trouble()),
            Action::Silent => Start::Silent,
            Action::Running => {
                self.boot = None;
                self.prepare(&[0; 3]);
                Start::Running
            }
        }
    }

    fn arrived(&mut self, bytes: &[u8]) -> Arrived {
        let data = ftdi::data(bytes);
        if let Some(boot) = &mut self.boot {
            boot.heard(data);
            return Arrived::default();
        }
        let (before, mut reports) = (self.framer.garbled(), 0);
        for byte in data {
            if let Some(report) = self.framer.push(*byte) {
                reports += 1;
                let [a, b, c] = report.encoders.map(i32::from);
                self.latest = Latest {
                    counts: [a, b, c, 0, 0, 0],
                    buttons: u32::from(report.buttons),
                    calibrated: report.is_homed(),
                    refused: false,
                };
            }
        }
        Arrived { reports, garbled: self.framer.garbled() != before }
    }

    fn latest(&self) -> Latest {
        self.latest
    }

    fn prepare(&mut self, codes: &[i32; 3]) {
        let pushing = *codes != [0; 3];
        let leds = match (self.latest.calibrated, pushing) {
            (false, _) => RED,
            (true, false) => BLUE,
            (true, true) => GREEN,
        };
        // The homing bit stays set in every packet.
        self.packet = falcon::encode(&Command { motors: *codes, homing: true, leds });
    }

    fn wish(&self) -> &'static str {
        "not homed: pull the grip out as far as it goes, then push it in; the ring turns from red to blue"
    }

    fn outgoing(&self) -> &[u8] {
        self.boot.as_ref().map_or(&self.packet[..], Boot::outgoing)
    }
}
