//! A device's own figures as they are at the tool, in the middle of its workspace.

use super::Profile;
use crate::geometry::pose::Vec3;
use nalgebra::Matrix3;

/// The mechanism with the tool in the middle of the workspace.
pub(super) struct AtTool {
    q: Vec3,
    /// d tip / d joints, m/rad.
    jacobian: Matrix3<f64>,
    inverse: Matrix3<f64>,
}

impl AtTool {
    /// `None` where the middle of the workspace is singular. Not real-time.
    pub(super) fn new(profile: &Profile) -> Option<Self> {
        let q = profile.kinematics.inverse(&Vec3::zeros())?;
        let jacobian = profile.kinematics.state(&q, None)?.jacobian;
        Some(Self { q, jacobian, inverse: jacobian.try_inverse()? })
    }

    /// Least eigenvalue at the tool of a form in joint coordinates: tau = J' F, v = J w, so F = J^-T b J^-1 v.
    fn least(&self, of_joints: &Matrix3<f64>) -> f64 {
        (self.inverse.transpose() * of_joints * self.inverse).symmetric_eigen().eigenvalues.min()
    }

    /// Damping in the worst direction, N·s/m, of what the joints have.
    pub(super) fn damping(&self, joints: &[f64; 3]) -> f64 {
        self.least(&Matrix3::from_diagonal(&Vec3::from(*joints))).max(0.0)
    }

    /// Mass in the lightest direction, kg.
    pub(super) fn mass(&self, profile: &Profile) -> f64 {
        self.least(&profile.dynamics.mass_matrix(&self.q, &self.jacobian))
    }

    /// Coulomb friction of the joint that holds least, N, of what the joints have.
    pub(super) fn friction(&self, joints: &[f64; 3]) -> f64 {
        self.jacobian
            .column_iter()
            .zip(joints)
            .map(|(column, f)| f / column.norm())
            .fold(f64::INFINITY, f64::min)
    }

    /// Ways that one count of each joint moves the tool by, m.
    pub(super) fn counts(&self, profile: &Profile) -> [f64; 3] {
        let count = |i: usize| profile.encoders.map_or(0.0, |e| e.radians_per_count[i].abs());
        std::array::from_fn(|i| self.jacobian.column(i).norm() * count(i))
    }
}

impl Profile {
    /// How far the tool, in the middle of its workspace, moves with one count of each encoder, m; 0 without encoders. Not real-time.
    pub fn counts_at_tool(&self) -> [f64; 3] {
        AtTool::new(self).map_or([0.0; 3], |tool| tool.counts(self))
    }
}
