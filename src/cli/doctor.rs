//! `hapticd doctor`.

use std::process::ExitCode;

/// Arguments of `hapticd doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs `hapticd doctor`.
///
/// # Errors
/// A message for the user.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args {} = args;
    anyhow::bail!("`hapticd doctor` is not built yet")
}
