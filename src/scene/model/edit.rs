//! Edits of a scene and their errors.

use super::parts::{GeometrySpec, Method, ObjectSpec, ProxyOn, Shell, ToolSpec};
use crate::contact::Material;
use crate::contact::effect::Effect;
use crate::geometry::field::build::FieldParams;
use crate::geometry::{Pose, Vec3};
use std::sync::Arc;

/// Names a part of the scene.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ref {
    /// By identifier.
    Id(u32),
    /// By name.
    Name(String),
    /// What the edit of that index in the same transaction created.
    New(usize),
}

impl From<u32> for Ref {
    fn from(id: u32) -> Self {
        Self::Id(id)
    }
}

impl From<&str> for Ref {
    fn from(name: &str) -> Self {
        Self::Name(name.into())
    }
}

impl std::fmt::Display for Ref {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Id(id) => write!(f, "{id}"),
            Self::Name(name) => write!(f, "'{name}'"),
            Self::New(edit) => write!(f, "what edit {edit} created"),
        }
    }
}

/// What to change of an object; `None` keeps.
#[derive(Clone, Debug, Default)]
pub struct ObjectPatch {
    /// Other geometry: a new incarnation.
    pub geometry: Option<Ref>,
    /// Other material.
    pub material: Option<Ref>,
    /// Other pose.
    pub pose: Option<Pose>,
    /// Other scale: a new incarnation.
    pub scale: Option<Vec3>,
    /// Other fineness of its field: a new incarnation.
    pub params: Option<FieldParams>,
    /// Other method: a new incarnation.
    pub method: Option<Method>,
    /// Which body is sampled: another one is a new incarnation.
    pub shell: Option<Shell>,
    /// What the proxy of a ball goes along: another one is a new incarnation.
    pub proxy: Option<ProxyOn>,
    /// Whether a motion stream may move it.
    pub moving: Option<bool>,
    /// Factor on stiffness and damping, 0..=1.
    pub gain: Option<f64>,
    /// Whether it outlives its session.
    pub persistent: Option<bool>,
}

/// One change of a scene.
#[derive(Clone, Debug)]
pub enum Edit {
    /// Creates a material.
    AddMaterial {
        /// Name, unique among materials.
        name: Option<String>,
        /// Values.
        material: Material,
        /// Outlives its session.
        persistent: bool,
    },
    /// Replaces the values of a material; every object of it feels the change.
    SetMaterial {
        /// Which.
        material: Ref,
        /// New values.
        values: Material,
    },
    /// Removes a material that no object uses.
    RemoveMaterial {
        /// Which.
        material: Ref,
    },
    /// Creates a geometry.
    AddGeometry {
        /// Name, unique among geometries.
        name: Option<String>,
        /// Mesh, fineness, method.
        spec: GeometrySpec,
        /// Outlives its session.
        persistent: bool,
    },
    /// Removes a geometry that no object uses.
    RemoveGeometry {
        /// Which.
        geometry: Ref,
    },
    /// Puts an object into the scene.
    AddObject {
        /// Name, unique among objects.
        name: Option<String>,
        /// Geometry, material, pose, scale.
        spec: ObjectSpec,
        /// Outlives its session.
        persistent: bool,
    },
    /// Changes an object.
    SetObject {
        /// Which.
        object: Ref,
        /// What to change.
        patch: ObjectPatch,
    },
    /// Takes an object out of the scene.
    RemoveObject {
        /// Which.
        object: Ref,
    },
    /// Creates an effect, or gives the one of that name other numbers or another kind.
    SetEffect {
        /// Name, unique among effects.
        name: String,
        /// What it is.
        effect: Effect,
        /// It outlives the session that set it last.
        persistent: bool,
    },
    /// Removes an effect.
    RemoveEffect {
        /// Which.
        effect: Ref,
    },
    /// Changes the tool of every device.
    SetTool {
        /// The new tool.
        tool: ToolSpec,
    },
    /// Gives the device of that role a tool of its own.
    SetDeviceTool {
        /// Its role.
        device: Arc<str>,
        /// The new tool.
        tool: ToolSpec,
    },
    /// Changes how the space of the device of that role lies in the scene; `None` keeps.
    SetDeviceMapping {
        /// Its role.
        device: Arc<str>,
        /// Pose of the device's frame in the scene.
        device_in_scene: Option<Pose>,
        /// Scene metres per device metre.
        workspace_scale: Option<f64>,
    },
    /// Changes how the space of every device lies in the scene; `None` keeps.
    SetMapping {
        /// Pose of the device's frame in the scene.
        device_in_scene: Option<Pose>,
        /// Scene metres per device metre.
        workspace_scale: Option<f64>,
    },
    /// Scales stiffness and damping of every object and the effects of a session that are not persistent (fading out).
    FadeOwned {
        /// Session.
        owner: u64,
        /// Factor, 0..=1.
        gain: f64,
    },
    /// Lets the effects of a session that are not persistent rest, while nobody is there to end them, or push again.
    RestEffects {
        /// Session.
        owner: u64,
        /// They rest.
        rest: bool,
    },
    /// Removes what a session owns and nothing else needs, but for persistent parts.
    RemoveOwned {
        /// Session.
        owner: u64,
    },
    /// Removes every object, effect, material and geometry. Tools and mappings stay.
    Clear,
}

impl Edit {
    /// Name of the kind of edit, as messages give it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::AddMaterial { .. } => "add material",
            Self::SetMaterial { .. } => "set material",
            Self::RemoveMaterial { .. } => "remove material",
            Self::AddGeometry { .. } => "add geometry",
            Self::RemoveGeometry { .. } => "remove geometry",
            Self::AddObject { .. } => "add object",
            Self::SetObject { .. } => "set object",
            Self::RemoveObject { .. } => "remove object",
            Self::SetEffect { .. } => "set effect",
            Self::RemoveEffect { .. } => "remove effect",
            Self::SetTool { .. } | Self::SetDeviceTool { .. } => "set tool",
            Self::SetMapping { .. } | Self::SetDeviceMapping { .. } => "set mapping",
            Self::FadeOwned { .. } => "fade owned",
            Self::RestEffects { .. } => "rest effects",
            Self::RemoveOwned { .. } => "remove owned",
            Self::Clear => "clear",
        }
    }
}

/// Result of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// For each edit the identifier that it created, if it created something.
    pub ids: Vec<Option<u32>>,
    /// Revision of the new scene = generation of its snapshot.
    pub revision: u64,
}

/// Kinds of edit errors; what a client may do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditErrorKind {
    /// No such part: look it up again.
    NotFound,
    /// A value out of its range: change it.
    Invalid,
    /// The name is taken: choose another.
    Duplicate,
    /// Something still uses the part: remove that first.
    InUse,
    /// A limit of the scene is reached: remove something.
    Limit,
}

/// Why a transaction was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("edit {index} ({edit}): {field}: {cause}")]
pub struct EditError {
    /// Index of the edit in its transaction.
    pub index: usize,
    /// Kind of the edit.
    pub edit: &'static str,
    /// Field of the edit.
    pub field: &'static str,
    /// Kind of error.
    pub kind: EditErrorKind,
    /// What is wrong and what would be right.
    pub cause: String,
}

impl EditError {
    pub(super) fn new(kind: EditErrorKind, field: &'static str, cause: impl Into<String>) -> Self {
        Self { index: 0, edit: "", field, kind, cause: cause.into() }
    }

    pub(super) fn at(self, index: usize, edit: &Edit) -> Self {
        Self { index, edit: edit.kind(), ..self }
    }
}
