//! What an import found and did.

use super::count;
use crate::geometry::Point;
use nalgebra::Matrix3;
use serde::{Serialize, Serializer};
use std::fmt;

/// What an import found and repaired. Lengths in metres, counts of the finished mesh unless they say `file`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ImportReport {
    /// Vertices in the file.
    pub file_vertices: usize,
    /// Faces in the file.
    pub file_faces: usize,
    /// Triangles after splitting polygons, before any repair.
    pub file_triangles: usize,
    /// Edges of one triangle, after welding equal vertices, before any repair.
    pub file_open_edges: usize,
    /// Edges of more than two triangles, before any repair.
    pub file_non_manifold_edges: usize,
    /// Edges whose two triangles wind against each other, before any repair.
    pub file_inconsistent_edges: usize,
    /// Faces without area, before any repair.
    pub file_flat_faces: usize,
    /// Further faces on the corners of another, before any repair.
    pub file_doubled_faces: usize,
    /// Facets whose stored normal contradicts their winding; the winding counts.
    pub contradicting_normals: usize,
    /// Polygons whose outline crosses itself: no triangulation is right.
    pub crossing_polygons: usize,
    /// Oddities of the file that were accepted.
    pub notes: Vec<String>,
    /// The scale mirrors; the winding was turned with it.
    pub mirrored: bool,

    /// Vertices merged because they were equal.
    pub welded: usize,
    /// Vertices merged within a tolerance.
    pub welded_near: usize,
    /// Vertices that no face uses, dropped.
    pub unused_vertices: usize,
    /// Faces without area, removed.
    pub degenerate_faces: usize,
    /// Of these, needles turned into their neighbour so that the surface stays closed.
    pub needles_turned: usize,
    /// Faces that were there twice, removed.
    pub duplicate_faces: usize,
    /// Triangles whose winding was turned.
    pub flipped: usize,
    /// Shells that were turned as a whole (part of `flipped`).
    pub flipped_shells: usize,

    /// Vertices.
    pub vertices: usize,
    /// Triangles.
    pub triangles: usize,
    /// Surfaces that hang together, be it over a vertex.
    pub components: usize,
    /// Surfaces that are complete in themselves; two boxes with a common edge are one component of two shells.
    pub shells: usize,
    /// Shells that bound an empty space inside a solid.
    pub cavities: usize,
    /// Shells that lie in another's solid and add nothing to it.
    pub nested: usize,
    /// Shells beyond the number that is compared with others.
    pub unexamined_shells: usize,
    /// Edges of one triangle: holes.
    pub open_edges: usize,
    /// Edges of more than two triangles.
    pub non_manifold_edges: usize,
    /// Edges at which no consistent winding exists.
    pub unorientable_edges: usize,
    /// Every edge has as many sides one way as the other, so that inside and outside are exact.
    pub closed: bool,

    /// Smallest box (min, max), m.
    #[serde(serialize_with = "bounds")]
    pub bounds: (Point, Point),
    /// Surface, m^2.
    pub area: f64,
    /// Sum over the triangles, m^3: overlapping shells count twice, holes are closed by a fan from the box's centre.
    pub signed_volume: f64,
    /// Where the winding number exceeds one half, m^3: overlapping shells count once.
    pub solid_volume: f64,
    /// Standard error of `solid_volume`, rounding included, m^3; 0 where no overlap was found, so that it equals the signed one. Larger
    /// for soups of large triangles, which are measured more coarsely.
    pub solid_error: f64,
    /// Centroid of the solid, m; of the signed volume where there is no solid.
    #[serde(serialize_with = "point")]
    pub centroid: Point,
    /// Inertia of the solid about its centroid at 1 kg/m^3, kg·m^2.
    #[serde(serialize_with = "matrix")]
    pub inertia: Matrix3<f64>,
}

impl Default for ImportReport {
    fn default() -> Self {
        Self {
            file_vertices: 0,
            file_faces: 0,
            file_triangles: 0,
            file_open_edges: 0,
            file_non_manifold_edges: 0,
            file_inconsistent_edges: 0,
            file_flat_faces: 0,
            file_doubled_faces: 0,
            contradicting_normals: 0,
            crossing_polygons: 0,
            notes: Vec::new(),
            mirrored: false,
            welded: 0,
            welded_near: 0,
            unused_vertices: 0,
            degenerate_faces: 0,
            needles_turned: 0,
            duplicate_faces: 0,
            flipped: 0,
            flipped_shells: 0,
            vertices: 0,
            triangles: 0,
            components: 0,
            shells: 0,
            cavities: 0,
            nested: 0,
            unexamined_shells: 0,
            open_edges: 0,
            non_manifold_edges: 0,
            unorientable_edges: 0,
            closed: false,
            bounds: (Point::origin(), Point::origin()),
            area: 0.0,
            signed_volume: 0.0,
            solid_volume: 0.0,
            solid_error: 0.0,
            centroid: Point::origin(),
            inertia: Matrix3::zeros(),
        }
    }
}

impl ImportReport {
    /// Signed and solid volume differ by more than four standard errors (and rounding).
    pub fn volumes_differ(&self) -> bool {
        let gap = (self.signed_volume - self.solid_volume).abs();
        gap > 4.0 * self.solid_error + 1e-9 * self.signed_volume.abs()
    }

    /// Repairs that were made, in words; empty when the file was sound.
    pub fn repairs(&self) -> Vec<String> {
        let mut list = Vec::new();
        let mut add = |n: usize, noun: &str, what: &str| {
            if n > 0 {
                list.push(format!("{} {what}", count(n, noun)));
            }
        };
        add(self.welded_near, "vertex", "merged within the tolerance");
        add(self.degenerate_faces, "face", "without area removed");
        add(self.duplicate_faces, "duplicate face", "removed");
        add(self.flipped, "triangle", "turned to wind alike and outwards");
        list.extend(self.notes.iter().cloned());
        list
    }

    /// What is left that makes inside and outside uncertain, in words.
    pub fn defects(&self) -> Vec<String> {
        let mut list = Vec::new();
        let mut add = |n: usize, noun: &str, what: &str| {
            if n > 0 {
                list.push(format!("{} {what}", count(n, noun)).trim_end().to_owned());
            }
        };
        add(self.open_edges, "open edge", "");
        add(self.non_manifold_edges, "edge", "with more than two triangles");
        add(self.unorientable_edges, "edge", "without a consistent winding");
        add(self.crossing_polygons, "polygon", "with an outline that crosses itself");
        add(self.unexamined_shells, "shell", "whose nesting was not examined");
        list
    }

    /// Why strict mode refuses, in words; `None` when it does not.
    pub fn objections(&self) -> Option<String> {
        let mut all = self.repairs();
        all.extend(self.defects());
        (!all.is_empty()).then(|| all.join("; "))
    }
}

impl fmt::Display for ImportReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, value: String| writeln!(f, "{name:<22} {value}");
        line(
            "file",
            [(self.file_vertices, "vertex"), (self.file_faces, "face"), (self.file_triangles, "triangle")]
                .map(|(n, noun)| count(n, noun))
                .join(", "),
        )?;
        line(
            "  edges as found",
            format!(
                "{} open, {} of more than two triangles, {} wound inconsistently",
                self.file_open_edges, self.file_non_manifold_edges, self.file_inconsistent_edges
            ),
        )?;
        line(
            "  faces as found",
            format!("{} without area, {} doubled", self.file_flat_faces, self.file_doubled_faces),
        )?;
        if self.contradicting_normals > 0 {
            line(
                "  stored normals",
                format!("{} contradict the winding, which counts", self.contradicting_normals),
            )?;
        }
        if self.mirrored {
            line("  mirrored", "the scale mirrors; the winding was turned with it".into())?;
        }
        line("mesh", format!("{}, {}", count(self.vertices, "vertex"), count(self.triangles, "triangle")))?;
        line(
            "  welded",
            format!(
                "{} equal vertices, {} within tolerance; {} unused dropped",
                self.welded, self.welded_near, self.unused_vertices
            ),
        )?;
        line(
            "  removed",
            format!(
                "{} without area ({} turned into a neighbour), {} duplicates",
                self.degenerate_faces, self.needles_turned, self.duplicate_faces
            ),
        )?;
        line(
            "  turned",
            format!("{}, {}", count(self.flipped, "triangle"), count(self.flipped_shells, "whole shell")),
        )?;
        line(
            "  components",
            format!(
                "{}, of {} shells ({} cavities, {} within another's solid)",
                self.components, self.shells, self.cavities, self.nested
            ),
        )?;
        line("  open edges", self.open_edges.to_string())?;
        line("  non-manifold edges", self.non_manifold_edges.to_string())?;
        if self.unorientable_edges > 0 {
            line("  unorientable edges", self.unorientable_edges.to_string())?;
        }
        if self.crossing_polygons > 0 {
            line("  crossing polygons", self.crossing_polygons.to_string())?;
        }
        if self.unexamined_shells > 0 {
            line("  not examined", format!("{}, by volume alone", count(self.unexamined_shells, "shell")))?;
        }
        line("  closed", if self.closed { "yes" } else { "no: inside is estimated near holes" }.into())?;
        for note in &self.notes {
            line("  note", note.clone())?;
        }
        let mm = |x: f64| x * 1e3;
        let size = self.bounds.1 - self.bounds.0;
        line("box", format!("{:.4} x {:.4} x {:.4} mm", mm(size.x), mm(size.y), mm(size.z)))?;
        let (lo, hi) = self.bounds;
        line(
            "  from, to",
            format!(
                "({:.4} {:.4} {:.4}), ({:.4} {:.4} {:.4}) mm",
                mm(lo.x),
                mm(lo.y),
                mm(lo.z),
                mm(hi.x),
                mm(hi.y),
                mm(hi.z)
            ),
        )?;
        let e = |x: f64, digits: usize| if x == 0.0 { "0".into() } else { format!("{x:.digits$e}") };
        line("area", format!("{} m^2", e(self.area, 6)))?;
        line("signed volume", format!("{} m^3", e(self.signed_volume, 9)))?;
        let certainty = match (self.solid_error, self.volumes_differ()) {
            (e, _) if !self.closed => format!("+- {e:.1e}, by the winding number, as the surface is open"),
            (0.0, _) => "no overlap found".into(),
            (e, true) => format!("+- {e:.1e}; differs: shells overlap"),
            (e, false) => format!("+- {e:.1e}"),
        };
        line("solid volume", format!("{} m^3 ({certainty})", e(self.solid_volume, 9)))?;
        let c = self.centroid;
        line("centroid", format!("({:.6} {:.6} {:.6}) mm", mm(c.x), mm(c.y), mm(c.z)))?;
        let i = &self.inertia;
        line(
            "inertia at 1 kg/m^3",
            format!("xx {}, yy {}, zz {} kg m^2", e(i[(0, 0)], 6), e(i[(1, 1)], 6), e(i[(2, 2)], 6)),
        )?;
        line("", format!("xy {}, xz {}, yz {}", e(i[(0, 1)], 6), e(i[(0, 2)], 6), e(i[(1, 2)], 6)))
    }
}

fn point<S: Serializer>(p: &Point, s: S) -> Result<S::Ok, S::Error> {
    [p.x, p.y, p.z].serialize(s)
}

fn bounds<S: Serializer>(b: &(Point, Point), s: S) -> Result<S::Ok, S::Error> {
    [[b.0.x, b.0.y, b.0.z], [b.1.x, b.1.y, b.1.z]].serialize(s)
}

fn matrix<S: Serializer>(m: &Matrix3<f64>, s: S) -> Result<S::Ok, S::Error> {
    let rows: [[f64; 3]; 3] = std::array::from_fn(|i| std::array::from_fn(|j| m[(i, j)]));
    rows.serialize(s)
}
