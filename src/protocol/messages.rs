//! Arguments and answers of the methods.

use super::Version;
use super::edit::Edit;
use super::telemetry::StateJson;
use serde::{Deserialize, Serialize};

/// What a session may do. Ordered: each includes the ones before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads.
    Observer,
    /// Edits the scene, arms, streams motion.
    Owner,
    /// Also touches what belongs to others, and shuts down.
    Admin,
}

/// `hello`: always the first request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// Smallest major the client speaks.
    pub min: u8,
    /// Largest major the client speaks.
    pub max: u8,
    /// Name for logs and `status`, at most 64 bytes.
    pub client: String,
    /// Resumes an earlier session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// A smaller role than the one that the peer's credentials give.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
}

/// Answer to `hello`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Welcome {
    /// The version spoken from here on.
    pub version: Version,
    /// The daemon's release.
    pub server: String,
    /// Session number, below 2^53.
    pub session: u64,
    /// Hand this to a later `hello` to take the session up again. Secret.
    pub token: String,
    /// True when `token` found its session.
    pub resumed: bool,
    /// What the session may do.
    pub role: Role,
    /// Where and how datagrams go; this daemon always says so.
    pub udp: Option<UdpInfo>,
    /// Generation of the scene.
    pub generation: u64,
    /// Seconds that the session's objects outlive it.
    pub linger_s: f64,
}

/// Access to the datagram plane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UdpInfo {
    /// Loopback address of the daemon.
    pub address: String,
    /// Port of the daemon.
    pub port: u16,
    /// The session's key, 64 hexadecimal digits. Secret.
    pub key: String,
}

/// `transaction`: all edits or none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transaction {
    /// Applied in order.
    pub edits: Vec<Edit>,
    /// Refuse when the scene is not at this generation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_generation: Option<u64>,
}

/// Answer to `transaction` and to each edit sent as a request of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Committed {
    /// Generation at which the change can be felt; telemetry says when it is.
    pub generation: u64,
    /// Objects created, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub created: Vec<Created>,
    /// What the importer and the builder reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A new object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Created {
    /// Its name.
    pub name: String,
    /// Its identifier, used in datagrams.
    pub id: u32,
}

/// Answer of requests that change no scene.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Generation of the scene.
    pub generation: u64,
}

/// `arm` and `takeover`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// When given, the session must send something (`ping` will do) at least this often, s; otherwise the open
    /// connection is the lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_s: Option<f64>,
    /// Role of the device; the first one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// `disarm`, `clear_fault` and `calibrate`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfDevice {
    /// Role of the device; when absent, `clear_fault` and `calibrate` mean the first one and `disarm` every one that the session holds, or all
    /// where it holds none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// `limits`: lowers the limits of a device until the daemon ends, whoever is armed; what is absent stays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// N.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<f64>,
    /// N·m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub torque: Option<f64>,
    /// m/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub velocity: Option<f64>,
    /// Role of the device; the first one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// Answer to `limits`: what holds now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitsNow {
    /// N.
    pub force: f64,
    /// N·m.
    pub torque: f64,
    /// m/s.
    pub velocity: f64,
    /// Generation of the scene.
    pub generation: u64,
}

/// `clutch`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clutch {
    /// True while the tool stands still and the device moves freely.
    pub held: bool,
    /// Role of the device; the first one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// `recentre`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recentre {
    /// The device's present position becomes this point of the scene, m.
    pub to: [f64; 3],
    /// Role of the device; the first one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// `subscribe`: telemetry on this connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subscribe {
    /// Notifications a second, 0 ends the subscription.
    pub rate_hz: f64,
    /// Role of the device; the first one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// `state_stream`: state by UDP to the address from which the session's `attach` datagram comes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateStream {
    /// Datagrams a second, 0 ends the stream.
    pub rate_hz: f64,
    /// Role of the device; the first one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// `motion.open`: announces how a stream of poses will come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MotionOpen {
    /// Datagrams a second.
    pub rate_hz: f64,
    /// Expected spread of their arrival, s; the daemon's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_s: Option<f64>,
    /// The stream counts as stopped after this long without a datagram, s; the daemon's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_s: Option<f64>,
}

/// `motion.close`: ends one of the session's streams.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MotionClose {
    /// Its number.
    pub stream: u16,
}

/// Answer to `motion.open`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MotionOpened {
    /// Stream number for the datagrams.
    pub stream: u16,
    /// The motion is played this long after the sender's time, s.
    pub delay_s: f64,
    /// The stream counts as stopped after this long, s.
    pub lease_s: f64,
    /// Generation of the scene.
    pub generation: u64,
}

/// `cancel`: stops the build of an earlier request of this connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cancel {
    /// That request's id.
    pub request: super::rpc::Id,
}

/// `record`: starts or stops a recording in the daemon's recording directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// True starts, false stops.
    pub on: bool,
    /// Role of the device; the first one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// Answer to `record`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// The file.
    pub path: String,
    /// Generation of the scene.
    pub generation: u64,
}

/// The `progress` notification of a running build.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgressNote {
    /// The request that it belongs to.
    pub request: Option<super::rpc::Id>,
    /// What is being done.
    pub stage: String,
    /// Units done.
    pub done: u64,
    /// Units in all.
    pub total: u64,
}

/// The `telemetry` notification.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TelemetryNote {
    /// Notifications dropped before this one because the client read too slowly.
    pub gap: u64,
    /// The newest tick.
    pub state: StateJson,
    /// Largest |force| since the last notification, N.
    pub peak_force: f64,
    /// Role of the device, where the daemon has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// The `event` notification: something changed that the client did not ask for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventNote {
    /// Stable name: `fault`, `armed`, `disarmed`, `taken_over`, `lease_lost`, `motion_stopped`, `object_faded`,
    /// `recording_failed`, `contact_begin`, `contact_end`, `shutdown`.
    pub event: String,
    /// For people.
    pub text: String,
    /// Role of the device that it is about, where the daemon has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// Answer to `status`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The daemon's release.
    pub server: String,
    /// Seconds since the start.
    pub uptime_s: f64,
    /// Generation of the scene (published).
    pub generation: u64,
    /// Device profile in use.
    pub device: String,
    /// What the device is for (`device.role` of the configuration).
    #[serde(default)]
    pub device_role: String,
    /// The newest tick; absent before the first.
    pub state: Option<StateJson>,
    /// Session that armed, 0 = nobody.
    pub owner: u64,
    /// Real-time status: `ok` or what is missing and how to cure it.
    pub rt: Vec<RtNote>,
    /// Limits that hold now: the least of the configuration, the device's profile and what clients have asked for.
    pub limits: LimitsNow,
    /// Open sessions.
    pub sessions: Vec<SessionInfo>,
    /// Counters by name: ticks, late, datagrams refused by reason, ...
    pub counters: std::collections::BTreeMap<String, u64>,
    /// Warnings that stand, e.g. that the cache directory cannot be written.
    pub warnings: Vec<String>,
    /// All devices, where there are several; what stands above is then the first one's. The place in this list, from 0, is the `stream`
    /// of a device's state datagrams.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceStatus>,
}

/// One of several devices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceStatus {
    /// What it is for: the name by which requests mean it.
    pub role: String,
    /// Device profile in use; empty before it was opened.
    pub device: String,
    /// Its newest tick; absent before the first.
    pub state: Option<StateJson>,
    /// Session that armed it, 0 = nobody.
    pub owner: u64,
    /// Its servo's real-time status.
    pub rt: Vec<RtNote>,
    /// Limits that hold for it now, likewise.
    pub limits: LimitsNow,
    /// Its servo's counters by name.
    pub counters: std::collections::BTreeMap<String, u64>,
}

/// One line of the real-time report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RtNote {
    /// True when nothing is missing.
    pub ok: bool,
    /// What.
    pub what: String,
    /// Why it is degraded.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// The command that cures it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cure: String,
}

/// A session as others see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// Session number.
    pub session: u64,
    /// Name that the client gave.
    pub client: String,
    /// Role.
    pub role: Role,
    /// Peer's process.
    pub pid: i32,
    /// Peer's user.
    pub uid: u32,
    /// False while it waits to be resumed.
    pub connected: bool,
}

/// Answer to `scene`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SceneInfo {
    /// Generation of the scene.
    pub generation: u64,
    /// Materials.
    pub materials: Vec<MaterialInfo>,
    /// Names of meshes.
    pub meshes: Vec<String>,
    /// Objects.
    pub objects: Vec<ObjectInfo>,
    /// Effects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<EffectInfo>,
    /// What each device has in the scene, in the order of the configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceInfo>,
}

/// Tool and place of a device, as `tool.set` and `device.place` take them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// What it is for (`device.role`).
    pub role: String,
    /// Its tool.
    pub tool: super::edit::ToolJson,
    /// Pose of its frame in the scene.
    pub pose: super::edit::PoseJson,
    /// Scene metres per device metre.
    pub scale: f64,
}

/// An effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EffectInfo {
    /// Name.
    pub name: String,
    /// What it is.
    pub effect: super::edit::EffectJson,
    /// It never pushes with more, N.
    pub max_force: f64,
    /// True when it outlives its session.
    pub persistent: bool,
    /// Session that it belongs to, 0 = the daemon.
    pub session: u64,
}

/// A material.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MaterialInfo {
    /// Name.
    pub name: String,
    /// N/m at the reference area.
    pub stiffness: f64,
    /// m^2.
    pub reference_area: f64,
    /// N·s/m.
    pub damping: f64,
    /// How it rubs; absent when it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub friction: Option<super::edit::FrictionJson>,
    /// What its surface is like to stroke; absent when it is smooth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub texture: Option<super::edit::TextureJson>,
}

/// An object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObjectInfo {
    /// Identifier.
    pub id: u32,
    /// Name.
    pub name: String,
    /// Mesh.
    pub mesh: String,
    /// Material.
    pub material: String,
    /// Pose (rest pose of a moving object).
    pub pose: super::edit::PoseJson,
    /// True for a moving object.
    pub moving: bool,
    /// True when it outlives its session.
    pub persistent: bool,
    /// Session that it belongs to, 0 = the daemon.
    pub session: u64,
}
