//! Real meshes against the figures in models/README.md, which another program (trimesh) computed.

use super::*;
use hapticd::geometry::import::Unit;
use std::path::{Path, PathBuf};

/// A place in the developers' shared data; `None`, with a message, where it is absent.
pub fn shared(what: &str) -> Option<PathBuf> {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared")).join(what);
    if !path.exists() {
        eprintln!("skipped: {} is not there", path.display());
        return None;
    }
    Some(path)
}

/// A row of the README's table.
struct Row {
    file: String,
    unit: String,
    triangles: usize,
    vertices: usize,
    merged: usize,
    watertight: bool,
    open: usize,
    non_manifold: usize,
    shells: usize,
    doubled: usize,
    flat: usize,
    /// Only where the surface is closed and consistently wound.
    volume: Option<f64>,
    size: [f64; 3],
}

fn rows(readme: &str) -> Vec<Row> {
    let number = |s: &str| s.replace(',', "").trim().parse::<usize>().unwrap();
    let pair = |s: &str| s.split('/').map(number).collect::<Vec<_>>();
    readme
        .lines()
        .filter(|l| l.starts_with("| ") && !l.starts_with("| file"))
        .map(|l| {
            let c: Vec<&str> = l.trim_matches('|').split('|').map(str::trim).collect();
            let (v, e, b) = (pair(c[4]), pair(c[6]), pair(c[8]));
            let size: Vec<f64> = c[10].split(" x ").map(|x| x.parse().unwrap()).collect();
            Row {
                file: c[0].into(),
                unit: c[2].into(),
                triangles: number(c[3]),
                vertices: v[0],
                merged: v[1],
                watertight: c[5] == "yes",
                open: e[0],
                non_manifold: e[1],
                shells: number(c[7]),
                doubled: b[1],
                flat: b[2],
                volume: c[9].split(' ').next().and_then(|x| x.parse().ok()),
                size: [size[0], size[1], size[2]],
            }
        })
        .collect()
}

fn metres(unit: &str) -> f64 {
    if unit == "unit" { 0.1 } else { Unit::parse(unit).unwrap().metres() }
}

#[test]
fn all_models_have_the_published_figures() {
    let Some(dir) = shared("models") else { return };
    let readme = std::fs::read_to_string(dir.join("README.md")).unwrap();
    let rows = rows(&readme);
    assert!(rows.len() >= 28);
    let mut stale = Vec::new();
    for r in rows {
        let Ok(format) = Format::of_file(&r.file) else {
            assert!(r.file.ends_with(".off"), "{}", r.file);
            continue;
        };
        let bytes = std::fs::read(dir.join(&r.file)).unwrap();
        let m = metres(&r.unit);
        let options = ImportOptions { crack_tolerance: 0.0, solid_levels: 3, ..ImportOptions::in_unit(m) };
        let got = import(&r.file, &bytes, format, &options).unwrap().report;
        let name = &r.file;
        // The file's own header is the better witness where the table is older than the file.
        if let Some(n) = declared_faces(&bytes).filter(|n| *n != r.triangles) {
            eprintln!("{name}: the table says {} triangles, the file {n}", r.triangles);
            stale.push(r.file.clone());
            assert_eq!(got.file_triangles, n, "{name}");
            continue;
        }
        assert_eq!(got.file_triangles, r.triangles, "{name}: triangles");
        assert_eq!(got.file_vertices, r.vertices, "{name}: vertices in the file");
        assert_eq!(got.file_vertices - got.welded - got.unused_vertices, r.merged, "{name}: merged vertices");
        assert_eq!(got.file_open_edges, r.open, "{name}: open edges");
        assert_eq!(got.file_non_manifold_edges, r.non_manifold, "{name}: non-manifold edges");
        assert_eq!(got.components, r.shells, "{name}: shells");
        assert_eq!(got.file_doubled_faces, r.doubled, "{name}: doubled triangles");
        assert_eq!(got.file_flat_faces, r.flat, "{name}: zero-area triangles");
        let size = (got.bounds.1 - got.bounds.0) / m;
        for k in 0..3 {
            near(size[k], r.size[k], 1e-3);
        }
        if r.watertight {
            assert!(got.closed && got.flipped == 0, "{name}");
        }
        if let Some(v) = r.volume {
            near(got.signed_volume / m.powi(3), v, 1e-5);
        }
    }
    assert!(stale.len() <= 1, "the table does not belong to these files: {stale:?}");
}

/// Faces that a PLY header declares.
fn declared_faces(bytes: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(1000)]);
    text.lines().find_map(|l| l.strip_prefix("element face "))?.parse().ok()
}

/// The report of a model with the default options.
fn report(file: &str, unit: f64) -> Option<hapticd::geometry::import::ImportReport> {
    let path = shared("models")?.join(file);
    let bytes = std::fs::read(path).unwrap();
    Some(import(file, &bytes, Format::of_file(file).unwrap(), &ImportOptions::in_unit(unit)).unwrap().report)
}

#[test]
fn slits_of_the_belt_idler_are_cavities() {
    let Some(got) = report("messy/y-belt-idler.stl", 1e-3) else { return };
    assert_eq!((got.components, got.cavities, got.nested, got.flipped), (11, 10, 0, 0));
    assert!(got.closed && !got.volumes_differ());
}

#[test]
fn overlapping_shells_of_the_counter_count_once() {
    let Some(got) = report("messy/counter_mm.stl", 1e-3) else { return };
    near(got.signed_volume, 888809.012e-9, 1e-8);
    assert!(got.solid_volume < got.signed_volume && got.volumes_differ(), "{got}");
    assert!(got.solid_error < 1e-6 * got.signed_volume);
}

#[test]
fn needles_and_doubles_of_the_einsy_box_go_and_leave_it_closed() {
    let Some(got) = report("messy/einsy-base.stl", 1e-3) else { return };
    assert_eq!((got.file_flat_faces, got.file_doubled_faces), (31, 3));
    assert!(got.closed && got.open_edges == 0, "{got}");
    near(got.signed_volume, 41661.8e-9, 1e-5);
}

#[test]
fn bunny_with_holes_has_the_volume_of_the_filled_one() {
    let (Some(open), Some(filled)) = (report("bunny.ply", 1.0), report("bunny_filled.ply", 1.0)) else {
        return;
    };
    near(filled.solid_volume, 0.000754853412, 1e-6);
    near(open.solid_volume, filled.solid_volume, 5e-3);
    assert_eq!((open.open_edges, open.flipped, open.closed), (223, 0, false));
}

#[test]
fn mixed_winding_of_the_truck_is_repaired() {
    let Some(got) = report("messy/truck.obj", 1.0) else { return };
    assert!(got.file_inconsistent_edges > 0 && got.unorientable_edges == 0);
    assert!(got.flipped > 0 && got.flipped <= got.triangles);
    assert!(got.solid_volume > 0.0);
}
