//! Wavefront OBJ: `v` and `f` of any length; normals, texture, groups and materials are passed over.
//!
//! Our own reader, because the usual crate gives no line in its errors, fans concave polygons into folded
//! triangles, accepts NaN and fails on continued lines. Source of the format: Alias/Wavefront, "Object Files
//! (.obj)", Advanced Visualizer manual, appendix B1.

use super::soup::{Fault, Place, Soup};
use super::text::{Lines, integer, number, shown, words};

/// Statements that carry no surface of ours and are passed over in silence.
const PASSED: [&[u8]; 12] =
    [b"vn", b"vt", b"vp", b"g", b"o", b"s", b"mg", b"usemtl", b"mtllib", b"usemap", b"maplib", b"shadow_obj"];
/// Statements of free-form geometry, points and lines: dropped, and said so.
const DROPPED: [&[u8]; 15] = [
    b"p", b"l", b"curv", b"curv2", b"surf", b"bzp", b"bsp", b"cdc", b"cdp", b"res", b"call", b"csh",
    b"cstype", b"con", b"sp",
];

/// Parses a file held in memory.
pub(super) fn parse(bytes: &[u8], soup: &mut Soup) -> Result<(), Fault> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut lines = Lines::new(bytes, 1);
    let mut joined = Vec::new();
    let mut dropped: Vec<(String, u64, usize)> = Vec::new();
    while let Some(first) = lines.next() {
        soup.look(first.number)?;
        let mut text = first.text;
        if continued(text) {
            joined.clear();
            while continued(text) {
                joined.extend_from_slice(&text.trim_ascii_end()[..text.trim_ascii_end().len() - 1]);
                joined.push(b' ');
                match lines.next() {
                    Some(line) => text = line.text,
                    None => text = &[],
                }
            }
            joined.extend_from_slice(text);
            text = &joined;
        }
        let text = text.split(|b| *b == b'#').next().unwrap_or(&[]);
        let mut rest = words(text);
        let Some(keyword) = rest.next() else { continue };
        match keyword {
            b"v" => vertex(rest, first.number, soup)?,
            b"f" | b"fo" => {
                let before = soup.short_faces;
                face(rest, first.number, soup)?;
                let cut = lines.consumed() == bytes.len() && !matches!(bytes.last(), Some(b'\n' | b'\r'));
                if soup.short_faces > before && cut {
                    let cause = "the file ends inside this face: it is cut";
                    return Err(Fault::new(Place::Line(first.number), cause));
                }
            }
            k if PASSED.contains(&k) => {}
            k => {
                let name = shown(k);
                match dropped.iter().position(|(n, _, _)| *n == name) {
                    Some(i) => dropped[i].2 += 1,
                    None if dropped.len() < 10 => dropped.push((name, first.number, 1)),
                    None => {}
                }
                if !DROPPED.contains(&k)
                    && soup.vertices.is_empty()
                    && soup.faces.is_empty()
                    && dropped.len() >= 10
                {
                    return Err(Fault::new(
                        Place::Line(first.number),
                        format!("{} is no OBJ statement; is this an OBJ file?", shown(k)),
                    ));
                }
            }
        }
    }
    for (name, line, n) in dropped {
        let what = super::count(n, "statement");
        soup.accept(format!("{what} {name} not understood and dropped, the first in line {line}"));
    }
    soup.check_indices(1)
}

/// Ends in a backslash. One inside a comment continues it too, as the manual has it.
fn continued(line: &[u8]) -> bool {
    line.trim_ascii_end().ends_with(b"\\")
}

/// `v x y z [w | r g b]`: a weight or a colour after the position changes nothing.
fn vertex<'a>(mut rest: impl Iterator<Item = &'a [u8]>, line: u64, soup: &mut Soup) -> Result<(), Fault> {
    let mut v = [0.0; 3];
    for (i, x) in v.iter_mut().enumerate() {
        let word = rest.next().ok_or_else(|| {
            Fault::new(Place::Line(line), format!("a vertex has {i} coordinates instead of 3"))
        })?;
        *x = number(word, line)?;
    }
    soup.vertex(v, Place::Line(line))
}

/// `f i j k ...`, each `v`, `v/vt`, `v//vn` or `v/vt/vn`; negative numbers count back from the latest vertex.
fn face<'a>(rest: impl Iterator<Item = &'a [u8]>, line: u64, soup: &mut Soup) -> Result<(), Fault> {
    for word in rest {
        let first = word.split(|b| *b == b'/').next().unwrap_or(&[]);
        let index = integer(first, line)?;
        let known = soup.vertices.len() as i64;
        let zero_based = match index {
            0 => return Err(Fault::new(Place::Line(line), "vertex number 0; OBJ counts from 1")),
            i if i > 0 => i - 1,
            i => known.saturating_add(i),
        };
        let corner = u32::try_from(zero_based).map_err(|_| {
            let last = if known == 0 {
                "no vertex stands before it".into()
            } else {
                format!("{known} stand before it")
            };
            Fault::new(Place::Line(line), format!("a face uses vertex {index}, but {last}"))
        })?;
        soup.corner(corner);
    }
    soup.face(Place::Line(line))
}
