//! The simulated mechanism alone, for emulators: joint torques in, joints out. No driver, no transport.

use super::linkage::Linkage;
use super::path::Path;
use super::script::HandScript;
use super::{STEP, STEP_NS};
use crate::device::profile::Profile;
use crate::geometry::pose::Vec3;

/// A jointed mechanism in a hand.
pub struct Bench {
    linkage: Linkage,
    path: Path,
    let_go: f64,
    torque: Vec3,
    steps: u64,
    /// Time that has not happened to it, ns.
    skipped_ns: u64,
    /// Longest step, ns, where each call makes one.
    coarse: Option<u64>,
    /// What of `steps` is in such steps, ns.
    coarse_ns: u64,
}

/// Most steps integrated in one call; a longer gap has not happened at all.
const MOST: u64 = 20_000;

impl Bench {
    /// At rest at the start of the hand's path; `None` for a device without joints, or a start out of reach. Not real-time.
    pub fn new(profile: &Profile, hand: &HandScript) -> Option<Self> {
        super::sensors::has_sensors(&profile.kinematics).then_some(())?;
        let mut path = Path::new(hand);
        let start = path.at(0.0);
        let linkage =
            Linkage::new(&profile.kinematics, &profile.dynamics, profile.gimbal, &hand.hand, &start, STEP)?;
        Some(Self {
            linkage,
            path,
            let_go: hand.let_go.unwrap_or(f64::INFINITY),
            torque: Vec3::zeros(),
            steps: 0,
            skipped_ns: 0,
            coarse: None,
            coarse_ns: 0,
        })
    }

    /// Integrates up to `now_ns` since the start.
    pub fn advance(&mut self, now_ns: u64) {
        if let Some(longest_ns) = self.coarse {
            return self.advance_coarsely(now_ns, longest_ns);
        }
        let mut due = (now_ns.saturating_sub(self.skipped_ns) / STEP_NS).saturating_sub(self.steps);
        if due > MOST {
            self.skipped_ns += due * STEP_NS;
            due = 0;
        }
        for _ in 0..due {
            let middle = (self.steps as f64 + 0.5) * STEP;
            let target = (middle < self.let_go).then(|| self.path.at(middle));
            self.linkage.step(&self.torque, target.as_ref());
            self.steps += 1;
        }
        self.linkage.sync();
    }

    fn advance_coarsely(&mut self, now_ns: u64, longest_ns: u64) {
        let elapsed = now_ns.saturating_sub(self.skipped_ns + self.coarse_ns);
        let step_ns = elapsed.min(longest_ns);
        self.skipped_ns += elapsed - step_ns;
        if step_ns > 0 {
            let h = step_ns as f64 * 1e-9;
            self.linkage.set_step(h);
            let middle = self.coarse_ns as f64 * 1e-9 + 0.5 * h;
            let target = (middle < self.let_go).then(|| self.path.at(middle));
            self.linkage.step(&self.torque, target.as_ref());
            self.coarse_ns += step_ns;
        }
        self.linkage.sync();
    }

    /// For a processor that is too slow for the mechanism: from the start on each call integrates in one step what has passed, `longest_ns` at most; more than that
    /// has not happened. So it does not fall behind farther and farther, and sees a mechanism that is rougher, and slow when it is slow itself.
    pub fn hurry(&mut self, longest_ns: u64) {
        self.coarse = Some(longest_ns);
    }

    /// Joint torques from now on, N·m.
    pub fn set_torque(&mut self, torque: Vec3) {
        self.torque = torque;
    }

    /// Joint angles, rad.
    pub fn joints(&self) -> Vec3 {
        self.linkage.state.joints
    }

    /// Tool point, device frame, m.
    pub fn tip(&self) -> Vec3 {
        self.linkage.state.tip
    }
}
