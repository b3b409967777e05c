//! The I/O of one device over its whole life: find it, start it, exchange packets, notice that it went, find it again.
//!
//! A step never sleeps; [`Runner::wait`] does. Time comes from outside, so the same code runs in the I/O thread and on a
//! virtual clock. While the device runs a step allocates nothing, takes no lock and logs nothing.
//!
//! **When a packet is sent.** One transfer goes each way in a frame. A packet handed over as soon as the last one has left
//! waits for the next frame with a command that is a frame old. So the packet is made late: [`MARGIN_NS`] before the frame
//! that the arrivals foretell (`super::phase`), with the newest command.
//!
//! **What ends a force.** A command older than [`HOLD_NS`], by its own stamp or since this side saw it first, counts as zero; seen longer than
//! [`SILENCE_NS`] ago, nothing is sent any more, so that the device's own watchdog sees that nobody is there; but for the zeros of a last word. A
//! command made for an earlier life of the device (another frame) counts as zero.
//!
//! **A link that breaks while the device is there** leaves the last force on. Until two packets of zero have gone out on a new link, which is opened at
//! once, a zero is owed: [`Shared::unconfirmed`], and the end waits for it for a second.

use super::debt::Debt;
use super::link::{Connector, LONGEST, Link, LinkFault, OpenFault};
use super::phase::FRAME_NS;
use super::port::{Pace, Port, Start};
use super::run::Run;
use super::shared::{Command, Reading, Shared};
use crate::device::Lifecycle;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The servo's command counts as zero when it is older than this, ns.
pub const HOLD_NS: u64 = 5_000_000;
/// Nothing is sent when the servo's command is older than this, ns.
pub const SILENCE_NS: u64 = 100_000_000;
/// A packet is handed over so long before its frame, ns.
pub const MARGIN_NS: u64 = 150_000;

/// [`Shared::trouble`] of a device that was looked for and is not there.
pub const NOT_PLUGGED_IN: &str = "the device is not plugged in";
/// The same of one that was there before, however the system told of its end.
pub const NOT_BACK: &str = "the device was unplugged and is not back";

/// The same of one that is there and says nothing.
pub const MUTE: &str = "the device does not answer; it is opened again";
const STRANGE: &str =
    "the device answers in a way that this driver does not know (another firmware?); it is opened again";

const MS: u64 = 1_000_000;
/// Time between two looks for a device that is not there.
const SEARCH_NS: u64 = 250 * MS;
/// The same where somebody tells when one comes: for what was not told.
const TOLD_SEARCH_NS: u64 = 2_000 * MS;
/// Least time between two looks, whatever is told.
const LEAST_NS: u64 = 50 * MS;
/// Time before a device that would not start is tried again.
const RETRY_NS: u64 = 5_000 * MS;
/// A device that is sent packets and does not answer for so long is opened anew.
const MUTE_NS: u64 = 500 * MS;
/// Longest time between two steps in which the device is waited for: in what goes beyond, this side stood still (no processor, a stopped process), and
/// the device, which was sent nothing, owes no answer.
const STOOD_NS: u64 = 100 * MS;
/// A lost frame is shown for at least so long, so that the servo sees it.
const SHOW_NS: u64 = 20 * MS;
/// Longest time for the last zero.
const FAREWELL_NS: u64 = 20 * MS;
/// Transfers taken in one step.
const BATCH: usize = 64;

enum State {
    /// Next look.
    Searching(u64),
    /// It is there and to be opened.
    Found,
    Starting(Box<dyn Link>),
    Running(Box<dyn Link>, Run),
    Ended,
}

/// The I/O of one device.
pub struct Runner {
    connector: Box<dyn Connector>,
    port: Box<dyn Port>,
    shared: Arc<Shared>,
    state: State,
    /// Number of the servo's newest command and when this side saw it first.
    command: (u64, u64),
    seq: u64,
    lost: u64,
    /// A zero is owed to the device, even if it has to be found again for that.
    debt: Debt,
    /// It was open before.
    was_there: bool,
    /// When it was looked for last, ns.
    looked_ns: u64,
    /// When it was heard last, was last not to be expected to say anything, or was opened, ns.
    heard_ns: u64,
    /// The last step, ns.
    stepped_ns: u64,
    buffer: [u8; LONGEST],
}

impl Runner {
    /// Begins to look for the device at the first step.
    pub fn new(connector: Box<dyn Connector>, port: Box<dyn Port>, shared: Arc<Shared>) -> Self {
        shared.set_wish(port.wish(), port.calibrates());
        Self {
            connector,
            port,
            shared,
            state: State::Searching(0),
            command: (0, 0),
            seq: 0,
            lost: 0,
            debt: Debt::default(),
            was_there: false,
            looked_ns: 0,
            heard_ns: 0,
            stepped_ns: 0,
            buffer: [0; LONGEST],
        }
    }

    /// For after a panic in a step, which dropped the link: looks for the device at the next step, even while the end is
    /// asked for, because a zero is owed to it; until it has that, [`Shared::unconfirmed`].
    pub fn again(&mut self) {
        self.state = State::Searching(0);
        self.owe();
    }

    /// The link ends, and nobody knows that the motors have zero. What is only read is owed nothing.
    fn owe(&mut self) {
        if let Pace::Replies(_) = self.port.pace() {
            self.debt.open(&self.shared);
        }
    }

    /// `later`, or soon where a zero is owed.
    fn next_look(&mut self, now: u64, later: u64) -> u64 {
        if self.debt.is_open() { self.debt.next_look(now, self.looked_ns) } else { later }
    }

    /// The end is asked for and nothing is owed: no use in waiting.
    pub fn ends(&self) -> bool {
        self.shared.stopping() && !self.debt.is_open()
    }

    /// Does what is due. Returns when it wants to be called again at the latest, ns; `None` when it has ended.
    pub fn step(&mut self, now_ns: u64) -> Option<u64> {
        let stood = now_ns.saturating_sub(self.stepped_ns).saturating_sub(STOOD_NS);
        self.stepped_ns = now_ns;
        self.heard_ns += stood;
        if self.shared.stopping() {
            self.debt.at_end(now_ns);
        }
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Ended => None,
            State::Searching(_) | State::Found | State::Starting(_) if self.ends() => None,
            State::Searching(next) if now_ns < next => {
                self.state = State::Searching(next);
                Some(next)
            }
            State::Searching(_) => Some(self.search(now_ns)),
            State::Found => Some(self.open(now_ns)),
            State::Starting(link) => Some(self.start(link, now_ns)),
            State::Running(link, run) => self.run(link, run, now_ns),
        }
    }

    /// Sleeps until something happens at the device or until this time. Returns at once where there is nothing to sleep on;
    /// then false.
    pub fn wait(&mut self, until_ns: u64) -> bool {
        match &mut self.state {
            State::Starting(link) | State::Running(link, _) => {
                link.wait(until_ns);
                true
            }
            State::Searching(next) => match self.connector.wait(until_ns) {
                Some(came) => {
                    if came {
                        *next = (*next).min(self.looked_ns + LEAST_NS);
                    }
                    true
                }
                None => false,
            },
            State::Found | State::Ended => false,
        }
    }

    /// The next step looks for the device, or would if its time had come: nothing is urgent then, and it may take long.
    pub fn is_searching(&self) -> bool {
        matches!(self.state, State::Searching(_))
    }

    fn search(&mut self, now: u64) -> u64 {
        self.looked_ns = now;
        match self.connector.find(now) {
            Ok(()) => {
                self.state = State::Found;
                now
            }
            Err(fault) => self.missing(&fault, now),
        }
    }

    fn open(&mut self, now: u64) -> u64 {
        match self.connector.open(now) {
            Ok(link) => {
                self.shared.stats.starts.fetch_add(1, Relaxed);
                self.shared.set_trouble("");
                // Asked for while it was away.
                self.shared.take_calibration();
                self.shared.set_lifecycle(Lifecycle::Booting);
                self.was_there = true;
                self.heard_ns = now;
                self.port.begin(link.product());
                self.state = State::Starting(link);
                now
            }
            Err(fault) => self.missing(&fault, now),
        }
    }

    fn missing(&mut self, fault: &OpenFault, now: u64) -> u64 {
        if *fault == OpenFault::NotThere {
            self.debt.settle(&self.shared);
        }
        self.shared.set_trouble(match fault {
            OpenFault::NotThere if self.was_there => NOT_BACK,
            OpenFault::NotThere => NOT_PLUGGED_IN,
            OpenFault::Trouble(text) => text,
        });
        self.shared.set_lifecycle(Lifecycle::Absent);
        let later = now + if self.connector.is_told() { TOLD_SEARCH_NS } else { SEARCH_NS };
        let next = self.next_look(now, later);
        self.state = State::Searching(next);
        next
    }

    /// The link is dropped by the caller.
    fn lose(&mut self, lifecycle: Lifecycle, trouble: &str, again: u64) -> u64 {
        self.shared.stats.gone.fetch_add(1, Relaxed);
        self.shared.set_beat(None);
        // Where the arm will be when it comes back nobody knows.
        self.shared.take_calibration();
        self.shared.new_life();
        self.shared.set_lifecycle(lifecycle);
        self.shared.set_trouble(trouble);
        self.state = State::Searching(again);
        again
    }

    fn broken(&mut self, fault: LinkFault, now: u64) -> u64 {
        let text = match fault {
            LinkFault::Gone => "the device was unplugged",
            LinkFault::Failed => "the system refused to exchange bytes with the device; it is opened again",
        };
        let again = self.next_look(now, now + SEARCH_NS);
        self.lose(Lifecycle::Absent, text, again)
    }

    fn mute(&mut self, text: &str, now: u64) -> u64 {
        let again = self.next_look(now, now + SEARCH_NS);
        self.lose(Lifecycle::Absent, text, again)
    }

    fn start(&mut self, mut link: Box<dyn Link>, now: u64) -> u64 {
        for _ in 0..BATCH {
            match link.receive(now, &mut self.buffer) {
                Ok(Some((len, _))) => {
                    self.heard_ns = now;
                    self.port.arrived(self.buffer.get(..len).unwrap_or(&[]));
                }
                Ok(None) => break,
                Err(fault) => return self.broken(fault, now),
            }
        }
        // One packet at a time.
        let wake = match link.sent(now) {
            Err(fault) => return self.broken(fault, now),
            // It takes nothing and says nothing.
            Ok(false) if now.saturating_sub(self.heard_ns) > MUTE_NS => return self.mute(MUTE, now),
            Ok(false) => now + MS,
            Ok(true) => {
                let done = loop {
                    match self.port.start(now) {
                        Start::Control(request) => {
                            if let Err(fault) = link.control(now, request) {
                                return self.broken(fault, now);
                            }
                        }
                        Start::Send => break link.send(now, self.port.outgoing()).map(|()| now + MS),
                        Start::Wait(until) => break Ok(until),
                        Start::Failed(text) => {
                            // It took our packets of zero and has no firmware that would drive the motors.
                            self.debt.settle(&self.shared);
                            return self.lose(Lifecycle::Fault, text, now + RETRY_NS);
                        }
                        Start::Silent => return self.mute(MUTE, now),
                        Start::Running => {
                            self.heard_ns = now;
                            self.state = State::Running(link, Run::new());
                            return now;
                        }
                    }
                };
                match done {
                    Ok(wake) => wake,
                    Err(fault) => return self.broken(fault, now),
                }
            }
        };
        self.state = State::Starting(link);
        wake
    }

    fn run(&mut self, mut link: Box<dyn Link>, mut run: Run, now: u64) -> Option<u64> {
        let wake =
            self.receive(&mut *link, &mut run, now).and_then(|()| self.send(&mut *link, &mut run, now));
        match wake {
            Err(fault) => {
                // Of one that was unplugged the motors have no power.
                if fault == LinkFault::Failed {
                    self.owe();
                }
                Some(self.broken(fault, now))
            }
            Ok(None) => {
                self.shared.new_life();
                self.shared.set_lifecycle(Lifecycle::Absent);
                None
            }
            Ok(Some(_)) if now.saturating_sub(self.heard_ns) > MUTE_NS => {
                self.owe();
                Some(self.mute(if run.strange { STRANGE } else { MUTE }, now))
            }
            Ok(Some(wake)) => {
                self.state = State::Running(link, run);
                Some(wake)
            }
        }
    }

    /// Takes what has arrived and hands on the newest.
    fn receive(&mut self, link: &mut dyn Link, run: &mut Run, now: u64) -> Result<(), LinkFault> {
        let stats = &self.shared.stats;
        let mut newest = None;
        for _ in 0..BATCH {
            let Some((len, at)) = link.receive(now, &mut self.buffer)? else { break };
            let arrived = self.port.arrived(self.buffer.get(..len).unwrap_or(&[]));
            if arrived.garbled {
                stats.garbled.fetch_add(1, Relaxed);
            }
            run.strange = arrived.reports == 0 && (arrived.garbled || run.strange);
            if arrived.reports > 0 {
                stats.readings.fetch_add(u64::from(arrived.reports), Relaxed);
                self.seq += u64::from(arrived.reports);
                newest = Some(at);
                if let Pace::Replies(_) = self.port.pace() {
                    run.phase.arrival(at);
                    let counted = run.replies.came(at, u64::from(arrived.reports));
                    self.lost += counted.lost;
                    stats.lost.fetch_add(counted.lost, Relaxed);
                    stats.late.fetch_add(counted.late, Relaxed);
                }
            }
        }
        let age = match self.port.pace() {
            Pace::Replies(age) => {
                newest = newest.map(|at| run.stamp(at));
                age
            }
            // What it told last holds until now.
            Pace::Changes => {
                if newest.is_none() && now >= run.target + FRAME_NS {
                    self.seq += 1;
                    newest = Some(now);
                }
                if newest.is_some() {
                    run.target = now;
                    run.replies.came(now, 1);
                }
                0
            }
        };
        self.follow(run, now);
        let Some(at) = newest else { return Ok(()) };
        let latest = self.port.latest();
        self.heard_ns = now;
        self.shared.set_beat(run.phase.next(now));
        self.shared.put_reading(&Reading {
            counts: latest.counts,
            buttons: latest.buttons,
            time_ns: at.saturating_sub(age),
            seq: self.seq,
            lost: self.lost,
            life: self.shared.life(),
        });
        Ok(())
    }

    /// Ready or not: a lost frame begins a new life, in which the force of the old one counts for nothing.
    fn follow(&mut self, run: &mut Run, now: u64) {
        if self.shared.take_calibration() {
            self.port.calibrate();
        }
        let latest = self.port.latest();
        self.shared.set_refused(latest.refused);
        if !latest.calibrated {
            if run.uncalibrated_until == 0 {
                self.shared.new_life();
                self.shared.set_lifecycle(Lifecycle::Uncalibrated);
            }
            run.uncalibrated_until = now + SHOW_NS;
        } else if now >= run.uncalibrated_until && run.replies.have_begun() {
            run.uncalibrated_until = 0;
            self.shared.set_lifecycle(Lifecycle::Ready);
        }
    }

    /// Hands over the next packet when its time has come. Returns the next wake; `None` at the end.
    fn send(&mut self, link: &mut dyn Link, run: &mut Run, now: u64) -> Result<Option<u64>, LinkFault> {
        let asked = run.farewell.is_some();
        if self.shared.stopping() && !asked {
            run.farewell = Some((0, now));
        }
        if let Pace::Changes = self.port.pace() {
            return Ok((!self.shared.stopping()).then_some(run.target + FRAME_NS));
        }
        let free = link.sent(now)?;
        if free && let Some(sensed) = run.sending.take() {
            self.debt.sent(&self.shared);
            if sensed > 0 {
                self.shared.stats.latency(now.saturating_sub(sensed));
            }
        }
        if let Some((count, since)) = run.farewell {
            if count >= 2 && free {
                return Ok(None);
            }
            if now.saturating_sub(since) > FAREWELL_NS {
                self.shared.set_unconfirmed();
                return Ok(None);
            }
        }
        if !free {
            return Ok(Some(now + FRAME_NS));
        }
        let frame = run.phase.next(now.max(run.target + FRAME_NS / 2));
        let due = frame.map_or(now, |f| f.saturating_sub(MARGIN_NS));
        if now < due {
            return Ok(Some(due));
        }
        let Some(command) = self.command(run, now) else {
            // Nobody listens; nothing can be expected to answer, so nothing is lost either.
            self.heard_ns = now;
            run.replies.pause(now);
            return Ok(Some(now + FRAME_NS));
        };
        self.port.prepare(&command.codes);
        link.send(now, self.port.outgoing())?;
        run.sending = Some(command.sensed_ns);
        run.target = frame.unwrap_or(now);
        if let Some((count, _)) = &mut run.farewell {
            *count += 1;
        }
        Ok(Some(now + FRAME_NS))
    }

    /// What the motors shall get; `None` when the servo has been silent for so long that nothing shall be sent.
    fn command(&mut self, run: &Run, now: u64) -> Option<Command> {
        let Some((number, command)) = self.shared.command() else { return Some(Command::ZERO) };
        if number != self.command.0 {
            self.command = (number, now);
        }
        let seen = now.saturating_sub(self.command.1);
        let last_word = run.farewell.is_some() || self.shared.silenced() || self.debt.is_open();
        if seen > SILENCE_NS && !last_word {
            return None;
        }
        // All of this process may have stood still between the servo's command and this look.
        let age = seen.max(now.saturating_sub(command.at_ns));
        if age > HOLD_NS {
            self.shared.stats.expired.fetch_add(1, Relaxed);
        }
        let current = command.life == self.shared.life() && self.shared.lifecycle() == Lifecycle::Ready;
        let wanted = current && age <= HOLD_NS && !last_word;
        Some(if wanted { command } else { Command::ZERO })
    }
}
