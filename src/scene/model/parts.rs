//! What a scene is made of.

use crate::contact::Material;
use crate::contact::effect::{Effect, SceneEffect};
use crate::geometry::field::build::FieldParams;
use crate::geometry::{Pose, TriMesh, Vec3};
use std::sync::Arc;

/// A mesh that the model keeps, with the hash under which everything built from it is cached.
#[derive(Debug)]
pub struct SourceMesh {
    /// The mesh, m, in its own frame.
    pub mesh: TriMesh,
    /// BLAKE3 over vertices and triangles.
    pub hash: [u8; 32],
    /// Where it came from, for messages.
    pub label: String,
    /// Sides of its box, m.
    pub size: Vec3,
}

impl SourceMesh {
    /// Takes a mesh and hashes it once. Not real-time safe.
    pub fn new(mesh: TriMesh, label: impl Into<String>) -> Arc<Self> {
        let mut h = blake3::Hasher::new();
        h.update(&(mesh.vertices.len() as u64).to_le_bytes());
        let mut block = Vec::with_capacity(24 * 1024);
        for chunk in mesh.vertices.chunks(1024) {
            block.clear();
            block.extend(chunk.iter().flat_map(|v| [v.x, v.y, v.z]).flat_map(f64::to_le_bytes));
            h.update(&block);
        }
        for chunk in mesh.triangles.chunks(1024) {
            block.clear();
            block.extend(chunk.iter().flatten().flat_map(|i| i.to_le_bytes()));
            h.update(&block);
        }
        let hash = *h.finalize().as_bytes();
        let size = mesh.bounds().map_or(Vec3::zeros(), |(low, high)| high - low);
        Arc::new(Self { mesh, hash, label: label.into(), size })
    }

    /// Bytes that the mesh occupies.
    pub fn bytes(&self) -> u64 {
        (self.mesh.vertices.len() * 24 + self.mesh.triangles.len() * 12) as u64
    }

    /// The same mesh scaled once and for all.
    pub fn rescaled(self: Arc<Self>, scale: &Vec3) -> Arc<Self> {
        if *scale == Vec3::repeat(1.0) {
            return self;
        }
        Self::new(self.scaled(scale), self.label.clone())
    }

    /// The mesh multiplied by `scale` along its own axes. A mirroring scale flips the winding, so that the
    /// solid stays a solid.
    pub fn scaled(&self, scale: &Vec3) -> TriMesh {
        let mut mesh = self.mesh.clone();
        if *scale != Vec3::repeat(1.0) {
            mesh.vertices.iter_mut().for_each(|v| v.coords.component_mul_assign(scale));
            if scale.product() < 0.0 {
                mesh.triangles.iter_mut().for_each(|t| t.swap(1, 2));
            }
        }
        mesh
    }
}

/// Identity, name and ownership of a part.
#[derive(Clone, Debug, PartialEq)]
pub struct Meta {
    /// Unique for the life of the daemon, never 0.
    pub id: u32,
    /// Name, unique among the parts of its kind; `None` when unnamed.
    pub name: Option<Arc<str>>,
    /// Session that owns the part; [`DAEMON`](super::DAEMON) for the daemon's own.
    pub owner: u64,
    /// Outlives its session.
    pub persistent: bool,
}

/// A material in the scene.
#[derive(Clone, Debug, PartialEq)]
pub struct MaterialDef {
    /// Identity.
    pub meta: Meta,
    /// Its values.
    pub material: Material,
}

/// An effect in the scene.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectDef {
    /// Identity.
    pub meta: Meta,
    /// What it is.
    pub effect: Effect,
    /// Factor on it, 0..=1: it fades out with its session.
    pub gain: f64,
}

impl EffectDef {
    /// As the servo feels it.
    pub fn felt(&self) -> SceneEffect {
        SceneEffect { id: self.meta.id, effect: self.effect, gain: self.gain }
    }
}

/// How contact with an object is computed. A tool that is a ball is always asked as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Voxmap-PointShell: the tool's points against the object's distance field.
    Vps,
    /// Inner Sphere Trees: the tool's spheres against the object's distance field and surface.
    Ist,
}

impl Method {
    /// Names, as scene files and clients write them.
    pub const NAMES: &str = "vps, ist";

    /// The method of a name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "vps" => Some(Self::Vps),
            "ist" => Some(Self::Ist),
            _ => None,
        }
    }
}

/// Which body of tool and object is sampled where contact is by Voxmap-PointShell; the other one is the field. Says nothing
/// where the tool is a ball, or contact is by Inner Sphere Trees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Shell {
    /// The object where it is much the smaller one, so that its parts might pass between the tool's points; else the tool.
    #[default]
    Auto,
    /// The tool.
    Tool,
    /// The object.
    Object,
}

impl Shell {
    /// Names, as scene files and clients write them.
    pub const NAMES: &str = "auto, tool, object";

    /// The role of a name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "auto" => Some(Self::Auto),
            "tool" => Some(Self::Tool),
            "object" => Some(Self::Object),
            _ => None,
        }
    }
}

/// What the proxy of a ball goes along. Says nothing where the tool is no ball.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ProxyOn {
    /// The object's distance field.
    #[default]
    Field,
    /// Its triangles.
    Mesh,
}

impl ProxyOn {
    /// Names, as scene files and clients write them.
    pub const NAMES: &str = "field, mesh";

    /// The surface of a name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "field" => Some(Self::Field),
            "mesh" => Some(Self::Mesh),
            _ => None,
        }
    }
}

/// A new geometry.
#[derive(Clone, Debug)]
pub struct GeometrySpec {
    /// The mesh.
    pub mesh: Arc<SourceMesh>,
    /// Fineness of the field.
    pub params: FieldParams,
    /// Method for the objects of this shape; `None` takes the tool's.
    pub method: Option<Method>,
    /// Where its walls or gaps are too thin for the cells asked for, smaller ones are taken, or the scene is refused.
    pub hold_thin: bool,
}

/// A geometry in the scene: what objects share.
#[derive(Clone, Debug)]
pub struct GeometryDef {
    /// Identity.
    pub meta: Meta,
    /// The mesh.
    pub mesh: Arc<SourceMesh>,
    /// Fineness of the field.
    pub params: FieldParams,
    /// Method for the objects of this shape; `None` takes the tool's.
    pub method: Option<Method>,
    /// Where its walls or gaps are too thin for the cells asked for, smaller ones are taken, or the scene is refused.
    pub hold_thin: bool,
}

/// A new object.
#[derive(Clone, Debug)]
pub struct ObjectSpec {
    /// What it is shaped like.
    pub geometry: super::Ref,
    /// What it is made of.
    pub material: super::Ref,
    /// Pose in the scene.
    pub pose: Pose,
    /// Scale along the geometry's axes; negative factors mirror.
    pub scale: Vec3,
    /// Fineness of its field; `None` takes the geometry's.
    pub params: Option<FieldParams>,
    /// Method; `None` takes the geometry's, else the tool's.
    pub method: Option<Method>,
    /// Which body is sampled.
    pub shell: Shell,
    /// What the proxy of a ball goes along.
    pub proxy: ProxyOn,
    /// True when a motion stream may move it.
    pub moving: bool,
}

/// An object in the scene.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Identity.
    pub meta: Meta,
    /// New whenever geometry, scale, fineness, method, the sampled body or what a proxy goes along change.
    pub incarnation: u32,
    /// Index of the servo's state for this object; kept while the object lives.
    pub slot: u16,
    /// Index into motion frames while `moving`.
    pub motion: Option<u8>,
    /// Geometry identifier.
    pub geometry: u32,
    /// Material identifier.
    pub material: u32,
    /// Pose in the scene; the rest pose of a moving object.
    pub pose: Pose,
    /// Scale along the geometry's axes; negative factors mirror.
    pub scale: Vec3,
    /// Fineness of its field; `None` takes the geometry's.
    pub params: Option<FieldParams>,
    /// Method; `None` takes the geometry's, else the tool's.
    pub method: Option<Method>,
    /// Which body is sampled.
    pub shell: Shell,
    /// What the proxy of a ball goes along.
    pub proxy: ProxyOn,
    /// Factor on stiffness and damping, 0..=1: objects fade in and out with it.
    pub gain: f64,
}

/// A new tool.
#[derive(Clone, Debug)]
pub enum ToolSpec {
    /// A ball of that radius, m.
    Sphere {
        /// Radius, m.
        radius: f64,
        /// Pose of the tool frame in the device's tool-point frame.
        offset: Pose,
    },
    /// The sampled mesh of a geometry, which the tool keeps when the geometry is removed.
    Mesh {
        /// The geometry.
        geometry: super::Ref,
        /// Scale along the mesh's axes.
        scale: Vec3,
        /// Number of surface points asked for.
        points: u32,
        /// Pose of the tool frame in the device's tool-point frame.
        offset: Pose,
    },
    /// The mesh of a geometry filled with inner spheres, which the tool keeps when the geometry is removed.
    Spheres {
        /// The geometry.
        geometry: super::Ref,
        /// Scale along the mesh's axes.
        scale: Vec3,
        /// Number of spheres asked for.
        spheres: u32,
        /// Pose of the tool frame in the device's tool-point frame.
        offset: Pose,
    },
}

impl ToolSpec {
    /// Points of a mesh tool that names no number.
    pub const POINTS: u32 = 5000;
    /// Spheres of a tool that names no number.
    pub const SPHERES: u32 = 20_000;
}

/// The tool's geometry.
#[derive(Clone, Debug)]
pub enum ToolGeometry {
    /// A ball of that radius, m.
    Sphere(f64),
    /// A sampled mesh.
    Mesh {
        /// The mesh.
        mesh: Arc<SourceMesh>,
        /// Scale along the mesh's axes.
        scale: Vec3,
        /// Number of surface points asked for.
        points: u32,
    },
    /// A mesh filled with inner spheres: contact by Inner Sphere Tree.
    Spheres {
        /// The mesh.
        mesh: Arc<SourceMesh>,
        /// Scale along the mesh's axes.
        scale: Vec3,
        /// Number of spheres asked for.
        spheres: u32,
    },
}

impl ToolGeometry {
    /// The mesh, where there is one.
    pub fn mesh(&self) -> Option<&Arc<SourceMesh>> {
        match self {
            Self::Sphere(_) => None,
            Self::Mesh { mesh, .. } | Self::Spheres { mesh, .. } => Some(mesh),
        }
    }

    /// The method that the tool is made for; `None` for a ball.
    pub fn method(&self) -> Option<Method> {
        match self {
            Self::Sphere(_) => None,
            Self::Mesh { .. } => Some(Method::Vps),
            Self::Spheres { .. } => Some(Method::Ist),
        }
    }

    /// The same mesh made for a method, with the usual number of points or spheres where it is another than the tool's
    /// own; `None` for a ball.
    pub fn made_for(&self, method: Method) -> Option<Self> {
        let (mesh, scale) = match self {
            Self::Sphere(_) => return None,
            Self::Mesh { mesh, scale, .. } | Self::Spheres { mesh, scale, .. } => (mesh.clone(), *scale),
        };
        if self.method() == Some(method) {
            return Some(self.clone());
        }
        Some(match method {
            Method::Vps => Self::Mesh { mesh, scale, points: ToolSpec::POINTS },
            Method::Ist => Self::Spheres { mesh, scale, spheres: ToolSpec::SPHERES },
        })
    }
}

/// The tool in the scene.
#[derive(Clone, Debug)]
pub struct ToolDef {
    /// Geometry.
    pub geometry: ToolGeometry,
    /// Pose of the tool frame in the device's tool-point frame.
    pub offset: Pose,
    /// New whenever geometry or offset change.
    pub incarnation: u32,
}

impl Default for ToolDef {
    fn default() -> Self {
        Self { geometry: ToolGeometry::Sphere(0.005), offset: Pose::identity(), incarnation: 1 }
    }
}

/// How the device's space lies in the scene.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceMapping {
    /// Pose of the device's frame in the scene.
    pub device_in_scene: Pose,
    /// Scene metres per device metre.
    pub workspace_scale: f64,
}

impl Default for DeviceMapping {
    fn default() -> Self {
        Self { device_in_scene: Pose::identity(), workspace_scale: 1.0 }
    }
}
