//! `hapticd`: a real-time haptic rendering daemon for Linux haptic workstations.
//!
//! A pinned, high-priority servo thread reads a force-feedback device a thousand times a second, runs a
//! time-budgeted contact query against a scene snapshot and commands forces. A tokio control plane edits the
//! scene lock-free over a Unix socket and UDP.
//!
//! # Module graph
//!
//! An arrow means "may use". `tests/architecture.rs` fails on any other edge.
//!
//! ```text
//! contact  -> geometry
//! haptics  -> contact, geometry
//! scene    -> contact, geometry, config::{source, read_text, open_regular} (scene files)
//! device   -> geometry::pose
//! servo    -> haptics, contact, geometry::pose, scene::{snapshot, exchange, broad}, device
//! recording -> servo::record
//! control  -> servo::{handle, record}, scene, geometry::{pose, import, field}, device::{registry, profile}, protocol, config, recording
//! cli      -> everything above
//! ```

#[cfg(not(target_os = "linux"))]
compile_error!(
    "hapticd drives Linux devices and uses Linux real-time scheduling; no other system is supported"
);

pub mod cli;
pub mod config;
pub mod contact;
pub mod control;
pub mod device;
pub mod geometry;
pub mod haptics;
pub mod protocol;
pub mod recording;
pub mod scene;
pub mod servo;
