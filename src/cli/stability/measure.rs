//! What is measured: the stiffness at which a loop begins to shake, what is felt, how a free device bounces.

use super::rig::{Rig, Walls, config};
use crate::device::DeviceError;
use crate::device::profile::Profile;
use crate::device::simulated::{Hand, HandScript};
use crate::haptics::guard::energy::EnergyGuard;
use crate::servo::handle::ServoConfig;
use crate::servo::record::ServoState;
use serde::Serialize;
use std::sync::Arc;

/// Speed of the first push, m/s.
const PUSH: f64 = 0.05;
/// Motion that nobody feels, m: less is rest.
pub(super) const REST: f64 = 3e-5;
/// Range in which the stiffness is looked for, N/m.
const RANGE: (f64, f64) = (20.0, 2e5);
/// Ticks that are watched, and watched once more, where a period is not known.
pub(super) const WINDOW: usize = 2000;
/// Parts of a profile's damping at which the border is looked for.
pub(super) const PARTS: [f64; 6] = [0.0, 0.0625, 0.125, 0.25, 0.5, 1.0];

/// The profile with no cap of its own on stiffness and damping.
pub(super) fn uncapped(profile: &Profile) -> Arc<Profile> {
    let mut profile = profile.clone();
    profile.max_stiffness = 1e12;
    profile.max_rot_stiffness = 1e12;
    profile.max_damping = 1e12;
    profile.max_rot_damping = 1e12;
    Arc::new(profile)
}

fn held(hand: Hand) -> HandScript {
    HandScript { hand, ..HandScript::default() }
}

/// Does a push between two walls, together of stiffness `k`, damped with `damping`, go on shaking? `window` ticks long each,
/// the second of two windows is compared with the first; `rest` is motion that does not count, m.
pub(super) fn shakes(
    profile: &Arc<Profile>,
    (hand, energy): (Hand, EnergyGuard),
    damping: f64,
    k: f64,
    window: usize,
    rest: f64,
) -> Result<bool, DeviceError> {
    let config = ServoConfig {
        damping_time: Some((damping / k).min(1.0)),
        energy: Some(energy),
        max_velocity: 1e3,
        ..config()
    };
    let mut rig = Rig::new(profile, held(hand), PUSH, config, Walls::Between(k, 0.02))?;
    let mut deviation = |ticks: usize| {
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..ticks {
            let r = rig.step();
            // Swung out of one of the walls, into which it is pressed by 2 cm.
            if r.state == ServoState::Fault || r.touched < 2 {
                return f64::INFINITY;
            }
            sum += r.position[1];
            squares += r.position[1] * r.position[1];
        }
        let n = ticks as f64;
        (squares / n - (sum / n).powi(2)).max(0.0).sqrt()
    };
    let (before, after) = (deviation(window), deviation(window));
    Ok(after > rest && after >= 0.995 * before)
}

/// Steps of the search upwards. Far beyond the limit a device may seem at rest again: stuck in its friction, its motors
/// saturated. So the first stiffness that shakes is looked for, not any.
const STEP: f64 = 1.5;

/// The last stiffness that does not shake and the first that does, N/m, within 1 %; both the range's end where nothing does.
pub(super) fn border(
    mut shakes: impl FnMut(f64) -> Result<bool, DeviceError>,
) -> Result<(f64, f64), DeviceError> {
    let (mut low, mut high) = (RANGE.0, RANGE.0 * STEP);
    while !shakes(high)? {
        if high >= RANGE.1 {
            return Ok((high, high));
        }
        (low, high) = (high, (high * STEP).min(RANGE.1));
    }
    while high / low > 1.01 {
        let middle = (low * high).sqrt();
        if shakes(middle)? {
            high = middle;
        } else {
            low = middle;
        }
    }
    Ok((low, high))
}

/// Stiffness below which everything comes to rest, N/m, within 1 %; the range's ends where there is none.
pub(super) fn stable(
    profile: &Arc<Profile>,
    held: (Hand, EnergyGuard),
    damping: f64,
    window: impl Fn(f64) -> usize,
    rest: f64,
) -> Result<f64, DeviceError> {
    border(|k| shakes(profile, held, damping, k, window(k), rest)).map(|(low, _)| low)
}

/// One device's stable stiffness at one damping.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Limit {
    /// N·s/m.
    pub damping: f64,
    /// Without a hand, N/m.
    pub nobody: f64,
    /// In a relaxed hand, N/m.
    pub normal: f64,
    /// The same with [`EnergyGuard::Controller`].
    pub controller: f64,
    /// The same with [`EnergyGuard::Certified`], where the profile certifies something: that it rests, not that it is felt so stiff.
    pub certified: Option<f64>,
}

/// The border of the Z-width: from no virtual damping to what the profile allows, with and without a guard.
pub(super) fn width(profile: &Profile) -> Result<Vec<Limit>, DeviceError> {
    let bounded = profile.covered(1e-3).is_some();
    let most = profile.max_damping;
    let free = uncapped(profile);
    let limit = |part: f64| {
        let damping = part * most;
        let of = |hand, guard| stable(&free, (hand, guard), damping, |_| WINDOW, REST);
        Ok(Limit {
            damping,
            nobody: of(Hand::NONE, EnergyGuard::Off)?,
            normal: of(Hand::NORMAL, EnergyGuard::Off)?,
            controller: of(Hand::NORMAL, EnergyGuard::Controller)?,
            certified: bounded.then(|| of(Hand::NORMAL, EnergyGuard::Certified)).transpose()?,
        })
    };
    PARTS.into_iter().map(limit).collect()
}

/// What a wall of the profile's largest stiffness is like.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Felt {
    /// Force over depth where a relaxed hand rests, the mechanism's own weight left out, N/m.
    pub stiffness: f64,
    /// Force there, N.
    pub force: f64,
    /// It did not come to rest.
    pub shakes: bool,
    /// True speed after over true speed before of a free device that meets it at 0.1 m/s; 0 when it stays there.
    pub restitution: f64,
    /// Largest force in that bounce, N.
    pub peak: f64,
    /// Deepest there, m.
    pub depth: f64,
}

/// Presses a relaxed hand into a wall of stiffness `k`, and lets a free device fall on it, as shipped but for the guard and, where it is
/// said, the damping time of contacts, s.
pub(super) fn felt(
    profile: &Profile,
    energy: EnergyGuard,
    k: f64,
    damping_time: Option<f64>,
) -> Result<Felt, DeviceError> {
    let profile = Arc::new(profile.clone());
    let config = || ServoConfig { energy: Some(energy), damping_time, ..config() };
    let hand = "hand = 'normal'\nkeyframe = [{ time = 0.0, position = [0, 0, 0] }, { time = 0.5, position = [0, 0, 0] },\n\
                { time = 1.5, position = [0, -0.015, 0] }]\n";
    let hand = HandScript::parse(hand).map_err(|e| DeviceError::Driver(e.to_string()))?;
    let mut rig = Rig::new(&profile, hand, 0.0, config(), Walls::Below(k, 1e-3))?;
    // What holds the mechanism against its own weight, before the hand begins to move.
    let (mut weight, mut force, mut depth) = (0.0, 0.0, 0.0);
    let (mut low, mut high) = (f64::MAX, f64::MIN);
    for tick in 0..3500 {
        let r = rig.step();
        if (200..450).contains(&tick) {
            weight += r.applied_force[1] / 250.0;
        }
        if tick >= 3000 {
            force += r.applied_force[1] / 500.0;
            depth += r.depth / 500.0;
            (low, high) = (low.min(r.position[1]), high.max(r.position[1]));
        }
    }
    force -= weight;
    let shakes = high - low > 4.0 * REST;
    let stiffness = if depth > 0.0 { force / depth } else { 0.0 };
    let mut rig = Rig::new(&profile, HandScript::default(), -0.1, config(), Walls::Below(k, 5e-4))?;
    let mut out = Felt { stiffness, force, shakes, restitution: 0.0, peak: 0.0, depth: 0.0 };
    let (mut arriving, mut touched, mut weight) = (0.0f64, false, 0.0);
    // From the last force that there was until what is on its way has come it may still gain speed.
    let late = profile.transport.read_delay + profile.transport.write_delay;
    let mut free = 0;
    for _ in 0..2000 {
        let r = rig.step();
        let leaving = rig.motion()[1];
        if r.touched > 0 {
            (touched, free) = (true, 0);
            out.peak = out.peak.max(r.applied_force[1] - weight);
            out.depth = out.depth.max(r.depth);
        } else if touched {
            out.restitution = out.restitution.max(leaving / arriving.max(1e-9));
            if free > late {
                return Ok(out);
            }
            free += 1;
        } else {
            (arriving, weight) = (-leaving, r.applied_force[1]);
        }
    }
    // It stays there.
    Ok(Felt { restitution: 0.0, ..out })
}
