//! What the parsers hand over: vertices and polygons as the file has them, within limits.

use super::ImportOptions;
use super::watch::Watch;

/// Where in the input something was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Line(u64),
    Byte(u64),
    Mesh,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Line(n) => write!(f, "line {n}"),
            Self::Byte(n) => write!(f, "byte {n}"),
            Self::Mesh => f.write_str("mesh"),
        }
    }
}

/// An error before the file's name is known.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fault {
    pub place: Place,
    pub cause: String,
    /// Nothing is wrong: the caller cancelled.
    pub cancelled: bool,
}

impl Fault {
    pub fn new(place: Place, cause: impl Into<String>) -> Self {
        Self { place, cause: cause.into(), cancelled: false }
    }
}

/// A polygon: its corners end at `end` in [`Soup::corners`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Face {
    pub end: u32,
    /// Line or byte; which of them, the format says once for all ([`Soup::lines`]).
    at: u64,
}

/// Vertices and polygons of a file, in file units. Every coordinate is finite; indices are checked by
/// [`Soup::check_indices`].
#[derive(Debug)]
pub(super) struct Soup<'a> {
    pub vertices: Vec<[f64; 3]>,
    pub corners: Vec<u32>,
    pub faces: Vec<Face>,
    /// Oddities that were accepted; strict mode refuses them.
    pub lenient: Vec<String>,
    /// Facets whose stored normal contradicts their winding (STL).
    pub contradicting_normals: usize,
    /// Faces of fewer than three corners, left out.
    pub short_faces: usize,
    /// Where the first of them stands.
    pub first_short: Option<Place>,
    /// Places of faces are lines, not bytes.
    lines: bool,
    /// Metres per file unit along each axis.
    scale: [f64; 3],
    max_extent: f64,
    max_vertices: usize,
    max_triangles: usize,
    max_corners: usize,
    triangles: usize,
    watch: &'a Watch<'a>,
}

impl<'a> Soup<'a> {
    pub fn new(options: &ImportOptions, watch: &'a Watch<'a>) -> Self {
        Self {
            vertices: Vec::new(),
            corners: Vec::new(),
            faces: Vec::new(),
            lenient: Vec::new(),
            contradicting_normals: 0,
            short_faces: 0,
            first_short: None,
            lines: true,
            scale: options.metres_per_axis().into(),
            max_extent: options.max_extent,
            // Indices are u32, and three corners of every triangle are counted in u32.
            max_vertices: options.max_vertices.min(u32::MAX as usize - 1),
            max_triangles: options.max_triangles.min(u32::MAX as usize / 4),
            max_corners: options.max_corners,
            triangles: 0,
            watch,
        }
    }

    /// To be called for each record or line of the file, of which this is the i-th.
    #[inline]
    pub fn look(&self, i: u64) -> Result<(), Fault> {
        Ok(self.watch.at(i as usize)?)
    }

    /// Refuses a number of vertices and triangles before anything is allocated for them.
    pub fn admit(&self, vertices: u64, triangles: u64, place: Place) -> Result<(), Fault> {
        for (n, max, what) in
            [(vertices, self.max_vertices, "vertices"), (triangles, self.max_triangles, "triangles")]
        {
            if n > max as u64 {
                return Err(Fault::new(
                    place,
                    format!("{n} {what} exceed the limit of {max}; simplify the mesh or raise the limit"),
                ));
            }
        }
        Ok(())
    }

    /// Adds a vertex.
    #[inline]
    pub fn vertex(&mut self, v: [f64; 3], place: Place) -> Result<(), Fault> {
        let near = |i: &usize| (v[*i] * self.scale[*i]).abs() <= self.max_extent;
        // A NaN is not near.
        if let Some(axis) = (0..3).find(|i| !near(i)) {
            return Err(self.far(axis, v[axis], place));
        }
        if self.vertices.len() >= self.max_vertices {
            return self.admit(self.vertices.len() as u64 + 1, 0, place);
        }
        self.vertices.push(v);
        Ok(())
    }

    #[cold]
    fn far(&self, axis: usize, x: f64, place: Place) -> Fault {
        let what = format!("coordinate {} of vertex {}", ["x", "y", "z"][axis], self.vertices.len());
        if x.is_finite() {
            let metres = x * self.scale[axis];
            let limit = self.max_extent;
            return Fault::new(
                place,
                format!(
                    "{what} is {}, which is {} m; the limit is {limit} m: is the unit right?",
                    super::sized(x),
                    super::sized(metres)
                ),
            );
        }
        Fault::new(place, format!("{what} is not finite ({x})"))
    }

    /// Adds a corner to the polygon that [`Soup::face`] will end.
    #[inline]
    pub fn corner(&mut self, index: u32) {
        self.corners.push(index);
    }

    /// Ends a polygon: all corners since the last one.
    #[inline]
    pub fn face(&mut self, place: Place) -> Result<(), Fault> {
        let begin = self.faces.last().map_or(0, |f| f.end as usize);
        let n = self.corners.len() - begin;
        if n < 3 {
            self.corners.truncate(begin);
            self.short_faces += 1;
            self.first_short.get_or_insert(place);
            return Ok(());
        }
        if n > self.max_corners {
            return Err(Fault::new(
                place,
                format!(
                    "a face has {n} corners, more than the limit of {}; triangulate it",
                    self.max_corners
                ),
            ));
        }
        self.triangles += n - 2;
        if self.triangles > self.max_triangles {
            return self.admit(0, self.triangles as u64, place);
        }
        let end = u32::try_from(self.corners.len())
            .map_err(|_| Fault::new(place, "the faces have more than 4,294,967,295 corners"))?;
        let at = match place {
            Place::Line(n) => n,
            Place::Byte(n) => {
                self.lines = false;
                n
            }
            Place::Mesh => 0,
        };
        self.faces.push(Face { end, at });
        Ok(())
    }

    /// Notes an oddity that was accepted; each kind once is enough.
    pub fn accept(&mut self, note: String) {
        if self.lenient.len() < 20 {
            self.lenient.push(note);
        }
    }

    /// True when the file was text: its faces stand in lines.
    pub fn is_text(&self) -> bool {
        self.lines
    }

    /// Where a face stands.
    pub fn place(&self, face: &Face) -> Place {
        if self.lines { Place::Line(face.at) } else { Place::Byte(face.at) }
    }

    /// Every corner names an existing vertex.
    pub fn check_indices(&self, base: u64) -> Result<(), Fault> {
        let n = self.vertices.len();
        let mut begin = 0;
        for (i, face) in self.faces.iter().enumerate() {
            self.watch.at(i)?;
            let end = face.end as usize;
            if let Some(bad) = self.corners[begin..end].iter().find(|i| **i as usize >= n) {
                let index = u64::from(*bad) + base;
                return Err(Fault::new(
                    self.place(face),
                    format!(
                        "a face uses vertex {index}, but the file has {n} vertices (numbered from {base})"
                    ),
                ));
            }
            begin = end;
        }
        Ok(())
    }
}
