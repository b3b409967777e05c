//! Boxes that the object's surface may cross, sixteen together: leaves that are solid throughout, and nodes that stay
//! closed.
//!
//! A solid box is cut by the plane through the depths at four places within it, those of a tetrahedron of the box's own
//! second moments: their mean is the mean depth of the box, for all depths of second degree. The part of a box beyond a
//! plane has a closed form.
//!
//! How far the surface may lie from that plane is read from the four gradients: for depths of second degree they differ from their mean
//! by H w, H the second derivatives and w the way to each place, and the mean of |H w|^2 is tr(H^2) times that of w^2 along
//! one axis, however the tetrahedron lies. Times the size of the box that is a length. Where it is no longer small
//! against a cell (edges of the object, tight curves, coarse cells) the box's eighths take the plane's place, blended in
//! so that forces stay continuous, and their eighths in turn.
//!
//! For the bounds there is a ball about a node of the object's grid on each side (see [`super::bound`]), of radius P at the distance D
//! from the box's middle. With y from the middle, n the direction of the node and t the part across it, the point y lies
//! in the ball where sqrt((D - n.y)^2 + t^2) <= P, and surely where n.y >= D - P + t^2 / 2 (D - w), w half the
//! box's width along n. t is constant along n: the part beyond the plane n.y = D - P that is not in the ball is no
//! more than the integral of t^2 / 2 (D - w) over the box's shadow along n, whose three faces make a closed form too.
//! Solid boxes that this leaves in doubt are bounded by their eighths, where that is better.

use super::bound::{Ball, ball, beyond_slope};
use super::cells::{contribute, deepest};
use super::frame::Frame;
use super::kernel::{Seen, TETRAHEDRON, place, read_apart, read_around, smooth, turn_back};
use super::nodes::cap;
use super::sums::{LOWER, Sums, UPPER};
use crate::geometry::lanes::{Constants, F, Lanes, Vector, dot, load, minus};
use crate::geometry::simd::{LANES, Simd, apart};

/// Work of a box's estimate, and of its bounds, about in proportion to the time that they take.
pub(super) const BOX_WORK: u32 = 3;
pub(super) const BOUND_WORK: u32 = 3;
/// Work of the estimate of a node that stays closed.
pub(super) const SHUT_WORK: u32 = 1;
/// Stake of a box's eighths, as a fraction of the box's own, and the work that they may take.
pub(super) const FINER_STAKE: f32 = 0.06;
pub(super) const FINER_WORK: u32 = 16 * (BOX_WORK + BOUND_WORK);

/// Boxes, their eighths, and the eighths of those.
const LEVELS: usize = 3;
/// Boxes, and eighths, whose bounds are wider than this fraction of them are bounded by their eighths.
const DOUBTFUL: [f32; LEVELS - 1] = [0.07, 0.2];
/// Work up to which the bounds go down to the eighths of eighths, where nothing limits it: small overlaps and coarse cells,
/// whose bounds would be wide without, are done by then, and of large ones the bounds are narrow anyway.
pub(super) const FINEST_WORK: u32 = 8_000;
/// How far the surface may lie from the plane of a box, cells; from twice that on the eighths stand alone.
const UNEVEN: f32 = 0.25;
/// Sides of the middle on which the eighths of two boxes lie, along each axis.
const EIGHTHS: [F; 3] = [
    [-1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0],
    [-1.0, -1.0, 1.0, 1.0, -1.0, -1.0, 1.0, 1.0, -1.0, -1.0, 1.0, 1.0, -1.0, -1.0, 1.0, 1.0],
    [-1.0, -1.0, -1.0, -1.0, 1.0, 1.0, 1.0, 1.0, -1.0, -1.0, -1.0, -1.0, 1.0, 1.0, 1.0, 1.0],
];
/// Standard deviation of a uniform distribution over half its width, and of a uniform ball along an axis over its radius.
const DEVIATION: f32 = 0.577_350_3;
const BALL_DEVIATION: f32 = 0.447_213_6;
/// What rounding can do, as a fraction of a box's volume.
const ROUNDING: f32 = 1e-3;

/// A box, with what is known of the node that it belongs to.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    /// Centroid, grid coordinates.
    pub(super) at: [f32; 3],
    pub(super) gradient: [f32; 3],
    pub(super) r: f32,
    /// Radius of the uniform ball that stands for it while it stays closed, m.
    pub(super) spread: f32,
    /// Solid volume in the box, m^3.
    pub(super) volume: f32,
    /// From the centroid to the middle, and half the sides, tool axes, m.
    pub(super) middle: [f32; 3],
    pub(super) half: [f32; 3],
    /// Weight in the estimate; not 0 for solid boxes only.
    pub(super) weight: f32,
    /// Weight of the ball in the estimate.
    pub(super) shut: f32,
    /// 1, or 0 where the bounds have it already.
    pub(super) fresh: f32,
    /// How much its eighths may take its place; not 0 for solid boxes only.
    pub(super) finer: f32,
}

/// Up to sixteen of them.
struct Batch {
    len: usize,
    at: [F; 3],
    gradient: [F; 3],
    r: F,
    spread: F,
    volume: F,
    middle: [F; 3],
    half: [F; 3],
    weight: F,
    shut: F,
    fresh: F,
    finer: F,
    /// Centres and radii of the balls that prove their bounds, inside and outside.
    balls: [[F; 4]; 2],
    /// Their bounds, m^3.
    lower: F,
    upper: F,
    /// Weight of their eighths.
    below: F,
    /// Which are bounded by their eighths, and which of the eighths are still to be looked at.
    doubtful: u16,
    left: u16,
    /// The lanes of the level above that these are eighths of.
    of: [usize; 2],
}

impl Batch {
    fn new() -> Self {
        let none = [0.0; LANES];
        Self {
            len: 0,
            at: [none; 3],
            gradient: [none; 3],
            r: none,
            spread: [1.0; LANES],
            volume: none,
            middle: [none; 3],
            half: [[1.0; LANES]; 3],
            weight: none,
            shut: none,
            fresh: none,
            finer: none,
            balls: [[none; 4]; 2],
            lower: none,
            upper: none,
            below: none,
            doubtful: 0,
            left: 0,
            of: [0; 2],
        }
    }

    #[inline(always)]
    fn set(&mut self, i: usize, cut: &Cut) {
        let i = i & (LANES - 1);
        for axis in 0..3 {
            self.at[axis][i] = cut.at[axis];
            self.gradient[axis][i] = cut.gradient[axis];
            self.middle[axis][i] = cut.middle[axis];
            self.half[axis][i] = cut.half[axis];
        }
        self.r[i] = cut.r;
        self.spread[i] = cut.spread;
        self.shut[i] = cut.shut;
        self.volume[i] = cut.volume;
        self.weight[i] = cut.weight;
        self.fresh[i] = cut.fresh;
        self.finer[i] = cut.finer;
    }

    /// Nothing from place `from` on.
    #[inline(always)]
    fn clear(&mut self, from: usize) {
        for i in from.min(LANES)..LANES {
            (self.volume[i], self.weight[i], self.shut[i]) = (0.0, 0.0, 0.0);
            (self.fresh[i], self.finer[i]) = (0.0, 0.0);
        }
    }

    /// Becomes the eighths of two boxes of the level above, or of one given twice.
    #[inline(always)]
    fn divide<S: Simd>(&mut self, simd: S, frame: &Frame<'_>, from: &Self, pair: [usize; 2]) {
        let k = Constants(simd);
        let [a, b] = pair.map(|of| of & (LANES - 1));
        self.of = [a, b];
        let mut ways = [k.of(0.0); 3];
        for axis in 0..3 {
            spread(&mut self.half[axis], 0.5 * from.half[axis][a], 0.5 * from.half[axis][b]);
            spread(&mut self.at[axis], from.at[axis][a], from.at[axis][b]);
            spread(&mut self.gradient[axis], from.gradient[axis][a], from.gradient[axis][b]);
            self.middle[axis] = [0.0; LANES];
            ways[axis] = k.at(&self.half[axis]) * k.at(&EIGHTHS[axis]);
        }
        let off = place(simd, &frame.to_grid, &[0.0; 3], ways);
        for axis in 0..3 {
            self.at[axis] = (k.at(&self.at[axis]) + off[axis]).store();
        }
        for side in 0..2 {
            for i in 0..4 {
                spread(&mut self.balls[side][i], from.balls[side][i][a], from.balls[side][i][b]);
            }
        }
        // The second half stands for nothing where there is no second box.
        let second = if a == b { 0.0 } else { 1.0 };
        let doubt = |of: usize| f32::from(from.doubtful >> of & 1);
        spread(&mut self.r, 0.5 * from.r[a], 0.5 * from.r[b]);
        spread(&mut self.volume, 0.125 * from.volume[a], 0.125 * second * from.volume[b]);
        spread(&mut self.weight, from.below[a], second * from.below[b]);
        spread(&mut self.finer, from.finer[a], second * from.finer[b]);
        spread(&mut self.fresh, doubt(a), second * doubt(b));
    }

    /// Bounds the boxes of the level above by these, where that is better.
    #[inline(always)]
    fn give_back(&self, to: &mut Self) {
        for half in 0..2 {
            let of = self.of[half] & (LANES - 1);
            if to.doubtful >> of & 1 == 0 || (half == 1 && self.of[0] == self.of[1]) {
                continue;
            }
            let (mut lower, mut upper) = (0.0, 0.0);
            for lane in 8 * half..8 * (half + 1) {
                lower += self.lower[lane];
                upper += self.upper[lane];
            }
            to.lower[of] = to.lower[of].max(lower);
            to.upper[of] = to.upper[of].min(upper);
        }
    }

    /// Looks at all of them: adds the planes' cuts, finds the bounds and which eighths are to be looked at. Returns the work.
    #[inline(always)]
    fn look<S: Simd>(
        &mut self,
        simd: S,
        frame: &Frame<'_>,
        (level, finest): (usize, bool),
        sums: &mut Sums,
    ) -> u32 {
        let k = Constants(simd);
        let zero = k.of(0.0);
        let mut work = 0;
        (self.left, self.doubtful, self.below) = (0, 0, [0.0; LANES]);
        (self.lower, self.upper) = ([0.0; LANES], [0.0; LANES]);
        let shut = simd.gt_bits(k.at(&self.shut).bare(), zero.bare());
        if shut != 0 {
            self.closed(simd, frame, sums);
            work += SHUT_WORK * shut.count_ones();
        }
        let cut = simd.gt_bits(k.at(&self.weight).bare(), zero.bare());
        if cut != 0 {
            self.estimate(simd, frame, level, sums);
            work += BOX_WORK * cut.count_ones();
        }
        let fresh = simd.gt_bits(k.at(&self.fresh).bare(), zero.bare());
        if fresh != 0 {
            self.bound(simd, frame, (level, finest));
            work += BOUND_WORK * fresh.count_ones();
        }
        self.left = self.doubtful | simd.gt_bits(k.at(&self.below).bare(), zero.bare());
        work
    }

    /// The least and the most that they contribute.
    #[inline(always)]
    fn bound<S: Simd>(&mut self, simd: S, frame: &Frame<'_>, (level, finest): (usize, bool)) {
        let k = Constants(simd);
        let zero = k.of(0.0);
        let seen = Seen { at: load(simd, &self.at), depth: zero, gradient: load(simd, &self.gradient) };
        let (half, r, middle) = (load(simd, &self.half), k.at(&self.r), load(simd, &self.middle));
        let all = k.of(8.0) * half[0] * half[1] * half[2];
        let mut parts = [zero; 2];
        for (side, part) in [1.0, -1.0].into_iter().zip(&mut parts) {
            let known = &mut self.balls[usize::from(side < 0.0)];
            // Of eighths the ball of the whole may be the better one.
            let [x, y, z, radius] = &*known;
            let whole = Ball { centre: [k.at(x), k.at(y), k.at(z)], radius: k.at(radius), held: 0 };
            let whole = if level == 0 { None } else { Some(whole) };
            let ball = ball(simd, frame, &seen, r, (side, whole));
            *part = proven(simd, frame, seen.at, middle, half, &ball) * all;
            let [x, y, z] = ball.centre;
            *known = [x.store(), y.store(), z.store(), ball.radius.store()];
        }
        let [inside, outside] = parts;
        // Of a set in the box no more is outside than the box has there.
        let (volume, fresh) = (k.at(&self.volume), k.at(&self.fresh));
        // What is not proven to be inside must not look so for rounding.
        let lower = (volume - all * k.of(1e-5) + (inside - all)).max(zero).min(volume) * fresh;
        let upper = (all - outside).max(zero).min(volume) * fresh;
        (self.lower, self.upper) = (lower.store(), upper.store());
        let limit = k.of(match level {
            0 => DOUBTFUL[0],
            1 if finest => DOUBTFUL[1],
            _ => f32::INFINITY,
        });
        self.doubtful = simd.gt_bits((upper - lower).bare(), (volume * limit).bare())
            & simd.gt_bits(k.at(&self.finer).bare(), zero.bare());
    }

    /// The balls that stand for nodes which stay closed.
    #[inline(always)]
    fn closed<S: Simd>(&self, simd: S, frame: &Frame<'_>, sums: &mut Sums) {
        let k = Constants(simd);
        let spread = k.at(&self.spread);
        let way = spread * k.of(BALL_DEVIATION);
        let seen = read_apart(simd, frame, load(simd, &self.at), [way, way, way], &TETRAHEDRON);
        let (part, slope) = cap(simd, seen.depth, spread);
        let volume = k.at(&self.volume) * k.at(&self.shut);
        deepest(simd, frame, &seen, spread, part * volume, sums);
        contribute(simd, frame, &seen, volume, (part, slope), sums);
    }

    /// The planes' cuts, and what is left to the eighths.
    #[inline(always)]
    fn estimate<S: Simd>(&mut self, simd: S, frame: &Frame<'_>, level: usize, sums: &mut Sums) {
        let k = Constants(simd);
        let (zero, one) = (k.of(0.0), k.of(1.0));
        let (at, half) = (load(simd, &self.at), load(simd, &self.half));
        let way: Vector<S> =
            [half[0] * k.of(DEVIATION), half[1] * k.of(DEVIATION), half[2] * k.of(DEVIATION)];
        let (seen, uneven) = read_around(simd, frame, at, way);
        let g = turn_back(simd, frame, seen.gradient);
        // In units of the sides, and of the depth's change across the box.
        let n = [g[0] * (half[0] + half[0]), g[1] * (half[1] + half[1]), g[2] * (half[2] + half[2])];
        let long = dot(n, n).sqrt().max((half[0] + half[1] + half[2]) * k.of(0.1));
        let (part, slope) =
            beyond_slope(simd, [n[0] / long, n[1] / long, n[2] / long], zero - seen.depth / long, 0.0);
        let corner = (n[0].abs() + n[1].abs() + n[2].abs()) * k.of(0.5);
        let mut weight = k.at(&self.weight);
        if level + 1 < LEVELS {
            let off = uneven * dot(way, way).sqrt();
            // Where the surface stays out of the box all planes agree.
            let reach = corner + off + off - seen.depth.abs();
            let limit = k.of(UNEVEN * frame.cell);
            let share = smooth(simd, off / limit - one) * smooth(simd, reach / limit) * k.at(&self.finer);
            self.below = (weight * share).store();
            weight = weight * (one - share);
        }
        // Bounds and eighths have a better gradient than that of the middle alone.
        let asked = k.at(&self.weight);
        for axis in 0..3 {
            self.gradient[axis] =
                asked.at_most(zero, k.at(&self.gradient[axis]), seen.gradient[axis]).store();
        }
        let used = part * weight;
        if simd.gt_bits(used.bare(), zero.bare()) == 0 {
            return;
        }
        deepest(simd, frame, &seen, corner, used, sums);
        let volume = k.at(&self.volume) * weight;
        contribute(simd, frame, &seen, volume, (part, slope / long), sums);
    }
}

/// Sets one value in each half.
#[inline(always)]
fn spread(to: &mut F, a: f32, b: f32) {
    let (first, second) = to.split_at_mut(LANES / 2);
    first.fill(a);
    second.fill(b);
}

/// Boxes that wait, and their eighths.
pub(super) struct Boxes {
    levels: [Batch; LEVELS],
}

impl Boxes {
    pub(super) fn new() -> Self {
        Self { levels: [Batch::new(), Batch::new(), Batch::new()] }
    }

    pub(super) fn is_full(&self) -> bool {
        self.levels[0].len >= LANES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.levels[0].len == 0
    }

    /// Takes one more; nothing where there is no room.
    #[inline(always)]
    pub(super) fn push(&mut self, cut: &Cut) {
        let batch = &mut self.levels[0];
        if batch.len < LANES {
            batch.set(batch.len, cut);
            batch.len += 1;
        }
    }

    #[inline(always)]
    fn add<S: Simd>(simd: S, boxes: &mut Self, frame: &Frame<'_>, finest: bool, sums: &mut Sums) -> u32 {
        let k = Constants(simd);
        let len = boxes.levels[0].len;
        boxes.levels[0].clear(len);
        let (mut work, mut level, mut looked) = (0, 0, false);
        loop {
            let (above, below) = boxes.levels.split_at_mut((level + 1).min(LEVELS));
            let Some(batch) = above.last_mut() else { break };
            if !looked {
                work += batch.look(simd, frame, (level, finest), sums);
                looked = true;
            }
            if let (Some(next), true) = (below.first_mut(), batch.left != 0) {
                let first = batch.left.trailing_zeros() as usize & (LANES - 1);
                batch.left &= batch.left - 1;
                let mut pair = [first, first];
                if batch.left != 0 {
                    pair[1] = batch.left.trailing_zeros() as usize & (LANES - 1);
                    batch.left &= batch.left - 1;
                }
                next.divide(simd, frame, batch, pair);
                (level, looked) = (level + 1, false);
                continue;
            }
            if level == 0 {
                break;
            }
            level -= 1;
            let (above, below) = boxes.levels.split_at_mut((level + 1).min(LEVELS));
            if let (Some(to), Some(from)) = (above.last_mut(), below.first()) {
                from.give_back(to);
            }
        }
        sums.add(simd, LOWER, k.at(&boxes.levels[0].lower));
        sums.add(simd, UPPER, k.at(&boxes.levels[0].upper));
        sums.block(simd);
        boxes.levels[0].len = 0;
        work
    }
}

apart! {
    /// Adds all of them and returns the work; the bounds go down to the last level where `finest`.
    pub(super) fn add_boxes['a, 'f](boxes: &'a mut Boxes, frame: &'a Frame<'f>, finest: bool, sums: &'a mut Sums) -> u32 =
        Boxes::add
}

/// Fraction of each box that a ball holds, at least.
#[inline(always)]
fn proven<S: Simd>(
    simd: S,
    frame: &Frame<'_>,
    at: Vector<S>,
    middle: Vector<S>,
    half: Vector<S>,
    ball: &Ball<S>,
) -> Lanes<S> {
    let cell = Lanes::splat(simd, frame.grid_cell);
    let way = turn_back(simd, frame, minus(ball.centre, at));
    let way = [way[0] * cell - middle[0], way[1] * cell - middle[1], way[2] * cell - middle[2]];
    held(simd, way, half, ball.radius, frame.cell)
}

/// Fraction of boxes about the origin that the ball of a radius about the place `way` holds, at least; `cell` is what
/// rounding is held against, all in m.
#[inline(always)]
pub(super) fn held<S: Simd>(
    simd: S,
    way: Vector<S>,
    half: Vector<S>,
    radius: Lanes<S>,
    cell: f32,
) -> Lanes<S> {
    let k = Constants(simd);
    let (zero, two) = (k.of(0.0), k.of(2.0));
    let distance = dot(way, way).sqrt().max(k.of(1e-3 * cell));
    let n = [way[0] / distance, way[1] / distance, way[2] / distance];
    let side = [half[0] * two, half[1] * two, half[2] * two];
    let a = [n[0].abs() * side[0], n[1].abs() * side[1], n[2].abs() * side[2]];
    let width = (a[0] + a[1] + a[2]) * k.of(0.5);
    // The shadow's integral of t^2, face by face: t^2 = y^2 - (n.y)^2.
    let square = [half[0] * half[0], half[1] * half[1], half[2] * half[2]];
    let along = [n[0] * n[0] * square[0], n[1] * n[1] * square[1], n[2] * n[2] * square[2]];
    let third = k.of(1.0 / 3.0);
    let free = [square[0] - along[0], square[1] - along[1], square[2] - along[2]];
    let sum = free[0] + free[1] + free[2];
    // As a fraction of the box: the face across axis i has its volume over side i.
    let mut shadow = zero;
    for i in 0..3 {
        shadow = shadow + a[i] / (side[i] * side[i]) * (free[i] + (sum - free[i]) * third);
    }
    let left = (distance - width).max(k.of(1e-3 * cell));
    let bend = shadow / (two * left);
    let long = dot(a, a).sqrt().max(k.of(1e-6 * cell));
    let n = [a[0] / long, a[1] / long, a[2] / long];
    let offset = distance - radius + k.of(2e-3 * cell);
    let flat = beyond_slope(simd, n, offset / long, 1.0).0 - bend * k.of(1.0 + 1e-4);
    // Nor is it more than what lies between the planes of the smallest and the largest t.
    let most = (square[0] + square[1] + square[2]) / (two * left);
    let bent = beyond_slope(simd, n, (offset + most) / long, 1.0).0;
    // Beyond the farthest corner all is within, whatever rounding does to a fraction.
    let beyond = (offset + most + (a[0] + a[1] + a[2]) * k.of(0.5)).at_most(zero, k.of(1.0), zero);
    let part = (flat.max(bent) - k.of(ROUNDING)).max(beyond);
    // A ball that proves nothing, or whose centre lies within the box's width.
    distance.at_most(width, zero, radius.at_most(zero, zero, part.max(zero)))
}
