//! Public bug reports of other importers, each as the example of a whole kind.

use super::*;
use hapticd::geometry::{Vec3, shapes};

fn cube() -> TriMesh {
    shapes::cuboid(Vec3::new(1.0, 2.0, 3.0))
}

const SQUARE: &str = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\n";

// C1: stl_reader issue 3, gpytoolbox issue 179, compas issue 179.
#[test]
fn binary_stl_whose_header_begins_with_solid() {
    let f = facets(&cube());
    for header in [
        &b"solid"[..],
        b"solid ascii facet normal 0 0 1",
        b"SOLID x\n facet",
        b"solid\nendsolid",
        b"\xff\xfe\x00",
    ] {
        let got = load(binary_stl(header, 12, &f), Format::Stl).unwrap();
        assert_eq!(got.report.file_triangles, 12);
        near(got.report.signed_volume, 6.0, 1e-12);
    }
}

// C3, C5: meshlab issue 1281; a count too low must not lose facets, a count too high is a truncated file.
#[test]
fn stl_count_that_contradicts_the_size() {
    let f = facets(&cube());
    for count in [0, 1, 11] {
        let e = fails(binary_stl(b"", count, &f), Format::Stl);
        assert_eq!(e.place, "byte 80");
        assert!(e.cause.contains("12") && e.cause.contains(&count.to_string()), "{e}");
    }
    for count in [13, 1_000_000, u32::MAX] {
        let e = fails(binary_stl(b"", count, &f), Format::Stl);
        assert_eq!(e.place, format!("byte {}", 84 + 600));
        assert!(e.cause.contains("12") && e.cause.contains(&count.to_string()), "{e}");
    }
    // A few stray bytes lose nothing: accepted with a note, refused when strict.
    let mut padded = binary_stl(b"", 12, &f);
    padded.extend([0; 7]);
    assert_eq!(load(&padded, Format::Stl).unwrap().report.notes.len(), 1);
    assert!(strict(&padded, Format::Stl).unwrap_err().cause.contains("7 bytes"));
}

// C7: meshlab issue 806: counts whose bytes look like text (26 << 8, line feeds, blanks).
#[test]
fn stl_of_any_count_loads_whole() {
    for n in [1_usize, 10, 13, 0x0a0d, 0x2020, 6656, 6700, 6911, 0x1a1a] {
        let f: Vec<_> = (0..n)
            .map(|i| {
                let (x, y) = ((i % 100) as f32, (i / 100) as f32);
                [[x, y, 0.0], [x + 0.5, y, 0.0], [x, y + 0.5, 0.0]]
            })
            .collect();
        let got = load(binary_stl(b"solid", n as u32, &f), Format::Stl).unwrap();
        assert_eq!((got.report.file_triangles, got.report.triangles, got.report.components), (n, n, n));
        near(got.report.area, 0.125 * n as f64, 1e-9);
    }
}

// C9: PrusaSlicer issue 14343, and C27's NaN: in every format and place.
#[test]
fn coordinates_that_are_no_positions() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e31, -2000.0] {
        for corner in 0..3 {
            for axis in 0..3 {
                let mut f = facets(&cube());
                f[5][corner][axis] = bad;
                let e = fails(binary_stl(b"", 12, &f), Format::Stl);
                assert_eq!(e.place, format!("byte {}", 84 + 5 * 50 + 12 + 12 * corner), "{e}");
                assert!(e.cause.contains(["x", "y", "z"][axis]), "{e}");
            }
        }
        let e = fails(format!("v 0 0 0\nv 1 {bad} 0\nv 0 1 0\nf 1 2 3\n"), Format::Obj);
        assert_eq!(e.place, "line 2");
        let text = ascii_stl(&cube()).replacen("vertex", &format!("vertex {bad} 0 0\nvertex"), 1);
        assert_eq!(fails(text, Format::Stl).place, "line 4");
        let mut far = cube();
        far.vertices[3].y = f64::from(bad);
        assert_eq!(fails(ply(&far, Encoding::Ascii, "\n"), Format::Ply).place, "line 18");
        for encoding in [Encoding::Little, Encoding::Big] {
            let e = fails(ply(&far, encoding, "\n"), Format::Ply);
            assert!(e.place.starts_with("byte ") && e.cause.contains("vertex 3"), "{e}");
        }
    }
    // What is finite in the file but not in metres.
    let e = fails("v 0 0 0\nv 1e308 0 0\nv 0 1 0\nf 1 2 3\n", Format::Obj);
    assert!(e.cause.contains("unit"), "{e}");
    // Numbers that f64 cannot hold are infinite.
    assert_eq!(fails("v 0 0 0\nv 0 0 1e999\n", Format::Obj).place, "line 2");
}

// C11: "solid" without a name, upper-case keywords, several solids, names of any bytes, any layout.
#[test]
fn ascii_stl_in_the_wild() {
    let text = ascii_stl(&cube());
    let near_six = |bytes: &[u8]| {
        let got = load(bytes, Format::Stl).unwrap();
        near(got.report.signed_volume, 6.0, 1e-12);
        got.report
    };
    near_six(text.as_bytes());
    near_six(text.replace("solid part", "solid").as_bytes());
    near_six(text.to_uppercase().as_bytes());
    near_six(text.replace('\n', "\r\n").as_bytes());
    near_six(text.replace('\n', "\r").as_bytes());
    near_six(text.replace("solid part\n", "solid ").replace('\n', " ").as_bytes());
    near_six(format!("\u{feff}\n\n{text}\n\n").as_bytes());
    near_six(text.replace("endloop", "end loop").replace("endfacet", "end facet").as_bytes());
    near_six(text.replace("normal 0 0 0", "normal nan nan nan").as_bytes());
    let mut latin = text.replace("solid part", "solid XX").into_bytes();
    latin.iter_mut().filter(|b| **b == b'X').for_each(|b| *b = 0xe4);
    near_six(&latin);
    // stl_io keeps only the first of several solids.
    let middle =
        text.find(" facet").unwrap() + text[text.find(" facet").unwrap()..].find("endfacet").unwrap() + 9;
    let (a, b) = text.split_at(middle);
    let two = format!("{a}endsolid part\nsolid second part\n{b}");
    assert_eq!(near_six(two.as_bytes()).file_triangles, 12);
    // A missing end loses nothing.
    let report = near_six(text.replace("endsolid part\n", "").as_bytes());
    assert_eq!(report.notes.len(), 1);
}

#[test]
fn ascii_stl_that_is_damaged_names_the_line() {
    let text = ascii_stl(&cube());
    let line = |from: &str, to: &str| fails(text.replacen(from, to, 1), Format::Stl);
    assert_eq!(line("outer", "inner").place, "line 3");
    assert_eq!(line("endloop", "").place, "line 8");
    assert_eq!(line("vertex", "vertex 1.2.3").place, "line 4");
    assert_eq!(line("vertex", "vertex 1,5 0").place, "line 4");
    assert!(line("   vertex", "   # vertex").cause.contains("vertex"));
    assert_eq!(fails(&text[..text.len() / 2], Format::Stl).place.split(' ').next(), Some("line"));
    assert!(fails("solid a\n facet normal 0 0 1\n outer loop\n vertex 0 0 0\n vertex 1 0 0\n endloop\n endfacet\nendsolid", Format::Stl).cause.contains("2 vertices"));
    assert!(fails("solid a\nendsolid a\n", Format::Stl).cause.contains("no faces"));
    assert!(fails("<html><body>not found</body></html>", Format::Stl).cause.contains("too short"));
    assert!(fails("", Format::Stl).cause.contains("empty"));
}

// C13: tinyobjloader issue 295, and tobj's fans: the area of every polygon stays, concave ones too.
#[test]
fn obj_polygons_keep_their_area() {
    let strip = "v 0 0 0\nv 1 0 0\nv 2 0 0\nv 3 0 0\nv 3 1 0\nv 2 1 0\nv 1 1 0\nv 0 1 0\nf 1 2 3 4 5 6 7 8\n";
    let got = load(strip, Format::Obj).unwrap();
    assert_eq!(got.report.triangles, 6, "corners in straight sides stay, as neighbours may end there");
    near(got.report.area, 3.0, 1e-12);
    let arrow = "v 0 0 0\nv 2 0 0\nv 1 0.5 0\nv 1 2 0\nf 1 2 3 4\nf 2 3 4 1\n";
    let once = load(arrow.replace("f 2 3 4 1\n", ""), Format::Obj).unwrap();
    near(once.report.area, 1.25, 1e-12);
    // The same outline from another corner is cut alike and found as a duplicate, or at least keeps its area.
    let twice = load(arrow, Format::Obj).unwrap();
    assert!(twice.report.area < 2.6);
    // A strip whose polygons meet at corners in straight sides has no cracks.
    let meeting = "v 0 0 0\nv 1 0 0\nv 2 0 0\nv 2 1 0\nv 0 1 0\nv 1 -1 0\nv 0 -1 0\nv 2 -1 0\nf 1 2 3 4 5\nf 7 6 2 1\nf 6 8 3 2\n";
    let got = load(meeting, Format::Obj).unwrap();
    near(got.report.area, 4.0, 1e-12);
    assert_eq!((got.report.components, got.report.open_edges), (1, 7));
}

// C15: tobj issues 52 and 30: weights, colours and missing material files change no geometry.
#[test]
fn obj_weights_colours_and_materials_are_passed_over() {
    for extra in ["", " 1.0", " 0.5", " 0.1 0.2 0.3", " 255 0 0", " 1 nan nan nan"] {
        let vertices = SQUARE.replace(" 0\n", &format!(" 0{extra}\n"));
        let text = format!(
            "mtllib nowhere.mtl\no a\ng b c\ns off\n{vertices}vt 0 0\nvn 0 0 1\nusemtl missing\nf 1/1/1 2/1/1 3//1 4/1\n"
        );
        let got = load(text, Format::Obj).unwrap();
        near(got.report.area, 1.0, 1e-12);
        assert!(got.report.notes.is_empty());
    }
}

// C17: lines continued by a backslash, with any line end and blanks after it; line numbers count on.
#[test]
fn obj_continued_lines_are_joined() {
    for end in ["\n", "\r\n"] {
        let text = format!("{SQUARE}f 1 2 \\\n3\\\n 4\n").replace('\n', end);
        near(load(&text, Format::Obj).unwrap().report.area, 1.0, 1e-12);
        let text = format!("{SQUARE}f 1 2 \\\n3 \\\n9\nf 1 2 x\n").replace('\n', end);
        assert_eq!(fails(&text, Format::Obj).place, "line 8");
    }
    near(load(format!("{SQUARE}f 1 2 3 4 \\"), Format::Obj).unwrap().report.area, 1.0, 1e-12);
}

#[test]
fn obj_relative_numbers_comments_and_dropped_statements() {
    let got = load(format!("# a cube\n{SQUARE}f -4 -3 -2 -1 # f 9 9 9\n\n"), Format::Obj).unwrap();
    near(got.report.area, 1.0, 1e-12);
    let got = load(format!("{SQUARE}f 1 2 3 4\nl 1 2\np 1\nsurf 0 1 0 1 1 2\n"), Format::Obj).unwrap();
    assert_eq!(got.report.notes.len(), 3);
    // Faces before their vertices are legal elsewhere and harmless here.
    near(load(format!("f 1 2 3 4\n{SQUARE}"), Format::Obj).unwrap().report.area, 1.0, 1e-12);
    for (face, needle) in [
        ("f 1 2 5", "vertex 5"),
        ("f 0 1 2", "counts from 1"),
        ("f -5 1 2", "vertex -5"),
        ("f 1 2 99999999999", "vertex 99999999999"),
        ("f 1 2 9999999999999999999999", "whole number"),
        ("f 1 2 -9223372036854775808", "vertex -9223372036854775808"),
        ("f 1 2 3.5", "whole number"),
        ("f 1 2 /3", "whole number"),
        ("v 1 2", "2 coordinates"),
        ("v", "0 coordinates"),
        ("v 1 2 abc", "abc"),
    ] {
        let e = fails(format!("{SQUARE}{face}\nf 1 2 3\n"), Format::Obj);
        assert_eq!(e.place, "line 5", "{e}");
        assert!(e.cause.contains(needle), "{e}");
    }
    assert!(fails(SQUARE, Format::Obj).cause.contains("no faces (4 vertices)"));
    assert!(
        fails((0..40).map(|i| format!("word{i} x\n")).collect::<String>(), Format::Obj).cause.contains("OBJ")
    );
}

// C19, C21: counts that lie, overflow or contradict the payload; nothing is allocated for them.
#[test]
fn ply_counts_are_checked_before_they_are_believed() {
    let head = |v: &str, f: &str| {
        format!(
            "ply\nformat binary_little_endian 1.0\nelement vertex {v}\nproperty float x\nproperty float y\n\
             property float z\nelement face {f}\nproperty list uchar int vertex_indices\nend_header\n"
        )
    };
    for count in ["99999999999999999999", "-1", "1e9", "", "0x10"] {
        assert_eq!(fails(head(count, "1"), Format::Ply).place, "line 3");
        assert_eq!(fails(head("0", count), Format::Ply).place, "line 7");
    }
    for count in ["18446744073709551615", "4294967295", "60000000", "9"] {
        let (e, peak) = peak_bytes(|| fails(head(count, "0") + &"x".repeat(100), Format::Ply));
        assert!(e.cause.contains(count) && peak < 100_000, "{e}: {peak} bytes");
        let ascii = head(count, "1").replace("binary_little_endian", "ascii");
        let (e, peak) = peak_bytes(|| fails(ascii + "0 0 0\n", Format::Ply));
        assert!(e.cause.contains(count) && peak < 100_000, "{e}: {peak} bytes");
    }
    // An over-long list, in binary and in text.
    let mut bytes = head("0", "1").into_bytes();
    bytes.extend([255, 0, 0, 0, 0]);
    assert!(fails(&bytes, Format::Ply).cause.contains("255"));
    let ascii = head("0", "1").replace("binary_little_endian", "ascii");
    assert!(fails(format!("{ascii}4000000000 0 0 0\n"), Format::Ply).cause.contains("4000000000"));
    assert!(fails(format!("{ascii}-3 0 0 0\n"), Format::Ply).place == "line 10");
    // Too low a count loses nothing silently.
    let mut more = ply(&cube(), Encoding::Little, "\n");
    more.extend([9, 3, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0]);
    assert!(fails(&more, Format::Ply).cause.contains("14 bytes follow"));
    let mut more = ply(&cube(), Encoding::Ascii, "\n");
    more.extend(b"9 3 0 1 2\n");
    assert!(fails(&more, Format::Ply).cause.contains("follow"));
}

// C21: aardvark.algodat issue 57: byte orders, and binary payloads after a header with CR LF.
#[test]
fn ply_in_all_encodings_is_the_same_mesh() {
    // The first coordinate's first byte is a line feed in both orders: it belongs to the payload.
    let mut mesh = cube();
    let tricky = f64::from_le_bytes([0x0a, 0, 0, 0, 0, 0, 0xe0, 0xbf]);
    mesh.vertices[0].x = tricky;
    let truth = load(ply(&mesh, Encoding::Ascii, "\n"), Format::Ply).unwrap();
    assert_eq!(truth.mesh, mesh);
    for encoding in [Encoding::Ascii, Encoding::Little, Encoding::Big] {
        for newline in ["\n", "\r\n", "\r"] {
            let got = load(ply(&mesh, encoding, newline), Format::Ply).unwrap();
            assert_eq!(got.mesh, mesh, "{encoding:?} {newline:?}");
        }
    }
}

#[test]
fn ply_headers_that_make_no_sense_name_the_line() {
    let text = String::from_utf8(ply(&cube(), Encoding::Ascii, "\n")).unwrap();
    for (from, to, place) in [
        ("ply\n", "plx\n", "line 1"),
        ("ascii", "ebcdic", "line 2"),
        ("ascii 1.0", "ascii 2.0", "line 2"),
        ("format ascii 1.0\n", "", "line 13"),
        ("comment made by a test", "format ascii 1.0", "line 3"),
        ("comment made by a test", "property float x", "line 3"),
        ("property double x", "property real x", "line 5"),
        ("property double x", "property double", "line 5"),
        ("property double x", "property double w", "line 4"),
        ("property double x", "property list uchar double x", "line 4"),
        ("uchar int vertex_indices", "float int vertex_indices", "line 13"),
        ("uchar int vertex_indices", "uchar float vertex_indices", "line 11"),
        ("vertex_indices", "corners", "line 11"),
        ("element material", "element vertex", "line 9"),
        ("element face", "element faces", "mesh"),
        ("element vertex", "element points", "mesh"),
        ("end_header", "", "line 15"),
        ("comment", "command", "line 3"),
    ] {
        let e = fails(text.replacen(from, to, 1), Format::Ply);
        assert_eq!(e.place, place, "{from} -> {to}: {e}");
    }
    // A record that is too short, too long, or uses an unknown vertex.
    assert_eq!(fails(text.replacen(" 7 ", " ", 1), Format::Ply).place, "line 15");
    assert_eq!(fails(text.replacen(" 7 ", " 7 7 ", 1), Format::Ply).place, "line 15");
    assert!(fails(text.replace("9 3 0 4 6", "9 3 0 4 8"), Format::Ply).cause.contains("vertex 8"));
    assert!(fails(text.replace("9 3 0 4 6", "9 3 0 4 -1"), Format::Ply).cause.contains("-1"));
}

#[test]
fn ply_strips_and_faces_before_vertices() {
    let text = "ply\nformat ascii 1.0\nelement tristrips 1\nproperty list int int vertex_indices\nelement vertex 4\n\
                property float x\nproperty float y\nproperty float z\nend_header\n9 0 1 2 3 -1 2 1 0 -1\n\
                0 0 0\n1 0 0\n0 1 0\n1 1 0\n";
    let got = load(text, Format::Ply).unwrap();
    // The second strip repeats a triangle the other way.
    assert_eq!(got.report.file_triangles, 3);
    near(got.report.area, 1.0, 1e-12);
    assert!(fails("ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\nproperty float z\nend_header\n0 0 0\n", Format::Ply).cause.contains("point cloud"));
}

// C25, C29: mujoco issue 3604: after any scale the mesh faces outwards.
#[test]
fn mirror_scale_turns_the_winding() {
    let stl = binary_stl(b"", 12, &facets(&cube()));
    for signs in 0..8 {
        let s = |k: i32, x: f64| if signs >> k & 1 == 1 { -x } else { x };
        let scale = Vec3::new(s(0, 1.0), s(1, 0.5), s(2, 2.0));
        let options = ImportOptions { scale, ..ImportOptions::in_unit(1.0) };
        let got = import("cube.stl", &stl, Format::Stl, &options).unwrap();
        near(got.report.signed_volume, 6.0, 1e-12);
        assert_eq!(got.report.mirrored, scale.x * scale.y * scale.z < 0.0);
        assert_eq!(got.report.flipped, 0, "a mirror scale is no fault of the file");
    }
}

// C31: rviz issue 853, vcad issue 855: the box tells which unit was meant.
#[test]
fn units_set_the_size() {
    use hapticd::geometry::import::Unit;
    for (unit, factor) in [("m", 1.0), ("cm", 100.0), ("mm", 1000.0), ("in", 1.0 / 0.0254)] {
        let mut mesh = cube();
        mesh.vertices.iter_mut().for_each(|v| *v *= factor * 0.02);
        let options = ImportOptions::in_unit(Unit::parse(unit).unwrap().metres());
        let got = import("cube.obj", obj(&mesh).as_bytes(), Format::Obj, &options).unwrap();
        let (lo, hi) = got.report.bounds;
        assert!((hi - lo - Vec3::new(0.02, 0.04, 0.06)).norm() < 1e-12, "{unit}");
        near(got.report.solid_volume, 6.0 * 0.02_f64.powi(3), 1e-9);
    }
    // A part in mm taken for m is beyond every workspace; one in m taken for um is dust.
    let huge = "v 0 0 0\nv 2500 0 0\nv 0 1 0\nf 1 2 3\n";
    assert!(fails(huge, Format::Obj).cause.contains("unit"));
    let dust = import(
        "x.obj",
        b"v 0 0 0\nv 1e-3 0 0\nv 0 1e-3 0\nf 1 2 3\n",
        Format::Obj,
        &ImportOptions::in_unit(1e-6),
    );
    assert!(dust.unwrap_err().cause.contains("unit"));
}

// C33: mujoco issue 1551, trimesh issue 1858: mixed winding is repaired and counted; strict refuses.
#[test]
fn mixed_winding_is_repaired_or_refused() {
    let mut mesh = shapes::torus(0.06, 0.02, 24, 12);
    for t in mesh.triangles.iter_mut().step_by(7) {
        t.swap(1, 2);
    }
    let wrong = mesh.triangles.len().div_ceil(7);
    let got = load(obj(&mesh), Format::Obj).unwrap();
    assert_eq!(got.report.flipped, wrong);
    assert!(got.report.file_inconsistent_edges > 0 && got.report.closed);
    assert!(got.report.signed_volume > 0.0);
    let e = strict(obj(&mesh), Format::Obj).unwrap_err();
    assert!(e.cause.contains(&format!("{wrong} triangles turned")), "{e}");
    // All of it inside out.
    let mut mesh = shapes::icosphere(0.05, 2);
    mesh.triangles.iter_mut().for_each(|t| t.swap(1, 2));
    let got = load(obj(&mesh), Format::Obj).unwrap();
    assert_eq!((got.report.flipped, got.report.flipped_shells), (320, 1));
    near(got.report.signed_volume, 0.000505880574, 1e-6);
}

#[test]
fn strict_accepts_what_is_sound_and_refuses_each_repair() {
    for mesh in
        [cube(), shapes::hollow_sphere(0.05, 0.03, 2), shapes::keyed_pin(&shapes::PinShape::default())]
    {
        assert!(strict(ply(&mesh, Encoding::Big, "\n"), Format::Ply).is_ok());
        assert!(strict(shapes::write_stl(&mesh), Format::Stl).is_ok());
    }
    let base = obj(&cube());
    for (more, word) in [
        ("f 1 5 7\n", "duplicate"),
        ("f 1 1 2\n", "without area"),
        ("f 1 2\n", "without area"),
        ("curv 1 2\n", "curv"),
        ("v 9 9 9\nf 1 2 9\n", "open edges"),
    ] {
        let e = strict(format!("{base}{more}"), Format::Obj).unwrap_err();
        assert!(e.cause.contains("strict") && e.cause.contains(word), "{more}: {e}");
        assert!(load(format!("{base}{more}"), Format::Obj).is_ok());
    }
    let open: String = base.lines().take(8 + 11).map(|l| format!("{l}\n")).collect();
    assert!(strict(open, Format::Obj).unwrap_err().cause.contains("3 open edges"));
}

#[test]
fn limits_are_those_of_the_options() {
    let options = ImportOptions { max_triangles: 11, ..ImportOptions::in_unit(1.0) };
    let stl = binary_stl(b"", 12, &facets(&cube()));
    let ascii = ascii_stl(&cube());
    for (bytes, format) in [
        (stl.clone(), Format::Stl),
        (ascii.into_bytes(), Format::Stl),
        (obj(&cube()).into_bytes(), Format::Obj),
        (ply(&cube(), Encoding::Big, "\n"), Format::Ply),
    ] {
        let e = import("x", &bytes, format, &options).unwrap_err();
        assert!(e.cause.contains("limit of 11") && e.cause.contains("12 triangles"), "{e}");
        let options = ImportOptions { max_vertices: 7, ..ImportOptions::in_unit(1.0) };
        let e = import("x", &bytes, format, &options).unwrap_err();
        assert!(e.cause.contains("limit of 7"), "{e}");
    }
    let circle: String =
        (0..10_001).map(|i| format!("v {} {} 0\n", f64::from(i).cos(), f64::from(i).sin())).collect();
    let face = (1..=10_001).fold(String::from("f"), |s, i| format!("{s} {i}"));
    let e = fails(format!("{circle}{face}\n"), Format::Obj);
    assert!(e.cause.contains("10001 corners") && e.place == "line 10002", "{e}");
}

#[test]
fn hollow_sphere_keeps_its_cavity() {
    let mesh = shapes::hollow_sphere(0.05, 0.03, 3);
    let truth = hapticd::geometry::mass::mass_properties(&mesh);
    for bytes in [obj(&mesh), obj(&mesh).replace("f ", "f \\\n")] {
        let got = load(bytes, Format::Obj).unwrap().report;
        assert_eq!((got.components, got.cavities, got.nested, got.flipped), (2, 1, 0, 0));
        near(got.signed_volume, truth.volume, 1e-12);
        near(got.solid_volume, truth.volume, 1e-12);
        assert!(!got.volumes_differ());
    }
}

#[test]
fn overlapping_shells_count_once() {
    let one = shapes::cuboid(Vec3::new(1.0, 1.0, 1.0));
    let mut two = one.clone();
    two.vertices.extend(one.vertices.iter().map(|v| v + Vec3::new(0.5, 0.25, 0.25)));
    two.triangles.extend(one.triangles.iter().map(|t| t.map(|i| i + 8)));
    let got = load(obj(&two), Format::Obj).unwrap().report;
    near(got.signed_volume, 2.0, 1e-12);
    near(got.solid_volume, 2.0 - 0.5 * 0.75 * 0.75, 2e-3);
    assert!(got.volumes_differ() && got.solid_error > 0.0);
    assert!(got.to_string().contains("overlap"), "{got}");
}

#[test]
fn rounded_coordinates_leave_no_cracks() {
    // A soup whose corners differ in the seventh digit from facet to facet.
    let mut text = String::from("solid\n");
    let mesh = shapes::torus(0.06, 0.02, 24, 12);
    for t in 0..mesh.triangles.len() {
        text += "facet normal 0 0 1\nouter loop\n";
        for (k, p) in mesh.corners(t).iter().enumerate() {
            let shake = 1e-8 * ((t * 3 + k) % 5) as f64 / 5.0;
            text += &format!("vertex {} {} {}\n", p.x + shake, p.y - shake, p.z);
        }
        text += "endloop\nendfacet\n";
    }
    text += "endsolid\n";
    let got = load(&text, Format::Stl).unwrap().report;
    assert_eq!((got.open_edges, got.components, got.vertices), (0, 1, 24 * 12));
    assert!(got.welded_near > 0 && got.closed);
    let exact = ImportOptions { crack_tolerance: 0.0, ..ImportOptions::in_unit(1.0) };
    assert!(import("x.stl", text.as_bytes(), Format::Stl, &exact).unwrap().report.open_edges > 0);
}

#[test]
fn a_cut_or_damaged_text_file_is_refused_or_told_with_its_line() {
    let base = obj(&cube());
    // Cut inside a face: nothing after it, not even the end of the line.
    for cut in ["f", "f 1", "f 1 ", "f 1 2"] {
        let e = fails(format!("{base}{cut}"), Format::Obj);
        assert_eq!(e.place, format!("line {}", base.lines().count() + 1), "{e}");
        assert!(e.cause.contains("cut"), "{e}");
    }
    // A short face elsewhere is left out, with its line; whole faces without a last line end are fine.
    let got = load(format!("{base}f 1 2\n"), Format::Obj).unwrap();
    let place = format!("line {}", base.lines().count() + 1);
    assert!(got.report.notes.iter().any(|n| n.contains("1 face of fewer") && n.contains(&place)), "{got:?}");
    assert_eq!(load(base.trim_end(), Format::Obj).unwrap().report.notes, [""; 0]);
    let whole = String::from_utf8(ply(&cube(), Encoding::Ascii, "\n")).unwrap();
    let first = whole.lines().position(|l| l.starts_with("9 3 ")).expect("a face");
    let short: Vec<&str> =
        whole.lines().enumerate().map(|(i, l)| if i == first { "9 2 0 1" } else { l }).collect();
    let got = load(short.join("\n") + "\n", Format::Ply).unwrap();
    let place = format!("line {}", first + 1);
    assert!(got.report.notes.iter().any(|n| n.contains("1 face of fewer") && n.contains(&place)), "{got:?}");
    // NULs in text, wherever they may stand.
    let nul = load(base.replacen("\nv ", "\0\nv ", 3), Format::Obj).unwrap();
    assert!(nul.report.notes.iter().any(|n| n.starts_with("3 bytes of value 0") && n.contains("line ")));
    assert!(
        strict(base.replacen("\nv ", "\0\nv ", 1), Format::Obj)
            .unwrap_err()
            .cause
            .contains("byte of value 0")
    );
    assert_eq!(
        load(shapes::write_stl(&cube()), Format::Stl).unwrap().report.notes,
        [""; 0],
        "binary has NULs"
    );
}

#[test]
fn ascii_stl_is_known_by_more_than_its_first_bytes() {
    let text = ascii_stl(&cube());
    let (_, body) = text.split_once('\n').unwrap();
    let long = format!("solid {}\n{body}", "x".repeat(5_000_000));
    assert_eq!(load(long, Format::Stl).unwrap().report.triangles, 12);
    let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    for bytes in [wide.clone(), [&[0xff, 0xfe][..], &wide].concat()] {
        assert!(fails(bytes, Format::Stl).cause.contains("UTF-16"));
    }
}

/// Centroid and inertia of an open mesh are those of the solid whose volume stands above them.
#[test]
fn the_moments_of_an_open_mesh_are_those_of_its_solid() {
    let edge = 0.1_f64;
    let mut mesh = shapes::cuboid(Vec3::repeat(edge));
    // Without its lid at z = 0.05. Seen from the lid's plane the other five sides are half of everything, so that plane is
    // where the winding number is one half, and the solid is the whole cube; the signed volume lacks the lid's pyramid.
    mesh.triangles.retain(|t| !t.iter().all(|i| mesh.vertices[*i as usize].z > 0.049));
    let r = load(obj(&mesh), Format::Obj).unwrap().report;
    assert!(!r.closed, "{r}");
    near(r.signed_volume, 5.0 / 6.0 * edge.powi(3), 1e-9);
    near(r.solid_volume, edge.powi(3), 1e-3);
    assert!(r.centroid.coords.norm() < 1e-3 * edge, "{r}");
    for k in 0..3 {
        near(r.inertia[(k, k)], edge.powi(5) / 6.0, 1e-3);
    }
}
