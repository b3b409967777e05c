//! Size caps: a directory of recordings never grows beyond its share of the disk, oldest deleted first.

use super::{Header, Recorder, RecordingError};
use crate::servo::record::TickRecord;
use std::path::{Path, PathBuf};

/// How much a directory of files may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// One file, bytes; then the next one begins.
    pub file_bytes: u64,
    /// All files together, bytes.
    pub total_bytes: u64,
}

impl Default for Caps {
    /// 256 MiB a file (about ten minutes at 1 kHz), 4 GiB in all.
    fn default() -> Self {
        Self { file_bytes: 256 << 20, total_bytes: 4 << 30 }
    }
}

/// Deletes the oldest files of `dir` that end in `.suffix` until at most `cap` bytes remain; `keep` is never deleted.
/// Age is the time of last change, then the name. Returns what was deleted. Only plain files count: links and
/// directories are left alone.
///
/// # Errors
/// The directory cannot be read or a file not deleted.
pub fn prune(dir: &Path, suffix: &str, cap: u64, keep: Option<&Path>) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        let path = entry.path();
        if meta.is_file() && path.extension().is_some_and(|e| e == suffix) {
            files.push((meta.modified()?, path, meta.len()));
        }
    }
    files.sort();
    let mut total: u64 = files.iter().map(|f| f.2).sum();
    let mut deleted = Vec::new();
    for (_, path, len) in files {
        if total <= cap {
            break;
        }
        if Some(path.as_path()) == keep {
            continue;
        }
        match std::fs::remove_file(&path) {
            Ok(()) => deleted.push(path),
            // Somebody else deleted it meanwhile: the room is free all the same.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        total -= len;
    }
    Ok(deleted)
}

/// A recording in pieces `PREFIX-0001.mcap`, `PREFIX-0002.mcap`, ... within [`Caps`].
pub struct Rotating {
    dir: PathBuf,
    prefix: String,
    header: Header,
    caps: Caps,
    part: u32,
    recorder: Recorder,
}

impl Rotating {
    /// Starts the first piece.
    ///
    /// # Errors
    /// The directory or file cannot be made.
    pub fn create(dir: &Path, prefix: &str, header: Header, caps: Caps) -> Result<Self, RecordingError> {
        std::fs::create_dir_all(dir).map_err(|source| io(dir, "cannot make the directory", source))?;
        let recorder = open_part(dir, prefix, &header, 1)?;
        let this = Self { dir: dir.into(), prefix: prefix.into(), header, caps, part: 1, recorder };
        this.prune()?;
        Ok(this)
    }

    /// Adds a record; begins the next piece, and deletes the oldest, when the present one is full.
    ///
    /// # Errors
    /// As [`Recorder::push`].
    pub fn push(&mut self, record: &TickRecord) -> Result<(), RecordingError> {
        if self.recorder.bytes() >= self.caps.file_bytes && self.recorder.records() > 0 {
            let next = open_part(&self.dir, &self.prefix, &self.header, self.part + 1)?;
            self.part += 1;
            std::mem::replace(&mut self.recorder, next).finish()?;
            self.prune()?;
        }
        self.recorder.push(record)
    }

    /// The piece being written.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.recorder.path()
    }

    /// Closes the last piece.
    ///
    /// # Errors
    /// As [`Recorder::finish`].
    pub fn finish(self) -> Result<(), RecordingError> {
        self.recorder.finish()
    }

    fn prune(&self) -> Result<(), RecordingError> {
        // The present piece may still grow to a whole file.
        let cap = self.caps.total_bytes.saturating_sub(self.caps.file_bytes);
        prune(&self.dir, "mcap", cap, Some(self.recorder.path()))
            .map_err(|source| io(&self.dir, "cannot delete old recordings", source))?;
        Ok(())
    }
}

fn open_part(dir: &Path, prefix: &str, header: &Header, part: u32) -> Result<Recorder, RecordingError> {
    Recorder::create(&dir.join(format!("{prefix}-{part:04}.mcap")), header)
}

fn io(path: &Path, what: &'static str, source: std::io::Error) -> RecordingError {
    RecordingError::Io { path: path.display().to_string(), what, source }
}

#[cfg(test)]
mod tests {
    use super::super::load;
    use super::*;
    use std::fs::{self, File, FileTimes};
    use std::time::{Duration, SystemTime};

    fn file(dir: &Path, name: &str, len: usize, age_s: u64) -> PathBuf {
        let path = dir.join(name);
        fs::write(&path, vec![0; len]).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 - age_s);
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_times(FileTimes::new().set_modified(time))
            .unwrap();
        path
    }

    #[test]
    fn the_oldest_go_first_and_the_kept_one_stays() {
        let dir = tempfile::tempdir().unwrap();
        let oldest = file(dir.path(), "z.mcap", 100, 50);
        let kept = file(dir.path(), "a.mcap", 100, 40);
        let middle = file(dir.path(), "b.mcap", 100, 30);
        let newest = file(dir.path(), "c.mcap", 100, 10);
        let other = file(dir.path(), "old.txt", 100, 99);
        let link = dir.path().join("link.mcap");
        std::os::unix::fs::symlink(&other, &link).unwrap();
        let gone = prune(dir.path(), "mcap", 200, Some(&kept)).unwrap();
        assert_eq!(gone, [oldest, middle]);
        assert!(kept.exists() && newest.exists() && other.exists() && link.exists());
    }

    #[test]
    fn pieces_stay_within_the_caps_and_follow_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let caps = Caps { file_bytes: 60_000, total_bytes: 200_000 };
        let mut rotating = Rotating::create(dir.path(), "run", Header::default(), caps).unwrap();
        let mut largest = 0;
        for tick in 0..2000 {
            rotating.push(&TickRecord { tick, ..TickRecord::default() }).unwrap();
            let used: u64 =
                fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
            largest = largest.max(used);
        }
        rotating.finish().unwrap();
        assert!(largest <= caps.total_bytes, "{largest}");
        let mut names: Vec<PathBuf> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().path()).collect();
        names.sort();
        assert!(names.len() >= 2 && names.len() <= 4, "{names:?}");
        let ticks: Vec<u64> = names.iter().flat_map(|p| load(p).unwrap().1).map(|r| r.tick).collect();
        assert_eq!(ticks.last(), Some(&1999));
        assert!(ticks.windows(2).all(|w| w[1] == w[0] + 1), "pieces do not follow each other");
    }
}
