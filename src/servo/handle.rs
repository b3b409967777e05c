//! The control side's view of a running servo.

/// What the control side may ask of the servo. Small and `Copy`: travels in a bounded ring, acknowledged by id.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ServoCommand {
    /// Arm for this session; renews nothing when already armed by it.
    Arm {
        /// Session that owns the force.
        session: u64,
    },
    /// Ramp down and go idle. The same as the disarm flag, but acknowledged.
    Disarm,
    /// Leave a latched fault: back to idle.
    ClearFault,
    /// The owner is alive until this servo-clock time, ns.
    Lease {
        /// Servo-clock time, ns.
        until_ns: u64,
    },
    /// Lower the limits; values above the daemon's own are ignored (clamped).
    Limits {
        /// N.
        force: f64,
        /// N·m.
        torque: f64,
        /// m/s.
        velocity: f64,
    },
    /// Hold the tool in place while the device is moved (indexing).
    Clutch {
        /// True while held.
        held: bool,
    },
    /// Map the device's present position to this point of the scene.
    Recentre {
        /// Scene, m.
        to: [f64; 3],
    },
}
