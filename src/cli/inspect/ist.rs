//! `hapticd inspect --ist`: the inner spheres of a mesh, in numbers and as a picture.

use super::picture::Cut;
use crate::cli::progress::Bar;
use crate::contact::ist::packing::InnerSphere;
use crate::contact::ist::{IstParams, SphereTree};
use crate::geometry::{Point, TriMesh};
use anyhow::Context as _;
use plotters::prelude::*;
use serde::Serialize;
use std::path::Path;
use std::time::Instant;

/// What filling a mesh gives and costs.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Spheres {
    spheres: usize,
    /// Fraction of the volume that the spheres fill; the rest is theirs as cells.
    fill: f64,
    /// The fraction asked for, where the cells ran out before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    fill_missed: Option<f64>,
    /// Edge of a cell, m.
    cell_m: f64,
    cells: usize,
    nodes: usize,
    /// Levels of the hierarchy.
    depth: usize,
    memory_bytes: usize,
    build_s: f64,
    /// The volumes are those of the mesh itself, so that answers carry bounds.
    exact: bool,
    largest_m: f64,
    smallest_m: f64,
}

impl std::fmt::Display for Spheres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "spheres:    {} fill {:.1} % of the volume; radii {:.3} to {:.3} mm; built in {:.2} s",
            self.spheres,
            100.0 * self.fill,
            1e3 * self.smallest_m,
            1e3 * self.largest_m,
            self.build_s
        )?;
        if let Some(asked) = self.fill_missed {
            let asked = 100.0 * asked;
            writeln!(f, "            the cells ran out before {asked:.1} %: more spheres make finer ones")?;
        }
        write!(
            f,
            "hierarchy:  {} nodes in {} levels over {} cells of {:.3} mm, {:.1} MB ({:.0} bytes a sphere); {}",
            self.nodes,
            self.depth,
            self.cells,
            1e3 * self.cell_m,
            self.memory_bytes as f64 / 1e6,
            self.memory_bytes as f64 / self.spheres.max(1) as f64,
            if self.exact { "with bounds" } else { "no bounds: the mesh is not a simple closed solid" }
        )
    }
}

/// Packs the mesh and draws it.
pub(super) fn pack(mesh: &TriMesh, params: &IstParams, png: Option<&Path>) -> anyhow::Result<Spheres> {
    let started = Instant::now();
    let bar = Bar::new("spheres");
    let built = SphereTree::build_with_packing(mesh, params, &bar);
    bar.finish();
    let (tree, packing) = built.context("the mesh was not filled")?;
    let build_s = started.elapsed().as_secs_f64();
    if let Some(file) = png {
        draw(mesh, &packing.spheres, file).with_context(|| format!("{}: not drawn", file.display()))?;
    }
    let radius = |s: Option<&InnerSphere>| s.map_or(0.0, |s| f64::from(s.radius));
    Ok(Spheres {
        spheres: tree.spheres,
        fill: tree.fill,
        fill_missed: params.stop.missed(tree.fill),
        cell_m: tree.cell,
        cells: tree.cell_count(),
        nodes: tree.node_count(),
        depth: tree.depth(),
        memory_bytes: tree.memory_bytes(),
        build_s,
        exact: tree.exact,
        largest_m: radius(packing.spheres.first()),
        smallest_m: radius(packing.spheres.last()),
    })
}

/// Draws the circles in which the spheres meet the cut.
fn draw(mesh: &TriMesh, spheres: &[InnerSphere], file: &Path) -> anyhow::Result<()> {
    let cut = Cut::through(mesh)?;
    let root = cut.open(file)?;
    for s in spheres {
        let off = f64::from(s.centre[cut.across]) - cut.middle;
        let r2 = f64::from(s.radius).powi(2) - off * off;
        let r = r2.max(0.0).sqrt() * cut.scale;
        if r < 0.5 {
            continue;
        }
        // Darker towards the middle of the sphere.
        let near = 1.0 - off.abs() / f64::from(s.radius);
        let shade = |c: f64| (235.0 - (235.0 - c) * near) as u8;
        let at = cut.pixel(&Point::from(s.centre.map(f64::from)));
        root.draw(&Circle::new(at, r as i32, RGBColor(shade(70.0), shade(130.0), shade(180.0)).filled()))?;
        root.draw(&Circle::new(at, r as i32, RGBColor(40, 60, 80).stroke_width(1)))?;
    }
    root.present()?;
    Ok(())
}
