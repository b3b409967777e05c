//! The header of a PLY file.

use super::super::soup::{Fault, Place};
use super::super::text::{shown, words};

/// How the payload is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Ascii,
    LittleEndian,
    BigEndian,
}

/// Number types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    F32,
    F64,
}

impl Scalar {
    fn parse(word: &[u8]) -> Option<Self> {
        Some(match word {
            b"char" | b"int8" => Self::I8,
            b"uchar" | b"uint8" => Self::U8,
            b"short" | b"int16" => Self::I16,
            b"ushort" | b"uint16" => Self::U16,
            b"int" | b"int32" => Self::I32,
            b"uint" | b"uint32" => Self::U32,
            b"float" | b"float32" => Self::F32,
            b"double" | b"float64" => Self::F64,
            _ => return None,
        })
    }

    pub fn bytes(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    pub fn is_integer(self) -> bool {
        !matches!(self, Self::F32 | Self::F64)
    }
}

/// A property is one number or a counted list.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Scalar(Scalar),
    List { count: Scalar, item: Scalar },
}

#[derive(Clone, Debug)]
pub(super) struct Property {
    pub name: String,
    pub kind: Kind,
}

/// A kind of record, `count` of them.
#[derive(Clone, Debug)]
pub(super) struct Element {
    pub name: String,
    pub count: u64,
    pub line: u64,
    pub properties: Vec<Property>,
}

impl Element {
    /// Fewest bytes of one record in a binary file.
    pub fn least_bytes(&self) -> u64 {
        self.properties
            .iter()
            .map(|p| match p.kind {
                Kind::Scalar(s) => s.bytes() as u64,
                Kind::List { count, .. } => count.bytes() as u64,
            })
            .sum()
    }
}

#[derive(Clone, Debug)]
pub(super) struct Header {
    pub encoding: Encoding,
    pub elements: Vec<Element>,
}

/// More would be no mesh; keeps a hostile header from costing more than its size.
const MOST_ELEMENTS: usize = 64;
const MOST_PROPERTIES: usize = 256;

/// The header, the byte at which the payload begins, and the number of the line there.
pub(super) fn parse(bytes: &[u8]) -> Result<(Header, usize, u64), Fault> {
    // The first line's end is the end of every header line: a payload may begin with the byte of a line feed.
    let ending: &[u8] = match bytes {
        [b'p', b'l', b'y', b'\r', b'\n', ..] => b"\r\n",
        [b'p', b'l', b'y', b'\n', ..] => b"\n",
        [b'p', b'l', b'y', b'\r', ..] => b"\r",
        _ => return Err(Fault::new(Place::Line(1), "a PLY file begins with the line \"ply\"")),
    };
    let mut at = 3 + ending.len();
    let mut number = 1;
    let mut encoding = None;
    let mut elements: Vec<Element> = Vec::new();
    loop {
        number += 1;
        let rest = &bytes[at..];
        let length = rest.windows(ending.len()).position(|w| w == ending);
        let Some(length) = length.or((rest == b"end_header").then_some(rest.len())) else {
            return Err(Fault::new(Place::Line(number), "the file ends before \"end_header\""));
        };
        let line = &rest[..length];
        at = (at + length + ending.len()).min(bytes.len());
        let fail = |cause: String| Err(Fault::new(Place::Line(number), cause));
        let mut parts = words(line);
        match parts.next() {
            Some(b"end_header") => break,
            None | Some(b"comment" | b"obj_info") => {}
            Some(b"format") => {
                if encoding.is_some() {
                    return fail("a second \"format\" line".into());
                }
                encoding = Some(match (parts.next(), parts.next()) {
                    (Some(b"ascii"), Some(b"1.0")) => Encoding::Ascii,
                    (Some(b"binary_little_endian"), Some(b"1.0")) => Encoding::LittleEndian,
                    (Some(b"binary_big_endian"), Some(b"1.0")) => Encoding::BigEndian,
                    _ => {
                        return fail(format!(
                            "unknown format {}; known are ascii, binary_little_endian and binary_big_endian 1.0",
                            shown(line)
                        ));
                    }
                });
            }
            Some(b"element") => {
                let (Some(name), Some(count), None) = (parts.next(), parts.next(), parts.next()) else {
                    return fail("expected \"element NAME COUNT\"".into());
                };
                let Some(n) = std::str::from_utf8(count).ok().and_then(|t| t.parse::<u64>().ok()) else {
                    return fail(format!("{} is no possible number of elements", shown(count)));
                };
                let name = String::from_utf8_lossy(name).into_owned();
                if elements.iter().any(|e| e.name == name) {
                    return fail(format!("a second element {}", shown(name.as_bytes())));
                }
                if elements.len() == MOST_ELEMENTS {
                    return fail(format!("more than {MOST_ELEMENTS} elements"));
                }
                elements.push(Element { name, count: n, line: number, properties: Vec::new() });
            }
            Some(b"property") => {
                let kind = property(&mut parts).map_err(|cause| Fault::new(Place::Line(number), cause))?;
                let Some(element) = elements.last_mut() else {
                    return fail("a property before any element".into());
                };
                let (Some(name), None) = (parts.next(), parts.next()) else {
                    return fail(
                        "expected \"property TYPE NAME\" or \"property list TYPE TYPE NAME\"".into(),
                    );
                };
                if element.properties.len() == MOST_PROPERTIES {
                    return fail(format!("more than {MOST_PROPERTIES} properties"));
                }
                element.properties.push(Property { name: String::from_utf8_lossy(name).into_owned(), kind });
            }
            Some(word) => return fail(format!("{} is no PLY header line", shown(word))),
        }
    }
    let encoding =
        encoding.ok_or_else(|| Fault::new(Place::Line(number), "the header has no \"format\" line"))?;
    Ok((Header { encoding, elements }, at, number + 1))
}

fn property<'a>(parts: &mut impl Iterator<Item = &'a [u8]>) -> Result<Kind, String> {
    let scalar = |word: Option<&[u8]>| {
        let word = word.unwrap_or(b"");
        Scalar::parse(word).ok_or_else(|| format!("unknown type {}", shown(word)))
    };
    match parts.next() {
        Some(b"list") => {
            let count = scalar(parts.next())?;
            let item = scalar(parts.next())?;
            if !count.is_integer() {
                return Err("the length of a list must be an integer type".into());
            }
            Ok(Kind::List { count, item })
        }
        word => scalar(word).map(Kind::Scalar),
    }
}
