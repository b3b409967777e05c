//! PLY: ASCII, binary little and big endian.
//!
//! Our own reader, because the usual crate panics on an over-long count. Source of the format: G. Turk, "The PLY
//! Polygon File Format" (1994). Counts are compared with the bytes at hand before anything is allocated.

mod body;
mod header;

use super::soup::{Fault, Place, Soup};
use body::{Ascii, Binary, Cursor};
use header::{Element, Encoding, Header, Kind, Property};

/// Parses a file held in memory.
pub(super) fn parse(bytes: &[u8], soup: &mut Soup) -> Result<(), Fault> {
    let (header, begin, lines) = header::parse(bytes)?;
    let roles = Roles::of(&header)?;
    let payload = &bytes[begin..];
    match header.encoding {
        Encoding::Ascii => elements(&mut Ascii::new(payload, lines), &header, &roles, soup)?,
        Encoding::LittleEndian => elements(&mut Binary::<false>::new(payload, begin), &header, &roles, soup)?,
        Encoding::BigEndian => elements(&mut Binary::<true>::new(payload, begin), &header, &roles, soup)?,
    }
    soup.check_indices(0)
}

/// Which property means what.
struct Roles {
    vertex: usize,
    xyz: [usize; 3],
    /// Element and property of the polygons.
    face: Option<(usize, usize)>,
    /// Element and property of triangle strips.
    strips: Option<(usize, usize)>,
}

impl Roles {
    fn of(header: &Header) -> Result<Self, Fault> {
        let missing = |what: String| Fault::new(Place::Mesh, what);
        let element = |name: &str| header.elements.iter().position(|e| e.name == name);
        let vertex =
            element("vertex").ok_or_else(|| missing("the header declares no element \"vertex\"".into()))?;
        let mut xyz = [0; 3];
        for (slot, name) in xyz.iter_mut().zip(["x", "y", "z"]) {
            let e = &header.elements[vertex];
            *slot = e
                .properties
                .iter()
                .position(|p| p.name == name && matches!(p.kind, Kind::Scalar(_)))
                .ok_or_else(|| {
                    Fault::new(
                        Place::Line(e.line),
                        format!("element \"vertex\" has no scalar property \"{name}\""),
                    )
                })?;
        }
        let indices = |e: usize| {
            let element: &Element = &header.elements[e];
            let wanted = |p: &Property| matches!(p.name.as_str(), "vertex_indices" | "vertex_index");
            let at = element.properties.iter().position(wanted).ok_or_else(|| {
                Fault::new(
                    Place::Line(element.line),
                    format!(
                        "element \"{}\" has no list \"vertex_indices\" or \"vertex_index\"",
                        element.name
                    ),
                )
            })?;
            match element.properties[at].kind {
                Kind::List { item, .. } if item.is_integer() => Ok((e, at)),
                _ => Err(Fault::new(
                    Place::Line(element.line),
                    format!("property \"{}\" must be a list of integers", element.properties[at].name),
                )),
            }
        };
        let face = element("face").map(indices).transpose()?;
        let strips = element("tristrips").map(indices).transpose()?;
        if face.is_none() && strips.is_none() {
            return Err(missing(
                "the header declares no element \"face\": this is a point cloud, not a mesh".into(),
            ));
        }
        Ok(Self { vertex, xyz, face, strips })
    }
}

fn elements(cursor: &mut impl Cursor, header: &Header, roles: &Roles, soup: &mut Soup) -> Result<(), Fault> {
    for (e, element) in header.elements.iter().enumerate() {
        if element.properties.is_empty() {
            continue;
        }
        cursor.enough(element)?;
        let place = Place::Line(element.line);
        if e == roles.vertex {
            soup.admit(element.count, 0, place)?;
            soup.vertices.reserve_exact(element.count as usize);
        } else if roles.face.is_some_and(|f| f.0 == e) {
            soup.admit(0, element.count, place)?;
        }
        for k in 0..element.count {
            soup.look(k)?;
            let place = cursor.begin(element, k)?;
            if e == roles.vertex {
                let mut v = [0.0; 3];
                for (i, p) in element.properties.iter().enumerate() {
                    match p.kind {
                        Kind::Scalar(kind) => {
                            let x = cursor.scalar(kind)?;
                            if let Some(axis) = roles.xyz.iter().position(|a| *a == i) {
                                v[axis] = x;
                            }
                        }
                        Kind::List { count, item } => skip_list(cursor, count, item)?,
                    }
                }
                soup.vertex(v, place)?;
            } else {
                let list = [roles.face, roles.strips].into_iter().flatten().find(|f| f.0 == e).map(|f| f.1);
                for (i, p) in element.properties.iter().enumerate() {
                    match p.kind {
                        Kind::Scalar(kind) => {
                            cursor.scalar(kind)?;
                        }
                        Kind::List { count, item } if list == Some(i) => {
                            let n = cursor.list_length(count, item)?;
                            if roles.face.is_some_and(|f| f.0 == e) {
                                polygon(cursor, item, n, place, soup)?;
                            } else {
                                strip(cursor, item, n, place, soup)?;
                            }
                        }
                        Kind::List { count, item } => skip_list(cursor, count, item)?,
                    }
                }
            }
            cursor.end()?;
        }
    }
    cursor.finish(soup)
}

fn skip_list(cursor: &mut impl Cursor, count: header::Scalar, item: header::Scalar) -> Result<(), Fault> {
    for _ in 0..cursor.list_length(count, item)? {
        cursor.scalar(item)?;
    }
    Ok(())
}

/// A vertex number from a list.
fn index(cursor: &mut impl Cursor, item: header::Scalar, place: Place) -> Result<u32, Fault> {
    let x = cursor.scalar(item)?;
    if x < 0.0 || x > f64::from(u32::MAX) || x.fract() != 0.0 {
        return Err(Fault::new(place, format!("{x} is no vertex number")));
    }
    Ok(x as u32)
}

fn polygon(
    c: &mut impl Cursor,
    item: header::Scalar,
    n: u64,
    place: Place,
    soup: &mut Soup,
) -> Result<(), Fault> {
    for _ in 0..n {
        let i = index(c, item, place)?;
        soup.corner(i);
    }
    soup.face(place)
}

/// A strip: each further vertex makes a triangle with the two before it, every other one turned; -1 starts anew.
fn strip(
    c: &mut impl Cursor,
    item: header::Scalar,
    n: u64,
    place: Place,
    soup: &mut Soup,
) -> Result<(), Fault> {
    let (mut before, mut last, mut length) = (0, 0, 0_u64);
    for _ in 0..n {
        let x = c.scalar(item)?;
        if x == -1.0 {
            length = 0;
            continue;
        }
        if x < 0.0 || x > f64::from(u32::MAX) || x.fract() != 0.0 {
            return Err(Fault::new(place, format!("{x} is no vertex number")));
        }
        let next = x as u32;
        if length >= 2 {
            let [a, b] = if length.is_multiple_of(2) { [before, last] } else { [last, before] };
            for corner in [a, b, next] {
                soup.corner(corner);
            }
            soup.face(place)?;
        }
        (before, last, length) = (last, next, length + 1);
    }
    Ok(())
}
