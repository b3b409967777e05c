//! Reading the records of a PLY file, in text and in binary.

use super::super::soup::{Fault, Place, Soup};
use super::super::text::{Line, Lines, integer, real, shown};
use super::header::{Element, Scalar};

/// The record reader; calls come in the order of the header.
pub(super) trait Cursor {
    /// Refuses a count for which there are too few bytes.
    fn enough(&self, element: &Element) -> Result<(), Fault>;
    /// Begins record `k` and says where it stands.
    fn begin(&mut self, element: &Element, k: u64) -> Result<Place, Fault>;
    /// The next number, finite or not; only coordinates must be finite.
    fn scalar(&mut self, kind: Scalar) -> Result<f64, Fault>;
    /// The length of a list whose items are known to fit into the rest.
    fn list_length(&mut self, count: Scalar, item: Scalar) -> Result<u64, Fault>;
    /// Ends the record.
    fn end(&mut self) -> Result<(), Fault>;
    /// All records are read.
    fn finish(&mut self, soup: &mut Soup) -> Result<(), Fault>;
}

fn truncated(place: Place, element: &Element, k: u64) -> Fault {
    Fault::new(
        place,
        format!(
            "the file ends in record {k} of {} of element {}, declared in line {}",
            element.count,
            shown(element.name.as_bytes()),
            element.line
        ),
    )
}

fn too_few(place: Place, element: &Element, rest: u64) -> Fault {
    Fault::new(
        place,
        format!(
            "{} records of element {} are declared, but only {rest} bytes are left: the file is truncated or its \
             count is wrong",
            element.count,
            shown(element.name.as_bytes())
        ),
    )
}

/// One record a line.
pub(super) struct Ascii<'a> {
    lines: Lines<'a>,
    text: &'a [u8],
    line: Line<'a>,
    rest: &'a [u8],
}

impl<'a> Ascii<'a> {
    pub fn new(text: &'a [u8], first_line: u64) -> Self {
        Self {
            lines: Lines::new(text, first_line),
            text,
            line: Line { number: first_line, text: &[] },
            rest: &[],
        }
    }

    fn word(&mut self) -> Option<&'a [u8]> {
        let here = self.rest.trim_ascii_start();
        let end = here.iter().position(u8::is_ascii_whitespace).unwrap_or(here.len());
        let (word, rest) = here.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }

    fn need(&mut self) -> Result<&'a [u8], Fault> {
        let line = self.line.number;
        self.word().ok_or_else(|| {
            Fault::new(Place::Line(line), "the line has fewer values than the header declares")
        })
    }
}

impl Cursor for Ascii<'_> {
    fn enough(&self, element: &Element) -> Result<(), Fault> {
        // A record is at least one digit and, but for the last, an end of line.
        let rest = (self.text.len() - self.lines.consumed()) as u64;
        let least = element.count.saturating_mul(2 * element.properties.len() as u64).saturating_sub(1);
        if least > rest { Err(too_few(Place::Line(element.line), element, rest)) } else { Ok(()) }
    }

    fn begin(&mut self, element: &Element, k: u64) -> Result<Place, Fault> {
        loop {
            let end = self.lines.number();
            self.line = self.lines.next().ok_or_else(|| truncated(Place::Line(end), element, k))?;
            if !self.line.text.trim_ascii().is_empty() {
                self.rest = self.line.text;
                return Ok(Place::Line(self.line.number));
            }
        }
    }

    fn scalar(&mut self, kind: Scalar) -> Result<f64, Fault> {
        let word = self.need()?;
        if kind.is_integer() {
            return integer(word, self.line.number).map(|i| i as f64);
        }
        real(word, self.line.number)
    }

    fn list_length(&mut self, _: Scalar, _: Scalar) -> Result<u64, Fault> {
        let n = integer(self.need()?, self.line.number)?;
        let room = self.rest.len() as u64 / 2 + 1;
        u64::try_from(n).ok().filter(|n| *n <= room).ok_or_else(|| {
            Fault::new(
                Place::Line(self.line.number),
                format!("a list of {n} values does not fit into the line"),
            )
        })
    }

    fn end(&mut self) -> Result<(), Fault> {
        match self.word() {
            None => Ok(()),
            Some(word) => Err(Fault::new(
                Place::Line(self.line.number),
                format!("{} after the last value that the header declares", shown(word)),
            )),
        }
    }

    fn finish(&mut self, _: &mut Soup) -> Result<(), Fault> {
        match self.lines.by_ref().find(|l| !l.text.trim_ascii().is_empty()) {
            None => Ok(()),
            Some(line) => Err(Fault::new(
                Place::Line(line.number),
                "lines follow after the last declared record; the counts in the header are too low",
            )),
        }
    }
}

/// Packed records.
pub(super) struct Binary<'a, const BIG: bool> {
    bytes: &'a [u8],
    at: usize,
    offset: usize,
    what: String,
}

impl<'a, const BIG: bool> Binary<'a, BIG> {
    /// `offset` is the place of `bytes` in the file.
    pub fn new(bytes: &'a [u8], offset: usize) -> Self {
        Self { bytes, at: 0, offset, what: String::new() }
    }

    fn place(&self) -> Place {
        Place::Byte((self.offset + self.at) as u64)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let Some(raw) = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk::<N>) else {
            return Err(Fault::new(
                Place::Byte((self.offset + self.bytes.len()) as u64),
                format!("the file ends inside a record of element {}", self.what),
            ));
        };
        self.at += N;
        let mut raw = *raw;
        if BIG {
            raw.reverse();
        }
        Ok(raw)
    }
}

impl<const BIG: bool> Cursor for Binary<'_, BIG> {
    fn enough(&self, element: &Element) -> Result<(), Fault> {
        let rest = (self.bytes.len() - self.at) as u64;
        if element.count.saturating_mul(element.least_bytes()) > rest {
            return Err(too_few(Place::Line(element.line), element, rest));
        }
        Ok(())
    }

    fn begin(&mut self, element: &Element, k: u64) -> Result<Place, Fault> {
        if k == 0 {
            self.what = shown(element.name.as_bytes());
        }
        if self.at == self.bytes.len() {
            return Err(truncated(self.place(), element, k));
        }
        Ok(self.place())
    }

    #[inline]
    fn scalar(&mut self, kind: Scalar) -> Result<f64, Fault> {
        Ok(match kind {
            Scalar::I8 => f64::from(i8::from_le_bytes(self.take()?)),
            Scalar::U8 => f64::from(u8::from_le_bytes(self.take()?)),
            Scalar::I16 => f64::from(i16::from_le_bytes(self.take()?)),
            Scalar::U16 => f64::from(u16::from_le_bytes(self.take()?)),
            Scalar::I32 => f64::from(i32::from_le_bytes(self.take()?)),
            Scalar::U32 => f64::from(u32::from_le_bytes(self.take()?)),
            Scalar::F32 => f64::from(f32::from_le_bytes(self.take()?)),
            Scalar::F64 => f64::from_le_bytes(self.take()?),
        })
    }

    fn list_length(&mut self, count: Scalar, item: Scalar) -> Result<u64, Fault> {
        let place = self.place();
        let n = self.scalar(count)?;
        let room = (self.bytes.len() - self.at) / item.bytes();
        if n < 0.0 || n > room as f64 {
            return Err(Fault::new(
                place,
                format!(
                    "a list of {n} values, but there is room for {room}: the file is truncated or damaged"
                ),
            ));
        }
        Ok(n as u64)
    }

    fn end(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    fn finish(&mut self, soup: &mut Soup) -> Result<(), Fault> {
        let rest = &self.bytes[self.at..];
        if rest.is_empty() {
            return Ok(());
        }
        if rest.len() <= 16 && rest.iter().all(|b| b.is_ascii_whitespace() || *b == 0) {
            soup.accept(format!("{} blank bytes after the last record", rest.len()));
            return Ok(());
        }
        Err(Fault::new(
            self.place(),
            format!(
                "{} bytes follow after the last declared record; the counts in the header are wrong",
                rest.len()
            ),
        ))
    }
}
