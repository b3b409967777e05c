//! From the configuration file to the settings of the servo.

use crate::config::{Config, Device, Energy, Law, Preset};
use crate::device::attached::Attached;
use crate::device::io::scheduling::Scheduling;
use crate::haptics::coupling;
use crate::haptics::guard::energy::EnergyGuard;
use crate::scene::model::Limits;
use crate::servo::handle::ServoConfig;

/// The servo's settings. The budget is that of the configuration, 0 where it asks for a calibration, which the
/// caller then puts in.
pub fn servo(config: &Config) -> ServoConfig {
    let (s, l, a) = (&config.servo, &config.limits, &config.arming);
    ServoConfig {
        budget_units: s.budget_units,
        deadline_ns: Some(u64::from(s.deadline_us) * 1000),
        max_force: l.force_n,
        max_torque: l.torque_nm,
        max_velocity: l.velocity_m_s,
        max_angular_velocity: l.angular_velocity_rad_s,
        workspace_factor: l.workspace_factor,
        slew_force: l.slew_n_s,
        slew_torque: l.slew_nm_s,
        coupling: coupling::Coupling {
            law: match config.coupling.law {
                Law::Direct => coupling::Law::Direct,
                Law::Dynamic => coupling::Law::Dynamic,
                Law::Static => coupling::Law::Static,
            },
            preset: match config.coupling.preset {
                Preset::Soft => coupling::Preset::Soft,
                Preset::Normal => coupling::Preset::Normal,
                Preset::Crisp => coupling::Preset::Crisp,
            },
            mass: config.coupling.tool_mass_kg,
            braking: config.coupling.braking_mm * 1e-3,
        },
        energy: match l.energy {
            Energy::Profile => None,
            Energy::Off => Some(EnergyGuard::Off),
            Energy::Observe => Some(EnergyGuard::Observe),
            Energy::Certified => Some(EnergyGuard::Certified),
            Energy::Controller => Some(EnergyGuard::Controller),
        },
        gate_force: a.small_force_n,
        gate_torque: a.small_torque_nm,
        gate_ticks: a.ticks,
        ramp_up: a.ramp_s,
        ramp_down: a.release_s,
        fade: a.fade_s,
        deadman: a.deadman_button.checked_sub(1).map_or(0, |n| 1 << n),
        stale_ticks: s.stale_ticks,
        stale_fault: s.stale_fault_s,
        lease: config.control.lease_s,
        late_in_row: s.late_in_a_row,
        late_per_second: s.late_in_a_second,
        max_gap: s.max_gap_s,
        ..ServoConfig::default()
    }
}

/// What a scene may hold. What its meshes take counts under the memory cap as all else does.
pub fn scene(config: &Config) -> Limits {
    Limits {
        mesh_bytes: config.scene.memory_cap(),
        proxy_on_mesh: config.scene.proxy_on_mesh,
        ..Limits::default()
    }
}

/// How the attached device of a configuration is found and run.
pub fn attached(device: &Device, scheduling: Scheduling) -> Attached {
    Attached {
        serial: device.serial.clone(),
        firmware: device.firmware.clone(),
        library: device.library.clone(),
        scheduling,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_configuration_is_the_servo_s_default_with_limits_for_the_hand() {
        let expect = ServoConfig { max_force: 10.0, max_torque: 0.5, lease: 1.0, ..ServoConfig::default() };
        assert_eq!(servo(&Config::default()), expect);
    }

    #[test]
    fn the_extremes_that_the_file_accepts_are_sound_for_the_servo() {
        let low = "[limits]\nforce_n=0.001\ntorque_nm=0.0001\nvelocity_m_s=0.01\nworkspace_factor=0.1\n\
                   slew_n_s=1\nslew_nm_s=0.01\n[arming]\nticks=1\nramp_s=0.01\nrelease_s=0.02\nfade_s=0.001\n\
                   [servo]\nlate_in_a_row=1\nmax_gap_s=0.005\nstale_ticks=1\n[control]\nlease_s=0.02\n";
        let config = Config::parse("low", low, std::path::Path::new("")).unwrap();
        assert_eq!(servo(&config).problem(), None);
    }

    /// Buttons count from 1, bits from 0; 0 is no button.
    #[test]
    fn a_deadman_button_is_its_bit() {
        for (button, mask) in [(0, 0), (1, 1), (2, 2), (5, 1 << 4), (32, 1 << 31)] {
            let text = format!("[arming]\ndeadman_button = {button}\n");
            let config = Config::parse("deadman", &text, std::path::Path::new("")).unwrap();
            assert_eq!(servo(&config).deadman, mask, "button {button}");
        }
    }
}
