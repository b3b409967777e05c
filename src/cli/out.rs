//! What is shown: standard output whose errors are errors of the command, not panics, and messages on standard error.
//!
//! Names in meshes, scenes, recordings and answers are other people's text. Whatever of it could move the cursor, colour or
//! hide anything or turn the direction of writing is shown as an escape, everywhere, because everything goes through here.

use serde::Serialize;
use std::borrow::Cow;
use std::fmt::{Display, Write as _};
use std::io::{self, Write};

/// Standard output takes no more.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to the standard output: {0}")]
pub struct Unwritable(pub io::Error);

/// Control characters, and format characters that change how others are shown or cannot be seen (Unicode category Cf and the
/// line and paragraph separators; Unicode Technical Report 36, section 2).
fn hides(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}')
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
        || matches!(c, '\u{e0000}'..='\u{e0fff}')
}

fn escaped(text: &str, keep: impl Fn(char) -> bool, escape: impl Fn(&mut String, char)) -> Cow<'_, str> {
    let bad = |c: char| hides(c) && !keep(c);
    if !text.contains(bad) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if bad(c) { escape(&mut out, c) } else { out.push(c) }
    }
    Cow::Owned(out)
}

/// Text of several lines as it may be shown: line feeds and tabs stay, `\u{1b}` and its like stand as such.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |c| matches!(c, '\n' | '\t'), |out, c| out.extend(c.escape_default()))
}

/// A name as it may stand in a line: it cannot end it.
#[must_use]
pub fn word(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false, |out, c| out.extend(c.escape_default()))
}

/// JSON as it may be shown: the same value, with the escapes of JSON.
fn printable_json(text: &str) -> Cow<'_, str> {
    escaped(
        text,
        |c| matches!(c, '\n' | '\t'),
        |out, c| {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing into a string cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        },
    )
}

/// Writes text, made printable.
///
/// # Errors
/// [`Unwritable`].
pub fn text(text: impl Display) -> Result<(), Unwritable> {
    raw("", &printable(&text.to_string()))
}

/// Writes text and a line feed, made printable.
///
/// # Errors
/// [`Unwritable`].
pub fn line(line: impl Display) -> Result<(), Unwritable> {
    text(format_args!("{line}\n"))
}

/// Writes a value as JSON and a line feed.
///
/// # Errors
/// [`Unwritable`].
pub fn json(value: &impl Serialize, pretty: bool) -> Result<(), Unwritable> {
    let made = if pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
    let text = made.map_err(|e| Unwritable(e.into()))?;
    raw("", &format!("{}\n", printable_json(&text)))
}

/// Writes our own control characters, then the text, made printable.
///
/// # Errors
/// [`Unwritable`].
pub fn over(control: &'static str, text: &str) -> Result<(), Unwritable> {
    raw(control, &printable(text))
}

fn raw(control: &'static str, text: &str) -> Result<(), Unwritable> {
    let mut out = io::stdout().lock();
    let written = out.write_all(control.as_bytes()).and_then(|()| out.write_all(text.as_bytes()));
    written.and_then(|()| out.flush()).map_err(Unwritable)
}

/// A message on standard error, made printable. Nobody may be there to read it, which is no failure.
pub fn note(text: impl Display) {
    note_over("", text);
}

/// As [`note`], after our own control characters.
pub fn note_over(control: &'static str, text: impl Display) {
    let text = text.to_string();
    let _ = writeln!(io::stderr().lock(), "{control}{}", printable(&text));
}

/// A prompt on standard error.
pub fn prompt(text: &'static str) {
    let mut err = io::stderr().lock();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}

/// An error and its causes in one line. A cause that its effect has told already is not told again.
#[must_use]
pub fn causes(error: &anyhow::Error) -> String {
    let mut out = String::new();
    for cause in error.chain() {
        let text = cause.to_string();
        if out.is_empty() {
            out = text;
        } else if !out.ends_with(&text) {
            out += ": ";
            out += &text;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVIL: &str = "a\u{1b}[31m\r\u{7}b\u{9b}2J\u{202e}c\u{2066}\u{200b}d\u{2028}\u{e0041}";

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        let shown = printable(EVIL);
        assert!(!shown.chars().any(hides), "{shown}");
        assert!(shown.starts_with("a\\u{1b}[31m\\r\\u{7}b\\u{9b}2J\\u{202e}c"), "{shown}");
        assert_eq!(printable("a\tb\nç 日本 µ"), "a\tb\nç 日本 µ");
        assert_eq!(word("a\tb\nc"), "a\\tb\\nc");
    }

    #[test]
    fn json_stays_the_same_value() {
        let value = serde_json::json!({ EVIL: [EVIL, 1.5] });
        let text = serde_json::to_string_pretty(&value).unwrap();
        let shown = printable_json(&text);
        assert!(!shown.chars().any(|c| hides(c) && c != '\n'), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }

    #[test]
    fn a_cause_is_told_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("the connection failed: {0}")]
        struct Outer(#[from] io::Error);
        let full = || io::Error::other("no space left");
        let error = anyhow::Error::new(Outer(full())).context("cannot record");
        assert_eq!(causes(&error), "cannot record: the connection failed: no space left");
        assert_eq!(causes(&anyhow::Error::new(full()).context("file x")), "file x: no space left");
    }
}
