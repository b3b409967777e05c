//! WoodenHaptics and its kin over HID: currents out, encoders in, calibration in a known pose.
//!
//! The device is silent until it has got a first report (haptikfabrikenapi sends one again and again until it answers); here
//! a report goes out with every frame in any case.

use crate::device::io::phase::FRAME_NS;
use crate::device::io::port::{Arrived, Latest, Pace, Port, Start};
use crate::device::wire::Unwrap;
use crate::device::wire::hid_haptic::{self, Layout, Packet};

/// Product ids whose reports have a length of their own (haptikfabrikenapi src/fsusbhapticdevicethread.cpp).
const LPC1768: u16 = 0x0006;
const TEENSY: u16 = 0x0486;
/// Reports after a preset in which the counters must show it, or it is sent again.
const PATIENCE: u32 = 10;
/// Presets until the calibration is given up.
const TRIES: u32 = 5;
/// Counts by which the tool may have moved since the preset.
const NEAR: i32 = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Calibration {
    /// The counters mean nothing yet.
    Unknown,
    /// A preset is to be sent: tries so far.
    Asked(u32),
    /// One was sent: tries so far, reports since.
    Sent(u32, u32),
    /// The counters count from the preset.
    Known,
    /// No preset showed in the counters.
    Refused,
}

/// The packets of a WoodenHaptics.
pub struct HidHaptic {
    layout: Layout,
    preset: [i16; 6],
    calibration: Calibration,
    unwrap: Unwrap<6>,
    /// The calibration button was down in the last report.
    pressed: bool,
    latest: Latest,
    packet: Packet,
}

impl HidHaptic {
    /// `preset`: counts of encoders a to c in the calibration pose.
    pub fn new(layout: Layout, preset: [i16; 3]) -> Self {
        let [a, b, c] = preset;
        Self {
            layout,
            preset: [a, b, c, 0, 0, 0],
            calibration: Calibration::Unknown,
            unwrap: Unwrap::default(),
            pressed: false,
            latest: Latest::default(),
            packet: hid_haptic::currents(layout, &[0; 3]),
        }
    }

    /// The preset shows in the counters.
    fn is_near(&self, encoders: &[i16; 6]) -> bool {
        let near = |(count, preset): (&i16, &i16)| (i32::from(*count) - i32::from(*preset)).abs() <= NEAR;
        encoders.iter().zip(&self.preset).take(3).all(near)
    }
}

impl Port for HidHaptic {
    fn pace(&self) -> Pace {
        // The device reads its encoders when it has taken a report, and is asked for them in the next frame.
        Pace::Replies(FRAME_NS)
    }

    fn begin(&mut self, product: u16) {
        self.layout = match product {
            LPC1768 => Layout::Short,
            TEENSY => Layout::Padded,
            _ => self.layout,
        };
        self.calibration = Calibration::Unknown;
        self.unwrap.reset();
        self.pressed = false;
        self.latest = Latest::default();
        self.prepare(&[0; 3]);
    }

    fn start(&mut self, _now_ns: u64) -> Start {
        Start::Running
    }

    fn arrived(&mut self, bytes: &[u8]) -> Arrived {
        let Some(report) = hid_haptic::decode(self.layout, bytes) else {
            return Arrived { reports: 0, garbled: true };
        };
        if report.calibrate && !self.pressed {
            self.calibrate();
        }
        self.pressed = report.calibrate;
        if let Calibration::Sent(tries, waited) = self.calibration {
            self.calibration = if self.is_near(&report.encoders) {
                self.unwrap.reset();
                Calibration::Known
            } else if waited < PATIENCE {
                Calibration::Sent(tries, waited + 1)
            } else if tries < TRIES {
                Calibration::Asked(tries)
            } else {
                Calibration::Refused
            };
        }
        self.latest = Latest {
            counts: self.unwrap.extend(&report.encoders),
            buttons: u32::from(report.button),
            calibrated: self.calibration == Calibration::Known,
            refused: self.calibration == Calibration::Refused,
        };
        Arrived { reports: 1, garbled: false }
    }

    fn latest(&self) -> Latest {
        self.latest
    }

    fn prepare(&mut self, codes: &[i32; 3]) {
        self.packet = match self.calibration {
            Calibration::Asked(tries) => {
                self.calibration = Calibration::Sent(tries + 1, 0);
                hid_haptic::preset(self.layout, &self.preset)
            }
            _ => hid_haptic::currents(self.layout, codes),
        };
    }

    fn wish(&self) -> &'static str {
        "not calibrated: hold the arm in its calibration pose (docs/devices.md) and press the device's button"
    }

    fn calibrates(&self) -> bool {
        true
    }

    fn outgoing(&self) -> &[u8] {
        self.packet.bytes()
    }

    fn calibrate(&mut self) {
        self.calibration = Calibration::Asked(0);
        self.latest.calibrated = false;
    }
}
