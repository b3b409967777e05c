//! What `status` and the metrics say.

use super::bridge::Shared;
use super::ipc::Server;
use super::names;
use super::scene::unknown_device;
use super::supervisor::Started;
use crate::protocol::messages::{DeviceStatus, LimitsNow, RtNote, Status};
use crate::protocol::rpc::RpcError;
use crate::servo::handle::Counters;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Facts that change rarely.
#[derive(Debug)]
pub struct StatusBoard {
    start: Instant,
    /// What each device is for, in the order of the configuration.
    roles: Vec<String>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    devices: Vec<Facts>,
    warnings: Vec<String>,
}

/// About one device.
#[derive(Clone, Debug, Default)]
struct Facts {
    device: String,
    rt: Vec<RtNote>,
    /// Of its newest servo's start.
    limits: [f64; 3],
    budget: Budget,
    counters: Option<Arc<Counters>>,
}

/// What the contact queries of a tick may do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Budget {
    /// Work units; 0 = unlimited, or no servo yet.
    pub units: u32,
    /// Calibrated work units a microsecond; 0 when not calibrated.
    pub units_per_us: f64,
}

impl StatusBoard {
    /// An empty one, for devices of these roles (`device.role`).
    pub fn new(roles: &[String]) -> Self {
        let inner = Inner { devices: vec![Facts::default(); roles.len()], warnings: Vec::new() };
        Self { start: Instant::now(), roles: roles.into(), inner: Mutex::new(inner) }
    }

    fn with<T>(&self, f: impl FnOnce(&mut Inner) -> T) -> T {
        f(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn device(&self, device: usize) -> Facts {
        self.with(|i| i.devices.get(device).cloned()).unwrap_or_default()
    }

    /// What the devices are for.
    pub fn roles(&self) -> &[String] {
        &self.roles
    }

    /// Role of a device for people and events; `None` where there is but one.
    pub fn name(&self, device: usize) -> Option<&str> {
        self.roles.get(device).filter(|_| self.roles.len() > 1).map(String::as_str)
    }

    /// The device of that role; the first one when none is named.
    ///
    /// # Errors
    /// No device has that role.
    pub fn find(&self, role: Option<&str>) -> Result<usize, RpcError> {
        let Some(role) = role else { return Ok(0) };
        self.roles.iter().position(|r| r == role).ok_or_else(|| unknown_device(role, &self.roles))
    }

    /// The servo of a device has started.
    pub fn servo(&self, device: usize, s: &Started) {
        let budget = Budget { units: s.handle.config().budget_units, units_per_us: s.units_per_us };
        let (rt, counters) = (s.rt.clone(), Some(s.handle.counters()));
        let facts = Facts { device: s.device.clone(), rt, limits: s.limits, budget, counters };
        self.with(|i| {
            if let Some(d) = i.devices.get_mut(device) {
                *d = facts;
            }
        });
    }

    /// The budget of a device's newest servo.
    pub fn budget(&self, device: usize) -> Budget {
        self.device(device).budget
    }

    /// A device has no servo any more.
    pub fn no_servo(&self, device: usize) {
        self.with(|i| {
            if let Some(d) = i.devices.get_mut(device) {
                d.counters = None;
            }
        });
    }

    /// A warning that stands until the daemon ends. Equal ones are kept once.
    pub fn warn(&self, text: impl Into<String>) {
        let text = text.into();
        tracing::warn!("{text}");
        self.with(|i| {
            if i.warnings.len() < 100 && !i.warnings.contains(&text) {
                i.warnings.push(text);
            }
        });
    }

    /// A warning about a device, as [`warn`](Self::warn).
    pub fn warn_of(&self, device: usize, text: impl std::fmt::Display) {
        match self.name(device) {
            Some(role) => self.warn(format!("{role}: {text}")),
            None => self.warn(text.to_string()),
        }
    }

    /// Counters of a device's running servo.
    pub fn counters(&self, device: usize) -> Option<Arc<Counters>> {
        self.device(device).counters
    }
}

impl Server {
    /// The answer to `status`.
    pub fn status(&self) -> Status {
        let generation = self.scene.generation();
        let all: Vec<DeviceStatus> =
            (0..self.board.roles.len()).map(|d| self.device_status(d, generation)).collect();
        let mut warnings = self.board.with(|i| i.warnings.clone());
        for device in 0..all.len() {
            let Some(counters) = self.board.counters(device) else { continue };
            let trouble = Some(counters.device_trouble()).filter(|t| !t.is_empty());
            let slow = counters.loop_delay().and_then(softened);
            let role = self.board.name(device).map_or_else(String::new, |role| format!(" {role}"));
            warnings.extend(trouble.into_iter().chain(slow).map(|text| format!("device{role}: {text}")));
        }
        // There is always one.
        let first = all.first().cloned().unwrap_or_else(|| self.device_status(0, generation));
        Status {
            server: env!("CARGO_PKG_VERSION").into(),
            uptime_s: self.board.start.elapsed().as_secs_f64(),
            generation,
            device: first.device,
            device_role: first.role,
            state: first.state,
            owner: first.owner,
            rt: first.rt,
            limits: first.limits,
            sessions: self.sessions.list(),
            counters: self.count(),
            warnings,
            devices: if all.len() > 1 { all } else { Vec::new() },
        }
    }

    fn device_status(&self, device: usize, generation: u64) -> DeviceStatus {
        let facts = self.board.device(device);
        let shared = self.bridge.shared.devices.get(device);
        // What clients have lowered since the servo started is known where they asked for it.
        let [force, torque, velocity] = shared.and_then(|d| d.limits()).unwrap_or(facts.limits);
        let workspace = facts.counters.as_ref().and_then(|c| c.workspace.newest());
        DeviceStatus {
            role: self.board.roles.get(device).cloned().unwrap_or_default(),
            device: facts.device,
            state: shared.and_then(|d| d.latest()).map(|r| names::to_json(&r, workspace)),
            owner: self.bridge.shared.owner(device),
            rt: facts.rt,
            limits: LimitsNow { force, torque, velocity, generation },
            counters: self.count_device(device),
        }
    }

    /// Every counter by name: the daemon's, and those of the first device.
    pub fn count(&self) -> BTreeMap<String, u64> {
        let mut out = self.count_daemon();
        out.append(&mut self.count_device(0));
        out
    }

    /// The daemon's counters.
    pub fn count_daemon(&self) -> BTreeMap<String, u64> {
        let mut out = BTreeMap::new();
        let shared: &Shared = &self.bridge.shared;
        shared.udp.list(&mut out);
        let c = &self.counters;
        let mut put = |name: &str, n: u64| {
            out.insert(name.into(), n);
        };
        put("connections", c.connections.load(Relaxed));
        put("connections_closed", c.closed.load(Relaxed));
        put("requests", c.requests.load(Relaxed));
        put("request_errors", c.errors.load(Relaxed));
        put("bridge_rounds", shared.rounds.load(Relaxed));
        put("published", shared.published.load(Relaxed));
        out
    }

    /// The counters of a device's servo.
    pub fn count_device(&self, device: usize) -> BTreeMap<String, u64> {
        let mut out = BTreeMap::new();
        let mut put = |name: &str, n: u64| {
            out.insert(name.into(), n);
        };
        let lost = self.bridge.shared.devices.get(device).map_or(0, |d| d.lost.load(Relaxed));
        put("telemetry_lost", lost);
        if let Some(s) = self.board.counters(device) {
            put("ticks", s.ticks.load(Relaxed));
            put("device_samples", s.samples.load(Relaxed));
            put("device_writes", s.writes.load(Relaxed));
            put("samples_lost", s.lost.load(Relaxed));
            put("periods_skipped", s.skipped.load(Relaxed));
            put("ticks_late", s.late.load(Relaxed));
            put("deadlines", s.deadlines.load(Relaxed));
            put("incomplete", s.incomplete.load(Relaxed));
            put("adopted", s.adopted.load(Relaxed));
            put("wake_max_ns", s.wake_max_ns.load(Relaxed).max(0).cast_unsigned());
            put("compute_max_ns", s.compute_max_ns.load(Relaxed));
            if let Some((delay_ns, part)) = s.loop_delay() {
                put("loop_delay_us", delay_ns / 1000);
                put("stiffness_left_percent", (part * 100.0).round() as u64);
            }
            if let Some(stiffest) = s.stiffest() {
                put("stiffness_ceiling_n_m", stiffest.round() as u64);
            }
            for (name, n) in s.io() {
                put(name, n);
            }
        }
        out
    }
}

/// Part of the profile's stiffness from which on people are told that it is not all there.
const WORTH_TELLING: f64 = 0.9;

/// What a loop that is slower than the profile states makes of contacts, for people.
fn softened((delay_ns, part): (u64, f64)) -> Option<String> {
    (part < WORTH_TELLING).then(|| {
        format!(
            "the loop from sense to force takes {:.1} ms, more than the device's profile counts with: contacts are rendered with at \
             most {:.0} % of its stiffness, so that they stay stable; `hapticd doctor` says what slows the machine down",
            delay_ns as f64 * 1e-6,
            part * 100.0
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_loop_is_told_and_a_sound_one_is_not() {
        assert_eq!(softened((1_000_000, 1.0)), None);
        let text = softened((2_040_000, 0.6)).expect("told");
        assert!(text.contains("2.0 ms") && text.contains("60 %"), "{text}");
    }
}
