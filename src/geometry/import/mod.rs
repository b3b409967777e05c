//! Mesh files (STL, OBJ, PLY) to one validated [`TriMesh`] with a report of every repair.
//!
//! A parser per format hands over vertices and polygons within limits; everything after that is common: scale,
//! triangulate, weld, drop what has no area or is there twice, give neighbours one winding, orient the shells by
//! how they lie in one another, measure. Nothing here opens files or panics, whatever the bytes.

mod nesting;
mod obj;
mod orient;
mod ply;
mod polygon;
mod repair;
mod report;
mod solid;
mod soup;
mod stl;
mod text;
mod topology;
mod unit;
mod watch;
mod weld;

pub use report::ImportReport;
pub use unit::{Unit, UnknownUnit};

use super::field::build::{Progress, Silent};
use super::mass::mass_properties;
use super::{Point, TriMesh, Vec3};
use soup::{Fault, Place, Soup};
use topology::EdgeUses;
use watch::{Stage, Stopped, Watch};

/// File formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// STL, ASCII or binary (told apart by size).
    Stl,
    /// Wavefront OBJ.
    Obj,
    /// PLY: ASCII, binary little or big endian.
    Ply,
}

/// The name says no format that is read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no mesh format that is read; use stl, obj or ply")]
pub struct UnknownFormat(pub String);

impl Format {
    /// The format of that name (`stl`, `obj`, `ply`, any case).
    ///
    /// # Errors
    /// [`UnknownFormat`].
    pub fn parse(text: &str) -> Result<Self, UnknownFormat> {
        match text.to_ascii_lowercase().as_str() {
            "stl" => Ok(Self::Stl),
            "obj" => Ok(Self::Obj),
            "ply" => Ok(Self::Ply),
            _ => Err(UnknownFormat(text.chars().take(40).collect())),
        }
    }

    /// The name that [`Format::parse`] takes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stl => "stl",
            Self::Obj => "obj",
            Self::Ply => "ply",
        }
    }

    /// The format that a file's extension says.
    ///
    /// # Errors
    /// [`UnknownFormat`].
    pub fn of_file(name: &str) -> Result<Self, UnknownFormat> {
        let last = name.rsplit('/').next().unwrap_or(name);
        Self::parse(last.rsplit_once('.').map_or("", |(_, extension)| extension))
    }
}

/// Options of an import.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportOptions {
    /// Metres per file unit (1e-3 for mm); there is no default because STL, OBJ and PLY carry no unit.
    pub metres_per_unit: f64,
    /// Further factors along x, y, z. An odd number of negative ones mirrors; the winding follows.
    pub scale: Vec3,
    /// Vertices closer than this are welded, m; 0 = only exactly equal ones.
    pub weld_tolerance: f64,
    /// Vertices of open edges closer than this fraction of the box's diagonal are welded, which closes the cracks
    /// of files with rounded coordinates and touches nothing else; 0 = never.
    pub crack_tolerance: f64,
    /// Halvings of the box when the solid volume of overlapping or open meshes is sampled: 5 (32 cells along a side)
    /// reaches about 0.1 % of the volume; at most 9. Where shells meet it goes deeper by itself, and less deep in soups of large
    /// triangles, which would take minutes: [`ImportReport::solid_error`] says so.
    pub solid_levels: u32,
    /// Refuse instead of repairing.
    pub strict: bool,
    /// Largest number of triangles accepted.
    pub max_triangles: usize,
    /// Largest number of vertices accepted before welding.
    pub max_vertices: usize,
    /// Largest number of corners of one polygon accepted.
    pub max_corners: usize,
    /// Largest distance of a coordinate from the file's origin accepted, m.
    pub max_extent: f64,
}

impl ImportOptions {
    /// Default limits for a file in the given unit.
    pub fn in_unit(metres_per_unit: f64) -> Self {
        Self {
            metres_per_unit,
            scale: Vec3::repeat(1.0),
            weld_tolerance: 0.0,
            crack_tolerance: 1e-6,
            solid_levels: 5,
            strict: false,
            max_triangles: 20_000_000,
            max_vertices: 60_000_000,
            max_corners: 10_000,
            max_extent: 1000.0,
        }
    }

    /// Metres per file unit along each axis, signed.
    pub(crate) fn metres_per_axis(&self) -> Vec3 {
        self.scale * self.metres_per_unit
    }

    fn check(&self) -> Result<(), Fault> {
        let fail = |cause: String| Err(Fault::new(Place::Mesh, cause));
        if !(self.metres_per_unit > 0.0 && self.metres_per_unit.is_finite()) {
            return fail(format!(
                "the unit must be a positive number of metres, not {}",
                self.metres_per_unit
            ));
        }
        if self.scale.iter().any(|s| !s.is_normal()) {
            let [x, y, z] = self.scale.into();
            return fail(format!("the scale must be finite and not zero, not {x}, {y}, {z}"));
        }
        for (name, x) in [
            ("weld tolerance", self.weld_tolerance),
            ("crack tolerance", self.crack_tolerance),
            ("extent limit", self.max_extent),
        ] {
            if !(x >= 0.0 && x.is_finite()) {
                return fail(format!("the {name} must be finite and not negative, not {x}"));
            }
        }
        Ok(())
    }
}

/// A validated mesh and what was done to get it.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The mesh, m.
    pub mesh: TriMesh,
    /// What was found and repaired.
    pub report: ImportReport,
}

/// Why an import failed: file, place, cause.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{file}: {place}: {cause}")]
pub struct ImportError {
    /// File name as the caller gave it.
    pub file: String,
    /// `line 12`, `byte 84`, or `mesh`.
    pub place: String,
    /// What is wrong and what to do.
    pub cause: String,
    /// Nothing is wrong with the file: the caller cancelled.
    pub cancelled: bool,
}

/// Smallest box diagonal that can be a body to be touched, m.
const MIN_EXTENT: f64 = 1e-8;

/// Parses and validates a mesh held in memory. Never panics whatever the bytes; memory stays in proportion to them.
/// Runs on rayon's current pool in part. Not real-time safe.
///
/// # Errors
/// [`ImportError`].
pub fn import(
    file: &str,
    bytes: &[u8],
    format: Format,
    options: &ImportOptions,
) -> Result<Imported, ImportError> {
    import_with(file, bytes, format, options, &Silent)
}

/// As [`import`], with progress in thousandths (how long each takes depends on the mesh), and ended by [`Progress::cancelled`]: within
/// tens of milliseconds, but for meshes of millions of triangles, whose edges are sorted in one go.
///
/// # Errors
/// [`ImportError`], of which `cancelled` says that the caller cancelled.
pub fn import_with(
    file: &str,
    bytes: &[u8],
    format: Format,
    options: &ImportOptions,
    progress: &dyn Progress,
) -> Result<Imported, ImportError> {
    read(bytes, format, options, &Watch::new(progress)).map_err(|fault| ImportError {
        file: file.into(),
        place: fault.place.to_string(),
        cause: fault.cause,
        cancelled: fault.cancelled,
    })
}

/// A number of things, with the right form of the noun.
pub(crate) fn count(n: usize, noun: &str) -> String {
    match (n, noun.strip_suffix("ex")) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{n} {stem}ices"),
        _ => format!("{n} {noun}s"),
    }
}

/// A size with six digits, in powers of ten where it is small or large; 0 is 0.
pub(crate) fn sized(x: f64) -> String {
    if x == 0.0 || (1e-4..1e7).contains(&x.abs()) {
        let text = format!("{x:.6}");
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    format!("{x:.5e}")
}

fn read(bytes: &[u8], format: Format, options: &ImportOptions, watch: &Watch<'_>) -> Result<Imported, Fault> {
    options.check()?;
    watch.enter(Stage::Parse)?;
    let mut soup = Soup::new(options, watch);
    if bytes.is_empty() {
        return Err(Fault::new(Place::Byte(0), "the file is empty"));
    }
    match format {
        Format::Stl => stl::parse(bytes, &mut soup)?,
        Format::Obj => obj::parse(bytes, &mut soup)?,
        Format::Ply => ply::parse(bytes, &mut soup)?,
    }
    if let Some(first) = soup.first_short {
        let n = soup.short_faces;
        soup.accept(format!(
            "{} of fewer than three corners left out, the first in {first}",
            count(n, "face")
        ));
    }
    // A binary file is full of them, and not looked through.
    let nuls = if soup.is_text() { bytes.iter().filter(|b| **b == 0).count() } else { 0 };
    if nuls > 0 && !soup.faces.is_empty() {
        let line = 1 + bytes.iter().take_while(|b| **b != 0).filter(|b| **b == b'\n').count();
        let what = count(nuls, "byte");
        soup.accept(format!(
            "{what} of value 0 taken as blanks, the first in line {line}; is the file damaged?"
        ));
    }
    if soup.faces.is_empty() {
        let n = soup.vertices.len();
        return Err(Fault::new(Place::Mesh, format!("the file has no faces ({})", count(n, "vertex"))));
    }
    let (mesh, report) = repaired(soup, options, watch)?;
    if options.strict
        && let Some(cause) = report.objections()
    {
        return Err(Fault::new(Place::Mesh, format!("refused (strict): {cause}")));
    }
    Ok(Imported { mesh, report })
}

/// From polygons in file units to a mesh in metres, as sound as it gets.
fn repaired(
    soup: Soup<'_>,
    options: &ImportOptions,
    watch: &Watch<'_>,
) -> Result<(TriMesh, ImportReport), Fault> {
    let mut report = ImportReport {
        file_vertices: soup.vertices.len(),
        file_faces: soup.faces.len() + soup.short_faces,
        contradicting_normals: soup.contradicting_normals,
        ..ImportReport::default()
    };
    watch.enter(Stage::Triangulate)?;
    let (mut triangles, crossing) = polygon::triangulate(&soup, watch)?;
    report.crossing_polygons = crossing;
    report.file_triangles = triangles.len();
    let scale = options.metres_per_axis();
    report.mirrored = scale.x * scale.y * scale.z < 0.0;
    if report.mirrored {
        triangles.iter_mut().for_each(|t| t.swap(1, 2));
    }
    let Soup { vertices, lenient, short_faces, .. } = soup;
    report.notes = lenient;
    let metres: Vec<Point> =
        vertices.into_iter().map(|v| Point::from(Vec3::from(v).component_mul(&scale))).collect();
    watch.enter(Stage::Weld)?;
    let (mut mesh, welded, unused) = weld::exact(&metres, triangles, watch)?;
    drop(metres);
    report.welded = welded;
    report.unused_vertices = unused;

    let found = EdgeUses::new(&mesh.triangles).count();
    report.file_open_edges = found.open;
    report.file_non_manifold_edges = found.non_manifold;
    report.file_inconsistent_edges = found.inconsistent;
    let found = repair::find(&mesh, watch)?;
    report.file_flat_faces = found.flat + short_faces;
    report.file_doubled_faces = found.doubled;

    let diagonal = mesh.bounds().map_or(0.0, |(lo, hi)| (hi - lo).norm());
    if diagonal < MIN_EXTENT {
        return Err(Fault::new(
            Place::Mesh,
            format!("the mesh is only {} m large; is the unit or scale right?", sized(diagonal)),
        ));
    }
    if options.weld_tolerance > 0.0 {
        report.welded_near += weld::within(&mut mesh, options.weld_tolerance, watch)?;
    }
    if options.crack_tolerance > 0.0 {
        report.welded_near += weld::cracks(&mut mesh, options.crack_tolerance * diagonal, watch)?;
    }
    watch.enter(Stage::Repair)?;
    let collapsed = repair::collapsed(&mut mesh);
    // Doubled needles cancel before they can be turned; turning can bring two triangles together.
    report.duplicate_faces = repair::duplicates(&mut mesh, watch)?;
    let needles = repair::degenerate(&mut mesh, watch)?;
    report.duplicate_faces += repair::duplicates(&mut mesh, watch)?;
    report.degenerate_faces = short_faces + collapsed + needles.turned + needles.dropped;
    report.needles_turned = needles.turned;
    repair::unused_vertices(&mut mesh);
    if mesh.triangles.is_empty() {
        return Err(Fault::new(
            Place::Mesh,
            format!("no triangle with an area is left of {}", count(report.file_faces, "face")),
        ));
    }

    watch.enter(Stage::Orient)?;
    let uses = EdgeUses::new(&mesh.triangles);
    let mut flood = orient::flood(&mut mesh, &uses, watch)?;
    watch.enter(Stage::Nest)?;
    let nesting = nesting::orient(&mut mesh, &mut flood, &uses, watch)?;
    report.components = topology::components(&mesh);
    report.shells = flood.shells;
    report.flipped = flood.turned.iter().filter(|t| **t).count();
    report.flipped_shells = nesting.turned_shells;
    report.unorientable_edges = flood.contradictions;
    report.cavities = nesting.cavities;
    report.nested = nesting.nested;
    report.unexamined_shells = nesting.unexamined;
    watch.enter(Stage::Measure)?;
    measure(&mesh, &flood.shell, options.solid_levels, &mut report, watch)?;
    Ok((mesh, report))
}

fn measure(
    mesh: &TriMesh,
    shell: &[u32],
    levels: u32,
    report: &mut ImportReport,
    watch: &Watch<'_>,
) -> Result<(), Stopped> {
    let uses = EdgeUses::new(&mesh.triangles);
    let left = uses.count();
    report.open_edges = left.open;
    report.non_manifold_edges = left.non_manifold;
    report.closed = uses.groups().all(|g| g.balance() == 0);
    report.vertices = mesh.vertices.len();
    report.triangles = mesh.triangles.len();
    report.bounds = mesh.bounds().unwrap_or_else(|| (Point::origin(), Point::origin()));
    let mass = mass_properties(mesh);
    report.area = mass.area;
    report.signed_volume = mass.volume;
    let solid = solid::measure(mesh, shell, report.closed, &mass, levels, watch)?;
    report.centroid = solid.centroid;
    report.inertia = solid.inertia;
    report.solid_volume = solid.volume;
    report.solid_error = solid.error;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_comes_from_the_extension() {
        assert_eq!(Format::of_file("/a.b/x.STL"), Ok(Format::Stl));
        assert_eq!(Format::of_file("x.tar.ply"), Ok(Format::Ply));
        for bad in ["stl", "/a.stl/x", "beetle.off", "x.", ""] {
            let message = Format::of_file(bad).unwrap_err().to_string();
            assert!(message.contains("stl, obj or ply"), "{message}");
        }
    }

    #[test]
    fn senseless_options_are_refused() {
        let good = ImportOptions::in_unit(1e-3);
        let stl = crate::geometry::shapes::write_stl(&crate::geometry::shapes::icosphere(0.05, 1));
        for bad in [
            ImportOptions { metres_per_unit: 0.0, ..good.clone() },
            ImportOptions { metres_per_unit: f64::NAN, ..good.clone() },
            ImportOptions { metres_per_unit: -1.0, ..good.clone() },
            ImportOptions { scale: Vec3::new(1.0, 0.0, 1.0), ..good.clone() },
            ImportOptions { scale: Vec3::new(1.0, f64::INFINITY, 1.0), ..good.clone() },
            ImportOptions { weld_tolerance: f64::NAN, ..good.clone() },
            ImportOptions { crack_tolerance: -1.0, ..good.clone() },
            ImportOptions { max_extent: f64::INFINITY, ..good.clone() },
        ] {
            assert_eq!(import("x.stl", &stl, Format::Stl, &bad).unwrap_err().place, "mesh");
        }
        assert!(import("x.stl", &stl, Format::Stl, &good).is_ok());
    }
}
