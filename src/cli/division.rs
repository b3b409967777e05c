//! `--split`: how the nodes of a sphere tree are divided.

use crate::contact::ist::{IstParams, Split};
use clap::ValueEnum;
use serde::Serialize;

/// [`Split`] on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Division {
    /// Cells by planes of their grid, so that what is solid throughout becomes boxes.
    Boxes,
    /// Spheres by batch neural gas.
    NeuralGas,
    /// Spheres by medians.
    Median,
}

impl Default for Division {
    fn default() -> Self {
        match Split::default() {
            Split::Boxes => Self::Boxes,
            Split::NeuralGas => Self::NeuralGas,
            Split::Median => Self::Median,
        }
    }
}

impl Division {
    /// A tree of `n` spheres, divided so.
    pub fn spheres(self, n: u32) -> IstParams {
        let split = match self {
            Self::Boxes => Split::Boxes,
            Self::NeuralGas => Split::NeuralGas,
            Self::Median => Split::Median,
        };
        IstParams { split, ..IstParams::spheres(n) }
    }
}
