//! What may touch, or pushes, among the points sorted by place: for answers that need each point, not only sums.

use super::LEAST_PUSH;
use super::ball::{AHEAD, Found, Place, SPOTS, reached};
use super::sweep::Spans;
use crate::contact::vps::PointShell;
use crate::contact::vps::sorted::{Block, Sorted};
use crate::contact::vps::tree::Tree;
use crate::geometry::field::Field;
use crate::geometry::field::block::{Cells, Spot};
use crate::geometry::simd::{LANES, Simd, SimdLevel, dispatch};
use crate::geometry::{Point, Pose, Vec3};
use std::ops::Range;

/// Calls `each` with the blocks of `range` that may touch, in their order, at most 256 at once. Real-time safe.
pub(super) fn near(
    simd: SimdLevel,
    place: &Place<'_>,
    tree: &Tree,
    range: &Range<usize>,
    mut each: impl FnMut(&[u32]),
) {
    let [blocks, groups, regions] = &tree.tiers;
    let parts = |of: usize| range.start / of..range.end.div_ceil(of);
    let (in_groups, in_regions) = (parts(LANES), parts(LANES * LANES));
    let mut spots = [Spot::EMPTY; SPOTS];
    let (mut far, mut open, mut found) = (Found::new(), Found::new(), Found::new());
    for first in in_regions.clone().step_by(LANES) {
        let n = (in_regions.end - first).min(LANES) as u32;
        far.clear();
        reached(simd, place, regions, &[(first as u32, n)], f32::INFINITY, &mut spots, &mut far);
        let spans = Spans::within(regions, far.items(), &in_groups);
        open.clear();
        reached(simd, place, groups, spans.get(), f32::INFINITY, &mut spots, &mut open);
        for some in open.items().chunks(LANES) {
            let spans = Spans::within(groups, some, range);
            found.clear();
            reached(simd, place, blocks, spans.get(), f32::INFINITY, &mut spots, &mut found);
            each(found.items());
        }
    }
}

/// Sixteen neighbours of which some push.
pub(in crate::contact::vps) struct Pushed<'a> {
    /// The points.
    pub(in crate::contact::vps) block: &'a Block,
    /// How deep each lies, m; 0 for those that do not push.
    pub(in crate::contact::vps) depth: &'a [f32; LANES],
}

/// Calls `each` with every block that has points inside the object which it pushes out: not those whose face lies across the
/// object's surface, or looks along with it. `relative` is the tool's pose in the object's frame. False for a broken field.
/// Real-time safe.
pub(in crate::contact::vps) fn pushed(
    simd: SimdLevel,
    shell: &PointShell,
    field: &Field,
    relative: &Pose,
    mut each: impl FnMut(&Pushed<'_>),
) -> bool {
    let Some(place) = Place::new(field, relative, shell.bound_radius, field.sample_error()) else {
        return false;
    };
    let from = &shell.sorted;
    near(simd, &place, &from.tree, &(0..from.blocks.len()), |found| {
        each_pushing(simd, &place, from, found, |block, depth| each(&Pushed { block, depth }));
    });
    true
}

/// Calls `each` with those of the blocks that have pushing points, and how deep these lie, m; 0 for the others.
pub(super) fn each_pushing(
    simd: SimdLevel,
    place: &Place<'_>,
    from: &Sorted,
    blocks: &[u32],
    mut each: impl FnMut(&Block, &[f32; LANES]),
) {
    for some in blocks.chunks(LANES) {
        let mut depth = [[0.0; LANES]; LANES];
        depths(simd, place, from, some, true, &mut depth);
        for (&id, depth) in some.iter().zip(&depth) {
            if let Some(block) = from.blocks.get(id as usize).filter(|_| depth.iter().any(|&d| d > 0.0)) {
                each(block, depth);
            }
        }
    }
}

/// Depths of the points of at most sixteen blocks, m; if only those that push are wanted, 0 for the others.
pub(super) fn depths(
    level: SimdLevel,
    place: &Place<'_>,
    from: &Sorted,
    blocks: &[u32],
    pushing: bool,
    out: &mut [[f32; LANES]; LANES],
) {
    dispatch!(level, look(place: &Place<'_>, from: &Sorted, blocks: &[u32], pushing: bool, out: &mut [[f32; LANES]; LANES]));
}

#[inline(always)]
fn look<S: Simd>(
    s: S,
    place: &Place<'_>,
    from: &Sorted,
    blocks: &[u32],
    pushing: bool,
    out: &mut [[f32; LANES]; LANES],
) {
    let zero = s.splat(0.0);
    let mut spots = [Spot::EMPTY; SPOTS];
    for step in 0..blocks.len() + AHEAD {
        if let Some(block) = blocks.get(step).and_then(|&b| from.blocks.get(b as usize)) {
            let [x, y, z] = &block.at;
            let u = place.coordinates(s, [s.load(x), s.load(y), s.load(z)]);
            place.grid.place(s, u, &mut spots[step % SPOTS]);
        }
        if step >= 1 && step <= blocks.len() {
            place.grid.find(&mut spots[(step - 1) % SPOTS]);
        }
        if step < AHEAD {
            continue;
        }
        let (Some(block), Some(out)) =
            (blocks.get(step - AHEAD).and_then(|&b| from.blocks.get(b as usize)), out.get_mut(step - AHEAD))
        else {
            break;
        };
        let cells = Cells::read(s, &place.grid, &spots[(step - AHEAD) % SPOTS]);
        let depth = cells.depth(s);
        s.store(depth, out);
        if !pushing {
            continue;
        }
        let g = place.gradient(s, cells.gradient(s));
        let [x, y, z] = &block.normal;
        let n = [s.load(x), s.load(y), s.load(z)];
        let along = s.add(s.add(s.mul(n[0], g[0]), s.mul(n[1], g[1])), s.mul(n[2], g[2]));
        s.store(s.select_le(along, s.splat(-LEAST_PUSH as f32), s.max(depth, zero), zero), out);
    }
}

/// Position of a point of a shell, tool frame, m. Real-time safe.
pub(in crate::contact::vps) fn place_of(shell: &PointShell, id: u32) -> Option<Point> {
    let of = |c: &[f32]| c.get(id as usize).copied().map(f64::from);
    (id < shell.len as u32).then_some(Point::new(of(&shell.x)?, of(&shell.y)?, of(&shell.z)?))
}

/// Normal of a point of a shell, inwards, tool frame. Real-time safe.
pub(super) fn normal_of(shell: &PointShell, id: u32) -> Option<Vec3> {
    let of = |c: &[f32]| c.get(id as usize).copied().map(f64::from);
    Some(Vec3::new(of(&shell.nx)?, of(&shell.ny)?, of(&shell.nz)?))
}
