//! Compiling scenes on the command line: with the disk cache of the configuration, and what there is to say about it.

use super::out::{self, Unwritable};
use crate::config::Config;
use crate::control::places;
use crate::scene::compile::{CompileReport, Compiler};

/// A compiler with the memory cap and the disk cache of the configuration. How far the cache cannot be used is a note in
/// the report of each compilation that builds something.
pub fn compiler(config: &Config) -> Compiler {
    places::kept(config).0
}

/// Prints what the user should know about a compilation.
///
/// # Errors
/// Standard output takes nothing.
pub fn say(report: &CompileReport) -> Result<(), Unwritable> {
    for (_, warning) in &report.warnings {
        out::line(format_args!("warning: {warning}"))?;
    }
    for note in &report.cache_notes {
        out::line(format_args!("note: {note}"))?;
    }
    Ok(())
}
