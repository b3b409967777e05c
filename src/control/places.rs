//! The daemon's directories. What cannot be used is said and done without.

use super::status::StatusBoard;
use crate::config::{Config, places};
use crate::scene::cache::CacheNote;
use crate::scene::compile::Compiler;
use std::path::PathBuf;

/// Where recordings go.
///
/// # Errors
/// Why nowhere, and what to do. A place that is given but cannot be used is a warning, too.
pub fn recordings(config: &Config, board: &StatusBoard) -> Result<PathBuf, String> {
    let Some(dir) = places::recordings(config) else {
        return Err("there is no directory for recordings; give recordings.dir in the configuration".into());
    };
    match std::fs::create_dir_all(&dir).and_then(|()| tempfile::tempfile_in(&dir)) {
        Ok(_) => Ok(dir),
        Err(e) => {
            let why = format!("{} cannot be written: {e}", dir.display());
            board.warn(format!("no recordings and no dumps: {why}"));
            Err(format!(
                "the directory for recordings {why}; make it writable or give another recordings.dir"
            ))
        }
    }
}

/// A compiler with the memory cap and the disk cache of the configuration; the note says how far the cache cannot be used.
pub fn kept(config: &Config) -> (Compiler, Option<CacheNote>) {
    Compiler::kept(config.scene.memory_cap(), places::cache(config), config.cache.size_mb << 20)
}

/// The daemon's compiler; what its cache lacks becomes a warning.
pub fn compiler(config: &Config, board: &StatusBoard) -> Compiler {
    let (compiler, note) = kept(config);
    if let Some(note) = note {
        board.warn(note.to_string());
    }
    compiler
}
