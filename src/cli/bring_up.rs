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

/// Where a line goes.
type Say<'a> = dyn FnMut(String) -> anyhow::Result<()> + 'a;

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
    let mut say = |line| Ok(out::line(line)?);
    let registry = Registry::with(d.profiles.as_deref())?;
    registry.knows(&d.name)?;
    if d.name == REPLAY || d.driver != Driver::Attached {
        let text =
            "not attached: it has nothing to calibrate (device.driver = \"attached\" means the real one)";
        tell(args.json, &d.name, "ready", text, &mut say)?;
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
    Ok(if bring_up(&mut *device, &d.name, &args, &mut say)? { exit::OK } else { exit::FAILED })
}

/// Until it is ready, and its lines of where it is then; false when the time is over before.
fn bring_up(device: &mut dyn Device, name: &str, args: &Args, say: &mut Say) -> anyhow::Result<bool> {
    let end = Instant::now() + Duration::from_secs_f64(args.timeout.min(1e6));
    let ready = ready(device, name, end, args, say)?;
    if let Some(seconds) = args.watch.filter(|_| ready) {
        watch(device, Duration::from_secs_f64(seconds.min(1e6)), args.json, say)?;
    }
    Ok(ready)
}

/// Tells each change of the device's state until it is ready; false when the time is over.
fn ready(
    device: &mut dyn Device,
    name: &str,
    end: Instant,
    args: &Args,
    say: &mut Say,
) -> anyhow::Result<bool> {
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
            tell(json, name, word(now.0), &now.1, say)?;
            told = now;
        }
        match told.0 {
            Lifecycle::Ready => return Ok(true),
            _ if Instant::now() > end => {
                let text = format!("given up; it was {}", word(told.0));
                tell(json, name, "timeout", &text, say)?;
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

fn tell(json: bool, name: &str, state: &str, text: &str, say: &mut Say) -> anyhow::Result<()> {
    say(if json {
        json!({ "device": name, "state": state, "text": text }).to_string()
    } else if text.is_empty() {
        format!("{name}: {state}")
    } else {
        format!("{name}: {state}: {text}")
    })
}

/// Lines of where the tool point is, device frame.
fn watch(device: &mut dyn Device, time: Duration, json: bool, say: &mut Say) -> anyhow::Result<()> {
    let (begin, mut next) = (Instant::now(), Instant::now());
    while begin.elapsed() < time {
        device.zero(now_ns());
        let read = device.read(now_ns());
        if Instant::now() >= next {
            next += LINE;
            let lost = || anyhow::anyhow!("the device is {}", word(device.lifecycle()));
            ensure!(device.lifecycle() == Lifecycle::Ready, lost());
            match read {
                Ok(sample) => say(place(&sample, json))?,
                Err(e) if json => say(json!({ "fault": format!("{e:?}") }).to_string())?,
                Err(e) => say(format!("no reading: {e:?}"))?,
            }
        }
        std::thread::sleep(LOOK / 4);
    }
    Ok(())
}

fn place(sample: &Sample, json: bool) -> String {
    let p = sample.pose.translation.vector;
    let q = sample.pose.rotation.coords;
    if json {
        let value = json!({
            "position": [p.x, p.y, p.z],
            "orientation": [q.x, q.y, q.z, q.w],
            "joints": sample.joints,
            "buttons": sample.buttons,
        });
        return value.to_string();
    }
    let mm = p * 1e3;
    format!(
        "right {:8.2} mm   up {:8.2} mm   towards you {:8.2} mm   buttons {:#06b}",
        mm.x, mm.y, mm.z, sample.buttons
    )
}

/// The command from the open device on, over emulated devices on the machine's clock.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::driver;
    use crate::device::emulated::bus::{Bus, Gadget, Plugged};
    use crate::device::emulated::{falcon, hid_haptic};
    use crate::device::io::{self, port::Port};
    use crate::device::profile::Profile;
    use crate::device::simulated::HandScript;
    use crate::device::wire::hid_haptic::Layout;
    use crate::geometry::Vec3;
    use std::sync::Arc;

    fn profile(name: &str) -> Arc<Profile> {
        Registry::builtin().profile(name).expect("shipped")
    }

    fn held(at: [f64; 3]) -> HandScript {
        HandScript::parse(&format!("hand = 'firm'\n[[keyframe]]\ntime = 0.0\nposition = {at:?}\n"))
            .expect("script")
    }

    /// Until it is ready or `timeout` is over, then a look at it: whether it was ready, and what was said.
    fn calibrate<G: Gadget + 'static>(
        name: &str,
        plugged: &Plugged<G>,
        port: Box<dyn Port>,
        timeout: f64,
        in_pose: bool,
    ) -> (bool, Vec<serde_json::Value>) {
        let connector = Box::new(plugged.clone());
        let front = io::start(profile(name), connector, port, Scheduling::default());
        let mut front = front.expect("a thread");
        let args = Args { config: None, device: None, timeout, in_pose, watch: Some(0.3), json: true };
        let mut lines = Vec::new();
        let mut say = |line: String| {
            lines.push(serde_json::from_str(&line).expect("JSON"));
            Ok(())
        };
        let ready = bring_up(&mut front, name, &args, &mut say);
        // A thread that stood still for a tenth of a second has lost its device: the test asks again.
        let ready = ready.unwrap_or_else(|e| {
            lines.push(json!({ "error": e.to_string() }));
            false
        });
        (ready, lines)
    }

    fn says(lines: &[serde_json::Value], state: &str, text: &str) -> bool {
        lines.iter().any(|l| l["state"] == state && l["text"].as_str().is_some_and(|t| t.contains(text)))
    }

    /// Asked at most three times, until it gets ready.
    fn patiently<T>(mut ask: impl FnMut() -> (bool, T)) -> (bool, T) {
        let mut last = ask();
        for _ in 0..2 {
            if last.0 {
                break;
            }
            last = ask();
        }
        last
    }

    /// The last place that was said, m.
    fn place(lines: &[serde_json::Value]) -> Vec3 {
        let said = lines.iter().rev().find(|l| l["position"].is_array());
        let position = &said.expect("a place")["position"];
        Vec3::from_fn(|i, _| position[i].as_f64().expect("a number"))
    }

    const HELD: [f64; 3] = [0.01, -0.005, 0.008];
    const IMAGE: [u8; 150] = [0x5a; 150];

    fn a_falcon(
        homes_after: Option<u64>,
        file: Option<&[u8]>,
        timeout: f64,
    ) -> (bool, (Vec<serde_json::Value>, Vec3)) {
        let setup = falcon::Setup { image: Some(IMAGE.into()), homes_after, ..Default::default() };
        let gadget = falcon::Falcon::new(&profile("novint-falcon"), &held(HELD), setup).expect("in reach");
        let plugged = Plugged::real(Bus::new(gadget, 0.0, 0, false), now_ns());
        let port = Box::new(driver::falcon::Falcon::new(file.map(Into::into)));
        let (ready, lines) = calibrate("novint-falcon", &plugged, port, timeout, false);
        let bus = plugged.bus();
        assert!(bus.gadget.applied.iter().all(|(_, codes)| *codes == [0; 3]), "it commands zero alone");
        (ready, (lines, bus.gadget.tip()))
    }

    #[test]
    fn a_falcon_is_loaded_homed_and_shown_where_it_is() {
        let (ready, (lines, tip)) = patiently(|| a_falcon(Some(300_000_000), Some(&IMAGE), 60.0));
        assert!(ready && says(&lines, "ready", ""), "{lines:?}");
        assert!((place(&lines) - tip).norm() < 1e-3, "{lines:?} {tip}");
    }

    #[test]
    fn a_falcon_that_nobody_homes_or_has_a_firmware_for_is_given_up_with_what_it_lacks() {
        let (ready, (lines, _)) = a_falcon(None, Some(&IMAGE), 8.0);
        assert!(!ready && says(&lines, "uncalibrated", "pull the grip out"), "{lines:?}");
        assert!(says(&lines, "timeout", "given up; it was uncalibrated"), "{lines:?}");
        let (ready, (lines, _)) = a_falcon(Some(0), None, 8.0);
        assert!(!ready && says(&lines, "fault", "device.firmware"), "{lines:?}");
    }

    /// In its calibration pose all the time, but only the user knows.
    fn a_wooden_haptics(
        button: bool,
        in_pose: bool,
        timeout: f64,
    ) -> (bool, (Vec<serde_json::Value>, u32, Vec3)) {
        let profile = profile("woodenhaptics-v2015");
        let mut gadget =
            hid_haptic::HidHaptic::new(&profile, &held([0.0, 0.205, 0.025]), 64).expect("in reach");
        gadget.button = button;
        let plugged = Plugged::real(Bus::new(gadget, 0.0, 0, true), now_ns());
        let preset = profile.encoders.expect("encoders").preset.map(|p| p.try_into().expect("of 16 bits"));
        let port = Box::new(driver::hid_haptic::HidHaptic::new(Layout::Padded, preset));
        let (ready, lines) = calibrate(&profile.name, &plugged, port, timeout, in_pose);
        let bus = plugged.bus();
        assert!(bus.gadget.applied.iter().all(|(_, codes)| *codes == [0; 3]), "it commands zero alone");
        (ready, (lines, bus.gadget.presets, bus.gadget.tip()))
    }

    #[test]
    fn the_frame_of_a_wooden_haptics_is_set_where_its_user_says_that_it_is_in_its_pose() {
        for (button, in_pose) in [(false, true), (true, false)] {
            let (ready, (lines, presets, tip)) = patiently(|| a_wooden_haptics(button, in_pose, 60.0));
            assert!(ready && presets > 0 && says(&lines, "ready", ""), "{lines:?}");
            assert!((place(&lines) - tip).norm() < 2e-3, "{lines:?} {tip}");
        }
        let (ready, (lines, presets, _)) = a_wooden_haptics(false, false, 6.0);
        assert!(!ready && presets == 0 && says(&lines, "uncalibrated", "--in-pose"), "{presets} {lines:?}");
    }
}
