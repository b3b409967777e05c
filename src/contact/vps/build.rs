//! Building a shell: candidates on the surface, thinned to a progressive Poisson-disk order.
//!
//! Many more candidates than points are spread over the triangles. Rounds of dart throwing with a shrinking radius
//! then accept candidates that are at least that far from all accepted ones. The order of acceptance is the order
//! of the points, so every prefix covers the surface evenly. Each candidate remembers the accepted point nearest to
//! it that looks the same way; its share of area belongs to that point, which gives the area weights at any length
//! of prefix. Surfaces that look in different ways (two faces of a thin plate, of a cube) are sampled
//! independently: a face's weights sum to its own area.

use super::PointShell;
use super::clusters::Clusters;
use super::cover::covering_radius;
use super::features::{Site, sites};
use super::nearest::bounds;
use super::order::{along_curve, together};
use super::rounds::Rounds;
use crate::geometry::{Point, TriMesh, Vec3};
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
/// Points of a Poisson-disk sampling that an area of the square of their least distance holds.
const PACKING: f64 = 0.75;

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
    /// Samples the surface of `mesh` (metres, tool frame). The same on any number of threads of the current rayon pool. Takes about
    /// 0.6 s for 35,000 points on two cores; allocates; not for the servo.
    ///
    /// # Errors
    /// [`ShellError`].
    pub fn build(mesh: &TriMesh, params: ShellParams) -> Result<Self, ShellError> {
        let corners: Vec<[Point; 3]> = (0..mesh.triangles.len()).map(|t| mesh.corners(t)).collect();
        if let Some(bad) = mesh.vertices.iter().position(|v| !v.coords.iter().all(|c| c.is_finite())) {
            return Err(ShellError::NotFinite(bad));
        }
        let total: f64 = corners.iter().map(|c| 0.5 * cross(c).norm()).sum();
        if total.is_nan() || total <= 0.0 {
            return Err(ShellError::Empty);
        }
        let want = checked_count(params.density, total)?;
        let mut rng = Pcg64Mcg::seed_from_u64(params.seed);
        let spacing = (PACKING * total / want).sqrt();
        let (candidates, sites) = rayon::join(
            || spread(&corners, OVERSAMPLE * want / total, &mut rng),
            || sites(mesh, want, spacing),
        );
        let mut shell = thin(candidates, sites, params, &mut rng);
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

/// Candidates on triangles, so many per m^2.
fn spread(triangles: &[[Point; 3]], per_area: f64, rng: &mut Pcg64Mcg) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for c in triangles {
        let doubled = cross(c);
        let area = 0.5 * doubled.norm();
        if area <= 0.0 {
            continue;
        }
        // At least one each, so that every triangle's area is counted where it is.
        let share = area * per_area;
        let n = (share + unit(rng)).floor().max(1.0);
        let start = [unit(rng), unit(rng)];
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
    candidates
}

/// Twice the area, along the outward normal.
fn cross(c: &[Point; 3]) -> Vec3 {
    (c[1] - c[0]).cross(&(c[2] - c[0]))
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
    // Visited at random, but neighbours together in memory.
    let (order, ()) = rayon::join(|| along_curve(&candidates, |c| c.at), || shuffle(&mut visits, rng));
    together(&mut candidates, &order, &mut visits);
    let corners = sites.iter().take_while(|s| s.corner).count();
    shuffle(&mut sites[corners..], rng);
    let on_faces = candidates.len();
    candidates.extend(sites.iter().flat_map(Site::candidates));
    let places: Vec<Point> = candidates.iter().map(|c| c.at).collect();
    let (goal, last_radius) = match params.density {
        Density::Points(n) => (on_faces.min(n as usize), 0.0),
        Density::Spacing(s) => (places.len(), s),
    };
    let (low, high) = bounds(&places);
    let mut rounds = Rounds::new(&candidates, (&places, (low, high)), &visits, &sites, goal);
    let mut radius = (high - low).norm().max(1e-9);
    let mut reach = f64::INFINITY;
    while rounds.len() < goal {
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
