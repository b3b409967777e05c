//! `--clusters`: how the points of a shell are put together in balls.

use crate::contact::vps::{Clusters, ShellParams};
use clap::ValueEnum;
use serde::Serialize;

/// [`Clusters`] on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
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
        Clusters::default().into()
    }
}

impl Clustering {
    /// A shell of `n` points, put together so.
    pub fn points(self, n: u32) -> ShellParams {
        ShellParams { clusters: self.into(), ..ShellParams::points(n) }
    }
}

impl std::fmt::Display for Clustering {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}

impl From<Clusters> for Clustering {
    fn from(from: Clusters) -> Self {
        match from {
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
