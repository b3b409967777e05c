//! The servo over a driver over an emulated Falcon, on the virtual clock: contact, a plug pulled in contact, and back.

use crate::world::{Bench, MS, floor, norm, object, scene, sphere_tool};
use hapticd::device::driver;
use hapticd::device::emulated::bus::{Bus, Plugged};
use hapticd::device::emulated::{self, Stepped};
use hapticd::device::registry::Registry;
use hapticd::device::simulated::HandScript;
use hapticd::geometry::Pose;
use hapticd::servo::handle::{ServoCommand, ServoConfig};
use hapticd::servo::record::{Fault, ServoState, TickRecord};

/// One tick; the states that it goes through are kept.
fn step(bench: &mut Bench, states: &mut Vec<ServoState>) -> TickRecord {
    let r = bench.step();
    if states.last() != Some(&r.state) {
        states.push(r.state);
    }
    r
}

#[test]
fn a_falcon_pulled_out_in_contact_comes_back_without_force() {
    let profile = Registry::builtin().profile("novint-falcon").expect("shipped");
    let hand = HandScript::parse(
        "hand = 'normal'\n[[keyframe]]\ntime = 0.0\nposition = [0.0, 0.02, 0.0]\n\
         [[keyframe]]\ntime = 1.0\nposition = [0.0, 0.02, 0.0]\n[[keyframe]]\ntime = 1.5\nposition = [0.0, -0.01, 0.0]\n",
    )
    .expect("script");
    let setup = emulated::falcon::Setup { homes_after: Some(300 * MS), ..Default::default() };
    let gadget = emulated::falcon::Falcon::new(&profile, &hand, setup).expect("in reach");
    let plugged = Plugged::new(Bus::new(gadget, 200.0, 654_321, false));
    let port = Box::new(driver::falcon::Falcon::new(None));
    let device = Stepped::new(profile, port, plugged.clone());
    let shared = device.shared().clone();
    let mut bench = Bench::new(Box::new(device), ServoConfig::default());
    bench.publish(scene(1, &sphere_tool(0.01), vec![object(1, floor(), Pose::identity(), 1000.0)]));

    let mut states = Vec::new();
    while step(&mut bench, &mut states).state != ServoState::Idle {
        assert!(bench.servo.now_ns() < 2000 * MS, "{}", shared.trouble());
    }
    bench.handle.send(ServoCommand::Arm { session: 1 }).expect("room");
    bench.handle.send(ServoCommand::Lease { until_ns: u64::MAX }).expect("room");
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
