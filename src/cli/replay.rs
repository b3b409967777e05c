//! From a recording to what the device `replay` plays.
//!
//! A recording holds the tool in the scene. The device is put where the scene's mapping takes it to just that: the tool retraces its
//! path whatever clutch and centre were when it was recorded. With the dynamic and the static law the tool recorded is a virtual one that the contact
//! held back: where the device was is not known, and pressing would play back as resting. Such a recording is refused.

use super::out;
use crate::device::replay::{Moment, Track};
use crate::geometry::Pose;
use crate::recording::{Recording, VIRTUAL};
use crate::scene::model::Scene;
use crate::servo::mapping::Mapping;
use crate::servo::record::{FLAG_HELD_SAMPLE, TickRecord};
use anyhow::bail;
use nalgebra::{Quaternion, UnitQuaternion, Vector3};
use std::path::Path;
use std::sync::Arc;

/// Reads a recording for a scene whose tool shall move as it did. What is missing of a file that was cut off is said to the user.
///
/// # Errors
/// A file that is no recording, was made with a virtual tool, or holds nothing that can be played back; each error names the file.
pub fn track(path: &Path, scene: &Scene) -> anyhow::Result<Arc<Track>> {
    let mut recording = Recording::open(path)?;
    let device = recording.header().device.clone();
    let law = recording.header().coupling.clone();
    if VIRTUAL.contains(&law.as_str()) {
        bail!(
            "{}: made with law = \"{law}\": it holds the virtual tool's path, not the device's, so the forces would come out \
             wrong; `plot` reads it, `replay` plays recordings made with law = \"direct\"",
            path.display()
        );
    }
    let mut mapping = Mapping::default();
    let of_scene = scene.mapping();
    mapping.set(&of_scene.device_in_scene, of_scene.workspace_scale);
    let offset = scene.tool().offset;
    let moments = recording.by_ref().filter_map(|r| moment(&r, |tool| mapping.device(tool, &offset)));
    let track = Track::new(&device, &path.display().to_string(), moments)?;
    if let Some(notice) = recording.notice() {
        out::note(format_args!("hapticd: {notice}"));
    }
    Ok(Arc::new(track))
}

/// The device's reading in a tick; `None` where it had nothing new.
fn moment(r: &TickRecord, device: impl Fn(&Pose) -> Pose) -> Option<Moment> {
    let time_ns = r.planned_ns.saturating_add_signed(r.wake_ns);
    let held = r.flags & FLAG_HELD_SAMPLE != 0;
    if held && r.lost == 0 {
        return None;
    }
    let pose = (!held).then(|| {
        let [x, y, z, w] = r.orientation;
        let rotation = UnitQuaternion::new_unchecked(Quaternion::new(w, x, y, z));
        device(&Pose::from_parts(Vector3::from(r.position).into(), rotation))
    });
    Some(Moment { time_ns, pose, buttons: r.buttons, lost: r.lost })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::device::registry::{OpenOptions, REPLAY, Registry};
    use crate::recording::{ClockKind, Header, Recorder};
    use crate::scene::model::Edit;
    use std::path::PathBuf;

    const MS: u64 = 1_000_000;

    fn record(k: u64) -> TickRecord {
        let turn = UnitQuaternion::from_scaled_axis(Vector3::new(0.0, 0.001 * k as f64, 0.2));
        TickRecord {
            tick: k,
            planned_ns: k * MS,
            wake_ns: 1000,
            sample_seq: k,
            position: [0.001 * k as f64, 0.02, -0.01],
            orientation: turn.coords.into(),
            ..TickRecord::default()
        }
    }

    fn write(dir: &Path, device: &str, records: impl IntoIterator<Item = TickRecord>) -> PathBuf {
        let path = dir.join("run.mcap");
        let mut recorder =
            Recorder::create(&path, &Header::new(device, "live", ClockKind::Real)).expect("creates");
        records.into_iter().for_each(|r| recorder.push(&r).expect("writes"));
        recorder.finish().expect("closes");
        path
    }

    /// Pressing, recorded with a virtual tool, would play back as a device at rest on the surface.
    #[test]
    fn the_path_of_a_virtual_tool_is_no_device_s() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("virtual.mcap");
        for (law, plays) in [("direct", true), ("", true), ("dynamic", false), ("static", false)] {
            let header =
                Header { coupling: law.into(), ..Header::new("ideal-6dof", "live", ClockKind::Virtual) };
            let mut recorder = Recorder::create(&path, &header).expect("creates");
            (0..10).for_each(|k| recorder.push(&record(k)).expect("writes"));
            recorder.finish().expect("closes");
            match track(&path, &Scene::default()) {
                Ok(track) => assert!(plays && track.duration_ns() == 9 * MS, "{law}"),
                Err(e) => {
                    let text = format!("{e:#}");
                    assert!(!plays && text.starts_with(&path.display().to_string()), "{law}: {text}");
                    assert!(text.contains(&format!("law = \"{law}\"")), "{text}");
                }
            }
        }
    }

    fn open(track: Arc<Track>) -> Box<dyn Device> {
        let options = OpenOptions { replay: Some(track), ..OpenOptions::default() };
        Registry::builtin().open(REPLAY, &options).expect("opens")
    }

    /// Whatever the scene's mapping and tool: the device's poses lead to the recorded ones.
    #[test]
    fn the_tool_retraces_its_path_in_any_scene() {
        let dir = tempfile::tempdir().expect("dir");
        let path = write(dir.path(), "ideal-6dof", (0..100).map(record));
        let frame = Pose::new(Vector3::new(0.1, -0.2, 0.3), Vector3::new(0.3, 0.2, -1.0));
        let mapped = [Edit::SetMapping { device_in_scene: Some(frame), workspace_scale: Some(2.5) }];
        let (mapped, _) = Scene::default().apply(0, &mapped).expect("a scene");
        for (scene, most) in [(Scene::default(), 0.0), (mapped, 1e-12)] {
            let track = track(&path, &scene).expect("reads");
            assert_eq!((track.device(), track.duration_ns()), ("ideal-6dof", 99 * MS));
            let mut mapping = Mapping::default();
            mapping.set(&scene.mapping().device_in_scene, scene.mapping().workspace_scale);
            let mut device = open(track);
            for k in 0..100 {
                let at = mapping.point(&device.read(k * MS).expect("a sample").pose);
                let (want, p) = (record(k), at.translation.vector);
                assert!((p - Vector3::from(want.position)).amax() <= most, "{k}");
                let [x, y, z, w] = want.orientation;
                assert!((at.rotation.coords - nalgebra::Vector4::new(x, y, z, w)).amax() <= most, "{k}");
            }
        }
    }

    #[test]
    fn held_samples_are_no_samples_and_lost_ones_are_failed_reads() {
        let dir = tempfile::tempdir().expect("dir");
        let held = |k, lost| TickRecord { flags: FLAG_HELD_SAMPLE, lost, ..record(k) };
        // Before its first sample a device has only held ones.
        let records = [held(0, 0), held(1, 1), record(2), held(3, 0), held(4, 1), record(5)];
        let path = write(dir.path(), "novint-falcon", records);
        let mut device = open(track(&path, &Scene::default()).expect("reads"));
        assert_eq!(device.profile().name, "novint-falcon");
        let seqs: Vec<_> = (0..4).map(|k| device.read(k * MS).map(|s| s.seq).ok()).collect();
        assert_eq!(seqs, [Some(1), Some(1), None, Some(2)]);
    }

    #[test]
    fn errors_name_the_file() {
        let dir = tempfile::tempdir().expect("dir");
        let refused = |path: &Path, why: &str| {
            let error = match track(path, &Scene::default()) {
                Ok(_) => panic!("accepted: {why}"),
                Err(e) => format!("{e:#}"),
            };
            assert!(error.starts_with(&path.display().to_string()) && error.contains(why), "{error}");
        };
        refused(&dir.path().join("absent.mcap"), "cannot open");
        let rubbish = dir.path().join("rubbish.mcap");
        std::fs::write(&rubbish, vec![7; 4096]).expect("writes");
        refused(&rubbish, "not an MCAP file");
        refused(&write(dir.path(), "ideal-6dof", []), "no sample");
        let nowhere = TickRecord { position: [f64::NAN; 3], ..record(1) };
        refused(&write(dir.path(), "ideal-6dof", [record(0), nowhere]), "holds no pose");
        let unturned = TickRecord { orientation: [0.0; 4], ..record(1) };
        refused(&write(dir.path(), "ideal-6dof", [unturned]), "holds no pose");
        refused(&write(dir.path(), "ideal-6dof", [record(3), record(3)]), "comes after");
        let early = TickRecord { planned_ns: 0, wake_ns: i64::MIN, ..record(1) };
        refused(&write(dir.path(), "ideal-6dof", [record(0), early]), "comes after");
        // Cut off anywhere: what is whole is played, or the file is refused; it is always named.
        let whole = std::fs::read(write(dir.path(), "ideal-6dof", (0..2000).map(record))).expect("reads");
        for cut in (0..whole.len()).step_by(whole.len() / 50) {
            std::fs::write(&rubbish, &whole[..cut]).expect("writes");
            match track(&rubbish, &Scene::default()) {
                Ok(track) => assert!(track.duration_ns() < 2000 * MS),
                Err(e) => assert!(format!("{e:#}").starts_with(&rubbish.display().to_string()), "{e:#}"),
            }
        }
    }
}
