//! Faults that the simulated device shows on request, by plant time.

use serde::Deserialize;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// Cable and power gone: the motors lose their torque at once. Lasts for ever.
    Unplug,
    /// Data cable gone, motors still powered: they hold the last torque as long as the profile says. Lasts for ever.
    LinkLost,
    /// The pose is not a number.
    NanPose,
    /// The pose jumps by `size` metres along x.
    Spike,
    /// Reads bring nothing new.
    Stale,
    /// Reads bring the last sample again, with its old number.
    Duplicate,
    /// Reads bring bytes that make no sense.
    Garbled,
    /// Writes are refused by the transport; the motors keep the last command.
    FailWrites,
    /// The device forgets its frame: back to `Uncalibrated`.
    LoseCalibration,
    /// The driver's own code is broken: a panic in the servo's thread, to try what follows.
    Panic,
    /// Nobody but the servo reaches the motors, whenever asked: there is no last word in its place.
    Deaf,
}

/// One fault: from `at` until `until` (s of plant time since the first read).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What goes wrong.
    pub kind: FaultKind,
    /// Start, s.
    pub at: f64,
    /// End, s; without it the fault lasts for ever.
    #[serde(default = "forever")]
    pub until: f64,
    /// Size of a spike, m.
    #[serde(default = "ten_centimetres")]
    pub size: f64,
}

fn forever() -> f64 {
    f64::INFINITY
}

fn ten_centimetres() -> f64 {
    0.1
}

impl Fault {
    /// A fault from `at` s on, for ever.
    pub fn from(kind: FaultKind, at: f64) -> Self {
        Self { kind, at, until: f64::INFINITY, size: ten_centimetres() }
    }

    /// A fault between two times, s.
    pub fn between(kind: FaultKind, at: f64, until: f64) -> Self {
        Self { kind, at, until, size: ten_centimetres() }
    }
}

/// A list of faults; empty = a healthy device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults(pub Vec<Fault>);

impl Faults {
    /// The first active fault of a kind at plant time `t`, s. Real-time safe.
    pub fn active(&self, kind: FaultKind, t: f64) -> Option<&Fault> {
        self.0.iter().find(|f| f.kind == kind && t >= f.at && t < f.until)
    }

    /// One of that kind is among them, whatever its time.
    pub fn has(&self, kind: FaultKind) -> bool {
        self.0.iter().any(|f| f.kind == kind)
    }

    /// The time `t` itself, s, unless broken code is asked for then.
    ///
    /// # Panics
    /// While a fault of the kind `panic` is active.
    pub fn unbroken(&self, t: f64) -> f64 {
        assert!(self.active(FaultKind::Panic, t).is_none(), "a panic that the hand script asks for");
        t
    }

    /// True when there is nothing to check.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
