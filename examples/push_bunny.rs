//! Drives a running `hapticd` from outside: loads a mesh, puts it into the scene, arms, moves it by UDP at 500 Hz and
//! prints what the tool feels.
//!
//! ```text
//! hapticd run --config hapticd.toml        # in one terminal, with a simulated device and a hand if you like
//! cargo run --release --example push_bunny -- bunny.ply --unit m --scale 0.4 --seconds 10
//! ```

use anyhow::{Context, bail};
use hapticd::control::client::Client;
use hapticd::protocol::datagram::MotionPose;
use serde_json::json;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Poses a second.
const RATE: f64 = 500.0;

/// What the command line says.
pub struct Options {
    file: PathBuf,
    unit: String,
    scale: f64,
    seconds: f64,
    socket: Option<PathBuf>,
}

/// Reads the command line.
pub fn options(mut args: impl Iterator<Item = String>) -> anyhow::Result<Options> {
    let mut o = Options { file: PathBuf::new(), unit: "m".into(), scale: 1.0, seconds: 10.0, socket: None };
    while let Some(a) = args.next() {
        let mut value = || args.next().with_context(|| format!("{a} needs a value"));
        match a.as_str() {
            "--unit" => o.unit = value()?,
            "--scale" => o.scale = value()?.parse()?,
            "--seconds" => o.seconds = value()?.parse()?,
            "--socket" => o.socket = Some(value()?.into()),
            _ => o.file = a.into(),
        }
    }
    if o.file.as_os_str().is_empty() {
        bail!("usage: push_bunny FILE [--unit m] [--scale 1] [--seconds 10] [--socket PATH]");
    }
    Ok(o)
}

fn main() -> anyhow::Result<()> {
    let peak = push(&options(std::env::args().skip(1))?)?;
    println!("peak force {peak:.3} N");
    Ok(())
}

/// Does it all; the largest force felt, N.
pub fn push(o: &Options) -> anyhow::Result<f64> {
    let mut c = Client::connect(o.socket.as_deref(), "push_bunny", None)?;
    println!("connected to {}", c.path().display());

    // The file is opened here and passed as a descriptor: the daemon cannot look into homes.
    let file = std::fs::File::open(&o.file).with_context(|| format!("cannot open {}", o.file.display()))?;
    let format = o.file.extension().map_or(String::new(), |e| e.to_string_lossy().to_lowercase());
    let load = json!({"name": "bunny", "source": "descriptor", "format": format, "unit": o.unit,
        "scale": o.scale, "resolution": {"longest": 96}});
    let loaded = c.call_with_file("mesh.load", load, &file)?;
    for note in loaded["notes"].as_array().into_iter().flatten() {
        println!("{}", note.as_str().unwrap_or_default());
    }
    c.call("material.set", json!({"name": "soft", "stiffness": 400.0, "damping": 1.0}))?;

    // It starts out of the tool's reach, below the device's origin.
    let below = -0.15;
    let made = c.call(
        "object.create",
        json!({"name": "bunny", "mesh": "bunny", "material": "soft", "moving": true,
            "pose": {"position": [0.0, below, 0.0]}}),
    )?;
    let object = u32::try_from(made["created"][0]["id"].as_u64().context("no object")?)?;
    println!("object {object}, generation {}", made["generation"]);

    let opened = c.call("motion.open", json!({"rate_hz": RATE}))?;
    let stream = u16::try_from(opened["stream"].as_u64().context("no stream")?)?;
    println!("the motion is played {} s late", opened["delay_s"]);
    c.call("state_stream", json!({"rate_hz": 100.0}))?;
    let mut datagrams = c.datagrams()?;
    datagrams.attach()?;
    c.call("arm", json!({}))?;

    let start = Instant::now();
    let (mut next, mut shown, mut peak) = (start, start, 0.0_f64);
    while start.elapsed().as_secs_f64() < o.seconds {
        // Up and down by 0.15 m every four seconds, so that it comes to the tool and leaves it.
        let t = start.elapsed().as_secs_f64();
        let height = below + 0.15 * 0.5 * (1.0 - (t * std::f64::consts::TAU / 4.0).cos());
        let pose = MotionPose { object, position: [0.0, height, 0.0], orientation: [0.0, 0.0, 0.0, 1.0] };
        datagrams.send(stream, &[pose])?;
        next += Duration::from_secs_f64(1.0 / RATE);
        // Waiting for the next pose is when the state comes in.
        while let Some(left) = next.checked_duration_since(Instant::now()).filter(|d| !d.is_zero()) {
            let Some(s) = datagrams.state(left)? else { break };
            let force = s.force.iter().map(|f| f * f).sum::<f64>().sqrt();
            peak = peak.max(force);
            if shown.elapsed() > Duration::from_millis(250) {
                shown = Instant::now();
                println!(
                    "tick {} generation {} motion {}: height {height:+.4} m, force {force:.3} N, depth {:.2} mm",
                    s.tick,
                    s.generation,
                    s.motion_seq,
                    s.depth * 1e3
                );
            }
        }
    }
    c.call("disarm", json!({}))?;
    Ok(peak)
}
