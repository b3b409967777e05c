//! `hapticd devices`: what can be opened, with its limits, and what is plugged in.

use super::{exit, out};
use crate::device::attached::Kind;
use crate::device::known::{self, Seen};
use crate::device::profile::{Calibration, KEPT, Profile, Workspace};
use crate::device::registry::{REPLAY, Registry};
use comfy_table::{CellAlignment, Table};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `hapticd devices`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Show one device: every limit, and the source of every number of its profile
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Directory of additional profiles (*.toml); they win over the built-in ones
    #[arg(long, value_name = "DIR")]
    profiles: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs `hapticd devices`.
///
/// # Errors
/// A message for the user.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let registry = Registry::with(args.profiles.as_deref())?;
    let one =
        args.name.as_deref().map(|name| registry.profile(name)).transpose().map_err(exit::Usage::from)?;
    let profiles: Vec<&Profile> = match &one {
        None => registry.profiles().iter().map(AsRef::as_ref).collect(),
        Some(p) => vec![p],
    };
    let seen = if args.name.is_some() { Vec::new() } else { known::seen() };
    if args.json {
        let list: Vec<Value> = profiles.iter().map(|p| to_json(p, args.name.is_some())).collect();
        let seen: Vec<Value> = seen.iter().map(seen_json).collect();
        out::json(&json!({ "devices": list, "seen": seen }), false)?;
    } else if args.name.is_some() {
        out::text(sheet(profiles[0]))?;
    } else {
        out::line(format_args!("{}\n\n{}", table(&profiles), seen_text(&seen)))?;
    }
    Ok(exit::OK)
}

fn table(profiles: &[&Profile]) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header([
        "NAME",
        "SENSED",
        "DRIVEN",
        "FORCE N",
        "TORQUE N·m",
        "K N/m",
        "B N·s/m",
        "CERTIFIED N/m",
        "GUARD",
        "WORKSPACE mm",
        "HOLDS TORQUE",
        "CALIBRATION",
        "DRIVER",
    ]);
    for p in profiles {
        table.add_row([
            p.name.clone(),
            axes(&p.sensed),
            axes(&p.actuated),
            format!("{}", p.max_force),
            if p.max_torque > 0.0 { format!("{}", p.max_torque) } else { "-".into() },
            format!("{:.0}", p.max_stiffness),
            format!("{}", p.max_damping),
            certified(p),
            p.kept.strictest().name().into(),
            workspace(&p.workspace),
            hold(p),
            calibration(p).into(),
            driver(&p.name).unwrap_or("-").into(),
        ]);
    }
    for column in 3..8 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let text = table.lines().map(|l| l.trim_end().to_string()).collect::<Vec<_>>().join("\n");
    format!(
        "{text}\n\nCERTIFIED: what limits.energy = \"certified\" lets be felt without and beyond the device's friction; \
         - = nothing is certified, so nothing is bounded.\n\
         GUARD: what limits.energy = \"profile\" is: the strictest that keeps {:.0} % of the stable stiffness (hapticd stability NAME).\n\
         Each is simulated unless the configuration says device.driver = \"attached\", which needs a driver.\n\
         The device \"{REPLAY}\" plays a recording of any of them back (device.recording).",
        100.0 * KEPT
    )
}

/// Period of the servo, s.
const PERIOD: f64 = 1e-3;

/// Stiffness that the certified friction covers.
fn certified(p: &Profile) -> String {
    match p.covered(PERIOD) {
        None => "-".into(),
        Some(c) if c.friction > 0.0 => format!("{:.0} + {:.3} N", c.stiffness, c.friction),
        Some(c) => format!("{:.0}", c.stiffness),
    }
}

/// The driver for the real device of a profile.
fn driver(profile: &str) -> Option<&'static str> {
    Kind::of(profile).map(Kind::name)
}

fn axes(on: &[bool; 6]) -> String {
    let count = |s: &[bool]| s.iter().filter(|b| **b).count();
    match (count(&on[..3]), count(&on[3..])) {
        (3, 3) => "position, rotation".into(),
        (3, 0) => "position".into(),
        (0, 0) => "-".into(),
        (p, r) => format!("{p} of position, {r} of rotation"),
    }
}

fn workspace(w: &Workspace) -> String {
    match w {
        Workspace::Ball { radius } => format!("ball r {:.0}", radius * 1e3),
        Workspace::Box { half } => {
            let [x, y, z] = half.map(|h| h * 2e3);
            format!("{x:.0} x {y:.0} x {z:.0}")
        }
    }
}

fn hold(p: &Profile) -> String {
    p.torque_hold.map_or_else(|| "unknown".into(), |s| format!("{:.0} ms", s * 1e3))
}

fn calibration(p: &Profile) -> &'static str {
    match p.calibration {
        Calibration::None => "none",
        Calibration::Homing => "homing",
        Calibration::Reset => "reset pose",
    }
}

/// What bounds the stiffness of contacts on a device that pushes.
fn bears(p: &Profile) -> String {
    let c = p.ceiling();
    if c.stated <= 0.0 {
        return String::new();
    }
    let lowered: String = p.lowered().iter().map(|l| format!("\nLOWERED: {l}.")).collect();
    format!(
        "\nK, N/m: {:.0} stated; {:.0} is what mass, damping and delay keep stable at 1 kHz without a hand; {} is what encoders and friction keep quiet.{lowered}\n",
        c.stated,
        c.damped,
        if c.resolved.is_finite() { format!("{:.0}", c.resolved) } else { "any".into() }
    )
}

/// One device: limits and the source of every number.
fn sheet(p: &Profile) -> String {
    let mut out = format!("{}\n{}\n\n{}\n{}\nSources\n", p.name, p.title, table(&[p]), bears(p));
    let width = p.sources.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    for (key, source) in &p.sources {
        let _ = writeln!(out, "  {key:width$}  {source}");
    }
    out
}

fn seen_text(seen: &[Seen]) -> String {
    if seen.is_empty() {
        return "Plugged in: no known haptic device.".into();
    }
    let mut out = String::from("Plugged in:\n");
    for s in seen {
        let serial = s.serial.as_deref().map(|s| format!(", serial {s}")).unwrap_or_default();
        let (vendor, product) = (s.known.vendor, s.product);
        let _ = writeln!(
            out,
            "  {:04x}:{product:04x}  {} ({}) at {}{serial}",
            vendor, s.known.title, s.known.link, s.path
        );
        let _ = match (s.known.profile(), s.known.which(), Kind::of_known(&s.known)) {
            (Some(profile), _, Some(_)) => {
                writeln!(out, "             device.name = \"{profile}\", device.driver = \"attached\"")
            }
            (Some(profile), _, None) => {
                writeln!(out, "             no driver; its simulation is '{profile}'")
            }
            (None, Some(which), _) => writeln!(out, "             device.driver = \"attached\"; {which}"),
            (None, None, _) => writeln!(out, "             no driver"),
        };
    }
    out.trim_end().into()
}

fn to_json(p: &Profile, with_sources: bool) -> Value {
    let shape = match p.workspace {
        Workspace::Ball { radius } => json!({ "shape": "ball", "radius": radius }),
        Workspace::Box { half } => json!({ "shape": "box", "half": half }),
    };
    let c = p.ceiling();
    let mut value = json!({
        "name": p.name,
        "title": p.title,
        "driver": driver(&p.name),
        "sensed": p.sensed,
        "actuated": p.actuated,
        "max_force": p.max_force,
        "max_torque": p.max_torque,
        "continuous_force": p.continuous_force,
        "max_stiffness": p.max_stiffness,
        "stated_rot_stiffness": p.stated_rot_stiffness,
        "ceiling": { "stated": c.stated, "damped": c.damped, "resolved": c.resolved.is_finite().then_some(c.resolved) },
        "max_rot_stiffness": p.max_rot_stiffness,
        "max_damping": p.max_damping,
        "max_rot_damping": p.max_rot_damping,
        "max_velocity": p.max_velocity,
        "max_angular_velocity": p.max_angular_velocity,
        "certified": p.covered(PERIOD).map(|c| {
            json!({ "damping": c.damping, "friction": c.friction, "stiffness": c.stiffness })
        }),
        "guard": p.kept.strictest().name(),
        "workspace": shape,
        "workspace_radius": p.workspace_radius,
        "torque_hold": p.torque_hold,
        "calibration": calibration(p),
    });
    if with_sources {
        let sources: serde_json::Map<String, Value> =
            p.sources.iter().map(|(k, s)| (k.clone(), Value::String(s.clone()))).collect();
        value["sources"] = Value::Object(sources);
    }
    value
}

fn seen_json(s: &Seen) -> Value {
    json!({
        "vendor": format!("{:04x}", s.known.vendor),
        "product": format!("{:04x}", s.product),
        "title": s.known.title,
        "link": s.known.link,
        "serial": s.serial,
        "path": s.path,
        "driver": Kind::of_known(&s.known).map(Kind::name),
        "profile": s.known.profile(),
        "profiles": s.known.profiles,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::known::lookup;

    #[test]
    fn the_table_names_every_device_and_its_limits() {
        let registry = Registry::builtin();
        let profiles: Vec<&Profile> = registry.profiles().iter().map(AsRef::as_ref).collect();
        let text = table(&profiles);
        for p in &profiles {
            let line =
                text.lines().find(|l| l.trim_start().starts_with(&format!("{} ", p.name))).expect("a line");
            let words: Vec<&str> = line.split_whitespace().collect();
            assert!(words.contains(&p.max_force.to_string().as_str()), "{line}");
            assert!(words.contains(&format!("{:.0}", p.max_stiffness).as_str()), "{line}");
        }
        assert!(!text.contains("+--"), "a plain table");
    }

    #[test]
    fn a_sheet_gives_the_source_of_every_number() {
        let registry = Registry::builtin();
        let p = registry.profile("novint-falcon").expect("shipped");
        let text = sheet(&p);
        assert!(p.sources.len() > 35);
        assert!(text.contains("motors.max_code") && text.contains("caps at 4096"));
    }

    #[test]
    fn a_profile_that_states_more_than_it_bears_is_told_of() {
        let text = include_str!("../../devices/phantom-omni.toml");
        let shipped = Profile::parse("phantom-omni.toml", text).expect("shipped");
        assert!(
            sheet(&shipped).contains("700 stated") && !sheet(&shipped).contains("LOWERED"),
            "{}",
            sheet(&shipped)
        );
        let bold = text.replace("max_stiffness = { value = 700.0", "max_stiffness = { value = 70000.0");
        let bold = Profile::parse("bold.toml", &bold).expect("sound");
        assert!(bold.max_stiffness < 6000.0, "{}", bold.max_stiffness);
        let text = sheet(&bold);
        assert!(text.contains("70000 stated") && text.contains("LOWERED: 70000 N/m as stated"), "{text}");
        let json = to_json(&bold, false);
        assert_eq!(
            (&json["ceiling"]["stated"], json["max_stiffness"].as_f64()),
            (&json!(70_000.0), Some(bold.max_stiffness))
        );
    }

    #[test]
    fn json_carries_the_numbers_and_null_for_the_unknown() {
        let registry = Registry::builtin();
        let ideal = to_json(&registry.profile("ideal-6dof").expect("shipped"), false);
        assert_eq!(ideal["torque_hold"], json!(0.1));
        assert!(ideal["certified"]["stiffness"].as_f64().is_some_and(|k| (k - 200.0).abs() < 1e-9), "2 b/T");
        let falcon = to_json(&registry.profile("novint-falcon").expect("shipped"), true);
        assert_eq!((&falcon["torque_hold"], &falcon["max_force"]), (&Value::Null, &json!(8.0)));
        assert_eq!(falcon["certified"], Value::Null, "its friction is guessed");
        let vintage = to_json(&registry.profile("woodenhaptics-vintage").expect("shipped"), false);
        assert_eq!((&ideal["guard"], &vintage["guard"]), (&json!("controller"), &json!("observe")));
        assert!(falcon["sources"]["delta.a"].as_str().is_some_and(|s| s.contains("libnifalcon")));
    }

    #[test]
    fn a_plugged_in_device_is_named_with_what_drives_it() {
        let known = *lookup(0x0403, 0xcb48).expect("known");
        let seen = Seen { known, product: 0xcb48, serial: Some("X1".into()), path: "usb 1-2".into() };
        let text = seen_text(std::slice::from_ref(&seen));
        assert!(text.contains("0403:cb48  Novint Falcon") && text.contains("serial X1"), "{text}");
        assert!(text.contains("device.name = \"novint-falcon\", device.driver = \"attached\""), "{text}");
        assert_eq!(seen_json(&seen)["driver"], json!("falcon"));
        let known = *lookup(0x2988, 0x0304).expect("known");
        let touch = Seen { known, product: 0x0304, serial: None, path: "/dev/hidraw0".into() };
        let text = seen_text(std::slice::from_ref(&touch));
        assert!(text.contains("device.name = \"phantom-omni\", device.driver = \"attached\""), "{text}");
        assert_eq!(seen_json(&touch)["driver"], json!("openhaptics"));
        // One whose numbers do not tell what it is: no line to copy that might push too hard.
        for (vendor, product) in [(0x16c0, 0x0486), (0x1234, 0x0006)] {
            let known = *lookup(vendor, product).expect("known");
            let wooden = Seen { known, product, serial: None, path: "/dev/hidraw1".into() };
            let text = seen_text(std::slice::from_ref(&wooden));
            assert!(!text.contains("device.name ="), "{text}");
            for name in ["woodenhaptics-v2015", "woodenhaptics-v2019", "woodenhaptics-vintage", "Polhem"] {
                assert!(text.contains(name), "{text}");
            }
            assert!(text.contains("In doubt begin with woodenhaptics-v2019"), "{text}");
            let json = seen_json(&wooden);
            assert_eq!((&json["profile"], &json["driver"]), (&Value::Null, &json!("hid-haptic")));
            assert_eq!(json["profiles"].as_array().map(Vec::len), Some(3));
        }
        // One that is known, without a profile.
        let known = *lookup(0x1451, 0x0001).expect("known");
        let other = Seen { known, product: 0x0001, serial: None, path: "usb 1-3".into() };
        assert!(seen_text(std::slice::from_ref(&other)).contains("no driver"));
        assert_eq!(seen_json(&other)["driver"], Value::Null);
        assert!(seen_text(&[]).contains("no known haptic device"));
    }
}
