//! The tokio control plane: supervisor, socket server, motion and telemetry over UDP, scene service.
//!
//! Nothing here runs on the servo's core. The servo is reached through [`servo::handle`](crate::servo::handle)
//! only, and only from the bridge's thread.

pub mod bridge;
mod ceiling;
pub mod client;
pub mod cpu;
pub mod ipc;
mod keeper;
pub mod lines;
pub mod lobby;
pub mod log;
pub mod metrics;
pub mod motion;
pub mod names;
pub mod outbox;
pub mod peer;
pub(crate) mod places;
pub mod recorder;
pub mod scene;
pub mod session;
pub mod signals;
pub mod socket;
pub mod status;
pub mod supervisor;
pub mod throttle;
pub mod udp;
mod watchdog;
