//! Recordings on request, and dumps of the last seconds before a fault, within size caps.

use super::bridge::{Bridge, Request};
use super::status::StatusBoard;
use crate::protocol::rpc::{RpcError, codes};
use crate::recording::rotate::{Caps, Rotating, prune};
use crate::recording::worker::{Sink, Worker};
use crate::recording::{ClockKind, Header, Recorder};
use crate::servo::record::TickRecord;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Records that may wait for the disk: four seconds.
const WAITING: usize = 4096;

/// Told, in words for the user, that something could not be recorded.
pub type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// The recording directory of a device.
pub struct Recordings {
    /// Which device, and its role where there are several.
    number: usize,
    role: Option<String>,
    /// Or why there is none.
    dir: Result<PathBuf, String>,
    cap: u64,
    device: String,
    scene: String,
    /// Law of the coupling.
    coupling: String,
    /// Knows the budget of a tick, which is measured when the servo starts.
    board: Arc<StatusBoard>,
    tell: Tell,
    running: Mutex<Option<(String, Arc<Mutex<State>>)>>,
}

/// A recording that was started.
enum State {
    Running(Worker),
    /// The disk failed; why.
    Failed(String),
    Over,
}

impl State {
    /// Hands a record over; what went wrong, once.
    fn offer(&mut self, record: &TickRecord) -> Option<String> {
        let Self::Running(worker) = self else { return None };
        if worker.offer(record) || worker.alive() {
            return None;
        }
        let Self::Running(worker) = std::mem::replace(self, Self::Over) else { return None };
        let why = worker.finish().err().map_or_else(|| "its thread ended".into(), |e| e.to_string());
        *self = Self::Failed(why.clone());
        Some(why)
    }
}

/// What is recorded.
#[derive(Clone, Copy, Debug)]
pub struct Recorded<'a> {
    /// Number of the device, from 0.
    pub number: usize,
    /// Name of its profile.
    pub device: &'a str,
    /// The scene that the daemon started with.
    pub scene: &'a str,
    /// Law of the coupling.
    pub coupling: &'a str,
    /// What is known of the devices and their servos.
    pub board: &'a Arc<StatusBoard>,
}

impl Recordings {
    /// Recordings of what `of` says, in `dir` of at most `cap` bytes together; an error says why there is no place for them.
    /// `tell` hears when one fails. One of several devices has a directory of its own in `dir`, so that no recording makes room
    /// by deleting another device's.
    pub fn new(dir: Result<PathBuf, String>, cap: u64, of: Recorded<'_>, tell: Tell) -> Self {
        let role = of.board.name(of.number).map(str::to_owned);
        let dir = dir.map(|dir| role.as_ref().map_or(dir.clone(), |role| dir.join(role)));
        Self {
            number: of.number,
            role,
            dir,
            cap,
            device: of.device.into(),
            scene: of.scene.into(),
            coupling: of.coupling.into(),
            board: of.board.clone(),
            tell,
            running: Mutex::new(None),
        }
    }

    fn header(&self) -> Header {
        let mut h = Header::new(&self.device, &self.scene, ClockKind::Real);
        let budget = self.board.budget(self.number);
        (h.budget_units, h.units_per_us) = (budget.units, budget.units_per_us);
        let mono = crate::servo::handle::monotonic_ns();
        h.epoch_ns = unix_ns().saturating_sub(mono);
        h.coupling.clone_from(&self.coupling);
        h.extra.extend(self.role.clone().map(|role| ("role".to_owned(), role)));
        h
    }

    /// Starts or stops recording; returns the file's name.
    ///
    /// # Errors
    /// Already on or off, no directory, or what the file system says.
    pub fn switch(&self, on: bool, bridge: &Bridge) -> Result<String, RpcError> {
        let failed = |text: String| RpcError::new(codes::REJECTED, text);
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        match (on, running.take()) {
            (true, Some(r)) if !matches!(*lock(&r.1), State::Failed(_)) => {
                let text = format!("already recording to {}", r.0);
                *running = Some(r);
                Err(failed(text))
            }
            (false, None) => Err(failed("not recording".into())),
            // Nothing runs, or what ran has failed.
            (true, _) => {
                let dir = self.dir.as_ref().map_err(|why| failed(why.clone()))?;
                let prefix = format!("run-{}", unix_ns() / 1_000_000);
                let file = self.cap.min(256 << 20) / 2;
                let caps = Caps { file_bytes: file.max(1 << 16), total_bytes: self.cap };
                let rotating =
                    Rotating::create(dir, &prefix, self.header(), caps).map_err(|e| failed(e.to_string()))?;
                let path = rotating.path().display().to_string();
                let worker = Worker::spawn(Sink::Pieces(rotating), WAITING)
                    .map_err(|e| failed(format!("no thread for the recording: {e}")))?;
                let shared = Arc::new(Mutex::new(State::Running(worker)));
                let (tap, tell) = (shared.clone(), self.tell.clone());
                let record = Box::new(move |r: &TickRecord| {
                    if let Some(why) = lock(&tap).offer(r) {
                        tell(&format!("the recording has ended: {why}"));
                    }
                });
                bridge.send(Request::Tap(self.number, Some(record)));
                *running = Some((path.clone(), shared));
                Ok(path)
            }
            (false, Some((path, shared))) => {
                bridge.send(Request::Tap(self.number, None));
                let state = std::mem::replace(&mut *lock(&shared), State::Over);
                match state {
                    State::Running(w) => drop(w.finish().map_err(|e| failed(e.to_string()))?),
                    State::Failed(why) => {
                        return Err(failed(format!("the recording had ended before: {why}")));
                    }
                    State::Over => {}
                }
                Ok(path)
            }
        }
    }

    /// Ends a running recording, if there is one.
    pub fn finish(&self, bridge: &Bridge) {
        if let Err(e) = self.switch(false, bridge) {
            tracing::debug!("{e}");
        }
    }

    /// Writes the records before a fault. Blocks; called on a thread of its own.
    pub fn dump(&self, records: &[TickRecord], fault: &str) {
        let Ok(dir) = &self.dir else { return };
        match write_dump(dir, &self.header(), records, fault, self.cap) {
            Ok(path) => tracing::info!("the seconds before the fault are in {}", path.display()),
            Err(e) => (self.tell)(&format!("no dump of the fault: {e:#}")),
        }
    }
}

/// What each of so many devices may hold of `cap` bytes. What lies in `dir` itself, where there are several, is of the time when there was
/// but one: it has a share like a device's, to which it is cut here, the oldest first.
///
/// # Errors
/// The directory cannot be read, or a file not deleted.
pub fn share(dir: &Path, cap: u64, devices: usize) -> std::io::Result<u64> {
    if devices < 2 {
        return Ok(cap);
    }
    let share = cap / (devices as u64 + 1);
    prune(dir, "mcap", share, None)?;
    let mut left = std::fs::read_dir(dir)?.flatten().map(|e| e.path());
    let some = left.any(|p| p.is_file() && p.extension().is_some_and(|e| e == "mcap"));
    Ok(if some { share } else { cap / devices as u64 })
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // It is replaced whole, so it is sound whatever panicked.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

fn write_dump(
    dir: &Path,
    header: &Header,
    records: &[TickRecord],
    fault: &str,
    cap: u64,
) -> anyhow::Result<PathBuf> {
    std::fs::create_dir_all(dir)?;
    let name = format!("fault-{}-{fault}.mcap", unix_ns() / 1_000_000);
    // Hidden until it is whole, so that nobody who waits for it reads a part; with the same ending, so that what a killed daemon leaves is
    // pruned with the rest.
    let (path, part) = (dir.join(&name), dir.join(format!(".{name}")));
    let write = || -> anyhow::Result<()> {
        let mut recorder = Recorder::create(&part, header)?;
        records.iter().try_for_each(|r| recorder.push(r))?;
        recorder.finish()?;
        Ok(std::fs::rename(&part, &path)?)
    };
    if let Err(e) = write() {
        // What there is of it would only keep the disk full.
        let _ = std::fs::remove_file(&part);
        return Err(e);
    }
    prune(dir, "mcap", cap, Some(&path))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was felt depends on the budget: a recording says with which one, that of a fault, too.
    #[test]
    fn a_recording_says_what_the_daemon_runs_with() {
        use crate::control::supervisor::{Ending, Started};
        use crate::servo::handle::{ServoConfig, channel};
        let dir = tempfile::tempdir().unwrap();
        let board = Arc::new(StatusBoard::new(&["left".into(), "right".into()]));
        let of = Recorded { number: 1, device: "d", scene: "pin.toml", coupling: "dynamic", board: &board };
        let recordings = Recordings::new(Ok(dir.path().into()), 1 << 20, of, Arc::new(|why| panic!("{why}")));
        // No servo has come yet when the recordings are made.
        let (handle, _end) = channel(ServoConfig { budget_units: 4321, ..ServoConfig::default() });
        let started = Started {
            handle,
            device: "d".into(),
            rt: vec![],
            limits: [1.0; 3],
            units_per_us: 12.5,
            join: Box::new(|| Ending::GOOD),
        };
        board.servo(1, &started);
        // It has ended when the fault is written.
        board.no_servo(1);
        recordings.dump(&[TickRecord::default()], "panic");
        let file = std::fs::read_dir(dir.path().join("right")).unwrap().next().unwrap().unwrap().path();
        let (h, _, _) = crate::recording::load(&file).unwrap();
        assert_eq!((h.budget_units, h.units_per_us), (4321, 12.5));
        assert_eq!((h.device.as_str(), h.scene.as_str(), h.coupling.as_str()), ("d", "pin.toml", "dynamic"));
        assert_eq!(h.extra["role"], "right");
    }

    #[test]
    fn a_dump_is_seen_whole_or_not_at_all() {
        use std::sync::atomic::{AtomicBool, Ordering};
        const RECORDS: usize = 20_000;
        let dir = tempfile::tempdir().unwrap();
        let left = dir.path().join(".fault-0-killed.mcap");
        std::fs::write(&left, [0; 1000]).unwrap();
        let done = AtomicBool::new(false);
        let look = || {
            let mut files = std::fs::read_dir(dir.path()).unwrap().flatten().map(|e| e.path());
            let path = files.find(|p| p.file_name().unwrap().to_string_lossy().starts_with("fault-"))?;
            Some(crate::recording::load(&path).map(|(_, records, _)| records.len()))
        };
        let (written, seen) = std::thread::scope(|s| {
            let watch = s.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let seen = look();
                    if seen.is_some() {
                        return seen;
                    }
                }
                look()
            });
            let records = vec![TickRecord::default(); RECORDS];
            let written = write_dump(dir.path(), &Header::default(), &records, "stale", 0);
            done.store(true, Ordering::Relaxed);
            (written, watch.join().unwrap())
        });
        assert!(written.unwrap().exists() && !left.exists());
        assert_eq!(seen.unwrap().unwrap(), RECORDS);
    }

    /// Whatever a single device left there: it and the devices' shares never hold more than all may.
    #[test]
    fn what_one_device_left_counts_and_is_cut_when_there_are_several() {
        let dir = tempfile::tempdir().unwrap();
        let held = || -> u64 {
            let all = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().metadata().unwrap());
            all.filter(|m| m.is_file()).map(|m| m.len()).sum()
        };
        assert_eq!(share(dir.path(), 1200, 3).unwrap(), 400, "nothing is left: all is the devices'");
        std::fs::create_dir(dir.path().join("left")).unwrap();
        std::fs::write(dir.path().join("left/run-1-0001.mcap"), [0; 500]).unwrap();
        for i in 0..12 {
            std::fs::write(dir.path().join(format!("run-{i:02}-0001.mcap")), [0; 100]).unwrap();
        }
        assert_eq!(
            (share(dir.path(), 1200, 1).unwrap(), held()),
            (1200, 1200),
            "of one device nothing changes"
        );
        let shared = share(dir.path(), 1200, 3).unwrap();
        assert_eq!((shared, held()), (300, 300));
        assert!(3 * shared + held() <= 1200);
        assert!(dir.path().join("left/run-1-0001.mcap").exists(), "a device's own are its own to cut");
        // Nothing fits any more.
        assert_eq!((share(dir.path(), 200, 3).unwrap(), held()), (66, 0));
    }
}
