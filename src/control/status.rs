//! What `status` and the metrics say.

use super::bridge::Shared;
use super::ipc::Server;
use super::names;
use crate::protocol::messages::{LimitsNow, RtNote, Status};
use crate::servo::handle::Counters;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Facts that change rarely.
#[derive(Debug)]
pub struct StatusBoard {
    start: Instant,
    /// What the device is for.
    role: String,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    device: String,
    rt: Vec<RtNote>,
    limits: [f64; 3],
    warnings: Vec<String>,
    counters: Option<Arc<Counters>>,
}

impl StatusBoard {
    /// An empty one, for a device of this role (`device.role`).
    pub fn new(role: &str) -> Self {
        Self { start: Instant::now(), role: role.into(), inner: Mutex::default() }
    }

    fn with<T>(&self, f: impl FnOnce(&mut Inner) -> T) -> T {
        f(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A servo has started.
    pub fn servo(&self, device: &str, rt: Vec<RtNote>, limits: [f64; 3], counters: Arc<Counters>) {
        self.with(|i| {
            i.device = device.into();
            i.rt = rt;
            i.limits = limits;
            i.counters = Some(counters);
        });
    }

    /// There is no servo any more.
    pub fn no_servo(&self) {
        self.with(|i| i.counters = None);
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

    /// The running servo's counters.
    pub fn counters(&self) -> Option<Arc<Counters>> {
        self.with(|i| i.counters.clone())
    }
}

impl Server {
    /// The answer to `status`.
    pub fn status(&self) -> Status {
        let generation = self.scene.generation();
        let latest = self.bridge.shared.latest().map(|r| names::to_json(&r));
        let (device, rt, [force, torque, velocity], mut warnings) =
            self.board.with(|i| (i.device.clone(), i.rt.clone(), i.limits, i.warnings.clone()));
        let trouble = self.board.counters().map_or_else(String::new, |c| c.device_trouble());
        if !trouble.is_empty() {
            warnings.push(format!("device: {trouble}"));
        }
        Status {
            server: env!("CARGO_PKG_VERSION").into(),
            uptime_s: self.board.start.elapsed().as_secs_f64(),
            generation,
            device,
            device_role: self.board.role.clone(),
            state: latest,
            owner: self.bridge.shared.owner.load(Relaxed),
            rt,
            limits: LimitsNow { force, torque, velocity, generation },
            sessions: self.sessions.list(),
            counters: self.count(),
            warnings,
        }
    }

    /// Every counter by name.
    pub fn count(&self) -> BTreeMap<String, u64> {
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
        put("telemetry_lost", shared.lost.load(Relaxed));
        put("bridge_rounds", shared.rounds.load(Relaxed));
        put("published", shared.published.load(Relaxed));
        if let Some(s) = self.board.counters() {
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
            for (name, n) in s.io() {
                put(name, n);
            }
        }
        out
    }
}
