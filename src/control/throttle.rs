//! Rate limit on log lines of one kind: a burst goes out at once, later ones are counted until the period is over.

use super::log::Log;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing::callsite::Identifier;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Filter};

/// Lines of one kind in one period.
const BURST: u32 = 20;
/// Length of a period.
const PERIOD: Duration = Duration::from_secs(10);

/// One kind of line.
#[derive(Debug, Default)]
struct Throttle {
    since: Option<Instant>,
    passed: u32,
    held: u64,
}

impl Throttle {
    /// Whether to write the line now, and how many were held back in the period that has just ended.
    fn pass(&mut self, now: Instant) -> Option<u64> {
        let fresh = self.since.is_none_or(|t| now.saturating_duration_since(t) >= PERIOD);
        if fresh {
            self.since = Some(now);
            self.passed = 1;
            return Some(std::mem::take(&mut self.held));
        }
        if self.passed < BURST {
            self.passed += 1;
            return Some(0);
        }
        self.held += 1;
        None
    }
}

/// A filter for `tracing` layers: at most 20 lines in 10 s from one place of the program.
#[derive(Debug, Default)]
pub struct LogThrottle {
    kinds: Mutex<HashMap<Identifier, Throttle>>,
    log: Option<Log>,
}

impl LogThrottle {
    /// Tells that log how many lines were held back.
    #[must_use]
    pub fn telling(log: Log) -> Self {
        Self { kinds: Mutex::default(), log: Some(log) }
    }
}

impl<S: Subscriber> Filter<S> for LogThrottle {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let id = event.metadata().callsite();
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        match kinds.entry(id).or_default().pass(Instant::now()) {
            Some(0) => true,
            Some(held) => {
                if let Some(log) = &self.log {
                    let text = format!("hapticd: {held} lines like the next one were held back\n");
                    log.line(text.into_bytes());
                }
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::Arc;
    use tracing_subscriber::layer::{Layer, SubscriberExt};

    #[test]
    fn a_burst_then_one_line_a_period_with_the_count_of_the_others() {
        let start = Instant::now();
        let mut t = Throttle::default();
        for _ in 0..BURST {
            assert_eq!(t.pass(start), Some(0));
        }
        for ms in 1..=100 {
            assert_eq!(t.pass(start + Duration::from_millis(ms)), None);
        }
        assert_eq!(t.pass(start + PERIOD), Some(100));
        assert_eq!(t.pass(start + PERIOD), Some(0));
    }

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, b: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(b);
            Ok(b.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_flood_from_one_place_leaves_other_lines_alone() {
        let sink = Sink::default();
        let writer = sink.clone();
        let layer = tracing_subscriber::fmt::layer().with_writer(move || writer.clone());
        let log = tracing_subscriber::registry().with(layer.with_filter(LogThrottle::default()));
        tracing::subscriber::with_default(log, || {
            for i in 0..1000 {
                tracing::info!("flood {i}");
            }
            tracing::info!("something else");
        });
        let text = String::from_utf8(sink.0.lock().expect("whole").clone()).expect("text");
        assert_eq!(text.matches("flood").count(), BURST as usize);
        assert!(text.contains("something else"));
    }
}
