//! From answers and truth to the figures of a report.

use super::path::{PosePath, Truth};
use crate::contact::Contact;
use crate::geometry::Vec3;
use serde::Serialize;

/// Overlaps below this fraction of the smaller body do not enter the relative volume error.
const SMALL_OVERLAP: f64 = 0.005;
/// A distance off by no more than this fraction of the bounding size is exact.
const EXACT: f64 = 1e-6;

/// Figures of one path; `None` (null) where the method or the file does not give the quantity.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Path.
    pub path: String,
    /// Method.
    pub method: String,
    /// Force law of a point shell.
    pub law: Option<String>,
    /// Points or spheres of the sampled body.
    pub elements: usize,
    /// Time to build both structures, s.
    pub build_s: f64,
    /// Memory of both structures: points or spheres, field, and the closest-point trees that spheres need, bytes.
    pub memory_bytes: usize,
    /// Poses queried.
    pub queries: usize,
    /// Time of a query over all poses, µs.
    pub median_us: f64,
    /// See `median_us`.
    pub p99_us: f64,
    /// See `median_us`.
    pub max_us: f64,
    /// Time over the poses with true volume > 0, µs.
    pub median_contact_us: Option<f64>,
    /// See `median_contact_us`.
    pub p99_contact_us: Option<f64>,
    /// Work units of a query, median.
    pub work_median: f64,
    /// |distance - exact| as a fraction of the path's bounding size, over the poses apart.
    pub distance_err_mean: Option<f64>,
    /// See `distance_err_mean`.
    pub distance_err_p99: Option<f64>,
    /// See `distance_err_mean`.
    pub distance_err_max: Option<f64>,
    /// Fraction of the poses apart whose distance is exact to a millionth of the path's bounding size; an answer without a distance is
    /// none that is.
    pub distance_exact: Option<f64>,
    /// Fraction of the poses apart of which both points said to be closest are those of the file, to a millionth of the bounding size.
    /// Where several pairs are closest the file has one of them, and the others count as wrong.
    pub witness_exact: Option<f64>,
    /// |volume - exact| as a fraction of the exact volume, where that exceeds 0.5 % of the smaller body.
    pub volume_err_mean: Option<f64>,
    /// See `volume_err_mean`.
    pub volume_err_p99: Option<f64>,
    /// See `volume_err_mean`.
    pub volume_err_max: Option<f64>,
    /// |volume - exact| as a fraction of the smaller body, over all poses that overlap.
    pub volume_err_body_mean: Option<f64>,
    /// See `volume_err_body_mean`.
    pub volume_err_body_max: Option<f64>,
    /// Angle between the force and minus the exact gradient of the volume, degrees.
    pub force_angle_mean_deg: Option<f64>,
    /// See `force_angle_mean_deg`.
    pub force_angle_p99_deg: Option<f64>,
    /// Angle between the torque and minus the exact gradient with respect to rotation, degrees.
    pub torque_angle_mean_deg: Option<f64>,
    /// |s force + gradient| over the path's peak, with the one factor s that fits best; mean.
    pub force_err_mean: Option<f64>,
    /// The same for torques.
    pub torque_err_mean: Option<f64>,
    /// |force within the budget - force without one| over the path's peak of the latter; null without a budget.
    pub budget_force_err_mean: Option<f64>,
    /// See `budget_force_err_mean`.
    pub budget_force_err_p99: Option<f64>,
    /// The same for torques.
    pub budget_torque_err_mean: Option<f64>,
    /// See `budget_torque_err_mean`.
    pub budget_torque_err_p99: Option<f64>,
    /// Fraction of poses whose touching-or-not is wrong.
    pub touch_wrong: Option<f64>,
    /// Poses whose exact answer lies outside the given bounds.
    pub bounds_violated: Option<usize>,
    /// Mean width of the bounds: of the volume as a fraction of the exact volume where the method bounds it (over the
    /// poses of `volume_err_mean`), else of the penetration as a fraction of the bounding size.
    pub bounds_width_mean: Option<f64>,
    /// Fraction of queries that were not cut short.
    pub complete: f64,
}

/// What was built and measured besides the answers.
pub struct Run<'a> {
    /// Method name.
    pub method: &'a str,
    /// See [`Figures::law`].
    pub law: Option<String>,
    /// See [`Figures::elements`].
    pub elements: usize,
    /// See [`Figures::build_s`].
    pub build_s: f64,
    /// See [`Figures::memory_bytes`].
    pub memory_bytes: usize,
    /// Answers in path order, wrench on the moving body.
    pub answers: &'a [Contact],
    /// The answers without a budget, where there is one; else empty.
    pub whole: &'a [Contact],
    /// Time of each query, µs.
    pub micros: &'a [f64],
    /// Points said to be closest at each pose, the resting body's first.
    pub witnesses: &'a [Option<[Vec3; 2]>],
    /// Bounding size, m.
    pub size: f64,
}

/// Works the figures out.
pub fn figures(path: &PosePath, run: &Run<'_>) -> Figures {
    let truths = || path.poses.iter().map(|(_, t)| t).zip(run.answers);
    let all = Sorted::of(run.micros.to_vec());
    let contact: Vec<f64> = path
        .poses
        .iter()
        .zip(run.micros)
        .filter(|((_, t), _)| t.volume.is_some_and(|v| v > 0.0))
        .map(|(_, us)| *us)
        .collect();
    let contact = Sorted::of(contact);
    let distance = Sorted::of(
        truths()
            .filter_map(|(t, a)| {
                let exact = t.distance.filter(|d| *d > 0.0)?;
                Some((a.distance? - exact).abs() / run.size)
            })
            .collect(),
    );
    let body = [&path.header.fixed, &path.header.moving].iter().filter_map(|b| b.volume).reduce(f64::min);
    let volume = Sorted::of(
        truths()
            .filter_map(|(t, a)| {
                let exact = t.volume.filter(|v| body.is_some_and(|b| *v > SMALL_OVERLAP * b))?;
                Some((a.volume? - exact).abs() / exact)
            })
            .collect(),
    );
    let of_body = Sorted::of(
        truths()
            .filter_map(|(t, a)| {
                let exact = t.volume.filter(|v| *v > 0.0)?;
                Some((a.volume? - exact).abs() / body?)
            })
            .collect(),
    );
    let force = against(truths().map(|(t, a)| (a.wrench.force, t.by_position)));
    let torque = against(truths().map(|(t, a)| (a.wrench.torque, t.by_rotation)));
    let cut = |f: fn(&Contact) -> Vec3| apart(run.answers.iter().map(f), run.whole.iter().map(f));
    let (cut_force, cut_torque) = (cut(|c| c.wrench.force), cut(|c| c.wrench.torque));
    let calls: Vec<bool> = truths().filter_map(|(t, a)| Some(t.touching()? != a.touching)).collect();
    let work = Sorted::of(run.answers.iter().map(|a| f64::from(a.work)).collect());
    let done = run.answers.iter().filter(|a| a.complete).count();
    let (bounds_violated, bounds_width_mean) =
        bounds(truths(), run.size, body.map_or(0.0, |b| SMALL_OVERLAP * b));
    Figures {
        path: path.name.clone(),
        method: run.method.to_owned(),
        law: run.law.clone(),
        elements: run.elements,
        build_s: run.build_s,
        memory_bytes: run.memory_bytes,
        queries: run.answers.len(),
        median_us: all.at(0.5).unwrap_or(0.0),
        p99_us: all.at(0.99).unwrap_or(0.0),
        max_us: all.at(1.0).unwrap_or(0.0),
        median_contact_us: contact.at(0.5),
        p99_contact_us: contact.at(0.99),
        work_median: work.at(0.5).unwrap_or(0.0),
        distance_err_mean: distance.mean(),
        distance_err_p99: distance.at(0.99),
        distance_err_max: distance.at(1.0),
        distance_exact: exact(truths(), run.size),
        witness_exact: witnessed(path.poses.iter().map(|(_, t)| t).zip(run.witnesses), run.size),
        volume_err_mean: volume.mean(),
        volume_err_p99: volume.at(0.99),
        volume_err_max: volume.at(1.0),
        volume_err_body_mean: of_body.mean(),
        volume_err_body_max: of_body.at(1.0),
        force_angle_mean_deg: force.angles.mean(),
        force_angle_p99_deg: force.angles.at(0.99),
        torque_angle_mean_deg: torque.angles.mean(),
        force_err_mean: force.error,
        torque_err_mean: torque.error,
        budget_force_err_mean: cut_force.mean(),
        budget_force_err_p99: cut_force.at(0.99),
        budget_torque_err_mean: cut_torque.mean(),
        budget_torque_err_p99: cut_torque.at(0.99),
        touch_wrong: mean(calls.iter().map(|w| f64::from(u8::from(*w)))),
        bounds_violated,
        bounds_width_mean,
        complete: done as f64 / run.answers.len().max(1) as f64,
    }
}

/// Part of the poses apart whose distance is exact.
fn exact<'a>(pairs: impl Iterator<Item = (&'a Truth, &'a Contact)>, size: f64) -> Option<f64> {
    mean(pairs.filter_map(|(t, a)| {
        let exact = t.distance.filter(|d| *d > 0.0)?;
        let told = a.distance.is_some_and(|d| (d - exact).abs() <= EXACT * size);
        Some(f64::from(u8::from(told)))
    }))
}

/// Vectors against exact gradients.
struct Against {
    angles: Sorted,
    error: Option<f64>,
}

fn against(pairs: impl Iterator<Item = (Vec3, Option<Vec3>)>) -> Against {
    let pairs: Vec<(Vec3, Vec3)> = pairs.filter_map(|(f, g)| Some((f, -g?))).collect();
    let angles = pairs
        .iter()
        .filter(|(f, g)| f.norm() > 0.0 && g.norm() > 0.0)
        .map(|(f, g)| f.angle(g).to_degrees())
        .collect();
    let (fg, ff) = pairs.iter().fold((0.0, 0.0), |(a, b), (f, g)| (a + f.dot(g), b + f.norm_squared()));
    let peak = pairs.iter().map(|(_, g)| g.norm()).fold(0.0, f64::max);
    let error = if ff > 0.0 && peak > 0.0 {
        mean(pairs.iter().map(|(f, g)| (f * (fg / ff) - g).norm() / peak))
    } else {
        None
    };
    Against { angles: Sorted::of(angles), error }
}

/// How far vectors lie from others, as a fraction of the largest of those.
fn apart(some: impl Iterator<Item = Vec3>, whole: impl Iterator<Item = Vec3> + Clone) -> Sorted {
    let peak = whole.clone().map(|w| w.norm()).fold(0.0, f64::max);
    Sorted::of(if peak > 0.0 {
        some.zip(whole).map(|(s, w)| (s - w).norm() / peak).collect()
    } else {
        vec![]
    })
}

/// Poses outside their bounds, and the mean width; volumes (above `small`) where they are bounded, else penetrations.
fn bounds<'a>(
    pairs: impl Iterator<Item = (&'a Truth, &'a Contact)>,
    size: f64,
    small: f64,
) -> (Option<usize>, Option<f64>) {
    let (mut violated, mut given) = (0, false);
    let (mut volumes, mut depths) = (Vec::new(), Vec::new());
    for (t, a) in pairs {
        let mut broken = false;
        if let Some(b) = a.volume_bounds {
            given = true;
            if let Some(v) = t.volume {
                broken |= v < b.lower || v > b.upper;
                if v > small {
                    volumes.push((b.upper - b.lower) / v);
                }
            }
        }
        if let Some(b) = a.depth_bounds {
            given = true;
            depths.push((b.upper - b.lower) / size);
            match t.touching() {
                Some(false) => {
                    let separation = -t.distance.unwrap_or(0.0);
                    broken |= separation < b.lower || separation > b.upper;
                }
                // Overlapping: the penetration is at least zero, whatever it is.
                Some(true) => broken |= b.upper < 0.0,
                None => {}
            }
        }
        violated += usize::from(broken);
    }
    let width = if volumes.is_empty() { mean(depths.into_iter()) } else { mean(volumes.into_iter()) };
    (given.then_some(violated), width.filter(|w| w.is_finite()))
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (n, sum) = values.fold((0usize, 0.0), |(n, s), x| (n + 1, s + x));
    (n > 0).then(|| sum / n as f64)
}

/// A sorted sample.
struct Sorted(Vec<f64>);

impl Sorted {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    fn mean(&self) -> Option<f64> {
        mean(self.0.iter().copied())
    }

    /// Nearest-rank quantile.
    fn at(&self, q: f64) -> Option<f64> {
        let rank = (q * self.0.len() as f64).ceil() as usize;
        self.0.get(rank.max(1) - 1).copied()
    }
}

/// Part of the poses apart of which the closest points are the file's.
fn witnessed<'a>(pairs: impl Iterator<Item = (&'a Truth, &'a Option<[Vec3; 2]>)>, size: f64) -> Option<f64> {
    mean(pairs.filter_map(|(t, told)| {
        let exact = t.closest.filter(|_| t.distance.is_some_and(|d| d > 0.0))?;
        let same = |(x, y): (&Vec3, &Vec3)| (x - y).norm() <= EXACT * size;
        let told = told.is_some_and(|told| told.iter().zip(&exact).all(same));
        Some(f64::from(u8::from(told)))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_nearest_rank() {
        let s = Sorted::of(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!(
            (s.at(0.5), s.at(0.99), s.at(1.0), s.mean()),
            (Some(2.0), Some(4.0), Some(4.0), Some(2.5))
        );
        assert_eq!(Sorted::of(vec![]).at(0.5), None);
    }

    #[test]
    fn a_scaled_gradient_is_no_error_and_a_turned_one_is_an_angle() {
        let g = Vec3::new(0.0, 0.0, 2.0);
        let same = against([(g * -3.0, Some(g)), (g * -1.5, Some(g * 0.5))].into_iter());
        assert!(same.error.expect("given") < 1e-12 && same.angles.at(1.0).expect("given") < 1e-6);
        let turned = against([(Vec3::new(1.0, 0.0, 0.0), Some(g))].into_iter());
        assert!((turned.angles.at(1.0).expect("given") - 90.0).abs() < 1e-9);
        assert!((turned.error.expect("given") - 1.0).abs() < 1e-12);
        assert!(against([(g, None)].into_iter()).error.is_none());
    }

    #[test]
    fn what_a_budget_costs_is_a_fraction_of_the_peak() {
        let (x, y) = (Vec3::x(), Vec3::y());
        let err = apart([x, x * 3.0, y].into_iter(), [x, x * 4.0, x].into_iter());
        assert!((err.at(1.0).expect("given") - 2f64.sqrt() / 4.0).abs() < 1e-15);
        assert!((err.mean().expect("given") - (1.0 + 2f64.sqrt()) / 12.0).abs() < 1e-15);
        assert!(apart([x].into_iter(), [].into_iter()).mean().is_none());
    }

    #[test]
    fn distances_are_exact_to_a_millionth_of_the_size() {
        // Of a body of 2 m: 1.9 um are exact, 2.1 um are not, on either side. Touching poses and unknown truths do not count, a
        // distance that is not told does.
        let told =
            [Some(0.5), Some(0.5 + 1.9e-6), Some(0.5 - 1.9e-6), Some(0.5 + 2.1e-6), Some(0.5 - 2.1e-6), None];
        let answers = told.map(Contact::none);
        let apart = Truth { distance: Some(0.5), ..Truth::default() };
        let touching = Truth { distance: Some(0.0), ..Truth::default() };
        let pairs = answers.iter().map(|a| (&apart, a));
        assert_eq!(exact(pairs.clone(), 2.0), Some(0.5));
        let unknown = Truth::default();
        let more = pairs.chain([(&touching, &answers[3]), (&unknown, &answers[3])]);
        assert_eq!(exact(more, 2.0), Some(0.5));
        assert_eq!(exact([(&touching, &answers[0])].into_iter(), 2.0), None);
    }

    #[test]
    fn bounds_are_held_against_the_truth() {
        let mut apart = Contact::none(Some(0.1));
        apart.depth_bounds = Some(crate::contact::Bounds { lower: -0.2, upper: -0.05 });
        let truth = |d| Truth { distance: Some(d), volume: Some(0.0), ..Truth::default() };
        let (t1, t2) = (truth(0.1), truth(0.3));
        let (violated, width) = bounds([(&t1, &apart), (&t2, &apart)].into_iter(), 1.5, 0.0);
        assert_eq!(violated, Some(1));
        assert!((width.expect("given") - 0.1).abs() < 1e-12);
        assert_eq!(bounds([(&t1, &Contact::none(None))].into_iter(), 1.0, 0.0), (None, None));
    }
}
