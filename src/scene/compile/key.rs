//! Cache keys and size estimates.

use crate::geometry::Vec3;
use crate::geometry::field::build::{FieldParams, Resolution};
use crate::scene::model::{GeometryDef, Method, ToolDef, ToolGeometry};

/// Everything that decides a field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GeometryKey {
    mesh: [u8; 32],
    scale: [u64; 3],
    /// Kind of resolution, its value's bits, padding.
    params: (u8, u64, u32),
    method: u8,
}

impl GeometryKey {
    pub(super) fn of(def: &GeometryDef, scale: &Vec3, params: &FieldParams) -> Self {
        let (kind, value) = match params.resolution {
            Resolution::Cell(cell) => (0, cell.to_bits()),
            Resolution::Longest(n) => (1, u64::from(n)),
            Resolution::MemoryCap(bytes) => (2, bytes),
        };
        Self {
            mesh: def.mesh.hash,
            scale: bits(scale),
            params: (kind, value, params.padding),
            method: match def.method {
                Method::Vps => 0,
            },
        }
    }
}

/// Everything that decides a tool's shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ToolKey {
    mesh: [u8; 32],
    scale: [u64; 3],
    points: u32,
}

impl ToolKey {
    /// `None` for tools that need no shell.
    pub(super) fn of(def: &ToolDef) -> Option<Self> {
        match &def.geometry {
            ToolGeometry::Sphere(_) => None,
            ToolGeometry::Mesh { mesh, scale, points } => {
                Some(Self { mesh: mesh.hash, scale: bits(scale), points: *points })
            }
        }
    }

    /// Estimate of the shell, bytes.
    pub(super) fn bytes(&self) -> u64 {
        super::store::shell_bytes(self.points as usize)
    }
}

fn bits(scale: &Vec3) -> [u64; 3] {
    [scale.x.to_bits(), scale.y.to_bits(), scale.z.to_bits()]
}

/// Estimate of a field's bytes from the box of its mesh; never below what the build takes.
pub(super) fn estimate(def: &GeometryDef, scale: &Vec3, params: &FieldParams) -> u64 {
    let Some((lo, hi)) = def.mesh.mesh.bounds() else { return 0 };
    field_bytes(&(hi - lo).component_mul(&scale.abs()), params)
}

fn field_bytes(extent: &Vec3, params: &FieldParams) -> u64 {
    let cell = match params.resolution {
        Resolution::Cell(cell) => cell,
        Resolution::Longest(n) => extent.max() / f64::from(n),
        Resolution::MemoryCap(bytes) => return bytes,
    };
    // Nodes: cells across the box, one more, the padding on both sides and one for rounding.
    let nodes = extent.iter().map(|e| (e / cell).ceil() + 2.0 + 2.0 * f64::from(params.padding));
    let bytes = 2.0 * nodes.product::<f64>();
    if bytes.is_finite() { bytes as u64 } else { u64::MAX }
}
