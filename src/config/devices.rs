//! One device (`[device]`), or several (`[[device]]`), each with a role of its own.

use super::source::{SourceError, Table};
use super::{Config, Core, Device, Driver, section};
use std::path::Path;

/// Most devices of one daemon.
pub const MAX_DEVICES: usize = 4;

impl Config {
    /// All devices, in the order of the file.
    pub fn devices(&self) -> impl Iterator<Item = &Device> {
        std::iter::once(&self.device).chain(&self.more)
    }

    /// The device of that role, the first one when none is named; or what roles there are.
    ///
    /// # Errors
    /// No device has that role.
    pub fn device_of(&self, role: Option<&str>) -> Result<&Device, String> {
        let Some(role) = role else { return Ok(&self.device) };
        self.devices().find(|d| d.role == role).ok_or_else(|| {
            let known: Vec<&str> = self.devices().map(|d| d.role.as_str()).collect();
            format!("the configuration has no device '{role}'; it has: {}", known.join(", "))
        })
    }

    /// The CPU asked for each device's servo.
    pub fn cores(&self) -> Vec<Core> {
        let first = if self.device.core == Core::Auto { self.servo.core } else { self.device.core };
        std::iter::once(first).chain(self.more.iter().map(|d| d.core)).collect()
    }
}

/// The first device and the others.
pub(super) fn read(root: &Table<'_>, base: &Path) -> Result<(Device, Vec<Device>), SourceError> {
    let Ok(tables) = root.tables("device") else {
        let one = section(root, "device", |t| {
            let device = Device::read(t, base)?;
            check_moves(t, &device, &[])?;
            Ok(device)
        })?;
        return Ok((one, Vec::new()));
    };
    if tables.len() > MAX_DEVICES {
        return Err(root.error(
            "device",
            format!("{} devices, more than the {MAX_DEVICES} that one daemon serves", tables.len()),
        ));
    }
    let mut all: Vec<Device> = Vec::new();
    let several = tables.len() > 1;
    for t in &tables {
        let device = Device::read(t, base)?;
        if several {
            check(t, &device, &all)?;
        }
        all.push(device);
    }
    for (t, device) in tables.into_iter().zip(&all) {
        check_moves(&t, device, &all)?;
        t.finish()?;
    }
    if all.is_empty() {
        let unasked = "an empty list; leave it out, or describe a device";
        return if root.has("device") {
            Err(root.error("device", unasked))
        } else {
            Ok((Device::default(), all))
        };
    }
    let more = all.split_off(1);
    Ok((all.remove(0), more))
}

/// A device that moves another's workspace, among `all`.
fn check_moves(t: &Table<'_>, device: &Device, all: &[Device]) -> Result<(), SourceError> {
    let Some(moved) = &device.moves else { return Ok(()) };
    let wrong = |text: String| Err(t.error("moves", text));
    let Some(other) = all.iter().find(|d| d.role == *moved && d.role != device.role) else {
        return wrong(format!("'{moved}' is the role of no other device; name one of the list"));
    };
    if other.moves.is_some() {
        return wrong(format!("'{moved}' moves a workspace itself and has none of its own"));
    }
    match all.iter().find(|d| d.role != device.role && d.moves.as_ref() == Some(moved)) {
        Some(twin) => wrong(format!("'{}' moves the workspace of '{moved}', too", twin.role)),
        None => Ok(()),
    }
}

/// What a list asks of each device beside those `before` it.
fn check(t: &Table<'_>, device: &Device, before: &[Device]) -> Result<(), SourceError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let role = &device.role;
    if !t.has("role") {
        return Err(t.error_here("one of several devices needs a role of its own"));
    }
    if role.is_empty() || role.len() > 32 || !role.chars().all(plain) {
        return Err(t.error(
            "role",
            format!("'{role}': of several devices each has a role of 1 to 32 letters, digits, - and _"),
        ));
    }
    let at = |same: &dyn Fn(&Device) -> bool| before.iter().find(|d| same(d)).map(|d| d.role.clone());
    if before.iter().any(|d| d.role == *role) {
        return Err(t.error("role", format!("'{role}' is the role of another device, too")));
    }
    if let Some(page) = &device.probe
        && let Some(other) = at(&|d| d.probe.as_ref() == Some(page))
    {
        return Err(
            t.error("probe", format!("'{other}' leaves its commands in the same file; give each its own"))
        );
    }
    if device.driver != Driver::Attached {
        return Ok(());
    }
    if let Some(serial) = &device.serial
        && let Some(other) = at(&|d| {
            d.driver == Driver::Attached && d.name == device.name && d.serial.as_ref() == Some(serial)
        })
    {
        return Err(t.error(
            "serial",
            format!("'{serial}' is the serial number of '{other}', too: one device cannot be both"),
        ));
    }
    let twin = |d: &Device| d.driver == Driver::Attached && d.name == device.name;
    let unnamed = before.iter().find(|d| twin(d) && (d.serial.is_none() || device.serial.is_none()));
    if let Some(other) = unnamed {
        let text = format!(
            "'{}' and '{role}' are both a {}: give each its serial number (`hapticd devices` shows them), so that they are never mixed up",
            other.role, device.name
        );
        return Err(t.error("serial", text));
    }
    Ok(())
}
