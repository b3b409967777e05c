//! The daemon's configuration: file to raw to validated. Errors name file, line and key.
//!
//! `config/hapticd.toml` documents every key; a test holds it and the defaults together. [`source`] is the
//! reader underneath, which scene files use too.

mod coupling;
mod devices;
mod limits;
pub mod places;
mod sections;
pub mod source;
#[cfg(test)]
mod tests;

pub use coupling::{Coupling, Law, Preset};
pub use devices::MAX_DEVICES;
pub use limits::{Energy, Limits};
pub use sections::{Arming, Cache, Control, Core, Device, Driver, Recordings, Scene, Servo};
pub use source::SourceError;

use source::{Source, Table};
use std::path::Path;

/// The shipped configuration file with every key.
pub const SHIPPED: &str = include_str!("../../config/hapticd.toml");

/// Validated configuration. Paths are absolute or relative to the working directory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// The device, or the first of several, and, for simulated ones, its hand.
    pub device: Device,
    /// The further devices of a list (`[[device]]`).
    pub more: Vec<Device>,
    /// The servo thread.
    pub servo: Servo,
    /// Limits that guard the hand.
    pub limits: Limits,
    /// Between device and tool.
    pub coupling: Coupling,
    /// Arming and releasing.
    pub arming: Arming,
    /// Control plane.
    pub control: Control,
    /// Scene.
    pub scene: Scene,
    /// Disk cache of fields.
    pub cache: Cache,
    /// Recordings.
    pub recordings: Recordings,
}

/// Why a configuration was not loaded.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("{path}: {error}")]
    Read {
        /// The file.
        path: String,
        /// Cause.
        error: std::io::Error,
    },
    /// The file is wrong.
    #[error(transparent)]
    Source(#[from] SourceError),
}

/// Largest configuration or scene file that is read, bytes.
pub const MAX_FILE: u64 = 16 << 20;

impl Config {
    /// Reads and validates a file.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let name = path.display().to_string();
        let text = read_text(path).map_err(|error| ConfigError::Read { path: name.clone(), error })?;
        Ok(Self::parse(&name, &text, path.parent().unwrap_or(Path::new("")))?)
    }

    /// Validates the text of a file; relative paths are taken from `base`.
    ///
    /// # Errors
    /// [`SourceError`].
    pub fn parse(file: &str, text: &str, base: &Path) -> Result<Self, SourceError> {
        let source = Source::parse(file, text)?;
        Self::read(&source, base)
    }

    fn read(source: &Source<'_>, base: &Path) -> Result<Self, SourceError> {
        let root = source.root();
        let (device, more) = devices::read(&root, base)?;
        let config = Self {
            device,
            more,
            servo: section(&root, "servo", Servo::read)?,
            limits: section(&root, "limits", Limits::read)?,
            coupling: section(&root, "coupling", Coupling::read)?,
            arming: section(&root, "arming", Arming::read)?,
            control: section(&root, "control", Control::read)?,
            scene: section(&root, "scene", |t| Scene::read(t, base))?,
            cache: section(&root, "cache", |t| Cache::read(t, base))?,
            recordings: section(&root, "recordings", |t| Recordings::read(t, base))?,
        };
        root.finish()?;
        Ok(config)
    }
}

/// Reads one section and refuses its unknown keys; a section that is not there has its defaults.
fn section<T: Default>(
    root: &Table<'_>,
    key: &str,
    read: impl FnOnce(&Table<'_>) -> Result<T, SourceError>,
) -> Result<T, SourceError> {
    let Some(table) = root.table(key)? else { return Ok(T::default()) };
    let value = read(&table)?;
    table.finish()?;
    Ok(value)
}

/// Opens a regular file for reading. A FIFO without a writer is not waited for, a device is not read without end.
///
/// # Errors
/// What the system says; `InvalidInput` for what is no regular file.
pub fn open_regular(path: &Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = std::fs::File::options().read(true).custom_flags(flags).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        return Ok(file);
    }
    let what = if kind.is_dir() { "a directory" } else { "a pipe, device or socket" };
    let text = format!("is not a regular file but {what}");
    Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, text))
}

/// Reads a small text file.
///
/// # Errors
/// What the system says; a file larger than [`MAX_FILE`] is refused.
pub fn read_text(path: &Path) -> std::io::Result<String> {
    use std::io::Read;
    use std::os::unix::fs::OpenOptionsExt;
    let mut text = String::new();
    // Opening a FIFO must not wait for a writer; reading one that nobody writes to is an empty file.
    let file = std::fs::File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    nix::fcntl::fcntl(&file, nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::empty()))?;
    file.take(MAX_FILE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE {
        return Err(std::io::Error::other(format!("larger than {MAX_FILE} bytes")));
    }
    Ok(text)
}
