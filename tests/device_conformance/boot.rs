//! The plug of a Falcon is pulled at every transfer from the first question to the first sample of a homed device: while it is asked whether it runs, greeted, loaded
//! with its firmware, started.

use super::drivers::{Asked, MS, Seen, profile, tick};
use super::push;
use hapticd::device::driver;
use hapticd::device::emulated::bus::{Bus, Plugged};
use hapticd::device::emulated::{Stepped, falcon};
use hapticd::device::io::port::Start;
use hapticd::device::simulated::HandScript;
use hapticd::device::{Device, Lifecycle, ReadFault, WriteFault};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Three chunks, the last one short.
const IMAGE: usize = 150;
/// Time between two looks, ns.
const LOOK: u64 = MS / 4;
const NEVER: u64 = u64::MAX;

/// When the plug is pulled.
#[derive(Clone, Copy, Debug, PartialEq)]
enum When {
    /// The transfer is about to be handed over, or has just been taken.
    At,
    /// Half a frame later.
    After,
}

/// Transfers of a start: requests, packets out, packets in.
#[derive(Debug, Default)]
struct Transfers([AtomicU64; 3]);

impl Transfers {
    fn sum(&self) -> u64 {
        self.0.iter().map(|n| n.load(Relaxed)).sum()
    }
}

/// The plug is pulled at transfer `n`. False where the device is ready before there are so many.
fn pulled(n: u64, when: When, transfers: &Arc<Transfers>) -> bool {
    let at = format!("transfer {n}, {when:?}");
    let profile = profile("novint-falcon");
    let image: Vec<u8> = (0..IMAGE).map(|i| (i * 37 % 251) as u8).collect();
    let setup = falcon::Setup { image: Some(image.clone()), homes_after: Some(5 * MS), ..Default::default() };
    let mut gadget = falcon::Falcon::new(&profile, &HandScript::default(), setup).expect("in reach");
    // Nobody moves it, and what it weighs is of no interest.
    gadget.hurry(0);
    let plugged = Plugged::new(Bus::new(gadget, 120.0, 345_678, false));
    let due = Arc::new(AtomicU64::new(NEVER));
    let sees = {
        let (plugged, due, transfers, mut now) = (plugged.clone(), due.clone(), transfers.clone(), 0);
        move |asked: Asked| {
            let kind = match asked {
                Asked::Start(at, next) => {
                    now = at;
                    match next {
                        Start::Control(_) => 0,
                        Start::Send => 1,
                        _ => return,
                    }
                }
                Asked::Prepare => 1,
                Asked::Arrived => 2,
            };
            // What comes after it is not counted.
            if due.load(Relaxed) == NEVER {
                if transfers.sum() == n {
                    due.store(now + if when == When::At { 0 } else { MS / 2 }, Relaxed);
                    if when == When::At {
                        plugged.bus().unplug(now);
                    }
                }
                transfers.0[kind].fetch_add(1, Relaxed);
            }
        }
    };
    let port = Seen { port: driver::falcon::Falcon::new(Some(image.into())), sees };
    let mut device = Stepped::new(profile, Box::new(port), plugged.clone());
    while due.load(Relaxed) > device.now_ns() {
        if device.lifecycle() == Lifecycle::Ready {
            return false;
        }
        assert!(device.now_ns() < 5_000 * MS, "{at}: {}", device.shared().trouble());
        device.advance(device.now_ns() + LOOK);
    }
    if when == When::After {
        plugged.bus().unplug(device.now_ns());
    }
    let gone = device.now_ns();
    while device.lifecycle() != Lifecycle::Absent {
        assert!(device.now_ns() < gone + 50 * MS, "{at}: not told in 50 ms");
        device.advance(device.now_ns() + LOOK);
    }
    assert_eq!(device.shared().trouble(), "the device was unplugged", "{at}");
    let now = device.now_ns();
    let (now, _) = tick(&mut device, now, 300, &push());
    assert_eq!(device.shared().trouble(), "the device was unplugged and is not back", "{at}");
    assert_eq!((device.read(now), device.write(now, &push())), (Err(ReadFault::Gone), Err(WriteFault::Gone)));
    assert!(plugged.bus().gadget.applied.iter().all(|(_, codes)| *codes == [0; 3]), "{at}");

    // Its firmware went with its power: it is asked, greeted and loaded from the beginning.
    plugged.bus().plug(now);
    assert!(device.until_ready(3_000 * MS), "{at}: {:?} {}", device.lifecycle(), device.shared().trouble());
    assert_eq!(plugged.bus().opened(), 2, "{at}");
    assert_eq!(plugged.bus().gadget.codes(), [0; 3], "{at}: force by itself");
    let now = (device.now_ns() / MS + 1) * MS;
    tick(&mut device, now, 10, &push());
    assert_ne!(plugged.bus().gadget.codes(), [0; 3], "{at}");
    true
}

#[test]
fn unplugged_at_any_transfer_of_its_start_a_falcon_is_told_absent_and_started_anew() {
    for when in [When::At, When::After] {
        let mut n = 0;
        let seen = loop {
            let transfers = Arc::new(Transfers::default());
            if !pulled(n, when, &transfers) {
                break transfers;
            }
            assert_eq!(transfers.sum(), n + 1, "as many transfers, in the same order, as without");
            n += 1;
        };
        println!("{when:?}: {n} transfers, requests, out and in {:?}", seen.0);
        // All of the dialogue's parts: `RUN` twice, `GREET`, `LOAD`; questions, greeting, three chunks; their echoes.
        let [requests, out, into] = [0, 1, 2].map(|k| seen.0[k].load(Relaxed));
        assert!(requests == 6 + 9 + 2 + 6 && out > 5 && into > 5, "{seen:?}");
    }
}
