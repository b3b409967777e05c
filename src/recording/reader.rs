//! Reads a recording back, a bounded piece at a time. A file that a crash cut off gives what its whole chunks hold.

use super::header::METADATA_NAME;
use super::{Header, RecordingError, SCHEMA_NAME, TOPIC, layout};
use crate::servo::record::TickRecord;
use mcap::records::Record;
use mcap::sans_io::{LinearReadEvent, LinearReader, LinearReaderOptions};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Longest record or chunk accepted: far above what [`super::Recorder`] writes, far below what hurts.
const RECORD_LIMIT: usize = 64 << 20;

/// An open recording: an iterator over its records.
///
/// The iterator ends at the end of the file or where the file stops making sense; [`Recording::notice`] then says
/// whether anything is missing.
pub struct Recording {
    path: PathBuf,
    file: File,
    reader: LinearReader,
    header: Header,
    schema: Option<u16>,
    channel: Option<u16>,
    /// First record, met while looking for the head.
    pending: Option<TickRecord>,
    records: u64,
    done: bool,
    notice: Option<String>,
}

/// What one step through the file gave.
enum Step {
    Metadata(Header),
    Tick(Box<TickRecord>),
    Other,
    End,
}

impl Recording {
    /// Opens a recording and reads its head.
    ///
    /// # Errors
    /// The file cannot be read, is no MCAP file, is not ours, or was written with another record layout.
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        let file = File::open(path).map_err(|source| RecordingError::Io {
            path: path.display().to_string(),
            what: "cannot open the recording",
            source,
        })?;
        let options = LinearReaderOptions::default()
            .with_prevalidate_chunk_crcs(true)
            .with_record_length_limit(RECORD_LIMIT);
        let mut this = Self {
            path: path.to_owned(),
            file,
            reader: LinearReader::new_with_options(options),
            header: Header::default(),
            schema: None,
            channel: None,
            pending: None,
            records: 0,
            done: false,
            notice: None,
        };
        let mut headed = false;
        loop {
            match this.step().map_err(|why| this.not_ours(why))? {
                Step::Metadata(header) => {
                    this.header = header;
                    headed = true;
                }
                Step::Tick(record) => {
                    this.pending = Some(*record);
                    break;
                }
                Step::Other => {}
                Step::End => {
                    this.done = true;
                    break;
                }
            }
            if headed && this.channel.is_some() {
                break;
            }
        }
        if !headed {
            return Err(this.not_ours(match &this.notice {
                Some(cut) => format!("cut off before its head was complete ({cut}); nothing can be saved"),
                None => "an MCAP file without the metadata record 'hapticd': not written by hapticd".into(),
            }));
        }
        Ok(this)
    }

    /// What the recording says about itself.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// After the last record: why the file ended early, if it did.
    #[must_use]
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    fn not_ours(&self, why: String) -> RecordingError {
        RecordingError::NotOurs { path: self.path.display().to_string(), why }
    }

    /// Ends the iteration here and says why.
    fn cut(&mut self, why: &str) -> Step {
        self.notice = Some(format!(
            "{}: {why}; the {} records before are whole, what follows is lost",
            self.path.display(),
            self.records
        ));
        Step::End
    }

    /// One event of the file. `Err` = the file is whole but not ours.
    fn step(&mut self) -> Result<Step, String> {
        loop {
            let Some(event) = self.reader.next_event() else { return Ok(Step::End) };
            let record = match event {
                Ok(LinearReadEvent::ReadRequest(need)) => {
                    let need = need.min(1 << 20);
                    match self.file.read(self.reader.insert(need)) {
                        Ok(got) => self.reader.notify_read(got),
                        Err(error) => return Ok(self.cut(&format!("cannot be read on ({error})"))),
                    }
                    continue;
                }
                Ok(LinearReadEvent::Record { data, opcode }) => {
                    mcap::parse_record(opcode, data).map(Record::into_owned)
                }
                Err(error) => Err(error),
            };
            return match record {
                Err(mcap::McapError::BadMagic) if self.records == 0 && self.schema.is_none() => {
                    Err("not an MCAP file".into())
                }
                Err(mcap::McapError::UnexpectedEof) => {
                    Ok(self.cut("ends in the middle (its writer was stopped before it could close the file)"))
                }
                Err(error) => Ok(self.cut(&format!("damaged ({error})"))),
                Ok(record) => self.sort(record),
            };
        }
    }

    fn sort(&mut self, record: Record<'_>) -> Result<Step, String> {
        match record {
            Record::Metadata(m) if m.name == METADATA_NAME => {
                Header::from_map(m.metadata).map(Step::Metadata)
            }
            Record::Schema { header, data } if header.name == SCHEMA_NAME => {
                if *data != *layout::schema().as_bytes() {
                    return Err(format!(
                        "written with other record fields than hapticd {} knows; read it with the version named in \
                         its metadata ('{}') or with any MCAP tool",
                        env!("CARGO_PKG_VERSION"),
                        self.header.version
                    ));
                }
                self.schema = Some(header.id);
                Ok(Step::Other)
            }
            Record::Channel(c) if c.topic == TOPIC && Some(c.schema_id) == self.schema => {
                self.channel = Some(c.id);
                Ok(Step::Other)
            }
            Record::Message { header, data } if Some(header.channel_id) == self.channel => {
                match layout::decode(&data) {
                    Ok(record) => {
                        self.records += 1;
                        Ok(Step::Tick(Box::new(record)))
                    }
                    Err(error) => Ok(self.cut(&format!("holds a message that is no record ({error})"))),
                }
            }
            _ => Ok(Step::Other),
        }
    }
}

impl Iterator for Recording {
    type Item = TickRecord;

    fn next(&mut self) -> Option<TickRecord> {
        if let Some(record) = self.pending.take() {
            return Some(record);
        }
        while !self.done {
            match self.step() {
                Ok(Step::Tick(record)) => return Some(*record),
                Ok(Step::Metadata(_) | Step::Other) => {}
                Ok(Step::End) => self.done = true,
                Err(why) => {
                    let _ = self.cut(&why);
                    self.done = true;
                }
            }
        }
        None
    }
}

/// Reads a whole recording into memory (about half a kilobyte a tick).
///
/// # Errors
/// As [`Recording::open`]. A file cut off in the middle is no error: its whole chunks come with a notice.
pub fn load(path: &Path) -> Result<(Header, Vec<TickRecord>, Option<String>), RecordingError> {
    let mut recording = Recording::open(path)?;
    let records: Vec<TickRecord> = recording.by_ref().collect();
    Ok((recording.header.clone(), records, recording.notice))
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
