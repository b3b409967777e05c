//! Broad phase of a snapshot: bounding balls as arrays, and the generation in which each object last changed.

use super::snapshot::SnapshotObject;
use crate::contact::Material;
use crate::geometry::{Point, Pose};

/// Objects tested together; small enough for the stack.
const BLOCK: usize = 64;
/// Where the balls of moving objects lie in the static arrays: out of everything's reach, m.
const NOWHERE: f64 = 1e30;

/// Bounding balls of a snapshot's objects in the scene frame (structure of arrays), built with the snapshot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Broad {
    x: Box<[f64]>,
    y: Box<[f64]>,
    z: Box<[f64]>,
    r: Box<[f64]>,
    /// Indices of objects that move; their balls are placed each tick.
    moving: Box<[u16]>,
    /// Per object: the generation in which its pose, material or geometry last changed.
    changed: Box<[u64]>,
}

impl Broad {
    /// The broad phase of `objects`; everything counts as changed in `generation`.
    pub(super) fn new(objects: &[SnapshotObject], generation: u64) -> Self {
        let centre = |o: &SnapshotObject| match o.motion {
            Some(_) => Point::new(NOWHERE, NOWHERE, NOWHERE),
            None => o.pose * o.bound_centre,
        };
        let moving = objects.iter().enumerate().filter(|(_, o)| o.motion.is_some());
        Self {
            x: objects.iter().map(|o| centre(o).x).collect(),
            y: objects.iter().map(|o| centre(o).y).collect(),
            z: objects.iter().map(|o| centre(o).z).collect(),
            r: objects.iter().map(|o| o.bound_radius).collect(),
            moving: moving.map(|(i, _)| u16::try_from(i).unwrap_or(u16::MAX)).collect(),
            changed: vec![generation; objects.len()].into(),
        }
    }

    /// Indices of the moving objects. Real-time safe.
    #[inline]
    pub fn moving(&self) -> &[u16] {
        &self.moving
    }

    /// The generation in which object `i` last changed. Real-time safe.
    #[inline]
    pub fn changed(&self, i: usize) -> u64 {
        self.changed.get(i).copied().unwrap_or(u64::MAX)
    }

    /// Writes the indices of static objects whose ball lies within `reach` (m) of `centre` (scene) to `out`,
    /// ascending, as many as fit. Returns their number and the smallest gap (m) between `centre` and the balls that
    /// were not written. Real-time safe: O(objects), without a branch for each in blocks out of reach.
    pub fn near(&self, centre: &Point, reach: f64, out: &mut [u16]) -> (usize, f64) {
        let (mut found, mut least) = (0, f64::INFINITY);
        let chunks = self.x.chunks(BLOCK).zip(self.y.chunks(BLOCK));
        let chunks = chunks.zip(self.z.chunks(BLOCK).zip(self.r.chunks(BLOCK)));
        for (block, ((x, y), (z, r))) in chunks.enumerate() {
            let mut gap = [f64::INFINITY; BLOCK];
            for ((g, (x, y)), (z, r)) in gap.iter_mut().zip(x.iter().zip(y)).zip(z.iter().zip(r)) {
                let (dx, dy, dz) = (x - centre.x, y - centre.y, z - centre.z);
                *g = (dx * dx + dy * dy + dz * dz).sqrt() - r;
            }
            let smallest = gap.iter().fold(f64::INFINITY, |a, &b| if b < a { b } else { a });
            if smallest > reach {
                least = least.min(smallest);
                continue;
            }
            for (i, &g) in gap.iter().enumerate() {
                match out.get_mut(found) {
                    Some(place) if g <= reach => {
                        *place = (block * BLOCK + i) as u16;
                        found += 1;
                    }
                    _ => least = least.min(g),
                }
            }
        }
        (found, least)
    }
}

/// Everything about an object that the tool can feel, without its geometry (the incarnation stands for that).
#[derive(Clone, Copy, Debug, PartialEq)]
struct Feel {
    slot: u16,
    id: u32,
    incarnation: u32,
    motion: Option<u8>,
    pose: Pose,
    material: Material,
}

/// What the control side remembers of the last published scene, to tell which objects the next one changes.
#[derive(Debug, Default)]
pub(crate) struct Published {
    objects: Vec<(Feel, u64)>,
}

impl Published {
    /// Writes into `broad` when each object last changed and remembers the scene. O(objects); both lists ascend by
    /// slot.
    pub(crate) fn mark(&mut self, objects: &[SnapshotObject], broad: &mut Broad, generation: u64) {
        let mut old = self.objects.iter().peekable();
        let mut new = Vec::with_capacity(objects.len());
        for (o, changed) in objects.iter().zip(broad.changed.iter_mut()) {
            let feel = Feel {
                slot: o.slot,
                id: o.id,
                incarnation: o.incarnation,
                motion: o.motion,
                pose: o.pose,
                material: o.material,
            };
            while old.peek().is_some_and(|(f, _)| f.slot < feel.slot) {
                old.next();
            }
            *changed = match old.peek() {
                Some((f, since)) if *f == feel => *since,
                _ => generation,
            };
            new.push((feel, *changed));
        }
        self.objects = new;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contact::{Friction, ObjectShape, Texture};
    use crate::geometry::Vec3;
    use crate::geometry::field::Field;
    use std::sync::Arc;

    fn object(slot: u16, at: Vec3, radius: f64, motion: Option<u8>) -> SnapshotObject {
        let field = Field::from_fn(Point::origin(), 1.0, [2; 3], |_| 0.0);
        SnapshotObject {
            id: u32::from(slot) + 1,
            incarnation: 1,
            slot,
            motion,
            pose: Pose::translation(at.x, at.y, at.z),
            shape: ObjectShape::Field(Arc::new(field)),
            material: Material {
                stiffness: 500.0,
                reference_area: 1e-4,
                damping: 0.0,
                friction: Friction::NONE,
                texture: Texture::NONE,
            },
            bound_centre: Point::new(0.0, 0.0, 0.5),
            bound_radius: radius,
        }
    }

    #[test]
    fn finds_exactly_the_balls_within_reach() {
        // Along x at spacing 1 with radius 0.25: the gap from the origin to ball i is exact.
        let objects: Vec<_> =
            (0..200).map(|i| object(i, Vec3::new(f64::from(i), 0.0, -0.5), 0.25, None)).collect();
        let broad = Broad::new(&objects, 1);
        let mut out = [0; 300];
        let (n, least) = broad.near(&Point::origin(), 70.0, &mut out);
        assert_eq!((n, least), (71, 70.75));
        assert!(out[..n].iter().copied().eq(0..71));
        let mut few = [0; 3];
        assert_eq!(
            broad.near(&Point::origin(), 70.0, &mut few),
            (3, 2.75),
            "what does not fit counts as a gap"
        );
        assert_eq!(broad.near(&Point::new(-5.0, 0.0, 0.0), 1.0, &mut out), (0, 4.75));
    }

    #[test]
    fn moving_objects_are_listed_and_never_found() {
        let objects = [object(0, Vec3::zeros(), 1.0, None), object(1, Vec3::zeros(), 1.0, Some(0))];
        let broad = Broad::new(&objects, 1);
        assert_eq!(broad.moving(), &[1]);
        let mut out = [9; 4];
        assert_eq!(broad.near(&Point::origin(), 5.0, &mut out).0, 1);
        assert_eq!(out[0], 0);
    }

    #[test]
    fn a_change_is_dated_and_survives_superseded_generations() {
        let mut published = Published::default();
        let mut objects = vec![object(0, Vec3::zeros(), 1.0, None), object(2, Vec3::zeros(), 1.0, None)];
        let dates = |published: &mut Published, objects: &[SnapshotObject], generation| {
            let mut broad = Broad::new(objects, generation);
            published.mark(objects, &mut broad, generation);
            (0..objects.len()).map(|i| broad.changed(i)).collect::<Vec<_>>()
        };
        assert_eq!(dates(&mut published, &objects, 1), [1, 1]);
        objects[1].material.stiffness = 900.0;
        assert_eq!(dates(&mut published, &objects, 2), [1, 2]);
        objects.insert(1, object(1, Vec3::zeros(), 1.0, None));
        assert_eq!(dates(&mut published, &objects, 3), [1, 3, 2]);
        objects.remove(0);
        assert_eq!(dates(&mut published, &objects, 4), [3, 2]);
    }
}
