//! A shell from an oriented point cloud: scans, or a surface that another program has sampled.

use super::build::{Candidate, ShellError, ShellParams, checked_count, thin};
use super::nearest::{PointGrid, bounds};
use super::{Density, PointShell};
use crate::geometry::{Point, Vec3};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng;

/// One point of a cloud.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OrientedPoint {
    /// Position, m.
    pub at: Point,
    /// Direction **out of** the solid, any length but 0.
    pub outward: Vec3,
}

/// Neighbours that estimate how much surface a point stands for.
const NEIGHBOURS: usize = 8;

impl PointShell {
    /// Thins an oriented cloud to a shell. The area of a point is estimated from its distance r to the 8th
    /// neighbour, pi r^2 / 8; where `area` (m^2) is given, the weights are scaled to sum to it. The covering radius
    /// is that of the cloud's points, plus the widest gap to a neighbour. Allocates; not for the servo.
    ///
    /// # Errors
    /// [`ShellError`].
    pub fn from_cloud(
        cloud: &[OrientedPoint],
        area: Option<f64>,
        params: ShellParams,
    ) -> Result<Self, ShellError> {
        let usable = |p: &OrientedPoint| {
            let n = p.outward.norm();
            p.at.coords.iter().all(|c| c.is_finite()) && n.is_finite() && n > 0.0
        };
        if let Some(bad) = cloud.iter().position(|p| !usable(p)) {
            return Err(ShellError::NotFinite(bad));
        }
        if cloud.len() <= NEIGHBOURS {
            return Err(ShellError::Parameter(format!(
                "a cloud of {} points is too small; at least {} are needed",
                cloud.len(),
                NEIGHBOURS + 1
            )));
        }
        let places: Vec<Point> = cloud.iter().map(|p| p.at).collect();
        let (weights, gap) = estimate_areas(&places);
        let total: f64 = weights.iter().sum();
        if total.is_nan() || total <= 0.0 {
            return Err(ShellError::Empty);
        }
        let factor = match area {
            Some(a) if a.is_finite() && a > 0.0 => a / total,
            Some(a) => return Err(ShellError::Parameter(format!("area {a} m^2 is not a positive number"))),
            None => 1.0,
        };
        checked_count(params.density, total * factor)?;
        if matches!(params.density, Density::Points(n) if n as usize > cloud.len()) {
            return Err(ShellError::Parameter(format!(
                "the cloud has only {} points; ask for no more",
                cloud.len()
            )));
        }
        let candidates = cloud
            .iter()
            .zip(&weights)
            .map(|(p, w)| Candidate { at: p.at, normal: -p.outward.normalize(), weight: w * factor })
            .collect();
        let mut shell = thin(candidates, Vec::new(), params, &mut Pcg64Mcg::seed_from_u64(params.seed));
        let farthest = shell.farthest(places.into_iter());
        shell.set_covering_radius(farthest + gap);
        Ok(shell)
    }
}

/// Area of each point (m^2) and the widest distance from a point to its nearest neighbour (m).
fn estimate_areas(places: &[Point]) -> (Vec<f64>, f64) {
    let (low, high) = bounds(places);
    let guess = (high - low).norm().max(1e-9) / (places.len() as f64).sqrt();
    let grid = PointGrid::new(places, guess);
    let mut gap: f64 = 0.0;
    let areas = places
        .iter()
        .map(|p| {
            let mut radius = 2.0 * guess;
            loop {
                let mut squares = Vec::new();
                grid.near(p, radius, |j| squares.push((places[j as usize] - p).norm_squared()));
                squares.sort_unstable_by(f64::total_cmp);
                // Index 0 is the point itself.
                if let Some(&d) = squares.get(NEIGHBOURS).filter(|d| **d <= radius * radius) {
                    gap = gap.max(squares[1].sqrt());
                    return std::f64::consts::PI * d / NEIGHBOURS as f64;
                }
                radius *= 2.0;
            }
        })
        .collect();
    (areas, gap)
}
