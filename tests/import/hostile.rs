//! Bytes that mean harm: no panic, no hang, no memory out of proportion.

use super::*;
use hapticd::geometry::import::ImportOptions;
use hapticd::geometry::{Vec3, shapes};
use proptest::prelude::*;

const FORMATS: [Format; 3] = [Format::Stl, Format::Obj, Format::Ply];

/// Imports and checks what holds for any bytes: memory in proportion, a message of sane length, a valid mesh.
fn survive(bytes: &[u8], format: Format) {
    // Coarse: many thousands of files are tried.
    let options = ImportOptions { solid_levels: 2, ..ImportOptions::in_unit(1e-3) };
    let (got, peak) = peak_bytes(|| import("x", bytes, format, &options));
    assert!(peak <= 64 * bytes.len() + 200_000, "{peak} bytes held for a file of {} bytes", bytes.len());
    match got {
        Ok(got) => {
            let n = got.mesh.vertices.len() as u32;
            assert!(!got.mesh.triangles.is_empty());
            assert!(
                got.mesh.triangles.iter().all(|t| t.iter().all(|i| *i < n) && t[0] != t[1] && t[1] != t[2])
            );
            assert!(got.mesh.vertices.iter().all(|p| p.coords.iter().all(|x| x.is_finite())));
            assert!(got.report.solid_volume.is_finite() && got.report.signed_volume.is_finite());
            let _ = got.report.to_string();
        }
        Err(e) => {
            let text = e.to_string();
            assert!(text.len() < 1000 && !text.contains('\0'), "{text}");
            assert!(
                e.place == "mesh" || e.place.starts_with("line ") || e.place.starts_with("byte "),
                "{text}"
            );
        }
    }
}

/// Small valid files of every kind.
fn seeds() -> Vec<(Vec<u8>, Format)> {
    let mesh = shapes::cylinder(0.5, 2.0, 6);
    let mut quads = obj(&shapes::cuboid(Vec3::new(1.0, 1.0, 1.0)));
    quads += "f 1 5 7 3\nf -1 -2/1 \\\n -3//2\nvn 0 0 1\nusemtl x\n";
    vec![
        (shapes::write_stl(&mesh), Format::Stl),
        (binary_stl(b"solid facet", 24, &facets(&mesh)), Format::Stl),
        (ascii_stl(&mesh).into_bytes(), Format::Stl),
        (obj(&mesh).into_bytes(), Format::Obj),
        (quads.into_bytes(), Format::Obj),
        (ply(&mesh, Encoding::Ascii, "\n"), Format::Ply),
        (ply(&mesh, Encoding::Ascii, "\r"), Format::Ply),
        (ply(&mesh, Encoding::Little, "\n"), Format::Ply),
        (ply(&mesh, Encoding::Big, "\r\n"), Format::Ply),
    ]
}

#[test]
fn every_truncation_of_every_kind_survives() {
    for (bytes, format) in seeds() {
        for n in 0..bytes.len() {
            survive(&bytes[..n], format);
        }
        for n in (0..bytes.len()).step_by(13) {
            survive(&bytes[n..], format);
        }
    }
}

#[test]
fn every_seed_under_every_format_survives() {
    for (bytes, _) in seeds() {
        for format in FORMATS {
            survive(&bytes, format);
        }
    }
}

/// Words that have broken readers of these formats.
const POISON: [&str; 24] = [
    "nan",
    "inf",
    "-inf",
    "1e999",
    "1e308",
    "-0",
    "4294967295",
    "4294967296",
    "18446744073709551616",
    "-1",
    "-9223372036854775808",
    "0",
    "\\\n",
    "\0",
    "\u{feff}",
    "\r",
    "#",
    "f",
    "v",
    "solid",
    "endsolid",
    "element x 9",
    "list",
    "end_header",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_survive(bytes in prop::collection::vec(any::<u8>(), 0..400), which in 0..3_usize) {
        survive(&bytes, FORMATS[which]);
    }

    #[test]
    fn random_bytes_after_a_valid_start_survive(bytes in prop::collection::vec(any::<u8>(), 0..200), seed in 0..9_usize, keep in 0.0..1.0_f64) {
        let (mut start, format) = seeds().swap_remove(seed);
        start.truncate((start.len() as f64 * keep) as usize);
        start.extend(bytes);
        survive(&start, format);
    }

    #[test]
    fn changed_bytes_survive(seed in 0..9_usize, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12)) {
        let (mut bytes, format) = seeds().swap_remove(seed);
        for (at, value) in changes {
            let i = at.index(bytes.len());
            bytes[i] = value;
        }
        survive(&bytes, format);
    }

    #[test]
    fn poisoned_words_survive(seed in 0..9_usize, places in prop::collection::vec((any::<prop::sample::Index>(), 0..POISON.len()), 1..6)) {
        let (mut bytes, format) = seeds().swap_remove(seed);
        for (at, word) in places {
            let i = at.index(bytes.len());
            let end = bytes[i..].iter().position(u8::is_ascii_whitespace).map_or(bytes.len(), |n| i + n);
            bytes.splice(i..end, POISON[word].bytes());
        }
        survive(&bytes, format);
    }

    #[test]
    fn moved_and_repeated_pieces_survive(seed in 0..9_usize, from in any::<prop::sample::Index>(), to in any::<prop::sample::Index>(), n in 1..200_usize) {
        let (mut bytes, format) = seeds().swap_remove(seed);
        let from = from.index(bytes.len());
        let piece = bytes[from..(from + n).min(bytes.len())].to_vec();
        let at = to.index(bytes.len());
        bytes.splice(at..at, piece);
        survive(&bytes, format);
    }
}

/// Inputs made to be slow: each would take minutes with quadratic code.
#[test]
fn inputs_made_to_be_slow_are_not() {
    // One line of a million solids, a line of a million blanks, a million empty lines.
    survive(&b"solid x endsolid ".repeat(60_000), Format::Stl);
    survive(&[&b"solid facet"[..], &b" ".repeat(1_000_000)].concat(), Format::Stl);
    survive(&b"\n".repeat(1_000_000), Format::Obj);
    survive(&b"\\\n".repeat(500_000), Format::Obj);
    survive(&(0..100_000).map(|i| format!("k{i}\n")).collect::<String>().into_bytes(), Format::Obj);
    survive(&[&b"ply\n"[..], &b"comment\n".repeat(200_000)].concat(), Format::Ply);
    survive(&[&b"ply\nformat ascii 1.0\n"[..], &b"element x 0\n".repeat(100_000)].concat(), Format::Ply);
    let many: String = (0..50_000).map(|i| format!("element e{i} 0\n")).collect();
    survive(format!("ply\nformat ascii 1.0\n{many}").as_bytes(), Format::Ply);
    // Elements without properties take no bytes: their number must not be counted through.
    let empty = "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\n\
                 element ghost 18446744073709551615\nelement face 1\nproperty list uchar int vertex_index\nend_header\n\
                 0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n";
    assert!(load(empty, Format::Ply).is_ok());
    // All triangles on one edge; all in one place; nested dolls; a thousand needles on a line; a comb polygon.
    let mut fan = String::from("v 0 0 0\nv 0 0 1\n");
    for i in 0..20_000 {
        let a = f64::from(i) * 1e-3;
        fan += &format!("v {} {} 0\n", a.cos(), a.sin());
        fan += &format!("f 1 2 {}\n", i + 3);
    }
    survive(fan.as_bytes(), Format::Obj);
    survive(
        format!("v 0 0 0\nv 1 0 0\nv 0 1 0\n{}", "f 1 2 3\nf 3 2 1\n".repeat(20_000)).as_bytes(),
        Format::Obj,
    );
    let tetrahedron = [[0., 0., 1.], [1., 0., -1.], [-1., 1., -1.], [-1., -1., -1.]];
    let mut dolls = String::new();
    for i in 0..3000 {
        let s = 1.0 - f64::from(i) / 3001.0;
        tetrahedron.iter().for_each(|p| dolls += &format!("v {} {} {}\n", s * p[0], s * p[1], s * p[2]));
        dolls += "f -4 -3 -2\nf -4 -2 -1\nf -4 -1 -3\nf -3 -1 -2\n";
    }
    survive(dolls.as_bytes(), Format::Obj);
    let line: String = (0..4000).map(|i| format!("v {i} 0 0\n")).collect();
    let needles: String = (1..3998).map(|i| format!("f {i} {} 4000\n", i + 1)).collect();
    survive(format!("{line}{needles}").as_bytes(), Format::Obj);
    let mut comb = String::new();
    for i in 0..4000 {
        comb += &format!("v {} {} 0\n", i, if i % 2 == 0 { 1000 } else { 1 });
    }
    comb += "v 4000 0 0\nv 0 0 0\n";
    let face = (1..=4002).fold(String::from("f"), |s, i| format!("{s} {i}"));
    survive(format!("{comb}{face}\n").as_bytes(), Format::Obj);
}

#[test]
fn depth_of_nesting_is_bounded_and_said() {
    // More shells than are compared with each other.
    let small = shapes::icosphere(0.3, 0);
    let mut all = TriMesh::default();
    for i in 0..5000_u32 {
        let by = Vec3::new(f64::from(i % 100), f64::from(i / 100), 0.0);
        let base = all.vertices.len() as u32;
        all.vertices.extend(small.vertices.iter().map(|v| v + by));
        all.triangles.extend(small.triangles.iter().map(|t| t.map(|k| k + base)));
    }
    let got = load(obj(&all), Format::Obj).unwrap().report;
    assert_eq!((got.components, got.unexamined_shells, got.flipped), (5000, 5000 - 4096, 0));
    assert!(got.defects().iter().any(|d| d.contains("904")));
}
