//! A ball that moves straight: how far it comes before it touches a triangle, and what lies about a point.
//!
//! Boxes and triangles are told apart in `f32`, with room for its rounding; what may be touched is measured in `f64`. The searches
//! say what they do to a [`Spend`], which may end them. Real-time safe.

use super::Bvh;
use super::facet::Facet;
use super::kernel::{self, MARGIN, Node, Stack, box_distances, triangle_distances};
use crate::geometry::lanes::{LANES, Lanes, dot, load, minus, splat};
use crate::geometry::simd::{self, Simd, dispatch};
use crate::geometry::wide::LEAF;
use crate::geometry::{Point, Vec3};

/// Most steps of Newton's towards one triangle: each is short of it, so that where they end is free.
const STEPS: usize = 40;

/// How much of its skin a ball that rests may lose before it is stopped. The less it is, the less a neighbour's edge can be taken for
/// the face beside it; some thousand roundings are left of it.
const GRAZE: f64 = 1.0 / 1024.0;

/// What searches may spend: boxes or triangles by sixteen, and triangles by one, are a unit each.
pub(crate) trait Spend {
    /// Another unit. True when there is no more.
    fn spend(&mut self) -> bool;
}

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
    /// By how much boxes grow.
    grow: f32,
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

    fn new(bvh: &Bvh, from: &Point, way: &Vec3, ball: f64) -> Option<Self> {
        let way: [f64; 3] = (way / bvh.scale).into();
        let (from, ball) = (bvh.to_local(from), ball / bvh.scale);
        let length = Vec3::from(way).norm();
        let size = Vec3::from(from).norm() + length;
        if !(size + ball < Self::FAR) {
            return None;
        }
        let grow = ((ball + MARGIN * (1.0 + size)) * (1.0 + 1e-6)) as f32;
        let mut run = Self { from, way, grow, middle: [0.0; 3], reach2: 0.0, limit: 0.0, ball, length };
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

/// The part of the way at which the ball comes to each box, or infinity. Never later than to what is in it.
#[inline(always)]
fn entries<S: Simd>(simd: S, node: &Node, run: &Run) -> Lanes<S> {
    let (mut near, mut far) = (Lanes::splat(simd, 0.0), Lanes::splat(simd, run.limit));
    let from = splat(simd, run.from.map(|x| x as f32));
    let (q, d) = (minus(from, load(simd, &node.center)), splat(simd, run.way.map(|x| x as f32)));
    let (least, grow) = (Lanes::splat(simd, 1e-20), Lanes::splat(simd, run.grow));
    let never = Lanes::splat(simd, f32::INFINITY);
    for k in 0..3 {
        let axis = load(simd, &node.axes[k]);
        let (x, v, h) = (dot(q, axis), dot(d, axis), Lanes::load(simd, &node.half[k]) + grow);
        let v = v.abs().at_most(least, least, v);
        let (s, t) = ((-h - x) / v, (h - x) / v);
        near = near.max(s.min(t));
        far = far.min(s.max(t));
    }
    let entry = near.at_most(far, near, never);
    box_distances(simd, node, run.middle).at_most(Lanes::splat(simd, run.reach2), entry, never)
}

/// The part of the way at which the ball touches one triangle, before `end`. The distance of a convex body from what moves straight
/// is convex in the way, so that Newton's steps from outside never pass its root: each ends on the plane between the two.
fn touch(facet: &Facet, from: &Point, way: &Vec3, ball: &Ball, end: f64) -> Option<f64> {
    let (_, mut apart) = facet.nearest(from);
    let mut distance = apart.norm();
    let level = ball.level(distance);
    let (mut part, length) = (0.0, way.norm());
    for _ in 0..STEPS {
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
        if spend.spend() {
            // What was not looked at begins no sooner than its boxes do.
            let known = stack.least().min(entry);
            return match f64::from(known) < part {
                true => Swept { part: f64::from(known) * (1.0 - 1e-6), hit: None, cut: true },
                false => Swept { part, hit, cut: hit.is_none() },
            };
        }
        if at & LEAF == 0 {
            if let Some(node) = bvh.nodes.get(at as usize) {
                stack.push(entries(simd, node, &run), run.limit, node);
            }
            continue;
        }
        let leaf = at ^ LEAF;
        let Some(data) = bvh.leaves.get(leaf as usize) else { continue };
        let mut mask = triangle_distances(simd, data, run.middle).below(run.reach2) & data.used;
        while mask != 0 {
            let slot = leaf * LANES as u32 + mask.trailing_zeros();
            mask &= mask - 1;
            let Some(facet) = bvh.facet(slot) else { continue };
            if spend.spend() {
                // A leaf that was begun counts as one that was not.
                let known = f64::from(stack.least().min(entry)).min(part);
                return Swept { part: known * (1.0 - 1e-6), hit: None, cut: true };
            }
            if let Some(found) = touch(&facet, from, way, ball, part) {
                (part, hit) = (found, Some(slot));
                run.end(part);
            }
        }
        if part <= 0.0 {
            break;
        }
    }
    Swept { part, hit, cut: false }
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
    kernel::visit_near(simd, bvh, local, reach, || spend.spend(), visit)
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
