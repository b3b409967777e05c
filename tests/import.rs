//! Mesh import: public bug reports, real meshes against figures of other programs, hostile bytes, round trips.

#[path = "import/cases.rs"]
mod cases;
#[path = "import/hostile.rs"]
mod hostile;
#[path = "import/inspect.rs"]
mod inspect;
#[path = "import/models.rs"]
mod models;
#[path = "import/pictures.rs"]
mod pictures;
#[path = "import/round_trip.rs"]
mod round_trip;

use hapticd::geometry::TriMesh;
use hapticd::geometry::import::{Format, ImportError, ImportOptions, Imported, import};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts what this thread holds, so that a test can bound what an import asks for.
struct Counting;

thread_local! {
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

fn note(change: isize) {
    let _ = HELD.try_with(|h| {
        let (now, peak) = h.get();
        h.set((now + change, peak.max(now + change)));
    });
}

// SAFETY: every call goes to the system allocator unchanged; the counter allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as isize);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        note(-(layout.size() as isize));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(p, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Result of `f` and the most bytes that this thread held at once meanwhile.
fn peak_bytes<T>(f: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get().0;
    HELD.set((before, before));
    let out = f();
    (out, (HELD.get().1 - before).max(0) as usize)
}

/// Imports with 1 unit = 1 m.
fn load(bytes: impl AsRef<[u8]>, format: Format) -> Result<Imported, ImportError> {
    import("test.mesh", bytes.as_ref(), format, &ImportOptions::in_unit(1.0))
}

/// The error, which must name the file.
fn fails(bytes: impl AsRef<[u8]>, format: Format) -> ImportError {
    let e = load(&bytes, format).expect_err("must be refused");
    assert_eq!(e.file, "test.mesh");
    assert!(e.to_string().starts_with("test.mesh: "), "{e}");
    e
}

fn strict(bytes: impl AsRef<[u8]>, format: Format) -> Result<Imported, ImportError> {
    let options = ImportOptions { strict: true, ..ImportOptions::in_unit(1.0) };
    import("test.mesh", bytes.as_ref(), format, &options)
}

fn near(a: f64, b: f64, rel: f64) {
    assert!((a - b).abs() <= rel * b.abs(), "{a} is not {b} within {rel}");
}

/// Binary STL with any header and declared count.
fn binary_stl(header: &[u8], count: u32, facets: &[[[f32; 3]; 3]]) -> Vec<u8> {
    let mut out = header.to_vec();
    out.resize(80, b' ');
    out.extend(count.to_le_bytes());
    for facet in facets {
        out.extend([0; 12]);
        facet.iter().flatten().for_each(|x| out.extend(x.to_le_bytes()));
        out.extend([0, 0]);
    }
    out
}

fn facets(mesh: &TriMesh) -> Vec<[[f32; 3]; 3]> {
    (0..mesh.triangles.len()).map(|t| mesh.corners(t).map(|p| [p.x, p.y, p.z].map(|c| c as f32))).collect()
}

fn ascii_stl(mesh: &TriMesh) -> String {
    let mut out = String::from("solid part\n");
    for t in 0..mesh.triangles.len() {
        out += " facet normal 0 0 0\n  outer loop\n";
        for p in mesh.corners(t) {
            out += &format!("   vertex {:e} {:e} {:e}\n", p.x, p.y, p.z);
        }
        out += "  endloop\n endfacet\n";
    }
    out + "endsolid part\n"
}

fn obj(mesh: &TriMesh) -> String {
    let mut out = String::new();
    mesh.vertices.iter().for_each(|p| out += &format!("v {:e} {:e} {:e}\n", p.x, p.y, p.z));
    mesh.triangles.iter().for_each(|[a, b, c]| out += &format!("f {} {} {}\n", a + 1, b + 1, c + 1));
    out
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Encoding {
    Ascii,
    Little,
    Big,
}

/// PLY with double coordinates, an extra property and an extra element before the faces.
fn ply(mesh: &TriMesh, encoding: Encoding, newline: &str) -> Vec<u8> {
    let name = match encoding {
        Encoding::Ascii => "ascii",
        Encoding::Little => "binary_little_endian",
        Encoding::Big => "binary_big_endian",
    };
    let (nv, nf) = (mesh.vertices.len(), mesh.triangles.len());
    let mut out = [
        "ply",
        &format!("format {name} 1.0"),
        "comment made by a test",
        &format!("element vertex {nv}"),
        "property double x",
        "property double y",
        "property uchar quality",
        "property double z",
        "element material 2",
        "property list ushort short curve",
        &format!("element face {nf}"),
        "property uchar flags",
        "property list uchar int vertex_indices",
        "end_header",
        "",
    ]
    .join(newline)
    .into_bytes();
    if encoding == Encoding::Ascii {
        let mut text = String::new();
        for p in &mesh.vertices {
            text += &format!("{:e} {:e} 7 {:e}{newline}", p.x, p.y, p.z);
        }
        text += &format!("3 1 -2 3{newline}0{newline}");
        for [a, b, c] in &mesh.triangles {
            text += &format!("9 3 {a} {b} {c}{newline}");
        }
        out.extend(text.into_bytes());
        return out;
    }
    let mut put = |mut raw: Vec<u8>| {
        if encoding == Encoding::Big {
            raw.reverse();
        }
        out.extend(raw);
    };
    for p in &mesh.vertices {
        put(p.x.to_le_bytes().into());
        put(p.y.to_le_bytes().into());
        put(vec![7]);
        put(p.z.to_le_bytes().into());
    }
    put(3_u16.to_le_bytes().into());
    [1_i16, -2, 3].iter().for_each(|x| put(x.to_le_bytes().into()));
    put(0_u16.to_le_bytes().into());
    for t in &mesh.triangles {
        put(vec![9]);
        put(vec![3]);
        t.iter().for_each(|i| put((*i as i32).to_le_bytes().into()));
    }
    out
}
