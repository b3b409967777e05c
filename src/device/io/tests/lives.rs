//! What happens over a device's life: a dead servo, plugs, firmware, damage, calibration, the end.

use super::*;
use crate::device::Emergency;

fn counted(device: &Stepped<emulated::falcon::Falcon>) -> (usize, [i16; 3]) {
    let bus = device.plugged().bus();
    (bus.gadget.applied().len(), bus.gadget.codes())
}

/// The servo dies with force on: zero after 5 ms, silence after 100 ms, by the I/O side's own clock.
#[test]
fn a_dead_servo_s_force_ends() {
    let mut device = falcon_driver(Bus::new(counting_falcon(), 0.0, 0, false));
    assert!(device.until_ready(1000 * MS));
    let shared = device.shared().clone();
    let mut now = device.now_ns() / MS * MS;
    for _ in 0..50 {
        now += MS;
        device.advance(now);
        shared.put_command(&Command { codes: [100, -50, 25], sensed_ns: 0, at_ns: now, life: shared.life() });
    }
    assert_eq!(counted(&device).1, [100, -50, 25]);
    let died = now;
    while counted(&device).1 != [0; 3] {
        now += MS / 4;
        device.advance(now);
        assert!(now - died < 20 * MS, "the force lives on");
    }
    assert!(now - died >= HOLD_NS - 2 * MS && now - died <= HOLD_NS + 3 * MS, "{}", now - died);
    device.advance(died + SILENCE_NS + 5 * MS);
    let (silent, _) = counted(&device);
    device.advance(died + SILENCE_NS + 500 * MS);
    assert_eq!(counted(&device).0, silent, "packets after the silence");
    // The servo comes back: so do the packets, and the device was never given up.
    let starts = device.shared().stats.list()[5].1;
    let lost = device.shared().stats.list()[1].1;
    now = device.now_ns();
    for _ in 0..20 {
        now += MS;
        device.advance(now);
        shared.put_command(&Command { codes: [7, 0, 0], sensed_ns: 0, at_ns: now, life: shared.life() });
    }
    assert_eq!(counted(&device).1, [7, 0, 0]);
    assert_eq!((device.shared().stats.list()[5].1, device.shared().lifecycle()), (starts, Lifecycle::Ready));
    let lost = device.shared().stats.list()[1].1 - lost;
    assert!(lost <= 4, "{lost} readings lost that nobody asked for");
}

/// All of the process stands still right after the servo's command (SIGSTOP, a freezer) and comes to itself seconds later, the I/O side first: by then the
/// device's own watchdog has ended the force, and it must not come back as a kick.
#[test]
fn a_force_that_was_commanded_before_a_freeze_is_not_sent_after_it() {
    for frozen in [HOLD_NS + MS, 300 * MS, 5_000 * MS] {
        let plugged = Plugged::new(Bus::new(counting_falcon(), 0.0, 0, false));
        let shared = Arc::new(Shared::default());
        let port = Box::new(driver::falcon::Falcon::new(None));
        let mut runner = super::super::runner::Runner::new(Box::new(plugged.clone()), port, shared.clone());
        let push = |codes, at_ns| {
            shared.put_command(&Command { codes, sensed_ns: 0, at_ns, life: shared.life() });
        };
        let mut now = 0;
        for k in 0..400 {
            runner.step(now);
            if k % 4 == 0 {
                push([if shared.lifecycle() == Lifecycle::Ready { 100 } else { 0 }, 0, 0], now);
            }
            now += MS / 4;
        }
        assert_eq!(plugged.bus().gadget.codes(), [100, 0, 0]);
        push([777, 0, 0], now);
        now += frozen;
        for _ in 0..40 {
            runner.step(now);
            now += MS / 4;
        }
        let bus = plugged.bus();
        assert!(
            bus.gadget.applied().iter().all(|(_, c)| c[0] != 777),
            "{frozen} ns: the old force came through"
        );
        assert_eq!(bus.gadget.codes(), [0; 3], "{frozen} ns");
        drop(bus);
        // One that is new passes: nothing is shut for good.
        for _ in 0..40 {
            push([50, 0, 0], now);
            runner.step(now);
            now += MS / 4;
        }
        assert_eq!(plugged.bus().gadget.codes(), [50, 0, 0]);
    }
}

/// Whatever the device and however long nobody asked it for anything: only what it was asked for can be lost, in the servo's
/// own sum too.
#[test]
fn nothing_is_lost_in_a_silence() {
    fn check<G: Gadget + 'static>(mut device: Stepped<G>) {
        assert!(device.until_ready(1000 * MS));
        let shared = device.shared().clone();
        let told = |shared: &Shared| (shared.stats.list()[1].1, shared.reading().expect("readings").lost);
        let mut now = device.now_ns() / MS * MS;
        for silence in [150, 400, 700, 3000] {
            let before = told(&shared);
            for _ in 0..50 {
                now += MS;
                device.advance(now);
                shared.put_command(&Command { codes: [0; 3], sensed_ns: 0, at_ns: now, life: shared.life() });
            }
            assert!(told(&shared).0 - before.0 <= 4 && told(&shared).1 - before.1 <= 4, "after {before:?}");
            now += silence * MS;
            device.advance(now);
        }
    }
    check(falcon_driver(Bus::new(counting_falcon(), 0.0, 0, false)));
    check(hid_driver(Bus::new(counting_hid(), 0.0, 0, true)));
}

/// Whatever is pulled out comes back unarmed, and no force of the life before reaches it.
#[test]
fn unplugging_and_plugging_in_begins_a_new_life() {
    let mut device = falcon_driver(Bus::new(
        falcon(emulated::falcon::Setup {
            counts_samples: true,
            homes_after: Some(50 * MS),
            ..Default::default()
        }),
        0.0,
        0,
        false,
    ));
    assert!(device.until_ready(1000 * MS));
    let shared = device.shared().clone();
    for round in 0..5u64 {
        let old = Command { codes: [500, 0, 0], sensed_ns: 0, at_ns: 0, life: shared.life() };
        let mut now = device.now_ns() / MS * MS;
        let push = |device: &mut Stepped<_>, ms: u64, now: &mut u64| {
            for _ in 0..ms {
                *now += MS;
                device.advance(*now);
                shared.put_command(&Command { at_ns: *now, ..old });
            }
        };
        push(&mut device, 10 + round, &mut now);
        assert_eq!(counted(&device).1, [500, 0, 0]);
        let at = now + round * 211_000;
        device.advance(at);
        device.plugged().bus().unplug(at);
        push(&mut device, 5, &mut now);
        assert_eq!(shared.lifecycle(), Lifecycle::Absent, "within 5 ms");
        assert_eq!(shared.trouble(), "the device was unplugged");
        push(&mut device, 300, &mut now);
        device.plugged().bus().plug(now);
        let before = counted(&device).0;
        let mut unhomed = false;
        while shared.lifecycle() != Lifecycle::Ready {
            push(&mut device, 1, &mut now);
            unhomed |= shared.lifecycle() == Lifecycle::Uncalibrated;
        }
        push(&mut device, 50, &mut now);
        assert!(unhomed, "it must be homed again");
        let bus = device.plugged().bus();
        assert!(
            bus.gadget.applied()[before..].iter().all(|(_, c)| *c == [0; 3]),
            "an old force came through"
        );
    }
    assert_eq!((device.shared().stats.list()[6].1, device.plugged().bus().opened()), (5, 6));
}

#[test]
fn a_falcon_without_firmware_is_booted_in_spite_of_its_moods() {
    let image: Vec<u8> = (0..700u32).map(|i| (i * 31 % 251) as u8).collect();
    for seed in 1..6 {
        let setup = emulated::falcon::Setup {
            image: Some(image.clone()),
            flakiness: 0.1,
            seed,
            ..Default::default()
        };
        let bus = Bus::new(falcon(setup), 0.0, 0, false);
        let profile = Registry::builtin().profile("novint-falcon").expect("shipped");
        let port = Box::new(driver::falcon::Falcon::new(Some(image.clone().into())));
        let mut device = Stepped::new(profile, port, Plugged::new(bus));
        assert!(device.until_ready(60_000 * MS), "seed {seed}: {}", device.shared().trouble());
    }
}

#[test]
fn a_falcon_that_cannot_be_booted_says_what_to_do_and_is_tried_again() {
    let setup = emulated::falcon::Setup { image: Some(vec![1; 100]), ..Default::default() };
    let mut device = falcon_driver(Bus::new(falcon(setup), 0.0, 0, false));
    device.advance(1000 * MS);
    assert_eq!(device.shared().lifecycle(), Lifecycle::Fault);
    assert!(device.shared().trouble().contains("device.firmware"));
    let opened = device.plugged().bus().opened();
    device.advance(20_000 * MS);
    assert!((opened + 2..opened + 6).contains(&device.plugged().bus().opened()), "no busy loop");
}

/// Damage costs what it hits and is counted; a reply that is whole is taken. (One wrong bit inside a digit cannot be told:
/// the protocol has no check sum. The servo's own limits on motion stand behind it.)
#[test]
fn damaged_replies_are_counted_and_the_rest_is_read() {
    let mut bus = Bus::new(counting_falcon(), 100.0, 0, false);
    bus.damage(0.1, &[Damage::Short, Damage::Long, Damage::Lost], 3);
    let mut device = falcon_driver(bus);
    assert!(device.until_ready(2000 * MS));
    let shared = device.shared().clone();
    let begin = device.now_ns() / MS + 1;
    let (mut last, mut seen) = (0, 0);
    for k in begin..begin + 5000 {
        device.advance(k * MS);
        let reading = shared.reading().expect("readings");
        if reading.seq != last {
            last = reading.seq;
            seen += 1;
            let taken = device.plugged().bus().gadget.sampled().len() as i32;
            let age = (taken - 1) % 30_000 - reading.counts[0];
            assert!((0..6).contains(&age), "sample {} of {taken}", reading.counts[0]);
        }
        shared.put_command(&Command { codes: [1, 0, 0], sensed_ns: 0, at_ns: k * MS, life: shared.life() });
    }
    let stats: std::collections::HashMap<_, _> = shared.stats.list().into_iter().collect();
    assert!(stats["device_garbled"] > 100, "{stats:?}");
    assert!(stats["device_lost"] > 100, "{stats:?}");
    assert!(seen > 4300, "{seen} of 5000");
}

/// Replies that come three frames late, in a burst with those that they held up: all have come, so none is lost.
#[test]
fn late_replies_are_late_and_not_lost() {
    for share in [0.01, 0.1] {
        let mut bus = Bus::new(counting_falcon(), 0.0, 0, false);
        bus.damage(share, &[Damage::Late], 6);
        let mut device = falcon_driver(bus);
        assert!(device.until_ready(2000 * MS));
        let shared = device.shared().clone();
        let (begin, before) = (device.now_ns() / MS + 1, shared.stats.list());
        for k in begin..begin + 4000 {
            device.advance(k * MS);
            shared.put_command(&Command {
                codes: [1, 0, 0],
                sensed_ns: 0,
                at_ns: k * MS,
                life: shared.life(),
            });
        }
        let stats: std::collections::HashMap<_, _> = shared.stats.list().into_iter().collect();
        assert!(stats["device_late"] > 50, "{stats:?}");
        assert!(stats["device_lost"] - before[1].1 <= 4, "{stats:?}");
        assert!(stats["device_readings"] - before[0].1 >= 3980, "{stats:?}");
    }
}

/// Whoever asks is told what an uncalibrated device wants of its user.
#[test]
fn an_uncalibrated_device_says_what_it_wants() {
    let mut device = falcon_driver(Bus::new(
        falcon(emulated::falcon::Setup { homes_after: Some(300 * MS), ..Default::default() }),
        0.0,
        0,
        false,
    ));
    device.advance(100 * MS);
    assert_eq!(device.shared().lifecycle(), Lifecycle::Uncalibrated);
    assert!(device.shared().trouble().contains("pull the grip out"), "{}", device.shared().trouble());
    assert!(device.until_ready(1000 * MS));
    assert_eq!(device.shared().trouble(), "");
    let mut device = hid_driver(Bus::new(counting_hid(), 0.0, 0, true));
    assert!(device.shared().trouble().contains("press the device's button"), "{}", device.shared().trouble());
    assert!(device.until_ready(1000 * MS));
    assert_eq!(device.shared().trouble(), "");
}

/// A daemon that starts, or `hapticd zero`, asks a Falcon that is homed whether it runs: it stays homed, for the homing bit is in every packet.
#[test]
fn a_homed_falcon_stays_homed_when_it_is_opened_anew() {
    let setup = emulated::falcon::Setup { homes_after: Some(100 * MS), ..Default::default() };
    let plugged = Plugged::new(Bus::new(falcon(setup), 0.0, 0, false));
    let profile = Registry::builtin().profile("novint-falcon").expect("shipped");
    let open = || {
        let port = Box::new(driver::falcon::Falcon::new(None));
        Stepped::new(profile.clone(), port, plugged.clone())
    };
    let mut first = open();
    assert!(first.until_ready(1000 * MS));
    let now = first.now_ns();
    drop(first);
    let mut second = open();
    second.advance(now + 50 * MS);
    assert_eq!(second.lifecycle(), Lifecycle::Ready, "{}", second.shared().trouble());
}

/// Two presets, the second by the device's own button: ready in between, not while it moves its frame.
#[test]
fn the_hid_device_is_calibrated_by_host_and_by_button() {
    let mut device = hid_driver(Bus::new(counting_hid(), 0.0, 0, true));
    assert!(device.until_ready(1000 * MS));
    let life = device.shared().life();
    device.plugged().bus().gadget.button = true;
    let now = device.now_ns();
    device.advance(now + 5 * MS);
    assert_eq!(device.shared().lifecycle(), Lifecycle::Uncalibrated);
    assert_ne!(device.shared().life(), life, "a force for the old frame counts for nothing");
    assert!(device.until_ready(200 * MS));
    assert_eq!(device.plugged().bus().gadget.presets, 2);
    // Held down, it is one press.
    let now = device.now_ns();
    device.advance(now + 500 * MS);
    assert_eq!((device.shared().lifecycle(), device.plugged().bus().gadget.presets), (Lifecycle::Ready, 2));
}

/// The port is never asked for more than its protocol bears, and the end of the device is zero.
#[test]
fn stopping_ends_with_zero_at_the_motors() {
    // The bus stands still from the end on: what the motors have then cannot be known, and is not said to be zero.
    for (at, hangs) in (0..30u64).flat_map(|at| [(at, false), (at, true)]) {
        let (plugged, shared) = {
            let gadget = falcon(emulated::falcon::Setup {
                counts_samples: true,
                hold_ns: u64::MAX,
                ..Default::default()
            });
            let mut device = falcon_driver(Bus::new(gadget, 0.0, 0, false));
            assert!(device.until_ready(1000 * MS));
            let shared = device.shared().clone();
            let mut now = device.now_ns();
            for _ in 0..10 {
                now += MS;
                device.advance(now);
                shared.put_command(&Command {
                    codes: [i32::MAX, i32::MIN, 77],
                    sensed_ns: 0,
                    at_ns: now,
                    life: shared.life(),
                });
            }
            let codes = counted(&device).1;
            assert!(codes[0] == 4095 || codes[0] == 4096, "{codes:?}");
            let now = now + at * MS / 20;
            device.advance(now);
            if hangs {
                device.plugged().bus().stall(now, u64::MAX);
            }
            (device.plugged().clone(), shared)
        };
        assert_eq!(plugged.bus().gadget.codes() == [0; 3], !hangs, "stopped at {at}");
        assert_eq!(shared.unconfirmed(), hangs, "stopped at {at}");
        assert_eq!(Emergency::zero(&*shared, 0), !hangs, "the last word knows no better");
    }
}

/// Asked for while the device was away: where the arm will be when it comes back, nobody said.
#[test]
fn a_calibration_that_was_asked_of_an_absent_device_is_not_made_when_it_comes() {
    let mut gadget = counting_hid();
    gadget.counts_samples = false;
    let mut device = hid_driver(Bus::new(gadget, 0.0, 0, true));
    assert!(device.until_ready(1000 * MS));
    let presets = device.plugged().bus().gadget.presets;
    let now = device.now_ns();
    device.plugged().bus().unplug(now);
    // In the instant in which it goes, and later.
    for wait in [0, 100 * MS] {
        let now = device.now_ns();
        device.advance(now + wait);
        device.shared().ask_calibration();
    }
    let now = device.now_ns();
    device.advance(now + 300 * MS);
    device.plugged().bus().plug(now + 300 * MS);
    assert!(!device.until_ready(1000 * MS));
    assert_eq!(device.shared().lifecycle(), Lifecycle::Uncalibrated);
    assert_eq!(device.plugged().bus().gadget.presets, presets);
    device.shared().ask_calibration();
    assert!(device.until_ready(1000 * MS), "asked again it is made");
}

/// A system that refuses the last packet is no confirmation either; a device that is gone gives no force.
#[test]
fn a_last_zero_that_is_refused_is_not_confirmed() {
    for refused in [true, false] {
        let shared = {
            let mut device = falcon_driver(Bus::new(counting_falcon(), 0.0, 0, false));
            assert!(device.until_ready(1000 * MS));
            let now = device.now_ns();
            match refused {
                true => device.plugged().bus().refuse(true),
                false => device.plugged().bus().unplug(now),
            }
            device.shared().clone()
        };
        assert_eq!(shared.unconfirmed(), refused);
    }
}

#[test]
fn shared_state_starts_without_a_device() {
    let shared = Arc::new(Shared::default());
    assert_eq!(
        (shared.lifecycle(), shared.reading(), shared.trouble()),
        (Lifecycle::Absent, None, String::new())
    );
}
