//! A ball that moves straight: how far it comes before it touches a triangle, and what lies about a point.
//!
//! Boxes and triangles are told apart in `f32`, with room for its rounding; what may be touched is measured in `f64`. The searches
//! say what they do to a [`Spend`], which may end them. Real-time safe.

use super::Bvh;
use super::facet::Facet;
use super::kernel::{self, Leaf, MARGIN, Node, Stack, box_distances, smallest};
use crate::geometry::lanes::{LANES, Lanes, dot, load, minus, splat};
use crate::geometry::simd::{self, Simd, dispatch};
use crate::geometry::wide::LEAF;
use crate::geometry::{Point, Vec3};

/// Most steps of Newton's towards one triangle: each is short of it, so that where they end is free.
const STEPS: usize = 40;

/// How much of its skin a ball that rests may lose before it is stopped. The less it is, the less a neighbour's edge can be taken for
/// the face beside it; some thousand roundings are left of it.
const GRAZE: f64 = 1.0 / 1024.0;

/// Newton's steps towards each of sixteen boxes or triangles in `f32`.
const BOX_STEPS: usize = 6;
const TRIANGLE_STEPS: usize = 5;

/// What searches may spend, in quarters of a unit: sixteen boxes or triangles are [`SIXTEEN`], a triangle that is measured once in `f64`
/// is one quarter.
pub(crate) trait Spend {
    /// So many quarters more. True when there is no more.
    fn spend(&mut self, quarters: u32) -> bool;
}

/// Quarters of a unit that sixteen boxes or triangles cost.
pub(crate) const SIXTEEN: u32 = 4;

/// A ball and its skin, m. It rests at `radius + skin` from a surface and is stopped [`GRAZE`] of a skin further in, so that what
/// rests can slide. What is nearer already, since two surfaces leave it no more room, is stopped as much further
/// on, never nearer than an eighth of the skin outside of `radius`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ball {
    pub(crate) radius: f64,
    pub(crate) skin: f64,
}

impl Ball {
    /// How near to a triangle it may come that is now so far, m.
    fn level(&self, distance: f64) -> f64 {
        let graze = GRAZE * self.skin;
        (distance - graze).clamp(self.radius + 0.125 * self.skin, self.radius + self.skin - graze)
    }
}

/// How far a ball came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Swept {
    /// The part of its way up to which nothing is touched, 0..=1.
    pub(crate) part: f64,
    /// Slot of the triangle that stops it there.
    pub(crate) hit: Option<u32>,
    /// The spender had no more: `part` is free, what is beyond is not known.
    pub(crate) cut: bool,
}

/// The way of a ball up to where it is known to be stopped, in local units.
struct Run {
    from: [f64; 3],
    way: [f64; 3],
    /// Nearer than that to a box or a triangle in `f32`, the ball may touch it.
    grow: f32,
    /// What rounding may take off the speed towards a body, times the distance from it.
    slack: f32,
    /// The same of a triangle, a square root of the distance. See [`Run::new`].
    rough: f32,
    middle: [f32; 3],
    /// Square of how far about the middle the ball comes.
    reach2: f32,
    /// No entry from here on counts.
    limit: f32,
    ball: f64,
    length: f64,
}

impl Run {
    /// A unit more than the mesh is large, and its `f32` has no digits left.
    const FAR: f64 = 1e15;

    /// A place of a convex body that is no more than m farther from p than the nearest one, d, is within sqrt(2 d m + m^2) of that: by so
    /// much an edge that `f32` takes for the nearest may turn the way from a triangle. A box has one nearest place, which moves no
    /// farther than p does.
    fn new(bvh: &Bvh, from: &Point, way: &Vec3, ball: f64) -> Option<Self> {
        let way: [f64; 3] = (way / bvh.scale).into();
        let (from, ball) = (bvh.to_local(from), ball / bvh.scale);
        let length = Vec3::from(way).norm();
        let size = Vec3::from(from).norm() + length;
        if !(size + ball < Self::FAR) {
            return None;
        }
        let margin = MARGIN * (1.0 + size);
        let grow = ((ball + margin) * (1.0 + 1e-6)) as f32;
        let slack = (2.0 * margin * length) as f32;
        let rough = (2.0 * margin.sqrt() * length) as f32;
        let (middle, reach2, limit) = ([0.0; 3], 0.0, 0.0);
        let mut run = Self { from, way, grow, slack, rough, middle, reach2, limit, ball, length };
        run.end(1.0);
        Some(run)
    }

    /// Beyond this part nothing counts.
    fn end(&mut self, part: f64) {
        let middle = [0, 1, 2].map(|k| self.from[k] + 0.5 * part * self.way[k]);
        let reach = self.ball + 0.5 * part * self.length + MARGIN * (1.0 + Vec3::from(middle).norm());
        self.reach2 = (reach * reach * (1.0 + 3e-6)) as f32;
        self.middle = middle.map(|x| x as f32);
        self.limit = (part * (1.0 + 1e-6)) as f32 + f32::MIN_POSITIVE;
    }
}

/// A step of Newton's towards sixteen convex bodies that are not touched before `part`: `square` of their distances there, and `along`,
/// the way from them times the ball's way. What `f32` rounds lies in [`Run::grow`], [`Run::slack`] and `rough`, so that no step goes too far.
/// Where the ball goes away from a body it never touches it: then the answer is infinity, or `near` where it is at it already.
#[inline(always)]
fn advance<S: Simd>(
    simd: S,
    run: &Run,
    part: Lanes<S>,
    square: Lanes<S>,
    along: Lanes<S>,
    rough: f32,
    near: Lanes<S>,
) -> Lanes<S> {
    let zero = Lanes::splat(simd, 0.0);
    let distance = square.sqrt();
    let gap = (distance - Lanes::splat(simd, run.grow)).max(zero);
    let closing = Lanes::splat(simd, run.slack) + distance.sqrt() * Lanes::splat(simd, rough) - along;
    let next = part + gap * distance / closing * Lanes::splat(simd, 1.0 - 1e-6);
    let away = gap.at_most(zero, near, Lanes::splat(simd, f32::INFINITY));
    closing.at_most(zero, away, next)
}

/// The part of the way at which the ball comes to each box, or infinity. Never later than to what is in it.
#[inline(always)]
fn box_entries<S: Simd>(simd: S, node: &Node, run: &Run) -> Lanes<S> {
    let (zero, never) = (Lanes::splat(simd, 0.0), Lanes::splat(simd, f32::INFINITY));
    let about = box_distances(simd, node, run.middle).at_most(Lanes::splat(simd, run.reach2), zero, never);
    let near = about.below(1.0) & node.used;
    if near == 0 {
        return never;
    }
    let from = splat(simd, run.from.map(|x| x as f32));
    let (q, d) = (minus(from, load(simd, &node.center)), splat(simd, run.way.map(|x| x as f32)));
    let axes = [load(simd, &node.axes[0]), load(simd, &node.axes[1]), load(simd, &node.axes[2])];
    let x = [dot(q, axes[0]), dot(q, axes[1]), dot(q, axes[2])];
    let v = [dot(d, axes[0]), dot(d, axes[1]), dot(d, axes[2])];
    let h = load(simd, &node.half);
    let mut part = zero;
    for _ in 0..BOX_STEPS {
        let (mut square, mut along) = (zero, zero);
        for k in 0..3 {
            let at = x[k] + part * v[k];
            let apart = at - at.min(h[k]).max(-h[k]);
            square = square + apart * apart;
            along = along + apart * v[k];
        }
        // What was never reached stays so: its place is none. Away from a box that it is at it may still come to what is in it.
        let next = advance(simd, run, part, square, along, 0.0, part);
        part = part.at_most(Lanes::splat(simd, run.limit), next, never);
        if part.below(run.limit) & near == 0 {
            return never;
        }
    }
    part + about
}

/// The part of the way at which the ball comes to each triangle, or infinity; never later than it does.
#[inline(always)]
fn triangle_entries<S: Simd>(simd: S, leaf: &Leaf, run: &Run) -> Lanes<S> {
    let (zero, one) = (Lanes::splat(simd, 0.0), Lanes::splat(simd, 1.0));
    let never = Lanes::splat(simd, f32::INFINITY);
    let from = splat(simd, run.from.map(|x| x as f32));
    let (q, d) = (minus(from, load(simd, &leaf.a)), splat(simd, run.way.map(|x| x as f32)));
    let (u, v, n) = (load(simd, &leaf.u), load(simd, &leaf.v), load(simd, &leaf.n));
    let (x, y, z) = (dot(q, u), dot(q, v), dot(q, n));
    let (dx, dy, dz) = (dot(d, u), dot(d, v), dot(d, n));
    let l = Lanes::load(simd, &leaf.length);
    let (cx, cy) = (Lanes::load(simd, &leaf.cx), Lanes::load(simd, &leaf.cy));
    let (ac, bc) = (Lanes::load(simd, &leaf.inv_ac), Lanes::load(simd, &leaf.inv_bc));
    let fx = cx - l;
    let mut part = zero;
    for _ in 0..TRIANGLE_STEPS {
        let (x, y, z) = (x + part * dx, y + part * dy, z + part * dz);
        // The same regions as in `triangle_distances`, with the way from the nearest edge.
        let (mut ex, mut ey) = (x - x.min(l).max(zero), y);
        let mut least = ex * ex + ey * ey;
        let s = ((x * cx + y * cy) * ac).min(one).max(zero);
        let (gx, gy) = (x - s * cx, y - s * cy);
        let other = gx * gx + gy * gy;
        (ex, ey) = (other.at_most(least, gx, ex), other.at_most(least, gy, ey));
        least = other.min(least);
        let bx = x - l;
        let s = ((bx * fx + y * cy) * bc).min(one).max(zero);
        let (gx, gy) = (bx - s * fx, y - s * cy);
        let other = gx * gx + gy * gy;
        (ex, ey) = (other.at_most(least, gx, ex), other.at_most(least, gy, ey));
        let inner = y.min((cy * x - cx * y).min(fx * y - cy * bx));
        (ex, ey) = (inner.at_most(zero, ex, zero), inner.at_most(zero, ey, zero));
        let square = ex * ex + ey * ey + z * z;
        let next = advance(simd, run, part, square, ex * dx + ey * dy + z * dz, run.rough, never);
        part = part.at_most(Lanes::splat(simd, run.limit), next, never);
        if part.below(run.limit) & leaf.used == 0 {
            return never;
        }
    }
    part
}

/// The part of the way at which the ball touches one triangle, before `end`. The distance of a convex body from what moves straight
/// is convex in the way, so that Newton's steps from outside never pass its root: each ends on the plane between the two. Counts how
/// often it measured.
fn touch(facet: &Facet, from: &Point, way: &Vec3, ball: &Ball, end: f64, measured: &mut u32) -> Option<f64> {
    let (_, mut apart) = facet.nearest(from);
    let mut distance = apart.norm();
    let level = ball.level(distance);
    let (mut part, length) = (0.0, way.norm());
    for _ in 0..STEPS {
        *measured += 1;
        let closing = -apart.dot(way) / distance;
        if closing <= 0.0 {
            return None;
        }
        let step = (distance - level) / closing;
        // NaN where it is on the triangle: stopped.
        if !(step * length > 0.25 * GRAZE * ball.skin) {
            break;
        }
        part += step;
        if part >= end {
            return None;
        }
        (_, apart) = facet.nearest(&(from + way * part));
        distance = apart.norm();
    }
    Some(part)
}

#[inline(always)]
fn sweep_body(
    simd: impl Simd,
    bvh: &Bvh,
    from: &Point,
    way: &Vec3,
    ball: &Ball,
    spend: &mut dyn Spend,
) -> Swept {
    const STAY: Swept = Swept { part: 0.0, hit: None, cut: true };
    let Some(mut run) = Run::new(bvh, from, way, ball.radius + ball.skin) else { return STAY };
    let (mut part, mut hit) = (1.0, None);
    let mut stack = Stack::new();
    while let Some((entry, at)) = stack.pop() {
        if entry >= run.limit {
            continue;
        }
        if spend.spend(SIXTEEN) {
            // What was not looked at begins no sooner than its boxes do.
            return cut(stack.least().min(entry), part, hit);
        }
        if at & LEAF == 0 {
            if let Some(node) = bvh.nodes.get(at as usize) {
                stack.push(box_entries(simd, node, &run), run.limit, node);
            }
            continue;
        }
        let leaf = at ^ LEAF;
        let Some(data) = bvh.leaves.get(leaf as usize) else { continue };
        let entries = triangle_entries(simd, data, &run);
        let mut mask = entries.below(run.limit) & data.used;
        let entries = entries.store();
        // The first one first: it ends the way before most of the others.
        while mask != 0 {
            let lane = smallest(mask, &entries);
            mask &= !(1 << lane);
            if entries[lane] >= run.limit {
                break;
            }
            let slot = leaf * LANES as u32 + lane as u32;
            let Some(facet) = bvh.facet(slot) else { continue };
            let mut measured = 0;
            if let Some(found) = touch(&facet, from, way, ball, part, &mut measured) {
                (part, hit) = (found, Some(slot));
                run.end(part);
            }
            if spend.spend(measured) {
                let next = if mask == 0 { f32::INFINITY } else { entries[smallest(mask, &entries)] };
                return cut(stack.least().min(next), part, hit);
            }
        }
        if part <= 0.0 {
            break;
        }
    }
    Swept { part, hit, cut: false }
}

/// What is known where the search ends before its time: nothing else is touched before `known`.
fn cut(known: f32, part: f64, hit: Option<u32>) -> Swept {
    match f64::from(known) < part {
        true => Swept { part: f64::from(known) * (1.0 - 1e-6), hit: None, cut: true },
        false => Swept { part, hit, cut: false },
    }
}

#[inline(always)]
fn about_body(
    simd: impl Simd,
    bvh: &Bvh,
    p: &Point,
    reach: f64,
    spend: &mut dyn Spend,
    visit: &mut dyn FnMut(u32) -> f64,
) -> bool {
    let local = bvh.to_local(p);
    if !(Vec3::from(local).norm() < Run::FAR) {
        return false;
    }
    kernel::visit_near(simd, bvh, local, reach, |quarters| spend.spend(quarters), visit)
}

impl Bvh {
    /// How far a ball that stands at `from` and is not stopped there comes on its way. Real-time safe.
    pub(crate) fn sweep(&self, from: &Point, way: &Vec3, ball: &Ball, spend: &mut dyn Spend) -> Swept {
        let bvh = self;
        dispatch!(
            simd::level(),
            sweep_body(bvh: &Bvh, from: &Point, way: &Vec3, ball: &Ball, spend: &mut dyn Spend) -> Swept
        )
    }

    /// Shows `visit` every slot whose triangle may be within `reach` (m) of `p`, about the nearest first; it says how far to look from
    /// then on. False when the spender had no more. Real-time safe.
    pub(crate) fn about(
        &self,
        p: &Point,
        reach: f64,
        spend: &mut dyn Spend,
        visit: &mut dyn FnMut(u32) -> f64,
    ) -> bool {
        let bvh = self;
        dispatch!(
            simd::level(),
            about_body(
                bvh: &Bvh, p: &Point, reach: f64, spend: &mut dyn Spend, visit: &mut dyn FnMut(u32) -> f64
            ) -> bool
        )
    }

    /// The triangle of a slot; `None` where there is none. Real-time safe.
    #[inline]
    pub(crate) fn facet(&self, slot: u32) -> Option<Facet> {
        self.slot_corners(slot).map(Facet::new)
    }

    /// Corners of a slot's triangle, m. Real-time safe.
    #[inline]
    pub(crate) fn slot_corners(&self, slot: u32) -> Option<&[Point; 3]> {
        let used = self.triangles.get(slot as usize).is_some_and(|t| *t != u32::MAX);
        self.corners.get(slot as usize).filter(|_| used)
    }

    /// A length that no rounding in this mesh comes near to, and no hand feels, m: a ten-millionth of half its size, and a
    /// ten-thousand-millionth of how far it lies from the origin.
    pub(crate) fn skin(&self) -> f64 {
        1e-7 * self.scale + 1e-10 * self.center.coords.amax()
    }
}
