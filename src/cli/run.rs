//! `hapticd run`: the service.

mod checks;
mod local;

use super::{exit, out};
use crate::config::Config;
use crate::control::cpu::Cpus;
use crate::control::log::Log;
use crate::control::supervisor::{self, Ending, Engine};
use crate::control::throttle::LogThrottle;
use crate::scene::model::Scene;
use anyhow::Context;
use local::{Local, Speed};
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tracing_subscriber::filter::FilterExt;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt};

/// Arguments of `hapticd run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Configuration file; without it every key has its default
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Serve requests that provoke faults (for tests of hapticd itself)
    #[arg(long, hide = true)]
    debug_requests: bool,
}

/// Runs `hapticd run`.
///
/// # Errors
/// A message for the user.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (config, scene, engines) = match prepare(&args) {
        Ok(ready) => ready,
        Err(error) => {
            // Another try would meet the same: a code of its own, so that the service is not started again and again.
            out::note(format_args!("hapticd: {}", out::causes(&error)));
            return Ok(ExitCode::from(exit::CONFIG));
        }
    };
    let log = start_log(&config)?;
    let (code, said) = match supervisor::run(&config, scene, engines, args.debug_requests) {
        Ok(ending) => last_words(ending),
        Err(error) => (exit::FAILED, Some(out::causes(&error))),
    };
    if let Some(said) = said {
        // Said here, where a stderr that takes nothing holds up nobody.
        let text = format!("hapticd: {said}\n");
        log.line(out::printable(&text).into_owned().into_bytes());
    }
    log.finish();
    Ok(code)
}

/// How it ended, for the exit code and the journal: a panic says nothing about the force, nor the force about a panic.
fn last_words(ending: Ending) -> (ExitCode, Option<String>) {
    const UNKNOWN: &str = "zero force was not confirmed by the servo and the device; run `hapticd zero`";
    match (ending.asked, ending.zero) {
        (true, true) => (exit::OK, None),
        (false, true) => (exit::FAILED, Some("a thread panicked; zero force was commanded".into())),
        (true, false) => (ExitCode::from(exit::UNCONFIRMED), Some(UNKNOWN.into())),
        (false, false) => {
            (ExitCode::from(exit::UNCONFIRMED), Some(format!("a thread panicked, and {UNKNOWN}")))
        }
    }
}

/// Everything that the configuration names.
fn prepare(args: &Args) -> anyhow::Result<(Config, Scene, Vec<Box<dyn Engine>>)> {
    let config = match &args.config {
        Some(path) => Config::load(path)?,
        None => Config::default(),
    };
    if let Some(socket) = &config.control.socket {
        let dir = socket.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // A directory made from a misspelt path would hide the mistake.
        anyhow::ensure!(
            dir.is_dir(),
            "control.socket: there is no directory {}; make it, or leave control.socket empty",
            dir.display()
        );
    }
    let limits = super::settings::scene(&config);
    let scene = match &config.scene.file {
        Some(path) => crate::scene::file::load(path, limits)?.scene,
        None => Scene::new(limits),
    };
    checks::together(&config, &scene)?;
    let speed = Speed::default();
    let mut engines: Vec<Box<dyn Engine>> = Vec::new();
    for ((number, device), views) in config.devices().enumerate().zip(local::views(&config)) {
        let engine = Local::new(&config, number, &scene, speed.clone(), views);
        let several = !config.more.is_empty();
        engines.push(Box::new(if several { engine.with_context(|| device.role.clone())? } else { engine? }));
    }
    Ok((config, scene, engines))
}

/// systemd adds the time itself; elsewhere a line without time is of little use.
fn start_log(config: &Config) -> anyhow::Result<Log> {
    let cpus = Cpus::divide(&config.cores()).map_err(anyhow::Error::msg)?;
    // Not by way of std's stderr: its lock would make others wait for the one who writes.
    let stderr = std::fs::File::from(std::io::stderr().as_fd().try_clone_to_owned()?);
    let log = Log::start(move || cpus.leave_servo_alone(), stderr).context("cannot start the log")?;
    let filter = EnvFilter::try_from_env("HAPTICD_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let colour = std::io::stderr().is_terminal();
    let lines = fmt::layer().with_writer(log.clone()).with_target(false).with_ansi(colour);
    let lines = match std::env::var_os("JOURNAL_STREAM") {
        Some(_) => lines.without_time().boxed(),
        None => lines.boxed(),
    };
    let throttle = LogThrottle::telling(log.clone());
    let _ = tracing_subscriber::registry().with(lines.with_filter(throttle.and(filter))).try_init();
    Ok(log)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The one number that the configuration names holds for the meshes, too.
    #[test]
    fn the_meshes_of_the_daemon_s_scene_have_the_memory_that_is_configured() {
        use crate::geometry::{field::build::FieldParams, shapes};
        use crate::scene::model::{Edit, GeometrySpec, SourceMesh};
        let dir = tempfile::tempdir().unwrap();
        let (file, start) = (dir.path().join("c.toml"), dir.path().join("scene.toml"));
        std::fs::write(&start, "").unwrap();
        // Of 20,480 and of 81,920 triangles: half a MiB, and two.
        let load = |scene: &Scene, level| {
            let mesh = SourceMesh::new(shapes::icosphere(0.01, level), "ball");
            let spec = GeometrySpec { mesh, params: FieldParams::default(), method: None, hold_thin: false };
            scene.apply(0, &[Edit::AddGeometry { name: None, spec, persistent: false }]).map(drop)
        };
        for from in [String::new(), format!("file = {start:?}\n")] {
            for (mib, fits) in [(1, false), (3, true)] {
                std::fs::write(&file, format!("[scene]\nmemory_cap_mb = {mib}\n{from}")).unwrap();
                let args = Args { config: Some(file.clone()), debug_requests: false };
                let (_, scene, _) = prepare(&args).unwrap();
                load(&scene, 5).unwrap();
                assert_eq!(load(&scene, 6).is_ok(), fits, "{mib} MiB {from}");
            }
        }
    }

    #[test]
    fn an_end_without_confirmed_zero_has_a_code_of_its_own_and_a_panic_does_not_hide_it() {
        let words = |asked, zero| last_words(Ending { asked, zero });
        assert_eq!(words(true, true), (exit::OK, None));
        for (asked, zero) in [(true, false), (false, false), (false, true)] {
            let (code, said) = words(asked, zero);
            let said = said.expect("a word about it");
            assert_eq!(code, if zero { exit::FAILED } else { ExitCode::from(exit::UNCONFIRMED) });
            assert_eq!(said.contains("panicked"), !asked, "{said}");
            assert_eq!(said.contains("hapticd zero"), !zero, "{said}");
        }
    }
}
