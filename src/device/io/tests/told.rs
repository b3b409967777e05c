//! Devices that come when somebody tells of them and when nobody does, and those that go whatever the system calls it.

use super::*;
use crate::device::io::link::{Link, LinkFault, OpenFault};
use crate::device::io::runner::{NOT_BACK, NOT_PLUGGED_IN, Runner};
use crate::device::wire::ftdi::Control;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// A bus where nothing is, or a device that breaks as soon as it is open; events as the test wants them.
#[derive(Clone, Default)]
struct Bus(Arc<Inside>);

#[derive(Default)]
struct Inside {
    looks: AtomicU64,
    there: AtomicBool,
    tells: AtomicBool,
    came: AtomicBool,
    /// Which fault ends the link; the first by a read, the second by a write.
    breaks: [AtomicBool; 2],
    fails: AtomicBool,
    /// It answers with bytes that are no report.
    babbles: AtomicBool,
}

impl Connector for Bus {
    fn find(&mut self, _now_ns: u64) -> Result<(), OpenFault> {
        self.0.looks.fetch_add(1, Relaxed);
        if self.0.there.load(Relaxed) { Ok(()) } else { Err(OpenFault::NotThere) }
    }

    fn open(&mut self, _now_ns: u64) -> Result<Box<dyn Link>, OpenFault> {
        Ok(Box::new(self.clone()))
    }

    fn is_told(&self) -> bool {
        self.0.tells.load(Relaxed)
    }

    fn wait(&mut self, _until_ns: u64) -> Option<bool> {
        self.is_told().then(|| self.0.came.load(Relaxed))
    }
}

impl Bus {
    fn broken(&self, way: usize) -> Result<(), LinkFault> {
        let fault = if self.0.fails.load(Relaxed) { LinkFault::Failed } else { LinkFault::Gone };
        if self.0.breaks[way].load(Relaxed) { Err(fault) } else { Ok(()) }
    }
}

impl Link for Bus {
    fn send(&mut self, _now_ns: u64, _bytes: &[u8]) -> Result<(), LinkFault> {
        self.broken(1)
    }

    fn sent(&mut self, _now_ns: u64) -> Result<bool, LinkFault> {
        self.broken(1).map(|()| true)
    }

    fn receive(&mut self, now: u64, _buffer: &mut [u8; LONGEST]) -> Result<Option<(usize, u64)>, LinkFault> {
        self.broken(0).map(|()| self.0.babbles.load(Relaxed).then_some((8, now)))
    }

    fn control(&mut self, _now_ns: u64, _request: Control) -> Result<(), LinkFault> {
        Ok(())
    }

    fn wait(&mut self, _until_ns: u64) {}
}

fn runner(bus: &Bus) -> (Runner, Arc<Shared>) {
    let shared = Arc::new(Shared::default());
    let port = Box::new(driver::hid_haptic::HidHaptic::new(Layout::Padded, [0; 3]));
    (Runner::new(Box::new(bus.clone()), port, shared.clone()), shared)
}

/// So many looks in `seconds`; the thread wakes every 50 ms at the latest, and at once when somebody tells.
fn looks(bus: &Bus, runner: &mut Runner, from_ns: u64, seconds: u64) -> u64 {
    let before = bus.0.looks.load(Relaxed);
    let (mut now, end) = (from_ns, from_ns + seconds * 1000 * MS);
    while now < end {
        let wake = runner.step(now).expect("goes on");
        let told = runner.wait(wake) && bus.0.came.load(Relaxed);
        now = if told { now + MS } else { wake.clamp(now + 1, now + 50 * MS) };
    }
    bus.0.looks.load(Relaxed) - before
}

#[test]
fn a_device_is_looked_for_when_it_is_told_and_now_and_then() {
    let bus = Bus::default();
    let (mut runner, shared) = runner(&bus);
    let polled = looks(&bus, &mut runner, 0, 10);
    assert!((36..=41).contains(&polled), "nobody tells: four times a second: {polled}");
    assert_eq!(shared.trouble(), NOT_PLUGGED_IN);
    bus.0.tells.store(true, Relaxed);
    let told = looks(&bus, &mut runner, 10_000 * MS, 20);
    assert!((9..=12).contains(&told), "somebody would tell: every two seconds: {told}");
    // It comes: it is open within two of the thread's moves, long before the next look that was planned.
    let now = 30_000 * MS;
    runner.step(now);
    bus.0.there.store(true, Relaxed);
    runner.step(now + MS);
    assert_eq!(shared.lifecycle(), Lifecycle::Absent);
    bus.0.came.store(true, Relaxed);
    assert!(runner.wait(now + 1000 * MS));
    for k in 50..53 {
        runner.step(now + k * MS);
    }
    assert_ne!(shared.lifecycle(), Lifecycle::Absent, "{}", shared.trouble());
}

#[test]
fn a_flood_of_events_is_looked_at_twenty_times_a_second() {
    let bus = Bus::default();
    let (mut runner, _) = runner(&bus);
    bus.0.tells.store(true, Relaxed);
    bus.0.came.store(true, Relaxed);
    let most = looks(&bus, &mut runner, 0, 10);
    assert!((150..=202).contains(&most), "{most}");
}

/// The source of events breaks: it is looked for now and then.
#[test]
fn who_is_told_no_more_looks_as_before() {
    let bus = Bus::default();
    let (mut runner, _) = runner(&bus);
    bus.0.tells.store(true, Relaxed);
    looks(&bus, &mut runner, 0, 10);
    bus.0.tells.store(false, Relaxed);
    let polled = looks(&bus, &mut runner, 10_000 * MS, 12);
    assert!((36..=49).contains(&polled), "{polled}");
}

/// However the system tells that a device has gone, by a read or a write, as gone or as a mere refusal: it is absent at once, and said to
/// have been unplugged once it is not found again.
#[test]
fn a_device_that_goes_is_absent_and_was_unplugged_whatever_the_system_says() {
    for way in 0..2 {
        for fails in [false, true] {
            let bus = Bus::default();
            let (mut runner, shared) = runner(&bus);
            bus.0.there.store(true, Relaxed);
            bus.0.fails.store(fails, Relaxed);
            let mut now = 0;
            for _ in 0..10 {
                now += MS;
                runner.step(now);
            }
            assert_ne!(shared.lifecycle(), Lifecycle::Absent);
            bus.0.there.store(false, Relaxed);
            bus.0.breaks[way].store(true, Relaxed);
            for _ in 0..3 {
                now += MS;
                runner.step(now);
            }
            assert_eq!(shared.lifecycle(), Lifecycle::Absent, "{way} {fails}");
            for _ in 0..300 {
                now += MS;
                runner.step(now);
            }
            assert_eq!((shared.lifecycle(), shared.trouble().as_str()), (Lifecycle::Absent, NOT_BACK));
        }
    }
}

/// A WoodenHaptics of 2016 answers with reports of 8 bytes: that is no silence, and not told as one.
#[test]
fn a_device_that_speaks_another_way_is_told_as_one() {
    for babbles in [false, true] {
        let bus = Bus::default();
        let (mut runner, shared) = runner(&bus);
        bus.0.there.store(true, Relaxed);
        bus.0.babbles.store(babbles, Relaxed);
        let told = (0..1000).find_map(|ms| {
            runner.step(ms * MS);
            Some(shared.told()).filter(|t| t.contains("opened again"))
        });
        assert_eq!(told.expect("given up").contains("does not know"), babbles);
    }
}
