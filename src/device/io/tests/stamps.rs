//! The time of a reading, where transfers are seen late: a thread wakes after the event.

use super::*;
use crate::device::io::link::{Link, LinkFault, OpenFault};
use crate::device::io::runner::Runner;
use crate::device::wire::ftdi::Control;

/// Every other transfer is seen so late, ns.
const LATE: u64 = 400_000;

/// A connector of such links.
struct LateConnector<G: Gadget + 'static>(Plugged<G>);

struct LateLink {
    inner: Box<dyn Link>,
    waits: Option<(usize, [u8; LONGEST], u64)>,
    transfers: u64,
}

impl<G: Gadget + 'static> Connector for LateConnector<G> {
    fn find(&mut self, now_ns: u64) -> Result<(), OpenFault> {
        self.0.find(now_ns)
    }
    fn open(&mut self, now_ns: u64) -> Result<Box<dyn Link>, OpenFault> {
        Ok(Box::new(LateLink { inner: self.0.open(now_ns)?, waits: None, transfers: 0 }))
    }
}

impl Link for LateLink {
    fn send(&mut self, now_ns: u64, bytes: &[u8]) -> Result<(), LinkFault> {
        self.inner.send(now_ns, bytes)
    }
    fn sent(&mut self, now_ns: u64) -> Result<bool, LinkFault> {
        self.inner.sent(now_ns)
    }
    fn receive(
        &mut self,
        now_ns: u64,
        buffer: &mut [u8; LONGEST],
    ) -> Result<Option<(usize, u64)>, LinkFault> {
        if self.waits.is_none()
            && let Some((len, at)) = self.inner.receive(now_ns, buffer)?
        {
            self.transfers += 1;
            let late = if self.transfers.is_multiple_of(2) { LATE } else { 0 };
            self.waits = Some((len, *buffer, at + late));
        }
        Ok(match self.waits {
            Some((len, bytes, seen)) if seen <= now_ns => {
                self.waits = None;
                *buffer = bytes;
                Some((len, seen))
            }
            _ => None,
        })
    }
    fn control(&mut self, now_ns: u64, request: Control) -> Result<(), LinkFault> {
        self.inner.control(now_ns, request)
    }
    fn product(&self) -> u16 {
        self.inner.product()
    }
    fn wait(&mut self, until_ns: u64) {
        self.inner.wait(until_ns);
    }
}

/// From reading to reading as much time passes as passed between the device's own samples: truth is the emulator's note.
fn check<G: Witness>(name: &str, ppm: f64, plugged: Plugged<G>, port: Box<dyn Port>) {
    let shared = Arc::new(Shared::default());
    let mut runner = Runner::new(Box::new(LateConnector(plugged.clone())), port, shared.clone());
    shared.ask_calibration();
    let mut index = Index { last: 0 };
    let (mut last, mut worst, mut readings, mut seq) = (None, 0, 0, 0);
    for now in (0..20_000 * MS).step_by(20_000) {
        plugged.bus().advance(now);
        runner.step(now);
        let Some(reading) = shared.reading().filter(|r| r.seq != seq) else { continue };
        seq = reading.seq;
        let sensed = index.of(reading.counts[0]);
        let bus = plugged.bus();
        let Some(&sensed) = bus.gadget.sampled().get(sensed) else { continue };
        if now > 2000 * MS
            && let Some((before, stamp)) = last
        {
            let (truth, told) = (sensed - before, reading.time_ns as i64 - stamp as i64);
            worst = worst.max((told - truth as i64).abs());
            readings += 1;
        }
        last = Some((sensed, reading.time_ns));
    }
    println!("{name} {ppm:+} ppm: {readings} readings, off by {} us at most", worst / 1000);
    assert!(readings > 15_000, "{name}: {readings}");
    assert!(worst < 60_000, "{name} {ppm} ppm: off by {worst} ns in a frame");
}

#[test]
fn replies_that_are_seen_late_have_the_time_of_their_frame() {
    for ppm in [-200.0, 0.0, 200.0] {
        let bus = Bus::new(counting_falcon(), ppm, 123_456, false);
        check("Falcon", ppm, Plugged::new(bus), Box::new(driver::falcon::Falcon::new(None)));
        check("HID haptic", ppm, Plugged::new(Bus::new(counting_hid(), ppm, 123_456, true)), hid_port());
    }
}
