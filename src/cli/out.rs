//! Standard output whose errors are errors of the command, not panics.

use std::fmt::Display;
use std::io::{self, Write};

/// Standard output takes no more.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to the standard output: {0}")]
pub struct Unwritable(pub io::Error);

/// Writes the text as it is.
///
/// # Errors
/// [`Unwritable`].
pub fn text(text: impl Display) -> Result<(), Unwritable> {
    let mut out = io::stdout().lock();
    write!(out, "{text}").and_then(|()| out.flush()).map_err(Unwritable)
}

/// Writes the text and a line feed.
///
/// # Errors
/// [`Unwritable`].
pub fn line(line: impl Display) -> Result<(), Unwritable> {
    text(format_args!("{line}\n"))
}
