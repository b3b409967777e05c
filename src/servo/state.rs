//! The servo's state machine, as one table.

#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used
    )
)]

use super::record::ServoState::{self, Absent, Armed, Booting, Fault, Idle, Rendering, Uncalibrated};

/// What can happen to the servo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The device is not there.
    Gone,
    /// The device starts.
    Boots,
    /// The device does not know its frame.
    NeedsCalibration,
    /// The device reads and takes force.
    Ready,
    /// A session arms.
    Arm,
    /// The wanted force has been small for long enough.
    GatePassed,
    /// The tool or its mapping changed: back to the gate.
    Regate,
    /// The force has ramped to zero because it was taken away.
    Released,
    /// Anything that latches.
    Fails,
    /// A client leaves the fault.
    Clear,
}

/// From, event, to. What is not listed changes nothing.
pub const TABLE: [(ServoState, Event, ServoState); 33] = [
    (Absent, Event::Boots, Booting),
    (Absent, Event::NeedsCalibration, Uncalibrated),
    (Absent, Event::Ready, Idle),
    (Absent, Event::Fails, Fault),
    (Booting, Event::Gone, Absent),
    (Booting, Event::NeedsCalibration, Uncalibrated),
    (Booting, Event::Ready, Idle),
    (Booting, Event::Fails, Fault),
    (Uncalibrated, Event::Gone, Absent),
    (Uncalibrated, Event::Boots, Booting),
    (Uncalibrated, Event::Ready, Idle),
    (Uncalibrated, Event::Fails, Fault),
    (Idle, Event::Gone, Absent),
    (Idle, Event::Boots, Booting),
    (Idle, Event::NeedsCalibration, Uncalibrated),
    (Idle, Event::Arm, Armed),
    (Idle, Event::Fails, Fault),
    // A device that is lost while it is armed or pushes is a fault: somebody's hand was on it.
    (Armed, Event::Gone, Fault),
    (Armed, Event::Boots, Fault),
    (Armed, Event::NeedsCalibration, Fault),
    (Armed, Event::GatePassed, Rendering),
    (Armed, Event::Released, Idle),
    (Armed, Event::Fails, Fault),
    (Rendering, Event::Gone, Fault),
    (Rendering, Event::Boots, Fault),
    (Rendering, Event::NeedsCalibration, Fault),
    (Rendering, Event::Regate, Armed),
    (Rendering, Event::Released, Idle),
    (Rendering, Event::Fails, Fault),
    // Leaving a fault starts from nothing: the device's own state decides in the next tick.
    (Fault, Event::Clear, Absent),
    (Fault, Event::Fails, Fault),
    (Fault, Event::Gone, Fault),
    (Fault, Event::Ready, Fault),
];

/// The state after `event`. Real-time safe.
pub fn next(state: ServoState, event: Event) -> ServoState {
    let row = TABLE.iter().find(|(from, on, _)| (*from, *on) == (state, event));
    row.map_or(state, |(_, _, to)| *to)
}

/// True where forces may be on.
#[inline]
pub fn live(state: ServoState) -> bool {
    state == Rendering
}

/// True where a session holds the force.
#[inline]
pub fn owned(state: ServoState) -> bool {
    matches!(state, Armed | Rendering)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: [Event; 10] = [
        Event::Gone,
        Event::Boots,
        Event::NeedsCalibration,
        Event::Ready,
        Event::Arm,
        Event::GatePassed,
        Event::Regate,
        Event::Released,
        Event::Fails,
        Event::Clear,
    ];

    #[test]
    fn each_pair_has_one_row() {
        for (i, a) in TABLE.iter().enumerate() {
            assert!(TABLE[..i].iter().all(|b| (a.0, a.1) != (b.0, b.1)), "{a:?}");
        }
    }

    #[test]
    fn force_is_reached_only_through_arming_and_the_gate() {
        for state in ServoState::ALL {
            for event in EVENTS {
                if next(state, event) == Rendering && state != Rendering {
                    assert_eq!((state, event), (Armed, Event::GatePassed));
                }
                if next(state, event) == Armed && state != Armed {
                    assert!([(Idle, Event::Arm), (Rendering, Event::Regate)].contains(&(state, event)));
                }
            }
        }
    }

    #[test]
    fn every_failure_latches_and_only_clear_leaves() {
        for state in ServoState::ALL {
            assert_eq!(next(state, Event::Fails), Fault);
        }
        for event in EVENTS {
            assert_eq!(next(Fault, event) == Fault, event != Event::Clear);
        }
    }

    #[test]
    fn a_device_lost_under_the_hand_is_a_fault_and_otherwise_not() {
        for event in [Event::Gone, Event::Boots, Event::NeedsCalibration] {
            for state in [Armed, Rendering] {
                assert_eq!(next(state, event), Fault);
            }
            assert_ne!(next(Idle, event), Fault);
        }
    }
}
