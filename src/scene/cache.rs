//! Disk cache of what takes long to build: key in, bytes out.
//!
//! One file an entry, written to a temporary file and renamed, so that a reader sees a whole entry or none and two writers
//! of the same key do no harm. Every byte of a file is covered by a BLAKE3 hash; whatever does not fit (damaged, cut off,
//! of another version, under a wrong name) is deleted, reported and built anew. Files are read, never mapped: a
//! mapping could fault in the servo's memory. A cache that cannot be used costs time and nothing else: no call here fails
//! for more than a note that says what happened and what to do.

mod entry;
mod field;
#[cfg(test)]
mod tests;
mod tree;

pub use field::{Source, decode_field, encode_field, field_key};

use entry::{Damage, Header};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Suffix of entries.
const SUFFIX: &str = "hcache";
/// Prefix of files being written.
const UNFINISHED: &str = ".hcache-";
/// Unfinished files older than this were left by a process that died.
const STALE: Duration = Duration::from_secs(3600);

/// Name of an entry: a hash of everything that decides its content.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key([u8; 32]);

impl Key {
    /// The key of an entry of a `kind`, whose encoding and making have a `version`, made from `parts`. Different
    /// arguments give different keys; each part is hashed with its length.
    pub fn new(kind: &str, version: u32, parts: &[&[u8]]) -> Self {
        let mut hash = blake3::Hasher::new();
        for part in [kind.as_bytes(), &version.to_le_bytes()].iter().chain(parts) {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Self(*hash.finalize().as_bytes())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// What the user should know about the cache; nothing of it stops the work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CacheNote {
    /// Nothing can be read or written.
    #[error(
        "built fields are not cached: {}: {cause}; everything is built anew each time; set cache.dir to a directory \
         that can be written", dir.display()
    )]
    Off {
        /// The directory.
        dir: PathBuf,
        /// What failed.
        cause: String,
    },
    /// Entries are read but not written.
    #[error(
        "new fields are not cached: {} cannot be written: {cause}; make it writable or set cache.dir", dir.display()
    )]
    ReadOnly {
        /// The directory.
        dir: PathBuf,
        /// What failed.
        cause: String,
    },
    /// An entry was no good; it was deleted where possible and is built anew.
    #[error("cache file {} dropped: {cause}; it is built anew", file.display())]
    Dropped {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// An entry could not be read.
    #[error("cache file {} not used: {cause}; it is built anew", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What failed.
        cause: String,
    },
    /// An entry could not be written.
    #[error("cache file {} not written: {cause}", file.display())]
    NotWritten {
        /// The file.
        file: PathBuf,
        /// What failed.
        cause: String,
    },
    /// An entry is larger than the whole cache may be.
    #[error("an entry of {bytes} bytes is larger than the cache may be ({cap} bytes); raise cache.size_mb")]
    TooLarge {
        /// Size of the entry's file.
        bytes: u64,
        /// The cap.
        cap: u64,
    },
}

/// What a look-up found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The entry's bytes, as they were put.
    Hit(Vec<u8>),
    /// There is no such entry.
    Miss,
    /// There was one, but it is no good.
    Bad(CacheNote),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    ReadWrite,
    ReadOnly,
    Off,
}

/// A directory of entries, shared by any number of threads and processes. Not real-time safe.
#[derive(Clone, Debug)]
pub struct Cache {
    dir: PathBuf,
    cap: u64,
    mode: Mode,
    /// Why it does less than asked.
    note: Option<CacheNote>,
}

impl Cache {
    /// Opens, and creates where needed (mode 0700), the cache in `dir`, whose files together may take `cap` bytes. Always
    /// gives a cache; the note says when it reads only or does nothing at all.
    pub fn open(dir: impl Into<PathBuf>, cap: u64) -> (Self, Option<CacheNote>) {
        let dir = dir.into();
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir);
        let listed = made.and_then(|()| fs::read_dir(&dir).map(drop));
        if let Err(e) = listed {
            let note = CacheNote::Off { dir: dir.clone(), cause: e.to_string() };
            return (Self { dir, cap, mode: Mode::Off, note: Some(note.clone()) }, Some(note));
        }
        if let Err(e) = unfinished(&dir).and_then(|mut f| f.write_all(b"?")) {
            let note = CacheNote::ReadOnly { dir: dir.clone(), cause: e.to_string() };
            return (Self { dir, cap, mode: Mode::ReadOnly, note: Some(note.clone()) }, Some(note));
        }
        let cache = Self { dir, cap, mode: Mode::ReadWrite, note: None };
        cache.sweep();
        (cache, None)
    }

    /// A cache that holds nothing and keeps nothing.
    pub fn none() -> Self {
        Self { dir: PathBuf::new(), cap: 0, mode: Mode::Off, note: None }
    }

    /// The file of an entry.
    pub fn path(&self, key: &Key) -> PathBuf {
        self.dir.join(format!("{key}.{SUFFIX}"))
    }

    /// Reads an entry. A hit makes it the youngest.
    pub fn get(&self, key: &Key) -> Lookup {
        if self.mode == Mode::Off {
            return Lookup::Miss;
        }
        let file = self.path(key);
        match read(&file, key) {
            Ok(bytes) => Lookup::Hit(bytes),
            Err(Damage::Io(e)) if e.kind() == ErrorKind::NotFound => Lookup::Miss,
            Err(Damage::Io(e)) => Lookup::Bad(CacheNote::Unreadable { file, cause: e.to_string() }),
            Err(Damage::Content(cause)) => {
                // Where it cannot be deleted it is found bad again the next time.
                let _ = fs::remove_file(&file);
                Lookup::Bad(CacheNote::Dropped { file, cause })
            }
        }
    }

    /// Deletes an entry whose bytes turned out to be of no use, and says so.
    pub fn drop_entry(&self, key: &Key, cause: &str) -> CacheNote {
        let file = self.path(key);
        let _ = fs::remove_file(&file);
        CacheNote::Dropped { file, cause: cause.into() }
    }

    /// Writes an entry, after deleting the oldest ones where the cap asks for it.
    ///
    /// # Errors
    /// A note when it was not written: directory read-only or full, entry too large. A cache that is off keeps silent
    /// (its note was given when it was opened).
    pub fn put(&self, key: &Key, bytes: &[u8]) -> Result<(), CacheNote> {
        if self.mode != Mode::ReadWrite {
            return Ok(());
        }
        let size = Header::SIZE as u64 + bytes.len() as u64;
        if size > self.cap {
            return Err(CacheNote::TooLarge { bytes: size, cap: self.cap });
        }
        let file = self.path(key);
        self.shrink(self.cap - size, &file);
        let write = || {
            let mut new = unfinished(&self.dir)?;
            new.write_all(&Header::of(key, bytes).encode())?;
            new.write_all(bytes)?;
            // No sync: after a power cut a hole in the file is found by its hash.
            new.persist(&file).map_err(|e| e.error)?;
            Ok(())
        };
        write().map_err(|e: io::Error| CacheNote::NotWritten { file: file.clone(), cause: e.to_string() })
    }

    /// Bytes of all entries.
    pub fn size(&self) -> u64 {
        self.entries().iter().map(|e| e.size).sum()
    }

    /// Deletes the oldest entries until the rest takes at most `cap` bytes; `replaced` goes anyway and does not count.
    fn shrink(&self, cap: u64, replaced: &Path) {
        let mut entries = self.entries();
        entries.retain(|e| e.path != replaced);
        entries.sort_by(|a, b| (a.used, &a.path).cmp(&(b.used, &b.path)));
        let mut total: u64 = entries.iter().map(|e| e.size).sum();
        for entry in entries {
            if total <= cap {
                break;
            }
            // Whoever reads it at this moment keeps it open and reads on.
            if fs::remove_file(&entry.path).is_ok() {
                total -= entry.size;
            }
        }
    }

    fn entries(&self) -> Vec<Entry> {
        let Ok(list) = fs::read_dir(&self.dir) else { return Vec::new() };
        list.flatten().filter_map(|e| Entry::of(&e.path())).collect()
    }

    /// Deletes what writers that died left behind.
    fn sweep(&self) {
        let Ok(list) = fs::read_dir(&self.dir) else { return };
        for entry in list.flatten() {
            let ours = entry.file_name().to_string_lossy().starts_with(UNFINISHED);
            let old = || {
                let age = SystemTime::now().duration_since(entry.metadata().ok()?.modified().ok()?).ok()?;
                (age > STALE).then_some(())
            };
            if ours && old().is_some() {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

struct Entry {
    path: PathBuf,
    size: u64,
    used: SystemTime,
}

impl Entry {
    fn of(path: &Path) -> Option<Self> {
        if path.extension()? != SUFFIX {
            return None;
        }
        let data = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?;
        Some(Self { path: path.into(), size: data.len(), used: data.modified().ok()? })
    }
}

/// A new temporary file, deleted unless it is persisted.
fn unfinished(dir: &Path) -> io::Result<tempfile::NamedTempFile> {
    tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(dir)
}

/// Reads and checks a file.
fn read(path: &Path, key: &Key) -> Result<Vec<u8>, Damage> {
    // Neither follow a link out of the cache nor hang on a pipe.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let mut file: File = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let data = file.metadata()?;
    if !data.is_file() {
        return Err(Damage::Content("it is no regular file".into()));
    }
    let mut head = [0; Header::SIZE];
    file.read_exact(&mut head).map_err(|e| match e.kind() {
        ErrorKind::UnexpectedEof => Damage::Content(format!("it is cut off at {} bytes", data.len())),
        _ => Damage::Io(e),
    })?;
    let header = Header::decode(&head)?;
    let payload = header.check(key, data.len())?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(payload).map_err(|e| Damage::Io(io::Error::other(e)))?;
    (&mut file).take(payload as u64).read_to_end(&mut bytes)?;
    header.check_payload(&bytes)?;
    // Only the order of deletion depends on it.
    let _ = file.set_modified(SystemTime::now());
    Ok(bytes)
}
