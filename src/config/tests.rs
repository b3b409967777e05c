//! Tests of the configuration and its reader.

use super::source::{Source, closest};
use super::*;

fn parse(text: &str) -> Result<Config, SourceError> {
    Config::parse("hapticd.toml", text, Path::new("/etc/hapticd"))
}

#[test]
fn the_shipped_file_lists_every_key_with_its_default() {
    let source = Source::parse("config/hapticd.toml", SHIPPED).unwrap();
    assert_eq!(Config::read(&source, Path::new("/etc")).unwrap(), Config::default());
    let tables =
        ["device", "servo", "limits", "coupling", "arming", "control", "scene", "cache", "recordings"];
    let mut known = source.asked();
    for t in tables {
        assert!(known.remove(t), "section {t} was read");
    }
    assert_eq!(known, source.given());
}

#[test]
fn each_key_of_the_shipped_file_is_explained_just_above_it_or_shares_a_comment() {
    let mut seen_comment = false;
    for line in SHIPPED.lines() {
        match line.chars().next() {
            Some('#') => seen_comment = true,
            Some('[') => seen_comment = false,
            Some(_) => assert!(seen_comment, "no comment in the section before: {line}"),
            None => {}
        }
    }
}

#[test]
fn an_empty_file_is_the_default() {
    assert_eq!(parse("").unwrap(), Config::default());
}

#[test]
fn values_are_read_and_paths_resolved_against_the_file() {
    let c = parse("[device]\nname='falcon'\nhand='hands/a.toml'\n[servo]\ncore=1\n[limits]\nforce_n=4\n")
        .unwrap();
    assert_eq!(c.device.name, "falcon");
    assert_eq!(c.device.hand.as_deref(), Some(Path::new("/etc/hapticd/hands/a.toml")));
    assert_eq!(c.servo.core, Core::Index(1));
    assert_eq!(c.limits.force_n, 4.0);
}

#[test]
fn several_devices_are_a_list_with_a_role_each() {
    let text = "[[device]]\nrole='left'\nname='novint-falcon'\ndriver='attached'\nserial='1'\n[[device]]\nrole='right'\n\
                name='novint-falcon'\ndriver='attached'\nserial='2'\ncore=3\n[[device]]\nrole='pen'\nhand='h.toml'\n[servo]\ncore=1\n";
    let c = parse(text).unwrap();
    let roles: Vec<_> = c.devices().map(|d| d.role.as_str()).collect();
    assert_eq!(roles, ["left", "right", "pen"]);
    assert_eq!(c.cores(), [Core::Index(1), Core::Index(3), Core::Auto]);
    assert_eq!(c.devices().nth(2).unwrap().hand.as_deref(), Some(Path::new("/etc/hapticd/h.toml")));
    assert_eq!(c.device_of(None).unwrap().serial.as_deref(), Some("1"));
    assert_eq!(c.device_of(Some("right")).unwrap().serial.as_deref(), Some("2"));
    assert!(c.device_of(Some("middle")).unwrap_err().contains("left, right, pen"));
    // A list of one is what a table is.
    let one = parse("[[device]]\nname='novint-falcon'\n").unwrap();
    assert_eq!(one, parse("[device]\nname='novint-falcon'\n").unwrap());
}

/// (text, line, key, part of the cause)
const WRONG: &[(&str, usize, &str, &str)] = &[
    ("[servo]\npriorty = 3\n", 2, "servo.priorty", "did you mean 'priority'?"),
    ("[servo]\n\npriority = 'high'\n", 3, "servo.priority", "expected an integer, found a string"),
    ("[servo]\npriority = 99\n", 2, "servo.priority", "99 is outside 1 to 98"),
    ("[servo]\npriority = -1\n", 2, "servo.priority", "-1 is outside 0 to 255"),
    ("[servo]\ncore = 'second'\n", 2, "servo.core", "neither \"auto\" nor the number of a CPU"),
    ("[servo]\ncore = 4000\n", 2, "servo.core", "outside 0 to 1023"),
    ("[coupling]\nlaw = 'statick'\n", 2, "coupling.law", "\"static\""),
    ("[coupling]\npreset = 'hard'\n", 2, "coupling.preset", "\"crisp\""),
    ("[coupling]\ntool_mass_kg = 0.001\n", 2, "coupling.tool_mass_kg", "outside 0.012 to 1"),
    ("[coupling]\nbraking_mm = -1\n", 2, "coupling.braking_mm", "outside 0 to 20"),
    ("[limits]\nenergy = 'on'\n", 2, "limits.energy", "\"certified\""),
    ("[limits]\nforce_n = nan\n", 2, "limits.force_n", "not a finite number"),
    ("[limits]\nforce_n = 1e999\n", 2, "limits.force_n", "finite"),
    ("[limits]\nforce_n = -1.0\n", 2, "limits.force_n", "outside 0.001 to 100"),
    ("[limit]\n", 1, "limit", "did you mean 'limits'?"),
    ("servo = 3\n", 1, "servo", "expected a table, found an integer"),
    ("[servo]\nrequire_rt = 1\n", 2, "servo.require_rt", "expected true or false"),
    ("[control]\nmetrics = '0.0.0.0:9000'\n", 2, "control.metrics", "not on loopback"),
    ("[control]\nmetrics = 'here'\n", 2, "control.metrics", "no address with a port"),
    ("[control]\nsocket = 'relative'\n", 2, "control.socket", "absolute"),
    ("[control]\nowners = ['@']\n", 2, "control.owners", "a leading '@'"),
    ("[control]\nowners = ['a', 3]\n", 2, "control.owners", "expected a string, found an integer"),
    ("[device]\nname = ''\n", 2, "device.name", "empty"),
    ("[device]\nzzzzzz = 1\n", 2, "device.zzzzzz", "known here: "),
    ("[servo]\npriority = 1\npriority = 2\n", 3, "file", "duplicate"),
    ("[servo\n", 1, "file", ""),
    ("[device]\ncore = 'fast'\n", 2, "device.core", "the number of a CPU"),
    ("device = 3\n", 1, "device", "expected a table"),
    ("device = []\n", 1, "device", "an empty list"),
    ("[[device]]\nrole='a'\n[[device]]\nroll='b'\nrole='b'\n", 4, "device[1].roll", "did you mean 'role'?"),
    ("[[device]]\nrole='a'\n[[device]]\nrole='a'\n", 4, "device[1].role", "another device"),
    ("[[device]]\nrole='a'\n[[device]]\nname='novint-falcon'\n", 3, "device[1]", "needs a role of its own"),
    ("[[device]]\nrole='a'\n[[device]]\nrole='b/c'\n", 4, "device[1].role", "letters, digits"),
    ("[[device]]\nrole='a'\n[[device]]\nrole=''\n", 4, "device[1].role", "letters, digits"),
    (
        "[[device]]\nrole='a'\nprobe='p'\n[[device]]\nrole='b'\nprobe='p'\n",
        6,
        "device[1].probe",
        "'a' leaves its commands",
    ),
    (
        "[[device]]\nrole='a'\ndriver='attached'\nserial='7'\n[[device]]\nrole='b'\ndriver='attached'\nserial='7'\n",
        8,
        "device[1].serial",
        "cannot be both",
    ),
    (
        "[[device]]\nrole='a'\nname='novint-falcon'\ndriver='attached'\n[[device]]\nrole='b'\n\
         name='novint-falcon'\ndriver='attached'\nserial='7'\n",
        9,
        "device[1].serial",
        "give each its serial number",
    ),
    ("[device]\nmoves='main'\n", 2, "device.moves", "no other device"),
    ("[[device]]\nrole='a'\n[[device]]\nrole='b'\nmoves='c'\n", 5, "device[1].moves", "no other device"),
    ("[[device]]\nrole='a'\n[[device]]\nrole='b'\nmoves='b'\n", 5, "device[1].moves", "no other device"),
    (
        "[[device]]\nrole='a'\nmoves='b'\n[[device]]\nrole='b'\nmoves='a'\n",
        3,
        "device[0].moves",
        "moves a workspace itself",
    ),
    (
        "[[device]]\nrole='a'\n[[device]]\nrole='b'\nmoves='a'\n[[device]]\nrole='c'\nmoves='a'\n",
        5,
        "device[1].moves",
        "'c' moves the workspace of 'a', too",
    ),
    (
        "[[device]]\nrole='a'\n[[device]]\nrole='b'\n[[device]]\nrole='c'\n[[device]]\nrole='d'\n[[device]]\nrole='e'\n",
        1,
        "device",
        "5 devices, more than the 4",
    ),
];

#[test]
fn errors_name_file_line_key_and_cure() {
    for (text, line, key, cause) in WRONG {
        let e = parse(text).expect_err(text);
        assert_eq!((e.file.as_str(), e.line, e.key.as_str()), ("hapticd.toml", *line, *key), "{text}: {e}");
        assert!(e.cause.contains(cause), "{text}: {e}");
        assert!(e.to_string().starts_with(&format!("hapticd.toml:{line}: ")), "{e}");
    }
}

#[test]
fn a_missing_file_is_named() {
    let e = Config::load(Path::new("/nonexistent/hapticd.toml")).unwrap_err();
    assert!(e.to_string().starts_with("/nonexistent/hapticd.toml: "), "{e}");
}

/// Nobody writes to it: it is an empty file, not one to wait for. One that is written to is read to its end.
#[test]
fn a_fifo_is_read_without_waiting_for_a_writer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(read_text(&path).unwrap(), "");
    let (from, to) = nix::unistd::pipe().map(|(r, w)| (r, std::fs::File::from(w))).unwrap();
    let writer = std::thread::spawn(move || {
        use std::io::Write;
        for k in 0..100 {
            let mut to = &to;
            to.write_all(format!("line {k}\n").as_bytes()).unwrap();
        }
    });
    let through = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&from));
    let text = read_text(Path::new(&through)).unwrap();
    writer.join().unwrap();
    assert!(text.lines().count() == 100 && text.starts_with("line 0\n"), "{text}");
}

#[test]
fn suggestions_are_near_misses_only() {
    let known = ["priority", "core", "budget_us"];
    assert_eq!(closest("prioritty", known.into_iter()), Some("priority"));
    assert_eq!(closest("cor", known.into_iter()), Some("core"));
    assert_eq!(closest("temperature", known.into_iter()), None);
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "[ -~\n]{0,200}") {
        let _ = parse(&text);
    }

    #[test]
    fn no_mangled_shipped_file_panics(at in 0..SHIPPED.len(), with in "[ -~]{0,4}") {
        let mut text = SHIPPED.to_string();
        if text.is_char_boundary(at) {
            text.insert_str(at, &with);
        }
        let _ = parse(&text);
    }
}
