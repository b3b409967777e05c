//! Recordings of the servo's ticks: MCAP files that common viewers plot and that give every number back bit for bit.
//!
//! A file holds one channel, [`TOPIC`], with one message a tick. The message is CDR (little endian, fixed layout)
//! described by a ROS 2 message definition inside the file, so that Foxglove, PlotJuggler and the `mcap` libraries
//! read it without anything of ours. One list of fields in [`layout`] drives definition, encoder and decoder.
//! Formats: <https://mcap.dev/spec>, <https://mcap.dev/spec/registry> ("ros2msg", "cdr"), OMG DDSI-RTPS 2.5 section 10.
//!
//! Nothing here may run on the servo thread: records come from its telemetry ring.

pub mod header;
pub mod layout;
mod reader;
pub mod rotate;
pub mod worker;
mod writer;

pub use header::{ClockKind, Header, VIRTUAL};
pub use reader::{Recording, load};
pub use writer::{CHUNK_RECORDS, Recorder};

/// Topic of the tick channel.
pub const TOPIC: &str = "/hapticd/tick";
/// Name of the message type.
pub const SCHEMA_NAME: &str = "hapticd/msg/TickRecord";

/// Why a recording could not be written or read. Each names the file.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file system refused.
    #[error("{path}: {what}: {source}")]
    Io {
        /// The file.
        path: String,
        /// What was tried.
        what: &'static str,
        /// The cause.
        source: std::io::Error,
    },
    /// The MCAP layer refused.
    #[error("{path}: {what}: {source}")]
    Mcap {
        /// The file.
        path: String,
        /// What was tried.
        what: &'static str,
        /// The cause.
        source: mcap::McapError,
    },
    /// The file is no recording of ours, or of another layout.
    #[error("{path}: {why}")]
    NotOurs {
        /// The file.
        path: String,
        /// What is wrong and what to do.
        why: String,
    },
}

impl RecordingError {
    /// Unwraps the MCAP layer's I/O errors, whose own text hides the cause.
    fn mcap(path: &std::path::Path, what: &'static str, source: mcap::McapError) -> Self {
        let path = path.display().to_string();
        match source {
            mcap::McapError::Io(source) => Self::Io { path, what, source },
            source => Self::Mcap { path, what, source },
        }
    }
}
