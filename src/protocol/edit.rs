//! Edits of the scene. A transaction is a list of them, validated all, published once.

use super::datagram::{WireError, unit};
use serde::{Deserialize, Serialize};

/// A rigid pose in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoseJson {
    /// Position, m.
    #[serde(default)]
    pub position: [f64; 3],
    /// Orientation, x y z w; unit within 1e-3.
    #[serde(default = "identity")]
    pub orientation: [f64; 4],
}

fn identity() -> [f64; 4] {
    [0.0, 0.0, 0.0, 1.0]
}

impl Default for PoseJson {
    fn default() -> Self {
        Self { position: [0.0; 3], orientation: identity() }
    }
}

impl PoseJson {
    /// The same pose with a normalised quaternion.
    ///
    /// # Errors
    /// `NonFinite` or `Norm`.
    pub fn checked(&self) -> Result<Self, WireError> {
        if !self.position.iter().all(|x| x.is_finite()) {
            return Err(WireError::NonFinite);
        }
        Ok(Self { position: self.position, orientation: unit(self.orientation)? })
    }
}

/// An object by number or name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ObjectRef {
    /// Identifier, unique for the life of the daemon.
    Id(u32),
    /// Name, unique while the object lives.
    Name(String),
}

/// Factors along the axes: one number for all, or three.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Factors {
    /// The same along all axes.
    All(f64),
    /// One for each axis.
    Each([f64; 3]),
}

impl Factors {
    /// One factor for each axis.
    pub fn each(self) -> [f64; 3] {
        match self {
            Self::All(f) => [f; 3],
            Self::Each(f) => f,
        }
    }
}

/// Where a mesh's bytes come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MeshSource {
    /// The descriptor that came with this request (one a request, a regular file or memfd).
    Descriptor,
    /// A path under one of the daemon's allow-listed roots.
    Path(String),
}

/// File formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MeshFormat {
    /// STL, ASCII or binary.
    Stl,
    /// Wavefront OBJ.
    Obj,
    /// PLY, ASCII or binary.
    Ply,
}

/// How finely a mesh's distance field is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// Edge of a cell, m.
    Cell(f64),
    /// Cells along the longest side.
    Longest(u32),
    /// The finest grid that fits into so many bytes.
    Bytes(u64),
}

/// The tool's geometry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ToolJson {
    /// A 3-DoF haptic point.
    Sphere {
        /// Radius, m.
        radius: f64,
        /// Pose of the tool frame in the device's tool-point frame.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        offset: Option<PoseJson>,
    },
    /// A loaded mesh filled with inner spheres: contact by Inner Sphere Tree.
    Spheres {
        /// Name of the mesh.
        mesh: String,
        /// Number of spheres; the daemon's default when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spheres: Option<u32>,
        /// Factors along the mesh's axes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scale: Option<Factors>,
        /// Pose of the tool frame in the device's tool-point frame.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        offset: Option<PoseJson>,
    },
    /// A loaded mesh, sampled into points.
    Mesh {
        /// Name of the mesh.
        mesh: String,
        /// Number of points; the daemon's default when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        points: Option<u32>,
        /// Factors along the mesh's axes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scale: Option<Factors>,
        /// Pose of the tool frame in the device's tool-point frame.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        offset: Option<PoseJson>,
    },
}

/// How contact with an object is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MethodName {
    /// Voxmap-PointShell.
    Vps,
    /// Inner Sphere Trees.
    Ist,
}

/// What pushes the tool without touching it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum EffectJson {
    /// Against the motion.
    Viscosity {
        /// N·s/m.
        damping: f64,
    },
    /// Always the same.
    Constant {
        /// Scene axes, N.
        force: [f64; 3],
    },
    /// Towards a point.
    Spring {
        /// In the scene, m.
        point: [f64; 3],
        /// N/m.
        stiffness: f64,
    },
    /// Towards a point within a range.
    Magnet {
        /// In the scene, m.
        point: [f64; 3],
        /// Largest pull, at a third of the range, N.
        force: f64,
        /// m.
        range: f64,
    },
}

/// Pits all over a surface.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextureJson {
    /// From the highest to the lowest place, m.
    pub height: f64,
    /// Length of the waves, m.
    pub wavelength: f64,
}

/// How a material rubs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrictionJson {
    /// Coefficient up to which what rests does not slide.
    #[serde(rename = "static")]
    pub statics: f64,
    /// Coefficient of what slides; the static one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dynamic: Option<f64>,
    /// Speed over which the coefficient falls from the one to the other, m/s.
    #[serde(default)]
    pub stribeck: f64,
    /// Growth of the coefficient with the speed, s/m.
    #[serde(default)]
    pub viscous: f64,
}

/// Which body of tool and object is sampled where contact is by Voxmap-PointShell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShellName {
    /// The object where it is much the smaller one, else the tool.
    Auto,
    /// The tool.
    Tool,
    /// The object.
    Object,
}

/// What the proxy of a ball goes along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProxyName {
    /// The distance field.
    Field,
    /// The triangles.
    Mesh,
}

/// One change of the scene. In a transaction `op` names it; as a request of its own the method does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", deny_unknown_fields)]
pub enum Edit {
    /// Creates a material or changes one.
    #[serde(rename = "material.set")]
    MaterialSet {
        /// Name.
        name: String,
        /// Stiffness of a flat contact of `reference_area`, N/m.
        stiffness: f64,
        /// Area at which the stiffness holds, m^2.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reference_area: Option<f64>,
        /// Damping of such a contact, N·s/m.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        damping: Option<f64>,
        /// How it rubs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        friction: Option<FrictionJson>,
        /// What its surface is like to stroke.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        texture: Option<TextureJson>,
        /// True keeps a new material when its session ends.
        #[serde(default)]
        persistent: bool,
    },
    /// Deletes a material that nothing uses.
    #[serde(rename = "material.delete")]
    MaterialDelete {
        /// Name.
        name: String,
    },
    /// Loads a mesh.
    #[serde(rename = "mesh.load")]
    MeshLoad {
        /// Name.
        name: String,
        /// Where the bytes are.
        source: MeshSource,
        /// How to read them.
        format: MeshFormat,
        /// Unit of the file: m, cm, mm, um, in, ft. There is no default.
        unit: String,
        /// Further factor on all lengths.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scale: Option<f64>,
        /// Refuse what would have to be repaired.
        #[serde(default)]
        strict: bool,
        /// Vertices closer than this are welded, m.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        weld_tolerance: Option<f64>,
        /// Fineness of its distance field; the daemon's default when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resolution: Option<Resolution>,
        /// Takes smaller cells where its walls or gaps need them, or refuses the object that brings it in.
        #[serde(default)]
        hold_thin: bool,
        /// True keeps the mesh when its session ends.
        #[serde(default)]
        persistent: bool,
    },
    /// Deletes a mesh that nothing uses.
    #[serde(rename = "mesh.delete")]
    MeshDelete {
        /// Name.
        name: String,
    },
    /// Puts a mesh into the scene.
    #[serde(rename = "object.create")]
    ObjectCreate {
        /// Name, unique.
        name: String,
        /// A loaded mesh.
        mesh: String,
        /// A material.
        material: String,
        /// Where it stands.
        #[serde(default)]
        pose: PoseJson,
        /// True for an object that a motion stream moves.
        #[serde(default)]
        moving: bool,
        /// True keeps the object when its session ends.
        #[serde(default)]
        persistent: bool,
        /// Factors along the mesh's axes; negative ones mirror.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scale: Option<Factors>,
        /// Fineness of its field; that of the mesh when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resolution: Option<Resolution>,
        /// How contact is computed; the tool's method when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        method: Option<MethodName>,
        /// Which body is sampled.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shell: Option<ShellName>,
        /// What the proxy of a ball goes along.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        proxy: Option<ProxyName>,
    },
    /// Changes an object; what is absent stays.
    #[serde(rename = "object.update")]
    ObjectUpdate {
        /// Which.
        object: ObjectRef,
        /// New material.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        material: Option<String>,
        /// New pose (the rest pose of a moving object).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pose: Option<PoseJson>,
        /// New mesh.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mesh: Option<String>,
        /// New factors along the mesh's axes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scale: Option<Factors>,
        /// New fineness.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resolution: Option<Resolution>,
        /// New method of contact.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        method: Option<MethodName>,
        /// Which body is sampled.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shell: Option<ShellName>,
        /// What the proxy of a ball goes along.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        proxy: Option<ProxyName>,
        /// Whether a motion stream may move it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        moving: Option<bool>,
        /// Whether it outlives its session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        persistent: Option<bool>,
    },
    /// Deletes an object, touched or not.
    #[serde(rename = "object.delete")]
    ObjectDelete {
        /// Which.
        object: ObjectRef,
    },
    /// Creates an effect, or gives the one of that name other numbers or another kind.
    #[serde(rename = "effect.set")]
    EffectSet {
        /// Name.
        name: String,
        /// What it is.
        effect: EffectJson,
        /// It never pushes with more, N; 2 N when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_force: Option<f64>,
        /// True keeps a new effect when its session ends.
        #[serde(default)]
        persistent: bool,
    },
    /// Deletes an effect.
    #[serde(rename = "effect.delete")]
    EffectDelete {
        /// Name.
        name: String,
    },
    /// Changes a tool (through the arming ramp when armed).
    #[serde(rename = "tool.set")]
    ToolSet {
        /// The new tool.
        tool: ToolJson,
        /// Role of the device that gets it; all get it when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        device: Option<String>,
    },
    /// Places a device's frame in the scene.
    #[serde(rename = "device.place")]
    DevicePlace {
        /// Pose of the device frame in the scene.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pose: Option<PoseJson>,
        /// Scene metres per device metre.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scale: Option<f64>,
        /// Role of the device that is placed; all are when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        device: Option<String>,
    },
    /// Removes all objects, effects, materials and meshes; tool and placing stay. Admins only.
    #[serde(rename = "scene.clear")]
    SceneClear {},
}

impl Edit {
    /// The device that it is for, where it names one.
    pub fn device(&self) -> Option<&str> {
        match self {
            Self::ToolSet { device, .. } | Self::DevicePlace { device, .. } => device.as_deref(),
            _ => None,
        }
    }

    /// Names of all edits, which are methods too.
    pub const OPS: [&'static str; 12] = [
        "material.set",
        "material.delete",
        "mesh.load",
        "mesh.delete",
        "object.create",
        "object.update",
        "object.delete",
        "effect.set",
        "effect.delete",
        "tool.set",
        "device.place",
        "scene.clear",
    ];
}
