//! `hapticd stability`: what each device renders stably, measured on its simulation through the shipped servo.

mod measure;
mod picture;
mod rig;

use super::plot::draw::must_be_png;
use super::{exit, out};
use crate::device::dynamics::Inertia;
use crate::device::profile::{self, Covered, EXACT_LIMITS, KEPT, Profile};
use crate::device::registry::Registry;
use crate::device::simulated::Hand;
use crate::haptics::guard::energy::EnergyGuard;
use anyhow::Context as _;
use measure::{Felt, Limit};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Arguments of `hapticd stability`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Devices to measure; by default all that have motors
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Directory of additional profiles (*.toml); they win over the built-in ones
    #[arg(long, value_name = "DIR")]
    profiles: Option<PathBuf>,
    /// Draw the Z-width of the device into this PNG file; needs one NAME
    #[arg(long, short, value_name = "PNG")]
    out: Option<PathBuf>,
    /// Compare the loop with the exact limits of the sampled spring first
    #[arg(long)]
    theory: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// One device.
#[derive(Serialize)]
struct Report {
    name: String,
    /// Samples from sense to force.
    delay: u32,
    /// What is asked for, N/m: the profile's largest.
    asked: f64,
    width: Vec<Limit>,
    /// The wall as shipped.
    #[serde(flatten)]
    shipped: Guards,
    /// The same wall, its contacts not damped.
    undamped: Guards,
    /// N/m, or null for a device that is not certifiable.
    covered: Option<f64>,
    /// What the guards keep of the stiffness; null where nothing could be pressed.
    kept: Option<Kept>,
}

/// One wall with each guard.
#[derive(Clone, Copy, Debug, Serialize)]
struct Guards {
    observe: Felt,
    controller: Felt,
    certified: Felt,
}

impl Guards {
    fn of(profile: &Profile, damping_time: Option<f64>) -> anyhow::Result<Self> {
        let felt = |guard| measure::felt(profile, guard, profile.max_stiffness, damping_time);
        Ok(Self {
            observe: felt(EnergyGuard::Observe)?,
            controller: felt(EnergyGuard::Controller)?,
            certified: felt(EnergyGuard::Certified)?,
        })
    }

    fn text(&self) -> String {
        let mut text = String::from(
            "| limits.energy | felt N/m | at N | rests | restitution | peak N | depth mm |\n|-|-|-|-|-|-|-|\n",
        );
        for (name, f) in
            [("observe", &self.observe), ("controller", &self.controller), ("certified", &self.certified)]
        {
            let rests = if f.shakes { "no" } else { "yes" };
            let (k, n, e, peak, depth) = (f.stiffness, f.force, f.restitution, f.peak, 1e3 * f.depth);
            let _ =
                writeln!(text, "| {name} | {k:.0} | {n:.2} | {rests} | {e:.3} | {peak:.2} | {depth:.2} |");
        }
        text
    }
}

/// The least share that a guard keeps: of the stiffness that is stable in a relaxed hand, at each damping, and of what such a hand feels
/// of the wall.
#[derive(Clone, Copy, Debug, Serialize)]
struct Kept {
    controller: f64,
    /// Null where nothing is certified: the bound then does nothing.
    certified: Option<f64>,
    /// The strictest that keeps [`KEPT`].
    strictest: &'static str,
}

impl Kept {
    fn of(width: &[Limit], Guards { observe, controller, certified }: &Guards) -> Self {
        let least = |guarded: &Felt, of: fn(&Limit) -> Option<f64>| {
            let felt = guarded.stiffness / observe.stiffness;
            width.iter().filter_map(|l| Some(of(l)? / l.normal)).fold(felt, f64::min)
        };
        let bounded = width.iter().any(|l| l.certified.is_some());
        let certified = bounded.then(|| least(certified, |l| l.certified));
        let controller = least(controller, |l| Some(l.controller));
        let strictest = profile::Kept { controller, certified: certified.unwrap_or(0.0) }.strictest().name();
        Self { controller, certified, strictest }
    }
}

/// Runs `hapticd stability`.
///
/// # Errors
/// A message for the user.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let registry = Registry::with(args.profiles.as_deref())?;
    let all = || registry.profiles().iter().filter(|p| p.max_force > 0.0).cloned().collect();
    let named = args.names.iter().map(|name| registry.profile(name).map_err(exit::Usage::from));
    let profiles: Vec<Arc<Profile>> =
        if args.names.is_empty() { all() } else { named.collect::<Result<_, _>>()? };
    if let Some(idle) = profiles.iter().find(|p| p.max_force <= 0.0) {
        return Err(exit::Usage(format!("{} has no motors: nothing to measure", idle.name)).into());
    }
    if let Some(path) = &args.out {
        let (1, Ok(())) = (args.names.len(), must_be_png(path)) else {
            return Err(exit::Usage("--out takes a name that ends in .png, and one device".into()).into());
        };
    }
    let theory = if args.theory { Some(theory()?) } else { None };
    if let (Some(rows), false) = (&theory, args.json) {
        out::line(rows_text(rows))?;
    }
    let mut reports = vec![];
    for profile in &profiles {
        let report = report(profile, || Ok(measure::width(profile)?))?;
        if !args.json {
            out::line(text(&report))?;
        }
        if let Some(path) = &args.out {
            picture::draw(path, &report).with_context(|| format!("cannot write {}", path.display()))?;
        }
        reports.push(report);
    }
    if args.json {
        out::json(&serde_json::json!({ "devices": reports, "theory": theory }), false)?;
    }
    Ok(exit::OK)
}

/// A device with its border, which takes minutes to measure.
fn report(profile: &Profile, border: impl FnOnce() -> anyhow::Result<Vec<Limit>>) -> anyhow::Result<Report> {
    let (shipped, undamped) = (Guards::of(profile, None)?, Guards::of(profile, Some(0.0))?);
    // Motors that do not carry the mechanism press nothing: whatever the stiffness, it would lie there at rest.
    let presses = shipped.observe.stiffness > 0.0;
    let width = if presses { border()? } else { vec![] };
    Ok(Report {
        name: profile.name.clone(),
        delay: profile.transport.read_delay + profile.transport.write_delay,
        asked: profile.max_stiffness,
        kept: presses.then(|| Kept::of(&width, &shipped)),
        width,
        shipped,
        undamped,
        covered: profile.covered(1e-3).map(|c: Covered| c.stiffness),
    })
}

/// One row of the comparison with the exact limits.
#[derive(Serialize)]
struct Row {
    mass: f64,
    friction: f64,
    damping: f64,
    delay: u32,
    exact: f64,
    found: f64,
}

fn theory() -> anyhow::Result<Vec<Row>> {
    let shipped = Registry::builtin().profile("ideal-6dof")?;
    let mut rows = vec![];
    for (mass, friction, damping, limits) in EXACT_LIMITS {
        for (delay, exact) in (0..).zip(limits) {
            let mut profile = Profile::clone(&measure::uncapped(&shipped));
            if let Inertia::Ideal { mass: m, .. } = &mut profile.dynamics.inertia {
                *m = mass;
            }
            profile.dynamics.friction.viscous = [friction; 3];
            profile.max_force = 1e6;
            profile.transport.write_delay = delay;
            // Forty periods: within one percent of the limit an oscillation grows by a few percent in that time.
            let window = |k: f64| ((250e3 / (k / mass).sqrt()) as usize).max(1500);
            let found =
                measure::stable(&Arc::new(profile), (Hand::NONE, EnergyGuard::Off), damping, window, 0.0)?;
            rows.push(Row { mass, friction, damping, delay, exact, found });
        }
    }
    Ok(rows)
}

fn rows_text(rows: &[Row]) -> String {
    let mut text = String::from(
        "Largest stable stiffness of a device without a hand, N/m\n\n\
         | mass kg | b N·s/m | B N·s/m | delay | exact | found | off % |\n|-|-|-|-|-|-|-|\n",
    );
    for r in rows {
        let off = 100.0 * (r.found / r.exact - 1.0);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {:.1} | {:.1} | {off:+.1} |",
            r.mass, r.friction, r.damping, r.delay, r.exact, r.found
        );
    }
    text
}

fn text(r: &Report) -> String {
    let mut text = format!("{} ({} samples of delay)\n\n", r.name, r.delay);
    let Some(kept) = &r.kept else {
        text += "The motors do not carry the mechanism's own weight where the walls are: it lies in them, and nothing can be measured.\n";
        return text;
    };
    text += "| damping N·s/m | stable without a hand N/m | in a relaxed hand | with controller | with certified |\n|-|-|-|-|-|\n";
    for l in &r.width {
        let certified = l.certified.map_or_else(|| "-".into(), |k| format!("{k:.0}"));
        let _ = writeln!(
            text,
            "| {:.2} | {:.0} | {:.0} | {:.0} | {certified} |",
            l.damping, l.nobody, l.normal, l.controller
        );
    }
    let _ = writeln!(
        text,
        "\nA wall of {:.0} N/m as shipped, pressed by a relaxed hand, and met at 0.1 m/s by nobody's:\n",
        r.asked
    );
    text += &r.shipped.text();
    text += "\nThe same wall, its contacts not damped:\n\n";
    text += &r.undamped.text();
    let _ = match (r.covered, kept.certified) {
        (Some(k), Some(part)) => writeln!(
            text,
            "\nCertified friction covers {k:.0} N/m: that bound keeps {:.0} % of the stiffness, the controller {:.0} %.",
            100.0 * part,
            100.0 * kept.controller
        ),
        _ => writeln!(
            text,
            "\nNot certifiable: the profile certifies no friction, so nothing is bounded. The controller keeps {:.0} % of the stiffness.",
            100.0 * kept.controller
        ),
    };
    let _ = writeln!(text, "The strictest guard that keeps {:.0} %: {}.", 100.0 * KEPT, kept.strictest);
    text
}

#[cfg(test)]
mod tests;
