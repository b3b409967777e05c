//! `hapticd evaluate`: a contact method along recorded pose paths, against exact answers.
//!
//! Every pose goes through [`contact::query`], the entry point of the servo's tick, forces and torques included. Only
//! the query is timed, on one thread, poses in order, first pass.

mod budget;
mod figures;
mod path;

pub use figures::Figures;
pub use path::{PosePath, Truth};

use super::clustering::Clustering;
use super::division::{Division, Until};
use super::law::Law;
use super::numbers::positive;
use super::out;
use super::progress::Bar;
use crate::contact::ist::{Solid, SphereTree, cell_for};
use crate::contact::near::near;
use crate::contact::vps::PointShell;
use crate::contact::{
    self, Budget, Contact, Friction, Material, ObjectShape, Query, QueryState, Texture, ToolShape,
};
use crate::geometry::field::build::{FieldParams, Resolution, Silent, build};
use crate::geometry::{Pose, TriMesh, Twist, Vec3};
use anyhow::{Context, Result};
use comfy_table::{Cell, CellAlignment, Table, presets};
use nalgebra::Point3;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

/// Cells along the longest side of the body with the field, unless `--voxel` says otherwise.
const DEFAULT_CELLS: f64 = 128.0;
/// Distances of interest, as a fraction of the bounding size.
const REACH: f64 = 0.1;
/// Most cells of padding.
const MAX_PADDING: u32 = 64;

/// Points that a shell may have.
const POINTS: std::ops::RangeInclusive<i64> = 16..=10_000_000;

/// Contact methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Method {
    /// Voxmap-PointShell: a sampled surface against a distance field.
    Vps,
    /// Inner Sphere Tree: a body filled with spheres against a solid.
    Ist,
}

/// Which body of the path is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Role {
    /// The body at rest.
    Static,
    /// The body that moves.
    Moving,
}

/// Arguments of `hapticd evaluate`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("until").args(["smallest_radius_mm", "fill"]))]
pub struct Args {
    /// Path files (JSON lines: a header, then one pose a line)
    #[arg(required = true, value_name = "PATHFILE")]
    pub paths: Vec<PathBuf>,
    /// Where the models are looked for; may be given several times. The path file's own folder comes last
    #[arg(long, value_name = "DIR")]
    pub models: Vec<PathBuf>,
    /// Contact method
    #[arg(long, value_enum, default_value = "vps")]
    pub method: Method,
    /// Points of the sampled body
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = clap::value_parser!(u32).range(POINTS))]
    pub points: u32,
    /// How the points are put together in balls (--method vps)
    #[arg(long, value_enum, default_value_t)]
    pub clusters: Clustering,
    /// How the points push (--method vps)
    #[arg(long, value_enum, default_value_t)]
    pub law: Law,
    /// Spheres of the sampled body (--method ist); the other body's field is as fine as its own packing would need
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4_000_000))]
    pub spheres: u32,
    /// How the nodes over the spheres are divided (--method ist)
    #[arg(long, value_enum, default_value_t)]
    pub split: Division,
    /// When the packing ends (--method ist)
    #[command(flatten)]
    pub until: Until,
    /// Edge of a cell of the other body's field, m; by default its longest side has 128 cells, or what --spheres asks for
    #[arg(long, value_name = "M", value_parser = positive)]
    pub voxel: Option<f64>,
    /// Time for one query, µs: nine of ten shall keep it. Tried out on the path's own poses, and turned into work units
    #[arg(long, value_name = "U", value_parser = positive)]
    pub budget_us: Option<f64>,
    /// Work units for one query, what --budget-us is turned into: with them answers are the same on every machine
    #[arg(long, value_name = "N", conflicts_with = "budget_us", value_parser = clap::value_parser!(u32).range(1..))]
    pub budget_units: Option<u32>,
    /// Start each query with an empty memory of the one before
    #[arg(long)]
    pub cold: bool,
    /// Which body is sampled; the other one becomes the field
    #[arg(long, value_enum, default_value = "moving")]
    pub shell: Role,
    /// Write the figures as JSON: one object, or an array for several paths
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Runs `hapticd evaluate`.
///
/// # Errors
/// A message for the user.
pub fn run(args: Args) -> Result<ExitCode> {
    report(&args)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs every path, prints a line for each and writes the JSON file.
///
/// # Errors
/// A message for the user.
pub fn report(args: &Args) -> Result<()> {
    if let Some(json) = &args.json {
        let inputs: Vec<_> = args.paths.iter().map(|p| ("PATHFILE", p.as_path())).collect();
        super::outputs::keep_apart(&inputs, &[("--json", json)])?;
    }
    let mut all = Vec::new();
    for file in &args.paths {
        let path = PosePath::read(file)?;
        let mut dirs = args.models.clone();
        dirs.extend(file.parent().map(Path::to_path_buf));
        let pair = Pair::build(&path, &dirs, args)?;
        let units = match args.budget_us {
            None => args.budget_units.unwrap_or(0),
            Some(us) => {
                let (name, units) = (out::word(&path.name), pair.units_for(&path, us));
                match units {
                    0 => out::note(format_args!("{name}: whole queries fit into {us} µs: no limit")),
                    _ => out::note(format_args!("{name}: {us} µs buy {units} work units")),
                }
                units
            }
        };
        let (mut micros, mut witnesses) = (Vec::new(), Vec::new());
        let answers = pair.follow(&path, units, |us, near| {
            micros.push(us);
            witnesses.push(near);
        });
        let whole = if units > 0 { pair.run(&path, 0, |_| ()) } else { vec![] };
        let run = figures::Run {
            method: match args.method {
                Method::Vps => "vps",
                Method::Ist => "ist",
            },
            law: (args.method == Method::Vps).then(|| args.law.to_string()),
            elements: pair.elements,
            build_s: pair.build_s,
            memory_bytes: pair.memory_bytes,
            answers: &answers,
            whole: &whole,
            micros: &micros,
            witnesses: &witnesses,
            size: pair.size,
        };
        all.push(figures::figures(&path, &run));
    }
    out::line(table(&all))?;
    if let Some(file) = &args.json {
        let text = match all.as_slice() {
            [one] => serde_json::to_string_pretty(one)?,
            many => serde_json::to_string_pretty(many)?,
        };
        std::fs::write(file, text + "\n")
            .with_context(|| format!("{}: cannot be written", file.display()))?;
    }
    Ok(())
}

/// Both bodies of a path, built for the method.
pub struct Pair {
    tool: ToolShape,
    object: ObjectShape,
    role: Role,
    cold: bool,
    material: Material,
    /// Points of the shell.
    pub elements: usize,
    /// Time to build, s.
    pub build_s: f64,
    /// Bytes of shell and field.
    pub memory_bytes: usize,
    /// Bounding size of the path, m.
    pub size: f64,
}

impl Pair {
    /// Loads the models of a path and builds shell and field.
    ///
    /// # Errors
    /// A message naming the model or parameter.
    pub fn build(path: &PosePath, dirs: &[PathBuf], args: &Args) -> Result<Self> {
        let fixed = path.header.fixed.load(dirs)?;
        let moving = path.header.moving.load(dirs)?;
        let size = path.header.bounding_size.filter(|s| *s > 0.0 && s.is_finite());
        let size = size.unwrap_or_else(|| diameter(&fixed).min(diameter(&moving)));
        let (shell_of, field_of) = match args.shell {
            Role::Moving => (&moving, &fixed),
            Role::Static => (&fixed, &moving),
        };
        let started = Instant::now();
        let cell = match (args.voxel, args.method) {
            (Some(cell), _) => cell,
            (None, Method::Vps) => longest_side(field_of) / DEFAULT_CELLS,
            (None, Method::Ist) => cell_for(field_of, args.spheres, &Silent)?,
        };
        let params = FieldParams { resolution: Resolution::Cell(cell), padding: padding(path, size, cell) };
        let bar = Bar::new(&format!("{}: field", path.name));
        let built = build(field_of, &params, &bar);
        bar.finish();
        let (field, _) = built.with_context(|| format!("{}: field", path.name))?;
        field.advise_large_pages();
        let field = Arc::new(field);
        let mut memory_bytes = field.bytes() as usize;
        let (tool, object, elements) = match args.method {
            Method::Vps => {
                let shell = PointShell::build(shell_of, args.clusters.points(args.points))
                    .with_context(|| format!("{}: shell", path.name))?
                    .with_law(args.law.into());
                memory_bytes += shell.memory_bytes();
                let points = shell.len;
                (ToolShape::Shell(Arc::new(shell)), ObjectShape::Field(field), points)
            }
            Method::Ist => {
                let bar = Bar::new(&format!("{}: spheres", path.name));
                let params = args.split.spheres(args.spheres, &args.until);
                let tree = SphereTree::build(shell_of, &params, &bar);
                bar.finish();
                let tree = tree.with_context(|| format!("{}: spheres", path.name))?;
                if let Some(asked) = params.stop.missed(tree.fill) {
                    let name = out::word(&path.name);
                    out::note(format_args!(
                        "{name}: the spheres fill {:.3}, not {asked}: the cells ran out",
                        tree.fill
                    ));
                }
                memory_bytes += tree.memory_bytes() + tree.surface_bytes() as usize;
                let spheres = tree.spheres;
                let solid = Solid::new(field_of, field, &|| false).context("the solid was not built")?;
                memory_bytes += solid.surface_bytes() as usize;
                (ToolShape::Spheres(Arc::new(tree)), ObjectShape::Solid(Arc::new(solid)), spheres)
            }
        };
        let build_s = started.elapsed().as_secs_f64();
        Ok(Self {
            elements,
            memory_bytes,
            build_s,
            size,
            role: args.shell,
            cold: args.cold,
            // Undamped, so that the answer depends on the pose alone; 1000 N/m for a square centimetre.
            material: Material {
                stiffness: 1000.0,
                reference_area: 1e-4,
                damping: 0.0,
                friction: Friction::NONE,
                texture: Texture::NONE,
            },
            tool,
            object,
        })
    }

    /// Tool geometry: the sampled body.
    pub fn tool(&self) -> &ToolShape {
        &self.tool
    }

    /// Object geometry: the body with the field.
    pub fn object(&self) -> &ObjectShape {
        &self.object
    }

    /// What the object answers with.
    pub fn material(&self) -> &Material {
        &self.material
    }

    /// Queries every pose in order with `units` work units (0 = unlimited) and hands each query's time in µs to
    /// `timed`. The answers' wrenches are on the moving body about its origin, axes of the static body.
    pub fn run(&self, path: &PosePath, units: u32, mut timed: impl FnMut(f64)) -> Vec<Contact> {
        self.follow(path, units, |us, _| timed(us))
    }

    /// As [`Pair::run`]; `each` gets besides the points of the resting and of the moving body that the query found nearest to each other,
    /// where it knows them, in the frame of the former, m.
    pub fn follow(
        &self,
        path: &PosePath,
        units: u32,
        mut each: impl FnMut(f64, Option<[Vec3; 2]>),
    ) -> Vec<Contact> {
        let mut state = QueryState::default();
        let ask = |(pose, _): &(Pose, Truth)| {
            if self.cold {
                state = QueryState::default();
            }
            let (answer, us) = self.ask(pose, units, &mut state);
            each(us, self.witnesses(pose, &answer, &state));
            answer
        };
        path.poses.iter().map(ask).collect()
    }

    /// Of the answer to [`Pair::ask`] that left `state`: see [`Pair::follow`].
    fn witnesses(&self, pose: &Pose, answer: &Contact, state: &QueryState) -> Option<[Vec3; 2]> {
        let rest = Pose::identity();
        let [tool, object] = near(&self.query(pose, &rest), answer, state)?.witnesses();
        Some(match self.role {
            Role::Moving => [object, tool],
            Role::Static => [tool, object],
        })
    }

    /// The question at one pose of the moving body, with `rest` that of the other.
    fn query<'a>(&'a self, pose: &'a Pose, rest: &'a Pose) -> Query<'a> {
        let (tool_pose, object_pose) = match self.role {
            Role::Moving => (pose, rest),
            Role::Static => (rest, pose),
        };
        Query {
            tool: &self.tool,
            tool_pose,
            tool_twist: &Twist::ZERO,
            object: &self.object,
            object_pose,
            object_twist: &Twist::ZERO,
            material: &self.material,
        }
    }

    /// What is answered at one pose of the moving body, with an empty memory.
    pub fn at(&self, pose: &Pose, units: u32) -> Contact {
        self.ask(pose, units, &mut QueryState::default()).0
    }

    fn ask(&self, pose: &Pose, units: u32, state: &mut QueryState) -> (Contact, f64) {
        let rest = Pose::identity();
        let question = self.query(pose, &rest);
        let budget = Budget { units, deadline: None };
        let started = Instant::now();
        let mut answer = contact::query(&question, budget, state);
        let us = started.elapsed().as_secs_f64() * 1e6;
        if self.role == Role::Static {
            // The answer is the wrench on the resting body about its own origin: turn it round and move it.
            answer.wrench = answer.wrench.reaction(&-pose.translation.vector);
        }
        (answer, us)
    }

    /// Work units that a query may spend to keep to `us` µs; 0 = no limit.
    fn units_for(&self, path: &PosePath, us: f64) -> u32 {
        budget::units_for(us, |units| {
            let mut tried = Vec::new();
            for row in budget::rows(path.poses.len()) {
                let mut state = QueryState::default();
                let poses = &path.poses[row];
                for (i, (pose, _)) in poses.iter().enumerate() {
                    if self.cold {
                        state = QueryState::default();
                    }
                    let (answer, us) = self.ask(pose, units, &mut state);
                    // A pose that stands alone has none before it to be remembered.
                    if i > 0 || self.cold || poses.len() == 1 {
                        tried.push((us, answer.work));
                    }
                }
            }
            tried
        })
    }
}

/// Longest side of the mesh's box, m.
fn longest_side(mesh: &TriMesh) -> f64 {
    mesh.bounds().map_or(1.0, |(lo, hi)| (hi - lo).amax())
}

/// Cells around the body, so that distances are read from the field as far as the path asks for them: up to the
/// largest one it knows, but at most a tenth of its size (beyond, the field gives lower bounds).
fn padding(path: &PosePath, size: f64, cell: f64) -> u32 {
    let known = path.poses.iter().filter_map(|(_, t)| t.distance).fold(0.0, f64::max);
    let reach = if known > 0.0 { known.min(REACH * size) } else { REACH * size };
    ((reach / cell).ceil() as u32 + 2).clamp(4, MAX_PADDING)
}

/// Diameter of the ball about the box's centre that holds the mesh, m.
fn diameter(mesh: &TriMesh) -> f64 {
    let Some((lo, hi)) = mesh.bounds() else { return 1.0 };
    let centre = Point3::from((lo.coords + hi.coords) / 2.0);
    2.0 * mesh.vertices.iter().map(|v| (v - centre).norm()).fold(0.0, f64::max)
}

fn table(all: &[Figures]) -> Table {
    let mut t = Table::new();
    t.load_style(presets::NOTHING);
    t.set_header([
        "path",
        "points",
        "build s",
        "MB",
        "µs med",
        "p99",
        "max",
        "contact med",
        "p99",
        "work",
        "dist % mean",
        "p99",
        "max",
        "exact %",
        "vol % mean",
        "p99",
        "max",
        "force ° mean",
        "p99",
        "torque °",
        "cut % mean",
        "p99",
        "touch wrong %",
        "bounds broken",
        "width %",
        "complete %",
    ]);
    let percent = |x: Option<f64>| {
        x.map_or_else(
            || "-".into(),
            |x| if x < 1e4 { format!("{:.4}", 100.0 * x) } else { format!("{:.1e}", 100.0 * x) },
        )
    };
    let short = |x: Option<f64>| x.map_or_else(|| "-".into(), |x| format!("{x:.2}"));
    for f in all {
        t.add_row(
            [
                out::word(&f.path).into_owned(),
                f.elements.to_string(),
                format!("{:.2}", f.build_s),
                format!("{:.1}", f.memory_bytes as f64 / 1e6),
                format!("{:.2}", f.median_us),
                format!("{:.2}", f.p99_us),
                format!("{:.2}", f.max_us),
                short(f.median_contact_us),
                short(f.p99_contact_us),
                format!("{:.0}", f.work_median),
                percent(f.distance_err_mean),
                percent(f.distance_err_p99),
                percent(f.distance_err_max),
                short(f.distance_exact.map(|x| 100.0 * x)),
                percent(f.volume_err_mean),
                percent(f.volume_err_p99),
                percent(f.volume_err_max),
                short(f.force_angle_mean_deg),
                short(f.force_angle_p99_deg),
                short(f.torque_angle_mean_deg),
                percent(f.budget_force_err_mean),
                percent(f.budget_force_err_p99),
                short(f.touch_wrong.map(|x| 100.0 * x)),
                f.bounds_violated.map_or_else(|| "-".into(), |n| n.to_string()),
                percent(f.bounds_width_mean),
                format!("{:.1}", 100.0 * f.complete),
            ]
            .map(|text| Cell::new(text).set_alignment(CellAlignment::Right)),
        );
    }
    t
}

#[cfg(test)]
mod tests {
    use crate::geometry::{Vec3, Wrench};

    #[test]
    fn roles_turn_the_wrench_round() {
        // A force f on the resting body at lever r from the moving origin is -f on the moving body: the torque about
        // the moving origin is r x (-f) wherever the resting origin lies.
        let (r, p) = (Vec3::new(0.1, -0.2, 0.3), Vec3::new(1.0, 2.0, -3.0));
        let f = Vec3::new(4.0, 5.0, -6.0);
        let on_rest = Wrench::from_force_at(f, &(p + r));
        let g = -on_rest.force;
        let torque = -on_rest.torque - p.cross(&g);
        assert!((torque - r.cross(&g)).norm() < 1e-12);
    }
}
