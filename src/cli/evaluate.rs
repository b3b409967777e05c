//! `hapticd evaluate`.

use std::process::ExitCode;

/// Arguments of `hapticd evaluate`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs `hapticd evaluate`.
///
/// # Errors
/// A message for the user.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args {} = args;
    anyhow::bail!("`hapticd evaluate` is not built yet")
}
