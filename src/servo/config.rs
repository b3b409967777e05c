//! The servo's own settings. They come from the daemon's configuration; a client may lower limits, never raise them.

use crate::haptics::coupling::Coupling;
use crate::haptics::guard::energy::EnergyGuard;

/// Everything that the servo is told once, before it starts. SI units.
#[derive(Clone, Debug, PartialEq)]
pub struct ServoConfig {
    /// Period of the tick, ns.
    pub period_ns: u64,
    /// Work units that the contact queries of one tick may spend together; 0 = unlimited.
    pub budget_units: u32,
    /// Wall-clock guard of the contact queries, ns from the start of the tick; counted when it bites. Ignored on the
    /// virtual clock.
    pub deadline_ns: Option<u64>,

    /// Largest force, N. The device's own limit holds as well.
    pub max_force: f64,
    /// Largest torque, N·m. The device's own limit holds as well.
    pub max_torque: f64,
    /// Speed of the device's tool point that counts as a fault, m/s.
    pub max_velocity: f64,
    /// Rotation speed that counts as a fault, rad/s.
    pub max_angular_velocity: f64,
    /// Distance of the tool point from the device's origin that counts as a fault, in workspace radii of the profile.
    pub workspace_factor: f64,
    /// Fastest growth of a force component, N/s. Decreases are never slowed.
    pub slew_force: f64,
    /// Fastest growth of a torque component, N·m/s.
    pub slew_torque: f64,

    /// How device and tool hang together.
    pub coupling: Coupling,
    /// What the energy guard does. `None` = the strictest that keeps nearly all of the device's stable stiffness
    /// ([`Kept::strictest`](crate::device::profile::Kept::strictest)).
    pub energy: Option<EnergyGuard>,
    /// Damping time of the coupling, s: a contact of stiffness K is damped with this times K. `None` = what the profile
    /// allows ([`damping_time`](crate::haptics::coupling::damping_time)).
    pub damping_time: Option<f64>,

    /// Arming waits until the wanted force is below this, N.
    pub gate_force: f64,
    /// Arming waits until the wanted torque is below this, N·m.
    pub gate_torque: f64,
    /// For so many ticks in a row.
    pub gate_ticks: u32,
    /// Then the force fades in over this time, s.
    pub ramp_up: f64,
    /// Time over which the force ramps down when it is taken away, s (0.02..=0.05), and back up after stale
    /// samples that took all of it, unless another lapse began less than `ramp_up` before; else it comes back
    /// over up to `ramp_up`.
    pub ramp_down: f64,
    /// Time over which a changed object that the tool touches fades in, s.
    pub fade: f64,
    /// Button bits of which one must be held for any force; 0 = none.
    pub deadman: u32,

    /// A sample older than this many ticks ramps the force down.
    pub stale_ticks: u32,
    /// Samples stale for this long are a fault, s.
    pub stale_fault: f64,
    /// Arming grants this much time before the first lease renewal, s.
    pub lease: f64,
    /// So many late ticks in a row are a fault.
    pub late_in_row: u32,
    /// So many late ticks within a second are a fault.
    pub late_per_second: u32,
    /// A single gap between ticks longer than this is a fault (the process was stopped), s.
    pub max_gap: f64,

    /// Records that the telemetry ring holds.
    pub telemetry_ring: usize,
    /// Commands that the command ring holds.
    pub command_ring: usize,
    /// Values that each return ring holds.
    pub return_ring: usize,
}

impl Default for ServoConfig {
    fn default() -> Self {
        Self {
            period_ns: 1_000_000,
            budget_units: 0,
            deadline_ns: Some(600_000),
            max_force: f64::INFINITY,
            max_torque: f64::INFINITY,
            max_velocity: 2.0,
            max_angular_velocity: 30.0,
            workspace_factor: 3.0,
            slew_force: 2_000.0,
            slew_torque: 100.0,
            coupling: Coupling::default(),
            energy: None,
            damping_time: None,
            gate_force: 0.2,
            gate_torque: 0.01,
            gate_ticks: 50,
            ramp_up: 0.3,
            ramp_down: 0.03,
            fade: 0.2,
            deadman: 0,
            stale_ticks: 2,
            stale_fault: 0.25,
            lease: 0.5,
            late_in_row: 20,
            late_per_second: 200,
            max_gap: 0.25,
            telemetry_ring: 4096,
            command_ring: 64,
            return_ring: 16,
        }
    }
}

impl ServoConfig {
    /// The period, s. Real-time safe.
    #[inline]
    pub fn dt(&self) -> f64 {
        self.period_ns as f64 * 1e-9
    }

    /// What is wrong with the settings, by field name; `None` when they are sound.
    pub fn problem(&self) -> Option<String> {
        let positive = [
            ("max_force", self.max_force),
            ("max_torque", self.max_torque),
            ("max_velocity", self.max_velocity),
            ("max_angular_velocity", self.max_angular_velocity),
            ("workspace_factor", self.workspace_factor),
            ("slew_force", self.slew_force),
            ("slew_torque", self.slew_torque),
            ("gate_force", self.gate_force),
            ("gate_torque", self.gate_torque),
            ("ramp_up", self.ramp_up),
            ("fade", self.fade),
            ("stale_fault", self.stale_fault),
            ("lease", self.lease),
            ("max_gap", self.max_gap),
            ("coupling.mass", self.coupling.mass),
        ];
        if let Some((name, value)) = positive.iter().find(|(_, v)| v.is_nan() || *v <= 0.0) {
            return Some(format!("{name} = {value} must be above zero"));
        }
        if !(0.0..=0.1).contains(&self.coupling.braking) {
            return Some(format!("coupling.braking = {} must lie in 0..=0.1 m", self.coupling.braking));
        }
        if self.damping_time.is_some_and(|t| !(0.0..=1.0).contains(&t)) {
            return Some("damping_time must lie in 0..=1 s".into());
        }
        if !(100_000..=10_000_000).contains(&self.period_ns) {
            return Some(format!("period_ns = {} must lie in 100000..=10000000", self.period_ns));
        }
        if !(0.02..=0.05).contains(&self.ramp_down) {
            return Some(format!("ramp_down = {} must lie in 0.02..=0.05 s", self.ramp_down));
        }
        let counts = [
            ("gate_ticks", self.gate_ticks as usize),
            ("stale_ticks", self.stale_ticks as usize),
            ("late_in_row", self.late_in_row as usize),
            ("late_per_second", self.late_per_second as usize),
            ("telemetry_ring", self.telemetry_ring),
            ("command_ring", self.command_ring),
            ("return_ring", self.return_ring),
        ];
        let zero = counts.iter().find(|(_, n)| *n == 0);
        zero.map(|(name, _)| format!("{name} must be at least 1"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_name_the_field() {
        assert_eq!(ServoConfig::default().problem(), None);
        let nan = ServoConfig { slew_force: f64::NAN, ..Default::default() };
        assert!(nan.problem().unwrap().contains("slew_force"));
        let slow = ServoConfig { ramp_down: 0.5, ..Default::default() };
        assert!(slow.problem().unwrap().contains("ramp_down"));
        let none = ServoConfig { return_ring: 0, ..Default::default() };
        assert!(none.problem().unwrap().contains("return_ring"));
    }
}
