//! The log's way to stderr: lines are handed to a thread of their own, so that a reader who has stopped reading
//! (a stopped pager, a full pipe) never holds up the daemon. Lines that find no room are counted and told later.

use crossbeam::channel::{Receiver, Sender, TrySendError, bounded};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Lines that may wait.
const QUEUE: usize = 1024;
/// The end of the daemon waits so long for the log.
const LAST_LINES: Duration = Duration::from_millis(200);

enum Item {
    Line(Vec<u8>),
    Flush(Sender<()>),
}

/// Takes lines without ever waiting. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Log {
    queue: Sender<Item>,
    lost: Arc<AtomicU64>,
}

impl std::fmt::Debug for Item {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if matches!(self, Self::Line(_)) { "Line" } else { "Flush" })
    }
}

impl Log {
    /// Starts the thread, which first calls `begin` (to keep off the servo's CPU) and then writes to `sink`.
    ///
    /// # Errors
    /// No thread.
    pub fn start(
        begin: impl FnOnce() + Send + 'static,
        sink: impl Write + Send + 'static,
    ) -> io::Result<Self> {
        let (queue, lines) = bounded(QUEUE);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = lost.clone();
        std::thread::Builder::new().name("log".into()).spawn(move || {
            begin();
            work(&lines, &counted, sink);
        })?;
        Ok(Self { queue, lost })
    }

    /// Hands over a line, or counts it when none is taken.
    pub fn line(&self, line: Vec<u8>) {
        if self.queue.try_send(Item::Line(line)).is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
    }

    /// Waits until what was handed over is written, at most 200 ms. True when it was.
    pub fn finish(&self) -> bool {
        let (done, wait) = bounded(1);
        match self.queue.try_send(Item::Flush(done)) {
            Ok(()) => wait.recv_timeout(LAST_LINES).is_ok(),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
        }
    }
}

fn work(lines: &Receiver<Item>, lost: &AtomicU64, mut sink: impl Write) {
    while let Ok(item) = lines.recv() {
        match item {
            // Nobody can be told that the log itself fails.
            Item::Line(line) => drop(sink.write_all(&line)),
            Item::Flush(done) => drop(done.send(())),
        }
        let n = lost.swap(0, Relaxed);
        if n > 0 {
            let _ =
                writeln!(sink, "hapticd: {n} lines of the log were lost: stderr did not take them in time");
        }
    }
}

/// One line under way: what `tracing` writes is collected and handed over as a whole.
pub struct Lines {
    log: Log,
    text: Vec<u8>,
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        if !self.text.is_empty() {
            self.log.line(std::mem::take(&mut self.text));
        }
    }
}

impl<'a> tracing_subscriber::fmt::MakeWriter<'a> for Log {
    type Writer = Lines;

    fn make_writer(&'a self) -> Lines {
        Lines { log: self.clone(), text: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    /// A pipe that nobody reads: handing over never waits, the end waits a bounded time, and what was lost is told
    /// to whoever reads at last.
    #[test]
    fn a_sink_that_takes_nothing_holds_nobody_up() {
        let (mut reader, writer) = io::pipe().unwrap();
        let log = Log::start(|| (), writer).unwrap();
        // Far more than pipe and queue hold.
        let line = [vec![b'x'; 999], b"\n".to_vec()].concat();
        for _ in 0..10 * QUEUE {
            log.line(line.clone());
        }
        assert!(!log.finish());
        drop(log);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        // Every line was written or told to be lost; how many notes tell it depends on who ran when.
        let written = text.lines().filter(|l| l.starts_with('x')).count();
        let told = text
            .lines()
            .filter_map(|l| l.strip_prefix("hapticd: ")?.split(' ').next()?.parse::<usize>().ok());
        let told: usize = told.sum();
        assert!(told > 8 * QUEUE && written + told == 10 * QUEUE, "{written} {told}");
    }

    #[test]
    fn lines_come_whole_and_in_order() {
        let (mut reader, writer) = io::pipe().unwrap();
        let log = Log::start(|| (), writer).unwrap();
        for i in 0..100 {
            use tracing_subscriber::fmt::MakeWriter;
            let mut w = log.make_writer();
            writeln!(w, "line {i}").unwrap();
        }
        assert!(log.finish());
        drop(log);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        let want: String = (0..100).map(|i| format!("line {i}\n")).collect();
        assert_eq!(text, want);
    }
}
