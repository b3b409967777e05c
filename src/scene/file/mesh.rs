//! `[meshes.NAME]`: a file with its unit, or a generated shape, and how finely its field is sampled.

use super::scale;
use crate::config::source::{SourceError, Table};
use crate::geometry::TriMesh;
use crate::geometry::field::build::{FieldParams, Resolution};
use crate::geometry::import::{self, Format, ImportOptions, ImportReport};
use crate::scene::model::{GeometrySpec, Method, ProxyOn, Shell, SourceMesh};
use std::io::Read;
use std::path::Path;

/// Largest mesh file that is read, bytes.
const MAX_MESH_FILE: u64 = 2 << 30;

pub(super) fn read(
    t: &Table<'_>,
    name: &str,
    base: &Path,
) -> Result<(GeometrySpec, Option<ImportReport>), SourceError> {
    let (mesh, label, report) = match (t.opt::<String>("file")?, t.opt::<String>("shape")?) {
        (Some(file), None) => {
            let (mesh, report) = from_file(t, &base.join(&file))?;
            (mesh, format!("{name}: {file}"), Some(report))
        }
        (None, Some(shape)) => (super::shape::read(t, &shape)?, format!("{name}: {shape}"), None),
        _ => return Err(t.error_here("give either file (with unit) or shape")),
    };
    let scale = scale(t)?;
    crate::scene::model::check_scale(&scale).map_err(|e| t.error("scale", e.cause))?;
    let mesh = SourceMesh::new(mesh, label).rescaled(&scale);
    let hold_thin = t.or("hold_thin", false)?;
    Ok((GeometrySpec { mesh, params: params(t)?, method: method(t)?, hold_thin }, report))
}

/// `method` of meshes and objects.
pub(super) fn method(t: &Table<'_>) -> Result<Option<Method>, SourceError> {
    let Some(name) = t.opt::<String>("method")? else { return Ok(None) };
    let unknown = || t.error("method", format!("no method '{name}'; known: {}", Method::NAMES));
    Method::named(&name).ok_or_else(unknown).map(Some)
}

/// `shell` of objects.
pub(super) fn shell(t: &Table<'_>) -> Result<Shell, SourceError> {
    let Some(name) = t.opt::<String>("shell")? else { return Ok(Shell::Auto) };
    let unknown = || t.error("shell", format!("no body '{name}' to be sampled; known: {}", Shell::NAMES));
    Shell::named(&name).ok_or_else(unknown)
}

/// `proxy` of objects.
pub(super) fn proxy(t: &Table<'_>) -> Result<ProxyOn, SourceError> {
    let Some(name) = t.opt::<String>("proxy")? else { return Ok(ProxyOn::Field) };
    let unknown = || t.error("proxy", format!("no proxy on '{name}'; known: {}", ProxyOn::NAMES));
    ProxyOn::named(&name).ok_or_else(unknown)
}

/// One of `cells`, `cell_m`, `memory_mb`; and `padding`.
fn params(t: &Table<'_>) -> Result<FieldParams, SourceError> {
    let d = FieldParams::default();
    let given = (t.opt("cells")?, t.opt("cell_m")?, t.opt::<u64>("memory_mb")?);
    let resolution = match given {
        (None, None, None) => d.resolution,
        (Some(cells), None, None) => Resolution::Longest(cells),
        (None, Some(cell), None) => Resolution::Cell(cell),
        (None, None, Some(mb)) => Resolution::MemoryCap(mb.saturating_mul(1 << 20)),
        _ => return Err(t.error_here("give one of cells, cell_m, memory_mb")),
    };
    Ok(FieldParams { resolution, padding: t.or("padding", d.padding)? })
}

fn from_file(t: &Table<'_>, path: &Path) -> Result<(TriMesh, ImportReport), SourceError> {
    let unit: String = t.req("unit")?;
    let unit = import::Unit::parse(&unit).map_err(|e| t.error("unit", e.to_string()))?;
    let format = format(t, path)?;
    let options = ImportOptions {
        weld_tolerance: t.within("weld_m", 0.0, 0.0..=1.0)?,
        strict: t.or("strict", false)?,
        ..ImportOptions::in_unit(unit.metres())
    };
    let name = path.display().to_string();
    let bytes = bytes(path).map_err(|e| t.error("file", format!("{name}: {e}")))?;
    let imported =
        import::import(&name, &bytes, format, &options).map_err(|e| t.error("file", e.to_string()))?;
    Ok((imported.mesh, imported.report))
}

fn bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = crate::config::open_regular(path)?;
    file.take(MAX_MESH_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_MESH_FILE {
        return Err(std::io::Error::other(format!("larger than {MAX_MESH_FILE} bytes")));
    }
    Ok(bytes)
}

fn format(t: &Table<'_>, path: &Path) -> Result<Format, SourceError> {
    let given = t.opt::<String>("format")?;
    let key = if given.is_some() { "format" } else { "file" };
    let word = given.or_else(|| path.extension().map(|e| e.to_string_lossy().to_lowercase()));
    match word.as_deref() {
        Some("stl") => Ok(Format::Stl),
        Some("obj") => Ok(Format::Obj),
        Some("ply") => Ok(Format::Ply),
        other => Err(t.error(key, format!("'{}' is none of stl, obj, ply", other.unwrap_or("")))),
    }
}
