//! Devices on this machine's buses: finding them by maker, product and serial number, opening them, and the driver over them.

mod events;
pub mod hidraw;
pub mod usb;

use super::driver;
use super::io;
use super::io::link::{Connector, OpenFault};
use super::io::port::Port;
use super::io::runner::{NOT_BACK, NOT_PLUGGED_IN};
use super::io::scheduling::Scheduling;
use super::io::thread::now_ns;
use super::known::{self, printable};
use super::openhaptics;
use super::profile::Profile;
use super::wire::boot::MAX_FIRMWARE;
use super::wire::falcon::MAX_CODE;
use super::wire::hid_haptic::{Layout, MAX_CURRENT};
use super::{Device, DeviceError, Lifecycle};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// How an attached device is found and run.
#[derive(Clone, Debug, Default)]
pub struct Attached {
    /// Serial number; `None` takes the only one.
    pub serial: Option<String>,
    /// Firmware of a Falcon: the user's own file.
    pub firmware: Option<PathBuf>,
    /// The maker's library of a Phantom; `None` lets the system's loader look for it.
    pub library: Option<PathBuf>,
    /// Scheduling of the I/O thread.
    pub scheduling: Scheduling,
}

/// What drives a device of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Novint Falcon over USB.
    Falcon,
    /// WoodenHaptics and its kin over HID.
    HidHaptic,
    /// 3Dconnexion mice over HID.
    SpaceMouse,
    /// Phantoms through their maker's library.
    OpenHaptics,
}

/// Profiles with a driver; a user's own profile (another gear ratio, say) names the kind by its name's beginning.
const DRIVERS: [(&str, Kind); 4] = [
    ("novint-falcon", Kind::Falcon),
    ("woodenhaptics", Kind::HidHaptic),
    ("spacemouse", Kind::SpaceMouse),
    ("phantom", Kind::OpenHaptics),
];

impl Kind {
    /// The driver for a profile of this name.
    pub fn of(profile: &str) -> Option<Self> {
        DRIVERS.iter().find(|(name, _)| profile.starts_with(name)).map(|(_, kind)| *kind)
    }

    /// The driver for a USB device of these ids.
    pub(super) fn of_ids(vendor: u16, product: u16) -> Option<Self> {
        known::lookup(vendor, product).and_then(Self::of_known)
    }

    /// The driver for a known device: that of all profiles that it may have.
    pub fn of_known(known: &known::Known) -> Option<Self> {
        known.profiles.first().and_then(|profile| Self::of(profile))
    }

    /// Its name, for people and `--json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Falcon => "falcon",
            Self::HidHaptic => "hid-haptic",
            Self::SpaceMouse => "spacemouse",
            Self::OpenHaptics => "openhaptics",
        }
    }
}

/// Starts the driver of an attached device. The device need not be there: it is looked for until it is, and again when it
/// went. Not real-time.
///
/// # Errors
/// A profile without a driver, a firmware file that cannot be used, no thread.
pub fn open(profile: Arc<Profile>, options: &Attached) -> Result<Box<dyn Device>, DeviceError> {
    let fail = |text: String| DeviceError::Driver(format!("{}: {text}", profile.name));
    let Some(kind) = Kind::of(&profile.name) else {
        let known: Vec<&str> = DRIVERS.iter().map(|(name, _)| *name).collect();
        return Err(fail(format!(
            "there is no driver for it, only a simulation; drivers exist for profiles named {}...; set device.driver \
             = \"simulated\"",
            known.join("..., ")
        )));
    };
    drivable(&profile, kind).map_err(fail)?;
    let (port, connector): (Box<dyn Port>, Box<dyn Connector>) = match kind {
        Kind::Falcon => {
            let firmware = options.firmware.as_deref().map(firmware).transpose().map_err(fail)?;
            (
                Box::new(driver::falcon::Falcon::new(firmware)),
                Box::new(usb::FalconConnector::new(options.serial.clone())),
            )
        }
        Kind::HidHaptic => {
            let preset = preset(&profile).map_err(fail)?;
            (
                Box::new(driver::hid_haptic::HidHaptic::new(Layout::Padded, preset)),
                Box::new(hidraw::HidConnector::new(hidraw::HAPTIC, options.serial.clone())),
            )
        }
        Kind::OpenHaptics => {
            let phantom = openhaptics::open(
                profile,
                options.library.clone(),
                options.serial.clone(),
                options.scheduling,
            )?;
            return Ok(Box::new(phantom));
        }
        Kind::SpaceMouse => (
            Box::new(driver::spacemouse::SpaceMouse::default()),
            Box::new(hidraw::HidConnector::new(hidraw::SPACE_MOUSE, options.serial.clone())),
        ),
    };
    let front = io::start(profile.clone(), connector, port, options.scheduling)
        .map_err(|e| fail(format!("no thread for its I/O: {e}")))?;
    Ok(Box::new(front))
}

/// A code beyond what the packets carry would be scaled down on its way, and nobody told: the servo, and the energy account, would count with a force that
/// the motors do not give.
fn drivable(profile: &Profile, kind: Kind) -> Result<(), String> {
    let most = match kind {
        Kind::Falcon => MAX_CODE,
        Kind::HidHaptic => MAX_CURRENT,
        Kind::SpaceMouse | Kind::OpenHaptics => return Ok(()),
    };
    match profile.motors.map(|m| m.max_code) {
        Some(code) if i64::from(code) > i64::from(most) => {
            Err(format!("motors.max_code = {code}: the device takes {most} at most; correct the profile"))
        }
        _ => Ok(()),
    }
}

/// Counts of the pose of calibration, as wide as the device's counters.
fn preset(profile: &Profile) -> Result<[i16; 3], String> {
    let preset = profile.encoders.map_or([0; 3], |e| e.preset);
    let mut counts = [0; 3];
    for (count, wide) in counts.iter_mut().zip(preset) {
        *count = i16::try_from(wide).map_err(|_| {
            format!("encoders.preset = {preset:?}: the device's counters have 16 bits, -32768 to 32767; correct the profile")
        })?;
    }
    Ok(counts)
}

/// The device that is meant: of those of its kind the one with the wanted serial number, or the only one.
///
/// # Errors
/// None is there, or several of which no one is meant.
fn the_one<D>(
    all: impl Iterator<Item = D>,
    wanted: Option<&str>,
    serial: impl Fn(&D) -> Option<&str>,
) -> Result<D, OpenFault> {
    let mut found: Vec<D> = all.filter(|d| wanted.is_none_or(|s| serial(d) == Some(s))).collect();
    if found.len() > 1 {
        let serials: Vec<String> = found.iter().map(|d| printable(serial(d).unwrap_or("(none)"))).collect();
        return Err(OpenFault::Trouble(format!(
            "{} devices of this kind are plugged in; set device.serial to one of {}",
            found.len(),
            serials.join(", ")
        )));
    }
    found.pop().ok_or(OpenFault::NotThere)
}

/// What became of a last zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Zeroed {
    /// The device has taken so many packets of zero force.
    Commanded(u64),
    /// It is not plugged in.
    NotThere,
    /// It cannot push in its present state.
    Idle(String),
    /// It could not be told.
    Failed(String),
}

/// Packets that must have gone out, and the time for all.
const ZEROS: u64 = 3;
const ZERO_TIME: Duration = Duration::from_secs(3);

/// Opens the device, tells it zero force a few times, closes it. Blocks for three seconds at most, and for up
/// to one and a half more where its I/O does not end. Not real-time.
///
/// # Errors
/// As [`open`].
pub fn zero(profile: Arc<Profile>, options: &Attached) -> Result<Zeroed, DeviceError> {
    if profile.actuated == [false; 6] {
        return Ok(Zeroed::Idle("it has no motors".into()));
    }
    let maker = Kind::of(&profile.name) == Some(Kind::OpenHaptics);
    // Without a firmware: a Falcon that would have to be started gives no force.
    let mut front = open(profile, &Attached { firmware: None, ..options.clone() })?;
    let Some(shared) = front.io() else { return Ok(Zeroed::Failed("it has no I/O of its own".into())) };
    let end = Instant::now() + ZERO_TIME;
    let zeroed = loop {
        front.zero(now_ns());
        let (sent, trouble) = (shared.stats.sent.load(Relaxed), shared.trouble());
        match shared.lifecycle() {
            Lifecycle::Ready | Lifecycle::Uncalibrated if sent >= ZEROS => break Zeroed::Commanded(sent),
            Lifecycle::Fault => break Zeroed::Idle(trouble),
            // It was looked for and is not there.
            Lifecycle::Absent if trouble == NOT_PLUGGED_IN || trouble == NOT_BACK => break Zeroed::NotThere,
            // It hangs: what the motors have is not known.
            Lifecycle::Absent if maker && (shared.unconfirmed() || trouble == openhaptics::NOT_BACK) => {
                break Zeroed::Failed(trouble);
            }
            // No library, or none of its devices: nobody could have pushed. One that was there and has gone is another matter.
            Lifecycle::Absent if maker && !trouble.is_empty() && shared.stats.starts.load(Relaxed) == 0 => {
                break Zeroed::NotThere;
            }
            _ => {}
        }
        if Instant::now() > end {
            let why = if trouble.is_empty() { "the device does not answer".into() } else { trouble };
            break Zeroed::Failed(why);
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    Ok(zeroed)
}

/// The firmware's bytes.
fn firmware(path: &Path) -> Result<Arc<[u8]>, String> {
    let shown = path.display();
    let file = std::fs::File::open(path).map_err(|e| format!("device.firmware: cannot read {shown}: {e}"))?;
    let is_file = file.metadata().is_ok_and(|m| m.is_file());
    let mut bytes = Vec::new();
    let most = MAX_FIRMWARE as u64 + 1;
    if is_file {
        file.take(most).read_to_end(&mut bytes).map_err(|e| format!("device.firmware: {shown}: {e}"))?;
    }
    if bytes.is_empty() || bytes.len() > MAX_FIRMWARE {
        return Err(format!(
            "device.firmware: {shown} is no firmware of a Falcon: 1 to {MAX_FIRMWARE} bytes in a regular file are expected"
        ));
    }
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::registry::Registry;

    #[test]
    fn a_profile_without_driver_is_refused_with_the_way_out() {
        let profile = Registry::builtin().profile("ideal-6dof").expect("shipped");
        let error = match open(profile, &Attached::default()) {
            Ok(_) => panic!("opened"),
            Err(e) => e.to_string(),
        };
        assert!(error.contains("novint-falcon") && error.contains("device.driver"), "{error}");
        assert_eq!(Kind::of("novint-falcon-mh"), Some(Kind::Falcon));
        assert_eq!(Kind::of("woodenhaptics-vintage"), Some(Kind::HidHaptic));
        assert_eq!(Kind::of("ideal-6dof"), None);
    }

    /// A profile may speak of wider counters than the device has.
    #[test]
    fn a_preset_that_does_not_fit_the_device_is_refused() {
        let shipped = Registry::builtin().profile("woodenhaptics-v2015").expect("shipped");
        let with = |preset| {
            let mut profile = Profile::clone(&shipped);
            profile.encoders.as_mut().expect("encoders").preset = preset;
            profile
        };
        assert_eq!(super::preset(&with([-32768, 0, 32767])), Ok([i16::MIN, 0, i16::MAX]));
        for far in [-32769, 32768, 40_000, i32::MAX, i32::MIN] {
            for joint in 0..3 {
                let mut preset = [0; 3];
                preset[joint] = far;
                let error = super::preset(&with(preset)).expect_err("refused");
                assert!(error.contains("encoders.preset") && error.contains(&far.to_string()), "{error}");
                let opened = open(Arc::new(with(preset)), &Attached::default());
                assert!(opened.err().is_some_and(|e| e.to_string().contains("encoders.preset")));
            }
        }
    }

    #[test]
    fn a_profile_that_promises_more_than_the_packets_carry_is_refused() {
        let registry = Registry::builtin();
        for shipped in registry.profiles().iter().filter(|p| p.motors.is_some()) {
            let Some(kind) = Kind::of(&shipped.name) else { continue };
            assert_eq!(drivable(shipped, kind), Ok(()), "{}", shipped.name);
        }
        for (name, most) in [("novint-falcon", 4096), ("woodenhaptics-v2015", 2000)] {
            let mut profile = Profile::clone(&registry.profile(name).expect("shipped"));
            for (code, fits) in [(most, true), (most + 1, false), (1 << 30, false)] {
                profile.motors.as_mut().expect("motors").max_code = code;
                let kind = Kind::of(name).expect("a driver");
                assert_eq!(drivable(&profile, kind).is_ok(), fits, "{name}: {code}");
            }
            let opened = open(Arc::new(profile), &Attached::default());
            let text = opened.err().map(|e| e.to_string()).unwrap_or_default();
            assert!(text.contains("motors.max_code") && text.contains(&most.to_string()), "{text}");
        }
    }

    #[test]
    fn of_several_devices_the_serial_number_tells_which() {
        let all = [Some("A1"), None, Some("B\u{1b}[2J")];
        let pick = |n: usize, wanted| the_one(all[..n].iter(), wanted, |d| **d).copied();
        assert_eq!(pick(1, None).expect("the only one"), Some("A1"));
        assert_eq!(pick(3, Some("A1")).expect("named"), Some("A1"));
        assert!(matches!(pick(0, None), Err(OpenFault::NotThere)));
        assert!(
            matches!(pick(3, Some("C")), Err(OpenFault::NotThere)),
            "another one is not taken in its place"
        );
        let Err(OpenFault::Trouble(text)) = pick(3, None) else { panic!("one of three was taken") };
        assert!(
            text.starts_with("3 devices") && text.contains("device.serial to one of A1, (none), "),
            "{text}"
        );
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn a_firmware_file_that_is_none_is_refused() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("firmware");
        assert!(firmware(&path).expect_err("absent").contains("firmware"));
        std::fs::write(&path, []).expect("write");
        assert!(firmware(&path).expect_err("empty").contains("1 to"));
        std::fs::write(&path, vec![0; MAX_FIRMWARE + 1]).expect("write");
        assert!(firmware(&path).is_err());
        assert!(firmware(dir.path()).is_err(), "a directory");
        std::fs::write(&path, [1, 2, 3]).expect("write");
        assert_eq!(firmware(&path).as_deref(), Ok(&[1u8, 2, 3][..]));
    }
}
