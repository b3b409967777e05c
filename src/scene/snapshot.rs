//! The immutable scene that the servo feels. Built on the control side, adopted whole, freed by the control side.

pub use super::broad::Broad;
use crate::contact::effect::SceneEffect;
use crate::contact::{Material, ObjectShape, ToolShape};
use crate::geometry::Pose;
use std::sync::Arc;

/// Most objects in a scene; the servo holds one state slot for each.
pub const MAX_OBJECTS: usize = 4096;
/// Most moving objects.
pub const MAX_MOVING: usize = 64;
/// Motion samples that a frame carries per moving object.
pub const MOTION_HISTORY: usize = 32;

/// One object as the servo sees it.
#[derive(Clone, Debug)]
pub struct SnapshotObject {
    /// Identifier in the model; unique for the life of the daemon.
    pub id: u32,
    /// Changes whenever the object's geometry or method does; warm starts of another incarnation are dropped.
    pub incarnation: u32,
    /// Index of the servo's state for this object, below [`MAX_OBJECTS`]; kept while the object lives.
    pub slot: u16,
    /// Index into the motion frame for moving objects.
    pub motion: Option<u8>,
    /// Pose of the object in the scene (the rest pose of a moving object).
    pub pose: Pose,
    /// Geometry in the object's frame.
    pub shape: ObjectShape,
    /// How it answers to being pressed.
    pub material: Material,
    /// Centre of a ball around the geometry, object frame, m.
    pub bound_centre: crate::geometry::Point,
    /// Radius of that ball, m.
    pub bound_radius: f64,
}

/// The tool that the device holds.
#[derive(Clone, Debug)]
pub struct Tool {
    /// Geometry in the tool's frame.
    pub shape: ToolShape,
    /// Pose of the tool frame in the device's tool-point frame.
    pub offset: Pose,
    /// Radius of a ball about the tool's origin that holds its geometry, m.
    pub bound_radius: f64,
    /// Changes whenever the geometry does: the servo goes through the arming ramp.
    pub incarnation: u32,
}

/// A scene at one generation.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Rises with each publish.
    pub generation: u64,
    /// The tool.
    pub tool: Arc<Tool>,
    /// The objects, ascending slot.
    pub objects: Box<[SnapshotObject]>,
    /// Pose of the device's frame in the scene.
    pub device_in_scene: Pose,
    /// Scene metres per device metre (workspace scaling); forces keep the rendered N/m.
    pub workspace_scale: f64,
    /// What pushes without touching.
    pub effects: Box<[SceneEffect]>,
    /// Bounding balls for the broad phase, and what changed when.
    pub broad: Broad,
}

impl Snapshot {
    /// A snapshot of the given objects (sorted here by slot) with its broad phase. O(objects); control side.
    pub fn new(
        generation: u64,
        tool: Arc<Tool>,
        mut objects: Box<[SnapshotObject]>,
        device_in_scene: Pose,
        workspace_scale: f64,
    ) -> Self {
        objects.sort_unstable_by_key(|o| o.slot);
        let broad = Broad::new(&objects, generation);
        Self { generation, tool, objects, device_in_scene, workspace_scale, effects: [].into(), broad }
    }

    /// The same with effects. Control side.
    pub fn with_effects(self, effects: Box<[SceneEffect]>) -> Self {
        Self { effects, ..self }
    }
}

/// A pose of a moving object with the time at which it held, mapped to the servo's clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MotionSample {
    /// Servo-clock time, ns.
    pub time_ns: u64,
    /// Pose in the scene.
    pub pose: Pose,
}

/// The samples of one moving object ([`super::history`]).
#[derive(Clone, Copy, Debug)]
pub struct MotionEntry {
    /// Object identifier; an entry whose (id, incarnation) is not the snapshot's is ignored.
    pub id: u32,
    /// Object incarnation.
    pub incarnation: u32,
    /// Oldest first; only the first `len` hold.
    pub samples: [MotionSample; MOTION_HISTORY],
    /// Number of valid samples.
    pub len: u8,
    /// The servo plays the motion this long after the sender's time, ns (bounded, reported).
    pub delay_ns: u64,
    /// Servo-clock time after which the stream counts as stopped, ns.
    pub lease_until_ns: u64,
}

/// All moving poses, published together each time.
#[derive(Clone, Debug, Default)]
pub struct MotionFrame {
    /// Rises with each publish.
    pub sequence: u64,
    /// Entry `i` belongs to objects with `motion == Some(i)`.
    pub entries: Vec<Option<MotionEntry>>,
}
