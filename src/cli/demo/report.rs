//! The demo's words: what was built, the summary as a table and as JSON.

use super::drive::Run;
use super::scene::Built;
use super::stats::Quantiles;
use crate::cli::calibrate::Calibration;
use crate::contact::ToolShape;
use crate::servo::record::Fault;
use anyhow::bail;
use comfy_table::{CellAlignment, Table, presets};
use std::fmt::Write as _;

/// The size of what was built.
pub struct Facts {
    triangles: [usize; 2],
    made_of: String,
    nodes: [u32; 3],
    bytes: u64,
    loaded: bool,
}

impl Facts {
    /// Reads them off a built scene.
    ///
    /// # Errors
    /// The scene is not the demo's.
    pub fn of(built: &Built) -> anyhow::Result<Self> {
        let (shape, [object]) = (&built.snapshot.tool.shape, &*built.snapshot.objects) else {
            bail!("the demo's scene has one object")
        };
        let made_of = match shape {
            ToolShape::Shell(shell) => format!("{} points", shell.len),
            ToolShape::Spheres(tree) => format!("{} spheres", tree.spheres),
            _ => bail!("the demo's tool is a mesh of points or spheres"),
        };
        let field = object.shape.field();
        Ok(Self {
            triangles: built.triangles,
            made_of,
            nodes: field.dims,
            bytes: built.report.bytes,
            loaded: built.report.loaded > 0,
        })
    }
}

impl std::fmt::Display for Facts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { triangles, made_of, nodes: [x, y, z], bytes, loaded } = self;
        write!(
            f,
            "pin: {} triangles, {made_of}; hole: {} triangles, field of {x} x {y} x {z}{}; {:.1} MB",
            triangles[0],
            triangles[1],
            if *loaded { " from the disk cache" } else { "" },
            *bytes as f64 / 1e6
        )
    }
}

/// A finished run.
pub struct Summary<'a> {
    /// The run.
    pub run: &'a Run,
    /// Calibration of the budget.
    pub calibration: Calibration,
    /// The budget, work units.
    pub units: u32,
}

impl Summary<'_> {
    /// The summary as one JSON object.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let (s, rt) = (&self.run.stats, &self.run.rt);
        let lines: Vec<serde_json::Value> = rt
            .lines
            .iter()
            .map(|l| serde_json::json!({ "ok": l.ok, "what": l.what, "why": l.why, "cure": l.cure }))
            .collect();
        serde_json::json!({
            "ticks": s.ticks,
            "missed": s.missed,
            "wake_us": s.wake_us(),
            "tick_us": s.tick_us(),
            "peak_force_n": s.peak_force,
            "peak_torque_nm": s.peak_torque,
            "generation": s.generation,
            "rt": { "ok": rt.lines.iter().all(|l| l.ok), "lines": lines },
        })
    }

    /// The summary for people.
    #[must_use]
    pub fn text(&self) -> String {
        let s = &self.run.stats;
        let mut times = table(&["", "p50", "p99", "p99.9", "max"]);
        quantile_row(&mut times, "wake error [µs]", s.wake_us(), 0);
        quantile_row(&mut times, "compute time [µs]", s.tick_us(), 1);
        quantile_row(&mut times, "work [units]", s.work_units(), 0);
        let mut facts = table(&["", ""]);
        let share = |n: u64| format!("{n} ({:.1} %)", 100.0 * n as f64 / s.ticks.max(1) as f64);
        for (name, value) in [
            ("ticks", s.ticks.to_string()),
            ("missed deadlines", s.missed.to_string()),
            ("ticks in contact", share(s.touching)),
            ("peak force", format!("{:.2} N", s.peak_force)),
            ("peak torque", format!("{:.3} N·m", s.peak_torque)),
            ("peak penetration", format!("{:.3} mm", s.peak_depth * 1e3)),
            ("budget", format!("{} units a tick", self.units)),
            (
                "calibration",
                format!(
                    "{:.0} units/µs ({} queries)",
                    self.calibration.units_per_us, self.calibration.queries
                ),
            ),
            ("ended by the budget", share(s.incomplete)),
            ("ended by the deadline", share(s.deadline)),
            ("scene generation felt", s.generation.to_string()),
        ] {
            facts.add_row([name.to_owned(), value]);
        }
        let mut out = format!("{facts}\n\n{times}\n\n{}", self.real_time());
        if s.fault != Fault::None {
            let _ = writeln!(
                out,
                "the servo took the force away: fault {:?}; `hapticd doctor` may know why",
                s.fault
            );
        }
        if self.run.lost > 0 {
            let _ =
                writeln!(out, "{} records were lost on the way from the servo to the summary", self.run.lost);
        }
        if self.run.unrecorded > 0 {
            let _ = writeln!(
                out,
                "{} records are not in the recording: the disk was too slow",
                self.run.unrecorded
            );
        }
        out
    }

    fn real_time(&self) -> String {
        let lines = &self.run.rt.lines;
        let short: Vec<_> = lines.iter().filter(|l| !l.ok).collect();
        if short.is_empty() {
            return "real-time set-up: complete\n".into();
        }
        let mut out = format!("real-time set-up: degraded, {} of {} short\n", short.len(), lines.len());
        for line in short {
            let _ = writeln!(out, "  {}: {}", line.what, line.why);
            let _ = writeln!(out, "    cure: {}", line.cure);
        }
        out
    }
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if header.iter().any(|h| !h.is_empty()) {
        table.set_header(header.to_vec());
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn quantile_row(table: &mut Table, name: &str, q: Quantiles, digits: usize) {
    let show = |v: f64| format!("{v:.digits$}");
    table.add_row([name.to_owned(), show(q.p50), show(q.p99), show(q.p999), show(q.max)]);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}
