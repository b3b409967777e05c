//! The methods that change no scene.

use super::lanes::{Lanes, Own, Stamp};
use super::{Server, edits, need};
use crate::config::source::number;
use crate::control::bridge::{Asked, Request, arming};
use crate::control::motion;
use crate::control::outbox::Outbox;
use crate::control::session::Session;
use crate::protocol::messages::{
    Arm, Cancel, Clutch, Done, Limits, MotionClose, MotionOpen, OfDevice, Recentre, Record, Role,
    StateStream, Subscribe,
};
use crate::protocol::rpc::{RpcError, arguments as args, codes, shown};
use crate::servo::handle::{ServoCommand, motion_delay_ns};
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Fastest telemetry on the socket, Hz.
const MAX_SUBSCRIPTION: f64 = 200.0;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

fn value(v: &impl Serialize) -> Value {
    serde_json::to_value(v).unwrap_or_default()
}

fn within(field: &str, x: f64, lo: f64, hi: f64, unit: &str) -> Result<f64, RpcError> {
    if x >= lo && x <= hi {
        return Ok(x);
    }
    let text = format!("{field} = {} is outside {lo} to {hi} {unit}", number(x));
    Err(RpcError::new(codes::INVALID_PARAMS, text).field(field))
}

/// Who asks.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) server: Arc<Server>,
    pub(super) session: Arc<Session>,
    pub(super) outbox: Arc<Outbox>,
    pub(super) running: edits::Running,
}

/// The device that a request is for, where it waits for that device's servo.
#[derive(serde::Deserialize)]
struct For {
    #[serde(default)]
    device: Option<String>,
}

impl Caller {
    pub(super) fn done(&self) -> Value {
        value(&Done { generation: self.server.scene.generation() })
    }

    fn owner(&self, method: &str) -> Result<(), RpcError> {
        need(self.session.role(), Role::Owner, method)
    }

    /// The device that a request means.
    fn device(&self, role: Option<&String>) -> Result<usize, RpcError> {
        self.server.board.find(role.map(String::as_str))
    }

    /// Which lane a request stands in: that of the device whose servo it waits for. `None` where it waits for none, or cannot be right.
    pub(super) fn lane(&self, method: &str, params: &Value) -> Option<usize> {
        let waits =
            ["arm", "takeover", "clear_fault", "calibrate", "limits", "clutch", "recentre"].contains(&method);
        let of: For = waits.then(|| serde::Deserialize::deserialize(params).ok()).flatten()?;
        self.device(of.device.as_ref()).ok()
    }

    /// Owners act on a servo only while they hold its force, or nobody does; admins always.
    fn holds_or_free(&self, method: &str, device: usize) -> Result<(), RpcError> {
        self.owner(method)?;
        let holder = self.server.bridge.shared.owner(device);
        if holder == 0 || holder == self.session.id || self.session.role() == Role::Admin {
            return Ok(());
        }
        let text = format!("session {holder} holds the force; only it or an admin may {method}");
        Err(RpcError::new(codes::NOT_OWNER, text))
    }

    async fn command(&self, device: usize, command: ServoCommand) -> Result<Value, RpcError> {
        self.server.bridge.ask(|reply| Request::Command(device, command, reply)).await?;
        Ok(self.done())
    }

    /// Carries a request out; `lane` is where it stood. For all but edits and `disarm`.
    pub(super) async fn call(
        &self,
        method: &str,
        params: Value,
        lane: Option<(&Own, Stamp)>,
    ) -> Result<Value, RpcError> {
        let server = &self.server;
        match method {
            "hello" => Err(RpcError::new(codes::INVALID_REQUEST, "hello was said already")),
            "ping" => args::<Nothing>(params).map(|_| self.done()),
            "status" => {
                args::<Nothing>(params)?;
                Ok(value(&server.status()))
            }
            "scene" => {
                args::<Nothing>(params)?;
                Ok(value(&server.scene.info()))
            }
            "arm" | "takeover" => self.arm(method, args(params)?, lane).await,
            "clear_fault" => {
                let c: OfDevice = args(params)?;
                let device = self.device(c.device.as_ref())?;
                self.holds_or_free(method, device)?;
                self.command(device, ServoCommand::ClearFault).await
            }
            "calibrate" => {
                let c: OfDevice = args(params)?;
                let device = self.device(c.device.as_ref())?;
                self.holds_or_free(method, device)?;
                let counters = server.board.counters(device);
                let asked = counters.ok_or_else(|| "no device is open; see `status`".to_owned());
                asked.and_then(|c| c.ask_calibration()).map_err(|why| RpcError::new(codes::SERVO, why))?;
                Ok(self.done())
            }
            "limits" => self.limits(args(params)?).await,
            "clutch" => {
                let c: Clutch = args(params)?;
                let device = self.device(c.device.as_ref())?;
                self.holds_or_free(method, device)?;
                self.command(device, ServoCommand::Clutch { held: c.held }).await
            }
            "recentre" => {
                let r: Recentre = args(params)?;
                let device = self.device(r.device.as_ref())?;
                self.holds_or_free(method, device)?;
                for (i, x) in r.to.iter().enumerate() {
                    within(&format!("to[{i}]"), *x, -1000.0, 1000.0, "m")?;
                }
                self.command(device, ServoCommand::Recentre { to: r.to }).await
            }
            "subscribe" => {
                let s: Subscribe = args(params)?;
                let rate = within("rate_hz", s.rate_hz, 0.0, MAX_SUBSCRIPTION, "Hz (0 = off)")?;
                let device = self.device(s.device.as_ref())?;
                let (id, outbox) = (self.session.id, self.outbox.clone());
                server.bridge.send(Request::Subscribe(device, id, outbox, rate));
                Ok(self.done())
            }
            "state_stream" => {
                let s: StateStream = args(params)?;
                let rate = within("rate_hz", s.rate_hz, 0.0, server.options.state_hz, "Hz (0 = off)")?;
                let device = self.device(s.device.as_ref())?;
                server.bridge.send(Request::StateRate(device, self.session.id, rate));
                Ok(self.done())
            }
            "motion.open" => self.motion(args(params)?).await,
            "motion.close" => {
                let c: MotionClose = args(params)?;
                self.owner(method)?;
                let session = self.session.id;
                let make = |reply| Request::CloseMotion { session, stream: c.stream, reply };
                server.bridge.ask(make).await?;
                Ok(self.done())
            }
            "cancel" => {
                let c: Cancel = args(params)?;
                if self.running.cancel(&c) {
                    return Ok(self.done());
                }
                Err(RpcError::new(codes::NOT_FOUND, "no such request is being carried out").field("request"))
            }
            "record" => {
                let r: Record = args(params)?;
                self.owner(method)?;
                let device = self.device(r.device.as_ref())?;
                let none = || RpcError::new(codes::INTERNAL, "no recordings for it");
                let path = server.recordings.get(device).ok_or_else(none)?.switch(r.on, &server.bridge)?;
                let generation = server.scene.generation();
                Ok(value(&crate::protocol::messages::Recorded { path, generation }))
            }
            "shutdown" => {
                args::<Nothing>(params)?;
                need(self.session.role(), Role::Admin, method)?;
                // After its answer: `Connection::line`.
                Ok(self.done())
            }
            "debug.panic" if server.options.debug => self.provoke(&params),
            _ => Err(RpcError::new(codes::UNKNOWN_METHOD, format!("there is no method '{}'", shown(method)))),
        }
    }

    async fn arm(&self, method: &str, a: Arm, lane: Option<(&Own, Stamp)>) -> Result<Value, RpcError> {
        self.owner(method)?;
        let longest = self.server.options.lease.as_secs_f64();
        let lease = match a.lease_s {
            Some(s) => Some(Duration::from_secs_f64(within("lease_s", s, 0.02, longest, "s")?)),
            None => None,
        };
        let device = self.device(a.device.as_ref())?;
        let (session, takeover) = (self.session.id, method == "takeover");
        let make = |reply| Request::Arm(arming::Arm { device, session, lease, takeover, reply });
        // Only a request for no device stands in no lane.
        let (own, stamp) = lane.ok_or_else(|| RpcError::new(codes::INTERNAL, "not for this device"))?;
        own.arm(&self.server.gates, stamp, || self.server.bridge.begin(make))?.end().await?;
        Ok(self.done())
    }

    /// Takes the force away, at once. Without a device: of every one that the session holds or has asked for; of all, where there is none.
    pub(super) fn disarm(
        &self,
        params: Value,
        lanes: &Lanes,
    ) -> Result<Vec<(usize, Result<Asked<()>, RpcError>)>, RpcError> {
        let d: OfDevice = args(params)?;
        let one = d.device.as_ref().map(|_| self.device(d.device.as_ref())).transpose()?;
        self.owner("disarm")?;
        let (session, any) = (self.session.id, self.session.role() == Role::Admin);
        let Server { bridge, gates, .. } = &*self.server;
        let its = |(device, own): &(usize, &Arc<Own>)| {
            own.is_asked_for() || bridge.shared.owner(*device) == session
        };
        let some = lanes.own().enumerate().any(|l| its(&l));
        let meant = |l: &(usize, &Arc<Own>)| one.map_or(!some || its(l), |one| one == l.0);
        let ask = |(device, own): (usize, &Arc<Own>)| {
            let begin = || bridge.begin(|reply| Request::Disarm { device, session, any, reply });
            (device, own.void(gates, any, begin))
        };
        // All are asked before any ramp is waited for.
        Ok(lanes.own().enumerate().filter(meant).map(ask).collect())
    }

    async fn limits(&self, l: Limits) -> Result<Value, RpcError> {
        let device = self.device(l.device.as_ref())?;
        self.holds_or_free("limits", device)?;
        let check =
            |field: &str, x: Option<f64>, unit| x.map(|x| within(field, x, 0.0, 1e6, unit)).transpose();
        let (force, torque) = (check("force", l.force, "N")?, check("torque", l.torque, "N·m")?);
        let velocity = check("velocity", l.velocity, "m/s")?;
        let make = |reply| Request::Limits { device, force, torque, velocity, reply };
        self.server.bridge.ask(make).await.map(|l| value(&l))
    }

    async fn motion(&self, m: MotionOpen) -> Result<Value, RpcError> {
        self.owner("motion.open")?;
        let rate = within("rate_hz", m.rate_hz, 1.0, 2000.0, "Hz")?;
        let jitter = match m.jitter_s {
            Some(j) => (within("jitter_s", j, 0.0, 0.1, "s")? * 1e9) as u64,
            None => motion::DEFAULT_JITTER_NS,
        };
        let lease = match m.lease_s {
            Some(s) => within("lease_s", s, 0.005, 10.0, "s")?,
            // Three missing datagrams of a slow stream are not yet a stop.
            None => self.server.options.motion_timeout.as_secs_f64().max(3.0 / rate),
        };
        let delay_ns = motion_delay_ns((1e9 / rate) as u64, jitter);
        let (session, lease_ns) = (self.session.id, (lease * 1e9) as u64);
        let make = |reply| Request::Motion { session, delay_ns, lease_ns, reply };
        self.server.bridge.ask(make).await.map(|o| value(&o))
    }

    /// Panics in the task of that name, to test what follows.
    fn provoke(&self, params: &Value) -> Result<Value, RpcError> {
        match params.get("task").and_then(Value::as_str) {
            Some("connection") => panic!("asked to panic"),
            Some("bridge") => {
                self.server.bridge.send(Request::Panic);
                Ok(self.done())
            }
            Some("build") => {
                tokio::task::spawn_blocking(|| panic!("asked to panic"));
                Ok(self.done())
            }
            _ => {
                Err(RpcError::new(codes::INVALID_PARAMS, "task is connection, bridge or build").field("task"))
            }
        }
    }
}
