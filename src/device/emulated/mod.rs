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

/// Entries that an emulator's notes keep at most, one a millisecond or so: when there are so many, the older half goes.
pub const NOTES: usize = 1 << 20;

/// Notes something, in bounded memory.
fn note<T>(notes: &mut Vec<T>, entry: T) {
    if notes.len() >= NOTES {
        notes.drain(..NOTES / 2);
    }
    notes.push(entry);
}

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

    #[test]
    fn notes_keep_the_newest_in_bounded_memory() {
        let (mut notes, all) = (Vec::new(), super::NOTES as u32 * 2 + 7);
        for k in 0..all {
            super::note(&mut notes, k);
            assert!(notes.len() <= super::NOTES);
        }
        assert!(notes.len() >= super::NOTES / 2 && notes.last() == Some(&(all - 1)));
        assert!(notes.windows(2).all(|w| w[1] == w[0] + 1));
    }
}
