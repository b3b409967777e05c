use super::*;
use crate::protocol::datagram::Kind;
use crate::scene::snapshot::MOTION_HISTORY;
use crate::servo::handle::{MAX_MOTION_DELAY_NS, motion_delay_ns};

const MS: u64 = 1_000_000;

fn header(stream: u16, seq: u32, time_ns: u64) -> Header {
    Header { kind: Kind::Motion, minor: 0, seq, session: 7, time_ns, stream, count: 1, entry_size: 64 }
}

fn at(object: u32, x: f64) -> MotionPose {
    MotionPose { object, position: [x, 0.0, 0.0], orientation: [0.0, 0.0, 0.0, 1.0] }
}

fn moving(index: u8, id: u32, owner: u64) -> Moving {
    Moving { index, id, incarnation: 3, owner, persistent: false }
}

fn table() -> (MotionTable, u16) {
    let mut t = MotionTable::default();
    t.set_objects(&[moving(0, 10, 7), moving(2, 11, 8)]);
    let s = t.open(7, motion_delay_ns(2 * MS, DEFAULT_JITTER_NS), 100 * MS, 0).expect("a stream");
    (t, s)
}

fn taken(f: Fate) -> (u32, bool, u32) {
    match f {
        Fate::Taken { gap, late, strangers, .. } => (gap, late, strangers),
        other => panic!("{other:?}"),
    }
}

#[test]
fn delays_are_bounded_and_grow_with_the_period() {
    assert_eq!(motion_delay_ns(2 * MS, 6 * MS), 13 * MS);
    assert_eq!(motion_delay_ns(1000 * MS, 6 * MS), MAX_MOTION_DELAY_NS);
    assert_eq!(motion_delay_ns(16 * MS, u64::MAX), MAX_MOTION_DELAY_NS);
}

#[test]
fn the_clock_map_finds_the_fastest_transit_without_jumping() {
    let mut c = ClockMap::default();
    // Offset 1000 s, transit 0.2 ms plus up to 5 ms in a fixed pattern; the fifth datagram is the fastest.
    let jitter = [5_u64, 3, 4, 2, 0, 1];
    let mut last = None::<i64>;
    for i in 0..3000_u64 {
        let sent = i * 2 * MS;
        let now = sent + 1_000_000 * MS + MS / 5 + jitter[i as usize % 6] * MS;
        assert!(!c.observe(sent, now));
        let offset = c.offset;
        if let Some(l) = last {
            assert!((offset - l).abs() <= (2 * MS + 5 * MS) as i64 / 10, "jumped by {}", offset - l);
        }
        last = Some(offset);
    }
    assert_eq!(c.map(0), 1_000_000 * MS + MS / 5);
}

#[test]
fn a_drifting_clock_is_followed() {
    let mut c = ClockMap::default();
    // The sender's clock runs 100 ppm slow: after 100 s it is 10 ms behind.
    for i in 0..50_000_u64 {
        let now = 1_000 * MS + i * 2 * MS;
        let sent = i * 2 * MS - i * 2 * MS / 10_000;
        c.observe(sent, now);
    }
    let truth = 1_000 * MS + 100_000 * MS;
    let mapped = c.map(100_000 * MS - 10 * MS);
    // The window is at most 10 s long, in which it drifts by 1 ms.
    assert!(mapped.abs_diff(truth) <= MS + MS / 10, "{} ns off", mapped.abs_diff(truth));
}

#[test]
fn a_stepped_clock_starts_the_mapping_anew() {
    let mut c = ClockMap::default();
    let hour = 3_600_000 * MS;
    assert!(!c.observe(2 * hour, 10 * MS));
    assert!(c.observe(3 * hour, 12 * MS));
    assert_eq!(c.map(3 * hour), 12 * MS);
    assert!(c.observe(hour, 14 * MS));
    assert_eq!(c.map(hour), 14 * MS);
    // Far-away clocks do no harm either.
    let mut c = ClockMap::default();
    c.observe(u64::MAX, 5);
    assert_eq!(c.map(u64::MAX), 5);
}

#[test]
fn late_datagrams_are_sorted_in_by_time_and_replays_refused() {
    let (mut t, s) = table();
    for (seq, ms) in [(0_u32, 0_u64), (1, 2), (3, 6)] {
        t.feed(&header(s, seq, ms * MS), &[at(10, seq.into())], 1000 * MS + ms * MS);
    }
    assert_eq!(taken(t.feed(&header(s, 2, 4 * MS), &[at(10, 2.0)], 1007 * MS)), (0, true, 0));
    assert_eq!(t.feed(&header(s, 2, 4 * MS), &[at(10, 9.0)], 1008 * MS), Fate::Replay);
    assert_eq!(taken(t.feed(&header(s, 100, 200 * MS), &[at(10, 5.0)], 1200 * MS)), (96, false, 0));
    assert_eq!(t.feed(&header(s, 4, 8 * MS), &[at(10, 9.0)], 1201 * MS), Fate::Old);
    let frame = t.frame().expect("changed");
    let e = frame.entries[0].expect("an entry");
    let xs: Vec<f64> = e.samples[..usize::from(e.len)].iter().map(|s| s.pose.translation.x).collect();
    assert_eq!(xs, [0.0, 1.0, 2.0, 3.0, 5.0]);
    let times: Vec<u64> = e.samples[..5].iter().map(|s| s.time_ns / MS).collect();
    assert_eq!(times, [1000, 1002, 1004, 1006, 1200]);
    assert_eq!((e.id, e.incarnation, e.delay_ns), (10, 3, 13 * MS));
    assert_eq!(e.lease_until_ns, 1300 * MS);
    assert!(t.frame().is_none(), "nothing changed since");
}

#[test]
fn the_newest_samples_are_kept() {
    let (mut t, s) = table();
    for i in 0..80_u32 {
        t.feed(&header(s, i, u64::from(i) * MS), &[at(10, i.into())], 1000 * MS + u64::from(i) * MS);
    }
    let e = t.frame().expect("changed").entries[0].expect("an entry");
    assert_eq!(usize::from(e.len), MOTION_HISTORY);
    assert_eq!(e.samples[0].pose.translation.x, (80 - MOTION_HISTORY) as f64);
    assert_eq!(e.samples[MOTION_HISTORY - 1].pose.translation.x, 79.0);
}

#[test]
fn only_own_moving_objects_follow() {
    let (mut t, s) = table();
    assert_eq!(taken(t.feed(&header(s, 0, 0), &[at(10, 1.0), at(11, 1.0), at(99, 1.0)], MS)), (0, false, 2));
    assert_eq!(t.feed(&header(9, 0, 0), &[at(10, 1.0)], MS), Fate::NoStream);
    let frame = t.frame().expect("changed");
    assert_eq!(frame.entries.len(), 3);
    assert!(frame.entries[0].is_some() && frame.entries[1].is_none() && frame.entries[2].is_none());
}

#[test]
fn closing_freezes_and_all_poses_travel_together() {
    let (mut t, s) = table();
    let other = t.open(8, 0, 50 * MS, 0).expect("a stream");
    t.feed(&header(s, 0, 0), &[at(10, 1.0)], 1000 * MS);
    t.feed(&Header { session: 8, ..header(other, 0, 0) }, &[at(11, 2.0)], 1000 * MS);
    let frame = t.frame().expect("changed");
    assert!(frame.entries[0].is_some() && frame.entries[2].is_some());
    t.close(7, 1010 * MS);
    let frame = t.frame().expect("changed");
    let e = frame.entries[0].expect("stays where it is");
    assert_eq!((e.lease_until_ns, e.len, e.samples[0].pose.translation.x), (1010 * MS, 1, 1.0));
    assert_eq!(frame.entries[2].expect("the other goes on").lease_until_ns, 1050 * MS);
    assert_eq!(t.feed(&header(s, 1, MS), &[at(10, 1.0)], 1011 * MS), Fate::NoStream);
}

#[test]
fn poses_survive_a_publish_but_not_another_object_in_the_same_place() {
    let (mut t, s) = table();
    t.feed(&header(s, 0, 0), &[at(10, 1.0)], 1000 * MS);
    t.set_objects(&[Moving { incarnation: 4, ..moving(0, 10, 7) }]);
    let e = t.frame().expect("changed").entries[0].expect("kept");
    assert_eq!((e.incarnation, e.len), (4, 1));
    t.set_objects(&[moving(0, 12, 7)]);
    assert!(t.frame().expect("changed").entries[0].is_none());
}

#[test]
fn each_stop_is_told_once_whatever_ended_it() {
    let (mut t, s) = table();
    let lapse = |session, stream, objects: &[u32]| Lapse { session, stream, objects: objects.to_vec() };
    let idle = t.open(7, 0, 100 * MS, 0).expect("a stream");
    assert_eq!(t.lapsed(u64::MAX), [], "neither has begun");
    // By silence.
    t.feed(&header(s, 0, 0), &[at(10, 1.0)], 1000 * MS);
    assert_eq!(t.lapsed(1099 * MS), []);
    assert_eq!(t.lapsed(1100 * MS), [lapse(7, s, &[10])]);
    assert_eq!(t.lapsed(2000 * MS), [], "once");
    // It goes on, and stops again: with its session.
    t.feed(&header(s, 1, 1000 * MS), &[at(10, 2.0)], 3000 * MS);
    t.close(7, 3001 * MS);
    assert_eq!(t.lapsed(3001 * MS), [lapse(7, s, &[10])]);
    assert_eq!(t.lapsed(u64::MAX), [], "stream {idle} never moved anything");
    let text = lapse(7, 1, &[10]).to_string();
    assert_eq!(text, "stream 1 of session 7 stopped; object 10 stands still and its force ramps to zero");
    assert!(lapse(7, 1, &[1; 20]).to_string().contains("and more"));
}

#[test]
fn streams_are_limited() {
    let mut t = MotionTable::default();
    for _ in 0..MAX_STREAMS {
        assert!(t.open(1, 0, 0, 0).is_some());
    }
    assert_eq!(t.open(1, 0, 0, 0), None);
    assert!(t.open(2, 0, 0, 0).is_some());
}

#[test]
fn streams_that_lapsed_or_were_closed_make_room() {
    let (mut t, first) = table();
    let lease = 100 * MS;
    for n in 1..MAX_STREAMS as u64 {
        assert!(t.open(7, 0, lease, n * MS).is_some());
    }
    assert_eq!(t.open(7, 0, lease, lease), None, "all may still begin");
    // One is fed and stays alive; of the others the one opened first makes room.
    let late = lease + OPEN_GRACE_NS + 50 * MS;
    assert!(matches!(t.feed(&header(first, 1, 5), &[at(10, 0.5)], late), Fate::Taken { .. }));
    let again = t.open(7, 0, lease, late).expect("a lapsed stream makes room");
    assert_eq!(again, 2);
    assert!(matches!(t.feed(&header(first, 2, 6), &[at(10, 0.6)], late), Fate::Taken { .. }));
    // A closed one frees its number, and its datagrams are no longer taken.
    assert!(t.close_stream(7, first, late) && !t.close_stream(7, first, late));
    assert!(!t.close_stream(9, again, late), "another session's");
    assert_eq!(t.feed(&header(first, 3, 7), &[at(10, 0.7)], late), Fate::NoStream);
    // The object stays where it was, and does not follow the next stream of that number before it is fed.
    assert_eq!(t.open(7, 0, lease, late), Some(first));
    let frame = t.frame().expect("a frame");
    let entry = frame.entries[0].as_ref().expect("an entry");
    assert_eq!((entry.len, entry.samples[0].pose.translation.x), (1, 0.6));
    assert!(entry.lease_until_ns <= late);
}
