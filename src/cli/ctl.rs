//! `hapticd ctl`.

use std::process::ExitCode;

/// Arguments of `hapticd ctl`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs `hapticd ctl`.
///
/// # Errors
/// A message for the user.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args {} = args;
    anyhow::bail!("`hapticd ctl` is not built yet")
}
