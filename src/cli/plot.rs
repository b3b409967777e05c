//! `hapticd plot`.

use std::process::ExitCode;

/// Arguments of `hapticd plot`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs `hapticd plot`.
///
/// # Errors
/// A message for the user.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args {} = args;
    anyhow::bail!("`hapticd plot` is not built yet")
}
