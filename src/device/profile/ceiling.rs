//! The stiffness that a device's own figures bear: its mass, damping, resolution and friction, its delay and rate.
//!
//! A contact of stiffness K is damped with tau K, tau the larger of [`LEAST_DAMPED`] (T/2 + t_d) and B/2K_max, and not more than B, the most that the
//! profile allows (the servo's presets). The free device under it is the linear loop of docs/stability.md: a mass m with damping b, zero-order
//! hold, backward difference, the delay on the whole force. It is stable where the spectral radius of one period's step is below 1. (K < (b + B)/(T/2 +
//! t_d), Hulin, Gil and others, 10.1109/TCST.2013.2283372, is what that comes to where B T/m is small.)

use super::at_tool::AtTool;
use super::{Profile, SAMPLE_PERIOD_NS};
use crate::device::dynamics::Inertia;
use nalgebra::DMatrix;

/// Damping time of a contact over half a period and the delay, at least.
pub(crate) const LEAST_DAMPED: f64 = 1.5;
/// The loop is to be stable with so much more stiffness, at the same damping.
const MARGIN: f64 = 1.1;
/// Force that an encoder's count may move beyond twice what friction holds still, N: the ripple that contacts may have, to both sides.
const RIPPLE: f64 = 0.05;
/// Stiffest contact of which it is asked whether it is stable, N/m.
const MOST: f64 = 1e5;
/// Softer contacts that are to be stable too, as parts of the stiffest.
const SOFTER: [f64; 4] = [1.0, 0.5, 0.2, 0.05];
/// Largest entry of a step whose eigenvalues are sought.
const LARGE: f64 = 1e6;
/// Steps of the search downwards.
const STEP: f64 = 0.98;

/// Mass (kg), b (N·s/m), B (N·s/m), and the exact limits of the sampled loop (N/m) for a delay of 0, 1 and 2 samples: eigenvalues with hold and
/// backward difference, no hand, 1 kHz, by another program. What the loop that ships, and [`Profile::ceiling`], are held against.
pub const EXACT_LIMITS: [(f64, f64, f64, [f64; 3]); 8] = [
    (0.1, 0.1, 0.0, [200.0, 66.7, 40.0]),
    (0.1, 0.5, 0.0, [1000.8, 333.8, 200.4]),
    (0.1, 1.0, 0.0, [2003.3, 668.5, 401.7]),
    (0.1, 0.1, 1.0, [2178.5, 725.4, 434.0]),
    (0.1, 0.1, 5.0, [9704.0, 3211.0, 1895.0]),
    (0.1, 0.1, 20.0, [32_900.0, 10_379.0, 5597.0]),
    (0.25, 1.0, 5.0, [11_771.0, 3916.0, 2337.0]),
    (1.0, 2.0, 10.0, [23_769.0, 7916.0, 4737.0]),
];

/// What bounds the stiffness of a contact at the tool in the middle of the workspace, in the worst direction, N/m.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceiling {
    /// What the profile states.
    pub stated: f64,
    /// The stiffest contact of which the loop without a hand is stable, at the profile's delay and the sample period; 100,000 where that
    /// is more.
    pub damped: f64,
    /// What one count of an encoder moves by no more than twice the friction and a ripple that nobody feels (K <= 2 f_c/D: Abbott and
    /// Okamura 2005); infinite without encoders.
    pub resolved: f64,
}

impl Ceiling {
    /// The least of the three, N/m.
    pub fn stiffness(&self) -> f64 {
        self.stated.min(self.damped).min(self.resolved)
    }

    /// Why it is less than what the profile states; `None` where it is not.
    pub fn lowered(&self) -> Option<String> {
        let Self { stated, damped, .. } = *self;
        let why = match self.stiffness() {
            k if k >= stated => return None,
            k if k >= damped => "what its mass, damping and delay keep stable",
            _ => "what its encoders' counts and its friction keep quiet",
        };
        Some(format!("{stated:.0} N/m as stated, {:.0} N/m is {why}", self.stiffness()))
    }
}

/// One coordinate of the device, free but for a contact.
#[derive(Clone, Copy, Debug)]
struct Free {
    /// kg, or kg·m².
    mass: f64,
    /// N·s/m, or N·m·s/rad.
    damping: f64,
    /// Most damping of a contact.
    most: f64,
    /// Samples from sense to force.
    delay: usize,
}

impl Free {
    /// The spectral radius of one period's step under stiffness `k` and damping `b` is below 1.
    fn stable(&self, k: f64, b: f64) -> bool {
        const T: f64 = SAMPLE_PERIOD_NS as f64 * 1e-9;
        // State: place, speed, then the places read before. Exact under a force that stands for a period.
        let Self { mass, damping, delay, .. } = *self;
        let z = damping * T / mass;
        // How far a speed reaches in a period, over it, and how far a force does, over half its push: 1 without damping.
        let (slowed, bent) = match z > 1e-3 {
            true => (-(-z).exp_m1() / z, 2.0 * (z + (-z).exp_m1()) / (z * z)),
            false => (1.0 - z / 2.0 + z * z / 6.0, 1.0 - z / 3.0 + z * z / 12.0),
        };
        let (decay, reach, push, far) =
            ((-z).exp(), T * slowed, T / mass * slowed, 0.5 * T * T / mass * bent);
        let n = 3 + delay;
        let mut step = DMatrix::<f64>::zeros(n, n);
        (step[(0, 0)], step[(0, 1)], step[(1, 1)]) = (1.0, reach, decay);
        // The place that the force goes by and the one before it: 0, 2, 3, ...
        let at = |ago: usize| if ago == 0 { 0 } else { 1 + ago };
        for (ago, gain) in [(delay, -(k + b / T)), (delay + 1, b / T)] {
            step[(0, at(ago))] += far * gain;
            step[(1, at(ago))] += push * gain;
        }
        for ago in 1..=delay + 1 {
            step[(at(ago), at(ago - 1))] = 1.0;
        }
        // What is so large is not stable, and its eigenvalues might not be found: those of a stable step are in the unit circle, and the
        // coefficients of their polynomial below 1000.
        step.iter().all(|e| e.abs() < LARGE) && step.complex_eigenvalues().iter().all(|e| e.norm() < 1.0)
    }

    /// Contacts up to `most` N/m are stable as the servo damps them.
    fn bears(&self, most: f64) -> bool {
        let least = LEAST_DAMPED * (0.5 + self.delay as f64) * SAMPLE_PERIOD_NS as f64 * 1e-9;
        let device = 0.5 * self.most / most;
        [least, least.max(device)].into_iter().all(|tau| {
            SOFTER
                .into_iter()
                .map(|part| part * most)
                .all(|k| self.stable(MARGIN * k, (tau * k).min(self.most)))
        })
    }

    /// The stiffest contact up to `stated` that it bears, within 2 %; 0 where it bears none.
    fn most(&self, stated: f64) -> f64 {
        let mut k = stated;
        while k > 1e-6 * stated && !self.bears(k) {
            k *= STEP;
        }
        if k > 1e-6 * stated { k } else { 0.0 }
    }
}

impl Profile {
    /// What bounds the stiffness of contacts. Not real-time.
    pub fn ceiling(&self) -> Ceiling {
        let (stated, resolved, free) = (self.stated_stiffness, self.resolved(), self.free());
        let asked = stated.min(resolved);
        let damped = free.map_or(asked, |f| match asked <= 0.0 || f.bears(asked) {
            true => f.most(MOST).max(asked),
            false => f.most(asked),
        });
        Ceiling { stated, damped, resolved }
    }

    /// What is rendered less stiff than the profile states, and why; empty where nothing is. Not real-time.
    pub fn lowered(&self) -> Vec<String> {
        let mut lowered = vec![];
        if self.max_stiffness < self.stated_stiffness {
            lowered.extend(self.ceiling().lowered());
        }
        let (stated, borne) = (self.stated_rot_stiffness, self.max_rot_stiffness);
        if borne < stated {
            let why = "what its inertia, damping and delay keep stable in rotation";
            lowered.push(format!("{stated:.1} N·m/rad as stated, {borne:.1} N·m/rad is {why}"));
        }
        lowered
    }

    /// [`Ceiling::stiffness`], without asking how much more than what is stated would be stable.
    pub(super) fn borne(&self) -> f64 {
        let asked = self.stated_stiffness.min(self.resolved());
        self.free().map_or(asked, |f| f.most(asked))
    }

    fn resolved(&self) -> f64 {
        let tool = AtTool::new(self);
        let count = tool.as_ref().map_or(0.0, |t| t.counts(self).into_iter().fold(0.0, f64::max));
        let held = tool.map_or(0.0, |t| t.friction(&self.dynamics.friction.coulomb));
        2.0 * (held + RIPPLE) / count
    }

    fn free(&self) -> Option<Free> {
        let tool = AtTool::new(self)?;
        Some(Free {
            mass: tool.mass(self),
            damping: tool.damping(&self.dynamics.friction.viscous),
            most: self.max_damping,
            delay: self.delay(),
        })
    }

    /// The same of turning, N·m/rad, at most what is stated: mass, damping and delay bound it.
    pub(super) fn rot_ceiling(&self) -> f64 {
        let Inertia::Ideal { rot_inertia, rot_viscous, .. } = self.dynamics.inertia else {
            return self.stated_rot_stiffness;
        };
        let turning =
            Free { mass: rot_inertia, damping: rot_viscous, most: self.max_rot_damping, delay: self.delay() };
        turning.most(self.stated_rot_stiffness)
    }

    /// Samples from sense to force.
    fn delay(&self) -> usize {
        (self.transport.read_delay + self.transport.write_delay) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::registry::Registry;

    const IDEAL: &str = include_str!("../../../devices/ideal-6dof.toml");

    /// A shipped device that states so much, N/m.
    fn stating(name: &str, stated_stiffness: f64) -> Profile {
        let shipped = Registry::builtin().profile(name).expect("shipped");
        Profile { stated_stiffness, ..(*shipped).clone() }
    }

    #[test]
    fn no_shipped_device_states_more_than_its_figures_bear() {
        for p in Registry::builtin().profiles() {
            let c = p.ceiling();
            println!("{}: {c:?}", p.name);
            assert_eq!((p.lowered(), p.max_stiffness), (vec![], p.stated_stiffness), "{}: {c:?}", p.name);
            assert_eq!(p.max_rot_stiffness, p.stated_rot_stiffness, "{}", p.name);
        }
    }

    #[test]
    fn the_loop_is_stable_up_to_the_exact_limits() {
        for (mass, damping, b, limits) in EXACT_LIMITS {
            for (delay, limit) in limits.into_iter().enumerate() {
                let free = Free { mass, damping, most: b, delay };
                let what = format!("{mass} {damping} {b} {delay}: {limit}");
                assert!(free.stable(0.998 * limit, b) && !free.stable(1.002 * limit, b), "{what}");
            }
        }
        // Numbers that make no sense, and next to no damping, are answered, and as their limit is.
        for mass in [1e-300, 1e-12, 1e300] {
            assert!(!Free { mass, damping: 1e-3, most: 1e9, delay: 8 }.stable(1e300, 1e9), "{mass}");
        }
        for damping in [1e-300, 1e-12, 1e-7, 1e-4] {
            let free = Free { mass: 0.1, damping, most: 1.0, delay: 0 };
            assert!(free.stable(1900.0, 1.0) && !free.stable(2100.0, 1.0), "{damping}");
        }
        // Without any damping it is stable nowhere.
        let bare = Free { mass: 0.1, damping: 0.0, most: 0.0, delay: 0 };
        assert_eq!(bare.most(1000.0), 0.0);
    }

    /// Light tools, much damping and long delays: where the damping itself makes it swing (B T/m is not small) less is borne, down to nothing.
    #[test]
    fn whatever_is_borne_comes_to_rest_with_softer_contacts_too() {
        let mut none = 0;
        for (mass, most, delay) in [0.05, 0.1, 0.3]
            .into_iter()
            .flat_map(|m| [1.0, 10.0, 30.0, 100.0].map(move |b| (m, b)))
            .flat_map(|(m, b)| [0, 2, 4, 8].map(move |d| (m, b, d)))
        {
            let free = Free { mass, damping: 0.1, most, delay };
            let k = free.most(1e5);
            none += u32::from(k == 0.0);
            let formula = (0.1 + most) / (1e-3 * (0.5 + delay as f64));
            assert!(k <= formula, "{free:?}: {k}, {formula}");
            // A place, half a second later: simulated step by step, not by eigenvalues.
            for part in [1.0, 0.7, 0.3, 0.1] {
                let c = part * k;
                let tau = (LEAST_DAMPED * (0.5 + delay as f64) * 1e-3).max(0.5 * most / k);
                let b = (tau * c).min(most);
                let (mut x, mut v, mut seen) = (1.0f64, 0.0f64, vec![1.0; delay + 2]);
                let mut worst = [0.0f64; 2];
                for tick in 0..40_000 {
                    seen.rotate_right(1);
                    seen[0] = x;
                    let f = -c * seen[delay] - b * (seen[delay] - seen[delay + 1]) / 1e-3;
                    let decay = (-0.1 * 1e-3 / mass).exp();
                    let reach = (1.0 - decay) * mass / 0.1;
                    x += v * reach + f * (1e-3 - reach) / 0.1;
                    v = v * decay + f * (1.0 - decay) / 0.1;
                    worst[usize::from(tick >= 20_000)] = worst[usize::from(tick >= 20_000)].max(x.abs());
                }
                assert!(k == 0.0 || worst[1] < 0.9 * worst[0], "{free:?} {part} of {k}: {worst:?}");
            }
        }
        assert!(none > 0, "some are so light that nothing is borne");
    }

    #[test]
    fn coarse_encoders_and_little_friction_bear_less() {
        let mut p = stating("phantom-premium-1.5", 1e4);
        let fine = p.ceiling();
        let step = p.counts_at_tool().into_iter().fold(0.0, f64::max);
        assert!((1e-5..5e-5).contains(&step), "{step} m: OpenHaptics states 0.03 mm");
        let encoders = p.encoders.as_mut().expect("has some");
        encoders.radians_per_count = encoders.radians_per_count.map(|c| -8.0 * c);
        assert!((p.ceiling().resolved - fine.resolved / 8.0).abs() < 1e-9 * fine.resolved);
        p.dynamics.friction.coulomb = [0.0; 3];
        let bare = p.ceiling();
        assert!((bare.resolved - 2.0 * RIPPLE / (8.0 * step)).abs() < 1e-9 * bare.resolved, "{bare:?}");
        assert_eq!(bare.stiffness(), bare.resolved);
        assert!(bare.lowered().is_some_and(|w| w.contains("encoders")), "{bare:?}");
        assert_eq!(stating("ideal-6dof", 1.0).ceiling().resolved, f64::INFINITY, "reads without steps");
    }

    fn read(from: &str, to: &str) -> Result<Profile, crate::device::profile::ProfileError> {
        assert!(IDEAL.contains(from), "{from}");
        Profile::parse("mine.toml", &IDEAL.replace(from, to))
    }

    #[test]
    fn more_than_it_bears_is_lowered_when_a_profile_is_read() {
        let bold =
            read("max_stiffness = { value = 4000.0", "max_stiffness = { value = 400000.0").expect("sound");
        let c = bold.ceiling();
        assert_eq!((bold.stated_stiffness, bold.max_stiffness), (400_000.0, c.stiffness()));
        // (b + B) / (T/2) is 60,200 N/m.
        assert!((20_000.0..60_200.0).contains(&c.damped), "{c:?}");
        assert!(c.lowered().is_some_and(|w| w.contains("damping")), "{c:?}");
        let turned =
            read("max_rot_stiffness = { value = ", "max_rot_stiffness = { value = 9000").expect("sound");
        assert!(
            turned.stated_rot_stiffness > 9000.0 && (10.0..140.0).contains(&turned.max_rot_stiffness),
            "{}",
            turned.max_rot_stiffness
        );
        assert!(turned.lowered().iter().any(|l| l.contains("in rotation")), "{:?}", turned.lowered());
    }

    #[test]
    fn what_pushes_or_turns_without_damping_is_refused() {
        let none = IDEAL.replace("max_damping = { value = 30.0", "max_damping = { value = 0.0");
        let none = none.replace("viscous = { value = [0.1, 0.1, 0.1]", "viscous = { value = [0.0, 0.0, 0.0]");
        let e = Profile::parse("mine.toml", &none).expect_err("nothing is stable");
        assert!(e.message.contains("limits.max_damping") && e.line > 10, "{e:?}");
        let none = IDEAL.replace("max_rot_damping = { value = 0.07", "max_rot_damping = { value = 0.0");
        let none = none.replace("rot_viscous = { value = 1e-4", "rot_viscous = { value = 0.0");
        let e = Profile::parse("mine.toml", &none).expect_err("nothing is stable");
        assert!(e.message.contains("limits.max_rot_damping") && e.line > 10, "{e:?}");
    }
}
