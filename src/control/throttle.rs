//! Rate limit on equal log lines: the first goes out at once, later ones once a period with a count.

use std::time::{Duration, Instant};

/// One kind of line.
#[derive(Debug)]
pub struct Throttle {
    period: Duration,
    last: Option<Instant>,
    held: u64,
}

impl Throttle {
    /// At most one line in `period`.
    pub const fn new(period: Duration) -> Self {
        Self { period, last: None, held: 0 }
    }

    /// Whether to write the line now, and how many were held back since the last one.
    pub fn pass(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|t| now.saturating_duration_since(t) < self.period) {
            self.held += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_period_with_the_count_of_the_others() {
        let start = Instant::now();
        let mut t = Throttle::new(Duration::from_secs(10));
        assert_eq!(t.pass(start), Some(0));
        for ms in 1..=100 {
            assert_eq!(t.pass(start + Duration::from_millis(ms)), None);
        }
        assert_eq!(t.pass(start + Duration::from_secs(10)), Some(100));
        assert_eq!(t.pass(start + Duration::from_secs(11)), None);
    }
}
