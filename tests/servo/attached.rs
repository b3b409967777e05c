//! The servo over a driver over an emulated Falcon, on the virtual clock: contact, a plug pulled in contact, and back.

use crate::world::{Bench, MS, floor, norm, object, scene, sphere_tool};
use hapticd::device::Lifecycle;
use hapticd::device::driver;
use hapticd::device::emulated::bus::{Bus, Plugged};
use hapticd::device::emulated::{self, Stepped};
use hapticd::device::io::shared::Shared;
use hapticd::device::profile::Profile;
use hapticd::device::registry::Registry;
use hapticd::device::simulated::HandScript;
use hapticd::geometry::Pose;
use hapticd::servo::handle::{ServoCommand, ServoConfig};
use hapticd::servo::record::{FLAG_STIFFNESS_CAPPED, Fault, ServoState, TickRecord};
use std::sync::Arc;

/// One tick; the states that it goes through are kept.
fn step(bench: &mut Bench, states: &mut Vec<ServoState>) -> TickRecord {
    let r = bench.step();
    if states.last() != Some(&r.state) {
        states.push(r.state);
    }
    r
}

/// A Falcon of this profile whose hand presses its ball into a floor of 1000 N/m from the second second on.
fn falcon(profile: Profile, homes_after: u64) -> (Bench, Plugged<emulated::falcon::Falcon>, Arc<Shared>) {
    let hand = HandScript::parse(
        "hand = 'normal'\n[[keyframe]]\ntime = 0.0\nposition = [0.0, 0.02, 0.0]\n\
         [[keyframe]]\ntime = 1.0\nposition = [0.0, 0.02, 0.0]\n[[keyframe]]\ntime = 1.5\nposition = [0.0, -0.01, 0.0]\n",
    )
    .expect("script");
    let setup = emulated::falcon::Setup { homes_after: Some(homes_after), ..Default::default() };
    let gadget = emulated::falcon::Falcon::new(&profile, &hand, setup).expect("in reach");
    let plugged = Plugged::new(Bus::new(gadget, 200.0, 654_321, false));
    let port = Box::new(driver::falcon::Falcon::new(None));
    let device = Stepped::new(Arc::new(profile), port, plugged.clone());
    let shared = device.shared().clone();
    let mut bench = Bench::new(Box::new(device), ServoConfig::default());
    bench.publish(scene(1, &sphere_tool(0.01), vec![object(1, floor(), Pose::identity(), 1000.0)]));
    (bench, plugged, shared)
}

fn shipped() -> Profile {
    Profile::clone(&Registry::builtin().profile("novint-falcon").expect("shipped"))
}

/// Until it is homed, and armed.
fn arm(bench: &mut Bench, shared: &Shared, states: &mut Vec<ServoState>) {
    while step(bench, states).state != ServoState::Idle {
        assert!(bench.servo.now_ns() < 2000 * MS, "{}", shared.trouble());
    }
    bench.handle.send(ServoCommand::Arm { session: 1 }).expect("room");
    bench.handle.send(ServoCommand::Lease { until_ns: u64::MAX }).expect("room");
}

/// The loop over USB takes two frames, and the profile says so: nothing is lost. One that promised a frame less would have
/// its stiffness lowered to (0.5 + 1)/(0.5 + 2) of what it allows.
#[test]
fn the_measured_delay_lowers_the_stiffness_of_a_device_that_is_slower_than_it_says() {
    for (write_delay, left) in [(1, 1.0), (0, 0.6)] {
        let mut profile = shipped();
        assert_eq!((profile.transport.read_delay, profile.transport.write_delay), (1, 1));
        profile.transport.write_delay = write_delay;
        // What is left of it would bear less than the floor asks for only where the delay counts.
        profile.max_stiffness = 1200.0;
        let (mut bench, _plugged, shared) = falcon(profile, 300 * MS);
        let mut states = Vec::new();
        arm(&mut bench, &shared, &mut states);
        let r = (0..3000).map(|_| step(&mut bench, &mut states)).last().expect("ticks");
        let (delay, part) = bench.handle.counters().loop_delay().expect("known");
        assert!((1_900_000..2_300_000).contains(&delay), "{delay}");
        assert!((part - left).abs() < 0.05, "{part}");
        assert_eq!(r.state, ServoState::Rendering);
        assert!(norm(r.applied_force) > 0.5, "{r:?}");
        assert_eq!(r.flags & FLAG_STIFFNESS_CAPPED != 0, left < 1.0, "{r:?}");
    }
}

#[test]
fn a_falcon_pulled_out_in_contact_comes_back_without_force() {
    let (mut bench, plugged, shared) = falcon(shipped(), 300 * MS);
    let mut states = Vec::new();
    arm(&mut bench, &shared, &mut states);
    let mut pushed = 0;
    let (mut at, before) = (0, shared.stats.list());
    for _ in 0..3000 {
        let r = step(&mut bench, &mut states);
        pushed += u32::from(norm(r.applied_force) > 0.5);
        at = bench.servo.now_ns();
    }
    assert!(pushed > 1000, "{pushed}: {states:?}");
    let figures: std::collections::HashMap<_, _> = shared.stats.list().into_iter().collect();
    assert!(figures["device_readings"] - before[0].1 >= 2970, "{figures:?}");
    assert!(figures["device_sense_to_force_us_median"] <= 2300, "{figures:?}");
    assert_eq!(
        states,
        [
            ServoState::Absent,
            ServoState::Booting,
            ServoState::Uncalibrated,
            ServoState::Idle,
            ServoState::Armed,
            ServoState::Rendering
        ]
    );

    plugged.bus().unplug(at);
    let ended = (0..50).find(|_| step(&mut bench, &mut states).fault != Fault::None);
    assert!(ended.is_some_and(|ms| ms < 50), "not noticed");
    assert_eq!((bench.last.state, bench.last.fault), (ServoState::Fault, Fault::DeviceGone));
    assert_eq!(shared.trouble(), "the device was unplugged");
    bench.handle.send(ServoCommand::ClearFault).expect("room");
    for _ in 0..400 {
        step(&mut bench, &mut states);
    }
    assert_eq!(bench.last.state, ServoState::Absent);

    let commands = plugged.bus().gadget.applied.len();
    plugged.bus().plug(bench.servo.now_ns());
    for _ in 0..2000 {
        step(&mut bench, &mut states);
    }
    assert_eq!(bench.last.state, ServoState::Idle);
    let bus = plugged.bus();
    assert!(bus.gadget.applied.len() > commands + 1000, "it is spoken to");
    assert!(bus.gadget.applied[commands..].iter().all(|(_, c)| *c == [0; 3]), "force without arming");
}

/// A dip of the supply, or a link that breaks and is back, while the servo is late once, by less than what is a fault: the device is ready before and
/// after, and the frame may be another. The servo must not push on by itself.
#[test]
fn a_frame_that_is_lost_and_found_between_two_ticks_ends_the_force() {
    for (breaks, late_ms) in [(false, 60), (true, 200)] {
        let (mut bench, plugged, shared) = falcon(shipped(), 5 * MS);
        let mut states = Vec::new();
        arm(&mut bench, &shared, &mut states);
        let r = (0..1700).map(|_| step(&mut bench, &mut states)).last().expect("ticks");
        assert!(r.state == ServoState::Rendering && norm(r.applied_force) > 0.5, "{r:?}");
        let before = shared.life();
        if breaks {
            plugged.bus().refuse_once();
        } else {
            plugged.bus().gadget.lose_home();
        }
        bench.servo.delay(late_ms * MS);
        let commands = plugged.bus().gadget.applied.len();
        let r = step(&mut bench, &mut states);
        assert!(shared.life() != before, "it was away");
        assert_eq!((r.state, r.fault), (ServoState::Fault, Fault::DeviceGone), "{breaks}, {late_ms} ms");
        for _ in 0..300 {
            step(&mut bench, &mut states);
        }
        assert_eq!(shared.lifecycle(), Lifecycle::Ready, "the device is well");
        assert_eq!(bench.last.fault, Fault::DeviceGone);
        let bus = plugged.bus();
        let after: Vec<_> = bus.gadget.applied[commands..].iter().skip_while(|(_, c)| *c != [0; 3]).collect();
        assert!(
            after.len() > 250 && after.iter().all(|(_, c)| *c == [0; 3]),
            "{breaks}, {late_ms} ms: force came back"
        );
    }
}
