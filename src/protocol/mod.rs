//! Wire types only: control messages (JSON-RPC 2.0, one object a line) and motion and state datagrams (bytes).
//! No behaviour: nothing here opens a socket or knows a scene. `docs/protocol.md` is the normative text.
//!
//! Units are SI, frames right-handed, quaternions `[x, y, z, w]`; integers in datagrams are little-endian.

pub mod datagram;
pub mod edit;
pub mod messages;
pub mod replay;
pub mod rpc;
pub mod telemetry;

/// Version of both planes. A peer of another major is refused; a larger minor may append fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Version {
    /// Changes when old peers would misunderstand.
    pub major: u8,
    /// Changes when fields are appended.
    pub minor: u8,
}

/// The version this build speaks.
pub const VERSION: Version = Version { major: 1, minor: 0 };
/// The oldest major this build still serves.
pub const OLDEST_MAJOR: u8 = 1;

/// Picks the major to speak with a client that offers `min..=max`: the largest that both know.
pub fn negotiate(min: u8, max: u8) -> Option<u8> {
    let best = max.min(VERSION.major);
    (min <= max && best >= min && best >= OLDEST_MAJOR).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negotiation_picks_the_largest_common_major() {
        assert_eq!(negotiate(1, 1), Some(1));
        assert_eq!(negotiate(1, 9), Some(VERSION.major));
        assert_eq!(negotiate(0, 0), None);
        assert_eq!(negotiate(VERSION.major + 1, 9), None);
        assert_eq!(negotiate(2, 1), None);
    }
}
