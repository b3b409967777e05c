//! Fields in the cache.

use super::{Cache, CacheNote, Key, Lookup, Mode};
use crate::geometry::field::bricks::Bricks;
use crate::geometry::field::build::{self, FieldError, FieldParams, FieldReport, Progress, Resolution};
use crate::geometry::field::{Field, Storage};
use crate::geometry::{Point, Stamp, TriMesh};

/// Version of the encoding below.
const ENCODING: u32 = 2;
/// Bytes before the depths.
const HEAD: usize = 4 * 8 + 3 * 4 + 4 + 9 * 8 + 4;

/// Where a field came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Read from the cache.
    Disk,
    /// Built.
    Built,
}

/// A mesh's vertices and triangles as bytes, for keys.
pub(super) fn mesh_bytes(mesh: &TriMesh) -> (Vec<u8>, Vec<u8>) {
    let mut vertices = Vec::with_capacity(mesh.vertices.len() * 24);
    for x in mesh.vertices.iter().flat_map(|v| v.iter()) {
        vertices.extend_from_slice(&x.to_bits().to_le_bytes());
    }
    let mut triangles = Vec::with_capacity(mesh.triangles.len() * 12);
    for v in mesh.triangles.iter().flatten() {
        triangles.extend_from_slice(&v.to_le_bytes());
    }
    (vertices, triangles)
}

/// The key of a mesh's field: mesh, parameters, version of the build and of the encoding.
pub fn field_key(mesh: &TriMesh, params: &FieldParams) -> Key {
    let (vertices, triangles) = mesh_bytes(mesh);
    let (kind, value) = match params.resolution {
        Resolution::Cell(cell) => (0u8, cell.to_bits()),
        Resolution::Longest(n) => (1, u64::from(n)),
        Resolution::MemoryCap(bytes) => (2, bytes),
    };
    let parts: [&[u8]; 6] = [
        &vertices,
        &triangles,
        &[kind],
        &value.to_le_bytes(),
        &params.padding.to_le_bytes(),
        &build::VERSION.to_le_bytes(),
    ];
    Key::new("field", ENCODING, &parts)
}

/// A field and its report as bytes: origin, cell (f64), nodes along x, y, z (u32), scale (f32), the report (u64 and f64), the kind of
/// storage (u32: 0 dense, 1 bricks), then all counts (i16), or the bricks. Little-endian.
pub fn encode_field(field: &Field, report: &FieldReport) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD + field.bytes() as usize + 8);
    for x in [field.origin.x, field.origin.y, field.origin.z, field.cell] {
        out.extend_from_slice(&x.to_le_bytes());
    }
    for n in field.dims {
        out.extend_from_slice(&n.to_le_bytes());
    }
    out.extend_from_slice(&field.scale.to_le_bytes());
    let r = report;
    for x in [
        r.nodes,
        r.bytes,
        r.distance_tests,
        r.winding_tests,
        r.node_error.to_bits(),
        r.thinnest_cells.to_bits(),
        r.narrowest_gap_cells.to_bits(),
        r.capped_area.to_bits(),
        r.coarse_error.to_bits(),
    ] {
        out.extend_from_slice(&x.to_le_bytes());
    }
    match &field.storage {
        Storage::Dense(counts) => {
            out.extend_from_slice(&0u32.to_le_bytes());
            for count in counts {
                out.extend_from_slice(&count.to_le_bytes());
            }
        }
        Storage::Bricks(bricks) => {
            out.extend_from_slice(&1u32.to_le_bytes());
            bricks.write(&mut out);
        }
    }
    out
}

/// The field and report in the bytes of [`encode_field`]; `None` when they are none.
pub fn decode_field(bytes: &[u8]) -> Option<(Field, FieldReport)> {
    let (head, data) = bytes.split_at_checked(HEAD)?;
    let word =
        |at: usize| -> Option<u64> { Some(u64::from_le_bytes(head.get(at..at + 8)?.try_into().ok()?)) };
    let half =
        |at: usize| -> Option<u32> { Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?)) };
    let real = |at: usize| word(at).map(f64::from_bits);
    let report_at = HEAD - 76;
    let dims = [half(32)?, half(36)?, half(40)?];
    let nodes = dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d as usize))?;
    let storage = match half(HEAD - 4)? {
        0 if data.len() == nodes.checked_mul(2)? => {
            Storage::Dense(data.as_chunks::<2>().0.iter().map(|c| i16::from_le_bytes(*c)).collect())
        }
        1 => Storage::Bricks(Box::new(Bricks::read(data, dims)?)),
        _ => return None,
    };
    let field = Field {
        origin: Point::new(real(0)?, real(8)?, real(16)?),
        cell: real(24)?,
        dims,
        scale: f32::from_bits(half(44)?),
        storage,
        stamp: Stamp::default(),
    };
    let report = FieldReport {
        nodes: word(report_at)?,
        bytes: word(report_at + 8)?,
        distance_tests: word(report_at + 16)?,
        winding_tests: word(report_at + 24)?,
        node_error: real(report_at + 32)?,
        thinnest_cells: real(report_at + 40)?,
        narrowest_gap_cells: real(report_at + 48)?,
        capped_area: real(report_at + 56)?,
        coarse_error: real(report_at + 64)?,
    };
    let sound = field.origin.iter().all(|x| x.is_finite())
        && field.cell.is_finite()
        && field.cell > 0.0
        && field.scale.is_finite()
        && field.scale > 0.0
        && field.dims.iter().all(|&d| d >= 2);
    sound.then_some((field, report))
}

impl Cache {
    /// The field of a mesh: from the cache, or built and put there. Notes say what went wrong with the cache on the way,
    /// and that a field just built is not kept.
    ///
    /// # Errors
    /// Those of [`build::build`]; the cache causes none.
    pub fn field(
        &self,
        mesh: &TriMesh,
        params: &FieldParams,
        progress: &dyn Progress,
        notes: &mut Vec<CacheNote>,
    ) -> Result<(Field, FieldReport, Source), FieldError> {
        if self.mode == Mode::Off {
            let (field, report) = build::build(mesh, params, progress)?;
            notes.extend(self.note.clone());
            return Ok((field, report, Source::Built));
        }
        let key = field_key(mesh, params);
        let decode = |bytes: &[u8]| decode_field(bytes);
        if let Some((field, report)) = self.find(&key, "it holds no field", decode, notes) {
            return Ok((field, report, Source::Disk));
        }
        let (field, report) = build::build(mesh, params, progress)?;
        self.keep(&key, || encode_field(&field, &report), notes);
        Ok((field, report, Source::Built))
    }

    /// An entry that `decode` understands; what it does not is dropped, with `cause` as the note.
    pub(super) fn find<T>(
        &self,
        key: &Key,
        cause: &str,
        decode: impl Fn(&[u8]) -> Option<T>,
        notes: &mut Vec<CacheNote>,
    ) -> Option<T> {
        match self.get(key) {
            Lookup::Hit(bytes) => match decode(&bytes) {
                Some(found) => return Some(found),
                None => notes.push(self.drop_entry(key, cause)),
            },
            Lookup::Miss => {}
            Lookup::Bad(note) => notes.push(note),
        }
        None
    }

    /// Puts what was just built, or notes why it is not kept.
    pub(super) fn keep(&self, key: &Key, encode: impl FnOnce() -> Vec<u8>, notes: &mut Vec<CacheNote>) {
        match &self.note {
            Some(note) => notes.push(note.clone()),
            None => notes.extend(self.put(key, &encode()).err()),
        }
    }
}
