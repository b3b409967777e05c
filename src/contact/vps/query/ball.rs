//! Which balls of a shell may touch: sixteen at a time against the field.

use crate::contact::vps::tree::{Tier, Tree};
use crate::geometry::field::Field;
use crate::geometry::field::block::{Cells, Grid, Spot};
use crate::geometry::simd::{LANES, Simd, SimdLevel, dispatch};
use crate::geometry::{Pose, Vec3};

/// Sixteens whose places are known before the first of them is read: by then the CPU has fetched its cells.
pub(super) const AHEAD: usize = 4;
/// Power of two above [`AHEAD`].
pub(super) const SPOTS: usize = 8;
/// Scratch memory for the sixteens under way.
pub(super) type Spots = [Spot; SPOTS];

/// Most entries of a [`Found`].
pub(super) const MOST: usize = LANES * LANES;

/// A tool's place in an object's field, and how much deeper than a ball's centre its points may lie.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) grid: Grid<'a>,
    /// Tool frame (m) to grid coordinates: 3 x 3 by rows, then the offset.
    pub(super) to_grid: [f32; 9],
    pub(super) offset: [f32; 3],
    /// 3/4 of the squared cell edge, m^2.
    scatter: f32,
    /// What the field's values may be off between two places (m), rounding included; and rounding alone.
    margin: f32,
    rounding: f32,
    /// Largest change of the field over the distance.
    steep: f32,
    /// How much farther than they are now points count as lying, m.
    reach: f32,
}

impl<'a> Place<'a> {
    /// Of a tool of the given radius (m) at `relative`, its pose in the object's frame; `error` is the field's
    /// [`Field::sample_error`], m. `None` for a broken field.
    pub(super) fn new(field: &'a Field, relative: &Pose, radius: f64, error: f64) -> Option<Self> {
        let grid = Grid::new(field)?;
        let rotation = relative.rotation.to_rotation_matrix();
        let per_cell = 1.0 / field.cell;
        let offset: Vec3 = (relative.translation.vector - field.origin.coords) * per_cell;
        let f = |v: f64| v as f32;
        // Of a ball's transformed centre.
        let rounding = 1e-6 * (radius + relative.translation.vector.norm());
        Some(Self {
            grid,
            to_grid: std::array::from_fn(|i| f(rotation[(i / 3, i % 3)] * per_cell)),
            offset: [f(offset.x), f(offset.y), f(offset.z)],
            scatter: f(0.75 * field.cell * field.cell),
            margin: f(2.0 * (error - 0.75f64.sqrt() * field.cell) + rounding),
            rounding: f(rounding + f64::from(field.scale)),
            steep: f(3f64.sqrt() * (1.01 + (f64::from(field.scale) + 2.0 * field.coarse_error()) * per_cell)),
            reach: 0.0,
        })
    }

    /// For what may touch once each point has gone so far (m) in any direction.
    pub(super) fn reaching(self, reach: f64) -> Self {
        Self { reach: (reach as f32).next_up(), ..self }
    }

    /// Grid coordinates of points of the tool.
    #[inline(always)]
    pub(super) fn coordinates<S: Simd>(&self, s: S, r: [S::F; 3]) -> [S::F; 3] {
        let m = &self.to_grid;
        [
            affine(s, [m[0], m[1], m[2]], r, self.offset[0]),
            affine(s, [m[3], m[4], m[5]], r, self.offset[1]),
            affine(s, [m[6], m[7], m[8]], r, self.offset[2]),
        ]
    }

    /// A gradient along the grid's axes (m a cell, [`Cells::gradient`]) in the tool's frame, m/m: by the transpose of the map
    /// to the grid.
    #[inline(always)]
    pub(super) fn gradient<S: Simd>(&self, s: S, along: [S::F; 3]) -> [S::F; 3] {
        let t = &self.to_grid;
        [
            combine(s, [t[0], t[3], t[6]], along),
            combine(s, [t[1], t[4], t[7]], along),
            combine(s, [t[2], t[5], t[8]], along),
        ]
    }

    /// How far a point of at most this depth (m) can move without touching, m: where `rise` reaches 0. Nothing for a depth
    /// that is positive or no number. Depths bounded by `rise` may be given as well: it grows by no more than that of the
    /// further way.
    pub(super) fn way(&self, most: f32) -> f32 {
        let far = -most - self.margin;
        let near = if far > 0.0 { (far * far - self.scatter).max(0.0).sqrt() } else { 0.0 };
        // A little less for rounding.
        near.max((-most - self.rounding) / self.steep).max(0.0) * (1.0 - 1e-5)
    }

    /// How much deeper than the centre any point of a ball of radius r may be, m.
    ///
    /// The field interpolates values d of nodes, and d changes by at most the distance. It is so a mean of d over a node
    /// drawn at random around the place, each axis for itself with variance at most h^2/4. Draw the nodes of two places
    /// together, axis by axis in the same order: their distance is in the mean at most
    /// sqrt(r^2 + 3 h^2 / 4), and so is the difference of the means, but for what the values are off (`margin`). And as
    /// neighbouring nodes differ by at most a cell, it is at most sqrt(3) r.
    ///
    /// Outside the grid the field is minus the root of b^2 + o^2, with o the distance to the box and -b the value there. A
    /// centre outside for which the sum is not positive has no point inside that touches: with s the distance along the
    /// box's face, b^2 + o^2 >= r^2 + k >= s^2 + o^2 + k, so b >= sqrt(s^2 + k), which is what the face's place allows.
    #[inline(always)]
    fn rise<S: Simd>(&self, s: S, radius: S::F) -> S::F {
        let radius = s.add(radius, s.splat(self.reach));
        let near = s.sqrt(s.add(s.mul(radius, radius), s.splat(self.scatter)));
        let steep = s.add(s.mul(radius, s.splat(self.steep)), s.splat(self.rounding));
        s.min(s.add(near, s.splat(self.margin)), steep)
    }
}

/// The largest depth that any point of the balls `first..first + 16` may have, m.
pub(super) fn most(level: SimdLevel, place: &Place<'_>, tier: &Tier, first: usize) -> [f32; LANES] {
    // A ball that is not there touches nothing; one that cannot be read may.
    let mut each = [f32::INFINITY; LANES];
    let out = &mut each;
    dispatch!(level, mosts(place: &Place<'_>, tier: &Tier, first: usize, out: &mut [f32; LANES]));
    each
}

#[inline(always)]
fn mosts<S: Simd>(s: S, place: &Place<'_>, tier: &Tier, first: usize, out: &mut [f32; LANES]) {
    if let Some((depth, radius)) = depths(s, place, tier, first) {
        s.store(s.add(depth, place.rise(s, radius)), out);
    }
}

/// Indices found, in order.
pub(super) struct Found {
    item: [u32; MOST],
    n: usize,
}

impl Found {
    pub(super) const fn new() -> Self {
        Self { item: [0; MOST], n: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.n = 0;
    }

    /// Adds `first + i` for every bit i.
    #[inline(always)]
    fn add(&mut self, first: u32, mut bits: u16) {
        while bits != 0 {
            if let Some(item) = self.item.get_mut(self.n) {
                *item = first + bits.trailing_zeros();
                self.n += 1;
            }
            bits &= bits - 1;
        }
    }

    /// Adds one; nothing when it is full.
    pub(super) fn push(&mut self, index: u32) {
        self.add(index, 1);
    }

    pub(super) fn items(&self) -> &[u32] {
        self.item.get(..self.n).unwrap_or(&[])
    }
}

/// First ball of at most sixteen, and how many.
pub(super) type Span = (u32, u32);

/// Adds to `found` those balls of the spans (at most [`LANES`]) that may touch, or have a depth at the centre plus the
/// radius above `nearest`: d(x) <= d(c) + r for the true depth d, so no other ball holds a point nearer to the object
/// than that, as well as the field knows it.
pub(super) fn reached(
    level: SimdLevel,
    place: &Place<'_>,
    tier: &Tier,
    spans: &[Span],
    nearest: f32,
    spots: &mut Spots,
    found: &mut Found,
) {
    dispatch!(level, list(place: &Place<'_>, tier: &Tier, spans: &[Span], nearest: f32, spots: &mut Spots, found: &mut Found));
}

#[inline(always)]
fn list<S: Simd>(
    s: S,
    place: &Place<'_>,
    tier: &Tier,
    spans: &[Span],
    nearest: f32,
    spots: &mut Spots,
    found: &mut Found,
) {
    for step in 0..spans.len() + AHEAD {
        if let Some(&(first, _)) = spans.get(step) {
            let Some((u, _)) = balls(s, place, tier, first as usize) else { break };
            place.grid.place(s, u, &mut spots[step % SPOTS]);
        }
        if step >= 1 && step <= spans.len() {
            place.grid.find(&mut spots[(step - 1) % SPOTS]);
        }
        if step < AHEAD {
            continue;
        }
        let Some(&(first, n)) = spans.get(step - AHEAD) else { break };
        let Some(radius) = sixteen(&tier.radius, first as usize) else { break };
        let radius = s.load(radius);
        let depth = Cells::read(s, &place.grid, &spots[(step - AHEAD) % SPOTS]).depth(s);
        found.add(first, bits(s, place, depth, radius, n as usize, nearest));
    }
}

/// [`reached`] for one span: bit i for ball `first + i`.
pub(super) fn over(
    level: SimdLevel,
    place: &Place<'_>,
    tier: &Tier,
    first: usize,
    n: usize,
    nearest: f32,
) -> u16 {
    dispatch!(level, over_bits(place: &Place<'_>, tier: &Tier, first: usize, n: usize, nearest: f32) -> u16)
}

#[inline(always)]
fn over_bits<S: Simd>(s: S, place: &Place<'_>, tier: &Tier, first: usize, n: usize, nearest: f32) -> u16 {
    let Some((depth, radius)) = depths(s, place, tier, first) else { return 0 };
    bits(s, place, depth, radius, n, nearest)
}

#[inline(always)]
fn bits<S: Simd>(s: S, place: &Place<'_>, depth: S::F, radius: S::F, n: usize, nearest: f32) -> u16 {
    let mut bits = s.gt_bits(s.add(depth, place.rise(s, radius)), s.splat(0.0));
    if nearest < f32::INFINITY {
        bits |= s.gt_bits(s.add(depth, radius), s.splat(nearest));
    }
    first_of(bits, n)
}

#[inline(always)]
fn first_of(bits: u16, n: usize) -> u16 {
    if n < LANES { bits & ((1 << n) - 1) } else { bits }
}

/// The ball among `first..first + n` (at most 16) whose centre is deepest.
pub(super) fn deepest(level: SimdLevel, place: &Place<'_>, tier: &Tier, first: usize, n: usize) -> usize {
    let mut each = [f32::NEG_INFINITY; LANES];
    let out = &mut each;
    dispatch!(level, centres(place: &Place<'_>, tier: &Tier, first: usize, out: &mut [f32; LANES]));
    let mut best = 0;
    for (i, &depth) in each.iter().take(n).enumerate() {
        if depth > each.get(best).copied().unwrap_or(f32::INFINITY) {
            best = i;
        }
    }
    first + best
}

#[inline(always)]
fn centres<S: Simd>(s: S, place: &Place<'_>, tier: &Tier, first: usize, out: &mut [f32; LANES]) {
    if let Some((depth, _)) = depths(s, place, tier, first) {
        s.store(depth, out);
    }
}

/// Calls `each` with the first block and the points of every group of blocks of which some may touch, or nearly, in the
/// tree's order, until it says false. Blocks that nearly may count in part, so that the numbers change continuously with
/// the pose; what may touch counts in full.
pub(super) fn soft_groups(
    level: SimdLevel,
    place: &Place<'_>,
    tree: &Tree,
    mut each: impl FnMut(usize, f64) -> bool,
) {
    let [blocks, groups, regions] = &tree.tiers;
    for top in (0..regions.len()).step_by(LANES) {
        let mut hits = about(level, place, regions, top, regions.len() - top);
        while hits != 0 {
            let children = regions.children(top + hits.trailing_zeros() as usize);
            hits &= hits - 1;
            let mut hits = about(level, place, groups, children.start, children.len());
            while hits != 0 {
                let children = groups.children(children.start + hits.trailing_zeros() as usize);
                hits &= hits - 1;
                let part = soft_count(level, place, blocks, children.start, children.len());
                if !each(children.start, f64::from(part) * LANES as f64) {
                    return;
                }
            }
        }
    }
}

/// Which of the balls `first..first + n` may hold something that [`soft_count`] counts: its rise plus its radius, for any
/// ball within, is at most twice the radius plus two scatters, or (sqrt(3) + 1) radii.
fn about(level: SimdLevel, place: &Place<'_>, tier: &Tier, first: usize, n: usize) -> u16 {
    dispatch!(level, about_bits(place: &Place<'_>, tier: &Tier, first: usize, n: usize) -> u16)
}

#[inline(always)]
fn about_bits<S: Simd>(s: S, place: &Place<'_>, tier: &Tier, first: usize, n: usize) -> u16 {
    let Some((depth, radius)) = depths(s, place, tier, first) else { return 0 };
    let apart = s.add(s.sqrt(s.splat(place.scatter)), s.splat(place.margin));
    let near = s.add(s.add(radius, radius), s.add(apart, apart));
    let steep = s.add(s.mul(radius, s.splat(place.steep + 1.0)), s.splat(2.0 * place.rounding));
    first_of(s.gt_bits(s.add(depth, s.min(near, steep)), s.splat(0.0)), n)
}

/// How many of the balls `first..first + n` (at most 16) may touch, or nearly: one that just may not counts little less
/// than one, one that is its radius away from that nothing. So the number is continuous in the pose, and never too small.
fn soft_count(level: SimdLevel, place: &Place<'_>, tier: &Tier, first: usize, n: usize) -> f32 {
    let mut part = [0.0; LANES];
    let out = &mut part;
    dispatch!(level, parts(place: &Place<'_>, tier: &Tier, first: usize, out: &mut [f32; LANES]));
    part.iter().take(n).sum()
}

#[inline(always)]
fn parts<S: Simd>(s: S, place: &Place<'_>, tier: &Tier, first: usize, out: &mut [f32; LANES]) {
    let Some((depth, radius)) = depths(s, place, tier, first) else { return };
    let reach = s.add(s.add(depth, place.rise(s, radius)), radius);
    let part = s.div(reach, s.max(radius, s.splat(f32::MIN_POSITIVE)));
    s.store(s.min(s.max(part, s.splat(0.0)), s.splat(1.0)), out);
}

/// Depth at the centres of sixteen balls, and their radii, m.
#[inline(always)]
fn depths<S: Simd>(s: S, place: &Place<'_>, tier: &Tier, first: usize) -> Option<(S::F, S::F)> {
    let (u, radius) = balls(s, place, tier, first)?;
    Some((Cells::look_up(s, &place.grid, u).depth(s), radius))
}

/// Grid coordinates of the centres of sixteen balls, and their radii, m.
#[inline(always)]
fn balls<S: Simd>(s: S, place: &Place<'_>, tier: &Tier, first: usize) -> Option<([S::F; 3], S::F)> {
    let (x, y) = (sixteen(&tier.x, first)?, sixteen(&tier.y, first)?);
    let (z, radius) = (sixteen(&tier.z, first)?, sixteen(&tier.radius, first)?);
    Some((place.coordinates(s, [s.load(x), s.load(y), s.load(z)]), s.load(radius)))
}

#[inline(always)]
fn sixteen(column: &[f32], first: usize) -> Option<&[f32; LANES]> {
    column.get(first..)?.first_chunk()
}

#[inline(always)]
fn affine<S: Simd>(s: S, k: [f32; 3], v: [S::F; 3], offset: f32) -> S::F {
    s.add(combine(s, k, v), s.splat(offset))
}

/// k[0] v[0] + k[1] v[1] + k[2] v[2].
#[inline(always)]
pub(super) fn combine<S: Simd>(s: S, k: [f32; 3], v: [S::F; 3]) -> S::F {
    let xy = s.add(s.mul(s.splat(k[0]), v[0]), s.mul(s.splat(k[1]), v[1]));
    s.add(xy, s.mul(s.splat(k[2]), v[2]))
}
