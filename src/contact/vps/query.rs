//! One shell against one field.
//!
//! Force law: pressure k d on the tool's surface inside the object, d = depth there, along the shell's inward
//! normal. By the divergence theorem this is minus the gradient of k times the integral of depth over the overlap,
//! so a closed loop of poses takes no work, and a flat face of area A pressed h deep is pushed back with k A h. Where
//! the overlap is smaller than the point spacing, see [`sparse`].
//! Damping presses with c v where a surface element moves against its inward normal with v, but never with more
//! than the spring, so that it starts from zero at first touch and never pulls.

#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types,
        clippy::expect_used,
        clippy::panic,
        clippy::unwrap_used
    )
)]

mod again;
mod apart;
mod ball;
mod classic;
mod clear;
mod impact;
mod kernel;
mod near;
mod segments;
mod source;
mod sparse;
mod sweep;
mod walk;
mod weights;

pub use clear::Clearance;
pub use impact::{Impact, Swept, sweep_to_impact};
use near::normal_of;
pub(super) use near::{Pushed, place_of, pushed};
pub use segments::{Segment, Segments};

use super::{ForceLaw, Level, PointShell};
use crate::contact::stiffness::{rotated, symmetric};
use crate::contact::{Bounds, Budget, Contact, ContactPoint, MAX_POINTS, Material, Query, QueryState};
use crate::geometry::field::Field;
use crate::geometry::simd::{LANES, SimdLevel, level};
use crate::geometry::{Point, Pose, Vec3, Wrench};
use again::revisit;
use ball::Place;
use kernel::{ALONG, GRADIENTS, Job, Lack, SOFT_AREA, STIFFNESS, STILL, Sums};
use source::Graded;
use sparse::{ENTERED, Enough, Sampling, few, settled, spread};
use sweep::{Sweep, count, sweep};
use walk::{Plan, plan, walk};
use weights::Weights;

/// Part of the budget that the levels are planned with: parts of a level differ in how much of them may touch.
const SLACK: f64 = 0.8;
/// Up to the first part of the budget all points that may touch are summed; from the second on the levels answer alone.
/// Between them both do, and the answer goes over from one to the other. What the levels spend alone is what they do at the second
/// part, so that a larger budget never knows less of the same pose: work stands still between two budgets but does not fall.
const WHOLE: (f64, f64) = (0.5, 0.65);
/// What that leaves the levels, as a part of the points that may touch.
const BESIDE: f64 = 1.0 / WHOLE.1 - 1.0;
/// Points of the answer when the deadline has passed: a few microseconds, evenly over the tool.
const LATE: f64 = 256.0;

/// Points that push with less of their pressure than this are not listed.
const LEAST_PUSH: f64 = 0.1;

/// Answers with the shell's points; of the stiffness the positive part is still to be taken. Real-time safe: no allocation,
/// no panic.
pub(crate) fn query(
    q: &Query<'_>,
    shell: &PointShell,
    field: &Field,
    budget: Budget<'_>,
    state: &mut QueryState,
) -> Contact {
    let relative = q.object_pose.inv_mul(q.tool_pose);
    let error = field.sample_error();
    let Some(place) = Place::new(field, &relative, shell.bound_radius, error) else {
        return Contact { complete: false, ..Contact::none(None) };
    };

    // The whole tool at once: how far is the ball around it?
    let gap = BallGap::new(field, &(relative * shell.ball_centre), shell.ball_radius, error);
    if gap.least > 2.0 * shell.ball_radius {
        return Contact { depth_bounds: Some(gap.bounds()), work: 1, need: 1, ..Contact::none(None) };
    }
    let key = [shell.stamp.number(), field.stamp.number()];
    let ask =
        Ask { q, shell, field, simd: level(), job: job(q, shell, field, place), relative, key, error, gap };
    let units = if budget.units == 0 { usize::MAX } else { budget.units as usize };
    if let ForceLaw::Classic { value, shared } = shell.law {
        return ask.classic(value, shared, units, &budget);
    }
    if units >= shell.len {
        return ask.whole(units, 0.0, &budget, state);
    }
    let limit = units as f64;
    // As far as the levels' share depends on it.
    let enough = (2.0 * limit).max((limit + LANES as f64) / BESIDE);
    let may_touch = count(ask.simd, &ask.job.place, &shell.sorted.tree, enough);
    let w = ((may_touch / limit - WHOLE.0) / (WHOLE.1 - WHOLE.0)).clamp(0.0, 1.0);
    let w = w * w * (3.0 - 2.0 * w);
    if w <= 0.0 {
        return ask.whole(units, may_touch, &budget, state);
    }
    // What the levels may spend beside the sum over all points, and alone.
    let beside = limit - may_touch - LANES as f64;
    let alone = BESIDE * may_touch - LANES as f64;
    let spend = if w < 1.0 { beside } else { alone.min(limit) };
    let part = ask.levels(spend, &budget);
    let mut contact = if w < 1.0 { blend(ask.whole(0, may_touch, &budget, state), &part, w) } else { part };
    contact.need = need(may_touch, shell);
    contact
}

/// Budget with which so many points in reach are all summed.
fn need(may_touch: f64, shell: &PointShell) -> u32 {
    // A little more, so that the next tick's points are in it too.
    ((may_touch / WHOLE.0 * 1.1) as usize + 16 * LANES).min(shell.len) as u32
}

/// The whole answer with the part's force, stiffness and work mixed in.
fn blend(whole: Contact, part: &Contact, w: f64) -> Contact {
    if whole.deadline_hit {
        return whole;
    }
    Contact {
        wrench: whole.wrench.scaled(1.0 - w) + part.wrench.scaled(w),
        stiffness: whole.stiffness * (1.0 - w) + part.stiffness * w,
        patches: std::array::from_fn(|i| whole.patches[i].mixed(&part.patches[i], w)),
        // Apart, the levels have looked for the nearest point, and the sum has not.
        distance: whole.distance.zip(part.distance).map(|(a, b)| a.min(b)).or(whole.distance),
        depth_bounds: whole
            .depth_bounds
            .zip(part.depth_bounds)
            .map(|(a, b)| a.intersect(&b))
            .or(whole.depth_bounds),
        work: whole.work + part.work,
        complete: false,
        deadline_hit: part.deadline_hit,
        ..whole
    }
}

/// A question, prepared.
struct Ask<'a> {
    q: &'a Query<'a>,
    shell: &'a PointShell,
    field: &'a Field,
    simd: SimdLevel,
    job: Job<'a>,
    /// Pose of the tool in the object's frame.
    relative: Pose,
    /// Shell and field.
    key: [u64; 2],
    error: f64,
    gap: BallGap,
}

impl Ask<'_> {
    /// From when on the parts along the depth gradient do not matter, if `points` stand for the whole tool.
    fn enough(&self, points: f64) -> Enough {
        let law = &self.shell.law;
        if law.along_gradient() { Enough::never(law) } else { Enough::of(cell(self.shell, points)) }
    }

    /// Sums all points that may touch, `may_touch` of them if that was counted; what `units` leaves goes into the search
    /// for the nearest point as long as nothing touches.
    fn whole(&self, units: usize, may_touch: f64, budget: &Budget<'_>, state: &mut QueryState) -> Contact {
        let shell = self.shell;
        let enough = self.enough(shell.len as f64);
        let mut sums = Sums::new(enough);
        let passed = || budget.deadline.is_some_and(|d| d.passed());
        state.clear.advance(self.key, &self.relative, &shell.ball_centre, shell.ball_radius);
        let seed = (state.nearest as usize).checked_sub(1).filter(|&b| b < shell.sorted.blocks.len());
        let seed = seed.map(|b| b as u32);
        let mut before = 0;
        if state.touching && units > 0 {
            let seen = revisit(self.simd, &self.job, &shell.sorted, &mut state.clear, passed, &mut sums);
            before = seen.visited;
            if sums.touched || seen.late {
                return self.summed(&sums, seen, may_touch, state);
            }
            // It has let go: where is the nearest point?
            sums = Sums::new(enough);
        } else if units > 0
            && let Some(contact) = seed.and_then(|near| self.still_apart(near, may_touch, &state.clear))
        {
            return contact;
        }
        let search = units.saturating_sub(may_touch.ceil() as usize);
        let mut swept = sweep(self.simd, &self.job, &shell.sorted, seed, search, passed, &mut sums);
        swept.visited += before;
        self.summed(&sums, swept, may_touch, state)
    }

    fn summed(&self, sums: &Sums, swept: Sweep, may_touch: f64, state: &mut QueryState) -> Contact {
        let shell = self.shell;
        state.touching = sums.touched;
        state.nearest = sums.deepest_point().0.saturating_add(1);
        if swept.late {
            // One side of the tool only was seen: a force from all around, but coarser.
            let mut contact = self.levels(LATE, &Budget::UNLIMITED);
            contact.work += swept.visited as u32;
            contact.deadline_hit = true;
            return contact;
        }
        if !sums.touched && !swept.unsure {
            state.clear.note_apart(largest(&sums.deepest));
        }
        let seen = if swept.unsure { 0 } else { shell.len };
        Contact { complete: !swept.unsure, ..self.of_all(sums, seen, swept.visited, may_touch) }
    }

    /// From sums over all points that matter, `visited` of them; `seen` as in [`Self::contact`].
    fn of_all(&self, sums: &Sums, seen: usize, visited: usize, may_touch: f64) -> Contact {
        let (shell, all) = (self.shell, self.shell.len as f64);
        let mut contact = self.contact(sums, &Weights::new(shell, all), all, seen, 1.0);
        self.apart(&mut contact, sums, &shell.sorted);
        contact.work = visited.min(shell.len) as u32;
        // Without a count of what may touch it asks for all, so that it keeps being answered so.
        contact.need = if may_touch > 0.0 { need(may_touch, shell) } else { shell.len as u32 };
        contact
    }

    /// Sums so many levels, the last in part, that those of their points that may touch fit into `units`.
    fn levels(&self, units: f64, budget: &Budget<'_>) -> Contact {
        let (shell, all) = (self.shell, self.shell.len);
        let units = units.max(LANES as f64);
        let passed = || budget.deadline.is_some_and(|d| d.passed());
        let plan = if units < all as f64 {
            plan(self.simd, &self.job.place, shell, units * SLACK)
        } else {
            Plan { granted: all as f64, may_touch: 0 }
        };
        let weights = Weights::new(shell, plan.granted);
        let from = Graded {
            shell,
            coarse: weights.coarse.map_or(&[], Level::blocks),
            fine: weights.fine.map_or(&[], Level::blocks),
            blend_until: weights.coarse.map_or(0, |l| l.len / LANES),
            t: weights.t as f32,
            partial: weights.partial,
        };
        // What the points of a level granted in part stand for is known at the end only.
        let mut sums = Sums::new(Enough::never(&shell.law));
        let end = weights.last_block();
        let walked = walk(self.simd, &self.job, &from, end, units as usize, passed, &mut sums);
        // Points that were visited or cannot matter.
        let seen = weights.visited(shell, walked.done).min(all);
        let factor = weights.factor(shell, walked.counted);
        let mut contact = self.contact(&sums, &weights, plan.granted, seen, factor);
        self.apart(&mut contact, &sums, &from);
        contact.work = walked.visited as u32;
        contact.need = need(plan.may_touch.max(walked.visited) as f64, shell);
        contact.complete = seen >= all;
        contact.deadline_hit = walked.late;
        contact
    }

    /// Wrench, bounds and points from sums over points that are, or cannot matter, the first `seen`; `granted` points
    /// stand for the whole tool.
    fn contact(&self, sums: &Sums, weights: &Weights<'_>, granted: f64, seen: usize, factor: f64) -> Contact {
        let deepest = largest(&sums.deepest);
        let mut contact = Contact::none((deepest <= 0.0 && deepest.is_finite()).then_some(-deepest));
        let bounds = depth_bounds(sums, covering(self.shell, seen), self.error);
        contact.depth_bounds = Some(bounds.intersect(&self.gap.bounds()));
        if sums.touched {
            contact.touching = true;
            contact.depth = deepest;
            contact.distance = Some(0.0);
            let along = respond(&mut contact, self.q, self.shell, granted, sums, factor);
            list_points(&mut contact, self.q, self.shell, self.field, along, sums, weights, factor);
        }
        contact
    }
}

/// What the ball around the tool says about the distance, m.
struct BallGap {
    /// The separation is at least this (negative: unknown).
    least: f64,
    /// Some point of the tool is within this of the object.
    most: f64,
}

impl BallGap {
    fn new(field: &Field, centre: &Point, radius: f64, error: f64) -> Self {
        let (depth, inside) = (field.depth(centre), field.covers(centre));
        // Outside the grid the true distance is at most D(q) + |x - q| <= sqrt(2) times the bound.
        let most = if inside { -depth } else { -depth * std::f64::consts::SQRT_2 };
        Self { least: -depth - error - radius, most: most + 2.0 * error + radius }
    }

    fn bounds(&self) -> Bounds {
        Bounds { lower: -self.most, upper: -self.least }
    }
}

impl Bounds {
    /// Both intervals hold, so their common part does.
    fn intersect(&self, other: &Self) -> Self {
        Self { lower: self.lower.max(other.lower), upper: self.upper.min(other.upper) }
    }
}

fn job<'a>(q: &Query<'_>, shell: &PointShell, field: &'a Field, place: Place<'a>) -> Job<'a> {
    let (twist, back) = (q.relative_twist(), q.tool_pose.rotation.inverse());
    let f = |v: f64| v as f32;
    let (pressure, damping) = per_area(q.material);
    let entered = pressure * ENTERED * cell(shell, shell.len as f64).sqrt();
    Job {
        place,
        pressure: f(pressure),
        damping: f(damping),
        whole: if entered > 0.0 { f(1.0 / entered) } else { 0.0 },
        linear: (back * twist.linear).map(f).into(),
        angular: (back * twist.angular).map(f).into(),
        rubs: q.material.friction.rubs(),
        cubic: shell.law.cubic().then_some(field),
    }
}

/// Pressure per depth (N/m^3) and per speed (N s/m^3); nothing for a material that makes no sense.
pub(crate) fn per_area(m: &Material) -> (f64, f64) {
    let per = |v: f64| {
        let p = v / m.reference_area;
        if p.is_finite() && p > 0.0 { p } else { 0.0 }
    };
    (per(m.stiffness), per(m.damping))
}

fn largest(lanes: &[f32; LANES]) -> f64 {
    f64::from(lanes.iter().fold(f32::NEG_INFINITY, |m, &v| if v > m { v } else { m }))
}

/// What each of so many points stands for, m^2.
fn cell(shell: &PointShell, points: f64) -> f64 {
    shell.total_area / points.max(1.0)
}

/// How far a surface point can be from the points visited, m.
fn covering(shell: &PointShell, visited: usize) -> f64 {
    shell
        .levels
        .iter()
        .rev()
        .find(|l| l.len <= visited)
        .map_or(2.0 * shell.ball_radius + shell.covering_radius, |l| l.covering_radius)
}

fn depth_bounds(sums: &Sums, covering: f64, error: f64) -> Bounds {
    let (any, inside) = (largest(&sums.deepest), largest(&sums.deepest_inside));
    // Points outside the grid only know a lower bound on their distance; the true one is within sqrt(2) of it.
    let outside = (any.min(0.0) - error) * std::f64::consts::SQRT_2;
    Bounds { lower: (inside - error).max(outside), upper: any + error + covering }
}

/// What a few points lack: force and torque, the parts' sizes, and the gradients.
fn parts_of(lack: &Lack) -> (Wrench, f64, Vec3) {
    let [fx, fy, fz, tx, ty, tz, size, gx, gy, gz] = *lack;
    let wrench = Wrench { force: Vec3::new(fx, fy, fz), torque: Vec3::new(tx, ty, tz) };
    (wrench, size, Vec3::new(gx, gy, gz))
}

/// Wrench and stiffness in the scene from the sums in the tool's frame; how much the push is along the depth gradient.
/// `points` are those that stand for the whole tool.
fn respond(
    contact: &mut Contact,
    q: &Query<'_>,
    shell: &PointShell,
    points: f64,
    sums: &Sums,
    factor: f64,
) -> f64 {
    let total = |i: usize| sums.total(i) * factor;
    let triple = |i: usize| Vec3::new(total(i), total(i + 1), total(i + 2));
    let rotation = &q.tool_pose.rotation;
    let wrench = |i: usize| Wrench { force: triple(i), torque: triple(i + 3) };
    let cell = cell(shell, points);
    let sampling = Sampling { points: total(SOFT_AREA) / cell, depth: contact.depth / cell.sqrt() };
    let (lack, count) = sums.lack();
    let few = few(count) * factor;
    let (lack, size_lack, gradients_lack) = parts_of(&lack);
    let along = wrench(ALONG) + lack.scaled(few);
    let (settled, along) = if shell.law.along_gradient() {
        (along, 1.0)
    } else {
        // Without what they lack the gradients would leap, and with them which of the two sums pushes.
        let gradients = triple(GRADIENTS) + few * gradients_lack;
        let spread = spread(&gradients, total(GRADIENTS + 3));
        settled(&wrench(0), &along, total(ALONG + 6) + few * size_lack, spread, &sampling)
    };
    contact.wrench = Wrench { force: rotation * settled.force, torque: rotation * settled.torque };

    // -d(wrench)/d(displacement) of the elastic part: moving by (v, w) deepens a point by g.v + (r x g).w and turns
    // the force with the tool. The part from turning the torque is antisymmetric and drops out below.
    let (pressure, _) = per_area(q.material);
    let mut symmetric = symmetric(|i| -0.5 * pressure * total(STIFFNESS + i));
    let turn = triple(STILL).cross_matrix();
    for i in 0..3 {
        for j in 0..3 {
            symmetric[(i, 3 + j)] += 0.5 * turn[(i, j)];
            symmetric[(3 + j, i)] += 0.5 * turn[(i, j)];
        }
    }
    contact.stiffness = rotated(&symmetric, &rotation.to_rotation_matrix());
    if let Some(patches) = sums.patches() {
        contact.patches = patches.patches(rotation, factor, pressure * factor);
    }
    along
}

/// The deepest points of different patches, deepest first, apart from each other where the choice allows it.
#[allow(clippy::too_many_arguments)]
fn list_points(
    contact: &mut Contact,
    q: &Query<'_>,
    shell: &PointShell,
    field: &Field,
    along: f64,
    sums: &Sums,
    weights: &Weights<'_>,
    factor: f64,
) {
    let (mut patch, mut left) = (sums.deep.patch, sums.deep.some);
    // Half the spacing of the patches' centres.
    let apart = 0.5 * (shell.total_area / super::PATCHES as f64).sqrt();
    let mut chosen = [Point::origin(); MAX_POINTS];
    let mut n = 0;
    while n < MAX_POINTS && left != 0 {
        let (mut best, mut rest) = (left.trailing_zeros() as usize, left);
        while rest != 0 {
            let i = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            if patch[i].0 > patch[best].0 {
                best = i;
            }
        }
        left &= !(1 << best);
        let (depth, id) = std::mem::take(&mut patch[best]);
        let Some(place) = place_of(shell, id) else { continue };
        if chosen[..n].iter().any(|c| (c - place).norm_squared() < apart * apart) {
            continue;
        }
        let Some(mut point) = contact_point(q, shell, field, id, f64::from(depth), along) else { continue };
        point.area = weights.area(shell, id as usize) * factor;
        chosen[n] = place;
        contact.points[n] = point;
        n += 1;
    }
    contact.n_points = n as u8;
}

/// Point `id` of the shell, so deep (m), with a normal that is `along` (0..=1) the depth gradient's and else the shell's.
/// `None` for a point whose face lies across the object's surface: of the faces that meet at a corner or edge, those do
/// not push.
pub(super) fn contact_point(
    q: &Query<'_>,
    shell: &PointShell,
    field: &Field,
    id: u32,
    depth: f64,
    along: f64,
) -> Option<ContactPoint> {
    let position = q.tool_pose * place_of(shell, id)?;
    let normal = q.tool_pose.rotation * normal_of(shell, id)?;
    let at = q.object_pose.inverse_transform_point(&position);
    let (_, gradient) = if shell.law.cubic() { field.cubic(&at) } else { field.depth_gradient(&at) };
    let gradient = q.object_pose.rotation * gradient;
    let faces = normal.dot(&gradient);
    if faces.abs() < LEAST_PUSH {
        return None;
    }
    Some(ContactPoint {
        position: position.coords,
        normal: (normal + (gradient * faces - normal) * along).normalize(),
        depth,
        area: shell.area.get(id as usize).copied().map(f64::from)?,
        id,
    })
}
