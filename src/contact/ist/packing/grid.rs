//! The cells of a packing: how much room each still has and which sphere it belongs to.

use super::{InnerSphere, PackingError};
use crate::contact::ist::parts::Part;
use crate::geometry::bvh::Bvh;
use crate::geometry::field::Field;
use crate::geometry::{Point, Vec3};
use rayon::prelude::*;

const NOBODY: u32 = u32::MAX;
const OUTSIDE: u32 = u32::MAX;

/// The cubes of a grid that hold some of the solid, packed densely.
pub(super) struct Cells<'a> {
    dims: [usize; 3],
    cell: f32,
    origin: Point,
    /// What is solid in each cell.
    parts: &'a [Part],
    /// Index of each node among the cells, or `OUTSIDE`.
    index: Vec<u32>,
    /// Largest radius that still fits about the cell's centre, m; 0 once the cell is taken.
    pub(super) room: Vec<f32>,
    /// Smallest gap (distance to the sphere's surface, negative inside) seen so far, m.
    gap: Vec<f32>,
    /// The sphere with that gap.
    owner: Vec<u32>,
    /// Largest room of all, which bounds the scan.
    most: f32,
}

impl<'a> Cells<'a> {
    pub(super) fn new(field: &Field, parts: &'a [Part]) -> Result<Self, PackingError> {
        if field.nodes() >= u64::from(OUTSIDE) {
            return Err(PackingError::TooLarge(parts.len()));
        }
        let mut index = vec![OUTSIDE; field.nodes() as usize];
        let mut room = Vec::with_capacity(parts.len());
        for (i, part) in parts.iter().enumerate() {
            index[part.node as usize] = i as u32;
            // Two counts are more than the stored value's error: what is left is inside for certain.
            let sure = field.node(part.place(field)) - 2.0 * f64::from(field.scale) - field.coarse_error();
            room.push((sure as f32 * (1.0 - 4.0 * f32::EPSILON)).max(0.0));
        }
        let most = room.iter().copied().fold(0.0, f32::max);
        if most <= 0.0 {
            return Err(PackingError::NothingInside);
        }
        Ok(Self {
            dims: field.dims.map(|n| n as usize),
            cell: field.cell as f32,
            origin: field.origin,
            gap: vec![f32::INFINITY; parts.len()],
            owner: vec![NOBODY; parts.len()],
            parts,
            index,
            room,
            most,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.parts.len()
    }

    fn coords(&self, i: u32) -> [usize; 3] {
        let k = self.parts[i as usize].node as usize;
        [k % self.dims[0], k / self.dims[0] % self.dims[1], k / (self.dims[0] * self.dims[1])]
    }

    fn position(&self, i: u32) -> Point {
        let [x, y, z] = self.coords(i);
        self.origin + Vec3::new(x as f64, y as f64, z as f64) * f64::from(self.cell)
    }

    pub(super) fn centre(&self, i: u32) -> [f32; 3] {
        let p = self.position(i);
        [p.x as f32, p.y as f32, p.z as f32]
    }

    /// Places sphere `id` of radius `r` at cell `i`: takes the cells inside and lowers the room of the others.
    pub(super) fn place(&mut self, i: u32, id: u32, r: f32) {
        let c = self.coords(i);
        let reach = (r + self.most.min(r)) / self.cell;
        // Cells the sphere does not reach keep their room; the owner of far left-overs is found by flooding.
        let span = |a: usize, n: usize, w: f32| {
            let w = w.max(0.0).floor() as usize;
            (a.saturating_sub(w), (a + w).min(n - 1))
        };
        let (z0, z1) = span(c[2], self.dims[2], reach);
        for z in z0..=z1 {
            let dz = z as f32 - c[2] as f32;
            let left_y = (reach * reach - dz * dz).max(0.0);
            let (y0, y1) = span(c[1], self.dims[1], left_y.sqrt());
            for y in y0..=y1 {
                let dy = y as f32 - c[1] as f32;
                let (x0, x1) = span(c[0], self.dims[0], (left_y - dy * dy).max(0.0).sqrt());
                let row = self.dims[0] * (y + self.dims[1] * z);
                let dd = dy * dy + dz * dz;
                for x in x0..=x1 {
                    let j = self.index[row + x];
                    if j == OUTSIDE {
                        continue;
                    }
                    let j = j as usize;
                    let dx = x as f32 - c[0] as f32;
                    let gap = (dx * dx + dd).sqrt() * self.cell - r;
                    if gap < self.gap[j] {
                        self.gap[j] = gap;
                        self.owner[j] = id;
                        // A little less than the gap, so that rounding cannot make spheres overlap.
                        let room = if gap > 0.0 { (gap - 1e-5 * r.max(gap)).max(0.0) } else { 0.0 };
                        self.room[j] = self.room[j].min(room);
                    }
                }
            }
        }
        self.room[i as usize] = 0.0;
        self.owner[i as usize] = id;
        self.most = r;
    }

    /// Gives cells that no sphere reached to an owner of a neighbouring cell, nearest first.
    pub(super) fn adopt_orphans(&mut self) {
        let mut front: Vec<u32> =
            (0..self.len() as u32).filter(|&i| self.owner[i as usize] != NOBODY).collect();
        while !front.is_empty() {
            let mut next = Vec::new();
            for i in front {
                for j in self.neighbours(i).into_iter().flatten() {
                    if self.owner[j as usize] == NOBODY {
                        self.owner[j as usize] = self.owner[i as usize];
                        next.push(j);
                    }
                }
            }
            front = next;
        }
        // Islands that hold no sphere go to whoever owns the cell before them in storage.
        let mut last = 0;
        for owner in &mut self.owner {
            if *owner == NOBODY {
                *owner = last;
            }
            last = *owner;
        }
    }

    fn neighbours(&self, i: u32) -> [Option<u32>; 6] {
        let c = self.coords(i);
        let mut found = [None; 6];
        for (n, slot) in found.iter_mut().enumerate() {
            let (axis, up) = (n / 2, n % 2 == 1);
            let mut to = c;
            if up && c[axis] + 1 < self.dims[axis] {
                to[axis] += 1;
            } else if !up && c[axis] > 0 {
                to[axis] -= 1;
            } else {
                continue;
            }
            let j = self.index[to[0] + self.dims[0] * (to[1] + self.dims[1] * to[2])];
            *slot = (j != OUTSIDE).then_some(j);
        }
        found
    }

    /// One summary per sphere over the cells that it owns (as [`Cells::by_owner`] gives them).
    pub(super) fn summarise(
        &self,
        primaries: &[([f32; 3], f32)],
        (starts, order): (&[u32], &[u32]),
        field: &Field,
        bvh: &Bvh,
    ) -> Vec<InnerSphere> {
        primaries
            .par_iter()
            .enumerate()
            .map(|(s, &(centre, radius))| {
                let own = &order[starts[s] as usize..starts[s + 1] as usize];
                self.sphere(centre, radius, own, field, bvh)
            })
            .collect()
    }

    /// Cells sorted by owner: offsets per sphere, and the cells.
    pub(super) fn by_owner(&self, spheres: usize) -> (Vec<u32>, Vec<u32>) {
        let mut starts = vec![0u32; spheres + 1];
        let owned = |o: u32| o != NOBODY;
        for &o in self.owner.iter().filter(|o| owned(**o)) {
            starts[o as usize + 1] += 1;
        }
        for s in 0..spheres {
            starts[s + 1] += starts[s];
        }
        let mut at = starts.clone();
        let mut order = vec![0u32; starts[spheres] as usize];
        for (i, &o) in self.owner.iter().enumerate().filter(|(_, o)| owned(**o)) {
            order[at[o as usize] as usize] = i as u32;
            at[o as usize] += 1;
        }
        (starts, order)
    }

    fn sphere(&self, centre: [f32; 3], radius: f32, own: &[u32], field: &Field, bvh: &Bvh) -> InnerSphere {
        let c = Point::from(centre.map(f64::from));
        let cell = f64::from(self.cell);
        let part = |i: u32| {
            let part = &self.parts[i as usize];
            let place = self.position(i) + Vec3::from(part.offset.map(f64::from)) * cell;
            (f64::from(part.fraction) * cell.powi(3), place)
        };
        let volume: f64 = own.iter().map(|&i| part(i).0).sum();
        let moment: Vec3 = own.iter().map(|&i| part(i)).map(|(v, p)| (p - c) * v).sum();
        let centroid = if volume > 0.0 { c + moment / volume } else { c };
        let count = own.len().max(1) as f64;
        // Outward directions: minus the gradient of depth, weighted alike since the cells have equal volume.
        let outward = |i: u32| {
            let (_, g) = field.depth_gradient(&self.position(i));
            (-g).try_normalize(1e-12)
        };
        let sum: Vec3 = own.iter().filter_map(|&i| outward(i)).sum();
        let axis = sum.try_normalize(1e-3 * count);
        let cone = axis.map_or(std::f64::consts::PI, |a| {
            own.iter()
                .filter_map(|&i| outward(i))
                .map(|n| n.dot(&a).clamp(-1.0, 1.0).acos())
                .fold(0.0, f64::max)
        });
        let near = bvh.closest(&c);
        let axis = axis.unwrap_or_else(|| (near.point - c).try_normalize(1e-12).unwrap_or_else(Vec3::x));
        let secondary = (0.75 * volume / std::f64::consts::PI).cbrt();
        InnerSphere {
            centre,
            radius,
            centroid: [centroid.x as f32, centroid.y as f32, centroid.z as f32],
            secondary: secondary as f32,
            normal: [axis.x as f32, axis.y as f32, axis.z as f32],
            cone: cone as f32,
            triangle: near.triangle,
        }
    }
}
