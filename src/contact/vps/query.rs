//! One shell against one field.
//!
//! Force law: pressure k d on the tool's surface inside the object, d = depth there, along the shell's inward
//! normal. By the divergence theorem this is minus the gradient of k times the integral of depth over the overlap,
//! so a closed loop of poses takes no work, and a flat face of area A pressed h deep is pushed back with k A h.
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

use super::kernel::{Job, Sums};
use super::walk::{Plan, plan, walk};
use super::weights::Weights;
use super::{Level, PointShell};
use crate::contact::stiffness::{positive_part, rotated, symmetric};
use crate::contact::{Bounds, Budget, Contact, ContactPoint, MAX_POINTS, Material, Query};
use crate::geometry::field::Field;
use crate::geometry::field::block::Grid;
use crate::geometry::simd::{LANES, level};
use crate::geometry::{Point, Pose, Vec3, Wrench};

/// Part of the budget that is planned with: parts of a level differ in how much of them may touch.
const SLACK: (usize, usize) = (4, 5);

/// Answers with the shell's points. Real-time safe: no allocation, no panic.
pub(crate) fn query(q: &Query<'_>, shell: &PointShell, field: &Field, budget: Budget<'_>) -> Contact {
    let Some(grid) = Grid::new(field) else {
        return Contact { complete: false, ..Contact::none(None) };
    };
    let relative = q.object_pose.inv_mul(q.tool_pose);
    let error = field.sample_error();
    let all = shell.len;

    // The whole tool at once: how far is the ball around it?
    let gap = BallGap::new(field, &(relative * shell.ball_centre), shell.ball_radius, error);
    if gap.least > 2.0 * shell.ball_radius {
        return Contact { depth_bounds: Some(gap.bounds()), work: 1, need: 1, ..Contact::none(None) };
    }
    let simd = level();
    let mut sums = Sums::new();
    let everything = Weights::new(shell, all);
    let whole = job(q, shell, field, grid, &relative, &everything);
    let units = if budget.units == 0 { usize::MAX } else { budget.units as usize };
    // What may touch has to fit, else so much of the levels that their part of it does.
    let plan = if units < all {
        plan(simd, &whole, units / SLACK.1 * SLACK.0)
    } else {
        Plan { granted: all, may_touch: 0 }
    };
    let passed = || budget.deadline.is_some_and(|d| d.passed());
    let with_slack = |points: usize| (points.max(LANES) / SLACK.0 + 1).saturating_mul(SLACK.1).min(all);
    let (weights, walked, need);
    if plan.granted >= all {
        walked = walk(simd, &whole, all.div_ceil(LANES), units, passed, &mut sums);
        need = with_slack(walked.visited);
        weights = everything;
    } else {
        weights = Weights::new(shell, plan.granted);
        let part = job(q, shell, field, grid, &relative, &weights);
        walked = walk(simd, &part, weights.last_block(plan.granted), units, passed, &mut sums);
        need = with_slack(plan.may_touch.max(walked.visited));
    }
    // Points that were visited or cannot matter.
    let seen = weights.visited(shell, walked.done).min(all);

    let deepest = largest(&sums.deepest);
    let mut contact = Contact {
        work: walked.visited as u32,
        need: need as u32,
        complete: seen >= all,
        deadline_hit: walked.late,
        ..Contact::none((deepest <= 0.0 && deepest.is_finite()).then_some(-deepest))
    };
    contact.depth_bounds = Some(depth_bounds(&sums, covering(shell, seen), error).intersect(&gap.bounds()));
    if sums.touched {
        contact.touching = true;
        contact.depth = deepest;
        contact.distance = Some(0.0);
        let factor = weights.factor(shell, walked.counted);
        respond(&mut contact, q, shell, &sums, factor);
        list_points(&mut contact, q, shell, &sums, &weights, factor);
    }
    contact
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
        let depth = field.depth(centre);
        let far = field.far_corner();
        let inside = (0..3).all(|a| centre[a] >= field.origin[a] && centre[a] <= far[a]);
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

fn job<'a>(
    q: &Query<'_>,
    shell: &'a PointShell,
    field: &Field,
    grid: Grid<'a>,
    relative: &Pose,
    weights: &Weights<'a>,
) -> Job<'a> {
    let rotation = relative.rotation.to_rotation_matrix();
    let per_cell = 1.0 / field.cell;
    let offset = (relative.translation.vector - field.origin.coords) * per_cell;
    let (twist, back) = (q.relative_twist(), q.tool_pose.rotation.inverse());
    let f = |v: f64| v as f32;
    // Of a ball's transformed centre.
    let rounding = 1e-6 * (shell.bound_radius + relative.translation.vector.norm());
    let (pressure, damping) = per_area(q.material);
    let blocks = |l: Option<&'a Level>| l.map_or(&[][..], |l| l.area.as_chunks::<LANES>().0);
    Job {
        shell,
        grid,
        to_grid: std::array::from_fn(|i| f(rotation[(i / 3, i % 3)] * per_cell)),
        offset: [f(offset.x), f(offset.y), f(offset.z)],
        pressure: f(pressure),
        damping: f(damping),
        linear: (back * twist.linear).map(f).into(),
        angular: (back * twist.angular).map(f).into(),
        coarse: blocks(weights.coarse),
        fine: blocks(weights.fine),
        blend_until: weights.coarse.map_or(0, |l| l.len / LANES),
        t: f(weights.t),
        partial: weights.partial,
        margin: f(2.0 * field.sample_error() + rounding),
        steep: f(3f64.sqrt() * (1.01 + (f64::from(field.scale) + 2.0 * field.coarse_error()) * per_cell)),
        rounding: f(rounding + f64::from(field.scale)),
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

/// Wrench and stiffness in the scene from the sums in the tool's frame.
fn respond(contact: &mut Contact, q: &Query<'_>, shell: &PointShell, sums: &Sums, factor: f64) {
    let total = |i: usize| sums.total[i].iter().sum::<f64>() * factor;
    let triple = |i: usize| Vec3::new(total(i), total(i + 1), total(i + 2));
    let rotation = &q.tool_pose.rotation;
    contact.wrench = Wrench { force: rotation * triple(0), torque: rotation * triple(3) };

    // -d(wrench)/d(displacement) of the elastic part: moving by (v, w) deepens a point by g.v + (r x g).w and turns
    // the force with the tool. The part from turning the torque is antisymmetric and drops out below.
    let (pressure, _) = per_area(q.material);
    let mut symmetric = symmetric(|i| -0.5 * pressure * total(9 + i));
    let turn = triple(6).cross_matrix();
    for i in 0..3 {
        for j in 0..3 {
            symmetric[(i, 3 + j)] += 0.5 * turn[(i, j)];
            symmetric[(3 + j, i)] += 0.5 * turn[(i, j)];
        }
    }
    let length = shell.bound_radius.max(1e-6);
    contact.stiffness = rotated(&positive_part(&symmetric, length), &rotation.to_rotation_matrix());
}

/// The deepest points of different patches, deepest first, apart from each other where the choice allows it.
fn list_points(
    contact: &mut Contact,
    q: &Query<'_>,
    shell: &PointShell,
    sums: &Sums,
    weights: &Weights<'_>,
    factor: f64,
) {
    let mut left = sums.patch;
    // Half the spacing of the patches' centres.
    let apart = 0.5 * (shell.total_area / super::PATCHES as f64).sqrt();
    let mut chosen = [Point::origin(); MAX_POINTS];
    let mut n = 0;
    while n < MAX_POINTS {
        let mut best = 0;
        for (i, p) in left.iter().enumerate() {
            if p.0 > left[best].0 {
                best = i;
            }
        }
        let (depth, id) = left[best];
        if depth <= 0.0 {
            break;
        }
        left[best].0 = 0.0;
        let i = id as usize;
        let at = |c: &[f32]| f64::from(c.get(i).copied().unwrap_or(0.0));
        let place = Point::new(at(&shell.x), at(&shell.y), at(&shell.z));
        if chosen[..n].iter().any(|c| (c - place).norm_squared() < apart * apart) {
            continue;
        }
        chosen[n] = place;
        contact.points[n] = ContactPoint {
            position: (q.tool_pose * place).coords,
            normal: q.tool_pose.rotation * Vec3::new(at(&shell.nx), at(&shell.ny), at(&shell.nz)),
            depth: f64::from(depth),
            area: weights.area(shell, i) * factor,
            id,
        };
        n += 1;
    }
    contact.n_points = n as u8;
}
