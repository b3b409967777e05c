//! `hapticd calibrate`: brings an attached device from plugged in to ready, says at each step what is missing, and shows where its tool
//! point is. It commands zero and nothing else.

use super::numbers::positive;
use super::{exit, out, settings};
use crate::config::{Config, Driver};
use crate::control::socket::candidates;
use crate::device::attached;
use crate::device::io::scheduling::Scheduling;
use crate::device::io::thread::now_ns;
use crate::device::profile::Calibration;
use crate::device::registry::{REPLAY, Registry};
use crate::device::{Device, Lifecycle, Sample};
use anyhow::{bail, ensure};
use serde_json::json;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Between two looks at the device.
const LOOK: Duration = Duration::from_millis(20);
/// Between two lines of `--watch`.
const LINE: Duration = Duration::from_millis(100);

/// Arguments of `hapticd calibrate`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Configuration file of the daemon, which names the device; without it every key has its default
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Role of the device, where the configuration has several; the first one without it
    #[arg(long, value_name = "ROLE")]
    device: Option<String>,
    /// Give up after this time, s
    #[arg(long, value_name = "S", default_value_t = 60.0, value_parser = positive)]
    timeout: f64,
    /// The arm is held in its calibration pose right now (docs/devices.md): its frame is set there
    #[arg(long)]
    in_pose: bool,
    /// Then show where the tool point is, for so long, s: directions and distances can be checked with a ruler
    #[arg(long, value_name = "S", value_parser = positive)]
    watch: Option<f64>,
    /// One JSON object a line, for machines
    #[arg(long)]
    json: bool,
}

/// Runs `hapticd calibrate`.
///
/// # Errors
/// A message for the user.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let config = args.config.as_ref().map_or_else(|| Ok(Config::default()), |path| Config::load(path))?;
    let d = config.device_of(args.device.as_deref()).map_err(anyhow::Error::msg)?;
    let registry = Registry::with(d.profiles.as_deref())?;
    registry.knows(&d.name)?;
    if d.name == REPLAY || d.driver != Driver::Attached {
        let text =
            "not attached: it has nothing to calibrate (device.driver = \"attached\" means the real one)";
        tell(args.json, &d.name, "ready", text)?;
        return Ok(exit::OK);
    }
    let own = config.control.socket.clone();
    for socket in candidates().into_iter().chain(own) {
        use std::io::ErrorKind::{ConnectionRefused, NotFound};
        match UnixStream::connect(&socket) {
            Err(e) if matches!(e.kind(), NotFound | ConnectionRefused) => {}
            // It answers, or does not let this user ask.
            _ => bail!(
                "there is a daemon at {}: two programs must not command one device; stop it first",
                socket.display()
            ),
        }
    }
    let options = settings::attached(d, Scheduling::default());
    let mut device = attached::open(registry.profile(&d.name)?, &options)?;
    let end = Instant::now() + Duration::from_secs_f64(args.timeout.min(1e6));
    if !ready(&mut *device, &d.name, end, &args)? {
        return Ok(exit::FAILED);
    }
    if let Some(seconds) = args.watch {
        watch(&mut *device, Duration::from_secs_f64(seconds.min(1e6)), args.json)?;
    }
    Ok(exit::OK)
}

/// Tells each change of the device's state until it is ready; false when the time is over.
fn ready(device: &mut dyn Device, name: &str, end: Instant, args: &Args) -> anyhow::Result<bool> {
    let (mut told, mut asked, json) = ((Lifecycle::Absent, String::new()), false, args.json);
    let posed = device.profile().calibration == Calibration::Reset;
    loop {
        device.zero(now_ns());
        let state = device.lifecycle();
        let mut trouble = device.io().map_or_else(String::new, |io| io.told());
        if state == Lifecycle::Uncalibrated && !asked {
            asked = true;
            // Set anywhere else, the frame would be wrong, and so would every force.
            let posed = posed && !args.in_pose;
            if posed && trouble.is_empty() {
                trouble = "hold it in its calibration pose (docs/devices.md) and press its button, or run this with --in-pose \
                           while you hold it there"
                    .into();
            } else if !posed && let Err(e) = device.calibrate() {
                // What the host cannot do itself it asks of its user.
                trouble = e.to_string();
            }
        } else if state == Lifecycle::Uncalibrated && trouble.is_empty() {
            trouble.clone_from(&told.1);
        }
        if state == Lifecycle::Absent {
            asked = false;
        }
        let now = (device.lifecycle(), trouble);
        if now != told && (now.0 == Lifecycle::Ready || now.0 != told.0 || !now.1.is_empty()) {
            tell(json, name, word(now.0), &now.1)?;
            told = now;
        }
        match told.0 {
            Lifecycle::Ready => return Ok(true),
            _ if Instant::now() > end => {
                let text = format!("given up; it was {}", word(told.0));
                tell(json, name, "timeout", &text)?;
                return Ok(false);
            }
            _ => std::thread::sleep(LOOK),
        }
    }
}

fn word(state: Lifecycle) -> &'static str {
    match state {
        Lifecycle::Absent => "absent",
        Lifecycle::Booting => "booting",
        Lifecycle::Uncalibrated => "uncalibrated",
        Lifecycle::Ready => "ready",
        Lifecycle::Fault => "fault",
    }
}

fn tell(json: bool, name: &str, state: &str, text: &str) -> anyhow::Result<()> {
    if json {
        out::line(json!({ "device": name, "state": state, "text": text }))?;
    } else if text.is_empty() {
        out::line(format_args!("{name}: {state}"))?;
    } else {
        out::line(format_args!("{name}: {state}: {text}"))?;
    }
    Ok(())
}

/// Lines of where the tool point is, device frame.
fn watch(device: &mut dyn Device, time: Duration, json: bool) -> anyhow::Result<()> {
    let (begin, mut next) = (Instant::now(), Instant::now());
    while begin.elapsed() < time {
        device.zero(now_ns());
        let read = device.read(now_ns());
        if Instant::now() >= next {
            next += LINE;
            let lost = || anyhow::anyhow!("the device is {}", word(device.lifecycle()));
            ensure!(device.lifecycle() == Lifecycle::Ready, lost());
            match read {
                Ok(sample) => place(&sample, json)?,
                Err(e) => out::line(if json {
                    json!({ "fault": format!("{e:?}") }).to_string()
                } else {
                    format!("no reading: {e:?}")
                })?,
            }
        }
        std::thread::sleep(LOOK / 4);
    }
    Ok(())
}

fn place(sample: &Sample, json: bool) -> anyhow::Result<()> {
    let p = sample.pose.translation.vector;
    let q = sample.pose.rotation.coords;
    if json {
        let value = json!({
            "position": [p.x, p.y, p.z],
            "orientation": [q.x, q.y, q.z, q.w],
            "joints": sample.joints,
            "buttons": sample.buttons,
        });
        return Ok(out::line(value)?);
    }
    let mm = p * 1e3;
    Ok(out::line(format_args!(
        "right {:8.2} mm   up {:8.2} mm   towards you {:8.2} mm   buttons {:#06b}",
        mm.x, mm.y, mm.z, sample.buttons
    ))?)
}
