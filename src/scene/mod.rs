//! Scenes: the editable model (control side), its compilation into immutable snapshots, and the exchange that
//! hands snapshots to the servo.

pub mod compile;
pub mod exchange;
pub mod model;
pub mod snapshot;
