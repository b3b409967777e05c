//! How many work units a time buys: tried out on the path's own poses.
//!
//! A query has a fixed part, remembers the one before, and is cut in steps, so that no one rate turns time into units.

/// Share of the queries that are to keep the time.
const KEEP: f64 = 0.9;
/// Two budgets closer than this are not told apart.
const CLOSE: f64 = 1.04;
/// Poses tried: rows of neighbours, as a query remembers the one before.
const ROWS: usize = 25;
/// Poses of a row, of which the first is not timed.
const ROW: usize = 9;

/// Where the rows of `poses` poses start, and how long they are.
pub fn rows(poses: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let stride = poses.div_ceil(ROWS).max(ROW);
    (0..poses).step_by(stride).map(move |start| start..(start + ROW).min(poses))
}

/// Largest budget with which nine of ten queries take at most `us` µs: work units, 0 for no limit.
///
/// `trial` runs queries with a budget and returns the time, µs, and the work units of each.
pub fn units_for(us: f64, mut trial: impl FnMut(u32) -> Vec<(f64, u32)>) -> u32 {
    // Once without a look at the time: memory and caches are cold.
    trial(0);
    let whole = trial(0);
    if slow(&whole) <= us {
        return 0;
    }
    let (mut low, mut high) = (1.0, whole.iter().map(|&(_, work)| f64::from(work)).fold(1.0, f64::max));
    while high / low > CLOSE {
        let middle: f64 = (low * high).sqrt();
        if slow(&trial(middle as u32)) <= us { low = middle } else { high = middle }
    }
    (low as u32).max(1)
}

/// The time that so many queries keep.
fn slow(tried: &[(f64, u32)]) -> f64 {
    let mut times: Vec<f64> = tried.iter().map(|&(us, _)| us).collect();
    times.sort_by(f64::total_cmp);
    let last = times.len().saturating_sub(1);
    times.get((last as f64 * KEEP).ceil() as usize).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Queries that take 5 µs and 10 ns for each unit, and would do with 300, 600, ... 3,000 units.
    fn queries(units: u32) -> Vec<(f64, u32)> {
        let limit = if units == 0 { u32::MAX } else { units };
        (1..=10).map(|i| (300 * i).min(limit)).map(|work| (5.0 + 0.01 * f64::from(work), work)).collect()
    }

    #[test]
    fn time_less_the_fixed_part_is_what_it_buys() {
        for us in [6.0, 10.0, 20.0, 30.0] {
            let (units, exact) = (f64::from(units_for(us, queries)), (us - 5.0) / 0.01);
            assert!(units <= exact && units >= exact / (CLOSE * 1.01), "{us} µs: {units} for {exact}");
        }
    }

    #[test]
    fn what_fits_whole_is_not_limited_and_what_cannot_fit_gets_least() {
        assert_eq!(units_for(36.0, queries), 0);
        assert_eq!(units_for(4.0, queries), 1);
        assert_eq!(units_for(1.0, |_| vec![]), 0);
    }

    #[test]
    fn one_slow_query_in_ten_is_no_reason() {
        let one = |units| {
            let mut all = queries(units);
            all.extend((0..90).map(|_| (5.0, 0)));
            all
        };
        assert_eq!(units_for(30.0, one), 0);
    }

    #[test]
    fn rows_lie_apart_and_within() {
        for poses in [0, 1, 8, 9, 10, 200, 224, 225, 226, 3000] {
            let mut end = 0;
            for row in rows(poses) {
                assert!(row.start >= end && row.end <= poses && !row.is_empty(), "{poses}: {row:?}");
                end = row.end;
            }
            let tried: usize = rows(poses).map(|r| r.len()).sum();
            assert!(tried >= poses.min(ROWS * ROW / 2) && tried <= ROWS * ROW, "{poses}: {tried}");
        }
    }
}
