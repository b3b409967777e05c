//! Lines, words and numbers of text formats, on bytes: names in mesh files need not be UTF-8.

use super::soup::{Fault, Place};

/// A line of text with its number (from 1), without its end. LF, CR LF and lone CR all end a line.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    pub number: u64,
    pub text: &'a [u8],
}

/// Iterates over the lines of a text.
pub(super) struct Lines<'a> {
    rest: &'a [u8],
    number: u64,
    total: usize,
}

impl<'a> Lines<'a> {
    /// `first` is the number of the first line.
    pub fn new(text: &'a [u8], first: u64) -> Self {
        Self { rest: text, number: first, total: text.len() }
    }

    /// Bytes consumed so far.
    pub fn consumed(&self) -> usize {
        self.total - self.rest.len()
    }

    /// Number of the line that comes next.
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.iter().position(|b| matches!(b, b'\n' | b'\r')).unwrap_or(self.rest.len());
        let (text, tail) = self.rest.split_at(end);
        self.rest = match tail {
            [b'\r', b'\n', rest @ ..] | [_, rest @ ..] => rest,
            [] => tail,
        };
        let line = Line { number: self.number, text };
        self.number += 1;
        Some(line)
    }
}

/// Words separated by blanks.
pub(super) fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|b| b.is_ascii_whitespace() || *b == 0).filter(|w| !w.is_empty())
}

/// A word as it may stand in a message: short, printable.
pub(super) fn shown(word: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(&word[..word.len().min(32)])
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    format!("\"{text}{}\"", if word.len() > 32 { "..." } else { "" })
}

/// A number, finite or not.
pub(super) fn real(word: &[u8], line: u64) -> Result<f64, Fault> {
    std::str::from_utf8(word)
        .ok()
        .and_then(|t| t.parse().ok())
        .ok_or_else(|| Fault::new(Place::Line(line), format!("expected a number, found {}", shown(word))))
}

/// A finite number.
pub(super) fn number(word: &[u8], line: u64) -> Result<f64, Fault> {
    let x = real(word, line)?;
    if x.is_finite() {
        return Ok(x);
    }
    Err(Fault::new(Place::Line(line), format!("{} is not a finite number", shown(word))))
}

/// An integer.
pub(super) fn integer(word: &[u8], line: u64) -> Result<i64, Fault> {
    std::str::from_utf8(word).ok().and_then(|t| t.parse().ok()).ok_or_else(|| {
        Fault::new(Place::Line(line), format!("expected a whole number, found {}", shown(word)))
    })
}

/// The text without a UTF-8 byte order mark and leading blanks.
pub(super) fn trimmed(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_line_ends_count_alike() {
        let lines: Vec<_> =
            Lines::new(b"a\nb\r\nc\rd\n\ne", 1).map(|l| (l.number, l.text.to_vec())).collect();
        let expect = [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, ""), (6, "e")];
        assert_eq!(lines, expect.map(|(n, t)| (n, t.as_bytes().to_vec())));
    }

    #[test]
    fn numbers_must_be_finite() {
        assert_eq!(number(b"-1.5e-3", 1).unwrap(), -1.5e-3);
        for bad in [&b"nan"[..], b"inf", b"-infinity", b"1e999", b"1,5", b"", b"\xff\xfe", b"0x10"] {
            assert!(number(bad, 7).unwrap_err().place == Place::Line(7), "{}", shown(bad));
        }
    }
}
