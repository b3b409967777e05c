//! Answers for people.

use crate::cli::out::{self, word};
use crate::protocol::messages::{Committed, DeviceStatus, SceneInfo, Status};
use crate::protocol::telemetry::StateJson;
use serde_json::Value;
use std::fmt::Write as _;

/// Prints an answer: as it is, or readable.
pub(super) fn answer(value: &Value, json: bool) -> anyhow::Result<()> {
    if json {
        out::json(value, false)?;
    } else {
        out::text(readable(value))?;
    }
    Ok(())
}

fn readable(value: &Value) -> String {
    let parse = |v: &Value| v.clone();
    if value.get("uptime_s").is_some()
        && let Ok(s) = serde_json::from_value::<Status>(parse(value))
    {
        return status(&s);
    }
    if value.get("objects").is_some()
        && let Ok(s) = serde_json::from_value::<SceneInfo>(parse(value))
    {
        return scene(&s);
    }
    let mut out = String::new();
    if let Ok(c) = serde_json::from_value::<Committed>(parse(value)) {
        for o in &c.created {
            let _ = writeln!(out, "object {} '{}'", o.id, word(&o.name));
        }
        for n in &c.notes {
            let _ = writeln!(out, "{n}");
        }
        if let Value::Object(m) = value {
            for (k, v) in m.iter().filter(|(k, _)| !["generation", "created", "notes"].contains(&k.as_str()))
            {
                let _ = writeln!(out, "{k} {v}");
            }
        }
        let _ = writeln!(out, "generation {}", c.generation);
        return out;
    }
    format!("{value:#}\n")
}

fn status(s: &Status) -> String {
    let mut o = String::new();
    let _ = writeln!(o, "hapticd {} up {:.0} s, generation {}", s.server, s.uptime_s, s.generation);
    // The first one stands above the list of several, too.
    let first = || DeviceStatus {
        role: s.device_role.clone(),
        device: s.device.clone(),
        state: s.state.clone(),
        owner: s.owner,
        rt: s.rt.clone(),
        limits: s.limits.clone(),
        counters: Default::default(),
    };
    let several = s.devices.len() > 1;
    match several {
        true => s.devices.iter().for_each(|d| device(&mut o, d)),
        false => device(&mut o, &first()),
    }
    for x in &s.sessions {
        let gone = if x.connected { "" } else { ", waits to be resumed" };
        let role = format!("{:?}", x.role).to_lowercase();
        let _ = writeln!(
            o,
            "session {} '{}' {role}, process {}, user {}{gone}",
            x.session,
            word(&x.client),
            x.pid,
            x.uid
        );
    }
    let of_device = |name: &String| s.devices.iter().any(|d| d.counters.contains_key(name));
    for (name, n) in s.counters.iter().filter(|(name, n)| **n > 0 && !of_device(name)) {
        let _ = writeln!(o, "  {name} {n}");
    }
    for d in &s.devices {
        for (name, n) in d.counters.iter().filter(|(_, n)| **n > 0) {
            let _ = writeln!(o, "  {} {name} {n}", word(&d.role));
        }
    }
    for w in &s.warnings {
        let _ = writeln!(o, "warning: {w}");
    }
    o
}

/// A device with its owner, limits and real-time set-up.
fn device(o: &mut String, d: &DeviceStatus) {
    let name = if d.device.is_empty() { "no device yet" } else { &d.device };
    let _ = writeln!(o, "device {name} ({})", word(&d.role));
    if let Some(t) = &d.state {
        let _ = writeln!(o, "{}", line(t));
        if let Some(w) = &t.workspace {
            let _ = writeln!(o, "workspace at {:?} {:?}, moved by another device", w.position, w.orientation);
        }
    }
    match d.owner {
        0 => o.push_str("nobody is armed\n"),
        id => {
            let _ = writeln!(o, "session {id} is armed");
        }
    }
    let bad: Vec<_> = d.rt.iter().filter(|r| !r.ok).collect();
    // Limits and real-time set-up are those of a servo.
    if !d.device.is_empty() {
        let l = &d.limits;
        let _ = writeln!(o, "limits {} N, {} N·m, {} m/s", l.force, l.torque, l.velocity);
        o.push_str(if bad.is_empty() { "real-time ok\n" } else { "real-time degraded\n" });
    }
    for r in bad {
        let _ = writeln!(o, "  {}: {}; cure: {}", r.what, r.why, r.cure);
    }
}

fn scene(s: &SceneInfo) -> String {
    let mut o = format!("generation {}\n", s.generation);
    for m in &s.materials {
        let (k, a, d) = (m.stiffness, m.reference_area, m.damping);
        let rubs = m.friction.map_or_else(String::new, |f| {
            format!(", friction {} and {}", f.statics, f.dynamic.unwrap_or(f.statics))
        });
        let pits = m
            .texture
            .map_or_else(String::new, |t| format!(", pits of {} m every {} m", t.height, t.wavelength));
        let _ = writeln!(o, "material '{}' {k} N/m at {a} m^2, {d} N·s/m{rubs}{pits}", word(&m.name));
    }
    for m in &s.meshes {
        let _ = writeln!(o, "mesh '{}'", word(m));
    }
    for x in &s.objects {
        let kind = match (x.moving, x.persistent) {
            (true, true) => ", moving, persistent",
            (true, false) => ", moving",
            (false, true) => ", persistent",
            (false, false) => "",
        };
        let (p, q) = (x.pose.position, x.pose.orientation);
        let _ = writeln!(
            o,
            "object {} '{}' {} of {} at {p:?} {q:?}{kind}",
            x.id,
            word(&x.name),
            word(&x.mesh),
            word(&x.material)
        );
    }
    for e in &s.effects {
        let what = serde_json::to_string(&e.effect).unwrap_or_default();
        let _ = writeln!(o, "effect '{}' {what}, at most {} N", word(&e.name), e.max_force);
    }
    for d in &s.devices {
        let tool = serde_json::to_string(&d.tool).unwrap_or_default();
        let (p, q) = (d.pose.position, d.pose.orientation);
        let _ = writeln!(o, "device '{}' {} at {p:?} {q:?}, scale {}", word(&d.role), word(&tool), d.scale);
    }
    o
}

/// One tick on one line.
pub(super) fn line(t: &StateJson) -> String {
    let norm = |v: [f64; 3]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
    let why = match (t.fault.as_str(), t.zero.as_str()) {
        ("none", "none") => String::new(),
        ("none", zero) => format!(" ({zero})"),
        (fault, _) => format!(" ({fault})"),
    };
    let [x, y, z] = t.force;
    format!(
        "tick {} gen {} {}{why}: force {:.3} N [{x:+.3} {y:+.3} {z:+.3}], torque {:.4} N·m, depth {:.3} mm, touching {}",
        t.tick,
        t.generation,
        t.state,
        norm(t.force),
        norm(t.torque),
        t.depth * 1e3,
        t.touched
    )
}
