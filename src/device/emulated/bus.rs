//! A USB bus as seen by a driver: frames of 1 ms, one transfer a frame and direction, stalls, damage, unplugging.
//!
//! Time comes from the caller. Frames need not be exactly 1 ms of the host's clock: host controller and processor have
//! crystals of their own.

use crate::device::io::link::{Connector, LONGEST, Link, LinkFault, OpenFault};
use crate::device::wire::ftdi::Control;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Time from the beginning of a frame until its transfers are known at the host, ns.
pub const TRANSFER_NS: u64 = 60_000;
/// Transfers that the host keeps when nobody takes them: hidraw has a ring of 64 places of which one stays free, and what comes then is lost
/// (`hidraw_report_event` in drivers/hid/hidraw.c).
const KEPT: usize = 63;

/// The device's side.
pub trait Gadget: Send {
    /// A frame begins: timers, physics.
    fn frame(&mut self, now_ns: u64);
    /// An OUT transfer has arrived.
    fn output(&mut self, now_ns: u64, bytes: &[u8]);
    /// The host asks for data; the length, or `None` for "nothing yet".
    fn input(&mut self, now_ns: u64, buffer: &mut [u8; LONGEST]) -> Option<usize>;
    /// A vendor control request: bRequest, wValue.
    fn control(&mut self, now_ns: u64, request: u8, value: u16);
    /// It was plugged in.
    fn power_on(&mut self, now_ns: u64);
    /// It was unplugged.
    fn power_off(&mut self, now_ns: u64);
}

/// What can happen to an IN transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// It never arrives.
    Lost,
    /// One byte is wrong.
    Garbled,
    /// It arrives twice.
    Doubled,
    /// Its end is missing.
    Short,
    /// Something hangs on to it.
    Long,
    /// It arrives three frames later.
    Late,
}

/// All kinds.
pub const DAMAGES: [Damage; 6] =
    [Damage::Lost, Damage::Garbled, Damage::Doubled, Damage::Short, Damage::Long, Damage::Late];

struct Transfer {
    at_ns: u64,
    bytes: [u8; LONGEST],
    len: usize,
}

/// Bus and device. The host's side is [`Plugged`].
pub struct Bus<G> {
    /// The device.
    pub gadget: G,
    frame_ns: f64,
    start_ns: f64,
    frames: u64,
    /// Frames in which nothing moves: beginning and end, ns.
    stalls: Vec<(u64, u64)>,
    damage: Vec<Damage>,
    /// Share of IN transfers that are damaged.
    damaged: f64,
    rng: Pcg64Mcg,
    out: Option<Transfer>,
    arrived: VecDeque<Transfer>,
    plugged: bool,
    /// OUT transfers are refused: so many more of them, or all.
    refuses: u64,
    numbered: bool,
    opened: u64,
    buffer: [u8; LONGEST],
}

impl<G: Gadget> Bus<G> {
    /// A bus whose frames are `ppm` longer than the host's milliseconds and begin `phase_ns` after its start. `numbered`: the
    /// host's kernel takes a report number off the front of what is sent (HID).
    pub fn new(gadget: G, ppm: f64, phase_ns: u64, numbered: bool) -> Self {
        let mut bus = Self {
            gadget,
            frame_ns: 1e6 * (1.0 + ppm * 1e-6),
            start_ns: phase_ns as f64,
            frames: 0,
            stalls: Vec::new(),
            damage: Vec::new(),
            damaged: 0.0,
            rng: Pcg64Mcg::seed_from_u64(1),
            out: None,
            arrived: VecDeque::with_capacity(KEPT),
            plugged: true,
            refuses: 0,
            numbered,
            opened: 0,
            buffer: [0; LONGEST],
        };
        bus.gadget.power_on(0);
        bus
    }

    /// Nothing moves between these times, ns.
    pub fn stall(&mut self, from_ns: u64, to_ns: u64) {
        self.stalls.push((from_ns, to_ns));
    }

    /// A share of the IN transfers is damaged from now on, in these ways.
    pub fn damage(&mut self, share: f64, kinds: &[Damage], seed: u64) {
        self.damaged = share;
        self.damage = kinds.to_vec();
        self.rng = Pcg64Mcg::seed_from_u64(seed);
    }

    /// OUT transfers fail from now on, or work again.
    pub fn refuse(&mut self, on: bool) {
        self.refuses = if on { u64::MAX } else { 0 };
    }

    /// The next OUT transfer fails.
    pub fn refuse_once(&mut self) {
        self.refuses = 1;
    }

    /// Pulls the plug.
    pub fn unplug(&mut self, now_ns: u64) {
        self.advance(now_ns);
        self.plugged = false;
        self.out = None;
        self.gadget.power_off(now_ns);
    }

    /// Plugs it in.
    pub fn plug(&mut self, now_ns: u64) {
        self.advance(now_ns);
        self.arrived.clear();
        self.out = None;
        self.plugged = true;
        self.gadget.power_on(now_ns);
    }

    /// Times it was opened.
    pub fn opened(&self) -> u64 {
        self.opened
    }

    /// Beginning of frame `n`, ns.
    fn frame_at(&self, n: u64) -> u64 {
        (self.start_ns + n as f64 * self.frame_ns) as u64
    }

    /// When something may be known at the host next, after `now_ns`.
    pub fn next_event(&self, now_ns: u64) -> u64 {
        let mut n =
            ((now_ns as f64 - self.start_ns - TRANSFER_NS as f64) / self.frame_ns).floor().max(0.0) as u64;
        while self.frame_at(n) + TRANSFER_NS <= now_ns {
            n += 1;
        }
        self.frame_at(n) + TRANSFER_NS
    }

    /// Lets frames pass.
    pub fn advance(&mut self, now_ns: u64) {
        while self.frame_at(self.frames) <= now_ns {
            let at = self.frame_at(self.frames);
            self.frames += 1;
            if self.plugged {
                self.gadget.frame(at);
                if !self.stalls.iter().any(|(from, to)| (*from..*to).contains(&at)) {
                    self.transfers(at);
                }
            }
        }
    }

    fn transfers(&mut self, at: u64) {
        if let Some(len) = self.gadget.input(at, &mut self.buffer) {
            self.deliver(at, len);
        }
        if let Some(out) = self.out.as_mut().filter(|o| o.at_ns == u64::MAX) {
            out.at_ns = at + TRANSFER_NS;
            let bytes = &out.bytes[..out.len];
            let bytes = if self.numbered { bytes.get(1..).unwrap_or(&[]) } else { bytes };
            self.gadget.output(at + TRANSFER_NS, bytes);
        }
    }

    fn keep(&mut self, transfer: Transfer) {
        if self.arrived.len() < KEPT {
            self.arrived.push_back(transfer);
        }
    }

    fn deliver(&mut self, at: u64, len: usize) {
        let (mut transfer, mut twice) =
            (Transfer { at_ns: at + TRANSFER_NS, bytes: self.buffer, len }, false);
        let dice = (self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        if dice < self.damaged && !self.damage.is_empty() {
            let n = self.rng.next_u64() as usize;
            match self.damage[n % self.damage.len()] {
                Damage::Lost => return,
                Damage::Garbled if len > 0 => transfer.bytes[(n >> 8) % len] ^= 1 << (n >> 20 & 7),
                Damage::Garbled => {}
                Damage::Doubled => twice = true,
                Damage::Short => transfer.len = (n >> 8) % (len + 1),
                Damage::Long => transfer.len = (len + 1 + (n >> 8) % 7).min(LONGEST),
                Damage::Late => transfer.at_ns += 3_000_000,
            }
        }
        if twice {
            self.keep(Transfer { ..transfer });
        }
        self.keep(transfer);
    }
}

/// The host's side of a bus: what tests hold, and where links come from.
pub struct Plugged<G> {
    bus: Arc<Mutex<Bus<G>>>,
    /// Waiting sleeps; else time is somebody else's.
    real: bool,
}

impl<G> Clone for Plugged<G> {
    fn clone(&self) -> Self {
        Self { bus: self.bus.clone(), real: self.real }
    }
}

impl<G: Gadget> Plugged<G> {
    /// A bus on a virtual clock.
    pub fn new(bus: Bus<G>) -> Self {
        Self { bus: Arc::new(Mutex::new(bus)), real: false }
    }

    /// A bus on the machine's clock, which begins now: its frames go on from `now_ns`.
    pub fn real(mut bus: Bus<G>, now_ns: u64) -> Self {
        bus.start_ns += now_ns as f64;
        Self { bus: Arc::new(Mutex::new(bus)), real: true }
    }

    /// The bus and its device.
    pub fn bus(&self) -> MutexGuard<'_, Bus<G>> {
        self.bus.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<G: Gadget + 'static> Connector for Plugged<G> {
    fn find(&mut self, now_ns: u64) -> Result<(), OpenFault> {
        let mut bus = self.bus();
        bus.advance(now_ns);
        if bus.plugged { Ok(()) } else { Err(OpenFault::NotThere) }
    }

    fn open(&mut self, now_ns: u64) -> Result<Box<dyn Link>, OpenFault> {
        let mut bus = self.bus();
        bus.advance(now_ns);
        if !bus.plugged {
            return Err(OpenFault::NotThere);
        }
        bus.opened += 1;
        bus.arrived.clear();
        bus.out = None;
        drop(bus);
        Ok(Box::new(self.clone()))
    }
}

impl<G: Gadget> Link for Plugged<G> {
    fn send(&mut self, now_ns: u64, bytes: &[u8]) -> Result<(), LinkFault> {
        let mut bus = self.bus();
        bus.advance(now_ns);
        if !bus.plugged {
            return Err(LinkFault::Gone);
        }
        if bus.refuses > 0 || bytes.len() > LONGEST {
            bus.refuses = bus.refuses.saturating_sub(1);
            return Err(LinkFault::Failed);
        }
        let mut out = Transfer { at_ns: u64::MAX, bytes: [0; LONGEST], len: bytes.len() };
        out.bytes[..bytes.len()].copy_from_slice(bytes);
        bus.out = Some(out);
        Ok(())
    }

    fn sent(&mut self, now_ns: u64) -> Result<bool, LinkFault> {
        let mut bus = self.bus();
        bus.advance(now_ns);
        if !bus.plugged {
            return Err(LinkFault::Gone);
        }
        let done = bus.out.as_ref().is_none_or(|o| o.at_ns <= now_ns);
        if done {
            bus.out = None;
        }
        Ok(done)
    }

    fn receive(
        &mut self,
        now_ns: u64,
        buffer: &mut [u8; LONGEST],
    ) -> Result<Option<(usize, u64)>, LinkFault> {
        let mut bus = self.bus();
        bus.advance(now_ns);
        if bus.arrived.front().is_some_and(|t| t.at_ns <= now_ns)
            && let Some(transfer) = bus.arrived.pop_front()
        {
            *buffer = transfer.bytes;
            return Ok(Some((transfer.len, transfer.at_ns)));
        }
        // What had arrived before is taken first.
        if bus.plugged { Ok(None) } else { Err(LinkFault::Gone) }
    }

    fn control(&mut self, now_ns: u64, request: Control) -> Result<(), LinkFault> {
        let mut bus = self.bus();
        bus.advance(now_ns);
        if !bus.plugged {
            return Err(LinkFault::Gone);
        }
        let (request, value) = request.setup();
        bus.gadget.control(now_ns, request, value);
        Ok(())
    }

    fn wait(&mut self, until_ns: u64) {
        if !self.real {
            return;
        }
        let now = crate::device::io::thread::now_ns();
        let until = until_ns.min(self.bus().next_event(now));
        std::thread::sleep(std::time::Duration::from_nanos(until.saturating_sub(now)));
    }
}
