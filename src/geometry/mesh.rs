//! The one triangle mesh type that everything behind the importer uses.

use super::Point;

/// An indexed triangle mesh in metres. The importer guarantees: every index is in range, every coordinate is
/// finite, no triangle has two equal indices. Consistent winding and closedness are reported, not guaranteed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TriMesh {
    /// Vertex positions, m.
    pub vertices: Vec<Point>,
    /// Vertex indices of each triangle, anticlockwise seen from outside.
    pub triangles: Vec<[u32; 3]>,
}

impl TriMesh {
    /// The three corners of triangle `t`, m.
    ///
    /// # Panics
    /// When `t` is out of range.
    #[inline]
    pub fn corners(&self, t: usize) -> [Point; 3] {
        let [a, b, c] = self.triangles[t];
        [self.vertices[a as usize], self.vertices[b as usize], self.vertices[c as usize]]
    }

    /// Smallest axis-aligned box over all vertices (min, max), m; `None` for an empty mesh.
    pub fn bounds(&self) -> Option<(Point, Point)> {
        let first = *self.vertices.first()?;
        Some(self.vertices.iter().fold((first, first), |(lo, hi), v| (lo.inf(v), hi.sup(v))))
    }
}
