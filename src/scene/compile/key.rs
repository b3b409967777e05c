//! Cache keys and size estimates.

use super::Want;
use crate::contact::ist::Solid;
use crate::geometry::Vec3;
use crate::geometry::field::build::{self, Needs, Resolution};
use crate::scene::model::{SourceMesh, ToolGeometry};

/// Working memory for a point of a shell: ten candidates and their neighbourhoods, in vectors that grow.
const SAMPLING: u64 = 8000;

/// Memory for a sphere of a tool, with its cells and nodes.
const SPHERE: u64 = 112;

/// Working memory for a sphere: the distance grid, its cells and the parts that are cut.
const PACKING: u64 = 1500;

/// Working memory for a triangle of a tool of spheres: its copies, its places in trees, its edges.
const SURFACE: u64 = 900;

/// Everything that decides a field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GeometryKey {
    mesh: [u8; 32],
    scale: [u64; 3],
    /// Kind of resolution, its value's bits, padding.
    params: (u8, u64, u32),
    hold: bool,
}

impl GeometryKey {
    pub(super) fn of(want: &Want<'_>) -> Self {
        let params = &want.params;
        let (kind, value) = match params.resolution {
            Resolution::Cell(cell) => (0, cell.to_bits()),
            Resolution::Longest(n) => (1, u64::from(n)),
            Resolution::MemoryCap(bytes) => (2, bytes),
        };
        let params = (kind, value, params.padding);
        Self { mesh: want.mesh.hash, scale: bits(&want.scale), params, hold: want.hold }
    }
}

/// Everything that decides what a tool, or a sampled object, is made of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ToolKey {
    mesh: [u8; 32],
    scale: [u64; 3],
    count: u32,
    of: Elements,
    /// Triangles of the mesh, which follow from it.
    triangles: usize,
}

/// What a tool is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Elements {
    Points,
    Spheres,
}

impl ToolKey {
    /// `None` for tools that need nothing built.
    pub(super) fn of(geometry: &ToolGeometry) -> Option<Self> {
        match geometry {
            ToolGeometry::Sphere(_) => None,
            ToolGeometry::Mesh { mesh, scale, points } => {
                Some(Self::new(mesh, scale, *points, Elements::Points))
            }
            ToolGeometry::Spheres { mesh, scale, spheres } => {
                Some(Self::new(mesh, scale, *spheres, Elements::Spheres))
            }
        }
    }

    fn new(mesh: &SourceMesh, scale: &Vec3, count: u32, of: Elements) -> Self {
        Self { mesh: mesh.hash, scale: bits(scale), count, of, triangles: mesh.mesh.triangles.len() }
    }

    /// Estimate of the finished structure, bytes.
    pub(super) fn bytes(&self) -> u64 {
        match self.of {
            Elements::Points => super::store::shell_bytes(self.count as usize),
            Elements::Spheres => SPHERE * u64::from(self.count) + Solid::surface_bytes_for(self.triangles),
        }
    }

    /// Estimate of what its build takes beside it, bytes.
    pub(super) fn working(&self) -> u64 {
        match self.of {
            Elements::Points => SAMPLING * u64::from(self.count),
            Elements::Spheres => PACKING * u64::from(self.count) + SURFACE * self.triangles as u64,
        }
    }
}

fn bits(scale: &Vec3) -> [u64; 3] {
    [scale.x.to_bits(), scale.y.to_bits(), scale.z.to_bits()]
}

/// Estimate of what a field and its build take; never below it for a mesh without holes.
pub(super) fn needs(want: &Want<'_>) -> Needs {
    let mesh = &want.mesh.mesh;
    let Some((lo, hi)) = mesh.bounds() else { return Needs { field: 0, working: 0 } };
    let size = (hi - lo).component_mul(&want.scale.abs());
    let needs = build::needs(&size, mesh.triangles.len(), &want.params);
    // Its scaled copy, and the bytes that the disk cache's key is made from.
    Needs { working: needs.working.saturating_add(2 * want.mesh.bytes()), ..needs }
}
