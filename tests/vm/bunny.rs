//! The body that is touched: the Stanford bunny, where the shared models are there. Its distances are computed outside the machine and handed
//! in as a file, since the guest's processor is emulated.

use hapticd::contact::{Friction, Material, ObjectShape, Texture, ToolShape};
use hapticd::geometry::field::Field;
use hapticd::geometry::field::build::{FieldParams, Resolution, Silent, build};
use hapticd::geometry::import::{Format, ImportOptions, import};
use hapticd::geometry::{Point, Pose, TriMesh, Vec3, shapes};
use hapticd::scene::snapshot::{Snapshot, SnapshotObject, Tool};
use std::path::Path;
use std::sync::Arc;

const FILE: &str = "body.field";
/// Edge of the grid's cells, m.
const CELL: f64 = 0.003;
/// Radius of the tool, m.
const TOOL: f64 = 0.01;

/// The mesh, and what to call it.
fn mesh() -> (TriMesh, &'static str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/models/bunny.ply");
    match std::fs::read(file) {
        Ok(bytes) => {
            let read = import("bunny.ply", &bytes, Format::Ply, &ImportOptions::in_unit(1.0));
            (read.expect("a mesh").mesh, "Stanford bunny")
        }
        Err(_) => {
            println!("no shared models: a torus that this test makes stands for the bunny");
            (shapes::torus(0.05, 0.03, 96, 48), "torus")
        }
    }
}

/// Writes the distances to a file of the folder that the machine will see: name's length and name; origin, then depth at each node, x fastest, after the
/// counts of nodes. The highest place on which the tool can lie is at the origin, so that the hand comes down on it.
pub fn write(share: &Path) {
    let (mesh, name) = mesh();
    let params = FieldParams { resolution: Resolution::Cell(CELL), ..FieldParams::default() };
    let (field, report) = build(&mesh, &params, &Silent).expect("a field");
    let (lo, hi) = (field.origin, field.far_corner());
    // Where a tool that comes straight down touches, and how level it is there.
    let touch = |x: f64, z: f64| {
        let steps = ((hi.y - lo.y) / 1e-4) as u32;
        let point = |k: u32| Point::new(x, hi.y - f64::from(k) * 1e-4, z);
        (0..steps).map(point).find(|p| field.depth(p) >= 0.0)
    };
    let places = (0..40 * 40).filter_map(|k| {
        let share = |k: i32| 0.3 + 0.4 * f64::from(k) / 39.0;
        let top = touch(lo.x + share(k % 40) * (hi.x - lo.x), lo.z + share(k / 40) * (hi.z - lo.z))?;
        let level = (-field.depth_gradient(&(top + Vec3::new(0.0, TOOL, 0.0))).1.y).clamp(0.0, 1.0);
        Some((top, level))
    });
    let (top, level) = places.max_by(|a, b| a.1.total_cmp(&b.1)).expect("it has a top");
    println!(
        "| {name} | {} triangles, {} nodes | touched where its normal is {level:.3} upright |",
        mesh.triangles.len(),
        report.nodes
    );
    assert!(level > 0.97, "{level}");
    let origin = field.origin - top;
    let mut bytes = vec![name.len() as u8];
    bytes.extend(name.as_bytes());
    bytes.extend([origin.x, origin.y, origin.z].into_iter().flat_map(f64::to_le_bytes));
    bytes.extend(field.dims.into_iter().flat_map(u32::to_le_bytes));
    for k in 0..field.dims[2] {
        for j in 0..field.dims[1] {
            bytes.extend((0..field.dims[0]).flat_map(|i| field.node([i, j, k]).to_le_bytes()));
        }
    }
    std::fs::write(share.join(FILE), bytes).expect("writes");
}

/// Reads it inside the machine: the field and its name.
fn read() -> (Field, String) {
    let bytes = std::fs::read(Path::new("/share").join(FILE)).expect("the body");
    let (name, rest) = bytes[1..].split_at(usize::from(bytes[0]));
    let float = |k: usize| f64::from_le_bytes(rest[8 * k..8 * k + 8].try_into().expect("eight"));
    let dims: [u32; 3] =
        std::array::from_fn(|i| u32::from_le_bytes(rest[24 + 4 * i..28 + 4 * i].try_into().expect("four")));
    let (origin, nodes) = (Point::new(float(0), float(1), float(2)), &rest[36..]);
    let depth = |p: &Point| {
        let at = ((p - origin) / CELL).map(|v| v.round() as usize);
        let n = (at.z * dims[1] as usize + at.y) * dims[0] as usize + at.x;
        f64::from_le_bytes(nodes[8 * n..8 * n + 8].try_into().expect("eight"))
    };
    (Field::from_fn(origin, CELL, dims, depth), String::from_utf8_lossy(name).into_owned())
}

/// The body under the tool, so that a hand that presses down touches its top; and its name.
pub fn scene() -> (Box<Snapshot>, String) {
    let (field, name) = read();
    let (lo, hi) = (field.origin, field.far_corner());
    let object = SnapshotObject {
        id: 1,
        incarnation: 1,
        slot: 1,
        motion: None,
        pose: Pose::identity(),
        bound_centre: lo + (hi - lo) / 2.0,
        bound_radius: (hi - lo).norm() / 2.0,
        shape: ObjectShape::Field(Arc::new(field)),
        material: Material {
            stiffness: 400.0,
            reference_area: 1e-4,
            damping: 0.0,
            friction: Friction::NONE,
            texture: Texture::NONE,
        },
    };
    let shape = ToolShape::Sphere { radius: TOOL };
    let tool = Tool { shape, offset: Pose::identity(), bound_radius: TOOL, incarnation: 1 };
    let snapshot = Snapshot::new(1, Arc::new(tool), vec![object].into(), Pose::identity(), 1.0);
    (Box::new(snapshot), name)
}
