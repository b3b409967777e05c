use super::*;

fn wrench(x: f64) -> Wrench {
    Wrench { force: Vec3::new(x, -x, 2.0 * x), torque: Vec3::new(3.0 * x, 0.0, -x) }
}

#[test]
fn one_writer_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("probe");
    let writer = Probe::create(&path).unwrap();
    writer.record(1, &wrench(1.0));
    let error = Probe::create(&path).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
    assert!(text.contains(&format!("process {}", std::process::id())), "{text}");
    assert_eq!(writer.read().wrench, wrench(1.0), "what the first one wrote stands");
    assert!(Probe::is_held(&path).unwrap());
    Probe::open(&path).unwrap().record_zero(2);
    drop(writer);
    assert!(!Probe::is_held(&path).unwrap());
    Probe::create(&path).unwrap();
}

#[test]
fn last_command_comes_back() {
    let probe = Probe::new();
    assert!(probe.read().is_zero());
    for k in 1..=5 {
        probe.record(k * 1000, &wrench(k as f64));
    }
    let r = probe.read();
    assert_eq!((r.count, r.time_ns, r.wrench, r.since_zero, r.zeros), (5, 5000, wrench(5.0), 5, 0));
    probe.record_zero(6000);
    let r = probe.read();
    assert!(r.is_zero());
    assert_eq!((r.count, r.time_ns, r.since_zero, r.zeros), (6, 6000, 0, 1));
}

#[test]
fn watchdog_of_the_device_ends_the_force() {
    let probe = Probe::new();
    probe.reset(Some(1000));
    probe.record(500, &wrench(1.0));
    assert_eq!(probe.read().wrench_at(1500), wrench(1.0));
    assert_eq!(probe.read().wrench_at(1501), Wrench::ZERO);
    probe.reset(None);
    probe.record(500, &wrench(1.0));
    assert_eq!(probe.read().wrench_at(u64::MAX), wrench(1.0));
}

#[test]
fn shared_file_is_seen_by_a_second_mapping_and_outlives_the_writer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("probe");
    let writer = Probe::create(&path).unwrap();
    writer.reset(Some(7));
    let reader = Probe::open(&path).unwrap();
    writer.record(42, &wrench(3.0));
    assert_eq!(reader.read(), writer.read());
    drop(writer);
    let late = Probe::open(&path).unwrap();
    assert_eq!((late.read().wrench, late.read().torque_hold_ns), (wrench(3.0), Some(7)));
    late.record_zero(43);
    assert!(reader.read().is_zero());
}

#[test]
fn wrong_files_are_refused_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    std::fs::write(&path, b"short").unwrap();
    assert!(Probe::open(&path).unwrap_err().to_string().contains("4096"));
    std::fs::write(&path, vec![0u8; PAGE]).unwrap();
    assert!(Probe::open(&path).unwrap_err().to_string().contains("magic"));
    assert!(Probe::create(dir.path()).is_err());
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(Probe::create(&link).is_err());
}

#[test]
fn readers_never_see_a_torn_command() {
    let probe = Probe::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for k in 1..=200_000u64 {
                probe.record(k, &wrench(k as f64));
            }
        });
        let mut last = 0;
        while last < 200_000 {
            let r = probe.read();
            assert!(r.count >= last);
            last = r.count;
            // A reader that lost 64 races in a row returns its last try; the counter tells.
            if probe.read().count == r.count {
                assert_eq!(r.wrench, wrench(r.time_ns as f64));
            }
            std::hint::spin_loop();
        }
    });
}

/// Zero from beside the owner, as a signal handler does; another writer may follow while the first is still looked at.
#[test]
fn the_last_word_zeroes_and_a_released_page_has_a_next_writer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("probe");
    let first = Probe::create(&path).unwrap();
    first.record(1, &wrench(1.0));
    let beside: &dyn Emergency = &first;
    beside.zero(7);
    let seen = Probe::open(&path).unwrap().read();
    assert!(seen.is_zero() && (seen.zeros, seen.since_zero, seen.time_ns) == (1, 0, 7));
    first.release();
    let second = Probe::create(&path).unwrap();
    second.record(8, &wrench(2.0));
    assert_eq!(Probe::open(&path).unwrap().read().wrench, wrench(2.0));
}

/// A page whose file was cut: own memory takes its place, and only where the page was.
#[test]
fn a_cut_page_is_mended_at_its_own_addresses_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("probe");
    let probe = Probe::create(&path).unwrap();
    let Backing::Map(at, _) = &probe.backing else { panic!("a file is mapped") };
    let start = at.as_ptr() as usize;
    std::fs::File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
    assert!(!probe.mend(start - 1) && !probe.mend(start + PAGE) && !probe.mend(0));
    assert!(!Probe::new().mend(start));
    // Any store would raise SIGBUS by now.
    assert!(probe.mend(start + 8));
    for k in 1..=3 {
        probe.record(k, &wrench(k as f64));
    }
    assert_eq!((probe.read().count, probe.read().wrench), (3, wrench(3.0)));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0, "nothing of it reaches the file");
}
