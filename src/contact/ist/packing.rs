//! Greedy packing of disjoint inner spheres into a solid (Weller & Zachmann 2009, section 3).
//!
//! The solid is given as its signed distance field and the solid part of the cube around each of its nodes: these
//! cubes are the cells, and each whose centre is inside starts with its depth as the largest radius that fits. The cell with the largest radius becomes a sphere, the cells inside it
//! are its own, and for the others the gap to the new sphere bounds the radius from now on. A scan of twice the
//! radius finds every cell that can change, because no remaining radius exceeds the one just placed.
//!
//! Each cell ends up with exactly one sphere, so the secondary volumes sum to the solid's volume.

mod grid;

use super::parts::Part;
use crate::geometry::Point;
use crate::geometry::bvh::Bvh;
use crate::geometry::field::Field;
use crate::geometry::field::build::Progress;
use grid::Cells;
use std::collections::BinaryHeap;

/// When the packing ends; every cell that is left over goes to the sphere with the smallest gap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stop {
    /// After so many spheres.
    Spheres(usize),
    /// At the first radius below this, m.
    Radius(f64),
    /// Once the primary spheres fill this fraction of the solid's volume; where the cells run out before, with less.
    Fill(f64),
}

impl Stop {
    /// False for a radius that is not above 0, and a fill out of (0, 1].
    pub fn makes_sense(&self) -> bool {
        match *self {
            Self::Spheres(_) => true,
            Self::Radius(r) => r > 0.0 && r.is_finite(),
            Self::Fill(f) => f > 0.0 && f <= 1.0,
        }
    }

    /// The fill asked for, where a packing with `fill` falls short of it.
    pub fn missed(&self, fill: f64) -> Option<f64> {
        match *self {
            Self::Fill(f) if fill < f => Some(f),
            _ => None,
        }
    }
}

/// One inner sphere, in the object's frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InnerSphere {
    /// Centre of the primary sphere, m.
    pub centre: [f32; 3],
    /// Primary radius, m: inside the solid and disjoint from all others.
    pub radius: f32,
    /// Centroid of the cells that the sphere stands for, m: the secondary sphere's centre.
    pub centroid: [f32; 3],
    /// Radius of a ball about `centroid` with the volume of those cells, m.
    pub secondary: f32,
    /// Axis of the cone of outward directions from the cells to their closest surface points, unit.
    pub normal: [f32; 3],
    /// Half-angle of that cone, rad; pi means all directions.
    pub cone: f32,
    /// Triangle closest to the primary centre.
    pub triangle: u32,
}

/// A finished packing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Packing {
    /// The spheres, largest primary radius first.
    pub spheres: Vec<InnerSphere>,
    /// Where the cells of each sphere start in `order`, and a last entry for the end.
    pub(crate) starts: Vec<u32>,
    /// Cells (indices of parts) by sphere.
    pub(crate) order: Vec<u32>,
    /// Volume of the solid, m^3; the secondary volumes sum to it.
    pub volume: f64,
    /// Fraction of it that the primary spheres fill.
    pub fill: f64,
    /// Edge of a cell, m.
    pub cell: f64,
    /// Cells that hold some of the solid.
    pub cells: usize,
}

/// Why there is no packing.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PackingError {
    /// No node of the field is inside.
    #[error("no node of the field lies inside the solid; choose smaller cells")]
    NothingInside,
    /// The caller cancelled.
    #[error("the build was cancelled")]
    Cancelled,
    /// Not one sphere is as large as asked for.
    #[error("no sphere with a radius of {asked} m fits into the solid: the largest has {largest} m")]
    NoneFits {
        /// Smallest radius asked for, m.
        asked: f64,
        /// Largest that fits, m.
        largest: f64,
    },
    /// More inside cells than indices.
    #[error("the field has too many inside nodes to pack ({0}); choose larger cells")]
    TooLarge(usize),
}

/// A solid filled with spheres, each cell with an owner or none.
pub(crate) struct Filled<'a> {
    cells: Cells<'a>,
    primaries: Vec<([f32; 3], f32)>,
    /// What of it is spheres, m^3.
    filled: f64,
    /// Of the solid, m^3.
    volume: f64,
}

/// Fills the solid whose signed distance field is `field`, whose `parts` are those of the field's grid.
/// Deterministic. Not real-time safe.
///
/// # Errors
/// [`PackingError`].
pub(crate) fn fill<'a>(
    field: &Field,
    parts: &'a [Part],
    stop: Stop,
    progress: &dyn Progress,
) -> Result<Filled<'a>, PackingError> {
    let mut cells = Cells::new(field, parts)?;
    let volume = parts.iter().map(|p| f64::from(p.fraction)).sum::<f64>() * field.cell.powi(3);
    let inside = (0..cells.len() as u32).filter(|&i| cells.room[i as usize] > 0.0);
    let mut heap: BinaryHeap<u64> = inside.map(|i| key(cells.room[i as usize], i)).collect();
    let mut primaries: Vec<([f32; 3], f32)> = Vec::new();
    let mut filled = 0.0;
    while let Some(top) = heap.pop() {
        let (at_push, i) = unkey(top);
        let room = cells.room[i as usize];
        if room < at_push {
            // Stale: the cell was taken or has less room by now.
            if room > 0.0 {
                heap.push(key(room, i));
            }
            continue;
        }
        let done = match stop {
            Stop::Spheres(n) => primaries.len() >= n,
            Stop::Radius(r) => f64::from(room) < r,
            Stop::Fill(f) => filled >= f * volume,
        };
        if done {
            if let Stop::Radius(asked) = stop
                && primaries.is_empty()
            {
                return Err(PackingError::NoneFits { asked, largest: f64::from(room) });
            }
            break;
        }
        let id = primaries.len() as u32;
        cells.place(i, id, room);
        filled += 4.0 / 3.0 * std::f64::consts::PI * f64::from(room).powi(3);
        primaries.push((cells.centre(i), room));
        if id.is_multiple_of(1024) {
            if progress.cancelled() {
                return Err(PackingError::Cancelled);
            }
            let (done, total) = match stop {
                Stop::Spheres(n) => (primaries.len() as u64, n as u64),
                _ => ((1e3 * filled / volume) as u64, 1000),
            };
            progress.step(done.min(total), total);
        }
    }
    Ok(Filled { cells, primaries, filled, volume })
}

impl Filled<'_> {
    /// Number of spheres.
    pub(crate) fn spheres(&self) -> usize {
        self.primaries.len()
    }

    /// Without the spheres themselves.
    pub(crate) fn outline(&self, field: &Field) -> Packing {
        Packing {
            volume: self.volume,
            fill: self.filled / self.volume,
            cell: field.cell,
            cells: self.cells.len(),
            ..Packing::default()
        }
    }

    /// Every cell given to a sphere, and each sphere described; the solid's triangles are in `bvh`.
    pub(crate) fn packing(mut self, field: &Field, bvh: &Bvh) -> Packing {
        self.cells.adopt_orphans();
        let (starts, order) = self.cells.by_owner(self.primaries.len());
        let spheres = self.cells.summarise(&self.primaries, (&starts, &order), field, bvh);
        Packing { spheres, starts, order, ..self.outline(field) }
    }
}

/// Heap key: larger room first, then the lower index. Positive floats order as their bits.
fn key(room: f32, i: u32) -> u64 {
    (u64::from(room.to_bits()) << 32) | u64::from(!i)
}

fn unkey(key: u64) -> (f32, u32) {
    (f32::from_bits((key >> 32) as u32), !(key as u32))
}

impl InnerSphere {
    /// Centre of the primary sphere, m.
    pub fn point(&self) -> Point {
        Point::from(self.centre.map(f64::from))
    }
}

#[cfg(test)]
mod tests;
