//! `[limits]`: what guards the hand.

use super::source::{SourceError, Table};

/// What the energy guard does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Energy {
    /// What the device's profile names.
    #[default]
    Profile,
    /// No account.
    Off,
    /// The account is kept and shown.
    Observe,
    /// The force is lowered to what the account covers.
    Certified,
    /// Debt is damped away.
    Controller,
}

/// `[limits]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// N.
    pub force_n: f64,
    /// N·m.
    pub torque_nm: f64,
    /// m/s.
    pub velocity_m_s: f64,
    /// rad/s.
    pub angular_velocity_rad_s: f64,
    /// Workspace radii.
    pub workspace_factor: f64,
    /// N/s.
    pub slew_n_s: f64,
    /// N·m/s.
    pub slew_nm_s: f64,
    /// Energy guard.
    pub energy: Energy,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            force_n: 10.0,
            torque_nm: 0.5,
            velocity_m_s: 2.0,
            angular_velocity_rad_s: 30.0,
            workspace_factor: 3.0,
            slew_n_s: 2000.0,
            slew_nm_s: 100.0,
            energy: Energy::Profile,
        }
    }
}

impl Limits {
    pub(super) fn read(t: &Table<'_>) -> Result<Self, SourceError> {
        let d = Self::default();
        Ok(Self {
            force_n: t.within("force_n", d.force_n, 0.001..=100.0)?,
            torque_nm: t.within("torque_nm", d.torque_nm, 0.0001..=10.0)?,
            velocity_m_s: t.within("velocity_m_s", d.velocity_m_s, 0.01..=20.0)?,
            angular_velocity_rad_s: t.within(
                "angular_velocity_rad_s",
                d.angular_velocity_rad_s,
                0.1..=200.0,
            )?,
            workspace_factor: t.within("workspace_factor", d.workspace_factor, 0.1..=10.0)?,
            slew_n_s: t.within("slew_n_s", d.slew_n_s, 1.0..=1e6)?,
            slew_nm_s: t.within("slew_nm_s", d.slew_nm_s, 0.01..=1e5)?,
            energy: energy(t)?,
        })
    }
}

fn energy(t: &Table<'_>) -> Result<Energy, SourceError> {
    match t.opt::<String>("energy")?.as_deref() {
        None | Some("profile") => Ok(Energy::Profile),
        Some("observe") => Ok(Energy::Observe),
        Some("off") => Ok(Energy::Off),
        Some("certified") => Ok(Energy::Certified),
        Some("controller") => Ok(Energy::Controller),
        Some(word) => Err(t.error(
            "energy",
            format!(
                "'{word}' is none of \"profile\", \"off\", \"observe\", \"controller\" and \"certified\""
            ),
        )),
    }
}
