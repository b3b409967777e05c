//! State of one tick as it travels: 256 bytes in a datagram, one JSON object in a subscription.

use super::datagram::{
    Datagram, HEADER, Kind, MAX_DATAGRAM, STATE_ENTRY, Sender, WireError, array, f64_at, u64_at,
};
use serde::{Deserialize, Serialize};

/// State of one tick.
///
/// | offset | size | field |
/// |-|-|-|
/// | 0 | 8 | tick |
/// | 8 | 8 | planned start on the servo's clock, ns |
/// | 16 | 8 | generation of the scene felt |
/// | 24 | 8 | sequence of the motion frame felt |
/// | 32 | 8 | telemetry records lost so far |
/// | 40 | 1 | state |
/// | 41 | 1 | reason for zero force |
/// | 42 | 1 | fault |
/// | 43 | 1 | 0 |
/// | 44 | 4 | flags |
/// | 48 | 4 | buttons |
/// | 52 | 4 | deepest object, 0 = none |
/// | 56 | 2 | objects touched |
/// | 58 | 2 | objects queried |
/// | 60 | 4 | work units |
/// | 64 | 24 | tool position, m |
/// | 88 | 32 | tool orientation, x y z w |
/// | 120 | 24 | velocity, m/s |
/// | 144 | 24 | angular velocity, rad/s |
/// | 168 | 24 | force on the tool, scene axes, N |
/// | 192 | 24 | torque about the tool's origin, N·m |
/// | 216 | 8 | depth, m |
/// | 224 | 8 | distance, m, infinite when far |
/// | 232 | 8 | felt stiffness, N/m |
/// | 240 | 8 | gain of the ramp, 0..=1 |
/// | 248 | 8 | compute time of the tick, ns |
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct State {
    /// Tick number.
    pub tick: u64,
    /// Planned start on the servo's clock, ns.
    pub time_ns: u64,
    /// Generation of the scene felt.
    pub generation: u64,
    /// Sequence of the motion frame felt.
    pub motion_seq: u64,
    /// Telemetry records that the servo's ring dropped so far.
    pub lost: u64,
    /// Servo state: 0 absent, 1 booting, 2 uncalibrated, 3 idle, 4 armed, 5 rendering, 6 fault.
    pub state: u8,
    /// Reason for zero force, see `docs/protocol.md`.
    pub zero: u8,
    /// Latched fault, see `docs/protocol.md`.
    pub fault: u8,
    /// Flag bits, see `docs/protocol.md`.
    pub flags: u32,
    /// Device buttons, bit 0 first.
    pub buttons: u32,
    /// Deepest object, 0 = none.
    pub deepest: u32,
    /// Objects touched.
    pub touched: u16,
    /// Objects queried.
    pub queried: u16,
    /// Work units of the tick.
    pub work: u32,
    /// Tool position in the scene, m.
    pub position: [f64; 3],
    /// Tool orientation in the scene, x y z w.
    pub orientation: [f64; 4],
    /// Tool velocity, m/s.
    pub velocity: [f64; 3],
    /// Tool angular velocity, rad/s.
    pub angular_velocity: [f64; 3],
    /// Force on the tool, scene axes, N.
    pub force: [f64; 3],
    /// Torque about the tool's origin, scene axes, N·m.
    pub torque: [f64; 3],
    /// Deepest penetration, m.
    pub depth: f64,
    /// Smallest known separation, m; infinite when far from everything.
    pub distance: f64,
    /// Largest eigenvalue of the contact's stiffness as it is felt at the device, before the cap, N/m; with a
    /// virtual tool in series with its spring.
    pub stiffness: f64,
    /// Gain of the ramp, 0..=1.
    pub ramp: f64,
    /// Compute time of the tick, ns.
    pub compute_ns: u64,
}

impl State {
    /// The entry's bytes.
    pub fn to_bytes(&self) -> [u8; STATE_ENTRY] {
        let mut b = [0; STATE_ENTRY];
        let words = [self.tick, self.time_ns, self.generation, self.motion_seq, self.lost];
        for (k, w) in words.iter().enumerate() {
            b[8 * k..8 * k + 8].copy_from_slice(&w.to_le_bytes());
        }
        b[40..43].copy_from_slice(&[self.state, self.zero, self.fault]);
        for (k, w) in [self.flags, self.buttons, self.deepest].iter().enumerate() {
            b[44 + 4 * k..48 + 4 * k].copy_from_slice(&w.to_le_bytes());
        }
        b[56..58].copy_from_slice(&self.touched.to_le_bytes());
        b[58..60].copy_from_slice(&self.queried.to_le_bytes());
        b[60..64].copy_from_slice(&self.work.to_le_bytes());
        let tail = [self.depth, self.distance, self.stiffness, self.ramp];
        let numbers = self.position.iter().chain(&self.orientation).chain(&self.velocity);
        let numbers = numbers.chain(&self.angular_velocity).chain(&self.force).chain(&self.torque);
        for (k, x) in numbers.chain(&tail).enumerate() {
            b[64 + 8 * k..72 + 8 * k].copy_from_slice(&x.to_le_bytes());
        }
        b[248..256].copy_from_slice(&self.compute_ns.to_le_bytes());
        b
    }

    fn from_bytes(b: &[u8]) -> Self {
        let three = |at: usize| std::array::from_fn(|k| f64_at(b, at + 8 * k));
        Self {
            tick: u64_at(b, 0),
            time_ns: u64_at(b, 8),
            generation: u64_at(b, 16),
            motion_seq: u64_at(b, 24),
            lost: u64_at(b, 32),
            state: b[40],
            zero: b[41],
            fault: b[42],
            flags: u32::from_le_bytes(array(b, 44)),
            buttons: u32::from_le_bytes(array(b, 48)),
            deepest: u32::from_le_bytes(array(b, 52)),
            touched: u16::from_le_bytes(array(b, 56)),
            queried: u16::from_le_bytes(array(b, 58)),
            work: u32::from_le_bytes(array(b, 60)),
            position: three(64),
            orientation: std::array::from_fn(|k| f64_at(b, 88 + 8 * k)),
            velocity: three(120),
            angular_velocity: three(144),
            force: three(168),
            torque: three(192),
            depth: f64_at(b, 216),
            distance: f64_at(b, 224),
            stiffness: f64_at(b, 232),
            ramp: f64_at(b, 240),
            compute_ns: u64_at(b, 248),
        }
    }
}

impl Sender<'_> {
    /// Writes a state datagram and returns its length.
    pub fn state(&self, seq: u32, time_ns: u64, state: &State, out: &mut [u8; MAX_DATAGRAM]) -> usize {
        out[HEADER..HEADER + STATE_ENTRY].copy_from_slice(&state.to_bytes());
        self.seal(Kind::State, seq, time_ns, 1, out)
    }
}

impl Datagram<'_> {
    /// The state of a state datagram.
    ///
    /// # Errors
    /// [`WireError::Kind`] for another kind; `NonFinite` for any number but `distance`, which may be infinite.
    pub fn state(&self) -> Result<State, WireError> {
        if self.header.kind != Kind::State {
            return Err(WireError::Kind);
        }
        let s = State::from_bytes(self.entry(0));
        let all = s.position.iter().chain(&s.orientation).chain(&s.velocity).chain(&s.angular_velocity);
        let all = all.chain(&s.force).chain(&s.torque).chain([&s.depth, &s.stiffness, &s.ramp]);
        if all.into_iter().all(|x| x.is_finite()) && !s.distance.is_nan() {
            Ok(s)
        } else {
            Err(WireError::NonFinite)
        }
    }
}

/// The JSON form of a tick: names instead of codes. Sent in `telemetry` notifications and answers to `status`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StateJson {
    /// Tick number.
    pub tick: u64,
    /// Planned start on the servo's clock, ns.
    pub time_ns: u64,
    /// Generation of the scene felt.
    pub generation: u64,
    /// Sequence of the motion frame felt.
    pub motion_seq: u64,
    /// `absent`, `booting`, `uncalibrated`, `idle`, `armed`, `rendering` or `fault`.
    pub state: String,
    /// Reason for zero force, `none` when the force follows the contact.
    pub zero: String,
    /// Latched fault, `none` when there is none.
    pub fault: String,
    /// Names of the flags that are set.
    pub flags: Vec<String>,
    /// Device buttons, bit 0 first.
    pub buttons: u32,
    /// Objects touched.
    pub touched: u16,
    /// Deepest object, 0 = none.
    pub deepest: u32,
    /// Tool position in the scene, m.
    pub position: [f64; 3],
    /// Tool orientation in the scene, x y z w.
    pub orientation: [f64; 4],
    /// Tool velocity, m/s.
    pub velocity: [f64; 3],
    /// Force on the tool, scene axes, N.
    pub force: [f64; 3],
    /// Torque about the tool's origin, N·m.
    pub torque: [f64; 3],
    /// Deepest penetration, m.
    pub depth: f64,
    /// Smallest known separation, m; null when far from everything.
    pub distance: Option<f64>,
    /// Gain of the ramp, 0..=1.
    pub ramp: f64,
    /// Balance of the energy account, J; 0 without one, and in messages of a daemon that has none.
    #[serde(default)]
    pub energy: f64,
    /// Factor by which the energy bound lowered the force, 0..=1.
    #[serde(default = "unbounded")]
    pub bound: f64,
    /// Compute time of the tick, ns.
    pub compute_ns: u64,
    /// Work units of the tick.
    pub work: u32,
    /// The device's workspace, where another device moves it; absent elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceJson>,
}

/// Where a device's workspace stands in the scene and how its view moves it: for a camera that goes with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkspaceJson {
    /// Origin of the device's frame in the scene, m.
    pub position: [f64; 3],
    /// Orientation, x y z w.
    pub orientation: [f64; 4],
    /// Velocity of the origin, scene axes, m/s.
    pub velocity: [f64; 3],
    /// Angular velocity, scene axes, rad/s.
    pub angular_velocity: [f64; 3],
}

fn unbounded() -> f64 {
    1.0
}
