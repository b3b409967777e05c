//! USB ids of haptic devices: what is plugged in, with or without a driver.
//!
//! Best effort: nothing here fails, and nothing opens a device.

use super::attached::Kind;
use super::wire::hid_haptic::{USAGE, USAGE_PAGE};
use std::path::Path;

/// A kind of haptic device by its USB ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// USB vendor.
    pub vendor: u16,
    /// USB product; `None` = any product of the vendor.
    pub product: Option<u16>,
    /// What it is.
    pub title: &'static str,
    /// How it is attached.
    pub link: &'static str,
    /// Profiles that may describe it. Where there are several its numbers do not tell which, and the first is that of the strongest motors: with
    /// it no other of them gets more torque than is meant.
    pub profiles: &'static [&'static str],
    /// It gives force.
    pub force: bool,
}

const fn known(
    vendor: u16,
    product: Option<u16>,
    title: &'static str,
    link: &'static str,
    profiles: &'static [&'static str],
) -> Known {
    Known { vendor, product, title, link, profiles, force: true }
}

impl Known {
    /// The profile that describes it, where its numbers tell.
    pub fn profile(&self) -> Option<&'static str> {
        match self.profiles {
            [one] => Some(one),
            _ => None,
        }
    }

    /// How to tell which of several profiles it is, for people; `None` where that is not needed.
    pub fn which(&self) -> Option<String> {
        let [first, _, ..] = self.profiles else { return None };
        Some(format!(
            "its USB numbers do not tell which of {} it is, nor whether it is a Polhem (which has no profile) or another Teensy; with a wrong \
             profile it pushes up to 35 times as hard as asked: see docs/devices.md (WoodenHaptics) for how to tell. In doubt begin with {first}, \
             which is too weak on the others, and limits.force_n = 1",
            self.profiles.join(", ")
        ))
    }
}

/// They share their numbers, and the Polhems have them too. By torque of a joint and ampere, the strongest first.
const WOODEN: &[&str] = &["woodenhaptics-v2019", "woodenhaptics-v2015", "woodenhaptics-vintage"];

const fn input_only(vendor: u16, product: Option<u16>, title: &'static str) -> Known {
    Known { force: false, ..known(vendor, product, title, "USB, HID", &["spacemouse"]) }
}

/// Sources: libnifalcon (Falcon), sawSensablePhantom and Geomagic_Touch_ROS_Drivers (Touch), CHAI3D's
/// 51-forcedimension.rules, haptikfabrikenapi (WoodenHaptics, Polhem), docs.rs `spacemouse` and
/// janoc/libndofdev README (3Dconnexion, first sold by Logitech).
pub const KNOWN: [Known; 20] = [
    known(0x0403, Some(0xcb48), "Novint Falcon", "USB, FTDI bulk", &["novint-falcon"]),
    known(0x2988, Some(0x0302), "3D Systems Touch (serial)", "USB, CDC-ACM", &["phantom-omni"]),
    known(0x2988, Some(0x0304), "3D Systems Touch (HID)", "USB, HID", &["phantom-omni"]),
    known(0x2988, None, "3D Systems haptic device", "USB", &[]),
    known(0x1451, None, "Force Dimension haptic device", "USB, vendor protocol", &[]),
    known(0x1234, Some(0x0006), "WoodenHaptics", "USB, HID", WOODEN),
    known(0x16c0, Some(0x0486), "WoodenHaptics or Polhem (Teensy, raw HID)", "USB, HID", WOODEN),
    input_only(0x046d, Some(0xc603), "3Dconnexion SpaceMouse Plus (input only)"),
    input_only(0x046d, Some(0xc605), "3Dconnexion CADMan (input only)"),
    input_only(0x046d, Some(0xc606), "3Dconnexion SpaceMouse Classic (input only)"),
    input_only(0x046d, Some(0xc621), "3Dconnexion SpaceBall 5000 (input only)"),
    input_only(0x046d, Some(0xc623), "3Dconnexion SpaceTraveler (input only)"),
    input_only(0x046d, Some(0xc625), "3Dconnexion SpacePilot (input only)"),
    input_only(0x046d, Some(0xc626), "3Dconnexion SpaceNavigator (input only)"),
    input_only(0x046d, Some(0xc627), "3Dconnexion SpaceExplorer (input only)"),
    input_only(0x046d, Some(0xc628), "3Dconnexion SpaceNavigator for Notebooks (input only)"),
    input_only(0x046d, Some(0xc629), "3Dconnexion SpacePilot Pro (input only)"),
    input_only(0x046d, Some(0xc62b), "3Dconnexion SpaceMouse Pro (input only)"),
    input_only(0x256f, None, "3Dconnexion SpaceMouse (input only)"),
    known(
        0x16c0,
        Some(0x0483),
        "Teensy serial (Haply Inverse3 and 2DIY look like this)",
        "USB, CDC-ACM",
        &[],
    ),
];

/// A known device that is plugged in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What it is.
    pub known: Known,
    /// Its product id.
    pub product: u16,
    /// Serial number, when it tells one.
    pub serial: Option<String>,
    /// Where: a bus path or device node.
    pub path: String,
}

/// The kind with these ids, the exact product before a vendor's any.
pub fn lookup(vendor: u16, product: u16) -> Option<&'static Known> {
    let of_vendor = || KNOWN.iter().filter(|k| k.vendor == vendor);
    of_vendor().find(|k| k.product == Some(product)).or_else(|| of_vendor().find(|k| k.product.is_none()))
}

/// Known devices that are plugged in: USB devices from sysfs, and HID devices (the nodes that a driver would open).
pub fn seen() -> Vec<Seen> {
    let mut seen = usb(Path::new("/sys/bus/usb/devices"));
    // A HID device stands in both lists; its node is the more useful place.
    for hid in hid() {
        match seen.iter_mut().find(|s| same(s, &hid)) {
            Some(usb) => usb.path = format!("{} ({})", hid.path, usb.path),
            None => seen.push(hid),
        }
    }
    seen
}

fn same(a: &Seen, b: &Seen) -> bool {
    let serials = match (&a.serial, &b.serial) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    };
    a.known == b.known && a.product == b.product && serials && !a.path.starts_with("/dev/")
}

fn hid() -> Vec<Seen> {
    let Ok(api) = hidapi::HidApi::new() else { return Vec::new() };
    api.device_list()
        .filter_map(|d| {
            let known = *lookup(d.vendor_id(), d.product_id())?;
            if is_aside(&known, (d.usage_page(), d.usage())) {
                return None;
            }
            Some(Seen {
                known,
                product: d.product_id(),
                serial: d.serial_number().filter(|s| !s.is_empty()).map(printable),
                path: printable(&d.path().to_string_lossy()),
            })
        })
        .collect()
}

/// A further HID interface of a WoodenHaptics (a Teensy has one for its messages), by its usage, 0 where the system does not tell: nobody drives it.
fn is_aside(known: &Known, usage: (u16, u16)) -> bool {
    Kind::of_known(known) == Some(Kind::HidHaptic) && usage.0 != 0 && usage != (USAGE_PAGE, USAGE)
}

/// USB devices below a sysfs directory.
fn usb(root: &Path) -> Vec<Seen> {
    let Ok(entries) = std::fs::read_dir(root) else { return Vec::new() };
    let mut seen: Vec<Seen> = entries
        .filter_map(|entry| {
            let dir = entry.ok()?.path();
            let word = |file: &str| {
                let text = std::fs::read_to_string(dir.join(file)).ok()?;
                Some(text.trim().to_string()).filter(|t| !t.is_empty())
            };
            let number = |file: &str| u16::from_str_radix(&word(file)?, 16).ok();
            let product = number("idProduct")?;
            let known = *lookup(number("idVendor")?, product)?;
            let name = dir.file_name()?.to_string_lossy().into_owned();
            Some(Seen {
                known,
                product,
                serial: word("serial").map(|s| printable(&s)),
                path: format!("usb {}", printable(&name)),
            })
        })
        .collect();
    seen.sort_by(|a, b| a.path.cmp(&b.path));
    seen
}

/// A device's own words, safe for a terminal and not longer than 64 characters.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_ids_win_over_a_vendor_s_any() {
        assert_eq!(lookup(0x2988, 0x0304).map(|k| k.title), Some("3D Systems Touch (HID)"));
        assert_eq!(lookup(0x2988, 0x9999).map(|k| k.title), Some("3D Systems haptic device"));
        assert_eq!(lookup(0x0403, 0xcb48).and_then(Known::profile), Some("novint-falcon"));
        assert_eq!(lookup(0x0403, 0x6001), None, "any other FTDI chip is no haptic device");
        assert!(lookup(0x046d, 0xc62b).is_some_and(|k| !k.force));
        assert_eq!(lookup(0x046d, 0xc077), None, "a mouse for the desk");
        let names: Vec<_> = crate::device::registry::Registry::builtin().profiles().to_vec();
        for k in KNOWN.iter().flat_map(|k| k.profiles) {
            assert!(names.iter().any(|p| p.name == *k), "{k} is no profile");
        }
    }

    /// Torque of each joint that one code makes, by the profiles: what another one of the same numbers gets with the first of them.
    #[test]
    fn in_doubt_no_motor_gets_more_torque_than_is_meant() {
        let registry = crate::device::registry::Registry::builtin();
        let torques = |name: &str| {
            let motors = registry.profile(name).expect("shipped").motors.expect("motors");
            motors.torque_per_code.map(f64::abs)
        };
        for k in KNOWN.iter().filter(|k| k.profiles.len() > 1) {
            let first = torques(k.profiles[0]);
            let mut worst: f64 = 0.0;
            for wrong in k.profiles {
                for right in k.profiles {
                    (0..3).for_each(|i| worst = worst.max(torques(right)[i] / torques(wrong)[i]));
                }
                (0..3).for_each(|i| {
                    assert!(torques(wrong)[i] <= first[i] * (1.0 + 1e-9), "{wrong}, joint {i}")
                });
            }
            // 0.321 N·m/A by 16 against 0.0163 by 9.
            assert!((34.0..36.0).contains(&worst), "{worst}");
            assert_eq!(k.profile(), None);
            let text = k.which().expect("several");
            assert!(k.profiles.iter().all(|p| text.contains(p)) && text.contains("Polhem"), "{text}");
        }
        assert_eq!(KNOWN.iter().filter(|k| k.which().is_some()).count(), 2);
    }

    #[test]
    fn sysfs_is_read_and_rubbish_in_it_is_passed_over() {
        let root = tempfile::tempdir().unwrap();
        let device = |name: &str, vendor: &str, product: &str, serial: Option<&str>| {
            let dir = root.path().join(name);
            std::fs::create_dir(&dir).unwrap();
            std::fs::write(dir.join("idVendor"), vendor).unwrap();
            std::fs::write(dir.join("idProduct"), product).unwrap();
            if let Some(s) = serial {
                std::fs::write(dir.join("serial"), s).unwrap();
            }
        };
        device("1-2", "0403\n", "cb48\n", Some("AB\x1b[31m12\n"));
        device("1-3", "ffff\n", "0001\n", None);
        device("1-4", "zzzz\n", "cb48\n", None);
        device("1-5", "", "", None);
        std::fs::create_dir(root.path().join("usb1")).unwrap();
        let seen = usb(root.path());
        assert_eq!(seen.len(), 1);
        assert_eq!((seen[0].path.as_str(), seen[0].serial.as_deref()), ("usb 1-2", Some("AB?[31m12")));
        assert!(usb(&root.path().join("absent")).is_empty());
    }

    #[test]
    fn a_teensy_s_second_interface_is_no_device() {
        let (teensy, mouse) = (lookup(0x16c0, 0x0486).unwrap(), lookup(0x256f, 0xc635).unwrap());
        assert!(is_aside(teensy, (0xffc9, 0x0004)), "its serial emulation");
        for usage in [(0xffab, 0x0200), (0, 0)] {
            assert!(!is_aside(teensy, usage), "{usage:x?}");
        }
        assert!(!is_aside(mouse, (1, 8)));
    }

    #[test]
    fn looking_at_this_machine_never_fails() {
        for s in seen() {
            assert!(lookup(s.known.vendor, s.product).is_some());
        }
    }
}
