//! The daemon's directories. What cannot be used is said and done without.

use super::status::StatusBoard;
use crate::config::{Config, places};
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

/// The compiler with its disk cache; with less of it, and a warning, where it cannot be used.
pub fn compiler(config: &Config, board: &StatusBoard) -> Compiler {
    let (compiler, note) =
        Compiler::kept(config.scene.memory_cap(), places::cache(config), config.cache.size_mb << 20);
    if let Some(note) = note {
        board.warn(note.to_string());
    }
    compiler
}
