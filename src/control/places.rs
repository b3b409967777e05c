//! Directories of the daemon: given, or those of systemd, or those of the user. What cannot be used is said and done
//! without.

use super::status::StatusBoard;
use crate::config::Config;
use crate::scene::compile::Compiler;
use std::path::{Path, PathBuf};

/// The first of: the configured directory, systemd's, the user's.
fn choose(given: Option<&Path>, systemd: &str, xdg: &str, fallback: &str) -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let first = |dirs: PathBuf| dirs.to_string_lossy().split(':').next().map(PathBuf::from);
    given
        .map(Path::to_path_buf)
        .or_else(|| variable(systemd).and_then(first))
        .or_else(|| variable(xdg).map(|d| d.join("hapticd")))
        .or_else(|| variable("HOME").map(|d| d.join(fallback).join("hapticd")))
}

/// Makes the directory and checks that files can be made in it.
fn usable(dir: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    tempfile::tempfile_in(dir).map(drop)
}

/// Where recordings go; `None`, with a warning, when nowhere.
pub fn recordings(given: Option<&Path>, board: &StatusBoard) -> Option<PathBuf> {
    let dir = choose(given, "STATE_DIRECTORY", "XDG_STATE_HOME", ".local/state")?;
    match usable(&dir) {
        Ok(()) => Some(dir),
        Err(e) => {
            board.warn(format!("no recordings and no dumps: {} cannot be written: {e}", dir.display()));
            None
        }
    }
}

/// The compiler with its disk cache; without one, and with a warning, when the cache cannot be written.
pub fn compiler(config: &Config, board: &StatusBoard) -> Compiler {
    let cap = config.scene.memory_cap();
    let dir = choose(config.cache.dir.as_deref(), "CACHE_DIRECTORY", "XDG_CACHE_HOME", ".cache");
    if let Some(dir) = dir.filter(|_| config.cache.size_mb > 0)
        && let Err(e) = usable(&dir)
    {
        board.warn(format!(
            "fields are not kept on disk: the cache {} cannot be written: {e}; scenes are built anew each time",
            dir.display()
        ));
    }
    Compiler::new(cap)
}
