//! The layered voxmap of the papers (McNeely, Puterbaugh and Troy 1999; Sagardia, Stouraitis and Lopes e Silva 2014, section
//! 2.1.1): voxels that a triangle touches are layer 0, the others counted from there, positive inside. Compressed row by row.
//!
//! The papers number the outer layers upwards in one place and call inside positive in another; here layers are signed as depths
//! are. Voxels are the cells about a field's nodes. Along a row the layer mostly stays as it is or goes up or down by one from voxel
//! to voxel: such stretches are kept as their last layer and their step.

use super::Field;
use crate::geometry::bvh::Bvh;
use crate::geometry::{Point, TriMesh, Vec3};
use rayon::prelude::*;

/// Voxels in a row whose layers go on by the same step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    /// Index along x behind the last voxel.
    end: u16,
    /// Layer of the last voxel, times 4, plus the step to it from the one before plus one (0, 1, 2).
    code: i16,
}

impl Run {
    /// Layers that a run can tell.
    const MOST: i16 = i16::MAX / 4;

    fn at(self, x: u32) -> i16 {
        let (layer, step) = (self.code >> 2, (self.code & 3) - 1);
        layer - step * (u32::from(self.end) - 1 - x) as i16
    }

    /// The longest run from the beginning of `layers`, which end at `end` of the row; and its length.
    fn first(layers: &[i16], start: u16) -> (Self, usize) {
        let step = match layers {
            [a, b, ..] if (b - a).abs() <= 1 => b - a,
            _ => 0,
        };
        let goes_on = |pair: &&[i16]| pair[1] - pair[0] == step;
        let len = 1 + layers.windows(2).take_while(goes_on).count();
        (Self { end: start + len as u16, code: layers[len - 1] * 4 + step + 1 }, len)
    }
}

/// A grid of signed layers, compressed along x, and for each surface voxel the exactly nearest point of the surface.
/// Immutable.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerMap {
    /// Centre of voxel (0, 0, 0) in the object's frame, m.
    pub origin: Point,
    /// Edge of a voxel, m.
    pub cell: f64,
    /// Voxels along x, y, z.
    pub dims: [u32; 3],
    /// First run of each row (y fastest), and the end of the last one's.
    rows: Box<[u32]>,
    runs: Box<[Run]>,
    /// Surface voxels in the order of their index (x fastest), and the point nearest to the centre of each.
    surface: Box<[u32]>,
    closest: Box<[[f32; 3]]>,
}

impl LayerMap {
    /// The layers of `mesh` in the voxels about the nodes of its `field`, which knows what is inside. Needs 12 bytes a voxel
    /// while it is built, on rayon's current pool. Not real-time safe.
    ///
    /// # Errors
    /// A sentence for a grid of more than 65,535 voxels along x, of 2^32 or more, or of more than 8,191 layers.
    ///
    /// # Panics
    /// When a triangle's index is out of range.
    pub fn new(mesh: &TriMesh, field: &Field) -> Result<Self, String> {
        let dims = field.dims.map(|d| d as usize);
        if dims[0] > usize::from(u16::MAX) || field.nodes() >= u64::from(u32::MAX) {
            return Err(format!(
                "a layered voxmap of {:?} voxels is too large; choose larger cells",
                field.dims
            ));
        }
        let mut layer = vec![i16::MAX; dims.iter().product()];
        for t in 0..mesh.triangles.len() {
            touch(&mesh.corners(t), field, &mut layer);
        }
        count(&mut layer, dims);
        let (nx, ny) = (dims[0], dims[1]);
        layer.par_chunks_mut(nx).enumerate().for_each(|(row, layers)| {
            for (i, l) in layers.iter_mut().enumerate() {
                let at = [i, row % ny, row / ny].map(|n| n as u32);
                if field.node(at) <= 0.0 {
                    *l = -*l;
                }
            }
        });
        let (mut rows, mut runs) = (vec![0], Vec::new());
        for row in layer.chunks(nx) {
            if row.iter().any(|l| l.abs() > Run::MOST) {
                return Err(format!("more than {} layers, or no surface in the grid", Run::MOST));
            }
            let mut start = 0;
            while start < row.len() {
                let (run, len) = Run::first(&row[start..], start as u16);
                runs.push(run);
                start += len;
            }
            rows.push(runs.len() as u32);
        }
        let bvh = Bvh::build(mesh);
        let surface: Box<[u32]> = (0..layer.len() as u32).filter(|&i| layer[i as usize] == 0).collect();
        let closest = surface
            .par_iter()
            .map(|&i| {
                let (i, nx, ny) = (i as usize, dims[0], dims[1]);
                let centre = centre(field, [i % nx, i / nx % ny, i / (nx * ny)]);
                bvh.closest(&centre).point.coords.map(|c| c as f32).into()
            })
            .collect();
        Ok(Self {
            origin: field.origin,
            cell: field.cell,
            dims: field.dims,
            rows: rows.into(),
            runs: runs.into(),
            surface,
            closest,
        })
    }

    /// Signed layer of a voxel: 0 on the surface, positive inside. `None` outside the grid. Real-time safe.
    pub fn layer(&self, at: [u32; 3]) -> Option<i16> {
        if (0..3).any(|a| at[a] >= self.dims[a]) {
            return None;
        }
        let row = at[1] as usize + self.dims[1] as usize * at[2] as usize;
        let runs = self.runs.get(*self.rows.get(row)? as usize..*self.rows.get(row + 1)? as usize)?;
        runs.get(runs.partition_point(|r| u32::from(r.end) <= at[0])).map(|r| r.at(at[0]))
    }

    /// The voxel that holds a place (object's frame, m); `None` outside the grid. Real-time safe.
    pub fn voxel(&self, p: &Point) -> Option<[u32; 3]> {
        let index = (p - self.origin).map(|x| (x / self.cell).round());
        let inside = (0..3).all(|a| index[a] >= 0.0 && index[a] < f64::from(self.dims[a]));
        inside.then(|| [0, 1, 2].map(|a| index[a] as u32))
    }

    /// Layer times the voxel's edge, m: within a voxel's diagonal and the angle between distance and count of layers. `None`
    /// outside the grid. Real-time safe.
    pub fn depth(&self, p: &Point) -> Option<f64> {
        Some(f64::from(self.layer(self.voxel(p)?)?) * self.cell)
    }

    /// The point of the surface nearest to the centre of a surface voxel, object's frame, m, to single precision; `None` for
    /// other voxels. Real-time safe.
    pub fn closest(&self, at: [u32; 3]) -> Option<Point> {
        if (0..3).any(|a| at[a] >= self.dims[a]) {
            return None;
        }
        let index = at[0] + self.dims[0] * (at[1] + self.dims[1] * at[2]);
        let found = self.surface.binary_search(&index).ok()?;
        Some(Point::from(Vec3::from(self.closest.get(found)?.map(f64::from))))
    }

    /// Bytes of the layers.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.rows) + size_of_val(&*self.runs)
    }

    /// Bytes of the nearest points of surface voxels.
    pub fn closest_bytes(&self) -> usize {
        size_of_val(&*self.surface) + size_of_val(&*self.closest)
    }

    /// Number of surface voxels.
    pub fn surface_voxels(&self) -> usize {
        self.surface.len()
    }
}

fn centre(field: &Field, at: [usize; 3]) -> Point {
    field.origin + Vec3::from(at.map(|i| i as f64)) * field.cell
}

/// Layer 0 for the voxels that a triangle touches.
fn touch(corners: &[Point; 3], field: &Field, layer: &mut [i16]) {
    let dims = field.dims.map(|d| d as usize);
    // Voxel i covers i - 1/2 to i + 1/2.
    let local = corners.map(|c| (c - field.origin) / field.cell);
    let (low, high) = (local[0].inf(&local[1]).inf(&local[2]), local[0].sup(&local[1]).sup(&local[2]));
    let first = [0, 1, 2].map(|a| (low[a] - 0.5).ceil().max(0.0) as usize);
    let end = [0, 1, 2].map(|a| ((high[a] + 0.5).floor() + 1.0).clamp(0.0, dims[a] as f64) as usize);
    for z in first[2]..end[2] {
        for y in first[1]..end[1] {
            for x in first[0]..end[0] {
                let middle = Vec3::new(x as f64, y as f64, z as f64);
                if overlap(&local.map(|c| c - middle)) {
                    layer[x + dims[0] * (y + dims[1] * z)] = 0;
                }
            }
        }
    }
}

/// A triangle meets the unit cube about the origin: no separating axis among the cube's normals, the triangle's, and the
/// products of their edges (Akenine-Moller 2001).
fn overlap(corners: &[Vec3; 3]) -> bool {
    let [a, b, c] = corners;
    let edges = [b - a, c - b, a - c];
    let apart = |axis: Vec3| {
        let along = corners.map(|p| p.dot(&axis));
        let reach = 0.5 * axis.abs().sum();
        let (low, high) = along.iter().fold((f64::MAX, f64::MIN), |(l, h), &x| (l.min(x), h.max(x)));
        low > reach || high < -reach
    };
    let units = [Vec3::x(), Vec3::y(), Vec3::z()];
    !(units.iter().any(|&u| apart(u))
        || apart(edges[0].cross(&edges[1]))
        || units.iter().any(|u| edges.iter().any(|e| apart(u.cross(e)))))
}

/// Counts layers from the voxels of layer 0 over all 26 neighbours: two passes (Rosenfeld and Pfaltz 1968), exact for this
/// count.
fn count(layer: &mut [i16], dims: [usize; 3]) {
    let [nx, ny, nz] = dims;
    let before: Vec<[isize; 3]> = (0..27)
        .map(|n| [n % 3 - 1, n / 3 % 3 - 1, n / 9 - 1])
        .filter(|&[x, y, z]| (z, y, x) < (0, 0, 0))
        .collect();
    for sign in [1, -1] {
        for n in 0..layer.len() {
            let index = if sign > 0 { n } else { layer.len() - 1 - n };
            let at = [index % nx, index / nx % ny, index / (nx * ny)];
            let mut least = layer[index];
            for offset in &before {
                let there = [0, 1, 2].map(|a| at[a] as isize + sign * offset[a]);
                let size = [nx, ny, nz].map(|n| n as isize);
                if (0..3).all(|a| there[a] >= 0 && there[a] < size[a]) {
                    let neighbour = there[0] + size[0] * (there[1] + size[1] * there[2]);
                    least = least.min(layer[neighbour as usize].saturating_add(1));
                }
            }
            layer[index] = least;
        }
    }
}
