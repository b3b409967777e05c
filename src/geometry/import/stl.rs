//! STL, binary and ASCII.
//!
//! Binary: 80 bytes of header, u32 count, 50 bytes a facet (normal, three corners as f32, u16 attribute), little
//! endian. The header often starts with "solid", so the size decides, not the first word. The count must match the
//! size: a count of 0 or one too low would silently lose facets.

use super::soup::{Fault, Place, Soup};
use super::text::{self, Lines, shown};
use crate::geometry::Vec3;

const HEADER: usize = 84;
const FACET: usize = 50;

/// Parses either kind.
pub(super) fn parse(bytes: &[u8], soup: &mut Soup) -> Result<(), Fault> {
    let declared = bytes.get(80..HEADER).map(|b| u64::from(u32::from_le_bytes([b[0], b[1], b[2], b[3]])));
    if declared.is_some_and(|n| HEADER as u64 + n * FACET as u64 == bytes.len() as u64) {
        return binary(bytes, declared.unwrap_or(0), soup);
    }
    if looks_ascii(bytes) {
        return ascii(bytes, soup);
    }
    if matches!(bytes, [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [b's', 0, b'o', 0, ..] | [0, b's', 0, b'o', ..])
    {
        return Err(Fault::new(Place::Byte(0), "the file is UTF-16 text; save it as ASCII or UTF-8"));
    }
    let Some(n) = declared else {
        return Err(Fault::new(
            Place::Byte(bytes.len() as u64),
            format!(
                "the file ends after {} bytes: too short for a binary STL (84 bytes of header) and no ASCII STL \
                 (\"solid\" ... \"facet\")",
                bytes.len()
            ),
        ));
    };
    let body = bytes.len() - HEADER;
    let whole = body / FACET;
    if (body as u64) < n * FACET as u64 {
        return Err(Fault::new(
            Place::Byte(bytes.len() as u64),
            format!(
                "the header promises {n} facets but the file ends after {whole}; it is truncated, or its count at \
                 byte 80 should be {whole}"
            ),
        ));
    }
    let extra = body - n as usize * FACET;
    if extra >= FACET {
        return Err(Fault::new(
            Place::Byte(80),
            format!(
                "the header promises {n} facets but there is room for {whole}; {extra} bytes would be lost: write \
                 the right count, {whole}"
            ),
        ));
    }
    soup.accept(format!("{extra} bytes after the last facet"));
    binary(&bytes[..bytes.len() - extra], n, soup)
}

/// Begins with "solid" and has a facet or an end, near the beginning or after the line of the name, however long that is: a
/// binary header that only begins with "solid" has neither.
fn looks_ascii(bytes: &[u8]) -> bool {
    let text = text::trimmed(bytes);
    let starts = text.get(..5).is_some_and(|w| w.eq_ignore_ascii_case(b"solid"));
    let named = text.iter().position(|b| matches!(b, b'\n' | b'\r')).unwrap_or(text.len());
    let has = |word: &[u8]| {
        let near = |from: usize| &text[from..text.len().min(from + 4096)];
        [near(0), near(named)].iter().any(|t| t.windows(word.len()).any(|w| w.eq_ignore_ascii_case(word)))
    };
    starts && (has(b"facet") || has(b"endsolid")) && !text[..text.len().min(512)].contains(&0)
}

fn binary(bytes: &[u8], count: u64, soup: &mut Soup) -> Result<(), Fault> {
    soup.admit(count * 3, count, Place::Byte(80))?;
    let count = count as usize;
    soup.vertices.reserve_exact(3 * count);
    soup.corners.reserve_exact(3 * count);
    soup.faces.reserve_exact(count);
    for (k, facet) in bytes[HEADER..].chunks_exact(FACET).enumerate() {
        soup.look(k as u64)?;
        let at = (HEADER + k * FACET) as u64;
        let f = |i: usize| {
            f32::from_le_bytes([facet[4 * i], facet[4 * i + 1], facet[4 * i + 2], facet[4 * i + 3]])
        };
        let v = |i: usize| [f64::from(f(i)), f64::from(f(i + 1)), f64::from(f(i + 2))];
        facet_of(soup, v(0), [v(3), v(6), v(9)], |i| Place::Byte(at + 12 + 12 * i))?;
    }
    Ok(())
}

/// Adds a triangle and compares its stored normal, which nothing else uses, with its winding.
fn facet_of(
    soup: &mut Soup,
    normal: [f64; 3],
    corners: [[f64; 3]; 3],
    place: impl Fn(u64) -> Place,
) -> Result<(), Fault> {
    for (i, v) in corners.into_iter().enumerate() {
        soup.corner(soup.vertices.len() as u32);
        soup.vertex(v, place(i as u64))?;
    }
    let [a, b, c] = corners.map(Vec3::from);
    if (b - a).cross(&(c - a)).dot(&Vec3::from(normal)) < 0.0 {
        soup.contradicting_normals += 1;
    }
    soup.face(place(0))
}

/// Reads words, not lines: any layout is fine. Names run to the end of their line.
fn ascii(bytes: &[u8], soup: &mut Soup) -> Result<(), Fault> {
    let mut words = Words::new(bytes);
    while let Some((line, word)) = words.next() {
        if !word.eq_ignore_ascii_case(b"solid") {
            return Err(Fault::new(Place::Line(line), format!("expected \"solid\", found {}", shown(word))));
        }
        words.skip_name(line);
        solid(&mut words, soup, line)?;
    }
    Ok(())
}

fn solid(words: &mut Words<'_>, soup: &mut Soup, begin: u64) -> Result<(), Fault> {
    loop {
        let Some((line, word)) = words.next() else {
            soup.accept(format!("the solid of line {begin} has no \"endsolid\""));
            return Ok(());
        };
        if word.eq_ignore_ascii_case(b"endsolid") {
            words.skip_name(line);
            return Ok(());
        }
        if word.eq_ignore_ascii_case(b"end") && words.peek_is(b"solid") {
            words.next();
            words.skip_name(line);
            return Ok(());
        }
        if !word.eq_ignore_ascii_case(b"facet") {
            return Err(Fault::new(
                Place::Line(line),
                format!("expected \"facet\" or \"endsolid\", found {}", shown(word)),
            ));
        }
        soup.look(soup.faces.len() as u64)?;
        facet(words, soup, line)?;
    }
}

fn facet(words: &mut Words<'_>, soup: &mut Soup, begin: u64) -> Result<(), Fault> {
    let mut normal = None;
    if words.peek_is(b"normal") {
        words.next();
        let mut n = [0.0; 3];
        for x in &mut n {
            let (line, word) = words.need("a normal", begin)?;
            // Writers put nan into the normals of degenerate facets; nothing depends on it.
            *x = text::real(word, line)?;
        }
        normal = Some(n);
    }
    words.expect(b"outer", begin)?;
    words.expect(b"loop", begin)?;
    let first = soup.vertices.len();
    loop {
        let (line, word) = words.need("\"vertex\" or \"endloop\"", begin)?;
        if word.eq_ignore_ascii_case(b"endloop") {
            break;
        }
        if word.eq_ignore_ascii_case(b"end") && words.peek_is(b"loop") {
            words.next();
            break;
        }
        if !word.eq_ignore_ascii_case(b"vertex") {
            return Err(Fault::new(
                Place::Line(line),
                format!("expected \"vertex\" or \"endloop\", found {}", shown(word)),
            ));
        }
        let mut v = [0.0; 3];
        for x in &mut v {
            let (line, word) = words.need("a coordinate", begin)?;
            *x = text::number(word, line)?;
        }
        soup.corner(soup.vertices.len() as u32);
        soup.vertex(v, Place::Line(line))?;
    }
    let (line, word) = words.need("\"endfacet\"", begin)?;
    if word.eq_ignore_ascii_case(b"end") && words.peek_is(b"facet") {
        words.next();
    } else if !word.eq_ignore_ascii_case(b"endfacet") {
        return Err(Fault::new(Place::Line(line), format!("expected \"endfacet\", found {}", shown(word))));
    }
    let loop_ = &soup.vertices[first..];
    if loop_.len() < 3 {
        return Err(Fault::new(
            Place::Line(begin),
            format!("a facet has {} vertices instead of 3", loop_.len()),
        ));
    }
    let [a, b, c] = [loop_[0], loop_[1], loop_[2]].map(Vec3::from);
    if loop_.len() == 3 && normal.is_some_and(|n| (b - a).cross(&(c - a)).dot(&Vec3::from(n)) < 0.0) {
        soup.contradicting_normals += 1;
    }
    if loop_.len() > 3 {
        soup.accept(format!("line {begin}: a facet has {} vertices, triangulated", loop_.len()));
    }
    soup.face(Place::Line(begin))
}

/// The words of a text with their line numbers.
struct Words<'a> {
    lines: Lines<'a>,
    line: u64,
    rest: &'a [u8],
}

impl<'a> Words<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        Self { lines: Lines::new(bytes, 1), line: 0, rest: &[] }
    }

    fn next(&mut self) -> Option<(u64, &'a [u8])> {
        loop {
            // Binary junk and NULs count as blanks at the end of padded files.
            let blank = |b: &u8| b.is_ascii_whitespace() || *b == 0;
            let begin = self.rest.iter().position(|b| !blank(b)).unwrap_or(self.rest.len());
            self.rest = &self.rest[begin..];
            if !self.rest.is_empty() {
                let end = self.rest.iter().position(blank).unwrap_or(self.rest.len());
                let (word, rest) = self.rest.split_at(end);
                self.rest = rest;
                return Some((self.line, word));
            }
            let line = self.lines.next()?;
            self.line = line.number;
            self.rest = line.text;
        }
    }

    fn need(&mut self, what: &str, begin: u64) -> Result<(u64, &'a [u8]), Fault> {
        self.next().ok_or_else(|| {
            Fault::new(
                Place::Line(self.line),
                format!("the file ends inside the facet of line {begin}, where {what} should stand"),
            )
        })
    }

    fn expect(&mut self, word: &[u8], begin: u64) -> Result<(), Fault> {
        let name = String::from_utf8_lossy(word).into_owned();
        let (line, found) = self.need(&format!("\"{name}\""), begin)?;
        if found.eq_ignore_ascii_case(word) {
            return Ok(());
        }
        Err(Fault::new(Place::Line(line), format!("expected \"{name}\", found {}", shown(found))))
    }

    fn peek_is(&self, word: &[u8]) -> bool {
        text::words(self.rest).next().is_some_and(|w| w.eq_ignore_ascii_case(word))
    }

    /// Skips a name: the rest of the line, but not a facet that stands in the same line.
    fn skip_name(&mut self, line: u64) {
        while line == self.line && !self.rest.is_empty() {
            let here = self.rest.trim_ascii_start();
            let end = here.iter().position(u8::is_ascii_whitespace).unwrap_or(here.len());
            let (word, rest) = here.split_at(end);
            let facet = word.eq_ignore_ascii_case(b"facet")
                && text::words(rest).next().is_some_and(|w| w.eq_ignore_ascii_case(b"normal"));
            if facet || word.eq_ignore_ascii_case(b"endsolid") {
                return;
            }
            self.rest = rest;
        }
    }
}
