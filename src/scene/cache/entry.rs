//! Layout of a cache file: a header of fixed size, then the payload. Little-endian.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | magic `hapticdC` |
//! | 8..12 | version of this layout |
//! | 12..16 | zero |
//! | 16..48 | key |
//! | 48..56 | length of the payload |
//! | 56..88 | BLAKE3 of the payload |
//! | 88..120 | BLAKE3 of bytes 0..88 |

use super::Key;
use std::io;

const MAGIC: [u8; 8] = *b"hapticdC";
/// Version of the layout of the file; entries have a version of their own in their key.
const VERSION: u32 = 1;

/// Why a file cannot be used.
pub(super) enum Damage {
    Io(io::Error),
    Content(String),
}

impl From<io::Error> for Damage {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

pub(super) struct Header {
    key: [u8; 32],
    length: u64,
    hash: [u8; 32],
}

impl Header {
    pub(super) const SIZE: usize = 120;
    const SIGNED: usize = 88;

    pub(super) fn of(key: &Key, payload: &[u8]) -> Self {
        Self { key: key.0, length: payload.len() as u64, hash: *blake3::hash(payload).as_bytes() }
    }

    pub(super) fn encode(&self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        out[0..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[16..48].copy_from_slice(&self.key);
        out[48..56].copy_from_slice(&self.length.to_le_bytes());
        out[56..88].copy_from_slice(&self.hash);
        let seal = blake3::hash(&out[..Self::SIGNED]);
        out[Self::SIGNED..].copy_from_slice(seal.as_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8; Self::SIZE]) -> Result<Self, Damage> {
        let bad = |cause: String| Err(Damage::Content(cause));
        if bytes[0..8] != MAGIC {
            return bad("it does not begin like a cache file".into());
        }
        let version = u32::from_le_bytes(part(bytes, 8));
        if version != VERSION {
            return bad(format!("it has version {version}, this program writes {VERSION}"));
        }
        if blake3::hash(&bytes[..Self::SIGNED]).as_bytes() != &bytes[Self::SIGNED..] {
            return bad("its header is damaged".into());
        }
        Ok(Self { key: part(bytes, 16), length: u64::from_le_bytes(part(bytes, 48)), hash: part(bytes, 56) })
    }

    /// Length of the payload, if the file is this key's and as long as it says.
    pub(super) fn check(&self, key: &Key, file_size: u64) -> Result<usize, Damage> {
        let bad = |cause: String| Err(Damage::Content(cause));
        if self.key != key.0 {
            return bad("it holds another entry than its name says".into());
        }
        if self.length.checked_add(Self::SIZE as u64) != Some(file_size) {
            return bad(format!(
                "it has {file_size} bytes where {} bytes of payload are announced",
                self.length
            ));
        }
        usize::try_from(self.length).or_else(|_| bad("it is too large for this machine".into()))
    }

    pub(super) fn check_payload(&self, payload: &[u8]) -> Result<(), Damage> {
        if payload.len() as u64 == self.length && *blake3::hash(payload).as_bytes() == self.hash {
            return Ok(());
        }
        Err(Damage::Content("its content is damaged".into()))
    }
}

fn part<const N: usize>(bytes: &[u8; Header::SIZE], at: usize) -> [u8; N] {
    std::array::from_fn(|i| bytes[at + i])
}
