//! Datagrams: a 40-byte header, a body of equal entries and a 16-byte keyed MAC, at most 1200 bytes in all.
//!
//! | offset | size | field |
//! |-|-|-|
//! | 0 | 4 | magic `HPTC` |
//! | 4 | 1 | major |
//! | 5 | 1 | minor |
//! | 6 | 2 | kind: 1 motion, 2 state, 3 attach |
//! | 8 | 2 | flags, 0 in this version |
//! | 10 | 2 | length of the whole datagram, MAC included |
//! | 12 | 4 | sequence number of the stream, wraps |
//! | 16 | 8 | session |
//! | 24 | 8 | sender's monotonic clock, ns |
//! | 32 | 2 | stream |
//! | 34 | 2 | number of entries |
//! | 36 | 2 | bytes of one entry |
//! | 38 | 2 | 0 |
//! | 40 | n | entries |
//! | 40 + n | 16 | first 16 bytes of BLAKE3 keyed with the session's key over everything before |
//!
//! A larger minor may append bytes to an entry (the entry size says how many) and set flags; a reader skips what
//! it does not know. Within its own minor a reader takes the exact size and zero flags only.

use super::VERSION;
use std::fmt;

/// First four bytes of each datagram.
pub const MAGIC: [u8; 4] = *b"HPTC";
/// Largest datagram, bytes: never fragmented on any usual link.
pub const MAX_DATAGRAM: usize = 1200;
/// Bytes of the header.
pub const HEADER: usize = 40;
/// Bytes of the MAC.
pub const MAC: usize = 16;
/// Bytes of a session key.
pub const KEY: usize = 32;
/// Bytes of a motion entry in this version.
pub const MOTION_ENTRY: usize = 64;
/// Bytes of a state entry in this version.
pub const STATE_ENTRY: usize = 256;
/// Most poses in one datagram.
pub const MAX_POSES: usize = (MAX_DATAGRAM - HEADER - MAC) / MOTION_ENTRY;
/// Largest deviation of a quaternion's norm from one that is still accepted (and then normalised).
pub const NORM_TOLERANCE: f64 = 1e-3;
/// Farthest a pose may lie from the scene's origin along each axis, m; edits have the same limit.
pub const MAX_POSITION: f64 = 1000.0;

/// What a datagram carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// Client to daemon: poses of moving objects, all valid at the sender's time.
    Motion = 1,
    /// Daemon to client: one tick's state.
    State = 2,
    /// Client to daemon: send the state stream to the address from which this came. No entries.
    Attach = 3,
}

impl Kind {
    /// Bytes of one entry in this version.
    pub const fn entry(self) -> usize {
        match self {
            Self::Motion => MOTION_ENTRY,
            Self::State => STATE_ENTRY,
            Self::Attach => 0,
        }
    }
}

/// Why a datagram is refused. Each variant has its own counter in the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// Shorter than header and MAC, longer than 1200 bytes, or the lengths inside do not add up.
    Length,
    /// The first four bytes are not the magic.
    Magic,
    /// A major that is not served.
    Version,
    /// An unknown kind, or one that this end does not take.
    Kind,
    /// Flags or reserved bytes that this version does not know.
    Reserved,
    /// The MAC does not match.
    Mac,
    /// A number is not finite.
    NonFinite,
    /// A quaternion is not of unit length.
    Norm,
    /// A position farther from the origin than [`MAX_POSITION`].
    Range,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Length => "wrong length",
            Self::Magic => "wrong magic",
            Self::Version => "unserved version",
            Self::Kind => "unknown kind",
            Self::Reserved => "unknown flags or reserved bytes",
            Self::Mac => "wrong MAC",
            Self::NonFinite => "a number is not finite",
            Self::Norm => "a quaternion is not of unit length",
            Self::Range => "a position lies more than 1000 m from the origin",
        })
    }
}

impl std::error::Error for WireError {}

/// The header's fields that vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What follows.
    pub kind: Kind,
    /// Sender's minor version.
    pub minor: u8,
    /// Sequence number within (session, kind, stream); wraps.
    pub seq: u32,
    /// Session that the key belongs to.
    pub session: u64,
    /// Sender's monotonic clock, ns; used for age and interpolation only.
    pub time_ns: u64,
    /// Stream within the session.
    pub stream: u16,
    /// Number of entries.
    pub count: u16,
    /// Bytes of one entry.
    pub entry_size: u16,
}

/// Pose of one moving object. 64 bytes on the wire: id u32, 0 u32, position 3 f64 (m), orientation 4 f64
/// (x, y, z, w).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MotionPose {
    /// Object identifier.
    pub object: u32,
    /// Position of the object's frame in the scene, m.
    pub position: [f64; 3],
    /// Orientation of the object's frame in the scene, x y z w.
    pub orientation: [f64; 4],
}

/// A datagram whose header and lengths hold; the MAC is not yet checked.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// The header.
    pub header: Header,
    bytes: &'a [u8],
}

fn u16_at(b: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([b[at], b[at + 1]])
}

fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(b, at))
}

pub(super) fn u64_at(b: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(b, at))
}

pub(super) fn f64_at(b: &[u8], at: usize) -> f64 {
    f64::from_bits(u64_at(b, at))
}

/// `N` bytes from `at`; callers have checked the length.
pub(super) fn array<const N: usize>(b: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&b[at..at + N]);
    out
}

impl<'a> Datagram<'a> {
    /// Checks magic, version, kind and all lengths. Allocates nothing; never panics.
    ///
    /// # Errors
    /// [`WireError`], in the order of the header's fields.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        if bytes.len() < HEADER + MAC || bytes.len() > MAX_DATAGRAM {
            return Err(WireError::Length);
        }
        if bytes[0..4] != MAGIC {
            return Err(WireError::Magic);
        }
        if bytes[4] != VERSION.major {
            return Err(WireError::Version);
        }
        let minor = bytes[5];
        let kind = match u16_at(bytes, 6) {
            1 => Kind::Motion,
            2 => Kind::State,
            3 => Kind::Attach,
            _ => return Err(WireError::Kind),
        };
        let (flags, reserved) = (u16_at(bytes, 8), u16_at(bytes, 38));
        let newer = minor > VERSION.minor;
        if !newer && (flags != 0 || reserved != 0) {
            return Err(WireError::Reserved);
        }
        let (count, entry_size) = (u16_at(bytes, 34), u16_at(bytes, 36));
        let size_ok = if newer {
            usize::from(entry_size) >= kind.entry()
        } else {
            usize::from(entry_size) == kind.entry()
        };
        let count_ok = match kind {
            Kind::Motion => count > 0,
            Kind::State => count == 1,
            Kind::Attach => count == 0,
        };
        let total = HEADER + usize::from(count) * usize::from(entry_size) + MAC;
        if usize::from(u16_at(bytes, 10)) != bytes.len() || !size_ok || !count_ok || total != bytes.len() {
            return Err(WireError::Length);
        }
        let header = Header {
            kind,
            minor,
            seq: u32_at(bytes, 12),
            session: u64_at(bytes, 16),
            time_ns: u64_at(bytes, 24),
            stream: u16_at(bytes, 32),
            count,
            entry_size,
        };
        Ok(Self { header, bytes })
    }

    /// Checks the MAC in constant time.
    ///
    /// # Errors
    /// [`WireError::Mac`].
    pub fn verify(&self, key: &[u8; KEY]) -> Result<(), WireError> {
        let (text, tag) = self.bytes.split_at(self.bytes.len() - MAC);
        let want = mac(key, text);
        // Or-ing all differences before deciding keeps the time independent of where the first one is.
        let differs = want.iter().zip(tag).fold(0_u8, |d, (a, b)| d | (a ^ b));
        if differs == 0 { Ok(()) } else { Err(WireError::Mac) }
    }

    /// Entry `i` of the body.
    pub(super) fn entry(&self, i: usize) -> &'a [u8] {
        let size = usize::from(self.header.entry_size);
        &self.bytes[HEADER + i * size..HEADER + (i + 1) * size]
    }

    /// The poses of a motion datagram, normalised, into `out`; returns how many. All or nothing.
    ///
    /// # Errors
    /// [`WireError::Kind`] for another kind, `Length`, `Reserved`, `NonFinite`, `Norm`, `Range`.
    pub fn poses(&self, out: &mut [MotionPose; MAX_POSES]) -> Result<usize, WireError> {
        if self.header.kind != Kind::Motion {
            return Err(WireError::Kind);
        }
        let n = usize::from(self.header.count);
        if n > MAX_POSES {
            return Err(WireError::Length);
        }
        for (i, slot) in out.iter_mut().take(n).enumerate() {
            let e = self.entry(i);
            if self.header.minor == VERSION.minor && u32_at(e, 4) != 0 {
                return Err(WireError::Reserved);
            }
            let position: [f64; 3] = std::array::from_fn(|k| f64_at(e, 8 + 8 * k));
            let orientation = unit(std::array::from_fn(|k| f64_at(e, 32 + 8 * k)))?;
            if !position.iter().all(|x| x.is_finite()) {
                return Err(WireError::NonFinite);
            }
            if position.iter().any(|x| x.abs() > MAX_POSITION) {
                return Err(WireError::Range);
            }
            *slot = MotionPose { object: u32_at(e, 0), position, orientation };
        }
        Ok(n)
    }
}

/// Checks a quaternion (x, y, z, w) and normalises it.
///
/// # Errors
/// `NonFinite`, or `Norm` when its length differs from one by more than [`NORM_TOLERANCE`].
pub fn unit(q: [f64; 4]) -> Result<[f64; 4], WireError> {
    if !q.iter().all(|c| c.is_finite()) {
        return Err(WireError::NonFinite);
    }
    let norm = q.iter().map(|c| c * c).sum::<f64>().sqrt();
    if norm.is_finite() && (norm - 1.0).abs() <= NORM_TOLERANCE {
        Ok(q.map(|c| c / norm))
    } else {
        Err(WireError::Norm)
    }
}

/// The 16-byte MAC of `text` under the session's key: BLAKE3 in keyed mode, truncated
/// (<https://github.com/BLAKE3-team/BLAKE3-specs>, section 2.9: any prefix of the output is a secure MAC).
pub fn mac(key: &[u8; KEY], text: &[u8]) -> [u8; MAC] {
    array(blake3::keyed_hash(key, text).as_bytes(), 0)
}

/// Identity of a stream, for the writers.
#[derive(Clone, Copy, Debug)]
pub struct Sender<'k> {
    /// Session.
    pub session: u64,
    /// Its key.
    pub key: &'k [u8; KEY],
    /// Stream within the session.
    pub stream: u16,
}

impl Sender<'_> {
    /// Writes a motion datagram and returns its length; `None` when there is no pose or more than [`MAX_POSES`].
    pub fn motion(
        &self,
        seq: u32,
        time_ns: u64,
        poses: &[MotionPose],
        out: &mut [u8; MAX_DATAGRAM],
    ) -> Option<usize> {
        if poses.is_empty() || poses.len() > MAX_POSES {
            return None;
        }
        for (i, p) in poses.iter().enumerate() {
            let e = &mut out[HEADER + i * MOTION_ENTRY..HEADER + (i + 1) * MOTION_ENTRY];
            e[0..4].copy_from_slice(&p.object.to_le_bytes());
            e[4..8].fill(0);
            for (k, x) in p.position.iter().chain(&p.orientation).enumerate() {
                e[8 + 8 * k..16 + 8 * k].copy_from_slice(&x.to_le_bytes());
            }
        }
        Some(self.seal(Kind::Motion, seq, time_ns, poses.len(), out))
    }

    /// Writes an attach datagram and returns its length.
    pub fn attach(&self, seq: u32, time_ns: u64, out: &mut [u8; MAX_DATAGRAM]) -> usize {
        self.seal(Kind::Attach, seq, time_ns, 0, out)
    }

    /// Writes header and MAC around a body already in place.
    pub(super) fn seal(
        &self,
        kind: Kind,
        seq: u32,
        time_ns: u64,
        count: usize,
        out: &mut [u8; MAX_DATAGRAM],
    ) -> usize {
        let end = HEADER + count * kind.entry();
        let total = end + MAC;
        out[0..4].copy_from_slice(&MAGIC);
        out[4] = VERSION.major;
        out[5] = VERSION.minor;
        out[6..8].copy_from_slice(&(kind as u16).to_le_bytes());
        out[8..10].fill(0);
        out[10..12].copy_from_slice(&(total as u16).to_le_bytes());
        out[12..16].copy_from_slice(&seq.to_le_bytes());
        out[16..24].copy_from_slice(&self.session.to_le_bytes());
        out[24..32].copy_from_slice(&time_ns.to_le_bytes());
        out[32..34].copy_from_slice(&self.stream.to_le_bytes());
        out[34..36].copy_from_slice(&(count as u16).to_le_bytes());
        out[36..38].copy_from_slice(&(kind.entry() as u16).to_le_bytes());
        out[38..40].fill(0);
        let tag = mac(self.key, &out[..end]);
        out[end..total].copy_from_slice(&tag);
        total
    }
}
