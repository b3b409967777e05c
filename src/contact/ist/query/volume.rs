//! The query: volume, wrench and bounds where the bodies meet, separation where they do not.
//!
//! The hierarchy is opened from the top. A node clearly inside the object counts whole and one clearly outside not at
//! all; what lies between is opened as long as its stake, the volume that opening it can still change, exceeds a
//! threshold. Unlimited queries have the threshold 0; for a budget it is chosen so that the work fits. Stakes fall
//! monotonically down the hierarchy, so that the nodes opened are those that a priority queue would have opened
//! (Weller & Zachmann 2009, section 4.2.3), without the queue. Close above the threshold a node's own estimate is
//! blended with that of its children: as the pose moves, nodes come and go with weight 0 and forces stay continuous.
//!
//! Force law: the sum over the overlap of k times minus the gradient of depth, k in N/m^3. It is minus the gradient of
//! k times the integral of depth over the overlap, so closed loops of poses take no work; a flat face of area A
//! pressed h deep is pushed back with k A h. It is the paper's k V n per sphere (section 5.1) with the object's normal
//! at each cell in place of the sphere's.

use super::frame::Frame;
use super::kernel::{add_cells, cap, contribute, see_nodes, sixteen, stake, unpack};
use super::model::{Solid, SphereTree};
use super::sums::{SLACK, Sums};
use super::threshold::threshold;
use super::tree::{Child, Node, WIDTH};
use super::{distance, respond};
use crate::contact::{Bounds, Budget, Contact, Deadline, Query, QueryState};
use crate::geometry::lanes::Lanes;
use crate::geometry::simd::{LANES, Simd, dispatch, level};
use crate::geometry::{Point, Twist};

/// Nodes looked at together.
const TOGETHER: usize = LANES / WIDTH;
/// Room for nodes that wait: each step takes up to four and adds up to sixteen, and no path is longer than the
/// hierarchy is deep. What would not fit stays closed.
pub(super) const STACK: usize = 1024;
/// Steps between two looks at the clock.
const STEPS_A_LOOK: u32 = 16;

/// A node to open.
#[derive(Clone, Copy)]
struct Waiting {
    node: u32,
    /// Its own stake or that of a node above, whichever is less, m^3.
    stake: f32,
    /// Weight of what stands below in the estimate.
    weight: f32,
    /// Its volume was counted in the bounds already.
    certain: bool,
}

/// What a traversal found.
pub(super) struct Found {
    pub(super) sums: Sums,
    /// Nodes and cells looked at.
    pub(super) work: u32,
    /// Everything was opened that could change the answer.
    pub(super) complete: bool,
    pub(super) deadline_hit: bool,
}

/// Answers for a sphere tree against a solid. Real-time safe: no allocation, no panic.
pub(crate) fn query(
    q: &Query<'_>,
    tree: &SphereTree,
    solid: &Solid,
    budget: Budget<'_>,
    state: &mut QueryState,
) -> Contact {
    let field = &*solid.field;
    let relative = q.object_pose.inv_mul(q.tool_pose);
    let back = q.object_pose.rotation.inverse();
    let seen = q.relative_twist();
    let twist = Twist { linear: back * seen.linear, angular: back * seen.angular };
    let Some(frame) = Frame::new(tree, field, &relative, &twist) else {
        return Contact { complete: false, ..Contact::none(None) };
    };
    let apart = |work, distance| Contact {
        work,
        need: work,
        volume: Some(0.0),
        volume_bounds: bounds(tree, solid, 0.0, 0.0),
        ..Contact::none(distance)
    };
    // The whole tool at once.
    let centre: Point = relative * tree.ball_centre;
    let least = -field.depth(&centre) - f64::from(frame.error) - tree.ball_radius;
    if least > 2.0 * tree.ball_radius {
        state.touching = false;
        return apart(1, None);
    }
    let mut work = 0;
    let reach = if budget.units == 0 { u32::MAX } else { (budget.units / distance::SHARE).max(1) };
    if !state.touching {
        let found = distance::query(tree, solid, &frame, &relative, reach, state);
        work = found.work;
        if found.least > 0.0 {
            let depth_bounds = Some(Bounds { lower: -found.most, upper: -found.least });
            return Contact { depth_bounds, ..apart(work, Some(found.distance)) };
        }
    }
    // Unlimited stays so, and of a limited one something is left.
    let units = budget.units.saturating_sub(work).max(u32::from(budget.units > 0));
    let found = traverse(tree, &frame, units, budget.deadline);
    let volume = found.sums.total(super::sums::VOLUME);
    work += found.work;
    let touching = volume > TOUCH * f64::from(frame.cell).powi(3);
    let mut contact = Contact {
        work,
        need: if found.complete { work } else { work.saturating_mul(2) },
        complete: found.complete,
        deadline_hit: found.deadline_hit,
        ..Contact::none(touching.then_some(0.0))
    };
    let sums = &found.sums;
    let lower = sums.lower + sums.total(super::sums::LOWER);
    let upper = sums.upper + sums.total(super::sums::UPPER);
    contact.volume_bounds = bounds(tree, solid, lower, upper);
    let limits = contact.volume_bounds.unwrap_or(Bounds { lower: 0.0, upper: tree.volume });
    contact.volume = Some(volume.clamp(limits.lower, limits.upper.max(limits.lower)));
    if touching {
        contact.touching = true;
        respond::respond(&mut contact, q, tree, &frame, &found.sums);
    } else {
        // Close, but nothing found inside.
        let apart = distance::query(tree, solid, &frame, &relative, reach, state);
        contact.work += apart.work;
        contact.distance = Some(apart.distance);
        if apart.least.is_finite() && apart.most.is_finite() {
            contact.depth_bounds = Some(Bounds { lower: -apart.most, upper: -apart.least });
        }
    }
    state.touching = touching;
    contact
}

/// Volumes below this fraction of a cell are rounding.
const TOUCH: f64 = 1e-6;

/// Bounds on the overlap, widened by what rounding can do; none where one of the bodies is no simple solid.
fn bounds(tree: &SphereTree, solid: &Solid, lower: f64, upper: f64) -> Option<Bounds> {
    if !(tree.exact && solid.exact) {
        return None;
    }
    let body = tree.volume;
    Some(Bounds {
        lower: (lower * (1.0 - SLACK)).clamp(0.0, body),
        upper: (upper * (1.0 + SLACK)).clamp(0.0, body * (1.0 + SLACK)),
    })
}

/// Opens the hierarchy. `units` = 0 opens everything.
pub(super) fn traverse(
    tree: &SphereTree,
    frame: &Frame<'_>,
    units: u32,
    deadline: Option<&dyn Deadline>,
) -> Found {
    let (limit, spent) = if units == 0 { (0.0, 0) } else { threshold(tree, frame, units) };
    let simd = level();
    let mut found = dispatch!(simd, open(
        tree: &SphereTree, frame: &Frame<'_>, limit: f32, deadline: Option<&dyn Deadline>
    ) -> Found);
    found.work = found.work.saturating_add(spent);
    found
}

/// 0 for t <= 0, 1 for t >= 1, smooth between.
#[inline(always)]
fn smooth(t: f32) -> f32 {
    let t = t.clamp(0.0, 1.0);
    t * t * (3.0 - 2.0 * t)
}

#[inline(always)]
fn open<S: Simd>(
    simd: S,
    tree: &SphereTree,
    frame: &Frame<'_>,
    limit: f32,
    deadline: Option<&dyn Deadline>,
) -> Found {
    let mut limit = limit;
    let mut found = Found { sums: Sums::new(), work: 0, complete: true, deadline_hit: false };
    let root = Waiting { node: 0, stake: f32::INFINITY, weight: 1.0, certain: false };
    let mut stack = [root; STACK];
    let mut top = usize::from(!tree.nodes.is_empty());
    let mut steps = 0u32;
    while top > 0 {
        steps += 1;
        if steps.is_multiple_of(STEPS_A_LOOK) && !found.deadline_hit && deadline.is_some_and(Deadline::passed)
        {
            // What waits is still looked at, but nothing more is opened.
            found.deadline_hit = true;
            limit = f32::INFINITY;
        }
        let mut taken = [Waiting { node: u32::MAX, stake: 0.0, weight: 0.0, certain: true }; TOGETHER];
        for slot in &mut taken {
            if top == 0 {
                break;
            }
            top -= 1;
            *slot = stack[top & (STACK - 1)];
        }
        let mut nodes = [&NOTHING; TOGETHER];
        for i in 0..TOGETHER {
            nodes[i] = node_at(tree, taken[i].node);
        }
        let columns = sixteen(nodes);
        let seen = see_nodes(simd, frame, &columns);
        let stakes = stake(simd, frame, &columns, seen.depth).store();
        let depth = seen.depth.store();
        let mut weights = [0.0f32; LANES];
        for lane in 0..LANES {
            let from = &taken[lane / WIDTH];
            let child = nodes[lane / WIDTH].child(lane % WIDTH);
            if child == Child::Empty {
                continue;
            }
            found.work += 1;
            let (r, d, v) = (columns.r[lane], depth[lane], columns.volume[lane]);
            let own = from.stake.min(stakes[lane]);
            let inside = d - frame.error >= r;
            let outside = d + frame.error <= -r;
            let mut opened = own > limit && top + LANES <= STACK;
            if own > 0.0 && !opened {
                found.complete = false;
            }
            let mut below = 0.0;
            if opened {
                let alone = if d > r { smooth((d / r - 1.0) / (columns.deep[lane] - 1.0)) } else { 0.0 };
                let full = if limit > 0.0 { smooth(own / limit - 1.0) } else { 1.0 };
                below = from.weight * (1.0 - alone) * full;
                if full < 1.0 {
                    found.complete = false;
                }
                opened = below > 0.0 || !(inside || from.certain);
            }
            weights[lane] = from.weight - below;
            let mut certain = from.certain;
            if !certain {
                if inside {
                    found.sums.lower += f64::from(v);
                    found.sums.upper += f64::from(v);
                    certain = true;
                } else if outside {
                    certain = true;
                } else if !opened {
                    found.sums.upper += f64::from(v);
                }
            }
            if !opened {
                continue;
            }
            match child {
                Child::Node(node) => {
                    stack[top & (STACK - 1)] = Waiting { node, stake: own, weight: below, certain };
                    top += 1;
                }
                Child::Group(first, count) => {
                    found.work += count;
                    let end = first as usize + count as usize;
                    let mut at = first as usize;
                    while at < end {
                        if let Some(block) = unpack(&tree.cells, at, end - at) {
                            add_cells(simd, frame, &block, below, certain, &mut found.sums);
                        }
                        at += LANES;
                    }
                }
                Child::Empty => {}
            }
        }
        if simd.gt_bits(simd.load(&weights), simd.splat(0.0)) != 0 {
            let (inside, slope) = cap(simd, seen.depth, Lanes::load(simd, &columns.spread));
            let volume = Lanes::load(simd, &columns.volume) * Lanes::load(simd, &weights);
            if simd.gt_bits((inside * volume).bare(), simd.splat(0.0)) != 0 {
                contribute(simd, frame, &seen, volume, (inside, slope), &mut found.sums);
            }
        }
    }
    found.sums.flush(simd);
    found
}

/// Stands in for nodes that are not there.
pub(super) static NOTHING: Node = Node::EMPTY;

#[inline(always)]
pub(super) fn node_at(tree: &SphereTree, index: u32) -> &Node {
    match tree.nodes.get(index as usize) {
        Some(node) => node,
        None => &NOTHING,
    }
}
