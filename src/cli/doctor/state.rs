//! Firmware and calibration of the attached devices: known to who drives them. A running daemon is asked; without one nobody knows unless the device is
//! opened, which doctor does not do.

use super::check::Check;
use crate::control::client::Client;
use crate::device::attached::Kind;
use crate::device::known::Known;
use crate::protocol::messages::{DeviceStatus, Role, Status};
use serde_json::json;
use std::path::Path;
use std::time::Duration;

/// Longest wait for the daemon's answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a daemon tells of one attached device that it drives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Its role in the configuration; empty for the only one.
    pub role: String,
    /// Its profile.
    pub profile: String,
    /// State of its servo; empty before the first tick.
    pub state: String,
    /// What is in the way; empty when nothing is.
    pub trouble: String,
}

/// What is known from a daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Daemon {
    /// It answered.
    Tells(Vec<Told>),
    /// Why nobody answered.
    Silent(String),
}

impl Daemon {
    /// Asks the daemon on this socket, or at the standard places. Waits for some seconds at most.
    #[must_use]
    pub fn ask(socket: Option<&Path>) -> Self {
        let asked = Client::connect_within(socket, "doctor", Some(Role::Observer), None, Some(PATIENCE))
            .and_then(|mut client| client.call("status", json!({})));
        match asked {
            Ok(answer) => match serde_json::from_value(answer) {
                Ok(status) => Self::of(&status),
                Err(e) => Self::Silent(format!("the daemon's status is not understood: {e}")),
            },
            Err(e) => Self::Silent(e.to_string()),
        }
    }

    /// The attached devices of an answer; a simulated one counts no transfers.
    fn of(status: &Status) -> Self {
        let one = DeviceStatus {
            role: String::new(),
            device: status.device.clone(),
            state: status.state.clone(),
            owner: status.owner,
            rt: Vec::new(),
            limits: status.limits.clone(),
            counters: status.counters.clone(),
        };
        let all = if status.devices.is_empty() { &[one][..] } else { &status.devices };
        let attached = all.iter().filter(|d| d.counters.contains_key("device_readings"));
        let told = attached.map(|d| Told {
            role: d.role.clone(),
            profile: d.device.clone(),
            state: d.state.as_ref().map_or_else(String::new, |s| s.state.clone()),
            trouble: trouble(&status.warnings, &d.role),
        });
        Self::Tells(told.collect())
    }
}

/// The daemon's warning about a device's I/O.
fn trouble(warnings: &[String], role: &str) -> String {
    let begin = if role.is_empty() { "device: ".to_owned() } else { format!("device {role}: ") };
    warnings.iter().find_map(|w| w.strip_prefix(begin.as_str())).unwrap_or_default().to_owned()
}

/// The line of one device that is plugged in. `alike`: devices of its kind that are plugged in.
pub fn check(known: &Known, node: &str, alike: usize, daemon: &Daemon) -> Option<Check> {
    let kind = Kind::of_known(known)?;
    let name = format!("state {}", known.title);
    let firmware = match kind {
        Kind::Falcon => "firmware and calibration",
        Kind::HidHaptic | Kind::OpenHaptics => "calibration (it needs no firmware of yours)",
        Kind::SpaceMouse => return Some(Check::ok(&name, "it needs neither firmware nor calibration")),
    };
    let unknown = |why: &str| {
        let text = format!(
            "{firmware}: not known without opening {node}, and {why}; `hapticd calibrate --config FILE` tells (with the daemon stopped; it \
             commands zero and nothing else)"
        );
        Some(Check::unknown(&name, text))
    };
    let told = match daemon {
        Daemon::Silent(why) => return unknown(&format!("no daemon tells ({why})")),
        Daemon::Tells(told) => told,
    };
    let of_kind: Vec<&Told> = told.iter().filter(|t| Kind::of(&t.profile) == Some(kind)).collect();
    match of_kind[..] {
        [] => unknown("the daemon that runs does not drive it"),
        [one] if alike == 1 => Some(state(&name, kind, one)),
        _ => {
            let list: Vec<String> =
                of_kind.iter().map(|t| format!("{} ({}) is {}", t.role, t.profile, t.state)).collect();
            unknown(&format!(
                "of {alike} of its kind the daemon does not tell which it means: {}",
                list.join(", ")
            ))
        }
    }
}

fn state(name: &str, kind: Kind, told: &Told) -> Check {
    let runs = if kind == Kind::Falcon { "its firmware runs, " } else { "" };
    match told.state.as_str() {
        "idle" | "armed" | "rendering" => {
            Check::ok(name, format!("{runs}calibrated; the daemon that runs has it ({})", told.state))
        }
        "uncalibrated" => Check::degraded(name, format!("{runs}not calibrated"), cure(&told.trouble)),
        state => {
            let state = if state.is_empty() { "starting" } else { state };
            Check::degraded(name, format!("the daemon that runs says: {state}"), cure(&told.trouble))
        }
    }
}

fn cure(trouble: &str) -> String {
    if trouble.is_empty() { "hapticd ctl status tells why".into() } else { trouble.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::Status as Verdict;
    use crate::device::known::lookup;

    fn told(role: &str, profile: &str, state: &str, trouble: &str) -> Told {
        let [role, profile, state, trouble] = [role, profile, state, trouble].map(str::to_owned);
        Told { role, profile, state, trouble }
    }

    #[test]
    fn what_the_daemon_knows_is_told_and_what_nobody_knows_is_not() {
        let falcon = lookup(0x0403, 0xcb48).expect("known");
        let teensy = lookup(0x16c0, 0x0486).expect("known");
        let line = |known, alike, daemon: &Daemon| check(known, "/dev/x", alike, daemon).expect("a driver");
        let silent = Daemon::Silent("no socket".into());
        let asked = line(falcon, 1, &silent);
        assert_eq!(asked.status, Verdict::Unknown);
        for words in
            ["firmware and calibration: not known without opening /dev/x", "no socket", "hapticd calibrate"]
        {
            assert!(asked.why.contains(words), "{}", asked.why);
        }
        assert!(!line(teensy, 1, &silent).why.contains("firmware and"));
        let tells = |state, trouble| Daemon::Tells(vec![told("", "novint-falcon", state, trouble)]);
        for state in ["idle", "armed", "rendering"] {
            let found = line(falcon, 1, &tells(state, ""));
            assert!(
                found.status == Verdict::Ok && found.why.contains("firmware runs, calibrated"),
                "{found:?}"
            );
        }
        let found = line(falcon, 1, &tells("uncalibrated", "pull the grip out"));
        assert_eq!((found.status, found.cure.as_deref()), (Verdict::Degraded, Some("pull the grip out")));
        assert!(found.why.contains("firmware runs, not calibrated"), "{}", found.why);
        // It does not start: nothing is said of a firmware that runs.
        let found = line(falcon, 1, &tells("absent", "set device.firmware"));
        assert!(found.status == Verdict::Degraded && !found.why.contains("runs,"), "{found:?}");
        assert_eq!(found.cure.as_deref(), Some("set device.firmware"));
        // The daemon drives another kind; two are plugged in.
        assert_eq!(line(teensy, 1, &tells("idle", "")).status, Verdict::Unknown);
        let found = line(falcon, 2, &tells("idle", ""));
        assert!(found.status == Verdict::Unknown && found.why.contains("of 2 of its kind"), "{found:?}");
        let mouse = lookup(0x256f, 0xc635).expect("known");
        assert_eq!(line(mouse, 1, &silent).status, Verdict::Ok);
        assert_eq!(check(lookup(0x1451, 0x0402).expect("known"), "/dev/x", 1, &silent), None);
    }

    #[test]
    fn each_device_has_its_own_trouble() {
        let warnings =
            ["other", "device left: pull", "device: press", "device lefthand: no"].map(String::from);
        assert_eq!(trouble(&warnings, "left"), "pull");
        assert_eq!(trouble(&warnings, ""), "press");
        assert_eq!(trouble(&warnings, "right"), "");
    }
}
