//! `hapticd zero`: command zero force to every configured device, whatever became of the daemon.
//!
//! `ExecStopPost=` runs it after each stop, clean or not. An attached device is opened and told zero. A simulated device lives in the daemon's process and is
//! gone with it; what another process can still see is its probe page, which gets the zero. Exit code: 0 when the
//! force is known to be zero, 1 otherwise.

use super::{exit, settings};
use crate::config::{Config, Device as DeviceConfig, Driver};
use crate::device::attached::{self, Zeroed};
use crate::device::io::scheduling::Scheduling;
use crate::device::registry::{REPLAY, Registry};
use crate::device::simulated::Probe;
use crate::geometry::pose::Wrench;
use anyhow::Context;
use nix::time::{ClockId, clock_gettime};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Arguments of `hapticd zero`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Configuration file of the daemon; without it every key has its default
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Show what the motors last accepted and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Runs `hapticd zero`.
///
/// # Errors
/// A message for the user.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let config = match &args.config {
        Some(path) => {
            Config::load(path).context("cannot tell which devices are configured, so none was zeroed")?
        }
        None => Config::default(),
    };
    if config.more.is_empty() {
        return one(&config.device, args.dry_run);
    }
    let devices: Vec<DeviceConfig> = config.devices().cloned().collect();
    let roles: Vec<String> = devices.iter().map(|d| d.role.clone()).collect();
    let each = at_once(devices, PATIENCE, move |device| one(&device, args.dry_run));
    let (mut code, mut failed) = (exit::OK, None);
    for (role, result) in roles.iter().zip(each) {
        let why = match result {
            Some(Ok(one)) => {
                code = if one == exit::OK { code } else { one };
                continue;
            }
            Some(Err(e)) => format!("{e:#}"),
            None => "it has not answered; keep a hand on the power switch".into(),
        };
        tell(format_args!("{role}: {why}"));
        failed.get_or_insert_with(|| anyhow::anyhow!("{role}: zero could not be commanded"));
    }
    failed.map_or(Ok(code), Err)
}

/// Longest wait for all devices: a service has 5 s to stop.
const PATIENCE: Duration = Duration::from_millis(4500);

/// Does that to each at the same time, so that none waits for another; `None` for those that have not ended within `patience`.
fn at_once<D: Send + 'static, R: Send + 'static>(
    all: Vec<D>,
    patience: Duration,
    act: impl Fn(D) -> R + Send + Sync + 'static,
) -> Vec<Option<R>> {
    let until = Instant::now() + patience;
    let (tell, hear) = mpsc::channel();
    let act = Arc::new(act);
    let mut results: Vec<Option<R>> = all.iter().map(|_| None).collect();
    for (i, one) in all.into_iter().enumerate() {
        let (tell, act) = (tell.clone(), act.clone());
        // Where there is no thread it is named as one that has not answered.
        let _ = std::thread::Builder::new().spawn(move || tell.send((i, act(one))));
    }
    drop(tell);
    while let Ok((i, result)) = hear.recv_timeout(until.saturating_duration_since(Instant::now())) {
        results[i] = Some(result);
    }
    results
}

/// Zero to one device.
fn one(device: &DeviceConfig, dry_run: bool) -> anyhow::Result<ExitCode> {
    let registry = Registry::with(device.profiles.as_deref())?;
    let name = &device.name;
    registry.knows(name)?;
    if name == REPLAY {
        tell(format_args!("{name}: plays a recording back and has no motors: nothing to zero"));
        return Ok(exit::OK);
    }
    if device.driver == Driver::Attached {
        return attached(&registry, device, dry_run);
    }
    match &device.probe {
        None => {
            tell(format_args!(
                "{name}: simulated, without a probe page: it ended with the daemon, nothing to zero"
            ));
            Ok(exit::OK)
        }
        Some(path) => page(name, path, dry_run),
    }
}

/// A real device is opened, told zero and closed again.
fn attached(registry: &Registry, device: &DeviceConfig, dry_run: bool) -> anyhow::Result<ExitCode> {
    let name = &device.name;
    if dry_run {
        tell(format_args!(
            "{name}: attached; what its motors get cannot be asked, so its force is not known"
        ));
        return Ok(exit::FAILED);
    }
    let options = settings::attached(device, Scheduling::default());
    match attached::zero(registry.profile(name)?, &options)? {
        Zeroed::Commanded(packets) => {
            tell(format_args!("{name}: zero commanded, {packets} packets taken by the device"));
            Ok(exit::OK)
        }
        Zeroed::NotThere => {
            tell(format_args!("{name}: not plugged in: nothing to zero"));
            Ok(exit::OK)
        }
        Zeroed::Idle(why) => {
            tell(format_args!("{name}: holds no force: {why}"));
            Ok(exit::OK)
        }
        Zeroed::Failed(why) => {
            tell(format_args!("{name}: zero could not be commanded: {why}; keep a hand on the power switch"));
            Ok(exit::FAILED)
        }
    }
}

/// Zero first, words after: nothing that can fail or block stands before the command.
fn page(name: &str, path: &Path, dry_run: bool) -> anyhow::Result<ExitCode> {
    if !path.exists() {
        tell(format_args!(
            "{name}: simulated, no probe page at {}: never opened, nothing to zero",
            path.display()
        ));
        return Ok(exit::OK);
    }
    let probe = Probe::open(path)?;
    let now = now_ns()?;
    let before = probe.read();
    if !dry_run {
        probe.record_zero(now);
    }
    let after = probe.read();
    tell(format_args!(
        "{name}: simulated, probe page {}: command {} of process {}, {}, {} ms ago{}",
        path.display(),
        before.count,
        before.pid,
        shown(&before.wrench),
        now.saturating_sub(before.time_ns) / 1_000_000,
        if before.wrench_at(now) == before.wrench { "" } else { " (the device has let go since)" },
    ));
    if dry_run {
        return Ok(if before.wrench_at(now) == Wrench::ZERO { exit::OK } else { exit::FAILED });
    }
    if after.is_zero() && !Probe::is_held(path).unwrap_or(false) {
        tell(format_args!("{name}: zero commanded"));
        Ok(exit::OK)
    } else {
        tell(format_args!(
            "{name}: zero commanded, but process {} runs and writes to the device: stop it first, then run this again",
            after.pid
        ));
        Ok(exit::FAILED)
    }
}

/// A line for the user. Nobody may be there to read it, which is no failure: the exit code tells.
fn tell(text: std::fmt::Arguments<'_>) {
    let _ = super::out::line(text);
}

fn shown(w: &Wrench) -> String {
    if *w == Wrench::ZERO {
        return "zero".into();
    }
    format!("{:.3} N, {:.4} N·m", w.force.norm(), w.torque.norm())
}

/// Now on the servo's clock.
fn now_ns() -> anyhow::Result<u64> {
    let t = clock_gettime(ClockId::CLOCK_MONOTONIC).context("clock")?;
    Ok(u64::try_from(t.tv_sec()).unwrap_or(0) * 1_000_000_000 + u64::try_from(t.tv_nsec()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::pose::Vec3;

    fn args(dir: &Path, config: &str, dry_run: bool) -> Args {
        let file = dir.join("hapticd.toml");
        std::fs::write(&file, config).unwrap();
        Args { config: Some(file), dry_run }
    }

    /// The page that a killed daemon leaves says how hard it pushed; afterwards it says zero.
    #[test]
    fn the_page_of_a_dead_daemon_is_zeroed() {
        let dir = tempfile::tempdir().unwrap();
        let page = dir.path().join("probe");
        let probe = Probe::create(&page).unwrap();
        let push = Wrench { force: Vec3::new(1.0, 2.0, 2.0), torque: Vec3::zeros() };
        probe.record(now_ns().unwrap(), &push);
        drop(probe);
        let config = "[device]\nprobe = \"probe\"\n";
        assert_eq!(run(args(dir.path(), config, true)).unwrap(), exit::FAILED);
        assert_eq!(Probe::open(&page).unwrap().read().wrench, push, "a dry run changes nothing");
        assert_eq!(run(args(dir.path(), config, false)).unwrap(), exit::OK);
        let after = Probe::open(&page).unwrap().read();
        assert!(after.is_zero());
        assert_eq!((after.zeros, after.since_zero), (1, 0));
        assert_eq!(run(args(dir.path(), config, true)).unwrap(), exit::OK);
    }

    /// 0 says that the force is known to be zero.
    #[test]
    fn a_real_device_s_force_is_not_known_without_telling_it_zero() {
        let dir = tempfile::tempdir().unwrap();
        let config = "[device]\nname = \"novint-falcon\"\ndriver = \"attached\"\nserial = \"of no falcon\"\n";
        assert_eq!(run(args(dir.path(), config, true)).unwrap(), exit::FAILED);
        assert_eq!(run(args(dir.path(), config, false)).unwrap(), exit::OK, "not plugged in");
    }

    /// One that hangs costs the others nothing, wherever it stands in the list.
    #[test]
    fn no_device_waits_for_one_that_hangs() {
        use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
        for hangs in 0..3 {
            let done = Arc::new(AtomicUsize::new(0));
            let counted = done.clone();
            let (release, held) = mpsc::channel::<()>();
            let held = std::sync::Mutex::new(held);
            let act = move |i: usize| {
                if i == hangs {
                    let _ = held.lock().map(|h| h.recv());
                }
                counted.fetch_add(1, SeqCst);
                i
            };
            let results = at_once(vec![0, 1, 2], Duration::from_secs(2), act);
            let want: Vec<Option<usize>> = (0..3).map(|i| (i != hangs).then_some(i)).collect();
            assert_eq!((results, done.load(SeqCst)), (want, 2));
            drop(release);
        }
    }

    /// Each of several, also where one cannot be reached.
    #[test]
    fn every_device_gets_its_zero_whatever_becomes_of_another() {
        let dir = tempfile::tempdir().unwrap();
        let push = Wrench { force: Vec3::new(1.0, 2.0, 2.0), torque: Vec3::zeros() };
        let push_all = |names: &[&str]| {
            for name in names {
                let probe = Probe::create(&dir.path().join(name)).unwrap();
                probe.record(now_ns().unwrap(), &push);
            }
        };
        let zero = |name: &str| Probe::open(&dir.path().join(name)).unwrap().read().is_zero();
        let both = "[[device]]\nrole = \"a\"\nprobe = \"pa\"\n[[device]]\nrole = \"b\"\nprobe = \"pb\"\n";
        push_all(&["pa", "pb"]);
        assert_eq!(run(args(dir.path(), both, true)).unwrap(), exit::FAILED);
        assert_eq!(run(args(dir.path(), both, false)).unwrap(), exit::OK);
        assert!(zero("pa") && zero("pb"));
        std::fs::write(dir.path().join("rubbish"), vec![7u8; 8192]).unwrap();
        push_all(&["pa", "pb"]);
        let broken = "[[device]]\nrole = \"x\"\nprobe = \"rubbish\"\n";
        for text in [format!("{broken}{both}"), format!("{both}{broken}")] {
            push_all(&["pa", "pb"]);
            assert!(run(args(dir.path(), &text, false)).is_err());
            assert!(zero("pa") && zero("pb"), "{text}");
        }
    }

    #[test]
    fn nothing_to_zero_is_no_failure_and_rubbish_is() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(run(args(dir.path(), "", false)).unwrap(), exit::OK);
        let replay = "[device]\nname = \"replay\"\nrecording = \"absent\"\n";
        assert_eq!(run(args(dir.path(), replay, false)).unwrap(), exit::OK, "it has no motors");
        assert_eq!(run(args(dir.path(), "[device]\nprobe = \"absent\"\n", false)).unwrap(), exit::OK);
        std::fs::write(dir.path().join("rubbish"), vec![7u8; 8192]).unwrap();
        let error = run(args(dir.path(), "[device]\nprobe = \"rubbish\"\n", false)).unwrap_err();
        assert!(error.to_string().contains("magic"), "{error}");
        let error = run(args(dir.path(), "[device]\nname = \"omega\"\n", false)).unwrap_err();
        assert!(error.to_string().contains("novint-falcon"), "{error}");
        assert!(run(args(dir.path(), "[device]\nnam = 3\n", false)).is_err());
    }
}
