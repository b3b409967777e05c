//! Calibration: how many work units of the contact query this machine does in a microsecond.

use crate::contact::{Budget, Query, QueryState, query};
use crate::geometry::{Pose, Twist};
use crate::scene::snapshot::Snapshot;
use std::time::{Duration, Instant};

/// Time to spend on measuring.
const TIME: Duration = Duration::from_millis(200);

/// Result of a calibration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// Work units a microsecond: the slow tenth of the queries measured, so that a budget made from it holds in nine
    /// of ten ticks.
    pub units_per_us: f64,
    /// Queries measured.
    pub queries: usize,
}

impl Calibration {
    /// Work units that fit into so many microseconds; at least 1, because 0 means unlimited.
    #[must_use]
    pub fn units(&self, budget_us: f64) -> u32 {
        (self.units_per_us * budget_us).clamp(1.0, f64::from(u32::MAX)) as u32
    }
}

/// Times the tool of a scene against its objects around the pose where the tool starts. Takes a fifth of a second;
/// `None` when the scene has no object or no query does any work there. Not for the servo thread.
#[must_use]
pub fn calibrate(snapshot: &Snapshot) -> Option<Calibration> {
    let begin = Instant::now();
    let mut rates: Vec<f64> = Vec::new();
    let mut step = 0u32;
    while begin.elapsed() < TIME || rates.len() < 20 {
        if step > 100_000 || begin.elapsed() > 10 * TIME {
            break;
        }
        // Small shifts, so that caches are as warm as they are from tick to tick and no two queries are the same.
        let shift = f64::from(step % 101) * 1e-5;
        step += 1;
        let tool_pose: Pose =
            snapshot.device_in_scene * Pose::translation(0.0, -shift, 0.5 * shift) * snapshot.tool.offset;
        for object in &snapshot.objects {
            let question = Query {
                tool: &snapshot.tool.shape,
                tool_pose: &tool_pose,
                tool_twist: &Twist::ZERO,
                object: &object.shape,
                object_pose: &object.pose,
                object_twist: &Twist::ZERO,
                material: &object.material,
            };
            // With nothing remembered it looks at all that may touch: beside that its fixed part is small.
            let mut state = QueryState::default();
            let start = Instant::now();
            let contact = query(&question, Budget::UNLIMITED, &mut state);
            let us = start.elapsed().as_secs_f64() * 1e6;
            if contact.work > 0 && us > 0.0 {
                rates.push(f64::from(contact.work) / us);
            }
        }
        if snapshot.objects.is_empty() || (step > 1000 && rates.is_empty()) {
            break;
        }
    }
    rates.sort_by(f64::total_cmp);
    let slow = rates.get(rates.len() / 10).copied()?;
    Some(Calibration { units_per_us: slow, queries: rates.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_never_unlimited_by_accident() {
        let slow = Calibration { units_per_us: 1e-9, queries: 20 };
        assert_eq!(slow.units(350.0), 1);
        let fast = Calibration { units_per_us: 400.0, queries: 20 };
        assert_eq!(fast.units(350.0), 140_000);
    }
}
