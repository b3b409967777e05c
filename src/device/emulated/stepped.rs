//! A driver over an emulated device on the servo's own clock: reading and writing let the I/O side's time pass up to then. Two
//! runs with the same calls give the same bits.

use super::bus::{Gadget, Plugged};
use crate::device::io::front::Front;
use crate::device::io::port::Port;
use crate::device::io::runner::Runner;
use crate::device::io::shared::Shared;
use crate::device::profile::Profile;
use crate::device::{Accepted, Device, DeviceError, IoMode, Lifecycle, ReadFault, Sample, WriteFault};
use crate::geometry::pose::{Twist, Wrench};
use std::sync::Arc;

/// Time for a calibration by the host, ns.
const CALIBRATION_NS: u64 = 2_000_000_000;

/// Front, runner and bus in one thread.
pub struct Stepped<G: Gadget> {
    front: Front,
    runner: Runner,
    plugged: Plugged<G>,
    now_ns: u64,
    wake_ns: u64,
}

impl<G: Gadget + 'static> Stepped<G> {
    /// A driver of this port on this bus.
    pub fn new(profile: Arc<Profile>, port: Box<dyn Port>, plugged: Plugged<G>) -> Self {
        let shared = Arc::new(Shared::default());
        let runner = Runner::new(Box::new(plugged.clone()), port, shared.clone());
        Self { front: Front::new(profile, shared, None), runner, plugged, now_ns: 0, wake_ns: 0 }
    }

    /// The bus and its device.
    pub fn plugged(&self) -> &Plugged<G> {
        &self.plugged
    }

    /// State and counters of the I/O.
    pub fn shared(&self) -> &Arc<Shared> {
        self.front.shared()
    }

    /// Lets time pass up to `to_ns`.
    pub fn advance(&mut self, to_ns: u64) {
        loop {
            let at = self.wake_ns.max(self.now_ns + 1).min(self.plugged.bus().next_event(self.now_ns));
            if at > to_ns {
                break;
            }
            self.now_ns = at;
            match self.runner.step(at) {
                Some(wake) => self.wake_ns = wake,
                None => self.wake_ns = u64::MAX,
            }
        }
        self.now_ns = self.now_ns.max(to_ns);
        self.plugged.bus().advance(to_ns);
    }

    /// Waits for `Ready` for at most so long; true when it came.
    pub fn until_ready(&mut self, longest_ns: u64) -> bool {
        let end = self.now_ns + longest_ns;
        while self.front.lifecycle() != Lifecycle::Ready && self.now_ns < end {
            self.advance(self.now_ns + 1_000_000);
        }
        self.front.lifecycle() == Lifecycle::Ready
    }

    /// Present, ns.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }
}

impl<G: Gadget + 'static> Device for Stepped<G> {
    fn profile(&self) -> &Arc<Profile> {
        self.front.profile()
    }

    fn lifecycle(&self) -> Lifecycle {
        self.front.lifecycle()
    }

    fn io_mode(&self) -> IoMode {
        self.front.io_mode()
    }

    fn calibrate(&mut self) -> Result<(), DeviceError> {
        let first = self.front.calibrate();
        if first.is_err() && !self.until_ready(CALIBRATION_NS) {
            return first;
        }
        Ok(())
    }

    fn read(&mut self, now_ns: u64) -> Result<Sample, ReadFault> {
        self.advance(now_ns);
        self.front.read(now_ns)
    }

    fn write(&mut self, now_ns: u64, wrench: &Wrench) -> Result<Accepted, WriteFault> {
        self.advance(now_ns);
        self.front.write(now_ns, wrench)
    }

    fn next_sample_ns(&self, now_ns: u64) -> Option<u64> {
        self.front.next_sample_ns(now_ns)
    }

    fn delay_ns(&self) -> Option<u64> {
        self.front.delay_ns()
    }

    fn rate(&self) -> Option<Twist> {
        self.front.rate()
    }

    fn io(&self) -> Option<Arc<Shared>> {
        self.front.io()
    }

    fn zero(&mut self, now_ns: u64) {
        self.advance(now_ns);
        self.front.zero(now_ns);
    }
}

impl<G: Gadget> Drop for Stepped<G> {
    fn drop(&mut self) {
        // As the I/O thread does: a last zero, within its time.
        self.front.shared().silence();
        self.front.shared().stop();
        for _ in 0..1000 {
            let at = self.wake_ns.max(self.now_ns + 1).min(self.plugged.bus().next_event(self.now_ns));
            self.now_ns = at;
            match self.runner.step(at) {
                Some(wake) => self.wake_ns = wake,
                None => break,
            }
        }
    }
}
