//! Reports of WoodenHaptics and Polhem: a vendor HID collection without report numbers, little-endian, packed.
//!
//! Sources: haptikfabrikenapi src/fsusbhapticdevicethread.h and firmware/main.cpp (b8d6c94), woody-experimental's mbed
//! code (726e186). From the device: int16 encoders a to f, int16 info. To the device: int16 currents a, b, c in mA, int16
//! command (0 = currents, 1 = preset encoders), int16 attributes 0 to 2, a word of padding.

use super::bounded;

/// HID usage page of the collection.
pub const USAGE_PAGE: u16 = 0xffab;
/// HID usage of the collection.
pub const USAGE: u16 = 0x0200;
/// Largest current of a motor, mA: the amplifier bears more for less than 4 s only (haptikfabrikenapi), so more is never
/// sent.
pub const MAX_CURRENT: i32 = 2000;
/// The device switches its amplifiers off so long after the last report, ns.
pub const WATCHDOG_NS: u64 = 500_000_000;

/// Bytes of a report that mean something.
const BODY: usize = 14;
/// Longest report with its number in front.
pub const LONGEST: usize = 65;

/// How long the reports are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// 14 bytes (LPC1768).
    Short,
    /// 14 bytes, padded to 64 (Teensy).
    Padded,
}

impl Layout {
    /// Length of a report without its number.
    pub fn length(self) -> usize {
        match self {
            Self::Short => BODY,
            Self::Padded => 64,
        }
    }
}

/// What the device says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Encoder counts a to f; they wrap.
    pub encoders: [i16; 6],
    /// The stylus's button.
    pub button: bool,
    /// The calibration button.
    pub calibrate: bool,
}

/// Reads a report; `None` when its length is another layout's. Real-time safe.
pub fn decode(layout: Layout, report: &[u8]) -> Option<Report> {
    if report.len() != layout.length() {
        return None;
    }
    let mut words = [0i16; BODY / 2];
    for (word, bytes) in words.iter_mut().zip(report.chunks_exact(2)) {
        let [low, high] = bytes else { return None };
        *word = i16::from_le_bytes([*low, *high]);
    }
    let [a, b, c, d, e, f, info] = words;
    // The button rides on encoder d, whose counts are few.
    let (d, button) = if d > 5000 { (d - 10_000, true) } else { (d, false) };
    Some(Report { encoders: [a, b, c, d, e, f], button, calibrate: info == 1 })
}

/// A report's bytes with the report number 0 in front, as hidraw wants them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    bytes: [u8; LONGEST],
    len: usize,
}

impl Packet {
    fn new(layout: Layout, words: [i16; BODY / 2]) -> Self {
        let mut bytes = [0; LONGEST];
        for (out, word) in bytes.iter_mut().skip(1).zip(words.iter().flat_map(|w| w.to_le_bytes())) {
            *out = word;
        }
        Self { bytes, len: 1 + layout.length() }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }
}

/// Commands motor currents, mA; beyond [`MAX_CURRENT`] all three are scaled down together. Real-time safe.
pub fn currents(layout: Layout, milliamperes: &[i32; 3]) -> Packet {
    let [a, b, c] = bounded(milliamperes, MAX_CURRENT);
    Packet::new(layout, [a, b, c, 0, 0, 0, 0])
}

/// Sets the device's encoder counters; the motors get nothing. Real-time safe.
pub fn preset(layout: Layout, encoders: &[i16; 6]) -> Packet {
    let [a, b, c, d, e, f] = *encoders;
    Packet::new(layout, [d, e, f, 1, a, b, c])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand from the table of research/devices.md section 3.
    #[test]
    fn reports_are_read_as_published() {
        let bytes = [0x01, 0x00, 0xff, 0xff, 0x34, 0x12, 0x05, 0x00, 0x00, 0x80, 0xff, 0x7f, 0x01, 0x00];
        let want = Report { encoders: [1, -1, 0x1234, 5, -32768, 32767], button: false, calibrate: true };
        assert_eq!(decode(Layout::Short, &bytes), Some(want));
        let mut padded = [0xaa; 64];
        padded[..14].copy_from_slice(&bytes);
        assert_eq!(decode(Layout::Padded, &padded), Some(want), "padding means nothing");
        // Encoder d = 10003: the button is down and the encoder at 3.
        let mut pressed = bytes;
        pressed[6..8].copy_from_slice(&[0x13, 0x27]);
        pressed[12] = 2;
        let report = decode(Layout::Short, &pressed).expect("valid");
        assert_eq!((report.encoders[3], report.button, report.calibrate), (3, true, false));
    }

    #[test]
    fn other_lengths_are_refused() {
        for len in (0..70).filter(|n| *n != 14) {
            assert_eq!(decode(Layout::Short, &vec![0; len]), None);
        }
        for len in (0..70).filter(|n| *n != 64) {
            assert_eq!(decode(Layout::Padded, &vec![0; len]), None);
        }
    }

    #[test]
    fn currents_are_written_as_published() {
        let want = [0, 0x10, 0x00, 0xf0, 0xff, 0xd0, 0x07, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(currents(Layout::Short, &[16, -16, 2000]).bytes(), want);
        let long = currents(Layout::Padded, &[16, -16, 2000]);
        assert_eq!((long.bytes().len(), &long.bytes()[..15]), (65, &want[..]));
        assert!(long.bytes()[15..].iter().all(|b| *b == 0), "zero-padded");
    }

    /// 4000, -2000, 1000 mA: half of everything, not a clamp of the first alone.
    #[test]
    fn too_much_current_is_scaled_together() {
        let packet = currents(Layout::Short, &[4000, -2000, 1000]);
        assert_eq!(&packet.bytes()[1..7], [0xd0, 0x07, 0x18, 0xfc, 0xf4, 0x01]);
    }

    /// Command 1: attributes set a to c, the current fields d to f.
    #[test]
    fn a_preset_is_written_as_published() {
        let packet = preset(Layout::Short, &[1, 2, 6000, 4, 5, 6]);
        assert_eq!(packet.bytes(), [0, 4, 0, 5, 0, 6, 0, 1, 0, 1, 0, 2, 0, 0x70, 0x17]);
    }
}
