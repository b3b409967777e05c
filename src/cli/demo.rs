//! `hapticd demo`.

pub mod hand;
pub mod scene;
pub mod stats;

use std::process::ExitCode;

/// Arguments of `hapticd demo`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs `hapticd demo`.
///
/// # Errors
/// A message for the user.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args {} = args;
    anyhow::bail!("`hapticd demo` is not built yet")
}
