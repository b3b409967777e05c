//! `hapticd inspect`.

use std::process::ExitCode;

/// Arguments of `hapticd inspect`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs `hapticd inspect`.
///
/// # Errors
/// A message for the user.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args {} = args;
    anyhow::bail!("`hapticd inspect` is not built yet")
}
