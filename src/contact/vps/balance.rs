//! Area weights in balance where faces meet.

use super::features::Site;
use super::nearest::PointGrid;
use crate::geometry::{Point, Vec3};

/// Neighbours on the same face have normals within acos of this.
const ON_FACE: f64 = 0.9;
/// Part of a neighbour's area that stays with it.
const LEAST: f64 = 0.25;

/// Gives the points of each site areas in proportion to the angle that their faces take there, as the surface within a
/// small ball about the place has (its angle times r^2 / 2). What a point gains or loses comes from its nearest neighbour on
/// the same face, so the area of a face stays. `sites` come with the index of their first point.
pub(super) fn balance<'s, 'n>(
    weights: &mut [f64],
    places: &[Point],
    normal: impl Fn(usize) -> &'n Vec3,
    sites: impl Iterator<Item = (&'s Site, usize)>,
) {
    let sites: Vec<(&Site, usize)> = sites.filter(|(s, at)| at + s.faces.len() <= weights.len()).collect();
    if sites.is_empty() {
        return;
    }
    let mut on_face = vec![true; weights.len()];
    for (site, at) in &sites {
        on_face[*at..at + site.faces.len()].fill(false);
    }
    let total: f64 = weights.iter().sum();
    let spacing = (total / weights.len() as f64).sqrt();
    let grid = PointGrid::new(places, spacing);
    let neighbour = |k: usize| {
        let mut best: Option<(f64, usize)> = None;
        grid.near(&places[k], 3.0 * spacing, |j| {
            let j = j as usize;
            let rank = ((places[j] - places[k]).norm_squared(), j);
            if on_face[j] && best.is_none_or(|b| rank < b) && normal(j).dot(normal(k)) > ON_FACE {
                best = Some(rank);
            }
        });
        best.map(|b| b.1)
    };
    for (site, at) in sites {
        let members = at..at + site.faces.len();
        let Some(from) = members.clone().map(neighbour).collect::<Option<Vec<usize>>>() else { continue };
        let area: f64 = weights[members.clone()].iter().sum();
        let angle: f64 = site.faces.iter().map(|f| f.1).sum();
        let gain: Vec<f64> =
            site.faces.iter().zip(members.clone()).map(|(f, k)| area * f.1 / angle - weights[k]).collect();
        // As far as the neighbours can give, all faces alike.
        let part = gain.iter().zip(&from).fold(1.0f64, |part, (gain, &j)| {
            part.min(weights[j] * (1.0 - LEAST) / gain.max(f64::MIN_POSITIVE))
        });
        for ((k, gain), j) in members.zip(gain).zip(from) {
            weights[k] += gain * part;
            weights[j] -= gain * part;
        }
    }
}
