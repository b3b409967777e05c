//! Volume, centroid and inertia of a closed polyhedron, exact up to rounding.
//!
//! Each triangle spans a signed tetrahedron with a common apex; the moments of a tetrahedron are polynomials of its
//! corners (Tonon 2004, "Explicit exact formulas for the 3-D tetrahedron inertia tensor", J. Math. Stat. 1(1)).
//! For overlapping shells the sum counts the overlap once per shell; inverted shells subtract.

use super::{Point, TriMesh, Vec3};
use nalgebra::Matrix3;

/// Moments of the region that a mesh encloses, at unit density.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MassProperties {
    /// Signed volume, m^3: positive where triangles wind anticlockwise seen from outside.
    pub volume: f64,
    /// Centroid of the volume, m. Where the volume vanishes (an open sheet) that of the surface.
    pub centroid: Point,
    /// Inertia tensor about the centroid for a density of 1 kg/m^3, kg·m^2, mesh axes.
    pub inertia: Matrix3<f64>,
    /// Area of all triangles, m^2.
    pub area: f64,
}

/// Volumes below this fraction of area^(3/2) count as none: a sphere has 0.094, a sheet of 1:1000 about 2e-4.
const NO_VOLUME: f64 = 1e-12;

/// Moments of a whole mesh. Not real-time safe only in that it is O(triangles); allocates nothing.
pub fn mass_properties(mesh: &TriMesh) -> MassProperties {
    mass_properties_of(mesh, 0..mesh.triangles.len())
}

/// Moments of the part of a mesh that the given triangles make.
///
/// # Panics
/// When a triangle number is out of range.
pub fn mass_properties_of(mesh: &TriMesh, triangles: impl Iterator<Item = usize> + Clone) -> MassProperties {
    // An apex near the part keeps the tetrahedra small and the sums free of cancellation.
    let apex = apex(mesh, triangles.clone());
    let mut volume6 = 0.0;
    let mut first24 = Vec3::zeros();
    let mut second120 = Matrix3::zeros();
    let mut area = 0.0;
    let mut area_moment = Vec3::zeros();
    for t in triangles {
        let [a, b, c] = mesh.corners(t).map(|p| p - apex);
        let cross = (b - a).cross(&(c - a));
        let det = a.dot(&b.cross(&c));
        let s = a + b + c;
        volume6 += det;
        first24 += s * det;
        // Integral of x x^T over the tetrahedron (0, a, b, c): det/120 (s s^T + a a^T + b b^T + c c^T).
        second120 += (s * s.transpose() + a * a.transpose() + b * b.transpose() + c * c.transpose()) * det;
        let twice = cross.norm();
        area += twice / 2.0;
        area_moment += s * (twice / 6.0);
    }
    let volume = volume6 / 6.0;
    if volume.abs() <= NO_VOLUME * area.powf(1.5) {
        let centre = if area > 0.0 { apex + area_moment / area } else { apex };
        return MassProperties { volume, centroid: centre, inertia: Matrix3::zeros(), area };
    }
    let offset = first24 / (24.0 * volume);
    let covariance = second120 / 120.0 - offset * offset.transpose() * volume;
    MassProperties { volume, centroid: apex + offset, inertia: inertia_of(&covariance), area }
}

/// Inertia from the covariance (the integral of x x^T) about the same point: tr(C) 1 - C.
pub(super) fn inertia_of(covariance: &Matrix3<f64>) -> Matrix3<f64> {
    Matrix3::identity() * covariance.trace() - covariance
}

/// The inverse of [`inertia_of`].
pub(super) fn covariance_of(inertia: &Matrix3<f64>) -> Matrix3<f64> {
    Matrix3::identity() * (inertia.trace() / 2.0) - inertia
}

fn apex(mesh: &TriMesh, triangles: impl Iterator<Item = usize>) -> Point {
    let mut bounds: Option<(Point, Point)> = None;
    for t in triangles {
        for p in mesh.corners(t) {
            let (lo, hi) = bounds.get_or_insert((p, p));
            *lo = lo.inf(&p);
            *hi = hi.sup(&p);
        }
    }
    bounds.map_or_else(Point::origin, |(lo, hi)| nalgebra::center(&lo, &hi))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::shapes;
    use nalgebra::Isometry3;

    fn near(a: f64, b: f64, rel: f64) {
        assert!((a - b).abs() <= rel * b.abs().max(1e-300), "{a} is not {b} within {rel}");
    }

    #[test]
    fn cuboid_has_the_textbook_moments() {
        let m = mass_properties(&shapes::cuboid(Vec3::new(0.1, 0.06, 0.04)));
        near(m.volume, 0.1 * 0.06 * 0.04, 1e-13);
        near(m.area, 2.0 * (0.1 * 0.06 + 0.1 * 0.04 + 0.06 * 0.04), 1e-13);
        assert!(m.centroid.coords.norm() < 1e-16);
        near(m.inertia[(0, 0)], m.volume * (0.06_f64.powi(2) + 0.04_f64.powi(2)) / 12.0, 1e-12);
        near(m.inertia[(1, 1)], m.volume * (0.1_f64.powi(2) + 0.04_f64.powi(2)) / 12.0, 1e-12);
        near(m.inertia[(2, 2)], m.volume * (0.1_f64.powi(2) + 0.06_f64.powi(2)) / 12.0, 1e-12);
    }

    #[test]
    fn corner_tetrahedron_has_its_integrals() {
        // x, y, z >= 0, x + y + z <= 1: V = 1/6, centroid 1/4, int x^2 = 1/60, int xy = 1/120.
        let p = |x, y, z| Point::new(x, y, z);
        let mesh = TriMesh {
            vertices: vec![p(0., 0., 0.), p(1., 0., 0.), p(0., 1., 0.), p(0., 0., 1.)],
            triangles: vec![[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]],
        };
        let m = mass_properties(&mesh);
        near(m.volume, 1.0 / 6.0, 1e-14);
        assert!((m.centroid - p(0.25, 0.25, 0.25)).norm() < 1e-14);
        near(m.inertia[(0, 0)], 2.0 * (1.0 / 60.0 - 1.0 / 96.0), 1e-12);
        near(m.inertia[(0, 1)], -(1.0 / 120.0 - 1.0 / 96.0), 1e-12);
    }

    #[test]
    fn far_from_the_origin_and_turned_nothing_but_the_frame_changes() {
        let mut mesh = shapes::torus(0.06, 0.02, 48, 24);
        let here = mass_properties(&mesh);
        let pose = Isometry3::new(Vec3::new(50.0, -70.0, 20.0), Vec3::new(0.3, -1.0, 2.0));
        mesh.vertices.iter_mut().for_each(|v| *v = pose * *v);
        let there = mass_properties(&mesh);
        near(there.volume, here.volume, 1e-9);
        assert!((there.centroid - pose * here.centroid).norm() < 1e-12);
        let r = pose.rotation.to_rotation_matrix();
        let turned = r * here.inertia * r.transpose();
        assert!((there.inertia - turned).norm() < 1e-9 * turned.norm());
    }

    #[test]
    fn inverted_mesh_has_negative_volume_and_the_same_centroid() {
        let mut mesh = shapes::icosphere(0.05, 2);
        let v = mass_properties(&mesh).volume;
        mesh.triangles.iter_mut().for_each(|t| t.swap(1, 2));
        let m = mass_properties(&mesh);
        near(m.volume, -v, 1e-13);
        assert!(m.centroid.coords.norm() < 1e-15);
    }

    #[test]
    fn open_sheet_has_no_volume_and_the_centroid_of_its_surface() {
        let p = |x, y| Point::new(x, y, 1.0);
        let mesh = TriMesh { vertices: vec![p(0., 0.), p(3., 0.), p(0., 3.)], triangles: vec![[0, 1, 2]] };
        let m = mass_properties(&mesh);
        assert_eq!(m.volume, 0.0);
        near(m.area, 4.5, 1e-14);
        assert!((m.centroid - p(1.0, 1.0)).norm() < 1e-14);
    }
}
