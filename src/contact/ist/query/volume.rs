//! The query: volume, wrench and bounds where the bodies meet, separation where they do not.
//!
//! The hierarchy is opened from the top. A node clearly inside the object counts whole and one clearly outside not at
//! all; what lies between, or large and across the object's medial surface, is opened as long as its stake, the volume
//! that opening it can still change, exceeds a threshold. Unlimited queries have the threshold 0; for a budget it is chosen so that the work fits. Stakes fall
//! monotonically down the hierarchy, so that the nodes opened are those that a priority queue would have opened
//! (Weller & Zachmann 2009, section 4.2.3), without the queue. Close above the threshold a node's own estimate is
//! blended with that of its children: as the pose moves, nodes come and go with weight 0 and forces stay continuous.
//!
//! Force law: the sum over the overlap of k times minus the gradient of depth, k in N/m^3. It is minus the gradient of
//! k times the integral of depth over the overlap, so closed loops of poses take no work; a flat face of area A
//! pressed h deep is pushed back with k A h. It is the paper's k V n per sphere (section 5.1) with the object's normal
//! at each cell in place of the sphere's.

use super::boxes::{Boxes, Cut, FINER_STAKE, FINEST_WORK, add_boxes};
use super::cells::{FACE, contribute, deepest};
use super::frame::Frame;
use super::groups::{Group, Groups, add_groups};
use super::kernel::{Seen, read, smooth, store};
use super::model::{Solid, SphereTree};
use super::nodes::{EVEN_WORK, node_places, sixteen, weigh};
use super::sums::{LOWER, SLACK, Sums, UPPER};
use super::threshold::threshold;
use super::tree::{Child, Node, WIDTH};
use super::{distance, respond};
use crate::contact::{Bounds, Budget, Contact, Deadline, Query, QueryState};
use crate::geometry::lanes::{Constants, F, Lanes};
use crate::geometry::simd::{LANES, Simd, dispatch, level, prefetch};
use crate::geometry::{Point, Twist};

/// Nodes looked at together.
const TOGETHER: usize = LANES / WIDTH;
/// Room for nodes that wait: each step takes up to four and adds up to sixteen, and no path is longer than the
/// hierarchy is deep. What would not fit stays closed.
pub(super) const STACK: usize = 1024;
/// Steps between two looks at the clock.
pub(super) const STEPS_A_LOOK: u32 = 16;

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

/// Answers for a sphere tree against a solid. Real-time safe: no allocation, no panic. Whether the bodies touch is decided by
/// what is proven of the volume, else by the surfaces.
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
    let Some(mut frame) = Frame::new(tree, field, &relative, &twist) else {
        return Contact { complete: false, ..Contact::none(None) };
    };
    frame.rubs = q.material.friction.rubs();
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
    let reach = if budget.units == 0 { u32::MAX } else { (budget.units / distance::SHARE).max(1) };
    let mut separation = None;
    if !state.touching {
        let found = distance::query(tree, solid, &frame, &relative, (reach, budget.deadline), state);
        if found.least > 0.0 {
            let need =
                if found.complete { found.work } else { found.work.saturating_mul(2 * distance::SHARE) };
            return Contact {
                depth_bounds: found.bounds(),
                need,
                complete: found.complete,
                deadline_hit: found.late,
                ..apart(found.work, Some(found.distance))
            };
        }
        separation = Some(found);
    }
    let mut work = separation.as_ref().map_or(0, |s| s.work);
    // What the search left over of its share is not handed on: it changes with the pose by leaps, and forces would with it.
    let share = if separation.is_some() { budget.units / distance::SHARE } else { 0 };
    let units = (budget.units - share).max(u32::from(budget.units > 0));
    let found = traverse(tree, &frame, units, budget.deadline);
    work += found.work;
    let sums = &found.sums;
    let volume = sums.total(super::sums::VOLUME);
    let felt = volume > TOUCH * f64::from(frame.cell).powi(3);
    let lower = sums.lower + sums.total(super::sums::LOWER);
    let upper = sums.upper + sums.total(super::sums::UPPER);
    // Where no overlap is proven the surfaces themselves are asked: the field is good to part of a cell.
    let mut touching = felt || lower > 0.0;
    if lower <= 0.0 {
        let seen = match separation {
            Some(seen) => seen,
            None => {
                let seen = distance::query(tree, solid, &frame, &relative, (reach, budget.deadline), state);
                work += seen.work;
                seen
            }
        };
        touching = seen.overlap || (felt && !seen.complete);
        separation = Some(seen);
    }
    let late = separation.as_ref().is_some_and(|s| s.late);
    let complete = found.complete && separation.as_ref().is_none_or(|s| s.complete);
    let mut contact = Contact {
        work,
        need: if complete { work } else { work.saturating_mul(2) },
        complete: complete && !late,
        deadline_hit: found.deadline_hit || late,
        touching,
        ..Contact::none(touching.then_some(0.0))
    };
    contact.volume_bounds = bounds(tree, solid, lower, upper);
    let limits = contact.volume_bounds.unwrap_or(Bounds { lower: 0.0, upper: tree.volume });
    contact.volume = Some(volume.clamp(limits.lower, limits.upper.max(limits.lower)));
    if felt {
        respond::respond(&mut contact, q, tree, &frame, &found.sums, budget.deadline);
    }
    if let (false, Some(seen)) = (touching, &separation) {
        contact.volume = Some(0.0);
        contact.distance = Some(seen.distance);
        contact.depth_bounds = seen.bounds();
        // What the field shows of a touch that is none fades with the distance, so that forces stay continuous; less and less
        // as the budget leaves the distance in doubt, since without it what is felt counts as a touch.
        respond::fade(&mut contact, tree, seen.distance * seen.sure, FADE * f64::from(frame.cell));
    }
    state.touching = touching;
    contact
}

/// Cells of distance over which a force fades that only the field's error shows.
const FADE: f64 = 0.25;

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

#[inline(always)]
fn open<S: Simd>(
    simd: S,
    tree: &SphereTree,
    frame: &Frame<'_>,
    limit: f32,
    deadline: Option<&dyn Deadline>,
) -> Found {
    let k = Constants(simd);
    let (zero, one) = (k.of(0.0), k.of(1.0));
    let mut limit = limit;
    let mut found = Found { sums: Sums::new(frame.rubs), work: 0, complete: true, deadline_hit: false };
    let (mut groups, mut boxes) = (Groups::new(), Boxes::new());
    let root = Waiting { node: 0, stake: f32::INFINITY, weight: 1.0, certain: false };
    let mut stack = [root; STACK];
    let mut top = usize::from(!tree.nodes.is_empty());
    let mut steps = 0u32;
    while top > 0 {
        steps += 1;
        if steps.is_multiple_of(STEPS_A_LOOK) && !found.deadline_hit && deadline.is_some_and(Deadline::passed)
        {
            // What waits is still looked at, but nothing more is opened, nor are bounds of its boxes sought.
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
        // Without room for all children nothing more is opened.
        let least = if top + LANES <= STACK { limit } else { f32::INFINITY };
        let mut nodes = [&NOTHING; TOGETHER];
        let (mut from_stake, mut from_weight, mut fresh) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
        let mut from_certain = 0u16;
        for i in 0..TOGETHER {
            nodes[i] = node_at(tree, taken[i].node);
            for lane in WIDTH * i..WIDTH * (i + 1) {
                from_stake[lane] = taken[i].stake;
                from_weight[lane] = taken[i].weight;
                fresh[lane] = if taken[i].certain { 0.0 } else { 1.0 };
            }
            from_certain |= u16::from(taken[i].certain) * (0xf << (WIDTH * i));
        }
        let columns = sixteen(nodes);
        let seen = read(simd, frame, node_places(simd, frame, &columns));
        let (depth, r) = (seen.depth, k.at(&columns.r));
        let weighed = weigh(simd, frame, (&columns, nodes), (seen.at, depth), !found.deadline_hit);
        let own = k.at(&from_stake).min(weighed.stake);
        let (mut alone, mut mean) = (weighed.alone, seen.gradient);
        if let Some(even) = &weighed.even {
            alone = alone * (one - even.uneven);
            mean = even.gradient(simd, frame, &columns, mean);
            found.work += EVEN_WORK * weighed.large.count_ones();
        } else if weighed.large != 0 {
            found.complete = false;
        }
        let weight = k.at(&from_weight);

        // Which are there, which are to be opened, and with what weight their children stand for them.
        let there = simd.gt_bits(r.bare(), zero.bare());
        found.work += there.count_ones();
        let wanted = there & simd.gt_bits(own.bare(), k.of(least).bare());
        if there & simd.gt_bits(own.bare(), zero.bare()) & !wanted != 0 {
            found.complete = false;
        }
        let full = if least > 0.0 { smooth(simd, own / k.of(least) - one) } else { one };
        if wanted & simd.gt_bits(one.bare(), full.bare()) != 0 {
            found.complete = false;
        }
        let below = own.at_most(k.of(least), zero, weight * (one - alone) * full);
        let finer = if least > 0.0 { smooth(simd, own * k.of(FINER_STAKE / least) - one) } else { one };
        let error = k.of(frame.error);
        let inside = simd.gt_bits((depth - error).bare(), r.bare());
        let outside = simd.gt_bits((zero - depth - error).bare(), r.bare());
        let decided = from_certain | inside | outside;
        let opened = wanted & (simd.gt_bits(below.bare(), zero.bare()) | !(inside | from_certain));

        // Bounds: what is inside counts on both sides; of what is cut and stays closed the box is asked.
        if there & inside & !from_certain != 0 {
            let whole = (depth - error).at_most(r, zero, k.at(&columns.volume) * k.at(&fresh));
            sums_of(simd, &mut found.sums, whole);
        }
        let mut closed = there & !decided & !opened;
        if found.deadline_hit && closed != 0 {
            let mut most = [0.0; LANES];
            for lane in (0..LANES).filter(|lane| closed >> lane & 1 != 0) {
                most[lane] = fresh[lane] * columns.volume[lane];
            }
            found.sums.add(simd, UPPER, k.at(&most));
            found.sums.block(simd);
            closed = 0;
        }

        let volume = k.at(&columns.volume);
        let deep_enough = volume * weight * alone;
        if simd.gt_bits(deep_enough.bare(), zero.bare()) != 0 {
            let seen = Seen { gradient: mean, ..seen };
            deepest(simd, frame, &seen, r * k.of(FACE), deep_enough, &mut found.sums);
            contribute(simd, frame, &seen, deep_enough, (one, zero), &mut found.sums);
        }
        // What a budget keeps closed; no place of a node is deeper than its centre and radius.
        let shut = weight * (one - alone) * (one - full);
        let felt = simd.gt_bits(((depth + r) * shut * volume).bare(), zero.bare());
        if opened | closed | felt == 0 {
            continue;
        }
        let (own, below, finer, depths) = (own.store(), below.store(), finer.store(), depth.store());
        let shut = shut.store();
        let (at, gradient) = (store(seen.at), store(seen.gradient));
        let of = |v: &[F; 3], lane: usize| [v[0][lane], v[1][lane], v[2][lane]];
        let mut left = opened | closed | felt;
        while left != 0 {
            let lane = left.trailing_zeros() as usize & (LANES - 1);
            left &= left - 1;
            let certain = decided >> lane & 1 != 0;
            let (parent, slot) = (nodes[lane / WIDTH], lane % WIDTH);
            let is_open = opened >> lane & 1 != 0;
            let child = parent.child(slot);
            let cut = is_open && child == Child::Box;
            if cut || (closed | felt) >> lane & 1 != 0 {
                if boxes.is_full() {
                    found.work +=
                        add_boxes(simd, &mut boxes, frame, finest(limit, found.work), &mut found.sums);
                }
                found.complete &= !cut || finer[lane] >= 1.0;
                let (middle, half) = parent.bounds(slot, frame.cell);
                boxes.push(&Cut {
                    at: of(&at, lane),
                    gradient: of(&gradient, lane),
                    r: columns.r[lane],
                    spread: columns.spread[lane],
                    volume: columns.volume[lane],
                    middle,
                    half,
                    weight: if cut { below[lane] } else { 0.0 },
                    shut: if felt >> lane & 1 != 0 { shut[lane] } else { 0.0 },
                    fresh: if certain || found.deadline_hit || (is_open && !cut) { 0.0 } else { 1.0 },
                    finer: if cut { finer[lane] } else { 0.0 },
                });
            }
            if !is_open {
                continue;
            }
            match child {
                Child::Node(node) => {
                    prefetch(node_at(tree, node));
                    stack[top & (STACK - 1)] =
                        Waiting { node, stake: own[lane], weight: below[lane], certain };
                    top += 1;
                }
                Child::Group(first, count) => {
                    if groups.is_full() {
                        found.work += add_groups(simd, &mut groups, tree, frame, &mut found.sums);
                    }
                    let group = Group {
                        cells: (first, count),
                        weight: below[lane],
                        certain,
                        at: of(&at, lane),
                        depth: depths[lane],
                        gradient: of(&gradient, lane),
                        r: columns.r[lane],
                        volume: columns.volume[lane],
                    };
                    groups.push(tree, &group);
                }
                Child::Box | Child::Empty => {}
            }
        }
    }
    if !boxes.is_empty() {
        found.work += add_boxes(simd, &mut boxes, frame, finest(limit, found.work), &mut found.sums);
    }
    if !groups.is_empty() {
        found.work += add_groups(simd, &mut groups, tree, frame, &mut found.sums);
    }
    groups.finish(simd, frame, &mut found.sums);
    found.sums.finish(simd);
    found
}

/// Whether the bounds of boxes go down to the last level.
fn finest(limit: f32, work: u32) -> bool {
    limit <= 0.0 && work <= FINEST_WORK
}

/// Adds volumes to both bounds.
#[inline(always)]
fn sums_of<S: Simd>(simd: S, sums: &mut Sums, volume: Lanes<S>) {
    sums.add(simd, LOWER, volume);
    sums.add(simd, UPPER, volume);
    sums.block(simd);
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
