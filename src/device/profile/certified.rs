//! What a device dissipates for certain, and what that alone makes of its stiffness.

use super::Profile;
use super::at_tool::AtTool;
use crate::device::kinematics::Kinematics;

/// Least friction of the driven coordinates: joints, or the six Cartesian ones of a device without. 0 = unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Certified {
    /// Viscous damping, N·m·s/rad (N·s/m along x, y, z of a device without joints).
    pub damping: [f64; 6],
    /// Coulomb friction, N·m (N).
    pub coulomb: [f64; 6],
}

/// What the certified friction covers at the tool point in the middle of the workspace, in the worst direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Covered {
    /// Damping at the tool, N·s/m.
    pub damping: f64,
    /// Friction at the tool, N.
    pub friction: f64,
    /// Stiffness that the energy bound lets be felt beyond the friction, N/m.
    pub stiffness: f64,
}

impl Profile {
    /// Which of the coordinates of [`Certified`] a motor drives.
    pub fn driven_ports(&self) -> [bool; 6] {
        match self.kinematics {
            Kinematics::Ideal => self.actuated,
            Kinematics::Delta(_) | Kinematics::Serial3R(_) => {
                let on = self.actuated[0] || self.actuated[1] || self.actuated[2];
                [on, on, on, false, false, false]
            }
        }
    }

    /// True when the damping of every driven coordinate is certified.
    pub fn certifiable(&self) -> bool {
        let driven = self.driven_ports();
        let mut all = driven.iter().zip(&self.certified.damping).filter(|(on, _)| **on).peekable();
        all.peek().is_some() && all.all(|(_, b)| *b > 0.0)
    }

    /// What the certified friction covers with a servo period of `period` s; `None` for a device that is not certifiable or
    /// singular in the middle of its workspace. Not real-time.
    ///
    /// Pressing to F against a stiffness K puts F^2/2K into the account; the n + 1 commands that are not accounted for (n
    /// samples of delay) hold back F' B^-1 F T/4 each with B the damping at the tool, so K <= 2 b/((n + 1) T) with b the
    /// smallest eigenvalue of B.
    pub fn covered(&self, period: f64) -> Option<Covered> {
        if !self.certifiable() {
            return None;
        }
        let first = |v: &[f64; 6]| [v[0], v[1], v[2]];
        let tool = AtTool::new(self)?;
        let damping = tool.damping(&first(&self.certified.damping));
        let friction = tool.friction(&first(&self.certified.coulomb));
        let waiting = f64::from(self.transport.read_delay + self.transport.write_delay + 1);
        Some(Covered { damping, friction, stiffness: 2.0 * damping / (waiting * period) })
    }
}

#[cfg(test)]
mod tests {
    use crate::device::registry::Registry;

    #[test]
    fn the_ideal_device_covers_what_the_formula_says_and_guesses_cover_nothing() {
        let registry = Registry::builtin();
        let ideal = registry.profile("ideal-6dof").expect("shipped");
        let covered = ideal.covered(1e-3).expect("defined");
        assert!((covered.stiffness - 200.0).abs() < 1e-9, "2 b/T: {covered:?}");
        assert_eq!(covered.friction, 0.0);
        for profile in registry.profiles() {
            // A number that its own source calls a guess certifies nothing.
            let guessed =
                profile.sources.iter().any(|(key, s)| key == "friction.viscous" && s.contains("guess"));
            assert!(!(guessed && profile.certifiable()), "{}", profile.name);
            assert_eq!(profile.covered(1e-3).is_some(), profile.certifiable(), "{}", profile.name);
        }
    }

    #[test]
    fn a_premium_s_friction_is_what_its_publication_says_at_the_tool() {
        // About 0.05 N at the tip (research on mahilab/Phantom: 0.01 N m over links of about 0.2 m).
        let registry = Registry::builtin();
        let covered =
            registry.profile("phantom-premium-1.5").expect("shipped").covered(1e-3).expect("published");
        assert!((0.03..0.06).contains(&covered.friction), "{covered:?}");
        // 5e-4 N m s/rad over 0.17 to 0.22 m.
        assert!((0.009..0.018).contains(&covered.damping), "{covered:?}");
        assert!((covered.stiffness - 2000.0 * covered.damping).abs() < 1e-9);
    }
}
