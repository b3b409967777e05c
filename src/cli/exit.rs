//! Exit codes of the program, the same for every subcommand.

use crate::device::DeviceError;
use std::process::ExitCode;

/// Arguments that cannot be used together, or with what they name: code 2, as what clap itself refuses.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

impl From<DeviceError> for Usage {
    fn from(e: DeviceError) -> Self {
        // It repeats a name that was given.
        Self(super::out::word(&e.to_string()).into_owned())
    }
}

/// Done.
pub const OK: ExitCode = ExitCode::SUCCESS;
/// Failed; the reason stands on stderr.
pub const FAILED: ExitCode = ExitCode::FAILURE;

/// Code for wrong arguments (clap uses it by itself).
pub const USAGE: u8 = 2;
/// Code for "done, but something was found to be degraded, was refused, or ended in a fault".
pub const FINDINGS: u8 = 3;

/// Code of `run` when it ended and nobody has confirmed that the force is zero.
pub const UNCONFIRMED: u8 = 4;

/// Code of `run` for a configuration that cannot be used: EX_CONFIG of sysexits.h. The unit does not start it again.
pub const CONFIG: u8 = 78;

/// [`FINDINGS`] as an exit code.
#[must_use]
pub fn findings() -> ExitCode {
    ExitCode::from(FINDINGS)
}
