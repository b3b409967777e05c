//! Separation: the hierarchy finds where the bodies may be closest, their triangles say how close.
//!
//! A node's ball is at least minus its centre's depth less its radius away. Cells that come close to the smallest
//! estimate are gathered, apart from each other; from each one the closest points of the two surfaces are found by
//! projecting back and forth and by the exact distance of the two triangles. The triangles of the last answer start
//! the next one (Weller & Zachmann 2009, sections 4.1.1 and 4.1.2). The distance is that of two points of the surfaces
//! and so never too small; the bound below comes from the field alone.

use super::cells::{see_cells, unpack};
use super::frame::Frame;
use super::kernel::read_depth;
use super::kernel::store;
use super::model::{Solid, SphereTree};
use super::nodes::{node_places, sixteen};
use super::tree::{Child, WIDTH};
use super::triangles::closest_of_triangles;
use super::volume::{NOTHING, STACK, STEPS_A_LOOK, node_at};
use crate::contact::{Bounds, Deadline, QueryState};
use crate::geometry::bvh::Closest;
use crate::geometry::lanes::Constants;
use crate::geometry::simd::{LANES, Simd, dispatch, level};
use crate::geometry::{Point, Pose, Vec3};

/// Places from which the closest points are sought.
const PLACES: usize = 6;
/// Back and forth at most so often from one place.
const ROUNDS: usize = 8;
/// Cosine from which the side of one triangle at an edge or corner is that of the body: edges of 26 degrees and blunter.
const STRAIGHT: f64 = 0.9;

/// How far apart.
pub(super) struct Apart {
    /// Distance of the closest points found, m.
    pub(super) distance: f64,
    /// The bodies are at least this far apart; not positive when they may touch.
    pub(super) least: f64,
    /// The bodies are at most this far apart.
    pub(super) most: f64,
    /// Nodes and cells looked at, and what the searches for closest points count.
    pub(super) work: u32,
    /// The time was over before the end.
    pub(super) late: bool,
    /// Everything was looked at that may be closest.
    pub(super) complete: bool,
    /// The surfaces cross, or a point of the one was found inside the other.
    pub(super) overlap: bool,
    /// 1, falling to 0 as the last part of the units goes: an answer that depends on `complete` would leap. It falls by steps, of
    /// a search each: small ones where there are many units.
    pub(super) sure: f64,
}

impl Apart {
    /// Bounds on signed penetration, where both sides are known.
    pub(super) fn bounds(&self) -> Option<Bounds> {
        let known = self.least.is_finite() && self.most.is_finite();
        known.then_some(Bounds { lower: -self.most, upper: -self.least })
    }
}

/// Part of a budget that may go into finding out how far apart the bodies are.
pub(super) const SHARE: u32 = 4;
/// Of that, what is left when [`Apart::sure`] begins to fall; and the units that may go at once, left when it has fallen.
const LAST: f64 = 0.25;
const AT_ONCE: u32 = 96;
/// What a search for the closest point of a surface counts: the time of so many nodes or cells, about.
const SEARCH_WORK: u32 = 16;

/// What is left of the budget.
pub(super) struct Purse<'a> {
    pub(super) work: u32,
    pub(super) units: u32,
    pub(super) deadline: Option<&'a dyn Deadline>,
    /// The time was over before the end.
    pub(super) late: bool,
    /// Something was not looked at.
    pub(super) short: bool,
}

impl Purse<'_> {
    /// False when so many searches go beyond units or time; notes that something was left out.
    pub(super) fn pay(&mut self, searches: u32) -> bool {
        let cost = searches * SEARCH_WORK;
        self.late |= self.deadline.is_some_and(Deadline::passed);
        if self.late || self.work.saturating_add(cost) > self.units {
            self.short = true;
            return false;
        }
        self.work += cost;
        true
    }

    fn sure(&self) -> f64 {
        if self.late || self.short {
            return 0.0;
        }
        let left = f64::from(self.units.saturating_sub(self.work).saturating_sub(AT_ONCE));
        if self.units == u32::MAX { 1.0 } else { (left / (LAST * f64::from(self.units.max(1)))).min(1.0) }
    }
}

/// Closest points found so far, in the object's frame.
#[derive(Clone, Copy)]
struct Pair {
    distance: f64,
    tool: Point,
    triangles: [u32; 2],
    /// The triangles meet, or each one's point is the other surface's closest and lies behind it.
    overlap: bool,
}

/// A cell that may be closest.
#[derive(Clone, Copy)]
struct Place {
    /// Estimate of its distance, m.
    estimate: f32,
    at: [f32; 3],
}

/// `units` limits the work, `deadline` the time: with either of them over, what is known so far is the answer. Real-time safe.
pub(super) fn query(
    tree: &SphereTree,
    solid: &Solid,
    frame: &Frame<'_>,
    relative: &Pose,
    (units, deadline): (u32, Option<&dyn Deadline>),
    state: &mut QueryState,
) -> Apart {
    let surfaces = Surfaces { tree, solid, relative };
    let mut best =
        Pair { distance: f64::INFINITY, tool: Point::origin(), triangles: [u32::MAX; 2], overlap: false };
    let mut purse = Purse { work: 0, units, deadline, late: false, short: false };
    let (mut settled, mut overlap) = (true, false);
    if state.closest.iter().all(|t| *t > 0)
        && let Some(seed) = surfaces.exact(state.closest.map(|t| t - 1))
    {
        best = seed;
        settled = false;
    }
    let simd = level();
    let known = best.distance as f32;
    let near = dispatch!(simd, search(
        tree: &SphereTree, frame: &Frame<'_>, known: f32, units: u32, deadline: Option<&dyn Deadline>
    ) -> Near);
    (purse.work, purse.late, purse.short) = (near.work, near.late, near.cut);
    if near.inside {
        return Apart {
            distance: 0.0,
            least: f64::NEG_INFINITY,
            most: f64::INFINITY,
            work: near.work,
            late: near.late,
            complete: true,
            overlap: true,
            sure: 1.0,
        };
    }
    // Estimates within so much of the smallest may be the smallest; places so near each other lead to the same pair.
    let slack = tolerance(frame);
    let apart = f64::from(2.0 * frame.cell);
    let mut left = near.places;
    let mut first_try = true;
    loop {
        let mut first = 0;
        for i in 1..PLACES {
            if left[i].estimate < left[first].estimate {
                first = i;
            }
        }
        let place = left[first];
        if !(place.estimate.is_finite()
            && f64::from(place.estimate) <= best.distance.min(f64::from(near.smallest)) + slack)
        {
            break;
        }
        left[first].estimate = f32::INFINITY;
        let at = solid.field.origin + Vec3::from(place.at.map(f64::from)) * solid.field.cell;
        // The likeliest place is always tried: two minima can lie close together.
        if !first_try && (at - best.tool).norm() < apart {
            continue;
        }
        first_try = false;
        if let Some(found) = surfaces.from(&at, best.triangles, &mut purse) {
            overlap |= found.overlap;
            if found.distance < best.distance {
                best = found;
                settled = true;
            }
        }
    }
    if !settled {
        best = surfaces.settle(best, &mut purse);
        overlap |= best.overlap;
    }
    state.closest = best.triangles.map(|t| t.wrapping_add(1));
    // A little more than was found, for what rounding can do.
    let most = (best.distance * (1.0 + 1e-8) + 1e-9 * tree.ball_radius).min(f64::from(near.most));
    // Without a pair of points the cells say it, or the least that the search came by.
    let guess = f64::from(near.smallest).max(0.0).min(most);
    let distance = if best.distance.is_finite() { best.distance } else { guess };
    Apart {
        distance: if overlap { 0.0 } else { distance },
        least: f64::from(near.least).min(most),
        most,
        work: purse.work,
        late: purse.late,
        complete: !purse.short,
        overlap,
        sure: purse.sure(),
    }
}

/// By how much estimates may be off, m.
fn tolerance(frame: &Frame<'_>) -> f64 {
    f64::from(0.15 * frame.cell + 0.1 * frame.grid_cell)
}

/// The closest points of the two triangles that the last query left as closest, the tool's first, in the object's frame. Real-time safe.
pub(crate) fn witnesses(
    tree: &SphereTree,
    solid: &Solid,
    relative: &Pose,
    state: &QueryState,
) -> Option<[Point; 2]> {
    let [tool, object] = state.closest;
    Surfaces { tree, solid, relative }.closest([tool.checked_sub(1)?, object.checked_sub(1)?])
}

/// The two surfaces in one frame.
struct Surfaces<'a> {
    tree: &'a SphereTree,
    solid: &'a Solid,
    relative: &'a Pose,
}

impl Surfaces<'_> {
    /// Closest points of two triangles, the tool's first.
    fn closest(&self, [tool, object]: [u32; 2]) -> Option<[Point; 2]> {
        let tool = self.tree.bvh.corners_of(tool)?.map(|p| self.relative * p);
        Some(closest_of_triangles(&tool, self.solid.bvh.corners_of(object)?).into())
    }

    /// The same as a pair.
    fn exact(&self, triangles: [u32; 2]) -> Option<Pair> {
        let [a, b] = self.closest(triangles)?;
        let distance = (a - b).norm();
        Some(Pair { distance, tool: a, triangles, overlap: distance <= 0.0 })
    }

    /// Starts at a place in the object's frame, with triangles that may be near. `None` where it only leads to these.
    fn from(&self, place: &Point, known: [u32; 2], purse: &mut Purse<'_>) -> Option<Pair> {
        if !purse.pay(2) {
            return None;
        }
        let b = self.solid.bvh.closest_from(place, known[1]);
        let a = self.tree.bvh.closest_from(&self.relative.inverse_transform_point(&b.point), known[0]);
        if !(a.found() && b.found()) || [a.triangle, b.triangle] == known {
            return None;
        }
        self.exact([a.triangle, b.triangle]).map(|p| self.settle(p, purse))
    }

    /// True when the closest points of a pair, the object's being `other`, lie behind each other's triangles, and one of them
    /// so straight (a cosine of at least `straight`) that no other triangle of the same edge or corner says otherwise.
    fn behind(&self, pair: &Pair, other: &Closest, straight: f64) -> bool {
        let way = other.point - pair.tool;
        let normal = |t: [Point; 3]| (t[1] - t[0]).cross(&(t[2] - t[0]));
        let along = |n: Vec3| n.dot(&way) / (n.norm() * way.norm());
        let tool = self.tree.bvh.corners_of(pair.triangles[0]).map(|t| normal(t.map(|p| self.relative * p)));
        let object = self.solid.bvh.corners_of(other.triangle).map(|t| normal(*t));
        let (Some(tool), Some(object)) = (tool.map(along), object.map(along)) else { return false };
        tool < 0.0 && object > 0.0 && object.max(-tool) >= straight
    }

    /// Back and forth until nothing comes closer. Of points that several triangles share any one is found, so a pair that
    /// comes no closer is asked as well as one that stays the same.
    fn settle(&self, start: Pair, purse: &mut Purse<'_>) -> Pair {
        let mut best = start;
        for round in 1..=ROUNDS {
            if !purse.pay(2) {
                break;
            }
            let b = self.solid.bvh.closest_from(&best.tool, best.triangles[1]);
            let a = self
                .tree
                .bvh
                .closest_from(&self.relative.inverse_transform_point(&b.point), best.triangles[0]);
            if !(a.found() && b.found()) {
                break;
            }
            if [a.triangle, b.triangle] == best.triangles {
                best.overlap |= self.behind(&best, &b, 0.0);
                break;
            }
            let Some(next) = self.exact([a.triangle, b.triangle]) else { break };
            let gain = best.distance - next.distance;
            if gain <= 1e-7 * best.distance || round == ROUNDS {
                let overlap = self.behind(&best, &b, STRAIGHT);
                best = if gain > 0.0 { next } else { best };
                best.overlap |= overlap;
                break;
            }
            best = next;
        }
        best
    }
}

/// What the hierarchy says.
struct Near {
    places: [Place; PLACES],
    smallest: f32,
    least: f32,
    most: f32,
    work: u32,
    /// A cell's centroid was found inside the object.
    inside: bool,
    /// The time was over before the end.
    late: bool,
    /// Something that may be closest was not looked at.
    cut: bool,
}

#[inline(always)]
fn search<S: Simd>(
    simd: S,
    tree: &SphereTree,
    frame: &Frame<'_>,
    known: f32,
    units: u32,
    deadline: Option<&dyn Deadline>,
) -> Near {
    const NOWHERE: Place = Place { estimate: f32::INFINITY, at: [0.0; 3] };
    let mut near = Near {
        places: [NOWHERE; PLACES],
        smallest: f32::INFINITY,
        least: f32::INFINITY,
        most: f32::INFINITY,
        work: 0,
        inside: false,
        late: false,
        cut: false,
    };
    let slack = tolerance(frame) as f32;
    // The smallest distance that is known to be reached.
    let mut reached = known;
    let mut stack = [(0u32, f32::NEG_INFINITY); STACK];
    let mut top = usize::from(!tree.nodes.is_empty());
    let mut steps = 0u32;
    while top > 0 {
        steps += 1;
        let late = steps.is_multiple_of(STEPS_A_LOOK) && deadline.is_some_and(Deadline::passed);
        near.late |= late;
        if near.inside || near.work > units || late {
            // They overlap, or the budget is spent: nothing is known of what waits.
            near.least = f32::NEG_INFINITY;
            near.cut = !near.inside;
            return near;
        }
        let mut taken = [u32::MAX; LANES / WIDTH];
        let mut used = 0;
        while top > 0 && used < taken.len() {
            top -= 1;
            let (node, bound) = stack[top & (STACK - 1)];
            if bound > reached + slack {
                near.least = near.least.min(bound - frame.error);
                continue;
            }
            taken[used] = node;
            used += 1;
        }
        let mut nodes = [&NOTHING; LANES / WIDTH];
        for i in 0..LANES / WIDTH {
            nodes[i] = node_at(tree, taken[i]);
        }
        let columns = sixteen(nodes);
        let depth = read_depth(simd, frame, node_places(simd, frame, &columns)).store();
        // Nearest last, so that they are taken first.
        let mut waiting = [(f32::NEG_INFINITY, 0u8); LANES];
        let mut count = 0;
        for lane in 0..LANES {
            if nodes[lane / WIDTH].child(lane % WIDTH) == Child::Empty {
                continue;
            }
            near.work += 1;
            let (r, d) = (columns.r[lane], depth[lane]);
            if d - frame.error >= r {
                // Wholly inside: they overlap, and that is all there is to know here.
                near.least = f32::NEG_INFINITY;
                near.inside = true;
                return near;
            }
            // Outside the grid the depth is a bound; the distance is within sqrt(2) of it.
            let outer = if d < 0.0 { -d * std::f32::consts::SQRT_2 } else { -d };
            near.most = near.most.min((outer + r + frame.error).max(0.0));
            reached = reached.min(outer + r);
            let bound = -d - r;
            let mut at = count;
            while at > 0 && waiting[at - 1].0 < bound {
                waiting[at] = waiting[at - 1];
                at -= 1;
            }
            waiting[at] = (bound, lane as u8);
            count += 1;
        }
        for &(bound, lane) in &waiting[..count] {
            if bound > reached + slack {
                near.least = near.least.min(bound - frame.error);
                continue;
            }
            match nodes[usize::from(lane) / WIDTH].child(usize::from(lane) % WIDTH) {
                Child::Node(node) if top < STACK => {
                    stack[top & (STACK - 1)] = (node, bound);
                    top += 1;
                }
                Child::Group(first, cells) if near.work.saturating_add(cells) <= units => {
                    near.work += cells;
                    group(simd, tree, frame, (first, cells), &mut near, &mut reached);
                }
                // What is nearest lies on the surface; a box only matters where the object may lie within the tool.
                Child::Box => {
                    near.inside |= depth[usize::from(lane)] > frame.error;
                    if bound - frame.error <= 0.0 {
                        near.least = near.least.min(bound - frame.error);
                    }
                }
                _ => {
                    near.cut = true;
                    near.least = near.least.min(bound - frame.error);
                }
            }
        }
    }
    near
}

/// Looks at the cells of a group.
#[inline(always)]
fn group<S: Simd>(
    simd: S,
    tree: &SphereTree,
    frame: &Frame<'_>,
    (first, cells): (u32, u32),
    near: &mut Near,
    reached: &mut f32,
) {
    let apart = 2.0 * frame.cell / frame.grid_cell;
    let slack = tolerance(frame) as f32;
    let (mut index, mut left) = (first as usize, cells as usize);
    while left > 0 {
        let Some(block) = unpack(simd, &tree.cells, index, left) else { return };
        let cells = see_cells(simd, frame, &block);
        // Nothing lies in the places past the last cell.
        let k = Constants(simd);
        let (zero, nowhere) = (k.of(0.0), k.of(f32::NEG_INFINITY));
        let fraction = k.at(&block.fraction);
        let depth = fraction.at_most(zero, nowhere, cells.seen.depth);
        let near_by = fraction.at_most(zero, nowhere, cells.seen.depth + cells.half);
        let (deepest, nearest) = (simd.reduce_max(depth.bare()), -simd.reduce_max(near_by.bare()));
        // From the solid part's centroid to the farthest corner of its cube.
        let reach = frame.cell * 1.74;
        near.least = near.least.min(-deepest - reach - frame.error);
        near.inside |= deepest > 0.0;
        near.smallest = near.smallest.min(nearest);
        *reached = reached.min(nearest.max(0.0));
        let mut bits = simd.gt_bits(near_by.bare(), k.of(-*reached - slack).bare());
        if bits != 0 {
            let (near_by, at) = (near_by.store(), store(cells.seen.at));
            while bits != 0 {
                let i = bits.trailing_zeros() as usize & (LANES - 1);
                bits &= bits - 1;
                let place = Place { estimate: -near_by[i], at: [at[0][i], at[1][i], at[2][i]] };
                keep(&mut near.places, place, apart);
            }
        }
        left = left.saturating_sub(LANES);
        index += 1;
    }
}

/// Keeps the smallest estimates that lie apart from each other.
#[inline(always)]
fn keep(places: &mut [Place; PLACES], place: Place, apart: f32) {
    let mut worst = 0;
    for i in 0..PLACES {
        let near = |axis: usize| (places[i].at[axis] - place.at[axis]).powi(2);
        if places[i].estimate.is_finite() && near(0) + near(1) + near(2) < apart * apart {
            if place.estimate < places[i].estimate {
                places[i] = place;
            }
            return;
        }
        if places[i].estimate > places[worst].estimate {
            worst = i;
        }
    }
    if place.estimate < places[worst].estimate {
        places[worst] = place;
    }
}
