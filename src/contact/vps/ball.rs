//! The smallest ball around points.

use super::ROUND_UP;
use super::nearest::bounds;
use crate::geometry::Point;
use nalgebra::{Matrix3, Vector3};

/// Most points taken in, one after the other; a few are enough.
const STEPS: usize = 200;
/// A ball holds what is outside by no more than this, of its squared radius.
const SLACK: f64 = 1e-12;

/// The smallest ball around the points, its radius rounded up: takes in the farthest point until none is outside, and keeps the
/// at most four that the ball rests on (Gartner 1999, with every subset tried instead of a recursion).
pub(super) fn ball(points: &[Point]) -> (Point, f64) {
    let first = points.first().copied().unwrap_or_default();
    let mut rests_on = Vec::from([farthest(points, &first).1]);
    let (mut centre, mut squared) = (rests_on[0], 0.0);
    let mut best = (centre, f64::INFINITY);
    for _ in 0..STEPS {
        let (d, p) = farthest(points, &centre);
        if d < best.1 {
            best = (centre, d);
        }
        if d <= squared * (1.0 + SLACK) {
            return (best.0, best.1.sqrt() * ROUND_UP);
        }
        rests_on.push(p);
        match smallest(&rests_on) {
            // It only grows; where rounding says otherwise there is nothing more to gain.
            Some((ball, on)) if ball.1 > squared => ((centre, squared), rests_on) = (ball, on),
            _ => break,
        }
    }
    let near = nearly_smallest(points);
    let exact = (best.0, best.1.sqrt() * ROUND_UP);
    if near.1 < exact.1 { near } else { exact }
}

/// A ball larger than the smallest by some per cent at most: steps towards the farthest point (Badoiu and Clarkson 2003).
pub(super) fn nearly_smallest(points: &[Point]) -> (Point, f64) {
    let (low, high) = bounds(points);
    let mut centre = nalgebra::center(&low, &high);
    let mut best = (centre, f64::INFINITY);
    for step in 0..60 {
        let (d, p) = farthest(points, &centre);
        if d < best.1 {
            best = (centre, d);
        }
        centre += (p - centre) / f64::from(step + 2);
    }
    (best.0, best.1.sqrt() * ROUND_UP)
}

/// Squared distance of the farthest point, and that point.
fn farthest(points: &[Point], from: &Point) -> (f64, Point) {
    points.iter().fold((0.0, *from), |best: (f64, Point), p| {
        let d = (p - from).norm_squared();
        if d > best.0 { (d, *p) } else { best }
    })
}

/// Of at most five points, the last of them outside the smallest ball of the others: their smallest ball (centre, squared
/// radius), and the points that it rests on.
fn smallest(points: &[Point]) -> Option<((Point, f64), Vec<Point>)> {
    let last = points.len() - 1;
    let mut best: Option<((Point, f64), Vec<Point>)> = None;
    for others in 0..1u32 << last {
        let mut on: Vec<Point> = (0..last).filter(|i| others >> i & 1 != 0).map(|i| points[i]).collect();
        if on.len() > 3 {
            continue;
        }
        on.push(points[last]);
        let Some(ball) = through(&on) else { continue };
        let holds = |p: &Point| (p - ball.0).norm_squared() <= ball.1 * (1.0 + 1e-9);
        if best.as_ref().is_none_or(|b| ball.1 < b.0.1) && points.iter().all(holds) {
            best = Some((ball, on));
        }
    }
    best
}

/// The smallest ball with all of one to four points on its surface; `None` where they have none, or nearly so.
fn through(on: &[Point]) -> Option<(Point, f64)> {
    let (origin, rest) = on.split_last()?;
    // The centre is origin + sum l_i v_i, as far from each point as from the origin: 2 v_i . (sum l_j v_j) = v_i . v_i.
    let mut system = Matrix3::identity();
    let mut squares = Vector3::zeros();
    let size = rest.iter().fold(0.0f64, |s, p| s.max((p - origin).norm()));
    if !rest.is_empty() && size <= 0.0 {
        return None;
    }
    let scale = if rest.is_empty() { 1.0 } else { size.recip() };
    for (i, p) in rest.iter().enumerate() {
        let v = (p - origin) * scale;
        for (j, q) in rest.iter().enumerate() {
            system[(i, j)] = 2.0 * v.dot(&((q - origin) * scale));
        }
        squares[i] = v.norm_squared();
    }
    if system.determinant().abs() < 1e-14 {
        return None;
    }
    let shares = system.try_inverse()? * squares;
    let to_centre: Vector3<f64> = rest.iter().enumerate().map(|(i, p)| (p - origin) * shares[i]).sum();
    let centre = origin + to_centre;
    let squared = on.iter().fold(0.0f64, |r, p| r.max((p - centre).norm_squared()));
    squared.is_finite().then_some((centre, squared))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_pcg::Pcg64Mcg;
    use rand_pcg::rand_core::{Rng, SeedableRng};

    fn random(rng: &mut Pcg64Mcg) -> f64 {
        (rng.next_u64() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    /// The largest distance is a convex function of the centre: where no direction lowers it, it is smallest.
    #[test]
    fn no_smaller_ball_holds_the_points() {
        let mut rng = Pcg64Mcg::seed_from_u64(7);
        for case in 0..200 {
            let n = [1, 2, 3, 4, 5, 16, 16, 300][case % 8];
            // Solid, flat, nearly along a line, and on a sphere; far from the origin too.
            let flat = [1.0, 1.0, 1e-6, 0.0][case / 8 % 4];
            let thin = [1.0, 1e-3, 1.0, 0.0][case / 8 % 4];
            let at = if case % 3 == 0 { 10.0 } else { 0.0 };
            let points: Vec<Point> = (0..n)
                .map(|_| {
                    let mut v =
                        Vector3::new(random(&mut rng), thin * random(&mut rng), flat * random(&mut rng));
                    if case % 5 == 0 && v.norm() > 0.0 {
                        v.normalize_mut();
                    }
                    Point::new(at + v.x, v.y - at, v.z)
                })
                .collect();
            let (centre, radius) = ball(&points);
            let reach = |c: &Point| points.iter().fold(0.0f64, |r, p| r.max((p - c).norm()));
            let least = reach(&centre);
            let near = nearly_smallest(&points);
            assert!(reach(&near.0) <= near.1 && near.1 <= 1.05 * least + 1e-12, "{case}: {}", near.1 / least);
            assert!(radius >= least && radius <= least * (1.0 + 2e-6), "{case}");
            for _ in 0..300 {
                let way = Vector3::new(random(&mut rng), random(&mut rng), random(&mut rng));
                for step in [1e-4, 1e-2] {
                    assert!(
                        reach(&(centre + way * step * least)) >= least * (1.0 - 1e-9),
                        "{case}: {n} points"
                    );
                }
            }
        }
    }

    #[test]
    fn equal_points_and_none_are_balls_too() {
        assert_eq!(ball(&[]).1, 0.0);
        let p = Point::new(1.0, 2.0, 3.0);
        assert_eq!(ball(&[p; 16]), (p, 0.0));
        let (centre, radius) = ball(&[p, p, Point::new(1.0, 2.0, 5.0), p]);
        assert!((centre - Point::new(1.0, 2.0, 4.0)).norm() < 1e-12 && (radius - 1.0).abs() < 2e-6);
    }
}
