//! Shared meshes for tests and benches.

use hapticd::geometry::TriMesh;
use hapticd::geometry::import::{Format, ImportOptions, import};
use std::path::PathBuf;

/// The directory of shared meshes, or `None` (with a printed line) where it is absent.
pub fn models() -> Option<PathBuf> {
    let dir = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/models"));
    if dir.is_dir() {
        return Some(dir);
    }
    eprintln!("skipped: {} is absent", dir.display());
    None
}

/// One shared mesh as the importer gives it, one file unit a metre.
pub fn shared(name: &str) -> Option<TriMesh> {
    let bytes = std::fs::read(models()?.join(name)).ok()?;
    let format = match name.rsplit('.').next()? {
        "stl" => Format::Stl,
        "obj" => Format::Obj,
        "ply" => Format::Ply,
        _ => return None,
    };
    match import(name, &bytes, format, &ImportOptions::in_unit(1.0)) {
        Ok(imported) => Some(imported.mesh),
        Err(e) => panic!("{e}"),
    }
}

/// Every shared STL, OBJ and PLY mesh with its name, those of `points/` left out.
#[allow(dead_code, reason = "not every user wants all")]
pub fn all() -> Vec<(String, TriMesh)> {
    those(|_, _| true)
}

/// Those of [`all`] that `wanted` says true for, asked with name and size in bytes: large ones take seconds to read.
pub fn those(wanted: impl Fn(&str, u64) -> bool) -> Vec<(String, TriMesh)> {
    let Some(dir) = models() else { return Vec::new() };
    let mut names = Vec::new();
    for sub in ["", "analytic", "messy"] {
        let Ok(entries) = std::fs::read_dir(dir.join(sub)) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let name = if sub.is_empty() { name } else { format!("{sub}/{name}") };
            if entry.metadata().is_ok_and(|m| wanted(&name, m.len())) {
                names.push(name);
            }
        }
    }
    names.sort();
    names.into_iter().filter_map(|n| shared(&n).map(|m| (n, m))).collect()
}
