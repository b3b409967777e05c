//! How a device starts when something is in the way: no rights yet, a bus that stands still, counters that take no preset.

use super::*;
use crate::device::io::link::{Link, OpenFault};
use crate::device::io::runner::{MUTE, Runner};
use crate::device::io::shared::REFUSED;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const CLOSED: &str = "the system does not let this user open the node";

/// A device whose node may be opened only from some time on, as before udev has given it to its group.
struct NotYet {
    inner: Plugged<emulated::falcon::Falcon>,
    opens_ns: u64,
    tries: Arc<AtomicU64>,
    told: bool,
}

impl Connector for NotYet {
    fn find(&mut self, now_ns: u64) -> Result<(), OpenFault> {
        self.inner.find(now_ns)
    }

    fn open(&mut self, now_ns: u64) -> Result<Box<dyn Link>, OpenFault> {
        self.tries.fetch_add(1, Relaxed);
        if now_ns < self.opens_ns { Err(OpenFault::Trouble(CLOSED.into())) } else { self.inner.open(now_ns) }
    }

    fn is_told(&self) -> bool {
        self.told
    }
}

/// It is refused and tried again, not all the time: it opens within two seconds of getting its rights even where nobody tells of that, within a
/// quarter of one where nobody ever tells.
#[test]
fn a_node_that_may_not_be_opened_yet_is_opened_when_it_may() {
    for told in [false, true] {
        let longest = if told { 2_000 } else { 250 } + 20;
        for closed_ms in [1, 60, 700, 1_900] {
            let tries = Arc::new(AtomicU64::new(0));
            let inner = Plugged::new(Bus::new(counting_falcon(), 0.0, 0, false));
            let connector =
                NotYet { inner: inner.clone(), opens_ns: closed_ms * MS, tries: tries.clone(), told };
            let shared = Arc::new(Shared::default());
            let port = Box::new(driver::falcon::Falcon::new(None));
            let mut runner = Runner::new(Box::new(connector), port, shared.clone());
            let mut now = 0;
            while inner.bus().opened() == 0 {
                let wake = runner.step(now).expect("goes on");
                if tries.load(Relaxed) > 0 && inner.bus().opened() == 0 {
                    assert_eq!((shared.lifecycle(), shared.trouble().as_str()), (Lifecycle::Absent, CLOSED));
                }
                now = wake.max(now + 1);
                assert!(now < (closed_ms + longest) * MS, "told {told}, closed for {closed_ms} ms");
            }
            assert_eq!(shared.trouble(), "", "what was in the way is so no more");
            let most = 2 + closed_ms.div_ceil(250);
            assert!(tries.load(Relaxed) <= most, "{} tries in {closed_ms} ms", tries.load(Relaxed));
            while shared.lifecycle() != Lifecycle::Ready {
                now = runner.step(now).expect("goes on").clamp(now + 1, now + MS / 4);
                assert!(now < 10_000 * MS, "{}", shared.trouble());
            }
        }
    }
}

/// Stalls beyond the half second after which a device counts as mute: it is looked for again, and never said to lack its firmware, which the user could not
/// mend; it runs soon after the bus does.
#[test]
fn a_falcon_whose_bus_stands_still_is_not_said_to_lack_its_firmware() {
    for still in [300, 620, 760, 900, 1_300, 2_000, 6_500] {
        let mut device = falcon_driver(Bus::new(counting_falcon(), 0.0, 0, false));
        assert!(device.until_ready(1000 * MS));
        let shared = device.shared().clone();
        let begin = (device.now_ns() / MS + 1) * MS;
        device.plugged().bus().stall(begin, begin + still * MS);
        let (mut told, opened) = (BTreeSet::new(), device.plugged().bus().opened());
        for k in 0..still {
            let now = begin + k * MS;
            device.advance(now);
            shared.put_command(&Command { at_ns: now, life: shared.life(), ..Command::ZERO });
            assert_ne!(shared.lifecycle(), Lifecycle::Fault, "{still} ms, after {k}: {}", shared.told());
            told.insert(shared.told());
        }
        let known = ["", MUTE];
        assert!(told.iter().all(|text| known.contains(&text.as_str())), "{still} ms: {told:?}");
        // It is opened again when it counts as mute, and each time that was in vain.
        let again = device.plugged().bus().opened() - opened;
        assert!((still / 800..=still / 500).contains(&again), "{still} ms: opened {again} times");
        assert!(told.contains(MUTE) || still < 1_100, "{still} ms");
        assert!(device.until_ready(600 * MS), "{still} ms: {}", shared.trouble());
    }
}

/// The I/O side gets no processor for a while, in whatever it does: that is no silence of the device's, which is not given up, opened anew or without its
/// frame for it. One that is silent is given up all the same, however seldom this side gets to look.
#[test]
fn a_device_is_not_mute_because_nobody_looked() {
    let begin = |plugged: &Plugged<emulated::falcon::Falcon>| {
        let shared = Arc::new(Shared::default());
        let port = Box::new(driver::falcon::Falcon::new(None));
        (Runner::new(Box::new(plugged.clone()), port, shared.clone()), shared)
    };
    // In steps of a quarter of a millisecond, with a command in each millisecond.
    let go = |runner: &mut Runner, shared: &Shared, from: u64, steps: u64| {
        for k in 0..steps {
            let now = from + k * MS / 4;
            runner.step(now);
            if k % 4 == 0 {
                shared.put_command(&Command { at_ns: now, life: shared.life(), ..Command::ZERO });
            }
        }
        from + steps * MS / 4
    };
    for stands in [300, 620, 3_000] {
        for phase in 0..8 {
            let plugged = Plugged::new(Bus::new(counting_falcon(), 0.0, 0, false));
            let (mut runner, shared) = begin(&plugged);
            let mut now = go(&mut runner, &shared, 0, 2_000 + phase);
            assert_eq!(shared.lifecycle(), Lifecycle::Ready);
            let life = shared.life();
            for _ in 0..3 {
                now = go(&mut runner, &shared, now + stands * MS, 400);
                let seen = (shared.lifecycle(), plugged.bus().opened(), shared.life());
                assert_eq!(seen, (Lifecycle::Ready, 1, life), "{stands} ms, {phase}: {}", shared.told());
            }
        }
    }
    // Seldom: a step in 300 ms.
    let plugged = Plugged::new(Bus::new(counting_falcon(), 0.0, 0, false));
    let (mut runner, shared) = begin(&plugged);
    let now = go(&mut runner, &shared, 0, 2_000);
    plugged.bus().stall(now, u64::MAX);
    let looks = (0..20).position(|k| {
        runner.step(now + k * 300 * MS);
        shared.put_command(&Command { at_ns: now + k * 300 * MS, life: shared.life(), ..Command::ZERO });
        shared.told() == MUTE
    });
    assert!(looks.is_some_and(|k| (5..=7).contains(&k)), "{looks:?}");
}

/// The counters do not take what they are set to: somebody is told, and it is not asked for ever.
#[test]
fn a_calibration_in_vain_is_told() {
    let mut gadget = counting_hid();
    gadget.counts_samples = false;
    gadget.ignores_presets = true;
    let profile = Registry::builtin().profile("woodenhaptics-v2015").expect("shipped");
    let port = Box::new(driver::hid_haptic::HidHaptic::new(Layout::Padded, [5000, -5000, 5000]));
    let mut device = Stepped::new(profile, port, Plugged::new(Bus::new(gadget, 0.0, 0, true)));
    device.advance(50 * MS);
    let shared = device.shared().clone();
    assert_eq!((shared.lifecycle(), shared.told().as_str()), (Lifecycle::Uncalibrated, ""));
    for round in 1..3 {
        let now = device.now_ns();
        shared.ask_calibration();
        device.advance(now + 20 * MS);
        assert_eq!(shared.told(), "", "it is being tried");
        device.advance(now + 500 * MS);
        let presets = device.plugged().bus().gadget.presets;
        assert_eq!((shared.trouble().as_str(), presets), (REFUSED, 5 * round));
        assert_eq!(shared.lifecycle(), Lifecycle::Uncalibrated);
    }
    device.plugged().bus().gadget.ignores_presets = false;
    shared.ask_calibration();
    assert!(device.until_ready(500 * MS), "{}", shared.trouble());
    assert_eq!(shared.trouble(), "");
}
