//! Packets of the Novint Falcon in run mode: 16 bytes each way, one reply for each command.
//!
//! Source: libnifalcon src/firmware/FalconFirmwareNovintSDK.cpp (f7c727a); grip bits: grip/FalconGripFourButton.h. Byte 0
//! is `<`, byte 15 `>`; every byte between is 0x41 and a value. Bytes 1 to 12 are three int16, two's complement, of four
//! nibbles each, the least significant first. Byte 13 is flags, byte 14 unused.

use super::bounded;

/// Length of a packet.
pub const PACKET: usize = 16;
/// Largest motor code; the firmware is said to cap there (libnifalcon, header text), and we never send more.
pub const MAX_CODE: i32 = 4096;

const START: u8 = b'<';
const END: u8 = b'>';
const BASE: u8 = 0x41;
const HOMING: u8 = 1;

/// Lights of the ring, as bits of [`Command::leds`].
pub const GREEN: u8 = 0x2;
/// Blue light.
pub const BLUE: u8 = 0x4;
/// Red light.
pub const RED: u8 = 0x8;

/// What the host says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// Motor codes; beyond [`MAX_CODE`] all three are scaled down together.
    pub motors: [i32; 3],
    /// Homing enabled: to be kept in every packet.
    pub homing: bool,
    /// Lights: [`GREEN`], [`BLUE`], [`RED`].
    pub leds: u8,
}

/// What the Falcon says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Encoder counts.
    pub encoders: [i16; 3],
    /// Grip buttons: 1 plus, 2 forward, 4 centre, 8 minus.
    pub buttons: u8,
    /// Encoders that know their zero.
    pub homed: [bool; 3],
}

impl Report {
    /// All encoders know their zero.
    pub fn is_homed(&self) -> bool {
        self.homed == [true; 3]
    }
}

/// A command's packet. Real-time safe.
pub fn encode(command: &Command) -> [u8; PACKET] {
    let mut packet = [BASE; PACKET];
    let motors = bounded(&command.motors, MAX_CODE);
    let nibbles = motors.iter().flat_map(|m| {
        let word = *m as u16;
        [0, 4, 8, 12].map(|shift| (word >> shift & 0xf) as u8)
    });
    for (byte, nibble) in packet.iter_mut().skip(1).zip(nibbles) {
        *byte = BASE + nibble;
    }
    let [first, .., flags, _, last] = &mut packet;
    *first = START;
    *last = END;
    *flags = BASE + (command.leds & (GREEN | BLUE | RED) | if command.homing { HOMING } else { 0 });
    packet
}

/// A packet's report; `None` for anything that the device does not send. Real-time safe.
pub fn decode(packet: &[u8; PACKET]) -> Option<Report> {
    let [START, body @ .., flags, _, END] = packet else { return None };
    let flags = flags.checked_sub(BASE).filter(|f| *f < 0x80)?;
    let mut encoders = [0; 3];
    for (encoder, digits) in encoders.iter_mut().zip(body.chunks_exact(4)) {
        let mut word = 0u16;
        for digit in digits.iter().rev() {
            let nibble = digit.checked_sub(BASE).filter(|n| *n < 16)?;
            word = word << 4 | u16::from(nibble);
        }
        *encoder = word as i16;
    }
    let homed = [0x10, 0x20, 0x40].map(|bit| flags & bit != 0);
    Some(Report { encoders, buttons: flags & 0xf, homed })
}

/// Finds packets in a stream of bytes. After bytes that make no packet it goes on at the next `<`, so one lost or wrong byte
/// costs one packet. Real-time safe.
#[derive(Clone, Copy, Debug, Default)]
pub struct Framer {
    buffer: [u8; PACKET],
    len: usize,
    garbled: u64,
}

impl Framer {
    /// Takes one byte; a report when it completes one.
    pub fn push(&mut self, byte: u8) -> Option<Report> {
        if let Some(slot) = self.buffer.get_mut(self.len) {
            *slot = byte;
            self.len += 1;
        }
        if self.len == 1 && byte != START {
            self.garbled += 1;
            self.len = 0;
        }
        if self.len < PACKET {
            return None;
        }
        let report = decode(&self.buffer);
        if report.is_some() {
            self.len = 0;
        } else {
            self.resume();
        }
        report
    }

    /// Drops what stands before the next `<` after the first byte.
    fn resume(&mut self) {
        let skip = self.buffer.iter().skip(1).position(|b| *b == START).map_or(PACKET, |at| at + 1);
        self.buffer.rotate_left(skip.min(PACKET - 1));
        self.len = PACKET - skip;
        self.garbled += skip as u64;
    }

    /// Bytes dropped because they made no packet.
    pub fn garbled(&self) -> u64 {
        self.garbled
    }

    /// Forgets an unfinished packet.
    pub fn reset(&mut self) {
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand from research/devices.md section 1: 0x41 + nibble, least significant first. 1 = 1000, -1 = ffff,
    /// 4096 = 0x1000 = 0001; green and homing = 0x3.
    #[test]
    fn commands_are_written_as_published() {
        let c = Command { motors: [1, -1, 4096], homing: true, leds: GREEN };
        assert_eq!(&encode(&c), b"<BAAAPPPPAAABDA>");
        assert_eq!(&encode(&Command::default()), b"<AAAAAAAAAAAAAA>");
        let lights = Command { leds: 0xff, ..Command::default() };
        assert_eq!(&encode(&lights), b"<AAAAAAAAAAAAOA>", "red, blue, green and nothing else");
    }

    #[test]
    fn too_much_is_scaled_together_and_never_wraps() {
        // 8192, -4096, 2048 -> 4096, -2048 (0xf800), 1024 (0x0400).
        let c = Command { motors: [8192, -4096, 2048], ..Command::default() };
        assert_eq!(&encode(&c), b"<AAABAAIPAAEAAA>");
        // 40000 would be negative in 16 bits.
        let c = Command { motors: [40_000, 0, 0], ..Command::default() };
        assert_eq!(&encode(&c), b"<AAABAAAAAAAAAA>");
    }

    /// 1000 = 0x03e8, -2 = 0xfffe, 0x1234; buttons centre and plus (5), all homed (0x70): byte 13 = 0x41 + 0x75 = 0xb6.
    #[test]
    fn replies_are_read_as_published() {
        let packet = *b"<IODAOPPPEDCB\xb6A>";
        let want = Report { encoders: [1000, -2, 0x1234], buttons: 5, homed: [true; 3] };
        assert_eq!(decode(&packet), Some(want));
        assert!(want.is_homed());
        // Encoder 2 homed alone is bit 5: 0x41 + 0x20 = 'a'.
        let one = decode(b"<AAAAAAAAAAAAaA>").expect("valid");
        assert_eq!((one.homed, one.buttons, one.is_homed()), ([false, true, false], 0, false));
        // The largest byte 13.
        assert!(decode(b"<AAAAAAAAAAAA\xc0A>").is_some());
    }

    #[test]
    fn what_the_device_never_sends_is_refused() {
        for bad in [
            b"AAAAAAAAAAAAAAA>",
            b"<AAAAAAAAAAAAAAA",
            b"<@AAAAAAAAAAAAA>",
            b"<QAAAAAAAAAAAAA>",
            b"<AAAAAAAAAAAA@A>",
            b"<AAAAAAAAAAAA\xc1A>",
            b"<AAAAAAAAAAA<AA>",
        ] {
            assert_eq!(decode(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn the_stream_is_found_again_after_every_kind_of_damage() {
        let good = b"<IODAOPPPEDCB\xb6A>";
        let other = b"<BAAABAAABAAAAA>";
        for (damage, lost) in [
            (&b"xyz"[..], 0),
            (&good[..5], 0),
            (&good[1..], 0),
            (b"<<<<<<<<<<<<<<<<<<", 0),
            (b"<AAAAAAAAAAAAAAA", 0),
            (b">>>><AAAA>", 0),
            (&good[..15], 0),
        ] {
            let mut framer = Framer::default();
            let bytes = good.iter().chain(damage).chain(other).chain(good);
            let reports: Vec<Report> = bytes.filter_map(|b| framer.push(*b)).collect();
            assert_eq!(reports.len(), 3 - lost, "{damage:?}");
            assert_eq!((reports[1].encoders, reports[2].encoders), ([1, 1, 1], [1000, -2, 0x1234]));
            assert_eq!(framer.garbled(), damage.len() as u64, "{damage:?}");
        }
    }
}
