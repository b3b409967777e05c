//! A cut through the middle of a mesh's box, across its shortest side, as a picture.

use crate::cli::plot::draw::must_be_png;
use crate::geometry::{Point, TriMesh};
use anyhow::Context as _;
use plotters::coord::Shift;
use plotters::prelude::*;
use std::path::Path;

/// Width of the picture, at most, pixels.
const WIDTH: u32 = 1000;
/// Width of the margin, pixels.
const MARGIN: i32 = 20;

/// Where the cut lies, and how it is shown.
pub(super) struct Cut {
    /// The axis across it, and those along it.
    pub(super) across: usize,
    u: usize,
    v: usize,
    low: Point,
    /// Coordinate along `across`, m.
    pub(super) middle: f64,
    /// Pixels a metre.
    pub(super) scale: f64,
    /// Pixels.
    pub(super) size: (u32, u32),
}

impl Cut {
    pub(super) fn through(mesh: &TriMesh) -> anyhow::Result<Self> {
        let (low, high) = mesh.bounds().context("the mesh is empty")?;
        let size = high - low;
        let across = size.imin();
        let (u, v) = ((across + 1) % 3, (across + 2) % 3);
        let scale = f64::from(WIDTH - 2 * MARGIN as u32) / size[u].max(size[v]);
        let pixels = |axis: usize| WIDTH.min((size[axis] * scale) as u32 + 2 * MARGIN as u32);
        let middle = 0.5 * (low[across] + high[across]);
        Ok(Self { across, u, v, low, middle, scale, size: (pixels(u), pixels(v)) })
    }

    /// An empty picture.
    pub(super) fn open<'a>(&self, file: &'a Path) -> anyhow::Result<DrawingArea<BitMapBackend<'a>, Shift>> {
        must_be_png(file)?;
        let root = BitMapBackend::new(file, self.size).into_drawing_area();
        root.fill(&WHITE)?;
        Ok(root)
    }

    /// Pixel of a point, seen along `across`.
    pub(super) fn pixel(&self, p: &Point) -> (i32, i32) {
        let along = |axis: usize| ((p[axis] - self.low[axis]) * self.scale) as i32 + MARGIN;
        (along(self.u), self.size.1 as i32 - along(self.v))
    }

    /// Point of the cut at a pixel.
    pub(super) fn point(&self, (x, y): (u32, u32)) -> Point {
        let mut p = self.low;
        p[self.across] = self.middle;
        p[self.u] += (f64::from(x) - f64::from(MARGIN)) / self.scale;
        p[self.v] += (f64::from(self.size.1) - f64::from(y) - f64::from(MARGIN)) / self.scale;
        p
    }
}
