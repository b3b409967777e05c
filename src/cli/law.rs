//! `--law`: how a point shell pushes.

use crate::contact::vps::{ForceLaw, Normals, VoxelValue};
use clap::ValueEnum;

/// Digits behind the metre that the scaled integers keep: hundredths of a millimetre.
const DIGITS: u8 = 5;

/// [`ForceLaw`] on the command line. The classic ones are those of Sagardia, Stouraitis and Lopes e Silva (2014), equations (2) and (3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Law {
    /// Pressure over the surface, along the shell's normals
    #[default]
    Pressure,
    /// Pressure over the surface, along the gradient of the depth
    FieldNormals,
    /// The same along the gradient of a tricubic reading, which does not leap from cell to cell
    CubicNormals,
    /// Point by point, with whole layers of voxels (Sagardia, Stouraitis and Lopes e Silva 2014, equation 4)
    ClassicLayers,
    /// Point by point, with distances in whole hundredths of a millimetre (equations 1 and 4)
    ClassicScaled,
    /// Point by point, with distances interpolated in their voxel (equation 5)
    ClassicFloat,
}

impl From<Law> for ForceLaw {
    fn from(law: Law) -> Self {
        let classic = |value| Self::Classic { value, shared: false };
        match law {
            Law::Pressure => Self::Pressure(Normals::Shell),
            Law::FieldNormals => Self::Pressure(Normals::Field),
            Law::CubicNormals => Self::Pressure(Normals::Cubic),
            Law::ClassicLayers => classic(VoxelValue::Layer),
            Law::ClassicScaled => classic(VoxelValue::Scaled { digits: DIGITS }),
            Law::ClassicFloat => classic(VoxelValue::Interpolated),
        }
    }
}

impl std::fmt::Display for Law {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}
