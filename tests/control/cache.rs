//! The daemon's disk cache of fields, from outside: what the answers, the log and the status say of it.

use crate::daemon::{Daemon, cube_file};
use hapticd::control::client::Client;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Puts a cube at that resolution into the scene; the notes of the answer that had to build it.
fn build(c: &mut Client, dir: &Path, cells: u32) -> Vec<String> {
    let name = format!("cube-{cells}");
    let load = json!({"name": name, "source": "descriptor", "format": "stl", "unit": "m",
        "resolution": {"longest": cells}});
    c.call_with_file("mesh.load", load, &cube_file(dir, 0.04)).expect("loads");
    c.call("material.set", json!({"name": "m", "stiffness": 500.0})).expect("a material");
    let made = c
        .call("object.create", json!({"name": format!("{name}-object"), "mesh": name, "material": "m"}))
        .expect("an object, whatever the cache does");
    let text = |v: &Value| v.as_str().expect("a text").to_owned();
    made["notes"].as_array().map(|notes| notes.iter().map(text).collect()).unwrap_or_default()
}

fn entries(d: &Daemon) -> Vec<PathBuf> {
    let list = std::fs::read_dir(d.dir.path().join("cache")).expect("the cache");
    list.map(|e| e.expect("an entry").path()).collect()
}

fn restart(d: &mut Daemon) {
    d.signal(Signal::SIGTERM);
    assert!(d.wait_exit().success());
    d.child = Daemon::spawn(&d.dir, "", |_| ());
    d.wait_ready();
}

#[test]
fn fields_outlive_the_daemon_and_a_damaged_file_is_said_and_built_anew() {
    let mut d = Daemon::start("");
    assert_eq!(build(&mut d.client("first"), d.dir.path(), 24), [""; 0]);
    let file = entries(&d).pop().expect("an entry");
    let good = std::fs::read(&file).expect("reads");
    let mut bad = good.clone();
    bad.truncate(good.len() - 100);
    std::fs::write(&file, &bad).expect("writes");
    restart(&mut d);
    let notes = build(&mut d.client("second"), d.dir.path(), 24);
    assert!(notes.len() == 1 && notes[0].contains("built anew"), "{notes:?}");
    d.wait_log("built anew");
    assert!(std::fs::read(&file).expect("reads") == good, "the same field in the same file");
    restart(&mut d);
    let modified = || std::fs::metadata(&file).and_then(|m| m.modified()).expect("a time");
    let (before, inode) =
        (modified(), std::os::unix::fs::MetadataExt::ino(&file.metadata().expect("a file")));
    assert_eq!(build(&mut d.client("third"), d.dir.path(), 24), [""; 0]);
    assert!(modified() > before, "reading makes an entry young");
    assert_eq!(
        std::os::unix::fs::MetadataExt::ino(&file.metadata().expect("a file")),
        inode,
        "not built again"
    );
}

#[test]
fn a_cache_directory_that_is_none_is_said_at_start_and_with_each_build() {
    let place = tempfile::NamedTempFile::new().expect("a file");
    let d = Daemon::start(&format!("[cache]\ndir = {:?}\n", place.path().join("below a file")));
    let said = "built fields are not cached";
    assert!(d.status().warnings.iter().any(|w| w.contains(said)), "{:?}", d.status().warnings);
    d.wait_log(said);
    let mut c = d.client("builder");
    let notes = build(&mut c, d.dir.path(), 24);
    assert!(notes.len() == 1 && notes[0].contains(said), "{notes:?}");
    // What builds nothing says nothing.
    let moved = c
        .call("object.update", json!({"object": "cube-24-object", "pose": {"position": [0.0, 0.1, 0.0]}}))
        .expect("changes");
    assert!(moved["notes"].as_array().is_none_or(Vec::is_empty), "{moved}");
}

#[test]
fn a_disk_that_is_full_costs_the_cache_and_nothing_else() {
    // No file may have more than 64 KiB, as on a disk with no more room.
    let full = |command: &mut Command| {
        // SAFETY: between fork and exec only two async-signal-safe system calls are made.
        unsafe {
            command.pre_exec(|| {
                let small = libc::rlimit { rlim_cur: 64 << 10, rlim_max: 64 << 10 };
                libc::setrlimit(libc::RLIMIT_FSIZE, &small);
                // The daemon must bear it by itself.
                libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
                Ok(())
            })
        };
    };
    let d = Daemon::start_with("", full);
    let mut c = d.client("builder");
    assert_eq!(build(&mut c, d.dir.path(), 16), [""; 0], "a small one fits");
    let notes = build(&mut c, d.dir.path(), 64);
    assert!(notes.len() == 1 && notes[0].contains("not written"), "{notes:?}");
    d.wait_log("not written");
    assert_eq!(entries(&d).len(), 1, "nothing half-written stays");
    c.call("ping", json!({})).expect("goes on");
}

#[test]
fn the_cache_keeps_to_its_size() {
    let d = Daemon::start("[cache]\nsize_mb = 1\n");
    let mut c = d.client("builder");
    // About 0.4 MB each: the third drops the first.
    for cells in [48, 49, 50] {
        build(&mut c, d.dir.path(), cells);
    }
    let files = entries(&d);
    let bytes: u64 = files.iter().map(|f| f.metadata().expect("a file").len()).sum();
    assert!(files.len() == 2 && bytes <= 1 << 20, "{} files of {bytes} bytes", files.len());
}
