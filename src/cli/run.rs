//! `hapticd run`: the service.

use super::exit;
use crate::config::Config;
use crate::control::cpu::Cpus;
use crate::control::supervisor::{self, Engine, Outcome, Started};
use crate::control::throttle::LogThrottle;
use crate::device::registry::{OpenOptions, Registry};
use crate::device::simulated::HandScript;
use crate::scene::model::{Limits, Scene};
use anyhow::Context;
use std::io::IsTerminal;
use std::path::PathBuf;
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
    start_log();
    let config = match &args.config {
        Some(path) => Config::load(path)?,
        None => Config::default(),
    };
    let scene = match &config.scene.file {
        Some(path) => crate::scene::file::load(path, Limits::default())?.scene,
        None => Scene::default(),
    };
    let engine = Local::new(&config)?;
    Ok(match supervisor::run(&config, scene, Box::new(engine), args.debug_requests)? {
        Outcome::Clean => exit::OK,
        Outcome::Panicked => {
            eprintln!("hapticd: a thread panicked; the force was taken away");
            exit::FAILED
        }
        Outcome::Unconfirmed => {
            eprintln!("hapticd: the servo did not confirm zero force; run `hapticd zero`");
            exit::FAILED
        }
    })
}

/// systemd adds the time itself; elsewhere a line without time is of little use.
fn start_log() {
    let filter = EnvFilter::try_from_env("HAPTICD_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let colour = std::io::stderr().is_terminal();
    let lines = fmt::layer().with_writer(std::io::stderr).with_target(false).with_ansi(colour);
    let lines = match std::env::var_os("JOURNAL_STREAM") {
        Some(_) => lines.without_time().boxed(),
        None => lines.boxed(),
    };
    let log = tracing_subscriber::registry().with(lines.with_filter(LogThrottle::default().and(filter)));
    let _ = log.try_init();
}

/// The device of the configuration and its servo.
struct Local {
    config: Config,
    registry: Registry,
    hand: HandScript,
}

impl Local {
    fn new(config: &Config) -> anyhow::Result<Self> {
        let registry = match &config.device.profiles {
            Some(dir) => Registry::with_dir(dir)?,
            None => Registry::builtin(),
        };
        let hand = match &config.device.hand {
            Some(path) => {
                let text = crate::config::read_text(path)
                    .with_context(|| format!("device.hand: cannot read {}", path.display()))?;
                HandScript::parse_named(&path.display().to_string(), &text)?
            }
            None => HandScript::default(),
        };
        Ok(Self { config: config.clone(), registry, hand })
    }
}

impl Engine for Local {
    fn start(&mut self, cpus: &Cpus) -> Result<Started, String> {
        let options = OpenOptions {
            hand: self.hand.clone(),
            seed: Some(self.config.device.seed),
            probe_path: self.config.device.probe.clone(),
            ..OpenOptions::default()
        };
        let name = &self.config.device.name;
        let device = self.registry.open(name, &options).map_err(|e| e.to_string())?;
        let _ = (device, cpus);
        Err("not yet".into())
    }
}
