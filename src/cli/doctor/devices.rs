//! Devices: whether their nodes can be opened, and what ends their last torque when nobody commands any more.

use super::check::{Check, Root};
use super::state::{self, Daemon};
use crate::device::attached::Kind;
use crate::device::known::{Known, lookup};
use crate::device::registry::Registry;
use crate::device::wire::hid_haptic::{USAGE, USAGE_PAGE};
use nix::unistd::{AccessFlags, Gid, Group, Uid, User, access};
use std::os::unix::fs::MetadataExt as _;

/// A hold shorter than this ends before a hand notices, s.
const SHORT_HOLD: f64 = 0.05;

/// How the description of a WoodenHaptics' reports begins: a usage page of two bytes, and a usage of two (HID 1.11, 6.2.2.7 and 6.2.2.8).
const HAPTIC: [u8; 6] = {
    let ([p, page], [u, usage]) = (USAGE_PAGE.to_le_bytes(), USAGE.to_le_bytes());
    [0x06, p, page, 0x0a, u, usage]
};

/// Installs the rules that docs/install.md installs.
pub(super) const UDEV: &str = "sudo cp systemd/72-hapticd.rules /usr/lib/udev/rules.d/ && sudo udevadm control --reload && \
                               sudo udevadm trigger; only to run hapticd as yourself (the service has access already; \
                               members can command raw torque): sudo usermod -aG hapticd-dev $USER, then log in again";

/// One device found on the bus.
struct Found {
    known: &'static Known,
    node: String,
}

impl Found {
    /// Profiles that it may have; its title where it has none.
    fn names(&self) -> Vec<String> {
        let all = self.known.profiles;
        if all.is_empty() {
            vec![self.known.title.to_owned()]
        } else {
            all.iter().map(|&p| p.to_owned()).collect()
        }
    }
}

/// The device lines: nodes, service, torque hold.
pub fn checks(root: &Root, registry: &Registry, wanted: &[String], daemon: &Daemon) -> Vec<Check> {
    let found = attached(root);
    let mut out = vec![nodes(root, &found)];
    for device in &found {
        out.push(driver(device));
        let kind = Kind::of_known(device.known);
        let alike = found.iter().filter(|f| Kind::of_known(f.known) == kind).count();
        out.extend(state::check(device.known, &device.node, alike, daemon));
    }
    let mut names: Vec<String> = wanted.to_vec();
    names.extend(found.iter().filter(|f| f.known.force).flat_map(Found::names));
    names.sort();
    names.dedup();
    out.extend(torque_hold(root, registry, &names));
    out.extend(names.iter().filter_map(|name| energy(registry, name)));
    out.extend(names.iter().filter_map(|name| bears(registry, name)));
    out
}

/// What `limits.energy = "certified"` would let be felt. Not a fault of the machine: neither answer needs a cure.
fn energy(registry: &Registry, device: &str) -> Option<Check> {
    let profile = registry.profile(device).ok().filter(|p| p.max_force > 0.0)?;
    let name = format!("energy bound {device}");
    let by_default = profile.kept.strictest().name();
    let covered = match profile.covered(1e-3) {
        Some(c) => format!(
            "limits.energy = \"certified\" lets {:.0} N/m be felt, and {:.3} N beyond; without it {:.0} N/m",
            c.stiffness, c.friction, profile.max_stiffness
        ),
        None => {
            "not certifiable: the profile certifies no friction of the device, so nothing is bounded".into()
        }
    };
    Some(Check::ok(&name, format!("{covered}; limits.energy = \"profile\" is \"{by_default}\"")))
}

/// A profile that states more stiffness than its own figures bear.
fn bears(registry: &Registry, device: &str) -> Option<Check> {
    let lowered = registry.profile(device).ok()?.lowered();
    if lowered.is_empty() {
        return None;
    }
    let name = format!("stiffness {device}");
    let cure = "measure the device's damping, friction and delay, or state less stiffness in its profile (docs/new-device.md)";
    Some(Check::degraded(&name, lowered.join("; "), cure))
}

/// Each device on its own, also of two of a kind: HID devices by their nodes, the others, and HID devices that have none, by their place on the bus.
fn attached(root: &Root) -> Vec<Found> {
    let dir = "/sys/bus/usb/devices";
    let hex = |device: &str, file: &str| {
        root.read(&format!("{dir}/{device}/{file}")).and_then(|t| u16::from_str_radix(&t, 16).ok())
    };
    let number = |device: &str, file: &str| {
        root.read(&format!("{dir}/{device}/{file}")).and_then(|t| t.parse::<u32>().ok()).unwrap_or(0)
    };
    let mut out = hidraw(root);
    let nodes: Vec<&'static str> = out.iter().map(|f| f.known.title).collect();
    for device in root.list(dir) {
        let (Some(vendor), Some(product)) = (hex(&device, "idVendor"), hex(&device, "idProduct")) else {
            continue;
        };
        if let Some(known) = lookup(vendor, product).filter(|k| !nodes.contains(&k.title)) {
            let (bus, dev) = (number(&device, "busnum"), number(&device, "devnum"));
            out.push(Found { known, node: format!("/dev/bus/usb/{bus:03}/{dev:03}") });
        }
    }
    out
}

/// The HID devices that are known, by the nodes that a driver opens.
fn hidraw(root: &Root) -> Vec<Found> {
    let dir = "/sys/class/hidraw";
    let id = |text: &str| u16::from_str_radix(text.strip_prefix("0000")?, 16).ok();
    let found = |node: String| {
        let uevent = root.read(&format!("{dir}/{node}/device/uevent"))?;
        let mut ids = uevent.lines().find_map(|l| l.strip_prefix("HID_ID="))?.split(':').skip(1);
        let known = lookup(id(ids.next()?)?, id(ids.next()?)?).filter(|k| k.link.contains("HID"))?;
        // A Teensy has a second interface, which is not the device.
        let collection = std::fs::read(root.path(&format!("{dir}/{node}/device/report_descriptor"))).ok();
        let other = Kind::of_known(known) == Some(Kind::HidHaptic)
            && collection.is_some_and(|bytes| !bytes.starts_with(&HAPTIC));
        (!other).then(|| Found { known, node: format!("/dev/{node}") })
    };
    root.list(dir).into_iter().filter_map(found).collect()
}

/// Who drives it, and what it needs.
fn driver(found: &Found) -> Check {
    let name = format!("driver {}", found.known.title);
    match Kind::of_known(found.known) {
        Some(kind) => {
            let more = match kind {
                Kind::Falcon => {
                    "; set device.firmware to your firmware file, it is lost when the Falcon is switched off"
                }
                Kind::HidHaptic => "; calibrate with its button in the pose of docs/devices.md",
                Kind::SpaceMouse => "",
                Kind::OpenHaptics => "; its maker's libHD.so must be installed, or named by device.library",
            };
            let which = match (found.known.profile(), found.known.which()) {
                (Some(profile), _) => format!("device.name = \"{profile}\", device.driver = \"attached\""),
                (None, which) => format!("device.driver = \"attached\"; {}", which.unwrap_or_default()),
            };
            Check::ok(&name, format!("{}: {which}{more}", kind.name()))
        }
        None => Check::ok(&name, "none in this version, only a simulation"),
    }
}

fn nodes(root: &Root, found: &[Found]) -> Check {
    let name = "device nodes";
    if found.is_empty() {
        return Check::ok(name, "no known haptic device is attached; the simulated one needs none");
    }
    let closed = |f: &&Found| access(&root.path(&f.node), AccessFlags::R_OK | AccessFlags::W_OK).is_err();
    let list = |all: Vec<&Found>| {
        let one = |f: &Found| format!("{} at {}{}", f.known.title, f.node, rights(root, &f.node));
        all.into_iter().map(one).collect::<Vec<_>>().join(", ")
    };
    let (closed, open): (Vec<&Found>, Vec<&Found>) = found.iter().partition(closed);
    match (closed.is_empty(), open.is_empty()) {
        (true, _) => Check::ok(name, format!("{} can be opened", list(open))),
        (false, true) => {
            Check::degraded(name, format!("{} cannot be opened by this user", list(closed)), UDEV)
        }
        (false, false) => {
            let text = format!("{} cannot be opened by this user; {} can", list(closed), list(open));
            Check::degraded(name, text, UDEV)
        }
    }
}

/// Who may open a node: mode, owner, group.
fn rights(root: &Root, node: &str) -> String {
    let Ok(about) = std::fs::metadata(root.path(node)) else { return " (which is not there)".into() };
    let user = User::from_uid(Uid::from_raw(about.uid())).ok().flatten();
    let group = Group::from_gid(Gid::from_raw(about.gid())).ok().flatten();
    format!(
        " ({:04o} {}:{})",
        about.mode() & 0o7777,
        user.map_or_else(|| about.uid().to_string(), |u| u.name),
        group.map_or_else(|| about.gid().to_string(), |g| g.name)
    )
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
