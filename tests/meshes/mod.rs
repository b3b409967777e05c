//! Shared meshes for tests and benches.

use hapticd::geometry::{Point, TriMesh};
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

/// One shared mesh.
pub fn shared(name: &str) -> Option<TriMesh> {
    let bytes = std::fs::read(models()?.join(name)).ok()?;
    Some(if name.ends_with(".ply") { ply(&bytes) } else { stl(&bytes) })
}

/// Every shared STL, OBJ and PLY mesh with its name, those of `points/` left out.
pub fn all() -> Vec<(String, TriMesh)> {
    let Some(dir) = models() else { return Vec::new() };
    let mut names = Vec::new();
    for sub in ["", "analytic", "messy"] {
        let Ok(entries) = std::fs::read_dir(dir.join(sub)) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if [".stl", ".ply"].iter().any(|e| name.ends_with(e)) {
                names.push(if sub.is_empty() { name } else { format!("{sub}/{name}") });
            }
        }
    }
    names.sort();
    names.into_iter().filter_map(|n| shared(&n).map(|m| (n, m))).collect()
}

fn stl(bytes: &[u8]) -> TriMesh {
    let mut mesh = TriMesh::default();
    if bytes.starts_with(b"solid") {
        for line in String::from_utf8_lossy(bytes).lines() {
            if let Some(rest) = line.trim().strip_prefix("vertex") {
                let x: Vec<f64> = rest.split_whitespace().map(|x| x.parse().unwrap()).collect();
                mesh.vertices.push(Point::new(x[0], x[1], x[2]));
            }
        }
    } else {
        for t in bytes[84..].chunks_exact(50) {
            for c in 0..3 {
                let f = |k: usize| {
                    f64::from(f32::from_le_bytes(t[12 + 12 * c + 4 * k..][..4].try_into().unwrap()))
                };
                mesh.vertices.push(Point::new(f(0), f(1), f(2)));
            }
        }
    }
    mesh.triangles = (0..mesh.vertices.len() as u32 / 3).map(|t| [3 * t, 3 * t + 1, 3 * t + 2]).collect();
    mesh
}

fn ply(bytes: &[u8]) -> TriMesh {
    let end = bytes.windows(11).position(|w| w == b"end_header\n").unwrap() + 11;
    let head = String::from_utf8_lossy(&bytes[..end]);
    let (mut nv, mut nf, mut vs, mut fs, mut face) = (0, 0, 0, 0, false);
    for l in head.lines() {
        let w: Vec<&str> = l.split_whitespace().collect();
        match w[..] {
            ["element", "vertex", n] => nv = n.parse().unwrap(),
            ["element", "face", n] => (nf, face) = (n.parse().unwrap(), true),
            ["property", "float", _] if !face => vs += 4,
            ["property", "uchar", _] if !face => vs += 1,
            ["property", "uchar", _] => fs += 1,
            _ => {}
        }
    }
    let body = &bytes[end..];
    let f = |o: usize| f64::from(f32::from_le_bytes(body[o..o + 4].try_into().unwrap()));
    let u = |o: usize| u32::from_le_bytes(body[o..o + 4].try_into().unwrap());
    let vertices = (0..nv).map(|i: usize| Point::new(f(i * vs), f(i * vs + 4), f(i * vs + 8))).collect();
    let at = nv * vs;
    let triangles = (0..nf)
        .map(|i: usize| at + i * (13 + fs))
        .map(|o| {
            assert_eq!(body[o], 3);
            [u(o + 1), u(o + 5), u(o + 9)]
        })
        .collect();
    TriMesh { vertices, triangles }
}
