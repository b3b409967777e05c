//! The command line: one file per subcommand, each with `Args` and `run`. What they print goes through [`out`].

#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod bring_up;
pub mod calibrate;
pub mod clustering;
pub mod ctl;
pub mod demo;
pub mod devices;
pub mod division;
pub mod doctor;
pub mod evaluate;
pub mod exit;
pub mod fields;
pub mod inspect;
pub mod law;
pub mod numbers;
pub mod out;
pub mod outputs;
pub mod plot;
pub mod progress;
pub mod replay;
pub mod run;
pub mod settings;
pub mod simulate;
pub mod simulation;
pub mod stability;
pub mod zero;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Exit codes:
  0  done
  1  failed; the reason stands on stderr
  2  wrong arguments
  3  done, but degraded (doctor), refused (inspect --strict) or ended in a fault (simulate)
  4  run: it has ended, and nobody has confirmed that the force is zero
  78 run: the configuration, or a file that it names, cannot be used

First steps:
  hapticd demo      touch a mesh on the simulated device, no hardware needed
  hapticd doctor    what this machine lacks for real-time work, and the command that cures each
  hapticd run       the service; `hapticd ctl` talks to it";

/// Real-time haptic rendering: touch virtual objects through force-feedback devices, a thousand times a second.
///
/// All quantities are SI (m, rad, s, N, N·m, kg), frames are right-handed, quaternions are x y z w.
#[derive(Debug, Parser)]
#[command(name = "hapticd", version, after_help = AFTER_HELP, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
#[non_exhaustive]
pub enum Command {
    /// Start the service: servo thread, control socket, motion and telemetry
    Run(run::Args),
    /// Talk to a running service: load meshes, arm, watch forces, edit the scene
    Ctl(ctl::Args),
    /// Build and touch a keyed pin and its hole on the simulated device; print a summary, write a plot
    Demo(demo::Args),
    /// Run a scene and a scripted hand on the virtual clock, faster than real time, bit for bit repeatable
    Simulate(simulate::Args),
    /// Check a mesh file: repairs, holes, components, volume, inertia
    Inspect(inspect::Args),
    /// Run a contact method along recorded pose paths and compare with exact answers
    Evaluate(evaluate::Args),
    /// Measure what each device renders stably on its simulation: stiffness, Z-width, energy bound
    Stability(stability::Args),
    /// Plot a recording: force, torque, penetration and compute time over time
    Plot(plot::Args),
    /// Check this machine for real-time work; name what is degraded and its cure
    Doctor(doctor::Args),
    /// Bring an attached device from plugged in to ready, and show where its tool point is; without force
    Calibrate(bring_up::Args),
    /// Open a device and command zero force
    Zero(zero::Args),
    /// List the known devices
    Devices(devices::Args),
}

impl Command {
    /// Runs the subcommand.
    ///
    /// # Errors
    /// A message for the user; `main` prints it with its chain of causes.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Run(a) => run::run(a),
            Self::Ctl(a) => ctl::run(a),
            Self::Demo(a) => demo::run(a),
            Self::Simulate(a) => simulate::run(a),
            Self::Inspect(a) => inspect::run(a),
            Self::Evaluate(a) => evaluate::run(a),
            Self::Stability(a) => stability::run(a),
            Self::Plot(a) => plot::run(a),
            Self::Doctor(a) => doctor::run(a),
            Self::Calibrate(a) => bring_up::run(a),
            Self::Zero(a) => zero::run(a),
            Self::Devices(a) => devices::run(a),
        }
    }
}

/// Parses the process's arguments, runs, and maps errors to exit codes.
#[must_use]
pub fn main() -> ExitCode {
    let matches = numbers::negative(Cli::command()).try_get_matches();
    let cli = match matches.and_then(|m| Cli::from_arg_matches(&m)) {
        Ok(cli) => cli,
        Err(e) if e.use_stderr() => {
            // It repeats what was given.
            out::note(e.render().to_string().trim_end());
            return ExitCode::from(exit::USAGE);
        }
        // Help and version, in colour on a terminal.
        Err(e) => return if e.print().is_ok() { exit::OK } else { exit::FAILED },
    };
    match cli.command.run() {
        Ok(code) => code,
        Err(error) => {
            // A closed pipe (`hapticd ... | head`) is not a failure worth a message.
            if is_broken_pipe(&error) {
                return exit::OK;
            }
            out::note(format_args!("hapticd: {}", out::causes(&error)));
            if error.downcast_ref::<exit::Usage>().is_some() {
                ExitCode::from(exit::USAGE)
            } else {
                exit::FAILED
            }
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|e| e.downcast_ref::<out::Unwritable>())
        .any(|e| e.0.kind() == std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::CommandFactory;

    #[test]
    fn the_argument_tree_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_subcommand_says_what_it_does() {
        for sub in Cli::command().get_subcommands() {
            let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(about.len() > 15, "{} has no about text", sub.get_name());
        }
    }
}
