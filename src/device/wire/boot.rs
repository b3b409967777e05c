//! The Falcon's start: is it running already, else the dialogue with its boot loader that loads the firmware.
//!
//! Source: libnifalcon src/comm/FalconCommLibUSB.cpp and src/core/FalconFirmware.cpp. The firmware is volatile, comes from
//! a file of the user's, and its loading fails now and then (libnifalcon issues 24, 32, 33, 45, 67), so it is tried again.
//! A pure state machine: times and bytes go in, actions come out. Not real-time: it holds the firmware.

use super::falcon::{self, Framer};
use super::ftdi::Control;
use std::sync::Arc;

/// Longest firmware that is taken, bytes; the known ones have 7.3 to 8.5 kB.
pub const MAX_FIRMWARE: usize = 65_536;

/// Bytes of a chunk, each of which is echoed.
const CHUNK: usize = 62;
/// Attempts at loading.
const ATTEMPTS: u32 = 5;
/// Greetings of the boot loader in one attempt.
const GREETINGS: u32 = 100;
const MS: u64 = 1_000_000;
/// Time for a running Falcon to answer.
const PROBE_NS: u64 = 200 * MS;
/// Time for its USB chip, which says something every 16 ms at the latest whatever runs behind it, to be heard at all.
const CHIP_NS: u64 = 500 * MS;
/// Time between two packets while probing.
const PACE_NS: u64 = 2 * MS;
/// Time for the answer to a greeting, and to a chunk.
const GREETING_NS: u64 = 50 * MS;
const ECHO_NS: u64 = 500 * MS;
/// Wait before the second attempt; it doubles from one to the next.
const BACK_OFF_NS: u64 = 100 * MS;

/// No force; homing as in every packet, so that a Falcon that is homed stays so.
const PROBE: falcon::Command = falcon::Command { motors: [0; 3], homing: true, leds: falcon::RED };

const RUN: [Control; 6] = [
    Control::Latency(1),
    Control::Divisor(2),
    Control::Line8N1,
    Control::NoFlow,
    Control::PurgeRx,
    Control::PurgeTx,
];
const GREET: [Control; 9] = [
    Control::PurgeRx,
    Control::PurgeTx,
    // Loading fails at lower values.
    Control::Latency(16),
    Control::Divisor(0x4138),
    Control::Line8N1,
    Control::NoFlow,
    Control::RtsLow,
    Control::Dtr(false),
    Control::Dtr(true),
];
const LOAD: [Control; 2] = [Control::Dtr(false), Control::Divisor(0x15)];
const HELLO: &[u8] = &[0x0a, 0x43, 0x0d];
const HELLO_ANSWER: &[u8] = &[0x0a, 0x44, 0x2c, 0x0d];
const READY: &[u8] = &[0x41];

/// Where loading stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Asking whether the firmware runs already.
    Probe,
    /// Waiting for the boot loader's greeting.
    Greeting,
    /// Waiting for the loader to be ready for the image.
    Ready,
    /// Sending the image.
    Image,
    /// Waiting for the loaded firmware's first packet.
    Start,
}

impl Stage {
    /// What went wrong there and what to do, for people.
    pub fn trouble(self) -> &'static str {
        match self {
            Self::Probe => {
                "the Falcon does not run its firmware and no firmware file is configured; set device.firmware to the \
                 file from Novint's or another driver's package"
            }
            Self::Greeting => {
                "the boot loader does not answer; check the Falcon's own power supply, unplug it and plug it in again"
            }
            Self::Ready => "the boot loader did not get ready for the firmware; plug the Falcon in again",
            Self::Image => {
                "the firmware did not arrive unchanged; try another USB port, without a hub, and check that the file is \
                 a firmware for the Falcon"
            }
            Self::Start => {
                "the firmware was loaded but does not run; check that the file is a firmware for the Falcon and that \
                 its power supply is connected"
            }
        }
    }
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A control request.
    Control(Control),
    /// Bytes to be sent: [`Boot::outgoing`].
    Send,
    /// Nothing until bytes arrive or this time, ns.
    Wait(u64),
    /// The firmware runs.
    Running,
    /// Given up, at this stage of the last attempt.
    Failed(Stage),
    /// Not even its USB chip is heard: what runs behind it nobody knows.
    Silent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Probe,
    Greet,
    Ready,
    Start,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Control requests of a list, from this one on.
    Controls(Then, usize),
    /// Run packets go out until one is answered: stage, end, next packet.
    Asking(Stage, u64, u64),
    Greeting(u32, u64),
    Ready(u64),
    /// Chunk begins here; its echo must be there by then.
    Echo(usize, u64),
    BackOff(u64),
    Done(Action),
}

/// The dialogue.
#[derive(Clone, Debug)]
pub struct Boot {
    firmware: Option<Arc<[u8]>>,
    state: State,
    out: [u8; 64],
    out_len: usize,
    framer: Framer,
    /// What came back since the last bytes were sent.
    heard: [u8; 64],
    heard_len: usize,
    running: bool,
    /// A transfer has come, with or without bytes.
    chip: bool,
    /// That was found when the next action was asked for.
    chip_found: bool,
    /// Its chip must be heard until then, ns.
    chip_due_ns: u64,
    attempts: u32,
}

impl Boot {
    /// Begins with the question whether the firmware runs already.
    pub fn new(firmware: Option<Arc<[u8]>>) -> Self {
        Self {
            firmware,
            state: State::Controls(Then::Probe, 0),
            out: [0; 64],
            out_len: 0,
            framer: Framer::default(),
            heard: [0; 64],
            heard_len: 0,
            running: false,
            chip: false,
            chip_found: false,
            chip_due_ns: 0,
            attempts: 0,
        }
    }

    /// Bytes that [`Action::Send`] stands for.
    pub fn outgoing(&self) -> &[u8] {
        self.out.get(..self.out_len).unwrap_or(&[])
    }

    /// Attempts at loading so far.
    #[cfg(test)]
    fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Takes bytes that arrived (without the chip's status bytes; there may be none besides those).
    pub fn heard(&mut self, bytes: &[u8]) {
        self.chip = true;
        for byte in bytes {
            self.running |= self.framer.push(*byte).is_some();
            if let Some(slot) = self.heard.get_mut(self.heard_len) {
                *slot = *byte;
                self.heard_len += 1;
            }
        }
    }

    /// The next action; to be called again at once after [`Action::Control`] and [`Action::Send`].
    pub fn next(&mut self, now_ns: u64) -> Action {
        loop {
            match self.state {
                State::Controls(then, at) => {
                    let list: &[Control] = match then {
                        Then::Probe | Then::Start => &RUN,
                        Then::Greet => &GREET,
                        Then::Ready => &LOAD,
                    };
                    if let Some(control) = list.get(at) {
                        self.state = State::Controls(then, at + 1);
                        return Action::Control(*control);
                    }
                    self.after(then, now_ns);
                    if matches!(then, Then::Ready) {
                        return self.say(READY);
                    }
                }
                State::Asking(stage, end, next) => {
                    // While the bus stands still the firmware is not to be taken for missing, nor another one to be loaded over it.
                    let still = stage == Stage::Probe && !self.chip;
                    // The time for an answer begins when the chip is first found to have been heard.
                    let waits = stage == Stage::Probe && !self.chip_found;
                    self.chip_found = self.chip;
                    let end = if waits { now_ns + PROBE_NS } else { end };
                    if self.running {
                        self.state = State::Done(Action::Running);
                    } else if still && now_ns >= self.chip_due_ns {
                        self.state = State::Done(Action::Silent);
                    } else if now_ns >= end {
                        self.unanswered(stage, now_ns);
                    } else if now_ns >= next {
                        self.state = State::Asking(stage, end, now_ns + PACE_NS);
                        return self.say(&falcon::encode(&PROBE));
                    } else {
                        self.state = State::Asking(stage, end, next);
                        return Action::Wait(next);
                    }
                }
                State::Greeting(count, due) => {
                    let heard = self.words();
                    let heard = heard.strip_prefix(&[0]).unwrap_or(heard);
                    if heard == HELLO_ANSWER {
                        self.state = State::Controls(Then::Ready, 0);
                    } else if now_ns < due {
                        return Action::Wait(due);
                    } else if count >= GREETINGS {
                        self.failed(Stage::Greeting, now_ns);
                    } else {
                        self.state = State::Greeting(count + 1, now_ns + GREETING_NS);
                        return self.say(HELLO);
                    }
                }
                State::Ready(due) => {
                    if self.words() == READY {
                        return self.chunk(0, now_ns);
                    } else if now_ns < due && self.heard_len == 0 {
                        return Action::Wait(due);
                    }
                    self.failed(Stage::Ready, now_ns);
                }
                State::Echo(from, due) => {
                    let len = self.out_len;
                    if self.heard_len < len && now_ns < due {
                        return Action::Wait(due);
                    }
                    if self.words() != self.outgoing() {
                        self.failed(Stage::Image, now_ns);
                    } else if self.firmware.as_ref().is_some_and(|f| from + len < f.len()) {
                        return self.chunk(from + len, now_ns);
                    } else {
                        self.state = State::Controls(Then::Start, 0);
                    }
                }
                State::BackOff(until) if now_ns < until => return Action::Wait(until),
                State::BackOff(_) => self.state = State::Controls(Then::Greet, 0),
                State::Done(action) => return action,
            }
        }
    }

    fn after(&mut self, then: Then, now: u64) {
        self.framer.reset();
        self.running = false;
        self.state = match then {
            Then::Probe => {
                self.chip_due_ns = now + CHIP_NS;
                State::Asking(Stage::Probe, now + PROBE_NS, now)
            }
            Then::Start => State::Asking(Stage::Start, now + 5 * PROBE_NS, now),
            Then::Greet => State::Greeting(0, now),
            Then::Ready => State::Ready(now + ECHO_NS),
        };
    }

    fn unanswered(&mut self, stage: Stage, now: u64) {
        match &self.firmware {
            _ if stage != Stage::Probe => self.failed(stage, now),
            None => self.state = State::Done(Action::Failed(Stage::Probe)),
            Some(_) => {
                self.attempts = 1;
                self.state = State::Controls(Then::Greet, 0);
            }
        }
    }

    fn failed(&mut self, stage: Stage, now: u64) {
        if self.attempts >= ATTEMPTS {
            self.state = State::Done(Action::Failed(stage));
            return;
        }
        self.state = State::BackOff(now + (BACK_OFF_NS << (self.attempts - 1).min(8)));
        self.attempts += 1;
    }

    fn chunk(&mut self, from: usize, now: u64) -> Action {
        let firmware = self.firmware.clone();
        let bytes = firmware.as_ref().and_then(|f| f.get(from..)).unwrap_or(&[]);
        self.state = State::Echo(from, now + ECHO_NS);
        self.say(bytes.get(..CHUNK).unwrap_or(bytes))
    }

    fn words(&self) -> &[u8] {
        self.heard.get(..self.heard_len).unwrap_or(&[])
    }

    fn say(&mut self, bytes: &[u8]) -> Action {
        self.heard_len = 0;
        self.out_len = bytes.len().min(self.out.len());
        for (out, byte) in self.out.iter_mut().zip(bytes) {
            *out = *byte;
        }
        Action::Send
    }
}

#[cfg(test)]
#[path = "boot_tests.rs"]
mod tests;
