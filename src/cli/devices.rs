//! `hapticd devices`.

use std::process::ExitCode;

/// Arguments of `hapticd devices`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs `hapticd devices`.
///
/// # Errors
/// A message for the user.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args {} = args;
    anyhow::bail!("`hapticd devices` is not built yet")
}
