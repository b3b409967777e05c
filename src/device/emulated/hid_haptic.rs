//! A WoodenHaptics: silent until a first report, paced by the host, off half a second after the last report.
//!
//! From haptikfabrikenapi firmware/main.cpp (b8d6c94): send (waits for the host), receive, drain, apply.

use super::bus::Gadget;
use super::note;
use crate::device::io::link::LONGEST;
use crate::device::profile::{Encoders, Motors, Profile};
use crate::device::simulated::HandScript;
use crate::device::simulated::bench::Bench;
use crate::device::wire::hid_haptic::WATCHDOG_NS;
use crate::geometry::pose::Vec3;

/// The device.
pub struct HidHaptic {
    bench: Bench,
    encoders: Encoders,
    motors: Motors,
    /// Length of its reports: 14, or 64.
    length: usize,
    /// Count of each encoder a to c at joint angle 0 of the mechanism.
    zero: [i64; 3],
    waiting: Option<[i16; 7]>,
    currents: [i16; 3],
    last_report: u64,
    enabled: bool,
    /// The encoders count the samples instead (for measuring delays).
    pub counts_samples: bool,
    /// The calibration button is down.
    pub button: bool,
    /// Presets taken.
    pub presets: u32,
    /// Presets do not change its counters, as with a firmware that does not know them.
    pub ignores_presets: bool,
    /// Samples taken.
    taken: u64,
    /// When each sample was taken, ns; the newest ([`super::NOTES`]).
    pub sampled: Vec<u64>,
    /// Currents in mA and when they took effect, ns; the newest.
    pub applied: Vec<(u64, [i16; 3])>,
}

impl HidHaptic {
    /// In a hand; `length` of its reports is 14 or 64. `None` when the profile has no joints or the hand starts out of reach.
    pub fn new(profile: &Profile, hand: &HandScript, length: usize) -> Option<Self> {
        Some(Self {
            bench: Bench::new(profile, hand)?,
            encoders: profile.encoders?,
            motors: profile.motors?,
            length,
            zero: [0; 3],
            waiting: None,
            currents: [0; 3],
            last_report: 0,
            enabled: false,
            counts_samples: false,
            button: false,
            presets: 0,
            ignores_presets: false,
            taken: 0,
            sampled: Vec::new(),
            applied: Vec::new(),
        })
    }

    /// Currents in effect, mA.
    pub fn currents(&self) -> [i16; 3] {
        self.currents
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

    /// Counts of the mechanism's angles since joint angle 0.
    fn turned(&self) -> [i64; 3] {
        let q = self.bench.joints();
        std::array::from_fn(|i| (q[i] / self.encoders.radians_per_count[i]).floor() as i64)
    }

    fn drive(&mut self, now: u64, currents: [i16; 3]) {
        self.currents = currents;
        note(&mut self.applied, (now, currents));
        let mut torque = Vec3::zeros();
        for i in 0..3 {
            torque[i] = f64::from(currents[i]) * self.motors.torque_per_code[i];
        }
        self.bench.set_torque(torque);
    }
}

impl Gadget for HidHaptic {
    fn frame(&mut self, now_ns: u64) {
        if self.enabled && now_ns.saturating_sub(self.last_report) > WATCHDOG_NS {
            self.enabled = false;
            self.bench.advance(now_ns);
            self.drive(now_ns, [0; 3]);
        }
    }

    fn output(&mut self, now_ns: u64, bytes: &[u8]) {
        if bytes.len() != self.length {
            return;
        }
        let word = |i: usize| i16::from(bytes[2 * i]) + (i16::from(bytes[2 * i + 1]) << 8);
        if !self.counts_samples {
            self.bench.advance(now_ns);
        }
        self.last_report = now_ns;
        self.enabled = true;
        if word(3) == 1 {
            self.presets += 1;
            let turned = self.turned();
            for i in (0..3).filter(|_| !self.ignores_presets) {
                self.zero[i] = turned[i] - i64::from(word(4 + i));
            }
            self.drive(now_ns, [0; 3]);
        } else {
            self.drive(now_ns, [word(0), word(1), word(2)]);
        }
        let turned = self.turned();
        let mut report = [0i16; 7];
        for i in 0..3 {
            report[i] = (turned[i] - self.zero[i]) as i16;
        }
        if self.counts_samples {
            report[0] = (self.taken % 30_000) as i16;
        }
        report[6] = i16::from(self.button);
        note(&mut self.sampled, now_ns);
        self.taken += 1;
        self.waiting = Some(report);
    }

    fn input(&mut self, _now_ns: u64, buffer: &mut [u8; LONGEST]) -> Option<usize> {
        let report = self.waiting.take()?;
        buffer.fill(0);
        for (i, word) in report.iter().enumerate() {
            buffer[2 * i] = (*word & 0xff) as u8;
            buffer[2 * i + 1] = (*word >> 8 & 0xff) as u8;
        }
        Some(self.length)
    }

    fn control(&mut self, _now_ns: u64, _request: u8, _value: u16) {}

    fn power_on(&mut self, now_ns: u64) {
        self.bench.advance(now_ns);
        // Counters start at zero wherever the arm is.
        self.zero = self.turned();
        self.waiting = None;
        self.enabled = false;
    }

    fn power_off(&mut self, now_ns: u64) {
        self.bench.advance(now_ns);
        self.drive(now_ns, [0; 3]);
        self.enabled = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::emulated::vectors::{bench_profile, hand};

    fn device(length: usize) -> HidHaptic {
        HidHaptic::new(&bench_profile("woodenhaptics-v2015"), &hand(), length).expect("in reach")
    }

    /// Written out by hand from haptikfabrikenapi's structures: seven int16, least significant byte first; currents, command, three attributes.
    #[test]
    fn reports_are_read_and_answered_as_published() {
        for length in [14, 64] {
            let mut hid = device(length);
            hid.power_on(0);
            let mut buffer = [0xee; LONGEST];
            assert_eq!(hid.input(0, &mut buffer), None, "silent until it is spoken to");
            let mut report = vec![0x10, 0x00, 0xf0, 0xff, 0xd0, 0x07, 0, 0, 0, 0, 0, 0, 0, 0];
            report.resize(length, 0);
            hid.output(1_000_000, &report);
            assert_eq!(hid.currents(), [16, -16, 2000]);
            // Encoders 0 where it was switched on; the seventh word is the calibration button.
            assert_eq!(hid.input(1_000_000, &mut buffer), Some(length));
            let moved = |low: u8, high: u8| i16::from_le_bytes([low, high]).abs();
            assert!((0..3).all(|i| moved(buffer[2 * i], buffer[2 * i + 1]) < 20), "{buffer:?}");
            assert_eq!(buffer[6..14], [0; 8]);
            assert_eq!(hid.input(1_000_000, &mut buffer), None, "one answer each");
            // Command 1 sets encoders a to c: 0, -2, 6000.
            let mut preset = vec![0, 0, 0, 0, 0, 0, 1, 0, 0x00, 0x00, 0xfe, 0xff, 0x70, 0x17];
            preset.resize(length, 0);
            hid.button = true;
            hid.output(1_000_000, &preset);
            assert_eq!((hid.currents(), hid.presets), ([0; 3], 1));
            hid.input(1_000_000, &mut buffer).expect("an answer");
            assert_eq!(buffer[..14], [0, 0, 0xfe, 0xff, 0x70, 0x17, 0, 0, 0, 0, 0, 0, 1, 0]);
            // Another length is no report of this device.
            hid.output(2_000_000, &vec![1; length - 1]);
            assert_eq!((hid.currents(), hid.input(2_000_000, &mut buffer)), ([0; 3], None));
        }
    }

    /// A packet each 10 ms, of which the mechanism sees one: it goes the way of one that gets a packet each millisecond, but for what the longer steps cost.
    #[test]
    fn a_slow_processor_sees_the_mechanism_move_slowly() {
        let moving = HandScript::parse(
            "hand = 'firm'\n[[keyframe]]\ntime = 0.0\nposition = [0.0, 0.205, 0.025]\n\
             [[keyframe]]\ntime = 1.0\nposition = [0.0, 0.105, 0.025]\n",
        )
        .expect("script");
        let run = |apart_ns: u64, hurried: bool| {
            let mut hid =
                HidHaptic::new(&bench_profile("woodenhaptics-v2015"), &moving, 14).expect("in reach");
            if hurried {
                hid.hurry(1_000_000);
            }
            hid.power_on(0);
            (1..=300).for_each(|k| hid.output(k * apart_ns, &[0; 14]));
            hid.tip()
        };
        let slow = run(10_000_000, true);
        let right = run(1_000_000, false);
        assert!((slow - right).norm() < 1e-3, "{slow} {right}");
        assert!((slow - run(10_000_000, false)).norm() > 0.02);
    }

    #[test]
    fn half_a_second_after_the_last_report_it_lets_go() {
        let mut hid = device(14);
        hid.power_on(0);
        hid.output(1_000_000, &[0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        hid.frame(501_000_000);
        assert_eq!(hid.currents(), [16, 0, 0]);
        hid.frame(502_000_000);
        assert_eq!(hid.currents(), [0; 3]);
    }
}
