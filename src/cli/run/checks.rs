//! What the configuration may say of its devices.

use crate::config::{Config, Device, Driver};
use crate::device::attached::Kind;
use crate::device::profile::Profile;
use crate::device::registry::REPLAY;
use crate::scene::model::Scene;

/// Devices that cannot be served together, and a scene that means devices which are not there.
pub(super) fn together(config: &Config, scene: &Scene) -> anyhow::Result<()> {
    let attached: Vec<&Device> = config.devices().filter(|d| d.driver == Driver::Attached).collect();
    let kind = |d: &Device| Kind::of(&d.name);
    for (i, d) in attached.iter().enumerate() {
        let Some(other) = attached[..i].iter().find(|o| kind(o).is_some() && kind(o) == kind(d)) else {
            continue;
        };
        anyhow::ensure!(
            kind(d) != Some(Kind::OpenHaptics),
            "device.role: '{}' and '{}' are both served by their maker's library, which has one owner in a process; run a second \
             hapticd with another control.socket for one of them",
            other.role,
            d.role
        );
        anyhow::ensure!(
            d.serial.is_some() && other.serial.is_some() && d.serial != other.serial,
            "device.serial: '{}' and '{}' are of one kind: give each its own serial number (`hapticd devices` shows them), so that they \
             are never mixed up",
            other.role,
            d.role
        );
    }
    if let Some(role) = scene.roles().find(|role| !config.devices().any(|d| d.role == *role)) {
        let known: Vec<&str> = config.devices().map(|d| d.role.as_str()).collect();
        anyhow::bail!(
            "scene.file: means the device '{role}', but the configuration has: {}",
            known.join(", ")
        );
    }
    Ok(())
}

/// Who moves a view must push no hand: its tool has no place in the scene that it could be pushed from.
pub(super) fn mover(device: &Device, profile: &Profile) -> anyhow::Result<()> {
    anyhow::ensure!(
        device.moves.is_none() || profile.actuated == [false; 6],
        "device.moves: '{}' has motors; only a device without, as a spacemouse, moves another's workspace",
        device.name
    );
    Ok(())
}

/// Keys that say nothing for the kind of device that is meant are refused: whoever set them expects something of them.
pub(super) fn device(device: &Device) -> anyhow::Result<()> {
    let name = &device.name;
    if name == REPLAY {
        return check_replay(device);
    }
    anyhow::ensure!(
        device.recording.is_none(),
        "device.recording: '{name}' plays nothing back; leave it empty, or set device.name = \"{REPLAY}\""
    );
    if device.driver == Driver::Attached {
        anyhow::ensure!(
            Kind::of(name).is_some(),
            "device.driver: there is no driver for '{name}', only its simulation; `hapticd devices` shows which have one"
        );
        anyhow::ensure!(
            device.firmware.is_none() || Kind::of(name) == Some(Kind::Falcon),
            "device.firmware: only a Novint Falcon takes one, '{name}' does not; leave it empty"
        );
        anyhow::ensure!(
            device.library.is_none() || Kind::of(name) == Some(Kind::OpenHaptics),
            "device.library: only a Phantom is served by a library of its maker, '{name}' is not; leave it empty"
        );
        let simulated = [("hand", &device.hand), ("probe", &device.probe)];
        if let Some((key, _)) = simulated.iter().find(|(_, path)| path.is_some()) {
            anyhow::bail!(
                "device.{key}: belongs to a simulated device; leave it empty with device.driver = \"attached\""
            );
        }
        return Ok(());
    }
    if let Some(serial) = &device.serial {
        anyhow::bail!(
            "device.serial: a simulated device has no serial number, so '{serial}' names nothing; leave it empty, or set \
             device.driver = \"attached\""
        );
    }
    anyhow::ensure!(
        device.firmware.is_none(),
        "device.firmware: a simulated device takes no firmware; leave it empty, or set device.driver = \"attached\""
    );
    anyhow::ensure!(
        device.library.is_none(),
        "device.library: a simulated device needs no library; leave it empty, or set device.driver = \"attached\""
    );
    Ok(())
}

fn check_replay(device: &Device) -> anyhow::Result<()> {
    anyhow::ensure!(
        device.recording.is_some(),
        "device.recording: empty; name the recording that the device '{REPLAY}' plays back"
    );
    let keys = [
        ("driver", device.driver == Driver::Attached),
        ("serial", device.serial.is_some()),
        ("firmware", device.firmware.is_some()),
        ("library", device.library.is_some()),
        ("hand", device.hand.is_some()),
        ("probe", device.probe.is_some()),
    ];
    if let Some((key, _)) = keys.iter().find(|(_, set)| *set) {
        anyhow::bail!("device.{key}: a recording is played back without a device; leave it at its default");
    }
    Ok(())
}
