use super::*;
use crate::geometry::field::build::{FieldParams, Resolution, Silent};
use crate::geometry::{Vec3, shapes};
use std::os::unix::process::CommandExt;
use std::process::Command;

fn open(cap: u64) -> (tempfile::TempDir, Cache) {
    let dir = tempfile::tempdir().unwrap();
    let (cache, note) = Cache::open(dir.path().join("fields"), cap);
    assert_eq!(note, None);
    (dir, cache)
}

fn key(n: u8) -> Key {
    Key::new("test", 1, &[&[n]])
}

fn payload(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 31 % 251) as u8).collect()
}

fn files(cache: &Cache) -> usize {
    fs::read_dir(&cache.dir).unwrap().count()
}

#[test]
fn bytes_come_back_and_keys_tell_everything_apart() {
    let (_dir, cache) = open(1 << 20);
    for n in [0, 1, 1000, 100_000] {
        cache.put(&key(1), &payload(n)).unwrap();
        assert_eq!(cache.get(&key(1)), Lookup::Hit(payload(n)));
    }
    assert_eq!(cache.get(&key(2)), Lookup::Miss);
    assert_eq!(files(&cache), 1, "nothing unfinished is left");
    let keys = [
        Key::new("a", 1, &[b"xy"]),
        Key::new("b", 1, &[b"xy"]),
        Key::new("a", 2, &[b"xy"]),
        Key::new("a", 1, &[b"x", b"y"]),
        Key::new("a", 1, &[b"xy", b""]),
        Key::new("a", 1, &[]),
    ];
    for (i, a) in keys.iter().enumerate() {
        assert!(keys[i + 1..].iter().all(|b| a != b && a.to_string() != b.to_string()));
    }
}

#[test]
fn a_field_comes_back_bit_for_bit_and_is_built_once() {
    let (_dir, cache) = open(1 << 30);
    let mesh = shapes::torus(0.05, 0.02, 40, 20);
    let params = FieldParams { resolution: Resolution::Longest(24), padding: 3 };
    let mut notes = Vec::new();
    let mut get = |mesh, params| cache.field(mesh, params, &Silent, &mut notes).unwrap();
    let (field, report, source) = get(&mesh, &params);
    assert_eq!(source, Source::Built);
    let (again, same, source) = get(&mesh, &params);
    assert_eq!(source, Source::Disk);
    assert!(again == field && again.scale.to_bits() == field.scale.to_bits());
    // Infinite widths compare equal, NaN would not.
    assert_eq!(same, report);

    let other = FieldParams { padding: 4, ..params };
    assert_eq!(get(&mesh, &other).2, Source::Built);
    let mut moved = mesh.clone();
    moved.vertices[7].x += 1e-15;
    assert_eq!(get(&moved, &params).2, Source::Built);
    let mut turned = mesh.clone();
    turned.triangles[3].rotate_left(1);
    assert_eq!(get(&turned, &params).2, Source::Built);
    assert!(notes.is_empty(), "{notes:?}");
}

#[test]
fn an_entry_that_is_no_field_is_dropped_and_rebuilt() {
    let (_dir, cache) = open(1 << 30);
    let mesh = shapes::cuboid(Vec3::repeat(0.1));
    let params = FieldParams { resolution: Resolution::Longest(8), padding: 2 };
    let (field, report) = crate::geometry::field::build::build(&mesh, &params, &Silent).unwrap();
    let good = encode_field(&field, &report);
    assert_eq!(decode_field(&good).unwrap().0, field);
    for cut in [0, 1, 111, 112, good.len() - 1, good.len() - 2] {
        assert!(decode_field(&good[..cut.min(good.len() - 1)]).is_none(), "cut to {cut} bytes");
    }
    for (at, bad) in [(32, u32::MAX), (32, 1), (36, 0), (24 + 4, 0x7ff0_0000), (44, 0)] {
        let mut bytes = good.clone();
        bytes[at..at + 4].copy_from_slice(&bad.to_le_bytes());
        assert!(decode_field(&bytes).is_none(), "{bad} at {at}");
    }
    cache.put(&field_key(&mesh, &params), b"no field").unwrap();
    let mut notes = Vec::new();
    let (rebuilt, _, source) = cache.field(&mesh, &params, &Silent, &mut notes).unwrap();
    assert!(source == Source::Built && rebuilt == field);
    assert!(matches!(&notes[..], [CacheNote::Dropped { .. }]), "{notes:?}");
    assert_eq!(cache.field(&mesh, &params, &Silent, &mut notes).unwrap().2, Source::Disk);
}

/// Puts `bytes` in place of an entry's file; the entry must be found bad, deleted, and good again after a new put.
fn assert_dropped(cache: &Cache, bytes: &[u8], what: &str) {
    let path = cache.path(&key(1));
    fs::write(&path, bytes).unwrap();
    let found = cache.get(&key(1));
    assert!(matches!(found, Lookup::Bad(CacheNote::Dropped { .. })), "{what}: {found:?}");
    assert!(!path.exists(), "{what}: not deleted");
    assert_eq!(cache.get(&key(1)), Lookup::Miss, "{what}");
}

#[test]
fn every_changed_byte_and_every_cut_is_found() {
    let (_dir, cache) = open(1 << 20);
    cache.put(&key(1), &payload(3000)).unwrap();
    let good = fs::read(cache.path(&key(1))).unwrap();
    assert_eq!(good.len(), Header::SIZE + 3000);
    let body = (Header::SIZE..good.len()).step_by(97).chain([good.len() - 1]);
    for at in (0..Header::SIZE).chain(body) {
        for flip in [0x01, 0x80, 0xff] {
            let mut bad = good.clone();
            bad[at] ^= flip;
            assert_dropped(&cache, &bad, &format!("byte {at} ^ {flip:#x}"));
        }
    }
    for len in (0..=Header::SIZE + 1).chain([2000, good.len() - 1]) {
        assert_dropped(&cache, &good[..len], &format!("cut to {len} bytes"));
    }
    assert_dropped(&cache, &[&good[..], b"x"].concat(), "a byte too many");
    // A sound file under another entry's name, and one of another version that is sound in itself.
    cache.put(&key(2), &payload(10)).unwrap();
    assert_dropped(&cache, &fs::read(cache.path(&key(2))).unwrap(), "another entry");
    let mut foreign = good.clone();
    foreign[8..12].copy_from_slice(&2u32.to_le_bytes());
    let seal = blake3::hash(&foreign[..88]);
    foreign[88..120].copy_from_slice(seal.as_bytes());
    assert_dropped(&cache, &foreign, "another version");
    fs::write(cache.path(&key(1)), &good).unwrap();
    assert_eq!(cache.get(&key(1)), Lookup::Hit(payload(3000)));
}

#[test]
fn a_lying_length_reserves_no_memory_and_odd_files_do_not_hang() {
    let (dir, cache) = open(1 << 20);
    // A sound header that announces 2^62 bytes.
    let mut bytes = Header::of(&key(1), b"").encode();
    bytes[48..56].copy_from_slice(&(1u64 << 62).to_le_bytes());
    let seal = blake3::hash(&bytes[..88]);
    bytes[88..120].copy_from_slice(seal.as_bytes());
    assert_dropped(&cache, &bytes, "2^62 bytes announced");

    let path = cache.path(&key(1));
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(matches!(cache.get(&key(1)), Lookup::Bad(CacheNote::Dropped { .. })));
    fs::create_dir(&path).unwrap();
    assert!(matches!(cache.get(&key(1)), Lookup::Bad(_)));
    fs::remove_dir(&path).unwrap();
    let secret = dir.path().join("secret");
    fs::write(&secret, b"x").unwrap();
    std::os::unix::fs::symlink(&secret, &path).unwrap();
    assert!(matches!(cache.get(&key(1)), Lookup::Bad(_)));
    cache.put(&key(1), b"new").unwrap();
    assert_eq!(fs::read(&secret).unwrap(), b"x", "written through a link");
    assert_eq!(cache.get(&key(1)), Lookup::Hit(b"new".to_vec()));
}

#[test]
fn the_oldest_entries_go_first_and_reading_keeps_young() {
    let size = Header::SIZE as u64 + 1000;
    let (_dir, cache) = open(3 * size);
    let age = |n: u8, seconds: u64| {
        let file = File::options().write(true).open(cache.path(&key(n))).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
    };
    for n in 1..=3 {
        cache.put(&key(n), &payload(1000)).unwrap();
        age(n, 100 - u64::from(n));
    }
    assert_eq!(cache.size(), 3 * size);
    // 1 is the oldest until it is read.
    assert!(matches!(cache.get(&key(1)), Lookup::Hit(_)));
    let used = Entry::of(&cache.path(&key(1))).unwrap().used;
    assert!(used.elapsed().unwrap() < Duration::from_secs(60), "reading made it young");
    age(1, 50);
    cache.put(&key(4), &payload(1000)).unwrap();
    let there = |n: u8| cache.path(&key(n)).exists();
    assert_eq!([1, 2, 3, 4].map(there), [true, false, true, true]);
    assert!(cache.size() <= 3 * size);
    // Replacing an entry needs no room for the old one; a larger one may need two.
    cache.put(&key(4), &payload(1000)).unwrap();
    assert_eq!([1, 3, 4].map(there), [true; 3]);
    age(4, 10);
    cache.put(&key(5), &payload(1900)).unwrap();
    assert_eq!([1, 3, 4, 5].map(there), [false, false, true, true]);
    assert!(matches!(cache.put(&key(6), &payload(4000)), Err(CacheNote::TooLarge { .. })));
    assert!(there(4) && there(5), "too large an entry drives nothing out");
    // Foreign files are neither counted nor deleted.
    fs::write(cache.dir.join("notes.txt"), payload(9000)).unwrap();
    cache.put(&key(7), &payload(1000)).unwrap();
    assert!(cache.dir.join("notes.txt").exists());
}

#[test]
fn writers_and_readers_at_once_see_whole_entries() {
    let (_dir, cache) = open(40_000);
    let expect = |n: u8| vec![n; 2000 + usize::from(n)];
    std::thread::scope(|s| {
        for t in 0..4u8 {
            let cache = &cache;
            s.spawn(move || {
                for round in 0..150u8 {
                    let n = round.wrapping_mul(7).wrapping_add(t) % 24;
                    cache.put(&key(n), &expect(n)).unwrap();
                    match cache.get(&key((n + 5) % 24)) {
                        Lookup::Hit(bytes) => assert_eq!(bytes, expect((n + 5) % 24)),
                        Lookup::Miss => {}
                        Lookup::Bad(note) => panic!("{note}"),
                    }
                }
            });
        }
    });
    assert!(cache.entries().iter().all(|e| e.size > 2000));
    assert_eq!(files(&cache), cache.entries().len(), "nothing unfinished is left");
}

#[test]
fn leftovers_of_dead_writers_are_swept_and_fresh_ones_kept() {
    let (_dir, cache) = open(1 << 20);
    let old = cache.dir.join(format!("{UNFINISHED}old"));
    let fresh = cache.dir.join(format!("{UNFINISHED}fresh"));
    for path in [&old, &fresh] {
        fs::write(path, b"half").unwrap();
    }
    let file = File::options().write(true).open(&old).unwrap();
    file.set_modified(SystemTime::now() - 2 * STALE).unwrap();
    Cache::open(&cache.dir, 1 << 20);
    assert!(!old.exists() && fresh.exists());
}

#[test]
fn a_directory_that_is_none_turns_the_cache_off_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, b"").unwrap();
    let (cache, note) = Cache::open(file.join("fields"), 1 << 20);
    let note = note.unwrap();
    assert!(matches!(&note, CacheNote::Off { .. }) && note.to_string().contains("cache.dir"), "{note}");
    assert_eq!(cache.put(&key(1), b"x"), Ok(()));
    assert_eq!(cache.get(&key(1)), Lookup::Miss);
    assert_eq!(Cache::none().get(&key(1)), Lookup::Miss);
}

#[test]
fn a_read_only_directory_still_serves_what_it_holds() {
    let (_dir, cache) = open(1 << 20);
    cache.put(&key(1), b"kept").unwrap();
    let set = |mode: u32| {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&cache.dir, fs::Permissions::from_mode(mode)).unwrap();
    };
    // Permissions do not bind root; /proc takes files from nobody.
    let root = nix::unistd::geteuid().is_root();
    set(0o500);
    let (closed, note) = Cache::open(if root { Path::new("/proc/self") } else { &cache.dir }, 1 << 20);
    set(0o700);
    assert!(matches!(note, Some(CacheNote::ReadOnly { .. })), "{note:?}");
    assert_eq!(closed.put(&key(2), b"x"), Ok(()));
    assert_eq!(closed.get(&key(2)), Lookup::Miss);
    if !root {
        assert_eq!(closed.get(&key(1)), Lookup::Hit(b"kept".to_vec()));
    }
}

/// Runs in a child whose files may not exceed 8 KiB, as on a full disk; does nothing otherwise.
#[test]
fn in_a_child_with_little_room() {
    let Some(dir) = std::env::var_os("HAPTICD_TEST_FULL_CACHE") else { return };
    let (cache, note) = Cache::open(PathBuf::from(dir), 1 << 30);
    assert_eq!(note, None);
    cache.put(&key(1), &payload(100)).unwrap();
    let failed = cache.put(&key(2), &payload(100_000)).unwrap_err();
    assert!(matches!(failed, CacheNote::NotWritten { .. }), "{failed}");
    assert_eq!(cache.get(&key(2)), Lookup::Miss);
    assert_eq!(cache.get(&key(1)), Lookup::Hit(payload(100)));
    assert_eq!(files(&cache), 1, "the unfinished file is gone");
    // The field is there all the same.
    let mesh = shapes::icosphere(0.05, 2);
    let mut notes = Vec::new();
    let params = FieldParams { resolution: Resolution::Longest(24), padding: 4 };
    let built = cache.field(&mesh, &params, &Silent, &mut notes).unwrap();
    assert!(built.2 == Source::Built && matches!(&notes[..], [CacheNote::NotWritten { .. }]), "{notes:?}");
}

#[test]
fn a_full_disk_costs_the_cache_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "scene::cache::tests::in_a_child_with_little_room", "--nocapture"]);
    child.env("HAPTICD_TEST_FULL_CACHE", dir.path().join("fields"));
    // SAFETY: between fork and exec only two async-signal-safe system calls are made.
    unsafe {
        child.pre_exec(|| {
            let small = libc::rlimit { rlim_cur: 8192, rlim_max: 8192 };
            libc::setrlimit(libc::RLIMIT_FSIZE, &small);
            // Without this, exceeding the limit kills instead of failing.
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            Ok(())
        });
    }
    let out = child.output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{text}{}", String::from_utf8_lossy(&out.stderr));
    assert!(text.contains("1 passed"), "the child ran nothing: {text}");
}
