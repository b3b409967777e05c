//! USB ids of haptic devices: what is plugged in, with or without a driver.
//!
//! Best effort: nothing here fails, and nothing opens a device.

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
    /// Profile that describes it, where there is one.
    pub profile: Option<&'static str>,
    /// It gives force.
    pub force: bool,
}

const fn known(
    vendor: u16,
    product: Option<u16>,
    title: &'static str,
    link: &'static str,
    profile: Option<&'static str>,
) -> Known {
    Known { vendor, product, title, link, profile, force: true }
}

const fn input_only(vendor: u16, product: Option<u16>, title: &'static str) -> Known {
    Known { force: false, ..known(vendor, product, title, "USB, HID", Some("spacemouse")) }
}

/// Sources: libnifalcon (Falcon), sawSensablePhantom and Geomagic_Touch_ROS_Drivers (Touch), CHAI3D's
/// 51-forcedimension.rules, haptikfabrikenapi (WoodenHaptics, Polhem), docs.rs `spacemouse` and
/// janoc/libndofdev README (3Dconnexion, first sold by Logitech).
pub const KNOWN: [Known; 20] = [
    known(0x0403, Some(0xcb48), "Novint Falcon", "USB, FTDI bulk", Some("novint-falcon")),
    known(0x2988, Some(0x0302), "3D Systems Touch (serial)", "USB, CDC-ACM", Some("phantom-omni")),
    known(0x2988, Some(0x0304), "3D Systems Touch (HID)", "USB, HID", Some("phantom-omni")),
    known(0x2988, None, "3D Systems haptic device", "USB", None),
    known(0x1451, None, "Force Dimension haptic device", "USB, vendor protocol", None),
    known(0x1234, Some(0x0006), "WoodenHaptics", "USB, HID", Some("woodenhaptics-v2015")),
    known(
        0x16c0,
        Some(0x0486),
        "WoodenHaptics or Polhem (Teensy, raw HID)",
        "USB, HID",
        Some("woodenhaptics-v2015"),
    ),
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
        None,
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
            Some(Seen {
                known,
                product: d.product_id(),
                serial: d.serial_number().filter(|s| !s.is_empty()).map(printable),
                path: printable(&d.path().to_string_lossy()),
            })
        })
        .collect()
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
        assert_eq!(lookup(0x0403, 0xcb48).and_then(|k| k.profile), Some("novint-falcon"));
        assert_eq!(lookup(0x0403, 0x6001), None, "any other FTDI chip is no haptic device");
        assert!(lookup(0x046d, 0xc62b).is_some_and(|k| !k.force));
        assert_eq!(lookup(0x046d, 0xc077), None, "a mouse for the desk");
        let names: Vec<_> = crate::device::registry::Registry::builtin().profiles().to_vec();
        for k in KNOWN.iter().filter_map(|k| k.profile) {
            assert!(names.iter().any(|p| p.name == k), "{k} is no profile");
        }
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
    fn looking_at_this_machine_never_fails() {
        for s in seen() {
            assert!(lookup(s.known.vendor, s.product).is_some());
        }
    }
}
