//! Motion streams: from sequence numbers and sender times to the frame of all moving poses that the servo plays.
//!
//! No clock and no socket here: times come in as arguments. The delay of a stream is fixed when it is opened and
//! told to the client: [`motion_delay_ns`](crate::servo::handle::motion_delay_ns).

use crate::geometry::Pose;
use crate::geometry::pose::Vec3;
use crate::protocol::datagram::{Header, MotionPose};
use crate::protocol::replay::{Verdict, Window};
use crate::scene::history::{carried, keep};
use crate::scene::snapshot::{MotionEntry, MotionFrame, MotionSample};
use std::collections::BTreeMap;

/// Spread of arrival that is assumed when the client names none, ns.
pub const DEFAULT_JITTER_NS: u64 = 6_000_000;
/// Motion streams a session may have open.
pub const MAX_STREAMS: usize = 16;

/// A stream that was opened may begin this much later than its lease says, ns.
const OPEN_GRACE_NS: u64 = 5_000_000_000;

/// Half of the time over which the smallest transit time is searched, ns.
const CLOCK_WINDOW_NS: u64 = 5_000_000_000;
/// A sender clock that disagrees by more than this has been stepped, ns.
const CLOCK_STEP_NS: i64 = 1_000_000_000;
/// The mapping moves by at most this part of the time that passed, so that playback never jumps.
const CLOCK_SLEW: f64 = 0.1;

/// Maps a sender's clock to the servo's: the fastest datagram of the last seconds had the least delay, so the
/// smallest difference (arrival - sending) is the best estimate of the clocks' offset.
#[derive(Clone, Debug, Default)]
pub struct ClockMap {
    /// Offset in use, ns.
    offset: i64,
    /// Smallest difference in this window and in the one before.
    least: [i64; 2],
    window_start: u64,
    last: u64,
    begun: bool,
}

impl ClockMap {
    /// Takes a pair of times; true when the sender's clock was stepped and the mapping began anew.
    pub fn observe(&mut self, sent_ns: u64, now_ns: u64) -> bool {
        let difference = now_ns.wrapping_sub(sent_ns).cast_signed();
        let stepped = self.begun && (difference.wrapping_sub(self.offset)).saturating_abs() > CLOCK_STEP_NS;
        if !self.begun || stepped {
            *self = Self {
                offset: difference,
                least: [difference; 2],
                window_start: now_ns,
                last: now_ns,
                begun: true,
            };
            return stepped;
        }
        if now_ns.saturating_sub(self.window_start) > CLOCK_WINDOW_NS {
            self.least = [difference, self.least[0]];
            self.window_start = now_ns;
        }
        self.least[0] = self.least[0].min(difference);
        let want = self.least[0].min(self.least[1]);
        let most = (now_ns.saturating_sub(self.last) as f64 * CLOCK_SLEW) as i64;
        self.offset += (want - self.offset).clamp(-most, most);
        self.last = now_ns;
        false
    }

    /// A sender time on the servo's clock, ns.
    pub fn map(&self, sent_ns: u64) -> u64 {
        sent_ns.wrapping_add(self.offset.cast_unsigned())
    }
}

/// A moving object of the scene as published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moving {
    /// Index into the motion frame.
    pub index: u8,
    /// Object.
    pub id: u32,
    /// Its incarnation.
    pub incarnation: u32,
    /// Session that may move it.
    pub owner: u64,
    /// True when it outlives its session; then any session may move it that may edit.
    pub persistent: bool,
}

/// What became of a motion datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Taken.
    Taken {
        /// Sequence numbers skipped before it.
        gap: u32,
        /// It was overtaken by a newer one and sorted in by its time.
        late: bool,
        /// The sender's clock was stepped.
        stepped: bool,
        /// Poses of objects that do not exist, do not move, or belong to another session.
        strangers: u32,
    },
    /// Seen before.
    Replay,
    /// Too old to know.
    Old,
    /// The session has not opened this stream.
    NoStream,
}

#[derive(Clone, Debug)]
struct Stream {
    window: Window,
    clock: ClockMap,
    delay_ns: u64,
    lease_ns: u64,
    /// It moves something until then; 0 = it has not begun, or its stop was told.
    until_ns: u64,
    /// From then on it may make room for another.
    alive_ns: u64,
}

/// A stream that has stopped, by itself or with its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lapse {
    /// Whose.
    pub session: u64,
    /// Which.
    pub stream: u16,
    /// What it moved last.
    pub objects: Vec<u32>,
}

impl std::fmt::Display for Lapse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "stream {} of session {} stopped; ", self.stream, self.session)?;
        let list: Vec<String> = self.objects.iter().take(8).map(u32::to_string).collect();
        let more = if self.objects.len() > list.len() { " and more" } else { "" };
        match list.len() {
            0 => f.write_str("it moved nothing any more"),
            1 => write!(f, "object {} stands still and its force ramps to zero", list.join("")),
            _ => write!(f, "objects {}{more} stand still and their forces ramp to zero", list.join(", ")),
        }
    }
}

#[derive(Clone, Debug)]
struct Track {
    object: Moving,
    /// On the sender's clock, ascending.
    history: Vec<MotionSample>,
    /// The stream that feeds it.
    fed_by: Option<(u64, u16)>,
    until_ns: u64,
}

/// All moving objects and all streams.
#[derive(Clone, Debug, Default)]
pub struct MotionTable {
    tracks: BTreeMap<u8, Track>,
    streams: BTreeMap<(u64, u16), Stream>,
    sequence: u64,
    changed: bool,
    /// Stopped with their sessions, not yet told.
    ended: Vec<Lapse>,
}

impl MotionTable {
    /// Takes over the moving objects of a newly published scene; poses of objects that stay are kept.
    pub fn set_objects(&mut self, objects: &[Moving]) {
        let mut old = std::mem::take(&mut self.tracks);
        for m in objects {
            let kept = old.remove(&m.index).filter(|t| t.object.id == m.id);
            let mut track =
                kept.unwrap_or_else(|| Track { object: *m, history: Vec::new(), fed_by: None, until_ns: 0 });
            track.object = *m;
            self.tracks.insert(m.index, track);
        }
        self.changed = true;
    }

    /// Opens the session's next free stream; when all numbers are taken, the one that has been silent longest beyond
    /// its lease and the 5 s of grace for a first datagram makes room. `None` when [`MAX_STREAMS`] are alive.
    pub fn open(&mut self, session: u64, delay_ns: u64, lease_ns: u64, now_ns: u64) -> Option<u16> {
        let free = (1..=MAX_STREAMS as u16).find(|n| !self.streams.contains_key(&(session, *n)));
        let number = match free {
            Some(n) => n,
            None => {
                let mine = self.streams.iter().filter(|((s, _), _)| *s == session);
                let ((_, n), _) =
                    mine.filter(|(_, s)| s.alive_ns < now_ns).min_by_key(|(_, s)| s.alive_ns)?;
                let n = *n;
                self.close_stream(session, n, now_ns);
                n
            }
        };
        let alive_ns = now_ns.saturating_add(lease_ns).saturating_add(OPEN_GRACE_NS);
        let (window, clock) = (Window::default(), ClockMap::default());
        self.streams
            .insert((session, number), Stream { window, clock, delay_ns, lease_ns, until_ns: 0, alive_ns });
        Some(number)
    }

    /// Ends one stream; the objects it moved stop where they are. False when the session has no such stream.
    pub fn close_stream(&mut self, session: u64, number: u16, now_ns: u64) -> bool {
        let key = (session, number);
        let Some(stream) = self.streams.remove(&key) else { return false };
        if stream.until_ns != 0 {
            let told = self.lapse(key);
            self.ended.push(told);
        }
        for t in self.tracks.values_mut().filter(|t| t.fed_by == Some(key)) {
            // A later stream of this number must not continue the motion on another clock.
            t.fed_by = None;
            t.until_ns = t.until_ns.min(now_ns);
            self.changed = true;
        }
        true
    }

    /// Ends a session's streams; the objects they moved stop where they are.
    pub fn close(&mut self, session: u64, now_ns: u64) {
        let stop = |((s, n), stream): (&(u64, u16), &Stream)| {
            (*s == session && stream.until_ns != 0).then(|| self.lapse((*s, *n)))
        };
        let ended: Vec<Lapse> = self.streams.iter().filter_map(stop).collect();
        self.ended.extend(ended);
        self.streams.retain(|(s, _), _| *s != session);
        for t in self.tracks.values_mut().filter(|t| t.fed_by.is_some_and(|(s, _)| s == session)) {
            t.until_ns = t.until_ns.min(now_ns);
            self.changed = true;
        }
    }

    fn lapse(&self, key: (u64, u16)) -> Lapse {
        let objects = self.tracks.values().filter(|t| t.fed_by == Some(key)).map(|t| t.object.id).collect();
        Lapse { session: key.0, stream: key.1, objects }
    }

    /// The streams that have stopped since the last call, touched or not.
    pub fn lapsed(&mut self, now_ns: u64) -> Vec<Lapse> {
        let mut all = std::mem::take(&mut self.ended);
        let over = |s: &Stream| s.until_ns != 0 && s.until_ns <= now_ns;
        let keys: Vec<_> = self.streams.iter().filter(|(_, s)| over(s)).map(|(k, _)| *k).collect();
        for key in keys {
            all.push(self.lapse(key));
            if let Some(s) = self.streams.get_mut(&key) {
                s.until_ns = 0;
            }
        }
        all
    }

    /// Takes an authenticated datagram.
    pub fn feed(&mut self, header: &Header, poses: &[MotionPose], now_ns: u64) -> Fate {
        let key = (header.session, header.stream);
        let Some(stream) = self.streams.get_mut(&key) else { return Fate::NoStream };
        let (gap, late) = match stream.window.check(header.seq) {
            Verdict::Newest { gap } => (gap, false),
            Verdict::Late => (0, true),
            Verdict::Replay => return Fate::Replay,
            Verdict::Old => return Fate::Old,
        };
        stream.alive_ns = now_ns.saturating_add(stream.lease_ns);
        let stepped = stream.clock.observe(header.time_ns, now_ns);
        let mut strangers = 0;
        for p in poses {
            let mine = |t: &&mut Track| {
                t.object.id == p.object && (t.object.persistent || t.object.owner == header.session)
            };
            let Some(track) = self.tracks.values_mut().find(mine) else {
                strangers += 1;
                continue;
            };
            if stepped || track.fed_by != Some(key) {
                track.history.clear();
                track.fed_by = Some(key);
            }
            let sample = MotionSample { time_ns: header.time_ns, pose: to_pose(p) };
            keep(&mut track.history, sample, stream.delay_ns);
            track.until_ns = now_ns + stream.lease_ns;
            stream.until_ns = track.until_ns;
            self.changed = true;
        }
        Fate::Taken { gap, late, stepped, strangers }
    }

    /// A servo has come that has seen no frame: the next call of [`frame`](Self::frame) gives one.
    pub fn again(&mut self) {
        self.changed = true;
    }

    /// The frame of all moving poses, when anything changed since the last one.
    pub fn frame(&mut self) -> Option<Box<MotionFrame>> {
        if !std::mem::take(&mut self.changed) {
            return None;
        }
        self.sequence += 1;
        let len = self.tracks.keys().next_back().map_or(0, |k| usize::from(*k) + 1);
        let mut entries = vec![None; len];
        for (index, track) in &self.tracks {
            let Some(stream) = track.fed_by.and_then(|k| self.streams.get(&k)) else {
                // A closed stream: its last poses stay, its lease is over.
                entries[usize::from(*index)] = track.frozen();
                continue;
            };
            entries[usize::from(*index)] = track.entry(&stream.clock, stream.delay_ns);
        }
        Some(Box::new(MotionFrame { sequence: self.sequence, entries }))
    }

    /// The latest pose received for an object, for `scene`.
    pub fn latest(&self, id: u32) -> Option<Pose> {
        let track = self.tracks.values().find(|t| t.object.id == id)?;
        track.history.last().map(|s| s.pose)
    }
}

impl Track {
    fn entry(&self, clock: &ClockMap, delay_ns: u64) -> Option<MotionEntry> {
        self.history.last()?;
        Some(MotionEntry {
            id: self.object.id,
            incarnation: self.object.incarnation,
            samples: carried(&self.history)
                .map(|s| MotionSample { time_ns: clock.map(s.time_ns), pose: s.pose }),
            len: self.history.len() as u8,
            delay_ns,
            lease_until_ns: self.until_ns,
        })
    }

    /// One sample for ever: the object stands at the last pose received.
    fn frozen(&self) -> Option<MotionEntry> {
        let sample = MotionSample { time_ns: self.until_ns, pose: self.history.last()?.pose };
        Some(MotionEntry {
            id: self.object.id,
            incarnation: self.object.incarnation,
            samples: carried(&[sample]),
            len: 1,
            delay_ns: 0,
            lease_until_ns: self.until_ns,
        })
    }
}

fn to_pose(p: &MotionPose) -> Pose {
    let [x, y, z, w] = p.orientation;
    let rotation = nalgebra::UnitQuaternion::from_quaternion(nalgebra::Quaternion::new(w, x, y, z));
    Pose::from_parts(Vec3::from(p.position).into(), rotation)
}

#[cfg(test)]
#[path = "motion_tests.rs"]
mod tests;
