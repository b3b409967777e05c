//! The packet side of each kind of device: [`crate::device::io::port::Port`] over [`crate::device::wire`].

pub mod falcon;
pub mod hid_haptic;
pub mod spacemouse;
