//! Memory: locked and touched before it is needed.

use super::RtLine;
use crate::contact::ToolShape;
use crate::scene::snapshot::Snapshot;
use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;

const WHAT: &str = "memory lock";
const CURE: &str = "add 'LimitMEMLOCK=infinity' to the service, or '@hapticd - memlock unlimited' to \
                    /etc/security/limits.conf and log in again";

/// Locks all present and future memory, where the limit allows as much as the process may ever need. With a lower limit
/// a lock of the future would make later allocations fail, so nothing is locked then.
pub(super) fn lock_all() -> RtLine {
    let limit = getrlimit(Resource::RLIMIT_MEMLOCK).map_or(0, |(soft, _)| soft);
    // Privileged processes pass the limit; whether we are one shows by trying, on the present memory first.
    if limit != RLIM_INFINITY && !privileged() {
        return RtLine::short(
            WHAT,
            format!("RLIMIT_MEMLOCK is {} KiB; memory may be paged out under pressure", limit / 1024),
            CURE,
        );
    }
    match mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE) {
        Ok(()) => RtLine::ok(WHAT, "all memory locked, present and future"),
        Err(e) => RtLine::short(WHAT, format!("mlockall: {e}"), CURE),
    }
}

/// True with CAP_IPC_LOCK (bit 14 of the effective set), to which the limit does not apply.
fn privileged() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    line.and_then(|l| u64::from_str_radix(l.trim(), 16).ok()).is_some_and(|caps| caps >> 14 & 1 == 1)
}

/// Locks the geometry that the servo will read, where [`RtOptions::lock_memory`](super::RtOptions::lock_memory) could
/// not lock everything. Control side, before publishing; pages of geometry already locked cost nothing.
///
/// # Errors
/// The kernel's, usually that the limit is reached; the scene works all the same.
pub fn lock_snapshot(snapshot: &Snapshot) -> io::Result<()> {
    for object in &snapshot.objects {
        object.shape.field().memory().into_iter().try_for_each(lock)?;
    }
    if let ToolShape::Shell(shell) = &snapshot.tool.shape {
        for part in [&shell.x, &shell.y, &shell.z, &shell.nx, &shell.ny, &shell.nz, &shell.area] {
            lock(part)?;
        }
    }
    if let ToolShape::Spheres(tree) = &snapshot.tool.shape {
        tree.memory().try_for_each(lock)?;
    }
    Ok(())
}

fn lock<T>(slice: &[T]) -> io::Result<()> {
    let Some(start) = NonNull::new(slice.as_ptr().cast_mut().cast::<c_void>()) else { return Ok(()) };
    if slice.is_empty() {
        return Ok(());
    }
    // SAFETY: the range is the memory of a live slice; locking pages changes no contents.
    unsafe { nix::sys::mman::mlock(start, std::mem::size_of_val(slice)) }.map_err(io::Error::from)
}

/// Touches most of the thread's stack, so that no tick meets a page for the first time.
#[inline(never)]
pub(super) fn prefault_stack() {
    const TOUCHED: usize = super::STACK / 2;
    const PAGE: usize = 4096;
    let mut stack = [0u8; TOUCHED];
    for page in stack.chunks_mut(PAGE) {
        page[0] = 1;
        std::hint::black_box(&page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_locked_or_the_limit_is_the_reason() {
        let data = vec![0u8; 1 << 14];
        match lock(&data) {
            Ok(()) => {
                let end = data.as_ptr().wrapping_add(data.len());
                assert!(end > data.as_ptr());
                let status = std::fs::read_to_string("/proc/self/status").unwrap();
                let locked = status.lines().find_map(|l| l.strip_prefix("VmLck:")).unwrap();
                let kib: u64 = locked.trim().trim_end_matches(" kB").trim().parse().unwrap();
                assert!(kib >= 16, "{locked}");
            }
            Err(e) => {
                assert!(matches!(e.raw_os_error(), Some(libc::ENOMEM | libc::EPERM)), "{e}");
                println!("skipped: {e}");
            }
        }
        lock::<u8>(&[]).unwrap();
    }
}
