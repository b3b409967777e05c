//! A Novint Falcon: FTDI chip with its latency timer, boot loader with moods, run firmware, homing, torque hold, and the
//! simulated mechanism in a hand.
//!
//! From research on libnifalcon (f7c727a) and K. Machulis' notes; how long a torque is held is not published, so that is a
//! setting.

use super::bus::Gadget;
use super::note;
use crate::device::io::link::LONGEST;
use crate::device::profile::{Encoders, Motors, Profile};
use crate::device::simulated::HandScript;
use crate::device::simulated::bench::Bench;
use crate::geometry::pose::Vec3;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;

/// How it behaves.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Image that its boot loader takes; `None` = the firmware runs already.
    pub image: Option<Vec<u8>>,
    /// Share of the boot loader's answers that go wrong.
    pub flakiness: f64,
    /// Time for which the homing bit must be set until the (imagined) user has homed it, ns; `None` = never.
    pub homes_after: Option<u64>,
    /// Time for which a torque is held without packets, ns.
    pub hold_ns: u64,
    /// The encoders count the samples instead of the mechanism's angles (for measuring delays).
    pub counts_samples: bool,
    /// Seed of its moods.
    pub seed: u64,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            image: None,
            flakiness: 0.0,
            homes_after: Some(0),
            hold_ns: 20_000_000,
            counts_samples: false,
            seed: 1,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Loader,
    Greeted,
    Image(usize),
    Running,
}

/// The device.
pub struct Falcon {
    setup: Setup,
    bench: Bench,
    encoders: Encoders,
    motors: Motors,
    rng: Pcg64Mcg,
    mode: Mode,
    // The FTDI chip.
    divisor: u16,
    latency: u64,
    last_in: u64,
    /// Bytes for the host and when the chip has them.
    fifo: VecDeque<(u64, u8)>,
    // The processor.
    line: Vec<u8>,
    homing_since: Option<u64>,
    homed: bool,
    /// Joint angles at which the counters were zero before homing.
    zero: Vec3,
    codes: [i16; 3],
    last_packet: u64,
    buttons: u8,
    /// Lights as commanded last (2 green, 4 blue, 8 red).
    pub leds: u8,
    /// Samples taken.
    taken: u64,
    /// When each sample was taken, ns; the newest ([`super::NOTES`]).
    pub sampled: Vec<u64>,
    /// Motor codes and when they took effect, ns; the newest.
    pub applied: Vec<(u64, [i16; 3])>,
}

impl Falcon {
    /// In a hand; `None` when the profile has no joints or the hand starts out of reach.
    pub fn new(profile: &Profile, hand: &HandScript, setup: Setup) -> Option<Self> {
        let bench = Bench::new(profile, hand)?;
        Some(Self {
            encoders: profile.encoders?,
            motors: profile.motors?,
            rng: Pcg64Mcg::seed_from_u64(setup.seed),
            mode: Mode::Loader,
            divisor: 0,
            latency: 16,
            last_in: 0,
            fifo: VecDeque::with_capacity(256),
            line: Vec::with_capacity(64),
            homing_since: None,
            homed: false,
            zero: bench.joints(),
            codes: [0; 3],
            last_packet: 0,
            buttons: 0,
            leds: 0,
            taken: 0,
            sampled: Vec::new(),
            applied: Vec::new(),
            bench,
            setup,
        })
    }

    /// Motor codes in effect.
    pub fn codes(&self) -> [i16; 3] {
        self.codes
    }

    /// For a slow processor, first called before it is switched on: the mechanism moves by one step from packet to packet, of this length at most, ns; with 0 it
    /// stands still.
    pub fn hurry(&mut self, longest_ns: u64) {
        self.bench.hurry(longest_ns);
    }

    /// True tool point, device frame, m.
    pub fn tip(&self) -> Vec3 {
        self.bench.tip()
    }

    /// Presses grip buttons.
    pub fn press(&mut self, buttons: u8) {
        self.buttons = buttons;
    }

    /// Forgets its zero, as after a dip of its supply.
    pub fn lose_home(&mut self) {
        self.homed = false;
        self.homing_since = None;
        self.zero = self.bench.joints();
    }

    fn mood(&mut self) -> bool {
        ((self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64) < self.setup.flakiness
    }

    /// Time of one byte on the serial line, ns.
    fn byte_ns(&self) -> u64 {
        let divisor = f64::from(self.divisor & 0x3fff) + if self.divisor & 0x4000 != 0 { 0.5 } else { 0.0 };
        (10.0 * divisor.max(1.0) / 3e6 * 1e9) as u64
    }

    fn say(&mut self, now: u64, bytes: &[u8]) {
        let step = self.byte_ns();
        let mut at = self.fifo.back().map_or(now, |(t, _)| now.max(*t));
        for byte in bytes {
            at += step;
            self.fifo.push_back((at, *byte));
        }
    }

    fn hear(&mut self, now: u64, byte: u8) {
        match self.mode {
            Mode::Loader => {
                self.line.push(byte);
                let from = self.line.len().saturating_sub(3);
                if self.divisor == 0x4138 && self.line[from..] == [0x0a, 0x43, 0x0d] {
                    self.line.clear();
                    if self.mood() {
                        self.say(now, &[0x0a, 0x3f]);
                    } else {
                        self.mode = Mode::Greeted;
                        self.say(now, &[0x00, 0x0a, 0x44, 0x2c, 0x0d]);
                    }
                }
                if self.line.len() > 32 {
                    self.line.clear();
                }
            }
            Mode::Greeted => {
                if self.divisor == 0x15 && byte == 0x41 {
                    self.mode = Mode::Image(0);
                    self.say(now, &[0x41]);
                } else if byte == 0x0d {
                    self.mode = Mode::Loader;
                }
            }
            Mode::Image(at) => self.image(now, at, byte),
            Mode::Running if self.divisor == 2 => self.packet(now, byte),
            Mode::Running => {}
        }
    }

    fn image(&mut self, now: u64, at: usize, byte: u8) {
        let Some(image) = &self.setup.image else { return };
        let (len, right) = (image.len(), image.get(at) == Some(&byte));
        // The load fails with a short latency timer, and with a wrong image.
        let fails = self.latency < 16 || !right || (at % 62 == 61 && self.mood());
        self.say(now, &[if fails { byte ^ 0x10 } else { byte }]);
        self.mode = match (fails, at + 1 == len) {
            (true, _) => Mode::Loader,
            (false, true) => Mode::Running,
            (false, false) => Mode::Image(at + 1),
        };
        self.line.clear();
    }

    fn packet(&mut self, now: u64, byte: u8) {
        if byte == b'<' {
            self.line.clear();
        }
        self.line.push(byte);
        if self.line.len() > 16 {
            self.line.clear();
        }
        if self.line.len() != 16 || self.line[0] != b'<' || byte != b'>' {
            return;
        }
        let digit = |i: usize| i32::from(self.line[i]) - 65;
        let mut codes = [0i16; 3];
        for (m, code) in codes.iter_mut().enumerate() {
            let word: i32 = (0..4).map(|k| digit(1 + 4 * m + k) * 16i32.pow(k as u32)).sum();
            *code = if word >= 32768 { (word - 65536) as i16 } else { word as i16 };
        }
        let flags = digit(13);
        self.line.clear();
        self.leds = (flags & 0xe) as u8;
        if !self.setup.counts_samples {
            self.bench.advance(now);
        }
        if flags & 1 == 0 {
            // Whether the firmware keeps its home then is not published; libnifalcon sets the bit in every packet.
            self.homing_since = None;
            self.homed = false;
        } else {
            let since = *self.homing_since.get_or_insert(now);
            if self.setup.homes_after.is_some_and(|after| now - since >= after) {
                self.homed = true;
            }
        }
        self.last_packet = now;
        self.drive(now, codes);
        self.answer(now);
    }

    fn drive(&mut self, now: u64, codes: [i16; 3]) {
        self.codes = codes.map(|c| c.clamp(-4096, 4096));
        note(&mut self.applied, (now, self.codes));
        let mut torque = Vec3::zeros();
        for i in 0..3 {
            torque[i] = f64::from(self.codes[i]) * self.motors.torque_per_code[i];
        }
        self.bench.set_torque(torque);
    }

    fn answer(&mut self, now: u64) {
        note(&mut self.sampled, now);
        self.taken += 1;
        let q = self.bench.joints();
        let mut reply = vec![b'<'];
        for i in 0..3 {
            let zero = if self.homed { self.encoders.offset[i] } else { self.zero[i] };
            let mut count = ((q[i] - zero) / self.encoders.radians_per_count[i]).floor() as i32;
            if self.setup.counts_samples {
                count = if i == 0 { ((self.taken - 1) % 30_000) as i32 } else { 0 };
            }
            let mut word = count.rem_euclid(65536);
            for _ in 0..4 {
                reply.push(65 + (word % 16) as u8);
                word /= 16;
            }
        }
        reply.push(65 + self.buttons + if self.homed { 0x70 } else { 0 });
        reply.extend([b'A', b'>']);
        self.say(now, &reply);
    }
}

impl Gadget for Falcon {
    fn frame(&mut self, now_ns: u64) {
        if self.codes != [0; 3] && now_ns.saturating_sub(self.last_packet) > self.setup.hold_ns {
            self.bench.advance(now_ns);
            self.drive(now_ns, [0; 3]);
        }
    }

    fn output(&mut self, now_ns: u64, bytes: &[u8]) {
        let step = self.byte_ns();
        for (k, byte) in bytes.iter().enumerate() {
            self.hear(now_ns + step * (k as u64 + 1), *byte);
        }
    }

    fn input(&mut self, now_ns: u64, buffer: &mut [u8; LONGEST]) -> Option<usize> {
        let ready = self.fifo.iter().take_while(|(at, _)| *at <= now_ns).count().min(62);
        // The timer counts frames; half a frame makes room for their not being our milliseconds.
        let timer = now_ns.saturating_sub(self.last_in) + 500_000 >= self.latency * 1_000_000;
        if ready < 62 && !timer {
            return None;
        }
        self.last_in = now_ns;
        buffer[..2].copy_from_slice(&[0x01, 0x60]);
        for (slot, (_, byte)) in buffer[2..].iter_mut().zip(self.fifo.drain(..ready)) {
            *slot = byte;
        }
        Some(2 + ready)
    }

    fn control(&mut self, _now_ns: u64, request: u8, value: u16) {
        match (request, value) {
            (0, 1) => self.fifo.clear(),
            (0, 2) => self.line.clear(),
            // DTR resets the loader.
            (1, 0x0101) if self.mode != Mode::Running => self.mode = Mode::Loader,
            (3, divisor) => self.divisor = divisor,
            (9, ms) => self.latency = u64::from(ms).max(1),
            _ => {}
        }
    }

    fn power_on(&mut self, now_ns: u64) {
        self.bench.advance(now_ns);
        self.mode = if self.setup.image.is_some() { Mode::Loader } else { Mode::Running };
        (self.divisor, self.latency, self.last_in) = (0, 16, now_ns);
        self.fifo.clear();
        self.line.clear();
        self.homing_since = None;
        self.homed = false;
        self.zero = self.bench.joints();
    }

    fn power_off(&mut self, now_ns: u64) {
        self.bench.advance(now_ns);
        self.drive(now_ns, [0; 3]);
        self.mode = Mode::Loader;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::emulated::vectors::{bench_profile, hand};

    /// A reply that is whole.
    fn reply(falcon: &mut Falcon, now: u64) -> Vec<u8> {
        let mut buffer = [0; LONGEST];
        let len = falcon.input(now, &mut buffer).expect("a timer of 1 ms");
        assert_eq!(&buffer[..2], &[0x01, 0x60], "the chip's status");
        buffer[2..len].to_vec()
    }

    /// Written out by hand from libnifalcon's format: nibbles least significant first, upon 'A'. 1 is BAAA, -1 is PPPP, 4096 is AAAB; D is 3, the homing
    /// bit and the green light.
    #[test]
    fn packets_are_read_and_answered_as_published() {
        let setup = Setup { counts_samples: true, homes_after: None, ..Setup::default() };
        let mut falcon = Falcon::new(&bench_profile("novint-falcon"), &hand(), setup).expect("in reach");
        falcon.power_on(0);
        falcon.control(0, 9, 1);
        falcon.output(0, b"<BAAAPPPPAAABDA>");
        assert_eq!(
            (falcon.codes(), falcon.applied.len()),
            ([0; 3], 0),
            "at another speed nothing is understood"
        );
        falcon.control(0, 3, 2);
        falcon.output(1_000_000, b"<BAAAPPPPAAABDA>");
        assert_eq!((falcon.codes(), falcon.leds), ([1, -1, 4096], 2));
        assert_eq!(reply(&mut falcon, 2_000_000), b"<AAAAAAAAAAAAAA>", "the first sample, not homed");
        for (leds, letter) in [(4, b'F'), (8, b'J'), (14, b'P')] {
            let mut packet = *b"<AAAAAAAAAAAA?A>";
            packet[13] = letter;
            falcon.output(3_000_000, &packet);
            assert_eq!((falcon.codes(), falcon.leds), ([0; 3], leds));
        }
        falcon.input(5_000_000, &mut [0; LONGEST]).expect("three replies");
        // The fifth sample; buttons 1 and 8.
        falcon.press(9);
        falcon.output(6_000_000, b"<AAAAAAAAAAAAJA>");
        assert_eq!(reply(&mut falcon, 7_000_000), b"<EAAAAAAAAAAAJA>");
        // 8192 is beyond what the firmware takes.
        falcon.output(8_000_000, b"<AAACAAAAAAAAJA>");
        assert_eq!(falcon.codes(), [4096, 0, 0]);
        for bad in [&b"<AAACAAAAAAAAJA"[..], b"AAACAAAAAAAAJA>>", b"<<AACAAAAAAAAJA>", &[0xff; 40]] {
            let before = falcon.applied.len();
            falcon.output(9_000_000, bad);
            assert_eq!(falcon.applied.len(), before, "{bad:?}");
        }
    }

    /// Angles against the counts of the data sheet: 2 pi / 9878 or so a count, floor, upon the offset once it is homed; the bits 0x70 say so.
    #[test]
    fn counts_are_those_of_the_arms() {
        let profile = bench_profile("novint-falcon");
        let mut falcon = Falcon::new(&profile, &hand(), Setup::default()).expect("in reach");
        falcon.power_on(0);
        falcon.control(0, 9, 1);
        falcon.control(0, 3, 2);
        let encoders = profile.encoders.expect("encoders");
        falcon.output(1_000_000, b"<AAAAAAAAAAAABA>");
        let bytes = reply(&mut falcon, 2_000_000);
        let q = falcon.bench.joints();
        for i in 0..3 {
            let digits = bytes[1 + 4 * i..5 + 4 * i].iter().rev();
            let word = digits.fold(0u16, |word, digit| word * 16 + u16::from(*digit - b'A')) as i16;
            let angle = encoders.offset[i] + f64::from(word) * encoders.radians_per_count[i];
            let below = (q[i] - angle) / encoders.radians_per_count[i];
            assert!((-1e-6..1.0 + 1e-6).contains(&below), "arm {i}: {below} counts");
        }
        assert_eq!(bytes[13], b'A' + 0x70);
    }
}
