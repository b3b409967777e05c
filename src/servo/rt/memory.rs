//! Memory: locked and touched before it is needed.

use super::RtLine;
use crate::contact::{ObjectShape, ToolShape};
use crate::scene::snapshot::Snapshot;
use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const WHAT: &str = "memory lock";
const CURE: &str = "add 'LimitMEMLOCK=infinity' to the service, or '@hapticd - memlock unlimited' to \
                    /etc/security/limits.conf and log in again";

/// Everything of this process is locked, present and future.
static ALL_LOCKED: AtomicBool = AtomicBool::new(false);

/// Locks all present and future memory, where the limit allows as much as the process may ever need. With a lower limit
/// a lock of the future would make later allocations fail, so nothing is locked then.
pub(super) fn lock_all() -> RtLine {
    let limit = getrlimit(Resource::RLIMIT_MEMLOCK).map_or(0, |(soft, _)| soft);
    // The limit does not apply to privileged processes.
    if limit != RLIM_INFINITY && !privileged() {
        return RtLine::short(
            WHAT,
            format!("RLIMIT_MEMLOCK is {} KiB; memory may be paged out under pressure", limit / 1024),
            CURE,
        );
    }
    match mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE) {
        Ok(()) => {
            ALL_LOCKED.store(true, Relaxed);
            RtLine::ok(WHAT, "all memory locked, present and future")
        }
        Err(e) => RtLine::short(WHAT, format!("mlockall: {e}"), CURE),
    }
}

/// True with CAP_IPC_LOCK (bit 14 of the effective set), to which the limit does not apply.
fn privileged() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    line.and_then(|l| u64::from_str_radix(l.trim(), 16).ok()).is_some_and(|caps| caps >> 14 & 1 == 1)
}

/// Locks the geometry that the servo will read, unless
/// [`RtOptions::lock_memory`](super::RtOptions::lock_memory) has locked everything. Whether locking is wanted
/// at all the caller has to know. Locking also brings every page in, so that no tick meets one for the first
/// time. Control side, before publishing; pages already locked cost little.
///
/// # Errors
/// The kernel's, usually that RLIMIT_MEMLOCK is reached; the scene works all the same.
pub fn lock_snapshot(snapshot: &Snapshot) -> io::Result<()> {
    if ALL_LOCKED.load(Relaxed) { Ok(()) } else { lock_parts(snapshot) }
}

fn lock_parts(snapshot: &Snapshot) -> io::Result<()> {
    // Objects share what they are made of.
    let shapes: BTreeMap<[*const (); 2], &ObjectShape> =
        snapshot.objects.iter().map(|o| (parts_of(&o.shape), &o.shape)).collect();
    for shape in shapes.values() {
        shape.field().memory().into_iter().try_for_each(lock)?;
        if let ObjectShape::Solid(solid) = shape {
            solid.bvh.memory().into_iter().try_for_each(lock_range)?;
        }
        if let ObjectShape::Sampled(sampled) = shape {
            sampled.shell().memory().into_iter().try_for_each(lock)?;
            sampled.tool().memory().into_iter().try_for_each(lock)?;
        }
    }
    if let ToolShape::Shell(shell) | ToolShape::Both(shell, _) = &snapshot.tool.shape {
        shell.memory().into_iter().try_for_each(lock)?;
    }
    if let ToolShape::Spheres(tree) | ToolShape::Both(_, tree) = &snapshot.tool.shape {
        tree.memory().try_for_each(lock)?;
        lock(&tree.nodes)?;
        tree.bvh.memory().into_iter().try_for_each(lock_range)?;
    }
    Ok(())
}

/// What tells shapes apart: two objects may share a field and be asked in different ways.
fn parts_of(shape: &ObjectShape) -> [*const (); 2] {
    let of = match shape {
        ObjectShape::Field(_) => std::ptr::null(),
        ObjectShape::Solid(solid) => std::sync::Arc::as_ptr(solid).cast(),
        ObjectShape::Sampled(sampled) => std::sync::Arc::as_ptr(sampled.shell()).cast(),
    };
    [std::ptr::from_ref(shape.field()).cast(), of]
}

fn lock<T>(slice: &[T]) -> io::Result<()> {
    lock_range((slice.as_ptr().cast(), size_of_val(slice)))
}

fn lock_range((start, bytes): (*const u8, usize)) -> io::Result<()> {
    let Some(start) = NonNull::new(start.cast_mut().cast::<c_void>()) else { return Ok(()) };
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: locking pages changes no contents; a range that is not mapped is an error.
    unsafe { nix::sys::mman::mlock(start, bytes) }.map_err(io::Error::from)
}

/// Touches half of the thread's stack, so that no tick meets a page for the first time.
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

    /// True when the kernel keeps the page at this address locked (flag `lo` of its mapping, proc_pid_smaps(5)).
    fn is_locked(address: usize) -> bool {
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("readable");
        let mut here = false;
        for line in maps.lines() {
            let range = line.split(' ').next().and_then(|r| r.split_once('-'));
            let ends = range.and_then(|(a, b)| {
                Some((usize::from_str_radix(a, 16).ok()?, usize::from_str_radix(b, 16).ok()?))
            });
            if let Some((start, end)) = ends {
                here = (start..end).contains(&address);
            } else if here && line.starts_with("VmFlags:") {
                return line.split_whitespace().any(|f| f == "lo");
            }
        }
        false
    }

    #[test]
    fn what_a_query_reads_is_locked() {
        use crate::contact::vps::{PointShell, ShellParams};
        use crate::geometry::{Point, shapes};
        let shell =
            PointShell::build(&shapes::icosphere(0.01, 3), ShellParams::points(2000)).expect("a shell");
        let field = crate::geometry::field::Field::from_fn(Point::origin(), 1e-3, [64, 64, 64], |p| p.x);
        for part in shell.memory().chain(field.memory()).filter(|p| !p.is_empty()) {
            if let Err(e) = lock(part) {
                assert!(matches!(e.raw_os_error(), Some(libc::ENOMEM | libc::EPERM)), "{e}");
                println!("skipped: this process may lock no more memory: {e}");
                return;
            }
            assert!(is_locked(part.as_ptr() as usize) && is_locked(part.as_ptr_range().end as usize - 1));
        }
        let surface = crate::geometry::bvh::Bvh::build(&shapes::icosphere(0.01, 3));
        for (start, bytes) in surface.memory() {
            lock_range((start, bytes)).expect("as before");
            assert!(is_locked(start as usize) && is_locked(start as usize + bytes - 1));
        }
        assert!(lock::<u8>(&[]).is_ok());
    }
}
