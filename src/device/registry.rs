//! Names to devices: one ordered table of what can be opened.
//!
//! The profiles of `devices/` are part of the program; a directory of the user's may replace or add some.

use super::attached::{self, Attached};
use super::profile::{Profile, ProfileError};
use super::replay::{ReplayDevice, Track};
use super::simulated::{Faults, HandScript, Probe, Setup, SimulatedDevice};
use super::{Device, DeviceError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The shipped profiles: file name and text.
const SHIPPED: [(&str, &str); 9] = [
    ("ideal-6dof.toml", include_str!("../../devices/ideal-6dof.toml")),
    ("novint-falcon.toml", include_str!("../../devices/novint-falcon.toml")),
    ("novint-falcon-mh.toml", include_str!("../../devices/novint-falcon-mh.toml")),
    ("phantom-omni.toml", include_str!("../../devices/phantom-omni.toml")),
    ("phantom-premium-1.5.toml", include_str!("../../devices/phantom-premium-1.5.toml")),
    ("spacemouse.toml", include_str!("../../devices/spacemouse.toml")),
    ("woodenhaptics-v2015.toml", include_str!("../../devices/woodenhaptics-v2015.toml")),
    ("woodenhaptics-v2019.toml", include_str!("../../devices/woodenhaptics-v2019.toml")),
    ("woodenhaptics-vintage.toml", include_str!("../../devices/woodenhaptics-vintage.toml")),
];

/// Name of the device that plays a recording back. It has no profile of its own: that of the recorded device holds.
pub const REPLAY: &str = "replay";

/// Largest profile file that is read, bytes.
const MAX_FILE: u64 = 256 * 1024;
/// Most profile files in a directory.
const MAX_FILES: usize = 256;

/// How a device is to be opened.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The user of a simulated device.
    pub hand: HandScript,
    /// Seed of a simulated device's sensor noise and lost samples; `None` = the script's, which its tremor
    /// has in any case.
    pub seed: Option<u64>,
    /// Faults of a simulated device, besides those of the script.
    pub faults: Faults,
    /// Share of samples that a simulated device loses, 0 to 1.
    pub drop_rate: f64,
    /// Transport delays of a simulated device (read, write) instead of the profile's, samples.
    pub delays: Option<(u32, u32)>,
    /// Where a simulated device notes the commands that its motors accept.
    pub probe: Option<Arc<Probe>>,
    /// File shared with other processes for the same purpose; used when `probe` is `None`.
    pub probe_path: Option<PathBuf>,
    /// The real device of this profile instead of its simulation.
    pub attached: Option<Attached>,
    /// What the device [`REPLAY`] plays.
    pub replay: Option<Arc<Track>>,
}

/// What can be opened, in order of name.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    profiles: Vec<Arc<Profile>>,
}

impl Registry {
    /// The shipped devices.
    pub fn builtin() -> Self {
        let mut registry = Self::default();
        for (file, text) in SHIPPED {
            match Profile::parse(file, text) {
                Ok(profile) => registry.insert(profile),
                // A test reads every shipped profile, so this is never seen; a daemon must not panic over it.
                Err(error) => debug_assert!(false, "shipped profile unusable: {error}"),
            }
        }
        registry
    }

    /// The shipped devices, with those of a directory added where one is given.
    ///
    /// # Errors
    /// As [`with_dir`](Self::with_dir).
    pub fn with(dir: Option<&Path>) -> Result<Self, DeviceError> {
        dir.map_or_else(|| Ok(Self::builtin()), Self::with_dir)
    }

    /// The shipped devices with those of `dir/*.toml` added; one of the same name replaces the shipped one.
    ///
    /// # Errors
    /// A directory that cannot be read, a file that is too long, is no profile, or names a device twice.
    pub fn with_dir(dir: &Path) -> Result<Self, DeviceError> {
        let fail = |m: String| DeviceError::Profile(m);
        let mut registry = Self::builtin();
        let entries = std::fs::read_dir(dir)
            .map_err(|e| fail(format!("{}: cannot read the directory of profiles: {e}", dir.display())))?;
        let mut files: Vec<PathBuf> = entries
            .filter_map(|e| e.ok().map(|e| e.path()))
            .filter(|p| p.extension().is_some_and(|x| x == "toml"))
            .collect();
        files.sort();
        if files.len() > MAX_FILES {
            return Err(fail(format!("{}: more than {MAX_FILES} profiles", dir.display())));
        }
        let mut seen: Vec<(String, PathBuf)> = Vec::new();
        for path in files {
            let shown = path.display();
            let meta = std::fs::metadata(&path).map_err(|e| fail(format!("{shown}: {e}")))?;
            if !meta.is_file() || meta.len() > MAX_FILE {
                return Err(fail(format!("{shown}: not a regular file of at most {MAX_FILE} bytes")));
            }
            let text = std::fs::read_to_string(&path).map_err(|e| fail(format!("{shown}: {e}")))?;
            let profile =
                Profile::parse(&shown.to_string(), &text).map_err(|e: ProfileError| fail(e.to_string()))?;
            if let Some((_, first)) = seen.iter().find(|(name, _)| *name == profile.name) {
                let name = &profile.name;
                return Err(fail(format!("{shown}: device '{name}' is also in {}", first.display())));
            }
            if profile.name == REPLAY {
                return Err(fail(format!(
                    "{shown}: '{REPLAY}' is the device that plays a recording back; give the profile another name"
                )));
            }
            seen.push((profile.name.clone(), path));
            registry.insert(profile);
        }
        Ok(registry)
    }

    fn insert(&mut self, profile: Profile) {
        match self.profiles.binary_search_by(|p| p.name.cmp(&profile.name)) {
            Ok(i) => self.profiles[i] = Arc::new(profile),
            Err(i) => self.profiles.insert(i, Arc::new(profile)),
        }
    }

    /// Names that `open` knows, in order.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.profiles.iter().map(|p| p.name.as_str()).collect();
        let at = names.partition_point(|name| *name < REPLAY);
        names.insert(at, REPLAY);
        names
    }

    /// The data sheets, in order of name.
    pub fn profiles(&self) -> &[Arc<Profile>] {
        &self.profiles
    }

    /// Data sheet by name.
    ///
    /// # Errors
    /// An unknown name, the known ones are told; [`REPLAY`], which has none.
    pub fn profile(&self, name: &str) -> Result<Arc<Profile>, DeviceError> {
        if name == REPLAY {
            return Err(DeviceError::Driver(format!(
                "'{REPLAY}' plays a recording back and has the profile of the device that was recorded, none of its own"
            )));
        }
        let found = self.profiles.iter().find(|p| p.name == name).cloned();
        found.ok_or_else(|| DeviceError::Unknown { name: name.to_string(), known: self.names().join(", ") })
    }

    /// True when `open` knows this name.
    ///
    /// # Errors
    /// An unknown name; the known ones are told.
    pub fn knows(&self, name: &str) -> Result<(), DeviceError> {
        if name == REPLAY { Ok(()) } else { self.profile(name).map(drop) }
    }

    /// Opens a device by name: its simulation, or the real one where the options say so, or a recording. A real one need not be
    /// plugged in.
    ///
    /// # Errors
    /// An unknown name, or what the driver says.
    pub fn open(&self, name: &str, options: &OpenOptions) -> Result<Box<dyn Device>, DeviceError> {
        if name == REPLAY {
            return Ok(Box::new(self.open_replay(options.replay.as_ref())?));
        }
        if let Some(attached) = &options.attached {
            return attached::open(self.profile(name)?, attached);
        }
        Ok(Box::new(self.open_simulated(name, options)?))
    }

    fn open_replay(&self, track: Option<&Arc<Track>>) -> Result<ReplayDevice, DeviceError> {
        let fail = |text: String| Err(DeviceError::Driver(text));
        let Some(track) = track else {
            return fail(format!(
                "'{REPLAY}' plays a recording back, and none is given: set device.recording"
            ));
        };
        match self.profile(track.device()) {
            Ok(profile) => Ok(ReplayDevice::new(profile, track.clone())),
            Err(e) => fail(format!("{}: cannot tell which device was recorded: {e}", track.source())),
        }
    }

    /// Opens a simulated device, with its probe and plant in reach.
    ///
    /// # Errors
    /// An unknown name, a probe file that cannot be made, or options out of range.
    pub fn open_simulated(&self, name: &str, options: &OpenOptions) -> Result<SimulatedDevice, DeviceError> {
        let profile = self.profile(name)?;
        let probe = match (&options.probe, &options.probe_path) {
            (Some(probe), _) => Some(Arc::clone(probe)),
            (None, Some(path)) => Some(Arc::new(Probe::create(path).map_err(|e| {
                DeviceError::Driver(format!("{name}: cannot make the probe page {}: {e}", path.display()))
            })?)),
            (None, None) => None,
        };
        SimulatedDevice::new(
            profile,
            Setup {
                hand: options.hand.clone(),
                seed: options.seed,
                faults: options.faults.clone(),
                drop_rate: options.drop_rate,
                delays: options.delays,
                probe,
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::replay::Moment;

    const IDEAL: &str = include_str!("../../devices/ideal-6dof.toml");

    #[test]
    fn every_shipped_file_is_a_device_named_like_its_file() {
        let registry = Registry::builtin();
        let mut files: Vec<&str> = SHIPPED.iter().map(|(f, _)| f.trim_end_matches(".toml")).collect();
        files.push(REPLAY);
        files.sort_unstable();
        assert_eq!(registry.names(), files);
        let on_disk = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/devices"))
            .expect("devices/")
            .filter(|e| e.as_ref().is_ok_and(|e| e.path().extension().is_some_and(|x| x == "toml")))
            .count();
        assert_eq!(on_disk, SHIPPED.len(), "a profile in devices/ is not built in");
    }

    #[test]
    fn a_directory_replaces_and_adds() {
        let dir = tempfile::tempdir().expect("dir");
        std::fs::write(dir.path().join("a.toml"), IDEAL.replace("value = 20.0", "value = 5.0"))
            .expect("write");
        std::fs::write(dir.path().join("b.toml"), IDEAL.replace("name = \"ideal-6dof\"", "name = \"mine\""))
            .expect("write");
        std::fs::write(dir.path().join("README"), "no profile").expect("write");
        let registry = Registry::with_dir(dir.path()).expect("reads");
        assert_eq!(registry.profile("ideal-6dof").expect("there").max_force, 5.0);
        assert!(registry.open("mine", &OpenOptions::default()).is_ok());
        assert!(registry.profile("novint-falcon").is_ok());
    }

    #[test]
    fn a_bad_directory_is_refused_with_file_and_line() {
        let fail = |dir: &Path| match Registry::with_dir(dir) {
            Ok(_) => panic!("accepted"),
            Err(e) => e.to_string(),
        };
        let dir = tempfile::tempdir().expect("dir");
        assert!(fail(&dir.path().join("absent")).contains("absent"));
        std::fs::write(dir.path().join("a.toml"), IDEAL).expect("write");
        std::fs::write(dir.path().join("b.toml"), IDEAL).expect("write");
        let e = fail(dir.path());
        assert!(e.contains("b.toml") && e.contains("also in"), "{e}");
        std::fs::write(dir.path().join("b.toml"), format!("speed = 3\n{IDEAL}")).expect("write");
        let e = fail(dir.path());
        assert!(e.contains("b.toml:1:") && e.contains("speed"), "{e}");
        let taken = IDEAL.replace("name = \"ideal-6dof\"", "name = \"replay\"");
        std::fs::write(dir.path().join("b.toml"), taken).expect("write");
        let e = fail(dir.path());
        assert!(e.contains("b.toml") && e.contains("another name"), "{e}");
        std::fs::write(dir.path().join("b.toml"), [0xff, 0xfe]).expect("write");
        assert!(fail(dir.path()).contains("b.toml"));
        std::fs::write(dir.path().join("b.toml"), vec![b'#'; MAX_FILE as usize + 1]).expect("write");
        assert!(fail(dir.path()).contains("at most"));
        std::fs::remove_file(dir.path().join("b.toml")).expect("remove");
        std::fs::create_dir(dir.path().join("b.toml")).expect("mkdir");
        assert!(fail(dir.path()).contains("regular file"));
    }

    #[test]
    fn a_recording_is_opened_with_the_profile_of_what_was_recorded() {
        let registry = Registry::builtin();
        let open = |device: &str| {
            let pose = Some(crate::geometry::pose::Pose::identity());
            let moment = Moment { time_ns: 0, pose, buttons: 0, lost: 0 };
            let track = Track::new(device, "runs/a.mcap", [moment]).expect("a track");
            registry.open(REPLAY, &OpenOptions { replay: Some(Arc::new(track)), ..OpenOptions::default() })
        };
        let device = open("novint-falcon").expect("opens");
        assert_eq!(device.profile().name, "novint-falcon");
        for unknown in ["omega", REPLAY] {
            let e = open(unknown).err().expect("refused").to_string();
            assert!(e.starts_with("runs/a.mcap: ") && e.contains(&format!("'{unknown}'")), "{e}");
        }
        let e = registry.open(REPLAY, &OpenOptions::default()).err().expect("refused").to_string();
        assert!(e.contains("device.recording"), "{e}");
        assert!(registry.knows(REPLAY).is_ok() && registry.knows("ideal-6dof").is_ok());
        assert!(registry.knows("omega").is_err() && registry.profile(REPLAY).is_err());
    }

    #[test]
    fn a_probe_that_cannot_be_made_says_where() {
        let options =
            OpenOptions { probe_path: Some(PathBuf::from("/nonexistent/probe")), ..OpenOptions::default() };
        let e = match Registry::builtin().open("ideal-6dof", &options) {
            Ok(_) => panic!("opened"),
            Err(e) => e.to_string(),
        };
        assert!(e.contains("/nonexistent/probe"), "{e}");
    }
}
