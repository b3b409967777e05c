//! The lists in `clippy.toml`: every real-time module switches them on, and every entry bites.
//!
//! An uncontended lock makes no system call and touches no heap, so neither seccomp nor the counting allocator sees it;
//! only its name gives it away.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Modules on the servo path. A module's attribute covers the modules below it.
const REAL_TIME: &[&str] = &[
    "contact/ist/query.rs",
    "contact/share.rs",
    "contact/sphere.rs",
    "contact/stiffness.rs",
    "contact/vps/manifold.rs",
    "contact/vps/query.rs",
    "contact/vps/side.rs",
    "device/io/front.rs",
    "device/replay/player.rs",
    "haptics/coupling.rs",
    "haptics/guard.rs",
    "servo/adopt.rs",
    "servo/arming.rs",
    "servo/mapping.rs",
    "servo/motion.rs",
    "servo/query.rs",
    "servo/schedule.rs",
    "servo/sense.rs",
    "servo/tick.rs",
    "servo/velocity.rs",
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn every_real_time_module_switches_the_lists_on() {
    for module in REAL_TIME {
        let text = std::fs::read_to_string(root().join("src").join(module)).expect(module);
        for lint in ["disallowed_macros", "disallowed_methods", "disallowed_types", "unwrap_used", "panic"] {
            assert!(text.contains(&format!("clippy::{lint}")), "{module} does not deny clippy::{lint}");
        }
    }
}

/// Paths of one list in `clippy.toml`.
fn entries(list: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("clippy.toml")).expect("clippy.toml");
    let table: toml::Table = text.parse().expect("sound TOML");
    let list = table[list].as_array().expect("a list");
    list.iter().map(|e| e["path"].as_str().expect("a path").to_owned()).collect()
}

/// Lints one file as a real-time module would be; `None` where clippy is not installed.
fn lint(code: &str) -> Option<String> {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("violation.rs");
    let deny = "#![deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)]\n";
    std::fs::write(&file, format!("{deny}#![allow(unused, deprecated)]\n{code}")).expect("writes");
    let driver = |dir: &Path| {
        Command::new("clippy-driver")
            .env("CLIPPY_CONF_DIR", root())
            .args(["--edition", "2024", "--crate-type", "lib", "--emit", "metadata", "--out-dir"])
            .args([dir, &file])
            .output()
    };
    match driver(dir.path()) {
        Ok(out) => Some(String::from_utf8_lossy(&out.stderr).into_owned()),
        Err(e) => {
            println!("skipped: clippy-driver: {e}; install it with `rustup component add clippy`");
            None
        }
    }
}

#[test]
fn every_entry_is_caught() {
    let code = r#"
use std::borrow::ToOwned;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::rc::Rc;
use std::sync::{Arc, Barrier, Condvar, LazyLock, Mutex, Once, OnceLock, RwLock, mpsc};
pub fn waits(m: &Mutex<u8>, l: &RwLock<u8>, s: &mpsc::Sender<u8>, r: &mpsc::Receiver<u8>) {
    std::thread::sleep(std::time::Duration::ZERO);
    std::thread::spawn(|| {});
    std::thread::yield_now();
    std::thread::park();
    let _ = (m.lock(), m.try_lock(), l.read(), l.write(), s.send(1), r.recv());
    let _ = (std::time::Instant::now(), std::time::SystemTime::now());
}
pub fn allocates(v: &mut Vec<u8>, x: &str) -> String {
    let _ = (Box::new(1), Arc::new(1), Rc::new(1), Vec::<u8>::with_capacity(1));
    v.push(1);
    v.insert(0, 1);
    v.reserve(1);
    v.resize(1, 0);
    v.extend_from_slice(&[1]);
    v.extend([1]);
    v.sort();
    let _ = (v.to_vec(), v.iter().collect::<Vec<_>>(), [1u8][..].to_owned());
    std::mem::forget(vec![1]);
    let _ = format!("{x}");
    x.to_string()
}
pub fn calls() {
    let _ = (std::fs::read("x"), std::fs::write("x", "y"), File::open("x"), File::create("x"), std::env::var("x"));
    print!("x");
    println!("x");
    eprint!("x");
    eprintln!("x");
    dbg!(1);
    std::process::exit(1);
}
pub fn aborts() { std::process::abort() }
pub fn panics(n: u8) {
    match n { 0 => panic!("x"), 1 => unreachable!(), 2 => todo!(), _ => unimplemented!() }
}
thread_local! { static X: u8 = const { 1 }; }
pub struct Types(Condvar, Barrier, Once, OnceLock<u8>, LazyLock<u8>, HashMap<u8, u8>, BTreeMap<u8, u8>, VecDeque<u8>);
"#;
    let Some(said) = lint(code) else { return };
    let mut missed = Vec::new();
    for (list, kind) in
        [("disallowed-methods", "method"), ("disallowed-types", "type"), ("disallowed-macros", "macro")]
    {
        for path in entries(list) {
            // tracing is a crate of its own, not at hand for a lone file; the architecture test bans it by name.
            if !path.starts_with("tracing::") && !said.contains(&format!("disallowed {kind} `{path}`")) {
                missed.push(path);
            }
        }
    }
    assert!(missed.is_empty(), "not caught: {missed:?}\n{said}");
}

#[test]
fn an_uncontended_lock_is_caught_by_name() {
    let Some(said) = lint("pub fn f(m: &std::sync::Mutex<u8>) -> u8 { m.lock().map(|v| *v).unwrap_or(0) }")
    else {
        return;
    };
    assert!(said.contains("disallowed method `std::sync::Mutex::lock`"), "{said}");
}

#[test]
fn sound_code_passes() {
    let Some(said) = lint("pub fn f(v: &mut [f64]) { v.sort_unstable_by(f64::total_cmp); v.fill(1.0); }")
    else {
        return;
    };
    assert!(!said.contains("disallowed"), "{said}");
}
