//! Several devices over one geometry, each with a servo of its own: what one does, and what becomes of it, never shows in the other.

use crate::world::{Bench, floor, object, scene, sphere_tool};
use hapticd::contact::ObjectShape;
use hapticd::device::registry::Registry;
use hapticd::device::simulated::{Fault as Wrong, FaultKind, Faults, HandScript, Setup, SimulatedDevice};
use hapticd::geometry::Pose;
use hapticd::servo::handle::ServoConfig;
use hapticd::servo::record::{Fault, ServoState, TickRecord};

/// Comes down on the floor and strokes along it.
const STROKE: &str = "hand = 'normal'
[[keyframe]]
time = 0.0
position = [0.0, 0.03, 0.0]
[[keyframe]]
time = 0.6
position = [0.0, 0.03, 0.0]
[[keyframe]]
time = 1.0
position = [0.0, 0.006, 0.0]
[[keyframe]]
time = 2.0
position = [0.01, 0.004, 0.005]
";

/// A Falcon's servo with its own ball over that shape.
fn servo(shape: &ObjectShape, radius: f64, faults: Vec<Wrong>) -> Bench {
    let profile = Registry::builtin().profile("novint-falcon").expect("shipped");
    let hand = HandScript::parse(STROKE).expect("a hand");
    let setup = Setup { hand, faults: Faults(faults), ..Setup::default() };
    let mut device = SimulatedDevice::new(profile, setup).expect("opens");
    hapticd::device::Device::calibrate(&mut device).expect("calibrates");
    let mut bench = Bench::new(Box::new(device), ServoConfig::default());
    let objects = vec![object(1, shape.clone(), Pose::identity(), 600.0)];
    bench.publish(scene(1, &sphere_tool(radius), objects));
    bench.arm();
    bench
}

/// Pose and force of a tick, to the last bit.
fn felt(r: &TickRecord) -> Vec<u64> {
    r.position.iter().chain(&r.force).chain(&r.torque).map(|x| x.to_bits()).collect()
}

/// The right one's ticks beside a left one with these faults, and how the left one ended.
fn beside(shape: &ObjectShape, faults: Vec<Wrong>) -> (Vec<Vec<u64>>, TickRecord) {
    let (mut left, mut right) = (servo(shape, 0.012, faults), servo(shape, 0.008, Vec::new()));
    let mut out = Vec::new();
    for _ in 0..2000 {
        left.step();
        out.push(felt(&right.step()));
    }
    assert_eq!((right.last.state, right.last.fault), (ServoState::Rendering, Fault::None));
    assert!(right.last.force[1] > 0.5, "it presses: {:?}", right.last.force);
    (out, left.last)
}

#[test]
fn a_fault_of_one_leaves_the_other_s_forces_as_they_were_to_the_last_bit() {
    let shape = floor();
    let (whole, left) = beside(&shape, Vec::new());
    assert_eq!((left.state, left.fault), (ServoState::Rendering, Fault::None));
    assert_ne!(felt(&left), *whole.last().expect("ticks"), "another tool");
    for (kind, until, fault) in [
        (FaultKind::Unplug, f64::INFINITY, Fault::DeviceGone),
        (FaultKind::LinkLost, f64::INFINITY, Fault::DeviceGone),
        (FaultKind::Spike, f64::INFINITY, Fault::PoseJump),
        (FaultKind::NanPose, f64::INFINITY, Fault::NonFiniteSample),
        (FaultKind::Stale, f64::INFINITY, Fault::Stale),
        (FaultKind::FailWrites, f64::INFINITY, Fault::WriteFailed),
    ] {
        let (beside, left) = beside(&shape, vec![Wrong::between(kind, 1.5, until)]);
        assert_eq!((left.state, left.fault), (ServoState::Fault, fault), "{kind:?}");
        assert!(beside == whole, "{kind:?}");
    }
}
