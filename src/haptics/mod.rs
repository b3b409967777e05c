//! The control law: pure functions of (state, contact, sample, dt). Real-time safe throughout.

pub mod braking;
pub mod coupling;
pub mod effects;
pub mod friction;
pub mod grip;
pub mod guard;
pub mod proxy;
pub mod texture;
