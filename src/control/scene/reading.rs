//! Reading a client's file without trusting it to answer: a file of a dead server or of a user's own file system is a regular
//! file whose read may never come back.
//!
//! Each file is read by a thread of its own, which is left behind when nothing comes for [`SILENCE`], or when the request is
//! cancelled. These count against their user: who has [`PER_USER`] of them has no more files read until one comes back.

use super::source::{refuse, too_large};
use crate::geometry::field::build::Progress;
use crate::protocol::rpc::{RpcError, codes};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest time without a byte.
const SILENCE: Duration = Duration::from_secs(10);
/// Time between two looks at whether the request was cancelled.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes of a step.
const CHUNK: usize = 256 * 1024;
/// Steps read ahead.
const AHEAD: usize = 4;
/// Reads of one user, and of all, that may be left behind before no more are begun.
const PER_USER: u32 = 2;
const ALL: u32 = 16;

/// Reads that were left behind, by user.
static LEFT: Mutex<BTreeMap<u32, u32>> = Mutex::new(BTreeMap::new());

fn left() -> MutexGuard<'static, BTreeMap<u32, u32>> {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

fn check(uid: u32) -> Result<(), RpcError> {
    let all = left();
    let own = all.get(&uid).copied().unwrap_or(0);
    if own < PER_USER && all.values().sum::<u32>() < ALL {
        return Ok(());
    }
    let text = format!(
        "{own} of your files have not been read to their end, they are on a file system that does not answer; copy the \
         mesh to another one"
    );
    Err(RpcError::new(codes::LIMIT, text).field("source"))
}

/// The thread that reads, as seen from both sides.
#[derive(Default)]
struct Reader {
    ended: bool,
    left: bool,
}

/// Held by the thread: however it ends, it is behind nobody any more.
struct Ends(Arc<Mutex<Reader>>, u32);

impl Drop for Ends {
    fn drop(&mut self) {
        let mut reader = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reader.ended = true;
        let mut all = left();
        match all.get_mut(&self.1).filter(|_| reader.left) {
            Some(n) if *n > 1 => *n -= 1,
            Some(_) => drop(all.remove(&self.1)),
            None => {}
        }
    }
}

/// Held by who waits: a thread that has not ended by then is left behind.
struct Waits(Arc<Mutex<Reader>>, u32);

impl Drop for Waits {
    fn drop(&mut self) {
        let mut reader = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !reader.ended {
            reader.left = true;
            *left().entry(self.1).or_default() += 1;
        }
    }
}

/// Reads the whole file from its beginning, at most `limit` bytes, whatever its offset is. Blocks, but not for longer than
/// [`SILENCE`] without a byte.
///
/// # Errors
/// What the system says, the file outgrew the limit meanwhile, it does not answer, or the request was cancelled.
pub fn read(file: File, limit: u64, uid: u32, progress: &dyn Progress) -> Result<Vec<u8>, RpcError> {
    let size = file.metadata().map(|m| m.len()).unwrap_or(0).min(limit);
    let step = move |into: &mut [u8], at: u64| file.read_at(into, at);
    whole(step, size, limit, uid, progress, SILENCE)
}

/// The same of anything that is read in steps: into this buffer from this offset.
fn whole(
    step: impl FnMut(&mut [u8], u64) -> io::Result<usize> + Send + 'static,
    size: u64,
    limit: u64,
    uid: u32,
    progress: &dyn Progress,
    silence: Duration,
) -> Result<Vec<u8>, RpcError> {
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(size as usize + 1)
        .map_err(|_| RpcError::new(codes::LIMIT, format!("no memory for {size} bytes")).field("source"))?;
    check(uid)?;
    let (send, chunks) = sync_channel(AHEAD);
    let reader = Arc::new(Mutex::new(Reader::default()));
    let ends = Ends(reader.clone(), uid);
    let spawned = std::thread::Builder::new().name("mesh-read".into()).spawn(move || {
        steps(step, &send);
        // Before the channel says that it is over.
        drop(ends);
        drop(send);
    });
    spawned.map_err(|e| refuse(format!("no thread to read it: {e}")))?;
    let _waits = Waits(reader, uid);
    let mut heard = Instant::now();
    loop {
        match chunks.recv_timeout(LOOK) {
            Ok(Ok(chunk)) => {
                let chunk: Vec<u8> = chunk;
                bytes.extend_from_slice(&chunk);
                heard = Instant::now();
            }
            Ok(Err(e)) => return Err(refuse(format!("reading failed at byte {}: {e}", bytes.len()))),
            Err(RecvTimeoutError::Disconnected) => return Ok(bytes),
            Err(RecvTimeoutError::Timeout) if heard.elapsed() >= silence => {
                let (at, s) = (bytes.len(), silence.as_secs());
                return Err(refuse(format!("nothing came of the file for {s} s at byte {at}")));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if bytes.len() as u64 > limit {
            return Err(too_large(bytes.len() as u64, limit));
        }
        if progress.cancelled() {
            return Err(RpcError::new(codes::CANCELLED, "cancelled while the mesh was read").field("source"));
        }
    }
}

/// Reads on until the end, an error, or until nobody listens any more.
fn steps(mut step: impl FnMut(&mut [u8], u64) -> io::Result<usize>, send: &SyncSender<io::Result<Vec<u8>>>) {
    let (mut chunk, mut at) = (vec![0; CHUNK], 0);
    loop {
        let read = match step(&mut chunk, at) {
            Ok(0) => return,
            Ok(n) => Ok(chunk[..n].to_vec()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => Err(e),
        };
        at += read.as_ref().map_or(0, |c| c.len() as u64);
        if send.send(read).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::field::build::Silent;
    use std::io::{Seek, Write};
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::sync::mpsc::channel;

    const SHORT: Duration = Duration::from_millis(60);

    struct Cancel(AtomicBool);

    impl Progress for Cancel {
        fn step(&self, _: u64, _: u64) {}
        fn cancelled(&self) -> bool {
            self.0.load(Relaxed)
        }
    }

    fn until(mut done: impl FnMut() -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !done() {
            assert!(Instant::now() < end);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn files_are_read_whole_whatever_their_offset_and_never_beyond_the_limit() {
        let mut f = tempfile::tempfile().expect("a file");
        let text: Vec<u8> = (0..3 * CHUNK + 17).map(|i| (i % 251) as u8).collect();
        f.write_all(&text).expect("writes");
        f.seek(io::SeekFrom::Start(5)).expect("seeks");
        let again = || f.try_clone().expect("clones");
        assert_eq!(read(again(), 1 << 30, 1001, &Silent).expect("reads"), text);
        // It outgrew the limit after it was accepted.
        let limit = text.len() as u64 - 1;
        assert_eq!(read(again(), limit, 1001, &Silent).expect_err("too large").code, codes::LIMIT);
        let fails = |_: &mut [u8], _: u64| Err(io::Error::other("gone"));
        let e = whole(fails, 0, 10, 1001, &Silent, SILENCE).expect_err("fails");
        assert!(e.code == codes::DESCRIPTOR && e.message.contains("byte 0: gone"), "{e}");
        until(|| !left().contains_key(&1001));
    }

    /// Files that never answer hold up a request for the given time or until it is cancelled, nobody else, and their user no
    /// longer than they hang.
    #[test]
    fn a_file_that_hangs_is_left_behind_and_counted_against_its_user() {
        let hang = || {
            let (release, held) = channel::<()>();
            let step = move |into: &mut [u8], at: u64| {
                if at == 0 {
                    into[0] = 7;
                    return Ok(1);
                }
                let _ = held.recv();
                Ok(0)
            };
            (release, step)
        };
        let (first, step) = hang();
        let e = whole(step, 0, 10, 1002, &Silent, SHORT).expect_err("hangs");
        assert!(e.code == codes::DESCRIPTOR && e.message.contains("at byte 1"), "{e}");
        let (second, step) = hang();
        let cancel = Cancel(AtomicBool::new(true));
        let e = whole(step, 0, 10, 1002, &cancel, SILENCE).expect_err("cancelled");
        assert_eq!(e.code, codes::CANCELLED);
        // Two are out: no third, but another user's.
        let once = |uid| whole(|_: &mut [u8], _| Ok(0), 0, 10, uid, &Silent, SILENCE);
        assert_eq!(once(1002).expect_err("two hang").code, codes::LIMIT);
        assert!(once(1003).expect("reads").is_empty());
        drop(first);
        until(|| left().get(&1002) == Some(&1));
        assert!(once(1002).expect("one is back").is_empty());
        drop(second);
        until(|| !left().contains_key(&1002));
    }
}
