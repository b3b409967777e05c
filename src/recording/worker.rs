//! A recorder on its own thread, so that a slow disk delays nobody: telemetry offers, the disk takes when it can.

use super::rotate::Rotating;
use super::{Recorder, RecordingError};
use crate::servo::record::TickRecord;
use crossbeam::channel::{Sender, TrySendError, bounded};
use std::thread::JoinHandle;

/// Where the thread writes.
#[expect(clippy::large_enum_variant, reason = "there is one, moved once")]
pub enum Sink {
    /// One file.
    One(Recorder),
    /// Pieces within caps.
    Pieces(Rotating),
}

impl Sink {
    fn push(&mut self, record: &TickRecord) -> Result<(), RecordingError> {
        match self {
            Self::One(r) => r.push(record),
            Self::Pieces(r) => r.push(record),
        }
    }

    fn finish(self) -> Result<(), RecordingError> {
        match self {
            Self::One(r) => r.finish(),
            Self::Pieces(r) => r.finish(),
        }
    }
}

/// Handle of the recording thread.
pub struct Worker {
    queue: Sender<TickRecord>,
    thread: JoinHandle<Result<u64, RecordingError>>,
    dropped: u64,
}

impl Worker {
    /// Starts the thread; `capacity` records may wait for the disk.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn spawn(mut sink: Sink, capacity: usize) -> std::io::Result<Self> {
        let (queue, waiting) = bounded::<TickRecord>(capacity);
        let thread = std::thread::Builder::new().name("recorder".into()).spawn(move || {
            let mut written = 0;
            for record in waiting {
                sink.push(&record)?;
                written += 1;
            }
            sink.finish()?;
            Ok(written)
        })?;
        Ok(Self { queue, thread, dropped: 0 })
    }

    /// Hands a record over, never waiting. False when it was dropped: the queue is full, or the disk has failed.
    pub fn offer(&mut self, record: &TickRecord) -> bool {
        match self.queue.try_send(*record) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.dropped += 1;
                false
            }
        }
    }

    /// True while the thread takes records; false after the disk failed ([`Worker::finish`] says how).
    #[must_use]
    pub fn alive(&self) -> bool {
        !self.thread.is_finished()
    }

    /// Records dropped so far.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Writes what waits, closes the file and gives the number of records written and dropped. Waits for the disk.
    ///
    /// # Errors
    /// The first failure of the recorder.
    pub fn finish(self) -> Result<(u64, u64), RecordingError> {
        drop(self.queue);
        match self.thread.join() {
            Ok(written) => Ok((written?, self.dropped)),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ClockKind, Header, load};
    use super::*;

    #[test]
    fn records_offered_and_taken_are_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("w.mcap");
        let recorder = Recorder::create(&path, &Header::new("d", "s", ClockKind::Real)).unwrap();
        let mut worker = Worker::spawn(Sink::One(recorder), 64).unwrap();
        let mut taken = Vec::new();
        for tick in 0..5000 {
            if worker.offer(&TickRecord { tick, ..TickRecord::default() }) {
                taken.push(tick);
            }
        }
        let (written, dropped) = worker.finish().unwrap();
        assert_eq!(written + dropped, 5000);
        let ticks: Vec<u64> = load(&path).unwrap().1.iter().map(|r| r.tick).collect();
        assert_eq!(ticks, taken);
    }

    #[test]
    fn a_full_disk_is_named() {
        let error = Recorder::create(std::path::Path::new("/dev/full"), &Header::default()).err().unwrap();
        assert!(error.to_string().contains("No space left"), "{error}");
    }
}
