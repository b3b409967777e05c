//! Tick records as they leave the daemon: numbers for datagrams, names for JSON.

use crate::protocol::telemetry::{State, StateJson, WorkspaceJson};
use crate::servo::handle::Workspace;
use crate::servo::record::{self as rec, Fault, ServoState, TickRecord, ZeroReason};

/// Name of a servo state.
pub fn state(s: ServoState) -> &'static str {
    match s {
        ServoState::Absent => "absent",
        ServoState::Booting => "booting",
        ServoState::Uncalibrated => "uncalibrated",
        ServoState::Idle => "idle",
        ServoState::Armed => "armed",
        ServoState::Rendering => "rendering",
        ServoState::Fault => "fault",
    }
}

/// Name of a reason for zero force.
pub fn zero(z: ZeroReason) -> &'static str {
    match z {
        ZeroReason::None => "none",
        ZeroReason::NoDevice => "no_device",
        ZeroReason::NotReady => "not_ready",
        ZeroReason::NotArmed => "not_armed",
        ZeroReason::ArmingGate => "arming_gate",
        ZeroReason::Disarmed => "disarmed",
        ZeroReason::LeaseLost => "lease_lost",
        ZeroReason::MotionStopped => "motion_stopped",
        ZeroReason::StaleSample => "stale_sample",
        ZeroReason::Fault => "fault",
        ZeroReason::NoContact => "no_contact",
        ZeroReason::NoScene => "no_scene",
        ZeroReason::Clutch => "clutch",
        ZeroReason::Shutdown => "shutdown",
        ZeroReason::NoForce => "no_force",
        ZeroReason::DeadMan => "dead_man",
        ZeroReason::AfterLapse => "after_lapse",
    }
}

/// Name of a fault.
pub fn fault(f: Fault) -> &'static str {
    match f {
        Fault::None => "none",
        Fault::NonFiniteSample => "non_finite_sample",
        Fault::NonFiniteForce => "non_finite_force",
        Fault::PoseJump => "pose_jump",
        Fault::Velocity => "velocity",
        Fault::Workspace => "workspace",
        Fault::Stale => "stale",
        Fault::DeviceGone => "device_gone",
        Fault::WriteFailed => "write_failed",
        Fault::Overrun => "overrun",
        Fault::Suspended => "suspended",
        Fault::ControlDead => "control_dead",
        Fault::Panic => "panic",
    }
}

/// Flag bits and their names, ascending.
pub const FLAGS: [(u32, &str); 13] = [
    (rec::FLAG_INCOMPLETE, "incomplete"),
    (rec::FLAG_DEADLINE, "deadline"),
    (rec::FLAG_SATURATED, "saturated"),
    (rec::FLAG_SLEW, "slew"),
    (rec::FLAG_MOTOR_SATURATED, "motor_saturated"),
    (rec::FLAG_STIFFNESS_CAPPED, "stiffness_capped"),
    (rec::FLAG_CONTACT_BEGIN, "contact_begin"),
    (rec::FLAG_CONTACT_END, "contact_end"),
    (rec::FLAG_ADOPTED, "adopted"),
    (rec::FLAG_RETURN_FULL, "return_full"),
    (rec::FLAG_HELD_SAMPLE, "held_sample"),
    (rec::FLAG_ENERGY_BOUND, "energy_bound"),
    (rec::FLAG_AFTER_LAPSE, "after_lapse"),
];

/// The datagram form. `lost` counts records that the telemetry ring dropped so far.
pub fn to_state(r: &TickRecord, lost: u64) -> State {
    State {
        tick: r.tick,
        time_ns: r.planned_ns,
        generation: r.generation,
        motion_seq: r.motion_seq,
        lost,
        state: r.state as u8,
        zero: r.zero as u8,
        fault: r.fault as u8,
        flags: r.flags,
        buttons: r.buttons,
        deepest: r.deepest_object,
        touched: r.touched,
        queried: r.queried,
        work: r.work,
        position: r.position,
        orientation: r.orientation,
        velocity: r.velocity,
        angular_velocity: r.angular_velocity,
        force: r.force,
        torque: r.torque,
        depth: r.depth,
        distance: r.distance,
        stiffness: r.stiffness,
        ramp: r.ramp,
        compute_ns: r.compute_ns,
    }
}

/// The JSON form; `workspace` where a view moves it.
pub fn to_json(r: &TickRecord, workspace: Option<Workspace>) -> StateJson {
    StateJson {
        tick: r.tick,
        time_ns: r.planned_ns,
        generation: r.generation,
        motion_seq: r.motion_seq,
        state: state(r.state).into(),
        zero: zero(r.zero).into(),
        fault: fault(r.fault).into(),
        flags: FLAGS.iter().filter(|(bit, _)| r.flags & bit != 0).map(|(_, n)| (*n).into()).collect(),
        buttons: r.buttons,
        touched: r.touched,
        deepest: r.deepest_object,
        position: r.position,
        orientation: r.orientation,
        velocity: r.velocity,
        force: r.force,
        torque: r.torque,
        depth: r.depth,
        distance: r.distance.is_finite().then_some(r.distance),
        ramp: r.ramp,
        energy: r.energy,
        bound: r.bound,
        compute_ns: r.compute_ns,
        work: r.work,
        workspace: workspace.map(|w| WorkspaceJson {
            position: w.pose.translation.vector.into(),
            orientation: w.pose.rotation.coords.into(),
            velocity: w.twist.linear.into(),
            angular_velocity: w.twist.angular.into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_single_ascending_bits() {
        for (i, (bit, _)) in FLAGS.iter().enumerate() {
            assert_eq!(*bit, 1 << i);
        }
        let r = TickRecord { flags: rec::FLAG_SLEW | rec::FLAG_ADOPTED, ..TickRecord::default() };
        assert_eq!(to_json(&r, None).flags, ["slew", "adopted"]);
    }

    #[test]
    fn an_infinite_distance_becomes_null() {
        let r = TickRecord { distance: f64::INFINITY, ..TickRecord::default() };
        assert_eq!(to_json(&r, None).distance, None);
        assert!(to_state(&r, 0).distance.is_infinite());
    }
}
