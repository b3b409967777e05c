//! Devices whose I/O may block: their own thread, and what it shares with the servo.
//!
//! ```text
//! servo thread                              I/O thread
//! Front::read   <- Mailbox of readings   <- Runner: Link -> bytes -> Port (packets)
//! Front::write  -> Mailbox of commands   -> Runner: Port (packets) -> bytes -> Link
//! ```
//!
//! The tick never blocks on the device. [`runner::Runner`] knows no thread and no clock of its own: the very same code runs
//! in the real thread ([`thread`]) and, over an emulated bus, on a virtual clock.

mod debt;
pub mod front;
pub mod link;
pub mod mailbox;
pub(in crate::device) mod newest;
pub mod phase;
pub mod port;
mod replies;
mod run;
pub mod runner;
pub mod scheduling;
pub mod seldom;
pub mod shared;
pub mod thread;

use super::profile::Profile;
use std::io;
use std::sync::Arc;

/// A device behind an I/O thread of its own, which begins at once: the servo's end of it. Not real-time safe.
///
/// # Errors
/// When no thread can be started.
pub fn start(
    profile: Arc<Profile>,
    connector: Box<dyn link::Connector>,
    port: Box<dyn port::Port>,
    scheduling: scheduling::Scheduling,
) -> io::Result<front::Front> {
    let shared = Arc::new(shared::Shared::default());
    let runner = runner::Runner::new(connector, port, shared.clone());
    let thread = thread::IoThread::start(runner, shared.clone(), scheduling)?;
    Ok(front::Front::new(profile, shared, Some(thread)))
}

#[cfg(test)]
mod tests;
