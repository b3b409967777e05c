//! `--clusters`: how the points of a shell are put together in balls.

use crate::contact::vps::Clusters;
use serde::Serialize;

/// [`Clusters`] on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clustering {
    /// Along a Morton curve and a k-d tree.
    Morton,
    /// The nearest sixteen, then the nearest sixteen of these, and so on.
    BottomUp,
    /// Bottom-up over all points, a Morton curve within the levels that a short budget reads.
    Mixed,
}

impl Default for Clustering {
    fn default() -> Self {
        match Clusters::default() {
            Clusters::Morton => Self::Morton,
            Clusters::BottomUp => Self::BottomUp,
            Clusters::Mixed => Self::Mixed,
        }
    }
}

impl From<Clustering> for Clusters {
    fn from(from: Clustering) -> Self {
        match from {
            Clustering::Morton => Self::Morton,
            Clustering::BottomUp => Self::BottomUp,
            Clustering::Mixed => Self::Mixed,
        }
    }
}
