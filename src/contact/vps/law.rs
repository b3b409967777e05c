//! Which force a shell's points answer with.

/// Whose normal a push has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Normals {
    /// The tool's: right where its faces press on edges of the object, and past the middle of thin walls.
    #[default]
    Shell,
    /// The object's: against the gradient of the depth there, right where edges and corners of the tool press on its faces.
    Field,
    /// The object's, read tricubically ([`Field::cubic`](crate::geometry::field::Field::cubic)), so that its direction is
    /// continuous from cell to cell.
    Cubic,
}

/// How the force is made of the points inside the object. Part of a shell ([`super::PointShell::law`]).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ForceLaw {
    /// Pressure on the surface, area by area: force and stiffness do not depend on how densely the tool is sampled, and closed
    /// loops take no work. With the object's normals a point pushes along the depth gradient g with k area depth (n . g), which
    /// over the whole overlap of a flat object is the same force; it falls short at edges of the object. The gradient of the
    /// interpolation ([`Normals::Field`]) leaps by a little from cell to cell, the tricubic one ([`Normals::Cubic`]) does not. The
    /// reported stiffness presses along the shell's normals in all cases.
    Pressure(Normals),
    /// The classic one of Sagardia, Stouraitis and Lopes e Silva (2014), equations (2) and (3): stiffness (N/m) times the sum
    /// of penetration times normal over the points, so that force and stiffness grow with the number of points. For
    /// comparison with published figures; there is no damping, the layers jump from voxel to voxel, and no bound is given but
    /// that of the ball around the tool.
    Classic {
        /// How deep a point is.
        value: VoxelValue,
        /// Divides force and torque by N/10 where N >= 10 points press (McNeely, Puterbaugh and Troy 1999, section 4.4).
        shared: bool,
    },
}

impl ForceLaw {
    /// Whether every point pushes along the depth gradient.
    pub(super) fn along_gradient(&self) -> bool {
        matches!(self, Self::Pressure(Normals::Field | Normals::Cubic))
    }

    /// Whether that gradient is the tricubic one.
    pub(super) fn cubic(&self) -> bool {
        *self == Self::Pressure(Normals::Cubic)
    }
}

impl Default for ForceLaw {
    fn default() -> Self {
        Self::Pressure(Normals::Shell)
    }
}

/// Penetration of a point P in the voxel about the node C that is nearest to it. s is the voxel's edge, n the shell's normal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum VoxelValue {
    /// Equation (4) with whole layers: n . (C - P) + v s, v being the signed distance of C in voxels, rounded.
    Layer,
    /// Equation (4) with scaled integers: n . (C - P) + v 10^-digits, v being the distance of C times 10^digits, truncated
    /// (equation 1).
    Scaled {
        /// Decimal digits behind the metre that are kept.
        digits: u8,
    },
    /// Equation (5): the distance of C and its one-sided differences towards P.
    Interpolated,
}
