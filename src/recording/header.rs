//! What a recording says about itself: who made it, with which device, calibration and scene.

use std::collections::BTreeMap;

/// Which clock the ticks ran on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ClockKind {
    /// The monotonic clock of the machine.
    #[default]
    Real,
    /// Simulated time: no wake error, no compute time, repeatable.
    Virtual,
}

/// Head of a recording; stands in the file as the metadata record `hapticd`, readable by any MCAP tool.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Header {
    /// Version of the daemon that wrote the file.
    pub version: String,
    /// Name of the device profile.
    pub device: String,
    /// Name or path of the scene; the daemon's is the file that it started with, `live` where there was none.
    pub scene: String,
    /// Law of the coupling, as in the configuration; empty = not known. With one of [`VIRTUAL`] the poses are a virtual tool's.
    pub coupling: String,
    /// Clock of the ticks.
    pub clock: ClockKind,
    /// Unix time at servo time 0, ns; message times in the file are this plus the planned time of the tick. 0 on the
    /// virtual clock, so that equal runs give equal files.
    pub epoch_ns: u64,
    /// Nominal period of the servo, ns.
    pub period_ns: u64,
    /// Work units a tick may spend; 0 = unlimited.
    pub budget_units: u32,
    /// Calibrated work units a microsecond; 0 when not calibrated.
    pub units_per_us: f64,
    /// Anything else worth keeping.
    pub extra: BTreeMap<String, String>,
}

/// The laws with a virtual tool between device and contact: its pose is recorded, the device's is not.
pub const VIRTUAL: [&str; 2] = ["dynamic", "static"];

/// Name of the metadata record.
pub(super) const METADATA_NAME: &str = "hapticd";

impl Header {
    /// A head for this version of the daemon at 1 kHz.
    #[must_use]
    pub fn new(device: &str, scene: &str, clock: ClockKind) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").into(),
            device: device.into(),
            scene: scene.into(),
            coupling: "direct".into(),
            clock,
            period_ns: 1_000_000,
            ..Self::default()
        }
    }

    pub(super) fn to_map(&self) -> BTreeMap<String, String> {
        let clock = match self.clock {
            ClockKind::Real => "real",
            ClockKind::Virtual => "virtual",
        };
        let mut map = self.extra.clone();
        for (key, value) in [
            ("version", self.version.clone()),
            ("device", self.device.clone()),
            ("scene", self.scene.clone()),
            ("coupling", self.coupling.clone()),
            ("clock", clock.into()),
            ("epoch_ns", self.epoch_ns.to_string()),
            ("period_ns", self.period_ns.to_string()),
            ("budget_units", self.budget_units.to_string()),
            ("units_per_us", self.units_per_us.to_string()),
        ] {
            map.insert(key.into(), value);
        }
        map
    }

    pub(super) fn from_map(mut map: BTreeMap<String, String>) -> Result<Self, String> {
        fn number<T: std::str::FromStr>(map: &mut BTreeMap<String, String>, key: &str) -> Result<T, String> {
            let text = map.remove(key).ok_or_else(|| format!("the head has no '{key}'"))?;
            text.parse().map_err(|_| format!("the head's '{key}' is '{text}', not a number"))
        }
        let clock = match map.remove("clock").as_deref() {
            Some("virtual") => ClockKind::Virtual,
            Some("real") => ClockKind::Real,
            other => return Err(format!("the head's 'clock' is {other:?}, not real or virtual")),
        };
        // Of earlier versions, which never set it.
        map.remove("config_hash");
        Ok(Self {
            clock,
            epoch_ns: number(&mut map, "epoch_ns")?,
            period_ns: number(&mut map, "period_ns")?,
            budget_units: number(&mut map, "budget_units")?,
            units_per_us: number(&mut map, "units_per_us")?,
            version: map.remove("version").unwrap_or_default(),
            device: map.remove("device").unwrap_or_default(),
            scene: map.remove("scene").unwrap_or_default(),
            coupling: map.remove("coupling").unwrap_or_default(),
            extra: map,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_the_map() {
        let mut header = Header::new("falcon", "scenes/pin.toml", ClockKind::Virtual);
        header.units_per_us = 0.1 + 0.2;
        header.epoch_ns = u64::MAX;
        header.coupling = VIRTUAL[0].into();
        header.extra.insert("git".into(), "abc".into());
        assert_eq!(Header::from_map(header.to_map()), Ok(header));
    }

    #[test]
    fn says_which_key_is_wrong() {
        let mut map = Header::new("a", "b", ClockKind::Real).to_map();
        map.insert("period_ns".into(), "fast".into());
        assert!(Header::from_map(map.clone()).unwrap_err().contains("period_ns"));
        map.remove("clock");
        assert!(Header::from_map(map).unwrap_err().contains("clock"));
    }
}
