//! The demo's scene: a keyed pin in its keyed hole, made from numbers, written as STL and read back from there.

use crate::contact::{Friction, Material, Texture};
use crate::geometry::field::build::{FieldParams, Progress, Resolution};
use crate::geometry::import::{Format, ImportOptions, import};
use crate::geometry::shapes::{HoleShape, PinShape, keyed_hole, keyed_pin, write_stl};
use crate::geometry::{Pose, TriMesh, Vec3};
use crate::scene::compile::{CompileReport, Compiler};
use crate::scene::model::{
    DAEMON, Edit, GeometrySpec, Method, ObjectSpec, ProxyOn, Ref, Scene, Shell, SourceMesh, ToolSpec,
};
use crate::scene::snapshot::Snapshot;
use anyhow::Context as _;
use std::path::Path;
use std::sync::Arc;

/// Spheres of the pin, where it is asked by those.
pub const SPHERES: u32 = 20_000;
/// Surface points of the pin.
pub const POINTS: u32 = 6000;
/// Edge of a cell of the hole's field, m: 224 x 128 x 128 cells and padding.
const CELL: f64 = 1.25e-3;
/// How far the pin is in at the start, m; the shank is 200 mm long, so that the head meets the block after 20 mm more.
const INSERTED: f64 = 0.180;

/// What was built.
pub struct Built {
    /// The scene to feel.
    pub snapshot: Snapshot,
    /// What the compilation did.
    pub report: CompileReport,
    /// Triangles of pin and hole.
    pub triangles: [usize; 2],
}

/// Makes the meshes, writes `pin.stl` and `hole.stl` to `dir`, reads them back and builds the scene.
///
/// # Errors
/// A file that cannot be written or read, or a build that fails or is cancelled.
pub fn build(
    dir: &Path,
    method: Method,
    compiler: &Compiler,
    progress: &dyn Progress,
) -> anyhow::Result<Built> {
    let hole_shape = HoleShape::default();
    let pin_shape = PinShape::default();
    // The hand holds the pin in the middle of its shank: there a press is all force and little torque.
    let grip = Vec3::new(-pin_shape.length / 2.0, 0.0, 0.0);
    let mut pin = keyed_pin(&pin_shape);
    pin.vertices.iter_mut().for_each(|v| *v -= grip);
    let pin = through_stl(&dir.join("pin.stl"), &pin)?;
    let hole = through_stl(&dir.join("hole.stl"), &keyed_hole(&hole_shape))?;
    let triangles = [pin.mesh.triangles.len(), hole.mesh.triangles.len()];
    let geometry = |name: &str, mesh: &Arc<SourceMesh>| Edit::AddGeometry {
        name: Some(name.into()),
        spec: GeometrySpec {
            mesh: mesh.clone(),
            params: FieldParams { resolution: Resolution::Cell(CELL), ..FieldParams::default() },
            method: None,
            hold_thin: false,
        },
        persistent: true,
    };
    // The device's origin lies where the pin starts: partly in, on the axis, touching nothing.
    let start = Vec3::new(hole_shape.length / 2.0 + pin_shape.length - INSERTED, 0.0, 0.0) + grip;
    let (scale, offset) = (Vec3::repeat(1.0), Pose::identity());
    let edits = [
        Edit::AddMaterial {
            name: Some("rubber".into()),
            // The pin touches on some 40 square centimetres at once: together about what the device can render.
            material: Material {
                stiffness: 800.0,
                reference_area: 1e-3,
                damping: 1.0,
                friction: Friction::NONE,
                texture: Texture::NONE,
            },
            persistent: true,
        },
        geometry("pin", &pin),
        geometry("hole", &hole),
        Edit::AddObject {
            name: Some("hole".into()),
            spec: ObjectSpec {
                geometry: Ref::New(2),
                material: Ref::New(0),
                pose: Pose::identity(),
                scale: Vec3::repeat(1.0),
                params: None,
                method: None,
                shell: Shell::Auto,
                proxy: ProxyOn::Field,
                moving: false,
            },
            persistent: true,
        },
        Edit::SetTool {
            tool: match method {
                Method::Vps => ToolSpec::Mesh { geometry: Ref::New(1), scale, points: POINTS, offset },
                Method::Ist => ToolSpec::Spheres { geometry: Ref::New(1), scale, spheres: SPHERES, offset },
            },
        },
        Edit::SetMapping {
            device_in_scene: Some(Pose::translation(start.x, start.y, start.z)),
            workspace_scale: Some(1.0),
        },
    ];
    let (scene, _) = Scene::default().apply(DAEMON, &edits)?;
    let (snapshot, report) = compiler.compile_reported(&scene, progress)?;
    Ok(Built { snapshot, report, triangles })
}

/// Writes a mesh as a file and imports the file, as a user's own would be.
fn through_stl(path: &Path, mesh: &TriMesh) -> anyhow::Result<Arc<SourceMesh>> {
    let name = path.display().to_string();
    std::fs::write(path, write_stl(mesh)).with_context(|| format!("cannot write {name}"))?;
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {name}"))?;
    let imported = import(&name, &bytes, Format::Stl, &ImportOptions::in_unit(1.0))?;
    Ok(SourceMesh::new(imported.mesh, name))
}
