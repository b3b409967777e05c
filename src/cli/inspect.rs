//! `hapticd inspect`: what a mesh file holds, what had to be repaired, how large it is to the hand, what a field costs.

mod ist;
mod picture;
mod vps;

use super::clustering::Clustering;
use super::division::{Division, Until};
use crate::geometry::field::build::{self, FieldParams, Resolution, Silent};
use crate::geometry::import::{Format, ImportOptions, ImportReport, Unit, import};
use crate::geometry::{TriMesh, Vec3};
use anyhow::Context as _;
use serde::Serialize;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Arguments of `hapticd inspect`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("built").args(["ist", "vps"]))]
#[command(group = clap::ArgGroup::new("until").args(["smallest_radius_mm", "fill"]).requires("ist"))]
pub struct Args {
    /// Mesh file: STL, OBJ or PLY
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Unit of the numbers in the file: um, mm, cm, m, in, ft (the file does not say it)
    #[arg(long, value_name = "UNIT", value_parser = Unit::parse)]
    pub unit: Unit,
    /// Multiply by this: one factor, or X,Y,Z; an odd number of negative ones mirrors
    #[arg(long, value_name = "S", default_value = "1", value_parser = parse_scale, allow_hyphen_values = true)]
    pub scale: Vec3,
    /// Refuse (exit code 3) what would need a repair or is not a closed solid
    #[arg(long)]
    pub strict: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Format, when the file's name does not end in it: stl, obj, ply
    #[arg(long, value_name = "FORMAT", value_parser = Format::parse)]
    pub format: Option<Format>,
    /// Merge vertices closer than this, mm in the finished mesh; 0 merges equal ones only
    #[arg(long, value_name = "MM", default_value_t = 0.0, value_parser = super::numbers::not_negative)]
    pub weld_mm: f64,
    /// Edge of the device's workspace, mm, with which the box is compared
    #[arg(long, value_name = "MM", default_value_t = 100.0, value_parser = super::numbers::positive)]
    pub workspace_mm: f64,
    /// Cells along the longest side of the distance field whose cost is estimated; 0 leaves the estimate out
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(0..=4096))]
    pub cells: u32,
    /// Fill it with so many inner spheres and say what that gives and costs
    #[arg(long, value_name = "SPHERES", value_parser = clap::value_parser!(u32).range(1..=2_000_000))]
    pub ist: Option<u32>,
    /// How the nodes over the spheres of --ist are divided
    #[arg(long, value_enum, default_value_t, requires = "ist")]
    pub split: Division,
    /// When the packing of --ist ends
    #[command(flatten)]
    pub until: Until,
    /// Sample it for Voxmap-PointShell and measure shell and field against the mesh
    #[arg(long, conflicts_with = "ist")]
    pub vps: bool,
    /// Points of the shell of --vps
    #[arg(long, value_name = "N", default_value_t = 10_000, requires = "vps", value_parser = clap::value_parser!(u32).range(1..=4_000_000))]
    pub points: u32,
    /// How the points of --vps are put together in balls
    #[arg(long, value_enum, default_value_t, requires = "vps")]
    pub clusters: Clustering,
    /// Edge of a cell of the field of --vps, m; without it 128 cells along the longest side
    #[arg(long, value_name = "M", requires = "vps", value_parser = super::numbers::positive)]
    pub voxel: Option<f64>,
    /// With --vps: the same grid as layers and as floating point too, with bytes a cell and errors
    #[arg(long, requires = "vps")]
    pub encodings: bool,
    /// Draw a cut through the spheres, or through field and shell, into this PNG file
    #[arg(long, value_name = "FILE", requires = "built")]
    pub png: Option<PathBuf>,
}

fn parse_scale(text: &str) -> Result<Vec3, String> {
    let parts: Result<Vec<f64>, _> = text.split(',').map(|t| t.trim().parse::<f64>()).collect();
    match parts.map_err(|e| format!("{e}; give one factor or X,Y,Z"))?.as_slice() {
        [s] if s.is_normal() => Ok(Vec3::repeat(*s)),
        [x, y, z] if [x, y, z].iter().all(|s| s.is_normal()) => Ok(Vec3::new(*x, *y, *z)),
        [_] | [_, _, _] => Err("a factor must be finite and not zero".into()),
        _ => Err("give one factor or three, X,Y,Z".into()),
    }
}

/// Largest file that is read, bytes.
const MAX_FILE: u64 = 4 << 30;

/// Everything that `--json` prints.
#[derive(Serialize)]
struct Output<'a> {
    file: String,
    format: Format,
    unit: &'static str,
    scale: [f64; 3],
    report: &'a ImportReport,
    repairs: Vec<String>,
    defects: Vec<String>,
    workspace_m: f64,
    /// Box over workspace, along x, y, z.
    workspace_fraction: [f64; 3],
    field: Option<FieldEstimate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ist: Option<ist::Spheres>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vps: Option<vps::Voxmap>,
    /// False when strict mode refuses the mesh.
    accepted: bool,
}

/// What a distance field would cost.
#[derive(Clone, Copy, Debug, Serialize)]
struct FieldEstimate {
    /// Cells along the longest side.
    cells: u32,
    /// Edge of a cell, m.
    cell_m: f64,
    /// Nodes along x, y, z.
    nodes: [u64; 3],
    /// Size when built, at most, bytes; what the memory cap counts.
    bytes: u64,
    /// Further bytes while it is built, at most.
    build_bytes: u64,
    /// Time to build it on this machine, extrapolated from two coarse fields, s.
    build_s: f64,
}

/// Runs `hapticd inspect`.
///
/// # Errors
/// The file cannot be read or is no mesh; the message names file, line or byte, and cause.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let name = args.file.display().to_string();
    if let Some(png) = &args.png {
        super::outputs::keep_apart(&[("FILE", &args.file)], &[("--png", png)])?;
    }
    let format = match args.format {
        Some(f) => f,
        None => Format::of_file(&name)
            .map_err(|e| super::exit::Usage(format!("{name}: {e}, or give --format")))?,
    };
    let bytes = read(&args.file)?;
    let options = ImportOptions {
        scale: args.scale,
        weld_tolerance: args.weld_mm * 1e-3,
        ..ImportOptions::in_unit(args.unit.metres())
    };
    // Not strict here: the report is wanted above all when the mesh is refused.
    let imported = import(&name, &bytes, format, &options)?;
    drop(bytes);
    let report = &imported.report;
    let refusal = report.objections().filter(|_| args.strict);
    let workspace_m = args.workspace_mm * 1e-3;
    let size = report.bounds.1 - report.bounds.0;
    let output = Output {
        file: name,
        format,
        unit: args.unit.name(),
        scale: args.scale.into(),
        repairs: report.repairs(),
        defects: report.defects(),
        workspace_m,
        workspace_fraction: (size / workspace_m).into(),
        field: (args.cells > 0).then(|| estimate(&imported.mesh, args.cells)).transpose()?,
        ist: args
            .ist
            .map(|n| ist::pack(&imported.mesh, &args.split.spheres(n, &args.until), args.png.as_deref()))
            .transpose()?,
        vps: args
            .vps
            .then(|| {
                let shell = args.clusters.points(args.points);
                vps::measure(&imported.mesh, shell, args.voxel, args.encodings, args.png.as_deref())
            })
            .transpose()?,
        accepted: refusal.is_none(),
        report,
    };
    if args.json {
        super::out::json(&output, true)?;
    } else {
        super::out::text(text(&output))?;
        if let Some(spheres) = &output.ist {
            super::out::line(spheres)?;
        }
        if let Some(voxmap) = &output.vps {
            super::out::line(voxmap)?;
        }
    }
    if let Some(cause) = refusal {
        super::out::note(format_args!("hapticd: {}: refused (strict): {cause}", output.file));
        return Ok(super::exit::findings());
    }
    Ok(super::exit::OK)
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let name = path.display();
    let file = crate::config::open_regular(path).with_context(|| format!("{name}: cannot open"))?;
    let meta = file.metadata().with_context(|| format!("{name}: cannot read its size"))?;
    anyhow::ensure!(
        meta.len() <= MAX_FILE,
        "{name}: {} bytes, more than the limit of {MAX_FILE}",
        meta.len()
    );
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).with_context(|| format!("{name}: cannot read"))?;
    anyhow::ensure!(bytes.len() as u64 <= MAX_FILE, "{name}: more than the limit of {MAX_FILE} bytes");
    Ok(bytes)
}

/// Size by the rule of the field builder; time by two coarse builds, as it grows with the nodes.
fn estimate(mesh: &TriMesh, cells: u32) -> anyhow::Result<FieldEstimate> {
    let padding = FieldParams::default().padding;
    let (low, high) = mesh.bounds().context("the mesh is empty")?;
    let size = high - low;
    let params = FieldParams { resolution: Resolution::Longest(cells), padding };
    let (cell_m, nodes) = build::plan(&size, &params);
    let needs = build::needs(&size, mesh.triangles.len(), &params);
    let count: u64 = nodes.iter().product();
    let timed = |cells: u32| -> anyhow::Result<(f64, f64)> {
        let params = FieldParams { resolution: Resolution::Longest(cells), padding };
        let begin = Instant::now();
        let (field, _) = build::build(mesh, &params, &Silent)?;
        Ok((field.nodes() as f64, begin.elapsed().as_secs_f64()))
    };
    let ((n0, t0), (n1, t1)) = (timed(12)?, timed(36)?);
    let per_node = ((t1 - t0) / (n1 - n0).max(1.0)).max(0.0);
    Ok(FieldEstimate {
        cells,
        cell_m,
        nodes,
        bytes: needs.field,
        build_bytes: needs.working,
        build_s: (t0 + per_node * (count as f64 - n0)).max(0.0),
    })
}

fn text(o: &Output<'_>) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    let [x, y, z] = o.scale;
    let scale = if x == y && y == z { format!("{x}") } else { format!("{x}, {y}, {z}") };
    // Writing into a string cannot fail.
    let _ = writeln!(out, "{}: {} in {}, scale {scale}", super::out::word(&o.file), o.format.name(), o.unit);
    let [fx, fy, fz] = o.workspace_fraction;
    let largest = fx.max(fy).max(fz);
    let advice = if largest > 1.0 {
        format!("; a further factor of {:.3} would make it fit", 1.0 / largest)
    } else if largest < 0.05 {
        "; is the unit right?".into()
    } else {
        String::new()
    };
    out += &o.report.to_string();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(out, "{name:<22} {value}");
    };
    line("of the workspace", format!("{fx:.3} x {fy:.3} x {fz:.3} of {} mm{advice}", o.workspace_m * 1e3));
    if let Some(f) = &o.field {
        let [a, b, c] = f.nodes;
        line(
            &format!("field of {} cells", f.cells),
            format!(
                "{a} x {b} x {c} nodes of {:.4} mm: at most {:.1} MB ({:.1} MB more while building), about {:.1} s on this machine",
                f.cell_m * 1e3,
                f.bytes as f64 / 1e6,
                f.build_bytes as f64 / 1e6,
                f.build_s
            ),
        );
    }
    let list = |l: &[String]| if l.is_empty() { "none".into() } else { l.join("; ") };
    line("repairs", list(&o.repairs));
    line("defects left", list(&o.defects));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::shapes;

    #[test]
    fn scales_are_one_factor_or_three() {
        assert_eq!(parse_scale("2.5"), Ok(Vec3::repeat(2.5)));
        assert_eq!(parse_scale("1, -1,1"), Ok(Vec3::new(1.0, -1.0, 1.0)));
        for bad in ["", "0", "nan", "1,2", "1,0,1", "1,2,3,4", "x"] {
            assert!(parse_scale(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn estimate_has_the_nodes_of_the_field_that_is_built() {
        for mesh in [shapes::keyed_hole(&shapes::HoleShape::default()), shapes::torus(0.06, 0.02, 32, 16)] {
            let e = estimate(&mesh, 40).unwrap();
            let params = FieldParams { resolution: Resolution::Longest(40), ..FieldParams::default() };
            let (field, report) = build::build(&mesh, &params, &Silent).unwrap();
            assert_eq!(e.nodes, field.dims.map(u64::from));
            // What the memory cap counts holds: not below, and not far above.
            assert!(
                e.bytes >= report.bytes && e.bytes < report.bytes * 5 / 4,
                "{} {}",
                e.bytes,
                report.bytes
            );
            assert!(e.build_s >= 0.0 && e.build_s.is_finite());
        }
    }

    #[test]
    fn text_is_aligned_and_says_what_does_not_fit() {
        let bytes = shapes::write_stl(&shapes::keyed_hole(&shapes::HoleShape::default()));
        let imported = import("hole.stl", &bytes, Format::Stl, &ImportOptions::in_unit(1.0)).unwrap();
        let output = Output {
            file: "hole.stl".into(),
            format: Format::Stl,
            unit: "m",
            scale: [1.0; 3],
            report: &imported.report,
            repairs: vec![],
            defects: vec![],
            workspace_m: 0.1,
            workspace_fraction: [2.8, 1.6, 1.6],
            field: None,
            ist: None,
            vps: None,
            accepted: true,
        };
        let text = text(&output);
        assert!(text.contains("0.357 would make it fit"), "{text}");
        assert!(text.lines().skip(1).all(|l| l.chars().nth(22) == Some(' ')), "{text}");
        let json = serde_json::to_value(&output).unwrap();
        assert_eq!(json["report"]["triangles"], imported.mesh.triangles.len());
        assert_eq!(json["workspace_fraction"][0], 2.8);
    }
}
