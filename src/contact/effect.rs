//! What pushes a tool without touching it: the data; the law is the control law's.

use crate::geometry::Vec3;

/// Most effects of a scene, all of which are felt at a time.
pub const MAX_EFFECTS: usize = 16;

/// Kinds of effects, all about the tool's origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EffectKind {
    /// Against the motion: `strength` N·s/m.
    Viscosity,
    /// Always the same: `vector` N, scene axes.
    Constant,
    /// Towards a point: `strength` N/m, `vector` m in the scene.
    Spring,
    /// Towards a point within `range`: at most `strength` N, `vector` m in the scene.
    Magnet,
}

/// A field effect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// What it does.
    pub kind: EffectKind,
    /// Its coefficient, by kind.
    pub strength: f64,
    /// Its force or its point, by kind.
    pub vector: Vec3,
    /// How far it reaches, m.
    pub range: f64,
    /// It never pushes with more, N.
    pub max_force: f64,
}

/// An effect of a scene.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SceneEffect {
    /// Identifier in the model; unique for the life of the daemon.
    pub id: u32,
    /// What it is.
    pub effect: Effect,
    /// Factor on it, 0..=1: what is going fades out with it.
    pub gain: f64,
}
