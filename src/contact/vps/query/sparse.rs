//! Contacts that are smaller than the point spacing.
//!
//! The pressure along the normals, k d n, adds up to a potential force over the whole surface of the overlap. A corner
//! or edge that presses less deep than the points lie apart has a few points in contact, whose normals do not add up
//! to that: what is left over pushes along the object, does work in closed loops, and drives a tool that nobody holds.
//! Over a flat object the same potential has another sum, by the divergence theorem on d^2/2 g (g = depth gradient,
//! constant): minus the sum of k a (n . g) d^2/2, of which every single point pushes along g, with k a d (n . g) g.
//! The two agree as the sampling gets finer. Where g is not constant over the overlap (an edge of the object under a
//! face of the tool) only the first one is right.

use crate::contact::vps::ForceLaw;
use crate::geometry::{Vec3, Wrench};

/// Points in contact up to which it counts as sparse, and from which it does not.
const FEW: [f64; 2] = [30.0, 60.0];
/// The same for the depth, in point spacings.
const SHALLOW: [f64; 2] = [1.0, 2.5];
/// What the first sum has more along the second one: from here on the object counts as curved, and from here entirely. A corner or edge
/// of the tool has some on any bend, in proportion to the slopes of both.
const CURVED: [f64; 2] = [0.35, 0.8];
/// The same where the gradients differ by [`SPREAD`] besides: where an edge of the tool lies along one of the object, the second sum turns
/// over as they pass each other.
const BENT: [f64; 2] = [0.1, 0.25];
/// How far the gradients differ ([`spread`]) under an edge of the object, from here on and entirely: with a twentieth of what presses on the
/// other side of one of 90 degrees it is 0.095. Under a cap of a ball, 25 degrees to all sides, 0.062.
const SPREAD: [f64; 2] = [0.08, 0.16];
/// Forces that cancel (a tool between two walls) are measured by this part of what presses.
const LEAST: f64 = 0.3;

/// A point counts whole from so deep on, in point spacings: else the answer would change by a thirtieth with each that enters.
pub(super) const ENTERED: f64 = 0.2;

/// How finely a contact is sampled.
#[derive(Clone, Copy)]
pub(super) struct Sampling {
    /// Its points, those that have only just entered in part.
    pub(super) points: f64,
    /// Its depth in point spacings.
    pub(super) depth: f64,
}

/// A contact from which on the points' normals decide alone.
#[derive(Clone, Copy)]
pub(super) struct Enough {
    /// Area that presses, m^2.
    pub(super) area: f64,
    /// Depth, m.
    pub(super) depth: f64,
    /// Points from which on they are not [`few`] any more.
    pub(super) few: usize,
}

impl Enough {
    /// The parts along the depth gradient always matter; what they lack, as long as the points are few.
    pub(super) const NEVER: Self = Self { area: f64::INFINITY, depth: f64::INFINITY, few: MANY };

    /// The same for a law: a gradient that is continuous by itself lacks nothing.
    pub(super) fn never(law: &ForceLaw) -> Self {
        if law.cubic() { Self { few: 0, ..Self::NEVER } } else { Self::NEVER }
    }

    /// Of points that stand for `cell` m^2 each; a little more than [`settled`] asks for, for rounding.
    pub(super) fn of(cell: f64) -> Self {
        Self { area: 1.001 * FEW[1] * cell, depth: 1.001 * SHALLOW[1] * cell.sqrt(), few: MANY }
    }
}

/// Points in contact up to which the leaps of the interpolation's gradient are kept out, and from which they are not: at an edge of
/// the object one point's leap is as large as its force.
const FEW_POINTS: usize = 60;
pub(super) const MANY: usize = 120;

/// How far so many points are only a few, 0..=1: how much of what their parts along the interpolation's gradient lack counts.
pub(super) fn few(points: usize) -> f64 {
    1.0 - ramp(points as f64, [FEW_POINTS as f64, MANY as f64])
}

/// The wrench of the points' normals, or of their parts along the depth gradient where the points are too few.
/// `size` is the sum of the sizes of the latter, `spread` how far the gradients differ. Continuous in all of them. Second: how much of the latter it is.
pub(super) fn settled(
    normals: &Wrench,
    along: &Wrench,
    size: f64,
    spread: f64,
    sampling: &Sampling,
) -> (Wrench, f64) {
    let sparse = 1.0 - ramp(sampling.points, FEW).min(ramp(sampling.depth, SHALLOW));
    if !(size > 0.0 && sparse > 0.0) {
        return (*normals, 0.0);
    }
    let off = normals.force - along.force;
    // Over a flat object what is left over lies across the gradient; over an edge the gradients' parts fall short.
    let more = off.dot(&along.force) / (along.force.norm_squared() + (LEAST * size).powi(2));
    let curved = ramp(more, CURVED).max(ramp(more, BENT).min(ramp(spread, SPREAD)));
    let part = sparse * (1.0 - curved);
    let wrench = Wrench {
        force: normals.force - off * part,
        torque: normals.torque + (along.torque - normals.torque) * part,
    };
    (wrench, part)
}

/// How far the gradients under a contact differ, 0..=1: 1 - |sum of f g|^2 / (sum of f)^2 of forces f and gradients g (of length 1, and shorter near edges). None over anything flat.
pub(super) fn spread(gradients: &Vec3, presses: f64) -> f64 {
    if presses > 0.0 { (1.0 - gradients.norm_squared() / (presses * presses)).clamp(0.0, 1.0) } else { 0.0 }
}

/// 0 up to the first, 1 from the second on.
fn ramp(x: f64, [from, to]: [f64; 2]) -> f64 {
    ((x - from) / (to - from)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_POINT: Sampling = Sampling { points: 1.0, depth: 0.2 };

    fn push(x: f64, y: f64, z: f64) -> Wrench {
        Wrench { force: Vec3::new(x, y, z), torque: Vec3::new(z, x, y) }
    }

    /// Forces f n of points with these normals on a floor: sums along the normals and along the depth gradient -z.
    fn floor(points: &[(f64, Vec3)]) -> (Wrench, Wrench, f64) {
        let up = Vec3::z();
        let sum = |f: &dyn Fn(&(f64, Vec3)) -> Vec3| points.iter().map(f).sum::<Vec3>();
        let wrench = |force: Vec3| Wrench { force, torque: Vec3::zeros() };
        let size = points.iter().map(|(f, n)| (f * n.z).abs()).sum();
        (wrench(sum(&|(f, n)| n * *f)), wrench(sum(&|(f, n)| up * n.z * *f)), size)
    }

    #[test]
    fn where_a_contact_is_enough_the_parts_along_the_gradient_do_not_matter() {
        for cell in [1e-9, 3.7e-7, 1e-3] {
            let enough = Enough::of(cell);
            let least = Sampling { points: enough.area / cell, depth: enough.depth / cell.sqrt() };
            let normals = push(1.0, 2.0, 3.0);
            for along in [push(0.0, 0.0, 5.0), Wrench::ZERO] {
                assert_eq!(settled(&normals, &along, 9.0, 0.0, &least), (normals, 0.0));
            }
            // A little less of either, and they do.
            for less in [
                Sampling { points: 0.98 * least.points, ..least },
                Sampling { depth: 0.98 * least.depth, ..least },
            ] {
                assert_ne!(settled(&normals, &push(0.0, 0.0, 5.0), 9.0, 0.0, &less), (normals, 0.0));
            }
        }
    }

    #[test]
    fn a_few_points_push_off_the_floor_and_not_along_it() {
        let cube = Vec3::repeat(1.0 / 3f64.sqrt());
        for points in [
            vec![(2.0, Vec3::new(0.8, 0.0, 0.6))],
            vec![(2.0, Vec3::new(0.995, 0.0, 0.0998749))],
            vec![(1.0, cube), (3.0, Vec3::new(-0.6, 0.0, 0.8)), (0.5, Vec3::new(0.0, 1.0, 0.0))],
        ] {
            let (normals, along, size) = floor(&points);
            let (settled, part) = settled(&normals, &along, size, 0.0, &ONE_POINT);
            assert_eq!(part, 1.0);
            assert!((settled.force - Vec3::z() * normals.force.z).norm() < 1e-12, "{}", settled.force);
        }
        // Squeezed between floor and ceiling, the forces along z nearly cancel; those across do not.
        let (a, b) = (push(1.4, 0.3, 1e-3), push(0.0, 0.0, 1e-3));
        assert_eq!(settled(&a, &b, 2.0, 0.0, &ONE_POINT), (b, 1.0));
    }

    #[test]
    fn a_finely_sampled_contact_and_an_edge_of_the_object_keep_their_normals() {
        let a = push(1.0, 0.0, 1.0);
        let b = push(0.0, 0.0, 1.0);
        assert_eq!(settled(&a, &b, 1.0, 0.0, &Sampling { points: 100.0, depth: 3.0 }), (a, 0.0));
        // A face on an edge of 90 degrees: gradients of 45 degrees to both sides leave half of the force.
        let half = 0.5f64.sqrt();
        assert_eq!(settled(&push(0.0, 0.0, 1.0), &push(0.0, 0.0, 0.5), half, 0.0, &ONE_POINT).1, 0.0);
        assert_eq!(settled(&a, &Wrench::ZERO, 0.0, 0.0, &ONE_POINT), (a, 0.0));
    }

    #[test]
    fn an_edge_is_told_from_a_ball() {
        let sum = |parts: &[(f64, Vec3)]| {
            let all = parts.iter().map(|(f, g)| g * *f).sum::<Vec3>();
            spread(&all, parts.iter().map(|p| p.0).sum())
        };
        let half = 0.5f64.sqrt();
        let (left, right) = (Vec3::new(half, half, 0.0), Vec3::new(-half, half, 0.0));
        assert!((sum(&[(0.2, left), (0.8, right)]) - 0.32).abs() < 1e-12);
        assert_eq!((sum(&[(0.3, Vec3::z()), (5.0, Vec3::z())]), sum(&[])), (0.0, 0.0));
        // What presses as deep as it lies on a cap of a ball, 25 degrees to all sides.
        let cap: Vec<(f64, Vec3)> = (0..3000)
            .map(|k| {
                let (cos, turn) = (1.0 - 0.0937 * f64::from(k) / 3000.0, f64::from(k) * 2.4);
                let sin = (1.0 - cos * cos).sqrt();
                (cos - 0.9063, Vec3::new(sin * turn.cos(), sin * turn.sin(), cos))
            })
            .collect();
        assert!((sum(&cap) - 0.0616).abs() < 1e-3, "{}", sum(&cap));
        // Little as they differ here, it is none.
        let (a, b) = (push(0.4, 0.0, 1.3), push(0.0, 0.0, 1.0));
        assert_eq!(settled(&a, &b, 1.0, sum(&cap), &ONE_POINT).1, 1.0);
        assert_eq!(settled(&a, &b, 1.0, 0.32, &ONE_POINT).1, 0.0);
    }

    /// No step of two thousand is more than a four hundredth of what it all comes to.
    fn smooth(of: impl Fn(f64) -> (Wrench, f64)) {
        let forces: Vec<Vec3> = (0..2000).map(|k| of(f64::from(k)).0.force).collect();
        for step in forces.windows(2) {
            assert!((step[1] - step[0]).norm() < 5e-3, "{} {}", step[0], step[1]);
        }
    }

    #[test]
    fn it_changes_continuously_with_everything() {
        let (a, b) = (push(1.999, 0.0, 1.0), push(0.0, 0.0, 1.0));
        smooth(|k| settled(&push(1e-3 * k, 0.0, 1.0), &b, 1.0, 0.0, &ONE_POINT));
        smooth(|k| settled(&a, &b, 1.0, 0.0, &Sampling { points: 0.05 * k, depth: 3.0 }));
        smooth(|k| settled(&a, &b, 1.0, 0.0, &Sampling { points: 100.0, depth: 2e-3 * k }));
        // What the first has more along the second, and how far the gradients differ.
        for spread in [0.0, 0.12, 1.0] {
            smooth(|k| settled(&push(1.0, 0.0, 1.0 + 5e-4 * k), &b, 1.0, spread, &ONE_POINT));
        }
        for more in [1.0, 1.18, 1.6] {
            smooth(|k| settled(&push(1.999, 0.0, more), &b, 1.0, 1e-4 * k, &ONE_POINT));
        }
    }
}
