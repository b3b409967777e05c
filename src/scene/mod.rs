//! Scenes: the editable model (control side), its compilation into immutable snapshots, and the exchange that
//! hands snapshots to the servo.

mod atomic;
pub(crate) mod broad;
pub mod cache;
pub mod compile;
pub mod exchange;
#[cfg(test)]
mod exchange_tests;
pub mod file;
pub mod history;
pub mod model;
pub mod motion;
pub mod snapshot;
