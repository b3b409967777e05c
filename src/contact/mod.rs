//! "What touches, how deep, which wrench": the contact queries of the papers behind one entry point.
//!
//! [`query`] is the only door to forces: the servo tick, `hapticd simulate` and `hapticd evaluate` all call
//! it. It is real-time safe: no allocation, no lock, no system call; all scratch memory lives in
//! [`QueryState`]. Beside it [`near`] says where a tool is nearest, and [`vps::sweep_to_impact`] when a
//! moving shell first touches.

pub mod effect;
pub mod ist;
pub mod kept;
pub mod near;
pub mod patch;
pub mod roles;
pub mod share;
pub mod sphere;
pub mod stiffness;
pub mod vps;

pub use crate::geometry::simd::{SimdLevel, force as force_simd, level as simd_level};
pub use patch::{MAX_PATCHES, Patch};
pub use share::{share, share_gently};
pub use stiffness::felt_stiffness_cap;

use crate::geometry::field::Field;
use crate::geometry::pose::pose_is_finite;
use crate::geometry::{Pose, Twist, Vec3, Wrench};
use nalgebra::Matrix6;
use std::sync::Arc;

/// Most contact points that a [`Contact`] carries.
pub const MAX_POINTS: usize = 8;

/// Tells a query that its wall-clock time is over. The contact code knows no clock; the servo implements this.
pub trait Deadline {
    /// True once the time is over. Must be real-time safe, and cheap: some ask every sixteen work units.
    fn passed(&self) -> bool;
}

/// What a query may spend.
#[derive(Clone, Copy)]
pub struct Budget<'a> {
    /// Work units (points; of inner spheres nodes, cells and boxes); 0 means unlimited.
    pub units: u32,
    /// Second guard on the real clock; `None` in tests, goldens, replay and `simulate`.
    pub deadline: Option<&'a dyn Deadline>,
}

impl Budget<'_> {
    /// No limit at all.
    pub const UNLIMITED: Budget<'static> = Budget { units: 0, deadline: None };
}

/// The tool's geometry, in the tool's own frame (origin = reference point of wrenches).
#[derive(Clone, Debug)]
pub enum ToolShape {
    /// A 3-DoF haptic point: a ball about the tool's origin, radius in m.
    Sphere {
        /// Radius, m.
        radius: f64,
    },
    /// A sampled surface with normals and area weights.
    Shell(Arc<vps::PointShell>),
    /// A solid filled with inner spheres.
    Spheres(Arc<ist::SphereTree>),
    /// Both of one body: objects that are fields are asked by the points, solids by the spheres.
    Both(Arc<vps::PointShell>, Arc<ist::SphereTree>),
}

/// An object's geometry, in the object's own frame.
#[derive(Clone, Debug)]
pub enum ObjectShape {
    /// Signed distance field.
    Field(Arc<Field>),
    /// A field with the surface that it was built from, for exact distances and bounds on volumes, and for the proxy of a ball.
    Solid(Arc<ist::Solid>),
    /// The object's points, asked against the tool's field.
    Sampled(Arc<roles::Sampled>),
}

impl ObjectShape {
    /// The signed distance field that every shape has. Real-time safe.
    pub fn field(&self) -> &Field {
        match self {
            Self::Field(field) => field,
            Self::Solid(solid) => &solid.field,
            Self::Sampled(sampled) => sampled.field(),
        }
    }
}

/// How an object answers to being pressed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Material {
    /// Stiffness of a flat contact of `reference_area`, N/m. The pressure gradient is stiffness / area, N/m^3.
    pub stiffness: f64,
    /// Area at which `stiffness` holds, m^2.
    pub reference_area: f64,
    /// Damping of a flat contact of `reference_area`, N·s/m; acts only while approaching.
    pub damping: f64,
    /// How it rubs. Felt by tools that are followed tick by tick.
    pub friction: Friction,
    /// What its surface is like to stroke. Felt by ball tools alone.
    pub texture: Texture,
}

/// Pits all over a surface: waves along the three axes of the object.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Texture {
    /// From the highest to the lowest place, m; 0 = smooth.
    pub height: f64,
    /// Length of the waves, m.
    pub wavelength: f64,
}

impl Texture {
    /// Smooth.
    pub const NONE: Self = Self { height: 0.0, wavelength: 0.0 };
}

/// How a material rubs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Friction {
    /// Coefficient up to which what rests does not slide.
    pub statics: f64,
    /// Coefficient of what slides; at most the static one.
    pub dynamic: f64,
    /// Speed over which the coefficient falls from the static one to the dynamic one (Stribeck), m/s; 0: at once.
    pub stribeck: f64,
    /// Growth of the coefficient with the speed, s/m, up to the static one.
    pub viscous: f64,
}

impl Friction {
    /// Smooth as ice.
    pub const NONE: Self = Self { statics: 0.0, dynamic: 0.0, stribeck: 0.0, viscous: 0.0 };

    /// It rubs at all. Real-time safe.
    pub(crate) fn rubs(&self) -> bool {
        sound(self.statics) > 0.0
    }

    /// One coefficient for both.
    pub const fn of(mu: f64) -> Self {
        Self { statics: mu, dynamic: mu, ..Self::NONE }
    }
}

/// A material's number as queries use it: never negative, and nothing where it cannot be read. Real-time safe.
pub(crate) fn sound(v: f64) -> f64 {
    if v.is_finite() { v.max(0.0) } else { 0.0 }
}

/// One side of a guaranteed interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The true value is at least this.
    pub lower: f64,
    /// The true value is at most this.
    pub upper: f64,
}

/// A single touching point, for telemetry and manifolds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ContactPoint {
    /// Position in the scene frame, m.
    pub position: Vec3,
    /// Unit direction in which the object pushes the tool, scene frame.
    pub normal: Vec3,
    /// Penetration, m, positive inside.
    pub depth: f64,
    /// Surface area that the point stands for, m^2.
    pub area: f64,
    /// Index of the point in the shell that was asked (the tool's, or the object's): stable from tick to
    /// tick. Of inner spheres the octant about the tool's origin, of a ball 0.
    pub id: u32,
}

/// One question: this tool, so placed and moving, against this object.
#[derive(Clone, Copy)]
pub struct Query<'a> {
    /// Tool geometry.
    pub tool: &'a ToolShape,
    /// Tool frame in the scene.
    pub tool_pose: &'a Pose,
    /// Velocity of the tool's origin and rotation, scene axes.
    pub tool_twist: &'a Twist,
    /// Object geometry.
    pub object: &'a ObjectShape,
    /// Object frame in the scene.
    pub object_pose: &'a Pose,
    /// Velocity of the object's origin and rotation, scene axes.
    pub object_twist: &'a Twist,
    /// How the object answers.
    pub material: &'a Material,
}

impl Query<'_> {
    /// Velocity of the tool as seen from the object: of the tool's origin and angular, scene axes. Real-time safe.
    pub(crate) fn relative_twist(&self) -> Twist {
        let arm = self.tool_pose.translation.vector - self.object_pose.translation.vector;
        Twist {
            linear: self.tool_twist.linear - self.object_twist.at(&arm),
            angular: self.tool_twist.angular - self.object_twist.angular,
        }
    }
}

/// What a query remembers between ticks (warm starts). Explicit, resettable, recorded; fixed size, no heap.
/// The answer with the same (query, budget, state) has the same bits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueryState {
    /// Queries answered since the last reset.
    pub queries: u32,
    /// Point shells: block of sixteen points that was nearest or deepest, plus one; 0 = none known.
    pub nearest: u32,
    /// Point shells: what cannot touch yet.
    pub clear: vps::Clearance,
    /// The last answer was a touch.
    pub touching: bool,
    /// Sphere trees: triangles of tool and object that were closest, each plus one; 0 = none known.
    pub closest: [u32; 2],
    /// Point shells: the side of a wall from which the tool came. Off by default.
    pub kept: kept::Kept,
}

impl QueryState {
    /// A state of queries that follow each other tick by tick, so that sides are kept. Real-time safe.
    pub fn following() -> Self {
        let mut state = Self::default();
        state.kept.follow();
        state
    }

    /// Back to the beginning; whether sides are kept stays. Real-time safe.
    pub fn forget(&mut self) {
        self.kept.interrupt();
        *self = Self { kept: self.kept, ..Self::default() };
    }
}

/// Answer of one tool-object query. Fixed size, no heap.
#[derive(Clone, Copy, Debug)]
pub struct Contact {
    /// Force and torque on the tool about the tool's origin, scene axes; N, N·m.
    pub wrench: Wrench,
    /// True when any part of the tool is inside the object. A wrench may be there before (see [`Contact::felt`]).
    pub touching: bool,
    /// Largest penetration, m; 0 when apart.
    pub depth: f64,
    /// Smallest separation, m; 0 when touching. `None` when the method only knows "farther than it cares". Of a point shell that is followed
    /// from query to query it may be larger by some per cent (docs/vps.md); `depth_bounds` hold always.
    pub distance: Option<f64>,
    /// Estimated volume of the intersection, m^3, where the method gives it.
    pub volume: Option<f64>,
    /// Guaranteed bounds on signed penetration (positive inside, negative = separation), m.
    pub depth_bounds: Option<Bounds>,
    /// Guaranteed bounds on the intersection volume, m^3.
    pub volume_bounds: Option<Bounds>,
    /// Symmetric positive semidefinite part of -d(wrench)/d(displacement), rows and columns (x, y, z, rx, ry, rz)
    /// about the tool's origin in scene axes; N/m, N, N·m/rad.
    pub stiffness: Matrix6<f64>,
    /// Deepest points first; only the first `n_points` hold.
    pub points: [ContactPoint; MAX_POINTS],
    /// Number of valid entries of `points`.
    pub n_points: u8,
    /// Where the tool presses, by direction, for materials with friction; empty ones press with 0. Balls have none, their friction is a
    /// cone about one force.
    pub patches: [Patch; MAX_PATCHES],
    /// Work units spent.
    pub work: u32,
    /// Work units that a complete answer takes: what to ask for in the next tick.
    pub need: u32,
    /// False when the budget ended the query before its full answer.
    pub complete: bool,
    /// True when it was the wall-clock deadline that ended it.
    pub deadline_hit: bool,
}

impl Contact {
    /// The answer "nothing touches", with `distance` as the separation where it is known.
    pub const fn none(distance: Option<f64>) -> Self {
        const P: ContactPoint = ContactPoint {
            position: Vec3::new(0.0, 0.0, 0.0),
            normal: Vec3::new(0.0, 0.0, 0.0),
            depth: 0.0,
            area: 0.0,
            id: 0,
        };
        Self {
            wrench: Wrench::ZERO,
            touching: false,
            depth: 0.0,
            distance,
            volume: None,
            depth_bounds: None,
            volume_bounds: None,
            stiffness: Matrix6::from_array_storage(nalgebra::ArrayStorage([[0.0; 6]; 6])),
            points: [P; MAX_POINTS],
            n_points: 0,
            patches: [Patch::NONE; MAX_PATCHES],
            work: 0,
            need: 0,
            complete: true,
            deadline_hit: false,
        }
    }

    /// The same with the positive part of its stiffness alone, where turning counts as moving at a lever of `length` m.
    /// Real-time safe.
    fn with_positive_stiffness(self, length: f64) -> Self {
        if !self.touching {
            return self;
        }
        Self { stiffness: stiffness::positive_part(&self.stiffness, length.max(1e-6)), ..self }
    }

    /// True when the hand is to feel this contact: it touches, or has a wrench already. What a method shows before the
    /// surfaces meet, for want of resolution, it lets fade with the distance, with the stiffness that comes of it.
    /// Real-time safe.
    pub fn felt(&self) -> bool {
        self.touching || self.wrench != Wrench::ZERO
    }
}

/// Answers one query within the budget. Real-time safe.
///
/// A pose or twist that is not finite gives no force and `complete == false`.
pub fn query(q: &Query<'_>, budget: Budget<'_>, state: &mut QueryState) -> Contact {
    state.queries = state.queries.wrapping_add(1);
    let sound = pose_is_finite(q.tool_pose)
        && pose_is_finite(q.object_pose)
        && q.tool_twist.is_finite()
        && q.object_twist.is_finite();
    if !sound {
        return Contact { complete: false, ..Contact::none(None) };
    }
    match q.object {
        ObjectShape::Sampled(sampled) => sampled.query(q, budget, state),
        _ => followed(q, budget, state),
    }
}

fn followed(q: &Query<'_>, budget: Budget<'_>, state: &mut QueryState) -> Contact {
    let mut contact = answer(q, budget, state);
    state.kept.keep(q, budget, &mut contact);
    contact
}

fn answer(q: &Query<'_>, budget: Budget<'_>, state: &mut QueryState) -> Contact {
    let points = |shell: &vps::PointShell, field, state: &mut _| {
        let contact = vps::query(q, shell, field, budget, state);
        contact.with_positive_stiffness(shell.bound_radius)
    };
    match (q.tool, q.object) {
        (ToolShape::Sphere { radius }, object) => sphere::query(q, *radius, object.field()),
        (ToolShape::Both(shell, _), object @ (ObjectShape::Field(_) | ObjectShape::Sampled(_))) => {
            points(shell, object.field(), state)
        }
        (ToolShape::Shell(shell), object) => points(shell, object.field(), state),
        (ToolShape::Spheres(tree) | ToolShape::Both(_, tree), ObjectShape::Solid(solid)) => {
            ist::query(q, tree, solid, budget, state)
        }
        // A sphere tree needs the object's surface too: scenes pair it with solids only.
        (ToolShape::Spheres(_), ObjectShape::Field(_) | ObjectShape::Sampled(_)) => {
            Contact { complete: false, ..Contact::none(None) }
        }
    }
}
