//! The loop's delay as it is, and what it leaves of the device's stiffness.
//!
//! A sampled contact is stable for K < (b + B)/(T/2 + t_d), with t_d the delay from the device's sense to its force (Hulin, Gil
//! and others, 10.1109/TCST.2013.2283372): at the same damping, what is stable falls with T/2 + t_d. A profile's stiffness and
//! damping hold for the delay that the profile states. Where the loop is slower - the device's own measurement says so, or the
//! ticks begin late because the machine's real-time set-up is poor - both are lowered in that proportion, and the contact's
//! damping time follows the delay. They come back as the loop recovers. A servo period longer than the profile's own counts likewise,
//! and where the real-time set-up falls short of what was asked for, ticks count as half a period late before any was.

#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used
    )
)]

use super::config::ServoConfig;
use crate::device::io::seldom::seldom_exceeded;
use crate::device::profile::{Profile, SAMPLE_PERIOD_NS};
use crate::haptics::coupling::{self, Caps, Preset};

/// Lateness of a tick that does not count, in periods: the real-time set-up of a sound machine.
const TOLERATED: f64 = 0.1;
/// Lateness that is expected of a thread without its real-time set-up, in periods.
const DEGRADED: f64 = 0.5;
/// Step of the lateness that one tick of twenty exceeds, ns.
const STEP: u64 = 5000;
/// Longest delay that is told apart, s.
const MOST: f64 = 0.05;

/// What the device renders stably with the loop as it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoopDelay {
    dt: f64,
    /// Delay that the profile states, s.
    stated: f64,
    /// T/2 + t_d at which the profile's limits hold, s.
    sound: f64,
    /// Lateness that counts whatever is measured, s.
    expected: f64,
    /// What the profile allows at that delay.
    profile: Caps,
    /// Damping time at that delay, s; a configured one stays as it is.
    tau: f64,
    configured: bool,
    /// Lateness that one tick of twenty exceeds, ns.
    late: u64,
    /// Delay that counts, s.
    delay: f64,
}

impl LoopDelay {
    /// Of a device with this profile.
    pub(super) fn new(config: &ServoConfig, profile: &Profile) -> Self {
        let dt = config.dt();
        let ticks = f64::from(profile.transport.read_delay + profile.transport.write_delay);
        let stated = ticks * dt;
        let part = config.coupling.preset.part();
        let caps = Caps {
            stiffness: part * profile.max_stiffness,
            rot_stiffness: part * profile.max_rot_stiffness,
            damping: profile.max_damping,
            rot_damping: profile.max_rot_damping,
            actuated: profile.actuated,
        };
        let tau = match config.coupling.preset {
            Preset::Crisp => coupling::least_damping_time(dt, stated),
            Preset::Soft | Preset::Normal => coupling::damping_time(dt, stated, &caps),
        };
        let configured = config.damping_time.is_some();
        let tau = config.damping_time.unwrap_or(tau);
        let sound = (0.5 + ticks) * SAMPLE_PERIOD_NS as f64 * 1e-9;
        Self { dt, stated, sound, expected: 0.0, profile: caps, tau, configured, late: 0, delay: stated }
    }

    /// The real-time set-up is as asked for, or not.
    pub(super) fn degraded(&mut self, degraded: bool) {
        self.expected = if degraded { DEGRADED * self.dt } else { 0.0 };
        self.delay = self.stated + self.expected;
    }

    /// Takes note of a tick that began so late, ns, and of what the device measures, ns, where it does.
    pub(super) fn step(&mut self, late_ns: i64, measured_ns: Option<u64>) {
        self.late = seldom_exceeded(self.late, late_ns.max(0).cast_unsigned(), STEP);
        let excess = (self.late as f64 * 1e-9 - TOLERATED * self.dt).max(self.expected);
        let measured = measured_ns.map_or(0.0, |ns| ns as f64 * 1e-9);
        self.delay = (self.stated + excess).max(measured).min(MOST.max(self.stated));
    }

    /// From the device's sense to its force, s.
    pub(super) fn seconds(&self) -> f64 {
        self.delay
    }

    /// The part of the profile's stiffness and damping that is left, above 0, at most 1.
    pub(super) fn part(&self) -> f64 {
        (self.sound / (0.5 * self.dt + self.delay)).min(1.0)
    }

    /// What is left of the profile's limits.
    pub(super) fn caps(&self) -> Caps {
        let (part, p) = (self.part(), &self.profile);
        Caps {
            stiffness: part * p.stiffness,
            rot_stiffness: part * p.rot_stiffness,
            damping: part * p.damping,
            rot_damping: part * p.rot_damping,
            actuated: p.actuated,
        }
    }

    /// Damping time of a contact, s.
    pub(super) fn tau(&self) -> f64 {
        if self.configured {
            self.tau
        } else {
            self.tau.max(coupling::least_damping_time(self.dt, self.delay))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::registry::Registry;

    fn of(name: &str, config: &ServoConfig) -> LoopDelay {
        LoopDelay::new(config, &Registry::builtin().profile(name).expect("shipped"))
    }

    /// What a profile may state counts with the damping that contacts have.
    #[test]
    fn the_ceiling_knows_the_least_damping_time() {
        use crate::device::profile::LEAST_DAMPED;
        for delay in [0.0, 2e-3] {
            assert_eq!(coupling::least_damping_time(1e-3, delay), LEAST_DAMPED * (0.5e-3 + delay));
        }
    }

    #[test]
    fn a_loop_as_the_profile_states_leaves_everything_as_it_is() {
        for name in ["ideal-6dof", "novint-falcon", "phantom-omni", "woodenhaptics-v2015"] {
            let mut delay = of(name, &ServoConfig::default());
            let (caps, tau) = (delay.profile, delay.tau);
            let stated = (delay.stated * 1e9) as u64;
            // Ticks that wake some hundredths of a millisecond late, one of thirty by much more.
            for k in 0..20_000 {
                delay.step(if k % 30 == 0 { 2_000_000 } else { 60_000 }, Some(stated));
            }
            assert_eq!((delay.caps(), delay.tau(), delay.part()), (caps, tau, 1.0), "{name}");
        }
    }

    /// T/2 + t_d goes from 0.5 to 2.5 ms.
    #[test]
    fn a_measured_delay_lowers_the_caps_in_proportion() {
        let mut delay = of("ideal-6dof", &ServoConfig::default());
        delay.step(0, Some(2_000_000));
        assert!((delay.part() - 0.2).abs() < 1e-12);
        assert!((delay.caps().stiffness - 800.0).abs() < 1e-9 && (delay.caps().damping - 6.0).abs() < 1e-9);
        // Damped as stability at that delay asks for.
        assert!(delay.tau() >= 1.5 * 2.5e-3);
        delay.step(0, Some(u64::MAX));
        assert!(delay.seconds() <= MOST && delay.part() > 0.0);
        delay.step(0, Some(0));
        assert_eq!(delay.part(), 1.0);
    }

    #[test]
    fn ticks_that_are_often_late_count_as_delay_and_are_forgotten() {
        let mut delay = of("ideal-6dof", &ServoConfig::default());
        // Every tenth tick comes 1.1 ms late: a millisecond beyond what is tolerated.
        for k in 0..20_000 {
            delay.step(if k % 10 == 0 { 1_100_000 } else { 0 }, None);
        }
        assert!((delay.seconds() - 1e-3).abs() < 2e-5, "{}", delay.seconds());
        assert!((delay.caps().stiffness - 4000.0 / 3.0).abs() < 40.0);
        let mut last = delay.part();
        for _ in 0..8000 {
            delay.step(20_000, None);
            let now = delay.part();
            // Without a step that a hand would feel.
            assert!(now >= last && now - last < 2e-3);
            last = now;
        }
        assert_eq!(last, 1.0);
    }

    /// (b + B) / (T/2 + t_d): twice the period halves what is stable, whatever the delay in samples; half of it adds nothing that
    /// the profile does not promise.
    #[test]
    fn a_longer_period_lowers_the_caps_in_proportion() {
        for name in ["ideal-6dof", "novint-falcon", "phantom-omni"] {
            let full = of(name, &ServoConfig::default()).caps().stiffness;
            for (period, part) in [
                (SAMPLE_PERIOD_NS / 2, 1.0),
                (SAMPLE_PERIOD_NS, 1.0),
                (2 * SAMPLE_PERIOD_NS, 0.5),
                (4 * SAMPLE_PERIOD_NS, 0.25),
            ] {
                let config = ServoConfig { period_ns: period, ..ServoConfig::default() };
                let mut delay = of(name, &config);
                delay.step(0, None);
                assert!((delay.caps().stiffness / full - part).abs() < 1e-12, "{name}: {period} ns");
                assert!(
                    delay.tau() >= 1.5 * (0.5 * period as f64 * 1e-9 + delay.stated),
                    "{name}: {period} ns"
                );
            }
        }
    }

    #[test]
    fn a_poor_real_time_set_up_counts_before_any_tick_is_late() {
        let mut delay = of("ideal-6dof", &ServoConfig::default());
        delay.degraded(true);
        for late in [0, 300_000] {
            delay.step(late, None);
            assert!((delay.part() - 0.5).abs() < 1e-12, "half a millisecond beside half a millisecond");
        }
        // What is later still counts as it is.
        (0..20_000).for_each(|_| delay.step(1_100_000, None));
        assert!((delay.part() - 1.0 / 3.0).abs() < 0.01, "{}", delay.part());
        delay.degraded(false);
        (0..20_000).for_each(|_| delay.step(0, None));
        assert_eq!(delay.part(), 1.0);
    }

    #[test]
    fn a_configured_damping_time_stays() {
        let config = ServoConfig { damping_time: Some(1e-3), ..ServoConfig::default() };
        let mut delay = of("ideal-6dof", &config);
        delay.step(0, Some(5_000_000));
        assert_eq!(delay.tau(), 1e-3);
        assert!(delay.part() < 0.1);
    }
}
