//! Exact closest point on a mesh.
//!
//! A 16-ary tree of oriented boxes over leaves of 16 triangles. Boxes and triangles are tested 16 at a time in `f32`; every
//! triangle within the rounding error of the nearest one is then measured in `f64`, so [`Bvh::closest`] returns what a
//! scan over all triangles would. Oriented boxes hug curved patches: seen from afar an axis-aligned box around 16
//! triangles is several times thicker than the patch, and many more leaves would have to be opened.

pub(crate) mod facet;
mod few;
mod kernel;
mod pack;
pub(crate) mod sweep;
#[cfg(test)]
mod tests;

use super::lanes::LANES;
use super::simd::Simd;
use super::wide::{self, Stop};
use super::{Point, TriMesh, Vec3};
pub(crate) use few::Few;
use kernel::{Leaf, Node};

/// Most memory that a triangle takes in the tree, bytes.
const TRIANGLE_BYTES: u64 = 320;

/// The point of a mesh nearest to a query point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Closest {
    /// Unsigned distance, m; infinite when there is no triangle (or none within the bound).
    pub distance: f64,
    /// The nearest point, m, in the mesh's frame.
    pub point: Point,
    /// Index of a triangle that holds it, the lowest one of equals; `u32::MAX` when there is none.
    pub triangle: u32,
}

impl Closest {
    const NOTHING: Self =
        Self { distance: f64::INFINITY, point: Point::new(0.0, 0.0, 0.0), triangle: u32::MAX };

    /// True when a triangle was found.
    pub fn found(&self) -> bool {
        self.triangle != u32::MAX
    }
}

/// Closest-point tree over the triangles of a mesh. It keeps its own copy of the corners.
pub struct Bvh {
    /// Local frame of the `f32` data: local = (p - center) * inv_scale, so that the mesh lies within [-1, 1].
    center: Point,
    scale: f64,
    nodes: Vec<Node>,
    leaves: Vec<Leaf>,
    /// Triangle of each slot (leaf * 16 + lane), `u32::MAX` in unused ones.
    triangles: Vec<u32>,
    /// Corners of each slot's triangle in the mesh's frame, m.
    corners: Vec<[Point; 3]>,
    /// Slot of each triangle.
    slots: Vec<u32>,
}

/// No slot, no triangle.
pub(crate) const NO_SLOT: u32 = u32::MAX;

impl Bvh {
    /// Builds the tree in O(n log n) on rayon's current pool. An empty mesh gives a tree that finds nothing; triangles
    /// without area count as the segment or point that they are. Triangles with a corner that is not finite are left out.
    ///
    /// # Panics
    /// When a triangle's index is out of range.
    pub fn build(mesh: &TriMesh) -> Self {
        Self::build_unless(mesh, &|| false).unwrap_or_else(|| unreachable!("never stopped"))
    }

    /// As [`Bvh::build`]; `None` as soon as `stop` says true (asked every few milliseconds).
    pub(crate) fn build_unless(mesh: &TriMesh, stop: Stop) -> Option<Self> {
        let finite = |c: &[Point; 3]| c.iter().all(|p| p.coords.iter().all(|x| x.is_finite()));
        let kept: Vec<u32> =
            (0..mesh.triangles.len()).filter(|&t| finite(&mesh.corners(t))).map(|t| t as u32).collect();
        let (center, scale) = frame(kept.iter().flat_map(|&t| mesh.corners(t as usize)));
        let centroids: Vec<[f64; 3]> = kept
            .iter()
            .map(|&t| {
                let [a, b, c] = mesh.corners(t as usize).map(|p| (p - center) / scale);
                ((a + b + c) / 3.0).into()
            })
            .collect();
        let tree = wide::group(&centroids, stop)?;
        let slots_len = tree.leaves.len() * LANES;
        let mut triangles = vec![u32::MAX; slots_len];
        let mut corners = vec![[center; 3]; slots_len];
        let mut slots = vec![NO_SLOT; mesh.triangles.len()];
        for (leaf, &(start, len)) in tree.leaves.iter().enumerate() {
            for lane in 0..len as usize {
                let t = kept[tree.order[start as usize + lane] as usize];
                let slot = leaf * LANES + lane;
                triangles[slot] = t;
                corners[slot] = mesh.corners(t as usize);
                slots[t as usize] = slot as u32;
            }
        }
        let local: Vec<[Vec3; 3]> = tree
            .order
            .iter()
            .map(|&k| mesh.corners(kept[k as usize] as usize).map(|p| (p - center) / scale))
            .collect();
        let nodes = pack::nodes(&tree, &local, stop)?;
        let leaves = pack::leaves(&tree, &local);
        Some(Self { center, scale, nodes, leaves, triangles, corners, slots })
    }

    /// The closest point of the mesh, exact in `f64`. Finds nothing on an empty mesh or for a query that is not finite.
    pub fn closest(&self, p: &Point) -> Closest {
        self.search(p, Closest::NOTHING)
    }

    /// The closest point if it is no farther than `bound` (m), else nothing. A tight bound makes the search much cheaper.
    pub fn closest_within(&self, p: &Point, bound: f64) -> Closest {
        let found = self.search(p, Closest { distance: bound, ..Closest::NOTHING });
        if found.found() { found } else { Closest::NOTHING }
    }

    /// As [`Bvh::closest`], starting from a triangle that is likely near (that of a neighbouring query, say). Any
    /// index gives the same answer; a good one gives it sooner.
    pub fn closest_from(&self, p: &Point, hint: u32) -> Closest {
        let start = match self.slots.get(hint as usize) {
            Some(&slot) if slot != NO_SLOT => self.measure(p, slot),
            _ => Closest::NOTHING,
        };
        self.search(p, start)
    }

    fn search(&self, p: &Point, start: Closest) -> Closest {
        let local = self.to_local(p);
        let reach = local.iter().fold(0.0f64, |m, x| m.max(x.abs()));
        if reach.is_nan() {
            return Closest::NOTHING;
        }
        // Far outside the range of the f32 test (squares would overflow) a plain scan is as good.
        if reach > 1e6 {
            return self.scan(p, start);
        }
        kernel::exact(self, p, local, start)
    }

    /// Measures every triangle.
    fn scan(&self, p: &Point, start: Closest) -> Closest {
        let slots = (0..self.triangles.len() as u32).filter(|&s| self.triangles[s as usize] != u32::MAX);
        slots.map(|s| self.measure(p, s)).fold(start, nearer)
    }

    /// The closest point of one slot's triangle, in `f64`.
    #[inline]
    fn measure(&self, p: &Point, slot: u32) -> Closest {
        let point = closest_on_triangle(p, &self.corners[slot as usize]);
        Closest { distance: (p - point).norm(), point, triangle: self.triangles[slot as usize] }
    }

    /// A position in the local frame of the `f32` data.
    #[inline]
    pub(crate) fn to_local(&self, p: &Point) -> [f64; 3] {
        ((p - self.center) / self.scale).into()
    }

    /// Metres per local unit.
    #[inline]
    pub(crate) fn unit(&self) -> f64 {
        self.scale
    }

    /// Nearest triangle in `f32`, for grids: squared distance in local units and slot, starting from the answer
    /// (`bound2`, `slot`) and from the leaf that holds slot `near` (or [`NO_SLOT`]). Off by at most
    /// [`kernel::MARGIN`] times (1 + |p|) local units. `tests` counts triangles tested.
    #[inline(always)]
    pub(crate) fn nearest_f32(
        &self,
        simd: impl Simd,
        p: [f32; 3],
        bound2: f32,
        near: u32,
        tests: &mut u64,
    ) -> (f32, u32) {
        kernel::nearest(simd, self, p, bound2, near, tests)
    }

    /// Distance in local units along a unit direction to the first triangle before `limit` whose normal goes with the
    /// ray (`facing` 1: the ray leaves the solid) or against it (`facing` -1: it enters), and that triangle.
    pub(crate) fn first_hit(
        &self,
        origin: [f32; 3],
        dir: [f32; 3],
        limit: f32,
        facing: f32,
    ) -> Option<(f32, u32)> {
        let (t, slot) = kernel::ray_hit(self, origin, dir, limit, facing);
        (slot != NO_SLOT).then(|| (t, self.triangles[slot as usize]))
    }

    /// Corners of a triangle of the mesh, m; `None` for one that is not there or was left out. Real-time safe.
    pub(crate) fn corners_of(&self, triangle: u32) -> Option<&[Point; 3]> {
        self.corners.get(*self.slots.get(triangle as usize)? as usize)
    }

    /// Address and bytes of everything that searches read, for locking.
    pub(crate) fn memory(&self) -> [(*const u8, usize); 5] {
        fn of<T>(part: &[T]) -> (*const u8, usize) {
            (part.as_ptr().cast(), size_of_val(part))
        }
        [of(&self.nodes), of(&self.leaves), of(&self.triangles), of(&self.corners), of(&self.slots)]
    }

    /// Bytes of everything that searches read.
    pub(crate) fn bytes(&self) -> u64 {
        self.memory().iter().map(|(_, n)| *n as u64).sum()
    }

    /// At most so many bytes does the tree over so many triangles take.
    pub(crate) fn bytes_for(triangles: usize) -> u64 {
        // Corners, numbers both ways, and leaves and nodes that are filled to less than a third at worst.
        (triangles as u64).saturating_mul(TRIANGLE_BYTES).saturating_add(4096)
    }

    /// True when there is no triangle.
    pub fn is_empty(&self) -> bool {
        self.leaves.is_empty()
    }
}

/// Centre and half size of the points' box; the size is never zero.
pub(super) fn frame<P: std::borrow::Borrow<Point>>(points: impl IntoIterator<Item = P>) -> (Point, f64) {
    let mut points = points.into_iter().map(|p| *p.borrow());
    let Some(first) = points.next() else { return (Point::origin(), 1.0) };
    let (lo, hi) = points.fold((first, first), |(lo, hi), v| (lo.inf(&v), hi.sup(&v)));
    let half = (hi.coords * 0.5 - lo.coords * 0.5).amax();
    let center = Point::from(lo.coords * 0.5 + hi.coords * 0.5);
    // Where the box is a point the unit is free; it must only stay invertible.
    (center, if half > 1e-290 { half } else { 1.0 })
}

/// The nearer one; of equals the one with the lower triangle index.
#[inline(always)]
fn nearer(a: Closest, b: Closest) -> Closest {
    if b.distance < a.distance || (b.distance == a.distance && b.triangle < a.triangle) { b } else { a }
}

/// The point of a triangle nearest to `p`. Triangles without area are handled as segments or points. The result is a
/// convex combination of corners, so it lies on the triangle to rounding. Real-time safe.
pub fn closest_on_triangle(p: &Point, corners: &[Point; 3]) -> Point {
    let [a, b, c] = corners;
    let (ab, ac, ap) = (b - a, c - a, p - a);
    // Barycentric coordinates of the projection (Ericson, Real-Time Collision Detection, 2005, section 3.4).
    let (d00, d01, d11) = (ab.norm_squared(), ab.dot(&ac), ac.norm_squared());
    let (d20, d21) = (ap.dot(&ab), ap.dot(&ac));
    let den = d00 * d11 - d01 * d01;
    let (v, w) = ((d11 * d20 - d01 * d21) / den, (d00 * d21 - d01 * d20) / den);
    let on_edge = [(a, b), (b, c), (c, a)]
        .map(|(s, e)| closest_on_segment(p, s, e))
        .into_iter()
        .min_by(|x, y| (p - x).norm_squared().total_cmp(&(p - y).norm_squared()))
        .unwrap_or(*a);
    // NaN (no area) compares false and leaves the edges.
    if v > 0.0 && w > 0.0 && v + w < 1.0 {
        let inner = a + ab * v + ac * w;
        // A sliver's barycentrics may be rounding noise; its edges are then the better answer.
        if (p - inner).norm_squared() <= (p - on_edge).norm_squared() {
            return inner;
        }
    }
    on_edge
}

fn closest_on_segment(p: &Point, s: &Point, e: &Point) -> Point {
    let d = e - s;
    let len2 = d.norm_squared();
    if len2 > 0.0 { s + d * ((p - s).dot(&d) / len2).clamp(0.0, 1.0) } else { *s }
}
