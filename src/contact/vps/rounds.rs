//! Rounds of dart throwing: which candidates become points, in what order, and the area that each stands for.

use super::balance::balance;
use super::ball::nearly_smallest;
use super::build::Candidate;
use super::cells::Cells;
use super::clusters::Clusters;
use super::features::Site;
use super::nearest::PointGrid;
use super::order::{Order, ranks};
use super::sorted::Sorted;
use super::tree::Tree;
use super::{FAR, ForceLaw, Level, PATCHES, PointShell, ROUND_UP, UNSORTED};
use crate::geometry::simd::LANES;
use crate::geometry::{Point, Stamp};
use std::ops::Range;

/// Candidates whose normals differ by more than acos of this do not compete for room.
const SAME_WAY: f64 = 0.1;
/// A corner or edge belongs to the faces whose normals are within acos of this.
const ON_FACE: f64 = 0.9;
/// Length of a level over that of the next: a fourth root of 1/2.
const LEVEL_RATIO: f64 = 0.840_896_415_253_714_5;

const NOBODY: u32 = u32::MAX;

pub(super) struct Rounds<'a> {
    /// Those on faces, then those of the sites.
    candidates: &'a [Candidate],
    /// Those on faces, in the order in which they get their chance.
    visits: &'a [u32],
    /// Inverse of `visits`.
    turn: Vec<u32>,
    places: &'a [Point],
    /// Their lowest and highest corner.
    bounds: (Point, Point),
    /// Of the candidates, m^2.
    weights: Vec<f64>,
    /// Over the candidates on faces.
    cells: Cells,
    /// Over the candidates of the sites.
    site_grid: Option<PointGrid>,
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
    /// Over candidates on faces in the order of [`along_curve`](super::order::along_curve), followed by those of the sites, and their
    /// places in their box.
    pub(super) fn new(
        candidates: &'a [Candidate],
        (places, bounds): (&'a [Point], (Point, Point)),
        visits: &'a [u32],
        sites: &'a [Site],
        goal: usize,
    ) -> Self {
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
        let on_faces = visits.len();
        let mut turn = vec![0; on_faces];
        visits.iter().zip(0..).for_each(|(&i, k)| turn[i as usize] = k);
        let mut members = vec![on_faces];
        members.extend(sites.iter().scan(on_faces, |at, s| {
            *at += s.faces.len();
            Some(*at)
        }));
        Self {
            candidates,
            visits,
            turn,
            places,
            bounds,
            weights: candidates.iter().map(|c| c.weight).collect(),
            cells: Cells::new(&places[..on_faces]),
            site_grid: None,
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

    /// Points so far.
    pub(super) fn len(&self) -> usize {
        self.accepted.len()
    }

    /// One round: accepts every candidate at least `radius` from all accepted ones, corners and edges first. No
    /// candidate on a face is farther than `reach` from its owner when the round starts, so which others are looked at makes no
    /// difference.
    pub(super) fn throw(&mut self, radius: f64, reach: f64) {
        let on_faces = self.visits.len();
        self.cells.fit(reach);
        self.site_grid = (!self.sites.is_empty())
            .then(|| PointGrid::within(&self.places[on_faces..], self.bounds, radius));
        for site in 0..self.sites.len() {
            // A corner keeps only half the distance, so that none is left out.
            let apart = if self.sites[site].corner { 0.5 * radius } else { radius };
            if self.may_take(site, apart) {
                self.take(site, reach);
            }
        }
        let near_sites = (!self.sites.is_empty())
            .then(|| PointGrid::new(&self.sites.iter().map(|s| s.at).collect::<Vec<_>>(), radius));
        // Few have room at all. Found along memory and noted by their turn, they come up without looking at all others at random.
        let mut open = vec![0u64; on_faces.div_ceil(64)];
        for (d, &turn) in self.distance.iter().zip(&self.turn) {
            if !(*d < radius * radius) {
                open[turn as usize / 64] |= 1 << (turn % 64);
            }
        }
        for (first, mut word) in open.into_iter().enumerate() {
            while word != 0 {
                let i = self.visits[first * 64 + word.trailing_zeros() as usize] as usize;
                word &= word - 1;
                if self.accepted.len() >= self.goal {
                    return;
                }
                if self.distance[i] < radius * radius {
                    continue;
                }
                match near_sites.as_ref().and_then(|sites| self.instead(i, sites, 0.5 * radius)) {
                    Some(site) => self.take(site, reach),
                    None => self.accept(i, reach),
                }
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

    fn take(&mut self, site: usize, reach: f64) {
        self.taken[site] = Some(self.accepted.len() as u32);
        for i in self.members[site]..self.members[site + 1] {
            self.accept(i, reach);
            self.site_points += 1;
        }
    }

    fn accept(&mut self, i: usize, reach: f64) {
        let owner = self.accepted.len() as u32;
        self.accepted.push(i as u32);
        let (candidates, accepted) = (self.candidates, &self.accepted);
        let (places, distance, owners) = (self.places, &mut self.distance, &mut self.owner);
        let me = &candidates[i];
        let mut claim = |span: Range<usize>| {
            let near = places[span.clone()].iter().zip(&mut distance[span.clone()]);
            for (j, (at, distance)) in span.zip(near) {
                let d = (at - me.at).norm_squared();
                if d > *distance {
                    continue;
                }
                let other = &candidates[j].normal;
                let alike = me.normal.dot(other);
                // Of the points at one corner, the one that looks most the same way.
                let nearer = d < *distance
                    || candidates[accepted[owners[j] as usize] as usize].normal.dot(other) < alike;
                if nearer && alike > SAME_WAY {
                    *distance = d;
                    owners[j] = owner;
                }
            }
        };
        self.cells.near(&me.at, reach, &mut claim);
        // Those of the sites may be without an owner within reach: whether they get this one is up to the grid's cells.
        if let Some(grid) = &self.site_grid {
            let first = self.visits.len();
            grid.near(&me.at, reach.min(1e9), |j| claim(first + j as usize..first + j as usize + 1));
        }
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
        for (j, weight) in self.weights.iter().enumerate() {
            let (owner, d) = self.owner_of(j);
            weights[owner as usize] += weight;
            farthest = farthest.max(d);
        }
        let normals = |k: usize| &self.candidates[self.accepted[k] as usize].normal;
        let places: Vec<Point> = self.accepted.iter().map(|&i| self.places[i as usize]).collect();
        let sites = self.sites.iter().zip(&self.taken).filter_map(|(s, t)| Some((s, (*t)? as usize)));
        balance(&mut weights, &places, normals, sites);
        self.levels.push((self.accepted.len(), weights, farthest.sqrt()));
    }

    /// The shell of the accepted candidates.
    pub(super) fn finish(mut self, clusters: Clusters) -> PointShell {
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
        let (sorted, tree) = rayon::join(
            || Sorted::new(&points, [&nx, &ny, &nz], &area, clusters),
            || Tree::new(&points, &ends, clusters),
        );
        PointShell {
            len,
            x: column(&|c| c.at.x, FAR),
            y: column(&|c| c.at.y, FAR),
            z: column(&|c| c.at.z, FAR),
            sorted,
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
            tree,
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
