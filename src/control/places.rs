//! The daemon's directories. What cannot be used is said and done without.

use super::status::StatusBoard;
use crate::config::{Config, places};
use crate::scene::cache::CacheNote;
use crate::scene::compile::Compiler;
use std::path::PathBuf;

/// Where recordings go; `None`, with a warning, when nowhere.
pub fn recordings(config: &Config, board: &StatusBoard) -> Option<PathBuf> {
    let dir = places::recordings(config)?;
    match std::fs::create_dir_all(&dir).and_then(|()| tempfile::tempfile_in(&dir)) {
        Ok(_) => Some(dir),
        Err(e) => {
            board.warn(format!("no recordings and no dumps: {} cannot be written: {e}", dir.display()));
            None
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
