//! Inner Sphere Trees (Weller & Zachmann 2009): a tool filled with disjoint spheres, with a hierarchy over them, against
//! a solid.
//!
//! Each sphere stands for the cells of a grid that lie nearest to it, and each cell knows exactly how much of it is
//! solid, so the volumes below a node sum to the solid's own. The other body is asked through its signed distance
//! field: a ball deeper than its radius is wholly inside, one farther outside than its radius is not touched, and only
//! what lies between is opened. Where the paper adds lenses of sphere pairs and leaves the gaps between the spheres to
//! enlarged secondary radii, nothing is left over here, and every answer comes with bounds that hold. [`lens`] is the paper's
//! closed form, which tests hold the answers against.

pub mod lens;
mod model;
pub mod packing;
pub(crate) mod parts;
mod query;
mod stored;
pub mod tree;

pub use model::{IstError, IstParams, Solid, SphereTree, cell_for};
pub use packing::Stop;
pub(crate) use query::{query, witnesses};
pub(crate) use stored::VERSION;
pub use tree::Split;
