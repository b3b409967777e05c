//! The servo: one pinned real-time thread that turns device samples into forces.
//!
//! [`tick`] is pure (its clock, device and scene come in from outside); [`run`] is the thread around it;
//! [`handle`] is the control side's whole view of it.

mod adopt;
pub mod arming;
pub mod clock;
mod config;
mod coupled;
mod delay;
mod energy;
mod fading;
mod flags;
pub mod handle;
pub mod heap;
pub mod lapse;
pub mod mapping;
pub mod motion;
mod own;
pub mod query;
pub mod record;
pub mod rt;
pub mod run;
pub mod schedule;
mod sense;
mod slots;
pub mod state;
pub mod tick;
pub mod velocity;
pub mod view;
mod wrist;
