//! Devices made of software, byte for byte: they answer packets as the published sources say that the hardware does, on a bus
//! that keeps time as USB does. For tests of the drivers, and of applications without hardware.
//!
//! They share no encoding code with the drivers: each side was written from `docs/devices.md`'s sources, so that a mistake of
//! one does not hide in the other.

pub mod bus;
pub mod falcon;
pub mod hid_haptic;
pub mod spacemouse;
pub mod stepped;

pub use bus::{Bus, Damage, Gadget, Plugged};
pub use stepped::Stepped;

/// What the emulators' own tests begin with.
#[cfg(test)]
mod vectors {
    use crate::device::profile::Profile;
    use crate::device::registry::Registry;
    use crate::device::simulated::HandScript;
    use std::sync::Arc;

    pub(super) fn bench_profile(name: &str) -> Arc<Profile> {
        Registry::builtin().profile(name).expect("shipped")
    }

    pub(super) fn hand() -> HandScript {
        HandScript::default()
    }
}
