//! `ctl arm`: holds the force in the foreground, shows it, and gives it back on Ctrl-C.

use super::{Manner, show};
use crate::cli::numbers::{positive, seconds};
use crate::cli::out::word;
use crate::cli::{exit, out};
use crate::control::client::Client;
use crate::protocol::messages::{EventNote, Status, TelemetryNote};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use serde_json::json;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// `arm` and `takeover`.
#[derive(Debug, clap::Args)]
pub(super) struct ArmArgs {
    /// Lines a second (10 when not given)
    #[arg(long, value_parser = positive)]
    rate: Option<f64>,
    /// Disarm after this time, s
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<f64>,
}

impl ArmArgs {
    /// Something is asked for that only a command in the foreground can do.
    pub(super) fn follows(&self) -> bool {
        self.rate.is_some() || self.seconds.is_some()
    }
}

/// `watch`.
#[derive(Debug, clap::Args)]
pub(super) struct WatchArgs {
    /// Lines a second
    #[arg(long, default_value_t = 10.0, value_parser = positive)]
    rate: f64,
    /// End after this time, s
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<f64>,
}

static ENDED: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(_: i32) {
    ENDED.store(true, Relaxed);
}

fn catch_signals() -> anyhow::Result<()> {
    let action = SigAction::new(SigHandler::Handler(on_signal), SaFlags::empty(), SigSet::empty());
    for s in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        // SAFETY: the handler only stores to an atomic.
        unsafe { sigaction(s, &action) }?;
    }
    Ok(())
}

pub(super) fn arm(mut client: Client, m: &Manner, method: &str, a: &ArmArgs) -> anyhow::Result<ExitCode> {
    // Before arming, so that no Ctrl-C falls between.
    catch_signals()?;
    // One of several is named from here on, so that giving it back takes no other's force.
    let named = Manner { json: m.json, keep: m.keep, device: device(&mut client, m)? };
    let m = &named;
    client.call("subscribe", m.of_device(json!({"rate_hz": a.rate.unwrap_or(10.0)})))?;
    let answer = client.call(method, m.of_device(json!({})))?;
    show::answer(&answer, m.json)?;
    if !m.json {
        out::note("armed; Ctrl-C disarms");
    }
    let seen = follow(&mut client, m, a.seconds, true)?;
    if let Some(why) = seen.lost {
        // No parting disarm: an admin's would take the force from whoever has it now.
        out::note(format_args!("the force was lost: {why}; peak force {:.3} N", seen.peak));
        return Ok(exit::FAILED);
    }
    client.call("disarm", m.of_device(json!({})))?;
    if !m.json {
        out::note(format_args!("disarmed; peak force {:.3} N", seen.peak));
    }
    Ok(exit::OK)
}

pub(super) fn watch(mut client: Client, m: &Manner, a: &WatchArgs) -> anyhow::Result<ExitCode> {
    catch_signals()?;
    glance(&mut client, m, a)?;
    Ok(exit::OK)
}

/// As `watch`, on a session that goes on.
pub(super) fn glance(client: &mut Client, m: &Manner, a: &WatchArgs) -> anyhow::Result<()> {
    client.call("subscribe", m.of_device(json!({"rate_hz": a.rate})))?;
    // A service that has ended has nothing more to say.
    if follow(client, m, a.seconds, false)?.lost.is_none() {
        client.call("subscribe", m.of_device(json!({"rate_hz": 0.0})))?;
    }
    Ok(())
}

/// Role of the device that is meant; `None` where there is but one and none was named.
fn device(client: &mut Client, m: &Manner) -> anyhow::Result<Option<String>> {
    if m.device.is_some() {
        return Ok(m.device.clone());
    }
    let status: Status = serde_json::from_value(client.call("status", json!({}))?)?;
    Ok(status.devices.into_iter().next().map(|d| d.role))
}

/// True while the device's force is this session's.
fn owns(client: &mut Client, m: &Manner) -> anyhow::Result<bool> {
    let status: Status = serde_json::from_value(client.call("status", json!({}))?)?;
    let one = status.devices.iter().find(|d| Some(&d.role) == m.device.as_ref());
    Ok(one.map_or(status.owner, |d| d.owner) == client.welcome().session)
}

struct Seen {
    peak: f64,
    lost: Option<String>,
}

/// Shows telemetry and events until a signal, the time, or (when armed) the loss of the force.
fn follow(client: &mut Client, m: &Manner, seconds: Option<f64>, armed: bool) -> anyhow::Result<Seen> {
    let until = seconds.map(|s| Instant::now() + Duration::from_secs_f64(s.clamp(0.0, 1e6)));
    let mut seen = Seen { peak: 0.0, lost: None };
    // On a terminal one line is rewritten; in a pipe every line stands.
    let (start, end) = if std::io::stdout().is_terminal() && !m.json { ("\r\x1b[K", "") } else { ("", "\n") };
    while !ENDED.load(Relaxed) && until.is_none_or(|u| Instant::now() < u) {
        let Some(note) = client.note(Duration::from_millis(100))? else { continue };
        match note.method.as_str() {
            "telemetry" => {
                let t: TelemetryNote = serde_json::from_value(note.params)?;
                seen.peak = seen.peak.max(t.peak_force);
                if m.json {
                    out::json(&t, false)?;
                } else {
                    let role = t.device.map_or_else(String::new, |role| format!("{}: ", word(&role)));
                    out::over(start, &format!("{role}{}{end}", show::line(&t.state)))?;
                }
            }
            "event" => {
                let e: EventNote = serde_json::from_value(note.params)?;
                if m.json {
                    out::json(&e, false)?;
                } else {
                    let role = e.device.as_ref().map_or_else(String::new, |role| format!("{}: ", word(role)));
                    out::note_over(start, format_args!("{role}{}: {}", e.event, e.text));
                }
                if e.event == "shutdown" && !armed {
                    seen.lost = Some(e.text);
                    break;
                }
                // A stopped motion stream takes away the force of what it moved, not the tool's.
                let over = ["fault", "disarmed", "taken_over", "lease_lost", "shutdown"];
                // A takeover disarms the owner before: that event comes to the new one, too.
                let others = e.event == "disarmed" && owns(client, m)?;
                // Nor is what befalls another device any loss.
                let others = others || e.device.is_some() && e.device != m.device;
                if armed && over.contains(&e.event.as_str()) && !others {
                    seen.lost = Some(e.text);
                    break;
                }
            }
            _ => {}
        }
    }
    if end.is_empty() {
        out::line("")?;
    }
    Ok(seen)
}
