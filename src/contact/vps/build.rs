//! Building a shell: candidates on the surface, thinned to a progressive Poisson-disk order.
//!
//! Many more candidates than points are spread over the triangles. Rounds of dart throwing with a shrinking radius
//! then accept candidates that are at least that far from all accepted ones. The order of acceptance is the order
//! of the points, so every prefix covers the surface evenly. Each candidate remembers the accepted point nearest to
//! it that looks the same way; its share of area belongs to that point, which gives the area weights at any length
//! of prefix. Surfaces that look in different ways (two faces of a thin plate, of a cube) are sampled
//! independently: a face's weights sum to its own area.

use super::balance::balance;
use super::ball::nearly_smallest;
use super::clusters::Clusters;
use super::cover::covering_radius;
use super::features::{Site, sites};
use super::nearest::PointGrid;
use super::order::{Order, ranks, together};
use super::sorted::Sorted;
use super::tree::Tree;
use super::{FAR, ForceLaw, Level, PATCHES, PointShell, ROUND_UP, UNSORTED};
use crate::geometry::simd::LANES;
use crate::geometry::{Point, Stamp, TriMesh, Vec3};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// How densely to sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Density {
    /// So many points.
    Points(u32),
    /// Points at least this far apart, m, and no room for another one between them.
    Spacing(f64),
}

/// What to build. The same parameters and mesh give the same bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShellParams {
    /// Density.
    pub density: Density,
    /// Seed of the sampling.
    pub seed: u64,
    /// How the points are put together in balls. The points and their areas are the same.
    pub clusters: Clusters,
}

impl ShellParams {
    /// `n` points, default seed and clusters.
    pub const fn points(n: u32) -> Self {
        Self { density: Density::Points(n), seed: 1, clusters: Clusters::Morton }
    }
}

/// Why no shell was built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ShellError {
    /// Nothing to sample.
    #[error("the surface has no area to sample; give a mesh with at least one proper triangle")]
    Empty,
    /// A parameter makes no sense.
    #[error("{0}")]
    Parameter(String),
    /// Something is not finite.
    #[error("a coordinate or normal is not finite (item {0})")]
    NotFinite(usize),
}

/// Most points of a shell.
pub const MAX_POINTS: u32 = 4_000_000;
/// Candidates per point.
const OVERSAMPLE: f64 = 10.0;
/// Candidates whose normals differ by more than acos of this do not compete for room.
const SAME_WAY: f64 = 0.1;
/// Points of a Poisson-disk sampling that an area of the square of their least distance holds.
const PACKING: f64 = 0.75;
/// A corner or edge belongs to the faces whose normals are within acos of this.
const ON_FACE: f64 = 0.9;
/// Length of a level over that of the next: a fourth root of 1/2.
const LEVEL_RATIO: f64 = 0.840_896_415_253_714_5;

/// A place where a point may be put.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    pub(super) at: Point,
    /// Unit normal, inwards.
    pub(super) normal: Vec3,
    /// Area that it stands for, m^2.
    pub(super) weight: f64,
}

impl PointShell {
    /// Samples the surface of `mesh` (metres, tool frame). Deterministic. Takes about a second for 35,000 points;
    /// allocates; not for the servo.
    ///
    /// # Errors
    /// [`ShellError`].
    pub fn build(mesh: &TriMesh, params: ShellParams) -> Result<Self, ShellError> {
        let corners: Vec<[Point; 3]> = (0..mesh.triangles.len()).map(|t| mesh.corners(t)).collect();
        if let Some(bad) = mesh.vertices.iter().position(|v| !v.coords.iter().all(|c| c.is_finite())) {
            return Err(ShellError::NotFinite(bad));
        }
        let cross = |c: &[Point; 3]| (c[1] - c[0]).cross(&(c[2] - c[0]));
        let total: f64 = corners.iter().map(|c| 0.5 * cross(c).norm()).sum();
        if total.is_nan() || total <= 0.0 {
            return Err(ShellError::Empty);
        }
        let want = checked_count(params.density, total)?;
        let mut rng = Pcg64Mcg::seed_from_u64(params.seed);
        let per_area = OVERSAMPLE * want / total;
        let mut candidates = Vec::new();
        for c in &corners {
            let doubled = cross(c);
            let area = 0.5 * doubled.norm();
            if area <= 0.0 {
                continue;
            }
            // At least one each, so that every triangle's area is counted where it is.
            let share = area * per_area;
            let n = (share + unit(&mut rng)).floor().max(1.0);
            let start = [unit(&mut rng), unit(&mut rng)];
            for i in 0..n as u64 {
                // Roberts' R2 sequence, folded onto the triangle: even without being regular.
                let u = (start[0] + i as f64 * 0.754_877_666_246_692_7).fract();
                let v = (start[1] + i as f64 * 0.569_840_290_998_053_3).fract();
                let (u, v) = if u + v > 1.0 { (1.0 - u, 1.0 - v) } else { (u, v) };
                candidates.push(Candidate {
                    at: c[0] + (c[1] - c[0]) * u + (c[2] - c[0]) * v,
                    normal: -doubled / (2.0 * area),
                    weight: area / n,
                });
            }
        }
        let spacing = (PACKING * total / want).sqrt();
        let mut shell = thin(candidates, sites(mesh, want, spacing), params, &mut rng);
        let points: Vec<Point> = (0..shell.len).map(|i| shell.position(i)).collect();
        shell.set_covering_radius(covering_radius(mesh, &points));
        Ok(shell)
    }

    /// Stores the covering radius of the whole shell and adds it to that of the prefixes.
    pub(super) fn set_covering_radius(&mut self, radius: f64) {
        self.covering_radius = radius;
        for level in &mut self.levels {
            // Triangle inequality: surface point -> shell point -> prefix point.
            level.covering_radius =
                if level.len == self.len { radius } else { level.covering_radius + radius };
        }
    }
}

/// Number of points that `density` asks for, checked.
pub(super) fn checked_count(density: Density, total: f64) -> Result<f64, ShellError> {
    let count = match density {
        Density::Points(0) => return Err(ShellError::Parameter("a shell needs at least 1 point".into())),
        Density::Points(n) => f64::from(n),
        Density::Spacing(s) if s.is_finite() && s > 0.0 => (PACKING * total / (s * s)).max(1.0),
        Density::Spacing(s) => {
            return Err(ShellError::Parameter(format!("spacing {s} m is not a positive number")));
        }
    };
    if count > f64::from(MAX_POINTS) {
        return Err(ShellError::Parameter(format!(
            "a shell of {count:.0} points is larger than the limit of {MAX_POINTS}; ask for fewer or a wider spacing"
        )));
    }
    Ok(count)
}

fn unit(rng: &mut Pcg64Mcg) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Dart throwing with shrinking radius over shuffled candidates; where it may, at `sites` first.
pub(super) fn thin(
    mut candidates: Vec<Candidate>,
    mut sites: Vec<Site>,
    params: ShellParams,
    rng: &mut Pcg64Mcg,
) -> PointShell {
    let mut visits: Vec<u32> = (0..candidates.len() as u32).collect();
    shuffle(&mut visits, rng);
    // Visited at random, but neighbours together in memory.
    together(&mut candidates, |c| c.at, &mut visits);
    let corners = sites.iter().take_while(|s| s.corner).count();
    shuffle(&mut sites[corners..], rng);
    let on_faces = candidates.len();
    candidates.extend(sites.iter().flat_map(Site::candidates));
    let places: Vec<Point> = candidates.iter().map(|c| c.at).collect();
    let (goal, last_radius) = match params.density {
        Density::Points(n) => (on_faces.min(n as usize), 0.0),
        Density::Spacing(s) => (places.len(), s),
    };
    let mut rounds = Rounds { visits: &visits, ..Rounds::new(&candidates, &places, &sites, goal) };
    let mut radius = extent(&places);
    let mut reach = f64::INFINITY;
    while rounds.accepted.len() < goal {
        rounds.throw(radius.max(last_radius), reach);
        if radius <= last_radius || radius < 1e-12 {
            break;
        }
        reach = radius;
        radius *= 0.5f64.powf(0.25);
    }
    rounds.finish(params.clusters)
}

fn shuffle<T>(items: &mut [T], rng: &mut Pcg64Mcg) {
    for i in (1..items.len()).rev() {
        items.swap(i, (rng.next_u64() % (i as u64 + 1)) as usize);
    }
}

fn extent(places: &[Point]) -> f64 {
    let first = places.first().copied().unwrap_or_default();
    let (low, high) = places.iter().fold((first, first), |(l, h), p| (l.inf(p), h.sup(p)));
    (high - low).norm().max(1e-9)
}

const NOBODY: u32 = u32::MAX;

struct Rounds<'a> {
    /// Those on faces, then those of the sites.
    candidates: &'a [Candidate],
    /// Those on faces, in the order in which they get their chance.
    visits: &'a [u32],
    places: &'a [Point],
    sites: &'a [Site],
    /// First candidate of each site, and the end of the last one's.
    members: Vec<usize>,
    /// Where in `accepted` the points of a site begin.
    taken: Vec<Option<u32>>,
    site_points: usize,
    goal: usize,
    /// Squared distance of each candidate to its owner.
    distance: Vec<f64>,
    /// Position in `accepted` of the nearest accepted point that looks the same way.
    owner: Vec<u32>,
    accepted: Vec<u32>,
    patch: Vec<u8>,
    /// (length, weights, largest distance of a candidate to its owner)
    levels: Vec<(usize, Vec<f64>, f64)>,
    /// Lengths at which levels are still to be taken, longest first.
    stops: Vec<usize>,
}

impl<'a> Rounds<'a> {
    fn new(candidates: &'a [Candidate], places: &'a [Point], sites: &'a [Site], goal: usize) -> Self {
        let n = candidates.len();
        let mut stops: Vec<usize> = Vec::new();
        // Spacing mode does not know its length beforehand: levels simply stop early.
        let mut next = goal as f64 * LEVEL_RATIO;
        while next >= UNSORTED as f64 {
            let len = next as usize / LANES * LANES;
            if stops.last() != Some(&len) {
                stops.push(len);
            }
            next *= LEVEL_RATIO;
        }
        let on_faces = n - sites.iter().map(|s| s.faces.len()).sum::<usize>();
        let mut members = vec![on_faces];
        members.extend(sites.iter().scan(on_faces, |at, s| {
            *at += s.faces.len();
            Some(*at)
        }));
        Self {
            candidates,
            visits: &[],
            places,
            sites,
            members,
            taken: vec![None; sites.len()],
            site_points: 0,
            goal,
            distance: vec![f64::INFINITY; n],
            owner: vec![NOBODY; n],
            accepted: Vec::new(),
            patch: Vec::new(),
            levels: Vec::new(),
            stops,
        }
    }

    /// One round: accepts every candidate at least `radius` from all accepted ones, corners and edges first. No
    /// candidate on a face is farther than `reach` from its owner when the round starts.
    fn throw(&mut self, radius: f64, reach: f64) {
        let grid = PointGrid::new(self.places, radius);
        for site in 0..self.sites.len() {
            // A corner keeps only half the distance, so that none is left out.
            let apart = if self.sites[site].corner { 0.5 * radius } else { radius };
            if self.may_take(site, apart) {
                self.take(site, &grid, reach);
            }
        }
        let near_sites = (!self.sites.is_empty())
            .then(|| PointGrid::new(&self.sites.iter().map(|s| s.at).collect::<Vec<_>>(), radius));
        for &i in self.visits {
            let i = i as usize;
            if self.accepted.len() >= self.goal {
                break;
            }
            if self.distance[i] < radius * radius {
                continue;
            }
            match near_sites.as_ref().and_then(|sites| self.instead(i, sites, 0.5 * radius)) {
                Some(site) => self.take(site, &grid, reach),
                None => self.accept(i, &grid, reach),
            }
        }
    }

    /// A site within `apart` of candidate `i`, on its face and still to be taken: a corner, else the nearest. No point
    /// on a face is so close to a corner or edge that it would keep those from being taken later.
    fn instead(&self, i: usize, sites: &PointGrid, apart: f64) -> Option<usize> {
        let me = &self.candidates[i];
        let mut best: Option<(bool, f64, usize)> = None;
        sites.near(&me.at, apart, |k| {
            let k = k as usize;
            let site = &self.sites[k];
            let rank = (!site.corner, (site.at - me.at).norm_squared(), k);
            let on_face = || site.faces.iter().any(|f| f.0.dot(&me.normal) > ON_FACE);
            if rank.1 < apart * apart && best.is_none_or(|b| rank < b) && on_face() && self.may_take(k, apart)
            {
                best = Some(rank);
            }
        });
        best.map(|b| b.2)
    }

    /// All points of a site are at least `apart` from all accepted ones, and there is room for them.
    fn may_take(&self, site: usize, apart: f64) -> bool {
        let members = self.members[site]..self.members[site + 1];
        // At least half of the points are for the faces.
        self.taken[site].is_none()
            && self.site_points + members.len() <= self.goal / 2
            && self.accepted.len() + members.len() <= self.goal
            && members.into_iter().all(|j| self.distance[j] >= apart * apart)
    }

    fn take(&mut self, site: usize, grid: &PointGrid, reach: f64) {
        self.taken[site] = Some(self.accepted.len() as u32);
        for i in self.members[site]..self.members[site + 1] {
            self.accept(i, grid, reach);
            self.site_points += 1;
        }
    }

    fn accept(&mut self, i: usize, grid: &PointGrid, reach: f64) {
        let owner = self.accepted.len() as u32;
        self.accepted.push(i as u32);
        let (candidates, accepted) = (self.candidates, &self.accepted);
        let (distance, owners) = (&mut self.distance, &mut self.owner);
        let me = &candidates[i];
        grid.near(&me.at, reach.min(1e9), |j| {
            let j = j as usize;
            let other = &candidates[j];
            let d = (other.at - me.at).norm_squared();
            if d > distance[j] {
                return;
            }
            let alike = me.normal.dot(&other.normal);
            // Of the points at one corner, the one that looks most the same way.
            let nearer = d < distance[j]
                || candidates[accepted[owners[j] as usize] as usize].normal.dot(&other.normal) < alike;
            if nearer && alike > SAME_WAY {
                distance[j] = d;
                owners[j] = owner;
            }
        });
        self.distance[i] = -1.0;
        self.owner[i] = owner;
        let len = self.accepted.len();
        if len == PATCHES {
            self.divide();
        }
        if self.stops.last() == Some(&len) {
            self.stops.pop();
            self.take_level();
        }
    }

    /// Owner and squared distance of candidate `j`; of any accepted point where none looks the same way yet.
    fn owner_of(&self, j: usize) -> (u32, f64) {
        if self.owner[j] != NOBODY {
            return (self.owner[j], self.distance[j].max(0.0));
        }
        let far = (0, f64::INFINITY);
        self.accepted.iter().enumerate().fold(far, |best, (k, &i)| {
            let d = (self.places[i as usize] - self.places[j]).norm_squared();
            if d < best.1 { (k as u32, d) } else { best }
        })
    }

    /// Fixes the patches: the candidates that belong to each of the first points.
    fn divide(&mut self) {
        self.patch = (0..self.candidates.len()).map(|j| self.owner_of(j).0 as u8).collect();
    }

    fn take_level(&mut self) {
        let mut weights = vec![0.0; self.accepted.len()];
        let mut farthest: f64 = 0.0;
        for (j, candidate) in self.candidates.iter().enumerate() {
            let (owner, d) = self.owner_of(j);
            weights[owner as usize] += candidate.weight;
            farthest = farthest.max(d);
        }
        let normals = |k: usize| &self.candidates[self.accepted[k] as usize].normal;
        let places: Vec<Point> = self.accepted.iter().map(|&i| self.places[i as usize]).collect();
        let sites = self.sites.iter().zip(&self.taken).filter_map(|(s, t)| Some((s, (*t)? as usize)));
        balance(&mut weights, &places, normals, sites);
        self.levels.push((self.accepted.len(), weights, farthest.sqrt()));
    }

    fn finish(mut self, clusters: Clusters) -> PointShell {
        let len = self.accepted.len();
        if self.patch.is_empty() {
            self.divide();
        }
        if self.levels.last().is_none_or(|l| l.0 != len) {
            self.take_level();
        }
        let padded = len.next_multiple_of(LANES);
        let ends: Vec<usize> = self.levels.iter().map(|l| l.0).collect();
        let places: Vec<Point> = self.accepted.iter().map(|&i| self.places[i as usize]).collect();
        let order = Order::new(&places, &ends, clusters);
        self.accepted = order.apply(&self.accepted);
        for level in &mut self.levels {
            level.1 = order.apply(&level.1);
        }
        let column = |f: &dyn Fn(&Candidate) -> f64, pad: f32| {
            let mut v: Vec<f32> =
                self.accepted.iter().map(|&i| f(&self.candidates[i as usize]) as f32).collect();
            v.resize(padded, pad);
            v.shrink_to_fit();
            v
        };
        let levels: Vec<Level> = self.levels.into_iter().map(|(n, w, r)| Level::new(n, &w, r)).collect();
        let mut patch: Vec<u8> = self.accepted.iter().map(|&i| self.patch[i as usize]).collect();
        patch.resize(padded, 0);
        patch.shrink_to_fit();
        let points: Vec<Point> = self.accepted.iter().map(|&i| self.places[i as usize]).collect();
        let (ball_centre, ball_radius) = nearly_smallest(&points);
        let [nx, ny, nz] = [0, 1, 2].map(|a| column(&|c| c.normal[a], 0.0));
        let area = levels.last().map(|l| l.area.clone()).unwrap_or_default();
        PointShell {
            len,
            x: column(&|c| c.at.x, FAR),
            y: column(&|c| c.at.y, FAR),
            z: column(&|c| c.at.z, FAR),
            sorted: Sorted::new(&points, [&nx, &ny, &nz], &area, clusters),
            nx,
            ny,
            nz,
            area,
            covering_radius: 0.0,
            bound_radius: points.iter().fold(0.0f64, |r, p| r.max(p.coords.norm())) * ROUND_UP,
            ball_centre,
            ball_radius,
            total_area: levels.last().and_then(|l| l.sum.last().copied()).unwrap_or(0.0),
            law: ForceLaw::default(),
            patch,
            tree: Tree::new(&points, &ends, clusters),
            rank: ranks(&ends, clusters),
            stamp: Stamp::default(),
            levels,
        }
    }
}

impl Level {
    fn new(len: usize, weights: &[f64], covering_radius: f64) -> Self {
        let mut area: Vec<f32> = weights.iter().map(|&w| w as f32).collect();
        area.resize(len.next_multiple_of(LANES), 0.0);
        let mut sum = vec![0.0];
        for block in area.as_chunks::<LANES>().0 {
            let before = sum[sum.len() - 1];
            sum.push(block.iter().fold(before, |s, &a| s + f64::from(a)));
        }
        area.shrink_to_fit();
        sum.shrink_to_fit();
        Self { len, area, sum, covering_radius }
    }
}
