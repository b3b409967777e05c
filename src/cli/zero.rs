//! `hapticd zero`.

use std::process::ExitCode;

/// Arguments of `hapticd zero`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs `hapticd zero`.
///
/// # Errors
/// A message for the user.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args {} = args;
    anyhow::bail!("`hapticd zero` is not built yet")
}
