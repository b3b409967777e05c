//! The sections of the configuration with their defaults and ranges. `config/hapticd.toml` explains each key.

use super::source::{SourceError, Table};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// `[device]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Registry name.
    pub name: String,
    /// The real device or its simulation.
    pub driver: Driver,
    /// What it is for; of several, the name by which requests mean it.
    pub role: String,
    /// Role of the device whose workspace it moves about in the scene.
    pub moves: Option<String>,
    /// CPU of its servo; `Auto` is `servo.core` for the first device, and one of its own for each further one.
    pub core: Core,
    /// Serial number; `None` takes the only one.
    pub serial: Option<String>,
    /// Firmware of a Falcon.
    pub firmware: Option<PathBuf>,
    /// The maker's library of a Phantom (`libHD.so`); `None` lets the system's loader look for it.
    pub library: Option<PathBuf>,
    /// Directory of additional profiles.
    pub profiles: Option<PathBuf>,
    /// Hand script of a simulated device.
    pub hand: Option<PathBuf>,
    /// What the device `replay` plays.
    pub recording: Option<PathBuf>,
    /// Seed of a simulated device.
    pub seed: u64,
    /// File in which a simulated device leaves its last accepted command.
    pub probe: Option<PathBuf>,
}

impl Default for Device {
    fn default() -> Self {
        Self {
            name: "ideal-6dof".into(),
            driver: Driver::Simulated,
            role: "main".into(),
            moves: None,
            core: Core::Auto,
            serial: None,
            firmware: None,
            library: None,
            profiles: None,
            hand: None,
            recording: None,
            seed: 1,
            probe: None,
        }
    }
}

impl Device {
    pub(super) fn read(t: &Table<'_>, base: &Path) -> Result<Self, SourceError> {
        let d = Self::default();
        let name = t.or("name", d.name)?;
        if name.is_empty() {
            return Err(t.error("name", "empty; `hapticd devices` lists the names"));
        }
        Ok(Self {
            name,
            driver: driver(t)?,
            role: t.or("role", d.role)?,
            moves: text(t, "moves")?,
            core: core(t)?,
            serial: text(t, "serial")?,
            firmware: path(t, "firmware", base)?,
            library: path(t, "library", base)?,
            profiles: path(t, "profiles", base)?,
            hand: path(t, "hand", base)?,
            recording: path(t, "recording", base)?,
            seed: t.or("seed", d.seed)?,
            probe: path(t, "probe", base)?,
        })
    }
}

/// The real device or its simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Driver {
    /// Simulated from the profile.
    #[default]
    Simulated,
    /// The device on this machine's bus.
    Attached,
}

fn driver(t: &Table<'_>) -> Result<Driver, SourceError> {
    match t.opt::<String>("driver")?.as_deref() {
        None | Some("simulated") => Ok(Driver::Simulated),
        Some("attached") => Ok(Driver::Attached),
        Some(word) => Err(t.error("driver", format!("'{word}' is neither \"simulated\" nor \"attached\""))),
    }
}

/// Which CPU the servo runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Core {
    /// An isolated one if there is one, else the last.
    #[default]
    Auto,
    /// That one.
    Index(usize),
}

/// `[servo]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Servo {
    /// CPU.
    pub core: Core,
    /// SCHED_FIFO priority.
    pub priority: u8,
    /// Refuse to arm when degraded.
    pub require_rt: bool,
    /// mlockall.
    pub lock_memory: bool,
    /// Time for contact queries in a tick, µs.
    pub budget_us: u32,
    /// Work units a tick; 0 = calibrate from `budget_us`.
    pub budget_units: u32,
    /// Latest end of contact queries after the start of the tick, µs.
    pub deadline_us: u32,
    /// Late ticks in a row that are a fault.
    pub late_in_a_row: u32,
    /// Late ticks in a second that are a fault.
    pub late_in_a_second: u32,
    /// Gap between ticks that is a fault, s.
    pub max_gap_s: f64,
    /// Age of a sample at which the force ramps down, ticks.
    pub stale_ticks: u32,
    /// Time without a sample that is a fault, s.
    pub stale_fault_s: f64,
}

impl Default for Servo {
    fn default() -> Self {
        Self {
            core: Core::Auto,
            priority: 80,
            require_rt: false,
            lock_memory: true,
            budget_us: 350,
            budget_units: 0,
            deadline_us: 600,
            late_in_a_row: 20,
            late_in_a_second: 200,
            max_gap_s: 0.25,
            stale_ticks: 2,
            stale_fault_s: 0.25,
        }
    }
}

impl Servo {
    pub(super) fn read(t: &Table<'_>) -> Result<Self, SourceError> {
        let d = Self::default();
        Ok(Self {
            core: core(t)?,
            priority: t.within("priority", d.priority, 1..=98)?,
            require_rt: t.or("require_rt", d.require_rt)?,
            lock_memory: t.or("lock_memory", d.lock_memory)?,
            budget_us: t.within("budget_us", d.budget_us, 10..=900)?,
            budget_units: t.or("budget_units", d.budget_units)?,
            deadline_us: t.within("deadline_us", d.deadline_us, 20..=950)?,
            late_in_a_row: t.within("late_in_a_row", d.late_in_a_row, 1..=1000)?,
            late_in_a_second: t.within("late_in_a_second", d.late_in_a_second, 1..=1000)?,
            max_gap_s: t.within("max_gap_s", d.max_gap_s, 0.005..=10.0)?,
            stale_ticks: t.within("stale_ticks", d.stale_ticks, 1..=100)?,
            stale_fault_s: t.within("stale_fault_s", d.stale_fault_s, 0.005..=10.0)?,
        })
    }
}

fn core(t: &Table<'_>) -> Result<Core, SourceError> {
    match t.opt::<String>("core") {
        Ok(None) => Ok(Core::Auto),
        Ok(Some(word)) if word == "auto" => Ok(Core::Auto),
        Ok(Some(word)) => {
            Err(t.error("core", format!("'{word}' is neither \"auto\" nor the number of a CPU")))
        }
        Err(_) => t.within("core", 0usize, 0..=1023).map(Core::Index),
    }
}

/// `[arming]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Arming {
    /// N.
    pub small_force_n: f64,
    /// N·m.
    pub small_torque_nm: f64,
    /// Ticks.
    pub ticks: u32,
    /// s.
    pub ramp_s: f64,
    /// s.
    pub release_s: f64,
    /// s.
    pub fade_s: f64,
    /// Number of the button that must be held for any force, from 1; 0 = none.
    pub deadman_button: u32,
}

impl Default for Arming {
    fn default() -> Self {
        Self {
            small_force_n: 0.2,
            small_torque_nm: 0.01,
            ticks: 50,
            ramp_s: 0.3,
            release_s: 0.03,
            fade_s: 0.2,
            deadman_button: 0,
        }
    }
}

impl Arming {
    pub(super) fn read(t: &Table<'_>) -> Result<Self, SourceError> {
        let d = Self::default();
        Ok(Self {
            small_force_n: t.within("small_force_n", d.small_force_n, 0.001..=2.0)?,
            small_torque_nm: t.within("small_torque_nm", d.small_torque_nm, 0.0001..=0.5)?,
            ticks: t.within("ticks", d.ticks, 1..=10_000)?,
            ramp_s: t.within("ramp_s", d.ramp_s, 0.01..=10.0)?,
            release_s: t.within("release_s", d.release_s, 0.02..=0.05)?,
            fade_s: t.within("fade_s", d.fade_s, 0.001..=10.0)?,
            deadman_button: t.within("deadman_button", d.deadman_button, 0..=32)?,
        })
    }
}

/// `[control]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Control {
    /// Socket path; `None` = the standard places.
    pub socket: Option<PathBuf>,
    /// Group of the socket.
    pub group: Option<String>,
    /// Users, or groups with a leading `@`, that may arm and edit.
    pub owners: Vec<String>,
    /// Users, or groups with a leading `@`, that may do everything.
    pub admins: Vec<String>,
    /// UDP port on loopback; 0 = any.
    pub udp_port: u16,
    /// Prometheus address; `None` = off.
    pub metrics: Option<SocketAddr>,
    /// Sessions at a time.
    pub sessions: u32,
    /// Longest request line, bytes.
    pub line_bytes: usize,
    /// Time to say hello, s.
    pub hello_s: f64,
    /// Requests a second of one session.
    pub requests_per_s: u32,
    /// Longest lease, s.
    pub lease_s: f64,
    /// Time to resume a session, s.
    pub resume_s: f64,
    /// Time over which a dead session's objects fade out, s.
    pub fade_s: f64,
    /// Fastest state stream, Hz.
    pub state_hz: u32,
    /// Time without a pose after which a motion stream counts as stopped, s.
    pub motion_timeout_s: f64,
    /// Largest mesh that a client may send, bytes.
    pub mesh_bytes: u64,
}

impl Default for Control {
    fn default() -> Self {
        Self {
            socket: None,
            group: None,
            owners: vec!["@hapticd".into()],
            admins: Vec::new(),
            udp_port: 0,
            metrics: None,
            sessions: 32,
            line_bytes: 1 << 20,
            hello_s: 5.0,
            requests_per_s: 1000,
            lease_s: 1.0,
            resume_s: 5.0,
            fade_s: 1.0,
            state_hz: 1000,
            motion_timeout_s: 0.1,
            mesh_bytes: 256 << 20,
        }
    }
}

impl Control {
    pub(super) fn read(t: &Table<'_>) -> Result<Self, SourceError> {
        let d = Self::default();
        let socket = text(t, "socket")?.map(PathBuf::from);
        if socket.as_ref().is_some_and(|s| !s.is_absolute() || s.as_os_str().len() > 107) {
            return Err(t.error("socket", "a socket path is absolute and has at most 107 bytes"));
        }
        Ok(Self {
            socket,
            group: text(t, "group")?,
            owners: names(t, "owners", d.owners)?,
            admins: names(t, "admins", d.admins)?,
            udp_port: t.or("udp_port", d.udp_port)?,
            metrics: metrics(t)?,
            sessions: t.within("sessions", d.sessions, 1..=1024)?,
            line_bytes: t.within("line_bytes", d.line_bytes, 1024..=64 << 20)?,
            hello_s: t.within("hello_s", d.hello_s, 0.1..=60.0)?,
            requests_per_s: t.within("requests_per_s", d.requests_per_s, 1..=100_000)?,
            lease_s: t.within("lease_s", d.lease_s, 0.02..=60.0)?,
            resume_s: t.within("resume_s", d.resume_s, 0.0..=3600.0)?,
            fade_s: t.within("fade_s", d.fade_s, 0.0..=60.0)?,
            state_hz: t.within("state_hz", d.state_hz, 1..=1000)?,
            motion_timeout_s: t.within("motion_timeout_s", d.motion_timeout_s, 0.005..=10.0)?,
            mesh_bytes: t.within("mesh_bytes", d.mesh_bytes, 1024..=4 << 30)?,
        })
    }
}

fn metrics(t: &Table<'_>) -> Result<Option<SocketAddr>, SourceError> {
    let Some(word) = text(t, "metrics")? else { return Ok(None) };
    let address: SocketAddr = word.parse().map_err(|_| {
        t.error("metrics", format!("'{word}' is no address with a port, such as \"127.0.0.1:9469\""))
    })?;
    if !address.ip().is_loopback() {
        return Err(t.error("metrics", format!("{address} is not on loopback; put a proxy in front instead")));
    }
    Ok(Some(address))
}

fn names(t: &Table<'_>, key: &str, default: Vec<String>) -> Result<Vec<String>, SourceError> {
    let names = t.or(key, default)?;
    if names.iter().any(|n| n.trim_start_matches('@').is_empty()) {
        return Err(t.error(key, "a name is a user, or a group with a leading '@'"));
    }
    Ok(names)
}

/// `[scene]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    /// Scene file to start with.
    pub file: Option<PathBuf>,
    /// Memory cap, MiB.
    pub memory_cap_mb: u64,
    /// Directories below which meshes may be named by path.
    pub mesh_roots: Vec<PathBuf>,
    /// Build threads; 0 = one for each CPU that is neither a servo's nor isolated.
    pub build_threads: usize,
    /// Objects may say `proxy = "mesh"`.
    pub proxy_on_mesh: bool,
}

impl Default for Scene {
    fn default() -> Self {
        Self {
            file: None,
            memory_cap_mb: 1024,
            mesh_roots: Vec::new(),
            build_threads: 0,
            proxy_on_mesh: false,
        }
    }
}

impl Scene {
    pub(super) fn read(t: &Table<'_>, base: &Path) -> Result<Self, SourceError> {
        let d = Self::default();
        let roots: Vec<String> = t.or("mesh_roots", Vec::new())?;
        Ok(Self {
            file: path(t, "file", base)?,
            memory_cap_mb: t.within("memory_cap_mb", d.memory_cap_mb, 1..=1 << 20)?,
            mesh_roots: roots.iter().map(|r| base.join(r)).collect(),
            build_threads: t.within("build_threads", d.build_threads, 0..=256)?,
            proxy_on_mesh: t.or("proxy_on_mesh", d.proxy_on_mesh)?,
        })
    }

    /// The memory cap, bytes.
    pub fn memory_cap(&self) -> u64 {
        self.memory_cap_mb << 20
    }
}

/// `[cache]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Cache {
    /// Directory; `None` = the standard places.
    pub dir: Option<PathBuf>,
    /// Size cap, MiB; 0 = no disk cache.
    pub size_mb: u64,
}

impl Default for Cache {
    fn default() -> Self {
        Self { dir: None, size_mb: 2048 }
    }
}

impl Cache {
    pub(super) fn read(t: &Table<'_>, base: &Path) -> Result<Self, SourceError> {
        let d = Self::default();
        Ok(Self { dir: path(t, "dir", base)?, size_mb: t.within("size_mb", d.size_mb, 0..=1 << 24)? })
    }
}

/// `[recordings]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Recordings {
    /// Directory; `None` = the standard places.
    pub dir: Option<PathBuf>,
    /// Size cap, MiB.
    pub size_mb: u64,
    /// Seconds before a fault that its dump shows; 0 = no dumps.
    pub flight_s: f64,
}

impl Default for Recordings {
    fn default() -> Self {
        Self { dir: None, size_mb: 4096, flight_s: 10.0 }
    }
}

impl Recordings {
    pub(super) fn read(t: &Table<'_>, base: &Path) -> Result<Self, SourceError> {
        let d = Self::default();
        Ok(Self {
            dir: path(t, "dir", base)?,
            size_mb: t.within("size_mb", d.size_mb, 1..=1 << 24)?,
            flight_s: t.within("flight_s", d.flight_s, 0.0..=600.0)?,
        })
    }
}

/// A text whose empty value means "not given".
fn text(t: &Table<'_>, key: &str) -> Result<Option<String>, SourceError> {
    Ok(t.opt::<String>(key)?.filter(|s| !s.is_empty()))
}

/// A path, taken from `base` when relative; empty means "not given".
fn path(t: &Table<'_>, key: &str, base: &Path) -> Result<Option<PathBuf>, SourceError> {
    Ok(text(t, key)?.map(|p| base.join(p)))
}
