//! Devices: whether their nodes can be opened, and what ends their last torque when nobody commands any more.

use super::check::{Check, Root};
use crate::device::attached::Kind;
use crate::device::known::{Known, lookup};
use crate::device::registry::Registry;
use nix::unistd::{AccessFlags, access};

/// A hold shorter than this ends before a hand notices, s.
const SHORT_HOLD: f64 = 0.05;

/// Installs the rules that docs/install.md installs.
pub(super) const UDEV: &str = "sudo cp systemd/72-hapticd.rules /usr/lib/udev/rules.d/ && sudo udevadm control --reload && \
                               sudo udevadm trigger; only to run hapticd as yourself (the service has access already; \
                               members can command raw torque): sudo usermod -aG hapticd-dev $USER, then log in again";

/// One device found on the bus.
struct Found {
    known: &'static Known,
    node: String,
}

/// The device lines: nodes, service, torque hold.
pub fn checks(root: &Root, registry: &Registry, wanted: &[String]) -> Vec<Check> {
    let found = attached(root);
    let mut out = vec![nodes(root, &found)];
    out.extend(found.iter().map(driver));
    let mut names: Vec<String> = wanted.to_vec();
    names.extend(found.iter().map(|f| f.known.profile.unwrap_or(f.known.title).to_owned()));
    names.sort();
    names.dedup();
    out.extend(torque_hold(root, registry, &names));
    out.extend(names.iter().filter_map(|name| energy(registry, name)));
    out
}

/// What `limits.energy = "certified"` would let be felt. Not a fault of the machine: neither answer needs a cure.
fn energy(registry: &Registry, device: &str) -> Option<Check> {
    let profile = registry.profile(device).ok().filter(|p| p.max_force > 0.0)?;
    let name = format!("energy bound {device}");
    Some(Check::ok(
        &name,
        match profile.covered(1e-3) {
            Some(c) => format!(
                "limits.energy = \"certified\" lets {:.0} N/m be felt, and {:.3} N beyond; without it {:.0} N/m",
                c.stiffness, c.friction, profile.max_stiffness
            ),
            None => "not certifiable: the profile certifies no friction of the device, so nothing is bounded"
                .into(),
        },
    ))
}

fn attached(root: &Root) -> Vec<Found> {
    let dir = "/sys/bus/usb/devices";
    let hex = |device: &str, file: &str| {
        root.read(&format!("{dir}/{device}/{file}")).and_then(|t| u16::from_str_radix(&t, 16).ok())
    };
    let number = |device: &str, file: &str| {
        root.read(&format!("{dir}/{device}/{file}")).and_then(|t| t.parse::<u32>().ok()).unwrap_or(0)
    };
    let mut out = Vec::new();
    for device in root.list(dir) {
        let (Some(vendor), Some(product)) = (hex(&device, "idVendor"), hex(&device, "idProduct")) else {
            continue;
        };
        // Without a force there is nothing to check.
        if let Some(known) = lookup(vendor, product).filter(|k| k.force) {
            let (bus, dev) = (number(&device, "busnum"), number(&device, "devnum"));
            let hid = known.link.contains("HID").then(|| hidraw(root, vendor, product)).flatten();
            out.push(Found { known, node: hid.unwrap_or_else(|| format!("/dev/bus/usb/{bus:03}/{dev:03}")) });
        }
    }
    out
}

/// The node that a driver opens for an HID device of these numbers.
fn hidraw(root: &Root, vendor: u16, product: u16) -> Option<String> {
    let dir = "/sys/class/hidraw";
    let wanted = format!(":0000{vendor:04X}:0000{product:04X}");
    let node = root.list(dir).into_iter().find(|node| {
        let text = root.read(&format!("{dir}/{node}/device/uevent"));
        text.is_some_and(|t| t.lines().any(|l| l.starts_with("HID_ID=") && l.ends_with(&wanted)))
    });
    node.map(|node| format!("/dev/{node}"))
}

/// Who drives it, and what it needs.
fn driver(found: &Found) -> Check {
    let name = format!("driver {}", found.known.title);
    let profile = found.known.profile.unwrap_or("");
    match Kind::of(profile) {
        Some(kind) => {
            let more = match kind {
                Kind::Falcon => {
                    "; set device.firmware to your firmware file, it is lost when the Falcon is switched off"
                }
                Kind::HidHaptic => "; calibrate with its button in the pose of docs/devices.md",
                Kind::SpaceMouse => "",
                Kind::OpenHaptics => "; its maker's libHD.so must be installed, or named by device.library",
            };
            let text =
                format!("{}: device.name = \"{profile}\", device.driver = \"attached\"{more}", kind.name());
            Check::ok(&name, text)
        }
        None => Check::ok(&name, "none in this version, only a simulation"),
    }
}

fn nodes(root: &Root, found: &[Found]) -> Check {
    let name = "device nodes";
    if found.is_empty() {
        return Check::ok(name, "no known force-feedback device is attached; the simulated one needs none");
    }
    let closed: Vec<String> = found
        .iter()
        .filter(|f| access(&root.path(&f.node), AccessFlags::R_OK | AccessFlags::W_OK).is_err())
        .map(|f| format!("{} at {}", f.known.title, f.node))
        .collect();
    if closed.is_empty() {
        let all: Vec<&str> = found.iter().map(|f| f.known.title).collect();
        return Check::ok(name, format!("{} can be opened", all.join(", ")));
    }
    Check::degraded(name, format!("{} cannot be opened by this user", closed.join(", ")), UDEV)
}

/// True where the installed unit commands zero when the daemon has gone, however it went.
fn unit_ends_torque(root: &Root) -> bool {
    ["/etc/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"]
        .iter()
        .filter_map(|dir| root.read(&format!("{dir}/hapticd.service")))
        .any(|unit| unit.lines().any(|l| l.trim_start().starts_with("ExecStopPost=") && l.contains("zero")))
}

fn torque_hold(root: &Root, registry: &Registry, names: &[String]) -> Vec<Check> {
    let unit = unit_ends_torque(root);
    if names.is_empty() {
        return vec![Check::ok("torque hold", "no device attached that could hold a torque")];
    }
    names
        .iter()
        .map(|device| {
            let name = format!("torque hold {device}");
            let hold = registry.profile(device).ok().and_then(|p| p.torque_hold);
            match hold {
                Some(s) if s <= SHORT_HOLD => {
                    Check::ok(&name, format!("the device itself lets go after {:.0} ms", s * 1e3))
                }
                _ if unit => Check::ok(&name, "the installed service commands zero when the daemon has gone"),
                hold => {
                    let time = hold.map_or("an unknown time, perhaps for ever".into(), |s| format!("{s} s"));
                    Check::degraded(
                        &name,
                        format!(
                            "holds its last torque for {time} when the daemon is killed, and nothing ends it"
                        ),
                        "install the service, whose ExecStopPost=hapticd zero does: sudo cp \
                         systemd/hapticd.service /etc/systemd/system/ && sudo systemctl daemon-reload \
                         (without it: keep a hand on the power switch)",
                    )
                }
            }
        })
        .collect()
}
