//! `--split`, `--smallest-radius-mm`, `--fill`: how a sphere tree is made.

use super::numbers::positive;
use crate::contact::ist::{IstParams, Split, Stop};
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
    /// A tree of `n` spheres, packed until then and divided so.
    pub fn spheres(self, n: u32, until: &Until) -> IstParams {
        let split = match self {
            Self::Boxes => Split::Boxes,
            Self::NeuralGas => Split::NeuralGas,
            Self::Median => Split::Median,
        };
        let usual = IstParams::spheres(n);
        let radius = until.smallest_radius_mm.map(|r| Stop::Radius(r * 1e-3));
        let stop = radius.or(until.fill.map(Stop::Fill)).unwrap_or(usual.stop);
        IstParams { split, stop, ..usual }
    }
}

/// When a packing ends, other than at a number of spheres. At most one of them: each command makes a group of the two.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
pub struct Until {
    /// Pack spheres down to this radius, mm; the number of spheres then says how fine the cells are
    #[arg(long, value_name = "MM", value_parser = positive)]
    pub smallest_radius_mm: Option<f64>,
    /// Pack spheres until they fill this part of the volume, above 0 and at most 1; likewise
    #[arg(long, value_name = "PART", value_parser = part)]
    pub fill: Option<f64>,
}

fn part(text: &str) -> Result<f64, String> {
    positive(text).ok().filter(|x| *x <= 1.0).ok_or_else(|| "must be above 0 and at most 1".into())
}
