//! The one list of a record's fields: message definition, encoder and decoder all come from it.
//!
//! CDR: a four-byte head (0x0001 = little endian, two unused bytes), then the fields in order, each aligned to its own
//! size counted from the end of the head (OMG DDSI-RTPS 2.5, 10.2; classic CDR, OMG CORBA 3.3 part 2, 9.3.1). All fields
//! have a fixed size, so every message has the same length. Floats are stored by their bits: NaN payloads survive.

use crate::servo::record::{self, Fault, ServoState, TickRecord, ZeroReason};
use std::fmt::Write as _;

/// CDR, little endian, no options.
const HEAD: [u8; 4] = [0, 1, 0, 0];

/// Why bytes are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The CDR head is not "little endian".
    #[error("message head is not little-endian CDR")]
    Head,
    /// Too few or too many bytes.
    #[error("message of {got} bytes, a record has {want}")]
    Length {
        /// Bytes given.
        got: usize,
        /// Bytes of a record.
        want: usize,
    },
    /// An enum field holds a number that this version does not know.
    #[error("unknown {field} code {code}")]
    Code {
        /// Field type.
        field: &'static str,
        /// The number.
        code: u8,
    },
}

/// A type with a place in the layout.
trait Wire: Copy {
    /// Its ROS 2 name.
    fn ros() -> String;
    /// Named values, given before the field so that viewers show the name.
    fn constants() -> Vec<(String, u8)> {
        Vec::new()
    }
    fn put(self, out: &mut Vec<u8>);
    fn take(from: &mut Decoder<'_>) -> Result<Self, DecodeError>;
}

struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Decoder<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let start = HEAD.len() + (self.at - HEAD.len()).next_multiple_of(N);
        let got = self.bytes.get(start..start + N)?.try_into().ok()?;
        self.at = start + N;
        Some(got)
    }
}

fn pad(out: &mut Vec<u8>, size: usize) {
    let body = out.len() - HEAD.len();
    out.resize(HEAD.len() + body.next_multiple_of(size), 0);
}

macro_rules! wire_number {
    ($($ty:ty = $ros:literal),*) => {$(
        impl Wire for $ty {
            fn ros() -> String { $ros.into() }
            fn put(self, out: &mut Vec<u8>) {
                pad(out, size_of::<$ty>());
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn take(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
                let got = from.bytes.len();
                from.array().map(<$ty>::from_le_bytes).ok_or(DecodeError::Length { got, want: encoded_len() })
            }
        }
    )*};
}
wire_number!(u8 = "uint8", u16 = "uint16", u32 = "uint32", u64 = "uint64", i64 = "int64", f64 = "float64");

impl<const N: usize> Wire for [f64; N] {
    fn ros() -> String {
        format!("float64[{N}]")
    }
    fn put(self, out: &mut Vec<u8>) {
        self.into_iter().for_each(|v| v.put(out));
    }
    fn take(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let mut all = [0.0; N];
        for v in &mut all {
            *v = f64::take(from)?;
        }
        Ok(all)
    }
}

macro_rules! wire_enum {
    ($ty:ident, $prefix:literal: $($variant:ident),* $(,)?) => {
        impl Wire for $ty {
            fn ros() -> String { "uint8".into() }
            fn constants() -> Vec<(String, u8)> {
                vec![$((format!("{}_{}", $prefix, upper_snake(stringify!($variant))), $ty::$variant as u8)),*]
            }
            fn put(self, out: &mut Vec<u8>) {
                // Exhaustive on purpose: a new variant does not compile until it stands in this list.
                match self { $($ty::$variant => (),)* }
                (self as u8).put(out);
            }
            fn take(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
                match u8::take(from)? {
                    $(code if code == $ty::$variant as u8 => Ok($ty::$variant),)*
                    code => Err(DecodeError::Code { field: stringify!($ty), code }),
                }
            }
        }
    };
}
wire_enum!(ServoState, "STATE": Absent, Booting, Uncalibrated, Idle, Armed, Rendering, Fault);
wire_enum!(ZeroReason, "ZERO": None, NoDevice, NotReady, NotArmed, ArmingGate, Disarmed, LeaseLost, MotionStopped,
    StaleSample, Fault, NoContact, NoScene, Clutch, Shutdown, NoForce, DeadMan, AfterLapse);
wire_enum!(Fault, "FAULT": None, NonFiniteSample, NonFiniteForce, PoseJump, Velocity, Workspace, Stale, DeviceGone,
    WriteFailed, Overrun, Suspended, ControlDead, Panic);

fn upper_snake(camel: &str) -> String {
    let mut out = String::new();
    for (i, c) in camel.chars().enumerate() {
        if i > 0 && c.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(c.to_ascii_uppercase());
    }
    out
}

/// The bits of `flags` by name.
pub const FLAGS: [(&str, u32); 13] = [
    ("INCOMPLETE", record::FLAG_INCOMPLETE),
    ("DEADLINE", record::FLAG_DEADLINE),
    ("SATURATED", record::FLAG_SATURATED),
    ("SLEW", record::FLAG_SLEW),
    ("MOTOR_SATURATED", record::FLAG_MOTOR_SATURATED),
    ("STIFFNESS_CAPPED", record::FLAG_STIFFNESS_CAPPED),
    ("CONTACT_BEGIN", record::FLAG_CONTACT_BEGIN),
    ("CONTACT_END", record::FLAG_CONTACT_END),
    ("ADOPTED", record::FLAG_ADOPTED),
    ("RETURN_FULL", record::FLAG_RETURN_FULL),
    ("HELD_SAMPLE", record::FLAG_HELD_SAMPLE),
    ("ENERGY_BOUND", record::FLAG_ENERGY_BOUND),
    ("AFTER_LAPSE", record::FLAG_AFTER_LAPSE),
];

macro_rules! layout {
    ($($name:ident: $ty:ty = $doc:literal),* $(,)?) => {
        /// Names of the fields, in order.
        pub const FIELDS: &[&str] = &[$(stringify!($name)),*];

        /// The ROS 2 message definition that stands in every file.
        #[must_use]
        pub fn schema() -> String {
            let mut text = String::from("# One servo tick of hapticd. SI units, right-handed, quaternions x y z w.\n");
            $(describe::<$ty>(&mut text, stringify!($name), $doc);)*
            text
        }

        /// Appends one record to `out`, which must be empty or hold nothing else.
        pub fn encode(record: &TickRecord, out: &mut Vec<u8>) {
            out.clear();
            out.extend_from_slice(&HEAD);
            let TickRecord { $($name),* } = *record;
            $(<$ty as Wire>::put($name, out);)*
        }

        /// Reads one record.
        ///
        /// # Errors
        /// [`DecodeError`]: bytes of another layout.
        pub fn decode(bytes: &[u8]) -> Result<TickRecord, DecodeError> {
            if bytes.get(..2) != Some(&HEAD[..2]) || bytes.len() < HEAD.len() {
                return Err(DecodeError::Head);
            }
            let mut from = Decoder { bytes, at: HEAD.len() };
            $(let $name = <$ty as Wire>::take(&mut from)?;)*
            if from.at != bytes.len() {
                return Err(DecodeError::Length { got: bytes.len(), want: from.at });
            }
            Ok(TickRecord { $($name),* })
        }
    };
}

fn describe<T: Wire>(text: &mut String, name: &str, doc: &str) {
    let ros = T::ros();
    for (constant, value) in T::constants() {
        let _ = writeln!(text, "{ros} {constant}={value}");
    }
    if name == "flags" {
        for (flag, bit) in FLAGS {
            let _ = writeln!(text, "uint32 FLAG_{flag}={bit}");
        }
    }
    let _ = writeln!(text, "{ros} {name}  # {doc}");
}

/// Bytes of one encoded record.
#[must_use]
pub fn encoded_len() -> usize {
    static LEN: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *LEN.get_or_init(|| {
        let mut out = Vec::new();
        encode(&TickRecord::default(), &mut out);
        out.len()
    })
}

layout! {
    tick: u64 = "tick number",
    planned_ns: u64 = "planned start on the servo clock, ns",
    wake_ns: i64 = "how late the thread woke, whole skipped periods that it slept through included, ns",
    compute_ns: u64 = "read to end of write, ns (0 on the virtual clock)",
    skipped: u32 = "periods skipped just before this tick",
    generation: u64 = "generation of the scene felt",
    motion_seq: u64 = "sequence of the motion frame felt",
    state: ServoState = "state after the tick",
    zero: ZeroReason = "why the force is zero",
    fault: Fault = "latched fault",
    flags: u32 = "bits, see FLAG_*",
    buttons: u32 = "device buttons",
    sample_seq: u64 = "number of the device sample used",
    lost: u32 = "samples lost since the last tick",
    position: [f64; 3] = "tool in the scene, m",
    orientation: [f64; 4] = "tool in the scene, x y z w",
    velocity: [f64; 3] = "tool in the scene, m/s",
    angular_velocity: [f64; 3] = "tool in the scene, rad/s",
    force: [f64; 3] = "commanded at the tool, scene axes, N",
    torque: [f64; 3] = "commanded about the tool's origin, scene axes, N m",
    applied_force: [f64; 3] = "what the motors got, device axes, N",
    applied_torque: [f64; 3] = "what the motors got, device axes, N m",
    contact_force: [f64; 3] = "before coupling and guard, scene axes, N",
    depth: f64 = "deepest penetration, m",
    distance: f64 = "smallest known separation, m; inf when far",
    stiffness: f64 = "largest eigenvalue of the felt stiffness before the cap, N/m",
    cap: f64 = "factor of the stiffness cap, 0..1",
    ramp: f64 = "gain of the arming ramp, 0..1",
    energy: f64 = "balance of the energy account, J",
    bound: f64 = "factor of the energy bound, 0..1",
    work: u32 = "work units spent",
    queried: u16 = "objects queried",
    touched: u16 = "objects touched",
    deepest_object: u32 = "identifier of the deepest object, 0 = none",
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
