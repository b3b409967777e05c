//! What the plant last accepted, seen from outside the servo: the witness for "the force is zero".
//!
//! One writer (the servo thread, wait-free), any number of readers, in this process or, through a file that all
//! map, in another. The file survives `kill -9` of the writer, so a supervisor can read what the motors were last
//! told and `hapticd zero` can command zero. Put the file on a tmpfs (`/run`, `/dev/shm`): a disk's write-back can
//! make a store wait.
//!
//! The page can be taken away: somebody cuts the file, the disk under it fails. The writer then goes on in memory of its
//! own ([`Emergency::mend`], called by the SIGBUS handler), and nobody sees it any more.
//!
//! Two slots and a counter: the writer fills the slot that is not current and then publishes it, so a writer that
//! dies half-way leaves the last complete command readable.

use crate::device::Emergency;
use crate::geometry::pose::{Vec3, Wrench};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, posix_fallocate};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

const WORDS: usize = 24;
/// Length of the shared file, bytes.
const PAGE: usize = 4096;
const MAGIC: u64 = u64::from_le_bytes(*b"hptcprob");
const VERSION: u64 = 1;

const W_MAGIC: usize = 0;
const W_VERSION: usize = 1;
const W_COUNT: usize = 2;
const W_PID: usize = 3;
const W_HOLD: usize = 4;
const W_SINCE_ZERO: usize = 5;
const W_ZEROS: usize = 6;
const SLOTS: [usize; 2] = [8, 16];

/// The plant's last accepted command.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Commands that reached the motors since the device was opened, zeros included.
    pub count: u64,
    /// Servo-clock time of the last one, ns.
    pub time_ns: u64,
    /// What the motors were told, device frame.
    pub wrench: Wrench,
    /// Calls of `zero` since the device was opened.
    pub zeros: u64,
    /// Commands other than zero accepted after the last call of `zero`.
    pub since_zero: u64,
    /// How long the device holds its torque without fresh commands, ns; `None` = unknown or for ever.
    pub torque_hold_ns: Option<u64>,
    /// Process that writes.
    pub pid: u32,
}

impl Reading {
    /// True when the last command was zero force and zero torque.
    pub fn is_zero(&self) -> bool {
        self.wrench == Wrench::ZERO
    }

    /// The wrench at the motors at servo time `now_ns`: the last command, or zero once the device's own watchdog
    /// has let go.
    pub fn wrench_at(&self, now_ns: u64) -> Wrench {
        match self.torque_hold_ns {
            Some(hold) if now_ns.saturating_sub(self.time_ns) > hold => Wrench::ZERO,
            _ => self.wrench,
        }
    }
}

enum Backing {
    Heap(Box<[AtomicU64; WORDS]>),
    /// The mapping, and the writer's lock on the file until it is released.
    Map(NonNull<c_void>, Option<Flock<File>>),
}

/// Shared record of the plant's last accepted command.
pub struct Probe {
    backing: Backing,
}

// SAFETY: the mapping is only ever reached through `&[AtomicU64]`, lives as long as the probe and is unmapped once,
// in drop; atomics may be shared between threads.
unsafe impl Send for Probe {}
// SAFETY: as above.
unsafe impl Sync for Probe {}

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Probe").field(&self.read()).finish()
    }
}

impl Default for Probe {
    fn default() -> Self {
        Self::new()
    }
}

impl Probe {
    /// A probe in this process's memory.
    pub fn new() -> Self {
        let probe = Self { backing: Backing::Heap(Box::new(std::array::from_fn(|_| AtomicU64::new(0)))) };
        probe.reset(None);
        probe
    }

    /// A probe in a shared file, made if absent (mode 0640). The file must be a regular one of our own user. It is locked
    /// while the probe lives: one writer at a time. Not real-time.
    ///
    /// # Errors
    /// What the system says; `ResourceBusy` while another process writes it; `InvalidInput` for a file that is not ours or not regular.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o640)
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK)
            .open(path)?;
        let meta = file.metadata()?;
        if !meta.is_file() || meta.uid() != nix::unistd::geteuid().as_raw() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{}: the probe must be a regular file of this user", path.display()),
            ));
        }
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(file, error)| match error {
            Errno::EWOULDBLOCK => {
                let pid = Self::map(&file).map(|p| p.read().pid).unwrap_or(0);
                let text = format!(
                    "{}: process {pid} writes this probe, so it holds the device; two cannot drive one: stop it first",
                    path.display()
                );
                io::Error::new(io::ErrorKind::ResourceBusy, text)
            }
            other => other.into(),
        })?;
        lock.set_len(PAGE as u64)?;
        // Room now, not at the first store: a full disk is an error here and SIGBUS there.
        posix_fallocate(&*lock, 0, PAGE as libc::off_t)?;
        let mut probe = Self::map(&lock)?;
        if let Backing::Map(_, held) = &mut probe.backing {
            *held = Some(lock);
        }
        probe.reset(None);
        Ok(probe)
    }

    /// Lets another writer take the page, though this one may still be looked at (and zeroed) by a signal handler. For the
    /// device that ends. Not real-time.
    pub fn release(&self) {
        if let Backing::Map(_, Some(lock)) = &self.backing {
            // SAFETY: flock takes two numbers; the descriptor is open as long as self lives.
            let _ = unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_UN) };
        }
    }

    /// True while a process holds this page as the one that writes it.
    ///
    /// # Errors
    /// What the system says.
    pub fn is_held(path: &Path) -> io::Result<bool> {
        let file =
            OpenOptions::new().read(true).custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK).open(path)?;
        match Flock::lock(file, FlockArg::LockSharedNonblock) {
            Ok(_) => Ok(false),
            Err((_, Errno::EWOULDBLOCK)) => Ok(true),
            Err((_, e)) => Err(e.into()),
        }
    }

    /// Opens the probe that another process wrote. Not real-time.
    ///
    /// # Errors
    /// What the system says; `InvalidData` for a file that is no probe.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK)
            .open(path)?;
        let meta = file.metadata()?;
        let bad =
            |why: &str| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {why}", path.display()));
        if !meta.is_file() || meta.len() < PAGE as u64 {
            return Err(bad("not a probe page (no regular file of 4096 bytes)"));
        }
        let probe = Self::map(&file)?;
        let words = probe.words();
        if words[W_MAGIC].load(Ordering::Acquire) != MAGIC {
            return Err(bad("not a probe page (wrong magic)"));
        }
        if words[W_VERSION].load(Ordering::Relaxed) != VERSION {
            return Err(bad("a probe page of another version of hapticd"));
        }
        Ok(probe)
    }

    fn map(file: &std::fs::File) -> io::Result<Self> {
        let Some(length) = NonZeroUsize::new(PAGE) else { unreachable!("PAGE is a constant above zero") };
        // SAFETY: a fresh mapping of a file that holds PAGE bytes, at an address that the kernel chooses. Another
        // process may change the bytes at any time; they are only read and written as atomics. A file truncated
        // afterwards raises SIGBUS, which the daemon mends.
        let at = unsafe {
            mmap(
                None,
                length,
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                MapFlags::MAP_SHARED | MapFlags::MAP_POPULATE,
                file,
                0,
            )
        }?;
        Ok(Self { backing: Backing::Map(at, None) })
    }

    fn words(&self) -> &[AtomicU64; WORDS] {
        match &self.backing {
            Backing::Heap(words) => words,
            // SAFETY: the mapping is PAGE bytes long, page-aligned, lives as long as self, and is only ever
            // accessed through these atomics. AtomicU64 has the layout of u64.
            Backing::Map(at, _) => unsafe { at.cast::<[AtomicU64; WORDS]>().as_ref() },
        }
    }

    /// Starts over for a newly opened device. Not for use while another device writes.
    pub fn reset(&self, torque_hold_ns: Option<u64>) {
        let words = self.words();
        for word in &words[W_COUNT..] {
            word.store(0, Ordering::Relaxed);
        }
        words[W_VERSION].store(VERSION, Ordering::Relaxed);
        words[W_PID].store(u64::from(std::process::id()), Ordering::Relaxed);
        words[W_HOLD].store(torque_hold_ns.unwrap_or(u64::MAX), Ordering::Relaxed);
        words[W_MAGIC].store(MAGIC, Ordering::Release);
    }

    /// Notes a command that reached the motors. Wait-free, real-time safe.
    pub fn record(&self, time_ns: u64, wrench: &Wrench) {
        let words = self.words();
        let count = words[W_COUNT].load(Ordering::Relaxed).wrapping_add(1);
        let slot = SLOTS[(count & 1) as usize];
        // The slot is not current; readers that still look at it see the count move and try again.
        fence(Ordering::Release);
        words[slot].store(time_ns, Ordering::Relaxed);
        for i in 0..3 {
            words[slot + 1 + i].store(wrench.force[i].to_bits(), Ordering::Relaxed);
            words[slot + 4 + i].store(wrench.torque[i].to_bits(), Ordering::Relaxed);
        }
        if *wrench != Wrench::ZERO {
            let since = words[W_SINCE_ZERO].load(Ordering::Relaxed);
            words[W_SINCE_ZERO].store(since.saturating_add(1), Ordering::Relaxed);
        }
        words[W_COUNT].store(count, Ordering::Release);
    }

    /// Notes a call of `zero`. Wait-free, real-time safe.
    pub fn record_zero(&self, time_ns: u64) {
        let words = self.words();
        words[W_SINCE_ZERO].store(0, Ordering::Relaxed);
        let zeros = words[W_ZEROS].load(Ordering::Relaxed);
        words[W_ZEROS].store(zeros.wrapping_add(1), Ordering::Relaxed);
        self.record(time_ns, &Wrench::ZERO);
    }

    /// The last complete command. Real-time safe (bounded tries).
    pub fn read(&self) -> Reading {
        let words = self.words();
        let mut reading = self.try_read(words);
        for _ in 0..64 {
            if words[W_COUNT].load(Ordering::Relaxed) == reading.count {
                break;
            }
            reading = self.try_read(words);
        }
        reading
    }

    fn try_read(&self, words: &[AtomicU64; WORDS]) -> Reading {
        let count = words[W_COUNT].load(Ordering::Acquire);
        let slot = SLOTS[(count & 1) as usize];
        let number = |i: usize| f64::from_bits(words[slot + i].load(Ordering::Relaxed));
        let reading = Reading {
            count,
            time_ns: words[slot].load(Ordering::Relaxed),
            wrench: Wrench {
                force: Vec3::new(number(1), number(2), number(3)),
                torque: Vec3::new(number(4), number(5), number(6)),
            },
            zeros: words[W_ZEROS].load(Ordering::Relaxed),
            since_zero: words[W_SINCE_ZERO].load(Ordering::Relaxed),
            torque_hold_ns: Some(words[W_HOLD].load(Ordering::Relaxed)).filter(|h| *h != u64::MAX),
            pid: words[W_PID].load(Ordering::Relaxed) as u32,
        };
        fence(Ordering::Acquire);
        reading
    }
}

impl Emergency for Probe {
    fn zero(&self, now_ns: u64) -> bool {
        self.record_zero(now_ns);
        true
    }

    fn mend(&self, address: usize) -> bool {
        let Backing::Map(at, _) = &self.backing else { return false };
        let start = at.as_ptr() as usize;
        if !(start..start + PAGE).contains(&address) {
            return false;
        }
        let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: mmap by number, without the library's wrapper: async-signal-safe. It replaces exactly our own mapping,
        // which stays mapped at the same place with the same rights; the atomics in it read zero from now on.
        let got = unsafe {
            libc::syscall(libc::SYS_mmap, start, PAGE, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        got == start as libc::c_long
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        if let Backing::Map(at, _) = self.backing {
            // SAFETY: mapped once in `map`, unmapped once here; no reference outlives self.
            let _ = unsafe { munmap(at, PAGE) };
        }
    }
}

#[cfg(test)]
mod tests;
