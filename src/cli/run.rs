//! `hapticd run`.

use std::process::ExitCode;

/// Arguments of `hapticd run`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs `hapticd run`.
///
/// # Errors
/// A message for the user.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args {} = args;
    anyhow::bail!("`hapticd run` is not built yet")
}
