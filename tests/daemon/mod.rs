//! A daemon in a directory of its own, driven from outside. Waiting is bounded, so that nothing hangs; no test
//! asserts how long anything takes.
#![allow(dead_code)]

use hapticd::control::client::Client;
use hapticd::device::simulated::probe::{Probe, Reading};
use hapticd::geometry::shapes;
use hapticd::protocol::messages::{DeviceStatus, Status};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for anything: only against hanging.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// The program under test.
pub const HAPTICD: &str = env!("CARGO_BIN_EXE_hapticd");

/// Polls until `f` gives something.
pub fn wait_for<T>(what: &str, mut f: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(x) = f() {
            return x;
        }
        assert!(Instant::now() < until, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(3));
    }
}

pub struct Daemon {
    pub child: Child,
    pub dir: tempfile::TempDir,
}

impl Daemon {
    /// Starts a daemon with these further lines of configuration.
    pub fn start(config: &str) -> Self {
        Self::start_with(config, |_| ())
    }

    pub fn start_with(config: &str, prepare: impl FnOnce(&mut Command)) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mut d = Self { child: Self::spawn(&dir, config, prepare), dir };
        d.wait_ready();
        d
    }

    pub fn spawn(dir: &tempfile::TempDir, config: &str, prepare: impl FnOnce(&mut Command)) -> Child {
        let file = dir.path().join("hapticd.toml");
        // `[section]`s of the caller come first; what every test needs is merged in where they do not say.
        let mut text: toml::Table = toml::from_str(config).expect("the test's configuration");
        // Of several devices each has a page of its own.
        if let Some(several) = text.get_mut("device").and_then(toml::Value::as_array_mut) {
            for device in several.iter_mut().filter_map(toml::Value::as_table_mut) {
                let role = device.get("role").and_then(toml::Value::as_str).unwrap_or_default();
                let page = dir.path().join(format!("probe-{role}")).display().to_string();
                if device.get("driver").and_then(toml::Value::as_str) != Some("attached") {
                    device.entry("probe").or_insert(page.into());
                }
            }
        }
        let several = text.get("device").is_some_and(toml::Value::is_array);
        let mut put = |section: &str, key: &str, value: toml::Value| {
            let s = text.entry(section).or_insert_with(|| toml::Table::new().into());
            let s = s.as_table_mut().expect("a section");
            s.entry(key).or_insert(value);
        };
        let path = |name: &str| dir.path().join(name).display().to_string().into();
        put("control", "socket", path("s.sock"));
        put("control", "owners", toml::Value::Array(vec![]));
        if !several {
            put("device", "probe", path("probe"));
        }
        put("cache", "dir", path("cache"));
        put("recordings", "dir", path("rec"));
        // These tests share two CPUs with a compiler: being late is not what they are about.
        put("servo", "late_in_a_row", 1000.into());
        put("servo", "late_in_a_second", 1000.into());
        put("servo", "max_gap_s", 10.0.into());
        put("servo", "lock_memory", false.into());
        std::fs::write(&file, toml::to_string(&text).expect("writes")).expect("writes");
        let log = std::fs::File::create(dir.path().join("log")).expect("a log");
        let mut command = Command::new(HAPTICD);
        command
            .args(["run", "--debug-requests", "--config"])
            .arg(&file)
            .env_remove("NOTIFY_SOCKET")
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        prepare(&mut command);
        command.spawn().expect("starts")
    }

    /// Waits until it answers, and has published its scene for the first time: that is a generation which comes by itself.
    pub fn wait_ready(&mut self) {
        let socket = self.socket();
        let until = Instant::now() + PATIENCE;
        let published = |mut c: Client| {
            let scene = c.call("scene", json!({}));
            scene.map_or(true, |scene| scene["generation"].as_u64().is_some_and(|g| g > 1))
        };
        while !Client::connect(Some(&socket), "ready?", None).is_ok_and(published) {
            if let Some(status) = self.child.try_wait().expect("waits") {
                panic!("the daemon ended ({status}) instead of starting:\n{}", self.log());
            }
            assert!(Instant::now() < until, "no socket:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(3));
        }
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("s.sock")
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// Waits until the log says that: it is written by a thread of its own, a moment after.
    pub fn wait_log(&self, what: &str) {
        wait_for(&format!("the log to say '{what}'"), || self.log().contains(what).then_some(()));
    }

    pub fn client(&self, name: &str) -> Client {
        Client::connect(Some(&self.socket()), name, None).expect("connects")
    }

    /// A connection without a client library.
    pub fn raw(&self) -> Raw {
        let stream = UnixStream::connect(self.socket()).expect("connects");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        Raw { reader: BufReader::new(stream.try_clone().expect("clones")), stream }
    }

    pub fn status(&self) -> Status {
        let v = self.client("status").call("status", json!({})).expect("status");
        serde_json::from_value(v).expect("a status")
    }

    pub fn counter(&self, name: &str) -> u64 {
        self.status().counters.get(name).copied().unwrap_or(0)
    }

    pub fn signal(&self, s: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), s).expect("signals");
    }

    /// Number of the daemon's thread of that name.
    pub fn thread(&self, name: &str) -> i32 {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("proc");
        let of = |t: std::io::Result<std::fs::DirEntry>| {
            let path = t.expect("a thread").path();
            let comm = std::fs::read_to_string(path.join("comm")).ok()?;
            (comm.trim() == name).then(|| path.file_name()?.to_str()?.parse().ok()).flatten()
        };
        threads.into_iter().find_map(of).expect("that thread")
    }

    /// Waits until the process is stopped: a signal is not yet obeyed when it has been sent.
    pub fn wait_stopped(&self) {
        let stat = format!("/proc/{}/stat", self.child.id());
        wait_for("the daemon to stop", || {
            let text = std::fs::read_to_string(&stat).expect("proc");
            // The state follows the name, which ends with the last parenthesis.
            text.rsplit(") ").next().is_some_and(|t| t.starts_with('T')).then_some(())
        });
    }

    pub fn wait_exit(&mut self) -> ExitStatus {
        wait_for("the daemon's end", || self.child.try_wait().expect("waits"))
    }

    /// The plant's last accepted command, from outside the process.
    pub fn plant(&self) -> Reading {
        Probe::open(&self.dir.path().join("probe")).expect("a probe").read()
    }

    /// That of one of several devices.
    pub fn plant_of(&self, role: &str) -> Reading {
        Probe::open(&self.dir.path().join(format!("probe-{role}"))).expect("a probe").read()
    }

    /// What `status` says of one of several devices.
    pub fn device(&self, role: &str) -> DeviceStatus {
        let found = self.status().devices.into_iter().find(|d| d.role == role);
        found.unwrap_or_else(|| panic!("no device {role}"))
    }

    /// Waits for the device to run.
    pub fn wait_device(&self) {
        wait_for("the device", || {
            let s = self.status().state?;
            ["idle", "armed", "rendering"].contains(&s.state.as_str()).then_some(())
        });
    }

    pub fn ctl(&self, args: &[&str]) -> std::process::Output {
        Command::new(HAPTICD)
            .args(["ctl", "--socket"])
            .arg(self.socket())
            .args(args)
            .stdin(Stdio::null())
            .output()
            .expect("runs")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of the daemon ---\n{}", self.log());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Bytes in, lines out.
pub struct Raw {
    pub stream: UnixStream,
    reader: BufReader<UnixStream>,
}

impl Raw {
    pub fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).and_then(|()| self.stream.write_all(b"\n")).expect("writes");
    }

    /// The next line, `None` at the end.
    pub fn line(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line}: {e}"))),
            // A peer that closes with unread input resets the connection.
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(e) => panic!("no answer: {e}"),
        }
    }

    /// The next answer; what is told of a load's or a build's progress meanwhile is passed over.
    pub fn answer(&mut self) -> Value {
        loop {
            let line = self.line().expect("an answer");
            if line["method"] != "progress" {
                return line;
            }
        }
    }

    /// Sends a line and reads its answer.
    pub fn ask(&mut self, text: &str) -> Value {
        self.send(text);
        self.answer()
    }

    pub fn hello(&mut self) -> Value {
        self.ask(r#"{"jsonrpc":"2.0","id":0,"method":"hello","params":{"min":1,"max":1,"client":"raw"}}"#)
    }
}

/// Error code of an answer.
pub fn code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or(0)
}

/// Error code of a client's call.
pub fn refused(r: Result<Value, hapticd::control::client::ClientError>) -> i32 {
    match r {
        Err(hapticd::control::client::ClientError::Refused(e)) => e.code,
        other => panic!("not refused: {other:?}"),
    }
}

/// A file with a cube of that edge (m) about the origin, as binary STL in metres.
pub fn cube_file(dir: &std::path::Path, edge: f64) -> std::fs::File {
    let mesh = shapes::cuboid(hapticd::geometry::Vec3::repeat(edge));
    let path = dir.join(format!("cube-{edge}.stl"));
    std::fs::write(&path, shapes::write_stl(&mesh)).expect("writes");
    std::fs::File::open(path).expect("opens")
}

/// Loads a cube and puts it into the scene as `name`; returns its identifier.
pub fn add_cube(c: &mut Client, dir: &std::path::Path, name: &str, more: &Value) -> u32 {
    let file = cube_file(dir, 0.04);
    let load = json!({"name": format!("{name}-mesh"), "source": "descriptor", "format": "stl", "unit": "m",
        "resolution": {"longest": 32}});
    c.call_with_file("mesh.load", load, &file).expect("loads");
    c.call("material.set", json!({"name": format!("{name}-mat"), "stiffness": 500.0, "damping": 1.0}))
        .expect("a material");
    let mut object = json!({"name": name, "mesh": format!("{name}-mesh"), "material": format!("{name}-mat")});
    if let (Some(o), Some(m)) = (object.as_object_mut(), more.as_object()) {
        o.extend(m.clone());
    }
    let made = c.call("object.create", object).expect("an object");
    made["created"][0]["id"].as_u64().expect("an identifier") as u32
}
