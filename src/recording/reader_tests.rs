use super::super::{CHUNK_RECORDS, ClockKind, Recorder};
use super::*;

fn record(i: u64) -> TickRecord {
    let x = i as f64;
    TickRecord {
        tick: i,
        planned_ns: i * 1_000_000,
        force: [x.sin(), f64::from_bits(0x7ff8_0000_0000_0000 | i), -0.0],
        distance: f64::INFINITY,
        depth: x * 1e-6,
        ..TickRecord::default()
    }
}

fn bits(r: &TickRecord) -> Vec<u8> {
    let mut out = Vec::new();
    layout::encode(r, &mut out);
    out
}

fn write(path: &Path, n: u64) -> Header {
    let mut header = Header::new("ideal6", "test", ClockKind::Virtual);
    header.epoch_ns = 17;
    let mut recorder = Recorder::create(path, &header).unwrap();
    for i in 0..n {
        recorder.push(&record(i)).unwrap();
    }
    assert_eq!(recorder.records(), n);
    recorder.finish().unwrap();
    header
}

#[test]
fn a_whole_file_comes_back_bit_for_bit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.mcap");
    let header = write(&path, 1300);
    let (read, records, notice) = load(&path).unwrap();
    assert_eq!(read, header);
    assert_eq!(notice, None);
    assert_eq!(records.len(), 1300);
    for (i, r) in records.iter().enumerate() {
        assert_eq!(bits(r), bits(&record(i as u64)), "record {i}");
    }
}

#[test]
fn equal_runs_give_equal_files() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    write(&a, 700);
    write(&b, 700);
    assert!(std::fs::read(a).unwrap() == std::fs::read(b).unwrap());
}

#[test]
fn the_size_estimate_is_an_upper_bound_and_close() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let mut recorder = Recorder::create(&path, &Header::default()).unwrap();
    for i in 0..5000 {
        recorder.push(&record(i)).unwrap();
    }
    let estimate = recorder.bytes();
    recorder.finish().unwrap();
    let real = std::fs::metadata(&path).unwrap().len();
    assert!(real <= estimate && estimate < real + real / 50, "estimate {estimate}, real {real}");
}

/// Cut at every kind of place: the records of the whole chunks before the cut come back, with a notice.
#[test]
fn a_file_cut_off_gives_its_whole_chunks() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.mcap");
    let chunks = 4;
    write(&path, chunks * u64::from(CHUNK_RECORDS));
    let whole = std::fs::read(&path).unwrap();
    let cut = dir.path().join("cut.mcap");
    let mut seen = std::collections::BTreeSet::new();
    for part in 1..200 {
        let len = whole.len() * part / 200;
        std::fs::write(&cut, &whole[..len]).unwrap();
        match load(&cut) {
            Ok((_, records, notice)) => {
                let notice = notice.expect("a cut file must say so");
                assert!(notice.contains("ends in the middle"), "{notice}");
                assert_eq!(records.len() % CHUNK_RECORDS as usize, 0, "cut at {len}");
                for (i, r) in records.iter().enumerate() {
                    assert_eq!(bits(r), bits(&record(i as u64)));
                }
                seen.insert(records.len() / CHUNK_RECORDS as usize);
            }
            Err(error) => assert!(error.to_string().contains("before its head"), "{error}"),
        }
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
}

/// What the process leaves when it is killed: the recorder forgotten, not dropped.
#[test]
fn a_recorder_killed_in_the_middle_leaves_its_flushed_chunks() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.mcap");
    let mut recorder = Recorder::create(&path, &Header::new("d", "s", ClockKind::Real)).unwrap();
    for i in 0..u64::from(CHUNK_RECORDS) * 2 + 100 {
        recorder.push(&record(i)).unwrap();
    }
    std::mem::forget(recorder);
    let (header, records, notice) = load(&path).unwrap();
    assert_eq!(header.device, "d");
    assert_eq!(records.len(), 2 * CHUNK_RECORDS as usize);
    assert!(notice.is_some());
}

#[test]
fn a_flipped_bit_ends_the_reading_before_its_chunk() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.mcap");
    write(&path, 4 * u64::from(CHUNK_RECORDS));
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let (_, records, notice) = load(&path).unwrap();
    assert!(records.len() <= 3 * CHUNK_RECORDS as usize && !records.is_empty());
    assert!(notice.unwrap().contains("damaged"));
}

#[test]
fn other_files_are_refused_with_their_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.mcap");
    for (bytes, expect) in [
        (&b"solid nothing of the kind"[..], "not an MCAP file"),
        (&b""[..], "before its head"),
        (&[0x89, b'M', b'C', b'A'][..], "before its head"),
    ] {
        std::fs::write(&path, bytes).unwrap();
        let error = load(&path).map(drop).unwrap_err().to_string();
        assert!(error.contains(expect) && error.contains("x.mcap"), "{error}");
    }
    let error = load(&dir.path().join("absent.mcap")).map(drop).unwrap_err().to_string();
    assert!(error.contains("absent.mcap") && error.contains("No such file"), "{error}");
    // A sound MCAP file of somebody else.
    let file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    mcap::Writer::new(file).unwrap().finish().unwrap();
    assert!(load(&path).err().unwrap().to_string().contains("not written by hapticd"));
}

#[test]
fn random_damage_never_panics() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.mcap");
    write(&path, 600);
    let whole = std::fs::read(&path).unwrap();
    let mut x = 1u64;
    for _ in 0..300 {
        let mut bytes = whole.clone();
        for _ in 0..8 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // The first kilobytes hold the lengths that could lead astray.
            let at = (x >> 33) as usize % if x & 1 == 0 { 6000 } else { bytes.len() };
            bytes[at] = (x >> 20) as u8;
        }
        std::fs::write(&path, bytes).unwrap();
        if let Ok((_, records, _)) = load(&path) {
            assert!(records.len() <= 600);
        }
    }
}
