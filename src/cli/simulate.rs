//! `hapticd simulate`.

use std::process::ExitCode;

/// Arguments of `hapticd simulate`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs `hapticd simulate`.
///
/// # Errors
/// A message for the user.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args {} = args;
    anyhow::bail!("`hapticd simulate` is not built yet")
}
