//! `hapticd doctor`: what this machine lacks for real-time work, and the command that cures each.

mod check;
mod cpu;
mod devices;
mod kernel;
mod limits;
mod state;
mod wake;

pub use check::{Check, Root, Status};
pub use limits::{FifoAttempt, try_fifo};
pub use state::{Daemon, Told};
pub use wake::{BUCKETS_US, Wake, measure as measure_wake};

use crate::device::registry::Registry;
use anyhow::Context as _;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Arguments of `hapticd doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print one JSON object instead of lines
    #[arg(long)]
    pub json: bool,
    /// Measure wake-ups for this long; 0 leaves the measurement out
    #[arg(long, value_name = "N", default_value_t = 3.0, value_parser = super::numbers::between(0.0, 3600.0))]
    pub seconds: f64,
    /// Check this device (a name of `hapticd devices`), attached or not; may be given several times
    #[arg(long, value_name = "NAME")]
    pub device: Vec<String>,
    /// Directory of further device profiles
    #[arg(long, value_name = "DIR")]
    pub profiles: Option<PathBuf>,
    /// Ask the daemon on this control socket what it knows of the devices; without it /run/hapticd and $XDG_RUNTIME_DIR/hapticd are tried in turn
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Read /proc, /sys, /dev and /boot below this directory (for tests and for looking at another machine's copy)
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    pub root: PathBuf,
}

/// Everything but the wake-up measurement, in the order of printing.
pub fn checks(
    root: &Root,
    fifo: &FifoAttempt,
    registry: &Registry,
    wanted: &[String],
    daemon: &Daemon,
) -> Vec<Check> {
    let mut all = vec![
        limits::scheduling(fifo),
        limits::realtime_priority(root),
        limits::locked_memory(root),
        kernel::cgroup(root, fifo),
        kernel::rt_runtime(root),
        kernel::preemption(root),
        cpu::affinity(root),
        cpu::isolation(root),
        kernel::fair_server(root, cpu::servo_cpu(root)),
        cpu::governor(root),
        cpu::dma_latency(root),
        cpu::throttling(root),
        cpu::clocksource(root),
        cpu::simd(),
    ];
    all.extend(devices::checks(root, registry, wanted, daemon));
    all
}

/// Runs `hapticd doctor`.
///
/// # Errors
/// A directory of profiles that cannot be used, or output that cannot be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let registry = Registry::with(args.profiles.as_deref())?;
    for name in &args.device {
        registry.profile(name).map_err(super::exit::Usage::from)?;
    }
    let root = Root::new(&args.root);
    // The daemon here knows nothing of another machine's devices.
    let daemon = match (&args.socket, args.root.as_os_str() == "/") {
        (None, false) => Daemon::Silent("another machine's files are looked at".into()),
        (socket, _) => Daemon::ask(socket.as_deref()),
    };
    let mut all = checks(&root, &try_fifo(limits::PRIORITY), &registry, &args.device, &daemon);
    let wake = if args.seconds > 0.0 {
        if !args.json {
            super::out::note(format_args!("measuring wake-ups for {} s ...", args.seconds));
        }
        let wake = measure_wake(Duration::from_secs_f64(args.seconds), cpu::servo_cpu(&root))
            .context("cannot measure wake-ups")?;
        all.push(wake.check());
        Some(wake)
    } else {
        None
    };
    let degraded = all.iter().filter(|c| c.status == Status::Degraded).count();
    if args.json {
        super::out::json(&json(&all, wake.as_ref()), false)?;
    } else {
        super::out::text(text(&all, wake.as_ref()))?;
    }
    Ok(if degraded > 0 { super::exit::findings() } else { super::exit::OK })
}

fn json(all: &[Check], wake: Option<&Wake>) -> serde_json::Value {
    serde_json::json!({
        "version": env!("CARGO_PKG_VERSION"),
        "ok": all.iter().all(|c| c.status != Status::Degraded),
        "checks": all,
        "wake": wake,
    })
}

fn text(all: &[Check], wake: Option<&Wake>) -> String {
    let mut out = String::new();
    let width = all.iter().map(|c| c.name.chars().count()).max().unwrap_or(0);
    for check in all {
        let _ = writeln!(out, "{:<9} {:<width$}  {}", check.status.to_string(), check.name, check.why);
        if let Some(cure) = &check.cure {
            let _ = writeln!(out, "{:9} {:width$}  cure: {cure}", "", "");
        }
    }
    if let Some(wake) = wake {
        out.push('\n');
        out.push_str(&wake.histogram_text());
    }
    let degraded = all.iter().filter(|c| c.status == Status::Degraded).count();
    let unknown = all.iter().filter(|c| c.status == Status::Unknown).count();
    let _ = match (degraded, unknown) {
        (0, 0) => writeln!(out, "\nAll checks passed."),
        (0, n) => writeln!(out, "\nNothing degraded; {n} could not be found out."),
        (n, _) => writeln!(
            out,
            "\n{n} of {} degraded. hapticd works all the same, with late ticks now and then.",
            all.len()
        ),
    };
    out
}
