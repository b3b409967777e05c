//! `hapticd inspect --vps`: the shell and the field of a mesh, measured against the mesh itself, and as a picture.

use super::picture::Cut;
use crate::cli::clustering::Clustering;
use crate::cli::progress::Bar;
use crate::contact::vps::{PointShell, ShellParams};
use crate::geometry::bvh::Bvh;
use crate::geometry::field::build::{self, FieldParams, Resolution, THIN_CELLS};
use crate::geometry::field::{Field, FloatMap, LayerMap};
use crate::geometry::winding::Winding;
use crate::geometry::{Point, TriMesh, Vec3};
use anyhow::Context as _;
use plotters::prelude::*;
use serde::Serialize;
use std::path::Path;
use std::time::Instant;

/// Places on the surface at which shell and field are measured.
const SAMPLES: usize = 100_000;
/// The field is measured up to so many cells to both sides of the surface.
const BAND: f64 = 2.0;

/// What a mesh gives as a tool and as an object.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Voxmap {
    shell: Shell,
    field: Grid,
    /// Other ways to keep the same grid, where asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    encodings: Vec<Encoding>,
}

/// One way to keep distances in the grid.
#[derive(Clone, Debug, Serialize)]
struct Encoding {
    name: &'static str,
    bytes: u64,
    bytes_per_cell: f64,
    /// Difference from the exact distance within two cells of the surface.
    measured: Errors,
}

/// Sizes of differences, m.
#[derive(Clone, Copy, Debug, Serialize)]
struct Errors {
    mean_m: f64,
    p99_m: f64,
    max_m: f64,
}

/// The mesh as a pointshell.
#[derive(Clone, Debug, Serialize)]
struct Shell {
    points: usize,
    /// Square root of the area of a point, m.
    spacing_m: f64,
    /// No place of the surface is farther from the nearest point, m: a bound.
    covering_radius_m: f64,
    /// The farthest of the places measured, m.
    farthest_m: f64,
    /// Sum of the points' areas over the mesh's, minus one.
    area_error: f64,
    /// Points and covering radius (m) of each level.
    levels: Vec<(usize, f64)>,
    /// How the points are put together in balls.
    clusters: Clustering,
    /// Balls of 16, 256 and 4096 points: of all points sorted by place, and of those of the levels.
    balls: [[Balls; 3]; 2],
    memory_bytes: usize,
    build_s: f64,
}

/// The radii of the balls of one size.
#[derive(Clone, Copy, Debug, Serialize)]
struct Balls {
    count: usize,
    mean_m: f64,
    p99_m: f64,
    max_m: f64,
    sum_of_squares_m2: f64,
}

impl Balls {
    fn of(mut radii: Vec<f64>) -> Self {
        radii.sort_unstable_by(f64::total_cmp);
        let count = radii.len();
        Self {
            count,
            mean_m: radii.iter().sum::<f64>() / count.max(1) as f64,
            p99_m: radii.get(count.saturating_sub(1) * 99 / 100).copied().unwrap_or(0.0),
            max_m: radii.last().copied().unwrap_or(0.0),
            sum_of_squares_m2: radii.iter().map(|r| r * r).sum(),
        }
    }
}

/// The mesh as a field.
#[derive(Clone, Debug, Serialize)]
struct Grid {
    cell_m: f64,
    nodes: [u32; 3],
    bytes: u64,
    bytes_per_cell: f64,
    /// Bound on the error of a node, and of a value between nodes, m.
    node_error_m: f64,
    value_error_m: f64,
    /// Difference from the exact distance within two cells of the surface, m.
    measured: Errors,
    /// Thinnest wall and narrowest gap found, cells; none within 4 cells: null.
    thinnest_wall_cells: Option<f64>,
    narrowest_gap_cells: Option<f64>,
    build_s: f64,
}

impl std::fmt::Display for Voxmap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (s, g) = (&self.shell, &self.field);
        writeln!(
            f,
            "shell:      {} points {:.4} mm apart; no place farther than {:.4} mm from one ({:.4} mm measured); areas sum to the \
             mesh's within {:.1e}; {:.2} MB, built in {:.2} s",
            s.points,
            1e3 * s.spacing_m,
            1e3 * s.covering_radius_m,
            1e3 * s.farthest_m,
            s.area_error.abs(),
            s.memory_bytes as f64 / 1e6,
            s.build_s
        )?;
        // Each at least twice as fine as the one before, and all points.
        let mut levels: Vec<String> = Vec::new();
        let mut shown = 0;
        for (i, (n, r)) in s.levels.iter().enumerate() {
            if *n >= 2 * shown || i + 1 == s.levels.len() {
                levels.push(format!("{n} ({:.3} mm)", 1e3 * r));
                shown = *n;
            }
        }
        writeln!(f, "levels:     {}", levels.join(", "))?;
        for (what, tiers) in ["all points", "the levels"].iter().zip(&s.balls) {
            let of = |(b, points): (&Balls, &str)| {
                format!(
                    "{} of {points}: {:.4} mm, p99 {:.4} mm, squares {:.1} mm^2",
                    b.count,
                    1e3 * b.mean_m,
                    1e3 * b.p99_m,
                    1e6 * b.sum_of_squares_m2
                )
            };
            let tiers: Vec<String> = tiers.iter().zip(["16", "256", "4096"]).map(of).collect();
            writeln!(f, "balls:      {what}, {}: {}", s.clusters, tiers.join("; "))?;
        }
        let [x, y, z] = g.nodes;
        writeln!(
            f,
            "field:      {x} x {y} x {z} nodes of {:.4} mm, {:.2} MB ({:.2} bytes a cell), built in {:.2} s",
            1e3 * g.cell_m,
            g.bytes as f64 / 1e6,
            g.bytes_per_cell,
            g.build_s
        )?;
        write!(
            f,
            "distance:   within {BAND} cells of the surface off by {:.5} mm in the mean, p99 {:.5} mm, at most {:.5} mm measured \
             (bounds: {:.5} mm at nodes, {:.5} mm between them)",
            1e3 * g.measured.mean_m,
            1e3 * g.measured.p99_m,
            1e3 * g.measured.max_m,
            1e3 * g.node_error_m,
            1e3 * g.value_error_m
        )?;
        for e in &self.encodings {
            write!(
                f,
                "\nencoding:   {:<22} {:7.3} bytes a cell, off by {:.5} mm in the mean, p99 {:.5} mm, at most {:.5} mm",
                e.name,
                e.bytes_per_cell,
                1e3 * e.measured.mean_m,
                1e3 * e.measured.p99_m,
                1e3 * e.measured.max_m
            )?;
        }
        for (what, cells) in [("wall", g.thinnest_wall_cells), ("gap", g.narrowest_gap_cells)] {
            if let Some(cells) = cells.filter(|&c| c < THIN_CELLS) {
                write!(
                    f,
                    "\nthin:       a {what} spans {cells:.2} cells and can be lost; choose a smaller --voxel"
                )?;
            }
        }
        Ok(())
    }
}

/// Builds both, measures and draws them.
pub(super) fn measure(
    mesh: &TriMesh,
    shell: ShellParams,
    voxel: Option<f64>,
    encodings: bool,
    png: Option<&Path>,
) -> anyhow::Result<Voxmap> {
    let started = Instant::now();
    let clusters = shell.clusters.into();
    let shell = PointShell::build(mesh, shell).context("no shell was made")?;
    let shell_s = started.elapsed().as_secs_f64();
    let resolution = voxel.map_or(FieldParams::default().resolution, Resolution::Cell);
    let params = FieldParams { resolution, ..FieldParams::default() };
    let started = Instant::now();
    let bar = Bar::new("field");
    let built = build::build(mesh, &params, &bar);
    bar.finish();
    let (field, report) = built.context("no field was made")?;
    let field_s = started.elapsed().as_secs_f64();
    if let Some(file) = png {
        draw(mesh, &shell, &field, file).with_context(|| format!("{}: not drawn", file.display()))?;
    }
    let (area, places) = places(mesh);
    let truth = Truth::new(mesh, field.cell, &places);
    let cells: f64 = field.dims.iter().map(|&d| f64::from(d - 1)).product();
    let found = |cells: f64| Some(cells).filter(|c| c.is_finite());
    Ok(Voxmap {
        shell: Shell {
            points: shell.len,
            spacing_m: shell.spacing(),
            covering_radius_m: shell.covering_radius,
            farthest_m: shell.farthest(places.iter().map(|p| p.0)),
            area_error: shell.total_area / area - 1.0,
            levels: shell.levels().collect(),
            clusters,
            balls: shell.ball_radii().map(|tiers| tiers.map(Balls::of)),
            memory_bytes: shell.memory_bytes(),
            build_s: shell_s,
        },
        field: Grid {
            cell_m: field.cell,
            nodes: field.dims,
            bytes: field.bytes(),
            bytes_per_cell: field.bytes() as f64 / cells,
            node_error_m: report.node_error,
            value_error_m: field.sample_error(),
            measured: truth.errors(|p| Some(field.depth(p))),
            thinnest_wall_cells: found(report.thinnest_cells),
            narrowest_gap_cells: found(report.narrowest_gap_cells),
            build_s: field_s,
        },
        encodings: if encodings { self::encodings(mesh, &field, &truth)? } else { vec![] },
    })
}

/// The grid as the papers keep it: layers, scaled integers, floating point.
fn encodings(mesh: &TriMesh, field: &Field, truth: &Truth) -> anyhow::Result<Vec<Encoding>> {
    let cells: f64 = field.dims.iter().map(|&d| f64::from(d - 1)).product();
    let layers = LayerMap::new(mesh, field).map_err(anyhow::Error::msg)?;
    let floats = FloatMap::new(mesh, field);
    let one =
        |name, bytes: u64, measured| Encoding { name, bytes, bytes_per_cell: bytes as f64 / cells, measured };
    let of_layers = truth.errors(|p| layers.depth(p));
    Ok(vec![
        one("layers", layers.bytes() as u64, of_layers),
        one("layers, closest points", (layers.bytes() + layers.closest_bytes()) as u64, of_layers),
        one("scaled integers", field.bytes(), truth.errors(|p| Some(field.depth(p)))),
        one("integers, read cubic", field.bytes(), truth.errors(|p| Some(field.cubic(p).0))),
        one("floating point", floats.bytes() as u64, truth.errors(|p| floats.depth(p))),
    ])
}

/// Area of the mesh (m^2), and places spread evenly over it with the outward normal there: a low-discrepancy sequence.
fn places(mesh: &TriMesh) -> (f64, Vec<(Point, Vec3)>) {
    let mut area = 0.0;
    let mut triangles = Vec::with_capacity(mesh.triangles.len());
    for t in 0..mesh.triangles.len() {
        let [a, b, c] = mesh.corners(t);
        let doubled = (b - a).cross(&(c - a));
        if let Some(normal) = doubled.try_normalize(0.0) {
            triangles.push((area, [a, b, c], normal));
            area += 0.5 * doubled.norm();
        }
    }
    let place = |k: usize| {
        let at = area * (k as f64 + 0.5) / SAMPLES as f64;
        let (_, [a, b, c], normal) =
            triangles.get(triangles.partition_point(|t| t.0 <= at).checked_sub(1)?)?;
        let [mut u, mut v] = spread(k);
        if u + v > 1.0 {
            (u, v) = (1.0 - u, 1.0 - v);
        }
        Some((a + (b - a) * u + (c - a) * v, *normal))
    };
    (area, (0..SAMPLES).filter_map(place).collect())
}

/// The k-th of evenly spread numbers between 0 and 1 (additive recurrence with powers of the plastic number).
fn spread(k: usize) -> [f64; 2] {
    [0.754_877_666_246_692_8, 0.569_840_290_998_053_3].map(|step| (k as f64 * step).fract())
}

/// Exact depths about the surface.
struct Truth(Vec<(Point, f64)>);

impl Truth {
    /// Up to [`BAND`] cells beside the places.
    fn new(mesh: &TriMesh, cell: f64, places: &[(Point, Vec3)]) -> Self {
        let (bvh, winding) = (Bvh::build(mesh), Winding::build(mesh));
        let beside = |(k, (at, normal)): (usize, &(Point, Vec3))| {
            let away = BAND * (2.0 * (k as f64 * 0.618_033_988_749_894_8).fract() - 1.0);
            let p = at + normal * (away * cell);
            let distance = bvh.closest(&p).distance;
            (p, if winding.number(&p) > 0.5 { distance } else { -distance })
        };
        Self(places.iter().enumerate().map(beside).collect())
    }

    /// How far a reading is off where it has an answer.
    fn errors(&self, read: impl Fn(&Point) -> Option<f64>) -> Errors {
        let mut off: Vec<f64> = self.0.iter().filter_map(|(p, d)| Some((read(p)? - d).abs())).collect();
        off.sort_unstable_by(f64::total_cmp);
        let at = |q: f64| off.get((off.len().saturating_sub(1) as f64 * q) as usize).copied().unwrap_or(0.0);
        Errors { mean_m: off.iter().sum::<f64>() / off.len().max(1) as f64, p99_m: at(0.99), max_m: at(1.0) }
    }
}

/// Draws the field in the cut, a line every four cells, and the points near it with their inward normals.
fn draw(mesh: &TriMesh, shell: &PointShell, field: &Field, file: &Path) -> anyhow::Result<()> {
    let cut = Cut::through(mesh)?;
    let root = cut.open(file)?;
    let deepest = cut.size.0.max(cut.size.1);
    let reach = 0.25 * f64::from(deepest) / cut.scale;
    let line = 0.75 / cut.scale;
    for y in 0..cut.size.1 {
        for x in 0..cut.size.0 {
            let depth = field.depth(&cut.point((x, y)));
            let near = 1.0 - (depth.abs() / reach).min(1.0);
            let shade = |c: f64| (250.0 - (250.0 - c) * (0.15 + 0.5 * near)) as u8;
            let [r, g, b] = if depth > 0.0 { [40.0, 110.0, 190.0] } else { [170.0, 170.0, 170.0] };
            let every = (depth / (4.0 * field.cell)).round() * 4.0 * field.cell;
            let colour = if depth.abs() < line {
                RGBColor(20, 30, 45)
            } else if (depth - every).abs() < 0.5 * line {
                RGBColor(shade(r) / 8 * 7, shade(g) / 8 * 7, shade(b) / 8 * 7)
            } else {
                RGBColor(shade(r), shade(g), shade(b))
            };
            root.draw_pixel((x as i32, y as i32), &colour)?;
        }
    }
    let spacing = shell.spacing();
    for i in 0..shell.len {
        let p = shell.position(i);
        if (p[cut.across] - cut.middle).abs() > 0.5 * spacing {
            continue;
        }
        let normal = Vec3::new(shell.nx[i].into(), shell.ny[i].into(), shell.nz[i].into());
        let (from, to) = (cut.pixel(&p), cut.pixel(&(p + normal * (12.0 / cut.scale))));
        root.draw(&PathElement::new([from, to], RGBColor(213, 94, 0).stroke_width(1)))?;
        root.draw(&Circle::new(from, 2, RGBColor(213, 94, 0).filled()))?;
    }
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::shapes;

    #[test]
    fn a_cube_is_measured_as_what_it_is() {
        let size = 0.04;
        let cube = shapes::cuboid(Vec3::repeat(size));
        let (area, places) = places(&cube);
        assert!((area / (6.0 * size * size) - 1.0).abs() < 1e-12);
        assert_eq!(places.len(), SAMPLES);
        for axis in 0..3 {
            for sign in [-1.0, 1.0] {
                // On its face, a sixth of all, in the middle in the mean.
                let face: Vec<&(Point, Vec3)> = places.iter().filter(|p| p.1[axis] * sign > 0.5).collect();
                assert!((face.len() as f64 * 6.0 / SAMPLES as f64 - 1.0).abs() < 1e-3);
                assert!(face.iter().all(|p| (p.0[axis] * sign - size / 2.0).abs() < 1e-12));
                let mean: Vec3 = face.iter().map(|p| p.0.coords).sum::<Vec3>() / face.len() as f64;
                assert!((mean - Vec3::ith(axis, sign * size / 2.0)).norm() < 0.01 * size);
            }
        }
        let m = measure(&cube, ShellParams::points(2000), Some(0.001), true, None).expect("a cube");
        assert!(
            m.shell.farthest_m <= m.shell.covering_radius_m
                && m.shell.farthest_m > 0.7 * m.shell.covering_radius_m
        );
        assert!(m.shell.area_error.abs() < 1e-5);
        assert_eq!(m.shell.levels.last().map(|l| l.0), Some(2000));
        // The largest ball holds a face's share, the smallest may hold points at one place.
        assert_eq!(m.shell.balls[0].map(|b| b.count), [125, 8, 1]);
        for b in m.shell.balls.as_flattened() {
            let mean = b.mean_m * b.count as f64;
            assert!(b.mean_m <= b.max_m && b.p99_m <= b.max_m && b.max_m < size);
            assert!(b.sum_of_squares_m2 * b.count as f64 >= mean * mean * (1.0 - 1e-9));
        }
        // Faces on nodes: between nodes the value is exact but at edges, where it is off by less than its bound.
        let f = &m.field;
        assert!(f.measured.max_m < f.value_error_m && f.measured.mean_m < 0.05 * f.cell_m);
        // Layers know the distance to a voxel, the others as well as each other.
        let of = |name: &str| m.encodings.iter().find(|e| e.name == name).expect("an encoding");
        let (layers, floats) = (of("layers"), of("floating point"));
        assert!(layers.measured.max_m < 1.5 * f.cell_m && layers.bytes_per_cell < 1.0);
        assert!((floats.measured.mean_m - f.measured.mean_m).abs() < 1e-6 && floats.bytes_per_cell > 4.0);
        assert_eq!(m.field.cell_m, 0.001);
        assert!((m.field.bytes_per_cell - 2.0).abs() < 0.2, "{}", m.field.bytes_per_cell);
    }
}
