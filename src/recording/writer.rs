//! Writes a recording. Not for the servo thread.

use super::header::METADATA_NAME;
use super::{Header, RecordingError, SCHEMA_NAME, TOPIC, layout};
use crate::servo::record::TickRecord;
use mcap::records::{MessageHeader, Metadata};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

/// Records in a chunk. A chunk reaches the file whole, so a crash loses at most this many ticks.
pub const CHUNK_RECORDS: u32 = 512;

/// Bytes that MCAP adds to each message: record head, message head, index entry.
const MESSAGE_OVERHEAD: u64 = 9 + 22 + 16;

/// An open recording. Dropping it closes the file properly; [`Recorder::finish`] also reports errors.
pub struct Recorder {
    path: PathBuf,
    writer: mcap::Writer<BufWriter<File>>,
    channel: u16,
    epoch_ns: u64,
    sequence: u32,
    in_chunk: u32,
    bytes: u64,
    buffer: Vec<u8>,
}

impl Recorder {
    /// Creates the file (an existing one is replaced) and writes its head.
    ///
    /// # Errors
    /// The file cannot be created or written.
    pub fn create(path: &Path, header: &Header) -> Result<Self, RecordingError> {
        let file = File::create(path).map_err(|source| RecordingError::Io {
            path: path.display().to_string(),
            what: "cannot create the recording",
            source,
        })?;
        let failed = |source| RecordingError::mcap(path, "cannot write the recording's head", source);
        // Chunks are gathered in memory and written whole: what a crash leaves behind ends at a chunk's end.
        let mut writer = mcap::WriteOptions::new()
            .profile("ros2")
            .library(concat!("hapticd ", env!("CARGO_PKG_VERSION")))
            .compression(None)
            .chunk_size(None)
            .disable_seeking(true)
            .create(BufWriter::with_capacity(1 << 16, file))
            .map_err(failed)?;
        let metadata = Metadata { name: METADATA_NAME.into(), metadata: header.to_map() };
        writer.write_metadata(&metadata).map_err(failed)?;
        let schema =
            writer.add_schema(SCHEMA_NAME, "ros2msg", layout::schema().as_bytes()).map_err(failed)?;
        let channel = writer.add_channel(schema, TOPIC, "cdr", &BTreeMap::new()).map_err(failed)?;
        writer.flush().map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            writer,
            channel,
            epoch_ns: header.epoch_ns,
            sequence: 0,
            in_chunk: 0,
            // The definition stands in the file and again in its index.
            bytes: 4096 + 2 * layout::schema().len() as u64,
            buffer: Vec::with_capacity(layout::encoded_len()),
        })
    }

    /// Adds one record. May block on the file system.
    ///
    /// # Errors
    /// The file cannot be written (disk full).
    pub fn push(&mut self, record: &TickRecord) -> Result<(), RecordingError> {
        layout::encode(record, &mut self.buffer);
        let time = self.epoch_ns.saturating_add(record.planned_ns);
        let head = MessageHeader {
            channel_id: self.channel,
            sequence: self.sequence,
            log_time: time,
            publish_time: time,
        };
        let result = self.writer.write_to_known_channel(&head, &self.buffer);
        result.map_err(|source| self.failed("cannot write a record", source))?;
        self.sequence = self.sequence.wrapping_add(1);
        self.in_chunk += 1;
        self.bytes += self.buffer.len() as u64 + MESSAGE_OVERHEAD;
        if self.in_chunk == CHUNK_RECORDS {
            self.flush()?;
        }
        Ok(())
    }

    /// Ends the present chunk and hands everything to the operating system.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn flush(&mut self) -> Result<(), RecordingError> {
        self.in_chunk = 0;
        let result = self.writer.flush();
        result.map_err(|source| self.failed("cannot write a chunk", source))
    }

    /// Records written so far.
    #[must_use]
    pub fn records(&self) -> u64 {
        u64::from(self.sequence)
    }

    /// Size of the file so far, bytes, a little overestimated.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the index and closes the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(mut self) -> Result<(), RecordingError> {
        let result = self.writer.finish();
        result.map_err(|source| self.failed("cannot close the recording", source))?;
        let path = self.path.display().to_string();
        self.writer.into_inner().flush().map_err(|source| RecordingError::Io {
            path,
            what: "cannot close the recording",
            source,
        })
    }

    fn failed(&self, what: &'static str, source: mcap::McapError) -> RecordingError {
        RecordingError::mcap(&self.path, what, source)
    }
}
