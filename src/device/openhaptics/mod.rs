//! Phantom-class devices through the library of their maker, where the user has it: no open protocol is known for them.
//!
//! The maker's own thread calls us once a millisecond; such a round reads the device, gives it the servo's newest force, and waits for
//! nothing. A force that is older than 5 ms, or meant for an earlier life of the device, is zero. One device, one owner in a process.
//! Tool poses are the library's, in m; the frame is that of the library: x to the right, y up, z towards the user.

mod front;
mod library;
mod link;
mod supervisor;

pub use front::Phantom;

use super::DeviceError;
use super::io::shared::Shared;
use super::profile::Profile;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use supervisor::Supervisor;

/// Somebody in this process has the library.
static OWNED: AtomicBool = AtomicBool::new(false);

/// Starts to look for the library and the device; neither need be there. Not real-time.
///
/// # Errors
/// A second device in one process, or no thread.
pub fn open(
    profile: Arc<Profile>,
    library: Option<PathBuf>,
    serial: Option<String>,
) -> Result<Phantom, DeviceError> {
    let fail = |text: &str| DeviceError::Driver(format!("{}: {text}", profile.name));
    if OWNED.swap(true, Ordering::AcqRel) {
        return Err(fail("the maker's library serves one owner in a process, and it has one"));
    }
    let (shared, link) = (Arc::new(Shared::default()), Arc::new(OnceLock::new()));
    let supervisor = Supervisor {
        shared: shared.clone(),
        link: link.clone(),
        library,
        serial,
        max_force: profile.max_force,
        scheduled: None,
        again_ns: 0,
        seen: (0, 0),
    };
    let failing = shared.clone();
    let run = move || {
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| supervisor.run())).is_err() {
            failing.silence();
            failing.failed();
        }
    };
    match std::thread::Builder::new().name("device-hd".into()).spawn(run) {
        Ok(thread) => Ok(Phantom::new(profile, shared, link, thread)),
        Err(e) => {
            OWNED.store(false, Ordering::Release);
            Err(fail(&format!("no thread for it: {e}")))
        }
    }
}
