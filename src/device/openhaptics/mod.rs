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

use super::io::scheduling::Scheduling;
use super::io::shared::Shared;
use super::io::thread::{IoThread, now_ns};
use super::profile::Profile;
use super::{DeviceError, Lifecycle};
use link::Mail;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
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
    scheduling: Scheduling,
) -> Result<Phantom, DeviceError> {
    let fail = |text: &str| DeviceError::Driver(format!("{}: {text}", profile.name));
    if OWNED.swap(true, Ordering::AcqRel) {
        return Err(fail("the maker's library serves one owner in a process, and it has one"));
    }
    let (shared, mail) = (Arc::new(Shared::default()), Arc::new(Mail::new(profile.max_force)));
    let supervisor = Supervisor {
        shared: shared.clone(),
        link: None,
        library,
        serial,
        mail: mail.clone(),
        scheduling,
        scheduled: None,
        again_ns: 0,
        seen: (0, 0),
        told_ns: None,
        hangs: false,
    };
    let ended = Arc::new(AtomicBool::new(false));
    let (failing, over) = (shared.clone(), ended.clone());
    let run = move || {
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| supervisor.run())).is_err() {
            failing.silence();
            failing.failed();
        }
        over.store(true, Ordering::Release);
        // Not before: a library that hangs is nobody else's.
        OWNED.store(false, Ordering::Release);
    };
    let thread = std::thread::Builder::new().name("device-hd".into()).spawn(run).map_err(|e| {
        OWNED.store(false, Ordering::Release);
        fail(&format!("no thread for it: {e}"))
    })?;
    let beating = (shared.clone(), mail.clone());
    // Without it the watchdog would take a library that takes its time for a dead device.
    let _ = std::thread::Builder::new()
        .name("device-beat".into())
        .spawn(move || beat(&beating.0, &beating.1, &ended));
    let thread = IoThread::of(shared.clone(), thread);
    Ok(Phantom::new(profile, shared, mail, thread))
}

/// Between two beats.
const BEAT: Duration = Duration::from_millis(20);
/// [`Shared::trouble`] while it is.
pub(super) const NOT_BACK: &str =
    "the maker's library has not come back from a call for two seconds; where it never does, restart hapticd";
/// Our own thread may be in the library for so long before that is told, ns.
const LONG_NS: u64 = 2_000_000_000;

/// Counts rounds for the watchdog while nothing is asked of the device, or the maker's thread goes on. Our own thread may be in the
/// library for seconds.
fn beat(shared: &Shared, mail: &Mail, ended: &AtomicBool) {
    let (mut before, mut told) = (0, false);
    while !ended.load(Ordering::Acquire) {
        let rounds = mail.rounds();
        if shared.lifecycle() != Lifecycle::Ready || rounds != before {
            shared.stats.rounds.fetch_add(1, Ordering::Relaxed);
        }
        before = rounds;
        let long = mail.inside(now_ns()) > LONG_NS;
        if long && !told {
            shared.set_trouble(NOT_BACK);
        }
        told = long;
        std::thread::sleep(BEAT);
    }
}
